/* SPDX-License-Identifier: Apache-2.0 */
/*
 * testimony.c - what one file says, bounded: the same said again is counted, series are thinned.
 *
 * Each table has an index of its rows by hash, so that a million equal lines cost a look-up each.
 */
#include "model/testimony.h"

#include <math.h>

const char *witness_name(enum witness w)
{
	static const char *const names[WITNESSES] = {
		[WITNESS_DUMP] = "dump",	 [WITNESS_LOG] = "log",
		[WITNESS_RAS] = "ras",		 [WITNESS_INSPECTOR] = "inspector",
		[WITNESS_STACKS] = "stacks",	 [WITNESS_POWER] = "power",
		[WITNESS_COUNTERS] = "counters", [WITNESS_EVENTS] = "events",
	};

	return w < WITNESSES ? names[w] : "unknown";
}

const char *saying_name(enum saying_kind k)
{
	static const char *const names[SAY_KINDS] = {
		[SAY_TIMEOUT] = "time-out",
		[SAY_STATUS] = "status",
		[SAY_DUMP_SIGNAL] = "dump-signal",
		[SAY_DUMP_LOCAL] = "dump-local",
		[SAY_HEARTBEAT] = "heartbeat",
		[SAY_DESYNC_LAGGING] = "desync-lagging",
		[SAY_DESYNC_STATE] = "desync-state",
		[SAY_NOT_JOINED] = "not-joined",
		[SAY_COMM_SETUP] = "comm-setup",
		[SAY_EXCEPTION] = "exception",
		[SAY_FATAL] = "fatal",
		[SAY_EXIT] = "exit",
		[SAY_FIRST_FAILURE] = "first-failure",
		[SAY_STOPPED] = "stopped",
		[SAY_OUT_OF_MEMORY] = "out-of-memory",
		[SAY_GPU_ERROR] = "gpu-error",
		[SAY_NETWORK_ERROR] = "network-error",
		[SAY_PEER_LOST] = "peer-lost",
		[SAY_STORE_LOST] = "store-lost",
		[SAY_ABORTED] = "aborted",
		[SAY_RENDEZVOUS] = "rendezvous",
		[SAY_CONFIGURATION] = "configuration",
		[SAY_CANCELLED] = "cancelled",
		[SAY_NODE_FAILED] = "node-failed",
		[SAY_HELLO] = "hello",
		[SAY_RESTART] = "restart",
		[SAY_SAVE_BEGIN] = "save-begin",
		[SAY_SAVE_END] = "save-end",
		[SAY_EPOCH_END] = "epoch-end",
		[SAY_EVALUATION] = "evaluation",
		[SAY_DATA_WORK] = "data-work",
		[SAY_COMPILE] = "compile",
		[SAY_DONE] = "done",
		[SAY_LEFT] = "left",
		[SAY_WARNING] = "warning",
		[SAY_FOLDED] = "folded",
		[SAY_EVENT] = "event",
	};

	return k < SAY_KINDS ? names[k] : "unknown";
}

struct testimony *testimony_new(enum witness w, const char *format)
{
	struct testimony *t = xcalloc(1, sizeof(*t));

	t->witness = w;
	t->format = format;
	t->path = t->host = NO_ID;
	t->rank = t->pid = t->world_size = t->time_ns = -1;
	t->version_major = t->version_minor = -1;
	return t;
}

static void index_done(struct testimony_index *in)
{
	free(in->slots);
	*in = (struct testimony_index){ 0 };
}

#define table_done(table) (free((table).v), (table).v = NULL, (table).n = (table).cap = 0)

void testimony_strip(struct testimony *t)
{
	table_done(t->signatures);
	table_done(t->groups);
	table_done(t->entries);
	table_done(t->status);
	index_done(&t->by_signature);
	index_done(&t->by_group);
	intern_done(&t->names);
	t->names = (struct intern){ 0 };
	t->path = t->host = NO_ID;
}

