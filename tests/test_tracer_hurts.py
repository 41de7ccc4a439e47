#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the tracer may need of its host, and that it never hurts it.

The library's imported symbols: libc only, of no version above 2.17, and none that allocates,
prints, ends the process or raises a signal. Then a program with and without the tracer, a hundred
rounds of each thing that may happen to it: the same exit status, the same output.
"""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

LIBRARY = os.environ['LIBLOCKSTEP']
VICTIM = os.environ['TRACER_VICTIM']
INCLUDE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'include')
ROUNDS = int(os.environ.get('TRACER_ROUNDS', '100'))
SANITIZED = os.environ.get('TRACER_SANITIZED') == '1'
EXPORTS = re.compile(r'lockstep_\w+|InitializeInjection(Nvtx2(_fnptr)?)?|ncclProfiler_v\d+|LOCKSTEP_1')
FORBIDDEN = re.compile(
    r'(m|c|re)alloc|(re)?free|reallocarray|aligned_alloc|posix_memalign|memalign|strn?dup|mallopt|'
    r'v?(f|s|sn|d|as)?w?printf(_chk)?|__\w*printf_chk|put(s|c|char)|f(open|close|read|write|put[sc])\w*|perror|syslog|'
    r'write|abort|_*exit|_Exit|quick_exit|raise|t?g?kill|pthread_kill|sigqueue|signal|sigaction|'
    r'sigprocmask|pthread_\w+|__assert\w*|__stack_chk_fail|atexit|__cxa_atexit|fork|system|popen|'
    r'opendir|readdir|getpwuid|setenv|putenv|unsetenv|__tls_get_addr')


def symbols(*args):
    return [line.split()[-1] for line in
            subprocess.run(['nm', '-D', *args, LIBRARY], check=True, capture_output=True,
                           text=True).stdout.splitlines()]


class Header(unittest.TestCase):
    def test_empty_calls_need_no_library(self):
        for compiler, language, extra in (('cc', 'c', ['-std=c99']), ('c++', 'c++', [])):
            if not shutil.which(compiler):
                continue
            with tempfile.TemporaryDirectory() as t:
                source, target = os.path.join(t, f'a.{language}'), os.path.join(t, 'a')
                with open(source, 'w') as f:
                    f.write('#include "lockstep/lockstep.h"\nint main(void) { uint32_t n = lockstep_name("x");\n'
                            'lockstep_step_begin(-1); lockstep_phase_begin(n, LOCKSTEP_PHASE_USER); '
                            'lockstep_phase_end(); lockstep_collective_end(lockstep_collective_begin(n, '
                            'LOCKSTEP_OP_BARRIER, -1, 0)); lockstep_counter(n, 1.0); lockstep_mark(n); '
                            'lockstep_step_end(); lockstep_identity(0, 0, 1); lockstep_stop(); '
                            'return lockstep_start() + lockstep_on(); }\n')
                subprocess.run([compiler, *extra, '-Wall', '-Wextra', '-Wconversion', '-Werror', '-I', INCLUDE,
                                '-DLOCKSTEP_NONE', source, '-o', target], check=True)
                subprocess.run([target], check=True)
                if not SANITIZED:
                    subprocess.run([compiler, *extra, '-Wall', '-Wextra', '-Wconversion', '-Werror', '-I', INCLUDE,
                                    source, '-o', target, LIBRARY], check=True)
                    subprocess.run([target], check=True, env={**os.environ, 'LOCKSTEP': '0'})


@unittest.skipIf(SANITIZED, 'a sanitizer brings symbols of its own')
class Symbols(unittest.TestCase):
    def test_imports_nothing_that_can_hurt(self):
        bad = [s for s in symbols('-u') if FORBIDDEN.fullmatch(s.split('@')[0])]
        self.assertEqual(bad, [])

    def test_imports_nothing_newer_than_glibc_2_17(self):
        for s in symbols('-u'):
            m = re.search(r'@+GLIBC_(\d+)\.(\d+)', s)
            if m:
                self.assertLessEqual((int(m[1]), int(m[2])), (2, 17), s)
            else:
                self.assertNotIn('@', s)

    def test_dynamic_loading_is_not_required(self):
        undefined = subprocess.run(['nm', '-D', '-u', LIBRARY], capture_output=True, text=True).stdout
        for line in undefined.splitlines():
            if re.search(r' dl(open|sym|error|close)@', line):
                self.assertEqual(line.split()[0], 'w', line)

    def test_exports_its_doors_only(self):
        self.assertEqual([s for s in symbols('--defined-only')
                          if not EXPORTS.fullmatch(s.split('@')[0])], [])
        self.assertIn('lockstep_start', ' '.join(symbols('--defined-only')))

    def test_needs_libc_and_is_never_unloaded(self):
        dynamic = subprocess.run(['readelf', '-dW', LIBRARY], capture_output=True, text=True).stdout
        needed = re.findall(r'NEEDED.*\[(.*?)\]', dynamic)
        self.assertEqual([n for n in needed if not re.match(r'libc\.so|ld-linux', n)], [])
        self.assertIn('NODELETE', dynamic)
        self.assertIn('STATIC_TLS', dynamic)
        self.assertIn('NOW', dynamic)


class SameWithAndWithout(unittest.TestCase):
    """The victim under LOCKSTEP=0, and traced, with something done to its ring or its host."""

    def setUp(self):
        self.base = tempfile.mkdtemp(prefix='lockstep-test-', dir='/dev/shm')
        self.folder = os.path.join(self.base, 'rings')

    def tearDown(self):
        shutil.rmtree(self.base, ignore_errors=True)

    def env(self, way, traced, **more):
        env = {k: v for k, v in os.environ.items() if not re.match(r'SLURM_|PMI|OMPI_|LOCAL_RANK', k)}
        env.update(VICTIM=way, RANK='0', LOCKSTEP='1' if traced else '0', LOCKSTEP_DIR=self.folder, **more)
        return env

    def rings(self):
        return [os.path.join(self.folder, n) for n in os.listdir(self.folder)] \
            if os.path.isdir(self.folder) else []

    def forget(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def once(self, way, traced, **more):
        p = subprocess.run([VICTIM], env=self.env(way, traced, **more), capture_output=True, timeout=60)
        return p.returncode, p.stdout, p.stderr

    def rounds(self, way, rings=1, times=ROUNDS, **more):
        want = self.once(way, False, **more)
        self.assertEqual(self.rings(), [])
        for _ in range(times):
            self.assertEqual(self.once(way, True, **more), want)
            self.assertEqual(len(self.rings()), rings)
            self.forget()
        return want

    def test_runs(self):
        self.assertEqual(self.rounds('steps')[0], 7)

    def test_forks(self):
        self.assertEqual(self.rounds('forks', FORKS='2')[0], 7)

    def test_vforks(self):
        self.assertEqual(self.rounds('vforks')[0], 7)

    def test_execs(self):
        self.assertEqual(self.rounds('execs', rings=3)[0], 7)

    def test_exits_from_a_thread(self):
        self.assertEqual(self.rounds('exits')[0], 3)

    def test_first_thread_leaves(self):
        self.assertEqual(self.rounds('leader')[1], b'still here\n')

    def test_pid_namespaces_have_rings_of_their_own(self):
        unshare = ['unshare', '--pid', '--fork', '--mount-proc']
        if subprocess.run([*unshare, 'true'], capture_output=True).returncode:
            self.skipTest('no right to make a PID namespace')
        self.once('steps', True)
        for _ in range(2):
            self.assertEqual(subprocess.run([*unshare, VICTIM], env=self.env('steps', True),
                                            capture_output=True).returncode, 7)
        names = [os.path.basename(r)[37:].split('-') for r in self.rings()]  # behind the boot's id
        self.assertEqual(len(names), 3)
        inner = [n for n in names if n[1] == '1']
        self.assertGreaterEqual(len(inner), 2)
        self.assertNotIn(str(os.stat('/proc/self/ns/pid').st_ino), [n[0] for n in inner])

    def test_is_killed(self):
        self.assertEqual(self.rounds('killed')[0], -signal.SIGKILL)

    def test_threads_come_and_go(self):
        self.rounds('threads', times=ROUNDS // 10, THREADS='400')

    def test_limit_of_open_files_is_hit(self):
        """Before the start, at it, and after it: the program can open as many as without us."""
        for most in (3, 4, 5, 6, 20):
            self.rounds('files', rings=int(most > 4), times=ROUNDS // 5, FILES=str(most),
                        LSAN_OPTIONS='detect_leaks=0')  # which wants files of its own

    def waiting(self, traced, harm, **options):
        p = subprocess.Popen([VICTIM], env=self.env('waits', traced), stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        self.assertEqual(p.stdout.readline(), b'ready\n')
        if traced:
            harm()
        out, err = p.communicate(b'x', timeout=60)
        return p.returncode, out, err

    def harmed(self, harm, **options):
        want = self.waiting(False, harm, **options)
        self.assertEqual(want[0], 7)
        for _ in range(ROUNDS):
            self.assertEqual(self.waiting(True, harm, **options), want)
            self.forget()

    def test_folder_of_the_rings_is_deleted(self):
        self.harmed(self.forget)

    def test_ring_is_scribbled_on(self):
        def scribble():
            for path in self.rings():
                with open(path, 'r+b') as f:
                    size = os.fstat(f.fileno()).st_size
                    f.write(os.urandom(size))
        self.harmed(scribble)

    def test_ring_cannot_be_truncated_by_its_user(self):
        """A mapped file that is cut short is SIGBUS; so its mode lets nobody do it. Root overrides
        modes, so root tries it as another user."""
        options = {}
        if not os.geteuid():
            options = {'user': 65534, 'group': 65534, 'extra_groups': []}
            os.chown(self.base, 65534, 65534)
            try:
                subprocess.run([VICTIM], env=self.env('whom', False), check=True, capture_output=True, **options)
            except (OSError, subprocess.CalledProcessError):
                self.skipTest('another user may not run the program in this folder')

        def truncate():
            self.assertEqual(len(self.rings()), 1)
            p = subprocess.run(['truncate', '-s', '0', *self.rings()], capture_output=True, **options)
            self.assertNotEqual(p.returncode, 0)
            self.assertGreater(os.stat(self.rings()[0]).st_size, 1 << 20)
        self.harmed(truncate, **options)

    def test_file_system_is_full_or_small(self):
        """A file system of 1 MB, and one that is full: no ring, nothing left behind."""
        os.mkdir(self.folder, 0o700)
        for size, fill in (('1m', 0), ('16m', 12 << 20)):
            if os.geteuid() or subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size},mode=700', 'none',
                                               self.folder], capture_output=True).returncode:
                self.skipTest('no right to mount a small tmpfs')
            try:
                with open(os.path.join(self.folder, 'fill'), 'wb') as f:
                    f.write(b'\0' * fill)
                want = self.once('steps', False)
                for _ in range(ROUNDS):
                    self.assertEqual(self.once('steps', True), want)
                    self.assertEqual(os.listdir(self.folder), ['fill'])
            finally:
                subprocess.run(['umount', self.folder], check=True)


if __name__ == '__main__':
    sys.exit(unittest.main())
