#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program as users meet it: exit statuses, one line a problem, bad input of every kind.

The binary is $LOCKSTEP, else build/lockstep. The traces are the samples of examples/demo.
"""
import gzip
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOCKSTEP = os.path.abspath(os.environ.get('LOCKSTEP', ROOT / 'build/lockstep'))
SLOW = ROOT / 'examples/demo/slow-rank'
HEALTHY = ROOT / 'examples/demo/healthy'


def run(*argv, **more):
    more.setdefault('timeout', 60)
    return subprocess.run([LOCKSTEP, *map(str, argv)], capture_output=True, **more)


class Cli(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.dir = pathlib.Path(self.scratch.name)

    def tearDown(self):
        self.scratch.cleanup()

    def diagnose(self, *argv, status, lines=None, **more):
        """The JSON; stderr has so many lines, each of them of ours and clean."""
        p = run('diagnose', '--json', *argv, **more)
        said = p.stderr.decode()
        self.assertEqual(p.returncode, status, said)
        for line in said.splitlines():
            self.assertTrue(line.startswith('lockstep: '), line)
            self.assertTrue(all(c.isprintable() for c in line), line)
        if lines is not None:
            self.assertEqual(len(said.splitlines()), lines, said)
        self.said = said
        return json.loads(p.stdout)

    def samples(self, source=SLOW, to='traces'):
        return pathlib.Path(shutil.copytree(source, self.dir / to,
                                            ignore=shutil.ignore_patterns('*.md', '*.txt', '*.py')))

    # usage

    def test_who_ignores_children_when_he_begins_us_makes_nobody_wait(self):
        for argv, status in ((('run', '--no-preflight', '--no-trace', '--retries', 0, '--out', self.dir / 'o', '--', 'sh', '-c', 'exit 7'), 7),
                             (('preflight', '--only', 'recoverable'), 0)):
            p = run(*argv, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
            self.assertEqual(p.returncode, status, p.stderr)

    def test_usage_is_64_and_says_what_next(self):
        for argv, word in (([], 'Usage'), (['diagnoze'], '"diagnose"'), (['frobnicate'], 'lockstep help'),
                           (['diagnose'], '--help'), (['diagnose', '--jsn', 'x'], '--json'),
                           (['diagnose', '--html', 'f', 'x'], '--html'), (['diagnose', '--steps', '9-3', 'x'], '--steps'),
                           (['export', 'x'], '--steps'), (['export', '--steps', 'd'], 'traces'),
                           (['explain', 'compute-stragler'], '"compute-straggler"'), (['help', 'nothing'], 'help')):
            p = run(*argv)
            self.assertEqual(p.returncode, 64, argv)
            self.assertIn(word, p.stderr.decode(), argv)
            self.assertEqual(p.stdout, b'', argv)

    def test_help_and_version_are_0(self):
        for argv in (['--version'], ['--help'], ['help'], ['help', 'export'], ['diagnose', '--help'],
                     ['explain'], ['explain', 'comm-link', 'throttling'], ['help', '--options']):
            p = run(*argv)
            self.assertEqual((p.returncode, p.stderr), (0, b''), argv)
            self.assertTrue(p.stdout)

    def test_explain_ends_in_words_for_people(self):
        acts = {'replace-node', 'check-link', 'fix-code', 'fix-data', 'fix-config', 'wait', 'none'}
        causes = re.findall(r'(?m)^[a-z][a-z-]+', run('explain').stdout.decode())
        self.assertEqual(len(causes), 22)
        for cause in causes:
            then = run('explain', cause).stdout.decode().split('Then:')[1].strip()
            self.assertNotIn(then, acts, cause)
            self.assertIn(' ', then, cause)

    # answers

    def test_findings_are_1_and_healthy_is_0(self):
        slow = self.diagnose(SLOW, status=1)
        self.assertEqual(slow['verdict'], 'slow')
        self.assertEqual(self.diagnose(HEALTHY, status=0)['verdict'], 'healthy')

    def test_the_order_of_paths_and_threads_changes_nothing(self):
        folder = self.samples()
        files = sorted(folder.iterdir())
        first = run('diagnose', '--json', *files).stdout
        self.assertEqual(run('diagnose', '--json', *reversed(files)).stdout, first)
        for _ in range(3):
            self.assertEqual(run('diagnose', '--json', *files).stdout, first)
        one = run('diagnose', '--json', *files,
                  preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})).stdout
        self.assertEqual(one, first)

    def test_text_has_100_columns_and_no_colour_in_a_pipe(self):
        text = run('diagnose', SLOW).stdout.decode()
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        self.assertNotIn('\033', text)

    def test_steps_and_ranks_narrow_what_is_looked_at(self):
        doc = self.diagnose('--steps', '3-4', SLOW, status=self.any_answer(SLOW, '--steps', '3-4'))
        self.assertEqual((doc['job']['first_step'], doc['job']['last_step']), (3, 4))
        doc = self.diagnose('--ranks', '0-1', HEALTHY, status=self.any_answer(HEALTHY, '--ranks', '0-1'))
        self.assertEqual(doc['job']['ranks_seen'], '0-1')
        doc = self.diagnose('--ranks', '77', HEALTHY, status=2)
        self.assertIn('none of the ranks', doc['headline'])

    def test_a_layout_must_be_of_as_many_ranks_as_the_job(self):
        self.assertEqual(self.diagnose('--layout', 'dp=4', HEALTHY, status=0)['job']['layout'], 'dp=4')
        for layout in ('dp=8', 'tp=2 dp=4', 'tp=2 tp=2', 'xp=4'):
            p = run('diagnose', '--layout', layout, HEALTHY)
            self.assertEqual((p.returncode, p.stdout), (64, b''), layout)
            self.assertIn('--layout', p.stderr.decode())

    def test_numbers_that_are_none_are_bad_usage_in_one_line(self):
        bad = {'--steps': ('', '-', 'x', '9-3', '1-2-3', '1.5', '99999999999999999999-3'),
               '--ranks': ('', 'x', '3-1', ',', '1,,2', '-1', '0-99999999999', '9223372036854775808'),
               '--min-impact': ('', 'x', '-5', 'nan', 'inf', '1e999', '5x'),
               '--layout': ('', 'tp', 'tp=0', 'tp=4x', 'tp=-4', 'dp=99999999999999999999', 'tp=4294967296,dp=4294967296')}
        for option, values in bad.items():
            for value in values:
                p = run('diagnose', option, value, HEALTHY)
                self.assertEqual((p.returncode, p.stdout), (64, b''), (option, value))
                self.assertEqual(p.stderr.count(b'\n'), 1, p.stderr)
                self.assertIn(option, p.stderr.decode())

    def test_steps_that_are_not_there_are_said(self):
        doc = self.diagnose('--steps', '900-', HEALTHY, status=2, lines=1)
        self.assertIn('none of the steps', doc['headline'])

    # the world around it

    def test_a_closed_or_full_stdout_is_said_and_2(self):
        for command in (['diagnose', HEALTHY], ['diagnose', '--json', HEALTHY], ['export', '--steps', self.dir / 'steps', HEALTHY]):
            p = subprocess.run([LOCKSTEP, *map(str, command)], stderr=subprocess.PIPE, preexec_fn=lambda: os.close(1))
            self.assertEqual((p.returncode, p.stderr.count(b'\n')), (2, 1), p.stderr)
            self.assertIn(b'standard output', p.stderr)
            with open('/dev/full', 'wb') as full:
                p = subprocess.run([LOCKSTEP, *map(str, command)], stdout=full, stderr=subprocess.PIPE)
            self.assertEqual((p.returncode, p.stderr.count(b'\n')), (2, 1), p.stderr)
        for segment in (self.dir / 'steps').iterdir():
            self.assertNotIn(b'4 ranks', segment.read_bytes())  # what was meant for stdout

    def test_a_closed_stdin_is_one_line(self):
        p = subprocess.run([LOCKSTEP, 'diagnose', '-'], capture_output=True, preexec_fn=lambda: os.close(0))
        self.assertEqual((p.returncode, p.stderr.count(b'\n')), (2, 1), p.stderr)

    def many_steps(self):
        """A trace whose records do not fit into what a worker keeps in memory."""
        marks = ',\n'.join(f'{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{i}", "pid": 1, "tid": 1, "ts": {1000 * i + 1}, "dur": 999}}'
                           for i in range(100000))
        (self.dir / 'many').mkdir()
        (self.dir / 'many/rank0.json').write_text(f'{{"schemaVersion": 1, "traceEvents": [{marks}]}}')
        return self.dir / 'many'

    def test_no_room_for_temporary_files_is_said(self):
        folder = self.many_steps()
        doc = self.diagnose(folder, status=2, lines=1, env={**os.environ, 'TMPDIR': str(self.dir / 'absent')})
        self.assertIn('could be read', doc['headline'])
        self.assertIn('temporary file', self.said)
        self.diagnose(folder, status=2, lines=1, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)))
        self.assertIn('temporary file', self.said)

    def test_no_room_for_a_segment_leaves_nothing_behind(self):
        p = run('export', '--steps', self.dir / 'steps', HEALTHY, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
        self.assertEqual((p.returncode, p.stderr.count(b'\n'), p.stdout), (2, 1, b''), p.stderr)
        self.assertEqual(list((self.dir / 'steps').iterdir()), [])

    def any_answer(self, path, *args):
        status = run('diagnose', *args, path).returncode
        self.assertIn(status, (0, 1))
        return status

    def test_records_give_the_answer_of_the_traces(self):
        for sample in (SLOW, HEALTHY):
            steps = self.dir / f'steps-{sample.name}'
            p = run('export', '--steps', steps, sample)
            self.assertEqual((p.returncode, p.stderr), (0, b''))
            traces = json.loads(run('diagnose', '--json', sample).stdout)
            records = json.loads(run('diagnose', '--json', steps).stdout)
            with open(next(steps.iterdir()), 'rb') as f:
                piped = json.loads(run('diagnose', '--json', '-', stdin=f).stdout)
            for doc in (traces, records, piped):
                del doc['read']
            self.assertEqual(json.dumps(records), json.dumps(traces))
            self.assertEqual(json.dumps(piped), json.dumps(traces))

    def test_segments_of_several_nodes_are_one_job(self):
        for rank in range(4):
            run('export', '--steps', self.dir / 'steps', '--ranks', rank, SLOW)
        files = sorted((self.dir / 'steps').iterdir())
        self.assertEqual(len(files), 4)
        doc = self.diagnose(self.dir / 'steps', status=1)
        self.assertEqual(doc['job']['ranks_seen'], '0-3')
        with tarfile.open(self.dir / 'steps.tar.gz', 'w:gz') as t:
            t.add(self.dir / 'steps', 'steps')
        again = self.diagnose(self.dir / 'steps.tar.gz', status=1)
        self.assertEqual(len(again['read']), 4)
        del doc['read'], again['read']
        self.assertEqual(again, doc)

    def test_archives_are_read_as_what_is_in_them(self):
        folder = self.samples()
        want = json.loads(run('diagnose', '--json', folder).stdout)
        del want['read']
        with tarfile.open(self.dir / 'a.tar', 'w') as t:
            t.add(folder, 'traces')
        with tarfile.open(self.dir / 'b.tar.gz', 'w:gz') as t:
            t.add(folder, 'traces')
        with zipfile.ZipFile(self.dir / 'c.zip', 'w') as z:
            for f in folder.iterdir():
                z.write(f, f.name)
        for name in ('a.tar', 'b.tar.gz', 'c.zip'):
            doc = self.diagnose(self.dir / name, status=1)
            del doc['read']
            self.assertEqual(doc, want, name)

    # bad input

    def test_nothing_usable_is_2_with_a_line_each(self):
        (self.dir / 'empty').write_bytes(b'')
        (self.dir / 'binary').write_bytes(bytes(range(256)) * 64)
        os.mkfifo(self.dir / 'fifo')
        for name in ('empty', 'binary', 'fifo', 'absent'):
            doc = self.diagnose(self.dir / name, status=2, lines=1)
            self.assertEqual(doc['verdict'], 'insufficient')
            self.assertIn(name, self.said)
            self.assertEqual(run('diagnose', self.dir / name).returncode, 2)

    def test_an_empty_folder_is_2(self):
        (self.dir / 'nothing').mkdir()
        self.assertEqual(self.diagnose(self.dir / 'nothing', status=2)['verdict'], 'insufficient')

    def test_an_absent_path_beside_a_good_one_is_said_and_left_out(self):
        self.diagnose(HEALTHY, self.dir / 'absent', status=0, lines=1)
        self.assertIn('absent', self.said)

    def test_a_folder_of_unrelated_files_takes_one_line(self):
        folder = self.samples(HEALTHY)
        for i in range(30):
            (folder / f'note{i}.txt').write_text('hello\n')
        (folder / 'other.json').write_text('{"a": 1}')
        self.diagnose(folder, status=0, lines=1)
        self.assertIn('31 files', self.said)

    def test_fifos_devices_and_sockets_are_not_opened(self):
        folder = self.samples(HEALTHY)
        os.mkfifo(folder / 'fifo')
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(str(folder / 'socket'))
            self.diagnose(folder, status=0, lines=2)
        self.assertIn('FIFO', self.said)
        self.diagnose('/dev/zero', status=2, lines=1)

    def test_a_loop_of_links_ends(self):
        folder = self.samples(HEALTHY)
        (folder / 'loop').symlink_to(folder)
        (folder / 'dangling').symlink_to(folder / 'nowhere')
        doc = self.diagnose(folder, status=0)
        self.assertEqual(len(doc['read']), 4)

    @unittest.skipIf(os.geteuid() == 0, 'skipped: root may read everything')
    def test_an_unreadable_file_is_one_line(self):
        folder = self.samples(HEALTHY)
        (folder / 'secret.json').write_text('{}')
        (folder / 'secret.json').chmod(0)
        self.diagnose(folder, status=0, lines=1)
        self.assertIn('secret.json', self.said)

    def test_a_truncated_gzip_keeps_what_is_whole(self):
        folder = self.samples(SLOW)
        victim = folder / 'rank0.json.gz'
        raw = gzip.compress(gzip.decompress(victim.read_bytes()), 1)
        victim.write_bytes(raw[:len(raw) * 2 // 3])
        doc = self.diagnose(folder, status=self.any_answer(folder), lines=1)
        self.assertIn('rank0.json.gz', self.said)
        read = [r for r in doc['read'] if r['path'].endswith('rank0.json.gz')][0]
        self.assertGreater(read['events'], 100)
        self.assertIn('truncated', [s['reason'] for s in read['skipped']])

    def test_damage_inside_gzip_is_said_and_the_rest_diagnosed(self):
        folder = self.samples(HEALTHY)
        raw = bytearray((folder / 'rank1.json.gz').read_bytes())
        raw[len(raw) // 2:len(raw) // 2 + 64] = b'\xff' * 64
        (folder / 'rank1.json.gz').write_bytes(raw)
        doc = self.diagnose(folder, status=self.any_answer(folder))
        self.assertIn('rank1.json.gz', self.said)
        self.assertIn(0, [r for i in doc['read'] for r in i['ranks']])

    def test_two_files_of_one_rank_are_said(self):
        folder = self.samples(HEALTHY)
        shutil.copy(folder / 'rank1.json.gz', folder / 'zz-again.json.gz')
        doc = self.diagnose(folder, status=0)
        self.assertIn('rank 1', self.said)
        self.assertTrue(any('rank 1' in a for a in doc['assumed']), doc['assumed'])
        self.assertEqual(doc['job']['ranks_seen'], '0-3')

    def test_a_hostile_name_does_not_reach_the_terminal(self):
        folder = self.samples(HEALTHY)
        (folder / '\033[31mred\n').write_bytes(b'')
        p = run('diagnose', folder)
        self.assertNotIn(b'\033', p.stdout + p.stderr)

    def test_more_files_than_descriptors(self):
        folder = self.dir / 'many'
        folder.mkdir()
        text = gzip.decompress((HEALTHY / 'rank0.json.gz').read_bytes()).decode()
        head = json.loads(text)
        head['traceEvents'] = [e for e in head['traceEvents'] if str(e.get('name', '')).startswith(('ProfilerStep', 'gloo'))]
        for rank in range(300):
            head['distributedInfo'] = {'backend': 'gloo', 'rank': rank, 'world_size': 300}
            (folder / f'r{rank}.json').write_text(json.dumps(head))
        doc = self.diagnose(folder, status=self.any_answer(folder),
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
        self.assertEqual(doc['job']['ranks_seen'], '0-299')

    def test_a_full_disk_is_said(self):
        with open('/dev/full', 'wb') as full:
            p = subprocess.run([LOCKSTEP, 'diagnose', str(SLOW)], stdout=full, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(p.returncode, 2)
        self.assertIn(b'standard output', p.stderr)


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], '-q'] + sys.argv[1:])
