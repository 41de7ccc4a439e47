# SPDX-License-Identifier: Apache-2.0
"""A small training program to which something happens in its tenth step: what test_hurt.py runs with and without Lockstep.

    hurt_jobs.py runs|waits|killed|exits|forks|files
"""
import os
import resource
import signal
import sys
import threading

import torch
from torch.utils.data import DataLoader, TensorDataset

STEPS, HURT = 20, 10


def ask():
    print('ready', flush=True)
    sys.stdin.readline()


def exit_from_a_thread():
    thread = threading.Thread(target=lambda: os._exit(3))
    thread.start()
    thread.join()


def fork():
    pid = os.fork()
    if not pid:
        torch.nn.Linear(4, 4)(torch.ones(1, 4)).sum().backward()
        os._exit(5)
    print('child', os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def use_up_files():
    """As many files as may be opened: the same number with Lockstep and without."""
    most = len(os.listdir('/proc/self/fd')) + 8
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    taken = []
    try:
        while True:
            taken.append(os.open('/dev/null', os.O_RDONLY))
    except OSError as e:
        print('files', e.errno, len(taken) > 0)
    for fd in taken[4:]:
        os.close(fd)


HURTS = {'runs': lambda: None, 'waits': ask, 'killed': lambda: os.kill(os.getpid(), signal.SIGKILL),
         'exits': exit_from_a_thread, 'forks': fork, 'files': use_up_files}


def main():
    torch.set_num_threads(1)
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=.01)
    data = TensorDataset(torch.randn(STEPS * 4, 32), torch.randn(STEPS * 4, 8))
    for step, (x, y) in enumerate(DataLoader(data, batch_size=4)):
        if step == HURT:
            HURTS[sys.argv[1]]()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(float(loss).hex(), flush=True)
    sys.exit(7)


if __name__ == '__main__':
    main()
