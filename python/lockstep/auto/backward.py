# SPDX-License-Identifier: Apache-2.0
"""Backward passes, from the engine that all of them go through, and in them the blocks.

A block's backward begins where the gradient reaches the output of its forward (a hook before that node of the graph) and
ends where that of the next one begins, or the pass ends.
"""
from _thread import get_ident
from functools import partial

import lockstep
from lockstep import _tell
from lockstep.auto import steps
from lockstep.auto.hook import Hook

BACKWARD = _tell.phase('backward', lockstep.BACKWARD)
hook = Hook('backward')
block_hook = Hook('block backward')
now = steps.now
open_on = {}        # thread: depth of its phases, the block's with them
engine = Tensor = compiled_autograd = None
inside = False      # a pass runs, called by the thread that trains


def block_starts(phase, gradients):
    """Before the node that made a block's output; gives nothing back, so that gradients stay."""
    del gradients
    if not block_hook.on or is_compiling():
        return
    try:
        if steps.under_way:
            steps.look()
        thread = get_ident()
        if not block_ends(thread) and thread != now.thread:
            engine.queue_callback(partial(block_ends_here, thread))
        _tell.begin(phase)
        open_on[thread] = _tell.depth()
    except Exception:
        block_hook.fail()


def block_ends(thread):
    at = open_on.pop(thread, None)
    if at is None or at != _tell.depth():
        return False
    _tell.end()
    return True


def block_ends_here(thread):
    """At the end of a pass that runs on a thread of the engine's."""
    try:
        if get_ident() == thread:
            block_ends(thread)
    except Exception:
        block_hook.fail()


def watch(result, phase):
    """The output of a block's forward."""
    if not block_hook.on:
        return
    try:
        while not isinstance(result, Tensor):
            if isinstance(result, dict):
                result = next(iter(result.values()), None)
            elif isinstance(result, (tuple, list)) and result:
                result = result[0]
            else:
                return
        node = result.grad_fn
        if node is not None and not compiled_autograd_on():
            node.register_prehook(partial(block_starts, phase))
    except Exception:
        block_hook.fail()


def compiled_autograd_on():
    import sys
    module = sys.modules.get('torch._dynamo.compiled_autograd')
    return module is not None and bool(getattr(module, 'compiled_autograd_enabled', False))


def begin():
    """The optimizer was paused, or None: not told."""
    if inside or get_ident() != now.thread:
        return None
    steps.boundary()
    paused = steps.pause_optimizer()
    _tell.begin(BACKWARD)
    return paused


def end(paused):
    if steps.under_way:
        steps.look()
    block_ends(now.thread)
    _tell.end()
    if paused:
        steps.resume_optimizer()


def is_compiling():
    return False


def put(torch):
    global engine, Tensor, is_compiling
    variable = torch.autograd.Variable
    Tensor, is_compiling = torch.Tensor, torch.compiler.is_compiling

    class Engine(type(variable._execution_engine)):
        """Torch's own, which tells when it runs."""

        def run_backward(self, *args, **kwargs):
            global inside
            if not hook.on or is_compiling():
                return super().run_backward(*args, **kwargs)
            paused = None
            try:
                paused = begin()
            except Exception:
                hook.fail()
            if paused is None:
                return super().run_backward(*args, **kwargs)
            inside = True
            try:
                return super().run_backward(*args, **kwargs)
            finally:
                inside = False
                try:
                    end(paused)
                except Exception:
                    hook.fail()

    engine = Engine()
    variable._execution_engine = engine
    hook.on = block_hook.on = True
