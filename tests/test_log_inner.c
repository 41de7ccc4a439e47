/* SPDX-License-Identifier: Apache-2.0 */
/* test_log_inner.c - stacks and tables of GPUs inside logs: whose they are, and when they count. */
#include "log_helpers.h"
#include "stack_helpers.h"

#define STEPS "step 39/400 loss 2.5 time 1.0s\nstep 40/400 loss 2.5 time 1.0s\n"
#define TIMEOUT                                                                                    \
	"[rank0]:[E1120 10:10:42.12 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught "           \
	"collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=6, "          \
	"NumelOut=6, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"

static const char table[] =
    "+-----------------------------------------------------------------------------+\n"
    "| NVIDIA-SMI 535.54.03    Driver Version: 535.54.03    CUDA Version: 12.2     |\n"
    "|-------------------------------+----------------------+----------------------+\n"
    "| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"
    "|===============================+======================+======================|\n"
    "|   0  NVIDIA A100-SXM...  On   | 00000000:07:00.0 Off |                    0 |\n"
    "| N/A   38C    P0   132W / 400W |  61234MiB / 81920MiB |    100%      Default |\n"
    "|                               |                      |             Disabled |\n"
    "+-------------------------------+----------------------+----------------------+\n"
    "|   1  NVIDIA A100-SXM...  On   | 00000000:0A:00.0 Off |                    0 |\n"
    "| N/A   38C    P0    71W / 400W |  61234MiB / 81920MiB |      0%      Default |\n"
    "|                               |                      |             Disabled |\n"
    "+-------------------------------+----------------------+----------------------+\n"
    "                                                                               \n"
    "+-----------------------------------------------------------------------------+\n"
    "| Processes:                                                                  |\n"
    "|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |\n"
    "|=============================================================================|\n"
    "|    0   N/A  N/A      4239      C   python                          61220MiB |\n"
    "+-----------------------------------------------------------------------------+\n";

static void put_gpus(struct buf *b, const struct testimony *t)
{
	for (size_t i = 0; i < t->gpus.n; i++) {
		const struct gpu_series *g = &t->gpus.v[i];

		stack_put(b, "gpu %" PRId64 " x%" PRIu64 " %.0f W %.0f %%\n", g->index, g->seen,
			  (double)g->samples[g->n_samples - 1].power_w,
			  100 * (double)g->samples[g->n_samples - 1].utilization);
	}
}

/* want: the sayings and steps, then the stacks, then the GPUs; however the bytes come in. */
static void expect_inner(const char *path, const char *text, const char *want)
{
	static const size_t steps[] = { 0, 1, 7, 64, 1000 };

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct buf b = { 0 };
		struct heard h;
		char *stacks;

		hear(&h, text, strlen(text), path, steps[i]);
		assert_int_equal(h.status, 0);
		stack_put(&b, "%s", heard_lines(&h, false));
		stacks = stack_lines_of(h.t);
		stack_put(&b, "%s", stacks);
		put_gpus(&b, h.t);
		buf_put(&b, "", 1);
		assert_string_equal((const char *)b.data, want);
		free(stacks);
		buf_done(&b);
		heard_done(&h);
	}
}

static void stacks_of_ranks_that_print_together(void **state)
{
	(void)state;
	expect_inner("train.log",
		     STEPS
		     "[rank1]: Fatal Python error: Aborted\n"
		     "[rank2]: Timeout (0:10:00)!\n"
		     "[rank1]: \n"
		     "[rank2]: Thread 0x00007f3 (most recent call first):\n"
		     "[rank1]: Current thread 0x00007f2 (most recent call first):\n"
		     "[rank2]:   File \"/job/data.py\", line 33 in __next__\n"
		     "[rank1]:   File \"/job/train.py\", line 88 in main\n"
		     "[rank2]:   File \"/job/train.py\", line 60 in saving_checkpoint\n" TIMEOUT
		     "[rank1]: done\n",
		     "fatal rank=1 what=fatal Python error\n"
		     "time-out rank=0 local=0 all_reduce in=6 out=6 seq=41 timeout=600000 "
		     "ran=600012\n"
		     "progress 39..40/400 lines=2 ms=1000 loss=2.5\n"
		     "faulthandler rank 1\n"
		     "  - main active gil: main@/job/train.py:88\n"
		     "faulthandler rank 2\n"
		     "  - main: __next__@/job/data.py:33 < saving_checkpoint@/job/train.py:60\n");
}

