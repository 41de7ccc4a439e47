/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prometheus.c - Prometheus text as exporters give it: DCGM's and others' metrics of GPUs.
 *
 * A line is a metric, labels that say whose it is, a value, and perhaps a time in milliseconds.
 * Files may hold several scrapes one after the other: a metric that comes again for the same GPU
 * begins the next sample. DCGM writes 9223372036854775794 and its like for "no value".
 */
#include "read/power.h"

#include <stdio.h>
#include <strings.h>

#include "read/counters.h"
#include "read/gpu_pending.h"
#include "read/stamp.h"

#define LABELS_MAX     64u
#define DCGM_BLANK_MIN 1e14 /* the blank values of 64 bits; those of 32 bits are counts */

struct label {
	const char *name, *value;
	size_t name_len, value_len;
};

struct metric_line {
	const char *name;
	size_t name_len;
	struct label labels[LABELS_MAX];
	unsigned n;
	const char *value;
	size_t value_len;
	int64_t time_ns;
};

static bool is_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == ':' || c == '.';
}

/* {name="value", ..}: behind the brace; NULL if it does not close. */
static const char *labels_of(const char *p, const char *end, struct metric_line *m)
{
	while (p < end) {
		struct label l;

		while (p < end && (*p == ' ' || *p == ','))
			p++;
		if (p == end)
			return NULL;
		if (*p == '}')
			return p + 1;
		l.name = p;
		while (p < end && is_name(*p))
			p++;
		l.name_len = (size_t)(p - l.name);
		while (p < end && *p == ' ')
			p++;
		if (!l.name_len || end - p < 2 || *p != '=')
			return NULL;
		p++;
		while (p < end && *p == ' ')
			p++;
		if (p == end || *p != '"')
			return NULL;
		l.value = ++p;
		while (p < end && *p != '"')
			p += *p == '\\' && p + 1 < end ? 2 : 1;
		if (p >= end)
			return NULL;
		l.value_len = (size_t)(p++ - l.value);
		if (m->n < LABELS_MAX)
			m->labels[m->n++] = l;
	}
	return NULL;
}

static const char *skip_blank(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	return p;
}

static bool metric_of(const char *p, size_t len, struct metric_line *m)
{
	const char *end = p + len, *from;

	m->n = 0;
	m->time_ns = -1;
	m->name = p;
	while (p < end && is_name(*p))
		p++;
	m->name_len = (size_t)(p - m->name);
	if (!m->name_len || (*m->name >= '0' && *m->name <= '9'))
		return false;
	p = skip_blank(p, end);
	if (p < end && *p == '{') {
		p = labels_of(p + 1, end, m);
		if (!p)
			return false;
	}
	from = p = skip_blank(p, end);
	while (p<end && * p> ' ')
		p++;
	m->value = from;
	m->value_len = (size_t)(p - from);
	from = p = skip_blank(p, end);
	while (p<end && * p> ' ' && *p != '#') /* an exemplar is no time */
		p++;
	if (p > from)
		m->time_ns = stamp_of_text(from, (size_t)(p - from));
	return m->value_len > 0;
}

/* The value of a label by any of its names; "" if it has none of them. */
static struct label label_of(const struct metric_line *m, const char *const *names)
{
	for (; *names; names++)
		for (unsigned i = 0; i < m->n; i++)
			if (m->labels[i].value_len && strlen(*names) == m->labels[i].name_len &&
			    !strncasecmp(*names, m->labels[i].name, m->labels[i].name_len))
				return m->labels[i];
	return (struct label){ "", "", 0, 0 };
}

/* The number at the end of "0", "nvidia3", "card1"; -1. */
static int64_t trailing_number(struct label l)
{
	size_t i = l.value_len;
	int64_t v = 0;

	while (i && l.value[i - 1] >= '0' && l.value[i - 1] <= '9')
		i--;
	if (i == l.value_len || l.value_len - i > 9)
		return -1;
	for (; i < l.value_len; i++)
		v = v * 10 + (l.value[i] - '0');
	return v;
}

static int64_t whole_number(struct label l)
{
	for (size_t i = 0; i < l.value_len; i++)
		if (l.value[i] < '0' || l.value[i] > '9')
			return -1;
	return trailing_number(l);
}

/* "h01:9400" of instance is the host with the exporter's port. */
static uint32_t host_of(struct testimony *t, const struct metric_line *m)
{
	static const char *const hosts[] = {
		"Hostname",	     "host",	 "node", "nodename", "kubernetes_node",
		"exported_instance", "instance", NULL
	};
	struct label l = label_of(m, hosts);
	const char *colon = memchr(l.value, ':', l.value_len);

	if (colon && memchr(colon + 1, ':', (size_t)(l.value + l.value_len - colon - 1)))
		colon = NULL; /* an IPv6 address */
	if (line_starts(l.value, l.value_len, "localhost") ||
	    line_starts(l.value, l.value_len, "127."))
		return NO_ID;
	return gpu_text(t, l.value, colon ? (size_t)(colon - l.value) : l.value_len);
}

static bool is_trouble_counter(const struct metric_line *m)
{
	static const char *const begins[] = { "node_infiniband_", "infiniband_", "DCGM_FI_DEV_",
					      "XPU_TIMER_COMMON_" };
	bool ours = false;

	for (size_t i = 0; i < ARRAY_SIZE(begins); i++)
		ours |= line_starts(m->name, m->name_len, begins[i]);
	return ours && counter_means_trouble(m->name, m->name_len);
}

