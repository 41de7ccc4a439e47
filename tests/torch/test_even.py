#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lockstep.even in real jobs: the deadlock at the end of an epoch (examples/epoch-end-deadlock), and that it is no more.

    VENV/bin/python tests/torch/test_even.py [NAME...]

Ranks are forks of a process that has imported torch once (hang_jobs.py). One line a test, as in run.py.
"""
import glob
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [HERE, os.path.join(ROOT, 'python')]
sys.path += [p for p in os.environ.get('LOCKSTEP_TEST_PACKAGES', '').split(':') if p]
import hang_jobs  # noqa: E402
import torch  # noqa: E402
import torch.distributed.checkpoint.state_dict  # noqa: E402, F401  here, so that not each fork has to
import torch.distributed.fsdp  # noqa: E402, F401
import torch.distributed.fsdp.wrap  # noqa: E402, F401
from hang_jobs import dist  # noqa: E402

import lockstep  # noqa: E402

spec = importlib.util.spec_from_file_location('train', os.path.join(ROOT, 'examples', 'epoch-end-deadlock', 'train.py'))
train = importlib.util.module_from_spec(spec)
spec.loader.exec_module(train)
FEW = '48\n41\n47\n44\n'                    # blocks of four ranks: 12, 10, 11, 11 steps of 4
INCIDENT = '400\n399\n392\n397\n'           # 2 %: 100, 99, 98, 99 steps


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def expect_equal(got, want, what=''):
    expect(got == want, f'{what}: {got!r}, want {want!r}')


class Example(train.Job):
    """It says so when a rank has left its loop."""

    me = None

    def train_epoch(self):
        super().train_epoch()
        self.me.at_fault()


def example(folder, counts, *options, name='job', ranks=4, patient=60):
    """Runs it; (ranks that hang, what each rank that ended says). Its log and checkpoints are in the folder."""
    path = os.path.join(folder, 'counts')
    with open(path, 'w', encoding='utf-8') as f:
        f.write(counts)
    where = os.path.join(folder, name)

    def job(rank, world, me):
        del rank, world
        Example.me = me
        Example(train.arguments(['--out', where, '--counts', path, '--blocks-per-step', '4', *options])).run()
    run = hang_jobs.Run(job, where, ranks)
    try:
        hung = run.wait_hung(patient) if '--evened' not in options else run.wait_end(seconds=patient)
        if hung:
            run.record('dumps')
    finally:
        run.stop()
    said = []
    for r in range(ranks):
        try:
            with open(os.path.join(where, f'rank{r}.json'), encoding='utf-8') as f:
                said.append(json.load(f))
        except OSError:
            said.append(None)
    return hung or [], said


def log_of(folder, name='job'):
    with open(os.path.join(folder, name, 'train.log'), encoding='utf-8', errors='replace') as f:
        return f.read()


def checkpoint(folder, step, name='job'):
    return os.path.join(folder, name, 'checkpoints', f'step-{step:06d}.pt')


def hangs(folder, counts, *options):
    hung, said = example(folder, counts, *options, name='plain')
    expect_equal(hung, [0, 1, 2, 3], 'ranks that hang: ' + log_of(folder, 'plain')[-300:])
    expect_equal(said, [None] * 4, 'ranks that ended')


def ends(folder, counts, steps, *options, resume=True):
    """Even: all ranks end at this step, and what they saved is loaded and gone on from."""
    _, said = example(folder, counts, '--evened', '--save-steps', '2', *options)
    expect(all(said), log_of(folder)[-600:])
    expect_equal([s['steps'] for s in said], [steps] * 4, 'steps')
    state = torch.load(checkpoint(folder, steps), weights_only=True)
    expect_equal((state['step'], state['epoch']), (steps, 1), 'checkpoint')
    if not resume:
        return
    _, said = example(folder, counts, '--evened', '--resume', checkpoint(folder, 2), *options, name='resumed')
    expect(all(said), log_of(folder, 'resumed')[-600:])
    expect_equal([s['steps'] for s in said], [steps] * 4, 'steps after a resume')
    again = torch.load(checkpoint(folder, steps, 'resumed'), weights_only=True)
    far = [n for n, a, b in pairs(state['model'], again['model']) if not torch.allclose(a, b, rtol=1e-4, atol=1e-5)]
    expect(not far, f'parameters that a resume made different: {far}')


def pairs(one, other):
    if isinstance(one, list):
        return [p for a, b in zip(one, other) for p in pairs(a, b)]
    return [(n, one[n], other[n]) for n in one]


def both(folder, steps, *options, counts=FEW):
    hangs(folder, counts, *options)
    ends(folder, counts, steps, *options)


def fsdp1_hangs_at_the_epochs_end_and_even_ends_it(folder):
    """The incident: FULL_SHARD, blocks uneven by 2 %, a barrier before the checkpoint."""
    both(folder, 98, counts=INCIDENT)


def fsdp1_of_few_steps_hangs_and_even_ends_it(folder):
    hangs(folder, FEW)
    ends(folder, FEW, 10, resume=False)


def an_unsized_stream_hangs_and_even_ends_it(folder):
    both(folder, 10, '--stream')


def accumulated_gradients_hang_and_even_ends_them(folder):
    both(folder, 3, '--accumulate', '3')    # 10 batches are 3 steps and one that is dropped
    ends(tempfile.mkdtemp(dir=folder), FEW, 3, '--accumulate', '3', '--stream')


def a_pipelines_sends_and_receives_hang_and_even_ends_them(folder):
    both(folder, 10, '--api', 'pipeline')


def fsdp2_on_a_mesh_of_its_own_hangs_and_even_ends_it(folder):
    both(folder, 10, '--api', 'fsdp2')


def ddp_with_a_barrier_of_its_own_hangs_and_even_ends_it(folder):
    both(folder, 10, '--api', 'ddp', '--barrier', '3')


def a_last_batch_of_fewer_blocks_is_one_more_step(folder):
    _, said = example(folder, FEW, '--evened', '--keep-last', '--api', 'ddp')
    expect_equal([s and s['steps'] for s in said], [11] * 4, 'steps')


def several_epochs_end_alike(folder):
    for stream in ((), ('--stream',)):
        _, said = example(folder, FEW, '--evened', '--epochs', '3', '--api', 'ddp', *stream, name='job' + ''.join(stream))
        expect_equal([s and (s['steps'], s['epochs']) for s in said], [(30, 3)] * 4, 'steps and epochs')


def short_ranks_fill_up(folder):
    for how, what in (('pad', 'padded'), ('repeat', 'repeated')):
        _, said = example(folder, FEW, '--evened', how, '--api', 'ddp', name=how)
        expect_equal([s and (s['steps'], s[what]) for s in said], [(12, n) for n in (0, 2, 1, 1)], how)


# --- small jobs of their own ---

def small(folder, program, name='small', ranks=2, seconds=60):
    """What program(rank) gives on each rank; the log."""
    where = os.path.join(folder, name)

    def job(rank, world, me):
        del world, me
        result = program(rank)
        with open(os.path.join(where, f'result{rank}'), 'w', encoding='utf-8') as f:
            json.dump(result, f)
        sys.stdout.flush()
    run = hang_jobs.Run(job, where, ranks)
    try:
        run.wait_end(seconds=seconds)
    finally:
        run.stop()
    got = []
    for r in range(ranks):
        try:
            with open(os.path.join(where, f'result{r}'), encoding='utf-8') as f:
                got.append(json.load(f))
        except OSError:
            got.append(None)
    return got, log_of(folder, name)


def numbers(n):
    """A stream."""
    return (torch.tensor([i]) for i in range(n))


def raise_raises_on_all_ranks_at_the_same_step(folder):
    def program(rank):
        steps = 0
        try:
            for _ in lockstep.even(numbers([9, 7][rank]), how='raise'):
                steps += 1
                dist.all_reduce(torch.ones(1))
        except lockstep.Uneven as e:
            return steps, str(e)
    got, log = small(folder, program)
    expect(got[0] and got[0] == got[1] and got[0][0] == 7 and 'rank 1 ends before rank 0' in got[0][1], f'{got} {log[-400:]}')


def a_group_stops_by_itself(folder):
    """Ranks 0 and 1 are even with one another, 2 and 3 too."""
    def program(rank):
        groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        group = groups[rank // 2]
        got = [len(list(lockstep.even(make([5, 4, 8, 7][rank]), group=group))) for make in (lambda n: list(range(n)), numbers)]
        dist.barrier()  # rank 0 has the store
        return got
    got, log = small(folder, program, ranks=4)
    expect_equal(got, [[4, 4], [4, 4], [7, 7], [7, 7]], log[-400:])


def ranks_that_leave_a_loop_together_end_at_once(folder):
    def program(rank):
        del rank
        for i, _ in enumerate(lockstep.even(numbers(100))):
            if i == 20:
                break
        for i, _ in enumerate(lockstep.even(numbers(100))):
            if i == 20:
                return i
    got, log = small(folder, program, seconds=20)
    expect_equal(got, [20, 20], log[-400:])


def a_rank_that_leaves_a_loop_by_itself_is_found_where_they_next_meet(folder):
    def program(rank):
        said = []
        for make in (lambda: list(range(100)), lambda: numbers(100)):
            loader = lockstep.even(make())
            try:
                for _ in range(2):
                    loader.loader = make()
                    for i, _ in enumerate(loader):
                        if i == [20, 35][rank]:
                            break
            except lockstep.OutOfStep:
                said.append(True)
            dist.barrier()
        return said
    got, log = small(folder, program, seconds=30)
    expect_equal(got, [[True, True]] * 2, log[-500:])


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import torch, torch.distributed as dist, lockstep
dist.init_process_group('gloo')
for i, _ in enumerate(lockstep.even(iter(range(50)))):
    if i == 10 and dist.get_rank() == 1 and sys.argv[2] == 'raises':
        raise KeyError('mine')
    dist.all_reduce(torch.ones(1))
    if i == 10 and sys.argv[2] == 'exits':
        sys.exit(5)
"""


