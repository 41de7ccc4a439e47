/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shards.c - from files to blocks by rank: whose each file is, what it holds, how it is packed.
 *
 * Whatever is assumed on the way (one file a rank, the order of dealing, the packing) is one line
 * of the remarks, since the answer is only as right as that.
 */
#include "read/shards.h"

#include <stdio.h>

#include "base/pool.h"
#include "base/ranges.h"
#include "read/shard_inside.h"

#define REMARKS_MOST 24u
#define LARGE_BYTES  ((int64_t)256 << 20) /* of a text: its chunks are shared by the workers */

struct reading {
	const struct block_options *o;
	struct block_counts *c;
	struct shard_entries e;
	struct count_cells cells;
	size_t roots;  /* paths that were given */
	size_t unsaid; /* remarks beyond REMARKS_MOST */
	struct error *reterr;
};

static void remark(struct reading *r, const char *format, ...) PRINTF_LIKE(2, 3);
static void remark(struct reading *r, const char *format, ...)
{
	char text[512];
	va_list ap;

	if (r->c->remarks.n >= REMARKS_MOST) {
		r->unsaid++;
		return;
	}
	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	*vec_push(&r->c->remarks) = xstrdup(text);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void add_known(int64_t *sum, int64_t v)
{
	if (v < 0 || *sum < 0)
		*sum = -1;
	else if (__builtin_add_overflow(*sum, v, sum))
		*sum = INT64_MAX;
}

/* --- one a rank --- */

/* The part of the path that is one rank's: a folder below the given one, a given folder, a file. */
static size_t group_end(const struct shard_entry *e, size_t roots)
{
	const char *p = e->path + e->inside;

	if (!e->inside)
		return strlen(e->path);
	if (roots > 1) /* each given folder is one */
		return e->inside;
	while (*p == '/')
		p++;
	p = strchr(p, '/');
	return p ? (size_t)(p - e->path) : strlen(e->path);
}

static int by_people(const void *a, const void *b)
{
	return shard_name_order(((const struct shard_entry *)a)->path,
				((const struct shard_entry *)b)->path);
}

static int64_t group_number(const struct shard_entry *e, size_t roots)
{
	size_t end = group_end(e, roots), from;

	while (end && e->path[end - 1] == '/')
		end--;
	for (from = end; from && e->path[from - 1] != '/';)
		from--;
	return shard_number_of(e->path + from, end - from);
}

/*
 * Lone files have their place as a rank. If their names hold a number each, all different and from
 * 0 or 1 on, these are the ranks: then a missing one leaves a hole.
 */
static void number_ranks(struct reading *r, size_t groups)
{
	int64_t *numbers = xcalloc(2 * groups, sizeof(*numbers)), *sorted = numbers + groups;
	bool differ = true;

	for (size_t i = 0; i < r->e.v.n; i++)
		if (r->e.v.v[i].lone)
			numbers[r->e.v.v[i].rank] = group_number(&r->e.v.v[i], r->roots);
	memcpy(sorted, numbers, groups * sizeof(*numbers));
	qsort(sorted, groups, sizeof(*sorted), ranges_compare);
	for (size_t i = 1; i < groups; i++)
		differ &= sorted[i] != sorted[i - 1];
	differ &= (sorted[0] == 0 || sorted[0] == 1) && sorted[groups - 1] < COUNT_RANKS_MOST;
	for (size_t i = 0; i < r->e.v.n && differ; i++)
		if (r->e.v.v[i].lone)
			r->e.v.v[i].rank = numbers[r->e.v.v[i].rank] - sorted[0];
	free(numbers);
}

/* --- counts files --- */

static int by_cell(const void *a, const void *b)
{
	const struct count_cell *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->field != y->field)
		return x->field < y->field ? -1 : 1;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	return x->line < y->line ? -1 : x->line > y->line;
}

