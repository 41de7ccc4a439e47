#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The project's figures, each beside its rival in the same run.

    bench/run.py build/lockstep [NAME...]

judge-large, a job of 131,072 ranks, is measured only if it is named.

One line a figure: what, value and unit, the work, minimum and median of N runs, and what else did the same work here
and now. Speeds of a core are of processor time (the machine may have other guests), all else of the wall's. Real traces come from $LOCKSTEP_SHARED (../shared) where it is there, else generated ones take their place.
HolisticTraceAnalysis 0.5.0 and orjson are kept in .venv-bench; without a network their columns say so.
Needs about 3 GB in $TMPDIR for the trace of 2 GB. Peak memory is the kernel's ru_maxrss of the child.
"""
import gzip
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
SHARED = os.environ.get('LOCKSTEP_SHARED', os.path.join(ROOT, '..', 'shared'))
VENV = os.path.join(ROOT, '.venv-bench')
ORJSON = """import sys, time, orjson
with open(sys.argv[1], 'rb') as f:
    data = f.read()
t = time.process_time()
orjson.loads(data)
print(time.process_time() - t)"""
HTA_LIMIT_S = 90  # some traces take it many minutes
HTA = """import sys, time, logging
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis
t = time.process_time()
a = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir=sys.argv[2])
loaded = time.process_time() - t
try:
    a.get_temporal_breakdown(visualize=False)
    print(time.process_time() - t, 'load and breakdown')
