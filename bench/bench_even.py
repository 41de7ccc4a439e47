#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What lockstep.even and lockstep.every add to a step, beside the same loop without them.

    PYTHON bench/bench_even.py [--ranks 2] [--turns 40] [--step-ms 50] [--work sleep|compute]

PYTHON has torch. Turns of the loop alternate: plain, plain once more (the noise), a sized loader and a stream with even(), and
every(minutes=) alone. A step sleeps or multiplies matrices, then sums a tensor over the ranks, as training does, so that a
rank that is held up holds up all. Printed: the time of a step with a turn's median, its ratio to the plain turn before it
(median over the turns and a 95 % interval by resampling them), and the processor time of all ranks likewise; and what the
thread that trains spends in calls of ours in a step: on the wall, where other programs count too, and of the processor. Then
a vote alone: what it takes of the processor in all threads of a rank.
"""
import argparse
import os
import random
import socket
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'python'))
KINDS = ('plain', 'again', 'sized', 'stream', 'every')


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--ranks', type=int, default=2)
    p.add_argument('--turns', type=int, default=40)
    p.add_argument('--steps', type=int, default=32, help='of a turn')
    p.add_argument('--step-ms', type=float, default=50)
    p.add_argument('--work', choices=('sleep', 'compute'), default='sleep')
    return p.parse_args()


def start_all(args):
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    env = dict(os.environ, MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port), WORLD_SIZE=str(args.ranks), OMP_NUM_THREADS='1',
               GLOO_SOCKET_IFNAME='lo')
    ranks = [subprocess.Popen([sys.executable, os.path.abspath(__file__), *sys.argv[1:]], env=dict(env, RANK=str(r)))
             for r in range(args.ranks)]
    return 1 if any([p.wait() for p in ranks]) else 0


class Timed:
    """An iteration, and the time spent in it."""

    def __init__(self, batches):
        self.batches, self.wall, self.cpu = iter(batches), 0., 0.

    def __iter__(self):
        return self

    def __next__(self):
        wall, cpu = time.perf_counter(), time.thread_time()
        try:
            return next(self.batches)
        finally:
            self.cpu += time.thread_time() - cpu
            self.wall += time.perf_counter() - wall


class Loops:
    def __init__(self, args):
        import torch
        import torch.distributed as dist

        import lockstep
        torch.set_num_threads(1)
        dist.init_process_group('gloo')
        self.args, self.torch, self.dist, self.lockstep = args, torch, dist, lockstep
        self.rank, self.x, self.sum = dist.get_rank(), torch.randn(192, 192), torch.ones(1024)
        self.rounds = 1
        if args.work == 'compute':
            begin = time.perf_counter()
            self.work(100)
            self.rounds = max(1, int(args.step_ms / 1e3 / ((time.perf_counter() - begin) / 100)))
            dist.broadcast(rounds := torch.tensor(self.rounds), 0)
            self.rounds = int(rounds)
        n = args.steps * args.turns
        self.sized = lockstep.even(list(range(args.steps)))
        self.stream_of = lockstep.even(iter(range(n)))
        self.stream = iter(self.stream_of)      # one stream for all turns, as a job has it
        self.every = lockstep.every(minutes=600)

    def work(self, rounds):
        y = self.x
        for _ in range(rounds):
            y = self.x @ y
            y = y / y.norm()

    def step(self):
        if self.args.work == 'sleep':
            time.sleep(self.args.step_ms / 1e3)
        else:
            self.work(self.rounds)
        self.dist.all_reduce(self.sum)
        self.sum.div_(self.args.ranks)

    def turn(self, kind):
        """Seconds of a step: of the wall, of all ranks' processors; in our calls of the wall, and of the processor."""
        steps = self.args.steps
        batches = Timed({'sized': self.sized, 'stream': self.stream}.get(kind, range(steps)))
        self.dist.barrier()
        wall, cpu = time.perf_counter(), time.process_time()
        calls = Timed(iter(self.every, None))
        for i, _ in enumerate(batches, 1):
            self.step()
            if kind == 'every':
                next(calls)
            if i == steps:
                break
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        cpus = self.torch.tensor([cpu])
        self.dist.all_reduce(cpus)
        return wall / steps, float(cpus) / steps, (batches.wall + calls.wall) / steps, (batches.cpu + calls.cpu) / steps

    def vote(self, n=2000):
        """Processor seconds of one, in all threads of this rank; the least of five rounds."""
        agreed, least = self.stream_of._agreed, 1.
        for k in range(5):
            begin = time.process_time()
            for i in range(n // 5):
                agreed.result(agreed.post(k * n + i, [1, 2, 3]))
            least = min(least, (time.process_time() - begin) / (n // 5))
        return least


def interval(values, draw):
    means = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(2000))
    return statistics.median(values), means[50], means[1950]


def main():
    args = arguments()
    if 'RANK' not in os.environ:
        sys.exit(start_all(args))
    loops = Loops(args)
    turns = {kind: [] for kind in KINDS}
    for kind in KINDS:
        if kind != 'stream':
            loops.turn(kind)    # warm
    order = random.Random(3)
    for _ in range(args.turns):
        kinds = list(KINDS)
        order.shuffle(kinds)    # the same on all ranks
        for kind in kinds:
            turns[kind].append(loops.turn(kind))
    loops.stream.close()
    vote = loops.vote()
    if loops.rank == 0:
        show(args, turns, vote)
    loops.dist.barrier()
    loops.dist.destroy_process_group()


def show(args, turns, vote):
    draw = random.Random(1)
    plain = turns['plain']
    own = [statistics.median(t[i] for t in plain) for i in (2, 3)]
    print(f'{args.ranks} ranks, {args.turns} turns of {args.steps} steps, {args.work}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores')
    for kind in KINDS:
        ratio = [interval([t[i] / p[i] - 1 for t, p in zip(turns[kind], plain)], draw) for i in (0, 1)]
        text = '; '.join(f'{what} {m:+.2%} ({a:+.2%} to {b:+.2%})' for what, (m, a, b) in zip(('wall', 'processor'), ratio))
        step = statistics.median(t[0] for t in turns[kind])
        ours = [statistics.median(t[i] for t in turns[kind]) - own[i - 2] for i in (2, 3)]
        print(f'even {kind:7} step {step * 1e3:.2f} ms; {text}; in our calls a step {ours[0] * 1e6:.1f} us on the wall, {ours[1] * 1e6:.1f} us of '
              f'the processor ({ours[1] / step:.3%})')
    print(f'even vote    {vote * 1e6:.0f} us of the processor in all threads of a rank')


if __name__ == '__main__':
    main()
