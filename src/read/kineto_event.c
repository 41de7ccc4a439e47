/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kineto_event.c - the hot half of the Kineto reader: the members of one event.
 *
 * Most events of a trace are of no interest (flows, metadata, instants), and of the others most
 * arguments are not: all these are skipped by json_skip_object, never parsed. Invariant: p moves
 * forward only, and nothing behind `end` but the padding is ever believed.
 */
#include "read/kineto_event.h"

/* Words and what they mean, in one table for each length: most lookups are one comparison. */
#define WORD_LEN_MAX 25u
struct word {
	char text[WORD_LEN_MAX + 3]; /* zeros behind it */
	int meaning;
};
/* clang-format off */
#define WORDS(...) (const struct word[]){ __VA_ARGS__, { "", 0 } }
/* clang-format on */

/* Equal texts of one length, without a call: eight bytes from each end. Reads eight bytes of both,
   whatever their length; words have room for that (struct word), s has its padding. */
static inline bool same_text(const char *word, const char *s, size_t len)
{
	uint64_t differ = json_load64(word) ^ json_load64(s);

	if (len < 8)
		return !(differ << (64 - 8 * len));
	if (differ || json_load64(word + len - 8) != json_load64(s + len - 8))
		return false;
	return len <= 16 || !memcmp(word + 8, s + 8, len - 16);
}

static inline int meaning_of(const struct word *const table[WORD_LEN_MAX + 1], const char *s,
			     size_t len)
{
	if (len && len <= WORD_LEN_MAX && table[len])
		for (const struct word *w = table[len]; *w->text; w++)
			if (same_text(w->text, s, len))
				return w->meaning;
	return 0;
}

static const struct word *const categories[WORD_LEN_MAX + 1] = {
	[6] = WORDS({ "kernel", CATEGORY_KERNEL }, { "Kernel", CATEGORY_KERNEL },
		    { "Memcpy", CATEGORY_COPY }, { "Memset", CATEGORY_SET },
		    { "cpu_op", CATEGORY_OP }),
	[7] = WORDS({ "Runtime", CATEGORY_RUNTIME }, { "runtime", CATEGORY_RUNTIME }),
	[8] = WORDS({ "Operator", CATEGORY_OPERATOR }),
	[10] = WORDS({ "gpu_memcpy", CATEGORY_COPY }, { "gpu_memset", CATEGORY_SET },
		     { "xpu_driver", CATEGORY_RUNTIME }),
	[11] = WORDS({ "cuda_driver", CATEGORY_RUNTIME }, { "hip_runtime", CATEGORY_RUNTIME },
		     { "xpu_runtime", CATEGORY_RUNTIME }),
	[12] = WORDS({ "cuda_runtime", CATEGORY_RUNTIME }, { "mtia_runtime", CATEGORY_RUNTIME }),
	[14] = WORDS({ "PythonFunction", CATEGORY_PYTHON }),
	[15] =
	    WORDS({ "mtia_ccp_events", CATEGORY_MTIA }, { "user_annotation", CATEGORY_ANNOTATION },
		  { "python_function", CATEGORY_PYTHON }),
	[18] = WORDS({ "privateuse1_driver", CATEGORY_RUNTIME }),
	[19] = WORDS({ "privateuse1_runtime", CATEGORY_RUNTIME },
		     { "gpu_user_annotation", CATEGORY_GPU_ANNOTATION }),
};

static inline uint32_t load32(const char *p)
{
	uint32_t w;

	memcpy(&w, p, sizeof(w));
	return w;
}

