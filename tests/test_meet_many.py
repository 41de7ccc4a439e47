#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""64 nodes of a meeting and those who do not belong there, as processes on loopback, in a folder, and in network
namespaces; then 1,024.

    test_meet_many.py MEET_NODE [test...]
"""
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import meet_peer

MEET_NODE = None
NODES = 64


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Rows:
    """The verdict of rows_judge: one row a node, then those beyond."""

    def __init__(self, out):
        code, *lines = out.splitlines()
        self.code, self.out, rows = int(code), out, [line.split('\t') for line in lines if line.count('\t') == 9]
        self.nodes = rows[:NODES]
        self.extras = rows[NODES:]

    def extra(self, presence, words):
        return [r for r in self.extras if r[1] == presence and any(words in field for field in r[2:5])]


class Meeting(unittest.TestCase):
    limit = 20000

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.dir, self.port, self.nodes = pathlib.Path(scratch.name), free_port(), {}
        self.key = b'a secret of thirty-two bytes ....'
        self.secret = self.put('secret', self.key)
        self.addCleanup(self.kill_all)
        self.began = time.monotonic()

    def put(self, name, data):
        path = self.dir / name
        path.write_bytes(data)
        path.chmod(0o600)
        return path

    def kill_all(self):
        for p in self.nodes.values():
            if p.poll() is None:
                p.kill()
            if not p.stdout.closed:
                p.communicate()

    def way(self):
        return [f'address=127.0.0.1:{self.port}', f'secret={self.secret}']

    def start(self, node, *more, key=None, prefix=()):
        words = [*self.way(), f'node={node}', f'nodes={NODES}', f'limit={self.limit}', f'name=gpu{node:02}', *more]
        self.nodes[key or node] = subprocess.Popen([*prefix, MEET_NODE, *words], stdout=subprocess.PIPE, text=True)

    def until_listening(self):
        while time.monotonic() - self.began < 10:
            try:
                socket.create_connection(('127.0.0.1', self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)
        self.fail('nobody listens')

    def end(self, *keys):
        """What these nodes print; all that have a verdict have the same."""
        outs = {k: self.nodes[k].communicate(timeout=40)[0] for k in keys or self.nodes}
        verdicts = {o for o in outs.values() if o.startswith('0\n')}
        self.assertLessEqual(len(verdicts), 1)
        return outs

    def thread(self, f, *args):
        def quiet():
            try:
                f(*args)
            except OSError:
                pass
        t = threading.Thread(target=quiet, daemon=True)
        t.start()
        return t


class Hostile(Meeting):
    limit = 9000

    def half_open(self, n):
        held = [socket.create_connection(('127.0.0.1', self.port), timeout=5) for _ in range(n)]
        time.sleep(4)
        for s in held:
            s.close()

    def garbage(self, n):
        for i in range(n):
            with socket.create_connection(('127.0.0.1', self.port), timeout=5) as s:
                s.sendall([b'GET / HTTP/1.1\r\nHost: x\r\n\r\n', os.urandom(4000), b'LSMEET\r\n' + os.urandom(300)][i % 3])

    def slow_loris(self):
        with socket.create_connection(('127.0.0.1', self.port), timeout=5) as s:
            for byte in meet_peer.MAGIC * 20:
                s.send(bytes([byte]))
                time.sleep(0.2)

    def old_words(self):
        """What a node said in a meeting before this one."""
        port = free_port()
        judge = subprocess.Popen([MEET_NODE, f'address=127.0.0.1:{port}', f'secret={self.secret}', 'nodes=2', 'node=0', 'limit=5000'], stdout=subprocess.PIPE)
        for _ in range(200):
            try:
                peer = meet_peer.Peer(('127.0.0.1', port), self.key, nodes=2, name=b'gpu40')
                break
            except OSError:
                time.sleep(0.02)
        peer.greet()
        self.assertEqual(peer.enter()[0], meet_peer.WELCOME)
        peer.send(peer.part(b'x'))
        peer.verdict()
        judge.communicate(timeout=10)
        return peer.sent

    def replay(self, words):
        with socket.create_connection(('127.0.0.1', self.port), timeout=5) as s:
            s.sendall(words)
            s.recv(1000)
            time.sleep(0.2)

    def test_each_is_named_and_none_delays(self):
        words = self.old_words()
        other = self.put('other', self.key[:-1] + b'?')
        self.start(0)
        self.until_listening()
        attacks = [self.thread(*a) for a in ((self.half_open, 900), (self.garbage, 300), (self.slow_loris,), (self.replay, words))]
        late, ahead, dies, liar, cut, whole = 7, 13, 21, 34, 50, 51
        for node in range(1, NODES):
            if node not in (late, cut, whole, liar):
                self.start(node, *(['offset=5000'] if node == ahead else []))
        self.start(liar, 'name=liar', f'secret={other}')
        peer = meet_peer.Peer(('127.0.0.1', self.port), self.key, node=cut, name=b'cut')
        peer.greet()
        self.assertEqual(peer.enter()[0], meet_peer.WELCOME)
        part = peer.part(bytes(100000))
        peer.send(part[:50000])
        peer.socket.close()  # half-way
        good = meet_peer.Peer(('127.0.0.1', self.port), self.key, node=whole, name=b'from the page')
        good.greet()
        good.enter()
        good.send(good.part(b'abc'))
        time.sleep(2)
        self.nodes[dies].kill()
        time.sleep(0.3)
        self.start(late)
        # node 34 and 50 never come: the limit says when it is over
        out = self.end(0)[0]
        verdict = good.verdict().decode()
        took = time.monotonic() - self.began
        rows = Rows(out)
        self.assertEqual(out.split('\n', 1)[1], verdict)
        outs = self.end(*[n for n in range(1, NODES) if n in self.nodes and n not in (dies, liar)])
        self.assertEqual({o == out for o in outs.values()}, {True})
        self.assertLess(took, 14)
        for node, row in enumerate(rows.nodes):
            want = {dies: 'lost', cut: 'lost', liar: 'absent'}.get(node, 'came')
            self.assertEqual((int(row[0]), row[1]), (node, want), row)
        self.assertEqual(rows.nodes[whole][2], 'from the page')
        self.assertIn('went before its part was whole', rows.nodes[cut][4])
        self.assertIn('went after it had given its part', rows.nodes[dies][4])
        clocks = {int(r[0]): (float(r[5]), float(r[6])) for r in rows.nodes if r[1] == 'came'}
        for node, (clock, doubt) in clocks.items():
            self.assertLess(abs(clock - (5000 if node == ahead else 0)), max(doubt, 0.001) + 1, node)
        self.assertGreater(int(rows.nodes[late][7]), 1500)
        self.assertTrue(rows.extra('impostor', 'liar'), rows.extras)
        self.assertTrue(rows.extra('impostor', 'does not hold the secret'))
        old = rows.extra('impostor', 'sent an old message again')
        self.assertEqual([r[2] for r in old], ['gpu40'])
        self.assertTrue(rows.extra('stranger', 'spoke nothing of ours'))
        self.assertLess(len(rows.extras), 20)
        refused = self.nodes[liar].communicate(timeout=10)[0]
        self.assertIn('holds another secret', refused)
        for t in attacks:
            t.join(timeout=40)

    def test_attackers_do_not_delay_a_whole_job(self):
        """All come while the port is flooded: done in seconds, not at the limit."""
        self.start(0)
        self.until_listening()
        stop = time.monotonic() + 6

        def flood():
            while time.monotonic() < stop:
                self.garbage(10)
                held = [socket.create_connection(('127.0.0.1', self.port), timeout=5) for _ in range(200)]
                time.sleep(0.05)
                del held
        attacks = [self.thread(flood) for _ in range(3)]
        for node in range(1, NODES):
            self.start(node)
        outs = self.end()
        took = time.monotonic() - self.began
        self.assertEqual({o.split('\n')[0] for o in outs.values()}, {'0'})
        self.assertEqual({r[1] for r in Rows(outs[0]).nodes}, {'came'})
        self.assertLess(took, 12)
        for t in attacks:
            t.join(timeout=20)


class Folder(Meeting):
    def way(self):
        folder = self.dir / 'folder'
        folder.mkdir(exist_ok=True)
        return [f'folder={folder}', f'secret={self.secret}']

    def test_each_is_named(self):
        late, ahead, dies, liar = 7, 13, 21, 34
        other = self.put('other', self.key[:-1] + b'?')
        self.start(0, 'limit=16000')
        for node in range(1, NODES):
            if node not in (late, liar):
                self.start(node, 'limit=19000', *(['offset=5000'] if node == ahead else []))
        self.start(liar, 'limit=3000', f'secret={other}')
        time.sleep(2)
        self.nodes[dies].kill()
        time.sleep(0.5)
        self.start(late, 'limit=19000')
        outs = self.end(*[n for n in self.nodes if n not in (dies, liar)])
        rows = Rows(outs[0])
        self.assertEqual({o == outs[0] for o in outs.values()}, {True})
        for node, row in enumerate(rows.nodes):
            want = {dies: 'lost', liar: 'absent'}.get(node, 'came')
            self.assertEqual((int(row[0]), row[1]), (node, want), row)
        self.assertLess(abs(float(rows.nodes[ahead][5]) - 5000), float(rows.nodes[ahead][6]) + 1)
        self.assertGreater(int(rows.nodes[late][7]), 1500)
        self.assertIn('of another secret', self.end(liar)[liar])
        self.assertLess(time.monotonic() - self.began, 21)


class Namespaces(Meeting):
    """A network namespace a node, behind one bridge: links that are down, and one that goes down without a word."""

    def setUp(self):
        super().setUp()
        self.tag = f'lsm{os.getpid() % 10000}'
        self.made = []
        if os.geteuid() or not shutil.which('ip'):
            self.skip('needs root and ip(8)')
        if subprocess.run(['ip', 'netns', 'add', f'{self.tag}-try'], capture_output=True, check=False).returncode:
            self.skip('network namespaces cannot be made here')
        self.made.append(f'{self.tag}-try')
        self.addCleanup(self.take_down)
        if self.ip([f'link add {self.tag}b type bridge']):
            self.skip('bridges cannot be made here')
        lines = [f'addr add 10.213.0.254/24 dev {self.tag}b', f'link set {self.tag}b up']
        for n in range(NODES):
            name = f'{self.tag}-{n}'
            self.made.append(name)
            lines += [f'netns add {name}', f'link add {self.tag}v{n} type veth peer name eth0 netns {name}',
                      f'link set {self.tag}v{n} master {self.tag}b up', f'-n {name} addr add 10.213.0.{n + 1}/24 dev eth0',
                      f'-n {name} link set lo up', f'-n {name} link set eth0 up']
        for line in lines:
            if self.ip([line]):
                self.skip(f'ip {line} does not work here')

    def skip(self, why):
        print(f'namespaces: skipped, {why}', file=sys.stderr)
        self.skipTest(why)

    def ip(self, lines):
        return any(subprocess.run(['ip', *line.split()], capture_output=True, check=False).returncode for line in lines)

    def take_down(self):
        self.kill_all()
        for name in self.made:
            self.ip([f'netns del {name}'])
        self.ip([f'link del {self.tag}b'])

    def way(self):
        return ['address=10.213.0.1:29471', f'secret={self.secret}']

    def test_links_that_are_down(self):
        cut, silent, late = 5, 9, 30
        self.ip([f'-n {self.tag}-{cut} link set eth0 down'])
        for node in range(NODES):
            if node != late:
                self.start(node, 'limit=25000' if node not in (0, cut) else 'limit=17000' if not node else 'limit=3000',
                           prefix=('ip', 'netns', 'exec', f'{self.tag}-{node}'))
        time.sleep(3)
        self.ip([f'link set {self.tag}v{silent} down'])  # nothing is said by anybody
        self.start(late, prefix=('ip', 'netns', 'exec', f'{self.tag}-{late}'))
        outs = self.end(*[n for n in self.nodes if n not in (silent, cut)])
        rows = Rows(outs[0])
        self.assertEqual({o == outs[0] for o in outs.values()}, {True})
        for node, row in enumerate(rows.nodes):
            want = {cut: 'absent', silent: 'lost'}.get(node, 'came')
            self.assertEqual((int(row[0]), row[1]), (node, want), row)
            if want == 'came' and node:
                self.assertEqual(row[3], f'10.213.0.{node + 1}')
        self.assertIn('no verdict at 10.213.0.1:29471', self.end(cut)[cut])
        self.assertLess(time.monotonic() - self.began, 35)


class Thousand(Meeting):
    def test_1024_processes(self):
        began = time.monotonic()
        out = subprocess.run([MEET_NODE, *self.way(), 'nodes=1024', 'count=1024', 'limit=60000', 'quiet=1'], capture_output=True, text=True, timeout=90, check=False).stdout
        self.assertIn('1024 same of 1024', out)
        self.assertLess(time.monotonic() - began, 40)


def main():
    """Each class in a process of its own, side by side: they wait for limits most of the time."""
    classes = ['Hostile.test_each_is_named_and_none_delays', 'Hostile.test_attackers_do_not_delay_a_whole_job', 'Folder', 'Namespaces']
    ran = [subprocess.Popen([sys.executable, '-W', 'ignore', __file__, MEET_NODE, c]) for c in classes]
    status = max([p.wait() for p in ran])
    return status or subprocess.run([sys.executable, '-W', 'ignore', __file__, MEET_NODE, 'Thousand'], check=False).returncode


if __name__ == '__main__':
    MEET_NODE = os.path.abspath(sys.argv.pop(1))
    sys.exit(main()) if len(sys.argv) == 1 else unittest.main()
