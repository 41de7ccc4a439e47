/* SPDX-License-Identifier: Apache-2.0 */
/*
 * checkpoint_zip.c - is this zip whole?
 *
 * torch.save writes stored members one behind the other, their table behind the last, and the end
 * mark at the very end. So a file is whole if the end mark stands at its last byte, the table in
 * front of it, and every member's own header and trailer where the table and its neighbours say,
 * without a gap from the first byte on. A cut at any length breaks that; what was never written in
 * the middle breaks the checksums, which are read where asked for and wherever a file has holes.
 */
#include <isa-l/crc.h>

#include "read/checkpoint_inside.h"

#define END_BYTES     22u
#define END64_BYTES   56u
#define LOCATOR_BYTES 20u
#define MEMBER_BYTES  46u
#define LOCAL_BYTES   30u
#define COMMENT_MOST  65535u
#define HAS_TRAILER   0x0008u
#define CRC_CHUNK     ((size_t)1 << 20)

enum { SIGN_LOCAL = 0x04034b50, SIGN_MEMBER = 0x02014b50, SIGN_END = 0x06054b50 };
enum { SIGN_END64 = 0x06064b50, SIGN_LOCATOR = 0x07064b50, SIGN_TRAILER = 0x08074b50 };

static uint64_t le(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | p[n];
	return v;
}

struct end {
	uint64_t at; /* behind the table */
	uint64_t directory_at, directory_len, n;
};

/* The end mark, which nothing but its comment may follow. */
static bool find_mark(const struct stretch *s, uint8_t mark[END_BYTES], uint64_t *ret_at)
{
	_cleanup_free_ uint8_t *tail = NULL;
	size_t len;

	if (s->len < END_BYTES)
		return false;
	*ret_at = s->len - END_BYTES;
	if (!stretch_read(s, *ret_at, mark, END_BYTES))
		return false;
	if (le(mark, 4) == SIGN_END && !le(mark + 20, 2))
		return true;
	len = (size_t)MIN(s->len, COMMENT_MOST + END_BYTES);
	tail = stretch_bytes(s, s->len - len, len);
	for (size_t i = len - END_BYTES + 1; tail && i-- > 0;) {
		if (le(tail + i, 4) != SIGN_END || le(tail + i + 20, 2) != len - i - END_BYTES)
			continue;
		memcpy(mark, tail + i, END_BYTES);
		*ret_at = s->len - len + i;
		return true;
	}
	return false;
}

/* The older field has the same number, or says that it is too small for it. */
static bool agrees(uint64_t narrow, uint64_t wide, uint64_t most)
{
	return narrow == wide || (narrow == most && wide >= most);
}

static enum checkpoint_state find_end(struct checkpoint_look *l, const struct stretch *s,
				      struct end *e)
{
	uint8_t mark[END_BYTES], locator[LOCATOR_BYTES], end64[END64_BYTES];
	uint64_t at;

	if (!find_mark(s, mark, &at))
		return torn(l, "cut off: the zip's end is not there");
	*e = (struct end){ at, le(mark + 16, 4), le(mark + 12, 4), le(mark + 10, 2) };
	if (at >= LOCATOR_BYTES + END64_BYTES &&
	    stretch_read(s, at - LOCATOR_BYTES, locator, LOCATOR_BYTES) &&
	    le(locator, 4) == SIGN_LOCATOR) {
		e->at = le(locator + 8, 8);
		if (e->at > at - LOCATOR_BYTES - END64_BYTES ||
		    !stretch_read(s, e->at, end64, END64_BYTES) || le(end64, 4) != SIGN_END64 ||
		    le(end64 + 4, 8) != at - LOCATOR_BYTES - e->at - 12)
			return torn(l, "the zip's end record is not where it should be");
		e->n = le(end64 + 32, 8);
		e->directory_len = le(end64 + 40, 8);
		e->directory_at = le(end64 + 48, 8);
		if (!agrees(le(mark + 10, 2), e->n, UINT16_MAX) ||
		    !agrees(le(mark + 12, 4), e->directory_len, UINT32_MAX) ||
		    !agrees(le(mark + 16, 4), e->directory_at, UINT32_MAX))
			return torn(l, "the zip's two ends do not agree");
	}
	if (e->directory_len > e->at || e->directory_at != e->at - e->directory_len)
		return torn(l, "the zip's table is not where its end says: bytes are missing");
	if (e->directory_len > CHECKPOINT_DIRECTORY_MOST || e->n > CHECKPOINT_MEMBERS_MOST)
		return foreign(l, "a zip of %" PRIu64 " members: more than is looked at", e->n);
	return CHECKPOINT_GOOD;
}

