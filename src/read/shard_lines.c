/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shard_lines.c - records of JSONL and text: lines that have more than white space.
 *
 * A plain file is cut into chunks, one a worker at a time. A line belongs to the chunk in which it
 * begins: whoever has that chunk reads on to the line's end, so the sum is the same however the
 * file is cut. What is compressed, or of wide letters, goes by as one stream.
 */
#include "read/shard_inside.h"

#include <fcntl.h>
#include <stdio.h>

#include "base/pool.h"
#include "read/json_member.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define LINE_BYTES_MOST ((size_t)16 << 20) /* of a line in which a length is looked for */
#define VALUE_MOST	((size_t)16 << 20) /* of a record in a JSON array */

/* --- how many lines --- */

/* Is the line that ends at p[i] blank? filled: of its part in front of p. */
static bool is_blank(const uint8_t *p, size_t i, bool filled)
{
	while (i-- > 0) {
		if (p[i] == '\n')
			return true;
		if (p[i] > ' ')
			return false;
	}
	return !filled;
}

static void tally_byte(struct line_tally *t, uint8_t c)
{
	if (c == '\n') {
		t->lines++;
		t->blank += !t->filled;
		t->filled = t->open = false;
	} else {
		t->open = true;
		t->filled |= c > ' ';
	}
}

#ifdef __SSE2__
/* Blocks of 16 from p[1] on: the vector of newlines is subtracted (each is -1), and only where one
   follows white space is the line looked at. Returns where it stopped. */
static size_t tally_blocks(struct line_tally *t, const uint8_t *p, size_t len, bool filled)
{
	const __m128i nl = _mm_set1_epi8('\n'), space = _mm_set1_epi8(' ');
	const __m128i zero = _mm_setzero_si128();
	size_t i = 1;

	while (i + 64 <= len) {
		__m128i sum = zero, total;
		size_t end = MIN(len - 63, i + 64 * 63); /* a byte counts up to 4 * 63 */

		for (; i < end; i += 64) {
			__m128i odd = zero;

			for (unsigned k = 0; k < 64; k += 16) {
				const uint8_t *q = p + i + k;
				__m128i v = _mm_loadu_si128((const __m128i *)(const void *)q);
				__m128i w = _mm_loadu_si128((const __m128i *)(const void *)(q - 1));
				__m128i is = _mm_cmpeq_epi8(v, nl);
				__m128i white = _mm_cmpeq_epi8(_mm_max_epu8(w, space), space);

				sum = _mm_sub_epi8(sum, is);
				odd = _mm_or_si128(odd, _mm_and_si128(is, white));
			}
			if (!_mm_movemask_epi8(odd))
				continue;
			for (size_t k = i; k < i + 64; k++)
				if (p[k] == '\n' && p[k - 1] <= ' ')
					t->blank += is_blank(p, k, filled);
		}
		total = _mm_sad_epu8(sum, zero);
		t->lines += (uint64_t)_mm_cvtsi128_si64(total) +
			    (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(total, total));
	}
	return i;
}
#endif

void line_tally_add(struct line_tally *t, const uint8_t *p, size_t len)
{
	size_t i = 0;

	if (!len)
		return;
#ifdef __SSE2__
	bool filled = t->filled;

	tally_byte(t, p[0]);
	i = len > 64 ? tally_blocks(t, p, len, filled) : 1;
	if (i > 1) { /* the state behind the blocks */
		t->filled = !is_blank(p, i, filled);
		t->open = p[i - 1] != '\n';
	}
#endif
	for (; i < len; i++)
		tally_byte(t, p[i]);
}

/* --- a chunk of the file --- */

struct chunk {
	struct line_tally t;
	int64_t tokens;
	uint64_t without; /* records without the field, or longer than what is looked at */
	int error;
};

struct chunks {
	const struct shard_file *f;
	struct chunk *v;
	size_t n;
	uint64_t size; /* of one */
};

