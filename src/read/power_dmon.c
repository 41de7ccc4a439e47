/* SPDX-License-Identifier: Apache-2.0 */
/*
 * power_dmon.c - nvidia-smi dmon and dcgmi dmon: columns of numbers under a header that comes
 * again.
 *
 * The header's words are the columns; it may change midway (a driver, another -s). Between its
 * lines stand one row for each GPU, then the next round. dcgmi's rows begin with "GPU 3".
 */
#include "read/power.h"

#include <stdio.h>

#include "read/stamp.h"

#define DMON_COLUMNS_MAX 96u

struct dmon_column {
	const struct gpu_metric_name *name; /* NULL: not wanted */
	enum gpu_unit unit;
};

struct dmon_table {
	struct dmon_column columns[DMON_COLUMNS_MAX];
	unsigned n;
	int date, time; /* columns; -1 */
	bool dcgm;
};

struct word {
	const char *p;
	size_t len;
};

/* Words are apart by white space, or by commas (dmon --format csv). */
static bool next_word(const char **p, const char *end, struct word *ret)
{
	while (*p < end && ((unsigned char)**p <= ' ' || **p == ','))
		++*p;
	ret->p = *p;
	while (*p < end && (unsigned char)**p > ' ' && **p != ',')
		++*p;
	ret->len = (size_t)(*p - ret->p);
	return ret->len > 0;
}

/*
 * "# gpu pwr gtemp ..", "#Date Time gpu ..", dcgmi's "#Entity GPUTL POWER": the columns in order.
 * The second line, of units, is none.
 */
static bool dmon_header(const char *p, size_t len, struct dmon_table *ret)
{
	struct dmon_table t = { .date = -1, .time = -1 };
	const char *end = p + len;
	unsigned metrics = 0;
	bool gpu = false;
	struct word w;

	if (!len || *p != '#')
		return false;
	p++;
	while (t.n < DMON_COLUMNS_MAX && next_word(&p, end, &w)) {
		struct dmon_column *c = &t.columns[t.n];

		*c = (struct dmon_column){ 0 };
		if (line_is(w.p, w.len, "Date"))
			t.date = (int)t.n;
		else if (line_is(w.p, w.len, "Time"))
			t.time = (int)t.n;
		else
			c->name = gpu_metric_find(w.p, w.len, &c->unit);
		if (line_is(w.p, w.len, "Entity") || line_is(w.p, w.len, "Entity:"))
			t.dcgm = gpu = true;
		gpu |= line_is(w.p, w.len, "gpu");
		metrics += c->name && c->name->metric < GPU_SAMPLE_METRICS;
		t.n++;
	}
	if (!gpu || (!metrics && t.n < 2))
		return false;
	*ret = t;
	return true;
}

static int64_t dmon_time(const struct dmon_table *t, const struct word *words)
{
	char both[64];
	int n;

	if (t->date < 0 || t->time < 0)
		return -1;
	n = snprintf(both, sizeof(both), "%.*s %.*s", (int)MIN(words[t->date].len, 20u),
		     words[t->date].p, (int)MIN(words[t->time].len, 20u), words[t->time].p);
	return stamp_of_text(both, (size_t)n);
}

/* The words of a row, dcgmi's "GPU 3" as one; fewer than the columns: no row. */
static unsigned dmon_words(const struct dmon_table *t, const char *p, size_t len,
			   struct word words[DMON_COLUMNS_MAX])
{
	const char *end = p + len;
	unsigned n = 0;

	while (n < DMON_COLUMNS_MAX && next_word(&p, end, &words[n])) {
		if (t->dcgm && !n && line_is(words[0].p, words[0].len, "GPU"))
			next_word(&p, end, &words[0]);
		n++;
	}
	return n;
}

/* A row of numbers and dashes, as many as there are columns. */
static bool is_row(const struct dmon_table *t, const struct word *words, unsigned n)
{
	if (!t->n || n != t->n)
		return false;
	for (unsigned i = 0; i < n; i++) {
		char c = *words[i].p;

		if (!((c >= '0' && c <= '9') || c == '-' ||
		      line_is(words[i].p, words[i].len, "N/A") || c == '['))
			return false;
	}
	return true;
}

static void take_row(struct power_file *f, const struct dmon_table *t, const struct word *words,
		     uint32_t host)
{
	struct gpu_reading g = gpu_reading_unknown();

	for (unsigned i = 0; i < t->n; i++)
		if (t->columns[i].name)
			gpu_reading_text(&g, f->t, t->columns[i].name, t->columns[i].unit,
					 words[i].p, words[i].len,
					 &f->stats->skipped[SKIP_BAD_NUMBER]);
	if (t->dcgm) {
		double v;
		enum gpu_unit unit;

		g.index = gpu_number(words[0].p, words[0].len, &v, &unit) && v >= 0 && v < 4096
			      ? (int64_t)v
			      : -1;
	}
	g.host = host;
	g.sample.time_ns = dmon_time(t, words);
	power_file_store(f, &g);
}

int power_dmon_read(struct input *in, const char *path, struct testimony **ret,
		    struct read_stats *stats, struct error *reterr)
{
	struct dmon_table table = { .date = -1, .time = -1 };
	struct word words[DMON_COLUMNS_MAX];
	struct power_file f;
	const char *line, *label;
	size_t len, label_len;

	power_file_begin(&f, in, path, "nvidia-smi-dmon", stats);
	while (text_lines_next(&f.lines, &line, &len)) {
		size_t prefix;
		uint32_t host;
		unsigned n;

		if (power_heading(line, len, &label, &label_len)) {
			f.host = testimony_name(f.t, label, label_len);
			continue;
		}
		prefix = power_prefix(line, len, &label, &label_len);
		host = prefix ? power_label_host(f.t, label, label_len) : NO_ID;
		line += prefix;
		len -= prefix;
		line_trim(&line, &len);
		if (!len || dmon_header(line, len, &table) || *line == '#' ||
		    (table.dcgm && line_starts(line, len, "ID")))
			continue;
		n = dmon_words(&table, line, len, words);
		if (is_row(&table, words, n))
			take_row(&f, &table, words, host);
		else
			stats->skipped[SKIP_MALFORMED]++;
	}
	return power_file_end(&f, ret, reterr);
}

bool power_dmon_sniff(const char *text, size_t len, const char *path)
{
	const char *p = text, *end = text + len, *line, *label;
	struct dmon_table table = { .n = 0 };
	struct word words[DMON_COLUMNS_MAX];
	unsigned lines = 0, rows = 0;
	size_t n, label_len;

	(void)path;
	while (lines < 40 && text_line_in(&p, end, &line, &n)) {
		size_t prefix = power_prefix(line, n, &label, &label_len);

		line += prefix;
		n -= prefix;
		line_trim(&line, &n);
		if (!n)
			continue;
		if (dmon_header(line, n, &table) || *line == '#')
			continue;
		lines++;
		rows += is_row(&table, words, dmon_words(&table, line, n, words));
	}
	return table.n && 2 * rows >= lines;
}
