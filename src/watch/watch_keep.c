/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_keep.c - tables of the fields that survive a restart, and the file they lie in.
 *
 * What a state file says is believed as far as it can be: numbers out of range are left out, rows
 * beyond the limits too.
 */
#include "watch/watch_keep.h"
#include "base/clock.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define STATE_VERSION 1

struct field {
	const char *name;
	size_t at;
	enum { OF_NUMBER, OF_TIME, OF_UINT, OF_BOOL, OF_RING, OF_TEXT, OF_INT, OF_DOUBLE } type;
	size_t size; /* of a text */
};

#define W(field, type)                                                                             \
	{                                                                                          \
#field, offsetof(struct watch, field), type, sizeof(((struct watch *)0)->field)    \
	}
static const struct field watch_fields[] = {
	W(began_ms, OF_TIME),
	W(phase, OF_INT),
	W(phase_ms, OF_TIME),
	W(progress_ms, OF_TIME),
	W(step, OF_NUMBER),
	W(total, OF_NUMBER),
	W(beyond, OF_BOOL),
	W(ranks_known, OF_NUMBER),
	W(attempt, OF_UINT),
	W(steps_seen, OF_UINT),
	W(line, OF_RING),
	W(pause, OF_RING),
	W(save, OF_RING),
	W(evaluation, OF_RING),
	W(step_us, OF_RING),
	W(step_now, OF_RING),
	W(saves_since, OF_BOOL),
	W(evaluates_since, OF_BOOL),
	W(save_begins, OF_UINT),
	W(evaluations, OF_UINT),
	W(slow_since_ms, OF_TIME),
	W(starved_since_ms, OF_TIME),
	W(throttled_since_ms, OF_TIME),
	W(save_begun_ms, OF_TIME),
	W(saved_ms, OF_TIME),
	W(stands_ms, OF_TIME),
	W(stands, OF_TEXT),
	W(save_period, OF_RING),
	W(saved_name, OF_TEXT),
	W(done_ms, OF_TIME),
	W(timeout_ms, OF_TIME),
	W(dump_ms, OF_TIME),
	W(dumps, OF_UINT),
	W(job, OF_INT),
	W(job_ms, OF_TIME),
	W(gone, OF_NUMBER),
	W(job_word, OF_TEXT),
	W(loss_bad, OF_NUMBER),
	W(pattern, OF_INT),
	W(pattern_ms, OF_TIME),
	W(signature_ms, OF_TIME),
	W(still_ms, OF_TIME),
	W(still, OF_RING),
	W(worked, OF_BOOL),
	W(hung, OF_BOOL),
	W(hung_ms, OF_TIME),
};
#define F(field, type)                                                                             \
	{                                                                                          \
#field, offsetof(struct watch_failure, field), type,                               \
		    sizeof(((struct watch_failure *)0)->field)                                     \
	}
static const struct field failure_fields[] = {
	F(known, OF_BOOL), F(sure, OF_BOOL), F(rank, OF_NUMBER), F(at_ms, OF_TIME),
	F(host, OF_TEXT),  F(what, OF_TEXT), F(text, OF_TEXT),
};
#define G(field, type)                                                                             \
	{                                                                                          \
#field, offsetof(struct watch_gpu, field), type,                                   \
		    sizeof(((struct watch_gpu *)0)->field)                                         \
	}
static const struct field gpu_fields[] = {
	G(index, OF_NUMBER),   G(rank, OF_NUMBER),	 G(xid, OF_NUMBER),
	G(at_ms, OF_TIME),     G(period_ms, OF_NUMBER),	 G(most_w, OF_DOUBLE),
	G(least_w, OF_DOUBLE), G(busy, OF_DOUBLE),	 G(share, OF_DOUBLE),
	G(clock, OF_DOUBLE),   G(clock_best, OF_DOUBLE), G(rests_now, OF_BOOL),
};

