/* SPDX-License-Identifier: Apache-2.0 */
/*
 * event.c - what communication is called, by libraries of ten years.
 *
 * Two kinds of names come here. Calls ("allreduce", "nccl:_all_gather_base", "c10d::barrier") are
 * compared whole, once case, underscores and the variants' endings are gone: "reduce" is a
 * collective, "aten::reduce" and "reduce_kernel" are not. Kernels are communication only if a
 * communication library's mark stands in their name; then the first operation in it counts.
 */
#include "model/event.h"

static const char *const op_names[COMM_OPS] = {
	[COMM_NONE] = "none",
	[COMM_ALL_REDUCE] = "all_reduce",
	[COMM_ALL_GATHER] = "all_gather",
	[COMM_REDUCE_SCATTER] = "reduce_scatter",
	[COMM_ALL_TO_ALL] = "all_to_all",
	[COMM_BROADCAST] = "broadcast",
	[COMM_REDUCE] = "reduce",
	[COMM_GATHER] = "gather",
	[COMM_SCATTER] = "scatter",
	[COMM_BARRIER] = "barrier",
	[COMM_SEND] = "send",
	[COMM_RECV] = "recv",
	[COMM_SEND_RECV] = "send_recv",
	[COMM_OTHER] = "other",
};

const char *comm_op_name(enum comm_op op)
{
	return (unsigned)op < COMM_OPS ? op_names[op] : op_names[COMM_OTHER];
}

bool comm_op_leaves_together(enum comm_op op)
{
	return op == COMM_ALL_REDUCE || op == COMM_ALL_GATHER || op == COMM_REDUCE_SCATTER ||
	       op == COMM_ALL_TO_ALL || op == COMM_BARRIER;
}

#define NAME_MAX_LEN 64u /* of a call, squeezed; longer ones are no calls */

struct op_word {
	const char *word; /* lower case, no underscores */
	enum comm_op op;
};

/* In this order: a name may hold several, as "reducescatter" holds "reduce" and "scatter". */
static const struct op_word op_words[] = {
	{ "reducescatter", COMM_REDUCE_SCATTER },
	{ "allreduce", COMM_ALL_REDUCE },
	{ "allgather", COMM_ALL_GATHER },
	{ "alltoall", COMM_ALL_TO_ALL },
	{ "sendrecv", COMM_SEND_RECV },
	{ "broadcast", COMM_BROADCAST },
	{ "barrier", COMM_BARRIER },
	{ "reduce", COMM_REDUCE },
	{ "gather", COMM_GATHER },
	{ "scatter", COMM_SCATTER },
	{ "send", COMM_SEND },
	{ "recv", COMM_RECV },
	{ "monitoredbarrier", COMM_BARRIER },
	{ "allreducebarrier", COMM_BARRIER }, /* NCCL has none of its own */
	{ "recvanysource", COMM_RECV },
	{ "coalesced",
	  COMM_SEND_RECV }, /* batches of sends and receives, unless the kernel says more */
};

/* What torch hangs on an operation's name for its variants. */
static const char *const op_endings[] = { "coalesced", "intotensor", "tensor", "single", "sparse",
					  "base",      "out",	     "oop",    "v" };

/* Lower case without underscores, up to the first character that no name of a call has. */
static size_t squeeze(char dst[NAME_MAX_LEN], const char *s, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		char c = s[i];

		if (c == '_')
			continue;
		if (c >= 'A' && c <= 'Z')
			c = (char)(c + 'a' - 'A');
		if (c == ' ' || c == '(' || c == '#')
			break;
		if (n == NAME_MAX_LEN || ((c < 'a' || c > 'z') && (c < '0' || c > '9')))
			return 0;
		dst[n++] = c;
	}
	return n;
}

static enum comm_op op_of_whole(const char *s, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(op_words); i++)
		if (strlen(op_words[i].word) == len && !memcmp(op_words[i].word, s, len))
			return op_words[i].op;
	return COMM_NONE;
}

static bool cut_ending(const char *s, size_t *len)
{
	for (size_t i = 0; i < ARRAY_SIZE(op_endings); i++) {
		size_t n = strlen(op_endings[i]);

		if (*len > n && !memcmp(s + *len - n, op_endings[i], n)) {
			*len -= n;
			return true;
		}
	}
	return false;
}

