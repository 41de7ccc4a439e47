# SPDX-License-Identifier: Apache-2.0
"""A ring of src/model/ring_layout.h as Python sees it: for tests, which trust the file."""
import glob
import os
import struct

KINDS = ['none', 'phase', 'step', 'counter', 'mark', 'coll', 'more', 'kernel', 'copy', 'set', 'sync', 'launch', 'gap']
COUNTERS = ['no_slot', 'reentrant', 'depth', 'pending', 'names', 'cut_names', 'end_without_begin', 'cupti_dropped', 'cupti_foreign',
            'hook_failed', 'clock_steps', 'ignored']
HEAD = struct.Struct('<8sHHIQIIQQQIIIIIiiiIIQQ40s72s72s72sII3Q3QQQQ32QIIII160s160s')
RECORD = struct.Struct('<QQIBBHQ')


def text(b):
    return b.split(b'\0', 1)[0].decode(errors='replace')


class Record:
    def __init__(self, raw, names):
        self.t, self.duration, self.name_id, kind, self.depth, self.arg, self.value = RECORD.unpack(raw)
        self.kind = KINDS[kind] if kind < len(KINDS) else str(kind)
        self.name = names[self.name_id - 1] if 0 < self.name_id <= len(names) else ''
        phase = self.value & 0xffffffff
        self.phase = names[phase - 1] if self.kind in ('kernel', 'copy', 'set', 'sync') and 0 < phase <= len(names) else ''
        self.correlation = self.value >> 32


class Ring:
    """slots: lists of records, the oldest first; counts: what was lost, by name."""

    def __init__(self, path):
        with open(path, 'rb') as f:
            b = f.read()
        h = HEAD.unpack_from(b)
        assert h[0] == b'LKRING1\n', h[0]
        n_slots, slot_bytes, slots_at, names_at, n_names = h[5], h[6], h[7], h[9], h[69]
        self.state, self.doors, self.off_code = h[13], h[71], h[72]
        self.off_text, self.left_text = text(h[73]), text(h[74])
        self.steps_done = h[35]
        self.counts = {name: n for name, n in zip(COUNTERS, h[37:69]) if n}
        self.names = []
        for _ in range(n_names):
            n = struct.unpack_from('<H', b, names_at)[0]
            self.names.append(b[names_at + 2:names_at + 2 + n].decode(errors='replace'))
            names_at += 2 + n
        self.slots, self.heads = [], []
        for i in range(n_slots):
            head, at, capacity = struct.unpack_from('<QQI', b, slots_at + i * slot_bytes)
            self.heads.append(head)
            units = range(max(0, head - capacity), head)
            self.slots.append([Record(b[at + u % capacity * 32:at + u % capacity * 32 + 32], self.names) for u in units])
        self.records = [r for slot in self.slots for r in slot]

    def of(self, kind):
        return [r for r in self.records if r.kind == kind]


def only(folder):
    """The one ring in a folder."""
    found = glob.glob(os.path.join(folder, '**', '*.ring'), recursive=True)
    assert len(found) == 1, found
    return Ring(found[0])
