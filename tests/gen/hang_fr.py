# SPDX-License-Identifier: Apache-2.0
"""Flight Recorder dumps of simulated ranks, in the dialects in which they are met.

The native pickle is written opcode by opcode (protocol 2, strings memoised by value, empty containers with MARK and
SETITEMS), since Python's own pickler writes it otherwise; re-pickled ones come from Python's.
"""
import json
import os
import pickle
import struct

VERSIONS = ['2.0', '2.3', '2.4', '2.5', '2.7', '2.8', '2.9', '2.10']

# --- the native pickler ---


class Native:
    def __init__(self):
        self.out, self.memo = bytearray(b'\x80\x02'), {}

    def text(self, s):
        if s in self.memo:
            i = self.memo[s]
            self.out += b'h' + bytes([i]) if i < 256 else b'j' + struct.pack('<I', i)
            return
        b = s.encode()
        self.out += b'X' + struct.pack('<I', len(b)) + b
        self.put(s)

    def put(self, key):
        i = self.memo[key] = len(self.memo)
        self.out += b'q' + bytes([i]) if i < 256 else b'r' + struct.pack('<I', i)

    def number(self, n):
        if 0 <= n < 256:
            self.out += b'K' + bytes([n])
        elif 0 <= n < 65536:
            self.out += b'M' + struct.pack('<H', n)
        elif -2**31 <= n < 2**31:
            self.out += b'J' + struct.pack('<i', n)
        else:
            self.out += b'\x8a\x08' + struct.pack('<q', n)

    def value(self, v):
        if v is None:
            self.out += b'N'
        elif v is True or v is False:
            self.out += b'\x88' if v else b'\x89'
        elif isinstance(v, str):
            self.text(v)
        elif isinstance(v, int):
            self.number(v)
        elif isinstance(v, float):
            self.out += b'G' + struct.pack('>d', v)
        elif isinstance(v, tuple):
            for x in v:
                self.value(x)
            self.out += b'\x86'
        elif isinstance(v, dict):
            self.out += b'}('
            for k, x in v.items():
                self.value(k)
                self.value(x)
            self.out += b'u'
        else:
            self.out += b']('
            for x in v:
                self.value(x)
            self.out += b'e'

    def dump(self, v):
        self.value(v)
        self.put(object())
        self.out += b'.'
        return bytes(self.out)


# --- what an operation looks like ---
NCCL_NAMES = {'all_gather_base': '_all_gather_base', 'reduce_scatter_base': '_reduce_scatter_base', 'all_to_all_list': 'all_to_all',
              'all_gather_coalesced': 'all_gather_into_tensor_coalesced'}
TORCH = '/usr/local/lib/python3.10/dist-packages/torch/'
FRAMES = {
    'forward': [('forward', '/workspace/model.py', 118), ('_call_impl', TORCH + 'nn/modules/module.py', 1562)],
    'backward': [('_post_backward', '/workspace/parallel.py', 233)],
    'barrier': [('save_checkpoint', '/workspace/checkpoint.py', 41), ('train', '/workspace/train.py', 201)],
    'eval': [('evaluate', '/workspace/evaluate.py', 57), ('train', '/workspace/train.py', 188)],
}
CALLS = {'barrier': ('barrier', 4159), 'all_reduce': ('all_reduce', 2501), 'broadcast': ('broadcast', 2421),
    'all_gather_base': ('all_gather_into_tensor', 3346),
         'reduce_scatter_base': ('reduce_scatter_tensor', 3798), 'all_gather': ('all_gather', 3089), 'send': ('isend', 2059), 'recv': ('irecv', 2101)}


def frames_of(call):
    name, line = CALLS.get(call.op, (call.op, 3900))
    out = [(name, TORCH + 'distributed/distributed_c10d.py', line), ('wrapper', TORCH + 'distributed/c10d_logger.py', 83)]
    out += FRAMES.get(call.where, [(call.where, '/workspace/train.py', 97 + len(call.where))])
    out += [('main', '/workspace/train.py', 260), ('<module>', '/workspace/train.py', 291)]
    return [{'name': n, 'filename': f, 'line': i} for n, f, i in out]


