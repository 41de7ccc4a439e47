/* SPDX-License-Identifier: Apache-2.0 */
/* test_stack.c - what each tool prints of threads, and what people make of it, read alike. */
#include "stack_helpers.h"

#include "read/stack_lines.h"

static void py_spy_of_all_versions(void **state)
{
	(void)state;
	expect_stacks(
	    "pyspy_rank3.txt",
	    "Process 11717: /opt/env/bin/python3 -u /train/train.py\n"
	    "Python v3.11.2 (/usr/bin/python3.11)\n"
	    "\n"
	    "Thread 11717 (active+gil): \"MainThread\"\n"
	    "    open64 (libc.so.6)\n"
	    "    0x7f36f1a0724a (libc.so.6)\n"
	    "    TokenShards.__iter__ (data.py:36)\n"
	    "    std::_Function_handler<void (), f(int)>::_M_invoke (libtorch_cpu.so)\n"
	    "    <module> (train.py:29)\n"
	    "Thread 11736 (idle): \"fr-dump\"\n"
	    "    _serve (frdump.py:38)\n",
	    "py-spy rank 3 pid 11717\n"
	    "  MainThread main active gil: open64@libc.so.6 < TokenShards.__iter__@data.py:36"
	    " < std::_Function_handler<void (), f(int)>::_M_invoke@libtorch_cpu.so"
	    " < <module>@train.py:29\n"
	    "  fr-dump: _serve@frdump.py:38\n");
	/* Before 0.4 thread ids are pthread's; the rank is in the command line. */
	expect_stacks("dump.txt",
		      "Process 90119: python -u trainer.py --local_rank=7 --rank 15 --x\r\n"
		      "Python v3.8.13 (/opt/conda/bin/python3.8)\r\n\r\n"
		      "Thread 0x7F17A3C01740 (idle): \"MainThread\"\r\n"
		      "    all_reduce (torch/distributed/distributed_c10d.py:1322)\r\n"
		      "Thread 0x7FA5F1BFF700 (idle)\r\n"
		      "    wait (threading.py:302)\r\n",
		      "py-spy rank 15 local 7 pid 90119\n"
		      "  MainThread main: all_reduce@torch/distributed/distributed_c10d.py:1322\n"
		      "  -: wait@threading.py:302\n");
}

static void locals_are_no_frames(void **state)
{
	(void)state;
	expect_stacks("a.txt",
		      "Process 7: python t.py\n"
		      "Thread 7 (idle): \"MainThread\"\n"
		      "    deep (t.py:11)\n"
		      "        Arguments:\n"
		      "            n: 0\n"
		      "            s: \"call (x.py:3)\"\n"
		      "        Locals:\n"
		      "            f: <function g at 0x7f (x.py:9)>\n"
		      "    <module> (t.py:17)\n",
		      "py-spy pid 7\n  MainThread main: deep@t.py:11 < <module>@t.py:17\n");
}

static void children_of_a_rank_are_not_the_rank(void **state)
{
	(void)state;
	expect_stacks("stacks/rank12.txt",
		      "Process 5644: python train.py\n"
		      "Thread 5644 (idle): \"MainThread\"\n    f (t.py:11)\n"
		      "\n------------------------------------------------------------\n"
		      "Process 5686: python train.py\n"
		      "Python v3.11.7 (python3.11)\n"
		      "Parent Process 5644: python train.py\n\n"
		      "Thread 5686 (idle): \"MainThread\"\n    _worker_loop (worker.py:3)\n",
		      "py-spy rank 12 pid 5644\n  MainThread main: f@t.py:11\n"
		      "py-spy pid 5686\n  MainThread main: _worker_loop@worker.py:3\n");
}

