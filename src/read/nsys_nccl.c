/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nsys_nccl.c - NCCL's own NVTX ranges: which communicator a collective is of, and how much it
 * moves.
 *
 * NCCL puts a range around each of its calls, with a payload of named fields: which there are,
 * where and how wide, tables of the recording say. A kernel is of the call around its launch; calls
 * within ncclGroupStart and ncclGroupEnd launch at the end, so one call reaches to there, and
 * several of one communicator become one.
 */
#include "read/nsys_inside.h"

#include <endian.h>
#include <stdio.h>
#include <strings.h>

/* In front of the fields, little-endian: domain, 0, schema, 0 (4 bytes each), size of the fields,
   size of all (8 each). */
#define HEAD_BYTES   32u
#define SCHEMA_AT    8u
#define FIELDS_MAX   4096u
#define OFFSET_MAX   4096
#define SENDS_TO_ALL "ncclSendRecv"

/* Types of fields as NVTX numbers them. */
enum { TYPE_INT = 5, TYPE_UINT64 = 18, TYPE_SIZE = 22 };

static const struct {
	const char *name;
	enum nsys_field_role role;
} roles[] = {
	{ "NCCL communicator ID", FIELD_COMM },
	{ "Message size [bytes]", FIELD_BYTES },
	{ "Peer rank", FIELD_PEER },
	{ "No. of ranks", FIELD_SIZE },
};

int nsys_take_field(void *user, const struct sqlite_value *v)
{
	struct nsys *n = user;
	struct nsys_field f = { 0 };

	if (v[0].kind != SQLITE_NUMBER || v[1].kind != SQLITE_NUMBER || v[2].kind != SQLITE_TEXTS ||
	    n->fields.n == FIELDS_MAX)
		return 0;
	if (v[3].kind == SQLITE_NUMBER && (v[3].number < 0 || v[3].number > OFFSET_MAX))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(roles); i++)
		if (!strcasecmp(v[2].text, roles[i].name))
			f.role = roles[i].role;
	f.schema = v[0].number;
	f.wide = v[1].number == TYPE_UINT64 || v[1].number == TYPE_SIZE;
	f.offset = v[3].kind == SQLITE_NUMBER ? (uint32_t)v[3].number : 0; /* of the first: none */
	if (f.role != FIELD_OTHER && (f.wide || v[1].number == TYPE_INT))
		*vec_push(&n->fields) = f;
	return 0;
}

static uint64_t field_value(const uint8_t *bytes, size_t len, const struct nsys_field *f)
{
	size_t size = f->wide ? sizeof(uint64_t) : sizeof(uint32_t);
	uint32_t narrow;
	uint64_t wide;

	if (len < size || f->offset > len - size)
		return 0;
	if (!f->wide) {
		memcpy(&narrow, bytes + f->offset, sizeof(narrow));
		return le32toh(narrow);
	}
	memcpy(&wide, bytes + f->offset, sizeof(wide));
	return le64toh(wide);
}

static void note_comm(struct nsys *n, uint64_t id, uint64_t size)
{
	for (size_t i = 0; i < n->comms.n; i++)
		if (n->comms.v[i].id == id)
			return;
	if (size <= UINT32_MAX && n->comms.n < NSYS_UNITS_MAX)
		*vec_push(&n->comms) = (struct nsys_comm){ id, (uint32_t)size };
}

void nsys_take_payload(struct nsys *n, struct nsys_row *r, const void *payload, size_t len)
{
	const uint8_t *bytes = payload;
	uint64_t values[FIELD_ROLES] = { 0 };
	bool has[FIELD_ROLES] = { false };
	uint32_t schema;

	if (len < HEAD_BYTES || strncmp(intern_get(&n->names, r->name), "nccl", 4))
		return;
	memcpy(&schema, bytes + SCHEMA_AT, sizeof(schema));
	for (size_t i = 0; i < n->fields.n; i++) {
		const struct nsys_field *f = &n->fields.v[i];

		if (f->schema != (int64_t)le32toh(schema))
			continue;
		has[f->role] = true;
		values[f->role] = field_value(bytes + HEAD_BYTES, len - HEAD_BYTES, f);
	}
	if (!has[FIELD_COMM])
		return;
	if (has[FIELD_SIZE])
		note_comm(n, values[FIELD_COMM], values[FIELD_SIZE]);
	if (!has[FIELD_BYTES])
		return;
	r->nccl = NSYS_NCCL_CALL;
	r->correlation = values[FIELD_COMM];
	r->bytes = MIN(values[FIELD_BYTES], (uint64_t)INT64_MAX);
	r->device = has[FIELD_PEER] && values[FIELD_PEER] < INT32_MAX
			? (uint32_t)values[FIELD_PEER] + 1
			: 0;
}

/* --- calls of a group --- */

