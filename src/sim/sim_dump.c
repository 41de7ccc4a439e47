/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_dump.c - Flight Recorder dumps of a hang, in NCCL's dialect or Gloo's.
 *
 * NCCL's says what is scheduled, started and completed, and how far each group came; Gloo's says
 * "scheduled" of everything and tells progress by `retired` alone, knows no groups but by the
 * entries, and has no sends and receives. Fields are tables in the order of the pickle; JSON has
 * them by name.
 */
#include "sim/sim_evidence.h"
#include "sim/sim_value.h"
#include "sim/sim_words.h"

#include <math.h>
#include <stdio.h>

#define STACK_DEPTH 6

struct dumping {
	const struct sim *s;
	const struct sim_evidence *e;
	uint32_t rank;
	struct sim_value v;
	const struct sim_call *c; /* the entry's */
	int64_t record;
};

struct field {
	const char *name;
	void (*put)(struct dumping *d);
	enum { BOTH, PICKLE_ONLY, JSON_ONLY, NCCL_ONLY } where;
};

static bool is_recorded(const struct sim_evidence *e, const struct sim_call *c)
{
	return !e->o.gloo || sim_comm_words[c->what].gloo;
}

static bool is_pair(const struct sim_call *c)
{
	return c->group == SIM_PP;
}

static bool ended(const struct sim_call *c)
{
	return !isnan(c->ended);
}

/* --- an entry --- */

static void put_frames(struct dumping *d)
{
	static const char *const torch =
	    "/opt/venv/lib/python3.11/site-packages/torch/distributed/";
	const struct sim_call *c = d->c;
	const struct sim_comm_words *w = &sim_comm_words[c->what];
	bool inside = !c->barrier && c->phase < SIM_PHASES;
	struct {
		const char *name, *folder, *file;
		uint32_t line;
	} frames[STACK_DEPTH] = {
		{ c->barrier ? "barrier" : w->function, torch, "distributed_c10d.py",
		  c->barrier ? 4635 : w->line },
		{ "wrapper", torch, "c10d_logger.py", 81 },
		{ c->barrier ? "save_checkpoint"
		  : inside   ? sim_phase_names[c->phase]
			     : "exchange",
		  "/workspace/", c->barrier ? "checkpoint.py" : "model.py", 40u + c->phase },
		{ "train_step", "/workspace/", "train.py", c->backward ? 114 : 110 },
		{ "main", "/workspace/", "train.py", 260 },
		{ "<module>", "/workspace/", "train.py", 291 },
	};

	sim_open(&d->v, '[');
	for (size_t i = 0; i < STACK_DEPTH; i++) {
		char path[128];

		snprintf(path, sizeof(path), "%s%s", frames[i].folder, frames[i].file);
		sim_open(&d->v, '{');
		sim_key(&d->v, "name");
		sim_text(&d->v, frames[i].name);
		sim_key(&d->v, "filename");
		sim_text(&d->v, path);
		sim_key(&d->v, "line");
		sim_whole(&d->v, frames[i].line);
		sim_close(&d->v, '{');
	}
	sim_close(&d->v, '[');
}

static void put_record(struct dumping *d)
{
	sim_whole(&d->v, d->record);
}

static void put_pg_id(struct dumping *d)
{
	sim_whole(&d->v, sim_group_id(d->s, d->c->group, d->rank));
}

static void put_group(struct dumping *d)
{
	char name[16];

	snprintf(name, sizeof(name), "%" PRIu32, sim_group_name(d->s, d->c->group, d->rank));
	sim_open(&d->v, '(');
	sim_text(&d->v, name);
	sim_text(&d->v, sim_group_descs[d->c->group]);
	sim_close(&d->v, '(');
}

static void put_thread(struct dumping *d)
{
	sim_text(&d->v, d->e->o.gloo ? "python3" : "pt_main_thread");
}

static void put_thread_id(struct dumping *d)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, UINT64_C(139900000000000) + d->rank * 4096u);
	sim_text(&d->v, text);
}

static void put_seq(struct dumping *d)
{
	sim_whole(&d->v, is_pair(d->c) ? 0 : d->c->seq);
}

