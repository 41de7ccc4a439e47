#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make one job's Kineto traces with a known fault, and answer.json that says what is right.

    tests/gen/make_job.py --seed 7 --fault compute-straggler --variant rank --dp 8 --out DIR

Everything not given is drawn from the seed. The same seed and options give the same bytes. The impact is found by
running the same job without its fault. `detectable` is true if the impact over the affected steps is 5 % or more
and the traces can tell: peers or a past to compare with, the culprit among the files, no other link that would
explain the same slow transfers, three affected steps or a loss of one median step.
"""
import argparse
import json
import os
import random
import statistics
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from job_names import GPUS, KERNELS  # noqa: E402
from job_plan import GPUS_PER_NODE, Fault, Layout, Planner, RankPlan  # noqa: E402
from job_sim import Kernel, Simulation  # noqa: E402
from job_write import write_job  # noqa: E402

FAULTS = {
    'none': ('',),
    'compute-straggler': ('rank', 'kernel', 'half-dp', 'masked-stage', 'node', 'micro-batch'),
    'throttling': ('rank', 'node'),
    'comm-link': ('rank', 'node', 'pair'),
    'host-stall': ('', 'last-step', 'frequent'),
    'data-starved': ('all-steps', 'some-steps'),
    'workload-imbalance': ('',),
    'pipeline-imbalance': ('heavy-head', 'more-layers'),
    'kernel-regression': ('',),
    'checkpoint': ('', 'all-ranks'),
    'gc': ('',),
}
QUIRKS = ('integer-us', 'no-base-time', 'no-distributed-info', 'no-flows', 'no-gpu-annotations', 'no-pg-config', 'no-pg-ranks',
          'no-phases', 'no-seq', 'old-nccl-names', 'pg-undefined', 'p2p-coalesced-no-args', 'tp-broadcast',
          'tp-on-compute-stream', 'varying-sequence-length', 'warm-up', 'missing-ranks', 'checkpoint-step', 'cpu-runs-ahead',
          'host-file-names', 'moe', 'no-loader-names', 'no-comm-args', 'bare-array', 'uncompressed', 'shuffled', 'big-skew',
          'occupancy', 'launch-bound')


class Job:
    """The drawn configuration; plain attributes."""

    def shuffle(self, rank, events):
        random.Random(f'{self.seed} order {rank}').shuffle(events)


def draw_quirks(rng, args, layout):
    if args.quirk is not None:
        return set(args.quirk)
    odds = {'integer-us': .15, 'no-base-time': .3, 'no-distributed-info': .12, 'no-flows': .6, 'no-gpu-annotations': .25,
            'no-pg-config': .25, 'no-pg-ranks': .25, 'no-phases': .2, 'no-seq': .25, 'old-nccl-names': .15, 'pg-undefined': .2,
            'p2p-coalesced-no-args': .2, 'tp-broadcast': .3, 'tp-on-compute-stream': .3, 'varying-sequence-length': .3,
            'warm-up': .3, 'missing-ranks': .12, 'checkpoint-step': .12, 'cpu-runs-ahead': .2, 'host-file-names': .12, 'moe': .3,
            'no-loader-names': .08, 'bare-array': .03, 'uncompressed': .04, 'shuffled': .06, 'big-skew': .06, 'occupancy': .3,
            'launch-bound': .07}
    quirks = {q for q, p in odds.items() if rng.random() < p}
    if 'host-file-names' in quirks:
        quirks -= {'no-distributed-info', 'bare-array'}
    if 'bare-array' in quirks:
        quirks -= {'no-distributed-info'}
        quirks |= {'no-base-time'}
    if 'integer-us' in quirks:
        quirks |= {'no-base-time'}
    if layout.tp == 1:
        quirks -= {'tp-broadcast', 'tp-on-compute-stream'}
    if layout.pp == 1:
        quirks -= {'p2p-coalesced-no-args'}
    if layout.ep == 1:
        quirks -= {'moe'}
    return quirks


def draw_layout(rng, args):
    if any(getattr(args, k) for k in ('tp', 'pp', 'dp')):
        tp, pp, dp = args.tp or 1, args.pp or 1, args.dp or 1
    else:
        world = rng.choice((2, 4, 4, 8, 8, 8, 12, 16, 16, 16, 24, 32))
        choices = [(t, p, world // t // p) for t in (1, 2, 4, 8) for p in (1, 2, 4) if world % (t * p) == 0]
        need = {'half-dp': lambda t, p, d: d >= 4, 'masked-stage': lambda t, p, d: p > 1 and d > 1, 'pair': lambda t, p, d: p > 1}
        need_fault = {'pipeline-imbalance': lambda t, p, d: p > 1, 'workload-imbalance': lambda t, p, d: d > 1}
        for keep in (need.get(args.variant), need_fault.get(args.fault)):
            choices = [c for c in choices if keep(*c)] if keep else choices
        if args.variant == 'node':
            choices = [c for c in ((1, 1, 16), (2, 1, 8), (1, 2, 8), (4, 1, 4), (2, 2, 4), (1, 1, 24), (1, 2, 12), (2, 1, 12),
                                   (1, 4, 6), (2, 1, 16), (1, 1, 32), (4, 2, 4))]
        tp, pp, dp = rng.choice(choices or [(1, 2, 4) if args.fault == 'pipeline-imbalance' or args.variant else (1, 1, 8)])
    ep = args.ep or (rng.choice([e for e in (1, 1, 2, 4) if dp % e == 0]))
    return Layout(tp, pp, dp, ep, args.order or rng.choice(('tp-dp-pp', 'tp-pp-dp')))


def draw(args):
    rng = random.Random(f'job {args.seed}')
    job = Job()
    job.seed, job.layout = args.seed, draw_layout(rng, args)
    layout = job.layout
    job.quirks = quirks = draw_quirks(rng, args, layout)
    job.gpu = args.gpu or rng.choice(('a100', 'a100', 'h100', 'h100', 'h100', 'b200', 'mi300'))
    job.old_nccl = 'old-nccl-names' in quirks
    if job.gpu in ('b200', 'mi300') and job.old_nccl:
        job.gpu = 'a100'
    job.nccl_version = rng.choice(('2.18.1', '2.21.5', '2.26.2', '2.27.5'))
    job.group_style = 'undefined' if 'pg-undefined' in quirks else rng.choice(('megatron', 'mesh'))
    job.phases = 'none' if 'no-phases' in quirks else rng.choice(('plain', 'megatron', 'ddp'))
    job.moe = 'moe' in quirks and layout.ep > 1
    job.dp_mode = rng.choice(('allreduce', 'allreduce', 'zero1') + (('fsdp', 'fsdp') if layout.pp == 1 else ()))
    job.micros = rng.choice((1, 1, 2, 4)) if layout.pp == 1 else rng.choice((layout.pp, 2 * layout.pp))
    per_layer = 24 + 4 * (layout.tp > 1) + 6 * job.moe
    most = max(1, min(4, 230 // (per_layer * job.micros)))
    job.layers = [rng.randint(1, most)] * layout.pp
    job.unit_us = 10 ** rng.uniform(1.9, 3.4)
    if 'launch-bound' in quirks:
        job.unit_us = rng.uniform(6, 14)
    if job.gpu in ('h100', 'b200'):
        job.unit_us *= .6
    job.sigma = rng.uniform(.004, .018)
    # A loader that takes more of a step than this is a fault of its own, not a healthy job.
    kernels = 30 * sum(job.layers) / layout.pp * job.micros
    job.loader_most_us = .015 * kernels * max(12, .4 * job.unit_us)
    job.head = rng.uniform(.3, .8) if layout.pp > 1 else rng.uniform(.6, 2.5)
    job.activation = int(job.unit_us * rng.uniform(8e3, 4e4)) // 1024 * 1024 + 4096
    job.parameters = int(job.unit_us * rng.uniform(8e3, 3e4)) // 1024 * 1024 + 4096
    job.parameters -= job.parameters % layout.dp
    job.grad_type = rng.choice(('BFloat16', 'Float'))
    job.coalesced = 'p2p-coalesced-no-args' in quirks or layout.pp > 1 and rng.random() < .3
    job.sync = 'none' if 'cpu-runs-ahead' in quirks else rng.choice(('loss', 'norm'))
    job.norm_group = 'world' if rng.random() < .5 or layout.tp * layout.pp == 1 else 'mp'
    job.host_us = rng.uniform(3.5, 9)
    job.adam_kernels = rng.randint(1, 3)
    job.seq_base = rng.randint(0, 60000)
    job.tp_on_compute = 'tp-on-compute-stream' in quirks
    job.tp_broadcast = 'tp-broadcast' in quirks
    job.data_on_last = rng.random() < .7
    job.loader_named = 'no-loader-names' not in quirks
    job.warm_up = rng.uniform(4, 12) if 'warm-up' in quirks else 1.0
    job.depth = rng.choice((1024, 1024, 128, 48))
    job.interference, job.contention = rng.uniform(.0, .06), rng.uniform(.2, .6)
    count = args.steps or rng.randint(6, 18)
    job.first_step = rng.choice((0, 3, 5, 10, 100, 550, 1009))
    job.last_step = job.first_step + count - 1
    steps = range(job.first_step, job.last_step + 1)
    varying = 'varying-sequence-length' in quirks
    job.length = {s: rng.uniform(.75, 1.1) if varying else 1.0 for s in steps}
    job.checkpoint_step = rng.choice(list(steps)[1:]) if 'checkpoint-step' in quirks and args.fault != 'checkpoint' else None
    job.save_named = rng.random() < .6
    job.epoch_us = rng.randint(1710000000000000, 1765000000000000)
    job.pids = [rng.randint(2000, 4000000) for _ in range(layout.world)]
    node = rng.randint(1, 900)
    job.nodes = (layout.world + GPUS_PER_NODE - 1) // GPUS_PER_NODE
    job.hosts = [f'gpu-node-{node + i:03d}' for i in range(job.nodes)]
    job.names = 'host' if 'host-file-names' in quirks else rng.choice(('kineto', 'dash', 'plain', 'worker'))
    skew = 3e6 if 'big-skew' in quirks else 5e3
    job.clocks = [(rng.uniform(0, skew), rng.uniform(-20, 20)) for _ in range(job.nodes)]
    job.start_us = [25000 + rng.uniform(0, 400) for _ in range(layout.world)]
    job.checkpoint_us = job.warm_up_us = 0.0
    job.rng = random.Random(f'fault {args.seed}')
    return job


class Run:
    """One simulation: its programs, and the job's step times by when all its GPU work of a step has ended."""

    def __init__(self, job, fault):
        planner = Planner(job, fault)
        self.plans = [RankPlan(planner, r) for r in range(job.layout.world)]
        Simulation([p.build() for p in self.plans], job.start_us, job.depth, job.interference, job.contention).run()
        ends, begin = {}, min(job.start_us)
        for plan in self.plans:
            for op in plan.program:
                if isinstance(op, Kernel):
                    ends[op.step] = max(ends.get(op.step, 0.0), op.end)
        self.step_ms, last = {}, begin
        for step in sorted(ends):
            self.step_ms[step], last = (ends[step] - last) / 1000, ends[step]
        self.median_us = 1000 * statistics.median(self.step_ms.values())


