#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep even` as people meet it: counts in every shape, shards of every kind, and what is wrong with either.

The shards come from tests/gen/shard_files.py; where pyarrow or numpy can be imported, from these as well.
"""
import gzip
import io
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT / 'tests/gen')  # not tests/, whose torch/ is no torch
import shard_files as made  # noqa: E402

LOCKSTEP = os.path.abspath(os.environ.get('LOCKSTEP', ROOT / 'build/lockstep'))
# Sixteen ranks as in arXiv 2608.05944: rank 3 has the fewest blocks, rank 11 the most, 8 make a step.
INCIDENT = [30861] * 16
INCIDENT[3], INCIDENT[11] = 30835, 30888


def jsonl(n, **more):
    return ''.join(json.dumps({'text': f'record {i}', **{k: v(i) for k, v in more.items()}}) + '\n' for i in range(n))


MARKED = {'utf-8': b'\xef\xbb\xbf', 'utf-16-le': b'\xff\xfe', 'utf-16-be': b'\xfe\xff', 'utf-32-le': b'\xff\xfe\0\0'}


def marked(text, form):
    return MARKED[form] + text.encode(form)


class Even(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.dir = pathlib.Path(scratch.name)

    def put(self, name, data):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def run_even(self, *argv, status=None):
        p = subprocess.run([LOCKSTEP, 'even', *map(str, argv)], capture_output=True, timeout=60)
        self.said, self.out = p.stderr.decode(), p.stdout.decode()
        if status is not None:
            self.assertEqual(p.returncode, status, self.said + self.out)
        for line in self.said.splitlines():
            self.assertTrue(line.startswith('lockstep: '), line)
            self.assertTrue(all(c.isprintable() for c in line), line)
        return p.returncode

    def even(self, *argv, status=None):
        self.run_even('--json', *argv, status=status)
        return json.loads(self.out)

    def blocks(self, *argv, status=None):
        doc = self.even(*argv, status=status)
        self.assertIn('ranks', doc, doc)
        return [r['blocks'] for r in doc['ranks']]

    def refused(self, *argv):
        """One line, exit 2, and what it says."""
        doc = self.even(*argv, status=2)
        self.assertEqual(doc['verdict'], 'cannot-tell')
        self.assertEqual(len(self.said.splitlines()), 1, self.said)
        return self.said

    # the incident

    def test_the_incident_stops_at_3854(self):
        path = self.put('counts.csv', 'rank,blocks\n' + ''.join(f'{r},{n}\n' for r, n in enumerate(INCIDENT)))
        doc = self.even('--blocks-per-step', 8, path, status=1)
        self.assertEqual((doc['first'], doc['last']), ({'rank': 3, 'blocks': 30835, 'steps': 3854},
                                                       {'rank': 11, 'blocks': 30888, 'steps': 3861}))
        self.assertEqual((doc['blocks_apart'], doc['steps_apart'], doc['ranks_short']), (53, 7, 15))
        plan = doc['plan']
        self.assertEqual((plan['stop_step'], plan['dropped_most'], plan['dropped_most_rank']), (3854, 56, 11))
        self.assertEqual(plan['blocks_dropped'], sum(n - 3854 * 8 for n in INCIDENT))
        self.assertEqual(plan['blocks_dropped_partial'], sum(n % 8 for n in INCIDENT))
        self.run_even('--blocks-per-step', 8, path, status=1)
        self.assertIn('rank 3 runs out after 3,854 steps, 7 steps before rank 11 (3,861)', self.out)
        self.assertIn('stop every rank at step 3,854', self.out)
        self.assertIn('3,854 whole steps and 3 of 8 blocks', self.out)
        self.assertLessEqual(max(map(len, self.out.splitlines())), 100)

    def test_a_kept_last_step_counts(self):
        path = self.put('counts.txt', '\n'.join(map(str, INCIDENT)))
        doc = self.even('--keep-last', '-b', 8, path, status=1)
        self.assertEqual((doc['first']['steps'], doc['last']['steps'], doc['plan']['stop_step']), (3855, 3861, 3855))
        self.assertEqual(doc['plan']['blocks_dropped'], sum(max(0, n - 3855 * 8) for n in INCIDENT))
        self.assertEqual(doc['plan']['blocks_dropped_partial'], 0)

    def test_pad_and_repeat_go_up_to_the_longest(self):
        path = self.put('counts.json', json.dumps(INCIDENT))
        for how in ('pad', 'repeat'):
            plan = self.even('--how', how, '-b', 8, path, status=1)['plan']
            self.assertEqual((plan['how'], plan['stop_step'], plan['blocks_dropped']), (how, 3861, 0))
            self.assertEqual(plan['blocks_added'], sum(30888 - n for n in INCIDENT))

    def test_equal_steps_are_balanced(self):
        path = self.put('c.txt', '24\n31\n')
        self.even('-b', 8, path, status=0)
        self.even('-b', 8, '--keep-last', path, status=1)
        doc = self.even('-b', 8, '--keep-last', self.put('d.txt', '25\n31\n'), status=0)
        self.assertTrue(doc['ragged'])

    def test_a_rank_without_a_step_is_no_plan(self):
        self.run_even('-b', 8, self.put('c.txt', '7\n80\n'), status=1)
        self.assertIn('none: rank 0 has not enough for one step', self.out)
        self.assertIn('no rank has enough for one step', self.refused('-b', 8, self.put('d.txt', '7\n5\n')))

    def test_the_arithmetic_holds_on_random_counts(self):
        rng = random.Random(5)
        for _ in range(40):
            blocks = [rng.randrange(0, 400) for _ in range(rng.randrange(1, 40))]
            step, keep = rng.randrange(1, 12), rng.random() < 0.5
            how = rng.choice(['drop', 'pad', 'repeat'])
            doc = self.even('-b', step, '--how', how, *(['--keep-last'] if keep else []),
                            self.put('c.txt', '\n'.join(map(str, blocks)) + '\n'))
            steps = [-(-n // step) if keep else n // step for n in blocks]
            stop = min(steps) if how == 'drop' else max(steps)
            self.assertEqual([r['steps'] for r in doc['ranks']], steps)
            self.assertEqual(doc['verdict'], 'balanced' if min(steps) == max(steps) else 'uneven')
            self.assertEqual(doc['plan']['stop_step'], stop)
            runs = [n if s < stop else min(n, stop * step) for n, s in zip(blocks, steps)]
            self.assertEqual(doc['plan']['blocks_dropped'], sum(blocks) - sum(runs))
            self.assertEqual(doc['plan']['blocks_added'],
                             sum(min(stop * step, max(blocks)) - n for n, s in zip(blocks, steps) if s < stop))

    # counts files

    def test_counts_in_every_shape_are_the_same(self):
        want = [5, 7, 6, 9]
        by_rank = {str(r): n for r, n in enumerate(want)}
        rows = [{'rank': r, 'blocks': n} for r, n in enumerate(want)]
        shuffled = rows[2:] + rows[:2]
        texts = {
            'object.json': json.dumps(by_rank),
            'named.json': json.dumps({f'rank_{r}': n for r, n in by_rank.items()}),
            'list.json': json.dumps(want),
            'rows.json': json.dumps(shuffled, indent=2),
            'wrapped.json': json.dumps({'version': 3, 'world_size': 4, 'blocks': by_rank, 'note': ['x']}),
            'ranks.json': json.dumps({'ranks': shuffled}),
            'per_rank.json': json.dumps({'blocks_per_rank': want}),
            'nested.json': json.dumps({r: {'num_blocks': n, 'host': 'h1'} for r, n in by_rank.items()}),
            'columns.json': json.dumps({'rank': [3, 2, 1, 0], 'blocks': want[::-1]}),
            'pandas.json': json.dumps({'blocks': {'0': 9, '1': 5, '2': 7, '3': 6}, 'rank': {'0': 3, '1': 0, '2': 1, '3': 2}}),
            'hosts.json': json.dumps({'made': 'x', 'node0': {'0': 5, '1': 7}, 'node1': {'2': 6, '3': {'blocks': 9}}}),
            'lines.jsonl': ''.join(json.dumps(r) + '\n' for r in shuffled),
            'strings.json': json.dumps({r: str(n) for r, n in by_rank.items()}),
            'a.csv': 'rank,blocks\n' + ''.join(f'{r},{n}\n' for r, n in enumerate(want)),
            'b.csv': 'host;num_blocks;Rank\n' + ''.join(f'h{r};{n};{r}\n' for r, n in reversed(list(enumerate(want)))),
            'c.tsv': '# made by hand\nblocks\trank\n\n' + ''.join(f'{n}\t{r}\n' for r, n in enumerate(want)),
            'crlf.csv': '\ufeffrank,blocks\r\n' + ''.join(f'{r},{n}\r\n' for r, n in enumerate(want)),
            'float.csv': 'rank,blocks\n' + ''.join(f'{r},{n}.0\n' for r, n in enumerate(want)),
            'quoted.csv': '"rank","blocks"\n' + ''.join(f'"{r}","{n}"\n' for r, n in enumerate(want)),
            'bare.csv': ''.join(f'{r},{n}\n' for r, n in enumerate(want)),
            'spaces.txt': ''.join(f'{r} {n}\n' for r, n in enumerate(want)),
            'numbers.txt': '\n'.join(map(str, want)),
            'column.csv': 'blocks\n' + ''.join(f'{n}\n' for n in want),
        }
        for name, text in texts.items():
            with self.subTest(name):
                self.assertEqual(self.blocks(self.put(name, text), status=1), want)
        # as Excel and PowerShell save them
        for name, text in texts.items():
            for form in MARKED:
                with self.subTest(name, form=form):
                    self.assertEqual(self.blocks(self.put(name, marked(text.lstrip('\ufeff'), form)), status=1), want)

    def test_text_of_any_form_is_counted(self):
        for form in MARKED:
            for pack in lambda b: b, gzip.compress:
                for r in 0, 1, 2:
                    text = ''.join(json.dumps({'text': 'ä€😀', 'n': [1] * 10}, ensure_ascii=False) + '\r\n' for _ in range(500 + r))
                    self.put(f's/rank{r}.jsonl', pack(marked(text, form)))
                doc = self.even('-s', 10, '--length-field', 'n', self.dir / 's', status=1)
                self.assertEqual([(r['records'], r['blocks']) for r in doc['ranks']], [(500 + r, 500 + r) for r in range(3)], form)
                self.assertEqual(self.blocks(self.dir / 's', status=1), [500, 501, 502])
        # without a mark it is not guessed at, but said
        said = self.refused(self.put('counts.csv', 'rank,blocks\n0,5\n1,5\n'.encode('utf-16-be')))
        self.assertIn('UTF-16BE', said)
        self.assertIn('iconv -f UTF-16BE', said)
        self.assertIn('a binary file', self.refused(self.put('ids.bin', struct.pack('<100H', *range(100)))))
        # cut in the middle of a letter, or of a pair
        for form, text in ('utf-16-le', 'rank,blocks\n0,5\n1,55'), ('utf-16-be', 'rank,blocks\n0,5\n1,5😀'):
            self.assertIn('is no whole number', self.refused(self.put('cut.csv', marked(text, form)[:-1 if form[-2] == 'l' else -2])))

    def test_one_file_a_rank(self):
        for form in ('{n}\n', '{{"blocks": {n}}}', '{{"rank": {r}, "blocks": {n}}}', 'rank,blocks\n{r},{n}\n'):
            with self.subTest(form):
                folder = self.dir / 'ranks'
                for r, n in enumerate([5, 7, 6]):
                    self.put(f'ranks/rank_{r}.txt', form.format(n=n, r=r))
                self.assertEqual(self.blocks(folder, status=1), [5, 7, 6])
                shutil.rmtree(folder)
        for first in (0, 1):  # numbers without the word, more than ten
            for r in range(12):
                self.put(f'bare{first}/counts_{r + first}.txt', f'{100 + r}\n')
            self.assertEqual(self.blocks(self.dir / f'bare{first}', status=1), list(range(100, 112)))
        (self.dir / 'bare0/counts_7.txt').unlink()
        self.assertIn('no count of rank 7', self.refused(self.dir / 'bare0'))
        for r, n in enumerate([5, 7, 6]):
            self.put(f'deep/rank{r}/counts.json', json.dumps({'num_blocks': n}))
        self.assertEqual(self.blocks(self.dir / 'deep', status=1), [5, 7, 6])

    def test_numbers_beside_shards_are_no_counts_unless_they_say_so(self):
        for r, n in enumerate((4, 5)):
            self.put(f's/rank{r}/data.jsonl', jsonl(n))
            self.put(f's/rank{r}/state.json', '{"step": 100, "lr": 0.1}')
        self.put('s/labels.json', '{"0": 5, "1": 6, "2": 7}')
        self.put('s/lengths.txt', '5\n6\n7\n')
        self.put('s/config.json', '{"steps": 100}')
        self.assertEqual(self.blocks(self.dir / 's', status=1), [4, 5])
        self.put('s/counts.csv', 'rank,blocks\n0,50\n1,60\n')
        doc = self.even(self.dir / 's', status=1)
        self.assertEqual([r['blocks'] for r in doc['ranks']], [50, 60])
        self.assertTrue(any('of kind lines beside the counts' in r for r in doc['remarks']), doc['remarks'])

    def test_a_path_twice_counts_once(self):
        path = self.put('s/rank0.jsonl', jsonl(4))
        self.put('s/rank1.jsonl', jsonl(4))
        self.assertEqual(self.blocks(self.dir / 's', path, path, status=0), [4, 4])

    def test_tokens_are_packed_and_their_share_is_said(self):
        path = self.put('c.csv', 'rank,records,tokens\n0,10,20490\n1,12,22000\n')
        doc = self.even('--sequence-length', 2048, path, status=0)
        self.assertEqual(([r['blocks'] for r in doc['ranks']], doc['packed'], doc['unit']), ([10, 10], True, 'blocks'))
        doc = self.even('--sequence-length', 1024, path, status=1)
        self.assertEqual([r['blocks'] for r in doc['ranks']], [20, 21])
        self.assertEqual((doc['plan']['tokens_dropped'], doc['tokens']), (round(22000 / 21), 42490))
        stated = self.even('--sequence-length', 100, self.put('d.csv', 'rank,blocks\n0,10\n1,12\n'), status=1)
        self.assertEqual((stated['plan']['tokens_dropped'], stated['tokens']), (200, 2200))
        self.assertTrue(any('joined end to end' in r for r in doc['remarks']))
        self.assertEqual(self.even(path, status=1)['unit'], 'records')

    def test_other_units_are_named(self):
        for unit in ('samples', 'records', 'batches'):
            doc = self.even(self.put('c.csv', f'rank,{unit}\n0,4\n1,5\n'), status=1)
            self.assertEqual((doc['unit'], [r['blocks'] for r in doc['ranks']]), (unit, [4, 5]))

    def test_bad_counts_are_one_line_with_the_place(self):
        bad = {
            'hole.csv': ('rank,blocks\n0,1\n1,2\n3,4\n', 'rank 2'),
            'hole.json': ('{"0": 1, "2": 3}', 'rank 1'),
            'short.json': ('{"world_size": 4, "blocks": [1, 2, 3]}', 'rank 3 (of 4 ranks)'),
            'negative.csv': ('rank,blocks\n0,1\n1,-2\n', ':3: "-2" in column 2 is negative'),
            'negative.json': ('{"0": 1,\n "1": -2}', ':2: what should be blocks of rank 1 is negative'),
            'negative_rank.csv': ('rank,blocks\n-1,1\n0,2\n', ':2: "-1" in column 1 is negative'),
            'negative_rank.json': ('{"0": 1,\n"-1": 2}', ':2: rank -1 is negative'),
            'double.csv': ('rank,blocks\n0,1\n1,2\n0,3\n', ':4: rank 0 is there already'),
            'double.json': ('{"0": 1, "1": 2,\n"0": 1}', ':2: rank 0 is there already'),
            'rows.json': ('[{"rank": 0, "blocks": 1},\n{"rank": 0, "blocks": 1}]', 'rank 0 is there already'),
            'word.csv': ('rank,blocks\n0,1\n1,many\n', ':3: "many" in column 2 is no whole number'),
            'word.txt': ('12\n13\nx\n', ':3: "x" is no whole number'),
            'word.json': ('[1,\n2,\n"x"]', ':3: what should be blocks of rank 2 is no whole number'),
            'half.csv': ('rank,blocks\n0,1\n1,2.5\n', ':3: "2.5" in column 2 is no whole number'),
            'missing.csv': ('rank,blocks\n0,1\n1\n', ':3: the line has no count'),
            'empty_field.csv': ('rank,blocks\n0,1\n1,\n', ':3: "" in column 2 is no whole number'),
            'large.csv': ('rank,blocks\n0,1\n1,1000000000\n', ':3: 1000000000 blocks of one rank cannot be'),
            'larger.txt': ('1\n99999999999999999999\n', ':2: "99999999999999999999" is larger than any count'),
            'rank.csv': ('rank,blocks\n0,1\n99999999,2\n', ':3: rank 99999999 is beyond any job'),
            'cut.json': ('{"0": 1,\n"1": ', ':2: '),
            'comma.json': ('{"0": 1,\n"1": 2,}', ':2: a comma with nothing behind it'),
            'junk.json': ('{"0": 1, "1": 2}\n}', ':2: '),
            'null.json': ('{"0": 1, "1": null}', 'rank 1 is no whole number'),
            'deep.json': ('{"blocks": ' * 100 + '1' + '}' * 100, 'deep'),
            'empty.csv': ('', 'empty'),
            'header.csv': ('rank,blocks\n', ':1: a header and no line below it'),
            'braces.json': ('{}', 'no count'),
            'binary.csv': (bytes(range(256)) * 4, 'binary'),
            'list_of_lists.json': ('[1, [2, 3]]', 'is no number'),
            'tokens.csv': ('rank,tokens\n0,100\n1,200\n', '--sequence-length'),
        }
        for name, (text, words) in bad.items():
            with self.subTest(name):
                said = self.refused(self.put(name, text))
                self.assertIn(words, said)
                if name not in ('tokens.csv', 'hole.csv', 'hole.json', 'short.json'):
                    self.assertIn(name, said)

    def test_a_rank_that_two_files_have_names_both(self):
        a, b = self.put('a.csv', 'rank,blocks\n0,1\n'), self.put('b.csv', 'rank,blocks\n\n0,1\n')
        said = self.refused(a, b)
        self.assertIn('a.csv:2', said)
        self.assertIn('b.csv:3', said)

    def test_a_world_of_another_size_is_said(self):
        path = self.put('c.txt', '1\n2\n3\n')
        self.assertIn('rank 3 (of 4 ranks)', self.refused('--world-size', 4, path))
        self.assertIn('the job has 2 ranks', self.refused('--world-size', 2, path))

    def test_many_ranks_are_quick_and_the_table_is_short(self):
        path = self.put('c.txt', ''.join(f'{1000 + r % 7}\n' for r in range(100000)))
        self.run_even(path, status=1)
        self.assertLess(len(self.out.splitlines()), 40)

    # shards

    def test_lines_by_rank(self):
        self.put('s/rank0.jsonl', jsonl(10))
        self.put('s/rank1.jsonl', jsonl(12).rstrip('\n'))
        self.put('s/rank2.jsonl', jsonl(5) + '\n \t\r\n\n' + jsonl(6))
        self.put('s/README.md', 'data')
        self.put('s/config.json', '{\n"a": 1\n}\n')
        doc = self.even(self.dir / 's', status=1)
        self.assertEqual([r['records'] for r in doc['ranks']], [10, 12, 11])
        self.assertTrue(any('3 blank lines' in r for r in doc['remarks']), doc['remarks'])

    def test_lines_compressed(self):
        self.put('s/rank0.jsonl.gz', gzip.compress(jsonl(1000).encode()))
        self.put('s/rank1.jsonl.gz', gzip.compress(jsonl(900).encode()) + gzip.compress(jsonl(50).encode()))
        self.assertEqual(self.blocks(self.dir / 's', status=1), [1000, 950])
        self.put('s/rank0.jsonl.gz', gzip.compress(jsonl(100000).encode())[:-5000])
        doc = self.even(self.dir / 's')
        self.assertTrue(any('ends in the middle' in r for r in doc['remarks']), doc['remarks'])

    def test_lines_are_the_same_however_the_file_is_cut(self):
        rng = random.Random(3)
        lines = [b'x' * rng.choice([0, 1, 3, 50, 2000, 300000]) + rng.choice([b'', b' ', b'\r']) for _ in range(900)]
        lines[400] = b'y' * 40_000_000  # over several chunks of a worker
        text = b'\n'.join(lines)
        path = self.put('rank0.txt', text)
        want = sum(1 for line in text.split(b'\n') if line.strip())
        self.assertEqual(self.blocks(path, status=0), [want])
        for field in ([], ['--length-field', 'n']):
            blank = self.put('rank0.txt', b' ' * 40_000_000 + b'\nx\n' + b' ' * 20_000_000)
            self.assertEqual(self.blocks(*field, blank, status=0), [1])

    def test_headers_and_cut_ends_are_said(self):
        self.put('s/rank0.csv', 'text,label\na,1\nb,2\n')
        self.put('s/rank1.csv', 'text,label\na,1\n')
        doc = self.even(self.dir / 's', status=1)
        self.assertEqual([r['records'] for r in doc['ranks']], [2, 1])
        self.assertTrue(any('taken for a header' in r for r in doc['remarks']), doc['remarks'])
        self.put('t/rank0.jsonl', jsonl(4)[:-9])
        self.assertTrue(any('last line is cut off' in r for r in self.even(self.dir / 't')['remarks']))

    def test_a_json_array_of_records(self):
        for sep in ',', ',\n', ', ', '\n,\n':
            for end in ']', '\n]', ' ]\n':
                self.put('s/rank0.json', '[' + sep.join([json.dumps({'text': ']} x', 'n': [1, {}]})] * 7) + end)
                doc = self.even(self.put('s/rank1.json', '[\n' + sep.join(['{"text": "a"}'] * 7) + end).parent, status=0)
                self.assertEqual([r['blocks'] for r in doc['ranks']], [7, 7], (sep, end))
                self.assertFalse([r for r in doc['remarks'] if 'damaged' in r], (sep, end))
        self.put('s/rank0.json', json.dumps([{'text': 'a', 'n': [1]}] * 7, indent=1))
        self.put('s/rank1.json', json.dumps([{'text': 'a'}] * 9))
        self.assertEqual(self.blocks(self.dir / 's', status=1), [7, 9])

    def test_lengths_in_a_field(self):
        self.put('s/rank0.jsonl', jsonl(10, tokens=lambda i: 100 + i))
        self.put('s/rank1.jsonl', jsonl(10, tokens=lambda i: list(range(200))))
        doc = self.even('-s', 64, '--length-field', 'tokens', self.dir / 's', status=1)
        self.assertEqual([r['tokens'] for r in doc['ranks']], [1045, 2000])
        self.assertEqual([r['blocks'] for r in doc['ranks']], [16, 31])
        self.assertIn('token lengths', self.refused('-s', 64, self.dir / 's'))
        self.put('s/rank1.jsonl', jsonl(10))
        self.assertIn('token lengths', self.refused('-s', 64, '--length-field', 'tokens', self.dir / 's'))

    def test_megatron_indexes(self):
        rng = random.Random(9)
        lengths = [[rng.randrange(1, 5000) for _ in range(rng.randrange(1, 300))] for _ in range(4)]
        for r, some in enumerate(lengths):
            self.put(f's/rank{r}.idx', made.idx_old(some) if r == 3 else made.idx(some, code=[4, 8, 5][r]))
            self.put(f's/rank{r}.bin', bytes(sum(some) * [4, 2, 8, 4][r]))
        doc = self.even('-s', 128, self.dir / 's')
        self.assertEqual([r['records'] for r in doc['ranks']], [len(some) for some in lengths])
        self.assertEqual([r['tokens'] for r in doc['ranks']], [sum(some) for some in lengths])
        self.assertEqual([r['blocks'] for r in doc['ranks']], [sum(some) // 128 for some in lengths])
        self.assertEqual(doc['tokens'], sum(map(sum, lengths)))
        self.put('s/rank1.bin', b'short')
        self.assertTrue(any('.bin has 5 bytes' in r for r in self.even(self.dir / 's')['remarks']))
        for cut in (0, 9, 20, 33, 40, -1):
            self.put('t/rank0.idx', made.idx([1, 2, 3])[:cut])
            self.even(self.dir / 't', status=2 if cut else None)
        self.put('t/rank0.idx', made.idx([1, -2, 3]))
        self.assertIn('length that cannot be', self.refused(self.dir / 't'))
        self.put('t/rank0.idx', made.idx([1])[:18] + struct.pack('<QQ', 1 << 61, 1 << 61))
        self.assertIn('cut off', self.refused(self.dir / 't'))
        self.put('t/rank0.idx', made.idx([1], version=2))
        self.assertIn('version 2', self.refused(self.dir / 't'))

    def test_numpy_arrays(self):
        for r, (shape, version) in enumerate([((7, 128), 1), ((9, 128), 2), ((8, 4, 32), 3)]):
            self.put(f's/rank{r}.npy', made.npy(shape, version=version))
        doc = self.even(self.dir / 's', status=1)
        self.assertEqual([r['records'] for r in doc['ranks']], [7, 9, 8])
        self.assertEqual([r['blocks'] for r in self.even('-s', 64, self.dir / 's')['ranks']], [14, 18, 16])
        self.put('t/rank0.npy', made.npy((100, 4))[:-1])
        self.assertIn('cut off', self.refused(self.dir / 't'))
        self.put('t/rank0.npy', made.npy((1,)).replace(b'(1,)', b'(9999999999999999999999,)'))
        self.assertIn('shape', self.refused(self.dir / 't'))

    def test_parquet_footers(self):
        self.put('s/rank0.parquet', made.parquet([(10, 1000), (20, 2500)]))
        self.put('s/rank1.parquet', made.parquet([(31, 3600)] ))
        self.put('s/rank2.parquet', made.parquet([(1, 128)] * 40))
        doc = self.even('--length-field', 'input_ids', '-s', 128, self.dir / 's', status=1)
        self.assertEqual([r['records'] for r in doc['ranks']], [30, 31, 40])
        self.assertEqual([r['tokens'] for r in doc['ranks']], [3500, 3600, 5120])
        self.put('t/rank0.parquet', made.parquet([(10, 1)], said=11))
        self.assertTrue(any('says 11 rows' in r for r in self.even(self.dir / 't')['remarks']))
        whole = made.parquet([(10, 1)])
        for cut in (4, 40, len(whole) - 1):
            self.put('t/rank0.parquet', whole[:cut])
            self.assertIn('without its end', self.refused(self.dir / 't'))
        self.put('t/rank0.parquet', whole[:-1] + b'E')
        self.assertIn('encrypted', self.refused(self.dir / 't'))
        self.put('t/rank0.parquet', whole[:-8] + b'\xff\xff\xff\x7fPAR1')
        self.assertIn('footer', self.refused(self.dir / 't'))

    def test_arrow_files_and_streams(self):
        batches = [(10, 1000), (20, 2500), (3, 100)]
        self.put('s/rank0.arrow', made.arrow(batches))
        self.put('s/rank1.arrow', made.arrow(batches, as_file=True))
        self.put('s/rank2.arrow', made.arrow(batches + [(7, 0)], end=False))
        doc = self.even('--length-field', 'input_ids', '-s', 100, self.dir / 's', status=0)
        self.assertEqual([r['records'] for r in doc['ranks']], [33, 33, 40])
        self.assertEqual([r['tokens'] for r in doc['ranks']], [3600, 3600, 3600])
        self.put('s/rank2.arrow', made.arrow(batches, end=False)[:-10])
        doc = self.even(self.dir / 's')
        self.assertEqual(doc['ranks'][2]['records'], 30)
        self.assertTrue(any('cut off' in r for r in doc['remarks']), doc['remarks'])

    def test_hugging_face_folders(self):
        info = {'features': {}, 'splits': {'train': {'name': 'train', 'num_examples': 63}, 'test': {'num_examples': 5}}}
        self.put('d/dataset_info.json', json.dumps(info))
        self.put('d/state.json', json.dumps({'_data_files': [{'filename': 'data-00000-of-00002.arrow'}]}))
        doc = self.even('--world-size', 4, self.dir / 'd', status=1)
        self.assertEqual([r['records'] for r in doc['ranks']], [16, 16, 16, 15])
        self.put('d/data-00000-of-00002.arrow', made.arrow([(30, 0)]))
        self.put('d/data-00001-of-00002.arrow', made.arrow([(33, 0)]))
        self.assertEqual(self.blocks('--world-size', 2, self.dir / 'd', status=1), [30, 33])

    def test_indexes_of_other_shards(self):
        for name, doc in (('mds', {'version': 2, 'shards': [{'samples': 10}, {'samples': 11}]}),
                          ('lit', {'chunks': [{'chunk_bytes': 9, 'chunk_size': 10}, {'chunk_size': 11}], 'config': {}}),
                          ('wids', {'shardlist': [{'url': 'a.tar', 'nsamples': 10}, {'url': 'b.tar', 'nsamples': 11}]})):
            self.put(f'{name}/index.json', json.dumps(doc))
            self.assertEqual(self.blocks('-w', 2, self.dir / name, status=1), [11, 10], name)

    def test_webdataset_tars(self):
        long = 'd' * 150 + '/' + 'n' * 120
        names = ['a/1.jpg', 'a/1.json', 'a/2.jpg', 'a/2.seg.png', 'b/2.jpg', 'noend', '__info__', f'{long}1.jpg',
                 f'{long}1.txt', f'{long}2.jpg', 'dir/']
        for r, form in enumerate((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)):
            self.put(f's/rank{r}.tar', made.tar(names, form=form))
        self.put('s/rank2.tar.gz', gzip.compress(made.tar([f'{i}.txt' for i in range(8)], size=70000)))
        doc = self.even(self.dir / 's', status=1)
        self.assertEqual([r['records'] for r in doc['ranks']], [5, 5, 8])
        self.assertEqual(doc['unit'], 'samples')
        self.put('t/rank0.tar', made.tar(['1.a', '2.a', '3.a'])[:2 * 1024 + 512 + 3])
        doc = self.even(self.dir / 't')
        self.assertTrue(any('cut off' in r for r in doc['remarks']), doc['remarks'])
        self.put('t/rank0.tar', made.tar(['1.a'])[:2048] + made.tar(['2.a', '3.a']))
        doc = self.even(self.dir / 't')
        self.assertEqual(doc['ranks'][0]['records'], 1)
        self.assertTrue(any('more behind its end' in r for r in doc['remarks']), doc['remarks'])
        self.put('t/rank0.tar', made.tar(['1.a', '1.a']))
        self.assertTrue(any('have the ending of another' in r for r in self.even(self.dir / 't')['remarks']))

    # whose they are

    def test_shards_are_dealt(self):
        for i in range(10):
            self.put(f's/shard-{i:05d}.jsonl', jsonl(i + 1))
        self.assertEqual(self.blocks('-w', 4, self.dir / 's'), [6, 15, 15, 19])
        self.assertEqual(self.blocks('-w', 4, '--deal', 'strided', self.dir / 's'), [15, 18, 10, 12])
        doc = self.even('-w', 4, self.dir / 's')
        self.assertTrue(any('10 shards are no multiple of 4' in r for r in doc['remarks']), doc['remarks'])
        self.assertEqual(self.blocks('-w', 20, self.dir / 's', status=1), [3] * 15 + [2] * 5)
        self.assertEqual(self.blocks(self.dir / 's', status=1), list(range(1, 11)))

    def test_one_folder_a_rank(self):
        for r, n in enumerate([4, 5, 6]):
            for part in range(3):
                self.put(f's/{r}/part-{part}.jsonl', jsonl(n))
                self.put(f't/data_rank{r}_part{part}.jsonl', jsonl(n))
        self.assertEqual(self.blocks(self.dir / 's', status=1), [12, 15, 18])
        self.assertEqual(self.blocks(self.dir / 't', status=1), [12, 15, 18])
        self.assertEqual(self.blocks(*[self.dir / 's' / str(r) for r in range(3)], status=1), [12, 15, 18])

    def test_rank_and_count_lines_are_counts(self):
        for text in ('0: 800\n1: 799\n', 'rank 0: 800\nrank 1: 799\n', 'rank_0=800\nrank_1=799\n', '0=800\n1=799\n'):
            self.assertEqual(self.blocks(self.put('c.txt', text), status=1), [800, 799], text)
        for text in ('0 800 3\n1 799 4\n', '0-800\n1-799\n'):
            self.assertIn('is this a counts file?', self.refused('-w', 2, self.put('c.txt', text)))

    def test_a_hole_names_file_and_line(self):
        self.assertIn('c.csv:3: no count of rank 1', self.refused(self.put('c.csv', 'rank,blocks\n0,5\n2,5\n')))
        self.assertIn('c.csv: no count of rank 2 (of 3', self.refused('-w', 3, self.put('c.csv', 'rank,blocks\n0,5\n1,5\n')))

    def test_what_is_odd_in_many_files_is_one_line(self):
        for i in range(24):
            self.put(f's/{i}.txt', 'a\n\n' + 'b\n' * i)
        doc = self.even(self.dir / 's', status=1)
        self.assertEqual([r for r in doc['remarks'] if 'blank' in r], ['24 files (0.txt first): blank lines are not counted'])

    def test_what_comes_next_goes_by_how(self):
        path = self.put('c.csv', 'rank,blocks\n0,5\n1,6\n')
        for how, word in (('drop', 'lockstep.even(loader),'), ('pad', "how='pad'"), ('repeat', "how='repeat'")):
            self.run_even('--how', how, path, status=1)
            self.assertIn(word, self.out[self.out.index('Next'):])
        self.run_even(self.put('c.csv', 'rank,blocks\n0,0\n1,600\n'), status=1)
        self.assertIn('give rank 0 data', self.out[self.out.index('Next'):])
        self.assertNotIn('\n          %', self.out)

    def test_a_missing_shard_is_a_hole(self):
        for i in (0, 1, 3):
            self.put(f's/train-{i:05d}-of-00004.jsonl', jsonl(3))
            self.put(f't/rank{i}.jsonl', jsonl(3))
            self.put(f'u/{i}.jsonl', jsonl(3))
            self.put(f'v/{i}/a.jsonl', jsonl(3))
            self.put(f'w/part-{i + 5}.jsonl', jsonl(i + 1))
        self.assertIn('no count of rank 2', self.refused(self.dir / 'u'))
        self.assertIn('no count of rank 2', self.refused(self.dir / 'v'))
        self.assertEqual(self.blocks(self.dir / 'w', status=1), [1, 2, 4])
        self.assertIn('shard 2 of 4 is not there', self.refused(self.dir / 's'))
        self.assertIn('rank 2', self.refused(self.dir / 't'))

    def test_one_shard_asks_for_the_world(self):
        path = self.put('all.jsonl', jsonl(10))
        self.assertIn('--world-size', self.refused(path))
        self.assertEqual(self.blocks('-w', 3, path, status=1), [4, 3, 3])

    def test_what_is_nothing_is_said(self):
        (self.dir / 'none').mkdir()
        self.assertIn('nothing that can be counted', self.refused(self.dir / 'none'))
        self.assertIn('No such file', self.refused(self.dir / 'absent'))
        os.mkfifo(self.dir / 'fifo')
        self.assertIn('not a regular file', self.refused(self.dir / 'fifo'))
        os.symlink('loop', self.dir / 'none/loop')
        os.symlink('.', self.dir / 'none/self')
        self.refused(self.dir / 'none')

    def test_usage_is_64(self):
        path = self.put('c.txt', '1\n')
        for argv in ([], ['--how', 'dorp', path], ['--drop-last', '--keep-last', path], ['-b', '0', path],
                     ['-s', '0', path], ['-w', '0', path], ['--deal', 'x', path], ['-b', '-1', path], ['-b', '9' * 12, path]):
            self.run_even(*argv, status=64)
            self.assertEqual((self.out, len(self.said.splitlines())), ('', 1), argv)

    # other writers

    def test_what_pyarrow_writes(self):
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError:
            self.skipTest('pyarrow is not installed')
        rng = random.Random(1)
        tokens = [[list(range(rng.randrange(1, 90))) for _ in range(rng.randrange(50, 400))] for _ in range(6)]
        for r, rows in enumerate(tokens):
            table = pa.table({'id': list(range(len(rows))), 'meta': [{'a': 1, 'b': 'x'}] * len(rows), 'input_ids': rows,
                              'text': ['t'] * len(rows)})
            path = self.dir / 's' / f'rank{r}'
            path.parent.mkdir(exist_ok=True)
            if r < 2:
                pq.write_table(table, f'{path}.parquet', row_group_size=64 if r else 7, compression=['snappy', 'zstd'][r])
            else:
                new = pa.ipc.new_file if r % 2 else pa.ipc.new_stream
                options = pa.ipc.IpcWriteOptions(compression='zstd' if r > 3 else None)
                with new(f'{path}.arrow', table.schema, options=options) as w:
                    w.write_table(table, max_chunksize=33)
        for kind in ('parquet', 'arrow'):
            folder = self.dir / kind
            folder.mkdir()
            some = [r for r in range(6) if (r < 2) == (kind == 'parquet')]
            for i, r in enumerate(some):
                shutil.copy(self.dir / 's' / f'rank{r}.{kind}', folder / f'rank{i}.{kind}')
            doc = self.even('--length-field', 'input_ids', '-s', 10, folder)
            self.assertEqual([r['records'] for r in doc['ranks']], [len(tokens[r]) for r in some])
            self.assertEqual([r['tokens'] for r in doc['ranks']], [sum(map(len, tokens[r])) for r in some])

    def test_what_numpy_writes(self):
        try:
            import numpy
        except ImportError:
            self.skipTest('numpy is not installed')
        for r, array in enumerate((numpy.zeros((5, 3), 'u2'), numpy.zeros((6, 3, 2), order='F'), numpy.zeros((7, 3), '>i8'),
                                   numpy.zeros(4, [('a', 'i4'), ('b', 'f8')]), numpy.zeros((8, 1), bool))):
            (self.dir / 's').mkdir(exist_ok=True)
            numpy.save(self.dir / 's' / f'rank{r}.npy', array)
        self.assertEqual(self.blocks(self.dir / 's', status=1), [5, 6, 7, 4, 8])

    def test_samples_as_webdataset_groups_them(self):
        try:
            import webdataset
        except ImportError:
            self.skipTest('webdataset is not installed')
        rng = random.Random(2)
        for r in range(4):
            names = []
            for i in range(rng.randrange(20, 60)):
                folder = rng.choice(['', './', 'a.b/', 'x/y/'])
                names += [f'{folder}{i:04d}.{e}' for e in rng.sample(['jpg', 'json', 'seg.png', 'cls', 'txt'], rng.randrange(1, 5))]
            self.put(f's/rank{r}.tar', made.tar(names, form=[tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT][r % 2]))
        want = [sum(1 for _ in webdataset.WebDataset(str(self.dir / f's/rank{r}.tar'), shardshuffle=False)) for r in range(4)]
        self.assertEqual(self.blocks(self.dir / 's'), want)


if __name__ == '__main__':
    unittest.main()
