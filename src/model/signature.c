/* SPDX-License-Identifier: Apache-2.0 */
/* signature.c - see signature.h; the table says for each operation which sizes must agree. */
#include "model/signature.h"

#include <stdio.h>

enum side {
	SIDE_IN = 1,
	SIDE_OUT = 2,
	SIDE_EITHER = 4, /* ranks may differ in one direction as long as the other agrees */
	SIDE_DTYPE = 8,
};

static const unsigned char compared[COMM_OPS] = {
	[COMM_ALL_REDUCE] = SIDE_IN | SIDE_OUT | SIDE_DTYPE,
	[COMM_ALL_GATHER] = SIDE_IN | SIDE_OUT | SIDE_EITHER | SIDE_DTYPE,
	[COMM_REDUCE_SCATTER] = SIDE_IN | SIDE_OUT | SIDE_EITHER | SIDE_DTYPE,
	[COMM_ALL_TO_ALL] = SIDE_DTYPE,
	[COMM_BROADCAST] = SIDE_OUT,
	[COMM_REDUCE] = SIDE_IN | SIDE_DTYPE,
	[COMM_GATHER] = SIDE_IN,
	[COMM_SCATTER] = SIDE_OUT,
};

const char *mismatch_name(enum mismatch m)
{
	static const char *const names[] = { "none", "operation", "size", "dtype" };

	return names[m];
}

/* 1: differ, 0: equal or unknown, -1: equal and known */
static int differ(int64_t a, int64_t b)
{
	if (a < 0 || b < 0)
		return 0;
	return a == b ? -1 : 1;
}

static bool sizes_differ(unsigned sides, const struct signature *a, const struct signature *b)
{
	int in = sides & SIDE_IN ? differ(a->in_elements, b->in_elements) : 0;
	int out = sides & SIDE_OUT ? differ(a->out_elements, b->out_elements) : 0;

	if (sides & SIDE_EITHER)
		return (in == 1 && out != -1) || (out == 1 && in != -1);
	return in == 1 || out == 1;
}

static bool dtypes_differ(const struct intern *names, uint32_t a, uint32_t b)
{
	return a != b && a != NO_ID && b != NO_ID && intern_len(names, a) && intern_len(names, b);
}

/* The watchdog calls a barrier what it is to NCCL, an all-reduce of one element, and lists no
 * sizes.
 */
static bool is_said_barrier(const struct signature *a, const struct signature *b)
{
	return a->op == COMM_BARRIER && b->op == COMM_ALL_REDUCE && b->in_elements == 1 &&
	       b->in_sizes == NO_ID;
}

enum mismatch signature_compare(const struct intern *names, const struct signature *a,
				const struct signature *b)
{
	unsigned sides;

	if (is_said_barrier(a, b) || is_said_barrier(b, a))
		return MISMATCH_NONE;
	if (a->op != b->op && a->op != COMM_NONE && b->op != COMM_NONE && a->op != COMM_OTHER &&
	    b->op != COMM_OTHER)
		return MISMATCH_OPERATION;
	if ((a->op == COMM_OTHER || b->op == COMM_OTHER) && a->name != b->name &&
	    a->name != NO_ID && b->name != NO_ID)
		return MISMATCH_OPERATION;
	if (a->op != b->op || a->op >= COMM_OPS)
		return MISMATCH_NONE;
	sides = compared[a->op];
	if (sizes_differ(sides, a, b))
		return MISMATCH_SIZE;
	if (sides & SIDE_DTYPE && (dtypes_differ(names, a->in_dtypes, b->in_dtypes) ||
				   dtypes_differ(names, a->out_dtypes, b->out_dtypes)))
		return MISMATCH_DTYPE;
	return MISMATCH_NONE;
}

/* The first of "Float, Float"; all tensors of an operation have one type nearly always. */
static int first_dtype(const struct intern *names, uint32_t dtypes, const char **ret)
{
	*ret = intern_get(names, dtypes);
	return (int)strcspn(*ret, ",");
}

const char *signature_words(const struct intern *names, const struct signature *s, char *buf,
			    size_t size)
{
	int64_t elements = s->op == COMM_REDUCE_SCATTER || s->op == COMM_SCATTER ? s->out_elements
										 : s->in_elements;
	const char *op = s->op == COMM_OTHER && s->name != NO_ID ? intern_get(names, s->name)
								 : comm_op_name(s->op);
	const char *dtype;
	int n, len;

	if (elements < 0)
		elements = MAX(s->in_elements, s->out_elements);
	if (s->op == COMM_SEND && s->target >= 0)
		n = snprintf(buf, size, "send to its rank %d", (int)s->target);
	else if (s->op == COMM_RECV && s->source >= 0)
		n = snprintf(buf, size, "recv from its rank %d", (int)s->source);
	else
		n = snprintf(buf, size, "%s", op);
	if (n < 0 || (size_t)n >= size || s->op == COMM_BARRIER || elements < 0)
		return buf;
	if (!elements) { /* a tensor of no elements, or none at all */
		if (s->in_sizes != NO_ID && strchr(intern_get(names, s->in_sizes), '0'))
			snprintf(buf + n, size - (size_t)n, " of no elements");
		return buf;
	}
	len = first_dtype(names, s->in_dtypes, &dtype);
	snprintf(buf + n, size - (size_t)n, " of %" PRId64 " %.*s", elements,
		 len ? len : (elements == 1 ? 7 : 8),
		 len ? dtype : (elements == 1 ? "element" : "elements"));
	return buf;
}
