/* SPDX-License-Identifier: Apache-2.0 */
/* tracer_python.c - what Python's hooks tell of themselves; not in lockstep.h. */
#include "tracer/tracer.h"

void lockstep_hook_failed(const char *what);
/* A hook has failed and is off. */
void lockstep_hook_failed(const char *what)
{
	tracer_count(RING_HOOK_FAILED, 1);
	lockstep_mark(lockstep_name(what));
}

int lockstep_start_python(void);
/* lockstep_start, by Python's door. */
int lockstep_start_python(void)
{
	return tracer_start(DOOR_PYTHON);
}
