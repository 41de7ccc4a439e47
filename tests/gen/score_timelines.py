#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes timelines of random jobs with known faults (make_timeline.py), and counts what diagnose says of them rightly.

Usage: score_timelines.py --lockstep PATH [--seed TEXT] [--count N] [--at-least PERCENT] [-v]
Right: nothing, where nothing is wrong or costs less than the least impact; else one finding with the place and cause, and the
slowdown within 5 % where a lane or stage is to blame.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

import make_timeline

BY = .05  # of the slowdown
CLEAR = 1.08  # a fault that costs less may be left as a note


def plan(dice):
    fault = dice.choice(('none', 'worker', 'worker', 'stage', 'head', 'host', 'link'))
    steps = dice.randint(3, 12)
    words = {'seed': dice.randrange(10**6), 'dp': dice.choice((1, 2, 2, 3, 4, 8)), 'pp': dice.choice((2, 3, 4, 4, 6, 8)),
             'tp': dice.choice((1, 2, 4, 8)), 'steps': steps, 'micro': dice.choice((4, 8, 12, 16)), 'fault': fault,
             'style': dice.choice(('aligned', 'aligned', 'raw')), 'shape': dice.choice(('array', 'array', 'object'))}
    words['factor'] = round({'link': dice.uniform(20, 60)}.get(fault, dice.uniform(1.3, 3)), 2)
    words['first'] = 0 if steps < 7 or dice.random() < .5 else dice.randint(2, steps - 4)
    if fault in ('none', 'worker', 'stage', 'head'):
        words['chunks'] = dice.choice((1, 1, 1, 2, 4))
    if words['dp'] == 1 and fault == 'worker':
        words['first'] = 0  # a lane without peers has only its past
        words['dp'] = 2
    return words


def arguments(words):
    return [x for k, v in words.items() for x in ('--' + k, str(v))]


def verdict(answer, doc, exit_status):
    """None if right, else what is wrong."""
    real = [f for f in doc['findings'] if f['severity'] != 'note']
    if answer['fault'] == 'none':
        return None if exit_status == 0 and not real else f'alarm: {[(f["cause"], f["culprits"]) for f in real]}'
    if not real:
        return None if answer['slowdown'] < CLEAR else 'missed'
    f = real[0]
    place = f'dp={answer["dp"]} pp={answer["pp"]}'
    if f['cause'] != answer['cause']:
        return f'cause {f["cause"]}'
    if answer['fault'] in ('stage', 'head'):
        if f['culprits']['stages'] != [answer['pp']] or f['culprits']['ranks'] or f['culprits']['coords']:
            return f'blames {f["culprits"]}'
    elif place not in f['culprits']['coords']:
        return f'blames {f["culprits"]["coords"]}'
    elif answer['fault'] != 'link' and len(f['culprits']['coords']) > 1:
        return f'blames {f["culprits"]["coords"]} and more'
    if len(real) > 1:
        return f'more: {[(f["severity"], f["cause"], f["culprits"]) for f in real[1:]]}'
    if abs(f['impact']['slowdown'] / answer['slowdown'] - 1) > BY and answer['fault'] != 'host':
        return f'slowdown {f["impact"]["slowdown"]:.3f}, not {answer["slowdown"]:.3f}'
    if answer['fault'] in ('worker', 'host') and f['windows'][0]['first_step'] != answer['first_step']:
        return f'since {f["windows"][0]["first_step"]}, not {answer["first_step"]}'
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--lockstep', default='build/lockstep')
    p.add_argument('--seed', default='1')
    p.add_argument('--count', type=int, default=40)
    p.add_argument('--at-least', type=float, default=0)
    p.add_argument('-v', action='store_true')
    a = p.parse_args()
    dice, good, tally = random.Random(a.seed), 0, {}
    for _ in range(a.count):
        words = plan(dice)
        with tempfile.TemporaryDirectory() as out:
            answer = make_timeline.main(['--out', out, *arguments(words)])
            run = subprocess.run([a.lockstep, 'diagnose', '--json', os.path.join(out, 'timeline.json')],
                                 capture_output=True, text=True, timeout=120)
        wrong = verdict(answer, json.loads(run.stdout), run.returncode)
        row = tally.setdefault(words['fault'], [0, 0])
        row[0] += wrong is None
        row[1] += 1
        good += wrong is None
        if wrong or a.v:
            print(f'{"WRONG" if wrong else "right"} {" ".join(arguments(words))}: {wrong or ""} ({answer["cause"]} at '
                  f'dp={answer["dp"]} pp={answer["pp"]}, {answer["slowdown"]:.3f})')
    for fault, (right, n) in sorted(tally.items()):
        print(f'{fault}: {right} of {n}')
    print(f'timelines: {good} of {a.count} right')
    return 0 if 100 * good >= a.at_least * a.count else 1


if __name__ == '__main__':
    sys.exit(main())
