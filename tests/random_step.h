/* SPDX-License-Identifier: Apache-2.0 */
/* random_step.h - steps with anything in them that a step can hold, and their comparison. */
#pragma once
#include "model/step.h"

static inline uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/* Of any magnitude and sign. */
static inline int64_t random_time(uint64_t *seed)
{
	uint64_t v = random_next(seed) >> (random_next(seed) % 64);

	return random_next(seed) % 8 ? (int64_t)(v >> 1) : -(int64_t)(v >> 1);
}

static inline uint32_t random_id(uint64_t *seed, uint32_t names)
{
	return random_next(seed) % 16 ? (uint32_t)(random_next(seed) % names) : NO_ID;
}

static inline void random_kernels(struct step *s, struct arena *a, uint64_t *seed, uint32_t names)
{
	s->n_kernels = (uint32_t)(random_next(seed) % 6);
	s->kernels = arena_alloc(a, (s->n_kernels + 1) * sizeof(*s->kernels));
	for (uint32_t i = 0; i < s->n_kernels; i++) {
		struct step_kernel *k = &s->kernels[i];
		uint16_t bin = 0;

		k->name = random_id(seed, names);
		k->stream_class = (uint32_t)(random_next(seed) % 8);
		k->count = (uint32_t)(random_next(seed) % 3);
		k->sum_ns = random_time(seed);
		k->max_ns = random_time(seed);
		k->blocks = random_next(seed) >> (random_next(seed) % 64);
		k->hist.n = (uint32_t)(random_next(seed) % 9);
		k->hist.bins = arena_alloc(a, (k->hist.n + 1) * sizeof(*k->hist.bins));
		for (uint32_t b = 0; b < k->hist.n; b++) {
			bin = (uint16_t)(bin + 1 + random_next(seed) % 50);
			k->hist.bins[b].bin = bin;
			k->hist.bins[b].count = (uint32_t)(random_next(seed) % 1000);
			k->hist.count += k->hist.bins[b].count;
		}
	}
}

static inline void random_comms(struct step *s, struct arena *a, uint64_t *seed, uint32_t groups)
{
	s->n_comms = groups ? (uint32_t)(random_next(seed) % 4) : 0;
	s->comms = arena_alloc(a, (s->n_comms + 1) * sizeof(*s->comms));
	for (uint32_t i = 0; i < s->n_comms; i++)
		s->comms[i] = (struct step_comm){
			.group = (uint32_t)(random_next(seed) % groups),
			.op = (enum comm_op)(random_next(seed) % COMM_OPS),
			.count = (uint32_t)random_next(seed),
			.first_seq = random_time(seed),
			.last_seq = random_time(seed),
			.bytes = random_next(seed),
			.sum_ns = random_time(seed),
			.min_ns = random_time(seed),
			.max_ns = random_time(seed),
			.order_hash = random_next(seed),
		};
	s->n_colls = s->n_comms ? (uint32_t)(random_next(seed) % 20) : 0;
	s->colls = arena_alloc(a, (s->n_colls + 1) * sizeof(*s->colls));
	for (uint32_t i = 0; i < s->n_colls; i++)
		s->colls[i] = (struct step_coll){
			.comm = (uint32_t)(random_next(seed) % s->n_comms),
			.seq = random_next(seed) % 2 ? -1 : random_time(seed),
			.bytes = random_next(seed) % 2 ? 0 : random_next(seed),
			.peer = random_next(seed) % 2 ? -1 : (int32_t)random_next(seed),
			.start_ns = random_time(seed),
			.end_ns = random_time(seed),
			.call_ns = random_next(seed) % 2 ? INT64_MIN : random_time(seed),
			.own_arrive_ns = random_time(seed),
			.own_need_ns = random_next(seed) % 2 ? -1 : random_time(seed),
			.exposed_ns = random_time(seed),
		};
}

static inline struct step random_step(struct arena *a, uint64_t *seed, uint32_t names,
				      uint32_t groups)
{
	struct step s = {
		.number = random_next(seed),
		.rank_row = (uint32_t)random_next(seed),
		.flags = (uint32_t)random_next(seed),
		.start_ns = random_time(seed),
		.mark_ns = random_time(seed),
		.wall_ns = random_time(seed),
		.own_ns = random_time(seed),
		.host_what = random_id(seed, names),
		.longest_stall_ns = random_time(seed),
		.longest_stall_at_ns = random_time(seed),
		.compute_ns = random_time(seed),
		.comm_ns = random_time(seed),
		.copy_ns = random_time(seed),
		.comm_exposed_ns = random_time(seed),
		.launch_delay_p50_ns = random_time(seed),
		.launch_delay_p99_ns = random_time(seed),
		.gc_ns = random_time(seed),
		.data_wait_ns = random_time(seed),
		.sync_ns = random_time(seed),
		.tokens = random_next(seed),
		.dropped = random_next(seed),
	};

	for (unsigned i = 0; i < OWN_PARTS; i++)
		s.own[i] = random_time(seed);
	for (unsigned i = 0; i < HOST_DETAILS; i++)
		s.host_detail_ns[i] = random_time(seed);
	s.n_phases = (uint32_t)(random_next(seed) % 6);
	s.phases = arena_alloc(a, (s.n_phases + 1) * sizeof(*s.phases));
	for (uint32_t i = 0; i < s.n_phases; i++)
		s.phases[i] = (struct step_phase){
			.name = random_id(seed, names),
			.count = (uint32_t)(random_next(seed) % 3),
			.first_start_ns = random_time(seed),
			.last_end_ns = random_time(seed),
			.total_ns = random_time(seed),
			.longest_ns = random_time(seed),
			.exposed_ns = random_time(seed),
			.gpu_ns = random_time(seed),
		};
	random_kernels(&s, a, seed, names);
	random_comms(&s, a, seed, groups);
	return s;
}

