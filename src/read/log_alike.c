/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_alike.c - lines that differ from known ones in their digits only.
 *
 * A log of gigabytes is a few hundred kinds of lines. The shape of a line is its bytes with every
 * digit made a 0; a line of the same length and shape holds the same words, so that nothing can be
 * overlooked in it. Of three kinds of lines the shape is kept: those that hold nobody's word, which
 * are passed over; those of progress, whose numbers are read where they must be (log_shape.c); and
 * those that say again what was said, as watchdogs do, where every digit counts but those of
 * stamps.
 *
 * Invariant: what is known changes how fast a log is read, never what is read.
 */
#include "read/log_bytes.h"
#include "read/log_words.h"

#define SHAPES		 256u /* by hash of shape; must be a power of two, as the next */
#define SAID		 8192u
#define SHAPE_MIN	 16u
#define SHAPE_MAX	 1024u
#define WORDS_MAX_AGAIN	 24u /* eights of bytes that hold digits */
#define CREDIT_MAX	 256 /* lines that may be learnt to hold no word */
#define CREDIT_FIRST	 64
#define CREDIT_OF_WINDOW 4
#define CREDIT_WINDOW	 ((size_t)64 << 10)
#define TAKEN_TWICE	 2u
#define WAIT_MAX	 63u /* lines that are not looked up after several were not known */

enum shape_kind { SHAPE_NOTHING, SHAPE_PROGRESS, SHAPE_AGAIN };

struct again_shape {
	uint32_t id;
	uint8_t n_stamps, n_words;
	struct again_stamp {
		uint16_t at, len, level;
	} stamps[LOG_STAMPS_MAX];
	struct log_place ran;
	uint16_t word[WORDS_MAX_AGAIN]; /* where the digits stand that count .. */
	uint64_t mask[WORDS_MAX_AGAIN]; /* .. and which of eight bytes they are */
};

struct shape {
	uint16_t len;  /* 0: free */
	uint16_t next; /* that of the line behind it, last time */
	uint8_t kind;
	uint8_t taken; /* how often, up to TAKEN_TWICE: the first is the line itself */
	union {
		struct log_progress_shape progress;
		struct again_shape again;
	};
	char text[SHAPE_MAX], most[SHAPE_MAX]; /* as same_shape wants them */
};

/* A line as it was said: its shape, the digits that count in it, and of which saying it is. */
struct said {
	uint32_t shape; /* id; 0: free */
	uint32_t saying;
	bool counted;
	uint64_t digits[WORDS_MAX_AGAIN];
};

struct log_alike {
	struct shape v[SHAPES];
	struct said *said; /* SAID of them once there is one */
	unsigned last;	   /* of v */
	uint32_t ids;
	int credit;
	unsigned waits; /* lines that were not looked up after the last that was not known */
};

struct log_alike *log_alike_free(struct log_alike *a)
{
	if (a)
		free(a->said);
	free(a);
	return NULL;
}

void log_alike_more(struct log *g, size_t bytes)
{
	g->alike_bytes += bytes;
	if (g->alike_bytes < CREDIT_WINDOW)
		return;
	if (!g->alike) {
		g->alike = xcalloc(1, sizeof(*g->alike));
		g->alike->credit = CREDIT_FIRST;
	}
	g->alike->credit += CREDIT_OF_WINDOW * (int)(g->alike_bytes / CREDIT_WINDOW);
	g->alike->credit = MIN(g->alike->credit, CREDIT_MAX);
	g->alike_bytes %= CREDIT_WINDOW;
}

/* --- shapes --- */

/* By its length, beginning, middle and end. */
static struct shape *shape_slot(struct log_alike *a, const char *line, size_t len)
{
	uint64_t w[6], h = len * 0x9e3779b97f4a7c15u;

	shape16(line, w);
	shape16(line + len / 2 - 8, w + 2);
	shape16(line + len - 16, w + 4);
	h ^= w[0] * 0xff51afd7ed558ccdu + w[1] * 0xc4ceb9fe1a85ec53u + w[2] * 0x9fb21c651e98df25u;
	h ^= w[3] * 0xd6e8feb86659fd93u + w[4] * 0xa0761d6478bd642fu + w[5] * 0xe7037ed1a0b428dbu;
	h ^= h >> 32;
	return &a->v[h * 0x9e3779b97f4a7c15u >> 56 & (SHAPES - 1)];
}

static bool is_shape(const struct shape *s, const char *line, size_t len)
{
	return s->len == len && same_shape(line, s->text, s->most, len);
}

/* The line's slot, which is its own from now on, of nothing that was there; NULL: none has room. */
static struct shape *shape_begin(struct log *g, const char *line, size_t len, enum shape_kind kind)
{
	struct shape *s;

