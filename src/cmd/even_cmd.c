/* SPDX-License-Identifier: Apache-2.0 */
/*
 * even_cmd.c - `lockstep even`: from what each rank has to the step at which all must stop.
 *
 * The counts come from src/read/shards.h, the arithmetic from src/preflight/even.h; here are the
 * words.
 */
#include "cmd/cmd.h"
#include "base/buf.h"
#include "base/progress.h"
#include "base/pool.h"
#include "preflight/even.h"
#include "read/shards.h"
#include "show/clean.h"
#include "show/page.h"

#include <jansson.h>
#include <math.h>
#include <unistd.h>

#define RANKS_SHOWN 32u /* beyond, those that end first and last */
#define RANKS_ENDS  6u

struct even_args {
	int64_t blocks_per_step, sequence_length, world_size;
	const char *how, *deal, *length_field;
	bool drop_last, keep_last, json;
};

static const struct option_row even_options[] = {
	{ "blocks-per-step", 'b', OPTION_NUMBER, offsetof(struct even_args, blocks_per_step), "N",
	  "blocks that one rank takes in a step, accumulation included (default 1)" },
	{ "sequence-length", 's', OPTION_NUMBER, offsetof(struct even_args, sequence_length), "N",
	  "tokens in a block (default: a record is a block)" },
	{ "how", 0, OPTION_TEXT, offsetof(struct even_args, how), "HOW",
	  "drop (default) down to the shortest rank; pad, repeat: up to the longest" },
	{ "drop-last", 0, OPTION_FLAG, offsetof(struct even_args, drop_last), NULL,
	  "a partial last step is not run (the default)" },
	{ "keep-last", 0, OPTION_FLAG, offsetof(struct even_args, keep_last), NULL,
	  "a partial last step is run" },
	{ "world-size", 'w', OPTION_NUMBER, offsetof(struct even_args, world_size), "N",
	  "how many ranks there are; shards that name no rank are dealt to them" },
	{ "deal", 0, OPTION_TEXT, offsetof(struct even_args, deal), "HOW",
	  "how shards are dealt: contiguous (default) or strided" },
	{ "length-field", 0, OPTION_TEXT, offsetof(struct even_args, length_field), "NAME",
	  "the field or column of a record that is its tokens, or their number" },
	{ "json", 0, OPTION_FLAG, offsetof(struct even_args, json), NULL,
	  "print the plan as JSON" },
	{ 0 },
};
const struct option_spec even_spec = {
	.command = "even",
	.operands = "PATH...",
	.purpose = "say which rank runs out of data first, and where all must stop",
	.rows = even_options,
	.more =
	    "PATH is a counts file (JSON, or CSV with columns rank,blocks, or one number a line),\n"
	    "or shards and folders of them: JSONL, text, Megatron .idx, .npy, Parquet, Arrow,\n"
	    "Hugging Face, WebDataset. Exit status: 0 balanced, 1 uneven, 2 cannot tell, 64 "
	    "usage.\n",
};

struct even_report {
	const struct even_args *args;
	int64_t blocks_per_step;
	enum even_how how;
	struct block_counts counts;
	struct even_balance b;
};

/* --- words --- */

static const char *percent(double share, char buf[32])
{
	double v = share * 100;

	if (v <= 0)
		snprintf(buf, 32, "0 %%");
	else if (v < 0.001)
		snprintf(buf, 32, "under 0.001 %%");
	else
		snprintf(buf, 32, v < 0.1 ? "%.3f %%" : v < 10 ? "%.2f %%" : "%.1f %%", v);
	return buf;
}

static char *replaced(const char *s, const char *from, const char *to)
{
	struct buf b = { 0 };

	for (const char *at; (at = strstr(s, from)); s = at + strlen(from)) {
		buf_put(&b, s, (size_t)(at - s));
		buf_put(&b, to, strlen(to));
	}
	buf_put(&b, s, strlen(s) + 1);
	return (char *)b.data;
}

static void sentence(const struct page *p, const char *lead, const char *format, ...)
    PRINTF_LIKE(3, 4);
