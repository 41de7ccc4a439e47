/* SPDX-License-Identifier: Apache-2.0 */
/* test_log.c - logs as files: damaged, cut, copied, long; and the recorded ones with their answers.
 */
#include "log_helpers.h"

#define TIMEOUT(rank)                                                                              \
	"[rank" rank "]:[E429 21:44:48.828088908 ProcessGroupNCCL.cpp:632] [Rank " rank            \
	"] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9387, OpType=ALLREDUCE, " \
	"NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600005 milliseconds before timing "    \
	"out."
#define TOLD(rank)                                                                                 \
	"time-out rank=" rank " local=" rank                                                       \
	" all_reduce in=1 out=1 seq=9387 timeout=600000 ran=600005\n"

static void expect(const char *text, const char *want)
{
	expect_of("train.log", text, strlen(text), want);
}

/* Cuts lines at a width and pads them with blanks, as a copy of a terminal is. */
static char *terminal_copy(const char *text, size_t width)
{
	size_t len = strlen(text);
	char *copy = xmalloc(2 * len + (width + 1) * 64), *dst = copy;

	for (const char *p = text; *p; p += *p == '\n') {
		size_t n = strcspn(p, "\n");

		do {
			size_t part = MIN(n, width);

			memcpy(dst, p, part);
			memset(dst + part, ' ', width - part);
			dst[width] = '\n';
			dst += width + 1;
			p += part;
			n -= part;
		} while (n);
	}
	*dst = 0;
	return copy;
}

static void a_terminals_copy_is_joined_whatever_its_width(void **state)
{
	static const char text[] = "INFO:x:Saving checkpoint. This may take some time.\n" TIMEOUT(
	    "4") "\n" TIMEOUT("7") "\n" TIMEOUT("1") "\nINFO:x:short\n" TIMEOUT("2") "\n";

	(void)state;
	for (size_t width = 60; width <= 200; width++) {
		char *copy = terminal_copy(text, width);

		expect(copy, "save-begin\n" TOLD("4") TOLD("7") TOLD("1") TOLD("2"));
		free(copy);
	}
}

static void lines_of_one_length_are_no_copy_of_a_terminal(void **state)
{
	struct buf b = { 0 };

	(void)state;
	for (int i = 0; i < 50; i++) {
		put(&b,
		    "gpu-h%02d:1000:2000 [0] NCCL INFO Channel %02d/0 : 0[0] -> 1[1] via P2P/IPC "
		    "and so on\n",
		    i, i);
		put(&b,
		    "step %02d/50 loss 1.0000 time 0.100s learning rate 0.00001 gradient norm "
		    "1.000 xx\n",
		    i);
	}
	expect_of("train.log", (const char *)b.data, b.len,
		  "progress 0..49/50 lines=50 ms=100 loss=1\n");
	buf_done(&b);
}

static void a_known_text_that_breaks_off_is_held_for_the_next_line(void **state)
{
	(void)state;
	expect("[rank4]:[E429 21:44:48.8 ProcessGroupNCCL.cpp:632] [Rank 4] Watchdog caught "
	       "collective "
	       "operation timeout: WorkNCCL(SeqNum=9387, OpType=ALLREDUCE, NumelIn=1, N\n"
	       "umelOut=1, Timeout(ms)=600000) ran for 600005 milliseconds before timing out.\n",
	       TOLD("4"));
	expect("[rank4]:[E429 21:44:48.8 ProcessGroupNCCL.cpp:632] [Rank 4] Watchdog caught "
	       "collective "
	       "operation timeout:\nWorkNCCL(SeqNum=9387, OpType=ALLREDUCE, NumelIn=1,\n"
	       "NumelOut=1, Timeout(ms)=600000) ran for 600005 milliseconds before timing out.\n",
	       TOLD("4"));
	expect("[rank4]:[E1 x.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 4]  failure detected by "
	       "watchdog at work sequence id: 9387 PG status: \nlast enqueued work: 9387, last "
	       "completed work: 9386\n",
	       "status rank=4 local=4 group=0(default_pg) seq=9387 value=9386\n");
	/* Another rank's line is not the rest of it. */
	expect("[rank4]:[E429 21:44:48.8 x.cpp:6] [Rank 4] Watchdog caught collective operation "
	       "timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, N\n" TIMEOUT("5") "\n",
	       TOLD("5"));
}

