#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""python/lockstep without torch: the API, how it is loaded, and what that costs.

    tests/test_python.py BUILD
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path[:0] = [os.path.join(HERE, 'torch'), os.path.join(ROOT, 'scripts')]
import ring  # noqa: E402
import wheel  # noqa: E402

BUILD = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else os.path.join(ROOT, 'build')
TALK = """
import lockstep, gc
for i in range(3):
    with lockstep.step():
        with lockstep.phase('outer'):
            with lockstep.phase('load', lockstep.DATA):
                pass
        lockstep.counter('tokens', 4096)
lockstep.step(), lockstep.step(), lockstep.stop()
"""

PROFILES = '''
import os, types, lockstep
from lockstep.auto import profiler
class profile:
    def __init__(self, *on):
        self.kineto_activities = [types.SimpleNamespace(name=n) for n in on]
    def __enter__(self):
        self._prepare_trace()
    def _prepare_trace(self): pass
    def __exit__(self, *error):
        if error[0]: raise KeyError
def trace(): os.write(1, b'trace ')
profiler.put(types.SimpleNamespace(profile=profile))
with profile('CPU', 'CUDA'): trace()
with profile('CPU'): trace()
with profile('CUDA'):
    with profile('CUDA'): trace()
    trace()
try:
    with profile('CUDA'): 1 / 0
except KeyError: os.write(1, b'raised ')
print({n: s for n, s in lockstep.status()['hooks'].items() if s.startswith('failed')})
'''


