/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang_builder.h - a hang in a few readable lines, and what is said of it.
 *
 *	struct hang_case c;
 *	case_new(&c);
 *	case_group(&c, "world", "0", "default_pg", "[0, 1, 2]");
 *	dump(&c, 0, "3(world:all_reduce) world:all_reduce?");
 *	dump(&c, 1, "3(world:all_reduce) world:all_reduce?");
 *	dump(&c, 2, "3(world:all_reduce)");
 *	assert_named(&c, VERDICT_HUNG, CAUSE_MISSING_RANK, "2");
 *	case_done(&c);
 *
 * A call is GROUP:OPERATION with, in this order: /IN or /IN>OUT elements (1024 each), ~TYPE
 * (Float), (PEER) of a send or recv, and its end: none is completed, ? is pending, * is pending and
 * started, . is retired while its state says scheduled, as Gloo leaves it. "+" before it gives it
 *the number of the call before in its group (coalesced). "GROUP@N" sets the number of the group's
 *next call, "#N" the record at which the ring begins; "N( .. )" repeats.
 */
#pragma once
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "fold/scene_build.h"
#include "judge/hang.h"
#include "model/doing.h"
#include "show/show.h"

#define SECOND	     ((int64_t)1000000000)
#define CASE_BEGIN   (1700000000 * SECOND) /* when the dumps of a case are written */
#define CASE_GROUPS  64
#define CASE_BACKEND "nccl"

struct case_group {
	char alias[24];
	const char *name, *desc, *ranks;
};

struct hang_case {
	struct case_group groups[CASE_GROUPS];
	size_t n_groups;
	VEC(struct testimony *) files;
	VEC(bool) cut;		       /* by file */
	VEC(struct dump_view *) views; /* by file; NULL: not taken yet */
	const char *backend;
	uint64_t shuffle; /* not 0: dumps are taken, and files come, in another order */
	/* once judged */
	struct standings *standings;
	VEC(struct scene_part) parts;
	struct scene scene;
	struct job job;
	struct report report;
	bool judged;
};

static inline void case_new(struct hang_case *c)
{
	*c = (struct hang_case){ .backend = CASE_BACKEND };
}

static inline void case_done(struct hang_case *c)
{
	if (c->judged) {
		report_done(&c->report);
		scene_done(&c->scene);
		job_done(&c->job);
	}
	standings_free(c->standings);
	for (size_t i = 0; i < c->files.n; i++) {
		dump_view_free(c->views.v[i]);
		testimony_free(c->files.v[i]);
	}
	free(c->parts.v);
	free(c->views.v);
	free(c->files.v);
	free(c->cut.v);
}

/* ranks: as a dump states them; NULL: it states none, as Gloo's. */
static inline void case_group(struct hang_case *c, const char *alias, const char *name,
			      const char *desc, const char *ranks)
{
	struct case_group *g = &c->groups[c->n_groups++];

	assert_true(c->n_groups <= CASE_GROUPS);
	*g = (struct case_group){ .name = name, .desc = desc, .ranks = ranks };
	snprintf(g->alias, sizeof(g->alias), "%s", alias);
}

static inline uint32_t told(struct testimony *t, const char *text)
{
	return text ? testimony_name(t, text, strlen(text)) : NO_ID;
}

/* A file of its own; its path sorts as it was added. */
static inline struct testimony *case_file(struct hang_case *c, enum witness w, const char *format,
					  int64_t rank)
{
	struct testimony *t = testimony_new(w, format);
	char path[64];

	snprintf(path, sizeof(path), "%s_%05zu", format, c->files.n);
	t->path = told(t, path);
	t->rank = rank;
	*vec_push(&c->files) = t;
	*vec_push(&c->cut) = false;
	*vec_push(&c->views) = NULL;
	return t;
}

/* --- dumps --- */

struct dumping {
	struct hang_case *c;
	struct testimony *t;
	int64_t seq[CASE_GROUPS], p2p_seq[CASE_GROUPS];
	int64_t record;
};

static inline size_t case_alias(const struct hang_case *c, const char *s, size_t len)
{
	for (size_t i = 0; i < c->n_groups; i++)
		if (strlen(c->groups[i].alias) == len && !memcmp(c->groups[i].alias, s, len))
			return i;
	fail_msg("no group called %.*s", (int)len, s);
	return 0;
}

