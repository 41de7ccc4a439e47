# SPDX-License-Identifier: Apache-2.0
"""Jobs to hang: hosts, groups, and what each rank does in a step, for the usual kinds of parallelism.

A step's program is the same for all ranks of a role; faults are put in afterwards (hang_faults.py).
"""
from hang_sim import Call, Do, Group

HOSTS = ['node-{:02d}', 'gpu-h{:02d}', 'dgx{:03d}', 'ip-10-0-4-{}', 'worker{}', 'p4d-st-{}', 'n{:04d}.cluster']
KINDS = ['ddp', 'fsdp', 'fsdp-own', 'hsdp', 'tp-dp', 'pp-dp', 'ep-dp', 'tp-pp-dp']


class Job:
    def __init__(self, rng, kind, world, backend='nccl', per_node=8, micro=4, layers=3, desc='mesh'):
        self.rng, self.kind, self.world, self.backend = rng, kind, world, backend
        self.per_node = min(per_node, world)
        pattern, first = rng.choice(HOSTS), rng.choice([0, 1, 1, 3, 17])
        self.hosts = [pattern.format(first + i) for i in range((world + self.per_node - 1) // self.per_node)]
        self.layers, self.micro, self.naming = layers, micro, desc
        self.groups, self.by_role = [], {}
        self.hidden = rng.choice([512, 1024, 2048, 4096])
        self.seq = rng.choice([128, 1024, 2048])
        self.sharded = kind in ('fsdp', 'fsdp-own', 'hsdp')
        self.tp = self.pp = self.ep = 1
        self.split()
        self.default = self.group('default_pg', range(world))
        self.make_groups()
        self.params = [rng.randrange(2, 40) * 64 * world for _ in range(layers)]
        self.buckets = [rng.randrange(50, 4000) * 32 for _ in range(rng.choice([2, 3, 4]))]
        self.type = 'Float' if backend == 'gloo' else rng.choice(['BFloat16', 'Float'])
        self.compute = rng.uniform(.01, .06)
        self.coalesced = self.sharded and backend == 'nccl' and rng.random() < .25  # as DeepSpeed gathers: several tensors in one

    def split(self):
        w, rng = self.world, self.rng
        fits = [n for n in (2, 4, 8) if w % n == 0 and w // n >= 2]
        if self.kind == 'tp-dp':
            self.tp = rng.choice(fits)
        elif self.kind == 'pp-dp':
            self.pp = rng.choice(fits)
        elif self.kind == 'tp-pp-dp':
            self.tp = rng.choice([n for n in fits if (w // n) % 4 == 0] or [2])
            self.pp = rng.choice([n for n in (2, 4) if (w // self.tp) % n == 0 and w // self.tp // n >= 2] or [2])
        elif self.kind == 'ep-dp':
            self.ep = rng.choice(fits)
        elif self.kind == 'hsdp':
            self.shard = rng.choice(fits)
        self.dp = w // self.tp // self.pp

    def group(self, desc, ranks):
        g = Group(str(len(self.groups)), desc, ranks)
        self.groups.append(g)
        return g

    NAMES = {'mesh': {'tp': 'mesh_tp', 'pp': 'mesh_pp', 'dp': 'mesh_dp', 'ep': 'mesh_ep', 'shard': 'mesh_dp_shard', 'replicate': 'mesh_dp_replicate'},
             'megatron': {'tp': 'TENSOR_MODEL_PARALLEL_GROUP', 'pp': 'PIPELINE_MODEL_PARALLEL_GROUP', 'dp': 'DATA_PARALLEL_GROUP',
                          'ep': 'EXPERT_MODEL_PARALLEL_GROUP', 'shard': 'DATA_PARALLEL_GROUP', 'replicate': 'INTER_DISTRIBUTED_OPTIMIZER_INSTANCE'},
             'none': dict.fromkeys(('tp', 'pp', 'dp', 'ep', 'shard', 'replicate'), 'undefined')}

    def role(self, role, sets):
        """The groups of a role; every rank makes all of them, in the same order."""
        name = self.NAMES[self.naming][role]
        for ranks in sets:
            g = self.group(name, ranks)
            for r in ranks:
                self.by_role[role, r] = g

    def make_groups(self):
        w, tp, pp, dp = self.world, self.tp, self.pp, self.dp
        if tp > 1:
            self.role('tp', [range(i, i + tp) for i in range(0, w, tp)])
        if self.kind in ('tp-dp', 'pp-dp', 'tp-pp-dp', 'ep-dp'):
            self.role('dp', [range(p * tp * dp + t, (p + 1) * tp * dp, tp) for p in range(pp) for t in range(tp)])
        if pp > 1:
            self.role('pp', [range(i, w, tp * dp) for i in range(tp * dp)])
        if self.ep > 1:
            self.role('ep', [range(i, i + self.ep) for i in range(0, w, self.ep)])
        if self.kind == 'fsdp-own':
            self.role('shard', [range(w)])
        if self.kind == 'hsdp':
            s = self.shard
            self.role('shard', [range(i, i + s) for i in range(0, w, s)])
            self.role('replicate', [range(i, w, s) for i in range(s)])

    def of(self, role, rank):
        return self.by_role.get((role, rank)) or self.default

    def groups_of(self, rank):
        return [g for g in self.groups if rank in g.local]

    def stage(self, rank):
        return rank // (self.tp * self.dp)

    def host(self, rank):
        return self.hosts[rank // self.per_node]

    # --- what a rank does ---
    def call(self, group, op, ins, outs=None, **kw):
        kw.setdefault('types', [self.type] * len(ins))
        return Call(group, op, ins, outs, **kw)

    def barrier(self, where='barrier', group=None):
        return self.call(group or self.default, 'barrier', [[1]], [[1]], types=['Float'], mode='block', where=where)

    def jitter(self, seconds):
        return Do('compute', seconds * self.rng.uniform(.9, 1.1))

    def forward_layer(self, rank, i, out, where='forward'):
        if self.sharded:
            self.gather(rank, i, out, where)
        out.append(self.jitter(self.compute))
        if self.tp > 1:
            out.append(self.call(self.of('tp', rank), 'all_reduce', [[self.seq, 1, self.hidden]], where=where))
        if self.ep > 1:
            self.exchange(rank, out, where)

    def exchange(self, rank, out, where):
        g = self.of('ep', rank)
        n = len(g.ranks)
        tokens = self.seq * n
        shape = [[tokens, self.hidden]]
        for _ in range(2):
            out.append(self.call(g, 'all_to_all', shape, shape, where=where))

    def gather(self, rank, i, out, where):
        g = self.of('shard', rank)
        n = len(g.ranks)
        part = self.params[i] // n
        if self.coalesced:
            sizes = [part // 2, part // 3, part - part // 2 - part // 3]
            out.append(self.call(g, 'all_gather_coalesced', [[x] for x in sizes], [[x * n] for x in sizes], where=where))
        else:
            out.append(self.call(g, 'all_gather_base', [[part]], [[part * n]], where=where))

    def backward_layer(self, rank, i, out):
        if self.sharded:
            g = self.of('shard', rank)
            n = len(g.ranks)
            full = self.params[i] // n * n
            self.gather(rank, i, out, 'backward')
            out.append(self.jitter(2 * self.compute))
            out.append(self.call(g, 'reduce_scatter_base', [[full]], [[full // n]], mode='async', where='backward'))
            if self.kind == 'hsdp':
                out.append(self.call(self.of('replicate', rank), 'all_reduce', [[full // n]], mode='async', where='backward'))
            return
        out.append(self.jitter(2 * self.compute))
        if self.tp > 1:
            out.append(self.call(self.of('tp', rank), 'all_reduce', [[self.seq, 1, self.hidden]], where='backward'))
        if self.ep > 1:
            self.exchange(rank, out, 'backward')

    def passes(self, rank, out):
        if self.pp == 1:
            for i in range(self.layers):
                self.forward_layer(rank, i, out)
            for i in reversed(range(self.layers)):
                self.backward_layer(rank, i, out)
            return
        g, s, m = self.of('pp', rank), self.stage(rank), self.micro
        shape = [[self.seq, 1, self.hidden]]
        before = g.ranks[s - 1] if s else None
        after = g.ranks[s + 1] if s + 1 < self.pp else None

        def go(*transfers):
            calls = [self.call(g, kind, shape, shape, peer=peer, where=where) for kind, peer, where in transfers if peer is not None]
            if len(calls) > 1:
                out.append(Do('batch', calls=calls, where=calls[0].where))
            else:
                out.extend(calls)

        def f():
            for i in range(self.layers):
                self.forward_layer(rank, i, out)

        def b():
            for i in reversed(range(self.layers)):
                self.backward_layer(rank, i, out)
        warm = min(self.pp - s - 1, m)
        for _ in range(warm):
            go(('recv', before, 'recv_forward'))
            f()
            go(('send', after, 'send_forward'))
        if warm < m:
            go(('recv', before, 'recv_forward'))
        for i in range(m - warm):
            f()
            go(('send', after, 'send_forward'), ('recv', after, 'recv_backward'))
            b()
            last = i == m - warm - 1
            go(('send', before, 'send_backward'), ('recv', None if last else before, 'recv_forward'))
        for _ in range(warm):
            go(('recv', after, 'recv_backward'))
            b()
            go(('send', before, 'send_backward'))

    def step_program(self, rank, step):
        """One optimizer step: load, forward, backward, reduce, optimize; then the mark of its end."""
        out = [Do('host', self.rng.uniform(.001, .003), 'data')]
        if self.tp > 1:
            out.append(self.call(self.of('tp', rank), 'broadcast', [[5, self.seq + 1]], types=['Long'], where='data', root=0))
        self.passes(rank, out)
        if not self.sharded:
            g = self.of('dp', rank)
            for n in self.buckets:  # DDP's buckets overlap the backward's end
                out.append(self.jitter(self.compute / 4))
                out.append(self.call(g, 'all_reduce', [[n]], mode='async', where='backward'))
        out.append(Do('join', where='backward'))
        if self.sharded or self.kind != 'ddp':
            out.append(self.call(self.default, 'all_reduce', [[]], types=['Float'], where='clip'))
        out.append(Do('compute', self.compute / 3, 'optimizer'))
        out.append(Do('sync', where='item'))
        mark = Do('mark', where='log')
        mark.step = step
        out.append(mark)
        return out
