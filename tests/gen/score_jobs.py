#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Diagnose every job of a folder that make_jobs.py made, and say which verdicts are right.

    tests/gen/score_jobs.py [-v] [--lockstep build/lockstep] DIR

Right is: nothing wrong, exit 0 and no finding (but notes); a culprit, one finding that names exactly the culprits (or,
for an imbalance of stages, the stage and no rank) with the cause; a cause without a culprit, the cause named and nobody
blamed. What is not detectable may also be passed over in silence. Exit status: 0 if all are right.
"""
import argparse
import collections
import json
import os
import sys

from scoring import diagnose


def ranks_of(finding):
    return sorted(finding.get('culprits', {}).get('ranks') or [], key=lambda r: (isinstance(r, str), r))


def names(finding, answer):
    culprits = finding.get('culprits', {})
    if ranks_of(finding) == sorted(answer['culprit_ranks']):
        return True
    return answer['culprit_stage'] is not None and not ranks_of(finding) and culprits.get('stages') == [answer['culprit_stage']]


def right(answer, status, doc):
    if doc is None:
        return False
    loud = [f for f in doc['findings'] if f['severity'] != 'note']
    if answer['fault'] == 'none':
        return status == 0 and not loud
    if not answer['detectable'] and not loud:
        return True
    causes = {answer['cause'], *answer.get('cause_also_ok', ())}
    if answer['cause'] == 'throttling':
        causes.add('compute-straggler')
    if answer['culprit_ranks']:
        named = [f for f in loud if names(f, answer)]
        return bool(named) and named[0]['cause'] in causes
    return bool(causes & {f['cause'] for f in doc['findings']}) and not any(ranks_of(f) for f in loud)


def said(status, doc):
    if doc is None:
        return f'exit {status}, no JSON'
    loud = [f"{f['severity']} {f['cause']} {ranks_of(f) or f.get('culprits', {}).get('stages') or ''}" for f in doc['findings'] if f['severity'] != 'note']
    return f"exit {status}, {doc['verdict']}: {'; '.join(loud[:3]) or 'nothing'}"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('-v', action='store_true', help='also the right ones')
    p.add_argument('--lockstep', default=os.environ.get('LOCKSTEP', os.path.join('build', 'lockstep')))
    p.add_argument('folder')
    args = p.parse_args()
    table, slowest, alarms, healthy = collections.defaultdict(lambda: [0, 0]), 0.0, 0, 0
    for case in sorted(os.listdir(args.folder)):
        folder = os.path.join(args.folder, case)
        if not os.path.exists(os.path.join(folder, 'answer.json')):
            continue
        with open(os.path.join(folder, 'answer.json')) as f:
            a = json.load(f)
        status, doc, seconds = diagnose(os.path.abspath(args.lockstep), folder)
        ok, slowest = right(a, status, doc), max(slowest, seconds)
        table[a['fault']][0] += ok
        table[a['fault']][1] += 1
        healthy += a['fault'] == 'none'
        alarms += a['fault'] == 'none' and not ok
        if args.v or not ok:
            print(f"{'right' if ok else 'WRONG'}  {case}: want {a['cause']} {a['culprit_ranks'] or ''}"
                  f"{'' if a['detectable'] or a['fault'] == 'none' else ' (not detectable)'}, impact {a['impact_pct']} %; {said(status, doc)}")
    for fault, (good, total) in sorted(table.items()):
        print(f'{fault:20} {good:3} of {total}')
    good, total = (sum(v[i] for v in table.values()) for i in (0, 1))
    print(f'{good} of {total} right, {alarms} false alarms in {healthy} healthy jobs, slowest {slowest:.2f} s')
    sys.exit(good != total)


if __name__ == '__main__':
    main()
