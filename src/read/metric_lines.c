/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metric_lines.c - power and utilization in JSON: an object a line, a document, or several of them.
 *
 * Nothing of the shape is fixed. Who a value is of comes from the objects around it ("host",
 * "rank", "index", "time"), from keys ("card0", "gpu_usage:3", "system.gpu.3.powerWatts") or from
 * its place in an array; what it is, from the table of names. Known to come like this: rocm-smi
 * --json, amd-smi, superbench's monitor, wandb's system metrics, answers of Prometheus' API.
 */
#include "read/power.h"

#include <stdio.h>
#include <strings.h>

#include "read/gpu_pending.h"
#include "read/json_member.h"
#include "read/stamp.h"

#define VALUE_BYTES_MAX ((size_t)16 << 20) /* of one top-level value */
#define WALK_DEPTH_MAX	12u
#define ELEMENTS_MAX	65536u /* of one array */
#define SNIFF_VALUES	16u

struct metric_reader {
	struct testimony *t;
	struct read_stats *stats;
	struct gpu_pending pending;
	uint32_t host;	/* of the file's name */
	uint64_t known; /* values of power or utilization whose GPU or rank is known */
};

/* What the objects around a value say. */
struct whose {
	uint32_t host, uuid, model;
	int64_t index, rank, time_ns;
	const struct gpu_metric_name *name; /* {"power": {"value": 69, "unit": "W"}} */
	enum gpu_unit unit;
};

/* "card0", "gpu3", "GPU 3", "3": the number; -1. */
static int64_t gpu_of_key(const struct json_member *m)
{
	const char *p = m->key, *end = p + m->key_len;
	int64_t v = 0;

	if (!strncasecmp(p, "card", MIN(m->key_len, 4u)) && m->key_len > 4)
		p += 4;
	else if (!strncasecmp(p, "gpu", MIN(m->key_len, 3u)) && m->key_len > 3)
		p += 3;
	p += p < end && strchr(" _-.", *p) && *p;
	if (p == end || end - p > 4)
		return -1;
	for (; p < end; p++) {
		if (*p < '0' || *p > '9')
			return -1;
		v = v * 10 + (*p - '0');
	}
	return v;
}

/* Takes what a scalar says of whose the values beside it are; false: it is no such thing. */
static bool take_identity(struct metric_reader *r, struct whose *w, const struct json_member *m)
{
	const struct gpu_metric_name *name = gpu_metric_find(m->key, m->key_len, NULL);
	struct gpu_reading id = gpu_reading_unknown();
	const char *text;
	size_t len = json_scalar(m, &text);
	uint64_t bad = 0;
	int64_t ns;

	if (!name || name->metric < GPU_SAMPLE_METRICS || name->metric > GPU_DATE)
		return false;
	if (name->metric == GPU_TIME || name->metric == GPU_DATE) {
		ns = stamp_of_text(text, len);
		w->time_ns = ns >= 0 ? ns : w->time_ns;
		return ns >= 0;
	}
	/* A key that has an index elsewhere may hold a value here: "gpu": 97.5 */
	if (name->metric == GPU_INDEX && memchr(text, '.', len))
		return false;
	gpu_reading_text(&id, r->t, name, name->unit, text, len, &bad);
	w->host = id.host != NO_ID ? id.host : w->host;
	w->uuid = id.uuid != NO_ID ? id.uuid : id.bus_id != NO_ID ? id.bus_id : w->uuid;
	w->model = id.model != NO_ID ? id.model : w->model;
	w->index = id.index >= 0 ? id.index : w->index;
	w->rank = id.rank >= 0 ? id.rank : w->rank;
	return !bad;
}

