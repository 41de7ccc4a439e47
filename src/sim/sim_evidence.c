/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_evidence.c - of a job that stands still: who lives, who times out when, who is told to dump;
 * and the files, part by part.
 */
#include "sim/sim_evidence.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DUMP_WAIT_NS 60e9 /* the watchdog waits for dumps before it ends the process */

const char *const sim_part_names[SIM_PARTS] = { "dumps", "log", "power", "stacks", "kernel" };

static int (*const writers[SIM_PARTS])(struct sim *, struct error *) = {
	[SIM_DUMPS] = sim_write_dumps,		 [SIM_LOG] = sim_write_log,
	[SIM_POWER] = sim_write_power,		 [SIM_STACKS] = sim_write_stacks,
	[SIM_KERNEL_LOG] = sim_write_kernel_log,
};

int sim_evidence(struct sim *s, const struct sim_evidence_options *o, struct error *reterr)
{
	uint32_t world = s->plan.world;
	struct sim_evidence *e;

	if (sim_hang_step(&s->options) == UINT32_MAX)
		return error_set(reterr, -EINVAL,
				 "no fault makes the job stand still; see --list-faults");
	if (world > SIM_EVIDENCE_RANKS_MAX)
		return error_set(reterr, -EINVAL, "dumps of a job of %" PRIu32 " ranks: at most %u",
				 world, SIM_EVIDENCE_RANKS_MAX);
	for (size_t i = 0; i < o->n_ranks; i++)
		if (o->ranks[i] >= world)
			return error_set(reterr, -EINVAL,
					 "there is no rank %" PRId64 " in a job of %" PRIu32,
					 o->ranks[i], world);
	for (size_t i = 0; i < s->options.faults.n; i++) {
		enum sim_fault_kind kind = s->options.faults.v[i].kind;

		if (o->gloo && (kind == SIM_GPU_ERROR || kind == SIM_NETWORK_ERROR))
			return error_set(reterr, -EINVAL, "%s is of NCCL, not of Gloo",
					 sim_fault_infos[kind].name);
	}
	if ((uint64_t)(o->n_ranks ? o->n_ranks : world) * o->ring > SIM_EVIDENCE_CALLS_MAX)
		return error_set(reterr, -EINVAL,
				 "rings of %" PRIu32 " entries of so many ranks: at most %u "
				 "entries in all, see --ranks and --ring",
				 o->ring, SIM_EVIDENCE_CALLS_MAX);
	e = s->evidence = xcalloc(1, sizeof(*e));
	e->o = *o;
	e->n_ranks = o->n_ranks ? o->n_ranks : world;
	e->ranks = xmalloc(e->n_ranks * sizeof(*e->ranks));
	for (size_t i = 0; i < e->n_ranks; i++)
		e->ranks[i] = o->n_ranks ? (uint32_t)o->ranks[i] : (uint32_t)i;
	sim_past_begin(s);
	return 0;
}

void sim_evidence_free(struct sim *s)
{
	struct sim_evidence *e = s->evidence;

	if (!e)
		return;
	for (size_t i = 0; i < e->n_ranks; i++)
		free(e->past[i].v);
	sim_hang_free(e->hang);
	free(e->past);
	free(e->ranks);
	free(e->ends.v);
	free(e);
	s->evidence = NULL;
}

/* --- who lives, who speaks --- */

bool sim_has_part(const struct sim_evidence *e, enum sim_part part)
{
	return !(e->o.without >> part & 1);
}

bool sim_lives(const struct sim_evidence *e, uint32_t rank)
{
	return e->hang->ranks[rank].stand != SIM_GONE;
}

static bool is_silent(const struct sim_hang_rank *r)
{
	return r->fault && r->fault->kind == SIM_MISSING &&
	       (r->fault->how == SIM_SILENT || !r->fault->from);
}

/* The watchdog's clock runs from the moment at which the call was made. */
static double own_time_out(const struct sim_evidence *e, uint32_t rank)
{
	const struct sim_hang_rank *r = &e->hang->ranks[rank];
	const struct sim_call *c = sim_hang_oldest(r);

	if (!c || e->o.gloo || e->crashed || r->stand == SIM_GONE || is_silent(r))
		return INFINITY;
	return c->created + e->o.timeout_s * 1e9;
}

