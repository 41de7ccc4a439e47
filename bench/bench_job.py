#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What everything on costs a whole PyTorch job, beside torch.profiler on the same job.

    PYTHON bench/bench_job.py BUILD [--pairs 40] [--steps 4] [--small]

Processes of the same job (one rank, DDP on Gloo, a transformer of 8 blocks, its own loader) are kept ready: two without
anything, one with automatic mode, one with torch.profiler. They take turns of some steps, so that whatever else runs on the
machine hits all alike. A figure is the median over the turns of the processor time (all threads) or wall time that one
took, over that of the first without anything, with a bootstrap's interval of 95 %; the second without anything shows what
is noise. The agent's time, per step of the job that it reads, is added.
"""
import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KINDS = ('plain', 'again', 'lockstep', 'profiler')
PROFILED_STEPS = 200     # then its events are dropped and it begins anew, or memory would end


def job(kind, small):
    import torch
    import torch.distributed as dist
    from torch import nn
    torch.set_num_threads(1)
    dist.init_process_group('gloo')
    torch.manual_seed(1)
    width, length = (16, 16) if small else (256, 192)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, w = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, 4, w // 4).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, w))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(512, width), nn.Linear(width, 512)
            self.layers = nn.ModuleList([Block() for _ in range(8)])

        def forward(self, tokens):
            x = self.embedding(tokens)
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    class Tokens(torch.utils.data.IterableDataset):
        def __iter__(self):
            while True:
                yield torch.randint(0, 512, (length,))
    model = nn.parallel.DistributedDataParallel(Model())
    optimizer = torch.optim.AdamW(model.parameters())
    batches = iter(torch.utils.data.DataLoader(Tokens(), batch_size=4))
    profiler = None
    for line in sys.stdin:
        steps = int(line)
        if kind == 'profiler':
            if profiler and done > PROFILED_STEPS:
                profiler.stop()
                profiler = None
            if not profiler:
                profiler, done = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]), 0
                profiler.start()
            done += steps
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(steps):
            tokens = next(batches)
            loss = nn.functional.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            mean = loss.detach().clone()
            dist.all_reduce(mean)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        print(json.dumps([cpu / steps, wall / steps]), flush=True)


class Turns:
    """A process of the job."""

    def __init__(self, kind, tree, rings, small):
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            port = s.getsockname()[1]
        env = dict(os.environ, RANK='0', LOCAL_RANK='0', WORLD_SIZE='1', MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port), OMP_NUM_THREADS='1',
                   GLOO_SOCKET_IFNAME='lo', LOCKSTEP_AUTO='0')
        if kind == 'lockstep':
            env.update(LOCKSTEP_AUTO='1', LOCKSTEP_DIR=rings, PYTHONPATH=os.path.join(tree, 'site'))
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), '--job', kind, *small], env=env, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def run(self, steps):
        self.process.stdin.write(f'{steps}\n')
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def cpu_of(pid):
    with open(f'/proc/{pid}/stat', encoding='utf-8') as f:
        fields = f.read().rpartition(')')[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def interval(ratios):
    r = random.Random(1)
    medians = sorted(statistics.median(r.choices(ratios, k=len(ratios))) for _ in range(2000))
    return medians[50], medians[-51]


def show(what, kind, ratios, n, base, extra=''):
    low, high = interval(ratios)
    print(f'{"job, " + what + ": " + kind:34} {(statistics.median(ratios) - 1) * 100:+8.2f} %  95 % interval {(low - 1) * 100:+.2f} to {(high - 1) * 100:+.2f} %, '
          f'{n} turns, a step {base * 1e3:.1f} ms{extra}', flush=True)


def measure(args, folder, rings):
    tree = os.path.join(folder, 'tree')
    subprocess.run([sys.executable, os.path.join(ROOT, 'scripts', 'wheel.py'), 'tree', args.build, tree], check=True)
    jobs = {kind: Turns(kind, tree, rings, ['--small'] if args.small else []) for kind in KINDS}
    for j in jobs.values():
        j.run(8)
    agent = subprocess.Popen([os.path.join(args.build, 'lockstep'), 'agent', '--rings', rings, '--out', os.path.join(folder, 'out')],
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1)
    took, order, before = {kind: [] for kind in KINDS}, list(KINDS), cpu_of(agent.pid)
    for turn in range(args.pairs):
        random.Random(turn).shuffle(order)
        for kind in order:
            took[kind].append(jobs[kind].run(args.steps))
    read = (cpu_of(agent.pid) - before) / (args.pairs * args.steps)
    agent.terminate()
    agent.wait()
    for j in jobs.values():
        j.process.stdin.close()
        j.process.wait()
    for i, what in enumerate(('processor time', 'wall time')):
        base = statistics.median(t[i] for t in took['plain'])
        for kind in KINDS[1:]:
            show(what, kind, [t[i] / p[i] for t, p in zip(took[kind], took['plain'])], args.pairs, base)
            if args.small:
                added = sorted(t[i] - p[i] for t, p in zip(took[kind], took['plain']))
                print(f'    added a step: median {statistics.median(added) * 1e6:.0f} us, least step against least step '
                      f'{(min(t[i] for t in took[kind]) - min(t[i] for t in took["plain"])) * 1e6:.0f} us')
    base = statistics.median(t[0] for t in took['plain'])
    print(f'{"job, processor time: the agent":34} {read / base * 100:+8.2f} %  {read * 1e6:.0f} us a step, clock ticks of '
          f'{1e3 / os.sysconf("SC_CLK_TCK"):.0f} ms; the job idles while others take turns, the agent does not')


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('build', nargs='?')
    p.add_argument('--pairs', type=int, default=40)
    p.add_argument('--steps', type=int, default=4)
    p.add_argument('--small', action='store_true', help='tensors of next to nothing: what is added is the same, and stands out')
    p.add_argument('--job', choices=KINDS)
    args = p.parse_args()
    if args.job:
        return job(args.job, args.small)
    with tempfile.TemporaryDirectory() as t, tempfile.TemporaryDirectory(dir='/dev/shm') as rings:
        measure(args, t, rings)
    return None


if __name__ == '__main__':
    main()