static void take_value(struct metric_reader *r, const struct whose *w,
		       const struct gpu_metric_name *name, enum gpu_unit unit,
		       const struct json_member *m)
{
	uint32_t uuid = w->uuid;
	struct gpu_reading *g;
	const char *text;
	size_t len = json_scalar(m, &text);

	if (w->index < 0 && uuid == NO_ID && w->rank >= 0) {
		char rank[32];

		uuid = testimony_name(
		    r->t, rank, (size_t)snprintf(rank, sizeof(rank), "rank %" PRId64, w->rank));
	}
	g = gpu_pending_get(&r->pending, w->host, w->index, uuid, name, w->time_ns);
	if (!g)
		return;
	g->rank = MAX(g->rank, w->rank);
	g->model = w->model != NO_ID ? w->model : g->model;
	r->known += (name->metric == GPU_POWER || name->metric == GPU_UTILIZATION) &&
		    (w->index >= 0 || uuid != NO_ID || w->rank >= 0);
	gpu_reading_text(g, r->t, name, unit, text, len, &r->stats->skipped[SKIP_BAD_NUMBER]);
}

static void walk(struct metric_reader *r, struct whose w, const char *p, const char *end,
		 unsigned depth);

/* {"metric": {..labels..}, "values": [[time, "value"], ..]} */
static bool walk_series(struct metric_reader *r, struct whose w, const char *p, const char *end)
{
	const char *at = p + 1, *values = NULL, *values_end = NULL, *pair;
	const struct gpu_metric_name *name = NULL;
	enum gpu_unit unit = UNIT_NONE;
	struct json_member m, label, point;
	const char *text;
	size_t len;

	while (json_member_next(&at, end, true, &m)) {
		if (json_key_is(&m, "metric") && *m.value == '{') {
			const char *labels = m.value + 1;

			while (json_member_next(&labels, m.end, true, &label)) {
				if (!json_is_scalar(&label))
					continue;
				len = json_scalar(&label, &text);
				if (json_key_is(&label, "__name__"))
					name = gpu_metric_find(text, len, &unit);
				else
					take_identity(r, &w, &label);
			}
		} else if ((json_key_is(&m, "values") || json_key_is(&m, "value")) &&
			   *m.value == '[') {
			values = m.value + 1;
			values_end = m.end;
		}
	}
	if (!name || !values)
		return false;
	while (json_member_next(&values, values_end, false, &point)) {
		if (*point.value != '[') { /* "value": [time, "value"] */
			len = json_scalar(&point, &text);
			w.time_ns = stamp_of_text(text, len);
			if (json_member_next(&values, values_end, false, &point))
				take_value(r, &w, name, unit, &point);
			break;
		}
		pair = point.value + 1;
		if (!json_member_next(&pair, point.end, false, &m))
			break;
		len = json_scalar(&m, &text);
		w.time_ns = stamp_of_text(text, len);
		if (json_member_next(&pair, point.end, false, &m))
			take_value(r, &w, name, unit, &m);
	}
	return true;
}

static void walk_member(struct metric_reader *r, const struct whose *outer,
			const struct json_member *m, unsigned depth)
{
	struct whose w = *outer;
	enum gpu_unit unit = UNIT_NONE;
	const struct gpu_metric_name *name = gpu_metric_find(m->key, m->key_len, &unit);
	int64_t gpu = -1;

	if (!name || (name->metric == GPU_INDEX && json_is_scalar(m) && w.index >= 0))
		name = gpu_metric_find_indexed(m->key, m->key_len, &gpu, &unit);
	if (gpu >= 0)
		w.index = gpu;
	if (json_is_scalar(m)) {
		if (w.name && (json_key_is(m, "value") || json_key_is(m, "val")))
			take_value(r, &w, w.name, w.unit, m);
		else if (name && name->metric >= GPU_SAMPLE_METRICS && name->metric <= GPU_DATE)
			return;
		else if (name)
			take_value(r, &w, name, unit, m);
		return;
	}
	w.name = name && name->metric < GPU_SAMPLE_METRICS ? name : NULL;
	w.unit = unit;
	gpu = gpu_of_key(m);
	if (gpu >= 0)
		w.index = gpu;
	walk(r, w, m->value, m->end, depth + 1);
}

