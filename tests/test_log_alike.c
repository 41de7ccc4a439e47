/* SPDX-License-Identifier: Apache-2.0 */
/* test_log_alike.c - logs of many like lines: what is known of them hides nothing in them. */
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log_helpers.h"

/* Reads it whole and in pieces; the last one is kept. */
static struct heard heard_of(const struct buf *b, const char *want)
{
	static const size_t steps[] = { 1000, 0 };
	struct heard h = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		heard_done(&h);
		hear(&h, (const char *)b->data, b->len, "train.log", steps[i]);
		assert_int_equal(h.status, 0);
		assert_string_equal(heard_lines(&h, false), want);
	}
	return h;
}

static void what_differs_in_a_digit_is_found_among_thousands(void **state)
{
	struct buf b = { 0 };
	struct heard h;

	(void)state;
	for (unsigned i = 0; i < 9000; i++)
		put(&b, "worker %04u of the pool caught signal %u, as told\n", i,
		    i == 6543 ? 11 : 20 + i % 45);
	h = heard_of(&b, "fatal value=11 what=segmentation fault\n");
	assert_int_equal(h.t->sayings.v[0].line, 6544);
	assert_int_equal(h.t->lines, 9000);
	heard_done(&h);
	buf_done(&b);
}

static void what_stands_among_lines_of_nothing_is_found(void **state)
{
	struct buf b = { 0 };
	struct heard h;

	(void)state;
	for (unsigned i = 0; i < 4000; i++) {
		put(&b, "node%02u: NCCL INFO Channel %02u/0 : %u -> %u via NET/IB/0\r\n", i % 50,
		    i % 32, i % 1000, (i + 8) % 1000);
		if (i % 7 == 0)
			put(&b, "\r\n");
		if (i == 3000)
			put(&b, "step 3/5 loss 1.0\r\n");
	}
	h = heard_of(&b, "progress 3..3/5 lines=1 loss=1\n");
	assert_int_equal(h.t->progress.v[0].line, 3001 + 429 + 1);
	heard_done(&h);
	buf_done(&b);
}

static void put_watchdog(struct buf *b, unsigned rank, unsigned second, unsigned seq)
{
	put(b, "[rank%u]:[E514 07:%02u:%02u.340808597 ProcessGroupNCCL.cpp:632] ", rank,
	    second / 60 % 60, second % 60);
	put(b,
	    "[Rank %u] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=%u, "
	    "OpType=ALLREDUCE, NumelIn=6, NumelOut=6, Timeout(ms)=600000) ran for %u milliseconds "
	    "before timing out.\n",
	    rank, seq, 600000 + second);
	put(b,
	    "[rank%u]:[E514 07:%02u:%02u.340808597 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID "
	    "0(default_pg) Rank %u]  failure detected by watchdog at work sequence id: %u PG "
	    "status: last enqueued work: %u, last completed work: %u\n",
	    rank, second / 60 % 60, second % 60, rank, seq, seq + 4, seq - 1);
}

static void what_watchdogs_say_again_is_counted(void **state)
{
	struct buf b = { 0 };
	struct heard h;

	(void)state;
	put(&b, "2026-05-14 07:00:00 starting\nstep 3/5 loss 1.0 2026-05-14\n");
	put(&b, "[2026-05-14 06:59:00] step 4/5 loss 1.0\n");
	for (unsigned i = 0; i < 600; i++)
		for (unsigned rank = 2; rank < 5; rank++)
			put_watchdog(&b, rank, i, i == 431 && rank == 3 ? 242 : 241);
	h = heard_of(
	    &b,
	    "time-out rank=2 local=2 group=0(default_pg) all_reduce in=6 out=6 seq=241 "
	    "timeout=600000 ran=600000 ms=1778742000340 x600\n"
	    "status rank=2 local=2 group=0(default_pg) seq=245 value=240 ms=1778742000340 x600\n"
	    "time-out rank=3 local=3 group=0(default_pg) all_reduce in=6 out=6 seq=241 "
	    "timeout=600000 ran=600000 ms=1778742000340 x599\n"
	    "status rank=3 local=3 group=0(default_pg) seq=245 value=240 ms=1778742000340 x599\n"
	    "time-out rank=4 local=4 group=0(default_pg) all_reduce in=6 out=6 seq=241 "
	    "timeout=600000 ran=600000 ms=1778742000340 x600\n"
	    "status rank=4 local=4 group=0(default_pg) seq=245 value=240 ms=1778742000340 x600\n"
	    "time-out rank=3 local=3 group=0(default_pg) all_reduce in=6 out=6 seq=242 "
	    "timeout=600000 ran=600431 ms=1778742431340\n"
	    "status rank=3 local=3 group=0(default_pg) seq=246 value=241 ms=1778742431340\n"
	    "progress 3..4/5 lines=2 loss=1 last_ms=1778741940000\n");
	assert_int_equal(h.t->sayings.v[1].last_ns / 1000000, 1778742599340);
	assert_int_equal(h.t->sayings.v[1].last_line, 3 + 6 * 599 + 2);
	assert_int_equal(h.stats.events, 2 + 3 + 1 + 1800);
	heard_done(&h);
	buf_done(&b);
}

