#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run real training jobs of four ranks with PyTorch's profiler, hurt one rank, and see whether lockstep names it.

    VENV/bin/python tests/torch/run.py [--lockstep build/lockstep] [--keep DIR] [NAME...]

Needs a Python with torch (any 2.x with FSDP2; 2.13 is what it is written for). One line a test, `ok NAME` or
`FAILED NAME: why`; exit status 0 if all are ok. The verdict is what is tested (who, and why), never a time: the ranks
share whatever cores there are.
"""
import argparse
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRAIN = os.path.join(ROOT, 'examples', 'demo', 'train.py')
JOBS = {  # name: options of train.py
    'ddp-healthy': [],
    'ddp-compute': ['--slow-rank', '2', '--slow-from', '5', '--slow-how', 'compute', '--extra', '12'],
    'ddp-data': ['--slow-rank', '1', '--slow-from', '0', '--slow-how', 'data', '--seconds', '.6'],
    'fsdp-healthy': ['--fsdp'],
    'fsdp-stall': ['--fsdp', '--slow-rank', '3', '--slow-how', 'stall', '--slow-only', '4', '6', '7', '--seconds', '.8'],
}


class Runs:
    """Training jobs, each run once, when a test first asks for it; and what lockstep says of them."""

    def __init__(self, lockstep, folder):
        self.lockstep, self.folder, self.diagnosed = lockstep, folder, {}

    def traces(self, job):
        folder = os.path.join(self.folder, job)
        if not os.path.isdir(folder):
            p = subprocess.run([sys.executable, TRAIN, '--out', folder, *JOBS[job]], capture_output=True, text=True, timeout=120)
            if p.returncode:
                raise AssertionError(f'the training job {job} failed: {p.stderr[-400:]}')
        return folder

    def diagnose(self, job):
        """(exit status, the JSON)."""
        if job not in self.diagnosed:
            p = subprocess.run([self.lockstep, 'diagnose', '--json', self.traces(job)], capture_output=True, text=True, timeout=60)
            try:
                self.diagnosed[job] = p.returncode, json.loads(p.stdout)
            except ValueError:
                raise AssertionError(f'exit {p.returncode}, not JSON: {p.stdout[:100]!r} {p.stderr[-300:]!r}') from None
        return self.diagnosed[job]


    def forget(self, job):
        """The next that asks for the job gets a new run of it."""
        shutil.rmtree(os.path.join(self.folder, job))
        del self.diagnosed[job]


def loud(doc):
    return [f for f in doc['findings'] if f['severity'] != 'note']


def brief(doc):
    return [(f['severity'], f['cause'], f['culprits']['ranks']) for f in doc['findings']]


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def expect_healthy(runs, job):
    """Strangers on the machine may really hold a rank up for once: what is found must be found again in a second run."""
    status, doc = runs.diagnose(job)
    if loud(doc):
        print(f'once: {job}: {brief(doc)}', flush=True)
        runs.forget(job)
        status, doc = runs.diagnose(job)
    expect(status == 0 and doc['verdict'] == 'healthy' and not loud(doc), f'exit {status}, {doc["verdict"]}, {brief(doc)}')


def expect_culprit(runs, job, rank, cause, steps=None):
    status, doc = runs.diagnose(job)
    expect(status == 1 and doc['verdict'] == 'slow' and loud(doc), f'exit {status}, {doc["verdict"]}, {brief(doc)}')
    first = loud(doc)[0]
    expect(first['culprits']['ranks'] == [rank], f'want rank {rank}: {brief(doc)}')
    expect(first['cause'] == cause, f'want {cause}: {brief(doc)}')
    expect({r for f in loud(doc) for r in f['culprits']['ranks']} == {rank}, f'others are blamed too: {brief(doc)}')
    if steps is not None:
        at = first['windows'][0]['first_step']
        expect(at in steps, f'since step {at}, want one of {list(steps)}')


def ddp_healthy_has_no_finding(runs):
    expect_healthy(runs, 'ddp-healthy')


def ddp_rank_that_computes_longer_is_named_since_its_step(runs):
    expect_culprit(runs, 'ddp-compute', 2, 'compute-straggler', range(5, 6))


def ddp_rank_that_waits_for_data_is_named(runs):
    expect_culprit(runs, 'ddp-data', 1, 'data-starved')


def fsdp_healthy_has_no_finding(runs):
    expect_healthy(runs, 'fsdp-healthy')


def fsdp_rank_whose_host_stalls_is_named(runs):
    expect_culprit(runs, 'fsdp-stall', 3, 'host-stall', range(4, 5))


def count_with_python(path):
    """(events, collectives, {step: milliseconds}) of one trace as json.load sees it."""
    with open(path, encoding='utf-8') as f:
        events = json.load(f)['traceEvents']
    names = collections.Counter(e['name'].split(':')[0] for e in events if e.get('ph') == 'X')
    steps = {int(e['name'].split('#')[1]): e['dur'] / 1000 for e in events if e.get('ph') == 'X' and e['name'].startswith('ProfilerStep#')}
    return len(events), names['gloo'], steps


def counts_agree_with_python(runs):
    for job in ('ddp-compute', 'fsdp-healthy'):
        folder, (_, doc) = runs.traces(job), runs.diagnose(job)
        ranks = {r['rank']: r for r in doc['ranks']}
        expect(sorted(ranks) == [0, 1, 2, 3], f'{job}: ranks {sorted(ranks)}')
        for read in doc['read']:
            rank = read['ranks'][0]
            events, collectives, steps = count_with_python(os.path.join(folder, f'rank{rank}.json'))
            got = (read['events'], read['collectives'], read['kernels'], read['steps'])
            expect(got == (events, collectives, 0, len(steps)), f'{job} rank {rank}: {got}, python says {(events, collectives, 0, len(steps))}')
            theirs = {s['step']: s['ms'] for s in ranks[rank]['steps']}
            expect(theirs.keys() == steps.keys(), f'{job} rank {rank}: steps {sorted(theirs)}, want {sorted(steps)}')
            far = [s for s in steps if abs(theirs[s] - steps[s]) > .001]
            expect(not far, f'{job} rank {rank}: step {far[:1]} is {[theirs[s] for s in far[:1]]} ms, want {[steps[s] for s in far[:1]]}')


def records_give_the_same_findings_as_traces(runs):
    """traces -> .lks -> the same answer."""
    _, doc = runs.diagnose('ddp-compute')
    with tempfile.TemporaryDirectory() as t:
        subprocess.run([runs.lockstep, 'export', '--steps', t, runs.traces('ddp-compute')], check=True, capture_output=True, timeout=60)
        p = subprocess.run([runs.lockstep, 'diagnose', '--json', t], capture_output=True, text=True, timeout=60)
    again = json.loads(p.stdout)
    for part in ('verdict', 'job', 'ranks', 'findings'):
        expect(again[part] == doc[part], f'{part} differs')


TESTS = [ddp_healthy_has_no_finding, ddp_rank_that_computes_longer_is_named_since_its_step, ddp_rank_that_waits_for_data_is_named,
         fsdp_healthy_has_no_finding, fsdp_rank_whose_host_stalls_is_named, counts_agree_with_python,
         records_give_the_same_findings_as_traces]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--lockstep', default=os.environ.get('LOCKSTEP', os.path.join(ROOT, 'build', 'lockstep')))
    p.add_argument('--keep', help='leave the traces in this folder, and use those that are there')
    p.add_argument('names', nargs='*')
    args = p.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as t:
        runs = Runs(os.path.abspath(args.lockstep), os.path.abspath(args.keep or t))
        for test in TESTS:
            if args.names and test.__name__ not in args.names:
                continue
            try:
                test(runs)
                print('ok', test.__name__, flush=True)
            except (AssertionError, KeyError, OSError, subprocess.SubprocessError) as e:
                failed += 1
                print(f'FAILED {test.__name__}: {e!r}' if not isinstance(e, AssertionError) else f'FAILED {test.__name__}: {e}', flush=True)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
