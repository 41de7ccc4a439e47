/* SPDX-License-Identifier: Apache-2.0 */
/* scene_things.c - stacks, GPUs and counters of communicators, tied to ranks. */
#include "fold/scene_inside.h"
#include "model/doing.h"

#include <math.h>
#include <stdio.h>

/* --- stacks --- */

static uint32_t main_thread_of(const struct testimony *t, const struct process_stack *p)
{
	uint32_t best = p->thread;

	for (uint32_t i = 0; i < p->n_threads; i++)
		if (t->threads.v[p->thread + i].main)
			return p->thread + i;
	/* the deepest is where the program is, if no tool names the main one */
	for (uint32_t i = 1; i < p->n_threads; i++)
		if (t->threads.v[p->thread + i].n_frames > t->threads.v[best].n_frames)
			best = p->thread + i;
	return best;
}

static uint32_t unknown_rank(struct scene *s, const struct scene_stack *of)
{
	uint32_t known = s->ranks.n && s->ranks.v[s->ranks.n - 1].rank < 0
			     ? s->ranks.v[s->ranks.n - 1].unknown
			     : 0; /* they are last */

	*vec_push(&s->ranks) = (struct scene_rank){
		.rank = -1,
		.unknown = known + 1,
		.host = of->host,
		.pid = of->pid,
		.gpu = -1,
		.lived = true,
		.wait_group = NO_ID,
		.wait_seq = -1,
		.usual = NO_ID,
		.stack = NO_ID,
		.stack_before = NO_ID,
		.progress = NO_ID,
	};
	return (uint32_t)s->ranks.n - 1;
}

static void take_stack(struct building *b, const struct testimony *t, uint32_t process)
{
	struct scene *s = b->s;
	const struct process_stack *p = &t->stacks.v[process];
	struct scene_stack k = {
		.pid = p->pid,
		.host = scene_name(s, &t->names, p->host != NO_ID ? p->host : t->host),
		.path = scene_name(s, &t->names, t->path),
		.tool = p->tool,
		.of = t,
		.process = process,
		.main_thread = main_thread_of(t, p),
	};
	size_t n = 0;
	_cleanup_free_ int64_t *ranks =
	    p->ranks == NO_ID ? NULL : ranks_of_text(intern_get(&t->names, p->ranks), &n);
	int64_t rank = p->rank >= 0 ? p->rank : t->rank;

	if (!p->n_threads)
		return;
	if (!n) {
		k.row = scene_row(s, rank);
		*vec_push(&s->stacks) = k;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		k.row = scene_row(s, ranks[i]);
		*vec_push(&s->stacks) = k;
	}
}

/* Files of one name in two folders, as two recordings leave them. */
static bool two_moments(const struct scene *s, const struct scene_stack *a,
			const struct scene_stack *b)
{
	const char *x = a->path == NO_ID ? "" : intern_get(&s->names, a->path);
	const char *y = b->path == NO_ID ? "" : intern_get(&s->names, b->path);
	const char *x_name = strrchr(x, '/'), *y_name = strrchr(y, '/');

	return x_name && y_name && a->tool == b->tool && !strcmp(x_name, y_name) && strcmp(x, y);
}

/* A loader's worker, a compiler's or a launcher: no rank, whoever started it. */
static bool is_no_rank(const struct scene_stack *k)
{
	enum doing d = doing_of_process(k->of, &k->of->stacks.v[k->process]).doing;

	return d == DOING_WORKER || d == DOING_LAUNCHER;
}

/* Of several stacks of one rank the last one by path that has a Python frame, else the last. */
static void give_stack(struct scene *s, uint32_t i)
{
	struct scene_stack *k = &s->stacks.v[i];
	struct scene_rank *r;

	if (k->row == NO_ID)
		k->row = unknown_rank(s, k);
	r = &s->ranks.v[k->row];
	r->lived = true;
	r->witnesses |= 1u << WITNESS_STACKS;
	r->pid = r->pid < 0 ? k->pid : r->pid;
	r->host = r->host == NO_ID ? k->host : r->host;
	if (r->stack == NO_ID || s->stacks.v[r->stack].tool == STACK_KERNEL ||
	    (k->tool != STACK_KERNEL && k->tool != STACK_GDB)) {
		if (r->stack != NO_ID && two_moments(s, &s->stacks.v[r->stack], k))
			r->stack_before = r->stack;
		r->stack = i;
	}
}

