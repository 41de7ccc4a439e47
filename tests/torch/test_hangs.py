#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real hangs and crashes of PyTorch jobs (hang_jobs.py), and whether lockstep names who did it and why.

    VENV/bin/python tests/torch/test_hangs.py [--lockstep build/lockstep] [--keep DIR] [NAME...]

Each job is recorded once and judged from all files, and from the pickles alone and the JSON alone where these can tell.
One line a test, `ok NAME` or `FAILED NAME: why`; exit status 0 if all are ok.
"""
import argparse
import fnmatch
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import hang_jobs  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HELD = ['missing-rank', 'host-stall', 'unknown']  # what dumps alone can say of a rank that does something else
# name: (job, ranks, culprits, causes from all files, causes from dumps alone; None: dumps alone cannot tell)
HANGS = {
    'fsdp2_evaluation_barrier': (6, [4], ['collective-desync', 'uneven-steps'], ['collective-desync', 'uneven-steps']),
    # rank 3 left out a call and went on to the barrier: by its dump it may as well have had fewer steps
    'hsdp_missing_all_reduce': (4, [3], ['collective-desync', 'missing-rank', 'uneven-steps'], ['collective-desync', 'missing-rank', 'uneven-steps']),
    'ddp_debugger': (4, [2], ['host-stall'], HELD),
    'ddp_file_lock': (4, [1], ['host-stall', 'data-starved'], HELD),
    'ddp_no_join': (4, [1], ['uneven-steps', 'host-stall', 'missing-rank'], HELD),
    'crossing_groups': (6, [5], ['collective-desync'], ['collective-desync']),
}
CRASHES = {'monitored_barrier': (4, [3], ['missing-rank', 'host-stall'], ('hung', 'crashed')),
           'exception_on_one': (4, [2], ['exception'], ('crashed',))}


def diagnose(lockstep, folder, pattern='*'):
    with tempfile.TemporaryDirectory() as t:
        for root, _, files in os.walk(folder):
            for f in files:
                if fnmatch.fnmatch(f, pattern):
                    to = os.path.join(t, os.path.relpath(root, folder))
                    os.makedirs(to, exist_ok=True)
                    shutil.copy(os.path.join(root, f), to)
        p = subprocess.run([lockstep, 'diagnose', '--json', t], capture_output=True, text=True, timeout=60)
    try:
        return p.returncode, json.loads(p.stdout)
    except ValueError:
        raise AssertionError(f'exit {p.returncode}, not JSON: {p.stdout[:100]!r} {p.stderr[-300:]!r}') from None


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def expect_named(doc, status, culprits, causes, verdicts, of):
    loud = [f for f in doc['findings'] if f['severity'] != 'note']
    brief = f'{of}: exit {status}, {doc["verdict"]}, {[(f["cause"], f["culprits"]["ranks"]) for f in loud]}; want {culprits} {causes}'
    expect(status == 1 and doc['verdict'] in verdicts and loud, brief)
    expect(loud[0]['culprits']['ranks'] == culprits and loud[0]['cause'] in causes, brief)
    expect({r for f in loud for r in f['culprits']['ranks']} == set(culprits), brief + ': others are blamed too')


def record(folder, name, ranks, finish):
    """The folder of a job, recorded unless it is there."""
    path = os.path.join(folder, name)
    if not os.path.isdir(path):
        run = hang_jobs.Run(getattr(hang_jobs, name), path, ranks)
        try:
            finish(run)
        finally:
            run.stop()
    return path


def hang(args, name):
    ranks, culprits, causes, of_dumps = HANGS[name]

    def finish(run):
        run.wait_hung()
        run.record()
    path = record(args.folder, name, ranks, finish)
    status, doc = diagnose(args.lockstep, path)
    expect_named(doc, status, culprits, causes, ('hung',), 'all files')
    for what, pattern in (('pickles alone', 'nccl_trace_rank_*'), ('JSON alone', 'fr_rank*.json')):
        status, doc = diagnose(args.lockstep, path, pattern)
        expect_named(doc, status, culprits, of_dumps, ('hung',), what)


def crash(args, name):
    ranks, culprits, causes, verdicts = CRASHES[name]

    def finish(run):
        run.wait_end(() if name == 'exception_on_one' else culprits)
        run.record()
    path = record(args.folder, name, ranks, finish)
    status, doc = diagnose(args.lockstep, path)
    expect_named(doc, status, culprits, causes, verdicts, 'all files')


def healthy(args, name):
    def finish(run):
        run.wait_steps(20)
        run.record('t0')
        seen = max(int(g['last_completed_collective']) for g in run.beat(0)[1].values())
        run.wait_steps(seen + 30)
        run.record('t1')
    path = record(args.folder, name, 4, finish)
    for what, pattern in (('all files', '*'), ('pickles alone', 'nccl_trace_rank_*'), ('JSON alone', 'fr_rank*.json')):
        status, doc = diagnose(args.lockstep, path, pattern)
        blamed = [f for f in doc['findings'] if f['severity'] == 'fault' and f['culprits']['ranks']]
        expect(doc['verdict'] not in ('hung', 'crashed') and not blamed,
            f'{what}: exit {status}, {doc["verdict"]}, {[(f["cause"], f["culprits"]["ranks"]) for f in blamed]}')


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--lockstep', default=os.environ.get('LOCKSTEP', os.path.join(ROOT, 'build', 'lockstep')))
    p.add_argument('--keep', help='leave the recordings in this folder, and use those that are there')
    p.add_argument('names', nargs='*')
    args = p.parse_args()
    args.lockstep, failed = os.path.abspath(args.lockstep), 0
    with tempfile.TemporaryDirectory() as t:
        args.folder = os.path.abspath(args.keep or t)
        for name in [*HANGS, *CRASHES, 'healthy']:
            if args.names and name not in args.names:
                continue
            try:
                (hang if name in HANGS else crash if name in CRASHES else healthy)(args, name)
                print('ok', name, flush=True)
            except (AssertionError, KeyError, OSError, subprocess.SubprocessError) as e:
                failed += 1
                print(f'FAILED {name}: {e}' if isinstance(e, AssertionError) else f'FAILED {name}: {e!r}', flush=True)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
