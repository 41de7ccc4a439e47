/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nsys.c - the tables of an Nsight Systems export, and the ranks in it as traces.
 *
 * Tables and columns came and went over the versions: each is taken if it is there. Rows of all
 * tables are kept, small, since what tells whose a row is may stand in any of them.
 */
#include "read/nsys_inside.h"

#include <stdio.h>
#include <sys/stat.h>

#include "read/survey.h"

#define TIME_MAX_NS	((int64_t)1 << 60)
#define DURATION_MAX_NS ((int64_t)7 * 24 * 3600 * 1000000000)
#define NAME_BYTES_MAX	4096u
#define COPY_BYTES_MAX	((uint64_t)2 << 30) /* of a compressed file, unpacked into memory */
#define COPY_BLOCK	((size_t)1 << 20)
#define PUSH_POP_RANGE	59 /* values of NVTX_EVENTS.eventType */
#define START_END_RANGE 60
#define DOMAIN_CREATED	75

struct unpacked {
	uint8_t *bytes;
	size_t len, cap;
};

/* --- values --- */

static uint64_t unsigned_of(const struct sqlite_value *v)
{
	return v->kind == SQLITE_NUMBER && v->number > 0 ? (uint64_t)v->number : 0;
}

static int by_id(const void *a, const void *b)
{
	const struct nsys_string *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static uint32_t string_of(const struct nsys *n, const struct sqlite_value *v)
{
	struct nsys_string key = { .id = v->number };
	const struct nsys_string *found = NULL;

	if (v->kind == SQLITE_NUMBER && n->strings.n)
		found = bsearch(&key, n->strings.v, n->strings.n, sizeof(key), by_id);
	return found ? found->name : NO_ID;
}

/* Start and end as every table has them; false if the row is of no use. */
static bool take_times(struct nsys *n, const struct sqlite_value *start,
		       const struct sqlite_value *end, struct nsys_row *r)
{
	n->stats->events++;
	n->stats->skipped[SKIP_BAD_NUMBER] +=
	    start->kind == SQLITE_NO_NUMBER || end->kind == SQLITE_NO_NUMBER;
	if (start->kind != SQLITE_NUMBER || start->number < -TIME_MAX_NS ||
	    start->number > TIME_MAX_NS) {
		n->stats->skipped[SKIP_BAD_TIME]++;
		return false;
	}
	r->start = r->end = start->number;
	if (end->kind == SQLITE_NUMBER && end->number >= r->start &&
	    (uint64_t)end->number - (uint64_t)r->start <= (uint64_t)DURATION_MAX_NS)
		r->end = end->number;
	else
		n->stats->skipped[SKIP_BAD_DURATION]++;
	return true;
}

static void keep(struct nsys *n, const struct nsys_row *r)
{
	if (n->rows.n == NSYS_ROWS_MAX)
		n->beyond++;
	else
		*vec_push(&n->rows) = *r;
}

/* --- tables --- */

static int take_string(void *user, const struct sqlite_value *v)
{
	struct nsys *n = user;

	if (v[0].kind != SQLITE_NUMBER || v[1].kind != SQLITE_TEXTS)
		return 0;
	if (n->strings.n == NSYS_STRINGS_MAX) {
		n->beyond++;
		return 0;
	}
	*vec_push(&n->strings) =
	    (struct nsys_string){ v[0].number, intern(&n->names, v[1].text,
						      MIN(v[1].len, (size_t)NAME_BYTES_MAX)) };
	return 0;
}

static int take_gpu_work(struct nsys *n, const struct sqlite_value *v, enum event_kind kind)
{
	struct nsys_row r = { .kind = (uint8_t)kind, .unit = NO_ID };

	if (!take_times(n, &v[0], &v[1], &r))
		return 0;
	r.device = (uint32_t)unsigned_of(&v[2]);
	r.thread = unsigned_of(&v[3]);
	r.correlation = unsigned_of(&v[4]);
	r.process = unsigned_of(&v[5]);
	n->no_process |= kind == EVENT_KERNEL && v[5].kind != SQLITE_NUMBER;
	r.name = string_of(n, &v[6]);
	if (r.name == NO_ID)
		r.name = string_of(n, &v[7]);
	if (r.name == NO_ID)
		r.name = intern_str(&n->names, kind == EVENT_KERNEL ? "kernel without a name"
					       : kind == EVENT_COPY ? "memcpy"
								    : "memset");
	r.bytes = unsigned_of(&v[8]);
	keep(n, &r);
	return 0;
}

static int take_kernel(void *user, const struct sqlite_value *v)
{
	return take_gpu_work(user, v, EVENT_KERNEL);
}

static int take_copy(void *user, const struct sqlite_value *v)
{
	return take_gpu_work(user, v, EVENT_COPY);
}

static int take_set(void *user, const struct sqlite_value *v)
{
	return take_gpu_work(user, v, EVENT_SET);
}

/* A thread's number holds its process's. */
static uint64_t process_of(const struct sqlite_value *thread)
{
	return unsigned_of(thread) & ~(uint64_t)0xffffff;
}

static bool holds(const char *name, const char *part)
{
	return strstr(name, part) != NULL;
}

static int take_call(void *user, const struct sqlite_value *v)
{
	struct nsys *n = user;
	struct nsys_row r = { .unit = NO_ID };
	const char *name;
	bool waits, launches;

	if (!take_times(n, &v[0], &v[1], &r))
		return 0;
	r.thread = unsigned_of(&v[2]);
	r.process = process_of(&v[2]);
	r.correlation = unsigned_of(&v[3]);
	r.name = string_of(n, &v[4]);
	name = intern_get(&n->names, r.name);
	launches = holds(name, "Launch") || holds(name, "Memcpy") || holds(name, "Memset");
	waits = holds(name, "ynchronize") || (holds(name, "Memcpy") && !holds(name, "Async"));
	if (launches && r.correlation) {
		r.kind = EVENT_LAUNCH;
		keep(n, &r);
	}
	if (waits) {
		r.kind = EVENT_SYNC;
		keep(n, &r);
	}
	return 0;
}

/* "aten::add, op_id = 7, seq = 9": the name of an operator without its numbers. */
static size_t name_length(const char *text, size_t len)
{
	static const char *const behind[] = { ", op_id", ", seq =", ", sizes =" };

	for (size_t i = 0; i < ARRAY_SIZE(behind); i++) {
		const char *at = memmem(text, len, behind[i], strlen(behind[i]));

		len = at ? (size_t)(at - text) : len;
	}
	return MIN(len, (size_t)NAME_BYTES_MAX);
}

static uint16_t domain_of(const struct sqlite_value *v)
{
	return (uint16_t)MIN(unsigned_of(v), (uint64_t)NSYS_DOMAINS_MAX);
}

static void take_domain(struct nsys *n, const struct sqlite_value *v, const char *text, size_t len)
{
	if (n->domains.n == NSYS_DOMAINS_MAX || domain_of(&v[6]) == NSYS_DOMAINS_MAX)
		return;
	*vec_push(&n->domains) = (struct nsys_domain){
		.process = process_of(&v[3]),
		.name = intern(&n->names, text, MIN(len, (size_t)NAME_BYTES_MAX)),
		.id = domain_of(&v[6]),
	};
}

static int take_range(void *user, const struct sqlite_value *v)
{
	struct nsys *n = user;
	struct nsys_row r = { .kind = EVENT_ANNOTATION, .unit = NO_ID };
	uint32_t id = string_of(n, &v[5]);
	const char *text = v[4].kind == SQLITE_TEXTS ? v[4].text : intern_get(&n->names, id);
	size_t len = v[4].kind == SQLITE_TEXTS ? v[4].len : intern_len(&n->names, id);

	if (v[2].kind == SQLITE_NUMBER && v[2].number == DOMAIN_CREATED && text && len)
		take_domain(n, v, text, len);
	if (v[2].kind == SQLITE_NUMBER && v[2].number != PUSH_POP_RANGE &&
	    v[2].number != START_END_RANGE)
		return 0; /* marks, categories, domains */
	if (v[1].kind == SQLITE_NOTHING || !text || !len)
		return 0; /* a range that was never closed */
	if (!take_times(n, &v[0], &v[1], &r))
		return 0;
	r.thread = unsigned_of(&v[3]);
	r.process = process_of(&v[3]);
	r.domain = domain_of(&v[6]);
	len = name_length(text, len);
	if (memmem(text, len, "::", 2))
		r.kind = EVENT_OP;
	r.name = intern(&n->names, text, len);
	if (v[7].kind == SQLITE_NO_NUMBER && v[7].text)
		nsys_take_payload(n, &r, v[7].text, v[7].len);
	keep(n, &r);
	return 0;
}

static int take_gpu(void *user, const struct sqlite_value *v)
{
	struct nsys *n = user;

	if (v[0].kind == SQLITE_NUMBER && v[1].kind == SQLITE_TEXTS && n->gpus.n < NSYS_UNITS_MAX)
		*vec_push(&n->gpus) =
		    (struct nsys_gpu){ v[0].number, intern_str(&n->names, v[1].text) };
	return 0;
}

static int take_system(void *user, const struct sqlite_value *v)
{
	struct nsys *n = user;

	if (v[0].kind == SQLITE_TEXTS && v[1].kind == SQLITE_TEXTS &&
	    !strcmp(v[0].text, "Hostname") && v[1].len)
		n->host = intern_str(&n->names, v[1].text);
	return 0;
}

static int take_start(void *user, const struct sqlite_value *v)
{
	struct nsys *n = user;

	if (v[0].kind == SQLITE_NUMBER && v[0].number > 0 && v[0].number < INT64_MAX / 2)
		n->base_ns = v[0].number;
	return 0;
}

/* RANK="3" in the environment of the process that was profiled. */
static int take_environment(void *user, const struct sqlite_value *v)
{
	static const struct {
		const char *word;
		bool world;
	} words[] = {
		{ "RANK=", false },
		{ "WORLD_SIZE=", true },
		{ "SLURM_PROCID=", false },
		{ "SLURM_NTASKS=", true },
		{ "PMI_RANK=", false },
		{ "PMI_SIZE=", true },
		{ "OMPI_COMM_WORLD_RANK=", false },
		{ "OMPI_COMM_WORLD_SIZE=", true },
	};
	struct nsys *n = user;

	if (v[0].kind != SQLITE_TEXTS || v[1].kind != SQLITE_TEXTS ||
	    !holds(v[0].text, "ENVIRONMENT_VARIABLE"))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t len = strlen(words[i].word);
		int64_t *to = words[i].world ? &n->world_size : &n->rank;
		const char *text = v[1].text + len;
		char *end;
		long value;

		if (strncmp(v[1].text, words[i].word, len) || (*to >= 0 && i > 1))
			continue; /* the launcher's own words come first */
		text += *text == '"';
		value = strtol(text, &end, 10);
		if (end != text && (*end == '"' || !*end) && value >= 0 && value < INT32_MAX)
			*to = value;
	}
	return 0;
}