struct testimony *testimony_free(struct testimony *t)
{
	if (!t)
		return NULL;
	testimony_strip(t);
	for (size_t i = 0; i < t->progress.n; i++) {
		free(t->progress.v[i].gaps);
		free(t->progress.v[i].stalls);
	}
	table_done(t->counts);
	table_done(t->sayings);
	table_done(t->progress);
	table_done(t->frames);
	table_done(t->threads);
	table_done(t->stacks);
	table_done(t->gpus);
	table_done(t->counters);
	index_done(&t->by_saying);
	index_done(&t->by_rank);
	index_done(&t->by_gpu);
	index_done(&t->by_counter);
	arena_done(&t->arena);
	free(t);
	return NULL;
}

bool testimony_empty(const struct testimony *t)
{
	return !t->present && !t->entries.n && !t->status.n && !t->counts.n && !t->sayings.n &&
	       !t->progress.n && !t->stacks.n && !t->gpus.n && !t->counters.n && !t->groups.n;
}

uint32_t testimony_name(struct testimony *t, const char *s, size_t len)
{
	return intern(&t->names, s, len);
}

/* --- rows by hash --- */

typedef uint64_t (*row_hash)(const struct testimony *t, uint32_t row);
typedef bool (*row_equal)(const struct testimony *t, uint32_t row, const void *key);

static void index_grow(struct testimony *t, struct testimony_index *in, row_hash hash)
{
	uint32_t size = in->slots ? 2 * (in->mask + 1) : 64;
	struct testimony_index larger = { xcalloc(size, sizeof(uint32_t)), size - 1, in->n };

	for (uint32_t i = 0; in->slots && i <= in->mask; i++) {
		uint32_t at;

		if (!in->slots[i])
			continue;
		at = (uint32_t)hash(t, in->slots[i] - 1) & larger.mask;
		while (larger.slots[at])
			at = (at + 1) & larger.mask;
		larger.slots[at] = in->slots[i];
	}
	free(in->slots);
	*in = larger;
}

/* The slot of the row that equals key, or the empty one where it belongs. */
static uint32_t *index_slot(struct testimony *t, struct testimony_index *in, uint64_t h,
			    row_hash hash, row_equal equal, const void *key)
{
	uint32_t at;

	if (!in->slots || 4 * in->n > 3 * in->mask)
		index_grow(t, in, hash);
	at = (uint32_t)h & in->mask;
	while (in->slots[at] && !equal(t, in->slots[at] - 1, key))
		at = (at + 1) & in->mask;
	return &in->slots[at];
}

/* --- groups and signatures --- */

static uint64_t hash_group(uint32_t name, uint32_t desc)
{
	return hash_mix(hash_mix(0, name), desc);
}

static uint64_t group_row_hash(const struct testimony *t, uint32_t row)
{
	return hash_group(t->groups.v[row].name, t->groups.v[row].desc);
}

static bool group_row_equal(const struct testimony *t, uint32_t row, const void *key)
{
	const struct op_group *k = key;

	return t->groups.v[row].name == k->name && t->groups.v[row].desc == k->desc;
}

uint32_t testimony_group(struct testimony *t, uint32_t name, uint32_t desc)
{
	struct op_group g = { .name = name, .desc = desc, .ranks = NO_ID, .size = -1 };
	uint32_t *slot = index_slot(t, &t->by_group, hash_group(name, desc), group_row_hash,
				    group_row_equal, &g);

	if (!*slot) {
		*vec_push(&t->groups) = g;
		*slot = (uint32_t)t->groups.n;
		t->by_group.n++;
	}
	return *slot - 1;
}

struct signature signature_unknown(void)
{
	return (struct signature){
		.name = NO_ID,
		.in_sizes = NO_ID,
		.out_sizes = NO_ID,
		.in_dtypes = NO_ID,
		.out_dtypes = NO_ID,
		.in_elements = -1,
		.out_elements = -1,
		.source = -1,
		.target = -1,
	};
}

