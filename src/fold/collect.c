/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect.c - from events to items: what the sweep will need, and nothing else.
 *
 * This is the hot path, once per event of a file: the class of a name is found once a name, lanes
 * and signatures of collectives are cached, and nothing is allocated for an event.
 */
#include "fold/inside.h"

#define TIME_LIMIT	((int64_t)1 << 61)
#define LANES_LIMIT	65535
#define MARKS_LIMIT	(1u << 20)
#define PYTHON_SHORTEST ((int64_t)200000) /* shorter functions explain no stall */
#define MASK(n)		((n)-1)

uint16_t fold_class_new(struct fold *f, uint32_t name)
{
	if (name >= f->n_class) {
		size_t n = MAX(f->names.n, name + 1);

		f->class = vec_reserve(f->class, &f->class_cap, n, sizeof(*f->class));
		memset(f->class + f->n_class, 0, (f->class_cap - f->n_class) * sizeof(*f->class));
		f->n_class = f->class_cap;
	}
	if (!f->class[name])
		f->class[name] =
		    name_classify(intern_get(&f->names, name), intern_len(&f->names, name));
	return f->class[name];
}

static uint16_t lane_add(struct fold *f, bool gpu, uint64_t thread, uint32_t device)
{
	f->lanes = vec_reserve(f->lanes, &f->lanes_cap, f->n_lanes + 1, sizeof(*f->lanes));
	f->lanes[f->n_lanes] = (struct lane){
		.thread = thread,
		.device = device,
		.gpu = gpu,
		.op_start = INT64_MAX,
		.op_end = INT64_MIN,
		.ranges_end = TIME_UNKNOWN,
		.last_end = TIME_UNKNOWN / 2,
		.last_mark = NO_MARK,
		.last_work = NO_ID,
	};
	return (uint16_t)f->n_lanes++;
}

static bool lane_is(const struct lane *l, bool gpu, uint64_t thread, uint32_t device)
{
	return l->thread == thread && l->device == device && l->gpu == gpu;
}

static uint32_t lane_slot(const struct fold *f, bool gpu, uint64_t thread, uint32_t device)
{
	uint32_t i = (uint32_t)hash_mix(hash_mix(gpu, thread), device) & f->lane_mask;

	while (f->lane_slots[i] && !lane_is(&f->lanes[f->lane_slots[i] - 1], gpu, thread, device))
		i = (i + 1) & f->lane_mask;
	return i;
}

static void lanes_rehash(struct fold *f)
{
	uint32_t size = f->lane_slots ? (f->lane_mask + 1) * 2 : 64;

	free(f->lane_slots);
	f->lane_slots = xcalloc(size, sizeof(*f->lane_slots));
	f->lane_mask = MASK(size);
	for (uint32_t i = 0; i < f->n_lanes; i++) {
		const struct lane *l = &f->lanes[i];

		f->lane_slots[lane_slot(f, l->gpu, l->thread, l->device)] = i + 1;
	}
}

static uint16_t lane_find(struct fold *f, bool gpu, uint64_t thread, uint32_t device)
{
	uint32_t slot, lane;

	if (!f->lane_slots || f->n_lanes * 2 >= f->lane_mask)
		lanes_rehash(f);
	slot = lane_slot(f, gpu, thread, device);
	if (!f->lane_slots[slot] && f->n_lanes < LANES_LIMIT)
		f->lane_slots[slot] = lane_add(f, gpu, thread, device) + 1u;
	/* A full table would have no end. */
	lane = f->lane_slots[slot] ? f->lane_slots[slot] - 1 : LANES_LIMIT - 1;
	f->last_lane[gpu] = (struct lane_key){ thread, device, lane };
	return (uint16_t)lane;
}

static inline bool lane_key_is(const struct lane_key *k, uint64_t thread, uint32_t device)
{
	return k->thread == thread && k->device == device && k->lane != NO_ID;
}

static inline uint16_t lane_of(struct fold *f, bool gpu, uint64_t thread, uint32_t device)
{
	const struct lane_key *last = &f->last_lane[gpu];

	return lane_key_is(last, thread, device) ? (uint16_t)last->lane
						 : lane_find(f, gpu, thread, device);
}

