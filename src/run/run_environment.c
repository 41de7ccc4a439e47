/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_environment.c - what CMD is told by its environment: the Flight Recorder on, its dumps into
 * the attempt's folder, its pipes where collect finds them, and the collective time-out.
 *
 * A variable that the user set is left alone, and said once.
 */
#include <stdio.h>

#include "run/run_inside.h"

/* Facts of PyTorch 2.13; older names serve older versions. %s: the attempt's folder. */
static const struct variable {
	const char *name, *value, *alias; /* alias: set already, then this one is left too */
} variables[] = {
	{ "TORCH_FR_BUFFER_SIZE", "2000", "TORCH_NCCL_TRACE_BUFFER_SIZE" },
	{ "TORCH_NCCL_TRACE_BUFFER_SIZE", "2000", "TORCH_FR_BUFFER_SIZE" },
	{ "TORCH_FR_DUMP_ON_TIMEOUT", "1", "TORCH_NCCL_DUMP_ON_TIMEOUT" },
	{ "TORCH_NCCL_DUMP_ON_TIMEOUT", "1", "TORCH_FR_DUMP_ON_TIMEOUT" },
	{ "TORCH_FR_DUMP_TEMP_FILE", "%s/nccl_trace_rank_", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE" },
	{ "TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "%s/nccl_trace_rank_", "TORCH_FR_DUMP_TEMP_FILE" },
	{ "TORCH_NCCL_DEBUG_INFO_PIPE_FILE", "%s/.recorder-pipe-", NULL },
	{ "TORCH_NCCL_ENABLE_MONITORING", "1", NULL },
	{ "TORCH_NCCL_ASYNC_ERROR_HANDLING", "3", NULL },
};

static bool users[ARRAY_SIZE(variables)];

static bool set(const char *name)
{
	const char *v = name ? getenv(name) : NULL;

	return v && *v;
}

/* Which were the user's is seen before the first attempt. */
static void see_users(struct run *r)
{
	struct buf left = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const struct variable *v = &variables[i];
		const char *now = getenv(v->name);

		users[i] = set(v->name) || set(v->alias);
		if (!now || !*now || strcmp(now, v->value) == 0)
			continue;
		buf_put(&left, left.len ? ", " : "", left.len ? 2 : 0);
		buf_put(&left, v->name, strlen(v->name));
	}
	if (left.len)
		run_say(r, "set already and left as it is: %.*s", (int)left.len, (char *)left.data);
	buf_done(&left);
}

void run_environment(struct run *r, const struct attempt *a)
{
	char text[32];

	if (a->number == 1)
		see_users(r);
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++) {
		const char *v = variables[i].value;
		_cleanup_free_ char *path =
		    *v == '%' ? xasprintf("%s%s", a->folder, v + 2) : xstrdup(v);

		if (!users[i])
			setenv(variables[i].name, path, 1);
	}
	setenv("LOCKSTEP_RUN", r->p->folder, 1);
	snprintf(text, sizeof(text), "%u", a->number);
	setenv("LOCKSTEP_ATTEMPT", text, 1);
	if (r->p->collective_s) {
		snprintf(text, sizeof(text), "%" PRId64, r->p->collective_s);
		setenv("LOCKSTEP_COLLECTIVE_TIMEOUT", text, 0);
	}
}