static void damage_harms_its_own_line_only(void **state)
{
	static const char nul[] = "step 1/3 loss 2.0\n\0\0\0\0step 2/3 loss 1.5\n\xff\xfe\xe4\n"
				  "[rank1]: ValueError: b\xe4\x01 d\n";
	static const char ends[] = "step 1/3 loss 2.0\r\nstep 2/3 loss 1.5\r\n\r\nbye\r\n";

	(void)state;
	expect_of("train.log", nul, sizeof(nul) - 1,
		  "exception rank=1 what=ValueError\nprogress 1..2/3 lines=2 loss=1.5\n");
	expect_of("train.log", ends, sizeof(ends) - 1,
		  "left what=bye\nprogress 1..2/3 lines=2 loss=1.5\n");
	expect("step 2/3 loss 1.5", "progress 2..2/3 lines=1 loss=1.5\n"); /* no end of line */
	expect("WorkNCCL(", "");
	expect("Traceback (most recent call last):\n", "");
	expect("[rank99999999999999999999]: ValueError: x\nstep 99999999999999999999 loss 1\n", "");
	expect("[PG ID 0 PG GUID 0(default_pg", "");
	expect("\n\n\r\n", "");
	expect("", "");
}

static void a_line_without_an_end_is_cut_and_counted(void **state)
{
	const size_t len = (size_t)5 << 20;
	char *text = xmalloc(len + 64);
	struct heard h;

	(void)state;
	memset(text, 'x', len);
	memcpy(text, "[rank3]: ValueError: long ", 26);
	memcpy(text + len, "\nstep 2/3 loss 1.5\n", 19);
	hear(&h, text, len + 19, "a.log", 0);
	assert_string_equal(heard_lines(&h, false),
			    "exception rank=3 what=ValueError\nprogress 2..2/3 lines=1 loss=1.5\n");
	assert_int_equal(h.stats.skipped[SKIP_TOO_LONG], 1);
	assert_int_equal(h.t->sayings.v[0].line, 1);
	assert_int_equal(h.t->progress.v[0].line, 2);
	heard_done(&h);
	free(text);
}

static void lines_are_counted_from_one(void **state)
{
	static const char text[] =
	    "a\n\nstep 1/9 loss 1.0\nb\rstep 2/9 loss 1.0\nstep 3/9 loss 1.0\n"
	    "step 4/9 loss 1.0\nc\n[rank1]: ValueError: x\n";
	static const size_t steps[] = { 0, 1, 3 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct heard h;

		hear(&h, text, sizeof(text) - 1, "a.log", steps[i]);
		assert_int_equal(h.t->progress.v[0].line, 3);
		assert_int_equal(h.t->progress.v[0].last_line, 6);
		assert_int_equal(h.t->sayings.v[0].line, 8);
		assert_int_equal(h.t->lines, 8);
		heard_done(&h);
	}
}

/* Lines that are alike go another way than those that are not: the numbers must be the same. */
static void lines_that_are_alike_give_what_others_give(void **state)
{
	struct buf b = { 0 };
	struct heard h;

	(void)state;
	for (int i = 1; i <= 3000; i++)
		put(&b,
		    "[rank%d]: 2026-11-%02d 21:%02d:%02d,%03d step %d/3000 | loss: %.4f | tok/s: "
		    "%d,%03d | "
		    "step_time %.1fms\n",
		    i % 3, 28 + i / 2000, i / 60 % 60, i % 60, i % 1000, i, 3.0 + i / 1000.0,
		    10 + i % 7, i % 1000, 100 + (i == 1234 ? 900.5 : i % 10));
	for (int ones = 0; ones < 2; ones++) {
		char want[3][160];

		hear(&h, (const char *)b.data, b.len, "a.log", ones ? 1 : 0);
		assert_int_equal(h.t->progress.n, 3);
		for (int r = 0; r < 3; r++) {
			const struct log_progress *p = &h.t->progress.v[r];
			int last = 3000 - (3 - (int)p->rank) % 3;

			assert_int_equal(p->lines, 1000);
			assert_int_equal(p->last_step, last);
			assert_int_equal(p->total_steps, 3000);
			assert_int_equal(p->restarts, 0);
			assert_int_equal(p->last_line, last);
			assert_true(fabs(p->last_loss - (3.0 + last / 1000.0)) < 1e-9);
			assert_true(fabs(p->last_step_ms - (100 + last % 10)) < 1e-9);
			assert_true(fabs(p->last_tokens_per_s -
					 (1000 * (10 + last % 7) + last % 1000)) < 1e-6);
			snprintf(want[r], sizeof(want[r]), "%" PRId64, p->last_ns);
			if (p->rank == 1234 % 3) {
				assert_int_equal(p->gaps[0].step, 1234);
				assert_true(fabs(p->gaps[0].ms - 1000.5) < 1e-9);
			}
		}
		/* 2026-11-29 21:50:00,000: the last line, of rank 0 */
		for (int r = 0; r < 3; r++)
			if (h.t->progress.v[r].rank == 0)
				assert_string_equal(want[r], "1795989000000000000");
		heard_done(&h);
	}
	buf_done(&b);
}

