/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json.c - the report for programs: schema 1 of docs/diagnose.schema.json, additions only.
 *
 * Unknown is null and never 0; the unit is in the key; the same report gives the same bytes.
 */
#include "show/show.h"
#include "model/layout.h"
#include "show/clean.h"
#include "show/coverage.h"
#include "show/json_scene.h"

#include <math.h>

/* Rounded, so that the last bits of a sum do not show. */
json_t *json_number(double v, int decimals)
{
	double scale = pow(10, decimals);

	if (!isfinite(v))
		return json_null();
	v = round(v * scale) / scale;
	return json_real(v == 0 ? 0 : v); /* no -0.0 */
}

json_t *json_count_or_null(int64_t v)
{
	return v < 0 ? json_null() : json_integer(v);
}

static json_t *count(uint64_t v)
{
	return json_integer((json_int_t)MIN(v, (uint64_t)INT64_MAX));
}

static json_t *ms(int64_t ns)
{
	return ns < 0 ? json_null() : json_number((double)ns / 1e6, 3);
}

static json_t *epoch(int64_t ns)
{
	char text[32];

	if (ns < 0)
		return json_null();
	snprintf(text, sizeof(text), "%" PRId64, ns);
	return json_string(text);
}

json_t *json_text(const char *s)
{
	_cleanup_free_ char *clean = s ? clean_utf8(s) : NULL;

	return clean ? json_string(clean) : json_null();
}

static json_t *name_of(const struct job *job, uint32_t id)
{
	return id == NO_ID ? json_null() : json_text(intern_get(&job->names, id));
}

json_t *json_rank_of(const struct job *job, uint32_t row)
{
	char name[32];

	if (job->ranks[row].rank >= 0)
		return json_integer(job->ranks[row].rank);
	return json_string(job_rank_name(job, row, name));
}

json_t *json_texts(const char *const *v, size_t n)
{
	json_t *a = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(a, json_text(v[i]));
	return a;
}

static json_t *ranks_of(const struct job *job, const uint32_t *rows, size_t n)
{
	json_t *a = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(a, json_rank_of(job, rows[i]));
	return a;
}

static json_t *json_input(const struct job *job, const struct report_input *in)
{
	json_t *o = json_object(), *skipped = json_array();

	for (enum skip_reason i = 0; i < SKIP_REASONS; i++) {
		json_t *skip;

		if (!in->skipped[i])
			continue;
		skip = json_object();
		json_object_set_new(skip, "reason", json_string(skip_reason_text(i)));
		json_object_set_new(skip, "count", count(in->skipped[i]));
		json_array_append_new(skipped, skip);
	}
	json_object_set_new(o, "path", json_text(in->path));
	json_object_set_new(o, "format", json_text(in->format));
	if (!in->rows.n && in->rank >= 0)
		json_object_set_new(o, "ranks", json_pack("[I]", (json_int_t)in->rank));
	else
		json_object_set_new(o, "ranks", ranks_of(job, in->rows.v, in->rows.n));
	json_object_set_new(o, "steps", count(in->steps));
	json_object_set_new(o, "events", count(in->events));
	json_object_set_new(o, "unit", json_text(show_unit(in->format, false)));
	json_object_set_new(o, "kernels", count(in->kernels));
	json_object_set_new(o, "collectives", count(in->collectives));
	json_object_set_new(o, "bytes", count(in->bytes));
	json_object_set_new(o, "skipped", skipped);
	return o;
}

/* As given, else as the groups' descriptions tell it. */
static json_t *json_layout(const struct job *job)
{
	_cleanup_free_ char *found = NULL;
	struct layout layout;

	if (job->layout_spec)
		return json_text(job->layout_spec);
	if (job->n_groups && layout_of_groups(job, &layout))
		found = layout_format(&layout);
	return json_text(found);
}

static json_t *json_job(const struct report *r)
{
	const struct job *job = r->job;
	struct coverage c = coverage_of(job);
	json_t *o = json_object(), *step = json_object();

	json_object_set_new(step, "median", json_number(r->step_ms_median, 3));
	json_object_set_new(step, "p99", json_number(r->step_ms_p99, 3));
	json_object_set_new(o, "id", json_null());
	json_object_set_new(o, "world_size", json_count_or_null(job->world_size));
	json_object_set_new(o, "ranks_seen", json_text(c.seen));
	json_object_set_new(o, "ranks_missing", json_text(c.missing));
	json_object_set_new(o, "coverage", json_number(c.part, 4));
	json_object_set_new(o, "layout", json_layout(job));
	json_object_set_new(o, "first_step", json_count_or_null(job->first_step));
	json_object_set_new(o, "last_step", json_count_or_null(job->last_step));
	json_object_set_new(o, "step_ms", step);
	coverage_done(&c);
	return o;
}

