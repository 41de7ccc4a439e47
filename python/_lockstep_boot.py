# SPDX-License-Identifier: Apache-2.0
"""Automatic mode's first part: in every Python that has LOCKSTEP_AUTO=1, so it must cost nothing and fail nothing.

Loaded by lockstep.pth (in an environment where the wheel is) or by site/sitecustomize.py (on PYTHONPATH). It puts a finder
before the others that answers for a few modules of torch only; once one of them has been loaded, lockstep.auto hooks it.
"""
import sys

# Modules that are hooked; lockstep.auto has a function for each.
WANTED = {
    'torch', 'torch.distributed.distributed_c10d', 'torch.optim.optimizer', 'torch.utils.data.dataloader',
    'torch.amp.grad_scaler', 'torch.serialization', 'torch.distributed.checkpoint.state_dict_saver',
    'torch._dynamo.callback', 'torch.autograd.profiler', 'safetensors.torch',
}
HERE = __file__.rpartition('/')[0] or '.'


def loaded(name, module):
    """Called behind the loading of a module that is wanted."""
    global failed, loading
    try:
        if 'lockstep' not in sys.modules:
            loading = True
            _ours()
        from lockstep import auto
        auto.loaded(name, module)
    except Exception as e:  # whatever it is, the job is not to feel it
        failed = f'{name}: {e!r}'
    finally:
        loading = False


failed = ''
loading = False  # our package is being loaded by this one, not by the program


def _ours():
    """Our package by its place, whatever else on sys.path is called the same."""
    from importlib.util import module_from_spec, spec_from_file_location
    folder = HERE + '/lockstep'
    spec = spec_from_file_location('lockstep', folder + '/__init__.py', submodule_search_locations=[folder])
    module = module_from_spec(spec)
    sys.modules['lockstep'] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules['lockstep']
        raise


class Finder:
    """A meta path finder that lets the others find, and looks on."""

    lockstep = True

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in WANTED:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, 'find_spec', None)
            if find is None or getattr(finder, 'lockstep', False):
                continue
            spec = find(name, path, target)
            if spec is not None:
                return _watched(spec, name)
        return None


def _watched(spec, name):
    loader = spec.loader
    try:
        execute = loader.exec_module

        def exec_module(module):
            try:
                del loader.exec_module
            except AttributeError:
                pass
            execute(module)
            loaded(name, module)
        loader.exec_module = exec_module
    except Exception:  # a loader that cannot be watched loads as ever
        pass
    return spec


def install():
    """Once, however often it is called; True if automatic mode is on in this process."""
    if any(getattr(f, 'lockstep', False) for f in sys.meta_path):
        return True
    try:
        from os import environ
        if environ.get('LOCKSTEP_AUTO', '') in ('', '0') or environ.get('LOCKSTEP') == '0':
            return False
        sys.meta_path.insert(0, Finder)
        for name in WANTED.intersection(sys.modules):
            loaded(name, sys.modules[name])
        return True
    except Exception:
        return False