static void numbers_of_like_lines_are_all_read(void **state)
{
	struct buf b = { 0 };
	struct heard h;

	(void)state;
	for (unsigned i = 1000; i < 5000; i++) {
		put(&b,
		    "[2026-11-29 %02u:%02u:%02u] iteration %u/ 9000 | elapsed time per iteration "
		    "(ms): %u.5 | lm loss: %u.250000E+00 | grad norm: 0.%03u |\n",
		    i / 3600 + 20, i / 60 % 60, i % 60, i, i == 3333 ? 7000 : 1000 + i % 10,
		    i % 9 + 1, i % 1000);
		put(&b, "time (ms) | forward-compute: %u.83 | optimizer: 83.%02u\n", 1000 + i % 10,
		    i % 100);
	}
	/* No clock has an hour 25: the line is read, but has no time. */
	put(&b, "[2026-11-29 25:00:00] iteration 5000/ 9000 | elapsed time per iteration "
		"(ms): 1000.5 | lm loss: 7.250000E+00 | grad norm: 0.001 |\n");
	h = heard_of(&b, "progress 1000..5000/9000 lines=4001 ms=1000.5 loss=7.25 "
			 "last_ms=1795987399000\n");
	assert_int_equal(h.t->progress.v[0].gaps[0].step, 3333);
	assert_int_equal(h.t->progress.v[0].last_line, 8001);
	heard_done(&h);
	buf_done(&b);
}

static void bars_of_ranks_in_one_log(void **state)
{
	struct buf b = { 0 };
	struct heard h;

	(void)state;
	for (unsigned i = 100; i < 1000; i++)
		for (unsigned rank = 0; rank < 2; rank++)
			put(&b,
			    "\r[rank%u]: Epoch 0:  30%%|###   | %u/2000 [0:00:02<2:00:00, "
			    "%u.25s/it, "
			    "loss=%u.125, v_num=0]",
			    rank, i + rank, i % 7 + 1, (i + rank) % 10);
	h = heard_of(
	    &b, "progress rank=0 100..999 epoch=0 at 999/2000 lines=900 ms=6250 loss=9.125\n"
		"progress rank=1 101..1000 epoch=0 at 1000/2000 lines=900 ms=6250 loss=0.125\n");
	assert_int_equal(h.stats.events, 1800);
	heard_done(&h);
	buf_done(&b);
}

/* --- a line as it comes once more --- */

static void lines_of_words_that_say_nothing_are_known_by_their_digits(void **state)
{
	struct buf b = { 0 };
	struct heard h;

	(void)state;
	for (unsigned i = 0; i < 9000; i++) {
		put(&b, "epoch %u of the plan: checkpoint at %u, killed 3 jobs\n", i % 7, i % 40);
		put(&b, "task exited with code %u of 9\n", i == 7000 ? 3 : 0);
		put(&b, "}\n");
	}
	h = heard_of(&b, "exit value=0 x8999\nexit value=3\n");
	assert_int_equal(h.t->sayings.v[1].line, 3 * 7000 + 2);
	assert_int_equal(h.t->sayings.v[0].last_line, 3 * 9000 - 1);
	heard_done(&h);
	buf_done(&b);
}

static void an_error_that_ends_a_traceback_is_another_than_one_alone(void **state)
{
	struct buf b = { 0 };
	struct heard h;

	(void)state;
	for (unsigned i = 0; i < 3000; i++) {
		if (i % 3 == 1)
			put(&b, "Traceback (most recent call last):\n"
				"  File \"train.py\", line 7, in <module>\n    main()\n");
		put(&b, "ValueError: CUDA error: out of memory\n");
		put(&b, "CUDA error: an illegal memory access was encountered\n");
		put(&b, "step %u/5000 loss 1.5\n", i);
	}
	h = heard_of(&b, "out-of-memory value=0 what=GPU memory x3000\n"
			 "gpu-error what=illegal memory access x3000\n"
			 "progress 0..2999/5000 lines=3000 loss=1.5\n");
	heard_done(&h);
	buf_done(&b);
}