# -- choosing the fault; each returns a Fault whose `steps`, `ranks`, `factor` go to the answer

def since(rng, job, share=.45):
    """The first step or one in the middle: a fault has a past, or it has not."""
    count = job.last_step - job.first_step + 1
    start = 0 if rng.random() < share else rng.randint(max(1, count // 4), max(1, count - 4))
    return list(range(job.first_step + start, job.last_step + 1))


def factor_of(rng, args, low, high):
    """Mostly clear, sometimes so weak that nobody needs to hear of it."""
    return args.factor or (rng.uniform(1.01, 1.05) if rng.random() < .12 else rng.uniform(low, high))


def compute_straggler(rng, args, job, healthy):
    layout, variant, how = job.layout, args.variant, {}
    steps, rank = since(rng, job), rng.randrange(layout.world)
    if args.culprit is not None:
        rank = args.culprit
    ranks = [rank]
    if variant == 'kernel':
        how['kernel'] = KERNELS[job.gpu][rng.choice(('dgrad', 'wgrad', 'up', 'down', 'attn_bwd'))]
    elif variant == 'half-dp':
        ranks = sorted(rng.sample(layout.group(rank, 'dp'), layout.dp // 2))
    elif variant == 'node':
        ranks = node_ranks(job, rng.randrange(job.nodes))
    elif variant == 'micro-batch':
        how['micro'] = rng.randrange(job.micros)
    elif variant == 'masked-stage':
        inner = [r for r in range(layout.world) if layout.at(r, 'pp') < layout.pp - 1]
        ranks = [rng.choice(inner)] if inner else ranks
        steps = since(rng, job, 0)
    high = {'kernel': 3.0, 'micro-batch': 3.5}.get(variant, 1.9)
    return Fault('compute-straggler', variant, ranks=ranks, steps=steps, factor=factor_of(rng, args, 1.12, high), **how)


def node_ranks(job, node):
    return list(range(node * GPUS_PER_NODE, min(job.layout.world, (node + 1) * GPUS_PER_NODE)))


def throttling(rng, args, job, healthy):
    rank = rng.randrange(job.layout.world)
    ranks = node_ranks(job, rng.randrange(job.nodes)) if args.variant == 'node' else [rank]
    steps, s = [], job.first_step + rng.randint(1, 3)
    while s <= job.last_step:
        n = rng.randint(1, 3)
        steps += [x for x in range(s, s + n) if x <= job.last_step]
        s += n + rng.randint(2, 4)
    wobble = {x: rng.uniform(.94, 1.06) for x in steps}
    return Fault('throttling', args.variant, ranks=ranks, steps=steps, factor=factor_of(rng, args, 1.15, 1.8), wobble=wobble)


def comm_link(rng, args, job, healthy):
    layout = job.layout
    steps, factor = since(rng, job), factor_of(rng, args, 1.6, 7.0)
    rank = rng.randrange(layout.world)
    ranks = [rank]
    if args.variant == 'node':
        ranks = node_ranks(job, rng.randrange(job.nodes))
    elif args.variant == 'pair':
        inner = [r for r in range(layout.world) if layout.at(r, 'pp') < layout.pp - 1]
        rank = rng.choice(inner)
        ranks = sorted((rank, layout.neighbour(rank, 1)))
    return Fault('comm-link', args.variant, ranks=ranks, steps=steps, factor=factor)


def host_stall(rng, args, job, healthy):
    steps, rank = list(range(job.first_step, job.last_step + 1)), rng.randrange(job.layout.world)
    place, share = rng.choice(('forward', 'backward', 'optimizer')), (.5, 2.0)
    if args.variant == 'last-step':
        steps, share = steps[-1:], (1.2, 4.0)
    elif args.variant == 'frequent':
        steps, share = since(rng, job), (.08, .3)
    else:
        steps = sorted(rng.sample(steps[1:], min(len(steps) - 1, rng.randint(3, 5))))
    weak = .1 if rng.random() < .1 else 1.0
    stall = {(rank, s): {place: healthy.median_us * weak * rng.uniform(*share) + 300} for s in steps}
    return Fault('host-stall', args.variant, ranks=[rank], steps=steps, stall=stall, factor=1.0)


def gc(rng, args, job, healthy):
    """Python's collector on one rank: now here, now there in the step, without an event of its own."""
    steps, rank = list(range(job.first_step, job.last_step + 1)), rng.randrange(job.layout.world)
    every = rng.randint(2, 3)
    steps = steps[rng.randrange(1, every + 1)::every]
    stall = {(rank, s): {rng.choice(('forward', 'backward', 'optimizer')): healthy.median_us * rng.uniform(.5, 1.2) + 300} for s in steps}
    return Fault('gc', '', ranks=[rank], steps=steps, stall=stall, factor=1.0)


def data_starved(rng, args, job, healthy):
    layout = job.layout
    loads = [r for r in range(layout.world) if (layout.at(r, 'pp') == 0 or layout.at(r, 'pp') == layout.pp - 1 and job.data_on_last)
             and (not job.tp_broadcast or layout.at(r, 'tp') == 0)]
    rank, steps = rng.choice(loads), since(rng, job)
    if args.variant == 'some-steps':
        all_steps = list(range(job.first_step + 1, job.last_step + 1))
        steps = sorted(rng.sample(all_steps, min(len(all_steps), rng.randint(3, 5))))
    wait = {(rank, s): healthy.median_us * rng.uniform(.15, 1.2) + 300 for s in steps}
    return Fault('data-starved', args.variant, ranks=[rank], steps=steps, wait=wait, factor=1.0)


def workload_imbalance(rng, args, job, healthy):
    spread, steps = rng.uniform(.15, .6), list(range(job.first_step, job.last_step + 1))
    by_replica = {(d, s, m): max(.2, rng.lognormvariate(-spread * spread / 2, spread))
                  for d in range(job.layout.dp) for s in steps for m in range(job.micros)}
    lengths = {(r, s, m): by_replica[(job.layout.at(r, 'dp'), s, m)]
               for r in range(job.layout.world) for s in steps for m in range(job.micros)}
    return Fault('workload-imbalance', '', ranks=[], steps=steps, lengths=lengths, factor=round(spread, 3))


def pipeline_imbalance(rng, args, job, healthy):
    pp, steps = job.layout.pp, list(range(job.first_step, job.last_step + 1))
    if args.variant == 'heavy-head':
        return Fault('pipeline-imbalance', 'heavy-head', ranks=[], steps=steps, head=args.factor or rng.uniform(5, 14), stage=pp - 1, factor=1.0)
    stage = rng.randrange(pp)
    return Fault('pipeline-imbalance', 'more-layers', ranks=[], steps=steps, more={stage: max(1, round(job.layers[0] * rng.uniform(.5, 1.2)))},
                 stage=stage, factor=1.0)


def kernel_regression(rng, args, job, healthy):
    kind = rng.choice(('dgrad', 'wgrad', 'up', 'down', 'attn_bwd', 'attn'))
    return Fault('kernel-regression', '', ranks=[], steps=since(rng, job, 0), kernel=KERNELS[job.gpu][kind], factor=factor_of(rng, args, 1.3, 3.0))


def checkpoint(rng, args, job, healthy):
    step = rng.randint(job.first_step + 1, job.last_step)
    micros = healthy.median_us * rng.uniform(1.5, 10)
    ranks = range(job.layout.world) if args.variant == 'all-ranks' else [0]
    return Fault('checkpoint', args.variant, ranks=[], steps=[step], saves={(r, step): micros * rng.uniform(.85, 1.0) for r in ranks}, factor=1.0)


CHOOSERS = {'compute-straggler': compute_straggler, 'throttling': throttling, 'comm-link': comm_link, 'host-stall': host_stall, 'gc': gc,
            'data-starved': data_starved, 'workload-imbalance': workload_imbalance, 'pipeline-imbalance': pipeline_imbalance,
            'kernel-regression': kernel_regression, 'checkpoint': checkpoint}
CAUSES = {'gc': 'host-stall', 'none': None}


# -- what can be told

def slow_transfers(job, run, touches):
    """(transfers that a bad link of this shape would slow, all of them), each as its set of members."""
    every = {frozenset(t.members) for p in run.plans for op in p.program if isinstance(op, Kernel) for t in op.transfers}
    return {m for m in every if touches(m)}, every


def one_link_explains(job, run, fault):
    """Is the true link the only rank, pair or node whose transfers are just the slow ones?"""
    slow, every = slow_transfers(job, run, fault.touches)
    if not slow or slow == every and len(every) == 1:
        return False
    world, guesses = job.layout.world, []
    guesses += [Fault('comm-link', 'rank', ranks=[r]) for r in range(world)]
    guesses += [Fault('comm-link', 'node', ranks=node_ranks(job, n)) for n in range(job.nodes)]
    if fault.variant == 'pair':
        guesses += [Fault('comm-link', 'pair', ranks=[a, b]) for a in range(world) for b in range(a + 1, world)]
    same = [g for g in guesses if {m for m in every if g.touches(m)} == slow]
    return [(g.variant, g.ranks) for g in same] == [(fault.variant, fault.ranks)]


def tellable(job, healthy, run, fault, affected):
    layout, loss = job.layout, sum(run.step_ms[s] - healthy.step_ms[s] for s in affected)
    if len(affected) < 3 and loss * 1000 < healthy.median_us:
        return False
    if set(fault.ranks) & set(job.missing):
        return False
    if fault.kind == 'comm-link':
        return one_link_explains(job, run, fault)
    past = min(fault.steps) - job.first_step >= 2
    if fault.kind == 'compute-straggler':
        peers = [r for r in range(layout.world) if r not in fault.ranks + job.missing and layout.at(r, 'pp') in {layout.at(x, 'pp') for x in fault.ranks}]
        return past or bool(peers) and len(peers) >= len(fault.ranks)
    return True


def answer_of(job, args, healthy, run, fault, clocks, size, most):
    affected = sorted(fault.steps or []) if args.fault != 'none' else []
    with_ms, without_ms = run.step_ms, healthy.step_ms
    part = (sum(with_ms[s] for s in affected) / sum(without_ms[s] for s in affected) - 1) * 100 if affected else 0.0
    whole = (sum(with_ms.values()) / sum(without_ms.values()) - 1) * 100
    culprits, layout = list(fault.ranks or []), job.layout
    if args.fault == 'pipeline-imbalance':
        culprits = [r for r in range(layout.world) if layout.at(r, 'pp') == fault.stage]
    answer = {
        'seed': job.seed, 'layout': {'tp': layout.tp, 'pp': layout.pp, 'dp': layout.dp, 'ep': layout.ep, 'order': layout.order},
        'world_size': layout.world, 'steps': [job.first_step, job.last_step], 'fault': args.fault, 'variant': args.variant,
        'cause': CAUSES.get(args.fault, args.fault), 'culprit_ranks': culprits,
        'culprit_nodes': [fault.ranks[0] // GPUS_PER_NODE] if args.variant == 'node' or args.fault == 'comm-link' and args.variant == 'rank' else [],
        'culprit_stage': fault.stage, 'kernel': fault.kernel, 'since_step': affected[0] if affected else None,
        'until_step': affected[-1] if affected else None, 'affected_steps': affected, 'factor': round(fault.factor or 1.0, 3),
        'impact_pct': round(part, 2), 'impact_whole_pct': round(whole, 2),
        'detectable': bool(affected) and part >= 5 and tellable(job, healthy, run, fault, affected),
        'quirks': sorted(job.quirks), 'ranks_with_trace': [r for r in range(layout.world) if r not in job.missing],
        'step_ms': [round(v, 3) for v in with_ms.values()], 'step_ms_without_fault': [round(v, 3) for v in without_ms.values()],
        'clock': [{'offset_us': round(o, 3), 'drift_ppm': round(d, 3)} for o, d in clocks],
        'epoch_us': job.epoch_us, 'dp_mode': job.dp_mode, 'sync': job.sync, 'gpu': job.gpu, 'bytes_plain': size, 'events_max': most}
    if args.fault == 'data-starved' and not job.loader_named:
        answer['cause_also_ok'] = ['host-stall']  # nothing in the trace names the loader
    if args.fault == 'checkpoint' and not job.save_named:
        answer['cause_also_ok'] = ['host-stall']
    return answer


def choose_missing(job, rng, fault):
    job.missing = []
    if 'missing-ranks' in job.quirks and job.layout.world > 3:
        free = [r for r in range(job.layout.world) if r not in (fault.ranks or [])]
        job.missing = sorted(rng.sample(free, max(1, min(len(free) - 1, rng.randint(1, job.layout.world // 4)))))


def make_job(args):
    """Write the job that the options describe into args.out; returns its answer."""
    if args.variant is None:
        args.variant = random.Random(f'variant {args.seed}').choice(FAULTS[args.fault])
    if args.variant not in FAULTS[args.fault]:
        raise SystemExit(f'{args.fault} has the variants {FAULTS[args.fault]}, not {args.variant!r}')
    job = draw(args)
    if args.variant == 'micro-batch':
        job.micros = max(job.micros, 2)
    first = Run(job, Fault())
    job.checkpoint_us = first.median_us * job.rng.uniform(.2, .6)
    job.warm_up_us = first.median_us * job.rng.uniform(.5, 1.5)
    healthy = Run(job, Fault()) if job.checkpoint_step is not None or job.warm_up > 1 else first
    fault = CHOOSERS[args.fault](job.rng, args, job, healthy) if args.fault != 'none' else Fault(ranks=[], steps=[])
    run = Run(job, fault) if args.fault != 'none' else healthy
    choose_missing(job, job.rng, fault)
    size, most = write_job(job, run.plans, job.clocks, args.out)
    answer = answer_of(job, args, healthy, run, fault, job.clocks, size, most)
    with open(os.path.join(args.out, 'answer.json'), 'w') as f:
        json.dump(answer, f, indent=1)
    return answer


def parser():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--fault', choices=sorted(FAULTS), default='none')
    p.add_argument('--variant', help='; '.join(f'{k}: {", ".join(x or "(none)" for x in v)}' for k, v in FAULTS.items() if v != ('',)))
    for name in ('tp', 'pp', 'dp', 'ep', 'steps', 'culprit'):
        p.add_argument('--' + name, type=int)
    p.add_argument('--order', choices=('tp-dp-pp', 'tp-pp-dp'))
    p.add_argument('--gpu', choices=sorted(GPUS))
    p.add_argument('--quirk', nargs='*', choices=QUIRKS, metavar='QUIRK', help='exactly these instead of random ones: ' + ' '.join(QUIRKS))
    p.add_argument('--factor', type=float, help='how much slower')
    p.add_argument('--out', required=True)
    return p


if __name__ == '__main__':
    made = make_job(parser().parse_args())
    print(made['fault'], made['variant'], made['layout'], f"impact {made['impact_pct']} %", 'detectable' if made['detectable'] else 'not detectable')
