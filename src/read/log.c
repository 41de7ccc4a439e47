/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.c - lines of text: the window, the search for words, and who is asked about a line.
 *
 * A log is gigabytes of which a few lines matter, and which ones is told by their words. So the
 * text is not cut into lines first: one pass over 64 bytes at a time marks where words begin, and
 * the first eight letters of each word are looked up in a small table of all anchors. Only where
 * one stands is the line around it found, freed of colours and prefixes, and parsed. Lines that
 * differ from known ones in digits only are not even looked at so closely (log_alike.c). The memory
 * is constant: a window, and tables with named limits.
 *
 * Invariant: the result does not depend on how the bytes come in, in pieces of whatever size.
 */
#include "read/log.h"

#include "read/log_bytes.h"
#include "read/log_internal.h"
#include "read/log_words.h"

#define LOG_WINDOW ((size_t)256 << 10)

/* --- a line and its words --- */

/* Copies a line without escape sequences; at is moved along. */
static void strip_colours(struct log *g, struct log_line *l, const char **at)
{
	char *dst = g->scratch;
	const char *p = l->start, *want = *at;

	while (p < l->end) {
		if (p >= want && want) {
			*at = dst;
			want = NULL;
		}
		if (*p != '\033') {
			*dst++ = *p++;
			continue;
		}
		p++;
		if (p < l->end && *p == '[') {
			for (p++; p < l->end && (*p < '@' || *p > '~'); p++)
				;
			p += p < l->end;
		} else if (p < l->end && *p == ']') {
			for (p++; p < l->end && *p != '\007' && *p != '\033'; p++)
				;
			p += p < l->end && *p == '\007';
		}
	}
	*dst = '\n';
	l->start = g->scratch;
	l->end = dst;
}

static void line_begin(struct log *g, struct log_line *l, const char *start, const char *end,
		       uint64_t number, const char **at)
{
	const char *eol = end;

	if ((size_t)(end - start) > LOG_LINE_MAX)
		end = start + LOG_LINE_MAX;
	while (end > start && (end[-1] == ' ' || end[-1] == '\0'))
		end--;
	*l = (struct log_line){
		.start = start,
		.end = end,
		.eol = eol,
		.number = number,
		.rank = -1,
		.local_rank = -1,
		.pid = -1,
		.gpu = -1,
		.time_ns = -1,
	};
	if (memchr(start, '\033', (size_t)(end - start)))
		strip_colours(g, l, at);
	log_prefix(g, l);
	if (l->folded) {
		struct saying s = saying_of(SAY_FOLDED);

		s.text = log_name(g, "equal lines of several ranks are folded into one");
		s.line = number;
		testimony_say(g->t, &s);
	}
}

uint32_t log_text(struct log *g, const char *p, const char *end)
{
	char text[SAYING_TEXT_MAX] = "";
	size_t n = 0;

	while (p < end && (*p == ' ' || *p == '\t'))
		p++;
	for (; p < end && n < sizeof(text); p++)
		if ((unsigned char)*p >= ' ' && *p != 0x7f)
			text[n++] = *p;
		else if (*p == '\t')
			text[n++] = ' ';
	if (p < end) /* no half of a character */
		while (n && ((unsigned char)*p & 0xc0) == 0x80 &&
		       ((unsigned char)text[n - 1] & 0x80)) {
			p--;
			n--;
		}
	while (n && text[n - 1] == ' ')
		n--;
	return n ? testimony_name(g->t, text, n) : NO_ID;
}

uint32_t log_name(struct log *g, const char *s)
{
	return testimony_name(g->t, s, strlen(s));
}

void log_fill(struct log *g, const struct log_line *l, struct saying *s)
{
	if (s->rank < 0)
		s->rank = l->rank;
	if (s->local_rank < 0)
		s->local_rank = l->local_rank;
	if (s->pid < 0)
		s->pid = l->pid;
	if (s->host == NO_ID && l->host.p)
		s->host = testimony_name(g->t, l->host.p, scan_left(&l->host));
	if (s->time_ns == -1)
		s->time_ns = l->time_ns;
	s->line = l->number;
	s->steps_at = g->t->steps;
}

