#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small data shards of every kind that `lockstep even` counts, written from the formats' descriptions with
the standard library alone. As a program: a folder of JSONL or tar shards of a given size, for measuring.

    shard_files.py jsonl|tar OUT --bytes 2G [--line 900] [--member 20000]
"""
import argparse
import io
import os
import struct
import tarfile


def idx(lengths, documents=None, code=4, version=1, magic=b'MMIDIDX\0\0'):
    """Megatron-LM's index of sequences of so many tokens."""
    documents = list(range(len(lengths) + 1)) if documents is None else documents
    width = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 8, 7: 4, 8: 2}.get(code, 4)
    pointers, at = [], 0
    for n in lengths:
        pointers.append(at)
        at += n * width
    return (magic + struct.pack('<QBQQ', version, code, len(lengths), len(documents)) +
            struct.pack(f'<{len(lengths)}i', *lengths) + struct.pack(f'<{len(lengths)}q', *pointers) +
            struct.pack(f'<{len(documents)}q', *documents))


def idx_old(lengths, code=4):
    """The older index (TNTIDX): offsets of both kinds, then the sizes."""
    n, documents, offsets = len(lengths), list(range(len(lengths) + 1)), [0]
    for length in lengths:
        offsets.append(offsets[-1] + length)
    return (b'TNTIDX\0\0' + struct.pack('<QQQ', 1, code, 4) + struct.pack('<QQ', n, n) +
            struct.pack('<Q', len(documents)) + struct.pack(f'<{n + 1}q', *range(n + 1)) +
            struct.pack(f'<{n + 1}q', *offsets) + struct.pack(f'<{n}q', *lengths) +
            struct.pack(f'<{n + 1}q', *documents))


def npy(shape, descr='<i4', width=4, version=1):
    count = 1
    for n in shape:
        count *= n
    text = repr({'descr': descr, 'fortran_order': False, 'shape': tuple(shape)})
    head = b'\x93NUMPY' + bytes([version, 0])
    wide = '<H' if version == 1 else '<I'
    pad = -(len(head) + struct.calcsize(wide) + len(text) + 1) % 64
    text = text + ' ' * pad + '\n'
    return head + struct.pack(wide, len(text)) + text.encode() + bytes(count * width)


# --- Parquet: Thrift's compact protocol ---

def varint(v):
    out = bytearray()
    while v >= 0x80:
        out.append(v & 0x7f | 0x80)
        v >>= 7
    out.append(v)
    return bytes(out)


def zigzag(v):
    return varint(v << 1 if v >= 0 else (-v << 1) - 1)


I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12


def thrift(*fields):
    """(id, type, bytes) in order."""
    out, last = b'', 0
    for number, kind, data in fields:
        step = number - last
        out += (bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + zigzag(number)) + data
        last = number
    return out + b'\0'


def thrift_list(kind, items):
    n = len(items)
    return (bytes([n << 4 | kind]) if n < 15 else bytes([0xf0 | kind]) + varint(n)) + b''.join(items)


def text(s):
    return varint(len(s)) + s.encode()


def parquet(groups, said=None, column='input_ids'):
    """groups: [(rows, values of the list column)]; no pages, since nobody reads them."""
    schema = thrift_list(STRUCT, [thrift((4, BINARY, text('schema')), (5, I32, zigzag(2))),
                                  thrift((1, I32, zigzag(2)), (4, BINARY, text('plain'))),
                                  thrift((4, BINARY, text(column)), (5, I32, zigzag(1)))])

    def chunk(path, values):
        meta = thrift((1, I32, zigzag(2)), (2, LIST, thrift_list(I32, [zigzag(0)])),
                      (3, LIST, thrift_list(BINARY, [text(p) for p in path])), (4, I32, zigzag(0)),
                      (5, I64, zigzag(values)), (6, I64, zigzag(10)), (7, I64, zigzag(10)), (9, I64, zigzag(4)))
        return thrift((2, I64, zigzag(4)), (3, STRUCT, meta))

    rows = [thrift((1, LIST, thrift_list(STRUCT, [chunk(['plain'], n), chunk([column, 'list', 'element'], v)])),
                   (2, I64, zigzag(99)), (3, I64, zigzag(n))) for n, v in groups]
    total = sum(n for n, _ in groups) if said is None else said
    footer = thrift((1, I32, zigzag(1)), (2, LIST, schema), (3, I64, zigzag(total)),
                    (4, LIST, thrift_list(STRUCT, rows)), (6, BINARY, text('made for a test')))
    return b'PAR1' + bytes(64) + footer + struct.pack('<I', len(footer)) + b'PAR1'


# --- Arrow: flatbuffers, written front to back, each table with its own vtable in front ---

