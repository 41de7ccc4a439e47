/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doing.c - the table of known frames, and the walk from the innermost frame outwards.
 *
 * A row names a function and a part of a path. A Python function is compared by the last part of
 * its qualified name, since py-spy writes "Queue.get" from Python 3.11 on and "get" before; a
 * native one by whether its name holds the row's. Rows are tried in their order.
 */
#include "model/doing.h"

#include <stdarg.h>
#include <stdio.h>

enum row_kind {
	ROW_TELLS, /* this is what the thread is doing */
	ROW_WAITS, /* a generic wait: what it waits for stands further out */
	ROW_SKIPS, /* a wrapper: says nothing */
};

struct row {
	const char *function; /* NULL: any; "x*" begins with; "*x*" holds */
	const char *file;     /* part of the path, from the start of a name in it; NULL: any */
	enum doing doing;
	enum row_kind kind;
	enum comm_op op;
	const char *words; /* NULL: the usual ones */
};

#define TELLS(f, p, d)                                                                             \
	{                                                                                          \
		f, p, d, ROW_TELLS, COMM_NONE, NULL                                                \
	}
#define SAYS(f, p, d, w)                                                                           \
	{                                                                                          \
		f, p, d, ROW_TELLS, COMM_NONE, w                                                   \
	}
#define COLLECTIVE(f, p, o)                                                                        \
	{                                                                                          \
		f, p, DOING_COLLECTIVE, ROW_TELLS, o, NULL                                         \
	}
#define WAITS(f, p, d)                                                                             \
	{                                                                                          \
		f, p, d, ROW_WAITS, COMM_NONE, NULL                                                \
	}
#define SKIPS(f, p)                                                                                \
	{                                                                                          \
		f, p, DOING_UNKNOWN, ROW_SKIPS, COMM_NONE, NULL                                    \
	}

/* Processes that are no rank; looked for in the whole stack first. */
static const struct row no_rank_rows[] = {
	SAYS("_worker_loop", "torch/utils/data/_utils/worker.py", DOING_WORKER,
	     "a worker process of the data loader"),
	SAYS("_pin_memory_loop", NULL, DOING_WORKER, "a thread of the data loader"),
	SAYS(NULL, "torch/_inductor/compile_worker/", DOING_WORKER, "a worker of the compiler"),
	SAYS("_async_compile_initializer", NULL, DOING_WORKER, "a worker of the compiler"),
	SAYS("_process_worker", "concurrent/futures/process.py", DOING_WORKER,
	     "a worker of a process pool"),
	SAYS("worker", "multiprocessing/pool.py", DOING_WORKER, "a worker of a process pool"),
	SAYS("main", "multiprocessing/resource_tracker.py", DOING_WORKER,
	     "a helper of multiprocessing"),
	SAYS("main", "multiprocessing/forkserver.py", DOING_WORKER, "a helper of multiprocessing"),
	TELLS(NULL, "torch/distributed/elastic/agent/", DOING_LAUNCHER),
	TELLS(NULL, "torch/distributed/launcher/", DOING_LAUNCHER),
	TELLS("launch_agent", NULL, DOING_LAUNCHER),
	TELLS("main", "deepspeed/launcher/", DOING_LAUNCHER),
	TELLS(NULL, "accelerate/commands/launch.py", DOING_LAUNCHER),
	TELLS("join", "torch/multiprocessing/spawn.py", DOING_LAUNCHER),
	TELLS("start_processes", "torch/multiprocessing/spawn.py", DOING_LAUNCHER),
};

