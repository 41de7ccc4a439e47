# SPDX-License-Identifier: Apache-2.0
"""Logs of simulated jobs: progress as frameworks print it, what torch's watchdog says in its versions, launchers, kernels.

The words are those of facts known of each version; every line is written because of what the simulated rank does.
"""
import os
import time

from hang_sim import numel

TORCHES = ['1.13', '2.1', '2.2', '2.3', '2.4', '2.5', '2.6', '2.7', '2.9']
# line numbers: watchdog, failed, down, thread ended, time-out at work
LINES = {'1.13': (821, 455, 460, 0, 0), '2.1': (475, 489, 495, 916, 0), '2.2': (523, 537, 543, 1182, 0), '2.3': (563, 577, 583, 1414, 1537),
         '2.4': (607, 621, 627, 1515, 1664), '2.5': (616, 630, 636, 1595, 1834), '2.6': (629, 681, 695, 1895, 2168),
         '2.7': (632, 684, 698, 1896, 2268), '2.9': (683, 744, 758, 2057, 2241)}
OPTYPES = {'all_reduce': 'ALLREDUCE', 'barrier': 'ALLREDUCE', 'broadcast': 'BROADCAST', 'all_gather_base': '_ALLGATHER_BASE',
    'all_gather': 'ALLGATHER',
           'reduce_scatter_base': '_REDUCE_SCATTER_BASE', 'all_to_all': 'ALLTOALL_BASE', 'all_to_all_list': 'ALLTOALL', 'send': 'SEND',
               'recv': 'RECV',
           'gather': 'GATHER', 'all_gather_coalesced': 'COALESCED'}
FAILED = ('Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on '
          'corrupted/incomplete data.')
DOWN = 'To avoid data inconsistency, we are taking the entire process down.'
LIKELY = ('This is most likely caused by incorrect usages of collectives, e.g., wrong sizes used across ranks, the order of collectives is not same for all '
          'ranks or the scheduled collective, for some reason, didn\'t run. Additionally, this can be caused by GIL deadlock or other reasons such as network '
          'errors or bugs in the communications library (e.g. NCCL), etc. ')
FRAMEWORKS = ['megatron', 'hf', 'nanogpt', 'titan', 'plain', 'epoch', 'tqdm']


def version(v):
    return tuple(int(x) for x in v.split('.'))


def wrap(text, width):
    """As copied from a terminal of this width: cut inside words, padded with blanks."""
    out = []
    for line in text.replace('\r', '\n').replace('\t', '    ').split('\n'):
        out += [line[i:i + width].ljust(width) for i in range(0, len(line), width)]
    return '\n'.join(out) + '\n'


