#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""liblockstep.so met through its doors by real callers, and what its ring says afterwards.

    test_doors.py LIBLOCKSTEP NCCL_LOADER STANDIN_CUPTI

NVTX: NVIDIA's C header and PyPI's nvtx (in this Python, or $NVTX_PYTHON). NCCL: a loader of ours that does as NCCL.
CUPTI: the real library of $CUDA_HOME, which refuses where there is no driver, and a stand-in for it. What is not here is skipped, with a word.
"""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ring_file  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
CUDA = os.environ.get('CUDA_HOME', '/usr/local/cuda')
LIB, LOADER, STANDIN = (os.path.abspath(a) for a in sys.argv[1:4])
CC = os.environ.get('CC', 'cc').split()


class Case(unittest.TestCase):
    def setUp(self):
        # a quarter of the file system must be free, or there is no ring
        self.folder = tempfile.TemporaryDirectory(dir='/dev/shm' if os.access('/dev/shm', os.W_OK) else None)
        self.rings = os.path.join(self.folder.name, 'rings')
        os.mkdir(self.rings, 0o700)

    def tearDown(self):
        self.folder.cleanup()

    def run_in(self, argv, **env):
        clean = {k: v for k, v in os.environ.items() if not k.startswith('LOCKSTEP') and k not in ('RANK', 'LOCAL_RANK')}
        done = subprocess.run(argv, env=clean | {'LOCKSTEP': '1', 'LOCKSTEP_DIR': self.rings} | env, capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, '')
        return done.stdout

    def ring(self):
        return ring_file.only(self.rings)


class Nvtx(Case):
    def build(self):
        if not os.path.exists(os.path.join(CUDA, 'include', 'nvtx3', 'nvToolsExt.h')):
            self.skipTest('skipped: no NVTX headers')
        source, flags = os.path.join(HERE, 'nvtx_program.c'), ['-O1', '-I' + os.path.join(CUDA, 'include'), '-ldl', '-lpthread']
        program, part = os.path.join(self.folder.name, 'program'), os.path.join(self.folder.name, 'part.so')
        subprocess.run([*CC, source, '-o', program, *flags], check=True)
        subprocess.run([*CC, source, '-DPART', '-fPIC', '-shared', '-o', part, *flags], check=True)
        return program, part

    def test_a_program_and_its_shared_object(self):
        program, part = self.build()
        self.run_in([program, part], NVTX_INJECTION64_PATH=LIB)
        ring = self.ring()
        self.assertEqual([(r.value, r.depth) for r in ring.of('step')], [(40 + i, 0) for i in range(5)])
        phases = [r.name for r in ring.of('phase')]
        for name in ('forward', 'backward', 'attention', 'prefetch'):
            self.assertEqual(phases.count(name), 5, name)
        self.assertEqual({r.arg for r in ring.of('phase') if r.name == 'backward'}, {2})
        self.assertEqual(len(ring.of('mark')), 5)
        self.assertEqual(ring.counts, {'end_without_begin': 1})
        self.assertEqual(ring.doors, 4)
        self.assertNotIn('iteration 40', ring.names)

    def test_the_configured_range_is_the_step(self):
        program, part = self.build()
        self.run_in([program, part], NVTX_INJECTION64_PATH=LIB, LOCKSTEP_STEP_RANGE='part/attention')
        self.assertEqual(len(self.ring().of('step')), 5)

    def test_a_process_that_does_not_train_has_no_ring(self):
        program, _ = self.build()
        self.run_in([program], NVTX_INJECTION64_PATH=LIB, LOCKSTEP='0')
        self.assertEqual(os.listdir(self.rings), [])

    def test_python(self):
        python = os.environ.get('NVTX_PYTHON', sys.executable)
        if subprocess.run([python, '-c', 'import nvtx; nvtx.Domain'], capture_output=True, check=False).returncode:
            self.skipTest("skipped: no PyPI nvtx ($NVTX_PYTHON)")
        script = '''import nvtx, threading
@nvtx.annotate("forward", domain="net")
def forward(): pass
def work():
    for i in range(100):
        with nvtx.annotate("train_step"):
            with nvtx.annotate("optimizer", color="red"):
                pass
            forward()
            r = nvtx.start_range("async")
            nvtx.end_range(r)
        nvtx.mark("loss")
t = threading.Thread(target=work)
t.start()
t.join()'''
        self.run_in([python, '-c', script], NVTX_INJECTION64_PATH=LIB)
        ring = self.ring()
        self.assertEqual([r.value for r in ring.of('step')], list(range(100)))
        for name in ('forward', 'optimizer', 'async'):
            self.assertEqual([r.name for r in ring.of('phase')].count(name), 100)
        self.assertEqual(len(ring.of('mark')), 100)
        self.assertEqual(ring.counts, {})


class Nccl(Case):
    def test_a_loader_that_does_as_nccl(self):
        for version in (2, 3, 4, 5, 6):
            with self.subTest(version=version):
                self.tearDown()
                self.setUp()
                self.run_in([LOADER, LIB, str(version), '4', '200'])
                ring = self.ring()
                told = ring.of('coll')
                self.assertEqual(len(told), 800)
                self.assertEqual({r.arg for r in told}, {1, 10})
                self.assertEqual(len({r.name for r in told}), 4)
                self.assertEqual({r.value for r in told if r.arg == 1}, set(range(0, 200, 2)))
                self.assertEqual({(r.value, r.name) for r in ring.of('more')}, {(4096, 'RING'), (4096, '')})
                self.assertEqual(ring.counts, {'ignored': 1})
                self.assertEqual(ring.doors, 8)

    def test_a_process_that_does_not_train_asks_for_nothing(self):
        self.run_in([LOADER, LIB, '5', '1', '0'], LOCKSTEP='0')
        self.assertEqual(os.listdir(self.rings), [])


class Cupti(Case):
    """By hand, since without a driver no cuInit comes to it."""

    script = "import ctypes, sys; l = ctypes.CDLL(sys.argv[1]); assert l.InitializeInjection() == 1; assert l.InitializeInjection() == 1\n" \
             "l.lockstep_name.restype = ctypes.c_uint32; l.lockstep_mark(l.lockstep_name(b'alive')); assert l.lockstep_on()"

    def test_the_real_cupti_refuses_and_all_else_goes_on(self):
        import ctypes
        real = next((p for d in ('lib64', 'lib', 'extras/CUPTI/lib64') for n in ('13', '12', '11.8')
                     if os.path.exists(p := os.path.join(CUDA, d, 'libcupti.so.' + n))), None)
        if not real:
            self.skipTest('skipped: no libcupti')
        try:
            ctypes.CDLL('libcuda.so.1')
            self.skipTest('skipped: there is a driver')
        except OSError:
            pass
        self.run_in([sys.executable, '-c', self.script, LIB], LOCKSTEP_CUPTI=real)
        ring = self.ring()
        self.assertIn(ring.off_code, (999, 15))
        self.assertIn('no kernels: CUPTI refuses', ring.off_text)
        self.assertEqual((ring.state, ring.doors & 2), (1, 2))
        self.assertEqual([r.name for r in ring.of('mark')], ['alive'])

    def test_without_any_cupti_all_else_goes_on(self):
        self.run_in([sys.executable, '-c', self.script, LIB], LOCKSTEP_CUPTI='/nonexistent/libcupti.so')
        ring = self.ring()
        self.assertIn('no libcupti', ring.off_text)
        self.assertEqual(len(ring.of('mark')), 1)


class Standin(Case):
    """The whole library on the stand-in, in one process with steps of the program's."""

    # the functions of struct standin (tests/standin_cupti.h), in their order
    script = '''import ctypes as c, sys, time
u32, u64, v = c.c_uint32, c.c_uint64, c.c_void_p
F = [("version", None, u32, c.c_int), ("launch", u32, c.c_char_p, u32, u64, u64, u32), ("copy", u32, c.c_uint8, u32, u64, u64),
     ("peer", u32, u32, u64, u64), ("set", u32, u32, u64, u64), ("sync", u32, u32, u32, u64, u64), ("finish", None, c.c_bool),
     ("drop", None, c.c_size_t), ("profiler", None, c.c_bool), ("kernels", c.c_size_t), ("unknown", c.c_size_t), ("enabled", c.c_bool, c.c_int)]
class Standin(c.Structure):
    _fields_ = [(name, c.CFUNCTYPE(*types)) for name, *types in F]
cu = Standin.in_dll(c.CDLL(sys.argv[2], mode=c.RTLD_GLOBAL), "standin")
lib = c.CDLL(sys.argv[1])
lib.lockstep_name.restype = u32
lib.lockstep_step_begin.argtypes = [c.c_int64]
assert lib.InitializeInjection() == 1
forward = lib.lockstep_name(b"forward")
now = time.time_ns() - 10**9
kept = [b"kernel_%d" % i for i in range(10)]
def step(i):
    lib.lockstep_step_begin(i)
    lib.lockstep_phase_begin(forward, 1)
    for k in range(10):
        cu.launch(kept[k], 7, now + k * 1000, now + k * 1000 + 900, 0)
    lib.lockstep_phase_end()
    cu.finish(True)
    lib.lockstep_step_end()
'''

    def play(self, script):
        self.run_in([sys.executable, '-c', self.script + script, LIB, STANDIN])
        return self.ring()

    def test_kernels_lie_in_their_slot_with_phases_and_the_last_come_at_exit(self):
        ring = self.play('for i in range(20): step(i)\n')
        kernels = ring.of('kernel')
        self.assertEqual(len(kernels), 200)
        self.assertEqual(ring.heads[0], 200)
        self.assertEqual({r.phase for r in kernels}, {'forward'})
        self.assertEqual({(r.name, r.duration, r.arg) for r in kernels}, {(f'kernel_{i}', 900, 7) for i in range(10)})
        self.assertEqual(len({r.correlation for r in kernels}), 200)
        self.assertEqual(ring.counts, {})

    def test_steps_beside_a_profiler_are_marked_and_no_others(self):
        ring = self.play('''
for i in range(10): step(i)
time.sleep(2.5)
lib.lockstep_profiler(1)
cu.profiler(True)
for i in range(10, 20): step(i)
cu.profiler(False)
time.sleep(1.5)
lib.lockstep_profiler(0)
time.sleep(2.5)
for i in range(20, 30): step(i)
''')
        marked = [r.value for r in ring.of('step') if r.arg & 2]
        self.assertEqual(marked, list(range(10, 20)))
        self.assertEqual([r.arg for r in ring.of('gap')], [1, 1])
        self.assertEqual(len(ring.of('kernel')), 200)

    def test_who_stops_leaves_cupti_as_it_was(self):
        ring = self.play('''
step(0)
time.sleep(2.5)
assert cu.enabled(10)
lib.lockstep_stop()
time.sleep(1.5)
assert not any(cu.enabled(kind) for kind in range(64))
step(1)
''')
        self.assertEqual((len(ring.of('kernel')), len(ring.of('step'))), (10, 1))

    def test_a_forked_child_is_silent_and_ends(self):
        ring = self.play('''
import os
step(0)
pid = os.fork()
if not pid:
    step(1)
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
step(2)
''')
        self.assertEqual([r.value for r in ring.of('step')], [0, 2])
        self.assertEqual(len(ring.of('kernel')), 20)


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], '-v'])
