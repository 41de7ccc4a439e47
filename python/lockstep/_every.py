# SPDX-License-Identifier: Apache-2.0
"""every(steps=, minutes=): when to save, decided the same on all ranks, since a rank that saves alone hangs the job.

Steps need no word between ranks. Minutes are those of rank 0's clock: it says a step before that the next is due, and in
how many steps it will be asked again, so that a job hears of it a few times between saves and not at each step.
"""
import os
import sys
import time

from lockstep import _agree

ASK_S = 60      # rank 0 is asked at least so often
TAG = 3 << 60   # of our messages; the calls so far are added


class Every:
    """Called at the end of each step, on every rank: True where all are to save.

    step: the number of the step, if the program counts them, else they are counted here. saves: how often it was True.
    """

    def __init__(self, steps=None, minutes=None, group=None, clock=time.monotonic):
        if not steps and not minutes:
            raise ValueError('lockstep.every: give steps=, minutes= or both')
        if (steps or 0) < 0 or (minutes or 0) < 0:
            raise ValueError('lockstep.every: steps and minutes are above zero')
        self.steps, self.seconds, self.group, self.clock = steps, (minutes or 0) * 60, group, clock
        self.calls = self.saves = 0
        self.last_step = None   # of the last save
        self._agreed = None
        self._began = self._saved_at = None     # clock; rank 0's counts
        self._posted = None     # on its way: (message, calls when it was sent, saves then)
        self._ask = 1           # calls at which rank 0 is asked

    def __call__(self, step=None):
        self.calls += 1
        number = self.calls if step is None else step
        due = bool(self.steps) and number > 0 and number % self.steps == 0
        if self.seconds:
            due = self._by_clock() or due
        if due:
            self.saves += 1
            self.last_step = number
            self._saved_at = self.clock()
        return due

    def _by_clock(self):
        if not self._posted and self.calls >= self._ask and (self._agreed is None or not self._agreed.alive()):
            self._agreed = _agree.agreement(self.group)
        if self._began is None:
            self._began = self._saved_at = self.clock()
            self._first = self.calls
        due = False
        if self._posted and self.calls > self._posted[1]:
            message, _, saves = self._posted
            self._posted = None
            word, ahead = self._agreed.result(message)
            due = bool(word) and saves == self.saves    # one that was saved since need not be again
            self._ask = self.calls + ahead
        if not self._posted and self.calls >= self._ask:
            self._posted = self._agreed.post(TAG + self.calls, self._word()), self.calls, self.saves
        return due

    def _word(self):
        """[the next step is to save, in how many steps to ask again]; rank 0's is the least."""
        if self._agreed.rank:
            return [2, 1 << 40]
        now, steps = self.clock(), self.calls - self._first
        step_s = (now - self._began) / max(steps, 1)
        left = self.seconds - (now - self._saved_at)
        if left <= step_s:
            return [1, 1]
        return [0, max(min(int(min(left / 2, ASK_S) / max(step_s, 1e-6)), steps), 1)]

    def trainer(self):
        """A TrainerCallback of transformers that has Trainer save."""
        from transformers import TrainerCallback
        every = self

        class SaveEvery(TrainerCallback):
            def on_step_end(self, args, state, control, **kwargs):
                if every(state.global_step):
                    control.should_save = True
                return control
        return SaveEvery()

    def lightning(self, folder=None, name='step={step}.ckpt'):
        """A Callback of Lightning that saves to this folder (default_root_dir/checkpoints) on all ranks."""
        every = self

        class SaveEvery(_lightning().Callback):
            seen = -1

            def on_train_batch_end(self, trainer, module, *_):
                del module
                step = trainer.global_step
                if step == self.seen:   # batches of one optimizer step
                    return
                self.seen = step
                if every(step):
                    to = folder or os.path.join(trainer.default_root_dir, 'checkpoints')
                    trainer.save_checkpoint(os.path.join(to, name.format(step=step)))
        return SaveEvery()


def _lightning():
    """Lightning has two names; that which the program uses."""
    for name in ('lightning.pytorch', 'pytorch_lightning'):
        if name in sys.modules:
            return sys.modules[name]
    try:
        import lightning.pytorch as found
    except ImportError:
        import pytorch_lightning as found
    return found


def every(steps=None, minutes=None, group=None):
    """When to save: `if save(step): ...` at each step's end; see Every."""
    return Every(steps, minutes, group)
