# SPDX-License-Identifier: Apache-2.0
"""Write one rank of a simulated job as PyTorch's profiler would have, quirks of its age and settings included."""
import gzip
import json
import os

from job_names import GPUS, GROUP_STYLES
from job_plan import GPUS_PER_NODE
from job_sim import Cpu, Kernel, Mark, Sync

BASE_NS = 1699000000000000000  # what PyTorch subtracts from its time stamps, and writes as baseTimeNanoseconds
_quote = json.dumps


class RankWriter:
    def __init__(self, job, plan, node_clock):
        self.job, self.plan, self.rank = job, plan, plan.rank
        self.quirks = job.quirks
        self.offset, self.drift = node_clock
        self.device = self.rank % GPUS_PER_NODE
        self.pid = job.pids[self.rank]
        self.events, self.external, self.index = [], 0, 0
        self.correlation = 1000 + 37 * (self.rank % 11)

    # -- time

    def stamp(self, t):
        """True microseconds to what this node's clock shows, as JSON text."""
        us = self.job.epoch_us + t * (1 + self.drift * 1e-6) + self.offset
        if 'no-base-time' in self.quirks:
            return str(int(us)) if 'integer-us' in self.quirks else repr(us)
        us -= BASE_NS / 1000
        return str(int(us)) if 'integer-us' in self.quirks else f'{us:.3f}'

    def length(self, start, end):
        if 'integer-us' in self.quirks:
            return str(max(int(end) - int(start), 1))
        return f'{max(end - start, 0.001):.3f}'

    # -- events

    def span(self, category, name, pid, tid, start, end, args):
        self.events.append(f'{{"ph": "X", "cat": "{category}", "name": {_quote(name)}, "pid": {pid}, "tid": {tid}, '
                           f'"ts": {self.stamp(start)}, "dur": {self.length(start, end)}, "args": {{{args}}}}}')

    def cpu(self, category, name, thread, start, end, more=''):
        self.external += 1
        args = f'"External id": {self.external}, "Record function id": 0, "Ev Idx": {self.external}{more}'
        self.span(category, name, self.pid, self.tid(thread), start, end, args)
        return self.external

    def tid(self, thread):
        return self.pid if thread == 'main' else self.pid + 217

    def group_args(self, meta):
        members, style = meta['members'], GROUP_STYLES[self.job.group_style]
        number = self.job.layout.groups[meta['kind']][members]
        local = {m: i for i, m in enumerate(members)}
        out = (f'"Collective name": "{meta["name"]}", "In msg nelems": {meta["in"]}, "Out msg nelems": {meta["out"]}, '
               f'"Group size": {len(members)}, "dtype": "{meta["dtype"]}", "In split size": "[]", "Out split size": "[]", '
               f'"Process Group Name": "{number}", "Process Group Description": "{style[meta["kind"]]}"')
        if 'no-pg-ranks' not in self.quirks:
            out += f', "Process Group Ranks": "{list(members)}"'
        if 'no-seq' not in self.quirks:
            out += f', "Seq": {meta["seq"]}'
        if meta['peer'] is not None:
            out += f', "{"Dst" if meta["operation"] == "send" else "Src"} Rank": {local[meta["peer"]]}'
        return out

    def kernel(self, k):
        self.correlation += 3
        k.correlation = self.correlation
        meta, comm = k.meta, ''
        if meta and not (meta['operation'] == 'coalesced' and 'p2p-coalesced-no-args' in self.quirks):
            comm = '' if 'no-comm-args' in self.quirks else self.group_args(meta)
        if meta:
            rank = meta['members'].index(self.rank)
            self.cpu('cpu_op', 'record_param_comms', k.thread, k.cpu0, k.cpu1, f', "Rank": {rank}{", " + comm if comm else ""}')
            name = meta['annotation']
            if meta['peer'] is not None:
                name += f' {rank}{"->" if meta["operation"] == "send" else "<-"}{meta["members"].index(meta["peer"])}'
            k.external = self.cpu('user_annotation', name, k.thread, k.cpu0 + .1, k.cpu1 - .1)
        else:
            k.external = self.cpu('cpu_op', k.op, k.thread, k.cpu0, k.cpu1)
        self.launch(k)
        args = (f'"External id": {k.external}, "queued": 0, "device": {self.device}, "context": 1, "stream": {k.stream}, '
                f'"correlation": {k.correlation}')
        if k.kind == 'copy':
            args += f', "bytes": {int((k.end - k.start) * 20000)}, "memory bandwidth (GB/s)": 20.0'
        else:
            if 'occupancy' in self.quirks:
                args += (', "registers per thread": 168, "shared memory": 98304, "blocks per SM": 1.0, "warps per SM": 8.0, '
                         '"est. achieved occupancy %": 12')
            blocks = 24 if meta else GPUS[self.job.gpu]['sms']
            args += f', "grid": [{blocks}, 1, 1], "block": [{544 if meta else 256}, 1, 1]'
        self.span('gpu_memcpy' if k.kind == 'copy' else 'kernel', k.name, self.device, k.stream, k.start, k.end,
                  args + (', ' + comm if comm else ''))
        if 'no-flows' not in self.quirks:
            flow = f'"id": {k.correlation}, "cat": "ac2g", "name": "ac2g"'
            self.events.append(f'{{"ph": "s", "pid": {self.pid}, "tid": {self.tid(k.thread)}, "ts": {self.stamp(k.api0)}, {flow}}}')
            self.events.append(f'{{"ph": "f", "pid": {self.device}, "tid": {k.stream}, "ts": {self.stamp(k.start)}, {flow}, "bp": "e"}}')

    def launch(self, k):
        amd = self.job.gpu == 'mi300'
        name = 'cudaMemcpyAsync' if k.kind == 'copy' else 'cudaLaunchKernelExC' if k.meta else 'cudaLaunchKernel'
        if amd:
            name = name.replace('cudaLaunchKernel', 'hipExtLaunchKernel').replace('cuda', 'hip')
        self.span('cuda_runtime', name, self.pid, self.tid(k.thread), k.api0, k.api1,
                  f'"External id": {k.external}, "cbid": {211 if k.meta else 41}, "correlation": {k.correlation}')

    def sync(self, s):
        self.correlation += 3
        name = ('hip' if self.job.gpu == 'mi300' else 'cuda') + ('DeviceSynchronize' if s.stream is None else 'StreamSynchronize')
        self.span('cuda_runtime', name, self.pid, self.pid, s.start, s.end, f'"cbid": 131, "correlation": {self.correlation}')

    def annotations(self, program):
        """Closed marks, and on each stream the stretch of the kernels launched inside them."""
        open_marks, kernels = [], {}
        for op in program:
            if isinstance(op, Mark) and op.begin is None:
                open_marks.append(op)
                kernels[op] = {}
            elif isinstance(op, Mark):
                open_marks.remove(op.begin)
                external = self.cpu('user_annotation', op.begin.name, 'main', op.begin.t, op.t)
                if 'no-gpu-annotations' not in self.quirks:
                    for stream, (start, end) in kernels[op.begin].items():
                        self.span('gpu_user_annotation', op.begin.name, self.device, stream, start, end, f'"External id": {external}')
            elif isinstance(op, Kernel):
                for mark in open_marks:
                    start, end = kernels[mark].get(op.stream, (op.start, op.end))
                    kernels[mark][op.stream] = (min(start, op.start), max(end, op.end))

    def metadata(self, first, last):
        ts = self.stamp(first)

        def m(kind, pid, tid, key, value):
            self.events.append(f'{{"name": "{kind}", "ph": "M", "ts": {ts}, "pid": {pid}, "tid": {tid}, "args": {{"{key}": {_quote(value)}}}}}')
        for pid, label in [(self.pid, 'CPU')] + [(d, f'GPU {d}') for d in range(GPUS_PER_NODE)]:
            m('process_name', pid, 0, 'name', 'python3')
            m('process_labels', pid, 0, 'labels', label)
            m('process_sort_index', pid, 0, 'sort_index', pid if label == 'CPU' else 5000000 + pid)
        for tid in (self.pid, self.pid + 217):
            m('thread_name', self.pid, tid, 'name', f'thread {tid} (python3)')
        for stream in sorted({o.stream for o in self.plan.program if isinstance(o, Kernel)}):
            m('thread_name', self.device, stream, 'name', f'stream {stream} ')
        self.events.append(f'{{"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", '
                           f'"ts": {ts}, "dur": {self.length(first, last)}, "args": {{}}}}')

    def distributed(self):
        layout, style = self.job.layout, GROUP_STYLES[self.job.group_style]
        info = {'backend': 'nccl', 'rank': self.rank, 'world_size': layout.world}
        if 'no-pg-config' not in self.quirks:
            kinds = ['world', 'dp', 'mp', 'tp', 'pp'] + (['ep'] if self.job.moe else [])
            info['pg_count'] = len(kinds)
            info['pg_config'] = [{'pg_name': str(layout.groups[k][layout.group(self.rank, k)]), 'pg_desc': style[k],
                                  'backend_config': 'cuda:nccl', 'pg_size': len(layout.group(self.rank, k)),
                                  'ranks': list(layout.group(self.rank, k))} for k in kinds]
            info['nccl_version'] = '2.16.2' if self.job.old_nccl else self.job.nccl_version
        return info

    def text(self, trace_name):
        program = self.plan.program
        for op in program:
            if isinstance(op, Kernel):
                self.kernel(op)
            elif isinstance(op, Sync):
                self.sync(op)
            elif isinstance(op, Cpu) and op.annotation:
                self.cpu(op.category, op.annotation, op.thread, op.start, op.start + op.dur)
        self.annotations(program)
        first = next(o.t for o in program if isinstance(o, Mark)) - 500.0
        self.metadata(first, program[-1].end)
        if 'shuffled' in self.quirks:
            self.job.shuffle(self.rank, self.events)
        body = '[\n' + ',\n'.join(self.events) + '\n]'
        if 'bare-array' in self.quirks:
            return body
        gpu = GPUS[self.job.gpu]
        head = {'schemaVersion': 1, 'deviceProperties': [
            {'id': d, 'name': gpu['device'], 'totalGlobalMem': gpu['memory'], 'computeMajor': gpu['major'], 'numSms': gpu['sms']}
            for d in range(GPUS_PER_NODE)]}
        if 'no-distributed-info' not in self.quirks:
            head['distributedInfo'] = self.distributed()
        head['displayTimeUnit'] = 'ms'
        tail = {'traceName': trace_name}
        if 'no-base-time' not in self.quirks:
            tail['baseTimeNanoseconds'] = BASE_NS
        return json.dumps(head)[:-1] + ', "traceEvents": ' + body + ', ' + json.dumps(tail)[1:] + '\n'


def file_name(job, rank):
    name = {'kineto': f'kineto_trace_rank_{rank}.json', 'dash': f'rank-{rank}.json', 'plain': f'rank{rank}.json',
            'worker': f'worker{rank}_step_{job.last_step + 1}.{job.epoch_us // 1000 + rank}.pt.trace.json',
            'host': f'{job.hosts[rank // GPUS_PER_NODE]}_{job.pids[rank]}.{job.epoch_us * 1000 + rank * 18000}.pt.trace.json',
            }[job.names]
    return name if 'uncompressed' in job.quirks else name + '.gz'


def write_job(job, plans, clocks, out):
    """All files of the job but the answer; returns (bytes of JSON, most events of one rank)."""
    os.makedirs(out, exist_ok=True)
    total = most = 0
    for plan in plans:
        if plan.rank in job.missing:
            continue
        writer = RankWriter(job, plan, clocks[plan.rank // GPUS_PER_NODE])
        name = file_name(job, plan.rank)
        data = writer.text(name).encode()
        total, most = total + len(data), max(most, len(writer.events))
        if name.endswith('.gz'):
            data = gzip.compress(data, 6, mtime=0)
        with open(os.path.join(out, name), 'wb') as f:
            f.write(data)
    return total, most
