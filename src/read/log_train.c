/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_train.c - progress: which step, how long it took, how fast, the loss.
 *
 * Frameworks print a number behind a word ("iteration 10/ 500", "step: 10", "'step': 10") and
 * beside it what it cost. A number alone is no progress: a line counts only if it also has a loss,
 * a time, a rate or their like. Bars are of steps, of an evaluation, or of work on data, which
 * their title and unit tell. A file that shows its steps in several ways is told by the best one.
 */
#include <math.h>

#include "read/log_internal.h"
#include "read/log_words.h"

#define STEP_MAX   1000000000000ll
#define EPOCHS_FEW 999999 /* its square is below STEP_MAX */

/* --- what stands beside the step --- */

enum field { F_LOSS, F_TIME, F_MS, F_SECONDS, F_TOKENS, F_BESIDE };

/* Words, by their first letter; the longer before the shorter. */
static const struct key {
	const char *word;
	enum field field;
} keys[] = {
	{ "acc", F_BESIDE },
	{ "batch_time", F_TIME },
	{ "consumed", F_BESIDE },
	{ "dt", F_TIME },
	{ "elapsed time per iteration (ms)", F_MS },
	{ "elapsed", F_BESIDE },
	{ "epoch", F_BESIDE },
	{ "eta", F_BESIDE },
	{ "grad", F_BESIDE },
	{ "iter_time", F_TIME },
	{ "it/s", F_BESIDE },
	{ "img/s", F_BESIDE },
	{ "learning", F_BESIDE },
	{ "loss", F_LOSS },
	{ "lr", F_BESIDE },
	{ "mfu", F_BESIDE },
	{ "memory", F_BESIDE },
	{ "ms/batch", F_MS },
	{ "perplexity", F_BESIDE },
	{ "ppl", F_BESIDE },
	{ "samples/s", F_BESIDE },
	{ "samples per second", F_BESIDE },
	{ "step_time", F_TIME },
	{ "step time", F_TIME },
	{ "step_avg", F_TIME },
	{ "throughput", F_BESIDE },
	{ "time_per_step", F_TIME },
	{ "time/step", F_TIME },
	{ "train_step_timing in s", F_SECONDS },
	{ "tokens_per_sec", F_TOKENS },
	{ "tokens per sec", F_TOKENS },
	{ "tokens/s", F_TOKENS },
	{ "tok/s", F_TOKENS },
	{ "total_flos", F_BESIDE },
	{ "tps", F_TOKENS },
	{ "time", F_TIME },
	{ "wps", F_TOKENS },
};

void log_train_begin(struct log *g)
{
	for (unsigned i = ARRAY_SIZE(keys); i-- > 0;)
		g->keys[keys[i].word[0] - 'a'] = (uint8_t)(i + 1);
}

/* The word that stands at a letter. */
static const struct key *key_at(const struct log *g, const char *p, const char *end)
{
	char c = (char)(*p | 0x20);
	unsigned i = g->keys[c - 'a'];

	for (; i && i <= ARRAY_SIZE(keys) && keys[i - 1].word[0] == c; i++) {
		struct scan s = { p, end };

		if (scan_eat_any(&s, keys[i - 1].word))
			return &keys[i - 1];
	}
	return NULL;
}

/* "train_time", "data_time", "total time": of something else than the step */
static bool is_other_time(const char *start, const char *at)
{
	return at > start && (at[-1] == '_' || at[-1] == '-' || at[-1] == '.');
}

static void take_time(struct scan *s, struct scan number, enum field f, double v,
		      struct progress_found *f_)
{
	scan_blanks(s);
	if (!(v >= 0 && v < 1e12) || !isnan(f_->p.step_ms))
		return;
	f_->ms_scale = f == F_MS || scan_at(s, "ms") || scan_at(s, "milli") ? 1 : 1e3;
	f_->p.step_ms = v * f_->ms_scale;
	f_->ms = number;
}

/* The number behind a word; where it stands goes to ret_at. */
static bool number_at(struct scan *s, double *ret, struct scan *ret_at)
{
	const char *p;

	while (s->p < s->end && (*s->p == ' ' || *s->p == ':' || *s->p == '=' || *s->p == '\'' ||
				 *s->p == '"' || *s->p == '\t'))
		s->p++;
	p = s->p;
	if (!scan_double(s, ret))
		return false;
	*ret_at = scan_of(p, s->p);
	return true;
}