/* Python frames. */
static const struct row python_rows[] = {
	/* wrappers */
	SKIPS("wrapper", "torch/distributed/c10d_logger.py"),
	SKIPS("*wrapper", "torch/distributed/elastic/multiprocessing/errors/"),
	SKIPS("decorate_context", NULL),
	SKIPS("_call_impl", NULL),
	SKIPS("_wrapped_call_impl", NULL),

	/* the group's setting up and end */
	TELLS("destroy_process_group", NULL, DOING_EXIT),
	TELLS("_shutdown_backend", NULL, DOING_EXIT),
	TELLS("init_process_group", NULL, DOING_RENDEZVOUS),
	TELLS("_store_based_barrier", NULL, DOING_RENDEZVOUS),
	TELLS("new_group", "torch/distributed/distributed_c10d.py", DOING_RENDEZVOUS),
	TELLS("_new_group_with_tag", NULL, DOING_RENDEZVOUS),
	TELLS("new_subgroups*", NULL, DOING_RENDEZVOUS),
	TELLS("split_group", NULL, DOING_RENDEZVOUS),
	TELLS("_new_process_group_helper", NULL, DOING_RENDEZVOUS),
	TELLS(NULL, "torch/distributed/rendezvous.py", DOING_RENDEZVOUS),
	TELLS(NULL, "torch/distributed/elastic/rendezvous/", DOING_RENDEZVOUS),
	TELLS(NULL, "torch/distributed/elastic/utils/store.py", DOING_RENDEZVOUS),
	TELLS("init_distributed", NULL, DOING_RENDEZVOUS),

	/* collectives */
	COLLECTIVE("_get_op_handle", NULL, COMM_OTHER),
	COLLECTIVE("monitored_barrier", NULL, COMM_BARRIER),
	COLLECTIVE("batch_isend_irecv", NULL, COMM_SEND_RECV),
	COLLECTIVE("isend", "torch/distributed/", COMM_SEND),
	COLLECTIVE("irecv", "torch/distributed/", COMM_RECV),
	COLLECTIVE("*gather_object", "torch/distributed/", COMM_ALL_GATHER),
	COLLECTIVE("broadcast_object_list", "torch/distributed/", COMM_BROADCAST),
	COLLECTIVE("scatter_object_list", "torch/distributed/", COMM_SCATTER),
	COLLECTIVE("send_object_list", "torch/distributed/", COMM_SEND),
	COLLECTIVE("recv_object_list", "torch/distributed/", COMM_RECV),
	COLLECTIVE("*", "torch/distributed/distributed_c10d.py", COMM_NONE), /* by its name */
	COLLECTIVE("wait_tensor", NULL, COMM_OTHER),
	COLLECTIVE("*", "torch/distributed/_functional_collectives", COMM_NONE),
	COLLECTIVE("*", "torch/distributed/nn/functional.py", COMM_NONE),
	COLLECTIVE("*", "torch/cuda/nccl.py", COMM_NONE),
	COLLECTIVE("*", "deepspeed/comm/", COMM_NONE),
	COLLECTIVE("*", "colossalai/communication/", COMM_NONE),
	COLLECTIVE("synchronize", "horovod/", COMM_OTHER),
	COLLECTIVE("*", "horovod/", COMM_NONE),
	COLLECTIVE("*", "bagua/torch_api/communication.py", COMM_NONE),
	COLLECTIVE("*", "oneccl_bindings_for_pytorch/", COMM_NONE),
	COLLECTIVE("*", "jax/_src/lax/parallel.py", COMM_NONE),
	COLLECTIVE("sync_global_devices", NULL, COMM_BARRIER),
	COLLECTIVE("process_allgather", NULL, COMM_ALL_GATHER),
	COLLECTIVE("wait_for_everyone", NULL, COMM_BARRIER),
	COLLECTIVE("recv", "deepspeed/runtime/pipe/p2p.py", COMM_RECV),
	COLLECTIVE("send", "deepspeed/runtime/pipe/p2p.py", COMM_SEND),
	COLLECTIVE("wait", "deepspeed/runtime/pipe/p2p.py", COMM_SEND_RECV),
	COLLECTIVE("_communicate", "pipeline_parallel/p2p_communication.py", COMM_SEND_RECV),
	COLLECTIVE("_p2p_ops", "p2p_communication.py", COMM_SEND_RECV),
	COLLECTIVE("_wait_batch_p2p", "torch/distributed/pipelining/", COMM_SEND_RECV),
	COLLECTIVE("_batch_p2p", "torch/distributed/pipelining/", COMM_SEND_RECV),
	COLLECTIVE("*all_gather*", "torch/distributed/fsdp/", COMM_ALL_GATHER),
	COLLECTIVE("*unshard*", "torch/distributed/fsdp/", COMM_ALL_GATHER),
	COLLECTIVE("*reduce_scatter*", "torch/distributed/fsdp/", COMM_REDUCE_SCATTER),
	COLLECTIVE("*reduce_grad*", "torch/distributed/fsdp/", COMM_REDUCE_SCATTER),
	COLLECTIVE("_sync_module_states", NULL, COMM_BROADCAST),
	COLLECTIVE("_sync_params_and_buffers", NULL, COMM_BROADCAST),
	COLLECTIVE("_verify_param_shape_across_processes", NULL, COMM_ALL_GATHER),
	COLLECTIVE("_sync_buffers", NULL, COMM_BROADCAST),
	COLLECTIVE("*", "torch/distributed/algorithms/join.py", COMM_ALL_REDUCE),

	/* the GPU */
	TELLS("synchronize", "torch/cuda/", DOING_GPU_WAIT),
	TELLS("synchronize", "cuda_accelerator.py", DOING_GPU_WAIT),
	TELLS("_maybe_opt_step", "grad_scaler.py", DOING_GPU_WAIT),
	TELLS("block_until_ready", NULL, DOING_GPU_WAIT),

	/* checkpoints */
	TELLS("*save", "torch/serialization.py", DOING_CHECKPOINT),
	SAYS("*load", "torch/serialization.py", DOING_CHECKPOINT, "loading a checkpoint"),
	SAYS("load*", "torch/distributed/checkpoint/", DOING_CHECKPOINT, "loading a checkpoint"),
	TELLS(NULL, "torch/distributed/checkpoint/", DOING_CHECKPOINT),
	TELLS(NULL, "dist_checkpointing/", DOING_CHECKPOINT),
	TELLS(NULL, "checkpoint_engine", DOING_CHECKPOINT),
	TELLS(NULL, "orbax/", DOING_CHECKPOINT),
	TELLS("save*", "safetensors/", DOING_CHECKPOINT),
	SAYS("load*", "safetensors/", DOING_CHECKPOINT, "loading a checkpoint"),
	TELLS("*save_checkpoint*", NULL, DOING_CHECKPOINT),
	TELLS("*save_ckpt*", NULL, DOING_CHECKPOINT),
	TELLS("save_pretrained", NULL, DOING_CHECKPOINT),
	TELLS("save_model*", NULL, DOING_CHECKPOINT),
	TELLS("_save_model*", NULL, DOING_CHECKPOINT),
	TELLS("save_state", NULL, DOING_CHECKPOINT),
	TELLS("*_save_optimizer*", NULL, DOING_CHECKPOINT),
	SAYS("*load_checkpoint*", NULL, DOING_CHECKPOINT, "loading a checkpoint"),
	SAYS("from_pretrained", NULL, DOING_CHECKPOINT, "loading a model"),

	/* garbage collection; "Garbage-collecting" is faulthandler's own word */
	TELLS("Garbage-collecting", NULL, DOING_GC),
	TELLS("*gc_collect*", NULL, DOING_GC),
	TELLS("run_gc", NULL, DOING_GC),
	TELLS("*_gc_step*", NULL, DOING_GC),

	/* compilers: only what runs while they compile, not what every compiled call passes */
	TELLS(NULL, "torch/_dynamo/convert_frame.py", DOING_COMPILE),
	TELLS(NULL, "torch/_dynamo/symbolic_convert.py", DOING_COMPILE),
	TELLS(NULL, "torch/_dynamo/output_graph.py", DOING_COMPILE),
	TELLS(NULL, "torch/_dynamo/backends/", DOING_COMPILE),
	TELLS("*compile*", "torch/_inductor/compile_fx.py", DOING_COMPILE),
	TELLS(NULL, "torch/_inductor/async_compile.py", DOING_COMPILE),
	TELLS(NULL, "torch/_inductor/graph.py", DOING_COMPILE),
	TELLS(NULL, "torch/_inductor/scheduler.py", DOING_COMPILE),
	TELLS(NULL, "torch/_inductor/codegen/", DOING_COMPILE),
	TELLS(NULL, "torch/_inductor/select_algorithm.py", DOING_COMPILE),
	TELLS(NULL, "torch/_inductor/autotune_process.py", DOING_COMPILE),
	TELLS("*compile*", "torch/_inductor/", DOING_COMPILE),
	TELLS("*autotune*", "torch/_inductor/", DOING_COMPILE),
	TELLS("benchmark*", "torch/_inductor/", DOING_COMPILE),
	TELLS("load", "torch/_inductor/codecache.py", DOING_COMPILE),
	TELLS("aot_*", "torch/_functorch/", DOING_COMPILE),
	TELLS("create_aot*", "torch/_functorch/", DOING_COMPILE),
	TELLS(NULL, "triton/compiler/", DOING_COMPILE),
	TELLS("_do_compile", "triton/", DOING_COMPILE),
	TELLS("compile*", "triton/", DOING_COMPILE),
	TELLS("benchmark", "triton/runtime/autotuner.py", DOING_COMPILE),
	TELLS("_bench", "triton/runtime/autotuner.py", DOING_COMPILE),
	TELLS(NULL, "torch/utils/cpp_extension.py", DOING_COMPILE),
	SAYS("wait", "torch/utils/file_baton.py", DOING_COMPILE,
	     "waiting for the lock of an extension that another process builds"),
	TELLS("*compile*", "jax/_src/", DOING_COMPILE),
	TELLS("*load*", "deepspeed/ops/op_builder/", DOING_COMPILE),
	TELLS("jit_load", NULL, DOING_COMPILE),
	TELLS("*compile*", "megatron/fused_kernels/", DOING_COMPILE),
	TELLS("compile_helpers", NULL, DOING_COMPILE),

	/* data */
	TELLS("*", "torch/utils/data/dataloader.py", DOING_DATA),
	TELLS("*", "torch/utils/data/", DOING_DATA),
	TELLS("*", "torchdata/", DOING_DATA),
	TELLS("*", "webdataset/", DOING_DATA),
	TELLS("*", "litdata/", DOING_DATA),
	TELLS("*", "streaming/base/", DOING_DATA),
	TELLS("*", "nvidia/dali/", DOING_DATA),
	TELLS("*", "petastorm/", DOING_DATA),
	TELLS("*", "tensorflow_datasets/", DOING_DATA),
	TELLS("*", "grain/_src/", DOING_DATA),
	TELLS("*", "ffcv/loader/", DOING_DATA),
	TELLS("*", "datasets/arrow_dataset.py", DOING_DATA),
	TELLS("*", "datasets/iterable_dataset.py", DOING_DATA),
	TELLS("*", "datasets/builder.py", DOING_DATA),
	TELLS("*", "datasets/load.py", DOING_DATA),
	TELLS("*", "datasets/data_files.py", DOING_DATA),
	TELLS("*", "core/datasets/", DOING_DATA),
	TELLS("*", "megatron/data/", DOING_DATA),
	TELLS("*", "tokenization_", DOING_DATA),
	TELLS("_next_batch", NULL, DOING_DATA),
	TELLS("next_batch", NULL, DOING_DATA),
	TELLS("get_batch*", NULL, DOING_DATA),
	TELLS("fetch_batch", NULL, DOING_DATA),
	TELLS("batch_generator", NULL, DOING_DATA),
	TELLS("prefetch*", NULL, DOING_DATA),

	/* a prompt, an exception, the end */
	TELLS("*", "pdb.py", DOING_DEBUGGER),
	TELLS("*", "bdb.py", DOING_DEBUGGER),
	TELLS("*", "ipdb/", DOING_DEBUGGER),
	TELLS("*", "pudb/", DOING_DEBUGGER),
	TELLS("interact", "code.py", DOING_DEBUGGER),
	TELLS("embed", "IPython/", DOING_DEBUGGER),
	TELLS("wait_for_client", NULL, DOING_DEBUGGER),
	TELLS("breakpoint*", NULL, DOING_DEBUGGER),
	TELLS("*", "traceback.py", DOING_EXCEPTION),
	TELLS("*excepthook*", NULL, DOING_EXCEPTION),
	TELLS("record_exception", NULL, DOING_EXCEPTION),
	TELLS("*handle_exception*", NULL, DOING_EXCEPTION),
	TELLS("dump_error_file", NULL, DOING_EXCEPTION),
	TELLS("_shutdown", "threading.py", DOING_EXIT),
	TELLS("*_run_exitfuncs", NULL, DOING_EXIT),
	TELLS("_exit_function", "multiprocessing/util.py", DOING_EXIT),
	TELLS("_python_exit", "concurrent/futures/", DOING_EXIT),
	TELLS("*", "atexit.py", DOING_EXIT),
	TELLS("finish", "wandb/", DOING_EXIT),
	TELLS("teardown", NULL, DOING_EXIT),

	/* remote services */
	TELLS("*", "wandb/", DOING_SERVICE),
	TELLS("*", "mlflow/", DOING_SERVICE),
	TELLS("*", "comet_ml/", DOING_SERVICE),
	TELLS("*", "huggingface_hub/", DOING_SERVICE),
	TELLS("*", "requests/", DOING_SERVICE),
	TELLS("*", "httpx/", DOING_SERVICE),
	TELLS("*", "urllib3/", DOING_SERVICE),
	TELLS("*", "urllib/request.py", DOING_SERVICE),
	TELLS("*", "http/client.py", DOING_SERVICE),
	TELLS("*", "botocore/", DOING_SERVICE),
	TELLS("*", "boto3/", DOING_SERVICE),
	TELLS("*", "google/cloud/", DOING_SERVICE),
	TELLS("*", "grpc/", DOING_SERVICE),

	/* autograd, seen from Python */
	TELLS("_engine_run_backward", NULL, DOING_BACKWARD),
	TELLS("backward", "torch/autograd/__init__.py", DOING_BACKWARD),
	TELLS("grad", "torch/autograd/__init__.py", DOING_BACKWARD),
	TELLS("backward", "torch/_tensor.py", DOING_BACKWARD),
	TELLS("backward", "torch/tensor.py", DOING_BACKWARD),

	/* waits that anything may be behind */
	WAITS("*", "threading.py", DOING_LOCK),
	WAITS("*", "queue.py", DOING_LOCK),
	WAITS("*", "multiprocessing/connection.py", DOING_LOCK),
	WAITS("*", "multiprocessing/queues.py", DOING_LOCK),
	WAITS("*", "multiprocessing/synchronize.py", DOING_LOCK),
	WAITS("*", "multiprocessing/popen_", DOING_SUBPROCESS),
	WAITS("join", "multiprocessing/process.py", DOING_SUBPROCESS),
	WAITS("*", "multiprocessing/managers.py", DOING_LOCK),
	WAITS("*", "concurrent/futures/_base.py", DOING_LOCK),
	WAITS("*", "selectors.py", DOING_LOCK),
	WAITS("*", "socket.py", DOING_LOCK),
	WAITS("*", "ssl.py", DOING_LOCK),
	WAITS("*", "asyncio/", DOING_LOCK),
	WAITS("*", "filelock/", DOING_LOCK),
	WAITS("*", "subprocess.py", DOING_SUBPROCESS),
	WAITS("sleep", NULL, DOING_SLEEP),

	/* last, since a name is a weak sign */
	TELLS("*", "dataloader", DOING_DATA),
	TELLS("*", "data_loader", DOING_DATA),
	TELLS("*", "dataset", DOING_DATA),
	TELLS("*", "data_iterator", DOING_DATA),
	TELLS("*", "data/iterators", DOING_DATA),
	TELLS("*", "datamodule", DOING_DATA),
	TELLS("*", "data_sampler", DOING_DATA),
	TELLS("collate*", NULL, DOING_DATA),
	TELLS("_collate*", NULL, DOING_DATA),
	TELLS("*checkpoint", "checkpointing.py", DOING_CHECKPOINT),
	TELLS("evaluate*", NULL, DOING_EVALUATION),
	TELLS("_evaluate*", NULL, DOING_EVALUATION),
	TELLS("validate*", NULL, DOING_EVALUATION),
	TELLS("validation*", NULL, DOING_EVALUATION),
	TELLS("run_eval*", NULL, DOING_EVALUATION),
	TELLS("eval_*", NULL, DOING_EVALUATION),
	TELLS("_run_eval*", NULL, DOING_EVALUATION),
};

