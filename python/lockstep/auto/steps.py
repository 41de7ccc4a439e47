# SPDX-License-Identifier: Apache-2.0
"""The training step, from the optimizers.

A step ends where the next begins: at the first batch, forward or backward that follows the optimizer's step, so that
what a loop does behind it (schedulers, logging, a saved checkpoint) belongs to the step. With several optimizers the
one that was seen first counts, a GradScaler before them all, since its update() also sees the steps that it skips.
"""
import threading
from _thread import get_ident

import lockstep
from lockstep import _tell
from lockstep.auto.hook import Hook, around

OPTIMIZER = _tell.phase('optimizer', lockstep.OPTIMIZER)
SCALER = 'GradScaler'
STRANGERS = 16  # steps of others in a row: the optimizer that counts is gone
hook = Hook('optimizer')
scaler_hook = Hook('GradScaler')


class Now:
    """What is going on in this process; of the thread that trains."""

    __slots__ = ('telling', 'barred', 'tried', 'pending', 'open', 'thread', 'leader', 'strangers', 'optimizers', 'optimizer_at',
                 'optimizer_paused', 'in_module', 'forward', 'steps')

    def __init__(self):
        self.telling = False        # the library was started
        self.barred = False         # a forked child: never
        self.tried = False
        self.pending = False        # the optimizer has stepped: what comes next opens a step
        self.open = False
        self.thread = threading.main_thread().ident
        self.leader, self.strangers = None, 0
        self.optimizers = 0         # steps of optimizers inside one another
        self.optimizer_at = 0       # phases open behind the begin of the outermost
        self.optimizer_paused = False
        self.in_module = False      # in a module that was called by none
        self.steps = 0
        self.forward = False        # in a module's forward that is trained


now = Now()
under_way = []      # collectives that are not known to have ended; see collectives.py


def look():
    pass


def start():
    """At the first sign of training in a process that has a rank."""
    now.tried = True
    if not now.barred and not now.telling:
        now.telling = lockstep.start()


def boundary():
    """Something begins that belongs to a step: to the next one if the optimizer is through."""
    if under_way:
        look()
    if not now.tried:
        start()
    if now.pending or not now.open:
        now.pending, now.open = False, True
        now.steps += 1
        if not lockstep._step_by_hand:
            _tell.step_begin(-1)


def finish():
    """At exit: a step whose optimizer is through is whole."""
    if now.pending and not lockstep._step_by_hand:
        now.pending = False
        _tell.step_end()


def pause_optimizer():
    """Lightning runs forward and backward inside the optimizer's step: that is not the optimizer's time."""
    if now.optimizers and not now.optimizer_paused and _tell.depth() == now.optimizer_at:
        now.optimizer_paused = True
        _tell.end()
        return True
    return False


def resume_optimizer():
    now.optimizer_paused = False
    _tell.begin(OPTIMIZER)


def forget_optimizer():
    """An optimizer that raised has told no end."""
    if now.optimizers:
        if not now.optimizer_paused and _tell.depth() == now.optimizer_at:
            _tell.end()
        now.optimizers, now.optimizer_paused = 0, False


def before(optimizer, args, kwargs):
    del args, kwargs
    if is_compiling() or not hook.on:
        return
    try:
        if under_way:
            look()
        now.optimizers += 1
        if now.optimizers == 1:
            if now.thread != get_ident():
                now.thread = get_ident()
            if not now.open:
                boundary()
            _tell.begin(OPTIMIZER)
            now.optimizer_at = _tell.depth()
        if now.leader is None:
            now.leader = id(optimizer)
    except Exception:
        hook.fail()


def after(optimizer, args, kwargs):
    del args, kwargs
    if is_compiling() or not hook.on:
        return
    try:
        if now.optimizers == 0:
            return
        now.optimizers -= 1
        if now.optimizers == 0:
            _tell.end()
            now.optimizer_paused = False
        if now.leader == SCALER:
            return
        if now.leader == id(optimizer):
            now.strangers = 0
            now.pending = now.pending or now.optimizers == 0
            return
        now.strangers += 1
        if now.strangers > STRANGERS:
            now.leader, now.strangers = id(optimizer), 0
    except Exception:
        hook.fail()


def is_compiling():
    return False


def put_optimizer(module):
    module.register_optimizer_step_pre_hook(before)
    module.register_optimizer_step_post_hook(after)
    hook.on = True
    import atexit
    atexit.register(at_exit)


def at_exit():
    try:
        finish()
    except Exception:
        hook.fail()


def ready(torch):
    """torch is loaded, whole."""
    global is_compiling
    is_compiling = torch.compiler.is_compiling


def put_scaler(module):
    original = module.GradScaler.update

    def begin():
        now.leader = SCALER
        return True

    def end():
        now.pending = True

    inner = around(scaler_hook, original, begin, end)

    def update(self, *args, **kwargs):
        return (inner if getattr(self, '_enabled', False) else original)(self, *args, **kwargs)
    module.GradScaler.update = update
    update.__wrapped__ = original
    scaler_hook.on = True
