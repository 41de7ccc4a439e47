# SPDX-License-Identifier: Apache-2.0
"""LOCKSTEP_COLLECTIVE_TIMEOUT=SECONDS: what a process group's collectives may take, where the program does not say.

PyTorch's own default (10 minutes on NCCL, 30 elsewhere) counts as not saying, since frameworks hand it on.
"""
import datetime
import functools
import inspect
import os

from lockstep.auto.hook import Hook

VARIABLE = 'LOCKSTEP_COLLECTIVE_TIMEOUT'
MOST_S = 366 * 86400
hook = Hook('timeout')


def asked():
    """The time, or None with the hook's why."""
    text = os.environ.get(VARIABLE, '')
    try:
        seconds = float(text or 0)
    except ValueError:
        seconds = -1
    if text and not 0 < seconds <= MOST_S:
        hook.why = f'{VARIABLE}={text!r} is no number of seconds'[:200]
    return datetime.timedelta(seconds=seconds) if 0 < seconds <= MOST_S else None


def put(module):
    """Before a process group is made."""
    timeout = asked()
    if timeout is None:
        return
    defaults = [getattr(module, name, None) for name in ('default_pg_timeout', 'default_pg_nccl_timeout')]
    for name in ('init_process_group', 'new_group'):
        setattr(module, name, giving(getattr(module, name), timeout, defaults))
    hook.on = True


def giving(original, timeout, defaults):
    place = list(inspect.signature(original).parameters).index('timeout')

    def unsaid(value):
        return value is None or any(value is d for d in defaults)

    def call(*args, **kwargs):
        if hook.on:
            if len(args) > place:
                if unsaid(args[place]):
                    args = (*args[:place], timeout, *args[place + 1:])
            elif unsaid(kwargs.get('timeout')):
                kwargs['timeout'] = timeout
        return original(*args, **kwargs)
    return functools.update_wrapper(call, original)