static void headers_above_one_stack_are_so_many_processes(void **state)
{
	(void)state;
	expect_stacks(
	    "grouped.txt",
	    "Thread 688510 (active): \"MainThread\"\n"
	    "Thread 688511 (idle): \"MainThread\"\n"
	    "    broadcast (torch/distributed/distributed_c10d.py:1191)\n"
	    "    main (pretrain.py:5)\n"
	    "\n----\n"
	    "Thread 688514 (idle): \"MainThread\"\n"
	    "    wait (threading.py:306)\n"
	    "Thread 688599 (idle): \"Thread-1\"\n"
	    "    get (queue.py:179)\n"
	    "----\n"
	    "ranks 0-3, 5:\n"
	    "    recv (x.py:1)\n"
	    "    Thread 1 (idle): \"MainThread\"\n"
	    "        recv (torch/distributed/distributed_c10d.py:1002)\n",
	    "py-spy pid 688510\n"
	    "  MainThread main active: broadcast@torch/distributed/distributed_c10d.py:1191"
	    " < main@pretrain.py:5\n"
	    "py-spy pid 688511\n"
	    "  MainThread main: broadcast@torch/distributed/distributed_c10d.py:1191"
	    " < main@pretrain.py:5\n"
	    "py-spy pid 688514\n  MainThread main: wait@threading.py:306\n"
	    "  Thread-1: get@queue.py:179\n"
	    "py-spy ranks 0-3,5 pid 1 x5\n"
	    "  MainThread main: recv@torch/distributed/distributed_c10d.py:1002\n");
}

static void headings_say_whose_stacks_follow(void **state)
{
	(void)state;
	expect_stacks("all.txt",
		      "=== rank 3 (host gpu-17, pid 99) ===\n"
		      "Thread 99 (idle): \"MainThread\"\n    a (x.py:1)\n"
		      "[rank 12]\n"
		      "Thread 0x7F12 (active+gil)\n    b (x.py)\n"
		      "==> stacks/rank15.txt <==\n"
		      "Process 77: python train.py\n"
		      "Thread 77 (idle): \"MainThread\"\n    c (x.py:2)\n",
		      "py-spy rank 3 pid 99 host gpu-17\n  MainThread main: a@x.py:1\n"
		      "py-spy rank 12 host gpu-17\n  - main active gil: b@x.py\n"
		      "py-spy rank 15 pid 77 host gpu-17\n  MainThread main: c@x.py:2\n");
}

static void prefixed_lines_of_many_speakers_are_kept_apart(void **state)
{
	(void)state;
	expect_stacks(
	    "pdsh.out",
	    "node1: Process 99: RANK=3 python train.py\n"
	    "node2: Process 100: python train.py\n"
	    "node1: Thread 99 (idle): \"MainThread\"\n"
	    "node2: Thread 100 (idle): \"MainThread\"\n"
	    "node1:     get (queue.py:1)\n"
	    "node2:     all_reduce (torch/distributed/distributed_c10d.py:5)\n"
	    "node1:     f (a.py:1)\n"
	    "node2: \n"
	    "[rank7]: Thread 0x00007f (most recent call first):\n"
	    "[rank8]:Current thread 0x00007f (most recent call first):\n"
	    "[rank7]:   File \"/x/a.py\", line 4 in f\n"
	    "[rank8]:  File \"/x/a.py\", line 5 in g\n",
	    "py-spy rank 3 pid 99 host node1\n  MainThread main: get@queue.py:1 < f@a.py:1\n"
	    "py-spy pid 100 host node2\n"
	    "  MainThread main: all_reduce@torch/distributed/distributed_c10d.py:5\n"
	    "faulthandler rank 7\n  - main: f@/x/a.py:4\n"
	    "faulthandler rank 8\n  - main active gil: g@/x/a.py:5\n");
}

static void colours_marks_and_stamps_are_no_part_of_it(void **state)
{
	(void)state;
	expect_stacks("a.txt",
		      "\xef\xbb\xbf\033[1mProcess 7\033[0m: python t.py\n"
		      "Thread \033[1;33m7\033[0m (idle): \"MainThread\"\n"
		      "    \033[32mf\033[0m (\033[36mt.py\033[0m:1)\n",
		      "py-spy pid 7\n  MainThread main: f@t.py:1\n");
	expect_stacks("b.txt",
		      "2024-10-17T12:42:29.123Z Thread 7 (idle): \"MainThread\"\n"
		      "2024-10-17T12:42:29.123Z     f (t.py:1)\n",
		      "py-spy pid 7\n  MainThread main: f@t.py:1\n");
}

