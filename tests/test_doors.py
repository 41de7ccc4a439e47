#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""liblockstep.so met through its doors by real callers, and what its ring says afterwards.

    test_doors.py LIBLOCKSTEP NCCL_LOADER

NVTX: NVIDIA's C header and PyPI's nvtx (in this Python, or $NVTX_PYTHON). NCCL: a loader of ours that does as NCCL.
CUPTI: the real library of $CUDA_HOME, which refuses where there is no driver. What is not here is skipped, with a word.
"""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ring_records  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
CUDA = os.environ.get('CUDA_HOME', '/usr/local/cuda')
LIB, LOADER = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
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
        return ring_records.only(self.rings)


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


if __name__ == '__main__':
    unittest.main(argv=[sys.argv[0], '-v'])
