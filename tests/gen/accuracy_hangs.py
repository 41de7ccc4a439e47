#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Simulate jobs that hang or crash at random (`lockstep sim --as dumps`) and see whether diagnose names the culprit.

    tests/gen/accuracy_hangs.py [--lockstep build/lockstep] [--seed S] [--count N] [--most RANKS] [--only NUMBER]
                                [--at-least PCT] [-v]

Right is: the verdict; the first finding that is no note names exactly the culprits (of a fault that is nobody's: nobody),
with the cause, or with one as good where what would tell it was left out. Where the evidence decides nothing (all came
and nothing moves, and no log says that a time-out passed), right is that nobody is blamed. Two ranks that called
different things, one each, are a tie: right is that both are named. The layout, the fault, the dialect and what is left
out follow from the seed and the job's number alone. Exit status: 0 if, with --at-least, so many of a hundred are right.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from accuracy import layout_of  # noqa: E402

# What people have: all, or without these.
LEFT_OUT = ('', '', '', 'stacks', 'stacks', 'stacks,power', 'log', 'power', 'log,stacks', 'log,power,stacks,kernel', 'power,stacks,kernel', 'dumps',
            'dumps,power', 'dumps,stacks')
WEAK = {'missing-rank', 'unknown'}


class Job:
    def __init__(self, dice, most):
        self.layout, self.size, self.world = layout_of(dice, most)
        self.gloo = dice.random() < .3
        self.json, self.timing = dice.random() < .3, dice.random() < .3
        self.ring = dice.choice((2000, 2000, 200, 60))
        self.left = dice.choice(LEFT_OUT)
        if self.gloo and self.left == 'dumps,stacks':
            self.left = 'dumps'
        self.steps = dice.choice((12, 20, 40))
        self.begin = dice.randrange(1, self.steps)
        self.rank = dice.randrange(self.world)
        node = self.rank // 8 * 8
        self.node = list(range(node, min(node + 8, self.world)))
        self.nodes_missing = dice.random() < .15 and self.world > 16

    def has(self, part):
        return part not in self.left.split(',')


def fault_of(dice, job):
    """(kind, text, culprits, causes that are right, verdicts)"""
    groups = [g for g in ('tp', 'cp') if job.size[g] > 1] + (['dp'] if job.size['dp'] * job.size['cp'] > 1 else []) + \
        (['ep'] if job.size['ep'] > 1 else []) + (['mp'] if job.size['tp'] * job.size['pp'] > 1 else [])
    kinds = ['host-stall', 'data-starved', 'checkpoint', 'uneven-steps', 'collective-desync', 'dead-rank', 'missing-rank', 'collective-stuck', 'preempted']
    kinds += ['order-inversion'] if job.size['tp'] > 1 else []
    kinds += ['gpu-error', 'network-error'] if not job.gloo else []
    kind, at, one = dice.choice(kinds), f'from={job.begin}', [job.rank]
    log, stacks, power = job.has('log'), job.has('stacks'), job.has('power') and not job.gloo
    if kind == 'host-stall':
        detail = dice.choice(('python', 'compile', 'gc', 'io'))
        return kind, f'{kind} ranks={job.rank} ms=forever detail={detail} {at}', one, {kind} | (set() if stacks else WEAK), {'hung'}
    if kind == 'data-starved':
        return kind, f'{kind} ranks={job.rank} ms=forever {at}', one, {kind} | (set() if stacks else WEAK), {'hung'}
    if kind == 'checkpoint':
        return kind, f'{kind} ms=forever {at}', [0], {kind} | (set() if stacks or log else WEAK), {'hung', 'slow'}
    if kind == 'uneven-steps':
        how = dice.choice(('barrier', 'barrier', 'evaluation', 'exit'))
        fair = {'barrier': {'collective-desync', 'missing-rank'}, 'evaluation': {'collective-desync', 'missing-rank'},
                'exit': {'missing-rank', 'dead-rank', 'collective-desync', 'unknown'}}[how]
        return f'{kind}, {how}', f'{kind} ranks={job.rank} fewer={job.steps - job.begin} detail={how}', one, {kind} | fair, {'hung', 'crashed'}
    if kind == 'collective-desync':
        how, group = dice.choice(('size', 'operation', 'skip')), dice.choice(groups)
        fair = {'missing-rank', 'uneven-steps'} if how == 'skip' else set()
        return f'{kind}, {how}', f'{kind} ranks={job.rank} group={group} detail={how} {at}', one, {kind} | fair, {'hung'}
    if kind == 'order-inversion':
        return kind, f'{kind} ranks={job.rank} {at}', one, {'collective-desync'}, {'hung'}
    if kind == 'dead-rank':
        how = dice.choice(('killed', 'exception', 'out-of-memory'))
        launcher = dice.random() < .5
        ends = launcher or job.gloo
        cause = kind if how == 'killed' else how
        fair = set() if log and (ends or how != 'killed') else WEAK | {'dead-rank'}
        return (f'{kind}, {how}', f'{kind} ranks={job.rank} detail={how} launcher={int(launcher)} {at}', one, {cause} | fair,
                {'crashed', 'insufficient'} if ends and not log else {'crashed'} if ends else {'hung', 'crashed'})
    if kind == 'missing-rank':
        how = dice.choice(('alive', 'silent'))
        return f'{kind}, {how}', f'{kind} ranks={job.rank} detail={how} {at}', one, WEAK | ({'dead-rank'} if how == 'silent' else set()), {'hung'}
    if kind == 'collective-stuck':
        whole = job.has('dumps') and not job.nodes_missing
        return kind, f'{kind} ranks={job.rank} group={dice.choice(groups)} {at}', [], {kind} | (set() if whole else {'unknown'}), {'hung'}
    if kind == 'network-error':
        return kind, f'{kind} ranks={job.rank} {at}', None, {kind, 'collective-stuck'}, {'hung', 'crashed'}
    if kind == 'gpu-error':
        launcher = dice.random() < .5
        told = log or job.has('kernel')
        # the kernel's log knows the process and the device only, and the host is named
        return kind, f'{kind} ranks={job.rank} launcher={int(launcher)} {at}', one if log or not launcher else None, {kind} | (set() if told else WEAK | {'dead-rank'}), \
            {'hung', 'crashed'} | ({'insufficient'} if not log else set())
    return kind, f'{kind} {at}', [], {kind}, {'crashed'}


def decidable(job, kind, text):
    """Does anything that is given tell of it?"""
    ended = kind == 'preempted' or 'launcher=1' in text or job.gloo and kind.startswith('dead-rank')
    if ended:
        return job.has('log') or kind == 'gpu-error' and job.has('kernel')
    if kind in ('collective-stuck', 'network-error'):
        return job.has('log') and not job.gloo
    if not job.has('dumps'):  # who called what: stacks of a program that all run alike do not tell; Gloo has no watchdog
        return kind.split(',')[0] not in ('collective-desync', 'order-inversion', 'uneven-steps') and not \
            (job.gloo and kind.split(',')[0] in ('missing-rank', 'dead-rank'))
    if kind == 'collective-desync, size' and 'group=ep' in text:
        return False  # an exchange among experts may have any sizes
    return not (job.gloo and job.size['pp'] > 1 and not job.has('stacks'))  # Gloo records no send and receive


def loud(doc):
    return [f for f in doc['findings'] if f['severity'] != 'note']


def wrong_with(job, kind, text, culprits, causes, verdicts, doc):
    found = loud(doc)
    named = found[0]['culprits']['ranks'] if found else []
    strangers = [r for r in named if culprits is not None and r not in culprits]
    if not decidable(job, kind, text):
        return 'blamed' if strangers else None
    if culprits is None:
        return None if found and found[0]['cause'] in causes else 'cause'
    if strangers:
        return 'tie' if len(named) == 2 and set(culprits) < set(named) else 'blamed'
    if named != culprits:
        return 'silent'
    if doc['verdict'] not in verdicts:
        return 'verdict'
    return None if found and found[0]['cause'] in causes or not found and 'unknown' in causes else 'cause' if found else 'silent'


def job_of(args, number):
    dice = random.Random(f'{args.seed}/{number}')
    while True:
        job = Job(dice, args.most)
        kind, text, culprits, causes, verdicts = fault_of(dice, job)
        with tempfile.TemporaryDirectory() as folder:
            out = args.keep or folder
            argv = [args.lockstep, 'sim', '--layout', job.layout, '--steps', str(job.steps), '--seed', str(number), '--as', 'dumps', '--out', out,
                    '--fault', text, '--ring', str(job.ring), '--dialect', 'gloo' if job.gloo else 'nccl', '--format', 'json' if job.json else 'pickle']
            argv += ['--timing'] * job.timing + (['--without', job.left] if job.left else [])
            argv += ['--interleave', '2'] if job.size['pp'] > 1 and dice.random() < .2 else []
            argv += ['--all-reduce'] if dice.random() < .3 else []
            if job.nodes_missing:
                gone = set(dice.sample(range((job.world + 7) // 8), max(1, job.world // 32)))
                argv += ['--ranks', ','.join(str(r) for r in range(job.world) if r // 8 not in gone)]
            p = subprocess.run(argv, capture_output=True, text=True, timeout=600)
            if p.returncode == 64 and ('no two groups' in p.stderr or 'does not hang' in p.stderr):
                continue
            if p.returncode:
                sys.exit(f'{args.seed}/{number}: {p.stderr}{" ".join(argv)}')
            os.remove(os.path.join(out, 'truth.json'))
            p = subprocess.run([args.lockstep, 'diagnose', '--json', out], capture_output=True, text=True, timeout=600)
        doc = json.loads(p.stdout)
        why = wrong_with(job, kind, text, culprits, causes, verdicts, doc)
        said = '; '.join(f"{f['cause']} {f['culprits']['ranks']} {f['confidence']:.2f}" for f in loud(doc)[:2]) or 'nothing'
        some = f'nodes {sorted(gone)} missing' if job.nodes_missing else ''
        return job, kind, why, decidable(job, kind, text), f'want {sorted(causes)} {culprits}: {doc["verdict"]}: {said}: {" ".join(argv[2:])} {some}'


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--lockstep', default=os.environ.get('LOCKSTEP', os.path.join('build', 'lockstep')))
    p.add_argument('--seed', default='1')
    p.add_argument('--count', type=int, default=100)
    p.add_argument('--only', type=int, help='only this number')
    p.add_argument('--keep', help='with --only: leave the evidence in this folder')
    p.add_argument('--most', type=int, default=1024, metavar='RANKS')
    p.add_argument('--at-least', type=float, default=0, metavar='PCT')
    p.add_argument('-v', action='store_true', help='what was not right')
    args = p.parse_args()
    args.lockstep = os.path.abspath(args.lockstep)
    tables = [collections.defaultdict(collections.Counter) for _ in range(3)]
    numbers = range(args.count) if args.only is None else [args.only]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, (job, kind, why, told, words) in zip(numbers, pool.map(lambda n: job_of(args, n), numbers)):
            given = 'all' if not job.left else 'without ' + job.left
            rows = (kind if told else 'not decidable', ('Gloo' if job.gloo else 'NCCL') + (', nodes missing' if job.nodes_missing else ''), given)
            for table, row in zip(tables, rows):
                table[row][why or 'right'] += 1
            if args.v and why or args.only is not None:
                print(f'{args.seed}/{number}: {why}: {words}', flush=True)
    for table in tables:
        print()
        for row, n in sorted(table.items()):
            wrong = ', '.join(f'{k} {v}' for k, v in sorted(n.items()) if k != 'right')
            print(f'{row:32} {n["right"] + n["tie"]:4} of {sum(n.values()):4}{": " + wrong if wrong else ""}')
    right, total = (sum(f(n) for n in tables[0].values()) for f in (lambda n: n['right'] + n['tie'], lambda n: sum(n.values())))
    print(f'\n{right} of {total} right')
    sys.exit(0 if right >= args.at_least / 100 * total else 1)


if __name__ == '__main__':
    main()