static uint64_t hash_signature(const struct signature *s)
{
	uint64_t h = hash_mix(hash_mix(hash_mix(0, s->op), s->name), s->in_sizes);

	h = hash_mix(hash_mix(hash_mix(h, s->out_sizes), s->in_dtypes), s->out_dtypes);
	h = hash_mix(hash_mix(h, (uint64_t)s->in_elements), (uint64_t)s->out_elements);
	return hash_mix(hash_mix(h, (uint32_t)s->source), (uint32_t)s->target);
}

static uint64_t signature_row_hash(const struct testimony *t, uint32_t row)
{
	return hash_signature(&t->signatures.v[row]);
}

static bool signature_row_equal(const struct testimony *t, uint32_t row, const void *key)
{
	const struct signature *a = &t->signatures.v[row], *b = key;

	return a->op == b->op && a->name == b->name && a->in_sizes == b->in_sizes &&
	       a->out_sizes == b->out_sizes && a->in_dtypes == b->in_dtypes &&
	       a->out_dtypes == b->out_dtypes && a->in_elements == b->in_elements &&
	       a->out_elements == b->out_elements && a->source == b->source &&
	       a->target == b->target;
}

uint32_t testimony_signature(struct testimony *t, const struct signature *s)
{
	uint32_t *slot = index_slot(t, &t->by_signature, hash_signature(s), signature_row_hash,
				    signature_row_equal, s);

	if (!*slot) {
		*vec_push(&t->signatures) = *s;
		*slot = (uint32_t)t->signatures.n;
		t->by_signature.n++;
	}
	return *slot - 1;
}

/* --- sayings --- */

struct saying saying_of(enum saying_kind kind)
{
	return (struct saying){
		.kind = kind,
		.rank = -1,
		.local_rank = -1,
		.peer = -1,
		.group = NO_ID,
		.signature = NO_ID,
		.seq = -1,
		.value = -1,
		.timeout_ms = -1,
		.ran_ms = -1,
		.pid = -1,
		.gpu = -1,
		.host = NO_ID,
		.what = NO_ID,
		.text = NO_ID,
		.time_ns = -1,
		.duration_ns = -1,
		.steps_at = -1,
	};
}

static uint64_t hash_saying(const struct saying *s)
{
	uint64_t h = hash_mix(hash_mix(s->kind, (uint64_t)s->rank), (uint64_t)s->local_rank);

	h = hash_mix(hash_mix(hash_mix(h, (uint64_t)s->peer), s->group), s->signature);
	h = hash_mix(hash_mix(hash_mix(h, (uint64_t)s->seq), (uint64_t)s->value), s->what);
	return hash_mix(hash_mix(hash_mix(h, (uint64_t)s->pid), (uint64_t)s->gpu), s->host);
}

static uint64_t saying_row_hash(const struct testimony *t, uint32_t row)
{
	return hash_saying(&t->sayings.v[row]);
}

static bool saying_row_equal(const struct testimony *t, uint32_t row, const void *key)
{
	const struct saying *a = &t->sayings.v[row], *b = key;

	return a->kind == b->kind && a->rank == b->rank && a->local_rank == b->local_rank &&
	       a->peer == b->peer && a->group == b->group && a->signature == b->signature &&
	       a->seq == b->seq && a->value == b->value && a->what == b->what && a->pid == b->pid &&
	       a->gpu == b->gpu && a->host == b->host;
}

struct saying *testimony_say(struct testimony *t, const struct saying *s)
{
	uint32_t *slot =
	    index_slot(t, &t->by_saying, hash_saying(s), saying_row_hash, saying_row_equal, s);
	struct saying *row;

