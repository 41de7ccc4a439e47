/* SPDX-License-Identifier: Apache-2.0 */
#include "door_told.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BUCKETS 32768u

struct told *told;
_Atomic size_t n_told;
_Atomic uint64_t told_counts[RING_COUNTERS];
_Atomic size_t told_kernels;
bool told_off, told_elsewhere;
_Atomic bool told_profiled;
_Atomic uint64_t told_steps;
char told_why[160];
uint32_t told_code;
void (*_Atomic told_each)(const struct ring_record *r, unsigned n);

static uint8_t enabled;
const volatile uint8_t *tracer_enabled = &enabled;
static struct {
	char *s;
	size_t len;
} names[RING_NAMES + 1];
static uint32_t n_names;
static uint32_t buckets[BUCKETS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local uint32_t open_names[64];
static _Thread_local uint32_t depth;
static _Thread_local char self;
static _Atomic uint64_t collectives;
static _Atomic tracer_edge edge;

void told_reset(void)
{
	if (!told)
		told = malloc(TOLD_MAX * sizeof(*told));
	n_told = 0;
	told_kernels = 0;
	for (size_t i = 0; i < RING_COUNTERS; i++)
		told_counts[i] = 0;
	told_off = told_elsewhere = false;
	told_profiled = false;
	told_why[0] = 0;
	told_code = 0;
	told_each = NULL;
}

static void tell(struct told t)
{
	size_t at = n_told++;

	t.thread = &self;
	if (told && at < TOLD_MAX)
		told[at] = t;
}

bool tracer_start(enum tracer_door door)
{
	(void)door;
	enabled = !told_off;
	return enabled;
}

void tracer_off(uint32_t code, const char *why)
{
	enabled = 0;
	tracer_kernels_off(code, why);
}

void tracer_kernels_off(uint32_t code, const char *why)
{
	told_code = code;
	strncpy(told_why, why, sizeof(told_why) - 1);
}

void tracer_left(const char *what)
{
	(void)what;
}

void tracer_count(enum ring_counter c, uint64_t n)
{
	told_counts[c] += n;
}

uint32_t tracer_name(const char *s, size_t len)
{
	uint32_t h = 2166136261u, id;

	if (len > RING_NAME_MAX) {
		len = RING_NAME_MAX;
		tracer_count(RING_CUT_NAMES, 1);
	}
	for (size_t i = 0; i < len; i++)
		h = (h ^ (uint8_t)s[i]) * 16777619u;
	pthread_mutex_lock(&lock);
	for (h %= BUCKETS; (id = buckets[h]); h = (h + 1) % BUCKETS) {
		if (names[id].len == len && !memcmp(names[id].s, s, len))
			break;
	}
	if (!id && n_names < RING_NAMES) {
		id = buckets[h] = ++n_names;
		names[id].s = malloc(len + 1);
		memcpy(names[id].s, s, len);
		names[id].s[len] = 0;
		names[id].len = len;
	} else if (!id) {
		tracer_count(RING_LOST_NAMES, 1);
	}
	pthread_mutex_unlock(&lock);
	return id;
}

const char *told_name(uint32_t id)
{
	return id && id <= n_names ? names[id].s : "";
}

uint64_t tracer_realtime_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t tracer_ticks(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void tracer_push(const struct ring_record *r, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		tell((struct told){ .kind = TOLD_RECORD, .r = r[i] });
}

void tracer_push_kernels(const struct ring_record *r, unsigned n)
{
	for (unsigned i = 0; i < n && !told_each; i++)
		tell((struct told){ .kind = TOLD_KERNEL, .r = r[i] });
	if (told_each)
		told_each(r, n);
	told_kernels += n; /* last: who has seen it may read them */
}

uint32_t tracer_phase(void)
{
	return depth && depth <= 64 ? open_names[depth - 1] : 0;
}

void tracer_on_edges(tracer_edge f)
{
	edge = f;
}

static void tell_edge(bool begin, uint32_t name)
{
	tracer_edge f = edge;

	if (f)
		f(begin, name);
}

void lockstep_phase_begin(uint32_t name, enum lockstep_phase_kind kind)
{
	if (depth++ < 64)
		open_names[depth - 1] = name;
	tell((struct told){ .kind = TOLD_PHASE_BEGIN, .name = name, .arg = kind });
	tell_edge(true, name);
}

void lockstep_phase_end(void)
{
	if (!depth) {
		tracer_count(RING_END_WITHOUT_BEGIN, 1);
		return;
	}
	depth--;
	tell((struct told){ .kind = TOLD_PHASE_END });
	tell_edge(false, 0);
}

void tracer_step_guess(int64_t number)
{
	if (!told_elsewhere)
		tell((struct told){ .kind = TOLD_STEP_BEGIN, .value = number });
}

bool tracer_steps_elsewhere(void)
{
	return told_elsewhere;
}

void lockstep_step_end(void)
{
	tell((struct told){ .kind = TOLD_STEP_END });
}

uint64_t tracer_steps_done(void)
{
	return told_steps;
}

void tracer_profiled(bool on)
{
	told_profiled = on;
}

void lockstep_counter(uint32_t name, double value)
{
	struct told t = { .kind = TOLD_COUNTER, .name = name };

	memcpy(&t.value, &value, sizeof(value));
	tell(t);
}

void lockstep_mark(uint32_t name)
{
	tell((struct told){ .kind = TOLD_MARK, .name = name });
}

uint64_t tracer_collective(uint32_t group, uint8_t op, int64_t sequence, uint64_t bytes,
			   const char *algorithm)
{
	uint64_t id = ++collectives;

	tell((struct told){ .kind = TOLD_COLL_BEGIN,
			    .name = group,
			    .arg = op,
			    .value = sequence,
			    .more = bytes,
			    .algorithm = algorithm,
			    .t = id });
	return id;
}

uint64_t lockstep_collective_begin(uint32_t group, enum lockstep_op op, int64_t sequence,
				   uint64_t bytes)
{
	return tracer_collective(group, (uint8_t)op, sequence, bytes, NULL);
}

void lockstep_collective_end(uint64_t collective)
{
	if (collective)
		tell((struct told){ .kind = TOLD_COLL_END, .t = collective });
}

size_t told_count(enum told_kind kind)
{
	size_t n = 0, all = n_told < TOLD_MAX ? n_told : TOLD_MAX;

	for (size_t i = 0; i < all; i++)
		n += told[i].kind == kind;
	return n;
}

const struct told *told_nth(enum told_kind kind, size_t n)
{
	size_t all = n_told < TOLD_MAX ? n_told : TOLD_MAX;

	for (size_t i = 0; i < all; i++) {
		if (told[i].kind == kind && n-- == 0)
			return &told[i];
	}
	return NULL;
}