static inline uint32_t dump_group_of(struct dumping *d, size_t alias)
{
	const struct case_group *g = &d->c->groups[alias];
	uint32_t row = testimony_group(d->t, told(d->t, g->name), told(d->t, g->desc));

	d->t->groups.v[row].ranks = told(d->t, g->ranks);
	return row;
}

static inline int64_t call_number(const char **p)
{
	char *end;
	long long v = strtoll(*p, &end, 10);

	*p = end;
	return v;
}

/* The operation at *p, up to its marks. */
static inline struct signature call_signature(struct dumping *d, const char **p)
{
	struct signature s = signature_unknown();
	size_t len = strcspn(*p, "/~(?*. )");
	char name[96], sizes[32], dtype[24] = "Float";

	snprintf(name, sizeof(name), "%s:%.*s", d->c->backend, (int)len, *p);
	s.op = comm_op_of(name, strlen(name));
	s.name = told(d->t, name);
	s.in_elements = s.out_elements = s.op == COMM_BARRIER ? 0 : 1024;
	*p += len;
	if (**p == '/') {
		++*p;
		s.in_elements = s.out_elements = call_number(p);
		if (**p == '>') {
			++*p;
			s.out_elements = call_number(p);
		}
	}
	if (**p == '~') {
		len = strcspn(++*p, "(?*. )");
		snprintf(dtype, sizeof(dtype), "%.*s", (int)len, *p);
		*p += len;
	}
	if (**p == '(') {
		++*p;
		*(s.op == COMM_SEND ? &s.target : &s.source) = (int32_t)call_number(p);
		++*p;
	}
	snprintf(sizes, sizeof(sizes), "[[%" PRId64 "]]", s.in_elements);
	s.in_sizes = told(d->t, s.in_elements ? sizes : "[]");
	snprintf(sizes, sizeof(sizes), "[[%" PRId64 "]]", s.out_elements);
	s.out_sizes = told(d->t, s.out_elements ? sizes : "[]");
	s.in_dtypes = s.out_dtypes = told(d->t, dtype);
	return s;
}

static inline void call_end(struct op_entry *e, char mark)
{
	e->state = mark == '?' || mark == '.' ? OP_SCHEDULED
		   : mark == '*'	      ? OP_STARTED
					      : OP_COMPLETED;
	e->retired = mark != '?' && mark != '*';
}

static inline void dump_call(struct dumping *d, const char **p)
{
	bool again = **p == '+';
	const char *colon = strpbrk(*p, ":@");
	struct op_entry e = { .frames = NO_ID, .op_id = -1, .timeout_ms = 600000 };
	struct signature s;
	size_t alias;

	assert_non_null(colon);
	*p += again;
	alias = case_alias(d->c, *p, (size_t)(colon - *p));
	*p = colon + 1;
	e.group = dump_group_of(d, alias);
	if (*colon == '@') {
		d->seq[alias] = call_number(p) - 1;
		return;
	}
	s = call_signature(d, p);
	e.p2p = s.op == COMM_SEND || s.op == COMM_RECV;
	e.seq = e.p2p ? ++d->p2p_seq[alias] : again ? d->seq[alias] : ++d->seq[alias];
	e.signature = testimony_signature(d->t, &s);
	e.record = d->record++;
	e.created_ns = CASE_BEGIN - 1800 * SECOND + e.record * SECOND / 100;
	e.started_ns = e.completed_ns = -1;
	call_end(&e, **p);
	*p += strchr("?*.", **p) && **p;
	*vec_push(&d->t->entries) = e;
}

static inline void dump_calls(struct dumping *d, const char **p)
{
	while (**p && **p != ')') {
		if (**p == ' ') {
			++*p;
		} else if (**p == '#') {
			++*p;
			d->record = call_number(p);
		} else if (**p >= '0' && **p <= '9') {
			int64_t times = call_number(p);
			const char *body = ++*p;

			for (int64_t i = 0; i < times; i++) {
				*p = body;
				dump_calls(d, p);
			}
			++*p;
		} else {
			dump_call(d, p);
		}
	}
}

/* A dump of `rank`, `seconds` after the case's first moment; each moment has a folder. */
static inline struct testimony *dump_at(struct hang_case *c, int64_t rank, int64_t seconds,
					const char *calls)
{
	struct dumping d = { .c = c };
	char path[64];

	d.t = case_file(c, WITNESS_DUMP, "flight-recorder", rank);
	snprintf(path, sizeof(path), "hang-%05d/rank_%05d.%05zu", (int)seconds, (int)rank,
		 c->files.n);
	d.t->path = told(d.t, path);
	d.t->present = true;
	d.t->time_ns = CASE_BEGIN + seconds * SECOND;
	dump_calls(&d, &calls);
	assert_int_equal(*calls, 0);
	return d.t;
}

