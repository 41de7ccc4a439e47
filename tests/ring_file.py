# SPDX-License-Identifier: Apache-2.0
"""A ring of src/model/ring_layout.h as Python sees it: for tests, which trust the file."""
import glob
import os

from ring_layout import Header, Slot, names_of, records_of

KINDS = ['none', 'phase', 'step', 'counter', 'mark', 'coll', 'more', 'kernel', 'copy', 'set', 'sync', 'launch', 'gap']
COUNTERS = ['no_slot', 'reentrant', 'depth', 'pending', 'names', 'cut_names', 'end_without_begin', 'cupti_dropped', 'cupti_foreign',
            'hook_failed', 'clock_steps', 'ignored']


class Record:
    def __init__(self, raw, names):
        self.t, self.duration, self.name_id, self.depth, self.arg, self.value = raw.t, raw.duration, raw.name, raw.depth, raw.arg, raw.value
        self.kind = KINDS[raw.kind] if raw.kind < len(KINDS) else str(raw.kind)
        self.name = names[self.name_id - 1] if 0 < self.name_id <= len(names) else ''
        phase = self.value & 0xffffffff
        self.phase = names[phase - 1] if self.kind in ('kernel', 'copy', 'set', 'sync') and 0 < phase <= len(names) else ''
        self.correlation = self.value >> 32


class Ring:
    """slots: lists of records, the oldest first; counts: what was lost, by name."""

    def __init__(self, path):
        with open(path, 'rb') as f:
            b = f.read()
        h = Header.from_buffer_copy(b)
        assert h.magic == b'LKRING1\n', h.magic
        self.state, self.doors, self.off_code = h.state, h.doors, h.off_code
        self.off_text, self.left_text = h.off_text.decode(errors='replace'), h.left_text.decode(errors='replace')
        self.steps_done = h.steps_done
        self.counts = {name: n for name, n in zip(COUNTERS, h.counters) if n}
        self.names = names_of(b, h)
        slots = [Slot.from_buffer_copy(b, h.slots_at + i * h.slot_bytes) for i in range(h.n_slots)]
        self.heads = [slot.head for slot in slots]
        self.slots = [[Record(raw, self.names) for raw in records_of(b, slot)] for slot in slots]
        self.records = [r for slot in self.slots for r in slot]

    def of(self, kind):
        return [r for r in self.records if r.kind == kind]


def only(folder):
    """The one ring in a folder."""
    found = glob.glob(os.path.join(folder, '**', '*.ring'), recursive=True)
    assert len(found) == 1, found
    return Ring(found[0])