static void sentence(const struct page *p, const char *lead, const char *format, ...)
{
	static const char bound[] = "\xc2\xa0%"; /* a number and its % stay on one line */
	char text[1024], *lines = NULL, *joined, *at;
	struct page own = *p;
	size_t len;
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	joined = replaced(text, " %", bound);
	own.out = open_memstream(&lines, &len);
	if (!own.out) {
		page_text(p, PAGE_PLAIN, lead, MIN(strlen(lead), 10u), text);
		free(joined);
		return;
	}
	page_text(&own, PAGE_PLAIN, lead, MIN(strlen(lead), 10u), joined);
	fclose(own.out);
	at = replaced(lines, bound, " %");
	fputs(at, p->out);
	free(at);
	free(lines);
	free(joined);
}

static const char *plural_of(int64_t n)
{
	return n == 1 ? "" : "s";
}

/* "blocks", or "block" of one. */
static const char *unit_of(const struct even_report *r, int64_t n, char buf[24])
{
	size_t len = (size_t)snprintf(buf, 24, "%s", r->counts.unit);

	if (n == 1 && len > 2 && buf[len - 1] == 's')
		buf[len - (!strcmp(buf, "batches") ? 2 : 1)] = 0;
	return buf;
}

static void print_head(const struct page *p, const struct even_report *r)
{
	const struct even_balance *b = &r->b;
	char steps[32], most[32], apart[32];
	int64_t n = b->most_steps - b->least_steps;

	if (b->balanced)
		sentence(p, "BALANCED: ", "all %zu rank%s make %s step%s%s", b->ranks,
			 plural_of((int64_t)b->ranks), page_count((uint64_t)b->least_steps, steps),
			 plural_of(b->least_steps),
			 b->ragged ? "; the last one is smaller on some" : "");
	else
		sentence(p, "UNEVEN: ",
			 "rank %" PRId64 " runs out after %s step%s, %s step%s before rank %" PRId64
			 " (%s): without evening the job hangs there",
			 b->first_rank, page_count((uint64_t)b->least_steps, steps),
			 plural_of(b->least_steps), page_count((uint64_t)n, apart), plural_of(n),
			 b->last_rank, page_count((uint64_t)b->most_steps, most));
}

/* How far the ends are apart beside what a rank has. */
static const char *of_a_rank(const struct even_balance *b, char buf[64])
{
	double mean = (double)b->total / (double)b->ranks;
	double share = mean > 0 ? (double)(b->most - b->least) / mean : 0;
	char text[32];

	if (share <= 1)
		snprintf(buf, 64, "%s of a rank's", percent(share, text));
	else
		snprintf(buf, 64, "%.1f times what a rank has on average", share);
	return buf;
}

static void print_spread(const struct page *p, const struct even_report *r)
{
	const struct even_balance *b = &r->b;
	char least[32], most[32], apart[32], share[64], total[32], unit[24], step[32], tokens[32];
	char of[64] = "";

	if (b->least == b->most)
		sentence(p, "Data:     ", "%zu rank%s, %s %s in all; %s on each", b->ranks,
			 plural_of((int64_t)b->ranks), page_count((uint64_t)b->total, total),
			 unit_of(r, b->total, unit), page_count((uint64_t)b->least, least));
	else
		sentence(p, "Data:     ",
			 "%zu rank%s, %s %s in all; %s on rank %" PRId64
			 " (least) to %s on rank %" PRId64 " (most): %s apart, %s",
			 b->ranks, plural_of((int64_t)b->ranks),
			 page_count((uint64_t)b->total, total), unit_of(r, b->total, unit),
			 page_count((uint64_t)b->least, least), b->first_rank,
			 page_count((uint64_t)b->most, most), b->last_rank,
			 page_count((uint64_t)(b->most - b->least), apart), of_a_rank(b, share));
	if (r->counts.sequence_length > 0)
		snprintf(of, sizeof(of), ", each of %s tokens",
			 page_count((uint64_t)r->counts.sequence_length, tokens));
	sentence(p, "Step:     ", "%s %s a rank%s%s; a partial last step is %s",
		 page_count((uint64_t)r->blocks_per_step, step),
		 unit_of(r, r->blocks_per_step, unit),
		 r->args->blocks_per_step < 0 ? " (assumed; --blocks-per-step)" : "", of,
		 r->args->keep_last ? "run" : "not run");
}

