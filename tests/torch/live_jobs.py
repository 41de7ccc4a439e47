#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small training jobs on CPUs (Gloo) of which one rank is hurt while the job runs; nothing in them knows of Lockstep.

    python tests/torch/live_jobs.py JOB [--fsdp] [--profile DIR] [--losses FILE] [--steps N] [--ranks N]

JOB: healthy, compute, stall, gc, data, checkpoint, uneven. Started without RANK it starts all ranks itself. Rank 2 is
the one that is hurt, from step HURT_FROM on:
  compute     its forward takes longer, as on a slower chip
  stall       its Python sleeps before the forward
  gc          it holds many objects and collects them each step
  data        its loader takes long for each batch
  checkpoint  it alone saves much to a slow file at each step
  uneven      from the start the batch of one rank, another each step, is longer than those of the others
--losses: each rank writes its losses, as bits, to FILE.RANK. --profile: PyTorch's profiler runs too, and writes traces.
"""
import argparse
import os
import socket
import struct
import subprocess
import sys
import time

HURT, HURT_FROM, SECONDS = 2, 8, .25
JOBS = ('healthy', 'compute', 'stall', 'gc', 'data', 'checkpoint', 'uneven')


def start_all(args):
    """All ranks as processes of this one; the first status that is not 0."""
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    env = dict(os.environ, MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port), WORLD_SIZE=str(args.ranks), OMP_NUM_THREADS='1',
               GLOO_SOCKET_IFNAME='lo')
    ranks = [subprocess.Popen([sys.executable, os.path.abspath(__file__), *sys.argv[1:]],
                              env=dict(env, RANK=str(r), LOCAL_RANK=str(r))) for r in range(args.ranks)]
    return next((c for c in [p.wait() for p in ranks] if c), 0)


class SlowFile:
    """A file on a slow disk."""

    def __init__(self, seconds):
        self.left = seconds

    def write(self, data):
        time.sleep(self.left)
        self.left = 0
        return len(data)

    def flush(self):
        pass


def model_of(torch, width):
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            return x + self.down(nn.functional.gelu(self.up(self.norm(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.head = nn.Embedding(512, width), nn.Linear(width, 512)
            self.layers = nn.ModuleList([Block() for _ in range(4)])
            self.work, self.extra = torch.randn(512, 512), False

        def forward(self, tokens):
            x = self.embedding(tokens)
            if self.extra:
                with torch.no_grad():
                    for _ in range(120):
                        torch.mm(self.work, self.work)
            for layer in self.layers:
                x = layer(x)
            return self.head(x)
    return Model()


def data_of(torch, args, hurt):
    class Tokens(torch.utils.data.Dataset):
        def __len__(self):
            return args.steps * args.batch

        def __getitem__(self, i):
            if hurt('data', i // args.batch) and i % args.batch == 0:
                time.sleep(SECONDS)
            length = 768 if hurt('uneven', i // args.batch) else 128
            return torch.randint(0, 512, (length,), generator=torch.Generator().manual_seed(i))
    return torch.utils.data.DataLoader(Tokens(), batch_size=args.batch, num_workers=1)


def before_forward(hurt, step, plain):
    if hurt('stall', step):
        time.sleep(SECONDS)
    if hurt('gc', step):
        import gc
        for _ in range(2):
            gc.collect()
    plain.extra = hurt('compute', step)


WIDTH = 128


def train(args):
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group('gloo')
    rank = dist.get_rank()

    def hurt(how, step):
        if how == 'uneven':
            return args.job == how and rank == step * 3 // 2 % args.ranks
        return args.job == how and rank == HURT % args.ranks and step >= HURT_FROM

    torch.manual_seed(1)
    plain = model_of(torch, WIDTH)
    ballast = [[i] for i in range(3_000_000)] if hurt('gc', HURT_FROM) else None
    if args.fsdp:
        from torch.distributed.fsdp import fully_shard
        for layer in plain.layers:
            fully_shard(layer)
        model = fully_shard(plain)
    else:
        model = torch.nn.parallel.DistributedDataParallel(plain)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    profiler = start_profiler(torch, args)
    losses = []
    for step, tokens in enumerate(data_of(torch, args, hurt)):
        before_forward(hurt, step, plain)
        loss = torch.nn.functional.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item())
        if hurt('checkpoint', step):
            torch.save({'step': step}, SlowFile(SECONDS), _use_new_zipfile_serialization=False)
        if profiler:
            profiler.step()
    if profiler:
        profiler.stop()
        profiler.export_chrome_trace(os.path.join(args.profile, f'rank{rank}.json'))
    if args.losses:
        with open(f'{args.losses}.{rank}', 'wb') as f:
            f.write(struct.pack(f'{len(losses)}d', *losses))
    del ballast
    dist.barrier()
    dist.destroy_process_group()


def start_profiler(torch, args):
    if not args.profile:
        return None
    os.makedirs(args.profile, exist_ok=True)
    plan = torch.profiler.schedule(wait=0, warmup=0, active=args.steps + 1)  # only with a plan are steps told
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=plan, record_shapes=True)
    profiler.start()
    return profiler


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('job', choices=JOBS)
    p.add_argument('--fsdp', action='store_true')
    p.add_argument('--profile')
    p.add_argument('--losses')
    p.add_argument('--steps', type=int, default=24)
    p.add_argument('--ranks', type=int, default=4)
    p.add_argument('--batch', type=int, default=4)
    args = p.parse_args()
    if 'RANK' not in os.environ:
        sys.exit(start_all(args))
    train(args)


if __name__ == '__main__':
    main()
