/* SPDX-License-Identifier: Apache-2.0 */
/* pickle_bytes.h - pickles for tests, opcode by opcode, as torch::jit's pickler writes them. */
#pragma once
#include "base/buf.h"

struct pickle_bytes {
	struct buf b;
	unsigned memo; /* strings are named as they come */
	const char *names[512];
};

static inline void p_raw(struct pickle_bytes *p, const char *bytes, size_t len)
{
	buf_put(&p->b, bytes, len);
}
#define p_op(p, literal) p_raw(p, literal, sizeof(literal) - 1)

static inline void p_le(struct pickle_bytes *p, uint64_t v, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		char c = (char)(v >> (8 * i));

		p_raw(p, &c, 1);
	}
}

static inline void p_put(struct pickle_bytes *p, const char *name)
{
	p->names[p->memo] = name;
	if (p->memo < 256) {
		p_op(p, "q");
		p_le(p, p->memo, 1);
	} else {
		p_op(p, "r");
		p_le(p, p->memo, 4);
	}
	p->memo++;
}

/* By value: the first time as it is, then by its number. */
static inline void p_text(struct pickle_bytes *p, const char *s)
{
	for (unsigned i = 0; i < p->memo; i++) {
		if (!p->names[i] || strcmp(p->names[i], s) != 0)
			continue;
		p_raw(p, i < 256 ? "h" : "j", 1);
		p_le(p, i, i < 256 ? 1 : 4);
		return;
	}
	p_op(p, "X");
	p_le(p, strlen(s), 4);
	p_raw(p, s, strlen(s));
	p_put(p, s);
}

static inline void p_int(struct pickle_bytes *p, int64_t v)
{
	if (v >= 0 && v < 256) {
		p_op(p, "K");
		p_le(p, (uint64_t)v, 1);
	} else if (v >= 0 && v < 65536) {
		p_op(p, "M");
		p_le(p, (uint64_t)v, 2);
	} else if (v >= INT32_MIN && v <= INT32_MAX) {
		p_op(p, "J");
		p_le(p, (uint64_t)v, 4);
	} else {
		p_op(p, "\x8a\x08");
		p_le(p, (uint64_t)v, 8);
	}
}

static inline void p_member(struct pickle_bytes *p, const char *key, int64_t v)
{
	p_text(p, key);
	p_int(p, v);
}

static inline void p_words(struct pickle_bytes *p, const char *key, const char *value)
{
	p_text(p, key);
	p_text(p, value);
}

static inline void p_flag(struct pickle_bytes *p, const char *key, bool v)
{
	p_text(p, key);
	p_raw(p, v ? "\x88" : "\x89", 1);
}

/* n dimensions of one tensor; n < 0: no tensor. */
static inline void p_sizes(struct pickle_bytes *p, const char *key, int n, const int64_t *dims)
{
	p_text(p, key);
	p_op(p, "](");
	if (n >= 0) {
		p_op(p, "](");
		for (int i = 0; i < n; i++)
			p_int(p, dims[i]);
		p_op(p, "e");
	}
	p_op(p, "e");
}

static inline void p_types(struct pickle_bytes *p, const char *key, const char *type)
{
	p_text(p, key);
	p_op(p, "](");
	if (type)
		p_text(p, type);
	p_op(p, "e");
}

static inline void p_begin(struct pickle_bytes *p)
{
	*p = (struct pickle_bytes){ .memo = 0 };
	p_op(p, "\x80\x02}(");
	p_words(p, "version", "2.10");
	p_text(p, "pg_config");
	p_op(p, "}(");
	p_text(p, "0");
	p_op(p, "}(");
	p_words(p, "name", "0");
	p_words(p, "desc", "default_pg");
	p_words(p, "ranks", "[0, 1, 2, 3]");
	p_op(p, "uu");
	p_text(p, "pg_status");
	p_op(p, "}(");
	p_text(p, "0");
	p_op(p, "}(");
	p_member(p, "last_enqueued_collective", 12);
	p_member(p, "last_started_collective", -1);
	p_member(p, "last_completed_collective", 11);
	p_op(p, "uu");
	p_text(p, "entries");
	p_op(p, "](");
}

static inline void p_end(struct pickle_bytes *p)
{
	p_op(p, "eu");
	p_put(p, NULL);
	p_op(p, ".");
}

/* Frames are named by their function, which stands for all of a frame here. */
static inline void p_frame(struct pickle_bytes *p, const char *key, const char *function, int line)
{
	for (unsigned i = 0; i < p->memo; i++) {
		if (!p->names[i] || strcmp(p->names[i], key) != 0)
			continue;
		p_raw(p, i < 256 ? "h" : "j", 1);
		p_le(p, i, i < 256 ? 1 : 4);
		return;
	}
	p_op(p, "}(");
	p_words(p, "name", function);
	p_words(p, "filename", "/job/train.py");
	p_member(p, "line", line);
	p_op(p, "u");
	p_put(p, key);
}

struct p_call {
	const char *name, *state;
	int64_t seq;
	int64_t dim;
	bool retired;
	const char *before; /* opcodes that do nothing, to stand in front of the state */
};

static inline void p_entry(struct pickle_bytes *p, const struct p_call *c)
{
	p_op(p, "}(");
	p_text(p, "frames");
	p_op(p, "](");
	p_frame(p, "#call", "all_reduce", 2810);
	p_frame(p, "#main", "main", 15);
	p_op(p, "e");
	p_member(p, "record_id", c->seq + 100);
	p_member(p, "pg_id", 0);
	p_text(p, "process_group");
	p_text(p, "0");
	p_text(p, "default_pg");
	p_op(p, "\x86");
	p_words(p, "thread_name", "pt_main_thread");
	p_member(p, "collective_seq_id", c->seq);
	p_member(p, "p2p_seq_id", 0);
	p_member(p, "op_id", c->seq);
	p_words(p, "profiling_name", c->name);
	p_member(p, "time_created_ns", 1750000000000000000 + c->seq);
	p_sizes(p, "input_sizes", 2, (const int64_t[]){ c->dim, 4 });
	p_types(p, "input_dtypes", "Float");
	p_sizes(p, "output_sizes", 1, &c->dim);
	p_types(p, "output_dtypes", "BFloat16");
	if (c->before)
		p_raw(p, c->before, strlen(c->before));
	p_words(p, "state", c->state);
	p_text(p, "time_discovered_started_ns");
	p_op(p, "N");
	p_text(p, "time_discovered_completed_ns");
	p_op(p, "N");
	p_flag(p, "retired", c->retired);
	p_member(p, "timeout_ms", 600000);
	p_flag(p, "is_p2p", false);
	p_op(p, "u");
}
