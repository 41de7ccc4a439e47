#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep watch` beside a file system that stops to answer: it goes on with its other sources, says since when, ends and
begins when it is told, and loses nothing when the file system is back. The file system is a real one (hung_folder.py)."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import hung_folder

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOCKSTEP = os.path.abspath(os.environ.get('LOCKSTEP', ROOT / 'build/lockstep'))
FAST = ['--interval', '100ms', '--deadline', '700ms', '--suspect', '2s', '--suspect-steps', '1', '--hung', '6s', '--blind', '1500ms']
WORDS = r'its file system does not answer since \d\d:\d\d:\d\d UTC'


def helpers(pid):
    """{pid: state} of the children of a process."""
    found = {}
    for path in pathlib.Path('/proc').glob('[0-9]*/stat'):
        try:
            fields = path.read_text().rpartition(')')[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found[int(path.parent.name)] = fields[0]
    return found


@unittest.skipUnless(hung_folder.may_mount(), 'no FUSE file system can be mounted here')
class Hung(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.dir = pathlib.Path(scratch.name)
        self.far, self.near = self.dir / 'far', self.dir / 'near'
        for folder in self.far, self.near, self.far / 'ckpt', self.far / 'fr':
            folder.mkdir()
        self.shared = hung_folder.HungFolder(self.far)
        self.running = []
        self.addCleanup(self.end)
        self.step = 0

    def end(self):
        for p in self.running:
            p.kill()
        self.shared.close()     # before they are waited for: they may not be able to die
        for p in self.running:
            p.communicate()

    def train(self, *logs, n=1, first=None):
        first = self.step if first is None else first
        for log in logs:
            with open(log, 'a') as f:
                f.write(''.join(f'step {i}/100000 loss 1.25\n' for i in range(first, first + n)))
        self.step = first + n

    def start(self, *argv, state='state'):
        p = subprocess.Popen([LOCKSTEP, 'watch', '--json', *FAST, '--state', self.dir / state, '--metrics', self.dir / 'metrics', *argv],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        p.said = []
        threading.Thread(target=lambda: p.said.extend(json.loads(x) for x in p.stdout), daemon=True).start()
        self.running.append(p)
        return p

    def until(self, true, what, seconds=20, every=0.05):
        end = time.monotonic() + seconds
        while not (found := true()):
            self.assertLess(time.monotonic(), end, what() if callable(what) else what)
            time.sleep(every)
        return found

    def wait_for(self, p, matter, raised=True, **more):
        return self.until(lambda: next((x for x in p.said if x['matter'] == matter and x['raised'] == raised), None),
                          lambda: f'no {matter} in {p.said}', **more)

    def metric(self, name):
        text = (self.dir / 'metrics').read_text() if (self.dir / 'metrics').exists() else ''
        return next((float(x.split()[-1]) for x in text.splitlines() if x.startswith(f'lockstep_watch_{name}')), -1)

    def saw(self, step, seconds=20):
        self.until(lambda: self.metric('step') == step, lambda: f"{self.metric('step')} is not {step}", seconds)

    def sources(self):
        return ['--log', self.shared.path / '*.log', '--log', self.shared.path / 'one', '--checkpoints', self.shared.path / 'ckpt',
                '--dumps', self.shared.path / 'fr']

    def test_it_goes_on_and_says_since_when_and_nothing_is_lost(self):
        self.train(self.far / 'rank0.log', self.far / 'one', n=50)
        p = self.start(*self.sources(), '--log', self.near / 'near.log', '--state-command', f'cat {self.near}/word')
        (self.near / 'word').write_text('RUNNING\n')
        self.train(self.near / 'near.log', n=5, first=0)
        self.saw(49)
        self.shared.hang()
        began = time.monotonic()
        said = self.wait_for(p, 'blind')
        self.assertLess(time.monotonic() - began, 6)
        self.assertRegex(said['summary'], WORDS)
        # judged on, by what is near: steps, and the scheduler
        for step in 200, 201, 202:
            self.train(self.near / 'near.log', first=step)
            self.saw(step, 3)
        looked = self.metric('looked')
        time.sleep(1)
        self.assertGreaterEqual(self.metric('looked'), looked)
        # bounded: one that works, and those that cannot die
        for _ in range(30):
            self.train(self.near / 'near.log')
            states = list(helpers(p.pid).values())
            self.assertLessEqual(states.count('D'), 8, states)
            self.assertLessEqual(len(states), 16, states)
            time.sleep(0.2)
        self.assertIn('D', states)      # so it was a real one
        self.assertNotIn('hung', [x['matter'] for x in p.said])
        self.train(self.far / 'rank0.log', n=10, first=1000)
        self.shared.answer()
        self.wait_for(p, 'blind', raised=False)
        self.saw(1009)
        self.until(lambda: 'D' not in helpers(p.pid).values(), 'helpers that were stuck stay')
        (self.near / 'word').write_text('FAILED\n')
        self.shared.hang()
        self.wait_for(p, 'crashed')

    def test_it_ends_and_begins_anew_while_nothing_answers(self):
        self.train(self.far / 'rank0.log', n=50)
        p = self.start(*self.sources())
        self.saw(49)
        self.until(lambda: (self.dir / 'state/watch.json').exists(), 'no state')
        self.shared.hang()
        self.wait_for(p, 'blind')
        p.terminate()
        p.wait(3)
        # the helpers that cannot die hold nothing that the next one needs
        p = self.start(*self.sources())
        self.until(lambda: self.metric('looked') > 0, 'no look')
        self.assertIsNone(p.poll(), 'the state is still held')
        time.sleep(2)
        p.terminate()       # its cursors are kept though it saw nothing
        p.wait(3)
        p = self.start(*self.sources())
        self.train(self.far / 'rank0.log', n=10)
        self.shared.answer()
        self.saw(59)
        self.assertEqual([x['matter'] for x in p.said if x['raised'] and x['matter'] != 'blind'], [])
        cursors = {c['path']: c['offset'] for c in json.loads((self.dir / 'state/watch.json').read_text())['cursors']}
        self.assertEqual(list(cursors), [str(self.shared.path / 'rank0.log')])

    def test_one_path_that_hangs_holds_up_no_other_of_its_file_system(self):
        self.train(self.far / 'one', self.far / 'two', self.far / 'three', n=20)
        argv = [x for name in ('one', 'two', 'three') for x in ('--log', self.shared.path / name)]
        p = self.start(*argv)
        self.saw(19)
        self.shared.hang('/one')
        self.until(lambda: self.metric('source_silent{job="",source="' + f'{self.shared.path}/one') == 1 or self.silent('one'), 'one is not silent')
        for step in range(300, 310):
            self.train(self.far / 'three', first=step)
            self.saw(step, 3)
        self.assertFalse(self.silent('two') or self.silent('three'))
        self.shared.answer()
        self.until(lambda: not self.silent('one'), 'one stays silent', 70)
        self.assertNotIn('hung', [x['matter'] for x in p.said])

    def silent(self, name):
        lines = (self.dir / 'metrics').read_text().splitlines()
        return any('source_silent' in x and f'/{name}"' in x and x.endswith(' 1') for x in lines)

    def test_evidence_of_a_crash_comes_without_what_hangs(self):
        self.train(self.far / 'rank0.log', n=50)
        (self.near / 'word').write_text('RUNNING\n')
        self.train(self.near / 'near.log', n=5, first=0)
        p = self.start('--log', self.shared.path / '*.log', '--dumps', self.shared.path / 'fr', '--log', self.near / 'near.log',
                       '--state-command', f'cat {self.near}/word', '--evidence', self.dir / 'evidence', '--evidence-limit', '8s')
        self.saw(49)
        with open(self.near / 'near.log', 'a') as f:
            f.write('[rank1]: Traceback (most recent call last):\n[rank1]:   File "t.py", line 1, in <module>\n[rank1]: RuntimeError: boom\n')
        (self.near / 'word').write_text('FAILED\n')
        self.shared.hang()      # before anybody noticed
        said = self.wait_for(p, 'crashed')
        folder = pathlib.Path(said['detail']['evidence'])
        self.assertTrue(list(folder.rglob('near.log')))
        self.assertIn('diagnosis', said['detail'])

    def test_one_look_ends(self):
        self.train(self.far / 'rank0.log', n=50)
        self.shared.hang()
        began = time.monotonic()
        p = subprocess.run([LOCKSTEP, 'watch', '--once', '--deadline', '700ms', *self.sources()], capture_output=True, text=True, timeout=30)
        self.assertEqual(p.returncode, 2, p.stdout)
        self.assertRegex(p.stdout, WORDS)
        self.assertLess(time.monotonic() - began, 8)


if __name__ == '__main__':
    unittest.main(verbosity=1)
