# SPDX-License-Identifier: Apache-2.0
"""Ring files as liblockstep.so makes them (src/model/ring_layout.h), for tests that need one at will."""
import ctypes
import mmap
import os
import struct
import time

from ring_layout import (BACKWARD, COLL, COUNTER, FORWARD, KERNEL, LAUNCH, MORE, PHASE, STEP, USER,  # noqa: F401  for who makes records
                         Header, Pending, Record, Slot)  # noqa: F401

MS = 1_000_000


def start_time(pid):
    with open(f'/proc/{pid}/stat') as f:
        return int(f.read().rpartition(')')[2].split()[19])


class Ring:
    """A ring of the process pid (of this one by default), its times CLOCK_MONOTONIC in nanoseconds."""

    def __init__(self, path, rank=0, world=1, job='job', pid=None, capacities=(4096, 1024, 1024), names_bytes=65536,
                 n_pending=8):
        pid = pid or os.getpid()
        self.path, self.ids = path, {}
        slots_at = (ctypes.sizeof(Header) + 63) // 64 * 64
        pending_at = slots_at + len(capacities) * ctypes.sizeof(Slot)
        names_at = pending_at + n_pending * ctypes.sizeof(Pending)
        at = names_at + names_bytes
        size = at + 32 * sum(capacities)
        with open(path + '.part', 'wb') as f:
            f.truncate(size)
        os.chmod(path + '.part', 0o600)
        with open(path + '.part', 'r+b') as f:
            self.map = mmap.mmap(f.fileno(), size)
        self.head = Header.from_buffer(self.map)
        h = self.head
        h.magic, h.major, h.header_bytes, h.file_bytes = b'LKRING1\n', 1, ctypes.sizeof(Header), size
        h.n_slots, h.slot_bytes, h.slots_at = len(capacities), ctypes.sizeof(Slot), slots_at
        h.pending_at, h.n_pending, h.pending_bytes = pending_at, n_pending, ctypes.sizeof(Pending)
        h.names_at, h.names_bytes, h.state, h.clock = names_at, names_bytes, 1, 1
        h.rank, h.local_rank, h.world_size, h.pid, h.uid = rank, rank, world, pid, os.geteuid()
        try:
            h.start_time = start_time(pid)
        except OSError:
            h.start_time = 1
        h.pid_namespace = os.stat('/proc/self/ns/pid').st_ino
        with open('/proc/sys/kernel/random/boot_id') as f:
            h.boot_id = f.read().strip().encode()
        h.host, h.job, h.program = os.uname().nodename.encode()[:71], job.encode(), b'test'
        now = time.monotonic_ns()
        for pair in (h.first, h.last):
            pair.ticks = pair.monotonic_ns = now
            pair.realtime_ns = time.time_ns()
        self.slots = (Slot * len(capacities)).from_buffer(self.map, slots_at)
        self.pending = (Pending * n_pending).from_buffer(self.map, pending_at)
        for slot, capacity in zip(self.slots, capacities):
            slot.at, slot.capacity = at, capacity
            at += 32 * capacity
        os.rename(path + '.part', path)

    def name(self, text):
        text = text.encode() if isinstance(text, str) else text
        if text not in self.ids:
            at = self.head.names_at + self.head.names_used
            self.map[at:at + 2 + len(text)] = struct.pack('<H', len(text)) + text
            self.head.names_used += 2 + len(text)
            self.head.n_names += 1
            self.ids[text] = self.head.n_names
        return self.ids[text]

    def push(self, slot, kind, t, duration=0, name=0, arg=0, value=0, depth=0):
        s = self.slots[slot]
        at = s.at + 32 * (s.head % s.capacity)
        self.map[at:at + 32] = struct.pack('<QQIBBHQ', t & (2**64 - 1), duration, name, kind, depth, arg,
                                           value & (2**64 - 1))
        s.head += 1

    def step(self, number, begin, ms=50, wait=0, ops=True):
        """A plain step of a CPU job: forward, backward with an all-reduce in which it waits; ends ms later."""
        us = ms * MS // 10
        if ops:
            self.push(1, PHASE, begin + us // 2, 3 * us, self.name('forward'), FORWARD)
            coll = begin + 4 * us + (5 * us - wait * MS)
            self.push(1, COLL, coll, begin + 9 * us - coll, self.name('world'), 1, number)
            self.push(1, MORE, 0, value=1 << 20)
            self.push(1, PHASE, begin + 4 * us, 5 * us, self.name('backward'), BACKWARD)
        self.push(1, STEP, begin, ms * MS, value=number)
        self.head.step, self.head.steps_done = number, self.head.steps_done + 1
        return begin + ms * MS

    def close(self):
        self.map.flush()
        del self.head, self.slots, self.pending, self.map