static json_t *json_rank(const struct job *job, const struct report_rank *rank)
{
	const struct rank_info *info = &job->ranks[rank->row];
	json_t *o = json_object(), *steps = json_array();

	for (size_t i = 0; i < rank->steps.n; i++) {
		json_t *step = json_object();

		json_object_set_new(step, "step", count(rank->steps.v[i].number));
		json_object_set_new(step, "ms", ms(rank->steps.v[i].mark_ns));
		json_array_append_new(steps, step);
	}
	json_object_set_new(o, "rank", json_rank_of(job, rank->row));
	json_object_set_new(o, "host", name_of(job, info->host));
	json_object_set_new(o, "gpu", json_count_or_null(info->gpu_index));
	json_object_set_new(o, "gpu_name", name_of(job, info->gpu_name));
	json_object_set_new(o, "steps", steps);
	json_object_set_new(o, "kernels", count(info->kernels));
	json_object_set_new(o, "kernel_ms", ms(info->kernel_ns));
	json_object_set_new(o, "collectives", count(info->collectives));
	json_object_set_new(o, "collective_ms", ms(info->collective_ns));
	json_object_set_new(o, "arrived_last", count(rank->arrived_last));
	json_object_set_new(o, "wait_ms", ms(rank->wait_ns));
	return o;
}

static json_t *json_ranks(const struct report *r, bool all)
{
	json_t *a = json_array();
	size_t peers = 0;

	all |= r->ranks.n <= RANKS_SHOWN;
	for (size_t i = 0; i < r->ranks.n; i++)
		if (all || r->ranks.v[i].suspect || peers++ < PEERS_SHOWN)
			json_array_append_new(a, json_rank(r->job, &r->ranks.v[i]));
	return a;
}

/* The hosts as judge names them, else those of the culprit ranks, each once. */
static json_t *json_hosts(const struct job *job, const struct finding *f)
{
	json_t *a;

	if (f->hosts.n)
		return json_texts(f->hosts.v, f->hosts.n);
	a = json_array();
	for (size_t i = 0; i < f->culprits.n; i++) {
		uint32_t host = job->ranks[f->culprits.v[i]].host;
		bool again = host == NO_ID;

		for (size_t k = 0; k < i && !again; k++)
			again = job->ranks[f->culprits.v[k]].host == host;
		if (!again)
			json_array_append_new(a, name_of(job, host));
	}
	return a;
}

static json_t *json_culprits(const struct job *job, const struct finding *f)
{
	json_t *o = json_object(), *gpus = json_array(), *stages = json_array();
	bool folded;

	for (size_t i = 0; i < f->culprits.n; i++) {
		struct job_place at = job_place(job, f->culprits.v[i], finding_run(f));
		json_t *gpu;

		if (at.gpu_index < 0)
			continue;
		gpu = json_object();
		json_object_set_new(gpu, "host", name_of(job, at.host));
		json_object_set_new(gpu, "index", json_integer(at.gpu_index));
		json_object_set_new(gpu, "uuid", json_null());
		json_array_append_new(gpus, gpu);
	}
	for (size_t i = 0; i < f->stages.n; i++)
		json_array_append_new(stages, json_integer(f->stages.v[i]));
	/* Of lanes that stand for several ranks the coordinates tell, not their numbers. */
	folded = f->culprits.n && job_is_folded(job, f->culprits.v[0]);
	json_object_set_new(o, "ranks", ranks_of(job, f->culprits.v, folded ? 0 : f->culprits.n));
	json_object_set_new(o, "hosts", json_hosts(job, f));
	json_object_set_new(o, "gpus", gpus);
	json_object_set_new(o, "stages", stages);
	json_object_set_new(o, "groups", json_texts(f->groups.v, f->groups.n));
	json_object_set_new(o, "coords", json_texts(f->coords.v, f->coords.n));
	return o;
}

static json_t *json_propagation(const struct finding *f)
{
	json_t *a = json_array();

	for (size_t i = 0; i < f->propagation.n; i++) {
		const struct propagation *p = &f->propagation.v[i];
		json_t *o = json_object();

		json_object_set_new(o, "at", json_text(p->at));
		json_object_set_new(o, "ranks", json_text(p->victims));
		json_object_set_new(o, "ms", json_number(p->ms, 3));
		json_array_append_new(a, o);
	}
	return a;
}

static json_t *json_windows(const struct finding *f)
{
	json_t *a = json_array();

	for (size_t i = 0; i < f->windows.n; i++) {
		const struct window *w = &f->windows.v[i];
		json_t *o = json_object();

		json_object_set_new(o, "first_step", json_count_or_null(w->first_step));
		json_object_set_new(o, "last_step", json_count_or_null(w->last_step));
		json_object_set_new(o, "first_time", epoch(w->first_time_ns));
		json_object_set_new(o, "last_time", epoch(w->last_time_ns));
		if (w->run)
			json_object_set_new(o, "run", json_integer((json_int_t)w->run));
		json_array_append_new(a, o);
	}
	return a;
}