static inline struct testimony *dump(struct hang_case *c, int64_t rank, const char *calls)
{
	return dump_at(c, rank, 0, calls);
}

/* The same dump of ranks from..to. */
static inline void dumps(struct hang_case *c, int64_t from, int64_t to, const char *calls)
{
	for (int64_t rank = from; rank <= to; rank++)
		dump(c, rank, calls);
}

static inline void cut_short(struct hang_case *c)
{
	c->cut.v[c->cut.n - 1] = true;
}

/* As pg_status says it, of a group that the dump has. */
static inline void status(struct hang_case *c, struct testimony *t, const char *alias,
			  int64_t enqueued, int64_t started, int64_t completed)
{
	struct dumping d = { .c = c, .t = t };

	*vec_push(&t->status) = (struct op_status){
		.group = dump_group_of(&d, case_alias(c, alias, strlen(alias))),
		.rank = t->rank,
		.enqueued = enqueued,
		.started = started,
		.completed = completed,
	};
}

/* --- logs --- */

static inline struct testimony *log_file(struct hang_case *c)
{
	return case_file(c, WITNESS_LOG, "log", -1);
}

/* The next line of the log, to be filled in. */
static inline struct saying *says(struct testimony *t, enum saying_kind kind, int64_t rank,
				  const char *text)
{
	struct saying *s = vec_push(&t->sayings);

	*s = saying_of(kind);
	s->rank = rank;
	s->text = told(t, text);
	s->line = s->last_line = ++t->lines;
	s->count = 1;
	return s;
}

/* The watchdog of `rank`: its operation `seq` ran into its time-out. */
static inline struct saying *timed_out(struct testimony *t, int64_t rank, int64_t seq)
{
	struct saying *s =
	    says(t, SAY_TIMEOUT, rank, "Watchdog caught collective operation timeout");

	s->seq = seq;
	s->timeout_ms = s->ran_ms = 600000;
	return s;
}

static inline void steps_of(struct testimony *t, int64_t rank, int64_t from, int64_t to,
			    int64_t total, int64_t last_ns)
{
	for (int64_t step = from; step <= to; step++) {
		struct progress_line l = progress_line_unknown();

		l.rank = rank;
		l.step = step;
		l.total = total;
		l.time_ns = last_ns < 0 ? -1 : last_ns - (to - step) * SECOND;
		l.line = ++t->lines;
		testimony_progress(t, &l);
	}
}

/* --- stacks, power, counts --- */

/* Frames innermost first: "function file:line|function file:line". */
static inline void frames_of(struct testimony *t, const char *frames)
{
	while (*frames) {
		size_t len = strcspn(frames, "|"), name = strcspn(frames, " "), file;
		uint32_t function = testimony_name(t, frames, name);

		assert_true(name < len);
		file = strcspn(frames + name + 1, ":");
		testimony_frame(t, function, testimony_name(t, frames + name + 1, file),
				atoi(frames + name + 1 + file + 1));
		frames += len + (frames[len] == '|');
	}
}

static inline struct process_stack *stack(struct hang_case *c, int64_t rank, const char *frames)
{
	struct testimony *t = case_file(c, WITNESS_STACKS, "py-spy", rank);
	struct process_stack *p = testimony_stack(t);
	struct thread_stack *th = testimony_thread(t);

	p->rank = rank;
	p->tool = STACK_PYSPY;
	th->name = told(t, "MainThread");
	th->main = true;
	frames_of(t, frames);
	return p;
}

#define IN_ALL_REDUCE                                                                              \
	"all_reduce torch/distributed/distributed_c10d.py:2825|train train.py:40|<module> "        \
	"train.py:90"
#define IN_DATA_LOADER                                                                             \
	"_try_get_data torch/utils/data/dataloader.py:1243|__next__ "                              \
	"torch/utils/data/dataloader.py:701|train train.py:31|<module> train.py:90"

/* Samples of a GPU that draws `power` of 700 W at this utilization (0..1), a second apart. */
static inline void gpu_draws(struct testimony *t, int64_t index, double power, double utilization)
{
	struct gpu_series *g = testimony_gpu(t, NO_ID, index, NO_ID);

	for (int i = 0; i < 6; i++) {
		struct gpu_sample s = gpu_sample_unknown();

		s.time_ns = CASE_BEGIN + i * SECOND;
		s.power_w = (float)power;
		s.limit_w = 700;
		s.utilization = (float)utilization;
		gpu_series_add(t, g, &s);
	}
}

