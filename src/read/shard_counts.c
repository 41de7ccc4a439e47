/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_counts.c - counts files: who has how much, as people write it down.
 *
 * JSON (an object by rank, a list, a list of objects, columns, one object a line), CSV and TSV with
 * a header in any order, two columns, one number a line. All become cells: rank, field, value,
 * line. Nothing is guessed: what is no count is an error with its line, since a balance that was
 * computed from half a file is worse than none.
 */
#include "read/shard_inside.h"

#include <stdio.h>
#include <strings.h>

#define COLUMNS_MOST 256u
#define LOOK_LINES   64u

static const struct {
	const char *name; /* in the singular, without num_ and _count */
	enum count_field field;
} names[] = {
	{ "block", COUNT_BLOCKS },	  { "packed_block", COUNT_BLOCKS },
	{ "count", COUNT_BLOCKS },	  { "batch", COUNT_BATCHES },
	{ "batche", COUNT_BATCHES },	  { "microbatch", COUNT_BATCHES },
	{ "microbatche", COUNT_BATCHES }, { "step", COUNT_BATCHES },
	{ "iteration", COUNT_BATCHES },	  { "sample", COUNT_SAMPLES },
	{ "example", COUNT_SAMPLES },	  { "sequence", COUNT_SAMPLES },
	{ "item", COUNT_SAMPLES },	  { "record", COUNT_RECORDS },
	{ "row", COUNT_RECORDS },	  { "document", COUNT_RECORDS },
	{ "doc", COUNT_RECORDS },	  { "line", COUNT_RECORDS },
	{ "token", COUNT_TOKENS },	  { "rank", COUNT_RANK },
	{ "global_rank", COUNT_RANK },	  { "rank_id", COUNT_RANK },
	{ "dp_rank", COUNT_RANK },	  { "data_parallel_rank", COUNT_RANK },
	{ "process_index", COUNT_RANK },  { "world_size", COUNT_WORLD },
	{ "data", COUNT_WRAPPER },	  { "per_rank", COUNT_WRAPPER },
	{ "by_rank", COUNT_WRAPPER },
};

static size_t cut_front(const char **s, size_t len, const char *word)
{
	size_t n = strlen(word);

	if (len <= n || memcmp(*s, word, n))
		return len;
	*s += n;
	return len - n;
}

static size_t cut_back(const char *s, size_t len, const char *word)
{
	size_t n = strlen(word);

	return len > n && !memcmp(s + len - n, word, n) ? len - n : len;
}

enum count_field count_field_of(const char *name, size_t len)
{
	static const char *const fronts[] = { "num_", "n_", "nr_", "number_of_", "total_" };
	static const char *const backs[] = { "_per_rank", "_by_rank", "_counts", "_count",
					     "_total" };
	char text[48];
	const char *s = text;

	if (!len || len >= sizeof(text))
		return COUNT_NOTHING;
	for (size_t i = 0; i < len; i++) {
		char c = name[i];

		text[i] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c == ' ' || c == '-' ? '_' : c;
	}
	for (size_t i = 0; i < ARRAY_SIZE(fronts); i++)
		len = cut_front(&s, len, fronts[i]);
	for (size_t i = 0; i < ARRAY_SIZE(backs); i++)
		len = cut_back(s, len, backs[i]);
	for (unsigned plural = 0; plural < 2; plural++) {
		size_t n = plural && s[len - 1] == 's' ? len - 1 : len;

		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (strlen(names[i].name) == n && !memcmp(s, names[i].name, n))
				return names[i].field;
	}
	return COUNT_NOTHING;
}

/* --- cells --- */

static int bad(const char *path, unsigned line, struct error *reterr, const char *format, ...)
    PRINTF_LIKE(4, 5);
static int bad(const char *path, unsigned line, struct error *reterr, const char *format, ...)
{
	char what[256];
	va_list ap;

	va_start(ap, format);
	vsnprintf(what, sizeof(what), format, ap);
	va_end(ap);
	return error_set(reterr, -EINVAL, "%s:%u: %s", path, line, what);
}

