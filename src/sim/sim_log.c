/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_log.c - the training log of a hang, in one file: who is where, steps, what a rank says before
 * it is gone, the watchdogs and those that are told to dump, the launcher, the scheduler.
 *
 * Every line is written because of what a rank does at that moment; the words are those of PyTorch
 * 2.9 and NCCL 2.27.
 */
#include "sim/sim_evidence.h"
#include "sim/sim_words.h"

#include <math.h>
#include <stdio.h>

#define MS 1e6
#define LIKELY                                                                                     \
	"This is most likely caused by incorrect usages of collectives, e.g., wrong sizes used "   \
	"across ranks, the order of collectives is not same for all ranks or the scheduled "       \
	"collective, for some reason, didn't run. Additionally, this can be caused by GIL "        \
	"deadlock or other reasons such as network errors or bugs in the communications library "  \
	"(e.g. NCCL), etc. "

struct line {
	double t;
	size_t at, n; /* where its text begins; its number */
};

struct log {
	const struct sim *s;
	const struct sim_evidence *e;
	VEC(struct line) lines;
	struct buf text;
};

static void say(struct log *l, double t, const char *format, ...) PRINTF_LIKE(3, 4);
static void say(struct log *l, double t, const char *format, ...)
{
	char text[2048];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	*vec_push(&l->lines) = (struct line){ t, l->text.len, l->lines.n };
	buf_put(&l->text, text, strlen(text) + 1);
}

static const char *iso(double t, char out[48])
{
	return sim_stamp(t, STAMP_LOG, 0, out);
}

static uint32_t host_of(const struct log *l, uint32_t rank)
{
	return rank / l->s->options.gpus_per_node;
}

/* "[PG ID 3 PG GUID 17(DATA_PARALLEL_GROUP_WITH_CP) Rank 2]" */
static const char *who(const struct log *l, uint32_t rank, uint32_t group, char out[160])
{
	snprintf(out, 160, "[PG ID %" PRIu32 " PG GUID %" PRIu32 "(%s) Rank %" PRIu32 "]",
		 sim_group_id(l->s, group, rank), sim_group_name(l->s, group, rank),
		 sim_group_descs[group], sim_local(l->e, group, rank));
	return out;
}

static void c10d(struct log *l, double t, uint32_t rank, int line, const char *format, ...)
    PRINTF_LIKE(5, 6);
static void c10d(struct log *l, double t, uint32_t rank, int line, const char *format, ...)
{
	char text[1600], stamp[48];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	sim_stamp(t, STAMP_GLOG, 9, stamp);
	say(l, t, "[rank%" PRIu32 "]:[E%s ProcessGroupNCCL.cpp:%d] %s", rank,
	    *stamp == '0' ? stamp + 1 : stamp, line, text);
}

/* --- its life --- */

/* How many ranks it believes there are. */
static uint32_t world_of(const struct log *l, uint32_t rank)
{
	const struct sim_fault *f = l->e->starts;
	bool other = f && f->kind == SIM_CONFIGURATION && f->how == SIM_WORLD_SIZE && f->has[rank];

	return other ? 2 * l->s->plan.world : l->s->plan.world;
}

static void hello(struct log *l, double t, uint32_t run)
{
	uint32_t later = (uint32_t)l->s->options.restarts.n - run; /* processes of other runs */
	char stamp[48];

	for (uint32_t r = 0; r < l->s->plan.world; r++)
		if (sim_came(l->e, r))
			say(l, t + r * 1e6,
			    "%s - INFO - train - Process rank: %" PRIu32 ", world size: %" PRIu32
			    ", local rank: %" PRIu32 ", host: node%05" PRIu32 ", pid: %" PRIu32,
			    iso(t, stamp), r, world_of(l, r), r % l->s->options.gpus_per_node,
			    host_of(l, r), SIM_PID(r) + 200000 * later);
}

/* The launcher starts all again; why it had to is not in the log. */
static void started_again(struct log *l, double failed, double begin, uint32_t run)
{
	uint32_t left = (uint32_t)l->s->options.restarts.n - run;
	char stamp[48];

	say(l, failed + 2e9,
	    "I%s 900 torch/distributed/elastic/agent/server/api.py:879] [default] Worker group "
	    "FAILED. %" PRIu32 "/%zu attempts left; will restart worker group",
	    sim_stamp(failed + 2e9, STAMP_GLOG, 6, stamp), left + 1, l->s->options.restarts.n);
	hello(l, failed + (begin - failed) / 2, run);
}