/* Ranks first: what their workers do says nothing of them, unless there is nothing else. */
static void give_stacks(struct scene *s)
{
	_cleanup_free_ bool *left = xcalloc(s->stacks.n + 1, sizeof(*left));

	for (uint32_t i = 0; i < s->stacks.n; i++) {
		left[i] = is_no_rank(&s->stacks.v[i]);
		if (!left[i])
			give_stack(s, i);
	}
	for (uint32_t i = 0; i < s->stacks.n; i++) {
		uint32_t row = s->stacks.v[i].row;

		if (left[i] && (row == NO_ID ? !s->ranks.n : s->ranks.v[row].stack == NO_ID))
			give_stack(s, i);
	}
}

void build_stacks(struct building *b)
{
	for (size_t i = 0; i < b->n; i++)
		for (uint32_t p = 0; p < b->parts[i].t->stacks.n; p++)
			take_stack(b, b->parts[i].t, p);
}

void settle_stacks(struct building *b)
{
	give_stacks(b->s);
}

/* --- GPUs --- */

struct gpu_owner {
	uint32_t host;
	int64_t gpu, rank;
};

static int by_gpu(const void *a, const void *b)
{
	const struct gpu_owner *x = a, *y = b;

	if (x->gpu != y->gpu)
		return x->gpu < y->gpu ? -1 : 1;
	if (x->host != y->host)
		return x->host < y->host ? -1 : 1;
	return (x->rank > y->rank) - (x->rank < y->rank);
}

struct gpu_owners {
	struct gpu_owner *v;
	size_t n, cap;
};

static struct gpu_owners owners_of(const struct scene *s)
{
	struct gpu_owners o = { 0 };

	for (size_t i = 0; i < s->ranks.n; i++)
		if (s->ranks.v[i].gpu >= 0)
			*vec_push(&o) = (struct gpu_owner){ s->ranks.v[i].host, s->ranks.v[i].gpu,
							    s->ranks.v[i].rank };
	if (o.n)
		qsort(o.v, o.n, sizeof(*o.v), by_gpu);
	return o;
}

/* -1 if nobody says whose it is. Where all GPUs are of one host, a rank without one will do. */
static int64_t rank_of_gpu(const struct gpu_owners *o, uint32_t host, int64_t index, bool one_host)
{
	size_t low = 0, high = o->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (o->v[middle].gpu < index ||
		    (o->v[middle].gpu == index && !one_host && o->v[middle].host < host))
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < o->n && o->v[low].gpu == index && index >= 0; low++) {
		if (o->v[low].host == host ||
		    (one_host && (host == NO_ID || o->v[low].host == NO_ID)))
			return o->v[low].rank;
		if (!one_host)
			break;
	}
	return -1;
}

static bool same_moments(const struct gpu_series *a, const struct gpu_series *b)
{
	const struct gpu_sample *x = a->samples, *y = b->samples;

	if (!a->n_samples || !b->n_samples || x[0].time_ns <= 0 || y[0].time_ns <= 0)
		return true; /* nothing says that one was taken after the other */
	return x[0].time_ns <= y[b->n_samples - 1].time_ns &&
	       y[0].time_ns <= x[a->n_samples - 1].time_ns;
}

/* Files that name no host and show the same GPU at the same time are of different hosts: each is
   called after its file. */
static void hosts_of_files(struct scene *s)
{
	bool several = false;

	for (size_t i = 0; i < s->gpus.n && !several; i++)
		for (size_t k = i + 1; k < s->gpus.n && k < i + 64 && !several; k++)
			several = s->gpus.v[i].of != s->gpus.v[k].of &&
				  s->gpus.v[i].host == NO_ID && s->gpus.v[k].host == NO_ID &&
				  s->gpus.v[i].series->index == s->gpus.v[k].series->index &&
				  same_moments(s->gpus.v[i].series, s->gpus.v[k].series);
	for (size_t i = 0; i < s->gpus.n && several; i++) {
		const struct testimony *t = s->gpus.v[i].of;

		if (s->gpus.v[i].host == NO_ID)
			s->gpus.v[i].host = scene_name(s, &t->names, t->path);
	}
}

