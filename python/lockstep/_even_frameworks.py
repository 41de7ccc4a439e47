# SPDX-License-Identifier: Apache-2.0
"""accelerate, and Trainer through it, go on in an epoch with a new loader made of the old one's parts: what was even would
be no more. Given one of ours they get it back, to begin further on."""
import functools
import sys

PLACES = ('accelerate.data_loader', 'accelerate.accelerator', 'accelerate', 'transformers.trainer')


def put(kind):
    for place in PLACES:
        module = sys.modules.get(place)
        original = getattr(module, 'skip_first_batches', None)
        if original is not None and not hasattr(original, 'lockstep'):
            module.skip_first_batches = skipping(kind, original)


def skipping(kind, original):
    @functools.wraps(original)
    def skip_first_batches(dataloader, num_batches=0):
        if isinstance(dataloader, kind):
            return dataloader.skip(num_batches)
        return original(dataloader, num_batches)
    skip_first_batches.lockstep = True
    return skip_first_batches
