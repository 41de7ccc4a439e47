# SPDX-License-Identifier: Apache-2.0
"""even(loader): every rank stops at the same step.

A rank that runs out of data leaves its loop and calls something else than the others, and the job hangs. So before a
batch is given, all ranks know that all have it: sized loaders agree once an epoch on the number of batches, unsized ones
a step ahead, while the step before it runs. They agree over a Gloo group of their own (_agree.py).

Where the ranks' loaders are even already nothing is cut: the loop sees what it would have seen.
"""
import logging
import time

from lockstep import _agree
from lockstep._even_source import Source, Window, keeps_state, length

HOWS = ('drop', 'pad', 'repeat', 'raise')
SIZED, STREAM = 1, 2    # matters of messages; see _tag()
SNAPSHOT = 16           # a stream that keeps state is asked for it at each so manieth step
VOTE_S = 1.           # where so much time passes between votes of a stream, their cost is lost in it
LEAVE_S = 5             # at most so long is waited for a vote when a loop is left
log = logging.getLogger('lockstep')


class Uneven(RuntimeError):
    """Ranks have different numbers of batches and it was asked to raise, or nothing can be done about it."""


class Even:
    """What even() gives, in the loader's place; whatever else is asked of it is asked of the loader.

    epoch       as set_epoch() said, else counted
    taken       batches of this epoch that the loop has had
    dropped     batches of this rank in this epoch that it does not get; of a stream those that were fetched
    padded, repeated    batches in this epoch that fill up
    weight      0.0 for a batch that fills up by how='pad', else 1.0: multiply the loss by it
    ends        (rank that ends first, its batches, rank that ends last, its batches), once known; of a stream the batches
                of the step at which they parted
    """

    def __init__(self, loader, how='drop', accumulate=1, group=None, pad=None, stream=None, timeout=None, ahead=32):
        if how not in HOWS:
            raise ValueError(f'lockstep.even: how is one of {", ".join(HOWS)}, not {how!r}')
        if int(accumulate) < 1:
            raise ValueError('lockstep.even: accumulate is the number of batches of one optimizer step, 1 or more')
        self.loader, self.how, self.accumulate, self.pad = loader, how, int(accumulate), pad
        self.group, self.timeout, self.ahead = group, timeout, max(int(ahead), 1)
        self.stream = length(loader) is None if stream is None else bool(stream)
        self.epoch, self.taken, self.weight, self.ends = 0, 0, 1., None
        self.dropped = self.padded = self.repeated = 0
        self._agreed = self._length = self._resume = self._snapshot = self._source = self._voted_at = None
        self._step_s = 0.   # about what an optimizer step takes
        self._lost, self._left = None, 0    # what is wrong with the loop before; batches that it had
        self._began = self._told = False    # an epoch has begun; set_epoch() was called
        self._turn = 0          # epochs begun in this process: the same on all ranks
        if _agree.distributed() is not None:
            self._meet()

    # --- as a loader ---

    def __len__(self):
        """Batches of an epoch, the same on every rank. Before ranks have met it is this rank's."""
        if self.stream:
            raise TypeError('lockstep.even: this loader does not know its length')
        return len(self.loader) if self._length is None else self._length

    def __getattr__(self, name):
        if name.startswith('__') or name == 'loader':
            raise AttributeError(name)
        return getattr(self.loader, name)

    def set_epoch(self, epoch):
        """Passed to whatever of the loader takes it."""
        if self._resume and self._resume['epoch'] not in (None, epoch):
            self._resume = None     # another epoch than the one that was to go on
        self.epoch, self._began, self._told = epoch, False, True
        batches = getattr(self.loader, 'batch_sampler', None)
        parts = (self.loader, getattr(self.loader, 'dataset', None), getattr(self.loader, 'sampler', None), batches,
                 getattr(batches, 'sampler', None))
        for part in {id(p): p for p in parts}.values():
            if callable(getattr(part, 'set_epoch', None)):
                part.set_epoch(epoch)

    def state_dict(self):
        """Where the loop is, the batch that it has included."""
        if self._resume:
            return dict(self._resume)
        state = {'epoch': self.epoch, 'taken': self.taken, 'told': self._told}
        if self._began and keeps_state(self.loader) and (self._snapshot or not self.stream):
            inner, taken, spent = self._snapshot or (self.loader.state_dict(), self.taken, self._spent())
            state.update(loader=inner, since=self.taken - taken, spent=spent)
        return state

    def load_state_dict(self, state):
        """The next loop goes on behind what was taken; a loader that keeps no state is read past it."""
        if state.get('told'):
            self.set_epoch(state['epoch'])
        self.epoch, self.taken, self._began = state['epoch'], state['taken'], False
        self._resume = dict(state)
        if 'loader' in state and keeps_state(self.loader):
            self.loader.load_state_dict(state['loader'])

    def skip(self, batches):
        """The next loop begins behind so many batches."""
        self._resume, self._began = {'epoch': None, 'taken': batches}, False
        return self

    def __iter__(self):
        self._meet()
        self._begin()
        try:
            yield from self._alone() if self._agreed.size <= 1 else self._votes() if self.stream else self._steps()
        finally:
            self._left = self.taken
        if self._agreed.rank == 0 and self.ends and self.ends[1] != self.ends[3]:
            log.warning('%s', self._says())

    # --- an epoch ---

    def _meet(self):
        """All ranks, in the same order: when made, and at the begin of each epoch."""
        if self._agreed is None or not self._agreed.alive():
            self._agreed = _agree.agreement(self.group, self.timeout)
            self._turn = 0
            if self._agreed.size > 1:
                self._length = self._agree_on_length()

    def _begin(self):
        if self._lost:
            raise self._lost
        resumed, self._resume = self._resume or {'taken': 0}, None
        if self._began:
            self.epoch += 1     # the one before is over, or was left
        self._turn += 1
        self._began, self.weight, self.ends, self._snapshot = True, 1., None, None
        self.dropped = self.padded = self.repeated = 0
        self.taken = resumed['taken']
        spent = resumed.get('spent', False) and 'loader' in resumed
        self._source = Source(self.loader, self.how, self.pad, spent)
        if 'loader' in resumed and keeps_state(self.loader):
            self._snapshot = resumed['loader'], self.taken - resumed['since'], spent
            self._source.skip(resumed['since'])
        else:
            self._source.skip(self.taken)
        if not self.stream:
            self._snapshot = None

    def _spent(self):
        return self._source is not None and self._source.spent

    def _tag(self, matter, place=0):
        """Of a message: what it is of, so that ranks at different places do not take it for theirs."""
        return (matter << 60) + (self._turn << 36) + place

    def _give(self, got):
        self.weight = 1.
        self.taken += 1
        return got[0]

    def _give_filler(self):
        got = self._source.fill()
        if got is None:
            raise Uneven(f'lockstep.even: epoch {self.epoch}: this rank has nothing to fill up with (how={self.how!r})')
        self.taken += 1
        self.weight = 0. if self.how == 'pad' else 1.
        self.padded += self.how == 'pad'
        self.repeated += self.how == 'repeat'
        return got[0]

    def _alone(self):
        while (got := self._source.own()) is not None:
            yield self._give(got)

    def _raise_if_told(self, least, most):
        """On all ranks alike."""
        if self.how == 'raise' and least != most:
            first, _, last, _ = self.ends
            raise Uneven(f'lockstep.even: epoch {self.epoch}: rank {first} ends before rank {last}: '
                         + (f'at batch {self.taken} of this epoch' if self.stream else f'{least} batches and {most}'))

    def _ask(self, tag, count, able, more=()):
        """(least, most) count of the ranks; raises on all ranks where one of them would have to fill up and cannot."""
        able = self.how in ('drop', 'raise') or able
        return self._agreed.post(tag, [*_agree.extremes(count, self._agreed.rank), int(able), *more])

    def _answer(self, posted):
        low, high, able, *more = self._agreed.result(posted)
        if len(more) > 1:
            self._same_on_all(*more)
        least, first, most, last = _agree.of_extremes(low, high)
        if least != most:
            self.ends = first, least, last, most
        if least != most and not able:
            raise Uneven(f'lockstep.even: epoch {self.epoch}: rank {first} ends before rank {last}, and a short rank has nothing to fill '
                         f'up with (how={self.how!r})')
        return least, most, more[0]

    @staticmethod
    def _same_on_all(least_set, most_set, least_taken, most_taken, least_left, most_left):
        if least_set != -most_set:
            raise Uneven('lockstep.even: ranks differ in how=, in accumulate=, or in whether their loaders know their length (stream=True '
                         'takes all of them for unsized)')
        if least_taken != -most_taken:
            raise Uneven(f'lockstep.even: ranks go on from different batches of the epoch: {least_taken} to {-most_taken}')
        if least_left != -most_left:
            raise _agree.OutOfStep(f'lockstep.even: ranks left the loop before at different batches, {least_left} to {-most_left}: one of them '
                                   'left it by itself')

    # --- loaders that know their length ---

    def _agree_on_length(self):
        """The number of batches of this epoch, the same on all ranks; None of a stream."""
        mine = 0 if self.stream else len(self.loader)
        able = mine > 0 or (self.how == 'pad' and self.pad is not None)
        settings = self.accumulate * 8 + HOWS.index(self.how) * 2 + self.stream
        posted = self._ask(self._tag(SIZED), mine, able, [settings, -settings, self.taken, -self.taken, self._left,
                                                             -self._left])
        least, most, _ = self._answer(posted)
        if self.stream:
            return None
        self._raise_if_told(least, most)
        stop = least if least == most else least - least % self.accumulate if self.how == 'drop' else most
        self.dropped = max(mine - stop, 0)
        return stop

    def _steps(self):
        self._length = stop = self._agree_on_length()
        while self.taken < stop:
            got = self._source.own()
            if got is None and self.how == 'drop':
                raise Uneven(f'lockstep.even: the loader said that it has {len(self.loader)} batches and ended after {self.taken}: '
                             'other ranks go on; stream=True does not ask it')
            yield self._give(got) if got else self._give_filler()

    # --- streams ---

    def _votes(self):
        """Windows of optimizer steps: while one is run the next is fetched, a share before each step, and voted on before
        the last. So a vote has a step's time to come in, and where steps are short one does for several of them."""
        self._agree_on_length()
        window = self._window(self.taken, self.accumulate - self.taken % self.accumulate, self._snapshot)
        self._source.fetch(window, window.want)
        self._voted_at = None
        vote = self._vote(window, 0)
        try:
            while vote is not None:
                sent, vote = vote, None
                least, most, ahead = self._answer(sent)
                this, window, self._snapshot = window, None, window.snapshot
                give = self._share(least, most)
                if give == this.want:
                    window = self._window(this.begin + this.want, ahead * self.accumulate, self._snapshot)
                steps = range(0, give, self.accumulate)
                for done, begin in enumerate(steps, 1):
                    if window:
                        self._source.fetch(window, -(-window.want * done // len(steps)))
                        vote = self._vote(window, done) if done == len(steps) else None
                    for batch in this.batches[begin:min(begin + self.accumulate, give)]:
                        self.taken += 1
                        self.weight = 1.
                        yield batch
                    for _ in range(max(begin, len(this.batches)), min(begin + self.accumulate, give)):
                        yield self._give_filler()
            self.dropped = max(len(this.batches) - give, 0)
            self._raise_if_told(least, most)
        finally:
            if vote is not None:
                self._drop(vote)

    def _window(self, begin, want, snapshot):
        if keeps_state(self.loader) and (snapshot is None or begin - snapshot[1] >= SNAPSHOT * self.accumulate):
            snapshot = self.loader.state_dict(), begin, self._source.spent
        return Window(begin, want, snapshot)

    def _vote(self, window, steps):
        """On its way: how much of the window this rank has, and how many steps it would have the next one be. steps: since
        the last vote."""
        now, before = time.monotonic(), self._voted_at
        self._voted_at = now
        if steps and before is not None:    # an evaluation between does not make them longer at once
            self._step_s = min((now - before) / steps, 2 * self._step_s or 1e9)
        ahead = max(1, min(self.ahead, 2 * steps, int(VOTE_S / self._step_s))) if self._step_s else 1
        able = len(window.batches) == window.want or self._source.can_fill()
        return self._ask(self._tag(STREAM, window.begin), len(window.batches), able, [ahead])

    def _share(self, least, most):
        """How much of a window is run."""
        if self.how in ('pad', 'repeat'):
            return most
        return least if least == most else least - least % self.accumulate

    def _drop(self, vote):
        """The loop was left: all that have come so far have voted, so this ends, unless one of them is no more."""
        try:
            self._agreed.result(vote, LEAVE_S)
        except _agree.OutOfStep as e:
            self._lost = e      # raised where the ranks next meet
        except RuntimeError:
            pass

    # --- words ---

    def _says(self):
        first, least, last, most = self.ends
        who = f'rank {first} ran out first' if self.stream else f'rank {first} has {least} batches, rank {last} {most}'
        did = f'every rank stopped after {self.taken}'
        if self.how == 'drop' and not self.taken:
            return (f'lockstep.even: epoch {self.epoch}: no step was made: rank {first} '
                    + ('has no batch' if not least else f'has {least} of the {self.accumulate} batches of a step')
                    + f', so all data of this epoch is dropped; give rank {first} data'
                    + (f' (rank {last} has {most} batches)' if not self.stream else ''))
        if self.how == 'drop':
            did += f'; dropped here: {self.dropped}'
            if not self.stream:
                did += f', on rank {last}: {most - self.taken} ({(most - self.taken) / most:.2%} of its batches)'
        else:
            did += f'; filled up here: {self.padded + self.repeated}' + ('' if self.stream else f', on rank {first}: {self.taken - least}')
        return f'lockstep.even: epoch {self.epoch}: {who}; {did}'


def even(loader, how='drop', accumulate=1, group=None, pad=None, stream=None, timeout=None, ahead=32):
    """The loader, and every rank stops at the same step. All ranks of the group call it, and loop over it, alike.

    how         'drop': all stop where the first ends. 'pad': short ranks fill up with pad (a batch, or a function of the
                rank's last batch; without it that one again) and weight 0. 'repeat': short ranks begin their data anew.
                'raise': Uneven on all ranks before a step that not all have.
    accumulate  batches of one optimizer step: it is cut at whole steps
    group       the ranks that stop together (a process group; default all)
    stream      True: the loader is not asked for its length; default: as it is
    timeout     seconds a rank waits for the others; default torch's
    ahead       of a stream at most so many optimizer steps are voted on at once, where they are shorter than a second: so many
                are held in memory, twice
    """
    from lockstep import _even_frameworks
    _even_frameworks.put(Even)
    return Even(loader, how, accumulate, group, pad, stream, timeout, ahead)