def as_programs(what, ranks=2):
    """Exit status and standard error of real processes that end as Python does."""
    import socket
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        port = s.getsockname()[1]
    env = dict(os.environ, MASTER_ADDR='127.0.0.1', MASTER_PORT=str(port), WORLD_SIZE=str(ranks))
    started = [subprocess.Popen([sys.executable, '-c', SCRIPT, os.path.join(ROOT, 'python'), what], env=dict(env, RANK=str(r)),
                                stderr=subprocess.PIPE, text=True) for r in range(ranks)]
    got = []
    for p in started:
        try:
            got.append((p.wait(60), p.stderr.read()))
        except subprocess.TimeoutExpired:
            for q in started:
                q.kill()
            raise AssertionError(f'{what}: a rank does not end') from None
        finally:
            p.stderr.close()
    return got


def a_rank_that_raises_ends_and_so_do_the_others(folder):
    del folder
    other, raises = as_programs('raises')
    expect(raises[0] == 1 and "KeyError: 'mine'" in raises[1], raises)
    expect(other[0] != 0, f'the other: {other}')    # by torch's own word: the connection was closed


def an_exit_inside_the_loop_is_an_exit(folder):
    del folder
    # PyTorch itself may abort where a process group is not destroyed, in a plain loop as well
    torchs = 'terminate called without an active exception'
    got = as_programs('exits')
    expect(all(status == 5 or (status == -6 and said.strip().endswith(torchs)) for status, said in got), got)