/* Bars go the same way, whatever ends them; one of another total counts something else, and words
   behind a bar are read. */
static void bars_that_are_alike_give_what_others_give(void **state)
{
	static const char *const ends[] = { "\r", "\n", "\r\n" };

	(void)state;
	for (size_t e = 0; e < ARRAY_SIZE(ends); e++) {
		struct buf b = { 0 };

		for (int i = 100; i < 1000; i++) {
			put(&b,
			    "Epoch %d: %3d%%|###  | %d/1000 [01:%02d<07:20,  %d.%02dit/s, "
			    "loss=%.3f]%s",
			    2 + i / 500, i / 10, i, i % 60, 1 + i % 7, i % 100, 2 + i / 1000.0,
			    ends[e]);
			if (i % 100 == 99)
				put(&b,
				    "Epoch %d: %3d%%|###  | %d/1000 [01:%02d<07:20,  2.00it/s, "
				    "loss=%.3f] saved checkpoint-%d/model.pt%s",
				    2 + i / 500, i / 10, i, i % 60, 2 + i / 1000.0, i, ends[e]);
		}
		expect_of("train.log", (const char *)b.data, b.len,
			  "save-end value=199\nsave-end value=299\nsave-end value=399\n"
			  "save-end value=499\nsave-end value=599\nsave-end value=699\n"
			  "save-end value=799\nsave-end value=899\nsave-end value=999\n"
			  "progress 2100..3999 epoch=3 at 999/1000 lines=909 ms=500 loss=2.999\n");
		b.len = 0;
		for (int i = 10; i < 90; i++) {
			put(&b, " %d%%|###  | %d/90 [01:%02d<07:20,  %d.%02ds/it]%s", i, i, i % 60,
			    1 + i % 7, i % 100, ends[e]);
			put(&b, " %d%%|###  | %d/80 [01:%02d<07:20,  %d.%02ds/it]%s", i, i, i % 60,
			    1 + i % 7, i % 100, ends[e]);
		}
		expect_of("train.log", (const char *)b.data, b.len,
			  "evaluation x80\nprogress 10..89/90 lines=80 ms=6890\n");
		buf_done(&b);
	}
}

static void ranks_of_files(void **state)
{
	static const char text[] = "ValueError: x\n";

	(void)state;
	expect_of("logs/train_rank_3.log", text, strlen(text),
		  "file rank=3\nexception rank=3 what=ValueError\n");
	expect_of("run/abc_1/attempt_0/2/stderr.log", text, strlen(text),
		  "file rank=2\nexception rank=2 what=ValueError\n");
	expect_of("run/train.log", text, strlen(text), "exception what=ValueError\n");
	/* What the line says counts before what the file is called. */
	expect_of("rank3.log", "[rank5]: ValueError: x\n", 23,
		  "file rank=3\nexception rank=5 what=ValueError\n");
	/* What a launcher says in it is not of that rank. */
	expect_of("rank3.log", "Killing subprocess 17\n", 22,
		  "file rank=3\nstopped value=15 pid=17\n");
}

static void stamps_without_a_year_take_it_from_others(void **state)
{
	(void)state;
	expect("[rank1]:[E301 00:00:01.5 x.cpp:1] ValueError: x\n",
	       "exception rank=1 what=ValueError\n");
	expect(
	    "[rank1]:[E301 00:00:01.5 x.cpp:1] ValueError: x\n2023-03-01 10:00:00 bye\n",
	    "exception rank=1 what=ValueError ms=1677628801500\nleft what=bye ms=1677664800000\n");
	expect(
	    "[rank1]:[E229 00:00:01.5 x.cpp:1] ValueError: x\n2024-03-01 10:00:00 bye\n",
	    "exception rank=1 what=ValueError ms=1709164801500\nleft what=bye ms=1709287200000\n");
}