struct watch_clock watch_clock_now(void)
{
	struct watch_clock c = { .boot = "" };
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, c.boot, 36) : 0;

	cleanup_close(&fd);
	c.boot[n > 0 ? n : 0] = '\0';
	c.mono_ms = WATCH_EPOCH_MS + clock_ms();
	c.wall_ms = clock_wall_ms();
	return c;
}

/* --- out --- */

static json_t *ring_json(const struct watch_ring *r)
{
	json_t *a = json_array();

	/* the oldest first */
	for (uint64_t i = r->n > WATCH_RING ? r->n - WATCH_RING : 0; i < r->n; i++)
		json_array_append_new(a, json_integer(r->v[i % WATCH_RING]));
	return a;
}

static json_t *field_json(const struct field *f, const void *of)
{
	const void *p = (const char *)of + f->at;

	switch (f->type) {
	case OF_NUMBER:
	case OF_TIME:
		return json_integer(*(const int64_t *)p);
	case OF_UINT:
		return json_integer((json_int_t) * (const uint64_t *)p);
	case OF_INT:
		return json_integer((json_int_t) * (const unsigned *)p);
	case OF_BOOL:
		return json_boolean(*(const bool *)p);
	case OF_RING:
		return ring_json(p);
	case OF_TEXT:
		return json_stringn_nocheck(p, strlen(p));
	case OF_DOUBLE:
		return isfinite(*(const double *)p) ? json_real(*(const double *)p) : json_null();
	}
	return NULL;
}

static json_t *fields_json(const struct field *f, size_t n, const void *of)
{
	json_t *j = json_object();

	for (size_t i = 0; i < n; i++)
		json_object_set_new_nocheck(j, f[i].name, field_json(&f[i], of));
	return j;
}

json_t *watch_to_json(const struct watch *w, const struct watch_clock *clock)
{
	json_t *j = fields_json(watch_fields, ARRAY_SIZE(watch_fields), w);
	json_t *ranks = json_array(), *gpus = json_array(), *sources = json_array();

	json_object_set_new(j, "version", json_integer(STATE_VERSION));
	json_object_set_new(j, "mono_ms", json_integer(clock->mono_ms));
	json_object_set_new(j, "wall_ms", json_integer(clock->wall_ms));
	json_object_set_new(j, "boot", json_string(clock->boot));
	json_object_set_new(j, "failure",
			    fields_json(failure_fields, ARRAY_SIZE(failure_fields), &w->failure));
	for (size_t i = 0; i < w->sources.n; i++) {
		const struct watch_source_seen *s = &w->sources.v[i];

		json_array_append_new(sources,
				      json_pack("{s:o,s:I,s:i}", "name",
						json_stringn_nocheck(s->name, strlen(s->name)),
						"heard_ms", (json_int_t)s->heard_ms, "tells",
						s->tells_steps | s->tells_gpus << 1 |
						    s->tells_job << 2 | s->tells_saves << 3));
	}
	for (size_t i = 0; i < w->ranks.n; i++) {
		const struct watch_rank *r = &w->ranks.v[i];

		json_array_append_new(ranks, json_pack("[I,i,I,I,I]", (json_int_t)r->rank,
						       (int)r->source, (json_int_t)r->step,
						       (json_int_t)r->at_ms, (json_int_t)r->total));
	}
	for (size_t i = 0; i < w->gpus.n; i++) {
		const struct watch_gpu *g = &w->gpus.v[i];
		json_t *row = fields_json(gpu_fields, ARRAY_SIZE(gpu_fields), g);

		json_object_set_new(row, "host", json_stringn_nocheck(g->host, strlen(g->host)));
		json_object_set_new(row, "source", json_integer(g->source));
		json_object_set_new(row, "rested", json_integer(g->rested));
		json_array_append_new(gpus, row);
	}
	json_object_set_new(j, "sources", sources);
	json_object_set_new(j, "ranks", ranks);
	json_object_set_new(j, "gpus", gpus);
	return j;
}

