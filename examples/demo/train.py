#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small data-parallel training job on CPUs (Gloo) that PyTorch's profiler traces on every rank.

    python examples/demo/train.py --out DIR [--ranks 4] [--slow-rank 2 --slow-from 5 --slow-how compute]

Started without RANK it starts all ranks itself, on this machine. --slow-how makes one rank really slow:
  compute  its forward also takes --extra more batches, as a GPU with a lower clock would take longer
  stall    its Python does something else before the forward (--slow-only: in these steps only)
  data     its data loader takes long for each batch
Each rank writes DIR/rankN.json, made neutral: the names of the host and of the folder are replaced, nothing else.
"""
import argparse
import os
import re
import socket
import subprocess
import sys
import time


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--out', required=True)
    p.add_argument('--ranks', type=int, default=4)
    p.add_argument('--steps', type=int, default=8, help='traced steps, after two that are not')
    p.add_argument('--layers', type=int, default=1)
    p.add_argument('--width', type=int, default=128)
    p.add_argument('--length', type=int, default=192, help='tokens of a sequence')
    p.add_argument('--batch', type=int, default=4)
    p.add_argument('--fsdp', action='store_true', help='FSDP2 (fully_shard) instead of DDP')
    p.add_argument('--slow-rank', type=int, default=-1)
    p.add_argument('--slow-from', type=int, default=5, help='first slow step, as ProfilerStep numbers them')
    p.add_argument('--slow-only', type=int, nargs='*', help='slow in these steps only')
    p.add_argument('--slow-how', choices=('compute', 'stall', 'data'), default='compute')
    p.add_argument('--extra', type=int, default=10, help='compute: so many more batches a step, forward only')
    p.add_argument('--seconds', type=float, default=.4, help='stall, data: how long')
    args = p.parse_args()
    if args.fsdp and args.slow_rank >= 0 and args.slow_how == 'compute':
        p.error('with --fsdp one rank alone cannot run more forwards: they gather parameters from all')
    return args


def start_all(args):
    """All ranks as processes of this one; returns 0 if all end well."""
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    os.makedirs(args.out, exist_ok=True)
    env = dict(os.environ, MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port), WORLD_SIZE=str(args.ranks), OMP_NUM_THREADS='1',
               GLOO_SOCKET_IFNAME='lo')
    ranks = [subprocess.Popen([sys.executable, os.path.abspath(__file__), *sys.argv[1:]], env=dict(env, RANK=str(r)))
             for r in range(args.ranks)]
    codes = [p.wait() for p in ranks]
    return 0 if not any(codes) else 1


class Slowness:
    """Whether this rank is slow in a step, and how."""

    def __init__(self, args, rank):
        self.args, self.mine = args, rank == args.slow_rank

    def at(self, step, how):
        if not self.mine or self.args.slow_how != how:
            return False
        return step in self.args.slow_only if self.args.slow_only else step >= self.args.slow_from


def make_data(args, slow):
    import torch

    class Tokens(torch.utils.data.Dataset):
        """Random tokens; item i belongs to step i // batch, counted as the profiler counts."""

        def __len__(self):
            return (args.steps + 3) * args.batch

        def __getitem__(self, i):
            if i % args.batch == 0 and slow.at(i // args.batch, 'data'):
                time.sleep(args.seconds)
            g = torch.Generator().manual_seed(i)
            return torch.randint(0, 512, (args.length,), generator=g)

    # As bytes through the pipe: a tensor's file descriptor has to be asked for, of a worker that shares the CPUs with all ranks.
    return torch.utils.data.DataLoader(Tokens(), batch_size=args.batch, num_workers=1,
                                       collate_fn=lambda items: torch.stack(items).numpy())


def make_model(args):
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            w = args.width
            self.norm1, self.norm2 = nn.LayerNorm(w), nn.LayerNorm(w)
            self.qkv, self.out = nn.Linear(w, 3 * w, bias=False), nn.Linear(w, w, bias=False)
            self.up, self.down = nn.Linear(w, 4 * w, bias=False), nn.Linear(4 * w, w, bias=False)

        def forward(self, x):
            b, t, w = x.shape
            q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, 4, w // 4).permute(2, 0, 3, 1, 4)
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, w))
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(512, args.width)
            self.blocks = nn.ModuleList([Block() for _ in range(args.layers)])
            self.head = nn.Linear(args.width, 512, bias=False)

        def forward(self, tokens):
            x = self.embedding(tokens)
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    return Model()


def parallel(args, model):
    if not args.fsdp:
        from torch.nn.parallel import DistributedDataParallel
        return DistributedDataParallel(model, gradient_as_bucket_view=True)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh('cpu', (args.ranks,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def train(args):
    import torch
    import torch.distributed as dist
    from torch.profiler import ProfilerActivity, profile, record_function, schedule
    torch.set_num_threads(1)
    dist.init_process_group('gloo')
    rank = dist.get_rank()
    slow = Slowness(args, rank)
    torch.manual_seed(1)
    plain = make_model(args)
    model = parallel(args, plain)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, fused=not args.fsdp)
    plan = schedule(wait=1, warmup=1, active=args.steps, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan, record_shapes=True) as prof:
        for step, batch in enumerate(make_data(args, slow)):
            if step == args.steps + 2:
                break
            tokens = torch.from_numpy(batch)
            if slow.at(step, 'stall'):
                time.sleep(args.seconds)
            with record_function('forward'):
                if slow.at(step, 'compute'):
                    with torch.no_grad():
                        plain(tokens.repeat(args.extra, 1))
                loss = torch.nn.functional.cross_entropy(model(tokens)[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
            with record_function('backward'):
                loss.backward()
            with record_function('optimizer'):
                optimizer.step()
                optimizer.zero_grad()
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            prof.step()
    write(prof, os.path.join(args.out, f'rank{rank}.json'))
    dist.barrier()
    dist.destroy_process_group()


def write(prof, path):
    """Export, then replace the two strings that tell of the machine."""
    prof.export_chrome_trace(path)
    with open(path, encoding='utf-8', errors='surrogateescape') as f:
        text = f.read()
    text = re.sub(r'("host_name"\s*:\s*)"[^"]*"', r'\1"node0"', text)
    text = re.sub(r'("traceName"\s*:\s*)"[^"]*"', lambda m: m.group(1) + f'"{os.path.basename(path)}"', text)
    with open(path, 'w', encoding='utf-8', errors='surrogateescape') as f:
        f.write(text)


if __name__ == '__main__':
    given = arguments()
    if 'RANK' in os.environ:
        train(given)
    else:
        sys.exit(start_all(given))
