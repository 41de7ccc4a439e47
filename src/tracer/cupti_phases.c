/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupti_phases.c - phases reach kernels by CUPTI's external correlation: each phase is pushed on
 * its thread, CUPTI writes a record that ties it to the correlation id of each call made there, and
 * kernels bear that id.
 *
 * CUPTI does so only for calls that it records, so those that launch, copy, set or wait are
 * recorded, and no others. A CUDA graph's kernels bear the id of its launch.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tracer/cupti.h"
#include "tracer/door.h"

#define PLACES 16384u /* more launches than the host is ever ahead; a power of two */
#define DEPTH  24u    /* phases on CUPTI's stack; deeper ones count for the one around them */

/* By the low bits of the correlation id, which counts up; of the draining thread. */
static struct {
	uint32_t correlation, phase;
} known[PLACES];

static _Atomic bool armed;

static _Thread_local __attribute__((tls_model("initial-exec"))) struct {
	uint32_t depth : 27;
	uint32_t pushed : 5;
} here;

/* cudaLaunchKernel and its kin, graphs' launches, copies, sets, waits; each with its twin for
   per-thread default streams. */
static const uint16_t runtime_calls[] = {
	211, 214, 269, 270, 272, 311, 312, 430, 431, 505, 506, 31,  215, 41,
	225, 161, 145, 246, 49,	 233, 51,  235, 131, 239, 137, 147, 247, 165,
};
/* cuLaunchKernel and its kin, graphs' launches, asynchronous copies and sets. */
static const uint16_t driver_calls[] = {
	307, 442, 477, 478, 514, 515, 652, 653, 306, 418,
	277, 421, 279, 422, 281, 423, 216, 428, 220, 430,
};

static void edge(bool begin, uint32_t name)
{
	uint64_t last;

	if (begin) {
		if (here.depth++ == here.pushed && here.pushed < DEPTH &&
		    atomic_load_explicit(&armed, memory_order_relaxed)) {
			here.pushed++;
			cupti.push(CUPTI_CUSTOM_2, name);
		}
	} else if (here.depth) {
		if (here.depth-- == here.pushed) {
			here.pushed--;
			cupti.pop(CUPTI_CUSTOM_2, &last);
		}
	}
}

static bool calls_on(void)
{
	const char *wish = getenv("LOCKSTEP_GPU_PHASES");
	bool any = false;

	if (wish && !strcmp(wish, "0"))
		return false;
	if (cupti.runtime_api && cupti.driver_api) {
		for (size_t i = 0; i < sizeof(runtime_calls) / sizeof(*runtime_calls); i++)
			any |= cupti.runtime_api(runtime_calls[i], 1) == 0;
		for (size_t i = 0; i < sizeof(driver_calls) / sizeof(*driver_calls); i++)
			any |= cupti.driver_api(driver_calls[i], 1) == 0;
		return any;
	}
	/* before 12.5 all calls or none: too dear unless somebody asks for it */
	if (!wish || strcmp(wish, "1") != 0)
		return false;
	return cupti.enable(CUPTI_RUNTIME) == 0 && cupti.enable(CUPTI_DRIVER) == 0;
}

bool cupti_phases_arm(void)
{
	if (!cupti.push || !cupti.pop || !calls_on() || cupti.enable(CUPTI_CORRELATION))
		return false;
	atomic_store(&armed, true);
	tracer_on_edges(edge);
	return true;
}

void cupti_phases_disarm(void)
{
	if (!atomic_exchange(&armed, false))
		return;
	cupti.disable(CUPTI_CORRELATION);
	if (cupti.runtime_api && cupti.driver_api) {
		for (size_t i = 0; i < sizeof(runtime_calls) / sizeof(*runtime_calls); i++)
			cupti.runtime_api(runtime_calls[i], 0);
		for (size_t i = 0; i < sizeof(driver_calls) / sizeof(*driver_calls); i++)
			cupti.driver_api(driver_calls[i], 0);
	} else {
		cupti.disable(CUPTI_RUNTIME);
		cupti.disable(CUPTI_DRIVER);
	}
}

void cupti_phases_pause(void)
{
	atomic_store(&armed, false);
}

bool cupti_phases_on(void)
{
	return atomic_load_explicit(&armed, memory_order_relaxed);
}

void cupti_phases_learn(const struct cupti_correlation *c)
{
	uint32_t i = c->correlation % PLACES;

	if (c->external_kind != CUPTI_CUSTOM_2)
		return;
	known[i].correlation = c->correlation;
	known[i].phase = (uint32_t)c->id;
}

uint32_t cupti_phases_of(uint32_t correlation)
{
	uint32_t i = correlation % PLACES;

	return known[i].correlation == correlation ? known[i].phase : 0;
}