class Python(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        wheel.tree(BUILD, cls.folder)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def setUp(self):
        self.rings = tempfile.mkdtemp(dir='/dev/shm')
        self.addCleanup(shutil.rmtree, self.rings)

    def run_python(self, *argv, **env):
        base = {k: v for k, v in os.environ.items() if k not in ('RANK', 'LOCAL_RANK', 'LOCKSTEP', 'LOCKSTEP_AUTO', 'LOCKSTEP_LIBRARY', 'LD_LIBRARY_PATH')}
        base.update({'PYTHONPATH': self.folder, 'LOCKSTEP_DIR': self.rings, **env})
        p = subprocess.run([sys.executable, *argv], env=base, capture_output=True, text=True, timeout=60)
        self.assertEqual(p.returncode, 0, p.stderr)
        return p.stdout

    def status(self, *options, code='', **env):
        return json.loads(self.run_python(*options, '-c', f'import json, lockstep\n{code}\nprint(json.dumps(lockstep.status()))', **env))

    def test_a_rank_tells_what_it_is_told(self):
        self.run_python('-c', TALK, RANK='3', WORLD_SIZE='8')
        read = ring.rings(self.rings)[0]
        self.assertEqual((read.rank, read.header.world_size), (3, 8))
        self.assertEqual([(e.what, e.name, e.depth) for e in read.of('phase')], [('user', 'outer', 0), ('data', 'load', 1)] * 3)
        self.assertEqual([e.value for e in read.of('step')], [0, 1, 2, 3])
        self.assertEqual([e.value for e in read.of('counter')], [4096.] * 3)

    def test_processes_that_are_no_ranks_tell_nothing_and_say_so(self):
        status = self.status()
        self.assertEqual((status['on'], status['process'], status['why']), (False, 'other', 'this process is no rank: other'))
        self.assertFalse(self.status(RANK='0', LOCKSTEP='0')['on'])
        self.assertEqual(os.listdir(self.rings), [])

    def test_a_job_without_ranks_tells_if_it_is_asked_to(self):
        self.assertTrue(self.status(LOCKSTEP='1')['on'])

    def test_without_the_library_every_call_does_nothing_and_status_says_so(self):
        with tempfile.TemporaryDirectory() as t:
            shutil.copytree(os.path.join(self.folder, 'lockstep'), os.path.join(t, 'lockstep'), ignore=shutil.ignore_patterns('native'))
            status = self.status(code=TALK, PYTHONPATH=t, RANK='0')
            self.assertFalse(status['on'])
            self.assertIn('liblockstep.so', status['why'])
            os.remove(os.path.join(t, 'lockstep', '_lockstep.abi3.so'))
            status = self.status(code=TALK, PYTHONPATH=t, RANK='0')
            self.assertIn('the extension is not there', status['why'])

    def test_decorated_functions_are_what_they_were(self):
        out = self.run_python('-c', """
import lockstep
@lockstep.phase('f')
def f(x, y=2):
    'doc'
    return x + y
print(f(1), f.__name__, f.__doc__)
async def g(): pass
def h(): yield
for bad in (g, h):
    try: lockstep.phase('x')(bad)
    except TypeError as e: print('refused')
for args in (1,), ('x', 99), ():
    try: lockstep.phase(*args)
    except (TypeError, ValueError): print('refused')
""", RANK='0')
        self.assertEqual(out.split(), ['3', 'f', 'doc'] + ['refused'] * 5)

    def test_a_child_of_a_fork_tells_nothing(self):
        self.run_python('-c', """
import lockstep, os
with lockstep.phase('parent'): pass
if os.fork() == 0:
    with lockstep.phase('child'): pass
    os._exit(0)
os.wait()
""", RANK='0')
        self.assertEqual([[e.name for e in r.of('phase')] for r in ring.rings(self.rings)], [['parent']])

    def test_many_names_are_bounded(self):
        out = self.run_python('-c', """
import lockstep, resource
def grow():
    for i in range(60000):
        with lockstep.phase(f'{i} ' + 'x' * 200): pass
grow(); a = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
grow(); b = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with lockstep.phase('\\udcff' * 3 + 'y' * 2000000): pass
print(b - a)
""", RANK='0')
        self.assertLess(int(out), 4096)
        self.assertGreater(ring.rings(self.rings)[0].header.counters[4], 0)

    def test_who_is_a_rank_is_known_by_the_command_line(self):
        out = self.run_python('-c', f"""
import sys, json
sys.path.insert(0, {self.folder!r})
from lockstep._process import by_command
print(json.dumps([by_command(a) for a in json.loads(sys.argv[1])]))
""", json.dumps([['python', '-m', 'torch.distributed.run', 'x.py'], ['python', '/venv/bin/torchrun', 'x.py'], ['python', '-u', 'train.py'],
                 ['python', '-c', 'from multiprocessing.spawn import spawn_main; x', '--multiprocessing-fork'],
                 ['python', '-c', 'from multiprocessing.resource_tracker import main;main(5)'],
                 ['python', '-c', 'from multiprocessing.forkserver import main; main(1)'],
                 ['python', '/t/torch/_inductor/compile_worker/__main__.py'], ['python', '-m', 'train', '--run', 'torchrun']]))
        self.assertEqual(json.loads(out), ['launcher', 'launcher', '', 'spawned', 'helper', 'spawned', 'helper', ''])

    def test_the_sitecustomize_that_ours_hides_is_run_once(self):
        with tempfile.TemporaryDirectory() as t:
            with open(os.path.join(t, 'sitecustomize.py'), 'w', encoding='utf-8') as f:
                f.write('print("theirs")\n')
            out = self.run_python('-c', 'import sys; print([f.__name__ for f in sys.meta_path if getattr(f, "lockstep", False)])',
                                  PYTHONPATH=os.path.join(self.folder, 'site') + ':' + t, LOCKSTEP_AUTO='1', RANK='0')
        self.assertEqual(out.split(), ['theirs', "['Finder']"])

    def test_installing_twice_is_installing_once(self):
        out = self.run_python('-c', 'import sys, _lockstep_boot as b; b.install(); b.install(); print(sum(hasattr(f, "lockstep") for f in sys.meta_path))',
                              LOCKSTEP_AUTO='1', RANK='0')
        self.assertEqual(out.strip(), '1')

    def test_a_profiler_of_the_gpu_is_told_to_the_library_from_its_begin_to_its_end(self):
        names = ('start stop on identity name step_begin step_end phase_begin phase_end counter mark collective_begin collective_end').split()
        with tempfile.TemporaryDirectory() as t:
            source, library = os.path.join(t, 'library.c'), os.path.join(t, 'liblockstep.so')
            with open(source, 'w', encoding='utf-8') as f:
                f.write('#include <unistd.h>\n' + ''.join(f'long lockstep_{n}(void) {{ return 0; }}\n' for n in names) +
                        'void lockstep_profiler(int on) { write(1, on ? "begin " : "end ", on ? 6 : 4); }\n')
            subprocess.run([*os.environ.get('CC', 'cc').split(), '-w', '-shared', '-fPIC', source, '-o', library], check=True)
            out = self.run_python('-c', PROFILES, RANK='0', LOCKSTEP_LIBRARY=library)
        self.assertEqual(out.split(), ['begin', 'trace', 'end', 'trace', 'begin', 'trace', 'trace', 'end', 'begin', 'end', 'raised', '{}'])

    def test_a_start_without_torch_costs_less_than_3_ms(self):
        def took(site):
            pid = os.posix_spawn(sys.executable, [sys.executable, '-c', 'pass'], dict(os.environ, PYTHONPATH=site, LOCKSTEP_AUTO='1', RANK='0'))
            used = os.wait4(pid, 0)[2]
            return used.ru_utime + used.ru_stime
        with tempfile.TemporaryDirectory() as empty:
            best = []
            for _ in range(3):
                pairs = [(took(empty), took(os.path.join(self.folder, 'site'))) for _ in range(20)]
                best.append(min(b for _, b in pairs) - min(a for a, _ in pairs))
            self.assertLess(min(best), .003, statistics.median(best))


if __name__ == '__main__':
    unittest.main()