def shape(dialect, call):
    """(name, inputs, outputs, types in, types out) as the back end records it; None if it does not."""
    op, ins, outs = call.op, call.ins, call.outs
    if dialect.backend == 'gloo':
        if call.p2p:
            return None
        if op == 'barrier':
            return 'gloo:barrier', [], [], [], []
        if op == 'reduce_scatter_base':
            return 'gloo:all_reduce', ins, ins, call.in_types, call.in_types
        if op == 'all_gather_base':
            n = len(call.group.ranks)
            return 'gloo:all_gather', ins, [[n] + ins[0]], call.in_types, call.out_types
        return 'gloo:' + op.replace('_list', ''), ins, outs, call.in_types, call.out_types
    if call.p2p:
        me, peer = call.group.local[call.rank], call.group.local[call.peer]
        return f'nccl:{op} {me}{"->" if op == "send" else "<-"}{peer}', ins, outs, call.in_types, call.out_types
    if op == 'barrier':
        return ('nccl:all_reduce_barrier' if dialect.minor >= 4 else 'nccl:all_reduce'), ins, outs, call.in_types, call.out_types
    return 'nccl:' + NCCL_NAMES.get(op, op), ins, outs, call.in_types, call.out_types


class Dialect:
    """How the dumps of a job are written."""

    def __init__(self, rng, backend, ring=2000, wrapped=False):
        self.backend, self.ring, self.wrapped = backend, ring, wrapped
        self.version = '2.10' if backend == 'gloo' else rng.choice(VERSIONS)
        self.minor = int(self.version.split('.')[1])
        self.timing = backend == 'nccl' and rng.random() < .3
        self.frames = rng.random() < .6
        self.format = rng.choice(['native', 'native', 'native', 'pickle2', 'pickle4', 'pickle5', 'json', 'mixed'])
        if self.minor < 3 and self.format in ('json', 'mixed'):
            self.format = 'native'
        self.naming = rng.choice(['nccl_trace_rank_{rank}', 'nccl_trace_rank_{rank}', 'comm_lib_trace_rank_{rank}',
            'comm_traces/rank_{rank}', '{host}_nccl_trace_rank_{rank}',
                                  '{host}/nccl_trace_rank_{rank}', 'flight_recorder/trace_{rank}.pickle', 'fr_rank{rank}',
                                      'dump-{host}-rank{rank}.pkl', 'rank{rank:05d}_fr'])
        self.epoch = 1_700_000_000_000_000_000 + rng.randrange(60_000_000) * 1_000_000_000
        self.timeout_ms = 600000
        self.thread = str(rng.randrange(139_000_000_000_000, 140_900_000_000_000))


def entry_of(d, job, sim, call, record, pg_id, now, rng, offset, timing_started):
    s = shape(d, call)
    if s is None:
        return None
    name, ins, outs, tin, tout = s
    done = call.done.known and call.done.t <= now
    state = 'completed' if done else 'started' if timing_started else 'scheduled'
    ns = [d.epoch + offset + int(t * 1e9) for t in (call.created, call.ready.t, call.done.t)]
    started = ns[1] + 80_000_000 if d.timing and (done or timing_started) else None
    completed = ns[2] + 120_000_000 if done else None
    retired = done and now - call.done.t > .2
    if d.backend == 'gloo':
        state, started, completed, retired = 'scheduled', None, None, done
    e = {'frames': frames_of(call)} if d.frames else {}
    e.update(record_id=record, pg_id=pg_id, process_group=(call.group.name, call.group.desc))
    if d.minor >= 10:
        e.update(thread_name='pt_main_thread' if d.backend == 'nccl' else 'python3', thread_id=d.thread)
    e.update(collective_seq_id=call.seq, p2p_seq_id=call.p2p_seq, op_id=call.op_id, profiling_name=name, time_created_ns=ns[0])
    if d.timing and done:
        e['duration_ms'] = round((call.done.t - call.ready.t) * 1e3, 5)
    e.update(input_sizes=ins, input_dtypes=tin, output_sizes=outs, output_dtypes=tout, state=state, time_discovered_started_ns=started,
             time_discovered_completed_ns=completed, retired=retired)
    if d.minor >= 4:
        e['timeout_ms'] = d.timeout_ms
    if d.minor >= 3:
        e['is_p2p'] = call.p2p
    return e


def coalesced_end(d, batch, entries):
    """The entry that closes a group of coalesced operations."""
    last = entries[-1]
    e = dict(last, record_id=last['record_id'] + 1, profiling_name='nccl:coalesced', input_sizes=[], input_dtypes=[], output_sizes=[],
        output_dtypes=[])
    states = [x['state'] for x in entries[-len(batch):]]
    e['state'] = 'completed' if all(s == 'completed' for s in states) else 'started' if 'started' in states else 'scheduled'
    e['retired'] = all(x['retired'] for x in entries[-len(batch):])
    e['time_discovered_completed_ns'] = last['time_discovered_completed_ns'] if e['state'] == 'completed' else None
    e.pop('duration_ms', None)
    return e


