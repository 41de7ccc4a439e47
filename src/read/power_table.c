/* SPDX-License-Identifier: Apache-2.0 */
/*
 * power_table.c - the tables of nvidia-smi and rocm-smi, known by the shape of their lines.
 *
 * nvidia-smi gives a GPU two lines: its number and bus id, then power, memory and utilization. The
 * columns' places differ between drivers, what stands in them does not: "69W / 700W", "45%".
 */
#include "read/power_table.h"

#include <stdio.h>
#include <strings.h>

#include "read/power.h"
#include "read/power_inside.h"
#include "read/stamp.h"

#define TABLE_STATES_MAX 4096u /* printers whose lines are told apart */
#define TABLE_WORDS_MAX	 32u

struct word {
	const char *p;
	size_t len;
};

static unsigned split(const char *p, size_t len, struct word words[TABLE_WORDS_MAX])
{
	const char *end = p + len;
	unsigned n = 0;

	while (n < TABLE_WORDS_MAX) {
		while (p < end && (unsigned char)*p <= ' ')
			p++;
		if (p == end)
			break;
		words[n].p = p;
		while (p < end && (unsigned char)*p > ' ')
			p++;
		words[n].len = (size_t)(p - words[n].p);
		n++;
	}
	return n;
}

static bool word_whole(struct word w, int64_t *ret)
{
	int64_t v = 0;

	for (size_t i = 0; i < w.len; i++) {
		if (w.p[i] < '0' || w.p[i] > '9' || v > 1000000000)
			return false;
		v = v * 10 + (w.p[i] - '0');
	}
	*ret = v;
	return w.len > 0;
}

static void reading_take(struct power_table *p, struct gpu_reading *r, const char *name,
			 struct word w)
{
	enum gpu_unit unit;
	const struct gpu_metric_name *row = gpu_metric_find(name, strlen(name), &unit);

	if (row)
		gpu_reading_text(r, p->t, row, unit, w.p, w.len, &p->bad);
}

/* --- nvidia-smi --- */

static bool is_bus_id(struct word w)
{
	unsigned colons = 0;

	if (w.len < 7 || w.p[w.len - 2] != '.')
		return false;
	for (size_t i = 0; i < w.len; i++) {
		char c = w.p[i];

		colons += c == ':';
		if (c != ':' && c != '.' && !(c >= '0' && c <= '9') && !(c >= 'A' && c <= 'F') &&
		    !(c >= 'a' && c <= 'f'))
			return false;
	}
	return colons == 1 || colons == 2;
}

void table_close(struct power_table *p, struct table_state *s)
{
	if (s->open) {
		s->reading.sample.time_ns = s->time_ns;
		s->reading.processes = s->processes;
		p->readings += gpu_reading_store(&s->reading, p->t);
	}
	s->open = false;
	s->processes = -1;
}

/* "|   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |                    0 |" */
static bool gpu_line(struct power_table *p, struct table_state *s, const struct word *w, unsigned n)
{
	int64_t index;
	unsigned bus = 0, name_end = 0;

	if (n < 5 || !word_whole(w[1], &index) || index > 4095)
		return false;
	for (unsigned i = 2; i < n && !bus; i++) {
		if (w[i].p[0] == '|')
			name_end = i;
		if (name_end && is_bus_id(w[i]))
			bus = i;
	}
	if (!bus)
		return false;
	table_close(p, s);
	s->kind = TABLE_GPUS;
	s->open = true;
	s->reading = gpu_reading_unknown();
	s->reading.host = s->host;
	s->reading.index = index;
	if (name_end > 3) /* the last word is the persistence mode */
		s->reading.model = gpu_text(
		    p->t, w[2].p, (size_t)(w[name_end - 2].p + w[name_end - 2].len - w[2].p));
	return true;
}

