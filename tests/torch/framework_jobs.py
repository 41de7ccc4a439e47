#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The loops of Trainer (transformers) and Lightning around a small model, one rank; prints the losses' bits as JSON.

    python tests/torch/framework_jobs.py trainer|lightning
"""
import json
import sys
import tempfile

import torch
from torch import nn

WIDTH, STEPS = 16, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + torch.relu(self.up(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Block() for _ in range(2)])
        self.losses = []

    def forward(self, x=None):
        for layer in self.layers:
            x = layer(x)
        loss = x.square().mean()
        self.losses.append(loss.item().hex())
        return {'loss': loss}


class Rows(torch.utils.data.Dataset):
    def __init__(self, n):
        self.x = torch.randn(n, WIDTH, generator=torch.Generator().manual_seed(2))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {'x': self.x[i]}


def trainer(folder):
    """Two micro-batches a step."""
    from transformers import Trainer, TrainingArguments
    model = Model()
    args = TrainingArguments(folder, per_device_train_batch_size=2, gradient_accumulation_steps=2, max_steps=STEPS, use_cpu=True,
                             report_to=[], save_strategy='no', disable_tqdm=True, remove_unused_columns=False)
    Trainer(model, args, train_dataset=Rows(64)).train()
    return model.losses


def lightning(folder):
    import pytorch_lightning as pl

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.model = Model()

        def training_step(self, batch):
            return self.model(**batch)['loss']

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=.1)
    module = Module()
    pl.Trainer(max_steps=STEPS, accelerator='cpu', logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
               default_root_dir=folder).fit(module, torch.utils.data.DataLoader(Rows(64), batch_size=2))
    return module.model.losses


def main():
    torch.set_num_threads(1)
    torch.manual_seed(7)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps({'trainer': trainer, 'lightning': lightning}[sys.argv[1]](folder)))


if __name__ == '__main__':
    main()
