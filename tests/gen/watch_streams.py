#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Recordings for `lockstep watch --replay`: what nvidia-smi printed and a log said while a job trained, saved, evaluated,
starved, was throttled or deadlocked. The levels are the published ones: a hang is at 17 % of the limit on a B300, at 10 % on
an H100, at 22 % on a V100 (whose idle is 18 %); a save by rank 0 looks the same, with rank 0 at 0 %, for about two minutes.

    watch_streams.py BOARD POLL_SECONDS SEED PHASE[:SECONDS]... > recording.jsonl

PHASE is train, save0, saveall, evaluate, evaluate0, deadlockN (rank N at 0 %), allwait, starved, throttled or idle.
"""
import datetime
import json
import random
import sys

# limit, compute, spinning, resting watts; clock
BOARDS = {
    'B300': (1100.0, 900.0, 190.0, 150.0, 1900.0),
    'H100': (700.0, 610.0, 71.0, 69.0, 1755.0),
    'V100': (300.0, 255.0, 66.0, 53.0, 1380.0),
}
COLUMNS = ('timestamp', 'index', 'utilization.gpu [%]', 'power.draw [W]', 'power.limit [W]', 'clocks.sm [MHz]')
START = datetime.datetime(2026, 11, 2, 8, 0, 0)


def reading(rng, phase, rank, board):
    """(utilization in %, watts, MHz) of a rank in a phase."""
    limit, compute, spin, rest, clock = BOARDS[board]
    noise = rng.gauss(1, 0.03)
    resting = (rng.choice((0, 0, 0, 0, 1)), rest * noise, clock * 0.6)
    spinning = (rng.choice((100, 100, 100, 99)), spin * noise, clock)
    if phase == 'train':
        odd = rng.random()
        if odd < 0.03:  # caught between two kernels
            return 100, (spin + 0.1 * limit * rng.random()) * noise, clock
        if odd < 0.12:  # communication
            return 100, limit * rng.uniform(0.35, 0.6), clock
        return rng.randint(95, 100), min(compute * noise, limit), clock
    if phase == 'evaluate':
        return rng.randint(85, 100), compute * 0.8 * noise, clock
    if phase == 'evaluate0':
        return reading(rng, 'evaluate', rank, board) if rank == 0 else spinning
    if phase == 'save0':
        return resting if rank == 0 else spinning
    if phase in ('saveall', 'idle'):
        return resting
    if phase.startswith('deadlock'):
        return resting if rank == int(phase[8:] or 0) else spinning
    if phase == 'allwait':
        return spinning
    if phase == 'starved':
        return rng.choice((0, 5, 12, 20, 30, 40)), limit * rng.uniform(0.12, 0.35), clock
    if phase == 'throttled':
        return 100, compute * 0.6 * noise, clock * 0.55
    raise ValueError(phase)


def row(t, rank, values, columns, board):
    busy, watts, clock = values
    when = START + datetime.timedelta(seconds=t)
    cells = {'timestamp': when.strftime('%Y/%m/%d %H:%M:%S.') + f'{when.microsecond // 1000:03d}', 'index': str(rank),
             'utilization.gpu [%]': f'{busy} %', 'power.draw [W]': f'{watts:.2f} W',
             'power.limit [W]': f'{BOARDS[board][0]:.2f} W', 'clocks.sm [MHz]': f'{clock:.0f} MHz'}
    return ', '.join(cells[c] for c in columns)


def gpus(board, poll, seed, phases, ranks=8, columns=COLUMNS, every=60.0, source='gpus'):
    """Lines of a recording: pieces of `every` seconds of readings. phases: [(name, seconds)]."""
    rng = random.Random(seed)
    head, rows, t, begun = ', '.join(columns), [], 0.0, 0.0
    for phase, seconds in phases:
        end = begun + seconds
        while t < end:
            at = t + rng.uniform(0, 0.2)
            rows += [row(at, r, reading(rng, phase, r, board), columns, board) for r in range(ranks)]
            t += poll
            if len(rows) >= ranks * max(every / poll, 1):
                yield {'t': round(at, 3), 'source': source, 'text': '\n'.join([head, *rows]) + '\n'}
                rows = []
        begun = end
    if rows:
        yield {'t': round(t, 3), 'source': source, 'text': '\n'.join([head, *rows]) + '\n'}


def log(seed, phases, step_s=2.0, every=30.0, source='log', announced=True, total=100000):
    """The log of the same job: a line a step while it trains, lines about saves and evaluations."""
    rng = random.Random(seed)
    t, begun, step, lines, last = 0.0, 0.0, 0, [], 0.0

    def stamp(at):
        return (START + datetime.timedelta(seconds=at)).strftime('%Y-%m-%d %H:%M:%S,') + f'{int(at * 1000) % 1000:03d}'

    for phase, seconds in phases:
        end = begun + seconds
        t = max(t, begun)
        slow = {'starved': 4, 'throttled': 1.8}.get(phase, 1)
        if phase.startswith('save') and announced:
            lines.append(f'{stamp(t)} INFO saving checkpoint at step {step} to /ckpt/step_{step}')
        if phase.startswith('evaluate'):
            lines.append(f'{stamp(t)} INFO running evaluation at step {step}')
        if lines and phase != 'train':
            yield {'t': round(t, 3), 'source': source, 'text': '\n'.join(lines) + '\n'}
            lines, last = [], t
        while phase in ('train', 'starved', 'throttled') and t < end:
            t += step_s * slow * rng.gauss(1, 0.05)
            step += 1
            lines.append(f'{stamp(t)} INFO step {step}/{total} loss {1.6 / (1 + step / 5000):.4f}')
            if t - last >= every:
                yield {'t': round(t, 3), 'source': source, 'text': '\n'.join(lines) + '\n'}
                lines, last = [], t
        t = max(t, end)
        if phase.startswith('save') and announced:
            lines.append(f'{stamp(t)} INFO saved checkpoint at step {step} to /ckpt/step_{step}')
        if lines:
            yield {'t': round(t, 3), 'source': source, 'text': '\n'.join(lines) + '\n'}
            lines, last = [], t
        begun = end
    yield {'t': round(t, 3)}


def merged(*streams):
    return sorted((line for s in streams for line in s), key=lambda line: line['t'])


def parse(words):
    return [(w.split(':')[0], float(w.split(':')[1]) if ':' in w else 120.0) for w in words]


if __name__ == '__main__':
    for item in gpus(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), parse(sys.argv[4:])):
        print(json.dumps(item))