def every_saves_on_all_ranks_at_the_same_step(folder):
    def program(rank):
        import time
        save = lockstep.every(steps=40, minutes=.5 / 60)
        saved = []
        for step in range(1, 101):
            time.sleep(.02 if rank == 0 else .001)
            dist.all_reduce(torch.ones(1))
            if save(step):
                saved.append(step)
        return saved
    got, log = small(folder, program)
    expect(got[0] and got[0] == got[1] and {40, 80} & set(got[0]) and len(got[0]) > 3, f'{got} {log[-300:]}')


# --- frameworks, where they are installed ---

def missing(*modules):
    for module in modules:
        if importlib.util.find_spec(module) is None:
            return f'{module} is not installed'
    return None


def a_stateful_loader_goes_on_where_it_was(folder):
    if missing('torchdata'):
        return missing('torchdata')
    from torchdata.stateful_dataloader import StatefulDataLoader

    class Numbers(torch.utils.data.IterableDataset):
        def __init__(self, n):
            self.n, self.at, self.begin = n, 0, 0

        def state_dict(self):
            return {'at': self.at}

        def load_state_dict(self, state):
            self.begin = state['at']

        def __iter__(self):
            for self.at in range(self.begin + 1, self.n + 1):
                yield self.at - 1
            self.begin = 0

    def program(rank):
        n, made = [90, 83][rank], {}
        for kind, data, workers in (('stream', Numbers(n), 0), ('sized', list(range(n)), 0), ('workers', list(range(n)), 1)):
            loader = lockstep.even(StatefulDataLoader(data, batch_size=2, num_workers=workers))
            before = []
            for batch in loader:
                before += batch.tolist()
                if len(before) == 50:
                    break
            state = json.loads(json.dumps(loader.state_dict(), default=lambda t: t.tolist())) if kind == 'sized' else loader.state_dict()
            again = lockstep.even(StatefulDataLoader(Numbers(n) if kind == 'stream' else data, batch_size=2, num_workers=workers))
            again.load_state_dict(state)
            made[kind] = before + [i for batch in again for i in batch.tolist()]
        return made
    got, log = small(folder, program)
    for r in range(2):
        expect(got[r], log[-600:])
        for kind in got[r]:
            expect_equal(got[r][kind][:82], list(range(82)), f'rank {r} {kind}')
            expect_equal(len(got[r][kind]), [84, 83][r], f'rank {r} {kind}: 42 batches, the last of 83 has one')