static void faulthandler_lists_the_main_thread_last(void **state)
{
	(void)state;
	expect_stacks(
	    "stderr_rank_2.txt",
	    "Timeout (0:00:05)!\n"
	    "Thread 0x00007f32b07166c0 [loader] (most recent call first):\n"
	    "  File \"/usr/lib/python3.13/threading.py\", line 327 in wait\n"
	    "  File \"/opt/lib/python3.13/site-packages/torch/queue.py\", line 171 in get\n"
	    "\n"
	    "Thread 0x00007f32b15d7b80 (most recent call first):\n"
	    "  Garbage-collecting\n"
	    "  File \"t.py\", line 11 in deep\n"
	    "  File \"t.py\", line ??? in ???\n"
	    "  ...\n"
	    "Timeout (0:00:05)!\n"
	    "Thread 0x00007f32b15d7b80 (most recent call first):\n"
	    "  <no Python frame>\n"
	    "  File \"t.py\", line 12 in deep\n",
	    "faulthandler rank 2\n"
	    "  loader: wait@threading.py:327 < get@torch/queue.py:171\n"
	    "  - main: Garbage-collecting < deep@t.py:11\n"
	    "faulthandler rank 2\n  - main: deep@t.py:12\n");
}

static void a_fatal_error_is_said_beside_its_stack(void **state)
{
	struct stack_told k = stack_told_of(
	    "rank1.err", "Fatal Python error: Segmentation fault\n\n"
			 "Current thread 0x00007f (most recent call first):\n"
			 "  File \"/x/a.py\", line 4 in f\n"
			 "Current thread's C stack trace (most recent call first):\n"
			 "  Binary file \"libtorch_cpu.so\", at _ZN2at3addE+0x48 [0x7f12]\n"
			 "  Binary file \"libc.so.6\" [0x7f13]\n"
			 "Extension modules: numpy (total: 1)\n");
	_cleanup_free_ char *lines = NULL;

	(void)state;
	assert_int_equal(k.status, 0);
	lines = stack_lines_of(k.t);
	assert_string_equal(lines, "faulthandler rank 1\n  - main active gil: f@/x/a.py:4 < "
				   "_ZN2at3addE@libtorch_cpu.so\n");
	assert_int_equal(k.t->sayings.n, 1);
	assert_int_equal(k.t->sayings.v[0].kind, SAY_FATAL);
	assert_int_equal(k.t->sayings.v[0].rank, 1);
	assert_string_equal(intern_get(&k.t->names, k.t->sayings.v[0].what), "Segmentation fault");
	stack_told_done(&k);
}

static void gdb_with_and_without_threads(void **state)
{
	(void)state;
	expect_stacks(
	    "gdb.txt",
	    "[New LWP 5687]\n[Thread debugging using libthread_db enabled]\n"
	    "0x00007f32b0eed545 in __GI___clock_nanosleep (rem=0x0) at ../clock_nanosleep.c:48\n"
	    "48\t../clock_nanosleep.c: No such file or directory.\n"
	    "To enable execution of this file add\n"
	    "\tadd-auto-load-safe-path /x/python3.11-gdb.py\n\n"
	    "Thread 2 (Thread 0x7f32b07166c0 (LWP 5687) \"pt_autograd_0\"):\n"
	    "#0  __futex_wait (private=<optimized out>, cancel=true) at ./futex-internal.c:57\n"
	    "#1  0x00007f32b0ea in ?? () from /lib/libc.so.6\n"
	    "#2  <signal handler called>\n"
	    "#3  0x00007f in c10d::ProcessGroupNCCL::WorkNCCL::wait(std::chrono::duration<long>)\n"
	    "    () from /x/libtorch_cuda.so\n"
	    "Thread 1 (Thread 0x7f32b15d7b80 (LWP 5644) \"python3\"):\n"
	    "#0  0x00007f32 in clock_nanosleep (rem=0x0) at ../clock_nanosleep.c:48\n"
	    "#10 0x000055f3 in _start ()\n"
	    "[Inferior 1 (process 5644) detached]\n",
	    "gdb pid 5644\n"
	    "  pt_autograd_0: __futex_wait@./futex-internal.c:57 < "
	    "c10d::ProcessGroupNCCL::WorkNCCL::wait(std::chrono::duration<long>)\n"
	    "  python3 main: clock_nanosleep@../clock_nanosleep.c:48 < _start\n");
	expect_stacks("bt_rank4.txt",
		      "#0  0x00007f32 in poll () from /lib/libc.so.6\n"
		      "#1  0x00007f33 in std::function<void (int)>::operator() (a=1,\n    b=2) at "
		      "x.c:4\n"
		      "#2  Frame 0x7f34, for file /x/t.py, line 302, in wait (self=<X>)\n",
		      "gdb rank 4\n  - main: poll@/lib/libc.so.6 < "
		      "std::function<void (int)>::operator() < wait@/x/t.py:302\n");
	expect_stacks("py-bt.txt",
		      "Thread 1 (Thread 0x7f32b15d7b80 (LWP 5644)):\n"
		      "Traceback (most recent call first):\n"
		      "  <built-in method acquire of _thread.lock object at remote 0x7f>\n"
		      "  File \"/x/threading.py\", line 327, in wait\n"
		      "    waiter.acquire()\n"
		      "  File \"/x/t.py\", line 5, in loop\n"
		      "    q.get()\n",
		      "gdb pid 5644\n  - main: wait@/x/threading.py:327 < loop@/x/t.py:5\n");
}

