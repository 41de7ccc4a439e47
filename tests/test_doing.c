/* SPDX-License-Identifier: Apache-2.0 */
/* test_doing.c - what a stack is doing, from stacks as they were seen and as they may come. */
#include "stack_helpers.h"

#include "model/doing.h"

/* frames: "f (a.py:1)|g (b.py:2)", innermost first. */
static struct doing_found doing_of_text(struct intern *names, const char *frames)
{
	VEC(struct frame) v = { 0 };
	struct doing_found f;

	for (const char *p = frames; *p;) {
		size_t len = strcspn(p, "|");
		const char *open = memmem(p, len, " (", 2), *colon = NULL;
		struct frame frame = { NO_ID, NO_ID, -1 };

		if (open) {
			size_t rest = (size_t)(p + len - 1 - (open + 2));

			colon = memchr(open + 2, ':', rest);
			frame.file =
			    intern(names, open + 2, colon ? (size_t)(colon - open - 2) : rest);
			if (colon)
				frame.line = atoi(colon + 1);
		}
		frame.function = intern(names, p, open ? (size_t)(open - p) : len);
		*vec_push(&v) = frame;
		p += len + (p[len] == '|');
	}
	f = doing_of(names, v.v, v.n);
	free(v.v);
	return f;
}

static const struct {
	const char *frames;
	enum doing doing;
	enum comm_op op;
	enum doing inside;
} rows[] = {
	/* collectives, under their wrappers, in the forms of several libraries */
	{ "all_reduce (torch/distributed/distributed_c10d.py:3252)|"
	  "_exception_logger.<locals>.wrapper (torch/distributed/c10d_logger.py:83)|"
	  "main (train.py:24)|<module> (train.py:30)",
	  DOING_COLLECTIVE, COMM_ALL_REDUCE, DOING_UNKNOWN },
	{ "barrier (torch/distributed/distributed_c10d.py:5356)|"
	  "wrapper (torch/distributed/c10d_logger.py:83)|save_checkpoint (pretrain.py:35)",
	  DOING_COLLECTIVE, COMM_BARRIER, DOING_CHECKPOINT },
	{ "all_gather_into_tensor (/opt/lib/python3.11/site-packages/torch/distributed/"
	  "distributed_c10d.py:1)|f (train.py:1)",
	  DOING_COLLECTIVE, COMM_ALL_GATHER, DOING_UNKNOWN },
	{ "all_gather_object (torch/distributed/distributed_c10d.py:1)|evaluate (train.py:1)",
	  DOING_COLLECTIVE, COMM_ALL_GATHER, DOING_EVALUATION },
	{ "monitored_barrier (torch/distributed/distributed_c10d.py:1)", DOING_COLLECTIVE,
	  COMM_BARRIER, DOING_UNKNOWN },
	{ "batch_isend_irecv (torch/distributed/distributed_c10d.py:1)", DOING_COLLECTIVE,
	  COMM_SEND_RECV, DOING_UNKNOWN },
	{ "recv (torch/distributed/distributed_c10d.py:1002)|recv "
	  "(deepspeed/runtime/pipe/p2p.py:83)",
	  DOING_COLLECTIVE, COMM_RECV, DOING_UNKNOWN },
	{ "_communicate (megatron/core/pipeline_parallel/p2p_communication.py:9)", DOING_COLLECTIVE,
	  COMM_SEND_RECV, DOING_UNKNOWN },
	{ "wait_tensor (torch/distributed/_functional_collectives.py:1)|f (train.py:1)",
	  DOING_COLLECTIVE, COMM_OTHER, DOING_UNKNOWN },
	{ "_unshard (torch/distributed/fsdp/_runtime_utils.py:305)|"
	  "FullyShardedDataParallel.forward "
	  "(torch/distributed/fsdp/fully_sharded_data_parallel.py:1)",
	  DOING_COLLECTIVE, COMM_ALL_GATHER, DOING_UNKNOWN },
	{ "wait_for_everyone (accelerate/state.py:3)", DOING_COLLECTIVE, COMM_BARRIER,
	  DOING_UNKNOWN },
	/* native: the operation stands further out */
	{ "pthread_cond_wait (libc.so.6)|std::condition_variable::wait (libstdc++.so.6)|"
	  "c10d::Work::wait (libtorch_cpu.so)|pybind11::cpp_function::dispatcher "
	  "(libtorch_python.so)|"
	  "broadcast (torch/distributed/distributed_c10d.py:5)|get_batch (x.py:3)",
	  DOING_COLLECTIVE, COMM_BROADCAST, DOING_DATA },
	{ "pthread_cond_wait (libc.so.6)|c10d::Reducer::finalize_backward (libtorch_cpu.so)|"
	  "torch::autograd::Engine::thread_main (libtorch_cpu.so)|"
	  "_engine_run_backward (torch/autograd/graph.py:979)",
	  DOING_COLLECTIVE, COMM_ALL_REDUCE, DOING_UNKNOWN },
	{ "poll|ncclGroupEndInternal (libnccl.so.2)|f (a.py:1)", DOING_COLLECTIVE, COMM_OTHER,
	  DOING_UNKNOWN },
	{ "sched_yield|MPI_Allreduce (libmpi.so)", DOING_COLLECTIVE, COMM_ALL_REDUCE,
	  DOING_UNKNOWN },
	/* a backward pass hides its collectives */
	{ "_engine_run_backward (torch/autograd/graph.py:979)|backward "
	  "(torch/autograd/__init__.py:1)|"
	  "Tensor.backward (torch/_tensor.py:623)|main (train.py:19)",
	  DOING_BACKWARD, COMM_NONE, DOING_UNKNOWN },
	{ "backward (torch/autograd/__init__.py:145)|backward (torch/tensor.py:221)|x (train.py:1)",
	  DOING_BACKWARD, COMM_NONE, DOING_UNKNOWN },
	/* the GPU */
	{ "synchronize (torch/cuda/__init__.py:566)|f (megatron/timers.py:3)", DOING_GPU_WAIT,
	  COMM_NONE, DOING_UNKNOWN },
	{ "sched_yield|libcuda_x (libcuda.so.1)|cudaStreamSynchronize (libcudart.so.12)|"
	  "step (train.py:9)",
	  DOING_GPU_WAIT, COMM_NONE, DOING_UNKNOWN },
	{ "os_wait|uvm_va_block_migrate|do_syscall_64", DOING_GPU_WAIT, COMM_NONE, DOING_UNKNOWN },
	/* data */
	{ "wait (threading.py:306)|get (queue.py:179)|"
	  "_try_get_data (torch/utils/data/dataloader.py:1011)|"
	  "_next_batch (deepspeed/runtime/pipe/engine.py:627)|eval_batch (engine.py:449)",
	  DOING_DATA, COMM_NONE, DOING_EVALUATION },
	{ "Condition.wait (threading.py:302)|Queue.get (queue.py:170)|"
	  "__next__ (seqtrain/data/iterators.py:648)|main (seqtrain_cli/train.py:165)",
	  DOING_DATA, COMM_NONE, DOING_UNKNOWN },
	{ "open64 (libc.so.6)|TokenShards.__iter__ (data.py:36)|"
	  "_IterableDatasetFetcher.fetch (torch/utils/data/_utils/fetch.py:35)|main (train.py:17)",
	  DOING_DATA, COMM_NONE, DOING_UNKNOWN },
	{ "f (my_dataset.py:3)|train (train.py:1)", DOING_DATA, COMM_NONE, DOING_UNKNOWN },
	/* a save: in it, and in what it waits for */
	{ "write (libc.so.6)|_save (torch/serialization.py:1312)|save "
	  "(torch/serialization.py:1003)|"
	  "save_checkpoint (train.py:14)",
	  DOING_CHECKPOINT, COMM_NONE, DOING_UNKNOWN },
	{ "save_file (safetensors/torch.py:2)|f (x.py:1)", DOING_CHECKPOINT, COMM_NONE,
	  DOING_UNKNOWN },
	{ "copyfileobj (shutil.py:195)|save_checkpoint (train.py:14)", DOING_CHECKPOINT, COMM_NONE,
	  DOING_UNKNOWN },
	{ "save_state_dict (torch/distributed/checkpoint/state_dict_saver.py:3)", DOING_CHECKPOINT,
	  COMM_NONE, DOING_UNKNOWN },
	/* Python's own business */
	{ "Garbage-collecting|f (train.py:3)", DOING_GC, COMM_NONE, DOING_UNKNOWN },
	{ "visit_decref|gc_collect_main (libpython3.11.so.1.0)|f (train.py:3)", DOING_GC, COMM_NONE,
	  DOING_UNKNOWN },
	{ "_shutdown (threading.py:1100)", DOING_EXIT, COMM_NONE, DOING_UNKNOWN },
	{ "destroy_process_group (torch/distributed/distributed_c10d.py:1)|main (t.py:1)",
	  DOING_EXIT, COMM_NONE, DOING_UNKNOWN },
	{ "readline|interaction (pdb.py:357)|set_trace (pdb.py:1)|f (t.py:1)", DOING_DEBUGGER,
	  COMM_NONE, DOING_UNKNOWN },
	{ "print_exception (traceback.py:120)|main (t.py:3)", DOING_EXCEPTION, COMM_NONE,
	  DOING_UNKNOWN },
	/* compilers; what every compiled call passes is none */
	{ "Popen.wait (subprocess.py:1)|ptxas_compile (triton/backends/nvidia/compiler.py:3)|"
	  "_do_compile (triton/runtime/jit.py:3)|forward (model.py:1)",
	  DOING_COMPILE, COMM_NONE, DOING_UNKNOWN },
	{ "compile_fx_inner (torch/_inductor/compile_fx.py:1)|"
	  "_compile (torch/_dynamo/convert_frame.py:1)|_fn (torch/_dynamo/eval_frame.py:1)",
	  DOING_COMPILE, COMM_NONE, DOING_UNKNOWN },
	{ "wait (torch/utils/file_baton.py:49)|_jit_compile (torch/utils/cpp_extension.py:1)",
	  DOING_COMPILE, COMM_NONE, DOING_UNKNOWN },
	{ "linear (torch/nn/functional.py:3)|_fn (torch/_dynamo/eval_frame.py:1)|f (train.py:1)",
	  DOING_MODEL, COMM_NONE, DOING_UNKNOWN },
	/* the start */
	{ "_store_based_barrier (torch/distributed/distributed_c10d.py:1)|"
	  "init_process_group (torch/distributed/distributed_c10d.py:1)",
	  DOING_RENDEZVOUS, COMM_NONE, DOING_UNKNOWN },
	{ "poll|c10d::TCPStore::wait (libtorch_cpu.so)|f (x.py:1)", DOING_RENDEZVOUS, COMM_NONE,
	  DOING_UNKNOWN },
	{ "ncclCommInitRankConfig (libnccl.so.2)|all_reduce (torch/distributed/"
	  "distributed_c10d.py:1)",
	  DOING_RENDEZVOUS, COMM_NONE, DOING_UNKNOWN },
	/* waits for elsewhere, and for nothing that is known */
	{ "recv_into (socket.py:1)|urlopen (urllib/request.py:3)|f (train.py:1)", DOING_SERVICE,
	  COMM_NONE, DOING_UNKNOWN },
	{ "wait (threading.py:306)|wait (threading.py:600)|main (train.py:1)", DOING_LOCK,
	  COMM_NONE, DOING_UNKNOWN },
	{ "_wait (subprocess.py:1)|run (subprocess.py:1)|main (train.py:1)", DOING_SUBPROCESS,
	  COMM_NONE, DOING_UNKNOWN },
	{ "clock_nanosleep (libc.so.6)|time_sleep (libpython3.11.so.1.0)|f (t.py:11)", DOING_SLEEP,
	  COMM_NONE, DOING_UNKNOWN },
	/* the kernel */
	{ "rpc_wait_bit_killable|nfs4_run_open_task|do_syscall_64", DOING_STORAGE, COMM_NONE,
	  DOING_UNKNOWN },
	{ "do_swap_page|handle_mm_fault", DOING_MEMORY, COMM_NONE, DOING_UNKNOWN },
	{ "futex_wait|do_futex|do_syscall_64", DOING_LOCK, COMM_NONE, DOING_UNKNOWN },
	{ "schedule|do_exit|do_group_exit", DOING_EXIT, COMM_NONE, DOING_UNKNOWN },
	/* code of the program's own */
	{ "plan_tiles (train.py:20)|main (train.py:39)|<module> (train.py:50)", DOING_PYTHON,
	  COMM_NONE, DOING_UNKNOWN },
	{ "plan (tools.py:20)|evaluate (train.py:39)", DOING_EVALUATION, COMM_NONE, DOING_UNKNOWN },
	{ "forward (model.py:118)|_call_impl (torch/nn/modules/module.py:1750)|step (train.py:110)",
	  DOING_MODEL, COMM_NONE, DOING_UNKNOWN },
	{ "route (moe.py:18)|forward (model.py:118)|_call_impl (torch/nn/modules/module.py:1750)",
	  DOING_PYTHON, COMM_NONE, DOING_MODEL },
	{ "clip_grad_norm_ (torch/nn/utils/clip_grad.py:3)|step (train.py:110)", DOING_GPU_WAIT,
	  COMM_NONE, DOING_UNKNOWN },
	{ "all_reduce (torch/distributed/distributed_c10d.py:3)|clip_grad_norm_ (train.py:110)",
	  DOING_COLLECTIVE, COMM_ALL_REDUCE, DOING_UNKNOWN },
	{ "_coalescing_manager (torch/distributed/distributed_c10d.py:3)|f (train.py:110)",
	  DOING_COLLECTIVE, COMM_OTHER, DOING_UNKNOWN },
	{ "sleep (notify.py:20)|report (notify.py:44)|except_hook (train.py:241)", DOING_EXCEPTION,
	  COMM_NONE, DOING_UNKNOWN },
	{ "stat (pathlib.py:1013)|newest_checkpoint (checkpoint.py:22)|main (train.py:3)",
	  DOING_STORAGE, COMM_NONE, DOING_UNKNOWN },
	/* a program that lies in a folder with a telling name */
	{ "f (/mnt/datasets/me/train.py:20)|main (/mnt/datasets/me/train.py:3)", DOING_PYTHON,
	  COMM_NONE, DOING_UNKNOWN },
	{ "forward (torch/utils/checkpoint.py:3)|f (train.py:3)", DOING_MODEL, COMM_NONE,
	  DOING_UNKNOWN },
	/* no ranks */
	{ "get (queue.py:1)|_worker_loop (torch/utils/data/_utils/worker.py:1)|"
	  "BaseProcess.run (multiprocessing/process.py:108)|"
	  "BaseProcess._bootstrap (multiprocessing/process.py:314)|"
	  "_launch (multiprocessing/popen_fork.py:71)|"
	  "__init__ (torch/utils/data/dataloader.py:1)|main (train.py:3)",
	  DOING_WORKER, COMM_NONE, DOING_UNKNOWN },
	{ "sleep|_invoke_run (torch/distributed/elastic/agent/server/api.py:870)|"
	  "launch_agent (torch/distributed/launcher/api.py:1)|main (torch/distributed/run.py:1)",
	  DOING_LAUNCHER, COMM_NONE, DOING_UNKNOWN },
	/* but a rank that its launcher forked is one */
	{ "barrier (torch/distributed/distributed_c10d.py:1)|f (train.py:1)|"
	  "BaseProcess._bootstrap (multiprocessing/process.py:314)|"
	  "start_processes (torch/multiprocessing/spawn.py:3)|join "
	  "(torch/multiprocessing/spawn.py:1)",
	  DOING_COLLECTIVE, COMM_BARRIER, DOING_UNKNOWN },
	{ "", DOING_UNKNOWN, COMM_NONE, DOING_UNKNOWN },
	{ "0x7f", DOING_UNKNOWN, COMM_NONE, DOING_UNKNOWN },
};

