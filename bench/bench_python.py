#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a call of python/lockstep costs, beside torch.profiler.record_function in the same process.

    PYTHON bench/bench_python.py BUILD

One line a figure: ns of a loop's round less that of an empty one, least and median of 200 turns that alternate. Figures of
torch are left out where PYTHON has none. The process tells for real, into a ring in /dev/shm.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROUNDS, TURNS = 500, 200     # rounds shorter than a scheduler's slice: other guests spoil some, not all
BODIES = {
    'empty': 'pass',
    'with phase(name), a pair': 'with phase("forward"): pass',
    'with a kept phase, a pair': 'with kept: pass',
    'decorated, a pair and the call': 'decorated()',
    'hook begin and end': 'begin(kept); end()',
    'step()': 'step()',
    'counter(name, value)': 'counter("tokens", 4096.0)',
    'mark(name)': 'mark("saved")',
    'collective begin and end': 'collective_end(collective_begin(1, 1, 7, 4096))',
}
TORCH = {
    'record_function, a pair': 'with record_function("forward"): pass',
    '_RecordFunctionFast, a pair': 'with fast: pass',
}


def scope():
    sys.path.insert(0, sys.argv[2])
    import lockstep
    tell = lockstep._tell
    if not lockstep.start():
        sys.exit(lockstep.status())
    names = {'phase': lockstep.phase, 'kept': lockstep.phase('kept'), 'decorated': lockstep.phase('f')(lambda: None),
             'step': lockstep.step, 'counter': lockstep.counter, 'mark': lockstep.mark, 'begin': tell.begin, 'end': tell.end,
             'collective_begin': tell.collective_begin, 'collective_end': tell.collective_end}
    bodies = dict(BODIES)
    try:
        import torch
        from torch.profiler import record_function
        names.update(record_function=record_function, fast=torch._C._profiler._RecordFunctionFast('forward'))
        bodies.update(TORCH)
    except ImportError:
        pass
    return bodies, names


def measure():
    bodies, names = scope()
    loops = {}
    for what, body in bodies.items():
        there = dict(names)
        exec(f'def loop(rounds):\n for _ in rounds:\n  {body}', there)
        loops[what] = there['loop']
    took = {what: [] for what in loops}
    for turn in range(TURNS):
        for what, loop in loops.items():
            rounds = range(ROUNDS // 10 if what.startswith('record_function') else ROUNDS)
            t = time.perf_counter_ns()
            loop(rounds)
            took[what].append((time.perf_counter_ns() - t) / len(rounds))
    floor = min(took.pop('empty'))
    beside = f'{min(took[next(iter(TORCH))]) - floor:.0f} ns torch.profiler.record_function' if next(iter(TORCH)) in took else 'no torch here'
    for what, times in took.items():
        print(f'{"python: " + what:40} {min(times) - floor:8.0f} ns  min {min(times) - floor:.0f} median {statistics.median(times) - floor:.0f} of {TURNS}; {beside}')


def main():
    if len(sys.argv) > 2:
        return measure()
    with tempfile.TemporaryDirectory() as t, tempfile.TemporaryDirectory(dir='/dev/shm') as rings:
        subprocess.run([sys.executable, os.path.join(ROOT, 'scripts', 'wheel.py'), 'tree', sys.argv[1], t], check=True)
        env = dict(os.environ, LOCKSTEP='1', LOCKSTEP_DIR=rings, LOCKSTEP_AUTO='0')
        subprocess.run([sys.executable, os.path.abspath(__file__), sys.argv[1], t], env=env, check=True)
    return None


if __name__ == '__main__':
    main()