bool log_goes_on(enum saying_kind k)
{
	static const bool life[SAY_KINDS] = {
		[SAY_HELLO] = true,	[SAY_RESTART] = true,	[SAY_SAVE_BEGIN] = true,
		[SAY_SAVE_END] = true,	[SAY_EPOCH_END] = true, [SAY_EVALUATION] = true,
		[SAY_DATA_WORK] = true, [SAY_COMPILE] = true,	[SAY_DONE] = true,
	};

	return life[k];
}

struct saying *log_say(struct log *g, const struct log_line *l, struct saying *s)
{
	struct saying *row;

	g->stats->events++;
	if (g->inner && log_goes_on(s->kind))
		log_inner_outdated(g);
	log_fill(g, l, s);
	row = testimony_say(g->t, s);
	g->n_said++;
	g->said = row ? (uint32_t)(row - g->t->sayings.v) : NO_ID;
	if (row && row->text == NO_ID) /* what was said before has its words */
		row->text = log_text(g, l->text, l->end);
	return row;
}

/* Was what the line said, once, nothing new? */
static enum log_took said_again(struct log *g)
{
	const struct saying *row = g->said != NO_ID ? &g->t->sayings.v[g->said] : NULL;

	if (g->n_said != 1 || !row || row->count == 1 || row->text == NO_ID)
		return LOG_TOOK;
	g->again = (struct log_again){ .saying = g->said, .counted = true };
	return LOG_AGAIN;
}

/* The line visited last is left: if it is plain, it is known from now on. */
static void line_leave(struct log *g)
{
	if (g->line_start && g->line_plain && g->line.start != g->scratch) {
		if (!g->n_said)
			log_alike_idle(g, &g->line);
		else if (said_again(g) == LOG_AGAIN)
			log_alike_again(g, &g->line);
	}
	g->line_start = NULL;
}

/* The anchors that stand at `at`, in turn. */
static bool line_visit(struct log *g, const char *start, const char *end, uint64_t number,
		       const char *at, uint16_t row)
{
	const struct log_words *w = g->words;
	struct log_line l;
	bool begun = false;

	for (; row; row = word_row_at(w, w->rows[row - 1].next, at)) {
		const struct log_anchor *a = w->rows[row - 1].anchor;
		const char *here = at;
		enum log_took took;

		if (!log_word_stands(at, a->word, w->rows[row - 1].len))
			continue;
		if (!begun && (size_t)(at - start) >= LOG_LINE_MAX)
			return false;
		if (!begun && g->line_start == start && g->line_end == end &&
		    g->scratch != g->line.start)
			l = g->line; /* an earlier word of it was nobody's */
		else if (!begun) {
			line_begin(g, &l, start, end, number, &here);
			g->n_said = 0;
		}
		at = begun ? at : here;
		begun = true;
		if (at >= l.end) /* in what was taken off as folded */
			return false;
		took = a->fn(g, &l, at, a);
		if (took == LOG_SAID)
			took = said_again(g);
		if (took == LOG_AGAIN && !l.told)
			log_alike_again(g, &l);
		if (took == LOG_AGAIN || took == LOG_TOOK) {
			g->line_start = NULL;
			return true;
		}
		l.told = l.told || took == LOG_GO_ON;
		g->line_plain = !l.told;
		g->line = l;
		g->line_start = start;
		g->line_end = end;
	}
	return false;
}

static bool log_waits(const struct log *g)
{
	return g->open || g->holds || log_inner_open(g) || log_stall_waits(g);
}

/* --- the pass over the text --- */

/* Few in 64 bytes, mostly none or one. */
static inline unsigned count_bits(uint64_t v)
{
	unsigned n = 0;

	for (; v; v &= v - 1)
		n++;
	return n;
}