/* Native frames; a function is known by a part of its name. */
static const struct row native_rows[] = {
	/* the kernel: file systems, memory, the GPU's driver, the end */
	SAYS("nfs*", NULL, DOING_STORAGE, "in the kernel, waiting for NFS"),
	SAYS("rpc_wait_bit_killable", NULL, DOING_STORAGE, "in the kernel, waiting for NFS"),
	SAYS("fuse_*", NULL, DOING_STORAGE, "in the kernel, waiting for a FUSE file system"),
	SAYS("request_wait_answer", NULL, DOING_STORAGE,
	     "in the kernel, waiting for a FUSE file system"),
	SAYS("ll_*", NULL, DOING_STORAGE, "in the kernel, waiting for Lustre"),
	SAYS("cl_*", NULL, DOING_STORAGE, "in the kernel, waiting for Lustre"),
	SAYS("ptlrpc_*", NULL, DOING_STORAGE, "in the kernel, waiting for Lustre"),
	SAYS("osc_*", NULL, DOING_STORAGE, "in the kernel, waiting for Lustre"),
	SAYS("ceph_*", NULL, DOING_STORAGE, "in the kernel, waiting for Ceph"),
	SAYS("mmfs*", NULL, DOING_STORAGE, "in the kernel, waiting for GPFS"),
	SAYS("cxi*", NULL, DOING_GPU_WAIT, "in the kernel, in the network's driver"),
	SAYS("fhgfs*", NULL, DOING_STORAGE, "in the kernel, waiting for BeeGFS"),
	SAYS("do_swap_page", NULL, DOING_MEMORY, "in the kernel, waiting for swapped memory"),
	TELLS("*swapin*", NULL, DOING_MEMORY),
	TELLS("*alloc_pages_slowpath*", NULL, DOING_MEMORY),
	TELLS("try_to_free*", NULL, DOING_MEMORY),
	TELLS("shrink_*", NULL, DOING_MEMORY),
	TELLS("mem_cgroup_*", NULL, DOING_MEMORY),
	TELLS("io_schedule*", NULL, DOING_STORAGE),
	TELLS("folio_wait*", NULL, DOING_STORAGE),
	TELLS("wait_on_page*", NULL, DOING_STORAGE),
	TELLS("jbd2_*", NULL, DOING_STORAGE),
	TELLS("ext4_*", NULL, DOING_STORAGE),
	TELLS("xfs_*", NULL, DOING_STORAGE),
	TELLS("blk_*", NULL, DOING_STORAGE),
	SAYS("uvm_*", NULL, DOING_GPU_WAIT, "in the kernel, in the GPU's driver"),
	SAYS("nvidia_*", NULL, DOING_GPU_WAIT, "in the kernel, in the GPU's driver"),
	SAYS("rm_ioctl", NULL, DOING_GPU_WAIT, "in the kernel, in the GPU's driver"),
	SAYS("_nv0*", NULL, DOING_GPU_WAIT, "in the kernel, in the GPU's driver"),
	SAYS("amdgpu_*", NULL, DOING_GPU_WAIT, "in the kernel, in the GPU's driver"),
	SAYS("kfd_*", NULL, DOING_GPU_WAIT, "in the kernel, in the GPU's driver"),
	SAYS("do_exit", NULL, DOING_EXIT, "in the kernel, ending"),
	SAYS("exit_mm*", NULL, DOING_EXIT, "in the kernel, ending"),
	SAYS("ptrace_stop", NULL, DOING_DEBUGGER, "stopped by a debugger"),
	SAYS("do_signal_stop", NULL, DOING_DEBUGGER, "stopped by a signal"),

	/* communication */
	COLLECTIVE("*c10d::Reducer::*", NULL, COMM_ALL_REDUCE),
	TELLS("*c10d::TCPStore::*", NULL, DOING_RENDEZVOUS),
	TELLS("*c10d::PrefixStore::*", NULL, DOING_RENDEZVOUS),
	TELLS("*c10d::FileStore::*", NULL, DOING_RENDEZVOUS),
	TELLS("*broadcastUniqueNCCLID*", NULL, DOING_RENDEZVOUS),
	TELLS("ncclCommInit*", NULL, DOING_RENDEZVOUS),
	TELLS("ncclBootstrap*", NULL, DOING_RENDEZVOUS),
	TELLS("bootstrapInit*", NULL, DOING_RENDEZVOUS),
	SAYS("ncclCommDestroy*", NULL, DOING_EXIT, "ending a communicator"),
	SAYS("ncclCommAbort*", NULL, DOING_EXIT, "aborting a communicator"),
	COLLECTIVE("*ProcessGroup*", "torch", COMM_OTHER),
	COLLECTIVE("*c10d::ProcessGroup*", NULL, COMM_OTHER),
	COLLECTIVE("*c10d::Work::*", NULL, COMM_OTHER),
	COLLECTIVE("*WorkNCCL::*", NULL, COMM_OTHER),
	COLLECTIVE("*c10d::ops::*", NULL, COMM_OTHER),
	COLLECTIVE("gloo::*", NULL, COMM_OTHER),
	COLLECTIVE("ncclSend", NULL, COMM_SEND),
	COLLECTIVE("ncclRecv", NULL, COMM_RECV),
	COLLECTIVE("ncclGroupEnd*", NULL, COMM_OTHER),
	COLLECTIVE("nccl*", NULL, COMM_NONE),
	COLLECTIVE("pnccl*", NULL, COMM_OTHER),
	COLLECTIVE("*MPI_*", NULL, COMM_NONE),
	COLLECTIVE("*MPI_Wait*", NULL, COMM_OTHER),
	COLLECTIVE("ucc_*", NULL, COMM_OTHER),

	/* the GPU */
	TELLS("*StreamSynchronize*", NULL, DOING_GPU_WAIT),
	TELLS("*DeviceSynchronize*", NULL, DOING_GPU_WAIT),
	TELLS("*EventSynchronize*", NULL, DOING_GPU_WAIT),
	TELLS("*CtxSynchronize*", NULL, DOING_GPU_WAIT),
	TELLS("*_local_scalar_dense*", NULL, DOING_GPU_WAIT),
	TELLS("*stream_synchronize*", NULL, DOING_GPU_WAIT),
	TELLS("cuMemcpyDtoH*", NULL, DOING_GPU_WAIT),
	TELLS("cudaMemcpy", NULL, DOING_GPU_WAIT),
	TELLS("hipMemcpy", NULL, DOING_GPU_WAIT),
	SAYS("cuLaunchKernel*", NULL, DOING_GPU_WAIT,
	     "starting a kernel: the GPU's queue is full when this takes long"),
	SAYS("cudaLaunchKernel*", NULL, DOING_GPU_WAIT,
	     "starting a kernel: the GPU's queue is full when this takes long"),
	SAYS("hipLaunchKernel*", NULL, DOING_GPU_WAIT,
	     "starting a kernel: the GPU's queue is full when this takes long"),
	SAYS("cudaMalloc*", NULL, DOING_GPU_WAIT, "allocating memory of its GPU"),
	SAYS("cudaFree*", NULL, DOING_GPU_WAIT, "freeing memory of its GPU"),

	/* Python's and torch's own */
	TELLS("gc_collect*", NULL, DOING_GC),
	TELLS("*collect_generations*", NULL, DOING_GC),
	TELLS("PyGC_Collect", NULL, DOING_GC),
	TELLS("_PyGC_*", NULL, DOING_GC),
	TELLS("Py_Finalize*", NULL, DOING_EXIT),
	TELLS("__run_exit_handlers", NULL, DOING_EXIT),
	TELLS("wait_for_thread_shutdown", NULL, DOING_EXIT),
	TELLS("builtin_input*", NULL, DOING_DEBUGGER),
	TELLS("PyOS_Readline", NULL, DOING_DEBUGGER),
	TELLS("*PyTorchStreamWriter*", NULL, DOING_CHECKPOINT),
	SAYS("*PyTorchStreamReader*", NULL, DOING_CHECKPOINT, "loading a checkpoint"),
	TELLS("*autograd*Engine*execute*", NULL, DOING_BACKWARD),
	TELLS("THPEngine_run_backward*", NULL, DOING_BACKWARD),

	/* waits that anything may be behind */
	WAITS("*nanosleep*", NULL, DOING_SLEEP),
	WAITS("*time_sleep*", NULL, DOING_SLEEP),
	WAITS("pysleep", NULL, DOING_SLEEP),
	WAITS("*futex*", NULL, DOING_LOCK),
	WAITS("*pthread_*", NULL, DOING_LOCK),
	WAITS("*sem_*wait*", NULL, DOING_LOCK),
	WAITS("*cond*wait*", NULL, DOING_LOCK),
	WAITS("*PyThread_acquire*", NULL, DOING_LOCK),
	WAITS("*acquire_lock*", NULL, DOING_LOCK),
	WAITS("take_gil", NULL, DOING_LOCK),
	WAITS("*poll*", NULL, DOING_LOCK),
	WAITS("*select*", NULL, DOING_LOCK),
	WAITS("*recv*", NULL, DOING_LOCK),
	WAITS("*accept*", NULL, DOING_LOCK),
	WAITS("*connect*", NULL, DOING_LOCK),
	WAITS("*pipe_read*", NULL, DOING_LOCK),
	WAITS("*pipe_wait*", NULL, DOING_LOCK),
	WAITS("do_wait", NULL, DOING_SUBPROCESS),
	WAITS("*wait4", NULL, DOING_SUBPROCESS),
	WAITS("*waitpid", NULL, DOING_SUBPROCESS),
	WAITS("*open64", NULL, DOING_STORAGE),
	WAITS("*openat*", NULL, DOING_STORAGE),
	WAITS("*fsync*", NULL, DOING_STORAGE),
	WAITS("read", NULL, DOING_STORAGE),
	WAITS("__libc_read", NULL, DOING_STORAGE),
	WAITS("write", NULL, DOING_STORAGE),
	WAITS("__libc_write", NULL, DOING_STORAGE),
	WAITS("pread*", NULL, DOING_STORAGE),
	WAITS("pwrite*", NULL, DOING_STORAGE),
};

