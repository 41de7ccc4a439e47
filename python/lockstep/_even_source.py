# SPDX-License-Identifier: Apache-2.0
"""The batches of one rank in one epoch: out of its loader, and in the place of those that it does not have.

Nothing here speaks to other ranks.
"""
import sys
from itertools import islice


def length(loader):
    """Batches of a loader that knows, else None. An IterableDataset's length is a hint: with workers each may go through all."""
    data = sys.modules.get('torch.utils.data')
    if data is not None and isinstance(getattr(loader, 'dataset', None), data.IterableDataset):
        return None
    try:
        return len(loader)
    except (TypeError, NotImplementedError, AttributeError):
        return None


def keeps_state(loader):
    return hasattr(loader, 'state_dict') and hasattr(loader, 'load_state_dict')


class Window:
    """Batches of a stream that ranks vote on together."""

    def __init__(self, begin, want, snapshot):
        self.begin, self.want = begin, want     # batches of the epoch before it, and in it
        self.snapshot = snapshot                # (state of the loader, batches taken then, whether it was spent) or None
        self.batches = []


class Source:
    """An iteration over a loader; spent: its own batches are over."""

    def __init__(self, loader, how, pad, spent=False):
        self.loader, self.how, self.pad = loader, how, pad
        self.batches = iter(loader)
        self.spent = spent      # it goes on in a second pass
        self.had = False        # any batch
        self.last = None

    def _next(self):
        for batch in self.batches:
            self.had, self.last = True, batch
            return [batch]
        return None

    def own(self):
        """[batch] of the first pass, None behind its end."""
        if not self.spent:
            for batch in self.batches:
                self.had, self.last = True, batch
                return [batch]
            self.spent = True
        return None

    def can_fill(self):
        if self.how == 'pad':
            return self.pad is not None or self.had
        return self.how == 'repeat' and (self.had or not self.spent) and self.batches is not self.loader

    def fill(self):
        """[batch] in the place of one that is not there; None if it cannot be."""
        if self.how == 'pad':
            if self.pad is None:
                return [self.last] if self.had else None
            return [self.pad(self.last) if callable(self.pad) else self.pad]
        if self.how != 'repeat':
            return None
        got = self._next()
        if got is None and self.batches is not self.loader:
            self.batches = iter(self.loader)
            got = self._next()
        return got

    def fetch(self, window, n):
        """The window's own batches, up to so many."""
        n -= len(window.batches)
        if n > 0 and not self.spent:
            got = list(islice(self.batches, n))
            window.batches += got
            self.spent = len(got) < n
            if got:
                self.had, self.last = True, got[-1]

    def skip(self, n):
        """Past n batches that were had before."""
        for _ in range(n):
            if self.own() is None and (self.how not in ('pad', 'repeat') or self.fill() is None):
                return