/* "| N/A   30C    P0    69W / 700W |   508MiB / 81559MiB |    100%      Default |" */
static bool value_line(struct power_table *p, struct table_state *s, const struct word *w,
		       unsigned n)
{
	unsigned bars = 0;
	bool took = false;

	if (!s->open || s->kind != TABLE_GPUS)
		return false;
	for (unsigned i = 0; i < n; i++) {
		bool pair = i + 2 < n && w[i + 1].len == 1 && w[i + 1].p[0] == '/';
		char last = w[i].p[w[i].len - 1];

		if (w[i].p[0] == '|') {
			bars++;
		} else if (bars == 1 && pair) {
			reading_take(p, &s->reading, "power.draw", w[i]);
			reading_take(p, &s->reading, "power.limit", w[i + 2]);
			took = true;
			i += 2;
		} else if (bars == 1 && last == 'C' && w[i].p[0] >= '0' && w[i].p[0] <= '9') {
			reading_take(p, &s->reading, "temperature.gpu", w[i]);
		} else if (bars == 2 && pair) {
			reading_take(p, &s->reading, "memory.used", w[i]);
			took = true;
			i += 2;
		} else if (bars == 3 && last == '%') {
			reading_take(p, &s->reading, "utilization.gpu", w[i]);
			took = true;
			break;
		}
	}
	return took;
}

/* "|    0   N/A  N/A     12345      C   python3                         500MiB |" */
static bool process_line(struct power_table *p, struct table_state *s, const struct word *w,
			 unsigned n)
{
	struct gpu_series *g;
	int64_t index, pid;
	unsigned at = 2;

	if (n < 5 || !word_whole(w[1], &index))
		return false;
	while (at < n && line_is(w[at].p, w[at].len, "N/A"))
		at++;
	/* GI and CI are numbers on a MIG board. */
	if (at == 2 && n > 7 && w[5].len <= 3 && word_whole(w[4], &pid))
		at = 4;
	if (at >= n || !word_whole(w[at], &pid))
		return false;
	g = testimony_gpu(p->t, s->host, index, NO_ID);
	if (g)
		g->processes = g->processes < 0 ? 1 : g->processes + 1;
	return true;
}

/* The table of processes begins: those counted before were of an older table. */
static void processes_begin(struct power_table *p, struct table_state *s)
{
	table_close(p, s);
	s->kind = TABLE_PROCESSES;
	for (size_t i = 0; i < p->t->gpus.n; i++)
		if (p->t->gpus.v[i].host == s->host)
			p->t->gpus.v[i].processes = 0;
}

static bool boxed_line(struct power_table *p, struct table_state *s, const char *line, size_t len)
{
	struct word words[TABLE_WORDS_MAX];
	unsigned n = split(line, len, words);

	if (line_has(line, len, "NVIDIA-SMI")) {
		table_close(p, s);
		s->kind = TABLE_GPUS;
		return true;
	}
	if (n > 1 && line_starts(words[1].p, words[1].len, "Processes")) {
		processes_begin(p, s);
		return true;
	}
	if (s->kind == TABLE_PROCESSES && process_line(p, s, words, n))
		return true;
	return gpu_line(p, s, words, n) || value_line(p, s, words, n) || s->kind != TABLE_NONE;
}

/* --- gpustat --- */

