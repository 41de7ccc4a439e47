/* SPDX-License-Identifier: Apache-2.0 */
/* meet_wire.c - greetings, frames and entries, to bytes and back; no I/O, no state but a wire's. */
#include "meet/meet_wire.h"

#include <endian.h>
#include <sys/types.h>

static const uint8_t magic[8] = { 'L', 'S', 'M', 'E', 'E', 'T', '\r', '\n' };

static struct digest *keyed(const void *key, size_t len)
{
	struct digest *d;

	if (digest_open(key, len, &d, NULL) < 0)
		abort(); /* wire_usable() said that it can be */
	return d;
}

int wire_usable(struct error *reterr)
{
	struct digest *d;
	int r = digest_open(NULL, 0, &d, reterr);

	if (r >= 0)
		digest_free(d);
	return r;
}

void greeting_put(struct buf *out, const uint8_t nonce[NONCE_BYTES], uint32_t node,
		  const char *name)
{
	uint16_t version = htole16(MEET_VERSION);
	uint16_t len = htole16((uint16_t)(NONCE_BYTES + 4 + strlen(name)));

	node = htole32(node);
	buf_put(out, magic, sizeof(magic));
	buf_put(out, &version, 2);
	buf_put(out, &len, 2);
	buf_put(out, nonce, NONCE_BYTES);
	buf_put(out, &node, 4);
	buf_put(out, name, strlen(name));
}

static void copy_clean(char to[MEET_NAME_MOST + 1], const char *s, size_t len)
{
	char *clean = meet_clean(s, len, MEET_NAME_MOST);

	strcpy(to, clean);
	free(clean);
}

int greeting_get(const uint8_t *p, size_t len, struct greeting *ret)
{
	struct greeting g = { 0 };
	uint16_t version, rest;

	if (memcmp(p, magic, MIN(len, sizeof(magic))) != 0)
		return -EPROTO;
	if (len < GREETING_HEAD)
		return 0;
	memcpy(&version, p + 8, 2);
	memcpy(&rest, p + 10, 2);
	g.version = le16toh(version);
	rest = le16toh(rest);
	if (rest > GREETING_MOST)
		return -EPROTO;
	if (len < GREETING_HEAD + (size_t)rest)
		return 0;
	if (g.version == MEET_VERSION) {
		if (rest < NONCE_BYTES + 4)
			return -EPROTO;
		memcpy(g.nonce, p + GREETING_HEAD, NONCE_BYTES);
		memcpy(&g.node, p + GREETING_HEAD + NONCE_BYTES, 4);
		g.node = le32toh(g.node);
		copy_clean(g.name, (const char *)p + GREETING_HEAD + NONCE_BYTES + 4,
			   rest - NONCE_BYTES - 4u);
	}
	*ret = g;
	return (int)(GREETING_HEAD + rest);
}

void wire_open(struct wire *w, bool judge, const uint8_t *secret, size_t secret_len,
	       const uint8_t of_judge[NONCE_BYTES], const uint8_t of_node[NONCE_BYTES])
{
	static const char label[] = "lockstep meeting 1: a connection";
	struct digest *d = keyed(secret, secret_len);

	*w = (struct wire){ .judge = judge };
	digest_add(d, label, sizeof(label));
	digest_add(d, of_judge, NONCE_BYTES);
	digest_add(d, of_node, NONCE_BYTES);
	digest_end(d, w->key);
}

void wire_bind(struct wire *w, const uint8_t *entry, size_t len)
{
	struct digest *d = keyed(NULL, 0);

	digest_add(d, entry, len);
	digest_end(d, w->context);
}

static void tag_of(const struct wire *w, bool from_judge, uint64_t number, const uint8_t head[8],
		   const uint8_t *body, size_t len, uint8_t ret[DIGEST_BYTES])
{
	struct digest *d = keyed(w->key, sizeof(w->key));
	uint8_t direction = from_judge ? 'J' : 'N';

	number = htole64(number);
	digest_add(d, &direction, 1);
	digest_add(d, &number, sizeof(number));
	digest_add(d, w->context, sizeof(w->context));
	digest_add(d, head, 8);
	digest_add(d, body, len);
	digest_end(d, ret);
}

