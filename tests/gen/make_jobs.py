#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a mixed set of jobs, each in a folder of its own with its answer.json.

    tests/gen/make_jobs.py --count 60 --seed 1 --out DIR [--jobs 2]

About a third is healthy, with the same quirks as the others. Job i of set S has the seed 1000 * S + i, so that
make_job.py with the fault, the variant and that seed makes it again, alone.
"""
import argparse
import multiprocessing
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from make_job import FAULTS, make_job, parser  # noqa: E402

WEIGHTS = {'none': 30, 'compute-straggler': 20, 'throttling': 6, 'comm-link': 12, 'host-stall': 10, 'data-starved': 8,
           'workload-imbalance': 5, 'pipeline-imbalance': 6, 'kernel-regression': 4, 'checkpoint': 4, 'gc': 3}


def one(task):
    seed, fault, variant, out = task
    name = '-'.join(filter(None, (fault, variant, str(seed))))
    args = parser().parse_args(['--seed', str(seed), '--fault', fault, '--variant', variant, '--out', os.path.join(out, name)])
    a = make_job(args)
    return (f"{name}: {a['world_size']} ranks, {len(a['step_ms'])} steps, impact {a['impact_pct']} %, "
            f"{'detectable' if a['detectable'] else 'silent'}, {a['bytes_plain'] >> 10} KiB")


def tasks(count, set_seed, out):
    rng = random.Random(f'set {set_seed}')
    for i in range(count):
        fault = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        yield 1000 * set_seed + i, fault, rng.choice(FAULTS[fault]), out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--count', type=int, default=60)
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--jobs', type=int, default=2)
    p.add_argument('--out', required=True)
    args = p.parse_args()
    with multiprocessing.Pool(args.jobs) as pool:
        for line in pool.imap(one, tasks(args.count, args.seed, args.out)):
            print(line, flush=True)


if __name__ == '__main__':
    main()