static void steps(struct log *l)
{
	double before = 0;
	uint32_t run = 0;
	char stamp[48];

	for (size_t i = 0; i < l->e->ends.n; i++) {
		const struct sim_ended *at = &l->e->ends.v[i];
		double t = at->end, loss = 2 + 3 / (1 + (double)i / 50) +
					   0.02 * sim_normal(l->s->options.seed ^ 0x6c6f, i, 0);

		if (at->run != run) {
			run = at->run;
			started_again(l, before, at->begin, run);
			before = at->begin;
		}
		say(l, t, "%s step %" PRIu32 "/%" PRIu32 " loss %.4f lr 0.0003 time %.3fs",
		    iso(t, stamp), at->number + 1, l->s->options.steps, loss, (t - before) / 1e9);
		before = t;
	}
}

/* --- what a rank says --- */

static void traceback(struct log *l, double t, uint32_t rank, const char *error)
{
	static const char *const frames[] = {
		"Traceback (most recent call last):",
		"  File \"/workspace/train.py\", line 291, in <module>",
		"    main()",
		"  File \"/workspace/train.py\", line 260, in main",
		"    train_step(batch)",
		"  File \"/workspace/train.py\", line 110, in train_step",
		"    out = model(batch)",
	};

	for (size_t i = 0; i < ARRAY_SIZE(frames); i++)
		say(l, t, "[rank%" PRIu32 "]: %s", rank, frames[i]);
	say(l, t, "[rank%" PRIu32 "]: %s", rank, error);
}

static void death(struct log *l, uint32_t rank, const struct sim_hang_rank *r)
{
	const struct sim_fault *f = r->fault;
	double t = r->died + 300 * MS;
	char error[256];

	if (f->kind == SIM_GPU_ERROR) {
		traceback(l, t, rank,
			  "torch.AcceleratorError: CUDA error: uncorrectable ECC error "
			  "encountered");
	} else if (f->how == SIM_EXCEPTION) {
		traceback(l, t, rank,
			  "IndexError: index 50257 is out of bounds for dimension 0 with size "
			  "50257");
	} else if (f->how == SIM_OUT_OF_MEMORY) {
		snprintf(error, sizeof(error),
			 "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. "
			 "GPU %" PRIu32 " has a total capacity of 79.11 GiB of which 1.02 GiB is "
			 "free. Process %" PRIu32 " has 78.08 GiB memory in use.",
			 rank % l->s->options.gpus_per_node, SIM_PID(rank));
		traceback(l, t, rank, error);
	}
}

static void leaving(struct log *l, uint32_t rank, const struct sim_hang_rank *r, bool says)
{
	double t = l->s->ranks[rank].t + 50 * MS;
	char stamp[48];

	(void)r;
	if (says)
		say(l, t, "[rank%" PRIu32 "]: %s epoch 0 done: %" PRIu32 " batches", rank,
		    iso(t, stamp), l->e->hang->step);
}

static bool leaves(const struct sim_fault *f, const struct log *l, uint32_t rank)
{
	return f->kind == SIM_UNEVEN && (!f->has || f->has[rank]) &&
	       sim_fault_step(f, l->s->options.steps) == (int64_t)l->e->hang->ranks[rank].step;
}

static void own_words(struct log *l)
{
	const struct sim_options *o = &l->s->options;
	char stamp[48];

	for (uint32_t i = 0; i < l->s->plan.world; i++) {
		const struct sim_hang_rank *r = &l->e->hang->ranks[i];

		if (r->stand == SIM_GONE && r->fault &&
		    (r->fault->kind == SIM_DEAD || r->fault->kind == SIM_GPU_ERROR))
			death(l, i, r);
		if (r->fault && r->fault->kind == SIM_SAVE)
			say(l, r->t, "[rank%" PRIu32 "]: %s saving checkpoint at step %" PRIu32, i,
			    iso(r->t, stamp), r->step);
		for (size_t k = 0; k < o->faults.n; k++)
			if (leaves(&o->faults.v[k], l, i))
				leaving(l, i, r, sim_share(o->seed ^ 0x73, k, 0) < 0.5);
	}
}

/* --- watchdogs --- */