struct counts {
	const char *path;
	struct count_cells *c;
	struct error *reterr;
	/* JSON in columns: the rows' ranks, which may come last. */
	bool rows; /* cells' ranks are rows, of which rank_of tells the rank */
	VEC(struct count_cell) rank_of;
	size_t first; /* of this file's cells */
	bool by_key;  /* keys are ranks */
	int status;
};

static const char *field_unit(enum count_field field)
{
	static const char *const units[] = { "blocks", "batches", "samples", "records", "tokens" };

	return field < COUNT_FIELDS ? units[field] : "rank";
}

static bool is_too_many(enum count_field field, int64_t v)
{
	return v > (field == COUNT_RANK	     ? COUNT_RANKS_MOST - 1
		    : field == COUNT_WORLD   ? COUNT_RANKS_MOST
		    : field <= COUNT_BATCHES ? COUNT_BLOCKS_MOST
		    : field == COUNT_TOKENS  ? COUNT_TOKENS_MOST
					     : COUNT_ITEMS_MOST);
}

static bool fail(struct counts *k, int status)
{
	k->status = status;
	return false;
}

static bool check_value(struct counts *k, unsigned line, enum count_field field, int64_t v)
{
	if (!is_too_many(field, v))
		return true;
	return fail(k, bad(k->path, line, k->reterr,
			   field == COUNT_RANK || field == COUNT_WORLD
			       ? "rank %" PRId64 " is beyond any job"
			       : "%" PRId64 " %s of one rank cannot be",
			   v, field_unit(field)));
}

static bool add_cell(struct counts *k, unsigned line, int64_t rank, enum count_field field,
		     int64_t v)
{
	struct count_cell cell = { rank, v, line, k->c->file, field };

	if (!check_value(k, line, field, v))
		return false;
	if (rank >= COUNT_RANKS_MOST)
		return fail(k, bad(k->path, line, k->reterr, "more than %" PRId64 " ranks",
				   COUNT_RANKS_MOST));
	if (field == COUNT_WORLD) {
		if (k->c->world >= 0 && k->c->world != v)
			return fail(k,
				    bad(k->path, line, k->reterr,
					"a world of %" PRId64 ", and one of %" PRId64 " elsewhere",
					v, k->c->world));
		k->c->world = v;
	} else if (field == COUNT_RANK) {
		k->c->worded = true;
		*vec_push(&k->rank_of) = cell;
	} else {
		*vec_push(&k->c->v) = cell;
	}
	return true;
}

static int by_row(const void *a, const void *b)
{
	const struct count_cell *x = a, *y = b;

	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Rows become the ranks that their file states. */
static bool rows_to_ranks(struct counts *k)
{
	if (!k->rank_of.n)
		return true;
	qsort(k->rank_of.v, k->rank_of.n, sizeof(*k->rank_of.v), by_row);
	for (size_t i = 1; i < k->rank_of.n; i++)
		if (k->rank_of.v[i].rank == k->rank_of.v[i - 1].rank)
			return fail(k, bad(k->path, k->rank_of.v[i].line, k->reterr,
					   "the rank is said twice"));
	for (size_t i = k->first; i < k->c->v.n; i++) {
		struct count_cell *cell = &k->c->v.v[i], key = { .rank = cell->rank };
		const struct count_cell *found =
		    bsearch(&key, k->rank_of.v, k->rank_of.n, sizeof(key), by_row);

		if (!found)
			return fail(k, bad(k->path, cell->line, k->reterr,
					   "a count without a rank, though others have one"));
		cell->rank = found->value;
	}
	return true;
}

/* --- JSON --- */

static bool wrong_json(struct counts *k, const struct strict_json *j)
{
	if (!k->status)
		k->status = bad(k->path, j->line, k->reterr, "%s", j->wrong);
	return false;
}

/* "7", "rank7", "rank_7" */
static int64_t rank_of_key(const char *s, size_t len)
{
	int64_t v = 0;

	if (len > 4 && !strncasecmp(s, "rank", 4)) {
		s += 4;
		len -= 4;
		if (len > 1 && strchr("-_ .=", *s)) {
			s++;
			len--;
		}
	}
	if (!len || len > 9)
		return -1;
	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -1;
		v = v * 10 + (s[i] - '0');
	}
	return v;
}

