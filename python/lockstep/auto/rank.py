# SPDX-License-Identifier: Apache-2.0
"""Which rank this is, from torch.distributed once it knows; there a process turns out to be a rank."""
import functools
import os
import sys

import lockstep
from lockstep import _tell
from lockstep.auto.hook import Hook

SAVER = '_async_process_executor.py'    # torch's own process that saves checkpoints joins a group too
hook = Hook('identity')


def number(text):
    return int(text) if text and text.isdecimal() else -1


def saves_only():
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.endswith(SAVER):
            return True
        frame = frame.f_back
    return False


def put(module, joined):
    """joined: what is done once this process is in the default group."""
    original = module.init_process_group

    def init_process_group(*args, **kwargs):
        result = original(*args, **kwargs)
        if hook.on:
            try:
                if not saves_only() and not in_worker():
                    _tell.identity(module.get_rank(), number(os.environ.get('LOCAL_RANK')), module.get_world_size())
                    if lockstep.start():
                        joined()
            except Exception:
                hook.fail()
        return result
    module.init_process_group = functools.update_wrapper(init_process_group, original)
    hook.on = True


def in_worker():
    data = sys.modules.get('torch.utils.data')
    return data is not None and data.get_worker_info() is not None
