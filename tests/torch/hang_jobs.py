# SPDX-License-Identifier: Apache-2.0
"""Small training jobs on CPUs (Gloo) that really hang, recorded: native Flight Recorder dumps, their JSON twins,
faulthandler's stacks, and a log.

A job is a function of (rank, world, job); ranks are forks of a process that has imported torch once. A thread of each
rank publishes how far its Flight Recorder has come and dumps when told to. A job counts as hung when its culprit has
said that it is at its fault and then no rank has moved for a while in which the threads of all ranks have run: so a
loaded machine makes it slower, never wrong.
"""
import faulthandler
import fcntl
import json
import os
import signal
import socket
import sys
import threading
import time
import traceback

os.environ.setdefault('TORCH_FR_BUFFER_SIZE', '2000')
os.environ.setdefault('OMP_NUM_THREADS', '1')
os.environ.setdefault('GLOO_SOCKET_IFNAME', 'lo')

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch._C import _distributed_c10d as c10d  # noqa: E402

BEATS = 8           # of every rank without a change: hung
BEAT_S = .25


class Rank:
    """What a rank's program may use beside torch."""

    def __init__(self, folder, rank, world):
        self.folder, self.rank, self.world, self.quiet = folder, rank, world, False

    def at_fault(self):
        with open(os.path.join(self.folder, f'.fault{self.rank}'), 'w'):
            pass

    def say(self, text):
        print(f'[rank{self.rank}]:{time.strftime("%Y-%m-%d %H:%M:%S")} {text}', flush=True)

    def step(self, n, total, loss):
        self.say(f'step {n}/{total} loss {loss:.4f} lr 0.0003 time 0.051s')

    def model(self, width=32):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def batch(self, width=32):
        return torch.randn(4, width)


def record(folder, rank):
    with open(os.path.join(folder, f'nccl_trace_rank_{rank}'), 'wb') as f:
        f.write(c10d._dump_fr_trace())
    with open(os.path.join(folder, f'fr_rank{rank}.json'), 'w') as f:
        text = c10d._dump_fr_trace_json()
        f.write(text if isinstance(text, str) else text.decode())
    with open(os.path.join(folder, f'stack_rank{rank}.txt'), 'w') as f:
        faulthandler.dump_traceback(f, all_threads=True)


def watch(folder, rank):
    """The thread beside the rank's program."""
    beats = 0
    while True:
        status = json.loads(c10d._dump_fr_trace_json()).get('pg_status', {})
        beats += 1
        path = os.path.join(folder, f'.beat{rank}')
        with open(path + '~', 'w') as f:
            json.dump([beats, status], f)
        os.rename(path + '~', path)
        for name in os.listdir(folder):
            done = os.path.join(folder, name.replace('.record-', '.done-') + f'-{rank}')
            if name.startswith('.record-') and not os.path.exists(done):
                to = os.path.join(folder, name[len('.record-'):])
                os.makedirs(to, exist_ok=True)
                record(to, rank)
                with open(done, 'w'):
                    pass
        time.sleep(BEAT_S)


def run_rank(job, folder, rank, world, port):
    log = os.open(os.path.join(folder, 'train.log'), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world))
    torch.set_num_threads(1)
    me = Rank(folder, rank, world)
    me.say(f'INFO rank {rank} of {world} on localhost, pid {os.getpid()}')
    dist.init_process_group('gloo')
    threading.Thread(target=watch, args=(folder, rank), name='watch', daemon=True).start()
    try:
        job(rank, world, me)
    except Exception:
        text = ''.join(f'[rank{rank}]: {line}\n' for line in traceback.format_exc().splitlines())
        os.write(2, text.encode())
        os._exit(1)
    os._exit(0)


