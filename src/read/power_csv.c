/* SPDX-License-Identifier: Apache-2.0 */
/*
 * power_csv.c - nvidia-smi --query-gpu --format=csv, and what scripts write like it.
 *
 * The header's names decide what a column is; a header may come again and may have changed. Without
 * a header the units of the values decide (69.75 W is a power, 100 % a utilization), and what
 * cannot be told from them stays unknown. A line may have a host in front ("h01: ").
 */
#include "read/power.h"

#include <stdio.h>
#include <strings.h>

#include "read/stamp.h"

#define CSV_COLUMNS_MAX 256u
#define CSV_LABELS_MAX	4096u
/* nvidia-smi asks one GPU after the other; two rounds lie further apart than this. */
#define CSV_ROUND_NS INT64_C(50000000)

struct csv_column {
	const struct gpu_metric_name *name; /* NULL: not wanted */
	enum gpu_unit unit;
	int64_t gpu; /* stated in the column's name: "gpu.0.powerWatts"; -1 */
};

struct csv_table {
	struct csv_column columns[CSV_COLUMNS_MAX];
	unsigned n;
	char separator;
	bool has_index, has_id, has_time, by_gpu;
};

/* The GPUs of one label in their order, for tables that do not number them. */
struct csv_round {
	uint32_t host;
	int64_t at_ns, next;
};

struct csv_reader {
	struct power_file f;
	struct csv_table table;
	VEC(struct csv_round) rounds;
	VEC(uint32_t) ids; /* uuids or bus ids in order of appearance, with their host */
};

/* --- cells --- */

struct cell {
	const char *p;
	size_t len;
};

/* The next cell of a line, trimmed; quoted cells may hold the separator. */
static bool next_cell(const char **p, const char *end, char separator, struct cell *ret)
{
	const char *from = *p, *to;

	if (!from)
		return false;
	while (from < end && *from == ' ')
		from++;
	if (from < end && *from == '"') {
		to = memchr(from + 1, '"', (size_t)(end - from - 1));
		*ret = (struct cell){ from + 1,
				      to ? (size_t)(to - from - 1) : (size_t)(end - from - 1) };
		to = to ? memchr(to, separator, (size_t)(end - to)) : NULL;
	} else {
		to = memchr(from, separator, (size_t)(end - from));
		*ret = (struct cell){ from, (size_t)((to ? to : end) - from) };
	}
	line_trim(&ret->p, &ret->len);
	*p = to ? to + 1 : NULL;
	return true;
}

static unsigned count_cells(const char *p, size_t len, char separator)
{
	const char *end = p + len;
	struct cell c;
	unsigned n = 0;

	while (n <= CSV_COLUMNS_MAX && next_cell(&p, end, separator, &c))
		n++;
	return n;
}

static char separator_of(const char *p, size_t len)
{
	static const char candidates[] = ",;\t";
	char best = 0;
	unsigned most = 1;

	for (size_t i = 0; i + 1 < sizeof(candidates); i++) {
		unsigned n = count_cells(p, len, candidates[i]);

		if (n > most) {
			most = n;
			best = candidates[i];
		}
	}
	return best;
}

/* --- headers --- */

static struct csv_column column_of(struct cell c)
{
	struct csv_column column = { .gpu = -1 };

	column.name = gpu_metric_find(c.p, c.len, &column.unit);
	if (!column.name)
		column.name = gpu_metric_find_indexed(c.p, c.len, &column.gpu, &column.unit);
	return column;
}