static void a_dump_of_py_spy_among_other_lines(void **state)
{
	static const char dump[] = "$ py-spy dump --pid 4242\n"
				   "Process 4242: python train.py --rank 3\n"
				   "Python v3.10.12 (/usr/bin/python3.10)\n"
				   "\n"
				   "Thread 4242 (active): \"MainThread\"\n"
				   "    _try_get_data (torch/utils/data/dataloader.py:1133)\n"
				   "    <module> (train.py:120)\n"
				   "Thread 4300 (idle): \"Thread-1\"\n"
				   "    wait (threading.py:320)\n"
				   "$ exit\n";
	struct buf b = { 0 };

	(void)state;
	stack_put(&b, "%s%s%s", STEPS, table, dump);
	buf_put(&b, "", 1);
	expect_inner("report.txt", (const char *)b.data,
		     "progress 39..40/400 lines=2 ms=1000 loss=2.5\n"
		     "py-spy rank 3 pid 4242\n"
		     "  MainThread main active: "
		     "_try_get_data@torch/utils/data/dataloader.py:1133 < <module>@train.py:120\n"
		     "  Thread-1: wait@threading.py:320\n"
		     "gpu 0 x1 132 W 100 %\n"
		     "gpu 1 x1 71 W 0 %\n");
	buf_done(&b);
}

static void what_the_job_went_on_behind_is_history(void **state)
{
	static const char stack[] = "Timeout (0:10:00)!\n"
				    "Thread 0x00007f3 (most recent call first):\n"
				    "  File \"/job/data.py\", line 33 in __next__\n";
	struct buf b = { 0 };

	(void)state;
	stack_put(&b, "%s%s%s%s", table, STEPS, stack, STEPS);
	buf_put(&b, "", 1);
	expect_inner("rank3.log", (const char *)b.data,
		     "file rank=3\n"
		     "progress rank=3 39..40/400 lines=4 restarts=1 ms=1000 loss=2.5\n");
	b.len = 0;
	stack_put(&b, "%s%s%ssaving checkpoint to /ckpt/model.pt\n%s", STEPS, stack, table, stack);
	buf_put(&b, "", 1);
	expect_inner("rank3.log", (const char *)b.data,
		     "file rank=3\n"
		     "save-begin rank=3\n"
		     "progress rank=3 39..40/400 lines=2 ms=1000 loss=2.5\n"
		     "faulthandler\n"
		     "  - main: __next__@/job/data.py:33\n");
	buf_done(&b);
}

/* Without a mark of whose they are, the lines of several ranks cannot be told apart. */
static void stacks_of_nobody_are_dropped(void **state)
{
	static const char text[] = STEPS "Thread 0x00007f3 (most recent call first):\n"
					 "  File \"/job/data.py\", line 33 in __next__\n";
	struct heard h;

	(void)state;
	expect_inner("train.log", text, "progress 39..40/400 lines=2 ms=1000 loss=2.5\n");
	hear(&h, text, strlen(text), "train.log", 0);
	assert_int_equal(h.t->dropped, 1);
	heard_done(&h);
	expect_inner("rank5.log", text,
		     "file rank=5\n"
		     "progress rank=5 39..40/400 lines=2 ms=1000 loss=2.5\n"
		     "faulthandler\n"
		     "  - main: __next__@/job/data.py:33\n");
}

static void an_exception_ends_a_stack(void **state)
{
	(void)state;
	expect_inner("rank5.log",
		     STEPS "Thread 0x00007f3 (most recent call first):\n"
			   "  File \"/job/data.py\", line 33 in __next__\n"
			   "Traceback (most recent call last):\n"
			   "  File \"/job/train.py\", line 1, in main\n"
			   "    next(data)\n"
			   "ValueError: token 7\n",
		     "file rank=5\n"
		     "exception rank=5 what=ValueError\n"
		     "progress rank=5 39..40/400 lines=2 ms=1000 loss=2.5\n"
		     "faulthandler\n"
		     "  - main: __next__@/job/data.py:33\n");
}

static void lines_behind_a_table_are_read(void **state)
{
	struct buf b = { 0 };

	(void)state;
	/* lines like those of nvidia-smi -q, but not of it */
	stack_put(&b, "%s%s", STEPS,
		  "==============NVSMI LOG==============\n"
		  "Timestamp                                 : Tue Nov 20 10:20:11 2026\n"
		  "Attached GPUs                             : 1\n"
		  "GPU 00000000:07:00.0\n"
		  "    Product Name                          : NVIDIA A100-SXM4-80GB\n"
		  "    Utilization\n"
		  "        Gpu                               : 100 %\n"
		  "    Power Readings\n"
		  "        Power Draw                        : 130.50 W\n"
		  "        Power Limit                       : 400.00 W\n"
		  "note : CUDA out of memory. Tried to allocate 2.00 GiB\n"
		  "slurmstepd: error: Detected 1 oom_kill event in StepId=4.0.\n");
	buf_put(&b, "", 1);
	expect_inner("train.log", (const char *)b.data,
		     "out-of-memory value=0 what=GPU memory\n"
		     "out-of-memory value=1 what=host memory\n"
		     "progress 39..40/400 lines=2 ms=1000 loss=2.5\n"
		     "gpu 0 x1 130 W 100 %\n");
	buf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_of_ranks_that_print_together),
		cmocka_unit_test(a_dump_of_py_spy_among_other_lines),
		cmocka_unit_test(what_the_job_went_on_behind_is_history),
		cmocka_unit_test(stacks_of_nobody_are_dropped),
		cmocka_unit_test(an_exception_ends_a_stack),
		cmocka_unit_test(lines_behind_a_table_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
