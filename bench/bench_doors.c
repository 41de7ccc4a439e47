/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_doors.c - what CUPTI's, NVTX's and NCCL's events cost on their way into the ring.
 *
 * Built with the tracer's sources, since a buffer of CUPTI's records cannot be given from outside.
 * The walk from one record to the next is CUPTI's own; in its place stands one that adds a size by
 * kind. Rounds take turns; times are of the thread's processor. With "count CALL N" it makes N and
 * nothing else, for those who count instructions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tracer/cupti.h"
#include "tracer/door.h"
#include "tracer/nccl_abi.h"
#include "tracer/nvtx.h"

enum {
	ROUNDS = 41,
	CALLS = 20000,
	KERNEL_BYTES = 216,
	API_BYTES = 40,
	NAMES = 64,
	NAME_BYTES = 180
};

extern const struct nccl_plugin_5 ncclProfiler_v5;

static nvtx_function core[16], core2[16], *core_at[16], *core2_at[16];
static const void *domain;
static struct nvtx_attributes attributes = { .version = 3, .size = 48 };
static void *communicator;
static volatile uint64_t kept;

static uint8_t kernels[CUPTI_BUFFER_BYTES], launches[CUPTI_BUFFER_BYTES];
static size_t kernel_bytes, launch_bytes;
static char names[NAMES][NAME_BYTES + 8];
static unsigned n_kernels;

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* In CUPTI's place. */

static int next_record(uint8_t *buffer, size_t valid, void **record)
{
	uint8_t *at = *record;

	if (!at)
		at = buffer;
	else if (*(uint32_t *)at == CUPTI_KERNEL)
		at += KERNEL_BYTES;
	else
		at += *(uint32_t *)at == CUPTI_CORRELATION ? sizeof(struct cupti_correlation)
							   : API_BYTES;
	if (at >= buffer + valid)
		return CUPTI_END;
	*record = at;
	return 0;
}

static int yes(int kind)
{
	(void)kind;
	return 0;
}

static int yes_call(uint32_t call, uint8_t on)
{
	(void)call, (void)on;
	return 0;
}

static int push_id(int kind, uint64_t id)
{
	(void)kind;
	kept = id;
	return 0;
}

static int pop_id(int kind, uint64_t *id)
{
	*id = (uint64_t)kind;
	return 0;
}

static void fill(void)
{
	uint32_t phase = tracer_name("forward", 7);
	uint64_t t = tracer_realtime_ns();

	for (int i = 0; i < NAMES; i++)
		snprintf(names[i], sizeof(names[i]), "_ZN2at6native%0*dE", NAME_BYTES - 14, i);
	for (; kernel_bytes + KERNEL_BYTES <= sizeof(kernels); n_kernels++) {
		struct cupti_kernel k = { .kind = CUPTI_KERNEL };
		struct cupti_correlation c = { CUPTI_CORRELATION, CUPTI_CUSTOM_2, phase,
					       n_kernels + 1, 0 };

		k.start = t + n_kernels * 1000;
		k.end = k.start + 900;
		k.stream = 7;
		k.correlation = n_kernels + 1;
		k.name = names[n_kernels * 37 % NAMES];
		memcpy(kernels + kernel_bytes, &k, sizeof(k));
		kernel_bytes += KERNEL_BYTES;
		memcpy(launches + launch_bytes, &c, sizeof(c));
		launch_bytes += sizeof(c);
		launches[launch_bytes] = CUPTI_RUNTIME;
		launch_bytes += API_BYTES;
	}
}

static void do_kernels(unsigned n)
{
	for (; n >= n_kernels; n -= n_kernels)
		cupti_records_read(kernels, kernel_bytes, 1);
	cupti_records_read(kernels, n * (size_t)KERNEL_BYTES, 1);
	cupti_records_end();
}

/* A kernel, the record of its launch, and the one that ties it to a phase. */
static void do_phased(unsigned n)
{
	for (unsigned done = 0; done < n; done += n_kernels) {
		cupti_records_read(launches, launch_bytes, 1);
		cupti_records_read(kernels, kernel_bytes, 1);
		cupti_records_end();
	}
}

/* As NVTX's inline functions call. */

static void push_and_pop(unsigned n)
{
	int (*push)(const char *) = (int (*)(const char *))core[NVTX_PUSH_A];
	int (*pop)(void) = (int (*)(void))core[NVTX_POP];

	while (n--) {
		push("forward");
		pop();
	}
}

static void do_nvtx_outermost(unsigned n)
{
	push_and_pop(n);
}

static void do_nvtx_inside(unsigned n)
{
	((int (*)(const char *))core[NVTX_PUSH_A])("training");
	push_and_pop(n);
	((int (*)(void))core[NVTX_POP])();
}

static void do_nvtx_registered(unsigned n)
{
	int (*push)(const void *, const struct nvtx_attributes *) =
	    (int (*)(const void *, const struct nvtx_attributes *))core2[NVTX_DOMAIN_PUSH_EX];
	int (*pop)(const void *) = (int (*)(const void *))core2[NVTX_DOMAIN_POP];

	push(domain, &attributes);
	while (n--) {
		push(domain, &attributes);
		pop(domain);
	}
	pop(domain);
}

