#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recordings of Nsight Systems: whose a row is, what a step is, and what is said where tables, columns, values or SQLite are
not what they should be."""
import gzip
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOCKSTEP = os.path.abspath(os.environ.get('LOCKSTEP', ROOT / 'build/lockstep'))
sys.path.insert(0, str(ROOT / 'tests/gen'))
import make_nsys  # noqa: E402


class Nsys(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def make(self, *words, change=()):
        make_nsys.main(['--out', str(self.out), *words])
        db = sqlite3.connect(self.out / 'node0.sqlite')
        for line in change:
            db.execute(line)
        db.commit()
        db.close()

    def told(self, *paths, env=None):
        p = subprocess.run([LOCKSTEP, 'diagnose', '--json', *(map(str, paths) if paths else [self.folder.name])], capture_output=True,
                           text=True, timeout=60, env={**os.environ, **(env or {})})
        return p.returncode, json.loads(p.stdout), p.stderr

    def check_slow(self, rank, steps, *words, change=()):
        self.make(*words, change=change)
        status, doc, stderr = self.told()
        self.assertEqual((status, stderr), (1, ''))
        faults = [f for f in doc['findings'] if f['severity'] == 'fault']
        self.assertEqual([(f['cause'], f['culprits']['ranks']) for f in faults], [('compute-straggler', [rank])])
        self.assertEqual({len(r['steps']) for r in doc['ranks']}, {steps})
        return doc

    def test_gpus_of_one_file_are_ranks(self):
        doc = self.check_slow(2, 6, '--slow', '2')
        self.assertEqual([(r['rank'], r['gpu'], r['kernels'], r['collectives']) for r in doc['ranks']], [(i, i, 192, 6) for i in range(4)])
        self.assertEqual([s['step'] for s in doc['ranks'][0]['steps']], list(range(6)))

    def test_files_of_several_machines_are_one_job(self):
        doc = self.check_slow(5, 6, '--files', '3', '--gpus', '2', '--slow', '5', '--schema', 'old')
        self.assertEqual([r['host'] for r in doc['ranks']], ['node0', 'node0', 'node1', 'node1', 'node2', 'node2'])
        self.assertTrue(any('nothing names the ranks' in a for a in doc['assumed']))

    def test_parts_of_a_step_that_repeat_tell_the_steps(self):
        self.check_slow(1, 6, '--slow', '1', '--ranges', 'loop')

    def test_operators_are_no_steps(self):
        self.check_slow(1, 1, '--slow', '1', '--ranges', 'ops')

    def test_without_ranges_the_file_is_one_window(self):
        self.check_slow(1, 1, '--slow', '1', '--ranges', 'none', change=['DROP TABLE NVTX_EVENTS'])

    def records_hold(self):
        """Do step records name NCCL's communicator; do they have the size of its all-reduce?"""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([LOCKSTEP, 'export', '--steps', folder, str(self.out / 'node0.sqlite')], check=True, capture_output=True, timeout=60)
            data = b''.join(p.read_bytes() for p in pathlib.Path(folder).iterdir())
        size, v = b'', make_nsys.BYTES
        while v:
            size += bytes([v & 0x7f | (0x80 if v > 0x7f else 0)])
            v >>= 7
        return f'{make_nsys.COMM:016x}'.encode() in data, size in data

    def test_ranges_of_nccl_tell_communicator_and_size(self):
        self.check_slow(2, 6, '--slow', '2', '--nccl')
        self.assertEqual(self.records_hold(), (True, True))

    def test_payloads_that_are_none_tell_nothing(self):
        for change in (["UPDATE NVTX_EVENTS SET binaryData = substr(binaryData, 1, 31)"], ["UPDATE NVTX_EVENTS SET binaryData = x''"],
                       ["UPDATE NVTX_EVENTS SET binaryData = zeroblob(48)"], ['DROP TABLE NVTX_PAYLOAD_SCHEMA_ENTRIES'],
                       ['UPDATE NVTX_PAYLOAD_SCHEMA_ENTRIES SET offset = -5'], ["UPDATE NVTX_PAYLOAD_SCHEMA_ENTRIES SET type = 'x', name = 7"]):
            self.check_slow(2, 6, '--slow', '2', '--nccl', change=change)
            self.assertFalse(self.records_hold()[1], change)

    def test_fields_beyond_a_payload_are_zero(self):
        self.check_slow(2, 6, '--slow', '2', '--nccl', change=['UPDATE NVTX_PAYLOAD_SCHEMA_ENTRIES SET offset = 4090 WHERE offset > 0'])
        self.assertEqual(self.records_hold(), (True, False))

    def test_the_range_that_is_asked_for_is_the_step(self):
        self.make('--ranges', 'named')
        for name, n, said in ((None, 1, ''), ('batch', 6, ''), ('batch@trainer', 6, ''), ('batch 3', 6, ''), ('part c', 6, ''), ('batc', 1, 'called batc '),
                              ('batch@NCCL', 1, 'called batch@NCCL '), ('@', 1, 'called @ '), ('', 1, 'called ')):
            status, doc, stderr = self.told(*([] if name is None else ['--step-range', name, self.folder.name]))
            self.assertEqual({len(r['steps']) for r in doc['ranks']}, {n}, name)
            self.assertEqual((status, said in stderr, stderr.count('\n')), (0, True, 1 if said else 0), (name, stderr))

    def test_one_process_with_several_gpus(self):
        self.check_slow(3, 6, '--slow', '3', change=[
            'UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = 16777216000',
            'UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET globalTid = 16777216000 + (globalTid & 0xffffff)',
            'UPDATE NVTX_EVENTS SET globalTid = 16777216000 + (globalTid & 0xffffff)'])

    def test_what_a_rank_does_on_another_gpu_makes_no_rank(self):
        self.make(change=['UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = 0 WHERE correlationId % 192 = 5'])
        self.assertEqual([r['kernels'] for r in self.told()[1]['ranks']], [192] * 4)

    def test_healthy_is_said_of_healthy(self):
        for ranges in ('step', 'loop', 'ops', 'none'):
            self.make('--ranges', ranges)
            status, doc, _ = self.told()
            self.assertEqual((status, [f for f in doc['findings'] if f['severity'] != 'note']), (0, []), ranges)

    def test_the_rank_stands_in_the_environment(self):
        self.make('--gpus', '1', change=["INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', 'SLURM_PROCID=\"9\"')",
                                        "INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', 'RANK=\"3\"')",
                                        "INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', 'WORLD_SIZE=\"8\"')"])
        doc = self.told()[1]
        self.assertEqual((doc['ranks'][0]['rank'], doc['job']['world_size'], doc['job']['ranks_missing']), (3, 8, '0-2,4-7'))

    def test_values_of_the_wrong_type_cost_their_rows_only(self):
        self.make(change=["UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'soon' WHERE correlationId = 5",
                          'UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 7 WHERE correlationId = 6',
                          'UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 9e999 WHERE correlationId = 7',
                          'UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = -9e18 WHERE correlationId = 8',
                          "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = x'00', shortName = -1 WHERE correlationId = 9",
                          "UPDATE NVTX_EVENTS SET textId = 'x' WHERE rowid = 3"])
        status, doc, stderr = self.told()
        self.assertEqual((status, stderr), (0, ''))
        self.assertEqual([r['kernels'] for r in doc['ranks']], [190, 192, 192, 192])
        skipped = {s['reason']: s['count'] for s in doc['read'][0]['skipped']}
        self.assertEqual((skipped['bad_time'], skipped['bad_duration'], skipped['bad_number']), (2, 2, 1))

    def test_missing_tables_and_columns_are_done_without(self):
        self.make('--slow', '1', change=['DROP TABLE StringIds', 'DROP TABLE CUPTI_ACTIVITY_KIND_RUNTIME', 'DROP TABLE TARGET_INFO_GPU',
                                         'DROP TABLE NVTX_EVENTS', 'ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN correlationId',
                                         'ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN globalPid'])
        status, doc, stderr = self.told()
        self.assertEqual(stderr, '')
        self.assertEqual([r['kernels'] for r in doc['ranks']], [192] * 4)

    def test_without_kernels_it_says_what_is_missing(self):
        self.make(change=['DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL'])
        status, _, stderr = self.told()
        self.assertEqual(status, 2)
        self.assertIn('without any CUDA kernel', stderr)
        self.assertEqual(stderr.count('\n'), 1)

    def test_no_statement_of_the_file_is_run(self):
        endless = 'WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS start, x AS end FROM c'
        self.make(change=['DROP TABLE NVTX_EVENTS', f'CREATE VIEW NVTX_EVENTS AS {endless}'])
        status, doc, stderr = self.told()
        self.assertEqual((status, stderr, len(doc['ranks'])), (0, '', 4))

    def test_a_cut_file_gives_what_it_still_has(self):
        self.make()
        data = (self.out / 'node0.sqlite').read_bytes()
        (self.out / 'node0.sqlite').write_bytes(data[:len(data) * 9 // 10])
        status, doc, stderr = self.told()
        self.assertIn(status, (0, 1))
        self.assertEqual(stderr.count('\n'), 1)
        self.assertIn('damaged', stderr)
        self.assertTrue(400 < sum(r['kernels'] for r in doc['ranks']) < 768)

    def test_rotten_pages_end_in_one_line(self):
        self.make()
        data = bytearray((self.out / 'node0.sqlite').read_bytes())
        for at in range(8192, len(data), 3 * 4096):
            data[at:at + 64] = b'\xff' * 64
        (self.out / 'node0.sqlite').write_bytes(bytes(data))
        status, _, stderr = self.told()
        self.assertIn(status, (0, 1, 2))
        self.assertEqual(stderr.count('\n'), 1)
        self.assertIn('node0.sqlite', stderr)

    def test_compressed_and_renamed_it_is_read_alike(self):
        self.make('--slow', '1')
        plain = self.told()[1]['findings']
        data = (self.out / 'node0.sqlite').read_bytes()
        (self.out / 'node0.sqlite').unlink()
        (self.out / 'odd name?#%.txt').write_bytes(data)
        self.assertEqual(self.told()[1]['findings'], plain)
        (self.out / 'odd name?#%.txt').write_bytes(gzip.compress(data))
        self.assertEqual(self.told()[1]['findings'], plain)

    def test_another_database_is_no_recording(self):
        db = sqlite3.connect(self.out / 'x.db')
        db.execute('CREATE TABLE shopping (what TEXT)')
        db.commit()
        db.close()
        status, _, stderr = self.told()
        self.assertEqual(status, 2)
        self.assertIn('left out 1 file of no known kind', stderr)
        self.assertIn('SQLite', stderr)

    def test_without_sqlite_it_names_the_package(self):
        self.make()
        (self.out / 'lib').mkdir()
        (self.out / 'lib/libsqlite3.so.0').write_text('no library')
        status, _, stderr = self.told(self.out / 'node0.sqlite', env={'LD_LIBRARY_PATH': str(self.out / 'lib')})
        self.assertEqual(status, 2)
        self.assertIn('libsqlite3-0', stderr)
        self.assertEqual(stderr.count('\n'), 1)


if __name__ == '__main__':
    unittest.main()
