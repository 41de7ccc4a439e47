# SPDX-License-Identifier: Apache-2.0
"""On PYTHONPATH this starts automatic mode where no wheel is installed; it then runs the sitecustomize that it hides."""
import sys


def _boot():
    here = __file__.rpartition('/')[0]
    if '_lockstep_boot' not in sys.modules:
        from _frozen_importlib_external import PathFinder  # importlib costs a millisecond
        spec = PathFinder.find_spec('_lockstep_boot', [here + '/..', here + '/../../..'])  # a wheel's is further up
        if spec is None:
            return
        module = type(sys)('_lockstep_boot')
        module.__spec__, module.__file__, module.__loader__ = spec, spec.origin, spec.loader
        sys.modules['_lockstep_boot'] = module
        spec.loader.exec_module(module)
    sys.modules['_lockstep_boot'].install()


def _hidden():
    """The next sitecustomize on the path, as if this one were not there."""
    from _frozen_importlib_external import PathFinder
    import os
    here = os.path.realpath(__file__.rpartition('/')[0])
    spec = PathFinder.find_spec('sitecustomize', [p for p in sys.path if os.path.realpath(p or '.') != here])
    if spec is None or spec.loader is None:
        return
    module = type(sys)('sitecustomize')
    module.__spec__, module.__file__, module.__loader__ = spec, spec.origin, spec.loader
    sys.modules['sitecustomize'] = module
    spec.loader.exec_module(module)


try:
    _boot()
except Exception:  # the program is not to feel it
    pass
_hidden()
