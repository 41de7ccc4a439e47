# SPDX-License-Identifier: Apache-2.0
"""src/model/ring_layout.h as Python has it, for all tests that make or read rings."""
import ctypes
import struct

NONE, PHASE, STEP, COUNTER, MARK, COLL, MORE, KERNEL, COPY, SET, SYNC, LAUNCH, GAP = range(13)
USER, FORWARD, BACKWARD, OPTIMIZER, DATA, CHECKPOINT, EVALUATION, COMPILE, GC = range(9)


class Record(ctypes.Structure):
    _fields_ = [('t', ctypes.c_uint64), ('duration', ctypes.c_uint64), ('name', ctypes.c_uint32),
                ('kind', ctypes.c_uint8), ('depth', ctypes.c_uint8), ('arg', ctypes.c_uint16), ('value', ctypes.c_uint64)]


class ClockPair(ctypes.Structure):
    _fields_ = [('ticks', ctypes.c_uint64), ('monotonic_ns', ctypes.c_uint64), ('realtime_ns', ctypes.c_uint64)]


class Header(ctypes.Structure):
    _fields_ = [('magic', ctypes.c_char * 8), ('major', ctypes.c_uint16), ('minor', ctypes.c_uint16),
                ('header_bytes', ctypes.c_uint32), ('file_bytes', ctypes.c_uint64), ('n_slots', ctypes.c_uint32),
                ('slot_bytes', ctypes.c_uint32), ('slots_at', ctypes.c_uint64), ('pending_at', ctypes.c_uint64),
                ('names_at', ctypes.c_uint64), ('n_pending', ctypes.c_uint32), ('pending_bytes', ctypes.c_uint32),
                ('names_bytes', ctypes.c_uint32), ('state', ctypes.c_uint32), ('identity_seq', ctypes.c_uint32),
                ('rank', ctypes.c_int32), ('local_rank', ctypes.c_int32), ('world_size', ctypes.c_int32),
                ('pid', ctypes.c_uint32), ('uid', ctypes.c_uint32), ('start_time', ctypes.c_uint64),
                ('pid_namespace', ctypes.c_uint64), ('boot_id', ctypes.c_char * 40), ('host', ctypes.c_char * 72),
                ('job', ctypes.c_char * 72), ('program', ctypes.c_char * 72), ('clock', ctypes.c_uint32),
                ('clock_seq', ctypes.c_uint32), ('first', ClockPair), ('last', ClockPair), ('step', ctypes.c_uint64),
                ('steps_done', ctypes.c_uint64), ('beat', ctypes.c_uint64), ('counters', ctypes.c_uint64 * 32),
                ('n_names', ctypes.c_uint32), ('names_used', ctypes.c_uint32), ('doors', ctypes.c_uint32),
                ('off_code', ctypes.c_uint32), ('off_text', ctypes.c_char * 160), ('left_text', ctypes.c_char * 160)]


class Pending(ctypes.Structure):
    _fields_ = [('id', ctypes.c_uint64), ('r', Record), ('bytes', ctypes.c_uint64), ('spare', ctypes.c_uint64 * 2)]


class Slot(ctypes.Structure):
    _fields_ = [('head', ctypes.c_uint64), ('at', ctypes.c_uint64), ('capacity', ctypes.c_uint32),
                ('tid', ctypes.c_uint32), ('depth', ctypes.c_uint32), ('claims', ctypes.c_uint32),
                ('thread', ctypes.c_char * 16), ('spare', ctypes.c_uint64 * 2), ('open', Record * 24)]


def names_of(data, header):
    """The names of a file's bytes, in the order of their ids, which count from 1."""
    names, at = [], header.names_at
    for _ in range(header.n_names):
        n, = struct.unpack_from('<H', data, at)
        names.append(data[at + 2:at + 2 + n].decode(errors='replace'))
        at += 2 + n
    return names


def records_of(data, slot):
    """What its ring still has, the oldest first."""
    units = range(max(0, slot.head - slot.capacity), slot.head)
    return [Record.from_buffer_copy(data, slot.at + u % slot.capacity * ctypes.sizeof(Record)) for u in units]
