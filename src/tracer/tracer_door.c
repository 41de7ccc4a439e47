/* SPDX-License-Identifier: Apache-2.0 */
/* tracer_door.c - see door.h. */
#include <string.h>

#include "tracer/core.h"
#include "tracer/tracer_libc.h"

void tracer_step_guess(int64_t number)
{
	if (!tracer_steps_elsewhere())
		core_step_begin(number);
}

bool tracer_steps_elsewhere(void)
{
	return load_relaxed(&core.steps_told);
}

uint64_t tracer_steps_done(void)
{
	return load_relaxed(&core.steps_done);
}

uint64_t tracer_collective(uint32_t group, uint8_t op, int64_t sequence, uint64_t bytes,
			   const char *algorithm)
{
	uint32_t name = algorithm ? tracer_name(algorithm, strnlen(algorithm, RING_NAME_MAX)) : 0;

	return core_collective(group, op, sequence, bytes, name);
}

void tracer_profiled(bool on)
{
	store_relaxed(&core.step_flags_kept, on ? RING_STEP_PROFILED : 0);
	if (on)
		tracer_step_flag(RING_STEP_PROFILED);
}

void tracer_kernels_off(uint32_t code, const char *why)
{
	struct text t;

	if (!tracer_on())
		return;
	store_relaxed(&core.header->off_code, code);
	t = text_in(core.header->off_text, sizeof(core.header->off_text));
	text_add(&t, why);
}

void tracer_on_edges(tracer_edge f)
{
	store_release(&core.edge, f);
}