static void the_innermost_known_call_tells(void **state)
{
	unsigned wrong = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct intern names = { 0 };
		struct doing_found f = doing_of_text(&names, rows[i].frames);

		if (f.doing != rows[i].doing || f.op != rows[i].op || f.inside != rows[i].inside) {
			print_error("%s, %s, in %s, not %s, %s, in %s: %s\n", doing_name(f.doing),
				    comm_op_name(f.op), doing_name(f.inside),
				    doing_name(rows[i].doing), comm_op_name(rows[i].op),
				    doing_name(rows[i].inside), rows[i].frames);
			wrong++;
		}
		assert_non_null(f.words);
		intern_done(&names);
	}
	assert_int_equal(wrong, 0);
}

static void words_name_the_users_own_call(void **state)
{
	struct intern names = { 0 };
	struct doing_found f;
	char buf[128], tiny[9];

	(void)state;
	f = doing_of_text(&names, "barrier (torch/distributed/distributed_c10d.py:5356)|"
				  "save_checkpoint (pretrain.py:35)|main (pretrain.py:40)");
	assert_string_equal(doing_text(&f, &names, buf, sizeof(buf)),
			    "in a collective (barrier), in a checkpoint: save_checkpoint "
			    "(pretrain.py:35)");
	assert_string_equal(doing_text(&f, &names, tiny, sizeof(tiny)), "in a col");
	f = doing_of_text(&names, "wait (threading.py:306)|get (queue.py:1)|"
				  "_next_data (torch/utils/data/dataloader.py:1)|train (t.py:3)");
	assert_string_equal(doing_text(&f, &names, buf, sizeof(buf)),
			    "in the data loader: train (t.py:3)");
	intern_done(&names);
}

