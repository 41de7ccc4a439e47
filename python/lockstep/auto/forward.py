# SPDX-License-Identifier: Apache-2.0
"""Forward and evaluation, and in them the top-level blocks, from calls of modules.

Until the first steps are done nn.Module.__call__ is ours and sees every module; the classes of those that were called by
nobody else's forward, and of their blocks, are then given a __call__ of their own, and all others cost nothing again.
Every function here that Dynamo may meet in what it traces asks is_compiling() first, so that it sees the plain call.

Blocks are the members of the ModuleList or Sequential of one class that holds most parameters. In each of them
self_attention and mlp, and the dispatch and combine of a mixture of experts, are told by these names (Megatron's).
"""
import functools
from _thread import get_ident

import lockstep
from lockstep import _tell
from lockstep.auto import backward, steps, waits
from lockstep.auto.hook import Hook

FORWARD = _tell.phase('forward', lockstep.FORWARD)
EVALUATION = _tell.phase('evaluation', lockstep.EVALUATION)
PARTS = ('self_attention', 'mlp')
METHODS = ('dispatch', 'combine')
STEPS_WATCHED = 3   # after so many nn.Module.__call__ is given back
BLOCKS_MOST = 1024
hook = Hook('forward')
blocks = {}         # id of a module: its names
roots = set()       # ids of modules whose blocks were looked for
patched = set()     # classes whose __call__ is ours
patched_methods = set()
now = steps.now


class Names:
    """A block's phases."""

    __slots__ = ('forward', 'backward', 'recompute')

    def __init__(self, name, is_block):
        self.forward = _tell.phase(name, lockstep.FORWARD)
        self.backward = _tell.phase(f'{name} backward', lockstep.BACKWARD) if is_block else None
        self.recompute = _tell.phase(f'{name} recompute', lockstep.BACKWARD)


def root_begin(module):
    """(the phase is told, the optimizer was paused), or None if this call is none of ours."""
    if now.in_module or get_ident() != now.thread or graph_task() != -1:
        return None
    trained = is_grad_enabled()
    steps.boundary()
    if now.steps == STEPS_WATCHED:
        give_back()
    if id(module) not in roots and len(roots) < BLOCKS_MOST:
        roots.add(id(module))
        find_blocks(module)
    paused = steps.pause_optimizer()
    _tell.begin(FORWARD if trained else EVALUATION)
    now.in_module, now.forward = True, trained
    return paused


def root_end(paused):
    now.in_module = now.forward = False
    _tell.end()
    if paused:
        steps.resume_optimizer()


def root_call(call, module, args, kwargs):
    paused = None
    try:
        paused = root_begin(module)
    except Exception:
        hook.fail()
    try:
        return call(module, *args, **kwargs)
    finally:
        if paused is not None:
            try:
                root_end(paused)
            except Exception:
                now.in_module = now.forward = False
                hook.fail()


def block_begin(names):
    """What is behind it: the phase of its backward, None, or False if it is not told."""
    if now.forward:
        _tell.begin(names.forward)
        return names.backward
    if now.in_module:
        return False
    _tell.begin(names.recompute)
    return None


def block_call(call, module, args, kwargs, names):
    told = False
    try:
        told = block_begin(names)
    except Exception:
        hook.fail()
    try:
        result = call(module, *args, **kwargs)
    finally:
        if told is not False:
            try:
                _tell.end()
            except Exception:
                hook.fail()
    if told:
        backward.watch(result, told)
    return result


def module_call(self, *args, **kwargs):
    """nn.Module.__call__ of the first steps."""
    if is_compiling() or now.in_module or not hook.on:
        return original(self, *args, **kwargs)
    return root_call(original, self, args, kwargs)


def of_class(own):
    """The __call__ of a class, before the one that it had, or else nn.Module's of this moment: others patch that too."""
    def __call__(self, *args, **kwargs):
        if is_compiling() or not hook.on:
            return (own or Module.__call__)(self, *args, **kwargs)
        names = blocks.get(id(self))
        if names is not None and (now.in_module or graph_task() != -1):
            return block_call(own or Module.__call__, self, args, kwargs, names)
        if now.in_module:
            return (own or Module.__call__)(self, *args, **kwargs)
        return root_call(own or Module.__call__, self, args, kwargs)
    __call__.lockstep = True
    return __call__


def patch_class(cls):
    """Not once anything was compiled: graphs may be guarded by what a class has."""
    if cls in patched or waits.compiled:
        return cls in patched
    for base in cls.__mro__:
        own = base.__dict__.get('__call__')
        if own is not None and not getattr(own, 'lockstep', False):
            break
    patched.add(cls)
    cls.__call__ = of_class(None if base is Module else own)
    return True


def members(module):
    """[(key, block)] of a container that may hold the blocks."""
    if not isinstance(module, CONTAINERS) or len(module) < 2:
        return []
    found = list(module.items() if hasattr(module, 'items') else enumerate(module))
    return found if len({type(m) for _, m in found}) == 1 else []


def find_blocks(root):
    """The blocks of a module that is called by itself."""
    patch_class(type(root))
    if hasattr(root, '_orig_mod') or getattr(root, '_compiled_call_impl', None) is not None:
        return  # compiled as a whole: its blocks are never called
    best, most = ('', []), 0
    for path, module in root.named_modules():
        found = members(module)
        size = sum(p.numel() for _, m in found for p in m.parameters()) if found else 0
        if size > most:
            best, most = (path, found), size
    if not best[1] or len(blocks) + len(best[1]) > BLOCKS_MOST:
        return
    name = best[0].rpartition('.')[2] or 'blocks'
    if not patch_class(type(best[1][0][1])):
        return
    for key, block in best[1]:
        blocks[id(block)] = Names(f'{name}.{key}', True)
        find_parts(block)


def find_parts(block):
    for child_name, child in block.named_modules():
        part = child_name.rpartition('.')[2]
        if part in PARTS and id(child) not in blocks and patch_class(type(child)):
            blocks[id(child)] = Names(part, False)
        if all(callable(getattr(type(child), m, None)) for m in METHODS) and type(child) not in patched_methods:
            patched_methods.add(type(child))
            for m in METHODS:
                setattr(type(child), m, of_method(getattr(type(child), m), _tell.phase(m)))


def of_method(own, phase):
    def call(self, *args, **kwargs):
        if is_compiling() or not hook.on:
            return own(self, *args, **kwargs)
        with phase:
            return own(self, *args, **kwargs)
    return functools.update_wrapper(call, own)


def give_back():
    """nn.Module.__call__ as it was; not once anything was compiled, nor over somebody who patched it since."""
    if Module.__call__ is module_call and not waits.compiled:
        Module.__call__ = original


def is_compiling():
    return False


def put(torch):
    global is_compiling, is_grad_enabled, graph_task, original, Module, CONTAINERS
    from torch import nn
    is_compiling, is_grad_enabled = torch.compiler.is_compiling, torch.is_grad_enabled
    graph_task = torch._C._current_graph_task_id
    Module, CONTAINERS = nn.Module, (nn.ModuleList, nn.Sequential, nn.ModuleDict)
    steps.ready(torch)
    original = Module.__call__
    Module.__call__ = module_call
    hook.on = True


graph_task = is_grad_enabled = original = Module = None
CONTAINERS = ()
