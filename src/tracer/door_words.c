/* SPDX-License-Identifier: Apache-2.0 */
#include "tracer/door_words.h"

#include <string.h>

#include "tracer/door.h"

#define LETTERS 48 /* of a name that are looked at */

/* In the order in which they are tried. */
static const struct {
	const char *letters;
	bool prefix;
	uint8_t kind;
} phases[] = {
	{ "optimizerzerograd", true, RING_PHASE_USER },
	{ "optimizer", true, RING_PHASE_OPTIMIZER },
	{ "optimstep", true, RING_PHASE_OPTIMIZER },
	{ "optim", false, RING_PHASE_OPTIMIZER },
	{ "optstep", true, RING_PHASE_OPTIMIZER },
	{ "opt", false, RING_PHASE_OPTIMIZER },
	{ "weightupdate", false, RING_PHASE_OPTIMIZER },
	{ "updateweights", false, RING_PHASE_OPTIMIZER },
	{ "forwardbackward", true, RING_PHASE_USER }, /* both */
	{ "forward", true, RING_PHASE_FORWARD },
	{ "modelforward", false, RING_PHASE_FORWARD },
	{ "fwd", false, RING_PHASE_FORWARD },
	{ "fprop", false, RING_PHASE_FORWARD },
	{ "backward", true, RING_PHASE_BACKWARD },
	{ "modelbackward", false, RING_PHASE_BACKWARD },
	{ "lossbackward", false, RING_PHASE_BACKWARD },
	{ "bwd", false, RING_PHASE_BACKWARD },
	{ "bprop", false, RING_PHASE_BACKWARD },
	{ "data", false, RING_PHASE_DATA },
	{ "dataload", true, RING_PHASE_DATA },
	{ "datafetch", true, RING_PHASE_DATA },
	{ "loaddata", false, RING_PHASE_DATA },
	{ "getbatch", false, RING_PHASE_DATA },
	{ "loadbatch", false, RING_PHASE_DATA },
	{ "fetchbatch", false, RING_PHASE_DATA },
	{ "nextbatch", false, RING_PHASE_DATA },
	{ "batchgenerator", false, RING_PHASE_DATA },
	{ "enumeratedataloader", true, RING_PHASE_DATA },
	{ "savecheckpoint", true, RING_PHASE_CHECKPOINT },
	{ "checkpointsave", true, RING_PHASE_CHECKPOINT },
	{ "checkpoint", false, RING_PHASE_CHECKPOINT },
	{ "checkpointing", false, RING_PHASE_CHECKPOINT },
	{ "eval", false, RING_PHASE_EVALUATION },
	{ "evaluate", false, RING_PHASE_EVALUATION },
	{ "evaluation", false, RING_PHASE_EVALUATION },
	{ "validate", false, RING_PHASE_EVALUATION },
	{ "validation", true, RING_PHASE_EVALUATION },
	{ "compile", false, RING_PHASE_COMPILE },
	{ "compilation", false, RING_PHASE_COMPILE },
	{ "garbagecollect", true, RING_PHASE_GC },
	{ "gc", false, RING_PHASE_GC },
	{ "gccollect", false, RING_PHASE_GC },
};

static const char *const steps[] = {
	"step",
	"trainstep",
	"trainingstep",
	"globalstep",
	"profilerstep",
	"iteration",
	"iter",
	"trainiter",
	"batch",
	"trainiteration",
	"trainbatch",
	"trainingbatch",
	"runtrainingbatch",
	"trainingiteration",
};

static const struct {
	const char *name;
	uint8_t op;
} collectives[] = {
	{ "AllReduce", LOCKSTEP_OP_ALL_REDUCE },
	{ "AllGather", LOCKSTEP_OP_ALL_GATHER },
	{ "AlltoAll", LOCKSTEP_OP_ALL_TO_ALL },
	{ "AllToAll", LOCKSTEP_OP_ALL_TO_ALL },
	{ "Broadcast", LOCKSTEP_OP_BROADCAST },
	{ "Bcast", LOCKSTEP_OP_BROADCAST },
	{ "ReduceScatter", LOCKSTEP_OP_REDUCE_SCATTER },
	{ "Reduce", LOCKSTEP_OP_REDUCE },
	{ "Gather", LOCKSTEP_OP_GATHER },
	{ "Scatter", LOCKSTEP_OP_SCATTER },
	{ "Send", LOCKSTEP_OP_SEND },
	{ "Recv", LOCKSTEP_OP_RECV },
};

static uint8_t kind_of(const char *letters)
{
	for (size_t i = 0; i < sizeof(phases) / sizeof(*phases); i++) {
		const char *w = phases[i].letters;

		if (phases[i].prefix ? !strncmp(letters, w, strlen(w)) : !strcmp(letters, w))
			return phases[i].kind;
	}
	return RING_PHASE_USER;
}

static bool is_step(const char *letters)
{
	for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		if (!strcmp(letters, steps[i]))
			return true;
	}
	return false;
}

static void take_digits(struct word *w, const char *s, size_t len)
{
	unsigned runs = 0;
	size_t digits = 0;

	for (size_t i = 0; i < len; i++) {
		if (s[i] < '0' || s[i] > '9')
			continue;
		if (i == 0 || s[i - 1] < '0' || s[i - 1] > '9')
			runs++, w->number = 0, digits = 0;
		if (++digits <= 15)
			w->number = w->number * 10 + (s[i] - '0');
	}
	if (runs != 1 || digits > 15)
		w->number = -1;
}

struct word word_of(const char *s, size_t len)
{
	struct word w = { .number = -1, .stem = 2166136261u };
	char letters[LETTERS + 1];
	size_t n = 0;

	len = len > RING_NAME_MAX ? RING_NAME_MAX : len;
	for (size_t i = 0; i < len; i++) {
		char c = s[i] >= 'A' && s[i] <= 'Z' ? (char)(s[i] | 32) : s[i];

		if (c >= '0' && c <= '9')
			continue;
		w.stem = (w.stem ^ (uint8_t)c) * 16777619u;
		if (c >= 'a' && c <= 'z' && n < LETTERS)
			letters[n++] = c;
	}
	letters[n] = 0;
	take_digits(&w, s, len);
	w.kind = kind_of(letters);
	w.step = is_step(letters);
	return w;
}

uint8_t word_of_collective(const char *s, size_t len)
{
	if (len > 4 && !memcmp(s, "nccl", 4))
		s += 4, len -= 4;
	for (size_t i = 0; i < sizeof(collectives) / sizeof(*collectives); i++) {
		size_t n = strlen(collectives[i].name);

		if (len >= n && !memcmp(s, collectives[i].name, n))
			return collectives[i].op;
	}
	return LOCKSTEP_OP_UNKNOWN;
}
