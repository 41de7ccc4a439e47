#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What diagnose says of the samples in examples/demo, text and JSON, is what tests/golden/ holds, and
what README.md shows.

Usage: golden.py [--update] LOCKSTEP
"""
import difflib
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]


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


def readme(texts):
    """README.md with the present outputs between its marks."""
    def block(m):
        lines = ['    $ lockstep diagnose examples/demo/' + m.group(1)[5:-4], '']
        lines += ['    ' + line if line else '' for line in texts[m.group(1)].splitlines()]
        return f'<!-- {m.group(1)} -->\n\n' + '\n'.join(lines) + '\n\n<!-- end -->'

    return re.sub(r'<!-- (demo_\S+\.txt) -->.*?<!-- end -->', block, (ROOT / 'README.md').read_text(), flags=re.S)


def main():
    binary, wrong = os.path.abspath(sys.argv[-1]), 0
    texts = outputs(binary)
    files = {f'tests/golden/{name}': text for name, text in texts.items()}
    files['README.md'] = readme(texts)
    for name, text in files.items():
        path = ROOT / name
        have = path.read_text() if path.exists() else ''
        if have == text:
            continue
        if '--update' in sys.argv:
            path.write_text(text)
            print(f'{path.relative_to(ROOT)}: written')
            continue
        wrong += 1
        sys.stdout.writelines(difflib.unified_diff(have.splitlines(True), text.splitlines(True),
                                                   name, 'now'))
    if wrong:
        print(f'{wrong} outputs differ; if that is right: make golden')
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