/* Where the first line that begins at `from` or behind it begins; `to` if none does before. */
static int64_t line_start(const struct shard_file *f, uint8_t *buf, uint64_t from, uint64_t to)
{
	if (!from) /* behind UTF-8's mark */
		return f->wide.mark;
	for (uint64_t at = from - 1; at < to;) {
		ssize_t n = shard_pread(f, buf, MIN(SHARD_BUFFER_BYTES, to - at), at);
		const uint8_t *nl = n > 0 ? memchr(buf, '\n', (size_t)n) : NULL;

		if (n < 0)
			return n;
		if (nl)
			return (int64_t)(at + (uint64_t)(nl - buf) + 1);
		if (!n)
			break;
		at += (uint64_t)n;
	}
	return (int64_t)to;
}

static void count_end(struct line_tally *t)
{
	if (t->open)
		tally_byte(t, '\n');
}

/* Whole lines from `at` on, to the end of the one that holds byte end - 1. */
static int count_span(const struct shard_file *f, uint8_t *buf, uint64_t at, uint64_t end,
		      struct line_tally *t)
{
	while (at < end || t->open) {
		size_t want =
		    at < end ? (size_t)MIN(SHARD_BUFFER_BYTES, end - at) : SHARD_BUFFER_BYTES;
		ssize_t n = shard_pread(f, buf, want, at);
		size_t take = (size_t)MAX(n, 0);

		if (n < 0)
			return (int)n;
		if (!n)
			break;
		shard_progress(f, take);
		if (at >= end) { /* the line that goes on */
			const uint8_t *nl = memchr(buf, '\n', take);

			take = nl ? (size_t)(nl - buf) + 1 : take;
		}
		line_tally_add(t, buf, take);
		at += (uint64_t)n;
	}
	count_end(t);
	return 0;
}

/* How many elements an array has, or the number itself; -1: neither. */
static int64_t length_of(const struct json_member *m)
{
	const char *p = m->value, *end = m->end;
	struct json_member e;
	int64_t n = 0;

	if (*p != '[')
		return json_number(&p, end, 0, &n) == JSON_NUMBER_GOOD && n >= 0 &&
			       n <= COUNT_TOKENS_MOST
			   ? n
			   : -1;
	for (p++; json_member_next(&p, end, false, &e);)
		n++;
	return n;
}

/* The line lies in a buffer with JSON_PAD readable bytes behind it. */
static int64_t line_length(const char *p, const char *end, const char *field)
{
	struct json_member m;

	while (p < end && (unsigned char)*p <= ' ')
		p++;
	if (p == end || *p != '{')
		return -1;
	for (p++; json_member_next(&p, end, true, &m);)
		if (json_key_is(&m, field))
			return length_of(&m);
	return -1;
}

static void count_record(struct chunk *c, const char *p, const char *end, const char *field)
{
	int64_t n;

	c->t.filled = c->t.open = false;
	line_tally_add(&c->t, (const uint8_t *)p, (size_t)(end - p));
	if (!c->t.filled) {
		c->t.blank++;
		c->t.lines++;
		return;
	}
	c->t.lines++;
	n = line_length(p, end, field);
	if (n < 0)
		c->without++;
	else if (__builtin_add_overflow(c->tokens, n, &c->tokens))
		c->tokens = INT64_MAX;
}

/* Lines with their lengths: next() gives more bytes; stops before a line that begins at `end`. */
struct lines_in {
	const struct shard_file *f;
	struct input *in;	  /* decompressed; NULL: the file itself, at `at` */
	uint64_t at, end, begins; /* of the line at buf[0] */
	struct buf b;
	bool eof;
};

static int lines_more(struct lines_in *l)
{
	ssize_t n;

	buf_widen(&l->b, SHARD_BUFFER_BYTES + JSON_PAD);
	n = l->in ? input_read(l->in, l->b.data + l->b.len, SHARD_BUFFER_BYTES)
		  : shard_pread(l->f, l->b.data + l->b.len, SHARD_BUFFER_BYTES, l->at);
	if (n < 0)
		return (int)n;
	l->at += (uint64_t)n;
	if (!l->in)
		shard_progress(l->f, (uint64_t)n);
	l->b.len += (size_t)n;
	memset(l->b.data + l->b.len, 0, JSON_PAD);
	l->eof = !n;
	return 0;
}

