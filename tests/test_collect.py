#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep collect`, asked about processes that look like ranks: it finds them, takes what they give,
leaves behind what hangs, harms nobody, and copies no secret."""
import json
import os
import pathlib
import pickle
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOCKSTEP = os.path.abspath(os.environ.get('LOCKSTEP', ROOT / 'build/lockstep'))
# Numbers that no real job on this machine has.
FIRST = 700100

RANK = r'''
import os, pickle, sys, time
rank, folder = os.environ['RANK'], os.environ['SCRATCH']
print('iteration 5 of rank', rank, flush=True)
pipe = os.environ.get('TORCH_NCCL_DEBUG_INFO_PIPE_FILE')
if os.fork() == 0:      # a data-loader worker
    while os.getppid() != 1:
        time.sleep(0.05)
    os._exit(0)
if pipe:
    os.mkfifo(pipe + rank + '.pipe')
    fd = os.open(pipe + rank + '.pipe', os.O_RDONLY | os.O_NONBLOCK)
open(folder + '/ready' + rank, 'w').close()
n = 0
while True:
    time.sleep(0.05)
    try:
        asked = pipe and os.read(fd, 128)
    except BlockingIOError:
        asked = False
    if asked:
        n += 1
        entry = {'frames': [{'name': 'step', 'filename': folder + '/secretproject/train.py', 'line': n}]}
        with open(os.environ['TORCH_NCCL_DEBUG_INFO_TEMP_FILE'] + rank, 'wb') as f:
            pickle.dump({'version': '2.4', 'entries': [entry], 'pg_config': {}}, f, protocol=2)
'''


class Collect(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.dir = pathlib.Path(self.scratch.name)
        self.ranks = []
        self.addCleanup(self.end_ranks)
        (self.dir / 'bin').mkdir()
        (self.dir / 'rank.py').write_text(RANK)
        self.path = str(self.dir / 'bin')

    def end_ranks(self):
        for p in self.ranks:
            p.kill()
            p.wait()

    def start(self, n=2, **env):
        for i in range(n):
            rank = FIRST + i
            full = {'PATH': os.environ['PATH'], 'RANK': str(rank), 'LOCAL_RANK': str(i), 'WORLD_SIZE': str(FIRST + n),
                    'SCRATCH': str(self.dir), **env}
            with open(self.dir / f'out{rank}.log', 'w') as out:
                self.ranks.append(subprocess.Popen([sys.executable, str(self.dir / 'rank.py'), '--api-key', 'sesame',
                                                    '--hf_token=abracadabra'], env=full, stdout=out, stderr=out))
        end = time.time() + 20
        while not all((self.dir / f'ready{FIRST + i}').exists() for i in range(n)):
            self.assertLess(time.time(), end, 'the ranks of the test did not start')
            time.sleep(0.05)

    def tool(self, name, text):
        path = self.dir / 'bin' / name
        path.write_text('#!/bin/sh\n' + text)
        path.chmod(0o755)

    def collect(self, *argv, status=0, out='ev'):
        env = {**os.environ, 'PATH': self.path}
        for name in ('RANK', 'LOCAL_RANK', 'WORLD_SIZE'):
            env.pop(name, None)
        p = subprocess.run([LOCKSTEP, 'collect', '--out', str(self.dir / out), *map(str, argv)],
                           capture_output=True, text=True, env=env, timeout=90)
        self.assertEqual(p.returncode, status, p.stdout + p.stderr)
        self.said = p.stdout + p.stderr
        self.out = self.dir / out
        return json.loads((self.out / 'collect.json').read_text())

    def pids(self):
        return [p.pid for p in self.ranks]

    def probe(self, report, what, rank=None):
        return next(p for p in report['probes'] if p['what'] == what and p['rank'] == rank)

    def test_ranks_are_found_and_their_workers_are_not(self):
        self.start()
        report = self.collect()
        ours = {r['rank']: r for r in report['ranks'] if r['rank'] in (FIRST, FIRST + 1)}
        self.assertEqual(sorted(ours), [FIRST, FIRST + 1])
        self.assertEqual([ours[FIRST + i]['pid'] for i in (0, 1)], self.pids())
        self.assertEqual([ours[FIRST + i]['gpu'] for i in (0, 1)], [0, 1])
        self.assertEqual([ours[FIRST + i]['workers'] for i in (0, 1)], [1, 1])
        self.assertEqual(sum(r['rank'] == FIRST for r in report['ranks']), 1)

    def test_ranks_live_on_as_they_were(self):
        self.start()
        self.collect(*self.pids())
        for p in self.ranks:
            self.assertIsNone(p.poll())
            state = pathlib.Path(f'/proc/{p.pid}/stat').read_text().rsplit(')', 1)[1].split()[0]
            self.assertIn(state, 'SR')

    def test_files_are_named_by_rank_and_private(self):
        self.start()
        self.collect(*self.pids())
        folder = self.out / f'rank{FIRST}'
        process = json.loads((folder / 'process.json').read_text())
        self.assertEqual(process['pid'], self.pids()[0])
        self.assertIn('Threads:', process['status'])
        self.assertGreaterEqual(len(process['threads']), 1)
        self.assertIn(f'iteration 5 of rank {FIRST}', (folder / 'output-1.log').read_text())
        for path in (self.out, folder, folder / 'process.json'):
            self.assertEqual(stat.S_IMODE(path.stat().st_mode) & 0o077, 0, path)

    def test_secrets_are_never_copied(self):
        self.start(WANDB_API_KEY='key-of-wandb', NCCL_SECRET='of-nccl', NCCL_DEBUG='INFO', MY_SETTING='private',
                   NCCL_PROXY='http://me:pass@proxy')
        self.collect(*self.pids())
        everything = b''.join(p.read_bytes() for p in self.out.rglob('*') if p.is_file())
        for secret in (b'key-of-wandb', b'of-nccl', b'private', b'sesame', b'abracadabra', b'me:pass'):
            self.assertNotIn(secret, everything)
        command = json.loads((self.out / f'rank{FIRST}/command.json').read_text())
        self.assertEqual(command['environment']['NCCL_DEBUG'], 'INFO')
        self.assertEqual(command['command'][-3:], ['--api-key', '***', '--hf_token=***'])

    def test_a_tool_that_hangs_is_left_and_said(self):
        self.start(1)
        self.tool('nvidia-smi', "trap '' TERM HUP INT\nwhile :; do /bin/sleep 1; done\n")
        begin = time.time()
        report = self.collect(*self.pids())
        self.assertLess(time.time() - begin, 30)
        probe = self.probe(report, 'nvidia-smi -q')
        self.assertEqual(probe['state'], 'late, killed')
        self.assertGreaterEqual(probe['took_ms'], 5000)
        self.assertIsNone(probe['file'])
        self.assertIn('no answer in', self.said)
        self.assertTrue((self.out / f'rank{FIRST}/process.json').exists())
        tool = str(self.dir / 'bin/nvidia-smi').encode()
        for process in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
            try:
                self.assertNotIn(tool, process.read_bytes())
            except OSError:
                pass  # it has just ended

    def test_a_tool_that_goes_on_is_ended_with_what_it_gave(self):
        self.start(1)
        self.tool('nvidia-smi', 'echo "index, power.draw [W], utilization.gpu [%]"\n'
                                'while :; do echo "0, 69.00 W, 100 %"; /bin/sleep 0.5; done\n')
        report = self.collect(*self.pids())
        probe = self.probe(report, 'nvidia-smi')
        self.assertEqual(probe['state'], 'done')
        text = (self.out / probe['file']).read_text()
        self.assertGreaterEqual(text.count('69.00 W'), 3)

    def test_the_flight_recorder_is_asked_and_the_former_dump_kept(self):
        self.start(TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(self.dir / 'fr_'),
                   TORCH_NCCL_DEBUG_INFO_TEMP_FILE=str(self.dir / 'trace_'))
        self.collect(*self.pids())
        name = f'rank{FIRST}/nccl_trace_rank_{FIRST}'
        line = pickle.loads((self.out / name).read_bytes())['entries'][0]['frames'][0]['line']
        self.assertEqual(line, 1)
        self.assertFalse((self.out / 'earlier').exists())
        self.collect(*self.pids(), out='again')
        self.assertEqual(pickle.loads((self.out / name).read_bytes())['entries'][0]['frames'][0]['line'], 2)
        self.assertEqual(pickle.loads((self.out / 'earlier' / name).read_bytes())['entries'][0]['frames'][0]['line'], 1)

    def test_a_pipe_that_is_none_is_not_written_to(self):
        self.start(1, TORCH_NCCL_DEBUG_INFO_TEMP_FILE=str(self.dir / 'trace_'))
        precious = self.dir / f'x_{FIRST}.pipe'
        precious.write_text('precious')
        report = self.collect(*self.pids())
        self.assertEqual(self.probe(report, 'Flight Recorder', FIRST)['state'], 'absent')
        self.end_ranks()
        self.ranks.clear()
        os.unlink(self.dir / f'ready{FIRST}')
        (self.dir / 'rank.py').write_text(RANK.replace('os.mkfifo(', 'str(').replace('os.O_RDONLY | os.O_NONBLOCK', '0'))
        self.start(1, TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(self.dir / 'x_'),
                   TORCH_NCCL_DEBUG_INFO_TEMP_FILE=str(self.dir / 'trace_'))
        self.collect(*self.pids(), out='again')
        self.assertEqual(precious.read_text(), 'precious')

    def test_redact_replaces_names_alike_everywhere(self):
        host = socket.gethostname()
        self.start(TORCH_NCCL_DEBUG_INFO_PIPE_FILE=str(self.dir / 'fr_'),
                   TORCH_NCCL_DEBUG_INFO_TEMP_FILE=str(self.dir / 'trace_'),
                   HOME='/home/alicewonder', MASTER_ADDR='cluster-node017', NCCL_HOSTS='cluster-node018,10.11.12.13')
        self.collect('--redact', *self.pids())
        files = [p for p in self.out.rglob('*') if p.is_file()]
        everything = b''.join(p.read_bytes() for p in files) + '\n'.join(map(str, files)).encode()[len(str(self.dir)):]
        for name in (b'alicewonder', b'secretproject', b'cluster-node017', b'cluster-node018', b'10.11.12.13',
                     self.dir.name.encode()):
            self.assertNotIn(name, everything.replace(str(self.dir).encode(), b''))
        self.assertNotRegex(everything.replace(str(self.dir).encode(), b''),
                            rb'(?<![\w])' + re.escape(host.encode()) + rb'(?![\w])')
        dump = pickle.loads((self.out / f'rank{FIRST}/nccl_trace_rank_{FIRST}').read_bytes())
        path = dump['entries'][0]['frames'][0]['filename']
        self.assertTrue(path.endswith('/train.py'), path)
        self.assertEqual(len(path), len(str(self.dir) + '/secretproject/train.py'))
        # the same folder, the same alias: in the dump and in the command line
        command = json.loads((self.out / f'rank{FIRST}/command.json').read_text())
        script = next(w for w in command['command'] if w.endswith('rank.py'))
        self.assertEqual(path.split('/')[:-2], script.split('/')[:-1])

    def test_two_jobs_of_a_node_are_kept_apart(self):
        """Both have the same ranks: each job has a folder, named by what its other nodes know too."""
        self.start(MASTER_ADDR='localhost', MASTER_PORT='29500')
        ready = [self.dir / f'ready{FIRST + i}' for i in range(2)]
        for path in ready:
            path.unlink()
        self.start(MASTER_ADDR='localhost', MASTER_PORT='29501')
        env = {k: v for k, v in os.environ.items() if k not in ('RANK', 'LOCAL_RANK', 'WORLD_SIZE')} | {'PATH': self.path}
        out = self.dir / 'ev'
        p = subprocess.run([LOCKSTEP, 'collect', '--out', str(out)], capture_output=True, text=True, env=env, timeout=90)
        self.assertEqual(p.returncode, 0, p.stderr)
        pids = self.pids()
        for port, of in ((29500, pids[:2]), (29501, pids[2:])):
            ranks = json.loads((out / f'job-port{port}/collect.json').read_text())['ranks']
            self.assertEqual([r['pid'] for r in ranks if r['rank'] >= FIRST], of)
            self.assertIn(f'lockstep diagnose {out}/job-port{port}\n', p.stdout)
        p = subprocess.run([LOCKSTEP, 'diagnose', str(out)], capture_output=True, text=True, timeout=60)
        self.assertEqual((p.returncode, p.stdout), (2, ''))
        self.assertRegex(p.stderr, 'evidence of [2-9] jobs; ask of each: lockstep diagnose ')

    def test_diagnose_reads_the_folder_as_it_is(self):
        self.start()
        self.collect(*self.pids())
        p = subprocess.run([LOCKSTEP, 'diagnose', '--json', str(self.out)], capture_output=True, text=True, timeout=60)
        self.assertIn(p.returncode, (0, 1, 2), p.stderr)
        read = {pathlib.Path(r['path']).name: r for r in json.loads(p.stdout)['read']}
        self.assertEqual(read['collect.json']['format'], 'collected')
        self.assertNotIn('process.json', p.stderr)

    def test_events_are_read_beside_it(self):
        self.start(1)
        self.collect(*self.pids())
        events = self.dir / 'monitor.jsonl'
        events.write_text(json.dumps({'time': time.time(), 'host': socket.gethostname(), 'text': 'NVRM: Xid (PCI:0000:3b:00): '
                                      '79, pid=1, GPU has fallen off the bus.'}) + '\n')
        p = subprocess.run([LOCKSTEP, 'diagnose', '--json', '--events', str(events), str(self.out)], capture_output=True,
                           text=True, timeout=60)
        report = json.loads(p.stdout)
        read = {pathlib.Path(r['path']).name: r for r in report['read']}
        self.assertEqual(read['monitor.jsonl']['format'], 'events')
        self.assertEqual([f['cause'] for f in report['findings'] if f['severity'] == 'fault'][:1], ['gpu-error'])
        p = subprocess.run([LOCKSTEP, 'diagnose', '--events', str(self.dir / 'none'), str(self.out)], capture_output=True,
                           text=True, timeout=60)
        self.assertEqual(p.returncode, 2, p.stderr)
        self.assertIn('none', p.stderr)

    def test_statuses(self):
        self.assertEqual(subprocess.run([LOCKSTEP, 'collect', 'one'], capture_output=True).returncode, 64)
        self.assertEqual(subprocess.run([LOCKSTEP, 'collect', '--outt', 'x'], capture_output=True).returncode, 64)
        blocked = self.dir / 'file'
        blocked.write_text('')
        p = subprocess.run([LOCKSTEP, 'collect', '--out', str(blocked / 'x'), str(os.getpid())], capture_output=True,
                           text=True)
        self.assertEqual(p.returncode, 2)
        self.assertEqual(len(p.stderr.splitlines()), 1, p.stderr)

    def test_a_process_that_is_gone_is_said(self):
        gone = subprocess.Popen(['/bin/true'])
        gone.wait()
        report = self.collect(gone.pid, status=2)
        self.assertEqual(report['ranks'], [])


if __name__ == '__main__':
    signal.alarm(220)
    unittest.main()
