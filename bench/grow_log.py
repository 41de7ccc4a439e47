#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a log of a long job of 64 ranks: what libraries print at its start, a line of progress and one of timers for
each step, a save now and then, and at its end the watchdog's lines of all ranks but one.

    bench/grow_log.py OUT --bytes 400M [--kind mixed|progress|noise|prose|watchdog|bars]
"""
import argparse
import random

UNITS = {'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}
RANKS = 64


def noise(i):
    host = f'gpu-{i // 8 % 128:03d}:{1000 + i % 8}:{2000 + i % 8} [{i % 8}] NCCL INFO'
    return (f'{host} Channel {i % 32:02d}/0 : {i % 1024}[{i % 8}] -> {(i + 8) % 1024}[{i % 8}] [send] via NET/IB/{i % 8}/GDRDMA\n'
            f'{host} Trees [0] {i % 1024}/-1/-1->{(i + 1) % 1024}->-1 [1] {i % 1024}/-1/-1->{(i + 1) % 1024}->-1\n')


def progress(i):
    seconds = 3 * i
    stamp = f'2026-{1 + seconds // 2419200 % 12:02d}-{1 + seconds // 86400 % 28:02d} {seconds // 3600 % 24:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}'
    text = (f' [{stamp}] iteration {i:8d}/  900000 | consumed samples: {1024 * i:12d} | elapsed time per iteration (ms): {3000 + i * 7919 % 97}.{i % 10} | '
            f'learning rate: 1.500E-04 | global batch size:  1024 | lm loss: {2 + i % 1000 / 1000:.6E} | loss scale: 1.0 | grad norm: 0.{i % 1000:03d} | '
            'number of skipped iterations:   0 | number of nan iterations:   0 |\n'
            f'time (ms) | forward-compute: {1190 + i % 10}.83 | forward-recv: 15.01 | backward-compute: {1324 + i % 7}.58 | backward-send: 2.61 | '
            'backward-send-forward-recv: 12.59 | backward-params-all-reduce: 22.27 | optimizer: 83.73 | batch-generator: 2.81\n')
    if i % 1000 == 0:
        text += f'saving checkpoint at iteration {i:8d} to /ckpt in torch_dist format\n  successfully saved checkpoint from iteration {i:8d} to /ckpt\n'
    return text


def watchdog(i):
    rank = i % RANKS
    head = f'[rank{rank}]:[E514 07:12:{i % 60:02d}.{340808597 + rank} ProcessGroupNCCL.cpp:632]'
    return (f'{head} [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=241, OpType=ALLREDUCE, NumelIn=6, NumelOut=6, Timeout(ms)=600000) '
            f'ran for {600000 + rank} milliseconds before timing out.\n'
            f'{head} [PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected by watchdog at work sequence id: 241 PG status: last enqueued work: 315, last completed work: 240\n')


def prose():
    """Lines of which hardly any two are alike, and none is of interest."""
    rng = random.Random(1)
    words = ('the data worker reads shard and cache config value of model layer with tensor parallel size is set to default from file path using mode '
             'enabled flag for node memory pool buffer total bytes per device stream graph kernel compiled module loaded version host name').split()
    return [' '.join(str(rng.randrange(10 ** rng.randrange(1, 7))) if rng.random() < 0.2 else rng.choice(words) for _ in range(rng.randrange(6, 30))) + '\n'
            for _ in range(20000)]


def bars(i):
    """As tqdm prints them: a carriage return in front of each, no line ever ends."""
    percent, loss = i // 4000 % 100, 2 + i % 1000 / 1000
    return (f'\rEpoch 0: {percent:3d}%|{"█" * (percent // 10):10s}| {i}/900000 [{i // 3600}:{i // 60 % 60:02d}:{i % 60:02d}<{250 - i // 3600}:00:00,  '
            f'1.{i % 100:02d}s/it, loss={loss:.3f}, v_num=0]')


def lines(kind):
    """Blocks of lines without end; a mixed log is one part noise of start-up to five of training."""
    i = 0
    texts = prose() if kind == 'prose' else []
    while True:
        i += 1
        if texts:
            yield texts[i * 7919 % len(texts)]
        elif kind in ('noise', 'watchdog', 'bars'):
            yield {'noise': noise, 'watchdog': watchdog, 'bars': bars}[kind](i)
        else:
            yield progress(i)
            if kind == 'mixed' and i % 4 == 0:
                yield noise(i)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('out')
    parser.add_argument('--bytes', default='400M')
    parser.add_argument('--kind', default='mixed', choices=['mixed', 'progress', 'noise', 'prose', 'watchdog', 'bars'])
    args = parser.parse_args()
    size = int(args.bytes.rstrip('KMG')) * UNITS.get(args.bytes[-1], 1)
    with open(args.out, 'w', encoding='utf-8', buffering=1 << 20) as f:
        for block in lines(args.kind):
            size -= f.write(block)
            if size <= 0:
                break
        for rank in range(RANKS):
            if rank != 17:
                f.write(watchdog(rank))


if __name__ == '__main__':
    main()