double sim_told(const struct sim *s, uint32_t rank)
{
	const struct sim_evidence *e = s->evidence;

	if (!isfinite(e->spoke) || !sim_lives(e, rank) || !sim_lives(e, 0) ||
	    is_silent(&e->hang->ranks[rank]) || is_silent(&e->hang->ranks[0]))
		return INFINITY;
	return e->spoke + 0.2e9 + 1e9 * sim_share(s->options.seed ^ 0x706f6c6c, rank, 0);
}

double sim_times_out(const struct sim *s, uint32_t rank)
{
	double own = own_time_out(s->evidence, rank), told = sim_told(s, rank);

	if (told < own || own > s->evidence->spoke + DUMP_WAIT_NS)
		return INFINITY;
	return own;
}

bool sim_dumped(const struct sim *s, uint32_t rank)
{
	const struct sim_evidence *e = s->evidence;

	if (e->crashed || e->starts || !sim_lives(e, rank) || is_silent(&e->hang->ranks[rank]))
		return false;
	return e->o.gloo || isfinite(sim_told(s, rank)) || isfinite(sim_times_out(s, rank));
}

/* Does somebody end the job, rather than that it waits? */
static bool ends(const struct sim_evidence *e, const struct sim_fault *f)
{
	if (f->kind == SIM_PREEMPTED || f->kind == SIM_CONFIGURATION)
		return true;
	if (f->kind == SIM_RENDEZVOUS)
		return f->how != SIM_STILL_WAITED;
	if (f->kind != SIM_DEAD && f->kind != SIM_GPU_ERROR)
		return false;
	return f->launcher || e->o.gloo; /* Gloo's peers fail at once */
}

bool sim_came(const struct sim_evidence *e, uint32_t rank)
{
	return !e->starts || e->starts->kind != SIM_RENDEZVOUS || !e->starts->has[rank] ||
	       e->starts->how == SIM_NO_WAY;
}

bool sim_struck(const struct sim *s, size_t fault)
{
	const struct sim_hang *h = s->evidence->hang;
	const struct sim_fault *f = &s->options.faults.v[fault];
	int64_t step = sim_fault_step(f, s->options.steps);

	if (!sim_fault_hangs(f))
		return step < (int64_t)h->step;
	for (uint32_t r = 0; r < s->plan.world; r++)
		if ((!f->has || f->has[r]) && h->ranks[r].step >= step)
			return true;
	return false;
}

bool sim_crashed(const struct sim *s)
{
	return s->evidence->crashed;
}

/* --- groups and what they carry --- */

uint32_t sim_group_name(const struct sim *s, uint32_t group, uint32_t rank)
{
	uint32_t n = 1;

	if (group == SIM_WORLD)
		return 0;
	for (uint32_t g = 0; g < group; g++)
		n += s->plan.members[g] > 1 ? s->plan.groups[g] : 0;
	return n + s->plan.group_of[group][rank];
}

uint32_t sim_group_id(const struct sim *s, uint32_t group, uint32_t rank)
{
	return group == SIM_WORLD ? 0 : s->groups[rank][group] + 1;
}

uint32_t sim_group_size(const struct sim *s, uint32_t group)
{
	return group == SIM_WORLD ? s->plan.world : s->plan.members[group];
}

uint32_t sim_local(const struct sim_evidence *e, uint32_t group, uint32_t rank)
{
	return group == SIM_WORLD ? rank : e->hang->local[group][rank];
}

uint32_t sim_member(const struct sim *s, uint32_t group, uint32_t rank, uint32_t i)
{
	const struct sim_plan *p = &s->plan;

	if (group == SIM_WORLD)
		return i;
	return s->evidence->hang
	    ->members[group][(size_t)p->group_of[group][rank] * p->members[group] + i];
}

uint64_t sim_numel(const struct sim *s, const struct sim_call *c, bool out)
{
	uint64_t size = c->bytes <= 16 ? 4 : 2, n = MAX(c->bytes / size, 1u);
	uint32_t members = sim_group_size(s, c->group);

	if (c->what == (out ? COMM_REDUCE_SCATTER : COMM_ALL_GATHER))
		return MAX(n / members, 1u);
	if (c->what == COMM_ALL_GATHER || c->what == COMM_REDUCE_SCATTER)
		return MAX(n / members, 1u) * members;
	return n;
}

