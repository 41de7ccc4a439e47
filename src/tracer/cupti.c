/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cupti.c - takes CUPTI's seat, sees that it was lost, and takes it again.
 *
 * CUPTI serves one tool at a time and tells nobody when the tool changes. torch.profiler sets its
 * own clock and buffers, turns our kinds off at its end, and gives nothing back. We notice by the
 * clock (its ticks are not those of CLOCK_REALTIME), or by steps without any record; mark the
 * steps, touch nothing while it may be running, and begin anew after a time, or when somebody says
 * that it is done (lockstep_profiler). Never is cuptiSubscribe called, and never is the GPU waited
 * for.
 *
 * No lock is shared with a thread that calls CUPTI: our thread is woken by a futex and by its
 * clock.
 */
#include "tracer/cupti.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "tracer/cupti_seat.h"
#include "tracer/door.h"
#include "tracer/tracer_libc.h"

#define SECOND_NS      1000000000ull
#define DEVICE_BUFFERS 8u /* of 3.2 MB: 25 MB of the GPU's memory at most, not 800 */
#define EXIT_WAITS_MS  300

static const int kinds[] = { CUPTI_KERNEL, CUPTI_MEMCPY, CUPTI_MEMSET, CUPTI_MEMCPY_PEER,
			     CUPTI_SYNC };
#define KINDS (sizeof(kinds) / sizeof(*kinds))

static _Atomic uint32_t begun;
static _Atomic int32_t wakes; /* futex */
static _Atomic int32_t ending, ended;