static void a_log_that_outgrows_what_is_kept_is_read_the_same(void **state)
{
	struct buf b = { 0 };
	struct heard h;

	(void)state;
	/* Kinds by thousands, told apart by letters; each is said twice in a row, then later. */
	for (unsigned i = 0; i < 40000; i++) {
		unsigned kind = i / 2 % 9000;

		put(&b, "worker %c%c%c%c: sending process %u closing signal SIGTERM\n",
		    'a' + kind % 20, 'a' + kind / 20 % 20, 'a' + kind / 400 % 20, 'a' + kind / 8000,
		    kind % 50);
	}
	hear(&h, (const char *)b.data, b.len, "train.log", 0);
	assert_int_equal(h.t->sayings.n, 50);
	assert_int_equal(h.stats.events, 40000);
	heard_done(&h);
	buf_done(&b);
}

/* A text four times over; every second time its digits are others. */
static void hear_again(const char *text, size_t len, const char *name)
{
	uint64_t x = 88172645463325252u;
	struct buf b = { 0 };
	struct heard h;

	for (unsigned time = 0; time < 4; time++)
		for (size_t i = 0; i < len; i++) {
			char c = text[i];

			x ^= x << 13, x ^= x >> 7, x ^= x << 17;
			if (time % 2 && c >= '0' && c <= '9' && x % 16 == 0)
				c = (char)('0' + x / 16 % 10);
			buf_put(&b, &c, 1);
		}
	hear(&h, (const char *)b.data, b.len, name, 0);
	heard_done(&h);
	buf_done(&b);
}

static bool is_text_of_lines(const char *name)
{
	static const char *const ends[] = { ".log", ".txt", ".out", ".err" };
	size_t n = strlen(name);

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (n > 4 && !strcmp(name + n - 4, ends[i]))
			return true;
	return false;
}

static unsigned heard_files;

static int hear_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	char *text;
	FILE *f;

	if (type != FTW_F || st->st_size > 200000 || !is_text_of_lines(path))
		return 0;
	f = fopen(path, "rb");
	assert_non_null(f);
	text = xmalloc((size_t)st->st_size + 1);
	assert_int_equal(fread(text, 1, (size_t)st->st_size, f), st->st_size);
	fclose(f);
	if (log_sniff(text, (size_t)st->st_size, path))
		hear_again(text, (size_t)st->st_size, path + ftw->base);
	free(text);
	heard_files++;
	return 0;
}

static void logs_of_all_cases_are_read_the_same_when_they_come_again(void **state)
{
	(void)state;
	assert_int_equal(nftw(SOURCE_ROOT "/tests/cases", hear_file, 16, FTW_PHYS), 0);
	assert_true(heard_files > 50);
}

static void real_logs_are_read_the_same_when_they_come_again(void **state)
{
	const char *root = getenv("LOCKSTEP_SHARED");
	char path[1024];

	(void)state;
	snprintf(path, sizeof(path), "%s/data", root ? root : "");
	if (access(path, R_OK) != 0) {
		print_message("skipped: no shared data\n");
		skip();
	}
	heard_files = 0;
	assert_int_equal(nftw(path, hear_file, 16, FTW_PHYS), 0);
	assert_true(heard_files > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_differs_in_a_digit_is_found_among_thousands),
		cmocka_unit_test(what_stands_among_lines_of_nothing_is_found),
		cmocka_unit_test(what_watchdogs_say_again_is_counted),
		cmocka_unit_test(numbers_of_like_lines_are_all_read),
		cmocka_unit_test(bars_of_ranks_in_one_log),
		cmocka_unit_test(lines_of_words_that_say_nothing_are_known_by_their_digits),
		cmocka_unit_test(an_error_that_ends_a_traceback_is_another_than_one_alone),
		cmocka_unit_test(a_log_that_outgrows_what_is_kept_is_read_the_same),
		cmocka_unit_test(logs_of_all_cases_are_read_the_same_when_they_come_again),
		cmocka_unit_test(real_logs_are_read_the_same_when_they_come_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
