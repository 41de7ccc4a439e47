/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_kineto.c - chosen ranks of a simulated job as PyTorch's profiler would have traced them: the
 * host's ranges and launches, one kernel an operation, NCCL's kernels with their arguments, step
 * marks.
 */
#include <stdio.h>
#include <sys/stat.h>

#include "sim/sim_inside.h"
#include "sim/sim_words.h"

#define BEFORE_NS 1000000000.0 /* stamps begin so long after the base time: clocks may be early */
#define API_NS	  4000.0       /* of a launch */
#define LISTED	  64u	       /* members of a group that are written out */

struct sim_trace {
	uint32_t rank;
	FILE *f; /* NULL: it is not begun, or its run has ended */
	int status;
	uint64_t correlation;
	double busy[2]; /* until when the streams of posted ones and of sends are */
};

/* Streams: compute, collectives that it waits for, receives; beside it: posted ones, sends. */
enum { STREAM_COMPUTE = 7, STREAM_MEET = 20, STREAM_RECV = 28, STREAM_POST = 24, STREAM_SEND = 32 };

static double us(const struct sim *s, uint32_t rank, double t)
{
	return (t * (1 + s->drift[rank]) + s->offset[rank] + BEFORE_NS) / 1000;
}

static void span(const struct sim *s, const struct sim_trace *tr, const char *category,
		 const char *name, int64_t pid, int64_t tid, double start, double end)
{
	fprintf(tr->f,
		",\n{\"ph\": \"X\", \"cat\": \"%s\", \"name\": \"%s\", \"pid\": %" PRId64
		", \"tid\": %" PRId64 ", \"ts\": %.3f, \"dur\": %.3f, \"args\": {",
		category, name, pid, tid, us(s, tr->rank, start), MAX(end - start, 1) / 1000);
}

static int64_t pid_of(const struct sim_trace *tr)
{
	return 20000 + tr->rank;
}

static void host_range(const struct sim *s, const struct sim_trace *tr, const char *name,
		       double start, double end)
{
	span(s, tr, "user_annotation", name, pid_of(tr), pid_of(tr), start, end);
	fputs("}}", tr->f);
}

static void launch(const struct sim *s, struct sim_trace *tr, const struct sim_span *x)
{
	tr->correlation++;
	span(s, tr, "cuda_runtime", "cudaLaunchKernel", pid_of(tr), pid_of(tr), x->host - API_NS,
	     x->host);
	fprintf(tr->f, "\"cbid\": 211, \"correlation\": %" PRIu64 "}}", tr->correlation);
}

static void kernel(const struct sim *s, const struct sim_trace *tr, const char *name, int stream,
		   double start, double end)
{
	uint32_t device = tr->rank % s->options.gpus_per_node;

	span(s, tr, "kernel", name, device, stream, start, end);
	fprintf(tr->f, "\"device\": %" PRIu32 ", \"stream\": %d, \"correlation\": %" PRIu64, device,
		stream, tr->correlation);
}

static void members(const struct sim *s, const struct sim_trace *tr, enum sim_group g, FILE *f)
{
	const struct rank_group *of = &s->job.ranks[tr->rank].groups[s->groups[tr->rank][g]];

	for (uint32_t i = 0; i < of->n_ranks; i++)
		fprintf(f, "%s%" PRIu32, i ? ", " : "", of->ranks[i]);
}

static void collective(const struct sim *s, struct sim_trace *tr, const struct sim_op *op,
		       const struct sim_row *row, const struct sim_span *x, double end)
{
	const struct sim_plan *p = &s->plan;
	const struct rank_group *g = &s->job.ranks[tr->rank].groups[s->groups[tr->rank][op->group]];
	uint64_t n = op->bytes / 2;
	int stream = op->kind == SIM_POST   ? STREAM_POST
		     : op->kind == SIM_SEND ? STREAM_SEND
		     : op->kind == SIM_RECV ? STREAM_RECV
					    : STREAM_MEET;
	double start = x->start;

	if (op->kind == SIM_POST || op->kind == SIM_SEND) { /* one after the other */
		double *busy = &tr->busy[op->kind == SIM_SEND];

		start = MAX(start, *busy);
		end = MAX(end, start);
		*busy = end;
	}
	launch(s, tr, x);
	kernel(s, tr, sim_comm_words[row->op].kernel, stream, start, end);
	fprintf(tr->f,
		", \"Collective name\": \"%s\", \"In msg nelems\": %" PRIu64
		", \"Out msg nelems\": %" PRIu64 ", \"Group size\": %" PRIu32
		", \"dtype\": \"BFloat16\", \"Process Group Name\": \"%s\", "
		"\"Process Group Description\": \"%s\"",
		sim_comm_words[row->op].name, n, n, g->size, intern_get(&s->job.names, g->name),
		intern_get(&s->job.names, g->desc));
	if (g->n_ranks) {
		fputs(", \"Process Group Ranks\": \"[", tr->f);
		members(s, tr, op->group, tr->f);
		fputs("]\"", tr->f);
	}
	if (op->group == SIM_PP)
		fprintf(tr->f, ", \"%s Rank\": %" PRIu32, op->kind == SIM_SEND ? "Dst" : "Src",
			(p->stage_of[tr->rank] + (op->by > 0 ? 1 : p->stages - 1)) % p->stages);
	else
		fprintf(tr->f, ", \"Seq\": %" PRIu64,
			(uint64_t)(s->step - s->run_from) * p->of_kind[op->group] + op->place);
	fputs("}}", tr->f);
}

