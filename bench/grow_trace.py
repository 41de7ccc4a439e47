#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a trace of any size from a real one: its events again and again, each copy later in time.

    bench/grow_trace.py IN.json[.gz] OUT.json --bytes 2G

In each copy time stamps move on by the span of the original, correlation, flow and external ids by more than the
largest, and the numbers of ProfilerStep by the count of steps: what a longer run would have written. Written as it is
made; memory is that of the original.
"""
import argparse
import gzip
import re

NUMBERS = re.compile(r'("ts": ?|"correlation": ?|"id": ?|"External id": ?|"Ev Idx": ?|"ProfilerStep#)(\d+)')


def read(path):
    with (gzip.open if path.endswith('.gz') else open)(path, 'rt', encoding='utf-8', errors='surrogateescape') as f:
        return f.read()


def split(text):
    """(what is before the events, the events without the last bracket, what follows them)."""
    start = text.index('[', text.index('"traceEvents"')) + 1 if '"traceEvents"' in text else text.index('[') + 1
    end = None
    for m in re.finditer(r'\}\s*\](?=\s*(,\s*"|\}|$))', text[start:]):
        end = start + m.end() - 1
    head = text[:start]
    return head, text[start:end].rstrip(), text[end:]


class Copies:
    """The events as constant text with numbers between, and how far each kind of number moves a copy."""

    def __init__(self, body):
        parts = NUMBERS.split(body)
        self.text = [parts[0]] + [''] * (len(parts) // 3)
        self.kinds, self.values = [], []
        for i in range(1, len(parts), 3):
            self.kinds.append(parts[i])
            self.values.append(int(parts[i + 1]))
            self.text[(i + 2) // 3] = parts[i + 2]
        by_kind = {}
        for kind, value in zip(self.kinds, self.values):
            low, high = by_kind.get(kind, (value, value))
            by_kind[kind] = (min(low, value), max(high, value))
        self.move = {}
        for kind, (low, high) in by_kind.items():
            if kind.startswith('"ts"'):
                low = self.first_step()
                self.move[kind] = self.last_step_end() - low if low is not None else high - by_kind[kind][0] + 1000
            elif kind.startswith('"Prof'):
                self.move[kind] = high - low + 1
            else:
                self.move[kind] = high + 1
        self.moves = [self.move[k] for k in self.kinds]

    def steps(self):
        """(start, end) of each step mark of the host, in whole microseconds."""
        text = ''.join(a + k + str(v) for a, k, v in zip(self.text, self.kinds, self.values)) + self.text[-1]
        for event in re.finditer(r'\{[^{}]*"ProfilerStep#\d+"[^{}]*', text):
            ts, dur = re.search(r'"ts": ?(\d+)', event.group()), re.search(r'"dur": ?(\d+)', event.group())
            if ts and dur and 'gpu_user_annotation' not in event.group():
                yield int(ts.group(1)), int(ts.group(1)) + int(dur.group(1)) + 1

    def first_step(self):
        self.found = getattr(self, 'found', None) or list(self.steps())
        return min((a for a, _ in self.found), default=None)

    def last_step_end(self):
        return max(b for _, b in self.found) + 10

    def copy(self, n):
        out = []
        for text, kind, value, move in zip(self.text, self.kinds, self.values, self.moves):
            out.append(f'{text}{kind}{value + n * move}')
        out.append(self.text[-1])
        return ''.join(out)


def grow(source, target, size):
    head, body, tail = split(read(source))
    copies, written, n = Copies(body), 0, 0
    with open(target, 'w', encoding='utf-8', errors='surrogateescape') as f:
        written += f.write(head)
        while n == 0 or written < size:
            written += f.write((',' if n else '') + copies.copy(n))
            n += 1
        f.write(tail)
    return n


def size_of(text):
    units = {'K': 10**3, 'M': 10**6, 'G': 10**9}
    return int(float(text[:-1]) * units[text[-1]]) if text[-1] in units else int(text)


if __name__ == '__main__':
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('source')
    p.add_argument('target')
    p.add_argument('--bytes', type=size_of, default=size_of('2G'))
    args = p.parse_args()
    print(grow(args.source, args.target, args.bytes), 'copies')