class Run:
    """A job under way."""

    def __init__(self, job, folder, world):
        self.folder, self.world, self.pids = folder, world, {}
        os.makedirs(folder)
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            port = s.getsockname()[1]
        sys.stdout.flush()
        sys.stderr.flush()
        for rank in range(world):
            pid = os.fork()
            if pid == 0:
                try:
                    run_rank(job, folder, rank, world, port)
                finally:
                    os._exit(70)
            self.pids[rank] = pid

    def alive(self):
        for rank, pid in list(self.pids.items()):
            if pid and os.waitpid(pid, os.WNOHANG)[0]:
                self.pids[rank] = 0
        return [r for r, pid in self.pids.items() if pid]

    def beat(self, rank):
        try:
            with open(os.path.join(self.folder, f'.beat{rank}')) as f:
                return json.load(f)
        except (OSError, ValueError):
            return [0, None]

    def fault(self):
        return any(n.startswith('.fault') for n in os.listdir(self.folder))

    def wait_hung(self, seconds=90):
        end, still = time.monotonic() + seconds, {}
        while time.monotonic() < end:
            time.sleep(BEAT_S)
            alive = self.alive()
            for r in alive:
                beats, status = self.beat(r)
                if r not in still or still[r][1] != status or not self.fault():
                    still[r] = beats, status
            if self.fault() and alive and all(self.beat(r)[0] - still[r][0] >= BEATS for r in alive):
                return alive
            if not alive:
                return []
        raise AssertionError(f'the job did not hang within {seconds} s: {open(os.path.join(self.folder, "train.log")).read()[-600:]}')

    def wait_end(self, but=(), seconds=90):
        """Until all ranks have ended but these."""
        end = time.monotonic() + seconds
        while set(self.alive()) - set(but):
            if time.monotonic() > end:
                raise AssertionError(f'the job did not end within {seconds} s')
            time.sleep(.1)

    def wait_steps(self, count, seconds=90):
        """Until each rank has called so many collectives."""
        end = time.monotonic() + seconds
        while True:
            status = [self.beat(r)[1] or {} for r in range(self.world)]
            if all(any(int(g['last_completed_collective']) >= count for g in s.values()) for s in status):
                return
            if time.monotonic() > end:
                raise AssertionError('the job does not get on')
            time.sleep(.1)

    def record(self, name='.', seconds=60):
        """Every live rank dumps to the folder of this name."""
        tell = os.path.join(self.folder, f'.record-{name}')
        with open(tell, 'w'):
            pass
        end = time.monotonic() + seconds
        for r in self.alive():
            while not os.path.exists(os.path.join(self.folder, f'.done-{name}-{r}')):
                if time.monotonic() > end:
                    raise AssertionError(f'rank {r} does not dump')
                time.sleep(.05)
        os.remove(tell)

    def stop(self):
        """All at once: none may see another's end, and say so in the log."""
        alive = self.alive()
        for how in (signal.SIGSTOP, signal.SIGKILL):
            for r in alive:
                os.kill(self.pids[r], how)
        for r in alive:
            os.waitpid(self.pids[r], 0)
            self.pids[r] = 0
        for n in os.listdir(self.folder):
            if n.startswith('.'):
                os.remove(os.path.join(self.folder, n))


# --- the jobs ---

def fsdp2_evaluation_barrier(rank, world, me):
    """Rank 4 has fewer batches: it waits in the barrier before the evaluation, the others gather parameters."""
    from torch.distributed.fsdp import fully_shard
    model = me.model()
    for m in model:
        if isinstance(m, nn.Linear):
            fully_shard(m)
    fully_shard(model)
    steps = 5 if rank == 4 else 9
    for n in range(steps):
        loss = model(me.batch()).square().mean()
        loss.backward()
        me.step(n + 1, 9, loss.item())
    me.at_fault()
    me.say('epoch 0 done, evaluating')
    dist.barrier()


def hsdp_missing_all_reduce(rank, world, me):
    """2x2: rank 3 leaves out the all_reduce over the replicas in the last step and goes to the barrier."""
    shard, replicate = None, None
    for ranks in ([0, 1], [2, 3]):
        g = dist.new_group(ranks, group_desc='shard')
        shard = g if rank in ranks else shard
    for ranks in ([0, 2], [1, 3]):
        g = dist.new_group(ranks, group_desc='replicate')
        replicate = g if rank in ranks else replicate
    full, part = torch.ones(64), torch.ones(32)
    for n in range(6):
        dist.all_gather_into_tensor(full, part, group=shard)
        grad = full.clone()
        dist.all_reduce(grad, group=shard)
        if rank == 3 and n == 5:
            me.at_fault()
        else:
            dist.all_reduce(part, group=replicate)
        part.div_(part.max())
        me.step(n + 1, 6, float(part.sum()))
    dist.barrier()