/* Four characters as load32 sees them. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WORD(a, b, c, d)                                                                           \
	((uint32_t)(a) | (uint32_t)(b) << 8 | (uint32_t)(c) << 16 | (uint32_t)(d) << 24)
#define WORD_FIRST3 0x00ffffffu
#else
#define WORD(a, b, c, d)                                                                           \
	((uint32_t)(d) | (uint32_t)(c) << 8 | (uint32_t)(b) << 16 | (uint32_t)(a) << 24)
#define WORD_FIRST3 0xffffff00u
#endif

/* Behind the colon and white space; p is at the key's closing quote. */
static inline const char *behind_colon(const char *p, const char *end)
{
	if (p[1] == ':' && p[2] == ' ' && (unsigned char)p[3] > ' ') /* as torch writes it */
		return p + 3;
	p = json_skip_space(p + 1, end);
	if (*p != ':')
		return NULL;
	return json_skip_space(p + 1, end);
}

/* A process, thread or stream: a number, a number in quotes, "stream 7", or any text. */
static const char *parse_identity(const char *p, const char *end, uint64_t *ret)
{
	static const char stream[] = "stream ";
	const char *s, *q;
	bool plain;
	int64_t v;

	if (*p != '"') {
		*ret = 0;
		if (json_number(&p, end, 0, &v) == JSON_NUMBER_GOOD)
			*ret = (uint64_t)v;
		else
			p = json_skip_value(p, end);
		return p;
	}
	s = ++p;
	q = json_string_end(p, end, &plain);
	if (!q)
		return NULL;
	if (!strncmp(s, stream, sizeof(stream) - 1))
		s += sizeof(stream) - 1;
	if (*s >= '0' && *s <= '9' && json_number(&s, end, 0, &v) == JSON_NUMBER_GOOD && s == q)
		*ret = (uint64_t)v;
	else
		*ret = hash_bytes(p, (size_t)(q - p), 0);
	return q + 1;
}

/* A time that is no plain number: what the field's bits say of it. */
static __attribute__((flatten)) const char *parse_time(const char *p, const char *end,
						       struct event_fields *f, enum field_bit bad,
						       int64_t *ret)
{
	enum json_number r = json_time_ns(&p, end, ret);

	if (r == JSON_NUMBER_GOOD)
		return p;
	*ret = 0;
	f->have |= bad;
	f->bad_numbers += r == JSON_NUMBER_BAD;
	return *p == ',' || *p == '}' || (unsigned char)*p <= ' ' ? p : json_skip_value(p, end);
}

/* A short number, else whatever identifies a process or thread. */
static inline const char *parse_id(const char *p, const char *end, uint64_t *ret)
{
	uint64_t w = json_load64(p);
	unsigned n = json_digits_in(w);

	if (n - 1 > 6)
		return parse_identity(p, end, ret);
	*ret = json_digits_value(w, n);
	return p + n;
}

/* A string, or a value that should have been one. *ret is NULL for the latter. */
static inline const char *parse_text(const char *p, const char *end, const char **ret, bool *plain)
{
	*ret = NULL;
	if (*p != '"')
		return json_skip_value(p, end);
	*ret = p + 1;
	p = json_string_end(p + 1, end, plain);
	return p ? p + 1 : NULL;
}

static const char *parse_phase(const char *p, const char *end, struct event_fields *f)
{
	const char *s;
	bool plain;

	if (load32(p) == WORD('"', 'X', '"', ',')) {
		f->ph = 'X';
		f->have |= FIELD_PH;
		return p + 3;
	}
	p = parse_text(p, end, &s, &plain);
	if (s) {
		f->ph = *s;
		f->have |= FIELD_PH;
	}
	return p;
}

static const char *parse_category(const char *p, const char *end, struct event_fields *f)
{
	const char *s;
	bool plain;

	p = parse_text(p, end, &s, &plain);
	if (p && s) {
		f->category = (enum category)meaning_of(categories, s, (size_t)(p - 1 - s));
		f->have |= FIELD_CATEGORY;
	}
	return p;
}

static inline const char *parse_name(const char *p, const char *end, struct event_fields *f)
{
	const char *s;

	p = parse_text(p, end, &s, &f->name_plain);
	if (p && s) {
		f->name = s;
		f->name_len = (size_t)(p - 1 - s);
		f->have |= FIELD_NAME;
	}
	return p;
}

