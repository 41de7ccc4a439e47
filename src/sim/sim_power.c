/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_power.c - nvidia-smi's samples of all GPUs, and the kernels' log.
 *
 * A collective's kernel that spins for its peers keeps the utilization at 100 % and draws little;
 * a GPU whose host launches nothing is idle; one without a process holds no memory either.
 */
#include "sim/sim_evidence.h"

#include <stdio.h>

#define EVERY_NS    30e9
#define LIMIT_WATTS 700.0
#define BEFORE	    5
#define MOST	    20 /* samples after it, spread over the time that it stands */

enum { COMPUTES, SPINS, IDLES, FREE, STATES };
static const struct {
	double watts; /* share of the limit */
	int gpu, memory, mib, mhz;
} levels[STATES] = {
	[COMPUTES] = { 0.80, 97, 51, 61203, 1650 },
	[SPINS] = { 0.17, 100, 0, 61203, 1920 },
	[IDLES] = { 0.10, 0, 0, 61203, 1900 },
	[FREE] = { 0.08, 0, 0, 4, 345 },
};

static int state_of(const struct sim *s, uint32_t rank)
{
	const struct sim_evidence *e = s->evidence;

	if (!sim_lives(e, rank) || e->crashed)
		return FREE;
	return sim_hang_spins(&e->hang->ranks[rank]) ? SPINS : IDLES;
}

static void sample(const struct sim *s, struct buf *b, uint32_t rank, int at, double t)
{
	int state = at < 0 && !s->evidence->starts ? COMPUTES : state_of(s, rank);
	uint64_t seed = s->options.seed ^ 0x706f77;
	double wobble = 0.95 + 0.1 * sim_share(seed, rank, (uint64_t)((int64_t)at + BEFORE));
	char stamp[48];

	sim_put(b, "%s, %" PRIu32 ", GPU-%08" PRIx32 "-0000-0000-0000-%012" PRIx32,
		sim_stamp(t, STAMP_SMI, 3, stamp), rank % s->options.gpus_per_node,
		(uint32_t)hash_mix(seed, rank), rank);
	sim_put(b, ", NVIDIA H200, %.2f W, %.2f W, %d %%, %d %%, %d MiB, %d MHz\n",
		levels[state].watts * LIMIT_WATTS * wobble, LIMIT_WATTS, levels[state].gpu,
		levels[state].memory, levels[state].mib, levels[state].mhz);
}

int sim_write_power(struct sim *s, struct error *reterr)
{
	const struct sim_evidence *e = s->evidence;
	uint32_t node = s->options.gpus_per_node, world = s->plan.world;
	double since = e->hang->since + 1e9, every = (e->last - since) / MOST;
	struct buf b = { 0 };
	int r = 0;

	if (e->o.gloo) /* a job of CPUs */
		return 0;
	every = every > EVERY_NS ? every : EVERY_NS;
	for (uint32_t first = 0; first < world && r >= 0; first += node) {
		char name[64];

		b.len = 0;
		sim_put(&b, "timestamp, index, uuid, name, power.draw [W], power.limit [W], "
			    "utilization.gpu [%%], utilization.memory [%%], memory.used [MiB], "
			    "clocks.current.sm [MHz]\n");
		for (int at = -BEFORE; since + at * every < e->last || at < 4; at++)
			for (uint32_t i = first; i < MIN(first + node, world); i++)
				sample(s, &b, i, at, since + at * every);
		snprintf(name, sizeof(name), "nvidia-smi-node%05" PRIu32 ".csv", first / node);
		r = sim_save(s, name, &b, reterr);
	}
	buf_done(&b);
	return r;
}

int sim_write_kernel_log(struct sim *s, struct error *reterr)
{
	const struct sim_evidence *e = s->evidence;
	uint32_t node = s->options.gpus_per_node;
	struct buf b = { 0 };
	int r = 0;

	for (uint32_t i = 0; i < s->plan.world && r >= 0; i++) {
		const struct sim_hang_rank *rank = &e->hang->ranks[i];
		char stamp[48], name[64];

		if (rank->fault && rank->fault->kind == SIM_GPU_ERROR)
			sim_put(&b,
				"%s node%05" PRIu32 " kernel: [%.6f] NVRM: Xid (PCI:0000:%02" PRIx32
				":00): 48, pid=%" PRIu32 ", name=python, DBE (double bit error) "
				"ECC uncorrectable\n",
				sim_stamp(rank->died, STAMP_KERNEL, 0, stamp), i / node,
				rank->died / 1e9 + 86400, 0x1b + 0x11 * (i % node), SIM_PID(i));
		if (!b.len || ((i + 1) % node && i + 1 < s->plan.world))
			continue;
		snprintf(name, sizeof(name), "kern-node%05" PRIu32 ".log", i / node);
		r = sim_save(s, name, &b, reterr);
		b.len = 0;
	}
	buf_done(&b);
	return r;
}