/* "[0] NVIDIA H100 80GB HBM3 | 30'C, 100 %,   69 / 700 W |   508 / 81559 MB | alice(500M)" */
static bool gpustat_line(struct power_table *p, struct table_state *s, const char *line, size_t len)
{
	struct gpu_reading r = gpu_reading_unknown();
	const char *close = memchr(line, ']', MIN(len, 6u)), *bar = memchr(line, '|', len);
	struct word w[TABLE_WORDS_MAX];
	unsigned n;

	if (!close || !bar || !line_has(bar, (size_t)(line + len - bar), "'C") ||
	    !word_whole((struct word){ line + 1, (size_t)(close - line - 1) }, &r.index))
		return false;
	r.model = gpu_text(p->t, close + 1, (size_t)(bar - close - 1));
	n = split(bar, (size_t)(line + len - bar), w);
	for (unsigned i = 0; i < n; i++) {
		const char *degree = memmem(w[i].p, w[i].len, "'C", 2);

		if (degree) {
			w[i].len = (size_t)(degree - w[i].p);
			reading_take(p, &r, "temperature.gpu", w[i]);
		} else if (w[i].p[0] == '%' && i) {
			reading_take(p, &r, "utilization.gpu", w[i - 1]);
		} else if (w[i].p[0] == '/' && i && i + 2 < n && w[i + 2].p[0] == 'W') {
			reading_take(p, &r, "power.draw", w[i - 1]);
			reading_take(p, &r, "power.limit", w[i + 1]);
		} else if (w[i].p[0] == '/' && i && i + 2 < n && w[i + 2].p[0] == 'M') {
			reading_take(p, &r, "memory.used", w[i - 1]);
		}
	}
	r.host = s->host;
	r.sample.time_ns = s->time_ns;
	if (!gpu_reading_store(&r, p->t))
		return false;
	p->readings++;
	return true;
}

/* --- rocm-smi --- */

/* "0  36.0c  93.0W  800Mhz  1600Mhz  0%  auto  500.0W  0%  0%": what stands before the clocks is
   measured, what stands behind them is set. */
static bool rocm_row(struct power_table *p, struct table_state *s, const char *line, size_t len)
{
	struct gpu_reading r = gpu_reading_unknown();
	struct word w[TABLE_WORDS_MAX], percent = { NULL, 0 };
	unsigned n = split(line, len, w), clocks = 0;
	int64_t index;

	if (n < 7 || !word_whole(w[0], &index) || index > 4095 ||
	    w[n - 1].p[w[n - 1].len - 1] != '%')
		return false;
	for (unsigned i = 1; i < n; i++) {
		char last = w[i].p[w[i].len - 1];
		bool number = w[i].p[0] >= '0' && w[i].p[0] <= '9';

		if (!number)
			continue;
		if (w[i].len > 3 && !strncasecmp(w[i].p + w[i].len - 3, "mhz", 3)) {
			if (!clocks++)
				reading_take(p, &r, "sclk", w[i]);
		} else if (last == 'W') {
			reading_take(p, &r, clocks ? "pwrcap" : "avgpwr", w[i]);
		} else if ((last == 'c' || last == 'C') && !clocks) {
			reading_take(p, &r, "temp", w[i]);
		} else if (last == '%') {
			percent = w[i];
		}
	}
	if (!clocks || !percent.p)
		return false;
	reading_take(p, &r, "gpuuse", percent);
	r.host = s->host;
	r.index = index;
	r.sample.time_ns = s->time_ns;
	p->readings += gpu_reading_store(&r, p->t);
	return true;
}

/* "GPU[0]		: Average Graphics Package Power (W): 93.0" */
static bool rocm_item(struct power_table *p, struct table_state *s, const char *line, size_t len)
{
	const struct gpu_metric_name *name;
	struct gpu_reading *r;
	const char *end = line + len, *at = line + 4, *value;
	enum gpu_unit unit;
	int64_t index = 0;

	for (; at < end && *at >= '0' && *at <= '9' && index < 10000; at++)
		index = index * 10 + (*at - '0');
	if (at == line + 4 || at == end || *at != ']')
		return false;
	for (at++; at < end && ((unsigned char)*at <= ' ' || *at == ':'); at++)
		;
	value = memrchr(at, ':', (size_t)(end - at));
	if (!value)
		return true;
	name = gpu_metric_find(at, (size_t)(value - at), &unit);
	if (!name && line_starts(at, (size_t)(end - at), "sclk clock level"))
		name = gpu_metric_find("sclk", 4, &unit);
	if (!name)
		return true;
	r = gpu_pending_get(&p->pending, s->host, index, NO_ID, name, s->time_ns);
	value++;
	if (r)
		gpu_reading_text(r, p->t, name, unit, value, (size_t)(end - value), &p->bad);
	return true;
}

static bool is_rule(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != '=')
			return false;
	return true;
}