#define COLUMNS(...) ((const char *const[]){ __VA_ARGS__, NULL })
static const struct {
	const char *table;
	const char *const *columns;
	int (*take)(void *user, const struct sqlite_value *v);
} tables[] = {
	{ "StringIds", COLUMNS("id", "value"), take_string }, /* first: others name its rows */
	{ "TARGET_INFO_GPU", COLUMNS("id", "name"), take_gpu },
	{ "TARGET_INFO_SYSTEM_ENV", COLUMNS("name", "value"), take_system },
	{ "TARGET_INFO_SESSION_START_TIME", COLUMNS("utcEpochNs"), take_start },
	{ "META_DATA_CAPTURE", COLUMNS("name", "value"), take_environment },
	{ "CUPTI_ACTIVITY_KIND_KERNEL",
	  COLUMNS("start", "end", "deviceId", "streamId", "correlationId", "globalPid",
		  "demangledName", "shortName", "none"),
	  take_kernel },
	{ "CUPTI_ACTIVITY_KIND_MEMCPY",
	  COLUMNS("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "none",
		  "none", "bytes"),
	  take_copy },
	{ "CUPTI_ACTIVITY_KIND_MEMSET",
	  COLUMNS("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "none",
		  "none", "bytes"),
	  take_set },
	{ "CUPTI_ACTIVITY_KIND_RUNTIME",
	  COLUMNS("start", "end", "globalTid", "correlationId", "nameId"), take_call },
	{ "CUPTI_ACTIVITY_KIND_DRIVER",
	  COLUMNS("start", "end", "globalTid", "correlationId", "nameId"), take_call },
	{ "NVTX_PAYLOAD_SCHEMA_ENTRIES", COLUMNS("schemaId", "type", "name", "offset"),
	  nsys_take_field },
	{ "NVTX_EVENTS",
	  COLUMNS("start", "end", "eventType", "globalTid", "text", "textId", "domainId",
		  "binaryData"),
	  take_range },
};

