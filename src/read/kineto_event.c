/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kineto_event.c - the hot half of the Kineto reader: the members of one event.
 *
 * Most events of a trace are of no interest (flows, metadata, instants), and of the others most
 * arguments are not: all these are skipped by json_skip_object, never parsed. Invariant: p moves
 * forward only, and nothing behind `end` but the padding is ever believed.
 */
#include "read/kineto_event.h"

static const struct {
	const char *text;
	enum category category;
} categories[] = {
	{ "kernel", CATEGORY_KERNEL },
	{ "Kernel", CATEGORY_KERNEL },
	{ "gpu_memcpy", CATEGORY_COPY },
	{ "Memcpy", CATEGORY_COPY },
	{ "gpu_memset", CATEGORY_SET },
	{ "Memset", CATEGORY_SET },
	{ "mtia_ccp_events", CATEGORY_MTIA },
	{ "cuda_runtime", CATEGORY_RUNTIME },
	{ "cuda_driver", CATEGORY_RUNTIME },
	{ "Runtime", CATEGORY_RUNTIME },
	{ "runtime", CATEGORY_RUNTIME },
	{ "hip_runtime", CATEGORY_RUNTIME },
	{ "mtia_runtime", CATEGORY_RUNTIME },
	{ "xpu_runtime", CATEGORY_RUNTIME },
	{ "xpu_driver", CATEGORY_RUNTIME },
	{ "privateuse1_runtime", CATEGORY_RUNTIME },
	{ "privateuse1_driver", CATEGORY_RUNTIME },
	{ "user_annotation", CATEGORY_ANNOTATION },
	{ "gpu_user_annotation", CATEGORY_GPU_ANNOTATION },
	{ "cpu_op", CATEGORY_OP },
	{ "Operator", CATEGORY_OPERATOR },
	{ "python_function", CATEGORY_PYTHON },
	{ "PythonFunction", CATEGORY_PYTHON },
};

static enum category category_of(const char *s, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(categories); i++)
		if (*s == *categories[i].text && strlen(categories[i].text) == len &&
		    !memcmp(s, categories[i].text, len))
			return categories[i].category;
	return CATEGORY_NONE;
}

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

/* Which member a key is; *len is set for those that we know. */
static inline enum field_bit field_of(const char *key, size_t *len)
{
	uint32_t w = load32(key);

	*len = 3;
	switch (w) {
	case WORD('c', 'a', 't', '"'):
		return FIELD_CATEGORY;
	case WORD('p', 'i', 'd', '"'):
		return FIELD_PID;
	case WORD('t', 'i', 'd', '"'):
		return FIELD_TID;
	case WORD('d', 'u', 'r', '"'):
		return FIELD_DUR;
	case WORD('n', 'a', 'm', 'e'):
		*len = 4;
		return key[4] == '"' ? FIELD_NAME : 0;
	case WORD('a', 'r', 'g', 's'):
		*len = 4;
		return key[4] == '"' ? FIELD_ARGS : 0;
	default:
		break;
	}
	*len = 2;
	w &= WORD_FIRST3;
	if (w == (WORD('p', 'h', '"', 0) & WORD_FIRST3))
		return FIELD_PH;
	if (w == (WORD('t', 's', '"', 0) & WORD_FIRST3))
		return FIELD_TS;
	return 0;
}

