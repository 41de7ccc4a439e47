/* SPDX-License-Identifier: Apache-2.0 */
/* tracer_python.c - what Python's hooks tell of themselves; not in lockstep.h. */
#include "tracer/tracer.h"

#define EXPORTED __attribute__((visibility("default")))

/* A hook has failed and is off. */
EXPORTED void lockstep_hook_failed(const char *what);
/* lockstep_start, by Python's door. */
EXPORTED int lockstep_start_python(void);

void lockstep_hook_failed(const char *what)
{
	tracer_count(RING_HOOK_FAILED, 1);
	lockstep_mark(lockstep_name(what));
}

int lockstep_start_python(void)
{
	return tracer_start(DOOR_PYTHON);
}