#define FIELDS_BEFORE_ARGS                                                                         \
	(FIELD_PH | FIELD_CATEGORY | FIELD_NAME | FIELD_PID | FIELD_TID | FIELD_TS | FIELD_DUR)

/* Flows, metadata, instants, and categories of no use: only their end matters. */
static const char *pass_over(const char *p, const char *end, struct event_fields *f)
{
	f->ph = 0;
	return p ? json_skip_object(p, end, 1) : NULL;
}

/*
 * A writer puts the same keys in the same order, with the same white space, into every event of a
 * kind. So what stood between two values the last time is compared as a whole, 16 bytes at once,
 * before it is looked at; only what is equal is believed, hence a wrong guess costs time alone.
 */
static inline bool guess_fits(const struct key_guess *g, const char *p)
{
#ifdef __SSE2__
	const char *text = g->text, *value = p + g->len;

	for (;; p += 16, text += 16) {
		__m128i seen = _mm_loadu_si128((const __m128i *)(const void *)p);
		__m128i want = _mm_loadu_si128((const __m128i *)(const void *)text);
		unsigned same = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(seen, want));

		if (value - p <= 16)
			return !(g->last & ~same) && (unsigned char)*value > ' ';
		if (same != 0xffff)
			return false;
	}
#else
	return !memcmp(p, g->text, g->len) && (unsigned char)p[g->len] > ' ';
#endif
}

static void guess_learn(struct key_guess *g, const char *from, const char *value, int meaning)
{
	size_t len = (size_t)(value - from);

	if (len >= GUESS_BYTES)
		return;
	memcpy(g->text, from, GUESS_BYTES);
	g->last = (1u << ((len - 1) % 16 + 1)) - 1;
	g->len = (uint8_t)len;
	g->meaning = (uint8_t)meaning;
}

/* The next key's quote. p is behind the last value, or behind the brace if it is the first. NULL at
   the end: then *ret_end is behind the closing brace, or NULL if the careful way must look. */
static const char *next_key(const char *p, const char *end, bool first, const char **ret_end)
{
	p = json_skip_space(p, end);
	*ret_end = NULL;
	if (!first && *p == ',')
		p = json_skip_space(p + 1, end);
	else if (!first && *p != '}')
		return NULL;
	if (*p == '"')
		return p;
	if (*p == '}') /* empty, or a comma too many */
		*ret_end = p + 1;
	return NULL;
}

enum member {
	MEMBER_UNKNOWN,
	MEMBER_PH,
	MEMBER_CATEGORY,
	MEMBER_NAME,
	MEMBER_PID,
	MEMBER_TID,
	MEMBER_TS,
	MEMBER_DUR,
	MEMBER_ARGS,
	MEMBER_OTHER,
};

/* The member's key, by its first four characters; those of three letters with their quote. */
static enum member member_of(const char *p)
{
	uint32_t w = load32(p + 1);

	switch (w & WORD_FIRST3) {
	case WORD('p', 'h', '"', 0) & WORD_FIRST3:
		return MEMBER_PH;
	case WORD('t', 's', '"', 0) & WORD_FIRST3:
		return MEMBER_TS;
	default:
		break;
	}
	switch (w) {
	case WORD('c', 'a', 't', '"'):
		return MEMBER_CATEGORY;
	case WORD('n', 'a', 'm', 'e'):
		return p[5] == '"' ? MEMBER_NAME : MEMBER_OTHER;
	case WORD('p', 'i', 'd', '"'):
		return MEMBER_PID;
	case WORD('t', 'i', 'd', '"'):
		return MEMBER_TID;
	case WORD('d', 'u', 'r', '"'):
		return MEMBER_DUR;
	case WORD('a', 'r', 'g', 's'):
		return p[5] == '"' ? MEMBER_ARGS : MEMBER_OTHER;
	default:
		return MEMBER_OTHER;
	}
}