class Flat:
    """Tables are bytes whose offsets are patched when they are placed."""

    def __init__(self):
        self.out = bytearray(4)  # the root's offset

    def align(self, n):
        while len(self.out) % n:
            self.out.append(0)

    def table(self, fields):
        """fields: [None | (size, value) | 'ref'], by number; gives its place and those of the references."""
        self.align(8)
        offsets, at, spots = [], 4, {}
        body = bytearray(4)
        for i, field in enumerate(fields):
            if field is None:
                offsets.append(0)
                continue
            size, value = (4, 0) if field == 'ref' else field
            while at % size:
                body.append(0)
                at += 1
            offsets.append(at)
            if field == 'ref':
                spots[i] = at
            body += int(value).to_bytes(size, 'little', signed=value < 0)
            at += size
        vtable = struct.pack('<HH', 4 + 2 * len(offsets), at) + b''.join(struct.pack('<H', o) for o in offsets)
        vtable += bytes(-len(vtable) % 8)
        start = len(self.out) + len(vtable)
        body[:4] = struct.pack('<i', len(vtable))
        self.out += vtable + body
        return start, {i: start + s for i, s in spots.items()}

    def point(self, spot):
        """What comes next is what the reference at spot leads to."""
        self.align(8)
        self.out[spot:spot + 4] = struct.pack('<I', len(self.out) - spot)

    def refer(self, spot, target):
        self.out[spot:spot + 4] = struct.pack('<I', target - spot)


def arrow_message(kind, build, body=0):
    f = Flat()
    start, refs = f.table([(2, 4), (1, kind), 'ref', (8, body)])
    f.refer(0, start)
    build(f, refs[2])
    f.align(8)
    return b'\xff\xff\xff\xff' + struct.pack('<I', len(f.out)) + bytes(f.out) + bytes(body)


def arrow_schema(column='input_ids'):
    """A plain column and a list column."""
    def field(f, name, children):
        start, refs = f.table(['ref', (1, 1), (1, 2), None, None, 'ref'])
        f.point(refs[0])
        f.out += struct.pack('<I', len(name)) + name.encode() + b'\0'
        f.point(refs[5])
        f.out += struct.pack('<I', len(children))
        spots = [len(f.out) + 4 * i for i in range(len(children))]
        f.out += bytes(4 * len(children))
        for spot, child in zip(spots, children):
            f.refer(spot, field(f, child, []))
        return start

    def build(f, spot):
        start, refs = f.table([(2, 0), 'ref'])
        f.refer(spot, start)
        f.point(refs[1])
        f.out += struct.pack('<I', 2)
        spots = [len(f.out), len(f.out) + 4]
        f.out += bytes(8)
        f.refer(spots[0], field(f, 'plain', []))
        f.refer(spots[1], field(f, column, ['item']))
    return arrow_message(1, build)


def arrow_batch(rows, values, body=64):
    def build(f, spot):
        start, refs = f.table([(8, rows), 'ref', 'ref'])
        f.refer(spot, start)
        f.align(8)
        f.out += bytes(4)  # so that the elements are at a multiple of eight
        f.out[refs[1]:refs[1] + 4] = struct.pack('<I', len(f.out) - refs[1])
        f.out += struct.pack('<I', 3) + b''.join(struct.pack('<qq', n, 0) for n in (rows, rows, values))
        f.align(8)
        f.out += bytes(4)
        f.out[refs[2]:refs[2] + 4] = struct.pack('<I', len(f.out) - refs[2])
        f.out += struct.pack('<I', 0)
    return arrow_message(3, build, body)


def arrow(batches, as_file=False, end=True):
    """batches: [(rows, values of the list)]"""
    data = arrow_schema() + b''.join(arrow_batch(*b) for b in batches)
    if end:
        data += b'\xff\xff\xff\xff\0\0\0\0'
    return b'ARROW1\0\0' + data + bytes(8) + b'ARROW1' if as_file else data


# --- tar ---

def tar(names, size=10, form=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w', format=form) as t:
        for name in names:
            info = tarfile.TarInfo(name)
            if name.endswith('/'):
                info.type = tarfile.DIRTYPE
                t.addfile(info)
            else:
                info.size = size
                t.addfile(info, io.BytesIO(b'x' * size))
    return out.getvalue()


def bytes_of(word):
    return int(float(word[:-1]) * {'K': 1e3, 'M': 1e6, 'G': 1e9}[word[-1]]) if word[-1] in 'KMG' else int(word)


def grow_jsonl(path, size, line):
    import random
    rng = random.Random(7)
    piece, records = bytearray(), 0
    while len(piece) < 8_000_000:
        piece += b'{"text": "' + b'word ' * rng.randrange(1, 2 * line // 5) + b'", "tokens": %d}\n' % rng.randrange(4000)
        records += 1
    with open(path, 'wb') as f:
        n = max(1, size // len(piece))
        for _ in range(n):
            f.write(piece)
    return records * n


def grow_tar(path, size, member):
    n = max(1, size // (member + 2048))
    data = {'jpg': b'\xff' * member, 'json': b'{}'}
    with tarfile.open(path, 'w', format=tarfile.USTAR_FORMAT) as t:
        for i in range(n):
            for ending, content in data.items():
                info = tarfile.TarInfo(f'{i:09d}.{ending}')
                info.size = len(content)
                t.addfile(info, io.BytesIO(content))
    return n


def main():
    p = argparse.ArgumentParser()
    p.add_argument('kind', choices=['jsonl', 'tar'])
    p.add_argument('out')
    p.add_argument('--bytes', default='2G')
    p.add_argument('--line', type=int, default=900)
    p.add_argument('--member', type=int, default=20000)
    a = p.parse_args()
    size = bytes_of(a.bytes)
    print(grow_jsonl(a.out, size, a.line) if a.kind == 'jsonl' else grow_tar(a.out, size, a.member), os.path.getsize(a.out))


if __name__ == '__main__':
    main()