static bool comm_same(const struct comm_args *a, const struct comm_args *b)
{
	return a->op == b->op && a->group == b->group && a->group_desc == b->group_desc &&
	       a->ranks == b->ranks && a->dtype == b->dtype && a->group_size == b->group_size &&
	       a->in_elements == b->in_elements && a->out_elements == b->out_elements &&
	       a->peer == b->peer && a->self == b->self;
}

static uint32_t comm_slot(const struct fold *f, const struct comm_args *a)
{
	uint64_t h = hash_mix(hash_mix((uint64_t)a->op, a->group), a->group_desc);
	uint32_t i;

	h = hash_mix(hash_mix(h, a->ranks), a->dtype);
	h = hash_mix(hash_mix(h, (uint64_t)a->in_elements), (uint64_t)a->out_elements);
	h = hash_mix(h, (uint64_t)a->peer << 32 | a->group_size);
	i = (uint32_t)h & f->comm_mask;
	while (f->comm_slots[i] && !comm_same(&f->comms[f->comm_slots[i] - 1], a))
		i = (i + 1) & f->comm_mask;
	return i;
}

static void comms_rehash(struct fold *f)
{
	uint32_t size = f->comm_slots ? (f->comm_mask + 1) * 2 : 256;

	free(f->comm_slots);
	f->comm_slots = xcalloc(size, sizeof(*f->comm_slots));
	f->comm_mask = MASK(size);
	for (uint32_t i = 0; i < f->n_comms; i++)
		f->comm_slots[comm_slot(f, &f->comms[i])] = i + 1;
}

uint32_t fold_comm(struct fold *f, const struct comm_args *args)
{
	uint32_t slot;

	if (f->last_comm < f->n_comms && comm_same(&f->comms[f->last_comm], args))
		return f->last_comm;
	if (!f->comm_slots || f->n_comms * 2 >= f->comm_mask)
		comms_rehash(f);
	slot = comm_slot(f, args);
	if (!f->comm_slots[slot]) {
		f->comms = vec_reserve(f->comms, &f->comms_cap, f->n_comms + 1, sizeof(*f->comms));
		f->comms[f->n_comms] = *args;
		f->comms[f->n_comms].seq = -1;
		f->comm_slots[slot] = (uint32_t)++f->n_comms;
	}
	return f->last_comm = f->comm_slots[slot] - 1;
}

/* The rank as communication calls state it. Newer versions state the rank within the group, so only
   the widest group counts, and it is used only if it is as wide as the job. */
static void note_self(struct fold *f, const struct comm_args *c)
{
	if (c->self < 0 || c->group_size < f->self_size || (uint32_t)c->self >= c->group_size)
		return;
	if (c->group_size == f->self_size && f->self_rank != c->self)
		f->self_rank = -1; /* they contradict each other */
	else if (c->group_size > f->self_size)
		f->self_rank = c->self;
	f->self_size = c->group_size;
}

static void take_mark(struct fold *f, const struct trace_event *e)
{
	const char *digits = intern_get(&f->names, e->name) + strlen("ProfilerStep#");
	char *end;
	unsigned long long number = strtoull(digits, &end, 10);

	if (end == digits || f->n_marks == MARKS_LIMIT)
		return;
	f->marks = vec_reserve(f->marks, &f->marks_cap, f->n_marks + 1, sizeof(*f->marks));
	f->marks[f->n_marks++] = (struct mark){
		.start = e->start_ns,
		.end = e->start_ns + e->duration_ns,
		.number = number,
	};
}

/* The item of an operator, or ITEM_KINDS: not wanted. */
static enum item_kind op_kind(struct fold *f, const struct trace_event *e, uint16_t class,
			      struct lane *lane)
{
	int64_t end = e->start_ns + e->duration_ns;

	if (class & NAME_PARAM)
		return ITEM_COMM_RANGE;
	if (class & (NAME_COMPILE | NAME_GC | NAME_SAVE | NAME_DATA))
		return ITEM_DETAIL;
	if (f->gpu_seen)
		return ITEM_KINDS; /* a GPU job for certain: operators say nothing more */
	if (class & NAME_CALL)
		return ITEM_CALL;
	if (class & NAME_WAITING)
		return ITEM_WAITING;
	if (e->start_ns >= lane->op_start && end <= lane->op_end)
		return ITEM_KINDS; /* within the last one of its thread */
	lane->op_start = e->start_ns;
	lane->op_end = end;
	return ITEM_OP;
}