/* --- in --- */

static void ring_from(struct watch_ring *r, const json_t *a)
{
	const json_t *v;
	size_t i;

	*r = (struct watch_ring){ .n = 0 };
	json_array_foreach(a, i, v) if (i < WATCH_RING && json_is_integer(v) &&
					json_integer_value(v) >= 0)
	    watch_ring_add(r, json_integer_value(v));
}

static void field_from(const struct field *f, void *to, const json_t *j, int64_t shift)
{
	const json_t *v = json_object_get(j, f->name);
	void *p = (char *)to + f->at;
	json_int_t n = json_integer_value(v);

	if (f->type == OF_RING) {
		ring_from(p, v);
	} else if (f->type == OF_TEXT) {
		snprintf(p, f->size, "%s", json_is_string(v) ? json_string_value(v) : "");
	} else if (f->type == OF_BOOL) {
		*(bool *)p = json_is_true(v);
	} else if (f->type == OF_DOUBLE) {
		*(double *)p = json_is_number(v) ? json_number_value(v) : NAN;
	} else if (!json_is_integer(v) || n < -INT64_C(4000000000000000) ||
		   n > INT64_C(4000000000000000)) {
		return;
	} else if (f->type == OF_TIME) {
		*(int64_t *)p = n == -1 ? -1 : MAX(n + shift, 1);
	} else if (f->type == OF_NUMBER) {
		*(int64_t *)p = n;
	} else if (f->type == OF_UINT) {
		*(uint64_t *)p = n > 0 ? (uint64_t)n : 0;
	} else {
		*(unsigned *)p = n > 0 ? (unsigned)n : 0;
	}
}

static void fields_from(const struct field *f, size_t n, void *to, const json_t *j, int64_t shift)
{
	for (size_t i = 0; i < n; i++)
		if (json_object_get(j, f[i].name))
			field_from(&f[i], to, j, shift);
}

/* What rows call source 3 may have another number now. */
static size_t sources_from(struct watch *w, const json_t *j, int64_t shift, uint32_t *map)
{
	const json_t *v;
	size_t i, n = 0;

	json_array_foreach(j, i, v)
	{
		const char *name = json_string_value(json_object_get(v, "name"));
		json_int_t tells = json_integer_value(json_object_get(v, "tells"));
		json_int_t heard = json_integer_value(json_object_get(v, "heard_ms"));
		struct watch_source_seen *s;

		if (i >= WATCH_RANKS)
			break;
		map[n++] = NO_ID;
		if (!name)
			continue;
		for (uint32_t k = 0; k < w->sources.n; k++)
			if (!strcmp(w->sources.v[k].name, name))
				map[n - 1] = k;
		if (map[n - 1] == NO_ID)
			continue;
		s = &w->sources.v[map[n - 1]];
		s->heard_ms = heard == -1 ? -1 : heard + shift;
		s->tells_steps = tells & 1;
		s->tells_gpus = tells & 2;
		s->tells_job = tells & 4;
		s->tells_saves = tells & 8;
	}
	return n;
}

static uint32_t mapped(const uint32_t *map, size_t n, const json_t *v)
{
	json_int_t i = json_integer_value(v);

	return json_is_integer(v) && i >= 0 && (size_t)i < n ? map[i] : NO_ID;
}

static void ranks_from(struct watch *w, const json_t *j, int64_t shift, const uint32_t *map,
		       size_t n)
{
	const json_t *v;
	size_t i;

	json_array_foreach(j, i, v)
	{
		uint32_t source = mapped(map, n, json_array_get(v, 1));

		if (source == NO_ID || i >= WATCH_RANKS || json_array_size(v) < 4)
			continue;
		*vec_push(&w->ranks) = (struct watch_rank){
			.rank = MAX(json_integer_value(json_array_get(v, 0)), -1),
			.source = source,
			.step = MAX(json_integer_value(json_array_get(v, 2)), -1),
			.at_ms = json_integer_value(json_array_get(v, 3)) + shift,
			.total = MAX(json_integer_value(json_array_get(v, 4)), 0),
		};
	}
}