static bool is_export(struct sqlite_file *f)
{
	return sqlite_file_has(f, "StringIds") ||
	       sqlite_file_has(f, "CUPTI_ACTIVITY_KIND_KERNEL") ||
	       sqlite_file_has(f, "NVTX_EVENTS");
}

static void read_tables(struct nsys *n, struct sqlite_file *f, struct error *damage)
{
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		struct error e = { "" };
		size_t columns = 0;

		while (tables[i].columns[columns])
			columns++;
		if (sqlite_file_rows(f, tables[i].table, tables[i].columns, columns, tables[i].take,
				     n, &e) < 0) {
			n->stats->skipped[SKIP_TRUNCATED] = 1;
			if (!damage->text[0])
				*damage = e;
		}
		if (!i && n->strings.n)
			qsort(n->strings.v, n->strings.n, sizeof(*n->strings.v), by_id);
	}
}

/* --- the file --- */

/* The text of a compressed file or a member, whole: SQLite reads it here and there. */
static int unpack(struct input *in, struct unpacked *u, struct error *reterr)
{
	ssize_t got = 1;

	while (got > 0) {
		u->bytes = vec_reserve(u->bytes, &u->cap, u->len + COPY_BLOCK, 1);
		got = input_read(in, u->bytes + u->len, COPY_BLOCK);
		u->len += got > 0 ? (size_t)got : 0;
		if (u->len > COPY_BYTES_MAX)
			return error_set(reterr, -EFBIG,
					 "more than %" PRIu64 " MiB unpacked: unpack it first",
					 COPY_BYTES_MAX >> 20);
	}
	return got < 0 ? error_set(reterr, (int)got, "%s", strerror((int)-got)) : 0;
}

