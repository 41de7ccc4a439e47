# SPDX-License-Identifier: Apache-2.0
"""Folders of evidence of a hang, of which a part is hurt, foreign or hostile: cases for run.py.

The job: four ranks, of which rank 2 is one all-reduce behind, so that ranks 0, 1 and 3 wait for it. Nearly all cases hurt
what rank 3 left. Whatever that is, rank 3 may not be blamed for it, and rank 2 is still found.
"""
import gzip
import io
import json
import os
import pickle
import random
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'gen'))
from hang_fr import Native  # noqa: E402

MIB = 1 << 20
EPOCH = 1_700_000_000_000_000_000
BEHIND = 2
NAME = 'nccl_trace_rank_{}'


def write(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as f:
        f.write(content.encode('utf-8', 'surrogateescape') if isinstance(content, str) else content)


# -- the job

def entry(seq, state='completed', size=64, record=None, group=('0', 'default_pg'), **more):
    done = state == 'completed'
    at = EPOCH + min(abs(seq), 10**9) * 10**9
    return {'frames': [{'name': 'step', 'filename': 'train.py', 'line': 7}], 'record_id': seq - 1 if record is None else record, 'pg_id': 0,
            'process_group': group, 'collective_seq_id': seq, 'p2p_seq_id': 0, 'op_id': seq, 'profiling_name': 'nccl:all_reduce', 'time_created_ns': at,
            'input_sizes': [[size]], 'input_dtypes': ['Float'], 'output_sizes': [[size]], 'output_dtypes': ['Float'], 'state': state,
            'time_discovered_started_ns': None, 'time_discovered_completed_ns': at + 10**8 if done else None, 'retired': done, 'timeout_ms': 600000,
            'is_p2p': False, **more}


def dump(rank, entries=None, version='2.10', members='[0, 1, 2, 3]'):
    if entries is None:
        entries = [entry(i) for i in range(1, 20)] + ([entry(20, 'scheduled')] if rank != BEHIND else [])
    done = [e['collective_seq_id'] for e in entries if e['state'] == 'completed']
    return {'version': version, 'pg_config': {'0': {'name': '0', 'desc': 'default_pg', 'ranks': members}}, 'comm_lib_version': '2.27.5',
            'pg_status': {'0': {'last_enqueued_collective': entries[-1]['collective_seq_id'], 'last_started_collective': -1,
                                'last_completed_collective': max(done, default=-1)}}, 'entries': entries}


def native(value):
    return Native().dump(value)


def put(folder, ranks=(0, 1, 2), **how):
    for r in ranks:
        write(os.path.join(folder, NAME.format(r)), native(dump(r, **how)))


def hurt(folder, content, name=NAME.format(3)):
    put(folder)
    write(os.path.join(folder, name), content)


def log():
    lines = [f'[rank{r}]:2023-11-14 22:13:{s:02} step {s}/100 loss 1.{s} step_time 1.0 s' for s in range(1, 20) for r in range(4)]
    lines += [f'[rank{r}]:[E1114 22:23:40.000000000 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=20, '
              'OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.' for r in (0, 1, 3)]
    return '\n'.join(lines) + '\n'


def power(gpus=range(4), columns=('index', 'timestamp', 'power.draw [W]', 'power.limit [W]', 'utilization.gpu [%]')):
    values = {'timestamp': '2023/11/14 22:20:{:02}.000', 'power.draw [W]': '90.00 W', 'power.limit [W]': '700.00 W', 'utilization.gpu [%]': '100 %'}
    rows = [', '.join(columns)]
    rows += [', '.join(str(g) if c == 'index' else values[c].format(t) for c in columns) for t in range(10) for g in gpus]
    return '\n'.join(rows) + '\n'


def cases(Want):
    """The cases, as run.py wants them: (short, long)."""

    def found(**how):  # rank 2 is behind, whatever was hurt
        return Want(**{'status': (1,), 'alive': (0, 1, 2), 'blames': {BEHIND}, 'says': (), **how})

    # -- pickles that are programs

    def programs_instead_of_dumps(base, folder):
        codes = {'GLOBAL': b'cos\nsystem\n', 'STACK_GLOBAL': b'\x8c\x02os\x8c\x06system\x93', 'INST': b'(ios\nsystem\n', 'OBJ': b'(o', 'REDUCE': b'NNR',
                 'BUILD': b'}}b', 'NEWOBJ': b'))\x81', 'NEWOBJ_EX': b'))}\x92', 'PERSID': b'Pabc\n', 'BINPERSID': b'NQ', 'EXT1': b'\x82\x01',
                 'EXT2': b'\x83\x01\0', 'EXT4': b'\x84\x01\0\0\0', 'NEXT_BUFFER': b'\x97', 'READONLY_BUFFER': b'\x98'}
        put(folder)
        for name, code in codes.items():
            write(os.path.join(folder, name, NAME.format(3)), b'\x80\x02' + code + b'.')
        return found(says=[f'{name} would' for name in codes], lines=len(codes))

    def program_behind_the_entries(base, folder):
        mark = os.path.join(folder, 'it-ran')
        code = b'cposix\nsystem\n' + b'X' + (6 + len(mark)).to_bytes(4, 'little') + b'touch ' + mark.encode() + b'\x85R.'
        hurt(folder, native(dump(3))[:-1] + code)
        return found(says=('GLOBAL would import code',), lines=1, absent=mark)

    # -- dumps that end too soon, lie or repeat themselves

    def dumps_of_eighty_seven_bytes(base, folder):
        hurt(folder, native(dump(3))[:87])
        return found(alive=(0, 1, 2, 3), says=(NAME.format(3),), lines=1)

    def nothing_but_dumps_of_eighty_seven_bytes(base, folder):
        for r in range(4):
            write(os.path.join(folder, NAME.format(r)), native(dump(r))[:87])
        return Want(status=(2,), alive=(0, 1, 2, 3), says=(), blames=set())

    def dump_that_holds_itself(base, folder):
        d = dump(3)
        d['self'] = d
        d['entries'].append(d['entries'])
        hurt(folder, pickle.dumps(d, protocol=4))
        return found(alive=(0, 1, 2, 3), lines=0)

    def lengths_of_four_gigabytes(base, folder):
        put(folder)
        for i, code in enumerate([b'X\xff\xff\xff\xff', b'\x8d' + b'\xff' * 8, b'\x8b\xff\xff\xff\x7f', b'\x96' + b'\xff' * 8, b'B\xff\xff\xff\xff',
                                  b'Nr\xff\xff\xff\xff', b'j\xff\xff\xff\xff', b'(' * 100000, b']' * 1000000, b'N' + b'\x85' * 1000000]):
            write(os.path.join(folder, str(i), NAME.format(3)), b'\x80\x02' + code)
        return found(lines=10)

    def lists_that_a_memo_repeats(base, folder):
        big = [1] * 100000
        hurt(folder, pickle.dumps(dump(3, [entry(i, input_sizes=[big] * 100) for i in range(1, 300)]), protocol=4))
        return Want(alive=(0, 1, 2, 3), status=(0, 1, 2), says=())

    def values_of_other_types(base, folder):
        dice, values = random.Random(3), [None, True, -1, 1.5, 'x', [], {}, (), [[]], {'a': 1}, 2**100, 'NaN', float('nan')]
        put(folder)
        for i in range(60):
            d = dump(3)
            for e in d['entries']:
                for k in e:
                    e[k] = dice.choice(values) if dice.random() < .3 else e[k]
            for k in d:
                d[k] = dice.choice(values) if dice.random() < .2 else d[k]
            write(os.path.join(folder, str(i), NAME.format(3)), pickle.dumps(d, protocol=dice.choice([2, 4, 5])))
        return Want(status=(0, 1, 2), alive=(0, 1, 2), says=(), lines=20, not_blamed={0, 1})

    def unreadable_dumps_are_no_absence(base, folder):
        """All who can be read wait alike: that the fourth dump cannot be read is no sign against its rank."""
        for i, content in enumerate((b'\x80\x02cos\nsystem\n.', b'', b'\x80\x02' + random.Random(1).randbytes(5000))):
            for r in range(3):
                write(os.path.join(folder, NAME.format(4 * i + r)), native(dump(4 * i + r, members=str(list(range(12))))))
            write(os.path.join(folder, NAME.format(4 * i + 3)), content)
        write(os.path.join(folder, NAME.format(BEHIND)), native(dump(3, members=str(list(range(12))))))  # not behind here
        return Want(status=(2,), alive=(0, 1, 2), says=[NAME.format(r) for r in (3, 7, 11)], blames=set())

    # -- versions, numbers, members

    def versions_from_the_future(base, folder):
        d = dump(3, version='9.9')
        d['new'] = {'deep': [[[[1.5, None, {'a': b'bytes'}]]]]}
        for e in d['entries']:
            e.update(extra={'x': [1, 2, {'y': (1, 2)}]}, shiny=2**100)
        hurt(folder, pickle.dumps(d, protocol=5))
        return found(alive=(0, 1, 2, 3), lines=0)

    def numbers_with_holes(base, folder):
        """At 2 two ranks differ and three have no entry: they are no side of it."""
        for r in range(5):
            entries = [entry(1, size=r + 1)] + ([entry(2, size=r + 1)] if r < 2 else []) + [entry(3)]
            write(os.path.join(folder, NAME.format(r)), native(dump(r, entries, members='[0, 1, 2, 3, 4]')))
        return Want(status=(1, 2), alive=range(5), says=(), not_blamed={2, 3, 4})

    def numbers_that_jump(base, folder):
        dice = random.Random(4)
        for r in range(4):
            entries = [entry(dice.choice([1, 5, 5, 3, 10**15, -7, 0, 2**63 - 1, -2**63, 100]), dice.choice(['scheduled', 'completed', 'x']),
                             size=dice.choice([1, -1, 2**62]), record=n) for n in range(200)]
            write(os.path.join(folder, NAME.format(r)), native(dump(r, entries)))
        return Want(status=(1, 2), alive=(0, 1, 2, 3), says=())

    def ranks_beyond_any_job(base, folder):
        put(folder, (0, 1, 2, 3))
        for name in (2**31, 2**63, 10**30):
            write(os.path.join(folder, NAME.format(name)), native(dump(3)))
        for name, rank in (('large', 10**9), ('low', -5), ('long', 2**63)):
            write(os.path.join(folder, name + '.json'), json.dumps({**dump(3), 'rank': rank}))
        return found(alive=(0, 1, 2, 3))

    def members_by_the_million_in_dumps(base, folder):
        for r in range(4):
            write(os.path.join(folder, NAME.format(r)), native(dump(r, members=str(list(range(1000000))))))
        return found(alive=(0, 1, 2, 3))

    def older_dump_of_one_rank(base, folder):
        put(folder, (0, 1, 2, 3))
        write(os.path.join(folder, 'old', NAME.format(3)), native(dump(3, [entry(i) for i in range(1, 6)])))
        return Want(status=(1, 2), alive=(0, 1, 2, 3), says=(), not_blamed={0, 1, 3})

    # -- texts

    def words_that_would_paint_the_terminal(base, folder):
        esc = '\x1b[31mRED\x1b[0m\x07\r\n\x9b2J\u202eevil'
        for r in range(4):
            entries = [entry(i, group=(esc, esc)) for i in range(1, 5)]
            if r != BEHIND:
                entries.append(entry(5, 'scheduled', group=(esc, esc), frames=[{'name': esc, 'filename': esc, 'line': 7}], input_dtypes=[esc]))
            write(os.path.join(folder, 'host1\x1b[2J', NAME.format(r)), native(dump(r, entries)))
        write(os.path.join(folder, 'train.log'), f'[rank2]: Traceback (most recent call last):\n[rank2]:   File "a\x1b[7m.py", line 3, in f\x1b[31m\n'
              '[rank2]: ValueError: \x1b]0;title\x07 \x9b31m bad\n')
        write(os.path.join(folder, 'stack.txt'), 'Process 77: python\x1b[31m train.py\nPython v3.10.0 (/usr/bin/python)\n\n'
              'Thread 77 (active): "Main\x1b[31mThread"\n    next\x1b[31m (loader\x07.py:33)\n    main (train.py:10)\n')
        write(os.path.join(folder, 'metrics.prom'), 'DCGM_FI_DEV_POWER_USAGE{gpu="0",Hostname="n\x1b[31m",modelName="\x9b"} 90\n')
        return Want(status=(1,), alive=(0, 1, 2, 3), says=())

    def log_with_zeros_and_endless_lines(base, folder):
        text = 'building the vocabulary, part of it\n' * 3000 + log().replace('\n', '\0\n')
        write(os.path.join(folder, 'train.log'), text + '\0' * MIB + '\n' + 'x' * (20 * MIB) + '\n' + '[rank3]: Traceback' + ' y' * MIB)
        return found(alive=(), lines=1)

    def binaries_called_log(base, folder):
        put(folder, (0, 1, 2, 3))
        for i, name in enumerate(('train.log', 'rank3.log', 'out.txt')):
            write(os.path.join(folder, name), random.Random(i).randbytes(MIB))
        return found(alive=(0, 1, 2, 3), lines=1)

    def columns_that_change_midway(base, folder):
        table = power() + power(columns=('timestamp', 'index', 'utilization.gpu [%]', 'power.draw [W]')) + 'garbage,,,\n1,2\n' + power()
        put(folder, (0, 1, 2, 3))
        write(os.path.join(folder, 'power.csv'), table)
        return found(alive=(0, 1, 2, 3), lines=1)

    def labels_by_the_hundred_thousand(base, folder):
        put(folder, (0, 1, 2, 3))
        write(os.path.join(folder, 'metrics.prom'), 'DCGM_FI_DEV_GPU_UTIL{' + ','.join(f'l{i}="v"' for i in range(100000)) + ',gpu="0"} 100\n'
              'DCGM_FI_DEV_GPU_UTIL{gpu="1"} 1e999\nDCGM_FI_DEV_GPU_UTIL{gpu="2} 5\n')
        return found(alive=(0, 1, 2, 3), lines=1)

    def nesting_of_every_kind(base, folder):
        put(folder, (0, 1, 2, 3))
        for i, head in enumerate(('', '{"entries": ', '{"version": "2.4", "pg_config": {}, "pg_status": ', '{"card0": ', '{"nccl_version": "2.28", "communicators": ',
                                  '{"time": "2024-01-01T00:00:00Z", "host": "a", "text": ', '[{"pid": 1, "thread_name": "x", "frames": ')):
            write(os.path.join(folder, f'n{i}.json'), head + '[' * 100000)
            write(os.path.join(folder, f'o{i}.json'), head + '{"a":' * 100000 + '1' + '}' * 100000)
        return found(alive=(0, 1, 2, 3), lines=14)

    def evidence_in_every_wrapping(base, folder):
        put(folder, (0, 1))
        write(os.path.join(folder, NAME.format(2) + '.gz'), gzip.compress(native(dump(2))))
        with tarfile.open(os.path.join(folder, 'more.tar.gz'), 'w:gz') as t:
            for name, data in ((NAME.format(3), native(dump(3))), ('../../train.log', log().encode()), ('p\x1b[7m.csv', power().encode())):
                info = tarfile.TarInfo(name)
                info.size = len(data)
                t.addfile(info, io.BytesIO(data))
        write(os.path.join(folder, 'rotten.log.gz'), gzip.compress(log().encode())[:200] + b'\xaa' * 300)
        return found(alive=(0, 1, 2, 3), says=('rotten.log.gz',), lines=1)

    # -- many

    def gpus_by_the_ten_thousand(base, folder):
        rows = [f'2023/11/14 22:20:00, n{i // 8}, {i % 8}, GPU-{i}, 90 W, 100 %' for i in range(40000)]
        write(os.path.join(folder, 'power.csv'), 'timestamp, hostname, index, uuid, power.draw [W], utilization.gpu [%]\n' + '\n'.join(rows) + '\n')
        return Want(status=(2,), alive=(), says=(), blames=set())

    def ranks_by_the_hundred_thousand_in_a_log(base, folder):
        write(os.path.join(folder, 'train.log'), ''.join(f'[rank{r}]: step 5/100 loss 1.0\n' for r in range(100000)))
        return Want(status=(0, 2), alive=(), says=(), blames=set(), memory=320 * MIB)

    def stacks_by_the_hundred_thousand(base, folder):
        write(os.path.join(folder, 'stacks.txt'), ''.join(
            f'Process {i}: python train.py\nPython v3.10.0 (/usr/bin/python3)\n\nThread {i} (idle): "MainThread"\n    fn{i % 977} (a{i}.py:{i})\n'
            '    all_reduce (torch/distributed/distributed_c10d.py:2501)\n    main (train.py:10)\n\n' for i in range(100000)))
        return Want(status=(1, 2), alive=(), says=(), memory=400 * MIB)

    short = [programs_instead_of_dumps, program_behind_the_entries, dumps_of_eighty_seven_bytes, nothing_but_dumps_of_eighty_seven_bytes,
             unreadable_dumps_are_no_absence, dump_that_holds_itself, lengths_of_four_gigabytes, lists_that_a_memo_repeats, values_of_other_types,
             versions_from_the_future, numbers_with_holes, numbers_that_jump, ranks_beyond_any_job, members_by_the_million_in_dumps,
             older_dump_of_one_rank, words_that_would_paint_the_terminal, log_with_zeros_and_endless_lines, binaries_called_log,
             columns_that_change_midway, labels_by_the_hundred_thousand, nesting_of_every_kind, evidence_in_every_wrapping]
    return short, [gpus_by_the_ten_thousand, ranks_by_the_hundred_thousand_in_a_log, stacks_by_the_hundred_thousand]
