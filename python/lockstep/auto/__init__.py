# SPDX-License-Identifier: Apache-2.0
"""Automatic mode: hooks into torch that tell of a training job without a change of its code.

_lockstep_boot calls loaded() behind the loading of each module that is hooked. What holds for all hooks: nothing of
ours is ever raised into the job. A hook that fails is off for good and counted; states() tells. Hooks are put only into
a rank (lockstep._process); in processes that may yet become one, only init_process_group is watched.
"""
import functools
import os
import sys

import lockstep
from lockstep import _process
from lockstep.auto import backward, collectives, forward, profiler, rank, steps, timeouts, waits
from lockstep.auto.hook import HOOKS, Hook

# What is done to a module, in ranks.
PUT = {
    'torch': (forward.put, backward.put, waits.put_gc),
    'torch.optim.optimizer': (steps.put_optimizer,),
    'torch.amp.grad_scaler': (steps.put_scaler,),
    'torch.utils.data.dataloader': (waits.put_data,),
    'torch.serialization': (waits.put_save,),
    'torch.distributed.checkpoint.state_dict_saver': (waits.put_distributed_save,),
    'safetensors.torch': (waits.put_safetensors,),
    'torch._dynamo.callback': (waits.put_compile,),
    'torch.autograd.profiler': (profiler.put,),
}
done = set()
capture_hook = Hook('capture')  # by Dynamo, of our frames


def loaded(name, module):
    """A module that is hooked has been loaded, whole."""
    kind = _process.kind()
    if kind in ('off', 'launcher', 'helper'):
        return
    if name == 'torch.distributed.distributed_c10d':
        try:
            timeouts.put(module)
        except Exception:
            timeouts.hook.fail()
        rank.put(module, joined)
    if kind == 'rank' or steps.now.telling:
        put(name, module)


def uncaptured():
    """Dynamo is to run our frames as they are, and capture only those below, as it does with nn.Module's own."""
    frames = sys.modules['torch']._C._dynamo.eval_frame
    if hasattr(frames, 'skip_code'):    # before 2.7 or so
        skip = frames.skip_code
    else:
        alone = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.DEFAULT)
        skip = functools.partial(skip_by, frames.set_code_exec_strategy, alone)
    todo = []
    for name, module in list(sys.modules.items()):
        if name == 'lockstep' or name.startswith('lockstep.'):
            for thing in list(vars(module).values()):
                todo += vars(thing).values() if isinstance(thing, type) else [thing]
    todo = [f.__code__ for f in todo if hasattr(f, '__code__') and f.__module__.startswith('lockstep')]
    while todo:
        code = todo.pop()
        skip(code)
        todo += [c for c in code.co_consts if hasattr(c, 'co_consts')]


def skip_by(set_strategy, strategy, code):
    set_strategy(code, strategy)


def put(name, module):
    if name == 'torch':
        try:
            uncaptured()
            capture_hook.on = True
        except Exception:
            capture_hook.fail()
    for function in PUT.get(name, ()):
        if function not in done:
            done.add(function)
            function(module)


def joined():
    """This process is in a process group: whatever it was taken for, it is a rank."""
    if steps.now.barred:
        return
    steps.now.telling = True
    for name in PUT:
        module = sys.modules.get(name)
        if module is not None and not getattr(getattr(module, '__spec__', None), '_initializing', False):
            put(name, module)
    collectives.put()


def states():
    """What each hook is: on, off, or off since it failed and how."""
    return {name: 'on' if hook.on else hook.why or 'off' for name, hook in HOOKS.items()}


def forked():
    """A child of a rank is none: a loader's worker and the like. That of a process that is none may become one."""
    if steps.now.telling or lockstep.status()['process'] == 'rank':
        steps.now.barred = True
        for hook in HOOKS.values():
            hook.on = False


os.register_at_fork(after_in_child=forked)
