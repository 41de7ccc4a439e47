/* SPDX-License-Identifier: Apache-2.0 */
/* unit.c - what an input's `events` are, by its format. */
#include "show/show.h"

#include <string.h>

static const struct {
	const char *format; /* the format's name begins with it */
	const char *one, *many;
} units[] = {
	{ "kineto", "event", "events" },
	{ "lks", "event", "events" },
	{ "flight-recorder", "entry", "entries" },
	{ "log", "line of interest", "lines of interest" },
	{ "events", "event", "events" },
	{ "torchelastic-error", "exception", "exceptions" },
	{ "ras", "rank", "ranks" },
	{ "ncclras", "rank", "ranks" },
	{ "inspector", "operation", "operations" },
	{ "nccl-inspector", "operation", "operations" },
	{ "py-spy", "thread", "threads" },
	{ "gdb", "thread", "threads" },
	{ "faulthandler", "thread", "threads" },
	{ "kernel-stacks", "thread", "threads" },
	{ "stacks", "thread", "threads" },
};

const char *show_unit(const char *format, bool one)
{
	for (size_t i = 0; format && i < ARRAY_SIZE(units); i++)
		if (!strncmp(format, units[i].format, strlen(units[i].format)))
			return one ? units[i].one : units[i].many;
	return one ? "sample" : "samples";
}
