/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text_scene.c - where the ranks stand: group by group, stack by stack, GPU by GPU; then what is
 * missing and what would settle what is open.
 *
 * Ranks that stand alike share a line, as a set, so that 16,384 ranks take no more of a screen than
 * eight do; what does not fit is counted.
 */
#include <math.h>

#include "show/text_inside.h"

#define GROUPS_SHOWN	  6
#define STANDS_SHOWN	  8 /* different ones of a group */
#define STACKS_SHOWN	  6
#define ODD_FRAMES_SHOWN  10
#define LIKE_FRAMES_SHOWN 5
#define SHAPES_SHOWN	  8
#define GPUS_NAMED	  4
#define STATE_COLUMNS	  11
#define SET_COLUMNS	  24
#define GROUP_COLUMNS	  36

/* --- groups --- */

/* The order in which states are worth reading; what is not here comes between. */
static unsigned state_order(const char *state)
{
	static const char *const first[] = { "gone",	  "behind", "past",
					     "elsewhere", "silent", "no evidence" };
	static const char *const last[] = { "waiting", "done" };

	for (unsigned i = 0; i < ARRAY_SIZE(first); i++)
		if (!strcmp(state, first[i]))
			return i;
	for (unsigned i = 0; i < ARRAY_SIZE(last); i++)
		if (!strcmp(state, last[i]))
			return 100 + i;
	return 50;
}

static int compare_texts(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "");
}

static int by_stand(const void *pa, const void *pb)
{
	const struct report_stand *a = pa, *b = pb;
	unsigned x = state_order(a->state), y = state_order(b->state);
	int c;

	if (x != y)
		return x < y ? -1 : 1;
	c = strcmp(a->state, b->state);
	if (!c)
		c = compare_texts(a->operation, b->operation);
	if (c)
		return c;
	return a->row < b->row ? -1 : a->row > b->row;
}

static bool stand_alike(const struct report_stand *a, const struct report_stand *b)
{
	return !strcmp(a->state, b->state) && !compare_texts(a->operation, b->operation);
}

static void add_numbers(struct line *l, const char *word, const struct report_stand *v, size_t n,
			bool completed)
{
	int64_t low = INT64_MAX, high = -1;

	for (size_t i = 0; i < n; i++) {
		int64_t x = completed ? v[i].last_completed : v[i].last_enqueued;

		if (x < 0)
			continue;
		low = MIN(low, x);
		high = MAX(high, x);
	}
	if (high < 0)
		return;
	line_add(l, "%s #%" PRId64, word, low);
	if (high > low)
		line_add(l, "-%" PRId64, high);
}

/* Ranks that stand alike: v[0..n). */
static void show_stand(const struct text *t, const struct report_stand *v, size_t n)
{
	_cleanup_free_ uint32_t *rows = xmalloc(n * sizeof(*rows));
	_cleanup_free_ char *set = NULL, *lead = NULL;
	struct line ranks = { 0 }, l = { 0 };
	bool waits = !strcmp(v->state, "waiting");

	for (size_t i = 0; i < n; i++)
		rows[i] = v[i].row;
	line_ranks(&ranks, t->job, rows, n);
	set = set_name(line_end(&ranks), SET_COLUMNS);
	if (v->operation)
		line_add(&l, waits ? "in %s" : "last called %s", v->operation);
	add_numbers(&l, l.b.len ? "; called" : "called", v, n, false);
	add_numbers(&l, l.b.len ? ", finished" : "finished", v, n, true);
	if (l.b.len)
		lead = xasprintf("    %-*s %-16s  ", STATE_COLUMNS, v->state, set);
	else
		lead = xasprintf("    %-*s %s", STATE_COLUMNS, v->state, set);
	page_text(&t->page, PAGE_PLAIN, lead, strlen(lead), line_end(&l));
	line_done(&l);
	line_done(&ranks);
}