/* Numbers that do not fit 32 bits stand in an extra field, in this order. */
static bool widen(struct zip_member *m, const uint8_t *extra, size_t len)
{
	uint64_t *const wide[] = { &m->size, &m->packed, &m->at };

	if (m->size != UINT32_MAX && m->packed != UINT32_MAX && m->at != UINT32_MAX)
		return true;
	while (len >= 4) {
		size_t n = le(extra + 2, 2);
		const uint8_t *p = extra + 4;

		if (n > len - 4)
			return false;
		if (le(extra, 2) == 1) {
			for (size_t i = 0; i < ARRAY_SIZE(wide); i++) {
				if (*wide[i] != UINT32_MAX)
					continue;
				if (n < 8)
					return false;
				*wide[i] = le(p, 8);
				p += 8;
				n -= 8;
			}
			return true;
		}
		extra += 4 + n;
		len -= 4 + n;
	}
	return true; /* such numbers, by chance */
}

static bool read_member(struct span *t, struct zip_member *m)
{
	const uint8_t *p = span_bytes(t, MEMBER_BYTES), *name, *extra;
	size_t extra_len;

	if (!p || le(p, 4) != SIGN_MEMBER)
		return false;
	*m = (struct zip_member){ .flags = (uint16_t)le(p + 8, 2),
				  .method = (uint16_t)le(p + 10, 2) };
	m->crc = (uint32_t)le(p + 16, 4);
	m->packed = le(p + 20, 4);
	m->size = le(p + 24, 4);
	m->name_len = (uint32_t)le(p + 28, 2);
	m->at = le(p + 42, 4);
	extra_len = le(p + 30, 2);
	name = span_bytes(t, m->name_len);
	extra = span_bytes(t, extra_len);
	span_bytes(t, le(p + 32, 2));
	m->name = (const char *)name;
	return !t->bad && widen(m, extra, extra_len);
}

