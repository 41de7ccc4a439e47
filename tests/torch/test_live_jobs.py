#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that run under `lockstep trace` and know nothing of it: what the agent's step records alone say of them.

    VENV/bin/python tests/torch/test_live_jobs.py [NAME...]

Strangers on the machine may really hold a rank up: what is not found in a first run must be found in a second.
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LOCKSTEP = os.path.abspath(os.environ.get('LOCKSTEP', os.path.join(ROOT, 'build', 'lockstep')))
LIVE = os.path.join(HERE, 'live_jobs.py')
HURT, SINCE = 2, 8
WARM = 6    # first steps: a quarter may be warm-up, which is not judged
AHEAD = 8   # steps that a loader's worker, which fetches ahead, may hide


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def diagnose(folder):
    p = subprocess.run([LOCKSTEP, 'diagnose', '--json', folder], capture_output=True, text=True, timeout=60)
    return json.loads(p.stdout)


def brief(doc):
    return [(f['severity'], f['cause'], f['culprits']['ranks'], f['windows'][0]['first_step'] if f['windows'] else None) for f in doc['findings']]


def recorded(folder, *options):
    out = os.path.join(folder, 'steps')
    env = {k: v for k, v in os.environ.items() if k not in ('RANK', 'LOCAL_RANK', 'LOCKSTEP', 'LOCKSTEP_DIR', 'LOCKSTEP_LIBRARY')}
    p = subprocess.run([LOCKSTEP, 'trace', '--out', out, '--', sys.executable, LIVE, *options], env=env, capture_output=True, text=True,
                       timeout=240)
    expect(p.returncode == 0, f'exit {p.returncode}: {p.stderr[-400:]}')
    return diagnose(out)


def named(doc, causes, since, culprit):
    """The first finding that costs is this one."""
    loud = [f for f in doc['findings'] if f['severity'] != 'note']
    expect(loud, f'nothing found: {brief(doc)}')
    first = loud[0]
    expect(first['cause'] in causes, f'want {causes}: {brief(doc)}')
    expect(culprit is None or first['culprits']['ranks'] == [culprit], f'want rank {culprit}: {brief(doc)}')
    expect(first['windows'][0]['first_step'] in since, f'want since {since}: {brief(doc)}')


def twice(claim, *options):
    for last in (False, True):
        with tempfile.TemporaryDirectory() as t:
            try:
                claim(recorded(t, *options))
                return
            except AssertionError as e:
                if last:
                    raise
                print('once:', e, flush=True)


def test_of(job, causes, since=range(SINCE, SINCE + 1), culprit=HURT, options=()):
    return lambda: twice(lambda doc: named(doc, causes, since, culprit), job, *options)


def the_profiler_and_lockstep_say_the_same():
    for last in (False, True):
        with tempfile.TemporaryDirectory() as t:
            try:
                traces = os.path.join(t, 'traces')
                named(recorded(t, 'stall', '--profile', traces), ('host-stall',), range(SINCE, SINCE + 1), HURT)
                named(diagnose(traces), ('host-stall',), range(SINCE, SINCE + 2), HURT)
                return
            except AssertionError as e:
                if last:
                    raise
                print('once:', e, flush=True)


TESTS = {
    'compute_straggler_is_named': test_of('compute', ('compute-straggler',)),
    'host_stall_is_named': test_of('stall', ('host-stall',)),
    'garbage_collection_is_named': test_of('gc', ('host-stall',)),
    'data_starvation_is_named': test_of('data', ('data-starved',), range(SINCE, SINCE + AHEAD)),
    'checkpoint_is_named': test_of('checkpoint', ('checkpoint',), culprit=None),
    'uneven_steps_are_named': test_of('uneven', ('workload-imbalance',), range(WARM), culprit=None),
    'fsdp_compute_straggler_is_named': test_of('compute', ('compute-straggler',), options=('--fsdp',)),
    'fsdp_host_stall_is_named': test_of('stall', ('host-stall',), options=('--fsdp',)),
    'the_profiler_and_lockstep_say_the_same': the_profiler_and_lockstep_say_the_same,
}


def main():
    failed = 0
    for name, test in TESTS.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        try:
            test()
            print('ok', name, flush=True)
        except (AssertionError, KeyError, OSError, ValueError, subprocess.SubprocessError) as e:
            failed += 1
            print(f'FAILED {name}: {e if isinstance(e, AssertionError) else repr(e)}', flush=True)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