static void show_group(const struct text *t, const struct report_group *g)
{
	size_t n = g->ranks.n, kinds = 0, left = 0;
	_cleanup_free_ struct report_stand *v = xmalloc((n + 1) * sizeof(*v));
	struct line l = { 0 };

	line_name(&l, "group ", g->group, GROUP_COLUMNS);
	/* "undefined" is what PyTorch writes where a program gave none. */
	if (g->desc && strcmp(g->desc, g->group) && strcmp(g->desc, "undefined"))
		line_name(&l, " ", g->desc, GROUP_COLUMNS);
	if (g->members && *g->members) {
		_cleanup_free_ char *set = set_name(g->members, GROUP_COLUMNS);

		line_add(&l, ", %s %s", strpbrk(set, ",-") ? "ranks" : "rank", set);
	}
	if (g->last_common >= 0)
		line_add(&l, ": all called alike up to #%" PRId64, g->last_common);
	else
		line_add(&l, ": no operation is known that all called alike");
	page_text(&t->page, PAGE_HEAD, "  ", 4, line_end(&l));
	line_done(&l);
	if (n)
		memcpy(v, g->ranks.v, n * sizeof(*v));
	qsort(v, n, sizeof(*v), by_stand);
	for (size_t i = 0, k; i < n; i = k) {
		for (k = i + 1; k < n && stand_alike(&v[i], &v[k]); k++)
			;
		if (kinds++ < STANDS_SHOWN)
			show_stand(t, v + i, k - i);
		else
			left += k - i;
	}
	if (left) {
		line_add(&l, "and %zu %s that stand at %zu other places", left,
			 plural(left, "rank", "ranks"), kinds - STANDS_SHOWN);
		page_text(&t->page, PAGE_PLAIN, "    ", 6, line_end(&l));
		line_done(&l);
	}
}

static void show_groups(const struct text *t)
{
	size_t shown = 0, stuck = 0, easy = 0;
	struct line l = { 0 };

	for (size_t i = 0; i < t->r->groups.n; i++) {
		stuck += t->r->groups.v[i].stuck;
		easy += !t->r->groups.v[i].stuck;
	}
	if (t->r->groups.n)
		page_head(&t->page, "Where the ranks stand");
	/* Without a stuck one the first few show how far all came. */
	for (size_t i = 0; i < t->r->groups.n && shown < GROUPS_SHOWN; i++) {
		if (stuck && !t->r->groups.v[i].stuck)
			continue;
		show_group(t, &t->r->groups.v[i]);
		shown++;
	}
	if (stuck > shown)
		line_add(&l, "and %zu more groups in which somebody waits%s", stuck - shown,
			 easy ? "; " : "");
	if (stuck && easy == 1)
		line_add(&l, "nobody waits in the other group");
	else if (stuck && easy)
		line_add(&l, "nobody waits in the other %zu groups", easy);
	if (!stuck && easy > shown)
		line_add(&l, "and %zu more groups", easy - shown);
	if (l.b.len)
		page_text(&t->page, PAGE_PLAIN, "  ", 4, line_end(&l));
	line_done(&l);
}

/* --- stacks --- */

static void show_frames(const struct text *t, const struct report_stack *s)
{
	size_t shown = MIN(s->frames.n, s->odd ? (size_t)ODD_FRAMES_SHOWN : LIKE_FRAMES_SHOWN);

	for (size_t i = 0; i < shown; i++) {
		_cleanup_free_ char *frame = page_name(s->frames.v[i], PAGE_COLUMNS - 6);

		fprintf(t->page.out, "      %s\n", frame);
	}
	if (shown < s->frames.n)
		fprintf(t->page.out, "      .. and %zu further out\n", s->frames.n - shown);
}

static void show_stacks(const struct text *t)
{
	size_t n = t->r->stacks.n;
	struct line l = { 0 };

	if (n)
		page_head(&t->page, "What they are doing (stacks, the innermost call first)");
	for (size_t i = 0; i < n && i < STACKS_SHOWN; i++) {
		const struct report_stack *s = &t->r->stacks.v[i];
		_cleanup_free_ char *who = NULL;

		if (s->who)
			who = set_name(s->who, GROUP_COLUMNS);
		if (who)
			line_add(&l, "%s", who);
		else
			line_ranks(&l, t->job, s->rows.v, s->rows.n);
		line_add(&l, "%s: %s", s->odd ? ", unlike the others" : "",
			 s->doing ? s->doing : "at a place that says nothing");
		page_text(&t->page, s->odd ? PAGE_HEAD : PAGE_PLAIN, "  ", 4, line_end(&l));
		line_done(&l);
		show_frames(t, s);
	}
	if (n > STACKS_SHOWN) {
		line_add(&l, "and %zu more different stacks; --json has them all",
			 n - STACKS_SHOWN);
		page_text(&t->page, PAGE_PLAIN, "  ", 4, line_end(&l));
		line_done(&l);
	}
}

/* --- power --- */

static const char *shape_of(const struct report_gpu *g)
{
	return g->shape ? g->shape : "unknown";
}

struct spread {
	double low, high;
};

static void spread_take(struct spread *s, double v)
{
	if (!isfinite(v))
		return;
	s->low = isfinite(s->low) ? MIN(s->low, v) : v;
	s->high = isfinite(s->high) ? MAX(s->high, v) : v;
}

