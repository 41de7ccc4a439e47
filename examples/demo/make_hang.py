#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the sample hung-loader/ anew, by the generator that the tests use (tests/gen/make_hangs.py).

    python3 examples/demo/make_hang.py

A data-parallel job of eight ranks on two nodes stands still: rank 7 reads its next batch and does not come back, the
others wait in the gradients' all_reduce until the watchdog of NCCL times out. What there is of it: Flight
Recorder dumps of all ranks, the job's log, py-spy's output and nvidia-smi's, of both nodes.
"""
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MAKE = [os.path.join(HERE, '../../tests/gen/make_hangs.py'), '--seed', '3', '--only', '9', '--fault', 'hold', '--world', '8',
        '--kind', 'ddp', '--backend', 'nccl', '--sources', 'DLSP']


def main():
    folder = os.path.join(HERE, 'hung-loader')
    with tempfile.TemporaryDirectory() as t:
        subprocess.run([sys.executable, *MAKE, '--count', '10', t], check=True)
        (made,) = os.listdir(t)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(os.path.join(t, made), folder, ignore=shutil.ignore_patterns('answer.json'))
    files = [os.path.join(d, f) for d, _, names in os.walk(folder) for f in names]
    print(f'hung-loader: {len(files)} files, {sum(map(os.path.getsize, files)) >> 10} KiB')


if __name__ == '__main__':
    main()
