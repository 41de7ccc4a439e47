#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A job that trains nothing: it counts steps, saves, and fails as it is told, for the tests of `lockstep run`.

Of the first argument: what is parted by bars, one an attempt, the last for all that follow; attempts are counted in the file "tries".
    ok              ends well
    hang N          stands still after step N (asleep, with a child in a session of its own that ignores TERM)
    spin N          the same, but busy
    starve N        the same, but gets no CPU to speak of: of the lowest priority, on CPU $STARVE_CPU that another has
    pause N FILE    pauses after step N until the file is there, then ends well
    exit N STATUS   exits after step N
    say N TEXT      prints TEXT to standard error after step N and exits with 1
    die N SIGNAL
"""
import json
import os
import signal
import subprocess
import sys
import time

import checkpoint_made as made

STEPS, SAVE = 30, 10


def plan():
    tries = 0
    if os.path.exists('tries'):
        with open('tries') as f:
            tries = len(f.readlines())
    with open('tries', 'a') as f:
        f.write(json.dumps({'argv': sys.argv[2:], 'time': time.time(),
                            'env': {k: v for k, v in os.environ.items() if k.startswith(('LOCKSTEP_', 'TORCH_'))}}) + '\n')
    words = sys.argv[1].split('|')
    return words[min(tries, len(words) - 1)].split(' ', 2)


def hang(step, busy):
    def told(number, frame):
        with open('told', 'w') as f:
            f.write(str(time.time()))
        os._exit(143)
    signal.signal(signal.SIGTERM, told)
    if not busy:
        child = subprocess.Popen([sys.executable, '-c', 'import os, signal, time; signal.signal(15, signal.SIG_IGN); '
                                  'print("child", os.getpid(), flush=True); time.sleep(600)'], start_new_session=True)
        with open('child', 'w') as f:
            f.write(str(child.pid))
    while True:
        if not busy:
            time.sleep(1)


def starve():
    os.sched_setaffinity(0, {int(os.environ['STARVE_CPU'])})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while True:
        pass


def main():
    what, *rest = plan()
    at = int(rest[0]) if rest else -1
    rest = rest[1].split(' ', 1) if len(rest) > 1 else rest
    start = int(os.environ.get('LOCKSTEP_RESUME_STEP', 0))
    if what == 'say' and at == 0:
        sys.exit(' '.join(rest))
    pace = .005
    for step in range(start + 1, STEPS + 1):
        time.sleep(pace)
        print(f'step {step}/{STEPS} loss {1 / step:.3f} time 20 ms', flush=True)
        if step % SAVE == 0:
            os.makedirs('ckpt', exist_ok=True)
            made.write(f'ckpt/step_{step}.pt', made.torch_zip(made.state(step)))
        if step != at:
            continue
        if what in ('hang', 'spin'):
            hang(step, what == 'spin')
        elif what == 'starve':
            starve()
        elif what == 'pause':
            while not os.path.exists(rest[0]):
                time.sleep(.1)
            pace = .1
        elif what == 'exit':
            sys.exit(int(rest[0]))
        elif what == 'say':
            sys.exit(' '.join(rest))
        elif what == 'die':
            os.kill(os.getpid(), int(rest[0]))


main()