static void one_op(const struct sim *s, struct sim_trace *tr, const struct sim_program *p, size_t i)
{
	const struct sim_rank *r = &s->ranks[tr->rank];
	const struct sim_op *op = &p->ops.v[i];
	const struct sim_span *x = &r->spans[i];
	double end = x->end;

	if (op->kind == SIM_AWAIT)
		return;
	if (op->kind == SIM_WORK && op->phase == SIM_DATA_PHASE) {
		if (x->end > x->start)
			host_range(s, tr,
				   "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
				   x->start, x->end);
		return;
	}
	if (op->phase < SIM_PHASES)
		host_range(s, tr, sim_phase_names[op->phase], x->host - (double)op->launch_ns,
			   x->host + 500);
	if (op->kind == SIM_WORK) {
		launch(s, tr, x);
		kernel(s, tr, sim_kernel_names[op->kernel], STREAM_COMPUTE, x->start, end);
		fputs("}}", tr->f);
		return;
	}
	if (op->kind == SIM_POST || op->kind == SIM_SEND)
		end = MAX(s->insts[sim_inst_of(s, tr->rank, op)].done, x->start);
	collective(s, tr, op, &p->rows[op->row], x, end);
}

static void head(const struct sim *s, const struct sim_trace *tr)
{
	const struct rank_info *info = &s->job.ranks[tr->rank];

	fprintf(tr->f,
		"{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": %" PRId32
		", \"name\": \"simulated\", \"totalGlobalMem\": 85899345920, \"numSms\": 132}], "
		"\"distributedInfo\": {\"backend\": \"nccl\", \"rank\": %" PRIu32
		", \"world_size\": %" PRIu32 ", \"pg_count\": %" PRIu32 ", \"pg_config\": [",
		info->gpu_index, tr->rank, s->plan.world, info->n_groups);
	for (int g = 0, n = 0; g < SIM_GROUPS; g++) {
		uint32_t row = s->groups[tr->rank][g];

		if (row == NO_ID)
			continue;
		fprintf(tr->f,
			"%s{\"pg_name\": \"%s\", \"pg_desc\": \"%s\", \"backend_config\": "
			"\"cuda:nccl\", \"pg_size\": %" PRIu32,
			n++ ? ", " : "", intern_get(&s->job.names, info->groups[row].name),
			intern_get(&s->job.names, info->groups[row].desc), info->groups[row].size);
		if (info->groups[row].n_ranks) {
			fputs(", \"ranks\": [", tr->f);
			members(s, tr, (enum sim_group)g, tr->f);
			fputs("]", tr->f);
		}
		fputs("}", tr->f);
	}
	fprintf(tr->f,
		"]}, \"displayTimeUnit\": \"ms\", \"traceEvents\": [\n{\"name\": \"process_name\", "
		"\"ph\": \"M\", \"ts\": 0, \"pid\": %" PRId64
		", \"tid\": 0, \"args\": {\"name\": \"python3\"}}",
		pid_of(tr));
}

/* The file of a later run lies in a folder of its own, which is made with its first step. */
static int open_trace(const struct sim *s, struct sim_trace *tr)
{
	_cleanup_free_ char *folder = s->run ? xasprintf("%s/run%" PRIu32, s->trace_folder, s->run)
					     : xstrdup(s->trace_folder);
	_cleanup_free_ char *path = xasprintf("%s/rank%" PRIu32 ".json", folder, tr->rank);

	if (s->run && mkdir(folder, 0777) < 0 && errno != EEXIST)
		return -errno;
	tr->f = fopen(path, "we");
	return tr->f ? 0 : -errno;
}

