#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How well a step record keeps the durations of kernels, on real traces: a table for docs/lks.md.

    bench/w1.py build/lockstep [--check] [TRACE...]

Each trace is exported to step records, which are read here by docs/lks.md alone. Each row of kernels (a name on a class
of streams in a step) is set beside the durations in the trace itself: count, sum and maximum must be equal, and the
error is the Wasserstein-1 distance between the raw durations and those that the bins give back (each count at the
middle of its bin), as a share of the mean. With --check: exit status 1 if an error is 2 % or more, or if a row of the
record has no durations in the trace; else the last column tells how large the record of one step becomes that holds
the same kernels and launches again and again until the text of its kernel events is 10 MB. Without traces: those of
$LOCKSTEP_SHARED (../shared), and a generated job.
"""
import argparse
import bisect
import collections
import gzip
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
from decimal import Decimal

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHARED = os.path.join(os.environ.get('LOCKSTEP_SHARED', os.path.join(ROOT, '..', 'shared')), 'data')
BASE, BOUND = 1.04, 0.02
OWN_TIMES = 15 + 6 + 6  # plain times at the head of a record
GPU_WORK = {'kernel', 'mtia_ccp_events'}
COLLECTIVE = re.compile(r'^(void )?(nccl|rccl|ncclDev|oneccl)', re.I)


class Bytes:
    """What docs/lks.md calls a varint, a signed, an id and a string."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def varint(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self):
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def id(self):
        value = self.varint()
        return value - 1 if value else None

    def take(self, n):
        self.at += n
        return self.data[self.at - n:self.at]

    def left(self):
        return self.at < len(self.data)


Row = collections.namedtuple('Row', 'name count sum max bins')
Step = collections.namedtuple('Step', 'number bytes kernel_bytes rows')


def blocks(data):
    """(type, payload) of each record of a segment, those that go on put together."""
    at, open_ = 12, b''
    while at < len(data):
        size, kind, flags = int.from_bytes(data[at:at + 4], 'little'), data[at + 4], data[at + 5]
        open_ += data[at + 12:at + 12 + size]
        at += 12 + size
        if not flags & 1:
            yield kind, open_
            open_ = b''


def kernel_rows(b, names):
    """The rows of kernels of the record at b, and their bytes."""
    b.id(), b.varint(), b.varint()  # what held the host, tokens, dropped
    for _ in range(b.varint()):  # phases
        b.id(), b.varint()
        for _ in range(6):
            b.signed()
    rows, begin = [], b.at
    for _ in range(b.varint()):
        name, _, count, total, most = names[b.id()], b.varint(), b.varint(), b.signed(), b.signed()
        last, bins = 0, []
        for _ in range(b.varint()):
            last += b.varint()
            bins.append((last, b.varint()))
        rows.append(Row(name, count, total, total + most if count == 1 else most, bins))
    return rows, b.at - begin


def read_segment(path):
    """The steps."""
    with open(path, 'rb') as f:
        data = f.read()
    assert data[:8] == b'LKSTEP1\n'
    names, steps = {}, []
    for kind, payload in blocks(data):
        b = Bytes(payload)
        if kind == 1:
            first, n = b.varint(), b.varint()
            for i in range(n):
                names[first + i] = b.take(b.varint()).decode(errors='replace')
        elif kind == 3:
            number = b.varint()
            while b.left():
                size = b.varint()
                record = Bytes(b.take(size))
                record.varint(), record.varint(), record.varint()  # number, row of the rank, flags
                for _ in range(OWN_TIMES):
                    record.signed()
                rows, kernel_bytes = kernel_rows(record, names)
                steps.append(Step(number, size, kernel_bytes, rows))
    return steps


def ns(microseconds):
    """As the reader takes the text of a number: whole nanoseconds, the rest cut off."""
    return int(Decimal(repr(microseconds)) * 1000)


def kernel_name(event):
    return str(event.get('name', '')).encode()[:512].decode(errors='replace')