	if (*slot) {
		row = &t->sayings.v[*slot - 1];
		row->count++;
		row->last_line = s->line;
		row->steps_at = MAX(row->steps_at, s->steps_at);
		row->last_ns = s->time_ns != -1 ? s->time_ns : row->last_ns;
		return row;
	}
	if (t->sayings.n >= TESTIMONY_SAYINGS_MAX) {
		t->dropped++;
		return NULL;
	}
	row = vec_push(&t->sayings);
	*row = *s;
	row->count = 1;
	row->last_ns = s->time_ns;
	row->last_line = s->line;
	*slot = (uint32_t)t->sayings.n;
	t->by_saying.n++;
	return row;
}

/* --- progress --- */

struct progress_line progress_line_unknown(void)
{
	return (struct progress_line){
		.rank = -1,
		.step = -1,
		.total = -1,
		.epoch = -1,
		.epoch_at = -1,
		.epoch_steps = -1,
		.time_ns = -1,
		.step_ms = NAN,
		.tokens_per_s = NAN,
		.loss = NAN,
	};
}

static uint64_t progress_row_hash(const struct testimony *t, uint32_t row)
{
	return hash_mix(0, (uint64_t)t->progress.v[row].rank);
}

static bool progress_row_equal(const struct testimony *t, uint32_t row, const void *key)
{
	return t->progress.v[row].rank == *(const int64_t *)key;
}

static struct log_progress *progress_of(struct testimony *t, int64_t rank)
{
	uint32_t *slot;

	/* mostly the same rank again, or the one that came behind it before */
	for (uint32_t row = t->progress_last; row < t->progress.n && row < t->progress_last + 2;
	     row++)
		if (t->progress.v[row].rank == rank) {
			t->progress_last = row;
			return &t->progress.v[row];
		}
	slot = index_slot(t, &t->by_rank, hash_mix(0, (uint64_t)rank), progress_row_hash,
			  progress_row_equal, &rank);

	if (!*slot) {
		*vec_push(&t->progress) = (struct log_progress){
			.rank = rank,
			.first_step = -1,
			.last_step = -1,
			.total_steps = -1,
			.first_epoch = -1,
			.last_epoch = -1,
			.epoch_at = -1,
			.epoch_steps = -1,
			.first_ns = -1,
			.last_ns = -1,
			.last_step_ms = NAN,
			.last_tokens_per_s = NAN,
			.last_loss = NAN,
		};
		*slot = (uint32_t)t->progress.n;
		t->by_rank.n++;
	}
	t->progress_last = *slot - 1;
	return &t->progress.v[*slot - 1];
}

/* Room for one more behind n: it doubles when n is its size, a power of two. */
static void *row_room(void *v, uint32_t n, size_t size)
{
	return n & (n - 1) ? v : xrealloc(v, (n ? 2 * n : 1) * size);
}

static void progress_gap(struct log_progress *p, int64_t step, double ms)
{
	uint32_t at = p->n_gaps;

	while (at && p->gaps[at - 1].ms < ms)
		at--;
	if (at >= PROGRESS_GAPS)
		return;
	if (p->n_gaps < PROGRESS_GAPS) {
		p->gaps = row_room(p->gaps, p->n_gaps, sizeof(*p->gaps));
		p->n_gaps++;
	}
	memmove(&p->gaps[at + 1], &p->gaps[at], (p->n_gaps - 1 - at) * sizeof(p->gaps[0]));
	p->gaps[at] = (struct log_gap){ step, ms };
}

/* --- where the job stood still and went on --- */

#define STALL_WARM     8u   /* lines before the usual is known */
#define STALL_PRINTED  2e3  /* ms beyond the usual, and as long as the usual again */
#define STALL_STAMPED  3e3  /* stamps may be of whole seconds */
#define STALL_RUN_MOST 8u   /* more lines in a row: steps take longer from here on */
#define STALL_SMALL    0.25 /* of the third longest: no longer of its kind */
#define USUAL_STEP     0.02 /* how fast the usual follows */
#define MINUTE_NS      ((int64_t)60 * 1000000000)

