#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep watch`: what it says of recordings made from published figures, and that it follows, survives and is never
silent. test_watch.py [test...]; LONG=1 takes the large numbers."""
import http.server
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / 'tests/gen'))
import watch_streams as ws  # noqa: E402
sys.path.insert(0, str(ROOT / 'tests'))
import checkpoint_saves as saves  # noqa: E402

LOCKSTEP = os.path.abspath(os.environ.get('LOCKSTEP', ROOT / 'build/lockstep'))
SEED = int(os.environ.get('SEED', random.randrange(1 << 30)))
LONG = bool(os.environ.get('LONG'))
FAST = ['--interval', '100ms', '--suspect', '600ms', '--suspect-steps', '1', '--hung', '2s', '--blind', '1s']
TRAIN = ('train', 600)


def commands_with(words):
    """Processes whose command line holds these words; a minimal system has no pgrep."""
    found = []
    for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
        try:
            line = path.read_bytes().replace(b'\0', b' ').decode(errors='replace')
        except OSError:
            continue
        found += [line] if words in line else []
    return found


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.dir = pathlib.Path(scratch.name)
        self.running = []
        self.addCleanup(self.end)

    def end(self):
        for p in self.running:
            if p.poll() is None:
                p.kill()
            p.communicate()

    def replay(self, lines, *more, sources=('--gpu-command', 'gpus', '--log', 'log')):
        path = self.dir / 'recording.jsonl'
        path.write_text('\n'.join(json.dumps(line) for line in lines) + '\n')
        r = subprocess.run([LOCKSTEP, 'watch', '--json', '--replay', path, *sources, *more], capture_output=True, text=True,
                           timeout=900)
        self.assertEqual(r.stderr, '')
        self.status = r.returncode
        return [json.loads(line) for line in r.stdout.splitlines()]

    def start(self, *argv, state='state'):
        p = subprocess.Popen([LOCKSTEP, 'watch', '--json', *FAST, '--state', self.dir / state, *argv], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        p.said = []
        p.thread = threading.Thread(target=lambda: p.said.extend(json.loads(x) for x in p.stdout), daemon=True)
        p.thread.start()
        self.running.append(p)
        return p

    def stop(self, p, number=signal.SIGTERM):
        p.send_signal(number)
        p.wait(10)
        p.thread.join(10)
        return p.said

    def wait_for(self, p, matter, raised=True, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for said in p.said:
                if said['matter'] == matter and said['raised'] == raised:
                    return said
            time.sleep(0.02)
        self.fail(f'no {matter} (raised {raised}) in {p.said}')

    def once(self, *argv):
        return subprocess.run([LOCKSTEP, 'watch', '--once', *argv], capture_output=True, text=True, timeout=60)


def hangs(said):
    return [x for x in said if x['matter'] == 'hung' and x['raised']]


class Power(Case):
    """Recordings of GPUs alone, and with a log."""

    def test_a_deadlock_is_found_on_every_board_at_every_interval(self):
        for board in ws.BOARDS:
            for poll in (1, 5, 15, 60):
                for shape, who in (('deadlock3', 'GPU 3'), ('allwait', 'few watts')):
                    for learnt in (False, True):
                        with self.subTest(board=board, poll=poll, shape=shape, learnt=learnt):
                            before = [TRAIN, ('save0', 120)] * 4 if learnt else []
                            phases = [*before, TRAIN, (shape, 1200)]
                            began = sum(s for _, s in phases[:-1])
                            every = 600 if LONG or poll > 1 else 1000
                            if poll == 1 and not LONG and (learnt or board != 'H100'):
                                continue
                            said = hangs(self.replay(ws.gpus(board, poll, SEED, phases, every=min(every, 60)),
                                                     sources=('--gpu-command', 'gpus')))
                            self.assertEqual(len(said), 1, said)
                            self.assertIn(who, said[0]['summary'])
                            self.assertLess(began, said[0]['t'])
                            self.assertLess(said[0]['t'] - began, 700)

    def test_columns_may_be_missing(self):
        phases = [TRAIN, ('save0', 120)] * 4 + [TRAIN, ('deadlock3', 1800)]
        began = sum(s for _, s in phases[:-1])
        for gone in ('utilization.gpu [%]', 'power.draw [W]', 'power.limit [W]', 'clocks.sm [MHz]', 'timestamp'):
            with self.subTest(missing=gone):
                columns = [c for c in ws.COLUMNS if c != gone]
                said = hangs(self.replay(ws.gpus('B300', 5, SEED, phases, columns=columns),
                                         sources=('--gpu-command', 'gpus')))
                self.assertEqual(len(said), 1, said)
                self.assertLess(began, said[0]['t'])
                if gone != 'utilization.gpu [%]':
                    self.assertIn('GPU 3', said[0]['summary'])

    def saves(self, poll, number, board, kinds, with_log):
        rng = random.Random(SEED + poll)
        phases = []
        for _ in range(number):
            phases += [('train', rng.uniform(60, 200)), (rng.choice(kinds), rng.uniform(90, 150))]
        phases.append(TRAIN)
        streams = [ws.gpus(board, poll, SEED, phases)]
        if with_log:
            streams.append(ws.log(SEED, phases, announced=rng.random() < 0.5))
        said = self.replay(ws.merged(*streams))
        self.assertEqual(hangs(said), [])
        self.assertEqual([x for x in said if x['matter'] in ('crashed', 'blind', 'idle', 'starved', 'loss')], [])

    def test_saves_and_evaluations_are_no_hangs(self):
        boards = list(ws.BOARDS)
        for i, kinds in enumerate((['save0'], ['saveall'], ['save0', 'evaluate', 'evaluate0'], ['saveall', 'evaluate0'])):
            for with_log in (False, True):
                for poll, number in ((1, 60 if LONG else 4), (10, 250 if LONG else 40), (60, 500 if LONG else 60)):
                    with self.subTest(kinds=kinds, with_log=with_log, poll=poll):
                        self.saves(poll, number, boards[(i + poll) % 3], kinds, with_log)

    def test_starved_and_throttled_are_told_and_are_no_hangs(self):
        for phase in ('starved', 'throttled'):
            for poll in (5, 60):
                phases = [TRAIN, TRAIN, (phase, 1500)]
                said = self.replay(ws.merged(ws.gpus('H100', poll, SEED, phases), ws.log(SEED, phases)))
                self.assertEqual(hangs(said), [])
                self.assertIn(phase, [x['matter'] for x in said])
                self.assertIn('slow', [x['matter'] for x in said])

    def test_a_deadlock_is_told_from_a_save_by_who_rests(self):
        before = [TRAIN, ('save0', 120)] * 4 + [TRAIN]
        began = sum(s for _, s in before)
        when = {}
        for shape in ('deadlock3', 'save0'):
            said = hangs(self.replay(ws.gpus('B300', 5, SEED, [*before, (shape, 1200)]), sources=('--gpu-command', 'gpus')))
            when[shape] = said[0]['t'] - began
        self.assertLess(when['deadlock3'], when['save0'])

    def test_a_log_alone_tells_a_hang_after_ten_minutes(self):
        phases = [TRAIN, ('deadlock3', 1500)]
        said = hangs(self.replay(ws.log(SEED, phases)))
        self.assertEqual(len(said), 1)
        self.assertTrue(600 <= said[0]['t'] - 600 <= 660, said)
        self.assertIn('since step', said[0]['summary'])

    def test_a_job_that_goes_on_is_no_longer_hung(self):
        phases = [TRAIN, ('deadlock3', 900), TRAIN]
        said = self.replay(ws.merged(ws.gpus('H100', 5, SEED, phases), ws.log(SEED, phases)))
        self.assertEqual([x['raised'] for x in said if x['matter'] == 'hung'], [True, False])

    def test_silence_is_blindness(self):
        phases = [TRAIN]
        lines = ws.merged(ws.gpus('H100', 5, SEED, phases), ws.log(SEED, phases))
        lines += [{'t': 600 + 30 * i, 'source': s, 'silent': 'connection refused'} for i in range(1, 30) for s in ('gpus', 'log')]
        said = self.replay(lines)
        self.assertIn('blind', [x['matter'] for x in said])
        self.assertNotEqual(self.status, 0)

    def test_the_scheduler_is_believed(self):
        lines = list(ws.log(SEED, [TRAIN]))
        for word, matter, status in (('COMPLETED', 'completed', 0), ('FAILED', 'crashed', 1), ('NODE_FAIL', 'crashed', 1)):
            said = self.replay([*lines, {'t': 700, 'source': 'slurm', 'text': word + '\n'}, {'t': 800}],
                               sources=('--log', 'log', '--state-command', 'slurm'))
            self.assertEqual([x['matter'] for x in said if x['raised']], [matter])
            self.assertEqual(self.status, status)

    def test_bad_recordings_are_refused_in_one_line(self):
        for text in ('{', '[]', '{"t":-1,"source":"log"}', '{"t":1,"source":"nobody"}', '{"t":"x"}', '{"t":1e300}'):
            path = self.dir / 'bad'
            path.write_text(text)
            r = subprocess.run([LOCKSTEP, 'watch', '--replay', path, '--log', 'log'], capture_output=True, text=True)
            self.assertEqual(r.returncode, 64, text)
            self.assertEqual(len(r.stderr.splitlines()), 1, r.stderr)


class Logs(Case):
    """Real files, followed."""

    def setUp(self):
        super().setUp()
        self.log = self.dir / 'train.log'
        self.step = 0

    def write(self, text, mode='a'):
        with open(self.log, mode) as f:
            f.write(text)

    def steps(self, n, path=None, pause=0.02):
        for _ in range(n):
            self.step += 1
            with open(path or self.log, 'a') as f:
                f.write(f'step {self.step}/1000 loss 1.25\n')
            time.sleep(pause)

    def hung_at(self, p):
        said = self.wait_for(p, 'hung')
        self.assertEqual(said['detail']['step'], self.step, said)
        return said

    def test_a_hang_is_told_with_its_step(self):
        p = self.start('--log', self.log)
        self.steps(60)
        self.hung_at(p)
        self.steps(5)
        said = self.wait_for(p, 'hung', raised=False)
        self.assertRegex(said['summary'], r'^goes on again at step 6\d after \d+ s$')

    def test_a_log_that_comes_late_is_found(self):
        p = self.start('--log', self.log)
        self.wait_for(p, 'blind')
        self.steps(60)
        self.wait_for(p, 'blind', raised=False)
        self.hung_at(p)

    def test_rotation_loses_no_line(self):
        p = self.start('--log', self.log)
        self.steps(50)
        for i in range(3):
            self.log.rename(self.dir / f'train.log.{i}')
            self.steps(3, path=self.dir / f'train.log.{i}', pause=0)  # the writer still has it open
            self.steps(20)
        self.hung_at(p)

    def test_truncation_and_replacement_are_followed(self):
        p = self.start('--log', self.log)
        self.steps(50)
        self.write('', 'w')  # copytruncate
        self.steps(20)
        new = self.dir / 'new'
        self.steps(10, path=new)
        new.rename(self.log)
        self.steps(20)
        self.hung_at(p)

    def test_long_lines_and_binary_are_survived(self):
        p = self.start('--log', self.log)
        self.steps(50)
        with open(self.log, 'ab') as f:
            block = b'x' * (1 << 20)
            for _ in range(100):
                f.write(block)
            f.write(b'\n')
            f.write(random.Random(SEED).randbytes(1 << 20) + b'\n')
        self.steps(20)
        self.hung_at(p)
        memory = [x for x in pathlib.Path(f'/proc/{p.pid}/status').read_text().splitlines() if x.startswith('VmHWM')][0]
        if 'asan' not in LOCKSTEP:
            self.assertLess(int(memory.split()[1]), 16 << 10, memory)

    def test_the_first_failing_rank_is_named(self):
        p = self.start('--log', self.dir / '*.log', '--until-end')
        self.steps(50, path=self.dir / 'rank0.log')
        (self.dir / 'rank3.log').write_text(
            '[rank3]: Traceback (most recent call last):\n[rank3]:   File "train.py", line 12, in <module>\n'
            '[rank3]:     main()\n[rank3]: ValueError: token id 263 out of range\n'
            'torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n'
            '============================================================\ntrain.py FAILED\n'
            '------------------------------------------------------------\nRoot Cause (first observed failure):\n'
            '[0]:\n  time      : 2026-11-02_10:11:12\n  host      : node07\n  rank      : 3 (local_rank: 3)\n'
            '  exitcode  : 1 (pid: 4711)\n  error_file: <N/A>\n'
            '  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n')
        said = self.wait_for(p, 'crashed')
        self.assertIn('rank 3', said['summary'])
        self.assertIn('ValueError', said['summary'])
        self.assertEqual(said['detail']['rank'], 3)
        self.assertEqual(p.wait(10), 1)

    def test_a_process_that_ended_is_told_by_its_status_not_by_its_command(self):
        p = self.start('--log', self.log, '--until-end')
        self.steps(30)
        self.write("vm-07: [2026-11-02 10:11:12,304] [ERROR] [launch.py:321:sigkill_handler] ['/opt/bin/python', '-u', "
                   "'train.py', '--local_rank=7'] exits with return code = 3\n")
        self.assertIn('a process ended with status 3', self.wait_for(p, 'crashed')['summary'])
        self.assertEqual(p.wait(10), 1)

    def test_words_that_are_no_utf8_are_told(self):
        p = self.start('--log', self.log, '--until-end', '--job', b'j\xff')
        self.steps(30)
        with open(self.log, 'ab') as f:
            f.write(b'[rank2]: Traceback (most recent call last):\n[rank2]:   File "a.py", line 1, in <module>\n'
                    b'[rank2]: RuntimeError: \xff\xfe caf\xc3\xa9 \xe2\x82\n'
                    b'srun: error: node01: task 2: Exited with exit code 1\n')
        said = self.wait_for(p, 'crashed')
        self.assertIn('café', said['summary'])
        self.assertEqual(said['job'], 'j?')
        self.assertEqual(p.wait(10), 1)

    def test_a_loss_that_is_no_number_is_told(self):
        p = self.start('--log', self.log)
        self.steps(30)
        self.write('step 31/1000 loss nan\nstep 32/1000 loss nan\n')
        self.wait_for(p, 'loss')

    def test_a_job_that_is_done_is_completed(self):
        self.write(''.join(f'step {i}/100 loss 1.0\n' for i in range(101)) + 'training completed\n')
        old = time.time() - 3600
        os.utime(self.log, (old, old))
        r = self.once('--log', self.log)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.assertIn('completed', r.stdout)

    def test_once_tells_by_the_status(self):
        self.write(''.join(f'step {i}/1000 loss 1.0\n' for i in range(100)))
        self.assertEqual(self.once('--log', self.log).returncode, 0)
        old = time.time() - 3600
        os.utime(self.log, (old, old))
        r = self.once('--log', self.log)
        self.assertEqual(r.returncode, 1, r.stdout)
        self.assertIn('hung', r.stdout)
        r = self.once('--log', self.dir / 'none')
        self.assertEqual(r.returncode, 2)
        self.assertRegex(r.stdout, r'^\S+ (starting|blind): .+No such file.*\n$')

    def test_once_says_one_line_whatever_is(self):
        self.write(''.join(f'step {i}/1000 loss 1.0\n' for i in range(100)))
        for more, status, said in (([], 0, 'healthy: step 99'), (['--log', 'none*'], 2, 'blind'),
                                   (['--endpoint', 'http://127.0.0.1:9/metrics'], 2, 'blind')):
            for state in ([], ['--state', self.dir / 'once'], ['--state', self.dir / 'once']):
                r = self.once('--log', self.log, *more, *state)
                self.assertEqual((r.returncode, len(r.stdout.splitlines())), (status, 1), r)
                self.assertIn(said, r.stdout)
        r = self.once('--log', self.log, '--template', self.dir / 'none')
        self.assertEqual((r.returncode, len(r.stderr.splitlines())), (64, 1), r)

    def test_once_alerts_with_the_usual_state(self):
        self.write(''.join(f'step {i}/1000 loss 1.0\n' for i in range(100)))
        os.utime(self.log, (time.time() - 3600,) * 2)
        r = subprocess.run([LOCKSTEP, 'watch', '--once', '--log', self.log, '--alert-command', 'cat > got'], cwd=self.dir,
                           capture_output=True, text=True, timeout=60)
        self.assertEqual((r.returncode, r.stderr), (1, ''))
        self.assertEqual(json.loads((self.dir / 'got').read_text())['key'], 'hung')
        self.assertEqual(r.stdout.count('hung'), 1, r.stdout)

    def test_a_failing_alert_is_said(self):
        self.write(''.join(f'step {i}/1000 loss nan\n' for i in range(100)))
        p = self.start('--log', self.log, '--alert-command', 'echo no >&2; exit 3')
        self.wait_for(p, 'loss')
        time.sleep(1)
        p.send_signal(signal.SIGTERM)
        p.wait(10)
        said = p.stderr.read().splitlines()
        self.assertEqual(len([x for x in said if 'not delivered' in x]), 1, said)

    def test_the_end_of_a_job_is_no_hang(self):
        for words in ('', 'done\n', 'Training ended after 60 steps\n', '[exiting program after 60 iterations]\n'):
            t, lines = 0, []
            for i in range(61):
                t = i * 5
                lines.append({'t': t, 'source': 'log', 'text': f'step {i}/60 loss 1.0\n'})
            lines += [{'t': t + 1, 'source': 'log', 'text': words}, {'t': t + 3600}]
            for more in ([], ['--hung', '20s', '--save-every', '60s']):
                said = self.replay(lines, *more, sources=('--log', 'log'))
                said = [x for x in said if x['matter'] != 'checkpoint-overdue' or x['t'] > t]
                self.assertEqual([x['matter'] for x in said if x['raised']], ['completed'], (words, said))

    def test_the_last_step_of_one_rank_is_not_the_jobs(self):
        for first, label, want in (('', '[rank3]: ', 'suspect'), ('[rank0]: rank 0 of world_size=16\n', '[rank0]: ', 'suspect'),
                                   ('', '[rank0]: ', 'completed'), ('', '', 'completed')):
            lines = [{'t': 0, 'source': 'log', 'text': first + f'{label}step 0/60 loss 1.0\n'}]
            lines += [{'t': i * 5, 'source': 'log', 'text': f'{label}step {i}/60 loss 1.0\n'} for i in range(1, 61)]
            said = self.replay(lines + [{'t': 3900}], sources=('--log', 'log'))
            self.assertEqual([x['matter'] for x in said if x['raised']], [want], (first, label))

    def test_what_is_no_file_is_not_replaced_by_metrics(self):
        self.write(''.join(f'step {i}/1000 loss 1.0\n' for i in range(100)))
        pipe = self.dir / 'pipe'
        os.mkfifo(pipe)
        r = self.once('--log', self.log, '--metrics', pipe)
        self.assertTrue(pipe.is_fifo())
        self.assertIn('no regular file', r.stderr)

    def test_a_signal_ends_the_wait_for_the_last_alerts(self):
        self.write(''.join(f'step {i}/1000 loss 1.0\n' for i in range(100)))
        old = time.time() - 3600
        os.utime(self.log, (old, old))
        p = subprocess.Popen([LOCKSTEP, 'watch', '--once', '--log', self.log, '--state', self.dir / 'state', '--alert-command', 'exit 1'],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(p.kill)
        self.assertIn('hung', p.stdout.readline())
        p.terminate()
        _, said = p.communicate(timeout=5)
        self.assertIn('not delivered', said)

    def test_a_journal_that_is_a_pipe_is_not_waited_for(self):
        (self.dir / 'state/alerts').mkdir(parents=True, mode=0o700)
        os.mkfifo(self.dir / 'state/alerts/alerts.log')
        r = self.once('--log', self.log, '--state', self.dir / 'state', '--alert-command', 'cat')
        self.assertIn('no regular file', r.stderr)
        self.assertNotEqual(r.returncode, 0)

    def test_odd_configuration_files(self):
        self.write(''.join(f'step {i}/1000 loss 1.0\n' for i in range(100)))
        config = self.dir / 'config'
        for text, status, said in ((f'\ufefflog = {self.log}\r\n'.encode(), 0, ''), (f'log = {self.log}\0x\n'.encode(), 64, 'line 1'),
                                   (f'log = {self.log}\n'.encode('utf-16'), 64, 'line 1')):
            config.write_bytes(text)
            r = self.once(f'-c{config}')
            self.assertEqual(r.returncode, status, r)
            self.assertIn(said, r.stderr)

    def test_names_of_files_may_look_like_patterns(self):
        folder = self.dir / 'run[1]'
        folder.mkdir()
        log = folder / 'a*[0].log'
        log.write_text(''.join(f'step {i}/1000 loss 1.0\n' for i in range(100)))
        for path in (log, folder):
            self.assertEqual(self.once('--log', path).returncode, 0, path)

    def test_a_log_that_is_given_twice_survives_a_restart(self):
        self.write(''.join(f'step {i}/1000 loss 1.0\n' for i in range(100)))
        for _ in range(3):
            r = self.once('--log', self.log, '--log', self.log, '--state', self.dir / 'state')
            self.assertEqual((r.returncode, r.stderr), (0, ''))

    def test_a_restart_repeats_nothing_and_misses_nothing(self):
        rng = random.Random(SEED)
        said = []
        p = self.start('--log', self.log)
        for _ in range(6):
            self.steps(30, pause=0.01)
            said += self.stop(p, rng.choice((signal.SIGTERM, signal.SIGKILL)))
            self.steps(10, pause=0.001)
            self.log.rename(self.dir / f'old.{self.step}')
            self.steps(10, pause=0.001)
            p = self.start('--log', self.log)
        hung = self.hung_at(p)
        self.assertNotIn('hung', [x['matter'] for x in said])
        time.sleep(0.5)
        said = self.stop(p)
        p = self.start('--log', self.log)  # it hangs on: that was said
        time.sleep(1.5)
        self.steps(5)
        self.wait_for(p, 'hung', raised=False)
        self.assertEqual(len(hangs(p.said)), 0, p.said)
        self.assertTrue(hung)

    def test_one_state_has_one_watcher(self):
        p = self.start('--log', self.log)
        time.sleep(0.5)
        r = subprocess.run([LOCKSTEP, 'watch', '--state', self.dir / 'state', '--log', self.log], capture_output=True, text=True,
                           timeout=20)
        self.assertEqual(r.returncode, 2)
        self.assertIn('another watcher', r.stderr)
        self.stop(p)


class Others(Case):
    def serve(self, page, hold=False):
        """An exporter; with hold it takes calls and never answers."""
        door = socket.socket()
        door.bind(('127.0.0.1', 0))
        door.listen(16)
        self.addCleanup(door.close)
        kept = []

        def loop():
            while True:
                try:
                    c, _ = door.accept()
                except OSError:
                    return
                kept.append(c)
                if hold:
                    continue
                c.recv(65536)
                body = page() if callable(page) else page
                c.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
                c.close()

        self.addCleanup(lambda: [c.close() for c in kept])
        threading.Thread(target=loop, daemon=True).start()
        return f'http://127.0.0.1:{door.getsockname()[1]}/metrics'

    def test_an_endpoint_tells_steps_and_gpus(self):
        step = [0]

        def page():
            step[0] += step[0] < 20
            return (f'lockstep_step{{job="a",rank="0"}} {step[0]}\n'
                    + ''.join(f'DCGM_FI_DEV_GPU_UTIL{{gpu="{i}",Hostname="h01"}} 100\n'
                              f'DCGM_FI_DEV_POWER_USAGE{{gpu="{i}",Hostname="h01"}} 600\n' for i in range(4))).encode()

        p = self.start('--endpoint', self.serve(page))
        said = self.wait_for(p, 'hung')
        self.assertEqual(said['detail']['step'], 20)

    def test_nobody_who_hangs_holds_it_up(self):
        log = self.dir / 'log'
        odd = 100000 + SEED
        p = self.start('--log', log, '--endpoint', self.serve(b'', hold=True), '--gpu-command', f'sleep {odd}',
                       '--state-command', f'sleep {odd} & sleep {odd}', '--log-command', 'exit 3', '--deadline', '300ms')
        for i in range(60):
            with open(log, 'a') as f:
                f.write(f'step {i}/100 loss 1.0\n')
            time.sleep(0.05)
        self.wait_for(p, 'hung')
        said = self.wait_for(p, 'blind')
        self.assertIn('partly blind', said['summary'])
        self.stop(p)
        time.sleep(0.2)
        self.assertEqual(commands_with(f'sleep {odd}'), [])

    def test_one_who_may_take_longer_than_a_look_holds_it_up_neither(self):
        log = self.dir / 'log'
        p = self.start('--log', log, '--endpoint', self.serve(b'', hold=True), '--deadline', '60s')
        for i in range(40):
            with open(log, 'a') as f:
                f.write(f'step {i}/100 loss 1.0\n')
            time.sleep(0.05)
        self.wait_for(p, 'hung')

    def test_a_command_may_print_for_ever_or_once(self):
        stream = ("python3 -uc \"import time\nprint('index, utilization.gpu [%], power.draw [W], power.limit [W]')\n"
                  "while True:\n for i in range(4): print(f'{i}, 100 %, 600 W, 700 W')\n time.sleep(0.05)\"")
        p = self.start('--gpu-command', stream, '--deadline', '2s', '--metrics', self.dir / 'metrics', '--listen',
                       self.dir / 'door', '--blind', '20s')
        metrics = self.dir / 'metrics'
        self.until(lambda: metrics.exists() and 'state="healthy"} 1' in metrics.read_text())
        time.sleep(1)
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(self.dir / 'door'))
            s.sendall(b'GET /metrics HTTP/1.0\r\n\r\n')
            page = b''.join(iter(lambda: s.recv(65536), b'')).decode()
        self.assertIn('lockstep_watch_state{job="",state="healthy"} 1', page)
        self.stop(p)
        self.assertIn('state="healthy"} 1', (self.dir / 'metrics').read_text(), p.said)

    def test_checkpoints_are_overdue(self):
        folder = self.dir / 'ckpt'
        folder.mkdir()
        log = self.dir / 'log'
        p = self.start('--log', log, '--checkpoints', folder, '--save-every', '1s', '--hung', '60s', '--suspect', '30s')
        for i in range(70):
            with open(log, 'a') as f:
                f.write(f'step {i}/100 loss 1.0\n')
            if i % 10 == 0 and i < 30:
                (folder / f'step_{i}.pt').write_bytes(b'x' * 1000)
            time.sleep(0.1)
        said = self.wait_for(p, 'checkpoint-overdue')
        self.assertIn('no checkpoint for', said['summary'])

    def test_a_save_is_over_when_its_last_file_is_there(self):
        """File after file with pauses longer than a look, then torn for good: one save each, and what the torn one lacks is said."""
        lacks = {saves.hf: 'no trainer_state.json', saves.hf_deepspeed: 'no trainer_state.json', saves.deepspeed: 'latest still says 100',
                 saves.megatron: 'latest_checkpointed_iteration.txt still says 100', saves.lightning: 'its table is not there',
                 saves.megatron_dist: 'latest_checkpointed_iteration.txt still says 100', saves.dcp: 'no .metadata',
                 saves.hf_staged: 'its name is a temporary one', saves.nemo: 'it is marked as -unfinished'}
        watched = []
        for layout, why in lacks.items():
            folder = self.dir / layout.__name__
            for item in layout(100):
                saves.write(folder, item)
            (self.dir / f'{layout.__name__}.log').write_text('step 100/1000 loss 1.0\n')
            p = self.start('--log', self.dir / f'{layout.__name__}.log', '--checkpoints', folder, '--save-every', '8s', '--hung', '90s',
                           '--suspect', '60s', state=f'state-{layout.__name__}')
            watched.append((p, layout, why, folder, [*layout(200)], [*layout(300)][:-1]))
        time.sleep(0.5)
        for k in range(20):     # all of the one, and the other but for its last file
            for p, layout, _, folder, new, torn in watched:
                if k < len(new):
                    item = new[k]
                    if layout is saves.lightning and k == 0:
                        item = (item[0], item[1][:len(item[1]) // 2])
                    saves.write(folder, item)
                if layout is saves.lightning and k == 1:
                    saves.write(folder, new[0])
                with open(self.dir / f'{layout.__name__}.log', 'a') as f:
                    f.write(f'step {101 + k}/1000 loss 1.0\n')
            time.sleep(0.3)
        for _, layout, _, folder, _, torn in watched:
            for name, data in torn if layout is not saves.lightning else [(saves.lightning(300)[0][0], saves.lightning(300)[0][1][:99])]:
                saves.write(folder, (name, data))
        for p, layout, why, _, _, _ in watched:
            said = self.wait_for(p, 'checkpoint-overdue')
            self.assertIn('the last save has not ended', said['summary'], layout)
            self.assertIn(why.replace('100', '200'), said['summary'], layout)
            self.stop(p)
            state = json.loads((self.dir / f'state-{layout.__name__}/watch.json').read_text())
            self.assertEqual(state['watch']['save_begins'], 2, layout)

    def test_a_folder_of_many_files_is_bounded(self):
        folder = self.dir / 'many'
        folder.mkdir()
        for i in range(20000):
            (folder / str(i)).touch()
        log = self.dir / 'log'
        p = self.start('--log', log, '--checkpoints', folder, '--dumps', folder)
        for i in range(60):
            with open(log, 'a') as f:
                f.write(f'step {i}/100 loss 1.0\n')
            time.sleep(0.03)
        self.wait_for(p, 'hung')

    def test_evidence_is_kept_and_diagnosed(self):
        log = self.dir / 'run' / 'train.log'
        log.parent.mkdir()
        p = self.start('--log', log, '--evidence', self.dir / 'evidence', '--collect-command',
                       'echo more > "$LOCKSTEP_EVIDENCE/more.log"; echo told')
        for i in range(60):
            with open(log, 'a') as f:
                f.write(f'step {i}/100 loss 1.0\n')
            time.sleep(0.02)
        with open(log, 'a') as f:
            f.write('[rank1]:[E1102 10:11:12.123 ProcessGroupNCCL.cpp:632] [Rank 1] Watchdog caught collective operation '
                    'timeout: WorkNCCL(SeqNum=77, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for '
                    '600017 milliseconds before timing out.\n')
        said = self.wait_for(p, 'hung')
        folder = pathlib.Path(said['detail']['evidence'])
        self.assertIn('ALLREDUCE', (folder / 'logs/0/run/train.log').read_text())
        self.assertEqual((folder / 'more.log').read_text(), 'more\n')
        self.assertEqual((folder / 'collected.txt').read_text(), 'told\n')
        self.assertIn('verdict', said['detail']['diagnosis'])

    def receiver(self):
        """A webhook; it answers 500 now and then, and knows a repeat by its id."""
        rng, got = random.Random(SEED), []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
                bad = LONG and rng.random() < 0.2
                if not bad and body['id'] not in {x['id'] for x in got}:
                    got.append(body)
                self.send_response(500 if bad else 200)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f'http://127.0.0.1:{server.server_port}/hook', got

    def test_killed_at_random_it_alerts_once_and_resolves_once(self):
        rng = random.Random(SEED)
        url, got = self.receiver()
        log = self.dir / 'log'
        step, incidents = 0, 8 if LONG else 2
        for incident in range(incidents):
            for _ in range(60):
                step += 1
                with open(log, 'a') as f:
                    f.write(f'step {step}/100000 loss 1.0\n')
            for _ in range(25 if LONG else 5):
                p = self.start('--log', log, '--webhook', url, '--hung', '2s')
                time.sleep(rng.uniform(0.01, 0.5))
                self.stop(p, signal.SIGKILL)
            p = self.start('--log', log, '--webhook', url)
            self.until(lambda: len(got) == 2 * incident + 1)

            def went_on():  # until that is told, however often the receiver fails: else it hangs again before
                nonlocal step
                step += 1
                with open(log, 'a') as f:
                    f.write(f'step {step}/100000 loss 1.0\n')
                return len(got) == 2 * incident + 2
            self.until(went_on)
            self.stop(p)
        time.sleep(0.5)
        self.assertEqual(len(got), 2 * incidents, got)
        self.assertEqual({x['key'] for x in got}, {'hung'})
        self.assertEqual([x['what'] for x in got], ['raised', 'resolved'] * incidents)

    def until(self, true, seconds=40):
        end = time.monotonic() + seconds
        while not true():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def test_the_alert_names_the_culprit_of_a_real_deadlock(self):
        data = pathlib.Path(os.environ.get('LOCKSTEP_SHARED') or ROOT / '../shared') / 'data/hang/fsdp_epoch_end'
        if not data.exists():
            self.skipTest('skipped: no shared data')
        logs, dumps = self.dir / 'logs', self.dir / 'dumps'
        logs.mkdir()
        dumps.mkdir()
        (logs / 'early.log').write_text('step 1/100 loss 1.0\nstep 2/100 loss 1.0\n')
        p = self.start('--log', logs, '--dumps', dumps, '--evidence', self.dir / 'evidence')
        time.sleep(0.5)
        for path in sorted(data.iterdir()):
            if 'nccl_trace' in path.name:
                (dumps / path.name).write_bytes(path.read_bytes())
        said = self.wait_for(p, 'hung')
        self.assertEqual(said['detail']['diagnosis']['culprits']['ranks'], [2], said)
        self.assertIn('rank 2', said['summary'])

    def test_options_may_stand_in_a_file(self):
        log = self.dir / 'log'
        log.write_text('step 1/100 loss 1.0\nstep 2/100 loss 1.0\n')
        config = self.dir / 'watch.ini'
        config.write_text(f'# a job\n[watch]\njob = mine\nlog = {log}\njson = no\nonce = yes\n')
        r = subprocess.run([LOCKSTEP, 'watch', '--config', config], capture_output=True, text=True, timeout=20)
        self.assertEqual(r.returncode, 0, r.stderr)
        for bad in ('log', 'nothing = 1', 'json = perhaps', 'interval = soon', 'config = x'):
            config.write_text(f'log = {log}\n{bad}\n')
            r = subprocess.run([LOCKSTEP, 'watch', '--once', '--config', config], capture_output=True, text=True, timeout=20)
            self.assertEqual(r.returncode, 64, bad)
            self.assertEqual(len(r.stderr.splitlines()), 1, r.stderr)

    def test_a_broken_state_is_no_end(self):
        log = self.dir / 'log'
        log.write_text('step 1/100 loss 1.0\nstep 2/100 loss 1.0\n')
        (self.dir / 'state').mkdir()
        for text in ('', '{}', '[1', '{"watch":{"version":1,"mono_ms":-5}}', '{"watch":{"version":1,"ranks":[[1]],"gpus":[3]}}'):
            (self.dir / 'state/watch.json').write_text(text)
            r = self.once('--log', log, '--state', self.dir / 'state')
            self.assertEqual(r.returncode, 0, text + r.stdout + r.stderr)


if __name__ == '__main__':
    print(f'seed {SEED}')
    unittest.main()
