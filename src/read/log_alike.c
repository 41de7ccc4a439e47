/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_alike.c - lines that differ from known ones in their digits only.
 *
 * A log of gigabytes is a few hundred kinds of lines. A line of the same length and shape
 * (line_shapes.h) holds the same words, so that nothing can be overlooked in it. Of three kinds of
 * lines the shape is kept: those that hold nobody's word, which are passed over; those of progress,
 * whose numbers are read where they must be (log_shape.c); and those that say again what was said,
 * as watchdogs do, or nothing in spite of their words, where every digit counts but those of
 * stamps.
 *
 * Invariant: what is known changes how fast a log is read, never what is read.
 */
#include "read/line_shapes.h"
#include "read/log_bytes.h"
#include "read/log_words.h"

#define SAID		 8192u /* must be a power of two */
#define SAID_ROOM	 ((size_t)2 << 20)
#define WORDS_MAX_AGAIN	 128u /* eights of bytes that hold digits */
#define CREDIT_MAX	 256  /* lines that may be learnt to say nothing */
#define CREDIT_FIRST	 64
#define CREDIT_OF_WINDOW 4
#define CREDIT_WINDOW	 ((size_t)64 << 10)
#define WAIT_MAX	 63u /* lines that are not looked up after several were not known */

enum shape_kind { SHAPE_NOTHING, SHAPE_PROGRESS, SHAPE_AGAIN };

struct again_shape {
	uint32_t id;
	uint16_t n_stamps, n_words;
	struct again_stamp {
		uint16_t at, len, level;
	} stamps[LOG_STAMPS_MAX];
	struct log_place ran;
	struct again_word {    /* where the digits stand that count .. */
		uint64_t mask; /* .. and which of eight bytes they are */
		uint64_t at;
	} words[];
};

#define AGAIN_BYTES(n) (sizeof(struct again_shape) + (n) * sizeof(struct again_word))

/* A line as it was said: its shape, the digits that count in it, and of which saying it is. */
struct said {
	uint32_t shape; /* id; 0: free */
	uint32_t saying;
	uint32_t digits; /* where they stand in room */
	bool counted;
};

struct log_alike {
	struct line_shapes *shapes;
	struct said *said; /* SAID of them once there is one */
	uint64_t *room;	   /* of SAID_ROOM bytes */
	uint32_t n_said, n_room;
	uint32_t ids;
	int credit;
	unsigned waits; /* lines that were not looked up after the last that was not known */
};

static struct log_alike *alike_of(struct log *g)
{
	if (!g->alike) {
		g->alike = xcalloc(1, sizeof(*g->alike));
		g->alike->shapes = line_shapes_new();
		g->alike->credit = CREDIT_FIRST;
	}
	return g->alike;
}

struct log_alike *log_alike_free(struct log_alike *a)
{
	if (a) {
		line_shapes_free(a->shapes);
		free(a->said);
		free(a->room);
	}
	free(a);
	return NULL;
}

void log_alike_more(struct log *g, size_t bytes)
{
	struct log_alike *a;

	g->alike_bytes += bytes;
	if (g->alike_bytes < CREDIT_WINDOW || g->each)
		return;
	a = alike_of(g);
	a->credit += CREDIT_OF_WINDOW * (int)(g->alike_bytes / CREDIT_WINDOW);
	a->credit = MIN(a->credit, CREDIT_MAX);
	g->alike_bytes %= CREDIT_WINDOW;
}

/* --- shapes --- */

static bool fits(size_t len)
{
	return len && len <= SHAPE_LEN_MAX;
}

static struct line_shape *shape_begin(struct log *g, const char *line, size_t len,
				      enum shape_kind kind, size_t bytes)
{
	struct log_alike *a = alike_of(g);
	struct line_shape *s;

	log_progress_settle(g); /* by the shape that may be gone */
	s = line_shapes_add(a->shapes, line, len, bytes);
	s->kind = (uint8_t)kind;
	return s;
}

void log_alike_progress(struct log *g, const struct log_line *l, const struct progress_found *f)
{
	size_t len = (size_t)(l->eol - l->start);
	struct log_progress_shape p;

	if (g->each || l->told || !fits(len) || !log_progress_shape(g, l, f, &p))
		return;
	memcpy(shape_begin(g, l->start, len, SHAPE_PROGRESS, sizeof(p))->kept, &p, sizeof(p));
}