/* Up where the line took longer, down where it took less: near the median of what came lately. */
static void progress_usual(struct log_progress *p, double ms)
{
	double first = p->timed < 64 ? 1.0 / (double)(p->timed + 1) : 0; /* beyond it is less */
	double step = 1 + MAX(USUAL_STEP, first), up = p->usual_ms * step;

	if (!p->timed++)
		p->usual_ms = ms;
	else if (ms > p->usual_ms)
		p->usual_ms = MIN(ms, MAX(up, 1.0));
	else
		p->usual_ms = MAX(ms, p->usual_ms / step);
}

static void progress_line_steps(struct log_progress *p, int64_t steps)
{
	if (steps == p->line_steps) {
		p->line_votes++;
	} else if (!p->line_votes) {
		p->line_steps = steps;
		p->line_votes = 1;
	} else {
		p->line_votes--;
	}
}

static int longer_first(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x < y) - (x > y);
}

/* Room for one more: without those that are small beside the others, else without the oldest. */
static void stalls_thin(struct log_progress *p)
{
	double ms[PROGRESS_STALLS] = { 0 }, least;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < p->n_stalls; i++)
		ms[i] = p->stalls[i].ms;
	qsort(ms, p->n_stalls, sizeof(*ms), longer_first);
	least = STALL_SMALL * ms[2];
	for (uint32_t i = 0; i < p->n_stalls; i++)
		if (p->stalls[i].ms >= least)
			p->stalls[kept++] = p->stalls[i];
	if (kept == PROGRESS_STALLS)
		memmove(&p->stalls[0], &p->stalls[1], --kept * sizeof(p->stalls[0]));
	p->n_stalls = kept;
}

static void progress_stall(struct log_progress *p, const struct progress_line *l, double ms)
{
	double extra = ms - p->usual_ms;
	bool stands = p->timed >= STALL_WARM && extra >= p->usual_ms &&
		      extra >= (p->stamped ? STALL_STAMPED : STALL_PRINTED);

	p->walked_ms += ms;
	progress_usual(p, ms);
	if (!stands) {
		p->stall_run = 0;
		return;
	}
	p->stalled_ms += extra;
	if (!p->stall_run++) {
		if (p->n_stalls == PROGRESS_STALLS)
			stalls_thin(p);
		p->stalls = row_room(p->stalls, p->n_stalls, sizeof(*p->stalls));
		p->stalls[p->n_stalls++] = (struct log_stall){ l->step, l->time_ns, extra };
		p->stalls_seen++;
		return;
	}
	p->stalls[p->n_stalls - 1].ms += extra; /* a rate that is smoothed comes back slowly */
	if (p->stall_run <= STALL_RUN_MOST)
		return;
	p->stalled_ms -= p->stalls[--p->n_stalls].ms;
	p->stalls_seen--;
	p->stall_run = 0;
	p->usual_ms = ms;
}

static void progress_walk(struct log_progress *p, const struct progress_line *l, int64_t steps)
{
	bool stamps = l->time_ns >= 0 && p->last_ns >= 0;

	if (steps < -1) /* begun again from an earlier step */
		while (p->n_stalls && p->stalls[p->n_stalls - 1].step > l->step)
			p->n_stalls--;
	if (steps < 0)
		p->stall_run = 0;
	if (steps <= 0 || (stamps && l->time_ns < p->last_ns) ||
	    (stamps && !(l->time_ns % MINUTE_NS) && !(p->last_ns % MINUTE_NS)) ||
	    (!stamps && isnan(l->step_ms)))
		return;
	p->stamped = stamps;
	p->walked_steps += steps;
	progress_line_steps(p, steps);
	progress_stall(
	    p, l, stamps ? (double)(l->time_ns - p->last_ns) / 1e6 : l->step_ms * (double)steps);
}

static void progress_more(struct log_progress *p, double tokens_per_s, double loss)
{
	p->last_tokens_per_s = isnan(tokens_per_s) ? p->last_tokens_per_s : tokens_per_s;
	p->last_loss = isnan(loss) ? p->last_loss : loss;
}

