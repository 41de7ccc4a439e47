#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The deadlock at the end of an epoch, for real: a small training job whose ranks have different numbers of blocks.

    torchrun --nproc-per-node 4 examples/epoch-end-deadlock/train.py --out DIR [--counts FILE] [--evened] [--api fsdp1]

Each rank trains on its own packed blocks, so many a step; a rank that runs out leaves its loop and waits in the barrier
before the epoch's checkpoint, while the others wait for it in the model's collectives. With --evened the same data ends.

A counts file has the columns rank,blocks, or one number a line. Without one, ranks get --blocks less up to --spread of
it, drawn by --seed; --write-counts FILE writes them so and ends (that needs neither torch nor torchrun).

A checkpoint is one file, DIR/checkpoints/step-NNNNNN.pt. LOCKSTEP_RESUME (or --resume) names one to go on from.
LOCKSTEP_RESUME_STEP, if set, is the step that it must hold.
"""
import argparse
import csv
import json
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import recorder  # noqa: E402

WIDTH, WORDS, LENGTH = 64, 256, 16
try:
    import lockstep
except ImportError:  # from the source tree
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'python'))
    import lockstep


def arguments(argv=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--out', default='.', help='folder of checkpoints/ and of rankN.json, what each rank did')
    data = p.add_argument_group('data')
    data.add_argument('--counts', help='blocks of each rank')
    data.add_argument('--blocks', type=int, default=800, help='of a rank, without a counts file')
    data.add_argument('--spread', type=float, default=.02, help='a rank has up to this share less')
    data.add_argument('--seed', type=int, default=0)
    data.add_argument('--write-counts', metavar='FILE')
    data.add_argument('--ranks', type=int, default=4, help='for --write-counts')
    data.add_argument('--blocks-per-step', type=int, default=8, help='of one rank and one micro-batch')
    data.add_argument('--keep-last', action='store_true', help="a last batch of fewer blocks is trained too")
    data.add_argument('--stream', action='store_true', help='the loader does not know its length')
    job = p.add_argument_group('job')
    job.add_argument('--api', choices=('fsdp1', 'fsdp2', 'ddp', 'pipeline'), default='fsdp1')
    job.add_argument('--barrier', type=int, default=0, metavar='N', help='also a barrier at each N steps')
    job.add_argument('--accumulate', type=int, default=1, metavar='N', help='micro-batches of a step')
    job.add_argument('--epochs', type=int, default=1)
    job.add_argument('--step-ms', type=float, default=0, help='each step takes at least so long')
    # torchrun takes "--even" for its own "--event-log-handler"
    job.add_argument('--evened', '--even', nargs='?', const='drop', choices=('drop', 'pad', 'repeat', 'raise'), help='lockstep.even')
    job.add_argument('--even-resumed', action='store_true', help='as --evened, if it goes on from a checkpoint')
    save = p.add_argument_group('checkpoints')
    save.add_argument('--save-steps', type=int, default=0)
    save.add_argument('--save-minutes', type=float, default=0)
    save.add_argument('--resume', default=os.environ.get('LOCKSTEP_RESUME'), help='a checkpoint (default $LOCKSTEP_RESUME)')
    return p.parse_args(argv)


# --- blocks ---

def drawn_counts(args, ranks):
    """One rank has all its blocks, one the fewest, others lie between."""
    draw = random.Random(args.seed)
    most = max(round(args.blocks * args.spread), 1)
    less = [0, most] + [draw.randint(0, most) for _ in range(ranks - 2)]
    draw.shuffle(less)
    return [args.blocks - n for n in less[:ranks]]


def read_counts(path):
    with open(path, newline='', encoding='utf-8') as f:
        rows = [row for row in csv.reader(f) if row]
    if rows[0][0].strip() == 'rank':
        by_rank = {int(rank): int(blocks) for rank, blocks in rows[1:]}
        return [by_rank[r] for r in range(len(by_rank))]
    return [int(row[0]) for row in rows]


def blocks_of(args, rank, ranks):
    counts = read_counts(args.counts) if args.counts else drawn_counts(args, ranks)
    if len(counts) != ranks:
        sys.exit(f'{args.counts}: {len(counts)} ranks, the job has {ranks}')
    return counts[rank]


def make_loader(args, rank, n):
    """Batches of this rank's packed blocks of tokens."""
    import torch

    class Blocks(torch.utils.data.Dataset):
        def __len__(self):
            return n

        def __getitem__(self, i):
            if i >= n:
                raise IndexError(i)
            start, stride = (rank * 1000003 + i) * 2654435761 % WORDS, 1 + i % 2
            return (start + stride * torch.arange(LENGTH)) % WORDS

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return (blocks[i] for i in range(n))

    blocks = Blocks()
    return torch.utils.data.DataLoader(Stream() if args.stream else blocks, batch_size=args.blocks_per_step, drop_last=not args.keep_last)