/* --- what is said of it --- */

static inline uint64_t case_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

static inline void case_order(const struct hang_case *c, size_t *order)
{
	uint64_t state = c->shuffle;

	for (size_t i = 0; i < c->files.n; i++)
		order[i] = i;
	for (size_t i = c->files.n; c->shuffle && i-- > 1;) {
		size_t k = case_random(&state) % (i + 1), other = order[k];

		order[k] = order[i];
		order[i] = other;
	}
}

/* Into the one table of all dumps, which frees the dump's own. */
static inline void case_take(struct hang_case *c, size_t file)
{
	if (!c->standings)
		c->standings = standings_new();
	if (c->files.v[file]->witness == WITNESS_DUMP && !c->views.v[file])
		c->views.v[file] = standings_take(c->standings, c->files.v[file], c->cut.v[file]);
}

static inline void case_scene(struct hang_case *c)
{
	size_t *order = xmalloc((c->files.n + 1) * sizeof(*order));

	assert_false(c->judged);
	c->judged = true;
	case_order(c, order);
	for (size_t i = 0; i < c->files.n; i++) {
		case_take(c, order[i]);
		*vec_push(&c->parts) =
		    (struct scene_part){ c->files.v[order[i]], c->views.v[order[i]] };
	}
	free(order);
	scene_build(&c->scene, c->standings, c->parts.v, c->parts.n);
}

static inline void case_judge(struct hang_case *c)
{
	if (c->judged)
		return;
	case_scene(c);
	c->job = (struct job){ .world_size = -1, .first_step = -1, .last_step = -1 };
	c->report = (struct report){
		.job = &c->job,
		.verdict = VERDICT_INSUFFICIENT,
		.step_ms_median = NAN,
		.step_ms_p99 = NAN,
	};
	judge_hang(&c->scene, 0.05, &c->report);
}

/* The n-th finding that is no note; NULL: there are fewer. */
static inline const struct finding *case_finding(struct hang_case *c, size_t n)
{
	case_judge(c);
	for (size_t i = 0; i < c->report.findings.n; i++)
		if (c->report.findings.v[i].severity != SEVERITY_NOTE && !n--)
			return &c->report.findings.v[i];
	return NULL;
}

static inline const char *culprits_of(struct hang_case *c, const struct finding *f)
{
	return report_rank_set(&c->report, f->culprits.v, f->culprits.n);
}

/* One finding, and it names these ranks ("2", "0-3"; "": nobody) for this cause. */
#define assert_named(c, verdict_, cause_, ranks)                                                   \
	do {                                                                                       \
		const struct finding *f_ = case_finding(c, 0);                                     \
                                                                                                   \
		assert_string_equal(verdict_name((c)->report.verdict), verdict_name(verdict_));    \
		assert_non_null(f_);                                                               \
		assert_string_equal(culprits_of(c, f_), ranks);                                    \
		assert_string_equal(cause_info(f_->cause)->name, cause_info(cause_)->name);        \
		assert_null(case_finding(c, 1));                                                   \
	} while (0)

#define assert_nobody_named(c, verdict_)                                                           \
	do {                                                                                       \
		const struct finding *f_ = case_finding(c, 0);                                     \
                                                                                                   \
		assert_string_equal(f_ ? f_->summary : "", "");                                    \
		assert_string_equal(verdict_name((c)->report.verdict), verdict_name(verdict_));    \
	} while (0)

#define assert_contains(text, part)                                                                \
	do {                                                                                       \
		if (!strstr(text, part))                                                           \
			fail_msg("\"%s\" is not in \"%s\"", part, text);                           \
	} while (0)

/* Evidence of a finding that holds these words? */
static inline bool proves(const struct finding *f, const char *words)
{
	for (size_t i = 0; i < f->evidence.n; i++)
		if (strstr(f->evidence.v[i].text, words))
			return true;
	return false;
}

static inline bool among(const char *const *lines, size_t n, const char *words)
{
	for (size_t i = 0; i < n; i++)
		if (strstr(lines[i], words))
			return true;
	return false;
}

static inline const struct scene_group *scene_group_of(const struct hang_case *c, const char *name)
{
	for (size_t i = 0; i < c->scene.groups.n; i++)
		if (!strcmp(intern_get(&c->scene.names, c->scene.groups.v[i].name), name))
			return &c->scene.groups.v[i];
	return NULL;
}
