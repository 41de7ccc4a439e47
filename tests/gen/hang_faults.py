# SPDX-License-Identifier: Apache-2.0
"""What goes wrong: each fault changes the programs of some ranks and says who did it, why, and what can tell.

A fault is a function of a scene (make_hangs.Scene). It returns the answer's culprits and cause for somebody who has all
of the sources that are given; `weak` are causes as good when nothing shows what the rank does instead. D is dumps, L the
log, S stacks, P power.
"""
from hang_sim import Call, Do, numel

WEAK = ['missing-rank', 'host-stall', 'data-starved', 'unknown']
FAULTS = {}


def fault(kinds, sources, backends=('nccl', 'nccl', 'gloo'), weight=1, least=4, most=512):
    def keep(f):
        FAULTS[f.__name__.replace('_', '-')] = (f, kinds, sources, backends, weight, least, most)
        return f
    return keep


ALL = ['ddp', 'fsdp', 'fsdp-own', 'hsdp', 'tp-dp', 'pp-dp', 'ep-dp', 'tp-pp-dp']
FLAT = ['ddp', 'fsdp', 'fsdp-own', 'hsdp', 'ep-dp']


def answer(culprits, cause, fair=(), verdict='hung', what='', **more):
    return dict(verdict=verdict, culprit_ranks=sorted(culprits), cause=cause, cause_also_fair=sorted(set(fair) - {cause}), decidable=True,
        what=what, **more)


