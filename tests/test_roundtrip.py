#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Traces -> `export --steps` -> diagnose says byte for byte what diagnose says of the traces, but for `read`.

    LOCKSTEP=build/lockstep tests/test_roundtrip.py

Tried on the samples of examples/demo and, where it is, on every job of the shared data; from the folder and through a
pipe. Then what can befall a segment: torn, of another kind, of a later version, of several nodes, of two jobs.
"""
import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOCKSTEP = os.path.abspath(os.environ.get('LOCKSTEP', ROOT / 'build/lockstep'))
SHARED = pathlib.Path(os.environ.get('LOCKSTEP_SHARED', ROOT / '../shared')) / 'data'
SLOW = ROOT / 'examples/demo/slow-rank'
HEALTHY = ROOT / 'examples/demo/healthy'


def run(*argv, **more):
    return subprocess.run([LOCKSTEP, *map(str, argv)], capture_output=True, timeout=120, **more)


def answer(*argv, **more):
    """All of the JSON but `read`, as bytes in the order in which it was written."""
    p = run('diagnose', '--json', *argv, **more)
    assert p.returncode in (0, 1, 2), (p.returncode, p.stderr)
    doc = json.loads(p.stdout)
    del doc['read']
    return json.dumps(doc)


def jobs():
    yield from (SLOW, HEALTHY)
    if not SHARED.is_dir():
        print('skipped: no shared data', file=sys.stderr)
        return
    for kind in ('sim-traces', 'cpu-traces'):
        yield from sorted(f for f in (SHARED / kind).iterdir() if f.is_dir())
    yield from sorted(f for f in (SHARED / 'kineto').iterdir() if f.is_file())


class RoundTrip(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.dir = pathlib.Path(self.scratch.name)

    def tearDown(self):
        self.scratch.cleanup()

    def export(self, source, to='steps', *argv):
        """The segment of this job, alone in its folder."""
        folder = self.dir / to
        p = run('export', '--steps', folder, *argv, source)
        self.assertEqual(p.returncode, 0, p.stderr)
        return sorted(folder.iterdir())

    def test_records_say_what_traces_say(self):
        for n, job in enumerate(jobs()):
            with self.subTest(job=job.name):
                want = answer(job)
                if run('export', '--steps', self.dir / str(n), job).returncode == 2:
                    self.assertIn('"insufficient"', want)  # nothing to export
                    continue
                files = sorted((self.dir / str(n)).iterdir())
                self.assertEqual(len(files), 1)
                self.assertEqual(answer(self.dir / str(n)), want)
                with open(files[0], 'rb') as f:
                    self.assertEqual(answer('-', stdin=f), want)

    def test_a_narrow_look_at_records_is_that_at_traces(self):
        self.export(SLOW)
        for args in (['--steps', '4-9'], ['--ranks', '0,2'], ['--min-impact', '50'], ['--layout', 'dp=4'], ['--all-ranks']):
            self.assertEqual(answer(*args, self.dir / 'steps'), answer(*args, SLOW), args)

    def test_segments_of_several_nodes_are_one_job(self):
        for rank in range(4):
            self.export(SLOW, f'node{rank}', '--ranks', rank)
        self.assertEqual(answer(*(self.dir / f'node{rank}' for rank in range(4))), answer(SLOW))

    def hurt(self, change):
        """(status, document, stderr) of the healthy job's segment after a change of its bytes."""
        file = self.export(HEALTHY)[0]
        data = bytearray(file.read_bytes())
        file.write_bytes(change(data))
        p = run('diagnose', '--json', self.dir / 'steps')
        with open(file, 'rb') as f:
            piped = run('diagnose', '--json', '-', stdin=f)
        self.assertIn(piped.returncode, (0, 1, 2))
        self.assertEqual(len(piped.stderr.splitlines()), len(p.stderr.splitlines()), (piped.stderr, p.stderr))
        return p.returncode, json.loads(p.stdout), p.stderr.decode()

    def test_a_torn_segment_gives_its_whole_blocks(self):
        for part in (0.5, 0.9, 0.999):
            status, doc, said = self.hurt(lambda data: data[:int(len(data) * part)])
            self.assertIn(status, (0, 1), said)
            self.assertEqual(len(said.splitlines()), 1, said)
            self.assertIn('torn', said)
            self.assertEqual(doc['job']['ranks_seen'], '0-3')

    def test_a_segment_torn_in_its_head_gives_nothing(self):
        status, doc, said = self.hurt(lambda data: data[:10])
        self.assertEqual((status, doc['verdict'], len(said.splitlines())), (2, 'insufficient', 1), said)

    def test_another_magic_is_no_segment(self):
        status, doc, said = self.hurt(lambda data: b'LKSTEP2\n' + data[8:])
        self.assertEqual((status, doc['verdict'], len(said.splitlines())), (2, 'insufficient', 1), said)

    def test_a_later_major_version_is_refused_and_said(self):
        status, _, said = self.hurt(lambda data: data[:8] + struct.pack('<H', 3) + data[10:])
        self.assertEqual((status, len(said.splitlines())), (2, 1), said)
        self.assertIn('version 3', said)

    def test_a_later_minor_version_is_read(self):
        status, _, said = self.hurt(lambda data: data[:10] + struct.pack('<H', 7) + data[12:])
        self.assertEqual((status, said), (0, ''))

    def test_a_rotten_block_is_left_out_and_said(self):
        dice = random.Random(4)
        for _ in range(20):
            def rot(data):
                data[dice.randrange(12, len(data))] ^= 1 << dice.randrange(8)
                return data
            status, _, said = self.hurt(rot)
            self.assertIn(status, (0, 1, 2), said)
            self.assertLessEqual(len(said.splitlines()), 2, said)

    def test_the_same_segment_twice_is_said_once(self):
        self.export(SLOW, 'a')
        self.export(SLOW, 'b')
        p = run('diagnose', '--json', self.dir / 'a', self.dir / 'b')
        self.assertEqual(len(p.stderr.splitlines()), 1, p.stderr)
        self.assertIn(b'copied', p.stderr)
        doc = json.loads(p.stdout)
        want = json.loads(run('diagnose', '--json', SLOW).stdout)
        self.assertEqual(doc['findings'], want['findings'])
        self.assertEqual(doc['job'], want['job'])

    def test_traces_and_their_records_together_are_one_job(self):
        self.export(SLOW)
        p = run('diagnose', '--json', SLOW, self.dir / 'steps')
        self.assertEqual(len(p.stderr.splitlines()), 1, p.stderr)
        self.assertEqual(json.loads(p.stdout)['findings'], json.loads(run('diagnose', '--json', SLOW).stdout)['findings'])


if __name__ == '__main__':
    unittest.main()
