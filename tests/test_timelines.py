#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole-job timelines: who is named how, what stands whatever the file looks like, and what is said of damage."""
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOCKSTEP = os.path.abspath(os.environ.get('LOCKSTEP', ROOT / 'build/lockstep'))
sys.path.insert(0, str(ROOT / 'tests/gen'))
import make_timeline  # noqa: E402

WORKER = ('--fault', 'worker', '--factor', '1.8', '--at-dp', '1', '--at-pp', '2')


class Timelines(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = pathlib.Path(self.folder.name)
        self.file = self.out / 'timeline.json'

    def tearDown(self):
        self.folder.cleanup()

    def make(self, *words):
        answer = make_timeline.main(['--out', str(self.out), *words])
        (self.out / 'answer.json').unlink()
        return answer

    def told(self, *options):
        p = subprocess.run([LOCKSTEP, 'diagnose', '--json', *options, self.folder.name], capture_output=True, text=True, timeout=60)
        return p.returncode, json.loads(p.stdout), p.stderr

    def first(self):
        return [f for f in self.told()[1]['findings'] if f['severity'] == 'fault'][0]

    def test_folded_lanes_are_named_by_their_place(self):
        answer = self.make(*WORKER, '--tp', '4')
        f = self.first()
        self.assertEqual((f['cause'], f['culprits']['ranks'], f['culprits']['coords']), ('compute-straggler', [], ['dp=1 pp=2']))
        self.assertAlmostEqual(f['impact']['slowdown'], answer['slowdown'], delta=.05 * answer['slowdown'])
        text = subprocess.run([LOCKSTEP, 'diagnose', self.folder.name], capture_output=True, text=True, timeout=60).stdout
        self.assertIn('SLOW: the worker at dp=1 pp=2 makes the others wait', text)
        self.assertIn('one lane for 4 ranks each', text)

    def test_what_is_lost_counts_for_all_folded_ranks(self):
        self.make(*WORKER, '--tp', '1')
        one = self.first()['impact']['lost_gpu_hours']
        self.make(*WORKER, '--tp', '4')
        self.assertAlmostEqual(self.first()['impact']['lost_gpu_hours'], 4 * one, delta=.01 * one)

    def test_lanes_of_one_rank_have_its_number_too(self):
        self.make(*WORKER, '--tp', '1', '--dp', '2', '--pp', '4')
        culprits = self.first()['culprits']
        self.assertEqual((culprits['ranks'], culprits['coords']), ([5], ['dp=1 pp=2']))

    def test_an_uneven_stage_evicts_nobody(self):
        answer = self.make('--fault', 'head', '--factor', '1.6')
        f = self.first()
        self.assertEqual((f['cause'], f['culprits']['stages']), ('pipeline-imbalance', [3]))
        self.assertEqual([f['culprits'][k] for k in ('ranks', 'hosts', 'coords')], [[], [], []])
        self.assertAlmostEqual(f['impact']['slowdown'], answer['slowdown'], delta=.05 * answer['slowdown'])

    def test_what_a_host_did_is_told(self):
        self.make('--fault', 'host', '--factor', '1.6', '--at-dp', '0', '--at-pp', '1')
        f = self.first()
        self.assertEqual((f['cause'], f['cause_detail'], f['culprits']['coords']), ('host-stall', 'gc', ['dp=0 pp=1']))

    def test_the_form_of_the_file_changes_nothing(self):
        self.make(*WORKER)
        findings = self.told()[1]['findings']
        for words in (('--shape', 'object'), ('--gz',)):
            self.file.unlink()
            self.make(*WORKER, *words)
            self.assertEqual(self.told()[1]['findings'], findings, words)
            os.replace(next(self.out.iterdir()), self.file)
        events = json.loads(self.make_text())
        self.file.write_text(json.dumps(list(reversed(events)), indent=1))
        self.assertEqual(self.told()[1]['findings'], findings)
        with tarfile.open(self.out / 'all.tar', 'w') as t:
            t.add(self.file, 'a/b')
        self.file.unlink()
        self.assertEqual(self.told()[1]['findings'], findings)

    def make_text(self):
        self.make(*WORKER)
        return self.file.read_text()

    def test_steps_can_be_chosen(self):
        numbers = self.make(*WORKER, '--steps', '6')['numbers']
        doc = self.told('--steps', f'{numbers[1]}-{numbers[3]}')[1]
        self.assertEqual([s['step'] for s in doc['ranks'][0]['steps']], numbers[1:4])

    def test_step_records_keep_what_lanes_are(self):
        self.make(*WORKER, '--tp', '4')
        findings = self.told()[1]['findings']
        subprocess.run([LOCKSTEP, 'export', '--steps', str(self.out / 'lks'), str(self.file)], check=True, capture_output=True, timeout=60)
        self.file.unlink()
        self.assertEqual(self.told()[1]['findings'], findings)

    def test_a_cut_file_gives_its_whole_events(self):
        text = self.make_text()
        events = json.loads(text)
        names = [e for e in events if e['ph'] == 'M']
        text = json.dumps(names + [e for e in events if e['ph'] != 'M'])
        self.file.write_text(text[:len(text) * 9 // 10])
        status, doc, stderr = self.told()
        self.assertIn(status, (0, 1))
        self.assertIn('cut off at its end', stderr)
        self.assertEqual(stderr.count('\n'), 1)
        self.assertTrue(doc['ranks'])

    def test_names_that_were_cut_off_are_missed_and_said(self):
        text = self.make_text()
        self.file.write_text(text[:len(text) // 2])
        status, _, stderr = self.told()
        self.assertEqual(status, 2)
        self.assertIn('no thread is named by its place', stderr)
        self.assertEqual(stderr.count('\n'), 1)

    def test_what_is_wrong_in_single_events_costs_those_only(self):
        events = json.loads(self.make_text())
        findings = self.told()[1]['findings']
        odd = [{'ts': 'soon'}, {'dur': -5}, {'dur': None}, {'args': {}}, {'args': {'step': -3}}, {'pid': [], 'tid': {}}, {'name': ''}]
        events += [{**events[0], **o} for o in odd]
        self.file.write_text(json.dumps(events)[:-1] + ', {"ph": "X", "name": "forward-compute", "ts": NaN, "dur": Infinity}, {"x": ]')
        status, doc, _ = self.told()
        self.assertEqual(status, 1)
        self.assertEqual([f['id'] for f in doc['findings']], [f['id'] for f in findings])
        skipped = {s['reason']: s['count'] for s in doc['read'][0]['skipped']}
        self.assertEqual((skipped['bad_time'], skipped['bad_duration'], skipped['no_step']), (2, 2, 3))

    def test_who_was_not_given_makes_nobody_else_guilty(self):
        self.make('--fault', 'worker', '--factor', '3', '--at-dp', '1', '--at-pp', '0', '--dp', '3')
        self.file.write_text(json.dumps([e for e in json.loads(self.file.read_text()) if e['pid'] != 1]))
        status, doc, _ = self.told()
        self.assertEqual((status, [f for f in doc['findings'] if f['severity'] != 'note']), (0, []))
        self.assertEqual(doc['job']['ranks_missing'], '1,4,7,10')

    def test_a_lane_that_is_not_there_is_missing(self):
        events = json.loads(self.make_text())
        self.file.write_text(json.dumps([e for e in events if e['pid'] != 0 or e.get('tid', 0) >= 5 or e['ph'] == 'M']))
        doc = self.told()[1]
        self.assertEqual((doc['job']['world_size'], doc['job']['ranks_missing']), (8, '0'))


if __name__ == '__main__':
    unittest.main()