static void pystack_turned_to_innermost_first(void **state)
{
	(void)state;
	expect_stacks(
	    "pystack_rank0.txt",
	    "Traceback for thread 5687 (python3) [] (most recent call last):\n"
	    "    (C) File \"./nptl/pthread_create.c\", line 442, in start_thread (/lib/libc.so.6)\n"
	    "    (Python) File \"/x/threading.py\", line 1002, in _bootstrap\n"
	    "        self._bootstrap_inner()\n"
	    "      Arguments:\n"
	    "        self: <Thread at 0x7f32b07a9290>\n"
	    "    (C) File \"x.c\", line 57, in f (inlined) (/lib/libc.so.6)\n\n"
	    "Traceback for thread 5644 (python3) [Has the GIL,Garbage collecting] (most recent "
	    "call "
	    "last):\n"
	    "    (Python) File \"/tmp/t.py\", line 17, in <module>\n"
	    "        deep(3)\n"
	    "    (Python) File \"/tmp/t.py\", line 11, in deep\n"
	    "        time.sleep(40)\n",
	    "other rank 0 pid 5644\n"
	    "  python3: f@/lib/libc.so.6 < _bootstrap@/x/threading.py:1002 < "
	    "start_thread@/lib/libc.so.6\n"
	    "  python3 main active gil: Garbage-collecting < deep@/tmp/t.py:11 < "
	    "<module>@/tmp/t.py:17\n");
}

static void other_tools_in_brief(void **state)
{
	(void)state;
	expect_stacks("eu.txt",
		      "PID 1234 - process\nTID 1234:\n"
		      "#0  0x00007f12 pthread_cond_wait - /lib/libc.so.6\n"
		      "#1  0x00007f13 main\nTID 1235:\n#0  0x00007f14 poll\n",
		      "other pid 1234\n  - main: pthread_cond_wait@/lib/libc.so.6 < main\n"
		      "  -: poll\n");
	expect_stacks("threads_rank1.txt",
		      "# ThreadID: 140123\nFile: \"/x/a.py\", line 3, in outer\n"
		      "  run()\nFile: \"/x/a.py\", line 9, in inner\n\n"
		      "# Thread: MainThread(140124)\n"
		      "  File \"/x/t.py\", line 3, in <module>\n    main()\n"
		      "  File \"/x/t.py\", line 9, in main\n",
		      "other rank 1\n  -: inner@/x/a.py:9 < outer@/x/a.py:3\n"
		      "  MainThread(140124) main: main@/x/t.py:9 < <module>@/x/t.py:3\n");
}

