#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes recordings as Nsight Systems exports them to SQLite, of a small data-parallel job with a known slow GPU.

Usage: make_nsys.py --out DIR [--seed N] [--gpus N] [--files N] [--steps N] [--slow N] [--factor X] [--ranges step|loop|named|ops|none]
                    [--schema new|old] [--nccl]

--files: machines, a file each; --gpus: GPUs of each, a process each. --slow: the GPU, counted over all files, that computes
slower (-1: none). --nccl: with the ranges that NCCL makes itself, and their payloads. --ranges: what NVTX shows: a range a step, the parts of a step only, ranges of
a domain "trainer" called "batch 7" around a dozen parts, all in one "epoch", operators only, or nothing.
"""
import argparse
import os
import random
import sqlite3
import struct

KERNELS = ('void gemm<float>(float*, float*)', 'void norm<float>(float*)', 'void add<float>(float*)')
REDUCE = 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096>)'
TABLES = {
    'StringIds': 'id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL',
    'TARGET_INFO_GPU': 'vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT',
    'TARGET_INFO_SYSTEM_ENV': 'globalVid INTEGER, devStateName TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL',
    'TARGET_INFO_SESSION_START_TIME': 'utcEpochNs INTEGER, utcTime TEXT',
    'META_DATA_CAPTURE': 'name TEXT NOT NULL, value TEXT',
    'CUPTI_ACTIVITY_KIND_KERNEL': 'start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, contextId INTEGER NOT NULL, '
                                  'streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL, '
                                  'shortName INTEGER NOT NULL',
    'CUPTI_ACTIVITY_KIND_MEMCPY': 'start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, streamId INTEGER NOT NULL, '
                                  'correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL',
    'CUPTI_ACTIVITY_KIND_RUNTIME': 'start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, '
                                   'correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL',
    'NVTX_EVENTS': 'start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, globalTid INTEGER, textId INTEGER, domainId INTEGER, '
                   'binaryData BLOB',
    'NVTX_PAYLOAD_SCHEMA_ENTRIES': 'domainId INTEGER NOT NULL, schemaId INTEGER NOT NULL, idx INTEGER NOT NULL, flags INTEGER, type INTEGER, name TEXT, '
                                   'description TEXT, arrayOrUnionDetail INTEGER, offset INTEGER',
}


COMM, BYTES = 0x1234_5678_9abc_def0, 26_214_400
# Payloads of NCCL's ranges: schema, [(type, name)]; 18 and 22 are 8 bytes wide, 5 is 4.
SCHEMAS = {'init': (0x1000002, [(18, 'NCCL communicator ID'), (5, 'No. of ranks'), (5, 'Rank'), (5, 'CUDA device')]),
           'call': (0x1000004, [(18, 'NCCL communicator ID'), (22, 'Message size [bytes]')]),
           'pair': (0x1000009, [(18, 'NCCL communicator ID'), (22, 'Message size [bytes]'), (5, 'Peer rank')])}
WIDTH = {5: 4, 18: 8, 22: 8}


def payload(kind, *values):
    schema, fields = SCHEMAS[kind]
    body = b''.join(v.to_bytes(WIDTH[t], 'little') for v, (t, _) in zip(values, fields))
    body += bytes(-len(body) % 8)
    return struct.pack('<IIIIQQ', 1, 0, schema, 0, len(body), 32 + len(body)) + body


class Recording:
    """One file."""

    def __init__(self, path):
        if os.path.exists(path):
            os.remove(path)
        self.db, self.ids = sqlite3.connect(path), {}
        for name, columns in TABLES.items():
            self.db.execute(f'CREATE TABLE {name} ({columns})')

    def put(self, table, *values):
        self.db.execute(f'INSERT INTO {table} VALUES ({",".join("?" * len(values))})', values)

    def text(self, value):
        if value not in self.ids:
            self.ids[value] = len(self.ids) + 1
            self.put('StringIds', self.ids[value], value)
        return self.ids[value]

    def close(self):
        self.db.commit()
        self.db.close()


def timelines(a):
    """Per step and GPU: [(name, start, end, launched)] in ns, and the step's (start, end)."""
    dice, n = random.Random(a.seed), a.gpus * a.files
    now, out = [10_000_000] * n, []
    for step in range(a.steps):
        rows, arrived, ends = [], [], []
        begin = list(now)
        for g in range(n):
            t, row = now[g], []
            for i in range(30):
                length = int(dice.gauss(1, .02) * (400_000 if i % 3 == 0 else 60_000) * (a.factor if g == a.slow else 1))
                row.append((KERNELS[i % 3], t, t + length, t - 30_000))
                t += length + 1500
            arrived.append(t)
            rows.append(row)
        done = max(arrived) + 900_000
        for g in range(n):
            end = done + dice.randrange(3000)
            rows[g].append((REDUCE, arrived[g], end, arrived[g] - 30_000))
            rows[g].append((KERNELS[2], end + 2000, end + 302_000, end - 20_000))
            ends.append(end + 400_000)
            now[g] = end + 410_000
        out.append((step, rows, begin, ends))
    return out


