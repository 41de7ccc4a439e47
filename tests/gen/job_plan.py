# SPDX-License-Identifier: Apache-2.0
"""What each rank of a job does: layout, model, schedule, noise and the fault, as one program a rank for job_sim.

Invariant: draws of random numbers depend on the seed, the rank and the place in the program only, never on the
fault: the healthy twin of a job is the same job.
"""
import math
import random

from job_names import KERNELS, GPUS, OPERATORS, LOADER, PHASE_STYLES, collective, type_bytes
from job_sim import Cpu, Kernel, Mark, Sync, Transfer

GPUS_PER_NODE = 8
COMPUTE = 7
# Shares of a layer's `unit` of time at sequence length 1; the attention's grows with its square.
FORWARD = (('norm', .04), ('qkv', .75), ('attn', .35), ('out', .3))
MLP = (('norm', .04), ('up', 1.), ('gelu', .1), ('down', 1.))
BACKWARD_MLP = (('dgrad', 1.), ('wgrad', 1.), ('gelu_bwd', .12), ('dgrad', 1.), ('wgrad', 1.), ('norm_bwd', .06))
BACKWARD = (('dgrad', .3), ('wgrad', .3), ('attn_bwd', .9), ('dgrad', .75), ('wgrad', .75), ('norm_bwd', .06))


class Layout:
    """Ranks to coordinates and groups; the order names the fastest dimension first."""

    def __init__(self, tp, pp, dp, ep, order):
        self.tp, self.pp, self.dp, self.ep, self.order = tp, pp, dp, ep, order
        self.world = tp * pp * dp
        sizes, self.stride, step = {'tp': tp, 'pp': pp, 'dp': dp}, {}, 1
        for dim in order.split('-'):
            self.stride[dim] = step
            step *= sizes[dim]
        self.sizes = sizes
        self.groups, number = {'world': {tuple(range(self.world)): 0}}, 1
        for kind, dims in (('dp', ('dp',)), ('mp', ('tp', 'pp')), ('tp', ('tp',)), ('pp', ('pp',))):
            self.groups[kind] = {}
            for r in range(self.world):
                if self.members(r, dims) not in self.groups[kind]:
                    self.groups[kind][self.members(r, dims)] = number
                    number += 1
        self.groups['ep'] = {}
        for members in self.groups['dp']:
            for i in range(0, dp, ep):
                self.groups['ep'][members[i:i + ep]] = number
                number += 1

    def at(self, rank, dim):
        return rank // self.stride[dim] % self.sizes[dim]

    def members(self, rank, dims):
        found = [rank]
        for dim in dims:
            found = [r + (i - self.at(r, dim)) * self.stride[dim] for r in found for i in range(self.sizes[dim])]
        return tuple(sorted(set(found)))

    def group(self, rank, kind):
        if kind == 'world':
            return tuple(range(self.world))
        if kind == 'ep':
            members, place = self.members(rank, ('dp',)), self.at(rank, 'dp') // self.ep * self.ep
            return members[place:place + self.ep]
        return self.members(rank, ('tp', 'pp') if kind == 'mp' else (kind,))

    def neighbour(self, rank, by):
        return rank + by * self.stride['pp']


class Fault:
    """What is wrong, as answers to the questions that a plan asks; the base class is the healthy job."""

    def __init__(self, kind='none', variant='', **how):
        self.kind, self.variant, self.how = kind, variant, how

    def __getattr__(self, name):
        return self.__dict__['how'].get(name)

    def compute(self, rank, step, kernel, micro):
        """Factor on the time of a compute kernel."""
        if step not in (self.steps or ()):
            return 1.0
        if self.kind == 'kernel-regression':
            return self.factor if kernel == self.kernel else 1.0
        if self.kind not in ('compute-straggler', 'throttling') or rank not in self.ranks:
            return 1.0
        if self.kernel and kernel != self.kernel or self.micro is not None and micro != self.micro:
            return 1.0
        return self.factor * (self.wobble or {}).get(step, 1.0)

    def link(self, members, step):
        """Factor on the time of a transfer among members."""
        if self.kind != 'comm-link' or step not in self.steps:
            return 1.0
        return self.factor if self.touches(members) else 1.0

    def touches(self, members):
        """Does a transfer among members use the bad link? A node's link is used by transfers that leave the node."""
        inside = set(members) & set(self.ranks)
        if self.variant == 'pair':
            return len(inside) == 2
        if self.variant == 'node':
            return bool(inside) and inside != set(members)
        return bool(inside)

    def stalls(self, rank, step):
        """{place: microseconds}: 'forward', 'backward' or 'optimizer', host time that launches nothing."""
        return (self.stall or {}).get((rank, step), {})

    def data(self, rank, step):
        return (self.wait or {}).get((rank, step), 0.0)

    def sequence(self, rank, step, micro):
        return self.lengths[(rank, step, micro)] if self.lengths else 1.0

    def layers(self, stage):
        return (self.more or {}).get(stage, 0)

    def save(self, rank, step):
        return (self.saves or {}).get((rank, step), 0.0)


