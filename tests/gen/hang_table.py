#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The two tables of docs/hang.md, from real runs: what torchfrtrace says of a hang, and what diagnose says.

    tests/gen/hang_table.py [--update] [--lockstep build/lockstep] [--torch .venv-torch-2.13.0] [RECORDINGS]

The second table is of the cases of fr_analysis.py, which anybody can make. The first is of recordings of real jobs, a
folder each with its answer.json, and torchfrtrace.txt with what the analyser printed; without RECORDINGS it stays as it
is in docs/hang.md. --update writes both into the document.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOC = ROOT / 'docs/hang.md'
OURS = re.compile(r'nccl_trace_rank_\d+$')  # a dump as PyTorch names it
NOT_EVIDENCE = ('answer.json', 'torchfrtrace.txt')
WORDS = {
    'data_stall': 'DDP, rank 3 reads a shard that does not come',
    'ddp_uneven': 'DDP, rank 6 has fewer batches and goes on to an all_reduce of its own',
    'ddp_uneven_crash': 'the same where Gloo aborts: dumps of 2 of 8 ranks',
    'dead_rank': 'DDP, rank 3 was killed and its sockets stay open',
    'dead_rank_crash': 'rank 5 was killed, the others lose it',
    'early_exit': 'DDP, rank 1 returns early without a word',
    'fsdp_epoch_end': 'FSDP, rank 2 leaves the epoch for the barrier of a save',
    'gc_or_compile_stall': 'DDP, rank 7 runs Python code for ever',
    'healthy': 'DDP, healthy',
    'missing_subgroup_call': 'TP and DP, rank 3 skips a broadcast of its TP group',
    'order_inversion': 'two groups, rank 1 uses them in the other order',
    'p2p_pipeline': 'pipeline, rank 2 makes one receive too many',
    'rank0_culprit': 'rank 0 writes a checkpoint, the others wait in the barrier',
    'ring_overflow': 'FSDP, rank 1 leaves for a barrier; rings that have wrapped',
    'size_mismatch': 'all_gather, rank 2 has another size',
    'size_mismatch_crash': 'the same where Gloo aborts',
    'slow_not_hung': 'DDP, rank 2 is slow and comes; two recordings',
}


def lockstep(binary, folder, files):
    """'hung: 3, data-starved'"""
    p = subprocess.run([binary, 'diagnose', '--json', *map(str, files)], cwd=folder, capture_output=True, text=True)
    doc = json.loads(p.stdout)
    found = [f for f in doc['findings'] if f['severity'] != 'note']
    if not found:
        return doc['verdict']
    ranks = sorted({str(r) for f in found for r in f['culprits']['ranks']}, key=lambda r: (len(r), r))
    return f'{doc["verdict"]}: {", ".join(ranks) or "nobody"}, {found[0]["cause"]}'


def torchfrtrace(folder):
    """(what it says of the copies in NCCL's form, whom it names or None if it ends with an error)"""
    text = next(iter(sorted(folder.rglob('torchfrtrace.txt')))).read_text()
    first = re.split(r'^\$ torchfrtrace.*$', text.partition('# The same on copies')[2], flags=re.M)[1]
    if 'Traceback' in first:
        error = re.findall(r'^(\w*Error)', first, re.M)[-1]
        return f'ends with {error}', None
    named = set(re.findall(r'Culprit rank (\d+)', first))
    for ranks in re.findall(r'missing ranks: \{([^}]*)\}', first):
        named |= {r.strip() for r in ranks.split(',')}
    named = sorted(named, key=int)
    return ', '.join(named) or 'no errors', named


def recorded(binary, folder):
    rows = []
    for case in sorted(p for p in folder.iterdir() if (p / 'answer.json').exists()):
        want = [str(r) for r in json.loads((case / 'answer.json').read_text())['culprit_ranks']]
        files = [f.relative_to(case) for f in sorted(case.rglob('*')) if f.is_file() and f.name not in NOT_EVIDENCE]
        said, named = torchfrtrace(case)
        rows.append((WORDS.get(case.name, case.name), ', '.join(want) or 'nobody',
                     said + (' **wrong**' if named is not None and named != want else ''),
                     lockstep(binary, case, [f for f in files if OURS.search(f.name)]), lockstep(binary, case, files)))
    head = ('case', 'right', 'torchfrtrace, on copies', 'Lockstep, dumps only', 'Lockstep, all files')
    return '\n'.join([f'| {" | ".join(r)} |' for r in (head, *rows)]).replace('\n', '\n' + '|---' * len(head) + '|\n', 1)


def rebuilt(binary, torch):
    """The table of fr_analysis.py without the cases that both have right for one and the same reason."""
    with tempfile.TemporaryDirectory() as scratch:
        args = [sys.executable, str(ROOT / 'tests/gen/fr_analysis.py'), scratch, '--table', '--lockstep', binary]
        p = subprocess.run(args + (['--torch', torch] if torch else []), capture_output=True, text=True, check=True)
    lines = [line for line in p.stdout.splitlines() if line]
    itself = [line for line in lines if re.match(r'\| (itself|backend)_', line)]
    kept = [line for line in lines[:-1] if line not in itself or '**wrong**' in line]
    left_out = len(itself) - sum('**wrong**' in line for line in itself)
    return '\n'.join(kept) + f'\n\n{lines[-1]}\nLeft out above: {left_out} cases of an operation that meets itself, right with both.'


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument('--update', action='store_true')
    a.add_argument('--lockstep', default=os.environ.get('LOCKSTEP', 'build/lockstep'))
    a.add_argument('--torch', help='a virtual environment with PyTorch; else what its analyser said of the cases before')
    a.add_argument('recordings', nargs='?', type=pathlib.Path)
    a = a.parse_args()
    binary = os.path.abspath(a.lockstep)
    tables = {'rebuilt': rebuilt(binary, a.torch)}
    if a.recordings:
        tables['recorded'] = recorded(binary, a.recordings)
    for name, table in tables.items():
        if not a.update:
            print(table + '\n')
            continue
        text, n = re.subn(rf'(<!-- table: {name} -->\n\n).*?(\n\n<!-- end -->)', lambda m, t=table: m.group(1) + t + m.group(2),
                          DOC.read_text(), flags=re.S)
        if not n:
            sys.exit(f'{DOC}: no place for the table {name}')
        DOC.write_text(text)


if __name__ == '__main__':
    main()
