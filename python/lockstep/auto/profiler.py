# SPDX-License-Identifier: Apache-2.0
"""torch.profiler takes the one seat of CUPTI from the tracer: it is told when, and when it may have it again."""
from lockstep import _tell
from lockstep.auto.hook import Hook

hook = Hook('profiler')
running = None  # the id of the profile that has the seat


def takes(profile):
    """It traces a GPU; one of a CPU alone leaves CUPTI be."""
    global running
    if hook.on and running is None and any(a.name == 'CUDA' for a in getattr(profile, 'kineto_activities', ())):
        _tell.profiler(1)
        running = id(profile)


def gives(profile):
    global running
    if running == id(profile):
        running = None
        _tell.profiler(0)


def put(module):
    """torch.autograd.profiler: torch.profiler's profiles are made of its own."""
    kind = module.profile
    for name in ('_prepare_trace', '_start_trace', '__enter__'):
        if hasattr(kind, name):
            setattr(kind, name, before(getattr(kind, name)))
    kind.__exit__ = behind(kind.__exit__)
    hook.on = True


def before(original):
    def call(self, *args, **kwargs):
        try:
            takes(self)
        except Exception:
            hook.fail()
        return original(self, *args, **kwargs)
    call.__wrapped__ = original
    return call


def behind(original):
    def call(self, *args, **kwargs):
        try:
            return original(self, *args, **kwargs)
        finally:
            try:
                gives(self)
            except Exception:
                hook.fail()
    call.__wrapped__ = original
    return call