static const char *work_of(const struct log *l, const struct sim_call *c, char out[160])
{
	snprintf(out, 160,
		 "WorkNCCL(SeqNum=%" PRIu32 ", OpType=%s, NumelIn=%" PRIu64 ", NumelOut=%" PRIu64
		 ", Timeout(ms)=%.0f)",
		 c->seq, sim_comm_words[c->what].watchdog, sim_numel(l->s, c, false),
		 sim_numel(l->s, c, true), l->e->o.timeout_s * 1000);
	return out;
}

static void received(struct log *l, double t, uint32_t rank, const char *from)
{
	struct sim_status st = sim_status_of(l->s, rank, SIM_WORLD);
	char pg[160];

	who(l, rank, SIM_WORLD, pg);
	c10d(l, t, rank, 1794,
	     "%s Received a dump signal due to a collective timeout from %s and we will try our "
	     "best to dump the debug info. Last enqueued NCCL work: %" PRId64
	     ", last completed NCCL work: %" PRId64 "." LIKELY,
	     pg, from, st.enqueued, st.completed);
	c10d(l, t + MS, rank, 1575,
	     "%s ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1", pg);
}

static void timed_out(struct log *l, double t, uint32_t rank, const struct sim_call *c, bool dies)
{
	struct sim_status st = sim_status_of(l->s, rank, c->group);
	uint32_t local = sim_local(l->e, SIM_WORLD, rank);
	char caught[400], work[160], pg[160];

	snprintf(caught, sizeof(caught),
		 "[Rank %" PRIu32 "] Watchdog caught collective operation timeout: %s ran for %.0f "
		 "milliseconds before timing out.",
		 local, work_of(l, c, work), (t - c->created) / MS);
	who(l, rank, c->group, pg);
	c10d(l, t, rank, 683, "%s", caught);
	c10d(l, t + MS, rank, 2241,
	     "%s  failure detected by watchdog at work sequence id: %" PRIu32
	     " PG status: last enqueued work: %" PRId64 ", last completed work: %" PRId64,
	     pg, c->seq, st.enqueued, st.completed);
	received(l, t + 400 * MS, rank, "this local rank");
	if (!dies)
		return;
	t = l->e->last;
	c10d(l, t, rank, 744,
	     "[Rank %" PRIu32 "] Some NCCL operations have failed or timed out. Due to the "
	     "asynchronous nature of CUDA kernels, subsequent GPU operations might run on "
	     "corrupted/incomplete data.",
	     local);
	c10d(l, t, rank, 758,
	     "[Rank %" PRIu32 "] To avoid data inconsistency, we are taking the entire process "
	     "down.",
	     local);
	c10d(l, t + MS, rank, 2057,
	     "%s Process group watchdog thread terminated with exception: %s", pg, caught);
}

static void told(struct log *l, double t, uint32_t rank, uint32_t first)
{
	char pg[160], from[32];

	c10d(l, t, rank, 1858,
	     "%s Observed flight recorder dump signal from another rank via TCPStore.",
	     who(l, rank, SIM_WORLD, pg));
	snprintf(from, sizeof(from), " rank %" PRIu32, first);
	received(l, t + MS, rank, from);
}

static void watchdogs(struct log *l)
{
	uint32_t first = NO_ID;
	char pg[160];

	for (uint32_t i = 0; i < l->s->plan.world && isfinite(l->e->spoke); i++)
		if (first == NO_ID && sim_times_out(l->s, i) <= l->e->spoke)
			first = i;
	for (uint32_t i = 0; i < l->s->plan.world && first != NO_ID; i++) {
		double own = sim_times_out(l->s, i), signal = sim_told(l->s, i);

		if (isfinite(own))
			timed_out(l, own + 50 * MS * sim_share(l->s->options.seed ^ 0x7764, i, 0),
				  i, sim_hang_oldest(&l->e->hang->ranks[i]), sim_lives(l->e, 0));
		else if (isfinite(signal))
			told(l, signal, i, first);
		else if (sim_lives(l->e, i) && !sim_lives(l->e, 0) &&
			 !sim_hang_oldest(&l->e->hang->ranks[i]))
			c10d(l, l->e->spoke, i, 1628,
			     "%s Failed to check the \"should dump\" flag on TCPStore, (maybe "
			     "TCPStore server has shut down too early), with error: Broken pipe",
			     who(l, i, SIM_WORLD, pg));
	}
}