/* Is this line a header? It names a metric of ours, and has no value in it. */
static bool header_of(const char *p, size_t len, struct csv_table *ret)
{
	const char *end = p + len;
	struct csv_table t = { .n = 0 };
	unsigned known = 0, metrics = 0;
	struct cell c;

	if (len && *p == '#')
		p++;
	/* Most rows begin with a number: they are told apart before anything is looked up. */
	if (p == end || (*p >= '0' && *p <= '9'))
		return false;
	t.separator = separator_of(p, (size_t)(end - p));
	if (!t.separator)
		return false;
	while (t.n < CSV_COLUMNS_MAX && next_cell(&p, end, t.separator, &c)) {
		struct csv_column column = column_of(c);

		if (c.len && ((*c.p >= '0' && *c.p <= '9') || (*c.p == '[' && !column.name)))
			return false;
		if (column.name) {
			known++;
			metrics += column.name->metric < GPU_SAMPLE_METRICS;
			t.has_index |= column.name->metric == GPU_INDEX;
			t.has_id |=
			    column.name->metric == GPU_UUID || column.name->metric == GPU_BUS_ID;
			t.has_time |= column.name->metric == GPU_TIME;
			t.by_gpu |= column.gpu >= 0;
		}
		t.columns[t.n++] = column;
	}
	if (!metrics || (known < 2 && t.n > 2))
		return false;
	*ret = t;
	return true;
}

/* --- files without a header --- */

enum cell_type {
	CELL_OTHER,
	CELL_TIME,
	CELL_UUID,
	CELL_BUS,
	CELL_INTEGER,
	CELL_HUNDREDTHS,
	CELL_UNIT
};

/* 69.75: as nvidia-smi prints a power, and nothing else. */
static bool is_hundredths(struct cell c)
{
	return c.len >= 4 && c.p[c.len - 3] == '.';
}

static enum cell_type type_of(struct cell c, enum gpu_unit *ret_unit, double *ret)
{
	*ret_unit = UNIT_NONE;
	if (line_starts(c.p, c.len, "GPU-") || line_starts(c.p, c.len, "MIG-"))
		return CELL_UUID;
	if (c.len >= 12 && c.p[c.len - 2] == '.' && memchr(c.p, ':', c.len))
		return CELL_BUS;
	if (gpu_number(c.p, c.len, ret, ret_unit))
		return *ret_unit != UNIT_NONE	 ? CELL_UNIT
		       : is_hundredths(c)	 ? CELL_HUNDREDTHS
		       : memchr(c.p, '.', c.len) ? CELL_OTHER
						 : CELL_INTEGER;
	return stamp_of_text(c.p, c.len) >= 0 ? CELL_TIME : CELL_OTHER;
}

/* What a column with this unit is: the first of its kind, then the second. */
static const char *name_of_unit(enum gpu_unit unit, unsigned nth)
{
	static const struct {
		enum gpu_unit unit;
		const char *names[2];
	} rows[] = {
		{ UNIT_W, { "power.draw", "power.limit" } },
		{ UNIT_PERCENT, { "utilization.gpu", "utilization.memory" } },
		{ UNIT_MHZ, { "clocks.sm", NULL } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].unit == unit)
			return nth < 2 ? rows[i].names[nth] : NULL;
	return NULL;
}

static void type_column(struct csv_table *t, unsigned i, const char *name)
{
	if (name)
		t->columns[i].name = gpu_metric_find(name, strlen(name), &t->columns[i].unit);
}

/* Columns by the values of one row: at least two that say what they are, a unit among them. */
static bool typed_of(const char *p, size_t len, struct csv_table *ret)
{
	const char *end = p + len;
	struct csv_table t = { .separator = separator_of(p, len) };
	unsigned nth[UNIT_CELSIUS + 1] = { 0 }, told = 0, sizes = 0, used = 0;
	double size[2] = { 0 };
	bool index = false;
	struct cell c;

	while (t.separator && t.n < CSV_COLUMNS_MAX && next_cell(&p, end, t.separator, &c)) {
		enum gpu_unit unit;
		double v = 0;
		enum cell_type type = type_of(c, &unit, &v);

		t.columns[t.n] = (struct csv_column){ .gpu = -1 };
		if (type == CELL_UNIT) {
			type_column(&t, t.n, name_of_unit(unit, nth[unit]++));
			if (unit == UNIT_MIB && sizes < 2) {
				used = sizes && v >= size[0] ? used : t.n; /* the smaller one */
				size[sizes++] = v;
			}
			told++;
		} else if (type == CELL_HUNDREDTHS && (t.has_time || t.has_id)) {
			type_column(&t, t.n, name_of_unit(UNIT_W, nth[UNIT_W]++));
			told++;
		} else if (type == CELL_TIME) {
			type_column(&t, t.n, "timestamp");
			t.has_time = true;
		} else if (type == CELL_UUID || type == CELL_BUS) {
			type_column(&t, t.n, type == CELL_UUID ? "uuid" : "pci.bus_id");
			t.has_id = true;
		} else if (type == CELL_INTEGER && !index && v >= 0 && v < 64 && t.n < 3) {
			type_column(&t, t.n, "index");
			t.has_index = index = true;
		}
		t.n++;
	}
	if (sizes)
		type_column(&t, used, "memory.used");
	if (!told || t.n < 2 || nth[UNIT_W] + nth[UNIT_PERCENT] == 0)
		return false;
	*ret = t;
	return true;
}

