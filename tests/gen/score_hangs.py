#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Diagnose every folder of evidence that make_hangs.py made, and say which verdicts are right.

    tests/gen/score_hangs.py [-v] [--lockstep build/lockstep] [--list FILE] DIR
    tests/gen/score_hangs.py [--lockstep build/lockstep] --seed S --count N [--at-least PCT]     makes the scenes first

Right is: the verdict; the first finding that is no note names exactly the culprits (with `split`, all findings together
do), with the cause or one as good. Where nothing can decide, nobody is blamed. Where nothing hangs, the verdict is neither
hung nor crashed, and nobody is blamed but for being slow. Exit status: 0 if all are right, or so many of a hundred and no
alarm on a job in which nothing hangs.
"""
import argparse
import collections
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_hangs import make_scene  # noqa: E402
from scoring import diagnose  # noqa: E402


def loud(doc):
    return [f for f in doc['findings'] if f['severity'] != 'note']


def ranks_of(findings):
    return sorted({r for f in findings for r in f.get('culprits', {}).get('ranks') or []}, key=lambda r: (isinstance(r, str), r))


def right(a, status, doc):
    """None, or what is wrong."""
    if doc is None:
        return 'no JSON'
    found = loud(doc)
    verdicts = [a['verdict'], *a.get('verdict_also_ok', [])] + ([] if a['decidable'] else ['insufficient', 'hung'])
    if a['cause'] == 'none':
        blamed = [f for f in found if f['kind'] in ('hang', 'crash') and ranks_of([f])]
        return 'verdict' if doc['verdict'] not in verdicts else 'blame' if blamed or set(ranks_of(found)) - set(a.get('slow_ranks', [])) else None
    if doc['verdict'] not in verdicts:
        return 'verdict'
    if not a['decidable']:
        return 'blame' if ranks_of(found) else None
    named, causes = ranks_of(found if a.get('split') else found[:1]), [a['cause'], *a.get('cause_also_fair', [])]
    hosts = [h for f in found[:1] for h in f['culprits'].get('hosts') or []]
    allowed = [a['culprit_ranks'], *a.get('culprit_also_ok', [])]
    if a.get('culprit_hosts') and named != a['culprit_ranks'] and hosts != a['culprit_hosts']:
        return 'culprit'
    if not a.get('culprit_free') and named not in allowed:
        return 'culprit'
    return None if found and found[0]['cause'] in causes or not found and 'unknown' in causes else 'cause'


def said(status, doc):
    if doc is None:
        return f'exit {status}, no JSON'
    rows = [f"{f['cause']} {ranks_of([f])}" for f in loud(doc)]
    return f"exit {status}, {doc['verdict']}: {'; '.join(rows[:3]) or 'nothing'}"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('-v', action='store_true', help='also the right ones')
    p.add_argument('--lockstep', default=os.environ.get('LOCKSTEP', os.path.join('build', 'lockstep')))
    p.add_argument('--list', help='write what is wrong here as well, with the answers')
    p.add_argument('--seed', default='1')
    p.add_argument('--count', type=int, default=100)
    p.add_argument('--at-least', type=float, default=100, metavar='PCT')
    p.add_argument('folder', nargs='?')
    args = p.parse_args()
    if args.folder:
        sys.exit(score(args))
    with tempfile.TemporaryDirectory() as args.folder:
        for i in range(args.count):
            make_scene(f'{args.seed}/{i}', args.folder)
        sys.exit(score(args))


def score(args):
    table, wrong, slowest = collections.defaultdict(lambda: [0, 0]), [], 0.0
    for case in sorted(os.listdir(args.folder)):
        folder = os.path.join(args.folder, case)
        if not os.path.exists(os.path.join(folder, 'answer.json')):
            continue
        with open(os.path.join(folder, 'answer.json')) as f:
            a = json.load(f)
        status, doc, seconds = diagnose(os.path.abspath(args.lockstep), folder)
        why, slowest = right(a, status, doc), max(slowest, seconds)
        table[a.get('fault', 'other')][0] += why is None
        table[a.get('fault', 'other')][1] += 1
        line = (f"{case} ({a.get('kind')}, {a.get('backend')}, {a.get('world_size')} ranks, {a.get('sources')}): want {a['verdict']} {a['cause']} {a['culprit_ranks']}"
                f"{'' if a['decidable'] else ' (not decidable)'}; {said(status, doc)}")
        if why:
            wrong.append((case, why, a, line))
        if why or args.v:
            print(f"{('WRONG ' + why) if why else 'right':14} {line}", flush=True)
    for name, (good, total) in sorted(table.items()):
        print(f'{name:22} {good:3} of {total}')
    good, total = (sum(v[i] for v in table.values()) for i in (0, 1))
    if args.list:
        with open(args.list, 'w') as f:
            f.writelines(f'- {line}\n  wrong: {why}. Right, because: {a["what"]}.\n' for _, why, a, line in wrong)
    print(f'{good} of {total} right, slowest {slowest:.2f} s')
    alarms = sum(a['cause'] == 'none' for _, _, a, _ in wrong)
    if good < total and args.at_least < 100:
        print(f'{alarms} alarms on jobs in which nothing hangs')
    return good * 100 < args.at_least * total or alarms > 0


if __name__ == '__main__':
    main()