static void add_spread(struct line *l, const char *before, const struct spread *s, double factor,
		       const char *unit)
{
	char a[32], b[32];

	if (!isfinite(s->low))
		return;
	page_number(round(s->low * factor), a);
	page_number(round(s->high * factor), b);
	line_add(l, "%s%s%s%s%s", before, a, strcmp(a, b) ? "-" : "", strcmp(a, b) ? b : "", unit);
}

static void add_gpus(struct line *l, const struct text *t, const struct report_gpu *const *v,
		     size_t n)
{
	_cleanup_free_ uint32_t *rows = xmalloc((n + 1) * sizeof(*rows));
	size_t n_rows = 0, named = 0;

	for (size_t i = 0; i < n; i++)
		if (v[i]->row != NO_ID)
			rows[n_rows++] = v[i]->row;
	if (n_rows) {
		line_ranks(l, t->job, rows, n_rows);
		named = n_rows;
	}
	for (size_t i = 0, of = 0; i < n && of < GPUS_NAMED; i++) {
		if (v[i]->row != NO_ID)
			continue;
		line_add(l, "%sGPU %" PRId64, named ? ", " : "", v[i]->index);
		line_name(l, " of ", v[i]->host, 20);
		named++;
		of++;
	}
	if (named < n)
		line_add(l, " and %zu more", n - named);
}

static void show_shape(const struct text *t, const struct report_gpu *const *v, size_t n)
{
	struct spread power = { NAN, NAN }, limit = power, use = power, before = power;
	_cleanup_free_ char *set = NULL, *lead = NULL;
	struct line l = { 0 }, who = { 0 };

	for (size_t i = 0; i < n; i++) {
		spread_take(&power, v[i]->power_w);
		spread_take(&limit, v[i]->limit_w);
		spread_take(&use, v[i]->utilization);
		spread_take(&before, v[i]->power_w_before);
	}
	add_gpus(&who, t, v, n);
	set = set_name(line_end(&who), SET_COLUMNS + 12);
	lead = xasprintf("  %-13s %-16s  ", shape_of(v[0]), set);
	add_spread(&l, "", &power, 1, "");
	if (isfinite(power.low) && isfinite(limit.low))
		add_spread(&l, " of ", &limit, 1, " W");
	else if (isfinite(power.low))
		line_add(&l, " W, limit not given");
	add_spread(&l, l.b.len ? ", " : "", &use, 100, " % busy");
	add_spread(&l, l.b.len ? "; before it was " : "it was ", &before, 1, " W");
	page_text(&t->page, PAGE_PLAIN, lead, strlen(lead), line_end(&l));
	line_done(&l);
	line_done(&who);
}

static int by_shape(const void *pa, const void *pb)
{
	const struct report_gpu *a = *(const struct report_gpu *const *)pa;
	const struct report_gpu *b = *(const struct report_gpu *const *)pb;
	int c = strcmp(shape_of(a), shape_of(b));

	return c ? c : a < b ? -1 : a > b;
}

struct run {
	size_t first, n;
};

static int by_size(const void *pa, const void *pb)
{
	const struct run *a = pa, *b = pb;

	if (a->n != b->n)
		return a->n < b->n ? -1 : 1;
	return a->first < b->first ? -1 : a->first > b->first;
}

static void show_power(const struct text *t)
{
	size_t n = t->r->gpus.n;
	_cleanup_free_ const struct report_gpu **v = xmalloc((n + 1) * sizeof(*v));
	VEC(struct run) runs = { 0 };

	if (!n)
		return;
	for (size_t i = 0; i < n; i++)
		v[i] = &t->r->gpus.v[i];
	qsort(v, n, sizeof(*v), by_shape);
	for (size_t i = 0, k; i < n; i = k) {
		for (k = i + 1; k < n && !strcmp(shape_of(v[i]), shape_of(v[k])); k++)
			;
		*vec_push(&runs) = (struct run){ i, k - i };
	}
	qsort(runs.v, runs.n, sizeof(*runs.v), by_size);
	page_head(&t->page, "Power, as it was lately");
	for (size_t i = 0; i < runs.n && i < SHAPES_SHOWN; i++)
		show_shape(t, v + runs.v[i].first, runs.v[i].n);
	free(runs.v);
}

void text_scene(const struct text *t)
{
	show_groups(t);
	show_stacks(t);
	show_power(t);
}

void text_gaps(const struct text *t)
{
	const struct report *r = t->r;

	if (r->missing.n)
		page_head(&t->page, "Not given");
	for (size_t i = 0; i < r->missing.n; i++)
		page_text(&t->page, PAGE_PLAIN, "  - ", 4, r->missing.v[i]);
	if (r->open.n)
		page_head(&t->page, "What would settle what is open");
	for (size_t i = 0; i < r->open.n; i++)
		text_next(t, r->open.v[i]);
}