/* The lines around the rows: their rules and the names of the columns. */
static bool rocm_frame(const char *line, size_t len)
{
	if (*line == '=')
		return line_has(line, len, "ROCm S") || line_has(line, len, "Info =") ||
		       is_rule(line, len) || line_has(line, len, " ====");
	return (line_has(line, len, "SCLK") && line_has(line, len, "GPU%")) ||
	       line_starts(line, len, "(DID");
}

/* --- lines --- */

static struct table_state *state_of(struct power_table *p, uint32_t host)
{
	if (p->last < p->states.n && p->states.v[p->last].host == host)
		return &p->states.v[p->last];
	for (p->last = 0; p->last < p->states.n; p->last++)
		if (p->states.v[p->last].host == host)
			return &p->states.v[p->last];
	if (p->states.n == TABLE_STATES_MAX) {
		p->t->dropped++;
		return NULL;
	}
	*vec_push(&p->states) =
	    (struct table_state){ .host = host, .time_ns = -1, .processes = -1, .section = NO_ID };
	return &p->states.v[p->last];
}

static bool may_be_ours(const char *line, size_t len)
{
	switch (*line) {
	case '|':
	case '+':
	case '=':
	case '<':
		return true;
	case 'G':
		return line_starts(line, len, "GPU[") || rocm_frame(line, len);
	case '[':
		return line_has(line, len, "'C");
	case 'D': /* the names of rocm-smi's columns */
	case '(':
		return rocm_frame(line, len);
	default:
		return *line >= '0' && *line <= '9' && line[len - 1] == '%';
	}
}

bool power_table_line(struct power_table *p, const char *line, size_t len, uint32_t host,
		      int64_t time_ns)
{
	struct table_state *s;
	const char *inner = line;
	size_t inner_len = len;

	line_trim(&inner, &inner_len);
	if (!inner_len)
		return false;
	/* The lines of nvidia-smi -q are known only between its own. */
	if (!may_be_ours(inner, inner_len) &&
	    !(p->last < p->states.n && p->states.v[p->last].kind >= TABLE_QUERY))
		return false;
	s = state_of(p, host);
	if (!s)
		return false;
	if (time_ns >= 0)
		s->time_ns = time_ns;
	if (*inner == '[')
		return gpustat_line(p, s, inner, inner_len);
	if (*inner == '|')
		return boxed_line(p, s, inner, inner_len);
	if (*inner == '+')
		return s->kind != TABLE_NONE && line_starts(inner, inner_len, "+--");
	if (*inner == 'G' && line_starts(inner, inner_len, "GPU["))
		return rocm_item(p, s, inner, inner_len);
	if (*inner >= '0' && *inner <= '9' && rocm_row(p, s, inner, inner_len))
		return true;
	if (rocm_frame(inner, inner_len) && !line_has(inner, inner_len, "NVSMI"))
		return true;
	return query_line(p, s, line, len);
}

struct power_table *power_table_new(struct testimony *t)
{
	struct power_table *p = xcalloc(1, sizeof(*p));

	p->t = p->pending.t = t;
	return p;
}

uint64_t power_table_readings(const struct power_table *p)
{
	return p->readings + p->pending.stored;
}

struct power_table *power_table_free(struct power_table *p)
{
	if (!p)
		return NULL;
	for (size_t i = 0; i < p->states.n; i++)
		table_close(p, &p->states.v[i]);
	gpu_pending_done(&p->pending);
	free(p->states.v);
	free(p);
	return NULL;
}

/* --- as a file --- */

/* A date by itself, as nvidia-smi and date(1) print it. */
static bool date_line(struct power_table *p, const char *line, size_t len, uint32_t host)
{
	struct table_state *s;
	int64_t ns;
	size_t taken;

	line_trim(&line, &len);
	taken = stamp_parse(line, len, &ns);
	if (!taken || taken != len)
		return false;
	s = state_of(p, host);
	if (s) {
		table_close(p, s);
		s->time_ns = ns;
	}
	return true;
}