static void do_nvtx_started(unsigned n)
{
	uint64_t (*start)(const char *) = (uint64_t(*)(const char *))core[NVTX_START_A];
	void (*end)(uint64_t) = (void (*)(uint64_t))core[NVTX_END];

	while (n--)
		end(start("forward"));
}

static void do_nccl(unsigned n)
{
	struct nccl_event_5 e = { .type = NCCL_EVENT_COLL };

	e.coll.func = "AllReduce";
	e.coll.datatype = "ncclBfloat16";
	e.coll.algo = "RING";
	e.coll.count = 1 << 20;
	while (n--) {
		void *handle;

		e.coll.seq = n;
		ncclProfiler_v5.start(communicator, &handle, &e);
		ncclProfiler_v5.stop(handle);
	}
}

static void do_phase(unsigned n)
{
	uint32_t name = tracer_name("forward", 7);

	while (n--) {
		lockstep_phase_begin(name, LOCKSTEP_PHASE_FORWARD);
		lockstep_phase_end();
	}
}

static int module_table(int module, nvtx_function ***ret_table, unsigned *ret_n)
{
	*ret_table = module == NVTX_CORE ? core_at : core2_at;
	*ret_n = 16;
	return 1;
}

static const struct nvtx_callbacks callbacks = { sizeof(callbacks), module_table };

static const void *get(uint32_t id)
{
	return id == NVTX_TABLE_CALLBACKS ? &callbacks : NULL;
}

static int begin(void)
{
	int mask;

	for (size_t i = 1; i < 16; i++) {
		core_at[i] = &core[i];
		core2_at[i] = &core2[i];
	}
	if (!InitializeInjectionNvtx2(get))
		return 0;
	domain = ((const void *(*)(const char *))core2[NVTX_DOMAIN_CREATE_A])("net");
	attributes.message_type = NVTX_MESSAGE_STRING;
	attributes.message.string =
	    ((const void *(*)(const void *, const char *))core2[NVTX_STRING_A])(domain, "forward");
	ncclProfiler_v5.init(&communicator, 1, &mask, "world", 1, 8, 0, NULL);
	cupti = (struct cupti_api){ .next = next_record,
				    .enable = yes,
				    .disable = yes,
				    .push = push_id,
				    .pop = pop_id,
				    .runtime_api = yes_call,
				    .driver_api = yes_call };
	cupti_records_start();
	fill();
	return 1;
}

static struct call {
	const char *name, *what, *bar;
	void (*run)(unsigned n);
	double took[ROUNDS];
} calls[] = {
	{ "kernel", "doors, kernel to the ring", "30 ns", do_kernels, { 0 } },
	{ "phased", "doors, kernel with its phase", "30 ns", do_phased, { 0 } },
	{ "inside", "doors, NVTX push and pop", NULL, do_nvtx_inside, { 0 } },
	{ "outermost", "doors, NVTX push and pop, outermost", NULL, do_nvtx_outermost, { 0 } },
	{ "registered", "doors, NVTX registered string", NULL, do_nvtx_registered, { 0 } },
	{ "started", "doors, NVTX start and end", NULL, do_nvtx_started, { 0 } },
	{ "nccl", "doors, NCCL collective, both events", NULL, do_nccl, { 0 } },
	{ "phase", "  lockstep.h's pair, beside", NULL, do_phase, { 0 } },
};
#define N_CALLS (sizeof(calls) / sizeof(calls[0]))

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int count(const char *what, unsigned n)
{
	for (size_t i = 0; i < N_CALLS; i++) {
		if (!strcmp(calls[i].name, what)) {
			if (calls[i].run == do_phased)
				cupti_phases_arm();
			calls[i].run(n);
			return 0;
		}
	}
	return 2;
}

static void measure(struct call *c, int round)
{
	double start;

	/* else each phase would be pushed to CUPTI too */
	if (c->run == do_phased)
		cupti_phases_arm();
	start = now_ns();
	c->run(CALLS);
	c->took[round] = (now_ns() - start) / CALLS;
	if (c->run == do_phased)
		cupti_phases_pause();
}

int main(int argc, char **argv)
{
	if (!begin()) {
		fprintf(stderr,
			"bench_doors: the tracer is off; is there room in $LOCKSTEP_DIR?\n");
		return 1;
	}
	if (argc > 3)
		return count(argv[2], (unsigned)strtoul(argv[3], NULL, 10));
	for (int r = 0; r < ROUNDS; r++) {
		for (size_t i = 0; i < N_CALLS; i++)
			measure(&calls[i], r);
	}
	for (size_t i = 0; i < N_CALLS; i++) {
		struct call *c = &calls[i];

		qsort(c->took, ROUNDS, sizeof(double), compare);
		printf("%-34s %9.4g %-9s min %.1f median %.1f ns of %d x %d%s%s\n", c->what,
		       c->took[0], "ns", c->took[0], c->took[ROUNDS / 2], ROUNDS, CALLS,
		       c->bar ? "; bar " : "", c->bar ? c->bar : "");
	}
	return 0;
}