static inline uint32_t fold_correlation(uint64_t c)
{
	return c <= UINT32_MAX ? (uint32_t)c : (uint32_t)(c ^ c >> 32) | 1;
}

static inline void launch_note(struct fold *f, const struct trace_event *e)
{
	uint32_t correlation = fold_correlation(e->correlation);

	f->launch_seen = true;
	if (correlation)
		f->first_launch = MIN(f->first_launch, correlation);
}

static enum item_kind host_kind(struct fold *f, const struct trace_event *e, uint16_t class,
				struct lane *lane)
{
	const uint16_t telling = NAME_DATA | NAME_SAVE | NAME_COMPILE | NAME_GC;

	switch (e->kind) {
	case EVENT_LAUNCH:
		launch_note(f, e);
		return ITEM_LAUNCH;
	case EVENT_SYNC:
		return ITEM_SYNC;
	case EVENT_COLLECTIVE:
		return ITEM_GLOO;
	case EVENT_ANNOTATION:
		return class & (NAME_RANGE | NAME_PARAM) ? ITEM_COMM_RANGE : ITEM_RANGE;
	case EVENT_PYTHON:
		return e->duration_ns >= PYTHON_SHORTEST || (class & telling) ? ITEM_DETAIL
									      : ITEM_KINDS;
	case EVENT_OP:
		return op_kind(f, e, class, lane);
	default:
		return ITEM_KINDS;
	}
}

static enum item_kind gpu_kind(const struct trace_event *e, uint16_t class)
{
	if (e->kind == EVENT_COPY)
		return ITEM_COPY;
	if (e->kind == EVENT_SET)
		return ITEM_SET;
	if (e->kind == EVENT_UNSEEN)
		return ITEM_UNSEEN;
	return class & NAME_NCCL || e->comm ? ITEM_COLL_KERNEL : ITEM_KERNEL;
}

/* "nccl:all_reduce", "nccl:send 1->2", "nccl:recv 1<-0": the operation, and the other's rank in the
   group. */
static struct comm_args args_of_range(struct fold *f, const struct trace_event *e)
{
	struct comm_args args = e->comm ? *e->comm : comm_args_unknown();
	const char *name = intern_get(&f->names, e->name);
	const char *arrow = strstr(name, "->");

	if (args.op == COMM_NONE)
		args.op = comm_op_of(name, intern_len(&f->names, e->name));
	if (!arrow)
		arrow = strstr(name, "<-");
	if (arrow && args.peer < 0) {
		char *end;
		long peer = strtol(arrow + 2, &end, 10);

		if (end != arrow + 2 && peer >= 0 && peer <= INT32_MAX)
			args.peer = (int32_t)peer;
	}
	return args;
}

/* The signature of a collective, and its number + 1. */
static uint32_t item_comm(struct fold *f, const struct trace_event *e, uint16_t class,
			  enum item_kind kind, uint32_t *ret_seq)
{
	struct comm_args args;

	if (e->comm && e->comm->seq >= 0 && e->comm->seq < UINT32_MAX)
		*ret_seq = (uint32_t)e->comm->seq + 1;
	if (e->comm && class & NAME_PARAM)
		note_self(f, e->comm);
	if (kind != ITEM_COMM_RANGE || !(class & NAME_RANGE))
		return e->comm ? fold_comm(f, e->comm) : NO_ID;
	args = args_of_range(f, e);
	return fold_comm(f, &args);
}

static inline void item_fill(struct fold *f, struct item *it, const struct trace_event *e,
			     enum item_kind kind, uint16_t lane)
{
	it->start = e->start_ns;
	it->lane = lane;
	it->name = e->name;
	it->correlation = fold_correlation(e->correlation);
	f->last = MAX(f->last, e->start_ns + item_set(it, kind, e->duration_ns));
}

static int item_add(struct fold *f, const struct trace_event *e, uint16_t class,
		    enum item_kind kind, uint16_t lane)
{
	bool gpu = kind <= ITEM_SET;
	uint32_t comm = NO_ID, seq = 0;
	int status = 0;
	struct item *it;