/* Files of one rank's counts: their names say whose they are. */
static int name_cells(struct reading *r, size_t lone, size_t named)
{
	if (lone > 1 && named && named < lone)
		return error_set(r->reterr, -EINVAL,
				 "some counts files have a rank in their name and some have not");
	if (lone > 1 && !named) {
		number_ranks(r, lone);
		remark(r, "assumed: %zu counts files are one a rank, by their numbers or order",
		       lone);
	}
	for (size_t i = 0; i < r->cells.v.n; i++) {
		const struct shard_entry *e = &r->e.v.v[r->cells.v.v[i].file];

		if (e->lone)
			r->cells.v.v[i].rank = e->rank;
	}
	return 0;
}

static int read_cells(struct reading *r)
{
	size_t lone = 0, named = 0;

	for (size_t i = 0; i < r->e.v.n; i++) {
		struct shard_entry *e = &r->e.v.v[i];
		_cleanup_free_ char *text = NULL;
		struct shard_file f;
		enum shard_kind kind;
		size_t len;
		int s;

		if (e->kind != SHARD_COUNTS)
			continue;
		s = shard_open(e->path, &f, &kind, r->reterr);
		if (s < 0)
			return s;
		s = counts_text(&f, &text, &len, r->reterr);
		shard_close(&f);
		r->cells.file = (uint32_t)i;
		s = s < 0 ? s : counts_parse(e->path, text, len, &r->cells, r->reterr);
		if (s < 0)
			return s;
		if (r->cells.lone) {
			named += e->rank >= 0;
			e->lone = true;
			e->rank = e->rank >= 0 ? e->rank : (int64_t)lone;
			lone++;
		}
	}
	if (r->cells.assumed)
		remark(r, "assumed: the counts are of ranks 0, 1, .. in their order");
	return name_cells(r, lone, named);
}

static int no_doubles(struct reading *r)
{
	struct count_cell *v = r->cells.v.v;

	qsort(v, r->cells.v.n, sizeof(*v), by_cell);
	for (size_t i = 1; i < r->cells.v.n; i++)
		if (v[i].rank == v[i - 1].rank && v[i].field == v[i - 1].field)
			return error_set(r->reterr, -EINVAL,
					 "%s:%u: rank %" PRId64 " is there already (%s:%u)",
					 r->e.v.v[v[i].file].path, v[i].line, v[i].rank,
					 r->e.v.v[v[i - 1].file].path, v[i - 1].line);
	return 0;
}

static struct rank_blocks *row_of(struct reading *r, int64_t rank)
{
	struct block_counts *c = r->c;

	if (!c->ranks.n || c->ranks.v[c->ranks.n - 1].rank != rank)
		*vec_push(&c->ranks) = (struct rank_blocks){ rank, -1, -1, -1, 1 };
	return &c->ranks.v[c->ranks.n - 1];
}

static bool is_ours(const struct block_options *o, int64_t rank)
{
	return o->ranks_here <= 0 ||
	       (rank >= o->first_rank && rank < o->first_rank + o->ranks_here);
}

/* What a block is: said, or the batches, samples or records, whichever is there for some rank. */
static enum count_field unit_of_cells(const struct count_cells *c)
{
	enum count_field unit = COUNT_TOKENS;

	for (size_t i = 0; i < c->v.n; i++)
		unit = MIN(unit, c->v.v[i].field);
	return unit;
}

static int cells_to_rows(struct reading *r)
{
	static const char *const units[] = { "blocks", "batches", "samples", "records" };
	enum count_field unit = unit_of_cells(&r->cells);

	r->c->last_said = r->cells.world - 1;
	if (r->cells.v.n) /* by rank */
		r->c->last_said = MAX(r->c->last_said, r->cells.v.v[r->cells.v.n - 1].rank);
	for (size_t i = 0; i < r->cells.v.n; i++) {
		const struct count_cell *x = &r->cells.v.v[i];
		struct rank_blocks *row;

		if (!is_ours(r->o, x->rank))
			continue;
		row = row_of(r, x->rank);
		if (x->field == unit && unit != COUNT_TOKENS)
			row->blocks = x->value;
		if (x->field == COUNT_TOKENS)
			row->tokens = x->value;
		if (x->field == COUNT_RECORDS || (x->field == COUNT_SAMPLES && row->records < 0))
			row->records = x->value;
	}
	if (unit != COUNT_TOKENS)
		snprintf(r->c->unit, sizeof(r->c->unit), "%s", units[unit]);
	for (size_t i = 0; i < r->c->ranks.n && unit != COUNT_TOKENS; i++)
		if (r->c->ranks.v[i].blocks < 0)
			return error_set(r->reterr, -EINVAL,
					 "%s: rank %" PRId64 " has no %s, others have",
					 r->e.v.v[r->cells.v.v[0].file].path, r->c->ranks.v[i].rank,
					 units[unit]);
	return 0;
}

