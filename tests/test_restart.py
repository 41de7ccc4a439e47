#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs that fail and are started again: `lockstep sim --restart` and its truth; diagnose names a fault before, after
and across a restart with its steps, from a folder, a pipe and traces; ranks that count anew alone, join late, lack
steps or have them twice."""
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

from test_live import LOCKSTEP, RANK, STEP, STRINGS, blocks_of, run, varint

LAYOUT = 'tp=2 dp=4 pp=2'
RESTART = 'at=40 from=30 down=90'
SLOW = 'compute-straggler ranks=3 factor=2 '


TABLE = list(range(256))
for _ in range(8):
    TABLE = [c >> 1 ^ (0x82f63b78 if c & 1 else 0) for c in TABLE]


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    return crc ^ 0xffffffff


def block_of(kind, payload):
    return struct.pack('<IBBHI', len(payload), kind, 0, 0, crc32c(payload)) + payload


def put_varint(value):
    out = b''
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def records_of(block):
    """The number of a step block and its records as (row, what follows the number and the row)."""
    number, at = varint(block, 12)
    records = []
    while at < len(block):
        size, at = varint(block, at)
        _, begin = varint(block, at)
        row, begin = varint(block, begin)
        records.append((row, block[begin:at + size]))
        at += size
    return number, records


def step_block(number, records):
    payload = put_varint(number)
    for row, rest in records:
        record = put_varint(number) + put_varint(row) + rest
        payload += put_varint(len(record)) + record
    return block_of(STEP, payload)


def windows(f):
    return [(w.get('run', 0), w['first_step'], w['last_step']) for w in f['windows']]


class Restart(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def make(self, name, *faults, restarts=(RESTART,), steps=60, options=(), layout=LAYOUT):
        argv = ['sim', '--layout', layout, '--steps', str(steps), *options]
        argv += [a for f in faults for a in ('--fault', f)] + [a for r in restarts for a in ('--restart', r)]
        p = run(*argv, '--out', str(self.out / name))
        self.assertEqual(p.returncode, 0, p.stderr)
        with open(self.out / name / 'truth.json', encoding='utf-8') as f:
            return json.load(f), argv

    def told(self, p):
        doc = json.loads(p.stdout)
        for r in doc['read']:
            r['path'] = ''
        return doc

    def both(self, argv):
        """What diagnose says of the file and of the pipe, which is the same."""
        file = run('diagnose', '--json', str(self.out / 'job/steps.lks'))
        sim = subprocess.Popen([LOCKSTEP, *argv, '--out', '-'], stdout=subprocess.PIPE)
        pipe = run('diagnose', '--json', '-', stdin=sim.stdout)
        sim.stdout.close()
        self.assertEqual(sim.wait(), 0)
        self.assertEqual((file.stderr, pipe.stderr), (b'', b''))
        self.assertEqual(self.told(file), self.told(pipe))
        return self.told(file)

    def check(self, fault, cause=None, **how):
        """The fault's cause, rank and windows are those of the truth, and its cost."""
        truth, argv = self.make('job', fault, **how)
        doc = self.both(argv)
        t = truth['faults'][0]
        found = [f for f in doc['findings'] if f['severity'] != 'note']
        self.assertEqual([(f['cause'], f['culprits']['ranks']) for f in found], [(cause or t['cause'], [int(t['ranks'])])])
        self.assertEqual(windows(found[0]), [(w['run'], w['first'], w['last']) for w in t['windows']])
        self.assertAlmostEqual(found[0]['impact']['slowdown'], t['slowdown'], delta=.1)
        return doc

    def test_the_truth(self):
        truth, _ = self.make('job', SLOW + 'from=35 to=45')
        self.assertEqual([tuple(w.values()) for w in truth['faults'][0]['windows']], [(0, 35, 39), (1, 30, 45)])
        r = truth['restarts'][0]
        self.assertEqual((r['at'], r['last'], r['first'], r['steps_again']), (40, 39, 30, 10))
        self.assertAlmostEqual(r['ms_down'], 90000, delta=100)

    def test_same_seed_same_bytes(self):
        how = {'options': ('--seed', '7'), 'restarts': (RESTART, 'at=50 anew=1 late=4-7')}
        for name in ('a', 'b'):
            self.make(name, SLOW + 'run=1', **how)
        for file in ('steps.lks', 'truth.json'):
            self.assertEqual((self.out / 'a' / file).read_bytes(), (self.out / 'b' / file).read_bytes())

    def test_without_a_fault(self):
        """Back to a checkpoint, to the beginning, counted anew, at once, again and again: no finding, and one note."""
        for restarts, at in (((RESTART,), 30), (('at=40 from=0',), 0), (('at=40 from=30 anew=1',), 0), (('at=40 from=39 down=0',), 39),
                             (('at=20 from=10', 'at=35', 'at=50 from=45'), 45)):
            truth, argv = self.make('job', restarts=restarts)
            doc = self.both(argv)
            self.assertEqual(doc['verdict'], 'healthy', restarts)
            notes = [f for f in doc['findings'] if 'started again' in f['summary']]
            self.assertEqual(len(notes), 1, restarts)
            self.assertEqual([f['severity'] for f in doc['findings'] if f['severity'] != 'note'], [])
            self.assertIn(f'at step {at}', notes[0]['summary'])
            down = sum(r['ms_down'] for r in truth['restarts'])
            self.assertAlmostEqual(notes[0]['evidence'][1]['value'], down, delta=500)
            if 'anew' not in restarts[0] and at:
                self.assertEqual(notes[0]['evidence'][0]['value'], sum(r['steps_again'] for r in truth['restarts']))

    def test_without_steps_done_again(self):
        """The numbers go on: nothing is wrong, and nothing shows a restart."""
        _, argv = self.make('job', restarts=('at=40 from=40 down=300',))
        self.assertEqual(self.both(argv)['verdict'], 'healthy')

    def test_before_after_and_across(self):
        for when in ('from=20 to=36', 'from=50', 'from=35 to=45', 'from=38', 'from=25 run=0'):
            self.check(SLOW + when)

    def test_other_faults_across(self):
        for fault in ('data-starved ranks=3 ms=900 from=35 to=45', 'host-stall ranks=9 ms=900 from=36 to=44', 'host-stall ranks=9 ms=900 run=1'):
            self.check(fault)

    def test_a_link_across(self):
        truth, argv = self.make('job', 'comm-link ranks=8-15 factor=8 from=35', layout='tp=2 dp=16 pp=2 ep=4')
        found = [f for f in self.both(argv)['findings'] if f['severity'] != 'note']
        self.assertEqual([(f['cause'], f['culprits']['ranks']) for f in found], [('comm-link', list(range(8, 16)))])
        self.assertEqual(windows(found[0]), [(w['run'], w['first'], w['last']) for w in truth['faults'][0]['windows']])

    def test_a_kernel_that_is_slower_since_a_step_of_the_second_run(self):
        truth, argv = self.make('job', 'kernel-regression factor=1.6 from=32', layout='dp=8 pp=8 ep=8', restarts=('at=32 from=21',), options=('--seed', '13'))
        found = [f for f in self.both(argv)['findings'] if f['severity'] != 'note']
        self.assertEqual([(f['cause'], windows(f)) for f in found], [('kernel-regression', [(w['run'], w['first'], w['last']) for w in truth['faults'][0]['windows']])])

    def test_counted_anew(self):
        self.check('compute-straggler ranks=3 factor=2 from=35 to=45', restarts=('at=40 from=30 anew=1',))

    def test_throttling_in_both_runs(self):
        truth, argv = self.make('job', 'throttling ranks=3 factor=2 every=12 last=4 from=4', options=('--seed', '3'))
        found = [f for f in self.both(argv)['findings'] if f['severity'] != 'note']
        self.assertEqual([(f['cause'], f['culprits']['ranks']) for f in found], [('throttling', [3])], truth)

    def test_ranks_whose_recording_begins_late(self):
        for fault in ('compute-straggler ranks=5 factor=2 from=37 to=55', 'compute-straggler ranks=9 factor=2 from=37 to=55'):
            _, argv = self.make('job', fault, restarts=(RESTART + ' late=4-7 after=5',))
            doc = self.both(argv)
            found = [f for f in doc['findings'] if f['severity'] != 'note']
            self.assertEqual([(f['cause'], f['culprits']['ranks']) for f in found], [('compute-straggler', [int(fault.split()[1][6:])])])
            self.assertEqual(windows(found[0])[-1][2], 55)

    def test_a_long_job(self):
        """More steps than the history holds."""
        truth, argv = self.make('job', SLOW + 'from=1290 to=1350', steps=2600, layout='dp=8', restarts=('at=1300 from=1250', 'at=2500 from=2400'))
        doc = self.both(argv)
        found = [f for f in doc['findings'] if f['severity'] != 'note']
        self.assertEqual([windows(f) for f in found], [[(w['run'], w['first'], w['last']) for w in truth['faults'][0]['windows']]])
        self.assertIn('2 times', [f for f in doc['findings'] if 'started again' in f['summary']][0]['summary'])

    def test_traces(self):
        truth, _ = self.make('job', SLOW + 'from=17 to=24', steps=28, restarts=('at=20 from=14',), options=('--as', 'kineto'))
        doc = self.told(run('diagnose', '--json', str(self.out / 'job')))
        found = [f for f in doc['findings'] if f['severity'] != 'note']
        self.assertEqual([(f['cause'], f['culprits']['ranks'], windows(f)) for f in found],
                         [('compute-straggler', [3], [(w['run'], w['first'], w['last']) for w in truth['faults'][0]['windows']])])
        self.assertTrue(any('started again at step 14' in f['summary'] for f in doc['findings']))

    def test_traces_of_ranks_that_moved(self):
        """Started again on other machines, a rank's fault is on the one where it was then."""
        self.make('job', SLOW + 'from=17 to=24', steps=28, restarts=('at=14 from=12',), options=('--as', 'kineto'))
        for path in (self.out / 'job').rglob('rank*.json'):
            rank, again = int(path.stem[4:]), path.parent.name == 'run1'
            host = 'new-%d' % (rank // 8) if again else 'old-%d' % (rank // 8)
            doc = json.loads(path.read_text())
            doc['host_name'] = host
            path.write_text(json.dumps(doc))
        doc = self.told(run('diagnose', '--json', str(self.out / 'job')))
        found = [f for f in doc['findings'] if f['severity'] != 'note']
        self.assertEqual([(f['culprits']['ranks'], f['culprits']['hosts']) for f in found], [([3], ['new-0'])])
        self.assertTrue(any('new-0' in line for line in found[0]['next']))

    def test_what_does_not_fit(self):
        for restart, words in (('at=0', b'behind'), ('at=60', b'below 60'), ('at=20 from=30', b'none behind'), ('when=3', b'not understood'),
                               ('at=20 late=99', b'no rank 99')):
            p = run('sim', '--layout', LAYOUT, '--steps', '60', '--restart', restart, '--out', str(self.out / 'bad'))
            self.assertEqual(p.returncode, 64, restart)
            self.assertIn(words, p.stderr)
        p = run('sim', '--layout', LAYOUT, '--fault', SLOW + 'run=1', '--out', str(self.out / 'bad'))
        self.assertEqual(p.returncode, 64)


class Odd(unittest.TestCase):
    """Records of a job without a restart, some of them not as they should be."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.out = pathlib.Path(cls.folder.name)
        p = run('sim', '--layout', LAYOUT, '--steps', '40', '--fault', SLOW + 'from=20', '--out', str(cls.out / 'job'))
        assert p.returncode == 0, p.stderr
        head, blocks = blocks_of((cls.out / 'job/steps.lks').read_bytes())
        cls.front = head + b''.join(b for k, b in blocks if k in (STRINGS, RANK))
        cls.steps = {}
        for kind, block in blocks:
            if kind == STEP:
                number, records = records_of(block)
                cls.steps.setdefault(number, []).extend(records)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def tell(self, blocks):
        """(findings but notes, stderr) from a pipe and from a file."""
        data = self.front + b''.join(blocks)
        path = self.out / 'odd.lks'
        path.write_bytes(data)
        for p in (run('diagnose', '--json', '-', input=data), run('diagnose', '--json', str(path))):
            doc = json.loads(p.stdout)
            yield [(f['cause'], f['culprits']['ranks'], windows(f)) for f in doc['findings'] if f['severity'] != 'note'], p.stderr, doc

    def test_a_rank_that_counts_anew_alone(self):
        """From step 15 on rank 7 counts from 0: its steps are called like nobody's."""
        blocks = []
        for number, records in self.steps.items():
            own = [r for r in records if r[0] == 7]
            if number < 15:
                blocks.append(step_block(number, records))
            else:
                blocks += [step_block(number - 15, own), step_block(number, [r for r in records if r[0] != 7])]
        for found, err, doc in self.tell(blocks):
            self.assertEqual(found, [('compute-straggler', [3], [(0, 20, 39)])])
            self.assertIn(b'left out 25 steps of rank', err)
            self.assertIn(b'anew while the others go on', err)
            self.assertEqual((doc['job']['first_step'], doc['job']['last_step']), (0, 39))

    def test_steps_twice(self):
        blocks = [step_block(n, records + (records[:4] if n in (5, 25) else [])) for n, records in self.steps.items()]
        for found, err, _ in self.tell(blocks):
            self.assertEqual(found, [('compute-straggler', [3], [(0, 20, 39)])])
            self.assertIn(b'left out 8 steps that a rank has twice', err)

    def test_steps_that_ranks_lack(self):
        """Of others, and of the slow one: it is one stretch all the same."""
        for lacks in ((5, range(0, 12)), (9, range(18, 30)), (3, range(26, 30))):
            blocks = [step_block(n, [r for r in records if r[0] != lacks[0] or n not in lacks[1]]) for n, records in self.steps.items()]
            for found, err, _ in self.tell(blocks):
                self.assertEqual([f[:2] for f in found], [('compute-straggler', [3])], lacks)
                self.assertEqual((found[0][2][0][1], found[0][2][-1][2]), (20, 39))
                self.assertEqual(err, b'')

    def test_ranks_that_join_late(self):
        """Their heads stand in front, their steps begin later."""
        blocks = [step_block(n, [r for r in records if r[0] < 8 or n >= 10]) for n, records in self.steps.items()]
        for found, err, _ in self.tell(blocks):
            self.assertEqual((found, err), ([('compute-straggler', [3], [(0, 20, 39)])], b''))

    def test_several_writers_and_any_order(self):
        """Files of some ranks each, and a file whose steps stand backwards, tell what the file in order tells."""
        p = run('sim', '--layout', LAYOUT, '--steps', '60', '--restart', RESTART, '--fault', SLOW + 'from=35 to=45', '--out', str(self.out / 'parts'))
        self.assertEqual(p.returncode, 0, p.stderr)
        data = (self.out / 'parts/steps.lks').read_bytes()
        _, blocks = blocks_of(data)
        steps = [records_of(b) for k, b in blocks if k == STEP]
        folder = self.out / 'several'
        folder.mkdir()
        for name, rows in (('a', range(0, 8)), ('b', range(8, 16))):
            (folder / f'{name}.lks').write_bytes(self.front + b''.join(step_block(n, [r for r in records if r[0] in rows]) for n, records in steps))
        (self.out / 'back.lks').write_bytes(self.front + b''.join(step_block(n, records) for n, records in reversed(steps)))
        docs = [json.loads(run('diagnose', '--json', str(self.out / path)).stdout) for path in ('parts/steps.lks', 'several', 'back.lks')]
        for doc in docs[1:]:
            for key in ('findings', 'ranks', 'verdict'):
                self.assertEqual(doc[key], docs[0][key])

    def test_a_restart_of_which_ranks_lack_the_end(self):
        """Their numbers rise all the same; they are of the second run by their time."""
        p = run('sim', '--layout', LAYOUT, '--steps', '60', '--restart', RESTART, '--fault', SLOW + 'from=35 to=45', '--out', str(self.out / 'again'))
        self.assertEqual(p.returncode, 0, p.stderr)
        _, blocks = blocks_of((self.out / 'again/steps.lks').read_bytes())
        steps, run_of, before = [], 0, -1
        for kind, block in blocks:
            if kind != STEP:
                continue
            number, records = records_of(block)
            run_of += number < before
            before = number
            lack = run_of == 0 and number >= 29
            steps.append(step_block(number, [r for r in records if not (lack and r[0] in (8, 9))]))
        for found, err, _ in self.tell(steps):
            self.assertEqual((found, err), ([('compute-straggler', [3], [(0, 35, 39), (1, 30, 45)])], b''))


if __name__ == '__main__':
    unittest.main()