def ddp_debugger(rank, world, me):
    """Rank 2 waits at a prompt."""
    model = nn.parallel.DistributedDataParallel(me.model())
    for n in range(8):
        if rank == 2 and n == 5:
            prompt(me)
        loss = model(me.batch()).square().mean()
        loss.backward()
        me.step(n + 1, 8, loss.item())


def prompt(me):
    r, _ = os.pipe()
    os.dup2(r, 0)
    sys.stdin = open(0)
    me.at_fault()
    import pdb
    pdb.set_trace()
    return me


def ddp_file_lock(rank, world, me):
    """Rank 1 waits for a lock on the index of its data, which somebody else holds."""
    model = nn.parallel.DistributedDataParallel(me.model())
    path = os.path.join(me.folder, '.lock')
    for n in range(8):
        if rank == 1 and n == 4:
            if os.fork() == 0:  # a stranger that holds the lock as long as the rank lives
                f = open(path, 'w')
                fcntl.flock(f, fcntl.LOCK_EX)
                open(path + 'ed', 'w').close()
                parent = os.getppid()
                while os.getppid() == parent:
                    time.sleep(.2)
                os._exit(0)
            while not os.path.exists(path + 'ed'):
                time.sleep(.02)
            open_index(path, me)
        loss = model(me.batch()).square().mean()
        loss.backward()
        me.step(n + 1, 8, loss.item())


def open_index(path, me):
    f = open(path, 'a')
    me.at_fault()
    fcntl.flock(f, fcntl.LOCK_EX)
    return f


def ddp_no_join(rank, world, me):
    """Rank 1 has fewer batches and no join context: it evaluates on its own while the others wait for its gradients."""
    model = nn.parallel.DistributedDataParallel(me.model())
    for n in range(4 if rank == 1 else 8):
        loss = model(me.batch()).square().mean()
        loss.backward()
        me.step(n + 1, 8, loss.item())
    if rank == 1:
        me.say('epoch 0 done, evaluating')
        evaluate_alone(me)


def evaluate_alone(me):
    me.at_fault()
    while True:
        time.sleep(.5)


def monitored_barrier(rank, world, me):
    """Rank 3 does not come to the monitored barrier."""
    import datetime
    x = torch.ones(8)
    for n in range(5):
        dist.all_reduce(x)
        me.step(n + 1, 5, 1.0)
    if rank == 3:
        me.at_fault()
        time.sleep(600)
    dist.monitored_barrier(timeout=datetime.timedelta(seconds=3))


def crossing_groups(rank, world, me):
    """Two groups of the same six ranks: rank 5 takes them in the other order in one step."""
    a, b = dist.new_group(group_desc='dense'), dist.new_group(group_desc='experts')
    x, y = torch.ones(96), torch.ones(48)
    for n in range(7):
        order = [(a, x), (b, y)]
        if rank == 5 and n == 5:
            me.at_fault()
            order.reverse()
        for g, t in order:
            dist.all_reduce(t, group=g)
            t.div_(world)
        me.step(n + 1, 7, float(x[0]))


def exception_on_one(rank, world, me):
    """Rank 2 raises; the others lose their connection to it."""
    model = nn.parallel.DistributedDataParallel(me.model())
    for n in range(8):
        batch = {'input': me.batch()} if rank != 2 or n < 5 else {}
        loss = model(batch['input']).square().mean()
        loss.backward()
        me.step(n + 1, 8, loss.item())


def healthy(rank, world, me):
    model = nn.parallel.DistributedDataParallel(me.model())
    for n in range(100000):
        loss = model(me.batch()).square().mean()
        loss.backward()
        if n % 10 == 0:
            me.step(n + 1, 100000, loss.item())
        time.sleep(.02)
