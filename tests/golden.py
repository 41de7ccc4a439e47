#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What diagnose says of the samples in examples/demo, text and JSON, is what tests/golden/ holds.

Usage: golden.py [--update] LOCKSTEP
"""
import difflib
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
GOLDEN = ROOT / 'tests/golden'


def outputs(binary):
    """{file name: text} of all samples."""
    out = {}
    for sample in sorted(p for p in (ROOT / 'examples/demo').iterdir() if p.is_dir()):
        path = str(sample.relative_to(ROOT))
        for ending, args in (('txt', []), ('json', ['--json'])):
            p = subprocess.run([binary, 'diagnose', *args, path], cwd=ROOT, capture_output=True, text=True)
            if p.returncode > 2:
                sys.exit(f'diagnose {path}: status {p.returncode}: {p.stderr}')
            out[f'demo_{sample.name}.{ending}'] = p.stdout
    return out


def main():
    binary, wrong = os.path.abspath(sys.argv[-1]), 0
    for name, text in outputs(binary).items():
        path = GOLDEN / name
        have = path.read_text() if path.exists() else ''
        if have == text:
            continue
        if '--update' in sys.argv:
            path.write_text(text)
            print(f'{path.relative_to(ROOT)}: written')
            continue
        wrong += 1
        sys.stdout.writelines(difflib.unified_diff(have.splitlines(True), text.splitlines(True),
                                                   f'tests/golden/{name}', 'now'))
    if wrong:
        print(f'{wrong} outputs differ; if that is right: make golden')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