struct group {
	struct nsys_row *first;
	uint64_t sent;
	size_t calls;
	bool pairs, mixed; /* sends and receives only; several operations or communicators */
	uint32_t depth;
};

static bool is_pair(const struct nsys *n, const struct nsys_row *r)
{
	const char *name = intern_get(&n->names, r->name);

	return !strcmp(name, "ncclSend") || !strcmp(name, "ncclRecv");
}

static void group_take(struct nsys *n, struct group *g, struct nsys_row *r)
{
	bool pair = is_pair(n, r);

	if (!g->calls++) {
		g->first = r;
		g->sent = 0;
		g->mixed = false;
		g->pairs = pair;
	} else {
		g->mixed |= r->correlation != g->first->correlation || pair != g->pairs ||
			    (!pair && r->name != g->first->name);
	}
	if (!pair || !strcmp(intern_get(&n->names, r->name), "ncclSend"))
		g->sent += MIN(r->bytes, (uint64_t)INT64_MAX - g->sent);
}

/* Back from the last call of the group at `end`, whose row is the i-th of the unit's calls. */
static void group_close(struct nsys *n, struct group *g, struct nsys_row *const *rows, size_t at,
			int64_t end)
{
	if (!g->calls || g->mixed)
		return;
	for (size_t i = at; g->calls > 1 && i-- > 0 && rows[i] != g->first;)
		if (rows[i]->nccl == NSYS_NCCL_CALL)
			rows[i]->nccl = NSYS_NCCL_JOINED;
	g->first->end = MAX(g->first->end, end);
	if (g->calls == 1)
		return;
	g->first->bytes = g->sent;
	if (g->pairs) {
		g->first->name = intern_str(&n->names, SENDS_TO_ALL);
		g->first->device = 0;
	}
}

static int by_thread_and_time(const void *a, const void *b)
{
	const struct nsys_row *x = *(struct nsys_row *const *)a, *y = *(struct nsys_row *const *)b;

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x < y ? -1 : x > y;
}

static void settle_unit(struct nsys *n, const struct nsys_unit *u, struct nsys_row **rows)
{
	struct group g = { 0 };
	size_t count = 0;

	for (size_t i = 0; i < u->n_rows; i++) {
		struct nsys_row *r = &n->rows.v[u->first_row + i];

		if (r->kind == EVENT_ANNOTATION &&
		    !strncmp(intern_get(&n->names, r->name), "nccl", 4))
			rows[count++] = r;
	}
	if (count)
		qsort(rows, count, sizeof(*rows), by_thread_and_time);
	for (size_t i = 0; i < count; i++) {
		const char *name = intern_get(&n->names, rows[i]->name);

		if (i && rows[i]->thread != rows[i - 1]->thread)
			g = (struct group){ 0 };
		if (!strcmp(name, "ncclGroupStart") && !g.depth++)
			g.calls = 0;
		else if (!strcmp(name, "ncclGroupEnd") && g.depth && !--g.depth)
			group_close(n, &g, rows, i, rows[i]->end);
		else if (g.depth && rows[i]->nccl == NSYS_NCCL_CALL)
			group_take(n, &g, rows[i]);
	}
}

void nsys_settle_nccl(struct nsys *n)
{
	_cleanup_free_ struct nsys_row **rows = NULL;

	if (!n->fields.n)
		return;
	rows = xmalloc((n->rows.n + 1) * sizeof(*rows));
	for (size_t i = 0; i < n->units.n; i++)
		settle_unit(n, &n->units.v[i], rows);
}

/* --- as the trace of a rank has it --- */

static int64_t whole_bytes(uint64_t part, uint32_t size)
{
	return size && part <= (uint64_t)INT64_MAX / size ? (int64_t)(part * size) : -1;
}

bool nsys_nccl_args(const struct nsys *n, const struct nsys_row *r, struct intern *to,
		    struct comm_args *ret)
{
	char group[32];
	int64_t all;

	if (r->nccl != NSYS_NCCL_CALL)
		return false;
	*ret = comm_args_unknown();
	ret->op = comm_op_of(intern_get(&n->names, r->name), intern_len(&n->names, r->name));
	for (size_t i = 0; i < n->comms.n; i++)
		if (n->comms.v[i].id == r->correlation)
			ret->group_size = n->comms.v[i].size;
	snprintf(group, sizeof(group), "%016" PRIx64, r->correlation);
	ret->group = intern_str(to, group);
	ret->dtype = intern_str(to, "Byte");
	all = whole_bytes(r->bytes, ret->group_size);
	/* what NCCL says is of one rank's part */
	ret->in_elements = ret->op == COMM_REDUCE_SCATTER ? all : (int64_t)r->bytes;
	ret->out_elements = ret->op == COMM_ALL_GATHER ? all : (int64_t)r->bytes;
	if (r->device)
		ret->peer = (int32_t)(r->device - 1);
	return true;
}