class Log:
    """Lines with their time and rank (None: a launcher or kernel), written out in order of time in the end."""

    def __init__(self, rng, job, epoch_s, pids, torch=None, framework=None):
        self.rng, self.job, self.epoch, self.pids = rng, job, epoch_s, pids
        self.torch = torch or rng.choice(TORCHES)
        self.framework = framework or rng.choice(FRAMEWORKS)
        self.everyone = rng.random() < .3  # all ranks print progress
        self.lines, self.total, self.step_s = [], 1000, 1.0
        self.per_epoch = 0
        self.agents = {h: rng.randrange(900, 3000) for h in job.hosts}

    def say(self, t, rank, text, prefixed=True, host=None):
        self.lines.append((t, len(self.lines), rank, text, prefixed, host))

    # --- stamps ---
    def iso(self, t):
        return time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(self.epoch + t))

    def glog(self, t, level, digits=9):
        g = time.gmtime(self.epoch + t)
        frac = f'{t % 1:.9f}'[2:2 + digits]
        return f'{level}{g.tm_mon:02d}{g.tm_mday:02d} {time.strftime("%H:%M:%S", g)}.{frac}' if digits == 6 else \
            f'{level}{g.tm_mon}{g.tm_mday:02d} {time.strftime("%H:%M:%S", g)}.{frac}'

    # --- life ---
    def hello(self, ranks):
        t = min([-30] + [x[0] - 60 for x in self.lines])
        for r in ranks:
            kind = self.framework
            if kind in ('hf', 'plain', 'epoch', 'nanogpt', 'tqdm'):
                self.say(t + r * 1e-3, r, f'{self.iso(t)} - INFO - train - Process rank: {r}, world size: {self.job.world}, local rank: '
                         f'{r % self.job.per_node}, device: cuda:{r % self.job.per_node}, host: {self.job.host(r)}, pid: {self.pids[r]}')
            else:
                self.say(t + r * 1e-3, r, f'{self.iso(t)} INFO initialized rank {r}/{self.job.world} on {self.job.host(r)} pid {self.pids[r]}')

    def progress(self, t, rank, step):
        loss = 2.0 + 3.0 / (1 + step / 50) + self.rng.uniform(-.02, .02)
        ms = self.step_s * 1000 * self.rng.uniform(.97, 1.03)
        f = self.framework
        if f == 'megatron':
            text = (f' [{self.iso(t)}] iteration {step:8d}/{self.total:8d} | consumed samples: {step * 64:12d} | elapsed time per iteration (ms): {ms:.1f} | '
                    f'learning rate: 1.500E-04 | global batch size: {64:5d} | lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: 0.512 | '
                    f'number of skipped iterations: {0:3d} | number of nan iterations: {0:3d} |')
        elif f == 'hf':
            text = f"{{'loss': {loss:.4f}, 'grad_norm': 0.51, 'learning_rate': 0.0003, 'epoch': {step / self.total:.2f}, 'step': {step}}}"
        elif f == 'nanogpt':
            text = f'iter {step}: loss {loss:.4f}, time {ms:.2f}ms, mfu 41.20%'
        elif f == 'titan':
            text = f'{self.iso(t)} - root - INFO - step: {step:2d}  loss: {loss:7.4f}  memory: 61.20GiB(77.30%)  tps: {int(8e6 / ms):,}  mfu: 42.10%'
        elif f == 'epoch':
            n = max(self.per_epoch, 1)
            text = f'Epoch: [{(step - 1) // n}][{(step - 1) % n + 1}/{n}]\tTime {ms / 1e3:.3f} ({ms / 1e3:.3f})\tData 0.004 (0.006)\tLoss {loss:.4f} ({loss + .2:.4f})'
        elif f == 'tqdm':
            text = f'\rtraining: {100 * step // self.total:3d}%|{"#" * (10 * step // self.total):<10}| {step}/{self.total} [{int(t) // 60:02d}:{int(t) % 60:02d}<1:02:11, {1e3 / ms:.2f}it/s, loss={loss:.3f}]'
        else:
            text = f'{self.iso(t)} step {step}/{self.total} loss {loss:.4f} lr 0.0003 time {ms / 1e3:.3f}s'
        self.say(t, rank, text)

    def all_progress(self, marks):
        """marks: {rank: [(time, step)]}"""
        w = self.job.world
        who = range(w) if self.everyone and w <= 64 else [w - 1 if self.framework == 'megatron' else 0]
        for r in who:
            for t, step in marks.get(r, ()):
                self.progress(t, r, step)

    # --- c10d ---
    def c10d(self, t, rank, line, text, level='E', prefixed=True):
        v = version(self.torch)
        head = f'[{level} ProcessGroupNCCL.cpp:{line}] ' if v < (2, 4) else f'[{self.glog(t, level)} ProcessGroupNCCL.cpp:{line}] '
        self.say(t, rank, (f'[rank{rank}]:' if v >= (2, 2) else '') + head + text, prefixed=False)

    def work(self, call, timeout_ms):
        numels = f'NumelIn={numel(call.ins)}, NumelOut={numel(call.outs)}, ' if version(self.torch) >= (2, 1) else ''
        seq = call.p2p_seq if call.p2p else call.seq
        return f'WorkNCCL(SeqNum={seq}, OpType={OPTYPES[call.op]}, {numels}Timeout(ms)={timeout_ms})'

    def who(self, rank, group):
        """The prefix with which a process group speaks of itself."""
        v, ids = version(self.torch), [g.name for g in self.job.groups_of(rank)]
        local, i = group.local[rank], ids.index(group.name)
        desc = f'({group.desc})' if group.desc != 'undefined' else ''
        if v >= (2, 5):
            return f'[PG ID {i} PG GUID {group.name}{desc} Rank {local}]'
        if v >= (2, 4):
            return f'[PG {i}{" " + desc if desc else ""} Rank {local}]'
        return f'[PG {i} Rank {local}]' if v >= (2, 3) else f'[Rank {local}]'

    def timed_out(self, rank, t, call, first_local, enqueued, completed, timeout_ms, deaths=True):
        """What a rank says whose operation ran into its time-out."""
        rng, v, n = self.rng, version(self.torch), LINES[self.torch]
        ran = timeout_ms + rng.randrange(2, 90)
        caught = f'[Rank {first_local}] Watchdog caught collective operation timeout: {self.work(call, timeout_ms)} ran for {ran} milliseconds before timing out.'
        self.c10d(t, rank, n[0], caught)
        pg, seq = self.who(rank, call.group), call.p2p_seq if call.p2p else call.seq
        if v >= (2, 6):
            self.c10d(t + .001, rank, n[4], f'{pg}  failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {enqueued}, '
                      f'last completed work: {completed}')
            self.c10d(t + .0015, rank, n[1] - 14, 'Stack trace of the failed collective not found, potentially because FlightRecorder is disabled. You can enable '
                      'it by setting TORCH_NCCL_TRACE_BUFFER_SIZE to a non-zero value.')
        elif v >= (2, 5):
            self.c10d(t + .001, rank, 1785, f'{pg} Exception (either an error or timeout) detected by watchdog at work: {seq}, last enqueued NCCL work: '
                      f'{enqueued}, last completed NCCL work: {completed}.')
        elif v >= (2, 3):
            self.c10d(t + .001, rank, n[4], f'{pg} Timeout at NCCL work: {seq}, last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}.')
        if v >= (2, 5) and rng.random() < .7:
            self.c10d(t + .4, rank, 1683, f'{self.who(rank, self.job.default)} Received a dump signal due to a collective timeout from this local rank and we will try our '
                      f'best to dump the debug info. Last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}.' + LIKELY)
            self.c10d(t + .5, rank, 1454, f'{self.who(rank, self.job.default)} ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1')
        if not deaths:
            return
        at = t + (60 if v >= (2, 4) else .2)
        self.c10d(at, rank, n[1], (f'[Rank {first_local}] ' if v not in ((2, 2),) else '') + FAILED)
        self.c10d(at, rank, n[2], (f'[Rank {first_local}] ' if v not in ((2, 2),) else '') + DOWN)
        if n[3]:
            thread = 'NCCL watchdog thread' if v < (2, 3) else 'Process group watchdog thread'
            who = f'[Rank {first_local}]' if v < (2, 3) else self.who(rank, call.group)
            text = f'{who} {thread} terminated with exception: {caught}'
            self.c10d(at + .001, rank, n[3], text)
            self.say(at + .002, rank, f"terminate called after throwing an instance of '{'c10::DistBackendError' if v >= (2, 2) else 'std::runtime_error'}'")
            self.say(at + .003, rank, '  what():  ' + text)

    def desync(self, rank, t, call, states):
        """PyTorch's own report (TORCH_NCCL_DESYNC_DEBUG); states: {rank: (seq, op, started)}, all of the group of the call."""
        low = min(s[0] + (not s[2]) for s in states.values())
        late = [r for r, s in states.items() if s[0] + (not s[2]) == low]
        out = [f'Rank {rank}', f'\t - [{rank}] Timeout at collective: {OPTYPES[call.op]}, #{call.seq}',
               '\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:']
        for r in late:
            s = states[r]
            out.append(f"\t     [{r}] finished collective #{s[0]}, but didn't join collective #{s[0] + 1} (count from 1)" if not s[2] else
                       f"\t     [{r}] joined but didn't finish collective #{s[0]} (count from 1)")
        out.append("\t - Snapshot of ranks' latest states:")
        for key in sorted({(s[0], s[2]) for s in states.values()}):
            out.append(f'\t   #{key[0]} {"started" if key[1] else "finished"} ranks:')
            for op in sorted({s[1] for s in states.values() if (s[0], s[2]) == key}):
                out.append(f'\t     {[r for r, s in states.items() if s == (key[0], op, key[1])]} {"started" if key[1] else "finished"} {op}')
        self.c10d(t, rank, 1937, '\n'.join(out))

    def signalled(self, rank, t, enqueued, completed, by=None):
        """What a rank says that had nothing timed out itself and was told to dump (2.5 and later)."""
        v = version(self.torch)
        if v < (2, 5):
            return
        pg = self.who(rank, self.job.default)
        self.c10d(t, rank, 1460, f'{pg} Observed flight recorder dump signal from another rank via TCPStore.')
        self.c10d(t + .001, rank, 1683, f'{pg} Received a dump signal due to a collective timeout from  rank {by} and we will try our best to dump the debug info. '
                  f'Last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}.' + LIKELY)
        self.c10d(t + .002, rank, 1536, f'{pg} ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1')

    # --- launchers ---
    def elastic_tail(self, t, first, code, others=None, host=None):
        """The agent of the host of `first` ends the others and sums up; others: {rank: exit code}."""
        host = host or self.job.host(first)
        mine = [r for r in range(self.job.world) if self.job.host(r) == host]
        v, pid = version(self.torch), self.agents[host]

        def line(tt, level, module, text):
            m = module.replace('/', '.').replace('.py', '')
            if v < (2, 1):
                self.say(tt, None, f'{"WARNING" if level == "W" else "ERROR"}:{m}:{text}', host=host)
            elif v < (2, 4):
                self.say(tt, None, f'[{self.iso(tt)},{int(tt * 1000) % 1000:03d}] {m}: [{"WARNING" if level == "W" else "ERROR"}] {text}', host=host)
            else:
                self.say(tt, None, f'{self.glog(tt, level, 6)} {pid} {module}:897] {text}', host=host)
        api = 'torch/distributed/elastic/multiprocessing/api.py'
        for r in mine:
            if r != first and (others or {}).get(r, -15) == -15:
                line(t, 'W', api, f'Sending process {self.pids[r]} closing signal SIGTERM')
        line(t + 1.2, 'E', api, f'failed (exitcode: {code}) local_rank: {first % self.job.per_node} (pid: {self.pids[first]}) of binary: /opt/venv/bin/python')
        out = ['Traceback (most recent call last):', '  File "/opt/venv/bin/torchrun", line 8, in <module>', '    sys.exit(main())',
               '  File "/opt/venv/lib/python3.11/site-packages/torch/distributed/run.py", line 919, in main', '    run(args)',
               'torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ', '=' * 60, 'train.py FAILED', '-' * 60, 'Failures:']
        names = {-6: 'SIGABRT', -9: 'SIGKILL', -15: 'SIGTERM', -11: 'SIGSEGV'}

        def block(i, r, c, tt):
            n = names.get(c)
            end = f'Signal {-c} ({n}) received by PID {self.pids[r]}' if n else 'To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html'
            return [f'[{i}]:', f'  time      : {time.strftime("%Y-%m-%d_%H:%M:%S", time.gmtime(self.epoch + tt))}', f'  host      : {host}',
                    f'  rank      : {r} (local_rank: {r % self.job.per_node})', f'  exitcode  : {c} (pid: {self.pids[r]})' + (f' ({n})' if n else ''),
                    '  error_file: <N/A>', f'  traceback : {end}']
        rest = [r for r in mine if r != first and r in (others or {})]
        out += [x for i, r in enumerate(rest) for x in block(i + 1, r, others[r], t + 1)] or ['  <NO_OTHER_FAILURES>']
        out += ['-' * 60, 'Root Cause (first observed failure):'] + block(0, first, code, t) + ['=' * 60]
        for x in out:
            self.say(t + 1.3, None, x, host=host)

    def traceback(self, t, rank, error, frames=None):
        frames = frames or [('/workspace/train.py', 291, '<module>', 'main()'), ('/workspace/train.py', 260, 'main', 'train(cfg)'),
                            ('/workspace/train.py', 110, 'train_step', 'out = model(batch)')]
        out = ['Traceback (most recent call last):']
        for f, n, name, code in frames:
            out += [f'  File "{f}", line {n}, in {name}', f'    {code}']
        for x in out + error.split('\n'):
            self.say(t, rank, (f'[rank{rank}]: ' if version(self.torch) >= (2, 2) else '') + x, prefixed=False)

    # --- writing ---
    def write(self, folder, how=None, prefix=None):
        """One file, one a node, or one a rank; with a launcher's prefix or none."""
        rng, job = self.rng, self.job
        how = how or rng.choice(['one', 'one', 'nodes', 'ranks'] if job.world <= 64 else ['one', 'nodes'])
        if how == 'nodes' and len(job.hosts) == 1:
            how = 'one'
        prefix = prefix or rng.choice(['none', 'none', 'rank', 'srun', 'default', 'ray'] if how != 'ranks' else ['none'])
        if prefix == 'default' and len(job.hosts) > 1 or self.framework == 'tqdm' and prefix == 'none':
            prefix = 'rank'
        wrapped = rng.choice([0] * 7 + [120, 166])
        files, per_rank = {}, rng.choice(['logs/rank_{rank}.log', 'rank{rank}.err', 'logs/rank-{rank}/stderr.log'])
        for t, n, rank, text, prefixed, host in sorted(self.lines, key=lambda x: (x[0], x[1])):
            host = host or (job.host(rank) if rank is not None else job.hosts[0])
            if rank is not None:
                if prefix == 'rank' and not text.startswith('[rank'):
                    text = f'[rank{rank}]:{text}'
                elif prefix == 'default':
                    text = f'[default{rank}]:{text}'
            if prefix == 'ray' and rank is not None:
                text = f'\x1b[36m(TrainWorker pid={self.pids[rank]}, ip=10.0.{job.hosts.index(host)}.7)\x1b[0m {text}'
            if prefix == 'srun':
                text = f'{job.hosts.index(host)}: {text}'
            key = {'one': 'train.log', 'nodes': f'{host.split(".")[0]}.log', 'ranks': 'agent.log'
                if rank is None else per_rank.format(rank=rank)}[how]
            if how == 'one' and prefix == 'srun':
                key = f'slurm-{800000 + job.world}.out'
            files.setdefault(key, []).append(text)
        for key, lines in files.items():
            path = os.path.join(folder, key)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            text = '\n'.join(lines) + '\n'
            if how == 'one' and prefix in ('none', 'rank') and wrapped:
                text = wrap(text, wrapped)
            with open(path, 'w', newline='') as f:
                f.write(text)
        return how, prefix