# --- models ---

class Whole:
    """All of the model on every rank, by one of three APIs."""

    def __init__(self, args, dist):
        import torch
        from torch import nn
        self.args, self.torch = args, torch
        layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH)) for _ in range(2)]
        model = nn.Sequential(nn.Embedding(WORDS, WIDTH), *layers, nn.Linear(WIDTH, WORDS))
        if args.api == 'ddp':
            self.model = nn.parallel.DistributedDataParallel(model)
        elif args.api == 'fsdp1':
            from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
            from torch.distributed.fsdp.wrap import ModuleWrapPolicy
            self.model = FullyShardedDataParallel(model, sharding_strategy=ShardingStrategy.FULL_SHARD, device_id=torch.device('cpu'),
                                                  auto_wrap_policy=ModuleWrapPolicy({nn.Sequential}))
        else:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard
            mesh = init_device_mesh('cpu', (dist.get_world_size(),), mesh_dim_names=('shard',))
            for layer in layers:
                fully_shard(layer, mesh=mesh)
            self.model = fully_shard(model, mesh=mesh)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def micro_step(self, tokens, weight):
        logits = self.model(tokens[:, :-1])
        loss = self.torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        (loss * (weight / self.args.accumulate)).backward()
        return loss.item()

    def step(self):
        self.optimizer.step()
        self.optimizer.zero_grad()

    def states(self):
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
        return get_state_dict(self.model, self.optimizer, options=StateDictOptions(full_state_dict=True))

    def load(self, model, optimizer):
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_state_dict
        set_state_dict(self.model, self.optimizer, model_state_dict=model, optim_state_dict=optimizer,
                       options=StateDictOptions(full_state_dict=True))


class Pipeline:
    """Two stages: even ranks send activations to the next rank and get gradients back; equal stages sum theirs."""

    def __init__(self, args, dist):
        import torch
        from torch import nn
        self.args, self.dist, self.torch = args, dist, torch
        rank, ranks = dist.get_rank(), dist.get_world_size()
        self.stage, self.peer = rank % 2, rank ^ 1
        self.model = nn.Sequential(nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WIDTH)) if self.stage == 0 else nn.Linear(WIDTH, WORDS)
        groups = [dist.new_group(list(range(stage, ranks, 2)), group_desc=f'stage{stage}') for stage in (0, 1)]
        self.replicas = groups[self.stage]
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def micro_step(self, tokens, weight):
        shape = (tokens.shape[0], tokens.shape[1] - 1, WIDTH)
        if self.stage == 0:
            out, gradient = self.model(tokens[:, :-1]), self.torch.empty(shape)
            self.dist.send(out.detach(), self.peer)
            self.dist.recv(gradient, self.peer)
            out.backward(gradient)
            return float('nan')     # the loss is at the other stage
        activation = self.torch.empty(shape)
        self.dist.recv(activation, self.peer)
        activation.requires_grad_()
        loss = self.torch.nn.functional.cross_entropy(self.model(activation).flatten(0, 1), tokens[:, 1:].flatten())
        (loss * (weight / self.args.accumulate)).backward()
        self.dist.send(activation.grad, self.peer)
        return loss.item()

    def step(self):
        for p in self.model.parameters():
            self.dist.all_reduce(p.grad, group=self.replicas)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def states(self):
        mine = self.model.state_dict(), self.optimizer.state_dict()
        both = [None] * self.dist.get_world_size()
        self.dist.all_gather_object(both, mine)
        return [s[0] for s in both[:2]], [s[1] for s in both[:2]]

    def load(self, model, optimizer):
        self.model.load_state_dict(model[self.stage])
        self.optimizer.load_state_dict(optimizer[self.stage])


# --- the job ---