static int counts_of_files(struct reading *r)
{
	int s;

	qsort(r->e.v.v, r->e.v.n, sizeof(*r->e.v.v), by_people);
	s = read_cells(r);

	s = s < 0 ? s : no_doubles(r);
	return s < 0 ? s : cells_to_rows(r);
}

/* --- which files are the data --- */

/* One kind is the data: of several the one with the most bytes. */
static void choose_kind(struct reading *r)
{
	int64_t bytes[SHARD_KINDS] = { 0 };
	size_t files[SHARD_KINDS] = { 0 }, kept = 0;
	enum shard_kind best = SHARD_KINDS;

	for (size_t i = 0; i < r->e.v.n; i++) {
		r->e.strangers += r->e.v.v[i].left_out;
		bytes[r->e.v.v[i].kind] += r->e.v.v[i].left_out ? 0 : r->e.v.v[i].s.bytes;
		files[r->e.v.v[i].kind] += !r->e.v.v[i].left_out;
	}
	if (files[SHARD_COUNTS])
		best = SHARD_COUNTS;
	for (enum shard_kind k = SHARD_LINES; k < SHARD_KINDS && !files[SHARD_COUNTS]; k++)
		if (files[k] && k != SHARD_INFO && (best == SHARD_KINDS || bytes[k] > bytes[best]))
			best = k;
	if (best == SHARD_KINDS)
		best = SHARD_INFO;
	for (enum shard_kind k = 0; k < SHARD_KINDS; k++)
		if (files[k] && k != best && k != SHARD_INFO)
			remark(r, "left out: %zu %s of kind %s beside the %s", files[k],
			       files[k] == 1 ? "file" : "files", shard_kind_name(k),
			       shard_kind_name(best));
	for (size_t i = 0; i < r->e.v.n; i++) {
		if (r->e.v.v[i].kind != best || r->e.v.v[i].left_out) {
			free(r->e.v.v[i].path);
			continue;
		}
		r->e.v.v[kept++] = r->e.v.v[i];
	}
	r->e.v.n = kept;
}

static bool is_named_like_counts(const char *path)
{
	const char *base = base_name(path);

	return strcasestr(base, "count") || strcasestr(base, "block") ||
	       strcasestr(base, "balance");
}

/*
 * A file that is one rank's by its name and holds many numbers is lines, not counts by rank. And in
 * a folder of shards numbers are only counts if they say so: they may be labels, or a step.
 */
static void settle_numbers(struct reading *r)
{
	bool shards = false;

	for (size_t i = 0; i < r->e.v.n; i++)
		shards |= r->e.v.v[i].kind != SHARD_COUNTS && r->e.v.v[i].kind != SHARD_INFO;
	for (size_t i = 0; i < r->e.v.n; i++) {
		struct shard_entry *e = &r->e.v.v[i];
		_cleanup_free_ char *text = NULL;
		struct count_cells c = { .world = -1 };
		struct shard_file f;
		enum shard_kind kind;
		size_t len;

		if (e->kind != SHARD_COUNTS || (e->rank < 0 && !(e->inside && shards)) ||
		    shard_open(e->path, &f, &kind, NULL))
			continue;
		if (!counts_text(&f, &text, &len, NULL) &&
		    !counts_parse(e->path, text, len, &c, NULL)) {
			if (e->inside && shards && !c.worded && !is_named_like_counts(e->path))
				e->left_out = true;
			else if (e->rank >= 0 && c.assumed && !c.lone)
				e->kind = SHARD_LINES;
		}
		shard_close(&f);
		free(c.v.v);
	}
}