static int by_place(const void *a, const void *b)
{
	const struct zip_member *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

static enum checkpoint_state read_table(struct checkpoint_look *l, const struct stretch *s,
					const struct end *e, struct zip *z)
{
	struct span t;

	z->directory_at = e->directory_at;
	z->directory = stretch_bytes(s, e->directory_at, (size_t)e->directory_len);
	if (!z->directory)
		return torn(l, "the zip's table cannot be read");
	t = span_of(z->directory, (size_t)e->directory_len);
	for (uint64_t i = 0; i < e->n; i++)
		if (!read_member(&t, vec_push(&z->members)))
			return torn(l, "the zip's table is damaged at entry %" PRIu64, i);
	if (span_left(&t))
		return torn(l, "the zip's table is longer than its %" PRIu64 " entries", e->n);
	if (z->members.n)
		qsort(z->members.v, z->members.n, sizeof(*z->members.v), by_place);
	return CHECKPOINT_GOOD;
}

/* What follows the data of a member whose sizes were not known when its header was written. */
static bool trailer_agrees(const struct stretch *s, const struct zip_member *m, uint64_t at,
			   uint64_t len)
{
	uint8_t t[24];
	unsigned sign = len == 16 || len == 24 ? 4 : 0, n = len >= 20 ? 8 : 4;

	if ((len != 12 && len != 16 && len != 20 && len != 24) || !stretch_read(s, at, t, len))
		return false;
	return (!sign || le(t, 4) == SIGN_TRAILER) && le(t + sign, 4) == m->crc &&
	       le(t + sign + 4, n) == m->packed && le(t + sign + 4 + n, n) == m->size;
}

#define NAMED(m) (int)MIN((m)->name_len, 200u), (m)->name

/* A member, which ends where the next one or the table begins. */
static enum checkpoint_state check_member(struct checkpoint_look *l, const struct stretch *s,
					  struct zip_member *m, uint64_t next)
{
	uint64_t end, head = LOCAL_BYTES + (uint64_t)m->name_len;
	_cleanup_free_ uint8_t *h = NULL;

	if (m->at > next || next - m->at < head)
		return torn(l, "%.*s lies over its neighbour", NAMED(m));
	h = stretch_bytes(s, m->at, (size_t)head);
	if (!h || le(h, 4) != SIGN_LOCAL || le(h + 26, 2) != m->name_len ||
	    memcmp(h + LOCAL_BYTES, m->name, m->name_len) != 0 || le(h + 8, 2) != m->method)
		return torn(l, "the header of %.*s is not there", NAMED(m));
	m->data = m->at + head + le(h + 28, 2);
	if (m->data > next || m->packed > next - m->data)
		return torn(l, "%.*s is cut short by its neighbour", NAMED(m));
	end = m->data + m->packed;
	if (m->method || m->packed != m->size || m->flags & 1)
		return foreign(l, "%.*s is compressed or encrypted, which torch.save never does",
			       NAMED(m));
	if (m->flags & HAS_TRAILER) {
		if (!trailer_agrees(s, m, end, next - end))
			return torn(l, "what follows %.*s does not fit the table", NAMED(m));
	} else if (end != next || le(h + 14, 4) != m->crc) {
		return torn(l, "%.*s does not fit the table", NAMED(m));
	}
	return CHECKPOINT_GOOD;
}

static bool crc_right(const struct stretch *s, const struct zip_member *m, uint8_t *chunk)
{
	uint32_t crc = 0;

	for (uint64_t at = 0; at < m->size;) {
		size_t n = (size_t)MIN(m->size - at, CRC_CHUNK);

		if (!stretch_read(s, m->data + at, chunk, n))
			return false;
		crc = crc32_gzip_refl(crc, chunk, n);
		at += n;
	}
	return crc == m->crc;
}

static enum checkpoint_state check_data(struct checkpoint_look *l, const struct stretch *s,
					const struct zip *z)
{
	_cleanup_free_ uint8_t *chunk = xmalloc(CRC_CHUNK);

	for (size_t i = 0; i < z->members.n; i++) {
		const struct zip_member *m = &z->members.v[i];

		if (!crc_right(s, m, chunk))
			return torn(l, "the bytes of %.*s are not those that were saved (CRC)",
				    NAMED(m));
	}
	return CHECKPOINT_GOOD;
}

enum checkpoint_state zip_check(struct checkpoint_look *l, const struct stretch *s, struct zip *ret)
{
	enum checkpoint_state state;
	uint64_t hole;
	struct end e;

	*ret = (struct zip){ 0 };
	state = find_end(l, s, &e);
	if (state == CHECKPOINT_GOOD)
		state = read_table(l, s, &e, ret);
	if (state == CHECKPOINT_GOOD && (!ret->members.n || ret->members.v[0].at))
		state = torn(l, "the zip's first bytes are missing");
	for (size_t i = 0; state == CHECKPOINT_GOOD && i < ret->members.n; i++)
		state = check_member(l, s, &ret->members.v[i],
				     i + 1 < ret->members.n ? ret->members.v[i + 1].at
							    : e.directory_at);
	if (state == CHECKPOINT_GOOD && (l->whole || stretch_hole(s, &hole)))
		state = check_data(l, s, ret);
	return state;
}

uint8_t *zip_bytes(const struct stretch *s, const struct zip_member *m)
{
	uint8_t *p = stretch_bytes(s, m->data, (size_t)m->size);

	if (p && crc32_gzip_refl(0, p, m->size) == m->crc)
		return p;
	free(p);
	return NULL;
}

void zip_done(struct zip *z)
{
	free(z->directory);
	free(z->members.v);
	*z = (struct zip){ 0 };
}