/* "learning rate: 3E-4", "grad_norm: 0.5": a number belongs to the word. */
static bool digit_soon(const struct scan *s)
{
	const char *end = scan_left(s) > 24 ? s->p + 24 : s->end;

	for (const char *p = s->p; p < end; p++)
		if (is_digit(*p))
			return true;
	return false;
}

/* All that stands in the line; how many of the words. */
static unsigned take_fields(const struct log *g, const char *start, const char *end,
			    struct progress_found *f)
{
	unsigned n = 0;
	bool letter = false;

	for (const char *at = start; at < end; at++) {
		bool was = letter;
		struct scan s, number;
		const struct key *k;
		double v;

		letter = is_alpha(*at);
		if (!letter || was || !(k = key_at(g, at, end)))
			continue;
		if (k->field == F_TIME && k->word[1] == 'i' && is_other_time(start, at))
			continue;
		s = scan_of(at + strlen(k->word), end);
		while (k->field == F_TOKENS && s.p < s.end && (is_alpha(*s.p) || *s.p == '/'))
			s.p++;
		at += strlen(k->word) - 1;
		if (k->field == F_BESIDE) {
			n += digit_soon(&s) || strchr(k->word, '/');
			continue;
		}
		if (!number_at(&s, &v, &number))
			continue;
		n++;
		if (k->field == F_TOKENS && v >= 0 && isnan(f->p.tokens_per_s)) {
			f->p.tokens_per_s = v;
			f->tokens = number;
		} else if (k->field == F_LOSS && !f->loss.p) {
			f->p.loss = v;
			f->loss = number;
		} else if (k->field != F_TOKENS && k->field != F_LOSS) {
			take_time(&s, number, k->field, v, f);
		}
	}
	return n;
}

/* --- lines --- */

static struct testimony *progress_in(struct log *g, enum progress_source source)
{
	if (!g->progress[source])
		g->progress[source] = testimony_new(WITNESS_LOG, "log");
	return g->progress[source];
}

void log_progress_say(struct log *g, enum progress_source source, const struct progress_line *p)
{
	g->stats->events++;
	if (g->inner)
		log_inner_outdated(g);
	/* ranks that print in turn are a few steps apart; a restart goes back further */
	if (p->step > g->step || p->step < g->step - LOG_STEPS_APART) {
		g->step = p->step;
		g->t->steps++;
	}
	testimony_progress(progress_in(g, source), p);
}

void log_progress_more(struct log *g, enum progress_source source, int64_t rank,
		       double tokens_per_s, double loss)
{
	testimony_progress_more(progress_in(g, source), rank, tokens_per_s, loss);
}

static void say_progress(struct log *g, const struct log_line *l, enum progress_source source,
			 struct progress_line *p)
{
	p->rank = l->rank >= 0 ? l->rank : g->t->rank;
	p->time_ns = l->time_ns >= 0 ? l->time_ns : -1;
	p->line = l->number;
	log_progress_say(g, source, p);
}

/* "  10/ 500", " 1,234 / 10,000"; total stays where there is none. */
static bool step_at(struct scan *s, int64_t *step, int64_t *total)
{
	struct scan q;
	int64_t v;

	for (unsigned i = 0; i < 24 && s->p < s->end; i++, s->p++)
		if (*s->p != ' ' && *s->p != ':' && *s->p != '=' && *s->p != '\'' && *s->p != '"' &&
		    *s->p != '#' && *s->p != '[')
			break;
	if (!scan_digits(s, step) || *step > STEP_MAX)
		return false;
	while (scan_left(s) > 3 && *s->p == ',' && is_digit(s->p[1]) && is_digit(s->p[2]) &&
	       is_digit(s->p[3]) && *step < STEP_MAX) {
		s->p++;
		*step =
		    1000 * *step + 100 * (s->p[0] - '0') + 10 * (s->p[1] - '0') + (s->p[2] - '0');
		s->p += 3;
	}
	q = *s;
	scan_blanks(&q);
	if (scan_eat(&q, "/")) {
		scan_blanks(&q);
		if (scan_digits(&q, &v) && v <= STEP_MAX) {
			*total = v;
			*s = q;
		}
	}
	return true;
}

/* The engine's own counting beside the program's: it counts only where that is not there. */
static bool is_engines(const char *p, const char *end)
{
	return text_has(p, end, "skipped=") || text_has(p, end, "RunningAvgSamplesPerSec");
}