/* --- who ends the job --- */

static void lost_peer(struct log *l, double t, uint32_t rank)
{
	if (l->e->o.gloo)
		traceback(l, t, rank,
			  "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/"
			  "pair.cc:553] Connection closed by peer [10.0.0.7]:34113. This is "
			  "typically caused by a remote worker crashing. Check the logs of the "
			  "remote worker before reporting an error.");
	else
		traceback(l, t, rank,
			  "torch.distributed.DistBackendError: NCCL error in: "
			  "/pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2062, remote "
			  "process exited or there was a network error, NCCL version 2.27.5");
}

/* Members of a group in which a rank waits that lost one of them. */
static bool loses(const struct log *l, uint32_t rank, uint32_t dead)
{
	const struct sim_call *c = sim_hang_oldest(&l->e->hang->ranks[rank]);
	uint32_t n;

	if (!c || !sim_lives(l->e, rank))
		return false;
	if (c->group == SIM_PP)
		return c->peer == dead;
	n = sim_group_size(l->s, c->group);
	for (uint32_t i = 0; i < n; i++)
		if (sim_member(l->s, c->group, rank, i) == dead)
			return true;
	return false;
}

static void launcher_ends(struct log *l, uint32_t dead, double t, bool spoke)
{
	uint32_t node = l->s->options.gpus_per_node, first = dead / node * node;
	char stamp[48], head[128];

	sim_stamp(t, STAMP_GLOG, 6, stamp);
	snprintf(head, sizeof(head),
		 "%s %" PRIu32 " torch/distributed/elastic/multiprocessing/api.py", stamp,
		 900 + host_of(l, dead));
	for (uint32_t i = first; i < MIN(first + node, l->s->plan.world); i++)
		if (sim_lives(l->e, i))
			say(l, t, "W%s:897] Sending process %" PRIu32 " closing signal SIGTERM",
			    head, SIM_PID(i));
	say(l, t + 1200 * MS,
	    "E%s:869] failed (exitcode: %d) local_rank: %" PRIu32 " (pid: %" PRIu32
	    ") of binary: /opt/venv/bin/python",
	    head, spoke ? 1 : -9, dead % node, SIM_PID(dead));
	t += 1300 * MS;
	say(l, t, "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ");
	say(l, t, "============================================================");
	say(l, t, "train.py FAILED");
	say(l, t, "Root Cause (first observed failure):");
	say(l, t, "[0]:");
	say(l, t, "  time      : %s", sim_stamp(t, STAMP_ELASTIC, 0, stamp));
	say(l, t, "  host      : node%05" PRIu32, host_of(l, dead));
	say(l, t, "  rank      : %" PRIu32 " (local_rank: %" PRIu32 ")", dead, dead % node);
	say(l, t, "  exitcode  : %d (pid: %" PRIu32 ")", spoke ? 1 : -9, SIM_PID(dead));
	say(l, t, "  error_file: <N/A>");
	if (spoke)
		say(l, t,
		    "  traceback : To enable traceback see: "
		    "https://pytorch.org/docs/stable/elastic/errors.html");
	else
		say(l, t, "  traceback : Signal 9 (SIGKILL) received by PID %" PRIu32,
		    SIM_PID(dead));
	say(l, t, "============================================================");
}

static void preemption(struct log *l)
{
	double t = l->e->hang->since + 200 * MS;
	char stamp[48];

	sim_stamp(t, STAMP_SLURM, 0, stamp);
	say(l, t,
	    "slurmstepd: error: *** STEP 812345.0 ON node00000 CANCELLED AT %s DUE TO PREEMPTION "
	    "***",
	    stamp);
	say(l, t + 10 * MS,
	    "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.");
	say(l, t + 300 * MS,
	    "torch.distributed.elastic.multiprocessing.api.SignalException: Process 900 got "
	    "signal: "
	    "15");
}