/* The value of the member whose key is at p; NULL: careful way. */
static const char *value_of(const char *p, const char *end)
{
	bool plain;

	p = json_string_end(p + 1, end, &plain);
	return p ? behind_colon(p, end) : NULL;
}

const char *event_parse(const char *p, const char *end, struct key_guesses *guesses,
			struct event_fields *f)
{
	f->have = 0;
	f->ph = 0;
	f->category = CATEGORY_NONE;
	f->bad_numbers = 0;
	for (struct key_guess *g = guesses->member;; g += g < &guesses->member[GUESS_MEMBERS - 1]) {
		enum member member = (enum member)g->meaning;

		if (member && guess_fits(g, p)) {
			p += g->len;
		} else {
			const char *from = p, *after;

			p = next_key(p, end, g == guesses->member, &after);
			if (!p)
				return after;
			member = member_of(p);
			p = value_of(p, end);
			if (!p)
				return NULL;
			guess_learn(g, from, p, (int)member);
		}
		switch (member) {
		case MEMBER_PH:
			p = parse_phase(p, end, f);
			if (f->ph != 'X' && f->have & FIELD_PH)
				return pass_over(p, end, f);
			break;
		case MEMBER_CATEGORY:
			p = parse_category(p, end, f);
			if (f->category == CATEGORY_NONE && f->have & FIELD_CATEGORY)
				return pass_over(p, end, f);
			break;
		case MEMBER_NAME:
			p = parse_name(p, end, f);
			break;
		case MEMBER_PID:
			p = parse_id(p, end, &f->pid);
			f->have |= FIELD_PID;
			break;
		case MEMBER_TID:
			p = parse_id(p, end, &f->tid);
			f->have |= FIELD_TID;
			break;
		case MEMBER_TS:
			p = parse_time(p, end, f, FIELD_BAD_TS, &f->ts_ns);
			f->have |= FIELD_TS;
			break;
		case MEMBER_DUR:
			p = parse_time(p, end, f, FIELD_BAD_DUR, &f->dur_ns);
			f->have |= FIELD_DUR;
			break;
		case MEMBER_ARGS:
			if (*p == '{') {
				f->args = p + 1;
				f->have |= FIELD_ARGS;
				/* They come last as a rule: with all else known, on to the end. */
				if (!(~f->have & FIELDS_BEFORE_ARGS))
					return json_skip_object(p + 1, end, 2);
			}
			p = json_skip_value(p, end);
			break;
		default:
			p = json_skip_value(p, end);
			break;
		}
		if (!p)
			return NULL;
	}
}

/* --- arguments --- */

enum arg {
	ARG_OTHER,
	ARG_STREAM,
	ARG_DEVICE,
	ARG_CORRELATION,
	ARG_BYTES,
	ARG_BANDWIDTH,
	ARG_COLLECTIVE,
	ARG_GROUP,
	ARG_GROUP_DESC,
	ARG_RANKS,
	ARG_DTYPE,
	ARG_GROUP_SIZE,
	ARG_SEQ,
	ARG_IN,
	ARG_OUT,
	ARG_SRC,
	ARG_DST,
	ARG_RANK,
	ARG_DIMS,
	ARG_GRID,
};

static const struct word *const args[WORD_LEN_MAX + 1] = {
	[3] = WORDS({ "Seq", ARG_SEQ }),
	[4] = WORDS({ "size", ARG_BYTES }, { "Rank", ARG_RANK }, { "grid", ARG_GRID }),
	[5] = WORDS({ "bytes", ARG_BYTES }, { "dtype", ARG_DTYPE }),
	[6] = WORDS({ "stream", ARG_STREAM }, { "device", ARG_DEVICE }),
	[8] = WORDS({ "Src Rank", ARG_SRC }, { "Dst Rank", ARG_DST }),
	[10] = WORDS({ "Group size", ARG_GROUP_SIZE }, { "Input Dims", ARG_DIMS }),
	[11] = WORDS({ "correlation", ARG_CORRELATION }),
	[13] = WORDS({ "In msg nelems", ARG_IN }),
	[14] = WORDS({ "Out msg nelems", ARG_OUT }),
	[15] = WORDS({ "Collective name", ARG_COLLECTIVE }),
	[18] = WORDS({ "Process Group Name", ARG_GROUP }),
	[19] = WORDS({ "Process Group Ranks", ARG_RANKS }),
	[23] = WORDS({ "memory bandwidth (GB/s)", ARG_BANDWIDTH }),
	[25] = WORDS({ "Process Group Description", ARG_GROUP_DESC }),
};

