#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recorded Flight Recorder dumps: read as Python reads them, whoever wrote them again.

    tests/test_dumps.py build/tests/print_testimony

What the reader says of each dump in $LOCKSTEP_SHARED/data/hang is compared with what pickle and json give, and with what
the recording's answer.json observed; then the same dump is written by Python's pickler (protocols 2 to 5) and as JSON.
"""
import glob
import json
import math
import os
import pickle
import re
import subprocess
import sys
import tempfile
import unittest

SHARED = os.environ.get('LOCKSTEP_SHARED', '../shared')
PRINT = None
STATES = ['scheduled', 'started', 'completed']
ENTRY = re.compile(r'entry (.*?)/(.*?) #(-?\d+) op (-?\d+) record (-?\d+) (.*?)=(\S+) (\S.*?\]|-)=(-?\d+) (.*?) -> (\S.*?\]|-)=(-?\d+) (.*?) '
                   r'(-?\d+)->(-?\d+) state (\d) retired (\d) p2p (\d) timeout (-?\d+) at (-?\d+) (-?\d+) (-?\d+)$')


def said(paths):
    """For each file: (first line, list of entries with their frames, other lines)."""
    out = subprocess.run([PRINT, *paths], capture_output=True, text=True, check=True).stdout
    files = []
    for line in out.rstrip('\n').split('\n'):
        if line.startswith('== '):
            files.append((line, [], []))
        elif line.startswith('entry '):
            m = ENTRY.match(line)
            assert m, line
            files[-1][1].append([m.groups(), None])
        elif line.startswith('frames '):
            files[-1][1][-1][1] = line[7:]
        elif files and files[-1][1] and files[-1][1][-1][1] is not None:
            files[-1][1][-1][1] += '\n' + line
        elif line:
            files[-1][2].append(line)
    return files


def elements(sizes):
    return sum(math.prod(s) for s in sizes)


def expected(e, last):
    """The same of an entry as Python sees it, and its frames if they are to be kept."""
    group = e['process_group']
    groups = (group[0], group[1], str(e['p2p_seq_id'] if e['is_p2p'] else e['collective_seq_id']), str(e['op_id']), str(e['record_id']), e['profiling_name'])
    sizes = []
    for way in 'input', 'output':
        s = [list(x) for x in e[way + '_sizes']]
        sizes += [str(s), str(elements(s)), ', '.join(e[way + '_dtypes'])]
    rest = (str(STATES.index(e['state'])), str(int(e['retired'])), str(int(e['is_p2p'])), str(e['timeout_ms']), str(e['time_created_ns']),
            str(e['time_discovered_started_ns'] or -1), str(e['time_discovered_completed_ns'] or -1))
    kept = not e['retired'] or last
    frames = '\n'.join(f'{f["name"]} ({f["filename"]}:{f["line"]})' for f in e.get('frames', []))
    return groups, tuple(sizes), rest, frames if kept and frames else None


class Dumps(unittest.TestCase):
    def check(self, got, dump):
        head, entries, _ = got
        self.assertIn(' flight-recorder ', head)
        want = dump.get('entries', [])
        self.assertEqual(len(entries), len(want), head)
        for (g, frames), e in zip(entries, want):
            groups, sizes, rest, text = expected(e, e is want[-1])
            self.assertEqual(g[:6], groups, head)
            self.assertEqual((g[7], g[8], g[9], g[10], g[11], g[12]), sizes, head)
            self.assertEqual(g[15:], rest, head)
            if 'frames' in e:
                self.assertEqual(frames, text, head)

    def test_recorded_dumps_are_read_as_python_reads_them(self):
        paths = sorted(glob.glob(SHARED + '/data/hang/**/nccl_trace_rank_*', recursive=True))
        if not paths:
            self.skipTest('skipped: no shared data')
        for path, got in zip(paths, said(paths)):
            with open(path, 'rb') as f:
                self.check(got, pickle.load(f))

    def test_json_says_the_same_but_for_frames(self):
        paths = sorted(glob.glob(SHARED + '/data/hang/**/fr_rank*.json', recursive=True))
        if not paths:
            self.skipTest('skipped: no shared data')
        twins = [re.sub(r'fr_rank(\d+)\.json$', r'nccl_trace_rank_\1', p) for p in paths]
        for path, twin, a, b in zip(paths, twins, said(paths), said(twins)):
            with open(path) as f:
                self.check(a, json.load(f))
            self.assertEqual([e[0] for e in a[1]], [e[0] for e in b[1]], path)
            self.assertEqual(a[2], b[2], path)

    def test_dumps_that_were_written_again_say_the_same(self):
        paths = sorted(glob.glob(SHARED + '/data/hang/*/nccl_trace_rank_[01]'))
        if not paths:
            self.skipTest('skipped: no shared data')
        for path in paths:
            with open(path, 'rb') as f:
                dump = pickle.load(f)
            loose = json.loads(json.dumps(dump))  # no two values are the same object any more
            with tempfile.TemporaryDirectory() as folder:
                name = os.path.basename(path)
                for i in range(2, 6):
                    for what, value in (('shared', dump), ('loose', loose)):
                        with open(os.path.join(folder, f'{what}{i}-{name}'), 'wb') as f:
                            pickle.dump(value, f, protocol=i)
                for indent in None, 2:
                    with open(os.path.join(folder, f'people{indent}-{name}.json'), 'w') as f:
                        json.dump(dump, f, indent=indent)
                again = sorted(glob.glob(folder + '/*'))
                original, *others = said([path, *again])
                self.assertEqual(len(others), 10)
                for got in others:
                    self.assertEqual(got[1:], original[1:], got[0])

    def test_what_was_observed_is_what_is_read(self):
        answers = sorted(glob.glob(SHARED + '/data/hang/*/answer.json'))
        if not answers:
            self.skipTest('skipped: no shared data')
        for path in answers:
            with open(path) as f:
                observed = json.load(f)['observed']
            moments = observed if 't0' in observed else {'.': observed}
            for moment, ranks in moments.items():
                for rank, o in ranks.items():
                    if not o.get('dump'):
                        continue
                    for name in f'nccl_trace_rank_{rank}', f'fr_rank{rank}.json':
                        self.compare(os.path.join(os.path.dirname(path), moment, name), rank, o)

    def compare(self, path, rank, o):
        _, entries, lines = said([path])[0]
        entries = [e[0] for e in entries]
        self.assertEqual(len(entries), o['entries'], path)
        self.assertTrue(lines[0].startswith(f'rank {rank} '), path)
        self.assertEqual([[e[5], int(e[2]), e[1]] for e in entries if e[16] == '0'], o['not_retired'], path)
        last = {f'{e[0]}/{e[1]}': [e[5], int(e[2])] for e in entries}
        self.assertEqual(last, o['last_per_group'], path)
        if o.get('last'):
            e = entries[-1]
            self.assertEqual([e[5], int(e[2]), [e[0], e[1]], e[7], e[10], e[16] == '1'],
                             [o['last']['profiling_name'], o['last']['collective_seq_id'], o['last']['group'], str(o['last']['input_sizes']), str(o['last']['output_sizes']),
                              o['last']['retired']], path)


if __name__ == '__main__':
    PRINT = sys.argv.pop(1)
    unittest.main()
