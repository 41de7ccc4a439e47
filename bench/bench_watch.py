#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `lockstep watch` costs with 64 sources: CPU of the watcher a look, as a share of a core at the usual interval of
30 s, and the most memory it had. Logs grow, exporters answer over HTTP, folders and commands are looked at.

    bench_watch.py LOCKSTEP [--check]
"""
import http.server
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

LOOKS, INTERVAL = 40, 30.0


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 64


class Exporter(http.server.BaseHTTPRequestHandler):
    page = ''.join(f'DCGM_FI_DEV_{name}{{gpu="{i}",UUID="GPU-{i}",device="nvidia{i}",Hostname="h01"}} {value}\n'
                   for name, value in (('POWER_USAGE', 605.2), ('GPU_UTIL', 99), ('SM_CLOCK', 1755), ('MEM_CLOCK', 2619),
                                       ('GPU_TEMP', 61), ('FB_USED', 70000), ('FB_FREE', 10000), ('XID_ERRORS', 0))
                   for i in range(8)).encode()

    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', str(len(self.page)))
        self.end_headers()
        self.wfile.write(self.page)

    def log_message(self, *_):
        pass


def grow(logs, step, lines):
    for path in logs:
        with open(path, 'a') as f:
            f.write(''.join(f'2026-11-02 08:{i // 60 % 60:02d}:{i % 60:02d},000 INFO step {i}/100000 loss 1.25 tokens/s 53000\n'
                            for i in range(step, step + lines)))


def main():
    lockstep = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        base = pathlib.Path(folder)
        logs = [base / f'rank{i}.log' for i in range(40)]
        grow(logs, 0, 2000)
        for name in ('ckpt', 'fr'):
            (base / name).mkdir()
            for i in range(100):
                (base / name / f'{name}_{i}').write_bytes(b'x')
        (base / 'smi').write_text('index, power.draw [W], power.limit [W], utilization.gpu [%]\n'
                                  + ''.join(f'{i}, 600 W, 700 W, 100 %\n' for i in range(8)))
        server = Server(('127.0.0.1', 0), Exporter)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        argv = [lockstep, 'watch', '--interval', '1s', '--state', base / 'state', '--metrics', base / 'metrics']
        for path in logs:
            argv += ['--log', path]
        for i in range(16):
            argv += ['--endpoint', f'http://127.0.0.1:{server.server_port}/metrics?{i}']
        for i in range(5):
            argv += ['--gpu-command', f'cat {base}/smi #{i}']
        argv += ['--state-command', 'echo RUNNING', '--checkpoints', base / 'ckpt', '--dumps', base / 'fr']
        p = subprocess.Popen(argv, stdout=subprocess.DEVNULL)

        def ticks(pid):
            fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()
            return [int(x) / os.sysconf('SC_CLK_TCK') for x in fields[11:15]]

        def helpers():      # that look at files: forks of it, which no command is
            pids = pathlib.Path(f'/proc/{p.pid}/task/{p.pid}/children').read_text().split()
            return [pid for pid in pids if os.readlink(f'/proc/{pid}/exe') == os.readlink(f'/proc/{p.pid}/exe')]

        def used():     # of the watcher and its helpers, and of the commands that it has run
            own = ticks(p.pid)
            return own[0] + own[1] + sum(sum(ticks(pid)[:2]) for pid in helpers()), own[2] + own[3]

        def alone(pid):     # KiB that it shares with nobody, the watcher least of all
            lines = pathlib.Path(f'/proc/{pid}/smaps_rollup').read_text().splitlines()
            return sum(int(x.split()[1]) for x in lines if x.startswith('Private_'))

        while not (base / 'metrics').exists():
            time.sleep(0.1)
        time.sleep(2)
        first, step = used(), 2000
        began = time.monotonic()
        for _ in range(LOOKS):
            grow(logs, step, 15)
            step += 15
            time.sleep(1)
        looks = time.monotonic() - began
        cpu, commands = ((b - a) / looks for a, b in zip(first, used()))
        page = (base / 'metrics').read_text()
        memory = [x for x in pathlib.Path(f'/proc/{p.pid}/status').read_text().splitlines() if x.startswith('VmHWM')][0]
        n_helpers, beside = len(helpers()), sum(map(alone, helpers())) / 1024
        p.terminate()
        p.wait()
        server.shutdown()
    silent = len(re.findall(r'source_silent\{[^}]*\} 1', page))
    mib = int(memory.split()[1]) / 1024
    share = cpu / INTERVAL * 100
    print(f'watch-cpu {share:.4f} % of a core, 64 sources at 30 s ({cpu * 1e3:.2f} ms a look, {silent} silent); '
          f'its commands, sh and cat, {commands / INTERVAL * 100:.4f} %')
    print(f'watch-memory {mib:.1f} MiB, 64 sources; {n_helpers} helper{"s" * (n_helpers != 1)} beside it, {beside:.1f} MiB')
    if '--check' in sys.argv and (share >= 0.1 or mib + beside >= 16 or silent):
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