static void kernel_stacks_with_their_headings(void **state)
{
	(void)state;
	expect_stacks("proc.txt",
		      "==> /proc/5644/stack <==\n"
		      "[<0>] nfs_wait_bit_killable+0x74/0xf0 [nfs]\n"
		      "[<0>] ? maybe_not+0x1/0x2\n"
		      "[<0>] do_syscall_64+0x71/0x280\n\n"
		      "/proc/5650/task/5651/stack:\n"
		      "[<ffffffff81>] futex_wait+0x46/0x90\n"
		      "task:python3         state:D stack:0     pid:77 ppid:1      flags:0x0\n"
		      "Call Trace:\n <TASK>\n __schedule+0x2e4/0x8f0\n io_schedule+0x42/0x70\n",
		      "kernel pid 5644\n  - main: nfs_wait_bit_killable@nfs < do_syscall_64\n"
		      "kernel pid 5650\n  - main: futex_wait\n"
		      "kernel pid 77\n  python3 main: __schedule < io_schedule\n");
	expect_stacks("kstack_rank6_pid_41.txt", "[<0>] hrtimer_nanosleep+0x74/0xf0\n",
		      "kernel rank 6 pid 41\n  - main: hrtimer_nanosleep\n");
}

static void json_reads_as_the_text_does(void **state)
{
	static const char text[] =
	    "[{\"pid\": 5644, \"thread_id\": 139, \"thread_name\": \"lo\\u00e4der\", "
	    "\"os_thread_id\": 5687, \"active\": false, \"owns_gil\": false, \"frames\": ["
	    "{\"name\": \"Queue.get\", \"filename\": \"/x/queue.py\", \"short_filename\": "
	    "\"queue.py\", \"line\": 171, \"locals\": [{\"name\": \"a\", \"line\": 3}]}]},\n"
	    "{\"pid\": 5644, \"thread_id\": 140, \"thread_name\": null, \"os_thread_id\": 5644, "
	    "\"active\": true, \"owns_gil\": true, \"frames\": ["
	    "{\"name\": \"deep\", \"filename\": \"/x/t.py\", \"short_filename\": null, \"line\": "
	    "0},"
	    "{\"name\": \"f\", \"filename\": \"/x/t.py\", \"short_filename\": \"t.py\", \"line\": "
	    "2}]}]\n"
	    "[{\"pid\": 5686, \"thread_name\": \"MainThread\", \"os_thread_id\": 5686, \"active\": "
	    "false, \"owns_gil\": false, \"frames\": []}]";

	(void)state;
	expect_stacks("py-spy-rank_3.json", text,
		      "py-spy rank 3 pid 5644\n  lo\u00e4der: Queue.get@queue.py:171\n"
		      "  - main active gil: deep@/x/t.py < f@t.py:2\n"
		      "py-spy pid 5686\n  MainThread main: \n");
}

static void damaged_json_gives_its_whole_threads(void **state)
{
	static const char text[] =
	    "[{\"pid\": 1, \"thread_id\": 2, \"frames\": [{\"name\": \"f\", \"line\": 1}]}, 7,\n"
	    "{\"pid\": 1, \"thread_id\": 2, \"owns_gil\": false, \"frames\": [{\"name\": \"g";
	struct stack_told k = stack_told_of("a.json", text);
	_cleanup_free_ char *lines = NULL;

	(void)state;
	assert_int_equal(k.status, 0);
	lines = stack_lines_of(k.t);
	assert_string_equal(lines, "py-spy pid 1\n  -: f:1\n");
	assert_int_equal(k.stats.skipped[SKIP_TRUNCATED], 1);
	assert_int_equal(k.stats.skipped[SKIP_MALFORMED], 1);
	stack_told_done(&k);
}

