# SPDX-License-Identifier: Apache-2.0
"""Power and utilization of the GPUs of simulated ranks, as nvidia-smi (query, dmon) and the DCGM exporter print them."""
import os
import time

BOARDS = {'NVIDIA B300': (1100, .60, .17, .13), 'NVIDIA H100 80GB HBM3': (700, .80, .17, .10), 'NVIDIA A100-SXM4-80GB': (400, .80, .22, .14),
          'Tesla V100-SXM2-32GB': (300, .80, .22, .17), 'NVIDIA GeForce RTX 3090': (350, .90, .34, .30), 'NVIDIA H200': (700, .75, .17, .11)}


class Power:
    """States: compute, wait (a kernel spins for its peers), idle (context, nothing runs), free (no process)."""

    def __init__(self, rng, job, epoch_s):
        self.rng, self.job, self.epoch = rng, job, epoch_s
        self.board = rng.choice(list(BOARDS))
        self.limit, self.busy, self.spin, self.idle = BOARDS[self.board]
        self.uuid = [f'GPU-{rng.getrandbits(32):08x}-{rng.getrandbits(16):04x}-{rng.getrandbits(16):04x}-{rng.getrandbits(16):04x}-{rng.getrandbits(48):012x}'
                     for _ in range(job.world)]

    def sample(self, state):
        """(watts, utilization %, memory utilization %, MiB, SM clock)"""
        rng = self.rng
        watts = {'compute': self.busy, 'wait': self.spin, 'idle': self.idle, 'free': self.idle * .8}[state] * self.limit * rng.uniform(.95, 1.05)
        util = {'compute': rng.randrange(93, 101), 'wait': 100, 'idle': 0, 'free': 0}[state]
        mem = {'compute': rng.randrange(40, 66), 'wait': 0, 'idle': 0, 'free': 0}[state]
        used = {'free': 4}.get(state, 61203 if self.limit > 350 else 20311)
        return watts, util, mem, used, {'compute': 1650, 'wait': 1920, 'idle': 1900, 'free': 345}[state]

    def series(self, states, before, after, every):
        """Rows (time s, rank, sample): compute at first, then the states given."""
        for i in range(before + after):
            for r in range(self.job.world):
                if states.get(r) is not None:
                    yield self.epoch + (i - before) * every, r, self.sample('compute' if i < before else states[r])

    def write(self, folder, states, before=5, after=8, every=30):
        kind = self.rng.choice(['csv', 'csv', 'csv-bare', 'dmon', 'prom'])
        rows = list(self.series(states, before if kind != 'prom' else 0, after if kind != 'prom' else 1, every))
        if kind == 'prom':
            return self.prometheus(folder, rows)
        for n, host in enumerate(self.job.hosts):
            mine = [(t, r, s) for t, r, s in rows if r // self.job.per_node == n]
            if mine:
                name = (f'nvidia-smi_{host}' if len(self.job.hosts) > 1 else 'nvidia-smi') if kind != 'dmon' else (f'dmon_{host}'
                    if len(self.job.hosts) > 1 else 'dmon')
                with open(os.path.join(folder, name + ('.csv' if kind != 'dmon' else '.txt')), 'w') as f:
                    f.write((self.dmon if kind == 'dmon' else self.csv)(mine, kind == 'csv'))
        return kind

    def stamp(self, t):
        return time.strftime('%Y/%m/%d %H:%M:%S', time.gmtime(t)) + f'.{self.rng.randrange(1000):03d}'

    def csv(self, rows, units):
        w, pc, mib, mhz = ((' W', ' %', ' MiB', ' MHz') if units else ('',) * 4)
        out = ['timestamp, index, uuid, name, power.draw [W], power.limit [W], utilization.gpu [%], utilization.memory [%], memory.used [MiB], clocks.current.sm [MHz]']
        out += [f'{self.stamp(t)}, {r % self.job.per_node}, {self.uuid[r]}, {self.board}, {s[0]:.2f}{w}, {self.limit:.2f}{w}, {s[1]}{pc}, {s[2]}{pc}, {s[3]}{mib}, {s[4]}{mhz}'
                for t, r, s in rows]
        return '\n'.join(out) + '\n'

    def dmon(self, rows, _):
        head = ['#Date       Time        gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk',
                '#YYYYMMDD   HH:MM:SS    Idx      W      C      C      %      %      %      %    MHz    MHz']
        out = []
        for i, (t, r, s) in enumerate(rows):
            if i % 40 == 0:
                out += head
            when = time.strftime('%Y%m%d    %H:%M:%S', time.gmtime(t))
            out.append(f' {when}{r % self.job.per_node:7d}{round(s[0]):7d}{55:7d}      -{s[1]:7d}{s[2]:7d}      0      0   2619{s[4]:7d}')
        return '\n'.join(out) + '\n'

    def prometheus(self, folder, rows):
        out = []
        for name, at, kind in (('DCGM_FI_DEV_POWER_USAGE', 0, 'gauge'), ('DCGM_FI_DEV_GPU_UTIL', 1, 'gauge'),
            ('DCGM_FI_DEV_MEM_COPY_UTIL', 2, 'gauge'),
                               ('DCGM_FI_DEV_FB_USED', 3, 'gauge'), ('DCGM_FI_DEV_SM_CLOCK', 4, 'gauge')):
            out += [f'# HELP {name} {name.lower()}', f'# TYPE {name} {kind}']
            for _, r, s in rows:
                v = f'{s[at]:.3f}' if at == 0 else s[at]
                out.append(f'{name}{{gpu="{r % self.job.per_node}",UUID="{self.uuid[r]}",device="nvidia{r % self.job.per_node}",modelName="{self.board}",'
                           f'Hostname="{self.job.host(r)}"}} {v}')
        with open(os.path.join(folder, 'dcgm.prom'), 'w') as f:
            f.write('\n'.join(out) + '\n')
        return 'prom'
