#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of fuzz_meet: exchanges as the harness plays them, whole and out of turn, and files."""
import os
import struct

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'corpus', 'meet')
ENTER, WELCOME, REFUSED, DENIED, TICK, TOCK, PART, NEWS, VERDICT, THANKS = range(1, 11)
ALL_NEWS, JUDGE, DROP, LATER, GOOD = 0x0c, 0x0d, 0x0e, 0x0f, 0x10
KEYED = 0x80
HALL, CALLER, FILE = 0, 1, 2


def way(which, keyed=False):
    """The byte with that remainder by three, and the top bit as asked."""
    base = KEYED if keyed else 0
    return bytes([next(b for b in range(base, base + 3) if b % 3 == which)])


def op(kind, body=b'', guest=0):
    return struct.pack('<BH', kind | guest << 5, len(body)) + body


def put(name, data):
    os.makedirs(HERE, exist_ok=True)
    with open(os.path.join(HERE, name), 'wb') as f:
        f.write(data)


def come(node, guest, instance=1):
    return op(ENTER | GOOD, bytes([node, instance]), guest)


GIVE = b'\0\2three'
GREETING = b'LSMEET\r\n\1\0\x25\0' + bytes(36) + b'n'


def main():
    hall = way(HALL, True)
    put('whole', hall + come(1, 0) + op(TICK, b'\1') + op(PART, GIVE) + op(ALL_NEWS) + op(JUDGE) + op(THANKS))
    put('twice', hall + come(1, 0) + op(PART, GIVE) + come(1, 1, 2) + op(PART, GIVE, 1) + op(DROP) + op(JUDGE) + op(THANKS, b'', 1))
    put('anew', hall + come(1, 0) + come(1, 1) + op(PART, GIVE, 1) + op(JUDGE))
    put('contends', hall + come(2, 0) + op(PART, GIVE) + come(2, 1, 2) + come(2, 2, 3) + op(PART, GIVE, 2) + op(JUDGE) + op(TICK, b'\1', 1))
    put('second_judge', hall + come(0, 0) + op(PART, GIVE) + come(4, 1) + op(JUDGE) + op(THANKS) + come(3, 2) + op(THANKS, b'', 2))
    put('turns', hall + op(PART, GIVE) + op(THANKS, b'', 1) + come(1, 2) + op(THANKS, b'', 2) + come(2, 3) + op(PART, b'\xff', 3) + op(LATER, bytes(600)))
    put('entry', hall + op(ENTER, b'\1\4\x80\x01\2' + bytes(16) + b'\1j\1n' + bytes(32)) + op(PART, GIVE) + op(ENTER, b'\1\4', 1))
    put('other_job', hall + op(ENTER, b'\1\4\x80\x01\2' + bytes(16) + b'\1k\1n' + bytes(32)))
    put('raw', way(HALL) + op(1, GREETING) + op(1, struct.pack('<IB3x', 4, ENTER) + bytes(36)) + op(1 | 2 << 5, b'GET / HTTP/1.1'))
    caller = way(CALLER, True)
    tocks = b''.join(op(TOCK, bytes([i, 0])) for i in range(1, 9))
    put('node', caller + op(WELCOME, b'judge') + tocks + op(NEWS, b'1 of 4') + op(VERDICT, b'\3' + bytes(32)) + op(KEYED, b'abc'))
    put('node_refused', caller + op(REFUSED, b'job x') + op(WELCOME, b'judge'))
    put('node_early', caller + op(WELCOME, b'judge') + op(VERDICT, b'\0' + bytes(32)) + op(TOCK, b'\1\0'))
    put('node_raw', way(CALLER) + op(1, GREETING) + op(1, struct.pack('<IB3x', 0, DENIED) + bytes(32)))
    head = b'LSMEETF\n\1'
    ids = bytes(range(16)) + bytes(range(16, 32))
    part = head + b'p' + b'\1\4' + ids + b'\2\2\2\2' + b'\1j\1n' + b'\0' + b'\3abc'
    put('file_part', way(FILE, True) + part)
    put('file_verdict', way(FILE, True) + head + b'v' + b'\0\4' + ids + b'\2\2\2\2' + b'\1j\1n' + b'\1' + bytes(range(16)) + b'\3abc')
    put('file_huge', way(FILE, True) + head + b'v' + b'\0\4' + ids + b'\2\2\2\2' + b'\1j\1n' + b'\xff\xff\xff\xff\xff\x0f')
    put('file_torn', way(FILE) + part[:30])


if __name__ == '__main__':
    main()
