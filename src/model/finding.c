/* SPDX-License-Identifier: Apache-2.0 */
/*
 * finding.c - names, identities and memory of findings.
 *
 * An id is made of what a finding says (cause, culprits, group, phase) and of nothing that changes
 * from run to run of the same fault: no times, no amounts, no rows.
 */
#include "model/finding.h"
#include "base/ranges.h"

#include <stdio.h>

const char *severity_name(enum severity s)
{
	static const char *const names[] = {
		[SEVERITY_FAULT] = "fault",
		[SEVERITY_RISK] = "risk",
		[SEVERITY_NOTE] = "note",
	};

	return names[s];
}

const char *finding_kind_name(enum finding_kind k)
{
	static const char *const names[] = {
		[KIND_SLOW] = "slow",
		[KIND_HANG] = "hang",
		[KIND_CRASH] = "crash",
		[KIND_IMBALANCE] = "imbalance",
		[KIND_REGRESSION] = "regression",
		[KIND_CONFIG] = "config",
	};

	return names[k];
}

const char *verdict_name(enum verdict v)
{
	static const char *const names[] = {
		[VERDICT_HEALTHY] = "healthy",
		[VERDICT_SLOW] = "slow",
		[VERDICT_HUNG] = "hung",
		[VERDICT_CRASHED] = "crashed",
		[VERDICT_INSUFFICIENT] = "insufficient",
	};

	return names[v];
}

static uint64_t hash_text(uint64_t h, const char *s)
{
	return hash_mix(h, s ? hash_bytes(s, strlen(s), 1) : 0);
}

/* Sets are hashed as sums, so that their order does not matter. */
static uint64_t hash_texts(uint64_t h, const char *const *v, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += hash_text(7, v[i]);
	return hash_mix(h, sum + n);
}

void finding_set_id(struct finding *f, const struct job *job)
{
	uint64_t h = hash_text(0, cause_info(f->cause)->name), sum = 0;

	for (size_t i = 0; i < f->culprits.n; i++) {
		const struct rank_info *info = &job->ranks[f->culprits.v[i]];
		bool known = info->rank >= 0;

		sum += hash_mix(known ? 3 : 5, known ? (uint64_t)info->rank : info->unknown);
	}
	h = hash_mix(h, sum + f->culprits.n);
	h = hash_texts(h, f->hosts.v, f->hosts.n);
	sum = 0;
	for (size_t i = 0; i < f->stages.n; i++)
		sum += hash_mix(11, (uint64_t)f->stages.v[i]);
	h = hash_mix(h, sum + f->stages.n);
	h = hash_texts(h, f->groups.v, f->groups.n);
	h = hash_text(h, f->where_phase);
	snprintf(f->id, sizeof(f->id), "%016" PRIx64, h);
}

void finding_done(struct finding *f)
{
	free(f->culprits.v);
	free(f->hosts.v);
	free(f->stages.v);
	free(f->groups.v);
	free(f->coords.v);
	free(f->propagation.v);
	free(f->windows.v);
	free(f->evidence.v);
	free(f->excluded.v);
	free(f->next.v);
}

void report_done(struct report *r)
{
	for (size_t i = 0; i < r->findings.n; i++)
		finding_done(&r->findings.v[i]);
	for (size_t i = 0; i < r->inputs.n; i++)
		free(r->inputs.v[i].rows.v);
	for (size_t i = 0; i < r->ranks.n; i++)
		free(r->ranks.v[i].steps.v);
	for (size_t i = 0; i < r->groups.n; i++)
		free(r->groups.v[i].ranks.v);
	for (size_t i = 0; i < r->stacks.n; i++) {
		free(r->stacks.v[i].rows.v);
		free(r->stacks.v[i].frames.v);
	}
	free(r->groups.v);
	free(r->stacks.v);
	free(r->gpus.v);
	free(r->missing.v);
	free(r->open.v);
	free(r->findings.v);
	free(r->inputs.v);
	free(r->ranks.v);
	free(r->assumed.v);
	arena_done(&r->arena);
	*r = (struct report){ 0 };
}

const char *report_printf(struct report *r, const char *format, ...)
{
	va_list ap, again;
	char *s;
	int n;

	va_start(ap, format);
	va_copy(again, ap);
	n = vsnprintf(NULL, 0, format, ap);
	va_end(ap);
	n = MAX(n, 0);
	s = arena_alloc(&r->arena, (size_t)n + 1);
	vsnprintf(s, (size_t)n + 1, format, again);
	va_end(again);
	return s;
}

static int compare_rows(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

const char *report_rank_set(struct report *r, const uint32_t *rows, size_t n)
{
	_cleanup_free_ uint32_t *sorted = xmalloc(n * sizeof(*sorted));
	_cleanup_free_ int64_t *known = xmalloc(n * sizeof(*known));
	_cleanup_free_ char *text = NULL;
	const char *set;
	size_t n_known = 0;

	if (n)
		memcpy(sorted, rows, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare_rows);
	/* rows are in order of rank, unknown ones last */
	for (size_t i = 0; i < n; i++)
		if (r->job->ranks[sorted[i]].rank >= 0)
			known[n_known++] = r->job->ranks[sorted[i]].rank;
	text = ranges_format(known, n_known);
	set = arena_strndup(&r->arena, text, strlen(text));
	for (size_t i = n_known; i < n; i++)
		set = report_printf(r, "%s%sunknown-%" PRIu32, set, i ? "," : "",
				    r->job->ranks[sorted[i]].unknown);
	return set;
}
