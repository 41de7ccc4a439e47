#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Step records are judged as they come: a pipe and a file give the answer that records in several files give, byte
for byte; order inside the window does not matter, what comes later is counted; nothing is written to disk."""
import gzip
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOCKSTEP = os.path.abspath(os.environ.get('LOCKSTEP', ROOT / 'build/lockstep'))
STRINGS, RANK, STEP = 1, 2, 3
FAULT = 'compute-straggler ranks=9 factor=2 from=20'


def run(*argv, **how):
    return subprocess.run([LOCKSTEP, *argv], capture_output=True, timeout=120, **how)


def blocks_of(data):
    """The head of a segment, and its blocks as (type, bytes)."""
    at, blocks = 12, []
    while at < len(data):
        length, kind = struct.unpack_from('<IB', data, at)
        blocks.append((kind, data[at:at + 12 + length]))
        at += 12 + length
    return data[:12], blocks


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def number_of(block):
    return varint(block, 12)[0]


class Live(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.out = pathlib.Path(cls.folder.name)
        p = run('sim', '--layout', 'tp=2 dp=8 pp=2', '--steps', '40', '--fault', FAULT, '--out', str(cls.out / 'job'))
        assert p.returncode == 0, p.stderr
        cls.data = (cls.out / 'job/steps.lks').read_bytes()
        cls.head, cls.blocks = blocks_of(cls.data)
        cls.steps = [b for k, b in cls.blocks if k == STEP]
        cls.front = cls.head + b''.join(b for k, b in cls.blocks if k != STEP)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def told(self, p):
        """What was found, whatever the input is called."""
        doc = json.loads(p.stdout)
        for r in doc['read']:
            r['path'] = ''
        return doc

    def in_two_files(self):
        """Two writers' records have to be kept until all are there."""
        folder = self.out / 'two'
        folder.mkdir(exist_ok=True)
        for name, steps in (('a', self.steps[:20]), ('b', self.steps[20:])):
            (folder / (name + '.lks')).write_bytes(self.front + b''.join(steps))
        return self.told(run('diagnose', '--json', str(folder)))

    def pipe(self, data, *options, **how):
        return run('diagnose', '--json', *options, '-', input=data, **how)

    def test_a_pipe_a_file_and_two_files_tell_the_same(self):
        kept = self.in_two_files()
        file = self.told(run('diagnose', '--json', str(self.out / 'job/steps.lks')))
        pipe = self.told(self.pipe(self.data))
        self.assertEqual([f['culprits']['ranks'] for f in kept['findings'] if f['severity'] == 'fault'], [[9]])
        self.assertEqual(file, pipe)
        for doc in (kept, file):
            del doc['read']
        self.assertEqual(file, kept)

    def test_nothing_goes_to_disk(self):
        fast = {**os.environ, 'TMPDIR': '/nonexistent'}
        p = subprocess.run(['sh', '-c', 'ulimit -f 0; exec "$0" diagnose --json -', LOCKSTEP], input=self.data, env=fast,
                           capture_output=True, timeout=120)
        self.assertEqual((p.returncode, p.stderr), (1, b''))

    def test_order_inside_the_window_does_not_matter(self):
        near = [b for i in range(0, 40, 2) for b in (self.steps[i + 1], self.steps[i])]
        self.assertEqual(self.told(self.pipe(self.front + b''.join(near))), self.told(self.pipe(self.data)))

    def test_what_comes_late_is_counted(self):
        late = self.steps[:3] + self.steps[4:] + [self.steps[3]]
        p = self.pipe(self.front + b''.join(late))
        self.assertEqual(p.returncode, 1)
        self.assertIn(b'left out 32 records that came more than two steps late', p.stderr)

    def test_a_file_in_any_order_gives_what_a_file_in_order_gives(self):
        path = self.out / 'odd.lks'
        path.write_bytes(self.front + b''.join(reversed(self.steps)))
        p = run('diagnose', '--json', str(path))
        self.assertEqual(p.stderr, b'')
        self.assertEqual(self.told(p), self.told(self.pipe(self.data)))

    def test_what_lies_beside_a_file_in_any_order_is_said_once(self):
        folder = self.out / 'beside'
        folder.mkdir()
        (folder / 'odd.lks').write_bytes(self.front + b''.join(reversed(self.steps)) + b'torn')
        (folder / 'notes.bin').write_bytes(bytes(range(256)))
        p = run('diagnose', '--json', str(folder), str(folder / 'gone'))
        self.assertEqual([f['culprits']['ranks'] for f in json.loads(p.stdout)['findings'] if f['severity'] == 'fault'], [[9]])
        for words in (b'torn tail', b'notes.bin', b'gone: No such file'):
            self.assertEqual(p.stderr.count(words), 1, p.stderr)
        self.assertEqual(p.stderr.count(b'\n'), 3, p.stderr)

    def test_ranks_that_join_late(self):
        heads = [b for k, b in self.blocks if k == RANK]
        front = self.head + b''.join(b for k, b in self.blocks if k == STRINGS)
        data = front + b''.join(heads[:-1]) + self.steps[0] + heads[-1] + b''.join(self.steps[1:])
        p = self.pipe(data)
        self.assertEqual(p.returncode, 1)
        self.assertIn(b'left out 40 records of ranks that joined after the first step', p.stderr)
        path = self.out / 'late.lks'
        path.write_bytes(data)
        p = run('diagnose', '--json', str(path))
        self.assertEqual(json.loads(p.stdout)['job']['ranks_seen'], '0-31')

    def test_some_ranks_and_steps(self):
        for options in (('--ranks', '0-15'), ('--steps', '5-30'), ('--steps', '90-99')):
            p, f = self.pipe(self.data, *options), run('diagnose', '--json', *options, str(self.out / 'job/steps.lks'))
            self.assertEqual((p.returncode, self.told(p)), (f.returncode, self.told(f)), options)
        p = self.pipe(self.data, '--ranks', '900')
        self.assertEqual((p.returncode, json.loads(p.stdout)['verdict']), (2, 'insufficient'))

    def test_faults_of_steps_long_past(self):
        """More steps than are kept: each fault with all its steps, and none twice."""
        faults = ('compute-straggler ranks=3 factor=1.8 from=100 to=200', 'compute-straggler ranks=5 factor=1.6 from=900',
                  'data-starved ranks=1 ms=300 from=1500 to=1600')
        argv = [a for f in faults for a in ('--fault', f)]
        p = run('sim', '--layout', 'tp=2 dp=4', '--steps', '3000', '--step-ms', '500', *argv, '--out', str(self.out / 'long'))
        self.assertEqual(p.returncode, 0, p.stderr)
        doc = json.loads(run('diagnose', '--json', str(self.out / 'long/steps.lks')).stdout)
        with open(self.out / 'long/truth.json', encoding='utf-8') as f:
            truth = json.load(f)['faults']
        told = {f['culprits']['ranks'][0]: f for f in doc['findings']}
        self.assertEqual(sorted(told), [1, 3, 5])
        for t in truth:
            f = told[int(t['ranks'])]
            self.assertEqual((f['severity'], f['cause']), ('fault', t['cause']))
            self.assertEqual([(w['first_step'], w['last_step']) for w in f['windows']], [(t['from'], t['to'])])
            self.assertAlmostEqual(f['impact']['slowdown'], t['slowdown'], delta=0.05)
            self.assertAlmostEqual(f['impact']['lost_gpu_hours'], t['ms_lost'] * 8 / 3.6e6, delta=0.1 * t['ms_lost'] * 8 / 3.6e6)

    def test_a_compressed_pipe(self):
        z = gzip.compress(self.data)
        self.assertEqual(self.told(self.pipe(z))['findings'], self.told(self.pipe(self.data))['findings'])
        p = self.pipe(z[:len(z) // 2])
        self.assertIn(b'-: ', p.stderr)

    def test_what_is_no_record(self):
        for data, words in ((b'', b'shorter than their head'), (b'hello, this is a log\n' * 9, b'no step records'),
                            (self.front, b'no step'), (self.data[:len(self.data) * 9 // 10], b'torn tail')):
            p = self.pipe(data)
            self.assertIn(words, p.stderr + p.stdout, data[:20])
            self.assertEqual(p.returncode, 1 if words == b'torn tail' else 2)


if __name__ == '__main__':
    unittest.main()