struct sim_status sim_status_of(const struct sim *s, uint32_t rank, uint32_t group)
{
	const struct sim_hang *h = s->evidence->hang;
	const struct sim_hang_rank *r = &h->ranks[rank];
	int64_t n = group < SIM_GROUPS ? (int64_t)h->before[s->plan.stage_of[rank]][group] : 0;
	struct sim_status st = { n ? n : -1, n ? n : -1, n ? n : -1 };

	for (size_t i = 0; i < r->calls.n; i++) {
		const struct sim_call *c = &r->calls.v[i];

		if (c->group != group)
			continue;
		st.enqueued = c->seq;
		st.started = isnan(c->begun) ? st.started : c->seq;
		st.completed = isnan(c->ended) ? st.completed : c->seq;
	}
	return st;
}

/* --- writing --- */

void sim_put(struct buf *b, const char *format, ...)
{
	char text[4096];
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	buf_put(b, text, MIN((size_t)MAX(n, 0), sizeof(text) - 1));
}

const char *sim_stamp(double t, enum sim_stamp style, int digits, char out[48])
{
	int64_t ns = SIM_EPOCH_NS + (int64_t)t, part = ns % 1000000000;
	time_t seconds = (time_t)(ns / 1000000000);
	struct tm tm;
	size_t n;

	for (int i = digits; i < 9; i++)
		part /= 10;
	gmtime_r(&seconds, &tm);
	n = strftime(out, 32,
		     style == STAMP_SMI	      ? "%Y/%m/%d %H:%M:%S"
		     : style == STAMP_GLOG    ? "%m%d %H:%M:%S"
		     : style == STAMP_KERNEL  ? "%b %d %H:%M:%S"
		     : style == STAMP_SLURM   ? "%Y-%m-%dT%H:%M:%S"
		     : style == STAMP_ELASTIC ? "%Y-%m-%d_%H:%M:%S"
					      : "%Y-%m-%d %H:%M:%S",
		     &tm);
	if (digits)
		snprintf(out + n, 48 - n, ".%0*" PRId64, digits, part);
	return out;
}

int sim_save(const struct sim *s, const char *name, const struct buf *b, struct error *reterr)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", s->evidence->o.folder, name);
	FILE *f;
	bool bad;

	f = fopen(path, "we");
	if (!f)
		return error_set(reterr, -errno, "%s: %s", path, strerror(errno));
	bad = b->len && fwrite(b->data, 1, b->len, f) != b->len;
	bad |= fclose(f) != 0;
	return bad ? error_set(reterr, -EIO, "%s: %s", path, strerror(errno)) : 0;
}

int sim_evidence_write(struct sim *s, struct error *reterr)
{
	struct sim_evidence *e = s->evidence;
	int r = sim_hang_run(s, e->o.gloo, &e->hang, reterr);

	if (r < 0)
		return r;
	for (size_t i = 0; i < s->options.faults.n; i++)
		e->crashed |= sim_fault_hangs(&s->options.faults.v[i]) && sim_struck(s, i) &&
			      ends(e, &s->options.faults.v[i]);
	for (size_t i = 0; i < s->options.faults.n && !e->starts; i++)
		if (sim_fault_starts(&s->options.faults.v[i]))
			e->starts = &s->options.faults.v[i];
	e->spoke = INFINITY;
	for (uint32_t i = 0; i < s->plan.world; i++)
		e->spoke = MIN(e->spoke, own_time_out(e, i));
	e->last = isfinite(e->spoke) ? e->spoke + DUMP_WAIT_NS : e->hang->since + 5e9;
	if (e->starts)
		e->last = e->o.timeout_s * (e->crashed ? 1e9 : 5e8);
	else if (e->o.gloo && !e->crashed)
		e->last = e->hang->since + e->o.timeout_s * 1e9;
	for (int part = 0; part < SIM_PARTS && r >= 0; part++)
		if (sim_has_part(e, (enum sim_part)part))
			r = writers[part](s, reterr);
	return r;
}