class Noise:
    """Draws of one rank, in program order."""

    def __init__(self, seed, rank, sigma):
        self.random, self.sigma = random.Random(seed * 7919 + rank * 104729 + 17), sigma
        self.speed = math.exp(self.random.gauss(0, 0.004))

    def kernel(self):
        return self.speed * math.exp(self.random.gauss(0, self.sigma))

    def host(self):
        """A launch's host time: mostly a few microseconds, now and then an interrupt."""
        rare = self.random.random()
        return self.random.lognormvariate(0, .3) + (self.random.uniform(10, 80) if rare < .0008 else 0)

    def scatter(self, inter):
        return abs(self.random.gauss(0, 4.0 if inter else 1.0))


class Planner:
    """Builds the program of every rank. `job` is the drawn configuration (make_job.draw)."""

    def __init__(self, job, fault):
        self.job, self.fault, self.layout = job, fault, job.layout
        self.gpu = GPUS[job.gpu]
        self.transfers = {}
        self.phases = PHASE_STYLES[job.phases]

    def programs(self):
        return [RankPlan(self, r).build() for r in range(self.layout.world)]

    def transfer(self, key, members, operation, size_bytes, step, rooted=None):
        """The one Transfer that all members of a collective share, made by whoever comes first."""
        if key in self.transfers:
            return self.transfers[key]
        n = len(members)
        inter = len({m // GPUS_PER_NODE for m in members}) > 1
        wire = {'all_reduce': 2 * (n - 1) / n, 'barrier': 2 * (n - 1) / n, 'all_gather': (n - 1) / n,
                'reduce_scatter': (n - 1) / n, 'all_to_all': (n - 1) / n}.get(operation, 1.0)
        draw = random.Random(f'{self.job.seed} {key}')
        micros = (9.0 + 2.2 * n if inter else 6.0 + 0.8 * n) + wire * size_bytes / self.gpu['inter' if inter else 'intra']
        micros *= math.exp(draw.gauss(0, 0.03 if inter else 0.015)) * (1 + (draw.random() < .002) * draw.uniform(.2, 1.5))
        t = Transfer(members, micros * self.fault.link(members, step), inter, rooted)
        self.transfers[key] = t
        return t


class RankPlan:
    def __init__(self, planner, rank):
        self.p, self.job, self.fault, self.layout, self.rank = planner, planner.job, planner.fault, planner.layout, rank
        self.noise = Noise(self.job.seed, rank, self.job.sigma)
        self.stage = self.layout.at(rank, 'pp')
        self.first, self.last = self.stage == 0, self.stage == self.layout.pp - 1
        self.program, self.thread, self.step, self.micro = [], 'main', 0, 0
        self.sequence_numbers, self.counts, self.last_compute, self.reduced = {}, {}, None, []
        self.gathered = None
        base = 16 + 4 * (self.job.seed % 3)
        used = [k for k in ('tp', 'dp', 'ep', 'mp', 'world') if len(self.layout.group(rank, k)) > 1]
        self.streams = {k: base + 4 * i for i, k in enumerate(used)}
        self.streams['pp'] = base + 4 * len(used) + 8
        if self.job.tp_on_compute:
            self.streams['tp'] = COMPUTE

    # -- small pieces

    def compute(self, kind, share, waits=(), unit=None):
        name = KERNELS[self.job.gpu][kind]
        length = self.job.length[self.step] * self.fault.sequence(self.rank, self.step, self.micro)
        if kind.startswith('attn'):
            length *= length
        dur = max(1.6, (unit or self.job.unit_us) * share * length) * self.noise.kernel()
        dur *= self.fault.compute(self.rank, self.step, name, self.micro)
        slow_start = self.job.warm_up if self.step == self.job.first_step and self.micro == 0 else 1.0
        k = Kernel(name, OPERATORS.get(kind, 'aten::mm'), 'compute', COMPUTE, dur, self.job.host_us * self.noise.host() *
                   slow_start, 5 + self.noise.host(), self.thread, self.step, waits)
        self.program.append(k)
        self.last_compute = k
        return k

    def collective(self, kind, operation, elements, dtype, rooted=None, waits=()):
        """Launch one collective of a group of the given kind; returns its kernel, or None for a group of one."""
        members = self.layout.group(self.rank, kind)
        if len(members) < 2:
            return None
        count = self.counts[(kind, members)] = self.counts.get((kind, members), 0) + 1
        t = self.p.transfer((kind, members, count), members, operation, elements * type_bytes(dtype), self.step, rooted)
        return self.launch(kind, operation, elements, dtype, [t], waits)

    def launch(self, kind, operation, elements, dtype, transfers, waits, peer=None):
        members = self.layout.group(self.rank, kind)
        seq = self.sequence_numbers.get(members, self.job.seq_base)
        self.sequence_numbers[members] = seq + 1
        name, annotation, kernel = collective(operation, dtype, self.job.gpu, self.job.old_nccl)
        out = elements
        if operation == 'all_gather':
            elements = elements // len(members)
        elif operation == 'reduce_scatter':
            out = elements // len(members)
        meta = {'operation': operation, 'name': name, 'annotation': annotation, 'kind': kind, 'members': members,
                'in': elements, 'out': out, 'dtype': dtype, 'seq': seq, 'peer': peer}
        waits = [w for w in waits if w is not None]
        k = Kernel(kernel, 'record_param_comms', 'comm', self.streams[kind], 0, 2.0 + self.job.host_us * self.noise.host(),
                   5 + self.noise.host(), self.thread, self.step, waits, transfers,
                   self.noise.scatter(any(t.inter for t in transfers)), meta)
        self.program.append(k)
        return k

    def begin(self, name):
        if name is None:
            return None
        mark = Mark(name, None, self.step)
        self.program.append(mark)
        return mark

    def end(self, mark):
        if mark is not None:
            self.program.append(Mark(None, mark, self.step))

    def stall(self, place):
        micros = self.fault.stalls(self.rank, self.step).get(place, 0.0)
        if micros:
            self.program.append(Cpu(micros, None, thread=self.thread))

    # -- one layer, forward and backward

    def tensor_parallel(self):
        if self.layout.tp > 1:
            k = self.collective('tp', 'all_reduce', self.activation(), 'BFloat16', waits=[self.last_compute])
            self.held = [k]

    def take_held(self):
        held, self.held = [h for h in self.held if h is not None], []
        return held

    held = []

    def activation(self):
        length = self.job.length[self.step] * self.fault.sequence(self.rank, self.step, self.micro)
        return int(self.job.activation * length) // 64 * 64

    def block(self, parts):
        for kind, share in parts:
            self.compute(kind, share, self.take_held())

    def experts(self, parts):
        """Tokens go to the experts' ranks and come back."""
        self.compute('route', .05, self.take_held())
        share = self.noise.random.uniform(.92, 1.08) if self.job.moe else 1.0
        there = self.collective('ep', 'all_to_all', self.activation(), 'BFloat16', waits=[self.last_compute])
        self.held = [there]
        self.block([(k, s * share) for k, s in parts])
        self.held = [self.collective('ep', 'all_to_all', self.activation(), 'BFloat16', waits=[self.last_compute])]

    def forward_layer(self):
        if self.job.dp_mode == 'fsdp':
            self.held.append(self.collective('dp', 'all_gather', self.job.parameters, 'BFloat16'))
        self.block(FORWARD)
        self.tensor_parallel()
        (self.experts if self.job.moe else self.block)(MLP)
        self.tensor_parallel()

    def backward_layer(self, reduce):
        if self.job.dp_mode == 'fsdp':
            self.held.append(self.collective('dp', 'all_gather', self.job.parameters, 'BFloat16'))
        (self.experts if self.job.moe else self.block)(BACKWARD_MLP)
        self.tensor_parallel()
        self.block(BACKWARD)
        self.tensor_parallel()
        if reduce:
            op = 'all_reduce' if self.job.dp_mode == 'allreduce' else 'reduce_scatter'
            self.reduced.append(self.collective('dp', op, self.job.parameters, self.job.grad_type, waits=[self.last_compute]))

    # -- one micro-batch

    def layers(self):
        return self.job.layers[self.stage] + self.fault.layers(self.stage)

    def forward(self, micro, after=None):
        self.micro = micro
        mark = self.begin(self.p.phases[0])
        self.held = [after] + ([self.gathered] if self.gathered else [])
        self.gathered = None
        if micro == 0:
            self.stall('forward')
        if self.first:
            self.compute('embed', .05, self.take_held())
        for _ in range(self.layers()):
            self.forward_layer()
        if self.last:
            head = self.job.head * (self.fault.head or 1.0)
            self.compute('out', head, self.take_held())
            self.compute('softmax', .1 * head)
        self.end(mark)
        return self.take_held()

    def backward(self, micro, after=None):
        self.micro = micro
        mark = self.begin(self.p.phases[1])
        self.program.append(Cpu(3.0))
        self.thread = 'autograd'
        self.held = [after]
        if micro == 0:
            self.stall('backward')
        if self.last:
            head = self.job.head * (self.fault.head or 1.0)
            self.compute('softmax_bwd', .1 * head, self.take_held())
            self.compute('dgrad', head)
            self.compute('wgrad', head)
        reduce = micro == self.job.micros - 1 or self.job.dp_mode == 'fsdp'
        for _ in range(self.layers()):
            self.backward_layer(reduce)
        held = self.take_held()
        self.thread = 'main'
        self.program.append(Cpu(5.0))
        self.end(mark)
        return held

    # -- the pipeline: one forward, one backward, with the order of sends and receives by parity

    def peer_transfer(self, what, micro, by):
        other = self.layout.neighbour(self.rank, by)
        pair = tuple(sorted((self.rank, other)))
        key = ('p2p', pair, what, self.step, micro)
        return self.p.transfer(key, pair, 'send', self.activation() * 2, self.step), other

    def exchange(self, parts, waits):
        """parts: ('send'|'recv', 'F'|'B', micro, +1|-1). One grouped kernel, or one kernel each."""
        if not parts:
            return None
        made = [self.peer_transfer(what, micro, by) for _, what, micro, by in parts]
        if self.job.coalesced:
            return self.launch('pp', 'coalesced', self.activation(), 'BFloat16', [t for t, _ in made], waits)
        k = None
        for (direction, _, _, _), (t, other) in zip(parts, made):
            k = self.launch('pp', direction, self.activation(), 'BFloat16', [t], waits, peer=other)
        return k

    def pipeline(self):
        pp, micros, stage = self.layout.pp, self.job.micros, self.stage
        if pp == 1:
            for m in range(micros):
                tail = self.forward(m)
                self.backward(m, tail[-1] if tail else None)
            return
        warm = min(pp - stage - 1, micros)
        arrive = None
        for m in range(warm):
            if not self.first:
                arrive = self.exchange([('recv', 'F', m, -1)], [])
            tail = self.forward(m, arrive)
            arrive = self.exchange([('send', 'F', m, 1)], tail + [self.last_compute])
        if warm < micros and not self.first:
            arrive = self.exchange([('recv', 'F', warm, -1)], [])
        for i in range(micros - warm):
            m = warm + i
            tail = self.forward(m, arrive)
            if not self.last:
                arrive = self.exchange([('send', 'F', m, 1), ('recv', 'B', i, 1)], tail + [self.last_compute])
            else:
                arrive = tail[-1] if tail else None
            tail = self.backward(i, arrive)
            parts = [] if self.first else ([('recv', 'F', m + 1, -1)] if m + 1 < micros else []) + [('send', 'B', i, -1)]
            arrive = self.exchange(parts, tail + [self.last_compute])
        for i in range(micros - warm, micros):
            arrive = self.exchange([('recv', 'B', i, 1)], [self.last_compute])
            tail = self.backward(i, arrive)
            if not self.first:
                arrive = self.exchange([('send', 'B', i, -1)], tail + [self.last_compute])

    # -- the step

    def load(self):
        if not (self.first or self.last and self.job.data_on_last):
            return
        has_data = not self.job.tp_broadcast or self.layout.at(self.rank, 'tp') == 0
        if has_data:
            dur = min(self.noise.random.uniform(60, 260), self.job.loader_most_us) + self.fault.data(self.rank, self.step)
            self.program.append(Cpu(dur, LOADER if self.job.loader_named else None))
            self.copy('Memcpy HtoD (Pinned -> Device)')
        if self.job.tp_broadcast and self.layout.tp > 1:
            root = self.layout.group(self.rank, 'tp')[0]
            self.collective('tp', 'broadcast', self.job.activation // 512, 'Long', root, [self.last_compute])

    def copy(self, name):
        k = Kernel(name, 'aten::copy_', 'copy', COMPUTE, 6 + 8 * self.noise.host(), self.job.host_us, 6.0, self.thread,
                   self.step)
        self.program.append(k)
        self.last_compute = k

    def optimizer(self):
        mark = self.begin(self.p.phases[2])
        self.stall('optimizer')
        self.compute('l2', .15, [r for r in self.reduced if r is not None])
        self.reduced = []
        norm = self.collective(self.job.norm_group, 'all_reduce', 1, 'Float', waits=[self.last_compute])
        if self.job.sync == 'norm':
            self.program.append(Sync(self.streams[self.job.norm_group] if norm else COMPUTE))
        for _ in range(self.job.adam_kernels):
            self.compute('adam', .3 / self.job.adam_kernels, [norm] if norm else [])
        if self.job.dp_mode == 'zero1':
            for _ in range(2):
                self.gathered = self.collective('dp', 'all_gather', self.job.parameters, 'BFloat16', waits=[self.last_compute])
        self.end(mark)

    def loss(self):
        if self.job.sync != 'loss' or not self.last:
            return
        k = self.collective('dp', 'all_reduce', 1, 'Float', waits=[self.last_compute])
        self.program.append(Sync(self.streams['dp'] if k else COMPUTE))

    def save(self):
        micros = self.fault.save(self.rank, self.step)
        draw = random.Random(f'{self.job.seed} save {self.rank} {self.step}')  # apart: only some twins save
        if self.step == self.job.checkpoint_step:
            micros = self.job.checkpoint_us * (1.0 if self.rank == 0 else draw.uniform(.2, .5))
        elif not (self.fault.saves and any(s == self.step for _, s in self.fault.saves)):
            return
        self.program.append(Sync(None))
        if micros:
            for _ in range(3):
                self.copy('Memcpy DtoH (Device -> Pinned)')
            self.program.append(Cpu(micros, 'save-checkpoint' if self.job.save_named else None))
        self.program.append(Cpu(draw.uniform(80, 400)))
        self.collective('world', 'barrier', 1, 'Float')
        self.program.append(Sync(None))

    def build(self):
        for self.step in range(self.job.first_step, self.job.last_step + 1):
            self.micro = 0
            whole = self.begin(f'ProfilerStep#{self.step}')
            if self.step == self.job.first_step and self.job.warm_up > 1:
                self.program.append(Cpu(self.job.warm_up_us * self.noise.random.uniform(.7, 1.3)))
            self.load()
            self.pipeline()
            self.loss()
            self.optimizer()
            self.save()
            self.program.append(Cpu(self.noise.random.uniform(20, 120)))
            self.end(whole)
        self.program.append(Sync(None))
        return self.program