class Trace:
    """The raw kernels of one trace, by the rules of docs/architecture.md, and none of the product's code."""

    def __init__(self, events):
        spans = [e for e in events if e.get('ph') == 'X' and isinstance(e.get('ts'), (int, float))]
        self.kernels = [e for e in spans if str(e.get('cat', '')).lower() in GPU_WORK and 'dur' in e]
        self.launches = {}
        for e in spans:
            correlation = (e.get('args') or {}).get('correlation')
            if correlation and re.search('runtime|driver', str(e.get('cat', '')), re.I):
                self.launches.setdefault(correlation, e)
        self.marks = self.settled(e for e in spans if str(e.get('name', '')).startswith('ProfilerStep#') and e.get('cat') != 'gpu_user_annotation')
        self.bytes = sum(len(json.dumps(e)) for e in self.kernels)

    @staticmethod
    def settled(found):
        """(start, end, number) of step marks in order, none inside another, none twice."""
        marks = []
        for e in sorted(found, key=lambda e: (e['ts'], -e.get('dur', 0))):
            mark = (e['ts'], e['ts'] + e.get('dur', 0), int(re.search(r'#(\d+)', e['name']).group(1)))
            if not marks or (mark[2] != marks[-1][2] and mark[0] + 1000 >= marks[-1][1]):
                marks.append(mark)
        return marks

    def step_of(self, kernel, first):
        """The step of its launch, else of its own start unless it was launched before the recording."""
        correlation = (kernel.get('args') or {}).get('correlation')
        launch = self.launches.get(correlation)
        if not self.marks:
            return 0
        if not launch and correlation and first and correlation < first:
            return None
        at = (launch or kernel)['ts']
        i = bisect.bisect_right(self.marks, at, key=lambda m: m[0]) - 1
        return self.marks[i][2] if i >= 0 and at < self.marks[i][1] else None

    def durations(self):
        """{(step, name): {stream: durations}}."""
        groups = collections.defaultdict(lambda: collections.defaultdict(list))
        first = min(self.launches, default=None)
        for k in self.kernels:
            stream = (str(k.get('pid')), str(k.get('tid')), k.get('name'))
            groups[self.step_of(k, first), kernel_name(k)][stream].append(ns(k['dur']))
        return groups

    def grown(self, size):
        """Kernels and launches again and again, each time later, until they hold so many bytes; no marks: one step."""
        span = max(e['ts'] + e.get('dur', 0) for e in self.kernels) - min(e['ts'] for e in [*self.kernels, *self.launches.values()]) + 100
        most = max(self.launches, default=0) + 1
        for n in range(-(-size // self.bytes)):
            for e in [*self.launches.values(), *self.kernels]:
                args = dict(e.get('args') or {})
                if 'correlation' in args:
                    args['correlation'] += n * most
                yield {**e, 'ts': e['ts'] + n * int(span), 'args': args}


def raw_of(rows, streams):
    """[(row, durations or None)]: rows of one name in one step, each with the stream whose kernels it counts; what several
    streams share is the last one's."""
    left, out, open_rows = list(streams.values()), [], []
    for row in rows:
        fits = [v for v in left if (len(v), sum(v), max(v)) == (row.count, row.sum, row.max)]
        if fits:
            left.remove(fits[0])
            out.append((row, fits[0]))
        else:
            open_rows.append(row)
    for row in open_rows:
        rest = sum(left, [])
        fits = len(open_rows) == 1 and rest and (len(rest), sum(rest), max(rest)) == (row.count, row.sum, row.max)
        out.append((row, rest if fits else None))
    return out


def w1(raw, rebuilt):
    """Both sorted; as a share of the raw mean."""
    total = sum(raw)
    return sum(abs(x - y) for x, y in zip(raw, rebuilt)) / total if total else None


def rebuild(row):
    return [BASE ** (bin + .5) if bin else .5 for bin, n in row.bins for _ in range(n)]


def shares(sizes):
    return f'{statistics.mean(a for a, _ in sizes):,.0f} of {statistics.mean(b for _, b in sizes):,.0f}'


class Score:
    """What is told of one line of the table."""

    def __init__(self, name):
        self.name, self.kernels, self.raw_bytes, self.grown = name, 0, 0, []
        self.plain, self.scaled, self.records, self.lost = [], [], [], []

    def row(self, row, raw):
        if raw is None:
            self.lost.append(f'{self.name}: {row.name[:60]}: {row.count}, sum {row.sum}, most {row.max}')
            return
        raw, rebuilt = sorted(raw), rebuild(row)
        error = w1(raw, rebuilt)
        if error is None:
            return  # durations of 0
        self.plain.append((error, row.name))
        scale = row.sum / sum(rebuilt)
        self.scaled.append(w1(raw, [y * scale for y in rebuilt]))

    def steps(self, steps, trace):
        groups = trace.durations()
        self.kernels += len(trace.kernels)
        self.raw_bytes += trace.bytes
        for step in steps:
            self.records.append((step.kernel_bytes, step.bytes))
            rows = collections.defaultdict(list)
            for r in step.rows:
                rows[r.name].append(r)
            for name, of_name in rows.items():
                for row, raw in raw_of(of_name, groups.get((step.number, name), {})):
                    self.row(row, raw)

    def line(self):
        n, errors = len(self.records), [e for e, _ in self.plain]
        return (f'| {self.name} | {self.kernels:,} | {len(errors):,} | {max(errors) * 100:.2f} % | {statistics.median(errors) * 100:.2f} % | '
                f'{max(self.scaled) * 100:.2f} %, {statistics.median(self.scaled) * 100:.2f} % | {self.raw_bytes / n / 1e6:.2f} | {shares(self.records)} |'
                + (f' {shares(self.grown)} |' if self.grown else ''))


HEAD = """| trace | kernels | distributions | worst error | median | worst, median with the sum | kernel events a step, MB | bytes a step: kernels, all |{}
|---|---|---|---|---|---|---|---|{}"""


def export(lockstep, path):
    with tempfile.TemporaryDirectory() as t:
        subprocess.run([lockstep, 'export', '--steps', t, path], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (segment,) = os.listdir(t)
        return read_segment(os.path.join(t, segment))


def events_of(path):
    with (gzip.open if path.endswith('.gz') else open)(path, 'rt', encoding='utf-8', errors='replace') as f:
        document = json.load(f, strict=False)
    return document['traceEvents'] if isinstance(document, dict) else document


def scored(lockstep, name, paths, at):
    score = Score(name)
    for path in paths:
        trace = Trace(events_of(path))
        if not trace.kernels:
            continue
        score.steps(export(lockstep, path), trace)
        if at:
            with tempfile.NamedTemporaryFile('w', suffix='.json') as f:
                json.dump({'traceEvents': list(trace.grown(at))}, f)
                f.flush()
                score.grown += [(s.kernel_bytes, s.bytes) for s in export(lockstep, f.name)]
    return score if score.plain else None


def unpacked(path, folder):
    """The files of an archive, whatever folders they lie in."""
    os.mkdir(folder)
    paths = []
    with tarfile.open(path) as tar:
        for member in tar:
            if member.isfile():
                paths.append(os.path.join(folder, f'{len(paths)}-{os.path.basename(member.name)}'))
                with open(paths[-1], 'wb') as out:
                    shutil.copyfileobj(tar.extractfile(member), out)
    return paths


def sources(folder):
    """(name, paths) of the traces that there are."""
    made = os.path.join(folder, 'made')
    subprocess.run([sys.executable, os.path.join(ROOT, 'tests', 'gen', 'make_job.py'), '--out', made, '--seed', '12', '--dp', '4', '--steps', '6'],
                   check=True, stdout=subprocess.DEVNULL)
    yield '(generated, 4 ranks)', sorted(os.path.join(made, f) for f in os.listdir(made) if f != 'answer.json')
    kineto = os.path.join(SHARED, 'kineto')
    if not os.path.isdir(kineto):
        print('skipped: no shared data', file=sys.stderr)
        return
    for name in sorted(os.listdir(kineto)):
        path, short = os.path.join(kineto, name), re.sub(r'\.(json\.gz|tar\.gz|json)$', '', name)
        if name.endswith('.tar.gz'):
            yield short, unpacked(path, os.path.join(folder, short))
        else:
            yield short, [path]


def scores(lockstep, traces=(), at=0):
    with tempfile.TemporaryDirectory(prefix='lockstep-w1-') as t:
        for name, paths in [(os.path.basename(p), [p]) for p in traces] or sources(t):
            score = scored(lockstep, name, paths, at)
            if score:
                yield score


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('lockstep')
    parser.add_argument('traces', nargs='*')
    parser.add_argument('--check', action='store_true')
    args = parser.parse_args()
    print(HEAD.format(*(('', '') if args.check else (' bytes at 10 MB |', '---|'))))
    failed = []
    for score in scores(args.lockstep, args.traces, 0 if args.check else 10**7):
        print(score.line(), flush=True)
        failed += [f'no such durations in the trace: {lost}' for lost in score.lost]
        failed += [f'{score.name}: {name[:60]}: off by {error * 100:.2f} %' for error, name in score.plain if error >= BOUND]
    for text in failed:
        print(text, file=sys.stderr)
    return 1 if failed and args.check else 0


if __name__ == '__main__':
    sys.exit(main())
