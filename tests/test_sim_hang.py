#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep sim --as dumps`: the same seed gives the same bytes; dumps are what PyTorch writes, in both dialects and
formats; who waits where follows from the groups; what was left out is not there; diagnose names who broke it."""
import filecmp
import json
import os
import pathlib
import pickle
import pickletools
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOCKSTEP = os.path.abspath(os.environ.get('LOCKSTEP', ROOT / 'build/lockstep'))
# What torch::jit's Pickler writes, and nothing that could run.
OPCODES = {'PROTO', 'EMPTY_DICT', 'EMPTY_LIST', 'MARK', 'SETITEMS', 'APPENDS', 'BINUNICODE', 'BINPUT', 'LONG_BINPUT', 'BINGET', 'LONG_BINGET',
           'BININT', 'BININT1', 'BININT2', 'LONG1', 'BINFLOAT', 'NEWTRUE', 'NEWFALSE', 'NONE', 'TUPLE2', 'STOP'}


def run(*argv):
    return subprocess.run([LOCKSTEP, *argv], capture_output=True, text=True, timeout=120)


class Plain(pickle.Unpickler):
    def find_class(self, module, name):
        raise AssertionError(f'{module}.{name} in a dump')


class Hangs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.out = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def make(self, name, fault, *options, layout='tp=2 dp=4 pp=2', steps=12):
        shutil.rmtree(self.out / name, ignore_errors=True)
        p = run('sim', '--layout', layout, '--steps', str(steps), '--as', 'dumps', '--fault', fault, '--out', str(self.out / name), *options)
        self.assertEqual((p.returncode, p.stderr), (0, ''))
        with open(self.out / name / 'truth.json', encoding='utf-8') as f:
            return json.load(f)

    def dump(self, name, rank):
        path = self.out / name / f'nccl_trace_rank_{rank}'
        if path.exists():
            with open(path, 'rb') as f:
                return Plain(f).load()
        with open(f'{path}.json', encoding='utf-8') as f:
            return json.load(f)

    def found(self, name):
        p = run('diagnose', '--json', str(self.out / name))
        doc = json.loads(p.stdout)
        return doc, [f for f in doc['findings'] if f['severity'] == 'fault']

    def check(self, fault, cause, ranks, *options, verdict='hung', **how):
        truth = self.make('job', fault, *options, **how)
        doc, faults = self.found('job')
        self.assertEqual([(f['cause'], f['culprits']['ranks']) for f in faults[:1]], [(cause, ranks)], fault)
        self.assertEqual((doc['verdict'], truth['verdict']), (verdict, verdict), fault)
        self.assertTrue(truth['faults'][0]['struck'])
        return truth

    def test_same_seed_same_bytes(self):
        for name in ('a', 'b'):
            self.make(name, 'collective-desync ranks=3 from=5')
        names = sorted(str(p.relative_to(self.out / 'a')) for p in (self.out / 'a').rglob('*') if p.is_file())
        self.assertEqual(len([n for n in names if n.startswith('nccl_trace_rank_')]), 16)
        self.assertEqual(filecmp.cmpfiles(self.out / 'a', self.out / 'b', names, False), (names, [], []))

    def test_a_dump_is_what_the_jit_pickler_writes(self):
        self.make('job', 'data-starved ranks=5 ms=forever from=8')
        data = (self.out / 'job/nccl_trace_rank_5').read_bytes()
        self.assertLessEqual({op.name for op, _, _ in pickletools.genops(data)}, OPCODES)
        self.assertEqual(data[:2], b'\x80\x02')
        d = self.dump('job', 5)
        self.assertEqual(d['version'], '2.10')
        self.assertEqual([e['record_id'] for e in d['entries']], list(range(len(d['entries']))))
        self.assertEqual({e['state'] for e in d['entries']}, {'completed'})
        self.assertEqual(d['pg_config']['0'], {'name': '0', 'desc': 'default_pg', 'ranks': str(list(range(16)))})

    def test_json_tells_the_same(self):
        for name, fmt in (('pickles', 'pickle'), ('texts', 'json')):
            self.make(name, 'collective-desync ranks=3 from=5', '--format', fmt, '--timing')
        for rank in (0, 3, 15):
            a, b = self.dump('pickles', rank), self.dump('texts', rank)
            self.assertEqual(len(a['entries']), len(b['entries']))
            for x, y in zip(a['entries'], b['entries']):
                self.assertEqual(x.pop('frames')[-1], {'name': '<module>', 'filename': '/workspace/train.py', 'line': 291})
                x = {k: list(v) if isinstance(v, tuple) else 0 if v is None else v for k, v in x.items()}
                if 'duration_ms' in x:
                    x['duration_ms'] = round(x['duration_ms'], 5)
                self.assertEqual(x, y)
            self.assertEqual({k: {n: str(c) for n, c in v.items()} for k, v in a['pg_status'].items()}, b['pg_status'])

    def test_started_is_known_only_with_timing(self):
        fault = 'host-stall ranks=3 ms=forever from=5'
        for name, options, states in (('plain', (), {'scheduled', 'completed'}), ('timed', ('--timing',), {'scheduled', 'started', 'completed'})):
            self.make(name, fault, *options)
            self.assertEqual({e['state'] for r in range(16) for e in self.dump(name, r)['entries']}, states)

    def test_gloo_tells_progress_by_what_is_retired(self):
        self.make('job', 'data-starved ranks=5 ms=forever from=8', '--dialect', 'gloo')
        for rank in (4, 5):
            d = self.dump('job', rank)
            self.assertEqual(list(d['pg_config']), [''])
            self.assertEqual({e['state'] for e in d['entries']}, {'scheduled'})
            self.assertFalse([e for e in d['entries'] if e['is_p2p'] or e['time_discovered_completed_ns']])
            self.assertEqual({s['last_started_collective'] for s in d['pg_status'].values()}, {-1})
        self.assertEqual([e['retired'] for e in self.dump('job', 5)['entries']][-1], True)
        self.assertFalse(list((self.out / 'job').glob('nvidia-smi*')))

    def test_numbers_go_on_over_evaluations(self):
        for every in ('2', '7'):
            self.make('job', 'data-starved ranks=5 ms=forever from=8', '--evaluate', every)
            for rank in (0, 5, 9):
                last = {}
                for e in self.dump('job', rank)['entries']:
                    self.assertEqual(e['op_id'], last.get(e['process_group'], 0) + 1)
                    last[e['process_group']] = e['op_id']
            self.assertEqual(self.found('job')[1][0]['culprits']['ranks'], [5])

    def test_a_ring_keeps_the_latest(self):
        for name, ring in (('whole', '2000'), ('small', '50')):
            self.make(name, 'host-stall ranks=3 ms=forever from=5', '--ring', ring)
        self.assertEqual(self.dump('small', 7)['entries'], self.dump('whole', 7)['entries'][-50:])

    def test_the_host_runs_ahead_on_nccl_only(self):
        """What is enqueued beyond the operation in which a rank waits."""
        for dialect, ahead in (('nccl', True), ('gloo', False)):
            self.make(dialect, 'data-starved ranks=5 ms=forever from=8', '--dialect', dialect)
            pending = [e for e in self.dump(dialect, 0)['entries'] if not e['retired'] and not e['is_p2p']]
            self.assertEqual(len(pending) > 1, ahead, pending)

    def test_who_waits_follows_from_the_groups(self):
        """tp varies fastest, then dp: rank 5 holds its pair 4 up, and the ranks of its data-parallel group."""
        self.make('job', 'data-starved ranks=5 ms=forever from=8')
        doc, _ = self.found('job')
        waits = {g['desc']: {r['rank'] for r in g['ranks'] if r['state'] == 'waiting'} for g in doc['groups']
                 if 5 in g.get('member_ranks', []) or any(r['rank'] == 5 and r['state'] == 'behind' for r in g['ranks'])}
        self.assertEqual(waits['DATA_PARALLEL_GROUP_WITH_CP'], {1, 3, 7})

    def test_parts_are_left_out(self):
        self.make('job', 'gpu-error ranks=3 from=5', '--without', 'dumps,stacks', '--ranks', '0-7')
        self.assertEqual(sorted(p.name for p in (self.out / 'job').iterdir()),
                         ['kern-node00000.log', 'nvidia-smi-node00000.csv', 'nvidia-smi-node00001.csv', 'train.log', 'truth.json'])
        self.make('some', 'host-stall ranks=3 ms=forever from=5', '--without', 'log,power', '--ranks', '2-4')
        self.assertEqual(sorted(p.name for p in (self.out / 'some').iterdir()),
                         ['nccl_trace_rank_2', 'nccl_trace_rank_3', 'nccl_trace_rank_4', 'stacks', 'truth.json'])

    def test_the_dead_leave_no_dump(self):
        self.make('job', 'dead-rank ranks=3 from=5')
        self.assertFalse((self.out / 'job/nccl_trace_rank_3').exists())
        self.assertFalse((self.out / 'job/stacks/rank3.txt').exists())
        self.make('store', 'dead-rank ranks=0 from=5')  # with rank 0 the store is gone: nobody is told to dump
        log = (self.out / 'store/train.log').read_text()
        self.assertNotIn('Observed flight recorder dump signal', log)

    def test_the_log_says_who_waited_and_who_was_told(self):
        self.make('job', 'data-starved ranks=5 ms=forever from=8', '--timeout', '30')
        lines = (self.out / 'job/train.log').read_text().splitlines()
        late = {line.split(']')[0] for line in lines if 'Watchdog caught collective operation timeout' in line}
        told = {line.split(']')[0] for line in lines if 'Observed flight recorder dump signal' in line}
        self.assertIn('[rank5', told)
        self.assertNotIn('[rank5', late)
        self.assertEqual(len(late | told), 16)
        self.assertTrue(any('Timeout(ms)=30000' in line for line in lines))
        self.assertEqual(sum('step ' in line and '/12 loss' in line for line in lines), 8)

    def test_power_tells_who_spins(self):
        self.make('job', 'data-starved ranks=5 ms=forever from=8')
        rows = [line.split(', ') for line in (self.out / 'job/nvidia-smi-node00000.csv').read_text().splitlines()]
        last = {r[1]: (float(r[4].split()[0]) / float(r[5].split()[0]), r[6]) for r in rows[-8:]}
        for gpu, (share, busy) in last.items():
            self.assertEqual(busy, '0 %' if gpu == '5' else '100 %')
            self.assertLess(share, .3)

    def test_every_fault_is_found(self):
        for fault, cause, ranks in (
                ('host-stall ranks=3 ms=forever from=5 detail=compile', 'host-stall', [3]),
                ('data-starved ranks=9 ms=forever from=5', 'data-starved', [9]),
                ('checkpoint ms=forever from=5', 'checkpoint', [0]),
                ('uneven-steps ranks=3 detail=evaluation fewer=4', 'collective-desync', [3]),
                ('collective-desync ranks=3 from=5', 'collective-desync', [3]),
                ('collective-desync ranks=12 from=5 group=mp detail=operation', 'collective-desync', [12]),
                ('order-inversion ranks=3 from=5', 'collective-desync', [3]),
                ('missing-rank ranks=3 from=5', 'missing-rank', [3]),
                ('dead-rank ranks=3 from=5', 'dead-rank', [3]),
                ('collective-stuck ranks=3 from=5 group=tp', 'collective-stuck', []),
                ('network-error ranks=3 from=5', 'network-error', [])):
            self.check(fault, cause, ranks)
        for fault, cause, ranks in (
                ('dead-rank ranks=3 from=5 detail=exception launcher=1', 'exception', [3]),
                ('dead-rank ranks=3 from=5 detail=out-of-memory launcher=1', 'out-of-memory', [3]),
                ('dead-rank ranks=3 from=5 launcher=1', 'dead-rank', [3]),
                ('gpu-error ranks=3 from=5 launcher=1', 'gpu-error', [3]),
                ('preempted from=5', 'preempted', [])):
            self.check(fault, cause, ranks, verdict='crashed')

    def test_who_leaves_early_is_named_although_others_only_enqueued(self):
        """The later stages wait for a transfer that its sender has called, and not come to."""
        self.make('job', 'uneven-steps ranks=3', '--without', 'log,stacks,power')
        self.assertEqual([f['culprits']['ranks'] for f in self.found('job')[1]], [[3]])

    def test_whole_node_whose_dumps_were_not_fetched_is_not_dead(self):
        self.make('job', 'missing-rank ranks=68 detail=silent from=14', '--ranks', '0-31,40-95,104-127', layout='tp=2 dp=32 pp=2', steps=20)
        self.assertEqual([f['culprits']['ranks'] for f in self.found('job')[1]], [[68]])

    def test_several_faults(self):
        truth = self.make('job', 'compute-straggler ranks=1 factor=2 from=2', '--fault', 'data-starved ranks=5 ms=forever from=6')
        self.assertEqual([(f['cause'], f['hangs']) for f in truth['faults']], [('compute-straggler', False), ('data-starved', True)])
        self.assertGreater(truth['faults'][0]['slowdown'], 1.2)
        self.assertEqual(self.found('job')[1][0]['culprits']['ranks'], [5])

    def test_records_end_where_it_hangs(self):
        p = run('sim', '--layout', 'dp=8', '--steps', '12', '--fault', 'dead-rank ranks=3 from=7', '--out', str(self.out / 'job'))
        self.assertEqual(p.returncode, 0, p.stderr)
        doc, _ = self.found('job')
        self.assertEqual((doc['job']['first_step'], doc['job']['last_step']), (0, 6))

    def test_all_layouts_come_to_a_standstill(self):
        for layout, options in (('dp=8', ()), ('tp=8', ()), ('pp=4', ()), ('tp=2 cp=2 dp=4 pp=2', ()), ('pp=4 dp=16 ep=4', ()),
                                ('dp=16 tp=4', ('--all-reduce',)), ('tp=4 dp=4 pp=4', ('--interleave', '2'))):
            for dialect in ('nccl', 'gloo'):
                self.make('job', 'host-stall ranks=2 ms=forever from=3', '--dialect', dialect, *options, layout=layout, steps=6)
                self.assertEqual([f['culprits']['ranks'] for f in self.found('job')[1]][:1], [[2]], layout)

    def test_jobs_that_never_begin(self):
        """Who did not come, could not reach the store, or was started as of another job."""
        node = list(range(8, 16))
        for dialect in ('nccl', 'gloo'):
            for fault, ranks, verdict in (
                    ('rendezvous ranks=8-15', node, 'crashed'), ('rendezvous ranks=5', [5], 'crashed'), ('rendezvous ranks=8-15 detail=socket', node, 'crashed'),
                    ('rendezvous ranks=9 detail=socket', [9], 'crashed'), ('rendezvous ranks=5 detail=waits', [5], 'hung'),
                    ('configuration ranks=5', [5], 'crashed'), ('configuration ranks=8-15 detail=device', node, 'crashed'),
                    ('configuration ranks=0 detail=port', [0], 'crashed'), ('configuration ranks=8-15 detail=world-size', node, 'crashed'),
                    ('configuration ranks=3 detail=world-size', [3], 'crashed'), ('configuration ranks=0-7 detail=world-size', list(range(8)), 'crashed')):
                self.check(fault, fault.split()[0], ranks, '--dialect', dialect, verdict=verdict)
                self.assertFalse(list((self.out / 'job').glob('nccl_trace*')), fault)

    def test_a_store_that_nobody_reaches_is_nobodys_but_its_own(self):
        self.make('job', 'rendezvous ranks=0-7')
        doc, faults = self.found('job')
        self.assertEqual((doc['verdict'], [(f['cause'], f['culprits']['ranks']) for f in faults]), ('crashed', [('rendezvous', [])]))
        self.assertIn('nobody could reach the store', faults[0]['summary'])

    def test_of_a_machine_without_a_word_nothing_is_known_while_the_others_wait(self):
        self.make('job', 'rendezvous ranks=8-15 detail=waits')
        doc, faults = self.found('job')
        self.assertEqual((doc['verdict'], faults), ('insufficient', []))
        self.assertIn('wait for the group to be set up; of ranks 8-15', run('diagnose', str(self.out / 'job')).stdout.replace('\n      ', ' '))

    def test_the_same_without_a_log_names_nobody_innocent(self):
        for fault in ('rendezvous ranks=8-15', 'configuration ranks=5'):
            self.make('job', fault, '--without', 'log')
            self.assertEqual([f['culprits']['ranks'] for f in self.found('job')[1]], [], fault)

    def test_a_hang_after_a_restart(self):
        """Rings and numbers begin anew; the log has both runs."""
        for fault, cause, rank in (('data-starved ranks=5 ms=forever from=15', 'data-starved', 5), ('collective-desync ranks=3 from=14', 'collective-desync', 3),
                                   ('missing-rank ranks=9 from=14', 'missing-rank', 9)):
            for restart in ('at=12 from=8', 'at=12 from=8 anew=1'):
                truth = self.check(fault, cause, [rank], '--restart', restart, steps=20)
                self.assertEqual([r['at'] for r in truth['restarts']], [12])
                self.assertEqual(min(e['op_id'] for e in self.dump('job', 1)['entries']), 1)
                log = (self.out / 'job/train.log').read_text()
                self.assertEqual(log.count('will restart worker group'), 1)

    def test_clear_errors(self):
        out = ('--as', 'dumps', '--out', str(self.out / 'bad'))
        for argv, words in ((('--layout', 'dp=8', *out), 'no fault makes the job stand still'),
                            (('--layout', 'dp=8', *out, '--fault', 'order-inversion ranks=3 from=2'), 'no two groups of rank 3'),
                            (('--layout', 'dp=8', *out, '--all-reduce', '--fault', 'collective-desync ranks=3 detail=skip from=2'), 'does not hang'),
                            (('--layout', 'dp=8', *out, '--fault', 'dead-rank ranks=3 from=20'), 'steps 0 to 19 only'),
                            (('--layout', 'dp=8', *out, '--fault', 'uneven-steps ranks=3 fewer=21'), 'steps 0 to 19 only'),
                            (('--layout', 'dp=8', *out, '--fault', 'dead-rank ranks=3 detail=tired'), 'detail=tired'),
                            (('--layout', 'dp=8', *out, '--fault', 'compute-straggler ranks=3 ms=forever'), 'ms=forever'),
                            (('--layout', 'dp=8', *out, '--fault', 'collective-desync ranks=3 group=tp'), 'calls nothing in the group tp'),
                            (('--layout', 'dp=8', *out, '--fault', 'collective-stuck ranks=3 group=pp'), 'has no such group'),
                            (('--layout', 'dp=8', *out, '--fault', 'gpu-error ranks=3', '--dialect', 'gloo'), 'is of NCCL'),
                            (('--layout', 'dp=8', *out, '--fault', 'dead-rank ranks=3', '--dialect', 'mpi'), '--dialect is nccl or gloo'),
                            (('--layout', 'dp=8', *out, '--fault', 'dead-rank ranks=3', '--format', 'xml'), '--format pickle or json'),
                            (('--layout', 'dp=8', *out, '--fault', 'dead-rank ranks=3', '--without', 'dumps,sleep'), 'not "sleep"'),
                            (('--layout', 'dp=8', *out, '--fault', 'dead-rank ranks=3', '--ranks', '8'), 'no rank 8 in a job of 8'),
                            (('--layout', 'dp=8', *out, '--fault', 'dead-rank ranks=3', '--ring', '0'), '--ring and --timeout 1'),
                            (('--layout', 'dp=65536', *out, '--fault', 'dead-rank ranks=3'), 'at most 16384'),
                            (('--layout', 'dp=8', '--as', 'dumps', '--out', '-', '--fault', 'dead-rank ranks=3'), 'are files')):
            p = run('sim', *argv)
            self.assertEqual((p.returncode, p.stderr.count('\n')), (64, 1), (argv, p.stderr))
            self.assertIn(words, p.stderr)


if __name__ == '__main__':
    unittest.main()
