# SPDX-License-Identifier: Apache-2.0
"""The physics of a training job on GPUs, as a discrete-event simulation.

Each rank has one host thread that walks a program (job_plan.py builds it): it launches kernels, runs ahead of
the GPU until the launch queue is full, and blocks at synchronisations. Streams are first-in first-out; a kernel
starts when it is launched, its stream is free and what it waits for has ended. A transfer starts to move when
its last member has arrived, shares its links with other transfers, and lets its members go within a scatter.
Times are microseconds of one true clock; skew and drift are added when the files are written.

Invariant: all noise is drawn when the program is built, none here, so that two runs that differ in one fault
differ in nothing else.
"""
import heapq
from collections import deque


class Kernel:
    """One piece of GPU work with its launch; start, end and the host times are filled in by the run."""
    __slots__ = ('name', 'op', 'kind', 'stream', 'dur', 'host_us', 'api_us', 'thread', 'waits', 'transfers', 'step',
                 'scatter', 'cpu0', 'api0', 'api1', 'cpu1', 'start', 'end', 'waiters', 'correlation', 'meta',
                 'external')

    def __init__(self, name, op, kind, stream, dur, host_us, api_us, thread, step, waits=(), transfers=(), scatter=0.0,
                 meta=None):
        self.name, self.op, self.kind, self.stream, self.dur = name, op, kind, stream, dur
        self.host_us, self.api_us, self.thread, self.step = host_us, api_us, thread, step
        self.waits, self.transfers, self.scatter, self.meta = list(waits), list(transfers), scatter, meta
        self.cpu0 = self.api0 = self.api1 = self.cpu1 = self.start = self.end = None
        self.waiters, self.correlation, self.external = [], 0, 0


class Cpu:
    """Host work of a known length: a data loader, a save, a stall, plain Python."""
    __slots__ = ('dur', 'annotation', 'start', 'category', 'thread')

    def __init__(self, dur, annotation=None, category='user_annotation', thread='main'):
        self.dur, self.annotation, self.start, self.category, self.thread = dur, annotation, None, category, thread


class Mark:
    """The begin of an annotation; its end is another Mark that names it."""
    __slots__ = ('name', 'begin', 't', 'step')

    def __init__(self, name=None, begin=None, step=0):
        self.name, self.begin, self.t, self.step = name, begin, None, step


class Sync:
    """The host waits for one stream, or (None) for the device."""
    __slots__ = ('stream', 'start', 'end')

    def __init__(self, stream=None):
        self.stream, self.start, self.end = stream, None, None


class Transfer:
    """One collective or one send/recv pair; `micros` is its time on an idle, healthy link."""
    __slots__ = ('members', 'micros', 'rooted', 'inter', 'arrived', 'root_at', 'began')

    def __init__(self, members, micros, inter, rooted=None):
        self.members, self.micros, self.inter, self.rooted = members, micros, inter, rooted
        self.arrived, self.root_at, self.began = {}, None, None


class _Stream:
    __slots__ = ('queue', 'busy', 'last_end')

    def __init__(self):
        self.queue, self.busy, self.last_end = deque(), False, 0.0


class _Rank:
    __slots__ = ('number', 'program', 'pc', 'streams', 'outstanding', 'blocked', 'moving', 'inter', 'pending')

    def __init__(self, number, program):
        self.number, self.program, self.pc = number, program, 0
        self.streams, self.outstanding, self.blocked, self.moving, self.inter = {}, 0, None, 0, 0
        self.pending = {}