/* The elements of one tensor or list of tensors: products of the innermost lists, summed. p is at
   the opening bracket; returns behind the closing one, NULL if this is no list of numbers. */
static const char *dims_elements(const char *p, const char *end, int64_t *ret)
{
	int64_t sum = 0, product = 1;
	unsigned depth = 0;
	bool leaf = false;

	do {
		int64_t v;

		if (*p == '[') {
			depth++;
			leaf = true; /* until another bracket opens inside */
			product = 1;
			p++;
		} else if (*p == ']') {
			if (leaf && __builtin_add_overflow(sum, product, &sum))
				return NULL;
			leaf = false;
			depth--;
			p++;
		} else if (*p >= '0' && *p <= '9') {
			if (json_number(&p, end, 0, &v) != JSON_NUMBER_GOOD ||
			    __builtin_mul_overflow(product, v, &product))
				return NULL;
		} else if (*p == ',' || (unsigned char)*p <= ' ') {
			p++;
		} else {
			return NULL;
		}
	} while (depth && p < end && depth < JSON_DEPTH_MAX);
	*ret = sum;
	return depth ? NULL : p;
}

static void parse_dims(const char *p, const char *end, struct event_fields *f)
{
	if (*p++ != '[')
		return;
	for (int i = 0; i < 2; i++) {
		p = json_skip_space(p, end);
		if (*p != '[')
			return;
		p = dims_elements(p, end, &f->dims_elements[i]);
		if (!p) {
			f->dims_elements[i] = -1;
			return;
		}
		p = json_skip_space(p, end);
		if (*p != ',')
			return;
		p++;
	}
}

/* Three numbers, "[128, 1, 1]": a launch with none of a dimension is no launch. */
static void parse_grid(const char *p, const char *end, struct event_fields *f)
{
	int64_t blocks = 1;

	if (*p++ != '[')
		return;
	for (int i = 0; i < 3; i++) {
		int64_t v;

		p = json_skip_space(p, end);
		if (json_number(&p, end, 0, &v) != JSON_NUMBER_GOOD || v <= 0 ||
		    __builtin_mul_overflow(blocks, v, &blocks))
			return;
		p = json_skip_space(p, end);
		if (*p++ != (i < 2 ? ',' : ']'))
			return;
	}
	f->blocks = (uint64_t)blocks;
}

static uint32_t intern_value(struct intern *names, const char *p, size_t len)
{
	bool bad, plain = true;
	char *text;
	uint32_t id;

	if (len >= 2 && *p == '"') {
		p++;
		len -= 2;
		plain = !memchr(p, '\\', len) && !memchr(p, 0, len);
	}
	if (plain)
		return intern(names, p, len);
	text = xmalloc(len + 4);
	id = intern(names, text, json_unescape(text, p, len, &bad));
	free(text);
	return id;
}

static int32_t small(int64_t v)
{
	return v >= 0 && v <= INT32_MAX ? (int32_t)v : -1;
}

/* A number among the arguments; what is none there leaves *ret alone. */
static bool arg_number(const char *p, const char *end, struct event_fields *f, int64_t *ret)
{
	int64_t v;
	enum json_number r = json_number(&p, end, 0, &v);

	f->bad_numbers += r == JSON_NUMBER_BAD;
	if (r == JSON_NUMBER_GOOD)
		*ret = v;
	return r == JSON_NUMBER_GOOD;
}

