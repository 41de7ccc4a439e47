/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupti_seat.c - see cupti.c. No call of the interface tells who is registered, so this is judged
 * by what is seen: CUPTI's clock, and records.
 *
 * Time is counted in calls of cupti_seat_watch(), one a second: a clock that steps changes nothing.
 */
#include "tracer/cupti_seat.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "tracer/cupti.h"
#include "tracer/door.h"
#include "tracer/tracer_libc.h"

#define CLOCK_OFF_NS 1000000000ull
#define GONE	     22 /* no CUPTI result: EINVAL */

static _Atomic int said = -1; /* by lockstep_profiler(): 1 it runs, 0 it is done, -1 nobody says */
static _Atomic bool ours;
static uint32_t silent_s, lost_s, wait_s;
static uint64_t steps_then;
static bool had_records;

TRACER_EXPORT void lockstep_profiler(int on)
{
	atomic_store(&said, on != 0);
	if (on && atomic_load(&ours))
		tracer_profiled(true);
}

static uint32_t wait_at_first(void)
{
	const char *v = getenv("LOCKSTEP_PROFILER_WAIT");
	int64_t s;

	return number_of(v, &s) && s > 0 && s <= SEAT_WAIT_MAX_S ? (uint32_t)s : SEAT_WAIT_S;
}

void cupti_seat_taken(void)
{
	if (!wait_s)
		wait_s = wait_at_first();
	silent_s = 0;
	had_records = false;
	steps_then = tracer_steps_done();
	atomic_store(&ours, true);
}

void cupti_seat_saw_records(void)
{
	silent_s = 0;
	had_records = true;
	steps_then = tracer_steps_done();
}

bool cupti_seat_is_ours(void)
{
	return atomic_load(&ours) && atomic_load(&said) != 1;
}

static bool clock_is_anothers(void)
{
	uint64_t there = 0, here = tracer_realtime_ns();

	if (cupti.timestamp(&there))
		return false;
	return there - here + CLOCK_OFF_NS > 2 * CLOCK_OFF_NS;
}

static void tell_gap(void)
{
	struct ring_record gap = { .t = tracer_realtime_ns(), .kind = RING_GAP, .arg = 1 };

	tracer_push_kernels(&gap, 1);
}

static void lose(void)
{
	atomic_store(&ours, false);
	lost_s = 0;
	cupti_phases_pause();
	tracer_profiled(true);
	tell_gap();
}

static int take_again(void)
{
	int result;

	if (!cupti_buffers_abandon())
		return GONE;
	cupti_phases_disarm();
	result = cupti_take_seat(true);
	if (result)
		return result;
	cupti_names_forget();
	atomic_store(&said, -1);
	cupti_seat_taken();
	tracer_profiled(false);
	tell_gap();
	return 0;
}

int cupti_seat_watch(void)
{
	int word = atomic_load(&said);

	if (atomic_load(&ours)) {
		silent_s++;
		if (word == 0) { /* it came and went between two looks */
			lose();
			return take_again();
		}
		if (word == 1 || clock_is_anothers() ||
		    (had_records && silent_s >= SEAT_SILENT_S &&
		     tracer_steps_done() > steps_then + 2))
			lose();
		return 0;
	}
	lost_s++;
	if (word == 1 || (word == -1 && lost_s < wait_s))
		return 0;
	if (word == -1 && wait_s < SEAT_WAIT_MAX_S / 2)
		wait_s *= 2; /* was it too early? Then it is lost again, and we wait longer */
	return take_again();
}