static void many_sayings_are_bounded_and_counted(void **state)
{
	struct buf b = { 0 };
	struct heard h;

	(void)state;
	for (int i = 0; i < 300000; i++)
		put(&b, "Sending process %d closing signal SIGTERM\n", i + 1);
	hear(&h, (const char *)b.data, b.len, "a.log", 0);
	assert_int_equal(h.t->sayings.n, TESTIMONY_SAYINGS_MAX);
	assert_int_equal(h.t->dropped, 300000 - TESTIMONY_SAYINGS_MAX);
	heard_done(&h);
	buf_done(&b);
}

static void texts_about_jobs_are_no_logs(void **state)
{
	static const char text[] = "Notes\n\nRuntimeError: CUDA out of memory\n";

	(void)state;
	expect_of("a/notes.md", text, strlen(text), "");
	expect_of("a/notes.log", text, strlen(text), "out-of-memory value=0 what=GPU memory\n");
	expect_of("a/notes.md", "2026-11-29 21:09:53 bye\n", 24,
		  "left what=bye ms=1795986593000\n");
}

static void binary_files_are_no_logs(void **state)
{
	static const char nul[64] = "text", odd[] = "\001\002\003\004\005\006";

	(void)state;
	assert_true(log_sniff("step 1\n", 7, "a"));
	assert_true(log_sniff("step 1\n\0\0\0", 10, "a"));
	assert_true(log_sniff("\033[36mred\033[0m\r\n", 14, "a"));
	assert_false(log_sniff("\177ELF\002", 5, "a"));
	assert_false(log_sniff(nul, sizeof(nul), "a"));
	assert_false(log_sniff(odd, sizeof(odd) - 1, "a"));
	assert_false(log_sniff("", 0, "a"));
	/* JSON as a whole is none, lines of JSON may be one. */
	assert_false(log_sniff("{\n \"a\": 1\n}\n", 12, "a"));
	assert_false(log_sniff("[{\"a\": 1}]", 10, "a"));
	assert_false(log_sniff("{\"a\": 1}\n", 9, "a"));
	assert_true(log_sniff("{\"a\": 1}\n{\"a\": 2}\n", 18, "a"));
	assert_true(log_sniff("{'loss': 1}\n", 12, "a"));
	assert_true(log_sniff("[rank0]: x\n", 11, "a"));
}

/* --- the recorded and rebuilt logs --- */

static bool hear_shared(struct heard *h, const char *name)
{
	const char *folder = getenv("LOCKSTEP_SHARED");
	_cleanup_free_ char *path = xasprintf("%s/data/%s", folder ? folder : "", name);
	struct input *in = NULL;

	memset(h, 0, sizeof(*h));
	if (!folder || input_open(path, &in, &h->error) < 0) {
		print_message("skipped: no shared data\n");
		return false;
	}
	h->status = log_read(in, path, &h->t, &h->stats, &h->error);
	if (h->t)
		log_settle_years(&h->t, 1);
	input_free(in);
	assert_int_equal(h->status, 0);
	return true;
}

static unsigned said(const struct heard *h, enum saying_kind kind, int64_t rank)
{
	unsigned n = 0;

	for (size_t i = 0; i < h->t->sayings.n; i++)
		n += h->t->sayings.v[i].kind == kind &&
		     (rank == -2 || h->t->sayings.v[i].rank == rank);
	return n;
}