static int open_export(struct input *in, const char *path, bool plain, struct unpacked *u,
		       struct sqlite_file **ret, struct read_stats *stats, struct error *reterr)
{
	char magic[16] = { 0 };
	struct stat st;
	int r;

	if (plain && input_peek(in, magic, sizeof(magic)) == (ssize_t)sizeof(magic) &&
	    sqlite_looks(magic, sizeof(magic))) {
		if (stat(path, &st) < 0)
			return error_set(reterr, -errno, "%s", strerror(errno));
		stats->bytes = stats->bytes_file = (uint64_t)st.st_size;
		return sqlite_file_open(path, (uint64_t)st.st_size, ret, reterr);
	}
	r = unpack(in, u, reterr);
	stats->bytes = u->len;
	stats->bytes_file = input_bytes_raw(in);
	return r < 0 ? r : sqlite_file_of_bytes(u->bytes, u->len, ret, reterr);
}

static void say_losses(const struct nsys *n, const struct error *damage, struct error *reterr)
{
	if (damage->text[0])
		error_set(reterr, 0, "%s; what stands before was read", damage->text);
	else if (n->beyond)
		error_set(reterr, 0,
			  "%" PRIu64
			  " rows beyond what is kept of one recording (%u) were left out",
			  n->beyond, NSYS_ROWS_MAX);
	else if (n->without_range)
		error_set(reterr, 0,
			  "no NVTX range that repeats is called %s on %s: steps as without "
			  "--step-range",
			  n->step_range,
			  n->without_range == n->units.n ? "any GPU" : "some of its GPUs");
}

int nsys_read(struct input *in, const char *path, bool plain, const char *step_range,
	      struct nsys **ret, struct read_stats *stats, struct error *reterr)
{
	struct nsys *n = xcalloc(1, sizeof(*n));
	struct error damage = { "" };
	struct sqlite_file *f = NULL;
	struct unpacked u = { 0 };
	int r;

	*n = (struct nsys){ .host = NO_ID,
			    .rank = -1,
			    .world_size = -1,
			    .step_range = step_range,
			    .stats = stats };
	r = open_export(in, path, plain, &u, &f, stats, &damage);
	if (r < 0)
		error_set(reterr, r, "%s", damage.text);
	else if (damage.text[0])
		stats->skipped[SKIP_TRUNCATED] = 1;
	if (r >= 0 && !is_export(f))
		r = error_set(reterr, -ENODATA,
			      "an SQLite database, but no recording of Nsight Systems");
	if (r >= 0)
		read_tables(n, f, &damage);
	sqlite_file_close(f);
	free(u.bytes);
	if (r >= 0) {
		nsys_settle_units(n);
		nsys_settle_nccl(n);
		nsys_settle_steps(n);
		stats->skipped[SKIP_TOO_LONG] += n->beyond;
		say_losses(n, &damage, reterr);
		if (n->units.n == 1 && n->rank < 0)
			n->rank = survey_rank_of_name(path);
		if (!n->units.n)
			r = error_set(reterr, -EBADMSG, "%s",
				      damage.text[0]
					  ? damage.text
					  : "a recording of Nsight Systems without any CUDA kernel "
					    "(nsys profile --trace=cuda,nvtx records them)");
	}
	n->stats = NULL;
	n->step_range = NULL;
	if (r < 0)
		n = nsys_free(n);
	*ret = n;
	return r;
}

