#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Days of a job in minutes: the steps of a traced job follow each other without a pause, and neither its processes,
its rings nor the agent grow.

    soak.py LOCKSTEP LIVE_JOB

SOAK_STEPS (200,000: nine days of 15 steps a minute) of 4 ranks, all told by the tracer and read by an agent. What
stands still is what a day would change: clocks, rotated segments by age, the kernel's own bookkeeping.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

LOCKSTEP, JOB = (os.path.abspath(p) for p in sys.argv[1:3])
STEPS, RANKS = int(os.environ.get('SOAK_STEPS', 200000)), 4
GROWTH_KB = 1024


def kb(pid, what):
    for line in pathlib.Path(f'/proc/{pid}/status').read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1])
    raise OSError(what)


def children(pid):
    return [int(p) for p in pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text().split()]


def expect(condition, what):
    if not condition:
        sys.exit(f'soak: {what}')


def sample(agent, job, rings):
    """(kB of the agent, kB of the largest rank without its ring, bytes of the largest ring)"""
    return (kb(agent.pid, 'VmRSS'), max(kb(p, 'RssAnon') for p in children(job.pid)),
            max(r.stat().st_size for r in rings.glob('*.ring')))


def main():
    with tempfile.TemporaryDirectory(dir='/dev/shm') as t, tempfile.TemporaryDirectory() as out:
        rings = pathlib.Path(t) / 'rings'
        rings.mkdir(0o700)
        agent = subprocess.Popen([LOCKSTEP, 'agent', '--rings', rings, '--out', out])
        job = subprocess.Popen([JOB, f'ranks={RANKS}', f'steps={STEPS}', 'ms=30', 'quick=1000', 'kind=none'],
                               env={**os.environ, 'LOCKSTEP': '1', 'LOCKSTEP_DIR': str(rings)}, stdout=subprocess.DEVNULL)
        samples, begin = [], time.monotonic()
        while job.poll() is None:
            time.sleep(1)
            try:
                samples.append(sample(agent, job, rings))
            except (OSError, ValueError):
                break  # it ends
        expect(job.wait() == 0, f'the job ended with {job.returncode}')
        seconds = time.monotonic() - begin
        time.sleep(2)
        agent.terminate()
        expect(agent.wait() == 0, f'the agent ended with {agent.returncode}')
        expect(len(samples) >= 10, f'too quick: {len(samples)} samples')
        early, late = samples[len(samples) // 5], samples[-1]
        expect(late[0] - early[0] <= GROWTH_KB, f'the agent grew from {early[0]} to {late[0]} kB')
        expect(late[1] - early[1] <= GROWTH_KB, f'a rank grew from {early[1]} to {late[1]} kB')
        expect(late[2] == early[2] <= 4 << 20, f'a ring of {late[2]} bytes, {early[2]} before')
        size = sum(p.stat().st_size for p in pathlib.Path(out).glob('*.lks'))
        told = subprocess.run([LOCKSTEP, 'diagnose', '--json', out], capture_output=True, text=True)
        expect(told.returncode in (0, 1), f'diagnose: {told.stderr}')
        print(f'{STEPS} steps of {RANKS} ranks in {seconds:.0f} s: the agent {early[0]} kB, then {late[0]}; a rank {early[1]} kB, '
              f'then {late[1]}; a ring {late[2]} bytes; {size / STEPS / RANKS:.0f} bytes a step in {len(list(pathlib.Path(out).glob("*.lks")))} segments')


if __name__ == '__main__':
    main()