/* --- lines without a word --- */

static struct line_shape *learn_nothing(struct log *g, const char *line, size_t len)
{
	if (g->alike->credit <= 0)
		return NULL;
	g->alike->credit--;
	if (memchr(line, '\033', len) || !log_holds_no_word(g, line, line + len))
		return NULL;
	return shape_begin(g, line, len, SHAPE_NOTHING, 0);
}

/* --- lines that say it again --- */

/* The digits that count, eight bytes at a time; false: there are too many. */
static bool again_words(struct again_shape *s, const char *line, size_t len)
{
	char counts[SHAPE_LEN_MAX + 8];

	for (size_t i = 0; i < len; i++)
		counts[i] = is_digit(line[i]) ? (char)0xff : 0;
	memset(counts + len, 0, 8);
	for (unsigned i = 0; i < s->n_stamps; i++)
		memset(counts + s->stamps[i].at, 0, s->stamps[i].len);
	memset(counts + s->ran.at, 0, s->ran.len);
	for (size_t i = 0; i < len; i += 8) {
		uint64_t mask;

		memcpy(&mask, counts + i, sizeof(mask));
		if (!mask)
			continue;
		if (s->n_words == WORDS_MAX_AGAIN)
			return false;
		s->words[s->n_words++] = (struct again_word){ .mask = mask, .at = i };
	}
	return true;
}

/* Where stamps and digits stand; false: it is not told by these alone. */
static bool again_shape_of(struct log *g, const struct log_line *l, struct again_shape *ret)
{
	int64_t ns = -1;

	*ret = (struct again_shape){ 0 };
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
	return ns == l->time_ns && again_words(ret, l->start, (size_t)(l->eol - l->start));
}

static bool same_places(const struct again_shape *a, const struct again_shape *b)
{
	return a->n_stamps == b->n_stamps && a->n_words == b->n_words && a->ran.at == b->ran.at &&
	       !memcmp(a->stamps, b->stamps, sizeof(a->stamps)) &&
	       !memcmp(a->words, b->words, a->n_words * sizeof(*a->words));
}

/* The line's digits, and their hash. */
static uint32_t said_digits(const struct again_shape *s, const char *line, uint64_t *ret)
{
	uint64_t h = s->id;

	for (unsigned i = 0; i < s->n_words; i++) {
		memcpy(&ret[i], line + s->words[i].at, sizeof(*ret));
		ret[i] &= s->words[i].mask;
		h = (h ^ ret[i]) * 0x9fb21c651e98df25u;
		h ^= h >> 29;
	}
	return (uint32_t)(h >> 16);
}

/* Where such a line is kept, or the free place for it. */
static struct said *said_slot(const struct log_alike *a, const struct again_shape *s,
			      const uint64_t *digits, uint32_t hash)
{
	for (uint32_t at = hash & (SAID - 1);; at = (at + 1) & (SAID - 1)) {
		struct said *said = &a->said[at];

		if (!said->shape || (said->shape == s->id && !memcmp(a->room + said->digits, digits,
								     s->n_words * sizeof(*digits))))
			return said;
	}
}

/* Room for another; all is forgotten where there is none. */
static void said_room(struct log_alike *a)
{
	if (!a->said) {
		a->said = xcalloc(SAID, sizeof(*a->said));
		a->room = xmalloc(SAID_ROOM);
	}
	if (a->n_said < SAID / 2 && a->n_room + WORDS_MAX_AGAIN <= SAID_ROOM / sizeof(*a->room))
		return;
	memset(a->said, 0, SAID * sizeof(*a->said));
	a->n_said = a->n_room = 0;
}