void testimony_progress(struct testimony *t, const struct progress_line *l)
{
	struct log_progress *p = progress_of(t, l->rank);
	int64_t steps = p->last_step >= 0 ? l->step - p->last_step : 0;
	double ms = l->step_ms;

	if (isnan(ms) && steps > 0 && l->time_ns >= 0 && p->last_ns >= 0 &&
	    l->time_ns >= p->last_ns)
		ms = (double)(l->time_ns - p->last_ns) / 1e6 / (double)steps;
	if (!isnan(ms))
		progress_gap(p, l->step, ms);
	progress_walk(p, l, steps);
	p->restarts += steps < 0;
	if (p->first_step < 0) {
		p->first_step = l->step;
		p->first_epoch = l->epoch;
		p->line = l->line;
	}
	if (p->first_ns < 0)
		p->first_ns = l->time_ns;
	p->last_step = l->step;
	p->total_steps = l->total >= 0 ? l->total : p->total_steps;
	p->last_epoch = l->epoch >= 0 ? l->epoch : p->last_epoch;
	if (l->epoch_at >= 0) {
		p->epoch_at = l->epoch_at;
		p->epoch_steps = l->epoch_steps;
	}
	p->last_ns = l->time_ns >= 0 ? l->time_ns : p->last_ns;
	p->last_step_ms = isnan(ms) ? p->last_step_ms : ms;
	progress_more(p, l->tokens_per_s, l->loss);
	p->last_line = l->line;
	p->lines++;
}

void testimony_progress_more(struct testimony *t, int64_t rank, double tokens_per_s, double loss)
{
	progress_more(progress_of(t, rank), tokens_per_s, loss);
}

/* --- power and counters --- */

struct gpu_key {
	uint32_t host, uuid;
	int64_t index;
};

static uint64_t hash_gpu(struct gpu_key k)
{
	uint64_t h = hash_mix(1, k.host);

	return k.index >= 0 ? hash_mix(h, (uint64_t)k.index) : hash_mix(h, k.uuid);
}

static struct gpu_key gpu_key_of(const struct testimony *t, uint32_t row)
{
	return (struct gpu_key){ t->gpus.v[row].host, t->gpus.v[row].uuid, t->gpus.v[row].index };
}

static uint64_t gpu_row_hash(const struct testimony *t, uint32_t row)
{
	return hash_gpu(gpu_key_of(t, row));
}

static bool gpu_row_equal(const struct testimony *t, uint32_t row, const void *key)
{
	struct gpu_key a = gpu_key_of(t, row), b = *(const struct gpu_key *)key;

	return a.host == b.host && a.index == b.index && (a.index >= 0 || a.uuid == b.uuid);
}

struct gpu_series *testimony_gpu(struct testimony *t, uint32_t host, int64_t index, uint32_t uuid)
{
	struct gpu_key key = { host, uuid, index };
	uint32_t *slot =
	    index_slot(t, &t->by_gpu, hash_gpu(key), gpu_row_hash, gpu_row_equal, &key);

	if (!*slot) {
		if (t->gpus.n >= TESTIMONY_GPUS_MAX) {
			t->dropped++;
			return NULL;
		}
		*vec_push(&t->gpus) = (struct gpu_series){
			.host = host,
			.index = index,
			.uuid = uuid,
			.model = NO_ID,
			.rank = -1,
			.stride = 1,
			.xid = -1,
			.throttle = NO_ID,
			.processes = -1,
		};
		*slot = (uint32_t)t->gpus.n;
		t->by_gpu.n++;
	}
	return &t->gpus.v[*slot - 1];
}

struct gpu_sample gpu_sample_unknown(void)
{
	return (struct gpu_sample){ -1, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN };
}

