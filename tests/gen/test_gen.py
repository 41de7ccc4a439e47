#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claims about the generated jobs: that they are what they say, since other tests believe them."""
import glob
import gzip
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from job_plan import Layout  # noqa: E402
from make_job import FAULTS, make_job, parser  # noqa: E402


def job(folder, *options):
    return make_job(parser().parse_args(['--out', folder, *options]))


def load(folder):
    """{rank: trace} of a job with distributedInfo."""
    found = {}
    for path in glob.glob(os.path.join(folder, '*.gz')):
        with gzip.open(path) as f:
            trace = json.load(f)
        found[trace['distributedInfo']['rank']] = trace
    return found


def kernels(trace):
    return [e for e in trace['traceEvents'] if e.get('cat') == 'kernel']


class Generated(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = self.temporary.name
        self.addCleanup(self.temporary.cleanup)

    def test_same_seed_gives_same_bytes(self):
        other = os.path.join(self.folder, 'b')
        self.folder = os.path.join(self.folder, 'a')
        for folder in (self.folder, other):
            job(folder, '--seed', '4', '--fault', 'host-stall', '--dp', '2', '--steps', '6')
        for name in os.listdir(self.folder):
            with open(os.path.join(self.folder, name), 'rb') as a, open(os.path.join(other, name), 'rb') as b:
                self.assertEqual(a.read(), b.read(), name)

    def test_members_leave_together_and_the_last_to_come_stays_shortest(self):
        answer = job(self.folder, '--seed', '3', '--dp', '4', '--steps', '6', '--quirk', '--fault', 'compute-straggler', '--variant', 'rank', '--factor', '1.5')
        calls = {}
        for rank, trace in load(self.folder).items():
            for e in kernels(trace):
                if e['args'].get('Collective name') == 'allreduce':
                    calls.setdefault((e['args']['Process Group Name'], e['args']['Seq']), {})[rank] = (e['ts'], e['ts'] + e['dur'])
        self.assertGreater(len(calls), 10)
        late = 0
        for members in calls.values():
            self.assertEqual(sorted(members), [0, 1, 2, 3])
            ends = [end for _, end in members.values()]
            self.assertLess(max(ends) - min(ends), 20, 'one node, one clock: they leave within the scatter')
            starts = {rank: start for rank, (start, _) in members.items()}
            late += max(starts, key=starts.get) == answer['culprit_ranks'][0]
        self.assertGreater(late, len(calls) // 3)

    def test_kernels_start_after_their_launch_and_one_at_a_time_on_a_stream(self):
        job(self.folder, '--seed', '9', '--tp', '2', '--pp', '2', '--dp', '2', '--steps', '6', '--quirk')
        for trace in load(self.folder).values():
            launches = {e['args']['correlation']: e for e in trace['traceEvents'] if e.get('cat') == 'cuda_runtime' and 'Synchronize' not in e['name']}
            streams = {}
            for e in kernels(trace):
                self.assertGreater(e['ts'], launches[e['args']['correlation']]['ts'])
                streams.setdefault(e['tid'], []).append((e['ts'], e['ts'] + e['dur']))
            for spans in streams.values():
                spans.sort()
                for (_, end), (start, _) in zip(spans, spans[1:]):
                    self.assertGreaterEqual(start, end - 0.01)

    def test_healthy_twin_is_the_same_before_the_fault(self):
        a = job(self.folder, '--seed', '12', '--dp', '4', '--steps', '10', '--quirk', '--fault', 'kernel-regression', '--factor', '2')
        before = a['since_step'] - a['steps'][0]
        self.assertGreater(before, 0)
        self.assertEqual(a['step_ms'][:before], a['step_ms_without_fault'][:before])
        self.assertGreater(a['impact_pct'], 1)

    def test_every_fault_and_variant_writes_what_it_says(self):
        for fault, variants in FAULTS.items():
            for variant in variants:
                with self.subTest(fault=fault, variant=variant), tempfile.TemporaryDirectory() as folder:
                    a = job(folder, '--seed', '21', '--pp', '2', '--dp', '2', '--steps', '6', '--quirk', '--fault', fault, '--variant', variant)
                    self.assertEqual(len([n for n in os.listdir(folder) if n != 'answer.json']), 4)
                    self.assertEqual((a['fault'], a['variant']), (fault, variant))
                    self.assertTrue(set(a['affected_steps']) <= set(range(a['steps'][0], a['steps'][1] + 1)))
                    if fault == 'none':
                        self.assertFalse(a['detectable'])
                        self.assertEqual(a['step_ms'], a['step_ms_without_fault'])

    def test_an_unpinnable_link_is_not_called_detectable(self):
        """One communicator over all ranks: no rank can be named."""
        a = job(self.folder, '--seed', '5', '--dp', '4', '--steps', '6', '--quirk', '--fault', 'comm-link', '--variant', 'rank', '--factor', '60')
        self.assertGreater(a['impact_pct'], 5)
        self.assertFalse(a['detectable'])

    def test_quirks_are_in_the_files(self):
        job(self.folder, '--seed', '8', '--dp', '2', '--tp', '2', '--steps', '6', '--gpu', 'a100', '--quirk', 'old-nccl-names', 'no-seq', 'no-pg-ranks', 'integer-us', 'no-base-time')
        for trace in load(self.folder).values():
            self.assertNotIn('baseTimeNanoseconds', trace)
            comm = [e for e in kernels(trace) if 'Collective name' in e['args']]
            self.assertTrue(comm)
            for e in comm:
                self.assertTrue(e['name'].startswith('ncclKernel_'), e['name'])
                self.assertNotIn('Seq', e['args'])
                self.assertNotIn('Process Group Ranks', e['args'])
            for e in kernels(trace):
                self.assertIsInstance(e['ts'], int)
                self.assertIsInstance(e['dur'], int)


class Layouts(unittest.TestCase):
    def test_groups_partition_the_world(self):
        for order in ('tp-dp-pp', 'tp-pp-dp'):
            layout = Layout(2, 4, 4, 2, order)
            for kind, groups in layout.groups.items():
                self.assertEqual(sorted(r for members in groups for r in members), list(range(32)), kind)
                for members in groups:
                    for r in members:
                        self.assertEqual(layout.group(r, kind), members)

    def test_order_names_the_fastest_first(self):
        self.assertEqual(Layout(2, 2, 2, 1, 'tp-dp-pp').group(0, 'dp'), (0, 2))
        self.assertEqual(Layout(2, 2, 2, 1, 'tp-pp-dp').group(0, 'dp'), (0, 4))


if __name__ == '__main__':
    unittest.main()