/* "iteration 10/ 500 | ..", "step 12/400 loss ..", "iter 100: loss ..", "'step': 5" */
static enum log_took on_step(struct log *g, struct log_line *l, const char *at,
			     const struct log_anchor *a)
{
	struct scan s = scan_of(at + strlen(a->word), l->end);
	struct progress_found f = { .p = progress_line_unknown(), .ms_scale = 1 };

	f.source = FROM_LINES;
	if (!step_at(&s, &f.p.step, &f.p.total) || (s.p < s.end && *s.p == '%'))
		return LOG_PLAIN;
	if (scan_left(&s) > 1 && *s.p == '.' && is_digit(s.p[1])) /* "STEP 1809655.0 ON r6i4n3" */
		return LOG_PLAIN;
	if (!take_fields(g, l->text, l->end, &f))
		return LOG_PLAIN;
	if (is_engines(at, l->end))
		f.source = FROM_ENGINE;
	say_progress(g, l, f.source, &f.p);
	/* "step 500: train loss 2.1, val loss 2.2" is an evaluation as well. */
	if (text_has(s.p, l->end, "val loss") || text_has(s.p, l->end, "val_loss")) {
		struct saying t = saying_of(SAY_EVALUATION);

		t.value = f.p.step;
		log_say(g, l, &t);
		return LOG_TOOK;
	}
	f.step = scan_of(at + strlen(a->word), s.p);
	log_alike_progress(g, l, &f);
	return LOG_TOOK;
}

/* "Epoch: [0][1180/1250]\tTime 0.771", "epoch 001: 100 / 1000 loss=", "Epoch [1/10], Step [3/600]"
 */
static enum log_took on_epoch_step(struct log *g, struct log_line *l, const char *at,
				   const struct log_anchor *a)
{
	static const char *const words[] = { "step", "iteration", "iter", "batch" };
	struct scan s = scan_of(at + strlen(a->word), l->end);
	struct progress_found f = { .p = progress_line_unknown(), .ms_scale = 1 };
	struct progress_line *p = &f.p;
	int64_t epochs = -1, total = -1;

	if (scan_eat(&s, "("))
		scan_to(&s, ")");
	if (!step_at(&s, &p->epoch, &epochs))
		return LOG_PLAIN;
	while (s.p < s.end && (*s.p == ']' || *s.p == ' ' || *s.p == ':' || *s.p == '|' ||
			       *s.p == ',' || *s.p == '\t'))
		s.p++;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (scan_eat_any(&s, words[i]))
			break;
	if (!step_at(&s, &p->epoch_at, &total) || total < 0 || (s.p < s.end && *s.p == '%'))
		return LOG_PLAIN;
	if (!total || p->epoch > STEP_MAX / total) {
		l->by_value = true;
		return LOG_PLAIN;
	}
	if (!take_fields(g, s.p, l->end, &f))
		return LOG_PLAIN;
	p->epoch_steps = total;
	p->step = p->epoch * total + p->epoch_at;
	say_progress(g, l, FROM_LINES, p);
	return LOG_TOOK;
}

/* "{'loss': 2.5, 'learning_rate': 1e-05, 'epoch': 0.03}": a step whose number is not told. */
static enum log_took on_loss(struct log *g, struct log_line *l, const char *at,
			     const struct log_anchor *a)
{
	(void)a;
	if (l->end - l->text < 2 || memcmp(l->text, "{'", 2) || text_has(at, l->end, "'step'"))
		return LOG_PLAIN;
	g->t->steps++;
	if (g->inner)
		log_inner_outdated(g);
	return LOG_GO_ON;
}

/* --- bars --- */

bool progress_in_epoch(struct progress_line *p, int64_t done, int64_t total)
{
	bool few =
	    p->epoch < EPOCHS_FEW && total >= 0 && total < EPOCHS_FEW; /* spares a division */
	bool fits = few || p->epoch < STEP_MAX / (total + 1);

	p->total = -1;
	p->epoch_at = done;
	p->epoch_steps = total;
	p->step = fits ? p->epoch * total + done : done;
	return fits;
}

enum bar_kind { BAR_STEPS, BAR_EVALUATION, BAR_DATA };

static const char *const evaluations[] = { "eval", "valid", "test", "sanity", "predict" };
static const char *const data_works[] = {
	"map",	   "filter", "token",  "load",	    "download", "generat", "group",   "build",
	"process", "resolv", "concat", "sav",	    "cast",	"extract", "fetch",   "shard",
	"read",	   "index",  "pack",   "cach",	    "convert",	"prepar",  "flatten", "dedup",
	"scan",	   "copy",   "import", "materiali", "quantiz",	"captur",
};

