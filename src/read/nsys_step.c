/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nsys_step.c - which NVTX ranges of a rank are its steps.
 *
 * Those that were asked for, if they are there. Else first those whose names say so ("step 12",
 * "Iteration#3", "train_step"). Else the outermost ranges of the thread, if few names repeat and
 * cover the time: the first of them begins the step, which lasts until it begins again. Names that
 * differ in numbers only are one name.
 */
#include "read/nsys_inside.h"

#include <ctype.h>
#include <strings.h>

#define STEPS_MIN  2u
#define NAMES_MAX  8u  /* outermost names of a loop: more are a network's layers */
#define COVERED	   0.8 /* of the thread's ranges from first to last */
#define NUMBER_MAX ((uint64_t)1 << 48)
#define KIND_MAX   128u

struct span_of_name {
	int64_t start, end;
	uint64_t number; /* in the name; UINT64_MAX: none */
	uint32_t kind;	 /* the name with numbers as '#', interned */
	uint64_t thread;
};
struct spans {
	struct span_of_name *v;
	size_t n, cap;
};

static const char *const step_words[] = { "step",	 "iteration",	  "iter",
					  "train_step",	 "training_step", "train_iter",
					  "train_batch", "microstep" };

/* "step 12" -> "step #" and 12. */
static size_t kind_of(const char *name, char kind[KIND_MAX], uint64_t *ret_number)
{
	size_t n = 0;

	*ret_number = UINT64_MAX;
	for (const char *p = name; *p && n + 1 < KIND_MAX;) {
		uint64_t v = 0;

		if (!isdigit((unsigned char)*p)) {
			kind[n++] = *p++;
			continue;
		}
		for (; isdigit((unsigned char)*p); p++)
			v = v < NUMBER_MAX ? v * 10 + (uint64_t)(*p - '0') : v;
		*ret_number = v < NUMBER_MAX ? v : UINT64_MAX;
		kind[n++] = '#';
	}
	kind[n] = 0;
	return n;
}

/* Is the name, numbers and marks around it aside, a word for a step? */
static bool says_step(const char *kind)
{
	size_t len;

	while (*kind && !isalpha((unsigned char)*kind))
		kind++;
	len = strlen(kind);
	while (len && !isalpha((unsigned char)kind[len - 1]))
		len--;
	for (size_t i = 0; i < ARRAY_SIZE(step_words); i++)
		if (strlen(step_words[i]) == len && !strncasecmp(kind, step_words[i], len))
			return true;
	return len > 12 && !strncasecmp(kind, "ProfilerStep", 12);
}

static int by_time(const void *a, const void *b)
{
	const struct span_of_name *x = a, *y = b;

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->end > y->end ? -1 : x->end < y->end;
}

static void gather(const struct nsys *n, uint32_t unit, struct intern *kinds, struct spans *ret)
{
	ret->n = 0;
	for (size_t i = 0; i < n->units.v[unit].n_rows; i++) {
		const struct nsys_row *r = &n->rows.v[n->units.v[unit].first_row + i];
		char kind[KIND_MAX];
		uint64_t number;
		size_t len;

		if (r->kind != EVENT_ANNOTATION || r->nccl || r->end <= r->start)
			continue;
		len = kind_of(intern_get(&n->names, r->name), kind, &number);
		*vec_push(ret) = (struct span_of_name){ r->start, r->end, number,
							intern(kinds, kind, len), r->thread };
	}
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), by_time);
}

/* Spans of one kind that are steps: the longest in sum, of one thread. NO_ID if there are none. */
static uint32_t named_kind(const struct spans *s, const struct intern *kinds, uint64_t *ret_thread)
{
	_cleanup_free_ double *sum = xcalloc(kinds->n + 1, sizeof(*sum));
	_cleanup_free_ uint32_t *count = xcalloc(kinds->n + 1, sizeof(*count));
	uint32_t best = NO_ID;

	for (size_t i = 0; i < s->n; i++) {
		sum[s->v[i].kind] += (double)(s->v[i].end - s->v[i].start);
		count[s->v[i].kind]++;
	}
	for (uint32_t k = 0; k < kinds->n; k++)
		if (count[k] >= STEPS_MIN && says_step(intern_get(kinds, k)) &&
		    (best == NO_ID || sum[k] > sum[best]))
			best = k;
	for (size_t i = 0; i < s->n && best != NO_ID; i++)
		if (s->v[i].kind == best) {
			*ret_thread = s->v[i].thread;
			break;
		}
	return best;
}

/* The outermost spans of one thread, in place; returns how many. */
static size_t outermost(struct spans *s, uint64_t thread)
{
	int64_t end = INT64_MIN;
	size_t n = 0;

	for (size_t i = 0; i < s->n; i++) {
		struct span_of_name span = s->v[i];

		if (span.thread != thread || span.start < end)
			continue;
		end = span.end;
		s->v[n++] = span;
	}
	return n;
}

static uint64_t busiest_thread(const struct spans *s)
{
	uint64_t best = 0;
	double most = -1;

	for (size_t i = 0, k; i < s->n; i = k) {
		double sum = 0;
		int64_t end = INT64_MIN;

		for (k = i; k < s->n && s->v[k].thread == s->v[i].thread; k++) {
			if (s->v[k].start < end)
				continue;
			end = s->v[k].end;
			sum += (double)(s->v[k].end - s->v[k].start);
		}
		if (sum > most) {
			most = sum;
			best = s->v[i].thread;
		}
	}
	return best;
}

/* Does a loop of few names show in the outermost spans? Then the rarest that repeats, which is
   there once a step; else NO_ID. */