/* Behind the colon and white space; p is at the key's closing quote. */
static inline const char *behind_colon(const char *p, const char *end)
{
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

static const char *parse_time(const char *p, const char *end, struct event_fields *f,
			      enum field_bit field)
{
	int64_t v = 0;
	enum json_number r = json_time_ns(&p, end, &v);

	if (field == FIELD_TS)
		f->ts_ns = v;
	else
		f->dur_ns = v;
	if (r == JSON_NUMBER_GOOD)
		return p;
	f->have |= field == FIELD_TS ? FIELD_BAD_TS : FIELD_BAD_DUR;
	f->bad_numbers += r == JSON_NUMBER_BAD;
	return *p == ',' || *p == '}' || (unsigned char)*p <= ' ' ? p : json_skip_value(p, end);
}

static const char *parse_text(const char *p, const char *end, struct event_fields *f,
			      enum field_bit field)
{
	bool plain;
	const char *s = p + 1;

	if (*p != '"')
		return json_skip_value(p, end);
	p = json_string_end(s, end, &plain);
	if (!p)
		return NULL;
	if (field == FIELD_NAME) {
		f->name = s;
		f->name_len = (size_t)(p - s);
		f->name_plain = plain;
	} else if (field == FIELD_CATEGORY) {
		f->category = category_of(s, (size_t)(p - s));
	} else {
		f->ph = *s;
	}
	f->have |= field;
	return p + 1;
}

#define FIELDS_BEFORE_ARGS                                                                         \
	(FIELD_PH | FIELD_CATEGORY | FIELD_NAME | FIELD_PID | FIELD_TID | FIELD_TS | FIELD_DUR)

static const char *parse_member(const char *p, const char *end, struct event_fields *f,
				enum field_bit field)
{
	switch (field) {
	case FIELD_PH:
	case FIELD_CATEGORY:
	case FIELD_NAME:
		return parse_text(p, end, f, field);
	case FIELD_TS:
	case FIELD_DUR:
		f->have |= field;
		return parse_time(p, end, f, field);
	case FIELD_PID:
		f->have |= field;
		return parse_identity(p, end, &f->pid);
	case FIELD_TID:
		f->have |= field;
		return parse_identity(p, end, &f->tid);
	case FIELD_ARGS:
		if (*p == '{') {
			f->have |= field;
			f->args = p + 1;
		}
		return json_skip_value(p, end);
	default:
		return json_skip_value(p, end);
	}
}

const char *event_parse(const char *p, const char *end, struct event_fields *f)
{
	f->have = 0;
	f->ph = 0;
	f->category = CATEGORY_NONE;
	f->bad_numbers = 0;
	for (;;) {
		enum field_bit field;
		size_t len;
		bool plain;

		p = json_skip_space(p, end);
		if (*p != '"')
			return *p == '}' ? p + 1 : NULL; /* empty, or a comma too many */
		field = field_of(p + 1, &len);
		p = field ? p + 1 + len : json_string_end(p + 1, end, &plain);
		if (!p)
			return NULL;
		p = behind_colon(p, end);
		if (!p)
			return NULL;
		/* The arguments come last as a rule: with all else known, on to the end. */
		if (field == FIELD_ARGS && *p == '{' &&
		    (f->have & FIELDS_BEFORE_ARGS) == FIELDS_BEFORE_ARGS) {
			f->have |= FIELD_ARGS;
			f->args = p + 1;
			return json_skip_object(p + 1, end, 2);
		}
		p = parse_member(p, end, f, field);
		if (!p)
			return NULL;
		/* Flows, metadata, instants, and categories of no use. */
		if ((f->have & FIELD_PH && f->ph != 'X') ||
		    (f->have & FIELD_CATEGORY && f->category == CATEGORY_NONE)) {
			f->ph = 0;
			return json_skip_object(p, end, 1);
		}
		p = json_skip_space(p, end);
		if (*p == '}')
			return p + 1;
		if (*p != ',')
			return NULL;
		p++;
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
};

static const struct {
	const char *key;
	enum arg arg;
} args[] = {
	{ "stream", ARG_STREAM },
	{ "device", ARG_DEVICE },
	{ "correlation", ARG_CORRELATION },
	{ "bytes", ARG_BYTES },
	{ "size", ARG_BYTES },
	{ "memory bandwidth (GB/s)", ARG_BANDWIDTH },
	{ "Collective name", ARG_COLLECTIVE },
	{ "Process Group Name", ARG_GROUP },
	{ "Process Group Description", ARG_GROUP_DESC },
	{ "Process Group Ranks", ARG_RANKS },
	{ "dtype", ARG_DTYPE },
	{ "Group size", ARG_GROUP_SIZE },
	{ "Seq", ARG_SEQ },
	{ "In msg nelems", ARG_IN },
	{ "Out msg nelems", ARG_OUT },
	{ "Src Rank", ARG_SRC },
	{ "Dst Rank", ARG_DST },
	{ "Rank", ARG_RANK },
	{ "Input Dims", ARG_DIMS },
};

static enum arg arg_of(const char *key, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(args); i++)
		if (*key == *args[i].key && strlen(args[i].key) == len &&
		    !memcmp(key, args[i].key, len))
			return args[i].arg;
	return ARG_OTHER;
}

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
	case ARG_DST:
		c->peer = small(v);
		break;
	case ARG_RANK:
		c->self = small(v);
		break;
	default:
		break;
	}
}

bool event_args(const char *end, struct intern *names, struct event_fields *f)
{
	const char *p = f->args;

	f->comm = (struct comm_args){ .group = NO_ID,
				      .group_desc = NO_ID,
				      .ranks = NO_ID,
				      .dtype = NO_ID,
				      .seq = -1,
				      .in_elements = -1,
				      .out_elements = -1,
				      .peer = -1,
				      .self = -1 };
	f->correlation = f->bytes = 0;
	f->dims_elements[0] = f->dims_elements[1] = -1;
	if (!(f->have & FIELD_ARGS))
		return true;
	for (;;) {
		const char *key, *value;
		enum arg arg;
		bool plain;

		p = json_skip_space(p, end);
		if (*p != '"')
			return *p == '}';
		key = p + 1;
		p = json_string_end(key, end, &plain);
		if (!p)
			return false;
		arg = arg_of(key, (size_t)(p - key));
		value = behind_colon(p, end);
		p = value ? json_skip_value(value, end) : NULL;
		if (!p)
			return false;
		if (arg != ARG_OTHER)
			arg_value(f, names, arg, value, end, (size_t)(p - value));
		p = json_skip_space(p, end);
		if (*p == ',')
			p++;
		else if (*p != '}')
			return false;
	}
}