/* A line that is longer than what is kept: counted, its length unknown. */
static int pass_long_line(struct lines_in *l, struct chunk *c)
{
	struct line_tally t = { 0 };
	int r = 0;

	while (!t.lines && !r) {
		const uint8_t *nl = l->b.len ? memchr(l->b.data, '\n', l->b.len) : NULL;
		size_t gone = nl ? (size_t)(nl - l->b.data) + 1 : l->b.len;

		line_tally_add(&t, l->b.data, gone);
		l->begins += gone;
		memmove(l->b.data, l->b.data + gone, l->b.len - gone);
		l->b.len -= gone;
		if (l->eof)
			count_end(&t);
		else if (!nl)
			r = lines_more(l);
	}
	c->t.lines += t.lines;
	c->t.blank += t.blank;
	c->without += t.lines - t.blank;
	return r;
}

static int count_lengths(struct lines_in *l, struct chunk *c)
{
	int r = 0;

	while (!r && l->begins < l->end) {
		const char *p = (const char *)l->b.data, *end = p, *nl;
		size_t kept;

		if (l->b.len)
			end += l->b.len;
		while (p < end && l->begins < l->end && (nl = memchr(p, '\n', (size_t)(end - p)))) {
			count_record(c, p, nl, l->f->length_field);
			l->begins += (uint64_t)(nl + 1 - p);
			p = nl + 1;
		}
		kept = (size_t)(end - p);
		if (l->eof && kept && l->begins < l->end)
			count_record(c, p, end, l->f->length_field);
		if (l->eof)
			break;
		if (kept)
			memmove(l->b.data, p, kept);
		l->b.len = kept;
		r = kept > LINE_BYTES_MOST ? pass_long_line(l, c) : lines_more(l);
	}
	return r;
}

static void count_chunk(void *user, size_t i)
{
	const struct chunks *k = user;
	struct chunk *c = &k->v[i];
	_cleanup_free_ uint8_t *buf = xmalloc(SHARD_BUFFER_BYTES);
	uint64_t from = i * k->size, to = MIN(from + k->size, k->f->size);
	int64_t start;

	/* Workers share one descriptor, whose readahead would take them for random readers. */
	posix_fadvise(k->f->fd, (off_t)from, (off_t)(to - from), POSIX_FADV_WILLNEED);
	start = line_start(k->f, buf, from, to);
	if (start < 0 || (uint64_t)start >= to) {
		c->error = start < 0 ? (int)start : 0;
		return;
	}
	if (k->f->length_field) {
		struct lines_in l = {
			.f = k->f, .at = (uint64_t)start, .end = to, .begins = (uint64_t)start
		};

		c->error = count_lengths(&l, c);
		buf_done(&l.b);
	} else {
		c->error = count_span(k->f, buf, (uint64_t)start, to, &c->t);
	}
}

static int count_plain(const struct shard_file *f, struct chunk *sum)
{
	struct chunks k = { .f = f, .size = SHARD_CHUNK_BYTES };
	int r = 0;

	/* However large the file is, the chunks' results are few. */
	while (f->size / k.size >= 65536)
		k.size *= 2;
	k.n = (size_t)((f->size + k.size - 1) / k.size);
	k.v = xcalloc(k.n ? k.n : 1, sizeof(*k.v));
	pool_run(f->threads, k.n, count_chunk, &k);
	for (size_t i = 0; i < k.n; i++) {
		sum->t.lines += k.v[i].t.lines;
		sum->t.blank += k.v[i].t.blank;
		sum->without += k.v[i].without;
		if (__builtin_add_overflow(sum->tokens, k.v[i].tokens, &sum->tokens))
			sum->tokens = INT64_MAX;
		r = r ? r : k.v[i].error;
	}
	free(k.v);
	return r;
}

static int count_packed(const struct shard_file *f, struct chunk *sum, char why[160])
{
	struct shard_stream s;
	_cleanup_free_ uint8_t *buf = xmalloc(SHARD_BUFFER_BYTES);
	ssize_t n = 0;

	shard_stream_open(&s, f);
	if (f->length_field) {
		struct lines_in l = { .f = f, .in = s.in, .end = UINT64_MAX };

		n = count_lengths(&l, sum);
		buf_done(&l.b);
	} else {
		while ((n = input_read(s.in, buf, SHARD_BUFFER_BYTES)) > 0)
			line_tally_add(&sum->t, buf, (size_t)n);
		count_end(&sum->t);
	}
	if (shard_stream_problem(&s))
		snprintf(why, 160, "%s; counted what lies in front of it",
			 shard_stream_problem(&s));
	shard_stream_close(&s);
	return n < 0 ? (int)n : 0;
}

