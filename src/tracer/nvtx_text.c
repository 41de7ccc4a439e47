/* SPDX-License-Identifier: Apache-2.0 */
#include "tracer/nvtx_text.h"

#include <stdatomic.h>
#include <string.h>

#include "tracer/door_words.h"
#include "tracer/nvtx_step.h"
#include "tracer/door.h"

#define STRING_MARK 0x4c4bull /* in the upper 16 bits; no address of a program's has them */
#define DOMAIN_MARK 0x4c44ull
#define NCCL_BIT    (1ull << 32)

/* By id, packed; 0: not yet known. Always written with the same. */
static _Atomic uint64_t meanings[RING_NAMES + 1];

void nvtx_text_of(struct nvtx_text *t, const char *s)
{
	t->s = s ? s : "";
	t->len = strnlen(t->s, RING_NAME_MAX + 1); /* one more: it is seen that it was cut */
	t->id = 0;
}

static size_t put_utf8(char *at, uint32_t c)
{
	if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		c = 0xfffd;
	if (c < 0x80) {
		at[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		at[0] = (char)(0xc0 | c >> 6);
		at[1] = (char)(0x80 | (c & 63));
		return 2;
	}
	if (c < 0x10000) {
		at[0] = (char)(0xe0 | c >> 12);
		at[1] = (char)(0x80 | (c >> 6 & 63));
		at[2] = (char)(0x80 | (c & 63));
		return 3;
	}
	at[0] = (char)(0xf0 | c >> 18);
	at[1] = (char)(0x80 | (c >> 12 & 63));
	at[2] = (char)(0x80 | (c >> 6 & 63));
	at[3] = (char)(0x80 | (c & 63));
	return 4;
}

void nvtx_text_of_wide(struct nvtx_text *t, const wchar_t *w)
{
	t->s = t->room;
	t->len = 0;
	t->id = 0;
	while (w && *w && t->len <= RING_NAME_MAX)
		t->len += put_utf8(t->room + t->len, (uint32_t)*w++);
}

bool nvtx_text_of_attributes(struct nvtx_text *t, const struct nvtx_attributes *a)
{
	nvtx_text_of(t, "");
	if (!a || a->size < sizeof(*a))
		return false;
	if (a->message_type == NVTX_MESSAGE_A)
		nvtx_text_of(t, a->message.a);
	else if (a->message_type == NVTX_MESSAGE_W)
		nvtx_text_of_wide(t, a->message.w);
	else if (a->message_type == NVTX_MESSAGE_STRING &&
		 nvtx_string_of(a->message.string, &t->id))
		t->s = NULL;
	else
		return a->message_type == NVTX_MESSAGE_NONE;
	return true;
}

static struct nvtx_meaning find_meaning(const char *s, size_t len)
{
	struct word w = word_of(s, len);

	return (struct nvtx_meaning){ .kind = w.kind,
				      .op = word_of_collective(s, len),
				      .named = nvtx_step_named_by(s, len),
				      .step = w.step,
				      .stem = w.stem | 1,
				      .number = w.number };
}

struct nvtx_meaning nvtx_meaning_of(uint32_t id)
{
	uint64_t m =
	    id <= RING_NAMES ? atomic_load_explicit(&meanings[id], memory_order_relaxed) : 0;

	return (struct nvtx_meaning){ .kind = m & 15,
				      .op = m >> 4 & 15,
				      .named = m >> 8 & 3,
				      .step = m >> 10 & 1,
				      .stem = (uint32_t)(m >> 32),
				      .number = -1 };
}

uint32_t nvtx_text_id(struct nvtx_text *t)
{
	if (!t->s || !t->len)
		return t->id;
	if (!t->id)
		t->id = tracer_name(t->s, t->len);
	if (t->id && t->id <= RING_NAMES &&
	    !atomic_load_explicit(&meanings[t->id], memory_order_relaxed)) {
		struct nvtx_meaning m = find_meaning(t->s, t->len);

		atomic_store_explicit(&meanings[t->id],
				      (uint64_t)m.stem << 32 | (uint64_t)m.step << 10 |
					  (uint64_t)m.named << 8 | (uint64_t)m.op << 4 | m.kind,
				      memory_order_relaxed);
	}
	return t->id;
}

static bool has_digit(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (s[i] >= '0' && s[i] <= '9')
			return true;
	}
	return false;
}

struct nvtx_meaning nvtx_text_meaning(struct nvtx_text *t)
{
	if (t->s && has_digit(t->s, t->len))
		return find_meaning(t->s, t->len);
	return nvtx_meaning_of(nvtx_text_id(t));
}

const void *nvtx_string_handle(uint32_t id)
{
	return (const void *)(uintptr_t)(STRING_MARK << 48 | id);
}

bool nvtx_string_of(const void *handle, uint32_t *ret_id)
{
	uint64_t h = (uintptr_t)handle;

	if (h >> 48 != STRING_MARK || (h & 0xffffffffffffull) > RING_NAMES)
		return false;
	*ret_id = (uint32_t)h;
	return true;
}

const void *nvtx_domain_handle(struct nvtx_text *name)
{
	bool nccl = name->len == 4 && !memcmp(name->s, "NCCL", 4);

	return (const void *)(uintptr_t)(DOMAIN_MARK << 48 | (nccl ? NCCL_BIT : 0) |
					 nvtx_text_id(name));
}

uint32_t nvtx_domain_name(const void *handle)
{
	uint64_t h = (uintptr_t)handle;

	return h >> 48 == DOMAIN_MARK ? (uint32_t)h : 0;
}

bool nvtx_domain_is_nccl(const void *handle)
{
	uint64_t h = (uintptr_t)handle;

	return h >> 48 == DOMAIN_MARK && (h & NCCL_BIT);
}
