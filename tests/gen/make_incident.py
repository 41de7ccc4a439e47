#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The epoch-end deadlock of arXiv 2608.05944, rebuilt: 16 ranks on two nodes, rank 3 in the barrier before the checkpoint.

    tests/gen/make_incident.py [--dialect nccl|gloo] [--groups one|own] [--sources DLP] OUT

A step is 8 blocks of tokens; the weights are gathered for the first of them, the gradients scattered after the last. Rank 3
has the fewest blocks: it runs out in the middle of step 3,850 of 3,857, leaves the loop, and its barrier meets the others'
reduce_scatter: in the same slot if FSDP uses the default group (one), else in another group (own). Boards draw 190 W of
1,100 W; one GPU shows 0 %, fifteen 100 %. There is no checkpoint before the end of the epoch.
"""
import argparse
import json
import os
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hang_fr import Dialect, write_dumps  # noqa: E402
from hang_log import Log  # noqa: E402
from hang_plan import Job  # noqa: E402
from hang_power import Power  # noqa: E402
from hang_sim import Do, Sim  # noqa: E402

STEP, STEPS, SIMULATED, LEAVER, LAYERS, BLOCKS, HOURS = 3850, 3857, 12, 3, 16, 8, 3


def step_program(job, rank, step, blocks=BLOCKS):
    g, out = job.of('shard', rank), []
    for n in job.params:
        out.append(job.call(g, 'all_gather_base', [[n // 16]], [[n]]))
    for _ in range(blocks):
        out += [Do('host', .002, 'data'), Do('compute', .4)]
    if blocks < BLOCKS:
        return out + [Do('join'), job.barrier()]
    for n in reversed(job.params):
        out += [Do('compute', .02, 'backward'), job.call(g, 'reduce_scatter_base', [[n]], [[n // 16]], where='backward')]
    out += [job.call(g, 'all_reduce', [[]], types=['Float'], where='clip'), Do('compute', .05, 'optimizer'), Do('sync', where='item'), Do('mark')]
    out[-1].step = step
    return out


def simulate(rng, args):
    job = Job(rng, 'fsdp-own' if args.groups == 'own' else 'fsdp', 16, args.dialect, 8, layers=LAYERS)
    job.hosts, job.type = ['b300-01', 'b300-02'], 'BFloat16'
    first = STEP - SIMULATED + 1
    base = {(r, job.of('shard', r).name): ((first - 1) * (2 * LAYERS + 1), 0, (first - 1) * (2 * LAYERS + 1)) for r in range(16)}
    sim = Sim(args.dialect, seq_base=base)
    for r in range(16):
        p = [x for s in range(first, STEP) for x in step_program(job, r, s)]
        sim.add(r, p + step_program(job, r, STEP, 5 if r == LEAVER else BLOCKS))
        sim.ranks[r].queue = 200
    return job, sim.run(), {r: (first - 1) * (2 * LAYERS + 1) for r in range(16)}


def write_log(rng, job, sim, d, folder):
    log = Log(rng, job, d.epoch / 1e9, {r: 51200 + 7 * r for r in range(16)}, torch='2.9', framework='plain')
    log.total = STEPS
    log.hello(range(16))
    log.everyone = job.backend == 'gloo'
    for step, loss in ((1, 1.6), (1800, .74)):
        for r in range(16) if log.everyone else [0]:
            log.say(-20 + step / 1e4, r, f'{log.iso(-20)} step {step}/{STEPS} loss {loss:.2f} tokens/s 53,011 time 4.912s')
    for r in range(16) if log.everyone else [0]:
        for t, step in sim.ranks[r].marks:
            log.say(t, r, f'{log.iso(t)} step {step}/{STEPS} loss 0.68 tokens/s 53,102 time 4.933s')
    end = sim.ranks[LEAVER].calls[-1].created
    log.say(end, LEAVER, f'{log.iso(end)} epoch 0 done: 30835 blocks')
    if job.backend == 'nccl':
        for r in sim.ranks:
            calls = [c for c in sim.ranks[r].calls if not c.done.known]
            c = min(calls, key=lambda c: c.created)
            mine = [x for x in sim.ranks[r].calls if x.group is c.group]
            done = max((x.seq for x in mine if x.done.known), default=-1)
            log.timed_out(r, c.created + d.timeout_ms / 1e3 + rng.uniform(0, .1), c, job.of('shard', r).local[r], mine[-1].seq, done, d.timeout_ms)
    log.write(folder, 'nodes', 'rank' if job.backend == 'gloo' else 'srun')


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--dialect', choices=['nccl', 'gloo'], default='nccl')
    p.add_argument('--groups', choices=['one', 'own'], default='one')
    p.add_argument('--sources', default='DLP')
    p.add_argument('out')
    args = p.parse_args()
    rng = random.Random('incident')
    job, sim, records = simulate(rng, args)
    d = Dialect(random.Random('incident dialect'), args.dialect)
    d.version, d.minor, d.timing, d.frames, d.format, d.naming = '2.10', 10, False, True, 'native', 'nccl_trace_rank_{rank}'
    d.ring, d.timeout_ms = 200, HOURS * 3600 * 1000
    os.makedirs(args.out, exist_ok=True)
    stop = sim.last_time()
    if 'D' in args.sources:
        write_dumps(args.out, d, job, sim, range(16), stop + HOURS * 3600, rng, records)
    if 'L' in args.sources:
        write_log(rng, job, sim, d, args.out)
    if 'P' in args.sources:
        power = Power(rng, job, d.epoch / 1e9 + stop)
        power.board, (power.limit, power.busy, power.spin, power.idle) = 'NVIDIA B300', (1100, .85, .173, .17)
        power.rng = random.Random('csv')
        with_csv = {r: 'idle' if r == LEAVER else 'wait' for r in range(16)}
        rows = list(power.series(with_csv, 4, 12, 300))
        for n, host in enumerate(job.hosts):
            with open(os.path.join(args.out, f'nvidia-smi_{host}.csv'), 'w') as f:
                f.write(power.csv([x for x in rows if x[1] // 8 == n], True))
    answer = {'verdict': 'hung', 'culprit_ranks': [LEAVER], 'cause': 'collective-desync', 'cause_also_fair': ['uneven-steps'], 'decidable': True,
              'what': 'rank 3 has the fewest blocks: it waits in the barrier before the checkpoint, the others in reduce_scatter'}
    with open(os.path.join(args.out, 'answer.json'), 'w') as f:
        json.dump(answer, f, indent=1)


if __name__ == '__main__':
    main()