/* Of the places where words start, those where an anchor may stand. */
static inline uint64_t known_words(const struct log_words *w, const char *p, uint64_t starts)
{
	uint64_t known = 0;

	for (; starts; starts &= starts - 1) {
		const char *at = p + __builtin_ctzll(starts);

		known |= word_may_stand(w, at) ? starts & -starts : 0;
	}
	return known;
}

/*
 * Whole lines from p to end, where a line's end stands or is taken to. Gives the place from which
 * to go on: end, or the end of a line behind which something is waited for.
 */
static const char *scan_text(struct log *g, const char *p, const char *end)
{
	const struct log_words *w = g->words;
	uint64_t letter = 0, digit = 0; /* of the byte before */
	const char *line = p;
	bool waited = log_waits(g); /* then p to end is one line */
	const char *eol = waited ? NULL : log_alike_run(g, p, end, &g->number);

	if (eol)
		p = line = eol;
	while (p < end) {
		struct masks m = masks_of(p);
		uint64_t letters = m.letter & ~(m.em & (m.digit << 1 | digit));
		uint64_t starts = letters & ~(letters << 1 | letter);
		uint64_t keep = end - p < 64 ? ((uint64_t)1 << (end - p)) - 1 : ~(uint64_t)0;

		letter = letters >> 63;
		digit = m.digit >> 63;
		starts = known_words(w, p, starts & keep);
		for (; starts; starts &= starts - 1) {
			uint64_t before = (starts & -starts) - 1;
			const char *at = p + __builtin_ctzll(starts), *start;
			uint16_t row = word_row_at(w, w->first[word_hash(word_key(at))], at);
			uint64_t number;

			if (!row)
				continue;
			start = m.end & before ? p + 64 - __builtin_clzll(m.end & before) : line;
			number = g->number + count_bits(m.lf & before);
			eol = line_end(at, end);
			if (g->line_start && g->line_start != start)
				line_leave(g);
			if (!waited && g->line_start != start &&
			    log_alike_take(g, start, eol, number)) {
				p = line = log_alike_behind(g, eol, end, &number);
				g->number = number;
				letter = digit = 0;
				goto again;
			}
			if (!line_visit(g, start, eol, number, at, row) &&
			    (waited || !log_waits(g)))
				continue;
			g->number = number;
			if (waited || log_waits(g))
				return eol;
			p = line = eol;
			letter = digit = 0;
			goto again;
		}
		g->number += count_bits(m.lf & keep);
		if (m.end & keep)
			line = p + 64 - __builtin_clzll(m.end & keep);
		if (m.end & keep && g->alike_wait) {
			g->alike_wait--;
		} else if (m.end & keep && !waited && g->line_start != line) {
			uint64_t number = g->number - (line[-1] == '\n');

			eol = log_alike_behind(g, line - 1, end, &number);
			if (eol >= line) {
				p = line = eol;
				g->number = number;
				letter = digit = 0;
				goto again;
			}
		}
		p += 64;
	again:;
	}
	return end;
}

static void take_line(struct log *g, const char *start, const char *end)
{
	g->line_start = NULL;
	scan_text(g, start, end);
}

/* A line while something is waited for: a traceback's next, or the rest of a text cut off. */
static bool line_continues(struct log *g, const char *start, const char *end)
{
	struct log_line l;
	const char *at = NULL;

	line_begin(g, &l, start, end, g->number, &at);
	if (log_inner_open(g) && log_inner_continues(g, &l))
		return true;
	if (g->holds && log_hold_continues(g, &l, take_line))
		return true;
	if (log_stall_waits(g) && log_stall_continues(g, &l))
		return true;
	return g->open && log_crash_continues(g, &l);
}

static void one_line(struct log *g, const char *start, const char *end)
{
	g->line_start = NULL;
	if (end > start && !(log_waits(g) && line_continues(g, start, end)))
		scan_text(g, start, end);
}