static bool title_has(const char *p, const char *end, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (text_has_any(p, end, words[i]))
			return true;
	return false;
}

struct bar {
	const char *title, *title_end;
	const char *end; /* behind its bracket */
	int64_t done, total;
	struct scan count; /* where they stand */
};

/* "title:  3%|##   | 120/4000 [10:00<5:00:00,  1.23s/it, loss=2.1]": unit stands in the brackets.
 */
static bool bar_of(const struct log_line *l, const char *unit, struct bar *b)
{
	const char *open = unit, *p, *percent;
	struct scan s;

	while (open > l->text && *open != '[' && unit - open < 64)
		open--;
	if (*open != '[' || !memchr(open, '<', (size_t)(unit - open)))
		return false;
	for (p = open; p > l->text && (p[-1] == ' ' || p[-1] == '/' || is_digit(p[-1]) ||
				       p[-1] == '.' || p[-1] == 'k' || p[-1] == 'M');
	     p--)
		;
	s = scan_of(p, open);
	scan_blanks(&s);
	b->total = -1;
	b->count = s;
	if (!step_at(&s, &b->done, &b->total) || b->total < 0)
		return false;
	b->count.end = s.p;
	b->title = b->title_end = l->text;
	percent = memchr(l->text, '%', (size_t)(p - l->text));
	if (percent) {
		while (percent > l->text && (is_digit(percent[-1]) || percent[-1] == ' '))
			percent--;
		b->title_end = percent;
	}
	p = memchr(unit, ']', (size_t)(l->end - unit));
	b->end = p ? p + 1 : l->end;
	return true;
}

static void bar_rate(const struct log_line *l, const char *unit, struct progress_found *f)
{
	const char *p = unit;
	struct scan s;
	double v;

	while (p > l->text && (is_digit(p[-1]) || p[-1] == '.'))
		p--;
	s = scan_of(p, unit);
	if (p == unit || !scan_double(&s, &v) || !(v > 0))
		return;
	f->ms_is_rate = *unit != 's' || unit[1] != '/';
	f->ms_scale = f->ms_is_rate ? 1 : 1e3;
	f->ms = scan_of(p, unit);
	f->p.step_ms = f->ms_is_rate ? 1e3 / v : v * 1e3;
}

/* "Epoch 3:": the bar counts the steps of one epoch. */
static bool bar_epoch(const struct bar *b, struct progress_found *f)
{
	struct scan s = scan_of(b->title, b->title_end);
	int64_t epochs;

	if (!scan_to_any(&s, "epoch"))
		return false;
	f->epoch.p = s.p;
	if (!step_at(&s, &f->p.epoch, &epochs))
		return false;
	f->epoch.end = s.p;
	if (memchr(f->epoch.p, '/', scan_left(&f->epoch))) /* two numbers: not learnt */
		f->epoch.p = NULL;
	progress_in_epoch(&f->p, b->done, b->total);
	return true;
}

static void say_steps(struct log *g, const struct log_line *l, const char *unit,
		      const struct bar *b)
{
	struct progress_found f = { .p = progress_line_unknown(), .ms_scale = 1 };
	bool epoch;

	f.source = FROM_BARS;
	take_fields(g, unit, l->end, &f);
	f.p.step_ms = (double)NAN;
	bar_rate(l, unit, &f);
	f.p.step = b->done;
	f.p.total = b->total;
	f.step = b->count;
	epoch = bar_epoch(b, &f);
	say_progress(g, l, FROM_BARS, &f.p);
	/* What comes again may hold no words of somebody else. */
	if (log_known_words(g, l->start, unit) == epoch && !log_known_words(g, unit + 4, l->end))
		log_alike_progress(g, l, &f);
}

/* One bar of data work: told apart by title, speaker and total, and by going back. */
static void say_bar(struct log *g, const struct log_line *l, const struct bar *b)
{
	uint64_t key = hash_bytes(b->title, (size_t)(b->title_end - b->title), 7);
	struct log_bar *slot = NULL;

	key = hash_mix(hash_mix(hash_mix(key, (uint64_t)l->rank), (uint64_t)l->pid),
		       (uint64_t)b->total);
	for (unsigned i = 0; i < g->n_bars && !slot; i++)
		if (g->bars[i].key == key && g->bars[i].done <= b->done)
			slot = &g->bars[i];
	if (!slot) {
		if (g->n_bars == LOG_BARS_MAX) {
			g->t->dropped++;
			return;
		}
		slot = &g->bars[g->n_bars++];
		*slot = (struct log_bar){ .key = key, .line = l->number };
	}
	slot->rank = l->rank >= 0 ? l->rank : g->t->rank;
	slot->done = b->done;
	slot->total = b->total;
	slot->last_line = l->number;
	slot->time_ns = l->time_ns;
	slot->count++;
	slot->text = log_text(g, l->text, b->end);
}