static void healthy_logs_give_their_step_times(void **state)
{
	static const struct {
		const char *name;
		uint64_t lines;
		double longest, last;
	} logs[] = {
		{ "logs/bigscience_meg_ds_3d_gpt2_perf_n16-ds-on.out", 49, 159778.9, 136328.8 },
		{ "logs/bigscience_meg_gpt2_base_n64_dp1_tp4_pp64-1809655.out", 6, 19932.4,
		  6703.7 },
		{ "logs/superbench_megatron_deepspeed.log", 5, 76015.3, 74494.9 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(logs); i++) {
		struct heard h;
		struct log_progress *p;

		if (!hear_shared(&h, logs[i].name))
			return;
		assert_int_equal(h.t->progress.n, 1);
		p = &h.t->progress.v[0];
		assert_int_equal(p->lines, logs[i].lines);
		assert_true(fabs(p->gaps[0].ms - logs[i].longest) < 1e-6);
		assert_true(fabs(p->last_step_ms - logs[i].last) < 1e-6);
		assert_int_equal(p->restarts, 0);
		assert_int_equal(said(&h, SAY_TIMEOUT, -2) + said(&h, SAY_EXCEPTION, -2) +
				     said(&h, SAY_GPU_ERROR, -2) + said(&h, SAY_NETWORK_ERROR, -2),
				 0);
		heard_done(&h);
	}
}

static void events_of_a_step_of_twenty_minutes(void **state)
{
	struct heard h;

	(void)state;
	if (!hear_shared(&h, "logs/dlrover_training_events_0.log"))
		return;
	assert_int_equal(h.t->progress.v[0].gaps[0].step, 177019);
	assert_in_range(h.t->progress.v[0].gaps[0].ms, 1340000, 1375000);
	assert_int_equal(said(&h, SAY_SAVE_BEGIN, -2), 2);
	assert_int_equal(said(&h, SAY_SAVE_END, -2), 2);
	heard_done(&h);
}

/* Every rank that timed out, and who did not. */
static void reports_name_the_ranks_that_waited(void **state)
{
	static const struct {
		const char *name;
		unsigned ranks;
		const char *waited; /* by rank */
	} logs[] = {
		{ "reports/01-tokenizer-on-rank0/train.log", 4, ".xxx" },
		{ "reports/04-slurm-label-rank8/slurm-6120441.out", 16, "xxxxxxxxxxxxxxxx" },
		{ "reports/06-desync-report-rank7/run.log", 8, "xxxxxxx." },
		{ "reports/07-group-local-rank-numbers/job.log", 16, "............xxxx" },
		{ "reports/10-checkpoint-slower-than-timeout/console.txt", 8, ".xxxxxxx" },
		{ "reports/14-some-gpus-zero-at-epoch-end/train.log", 8, "x.xx.x.x" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(logs); i++) {
		struct heard h;

		if (!hear_shared(&h, logs[i].name))
			return;
		for (unsigned r = 0; r < logs[i].ranks; r++)
			assert_int_equal(said(&h, SAY_TIMEOUT, r), logs[i].waited[r] == 'x');
		assert_int_equal(said(&h, SAY_TIMEOUT, -1), 0);
		heard_done(&h);
	}
}

static void reports_say_what_else_is_in_them(void **state)
{
	struct heard h;
	const char *lines;

	(void)state;
	if (!hear_shared(&h, "reports/01-tokenizer-on-rank0/train.log"))
		return;
	assert_int_equal(said(&h, SAY_HELLO, -2), 4);
	assert_int_equal(said(&h, SAY_DATA_WORK, -2), 2);
	assert_int_equal(h.t->progress.n, 0);
	heard_done(&h);

	hear_shared(&h, "reports/04-slurm-label-rank8/slurm-6120441.out");
	lines = heard_lines(&h, false);
	assert_non_null(strstr(lines, "time-out rank=8 local=8 all_reduce in=1 out=1 seq=1907"));
	assert_non_null(strstr(lines, "time-out rank=0 local=0 broadcast in=4194304"));
	assert_int_equal(said(&h, SAY_CANCELLED, -2), 0);
	heard_done(&h);

	hear_shared(&h, "reports/07-group-local-rank-numbers/job.log");
	lines = heard_lines(&h, false);
	assert_non_null(strstr(lines, "time-out rank=15 local=0 group=112 all_reduce"));
	assert_non_null(strstr(lines, "time-out rank=12 local=0 group=119 all_to_all"));
	assert_non_null(strstr(lines, "time-out rank=14 local=0 group=120 all_to_all"));
	heard_done(&h);

	hear_shared(&h, "reports/09-ray-deduplicated-lines/driver.log");
	assert_int_equal(said(&h, SAY_FOLDED, -2), 1);
	assert_int_equal(said(&h, SAY_TIMEOUT, 4), 1);
	assert_int_equal(said(&h, SAY_TIMEOUT, 38), 1);
	assert_int_equal(said(&h, SAY_TIMEOUT, 51), 1);
	heard_done(&h);

	hear_shared(&h, "reports/10-checkpoint-slower-than-timeout/console.txt");
	lines = heard_lines(&h, false);
	assert_non_null(strstr(lines,
			       "dump-signal rank=0 local=0 peer=4 group=0(default_pg) seq=9386 "
			       "value=9386"));
	assert_int_equal(said(&h, SAY_SAVE_BEGIN, -2), 1);
	assert_int_equal(said(&h, SAY_SAVE_END, -2), 0);
	heard_done(&h);

	hear_shared(&h, "reports/13-elastic-echoes/train.err");
	assert_int_equal(said(&h, SAY_EXCEPTION, 1), 1);
	assert_int_equal(said(&h, SAY_EXCEPTION, 3), 1);
	assert_int_equal(said(&h, SAY_EXCEPTION, -2), 2);
	assert_int_equal(said(&h, SAY_FIRST_FAILURE, 1), 1);
	heard_done(&h);
}

static void recorded_hangs_give_progress_and_reasons(void **state)
{
	static const struct {
		const char *name;
		unsigned ranks; /* of which progress is known; 0: lines that name none */
		int64_t first;	/* last step of rank 0 */
		enum saying_kind kind;
		int64_t rank;
		unsigned count;
	} logs[] = {
		{ "data_stall", 0, 11, SAY_EXCEPTION, -2, 0 },
		{ "ddp_uneven", 8, 9, SAY_FATAL, 6, 1 },
		{ "ddp_uneven_crash", 8, 9, SAY_FIRST_FAILURE, 6, 1 },
		{ "dead_rank", 8, 14, SAY_EXIT, -2, 0 },
		{ "dead_rank_crash", 8, 11, SAY_EXIT, 5, 1 },
		{ "early_exit", 4, 10, SAY_LEFT, 1, 2 },
		{ "fsdp_epoch_end", 0, 5, SAY_EXCEPTION, -2, 0 },
		{ "gc_or_compile_stall", 0, 16, SAY_EXCEPTION, -2, 0 },
		{ "healthy", 8, 15, SAY_EXCEPTION, -2, 0 },
		{ "missing_subgroup_call", 0, 5, SAY_EXCEPTION, -2, 0 },
		{ "order_inversion", 0, 8, SAY_EXCEPTION, -2, 0 },
		{ "p2p_pipeline", 0, 5, SAY_EXCEPTION, -2, 0 },
		{ "ring_overflow", 4, 41, SAY_EPOCH_END, 1, 1 },
		{ "size_mismatch", 4, 7, SAY_FATAL, 2, 1 },
		{ "size_mismatch_crash", 4, 7, SAY_FIRST_FAILURE, 2, 1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(logs); i++) {
		_cleanup_free_ char *name = xasprintf("hang/%s/train.log", logs[i].name);
		struct heard h;

		if (!hear_shared(&h, name))
			return;
		assert_int_equal(h.t->progress.n, logs[i].ranks ? logs[i].ranks : 1);
		for (size_t p = 0; p < h.t->progress.n; p++)
			if (h.t->progress.v[p].rank == (logs[i].ranks ? 0 : -1))
				assert_int_equal(h.t->progress.v[p].last_step, logs[i].first);
		assert_int_equal(said(&h, logs[i].kind, logs[i].rank), logs[i].count);
		heard_done(&h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_terminals_copy_is_joined_whatever_its_width),
		cmocka_unit_test(lines_of_one_length_are_no_copy_of_a_terminal),
		cmocka_unit_test(a_known_text_that_breaks_off_is_held_for_the_next_line),
		cmocka_unit_test(damage_harms_its_own_line_only),
		cmocka_unit_test(a_line_without_an_end_is_cut_and_counted),
		cmocka_unit_test(lines_are_counted_from_one),
		cmocka_unit_test(lines_that_are_alike_give_what_others_give),
		cmocka_unit_test(bars_that_are_alike_give_what_others_give),
		cmocka_unit_test(ranks_of_files),
		cmocka_unit_test(stamps_without_a_year_take_it_from_others),
		cmocka_unit_test(many_sayings_are_bounded_and_counted),
		cmocka_unit_test(texts_about_jobs_are_no_logs),
		cmocka_unit_test(binary_files_are_no_logs),
		cmocka_unit_test(healthy_logs_give_their_step_times),
		cmocka_unit_test(events_of_a_step_of_twenty_minutes),
		cmocka_unit_test(reports_name_the_ranks_that_waited),
		cmocka_unit_test(reports_say_what_else_is_in_them),
		cmocka_unit_test(recorded_hangs_give_progress_and_reasons),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