static void read_wrapped(struct log *g, const char *p, const char *end)
{
	for (const char *eol; p < end; p = eol + 1) {
		eol = line_end(p, end);
		log_wrap_line(g, p, eol, one_line);
		g->number += eol < end && *eol == '\n';
	}
}

static void read_lines(struct log *g, const char *p, const char *end)
{
	g->line_start = NULL; /* the bytes are others now */
	if (g->wrap_width) {
		read_wrapped(g, p, end);
		return;
	}
	while (p < end) {
		const char *eol;

		if (!log_waits(g)) {
			p = scan_text(g, p, end);
		} else {
			eol = line_end(p, end);
			one_line(g, p, eol);
			p = eol;
		}
		if (p < end && log_waits(g)) {
			g->number += *p == '\n';
			p++;
		}
	}
}

/* --- the window --- */

/* Behind the last whole line of buf[0..n); 0 if there is none. */
static size_t whole_lines(const char *buf, size_t n)
{
	const char *lf = memrchr(buf, '\n', n);
	size_t at = lf ? (size_t)(lf - buf) + 1 : 0;
	const char *cr = memrchr(buf + at, '\r', n - at);

	return cr ? (size_t)(cr - buf) + 1 : at;
}

/* Drops what belongs to a line that was cut; true while its end has not come. */
static bool drop_rest(struct log *g, char *buf, size_t *have)
{
	const char *eol = line_end(buf, buf + *have);
	size_t n = (size_t)(eol - buf);

	(void)g;
	memmove(buf, eol, *have - n);
	*have -= n;
	return *have == 0;
}

static bool ends_with(const char *path, const char *end)
{
	size_t n = strlen(path), m = strlen(end);

	return n >= m && !strcmp(path + n - m, end);
}

/* Prose or a program by its name, unless it begins as a log does: its words are about jobs. */
static bool is_document(const char *path, const char *text, size_t len)
{
	static const char *const names[] = { ".md", ".rst", ".py", ".html", ".tex", ".ipynb" };
	struct scan s = scan_of(text, text + len);

	while (s.p < s.end && (*s.p == ' ' || *s.p == '\n' || *s.p == '\r'))
		s.p++;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (ends_with(path, names[i]))
			return s.p < s.end && !is_digit(*s.p);
	return false;
}

static int read_window(struct log *g, struct input *in, const char *path, char *buf,
		       struct error *reterr)
{
	size_t have = 0;
	bool cut = false;
	ssize_t n;

	while ((n = input_read(in, buf + have, LOG_WINDOW - have)) > 0) {
		size_t whole;

		if (!have && g->number == 1 && !g->joined) {
			g->joined = xmalloc(LOG_LINE_MAX + LOG_PAD);
			g->wrap_width = log_wrap_width(buf, (size_t)n);
			if (is_document(path, buf, (size_t)n))
				return 0;
		}
		have += (size_t)n;
		if (cut && (cut = drop_rest(g, buf, &have)))
			continue;
		whole = whole_lines(buf, have);
		if (!whole && have < LOG_WINDOW)
			continue;
		if (!whole) { /* a line without an end: its beginning is taken */
			memset(buf + LOG_WINDOW, '\n', LOG_PAD);
			read_lines(g, buf, buf + LOG_LINE_MAX);
			g->stats->skipped[SKIP_TOO_LONG]++;
			cut = true;
			have = 0;
			continue;
		}
		memset(buf + have, '\n', LOG_PAD);
		log_alike_more(g, whole);
		read_lines(g, buf, buf + whole);
		memmove(buf, buf + whole, have - whole);
		have -= whole;
	}
	if (n < 0)
		return error_set(reterr, (int)n, "%s", strerror((int)-n));
	memset(buf + have, '\n', LOG_PAD);
	read_lines(g, buf, buf + have);
	log_wrap_flush(g, one_line);
	log_hold_done(g, take_line);
	g->t->lines = g->number - (have == 0);
	g->t->broken_off = have > 0;
	return 0;
}