def model_of(framework_jobs):
    torch.manual_seed(7)
    return framework_jobs.Model()


def trainer_ends_with_even_and_goes_on_from_its_checkpoint(folder):
    if missing('transformers', 'accelerate'):
        return missing('transformers', 'accelerate')
    import framework_jobs

    def program(rank):
        from transformers import Trainer, TrainingArguments

        class Even(Trainer):
            def get_train_dataloader(self):
                rows = torch.utils.data.DataLoader(framework_jobs.Rows([40, 33][rank]), batch_size=2)
                return lockstep.even(rows, accumulate=self.args.gradient_accumulation_steps)

        def run(name, **more):
            args = TrainingArguments(os.path.join(folder, name), per_device_train_batch_size=2, gradient_accumulation_steps=2, num_train_epochs=2,
                                     use_cpu=True, report_to=[], save_strategy='no', disable_tqdm=True, remove_unused_columns=False)
            trainer = Even(model_of(framework_jobs), args, train_dataset=framework_jobs.Rows(40), callbacks=[lockstep.every(steps=5).trainer()])
            trainer.train(**more)
            return trainer.state.global_step, len(trainer.model.losses)
        whole = run('trainer')
        return whole, run('trainer2', resume_from_checkpoint=os.path.join(folder, 'trainer', 'checkpoint-5'))
    got, log = small(folder, program, seconds=120)
    # 17 batches are 8 whole steps of 2: 16 of each epoch
    expect(got[0] and got[0] == got[1], f'{got} {log[-900:]}')
    expect_equal(got[0], [[16, 32], [16, 22]], 'steps and batches')
    expect_equal(sorted(os.path.basename(p) for p in glob.glob(os.path.join(folder, 'trainer', 'checkpoint-*'))),
                 ['checkpoint-10', 'checkpoint-15', 'checkpoint-5'], 'checkpoints')


