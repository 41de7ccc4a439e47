#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lockstep.even and lockstep.every without torch: ranks are threads that agree in memory."""
import itertools
import logging
import os
import random
import sys
import threading
import types
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), 'python'))
import lockstep  # noqa: E402
from lockstep import _agree, _even, _even_frameworks  # noqa: E402

WAIT_S = 5  # a rank that waits so long for another hangs
here = threading.local()
logging.getLogger('lockstep').addHandler(logging.NullHandler())
here.agreement = _agree.Alone()


class Meeting:
    """Messages of all ranks by their number in each rank's order, as a process group matches its calls."""

    def __init__(self, size):
        self.size, self.messages, self.news = size, {}, threading.Condition()

    def post(self, number, rank, values):
        with self.news:
            self.messages.setdefault(number, {})[rank] = values
            self.news.notify_all()

    def least(self, number, seconds):
        with self.news:
            if not self.news.wait_for(lambda: len(self.messages[number]) == self.size, seconds or WAIT_S):
                raise RuntimeError('Timed out')
            return [min(v) for v in zip(*self.messages[number].values())]


class Thread(_agree.Agreement):
    """An agreement whose collectives are a Meeting's."""

    def __init__(self, meeting, rank):
        self.meeting, self.rank, self.size, self.sent = meeting, rank, meeting.size, 0

    def alive(self):
        return True

    def post(self, tag, values):
        assert len(values) <= _agree.SLOTS - 2
        self.sent += 1
        self.meeting.post(self.sent, self.rank, [tag, -tag, *values, *[0] * (_agree.SLOTS - 2 - len(values))])
        return self.sent, len(values)

    def result(self, posted, seconds=None):
        return self.checked(self.meeting.least(posted[0], seconds), posted[1])


