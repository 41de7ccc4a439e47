# SPDX-License-Identifier: Apache-2.0
"""What a training job may tell Lockstep of what it does; works without torch.

    with lockstep.step():                 # or lockstep.step() where each step begins
        with lockstep.phase('forward'):   # also @lockstep.phase('forward') before a function
            ...
        lockstep.counter('tokens', 4096)

and what keeps a job from the deadlock of ranks that have different numbers of steps:

    for batch in lockstep.even(loader):     # every rank stops at the same step
        ...
        if save():                          # save = lockstep.every(steps=500, minutes=30): the same on all ranks
            ...

Nothing here fails a program: without liblockstep.so, or in a process that is no rank, every call does nothing;
lockstep.status() says which.
"""
import os as _os
import sys as _sys

from lockstep import _process


def _extension():
    """Beside us, or in the folder where liblockstep.so was built."""
    try:
        from lockstep import _lockstep
        return _lockstep
    except ImportError:
        library = _os.environ.get('LOCKSTEP_LIBRARY', '')
        path = _os.path.join(_os.path.dirname(library), 'python', '_lockstep.abi3.so')
        if not _os.path.isabs(library) or not _os.path.exists(path):
            raise
        from importlib.util import module_from_spec, spec_from_file_location
        spec = spec_from_file_location('lockstep._lockstep', path)
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


try:
    _tell = _extension()
    _why = ''
except ImportError as _e:
    from lockstep import _none as _tell
    _why = f'the extension is not there: {_e}'

__version__ = '0.1.0'
__all__ = ['step', 'phase', 'counter', 'mark', 'start', 'stop', 'status', 'Phase', 'even', 'every',
           'USER', 'FORWARD', 'BACKWARD', 'OPTIMIZER', 'DATA', 'CHECKPOINT', 'EVALUATION', 'COMPILE', 'GC']

# Kinds of phases: the second argument of phase().
USER, FORWARD, BACKWARD, OPTIMIZER, DATA, CHECKPOINT, EVALUATION, COMPILE, GC = range(9)

phase, counter, mark, Phase = _tell.phase, _tell.counter, _tell.mark, _tell.Phase
_LATER = {'even': '_even', 'Even': '_even', 'Uneven': '_even', 'every': '_every', 'Every': '_every', 'OutOfStep': '_agree'}
_library = None
_step_by_hand = False   # the program says where steps begin: automatic mode does not


def __getattr__(name):
    """What few programs use is loaded when it is asked for."""
    if name not in _LATER:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    from importlib import import_module
    globals()[name] = found = getattr(import_module('lockstep.' + _LATER[name]), name)
    return found


class _Step:
    """What step() gives: with `with`, the step ends behind the block."""

    __slots__ = ()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        _tell.step_end()


_the_step = _Step()


def step(number=-1):
    """A step begins, and the one before ends; behind `with`, it ends with the block. Steps number themselves."""
    global _step_by_hand
    _step_by_hand = True
    _tell.step_begin(number)
    return _the_step


def _candidates():
    """Where liblockstep.so may be: named, used by another door of this process, beside us, the system's."""
    named = _os.environ.get('LOCKSTEP_LIBRARY')
    if named:
        yield named
    for variable in ('CUDA_INJECTION64_PATH', 'NVTX_INJECTION64_PATH', 'NCCL_PROFILER_PLUGIN'):
        path = _os.environ.get(variable, '')
        if _os.path.basename(path).startswith('liblockstep.so'):
            yield path
    beside = _os.path.join(_os.path.dirname(_os.path.abspath(__file__)), 'native', 'liblockstep.so')
    if _os.path.exists(beside):
        yield beside
    yield 'liblockstep.so'


def _load():
    global _library, _why
    if _library or _tell.__name__.endswith('_none'):
        return
    said = []
    for path in _candidates():
        try:
            _library, _why = _tell.load(path), ''
            return
        except OSError as e:
            said.append(str(e))
    _why = '; '.join(said)


def start():
    """Begins to tell, if this process is a rank of a job; True if it does, or did before."""
    global _why
    _load()
    if not _library:
        return False
    if _tell.start():
        return True
    _why = _why or 'liblockstep.so does not tell: no rank of a job, no room, or LOCKSTEP=0'
    return False


def stop():
    """Tells no more, for good."""
    _tell.stop()


def status():
    """Whether this process tells, by which library, if not why not, and the state of each hook."""
    auto = _sys.modules.get('lockstep.auto')
    return {'on': _tell.on(), 'library': _library, 'why': '' if _tell.on() else _why, 'process': _process.kind(),
            'hooks': auto.states() if auto else {}}


def _begin():
    global _why
    _os.register_at_fork(after_in_child=_tell.forked)
    kind = _process.kind()
    if kind == 'rank' and not getattr(_sys.modules.get('_lockstep_boot'), 'loading', False):
        start()  # in automatic mode it waits for the first sign of training
    else:
        _load()
        _why = _why or f'this process is no rank: {kind}'


_begin()