/* One small file of numbers: rather asked about than counted as records. */
static int no_lone_numbers(struct reading *r)
{
	const struct shard_entry *e = r->e.v.n == 1 ? &r->e.v.v[0] : NULL;
	struct shard_file f;
	enum shard_kind kind;
	bool odd;

	if (!e || e->kind != SHARD_LINES || e->inside || e->rank >= 0 ||
	    shard_open(e->path, &f, &kind, NULL))
		return 0;
	odd = f.size <= COUNT_TINY_BYTES && !f.compressed &&
	      counts_unknown_shape((const char *)f.head, f.head_len);
	shard_close(&f);
	if (!odd)
		return 0;
	return error_set(r->reterr, -EINVAL,
			 "%s: is this a counts file? It holds numbers only, in no known shape: one "
			 "count a line, rank,count or rank: count lines, or JSON are read",
			 e->path);
}

/* --- whose they are --- */

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct shard_entry *)a)->path, ((const struct shard_entry *)b)->path);
}

/* All are numbered and of one total: is each there? */
static int check_numbers(struct reading *r)
{
	int64_t of = -1, index, total;
	_cleanup_free_ bool *seen = NULL;

	for (size_t i = 0; i < r->e.v.n; i++) {
		if (!shard_of_name(r->e.v.v[i].path, &index, &total) || (of >= 0 && total != of))
			return 0;
		of = total;
	}
	if (of < 0 || r->o->partial || of == (int64_t)r->e.v.n)
		return 0;
	seen = xcalloc((size_t)of, 1);
	for (size_t i = 0; i < r->e.v.n; i++)
		if (shard_of_name(r->e.v.v[i].path, &index, &total))
			seen[index] = true;
	for (index = 0; index < of; index++)
		if (!seen[index])
			return error_set(r->reterr, -EINVAL,
					 "%s: shard %" PRId64 " of %" PRId64
					 " is not there (%zu are)",
					 r->e.v.v[0].path, index, of, r->e.v.n);
	return 0;
}

/* No rank in any name, and no world's size: one file or folder a rank. */
static int one_a_rank(struct reading *r)
{
	size_t before = 0;
	bool folders = false;
	int64_t rank = -1;

	qsort(r->e.v.v, r->e.v.n, sizeof(*r->e.v.v), by_people);
	for (size_t i = 0; i < r->e.v.n; i++) {
		struct shard_entry *e = &r->e.v.v[i];
		size_t end = group_end(e, r->roots);

		if (!i || end != before || strncmp(e->path, r->e.v.v[i - 1].path, end) != 0)
			rank++;
		folders |= end < strlen(e->path);
		before = end;
		e->rank = rank;
		e->lone = true;
	}
	if (!rank)
		return error_set(r->reterr, -ENODATA,
				 "%s: one shard; --world-size says to how many ranks it is dealt",
				 r->e.v.v[0].path);
	remark(r,
	       "assumed: one %s a rank, by the numbers or the order of their names (--world-size "
	       "deals them to so many ranks)",
	       folders ? "folder" : "file");
	number_ranks(r, (size_t)rank + 1);
	return folders ? 0 : check_numbers(r);
}

static int deal_files(struct reading *r)
{
	int64_t n = (int64_t)r->e.v.n, world = r->o->world_size, more = n % world;
	bool strided = r->o->deal == DEAL_STRIDED;
	int s = check_numbers(r);

	if (s < 0)
		return s;
	qsort(r->e.v.v, r->e.v.n, sizeof(*r->e.v.v), n == world ? by_people : by_path);
	for (int64_t i = 0; i < n; i++) {
		int64_t base = n / world, first = more * (base + 1);

		r->e.v.v[i].rank = strided     ? i % world
				   : i < first ? i / (base + 1)
					       : more + (i - first) / base;
	}
	if (n == world)
		remark(r, "assumed: one file a rank in the order of names");
	else
		remark(r,
		       "assumed: %" PRId64 " shards dealt to %" PRId64 " ranks in the order of "
		       "names, %s (--deal)",
		       n, world,
		       strided ? "strided: shard i to rank i modulo the ranks"
			       : "contiguous: to each rank a run of them");
	if (n % world)
		remark(r,
		       "%" PRId64 " shards are no multiple of %" PRId64 " ranks: %" PRId64
		       " rank%s one more",
		       n, world, n % world, n % world == 1 ? " gets" : "s get");
	return 0;
}

