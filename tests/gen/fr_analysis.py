#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The situations that PyTorch's tests for its Flight Recorder analyser look at, as dumps of jobs that hang or do not.

    tests/gen/fr_analysis.py OUT                                  one folder a case: pickle/, json/, expected.json
    tests/gen/fr_analysis.py OUT --table --lockstep build/lockstep [--torch .venv-torch-2.13.0]
    tests/gen/fr_analysis.py OUT --check --lockstep build/lockstep

The situations are PyTorch's (which operation meets which, with which sizes, types and states, and which calls of a
coalesced group are there); ranks, histories and what is right are ours. A case of two ranks with one against one is a
tie: nobody can say who is wrong, only that they differ. Hence most are there with four ranks too, and the odd one once
the last and once the first of them, since the analyser takes the first one it meets as right.

--check runs our program on each case, from the pickles and from the JSON, and fails if an answer is not the expected
one. --table prints the cases with both programs' answers; the analyser's are run if --torch is given, else taken from
RECORDED, where they were put with --torch.
"""
import argparse
import json
import os
import pickle
import re
import subprocess
import sys
import tempfile

START_NS = 1_760_000_000_000_000_000
VERSION = '2.8'


# --- entries ---

class Rank:
    """The ring of one rank, call by call."""

    def __init__(self, rank, groups, backend='nccl'):
        self.rank, self.groups, self.backend = rank, groups, backend
        self.entries, self.seq, self.p2p = [], {}, {}

    def call(self, op, ins=((4, 4),), outs=None, group='0', state='completed', types=('Float', 'Float'), coalesced=False, p2p=False):
        """coalesced: a part of the group that the next call opens or continues, which counts once."""
        desc = self.groups[group][0]
        if not coalesced:
            count = self.p2p if p2p else self.seq
            count[group] = count.get(group, 0) + 1
        i = len(self.entries)
        done = state == 'completed'
        ins = [list(s) for s in ins]
        outs = ins if outs is None else [list(s) for s in outs]
        self.entries.append({
            'frames': [{'name': op.split()[0].strip('_'), 'filename': '/job/collectives.py', 'line': 40 + len(op)}, {'name': 'main', 'filename': '/job/train.py', 'line': 12 + i}],
            'record_id': i, 'pg_id': sorted(self.groups).index(group), 'process_group': (group, desc), 'collective_seq_id': self.seq.get(group, 0), 'p2p_seq_id': self.p2p.get(group, 0),
            'op_id': i + 1, 'profiling_name': f'{self.backend}:{op}', 'time_created_ns': START_NS + i * 7_000_000 + self.rank * 41_000, 'input_sizes': ins,
            'input_dtypes': [types[0]] * len(ins), 'output_sizes': outs, 'output_dtypes': [types[1]] * len(outs), 'state': state,
            'time_discovered_started_ns': None, 'time_discovered_completed_ns': START_NS + i * 7_000_000 + 3_000_000 if done else None, 'retired': done, 'timeout_ms': 600000, 'is_p2p': p2p})
        return self

    def dump(self):
        status = {}
        for g in sorted(self.groups):
            own = [e for e in self.entries if e['process_group'][0] == g and not e['is_p2p']]
            done = [e['collective_seq_id'] for e in own if e['state'] == 'completed']
            status[str(sorted(self.groups).index(g))] = {'last_enqueued_collective': max([e['collective_seq_id'] for e in own], default=-1), 'last_started_collective': -1,
                                                         'last_completed_collective': max(done, default=-1)}
        config = {g: {'name': g, 'desc': d, 'ranks': str(r)} for g, (d, r) in self.groups.items()}
        return {'version': VERSION, 'pg_config': config, 'nccl_version': '2.26.2', 'pg_status': status, 'entries': self.entries}


def job(n, backend='nccl'):
    """n ranks that have two calls behind them."""
    ranks = [Rank(r, {'0': ('default_pg', list(range(n)))}, backend) for r in range(n)]
    for r in ranks:
        r.call('all_reduce').call('broadcast')
    return ranks


def meets(usual, odd, n=4, at=3, state='scheduled', backend='nccl'):
    """n ranks call `usual`, but the one called `at` calls `odd`; each (op, ins, outs, types, state)."""
    ranks = job(n, backend)
    for r in ranks:
        op, ins, outs, types, own = (tuple(odd if r.rank == at else usual) + (None,) * 5)[:5]
        r.call(op, ins or ((4, 4),), outs, types=types or ('Float', 'Float'), state=own or state)
    return ranks


# --- cases: name, situation, ranks, verdicts that are right, culprits (None: a tie, all or none), causes ---

WAITING = ['insufficient', 'hung']  # one snapshot in which nobody is behind cannot tell a hang from a slow step
DONE = ['healthy', 'insufficient']  # nothing is under way; whether the job goes on is not in it
COLLECTIVES = ['broadcast', '_broadcast_oop', 'reduce', '_reduce_oop', 'all_gather', 'all_reduce', '_all_gather_base', 'all_gather_into_tensor_coalesced', 'reduce_scatter',
               'reduce_scatter_tensor_coalesced', '_reduce_scatter_base', 'gather', 'scatter', 'all_to_all', 'all_reduce_barrier', 'allreduce_coalesced', 'ALLGATHER_coalesced',
               'REDUCE_SCATTER_coalesced']
REDUCE = ('all_reduce',)


def odd_cases():
    """One rank calls something else: as a tie, with the odd one last, with the odd one first."""
    rows = [
        ('type', 'an all_gather meets an all_reduce', REDUCE, ('all_gather',)),
        ('input_size', 'an all_reduce of 20 elements meets one of 16', REDUCE, ('all_reduce', ((5, 4),), ((4, 4),))),
        ('output_size', 'an all_reduce into 20 elements meets one into 16', REDUCE, ('all_reduce', ((4, 4),), ((5, 4),))),
        ('dtype', 'an all_reduce into Half meets one into Float', REDUCE, ('all_reduce', None, None, ('Float', 'Half'))),
    ]
    for name, what, usual, odd in rows:
        yield f'{name}_tie', f'{what}, one rank each', meets(usual, odd, 2, 1), ['hung'], None, ['collective-desync']
        yield f'{name}_odd_last', f'{what}: rank 3 against three', meets(usual, odd, 4, 3), ['hung'], [3], ['collective-desync']
        yield f'{name}_odd_first', f'{what}: rank 0 against three', meets(usual, odd, 4, 0), ['hung'], [0], ['collective-desync']


def same_cases():
    """All ranks call the same: nobody is to blame."""
    yield 'all_reduce_match', 'all_reduce meets all_reduce, both under way', meets(REDUCE, REDUCE, 2), WAITING, [], []
    yield 'all_to_all', 'all_to_all meets all_to_all, both under way', meets(('all_to_all',), ('all_to_all',), 2), WAITING, [], []
    bad = ('all_reduce', ((4, 4),), ((5, 4),))
    yield 'syntax_on_all', 'an all_reduce whose output is larger than its input, on every rank', meets(bad, bad, 2), WAITING, [], []
    yield 'state', 'all_reduce, done on one rank and under way on the other', meets(REDUCE, REDUCE + (None, None, None, 'completed'), 2, 0), WAITING, [], []
    gather = ('gather', ((4, 4),), ((4, 4), (4, 4)))
    yield 'gather_no_output', 'gather, with outputs on the root only', meets(gather, ('gather', ((4, 4),), ((),), ('Float', '')), 2, state='completed'), DONE, [], []
    yield 'gather_other_output', 'gather, with another output on the rank that is no root', meets(gather, ('gather', ((4, 4),), ((4, 4),), ('Float', '')), 2, state='completed'), DONE, [], []
    for op in COLLECTIVES:
        outs = ((8,),) if 'reduce_scatter' in op else ((32,),) if 'all_gather' in op else ((4, 4),)
        yield f'itself_{op.strip("_")}', f'{op} meets itself, done', meets((op, ((4, 4),), outs), (op, ((4, 4),), outs), 2, state='completed'), DONE, [], []
    for backend in 'nccl', 'ncclx', 'gloo', 'xccl', 'hccl':
        yield f'backend_{backend}', f'all_reduce on {backend}, done', meets(REDUCE, REDUCE, 2, state='completed', backend=backend), DONE, [], []


def coalesced(ranks, op, last, sizes, state='completed'):
    """A coalesced group on each rank: parts of these sizes, then the call that closes it."""
    for r in ranks:
        for i, s in enumerate(sizes[r.rank]):
            r.call(op, (s,), state=state, coalesced=i > 0)
        if sizes[r.rank]:
            r.call(last, ((),), state=state, coalesced=True)
    return ranks


def pairs(*calls):
    """calls: (rank, operation, sizes, state) of sends and receives between the ranks of a job of four."""
    ranks = job(4)
    for rank, op, sizes, *state in calls:
        ranks[rank].call(op, (sizes,), state=(state or ['scheduled'])[0], p2p=True)
    return ranks


def database_cases():
    ranks = [Rank(r, {'0': ('default_pg', [0, 1]), '1': ('sub_pg', [r])}) for r in range(2)]
    for r in ranks:
        r.call('all_reduce').call('all_reduce', ((5, 5),), group='1')
    yield 'two_groups', 'all_reduce in two groups, of which one name stands for a different group on each rank', ranks, DONE, [], []
    four, five = (4, 4), (5, 5)
    yield 'allreduce_coalesced', 'allreduce_coalesced on all ranks, done', meets(('allreduce_coalesced',), ('allreduce_coalesced',), 2, state='completed'), DONE, [], []
    yield 'broadcasts_coalesced', 'two broadcasts in a coalesced group, done', coalesced(job(2), 'broadcast', 'coalesced', [[four, four]] * 2), DONE, [], []
    yield 'uneven_all_gather_tie', 'an uneven all-gather whose second part has another size, one rank each', \
        coalesced(job(2), '_broadcast_oop', 'ALLGATHER_coalesced', [[four, five], [four, four]], 'scheduled'), ['hung'], None, ['collective-desync']
    for name, at in ('last', 3), ('first', 0):
        sizes = [[four, five] if r == at else [four, four] for r in range(4)]
        yield f'uneven_all_gather_odd_{name}', f'an uneven all-gather whose second part has another size on rank {at} of four', \
            coalesced(job(4), '_broadcast_oop', 'ALLGATHER_coalesced', sizes, 'scheduled'), ['hung'], [at], ['collective-desync']
    yield 'uneven_reduce_scatter', 'an uneven reduce-scatter that matches, done', coalesced(job(2), '_reduce_oop', 'REDUCE_SCATTER_coalesced', [[four, four]] * 2), DONE, [], []
    late = ['missing-rank', 'collective-desync', 'unknown', 'dead-rank', 'uneven-steps', 'host-stall']
    yield 'coalesced_missing', 'a coalesced group under way that rank 0 of two has not called', \
        coalesced(job(2), '_reduce_oop', 'REDUCE_SCATTER_coalesced', [[], [four, four]], 'scheduled'), ['hung'], [0], late
    yield 'coalesced_missing_of_four', 'a coalesced group under way that rank 2 of four has not called', \
        coalesced(job(4), '_reduce_oop', 'REDUCE_SCATTER_coalesced', [[four, four] if r != 2 else [] for r in range(4)], 'scheduled'), ['hung'], [2], late
    yield 'pair', 'a send and its receive, under way', pairs((0, 'send 0->1', four), (1, 'recv 1<-0', four)), WAITING, [], []
    yield 'pair_sizes', 'a send of 16 elements and a receive of 25', pairs((0, 'send 0->1', four), (1, 'recv 1<-0', five)), ['hung'], None, ['collective-desync']
    yield 'pair_half', 'a receive whose send was never called', pairs((1, 'recv 1<-0', four)), ['hung'], [0], late
    yield 'pair_wrong_peer', 'a receive from a rank that sends to another', pairs((0, 'send 0->2', four, 'completed'), (1, 'recv 1<-0', four), (2, 'recv 2<-0', four, 'completed')), ['hung'], [0], late


def cases():
    for maker in same_cases, odd_cases, database_cases:
        yield from maker()


# --- writing ---

def as_json(dump):
    out = dict(dump, nccl_comm_state={})
    out['pg_status'] = {k: {n: str(x) for n, x in v.items()} for k, v in dump['pg_status'].items()}
    out['entries'] = [{k: v or 0 if k.startswith('time_discovered') else v for k, v in e.items() if k != 'frames'} for e in dump['entries']]
    return json.dumps(out, sort_keys=True, separators=(',', ':'))


def write(out):
    rows = []
    for name, what, ranks, verdicts, culprits, causes in cases():
        folder = os.path.join(out, name)
        for form in 'pickle', 'json':
            os.makedirs(os.path.join(folder, form), exist_ok=True)
        for r in ranks:
            with open(os.path.join(folder, 'pickle', f'nccl_trace_rank_{r.rank}'), 'wb') as f:
                pickle.dump(r.dump(), f, protocol=2)
            with open(os.path.join(folder, 'json', f'fr_rank{r.rank}.json'), 'w') as f:
                f.write(as_json(r.dump()))
        expected = {'case': name, 'what': what, 'verdict': verdicts, 'culprit_ranks': culprits or [], 'tie': culprits is None, 'world_size': len(ranks), 'cause': causes}
        with open(os.path.join(folder, 'expected.json'), 'w') as f:
            json.dump(expected, f, indent=1)
        rows.append(expected)
    return rows


# --- both programs' answers ---

def ask(lockstep, folder):
    """(verdict, blamed ranks, cause of the first finding) of our program; verdict None if it gave no JSON."""
    p = subprocess.run([os.path.abspath(lockstep), 'diagnose', '--json', folder], capture_output=True, text=True, timeout=60, check=False)
    try:
        doc = json.loads(p.stdout)
    except ValueError:
        return None, [], f'exit {p.returncode}'
    found = [f for f in doc['findings'] if f['severity'] != 'note']
    return doc['verdict'], sorted({r for f in found for r in f['culprits'].get('ranks') or []}), found[0]['cause'] if found else ''


def right(expected, answer):
    verdict, blamed, cause = answer
    everybody = list(range(expected['world_size']))
    if verdict not in expected['verdict']:
        return False
    if expected['cause'] and cause not in expected['cause']:
        return False
    if expected['tie']:
        return blamed in ([], everybody, [r for r in everybody if r < 2])
    return blamed == expected['culprit_ranks']


def ask_torch(venv, folder):
    """What torchfrtrace says in a few words: "blames 1, 2", "misses 0", "no errors", or how it ends."""
    p = subprocess.run([os.path.join(venv, 'bin', 'torchfrtrace'), folder, '-p', 'nccl_trace_rank_'], capture_output=True, text=True, timeout=120, check=False)
    text = p.stdout + p.stderr
    if p.returncode:
        last = [line for line in text.strip().split('\n') if re.match(r'\w+(Error|Exception)', line)]
        return 'crashes: ' + (last[-1].split(':')[0] if last else f'exit {p.returncode}')
    said = []
    blamed = sorted({int(r) for r in re.findall(r'Culprit rank (\d+)', text)})
    kinds = sorted(set(re.findall(r'Error type: (\w+)', text)))
    missing = sorted({int(r) for m in re.findall(r'missing ranks: \{([\d, ]*)\}', text) for r in m.split(',') if r.strip()})
    if blamed:
        said.append(f'blames {", ".join(map(str, blamed))} ({", ".join(kinds)})')
    if missing:
        said.append(f'misses {", ".join(map(str, missing))}')
    return '; '.join(said) or 'no errors'


def torch_right(expected, said):
    named = sorted({int(n) for part in said.split(';') for n in re.findall(r'\d+', part.split('(')[0])})
    if said.startswith('crashes'):
        return False
    return bool(named) and max(named) < 2 if expected['tie'] else named == expected['culprit_ranks']


# torchfrtrace of PyTorch 2.13.0, as --torch gave it.
RECORDED = {
    'all_reduce_match': 'no errors',
    'all_to_all': 'no errors',
    'syntax_on_all': 'blames 1 (SIZE_OR_SYNTAX_MISMATCH)',
    'state': 'blames 1 (COLLECTIVE_STATE_MISMATCH)',
    'gather_no_output': 'no errors',
    'gather_other_output': 'no errors',
    'itself_broadcast': 'no errors',
    'itself_broadcast_oop': 'no errors',
    'itself_reduce': 'no errors',
    'itself_reduce_oop': 'no errors',
    'itself_all_gather': 'no errors',
    'itself_all_reduce': 'no errors',
    'itself_all_gather_base': 'no errors',
    'itself_all_gather_into_tensor_coalesced': 'no errors',
    'itself_reduce_scatter': 'no errors',
    'itself_reduce_scatter_tensor_coalesced': 'no errors',
    'itself_reduce_scatter_base': 'no errors',
    'itself_gather': 'no errors',
    'itself_scatter': 'no errors',
    'itself_all_to_all': 'no errors',
    'itself_all_reduce_barrier': 'no errors',
    'itself_allreduce_coalesced': 'no errors',
    'itself_ALLGATHER_coalesced': 'no errors',
    'itself_REDUCE_SCATTER_coalesced': 'no errors',
    'backend_nccl': 'no errors',
    'backend_ncclx': 'no errors',
    'backend_gloo': 'no errors',
    'backend_xccl': 'no errors',
    'backend_hccl': 'no errors',
    'type_tie': 'blames 1 (COLLECTIVE_TYPE_MISMATCH)',
    'type_odd_last': 'blames 3 (COLLECTIVE_TYPE_MISMATCH)',
    'type_odd_first': 'blames 1, 2, 3 (COLLECTIVE_TYPE_MISMATCH)',
    'input_size_tie': 'blames 1 (SIZE_OR_SYNTAX_MISMATCH)',
    'input_size_odd_last': 'blames 3 (SIZE_OR_SYNTAX_MISMATCH)',
    'input_size_odd_first': 'blames 1, 2, 3 (SIZE_OR_SYNTAX_MISMATCH)',
    'output_size_tie': 'blames 1 (SIZE_OR_SYNTAX_MISMATCH)',
    'output_size_odd_last': 'blames 3 (SIZE_OR_SYNTAX_MISMATCH)',
    'output_size_odd_first': 'blames 1, 2, 3 (SIZE_OR_SYNTAX_MISMATCH)',
    'dtype_tie': 'blames 1 (COLLECTIVE_DTYPE_MISMATCH)',
    'dtype_odd_last': 'blames 3 (COLLECTIVE_DTYPE_MISMATCH)',
    'dtype_odd_first': 'blames 1, 2, 3 (COLLECTIVE_DTYPE_MISMATCH)',
    'two_groups': 'no errors',
    'allreduce_coalesced': 'no errors',
    'broadcasts_coalesced': 'no errors',
    'uneven_all_gather_tie': 'blames 1 (SIZE_OR_SYNTAX_MISMATCH)',
    'uneven_all_gather_odd_last': 'blames 3 (SIZE_OR_SYNTAX_MISMATCH)',
    'uneven_all_gather_odd_first': 'blames 1, 2, 3 (SIZE_OR_SYNTAX_MISMATCH)',
    'uneven_reduce_scatter': 'no errors',
    'coalesced_missing': 'misses 0',
    'coalesced_missing_of_four': 'misses 2',
    'pair': 'misses 2, 3',
    'pair_sizes': 'misses 2, 3',
    'pair_half': 'misses 0, 2, 3',
    'pair_wrong_peer': 'misses 3',
}


def short(answer):
    verdict, blamed, cause = answer
    return f'{verdict}{", " + cause if cause else ""}{": " + ", ".join(map(str, blamed)) if blamed else ""}'


def expected_text(e):
    who = 'a tie' if e['tie'] else ', '.join(map(str, e['culprit_ranks'])) or 'nobody'
    return f'{who} ({e["verdict"][0]})'


def table(rows, out, lockstep, venv):
    print('| case | situation | right | torchfrtrace 2.13 | Lockstep |\n|---|---|---|---|---|')
    count = [0, 0]
    for e in rows:
        folder = os.path.join(out, e['case'])
        said = ask_torch(venv, os.path.join(folder, 'pickle')) if venv else RECORDED.get(e['case'], 'not run')
        ours = ask(lockstep, os.path.join(folder, 'pickle'))
        good = torch_right(e, said), right(e, ours)
        count = [c + g for c, g in zip(count, good)]
        print(f'| {e["case"]} | {e["what"]} | {expected_text(e)} | {said}{"" if good[0] else " **wrong**"} | {short(ours)}{"" if good[1] else " **wrong**"} |')
    print(f'\n{len(rows)} cases: torchfrtrace right in {count[0]}, Lockstep in {count[1]}.')


def check(rows, out, lockstep):
    wrong = 0
    for e in rows:
        for form in 'pickle', 'json':
            answer = ask(lockstep, os.path.join(out, e['case'], form))
            if not right(e, answer):
                wrong += 1
                print(f'{e["case"]}/{form}: expected {expected_text(e)} {e["verdict"]} {e["cause"]}, got {short(answer)}')
    print(f'{len(rows)} cases, twice each: {wrong} wrong')
    return wrong


def main():
    a = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    a.add_argument('out', nargs='?')
    a.add_argument('--table', action='store_true')
    a.add_argument('--check', action='store_true')
    a.add_argument('--record', action='store_true', help='print the analyser\'s answers as RECORDED')
    a.add_argument('--lockstep', default=os.environ.get('LOCKSTEP', 'build/lockstep'))
    a.add_argument('--torch', help='a virtual environment with PyTorch')
    a = a.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out = a.out or scratch
        rows = write(out)
        if a.record:
            for e in rows:
                print(f'    {e["case"]!r}: {ask_torch(a.torch, os.path.join(out, e["case"], "pickle"))!r},')
        if a.table:
            table(rows, out, a.lockstep, a.torch)
        return 1 if a.check and check(rows, out, a.lockstep) else 0


if __name__ == '__main__':
    sys.exit(main())