static int by_host_and_index(const void *a, const void *b, void *names)
{
	const struct scene_gpu *x = a, *y = b;
	/* as people count hosts: node-9 before node-10 */
	int order = strverscmp(intern_get(names, x->host), intern_get(names, y->host));

	if (order)
		return order;
	return (x->series->index > y->series->index) - (x->series->index < y->series->index);
}

/* In order of host and GPU the n-th GPU is the n-th rank's, where their numbers agree. */
static void assume_order(struct scene *s)
{
	int64_t nth = -1;
	bool fits, one_host = true;

	qsort_r(s->gpus.v, s->gpus.n, sizeof(*s->gpus.v), by_host_and_index, &s->names);
	for (size_t i = 0; i < s->gpus.n; i++) {
		nth += !i || s->gpus.v[i].host != s->gpus.v[i - 1].host ||
		       s->gpus.v[i].series->index != s->gpus.v[i - 1].series->index;
		one_host &= s->gpus.v[i].host == s->gpus.v[0].host;
	}
	fits = s->world_size == nth + 1 || (s->world_size > nth + 1 && one_host);
	nth = -1;
	for (size_t i = 0; i < s->gpus.n && fits; i++) {
		struct scene_gpu *g = &s->gpus.v[i];

		nth += !i || g->host != s->gpus.v[i - 1].host ||
		       g->series->index != s->gpus.v[i - 1].series->index;
		if (g->row == NO_ID) {
			g->row = scene_row(s, nth);
			g->assumed = g->row != NO_ID;
		}
	}
}

void build_gpus(struct building *b)
{
	struct scene *s = b->s;
	struct gpu_owners owners;
	bool open = false, one_host = true;

	for (size_t i = 0; i < b->n; i++) {
		const struct testimony *t = b->parts[i].t;

		for (size_t k = 0; k < t->gpus.n; k++) {
			const struct gpu_series *g = &t->gpus.v[k];

			*vec_push(&s->gpus) = (struct scene_gpu){
				.series = g,
				.of = t,
				.host =
				    scene_name(s, &t->names, g->host != NO_ID ? g->host : t->host),
				.row = scene_row(s, g->rank),
			};
		}
	}
	hosts_of_files(s);
	owners = owners_of(s);
	for (size_t i = 1; i < s->gpus.n; i++)
		one_host &= s->gpus.v[i].host == s->gpus.v[0].host;
	for (size_t i = 0; i < s->gpus.n; i++) {
		struct scene_gpu *g = &s->gpus.v[i];

		if (g->row == NO_ID)
			g->row =
			    scene_row(s, rank_of_gpu(&owners, g->host, g->series->index, one_host));
		open |= g->row == NO_ID;
	}
	free(owners.v);
	if (open)
		assume_order(s);
	for (size_t i = 0; i < s->gpus.n; i++)
		if (s->gpus.v[i].row != NO_ID)
			s->ranks.v[s->gpus.v[i].row].witnesses |= 1u << WITNESS_POWER;
}

/* --- RAS and Inspector --- */