def nccl_calls(r, a, thread, launched):
    """An all-reduce; every other time within a group, which launches at its end."""
    if launched // 1000 % 2:
        r.put('NVTX_EVENTS', launched - 1000, launched + 6000, 59, None, thread, r.text('ncclAllReduce'), 1, payload('call', COMM, BYTES))
        return
    r.put('NVTX_EVENTS', launched - 9000, launched - 8000, 59, None, thread, r.text('ncclGroupStart'), 1, None)
    r.put('NVTX_EVENTS', launched - 7000, launched - 3000, 59, None, thread, r.text('ncclAllReduce'), 1, payload('call', COMM, BYTES))
    r.put('NVTX_EVENTS', launched - 2000, launched + 6000, 59, None, thread, r.text('ncclGroupEnd'), 1, None)


def write(a):
    os.makedirs(a.out, exist_ok=True)
    steps = timelines(a)
    for f in range(a.files):
        r = Recording(os.path.join(a.out, f'node{f}.sqlite'))
        r.put('TARGET_INFO_SYSTEM_ENV', 0, 'Hostname', 'Hostname', f'node{f}')
        r.put('TARGET_INFO_SESSION_START_TIME', 1_700_000_000_000_000_000, '')
        correlation = 0
        for schema, fields in SCHEMAS.values():
            at = 0
            for k, (t, name) in enumerate(fields):
                r.put('NVTX_PAYLOAD_SCHEMA_ENTRIES', 1, schema, k, None, t, name, None, None, at or None)
                at += WIDTH[t]
        for i in range(a.gpus):
            r.put('TARGET_INFO_GPU', 0, i, 'NVIDIA H100 80GB HBM3')
            pid = (1000 + i) << 24
            thread = pid | 1000 + i
            if a.ranges == 'named':
                r.put('NVTX_EVENTS', 0, None, 75, 'trainer', thread, None, 3, None)
                r.put('NVTX_EVENTS', 0, steps[-1][3][i] + 10**6, 59, 'epoch', thread, None, 0, None)
            if a.nccl:
                r.put('NVTX_EVENTS', 1000, None, 75, 'NCCL', thread, None, 1, None)
                r.put('NVTX_EVENTS', 2000, 5000, 59, None, thread, r.text('ncclCommInitRank'), 1, payload('init', COMM, a.gpus * a.files, f * a.gpus + i, i))
            for number, rows, begin, ends in steps:
                g = f * a.gpus + i
                for name, start, end, launched in rows[g]:
                    correlation += 1
                    if a.nccl and name == REDUCE:
                        nccl_calls(r, a, thread, launched)
                    stream = 20 if name == REDUCE else 7
                    r.put('CUPTI_ACTIVITY_KIND_KERNEL', start, end, i, 1, stream, correlation, pid, r.text(name), r.text(name.split('(')[0].split('<')[0]))
                    r.put('CUPTI_ACTIVITY_KIND_RUNTIME', launched, launched + 5000, 0, thread, correlation, r.text('cudaLaunchKernel_v7000'), 0)
                spans = {'step': [(f'step {number}', 0, 1)], 'loop': [('forward', 0, .4), ('backward', .4, .9), ('optimizer', .9, 1)],
                         'ops': [(f'aten::add, op_id = {k}', k / 20, (k + 1) / 20) for k in range(20)], 'none': [],
                         'named': [(f'part {"abcdefghijkl"[k]}', k / 12, (k + 1) / 12) for k in range(12)] + [(f'batch {number}', 0, 1)]}[a.ranges]
                whole = ends[g] - begin[g]
                for k, (name, x, y) in enumerate(spans):
                    start, end = begin[g] - 40_000 + int(x * whole), begin[g] - 40_000 + int(y * whole)
                    own = k % 2 == 0
                    r.put('NVTX_EVENTS', start, end, 59, name if own else None, thread, None if own else r.text(name), 3 if name.startswith('batch') else 0, None)
        if a.schema == 'old':  # what some versions lack
            r.db.execute('DROP TABLE TARGET_INFO_GPU')
            r.db.execute('DROP TABLE META_DATA_CAPTURE')
            r.db.execute('ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN contextId')
        r.close()


def main(argv=None):
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--out', required=True)
    for name, value in (('seed', 1), ('gpus', 4), ('files', 1), ('steps', 6), ('slow', -1)):
        p.add_argument('--' + name, type=int, default=value)
    p.add_argument('--factor', type=float, default=1.5)
    p.add_argument('--ranges', default='step', choices=('step', 'loop', 'named', 'ops', 'none'))
    p.add_argument('--nccl', action='store_true')
    p.add_argument('--schema', default='new', choices=('new', 'old'))
    write(p.parse_args(argv))


if __name__ == '__main__':
    main()
