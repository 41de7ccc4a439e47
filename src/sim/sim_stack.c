/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_stack.c - py-spy's text of the main thread of every process that lives: in what its host is,
 * by where it stands in its program.
 */
#include "sim/sim_evidence.h"
#include "sim/sim_words.h"

#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

static const char *const loader[] = {
	"wait (threading.py:324)",
	"get (queue.py:180)",
	"_try_get_data (torch/utils/data/dataloader.py:1133)",
	"_get_data (torch/utils/data/dataloader.py:1285)",
	"_next_data (torch/utils/data/dataloader.py:1318)",
	"__next__ (torch/utils/data/dataloader.py:631)",
	NULL,
};
static const char *const save[] = {
	"_save (torch/serialization.py:900)",
	"save (torch/serialization.py:654)",
	"save_checkpoint (checkpoint.py:66)",
	NULL,
};
static const char *const stalls[HOST_DETAILS][5] = {
	[HOST_UNKNOWN] = { "match_spans (metrics.py:88)", "score (metrics.py:121)" },
	[HOST_COMPILE] = { "_run_pass (torch/_inductor/fx_passes/post_grad.py:121)",
			   "compile_fx_inner (torch/_inductor/compile_fx.py:608)",
			   "_compile (torch/_dynamo/convert_frame.py:715)" },
	[HOST_GC] = { "collect_garbage (train.py:143)" },
	[HOST_PYTHON] = { "match_spans (metrics.py:88)", "score (metrics.py:121)" },
	[HOST_IO] = { "stat (pathlib.py:1013)", "exists (pathlib.py:1235)",
		      "newest_file (storage.py:22)" },
	[HOST_SYNC] = { "synchronize (torch/cuda/__init__.py:985)" },
};
static const char *const *fault_frames(const struct sim_fault *f)
{
	return f->kind == SIM_DATA ? loader : f->kind == SIM_SAVE ? save : stalls[f->detail];
}

/* The call in which the host itself waits: on Gloo each one, on NCCL a barrier. */
static const struct sim_call *waited_for(const struct sim_evidence *e,
					 const struct sim_hang_rank *r)
{
	const struct sim_call *last = r->calls.n ? &r->calls.v[r->calls.n - 1] : NULL;

	if (r->stand != SIM_WAITS)
		return NULL;
	if (e->o.gloo) { /* sends and posted ones do not hold it up */
		for (size_t i = r->calls.n; i-- > 0;)
			if (!isnan(r->calls.v[i].begun) && isnan(r->calls.v[i].ended) &&
			    r->calls.v[i].what != COMM_SEND)
				return &r->calls.v[i];
		return last;
	}
	return last && last->barrier ? last : NULL;
}

static void put_where(const struct sim *s, struct buf *b, const struct sim_hang_rank *r)
{
	const struct sim_evidence *e = s->evidence;
	const struct sim_call *c = waited_for(e, r);
	bool synced = r->pc + e->hang->queue >= r->program->ops.n;

	if (r->fault && r->stand == SIM_IDLE && !e->starts) {
		for (const char *const *f = fault_frames(r->fault); *f; f++)
			sim_put(b, "    %s\n", *f);
	} else if (c) {
		sim_put(b,
			"    %s (torch/distributed/distributed_c10d.py:%" PRIu32 ")\n"
			"    wrapper (torch/distributed/c10d_logger.py:81)\n",
			c->barrier ? "barrier" : sim_comm_words[c->what].function,
			c->barrier ? 4635 : sim_comm_words[c->what].line);
		sim_put(b, c->barrier ? "    save_checkpoint (checkpoint.py:41)\n"
				      : "    forward (model.py:118)\n");
	} else if (synced) {
		sim_put(b, "    log_metrics (train.py:136)\n");
	} else {
		sim_put(b, "    forward (model.py:118)\n"
			   "    _call_impl (torch/nn/modules/module.py:1750)\n");
	}
}

/* Where it waits for the others before there is a group. */
static void put_start(struct buf *b)
{
	sim_put(b, "    _create_c10d_store (torch/distributed/rendezvous.py:189)\n"
		   "    _env_rendezvous_handler (torch/distributed/rendezvous.py:278)\n"
		   "    init_process_group (torch/distributed/distributed_c10d.py:1736)\n"
		   "    wrapper (torch/distributed/c10d_logger.py:95)\n"
		   "    main (train.py:240)\n");
}

int sim_write_stacks(struct sim *s, struct error *reterr)
{
	const struct sim_evidence *e = s->evidence;
	_cleanup_free_ char *folder = xasprintf("%s/stacks", e->o.folder);
	struct buf b = { 0 };
	int r = 0;

	if (e->crashed)
		return 0;
	if (mkdir(folder, 0777) < 0 && errno != EEXIST)
		return error_set(reterr, -errno, "%s: %s", folder, strerror(errno));
	for (size_t i = 0; i < e->n_ranks && r >= 0; i++) {
		uint32_t rank = e->ranks[i];
		const struct sim_hang_rank *h = &e->hang->ranks[rank];
		char name[64];

		if (!sim_lives(e, rank) || (h->fault && h->fault->kind == SIM_MISSING))
			continue; /* nothing says what that rank is doing */
		b.len = 0;
		sim_put(&b,
			"Process %" PRIu32 ": /opt/venv/bin/python -u train.py --config run.yaml\n"
			"Python v3.11.9 (/usr/bin/python3.11)\n\n"
			"Thread %" PRIu32 " (%s): \"MainThread\"\n",
			SIM_PID(rank), SIM_PID(rank), e->o.gloo ? "idle" : "active");
		if (e->starts) {
			put_start(&b);
		} else {
			put_where(s, &b, h);
			sim_put(&b, "    train_step (train.py:114)\n    main (train.py:260)\n");
		}
		sim_put(&b, "    <module> (train.py:291)\n");
		snprintf(name, sizeof(name), "stacks/rank%" PRIu32 ".txt", rank);
		r = sim_save(s, name, &b, reterr);
	}
	buf_done(&b);
	return r;
}
