# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: found newest first, and nothing that is not whole is taken for good."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import checkpoint_made as made
import checkpoint_saves as saves

PROGRAM = sys.argv.pop(1)


def look(folder, *options):
    r = subprocess.run([PROGRAM, *options, str(folder)], capture_output=True, text=True, timeout=60)
    assert r.returncode == 0, r.stderr
    rows = [json.loads(line) for line in r.stdout.splitlines()]
    for row in rows[:-1]:
        row['name'] = os.path.relpath(row['path'], folder)
    return rows[:-1], rows[-1]['skipped']


class Checkpoints(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix='lockstep-ckpt-'))
        self.addCleanup(shutil.rmtree, self.dir)

    def only(self, *options):
        rows, _ = look(self.dir, *options)
        self.assertEqual(len(rows), 1, rows)
        return rows[0]

    def sweep(self, checkpoint, file, *modes):
        """No cut and no run of zeros to the end is taken for good."""
        path = self.dir / checkpoint / file if file else self.dir / checkpoint
        whole = path.read_bytes()
        for mode in modes:
            r = subprocess.run([PROGRAM, *mode.split(), str(self.dir), str(self.dir / checkpoint), str(path)],
                               capture_output=True, text=True, timeout=100)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertTrue(r.stdout.endswith(' good 0\n'), (checkpoint, file, mode, r.stdout))
            path.write_bytes(whole)

    def test_a_file_by_torch_save_cut_or_zeroed_at_every_length_is_never_good(self):
        made.write(f'{self.dir}/step_7.pt', made.torch_zip(made.state(7)))
        row = self.only('--whole')
        self.assertEqual((row['kind'], row['state'], row['step'], row['weights_only']), ('torch', 'good', 7, False))
        self.sweep('step_7.pt', '', '--cut', '--zero --whole')

    def test_a_file_whose_headers_have_the_sizes_too(self):
        made.write(f'{self.dir}/step_7.pt', made.torch_zip(made.state(7, optimizer=False), trailers=False))
        self.assertEqual((self.only()['state'], self.only()['weights_only']), ('good', True))
        self.sweep('step_7.pt', '', '--cut', '--zero --whole')

    def test_the_older_form_is_checked_to_its_last_byte(self):
        made.write(f'{self.dir}/model.pth', made.torch_row(made.state(31, size=12000)))
        row = self.only()
        self.assertEqual((row['state'], row['step']), ('good', 31))
        self.sweep('model.pth', '', '--cut')
        made.write(f'{self.dir}/model.pth', (self.dir / 'model.pth').read_bytes() + b'x')
        self.assertIn('behind its end', self.only()['why'])

    def test_zeros_in_the_middle_are_seen_by_the_checksums(self):
        text = bytearray(made.torch_zip(made.state(1, size=20000)))
        text[9000:9200] = bytes(200)
        made.write(f'{self.dir}/step_1.pt', bytes(text))
        self.assertEqual(self.only()['state'], 'good')
        self.assertEqual(self.only('--whole')['state'], 'torn')

    def test_a_hole_is_looked_into_even_without_checksums_asked_for(self):
        text = made.torch_zip(made.state(1, size=60000))
        with open(self.dir / 'step_1.pt', 'wb') as f:
            f.write(text[:8192])
            f.seek(8192 + 16384)
            f.write(text[8192 + 16384:])
        if os.stat(self.dir / 'step_1.pt').st_blocks * 512 >= len(text):
            self.skipTest('this file system keeps no holes')
        self.assertIn('CRC', self.only()['why'])

    def test_a_storage_that_the_pickle_names_must_be_there(self):
        whole = made.torch_zip(made.state(1))
        import io
        import zipfile
        out = made.Unseekable()
        with zipfile.ZipFile(io.BytesIO(whole)) as a, zipfile.ZipFile(out, 'w') as b:
            for i in a.infolist():
                if not i.filename.endswith('/data/1'):
                    b.writestr(i.filename, a.read(i))
        made.write(f'{self.dir}/step_1.pt', bytes(out.b))
        self.assertIn('data/1 is missing', self.only()['why'])

    def test_safetensors_cut_or_with_a_page_of_zeros_are_never_good(self):
        made.write(f'{self.dir}/weights.safetensors', made.safetensors({'a': made.noise(100), 'b': made.noise(300)}))
        row = self.only()
        self.assertEqual((row['kind'], row['state']), ('safetensors', 'good'))
        self.sweep('weights.safetensors', '', '--cut')
        text = made.safetensors({'a': made.noise(9000)})
        made.write(f'{self.dir}/weights.safetensors', text[:-5000] + bytes(5000))
        self.assertIn('zeros from the middle', self.only()['why'])

    def test_safetensors_of_zeros_by_nature_are_good(self):
        made.write(f'{self.dir}/weights.safetensors', made.safetensors({'a': made.noise(64), 'z': bytes(8192)}))
        self.assertEqual(self.only()['state'], 'good')

    def test_dcp_cut_or_zeroed_at_every_length_is_never_good(self):
        made.dcp(f'{self.dir}/step_5')
        row = self.only()
        self.assertEqual((row['kind'], row['state'], row['step'], row['weights_only']), ('dcp', 'good', 5, False))
        for name in '.metadata', '__0_0.distcp', '__1_0.distcp':
            self.sweep('step_5', name, '--cut', '--zero --whole')
        os.unlink(self.dir / 'step_5/__1_0.distcp')
        self.assertEqual(self.only()['why'], '__1_0.distcp: missing')
        os.unlink(self.dir / 'step_5/.metadata')
        self.assertIn('without .metadata', self.only()['why'])

    def test_dcp_never_leaves_its_folder(self):
        made.dcp(f'{self.dir}/step_5')
        text = (self.dir / 'step_5/.metadata').read_bytes()
        made.write(f'{self.dir}/step_5/.metadata', text.replace(b'__1_0.distcp', b'../../secret'))
        self.assertEqual(self.only()['state'], 'foreign')

    def test_a_trainer_folder_without_any_one_of_its_files(self):
        made.trainer(f'{self.dir}/checkpoint-500', 500, shards=3)
        row = self.only('--whole')
        self.assertEqual((row['kind'], row['state'], row['step'], row['weights_only']), ('trainer', 'good', 500, False))
        for name in ('trainer_state.json', 'optimizer.pt', 'model-00002-of-00003.safetensors',
                     'model.safetensors.index.json'):
            path = self.dir / 'checkpoint-500' / name
            text = path.read_bytes()
            os.unlink(path)
            self.assertEqual(self.only()['state'], 'torn', name)
            path.write_bytes(text[:len(text) // 2])
            self.assertEqual(self.only()['state'], 'torn', name)
            path.write_bytes(text)
        self.assertEqual(self.only()['state'], 'good')

    def test_a_file_by_lightning(self):
        made.write(f'{self.dir}/epoch=1-step=40.ckpt', made.torch_zip(
            {'epoch': 1, 'global_step': 40, 'pytorch-lightning_version': '2.6', 'state_dict': {'w': made.Tensor('0', b'1234')},
             'optimizer_states': [{'state': {0: {'exp_avg': made.Tensor('1', b'1234')}}}]}))
        row = self.only('--whole')
        self.assertEqual((row['kind'], row['state'], row['step'], row['weights_only']), ('lightning', 'good', 40, False))
        self.sweep('epoch=1-step=40.ckpt', '', '--cut')

    def test_a_trainer_folder_of_sharded_models(self):
        made.trainer(f'{self.dir}/checkpoint-500', 500, optimizer=False)
        os.unlink(self.dir / 'checkpoint-500/model.safetensors')
        made.dcp(f'{self.dir}/checkpoint-500/pytorch_model_fsdp_0', optimizer=False)
        made.dcp(f'{self.dir}/checkpoint-500/optimizer_0', optimizer=False)
        row = self.only('--whole')
        self.assertEqual((row['kind'], row['state'], row['weights_only']), ('trainer', 'good', False))
        os.unlink(self.dir / 'checkpoint-500/optimizer_0/.metadata')
        self.assertIn('did not end', self.only()['why'])

    def test_a_trainer_folder_with_deepspeed_in_it(self):
        made.trainer(f'{self.dir}/checkpoint-500', 500, optimizer=False)
        made.deepspeed(f'{self.dir}/checkpoint-500', 500)
        row = self.only()
        self.assertEqual((row['kind'], row['state'], row['weights_only']), ('trainer', 'good', False))
        os.unlink(self.dir / 'checkpoint-500/global_step500/zero_pp_rank_3_mp_rank_00_optim_states.pt')
        self.assertIn('zero_pp_rank_3_mp_rank_0', self.only()['why'])

    def test_weights_only_where_the_format_allows_it(self):
        made.trainer(f'{self.dir}/checkpoint-500', 500, optimizer=False)
        made.deepspeed(f'{self.dir}/ds', 600, optimizer=False)
        made.dcp(f'{self.dir}/step_700', optimizer=False)
        rows, _ = look(self.dir)
        self.assertEqual([(r['kind'], r['state'], r['step'], r['weights_only']) for r in rows],
                         [('dcp', 'good', 700, True), ('deepspeed', 'good', 600, True), ('trainer', 'good', 500, True)])

    def test_deepspeed_lacks_a_rank_or_its_marker(self):
        made.deepspeed(self.dir, 10)
        row = self.only('--whole')
        self.assertEqual((row['kind'], row['state'], row['step']), ('deepspeed', 'good', 10))
        made.deepspeed(self.dir, 20, latest=False)
        rows, _ = look(self.dir)
        self.assertEqual([(r['step'], r['state']) for r in rows], [(20, 'torn'), (10, 'good')])
        self.assertIn('latest still says 10', rows[0]['why'])
        made.deepspeed(self.dir, 20)
        for r in 1, 3:
            path = self.dir / f'global_step20/zero_pp_rank_{r}_mp_rank_00_optim_states.pt'
            text = path.read_bytes()
            os.unlink(path)
            rows, _ = look(self.dir)
            self.assertEqual(rows[0]['state'], 'torn')
            self.assertIn(f'zero_pp_rank_{r}_mp_rank_0', rows[0]['why'])
            path.write_bytes(text)
        self.assertEqual(look(self.dir)[0][0]['state'], 'good')

    def test_megatron_lacks_a_rank_or_its_marker(self):
        made.megatron(self.dir, 100)
        row = self.only()
        self.assertEqual((row['kind'], row['state'], row['step']), ('megatron', 'good', 100))
        made.megatron(self.dir, 200, marker=False)
        self.assertIn('still says 100', look(self.dir)[0][0]['why'])
        made.megatron(self.dir, 200)
        os.unlink(self.dir / 'iter_0000200/mp_rank_01_001/distrib_optim.pt')
        self.assertIn('is missing', look(self.dir)[0][0]['why'])
        os.unlink(self.dir / 'latest_checkpointed_iteration.txt')
        self.assertIn('did not end', look(self.dir)[0][1]['why'])

    def test_torn_ones_are_passed_over_and_named(self):
        for step in 10, 20, 30:
            made.write(f'{self.dir}/ckpt_{step}.pt', made.torch_zip(made.state(step)))
        os.truncate(self.dir / 'ckpt_30.pt', 700)
        made.write(f'{self.dir}/ckpt_40.pt.tmp', b'PK')
        made.write(f'{self.dir}/ckpt_50.pt', b'')
        made.write(f'{self.dir}/ckpt_60.pt', bytes(5000))
        made.write(f'{self.dir}/ckpt_70.pt', b'#!/bin/sh\n')
        os.symlink('nowhere', self.dir / 'ckpt_80.pt')
        os.symlink('ckpt_20.pt', self.dir / 'last.pt')
        os.mkfifo(self.dir / 'ckpt_90.pt')
        rows, _ = look(self.dir)
        self.assertEqual([(r['step'], r['state']) for r in rows],
                         [(80, 'torn'), (70, 'foreign'), (60, 'torn'), (50, 'torn'), (40, 'torn'), (30, 'torn'),
                          (20, 'good'), (10, 'good')])
        for r in rows[:6]:
            self.assertTrue(r['why'] and r['name'] not in r['why'][:-1], r)

    def test_a_folder_of_files_must_have_what_the_one_before_has(self):
        for step in 10, 20:
            for name in f'model_{step}.pt', 'optim.pt':
                made.write(f'{self.dir}/step_{step}/{name}', made.torch_zip(made.state(step)))
        self.assertEqual([r['state'] for r in look(self.dir)[0]], ['good', 'good'])
        os.unlink(self.dir / 'step_20/optim.pt')
        rows, _ = look(self.dir)
        self.assertEqual([r['state'] for r in rows], ['torn', 'good'])
        self.assertIn('optim.pt is missing', rows[0]['why'])

    def test_steps_are_read_from_all_usual_names(self):
        names = {'epoch=3-step=1200.ckpt': 1200, 'model_step_00500.pt': 500, 'iter-7.pt': 7, '250.pt': 250,
                 'checkpoint_900.pth': 900}
        for name in names:
            made.write(f'{self.dir}/{name}', made.torch_zip({'w': made.Tensor('0', b'1234')}))
        made.write(f'{self.dir}/epoch_3.pt', made.torch_zip({'w': made.Tensor('0', b'1234')}))
        rows, _ = look(self.dir)
        self.assertEqual({r['name']: r['step'] for r in rows}, dict(names, **{'epoch_3.pt': -1}))

    def test_a_folder_of_very_many_files_is_walked_once(self):
        for i in range(5000):
            open(self.dir / f'shard-{i}.txt', 'w').close()
        made.write(f'{self.dir}/step_3.pt', made.torch_zip(made.state(3)))
        self.assertEqual(self.only()['step'], 3)

    def test_a_crash_anywhere_in_a_save_leaves_the_one_before(self):
        """Of each framework's order of writing: the new one is good when it is whole and not before, and the old one stays so."""
        for layout in saves.LAYOUTS:
            before, new = layout(100), layout(200)
            for k in range(len(new) + 1):
                data = new[k][1] if k < len(new) else None
                marker = data is not None and k == len(new) - 1 and len(data) < 32
                cuts = {None} if data is None else {None, 0} if marker else {None, 0, len(data) // 2}
                for cut in cuts:
                    folder = self.dir / 'x'
                    for item in [*before, *new[:k]]:
                        saves.write(folder, item)
                    if cut is not None:
                        saves.write(folder, new[k], cut)
                    rows, _ = look(folder)
                    good = next((r['step'] for r in rows if r['state'] == 'good'), None)
                    whole = k == len(new) or (marker and cut == 0) or \
                        k >= len(new) - saves.SPARE.get(layout, 0) and (cut is None or layout is saves.lightning)
                    self.assertEqual(good, 200 if whole else 100, (layout.__name__, k, cut, new[k:k + 1], rows))
                    shutil.rmtree(folder)

    def test_a_marker_that_was_cut_off_speaks_for_what_is_older(self):
        made.deepspeed(self.dir, 10)
        made.write(f'{self.dir}/latest', '')
        made.deepspeed(self.dir, 20, latest=False)
        os.utime(self.dir / 'latest', (1, 1))
        self.assertEqual([r['state'] for r in look(self.dir)[0]], ['torn', 'torn'])
        for file in (self.dir / 'global_step10').iterdir():
            os.utime(file, (1, 1))
        self.assertEqual([(r['step'], r['state']) for r in look(self.dir)[0]], [(20, 'torn'), (10, 'good')])

    def test_loops_of_links_end(self):
        made.trainer(f'{self.dir}/checkpoint-5', 5)
        os.symlink('..', self.dir / 'checkpoint-5/up')
        rows, _ = look(self.dir)
        self.assertEqual(rows[0]['step'], 5)


if __name__ == '__main__':
    unittest.main()
