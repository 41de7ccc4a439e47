# SPDX-License-Identifier: Apache-2.0
"""Ranks agree on a few integers: the least of each, over a Gloo group of our own, so that whatever the job's own groups
are in, ours are never in their order.

Every message has the same length, and says in which matter it is (the tag): ranks that are not at the same place find
that out instead of taking each other's numbers.
"""
import ctypes
import sys

SLOTS = 11       # integers of a message
RANK_BITS = 24
MOST = 1 << (62 - RANK_BITS)


class OutOfStep(RuntimeError):
    """Ranks met that were not at the same place: one of them left a loop, or took another way."""


def distributed():
    """torch.distributed if this process is in a process group, else None; imports nothing."""
    dist = sys.modules.get('torch.distributed')
    if dist is None or not dist.is_available() or not dist.is_initialized():
        return None
    return dist


def extremes(count, rank):
    """Two integers whose least over the ranks are the least and the greatest count, each with its first rank."""
    return [(count << RANK_BITS) + rank, -(count << RANK_BITS) + rank]


def of_extremes(low, high):
    """(least, its rank, greatest, its rank)."""
    least, most = low >> RANK_BITS, -(high >> RANK_BITS)
    return least, low - (least << RANK_BITS), most, high + (most << RANK_BITS)


class Alone:
    """The agreement of one rank with itself."""

    rank, size = 0, 1

    @staticmethod
    def post(tag, values):
        return tag, values

    @staticmethod
    def result(posted, seconds=None):
        del seconds
        return posted[1]

    @staticmethod
    def alive():
        return distributed() is None


class Agreement:
    """The ranks of a group; post() and result() on all of them in the same order."""

    def __init__(self, dist, group, seconds):
        import datetime

        import torch
        self.torch, self.of = torch, group
        self.timedelta = datetime.timedelta
        how = {'timeout': datetime.timedelta(seconds=seconds)} if seconds else {}
        if group is None:
            self.own = dist.new_group(backend='gloo', group_desc='lockstep', **how)
        else:
            ranks = dist.get_process_group_ranks(group)
            self.own = dist.new_group(ranks, backend='gloo', use_local_synchronization=True, group_desc='lockstep', **how)
        self.rank, self.size = dist.get_rank(self.own), dist.get_world_size(self.own)
        self.least = dist.AllreduceOptions()
        self.least.reduceOp = dist.ReduceOp.MIN
        self.free = []      # messages to use again: making a tensor is most of what sending one costs

    def alive(self):
        """Its process group has not been destroyed."""
        dist = distributed()
        if dist is None:
            return False
        try:
            return dist.get_rank(self.own) == self.rank
        except (ValueError, RuntimeError):
            return False

    def post(self, tag, values):
        """Sends at most SLOTS - 2 integers on their way; waits for nobody."""
        numbers, tensors = self.free.pop() if self.free else self._message()
        numbers[:] = [tag, -tag, *values, *[0] * (SLOTS - 2 - len(values))]
        return numbers, tensors, self.own.allreduce(tensors, self.least), len(values)

    def _message(self):
        """Integers, and the tensor whose memory they are: Gloo may hold that longer than Python lives."""
        tensor = self.torch.zeros(SLOTS, dtype=self.torch.int64)
        return (ctypes.c_int64 * SLOTS).from_address(tensor.data_ptr()), [tensor]

    def result(self, posted, seconds=None):
        """The least of each integer, once all have sent theirs."""
        numbers, tensors, work, n = posted
        if seconds:
            work.wait(self.timedelta(seconds=seconds))
        else:
            work.wait()
        got = numbers[:]
        self.free.append((numbers, tensors))    # not where it raised: it may yet be written to
        return self.checked(got, n)

    @staticmethod
    def checked(numbers, n):
        if numbers[0] != -numbers[1]:
            raise OutOfStep(f'lockstep: the ranks are not at the same place ({numbers[0]} and {-numbers[1]}): '
                            'one of them left a loop early, or went another way')
        return numbers[2:2 + n]


made = []


def agreement(group=None, seconds=None):
    """That of all ranks, or of a group; all its ranks call this in the same order. One for each group, kept."""
    dist = distributed()
    if dist is None or dist.get_world_size(group) <= 1:
        return Alone()
    made[:] = [a for a in made if a.alive()]
    for a in made:
        if a.of is group:
            return a
    made.append(Agreement(dist, group, seconds))
    return made[-1]
