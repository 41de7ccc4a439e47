#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What gpu.sh claims, on one GPU. Each claim prints ok, FAILED or skipped, and the figures that it rests on.

    gpu_check.py LIBLOCKSTEP PROGRAM FOLDER [PYTHON-WITH-TORCH]
"""
import collections
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ring_file  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
LIB, PROGRAM, FOLDER = (os.path.abspath(a) for a in sys.argv[1:4])
PYTHON = sys.argv[4] if len(sys.argv) > 4 else sys.executable
PAIRS = 10
failed = 0


def claim(name, holds, *figures):
    global failed
    failed += not holds
    print('ok' if holds else 'FAILED', name, *figures, flush=True)


def run(argv, traced=True, **env):
    """Exit status, output, seconds of processor, and the ring, if there is one."""
    base = {k: v for k, v in os.environ.items() if not k.startswith('LOCKSTEP')}
    with tempfile.TemporaryDirectory(dir=FOLDER) as rings:
        if traced:
            base |= {'LOCKSTEP': '1', 'LOCKSTEP_DIR': os.path.join(rings, 'r'), 'CUDA_INJECTION64_PATH': LIB, 'NVTX_INJECTION64_PATH': LIB}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(argv, env=base | env, capture_output=True, text=True, timeout=120, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        found = [os.path.join(d, f) for d, _, files in os.walk(rings) for f in files if f.endswith('.ring')]
        ring = ring_file.Ring(found[0]) if found else None
    if done.returncode or done.stderr:
        print(f'  {" ".join(argv)}: exit {done.returncode}: {done.stderr[-400:]}')
    return done.returncode, done.stdout, cpu, ring


def known_counts():
    code, _, _, ring = run([PROGRAM, 'steps', '50'])
    claim('the program runs on, and has a ring', code == 0 and ring is not None)
    if not ring:
        return
    claim('kernels are on', ring.off_code == 0 and not ring.off_text, ring.off_text)
    got = collections.Counter((name, r.phase, r.depth) for r in ring.of('kernel') for name in ('forward', 'backward', 'graph') if f'{name}_kernel' in r.name)
    claim('each kernel of forward came once, with its phase', got[('forward', 'forward', 0)] == 500, dict(got))
    claim('so did those of the backward, on another thread', got[('backward', 'backward', 0)] == 1000)
    claim('and those of a graph, flagged, with the phase of its launch', got[('graph', 'optimizer', 1)] == 250)
    claim('copies and memsets too', (len([r for r in ring.of('copy') if r.name == 'Memcpy DtoD']), len(ring.of('set'))) == (50, 50),
          collections.Counter(r.name for r in ring.of('copy')))
    claim('steps have their numbers', [r.value for r in ring.of('step')] == list(range(50)))
    claim('nothing was lost', not ring.counts, ring.counts)


def flood():
    n = 1000000
    code, _, _, ring = run([PROGRAM, 'flood', str(n)])
    told, dropped = (ring.heads[0], ring.counts.get('cupti_dropped', 0)) if ring else (0, 0)
    claim('a flood is told, or counted as dropped', code == 0 and told + dropped >= n, f'told {told}, dropped {dropped} of {n}')


def cost():
    """Time a step and processor a run, with and without, in turns."""
    kinds = {'without': (False, {}), 'kernels': (True, {'LOCKSTEP_GPU_PHASES': '0'}), 'kernels and phases': (True, {})}
    took = {k: [] for k in kinds}
    for _ in range(PAIRS):
        for kind, (traced, env) in kinds.items():
            code, out, cpu, _ = run([PROGRAM, 'steps', '5000'], traced, **env)
            if code == 0:
                took[kind].append((float(out), cpu))
    for kind, rows in took.items():
        if rows:
            print(f'cost {kind}: step of 37 launches, median {statistics.median(r[0] for r in rows):.1f} us (min {min(r[0] for r in rows):.1f}), '
                  f'processor of the run, median {statistics.median(r[1] for r in rows):.3f} s, {len(rows)} runs')
    claim('the cost was measured', all(len(rows) == PAIRS for rows in took.values()))


def torch_profiler():
    if subprocess.run([PYTHON, '-c', 'import torch; assert torch.cuda.is_available()'], capture_output=True, check=False).returncode:
        print('skipped: no torch with CUDA in', PYTHON)
        return
    trace = os.path.join(FOLDER, 'trace.json')
    argv = [PYTHON, os.path.join(HERE, 'gpu_torch.py'), '150', '40', '59', trace]
    alone = run(argv, False)
    code, out, _, ring = run(argv, LOCKSTEP_PROFILER_WAIT='4')
    claim('a training job runs on beside torch.profiler', code == 0 and ring is not None)
    if not ring:
        return
    claim("torch.profiler's trace has all its kernels", alone[0] == 0 and out.split() == alone[1].split(), f'alone {alone[1].split()}, with us {out.split()}')
    profiled = [r.value for r in ring.of('step') if r.arg & 2]
    claim('its steps are marked', set(range(50, 60)) <= set(profiled), profiled)
    claim('the seat is taken again', profiled and max(profiled) < 140, profiled[-1:])
    last = max((r.t for r in ring.of('gap') if r.arg == 1), default=0)
    claim('kernels come after it', any(r.t > last for r in ring.of('kernel')))
    phases = collections.Counter(r.phase for r in ring.of('kernel'))
    claim("the backward's kernels have its phase", phases['backward'] > phases['forward'] > 0, dict(phases))


def nsys():
    if not shutil.which('nsys'):
        print('skipped: no nsys')
        return
    report = os.path.join(FOLDER, 'report')
    code, _, _, ring = run(['nsys', 'profile', '-t', 'cuda,nvtx', '-o', report, '--force-overwrite', 'true', PROGRAM, 'steps', '50'])
    claim('nsys and the program run on beside us', code == 0 and os.path.exists(report + '.nsys-rep'), ring.off_text if ring else 'no ring')


def main():
    print(subprocess.run(['nvidia-smi', '--query-gpu=name,driver_version', '--format=csv,noheader'], capture_output=True, text=True, check=False).stdout.strip())
    for part in (known_counts, flood, torch_profiler, nsys, cost):
        try:
            part()
        except (subprocess.SubprocessError, OSError, ValueError, AssertionError) as e:
            claim(part.__name__, False, repr(e))
    return failed != 0


if __name__ == '__main__':
    sys.exit(main())