	if (len < SHAPE_MIN || len > SHAPE_MAX)
		return NULL;
	if (!g->alike)
		g->alike = xcalloc(1, sizeof(*g->alike));
	log_progress_settle(g); /* by the shape that may stand there */
	s = shape_slot(g->alike, line, len);
	s->len = (uint16_t)len;
	s->kind = (uint8_t)kind;
	s->taken = 0;
	for (size_t i = 0; i < len; i++) {
		s->text[i] = is_digit(line[i]) ? '0' : line[i];
		s->most[i] = is_digit(line[i]) ? 9 : 0;
	}
	return s;
}

void log_alike_progress(struct log *g, const struct log_line *l, const struct progress_found *f)
{
	struct log_progress_shape p;
	struct shape *s;

	if ((size_t)(l->eol - l->start) > SHAPE_MAX || !log_progress_shape(g, l, f, &p))
		return;
	s = shape_begin(g, l->start, (size_t)(l->eol - l->start), SHAPE_PROGRESS);
	if (s)
		s->progress = p;
}

/* --- lines without a word --- */

static bool learn_nothing(struct log *g, const char *line, size_t len)
{
	if (g->alike->credit <= 0)
		return false;
	g->alike->credit--;
	return !memchr(line, '\033', len) && log_holds_no_word(g, line, line + len) &&
	       shape_begin(g, line, len, SHAPE_NOTHING);
}

/* --- lines that say it again --- */

/* The digits that count, eight bytes at a time. */
static void again_words(struct again_shape *s, const char *line, size_t len)
{
	char counts[SHAPE_MAX];

	for (size_t i = 0; i < len; i++)
		counts[i] = is_digit(line[i]) ? (char)0xff : 0;
	for (unsigned i = 0; i < s->n_stamps; i++)
		memset(counts + s->stamps[i].at, 0, s->stamps[i].len);
	memset(counts + s->ran.at, 0, s->ran.len);
	for (size_t i = 0; i < len && s->n_words <= WORDS_MAX_AGAIN; i += 8) {
		size_t at = MIN(i, len - 8);
		uint64_t mask;

		memcpy(&mask, counts + at, sizeof(mask));
		if (!mask)
			continue;
		if (s->n_words < WORDS_MAX_AGAIN) {
			s->word[s->n_words] = (uint16_t)at;
			s->mask[s->n_words] = mask;
		}
		s->n_words++;
	}
}

/* Where stamps and digits stand; false: it is not told by these alone. */
static bool again_shape_of(struct log *g, const struct log_line *l, struct again_shape *ret)
{
	int64_t ns = -1;

	memset(ret, 0, sizeof(*ret));
	if (l->start == g->scratch || l->folded || g->n_stamps > LOG_STAMPS_MAX)
		return false;
	for (unsigned i = 0; i < g->n_stamps; i++) {
		const struct log_stamp_at *t = &g->stamps[i];

		if (t->p < l->start || t->end > l->end ||
		    !log_stamp_again(g, t->p, t->end, t->level, &ns))
			return false;
		ret->stamps[ret->n_stamps++] =
		    (struct again_stamp){ (uint16_t)(t->p - l->start), (uint16_t)(t->end - t->p),
					  t->level };
	}
	if (g->again.ran.p)
		ret->ran = (struct log_place){ .at = (uint16_t)(g->again.ran.p - l->start),
					       .len = (uint16_t)scan_left(&g->again.ran) };
	again_words(ret, l->start, (size_t)(l->eol - l->start));
	return ns == l->time_ns && ret->n_words <= WORDS_MAX_AGAIN;
}

static bool same_places(const struct again_shape *a, const struct again_shape *b)
{
	return a->n_stamps == b->n_stamps && a->n_words == b->n_words && a->ran.at == b->ran.at &&
	       !memcmp(a->stamps, b->stamps, sizeof(a->stamps)) &&
	       !memcmp(a->mask, b->mask, sizeof(a->mask)) &&
	       !memcmp(a->word, b->word, sizeof(a->word));
}

/* Where such a line is kept; its digits go to ret. */
static struct said *said_slot(const struct log_alike *a, const struct again_shape *s,
			      const char *line, uint64_t *ret)
{
	uint64_t h = s->id;

	for (unsigned i = 0; i < s->n_words; i++) {
		memcpy(&ret[i], line + s->word[i], sizeof(*ret));
		ret[i] &= s->mask[i];
		h = (h ^ ret[i]) * 0x9fb21c651e98df25u;
		h ^= h >> 29;
	}
	return &a->said[h >> 16 & (SAID - 1)];
}