/* --- the file --- */

/* JSON as a whole, an array or an object on one line or many; lines of JSON may be a log. */
static bool is_json(const char *text, size_t len)
{
	struct scan s = scan_of(text, text + len);
	const char *eol;

	while (s.p < s.end && (*s.p == ' ' || *s.p == '\n' || *s.p == '\r'))
		s.p++;
	if (scan_at(&s, "[{") || scan_at(&s, "[]") || scan_at(&s, "{}"))
		return true;
	eol = memchr(s.p, '\n', scan_left(&s));
	if (scan_eat(&s, "{\"")) /* is there a second line of its kind? */
		return !eol || s.end - eol < 3 || memcmp(eol, "\n{\"", 3);
	if (!scan_eat(&s, "{") && !scan_eat(&s, "["))
		return false;
	scan_blanks(&s);
	scan_eat(&s, "\r");
	return s.p == s.end || *s.p == '\n';
}

bool log_sniff(const char *text, size_t len, const char *path)
{
	static const char *const binary[] = { "\177ELF",    "%PDF",	"\211PNG",
					      "PK\003\004", "\200\002", "SQLite format 3" };
	size_t odd = 0, nul = 0;

	(void)path;
	for (size_t i = 0; i < ARRAY_SIZE(binary); i++)
		if (len >= strlen(binary[i]) && !memcmp(text, binary[i], strlen(binary[i])))
			return false;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		nul += c == 0;
		odd += c < ' ' && c && c != '\n' && c != '\r' && c != '\t' && c != '\033' &&
		       c != '\b' && c != '\f';
	}
	return len && odd * 50 < len && nul * 2 < len && !is_json(text, len);
}

static void log_close(struct log *g)
{
	log_crash_done(g);
	log_c10d_done(g);
	log_stall_done(g);
	log_nccl_done(g);
	log_train_done(g);
	for (size_t i = 0; i < g->t->sayings.n && g->year >= 0; i++) {
		struct saying *s = &g->t->sayings.v[i];

		s->time_ns = log_in_year(s->time_ns, g->year);
		s->last_ns = log_in_year(s->last_ns, g->year);
	}
	free(g->timeouts);
	free(g->partial);
	free(g->joined);
	free(g->scratch);
	free(g->words);
	log_alike_free(g->alike);
}

static int read_log(struct input *in, const char *path, bool each, struct testimony **ret,
		    struct read_stats *stats, struct error *reterr)
{
	struct log *g = xcalloc(1, sizeof(*g));
	/* In front of the window stand line ends as well. */
	_cleanup_free_ char *buf = xmalloc(LOG_PAD + LOG_WINDOW + LOG_PAD);
	int r;

	memset(buf, '\n', LOG_PAD);
	g->t = testimony_new(WITNESS_LOG, "log");
	g->stats = stats;
	g->words = log_words_new();
	g->scratch = xmalloc(LOG_LINE_MAX + LOG_PAD);
	g->number = 1;
	g->each = each;
	g->year = g->day_key = g->step = g->labels[0] = g->labels[1] = -1;
	g->desync.rank = -1;
	g->bar_total = -1;
	g->thrown = NO_ID;
	log_train_begin(g);
	r = read_window(g, in, path, buf + LOG_PAD, reterr);
	log_close(g);
	log_rank_of_file(g, path);
	log_inner_done(g);
	if (r < 0)
		testimony_free(g->t);
	else
		*ret = g->t;
	free(g);
	return r;
}

int log_read(struct input *in, const char *path, struct testimony **ret, struct read_stats *stats,
	     struct error *reterr)
{
	return read_log(in, path, false, ret, stats, reterr);
}

int log_read_each(struct input *in, const char *path, struct testimony **ret,
		  struct read_stats *stats, struct error *reterr)
{
	return read_log(in, path, true, ret, stats, reterr);
}
