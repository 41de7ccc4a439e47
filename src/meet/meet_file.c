/* SPDX-License-Identifier: Apache-2.0 */
/* meet_file.c - calls, parts and verdicts as files: head, fields, bytes, digest. */
#include "meet/meet_file.h"

static const uint8_t magic[8] = { 'L', 'S', 'M', 'E', 'E', 'T', 'F', '\n' };

static void digest_of(const struct meeting *m, const uint8_t *p, size_t len,
		      uint8_t ret[DIGEST_BYTES])
{
	static const char label[] = "lockstep meeting 1: a file";
	struct digest *d;

	if (digest_open(m->secret, m->secret_len, &d, NULL) < 0)
		abort(); /* it was tried before */
	digest_add(d, label, sizeof(label));
	digest_add(d, p, len);
	digest_end(d, ret);
}

void meet_file_put(struct buf *out, const struct meeting *m, const struct meet_file *f)
{
	size_t begin = out->len;
	uint8_t head[2] = { MEET_FILE_VERSION, (uint8_t)f->kind }, digest[DIGEST_BYTES];

	buf_put(out, magic, sizeof(magic));
	buf_put(out, head, sizeof(head));
	buf_put_varint(out, m->plan->node);
	buf_put_varint(out, m->plan->nodes);
	buf_put(out, f->instance, INSTANCE_BYTES);
	buf_put(out, f->call, INSTANCE_BYTES);
	buf_put_signed(out, meet_clock_ns(m->plan));
	buf_put_signed(out, MAX(m->until_ms - clock_ms(), 0));
	buf_put_signed(out, f->clock_ns);
	buf_put_signed(out, f->clock_doubt_ns);
	buf_put_string(out, m->plan->job, strlen(m->plan->job));
	buf_put_string(out, m->name, strlen(m->name));
	buf_put_varint(out, f->n_list);
	buf_put(out, f->list, f->n_list * INSTANCE_BYTES);
	buf_put_varint(out, f->len);
	buf_put(out, f->bytes, f->len);
	digest_of(m, out->data + begin, out->len - begin, digest);
	buf_put(out, digest, sizeof(digest));
}

static int fields_get(struct span *s, struct meet_file *f)
{
	const uint8_t *p;
	uint64_t node = span_varint(s), nodes = span_varint(s), n;

	p = span_bytes(s, INSTANCE_BYTES);
	memcpy(f->instance, p ? p : f->instance, INSTANCE_BYTES);
	p = span_bytes(s, INSTANCE_BYTES);
	memcpy(f->call, p ? p : f->call, INSTANCE_BYTES);
	f->made_ns = span_signed(s);
	f->left_ms = span_signed(s);
	f->clock_ns = span_signed(s);
	f->clock_doubt_ns = span_signed(s);
	f->job = span_string(s, &f->job_len, MEET_NAME_MOST);
	f->name = span_string(s, &f->name_len, MEET_NAME_MOST);
	n = span_varint(s);
	if (n > 2 * (uint64_t)MEET_NODES_MOST)
		return -EPROTO;
	f->n_list = (size_t)n;
	f->list = span_bytes(s, f->n_list * INSTANCE_BYTES);
	n = span_varint(s);
	if (n > MEET_VERDICT_MOST)
		return -EPROTO;
	f->len = (size_t)n;
	f->bytes = span_bytes(s, f->len);
	f->node = (uint32_t)MIN(node, UINT32_MAX);
	f->nodes = (uint32_t)MIN(nodes, UINT32_MAX);
	return s->bad || span_left(s) ? -EPROTO : 0;
}

int meet_file_get(const struct meeting *m, const uint8_t *p, size_t len, struct meet_file *ret)
{
	struct meet_file f = { 0 };
	struct span s;
	uint8_t digest[DIGEST_BYTES];

	if (len < sizeof(magic) + 2 || memcmp(p, magic, sizeof(magic)) != 0)
		return -EPROTO;
	if (p[8] != MEET_FILE_VERSION)
		return -EPROTONOSUPPORT;
	if (len < sizeof(magic) + 2 + DIGEST_BYTES)
		return -EPROTO;
	len -= DIGEST_BYTES;
	digest_of(m, p, len, digest);
	if (!digest_same(digest, p + len))
		return m->secret ? -EACCES : -EPROTO;
	f.kind = (enum meet_file_kind)p[9];
	if (f.kind != FILE_CALL && f.kind != FILE_PART && f.kind != FILE_VERDICT)
		return -EPROTO;
	s = span_of(p + 10, len - 10);
	if (fields_get(&s, &f) < 0)
		return -EPROTO;
	*ret = f;
	return 0;
}

bool meet_file_lists(const struct meet_file *verdict, const uint8_t instance[INSTANCE_BYTES])
{
	for (size_t i = 0; i < verdict->n_list; i++)
		if (!memcmp(verdict->list + i * INSTANCE_BYTES, instance, INSTANCE_BYTES))
			return true;
	return false;
}