void log_alike_again(struct log *g, const struct log_line *l)
{
	size_t len = (size_t)(l->eol - l->start);
	struct log_alike *a = g->alike;
	struct again_shape shape;
	struct said *said;
	struct shape *s;

	if (len > SHAPE_MAX || len < SHAPE_MIN || !again_shape_of(g, l, &shape))
		return;
	s = a ? shape_slot(a, l->start, len) : NULL;
	if (!s || s->kind != SHAPE_AGAIN || !is_shape(s, l->start, len) ||
	    !same_places(&s->again, &shape)) {
		s = shape_begin(g, l->start, len, SHAPE_AGAIN);
		a = g->alike;
		shape.id = ++a->ids;
		s->again = shape;
	}
	if (!a->said)
		a->said = xcalloc(SAID, sizeof(*a->said));
	said = said_slot(a, &s->again, l->start, shape.mask);
	said->shape = s->again.id;
	said->saying = g->again.saying;
	said->counted = g->again.counted;
	memcpy(said->digits, shape.mask, s->again.n_words * sizeof(*said->digits));
}

static bool again_take(struct log *g, const struct again_shape *s, const char *line,
		       uint64_t number)
{
	uint64_t digits[WORDS_MAX_AGAIN];
	const struct said *said = said_slot(g->alike, s, line, digits);
	int64_t ns = -1;
	struct saying *row;

	if (said->shape != s->id || memcmp(said->digits, digits, s->n_words * sizeof(*digits)))
		return false;
	for (unsigned i = 0; i < s->n_stamps; i++) {
		const char *p = line + s->stamps[i].at;

		if (!log_stamp_again(g, p, p + s->stamps[i].len, s->stamps[i].level, &ns))
			return false;
	}
	row = &g->t->sayings.v[said->saying];
	row->count++;
	row->last_line = number;
	if (said->counted) {
		g->stats->events++;
		row->steps_at = MAX(row->steps_at, g->t->steps);
		row->last_ns = ns != -1 ? ns : row->last_ns;
	}
	return true;
}

/* --- taking --- */

static bool shape_take(struct log *g, struct shape *s, const char *line, uint64_t number)
{
	bool took = s->kind == SHAPE_NOTHING ||
		    (s->kind == SHAPE_PROGRESS ? log_progress_take(g, &s->progress, line, number)
					       : again_take(g, &s->again, line, number));

	if (s->taken < TAKEN_TWICE && ++s->taken == TAKEN_TWICE && s->kind == SHAPE_NOTHING)
		g->alike->credit++; /* it was worth learning */
	return took;
}

bool log_alike_take(struct log *g, const char *start, const char *end, uint64_t number)
{
	size_t len = (size_t)(end - start);
	struct shape *s;

	if (!g->alike || len < SHAPE_MIN || len > SHAPE_MAX)
		return false;
	s = shape_slot(g->alike, start, len);
	if (!is_shape(s, start, len) || !shape_take(g, s, start, number))
		return false;
	log_progress_settle(g);
	return true;
}

/* The end of the line at start if it is known, or is so from now on; else NULL. */
static const char *take_next(struct log *g, const char *start, const char *end, uint64_t number)
{
	struct log_alike *a = g->alike;
	struct shape *s = &a->v[a->v[a->last].next];
	size_t len = s->len;

	if (!len || (size_t)(end - start) <= len || !is_line_end(start[len]) ||
	    !same_shape(start, s->text, s->most, len)) {
		const char *eol = line_end(start, end);

		len = (size_t)(eol - start);
		if (eol == end)
			return NULL;
		if (!len)
			return eol;
		if (len < SHAPE_MIN || len > SHAPE_MAX)
			return NULL;
		s = shape_slot(a, start, len);
		if (!is_shape(s, start, len) && !learn_nothing(g, start, len))
			return NULL;
	}
	if (!shape_take(g, s, start, number))
		return NULL;
	a->v[a->last].next = (uint16_t)(s - a->v);
	a->last = (unsigned)(s - a->v);
	return start + len;
}

const char *log_alike_behind(struct log *g, const char *eol, const char *end, uint64_t *number)
{
	struct log_alike *a = g->alike;
	const char *from = eol;

	if (!a)
		return eol;
	while (eol + 1 < end && is_line_end(*eol)) {
		bool two = *eol == '\r' && eol[1] == '\n';
		uint64_t n = *number + (two || *eol == '\n');
		const char *next = take_next(g, eol + 1 + two, end, n);

		if (!next)
			break;
		*number = n;
		eol = next;
	}
	log_progress_settle(g);
	a->waits = eol > from ? 0 : MIN(2 * a->waits + 1, WAIT_MAX);
	g->alike_wait = a->waits;
	return eol;
}

const char *log_alike_run(struct log *g, const char *p, const char *end, uint64_t *number)
{
	const char *eol = g->alike ? take_next(g, p, end, *number) : NULL;

	if (!eol)
		return NULL;
	log_progress_settle(g);
	return log_alike_behind(g, eol, end, number);
}
