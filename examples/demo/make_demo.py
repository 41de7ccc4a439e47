#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make the samples of this folder anew, from real training runs of four ranks (train.py says what they do).

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch==2.13.0 numpy
    /tmp/venv/bin/python examples/demo/make_demo.py

healthy/    nothing is done to anybody
slow-rank/  rank 2's forward takes ten more batches in every step from step 4 on

Each folder then holds rank0..3.json.gz. The profiler's text is kept as it is but for the names of the host and of the
file. The script refuses to leave a file that has a path, this machine's name or this user's name in it.
"""
import getpass
import gzip
import os
import shutil
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLES = {'healthy': [], 'slow-rank': ['--slow-rank', '2', '--slow-from', '4', '--slow-how', 'compute', '--extra', '10']}
COMMON = ['--ranks', '4', '--steps', '6', '--layers', '1', '--width', '128', '--length', '256', '--batch', '4']


def tells(text):
    """What in the text tells of this machine, if anything."""
    for secret in ('/home/', '/tmp/', '/root/', '/usr/', os.getcwd(), socket.gethostname(), getpass.getuser() + '@'):
        if secret in text:
            return secret
    return None


def main():
    for sample, options in SAMPLES.items():
        folder = os.path.join(HERE, sample)
        with tempfile.TemporaryDirectory() as t:
            subprocess.run([sys.executable, os.path.join(HERE, 'train.py'), '--out', t, *COMMON, *options], check=True)
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            for name in sorted(os.listdir(t)):
                with open(os.path.join(t, name), encoding='utf-8') as f:
                    text = f.read()
                if tells(text):
                    sys.exit(f'{name} of {sample} holds {tells(text)!r}')
                with open(os.path.join(folder, name + '.gz'), 'wb') as f:
                    f.write(gzip.compress(text.encode(), 9, mtime=0))
        size = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
        print(f'{sample}: {len(os.listdir(folder))} files, {size >> 10} KiB')


if __name__ == '__main__':
    main()