def ranks(program, size):
    """What program(rank) returns or raises on each of so many ranks."""
    meeting, got = Meeting(size), [None] * size

    def run(rank):
        here.agreement = Thread(meeting, rank)
        try:
            got[rank] = program(rank)
        except Exception as e:
            got[rank] = e
    threads = [threading.Thread(target=run, args=(r,)) for r in range(size)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return got


class Sized:
    """A loader of batches (rank, epoch, number)."""

    def __init__(self, rank, n):
        self.rank, self.n, self.epoch = rank, n, 0

    def __len__(self):
        return self.n

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        return iter([(self.rank, self.epoch, i) for i in range(self.n)])


class Stream(Sized):
    """The same without a length."""

    __len__ = None


class Stateful(Stream):
    """A stream that goes on where its state says."""

    def __init__(self, rank, n):
        super().__init__(rank, n)
        self.at = self.begin = self.asked = 0

    def state_dict(self):
        self.asked += 1
        return {'at': self.at}

    def load_state_dict(self, state):
        self.begin = state['at']

    def __iter__(self):
        self.at, self.begin = self.begin, 0
        return self.go_on()

    def go_on(self):
        while self.at < self.n:
            self.at += 1
            yield self.rank, self.epoch, self.at - 1


KINDS = {'sized': Sized, 'stream': Stream, 'stateful stream': Stateful}


class Ranks(unittest.TestCase):
    def setUp(self):
        kept = _agree.agreement, _agree.distributed
        self.addCleanup(lambda: (setattr(_agree, 'agreement', kept[0]), setattr(_agree, 'distributed', kept[1])))
        _agree.agreement = lambda group=None, seconds=None: here.agreement
        _agree.distributed = lambda: self

    def each_kind(self):
        for name, kind in KINDS.items():
            with self.subTest(name):
                yield kind

    def all_raise(self, got, kind, words):
        for e in got:
            self.assertIsInstance(e, kind, got)
            self.assertIn(words, str(e))


class Even(Ranks):
    def test_every_rank_stops_where_the_first_ends(self):
        for kind in self.each_kind():
            for counts in ([5, 3, 4], [3, 3, 3], [0, 2, 9], [1, 0, 0]):
                got = ranks(lambda r: list(lockstep.even(kind(r, counts[r]))), 3)
                self.assertEqual(got, [[(r, 0, i) for i in range(min(counts))] for r in range(3)], counts)

    def test_uneven_loaders_are_cut_at_whole_optimizer_steps(self):
        for kind in self.each_kind():
            got = ranks(lambda r: len(list(lockstep.even(kind(r, [11, 14][r]), accumulate=4))), 2)
            self.assertEqual(got, [8, 8])

    def test_even_loaders_are_left_as_they_are(self):
        for kind in self.each_kind():
            got = ranks(lambda r: len(list(lockstep.even(kind(r, 11), accumulate=4))), 2)
            self.assertEqual(got, [11, 11])

    def test_short_ranks_repeat(self):
        for kind in self.each_kind():
            def program(rank):
                loader = lockstep.even(kind(rank, [5, 2][rank]), how='repeat')
                return [b[2] for b in loader], loader.repeated, loader.dropped
            self.assertEqual(ranks(program, 2), [([0, 1, 2, 3, 4], 0, 0), ([0, 1, 0, 1, 0], 3, 0)])

    def test_short_ranks_fill_up_with_weight_zero(self):
        for kind in self.each_kind():
            def program(rank):
                loader = lockstep.even(kind(rank, [4, 2][rank]), how='pad')
                return [(b[2], loader.weight) for b in loader], loader.padded
            self.assertEqual(ranks(program, 2), [([(0, 1), (1, 1), (2, 1), (3, 1)], 0), ([(0, 1), (1, 1), (1, 0), (1, 0)], 2)])

    def test_the_pad_is_the_programs_own_even_for_a_rank_without_data(self):
        for kind in self.each_kind():
            for pad in ('nothing', lambda last: 'nothing'):
                got = ranks(lambda r: list(lockstep.even(kind(r, [2, 0][r]), how='pad', pad=pad)), 2)
                self.assertEqual(got, [[(0, 0, 0), (0, 0, 1)], ['nothing'] * 2])

    def test_a_rank_that_cannot_fill_up_raises_on_all(self):
        for kind in self.each_kind():
            for how in ('pad', 'repeat'):
                got = ranks(lambda r: list(lockstep.even(kind(r, [2, 0, 3][r]), how=how)), 3)
                self.all_raise(got, lockstep.Uneven, 'rank 1 ends before rank')

    def test_an_iterator_cannot_be_repeated_and_all_are_told(self):
        got = ranks(lambda r: list(lockstep.even(iter(range([3, 2][r])), how='repeat')), 2)
        self.all_raise(got, lockstep.Uneven, 'nothing to fill up with')

    def test_raise_raises_on_all_ranks_before_a_step_that_not_all_have(self):
        for kind in self.each_kind():
            steps = [[], [], []]

            def program(rank):
                for batch in lockstep.even(kind(rank, [3, 2, 3][rank]), how='raise'):
                    steps[rank].append(batch)
            self.all_raise(ranks(program, 3), lockstep.Uneven, 'rank 1 ends before rank 0')
            self.assertEqual([len(s) for s in steps], [0, 0, 0] if kind is Sized else [2, 2, 2])

    def test_raise_of_even_loaders_raises_nothing(self):
        for kind in self.each_kind():
            self.assertEqual(ranks(lambda r: len(list(lockstep.even(kind(r, 3), how='raise'))), 2), [3, 3])

    def test_len_is_what_the_loop_gives_on_every_rank(self):
        def program(rank):
            loader = lockstep.even(Sized(rank, [7, 5, 6][rank]), accumulate=2)
            return len(loader), len(list(loader)), len(loader)
        self.assertEqual(ranks(program, 3), [(4, 4, 4)] * 3)
        with self.assertRaises(TypeError):
            len(lockstep.Even(Stream(0, 3)))

    def test_epochs_may_differ_in_length_and_are_counted(self):
        for kind in self.each_kind():
            def program(rank):
                loader, gave = lockstep.even(kind(rank, 0)), []
                for epoch in range(3):
                    loader.loader.n = 3 + (rank + epoch) % 3
                    gave.append(len(list(loader)))
                return gave, loader.epoch
            self.assertEqual(ranks(program, 3), [([3, 3, 3], 2)] * 3)

    def test_what_it_dropped_is_counted_and_told_once(self):
        for kind in self.each_kind():
            def program(rank):
                loader = lockstep.even(kind(rank, [6, 5, 8][rank]), accumulate=2, ahead=1)
                list(loader)
                return loader.dropped, loader.ends[0], loader.ends[2]
            with self.assertLogs('lockstep', 'WARNING') as logs:
                got = ranks(program, 3)
            self.assertEqual(len(logs.output), 1)
            self.assertIn('every rank stopped after 4; dropped here: 2', logs.output[0])
            self.assertEqual(got, [(2, 1, 2), (1, 1, 2), (4, 1, 2)] if kind is Sized else [(2, 1, 0), (1, 1, 0), (2, 1, 0)])

    def test_a_rank_without_data_is_named(self):
        for kind in self.each_kind():
            with self.assertLogs('lockstep', 'WARNING') as logs:
                self.assertEqual(ranks(lambda rank: len(list(lockstep.even(kind(rank, [3, 0, 4][rank])))), 3), [0, 0, 0])
            self.assertEqual(len(logs.output), 1)
            self.assertIn('no step was made: rank 1 has no batch, so all data of this epoch is dropped; give rank 1 data', logs.output[0])

    def test_set_epoch_reaches_the_loader_and_its_parts(self):
        seen = []
        part = types.SimpleNamespace(set_epoch=seen.append)
        loader = Sized(0, 2)
        loader.dataset = loader.sampler = part
        even = lockstep.Even(loader)
        even.set_epoch(4)
        self.assertEqual((loader.epoch, seen, even.epoch), (4, [4], 4))
        self.assertIs(even.sampler, part)

    def test_ranks_that_differ_in_what_they_ask_for_are_told_so(self):
        self.all_raise(ranks(lambda r: lockstep.even(Sized(r, 3), how=['drop', 'raise'][r]), 2), lockstep.Uneven, 'ranks differ in how=')
        self.all_raise(ranks(lambda r: lockstep.even([Sized, Stream][r](r, 3)), 2), lockstep.Uneven, 'know their length')
        self.all_raise(ranks(lambda r: lockstep.even(Sized(r, 9), accumulate=r + 1), 2), lockstep.Uneven, 'ranks differ')

    def test_ranks_that_met_at_different_places_are_told_so(self):
        for kind, left in itertools.product(self.each_kind(), ([3, 4], [0, 9], [20, 40])):
            def program(rank):
                loader = lockstep.even(kind(rank, 60))
                loader.set_epoch(0)
                for i, _ in enumerate(loader):
                    if i == left[rank]:
                        break
                loader.set_epoch(1)
                list(loader)
            self.assertEqual([type(e) for e in ranks(program, 2)], [lockstep.OutOfStep] * 2)

    def test_a_loop_that_all_leave_at_once_can_be_begun_again(self):
        for kind in self.each_kind():
            def program(rank):
                loader = lockstep.even(kind(rank, 6 + rank))
                return [len(list(itertools.islice(loader, 3))), len(list(loader))]
            first, second = ranks(program, 2)
            self.assertEqual(first, second)
            self.assertEqual(first[0], 3)

    def test_an_exception_in_a_loop_passes_and_takes_no_time(self):
        def program(rank):
            for i, _ in enumerate(lockstep.even(Stream(rank, 5))):
                if i == 2:
                    raise KeyError(rank)
        self.assertEqual([str(e) for e in ranks(program, 2)], ['0', '1'])

    def test_a_loader_that_ends_before_its_length_says_so(self):
        class Liar(Sized):
            def __iter__(self):
                return iter(range(2))
        self.all_raise(ranks(lambda r: list(lockstep.even(Liar(r, 3))), 2), lockstep.Uneven, 'ended after 2')
        self.assertEqual(ranks(lambda r: list(lockstep.even(Liar(r, 3), stream=True)), 2), [[0, 1]] * 2)

    def test_any_counts_in_any_way_end_alike(self):
        seed = random.randrange(1 << 30)
        print('seed', seed)
        draw = random.Random(seed)
        for _ in range(60):
            counts = [draw.randint(1, 12) for _ in range(draw.randint(2, 5))]
            how, accumulate, kind = draw.choice(['drop', 'pad', 'repeat']), draw.randint(1, 4), draw.choice(list(KINDS.values()))
            got = ranks(lambda r: len(list(lockstep.even(kind(r, counts[r]), how=how, accumulate=accumulate))), len(counts))
            least = min(counts) if len(set(counts)) == 1 else min(counts) - min(counts) % accumulate
            self.assertEqual(got, [least if how == 'drop' else max(counts)] * len(counts), (counts, how, accumulate, kind))


class Resume(Ranks):
    def test_what_is_resumed_goes_on_behind_what_was_taken(self):
        for kind, stop, accumulate in itertools.product(self.each_kind(), (1, 4, 6, 11), (1, 3)):
            def program(rank):
                n = [20, 17][rank]
                loader, before = lockstep.even(kind(rank, n), accumulate=accumulate), []
                loader.set_epoch(2)
                for batch in loader:
                    before.append(batch)
                    if len(before) == stop:
                        state = loader.state_dict()
                        break
                again = lockstep.even(kind(rank, n), accumulate=accumulate)
                again.load_state_dict(state)
                again.set_epoch(2)
                return before + list(again), again.epoch, len(list(again)), again.epoch
            whole = 17 - 17 % accumulate
            for r, (batches, *rest) in enumerate(ranks(program, 2)):
                self.assertEqual(batches, [(r, 2, i) for i in range(whole)], (kind, stop, accumulate))
                self.assertEqual(rest, [2, whole, 3])

    def test_a_stream_that_keeps_state_is_not_read_from_its_begin(self):
        def program(rank):
            loader = lockstep.even(Stateful(rank, 100))
            for i, _ in enumerate(loader):
                if i == 60:
                    break
            state, asked = loader.state_dict(), loader.loader.asked
            return state['taken'], state['loader']['at'] + state['since'], state['since'] < 2 * _even.SNAPSHOT, asked < 10
        self.assertEqual(ranks(program, 2), [(61, 61, True, True)] * 2)

    def test_one_that_fills_up_goes_on_filling_up(self):
        for kind in self.each_kind():
            def program(rank):
                n, seen = [9, 4][rank], []
                loader = lockstep.even(kind(rank, n), how='repeat')
                for b in loader:
                    seen.append(b[2])
                    if len(seen) == 6:
                        break
                again = lockstep.even(kind(rank, n), how='repeat')
                again.load_state_dict(loader.state_dict())
                return seen + [b[2] for b in again]
            self.assertEqual(ranks(program, 2), [[0, 1, 2, 3, 4, 5, 6, 7, 8], [0, 1, 2, 3, 0, 1, 2, 3, 0]])

    def test_ranks_that_go_on_from_different_batches_are_told_so(self):
        def program(rank):
            loader = lockstep.even(Sized(rank, 9))
            loader.load_state_dict({'epoch': 0, 'taken': rank + 1})
            list(loader)
        self.all_raise(ranks(program, 2), lockstep.Uneven, 'different batches of the epoch: 1 to 2')

    def test_an_epoch_that_was_over_has_no_more(self):
        for kind in self.each_kind():
            def program(rank):
                loader = lockstep.even(kind(rank, [5, 6][rank]))
                list(loader)
                again = lockstep.even(kind(rank, [5, 6][rank]))
                again.load_state_dict(loader.state_dict())
                return list(again), len(list(again)), again.epoch
            self.assertEqual(ranks(program, 2), [([], 5, 1)] * 2)

    def test_another_epoch_than_the_saved_one_begins_at_its_begin(self):
        loader = lockstep.Even(Sized(0, 3))
        loader.load_state_dict({'epoch': 1, 'taken': 2, 'told': True})
        loader.set_epoch(2)
        self.assertEqual(len(list(loader)), 3)

    def test_accelerate_skips_batches_of_ours_without_taking_them_apart(self):
        module = types.SimpleNamespace(skip_first_batches=lambda loader, n: 'theirs')
        sys.modules['accelerate.data_loader'] = module
        self.addCleanup(sys.modules.pop, 'accelerate.data_loader')

        def program(rank):
            loader = lockstep.even(Sized(rank, [5, 6][rank]))
            skipped = module.skip_first_batches(loader, 3)
            skipped.set_epoch(7)
            return list(skipped), len(skipped)
        self.assertEqual(ranks(program, 2), [([(r, 7, 3), (r, 7, 4)], 5) for r in range(2)])
        self.assertEqual(module.skip_first_batches([], 3), 'theirs')
        _even_frameworks.put(_even.Even)
        self.assertFalse(hasattr(module.skip_first_batches.__wrapped__, 'lockstep'))


class Alone(unittest.TestCase):
    def test_without_torch_the_loop_is_what_it_was(self):
        self.assertNotIn('torch', sys.modules)
        for loader in (Sized(0, 7), Stream(0, 7), Stateful(0, 7)):
            for how in _even.HOWS:
                even = lockstep.even(loader, how=how, accumulate=4)
                self.assertEqual(len(list(even)), 7)
                self.assertEqual((even.dropped, even.padded, even.weight), (0, 0, 1.))
        self.assertEqual(len(lockstep.even(Sized(0, 7), accumulate=4)), 7)

    def test_what_cannot_be_is_refused(self):
        for bad in ({'how': 'stop'}, {'accumulate': 0}):
            with self.assertRaises(ValueError):
                lockstep.even([], **bad)
        with self.assertRaises(ValueError):
            lockstep.every()

    def test_extremes_keep_who_they_are(self):
        draw = random.Random(5)
        for _ in range(200):
            counts = [draw.randint(0, draw.choice([3, 10 ** 9])) for _ in range(draw.randint(1, 9))]
            low, high = (min(v) for v in zip(*(_agree.extremes(n, r) for r, n in enumerate(counts))))
            self.assertEqual(_agree.of_extremes(low, high), (min(counts), counts.index(min(counts)), max(counts), counts.index(max(counts))))


class Every(Ranks):
    def decide(self, clocks, run, **how):
        """At which steps each rank saves; a rank's clock is clocks[rank](step)."""
        def program(rank):
            at = [0]
            every = lockstep.Every(clock=lambda: clocks[rank](at[0]), **how)
            saved = []
            for at[0] in range(1, run + 1):
                if every(at[0]):
                    saved.append(at[0])
            return saved, every.saves, here.agreement.sent
        return ranks(program, len(clocks))

    def test_steps_need_no_word(self):
        self.assertEqual(self.decide([float] * 2, 50, steps=20), [([20, 40], 2, 0)] * 2)

    def test_minutes_are_rank_0s_and_the_same_on_all(self):
        clocks = [lambda step: step * 2., lambda step: step * 1000., lambda step: -step]
        got = self.decide(clocks, 200, minutes=1)
        self.assertEqual(len({tuple(saved) for saved, _, _ in got}), 1)
        saved = got[0][0]
        self.assertTrue(all(28 <= b - a <= 32 for a, b in zip([0] + saved, saved)), saved)

    def test_few_words_are_needed(self):
        (saved, _, sent), _ = self.decide([lambda step: step * .05] * 2, 20000, minutes=5)
        self.assertEqual(len(saved), 3)
        self.assertLess(sent, 60)

    def test_steps_that_become_slower_make_it_late_by_less_than_half(self):
        (saved, _, _), _ = self.decide([lambda step: step if step < 100 else 100 + (step - 100) * 10.] * 2, 200, minutes=10)
        self.assertTrue(saved and saved[0] <= 100 + 75, saved)

    def test_a_save_by_steps_puts_off_that_by_minutes(self):
        got = self.decide([float] * 2, 100, steps=40, minutes=1)
        self.assertEqual(got[0][0], [40, 80])


if __name__ == '__main__':
    unittest.main()