def some(s, n, most=None):
    """n ranks, a minority."""
    return sorted(s.rng.sample(range(s.job.world), min(n, most or n, (s.job.world - 1) // 2 or 1)))


def few(s):
    return 1 if s.job.world < 8 or s.rng.random() < .75 else s.rng.choice([2, 2, 3])


# --- the end of the epoch ---

def leave(s, ranks, epilogue, at):
    for r in ranks:
        s.steps[r] = s.steps[r][:at]
        s.epilogues[r] = epilogue(r)


@fault(FLAT, ['D', 'DL', 'DS', 'DLS', 'L', 'DLSP', 'DP'], weight=4)
def uneven_barrier(s):
    ranks, at = some(s, few(s)), s.fault_step
    leave(s, ranks, lambda r: [s.job.barrier()], at)
    for r in ranks:
        s.tell(r, 'epoch 0 done', 'end')
    return answer(ranks, 'collective-desync', ['uneven-steps'],
        what=f'ranks {ranks} have fewer batches: they wait in the barrier before the checkpoint')


@fault(FLAT, ['D', 'DL', 'DS', 'DLSP', 'DLP'], weight=2)
def uneven_exit(s):
    ranks = some(s, few(s))
    leave(s, ranks, lambda r: [Do('gone', where='exit')], s.fault_step)
    for r in ranks:
        s.tell(r, s.rng.choice(['Training completed.', 'epoch 0 done', 'training done, bye']), 'end')
    s.log_all_printers = True
    return answer(ranks, 'missing-rank', ['uneven-steps', 'dead-rank', 'collective-desync'], what=f'ranks {ranks} ran out of batches and exited')


@fault(FLAT, ['D', 'DL', 'DS', 'DLS', 'L'], weight=2)
def uneven_eval(s):
    ranks = some(s, few(s))
    n = s.rng.choice([2, 3, 7])
    leave(s, ranks, lambda r: [Do('compute', .05), s.job.call(s.job.default, 'all_reduce', [[n]], types=['Float'], mode='block',
        where='eval')], s.fault_step)
    for r in ranks:
        s.tell(r, 'Running evaluation on validation set', 'end')
    return answer(ranks, 'collective-desync', ['uneven-steps'],
        what=f'ranks {ranks} went to the evaluation: their all_reduce of its metrics meets a gradient of the others')


# --- a rank that does something else ---

HOLDS = {'data-queue': 'data-starved', 'data-read': 'data-starved', 'compile': 'host-stall', 'triton': 'host-stall', 'gc': 'host-stall',
    'loop': 'host-stall',
         'pdb': 'host-stall', 'nfs-stat': 'host-stall', 'lock': 'host-stall', 'http': 'host-stall', 'handler': 'host-stall'}
HOLD_FAIR = {'data-queue': ['host-stall'], 'data-read': ['host-stall'], 'handler': ['exception', 'missing-rank'], 'pdb': ['missing-rank', 'unknown'],
             'nfs-stat': ['checkpoint'], 'lock': ['data-starved', 'missing-rank'], 'http': ['missing-rank']}


def place(s, rank, kind):
    """Where in the step a hold belongs."""
    p = s.steps[rank][s.fault_step]
    if kind.startswith('data') or kind in ('lock', 'nfs-stat', 'gc', 'http', 'loop', 'handler'):
        return 0
    spots = [i for i, x in enumerate(p) if isinstance(x, Call)] or [0]
    return s.rng.choice(spots)


@fault(ALL, ['D', 'D', 'DL', 'DS', 'DLS', 'S', 'DLSP', 'LP', 'L', 'DP'], weight=8)
def hold(s):
    ranks = some(s, 1)
    kind = s.rng.choice(list(HOLDS))
    for r in ranks:
        s.steps[r][s.fault_step].insert(place(s, r, kind), Do('hold', where=kind))
    if kind == 'handler':
        s.tell(ranks[0], 'training failed, reporting: ValueError("nan in batch")', 'end')
    best = HOLDS[kind]
    ends = dict(verdict_also_ok=['crashed']) if kind == 'handler' and 'L' in s.sources else {}
    if 'S' in s.sources:
        return answer(ranks, best, HOLD_FAIR.get(kind, ()), **ends, what=f'rank {ranks[0]} is held in {kind}')
    return answer(ranks, 'missing-rank', WEAK + [best] + HOLD_FAIR.get(kind, []), **ends,
        what=f'rank {ranks[0]} is held in {kind}, which nothing given shows')


@fault(ALL, ['DL', 'DLS', 'DLP'], backends=('nccl',), weight=2)
def driver(s):
    """A rank whose threads are all stuck in the driver: no dump of it, and its monitor says so."""
    r = some(s, 1)[0]
    s.steps[r][s.fault_step].insert(0, Do('hold', where='driver'))
    s.watchdog_stuck = r
    return answer([r], 'missing-rank', ['host-stall', 'gpu-error', 'unknown'], what=f'rank {r} is stuck in the driver')


@fault(['tp-dp', 'pp-dp', 'tp-pp-dp', 'hsdp', 'ep-dp'], ['D', 'DL', 'DS', 'DLSP'], weight=3, least=8)
def two_holds(s):
    """Two independent faults in one step."""
    kinds = s.rng.sample(list(HOLDS), 2)
    ranks = some(s, 2)
    for r, kind in zip(ranks, kinds):
        s.steps[r][s.fault_step].insert(0, Do('hold', where=kind))
    best = HOLDS[kinds[0]]
    return answer(ranks, best if 'S' in s.sources else 'missing-rank', [*WEAK, *(HOLDS[k] for k in kinds), *(f for k in kinds
        for f in HOLD_FAIR.get(k, []))],
                  what=f'ranks {ranks} are held in {kinds}', split=True)


@fault(['ddp', 'fsdp', 'fsdp-own', 'tp-dp'], ['DL', 'DLS', 'LS', 'DLSP', 'L'], backends=('nccl',), weight=3)
def checkpoint_too_long(s):
    """Rank 0 writes for longer than the others' time-out allows."""
    at, job = s.fault_step, s.job
    for r in range(job.world):
        s.steps[r] = s.steps[r][:at]
        s.epilogues[r] = ([Do('hold', where=s.rng.choice(['save', 'save-nfs']))] if r == 0 else []) + [job.barrier()]
    s.tell(0, s.rng.choice(['saving checkpoint at step {step}', 'Saving model checkpoint to /ckpt/checkpoint-{step}',
        'saving checkpoint at iteration {step:7d} to /ckpt']), 'end')
    return answer([0], 'checkpoint', what='rank 0 writes the checkpoint, the others wait in the barrier past their time-out')


@fault(['ddp', 'fsdp'], ['DLP', 'LP'], backends=('nccl',), weight=2)
def checkpoint_in_time(s):
    """A save that takes no longer than the ones before."""
    at, job = s.fault_step, s.job
    for r in range(job.world):
        s.steps[r] = s.steps[r][:at]
        s.epilogues[r] = ([Do('hold', where='save')] if r == 0 else []) + [job.barrier()]
    s.saves = 3
    s.now_after = s.rng.uniform(20, 60)
    s.timeouts = False
    return answer([], 'none', ['checkpoint'], verdict='healthy', verdict_also_ok=['slow', 'insufficient'],
        what='rank 0 saves, as it did before, for less time than before')


# --- different calls ---

@fault(['ddp', 'tp-dp', 'pp-dp', 'ep-dp'], ['D', 'DL', 'DS'], weight=3, least=4)
def missing_bucket(s):
    """A parameter that got no gradient on one rank: one bucket's all_reduce is not called."""
    r = s.pick(lambda r: len(s.job.of('dp', r).ranks) >= 3)
    p = s.steps[r][s.fault_step]
    spots = [i for i, x in enumerate(p) if isinstance(x, Call) and x.op == 'all_reduce' and x.group is s.job.of('dp', r) and x.mode == 'async']
    i = spots[0]
    if len({numel(p[k].ins) for k in spots}) < len(spots):
        s.retry()
    del p[i]
    return answer([r], 'collective-desync', ['missing-rank', 'uneven-steps'], what=f'rank {r} leaves out one gradient bucket: its next one meets it')


@fault(['tp-dp', 'tp-pp-dp'], ['D', 'DL', 'DS'], weight=3, least=8)
def missing_broadcast(s):
    """A tensor-parallel rank that leaves out the broadcast of the batch."""
    r = s.pick(lambda r: True)
    p = s.steps[r][s.fault_step]
    i = next(i for i, x in enumerate(p) if isinstance(x, Call) and x.op == 'broadcast')
    del p[i]
    return answer([r], 'collective-desync', ['missing-rank'], what=f'rank {r} leaves out the broadcast of its tensor-parallel group')


@fault(['ep-dp'], ['D', 'DL', 'DS'], weight=2, least=8)
def missing_exchange(s):
    r = s.pick(lambda r: len(s.job.of('ep', r).ranks) >= 3)
    p = s.steps[r][s.fault_step]
    spots = [i for i, x in enumerate(p) if isinstance(x, Call) and x.op == 'all_to_all']
    for i in reversed(spots):
        del p[i]
    return answer([r], 'collective-desync', ['missing-rank', 'workload-imbalance'],
        what=f'rank {r} got no tokens and leaves out the exchange of experts')


@fault(['pp-dp'], ['D', 'DS', 'DL'], backends=('nccl',), weight=2)
def extra_microbatch(s):
    """A stage that waits for a micro-batch more than the one before sends."""
    r = s.pick(lambda r: s.job.stage(r) > 0)
    g = s.job.of('pp', r)
    p = s.steps[r][s.fault_step]
    last = max(i for i, x in enumerate(p) if isinstance(x, Call) and x.p2p or isinstance(x, Do) and x.what == 'batch')
    p.insert(last + 1, s.job.call(g, 'recv', [[s.job.seq, 1, s.job.hidden]], peer=g.ranks[s.job.stage(r) - 1], where='recv_forward'))
    return answer([r], 'collective-desync', ['uneven-steps'], what=f'rank {r} waits to receive a micro-batch more than its neighbour sends')


@fault(['ddp', 'fsdp', 'fsdp-own'], ['D', 'DL', 'DS', 'DLS'], weight=4)
def order(s):
    """Two groups of the same members, used in the other order by one rank."""
    job = s.job
    a, b = job.group('dense_dp', range(job.world)), job.group('expert_dp', range(job.world))
    mode = s.rng.choice(['block', 'block', 'stream'])
    r = some(s, 1)[0]
    n, m = s.rng.randrange(100, 9000), s.rng.randrange(100, 9000)
    for q in range(job.world):
        for k, p in enumerate(s.steps[q]):
            two = [job.call(g, 'all_reduce', [[x]], mode=mode, where='optimizer') for g, x in ((a, n), (b, m))]
            if q == r and k == s.fault_step:
                two.reverse()
            p[-2:-2] = two
    return answer([r], 'collective-desync', what=f'rank {r} uses expert_dp before dense_dp, the others after it', cycle=True)


# --- different arguments ---

def mismatch(s, change, ops, what, least=3):
    def fits(r):
        return any(isinstance(x, Call) and x.op in ops and len(x.group.ranks) >= least and x.ins != [[]] for x in s.steps[r][s.fault_step])
    r = s.pick(fits)
    p = s.steps[r][s.fault_step]
    i = s.rng.choice([i for i, x in enumerate(p) if isinstance(x, Call) and x.op in ops and len(x.group.ranks) >= least and x.ins != [[]]])
    p[i] = c = p[i].copy()
    change(c)
    return answer([r], 'collective-desync', what=f'rank {r}: {what} ({c.op} of {c.group.desc})')


SIZED = ['D', 'DL', 'DS', 'DLS']


@fault(['ddp', 'fsdp', 'fsdp-own', 'tp-dp', 'pp-dp', 'ep-dp'], SIZED, backends=('nccl',), weight=4)
def size_all_reduce(s):
    def change(c):
        c.ins = [[*c.ins[0][:-1], c.ins[0][-1] - s.rng.randrange(1, max(2, c.ins[0][-1] // 3))]]
        c.outs = c.ins
    if s.job.sharded:
        return size_sharded(s)
    return mismatch(s, change, ('all_reduce',), 'another size')


def size_sharded(s):
    def change(c):
        n = len(c.group.ranks)
        less = s.rng.randrange(1, 50)
        if c.op == 'all_gather_base':
            c.ins, c.outs = [[c.ins[0][0] - less]], [[c.outs[0][0] - less * n]]
        else:
            c.ins, c.outs = [[c.ins[0][0] - less * n]], [[c.outs[0][0] - less]]
    return mismatch(s, change, ('all_gather_base', 'reduce_scatter_base'), 'another size')


@fault(['ddp', 'fsdp', 'fsdp-own', 'tp-dp', 'pp-dp'], ['D', 'DS'], backends=('nccl',), weight=2)
def dtype(s):
    def change(c):
        t = 'Half' if c.in_types[0] == 'Float' else 'Float'
        c.in_types, c.out_types = [t] * len(c.in_types), [t] * len(c.out_types)
    return mismatch(s, change, ('all_reduce', 'all_gather_base', 'reduce_scatter_base'), 'another type')


@fault(['ep-dp'], ['D', 'DS'], backends=('nccl',), weight=3, least=8)
def pairs(s):
    """all_to_all with lists, where one rank's pieces are not what its peers expect."""
    job = s.job
    r = s.pick(lambda r: len(job.of('ep', r).ranks) >= 3)
    for q in range(job.world):
        for p in s.steps[q]:
            for x in p:
                if isinstance(x, Call) and x.op == 'all_to_all':
                    x.op = 'all_to_all_list'
                    x.ins = [[job.seq, job.hidden] for _ in x.group.ranks]
                    x.outs = [list(i) for i in x.ins]
                    x.in_types = x.out_types = [job.type] * len(x.ins)
    c = s.rng.choice([x for x in s.steps[r][s.fault_step] if isinstance(x, Call) and x.op == 'all_to_all_list'])
    less = s.rng.choice([0, 1, job.seq // 2])
    c.ins = [[less, job.hidden] for _ in c.ins]
    c.outs = [list(i) for i in c.ins]
    return answer([r], 'collective-desync', ['uneven-steps', 'workload-imbalance'],
        what=f'rank {r} sends and expects {less} rows where its peers have {job.seq}')


@fault(['ddp', 'tp-dp'], ['D', 'DL'], backends=('nccl',), weight=1)
def wrong_root(s):
    """A broadcast from another root: nothing that is recorded shows it."""
    job = s.job
    r = some(s, 1)[0]
    for q in range(job.world):
        c = job.call(job.default, 'broadcast', [[64]], types=['Long'], mode='block', where='data')
        c.root = 1 if q == r else 0
        s.steps[q][s.fault_step].insert(0, c)
    return dict(answer([], 'collective-stuck', ['unknown', 'collective-desync'], verdict_also_ok=['insufficient'],
        what=f'rank {r} broadcasts from another root'), decidable=False)


# --- nobody is behind ---

@fault(ALL, ['D', 'DL', 'DLS', 'DLSP', 'L'], backends=('nccl',), weight=4)
def stuck(s):
    """All arrived and nothing moves; how far each has enqueued beyond it differs."""
    job = s.job
    r = s.rng.randrange(job.world)
    calls = [x for x in s.steps[r][s.fault_step] if isinstance(x, Call) and not x.p2p]
    c = s.rng.choice(calls)
    before = sum(1 for k in range(s.fault_step) for x in s.steps[r][k] if isinstance(x, Call) and x.group is c.group)
    before += sum(1 for x in calls[:calls.index(c)] if x.group is c.group)
    s.poison = (c.group.name, before + 1)
    words = 'L' in s.sources and s.rng.random() < .4
    if words:
        s.network_words = sorted(c.group.ranks)
        return answer([], 'network-error', ['collective-stuck', 'comm-link'],
            what=f'all of {c.group.desc} arrived and nothing moves; NCCL speaks of the network',
                      culprit_free=True)
    if 'L' in s.sources:
        return answer([], 'collective-stuck', ['unknown', 'comm-link', 'network-error'], what=f'all of {c.group.desc} arrived and nothing moves')
    return dict(answer([], 'collective-stuck', ['unknown', 'none'], verdict='insufficient', verdict_also_ok=['hung'],
        what='all arrived; no time-out and no second recording'),
                decidable=False)


@fault(ALL, ['D2', 'D2', 'D2L'], weight=2)
def healthy(s):
    """Two recordings of a job that goes on."""
    s.two = True
    return answer([], 'none', verdict='healthy', verdict_also_ok=['slow', 'insufficient'], what='nothing is wrong: two recordings with progress')


@fault(ALL, ['DL'], weight=2)
def goes_on(s):
    """Dumps in the middle of training, and a log that goes on after them."""
    for steps in s.steps:
        for p in steps:
            p.insert(0, Do('host', 9.0, 'data'))
    s.goes_on = True
    return answer([], 'none', verdict='healthy', verdict_also_ok=['slow', 'insufficient'],
        what='nothing is wrong: the log has later steps than the dumps')


@fault(['ddp', 'fsdp', 'tp-dp'], ['D2', 'D2', 'D2L'], weight=2)
def slow(s):
    """One rank's loader is slow in every step; the job goes on."""
    r = some(s, 1)[0]
    for p in s.steps[r]:
        p[0] = Do('host', s.rng.uniform(.5, .8), 'data')
    s.two = True
    return answer([], 'none', ['data-starved', 'host-stall', 'workload-imbalance'], verdict='slow', verdict_also_ok=['healthy',
        'insufficient'], slow_ranks=[r],
                  what=f'rank {r} is slow in every step, but the job goes on')


# --- gone ---

@fault(ALL, ['D', 'DL', 'DLS', 'DS', 'DLSP', 'DP'], weight=4)
def killed(s):
    """A rank is killed; the launcher does not notice, the others wait."""
    r = some(s, 1)[0]
    p = s.steps[r][s.fault_step]
    p.insert(s.rng.randrange(len(p) - 2), Do('gone', where='killed'))
    s.kernel_log = 'L' in s.sources and s.rng.random() < .4 and r
    if s.kernel_log is not False:
        s.oom_killed = r
        return answer([r], 'out-of-memory', ['dead-rank'], what=f'the kernel killed rank {r}, out of memory', verdict_also_ok=['crashed'])
    return answer([r], 'dead-rank' if 'S' in s.sources or 'P' in s.sources else 'missing-rank', ['dead-rank', 'missing-rank'],
        what=f'rank {r} is gone, the others wait')


@fault(ALL, ['D', 'DL', 'DLS', 'L'], weight=2, least=8)
def node_silent(s):
    """Nothing at all comes from a host; without more it may as well be that its files were not fetched."""
    job = s.job
    if len(job.hosts) < 3:
        s.retry()
    n = s.rng.randrange(1, len(job.hosts))
    ranks = [r for r in range(job.world) if r // job.per_node == n]
    for r in ranks:
        p = s.steps[r][s.fault_step]
        p.insert(s.rng.randrange(2), Do('gone', where='node'))
    s.silent_host = job.hosts[n]
    if 'L' in s.sources and s.rng.random() < .5:
        s.node_failure = job.hosts[n]
        return answer(ranks, 'dead-rank', ['missing-rank', 'network-error', 'unknown'], culprit_also_ok=[[]],
            culprit_hosts=[job.hosts[n]], verdict_also_ok=['crashed'],
                      what=f'the scheduler says that {job.hosts[n]} failed')
    return dict(answer([], 'unknown', ['missing-rank', 'dead-rank'], verdict='insufficient', verdict_also_ok=['hung'],
        what=f'nothing from host {job.hosts[n]}'), decidable=False)


@fault(FLAT + ['tp-dp'], ['D', 'DL', 'DLS', 'DLSP'], weight=2)
def caught(s):
    """A rank catches its own exception, tears down its groups and exits with 0."""
    r = some(s, 1)[0]
    p = s.steps[r][s.fault_step]
    p.insert(s.rng.randrange(3), Do('gone', where='exit'))
    error = s.rng.choice(["ValueError('token id 50257 out of range')", "KeyError('input_ids')",
        "RuntimeError('DataLoader worker (pid 4411) exited unexpectedly')"])
    s.tell(r, f'training stopped: {error}', 'end')
    s.tell(r, 'bye', 'end')
    return answer([r], 'missing-rank', ['exception', 'dead-rank'] + (['data-starved'] if 'L' in s.sources else []),
        what=f'rank {r} caught its exception and left')


# --- crashes ---

ERRORS = {'exception': ["KeyError: 'input_ids'", 'ValueError: expected 2048 tokens, got 2031',
    'IndexError: index 50257 is out of bounds for dimension 0 with size 50257',
                        'AssertionError: loss is nan at step 1200', "FileNotFoundError: [Errno 2] No such file or directory: '/data/shard_00412.bin'",
                        'RuntimeError: The size of tensor a (2048) must match the size of tensor b (2031) at non-singleton dimension 1'],
          'out-of-memory': ['torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU {gpu} has a total capacity of 79.11 GiB of which 1.02 GiB is free. Process '
                            '{pid} has 78.08 GiB memory in use.',
                            'torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU {gpu} has a total capacty of 39.39 GiB of which 317.06 MiB is free.'],
          'gpu-error': ['RuntimeError: CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be asynchronously reported at some other API call, so the '
                        'stacktrace below might be incorrect.', 'RuntimeError: CUDA error: uncorrectable ECC error encountered',
                        'torch.AcceleratorError: CUDA error: unspecified launch failure']}


def crash(s, cause, fair=()):
    r = some(s, 1)[0]
    p = s.steps[r][s.fault_step]
    p.insert(s.rng.randrange(len(p) - 2), Do('gone', where='raised'))
    s.crash = dict(rank=r, cause=cause, error=s.rng.choice(ERRORS[cause]).format(gpu=r % s.job.per_node, pid=s.pids[r]),
        victims_first=s.rng.random() < .4)
    return answer([r], cause, fair, verdict='crashed', what=f'rank {r}: {s.crash["error"].split(chr(10))[0]}')


@fault(ALL, ['L', 'DL'], weight=3, most=64)
def exception(s):
    return crash(s, 'exception')


@fault(ALL, ['L', 'DL'], weight=2, most=64)
def out_of_memory(s):
    return crash(s, 'out-of-memory')


@fault(ALL, ['L', 'DL', 'LP'], weight=2, backends=('nccl',), most=64)
def gpu_error(s):
    a = crash(s, 'gpu-error')
    s.xid = s.crash['rank'] if 'ECC' in s.crash['error'] or s.rng.random() < .5 else None
    return a


@fault(ALL, ['L', 'DL'], weight=2, most=64)
def died(s):
    """The agent sees a rank killed and ends the others."""
    r = some(s, 1)[0]
    p = s.steps[r][s.fault_step]
    p.insert(s.rng.randrange(len(p) - 2), Do('gone', where='killed'))
    s.crash = dict(rank=r, cause='dead-rank', error=None, victims_first=False)
    if s.rng.random() < .4:
        s.oom_killed = r
        return answer([r], 'out-of-memory', ['dead-rank'], verdict='crashed', what=f'the kernel killed rank {r}, out of memory')
    return answer([r], 'dead-rank', ['unknown', 'out-of-memory'], verdict='crashed', what=f'rank {r} was killed (-9)')


@fault(ALL, ['L'], weight=2, most=64)
def preempted(s):
    s.preempt = True
    return answer([], 'preempted', verdict='crashed', what='the scheduler took the nodes')


@fault(['ddp', 'fsdp'], ['L'], weight=2, most=64)
def rendezvous(s):
    s.no_start = True
    return answer([], 'rendezvous', verdict='crashed', verdict_also_ok=['hung'], what='not all nodes came to the rendezvous', culprit_free=True)