static int by_count(const void *a, const void *b)
{
	const struct scene_count *x = a, *y = b;

	if (x->group != y->group)
		return x->group < y->group ? -1 : 1;
	if (x->c.rank != y->c.rank)
		return x->c.rank < y->c.rank ? -1 : 1;
	return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

static void order_counts(struct scene *s)
{
	size_t from = 0;

	if (s->counts.n)
		qsort(s->counts.v, s->counts.n, sizeof(*s->counts.v), by_count);
	for (size_t i = 0; i <= s->counts.n; i++) {
		int64_t latest = INT64_MIN;

		if (i < s->counts.n && s->counts.v[i].group == s->counts.v[from].group)
			continue;
		for (size_t k = from; k < i; k++)
			latest = MAX(latest, s->counts.v[k].time_ns);
		for (size_t k = from; k < i; k++) {
			struct scene_count *c = &s->counts.v[k];

			c->latest = c->time_ns == latest;
			c->before = k > from && s->counts.v[k - 1].c.rank == c->c.rank
					? (uint32_t)k - 1
					: NO_ID;
		}
		from = i;
	}
}

/* The largest communicator is the world: its ranks are the job's. */
static void tie_counts(struct scene *s)
{
	int64_t largest = -1;

	for (size_t i = 0; i < s->counts.n; i++)
		largest = MAX(largest, s->counts.v[i].size);
	for (size_t i = 0; i < s->counts.n; i++) {
		struct scene_count *c = &s->counts.v[i];
		struct scene_rank *r;

		if (c->size != largest || (s->world_size > 0 && largest != s->world_size))
			continue;
		c->row = scene_row(s, c->c.rank);
		if (c->row == NO_ID)
			continue;
		r = &s->ranks.v[c->row];
		r->pid = c->c.pid > 0 ? c->c.pid : r->pid;
		r->gpu = c->c.gpu >= 0 ? c->c.gpu : r->gpu;
		r->host = c->c.host != NO_ID ? c->c.host : r->host;
		r->witnesses |= 1u << WITNESS_RAS;
		r->lived = true;
	}
	for (size_t i = 0; i < s->counts.n; i++)
		for (size_t k = 0; s->counts.v[i].row == NO_ID && k < s->ranks.n; k++)
			if (s->ranks.v[k].pid == s->counts.v[i].c.pid && s->ranks.v[k].pid > 0 &&
			    s->ranks.v[k].host == s->counts.v[i].c.host)
				s->counts.v[i].row = (uint32_t)k;
}

void build_counts(struct building *b)
{
	struct scene *s = b->s;

	for (size_t i = 0; i < b->n; i++) {
		const struct testimony *t = b->parts[i].t;

		for (size_t k = 0; k < t->counts.n; k++) {
			const struct comm_count *c = &t->counts.v[k];
			const struct op_group *g = &t->groups.v[c->group];
			struct scene_count to = {
				.c = *c,
				.of = t,
				.row = NO_ID,
				.size = g->size,
				.time_ns = t->time_ns,
			};

			to.c.host = scene_name(s, &t->names, c->host);
			to.group = scene_group_row(b, scene_name(s, &t->names, g->name),
						   scene_name(s, &t->names, g->desc), NO_ID);
			*vec_push(&s->counts) = to;
		}
	}
	order_counts(s);
	tie_counts(s);
}

/* --- counters of network ports --- */

/* Counters that stand still on a sound port. Waits and bytes rise on any. */
static bool means_trouble(const char *name)
{
	static const char *const words[] = {
		"symbol_error",	    "link_downed",    "link_error_recovery", "local_link_integrity",
		"excessive_buffer", "rcv_errors",     "rcv_remote_physical", "xmit_discards",
		"out_of_sequence",  "packet_seq_err", "local_ack_timeout",   "rnr_nak_retry",
		"req_cqe_error",    "resp_cqe_error", "roce_adp_retrans",    "rx_crc_errors",
		"rx_errors",	    "carrier_errors", "phy_raw_errors",	     "pcie_replay",
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcasestr(name, words[i]))
			return true;
	return false;
}

/* The same counter in two files, each read once: what lies between is the rise. */
static void join_readings(struct scene *s)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->counters.n; i++) {
		struct scene_counter *c = &s->counters.v[i];
		size_t at = 0;

		while (at < kept &&
		       (s->counters.v[at].host != c->host ||
			s->counters.v[at].device != c->device || s->counters.v[at].name != c->name))
			at++;
		if (at == kept) {
			s->counters.v[kept++] = *c;
		} else if (c->once && s->counters.v[at].once) {
			s->counters.v[at].rise = fabs(c->rise - s->counters.v[at].rise);
			s->counters.v[at].once = false;
		}
	}
	s->counters.n = kept;
}

/* A value that was read once may be years old: only those that rose count as risen. */
void build_counters(struct building *b)
{
	struct scene *s = b->s;

	for (size_t i = 0; i < b->n; i++) {
		const struct testimony *t = b->parts[i].t;

		for (size_t k = 0; k < t->counters.n; k++) {
			const struct counter *c = &t->counters.v[k];
			bool once = c->seen < 2;
			double rise = once ? c->last : c->last - c->first;

			if (!(rise > 0) || !means_trouble(intern_get(&t->names, c->name)))
				continue;
			*vec_push(&s->counters) = (struct scene_counter){
				.host =
				    scene_name(s, &t->names, c->host != NO_ID ? c->host : t->host),
				.device = scene_name(s, &t->names, c->device),
				.name = scene_name(s, &t->names, c->name),
				.rise = rise,
				.once = once,
			};
		}
	}
	join_readings(s);
}