/* [{..}, {..}]: a JSON array of records. */
static int count_array(const struct shard_file *f, struct chunk *sum, char why[160])
{
	struct json_values v;
	struct shard_stream s;
	const char *p, *end;
	int r;

	shard_stream_open(&s, f);
	json_values_init(&v, s.in, VALUE_MOST);
	if (json_skip_space_refilling(&v.w) && *v.w.p == '[')
		v.w.p++; /* else the array would be one value */
	while (json_values_next(&v, &p, &end)) {
		int64_t n = f->length_field ? line_length(p, end, f->length_field) : 0;

		sum->t.lines++;
		sum->without += n < 0;
		if (n > 0 && __builtin_add_overflow(sum->tokens, n, &sum->tokens))
			sum->tokens = INT64_MAX;
	}
	r = v.w.error;
	if (shard_stream_problem(&s))
		snprintf(why, 160, "%s; counted what lies in front of it",
			 shard_stream_problem(&s));
	for (size_t i = 0; i < SKIP_REASONS && !why[0]; i++)
		if (v.skipped[i])
			snprintf(why, 160, "damaged JSON: parts of it were passed over");
	json_values_done(&v);
	shard_stream_close(&s);
	return r;
}

bool shard_looks_lines(const struct shard_file *f)
{
	return !memchr(f->head, 0, f->head_len);
}

static bool is_array(const struct shard_file *f)
{
	size_t i = 0;

	while (i < f->head_len && f->head[i] <= ' ')
		i++;
	if (i == f->head_len || f->head[i] != '[')
		return false;
	for (i++; i < f->head_len && f->head[i] <= ' '; i++)
		;
	return i < f->head_len && f->head[i] == '{';
}

static bool is_table(const char *path)
{
	return strcasestr(path, ".csv") || strcasestr(path, ".tsv");
}

/* JSON lines whose last one has neither its bracket nor an end. */
static bool is_cut(const struct shard_file *f)
{
	char end[64];
	size_t n = (size_t)MIN(f->size, sizeof(end));

	if (f->compressed || f->wide.unit > 1 || !n || f->head[0] != '{' ||
	    shard_pread(f, end, n, f->size - n) != (ssize_t)n || end[n - 1] == '\n')
		return false;
	while (n && (unsigned char)end[n - 1] <= ' ')
		n--;
	return n && end[n - 1] != '}';
}

int shard_count_lines(struct shard_file *f, struct shard *ret, struct error *reterr)
{
	struct chunk sum = { 0 };
	int r;

	if (is_array(f))
		r = count_array(f, &sum, ret->why);
	else if (f->compressed || f->wide.unit > 1)
		r = count_packed(f, &sum, ret->why);
	else
		r = count_plain(f, &sum);
	if (r < 0)
		return error_set(reterr, r, "%s: %s", f->path, strerror(-r));
	ret->records = (int64_t)(sum.t.lines - sum.t.blank);
	if (is_table(f->path) && ret->records > 0) {
		ret->records--;
		snprintf(ret->why, sizeof(ret->why), "its first line is taken for a header");
	} else if (!ret->why[0] && is_cut(f)) {
		snprintf(ret->why, sizeof(ret->why), "its last line is cut off, and counted");
	}
	if (f->length_field && !sum.without)
		ret->tokens = sum.tokens;
	if (ret->why[0])
		return 0;
	if (!f->size)
		snprintf(ret->why, sizeof(ret->why), "an empty file");
	else if (f->length_field && sum.without)
		snprintf(ret->why, sizeof(ret->why),
			 "%" PRIu64 " record%s no \"%.60s\" that is a length", sum.without,
			 sum.without == 1 ? " has" : "s have", f->length_field);
	else if (sum.t.blank)
		snprintf(ret->why, sizeof(ret->why), "%" PRIu64 " blank line%s not counted",
			 sum.t.blank, sum.t.blank == 1 ? " is" : "s are");
	return 0;
}
