#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Flight Recorder dumps of a large NCCL job that hangs, for measuring: native pickles with stacks.

    bench/make_dumps.py FOLDER [--ranks 1024] [--entries 2000] [--late 77]

Every rank is in the default group, a tensor-parallel and a data-parallel one. One rank lacks its last call. Strings are
memoised by value and frames by identity, as torch::jit's pickler does; ranks of equal standing share the bytes of their
entries, so that a gigabyte takes seconds.
"""
import argparse
import os
import struct

TP = 8
START_NS = 1_750_000_000_000_000_000
TORCH = '/usr/local/lib/python3.12/dist-packages/torch/'
CALLS = [  # group, operation, elements in and out, type
    ('tp', '_all_gather_base', 524288, 524288 * TP, 'BFloat16', 'all_gather_into_tensor', 3994),
    ('tp', '_reduce_scatter_base', 4194304, 524288, 'BFloat16', 'reduce_scatter_tensor', 4475),
    ('tp', 'all_reduce', 8192, 8192, 'Float', 'all_reduce', 2810),
    ('dp', 'all_reduce', 33554432, 33554432, 'Float', 'all_reduce', 2810),
    ('dp', '_all_gather_base', 16777216, 268435456, 'BFloat16', 'all_gather_into_tensor', 3994),
]
OUTER = [('wrapper', TORCH + 'distributed/c10d_logger.py', 81), ('_call_impl', TORCH + 'nn/modules/module.py', 1762), ('_wrapped_call_impl', TORCH + 'nn/modules/module.py', 1751),
         ('checkpoint', TORCH + 'utils/checkpoint.py', 496), ('forward', '/workspace/model/block.py', 211), ('forward', '/workspace/model/transformer.py', 640),
         ('_call_impl', TORCH + 'nn/modules/module.py', 1773), ('forward_step', '/workspace/pretrain.py', 118), ('forward_backward', '/workspace/schedules.py', 402),
         ('train_step', '/workspace/training.py', 577), ('train', '/workspace/training.py', 902), ('pretrain', '/workspace/training.py', 301), ('<module>', '/workspace/pretrain.py', 201)]


class Pickler:
    """Opcodes of protocol 2; frames, the only containers that repeat, are memoised by identity."""

    def __init__(self, memo=None):
        self.out, self.memo = bytearray(), dict(memo or {})

    def put(self, key):
        i = self.memo[key] = len(self.memo)
        self.out += b'q' + bytes([i]) if i < 256 else b'r' + struct.pack('<I', i)

    def get(self, key):
        i = self.memo[key]
        self.out += b'h' + bytes([i]) if i < 256 else b'j' + struct.pack('<I', i)

    def text(self, s):
        if s in self.memo:
            return self.get(s)
        self.out += b'X' + struct.pack('<I', len(s)) + s.encode()
        return self.put(s)

    def value(self, v):
        if v is None or isinstance(v, bool):
            self.out += {None: b'N', True: b'\x88', False: b'\x89'}[v]
        elif isinstance(v, str):
            self.text(v)
        elif isinstance(v, float):
            self.out += b'G' + struct.pack('>d', v)
        elif isinstance(v, int):
            self.out += (b'K' + bytes([v]) if 0 <= v < 256 else b'M' + struct.pack('<H', v) if 0 <= v < 65536
                         else b'J' + struct.pack('<i', v) if -2**31 <= v < 2**31 else b'\x8a\x08' + struct.pack('<q', v))
        elif isinstance(v, tuple) and len(v) == 3:  # a frame
            if v in self.memo:
                return self.get(v)
            self.value({'name': v[0], 'filename': v[1], 'line': v[2]})
            self.put(v)
        elif isinstance(v, tuple):
            self.value(v[0])
            self.value(v[1])
            self.out += b'\x86'
        elif isinstance(v, dict):
            self.out += b'}('
            for k, x in v.items():
                self.text(k)
                self.value(x)
            self.out += b'u'
        else:
            self.out += b']('
            for x in v:
                self.value(x)
            self.out += b'e'


def header(rank, world, last):
    """All up to the entries, and the memo as it stands then."""
    tp, dp = rank // TP, rank % TP
    names = {'tp': str(1000 + tp), 'dp': str(5000 + dp)}
    members = {'0': range(world), names['tp']: range(tp * TP, tp * TP + TP), names['dp']: range(dp, world, TP)}
    desc = {'0': 'default_pg', names['tp']: 'tensor', names['dp']: 'data'}
    p = Pickler()
    p.out += b'\x80\x02}('
    for k, v in (('version', '2.10'), ('pg_config', {n: {'name': n, 'desc': desc[n], 'ranks': str(list(members[n]))} for n in members}), ('comm_lib_version', '2.27.5'),
                 ('pg_status', {str(i): {'last_enqueued_collective': n, 'last_started_collective': -1, 'last_completed_collective': max(n - 1, -1)}
                                for i, n in enumerate((-1, last['tp'], last['dp']))})):
        p.text(k)
        p.value(v)
    return p, names


def entries(first, memo, names, n, missing):
    """The entries of a rank whose strings were given ids by `memo`; the last call is the one that hangs."""
    p = Pickler(memo)
    seq, ns = {'tp': first, 'dp': first}, START_NS
    p.text('entries')
    p.out += b']('
    for i in range(n - missing):
        group, op, ins, outs, dtype, call, line = CALLS[i % len(CALLS)]
        seq[group] += 1
        ns += 1_700_000 + 977 * (i % 13)
        done = i < n - 1
        layer = i // len(CALLS) % 24
        frames = [(call, TORCH + 'distributed/distributed_c10d.py', line), *OUTER[:4], ('forward', f'/workspace/model/layer_{layer}.py', 88 + layer), *OUTER[4:]]
        p.value({'frames': frames, 'record_id': first + i, 'pg_id': 1 if group == 'tp' else 2, 'process_group': (names[group], 'tensor' if group == 'tp' else 'data'),
                 'thread_name': 'pt_main_thread', 'thread_id': '139876543210432', 'collective_seq_id': seq[group], 'p2p_seq_id': 0, 'op_id': first + i,
                 'profiling_name': 'nccl:' + op, 'time_created_ns': ns, 'input_sizes': [[ins]], 'input_dtypes': [dtype], 'output_sizes': [[outs]], 'output_dtypes': [dtype],
                 'state': 'completed' if done else 'scheduled', 'time_discovered_started_ns': None, 'time_discovered_completed_ns': ns + 912_345 if done else None,
                 'retired': done, 'timeout_ms': 600000, 'is_p2p': False})
    p.out += b'eu'
    p.put(None)
    p.out += b'.'
    return bytes(p.out), seq


def main():
    a = argparse.ArgumentParser()
    a.add_argument('folder')
    a.add_argument('--ranks', type=int, default=1024)
    a.add_argument('--entries', type=int, default=2000)
    a.add_argument('--late', type=int, default=77)
    a = a.parse_args()
    os.makedirs(a.folder, exist_ok=True)
    bodies, first = {}, 41_000
    for rank in range(a.ranks):
        late = rank == a.late % a.ranks
        last = {g: first + sum(CALLS[i % len(CALLS)][0] == g for i in range(a.entries - late)) for g in ('tp', 'dp')}
        p, names = header(rank, a.ranks, last)
        if late not in bodies:
            bodies[late] = entries(first, p.memo, names, a.entries, late)[0]
        with open(os.path.join(a.folder, f'nccl_trace_rank_{rank}'), 'wb') as f:
            f.write(bytes(p.out) + bodies[late])


if __name__ == '__main__':
    main()