static void put_p2p_seq(struct dumping *d)
{
	sim_whole(&d->v, is_pair(d->c) ? d->c->seq : 0);
}

static void put_op_id(struct dumping *d)
{
	sim_whole(&d->v, d->c->seq);
}

static void put_name(struct dumping *d)
{
	const struct sim_call *c = d->c;
	const struct sim_comm_words *w = &sim_comm_words[c->what];
	char text[64];

	if (d->e->o.gloo)
		snprintf(text, sizeof(text), "gloo:%s", c->barrier ? "barrier" : w->gloo);
	else if (is_pair(c))
		snprintf(text, sizeof(text), "nccl:%s %" PRIu32 "%s%" PRIu32, w->recorder,
			 sim_local(d->e, c->group, d->rank), c->what == COMM_SEND ? "->" : "<-",
			 sim_local(d->e, c->group, c->peer));
	else
		snprintf(text, sizeof(text), "nccl:%s",
			 c->barrier ? "all_reduce_barrier" : w->recorder);
	sim_text(&d->v, text);
}

static int64_t stamp(const struct dumping *d, double t)
{
	return SIM_EPOCH_NS + (int64_t)(t * (1 + d->s->drift[d->rank]) + d->s->offset[d->rank]);
}

static void put_created(struct dumping *d)
{
	sim_whole(&d->v, stamp(d, d->c->created));
}

static void put_duration(struct dumping *d)
{
	sim_real(&d->v, (d->c->ended - d->c->begun) / 1e6);
}

static void put_sizes(struct dumping *d, bool out)
{
	const struct sim_call *c = d->c;
	bool gloo = d->e->o.gloo;

	sim_open(&d->v, '[');
	if (!gloo || !c->barrier) {
		uint64_t n = sim_numel(d->s, c, out);

		sim_open(&d->v, '[');
		if (gloo && c->what == COMM_ALL_GATHER && out)
			sim_whole(&d->v, sim_group_size(d->s, c->group));
		if (gloo && (c->what == COMM_ALL_GATHER || c->what == COMM_REDUCE_SCATTER))
			n = sim_numel(d->s, c, false); /* a shard, or what is reduced in place */
		sim_whole(&d->v, (int64_t)n);
		sim_close(&d->v, '[');
	}
	sim_close(&d->v, '[');
}

static void put_inputs(struct dumping *d)
{
	put_sizes(d, false);
}

static void put_outputs(struct dumping *d)
{
	put_sizes(d, true);
}

static void put_types(struct dumping *d)
{
	sim_open(&d->v, '[');
	if (!d->e->o.gloo || !d->c->barrier)
		sim_text(&d->v, d->c->bytes <= 16 ? "Float" : "BFloat16");
	sim_close(&d->v, '[');
}

static bool knows_start(const struct dumping *d)
{
	return d->e->o.timing && !isnan(d->c->begun);
}

static void put_state(struct dumping *d)
{
	sim_text(&d->v, d->e->o.gloo	 ? "scheduled"
			: ended(d->c)	 ? "completed"
			: knows_start(d) ? "started"
					 : "scheduled");
}

/* The watchdog looks now and then: it notices late. */
static void put_noticed(struct dumping *d, bool known, double t)
{
	if (known && !d->e->o.gloo)
		sim_whole(&d->v, stamp(d, t) + 80000000);
	else
		sim_none(&d->v);
}

static void put_noticed_start(struct dumping *d)
{
	put_noticed(d, knows_start(d), d->c->begun);
}

static void put_noticed_end(struct dumping *d)
{
	put_noticed(d, ended(d->c), d->c->ended);
}

static void put_retired(struct dumping *d)
{
	sim_bool(&d->v, ended(d->c));
}

static void put_timeout(struct dumping *d)
{
	sim_whole(&d->v, (int64_t)(d->e->o.timeout_s * 1000));
}

static void put_is_p2p(struct dumping *d)
{
	sim_bool(&d->v, is_pair(d->c));
}