static bool json_number_cell(struct counts *k, struct strict_json *j, int64_t rank,
			     enum count_field field)
{
	const char *not_one;
	int64_t v;
	unsigned line;

	strict_json_peek(j);
	line = j->line;
	if (!strict_json_integer(j, &v, &not_one)) {
		if (j->wrong)
			return wrong_json(k, j);
		return fail(k, bad(k->path, line, k->reterr,
				   "what should be %s of rank %" PRId64 " %s", field_unit(field),
				   rank, not_one));
	}
	return add_cell(k, line, rank, field, v);
}

/* An object of one rank: {"rank": 3, "blocks": 30835, ..}; row: where it says no rank. */
static bool json_row(struct counts *k, struct strict_json *j, int64_t row)
{
	bool begun = false;
	const char *key;
	size_t len;

	while (strict_json_next(j, '{', &begun, &key, &len)) {
		enum count_field field = count_field_of(key, len);
		char c = strict_json_peek(j);

		if (field <= COUNT_WORLD && c != '{' && c != '[') {
			if (!json_number_cell(k, j, row, field))
				return false;
		} else if (!strict_json_skip(j)) {
			break;
		}
	}
	return j->wrong ? wrong_json(k, j) : true;
}

static bool json_counts(struct counts *k, struct strict_json *j, enum count_field field);
static bool inside_is_by_rank(struct strict_json j);

static bool json_list(struct counts *k, struct strict_json *j, enum count_field field)
{
	bool begun = false;

	for (int64_t row = 0; strict_json_next(j, '[', &begun, NULL, NULL); row++) {
		char c = strict_json_peek(j);

		if (row >= COUNT_RANKS_MOST)
			return fail(k, bad(k->path, j->line, k->reterr,
					   "more than %" PRId64 " ranks", COUNT_RANKS_MOST));
		if (c == '{' ? !json_row(k, j, row) : !json_number_cell(k, j, row, field))
			return false;
	}
	return j->wrong ? wrong_json(k, j) : true;
}

static bool json_member(struct counts *k, struct strict_json *j, const char *key, size_t len,
			enum count_field field)
{
	enum count_field own = count_field_of(key, len);
	int64_t rank = rank_of_key(key, len);
	char c = strict_json_peek(j);

	k->c->worded |=
	    own == COUNT_BLOCKS || own == COUNT_RANK || (rank >= 0 && (*key == 'r' || *key == 'R'));
	if (rank >= 0) {
		k->by_key = true;
		return c == '{' ? json_row(k, j, rank) : json_number_cell(k, j, rank, field);
	}
	if (len > 1 && *key == '-' && rank_of_key(key + 1, len - 1) >= 0)
		return fail(k, bad(k->path, j->line, k->reterr, "rank %.*s is negative",
				   (int)MIN(len, (size_t)40), key));
	if (c == '{' || c == '[') {
		/* Something else, or counts under the name of a host. */
		if ((own == COUNT_NOTHING || own == COUNT_WORLD) &&
		    (c == '[' || !inside_is_by_rank(*j)))
			return strict_json_skip(j) ? true : wrong_json(k, j);
		if (own >= COUNT_WORLD)
			own = field;
		/* "rank": {"0": 3} is a column, "ranks": {"0": 30835} counts by rank. */
		if (own == COUNT_RANK && c == '{' && key[len - 1] == 's')
			own = field;
		return json_counts(k, j, own);
	}
	if (own <= COUNT_WORLD) /* an object that is one rank */
		return json_number_cell(k, j, 0, own);
	return strict_json_skip(j) ? true : wrong_json(k, j);
}