static void endings(struct log *l)
{
	const struct sim_options *o = &l->s->options;
	uint32_t noted = 0;

	for (size_t k = 0; k < o->faults.n; k++)
		if (o->faults.v[k].kind == SIM_PREEMPTED && sim_struck(l->s, k)) {
			preemption(l);
			return;
		}
	for (uint32_t i = 0; i < l->s->plan.world && l->e->crashed; i++) {
		const struct sim_hang_rank *r = &l->e->hang->ranks[i];

		if (r->stand != SIM_GONE || !r->fault ||
		    (r->fault->kind != SIM_DEAD && r->fault->kind != SIM_GPU_ERROR))
			continue;
		for (uint32_t j = 0; j < l->s->plan.world && noted < 16; j++)
			if (loses(l, j, i)) {
				lost_peer(l, r->died + 500 * MS + 10 * MS * j, j);
				noted++;
			}
		launcher_ends(l, i, r->died + 1500 * MS,
			      r->fault->kind == SIM_GPU_ERROR || r->fault->how != SIM_KILLED);
	}
}

/* NCCL's words on the two ends of a transfer over a port that failed. */
static void network(struct log *l)
{
	const struct sim_options *o = &l->s->options;
	uint32_t node = o->gpus_per_node;

	for (size_t k = 0; k < o->faults.n; k++) {
		const struct sim_fault *f = &o->faults.v[k];

		for (size_t i = 0; i < f->n_ranks && f->kind == SIM_NETWORK_ERROR; i++) {
			uint32_t r = (uint32_t)f->ranks[i];

			say(l, l->e->hang->since + 20e9,
			    "node%05" PRIu32 ":%" PRIu32 ":%" PRIu32 " [%" PRIu32
			    "] transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from "
			    "peer 10.1.4.%" PRIu32 "<43211> with status=12 opcode=0 len=0 vendor "
			    "err 129 (Recv) localGid ::ffff:10.1.4.1 remoteGids::ffff:10.1.4.2 "
			    "hca mlx5_%" PRIu32,
			    host_of(l, r), SIM_PID(r), SIM_PID(r) + 700, r % node, r % 250,
			    r % node);
		}
	}
}

/* --- a job that never began --- */

static void trace_of_start(struct log *l, double t, uint32_t rank, const char *format, ...)
    PRINTF_LIKE(4, 5);