/* Blocks of the rank that ends first which make no whole step. */
static void print_partial(const struct page *p, const struct even_report *r)
{
	int64_t left = r->b.least % r->blocks_per_step;
	char whole[32], n[32], of[32], unit[24];

	if (!left || r->b.balanced)
		return;
	sentence(p, "          ", "rank %" PRId64 ": %s whole step%s and %s of %s %s of another",
		 r->b.first_rank, page_count((uint64_t)(r->b.least / r->blocks_per_step), whole),
		 plural_of(r->b.least / r->blocks_per_step), page_count((uint64_t)left, n),
		 page_count((uint64_t)r->blocks_per_step, of),
		 unit_of(r, r->blocks_per_step, unit));
}

static void print_drop(const struct page *p, const struct even_report *r)
{
	const struct even_balance *b = &r->b;
	char n[32], share[32], most[32], partial[32], tokens[32], of[32], unit[24];

	if (!b->blocks_dropped)
		return;
	sentence(p, "          ", "it drops %s %s in all, %s; at most %s on one rank (%" PRId64 ")",
		 page_count((uint64_t)b->blocks_dropped, n), unit_of(r, b->blocks_dropped, unit),
		 percent((double)b->blocks_dropped / (double)b->total, share),
		 page_count((uint64_t)b->dropped_most, most), b->dropped_most_rank);
	if (b->blocks_partial)
		sentence(p, "          ",
			 "of these %s %s in partial last steps, which are not run anyway: evening "
			 "itself costs %s",
			 page_count((uint64_t)b->blocks_partial, partial),
			 b->blocks_partial == 1 ? "lies" : "lie",
			 page_count((uint64_t)(b->blocks_dropped - b->blocks_partial), n));
	if (b->tokens_dropped >= 0)
		sentence(p, "          ", "in tokens: %s of %s, %s",
			 page_count((uint64_t)b->tokens_dropped, tokens),
			 page_count((uint64_t)b->tokens, of), percent(b->tokens_share, share));
}

static void print_plan(const struct page *p, const struct even_report *r)
{
	const struct even_balance *b = &r->b;
	char stop[32], n[32], share[32], unit[24];

	if (b->balanced && !b->blocks_dropped)
		return;
	if (!b->stop_steps) {
		sentence(p, "Plan:     ",
			 "none: rank %" PRId64
			 " has not enough for one step; give it data, or take "
			 "fewer blocks a step",
			 b->first_rank);
		return;
	}
	sentence(p, "Plan:     ", "%s step %s (%s)",
		 r->how == EVEN_DROP ? "stop every rank at" : "take every rank to",
		 page_count((uint64_t)b->stop_steps, stop), even_how_name(r->how));
	if (b->blocks_added)
		sentence(p, "          ", "it %s %s %s in all, %s, on %zu rank%s",
			 r->how == EVEN_PAD ? "adds" : "repeats",
			 page_count((uint64_t)b->blocks_added, n),
			 unit_of(r, b->blocks_added, unit),
			 percent((double)b->blocks_added / (double)b->total, share), b->ranks_short,
			 plural_of((int64_t)b->ranks_short));
	print_drop(p, r);
}

/* --- the table --- */