/* --- rows --- */

static struct csv_round *round_of(struct csv_reader *r, uint32_t host)
{
	for (size_t i = 0; i < r->rounds.n; i++)
		if (r->rounds.v[i].host == host)
			return &r->rounds.v[i];
	if (r->rounds.n == CSV_LABELS_MAX)
		return &r->rounds.v[0];
	*vec_push(&r->rounds) = (struct csv_round){ host, -1, 0 };
	return &r->rounds.v[r->rounds.n - 1];
}

/* nvidia-smi lists GPUs by their index: where it is not stated, the place in the round is it. */
static void number_gpu(struct csv_reader *r, struct gpu_reading *g)
{
	uint32_t id = g->uuid != NO_ID ? g->uuid : g->bus_id;
	struct csv_round *round;

	if (g->index >= 0 || r->f.gpu >= 0)
		return;
	if (id != NO_ID) {
		int64_t index = 0;

		for (size_t i = 0; i + 1 < r->ids.n; i += 2) {
			if (r->ids.v[i] != g->host)
				continue;
			if (r->ids.v[i + 1] == id) {
				g->index = index;
				return;
			}
			index++;
		}
		if (r->ids.n >= 2 * CSV_LABELS_MAX)
			return;
		*vec_push(&r->ids) = g->host;
		*vec_push(&r->ids) = id;
		g->index = index;
		return;
	}
	if (g->sample.time_ns < 0)
		return;
	round = round_of(r, g->host);
	if (round->at_ns < 0 || g->sample.time_ns - round->at_ns > CSV_ROUND_NS ||
	    g->sample.time_ns < round->at_ns)
		round->next = 0;
	round->at_ns = g->sample.time_ns;
	g->index = round->next++;
}

/* Day and time of day may stand in one cell or in two. */
struct row_time {
	struct cell date, time;
};

static void row_cell(struct csv_reader *r, struct gpu_reading *g, struct row_time *when,
		     const struct csv_column *column, struct cell c)
{
	if (column->name->metric == GPU_TIME)
		when->time = c;
	else if (column->name->metric == GPU_DATE)
		when->date = c;
	else
		gpu_reading_text(g, r->f.t, column->name, column->unit, c.p, c.len,
				 &r->f.stats->skipped[SKIP_BAD_NUMBER]);
}

static int64_t row_time_ns(struct csv_reader *r, const struct row_time *when)
{
	int64_t ns = stamp_of_text(when->time.p, when->time.len);
	char both[80];
	int n;

	if (ns < 0 && when->date.len) {
		n = snprintf(both, sizeof(both), "%.*s %.*s", (int)MIN(when->date.len, 30u),
			     when->date.p, (int)MIN(when->time.len, 30u), when->time.p);
		ns = stamp_of_text(both, (size_t)n - !when->time.len);
	}
	if (ns < 0 && when->time.len + when->date.len)
		r->f.stats->skipped[SKIP_BAD_TIME]++;
	return ns;
}

/* A line with one GPU: what is in its columns. */
static void take_row(struct csv_reader *r, const char *p, size_t len, uint32_t host)
{
	const char *end = p + len;
	struct gpu_reading g = gpu_reading_unknown();
	struct row_time when = { { "", 0 }, { "", 0 } };
	struct cell c;

	for (unsigned i = 0; i < r->table.n && next_cell(&p, end, r->table.separator, &c); i++)
		if (r->table.columns[i].name)
			row_cell(r, &g, &when, &r->table.columns[i], c);
	g.sample.time_ns = row_time_ns(r, &when);
	if (g.host == NO_ID)
		g.host = host;
	number_gpu(r, &g);
	power_file_store(&r->f, &g);
}