static const struct field entry_fields[] = {
	{ "frames", put_frames, PICKLE_ONLY },
	{ "record_id", put_record, BOTH },
	{ "pg_id", put_pg_id, BOTH },
	{ "process_group", put_group, BOTH },
	{ "thread_name", put_thread, BOTH },
	{ "thread_id", put_thread_id, BOTH },
	{ "collective_seq_id", put_seq, BOTH },
	{ "p2p_seq_id", put_p2p_seq, BOTH },
	{ "op_id", put_op_id, BOTH },
	{ "profiling_name", put_name, BOTH },
	{ "time_created_ns", put_created, BOTH },
	{ "duration_ms", put_duration, NCCL_ONLY },
	{ "input_sizes", put_inputs, BOTH },
	{ "input_dtypes", put_types, BOTH },
	{ "output_sizes", put_outputs, BOTH },
	{ "output_dtypes", put_types, BOTH },
	{ "state", put_state, BOTH },
	{ "time_discovered_started_ns", put_noticed_start, BOTH },
	{ "time_discovered_completed_ns", put_noticed_end, BOTH },
	{ "retired", put_retired, BOTH },
	{ "timeout_ms", put_timeout, BOTH },
	{ "is_p2p", put_is_p2p, BOTH },
};

static int by_name(const void *a, const void *b)
{
	const struct field *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

static void put_fields(struct dumping *d, const struct field *fields, size_t n)
{
	const struct field *order[ARRAY_SIZE(entry_fields)];

	for (size_t i = 0; i < n; i++)
		order[i] = &fields[i];
	if (d->v.json)
		qsort(order, n, sizeof(*order), by_name);
	sim_open(&d->v, '{');
	for (size_t i = 0; i < n; i++) {
		bool duration = order[i]->put == put_duration;

		if (order[i]->where == (d->v.json ? PICKLE_ONLY : JSON_ONLY) ||
		    (duration && (d->e->o.gloo || !d->e->o.timing || !ended(d->c))))
			continue;
		sim_key(&d->v, order[i]->name);
		order[i]->put(d);
	}
	sim_close(&d->v, '{');
}

/* --- the whole --- */

static void put_version(struct dumping *d)
{
	sim_text(&d->v, "2.10");
}

static void put_config_of(struct dumping *d, const char *name, const char *desc, uint32_t group)
{
	uint32_t n = sim_group_size(d->s, group);
	struct buf b = { 0 };

	for (uint32_t i = 0; i < n; i++)
		sim_put(&b, "%s%" PRIu32, i ? ", " : "[", sim_member(d->s, group, d->rank, i));
	buf_put(&b, "]", 2);
	sim_key(&d->v, name);
	sim_open(&d->v, '{');
	sim_key(&d->v, "name");
	sim_text(&d->v, name);
	sim_key(&d->v, "desc");
	sim_text(&d->v, desc);
	sim_key(&d->v, "ranks");
	sim_text(&d->v, (const char *)b.data);
	sim_close(&d->v, '{');
	buf_done(&b);
}

static void put_config(struct dumping *d)
{
	sim_open(&d->v, '{');
	if (d->e->o.gloo)
		put_config_of(d, "", "", SIM_WORLD);
	for (uint32_t i = 0; i <= SIM_GROUPS && !d->e->o.gloo; i++) {
		uint32_t group = i ? i - 1 : SIM_WORLD;
		char name[16];

		if (group != SIM_WORLD && d->s->plan.members[group] < 2)
			continue;
		snprintf(name, sizeof(name), "%" PRIu32, sim_group_name(d->s, group, d->rank));
		put_config_of(d, name, sim_group_descs[group], group);
	}
	sim_close(&d->v, '{');
}

static void put_count(struct dumping *d, const char *name, int64_t n)
{
	char text[24];

	sim_key(&d->v, name);
	snprintf(text, sizeof(text), "%" PRId64, n);
	if (d->v.json)
		sim_text(&d->v, text);
	else
		sim_whole(&d->v, n);
}

static void put_status(struct dumping *d)
{
	const struct sim_hang_rank *r = &d->e->hang->ranks[d->rank];

	sim_open(&d->v, '{');
	for (uint32_t i = 0; i <= SIM_GROUPS; i++) {
		uint32_t group = i ? i - 1 : SIM_WORLD;
		struct sim_status st = { -1, -1, -1 };
		char id[16];

		if (group != SIM_WORLD && d->s->plan.members[group] < 2)
			continue;
		if (group != SIM_PP)
			st = sim_status_of(d->s, d->rank, group);
		if (d->e->o.gloo && !r->seq[group])
			continue; /* not used yet */
		snprintf(id, sizeof(id), "%" PRIu32, sim_group_id(d->s, group, d->rank));
		sim_key(&d->v, id);
		sim_open(&d->v, '{');
		put_count(d, "last_enqueued_collective", st.enqueued);
		put_count(d, "last_started_collective", d->e->o.timing ? st.started : -1);
		put_count(d, "last_completed_collective", st.completed);
		sim_close(&d->v, '{');
	}
	sim_close(&d->v, '{');
}

static void put_library(struct dumping *d)
{
	sim_text(&d->v, d->e->o.gloo ? "" : "2.27.5");
}

static void put_comm_state(struct dumping *d)
{
	sim_open(&d->v, '{');
	sim_close(&d->v, '{');
}

static void put_entry(struct dumping *d, const struct sim_call *c, int64_t record, int64_t first)
{
	d->c = c;
	d->record = record;
	if (record >= first)
		put_fields(d, entry_fields, ARRAY_SIZE(entry_fields));
}

static size_t place_of(const struct sim_evidence *e, uint32_t rank)
{
	size_t i = 0;

	while (e->ranks[i] != rank)
		i++;
	return i;
}

static void put_entries(struct dumping *d)
{
	const struct sim_evidence *e = d->e;
	const struct sim_past *past = &e->past[place_of(e, d->rank)];
	const struct sim_hang_rank *r = &e->hang->ranks[d->rank];
	uint64_t kept = MIN(past->n, e->o.ring);
	uint32_t stage = d->s->plan.stage_of[d->rank];
	int64_t record = 0, total = 0, first;

	for (uint32_t g = 0; g < SIM_GROUPS; g++)
		if (!e->o.gloo || g != SIM_PP)
			record += e->hang->before[stage][g];
	total = record;
	for (uint64_t i = past->n - kept; i < past->n; i++)
		record -= is_recorded(e, &past->v[i % e->o.ring]);
	for (size_t i = 0; i < r->calls.n; i++)
		total += is_recorded(e, &r->calls.v[i]);
	first = total - e->o.ring;
	sim_open(&d->v, '[');
	for (uint64_t i = past->n - kept; i < past->n; i++)
		if (is_recorded(e, &past->v[i % e->o.ring]))
			put_entry(d, &past->v[i % e->o.ring], record++, first);
	for (size_t i = 0; i < r->calls.n; i++)
		if (is_recorded(e, &r->calls.v[i]))
			put_entry(d, &r->calls.v[i], record++, first);
	sim_close(&d->v, '[');
}

static const struct field dump_fields[] = {
	{ "version", put_version, BOTH },
	{ "pg_config", put_config, BOTH },
	{ "pg_status", put_status, BOTH },
	{ "comm_lib_version", put_library, BOTH },
	{ "nccl_comm_state", put_comm_state, JSON_ONLY },
	{ "entries", put_entries, BOTH },
};

int sim_write_dumps(struct sim *s, struct error *reterr)
{
	const struct sim_evidence *e = s->evidence;
	struct dumping d = { .s = s, .e = e };
	int r = 0;

	for (size_t i = 0; i < e->n_ranks && r >= 0; i++) {
		char name[64];

		d.rank = e->ranks[i];
		if (!sim_dumped(s, d.rank))
			continue;
		sim_value_begin(&d.v, e->o.json);
		put_fields(&d, dump_fields, ARRAY_SIZE(dump_fields));
		sim_value_end(&d.v);
		snprintf(name, sizeof(name),
			 e->o.json ? "nccl_trace_rank_%" PRIu32 ".json"
				   : "nccl_trace_rank_%" PRIu32,
			 d.rank);
		r = sim_save(s, name, &d.v.b, reterr);
	}
	sim_value_done(&d.v);
	return r;
}