/* Whose file is it? Leaves rank -1 where records are to be dealt, not files. */
static int find_owners(struct reading *r)
{
	size_t named = 0, kept = 0;

	for (size_t i = 0; i < r->e.v.n; i++)
		named += r->e.v.v[i].rank >= 0;
	if (!named && r->o->world_size > 0)
		return (int64_t)r->e.v.n >= r->o->world_size ? deal_files(r) : 0;
	if (!named)
		return one_a_rank(r);
	for (size_t i = 0; i < r->e.v.n; i++) {
		struct shard_entry *e = &r->e.v.v[i];

		if (e->rank < 0) {
			remark(r, "left out: %s has no rank in its name, others have",
			       base_name(e->path));
			free(e->path);
			continue;
		}
		r->e.v.v[kept++] = *e;
	}
	r->e.v.n = kept;
	return 0;
}

/* --- counting --- */

static void count_entry(struct reading *r, struct shard_entry *e, unsigned threads)
{
	struct shard_file f;
	enum shard_kind kind;

	e->status = shard_open(e->path, &f, &kind, &e->error);
	if (e->status)
		return;
	f.length_field = r->o->length_field;
	f.progress = r->o->progress;
	f.threads = threads;
	/* settle_numbers may have said that it is lines */
	e->status =
	    shard_count_open(&f, e->kind == SHARD_LINES ? SHARD_LINES : kind, &e->s, &e->error);
	shard_close(&f);
}

static bool is_large(const struct shard_entry *e)
{
	return e->kind == SHARD_LINES && e->s.bytes >= LARGE_BYTES;
}

static void count_small(void *user, size_t i)
{
	struct reading *r = user;

	if (!is_large(&r->e.v.v[i]) && is_ours(r->o, MAX(r->e.v.v[i].rank, r->o->first_rank)))
		count_entry(r, &r->e.v.v[i], 1);
}

static bool has_blanks(const char *why)
{
	return *why >= '0' && *why <= '9' && strstr(why, " blank line");
}

static bool is_same_oddity(const char *a, const char *b)
{
	return has_blanks(a) ? has_blanks(b) : !strcmp(a, b);
}

/* What is odd in a file; what is odd in many in the same way is one line. */
static void remark_files(struct reading *r)
{
	size_t groups[REMARKS_MOST], files[REMARKS_MOST], n = 0, k;

	for (size_t i = 0; i < r->e.v.n; i++) {
		if (!r->e.v.v[i].s.why[0])
			continue;
		for (k = 0; k < n; k++)
			if (is_same_oddity(r->e.v.v[groups[k]].s.why, r->e.v.v[i].s.why))
				break;
		if (k == REMARKS_MOST) {
			r->unsaid++;
			continue;
		}
		if (k == n) {
			groups[n] = i;
			files[n++] = 0;
		}
		files[k]++;
	}
	for (k = 0; k < n; k++) {
		const struct shard_entry *e = &r->e.v.v[groups[k]];

		if (files[k] == 1)
			remark(r, "%s: %s", base_name(e->path), e->s.why);
		else
			remark(r, "%zu files (%s first): %s", files[k], base_name(e->path),
			       has_blanks(e->s.why) ? "blank lines are not counted" : e->s.why);
	}
}

