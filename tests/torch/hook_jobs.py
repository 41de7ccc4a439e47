#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the hooks are tried on: small training programs of one rank, none of which knows of Lockstep but `raising`.

    python tests/torch/hook_jobs.py JOB

Each prints a line of JSON: its losses as bits, and what it counted itself.
"""
import gc
import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn

WIDTH = 16


class Block(nn.Module):
    def __init__(self, checkpoint=False):
        super().__init__()
        self.up, self.down, self.checkpoint = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), checkpoint

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Model(nn.Module):
    def __init__(self, checkpoint=False):
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)
        self.layers = nn.ModuleList([Block() for _ in range(3)])
        self.checkpoint = checkpoint

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            if self.checkpoint:
                x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
            else:
                x = layer(x)
        return self.last(x)


def loader(n, workers=0):
    g = torch.Generator().manual_seed(3)
    data = torch.utils.data.TensorDataset(torch.randn(n * 2, WIDTH, generator=g))
    return torch.utils.data.DataLoader(data, batch_size=2, num_workers=workers)


def loop(model, optimizer, n, each=1, workers=0, call=None):
    """n batches, a step of the optimizer every `each` of them; the losses."""
    losses = []
    for i, (x,) in enumerate(loader(n, workers)):
        loss = (model if call is None else call)(x).square().mean()
        loss.backward()
        losses.append(loss.item().hex())
        if (i + 1) % each == 0:
            optimizer.step()
            optimizer.zero_grad()
    return losses


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=.1)


def plain():
    model = Model()
    losses = loop(model, sgd(model), 6, workers=2)
    with torch.no_grad():
        model(torch.ones(2, WIDTH))
    torch.save(model.state_dict(), os.devnull)
    gc.collect()
    return losses


def accumulated():
    model = Model()
    return loop(model, sgd(model), 8, each=2)


def checkpointed():
    model = Model(checkpoint=True)
    return loop(model, sgd(model), 4)


def two_optimizers():
    model = Model()

    class Both:
        all = [torch.optim.SGD(model.first.parameters(), lr=.1), torch.optim.AdamW(model.layers.parameters())]

        def step(self):
            for o in self.all:
                o.step()

        def zero_grad(self):
            model.zero_grad()
    return loop(model, Both(), 5)


def nested_optimizer():
    class Nested(torch.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)
    model = Model()
    return loop(model, Nested(model.parameters(), lr=.1), 5)


def closures():
    """Forward and backward inside the optimizer's step, as Lightning does it."""
    model, losses = Model(), []
    optimizer = sgd(model)
    for x, in loader(5):
        def closure():
            optimizer.zero_grad()
            loss = model(x).square().mean()  # noqa: B023
            loss.backward()
            losses.append(loss.item().hex())
            return loss
        optimizer.step(closure)
    return losses


def scaled():
    model, losses = Model(), []
    optimizer, scaler = sgd(model), torch.amp.GradScaler('cpu')
    for i, (x,) in enumerate(loader(5)):
        loss = model(x).square().mean() * (float('inf') if i == 2 else 1)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
    return losses


def compiled(how=None):
    import torch._dynamo.testing
    model, counter = Model(), torch._dynamo.testing.CompileCounter()
    if how == 'module':
        model.compile(backend=counter)
        call = model
    elif how == 'blocks':
        for layer in model.layers:
            layer.compile(backend=counter)
        call = model
    else:
        call = torch.compile(model, backend=counter)
    losses = loop(model, sgd(model), 5, call=call)
    return [*losses, counter.frame_count, counter.op_count]


def compiled_fullgraph():
    model = Model()

    @torch.compile(backend='eager', fullgraph=True)
    def forward(x):
        return model(x).square().mean()
    return loop(model, sgd(model), 4, call=forward)


def traced():
    """FX and export see what they would see."""
    model = Model()
    losses = loop(model, sgd(model), 5)
    graph = torch.fx.symbolic_trace(model)
    exported = torch.export.export(model, (torch.ones(2, WIDTH),))
    return [*losses, len(graph.graph.nodes), len(exported.graph.nodes), len(torch.jit.trace(model, torch.ones(2, WIDTH)).code)]


def named_parts():
    """Layers built as Megatron-LM builds them: parts that are known by their names."""
    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.all = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(2)])

        def dispatch(self, x):
            return x.chunk(2)

        def combine(self, parts):
            return torch.cat(parts)

        def forward(self, x):
            return self.combine([e(p) for e, p in zip(self.all, self.dispatch(x))])

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.self_attention, self.mlp = nn.Linear(WIDTH, WIDTH), Experts()

        def forward(self, x):
            return x + self.mlp(self.self_attention(x))
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Sequential(Layer(), Layer()))
    return loop(model, sgd(model), 3)


def ddp():
    model = nn.parallel.DistributedDataParallel(Model())
    losses = loop(model, sgd(model), 4)
    dist.barrier()
    return losses


def raising():
    """Every hook meets an error of its own."""
    tell = sys.modules['lockstep']._tell if 'lockstep' in sys.modules else None
    def boom(*_):
        raise RuntimeError('a hook')
    if tell:
        for name in ('begin', 'end', 'collective_begin', 'collective_end', 'step_begin', 'step_end', 'depth'):
            setattr(tell, name, boom)
    model = nn.parallel.DistributedDataParallel(Model())
    losses = loop(model, sgd(model), 4)
    torch.save({}, os.devnull)
    t = torch.ones(1)
    dist.all_reduce(t)
    torch.compile(lambda x: x + 1, backend='eager')(t)
    gc.collect()
    if tell:
        print(json.dumps(sys.modules['lockstep'].status()['hooks']), file=sys.stderr)
    return losses


def under_way():
    """Ends with a collective that nobody waited for."""
    for _ in range(20):
        dist.all_reduce(torch.ones(1000), async_op=True)
    return []


def failing():
    model = Model()
    loop(model, sgd(model), 2)
    raise ValueError('as without')


JOBS = {f.__name__: f for f in (plain, accumulated, checkpointed, two_optimizers, nested_optimizer, closures, scaled, compiled,
                                compiled_fullgraph, traced, named_parts, ddp, raising, under_way, failing)}
JOBS['compiled_module'] = lambda: compiled('module')
JOBS['compiled_blocks'] = lambda: compiled('blocks')


def main():
    torch.set_num_threads(1)
    torch.manual_seed(7)
    dist.init_process_group('gloo')
    print(json.dumps(JOBS[sys.argv[1]]()))
    if sys.argv[1] != 'under_way':
        dist.destroy_process_group()


if __name__ == '__main__':
    main()
