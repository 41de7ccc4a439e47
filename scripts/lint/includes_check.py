#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rooms include one another in one direction only; this is the table (docs/architecture.md)."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAY = {
    'base': set(),
    'model': {'base'},
    'read': {'base', 'model'},
    'fold': {'base', 'model'},
    'judge': {'base', 'model'},
    'show': {'base', 'model'},
    'store': {'base', 'model'},
    'node': {'base'},
    'meet': {'base'},
    'preflight': {'base', 'read', 'node', 'meet'},
    'alert': {'base'},
    'watch': {'base', 'read', 'node', 'alert'},
    'run': {'base', 'model', 'read', 'meet'},
    'sim': {'base', 'model'},
    'tracer': set(),
    'agent': {'base', 'model', 'fold', 'store'},
    'cmd': {'base', 'model', 'read', 'fold', 'judge', 'show', 'store', 'node', 'meet', 'preflight', 'alert', 'watch', 'run', 'sim',
            'agent'},
}
# In the training process there is libc and nothing of ours but these.
IN_PROCESS = {'model/ring_layout.h', 'lockstep/lockstep.h'}


def main():
    wrong = []
    names = {}
    for path in sorted((ROOT / 'src').rglob('*.[ch]')):
        room = path.relative_to(ROOT / 'src').parts[0]
        other = names.setdefault(path.name, path)
        if other != path:
            wrong.append(f'{path.relative_to(ROOT)}: the name is taken by {other.relative_to(ROOT)}')
        if room not in MAY:
            wrong.append(f'{path.relative_to(ROOT)}: "{room}" is no room that this check knows')
            continue
        for n, line in enumerate(path.read_text().splitlines(), 1):
            m = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            if not m:
                continue
            to = m.group(1).split('/')[0]
            if '/' not in m.group(1):
                wrong.append(f'{path.relative_to(ROOT)}:{n}: "{m.group(1)}" lacks its room')
            elif to != room and to not in MAY[room] and not (room == 'tracer' and m.group(1) in IN_PROCESS):
                wrong.append(f'{path.relative_to(ROOT)}:{n}: {room} may not include {m.group(1)}')
    print('\n'.join(wrong))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
