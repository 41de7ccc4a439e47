#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Simulate jobs at random and see whether diagnose names the culprit: a table by cause and by what the fault costs.

    tests/gen/accuracy.py [--lockstep build/lockstep] [--seed S] [--count N] [--most RANKS] [--at-least PCT] [-v]

diagnose is asked with --min-impact 1. Right is: the first finding that is no note names exactly the ranks (of stages
the stage) with the cause; of a job without a fault, there is none. Where all transfers of a bad port go through groups
that lie within one another (no pipeline), its rank cannot be told: right is that no rank is blamed. The kind of a job,
its layout and its fault follow from the seed and the job's number alone. Exit status: 0 if, with --at-least, so many
of a hundred faults of 5 % or more are right and no healthy job gives an alarm.
"""
import argparse
import collections
import concurrent.futures
import json
import math
import os
import random
import subprocess
import sys
import tempfile

BINS = ((0, .01, 'below 1 %'), (.01, .02, '1 to 2 %'), (.02, .03, '2 to 3 %'), (.03, .05, '3 to 5 %'), (.05, .1, '5 to 10 %'),
        (.1, 1e9, '10 % or more'))
CAUSES = ('none', 'compute-straggler', 'compute-straggler', 'throttling', 'comm-link', 'host-stall', 'data-starved', 'checkpoint',
          'pipeline-imbalance', 'workload-imbalance', 'kernel-regression')


def layout_of(dice, most):
    """(text, {dim: size}, world) of a job with 8 ranks or more."""
    while True:
        size = {'tp': dice.choice((1, 1, 2, 4, 8)), 'cp': dice.choice((1, 1, 1, 2)), 'pp': dice.choice((1, 1, 2, 4, 8)),
                'dp': dice.choice((1, 2, 4, 8, 16, 32, 64, 128, 1440))}
        world = math.prod(size.values())
        if not 8 <= world <= most:
            continue
        order = [d for d in ('tp', 'cp', 'dp', 'pp') if size[d] > 1]
        if dice.random() < .3:
            dice.shuffle(order)
        runs = size['dp'] * size['cp']
        size['ep'] = dice.choice([e for e in (1, 1, 4, 8, 32) if runs % e == 0 and e <= runs])
        return ' '.join(f'{d}={size[d]}' for d in order) + (f" ep={size['ep']}" if size['ep'] > 1 else ''), size, world


def fault_of(dice, cause, size, world, steps):
    """(text or None, ranks, stages)."""
    begin = dice.randrange(4, steps // 2)
    strength = 1 + dice.choice((.02, .05, .1, .2, .4, .8, 1.5, 5))
    node = dice.randrange(max(world // 8, 1))
    ranks = [dice.randrange(world)] if world < 16 or dice.random() < .6 else list(range(8 * node, 8 * node + 8))
    some = f'ranks={ranks[0]}-{ranks[-1]} ' if len(ranks) > 1 else f'ranks={ranks[0]} '
    ms = round(2000 * (strength - 1))
    if cause == 'none':
        return None, [], []
    if cause == 'pipeline-imbalance':
        stage = dice.randrange(size['pp'])
        return f'{cause} stage={stage} factor={1.25 + strength / 4:.2f}', [], [stage]
    if cause == 'workload-imbalance':
        return f'{cause} factor={strength + .2:.2f}', [], []
    if cause == 'kernel-regression':
        return f'{cause} factor={strength + .05:.2f} from={begin}', [], []
    if cause == 'checkpoint':
        return f'{cause} ms={5 * ms} every=10 from=5', [], []
    if cause == 'throttling':
        return f'{cause} {some}factor={strength + .1:.2f} every=12 last=5 from=2', ranks, []
    if cause == 'comm-link':
        return f'{cause} {some}factor={1 + 10 * (strength - 1):.2f} from={begin}', ranks, []
    if cause == 'compute-straggler':
        return f'{cause} {some}factor={strength:.2f} from={begin}', ranks, []
    return f'{cause} {some}ms={ms} from={begin}', ranks, []


def job_of(args, number):
    """One job: (cause, impact, what is wrong or None, words)."""
    dice = random.Random(f'{args.seed}/{number}')
    steps = dice.choice((30, 40, 60))
    layout, size, world = layout_of(dice, args.most)
    cause = dice.choice([c for c in CAUSES if (c != 'pipeline-imbalance' or size['pp'] > 2) and (c != 'workload-imbalance' or size['dp'] > 1)])
    fault, ranks, stages = fault_of(dice, cause, size, world, steps)
    options = ['--interleave', '2'] if size['pp'] > 1 and dice.random() < .2 else []
    options += ['--all-reduce'] if dice.random() < .3 else []
    with tempfile.TemporaryDirectory() as folder:
        argv = [args.lockstep, 'sim', '--layout', layout, '--steps', str(steps), '--seed', str(number), '--out', folder, *options]
        words = f'{layout}, {fault or "healthy"} {" ".join(options)}'
        subprocess.run(argv + (['--fault', fault] if fault else []), check=True, timeout=600)
        with open(os.path.join(folder, 'truth.json'), encoding='utf-8') as f:
            truth = json.load(f)
        p = subprocess.run([args.lockstep, 'diagnose', '--json', '--min-impact', '1', folder], capture_output=True, text=True, timeout=600)
    if args.only is not None:
        print(' '.join(argv), fault)
        for f in json.loads(p.stdout)['findings']:
            print(f['severity'], f['cause'], f['culprits']['ranks'], f['culprits']['stages'], f['impact']['slowdown'],
                  [(w['first_step'], w['last_step']) for w in f['windows']][:6], f['summary'])
    impact = truth['faults'][0]['slowdown'] - 1 if fault else 0
    return cause, impact, wrong_with(json.loads(p.stdout), cause, ranks, stages, cause != 'comm-link' or size['pp'] > 1), words


def wrong_with(doc, cause, ranks, stages, told):
    loud = [f for f in doc['findings'] if f['severity'] != 'note']
    if cause == 'none':
        return None if not loud else 'alarm'
    if not told:
        # one communicator over all pins no link; against its own past it may be known all the same
        return 'culprit' if any(f['culprits']['ranks'] not in ([], ranks) for f in loud) else None
    first = loud[0] if loud else None
    if not first:
        return 'silent'
    named = first['culprits']['ranks']
    # a port that only one slow pair of ranks shows is told as the pair: either end may be it
    pair = cause == 'comm-link' and len(ranks) == 1 and len(named) == 2 and ranks[0] in named
    if (named != ranks and not pair) or first['culprits']['stages'] != stages:
        return 'culprit'
    return None if first['cause'] == cause else 'cause'


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--lockstep', default=os.environ.get('LOCKSTEP', os.path.join('build', 'lockstep')))
    p.add_argument('--seed', default='1')
    p.add_argument('--count', type=int, default=100)
    p.add_argument('--most', type=int, default=1024, metavar='RANKS')
    p.add_argument('--at-least', type=float, default=0, metavar='PCT')
    p.add_argument('-v', action='store_true', help='what was not right')
    p.add_argument('--only', type=int, metavar='N', help='one job, with what was found in it')
    args = p.parse_args()
    args.lockstep = os.path.abspath(args.lockstep)
    if args.only is not None:
        print(*job_of(args, args.only))
        return
    table = collections.defaultdict(lambda: [0, 0])
    kinds = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, (cause, impact, wrong, words) in enumerate(pool.map(lambda n: job_of(args, n), range(args.count))):
            of = 'none' if cause == 'none' else next(name for low, high, name in BINS if low <= max(impact, 0) < high)
            table[cause, of][0] += wrong is None
            table[cause, of][1] += 1
            kinds[of, wrong] += 1
            if args.v and wrong:
                print(f'{args.seed}/{number}: {wrong}: {cause} {impact:.3f}: {words}')
    for cause in dict.fromkeys(CAUSES):
        row = [f'{name}: {table[cause, name][0]} of {table[cause, name][1]}' for name in ('none', *(b[2] for b in BINS)) if table[cause, name][1]]
        print(f'{cause:20} {"; ".join(row)}')
    for of in ('none', *(b[2] for b in BINS)):
        n = sum(v for (b, _), v in kinds.items() if b == of)
        if n:
            print(f'{of:14} {kinds[of, None]} of {n}; {", ".join(f"{w} {v}" for (b, w), v in sorted(kinds.items(), key=str) if b == of and w)}')
    large = [v for (_, of), v in table.items() if of in (BINS[-1][2], BINS[-2][2])]
    good = sum(v[0] for v in large) >= args.at_least / 100 * sum(v[1] for v in large)
    sys.exit(0 if good and (not args.at_least or not kinds['none', 'alarm']) else 1)


if __name__ == '__main__':
    main()
