# SPDX-License-Identifier: Apache-2.0
"""A phase as a decorator. A phase lies on its thread: across a yield or an await it would be the caller's, so
generators and coroutines are refused where they are decorated."""
import functools
import inspect


def decorate(phase, function):
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f'lockstep.phase: {function!r} gives up its thread in its midst; use `with` around what does not')

    @functools.wraps(function)
    def inside(*args, **kwargs):
        with phase:
            return function(*args, **kwargs)
    return inside
