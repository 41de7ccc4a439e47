#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make folders of evidence of hangs and crashes, as an engineer would have them, each with its answer.json.

    tests/gen/make_hangs.py --seed 1 --count 60 [--fault NAME[,NAME]] [--world N] [--sources DLSP] OUT

Ranks are simulated (hang_sim.py), one fault is put in (hang_faults.py), and what each rank would leave is written: Flight
Recorder dumps, logs, stacks, power, of which some kinds are absent, as the sources say (D dumps, L log, S stacks, P
power, D2 two recordings). Scene i of seed S is made of the seed "S/i", so --only i makes it again, alone.

answer.json, which is never given to the program: verdict, culprit_ranks, cause (and what is as good: verdict_also_ok,
culprit_also_ok, cause_also_fair), decidable (false: nobody may be blamed), what happened, sources, how it was made.
"""
import argparse
import json
import os
import random
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from hang_faults import ALL, FAULTS  # noqa: E402
from hang_fr import Dialect, write_dumps  # noqa: E402
from hang_log import OPTYPES, TORCHES, Log, version  # noqa: E402
from hang_plan import Job  # noqa: E402
from hang_power import Power  # noqa: E402
from hang_sim import Call, Sim  # noqa: E402
from hang_stacks import write_stacks  # noqa: E402

WORLDS = [4, 4, 4, 6, 8, 8, 8, 8, 12, 16, 16, 16, 24, 32, 32, 64, 64, 128, 256, 512]
RINGS = [16, 24, 40, 64, 100, 200, 500, 1000, 2000]


class Retry(Exception):
    pass


class Scene:
    def __init__(self, rng, name, world=None, sources=None, kind=None, backend=None):
        self.rng, self.name = rng, name
        self.make, kinds, source_sets, backends, _, least, most = FAULTS[name]
        self.sources = sources or rng.choice(source_sets)
        kind = kind or rng.choice(kinds)
        backend = backend or rng.choice(backends)
        if 'D' not in self.sources and 'S' not in self.sources:
            backend = 'nccl'
        if backend == 'gloo':
            self.sources = self.sources.replace('P', '')
        if kind in ('pp-dp', 'tp-pp-dp') and backend == 'gloo' and 'S' not in self.sources:
            backend = 'nccl' if 'nccl' in backends else self.retry()
        world = world or rng.choice([w for w in WORLDS if least <= w <= most])
        self.check_world(kind, world)
        self.job = Job(rng, kind, world, backend, rng.choice([4, 8, 8]), rng.choice([2, 4]), rng.choice([2, 3])
            if world > 64 else rng.choice([2, 3, 5]),
                       rng.choice(['mesh', 'mesh', 'megatron', 'none']))
        self.start(world)

    def check_world(self, kind, world):
        if kind in ('tp-pp-dp',) and world % 8 or kind in ('hsdp', 'tp-dp', 'pp-dp', 'ep-dp') and world % 4:
            self.retry()

    def start(self, world):
        rng, job = self.rng, self.job
        n = rng.randrange(4, 8) if world > 64 else rng.randrange(5, 12)
        if rng.random() < .1 and world <= 8:
            n = 120
        self.fault_step = n - rng.choice([2, 3])
        self.base = 0 if rng.random() < .5 else rng.choice([12, 100, 997, 4300, 20011])
        self.steps = [[job.step_program(r, self.base + k + 1) for k in range(n)] for r in range(world)]
        self.epilogues = {}
        pids = rng.sample(range(4000, 4000 + 60 * world), world)
        self.pids = {r: p for r, p in enumerate(sorted(pids))}
        self.tells, self.two, self.poison, self.saves = [], False, None, 0
        self.now_after, self.timeouts = None, job.backend == 'nccl'
        self.network_words = self.silent_host = self.node_failure = self.crash = self.xid = self.oom_killed = None
        self.kernel_log = self.preempt = self.no_start = self.log_all_printers = self.goes_on = False
        self.watchdog_stuck = None

    # --- for faults ---
    def retry(self):
        raise Retry

    def pick(self, fits):
        ranks = [r for r in range(self.job.world) if fits(r)]
        return self.rng.choice(ranks) if ranks else self.retry()

    def tell(self, rank, text, when):
        self.tells.append((rank, text, when))

    # --- the simulation ---
    def seq_bases(self):
        """What the steps before those simulated have counted, by rank and group."""
        out, self.records = {}, {}
        for r in range(self.job.world):
            p = self.job.step_program(r, 0)
            calls, ends = [], 0
            for x in p:
                calls += [x] if isinstance(x, Call) else list(getattr(x, 'calls', ()))
                ends += not isinstance(x, Call) and x.what == 'batch'
            batches = {id(c) for x in p if not isinstance(x, Call) and x.what == 'batch' for c in x.calls[1:]}
            for g in {c.group.name for c in calls}:
                mine = [c for c in calls if c.group.name == g]
                out[r, g] = (self.base * sum(not c.p2p for c in mine), self.base * sum(c.p2p and id(c) not in batches for c in mine),
                    self.base * len(mine))
            self.records[r] = self.base * (len([c for c in calls if self.job.backend == 'nccl' or not c.p2p]) + (ends
                if self.job.backend == 'nccl' else 0))
        return out

    def simulate(self):
        rng, job = self.rng, self.job
        self.sim = Sim(job.backend, seq_base=self.seq_bases())
        if self.poison:
            self.sim.never.add(self.poison)
        for r in range(job.world):
            program = [x for p in self.steps[r] for x in p] + self.epilogues.get(r, [])
            self.sim.add(r, program, rng.uniform(0, .003))
            self.sim.ranks[r].queue = rng.choice([6, 20, 60]) if self.sources != 'S' else 1000  # alone, a stack in the forward may be anything
        self.sim.run()
        self.stop = self.sim.last_time()
        gone = {r for r in range(job.world) if self.sim.ranks[r].stands[0] == 'gone'}
        self.alive = [r for r in range(job.world) if r not in gone]

    def pending(self, r, now=float('inf')):
        return [c for c in self.sim.ranks[r].calls if c.created <= now and not (c.done.known and c.done.t <= now)]

    def check(self, a):
        """The simulation must show what the answer claims."""
        hung = a['cause'] not in ('none', 'preempted', 'rendezvous')
        if not hung:
            return
        waiting = [r for r in self.alive if self.pending(r)]
        if not waiting:
            self.retry()
        for r in self.alive:
            held = self.sim.ranks[r].stands[0] == 'hold'
            if held == bool(self.pending(r)) and (held or self.job.backend == 'nccl'):
                self.retry()
        if a.get('split') and not all(self.awaited(r) for r in a['culprit_ranks']):
            self.retry()

    def awaited(self, r):
        """Whether somebody waits for r in a group in which r has not called what it waits in."""
        mine = self.sim.ranks[r].coll_seqs
        return any(c.group.name in {g.name for g in self.job.groups_of(r)} and not c.p2p and c.seq > mine.get(c.group.name,
            0) + self.sim.seq_base.get((r, c.group.name), (0,))[0]
                   for q in self.alive if q != r for c in self.pending(q)[:1])

    # --- the evidence ---
    def write(self, folder):
        rng, job = self.rng, self.job
        a = self.make(self)
        self.simulate()
        self.check(a)
        os.makedirs(folder)
        d = self.dialect = Dialect(rng, job.backend)
        if self.silent_host and 'L' not in self.sources:  # else nothing says who stands on which host
            d.naming = rng.choice(['{host}_nccl_trace_rank_{rank}', '{host}/nccl_trace_rank_{rank}', 'dump-{host}-rank{rank}.pkl'])
        self.now = self.stop + (self.now_after or (d.timeout_ms / 1000 + 1 if self.timeouts else rng.uniform(60, 900)))
        self.choose_ring(d)
        silent = {r for r in range(job.world) if self.silent_host and job.host(r) == self.silent_host}
        speakers = [r for r in self.alive if r not in silent and r != self.watchdog_stuck]
        if 'D2' in self.sources:
            self.recordings(folder, d)
        elif self.goes_on:
            write_dumps(folder, d, job, self.sim, speakers, self.stop * rng.uniform(.4, .5), rng, self.records)
            self.now = self.stop
        elif 'D' in self.sources:
            write_dumps(folder, d, job, self.sim, speakers, self.now, rng, self.records)
            self.damage(folder, a)
        if 'L' in self.sources:
            self.write_log(folder, d, silent)
        if 'S' in self.sources:
            a['stacks'] = write_stacks(folder, job, self.sim, speakers, rng, self.pids)
        if 'P' in self.sources:
            Power(rng, job, d.epoch / 1e9 + self.stop).write(folder, self.gpu_states(silent), before=5, after=max(2,
                int(self.now - self.stop) // 30) if self.now_after else 8)
        a.update(fault=self.name, sources=self.sources, kind=job.kind, backend=job.backend, world_size=job.world, ring_size=d.ring,
            version=d.version, hosts=job.hosts,
                 format=d.format)
        with open(os.path.join(folder, 'answer.json'), 'w') as f:
            json.dump(a, f, indent=1)
        return a

    def choose_ring(self, d):
        """A ring that holds all that hangs; with steps before, one that is full on every rank."""
        per = {r: len(self.sim.ranks[r].calls) for r in self.alive} or {0: 1}
        need = max([len(self.pending(r)) for r in self.alive] or [0]) * 2 + 12
        fits = [n for n in RINGS if need <= n <= min(per.values())]
        if self.base and not fits:
            self.retry()
        d.ring = (fits[-1] if self.rng.random() < .6 else self.rng.choice(fits)) if self.base else self.rng.choice(fits + [2000, 2000, 20000])

    def recordings(self, folder, d):
        rng = self.rng
        names = rng.choice([('t0', 't1'), ('first', 'second'), ('dump-1', 'dump-2')])
        times = [self.stop * rng.uniform(.45, .55), self.stop * rng.uniform(.8, .9)]
        d.ring = min(d.ring, 2000)
        for name, t in zip(names, times):
            write_dumps(os.path.join(folder, name), d, self.job, self.sim, range(self.job.world), t, rng, self.records)
        self.now = times[1] + 1

    def damage(self, folder, a):
        """Now and then a victim's dump is missing, empty or cut, while the culprit's is there."""
        files = sorted(os.path.join(p, f) for p, _, names in os.walk(folder) for f in names)
        if not a['culprit_ranks'] or len(self.alive) < self.job.world or self.job.world < 8 or self.rng.random() > .2 or not a['decidable']:
            return
        import re
        keep = set(a['culprit_ranks']) | {r for c in a['culprit_ranks'] for g in self.job.groups_of(c) if len(g.ranks) <= 8 for r in g.ranks}
        victims = [f for f in files if int(re.findall(r'\d+', os.path.basename(f))[-1]) not in keep]
        for f in self.rng.sample(victims, min(len(victims), self.rng.choice([1, 1, 2]))):
            how = self.rng.choice(['missing', 'empty', 'cut', '87'])
            a.setdefault('damaged', []).append([os.path.relpath(f, folder), how])
            if how == 'missing':
                os.remove(f)
                continue
            with open(f, 'rb+') as h:
                size = os.path.getsize(f)
                h.truncate({'empty': 0, 'cut': size * 2 // 3, '87': 87}[how])

    def gpu_states(self, silent):
        out = {}
        for r in range(self.job.world):
            stands = self.sim.ranks[r].stands
            spins = any(c.ready.known for c in self.pending(r))
            out[r] = None if r in silent else 'free' if stands[0] == 'gone' else 'wait' if spins else 'idle'
        return out

    # --- the log ---
    def write_log(self, folder, d, silent):
        rng, job, sim = self.rng, self.job, self.sim
        modern = version(d.version.replace('2.', '0.')) >= (0, 4)
        torches = [t for t in TORCHES if version(t) >= ((2, 1) if not modern else (2, 4))] if 'D' in self.sources else TORCHES[1:]
        log = self.log = Log(rng, job, d.epoch / 1e9, self.pids, torch=rng.choice(torches))
        log.everyone |= self.log_all_printers and job.world <= 64
        if self.saves or self.goes_on:
            log.framework = rng.choice(['megatron', 'plain', 'titan'])
        log.total = self.base + len(self.steps[0]) + rng.choice([500, 20000])
        if self.name.startswith('uneven'):
            log.total = self.base + len(self.steps[0])
        log.per_epoch = log.total
        marks = {r: [m for m in sim.ranks[r].marks if m[0] <= self.now] for r in range(job.world) if r not in silent}
        first = next((m for m in marks.values() if len(m) > 1), [(0.0, 0), (1.0, 1)])
        log.step_s = max((first[-1][0] - first[0][0]) / max(len(first) - 1, 1), .01)
        if self.no_start:
            self.log_rendezvous(log)
            return log.write(folder, 'one')
        self.log_saves(log)
        log.hello([r for r in range(job.world) if r not in silent])
        log.all_progress(marks)
        for i, (r, text, _) in enumerate(self.tells):
            t = max([sim.ranks[r].gone_at or 0] + [m[0] for m in marks.get(r, ())]) + .001 + i * 1e-6
            step = marks[r][-1][1] if marks.get(r) else 0
            log.say(t, r, f'{log.iso(t)} {text.format(step=step)}' if 'ValueError' not in text else f'{log.iso(t)} {text}')
        if self.crash:
            self.log_crash(log)
        elif self.preempt:
            self.log_preempt(log)
        elif job.backend == 'nccl' and self.timeouts and not self.two and not self.goes_on:
            self.log_timeouts(log, d, silent)
        self.log_kernel(folder, log)
        return log.write(folder)

    def log_saves(self, log):
        if not self.saves and self.name != 'checkpoint-too-long':
            return
        took, at = self.rng.uniform(70, 110), -3600.0
        for i in range(self.saves or 2):
            step = max(self.base - 300 * (3 - i), i + 1)
            usual = took * self.rng.uniform(.95, 1.05)
            log.progress(at - 1, 0, step)
            log.say(at, 0, f'{log.iso(at)} saving checkpoint at step {step}')
            log.say(at + usual, 0, f'{log.iso(at + usual)} checkpoint of step {step} saved in {usual:.1f} s')
            at += 1100
        if self.saves:
            t = self.stop
            log.say(t, 0, f'{log.iso(t)} saving checkpoint at step {self.base + self.fault_step}')

    def state_of(self, r):
        """(first pending call of the rank, {group: (enqueued, completed)})"""
        counts = {}
        for c in self.sim.ranks[r].calls:
            if c.created > self.now:
                break
            key = (c.group.name, c.p2p and c.peer)
            e, done = counts.get(key, (-1, -1))
            seq = c.p2p_seq if c.p2p else c.seq
            counts[key] = (seq, seq if c.done.known and c.done.t <= self.now else done)
        p = self.pending(r, self.now)
        return (min(p, key=lambda c: c.created) if p else None), counts

    def latest(self, r, group):
        """(sequence number, operation, whether it only started) of the last one of a rank in a group that began."""
        best = (0, 'NONE', False)
        for c in self.sim.ranks[r].calls:
            if c.group is group and c.created <= self.now:
                done = c.done.known and c.done.t <= self.now
                if done or best[2] is False:
                    best = (c.seq, OPTYPES[c.op], not done)
        return best

    def log_timeouts(self, log, d, silent):
        rng, job = self.rng, self.job
        outs = []
        for r in self.alive:
            if r in silent:
                continue
            call, counts = self.state_of(r)
            outs.append((call.created + d.timeout_ms / 1000 if call else float('inf'), r, call, counts))
        first = min(outs, key=lambda x: (x[0], x[1]))
        deaths, desync = rng.random() < .8, self.kernel_log is False and rng.random() < .15
        for t, r, call, counts in sorted(outs, key=lambda x: (x[0], x[1])):
            if call and t <= first[0] + 30:
                c = next(c for c in self.sim.ranks[r].calls)
                e, done = counts[call.group.name, call.p2p and call.peer]
                log.timed_out(r, t + rng.uniform(0, .05), call, c.group.local[r], e, done, d.timeout_ms, deaths)
                if desync and call.group is job.default and not call.p2p:
                    log.desync(r, t + .06, call, {q: self.latest(q, call.group) for q in range(job.world) if q not in silent})
            elif r != self.watchdog_stuck:
                e, done = counts.get((job.default.name, False), (-1, -1))
                log.signalled(r, first[0] + rng.uniform(.5, 1.5), e, done, by=first[1])
        if self.watchdog_stuck is not None:
            r = self.watchdog_stuck
            log.c10d(first[0] + 30, r, 1375, f'{log.who(r, job.default)} First PG on this rank that detected no heartbeat of its watchdog.')
            log.c10d(first[0] + 30.1, r, 1413, f'{log.who(r, job.default)} Heartbeat monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()=0')
        if self.network_words:
            for r in rng.sample(self.network_words, min(2, len(self.network_words))):
                t = first[0] - rng.uniform(300, 580)
                h = job.host(r)
                log.say(t, r, f'{h}:{self.pids[r]}:{self.pids[r] + 700} [{r % job.per_node}] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer 10.1.4.{r % 250}<43211> '
                        'with status=12 opcode=0 len=0 vendor err 129 (Recv) localGid ::ffff:10.1.4.1 remoteGids::ffff:10.1.4.2 hca mlx5_2')
        if self.node_failure:
            t = first[0] - 100
            log.say(t, None, f'slurmstepd: error: *** STEP 71234.0 ON {job.hosts[0]} CANCELLED AT {log.iso(t).replace(" ", "T")} DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***')
            log.say(t + .1, None, f'srun: error: Node failure on {self.node_failure}')
        if deaths and rng.random() < .6:
            host = job.host(first[1])
            mine = [r for r in self.alive if job.host(r) == host]
            log.elastic_tail(first[0] + 61, first[1], -6, {r: rng.choice([-6, -15]) for r in mine if r != first[1]})

    def log_crash(self, log):
        rng, job, c = self.rng, self.job, self.crash
        t, r = self.sim.ranks[c['rank']].gone_at, c['rank']
        if c['error']:
            log.traceback(t + (.8 if c['victims_first'] else 0), r, c['error'])
        victims = rng.sample(self.alive, min(len(self.alive), rng.choice([1, 3, 8])))
        gloo = job.backend == 'gloo'
        for v in victims:
            if gloo:
                log.traceback(t + rng.uniform(.05, .3), v, 'RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer '
                              f'[10.0.0.{rng.randrange(2, 250)}]:{rng.randrange(20000, 50000)}. This is typically caused by a remote worker crashing. Check the logs of the remote '
                              'worker before reporting an error.')
            elif version(log.torch) >= (2, 3) and rng.random() < .6:
                log.c10d(t + rng.uniform(.05, .3), v, 1375, f'{log.who(v, job.default)} Process group watchdog thread terminated with exception: NCCL error: remote process '
                         'exited or there was a network error, NCCL version 2.21.5')
            else:
                log.traceback(t + rng.uniform(.05, .3), v, 'torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2062, remote '
                              'process exited or there was a network error, NCCL version 2.21.5\nncclRemoteError: A call failed possibly due to a network error or a remote '
                              'process exiting prematurely.')
        code = 1 if c['error'] else -9
        mine = [q for q in self.alive if job.host(q) == job.host(r)]
        log.elastic_tail(t + 1.5, r, code, {q: 1 if gloo and q in victims else -15 for q in mine})
        if r == 0 and not gloo:  # the store is gone too
            for v in rng.sample(self.alive, 1):
                log.c10d(t + 2, v, 1350, f'{log.who(v, job.default)} Failed to check the "should dump" flag on TCPStore, (maybe TCPStore server has shut down too early), with error: '
                         'recvValue failed on SocketImpl(fd=31): Connection reset by peer', level='W')

    def log_preempt(self, log):
        t, job = self.stop + .2, self.job
        log.say(t, None, f'slurmstepd: error: *** STEP 812345.0 ON {job.hosts[0]} CANCELLED AT {log.iso(t).replace(" ", "T")} DUE TO PREEMPTION ***')
        log.say(t + .01, None, 'srun: Job step aborted: Waiting up to 32 seconds for job step to finish.')
        for h in job.hosts:
            log.say(t + .1, None, f'{log.glog(t + .1, "W", 6)} {log.agents[h]} torch/distributed/elastic/agent/server/api.py:719] Received 15 death signal, shutting down workers', host=h)
        log.say(t + .3, None, f'torch.distributed.elastic.multiprocessing.api.SignalException: Process {log.agents[job.hosts[0]]} got signal: 15')

    def log_rendezvous(self, log):
        job, rng = self.job, self.rng
        came = [r for r in range(job.world) if job.host(r) != job.hosts[-1]] or list(range(job.world - 1))
        for r in came:
            log.say(r * 1e-3, r, f'{log.iso(0)} INFO init_process_group(env://) rank {r} world_size {job.world}')
        frames = [('/workspace/train.py', 291, '<module>', 'main()'), ('/workspace/train.py', 31, 'main', 'dist.init_process_group("nccl")'),
                  ('/opt/venv/lib/python3.11/site-packages/torch/distributed/rendezvous.py', 278, '_env_rendezvous_handler',
                      'store = _create_c10d_store(')]
        for r in rng.sample(came, min(3, len(came))):
            log.traceback(901 + r * 1e-3, r, f'torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. {len(came)}/{job.world} clients joined.', frames)
        log.elastic_tail(903, came[0], 1, {})

    def log_kernel(self, folder, log):
        """The kernel's own log of the culprit's host."""
        import time
        out, job = [], self.job
        r = self.oom_killed if self.oom_killed is not None else self.xid
        if r is None:
            return
        t = log.epoch + (self.sim.ranks[r].gone_at or self.stop)
        stamp = time.strftime('%b %d %H:%M:%S', time.gmtime(t))
        head = f'{stamp} {job.host(r)} kernel: [{t % 1000000:.6f}] '
        pid = self.pids[r]
        if self.oom_killed is not None:
            out = [f'{head}python invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0',
                   f'{head}oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=job_71234,mems_allowed=0-1,task=python,pid={pid},uid=1000',
                   f'{head}Memory cgroup out of memory: Killed process {pid} (python) total-vm:412034560kB, anon-rss:251034112kB, file-rss:8192kB, shmem-rss:0kB, UID:1000 '
                   'pgtables:501234kB oom_score_adj:0']
        else:
            x = 48 if 'ECC' in self.crash['error'] else 31
            out = [f'{head}NVRM: Xid (PCI:0000:{0x1b + 0x11 * (r % job.per_node):02x}:00): {x}, pid={pid}, name=python, '
                   + ('DBE (double bit error) ECC uncorrectable'
                       if x == 48 else 'Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC0 faulted @ 0x7f1c_4a000000')]
        with open(os.path.join(folder, f'kern_{job.host(r).split(".")[0]}.log'), 'w') as f:
            f.write('\n'.join(out) + '\n')


def make_scene(seed, out, fault=None, **kw):
    """One folder below out; tries anew until the simulation shows what was meant."""
    for attempt in range(400):
        rng = random.Random(f'{seed}/{attempt}')
        name = rng.choice(fault) if fault else rng.choices(list(FAULTS), [f[4] for f in FAULTS.values()])[0]
        folder = os.path.join(out, f'{seed.replace("/", "-")}-{name}')
        try:
            a = Scene(rng, name, **kw).write(folder)
            return folder, a
        except Retry:
            shutil.rmtree(folder, ignore_errors=True)
    raise SystemExit(f'seed {seed}: no scene of {fault} comes about')


def parser():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--seed', default='1')
    p.add_argument('--count', type=int, default=20)
    p.add_argument('--only', type=int, help='only this number')
    p.add_argument('--fault', help='one or more of: ' + ', '.join(FAULTS))
    p.add_argument('--world', type=int)
    p.add_argument('--kind', choices=ALL)
    p.add_argument('--backend', choices=['nccl', 'gloo'])
    p.add_argument('--sources', help='such as DLSP')
    p.add_argument('out')
    return p


def main():
    args = parser().parse_args()
    for i in range(args.count) if args.only is None else [args.only]:
        folder, a = make_scene(f'{args.seed}/{i}', args.out, args.fault and args.fault.split(','), world=args.world, kind=args.kind,
            backend=args.backend,
                               sources=args.sources)
        print(f"{os.path.basename(folder)}: {a['kind']} {a['backend']} {a['world_size']} ranks, {a['sources']}: {a['cause']} {a['culprit_ranks']}", flush=True)


if __name__ == '__main__':
    main()