static enum log_took on_bar(struct log *g, struct log_line *l, const char *at,
			    const struct log_anchor *a)
{
	enum bar_kind kind = BAR_STEPS;
	struct bar b;

	if (!bar_of(l, at, &b))
		return LOG_PLAIN;
	if (title_has(b.title, b.title_end, evaluations, ARRAY_SIZE(evaluations)))
		kind = BAR_EVALUATION;
	else if (a->value || title_has(b.title, b.title_end, data_works, ARRAY_SIZE(data_works)))
		kind = BAR_DATA;
	else if (b.title_end == b.title) {
		/* Bars without a title: the first is of steps, another total of an evaluation. */
		if (g->bar_total < 0)
			g->bar_total = b.total;
		if (g->bar_total != b.total)
			kind = BAR_EVALUATION;
	}
	if (kind == BAR_DATA) {
		say_bar(g, l, &b);
	} else if (kind == BAR_EVALUATION) {
		struct saying t = saying_of(SAY_EVALUATION);

		log_say(g, l, &t);
	} else {
		say_steps(g, l, at, &b);
	}
	return LOG_GO_ON; /* other words may follow on the same line */
}

const struct log_anchor log_train_anchors[] = {
	{ "iteration", on_step, 0, NULL, 0 },	{ "step", on_step, 0, NULL, 0 },
	{ "loss':", on_loss, 0, NULL, 0 },	{ "iter ", on_step, 0, NULL, 0 },
	{ "iter:", on_step, 0, NULL, 0 },	{ "iter=", on_step, 0, NULL, 0 },
	{ "num_updates", on_step, 0, NULL, 0 }, /* fairseq */
	{ "batch ", on_step, 0, NULL, 0 },	{ "epoch", on_epoch_step, 0, NULL, 0 },
	{ "it/s", on_bar, 0, NULL, 0 },		{ "s/it", on_bar, 0, NULL, 0 },
	{ "examples/s", on_bar, 0, NULL, 1 },	{ "files/s", on_bar, 0, NULL, 1 },
	{ "docs/s", on_bar, 0, NULL, 1 },	{ "rows/s", on_bar, 0, NULL, 1 },
	{ "lines/s", on_bar, 0, NULL, 1 },	{ "shards/s", on_bar, 0, NULL, 1 },
	{ "tables/s", on_bar, 0, NULL, 1 },	{ "s/file", on_bar, 0, NULL, 1 },
	{ "s/ba", on_bar, 0, NULL, 1 },		{ NULL, NULL, 0, NULL, 0 },
};

static uint64_t progress_lines(const struct testimony *t)
{
	uint64_t n = 0;

	for (size_t i = 0; t && i < t->progress.n; i++)
		n += t->progress.v[i].lines;
	return n;
}

void log_train_done(struct log *g)
{
	enum progress_source best = FROM_LINES;

	for (unsigned i = 0; i < g->n_bars; i++) {
		const struct log_bar *b = &g->bars[i];
		struct saying t = saying_of(SAY_DATA_WORK), *row;

		t.rank = b->rank;
		t.seq = b->done;
		t.value = b->total;
		t.text = b->text;
		t.time_ns = b->time_ns;
		t.line = b->line;
		row = testimony_say(g->t, &t);
		if (row) {
			row->last_line = b->last_line;
			row->count = b->count;
		}
	}
	/* Bars count where lines are few beside them; the engine's where there is nothing else. */
	if (progress_lines(g->progress[FROM_BARS]) > 20 * progress_lines(g->progress[FROM_LINES]))
		best = FROM_BARS;
	if (!g->progress[best])
		best = FROM_ENGINE;
	if (g->progress[best]) {
		g->t->progress.n = g->progress[best]->progress.n;
		g->t->progress.cap = g->progress[best]->progress.cap;
		g->t->progress.v = g->progress[best]->progress.v;
		g->progress[best]->progress.v = NULL;
		g->progress[best]->progress.n = g->progress[best]->progress.cap = 0;
	}
	for (unsigned i = 0; i < PROGRESS_SOURCES; i++)
		testimony_free(g->progress[i]);
}