/* "ranks": [{..}] and "rank": [0, 1] are told apart by what is inside. */
static enum count_field inside_of(struct strict_json j, enum count_field field)
{
	j.p++;
	return field == COUNT_RANK && strict_json_peek(&j) == '{' ? COUNT_BLOCKS : field;
}

static bool json_counts(struct counts *k, struct strict_json *j, enum count_field field)
{
	bool begun = false;
	const char *key;
	size_t len;

	if (strict_json_peek(j) == '[')
		return json_list(k, j, inside_of(*j, field));
	while (strict_json_next(j, '{', &begun, &key, &len))
		if (!json_member(k, j, key, len, field))
			return false;
	return j->wrong ? wrong_json(k, j) : true;
}

/* {"rank": 3, "blocks": 5} lines: each is a row. */
static bool json_lines(struct counts *k, struct strict_json *j)
{
	for (int64_t row = 0; strict_json_peek(j); row++)
		if (!json_row(k, j, row))
			return false;
	return true;
}

static int parse_json(struct counts *k, const char *text, size_t len)
{
	struct strict_json j = strict_json_of(text, len), first = j;
	bool lines =
	    strict_json_peek(&first) == '{' && strict_json_skip(&first) && strict_json_peek(&first);

	if (lines ? json_lines(k, &j) : json_counts(k, &j, COUNT_BLOCKS)) {
		if (strict_json_peek(&j))
			fail(k, bad(k->path, j.line, k->reterr, "more behind the end of the JSON"));
		else
			rows_to_ranks(k);
	}
	return k->status;
}

/* --- columns --- */

struct text_line {
	const char *p, *end;
	unsigned line;
};

/* The next line with more than blanks and a comment. */
static bool next_line(const char **at, const char *end, struct text_line *l)
{
	while (*at < end) {
		const char *nl = memchr(*at, '\n', (size_t)(end - *at));

		l->p = *at;
		l->end = nl ? nl : end;
		l->line++;
		*at = nl ? nl + 1 : end;
		while (l->p < l->end && (unsigned char)*l->p <= ' ' && *l->p != '\t')
			l->p++;
		while (l->end > l->p && (unsigned char)l->end[-1] <= ' ')
			l->end--;
		if (l->p < l->end && *l->p != '#')
			return true;
	}
	return false;
}

static char separator_of(const struct text_line *l)
{
	static const char separators[] = ",;\t|:= ";

	for (const char *s = separators; *s; s++)
		if (memchr(l->p, *s, (size_t)(l->end - l->p)))
			return *s;
	return ',';
}

/* The next column, quotes left on it. */
static bool next_column(const char **p, const char *end, char separator, const char **ret,
			size_t *ret_len)
{
	const char *to;

	if (*p > end)
		return false;
	if (separator == ' ')
		while (*p < end && **p == ' ')
			(*p)++;
	to = *p < end && **p == '"' ? memchr(*p + 1, '"', (size_t)(end - *p - 1)) : NULL;
	to = memchr(to ? to : *p, separator, (size_t)(end - (to ? to : *p)));
	if (!to)
		to = end;
	*ret = *p;
	*ret_len = (size_t)(to - *p);
	*p = to + 1;
	return true;
}

static void trim(const char **s, size_t *len)
{
	while (*len && strchr(" \t\"'", **s)) {
		++*s;
		--*len;
	}
	while (*len && strchr(" \t\"'", (*s)[*len - 1]))
		--*len;
}

struct header {
	enum count_field fields[COLUMNS_MOST];
	size_t n;
	bool rank, count;
	char separator;
};

static void read_header(const struct text_line *l, struct header *h)
{
	const char *p = l->p, *s;
	size_t len;

	*h = (struct header){ .separator = separator_of(l) };
	while (h->n < COLUMNS_MOST && next_column(&p, l->end, h->separator, &s, &len)) {
		trim(&s, &len);
		h->fields[h->n] = count_field_of(s, len);
		h->rank |= h->fields[h->n] == COUNT_RANK;
		h->count |= h->fields[h->n] < COUNT_FIELDS;
		h->n++;
	}
}

