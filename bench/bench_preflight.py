#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The gate: block balance alone, 16 nodes and 1,024 nodes as processes on loopback.

    bench/bench_preflight.py build/lockstep [RUNS]

From the start of the first process to the end of the last. Beside it: as many processes of the same program that only
say their version, started in the same way, since on one machine the starting is most of it.
"""
import os
import resource
import socket
import statistics
import sys
import tempfile
import time


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


def together(commands, allowed=(0,)):
    """Seconds on the wall, and of processor, from the first start to the last end."""
    null = os.open('/dev/null', os.O_WRONLY)
    quiet = [(os.POSIX_SPAWN_DUP2, null, 1)]
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    pids = [os.posix_spawn(c[0], c, os.environ, file_actions=quiet) for c in commands]
    statuses = {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids}
    took, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    os.close(null)
    if not statuses <= set(allowed):
        sys.exit(f'{" ".join(commands[0][:6])} ..: exit {sorted(statuses)}')
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def nodes(lockstep, folder, n, ranks, *more):
    with open(os.path.join(folder, 'counts.csv'), 'w', encoding='ascii') as f:
        f.write('rank,blocks\n' + ''.join(f'{r},800\n' for r in range(n * ranks)))
    port = free_port()
    return [[lockstep, 'preflight', '--nodes', str(n), '--node', str(i), '--ranks', str(ranks), '--meet', f'127.0.0.1:{port}', '--secret-file',
             os.path.join(folder, 'secret'), '--job', 'bench', '--blocks', os.path.join(folder, 'counts.csv'), '--blocks-per-step', '8',
             '--wait', '60', *more] for i in range(n)]


def show(name, what, runs, beside, bar):
    took = [t for t, _ in runs]
    cpu = statistics.median(c for _, c in runs)
    print(f'{name:34} {statistics.median(took):>9.4g} {"s":9} {what}; min {min(took):.3g}, median of {len(runs)}, CPU {cpu:.3g} s; '
          f'{beside}; bar {bar}', flush=True)


def main():
    lockstep, runs = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open('secret', 'w', encoding='ascii') as f:
            f.write('a secret of more than sixteen bytes\n')
        os.chmod('secret', 0o600)
        with open('one.csv', 'w', encoding='ascii') as f:
            f.write('rank,blocks\n' + ''.join(f'{r},{30835 + 53 * (r == 11)}\n' for r in range(16)))
        alone = [lockstep, 'preflight', '--only', 'blocks', '--blocks', 'one.csv', '--blocks-per-step', '8']
        show('preflight: blocks, alone', '16 ranks, one is longer', [together([alone], (1,)) for _ in range(runs)],
             'the gate of the published incident: 2.7 s', '2.7 s')
        # The system's: what packages do at the start of another is theirs.
        python = ('--python', '/usr/bin/python3' if os.access('/usr/bin/python3', os.X_OK) else sys.executable)
        few = ('--only', 'blocks,agreement', '--python', 'none')
        for n, ranks, more, name, bar in ((2, 8, python, 'all invariants', '1 s'), (16, 1, python, 'all invariants', '1 s'),
                                          (1024, 1, few, 'blocks, agreement', '5 s')):
            some = max(2, runs // 2) if n > 16 else runs
            took = [together(nodes(lockstep, folder, n, ranks, *more)) for _ in range(some)]
            start = statistics.median(together([[lockstep, '--version']] * n)[0] for _ in range(some))
            show(f'preflight: {n} nodes', f'{n * ranks} ranks, {name}, processes on loopback, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.0f}', took,
                 f'{n} times --version {start:.3g} s', bar)


if __name__ == '__main__':
    main()
