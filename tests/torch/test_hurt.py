#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training program with Lockstep ends as it does without, whatever happens to it, its rings or the agent.

    VENV/bin/python tests/torch/test_hurt.py [NAME...]

LOCKSTEP is the program in its build folder; HURT_ROUNDS how often each thing is done (2; `make check-long` 100), two
programs at a time. The losses are compared bit by bit, and all that is printed, and the exit status. One line a test,
as in run.py.
"""
import concurrent.futures
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LOCKSTEP = os.path.abspath(os.environ.get('LOCKSTEP', os.path.join(ROOT, 'build', 'lockstep')))
JOB = os.path.join(HERE, 'hurt_jobs.py')
ROUNDS = int(os.environ.get('HURT_ROUNDS', '2'))
SEED = int(os.environ.get('SEED', '20261201'))


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


class Run:
    """One program, with Lockstep where `rings` names a folder."""

    def __init__(self, tree, way, rings=None):
        env = dict(os.environ, OMP_NUM_THREADS='1', PYTHONPATH=os.path.join(tree, 'site') if rings else '')
        env['LOCKSTEP_AUTO'] = '1' if rings else '0'
        for name in ('RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'LOCKSTEP'):
            env.pop(name, None)
        if rings:
            env.update(RANK='0', LOCAL_RANK='0', WORLD_SIZE='1', LOCKSTEP_DIR=rings)
        self.p = subprocess.Popen([sys.executable, JOB, way], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        self.out = ''

    def wait_until_ready(self):
        while (line := self.p.stdout.readline()):
            self.out += line
            if line == 'ready\n':
                return
        raise AssertionError(f'it ended before it was ready: {self.p.stderr.read()[-300:]}')

    def end(self):
        """(exit status, output, errors); a program that waits is let go."""
        out, errors = self.p.communicate('\n', timeout=240)
        return self.p.returncode, self.out + out, errors


def ring_files(rings):
    return [os.path.join(rings, n) for n in os.listdir(rings) if n.endswith('.ring')] if os.path.isdir(rings) else []


def rounds(tree, way, harm=None, rings_of=None, wants_ring=True):
    """ROUNDS runs with Lockstep against one without. harm(rings, round) is called in the tenth step."""
    plain = Run(tree, way)
    if way == 'waits':
        plain.wait_until_ready()
    want = plain.end()
    expect(want[1].count('0x1.') + want[1].count('0x0.') >= 10, f'it does not train: {want}')

    def once(i):
        with tempfile.TemporaryDirectory(dir='/dev/shm') as folder:
            rings = rings_of(folder) if rings_of else os.path.join(folder, 'rings')
            run = Run(tree, way, rings)
            try:
                if way == 'waits':
                    run.wait_until_ready()
                    if harm:
                        harm(rings, i)
                got = run.end()
            finally:
                run.p.kill()
            expect(got == want, f'round {i}: {got}, without {want}')
            expect(not wants_ring or len(ring_files(rings)) == 1, f'rings: {ring_files(rings)}')
            return rings
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(once, range(ROUNDS)))
    return want


def it_is_killed(tree):
    expect(rounds(tree, 'killed')[0] == -signal.SIGKILL, 'it was not killed')


def it_exits_from_a_thread(tree):
    expect(rounds(tree, 'exits')[0] == 3, 'it did not end so')


def it_forks(tree):
    expect('child 5' in rounds(tree, 'forks')[1], 'no child')


def it_runs_out_of_files(tree):
    expect('files 24 True' in rounds(tree, 'files')[1], 'it did not run out')


def its_rings_are_deleted(tree):
    rounds(tree, 'waits', lambda rings, i: shutil.rmtree(rings), wants_ring=False)


def its_ring_is_scribbled_on(tree):
    def scribble(rings, i):
        for path in ring_files(rings):
            os.chmod(path, 0o600)
            with open(path, 'r+b') as f:
                f.write(random.Random(SEED + i).randbytes(os.fstat(f.fileno()).st_size))
    rounds(tree, 'waits', scribble)


def small_file_system(folder, size, fill):
    rings = os.path.join(folder, 'rings')
    os.mkdir(rings, 0o700)
    if os.geteuid() or subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size},mode=700', 'none', rings],
                                      capture_output=True).returncode:
        return None
    with open(os.path.join(rings, 'fill'), 'wb') as f:
        f.write(b'\0' * fill)
    return rings


def the_file_system_of_its_rings_is_full(tree):
    """1 MB, and one with 4 MB left: no ring there."""
    for size, fill in (('1m', 0), ('16m', 12 << 20)):
        with tempfile.TemporaryDirectory() as folder:
            rings = small_file_system(folder, size, fill)
            if not rings:
                return 'no right to mount a small tmpfs'
            try:
                rounds(tree, 'runs', rings_of=lambda _, rings=rings: rings, wants_ring=False)
                expect(not ring_files(rings), 'a ring was left')
            finally:
                subprocess.run(['umount', rings], check=True)
    return None


def the_agent_is_killed(tree):
    """At a random moment of each run; the next agent reads on, and what was written can be diagnosed."""
    with tempfile.TemporaryDirectory(dir='/dev/shm') as folder:
        rings, out = os.path.join(folder, 'rings'), os.path.join(folder, 'out')
        os.mkdir(rings, 0o700)

        def agent(*more):
            return subprocess.Popen([LOCKSTEP, 'agent', '--rings', rings, '--out', out, *more], stdout=subprocess.DEVNULL,
                                    stderr=subprocess.PIPE)
        moments = random.Random(SEED)
        want = Run(tree, 'runs').end()
        for i in range(ROUNDS):
            a, run = agent(), Run(tree, 'runs', rings)
            time.sleep(moments.uniform(0, 3))
            a.kill()
            a.communicate()
            got = run.end()
            expect(got == want, f'round {i}: {got}, without {want}')
        last = agent('--once')
        expect(last.wait() == 0, last.stderr.read().decode()[-300:])
        last.stderr.close()
        told = subprocess.run([LOCKSTEP, 'diagnose', out], capture_output=True, text=True)
        expect(told.returncode in (0, 1), f'diagnose: {told.returncode} {told.stderr[-300:]}')
        expect(not ring_files(rings), f'left: {ring_files(rings)}')


TESTS = [it_is_killed, it_exits_from_a_thread, it_forks, it_runs_out_of_files, its_rings_are_deleted,
         its_ring_is_scribbled_on, the_file_system_of_its_rings_is_full, the_agent_is_killed]


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as tree:
        subprocess.run([sys.executable, os.path.join(ROOT, 'scripts', 'wheel.py'), 'tree', os.path.dirname(LOCKSTEP), tree],
                       check=True)
        for test in TESTS:
            if sys.argv[1:] and test.__name__ not in sys.argv[1:]:
                continue
            try:
                skipped = test(tree)
                print(f'skipped {test.__name__}: {skipped}' if skipped else f'ok {test.__name__}', flush=True)
            except (AssertionError, OSError, subprocess.SubprocessError) as e:
                failed += 1
                print(f'FAILED {test.__name__}: {e}', flush=True)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