/* "rank 3" or "rank_3" as well; NULL, or why it is none. */
static const char *rank_of_text(const char *s, size_t len, int64_t *ret)
{
	int64_t rank;

	trim(&s, &len);
	rank = len && (*s == 'r' || *s == 'R') ? rank_of_key(s, len) : -1;
	if (rank < 0)
		return count_of_text(s, len, ret);
	*ret = rank;
	return NULL;
}

static bool csv_row(struct counts *k, const struct header *h, const struct text_line *l,
		    int64_t row)
{
	const char *p = l->p, *s, *not_one;
	bool rank = !h->rank, count = false;
	size_t len;

	for (size_t i = 0; i < h->n && next_column(&p, l->end, h->separator, &s, &len); i++) {
		int64_t v;

		if (h->fields[i] > COUNT_WORLD)
			continue;
		not_one = h->fields[i] == COUNT_RANK ? rank_of_text(s, len, &v)
						     : count_of_text(s, len, &v);
		if (not_one)
			return fail(k, bad(k->path, l->line, k->reterr, "\"%.*s\" in column %zu %s",
					   (int)MIN(len, (size_t)40), s, i + 1, not_one));
		if (!add_cell(k, l->line, row, h->fields[i], v))
			return false;
		rank |= h->fields[i] == COUNT_RANK;
		count |= h->fields[i] < COUNT_FIELDS;
	}
	if (!rank || !count)
		return fail(k, bad(k->path, l->line, k->reterr, "the line has no %s",
				   rank ? "count" : "rank"));
	return true;
}

static int parse_csv(struct counts *k, const char *text, size_t len)
{
	struct text_line l = { 0 };
	struct header h;
	const char *at = text, *end = text + len;
	int64_t row = 0;

	if (!next_line(&at, end, &l))
		return k->status = bad(k->path, 1, k->reterr, "no line with a count");
	read_header(&l, &h);
	if (!h.count) { /* no header: rank,blocks */
		h = (struct header){ .fields = { COUNT_RANK, COUNT_BLOCKS },
				     .n = 2,
				     .rank = true,
				     .count = true,
				     .separator = separator_of(&l) };
		if (!csv_row(k, &h, &l, row++))
			return k->status;
	}
	for (; next_line(&at, end, &l); row++)
		if (!csv_row(k, &h, &l, row))
			return k->status;
	if (!row)
		return k->status = bad(k->path, l.line, k->reterr, "a header and no line below it");
	k->c->assumed |= !h.rank;
	rows_to_ranks(k);
	return k->status;
}

static int parse_numbers(struct counts *k, const char *text, size_t len)
{
	struct text_line l = { 0 };
	const char *at = text, *end = text + len;
	int64_t row = 0, v;

	for (; next_line(&at, end, &l); row++) {
		const char *not_one = count_of_text(l.p, (size_t)(l.end - l.p), &v);

		if (not_one)
			return k->status = bad(k->path, l.line, k->reterr, "\"%.*s\" %s",
					       (int)MIN(l.end - l.p, (ptrdiff_t)40), l.p, not_one);
		if (!add_cell(k, l.line, row, COUNT_BLOCKS, v))
			return k->status;
	}
	k->c->assumed |= row > 1;
	return k->status;
}

/* --- which of them --- */

static bool is_number(const struct text_line *l)
{
	int64_t v;
	const char *why = count_of_text(l->p, (size_t)(l->end - l->p), &v);

	return !why || strcmp(why, "is no whole number") != 0;
}

/* Columns whose first two are numbers. */
static bool is_pair(const struct text_line *l)
{
	char separator = separator_of(l);
	const char *p = l->p, *s;
	struct text_line column = { 0 };
	int64_t rank;
	size_t len;

	for (unsigned i = 0; i < 2; i++) {
		if (!next_column(&p, l->end, separator, &s, &len))
			return false;
		column.p = s;
		column.end = s + len;
		if (!is_number(&column) && (i || rank_of_text(s, len, &rank)))
			return false;
	}
	return p > l->end;
}

