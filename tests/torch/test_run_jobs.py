#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`lockstep run` and the checkpoints that PyTorch itself writes.

    VENV/bin/python tests/torch/test_run_jobs.py [NAME...]

LOCKSTEP is the program in its build folder. One line a test, as in run.py.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LOCKSTEP = os.path.abspath(os.environ.get('LOCKSTEP', os.path.join(ROOT, 'build', 'lockstep')))
PRINT = os.path.join(os.path.dirname(LOCKSTEP), 'tests', 'print_checkpoints')
TRAIN = os.path.join(ROOT, 'examples', 'epoch-end-deadlock', 'train.py')


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def state():
    import torch
    model = torch.nn.Sequential(torch.nn.Linear(24, 24), torch.nn.Linear(24, 3).to(torch.bfloat16))
    optimizer = torch.optim.AdamW(model.parameters())
    for p in model.parameters():
        p.grad = torch.randn_like(p)
    optimizer.step()
    return {'model': model.state_dict(), 'optimizer': optimizer.state_dict(), 'step': 12,
            'more': [torch.arange(5), torch.zeros(2, 3, dtype=torch.complex64), torch.ones(4, dtype=torch.bool), 'x', None, 1.5]}


def rows(folder, *options):
    p = subprocess.run([PRINT, *options, folder], capture_output=True, text=True, timeout=60)
    expect(p.returncode == 0, p.stderr)
    return [json.loads(line) for line in p.stdout.splitlines()][:-1]


def sweep(folder, checkpoint, file, *mode):
    with open(file, 'rb') as f:
        whole = f.read()
    p = subprocess.run([PRINT, *mode, folder, checkpoint, file], capture_output=True, text=True, timeout=300)
    expect(p.returncode == 0, p.stderr)
    expect(p.stdout.endswith(' good 0\n'), f'{file} {mode}: {p.stdout}')
    with open(file, 'wb') as f:
        f.write(whole)


def expect_good(row, kind, step, weights_only):
    got = row['kind'], row['state'], row['step'], row['weights_only']
    expect(got == (kind, 'good', step, weights_only), row)


def test_torch_save_cut_anywhere(folder):
    import torch
    path = f'{folder}/model.pt'
    torch.save(state(), path)
    expect_good(rows(folder, '--whole')[0], 'torch', 12, False)
    sweep(folder, path, path, '--cut')
    sweep(folder, path, path, '--zero', '--whole')
    torch.save(state()['model'], path)
    expect_good(rows(folder, '--whole')[0], 'torch', -1, True)


def test_the_older_form_cut_anywhere(folder):
    import torch
    path = f'{folder}/step_3.pth'
    torch.save(state(), path, _use_new_zipfile_serialization=False)
    expect_good(rows(folder)[0], 'torch', 3, False)
    sweep(folder, path, path, '--cut')


def test_distributed_checkpoint_cut_anywhere(folder):
    import torch.distributed.checkpoint as dcp
    path = f'{folder}/step_5'
    dcp.save(state(), storage_writer=dcp.FileSystemWriter(path, thread_count=3), no_dist=True)
    expect_good(rows(folder, '--whole')[0], 'dcp', 5, False)
    names = os.listdir(path)
    expect(len(names) >= 3, names)
    for name in names:
        sweep(folder, path, f'{path}/{name}', '--cut')
        sweep(folder, path, f'{path}/{name}', '--zero', '--whole')


def test_sharded_distributed_checkpoint_of_ranks(folder):
    program = f'{folder}/save.py'
    with open(program, 'w', encoding='utf-8') as f:
        f.write('import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp\n'
                'from torch.distributed.fsdp import fully_shard\n'
                'from torch.distributed.checkpoint.state_dict import get_state_dict\n'
                'from torch.distributed.device_mesh import init_device_mesh\n'
                'dist.init_process_group("gloo")\n'
                'm = fully_shard(torch.nn.Linear(16, 16), mesh=init_device_mesh("cpu", (2,)))\n'
                'o = torch.optim.AdamW(m.parameters())\n'
                'm(torch.randn(2, 16)).sum().backward(); o.step()\n'
                'model, optimizer = get_state_dict(m, o)\n'
                f'dcp.save({{"model": model, "optimizer": optimizer}}, checkpoint_id="{folder}/c/step_8")\n'
                f'dcp.save({{"model": model}}, checkpoint_id="{folder}/c/step_6")\n'
                'dist.destroy_process_group()\n')
    p = subprocess.run([sys.executable, '-m', 'torch.distributed.run', '--nproc-per-node', '2', program], capture_output=True,
                       text=True, timeout=120)
    expect(p.returncode == 0, p.stderr[-600:])
    newest, older = rows(f'{folder}/c', '--whole')
    expect_good(newest, 'dcp', 8, False)
    expect_good(older, 'dcp', 6, True)
    os.unlink(f'{folder}/c/step_8/__1_0.distcp')
    expect(rows(f'{folder}/c')[0]['state'] == 'torn', 'a shard is missing')


def test_the_deadlock_at_the_end_of_an_epoch_is_restarted_and_ends(folder):
    """Four ranks of FSDP with uneven blocks; LOCKSTEP_RESUME makes the second attempt even its steps."""
    argv = [LOCKSTEP, 'run', '--no-preflight', '--out', 'run', '--checkpoints', 'out/checkpoints', '--on-hang', 'restart',
            '--hang-after', '8', '--look-after', '3', '--grace', '5', '--retry-delay', '1', '--', sys.executable, '-m',
            'torch.distributed.run', '--nproc-per-node', '4', TRAIN, '--out', 'out', '--blocks', '240', '--save-steps', '10',
            '--even-resumed']
    p = subprocess.run(argv, capture_output=True, text=True, timeout=280, cwd=folder)
    expect(p.returncode == 0, f'status {p.returncode}: {p.stderr[-1500:]}')
    with open(f'{folder}/run/run.json', encoding='utf-8') as f:
        attempts = json.load(f)['attempts']
    first, second = attempts[:2]
    expect(first['hung'] and first['ended_by_us'], first)
    expect(first['cause'] in ('uneven-steps', 'collective-desync'), first)
    expect(second['from']['step'] == 20, second)
    expect('training done' in p.stdout + p.stderr, p.stderr[-600:])
    for n in 1, 2:
        expect(os.path.exists(f'{folder}/run/attempt-1/evidence-{n}/collect.json'), 'evidence was not kept')
    ranks = []
    for r in range(4):
        with open(f'{folder}/out/rank{r}.json', encoding='utf-8') as f:
            ranks.append(json.load(f)['steps'])
    expect(len(set(ranks)) == 1, ranks)
    expect({r['state'] for r in rows(f'{folder}/out/checkpoints')} == {'good'}, 'a checkpoint is torn')


def main():
    tests = {n[5:]: t for n, t in globals().items() if n.startswith('test_')}
    failed = 0
    for name in sys.argv[1:] or tests:
        folder = tempfile.mkdtemp(prefix='lockstep-run-jobs-')
        try:
            tests[name](folder)
            print(f'ok {name}', flush=True)
        except Exception as e:  # pylint: disable=broad-except
            failed += 1
            print(f'FAILED {name}: {e}', flush=True)
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