static void arg_value(struct event_fields *f, struct intern *names, enum arg arg, const char *p,
		      const char *end, size_t len)
{
	struct comm_args *c = &f->comm;
	int64_t v = -1;

	switch (arg) {
	case ARG_COLLECTIVE:
		if (*p == '"') {
			f->have |= FIELD_COLLECTIVE;
			f->collective = p + 1;
			f->collective_len = len - 2;
		}
		return;
	case ARG_GROUP:
		c->group = intern_value(names, p, len);
		return;
	case ARG_GROUP_DESC:
		c->group_desc = intern_value(names, p, len);
		return;
	case ARG_RANKS:
		c->ranks = intern_value(names, p, len);
		return;
	case ARG_DTYPE:
		c->dtype = intern_value(names, p, len);
		return;
	case ARG_DIMS:
		parse_dims(p, end, f);
		return;
	case ARG_GRID:
		parse_grid(p, end, f);
		return;
	default:
		break;
	}
	if (!arg_number(p, end, f, &v))
		return;
	switch (arg) {
	case ARG_STREAM:
		f->stream = v;
		f->have |= FIELD_STREAM;
		break;
	case ARG_DEVICE:
		f->device = v;
		f->have |= FIELD_DEVICE;
		break;
	case ARG_CORRELATION:
		f->correlation = v > 0 ? (uint64_t)v : 0;
		f->have |= FIELD_CORRELATION;
		break;
	case ARG_BYTES:
		f->bytes = v > 0 ? (uint64_t)v : 0;
		break;
	case ARG_GROUP_SIZE:
		c->group_size = v > 0 && v <= INT32_MAX ? (uint32_t)v : 0;
		break;
	case ARG_SEQ:
		c->seq = MAX(v, -1);
		break;
	case ARG_IN:
		c->in_elements = MAX(v, -1);
		break;
	case ARG_OUT:
		c->out_elements = MAX(v, -1);
		break;
	case ARG_SRC:
		f->src = small(v);
		break;
	case ARG_DST:
		f->dst = small(v);
		break;
	case ARG_RANK:
		c->self = small(v);
		break;
	default:
		break;
	}
}

/* Behind the value at p, which is of no interest or was taken; most are short numbers. */
static inline const char *pass_value(const char *p, const char *end)
{
	unsigned n = json_digits_in(json_load64(p));

	if (n - 1 < 7 && (p[n] == ',' || p[n] == '}' || (unsigned char)p[n] <= ' '))
		return p + n;
	return json_skip_value(p, end);
}

static bool args_walk(const char *end, struct intern *names, struct key_guess *guess,
		      struct event_fields *f)
{
	const char *p = f->args;

	for (struct key_guess *g = guess;; g += g < &guess[GUESS_ARGS - 1]) {
		const char *value;
		enum arg arg;

		if (g->len && guess_fits(g, p)) {
			arg = (enum arg)g->meaning;
			value = p + g->len;
		} else {
			const char *key = next_key(p, end, g == guess, &value);
			bool plain;

			if (!key)
				return value != NULL;
			value = json_string_end(key + 1, end, &plain);
			if (!value)
				return false;
			arg = (enum arg)meaning_of(args, key + 1, (size_t)(value - key - 1));
			value = behind_colon(value, end);
			if (!value)
				return false;
			guess_learn(g, p, value, (int)arg);
		}
		p = pass_value(value, end);
		if (!p)
			return false;
		if (arg != ARG_OTHER)
			arg_value(f, names, arg, value, end, (size_t)(p - value));
	}
}

bool event_args(const char *end, struct intern *names, struct key_guesses *guesses,
		struct event_fields *f)
{
	f->comm = comm_args_unknown();
	f->correlation = f->bytes = f->blocks = 0;
	f->src = f->dst = -1;
	f->dims_elements[0] = f->dims_elements[1] = -1;
	if (!(f->have & FIELD_ARGS))
		return true;
	return args_walk(end, names, guesses->arg[f->category], f);
}