static int count_all(struct reading *r)
{
	size_t unknown = 0;

	/* The large ones one after the other, each by all workers; then the others side by side. */
	for (size_t i = 0; i < r->e.v.n; i++)
		if (is_large(&r->e.v.v[i]) &&
		    is_ours(r->o, MAX(r->e.v.v[i].rank, r->o->first_rank)))
			count_entry(r, &r->e.v.v[i], 0);
	pool_run(0, r->e.v.n, count_small, r);
	for (size_t i = 0; i < r->e.v.n; i++) {
		struct shard_entry *e = &r->e.v.v[i];

		if (e->status) {
			if (r->reterr)
				*r->reterr = e->error;
			return e->status;
		}
		unknown += e->s.records < 0;
	}
	remark_files(r);
	if (unknown)
		return error_set(r->reterr, -ENODATA,
				 "%s: it does not say how many records there are",
				 r->e.v.v[0].path);
	return 0;
}

static int by_owner(const void *a, const void *b)
{
	const struct shard_entry *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return strcmp(x->path, y->path);
}

/* Fewer shards than ranks: what is in them is dealt, one by one. */
static void deal_records(struct reading *r)
{
	int64_t records = 0, tokens = 0, world = r->o->world_size;

	for (size_t i = 0; i < r->e.v.n; i++) {
		add_known(&records, r->e.v.v[i].s.records);
		add_known(&tokens, r->e.v.v[i].s.tokens);
	}
	for (int64_t rank = 0; rank < world; rank++)
		if (is_ours(r->o, rank))
			*vec_push(&r->c->ranks) = (struct rank_blocks){
				rank, -1, records / world + (rank < records % world),
				tokens < 0 ? -1 : tokens / world + (rank < tokens % world),
				(uint32_t)r->e.v.n
			};
	remark(r,
	       "assumed: fewer shards (%zu) than ranks (%" PRId64
	       "): all ranks see all shards, and "
	       "their records are dealt one by one",
	       r->e.v.n, world);
}

static void sum_by_rank(struct reading *r)
{
	qsort(r->e.v.v, r->e.v.n, sizeof(*r->e.v.v), by_owner);
	for (size_t i = 0; i < r->e.v.n; i++) {
		const struct shard_entry *e = &r->e.v.v[i];
		struct rank_blocks *row;

		r->c->last_said = MAX(r->c->last_said, e->rank);
		if (!is_ours(r->o, e->rank))
			continue;
		row = row_of(r, e->rank);
		if (row->records < 0) {
			row->records = row->tokens = 0;
			row->files = 0;
		}
		add_known(&row->records, e->s.records);
		add_known(&row->tokens, e->s.tokens);
		row->files++;
	}
}

static int counts_of_shards(struct reading *r)
{
	bool deal;
	int s = find_owners(r);

	if (s < 0)
		return s;
	deal = r->e.v.v[0].rank < 0;
	s = count_all(r);
	if (s < 0)
		return s;
	if (deal)
		deal_records(r);
	else
		sum_by_rank(r);
	for (size_t i = 0; i < r->c->ranks.n; i++)
		r->c->ranks.v[i].blocks = r->c->ranks.v[i].records;
	snprintf(r->c->unit, sizeof(r->c->unit), "%s",
		 r->e.v.v[0].kind == SHARD_TAR ? "samples" : "records");
	return 0;
}

/* --- packing --- */

static int pack(struct reading *r)
{
	struct block_counts *c = r->c;
	bool stated = !strcmp(c->unit, "blocks"), tokens = true;

	for (size_t i = 0; i < c->ranks.n; i++)
		tokens &= c->ranks.v[i].tokens >= 0;
	if (r->o->sequence_length <= 0 || stated) {
		if (!c->unit[0])
			return error_set(r->reterr, -ENODATA,
					 "only tokens are counted; --sequence-length says how many "
					 "make a block");
		c->sequence_length = r->o->sequence_length > 0 ? r->o->sequence_length : -1;
		for (size_t i = 0; i < c->ranks.n && stated && c->sequence_length > 0; i++)
			if (c->ranks.v[i].tokens < 0 &&
			    __builtin_mul_overflow(c->ranks.v[i].blocks, c->sequence_length,
						   &c->ranks.v[i].tokens))
				c->ranks.v[i].tokens = -1;
		return 0;
	}
	if (!tokens)
		return error_set(r->reterr, -ENODATA,
				 "blocks of %" PRId64 " tokens cannot be counted: the %s of some "
				 "rank have no token lengths (--length-field names where they are)",
				 r->o->sequence_length, c->unit[0] ? c->unit : "counts");
	for (size_t i = 0; i < c->ranks.n; i++)
		c->ranks.v[i].blocks = c->ranks.v[i].tokens / r->o->sequence_length;
	c->packed = true;
	c->sequence_length = r->o->sequence_length;
	snprintf(c->unit, sizeof(c->unit), "blocks");
	remark(r,
	       "assumed: each rank's tokens are joined end to end and cut into blocks of %" PRId64
	       "; what is left over is dropped, and nothing is put between records",
	       c->sequence_length);
	return 0;
}

