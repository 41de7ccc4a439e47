/* SPDX-License-Identifier: Apache-2.0 */
/* standing_witness.c - see standing_witness.h. */
#include "cmd/standing_witness.h"

static uint32_t name_of(struct testimony *t, const struct intern *names, uint32_t id)
{
	return id == NO_ID ? NO_ID
			   : testimony_name(t, intern_get(names, id), intern_len(names, id));
}

static struct testimony *begin(enum witness w, const struct rank_standing *s,
			       const struct rank_info *info, const struct intern *names)
{
	struct testimony *t = testimony_new(w, TESTIMONY_TRACED);

	t->rank = info->rank;
	t->pid = s->pid;
	t->host = name_of(t, names, info->host);
	t->world_size = info->world_size;
	t->time_ns = s->time_ns;
	t->present = true;
	return t;
}

static void entry_add(struct testimony *t, const struct standing_coll *c,
		      const struct rank_info *info, const struct intern *names, bool done)
{
	struct signature sig = signature_unknown();
	const char *op = comm_op_name(c->op);
	uint32_t group = testimony_group(t, name_of(t, names, c->group), NO_ID);
	struct op_status status = { group, info->rank, c->seq, -1, done ? c->seq : -1 };

	sig.op = c->op;
	sig.name = testimony_name(t, op, strlen(op));
	if (c->bytes && c->bytes < (uint64_t)1 << 56) {
		sig.in_elements = (int64_t)c->bytes;
		sig.in_dtypes = testimony_name(t, "Byte", 4);
	}
	if (c->seq < 0)
		return;
	*vec_push(&t->entries) = (struct op_entry){
		.group = group,
		.signature = testimony_signature(t, &sig),
		.frames = NO_ID,
		.seq = c->seq,
		.op_id = c->seq,
		.record = (int64_t)t->entries.n,
		.created_ns = c->begin_ns,
		.started_ns = -1,
		.completed_ns = -1,
		.timeout_ms = -1,
		.state = done ? OP_COMPLETED : OP_SCHEDULED,
		.retired = done,
	};
	*vec_push(&t->status) = status;
}

struct testimony *standing_dump(const struct rank_standing *s, const struct rank_info *info,
				const struct intern *names)
{
	struct testimony *t = begin(WITNESS_DUMP, s, info, names);

	for (uint32_t i = 0; i < s->n_done; i++)
		entry_add(t, &s->done[i], info, names, true);
	for (uint32_t i = 0; i < s->n_pending; i++)
		entry_add(t, &s->pending[i], info, names, false);
	return t;
}

struct testimony *standing_exit(const struct rank_standing *s, const struct rank_info *info,
				const struct intern *names)
{
	struct testimony *t = begin(WITNESS_LOG, s, info, names);
	struct saying gone = saying_of(SAY_EXIT);
	const char *where = s->n_open	   ? intern_get(names, s->open[s->n_open - 1].name)
			    : s->n_pending ? comm_op_name(s->pending[0].op)
					   : "";
	_cleanup_free_ char *text =
	    xasprintf("its process is gone, in the middle of %.100s of step %" PRId64,
		      *where ? where : "something", s->step);

	gone.rank = info->rank;
	gone.pid = s->pid;
	gone.value = EXIT_UNSEEN;
	gone.host = name_of(t, names, info->host);
	gone.text = testimony_name(t, text, strlen(text));
	gone.time_ns = gone.last_ns = s->time_ns;
	gone.line = gone.last_line = 1;
	testimony_say(t, &gone);
	return t;
}
