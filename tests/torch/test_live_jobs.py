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


def both_of(job, causes, since=range(SINCE, SINCE + 1), culprit=HURT, options=()):
    """PyTorch's profiler records beside us, and its traces say the same; of a save they know only that the host was held up."""
    def test():
        for last in (False, True):
            with tempfile.TemporaryDirectory() as t:
                try:
                    traces = os.path.join(t, 'traces')
                    named(recorded(t, job, '--profile', traces, *options), causes, since, culprit)
                    named(diagnose(traces), (*causes, 'host-stall') if job == 'checkpoint' else causes, range(since.start, since.stop + 1),
                          HURT if job == 'checkpoint' else culprit)
                    return
                except AssertionError as e:
                    if last:
                        raise
                    print('once:', e, flush=True)
    return test


CLAIMS = {
    'compute_straggler': (('compute', ('compute-straggler',)), {}),
    'host_stall': (('stall', ('host-stall',)), {}),
    'garbage_collection': (('gc', ('host-stall',)), {}),
    'data_starvation': (('data', ('data-starved',), range(SINCE, SINCE + AHEAD)), {}),
    'checkpoint': (('checkpoint', ('checkpoint',)), {'culprit': None}),
    'uneven_steps': (('uneven', ('workload-imbalance',), range(WARM)), {'culprit': None}),
}
TESTS = {
    **{f'{name}_is_named': test_of(*args, **more) for name, (args, more) in CLAIMS.items()},
    **{f'fsdp2_{name}_is_named': test_of(*args, **more, options=('--fsdp',)) for name, (args, more) in CLAIMS.items()},
    **{f'profiler_says_the_same_of_{name}': both_of(*args, **more) for name, (args, more) in CLAIMS.items()},
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
