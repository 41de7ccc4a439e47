#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The hooks of automatic mode: what they tell of real training programs, and that these do not feel them.

    VENV/bin/python tests/torch/test_hooks.py [NAME...]

LOCKSTEP is the program in its build folder. One line a test, as in run.py.
"""
import collections
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import ring  # noqa: E402

BUILD = os.path.dirname(os.path.abspath(os.environ.get('LOCKSTEP', os.path.join(ROOT, 'build', 'lockstep'))))
JOBS = os.path.join(HERE, 'hook_jobs.py')
FRAMEWORKS = os.path.join(HERE, 'framework_jobs.py')
LIVE = os.path.join(HERE, 'live_jobs.py')
INNER = ('forward', 'backward', 'optimizer')


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def expect_equal(got, want, what=''):
    expect(got == want, f'{what}: {got!r}, want {want!r}')


class Place:
    """The package as a tree, and a folder of rings that is new for each run."""

    def __init__(self, folder):
        self.tree = os.path.join(folder, 'tree')
        subprocess.run([sys.executable, os.path.join(ROOT, 'scripts', 'wheel.py'), 'tree', BUILD, self.tree], check=True)
        self.rings = None

    def run(self, argv, with_lockstep=True, rank=True, **env):
        """(exit status, stdout, stderr); rings are in self.rings."""
        self.drop()
        self.rings = tempfile.mkdtemp(dir='/dev/shm')
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            port = s.getsockname()[1]
        base = dict(os.environ, OMP_NUM_THREADS='1', GLOO_SOCKET_IFNAME='lo', LOCKSTEP_DIR=self.rings, MASTER_ADDR='127.0.0.1',
                    MASTER_PORT=str(port))
        for name in ('RANK', 'LOCAL_RANK', 'WORLD_SIZE', 'LOCKSTEP'):
            base.pop(name, None)
        if rank:
            base.update(RANK='0', LOCAL_RANK='0', WORLD_SIZE='1')
        base['PYTHONPATH'] = os.path.join(self.tree, 'site') if with_lockstep else ''
        base['LOCKSTEP_AUTO'] = '1' if with_lockstep else '0'
        base.update(env)
        p = subprocess.run([sys.executable, *argv], env=base, capture_output=True, text=True, timeout=240)
        return p.returncode, p.stdout, p.stderr

    def drop(self):
        if self.rings:
            shutil.rmtree(self.rings, ignore_errors=True)

    def read(self):
        return ring.rings(self.rings)

    def job(self, name):
        """The one ring of a job, whose output was the same as without Lockstep."""
        plain = self.run([JOBS, name], with_lockstep=False)
        expect_equal(plain[0], 0, plain[2][-500:])
        ours = self.run([JOBS, name])
        expect(plain[0] == ours[0] and plain[1] == ours[1], f'{name}: without {plain[:2]}, with {ours[:2]} {ours[2][-300:]}')
        read = self.read()
        expect_equal(len(read), 1, 'rings')
        return read[0], ours


def names(r, what):
    return collections.Counter(e.name for e in r.of('phase', what))


def inner(r):
    """Phases of each whole step, in the order of their begins, but for blocks."""
    found = []
    for s in r.of('step'):
        found.append(''.join(e.what[0].upper() for e in r.of('phase') if s.t <= e.t < s.t + s.duration and e.depth == 0 and
                             e.what in (*INNER, 'data')))
    return found


def clean(r):
    expect_equal(list(r.header.counters)[:11], [0] * 11, 'counters')
    expect_equal({s: o for s, o in r.open.items() if o}, {}, 'phases without an end')


def a_plain_loop_gives_its_steps_phases_and_blocks(place):
    r, _ = place.job('plain')
    clean(r)
    expect_equal(inner(r), ['DFBO'] * 6, 'steps')
    expect_equal(names(r, 'forward'), {'forward': 6, 'layers.0': 6, 'layers.1': 6, 'layers.2': 6}, 'forward')
    expect_equal(names(r, 'backward'), {'backward': 6, 'layers.0 backward': 6, 'layers.1 backward': 6, 'layers.2 backward': 6}, 'backward')
    expect_equal(names(r, 'data'), {'data': 7}, 'data')
    expect_equal(names(r, 'evaluation'), {'evaluation': 1}, 'evaluation')
    expect_equal(names(r, 'checkpoint'), {'checkpoint': 1}, 'checkpoint')
    expect(names(r, 'gc')['garbage collection'] >= 1, 'no collection of garbage')
    expect_equal((r.rank, r.header.local_rank, r.header.world_size), (0, 0, 1), 'identity')


def accumulated_batches_are_one_step(place):
    r, _ = place.job('accumulated')
    clean(r)
    expect_equal(inner(r), ['DFBDFBO'] * 4, 'steps')


def recomputed_blocks_are_part_of_the_backward(place):
    r, _ = place.job('checkpointed')
    clean(r)
    expect_equal(inner(r), ['DFBO'] * 4, 'steps')
    expect_equal(names(r, 'backward')['layers.1 recompute'], 4, 'recomputed')


def several_optimizers_are_one_step(place):
    r, _ = place.job('two_optimizers')
    expect_equal(inner(r), ['DFBOO'] * 5, 'steps')


def an_optimizer_in_an_optimizer_is_one(place):
    r, _ = place.job('nested_optimizer')
    expect_equal(inner(r), ['DFBO'] * 5, 'steps')


def forward_and_backward_inside_the_optimizers_step_are_not_its_time(place):
    r, _ = place.job('closures')
    clean(r)
    expect_equal(inner(r), ['DOFOBO'] * 5, 'steps')


def a_scaler_counts_the_steps_that_it_skips(place):
    r, _ = place.job('scaled')
    clean(r)
    expect_equal(inner(r), ['DFBO', 'DFBO', 'DFB', 'DFBO', 'DFBO'], 'steps')


def compiled_code_has_the_same_graphs(place):
    for name in ('compiled', 'compiled_module', 'compiled_blocks', 'compiled_fullgraph'):
        r, _ = place.job(name)
        clean(r)
        expect(len(r.of('step')) >= 4, f'{name}: {len(r.of("step"))} steps')
        expect(r.of('phase', 'compile'), f'{name}: no compilation')
        if name != 'compiled_fullgraph':
            expect_equal(names(r, 'forward')['forward'], 5, name)


def tracing_sees_what_it_saw(place):
    place.job('traced')


def megatrons_parts_are_told_by_their_names(place):
    r, _ = place.job('named_parts')
    clean(r)
    got = names(r, 'forward') + names(r, 'user')
    expect_equal({n: got[n] for n in ('forward', '1.0', '1.1', 'self_attention', 'mlp', 'dispatch', 'combine')},
                 {'forward': 3, '1.0': 3, '1.1': 3, 'self_attention': 6, 'mlp': 6, 'dispatch': 6, 'combine': 6}, 'phases')


def ddp_of_one_rank_tells_its_collectives(place):
    r, _ = place.job('ddp')
    clean(r)
    sums = r.of('collective', 'all_reduce')
    expect_equal({e.bytes for e in sums if e.bytes == 4 * 1921}, {4 * 1921}, 'bytes of a bucket')
    last = max(e.value for e in r.of('collective'))
    expect_equal(sorted(e.value for e in r.of('collective')), list(range(1, last + 1)), 'sequence numbers')


def what_fails_in_a_hook_turns_it_off_and_nothing_else(place):
    r, (_, _, stderr) = place.job('raising')
    hooks = json.loads(next(line for line in stderr.splitlines() if line.startswith('{')))
    failed = {name for name, state in hooks.items() if state.startswith('failed')}
    for name in ('optimizer', 'forward', 'backward', 'data', 'checkpoint', 'compile', 'collectives', 'wait'):
        expect(name in failed, f'{name} did not fail: {hooks}')
    expect_equal(r.header.counters[ring.HOOK_FAILED], len(failed), 'failures counted')


def an_end_with_collectives_under_way_is_an_end(place):
    for _ in range(3):
        status, _, stderr = place.run([JOBS, 'under_way'])
        expect_equal(status, 0, stderr[-300:])


def a_job_that_fails_fails_the_same(place):
    status, _, stderr = place.run([JOBS, 'failing'])
    expect_equal(status, 1, 'status')
    expect('ValueError: as without' in stderr and 'lockstep' not in stderr, stderr[-500:])


def four_ranks(place, *options):
    """Losses and rings of a live job with Lockstep; the same losses without."""
    with tempfile.TemporaryDirectory() as t:
        losses = {}
        for with_lockstep in (False, True):
            out = os.path.join(t, str(with_lockstep))
            status, _, stderr = place.run([LIVE, 'healthy', '--steps', '8', '--losses', out, *options], with_lockstep, rank=False)
            expect_equal(status, 0, stderr[-500:])
            losses[with_lockstep] = []
            for r in range(4):
                with open(f'{out}.{r}', 'rb') as f:
                    losses[with_lockstep].append(f.read())
        expect(losses[False] == losses[True] and len(losses[True][0]) == 64, 'losses differ')
    read = place.read()
    expect_equal(sorted(r.rank for r in read), [0, 1, 2, 3], 'ranks that tell: workers of loaders do not')
    for r in read:
        clean(r)
        expect_equal(len(r.of('step')), 8, 'steps')
        expect_equal(inner(r), ['DFBO'] * 8, 'steps')
    agreed = {tuple((e.what, e.name, e.value, e.bytes) for e in sorted(r.of('collective'), key=lambda e: e.value)) for r in read}
    expect_equal(len(agreed), 1, 'lists of collectives over the ranks')
    return collections.Counter(e.what for e in read[0].of('collective'))


def ddp_of_four_ranks_has_the_same_losses_and_tells_all(place):
    ops = four_ranks(place)
    expect(ops['all_reduce'] >= 16, ops)


def fsdp2_of_four_ranks_has_the_same_losses_and_tells_all(place):
    ops = four_ranks(place, '--fsdp')
    expect_equal(ops['reduce_scatter'], 8 * 5, 'reduce_scatter')
    expect(ops['all_gather'] >= 8 * 5 and ops['all_reduce'] == 8, ops)


def the_profiler_runs_beside(place):
    with tempfile.TemporaryDirectory() as t:
        four_ranks(place, '--profile', t)
        expect_equal(sorted(os.listdir(t)), [f'rank{r}.json' for r in range(4)], 'traces')


SPAWNED = """
import torch, torch.distributed as dist, torch.multiprocessing as mp
def rank(r):
    dist.init_process_group('gloo', rank=r, world_size=2)
    m = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    o = torch.optim.SGD(m.parameters(), lr=.1)
    for x in torch.utils.data.DataLoader(torch.ones(6, 4), num_workers=1, multiprocessing_context='spawn'):
        m(x).sum().backward()
        o.step()
    dist.destroy_process_group()