/* An array: objects with or without an index of their own, or one number a GPU. */
static void walk_array(struct metric_reader *r, struct whose w, const char *p, const char *end,
		       unsigned depth)
{
	const char *at = p + 1;
	int64_t outer = w.index;
	struct json_member m;

	for (int64_t i = 0; i < ELEMENTS_MAX && json_member_next(&at, end, false, &m); i++) {
		w.index = outer >= 0 ? outer : depth ? i : -1;
		if (!json_is_scalar(&m))
			walk(r, w, m.value, m.end, depth + 1);
		else if (w.name)
			take_value(r, &w, w.name, w.unit, &m);
	}
}

static void walk(struct metric_reader *r, struct whose w, const char *p, const char *end,
		 unsigned depth)
{
	const char *at = p + 1;
	struct json_member m;

	if (depth > WALK_DEPTH_MAX) {
		r->stats->skipped[SKIP_TOO_DEEP]++;
		return;
	}
	if (*p == '[') {
		walk_array(r, w, p, end, depth);
		return;
	}
	if (walk_series(r, w, p, end))
		return;
	while (json_member_next(&at, end, true, &m))
		if (json_is_scalar(&m))
			take_identity(r, &w, &m);
	for (at = p + 1; json_member_next(&at, end, true, &m);)
		walk_member(r, &w, &m, depth);
}

/* All top-level values, or the first of them. */
static void read_values(struct metric_reader *r, struct json_values *v, uint64_t limit)
{
	const char *p, *end;

	while (v->n < limit && json_values_next(v, &p, &end)) {
		struct whose whose = { r->host, NO_ID, NO_ID, -1, -1, -1, NULL, UNIT_NONE };

		walk(r, whose, p, end, 0);
		gpu_pending_flush(&r->pending);
	}
	for (size_t i = 0; i < SKIP_REASONS; i++)
		r->stats->skipped[i] += v->skipped[i];
}

int metric_lines_read(struct input *in, const char *path, struct testimony **ret,
		      struct read_stats *stats, struct error *reterr)
{
	struct metric_reader r = { .stats = stats };
	struct json_values values;
	struct power_file f;

	power_file_begin(&f, in, path, "gpu-json", stats);
	r.t = r.pending.t = f.t;
	r.host = f.host;
	json_values_init(&values, in, VALUE_BYTES_MAX);
	read_values(&r, &values, UINT64_MAX);
	f.lines.error = values.w.error;
	json_values_done(&values);
	gpu_pending_done(&r.pending);
	stats->events += r.pending.stored;
	return power_file_end(&f, ret, reterr);
}

static ssize_t source_span(void *user, void *buf, size_t len)
{
	struct span *s = user;
	size_t n = MIN(len, span_left(s));

	memcpy(buf, s->p, n);
	s->p += n;
	return (ssize_t)n;
}

/* The first values, read in earnest: power or utilization of a known GPU is among them. */
bool metric_lines_sniff(const char *text, size_t len, const char *path)
{
	struct read_stats stats = { 0 };
	struct metric_reader r = { .stats = &stats, .host = NO_ID };
	struct span span = span_of(text, len);
	struct json_values values;
	struct input *in;
	const char *p = text;
	size_t n = len;

	(void)path;
	line_trim(&p, &n);
	if (!n || (*p != '{' && *p != '['))
		return false;
	in = input_of_source(source_span, &span);
	r.t = r.pending.t = testimony_new(WITNESS_POWER, "gpu-json");
	json_values_init(&values, in, VALUE_BYTES_MAX);
	read_values(&r, &values, SNIFF_VALUES);
	json_values_done(&values);
	gpu_pending_done(&r.pending);
	testimony_free(r.t);
	input_free(in);
	return r.known > 0;
}