/* A line with a column for each GPU's value: one reading a GPU, those without a GPU for all. */
static void take_wide_row(struct csv_reader *r, const char *p, size_t len, uint32_t host)
{
	const char *end = p + len;
	struct cell cells[CSV_COLUMNS_MAX];
	struct row_time when = { { "", 0 }, { "", 0 } };
	unsigned n = 0;
	int64_t done = -1;

	while (n < r->table.n && next_cell(&p, end, r->table.separator, &cells[n]))
		n++;
	for (;;) {
		struct gpu_reading g = gpu_reading_unknown();
		int64_t next = INT64_MAX;

		for (unsigned i = 0; i < n; i++)
			if (r->table.columns[i].name && r->table.columns[i].gpu > done)
				next = MIN(next, r->table.columns[i].gpu);
		if (next == INT64_MAX)
			return;
		for (unsigned i = 0; i < n; i++)
			if (r->table.columns[i].name &&
			    (r->table.columns[i].gpu < 0 || r->table.columns[i].gpu == next))
				row_cell(r, &g, &when, &r->table.columns[i], cells[i]);
		g.sample.time_ns = row_time_ns(r, &when);
		if (g.host == NO_ID)
			g.host = host;
		g.index = next;
		power_file_store(&r->f, &g);
		done = next;
	}
}

static void take_line(struct csv_reader *r, const char *p, size_t len)
{
	struct csv_table table;
	const char *label;
	size_t label_len, prefix;
	uint32_t host = NO_ID;
	unsigned n;

	if (power_heading(p, len, &label, &label_len)) {
		r->f.host = testimony_name(r->f.t, label, label_len);
		return;
	}
	prefix = power_prefix(p, len, &label, &label_len);
	if (prefix) {
		host = power_label_host(r->f.t, label, label_len);
		p += prefix;
		len -= prefix;
	}
	line_trim(&p, &len);
	if (!len)
		return;
	if (header_of(p, len, &table)) {
		r->table = table;
		return;
	}
	n = r->table.separator ? count_cells(p, len, r->table.separator) : 0;
	if (n != r->table.n || n < 2) {
		/* Columns that changed without a header: their units may tell. */
		if (!typed_of(p, len, &table)) {
			r->f.stats->skipped[SKIP_MALFORMED]++;
			return;
		}
		r->table = table;
	}
	if (r->table.by_gpu)
		take_wide_row(r, p, len, host);
	else
		take_row(r, p, len, host);
}

int power_csv_read(struct input *in, const char *path, struct testimony **ret,
		   struct read_stats *stats, struct error *reterr)
{
	struct csv_reader r = { 0 };
	const char *line;
	size_t len;

	power_file_begin(&r.f, in, path, "gpu-csv", stats);
	while (text_lines_next(&r.f.lines, &line, &len))
		take_line(&r, line, len);
	free(r.rounds.v);
	free(r.ids.v);
	return power_file_end(&r.f, ret, reterr);
}

/* A header within the first lines and rows of as many cells behind it; or rows with units. */
bool power_csv_sniff(const char *text, size_t len, const char *path)
{
	const char *p = text, *end = text + len, *line, *label;
	struct csv_table table = { 0 }, typed;
	unsigned lines = 0, rows = 0, other = 0;
	size_t n, label_len;

	(void)path;
	while (lines < 200 && text_line_in(&p, end, &line, &n)) {
		size_t prefix = power_prefix(line, n, &label, &label_len);

		if (p == end && len >= 4096 && lines) /* the look may have cut it */
			break;
		line += prefix;
		n -= prefix;
		line_trim(&line, &n);
		if (!n)
			continue;
		lines++;
		if (header_of(line, n, &typed))
			table = typed;
		else if ((table.n && count_cells(line, n, table.separator) == table.n) ||
			 typed_of(line, n, &typed))
			rows++;
		else
			other++;
	}
	return table.n ? rows >= 2 * other && other <= 5 + lines / 10
		       : rows && !memchr(text, 0, len) && rows >= 4 * other;
}
