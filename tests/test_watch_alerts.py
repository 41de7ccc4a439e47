#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job that hangs now and then, its watcher killed at random, a receiver that fails: each hang is alerted once and
resolved once, and the end of the job too. test_watch_alerts.py ALERT_DRIVER; WATCH_KILLS: how often (default 200)."""
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import test_alerts

LOCKSTEP = os.path.abspath(os.environ.get('LOCKSTEP', pathlib.Path(__file__).resolve().parents[1] / 'build/lockstep'))
KILLS = int(os.environ.get('WATCH_KILLS', '200'))
SEED = int(os.environ.get('SEED', str(random.randrange(10**6))))
FAST = ['--interval', '100ms', '--suspect', '1s', '--suspect-steps', '2', '--hung', '2s', '--least', 'critical']


class Job(threading.Thread):
    """Writes a log; hangs, until its hang is alerted; goes on, until that is resolved."""

    def __init__(self, log, receiver):
        super().__init__(daemon=True)
        self.log, self.receiver, self.rng = log, receiver, random.Random(SEED)
        self.step, self.hangs, self.over, self.wrong = 0, 0, False, None

    def count(self, what):
        return sum(b['key'] == 'hung' and b['what'] == what for b in self.receiver.bodies())

    def train(self, enough):
        end = time.time() + 60
        while not enough():
            if time.time() > end:
                self.wrong = f'in vain: hang {self.hangs} of seed {SEED}'
                return
            self.step += 1
            with open(self.log, 'a') as f:
                f.write(f'iteration {self.step}/1000000 | lm loss: 5.6E+00 |\n')
            time.sleep(0.05)

    def run(self):
        while not self.over and not self.wrong:
            until = time.time() + self.rng.uniform(0.5, 2)
            self.train(lambda: time.time() > until and self.count('resolved') == self.hangs)
            if self.over or self.wrong:
                break
            self.hangs += 1
            end = time.time() + 60
            while self.count('raised') < self.hangs and not self.wrong:
                if time.time() > end:
                    self.wrong = f'hang {self.hangs} of seed {SEED} is not told'
                time.sleep(0.02)
        self.train(lambda: self.wrong or self.count('resolved') == self.hangs)


class WatchAlerts(unittest.TestCase):
    def test_killed_at_random_each_hang_is_told_once(self):
        rng = random.Random(SEED)
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        folder = pathlib.Path(scratch.name)
        receiver = test_alerts.Receiver()
        self.addCleanup(receiver.close)
        receiver.behave = lambda n: rng.choice([200] * 7 + [500, 'lost', 'reset'])
        job = Job(folder / 'log', receiver)
        words = [LOCKSTEP, 'watch', '--job', 'llm', '--log', folder / 'log', '--state', folder / 'state', *FAST,
                 '--webhook', receiver.url]
        env = {**os.environ, 'no_proxy': '*'}
        job.start()
        for kill in range(KILLS):
            p = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL)
            try:
                time.sleep(rng.choice([rng.uniform(0, 0.3), rng.uniform(0, 1), rng.uniform(2, 4)]))
                self.assertIsNone(p.poll(), 'it ended by itself')
            finally:
                p.send_signal(signal.SIGKILL)
                p.wait()
            self.assertIsNone(job.wrong)
        job.over = True
        p = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL)
        try:
            job.join(120)
            self.assertIsNone(job.wrong)
            time.sleep(1)
        finally:
            p.send_signal(signal.SIGTERM)
            p.wait(30)
        whats = [b['what'] for b in receiver.bodies() if b['key'] == 'hung']
        self.assertEqual(whats, ['raised', 'resolved'] * job.hangs, f'seed {SEED}')
        self.assertEqual({b['key'] for b in receiver.bodies()} - {'hung'}, set())
        print(f'seed {SEED}: {KILLS} kills, {job.hangs} hangs, {len(receiver.tries)} tries, {receiver.repeats} repeats '
              'with their key', file=sys.stderr)


if __name__ == '__main__':
    unittest.main()