	if (e->comm || kind == ITEM_COMM_RANGE)
		comm = item_comm(f, e, class, kind, &seq);
	else if (kind == ITEM_KERNEL)
		seq = (uint32_t)MIN(e->blocks, (uint64_t)UINT32_MAX);
	it = runs_room(&f->runs, gpu, &status, &f->error);
	if (!it)
		return status;
	item_fill(f, it, e, kind, lane);
	it->comm = comm;
	it->seq = seq;
	f->first = MIN(f->first, e->start_ns);
	runs_add(&f->runs, it, gpu);
	return 0;
}

/* Most events: one without arguments, of the lane of the one before, in order, with numbers that
   need no care. False: it takes the long way. */
static inline bool item_add_plain(struct fold *f, const struct trace_event *e, enum item_kind kind)
{
	const bool gpu = kind <= ITEM_SET;
	const struct lane_key *last = &f->last_lane[gpu];
	const int64_t start = e->start_ns, duration = e->duration_ns;
	const uint64_t correlation = e->correlation;
	struct item *it;

	if (e->comm || (correlation | (uint64_t)duration) > UINT32_MAX ||
	    !lane_key_is(last, e->thread, gpu ? e->device : 0))
		return false;
	it = runs_room_plain(&f->runs, gpu, start);
	if (!it)
		return false;
	*it = (struct item){
		.start = start,
		.duration_low = (uint32_t)duration,
		.duration_high_kind = (uint16_t)kind,
		.lane = (uint16_t)last->lane,
		.name = e->name,
		.correlation = (uint32_t)correlation,
		.comm = NO_ID,
		.seq = (uint32_t)MIN(e->blocks, (uint64_t)UINT32_MAX), /* launches have none */
	};
	if (start + duration > f->last)
		f->last = start + duration;
	return true;
}

static int take_gpu(struct fold *f, const struct trace_event *e, uint16_t class)
{
	uint16_t lane = lane_of(f, true, e->thread, e->device);

	f->gpu_seen = true;
	if (e->kind == EVENT_TASK)
		f->lanes[lane].task = true;
	return item_add(f, e, class, gpu_kind(e, class), lane);
}

static int take_host(struct fold *f, const struct trace_event *e, uint16_t class)
{
	uint16_t lane;
	enum item_kind kind;

	if (e->kind == EVENT_GPU_ANNOTATION)
		return 0;
	if (class & NAME_STEP) {
		take_mark(f, e);
		return 0;
	}
	lane = lane_of(f, false, e->thread, 0);
	kind = host_kind(f, e, class, &f->lanes[lane]);
	return kind == ITEM_KINDS ? 0 : item_add(f, e, class, kind, lane);
}

static __attribute__((noinline)) int event_take(struct fold *f, const struct trace_event *e)
{
	uint16_t class = fold_class(f, e->name);

	if (e->start_ns < -TIME_LIMIT || e->start_ns > TIME_LIMIT) {
		f->skipped[SKIP_BAD_TIME]++;
		return 0;
	}
	return e->kind < EVENT_LAUNCH ? take_gpu(f, e, class) : take_host(f, e, class);
}

int fold_event(void *user, const struct trace_event *e)
{
	struct fold *f = user;
	bool usual =
	    e->name < f->n_class && f->class[e->name] == NAME_KNOWN && e->start_ns <= TIME_LIMIT;

	if (usual && e->kind == EVENT_KERNEL && item_add_plain(f, e, ITEM_KERNEL))
		return 0;
	if (usual && e->kind == EVENT_LAUNCH && item_add_plain(f, e, ITEM_LAUNCH)) {
		launch_note(f, e);
		return 0;
	}
	return event_take(f, e);
}

int fold_meta(void *user, const struct trace_meta *meta)
{
	struct fold *f = user;
	struct trace_group *groups = arena_alloc(&f->arena, meta->n_groups * sizeof(*groups));

	f->meta = *meta;
	for (uint32_t i = 0; i < meta->n_groups; i++) {
		groups[i] = meta->groups[i];
		if (!groups[i].ranks)
			continue;
		groups[i].ranks = arena_alloc(&f->arena, groups[i].n_ranks * sizeof(uint32_t));
		memcpy(groups[i].ranks, meta->groups[i].ranks,
		       groups[i].n_ranks * sizeof(uint32_t));
	}
	f->meta.groups = groups;
	return 0;
}
