#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad inputs of every kind that the field and an adversary know, and what lockstep makes of them.

    tests/bad/run.py [--lockstep build/lockstep] [--long] [--keep DIR] [NAME...]

Each case is a function that fills a folder, mostly with a small healthy job of four ranks in which the file of rank 3
is hurt. Asserted of every case: no crash, no hang, exit 0, 1 or 2, JSON on stdout, memory in bounds, few lines on
stderr and no control characters in them; where a file is hurt, a line that names it; and that the other ranks are
still diagnosed. The cases of evidence.py are of a hang: there, who may be blamed as well, no control characters in the
text for people, and the same bytes from a second run. --long adds what writes gigabytes. Standard library only.
"""
import argparse
import gzip
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

import evidence

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MIB = 1 << 20


LESS = 1  # of what comes by the thousand, where a sanitizer watches: there every step is looked at, and costs


def many(n):
    return n // LESS


class Want:
    """What must hold; the defaults are those of a job of which one file is hurt."""

    def __init__(self, status=(0, 1), alive=(0, 1, 2), says=('rank3',), memory=160 * MIB, seconds=20, files=None, lines=6, setup=None,
                 user=None, not_alive=(), same=False, missing=None, blames=None, not_blamed=(), absent=None):
        self.status, self.alive, self.says, self.memory, self.seconds = status, alive, says, memory, seconds
        self.files, self.lines, self.setup, self.user, self.not_alive, self.same = files, lines, setup, user, not_alive, same
        self.missing = missing  # ranks_missing of the answer
        self.blames, self.not_blamed = blames, not_blamed  # exactly these ranks; none of these
        self.absent = absent  # a path that a program in the input would have made


class Base:
    """The healthy job: one text a rank."""

    def __init__(self, folder):
        self.folder = os.path.join(folder, 'base')
        subprocess.run([sys.executable, os.path.join(ROOT, 'tests', 'gen', 'make_job.py'), '--out', self.folder, '--seed', '5', '--dp', '4', '--steps', '8',
                        '--quirk', 'uncompressed', 'no-flows'], check=True, stdout=subprocess.DEVNULL)
        os.remove(os.path.join(self.folder, 'answer.json'))
        self.text = {}
        for name in os.listdir(self.folder):
            with open(os.path.join(self.folder, name), encoding='utf-8') as f:
                text = f.read()
            self.text[json.loads(text)['distributedInfo']['rank']] = text

    def put(self, folder, ranks=(0, 1, 2)):
        for r in ranks:
            write(os.path.join(folder, f'rank{r}.json'), self.text[r])


def write(path, content):
    with open(path, 'wb') as f:
        f.write(content.encode('utf-8', 'surrogateescape') if isinstance(content, str) else content)


def hurt(base, folder, content, name='rank3.json'):
    base.put(folder)
    write(os.path.join(folder, name), content)


def with_event(base, event):
    """Rank 3's trace with one more event in the middle, as raw text."""
    text = base.text[3]
    at = text.index('\n', len(text) // 2)
    return text[:at + 1] + event + ',\n' + text[at + 1:]


def kernel_event(**how):
    e = {'ph': '"X"', 'cat': '"kernel"', 'name': '"odd"', 'pid': '3', 'tid': '7', 'ts': '1.0', 'dur': '2.0', 'args': '{"stream": 7, "correlation": 1}', **how}
    return '{' + ', '.join(f'"{k}": {v}' for k, v in e.items()) + '}'


# -- files that end too soon or rot

def truncated_json(base, folder):
    hurt(base, folder, base.text[3][:len(base.text[3]) * 7 // 10])
    return Want(alive=(0, 1, 2, 3))


def truncated_gzip(base, folder):
    data = gzip.compress(base.text[3].encode())
    hurt(base, folder, data[:len(data) * 7 // 10], 'rank3.json.gz')
    return Want(alive=(0, 1, 2, 3))


def truncated_in_the_head(base, folder):
    hurt(base, folder, base.text[3][:40])
    return Want()


def rotten_gzip(base, folder):
    data = bytearray(gzip.compress(base.text[3].encode()))
    for i in range(len(data) // 2, len(data) // 2 + 64):
        data[i] ^= 0x5a
    hurt(base, folder, bytes(data), 'rank3.json.gz')
    return Want()


def gzip_with_a_wrong_checksum(base, folder):
    data = bytearray(gzip.compress(base.text[3].encode()))
    data[-6] ^= 0xff
    hurt(base, folder, bytes(data), 'rank3.json.gz')
    return Want(says=())


def garbage_behind_the_trace(base, folder):
    hurt(base, folder, base.text[3] + '\0' * 1000 + 'more')
    return Want(alive=(0, 1, 2, 3), says=())


# -- numbers, strings, nesting

def numbers_beyond_64_bits(base, folder):
    odd = [kernel_event(ts='1e400'), kernel_event(dur='9' * 400), kernel_event(ts='-9223372036854775809'), kernel_event(dur='1e-400'),
           kernel_event(args='{"stream": 99999999999999999999999, "correlation": 184467440737095516160}'), kernel_event(ts='-0.0'),
           kernel_event(ts='123456789012345678901234567890.5', dur='-1'), kernel_event(dur='9223372036854775807')]
    hurt(base, folder, with_event(base, ',\n'.join(odd)))
    return Want(alive=(0, 1, 2, 3), says=())


def bare_inf_nan_and_strings_for_numbers(base, folder):
    odd = [kernel_event(dur='inf'), kernel_event(ts='NaN'), kernel_event(ts='-Infinity'), kernel_event(ts='"12.5"'), kernel_event(dur='null'), kernel_event(args='inf')]
    hurt(base, folder, with_event(base, ',\n'.join(odd)))
    return Want(alive=(0, 1, 2, 3), says=())


def broken_text(base, folder):
    odd = [kernel_event(name='"C:\\Users\\x"'), kernel_event(name='"tab\there\x01\x02"'), kernel_event(name='"\udcff\udcfe\udc80"'), kernel_event(name='"\\ud800 alone \\u12"')]
    hurt(base, folder, with_event(base, ',\n'.join(odd)))
    return Want(alive=(0, 1, 2, 3), says=())


def nesting_bomb_in_args(base, folder):
    hurt(base, folder, with_event(base, kernel_event(args='{"a": ' + '[' * 2000000 + ']' * 2000000 + '}')))
    return Want(says=())


def nesting_bomb_alone(base, folder):
    hurt(base, folder, '{"traceEvents": ' + '[' * 5000000)
    return Want()


def unsorted_events(base, folder):
    base.put(folder, (0, 1, 2))
    head, body = base.text[3].split('[\n', 1)
    body, tail = body.rsplit('\n]', 1)
    lines = body.split(',\n')
    random.Random(1).shuffle(lines)
    write(os.path.join(folder, 'rank3.json'), head + '[\n' + ',\n'.join(lines) + '\n]' + tail)
    return Want(alive=(0, 1, 2, 3), says=(), same=True)


def a_million_names(base, folder):
    hurt(base, folder, with_event(base, ',\n'.join(kernel_event(name=f'"kernel_{i}"', ts=str(i)) for i in range(many(300000)))))
    return Want(alive=(0, 1, 2), says=(), memory=400 * MIB)


def a_hundred_thousand_step_marks(base, folder):
    marks = ',\n'.join(kernel_event(cat='"user_annotation"', name=f'"ProfilerStep#{i}"', ts=str(1000 * i), dur='900') for i in range(many(100000)))
    hurt(base, folder, with_event(base, marks))
    return Want(alive=(0, 1, 2), says=(), memory=400 * MIB)


def absurd_job_description(base, folder):
    text = base.text[3].replace('"world_size": 4', '"world_size": 4000000000').replace('"rank": 3,', '"rank": 99999999999,')
    hurt(base, folder, text)
    return Want(says=(), lines=10)


def members_by_the_million(base, folder):
    text = base.text[3].replace('"ranks": [0, 1, 2, 3]', '"ranks": [' + ', '.join(map(str, range(1000000))) + ']', 1)
    hurt(base, folder, text)
    return Want(says=(), memory=300 * MIB)


def mark_event(number, ts, dur):
    return kernel_event(cat='"user_annotation"', name=f'"ProfilerStep#{number}"', ts=str(ts), dur=str(dur), args='{}')


def trace_of(rank, world, events):
    return (f'{{"schemaVersion": 1, "distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": {world}}}, "traceEvents": [\n' + ',\n'.join(events) + '\n]}')


def a_world_of_a_billion(base, folder):
    for r in range(4):
        write(os.path.join(folder, f'rank{r}.json'), base.text[r].replace('"world_size": 4', '"world_size": 1000000000'))
    return Want(alive=(0, 1, 2, 3), says=(), missing='4-999999999')


def a_rank_beyond_the_world(base, folder):
    hurt(base, folder, base.text[3].replace('"rank": 3,', '"rank": 9223372036854775807,'))
    return Want(alive=(0, 1, 2, 3), says=(), missing='')  # by its file's name


def threads_and_devices_by_the_hundred_thousand(base, folder):
    odd = [kernel_event(ts=str(i), tid=str(i), args=f'{{"stream": {i}, "device": {i % 90000}, "correlation": {i}}}') for i in range(100000)]
    odd += [kernel_event(cat='"cpu_op"', ts=str(i), tid=str(i), args='{}') for i in range(100000)]
    hurt(base, folder, with_event(base, ',\n'.join(odd)))
    return Want(says=(), memory=400 * MIB)


def groups_by_the_hundred_thousand(base, folder):
    for r in range(2):
        events = [mark_event(1, 10, 2000000)]
        events += [kernel_event(name='"ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)"', ts=str(20 + 10 * i), dur='5',
                                args=f'{{"stream": 7, "correlation": {i}, "Collective name": "allreduce", "Process Group Name": "g{i}", "Group size": 2}}')
                   for i in range(many(100000))]
        write(os.path.join(folder, f'rank{r}.json'), trace_of(r, 2, events))
    return Want(alive=(0, 1), says=(), memory=400 * MIB)


def everything_overlaps(base, folder):
    """Marks, ranges, launches and kernels of random times and lengths, out of order."""
    dice = random.Random(3)
    for r in range(2):
        def any_event(**how):
            return kernel_event(ts=str(dice.randrange(100000)), dur=str(dice.randrange(200000)), **how)
        events = [mark_event(s, 1000 + 1000 * s, 100000) for s in range(100)]
        for i in range(10000):
            events.append(any_event(args=f'{{"stream": {dice.randrange(9)}, "correlation": {dice.randrange(50)}}}'))
            events.append(any_event(cat='"user_annotation"', name=f'"part {i % 50}"', args='{}'))
            events.append(any_event(cat='"cuda_runtime"', name='"cudaLaunchKernel"', args=f'{{"correlation": {dice.randrange(50)}}}'))
        dice.shuffle(events)
        write(os.path.join(folder, f'rank{r}.json'), trace_of(r, 2, events))
    return Want(alive=(0, 1), says=())


# -- the same trace, written in other ways: nothing may change

def indented(base, folder):
    hurt(base, folder, json.dumps(json.loads(base.text[3]), indent=2))
    return Want(alive=(0, 1, 2, 3), says=(), same=True)


def without_a_space(base, folder):
    hurt(base, folder, json.dumps(json.loads(base.text[3]), separators=(',', ':')))
    return Want(alive=(0, 1, 2, 3), says=(), same=True)


def keys_in_reverse_order(base, folder):
    trace = json.loads(base.text[3])
    trace['traceEvents'] = [dict(reversed({**e, 'args': dict(reversed(e.get('args', {}).items()))}.items())) for e in trace['traceEvents']]
    hurt(base, folder, json.dumps(dict(reversed(trace.items()))))
    return Want(alive=(0, 1, 2, 3), says=(), same=True)


def windows_line_ends_and_a_byte_order_mark(base, folder):
    hurt(base, folder, '\ufeff' + base.text[3].replace('\n', '\r\n'))
    return Want(alive=(0, 1, 2, 3), says=(), same=True)


def escaped_text(base, folder):
    """A letter of each step mark's name as an escape."""
    hurt(base, folder, base.text[3].replace('ProfilerStep#', 'Profiler\\u0053tep#'))
    return Want(alive=(0, 1, 2, 3), says=(), same=True)


def numbers_with_exponents(base, folder):
    text = re.sub(r'"(ts|dur)": (\d+)\.(\d{3})', lambda m: f'"{m.group(1)}": {m.group(2)}{m.group(3)}e-3', base.text[3])
    hurt(base, folder, text)
    return Want(alive=(0, 1, 2, 3), says=(), same=True)


def members_nobody_knows(base, folder):
    odd = ',\n'.join(['{"ph": "Z"}', '{}', '{"ph": "C", "name": "counter", "ts": 1.0, "args": {"a": [1, {"b": [null, true, "x"]}]}}', '[]', 'null', '17', '"text"'])
    text = with_event(base, odd).replace('"schemaVersion": 1', '"schemaVersion": 99, "new": {"traceEvents": [1, 2], "deep": [[[[]]]]}')
    hurt(base, folder, text)
    return Want(alive=(0, 1, 2, 3), says=(), same=True)


def gzip_in_many_members(base, folder):
    data = base.text[3].encode()
    hurt(base, folder, b''.join(gzip.compress(data[i:i + 5000]) for i in range(0, len(data), 5000)), 'rank3.json.gz')
    return Want(alive=(0, 1, 2, 3), says=(), same=True)


def stored_without_compression(base, folder):
    hurt(base, folder, gzip.compress(base.text[3].encode(), 0), 'rank3.json.gz')
    return Want(alive=(0, 1, 2, 3), says=(), same=True)


def zip_archive(base, folder):
    with zipfile.ZipFile(os.path.join(folder, 'job.zip'), 'w', zipfile.ZIP_DEFLATED) as z:
        for r in range(4):
            z.writestr(f'run/rank{r}.json', base.text[r])
    return Want(alive=(0, 1, 2, 3), says=(), same=True)


def packed_members_of_an_archive(base, folder):
    with tarfile.open(os.path.join(folder, 'job.tar'), 'w') as t:
        for r in range(4):
            data = gzip.compress(base.text[r].encode())
            info = tarfile.TarInfo(f'run/rank{r}.json.gz')
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    return Want(alive=(0, 1, 2, 3), says=(), same=True)


def names_that_lie(base, folder):
    """The kind is told from the content: gzip called .json, JSON called .gz, no ending at all."""
    write(os.path.join(folder, 'rank0.json'), gzip.compress(base.text[0].encode()))
    write(os.path.join(folder, 'rank1.json.gz'), base.text[1])
    write(os.path.join(folder, 'rank9_of_another_day.txt'), base.text[2])
    write(os.path.join(folder, 'x'), base.text[3])
    return Want(alive=(0, 1, 2, 3), says=(), same=True)


# -- files that are something else

def empty_file(base, folder):
    hurt(base, folder, '')
    return Want()


def binary_file(base, folder):
    hurt(base, folder, random.Random(3).randbytes(300000))
    return Want()


def program_file(base, folder):
    base.put(folder)
    shutil.copy(sys.executable if not os.path.islink(sys.executable) else os.path.realpath(sys.executable), os.path.join(folder, 'rank3.json'))
    return Want()


def only_unrelated_files(base, folder):
    for i in range(30):
        write(os.path.join(folder, f'note{i}.txt'), f'nothing of interest, number {i}\n' * 20)
    write(os.path.join(folder, 'table.json'), '{"rows": [1, 2, 3]}')
    write(os.path.join(folder, 'list.json'), '[1, 2, {"a": "b"}]')
    return Want(status=(2,), alive=(), says=(), lines=40)


def unrelated_files_beside(base, folder):
    base.put(folder, (0, 1, 2, 3))
    for i in range(10):
        write(os.path.join(folder, f'note{i}.txt'), 'nothing\n')
    return Want(alive=(0, 1, 2, 3), says=(), lines=14)


def empty_folder(base, folder):
    return Want(status=(2,), alive=(), says=())


def trace_without_events(base, folder):
    hurt(base, folder, '{"schemaVersion": 1, "distributedInfo": {"rank": 3, "world_size": 4}, "traceEvents": []}')
    return Want(says=(), not_alive=())


def events_that_are_no_list(base, folder):
    hurt(base, folder, '{"schemaVersion": 1, "traceEvents": {"ph": "X"}}')
    return Want(lines=1)


def nothing_there(base, folder):
    return Want(status=(2,), alive=(), says=('gone.json',), files=['gone.json'])


# -- the file system

def fifo(base, folder):
    base.put(folder)
    os.mkfifo(os.path.join(folder, 'rank3.json'))
    return Want(says=())


def fifo_by_name(base, folder):
    os.mkfifo(os.path.join(folder, 'rank3.json'))
    return Want(status=(2,), alive=(), files=['rank3.json'])


def link_to_a_device(base, folder):
    base.put(folder)
    os.symlink('/dev/zero', os.path.join(folder, 'rank3.json'))
    return Want(says=())


def device_by_name(base, folder):
    return Want(status=(2,), alive=(), says=('/dev/zero',), files=['/dev/zero'])


def links_in_a_circle(base, folder):
    base.put(folder, (0, 1, 2, 3))
    os.symlink('.', os.path.join(folder, 'again'))
    os.symlink('..', os.path.join(folder, 'up'))
    os.symlink('b', os.path.join(folder, 'a'))
    os.symlink('a', os.path.join(folder, 'b'))
    return Want(alive=(0, 1, 2, 3), says=())


def deep_folders(base, folder):
    base.put(folder, (0, 1, 2))
    deep = os.path.join(folder, *(['d'] * 150))
    os.makedirs(deep)
    return Want(says=())


def unreadable_file(base, folder):
    base.put(folder, (0, 1, 2, 3))
    os.chmod(os.path.join(folder, 'rank3.json'), 0)
    return Want(user=65534 if os.geteuid() == 0 else None)


def names_that_would_paint_the_terminal(base, folder):
    base.put(folder)
    write(os.path.join(folder, 'rank3\x1b[2J\nfault: rank 1.json'), base.text[3][:2000])
    return Want(says=())


def two_files_of_one_rank(base, folder):
    base.put(folder, (0, 1, 2, 3))
    write(os.path.join(folder, 'rank3_again.json'), base.text[3])
    return Want(alive=(0, 1, 2, 3), says=('rank3',))


def two_jobs_mixed(base, folder):
    base.put(folder, (0, 1, 2, 3))
    other = os.path.join(folder, 'other')
    subprocess.run([sys.executable, os.path.join(ROOT, 'tests', 'gen', 'make_job.py'), '--out', other, '--seed', '6', '--dp', '2', '--steps', '6',
                    '--quirk', 'uncompressed', 'no-flows'], check=True, stdout=subprocess.DEVNULL)
    os.remove(os.path.join(other, 'answer.json'))
    return Want(status=(0, 1, 2), alive=(), says=(), lines=10)


def two_jobs_of_the_same_size(base, folder):
    base.put(folder, (0, 1, 2, 3))
    other = os.path.join(folder, 'yesterday')
    subprocess.run([sys.executable, os.path.join(ROOT, 'tests', 'gen', 'make_job.py'), '--out', other, '--seed', '7', '--dp', '4', '--steps', '6',
                    '--quirk', 'uncompressed', 'no-flows'], check=True, stdout=subprocess.DEVNULL)
    os.remove(os.path.join(other, 'answer.json'))
    return Want(status=(0, 1, 2), alive=(), says=('yesterday',), lines=10)


def many_small_files(base, folder):
    """12,960 of them with 1,024 descriptors."""
    n = many(12960)
    for r in range(n):
        mark = kernel_event(cat='"user_annotation"', name='"ProfilerStep#1"', ts='10.0', dur='900.0', args='{}')
        write(os.path.join(folder, f'rank{r}.json'),
              f'{{"schemaVersion": 1, "distributedInfo": {{"backend": "nccl", "rank": {r}, "world_size": {n}}}, "traceEvents": [{mark}, {kernel_event(ts="20.0")}]}}')
    return Want(alive=range(n), says=(), memory=64 * MIB + n * MIB // 8, seconds=60,
                setup=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024)))


# -- archives

def archive_with_odd_members(base, folder):
    with tarfile.open(os.path.join(folder, 'job.tar.gz'), 'w:gz') as t:
        for r in (0, 1, 2):
            data = base.text[r].encode()
            info = tarfile.TarInfo(f'run/rank{r}.json')
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
        for name, kind in (('run/fifo', tarfile.FIFOTYPE), ('run/device', tarfile.CHRTYPE), ('run/link.json', tarfile.SYMTYPE)):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, '/etc/passwd'
            t.addfile(info)
        info = tarfile.TarInfo('../../escape.json')
        t.addfile(info, io.BytesIO())
    return Want(says=())


def truncated_archive(base, folder):
    whole = os.path.join(folder, 'whole.tar')
    with tarfile.open(whole, 'w') as t:
        for r in (0, 1, 2, 3):
            data = base.text[r].encode()
            info = tarfile.TarInfo(f'rank{r}.json')
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    with open(whole, 'rb') as f:
        data = f.read()
    os.remove(whole)
    write(os.path.join(folder, 'job.tar'), data[:len(data) * 8 // 10])
    return Want(says=('job.tar',))


def truncated_zip(base, folder):
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, 'w', zipfile.ZIP_DEFLATED) as z:
        for r in range(4):
            z.writestr(f'rank{r}.json', base.text[r])
    write(os.path.join(folder, 'job.zip'), whole.getvalue()[:len(whole.getvalue()) * 8 // 10])
    return Want(status=(0, 1, 2), alive=(), says=('job.zip',))


def archive_of_an_archive(base, folder):
    base.put(folder)
    inner = io.BytesIO()
    with tarfile.open(fileobj=inner, mode='w:gz') as t:
        data = base.text[3].encode()
        info = tarfile.TarInfo('rank3.json')
        info.size = len(data)
        t.addfile(info, io.BytesIO(data))
    with tarfile.open(os.path.join(folder, 'job.tar'), 'w') as t:
        info = tarfile.TarInfo('inner.tar.gz')
        info.size = len(inner.getvalue())
        t.addfile(info, io.BytesIO(inner.getvalue()))
    return Want(says=())


def archive_of_a_hundred_thousand_nothings(base, folder):
    base.put(folder)
    with tarfile.open(os.path.join(folder, 'job.tar.gz'), 'w:gz', compresslevel=1) as t:
        for i in range(many(100000)):
            t.addfile(tarfile.TarInfo(f'empty/{i}'))
    return Want(says=(f'{many(100000)} files', 'empty/0'), lines=1, seconds=30)


def folder_of_a_thousand_nothings(base, folder):
    base.put(folder)
    for i in range(1000):
        write(os.path.join(folder, f'rank{i + 4}.json'), '')
    return Want(says=('1000 files', 'rank10.json'), lines=1)


# -- gigabytes

def string_of_a_gigabyte(base, folder):
    base.put(folder)
    with open(os.path.join(folder, 'rank3.json'), 'w', encoding='utf-8') as f:
        f.write('{"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "')
        for _ in range(1024):
            f.write('x' * MIB)
        f.write('", "ts": 1, "dur": 1}]}')
    return Want(says=(), seconds=60)


def decompression_bomb(base, folder):
    base.put(folder)
    with gzip.open(os.path.join(folder, 'rank3.json.gz'), 'wb', 9) as f:
        f.write(b'{"schemaVersion": 1, "traceEvents": [')
        for _ in range(4096):
            f.write(b' ' * MIB)
    return Want(says=(), seconds=60)


def decompression_bomb_of_events(base, folder):
    base.put(folder)
    with gzip.open(os.path.join(folder, 'rank3.json.gz'), 'wb', 6) as f:
        f.write(b'{"schemaVersion": 1, "traceEvents": [')
        event = (kernel_event() + ',').encode() * 8192
        for _ in range(1500):
            f.write(event)
    return Want(says=(), seconds=120, memory=1100 * MIB)  # 12 million kernels, all in one step


SHORT = [truncated_json, truncated_gzip, truncated_in_the_head, rotten_gzip, gzip_with_a_wrong_checksum, garbage_behind_the_trace, numbers_beyond_64_bits,
         bare_inf_nan_and_strings_for_numbers, broken_text, nesting_bomb_in_args, nesting_bomb_alone, unsorted_events, a_million_names,
         a_hundred_thousand_step_marks, absurd_job_description, members_by_the_million, empty_file, binary_file, program_file, only_unrelated_files,
         unrelated_files_beside, empty_folder, indented, without_a_space, keys_in_reverse_order, windows_line_ends_and_a_byte_order_mark, escaped_text,
         numbers_with_exponents, members_nobody_knows, gzip_in_many_members, stored_without_compression, zip_archive, packed_members_of_an_archive,
         names_that_lie, trace_without_events, events_that_are_no_list, nothing_there, fifo, fifo_by_name, link_to_a_device,
         device_by_name, links_in_a_circle, deep_folders, unreadable_file, names_that_would_paint_the_terminal, two_files_of_one_rank, two_jobs_mixed,
         two_jobs_of_the_same_size, many_small_files, archive_with_odd_members, truncated_archive, truncated_zip, archive_of_an_archive,
         a_world_of_a_billion, a_rank_beyond_the_world, threads_and_devices_by_the_hundred_thousand, groups_by_the_hundred_thousand, everything_overlaps,
         archive_of_a_hundred_thousand_nothings, folder_of_a_thousand_nothings]
LONG = [string_of_a_gigabyte, decompression_bomb, decompression_bomb_of_events]


# Starts the command from a small process: a child's ru_maxrss counts what its parent held at the fork.
STARTER = """import os, resource, sys
if sys.argv[2]:
    os.setuid(int(sys.argv[2]))
pid = os.posix_spawnp(sys.argv[3], sys.argv[3:], os.environ)
_, status, used = os.wait4(pid, 0)
os.write(int(sys.argv[1]), f'{used.ru_maxrss} {os.waitstatus_to_exitcode(status)}'.encode())"""


def run(lockstep, folder, want, *options):
    """(status, stdout, stderr, seconds, peak bytes) of diagnose; status is a word if it hangs."""
    paths = [f if f.startswith('/') else os.path.join(folder, f) for f in want.files or ['']]
    got, put = os.pipe()
    with tempfile.TemporaryDirectory() as open_to_all, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, os.fdopen(got, 'rb') as told:
        if want.user: # the checkout may lie where only its owner may look
            os.chmod(open_to_all, 0o755)
            lockstep = shutil.copy(lockstep, open_to_all)
        argv = [sys.executable, '-I', '-S', '-c', STARTER, str(put), str(want.user or ''), lockstep, 'diagnose', *options, *paths]
        began = time.monotonic()
        p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, preexec_fn=want.setup, pass_fds=(put,),
                             start_new_session=True)
        os.close(put)
        try:
            p.wait(want.seconds)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
            return f'hangs (over {want.seconds} s)', '', '', want.seconds, 0
        seconds = time.monotonic() - began
        memory, status = told.read().split()
        out.seek(0)
        err.seek(0)
        return int(status), out.read().decode(errors='replace'), err.read().decode(errors='replace'), seconds, int(memory) * 1024


def numbers(ranges):
    """The set of "0-2,5"; null is the empty set."""
    found = set()
    for part in filter(None, (ranges or '').split(',')):
        if not part[0].isdigit():
            continue  # "unknown-1": a process whose rank nobody knows
        low, _, high = part.partition('-')
        found |= set(range(int(low), int(high or low) + 1))
    return found


def faults(base_answer, want, status, out, err, memory):
    """All that is wrong, as sentences."""
    if status not in want.status:
        yield f'exit {status}, want {want.status}'
    try:
        doc = json.loads(out)
    except ValueError:
        yield f'stdout is no JSON: {out[:80]!r}'
        return
    lines = err.splitlines()
    if 'Sanitizer' in err or 'runtime error' in err:
        yield 'a sanitizer speaks: ' + err[:300]
    if len(lines) > want.lines:
        yield f'{len(lines)} lines on stderr'
    if len(set(lines)) < len(lines):
        yield 'a line on stderr twice'
    if any(ord(c) < 32 and c != '\n' for c in err):
        yield 'control characters on stderr'
    for name in want.says:
        if name not in err:
            yield f'no line on stderr names {name}: {err[:200]!r}'
    seen = numbers(doc['job']['ranks_seen'])
    if not set(want.alive) <= seen:
        yield f'ranks {sorted(set(want.alive) - seen)[:5]} are not diagnosed'
    if want.missing is not None and doc['job']['ranks_missing'] != want.missing:
        yield f'ranks_missing {doc["job"]["ranks_missing"]!r}, want {want.missing!r}'
    for part in ('verdict', 'job', 'ranks', 'findings') if want.same else ():
        if doc[part] != base_answer[part]:
            yield f'{part} is not what the same events give elsewhere'
    blamed = {r for f in doc['findings'] if f['severity'] != 'note' for r in f['culprits']['ranks']}
    if want.blames is not None and blamed != want.blames:
        yield f'blames {sorted(blamed)[:5]}, want {sorted(want.blames)}'
    if blamed & set(want.not_blamed):
        yield f'blames {sorted(blamed & set(want.not_blamed))}'
    if want.absent and os.path.exists(want.absent):
        yield 'code of the input was run'
    if memory > want.memory:
        yield f'{memory >> 20} MiB of memory, want {want.memory >> 20}'


def faults_again(lockstep, folder, want, first):
    """What is wrong with a second run, and with the text for people."""
    if run(lockstep, folder, want, '--json')[:3] != first:
        yield 'a second run says something else'
    status, out, _, _, _ = run(lockstep, folder, want)
    if status != first[0]:
        yield f'as text exit {status}, as JSON {first[0]}'
    if any(ord(c) < 32 and c != '\n' or 0x7f <= ord(c) < 0xa0 or c in '\u202e\u2066' for c in out):
        yield 'control characters in the text'


def main():
    global LESS
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--lockstep', default=os.environ.get('LOCKSTEP', os.path.join(ROOT, 'build', 'lockstep')))
    p.add_argument('--long', action='store_true', help='also the cases that write gigabytes')
    p.add_argument('-v', action='store_true', help='show what stderr says')
    p.add_argument('names', nargs='*')
    args = p.parse_args()
    lockstep, bad = os.path.abspath(args.lockstep), 0
    with open(lockstep, 'rb') as f:
        checked = b'__asan_init' in f.read()
    LESS = 8 if checked else 1
    with tempfile.TemporaryDirectory(prefix='lockstep-bad-') as t:
        os.chmod(t, 0o755)
        base = Base(t)
        _, out, _, _, _ = run(lockstep, base.folder, Want(), '--json')
        base_answer = json.loads(out)
        of_hangs, long_of_hangs = evidence.cases(Want)
        for case in SHORT + of_hangs + (LONG + long_of_hangs if args.long else []):
            if args.names and case.__name__ not in args.names:
                continue
            folder = os.path.join(t, case.__name__)
            os.mkdir(folder)
            want = case(base, folder)
            if checked:  # a sanitizer's own memory and time
                want.memory, want.seconds = 8 * want.memory + 512 * MIB, 8 * want.seconds
            status, out, err, seconds, memory = run(lockstep, folder, want, '--json')
            wrong = list(faults(base_answer, want, status, out, err, memory)) if isinstance(status, int) else [status]
            if not wrong and case in of_hangs + long_of_hangs:
                wrong = list(faults_again(lockstep, folder, want, (status, out, err)))
            bad += bool(wrong)
            print(f'{"FAILED" if wrong else "ok"} {case.__name__}: {"; ".join(wrong) or f"exit {status}"} ({seconds:.2f} s, {memory >> 20} MiB)', flush=True)
            if args.v and err:
                print('    ' + '\n    '.join(err.splitlines()[:8]))
            shutil.rmtree(folder)
    sys.exit(1 if bad else 0)


if __name__ == '__main__':
    main()
