#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The option table of each subcommand, as `lockstep help --options` prints it, is what --help, the
man page and the shell's completion say: no more and no less, in the same words."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def table(binary):
    rows = {}
    for line in run(binary, 'help', '--options').splitlines():
        command, name, letter, value, kind, text = line.split('\t')
        rows.setdefault(command, []).append((name, letter, value, kind, text))
    return rows


def man_options(path):
    """{name: (letter, value, text)} of the lines "*-l*, *--layout* _SPEC_" and what follows."""
    found, lines = {}, path.read_text().splitlines()
    for i, line in enumerate(lines):
        m = re.fullmatch(r'(?:\*-(\w)\*, )?\*--([\w-]+)\*(?: _([^_]+)_)?', line)
        if m:
            found[m.group(2)] = (m.group(1) or '', m.group(3) or '', lines[i + 1].strip())
    return found


def main():
    binary, wrong = str(pathlib.Path(sys.argv[1]).resolve()), []
    completion = (ROOT / 'completions/lockstep.bash').read_text()
    for command, rows in table(binary).items():
        text_help = run(binary, command, '--help')
        page = ROOT / f'man/lockstep-{command}.1.scd'
        if not page.exists():
            wrong.append(f'{page.name}: no man page')
            continue
        man = man_options(page)
        m = re.search(rf'^\t\[{command}\]="([^"]*)"', completion, re.M)
        offered = set(m.group(1).split()) if m else set()
        expected = set()
        for name, letter, value, _, text in rows:
            expected.add(f'--{name}')
            if f'--{name}' not in text_help or text not in text_help:
                wrong.append(f'{command} --help: lacks --{name} or its words')
            if name not in man:
                wrong.append(f'{page.name}: lacks --{name}')
                continue
            said = man.pop(name)
            plain = (said[2][:1].lower() + said[2][1:]).rstrip('.').replace('\\', '').replace('*', '')
            if said[:2] != (letter, value) or plain != text:
                wrong.append(f'{page.name}: --{name} is {said}, the table says '
                             f'{(letter, value, text)}')
        wrong += [f'{page.name}: --{name} is in no table' for name in man]
        if offered != expected:
            wrong.append(f'completions/lockstep.bash: [{command}] should be '
                         f'"{" ".join(sorted(expected))}"')
    print('\n'.join(wrong))
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
