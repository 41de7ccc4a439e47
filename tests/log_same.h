/* SPDX-License-Identifier: Apache-2.0 */
/* log_same.h - did two readings of a log hear the same? For tests and fuzz targets. */
#pragma once
#include <math.h>
#include <string.h>

#include "model/testimony.h"

static inline bool same_name(const struct testimony *a, uint32_t x, const struct testimony *b,
			     uint32_t y)
{
	if (x == NO_ID || y == NO_ID)
		return x == y;
	return !strcmp(intern_get(&a->names, x), intern_get(&b->names, y));
}

static inline bool same_saying(const struct testimony *a, const struct saying *x,
			       const struct testimony *b, const struct saying *y)
{
	return x->kind == y->kind && x->rank == y->rank && x->local_rank == y->local_rank &&
	       x->peer == y->peer && x->group == y->group && x->signature == y->signature &&
	       x->seq == y->seq && x->value == y->value && x->timeout_ms == y->timeout_ms &&
	       x->ran_ms == y->ran_ms && x->pid == y->pid && x->gpu == y->gpu &&
	       same_name(a, x->host, b, y->host) && same_name(a, x->what, b, y->what) &&
	       same_name(a, x->text, b, y->text) && x->time_ns == y->time_ns &&
	       x->last_ns == y->last_ns && x->duration_ns == y->duration_ns &&
	       x->steps_at == y->steps_at && x->line == y->line && x->last_line == y->last_line &&
	       x->count == y->count;
}

/* Equal but for how a decimal is rounded, or neither is a number. */
static inline bool same_double(double x, double y)
{
	return x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= 1e-12 * fabs(x);
}

static inline bool same_progress(const struct log_progress *x, const struct log_progress *y)
{
	return x->rank == y->rank && x->first_step == y->first_step &&
	       x->last_step == y->last_step && x->total_steps == y->total_steps &&
	       x->first_epoch == y->first_epoch && x->last_epoch == y->last_epoch &&
	       x->epoch_at == y->epoch_at && x->epoch_steps == y->epoch_steps &&
	       x->lines == y->lines && x->line == y->line && x->last_line == y->last_line &&
	       x->restarts == y->restarts && x->first_ns == y->first_ns &&
	       x->last_ns == y->last_ns && same_double(x->last_step_ms, y->last_step_ms) &&
	       same_double(x->last_tokens_per_s, y->last_tokens_per_s) &&
	       same_double(x->last_loss, y->last_loss) && x->n_gaps == y->n_gaps &&
	       x->n_stalls == y->n_stalls && x->stalls_seen == y->stalls_seen &&
	       same_double(x->walked_ms, y->walked_ms) && x->walked_steps == y->walked_steps;
}

/* What differs first; NULL: nothing. */
static inline const char *log_differs(const struct testimony *a, const struct testimony *b)
{
	if (a->rank != b->rank || a->world_size != b->world_size)
		return "whose it is";
	if (a->lines != b->lines || a->broken_off != b->broken_off || a->dropped != b->dropped)
		return "lines";
	if (a->steps != b->steps)
		return "steps";
	if (a->sayings.n != b->sayings.n || a->progress.n != b->progress.n ||
	    a->stacks.n != b->stacks.n || a->gpus.n != b->gpus.n || a->groups.n != b->groups.n)
		return "how much";
	for (size_t i = 0; i < a->sayings.n; i++)
		if (!same_saying(a, &a->sayings.v[i], b, &b->sayings.v[i]))
			return "a saying";
	for (size_t i = 0; i < a->progress.n; i++)
		if (!same_progress(&a->progress.v[i], &b->progress.v[i]))
			return "progress";
	return NULL;
}