class Simulation:
    """Run the programs of all ranks to their ends. `start_us[r]` is when rank r's host begins."""

    def __init__(self, programs, start_us, depth, interference, contention, launch_latency_us=3.5, gap_us=1.2):
        self.ranks = [_Rank(i, p) for i, p in enumerate(programs)]
        self.depth, self.interference, self.contention = depth, interference, contention
        self.latency, self.gap = launch_latency_us, gap_us
        self.heap, self.order = [], 0
        self.start_us = start_us

    def at(self, t, action, *args):
        self.order += 1
        heapq.heappush(self.heap, (t, self.order, action, args))

    def run(self):
        for rank, t in zip(self.ranks, self.start_us):
            self.at(t, self.host, rank)
        while self.heap:
            t, _, action, args = heapq.heappop(self.heap)
            action(t, *args)
        stuck = [r.number for r in self.ranks if r.pc < len(r.program) or r.outstanding]
        if stuck:
            raise RuntimeError(f'the job hangs: ranks {stuck} never finish (a plan that contradicts itself)')

    # -- the host thread

    def host(self, t, rank):
        if rank.pc >= len(rank.program):
            return
        op = rank.program[rank.pc]
        if isinstance(op, Kernel):
            if op.cpu0 is None:
                op.cpu0, op.api0 = t, t + op.host_us
            if rank.outstanding >= self.depth:
                rank.blocked = 'queue'
                return
            op.api1 = max(t, op.api0) + op.api_us
            op.cpu1 = op.api1 + 0.4
            rank.pc += 1
            self.enqueue(rank, op)
            self.at(op.cpu1 + 0.9, self.host, rank)
        elif isinstance(op, Cpu):
            op.start = t
            rank.pc += 1
            self.at(t + op.dur, self.host, rank)
        elif isinstance(op, Mark):
            op.t = t
            rank.pc += 1
            self.at(t + 0.2, self.host, rank)
        else:
            if op.start is None:
                op.start = t
            if self.busy(rank, op.stream):
                rank.blocked = op
                return
            op.end = t + 4.0
            rank.pc += 1
            self.at(op.end, self.host, rank)

    @staticmethod
    def busy(rank, stream):
        return bool(rank.outstanding if stream is None else rank.streams.get(stream) and rank.streams[stream].queue)

    # -- streams

    def enqueue(self, rank, kernel):
        stream = rank.streams.get(kernel.stream)
        if stream is None:
            stream = rank.streams[kernel.stream] = _Stream()
        stream.queue.append(kernel)
        rank.outstanding += 1
        self.try_start(rank, stream)

    def try_start(self, rank, stream):
        if stream.busy or not stream.queue:
            return
        kernel = stream.queue[0]
        ready = max(stream.last_end + self.gap, kernel.api1 - 1.0 + self.latency)
        for other in kernel.waits:
            if other.end is None:
                other.waiters.append((rank, stream))
                return
            ready = max(ready, other.end + self.gap)
        stream.busy = True
        self.at(ready, self.begin, rank, stream, kernel)

    def begin(self, t, rank, stream, kernel):
        kernel.start = t
        if not kernel.transfers:
            slow = 1.0 + (self.interference if rank.moving and kernel.kind == 'compute' else 0.0)
            self.at(t + kernel.dur * slow, self.finish, rank, stream, kernel)
            return
        rank.pending[kernel] = len(kernel.transfers)
        for transfer in kernel.transfers:
            self.arrive(t, rank, stream, kernel, transfer)

    def arrive(self, t, rank, stream, kernel, transfer):
        transfer.arrived[rank.number] = (rank, stream, kernel)
        if transfer.rooted is not None:
            self.arrive_rooted(t, rank, stream, kernel, transfer)
            return
        if len(transfer.arrived) < len(transfer.members):
            return
        micros = transfer.micros * self.share(transfer)
        transfer.began = t
        for other, other_stream, other_kernel in transfer.arrived.values():
            other.moving += 1
            other.inter += transfer.inter
            self.at(t + micros + other_kernel.scatter, self.moved, other, other_stream, other_kernel, transfer.inter)

    def arrive_rooted(self, t, rank, stream, kernel, transfer):
        """A broadcast: the root pushes and leaves; the others leave when the data is there."""
        if rank.number == transfer.rooted:
            transfer.root_at = t
            going = list(transfer.arrived.values())
        elif transfer.root_at is None:
            return
        else:
            going = [(rank, stream, kernel)]
        for other, other_stream, other_kernel in going:
            other.moving += 1
            end = max(t, transfer.root_at) + transfer.micros + other_kernel.scatter
            self.at(end, self.moved, other, other_stream, other_kernel, 0)

    def share(self, transfer):
        """How much slower: other transfers that use the network ports of the members at this moment."""
        if not transfer.inter:
            return 1.0
        return 1.0 + self.contention * max(v[0].inter for v in transfer.arrived.values())

    def moved(self, t, rank, stream, kernel, inter):
        rank.moving -= 1
        rank.inter -= inter
        rank.pending[kernel] -= 1
        if not rank.pending[kernel]:
            del rank.pending[kernel]
            self.finish(t, rank, stream, kernel)

    def finish(self, t, rank, stream, kernel):
        kernel.end = t
        stream.queue.popleft()
        stream.busy, stream.last_end = False, t
        rank.outstanding -= 1
        self.try_start(rank, stream)
        for other_rank, other_stream in kernel.waiters:
            self.try_start(other_rank, other_stream)
        if rank.blocked == 'queue' or (isinstance(rank.blocked, Sync) and not self.busy(rank, rank.blocked.stream)):
            rank.blocked = None
            self.host(t, rank)