static enum comm_op op_of_call(const char *s, size_t len)
{
	char name[NAME_MAX_LEN];
	size_t n = squeeze(name, s, len);
	enum comm_op op = op_of_whole(name, n);

	while (op == COMM_NONE && cut_ending(name, &n))
		op = op_of_whole(name, n);
	return op;
}

/*
 * How the names of communication kernels begin (behind "void "). All-reduces that inference engines
 * write themselves (cross_device_reduce and its like) are not among them: they belong to no group
 * and have no sequence, so there is nothing to pair them by.
 */
static const char *const kernel_marks[] = {
	"ncclKernel_",	 "ncclDevKernel", "ncclDevFunc",
	"ncclSym",	 "ncclAllReduce", /* 2.4 to 2.7: ncclAllReduceRingLLKernel_sum_f32 */
	"ncclAllGather", "ncclReduce",	  "ncclBroadcast",
	"ncclSendRecv",	 "rcclKernel",	  "rcclDevKernel",
	"mscclKernel",	 "mscclpp",	  "msccl::",
};

static bool starts_with(const char *s, size_t len, const char *prefix)
{
	size_t n = strlen(prefix);

	return len >= n && !memcmp(s, prefix, n);
}

/* The first operation in a kernel's name, in front of its parameters. */
static enum comm_op op_in_kernel(const char *s, size_t len)
{
	const char *paren = memchr(s, '(', len);
	char name[4 * NAME_MAX_LEN];
	size_t n = 0;

	len = paren ? (size_t)(paren - s) : len;
	for (size_t i = 0; i < len && n < sizeof(name); i++)
		if (s[i] != '_')
			name[n++] = (char)(s[i] >= 'A' && s[i] <= 'Z' ? s[i] + 'a' - 'A' : s[i]);
	for (size_t i = 0; i < ARRAY_SIZE(op_words); i++)
		if (memmem(name, n, op_words[i].word, strlen(op_words[i].word)))
			return op_words[i].op;
	return COMM_OTHER;
}

enum comm_op comm_op_of_kernel(const char *s, size_t len)
{
	const char *start = s;
	size_t start_len = len;

	if (starts_with(s, len, "void ")) {
		start += 5;
		start_len -= 5;
	}
	for (size_t i = 0; i < ARRAY_SIZE(kernel_marks); i++)
		if (starts_with(start, start_len, kernel_marks[i]))
			return op_in_kernel(start, start_len);
	return COMM_NONE;
}

/* Libraries whose calls are written "library:operation". */
static const char *const backends[] = { "nccl:", "rccl:", "gloo:", "mpi:",  "ucc:",  "hccl:",
					"xccl:", "ccl:",  "cncl:", "eccl:", "c10d::" };

enum comm_op comm_op_of(const char *name, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(backends); i++) {
		size_t n = strlen(backends[i]);

		if (starts_with(name, len, backends[i])) {
			enum comm_op op = op_of_call(name + n, len - n);

			/* c10d:: has calls that are no communication; the others' are all. */
			return op || backends[i][n - 2] == ':' ? op : COMM_OTHER;
		}
	}
	if (len <= NAME_MAX_LEN) {
		enum comm_op op = op_of_call(name, len);

		if (op != COMM_NONE)
			return op;
	}
	return comm_op_of_kernel(name, len);
}

static const char *const skip_texts[SKIP_REASONS] = {
	[SKIP_TRUNCATED] = "truncated",
	[SKIP_MALFORMED] = "malformed",
	[SKIP_BAD_TIME] = "bad_time",
	[SKIP_BAD_DURATION] = "bad_duration",
	[SKIP_BAD_NUMBER] = "bad_number",
	[SKIP_BAD_TEXT] = "bad_text",
	[SKIP_TOO_DEEP] = "too_deep",
	[SKIP_TOO_LONG] = "too_long",
	[SKIP_UNPAIRED] = "unpaired",
	[SKIP_NO_STEP] = "no_step",
	[SKIP_LATE] = "late",
};

const char *skip_reason_text(enum skip_reason reason)
{
	return (unsigned)reason < SKIP_REASONS ? skip_texts[reason] : "unknown";
}
