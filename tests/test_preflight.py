#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep preflight` alone and with a few nodes on loopback: every invariant has its odd node, which
is named; probes that hang are findings; secrets are not printed. The machine is made up by files below
LOCKSTEP_PREFLIGHT_ROOT and by scripts called nvidia-smi and rocm-smi."""
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import hung_folder

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOCKSTEP = os.path.abspath(os.environ.get('LOCKSTEP', ROOT / 'build/lockstep'))
KEPT = {k: v for k, v in os.environ.items()
        if not k.startswith(('NCCL_', 'TORCH', 'SLURM', 'PET_', 'MASTER', 'WORLD', 'LOCAL_', 'OMPI', 'GROUP_', 'DEEPSPEED'))}
SMI = '''#!/bin/sh
case "$1" in
*memory.total*) cat <<X
index, uuid, name, memory.total [MiB], memory.used [MiB], utilization.gpu [%]
{core}
X
;;
*throttle*) printf 'index, clocks_throttle_reasons.active\\n{throttle}\\n' ;;
*ecc*) printf 'index, ecc.errors.uncorrected.volatile.total\\n{ecc}\\n' ;;
*persistence*) printf 'index, persistence_mode\\n0, Enabled\\n1, Enabled\\n' ;;
*retired*) echo 'Field "retired_pages.pending" is not a valid field to query.'; exit 2 ;;
*compute-apps*) printf 'gpu_uuid, pid, process_name, used_gpu_memory [MiB]\\n{apps}\\n' ;;
*) exit 2 ;;
esac
'''
GPU = '{0}, GPU-{0}, NVIDIA H100 80GB HBM3, 81559 MiB, {1} MiB, {2} %'


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class Preflight(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.dir = pathlib.Path(self.scratch.name)
        (self.dir / 'bin').mkdir()
        self.secret = self.dir / 'secret'
        self.secret.write_text('open sesame, said nobody ever\n')
        self.secret.chmod(0o600)

    def put(self, name, text, mode=0o644):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def smi(self, node='', core=None, throttle='0, 0x0\\n1, 0x0', ecc='0, 0\\n1, 0', apps=''):
        core = core or '\n'.join(GPU.format(i, 4, 0) for i in range(2))
        self.put(f'bin{node}/nvidia-smi', SMI.format(core=core, throttle=throttle, ecc=ecc, apps=apps), 0o755)

    def env(self, node='', **more):
        root = self.dir / f'root{node}'
        root.mkdir(exist_ok=True)
        return {**KEPT, 'PATH': f'{self.dir}/bin{node}:{KEPT["PATH"]}', 'LOCKSTEP_PREFLIGHT_ROOT': str(root), **more}

    def command(self, argv, env, cwd=None):
        return subprocess.Popen([LOCKSTEP, 'preflight', '--python', 'none', *map(str, argv)], env=env, cwd=cwd or self.dir,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def alone(self, *argv, status=None, **env):
        p = self.command(['--json', *argv], self.env(**env))
        out, err = p.communicate(timeout=60)
        if status is not None:
            self.assertEqual(p.returncode, status, out + err)
        self.out = out
        return json.loads(out)

    def nodes(self, n, *argv, each=None, status=None, env=None, cwd=None):
        """n nodes; each(i) gives options of its own, env(i) variables, cwd(i) what stands for the node's own storage. The
        verdict, the same for all."""
        place = ['--meet', f'127.0.0.1:{free_port()}', '--secret-file', self.secret, '--job', 'j', '--wait', '20', '--nodes', n]
        running = [self.command(['--json', *place, '--node', i, '--name', f'n{i}', *argv, *(each(i) if each else [])],
                                self.env(i, **(env(i) if env else {})), cwd and cwd(i)) for i in range(n)]
        said = [p.communicate(timeout=60) for p in running]
        for p, (out, err) in zip(running, said):
            self.assertEqual(out, said[0][0], err)
            if status is not None:
                self.assertEqual(p.returncode, status, out + err)
        self.out = said[0][0]
        return json.loads(self.out)

    def check(self, verdict, name, state):
        found = [c for c in verdict['checks'] if f'{c["invariant"]}.{c["name"]}' == name]
        self.assertEqual([c['state'] for c in found], [state], json.dumps(verdict, indent=1))
        return found[0]

    # --- blocks ---

    def counts(self, blocks):
        return self.put('counts.csv', 'rank,blocks\n' + ''.join(f'{r},{b}\n' for r, b in enumerate(blocks)))

    def test_the_incident_is_refused_and_its_ranks_are_named(self):
        rng = random.Random(1)
        blocks = [rng.randint(30836, 30887) for _ in range(16)]
        blocks[3], blocks[11] = 30835, 30888
        begun = time.monotonic()
        v = self.alone('--only', 'blocks', '--blocks', self.counts(blocks), '--blocks-per-step', 8, status=1)
        self.assertLess(time.monotonic() - begun, 2.7)
        c = self.check(v, 'blocks.balance', 'refuse')
        self.assertEqual(c['ranks'], [3, 11])
        self.assertEqual((c['blocks']['least_steps'], c['blocks']['most_steps']), (3854, 3861))
        for word in ('3,854', '3,861', '7 steps', 'rank 3 ', 'rank 11 '):
            self.assertIn(word, c['measured'])
        self.assertEqual(v['verdict'], 'refused')

    def test_even_counts_are_ready_and_one_number_a_line_will_do(self):
        self.alone('--only', 'blocks', '--blocks', self.counts([800] * 16), '--blocks-per-step', 8, status=0)
        self.alone('--only', 'blocks', '--blocks', self.put('plain.txt', '800\n' * 4), '--blocks-per-step', 8, status=0)

    def test_evened_warned_and_switched_off_counts_do_not_refuse(self):
        uneven = ['--only', 'blocks', '--blocks', self.counts([80, 160]), '--blocks-per-step', 8]
        self.alone(*uneven, status=1)
        self.check(self.alone(*uneven, '--evened', status=0), 'blocks.balance', 'ok')
        self.check(self.alone(*uneven, '--strict', 'blocks=warn', status=0), 'blocks.balance', 'warn')
        self.check(self.alone(*uneven, '--strict', 'blocks.balance=warn', status=0), 'blocks.balance', 'warn')
        v = self.alone(*uneven, '--strict', 'blocks=off', status=2)
        self.assertEqual((v['checks'], v['verdict']), ([], 'cannot-tell'))    # nothing was looked at

    def test_a_partial_last_step_refuses_only_where_it_is_run(self):
        rest = ['--only', 'blocks', '--blocks', self.counts([16, 17]), '--blocks-per-step', 8]
        self.check(self.alone(*rest, status=0), 'blocks.balance', 'warn')
        self.check(self.alone(*rest, '--keep-last', status=1), 'blocks.balance', 'refuse')

    def test_counts_that_are_none_refuse(self):
        for text in ('rank,blocks\n0,5\n2,5\n', 'rank,blocks\n0,5\n0,6\n', 'rank,blocks\n-1,5\n', 'rank,blocks\n0,x\n', 'rank,blocks\n'):
            v = self.alone('--only', 'blocks', '--blocks', self.put('bad.csv', text), '--blocks-per-step', 8, status=1)
            self.assertRegex(self.check(v, 'blocks.counts', 'refuse')['measured'], r'bad\.csv:\d+: ')
        self.alone('--only', 'blocks', '--blocks', self.put('bad.csv', ''), '-w', 2, status=1)
        v = self.alone('--only', 'blocks', '--blocks', self.dir / 'nowhere', status=1)
        self.assertIn('nowhere: No such file', self.check(v, 'blocks.counts', 'refuse')['measured'])
        self.alone('--only', 'blocks', status=2)

    def test_a_named_path_that_is_not_there_refuses_on_one_node_too(self):
        for option in ('code', 'config', 'data'):
            v = self.alone('--only', 'agreement', f'--{option}', self.dir / 'nowhere', status=1)
            self.assertIn('nowhere', self.check(v, f'agreement.{option}', 'refuse')['measured'])

    def test_lines_of_rank_and_count_are_counts(self):
        v = self.alone('--only', 'blocks', '-b', self.put('c.txt', '0: 800\n1: 799\n'), '-w', 2, status=1)
        self.assertEqual(self.check(v, 'blocks.balance', 'refuse')['ranks'], [1, 0])
        v = self.alone('--only', 'blocks', '-b', self.put('c.txt', '0 800 1\n1 799 2\n'), '-w', 2, status=1)
        self.assertIn('is this a counts file?', self.check(v, 'blocks.counts', 'refuse')['measured'])

    def test_balance_of_some_ranks_is_not_well(self):
        v = self.alone('--only', 'blocks', '-b', self.counts([8, 8, 8]), '-w', 4, status=1)
        self.assertIn('1 of 4 ranks has no count', self.check(v, 'blocks.ranks', 'refuse')['measured'])
        self.check(v, 'blocks.balance', 'unknown')

    def test_a_node_with_another_secret_has_one_row(self):
        other = self.put('other', 'another secret, nobody knows\n', 0o600)
        meet = ['--only', 'blocks', '--evened', '--meet', f'127.0.0.1:{free_port()}', '--job', 'j', '--wait', 3, '--nodes', 2,
                '--names', 'h0,h1', '--json']
        running = [self.command([*meet, '--node', i, '--name', f'x{i}', '--secret-file', s], self.env()) for i, s in enumerate((self.secret, other))]
        out = [p.communicate(timeout=60)[0] for p in running][0]
        c = self.check(json.loads(out), 'agreement.presence', 'refuse')
        self.assertIn(', as h1, does not know the secret', c['measured'])
        self.assertEqual(c['hosts'], ['x1', 'h1'])

    def test_wrong_usage_names_the_option(self):
        for argv, word in ((['--limit', 'skew=1'], 'skew-ms'), (['x.csv'], '--blocks'), (['--job', '', '-n', 2, '--meet-folder', '.'], '--job'),
                           (['--meet', 'h:1', '--nodes', 2, '--node', 0, '--job', 'j'], '--secret-file'),
                           (['--meet-folder', '.', '--nodes', 2, '--node', 0], '--job')):
            p = self.command(argv, self.env())
            self.assertIn(word, p.communicate(timeout=60)[1])
            self.assertEqual(p.returncode, 64, argv)

    def test_counts_of_another_world_size_are_refused(self):
        v = self.alone('--only', 'blocks', '--blocks', self.counts([8] * 16), '--world-size', 8, status=1)
        self.assertIn('up to rank 15, and the job has 8 ranks', self.check(v, 'blocks.ranks', 'refuse')['measured'])

    def test_counts_of_another_world_size_are_refused_by_many_nodes(self):
        """However the counts come, and though each node takes its own ranks' only."""
        for n, said in (4, '4 of 8 ranks have no count, rank 4 first'), (9, 'up to rank 8, and the job has 8 ranks'), (16, 'up to rank 15'):
            shards = self.dir / f's{n}'
            for r in range(n):
                self.put(f's{n}/rank{r}.jsonl', '{}\n' * 8)
            for given in self.counts([8] * n), self.put('c.json', json.dumps({'world_size': n, 'blocks': [8] * n})), shards:
                v = self.nodes(2, '--only', 'blocks', '--ranks', 4, '--blocks', given, status=1)
                self.assertIn(said, self.check(v, 'blocks.ranks', 'refuse')['measured'])
        ok = self.nodes(2, '--only', 'blocks', '--ranks', 8, '--blocks', shards, status=0)
        self.assertEqual(self.check(ok, 'blocks.balance', 'ok')['blocks']['ranks'], 16)
        # numbered from 1
        given = self.put('one.csv', 'rank,blocks\n' + ''.join(f'{r},8\n' for r in range(1, 9)))
        v = self.nodes(2, '--only', 'blocks', '--ranks', 4, '--blocks', given, status=1)
        self.assertRegex(self.check(v, 'blocks.ranks', 'refuse')['measured'], 'up to rank 8.*rank 0 first')

    def test_each_node_counts_its_own_ranks(self):
        for i, blocks in enumerate(([80, 80], [80, 96])):
            self.put(f'mine{i}.csv', 'rank,blocks\n' + ''.join(f'{2 * i + k},{b}\n' for k, b in enumerate(blocks)))
        v = self.nodes(2, '--only', 'blocks', '--ranks', 2, '--blocks-per-step', 8,
                       each=lambda i: ['--blocks', self.dir / f'mine{i}.csv'], status=1)
        c = self.check(v, 'blocks.balance', 'refuse')
        self.assertEqual((c['ranks'][-1], sorted(c['hosts'])), (3, ['n0', 'n1']))

    # --- agreement ---

    def test_a_different_variable_version_and_commit_is_named(self):
        v = self.nodes(3, '--only', 'agreement', env=lambda i: {'NCCL_ALGO': 'Ring' if i == 1 else 'Tree'}, status=1)
        c = self.check(v, 'agreement.environment', 'refuse')
        self.assertEqual(c['hosts'], ['n1'])
        self.assertIn('NCCL_ALGO: Tree on n0 and n2, Ring on n1', c['measured'])

    def python(self, node, **versions):
        """A Python of the node's own that looks for packages in a made-up folder."""
        site = self.dir / f'site{node}'
        for name, version in versions.items():
            (site / f'{name}-{version}.dist-info').mkdir(parents=True)
        self.put(f'site{node}/torch/version.py', "__version__ = 'x'\ncuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n")
        return self.put(f'py{node}', f'#!/bin/sh\nprintf "3.11.2\\n{site}\\n"\n', 0o755)

    def test_the_odd_version_is_named_and_nothing_is_imported(self):
        pythons = [self.python(i, torch='2.13.0', Nvidia_NCCL_cu12='2.27.3' if i == 1 else '2.27.5', tqdm=f'4.{i // 2}') for i in range(3)]
        v = self.nodes(3, '--only', 'agreement', each=lambda i: ['--python', pythons[i]], status=1)
        c = self.check(v, 'agreement.versions', 'refuse')
        self.assertEqual((c['hosts'], [d['item'] for d in c['differs']]), (['n1'], ['nvidia_nccl_cu12']))
        c = self.check(v, 'agreement.packages', 'warn')
        self.assertEqual((c['hosts'], [d['item'] for d in c['differs']]), (['n2'], ['tqdm']))

    def test_a_node_alone_of_many_is_told(self):
        self.check(self.alone('--only', 'agreement', SLURM_NNODES='4', status=0), 'agreement.alone', 'warn')

    def test_on_a_tie_both_sides_are_named(self):
        v = self.nodes(2, '--only', 'agreement', env=lambda i: {'NCCL_PROTO': f'P{i}'}, status=1)
        c = self.check(v, 'agreement.environment', 'refuse')
        self.assertEqual(c['hosts'], ['n0', 'n1'])
        self.assertTrue(c['differs'][0]['tie'])

    def test_what_belongs_to_a_node_may_differ(self):
        v = self.nodes(2, '--only', 'agreement', status=0,
                       env=lambda i: {'CUDA_VISIBLE_DEVICES': str(i), 'NCCL_HOSTID': str(i), 'NCCL_ALGO': 'Ring'})
        self.check(v, 'agreement.environment', 'ok')

    def test_secrets_differ_without_being_told(self):
        v = self.nodes(3, '--only', 'agreement', env=lambda i: {'TORCH_HUB_TOKEN': 'sesame' if i else 'abracadabra',
                                                                'NCCL_LIB': 'http://me:sesame@host/'}, status=1)
        self.assertIn('TORCH_HUB_TOKEN', self.check(v, 'agreement.environment', 'refuse')['measured'])
        self.assertNotIn('sesame', self.out)
        self.assertNotIn('abracadabra', self.out)

    def test_the_differing_key_of_a_configuration_is_named(self):
        forms = {'json': '{"optim": {"lr": %s, "eps": 1}, "steps": 5}', 'yaml': 'optim:\n  lr: %s\n  eps: 1\nsteps: 5\n',
                 'toml': '[optim]\nlr = %s\neps = 1\n', 'ini': '[optim]\nlr=%s\neps=1\n'}
        for kind, form in forms.items():
            for i in range(3):
                self.put(f'c{i}/train.{kind}', form % ('3e-4' if i == 2 else '1e-4'))
            v = self.nodes(3, '--only', 'agreement', '--config', f'train.{kind}', cwd=lambda i: self.dir / f'c{i}', status=1)
            c = self.check(v, 'agreement.config', 'refuse')
            self.assertEqual(c['hosts'], ['n2'])
            low, high = ('0.0001', '0.0003') if kind == 'json' else ('1e-4', '3e-4')
            self.assertIn(f'train.{kind}: optim.lr: {low} on n0 and n1, {high} on n2', c['measured'])
            self.assertNotIn('eps', c['measured'])
            for i in range(3):  # as Windows' editors save it
                text = (self.dir / f'c{i}/train.{kind}').read_text()
                (self.dir / f'c{i}/train.{kind}').write_bytes(text.encode('utf-16' if i else 'utf-8-sig'))
            v = self.nodes(3, '--only', 'agreement', '--config', f'train.{kind}', cwd=lambda i: self.dir / f'c{i}', status=1)
            self.assertIn(f'train.{kind}: optim.lr: {low} on n0 and n1, {high} on n2', self.check(v, 'agreement.config', 'refuse')['measured'])

    def tree(self, name, **files):
        folder = self.dir / name
        folder.mkdir()
        git = ['git', '-C', str(folder), '-c', 'user.name=x', '-c', 'user.email=x@y', '-c', 'commit.gpgsign=false']
        (folder / 'train.py').write_text('print(1)\n')
        subprocess.run([*git, 'init', '-q'], check=True)
        subprocess.run([*git, 'add', '-A'], check=True)
        subprocess.run([*git, 'commit', '-qm', 'x', '--date', '2026-01-01T00:00:00Z'], check=True,
                       env={**KEPT, 'GIT_COMMITTER_DATE': '2026-01-01T00:00:00Z'})
        for file, text in files.items():
            (folder / file.replace('_', '.')).write_text(text)
        return folder

    def test_a_changed_file_of_the_code_is_named(self):
        trees = [self.tree(f't{i}', **({'train_py': 'print(2)\n', 'new_py': ''} if i == 1 else {})) for i in range(3)]
        v = self.nodes(3, '--only', 'agreement', each=lambda i: ['--code', trees[i]], status=1)
        c = self.check(v, 'agreement.code', 'refuse')
        self.assertEqual(c['hosts'], ['n1'])
        self.assertEqual({d['item'] for d in c['differs']}, {'train.py', 'new.py'})

    def test_a_file_of_the_data_that_differs_is_named(self):
        for i in range(3):
            os.utime(self.put(f'd{i}/a.bin', 'x' * 3000000 + ('y' if i == 1 else 'z')), (1, 1))
        v = self.nodes(3, '--only', 'agreement', '--data', 'a.bin', cwd=lambda i: self.dir / f'd{i}', status=1)
        c = self.check(v, 'agreement.data', 'refuse')
        self.assertEqual((c['hosts'], c['differs'][0]['item']), (['n1'], 'a.bin'))

    def test_only_the_ends_of_data_are_read_unless_all_is_asked_for(self):
        for name, middle in (('one', 'a'), ('two', 'b')):
            path = self.put(f'{name}/x.bin', 'x' * 2000000 + middle + 'x' * 2000000)
            os.utime(path, (1, 1))
        for more, status in (([], 0), (['--hash-data'], 1)):
            self.nodes(2, '--only', 'agreement', '--data', 'x.bin', *more, cwd=lambda i: self.dir / ('one', 'two')[i], status=status)

    def test_a_node_with_other_options_is_refused(self):
        v = self.nodes(2, each=lambda i: ['--only', 'storage,recoverable' if i else 'storage,fabric'], status=1)
        self.assertEqual(self.check(v, 'fabric.options', 'refuse')['hosts'], ['n1'])

    def test_only_goes_before_strict(self):
        v = self.alone('--only', 'blocks', '--strict', 'gpus=refuse', '--blocks', self.counts([8, 8]), status=0)
        self.assertEqual({c['invariant'] for c in v['checks']}, {'blocks'})

    def test_launchers_say_who_is_who(self):
        for variables in (lambda i: {'SLURM_NNODES': '2', 'SLURM_NODEID': str(i), 'SLURM_JOB_ID': '77', 'LOCAL_WORLD_SIZE': '4'},
                          lambda i: {'PET_NNODES': '2', 'PET_NODE_RANK': str(i), 'PET_NPROC_PER_NODE': '4', 'TORCHELASTIC_RUN_ID': 'x'},
                          lambda i: {'NNODES': '2', 'NODE_RANK': str(i), 'WORLD_SIZE': '8', 'SLURM_JOB_ID': '77'}):
            (self.dir / 'meet').mkdir(exist_ok=True)
            running = [self.command(['--json', '--only', 'agreement', '--meet-folder', self.dir / 'meet', '--wait', '20'],
                                    self.env(i, **variables(i))) for i in range(2)]
            said = [p.communicate(timeout=60) for p in running]
            self.assertEqual([p.returncode for p in running], [0, 0], said)
            v = json.loads(said[0][0])
            self.assertEqual((v['nodes'], v['ranks']), (2, 8))
            self.assertIn('8 ranks on 2 nodes', self.check(v, 'agreement.ranks', 'ok')['measured'])
            for path in sorted((self.dir / 'meet').rglob('*'), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()

    def test_ranks_that_two_nodes_or_none_would_run_are_named(self):
        v = self.nodes(2, '--only', 'agreement', '--ranks', 4, each=lambda i: ['--first-rank', 3 * i], status=1)
        self.assertIn('both would run rank 3', [c for c in v['checks'] if c['name'] == 'ranks'][0]['measured'])
        v = self.nodes(2, '--only', 'agreement', '--ranks', 4, '--world-size', 9, each=lambda i: ['--first-rank', 5 * i], status=1)
        self.assertEqual(self.check(v, 'agreement.ranks', 'refuse')['ranks'], [4])

    # --- gpus ---

    def test_no_gpu_is_refused_only_where_one_was_asked_for(self):
        self.check(self.alone('--skip', 'storage', status=0), 'gpus.count', 'ok')
        self.check(self.alone('--only', 'gpus', '--gpus', 8, status=1), 'gpus.count', 'refuse')

    def test_healthy_gpus_are_ready(self):
        self.smi()
        v = self.alone('--only', 'gpus', '--gpus', 2, status=0)
        self.assertEqual({c['state'] for c in v['checks']}, {'ok'}, v)

    def test_each_trouble_of_a_gpu_is_named(self):
        cases = {
            'memory': {'core': GPU.format(0, 4, 0) + '\n' + GPU.format(1, 40000, 0)},
            'busy': {'core': GPU.format(0, 4, 0) + '\n' + GPU.format(1, 4, 100)},
            'errors': {'ecc': '0, 0\\n1, 2'},
            'throttle': {'throttle': '0, 0x0000000000000001\\n1, 0x0000000000000041'},
            'strangers': {'apps': 'GPU-1, 4711, python3, 300 MiB'},
        }
        for name, made in cases.items():
            self.smi(**made)
            c = self.check(self.alone('--only', 'gpus', '--gpus', 2, status=1), f'gpus.{name}', 'refuse')
            self.assertIn('GPU 1', c['measured'])
            self.assertTrue(c['limit'] and c['remedy'])

    def test_a_node_that_lacks_a_gpu_is_the_odd_one(self):
        for i in range(3):
            self.smi(i, core='\n'.join(GPU.format(k, 4, 0) for k in range(2 - (i == 2))))
        v = self.nodes(3, '--only', 'gpus', status=1)
        self.assertEqual(self.check(v, 'gpus.count', 'refuse')['hosts'], ['n2'])

    def test_young_xids_refuse_and_old_ones_warn(self):
        self.smi()
        up = int(float(pathlib.Path('/proc/uptime').read_text().split()[0]))
        for age, name, state in ((60, 'xid', 'refuse'), (up, 'old-xid', 'warn')):
            self.put('root/kernel.log', f'<4>[{max(up - age, 0)}.123456] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n'
                                        f'<4>[{max(up - age, 0)}.2] NVRM: Xid (PCI:0000:3b:00): 31, an application\'s fault\n')
            v = self.alone('--only', 'gpus', '--gpus', 2, '--limit', 'xid-hours=0' if state == 'warn' else 'xid-hours=24')
            self.assertIn('XID 79', self.check(v, f'gpus.{name}', state)['measured'])

    def test_rocm_is_understood(self):
        card = {'Card series': 'AMD Instinct MI300X', 'VRAM Total Memory (B)': str(192 << 30), 'VRAM Total Used Memory (B)': '1000', 'GPU use (%)': '0'}
        self.put('bin/rocm-smi', '#!/bin/sh\ncat <<X\n' + json.dumps({f'card{i}': card for i in range(8)}) + '\nX\n', 0o755)
        self.alone('--only', 'gpus', '--gpus', 8, status=0)

    def nvml(self, wrong, *argv):
        env = {**KEPT, 'LD_LIBRARY_PATH': str(NVML.parent), 'STANDIN_NVML': wrong}
        p = self.command(['--json', '--only', 'gpus', '--probe-seconds', '2', *argv], env)
        out, err = p.communicate(timeout=60)
        return p.returncode, json.loads(out)

    def test_nvml_is_asked_where_it_is(self):
        if not NVML:
            self.skipTest('the stand-in of NVML was not given')
        status, v = self.nvml('', '--gpus', '2')
        self.assertEqual((status, {c['state'] for c in v['checks'] if not c['name'].endswith('xid')}), (0, {'ok'}), v)
        for wrong, name, words in (('used', 'memory', '40,960 MiB'), ('busy', 'busy', '100 %'), ('ecc', 'errors', '3 uncorrected'),
                                   ('remap', 'errors', 'could not be remapped'), ('throttle', 'throttle', 'hardware thermal'),
                                   ('process', 'strangers', 'process 1'), ('lost', 'answer', 'GPU is lost'),
                                   ('driver', 'answer', 'Driver Not Loaded'), ('hang', 'probe', 'no answer')):
            status, v = self.nvml(wrong)
            self.assertEqual(status, 1, v)
            self.assertIn(words, self.check(v, f'gpus.{name}', 'refuse')['measured'])

    def test_fewer_gpus_than_ranks_are_refused(self):
        self.smi()
        self.check(self.alone('--only', 'gpus', '--ranks', 4, '--first-rank', 0, status=1), 'gpus.count', 'refuse')

    def test_a_probe_that_hangs_is_a_finding(self):
        for script in ('sleep 1000', 'kill -STOP $$; sleep 1000', 'trap "" TERM INT; while :; do sleep 1; done'):
            self.put('bin/nvidia-smi', f'#!/bin/sh\n{script}\n', 0o755)
            begun = time.monotonic()
            v = self.alone('--only', 'gpus', '--probe-seconds', 1, status=1)
            self.assertLess(time.monotonic() - begun, 5)
            self.assertIn('no answer', self.check(v, 'gpus.probe', 'refuse')['measured'])

    def test_xids_are_told_where_the_driver_hangs(self):
        self.put('bin/nvidia-smi', '#!/bin/sh\nsleep 1000\n', 0o755)
        self.put('root/kernel.log', f'<4>[{time.clock_gettime(time.CLOCK_BOOTTIME):.6f}] NVRM: Xid (PCI:0000:3b:00): 119, pid=1\n')
        v = self.alone('--only', 'gpus', '--probe-seconds', 1, status=1)
        self.assertIn('GSP', self.check(v, 'gpus.xid', 'refuse')['measured'])

    def test_a_driver_that_fails_is_refused(self):
        self.put('bin/nvidia-smi', '#!/bin/sh\necho "NVIDIA-SMI has failed"\nexit 9\n', 0o755)
        self.check(self.alone('--only', 'gpus', status=1), 'gpus.answer', 'refuse')

    # --- fabric ---

    def link(self, node, mtu='9000', speed='100000', name='eth0', up='up'):
        for file, text in (('mtu', mtu), ('speed', speed), ('operstate', up), ('device/vendor', 'x')):
            self.put(f'root{node}/sys/class/net/{name}/{file}', text + '\n')

    def port(self, node, state='4: ACTIVE', rate='400 Gb/sec (4X NDR)'):
        for file, text in (('state', state), ('rate', rate), ('phys_state', '5: LinkUp'), ('link_layer', 'InfiniBand')):
            self.put(f'root{node}/sys/class/infiniband/mlx5_0/ports/1/{file}', text + '\n')

    def test_the_odd_mtu_speed_and_port_are_named(self):
        for i in range(3):
            self.link(i, mtu='1500' if i == 1 else '9000', speed='10000' if i == 2 else '100000')
            self.port(i, rate='200 Gb/sec (4X HDR)' if i == 0 else '400 Gb/sec (4X NDR)')
        v = self.nodes(3, '--only', 'fabric', status=1)
        self.assertEqual(self.check(v, 'fabric.mtu', 'refuse')['hosts'], ['n1'])
        self.assertEqual(self.check(v, 'fabric.speed', 'warn')['hosts'], ['n2'])
        self.assertEqual(self.check(v, 'fabric.rdma', 'refuse')['hosts'], ['n0'])

    def test_a_port_that_waits_for_the_subnet_manager_is_refused(self):
        self.port('', state='2: INIT')
        self.assertIn('mlx5_0/1', self.check(self.alone('--only', 'fabric', status=1), 'fabric.ports', 'refuse')['measured'])

    def test_contradictions_of_variables_are_named(self):
        self.link('')
        for env in ({'NCCL_SOCKET_IFNAME': 'ib0'}, {'NCCL_IB_DISABLE': '1', 'NCCL_IB_HCA': 'mlx5_0'}, {'NCCL_IB_HCA': 'mlx5_9'},
                    {'NCCL_P2P_DISABLE': '1', 'NCCL_P2P_LEVEL': 'NVL'}, {'NCCL_MIN_NCHANNELS': '8', 'NCCL_MAX_NCHANNELS': '4'},
                    {'NCCL_NET': 'IB'}, {'NCCL_ASYNC_ERROR_HANDLING': '1', 'TORCH_NCCL_ASYNC_ERROR_HANDLING': '3'}):
            c = self.check(self.alone('--only', 'fabric', status=1, **env), 'fabric.variables', 'refuse')
            self.assertIn(list(env)[0], c['measured'])
        for env in ({'NCCL_SOCKET_IFNAME': '^docker,lo'}, {'NCCL_SOCKET_IFNAME': 'ib,eth'}, {'NCCL_SOCKET_IFNAME': '=eth0'}, {'NCCL_IB_DISABLE': '1'}):
            self.alone('--only', 'fabric', status=0, **env)

    def test_a_taken_port_and_a_name_that_is_none_are_refused(self):
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            s.listen()
            place = f'127.0.0.1:{s.getsockname()[1]}'
            self.assertIn(place, self.check(self.alone('--only', 'fabric', '--rendezvous', place, status=1), 'fabric.rendezvous', 'refuse')['measured'])
        self.check(self.alone('--only', 'fabric', '--rendezvous', place, status=0), 'fabric.rendezvous', 'ok')
        self.alone('--only', 'fabric', '--rendezvous', 'nobody.invalid:29500', status=1)
        self.alone('--only', 'fabric', '--rendezvous', 'nonsense', status=1)
        self.check(self.alone('--only', 'fabric', MASTER_ADDR='127.0.0.1', MASTER_PORT=str(free_port()), status=0), 'fabric.rendezvous', 'ok')

    # --- storage ---

    def test_a_folder_that_cannot_be_written_is_refused(self):
        (self.dir / 'file').write_text('')
        self.check(self.alone('--only', 'storage', '--checkpoints', '/proc', status=1), 'storage.write', 'refuse')
        c = self.check(self.alone('--only', 'storage', '--checkpoints', self.dir / 'to/be/made', '--checkpoint-size', '1K', status=0), 'storage.write',
                       'warn')
        self.assertIn(f'to/be/made does not exist yet; {self.dir} was tried', c['measured'])
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ['bin', 'file', 'root', 'secret'], c)

    def test_room_is_for_the_checkpoints_to_come(self):
        folder = self.dir / 'ck'
        folder.mkdir()
        v = self.alone('--only', 'storage', '--checkpoints', folder, '--checkpoint-size', '900T', status=1)
        self.assertIn('1.8 PiB', self.check(v, 'storage.room', 'refuse')['limit'])
        self.check(self.alone('--only', 'storage', '--checkpoints', folder), 'storage.room', 'warn')
        self.check(self.alone('--only', 'storage', '--checkpoints', folder, '--checkpoint-size', '1M'), 'storage.room', 'ok')

    def test_small_limits_are_named(self):
        for limit, name in (('shm-mib=99999999999', 'shm'), ('open-files=999999999', 'open-files')):
            found = [c for c in self.alone('--only', 'storage', '--limit', limit)['checks'] if c['name'] == name]
            self.assertIn(found[0]['state'], ('refuse', 'warn'))

    # --- recoverable ---

    def test_a_job_that_saves_at_the_end_only_is_refused(self):
        self.check(self.alone('--only', 'recoverable', '--save-steps', 0, status=1), 'recoverable.saves', 'refuse')
        for text in ('{"save_strategy": "no"}', 'checkpoint:\n  enable: false\n', 'save_interval = 0\n'):
            self.check(self.alone('--only', 'recoverable', '--config', self.put('job.cfg', text), status=1), 'recoverable.saves', 'refuse')
        self.check(self.alone('--only', 'recoverable', '--config', self.put('job.cfg', '{"save_steps": 0.05}'), status=0), 'recoverable.saves', 'ok')
        for text in ('{"save_strategy": "steps", "save_steps": 500}', 'checkpoint:\n  interval: 500\n', 'save-interval: 500\n'):
            c = self.check(self.alone('--only', 'recoverable', '--config', self.put('job.cfg', text), status=0), 'recoverable.saves', 'ok')
            self.assertIn('500 steps', c['measured'])

    def test_gpu_hours_at_risk_are_told(self):
        v = self.alone('--only', 'recoverable', '--save-steps', 1000, '--step-ms', 36000, '--world-size', 16, status=0)
        self.assertIn('160 GPU hours', self.check(v, 'recoverable.saves', 'warn')['measured'])

    def test_a_watchdog_shorter_than_a_save_is_refused(self):
        self.check(self.alone('--only', 'recoverable', '--save-seconds', 700, status=1), 'recoverable.watchdog', 'refuse')
        self.check(self.alone('--only', 'recoverable', '--save-seconds', 700, '--watchdog-seconds', 1800, status=0), 'recoverable.watchdog', 'ok')
        config = self.put('args.json', '{"ddp_timeout": 60}')
        self.check(self.alone('--only', 'recoverable', '--save-seconds', 120, '--config', config, status=1), 'recoverable.watchdog', 'refuse')

    def test_the_recorder_and_the_watcher(self):
        self.check(self.alone('--only', 'recoverable', TORCH_NCCL_TRACE_BUFFER_SIZE='0', status=0), 'recoverable.recorder', 'warn')
        self.check(self.alone('--only', 'recoverable', '--strict', 'recoverable.recorder=refuse', TORCH_FR_BUFFER_SIZE='0', status=1),
                   'recoverable.recorder', 'refuse')
        self.check(self.alone('--only', 'recoverable', TORCH_FR_BUFFER_SIZE='2000', status=0), 'recoverable.recorder', 'ok')
        self.check(self.alone('--only', 'recoverable', TORCH_FR_BUFFER_SIZE='2000', TORCH_NCCL_DUMP_ON_TIMEOUT='0', status=0),
                   'recoverable.recorder', 'warn')
        self.check(self.alone('--only', 'recoverable', '--watched', status=0), 'recoverable.watcher', 'ok')

    # --- the command ---

    def test_more_paths_may_stand_behind_the_first(self):
        for r in range(4):
            self.put(f'per/rank{r}.txt', f'{80 + r}\n')
        v = self.alone('--only', 'blocks', '--blocks', *sorted((self.dir / 'per').iterdir()), status=1)
        self.assertEqual(self.check(v, 'blocks.balance', 'refuse')['ranks'], [0, 3])

    def test_no_trial_stays_where_the_storage_hangs(self):
        """The probe is killed in the middle of writing, and its file system knows no files without a name."""
        if not hung_folder.may_mount():
            self.skipTest('no FUSE')
        (self.dir / 'ckpt').mkdir()
        for call in 'write', 'fsync', 'read':
            with hung_folder.HungFolder(self.dir / 'ckpt') as f:
                f.hang(call)
                v = self.alone('--only', 'storage', '--probe-seconds', 1, '--checkpoints', f.path, status=1)
                self.assertIn('no answer', self.check(v, 'storage.probe', 'refuse')['measured'])
            self.assertEqual(os.listdir(self.dir / 'ckpt'), [], call)

    def test_trials_of_those_that_were_killed_are_removed(self):
        bytes_ = bytes((i * 2654435761 >> 13) & 255 for i in range(1000))
        ckpt = self.dir / 'ckpt'
        ckpt.mkdir()
        kept = {'.lockstep-preflight-young1': bytes_, '.lockstep-preflight-other1': b'mine', '.lockstep-preflight-longer1': b'',
                'step.pt': b''}
        for name, text in {**kept, '.lockstep-preflight-a1B2c3': bytes_, '.lockstep-preflight-empty1': b''}.items():
            (ckpt / name).write_bytes(text)
            if 'young' not in name:
                os.utime(ckpt / name, (1, 1))
        self.alone('--only', 'storage', '--checkpoints', ckpt, '--checkpoint-size', '1K', status=0)
        self.assertEqual(sorted(os.listdir(ckpt)), sorted(kept))

    def test_nothing_is_left_when_it_is_ended(self):
        self.put('bin/nvidia-smi', '#!/bin/sh\nsleep 1000\n', 0o755)
        p = self.command(['--only', 'gpus'], self.env(TMPDIR=str(self.dir)))
        end = time.monotonic() + 20
        while not list(self.dir.glob('lockstep-preflight-*/gpus')):
            self.assertLess(time.monotonic(), end, 'the probe did not begin')
            time.sleep(0.02)
        p.terminate()
        self.assertEqual(p.wait(timeout=20), -15)
        p.communicate()
        self.assertFalse([n for n in os.listdir(self.dir) if 'preflight' in n])

    def test_bad_usage_is_one_line(self):
        for argv in (['--only', 'nothing'], ['--strict', 'gpus'], ['--strict', 'gpus=maybe'], ['--strict', 'gpus.nothing=warn'], ['--limit', 'x=1'], ['--limit', 'skew-ms=x'],
                     ['--blocks-per-step', '0'], ['--ranks', '99999999999'], ['--limit', 'skew-ms=9999999999999999'], ['--nodes', '3'], ['--nodes', '2', '--node', '2'], ['--checkpoint-size', 'big'], ['word'],
                     ['--nodes', '2', '--meet-folder', '.', '--names', 'a']):
            p = self.command(argv, self.env())
            out, err = p.communicate(timeout=30)
            self.assertEqual((p.returncode, out, err.count('\n')), (64, '', 1), (argv, err))

    def test_text_is_at_most_100_columns_and_begins_with_the_verdict(self):
        self.smi(core=GPU.format(0, 40000, 0) + '\n' + GPU.format(1, 40000, 100))
        p = self.command(['--blocks', self.counts([80, 160]), '--checkpoints', '/' + 'x' * 300], self.env(NCCL_SOCKET_IFNAME='y' * 300))
        out, _ = p.communicate(timeout=60)
        self.assertTrue(out.startswith('refused: '), out)
        self.assertLessEqual(max(map(len, out.splitlines())), 100)
        states = [line.split()[0] for line in out.splitlines()[1:] if not line.startswith(' ')]
        order = ['refuse', 'unknown', 'warn', 'ok']
        self.assertEqual(states, sorted(states, key=order.index))
        self.assertEqual(p.returncode, 1)

    def test_nothing_is_left_behind(self):
        scratch = self.dir / 'scratch'
        scratch.mkdir()
        self.alone('--skip', 'storage', TMPDIR=str(scratch))
        self.assertEqual(list(scratch.iterdir()), [])

    def test_the_brief_report_leaves_out_what_is_well(self):
        counts = self.put('counts.csv', 'rank,blocks\n0,800\n1,790\n')
        argv = ['--only', 'blocks', '--blocks', counts, '--strict', 'blocks=warn', '--limit', 'shm-mib=1']

        def ask(*more):
            p = self.command([*argv, *more], self.env())
            return p.communicate(timeout=60)[0]
        whole = ask('--json')
        self.assertEqual([c['state'] for c in json.loads(ask('--json', '--brief'))['checks']],
                         [c['state'] for c in json.loads(whole)['checks'] if c['state'] != 'ok'])
        self.assertEqual(ask('--json', '--report', self.dir / 'r'), ask('--brief') + f'the whole report: {self.dir}/r\n')
        self.assertEqual((self.dir / 'r').read_text(), whole)
        self.assertIn('No space left', self.command([*argv, '--report', '/dev/full'], self.env()).communicate(timeout=60)[1])


if __name__ == '__main__':
    NVML = pathlib.Path(sys.argv.pop(1)).resolve() if sys.argv[1:] and '.so' in sys.argv[1] else None
    unittest.main()