void wire_put(struct wire *w, struct buf *out, enum frame_type type, const void *body, size_t len)
{
	uint8_t head[FRAME_HEAD] = { 0 };
	uint32_t n = htole32((uint32_t)len);

	memcpy(head, &n, 4);
	head[4] = (uint8_t)type;
	if (type != FRAME_DENIED)
		tag_of(w, w->judge, w->sent++, head, body, len, head + 8);
	buf_put(out, head, sizeof(head));
	buf_put(out, body, len);
}

ssize_t wire_get(struct wire *w, const uint8_t *p, size_t len, size_t most, struct frame *ret)
{
	uint8_t tag[DIGEST_BYTES];
	struct frame f = { 0 };
	uint32_t n;

	if (len < 8)
		return 0;
	memcpy(&n, p, 4);
	n = le32toh(n);
	if (p[4] < FRAME_ENTER || p[4] >= FRAME_TYPES || p[5] || p[6] || p[7])
		return -EPROTO;
	f.type = (enum frame_type)p[4];
	if (n > (f.type == FRAME_PART ? most : MIN(most, FRAME_SMALL)))
		return -EMSGSIZE;
	if (len < FRAME_HEAD + (size_t)n)
		return 0;
	f.body = p + FRAME_HEAD;
	f.len = n;
	if (f.type != FRAME_DENIED) {
		tag_of(w, !w->judge, w->got++, p, f.body, f.len, tag);
		f.genuine = digest_same(tag, p + 8);
	}
	*ret = f;
	return (ssize_t)(FRAME_HEAD + n);
}

/* --- the entry --- */

static void seal_of(const struct meeting *m, const uint8_t *p, size_t len,
		    uint8_t ret[DIGEST_BYTES])
{
	static const char label[] = "lockstep meeting 1: an entry";
	struct digest *d = keyed(m->secret, m->secret_len);

	digest_add(d, label, sizeof(label));
	digest_add(d, p, len);
	digest_end(d, ret);
}

void entry_put(struct buf *out, const struct meeting *m)
{
	size_t begin = out->len;
	uint8_t seal[DIGEST_BYTES];

	buf_put_varint(out, m->plan->node);
	buf_put_varint(out, m->plan->nodes);
	buf_put_signed(out, MAX(m->until_ms - clock_ms(), 0));
	buf_put_signed(out, meet_clock_ns(m->plan));
	buf_put(out, m->instance, sizeof(m->instance));
	buf_put_string(out, m->plan->job, strlen(m->plan->job));
	buf_put_string(out, m->name, strlen(m->name));
	seal_of(m, out->data + begin, out->len - begin, seal);
	buf_put(out, seal, sizeof(seal));
}

bool entry_get(const struct meeting *m, const uint8_t *body, size_t len, struct entry *ret)
{
	struct span s = span_of(body, len);
	struct entry e = { 0 };
	const uint8_t *instance, *seal;
	uint8_t want[DIGEST_BYTES];
	const char *job, *name;
	size_t job_len, name_len;
	uint64_t node = span_varint(&s), nodes = span_varint(&s);

	e.left_ms = span_signed(&s);
	e.made_ns = span_signed(&s);
	instance = span_bytes(&s, INSTANCE_BYTES);
	job = span_string(&s, &job_len, MEET_NAME_MOST);
	name = span_string(&s, &name_len, MEET_NAME_MOST);
	len = (size_t)(s.p - body);
	seal = span_bytes(&s, DIGEST_BYTES);
	if (s.bad || span_left(&s) || node >= UINT32_MAX || nodes >= UINT32_MAX)
		return false;
	e.node = (uint32_t)node;
	e.nodes = (uint32_t)nodes;
	memcpy(e.instance, instance, INSTANCE_BYTES);
	if (memchr(job, 0, job_len))
		return false;
	memcpy(e.job, job, job_len);
	copy_clean(e.name, name, name_len);
	seal_of(m, body, len, want);
	e.sealed = digest_same(want, seal);
	*ret = e;
	return true;
}