static int by_blocks(const void *a, const void *b)
{
	const struct rank_blocks *x = *(const struct rank_blocks *const *)a;
	const struct rank_blocks *y = *(const struct rank_blocks *const *)b;

	if (x->blocks != y->blocks)
		return x->blocks < y->blocks ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static void print_rank(const struct even_report *r, const struct rank_blocks *k)
{
	char blocks[32], steps[32], over[32];
	int64_t left = k->blocks % r->blocks_per_step, whole = k->blocks / r->blocks_per_step;
	const char *mark = k->rank == r->b.first_rank && !r->b.balanced	 ? "  ends first"
			   : k->rank == r->b.last_rank && !r->b.balanced ? "  ends last"
									 : "";

	printf("  %6" PRId64 " %15s %15s %10s%s\n", k->rank,
	       page_count((uint64_t)k->blocks, blocks), page_count((uint64_t)whole, steps),
	       left ? page_count((uint64_t)left, over) : "-", mark);
}

static void print_table(const struct page *p, const struct even_report *r)
{
	size_t n = r->counts.ranks.n;
	const struct rank_blocks **v = xcalloc(n, sizeof(*v));

	page_head(p, n > RANKS_SHOWN ? "Ranks that end first and last" : "Ranks");
	printf("  %6s %15s %15s %10s\n", "rank", r->counts.unit, "whole steps", "left over");
	for (size_t i = 0; i < n; i++)
		v[i] = &r->counts.ranks.v[i];
	if (n > RANKS_SHOWN)
		qsort(v, n, sizeof(*v), by_blocks);
	for (size_t i = 0; i < n; i++) {
		if (n > RANKS_SHOWN && i == RANKS_ENDS) {
			printf("  %6s\n", "..");
			i = n - RANKS_ENDS;
		}
		print_rank(r, v[i]);
	}
	free(v);
}

static void print_remarks(const struct page *p, const struct even_report *r)
{
	const struct block_counts *c = &r->counts;

	if (c->remarks.n)
		page_head(p, "Read");
	for (size_t i = 0; i < c->remarks.n; i++)
		page_text(p, PAGE_PLAIN, "  - ", 4, c->remarks.v[i]);
}

static void print_next(const struct page *p, const struct even_report *r)
{
	static const char *const next[EVEN_HOWS] = {
		"in the job: for batch in lockstep.even(loader), which stops all ranks there "
		"(docs/even.md); or give every rank the same number of blocks",
		"in the job: for batch in lockstep.even(loader, how='pad'), which takes all ranks "
		"there; short ones get batches of weight 0 (docs/even.md); or give every rank the "
		"same number of blocks",
		"in the job: for batch in lockstep.even(loader, how='repeat'), which takes all "
		"ranks there; short ones begin their data anew (docs/even.md); or give every rank "
		"the same number of blocks",
	};

	if (r->b.balanced)
		return;
	page_head(p, "Next");
	if (r->b.stop_steps)
		page_text(p, PAGE_PLAIN, "  ", 2, next[r->how]);
	else
		sentence(p, "  ",
			 "give rank %" PRId64 " data, or take fewer blocks a step: "
			 "lockstep.even(loader) would end the epoch of all ranks before its first "
			 "step",
			 r->b.first_rank);
}

static void print_text(const struct even_report *r)
{
	struct page p = { .out = stdout };

	print_head(&p, r);
	print_spread(&p, r);
	print_partial(&p, r);
	print_plan(&p, r);
	print_table(&p, r);
	print_remarks(&p, r);
	print_next(&p, r);
}

/* --- JSON --- */

static json_t *count_or_null(int64_t v)
{
	return v < 0 ? json_null() : json_integer(v);
}

static json_t *json_end(const struct even_report *r, int64_t rank, int64_t blocks, int64_t steps)
{
	json_t *o = json_object();

	(void)r;
	json_object_set_new(o, "rank", json_integer(rank));
	json_object_set_new(o, "blocks", json_integer(blocks));
	json_object_set_new(o, "steps", json_integer(steps));
	return o;
}

static json_t *json_ranks(const struct even_report *r)
{
	json_t *a = json_array();

	for (size_t i = 0; i < r->counts.ranks.n; i++) {
		const struct rank_blocks *k = &r->counts.ranks.v[i];
		json_t *o = json_object();

		json_object_set_new(o, "rank", json_integer(k->rank));
		json_object_set_new(o, "blocks", json_integer(k->blocks));
		json_object_set_new(
		    o, "steps",
		    json_integer(even_steps(k->blocks, r->blocks_per_step, !r->args->keep_last)));
		json_object_set_new(o, "left_over", json_integer(k->blocks % r->blocks_per_step));
		json_object_set_new(o, "records", count_or_null(k->records));
		json_object_set_new(o, "tokens", count_or_null(k->tokens));
		json_object_set_new(o, "files", json_integer(k->files));
		json_array_append_new(a, o);
	}
	return a;
}

static json_t *json_plan(const struct even_report *r)
{
	const struct even_balance *b = &r->b;
	json_t *o = json_object();

	json_object_set_new(o, "how", json_string(even_how_name(r->how)));
	json_object_set_new(o, "stop_step", json_integer(b->stop_steps));
	json_object_set_new(o, "blocks_dropped", json_integer(b->blocks_dropped));
	json_object_set_new(o, "blocks_dropped_partial", json_integer(b->blocks_partial));
	json_object_set_new(o, "blocks_added", json_integer(b->blocks_added));
	json_object_set_new(o, "dropped_most", json_integer(b->dropped_most));
	json_object_set_new(o, "dropped_most_rank", count_or_null(b->dropped_most_rank));
	json_object_set_new(o, "share", json_real(round(b->share * 1e8) / 1e8));
	json_object_set_new(o, "tokens_dropped", count_or_null(b->tokens_dropped));
	json_object_set_new(o, "tokens_share",
			    b->tokens_dropped < 0 ? json_null()
						  : json_real(round(b->tokens_share * 1e8) / 1e8));
	return o;
}

static json_t *json_remarks(const struct block_counts *c)
{
	json_t *a = json_array();

	for (size_t i = 0; i < c->remarks.n; i++) {
		_cleanup_free_ char *clean = clean_utf8(c->remarks.v[i]);

		json_array_append_new(a, json_string(clean));
	}
	return a;
}

static int dump(json_t *o)
{
	int r = json_dumpf(o, stdout, JSON_INDENT(2));

	json_decref(o);
	return r || putchar('\n') == EOF ? -EIO : 0;
}

static int print_json(const struct even_report *r)
{
	const struct even_balance *b = &r->b;
	json_t *o = json_object();

	json_object_set_new(o, "lockstep", json_string(LOCKSTEP_VERSION));
	json_object_set_new(o, "schema", json_integer(1));
	json_object_set_new(o, "verdict", json_string(b->balanced ? "balanced" : "uneven"));
	json_object_set_new(o, "unit", json_string(r->counts.unit));
	json_object_set_new(o, "packed", json_boolean(r->counts.packed));
	json_object_set_new(o, "sequence_length",
			    r->counts.sequence_length > 0 ? json_integer(r->counts.sequence_length)
							  : json_null());
	json_object_set_new(o, "blocks_per_step", json_integer(r->blocks_per_step));
	json_object_set_new(o, "drop_last", json_boolean(!r->args->keep_last));
	json_object_set_new(o, "world_size", json_integer((json_int_t)b->ranks));
	json_object_set_new(o, "blocks", json_integer(b->total));
	json_object_set_new(o, "tokens", count_or_null(b->tokens));
	json_object_set_new(o, "first", json_end(r, b->first_rank, b->least, b->least_steps));
	json_object_set_new(o, "last", json_end(r, b->last_rank, b->most, b->most_steps));
	json_object_set_new(o, "blocks_apart", json_integer(b->most - b->least));
	json_object_set_new(o, "steps_apart", json_integer(b->most_steps - b->least_steps));
	json_object_set_new(o, "ranks_short", json_integer((json_int_t)b->ranks_short));
	json_object_set_new(o, "ragged", json_boolean(b->ragged));
	json_object_set_new(o, "plan", json_plan(r));
	json_object_set_new(o, "ranks", json_ranks(r));
	json_object_set_new(o, "remarks", json_remarks(&r->counts));
	return dump(o);
}

/* What went wrong, for programs too. */
static int cannot_tell(const struct even_args *args, const struct error *e)
{
	_cleanup_free_ char *clean = clean_utf8(e->text), *line = clean_text(e->text);

	complain("even: %s", line);
	if (args->json && dump(json_pack("{s:s,s:i,s:s,s:s}", "lockstep", LOCKSTEP_VERSION,
					 "schema", 1, "verdict", "cannot-tell", "why", clean)) < 0)
		complain("even: the output cannot be written");
	return EXIT_CANNOT_TELL;
}

/* --- the command --- */

static int one_of(const char *option, const char *word, const char *const *words, size_t n)
{
	const char *near;

	for (size_t i = 0; i < n; i++)
		if (!word || !strcmp(word, words[i]))
			return (int)i;
	near = options_nearest(word, words, n);
	complain("even: --%s: no \"%.40s\"; %s%s%s", option, word,
		 near ? "did you mean \"" : "see ", near ? near : "lockstep even --help",
		 near ? "\"?" : "");
	return -1;
}

static int bad_usage(const struct even_args *args, int operands, int argc)
{
	if (operands == argc)
		complain(
		    "even: a PATH is missing: a counts file, or shards; see lockstep even --help");
	else if (args->drop_last && args->keep_last)
		complain("even: --drop-last and --keep-last: only one of them can be");
	else if (args->blocks_per_step == 0 || args->blocks_per_step > COUNT_BLOCKS_MOST)
		complain("even: --blocks-per-step must be from 1 to %" PRId64, COUNT_BLOCKS_MOST);
	else if (args->sequence_length == 0 || args->sequence_length > COUNT_TOKENS_MOST)
		complain("even: --sequence-length must be 1 or more");
	else if (args->world_size == 0 || args->world_size > COUNT_RANKS_MOST)
		complain("even: --world-size must be from 1 to %" PRId64, COUNT_RANKS_MOST);
	else
		return 0;
	return EXIT_USAGE;
}

struct work {
	const char *const *paths;
	size_t n;
	struct block_options o;
	struct block_counts *ret;
	struct error *e;
	int status;
};

static void count(void *user, size_t i)
{
	struct work *w = user;

	(void)i;
	w->status = block_counts_read(w->paths, w->n, &w->o, w->ret, w->e);
}

static int read_counts(const struct even_args *args, enum deal deal, char **paths, size_t n,
		       struct block_counts *ret, struct error *e)
{
	struct progress bar = { 0 };
	struct pool_watch watch = { progress_draw, &bar, 200 };
	struct work w = { .paths = (const char *const *)paths, .n = n, .ret = ret, .e = e };

	w.o = (struct block_options){
		.sequence_length = args->sequence_length,
		.world_size = args->world_size,
		.deal = deal,
		.length_field = args->length_field,
		.progress = &bar.done,
	};
	if (isatty(STDERR_FILENO))
		progress_begin(&bar, "counting", block_paths_bytes(w.paths, n));
	pool_run_watched(1, 1, count, &w, progress_wanted(&bar) ? &watch : NULL);
	progress_end(&bar);
	return w.status;
}

/* Balanced, but there is nothing to run. */
static bool has_no_step(const struct even_report *r, struct error *e)
{
	if (r->b.most_steps)
		return false;
	error_set(e, -ENODATA, "no rank has enough for one step of %" PRId64 " %s",
		  r->blocks_per_step, r->counts.unit);
	return true;
}

static int print_report(const struct even_report *r)
{
	int status = r->b.balanced ? EXIT_HEALTHY : EXIT_FINDINGS;

	if (!r->args->json)
		print_text(r);
	else if (print_json(r) < 0)
		status = EXIT_CANNOT_TELL;
	return status;
}

int even_main(int argc, char **argv)
{
	static const char *const hows[] = { "drop", "pad", "repeat" };
	static const char *const deals[] = { "contiguous", "strided" };
	struct even_args args = { .blocks_per_step = -1, .sequence_length = -1, .world_size = -1 };
	struct even_report r = { .args = &args };
	struct error e = { 0 };
	int operands, how, deal, status = command_line(&even_spec, argc, argv, &args, &operands);

	if (status >= 0)
		return status;
	how = one_of("how", args.how, hows, ARRAY_SIZE(hows));
	deal = how < 0 ? -1 : one_of("deal", args.deal, deals, ARRAY_SIZE(deals));
	status = deal < 0 ? EXIT_USAGE : bad_usage(&args, operands, argc);
	if (status)
		return status;
	r.how = (enum even_how)how;
	r.blocks_per_step = args.blocks_per_step < 0 ? 1 : args.blocks_per_step;
	if (read_counts(&args, (enum deal)deal, argv + operands, (size_t)(argc - operands),
			&r.counts, &e) < 0)
		return cannot_tell(&args, &e);
	if (even_balance(r.counts.ranks.v, r.counts.ranks.n, r.blocks_per_step, !args.keep_last,
			 r.how, &r.b, &e) < 0 ||
	    has_no_step(&r, &e))
		status = cannot_tell(&args, &e);
	else
		status = print_report(&r);
	block_counts_done(&r.counts);
	if (fflush(stdout)) {
		complain("even: the output cannot be written");
		return EXIT_CANNOT_TELL;
	}
	return status;
}
