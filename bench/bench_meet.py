#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench_meet.py - how long nodes take to meet: as processes on loopback and in a folder, from when the last of them was
started to when all have the same verdict; beside it, in the same run, the same over torch's TCPStore if torch is here.

    bench_meet.py MEET_NODE [--python PYTHON_WITH_TORCH]
"""
import argparse
import os
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile

# Each process sets its part; the first one gets all, then sets the verdict, for which the others wait.
STORE = """import datetime, os, sys, time
from torch.distributed import TCPStore
n, port, limit = int(sys.argv[1]), int(sys.argv[2]), datetime.timedelta(seconds=120)
go, told = os.pipe(), os.pipe()
for i in range(n):
    if os.fork():
        continue
    os.close(go[1])
    os.read(go[0], 1)
    store = TCPStore('127.0.0.1', port, n, i == 0, limit, wait_for_workers=False)
    store.set(f'part{i}', b'x' * 100)
    if i == 0:
        parts = [store.get(f'part{k}') for k in range(n)]
        store.set('verdict', b'y' * 65536)
    store.get('verdict')
    store.add('told', 1)
    while i == 0 and store.add('told', 0) < n:
        time.sleep(0.001)
    os.write(told[1], b'x')
    os._exit(0)
os.close(told[1])
t = time.perf_counter()
os.close(go[1])
got = 0
while chunk := os.read(told[0], 65536):
    got += len(chunk)
if got == n:
    print(time.perf_counter() - t)"""


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def ours(node, n, way):
    """Seconds of one meeting, and of processor time."""
    before = os.times()
    ran = subprocess.run([node, *way, f'nodes={n}', f'count={n}', 'limit=100000', 'quiet=1'], capture_output=True, text=True, check=False)
    after = os.times()
    words = ran.stdout.split()
    if words[:4] != [str(n), 'same', 'of', str(n)]:
        sys.exit(f'{n} nodes did not meet: {ran.stdout} {ran.stderr}')
    return float(words[5]), after.children_user + after.children_system - before.children_user - before.children_system


def theirs(python, n):
    if not python:
        return None
    ran = subprocess.run([python, '-c', STORE, str(n), str(free_port())], capture_output=True, text=True, check=False)
    return float(ran.stdout) if ran.stdout.strip() else None


def main():
    p = argparse.ArgumentParser()
    p.add_argument('node')
    p.add_argument('--python')
    p.add_argument('--runs', type=int, default=5)
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as t:
        secret = os.path.join(t, 'secret')
        with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), 'w', encoding='ascii') as f:
            f.write(secrets.token_hex(32))
        for n, bar in (16, '1 s'), (1024, '5 s'):
            got = {'TCP': [], 'folder': []}
            store = []
            for _ in range(args.runs):
                got['TCP'].append(ours(args.node, n, [f'address=127.0.0.1:{free_port()}', f'secret={secret}']))
                got['folder'].append(ours(args.node, n, [f'folder={t}']))
                store.append(theirs(args.python, n))
            beside = "TCPStore: no torch here" if not args.python else "TCPStore failed" if None in store else f'torch TCPStore min {min(store):.3g} median {statistics.median(store):.3g} s'
            for way, runs in got.items():
                walls, cpus = [r[0] for r in runs], [r[1] for r in runs]
                print(f'{f"meeting, {n} nodes, {way}":34} {min(walls):>9.4g} {"s":9} {n} processes here, parts of 100 bytes; wall min {min(walls):.3g} median '
                      f'{statistics.median(walls):.3g} s of {len(walls)}, cpu {min(cpus):.3g} s with their start; {beside}; bar {bar}', flush=True)


if __name__ == '__main__':
    main()