except Exception as e:
    print(loaded, 'load only; its breakdown raises ' + type(e).__name__)"""


# Starts the command from a small process: a child's ru_maxrss counts what its parent held at the fork.
STARTER = """import os, sys, time
t = time.perf_counter()
pid = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, used = os.wait4(pid, 0)
took = time.perf_counter() - t
os.write(int(sys.argv[1]), f'{took} {used.ru_utime + used.ru_stime} {used.ru_maxrss} {os.waitstatus_to_exitcode(status)}'.encode())"""


class Ran:
    """One run of a child: seconds on the wall and of processor, peak bytes, exit status, output."""

    def __init__(self, argv, cpus=None):
        argv = (['taskset', '-c', cpus] if cpus else []) + argv
        got, put = os.pipe()
        with tempfile.TemporaryFile() as out, os.fdopen(got, 'rb') as told:
            subprocess.run([sys.executable, '-I', '-S', '-c', STARTER, str(put), *argv], stdout=out, stderr=subprocess.DEVNULL, pass_fds=(put,), check=False)
            os.close(put)
            wall, cpu, peak, code = told.read().split()
            out.seek(0)
            self.wall, self.cpu, self.peak, self.code, self.out = float(wall), float(cpu), int(peak) * 1024, int(code), out.read().decode(errors='replace')


def several(argv, n, cpus=None):
    """n runs; stops the benchmark if the command fails."""
    runs = []
    for _ in range(n):
        runs.append(Ran(argv, cpus))
        if runs[-1].code not in (0, 1, 2):
            sys.exit(f'{" ".join(argv)}: exit {runs[-1].code}: {runs[-1].out[-200:]}')
    return runs


def wall(runs):
    return min(r.wall for r in runs)


def cpu(runs):
    """The least processor time: what a core of its own would take, whoever else is on the machine."""
    return min(r.cpu for r in runs)


def peak(runs):
    return max(r.peak for r in runs)


def spread(runs, unit='s'):
    scale, times = {'s': 1, 'ms': 1e3}[unit], [r.wall for r in runs]
    return f'wall min {min(times) * scale:.4g} median {statistics.median(times) * scale:.4g} {unit} of {len(times)}, cpu min {cpu(runs) * scale:.4g} {unit}'


def line(name, value, unit, work, took, beside, bar=''):
    print(f'{name:34} {value:>9.4g} {unit:9} {work}; {took}; {beside}{"; bar " + bar if bar else ""}', flush=True)


def machine():
    model = 'unknown CPU'
    with open('/proc/cpuinfo', encoding='utf-8') as f:
        for text in f:
            if text.startswith('model name'):
                model = text.split(':', 1)[1].strip()
                break
    load = os.getloadavg()[0]
    print(f'machine: {model}, {len(os.sched_getaffinity(0))} cores, load {load:.1f} at the start', flush=True)


class Rivals:
    """The other programs, in a venv that is made once."""

    def __init__(self):
        self.python = os.path.join(VENV, 'bin', 'python')
        self.why = None
        if not os.path.exists(self.python):
            subprocess.run([sys.executable, '-m', 'venv', VENV], check=True)
        if Ran([self.python, '-c', 'import hta, orjson']).code:
            p = subprocess.run([self.python, '-m', 'pip', 'install', '-q', 'HolisticTraceAnalysis==0.5.0', 'orjson'], capture_output=True, text=True)
            if p.returncode:
                self.why = 'not installed: ' + (p.stderr.strip().splitlines() or ['?'])[-1][:60]

    def orjson(self, path, n=3):
        if self.why:
            return None
        return min(float(Ran([self.python, '-c', ORJSON, path], '0').out or 'inf') for _ in range(n))

    def hta(self, path):
        """(seconds, bytes, what it did) or None."""
        if self.why:
            return None
        ran = Ran(['timeout', str(HTA_LIMIT_S), self.python, '-c', HTA, path, os.path.dirname(path)], '0')
        if ran.code == 124:
            return HTA_LIMIT_S, ran.peak, f'stopped after {HTA_LIMIT_S} s, not done'
        if ran.code:
            return None
        seconds, what = ran.out.strip().splitlines()[-1].split(' ', 1)
        return float(seconds), ran.peak, what


def unpack(source, folder, name):
    target = os.path.join(folder, name)
    with gzip.open(source) as a, open(target, 'wb') as b:
        shutil.copyfileobj(a, b, 1 << 20)
    return target


def grow(source, target, size):
    subprocess.run([sys.executable, os.path.join(HERE, 'grow_trace.py'), source, target, '--bytes', size], check=True, stdout=subprocess.DEVNULL)
    return target


def make_job(folder, *options):
    subprocess.run([sys.executable, os.path.join(ROOT, 'tests', 'gen', 'make_job.py'), '--out', folder, *options], check=True, stdout=subprocess.DEVNULL)
    os.remove(os.path.join(folder, 'answer.json'))
    return sorted(os.path.join(folder, f) for f in os.listdir(folder))


class Work:
    """The input files, made when first asked for."""

    def __init__(self, folder):
        self.folder, self.made = folder, {}

    def shared(self, *parts):
        path = os.path.join(SHARED, 'data', *parts)
        return path if os.path.exists(path) else None

    def generated(self):
        """One rank of a generated job, as the seed of larger traces."""
        if 'generated' not in self.made:
            folder = os.path.join(self.folder, 'generated')
            self.made['generated'] = make_job(folder, '--seed', '12', '--dp', '8', '--steps', '12', '--quirk')
        return self.made['generated']

    def gpu_source(self):
        return self.shared('kineto', 'hta_nccl_parser_config.json.gz') or self.generated()[0]

    def large(self):
        """[(name, path raw, path gzipped)], each over 50 MB raw."""
        if 'large' not in self.made:
            files = []
            for name, parts in (('CPU/Gloo job', ('cpu-traces', 'big', 'rank1.json.gz')), ('MTIA', ('kineto', 'hta_mtia_rank_0.json.gz'))):
                packed = self.shared(*parts)
                if packed:
                    files.append((name, unpack(packed, self.folder, parts[-1][:-3]), packed))
            raw = grow(self.gpu_source(), os.path.join(self.folder, 'gpu.json'), '80M')
            with open(raw, 'rb') as a, gzip.open(raw + '.gz', 'wb', 6) as b:
                shutil.copyfileobj(a, b, 1 << 20)
            files.append(('GPU, grown from a real one' if self.shared('kineto') else 'GPU, generated', raw, raw + '.gz'))
            self.made['large'] = files
        return self.made['large']


def bench_version(lockstep, work, rivals):
    runs, nothing = several([lockstep, '--version'], 40), several(['/bin/true'], 40)
    line('lockstep --version', wall(runs) * 1e3, 'ms', 'one process', spread(runs, 'ms'), f'/bin/true {spread(nothing, "ms")}', '2 ms')


def python_gzip(path):
    began = time.process_time()
    with gzip.open(path) as f:
        while f.read(1 << 20):
            pass
    return time.process_time() - began


def bench_large(lockstep, work, rivals):
    for name, raw, packed in work.large():
        size = os.path.getsize(raw)
        what = f'{name}, {size / 1e6:.1f} MB'
        runs = several([lockstep, 'diagnose', '--json', raw], 5, '0')
        orjson, hta = rivals.orjson(raw), rivals.hta(raw)
        beside = 'orjson.loads ' + (f'{size / orjson / 1e9:.3f} GB/s ({orjson / cpu(runs):.1f}x)' if orjson else str(rivals.why))
        line('diagnose, raw JSON, a core', size / cpu(runs) / 1e9, 'GB/s', what, spread(runs), beside, '1.0 GB/s')
        line('  peak memory', peak(runs) / 1e6, 'MB', what, 'most of 5', f'HTA {hta[1] / 1e6:.0f} MB' if hta else f'HTA: {rivals.why or "fails on this trace"}', '64 MB + one step')
        if hta:
            line('  times faster than HTA 0.5.0', hta[0] / cpu(runs), 'x', what, f'HTA {hta[0]:.2f} s of cpu ({hta[2]}), 1 run', f'lockstep {spread(runs)}', '50x')
        runs = several([lockstep, 'diagnose', '--json', packed], 5, '0')
        line('diagnose, gzipped JSON, a core', size / cpu(runs) / 1e9, 'GB/s', f'{what}, {os.path.getsize(packed) / 1e6:.1f} MB packed', spread(runs),
             f'python gzip alone {size / python_gzip(packed) / 1e9:.2f} GB/s', '0.7 GB/s')


def bench_memory(lockstep, work, rivals):
    path = grow(work.gpu_source(), os.path.join(work.folder, 'two.json'), '2G')
    size, less = os.path.getsize(path), work.large()[-1][1]
    runs, small = several([lockstep, 'diagnose', '--json', path], 2, '0'), several([lockstep, 'diagnose', '--json', less], 2, '0')
    what = f'{size / 1e9:.2f} GB in one file'
    line('diagnose, 2 GB: peak memory', peak(runs) / 1e6, 'MB', what, spread(runs), f'the same, {os.path.getsize(less) / 1e6:.0f} MB: {peak(small) / 1e6:.1f} MB', '64 MB + one step')
    line('  speed, a core', size / cpu(runs) / 1e9, 'GB/s', what, spread(runs), f'the same, small: {os.path.getsize(less) / cpu(small) / 1e9:.3f} GB/s', '1.0 GB/s')
    os.remove(path)


def bench_cores(lockstep, work, rivals):
    if len(os.sched_getaffinity(0)) < 2:
        print('8 ranks, 2 cores against 1: skipped, this machine has one core')
        return
    folder = os.path.join(work.folder, 'eight')
    os.makedirs(folder, exist_ok=True)
    for i, path in enumerate(work.generated()):
        grow(path, os.path.join(folder, f'rank{i}.json'), '40M')
    what = f'8 files, {sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder)) / 1e6:.0f} MB, generated'
    one, two = several([lockstep, 'diagnose', '--json', folder], 4, '0'), several([lockstep, 'diagnose', '--json', folder], 4, '0,1')
    line('8 ranks, 2 cores against 1', wall(one) / wall(two), 'x', what, f'2 cores {spread(two)}', f'1 core {spread(one)}', '1.8x')
    line('  peak memory', peak(two) / 1e6, 'MB', what, 'most of 4', f'1 core {peak(one) / 1e6:.1f} MB', '64 MB + one step + 1 MB a rank')
    shutil.rmtree(folder)


def bench_archive(lockstep, work, rivals):
    archive = work.shared('kineto', 'dlrm-8rank.tar.gz')
    if not archive:
        print('8-rank DLRM archive: skipped, no shared data')
        return
    runs, untar = several([lockstep, 'diagnose', '--json', archive], 20), several(['tar', '-xzOf', archive], 10)
    what = f'{os.path.getsize(archive) / 1e3:.0f} kB, 8 traces'
    line('8-rank DLRM archive', wall(runs) * 1e3, 'ms', what, spread(runs, 'ms'), f'tar -xzO {spread(untar, "ms")}', '100 ms')
    line('  peak memory', peak(runs) / 1e6, 'MB', what, 'most of 20', f'tar {peak(untar) / 1e6:.1f} MB')


def kernel_bytes(path):
    """(bytes of the text of kernel events, kernels, step marks) of one trace."""
    with (gzip.open if path.endswith('.gz') else open)(path, 'rt', encoding='utf-8', errors='replace') as f:
        events = json.load(f, strict=False)['traceEvents']
    kernels = [len(json.dumps(e)) for e in events if str(e.get('cat', '')).lower() == 'kernel']
    marks = sum(e.get('ph') == 'X' and str(e.get('name')).startswith('ProfilerStep#') and e.get('cat') == 'user_annotation' for e in events)
    return sum(kernels), len(kernels), max(marks, 1)


def bench_record(lockstep, work, rivals):
    for path in (work.gpu_source(), work.shared('kineto', 'param_resnet_kineto.json.gz')):
        if not path:
            continue
        with tempfile.TemporaryDirectory(dir=work.folder) as t:
            ran = Ran([lockstep, 'export', '--steps', t, path])
            if ran.code:
                print(f'step record of {os.path.basename(path)}: export fails, exit {ran.code}: {ran.out[-100:]}')
                continue
            stored = sum(os.path.getsize(os.path.join(t, f)) for f in os.listdir(t))
        raw, kernels, steps = kernel_bytes(path)
        line('step record, names included', stored / steps, 'bytes', f'{os.path.basename(path)}: {kernels // steps} kernels a step, {raw / steps / 1e6:.2f} MB of kernel events',
             f'{steps} steps, {stored} bytes of .lks', f'raw {raw / steps:.0f} bytes: {raw / stored:.0f}x smaller', '2700 bytes for 10 MB')


def program(lockstep, work, name, *more):
    """The benchmark in C, linked with the rooms of the build that is measured; more: sources of src/cmd that it uses."""
    build, target = os.path.dirname(lockstep), os.path.join(work.folder, name)
    sources = [os.path.join(HERE, f'{name}.c'), *(os.path.join(ROOT, 'src', 'cmd', f) for f in more)]
    libraries = [os.path.join(build, f'lib{room}.a') for room in ('judge', 'store', 'fold', 'read', 'model', 'base')]
    argv = [os.environ.get('CC', 'cc'), '-O2', '-D_GNU_SOURCE', '-I', os.path.join(ROOT, 'src'), *sources, '-o', target,
            '-Wl,--start-group', *libraries, '-Wl,--end-group', '-lisal', '-lzstd', '-ldl', '-lpthread', '-lm']
    p = subprocess.run(argv, capture_output=True, text=True, cwd=build)
    if p.returncode:
        sys.exit(f'{name}.c does not build: {p.stderr.strip()[-300:]}')
    return target


def run_program(argv):
    ran = Ran(argv, '0')
    print(ran.out, end='', flush=True)
    if ran.code:
        sys.exit(f'{" ".join(argv)}: exit {ran.code}')
    return ran


def bench_fold(lockstep, work, rivals):
    run_program([program(lockstep, work, 'bench_fold')])


def agent_run(lockstep, load, ranks, steps, step_ms, kernels, launches, folder):
    """(processor seconds of the agent in its first two steps, in the others, of the writer, peak bytes) while rings are
    written in real time. In the first two the agent takes its memory."""
    with tempfile.TemporaryDirectory(prefix='lockstep-bench-', dir='/dev/shm') as rings:
        agent = subprocess.Popen([lockstep, 'agent', '--rings', rings, '--out', folder])
        writer = subprocess.Popen([load, rings, *map(str, (ranks, steps, step_ms, kernels, launches))])
        time.sleep(2 * step_ms / 1e3)
        began_s = int(open(f'/proc/{agent.pid}/schedstat').read().split()[0]) / 1e9
        _, _, wrote = os.wait4(writer.pid, 0)
        time.sleep(0.3)
        agent.terminate()
        _, status, used = os.wait4(agent.pid, 0)
    agent.returncode = writer.returncode = 0
    if status:
        sys.exit(f'agent: status {status}')
    return began_s, used.ru_utime + used.ru_stime - began_s, wrote.ru_utime + wrote.ru_stime, used.ru_maxrss * 1024


def bench_agent(lockstep, work, rivals):
    """8 ranks, a step of 50,000 kernels each 4 s, for half a minute of real time behind the first two."""
    load = program(lockstep, work, 'ring_load')
    ranks, steps, step_ms, kernels = 8, 9, 4000, 50000
    for launches in (0, 1):
        folder = os.path.join(work.folder, f'agent{launches}')
        began_s, cpu_s, writer_s, most = agent_run(lockstep, load, ranks, steps, step_ms, kernels, launches, folder)
        wall_s, told = (steps - 2) * step_ms / 1e3, ranks * (steps - 2) * kernels
        what = f'{ranks} ranks, {60000 // step_ms} steps a minute, {kernels} kernels a step, {wall_s:.0f} s' + (
            ', with their launches' if launches else '')
        beside = f'writing the rings alone {1e9 * writer_s / (ranks * steps * kernels):.0f} ns a kernel, on the same load'
        line('agent: CPU', 100 * cpu_s / wall_s, '% of core', what, f'{1e9 * cpu_s / told:.0f} ns a kernel; its start and the first two steps {1e3 * began_s:.0f} ms', beside, '1 %')
        line('agent: memory', most / 2**20, 'MiB', what, 'peak', '-', '64 MiB')


def exported(lockstep, path, folder):
    """The step records of a trace, one file of them."""
    ran = Ran([lockstep, 'export', '--steps', folder, path])
    if ran.code:
        sys.exit(f'export of {path}: exit {ran.code}: {ran.out[-100:]}')
    return os.path.join(folder, os.listdir(folder)[0])


def simulated(lockstep, work, layout, steps):
    """Step records of a job with one slow node, and how they were made."""
    folder = os.path.join(work.folder, 'sim')
    fault = f'compute-straggler ranks=8-15 phase=mlp factor=5.7 from={steps // 2}'
    ran = Ran([lockstep, 'sim', '--layout', layout, '--steps', str(steps), '--seed', '1', '--fault', fault, '--out', folder], '0')
    if ran.code:
        sys.exit(f'sim of {layout}: exit {ran.code}: {ran.out[-100:]}')
    return os.path.join(folder, 'steps.lks'), ran


def bench_codec(lockstep, work, rivals):
    with tempfile.TemporaryDirectory(dir=work.folder) as t:
        real = exported(lockstep, work.gpu_source(), os.path.join(t, 'real'))
        made, _ = simulated(lockstep, work, 'dp=144 pp=9 ep=16', 12)
        run_program([program(lockstep, work, 'bench_codec'), os.path.basename(work.gpu_source()), real, 'simulated', made])


def judge_at(lockstep, work, layout, steps):
    """(milliseconds a step, peak bytes of diagnose)."""
    path, sim = simulated(lockstep, work, layout, steps)
    what = f'{layout}, {steps} steps, {os.path.getsize(path) / 1e6:.0f} MB of records'
    line('sim, step records', steps / sim.cpu, 'steps/s', what, f'{sim.cpu:.2f} s of cpu', 'the job is simulated twice: with its fault, and without it for the truth', '5 steps/s at 12,960 ranks')
    ran = run_program([program(lockstep, work, 'bench_judge', 'live.c', 'records.c'), path])
    whole = several([lockstep, 'diagnose', '--json', path], 2, '0')
    line('  diagnose, from start to answer', cpu(whole), 's', what, spread(whole), f'peak memory {peak(whole) / 1e6:.0f} MB')
    os.remove(path)
    return float(ran.out[34:].split()[0]), peak(whole)


def judge_growth(small, large, sizes, bar):
    line('  growth', large[0] / small[0], 'x', f'time of a step, from {sizes[0]:,} to {sizes[1]:,} ranks', f'linear is {sizes[1] / sizes[0]:.1f}x',
         f'memory of diagnose {large[1] / small[1]:.1f}x', bar)


def bench_judge(lockstep, work, rivals):
    small = judge_at(lockstep, work, 'dp=144 pp=9 ep=16', 12)
    judge_growth(small, judge_at(lockstep, work, 'dp=1440 pp=9 ep=32', 12), (1296, 12960), '')


def bench_judge_large(lockstep, work, rivals):
    small = judge_at(lockstep, work, 'dp=1440 pp=9 ep=32', 4)
    judge_growth(small, judge_at(lockstep, work, 'tp=8 dp=1024 pp=16', 4), (12960, 131072), '11x')


def bench_w1(lockstep, work, rivals):
    """What bench/w1.py tells, in one line a trace."""
    sys.path.insert(0, HERE)
    import w1
    for score in w1.scores(lockstep):
        errors = sorted(e for e, _ in score.plain)
        line('W1 error of kernel durations, worst', errors[-1] * 100, '%', f'{score.name}: {len(errors)} distributions of {score.kernels} kernels',
             f'median {statistics.median(errors) * 100:.2f} %; {len(score.lost)} not found in the trace',
             f'{statistics.mean(n for _, n in score.records):.0f} bytes a step for {score.raw_bytes / len(score.records) / 1e6:.2f} MB of kernel events', '2 %')


TORCH_DUMPS = 64  # more would take it minutes


def make_dumps(work, ranks):
    folder = os.path.join(work.folder, f'dumps{ranks}')
    subprocess.run([sys.executable, os.path.join(HERE, 'make_dumps.py'), folder, '--ranks', str(ranks)], check=True)
    return folder, sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder)) / 1e6


def torch_analyser(work):
    """What the analyser of PyTorch takes for a part of the dumps and for half of that part."""
    program = next((os.path.join(ROOT, v, 'bin', 'torchfrtrace') for v in sorted(os.listdir(ROOT), reverse=True)
                    if v.startswith('.venv-torch') and os.path.exists(os.path.join(ROOT, v, 'bin', 'torchfrtrace'))), None)
    if not program:
        return 'torchfrtrace not run: no PyTorch in .venv-torch-*'
    told = []
    for ranks in TORCH_DUMPS // 2, TORCH_DUMPS:
        folder, _ = make_dumps(work, ranks)
        ran = Ran([program, folder, '-p', 'nccl_trace_rank_'])
        told.append(f'{ranks} dumps: {ran.wall:.1f} s, {ran.peak / 1e6:.0f} MB{f", exit {ran.code}" if ran.code else ""}')
        shutil.rmtree(folder)
    return 'torchfrtrace on ' + ', on '.join(told)


def bench_dumps(lockstep, work, rivals):
    folder, size = make_dumps(work, 1024)
    cpus = '0,1' if len(os.sched_getaffinity(0)) > 1 else '0'
    what = f'1,024 dumps of 2,000 entries with stacks, {size:.0f} MB, {len(cpus.split(","))} cores'
    runs = several([lockstep, 'diagnose', '--json', folder], 7, cpus)
    line('Flight Recorder dumps', wall(runs), 's', what, spread(runs), torch_analyser(work), '1 s')
    line('  peak memory', peak(runs) / 1e6, 'MB', what, 'most of 7', 'see above', '256 MB')
    shutil.rmtree(folder)
    folder, size = make_dumps(work, 128)
    few = several([lockstep, 'diagnose', '--json', folder], 7, cpus)
    line('  growth from 128 to 1,024 dumps', cpu(runs) / cpu(few), 'x', 'processor time', spread(few), 'linear is 8x')
    shutil.rmtree(folder)


LOG_PATTERN = r'Watchdog caught|last enqueued|Traceback|Error|iteration +[0-9]+/|NCCL WARN|saving checkpoint|exitcode|CANCELLED|Xid'
PYTHON_RE = """import re, sys, time
pattern, n, t = re.compile(sys.argv[2].encode()), 0, time.process_time()
with open(sys.argv[1], 'rb') as f:
    for line in f:
        n += pattern.search(line) is not None