void cupti_wake(void)
{
	atomic_fetch_add(&wakes, 1);
	syscall(SYS_futex, &wakes, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void set_attributes(void)
{
	size_t device = DEVICE_BUFFERS, size = sizeof(device), byte = 1;
	uint8_t yes = 1, no = 0;

	/* those that a version does not have are not missed */
	cupti.set(CUPTI_DEVICE_BUFFERS, &size, &device);
	cupti.set(CUPTI_ZEROED, &byte, &yes);
	cupti.set(CUPTI_PER_THREAD, &byte, &no);
}

static uint64_t our_clock(void)
{
	return tracer_realtime_ns();
}

int cupti_take_seat(bool again)
{
	int result;

	set_attributes();
	if (again && cupti.clock)
		cupti.clock(our_clock);
	result = cupti.callbacks(cupti_buffers_request, cupti_buffers_complete);
	if (result)
		return result;
	for (size_t i = 0; i < KINDS; i++) {
		int r = cupti.enable(kinds[i]);

		if (r && kinds[i] == CUPTI_KERNEL)
			return r;
		if (r)
			tracer_count(RING_HOOK_FAILED, 1);
	}
	cupti_phases_arm();
	return 0;
}

void cupti_leave_seat(void)
{
	cupti_phases_disarm();
	for (size_t i = 0; i < KINDS; i++)
		cupti.disable(kinds[i]);
}

static void off(uint32_t code, const char *why)
{
	const char *words = NULL;
	char all[160];
	struct text t = text_in(all, sizeof(all));

	text_add(&t, "no kernels: ");
	text_add(&t, why);
	if (code && cupti.words && !cupti.words((int)code, &words) && words) {
		text_add(&t, " (");
		text_add(&t, words);
		text_add(&t, ")");
	}
	tracer_kernels_off(code, all);
}

/* Reads what was full before this flush; what the flush brings waits for the next. */
static void look(void)
{
	unsigned n;

	do {
		cupti_buffers_mark();
		if (cupti_seat_is_ours()) /* else it would be another's records */
			cupti.flush(0);
		n = cupti_buffers_drain(cupti_records_read);
		cupti_records_end();
		if (n)
			cupti_seat_saw_records();
	} while (n >= CUPTI_BUFFERS_WAKE); /* as many may have come since */
}

static void tell_drops(void)
{
	struct ring_record gap = { .t = tracer_realtime_ns(), .kind = RING_GAP };
	size_t n = 0;

	if (!cupti_seat_is_ours() || cupti.dropped(NULL, 0, &n) || !n)
		return;
	gap.value = n;
	tracer_count(RING_CUPTI_DROPPED, n);
	tracer_push_kernels(&gap, 1);
}

static void sleep_until_woken(int32_t seen, uint64_t ns)
{
	struct timespec t = { (time_t)(ns / SECOND_NS), (long)(ns % SECOND_NS) };

	syscall(SYS_futex, &wakes, FUTEX_WAIT_PRIVATE, seen, &t, NULL, 0);
}

static uint64_t monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

static void *work(void *unused)
{
	uint64_t next = monotonic_ns() + SECOND_NS;
	int32_t seen = atomic_load(&wakes);
	int result = 0;

	(void)unused;
	prctl(PR_SET_NAME, "lockstep-gpu", 0, 0, 0);
	while (tracer_on() && !atomic_load(&ending) && !result) {
		uint64_t now = monotonic_ns();

		if (now < next)
			sleep_until_woken(seen, next - now);
		seen = atomic_load(&wakes);
		now = monotonic_ns();
		look();
		if (now >= next) {
			tell_drops();
			result = cupti_seat_watch();
			next = now + SECOND_NS;
		}
	}
	if (result)
		off((uint32_t)result, "CUPTI could not be taken again");
	else if (cupti_seat_is_ours())
		look(), look();
	if (!atomic_load(&ending) && cupti_seat_is_ours())
		cupti_leave_seat(); /* lockstep_stop() */
	atomic_store(&ended, 1);
	syscall(SYS_futex, &ended, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	return NULL;
}

/*
 * The last second's records, if they come at once; nothing is waited for beyond that. Behind it our
 * thread calls CUPTI no more, whose own end comes next.
 */
static void at_exit(void *unused)
{
	uint64_t until = monotonic_ns() + EXIT_WAITS_MS * 1000000ull, now;

	(void)unused;
	if (!tracer_on())
		return;
	atomic_store(&ending, 1);
	cupti_wake();
	while (!atomic_load(&ended) && (now = monotonic_ns()) < until) {
		struct timespec t = { 0, (long)(until - now) };

		syscall(SYS_futex, &ended, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
	}
}

static bool find(const char *name, void *ret)
{
	void *f = tracer_dlsym(RTLD_DEFAULT, name);

	memcpy(ret, &f, sizeof(f));
	return f;
}

/* Both by their names, and only here, inside cuInit, which takes memory and makes threads itself:
   one moved with libc 2.34, and a program that never comes here needs neither. */
static bool start_thread(void)
{
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	int (*on_exit_call)(void (*)(void *), void *, void *);
	uint64_t all = ~(3ull << 31), kept; /* 32 and 33 are libc's own: setuid() needs them */
	pthread_t t;
	bool made;

	if (!find("pthread_create", &create) || !find("__cxa_atexit", &on_exit_call) ||
	    on_exit_call(at_exit, NULL, NULL))
		return false;
	/* the program's signals are for its own threads */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &kept, sizeof(all));
	made = !create(&t, NULL, work, NULL);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &kept, NULL, sizeof(kept));
	if (!made)
		atomic_store(&ended, 1);
	return made;
}

static void begin(void)
{
	const char *wish = getenv("LOCKSTEP_KERNELS"), *why;
	uint32_t code;
	int result;

	if (wish && !strcmp(wish, "0")) {
		off(0, "LOCKSTEP_KERNELS=0");
		return;
	}
	if (!cupti_load(&code, &why)) {
		off(code, why);
		return;
	}
	cupti_records_start();
	result = cupti_take_seat(false);
	if (result) {
		cupti_leave_seat();
		off((uint32_t)result, "CUPTI refuses");
		return;
	}
	cupti_seat_taken();
	if (!start_thread()) {
		cupti_leave_seat();
		off(0, "no thread could be started");
	}
}

TRACER_EXPORT int InitializeInjection(void)
{
	if (tracer_start(DOOR_CUDA) && !atomic_exchange(&begun, 1))
		begin();
	return 1;
}