static int begin_trace(struct sim *s, struct sim_trace *tr)
{
	int status;

	if (tr->f || tr->status < 0)
		return tr->status;
	status = tr->status = open_trace(s, tr);
	if (status < 0)
		return status;
	tr->correlation = 1000;
	tr->busy[0] = tr->busy[1] = 0;
	head(s, tr);
	return 0;
}

static void end_trace(struct sim_trace *tr)
{
	bool bad;

	if (!tr->f)
		return;
	fprintf(tr->f,
		"\n], \"traceName\": \"rank%" PRIu32 ".json\", \"baseTimeNanoseconds\": %" PRId64
		"}\n",
		tr->rank, SIM_EPOCH_NS - (int64_t)BEFORE_NS);
	bad = ferror(tr->f) != 0;
	bad |= fclose(tr->f) != 0;
	tr->f = NULL;
	if (bad && tr->status >= 0)
		tr->status = -EIO;
}

void sim_trace_run(struct sim *s)
{
	for (size_t i = 0; i < s->n_traces; i++)
		end_trace(&s->traces[i]);
}

void sim_trace_step(struct sim *s)
{
	for (size_t k = 0; k < s->n_traces; k++) {
		struct sim_trace *tr = &s->traces[k];
		const struct sim_rank *r = &s->ranks[tr->rank];
		const struct sim_program *p = &s->plan.programs[s->plan.stage_of[tr->rank]];
		char name[48];

		if (s->step < s->trace_first || s->step > s->trace_last ||
		    !sim_recorded(s, tr->rank) || begin_trace(s, tr) < 0)
			continue;
		snprintf(name, sizeof(name), "ProfilerStep#%" PRIu32, sim_number(s));
		host_range(s, tr, name, r->step_host, r->t + SIM_READ_NS);
		for (int d = 0; d < HOST_DETAILS; d++)
			if (r->stalled[d][1] > r->stalled[d][0])
				host_range(s, tr, sim_detail_words[d], r->stalled[d][0],
					   r->stalled[d][1]);
		if (r->saved[1] > r->saved[0])
			host_range(s, tr, "save_checkpoint", r->saved[0], r->saved[1]);
		for (size_t i = 0; i < p->ops.n; i++)
			one_op(s, tr, p, i);
		span(s, tr, "cuda_runtime", "cudaStreamSynchronize", pid_of(tr), pid_of(tr),
		     MIN(r->host, r->t) + 1000, r->t + SIM_READ_NS - 1000);
		fputs("\"cbid\": 131}}", tr->f);
	}
}

int sim_trace(struct sim *s, const int64_t *ranks, size_t n, const char *folder, int64_t first,
	      int64_t last, struct error *reterr)
{
	if (n > SIM_TRACES_MAX)
		return error_set(reterr, -EINVAL, "traces of %zu ranks: at most %u, see --ranks", n,
				 SIM_TRACES_MAX);
	s->traces = xcalloc(n + 1, sizeof(*s->traces));
	s->trace_folder = folder;
	s->trace_first = first < 0 ? 0 : (uint32_t)MIN(first, UINT32_MAX);
	s->trace_last = last < 0 ? UINT32_MAX : (uint32_t)MIN(last, UINT32_MAX);
	for (size_t i = 0; i < n; i++) {
		struct sim_trace *tr = &s->traces[i];
		struct sim_rank *r;
		int status;

		if (ranks[i] >= s->plan.world)
			return error_set(reterr, -EINVAL,
					 "there is no rank %" PRId64 " in a job of %" PRIu32,
					 ranks[i], s->plan.world);
		tr->rank = (uint32_t)ranks[i];
		s->n_traces++;
		status = begin_trace(s, tr);
		if (status < 0)
			return error_set(reterr, status, "%s/rank%" PRIu32 ".json: %s", folder,
					 tr->rank, strerror(-status));
		r = &s->ranks[tr->rank];
		r->spans = xcalloc(sim_ops_most(s, s->plan.stage_of[tr->rank]), sizeof(*r->spans));
	}
	return 0;
}

int sim_trace_end(struct sim *s, struct error *reterr)
{
	int status = 0;

	for (size_t i = 0; i < s->n_traces; i++) {
		struct sim_trace *tr = &s->traces[i];

		end_trace(tr);
		if (tr->status < 0)
			status = error_set(reterr, tr->status,
					   "the trace of rank %" PRIu32 " could not be written: %s",
					   tr->rank, strerror(-tr->status));
	}
	s->n_traces = 0;
	return status;
}
