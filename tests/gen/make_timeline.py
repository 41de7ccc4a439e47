#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a whole-job timeline as what-if analysers draw it, of a pipeline job with a known fault, and its truth.

Usage: make_timeline.py --out DIR [--seed N] [--dp N] [--pp N] [--tp N] [--steps N] [--micro N] [--chunks N] [--fault NAME] [--factor X]
                        [--first N] [--style aligned|raw] [--shape array|object] [--gz]

Faults: none, worker (one lane computes slower), stage (one stage has more work), head (the last stage has), host (a lane's
host stalls in garbage collection), link (what two lanes send each other is slow).
DIR/timeline.json[.gz] is the input, DIR/answer.json the truth: culprit, cause, and the slowdown, from running the same seed
without the fault (for stage and head: with all stages' work evened out).
"""
import argparse
import gzip
import json
import os
import random


class Job:
    """One job: the work of each lane, in seconds, and the order of a 1F1B schedule."""

    def __init__(self, a):
        self.a, self.rng = a, random.Random(a.seed)
        r = self.rng
        self.fwd = r.uniform(.04, .3)
        self.bwd = self.fwd * r.uniform(1.4, 2.2)
        self.p2p, self.noise = r.uniform(.0003, .002), r.uniform(.002, .012)
        self.gather, self.scatter = r.uniform(.01, .05), r.uniform(.02, .1)
        self.opt = r.uniform(.02, .05)
        self.uneven = [1 + r.uniform(0, .02) for _ in range(a.pp)]
        self.dp = r.randrange(a.dp) if a.at_dp is None else a.at_dp
        self.pp = r.randrange(a.pp) if a.at_pp is None else a.at_pp
        if a.fault == 'head':
            self.pp = a.pp - 1
        if a.fault == 'link':
            self.pp = min(self.pp, a.pp - 2)
        n = a.steps
        self.numbers = sorted(r.sample(range(10, 10 + 6 * n), n))
        self.dice = random.Random(a.seed + 1)

    def jitter(self):
        return max(.5, self.dice.gauss(1, self.noise))

    def load(self, d, p, t, faulty, even):
        """How much longer than usual this lane's compute takes at step t."""
        load = self.uneven[p]
        heavy = self.a.fault in ('stage', 'head')
        if heavy and p == self.pp:
            load *= self.a.factor
        if heavy and even:
            whole = sum(u * (self.a.factor if i == self.pp else 1) for i, u in enumerate(self.uneven))
            load = whole / self.a.pp
        if self.a.fault == 'worker' and faulty and (d, p) == (self.dp, self.pp) and t >= self.a.first:
            load *= self.a.factor
        return load

    def plan(self, d, p, t, faulty, even):
        """The lane's step: a list of ('work', name, mb, seconds) and ('meet', [(name, seq, key, seconds)])."""
        a, P = self.a, self.a.pp
        load, out = self.load(d, p, t, faulty, even), []

        def work(name, mb, seconds):
            out.append(('work', name, mb, seconds * self.jitter()))

        def p2p(*names):
            ops = []
            for name, mb in names:
                way, what = name.split('-')
                other = p + (1 if (way == 'forward') == (what == 'send') else -1)
                if not 0 <= other < P:
                    continue
                pair = (p, other) if what == 'send' else (other, p)
                slow = a.factor if faulty and a.fault == 'link' and d == self.dp and set(pair) == {self.pp, self.pp + 1} \
                    and t >= a.first else 1
                ops.append((name, mb, ('p2p', way, d, pair, mb), self.p2p * slow))
            if ops:
                out.append(('meet', ops))

        def coll(name, key, seconds):
            out.append(('meet', [(name, 0, (name, key), seconds)]))

        def fwd(i):
            work('forward-compute', i, self.fwd * load)

        def bwd(i):
            work('backward-compute', i, self.bwd * load)

        coll('params-all-gather', p, self.gather)
        if a.chunks > 1:
            self.interleaved(d, p, out, fwd, bwd)
            return self.finish(d, p, coll, work, out)
        warm = min(P - 1 - p, a.micro)
        rest = a.micro - warm
        for i in range(warm):
            p2p(('forward-recv', i))
            fwd(i)
            p2p(('forward-send', i))
        if rest:
            p2p(('forward-recv', warm))
        for i in range(rest):
            if faulty and a.fault == 'host' and (d, p) == (self.dp, self.pp) and t >= a.first and i == rest - 1:
                out.append(('work', 'gc', 0, (a.factor - 1) * (self.fwd + self.bwd) * a.micro))
            fwd(warm + i)
            p2p(('forward-send', warm + i), ('backward-recv', i))
            bwd(i)
            p2p(('backward-send', i), ('forward-recv', warm + i + 1)) if i + 1 < rest else p2p(('backward-send', i))
        for i in range(rest, a.micro):
            p2p(('backward-recv', i))
            bwd(i)
            p2p(('backward-send', i))
        return self.finish(d, p, coll, work, out)

    def interleaved(self, d, p, out, fwd, bwd):
        """Several chunks of layers a stage: groups of micro-batches go round forward, then backward; sends wait for nobody."""
        a, P, V = self.a, self.a.pp, self.a.chunks
        for first in range(0, a.micro, P):
            for way, work in (('forward', fwd), ('backward', bwd)):
                for c in range(V) if way == 'forward' else reversed(range(V)):
                    for i in range(first, min(first + P, a.micro)):
                        place = c * P + p if way == 'forward' else V * P - 1 - (c * P + p)
                        step = 1 if way == 'forward' else -1
                        if place:
                            out.append(('meet', [(f'{way}-recv', i, ('late', way, d, place, i), self.p2p)]))
                        work(i)
                        out[-1] = (*out[-1][:3], out[-1][3] / V, c)
                        if place + 1 < V * P:
                            out.append(('post', f'{way}-send', i, ('late', way, d, place + 1, i), (d, (p + step) % P)))

    def finish(self, d, p, coll, work, out):
        P = self.a.pp
        coll('layernorm-grads-all-reduce', (d, p), .0002)
        if P > 1 and p in (0, P - 1):
            coll('embedding-grads-all-reduce', d, .4 * self.scatter)
        coll('grads-reduce-scatter', p, self.scatter * (2 if p == 0 else 1))
        coll('optimizer-clip-main-grad', 0, .01)
        work('optimizer', -1, self.opt)
        return out

    def run(self, faulty=True, even=False, spans=None):
        """Step lengths; spans gets (step, d, p, name, mb, seq, start, end, chunk)."""
        a, lengths, start = self.a, [], 0.0
        self.dice = random.Random(a.seed + 1)
        for t in range(a.steps):
            end = self.step(t, start, faulty, even, spans)
            lengths.append(end - start)
            start = end + .1 * (end - start)
        return lengths

    def step(self, t, start, faulty, even, spans):
        a = self.a
        lanes = [(d, p) for d in range(a.dp) for p in range(a.pp)]
        plans = {lane: self.plan(*lane, t, faulty, even) for lane in lanes}
        members = {}
        for lane, plan in plans.items():
            for op in plan:
                if op[0] == 'meet':
                    for m in op[1]:
                        members.setdefault(m[2], set()).add(lane)
                elif op[0] == 'post':
                    members.setdefault(op[3], set()).add(lane)
        at, now = {x: 0 for x in lanes}, {x: start for x in lanes}
        arrived, entered, todo = {}, {}, list(lanes)
        while todo:
            lane = todo.pop()
            while at[lane] < len(plans[lane]):
                op = plans[lane][at[lane]]
                if op[0] == 'work':
                    if spans is not None:
                        spans.append((t, *lane, op[1], op[2], max(op[2], 0), now[lane], now[lane] + op[3], op[4] if len(op) > 4 else 0))
                    now[lane] += op[3] + 5e-6
                    at[lane] += 1
                    continue
                if op[0] == 'post':
                    arrived.setdefault(op[3], {})[lane] = now[lane]
                    todo.append(op[4])
                    at[lane] += 1
                    continue
                if lane not in entered:
                    entered[lane] = now[lane]
                    for m in op[1]:
                        arrived.setdefault(m[2], {})[lane] = now[lane]
                        if len(arrived[m[2]]) == len(members[m[2]]):
                            todo += [x for x in members[m[2]] if x != lane]
                if any(len(arrived[m[2]]) < len(members[m[2]]) for m in op[1]):
                    break
                ends = []
                for name, seq, key, seconds in op[1]:
                    last = max(arrived[key].values())
                    ends.append(last + seconds)
                    begun = last if a.style == 'aligned' else entered[lane]
                    if spans is not None:
                        spans.append((t, *lane, name, -1, seq, begun, last + seconds, -1))
                    if spans is not None and key[0] == 'late':
                        sender = next(x for x in members[key] if x != lane)
                        spans.append((t, *sender, name.replace('recv', 'send'), -1, seq, last if a.style == 'aligned' else
                                      arrived[key][sender], last + seconds, -1))
                now[lane] = max(ends) + 5e-6
                del entered[lane]
                at[lane] += 1
        return max(now.values())


def draw(job, spans):
    """The trace events, lanes as the analysers name them; tensor-parallel ranks are folded."""
    a, events = job.a, []
    rows = ('compute', 'pp-comm', 'tp-comm', 'dp-comm', 'misc')

    def row_of(name):
        return 1 if 'send' in name or 'recv' in name else 3 if 'grad' in name or 'params' in name else 0

    def tid(d, p, row):
        return ((p * a.dp + d) * a.tp) * len(rows) + row

    for t, d, p, name, mb, seq, start, end, chunk in spans:
        events.append({'name': name, 'cat': name, 'pid': d, 'tid': tid(d, p, row_of(name)), 'ts': start * 1e6 + 50,
                       'dur': (end - start) * 1e6, 'ph': 'X',
                       'args': {'step': job.numbers[t], 'model_chunk': chunk, 'mb_id': mb, 'seq_id': seq}})
    events.sort(key=lambda e: (e['pid'], e['tid'], e['name'], e['ts']))
    for d in range(a.dp):
        for p in range(a.pp):
            for i, row in enumerate(rows):
                events.append({'name': 'thread_name', 'pid': d, 'tid': tid(d, p, i), 'ph': 'M',
                               'args': {'name': f'PP rank {p}, TP rank 0, {row}'}})
        events.append({'name': 'process_name', 'pid': d, 'ph': 'M', 'args': {'name': f'DP rank [{d}]'}})
    return events


def truth(job):
    a = job.a
    slow, well = job.run(), job.run(faulty=False, even=True)
    on = range(a.first, a.steps) if a.fault in ('worker', 'host', 'link') else range(a.steps)
    cause = {'none': None, 'worker': 'compute-straggler', 'stage': 'pipeline-imbalance', 'head': 'pipeline-imbalance',
             'host': 'host-stall', 'link': 'comm-link'}[a.fault]
    return {'fault': a.fault, 'cause': cause, 'dp': job.dp, 'pp': job.pp, 'lanes': a.dp * a.pp, 'folds': a.tp,
            'first_step': job.numbers[a.first], 'numbers': job.numbers,
            'slowdown': sum(slow[t] for t in on) / sum(well[t] for t in on)}


def main(argv=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--out', required=True)
    for name, value in (('seed', 1), ('dp', 2), ('pp', 4), ('tp', 1), ('steps', 6), ('micro', 8), ('first', 0), ('chunks', 1)):
        p.add_argument('--' + name, type=int, default=value)
    p.add_argument('--at-dp', type=int)
    p.add_argument('--at-pp', type=int)
    p.add_argument('--fault', default='none', choices=('none', 'worker', 'stage', 'head', 'host', 'link'))
    p.add_argument('--factor', type=float, default=1.5)
    p.add_argument('--style', default='aligned', choices=('aligned', 'raw'))
    p.add_argument('--shape', default='array', choices=('array', 'object'))
    p.add_argument('--gz', action='store_true')
    a = p.parse_args(argv)
    job, spans = Job(a), []
    answer = truth(job)
    job.run(spans=spans)
    events = draw(job, spans)
    text = json.dumps(events if a.shape == 'array' else {'traceEvents': events})
    os.makedirs(a.out, exist_ok=True)
    with open(os.path.join(a.out, 'timeline.json' + ('.gz' if a.gz else '')), 'wb') as f:
        f.write(gzip.compress(text.encode(), 5) if a.gz else text.encode())
    with open(os.path.join(a.out, 'answer.json'), 'w') as f:
        json.dump(answer, f)
    return answer


if __name__ == '__main__':
    main()