/* Counters of ports (node_exporter) and of boards (DCGM) that mean trouble where they grow. */
static void take_counter(struct power_file *f, const struct metric_line *m)
{
	static const char *const devices[] = { "gpu", "rank", "device", NULL };
	static const char *const ports[] = { "port", "nvlink", NULL };
	struct label device = label_of(m, devices), port = label_of(m, ports);
	uint32_t host = host_of(f->t, m);
	enum gpu_unit unit;
	char name[128];
	double v;
	int n;

	if (!is_trouble_counter(m) || !gpu_number(m->value, m->value_len, &v, &unit) ||
	    v >= DCGM_BLANK_MIN)
		return;
	/* "mlx5_0/1", "gpu 3", "rank 1" */
	n = snprintf(name, sizeof(name), "%.*s%s%.*s%s%.*s",
		     line_is(device.name, device.name_len, "device") ? 0 : (int)device.name_len,
		     device.name, line_is(device.name, device.name_len, "device") ? "" : " ",
		     (int)MIN(device.value_len, 40u), device.value, port.value_len ? "/" : "",
		     (int)MIN(port.value_len, 40u), port.value);
	testimony_counter(f->t, host == NO_ID ? f->host : host,
			  testimony_name(f->t, name, (size_t)n),
			  testimony_name(f->t, m->name, MIN(m->name_len, 96u)), v);
	f->stats->events++;
}

static void take_metric(struct power_file *f, struct gpu_pending *pending,
			const struct metric_line *m)
{
	static const char *const indices[] = { "gpu",	 "gpu_index",	 "index",
					       "gpu_id", "minor_number", "device_id",
					       "device", "local_rank",	 NULL };
	static const char *const uuids[] = { "UUID", "gpu_uuid", "uuid", NULL };
	static const char *const ranks[] = { "rank", "global_rank", NULL };
	static const char *const models[] = { "modelName", "model_name", "gpu_name", "name", NULL };
	static const char *const xids[] = { "xid", "err_code", NULL };
	enum gpu_unit unit;
	const struct gpu_metric_name *name = gpu_metric_find(m->name, m->name_len, &unit);
	bool count = line_starts(m->name, m->name_len, "DCGM_EXP_XID_ERRORS_COUNT");
	struct gpu_reading *r;
	uint32_t host, uuid;
	struct label l;
	int64_t index;

	if (!name && !count) {
		take_counter(f, m);
		return;
	}
	host = host_of(f->t, m);
	l = label_of(m, uuids);
	uuid = gpu_text(f->t, l.value, l.value_len);
	index = trailing_number(label_of(m, indices));
	r = gpu_pending_get(pending, host == NO_ID ? f->host : host, index, uuid, name, m->time_ns);
	if (!r)
		return;
	r->rank = MAX(r->rank, whole_number(label_of(m, ranks)));
	l = label_of(m, models);
	if (l.value_len)
		r->model = gpu_text(f->t, l.value, l.value_len);
	if (count) {
		int64_t xid = trailing_number(label_of(m, xids));

		if (xid > 0 && !line_is(m->value, m->value_len, "0"))
			r->xid = xid;
		return;
	}
	gpu_reading_text(r, f->t, name, unit, m->value, m->value_len,
			 &f->stats->skipped[SKIP_BAD_NUMBER]);
}

int prometheus_read(struct input *in, const char *path, struct testimony **ret,
		    struct read_stats *stats, struct error *reterr)
{
	struct gpu_pending pending = { 0 };
	struct metric_line m;
	struct power_file f;
	const char *line;
	size_t len;

	power_file_begin(&f, in, path, "prometheus", stats);
	pending.t = f.t;
	while (text_lines_next(&f.lines, &line, &len)) {
		line_trim(&line, &len);
		if (!len || *line == '#')
			continue;
		if (metric_of(line, len, &m))
			take_metric(&f, &pending, &m);
		else
			stats->skipped[SKIP_MALFORMED]++;
	}
	gpu_pending_done(&pending);
	stats->events += pending.stored;
	return power_file_end(&f, ret, reterr);
}

/* "# TYPE name gauge" and lines of metrics; or, without comments, a metric that we know. */
bool prometheus_sniff(const char *text, size_t len, const char *path)
{
	const char *p = text, *end = text + len, *line;
	unsigned lines = 0, metrics = 0, types = 0, known = 0;
	struct metric_line m;
	size_t n;

	(void)path;
	while (lines < 200 && text_line_in(&p, end, &line, &n)) {
		line_trim(&line, &n);
		if (!n || (p == end && lines && len >= 4096))
			continue;
		lines++;
		if (*line == '#') {
			types += line_starts(line, n, "# TYPE ") || line_starts(line, n, "# HELP ");
			metrics++;
			continue;
		}
		if (!metric_of(line, n, &m) || (m.n == 0 && m.value_len && *m.value > '9'))
			continue;
		metrics++;
		known +=
		    m.n && (gpu_metric_find(m.name, m.name_len, NULL) || is_trouble_counter(&m));
	}
	return lines && metrics * 10 >= lines * 9 && (types || known);
}
