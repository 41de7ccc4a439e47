#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpus of fuzz_nvtx: calls with attributes of every kind."""
import os
import struct

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "nvtx")
EXTENDED = 0xDFBD0009 - (1 << 32)
PUSH, POP, START, END, MARK = range(5)


def call(what, domain=0, name=b"", pad=0, size=48, message=1, payload=0, reserved=0, value=0, data=0):
    attributes = struct.pack("<HHIiIiiQiiQ", 3, size, 0, 0, 0, payload, reserved, value, message, 0, 0)
    return struct.pack("<4B4x", what, domain, len(name), pad) + attributes + struct.pack("<QQQ", 5, data, 0) + name


SEEDS = {
    "steps": b"".join(call(PUSH, name=b"Iteration %d" % i) + call(PUSH, name=b"forward") + call(POP) * 2 for i in range(3)),
    "optimizer": (call(PUSH, name=b"forward") + call(POP) + call(PUSH, name=b"optimizer") + call(POP)) * 4,
    "crossed": call(PUSH, name=b"a") + call(PUSH, 1, b"b") + call(POP) + call(POP, 1),
    "nccl": call(PUSH, 2, b"ncclAllReduce", 1, payload=EXTENDED, reserved=1, data=24) + call(POP, 2)
            + call(PUSH, 2, b"ncclGroupStart") + call(POP, 2) * 2,
    "registered": call(PUSH, 1, pad=8, message=3) + call(PUSH, 1, pad=0, message=3) + call(POP, 1) * 2,
    "wide": call(PUSH, name="\u00fc\ud83d".encode("utf-16-le", "surrogatepass") + b"\xff" * 8, message=2) + call(POP),
    "ranges": call(START, name=b"x") * 3 + call(END) * 5 + call(END, value=1 << 40),
    "marks": b"".join(call(MARK, name=b"loss", payload=p, value=1 << 62) for p in range(8)),
    "damaged": call(PUSH, size=0) + call(PUSH, 64) + call(PUSH, message=-1) + call(POP),
}

os.makedirs(HERE, exist_ok=True)
for name, seed in SEEDS.items():
    with open(os.path.join(HERE, name), "wb") as f:
        f.write(seed)