print(time.process_time() - t)"""


def log_line(lockstep, path, kind):
    bytes_ = os.path.getsize(path)
    what = f'log, {kind}, {bytes_ / 1e6:.0f}MB'
    runs, grep = several([lockstep, 'diagnose', '--json', path], 5, '0'), several(['grep', '-acE', LOG_PATTERN, path], 3, '0')
    python = float(Ran([sys.executable, '-c', PYTHON_RE, path, LOG_PATTERN], '0').out or 'inf') if kind == 'mixed' else None
    line(f'diagnose, {kind} log, a core', bytes_ / cpu(runs) / 1e9, 'GB/s', what, spread(runs),
         f'grep -cE of ten words {bytes_ / cpu(grep) / 1e9:.2f} GB/s' + (f', Python re {bytes_ / python / 1e9:.3f} GB/s' if python else ''), '1.5 GB/s')
    if kind == 'mixed':
        line('  peak memory', peak(runs) / 1e6, 'MB', what, 'most of 5', f'grep {peak(grep) / 1e6:.1f} MB', 'constant')
    os.remove(path)


def bench_logs(lockstep, work, rivals):
    """Logs made of one kind of lines each, and real ones, one after another until they are large."""
    path = os.path.join(work.folder, 'train.log')
    for kind, size in ('mixed', '400M'), ('progress', '200M'), ('noise', '200M'), ('prose', '200M'), ('watchdog', '200M'), ('bars', '200M'):
        subprocess.run([sys.executable, os.path.join(HERE, 'grow_log.py'), path, '--bytes', size, '--kind', kind], check=True)
        log_line(lockstep, path, kind)
    real = work.shared('logs')
    if not real:
        print('real logs: skipped, no shared data')
    for name in sorted(os.listdir(real)) if real else []:
        with open(os.path.join(real, name), 'rb') as f:
            text = f.read()
        with open(path, 'wb') as f:
            for _ in range(200_000_000 // len(text)):
                f.write(text if text.endswith(b'\n') else text + b'\n')
        log_line(lockstep, path, 'real ' + name.split('.')[0][:20])


class LttngSession:
    """A session of lttng-ust that records the events of bench_tracer.c, overwriting the oldest as we do; why is empty if it does."""

    def __init__(self, folder):
        self.daemon, self.why = None, ''
        if not shutil.which('lttng') or not shutil.which('lttng-sessiond'):
            self.why = 'lttng-tools are not installed'
            return
        self.env = dict(os.environ, LTTNG_HOME=folder)
        self.daemon = subprocess.Popen(['lttng-sessiond', '--no-kernel'], env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(50):
            if not self.lttng('list'):
                break
            time.sleep(0.1)
        for args in (['create', 'lockstep-bench', '--snapshot', '--output', folder],
                     ['enable-channel', '--userspace', '--overwrite', '--subbuf-size=1M', '--num-subbuf=4', 'c'],
                     ['enable-event', '--userspace', '--channel=c', 'lockstep_bench:*'], ['start']):
            if self.lttng(*args) and not self.why:
                self.why = f'lttng {args[0]} failed'

    def lttng(self, *args):
        return subprocess.run(['lttng', *args], env=self.env, capture_output=True, check=False).returncode

    def close(self):
        if self.daemon:
            self.lttng('destroy', 'lockstep-bench')
            self.daemon.terminate()
            self.daemon.wait()


def tracer_program(lockstep, work):
    """bench_tracer.c, with the events of lttng-ust where its headers are."""
    build, target = os.path.dirname(lockstep), os.path.join(work.folder, 'bench_tracer')
    argv = [os.environ.get('CC', 'cc'), '-O2', '-D_GNU_SOURCE', '-I', os.path.join(ROOT, 'include'), '-I', HERE,
            os.path.join(HERE, 'bench_tracer.c'), '-o', target, '-L', build, '-llockstep', f'-Wl,-rpath,{build}']
    for more in (['-DWITH_LTTNG', '-llttng-ust', '-ldl'], []):
        p = subprocess.run(argv + more, capture_output=True, text=True, check=False)
        if not p.returncode:
            return target, bool(more)
    return sys.exit(f'bench_tracer.c does not build: {p.stderr.strip()[-300:]}')


def instructions(argv, env):
    """Of the whole program, counted by callgrind."""
    p = subprocess.run(['valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null', *argv], env=env, capture_output=True, text=True, check=False)
    found = [int(t.split()[-1]) for t in p.stderr.splitlines() if 'Collected :' in t]
    return found[0] if found and not p.returncode else None


def bench_tracer(lockstep, work, rivals):
    target, lttng = tracer_program(lockstep, work)
    with tempfile.TemporaryDirectory(dir='/dev/shm', prefix='lockstep-bench-') as rings, tempfile.TemporaryDirectory(dir=work.folder) as t:
        env = dict(os.environ, LOCKSTEP='1', LOCKSTEP_DIR=os.path.join(rings, 'r'))
        session = LttngSession(t) if lttng else None
        if not lttng or session.why:
            print(f'  lttng-ust: skipped, {session.why if session else "its headers are not installed"}')
        try:
            for clock in ({}, {'LOCKSTEP_CLOCK': 'monotonic'}):
                ran = subprocess.run([target], env={**env, **clock}, capture_output=True, text=True, check=False)
                print(ran.stdout, end='', flush=True)
                if ran.returncode:
                    sys.exit(f'bench_tracer: exit {ran.returncode}: {ran.stderr}')
        finally:
            if session:
                session.close()
        if not shutil.which('valgrind'):
            print('  instructions: skipped, valgrind is not installed')
            return
        env.update(LTTNG_UST_REGISTER_TIMEOUT='0', LOCKSTEP_CLOCK='tsc')  # valgrind hides what the kernel says of it
        for call, what in (('pair', 'phase begin and end'), ('counter', 'counter'), ('collective', 'collective begin and end'), ('step', 'step begin and end'), ('name', 'name looked up')):
            counts = [instructions([target, 'count', call, n], env) for n in ('1000', '11000')]
            if None not in counts:
                line(f'tracer, {what}', (counts[1] - counts[0]) / 10000, 'instr.', 'counted by callgrind, the loop and the call with it', '10000 calls', 'TSC')


def bench_doors(lockstep, work, rivals):
    """What comes by CUPTI, NVTX and NCCL, from their calls to the ring; bench_doors.c says what stands in for CUPTI."""
    target, tracer = os.path.join(work.folder, 'bench_doors'), os.path.join(ROOT, 'src', 'tracer')
    argv = [os.environ.get('CC', 'cc'), '-O2', '-D_GNU_SOURCE', '-DNDEBUG', '-fno-strict-aliasing', '-ftls-model=initial-exec',
            '-I', os.path.join(ROOT, 'src'), '-I', os.path.join(ROOT, 'include'), os.path.join(HERE, 'bench_doors.c'),
            *sorted(os.path.join(tracer, f) for f in os.listdir(tracer) if f.endswith('.c')), '-o', target, '-ldl', '-lpthread']
    p = subprocess.run(argv, capture_output=True, text=True, check=False)
    if p.returncode:
        sys.exit(f'bench_doors.c does not build: {p.stderr.strip()[-300:]}')
    with tempfile.TemporaryDirectory(dir='/dev/shm', prefix='lockstep-bench-') as rings:
        env = dict(os.environ, LOCKSTEP='1', LOCKSTEP_DIR=os.path.join(rings, 'r'))
        ran = subprocess.run([target], env=env, capture_output=True, text=True, check=False)
        print(ran.stdout, end='', flush=True)
        if ran.returncode:
            sys.exit(f'bench_doors: exit {ran.returncode}: {ran.stderr}')
        if not shutil.which('valgrind'):
            print('  instructions: skipped, valgrind is not installed')
            return
        env['LOCKSTEP_CLOCK'] = 'tsc'  # valgrind hides what the kernel says of it
        for call, what in (('kernel', 'kernel to the ring'), ('phased', 'kernel with its phase'), ('inside', 'NVTX push and pop'),
                           ('registered', 'NVTX registered string'), ('nccl', 'NCCL collective, both events')):
            counts = [instructions([target, 'count', call, n], env) for n in ('12130', '24260')]  # whole buffers
            if None not in counts:
                line(f'doors, {what}', (counts[1] - counts[0]) / 12130, 'instr.', 'counted by callgrind, the loop with it', '12130 calls', 'TSC')


def torch_python():
    """A Python with torch: that of make check-torch, if it was run."""
    found = sorted(p for p in os.listdir(ROOT) if p.startswith('.venv-torch-') and os.path.exists(os.path.join(ROOT, p, 'ready')))
    return os.path.join(ROOT, found[-1], 'bin', 'python') if found else None


def bench_python(lockstep, work, rivals):
    """Calls from Python, and a whole PyTorch job with everything on."""
    del work, rivals
    python = torch_python()
    subprocess.run([python or sys.executable, os.path.join(HERE, 'bench_python.py'), os.path.dirname(lockstep)], check=True)
    if not python:
        print('whole job: skipped, no torch (make check-torch makes a venv)')
        return
    subprocess.run([python, os.path.join(HERE, 'bench_job.py'), os.path.dirname(lockstep)], check=True)
    subprocess.run([python, os.path.join(HERE, 'bench_job.py'), os.path.dirname(lockstep), '--small', '--pairs', '60', '--steps', '10'], check=True)

def bench_count(lockstep, work, rivals):
    """Counting shards beside wc -l, which counts newlines and nothing else; warm, then cold where the page cache may be dropped."""
    size = os.environ.get('LOCKSTEP_BENCH_SHARD', '2G')
    for kind in ('jsonl', 'tar'):
        path = os.path.join(work.folder, 'shard.' + kind)
        subprocess.run([sys.executable, os.path.join(ROOT, 'tests', 'gen', 'shard_files.py'), kind, path, '--bytes', size], check=True, stdout=subprocess.DEVNULL)
        bytes_ = os.path.getsize(path)
        mine, wc, what = [lockstep, 'even', '-w', '16', path], ['wc', '-l', path], f'{kind}, {bytes_ / 1e9:.1f}GB'
        several(wc, 1)
        runs, rival = several(mine, 5), several(wc, 5)
        line(f'even, {kind} counted, warm', bytes_ / wall(runs) / 1e9, 'GB/s', what, spread(runs), f'wc -l {bytes_ / wall(rival) / 1e9:.2f} GB/s', '2 GB/s')
        line('  of a core', bytes_ / cpu(runs) / 1e9, 'GB/s', what, f'peak {peak(runs) / 1e6:.1f} MB', f'wc -l {bytes_ / cpu(rival) / 1e9:.2f} GB/s')
        colds = {}
        for _ in range(2):
            for argv in (mine, wc):
                try:
                    os.sync()
                    with open('/proc/sys/vm/drop_caches', 'w', encoding='ascii') as f:
                        f.write('3')
                except OSError:
                    break
                colds.setdefault(argv[0], []).extend(several(argv, 1))
        if lockstep in colds:
            line(f'even, {kind} counted, cold', bytes_ / wall(colds[lockstep]) / 1e9, 'GB/s', what, spread(colds[lockstep]), f'wc -l {bytes_ / wall(colds["wc"]) / 1e9:.2f} GB/s', 'the disk')
        os.remove(path)


def bench_meet(lockstep, work, rivals):
    """Nodes of a job meeting, as processes here."""
    del work, rivals
    build = os.path.dirname(lockstep)
    subprocess.run(['ninja', '-C', build, '--quiet', 'tests/meet_node'], check=True, stdout=subprocess.DEVNULL)
    python = torch_python()
    subprocess.run([sys.executable, os.path.join(HERE, 'bench_meet.py'), os.path.join(build, 'tests', 'meet_node'), *(['--python', python] if python else [])], check=True)


def bench_preflight(lockstep, work, rivals):
    """The gate, on one node and on many."""
    del work, rivals
    subprocess.run([sys.executable, os.path.join(HERE, 'bench_preflight.py'), lockstep], check=True)


def bench_watch(lockstep, work, rivals):
    """What a watcher of 64 sources costs."""
    del work, rivals
    subprocess.run([sys.executable, os.path.join(HERE, 'bench_watch.py'), lockstep], check=True)


ASKED = {'judge-large': bench_judge_large}  # minutes, 3 GB of disk
BENCHES = {name[6:]: f for name, f in list(globals().items()) if name.startswith('bench_') and f not in ASKED.values()}


def main():
    if len(sys.argv) < 2 or not os.access(sys.argv[1], os.X_OK):
        sys.exit(__doc__)
    lockstep, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:] or list(BENCHES)
    machine()
    rivals = Rivals()
    with tempfile.TemporaryDirectory(prefix='lockstep-bench-') as t:
        work = Work(t)
        for name in wanted:
            {**BENCHES, **ASKED}[name](lockstep, work, rivals)


if __name__ == '__main__':
    main()
