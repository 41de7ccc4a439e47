#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Claims about the generator of hangs: what it writes is well formed, repeatable, and shows what its answers say."""
import json
import os
import pathlib
import pickle
import random
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hang_faults import FAULTS  # noqa: E402
from hang_fr import Dialect, as_json, dump_of, encode  # noqa: E402
from hang_plan import KINDS, Job  # noqa: E402
from hang_sim import Call, Do, Sim  # noqa: E402
from make_hangs import make_scene  # noqa: E402


def job_of(kind, backend, steps=3, world=16):
    job = Job(random.Random(7), kind, world, backend)
    sim = Sim(backend)
    for r in range(world):
        sim.add(r, [x for k in range(steps) for x in job.step_program(r, k)])
    return job, sim


def files_of(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in pathlib.Path(folder).rglob('*') if f.is_file()}


class Simulation(unittest.TestCase):
    def test_every_kind_of_job_ends_when_nothing_is_wrong(self):
        for kind in KINDS:
            for backend in ('nccl', 'gloo'):
                with self.subTest(kind=kind, backend=backend):
                    _, sim = job_of(kind, backend)
                    self.assertEqual(sim.run().hung(), [])
                    self.assertEqual({r.stands for r in sim.ranks.values()}, {('done', None)})

    def test_all_wait_for_the_rank_that_is_held(self):
        for kind in KINDS:
            with self.subTest(kind=kind):
                _, sim = job_of(kind, 'nccl')
                sim.ranks[5].program.insert(0, Do('hold', where='gc'))
                self.assertEqual(sim.run().hung(), [r for r in range(16) if r != 5])

    def test_nccl_runs_ahead_and_gloo_does_not(self):
        ahead = {}
        for backend in ('nccl', 'gloo'):
            _, sim = job_of('tp-dp', backend)
            sim.ranks[0].program.insert(0, Do('hold', where='gc'))
            sim.run()
            ahead[backend] = max(sum(not c.done.known for c in r.calls) for r in sim.ranks.values())
        self.assertGreater(ahead['nccl'], 5)
        self.assertLess(ahead['gloo'], 5)

    def test_a_call_of_another_size_never_ends(self):
        job, sim = job_of('ddp', 'nccl')
        call = next(x for x in sim.ranks[3].program if isinstance(x, Call))
        call.ins = call.outs = [[call.ins[0][0] + 1]]
        self.assertEqual(sim.run().hung(), list(range(16)))


class Dumps(unittest.TestCase):
    def setUp(self):
        self.job, self.sim = job_of('tp-pp-dp', 'nccl')
        self.sim.run()
        self.dialect = Dialect(random.Random(1), 'nccl')
        self.dump = dump_of(self.dialect, self.job, self.sim, 3, .5, random.Random(1))

    def test_every_pickle_says_what_was_written(self):
        for form in ('native', 'pickle2', 'pickle4', 'pickle5'):
            self.assertEqual(pickle.loads(encode(form, self.dump)), self.dump)

    def test_the_native_pickle_imports_nothing(self):
        import pickletools
        names = {op.name for op, _, _ in pickletools.genops(encode('native', self.dump))}
        self.assertFalse(names & {'GLOBAL', 'STACK_GLOBAL', 'REDUCE', 'INST', 'OBJ', 'NEWOBJ', 'BUILD'})
        self.assertTrue({'BINPUT', 'BINGET', 'TUPLE2', 'SETITEMS', 'APPENDS'} <= names)

    def test_the_json_twin_has_no_frames_and_no_null(self):
        twin = json.loads(as_json(self.dump))
        self.assertEqual(len(twin['entries']), len(self.dump['entries']))
        self.assertFalse(any('frames' in e or None in e.values() for e in twin['entries']))

    def test_the_ring_keeps_the_last_entries(self):
        whole = self.dump['entries']
        self.dialect.ring = 10
        self.assertEqual(dump_of(self.dialect, self.job, self.sim, 3, .5, random.Random(1))['entries'], whole[-10:])


class Scenes(unittest.TestCase):
    def test_every_fault_comes_about_and_its_answer_is_whole(self):
        for name in FAULTS:
            with self.subTest(fault=name), tempfile.TemporaryDirectory() as t:
                folder, a = make_scene('claims/0', t, [name], **({'world': 24} if name == 'node-silent' else {}))
                self.assertGreater(len(files_of(folder)), 1)
                self.assertTrue({'verdict', 'culprit_ranks', 'cause', 'decidable', 'what', 'sources'} <= a.keys())
                self.assertTrue(all(0 <= r < a['world_size'] for r in a['culprit_ranks']))
                self.assertTrue(a['decidable'] or not a['culprit_ranks'])

    def test_the_same_seed_makes_the_same_files(self):
        with tempfile.TemporaryDirectory() as t:
            one, two = (make_scene('claims/1', os.path.join(t, x), ['hold'], world=8, sources='DLS')[0] for x in 'ab')
            self.assertEqual(files_of(one), files_of(two))

    def test_a_rank_that_is_gone_leaves_no_dump(self):
        with tempfile.TemporaryDirectory() as t:
            folder, a = make_scene('claims/2', t, ['killed'], world=8, sources='D')
            self.assertEqual(len(files_of(folder)) - 1, 7)
            self.assertEqual(len(a['culprit_ranks']), 1)


if __name__ == '__main__':
    unittest.main()