static void trace_of_start(struct log *l, double t, uint32_t rank, const char *format, ...)
{
	static const char *const frames[] = {
		"Traceback (most recent call last):",
		"  File \"/workspace/train.py\", line 291, in <module>",
		"    main()",
		"  File \"/workspace/train.py\", line 240, in main",
		"    dist.init_process_group(\"nccl\")",
		"  File \"/torch/distributed/rendezvous.py\", line 278, in _env_rendezvous_handler",
		"    store = _create_c10d_store(",
	};
	char text[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	for (size_t i = 0; i < ARRAY_SIZE(frames); i++)
		say(l, t, "[rank%" PRIu32 "]: %s", rank, frames[i]);
	say(l, t, "[rank%" PRIu32 "]: %s", rank, text);
}

/* Those who asked the store of rank 0 for something lose it. */
static void lose_store(struct log *l, double t)
{
	uint32_t noted = 0;

	for (uint32_t i = 1; i < l->s->plan.world && noted < 16; i++)
		if (sim_came(l->e, i) && sim_lives(l->e, i) && ++noted)
			trace_of_start(l, t + 10 * MS * i, i,
				       "torch.distributed.DistNetworkError: failed to recv, got 0 "
				       "bytes. Connection was likely closed. Did the remote server "
				       "shutdown or crash?");
}

static void no_way(struct log *l, double t, uint32_t rank)
{
	char stamp[48];

	for (int i = 1; i < 4; i++) {
		double at = t * i / 4;

		sim_stamp(at, STAMP_GLOG, 9, stamp);
		say(l, at,
		    "[rank%" PRIu32 "]:[W%s socket.cpp:755] [c10d] The client socket has failed to "
		    "connect to [node00000]:29500 (errno: 110 - Connection timed out).",
		    rank, *stamp == '0' ? stamp + 1 : stamp);
	}
	trace_of_start(l, t + rank * MS, rank,
		       "torch.distributed.DistNetworkError: The client socket has timed out after "
		       "%.0fms while trying to connect to (node00000, 29500).",
		       l->e->o.timeout_s * 1000);
}

/* Rank 0 counts who comes to its store, and does not wait for ever. */
static void not_together(struct log *l, const struct sim_fault *f)
{
	uint32_t world = l->s->plan.world, came = 0, first = NO_ID;
	double t = l->e->o.timeout_s * 1e9;

	for (uint32_t i = 0; i < world; i++) {
		came += !f->has[i];
		first = first == NO_ID && sim_came(l->e, i) ? i : first;
	}
	for (uint32_t i = 0; i < world; i++)
		if ((f->has[i] && f->how == SIM_NO_WAY) || (f->has[0] && sim_came(l->e, i)))
			no_way(l, t - 5e9, i);
	if (!f->has[0]) {
		trace_of_start(l, t, 0,
			       "torch.distributed.DistStoreError: Timed out after %.0f seconds "
			       "waiting for clients. %" PRIu32 "/%" PRIu32 " clients joined.",
			       l->e->o.timeout_s + 1, came, world_of(l, 0));
		lose_store(l, t + 200 * MS);
	}
	launcher_ends(l, first, t + 1500 * MS, true);
}

/* The store waits in vain if rank 0 counts too many; else NCCL's first rank sees that they differ.
 */
static void other_world(struct log *l, const struct sim_fault *f)
{
	uint32_t world = l->s->plan.world;
	double t = l->e->o.timeout_s * 1e9;

	if (f->has[0]) {
		trace_of_start(l, t, 0,
			       "torch.distributed.DistStoreError: Timed out after %.0f seconds "
			       "waiting for clients. %" PRIu32 "/%" PRIu32 " clients joined.",
			       l->e->o.timeout_s + 1, world, 2 * world);
		lose_store(l, t + 200 * MS);
		return;
	}
	if (!l->e->o.gloo)
		say(l, 5e9,
		    "node00000:%" PRIu32 ":%" PRIu32 " [0] bootstrap.cc:305 NCCL WARN Bootstrap "
		    "Root : mismatch in rank count from procs %" PRIu32 " : %" PRIu32,
		    SIM_PID(0), SIM_PID(0) + 700, world, 2 * world);
	for (size_t i = 0; i < f->n_ranks; i++)
		trace_of_start(l, t + MS * (double)i, (uint32_t)f->ranks[i],
			       "torch.distributed.DistStoreError: wait timeout after %.0fms, keys: "
			       "/default_pg/0//%s//0/%" PRIu32,
			       l->e->o.timeout_s * 1000, l->e->o.gloo ? "cpu" : "cuda", world);
}

static void bad_settings(struct log *l, const struct sim_fault *f)
{
	uint32_t first = (uint32_t)f->ranks[0];
	double t = 2e9;

	if (f->how == SIM_PORT) {
		trace_of_start(l, t, 0,
			       "torch.distributed.DistNetworkError: The server socket has failed "
			       "to listen on any local network address. port: 29500, useIpv6: "
			       "false, code: -98, name: EADDRINUSE, message: address already in "
			       "use");
	} else if (f->how == SIM_DEVICE) {
		for (size_t i = 0; i < f->n_ranks; i++)
			trace_of_start(l, t + 5 * MS * (double)i, (uint32_t)f->ranks[i],
				       "torch.AcceleratorError: CUDA error: invalid device "
				       "ordinal");
	} else {
		other_world(l, f);
		first = f->has[0] ? 0 : first;
		t = l->e->o.timeout_s * 1e9;
	}
	launcher_ends(l, first, t + 1500 * MS, true);
}

static void never_began(struct log *l)
{
	const struct sim_fault *f = l->e->starts;

	if (f->kind == SIM_CONFIGURATION)
		bad_settings(l, f);
	else if (f->how != SIM_STILL_WAITED)
		not_together(l, f);
}

static int in_time(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	return x->t < y->t ? -1 : x->t > y->t ? 1 : x->n < y->n ? -1 : x->n > y->n;
}

int sim_write_log(struct sim *s, struct error *reterr)
{
	struct log l = { .s = s, .e = s->evidence };
	struct buf b = { 0 };
	int r;

	hello(&l, -30e9, 0);
	steps(&l);
	if (l.e->starts) {
		never_began(&l);
	} else {
		own_words(&l);
		network(&l);
		watchdogs(&l);
		endings(&l);
	}
	if (l.lines.n)
		qsort(l.lines.v, l.lines.n, sizeof(*l.lines.v), in_time);
	for (size_t i = 0; i < l.lines.n; i++)
		sim_put(&b, "%s\n", (const char *)l.text.data + l.lines.v[i].at);
	r = sim_save(s, "train.log", &b, reterr);
	buf_done(&b);
	buf_done(&l.text);
	free(l.lines.v);
	return r;
}
