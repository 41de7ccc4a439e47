# SPDX-License-Identifier: Apache-2.0
"""A small simulation of ranks that call collectives, good enough to show where each stands when one goes wrong.

Each rank has a program: a flat list of instructions. The CPU walks it; with NCCL it only enqueues, and runs ahead of the
GPU until it meets a sync or a full queue; with Gloo it waits for each collective that is not asynchronous. A GPU has one
compute stream and one stream a group, each in order. A collective ends when all members are ready in it and called the
same; otherwise never. So times are a max-plus system that is solved as it is walked, and a hang is what stays unsolved.

Invariant: what a rank has enqueued depends only on its own program and on collectives that ended; nobody's evidence is
written by knowing the answer.
"""


class Group:
    def __init__(self, name, desc, ranks):
        self.name, self.desc, self.ranks = name, desc, list(ranks)
        self.local = {r: i for i, r in enumerate(ranks)}


class Node:
    """A moment: known when all that it waits for is known."""
    __slots__ = ('left', 't', 'cost', 'then', 'known')

    def __init__(self, cost=0.0, t=0.0):
        self.left, self.t, self.cost, self.then, self.known = 0, t, cost, [], False

    def after(self, other):
        if other is None:
            return self
        if other.known:
            self.t = max(self.t, other.t)
        else:
            self.left += 1
            other.then.append(self)
        return self


class Call:
    """An operation as one rank called it."""
    __slots__ = ('group', 'op', 'ins', 'outs', 'in_types', 'out_types', 'peer', 'batch', 'where', 'mode', 'root', 'step', 'created',
                 'ready', 'done', 'seq', 'p2p_seq', 'op_id', 'record', 'rank', 'stack')

    def __init__(self, group, op, ins, outs=None, types=('Float',), out_types=None, mode='stream', where='forward', peer=None, root=None):
        self.group, self.op, self.ins, self.outs = group, op, ins, ins if outs is None else outs
        self.in_types, self.out_types = list(types), list(out_types or types)
        self.mode, self.where, self.peer, self.root, self.batch = mode, where, peer, root, None
        self.created = self.ready = self.done = self.stack = None

    @property
    def p2p(self):
        return self.op in ('send', 'recv')

    def copy(self):
        c = Call(self.group, self.op, [list(s) for s in self.ins], [list(s) for s in self.outs], self.in_types, self.out_types, self.mode,
                 self.where, self.peer, self.root)
        return c


class Do:
    """What is no communication: compute (GPU), host (CPU), sync, join, hold, gone, batch."""
    __slots__ = ('what', 'seconds', 'where', 'calls', 'step')

    def __init__(self, what, seconds=0.0, where='forward', calls=()):
        self.what, self.seconds, self.where, self.calls = what, seconds, where, calls


def numel(sizes):
    n = 0
    for s in sizes:
        k = 1
        for d in s:
            k *= d
        n += k
    return n


def agree(calls, size):
    """Whether the calls of all members are one operation that can end."""
    first = calls[0]
    if any(c.op != first.op or c.root != first.root or c.in_types != first.in_types for c in calls):
        return False
    if first.op == 'all_to_all_list':  # what a sends to b is what b expects from a
        return all(calls[a].ins[b] == calls[b].outs[a] for a in range(size) for b in range(size))
    if first.op == 'all_to_all':
        return sum(numel(c.ins) for c in calls) == sum(numel(c.outs) for c in calls)
    return all(numel(c.ins) == numel(first.ins) and numel(c.outs) == numel(first.outs) for c in calls)


class Rank:
    def __init__(self, number, program, start, queue):
        self.number, self.program, self.at, self.cpu, self.queue = number, program, 0, start, queue
        self.stream = None          # the last Node of the compute stream
        self.tails = {}             # group name (and peer) -> the last Node of that stream
        self.open = []              # asynchronous calls not joined
        self.pending = []           # Nodes enqueued, oldest first
        self.calls, self.ops, self.p2p_seqs, self.coll_seqs = [], 0, {}, {}
        self.waits, self.stands, self.gone_at = None, None, None
        self.marks = []             # (time, step) of steps done