static void ranks_hosts_and_processes_in_names(void **state)
{
	static const struct {
		const char *path;
		int64_t rank, local_rank, pid;
		const char *host;
	} rows[] = {
		{ "x/pyspy_rank3.txt", 3, -1, -1, "" },
		{ "x/rank12.txt", 12, -1, -1, "" },
		{ "py-spy-rank_3.json", 3, -1, -1, "" },
		{ "node7/rank-4.native.txt", 4, -1, -1, "node7" },
		{ "x/host_trainer-b/rank3/pyspy.txt", 3, -1, -1, "trainer-b" },
		{ "/node9/a/b/c/pyspy_rank1.txt", 1, -1, -1, "" },
		{ "x/py-spy/n0004/rank_7.txt", 7, -1, -1, "n0004" },
		{ "stack_gpu-h01_rank0.txt", 0, -1, -1, "gpu-h01" },
		{ "node-07_pid123.txt", -1, -1, 123, "node-07" },
		{ "stacks/dgx12.pid_99.stack", -1, -1, 99, "dgx12" },
		{ "gpu5.txt", -1, 5, -1, "" },
		{ "host3_gpu5.txt", -1, 5, -1, "host3" },
		{ "local_rank_2.txt", -1, 2, -1, "" },
		{ "11714.txt", -1, -1, -1, "" },
		{ "stacks.txt", -1, -1, -1, "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct stack_name n = stack_name_of(rows[i].path);
		_cleanup_free_ char *host = strndup(n.host ? n.host : "", n.host_len);

		if (n.rank != rows[i].rank || n.local_rank != rows[i].local_rank ||
		    n.pid != rows[i].pid)
			fail_msg("%s: rank %" PRId64 ", local %" PRId64 ", pid %" PRId64,
				 rows[i].path, n.rank, n.local_rank, n.pid);
		assert_string_equal(host, rows[i].host);
	}
}

static void logs_and_tracebacks_are_no_stacks(void **state)
{
	static const char *const texts[] = {
		"",
		"hello\nworld\n",
		"step 1 loss 2.3 (train.py:12)\nstep 2 loss 2.2 (train.py:12)\n",
		/* An exception is the log's. */
		("Traceback (most recent call last):\n  File \"t.py\", line 3, in <module>\n"
		 "    main()\n  File \"t.py\", line 9, in main\n    x()\nValueError: bad\n"),
		"#0 all_reduce from /x/distributed_c10d.py:2963\n#1 f from x.py:1\n",
		"rank 3: loss 2.0\nrank 4: loss 2.1\n",
		/* PyTorch's desync report counts collectives as gdb counts frames. */
		"  - Snapshot of ranks' latest states:\n   #182 finished ranks:\n   #315 started "
		"ranks:\n",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (stack_sniff(texts[i], strlen(texts[i]), "train.log"))
			fail_msg("taken for stacks: %s", texts[i]);
}

/* A log with a dump in its middle stays a log; its stacks come out by the lines' own door. */
static void stacks_inside_a_log(void **state)
{
	static const char *const log[] = {
		"step 1 loss 2.3",
		"Process 3: loaded the index",
		"Fatal Python error: Aborted",
		"",
		"Thread 0x00007f32 (most recent call first):",
		"  File \"/x/threading.py\", line 327 in wait",
		"",
		"Current thread 0x00007f33 (most recent call first):",
		"  File \"/x/t.py\", line 11 in deep",
		"step 2 loss 2.2",
		"  File \"/x/t.py\", line 12 in not_of_a_stack",
	};
	static const bool taken[] = { false, false, false, false, true, true,
				      true,  true,  true,  false, false };
	struct testimony *t = testimony_new(WITNESS_LOG, "log");
	struct stack_lines *s = stack_lines_new(t, false);
	struct stack_speaker from = stack_speaker_unknown();
	_cleanup_free_ char *lines = NULL;

	(void)state;
	from.rank = 5;
	for (size_t i = 0; i < ARRAY_SIZE(log); i++) {
		size_t len = strlen(log[i]);
		bool got = (stack_lines_open(s) || stack_word_begins(log[i], len)) &&
			   stack_lines_take(s, &from, log[i], len);

		if (got != taken[i])
			fail_msg("line %zu: %d: %s", i + 1, got, log[i]);
	}
	stack_lines_free(s);
	lines = stack_lines_of(t);
	assert_string_equal(lines, "faulthandler rank 5\n  -: wait@/x/threading.py:327\n"
				   "  - main active gil: deep@/x/t.py:11\n");
	testimony_free(t);
}

static void bad_input_gives_an_answer_or_a_word(void **state)
{
	size_t len = 3 << 20;
	_cleanup_free_ char *text = xmalloc(len + 1);
	struct stack_told k;

	(void)state;
	/* One endless line, then a stack. */
	memset(text, 'x', len);
	text[len] = 0;
	memcpy(text + len - 70, "\nThread 7 (idle): \"MainThread\"\n    f (a.py:1)\n", 46);
	k = stack_told_steps("a.txt", text, len, 0);
	assert_int_equal(k.status, 0);
	assert_int_equal(k.t->frames.n, 1);
	assert_int_equal(k.stats.skipped[SKIP_TOO_LONG], 1);
	stack_told_done(&k);
	/* A coloured line as long as the reader holds. */
	memset(text, 'x', 131071);
	text[5] = '\033';
	text[131071 - 1] = 0;
	strcat(text, "\nThread 7 (idle): \"MainThread\"\n    f (a.py:1)\n");
	k = stack_told_steps("a.txt", text, strlen(text), 0);
	assert_int_equal(k.status, 0);
	assert_int_equal(k.t->frames.n, 1);
	stack_told_done(&k);
	/* A thread that never ends: cut, and counted. */
	len = (size_t)sprintf(text, "Thread 7 (idle): \"MainThread\"\n");
	for (int i = 0; i < 5000; i++)
		len += (size_t)sprintf(text + len, "    f%d (a.py:%d)\n", i, i);
	k = stack_told_steps("a.txt", text, len, 0);
	assert_int_equal(k.status, 0);
	assert_int_equal(k.t->frames.n, 1024);
	assert_int_equal(k.t->dropped, 5000 - 1024);
	stack_told_done(&k);
	k = stack_told_of("a.txt", "nothing of use\n");
	assert_int_equal(k.status, -EBADMSG);
	assert_string_equal(k.error.text, "no stack in it");
	assert_null(k.t);
}

/* --- real dumps --- */

static struct stack_told shared_stacks(const char *name)
{
	const char *shared = getenv("LOCKSTEP_SHARED");
	struct stack_told k = { 0 };
	struct input *in;
	char path[1024];

	snprintf(path, sizeof(path), "%s/data/%s", shared ? shared : "", name);
	if (input_open(path, &in, &k.error) < 0) {
		print_message("skipped: no shared data\n");
		skip();
	}
	k.status = stack_read(in, path, &k.t, &k.stats, &k.error);
	input_free(in);
	assert_int_equal(k.status, 0);
	return k;
}

static void the_chronicles_have_one_process_in_its_loader(void **state)
{
	struct stack_told k = shared_stacks("stacks/bigscience_chronicles.stacks.txt");
	unsigned in_loader = 0, in_broadcast = 0;

	(void)state;
	assert_int_equal(k.t->stacks.n, 17);
	for (size_t i = 0; i < k.t->stacks.n; i++) {
		const struct process_stack *p = &k.t->stacks.v[i];
		const struct thread_stack *th = &k.t->threads.v[p->thread];
		const char *first = intern_get(&k.t->names, k.t->frames.v[th->frame].function);

		assert_int_equal(p->n_threads, 1);
		assert_true(th->main);
		in_loader += !strcmp(first, "wait") && p->pid == 688514;
		in_broadcast += !strcmp(first, "broadcast");
	}
	assert_int_equal(in_loader, 1);
	assert_int_equal(in_broadcast, 7);
	stack_told_done(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(py_spy_of_all_versions),
		cmocka_unit_test(locals_are_no_frames),
		cmocka_unit_test(children_of_a_rank_are_not_the_rank),
		cmocka_unit_test(headers_above_one_stack_are_so_many_processes),
		cmocka_unit_test(headings_say_whose_stacks_follow),
		cmocka_unit_test(prefixed_lines_of_many_speakers_are_kept_apart),
		cmocka_unit_test(colours_marks_and_stamps_are_no_part_of_it),
		cmocka_unit_test(faulthandler_lists_the_main_thread_last),
		cmocka_unit_test(a_fatal_error_is_said_beside_its_stack),
		cmocka_unit_test(gdb_with_and_without_threads),
		cmocka_unit_test(pystack_turned_to_innermost_first),
		cmocka_unit_test(other_tools_in_brief),
		cmocka_unit_test(kernel_stacks_with_their_headings),
		cmocka_unit_test(json_reads_as_the_text_does),
		cmocka_unit_test(damaged_json_gives_its_whole_threads),
		cmocka_unit_test(ranks_hosts_and_processes_in_names),
		cmocka_unit_test(logs_and_tracebacks_are_no_stacks),
		cmocka_unit_test(stacks_inside_a_log),
		cmocka_unit_test(bad_input_gives_an_answer_or_a_word),
		cmocka_unit_test(the_chronicles_have_one_process_in_its_loader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