/* gpustat's "[0] " is no prefix. */
static size_t table_prefix(const char *p, size_t len, const char **ret, size_t *ret_len)
{
	return len && *p == '[' && line_has(p, len, "'C") ? 0 : power_prefix(p, len, ret, ret_len);
}

/* "h01   Tue Jan 16 14:44:16 2024   550.54.15" above gpustat's lines. */
static bool gpustat_heading(struct power_table *p, const char *line, size_t len, uint32_t *ret_host)
{
	const char *end = line + len, *at;
	struct table_state *s;
	int64_t ns;
	size_t host;

	line_trim(&line, &len);
	for (host = 0; host < len && line[host] > ' ';)
		host++;
	for (at = line + host; at < end && *at == ' ';)
		at++;
	if (!host || at == line + host || !stamp_parse(at, (size_t)(end - at), &ns))
		return false;
	*ret_host = testimony_name(p->t, line, host);
	s = state_of(p, *ret_host);
	if (s)
		s->time_ns = ns;
	return true;
}

int power_table_read(struct input *in, const char *path, struct testimony **ret,
		     struct read_stats *stats, struct error *reterr)
{
	struct power_file f;
	struct power_table *p;
	const char *line, *label;
	size_t len, label_len;

	power_file_begin(&f, in, path, "gpu-table", stats);
	p = power_table_new(f.t);
	while (text_lines_next(&f.lines, &line, &len)) {
		uint32_t host = f.host;
		size_t prefix;

		if (power_heading(line, len, &label, &label_len)) {
			f.host = testimony_name(f.t, label, label_len);
			continue;
		}
		prefix = table_prefix(line, len, &label, &label_len);

		/* "Timestamp : .." of nvidia-smi -q is no prefix: its colon stands apart. */
		if (prefix) {
			host = power_label_host(f.t, label, label_len);
			line += prefix;
			len -= prefix;
		}
		if (!date_line(p, line, len, host) && !power_table_line(p, line, len, host, -1) &&
		    !prefix)
			gpustat_heading(p, line, len, &f.host);
	}
	stats->skipped[SKIP_BAD_NUMBER] += p->bad;
	power_table_free(p);
	for (size_t i = 0; i < f.t->gpus.n; i++)
		stats->events += f.t->gpus.v[i].seen;
	return power_file_end(&f, ret, reterr);
}

/* Words that stand in no log by chance, in the first lines; a log with a table in its head is a
   log: most lines must be the table's. */
bool power_table_sniff(const char *text, size_t len, const char *path)
{
	const char *p = text, *end = text + len, *line, *label;
	unsigned lines = 0, ours = 0;
	size_t n, label_len, inner_len;
	uint32_t ignored;
	const char *inner;
	bool known = line_has(text, len, "NVIDIA-SMI") || line_has(text, len, "NVSMI LOG") ||
		     line_has(text, len, "<nvidia_smi_log>") ||
		     line_has(text, len, "ROCm System Management Interface") ||
		     line_has(text, len, "ROCm SMI") ||
		     (line_has(text, len, "'C, ") && line_has(text, len, " MB |"));
	struct testimony *t;
	struct power_table *table;

	(void)path;
	if (!known || memchr(text, 0, len))
		return false;
	t = testimony_new(WITNESS_POWER, "gpu-table");
	table = power_table_new(t);
	while (lines < 400 && text_line_in(&p, end, &line, &n)) {
		size_t prefix = table_prefix(line, n, &label, &label_len);
		uint32_t host = prefix ? power_label_host(t, label, label_len) : NO_ID;

		line += prefix;
		n -= prefix;
		inner = line;
		inner_len = n;
		line_trim(&inner, &inner_len);
		if (!inner_len)
			continue;
		lines++;
		ours += power_table_line(table, line, n, host, -1) ||
			date_line(table, line, n, host) || line_starts(line, n, "===") ||
			gpustat_heading(table, line, n, &ignored);
	}
	power_table_free(table);
	testimony_free(t);
	return 5 * ours >= 4 * lines;
}