static const struct {
	const char *name, *words;
	const char *inside; /* of what is called in it; NULL: as words */
} doings[DOINGS] = {
	[DOING_UNKNOWN] = { "unknown", "at a place that says nothing" },
	[DOING_COLLECTIVE] = { "collective", "in a collective" },
	[DOING_BACKWARD] = { "backward", "in the backward pass, maybe in a collective of it",
			     "in the backward pass" },
	[DOING_GPU_WAIT] = { "gpu-wait", "waiting for its GPU" },
	[DOING_MODEL] = { "model", "in the model's own work" },
	[DOING_DATA] = { "data", "in the data loader", "for the next batch" },
	[DOING_CHECKPOINT] = { "checkpoint", "writing a checkpoint", "in a checkpoint" },
	[DOING_EVALUATION] = { "evaluation", "in the evaluation" },
	[DOING_GC] = { "garbage-collection", "in Python's garbage collection" },
	[DOING_COMPILE] = { "compile", "compiling" },
	[DOING_EXIT] = { "exit", "at its end: it leaves the job", "at its end" },
	[DOING_EXCEPTION] = { "exception", "handling an exception" },
	[DOING_DEBUGGER] = { "debugger", "at a debugger's prompt" },
	[DOING_RENDEZVOUS] = { "rendezvous", "waiting for the group to be set up" },
	[DOING_SERVICE] = { "service", "waiting for a remote service" },
	[DOING_STORAGE] = { "storage", "waiting for storage" },
	[DOING_MEMORY] = { "memory", "waiting for memory of the host" },
	[DOING_SUBPROCESS] = { "subprocess", "waiting for a process that it started" },
	[DOING_SLEEP] = { "sleep", "asleep" },
	[DOING_LOCK] = { "lock", "waiting for a lock, a queue or a socket" },
	[DOING_PYTHON] = { "python", "in code of the training program's own" },
	[DOING_WORKER] = { "worker", "a worker process" },
	[DOING_LAUNCHER] = { "launcher", "the launcher" },
};

