/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_preflight.c - whatever nodes give, there is a verdict, which prints within its columns; and
 * what nvidia-smi, rocm-smi, the kernel and configurations say never harms.
 *
 * The first byte chooses. Parts of nodes are lines; one that begins with '!' was lost, '?' absent,
 * '#' an impostor's.
 */
#include "fuzz_source.h"

#include <stdio.h>

#include "preflight/preflight_gpus.h"

#define NODES_MOST 16u

static void check_columns(const char *text)
{
	size_t n = 0;

	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		fuzz_check(c >= ' ' || c == '\n');
		n = c == '\n' ? 0 : n + ((c & 0xc0) != 0x80);
		fuzz_check(n <= 100);
	}
}

static void judge(const char *text, size_t len)
{
	static const char *const marks = "!?#";
	static const enum meet_presence presence[] = { MEET_LOST, MEET_ABSENT, MEET_IMPOSTOR };
	struct meet_part parts[NODES_MOST] = { 0 };
	struct preflight_plan plan;
	json_t *verdict;
	size_t n = 0, size;
	char *out, names[NODES_MOST][16];
	FILE *f;

	for (const char *end = text + len; text < end && n < NODES_MOST; n++) {
		const char *line = memchr(text, '\n', (size_t)(end - text)), *mark;
		struct meet_part *p = &parts[n];

		line = line ? line : end;
		mark = line > text && *text ? strchr(marks, *text) : NULL;
		snprintf(names[n], sizeof(names[n]), "n%zu", n);
		*p = (struct meet_part){ .node = (uint32_t)n,
					 .name = names[n],
					 .presence = mark ? presence[mark - marks] : MEET_CAME,
					 .part = (const uint8_t *)text,
					 .part_len = (size_t)(line - text),
					 .clock_ns = n % 3 ? (int64_t)n * 400000000 : INT64_MIN };
		text = line + (line < end);
	}
	preflight_plan_init(&plan);
	plan.world_size = 8;
	plan.blocks_per_step = 8;
	verdict = preflight_judge(&plan, parts, n);
	fuzz_check(preflight_status(verdict) >= 0 && preflight_status(verdict) <= 2);
	out = NULL;
	f = open_memstream(&out, &size);
	preflight_print(f, verdict, size % 2);
	fclose(f);
	check_columns(out);
	free(out);
	out = json_dumps(verdict, JSON_COMPACT);
	fuzz_check(out != NULL);
	free(out);
	json_decref(verdict);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *list = json_array(), *items = json_object();
	char *text = xmalloc(size + 1);

	if (size) {
		memcpy(text, data + 1, size - 1);
		text[size - 1] = 0;
	}
	switch (size ? *data : 0) {
	case 'p':
		judge(text, size - 1);
		break;
	case 's':
		nvidia_smi_gpus(text, list);
		break;
	case 'a':
		json_array_append_new(list, json_pack("{s:s,s:i}", "uuid", "GPU-0", "index", 0));
		nvidia_smi_processes(text, list);
		break;
	case 'r':
		rocm_smi_gpus(text, size - 1, list);
		break;
	case 'x':
		kernel_xids(text, 1000, list);
		break;
	case 'c':
		facts_of_config_text("f", text, size - 1, items);
		break;
	}
	fuzz_check(json_array_size(list) <= 256);
	json_decref(list);
	json_decref(items);
	free(text);
	return 0;
}
