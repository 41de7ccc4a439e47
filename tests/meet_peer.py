# SPDX-License-Identifier: Apache-2.0
"""A node of a meeting over TCP, written from docs/guard.md: to be hostile with, and to check that the page says enough."""
import hashlib
import hmac
import os
import socket
import struct
import time

ENTER, WELCOME, REFUSED, DENIED, TICK, TOCK, PART, NEWS, VERDICT, THANKS = range(1, 11)
MAGIC = b'LSMEET\r\n'


def varint(v):
    out = bytearray()
    while v > 0x7f:
        out.append(v & 0x7f | 0x80)
        v >>= 7
    return bytes(out + bytes([v]))


def signed(v):
    return varint((v << 1 ^ v >> 63) & (1 << 64) - 1)


def text(s):
    return varint(len(s)) + s


class Peer:
    """One connection; sent keeps every byte that went out."""

    def __init__(self, address, secret, job=b'test.0', node=1, nodes=64, name=b'peer', limit_ms=20000):
        self.socket = socket.create_connection(address, timeout=10)
        self.secret, self.job, self.node, self.nodes, self.name, self.limit_ms = secret, job, node, nodes, name, limit_ms
        self.nonce, self.sent, self.inbox, self.counts, self.context = os.urandom(32), b'', b'', [0, 0], bytes(32)

    def send(self, data):
        self.sent += data
        self.socket.sendall(data)

    def read(self, n):
        while len(self.inbox) < n:
            got = self.socket.recv(65536)
            if not got:
                raise EOFError
            self.inbox += got
        head, self.inbox = self.inbox[:n], self.inbox[n:]
        return head

    def greet(self):
        self.send(MAGIC + struct.pack('<HH', 1, 36 + len(self.name)) + self.nonce + struct.pack('<I', self.node) + self.name)
        magic, version, length = struct.unpack('<8sHH', self.read(12))
        assert magic == MAGIC and version == 1
        theirs = self.read(length)[:32]
        self.key = hmac.digest(self.secret, b'lockstep meeting 1: a connection\0' + theirs + self.nonce, 'sha256')

    def tag(self, direction, number, head, body):
        return hmac.digest(self.key, direction + struct.pack('<Q', number) + self.context + head + body, 'sha256')

    def frame(self, kind, body=b''):
        head = struct.pack('<IB3x', len(body), kind)
        self.counts[0] += 1
        return head + self.tag(b'N', self.counts[0] - 1, head, body) + body

    def enter(self):
        body = varint(self.node) + varint(self.nodes) + signed(self.limit_ms) + signed(time.time_ns()) + os.urandom(16) + text(self.job) + text(self.name)
        body += hmac.digest(self.secret, b'lockstep meeting 1: an entry\0' + body, 'sha256')
        self.send(self.frame(ENTER, body))
        self.context = hashlib.sha256(body).digest()
        return self.receive()

    def receive(self):
        head = self.read(8)
        length, kind = struct.unpack('<IB3x', head)
        tag, body = self.read(32), self.read(length)
        if kind != DENIED:
            assert hmac.compare_digest(tag, self.tag(b'J', self.counts[1], head, body)), 'a tag of the judge'
            self.counts[1] += 1
        return kind, body

    def part(self, data):
        return self.frame(PART, signed(0) + signed(1000) + data)

    def verdict(self):
        kind, body = NEWS, b''
        while kind == NEWS:
            kind, body = self.receive()
        assert kind == VERDICT
        length, shift, n = 0, 0, 0
        while True:
            length |= (body[n] & 0x7f) << shift
            shift, n = shift + 7, n + 1
            if not body[n - 1] & 0x80:
                break
        data = self.read(length)
        assert hashlib.sha256(data).digest() == body[n:]
        self.send(self.frame(THANKS))
        return data
