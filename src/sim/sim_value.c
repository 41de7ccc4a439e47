/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sim_value.h"

#include <stdio.h>

static void byte(struct sim_value *v, int c)
{
	uint8_t b = (uint8_t)c;

	buf_put(&v->b, &b, 1);
}

static void bytes(struct sim_value *v, uint64_t n, size_t size)
{
	for (size_t i = 0; i < size; i++) /* little end first */
		byte(v, (int)(n >> (8 * i) & 0xff));
}

static void words(struct sim_value *v, const char *text)
{
	buf_put(&v->b, text, strlen(text));
}

static void comma(struct sim_value *v)
{
	if (v->json && v->more)
		words(v, ", ");
	v->more = true;
}

/* BINPUT or BINGET, short and long. */
static void memo(struct sim_value *v, int small, int large, uint32_t at)
{
	byte(v, at < 256 ? small : large);
	bytes(v, at, at < 256 ? 1 : 4);
}

void sim_value_begin(struct sim_value *v, bool json)
{
	v->json = json;
	v->more = false;
	v->b.len = 0;
	intern_done(&v->memo);
	v->memo = (struct intern){ 0 };
	if (!json)
		words(v, "\x80\x02");
}

void sim_value_end(struct sim_value *v)
{
	if (v->json) {
		words(v, "\n");
	} else {
		memo(v, 'q', 'r', v->memo.n);
		byte(v, '.');
	}
}

void sim_value_done(struct sim_value *v)
{
	buf_done(&v->b);
	intern_done(&v->memo);
}

void sim_open(struct sim_value *v, char kind)
{
	comma(v);
	v->more = false;
	if (v->json)
		byte(v, kind == '(' ? '[' : kind);
	else if (kind != '(')
		words(v, kind == '{' ? "}(" : "](");
}

void sim_close(struct sim_value *v, char kind)
{
	v->more = true;
	if (v->json)
		byte(v, kind == '{' ? '}' : ']');
	else
		words(v, kind == '{' ? "u" : kind == '[' ? "e" : "\x86");
}

void sim_key(struct sim_value *v, const char *key)
{
	sim_text(v, key);
	if (v->json)
		words(v, ": ");
	v->more = false;
}

void sim_text(struct sim_value *v, const char *text)
{
	size_t len = strlen(text);
	uint32_t known, n = v->memo.n;

	comma(v);
	if (v->json) { /* the simulator's words need no escapes */
		byte(v, '"');
		words(v, text);
		byte(v, '"');
		return;
	}
	known = intern(&v->memo, text, len);
	if (known < n) {
		memo(v, 'h', 'j', known);
		return;
	}
	byte(v, 'X');
	bytes(v, len, 4);
	words(v, text);
	memo(v, 'q', 'r', known);
}

void sim_whole(struct sim_value *v, int64_t n)
{
	char text[24];

	comma(v);
	if (v->json) {
		snprintf(text, sizeof(text), "%" PRId64, n);
		words(v, text);
	} else if (n >= 0 && n < 65536) {
		byte(v, n < 256 ? 'K' : 'M');
		bytes(v, (uint64_t)n, n < 256 ? 1 : 2);
	} else if (n >= INT32_MIN && n <= INT32_MAX) {
		byte(v, 'J');
		bytes(v, (uint64_t)n, 4);
	} else {
		words(v, "\x8a\x08");
		bytes(v, (uint64_t)n, 8);
	}
}

void sim_real(struct sim_value *v, double x)
{
	char text[40];
	uint64_t bits;

	comma(v);
	if (v->json) {
		snprintf(text, sizeof(text), "%.5f", x);
		words(v, text);
		return;
	}
	memcpy(&bits, &x, sizeof(bits));
	byte(v, 'G');
	for (int i = 7; i >= 0; i--) /* the great end first */
		byte(v, (int)(bits >> (8 * i) & 0xff));
}

void sim_bool(struct sim_value *v, bool b)
{
	comma(v);
	if (v->json)
		words(v, b ? "true" : "false");
	else
		byte(v, b ? 0x88 : 0x89);
}

void sim_none(struct sim_value *v)
{
	comma(v);
	words(v, v->json ? "0" : "N");
}
