#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Healthy jobs with all the natural variation on, through the pipe: does anything give an alarm?

Prints, for each job, its size and what was found, and at the end the false alarms per rank-day with the upper end of
the 95 % interval (Poisson: of 0 alarms it is 3.0 over the time watched). Exit 1 if there is an alarm, or memory above
--most-mb. A finding is an alarm if it is a fault or a risk at diagnose's own --min-impact.
"""
import argparse
import json
import math
import os
import resource
import subprocess
import sys

# Upper ends of the two-sided 95 % interval of a Poisson count of 0, 1, 2, .. (half the 97.5 % quantile of chi square
# with 2n + 2 degrees of freedom); of 0 the one-sided one.
UPPER = (3.0, 5.572, 7.225, 8.767, 10.242, 11.668, 13.06, 14.423, 15.763, 17.085)


def watch(args, seed):
    """(ranks, seconds of training, alarms) of one job."""
    argv = [args.lockstep, 'sim', '--layout', args.layout, '--steps', str(args.steps), '--seed', str(seed), '--out', '-']
    argv += ['--micro-batches', str(args.micro_batches)] if args.micro_batches else []
    sim = subprocess.Popen(argv, stdout=subprocess.PIPE)
    p = subprocess.run([args.lockstep, 'diagnose', '--json', '-'], stdin=sim.stdout, capture_output=True, check=False)
    sim.stdout.close()
    if sim.wait() or p.stderr:
        sys.exit(f'healthy.py: sim {sim.returncode}, diagnose {p.returncode}: {p.stderr.decode()[-300:]}')
    doc = json.loads(p.stdout)
    if doc['job']['last_step'] != args.steps - 1 or doc['job']['coverage'] != 1:
        sys.exit(f'healthy.py: not all steps were judged: {doc["job"]}')
    alarms = [f for f in doc['findings'] if f['severity'] != 'note']
    for f in alarms:
        print('ALARM', f['severity'], f['cause'], f['culprits']['ranks'][:16], f['summary'])
    return doc['job']['world_size'], doc['job']['step_ms']['median'] / 1e3 * args.steps, len(alarms)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--lockstep', default=os.environ.get('LOCKSTEP', os.path.join('build', 'lockstep')))
    p.add_argument('--layout', default='dp=1440 pp=9 ep=32')
    p.add_argument('--steps', type=int, default=300)
    p.add_argument('--micro-batches', type=int, help="of a step (default the simulator's)")
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--most-mb', type=float, default=math.inf, help='of memory, for a process: it must not grow with the steps')
    p.add_argument('--jobs', type=int, default=1, help='of consecutive seeds')
    args = p.parse_args()
    days = alarms = 0
    for seed in range(args.seed, args.seed + args.jobs):
        ranks, seconds, found = watch(args, seed)
        days += ranks * seconds / 86400
        alarms += found
        print(f'{args.layout}, seed {seed}: {ranks:,} ranks, {args.steps:,} steps, {found} alarms', flush=True)
    upper = UPPER[alarms] if alarms < len(UPPER) else alarms + 2 * math.sqrt(alarms) + 2
    print(f'{alarms} alarms in {days:,.0f} rank-days: {alarms / days:.2g} a rank-day, at most {upper / days:.2g} (95 %)')
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3
    print(f'peak memory of a process {peak:,.0f} MB')
    sys.exit(1 if alarms or peak > args.most_mb else 0)


if __name__ == '__main__':
    main()