enum counts_shape { NO_COUNTS, COUNTS_JSON, COUNTS_CSV, COUNTS_NUMBERS };

/* Mostly numbers, or mostly pairs: the bad line among them is an error, not a sign of prose. */
static enum counts_shape shape_of_lines(const char *text, size_t len)
{
	struct text_line l = { 0 };
	const char *at = text, *end = text + len;
	size_t n = 0, numbers = 0, pairs = 0;
	bool named = false; /* a column with its name */
	struct header h;

	for (; n < LOOK_LINES && next_line(&at, end, &l); n++) {
		if (!n) {
			read_header(&l, &h);
			if (h.rank && h.count)
				return COUNTS_CSV;
			named = h.n == 1 && h.count;
		}
		numbers += is_number(&l);
		pairs += is_pair(&l);
	}
	if (named && numbers * 2 >= n - 1)
		return COUNTS_CSV;
	if (n && numbers * 2 >= n)
		return COUNTS_NUMBERS;
	return n && pairs * 2 >= n ? COUNTS_CSV : NO_COUNTS;
}

/* A number, also in quotes, or an object; what is cut or damaged as well. */
static bool is_count_like(struct strict_json j)
{
	char c = strict_json_peek(&j);
	const char *s;
	size_t len;
	int64_t v;

	if (c == '"')
		return strict_json_string(&j, &s, &len) && !count_of_text(s, len, &v);
	return c != '[';
}

/* An object whose first key is a rank: {"0": 5}. */
static bool inside_is_by_rank(struct strict_json j)
{
	bool begun = false;
	const char *key;
	size_t len;

	return strict_json_next(&j, '{', &begun, &key, &len) && rank_of_key(key, len) >= 0;
}

/* Does an object look like counts: by its first level, or that of what it wraps? */
static bool json_looks(struct strict_json *j, unsigned depth, bool *ret_rank)
{
	char c = strict_json_peek(j);
	bool begun = false, rank = false, count = false, other = false;
	const char *key;
	size_t len, n = 0;

	if (c == '[') {
		while (strict_json_next(j, '[', &begun, NULL, NULL)) {
			c = strict_json_peek(j);
			if (c == '{' || (c == '[' && depth))
				return c == '{' && depth < 4 && json_looks(j, depth + 1, ret_rank);
			return (c >= '0' && c <= '9') || c == '-' || !c;
		}
		return true; /* empty: said so */
	}
	if (c != '{')
		return false;
	for (; strict_json_next(j, '{', &begun, &key, &len) && n < 64; n++) {
		enum count_field field = count_field_of(key, len);

		c = strict_json_peek(j);
		if (rank_of_key(key, len) >= 0 && is_count_like(*j))
			return true;
		if (field == COUNT_WRAPPER || (field < COUNT_WORLD && (c == '[' || c == '{')))
			return depth < 4 && json_looks(j, depth + 1, ret_rank);
		if (field == COUNT_NOTHING && c == '{' && inside_is_by_rank(*j))
			return true;
		rank |= field == COUNT_RANK;
		*ret_rank |= rank;
		count |= field < COUNT_FIELDS;
		other |= field == COUNT_NOTHING && (c == '[' || c == '{' || c == '"');
		if (!strict_json_skip(j))
			break;
	}
	return !n || (count && (rank || !other)) || (j->wrong && (rank || count));
}

/* Lines of objects are counts only if they name their ranks. */
static bool has_lines(struct strict_json j)
{
	return strict_json_peek(&j) == '{' && strict_json_skip(&j) && strict_json_peek(&j) == '{';
}

static enum counts_shape shape_of(const char *text, size_t len)
{
	struct strict_json j = strict_json_of(text, len);
	bool rank = false, lines = has_lines(j);
	char c = strict_json_peek(&j);