def dump_of(d, job, sim, rank, now, rng, base_record=0):
    """The dump of a rank at a moment, as Python data."""
    r = sim.ranks[rank]
    ids = {g.name: i for i, g in enumerate(job.groups_of(rank))}
    offset = rng.randrange(-3_000_000, 3_000_000)
    entries, record, started = [], base_record, {}
    calls = [c for c in r.calls if c.created <= now]
    for c in calls:
        done = c.done.known and c.done.t <= now
        stream = (c.group.name, c.peer if c.p2p else None)
        runs = d.timing and not done and c.ready.known and c.ready.t <= now and not started.get(stream)
        if runs:
            started[stream] = True
        e = entry_of(d, job, sim, c, record, ids[c.group.name], now, rng, offset, runs)
        if e is None:
            continue
        if c.op.endswith('_coalesced') and d.minor >= 7:  # each tensor has an entry of its own before
            for i, (x, y) in enumerate(zip(c.ins, c.outs)):
                entries.append(dict(e, record_id=record, profiling_name='nccl:_all_gather_base', input_sizes=[x], output_sizes=[y],
                    input_dtypes=c.in_types[:1],
                                    output_dtypes=c.out_types[:1]))
                record += 1
            e['record_id'] = record
        entries.append(e)
        record += 1
        if d.backend == 'nccl' and c.batch and c.batch[-1] is c:
            entries.append(coalesced_end(d, c.batch, entries))
            record += 1
    out = {'version': d.version}
    if d.backend == 'gloo':
        out['pg_config'] = {'': {'name': '', 'desc': '', 'ranks': str(list(range(job.world)))}}
        out['comm_lib_version'] = ''
    else:
        out['pg_config'] = {g.name: {'name': g.name, 'desc': g.desc, 'ranks': str(g.ranks)} for g in job.groups_of(rank)}
        if d.minor >= 10:
            out['comm_lib_version'] = '2.27.5'
        elif d.minor >= 7:
            out['nccl_version'] = '2.26.2'
    if d.minor >= 3:
        out['pg_status'] = status_of(d, job, calls, ids, now)
    out['entries'] = entries[-d.ring:]
    return out


def status_of(d, job, calls, ids, now):
    """The highest sequence numbers of each group, as the process counts them."""
    out = {}
    for c in calls:
        if c.p2p:
            continue
        s = out.setdefault(str(ids[c.group.name]), {'last_enqueued_collective': -1, 'last_started_collective': -1, 'last_completed_collective': -1})
        s['last_enqueued_collective'] = c.seq
        if c.done.known and c.done.t <= now:
            s['last_completed_collective'] = c.seq
        if d.timing and c.ready.known and c.ready.t <= now:
            s['last_started_collective'] = c.seq
    if d.backend == 'nccl':  # groups that were made but not used yet
        for g, i in ((g, ids[g.name]) for g in job.groups if g.name in ids):
            out.setdefault(str(i), {'last_enqueued_collective': -1, 'last_started_collective': -1, 'last_completed_collective': -1})
    return dict(sorted(out.items(), key=lambda kv: int(kv[0])))


def as_json(dump):
    """The JSON twin: no frames, 0 for what is not known, numbers of pg_status as strings."""
    out = {k: v for k, v in dump.items() if k != 'entries'}
    if 'pg_status' in out:
        out['pg_status'] = {k: {n: str(x) for n, x in v.items()} for k, v in out['pg_status'].items()}
    if 'comm_lib_version' in out:
        out['nccl_comm_state'] = {}
    entries = []
    for e in dump['entries']:
        e = {k: v for k, v in e.items() if k != 'frames'}
        for k in ('time_discovered_started_ns', 'time_discovered_completed_ns'):
            e[k] = e[k] or 0
        entries.append(e)
    if entries:
        out['entries'] = entries
    return json.dumps(out, sort_keys=True, separators=(',', ':') if len(entries) % 2 else None)


def encode(fmt, dump):
    if fmt == 'json':
        return as_json(dump).encode()
    if fmt == 'native':
        return Native().dump(dump)
    return pickle.dumps(dump, protocol=int(fmt[-1]))


def file_name(d, job, rank, fmt):
    name = d.naming.format(rank=rank, host=job.host(rank).split('.')[0])
    if fmt == 'json':
        name = name.replace('.pickle', '').replace('.pkl', '') + '.json'
    return name


def write_dumps(folder, d, job, sim, ranks, now, rng, base_records=None):
    for rank in ranks:
        fmt = d.format if d.format != 'mixed' else rng.choice(['native', 'json', 'pickle4'])
        dump = dump_of(d, job, sim, rank, now, rng, (base_records or {}).get(rank, 0))
        path = os.path.join(folder, file_name(d, job, rank, fmt))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'wb') as f:
            f.write(encode(fmt, dump))
