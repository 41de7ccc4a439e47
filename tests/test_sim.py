#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep sim`: the same seed gives the same bytes, the truth is what was asked for, diagnose finds it, in a
folder and through a pipe; and clear errors for what does not fit."""
import filecmp
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOCKSTEP = os.path.abspath(os.environ.get('LOCKSTEP', ROOT / 'build/lockstep'))


def run(*argv, **how):
    return subprocess.run([LOCKSTEP, *argv], capture_output=True, timeout=120, **how)


def found(folder, *options):
    p = run('diagnose', '--json', *options, str(folder))
    doc = json.loads(p.stdout)
    return p.returncode, doc, [f for f in doc['findings'] if f['severity'] == 'fault']


class Sim(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def make(self, name, layout, *faults, steps=24, options=()):
        argv = [a for f in faults for a in ('--fault', f)]
        p = run('sim', '--layout', layout, '--steps', str(steps), '--out', str(self.out / name), *argv, *options)
        self.assertEqual(p.returncode, 0, p.stderr)
        with open(self.out / name / 'truth.json', encoding='utf-8') as f:
            return json.load(f)

    def check(self, layout, fault, cause, ranks, slack=0.12, first=None, **how):
        truth = self.make('job', layout, fault, **how)
        status, doc, faults = found(self.out / 'job')
        self.assertEqual(status, 1)
        self.assertEqual([(f['cause'], f['culprits']['ranks']) for f in faults], [(cause, ranks)])
        self.assertEqual(doc['job']['coverage'], 1)
        if first is not None:
            self.assertEqual(faults[0]['windows'][0]['first_step'], first)
        self.assertAlmostEqual(faults[0]['impact']['slowdown'], truth['faults'][0]['slowdown'], delta=slack)
        return faults[0]

    def test_same_seed_same_bytes(self):
        for name in ('a', 'b'):
            self.make(name, 'tp=2 dp=4 pp=2', 'host-stall ranks=3 ms=500 from=3', steps=6)
        self.make('c', 'tp=2 dp=4 pp=2', 'host-stall ranks=3 ms=500 from=3', steps=6, options=('--seed', '2'))
        self.assertTrue(filecmp.cmp(self.out / 'a/steps.lks', self.out / 'b/steps.lks', False))
        self.assertTrue(filecmp.cmp(self.out / 'a/truth.json', self.out / 'b/truth.json', False))
        self.assertFalse(filecmp.cmp(self.out / 'a/steps.lks', self.out / 'c/steps.lks', False))

    def test_a_fault_changes_nothing_before_it(self):
        self.make('with', 'dp=8', 'compute-straggler ranks=2 from=9', steps=9)
        self.make('without', 'dp=8', steps=9)
        self.assertTrue(filecmp.cmp(self.out / 'with/steps.lks', self.out / 'without/steps.lks', False))

    def test_healthy_jobs_of_all_layouts(self):
        for layout, options in (('dp=8', ()), ('tp=8', ()), ('pp=4', ()), ('dp=64', ('--all-reduce',)), ('tp=2 cp=2 dp=4 pp=2', ()),
                                ('pp=4 dp=16 ep=4', ()), ('dp=16 tp=4', ()), ('tp=4 dp=4 pp=4', ('--interleave', '2')), ('dp=1', ())):
            self.make('job', layout, options=options)
            status, doc, faults = found(self.out / 'job')
            self.assertEqual((status, doc['verdict'], faults), (0, 'healthy', []), layout)

    def test_compute(self):
        self.check('tp=2 dp=8 pp=4 ep=4', 'compute-straggler ranks=9 factor=2 from=8', 'compute-straggler', [9], first=8)

    def test_throttling_of_a_node(self):
        self.check('tp=2 dp=8 pp=4 ep=4', 'throttling ranks=16-23 factor=1.8 every=12 last=4', 'throttling', list(range(16, 24)),
                   slack=.5)  # the truth counts the steps between the waves as well

    def test_link_of_a_node(self):
        self.check('tp=2 dp=16 pp=2 ep=4', 'comm-link ranks=8-15 factor=8 from=10', 'comm-link', list(range(8, 16)), first=10)

    def test_host(self):
        f = self.check('tp=8 dp=8 pp=2', 'host-stall ranks=5 ms=900 detail=gc from=10', 'host-stall', [5], first=10,
                       options=('--interleave', '2'))
        self.assertEqual(f['cause_detail'], 'gc')

    def test_data(self):
        self.check('tp=2 dp=8 pp=4', 'data-starved ranks=3 ms=900 from=12', 'data-starved', [3], first=12)

    def test_save(self):
        self.check('tp=2 dp=8 pp=4', 'checkpoint ms=9000 every=10', 'checkpoint', [], slack=.2)

    def test_evaluations_are_no_fault(self):
        """Every sixth step forward passes come first: it is longer, and that is all."""
        self.make('job', 'tp=2 dp=4 pp=2', options=('--evaluate', '6'))
        status, doc, _ = found(self.out / 'job')
        steps = [s['ms'] for s in doc['ranks'][0]['steps']]
        usual = sorted(steps)[len(steps) // 2]
        self.assertEqual(status, 0)
        self.assertEqual([i for i, ms in enumerate(steps) if i and ms > 1.2 * usual], [6, 12, 18])

    def test_stage(self):
        f = self.check('tp=2 dp=8 pp=4', 'pipeline-imbalance stage=1 factor=1.5', 'pipeline-imbalance', [])
        self.assertEqual(f['culprits']['stages'], [1])

    def test_kernel(self):
        self.check('tp=2 dp=8 pp=4', 'kernel-regression factor=1.5 from=10', 'kernel-regression', [], first=10)

    def test_work(self):
        self.check('tp=2 dp=8 pp=4', 'workload-imbalance factor=1.6', 'workload-imbalance', [], slack=.3)

    def test_a_job_too_large_to_keep_all_its_steps(self):
        """The replays of but a few steps fit: what the others cost counts as well."""
        for fault, cause in (('compute-straggler ranks=1034 factor=3', 'compute-straggler'), ('pipeline-imbalance stage=1 factor=1.5', 'pipeline-imbalance')):
            truth = self.make('job', 'dp=512 pp=4 ep=8', fault, steps=40)
            _, doc, faults = found(self.out / 'job')
            self.assertEqual([f['cause'] for f in faults], [cause])
            lost = truth['faults'][0]['ms_lost'] / 40
            found_lost = faults[0]['impact']['step_ms_lost']
            if cause == 'pipeline-imbalance':  # its cost is what evening out saves; the truth is without the extra work
                with_it, without = (faults[0]['evidence'][1][k] for k in ('value', 'expected'))
                self.assertTrue(.25 * lost < found_lost < with_it - without)
                found_lost = with_it - without
            self.assertAlmostEqual(found_lost, lost, delta=.25 * lost)
            self.assertLess(faults[0]['evidence'][0]['value'], 1.1 * doc['job']['step_ms']['median'])

    def test_two_faults_at_once(self):
        self.make('job', 'dp=32 pp=2', 'compute-straggler ranks=5 factor=1.6 from=4', 'data-starved ranks=40 ms=1500 from=14')
        faults = found(self.out / 'job')[2]
        self.assertEqual({(f['cause'], *f['culprits']['ranks']) for f in faults}, {('compute-straggler', 5), ('data-starved', 40)})

    def test_argus_5_in_small(self):
        """One node of a group of experts late in every micro-batch: the group is its victim, and no link is."""
        f = self.check('dp=64 pp=3 ep=32', 'compute-straggler ranks=80-87 phase=mlp factor=5.7 from=8', 'compute-straggler',
                       list(range(80, 88)), first=8, slack=.3)
        self.assertEqual(f['culprits']['hosts'], ['node00010'])
        self.assertIn('comm-link', [x['cause'] for x in f['excluded']])

    def test_traces_give_the_answer_of_the_records(self):
        for fault, cause, rank in (('compute-straggler ranks=9 factor=2 from=5', 'compute-straggler', 9),
                                   ('host-stall ranks=3 ms=900 detail=gc from=5', 'host-stall', 3),
                                   ('data-starved ranks=4 ms=900 from=5', 'data-starved', 4),
                                   (None, None, None)):
            for name, options in (('traces', ('--as', 'kineto')), ('records', ())):
                truth = self.make(name, 'tp=2 dp=4 pp=2 ep=4', *([fault] if fault else []), steps=12, options=options)
                status, doc, faults = found(self.out / name)
                self.assertEqual([(f['cause'], f['culprits']['ranks']) for f in faults], [(cause, [rank])] if fault else [], (name, fault))
                self.assertEqual(status, 1 if fault else 0)
                self.assertEqual([s for r in doc['read'] for s in r['skipped']], [])
                if fault:
                    self.assertEqual(faults[0]['windows'][0]['first_step'], 5)
                    self.assertAlmostEqual(faults[0]['impact']['slowdown'], truth['faults'][0]['slowdown'], delta=.1)
            steps = {r['rank']: [s['ms'] for s in r['steps']] for r in doc['ranks']}
            for r in found(self.out / 'traces')[1]['ranks']:
                for ours, theirs in zip([s['ms'] for s in r['steps']], steps[r['rank']]):
                    self.assertAlmostEqual(ours, theirs, delta=1)

    def test_traces_of_some_ranks_and_steps(self):
        self.make('job', 'dp=16', steps=9, options=('--as', 'kineto', '--ranks', '3,5', '--trace-steps', '4-6'))
        self.assertEqual(sorted(os.listdir(self.out / 'job')), ['rank3.json', 'rank5.json', 'truth.json'])
        with open(self.out / 'job/rank3.json', encoding='utf-8') as f:
            doc = json.load(f)
        self.assertEqual(doc['distributedInfo']['rank'], 3)
        marks = [e['name'] for e in doc['traceEvents'] if e['name'].startswith('ProfilerStep')]
        self.assertEqual(marks, ['ProfilerStep#4', 'ProfilerStep#5', 'ProfilerStep#6'])

    def test_through_a_pipe(self):
        argv = ['sim', '--layout', 'dp=16', '--fault', 'compute-straggler ranks=3 factor=2 from=5']
        records = run(*argv, '--out', '-')
        self.assertEqual(records.returncode, 0, records.stderr)
        p = run('diagnose', '--json', '-', input=records.stdout)
        doc = json.loads(p.stdout)
        self.assertEqual((p.returncode, doc['findings'][0]['culprits']['ranks']), (1, [3]))

    def test_clear_errors(self):
        out = ('--out', str(self.out / 'bad'))
        for argv, words in ((('--layout', 'dp=8', *out, '--fault', 'compute-straggler ranks=1 phase=data'), 'computes nothing'),
                            (('--layout', 'dp=8', *out, '--fault', 'compute-stragler ranks=1'), 'did you mean compute-straggler'),
                            (('--layout', 'dp=8', *out, '--fault', 'compute-straggler ranks=8'), 'no rank 8 in a job of 8'),
                            (('--layout', 'dp=8', *out, '--fault', 'compute-straggler ranks=1 factor=x'), 'factor=x'),
                            (('--layout', 'dp=8', *out, '--fault', 'compute-straggler ranks=1 colour=red'), 'colour=red'),
                            (('--layout', 'dp=8', *out, '--fault', 'compute-straggler'), 'ranks= is missing'),
                            (('--layout', 'dp=8 pp=2', *out, '--fault', 'pipeline-imbalance stage=2'), 'one of 0 to 1'),
                            (('--layout', 'dp=8', *out, '--fault', 'comm-link rail=8'), 'one of 0 to 7'),
                            (('--layout', 'dp=8', *out, '--fault', 'checkpoint from=5 to=2'), 'from=5 lies behind to=2'),
                            (('--layout', 'dp=8', *out, '--fault', 'checkpoint ranks=1 ranks=9'), 'no rank 9 in a job of 8'),
                            (('--layout', 'dp=6 ep=4', *out), 'ep=4 does not divide'),
                            (('--layout', 'dp=200000', *out), '200000 ranks'),
                            (('--layout', 'dp=4 pp=2', *out, '--interleave', '2', '--micro-batches', '3'), 'it divides'),
                            (('--layout', 'dp=8', *out, '--steps', '0'), '--steps is 1'),
                            (('--layout', 'dp=8', *out, '--steps', 'ten'), 'no whole number'),
                            (('--layout', 'dp=8'), 'give --layout and --out'),
                            (('--layout', 'dp=8', *out, '--as', 'nsys'), 'not "nsys"'),
                            (('--layout', 'dp=8', '--out', '-', '--as', 'kineto'), 'are files'),
                            (('--layout', 'dp=512', *out, '--as', 'kineto'), 'at most 256'),
                            (('--layout', 'dp=8', *out, '--as', 'kineto', '--ranks', '8'), 'no rank 8 in a job of 8'),
                            (('--layout', 'dp=8', *out, 'more'), 'is no option')):
            p = run('sim', *argv, text=True)
            self.assertEqual(p.returncode, 64, argv)
            self.assertIn(words, p.stderr)
            self.assertEqual(p.stderr.count('\n'), 1, p.stderr)
        p = run('sim', '--layout', 'dp=8', '--out', '/proc/no/such', text=True)
        self.assertEqual((p.returncode, p.stderr.count('\n')), (2, 1))

    def test_the_list_of_faults(self):
        p = run('sim', '--list-faults', text=True)
        self.assertEqual(p.returncode, 0)
        for word in ('compute-straggler', 'comm-link', 'pipeline-imbalance', 'from='):
            self.assertIn(word, p.stdout)


if __name__ == '__main__':
    unittest.main()