class Sim:
    def __init__(self, backend, queue=64, seq_base=None, latency=2e-4):
        self.backend, self.queue, self.latency, self.seq_base = backend, queue, latency, seq_base or {}
        self.ranks, self.meet, self.todo, self.never = {}, {}, [], set()

    def add(self, number, program, start=0.0):
        self.ranks[number] = Rank(number, program, start, self.queue)

    # --- what is known ---
    def settle(self, node):
        """If all that it waits for is known, so is it; and then what waits for it."""
        stack = [node]
        while stack:
            n = stack.pop()
            if n.left or n.known:
                continue
            n.known, n.t = True, n.t + n.cost
            for w in n.then:
                if isinstance(w, Rank):
                    w.cpu = max(w.cpu, n.t)
                    w.waits = None
                    self.todo.append(w)
                elif callable(w):
                    w()
                else:
                    w.left -= 1
                    w.t = max(w.t, n.t)
                    stack.append(w)
            n.then = []
        return node

    def block(self, rank, node, stands):
        if node is None or node.known:
            if node is not None:
                rank.cpu = max(rank.cpu, node.t)
            return False
        rank.waits, rank.stands = node, stands
        node.then.append(rank)
        return True

    # --- collectives ---
    def enter(self, rank, call):
        """The call is enqueued; call.ready and call.done are Nodes."""
        key = call.group.name
        rank.cpu += 2e-5
        call.created, call.rank = rank.cpu, rank.number
        stream = (key, call.op, call.peer) if call.p2p else key
        call.ready = Node(t=rank.cpu).after(rank.stream).after(rank.tails.get(stream))
        call.done = Node()
        call.done.left = 1
        rank.tails[stream] = call.done
        if call.p2p:
            a, b = (rank.number, call.peer) if call.op == 'send' else (call.peer, rank.number)
            n = rank.p2p_seqs[stream] = rank.p2p_seqs.get(stream, 0) + 1
            slot, want = (key, a, b, n), 2
        else:
            n = rank.coll_seqs[key] = rank.coll_seqs.get(key, 0) + 1
            slot, want = (key, n), len(call.group.ranks)
        self.number(rank, call)
        rank.calls.append(call)
        rank.pending.append(call.done)
        meeting = self.meet.setdefault(slot, {})
        meeting[rank.number] = call
        ready = call.ready
        if len(meeting) == want and slot not in self.never:
            calls = [meeting[r] for r in (call.group.ranks if want > 2 or not call.p2p else sorted(meeting))]
            good = numel(calls[0].ins) == numel(calls[1].ins) if call.p2p else agree(calls, want)
            if good:
                end = Node(cost=self.latency + 1e-11 * numel(calls[0].outs))
                for c in calls:
                    end.after(c.ready)
                for c in calls:
                    end.then.append(c.done)
                self.settle(end)
        self.settle(ready)

    def number(self, rank, call):
        key = call.group.name
        base, pbase, obase = self.seq_base.get((rank.number, key), (0, 0, 0))
        c = rank.coll_seqs.get(key, 0) + base
        call.seq = c
        rank.ops += 1
        ops = rank.p2p_seqs.setdefault(('ops', key), obase)
        rank.p2p_seqs[('ops', key)] = call.op_id = ops + 1
        p = rank.p2p_seqs.setdefault(('p2p', key), pbase)
        if call.p2p and (call.batch is None or call.batch[0] is call):
            p += 1
            rank.p2p_seqs[('p2p', key)] = p
        call.p2p_seq = p

    # --- the CPU ---
    def step(self, rank):
        """One instruction; False if the CPU cannot go on now."""
        if rank.waits is not None or rank.gone_at is not None or rank.at >= len(rank.program):
            return False
        i = rank.program[rank.at]
        while rank.pending and rank.pending[0].known:
            rank.pending.pop(0)
        if len(rank.pending) > rank.queue and isinstance(i, (Call,)) or (isinstance(i, Do) and i.what == 'compute'
            and len(rank.pending) > rank.queue):
            if self.block(rank, rank.pending[0], ('launch', i.where)):
                return False
        rank.at += 1
        if isinstance(i, Call):
            self.enter(rank, i)
            return self.after_call(rank, i)
        return getattr(self, 'do_' + i.what)(rank, i)

    def after_call(self, rank, call):
        if call.mode == 'async':
            rank.open.append(call)
            return True
        if self.backend == 'gloo' or call.mode == 'block':
            if not self.block(rank, call.done, ('call', call)):
                return True
            return False
        rank.stream = self.settle(Node().after(rank.stream).after(call.done))
        return True

    def do_compute(self, rank, i):
        if self.backend == 'gloo':
            rank.cpu += i.seconds
        else:
            rank.cpu += 3e-5
            rank.stream = self.settle(Node(cost=i.seconds, t=rank.cpu).after(rank.stream))
        return True

    def do_host(self, rank, i):
        rank.cpu += i.seconds
        return True

    def do_join(self, rank, i):
        open_, rank.open = rank.open, []
        node = Node().after(rank.stream)
        for c in open_:
            node.after(c.done)
        self.settle(node)
        if self.backend == 'gloo':
            lowest = [c for c in open_ if not c.done.known]
            return not self.block(rank, node, ('join', lowest[0] if lowest else None, i.where))
        rank.stream = node
        return True

    def do_sync(self, rank, i):
        return not self.block(rank, rank.stream, ('sync', i.where))

    def do_batch(self, rank, i):
        calls = list(i.calls)
        for c in calls:
            c.batch = calls
            self.enter(rank, c)
        if self.backend == 'gloo':
            node = Node()
            for c in calls:
                node.after(c.done)
            return not self.block(rank, self.settle(node), ('call', calls[0]))
        node = Node().after(rank.stream)
        for c in calls:
            node.after(c.done)
        rank.stream = self.settle(node)
        return True

    def do_stuck(self, rank, i):
        """A kernel that never ends."""
        rank.stream = Node()
        rank.stream.left = 1
        return True

    def do_mark(self, rank, i):
        rank.marks.append((rank.cpu, i.step))
        return True

    def do_hold(self, rank, i):
        rank.waits, rank.stands = Node(), ('hold', i.where)
        return False

    def do_gone(self, rank, i):
        rank.gone_at, rank.stands = rank.cpu, ('gone', i.where)
        return False

    def run(self):
        self.todo = list(self.ranks.values())
        while self.todo:
            rank = self.todo.pop()
            while self.step(rank):
                pass
        for r in self.ranks.values():
            if r.stands is None or (r.waits is None and r.gone_at is None):
                r.stands = ('done', None) if r.at >= len(r.program) else r.stands
        return self

    # --- what stands at a moment ---
    def last_time(self):
        t = 0.0
        for r in self.ranks.values():
            t = max(t, r.cpu)
            for c in r.calls[-200:]:
                if c.done.known:
                    t = max(t, c.done.t)
        return t

    def hung(self):
        return sorted(r.number for r in self.ranks.values() if any(not c.done.known for c in r.calls[-400:]))