void log_alike_again(struct log *g, const struct log_line *l)
{
	size_t len = (size_t)(l->eol - l->start);
	_Alignas(struct again_shape) char room[AGAIN_BYTES(WORDS_MAX_AGAIN)];
	struct again_shape *here = (struct again_shape *)(void *)room;
	uint64_t digits[WORDS_MAX_AGAIN];
	const struct again_shape *shape;
	struct log_alike *a;
	struct line_shape *s;
	struct said *said;
	uint32_t hash;

	if (g->each || !fits(len) || !again_shape_of(g, l, here))
		return;
	a = alike_of(g);
	s = line_shapes_find(a->shapes, l->start, len);
	if (!s || s->kind != SHAPE_AGAIN || !same_places(s->kept, here)) {
		size_t bytes = AGAIN_BYTES(here->n_words);

		s = shape_begin(g, l->start, len, SHAPE_AGAIN, bytes);
		here->id = ++a->ids;
		memcpy(s->kept, here, bytes);
	}
	shape = s->kept;
	said_room(a);
	hash = said_digits(shape, l->start, digits);
	said = said_slot(a, shape, digits, hash);
	if (!said->shape) {
		a->n_said++;
		said->shape = shape->id;
		said->digits = a->n_room;
		memcpy(a->room + a->n_room, digits, shape->n_words * sizeof(*digits));
		a->n_room += shape->n_words;
	}
	said->saying = g->again.saying;
	said->counted = g->again.counted;
}

void log_alike_idle(struct log *g, const struct log_line *l)
{
	if (!g->alike || g->alike->credit <= 0)
		return;
	g->alike->credit--;
	g->again = (struct log_again){ .saying = NO_ID };
	log_alike_again(g, l);
}

static bool again_take(struct log *g, const struct again_shape *s, const char *line,
		       uint64_t number)
{
	uint64_t digits[WORDS_MAX_AGAIN];
	uint32_t hash = said_digits(s, line, digits);
	const struct said *said = said_slot(g->alike, s, digits, hash);
	int64_t ns = -1;
	struct saying *row;

	if (!said->shape)
		return false;
	for (unsigned i = 0; i < s->n_stamps; i++) {
		const char *p = line + s->stamps[i].at;

		if (!log_stamp_again(g, p, p + s->stamps[i].len, s->stamps[i].level, &ns))
			return false;
	}
	if (said->saying == NO_ID) {
		g->alike->credit = MIN(g->alike->credit + 1, CREDIT_MAX);
		return true;
	}
	row = &g->t->sayings.v[said->saying];
	row->count++;
	row->last_line = number;
	if (said->counted) {
		g->stats->events++;
		if (g->inner && log_goes_on(row->kind))
			log_inner_outdated(g);
		row->steps_at = MAX(row->steps_at, g->t->steps);
		row->last_ns = ns != -1 ? ns : row->last_ns;
	}
	return true;
}

/* --- taking --- */

static bool shape_take(struct log *g, struct line_shape *s, const char *line, uint64_t number)
{
	switch ((enum shape_kind)s->kind) {
	case SHAPE_PROGRESS:
		return log_progress_take(g, s->kept, line, number);
	case SHAPE_AGAIN:
		return again_take(g, s->kept, line, number);
	case SHAPE_NOTHING:
		break;
	}
	g->alike->credit += !s->met_again; /* it was worth learning */
	s->met_again = true;
	return true;
}

bool log_alike_take(struct log *g, const char *start, const char *end, uint64_t number)
{
	size_t len = (size_t)(end - start);
	struct line_shape *s;

	if (!g->alike || !fits(len))
		return false;
	s = line_shapes_find(g->alike->shapes, start, len);
	if (!s || !shape_take(g, s, start, number))
		return false;
	line_shapes_note(g->alike->shapes, s);
	log_progress_settle(g);
	return true;
}

/* The end of the line at start if it is known, or is so from now on; else NULL. */
static const char *take_next(struct log *g, const char *start, const char *end, uint64_t number)
{
	struct line_shapes *shapes = g->alike->shapes;
	struct line_shape *s = line_shapes_next(shapes, start, end), *learnt = NULL;

	if (!s) {
		const char *eol = line_end(start, end);
		size_t len = (size_t)(eol - start);

		if (eol == end)
			return NULL;
		if (!len)
			return eol;
		if (!fits(len))
			return NULL;
		s = line_shapes_find(shapes, start, len);
		learnt = s ? NULL : learn_nothing(g, start, len);
		s = s ? s : learnt;
	}
	if (!s || (!learnt && !shape_take(g, s, start, number)))
		return NULL;
	line_shapes_note(shapes, s);
	return start + s->len;
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
