# SPDX-License-Identifier: Apache-2.0
"""`lockstep run`: the job is unchanged by it, begun again only where that can help, and never ended without evidence."""
import json
import os
import pathlib
import pty
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
LOCKSTEP = os.path.abspath(os.environ.get('LOCKSTEP', HERE.parent / 'build/lockstep'))
TRAINER = [sys.executable, str(HERE / 'run_trainer.py')]
OOM = 'torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.1 GiB'
RENDEZVOUS = 'torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError'
ERROR = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f()\nValueError: bad'


def alive(pid):
    try:
        with open(f'/proc/{pid}/stat') as f:
            return f.read().rsplit(')', 1)[1].split()[0] != 'Z'
    except OSError:
        return False


class Run(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix='lockstep-run-'))
        self.addCleanup(shutil.rmtree, self.dir)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(('LOCKSTEP_', 'TORCH_', 'SLURM_'))}

    def argv(self, *options, cmd):
        return [LOCKSTEP, 'run', '--no-preflight', '--no-trace', '--out', 'out', '--retry-delay', '0', *options, '--', *cmd]

    def run_it(self, *options, cmd, env=None, timeout=60, text=True, **more):
        r = subprocess.run(self.argv(*options, cmd=cmd), capture_output=True, text=text, cwd=self.dir,
                           env=dict(self.env, **env or {}), timeout=timeout, **more)
        if text:  # long lines are wrapped
            r.lines = r.stderr.splitlines()
            r.stderr = r.stderr.replace('\nlockstep: run:   ', ' ')
        return r

    def train(self, words, *options, **more):
        r = self.run_it(*options, cmd=[*TRAINER, words], **more)
        with open(self.dir / 'tries') as f:
            return r, self.report(), [json.loads(line) for line in f]

    def report(self, out='out'):
        with open(self.dir / out / 'run.json') as f:
            return json.load(f)

    def test_output_passes_unchanged_and_is_kept(self):
        program = ('import os, sys\nfor i in range(300):\n os.write(1, bytes(range(256)) * 97)\n'
                   ' os.write(2, b"e%d\\r\\n" % i)\nsys.exit(3)')
        r = self.run_it('--retries', '0', cmd=[sys.executable, '-c', program], text=False)
        self.assertEqual(r.returncode, 3)
        self.assertEqual(r.stdout, bytes(range(256)) * 97 * 300)
        errors = [line for line in r.stderr.split(b'\n') if not line.startswith(b'lockstep:')]
        self.assertEqual(b'\n'.join(errors), b''.join(b'e%d\r\n' % i for i in range(300)))
        self.assertEqual(len((self.dir / 'out/attempt-1/output.log').read_bytes()),
                         len(r.stdout) + sum(len(b'e%d\r\n' % i) for i in range(300)))

    def test_one_file_for_both_keeps_their_order(self):
        program = 'import os\nfor i in range(2000):\n os.write(1 + i % 2, b"%d\\n" % i)'
        with open(self.dir / 'both', 'wb') as f:
            subprocess.run(self.argv(cmd=[sys.executable, '-c', program]), stdout=f, stderr=f, cwd=self.dir, env=self.env,
                           timeout=30, check=True)
        lines = [n for n in (self.dir / 'both').read_text().split('\n') if n.isdigit()]
        self.assertEqual(lines, [str(i) for i in range(2000)])

    def test_statuses_are_those_of_a_shell(self):
        for cmd, status in ((['true'], 0), (['sh', '-c', 'exit 9'], 9), (['sh', '-c', 'kill -9 $$'], 137),
                            (['sh', '-c', 'kill -15 $$'], 143), (['/nowhere/x'], 127), (['/tmp'], 126)):
            self.assertEqual(self.run_it('--retries', '0', cmd=cmd).returncode, status, cmd)
        self.assertEqual(self.run_it(cmd=[]).returncode, 64)
        self.assertEqual(self.run_it('--on-hang', 'panic', cmd=['true']).returncode, 64)

    def test_a_folder_that_is_taken_is_left_alone(self):
        self.run_it(cmd=['true'])
        self.assertIn('out.2', self.run_it(cmd=['true']).stderr)
        self.assertEqual(self.report('out.2')['status'], 0)

    def test_a_reader_that_leaves_does_not_end_the_job(self):
        program = 'import os\nfor i in range(3000):\n os.write(1, b"x" * 1000)\nopen("whole", "w").close()'
        p = subprocess.Popen(self.argv(cmd=[sys.executable, '-c', program]), stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, cwd=self.dir, env=self.env)
        p.stdout.read(10)
        p.stdout.close()
        self.assertEqual(p.wait(30), 0)
        self.assertTrue((self.dir / 'whole').exists())
        self.assertEqual((self.dir / 'out/attempt-1/output.log').stat().st_size, 3000000)

    def test_pipes_in_it_end_as_ever(self):
        r = self.run_it(cmd=['bash', '-c', 'yes | head -1 > /dev/null; echo ${PIPESTATUS[0]}'])
        self.assertEqual(r.stdout, '141\n')

    def test_a_terminal_stays_one(self):
        master, slave = pty.openpty()
        import fcntl
        import termios
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 33, 77, 0, 0))
        program = 'import os, sys; print(os.isatty(1), os.isatty(2), os.get_terminal_size(1).columns)'
        p = subprocess.Popen(self.argv(cmd=[sys.executable, '-c', program]), stdout=slave, stderr=slave, cwd=self.dir,
                             env=self.env)
        self.assertEqual(p.wait(30), 0)
        os.close(slave)
        text = b''
        try:
            while chunk := os.read(master, 4096):
                text += chunk
        except OSError:
            pass
        self.assertIn(b'True True 77\r\n', text)

    def test_signals_reach_the_whole_group_and_end_all(self):
        program = ('import os, signal, sys, time\nsignal.signal(10, lambda *a: print("usr1", flush=True))\n'
                   'signal.signal(15, lambda *a: sys.exit(5))\nprint("up", flush=True)\nwhile True: time.sleep(.05)')
        p = subprocess.Popen(self.argv(cmd=[sys.executable, '-c', program]), stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, cwd=self.dir, env=self.env, text=True)
        self.assertEqual(p.stdout.readline(), 'up\n')
        p.send_signal(signal.SIGUSR1)
        self.assertEqual(p.stdout.readline(), 'usr1\n')
        p.send_signal(signal.SIGTERM)
        self.assertIn('asked it to end', p.communicate(timeout=30)[1])
        self.assertEqual(p.returncode, 5)
        self.assertEqual(self.report()['attempts'][0]['asked_to_end'], 15)

    def test_the_table_of_causes(self):
        for words, tries, cause in ((f'say 12 {OOM}|ok', 1, 'out-of-memory'), (f'say 0 {RENDEZVOUS}|ok', 2, 'rendezvous'),
                                    (f'say 0 {ERROR}|ok', 1, 'exception'), (f'say 12 {ERROR}|ok', 2, 'exception'),
                                    ('exit 0 1|ok', 1, None), ('die 15 9|ok', 2, None)):
            shutil.rmtree(self.dir / 'out', ignore_errors=True)
            (self.dir / 'tries').unlink(missing_ok=True)
            r, report, seen = self.train(words if not words.startswith('exit 0') else 'say 0 no|ok')
            self.assertEqual(len(seen), tries, (words, r.stderr))
            self.assertEqual(r.returncode == 0, tries == 2, words)
            if cause:
                self.assertEqual(report['attempts'][0]['cause'], cause)

    def test_the_same_failure_at_the_same_step_is_not_tried_thrice(self):
        r, report, seen = self.train(f'say 12 {ERROR}')
        self.assertEqual(len(seen), 2)
        self.assertIn('step 12 twice', report['attempts'][1]['why'])
        self.assertEqual(r.returncode, 1)

    def test_a_storm_stops(self):
        r, report, seen = self.train(f'say 0 {RENDEZVOUS}', '--storm', '3')
        self.assertEqual(len(seen), 3)
        self.assertIn('none got further', report['attempts'][2]['why'])

    def test_gain_lets_it_go_on(self):
        r, report, seen = self.train('die 12 9|die 22 9|die 29 9|ok', '--checkpoints', 'ckpt', '--storm', '2')
        self.assertEqual((r.returncode, len(seen)), (0, 4), r.stderr)
        self.assertEqual([a['from']['step'] for a in report['attempts']], [None, 10, 20, 20])

    def test_it_begins_at_the_newest_whole_checkpoint_and_names_the_torn(self):
        import checkpoint_made as made
        for step in 10, 20:
            made.write(f'{self.dir}/ckpt/step_{step}.pt', made.torch_zip(made.state(step)))
        os.truncate(self.dir / 'ckpt/step_20.pt', 500)
        r, report, seen = self.train('ok', '--checkpoints', 'ckpt', '--resume-args', '--from "{checkpoint}" --at={step}')
        path = str(self.dir.resolve() / 'ckpt/step_10.pt')
        self.assertEqual(seen[0]['argv'], ['--from', path, '--at=10'])
        self.assertEqual((seen[0]['env']['LOCKSTEP_RESUME'], seen[0]['env']['LOCKSTEP_RESUME_STEP']), (path, '10'))
        self.assertIn('passed over', r.stderr)
        self.assertIn('step_20.pt', report['attempts'][0]['from']['passed_over'][0]['path'])
        self.assertTrue(r.stdout.startswith('step 11/30'))
        (self.dir / 'tries').unlink()
        _, report, seen = self.train('ok', '--checkpoints', 'ckpt', '--fresh', '--out', 'fresh')
        self.assertNotIn('LOCKSTEP_RESUME', seen[0]['env'])

    def test_a_notification_that_prints_without_end_fills_no_disk(self):
        r = self.run_it('--retries', '0', '--notify-command', 'exec head -c 100G /dev/zero', cmd=['false'], timeout=50)
        self.assertEqual(r.returncode, 1)
        self.assertLess((self.dir / 'out/attempt-1.notify.log').stat().st_size, 8 << 30)

    def test_names_of_checkpoints_stay_on_their_line(self):
        folder = self.dir / 'saves'
        folder.mkdir()
        (folder / 'ckpt\n\x1b[31m_6.pt').write_bytes(b'torn')
        r = self.run_it('--checkpoints', folder, cmd=['true'])
        self.assertIn('passed over', r.stderr)
        self.assertNotIn('\x1b', r.stderr)
        self.assertTrue(all(line.startswith('lockstep: ') for line in r.stderr.splitlines()), r.stderr)

    def test_weights_only_leaves_optimizer_files_out_where_the_form_allows_it(self):
        import checkpoint_made as made
        made.trainer(f'{self.dir}/ckpt/checkpoint-10', 10)
        _, report, seen = self.train('ok', '--checkpoints', 'ckpt', '--weights-only')
        folder = pathlib.Path(seen[0]['env']['LOCKSTEP_RESUME'])
        self.assertEqual(folder.name, 'checkpoint-10')
        names = set(os.listdir(folder))
        self.assertNotIn('optimizer.pt', names)
        self.assertLessEqual({'model.safetensors', 'trainer_state.json'}, names)
        shutil.rmtree(self.dir / 'ckpt')
        (self.dir / 'tries').unlink()
        made.write(f'{self.dir}/ckpt/step_20.pt', made.torch_zip(made.state(20)))
        r, _, seen = self.train('ok', '--checkpoints', 'ckpt', '--weights-only', '--out', 'two')
        self.assertIn('LOCKSTEP_RESUME_WEIGHTS_ONLY=1', r.stderr)
        self.assertEqual(seen[0]['env']['LOCKSTEP_RESUME_WEIGHTS_ONLY'], '1')

    def test_the_time_out_is_set_or_the_line_to_change_is_said(self):
        r, _, seen = self.train('ok', '--collective-timeout', '900')
        self.assertEqual(seen[0]['env']['LOCKSTEP_COLLECTIVE_TIMEOUT'], '900')
        self.assertIn('timedelta(seconds=900)', r.stderr)

    def test_the_recorder_is_on_and_what_is_set_already_is_left_alone(self):
        r, _, seen = self.train('ok', env={'TORCH_NCCL_TRACE_BUFFER_SIZE': '77'})
        env = seen[0]['env']
        self.assertEqual(env['TORCH_NCCL_TRACE_BUFFER_SIZE'], '77')
        self.assertNotIn('TORCH_FR_BUFFER_SIZE', env)
        self.assertIn('left as it is: TORCH_NCCL_TRACE_BUFFER_SIZE', r.stderr)
        self.assertTrue(env['TORCH_FR_DUMP_TEMP_FILE'].endswith('/out/attempt-1/nccl_trace_rank_'))

    def test_what_the_gate_refuses_is_not_begun(self):
        (self.dir / 'counts.csv').write_text('rank,blocks\n0,800\n1,790\n')
        gate = ['--preflight-args', '--only blocks --blocks counts.csv --blocks-per-step 8']
        argv = [a for a in self.argv(*gate, cmd=['touch', 'begun']) if a != '--no-preflight']
        r = subprocess.run(argv, capture_output=True, text=True, cwd=self.dir, env=self.env, timeout=60)
        self.assertEqual(r.returncode, 125, r.stderr)
        self.assertIn('refuse', r.stderr)
        self.assertFalse((self.dir / 'begun').exists())
        (self.dir / 'counts.csv').write_text('rank,blocks\n0,800\n1,800\n')
        r = subprocess.run(argv, capture_output=True, text=True, cwd=self.dir, env=self.env, timeout=60)
        self.assertEqual(r.returncode, 0)
        self.assertRegex(r.stderr, '(?m)^ready: ')
        self.assertNotRegex(r.stderr, '(?m)^ok ')
        self.assertIn('ready', (self.dir / 'out/preflight.txt').read_text())
        self.assertTrue((self.dir / 'begun').exists())

    def gated(self, args, counts, *options):
        (self.dir / 'counts.csv').write_text('rank,blocks\n' + counts)
        argv = self.argv('--preflight-args', '--only blocks --blocks counts.csv --blocks-per-step 8 ' + args, *options,
                         cmd=['touch', 'begun'])
        return subprocess.run([a for a in argv if a != '--no-preflight'], capture_output=True, text=True, cwd=self.dir,
                              env=self.env, timeout=60)

    def test_the_verdict_is_shown_whatever_form_and_folder_the_report_has(self):
        uneven, even = '0,800\n1,790\n', '0,800\n1,800\n'
        for args, kept in ('--json', '{'), ('', 'refused: '):
            r = self.gated(args, uneven)
            self.assertEqual((r.returncode, r.stdout), (125, ''))
            self.assertRegex(r.stderr, r'(?m)^refused: 1 of 1 check refuses')
            self.assertRegex(r.stderr, r'(?m)^refuse +blocks.balance +rank 1 ends first')
            self.assertTrue((self.dir / 'out/preflight.txt').read_text().startswith(kept))
        # an earlier gate's report is not this one's
        for args in '--only nonsense', '--report nowhere/x':
            r = self.gated(args, even)
            self.assertNotIn('blocks.balance', r.stderr)
            self.assertFalse((self.dir / 'out/preflight.txt').exists(), args)
        shutil.rmtree(self.dir / 'out')
        # one that cannot be kept is said, and the verdict is shown all the same
        (self.dir / 'out').mkdir()
        (self.dir / 'out/preflight.txt').mkdir()
        r = self.gated('', uneven)
        self.assertRegex(r.stderr, r'out/preflight.txt: Is a directory')
        self.assertRegex(r.stderr, r'(?m)^refuse +blocks.balance')
        self.assertNotIn('the whole report', r.stderr)

    HANG = ('--hang-after', '1', '--look-after', '1', '--grace', '1')

    def test_a_hang_is_restarted_with_its_evidence_kept(self):
        r, report, seen = self.train('hang 17|ok', '--on-hang', 'restart', '--checkpoints', 'ckpt', *self.HANG)
        self.assertEqual((r.returncode, len(seen)), (0, 2), r.stderr)
        first = report['attempts'][0]
        self.assertEqual((first['hung'], first['ended_by_us'], first['last_step'], first['saved_step']), (True, True, 17, 10))
        told = float((self.dir / 'told').read_text())
        for n in 1, 2:
            evidence = self.dir / f'out/attempt-1/evidence-{n}/collect.json'
            self.assertLess(evidence.stat().st_mtime, told)
        self.assertFalse(alive(int((self.dir / 'child').read_text())), 'a child in its own session lives on')
        self.assertIn('step 11/30', r.stdout)
        self.assertGreater(first['lost_hours'], 0)

    def test_a_hang_is_only_told_by_default(self):
        r, report, seen = self.train('pause 17 notified', '--hang-after', '1', '--look-after', '1',
                                     '--notify-command', 'echo "$LOCKSTEP_EVENT $LOCKSTEP_EVIDENCE" > notified')
        self.assertEqual((r.returncode, len(seen)), (0, 1))
        self.assertIn('no new step', r.stderr)
        self.assertIn('it goes on', r.stderr)
        self.assertTrue((self.dir / 'notified').read_text().startswith('hang '))
        self.assertTrue((self.dir / 'out/attempt-1/evidence-2/collect.json').exists())

    def test_missing_steps_alone_end_nothing(self):
        p = subprocess.Popen(self.argv('--on-hang', 'restart', *self.HANG, '--look-after', '3', cmd=[*TRAINER, 'spin 17']),
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=self.dir, env=self.env)
        said = []
        for line in p.stderr:
            said.append(line)
            if 'left running' in line:
                break
        self.assertIn('no second sign', said[-1])
        time.sleep(2)
        self.assertIsNone(p.poll())
        p.terminate()
        self.assertEqual(p.wait(20), 143)
        p.stderr.close()

    def test_who_gets_no_cpu_does_not_stand_still(self):
        cpu = min(os.sched_getaffinity(0))
        hog = subprocess.Popen([sys.executable, '-c', f'import os\nos.sched_setaffinity(0, {{{cpu}}})\nwhile True: pass'])
        p = subprocess.Popen(self.argv('--on-hang', 'restart', *self.HANG, '--look-after', '2', cmd=[*TRAINER, 'starve 17']),
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=self.dir,
                             env=dict(self.env, STARVE_CPU=str(cpu)))
        try:
            said = ''
            for line in p.stderr:
                said += line
                if 'left running' in line or 'ending it' in line:
                    break
            self.assertIn('left running', said)
            self.assertNotIn('stand still:', said)
        finally:
            hog.kill()
            hog.wait()
            p.terminate()
            p.wait(30)
            p.stderr.close()

    def test_a_hang_without_a_cause_is_told_by_what_was_seen(self):
        r, report, _ = self.train('hang 17', '--on-hang', 'restart', *self.HANG, '--retries', '0', '--job', 'j7', '--notify-command',
                                  'echo "$LOCKSTEP_EVENT|$LOCKSTEP_JOB|$LOCKSTEP_CAUSE|$LOCKSTEP_SUMMARY" >> told-of')
        told = (self.dir / 'told-of').read_text().splitlines()
        self.assertRegex(told[0], r'^hang\|j7\|[a-z-]+\|.*')
        self.assertNotIn('', told[0].split('|'))
        self.assertNotIn('nothing says why', r.stderr)
        self.assertIn('since step 17', r.stderr)

    @unittest.skipUnless((pathlib.Path(LOCKSTEP).parent / 'liblockstep.so').exists(), 'no liblockstep.so')
    def test_the_tracer_knows_the_job_by_its_name(self):
        argv = [a for a in self.argv('--job', 'j7', '--retries', '1', cmd=['sh', '-c', 'echo step 1; echo "job=$LOCKSTEP_JOB"; kill -9 $$'])
                if a != '--no-trace']
        r = subprocess.run(argv, capture_output=True, text=True, cwd=self.dir, env=self.env, timeout=60)
        self.assertEqual(r.stdout.count('job=j7\n'), 2, r.stderr)
        self.assertNotIn('left as it is', r.stderr)

    def test_ends_are_told_by_what_is_known(self):
        for cmd, words in ((['sh', '-c', 'kill -9 $$'], "killed by SIGKILL (out of memory on the host? see the kernel's log)"),
                           (['sh', '-c', 'kill -11 $$'], 'killed by SIGSEGV'),
                           (['sh', '-c', 'exit 9'], 'it ended with status 9, nothing says why')):
            r = self.run_it('--retries', '0', cmd=cmd)
            self.assertIn(words, r.stderr)
        r = self.run_it('--retries', '0', cmd=[sys.executable, '-c', '{}["a"]'])
        self.assertIn("it failed: KeyError: 'a'", r.stderr)
        self.run_it('--out', 'two', cmd=['true'])
        text = (self.dir / 'two/run.json').read_text()
        self.assertTrue(text.endswith('}\n'))
        self.assertNotRegex(text, r'\.\d{13}')

    def test_no_line_of_ours_is_wider_than_100_columns_but_for_its_words(self):
        r = self.run_it('--resume-args', '{' + 'a' * 40 + '}', cmd=['true'])
        lines = r.lines + self.run_it('--checkpoints', 'no/such', '--retries', '0', cmd=['sh', '-c', 'kill -9 $$']).lines
        long = self.run_it('--checkpoints', 'no/' + 'x' * 120, '--collective-timeout', '5', cmd=['true'])
        self.assertIn('x' * 120, ''.join(long.lines))
        for line in lines + [line for line in long.lines if 'xxx' not in line]:
            self.assertLessEqual(len(line), 100, line)
            self.assertTrue(line.startswith('lockstep: run: '), line)

    def test_who_ignores_term_is_killed_after_the_grace(self):
        program = 'import signal, time; signal.signal(15, signal.SIG_IGN); print("up", flush=True); time.sleep(60)'
        p = subprocess.Popen(self.argv('--grace', '1', cmd=[sys.executable, '-c', program]), stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, cwd=self.dir, env=self.env, text=True)
        p.stdout.readline()
        p.terminate()
        said = p.communicate(timeout=20)[1]
        self.assertEqual(p.returncode, 137)
        self.assertIn('TERM passed on', said)

    def test_what_cannot_be_is_said_with_its_reason(self):
        for options, status, words in ((('-n', '2', '--node', '0'), 64, '2 nodes need a place to meet'),
                                       (('--resume-args', '--at {stepp}'), 64, '{stepp}'),
                                       (('--out', '/proc/none'), 125, 'No such file or directory'),
                                       (('--checkpoints', 'nowhere'), 0, 'there is no folder')):
            r = self.run_it(*options, cmd=['true'])
            self.assertEqual(r.returncode, status, r.stderr)
            self.assertIn(words, r.stderr)
        r = self.run_it('--resume-args', '--at {step} {"a":1} ${HOME}', cmd=['true'], env={'SLURM_NNODES': '2'})
        self.assertEqual(r.returncode, 0, r.stderr)

    def test_a_log_that_cannot_be_kept_is_said(self):
        program = ('import os, resource, signal, sys\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n'
                   'resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))\nos.execv(sys.argv[1], sys.argv[1:])')
        argv = self.argv(cmd=[sys.executable, '-c', 'import os\nfor i in range(300): os.write(1, b"x" * 1000)'])
        r = subprocess.run([sys.executable, '-c', program, *argv], capture_output=True, text=True, cwd=self.dir, env=self.env,
                           timeout=60)
        self.assertEqual((r.returncode, len(r.stdout)), (0, 300000), r.stderr)
        self.assertIn('output.log is not whole: File too large', r.stderr)

    def test_long_without_a_save_is_said(self):
        r = self.run_it('--unsaved-after', '1', '--gpus', '8', '--checkpoints', '.', cmd=['sleep', '2'])
        self.assertIn('GPU hours of this node are at risk', r.stderr)
        r = self.run_it('--unsaved-after', '0', cmd=['sleep', '1.2'])
        self.assertNotIn('nothing was saved', r.stderr)

    def nodes(self, words, *options):
        """Two nodes, each with a folder and a job of its own."""
        runs = []
        for node in 0, 1:
            where = self.dir / f'node{node}'
            where.mkdir(exist_ok=True)
            argv = self.argv('--nodes', '2', '--node', str(node), '--meet-folder', str(self.dir / 'meet'), '--job', 'j1',
                             '--wait', '30', '--checkpoints', str(self.dir / 'ckpt'), *options, cmd=[*TRAINER, words[node]])
            runs.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=where,
                                         env=self.env))
        errors = [p.communicate(timeout=60)[1] for p in runs]
        tries = [[json.loads(line) for line in (self.dir / f'node{n}/tries').read_text().splitlines()] for n in (0, 1)]
        return [p.returncode for p in runs], errors, tries

    def test_nodes_begin_again_together_from_the_same_checkpoint(self):
        import checkpoint_made as made
        (self.dir / 'meet').mkdir()
        made.write(f'{self.dir}/ckpt/step_10.pt', made.torch_zip(made.state(10)))
        status, errors, tries = self.nodes(('die 15 9|ok', 'die 16 9|ok'))
        self.assertEqual(status, [0, 0], errors)
        self.assertEqual([len(t) for t in tries], [2, 2])
        self.assertEqual({t[1]['env']['LOCKSTEP_RESUME_STEP'] for t in tries}, {'10'})

    def test_if_one_node_stops_all_do(self):
        (self.dir / 'meet').mkdir()
        status, errors, tries = self.nodes((f'say 12 {OOM}', 'die 13 9|ok'))
        self.assertEqual([len(t) for t in tries], [1, 1], errors)
        self.assertEqual(status, [1, 137])
        self.assertIn('all nodes stop', errors[1])


if __name__ == '__main__':
    unittest.main()