static inline bool step_same_head(const struct step *a, const struct step *b)
{
	return a->number == b->number && a->rank_row == b->rank_row && a->flags == b->flags &&
	       a->start_ns == b->start_ns && a->mark_ns == b->mark_ns && a->wall_ns == b->wall_ns &&
	       a->own_ns == b->own_ns && !memcmp(a->own, b->own, sizeof(a->own)) &&
	       !memcmp(a->host_detail_ns, b->host_detail_ns, sizeof(a->host_detail_ns)) &&
	       a->host_what == b->host_what && a->longest_stall_ns == b->longest_stall_ns &&
	       a->longest_stall_at_ns == b->longest_stall_at_ns && a->compute_ns == b->compute_ns &&
	       a->comm_ns == b->comm_ns && a->copy_ns == b->copy_ns &&
	       a->comm_exposed_ns == b->comm_exposed_ns &&
	       a->launch_delay_p50_ns == b->launch_delay_p50_ns &&
	       a->launch_delay_p99_ns == b->launch_delay_p99_ns && a->gc_ns == b->gc_ns &&
	       a->data_wait_ns == b->data_wait_ns && a->sync_ns == b->sync_ns &&
	       a->tokens == b->tokens && a->dropped == b->dropped;
}

/* Are all fields alike? Lists are compared by content. */
static inline bool step_same(const struct step *a, const struct step *b)
{
	if (a->n_phases != b->n_phases || a->n_kernels != b->n_kernels ||
	    a->n_comms != b->n_comms || a->n_colls != b->n_colls)
		return false;
	for (uint32_t i = 0; i < a->n_phases; i++) {
		const struct step_phase *p = &a->phases[i], *q = &b->phases[i];

		if (p->name != q->name || p->count != q->count ||
		    p->first_start_ns != q->first_start_ns || p->last_end_ns != q->last_end_ns ||
		    p->total_ns != q->total_ns || p->longest_ns != q->longest_ns ||
		    p->exposed_ns != q->exposed_ns || p->gpu_ns != q->gpu_ns)
			return false;
	}
	for (uint32_t i = 0; i < a->n_comms; i++) {
		const struct step_comm *p = &a->comms[i], *q = &b->comms[i];

		if (p->group != q->group || p->op != q->op || p->count != q->count ||
		    p->first_seq != q->first_seq || p->last_seq != q->last_seq ||
		    p->bytes != q->bytes || p->sum_ns != q->sum_ns || p->min_ns != q->min_ns ||
		    p->max_ns != q->max_ns || p->order_hash != q->order_hash)
			return false;
	}
	for (uint32_t i = 0; i < a->n_colls; i++) {
		const struct step_coll *p = &a->colls[i], *q = &b->colls[i];

		if (p->comm != q->comm || p->seq != q->seq || p->bytes != q->bytes ||
		    p->peer != q->peer || p->start_ns != q->start_ns || p->end_ns != q->end_ns ||
		    p->call_ns != q->call_ns || p->own_arrive_ns != q->own_arrive_ns ||
		    p->own_need_ns != q->own_need_ns || p->exposed_ns != q->exposed_ns)
			return false;
	}
	for (uint32_t i = 0; i < a->n_kernels; i++) {
		const struct step_kernel *p = &a->kernels[i], *q = &b->kernels[i];

		if (p->name != q->name || p->stream_class != q->stream_class ||
		    p->count != q->count || p->sum_ns != q->sum_ns || p->max_ns != q->max_ns ||
		    p->blocks != q->blocks || p->hist.n != q->hist.n ||
		    p->hist.count != q->hist.count)
			return false;
		for (uint32_t k = 0; k < p->hist.n; k++)
			if (p->hist.bins[k].bin != q->hist.bins[k].bin ||
			    p->hist.bins[k].count != q->hist.bins[k].count)
				return false;
	}
	return step_same_head(a, b);
}