const char *doing_name(enum doing d)
{
	return doings[d < DOINGS ? d : DOING_UNKNOWN].name;
}

/* --- does a row know a frame? --- */

/* "x", "x*", "*x", "*x*"; one star more may stand inside. */
static bool glob(const char *pattern, const char *s)
{
	const char *star = NULL, *retry = s;

	while (*s) {
		if (*pattern == '*') {
			star = pattern++;
			retry = s;
		} else if (*pattern == *s) {
			pattern++;
			s++;
		} else if (star) {
			pattern = star + 1;
			s = ++retry;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

/*
 * A part with a folder in it matches from the start of any name in the path; one without only in
 * the file's own name, since a program may lie in /mnt/datasets. A part that ends in .py is whole.
 */
static bool in_path(const char *path, const char *part)
{
	size_t n = strlen(part);
	bool whole = n > 3 && !strcmp(part + n - 3, ".py");
	const char *slash = strrchr(path, '/');

	if (slash && !strchr(part, '/'))
		path = slash + 1;
	for (const char *p = path; (p = strstr(p, part)); p++) {
		bool begins = p == path || p[-1] == '/';

		if (whole ? begins && !p[n] : begins || (p[-1] == '_' && !strchr(part, '/')))
			return true;
	}
	return false;
}

static bool is_python(const char *function, const char *file)
{
	size_t n = strlen(file);

	return (n > 3 && (!strcmp(file + n - 3, ".py") || !strcmp(file + n - 4, ".pyx"))) ||
	       *file == '<' || *function == '<' || !strcmp(function, "Garbage-collecting");
}

/* "get" of "Queue.get", "wrapper" of "f.<locals>.wrapper". */
static const char *last_part(const char *function)
{
	const char *dot = strrchr(function, '.');

	return dot && dot[1] ? dot + 1 : function;
}

/* The frames of a program's own start, which tell nothing wherever its files lie. */
static bool is_entry(const char *function)
{
	return *function == '<' || !strcmp(function, "main");
}

/* The operation in a call's name, "MPI_Allreduce" too. */
static enum comm_op op_named(const char *function)
{
	const char *mpi = strstr(function, "MPI_");

	function = mpi ? mpi + 4 : function;
	return comm_op_of(function, strlen(function));
}

static const struct row *find_row(const struct row *rows, size_t n, const char *function,
				  const char *file)
{
	for (size_t i = 0; i < n; i++) {
		const struct row *r = &rows[i];

		if (r->function && !glob(r->function, function))
			continue;
		if (r->file && !in_path(file, r->file))
			continue;
		/* A whole file tells of its functions, not of a program that begins in it. */
		if ((!r->function || !strcmp(r->function, "*")) && is_entry(function) && n > 32)
			continue;
		/* A file of collectives: the function's name must be one. */
		if (r->doing == DOING_COLLECTIVE && r->op == COMM_NONE &&
		    op_named(function) == COMM_NONE)
			continue;
		return r;
	}
	return NULL;
}

/* --- the walk --- */

/* A forked child shows its parent's frames behind its own. */
static size_t own_frames(const struct intern *names, const struct frame *frames, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(last_part(intern_get(names, frames[i].function)), "_bootstrap") &&
		    in_path(intern_get(names, frames[i].file), "multiprocessing/process.py"))
			return i + 1;
	return n;
}

static const struct row *no_rank_row(const struct intern *names, const struct frame *frames,
				     size_t n, size_t *ret_at)
{
	for (size_t i = 0; i < n; i++) {
		const char *file = intern_get(names, frames[i].file);
		const char *function = last_part(intern_get(names, frames[i].function));
		const struct row *r =
		    find_row(no_rank_rows, ARRAY_SIZE(no_rank_rows), function, file);

		if (r) {
			*ret_at = i;
			return r;
		}
	}
	return NULL;
}

static bool is_library(const char *file)
{
	return in_path(file, "torch/") || strstr(file, "site-packages/") ||
	       strstr(file, "dist-packages/") || strstr(file, "/lib/python");
}

static bool is_model(const char *file)
{
	return in_path(file, "torch/") || in_path(file, "transformer_engine/") ||
	       in_path(file, "flash_attn/") || in_path(file, "apex/") ||
	       in_path(file, "triton/runtime/") || in_path(file, "xformers/");
}

static void found_row(struct doing_found *f, const struct row *r, const struct frame *frame,
		      const char *function)
{
	f->doing = r->doing;
	f->frame = *frame;
	f->words = r->words ? r->words : doings[r->doing].words;
	if (r->doing == DOING_COLLECTIVE)
		f->op = r->op ? r->op : op_named(function);
}

/* What encloses a finding: another known thing further out. */
static void found_outer(struct doing_found *f, const struct row *r, const char *function)
{
	enum comm_op op;

	if (r->kind != ROW_TELLS || r->doing == DOING_BACKWARD)
		return;
	if (r->doing == DOING_COLLECTIVE && f->doing == DOING_COLLECTIVE) {
		op = r->op ? r->op : op_named(function);
		if (f->op == COMM_OTHER && op != COMM_NONE)
			f->op = op;
	} else if (f->inside == DOING_UNKNOWN && r->doing != f->doing &&
		   r->doing != DOING_COLLECTIVE) {
		f->inside = r->doing;
	}
}

struct doing_found doing_of(const struct intern *names, const struct frame *frames, size_t n)
{
	static const struct frame no_frame = { NO_ID, NO_ID, -1 };
	struct doing_found f = { .words = doings[DOING_UNKNOWN].words,
				 .frame = no_frame,
				 .caller = no_frame };
	struct frame first = no_frame; /* the innermost Python frame that no row knows */
	const struct row *wait = NULL, *r;
	struct frame wait_frame = no_frame;
	size_t at;

	n = own_frames(names, frames, n);
	r = no_rank_row(names, frames, n, &at);
	if (r) {
		found_row(&f, r, &frames[at], "");
		return f;
	}
	for (size_t i = 0; i < n; i++) {
		const char *file = intern_get(names, frames[i].file);
		const char *whole = intern_get(names, frames[i].function);
		bool python = is_python(whole, file);
		const char *function = python ? last_part(whole) : whole;

		r = python ? find_row(python_rows, ARRAY_SIZE(python_rows), function, file)
			   : find_row(native_rows, ARRAY_SIZE(native_rows), function, file);
		if (python && f.caller.function == NO_ID && !is_library(file) &&
		    (!r || r->kind == ROW_TELLS))
			f.caller = frames[i];
		if (!r) {
			if (python && first.function == NO_ID)
				first = frames[i];
			continue;
		}
		if (f.doing != DOING_UNKNOWN) {
			found_outer(&f, r, function);
		} else if (r->kind == ROW_TELLS) {
			found_row(&f, r, &frames[i], function);
		} else if (r->kind == ROW_WAITS && !wait) {
			wait = r;
			wait_frame = frames[i];
		}
	}
	if (f.doing != DOING_UNKNOWN)
		return f;
	if (wait) {
		found_row(&f, wait, &wait_frame, "");
	} else if (first.function != NO_ID) {
		f.doing = is_model(intern_get(names, first.file)) ? DOING_MODEL : DOING_PYTHON;
		f.frame = first;
		f.words = doings[f.doing].words;
	}
	return f;
}

/* --- a process --- */

static const struct thread_stack *main_of(const struct testimony *t, const struct process_stack *p)
{
	for (uint32_t i = 0; i < p->n_threads; i++)
		if (t->threads.v[p->thread + i].main)
			return &t->threads.v[p->thread + i];
	return p->n_threads ? &t->threads.v[p->thread] : NULL;
}

/* In a backward pass the collectives are called by autograd's own threads. */
static bool in_backward(const struct testimony *t, const struct thread_stack *th)
{
	for (uint32_t i = 0; i < th->n_frames; i++) {
		const struct frame *f = &t->frames.v[th->frame + i];
		const char *function = intern_get(&t->names, f->function);

		if (!strcmp(last_part(function), "backward") ||
		    strstr(function, "autograd::Engine"))
			return true;
	}
	return strstr(intern_get(&t->names, th->name), "autograd") != NULL;
}

struct doing_found doing_of_process(const struct testimony *t, const struct process_stack *p)
{
	const struct thread_stack *main = main_of(t, p);
	struct doing_found f;

	if (!main)
		return doing_of(&t->names, NULL, 0);
	f = doing_of(&t->names, main->n_frames ? &t->frames.v[main->frame] : NULL, main->n_frames);
	f.off_cpu = f.doing == DOING_PYTHON && p->tool == STACK_PYSPY && !main->active;
	for (uint32_t i = 0; f.doing == DOING_BACKWARD && i < p->n_threads; i++) {
		const struct thread_stack *th = &t->threads.v[p->thread + i];
		struct doing_found other;

		if (th == main || !th->n_frames || !in_backward(t, th))
			continue;
		other = doing_of(&t->names, &t->frames.v[th->frame], th->n_frames);
		if (other.doing == DOING_COLLECTIVE || other.doing == DOING_GPU_WAIT) {
			other.caller = f.caller;
			other.inside = DOING_BACKWARD;
			return other;
		}
	}
	return f;
}

struct out {
	char *p;
	size_t left;
};

PRINTF_LIKE(2, 3) static void put(struct out *o, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(o->p, o->left, format, ap);
	va_end(ap);
	n = MIN(MAX(n, 0), (int)o->left - 1);
	o->p += n;
	o->left -= (size_t)n;
}

const char *doing_text(const struct doing_found *f, const struct intern *names, char *buf,
		       size_t size)
{
	const struct frame *where = f->caller.function != NO_ID ? &f->caller : &f->frame;
	struct out o = { buf, size };

	put(&o, "%s", f->words);
	if (f->op != COMM_NONE && f->op != COMM_OTHER)
		put(&o, " (%s)", comm_op_name(f->op));
	if (f->inside != DOING_UNKNOWN)
		put(&o, ", %s",
		    doings[f->inside].inside ? doings[f->inside].inside : doings[f->inside].words);
	if (f->off_cpu)
		put(&o, ", not running: in a blocking call");
	if (where->function == NO_ID)
		return buf;
	put(&o, ": %s", intern_get(names, where->function));
	if (where->file != NO_ID)
		put(&o, " (%s", intern_get(names, where->file));
	if (where->file != NO_ID && where->line >= 0)
		put(&o, ":%d", where->line);
	if (where->file != NO_ID)
		put(&o, ")");
	return buf;
}
