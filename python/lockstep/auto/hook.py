# SPDX-License-Identifier: Apache-2.0
"""A hook and its guard: what fails in it is caught where it is called, and fail() turns it off for good."""
import functools
import sys

from lockstep import _tell

HOOKS = {}


class Hook:
    """on: it tells; why: how it failed."""

    __slots__ = ('name', 'on', 'why')

    def __init__(self, name):
        self.name, self.on, self.why = name, False, ''
        HOOKS[name] = self

    def fail(self):
        """In an except clause."""
        self.on = False
        try:
            self.why = f'failed: {sys.exc_info()[1]!r}'[:200]
            _tell.hook_failed(f'lockstep hook {self.name} {self.why}')
        except Exception:
            pass


def around(hook, original, begin, end):
    """A function that does as the original, between begin(), which gives a true value if there is an end, and end()."""
    def call(*args, **kwargs):
        began = False
        if hook.on:
            try:
                began = begin()
            except Exception:
                hook.fail()
        try:
            return original(*args, **kwargs)
        finally:
            if began:
                try:
                    end()
                except Exception:
                    hook.fail()
    return functools.update_wrapper(call, original)
