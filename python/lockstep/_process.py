# SPDX-License-Identifier: Apache-2.0
"""What this process is to a training job, by its environment and its command line; imports nothing.

rank       it has RANK or LOCAL_RANK (or LOCKSTEP=1 says so) and is none of the others
spawned    multiprocessing's child, or its server of forks: a loader's worker or a rank, which is known only when it
           joins a process group
launcher   torchrun and its like
helper     multiprocessing's resource tracker, torch's compile workers
other      anything else: a rank once it joins a process group
off        LOCKSTEP=0
"""
import os
import sys

LAUNCHERS = ('torchrun', 'accelerate', 'deepspeed', 'mpirun', 'srun')
LAUNCHER_MODULES = ('torch.distributed.run', 'torch.distributed.launch', 'torch.distributed.launcher', 'accelerate.commands.launch')
HELPERS = ('multiprocessing.resource_tracker import main', '_inductor/compile_worker', '_inductor.compile_worker')


def by_command(argv):
    """Of a command line alone; '' if it says nothing."""
    for i, arg in enumerate(argv[:16]):
        if i and argv[i - 1] == '-m' and arg in LAUNCHER_MODULES:
            return 'launcher'
        if i and any(part in arg for part in HELPERS):
            return 'helper'
        if arg == '--multiprocessing-fork' or 'multiprocessing.forkserver import main' in arg:
            return 'spawned'
    script = next((a for a in argv[1:] if not a.startswith('-')), '')
    if os.path.basename(script) in LAUNCHERS or script.endswith(('/torch/distributed/run.py', '/torch/distributed/launch.py')):
        return 'launcher'
    return ''


def kind():
    env = os.environ
    if env.get('LOCKSTEP') == '0':
        return 'off'
    said = by_command(getattr(sys, 'orig_argv', None) or sys.argv)
    if said:
        return said
    return 'rank' if env.get('LOCKSTEP') == '1' or 'RANK' in env or 'LOCAL_RANK' in env else 'other'
