# SPDX-License-Identifier: Apache-2.0
"""Reads a ring file whole, by src/model/ring_layout.h: what the tests of the hooks see of a process."""
import collections
import ctypes
import glob
import os
import struct

U8, U16, U32, U64, I32, I64 = (ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32, ctypes.c_int64)
KINDS = ('none', 'phase', 'step', 'counter', 'mark', 'collective', 'more', 'kernel', 'copy', 'set', 'sync', 'launch', 'gap')
PHASES = ('user', 'forward', 'backward', 'optimizer', 'data', 'checkpoint', 'evaluation', 'compile', 'gc')
OPS = ('unknown', 'all_reduce', 'broadcast', 'reduce', 'all_gather', 'reduce_scatter', 'all_to_all', 'gather', 'scatter', 'barrier',
       'send', 'recv')
HOOK_FAILED, END_WITHOUT_BEGIN = 9, 6


class Pair(ctypes.Structure):
    _fields_ = [(n, U64) for n in ('ticks', 'monotonic', 'realtime')]


class Header(ctypes.Structure):
    _fields_ = [('magic', U8 * 8), ('major', U16), ('minor', U16), ('header_bytes', U32), ('file_bytes', U64), ('n_slots', U32),
                ('slot_bytes', U32), ('slots_at', U64), ('pending_at', U64), ('names_at', U64), ('n_pending', U32),
                ('pending_bytes', U32), ('names_bytes', U32), ('state', U32), ('identity_seq', U32), ('rank', I32),
                ('local_rank', I32), ('world_size', I32), ('pid', U32), ('uid', U32), ('start_time', U64),
                ('pid_namespace', U64), ('boot_id', ctypes.c_char * 40), ('host', ctypes.c_char * 72),
                ('job', ctypes.c_char * 72), ('program', ctypes.c_char * 72), ('clock', U32), ('clock_seq', U32),
                ('first', Pair), ('last', Pair), ('step', U64), ('steps_done', U64), ('beat', U64), ('counters', U64 * 32),
                ('n_names', U32), ('names_used', U32), ('doors', U32), ('off_code', U32), ('off_text', ctypes.c_char * 160),
                ('left_text', ctypes.c_char * 160)]


class Record(ctypes.Structure):
    _fields_ = [('t', U64), ('duration', U64), ('name', U32), ('kind', U8), ('depth', U8), ('arg', U16), ('value', U64)]


class Slot(ctypes.Structure):
    _fields_ = [('head', U64), ('at', U64), ('capacity', U32), ('tid', U32), ('depth', U32), ('claims', U32),
                ('thread', ctypes.c_char * 16), ('spare', U64 * 2), ('open', Record * 24)]


Event = collections.namedtuple('Event', 'kind what name t duration depth value bytes slot')


class Ring:
    """header; events: all records that are there, by their begin; open: phases that have no end, by slot."""

    def __init__(self, path):
        self.path = path
        with open(path, 'rb') as f:
            self.data = f.read()
        self.header = h = Header.from_buffer_copy(self.data)
        self.names = self._names(h)
        self.events, self.open = [], {}
        for i in range(h.n_slots):
            slot = Slot.from_buffer_copy(self.data, h.slots_at + i * h.slot_bytes)
            self._read(i, slot)
            if slot.depth:
                self.open[i] = [self.name(slot.open[d].name) for d in range(min(slot.depth, 24))]
        self.events.sort(key=lambda e: (e.t, -e.duration))

    def _names(self, h):
        names, at = [], h.names_at
        for _ in range(h.n_names):
            n, = struct.unpack_from('<H', self.data, at)
            names.append(self.data[at + 2:at + 2 + n].decode(errors='replace'))
            at += 2 + n
        return names

    def name(self, i):
        return self.names[i - 1] if 0 < i <= len(self.names) else ''

    def _read(self, index, slot):
        first = max(0, slot.head - slot.capacity)
        records = [Record.from_buffer_copy(self.data, slot.at + (i % slot.capacity) * 32) for i in range(first, slot.head)]
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
