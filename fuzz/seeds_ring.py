#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of fuzz_ring: small rings, whole and with every kind of contradiction."""
import os
import struct
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'tests'))
import ring_made as rf  # noqa: E402

BASE = 1_799_999_990_000_000_000


def ring(folder, **more):
    r = rf.Ring(os.path.join(folder, 'x.ring'), rank=1, world=2, capacities=(16, 32), names_bytes=256, n_pending=2, **more)
    for pair in (r.head.first, r.head.last):
        pair.ticks = pair.monotonic_ns = 1000
        pair.realtime_ns = BASE
    r.head.start_time, r.head.pid, r.head.pid_namespace, r.head.boot_id = 7, 9, 11, b'boot'
    r.head.host, r.head.job = b'node', b'job'
    return r


def sound(folder):
    r = ring(folder)
    at = 1000
    for n in range(3):
        r.push(0, rf.LAUNCH, at + 100, 5, 0, 0, (n + 1) << 32)
        r.push(0, rf.KERNEL, BASE + at + 200, 900, r.name('ncclDevKernel_AllReduce'), 7, (n + 1) << 32 | 1)
        r.push(0, rf.COPY, BASE + at + 1200, 90, r.name('copy'), 7, 0)
        at = r.step(n, at, 50)
        r.push(1, rf.COUNTER, at - 5, 0, r.name('tokens'), value=struct.unpack('<Q', struct.pack('<d', 512))[0])
    r.push(1, rf.GAP, at, value=5, arg=1)
    r.slots[1].open[0] = rf.Record(at, 0, 1, rf.PHASE, 0, 1, 0)
    r.slots[1].depth = 1
    r.pending[0].id, r.pending[0].r = 3, rf.Record(at, 0, 1, rf.COLL, 0, 1, 9)
    return r


def cpu(folder):
    r = ring(folder)
    at = 1000
    for n in range(2):
        at = r.step(n, at, 50, wait=20)
    return r


def main():
    os.makedirs(os.path.join(HERE, 'corpus', 'ring'), exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        def put(name, make, change=None):
            r = make(folder)
            if change:
                change(r)
            data = bytes(r.map)
            r.close()
            with open(os.path.join(HERE, 'corpus', 'ring', name), 'wb') as f:
                f.write(data)

        put('sound', sound)
        put('cpu', cpu)
        changes = {
            'version': lambda r: setattr(r.head, 'major', 2), 'magic': lambda r: setattr(r.head, 'magic', b'x'),
            'slots': lambda r: setattr(r.head, 'slots_at', 1 << 40), 'tsc': lambda r: setattr(r.head, 'clock', 2),
            'names': lambda r: setattr(r.head, 'n_names', 60000), 'torn': lambda r: setattr(r.head, 'identity_seq', 3),
            'capacity': lambda r: setattr(r.slots[1], 'capacity', 48), 'far': lambda r: setattr(r.slots[1], 'head', 1 << 60),
            'depth': lambda r: setattr(r.slots[1], 'depth', 1 << 30), 'size': lambda r: setattr(r.head, 'file_bytes', 1 << 30),
        }
        for name, change in changes.items():
            put(name, sound, change)


if __name__ == '__main__':
    main()