if __name__ == '__main__':
    mp.spawn(rank, nprocs=2)
"""


def spawned_ranks_are_found_and_their_workers_are_not(place):
    with tempfile.TemporaryDirectory() as t:
        script = os.path.join(t, 'job.py')
        with open(script, 'w', encoding='utf-8') as f:
            f.write(SPAWNED)
        status, _, stderr = place.run([script], rank=False)
        expect_equal(status, 0, stderr[-500:])
    read = place.read()
    expect_equal(sorted((r.rank, r.header.world_size, len(r.of('step'))) for r in read), [(0, 2, 6), (1, 2, 6)], 'ranks')


TIMEOUTS = """
import datetime, json, sys, torch, torch.distributed as dist
from torch.distributed.constants import default_pg_timeout
def of(group):
    return group._get_backend(torch.device('cpu')).options._timeout.total_seconds()
dist.init_process_group(*eval(sys.argv[1])[0], **eval(sys.argv[1])[1])
groups = [dist.group.WORLD, dist.new_group(), dist.new_group([0], datetime.timedelta(seconds=9)), dist.new_group(timeout=default_pg_timeout)]
print(json.dumps([of(g) for g in groups]))
try:
    import lockstep
    print(lockstep.status()['hooks']['timeout'])
except ImportError: pass
"""


def the_collective_timeout_is_given_where_the_program_gives_none(place):
    def run(call, seconds, with_lockstep=True):
        status, out, stderr = place.run(['-c', TIMEOUTS, call], with_lockstep, LOCKSTEP_COLLECTIVE_TIMEOUT=seconds)
        expect_equal(status, 0, stderr[-400:])
        return json.loads(out.splitlines()[0]), out.splitlines()[1:]
    plain, own = "(('gloo',), {})", "(('gloo', None, datetime.timedelta(seconds=77)), {})"
    expect_equal(run(plain, '12.5')[0], [12.5, 12.5, 9, 12.5], 'given')
    expect_equal(run("(('gloo', None, None), {})", '60')[0], [60, 60, 9, 60], 'given in its place')
    expect_equal(run(own, '60')[0], [77, 60, 9, 60], "the program's own")
    without = run(plain, '', False)[0]
    expect_equal(without[0], 1800, "torch's")
    for text in ('', '0x5', '-3', 'nan', 'soon'):
        seconds, said = run(plain, text)
        expect_equal(seconds, without, text)
        expect(said == ['off'] if not text else text in said[0], f'{text}: {said}')


def framework(place, name, steps):
    """Only where the packages are: in the venv, or in a folder that LOCKSTEP_TEST_PACKAGES names."""
    path = os.path.join(place.tree, 'site') + ':' + os.environ.get('LOCKSTEP_TEST_PACKAGES', '')
    runs = [place.run([FRAMEWORKS, name], LOCKSTEP_AUTO=auto, PYTHONPATH=path) for auto in '01']
    if 'ModuleNotFoundError' in runs[0][2]:
        return f'{name} is not installed'
    losses = [next((line for line in out.splitlines() if line.startswith('["')), None) for _, out, _ in runs]
    expect(runs[0][0] == runs[1][0] == 0 and losses[0] and losses[0] == losses[1], f'{losses}, {runs[1][2][-300:]}')
    r, = place.read()
    clean(r)
    expect_equal([''.join(sorted(set(s), key=s.index)) for s in inner(r)], steps, 'what each step has')
    expect(names(r, 'forward')['layers.1'] >= 4, names(r, 'forward'))
    return None


def trainers_loop_is_told(place):
    return framework(place, 'trainer', ['DFBO'] * 4)


def lightnings_loop_is_told(place):
    return framework(place, 'lightning', ['DOFB'] * 4)


TESTS = [trainers_loop_is_told, lightnings_loop_is_told, a_plain_loop_gives_its_steps_phases_and_blocks, accumulated_batches_are_one_step, recomputed_blocks_are_part_of_the_backward,
         several_optimizers_are_one_step, an_optimizer_in_an_optimizer_is_one,
         forward_and_backward_inside_the_optimizers_step_are_not_its_time, a_scaler_counts_the_steps_that_it_skips,
         compiled_code_has_the_same_graphs, tracing_sees_what_it_saw, megatrons_parts_are_told_by_their_names, ddp_of_one_rank_tells_its_collectives,
         what_fails_in_a_hook_turns_it_off_and_nothing_else, an_end_with_collectives_under_way_is_an_end,
         a_job_that_fails_fails_the_same, ddp_of_four_ranks_has_the_same_losses_and_tells_all,
         fsdp2_of_four_ranks_has_the_same_losses_and_tells_all, the_profiler_runs_beside,
         spawned_ranks_are_found_and_their_workers_are_not, the_collective_timeout_is_given_where_the_program_gives_none]


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as t:
        place = Place(t)
        for test in TESTS:
            if sys.argv[1:] and test.__name__ not in sys.argv[1:]:
                continue
            try:
                skipped = test(place)
                print(f'skipped {test.__name__}: {skipped}' if skipped else f'ok {test.__name__}', flush=True)
            except (AssertionError, KeyError, OSError, StopIteration, subprocess.SubprocessError) as e:
                failed += 1
                print(f'FAILED {test.__name__}: {e!r}' if not isinstance(e, AssertionError) else f'FAILED {test.__name__}: {e}', flush=True)
        place.drop()
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