/* samples[n_samples - 1] is always the latest; those before it are every stride-th. */
void gpu_series_add(struct testimony *t, struct gpu_series *g, const struct gpu_sample *s)
{
	if (!g->samples)
		g->samples = arena_alloc(&t->arena, 8 * sizeof(*g->samples));
	/* Once thinned it has its full size. */
	if (g->stride == 1 && g->n_samples >= 8 && g->n_samples < GPU_SAMPLES &&
	    !(g->n_samples & (g->n_samples - 1))) {
		struct gpu_sample *more =
		    arena_alloc(&t->arena, 2 * g->n_samples * sizeof(*g->samples));

		memcpy(more, g->samples, g->n_samples * sizeof(*more));
		g->samples = more;
	}
	if (g->n_samples == GPU_SAMPLES) {
		for (uint32_t i = 0; i < GPU_SAMPLES / 2; i++)
			g->samples[i] = g->samples[2 * i + 1];
		g->n_samples = GPU_SAMPLES / 2;
		g->stride *= 2;
	}
	if (g->n_samples && g->seen % g->stride)
		g->n_samples--; /* the last one was only there because it was the latest */
	g->samples[g->n_samples++] = *s;
	g->seen++;
}

static uint64_t hash_counter(const struct counter *c)
{
	return hash_mix(hash_mix(hash_mix(2, c->host), c->device), c->name);
}

static uint64_t counter_row_hash(const struct testimony *t, uint32_t row)
{
	return hash_counter(&t->counters.v[row]);
}

static bool counter_row_equal(const struct testimony *t, uint32_t row, const void *key)
{
	const struct counter *a = &t->counters.v[row], *b = key;

	return a->host == b->host && a->device == b->device && a->name == b->name;
}

void testimony_counter(struct testimony *t, uint32_t host, uint32_t device, uint32_t name,
		       double value)
{
	struct counter c = { host, device, name, value, value, 1 };
	uint32_t *slot = index_slot(t, &t->by_counter, hash_counter(&c), counter_row_hash,
				    counter_row_equal, &c);

	if (*slot) {
		t->counters.v[*slot - 1].last = value;
		t->counters.v[*slot - 1].seen++;
		return;
	}
	if (t->counters.n >= TESTIMONY_SAYINGS_MAX) {
		t->dropped++;
		return;
	}
	*vec_push(&t->counters) = c;
	*slot = (uint32_t)t->counters.n;
	t->by_counter.n++;
}

/* --- stacks --- */

struct process_stack *testimony_stack(struct testimony *t)
{
	struct process_stack *s;

	if (t->stacks.n >= TESTIMONY_STACKS_MAX) {
		t->dropped++;
		return NULL;
	}
	s = vec_push(&t->stacks);
	*s = (struct process_stack){
		.rank = -1,
		.local_rank = -1,
		.ranks = NO_ID,
		.pid = -1,
		.host = NO_ID,
		.command = NO_ID,
		.thread = (uint32_t)t->threads.n,
		.processes = 1,
	};
	return s;
}

struct thread_stack *testimony_thread(struct testimony *t)
{
	struct thread_stack *th = vec_push(&t->threads);

	*th = (struct thread_stack){ .name = NO_ID, .frame = (uint32_t)t->frames.n };
	t->stacks.v[t->stacks.n - 1].n_threads++;
	return th;
}

void testimony_frame(struct testimony *t, uint32_t function, uint32_t file, int32_t line)
{
	*vec_push(&t->frames) = (struct frame){ function, file, line };
	t->threads.v[t->threads.n - 1].n_frames++;
}

void testimony_forget_things(struct testimony *t)
{
	t->stacks.n = t->threads.n = t->frames.n = 0;
	for (size_t i = 0; i < t->gpus.n; i++) {
		struct gpu_series *g = &t->gpus.v[i];

		g->n_samples = 0;
		g->seen = 0;
		g->stride = 1;
		g->xid = g->processes = -1;
		g->throttle = NO_ID;
	}
}