static struct doing_found doing_of_dump(const char *text)
{
	struct stack_told k = stack_told_of("a.txt", text);
	struct doing_found f;

	assert_int_equal(k.status, 0);
	f = doing_of_process(k.t, &k.t->stacks.v[0]);
	stack_told_done(&k);
	return f;
}

static void autograds_threads_speak_for_a_backward_pass(void **state)
{
	static const char text[] =
	    "Process 7: python t.py\n"
	    "Thread 7 (idle): \"MainThread\"\n"
	    "    _engine_run_backward (torch/autograd/graph.py:979)\n    main (t.py:1)\n"
	    "Thread 9 (idle): \"wandb\"\n    all_reduce (torch/distributed/distributed_c10d.py:1)\n"
	    "Thread 8 (active): \"Dummy-1\"\n"
	    "    reduce_scatter (torch/distributed/distributed_c10d.py:1)\n"
	    "    backward (layers.py:3)\n    apply (torch/autograd/function.py:1)\n";
	struct doing_found f = doing_of_dump(text);

	(void)state;
	assert_int_equal(f.doing, DOING_COLLECTIVE);
	assert_int_equal(f.op, COMM_REDUCE_SCATTER);
	assert_int_equal(f.inside, DOING_BACKWARD);
}

static void code_that_does_not_run_is_said_to_block(void **state)
{
	(void)state;
	assert_true(doing_of_dump("Thread 7 (idle): \"MainThread\"\n    f (t.py:1)\n").off_cpu);
	assert_false(doing_of_dump("Thread 7 (active): \"MainThread\"\n    f (t.py:1)\n").off_cpu);
	/* faulthandler does not say. */
	assert_false(doing_of_dump("Thread 0x7f (most recent call first):\n"
				   "  File \"t.py\", line 1 in f\n")
			 .off_cpu);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_innermost_known_call_tells),
		cmocka_unit_test(words_name_the_users_own_call),
		cmocka_unit_test(autograds_threads_speak_for_a_backward_pass),
		cmocka_unit_test(code_that_does_not_run_is_said_to_block),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