class Job:
    def __init__(self, args):
        import torch
        import torch.distributed as dist
        torch.set_num_threads(1)
        torch.manual_seed(1)
        self.args, self.torch, self.dist = args, torch, dist
        if not dist.is_initialized():
            dist.init_process_group('gloo')
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.blocks = blocks_of(args, self.rank, self.ranks)
        recorder.begin(self.rank)
        print(f'[rank{self.rank}]: rank {self.rank} of {self.ranks}, pid {os.getpid()}, {self.blocks} blocks', flush=True)
        self.loader = make_loader(args, self.rank, self.blocks)
        if args.evened or (args.even_resumed and args.resume):
            self.loader = lockstep.even(self.loader, how=args.evened or 'drop', accumulate=args.accumulate)
        self.work = (Pipeline if args.api == 'pipeline' else Whole)(args, dist)
        self.save_now = lockstep.every(args.save_steps, args.save_minutes) if args.save_steps or args.save_minutes else None
        self.step = self.epoch = self.batches = 0     # batches: of this epoch
        self.began = time.monotonic()

    def say(self, text):
        if self.rank == (1 if self.args.api == 'pipeline' else 0):    # who has the loss
            print(f'{time.strftime("%Y-%m-%d %H:%M:%S")} {text}', flush=True)

    def steps_of_epoch(self):
        """As this rank sees it; unknown with a stream."""
        try:
            return len(self.loader) // self.args.accumulate
        except TypeError:
            return None

    def save(self):
        """One file, written by rank 0; there is a whole one at any moment."""
        begin = time.monotonic()
        folder = os.path.join(self.args.out, 'checkpoints')
        path = os.path.join(folder, f'step-{self.step:06d}.pt')
        self.say(f'saving checkpoint at step {self.step} to {path}')
        model, optimizer = self.work.states()
        if self.rank == 0:
            os.makedirs(folder, exist_ok=True)
            state = {'model': model, 'optimizer': optimizer, 'step': self.step, 'epoch': self.epoch, 'batches': self.batches}
            self.torch.save(state, path + '.tmp')
            os.replace(path + '.tmp', path)
        self.dist.barrier()
        self.say(f'saved checkpoint at step {self.step} in {time.monotonic() - begin:.2f} s')

    def resume(self, path):
        state = self.torch.load(path, weights_only=True)
        want = os.environ.get('LOCKSTEP_RESUME_STEP') if path == os.environ.get('LOCKSTEP_RESUME') else None
        if want and int(want) >= 0 and int(want) != state['step']:
            sys.exit(f'{path}: holds step {state["step"]}, not {want}')
        self.work.load(state['model'], state['optimizer'])
        self.step, self.epoch, self.batches = state['step'], state['epoch'], state['batches']
        self.say(f'resumed from {path} at step {self.step}')

    def batches_left(self):
        """Of this epoch, without those that were trained on before the checkpoint."""
        if hasattr(self.loader, 'load_state_dict'):
            if self.batches:
                self.loader.load_state_dict({'epoch': self.epoch, 'taken': self.batches})
            return iter(self.loader)
        batches = iter(self.loader)
        for _ in range(self.batches):
            next(batches)
        return batches

    def train_epoch(self):
        in_epoch, begin = self.steps_of_epoch(), time.monotonic()
        total = '' if in_epoch is None else f'/{in_epoch * self.args.epochs}'
        for tokens in self.batches_left():
            self.batches += 1
            loss = self.work.micro_step(tokens, getattr(self.loader, 'weight', 1.))
            if self.batches % self.args.accumulate:
                continue
            self.work.step()
            self.step += 1
            if self.args.barrier and self.step % self.args.barrier == 0:
                self.dist.barrier()
            left = self.args.step_ms / 1000 - (time.monotonic() - begin)
            if left > 0:
                time.sleep(left)
            self.say(f'step {self.step}{total} loss {loss:.4f} lr 0.001 time {time.monotonic() - begin:.3f}s')
            begin = time.monotonic()
            if self.save_now and self.save_now(self.step):
                self.save()

    def run(self):
        if self.args.resume:
            self.resume(self.args.resume)
        while self.epoch < self.args.epochs:
            if hasattr(self.loader, 'set_epoch'):
                self.loader.set_epoch(self.epoch)
            self.train_epoch()
            self.dist.barrier()
            self.epoch, self.batches = self.epoch + 1, 0
            self.save()
            self.say(f'epoch {self.epoch} done')
        self.tell()
        self.say(f'training done after {self.step} steps')
        self.dist.destroy_process_group()

    def tell(self):
        did = {'rank': self.rank, 'blocks': self.blocks, 'steps': self.step, 'epochs': self.epoch}
        for name in ('dropped', 'padded', 'repeated'):
            did[name] = getattr(self.loader, name, 0)
        with open(os.path.join(self.args.out, f'rank{self.rank}.json'), 'w', encoding='utf-8') as f:
            json.dump(did, f)


def main():
    args = arguments()
    if args.write_counts:
        with open(args.write_counts, 'w', encoding='utf-8') as f:
            f.write('rank,blocks\n' + ''.join(f'{r},{n}\n' for r, n in enumerate(drawn_counts(args, args.ranks))))
        return
    os.makedirs(args.out, exist_ok=True)
    Job(args).run()


if __name__ == '__main__':
    main()
