#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seeds of fuzz_preflight: facts of nodes, sound and absurd, and the text of tools."""
import json
import os

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'corpus', 'preflight')


def part(first=0, **facts):
    return {'lockstep_preflight': 1, 'host': 'h', 'world_size': 8, 'first_rank': first, 'ranks_here': 4,
            'probes': [{'name': k, 'invariant': {'blocks': 'blocks', 'gpus': 'gpus', 'fabric': 'fabric', 'storage': 'storage', 'kernel-log': 'gpus', 'rendezvous': 'fabric',
                                                 'recoverable': 'recoverable'}.get(k, 'agreement'), 'state': 'done', 'facts': v}
                       for k, v in facts.items()]}


def sound(first, blocks, algo='Ring'):
    gpu = {'index': 0, 'uuid': 'GPU-0', 'model': 'X', 'memory_mib': 8, 'used_mib': 4000, 'busy_pct': 50, 'persistence': False,
           'ecc_uncorrected': 1, 'throttle': 64, 'remap_pending': True, 'processes': [{'pid': 1, 'name': 'x', 'used_mib': 5}]}
    return part(first,
                blocks={'given': True, 'runs': [{'first': first, 'blocks': blocks}], 'ranks': 4, 'unit': 'blocks', 'digest': 'a', 'remarks': ['odd']},
                environment={'items': {'environment': {'NCCL_ALGO': algo}, 'tuning': {}}},
                config={'items': {'config': {'f': '1', 'f: lr': algo}}},
                gpus={'source': 'nvml', 'gpus': [gpu], 'models': 2, 'items': {'gpus': {'count': '1'}}},
                **{'kernel-log': {'xids': [{'xid': 79, 'bus': 'b', 'age_s': 5}]}},
                fabric={'interfaces': [], 'rdma': [{'port': 'm/1', 'state': 'INIT', 'rate': '1'}], 'contradictions': [{'text': 't', 'hard': True}],
                        'items': {'mtu': {'eth0': str(first)}, 'speed': {}, 'rdma': {}}, 'clock_synchronized': False},
                rendezvous={'place': 'h:1', 'address': 'a', 'local': True, 'free': False, 'why': 'taken'},
                storage={'folder': '/c', 'writable': False, 'why': 'full', 'write_ms': 9, 'free_bytes': 5, 'free_inodes': 1, 'newest_bytes': 9,
                         'shm_free_mib': 1, 'open_files': 1, 'memlock_mib': 1, 'free_memory_mib': 1, 'free_cgroup_mib': 1,
                         'items': {'storage': {'/c': 'x'}}},
                recoverable={'save_steps': 0, 'watchdog_s': 5, 'recorder_entries': 0, 'recorder_off_by': 'X', 'save_how': 'no'})


def lines(*parts):
    return 'p' + '\n'.join(p if isinstance(p, str) else json.dumps(p, separators=(',', ':')) for p in parts)


big = 2 ** 63 - 1
SEEDS = {
    'two': lines(sound(0, [8, 8, 8, 8]), sound(4, [8, 8, 8, 24], 'Tree')),
    'three': lines(sound(0, [80] * 4), sound(4, [88] * 4, 'Tree'), sound(4, [80] * 4)),
    'presences': lines(sound(0, [8] * 4), '!', '?', '#', '{}', 'x', '[]'),
    'absurd_numbers': lines(part(big, blocks={'given': True, 'runs': [{'first': big, 'blocks': [big, -1]}, {'first': 0, 'blocks': [big, 0, big]}]},
                                 storage={'folder': 'f', 'free_bytes': -big, 'newest_bytes': big, 'write_ms': big}), part(-5)),
    'absurd_types': lines({'lockstep_preflight': 1, 'probes': [[], None, {'name': 5, 'state': {}}, {'name': 'blocks', 'facts': []},
                                                               {'name': 'gpus', 'facts': {'gpus': {'a': 1}, 'xids': 'x', 'models': 1.5}},
                                                               {'name': 'environment', 'facts': {'items': {'environment': [1], 'tuning': {'A': 5}}}}]},
                          {'lockstep_preflight': 1, 'probes': 'none', 'error': 'no room'}),
    'probes': lines({'lockstep_preflight': 1, 'probes': [{'name': 'gpus', 'invariant': 'gpus', 'state': 'late, killed', 'hangs': True, 'why': 'no answer'},
                                                         {'name': 'code', 'invariant': 'agreement', 'state': 'failed', 'why': 'x' * 300}]}),
    'long_words': lines(part(0, environment={'items': {'environment': {'A' * 300: 'b' * 900, 'C\u0007\u00e4': '\u00e4' * 99}}}), part(4)),
    'smi': 'sindex, uuid, name, memory.total [MiB], memory.used [MiB], utilization.gpu [%]\n0, GPU-0, NVIDIA H100, 81559 MiB, 4 MiB, [N/A]\n1, GPU-1\n',
    'smi_odd': 'sindex\n-1\n99999999999\n0,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,\nindex, clocks_throttle_reasons.active\n0, 0xffffffffffffffff\n',
    'apps': 'agpu_uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-0, 4711, python, 300 MiB\nGPU-0, -1, x, [N/A]\n',
    'rocm': 'r{"card0": {"Card series": "MI300X", "VRAM Total Memory (B)": "100000000000", "GPU use (%)": "0"}, "card999999999999": {}, "card1": []}',
    'xids': 'x<4>[12.5] NVRM: Xid (PCI:0000:3b:00): 79, pid=1\n<4>[x] NVRM: Xid (a): b\nNVRM: Xid (PCI): 48\n',
    'json': 'c{"a": {"b": [1, 2, {"c": 1e-4}], "token": "x"}, "d": null}',
    'yaml': 'ca:\n  b: 1\n  c:\n    d: 2\ne: 3 # x\n- f\n[sec]\nk=v\n' + ''.join('  ' * i + f'k{i}:\n' for i in range(20)),
}

if __name__ == '__main__':
    os.makedirs(HERE, exist_ok=True)
    for name, text in SEEDS.items():
        with open(os.path.join(HERE, name), 'wb') as f:
            f.write(text.encode())
