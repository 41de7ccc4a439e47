# SPDX-License-Identifier: Apache-2.0
"""Reads a ring file whole, by src/model/ring_layout.h: what the tests of the hooks see of a process."""
import collections
import ctypes
import glob
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from ring_layout import Header, Slot, names_of, records_of  # noqa: E402

KINDS = ('none', 'phase', 'step', 'counter', 'mark', 'collective', 'more', 'kernel', 'copy', 'set', 'sync', 'launch', 'gap')
PHASES = ('user', 'forward', 'backward', 'optimizer', 'data', 'checkpoint', 'evaluation', 'compile', 'gc')
OPS = ('unknown', 'all_reduce', 'broadcast', 'reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'gather', 'scatter', 'barrier',
       'send', 'recv')
HOOK_FAILED, END_WITHOUT_BEGIN = 9, 6
Event = collections.namedtuple('Event', 'kind what name t duration depth value bytes slot')


class Ring:
    """header; events: all records that are there, by their begin; open: phases that have no end, by slot."""

    def __init__(self, path):
        self.path = path
        with open(path, 'rb') as f:
            self.data = f.read()
        self.header = h = Header.from_buffer_copy(self.data)
        self.names = names_of(self.data, h)
        self.events, self.open = [], {}
        for i in range(h.n_slots):
            slot = Slot.from_buffer_copy(self.data, h.slots_at + i * h.slot_bytes)
            self._read(i, slot)
            if slot.depth:
                self.open[i] = [self.name(slot.open[d].name) for d in range(min(slot.depth, 24))]
        self.events.sort(key=lambda e: (e.t, -e.duration))

    def name(self, i):
        return self.names[i - 1] if 0 < i <= len(self.names) else ''

    def _read(self, index, slot):
        records = records_of(self.data, slot)
        for i, r in enumerate(records):
            kind = KINDS[r.kind]
            if kind == 'more':
                continue
            what = {'phase': PHASES, 'collective': OPS}.get(kind)
            size = records[i + 1].value if i + 1 < len(records) and KINDS[records[i + 1].kind] == 'more' else None
            value = ctypes.c_int64(r.value).value
            if kind == 'counter':
                value, = struct.unpack('<d', struct.pack('<Q', r.value))
            self.events.append(Event(kind, what[r.arg] if what else r.arg, self.name(r.name), r.t, r.duration, r.depth, value, size, index))

    def of(self, kind, what=None):
        return [e for e in self.events if e.kind == kind and what in (None, e.what)]

    @property
    def rank(self):
        return self.header.rank


def rings(folder):
    return [Ring(p) for p in sorted(glob.glob(os.path.join(folder, '*.ring')))]