static void say_the_rest(struct reading *r)
{
	if (r->e.strangers)
		remark(r, "left out: %zu %s that %s no data by name or content", r->e.strangers,
		       r->e.strangers == 1 ? "file" : "files", r->e.strangers == 1 ? "is" : "are");
	if (r->unsaid)
		*vec_push(&r->c->remarks) = xasprintf("and %zu more remarks", r->unsaid);
}

/* A hole with the file, and the line of the rank behind it, that show it. */
static int whole(struct reading *r, int64_t world)
{
	const struct count_cell *cell = NULL;
	struct error e = { "" };
	int64_t next = 0;
	int s = block_counts_whole(r->c, world, &e);

	if (s >= 0)
		return s;
	for (size_t i = 0; i < r->c->ranks.n && r->c->ranks.v[i].rank == next; i++)
		next++;
	for (size_t i = 0; i < r->cells.v.n; i++) /* by rank */
		if (!cell || cell->rank < next)
			cell = &r->cells.v.v[i];
	/* Beyond the world: the last one. Missing at the end: the file alone. */
	if (cell && world > 0 && next > world)
		cell = &r->cells.v.v[r->cells.v.n - 1];
	if (cell && (cell->rank >= next || next > world))
		return error_set(r->reterr, s, "%s:%u: %s", r->e.v.v[cell->file].path, cell->line,
				 e.text);
	return error_set(r->reterr, s, "%s: %s", r->e.v.v[cell ? cell->file : 0].path, e.text);
}

static int read_all(struct reading *r, const char *const *paths, size_t n)
{
	int64_t world = r->o->world_size;
	int s = shard_walk(paths, n, r->o, &r->e, r->reterr);

	if (s < 0)
		return s;
	settle_numbers(r);
	choose_kind(r);
	if (!r->e.v.n && r->e.others)
		return 0; /* none of our ranks: that is for the judge to say */
	if (!r->e.v.n)
		return error_set(r->reterr, -ENODATA, "%s: nothing that can be counted",
				 n ? paths[0] : "no path");
	s = no_lone_numbers(r);
	if (s < 0)
		return s;
	s = r->e.v.v[0].kind == SHARD_COUNTS ? counts_of_files(r) : counts_of_shards(r);
	s = s < 0 ? s : pack(r);
	if (s < 0)
		return s;
	say_the_rest(r);
	if (!r->c->ranks.n && !r->o->partial)
		return error_set(r->reterr, -ENODATA, "%s: no rank's counts", paths[0]);
	if (r->o->partial)
		return 0;
	return whole(r, MAX(world, r->cells.world));
}

int block_counts_read(const char *const *paths, size_t n, const struct block_options *options,
		      struct block_counts *ret, struct error *reterr)
{
	struct block_counts c = { .sequence_length = -1, .last_said = -1 };
	struct reading r = {
		.o = options, .c = &c, .reterr = reterr, .cells = { .world = -1 }, .roots = n
	};
	int s;

	if (options->world_size > COUNT_RANKS_MOST || options->ranks_here > COUNT_RANKS_MOST ||
	    options->first_rank < 0 || options->first_rank > COUNT_RANKS_MOST)
		return error_set(reterr, -EINVAL, "more than %" PRId64 " ranks", COUNT_RANKS_MOST);
	s = read_all(&r, paths, n);
	shard_entries_done(&r.e);
	free(r.cells.v.v);
	if (s < 0)
		block_counts_done(&c);
	else
		*ret = c;
	return s;
}