def lightning_ends_with_even(folder):
    if missing('lightning'):
        return missing('lightning')
    import framework_jobs

    def program(rank):
        import lightning.pytorch as pl

        class Module(pl.LightningModule):
            def __init__(self):
                super().__init__()
                self.model = model_of(framework_jobs)

            def training_step(self, batch):
                return self.model(**batch)['loss']

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=.1)
        given = []
        for stream, resume in ((False, False), (True, False), (False, True)):
            os.environ['LOCAL_RANK'] = str(rank)
            rows = torch.utils.data.DataLoader(framework_jobs.Rows([40, 33][rank]), batch_size=2)
            module = Module()
            trainer = pl.Trainer(max_epochs=2, accelerator='cpu', devices=2, strategy='ddp', logger=False, enable_checkpointing=False,
                                 enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder, use_distributed_sampler=False,
                                 callbacks=[lockstep.every(steps=20).lightning(os.path.join(folder, f'saved{stream}'))])
            trainer.fit(module, lockstep.even(rows, stream=stream), ckpt_path=os.path.join(folder, 'savedFalse', 'step=20.ckpt') if resume else None,
                        weights_only=False)
            given.append((trainer.global_step, len(module.model.losses), trainer.train_dataloader.epoch))
        return given
    got, log = small(folder, program, seconds=120)
    expect(got[0] and got[0] == got[1], f'{got} {log[-1200:]}')
    expect_equal(got[0], [[34, 34, 1], [34, 34, 1], [34, 14, 1]], 'steps, batches, epoch')
    for stream in (False, True):
        expect_equal(os.listdir(os.path.join(folder, f'saved{stream}')), ['step=20.ckpt'], 'checkpoints')


TESTS = [fsdp1_hangs_at_the_epochs_end_and_even_ends_it, fsdp1_of_few_steps_hangs_and_even_ends_it, an_unsized_stream_hangs_and_even_ends_it,
         accumulated_gradients_hang_and_even_ends_them, a_pipelines_sends_and_receives_hang_and_even_ends_them,
         fsdp2_on_a_mesh_of_its_own_hangs_and_even_ends_it, ddp_with_a_barrier_of_its_own_hangs_and_even_ends_it,
         a_last_batch_of_fewer_blocks_is_one_more_step, several_epochs_end_alike, short_ranks_fill_up,
         raise_raises_on_all_ranks_at_the_same_step, a_group_stops_by_itself, ranks_that_leave_a_loop_together_end_at_once,
         a_rank_that_leaves_a_loop_by_itself_is_found_where_they_next_meet,
         a_rank_that_raises_ends_and_so_do_the_others, an_exit_inside_the_loop_is_an_exit, every_saves_on_all_ranks_at_the_same_step,
         a_stateful_loader_goes_on_where_it_was, trainer_ends_with_even_and_goes_on_from_its_checkpoint, lightning_ends_with_even]


def main():
    failed = 0
    for test in TESTS:
        if sys.argv[1:] and test.__name__ not in sys.argv[1:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                skipped = test(folder)
                print(f'skipped {test.__name__}: {skipped}' if skipped else f'ok {test.__name__}', flush=True)
            except (AssertionError, KeyError, OSError, subprocess.SubprocessError) as e:
                failed += 1
                print(f'FAILED {test.__name__}: {e!r}' if not isinstance(e, AssertionError) else f'FAILED {test.__name__}: {e}', flush=True)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
