#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""64 nodes as processes on loopback go through the gate together; one is late, one has a wrong clock, one a
different file, one dies while it waits, one has no room, one lies about the secret, one never comes. Each is
named, all others get the same verdict, and nobody hangs."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOCKSTEP = os.path.abspath(os.environ.get('LOCKSTEP', ROOT / 'build/lockstep'))
NODES = 64
LATE, CLOCK, FILE, DIES, ROOM, LIES, ABSENT = 5, 9, 12, 20, 33, 40, 50
KEPT = {k: v for k, v in os.environ.items() if not k.startswith(('NCCL_', 'TORCH', 'SLURM', 'PET_', 'MASTER', 'WORLD', 'LOCAL_'))}


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def may_mount():
    return subprocess.run(['unshare', '-rm', 'true'], capture_output=True).returncode == 0


class Scene(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.dir = pathlib.Path(self.scratch.name)
        for name, text in (('secret', 'one secret for all of us\n'), ('other', 'this one is mine alone\n')):
            (self.dir / name).write_text(text)
            (self.dir / name).chmod(0o600)
        self.running = {}
        self.addCleanup(self.end)

    def end(self):
        for p in self.running.values():
            if p.poll() is None:
                p.kill()
            p.communicate()

    def start(self, i, *argv, wrap=(), **env):
        """The folder of node i stands for its own storage."""
        folder = self.dir / f'node{i}'
        (folder / 'ckpt').mkdir(parents=True)
        (folder / 'train.json').write_text(json.dumps({'lr': 0.1, 'seed': 2 if i == FILE else 1}))
        command = [*wrap, LOCKSTEP, 'preflight', '--json', '--python', 'none', '--nodes', str(NODES), '--node', str(i), '--name', f'n{i}',
                   '--names', ','.join(f'n{k}' for k in range(NODES)), '--meet', f'127.0.0.1:{self.port}', '--secret-file',
                   str(self.dir / ('other' if i == LIES else 'secret')), '--job', 'scene', '--ranks', '8', '--config', 'train.json',
                   '--checkpoints', 'ckpt', '--checkpoint-size', '64K', '--limit', 'late-ms=1500,skew-ms=1000,write-ms=60000,memory-mib=1', *argv]
        self.running[i] = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                           env={**KEPT, 'LOCKSTEP_PREFLIGHT_ROOT': str(self.dir / 'nothing'), **env})

    def check(self, verdict, name, host):
        found = [c for c in verdict['checks'] if f'{c["invariant"]}.{c["name"]}' == name and host in c['hosts']]
        self.assertEqual(len(found), 1, f'{name} of {host}: ' + json.dumps(verdict['checks'], indent=1)[:4000])
        return found[0]

    def start_all(self, faults, wait):
        self.port = free_port()
        tmpfs = ROOM in faults and may_mount()
        for i in range(NODES):
            if i in faults and i in (LATE, ABSENT):
                continue
            wrap = ()
            if i == ROOM and tmpfs:
                wrap = ('unshare', '-rm', 'sh', '-c', 'mount -t tmpfs -o size=256k none ckpt && exec "$0" "$@"')
            elif i == ROOM and i in faults:
                wrap = ('sh', '-c', 'rmdir ckpt && ln -s /proc ckpt && exec "$0" "$@"')
            self.start(i, '--wait', str(wait), wrap=wrap, **({'LOCKSTEP_PREFLIGHT_CLOCK_MS': '-90000'} if i == CLOCK and i in faults else {}))

    def wait_until_it_came(self, i):
        """Its connection to the meeting stands, and has had a second for what it says."""
        end = time.monotonic() + 10
        while time.monotonic() < end:
            inodes = {os.readlink(f'/proc/{self.running[i].pid}/fd/{fd}') for fd in self.descriptors(i)}
            for line in pathlib.Path('/proc/net/tcp').read_text().splitlines()[1:]:
                fields = line.split()
                if fields[2].endswith(f':{self.port:04X}') and fields[3] == '01' and f'socket:[{fields[9]}]' in inodes:
                    time.sleep(1)
                    return
            time.sleep(0.1)
        self.fail(f'node {i} did not come')

    def descriptors(self, i):
        folder = f'/proc/{self.running[i].pid}/fd'
        return [fd for fd in os.listdir(folder) if os.path.lexists(f'{folder}/{fd}')]

    def verdicts(self, without=()):
        said = {i: p.communicate(timeout=60) for i, p in self.running.items()}
        texts = {out for i, (out, _) in said.items() if i not in without}
        self.assertTrue(len(texts) == 1 and texts != {''}, {i: e for i, (_, e) in said.items() if e})
        self.said = said
        return json.loads(texts.pop())

    def test_each_is_named_and_nobody_hangs(self):
        begun = time.monotonic()
        self.start_all({LATE, CLOCK, FILE, DIES, ROOM, LIES, ABSENT}, wait=14)
        time.sleep(3)
        self.wait_until_it_came(DIES)
        self.running[DIES].send_signal(signal.SIGKILL)
        self.start(LATE, '--wait', '14')
        v = self.verdicts(without=(DIES, LIES))
        self.assertLess(time.monotonic() - begun, 30)
        self.assertEqual(v['verdict'], 'refused')
        self.assertEqual({p.returncode for i, p in self.running.items() if i not in (DIES, LIES)}, {1})
        self.assertEqual(self.running[LIES].returncode, 2)
        self.check(v, 'agreement.late', f'n{LATE}')
        self.assertIn('90.0', self.check(v, 'fabric.clock', f'n{CLOCK}')['measured'])
        self.assertIn('seed', self.check(v, 'agreement.config', f'n{FILE}')['measured'])
        self.assertIn('went', self.check(v, 'agreement.presence', f'n{DIES}')['measured'])
        self.check(v, 'storage.write', f'n{ROOM}')
        self.assertIn('did not come', self.check(v, 'agreement.presence', f'n{ABSENT}')['measured'])
        lies = [c for c in v['checks'] if c['name'] == 'presence' and 'secret' in c['measured']]
        self.assertTrue(any(f'n{LIES}' in c['measured'] for c in lies), lies)
        innocent = {f'n{i}' for i in range(NODES)} - {f'n{i}' for i in (LATE, CLOCK, FILE, DIES, ROOM, LIES, ABSENT)}
        named = {h for c in v['checks'] if c['state'] == 'refuse' and c['name'] != 'environment' for h in c['hosts']}
        self.assertEqual(named & innocent, set())

    def test_64_sound_nodes_are_ready(self):
        self.port = free_port()
        saved = globals()['FILE'], globals()['LIES']
        globals()['FILE'] = globals()['LIES'] = -1
        try:
            for i in range(NODES):
                self.start(i, '--wait', '30')
        finally:
            globals()['FILE'], globals()['LIES'] = saved
        v = self.verdicts()
        self.assertEqual(v['verdict'], 'ready', [c for c in v['checks'] if c['state'] != 'ok'])
        self.assertEqual((v['nodes'], v['ranks']), (64, 512))


if __name__ == '__main__':
    unittest.main()
