/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_pending.c - readings in the making, by host and GPU. */
#include "read/gpu_pending.h"

#define PENDING_MAX 131072u /* GPUs: TESTIMONY_GPUS_MAX */

static uint64_t pending_hash(uint32_t host, int64_t index, uint32_t uuid)
{
	uint64_t h = hash_mix(3, host);

	return index >= 0 ? hash_mix(h, (uint64_t)index) : hash_mix(h, uuid);
}

static void pending_grow(struct gpu_pending *p)
{
	uint32_t size = p->slots ? 2 * (p->mask + 1) : 64;

	free(p->slots);
	p->slots = xcalloc(size, sizeof(*p->slots));
	p->mask = size - 1;
	for (size_t i = 0; i < p->rows.n; i++) {
		const struct gpu_reading *r = &p->rows.v[i].r;
		uint32_t at = (uint32_t)pending_hash(r->host, r->index, r->uuid) & p->mask;

		while (p->slots[at])
			at = (at + 1) & p->mask;
		p->slots[at] = (uint32_t)i + 1;
	}
}

static struct gpu_waiting *pending_row(struct gpu_pending *p, uint32_t host, int64_t index,
				       uint32_t uuid)
{
	uint32_t at;

	if (!p->slots || 2 * (p->rows.n + 1) > p->mask)
		pending_grow(p);
	for (at = (uint32_t)pending_hash(host, index, uuid) & p->mask; p->slots[at];
	     at = (at + 1) & p->mask) {
		struct gpu_waiting *w = &p->rows.v[p->slots[at] - 1];

		if (w->r.host == host && w->r.index == index && (index >= 0 || w->r.uuid == uuid))
			return w;
	}
	if (p->rows.n == PENDING_MAX) {
		p->t->dropped++;
		return NULL;
	}
	*vec_push(&p->rows) = (struct gpu_waiting){ .r = gpu_reading_unknown() };
	p->slots[at] = (uint32_t)p->rows.n;
	p->rows.v[p->rows.n - 1].r.host = host;
	p->rows.v[p->rows.n - 1].r.index = index;
	p->rows.v[p->rows.n - 1].r.uuid = uuid;
	return &p->rows.v[p->rows.n - 1];
}

static void pending_store(struct gpu_pending *p, struct gpu_waiting *w)
{
	struct gpu_reading empty = gpu_reading_unknown();

	p->stored += gpu_reading_store(&w->r, p->t);
	/* Whose it is stays known: later lines may name the GPU only. */
	empty.host = w->r.host;
	empty.index = w->r.index;
	empty.uuid = w->r.uuid;
	empty.model = w->r.model;
	empty.rank = w->r.rank;
	*w = (struct gpu_waiting){ .r = empty };
}

#define WEIGHTS 4u /* of names: 0 to 3 */

struct gpu_reading *gpu_pending_get(struct gpu_pending *p, uint32_t host, int64_t index,
				    uint32_t uuid, const struct gpu_metric_name *name,
				    int64_t time_ns)
{
	struct gpu_waiting *w = pending_row(p, host, index, uuid);
	uint64_t bit = name && name->metric < GPU_SAMPLE_METRICS
			   ? UINT64_C(1) << (name->metric * WEIGHTS + name->weight)
			   : 0;

	if (!w)
		return NULL;
	if ((w->seen & bit) ||
	    (time_ns >= 0 && w->seen && w->r.sample.time_ns >= 0 && time_ns != w->r.sample.time_ns))
		pending_store(p, w);
	w->seen |= bit;
	if (time_ns >= 0)
		w->r.sample.time_ns = time_ns;
	if (w->r.uuid == NO_ID)
		w->r.uuid = uuid;
	return &w->r;
}

void gpu_pending_flush(struct gpu_pending *p)
{
	for (size_t i = 0; i < p->rows.n; i++)
		if (p->rows.v[i].r.any || p->rows.v[i].r.xid > 0)
			pending_store(p, &p->rows.v[i]);
}

void gpu_pending_done(struct gpu_pending *p)
{
	gpu_pending_flush(p);
	free(p->rows.v);
	free(p->slots);
	*p = (struct gpu_pending){ .t = p->t, .stored = p->stored };
}