	if (c == '{' || c == '[')
		return json_looks(&j, 0, &rank) && (rank || !lines) ? COUNTS_JSON : NO_COUNTS;
	return shape_of_lines(j.p, (size_t)(j.end - j.p));
}

bool shard_looks_counts(const struct shard_file *f)
{
	return f->size && f->size <= COUNT_FILE_BYTES && !memchr(f->head, 0, f->head_len) &&
	       shape_of((const char *)f->head, f->head_len) != NO_COUNTS;
}

bool counts_unknown_shape(const char *text, size_t len)
{
	bool digit = false;

	for (size_t i = 0; i < len; i++) {
		if (!text[i] || !strchr(" \t\r\n,;:|=.-+/_()0123456789", text[i]))
			return false;
		digit |= text[i] >= '0' && text[i] <= '9';
	}
	return digit && len <= COUNT_TINY_BYTES && shape_of(text, len) == NO_COUNTS;
}

int counts_parse(const char *path, const char *text, size_t len, struct count_cells *c,
		 struct error *reterr)
{
	struct counts k = { .path = path, .c = c, .reterr = reterr, .first = c->v.n };
	size_t skip = len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;

	if (memchr(text, 0, len))
		return error_set(reterr, -EINVAL, "%s: a binary file, not counts", path);
	switch (shape_of(text, MIN(len, SHARD_LOOK_BYTES))) {
	case COUNTS_JSON:
		parse_json(&k, text, len);
		break;
	case COUNTS_CSV:
		parse_csv(&k, text + skip, len - skip);
		break;
	default:
		parse_numbers(&k, text + skip, len - skip);
	}
	if (!k.status && k.c->v.n == k.first)
		k.status = error_set(reterr, -EINVAL, "%s: no count of any rank", path);
	c->lone = !k.status && !k.by_key && !k.rank_of.n;
	for (size_t i = k.first; i < c->v.n; i++)
		c->lone &= !c->v.v[i].rank;
	free(k.rank_of.v);
	return k.status;
}

int counts_text(struct shard_file *f, char **ret, size_t *ret_len, struct error *reterr)
{
	struct shard_stream s;
	struct buf b = { 0 };
	ssize_t n;

	shard_stream_open(&s, f);
	do {
		buf_widen(&b, SHARD_LOOK_BYTES + 1);
		n = input_read(s.in, b.data + b.len, SHARD_LOOK_BYTES);
		b.len += (size_t)MAX(n, 0);
	} while (n > 0 && b.len <= COUNT_FILE_BYTES);
	shard_stream_close(&s);
	if (n < 0)
		error_set(reterr, (int)n, "%s: %s", f->path, strerror((int)-n));
	else if (b.len > COUNT_FILE_BYTES)
		n = error_set(reterr, -EINVAL, "%s: too large for a counts file", f->path);
	if (n < 0) {
		buf_done(&b);
		return (int)n;
	}
	b.data[b.len] = 0;
	*ret_len = b.len;
	*ret = (char *)b.data;
	return 0;
}

/* A counts file as a shard: what its ranks have together. */
int shard_count_counts(struct shard_file *f, struct shard *ret, struct error *reterr)
{
	_cleanup_free_ char *text = NULL;
	struct count_cells c = { .world = -1 };
	size_t len = 0;
	int r = counts_text(f, &text, &len, reterr);

	if (r < 0 || !text)
		return r;
	r = counts_parse(f->path, text, len, &c, reterr);
	if (!r)
		ret->records = ret->tokens = -1;
	for (size_t i = 0; !r && i < c.v.n; i++) {
		int64_t *to = c.v.v[i].field == COUNT_TOKENS ? &ret->tokens : &ret->records;

		*to = MAX(*to, 0);
		if (__builtin_add_overflow(*to, c.v.v[i].value, to))
			*to = INT64_MAX;
	}
	free(c.v.v);
	return r;
}