static json_t *json_evidence(const struct finding *f)
{
	json_t *a = json_array();

	for (size_t i = 0; i < f->evidence.n; i++) {
		const struct evidence *e = &f->evidence.v[i];
		json_t *o = json_object();

		json_object_set_new(o, "text", json_text(e->text));
		json_object_set_new(o, "value", json_number(e->value, 3));
		json_object_set_new(o, "expected", json_number(e->expected, 3));
		json_object_set_new(o, "unit", json_text(e->unit));
		json_object_set_new(o, "source", json_text(e->source));
		json_array_append_new(a, o);
	}
	return a;
}

static json_t *json_excluded(const struct finding *f)
{
	json_t *a = json_array();

	for (size_t i = 0; i < f->excluded.n; i++) {
		json_t *o = json_object();

		json_object_set_new(o, "cause",
				    json_text(cause_info(f->excluded.v[i].cause)->name));
		json_object_set_new(o, "why", json_text(f->excluded.v[i].why));
		json_array_append_new(a, o);
	}
	return a;
}

static json_t *json_finding(const struct job *job, const struct finding *f)
{
	json_t *o = json_object(), *victims = json_object(), *where = json_object();
	json_t *impact = json_object();

	json_object_set_new(victims, "ranks", json_text(f->victims ? f->victims : ""));
	json_object_set_new(where, "phase", json_text(f->where_phase));
	json_object_set_new(where, "kernel", json_text(f->where_kernel));
	json_object_set_new(where, "collective", json_text(f->where_collective));
	json_object_set_new(impact, "slowdown", json_number(f->slowdown, 3));
	json_object_set_new(impact, "step_ms_lost", json_number(f->step_ms_lost, 3));
	json_object_set_new(impact, "lost_gpu_hours", json_number(f->lost_gpu_hours, 6));
	json_object_set_new(impact, "gpu_hours_per_day", json_number(f->gpu_hours_per_day, 3));

	json_object_set_new(o, "id", json_text(f->id));
	json_object_set_new(o, "severity", json_text(severity_name(f->severity)));
	json_object_set_new(o, "kind", json_text(finding_kind_name(f->kind)));
	json_object_set_new(o, "level", json_text(f->level));
	json_object_set_new(o, "cause", json_text(cause_info(f->cause)->name));
	json_object_set_new(o, "cause_detail", json_text(f->cause_detail));
	json_object_set_new(o, "summary", json_text(f->summary));
	json_object_set_new(o, "action", json_text(f->action));
	json_object_set_new(o, "culprits", json_culprits(job, f));
	json_object_set_new(o, "victims", victims);
	json_object_set_new(o, "propagation", json_propagation(f));
	json_object_set_new(o, "windows", json_windows(f));
	json_object_set_new(o, "where", where);
	json_object_set_new(o, "impact", impact);
	json_object_set_new(o, "confidence", json_number(f->confidence, 2));
	json_object_set_new(o, "evidence", json_evidence(f));
	json_object_set_new(o, "excluded", json_excluded(f));
	json_object_set_new(o, "next", json_texts(f->next.v, f->next.n));
	return o;
}

int show_json(FILE *out, const struct report *r, const struct show_options *options)
{
	json_t *o = json_object(), *read = json_array(), *findings = json_array();
	int status;

	for (size_t i = 0; i < r->inputs.n; i++)
		json_array_append_new(read, json_input(r->job, &r->inputs.v[i]));
	for (size_t i = 0; i < r->findings.n; i++)
		json_array_append_new(findings, json_finding(r->job, &r->findings.v[i]));
	json_object_set_new(o, "lockstep", json_string(LOCKSTEP_VERSION));
	json_object_set_new(o, "schema", json_integer(1));
	json_object_set_new(o, "verdict", json_string(verdict_name(r->verdict)));
	json_object_set_new(o, "headline", json_text(r->headline));
	json_object_set_new(o, "assumed", json_texts(r->assumed.v, r->assumed.n));
	json_object_set_new(o, "read", read);
	json_object_set_new(o, "job", json_job(r));
	json_object_set_new(o, "ranks", json_ranks(r, options->all_ranks));
	json_object_set_new(o, "groups", json_groups(r, options->all_ranks));
	json_object_set_new(o, "stacks", json_stacks(r, options->all_ranks));
	json_object_set_new(o, "gpus", json_gpus(r, options->all_ranks));
	json_object_set_new(o, "findings", findings);
	json_object_set_new(o, "missing", json_texts(r->missing.v, r->missing.n));
	json_object_set_new(o, "open", json_texts(r->open.v, r->open.n));
	status = json_dumpf(o, out, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
	json_decref(o);
	if (status < 0 || fputc('\n', out) == EOF || fflush(out))
		return -EIO;
	return 0;
}
