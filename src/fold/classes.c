/* SPDX-License-Identifier: Apache-2.0 */
/*
 * classes.c - what the name of a range, operator or function says about it.
 *
 * People name their ranges freely, so words are compared whole and without case: "data" is the data
 * loader's, "DistributedDataParallel.forward" and "torch/utils/data/x.py" are not.
 */
#include "fold/inside.h"

#include <ctype.h>

static const char *const data_words[] = {
	"data",	      "dataloader",  "data_loader",  "load_batch",  "get_batch",
	"next_batch", "fetch_batch", "data_wait",    "data_load",   "load_data",
	"get_data",   "fetch_data",  "data_loading", "dataloading", "data_time",
};
static const char *const save_words[] = {
	"checkpoint", "checkpointing", "save",	     "save_checkpoint",
	"ckpt",	      "save_model",    "save_state",
};
static const char *const eval_words[] = { "eval", "evaluate", "evaluation", "validation",
					  "validate" };
static const char *const compile_parts[] = {
	"dynamo_timed", "inductor_compile", "async_compile", "compile_fx",   "nvrtc",
	"cuModuleLoad", "cuLibraryLoad",    "hipModuleLoad", "compile_file",
};
static const char *const io_words[] = {
	"read", "write", "recv",      "recv_into", "recv_bytes", "connect", "accept",	"select",
	"poll", "fsync", "fdatasync", "open",	   "flush",	 "sendall", "readinto", "sleep",
};

static bool word_byte(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static bool has_word(const char *s, size_t len, const char *const *words, size_t n)
{
	for (size_t i = 0; i < len;) {
		size_t from;

		while (i < len && !word_byte(s[i]))
			i++;
		for (from = i; i < len && word_byte(s[i]); i++)
			;
		for (size_t w = 0; w < n && i > from; w++)
			if (strlen(words[w]) == i - from &&
			    !strncasecmp(s + from, words[w], i - from))
				return true;
	}
	return false;
}

static bool has_part(const char *s, size_t len, const char *part)
{
	return memmem(s, len, part, strlen(part)) != NULL;
}

static bool starts(const char *s, size_t len, const char *with)
{
	return len >= strlen(with) && !memcmp(s, with, strlen(with));
}

static bool is_compile(const char *s, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(compile_parts); i++)
		if (has_part(s, len, compile_parts[i]))
			return true;
	/* "## Call CompiledFxGraph" runs a graph that was compiled before. */
	if (has_part(s, len, "CompiledFxGraph") && !has_part(s, len, "Call CompiledFxGraph"))
		return true;
	return has_part(s, len, "triton") && has_part(s, len, "compile");
}

static uint16_t classify_library(const char *s, size_t len)
{
	uint16_t class = 0;

	if (starts(s, len, "ProfilerStep#"))
		class |= NAME_STEP;
	if (starts(s, len, "record_param_comms"))
		class |= NAME_PARAM;
	if (starts(s, len, "c10d::"))
		class |= has_part(s, len, "wait") ? NAME_WAITING : NAME_CALL;
	if (has_part(s, len, "c10d_functional::") || has_part(s, len, "wait_tensor"))
		class |= NAME_WAITING;
	if (comm_op_of_kernel(s, len) != COMM_NONE)
		class |= NAME_NCCL;
	if (starts(s, len, "nccl:") || starts(s, len, "rccl:"))
		class |= NAME_RANGE;
	return class;
}

uint16_t name_classify(const char *s, size_t len)
{
	uint16_t class = NAME_KNOWN | classify_library(s, len);
	const char *function = memmem(s, len, "): ", 3); /* "file.py(12): function" */
	const char *word = function ? function + 3 : s;
	size_t word_len = len - (size_t)(word - s);
	bool loader = has_part(s, len, "dataloader") || has_part(s, len, "DataLoader");

	if (starts(s, len, "enumerate(DataLoader)") || (loader && has_part(s, len, "__next__")) ||
	    has_word(word, word_len, data_words + (function ? 1 : 0),
		     ARRAY_SIZE(data_words) - (function ? 1 : 0)))
		class |= NAME_DATA;
	/* A function called "checkpoint" recomputes activations; one called "save" saves. */
	if (has_word(word, word_len, save_words + (function ? 2 : 0),
		     ARRAY_SIZE(save_words) - (function ? 2 : 0)))
		class |= NAME_SAVE;
	if (has_word(word, word_len, eval_words, ARRAY_SIZE(eval_words)))
		class |= NAME_EVAL;
	if (is_compile(s, len))
		class |= NAME_COMPILE;
	if ((len == 2 && starts(s, len, "gc")) || has_part(s, len, "Python GC") ||
	    starts(s, len, "gc.collect") || has_part(s, len, "built-in function collect") ||
	    has_part(s, len, "method collect of"))
		class |= NAME_GC;
	if (starts(s, len, "<built-in") && has_word(s, len, io_words, ARRAY_SIZE(io_words)))
		class |= NAME_IO;
	return class;
}