static void gpus_from(struct watch *w, const json_t *j, int64_t shift, const uint32_t *map,
		      size_t n)
{
	const json_t *v;
	size_t i;

	json_array_foreach(j, i, v)
	{
		const char *host = json_string_value(json_object_get(v, "host"));
		uint32_t source = mapped(map, n, json_object_get(v, "source"));
		json_int_t rested = json_integer_value(json_object_get(v, "rested"));
		struct watch_gpu *g;

		if (source == NO_ID || !host || i >= WATCH_GPUS_MOST)
			continue;
		g = vec_push(&w->gpus);
		*g =
		    (struct watch_gpu){ .host = xstrdup(host),
					.source = source,
					.busy_last = NAN,
					.share_last = NAN,
					.rested = rested > 0 ? (uint32_t)MIN(rested, 1000000) : 0 };
		fields_from(gpu_fields, ARRAY_SIZE(gpu_fields), g, v, shift);
		w->shapes[SHAPE_NONE]++;
	}
}

int watch_from_json(struct watch *w, const json_t *j, const struct watch_clock *clock,
		    struct error *reterr)
{
	const char *boot = json_string_value(json_object_get(j, "boot"));
	json_int_t mono = json_integer_value(json_object_get(j, "mono_ms"));
	json_int_t wall = json_integer_value(json_object_get(j, "wall_ms"));
	_cleanup_free_ uint32_t *map = xcalloc(WATCH_RANKS + 1, sizeof(*map));
	int64_t shift = 0;
	size_t n;

	if (json_integer_value(json_object_get(j, "version")) != STATE_VERSION)
		return error_set(reterr, -EBADMSG, "its state is of another version");
	if (mono < 0 || mono > INT64_C(4000000000000000) || wall < 0 ||
	    wall > INT64_C(4000000000000000))
		return error_set(reterr, -EBADMSG, "its state has no sane clock");
	if (!boot || strcmp(boot, clock->boot) || mono > clock->mono_ms)
		shift = clock->mono_ms - mono - MAX(clock->wall_ms - wall, 0);
	fields_from(watch_fields, ARRAY_SIZE(watch_fields), w, j, shift);
	fields_from(failure_fields, ARRAY_SIZE(failure_fields), &w->failure,
		    json_object_get(j, "failure"), shift);
	w->phase = MIN(w->phase, PHASES - 1);
	w->job = MIN(w->job, JOB_GONE);
	w->pattern = MIN(w->pattern, PATTERNS - 1);
	n = sources_from(w, json_object_get(j, "sources"), shift, map);
	ranks_from(w, json_object_get(j, "ranks"), shift, map, n);
	gpus_from(w, json_object_get(j, "gpus"), shift, map, n);
	return 0;
}

/* --- the file --- */

int watch_write_file(const char *path, const void *bytes, size_t len, bool sync,
		     struct error *reterr)
{
	_cleanup_free_ char *beside = xasprintf("%s.new", path);
	_cleanup_close_ int fd = -EBADF;
	const char *p = bytes;
	struct stat st;
	int r = 0;

	/* A device or a pipe would be replaced by a file. */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return error_set(reterr, -ENOTSUP, "%s: no regular file", path);
	fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644);
	if (fd < 0)
		return error_set(reterr, -errno, "%s: %s", beside, strerror(errno));
	while (len) {
		ssize_t n = write(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			r = n < 0 ? -errno : -EIO;
			break;
		}
		p += n;
		len -= (size_t)n;
	}
	if (!r && sync && fsync(fd) < 0)
		r = -errno;
	if (!r && rename(beside, path) < 0)
		r = -errno;
	if (r < 0)
		unlink(beside);
	return r < 0 ? error_set(reterr, r, "%s: %s", path, strerror(-r)) : 0;
}
