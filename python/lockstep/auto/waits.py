# SPDX-License-Identifier: Apache-2.0
"""What a step waits for besides its own work: batches, saves, garbage collection, compilation, collectives."""
import gc
from _thread import get_ident

import lockstep
from lockstep import _tell
from lockstep.auto import steps
from lockstep.auto.hook import Hook, around

DATA = _tell.phase('data', lockstep.DATA)
SAVE = _tell.phase('checkpoint', lockstep.CHECKPOINT)
COMPILE = _tell.phase('compile', lockstep.COMPILE)
WAIT = _tell.phase('c10d::wait')
now = steps.now
data_hook, save_hook, compile_hook = Hook('data'), Hook('checkpoint'), Hook('compile')
gc_hook, wait_hook = Hook('gc'), Hook('wait')
compiled = False    # something was
compiling = None    # the thread that does


def telling(phase):
    def begin():
        _tell.begin(phase)
        return True
    return begin


def end():
    _tell.end()


def data_begin():
    """Of the thread that trains: one that fetches ahead makes nobody wait."""
    if get_ident() != now.thread:
        return False
    steps.forget_optimizer()
    steps.boundary()
    _tell.begin(DATA)
    return True


def put_data(module):
    iterator = module._BaseDataLoaderIter
    iterator.__next__ = around(data_hook, iterator.__next__, data_begin, end)
    data_hook.on = True


def put_save(module):
    import sys
    original = module.save
    module.save = around(save_hook, original, telling(SAVE), end)
    torch = sys.modules.get('torch')
    if getattr(torch, 'save', None) is original:
        torch.save = module.save
    save_hook.on = True


def put_all(module, names):
    """Functions of a module, and what others have copied of them by now."""
    import sys
    above = sys.modules.get(module.__name__.rpartition('.')[0])
    for name in names:
        original = getattr(module, name, None)
        if original is None:
            continue
        ours = around(save_hook, original, telling(SAVE), end)
        setattr(module, name, ours)
        if getattr(above, name, None) is original:
            setattr(above, name, ours)
    save_hook.on = True


def put_distributed_save(module):
    put_all(module, ('save', 'async_save'))


def put_safetensors(module):
    put_all(module, ('save_file', 'save_model'))


def compile_begins(args):
    global compiled, compiling
    del args
    compiled = True
    if not compile_hook.on:
        return
    try:
        if compiling is None:
            _tell.begin(COMPILE)
            compiling = get_ident()
    except Exception:
        compile_hook.fail()


def compile_ends(args):
    global compiling
    del args
    try:
        if compiling == get_ident():
            compiling = None
            _tell.end()
    except Exception:
        compile_hook.fail()


def put_compile(module):
    handler = module.callback_handler

    def register():
        handler.register_start_callback(compile_begins)
        handler.register_end_callback(compile_ends)

    clear = handler.clear

    def clear_and_register():  # torch._dynamo.reset() clears all callbacks
        try:
            clear()
        finally:
            register()
    handler.clear = clear_and_register
    register()
    compile_hook.on = True


def put_gc(torch):
    del torch
    if _tell.collected not in gc.callbacks:
        gc.callbacks.append(_tell.collected)
    gc_hook.on = True


def put_wait(work, waited):
    """torch.distributed.Work: where the host waits for a collective; waited(work) is done behind it."""
    from torch.compiler import is_compiling
    original = work.wait

    def wait(self, *args, **kwargs):
        began = False
        if wait_hook.on and not is_compiling():
            try:
                _tell.begin(WAIT)
                began = True
            except Exception:
                wait_hook.fail()
        try:
            return original(self, *args, **kwargs)
        finally:
            if began:
                try:
                    _tell.end()
                    waited(self)
                except Exception:
                    wait_hook.fail()
    work.wait = wait
    wait_hook.on = True