static uint32_t loop_kind(const struct spans *s, const struct intern *kinds)
{
	_cleanup_free_ uint32_t *count = xcalloc(kinds->n + 1, sizeof(*count));
	uint32_t names = 0, best = NO_ID;
	double covered = 0;

	for (size_t i = 0; i < s->n; i++) {
		names += !count[s->v[i].kind]++;
		covered += (double)(s->v[i].end - s->v[i].start);
	}
	if (!s->n || names > NAMES_MAX ||
	    covered < COVERED * (double)(s->v[s->n - 1].end - s->v[0].start))
		return NO_ID;
	for (size_t i = 0; i < s->n; i++) { /* the first of equals begins the step */
		uint32_t k = s->v[i].kind;

		if (count[k] > STEPS_MIN && (best == NO_ID || count[k] < count[best]))
			best = k;
	}
	return best;
}

/* How much of a kind is its name, numbers and marks at its end aside. */
static size_t stem_length(const char *kind)
{
	size_t len = strlen(kind);

	while (len && (kind[len - 1] == '#' || isspace((unsigned char)kind[len - 1]) ||
		       ispunct((unsigned char)kind[len - 1])))
		len--;
	return len ? len : strlen(kind);
}

/* Is one of the domains of that name, of the process, the row's? */
static bool in_domain(const struct nsys *n, const struct nsys_row *r, const char *domain)
{
	for (size_t i = 0; i < n->domains.n; i++) {
		const struct nsys_domain *d = &n->domains.v[i];

		if (d->id == r->domain && (d->process == r->process || !d->process) &&
		    !strcmp(intern_get(&n->names, d->name), domain))
			return true;
	}
	return false;
}

/* The ranges that were asked for, "NAME" or "NAME@DOMAIN", as spans of kind 0: by the whole name,
   or by what it is without the numbers at its end. A name that holds an @ is itself first. */
static void gather_asked(const struct nsys *n, uint32_t unit, const char *domain, size_t name_len,
			 struct spans *ret)
{
	char asked[KIND_MAX], kind[KIND_MAX];
	uint64_t number;
	_cleanup_free_ char *name = xasprintf("%.*s", (int)name_len, n->step_range);
	size_t len;

	kind_of(name, asked, &number);
	len = stem_length(asked);
	ret->n = 0;
	for (size_t i = 0; i < n->units.v[unit].n_rows; i++) {
		const struct nsys_row *r = &n->rows.v[n->units.v[unit].first_row + i];
		const char *text = intern_get(&n->names, r->name);

		if ((r->kind != EVENT_ANNOTATION && r->kind != EVENT_OP) || r->end <= r->start ||
		    (domain && !in_domain(n, r, domain)))
			continue;
		kind_of(text, kind, &number);
		if (strcmp(text, name) && (stem_length(kind) != len || strncmp(kind, asked, len)))
			continue;
		*vec_push(ret) = (struct span_of_name){ r->start, r->end, number, 0, r->thread };
	}
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), by_time);
}

static bool find_asked(const struct nsys *n, uint32_t unit, struct spans *ret)
{
	const char *at = strrchr(n->step_range, '@');

	gather_asked(n, unit, NULL, strlen(n->step_range), ret);
	if (ret->n < STEPS_MIN && at)
		gather_asked(n, unit, at + 1, (size_t)(at - n->step_range), ret);
	return ret->n >= STEPS_MIN;
}

static void add_marks(struct nsys *n, struct nsys_unit *u, const struct spans *s, uint32_t kind,
		      uint64_t thread, bool to_next)
{
	uint64_t before = 0;
	bool numbered = true;

	u->first_mark = (uint32_t)n->marks.n;
	for (size_t i = 0; i < s->n; i++) {
		struct nsys_mark *last = u->n_marks ? &n->marks.v[n->marks.n - 1] : NULL;
		const struct span_of_name *span = &s->v[i];

		if (to_next && last)
			last->end = span->kind == kind ? span->start : span->end;
		if (span->kind != kind || span->thread != thread ||
		    (last && span->start < last->end))
			continue; /* of another loop, or inside the one before */
		numbered &= span->number != UINT64_MAX && (!u->n_marks || span->number > before);
		before = span->number;
		*vec_push(&n->marks) = (struct nsys_mark){ span->start, span->end, span->number };
		u->n_marks++;
	}
	for (uint32_t i = 0; i < u->n_marks && !numbered; i++)
		n->marks.v[u->first_mark + i].number = i;
}

void nsys_settle_steps(struct nsys *n)
{
	for (uint32_t unit = 0; unit < n->units.n; unit++) {
		struct intern kinds = { 0 };
		struct spans spans = { 0 };
		uint64_t thread = 0;
		uint32_t kind;

		n->units.v[unit].n_marks = 0;
		if (n->step_range && find_asked(n, unit, &spans)) {
			add_marks(n, &n->units.v[unit], &spans, 0, busiest_thread(&spans), false);
			free(spans.v);
			continue;
		}
		n->without_range += n->step_range != NULL;
		gather(n, unit, &kinds, &spans);
		kind = named_kind(&spans, &kinds, &thread);
		if (kind != NO_ID) {
			add_marks(n, &n->units.v[unit], &spans, kind, thread, false);
		} else {
			thread = busiest_thread(&spans);
			spans.n = outermost(&spans, thread);
			kind = loop_kind(&spans, &kinds);
			if (kind != NO_ID)
				add_marks(n, &n->units.v[unit], &spans, kind, thread, true);
		}
		free(spans.v);
		intern_done(&kinds);
	}
}