uint32_t nsys_ranks(const struct nsys *n)
{
	return (uint32_t)n->units.n;
}

struct nsys *nsys_free(struct nsys *n)
{
	if (!n)
		return NULL;
	intern_done(&n->names);
	free(n->rows.v);
	free(n->strings.v);
	free(n->units.v);
	free(n->marks.v);
	free(n->gpus.v);
	free(n->domains.v);
	free(n->fields.v);
	free(n->comms.v);
	free(n);
	return NULL;
}

/* --- a rank as a trace --- */

struct giver {
	struct nsys *n;
	struct trace_sink *sink;
	uint32_t *names; /* of the file -> of the sink */
};

static uint32_t name_in_sink(struct giver *g, uint32_t name)
{
	if (name == NO_ID)
		return intern_str(g->sink->names, "");
	if (g->names[name] == NO_ID)
		g->names[name] = intern(g->sink->names, intern_get(&g->n->names, name),
					intern_len(&g->n->names, name));
	return g->names[name];
}

static int give_row(struct giver *g, const struct nsys_row *r)
{
	struct comm_args comm = comm_args_unknown();
	struct trace_event e = {
		.kind = (enum event_kind)r->kind,
		.name = name_in_sink(g, r->name),
		.start_ns = r->start,
		.duration_ns = r->end - r->start,
		.thread = nsys_on_gpu(r) ? r->thread : hash_mix(7, r->thread),
		.device = r->device,
		.correlation = r->correlation,
		.bytes = r->bytes,
	};

	if (r->kind == EVENT_KERNEL) {
		comm.op = comm_op_of_kernel(intern_get(&g->n->names, r->name),
					    intern_len(&g->n->names, r->name));
		e.comm = comm.op == COMM_NONE ? NULL : &comm;
	}
	if (nsys_nccl_args(g->n, r, g->sink->names, &comm)) {
		e.name = intern_str(g->sink->names, "record_param_comms");
		e.correlation = e.bytes = 0;
		e.device = 0;
		e.comm = &comm;
	}
	return g->sink->event(g->sink->user, &e);
}

static int give_marks(struct giver *g, const struct nsys_unit *u)
{
	int r = 0;

	for (uint32_t i = 0; i < u->n_marks && r >= 0; i++) {
		const struct nsys_mark *m = &g->n->marks.v[u->first_mark + i];
		struct trace_event e = { .kind = EVENT_ANNOTATION,
					 .start_ns = m->start,
					 .duration_ns = m->end - m->start };
		char name[48];

		snprintf(name, sizeof(name), "ProfilerStep#%" PRIu64, m->number);
		e.name = intern_str(g->sink->names, name);
		r = g->sink->event(g->sink->user, &e);
	}
	return r;
}

static uint32_t gpu_name(struct giver *g, uint32_t device)
{
	for (size_t i = 0; i < g->n->gpus.n; i++)
		if (g->n->gpus.v[i].id == (int64_t)device)
			return name_in_sink(g, g->n->gpus.v[i].name);
	return NO_ID;
}

int nsys_give(struct nsys *n, uint32_t rank, struct trace_sink *sink)
{
	const struct nsys_unit *u = &n->units.v[rank];
	struct giver g = { .n = n, .sink = sink };
	struct trace_meta meta = {
		.rank = n->units.n == 1 ? n->rank : -1,
		.world_size = n->units.n == 1 ? n->world_size : -1,
		.backend = NO_ID,
		.trace_id = NO_ID,
		.base_time_ns = n->base_ns,
	};
	int r;

	g.names = xmalloc((n->names.n + 1) * sizeof(*g.names));
	memset(g.names, 0xff, (n->names.n + 1) * sizeof(*g.names));
	meta.host = n->host == NO_ID ? NO_ID : name_in_sink(&g, n->host);
	meta.gpu_name = gpu_name(&g, u->device);
	r = give_marks(&g, u);
	/* GPU work first: then it is known that the host's operators say no more. */
	for (int gpu = 1; gpu >= 0; gpu--)
		for (size_t i = 0; i < u->n_rows && r >= 0; i++)
			if (nsys_on_gpu(&n->rows.v[u->first_row + i]) == gpu &&
			    n->rows.v[u->first_row + i].nccl != NSYS_NCCL_JOINED)
				r = give_row(&g, &n->rows.v[u->first_row + i]);
	if (r >= 0)
		r = sink->meta(sink->user, &meta);
	free(g.names);
	return r;
}
