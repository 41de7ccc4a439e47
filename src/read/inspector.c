/* SPDX-License-Identifier: Apache-2.0 */
/* inspector.c - the last sequence number of each operation, communicator and rank. */
#include "read/inspector.h"

#include "read/pile.h"
#include "read/ras_inside.h"
#include "read/text_lines.h"

#define INSPECTOR_WORDS(X)                                                                         \
	X(HEADER, "header")                                                                        \
	X(METADATA, "metadata")                                                                    \
	X(COLL_PERF, "coll_perf")                                                                  \
	X(P2P_PERF, "p2p_perf")                                                                    \
	X(ID, "id")                                                                                \
	X(COMM_NAME, "comm_name")                                                                  \
	X(RANK, "rank")                                                                            \
	X(N_RANKS, "n_ranks")                                                                      \
	X(TIMESTAMP, "dump_timestamp_us")                                                          \
	X(HOSTNAME, "hostname")                                                                    \
	X(PID, "pid")                                                                              \
	X(COLL, "coll")                                                                            \
	X(COLL_SN, "coll_sn")                                                                      \
	X(P2P, "p2p")                                                                              \
	X(P2P_SN, "p2p_sn")

#define INSPECTOR_WORD_ID(id, text) INSPECTOR_KEY_##id,
enum inspector_word { INSPECTOR_WORDS(INSPECTOR_WORD_ID) INSPECTOR_N_WORDS };
#define INSPECTOR_WORD_TEXT(id, text) text,
static const char *const inspector_words[INSPECTOR_N_WORDS] = { INSPECTOR_WORDS(
    INSPECTOR_WORD_TEXT) };

#define INSPECTOR_COMMS_MAX 4096u /* communicators of a process */

struct inspector {
	struct pile_reader r;
	size_t last; /* the row that the operation before was counted in */
};

static bool slots_in(struct inspector *p, const struct pile_slots *from, enum inspector_word key,
		     struct pile_slots *ret)
{
	size_t n;
	const struct pile_value *pairs =
	    pile_cells(&p->r.pile, pile_slot(from, key), PILE_DICT, &n);

	pile_slots_of(pairs, pairs ? n : 0, INSPECTOR_N_WORDS, ret);
	return pairs;
}

static struct comm_count *row_of(struct inspector *p, uint32_t group, int64_t rank)
{
	struct testimony *t = p->r.t;
	struct comm_count *c;

	if (p->last < t->counts.n && t->counts.v[p->last].group == group &&
	    t->counts.v[p->last].rank == rank)
		return &t->counts.v[p->last];
	for (size_t i = 0; i < t->counts.n; i++) {
		c = &t->counts.v[i];
		if (c->group == group && c->rank == rank) {
			p->last = i;
			return c;
		}
	}
	if (t->counts.n >= INSPECTOR_COMMS_MAX) {
		t->dropped++;
		return NULL;
	}
	c = vec_push(&t->counts);
	*c = comm_count_unknown();
	c->group = group;
	c->rank = rank;
	return c;
}

static void take_operation(struct inspector *p, const struct pile_slots *s, bool p2p)
{
	struct testimony *t = p->r.t;
	struct pile_slots header, meta, perf;
	struct comm_count *c;
	const char *name;
	enum comm_op op;
	uint32_t group;
	int64_t rank, us, sn;

	if (!slots_in(p, s, INSPECTOR_KEY_HEADER, &header) ||
	    !slots_in(p, s, p2p ? INSPECTOR_KEY_P2P_PERF : INSPECTOR_KEY_COLL_PERF, &perf)) {
		p->r.stats->skipped[SKIP_MALFORMED]++;
		return;
	}
	slots_in(p, s, INSPECTOR_KEY_METADATA, &meta);
	rank = pile_number(&p->r, pile_slot(&header, INSPECTOR_KEY_RANK), -1);
	group = ras_group(t, intern_get(&t->names, pile_id(pile_slot(&header, INSPECTOR_KEY_ID))),
			  pile_number(&p->r, pile_slot(&header, INSPECTOR_KEY_N_RANKS), -1));
	c = row_of(p, group, rank);
	name = intern_get(&t->names,
			  pile_id(pile_slot(&perf, p2p ? INSPECTOR_KEY_P2P : INSPECTOR_KEY_COLL)));
	op = comm_op_of(name, strlen(name));
	sn = pile_number(&p->r,
			 pile_slot(&perf, p2p ? INSPECTOR_KEY_P2P_SN : INSPECTOR_KEY_COLL_SN), -1);
	if (!c || rank < 0)
		return;
	op = op ? op : COMM_OTHER;
	c->counts[op] = MAX(c->counts[op], sn);
	us = pile_number(&p->r, pile_slot(&meta, INSPECTOR_KEY_TIMESTAMP), -1);
	if (us > 0 && us < INT64_MAX / 1000)
		t->time_ns = MAX(t->time_ns, us * 1000);
	c->host = pile_id(pile_slot(&meta, INSPECTOR_KEY_HOSTNAME));
	c->pid = pile_number(&p->r, pile_slot(&meta, INSPECTOR_KEY_PID), -1);
	t->host = c->host;
	t->pid = c->pid;
	p->r.stats->events++;
}

static enum pile_take take(void *user, uint32_t object, const struct pile_value *pairs, size_t n)
{
	struct inspector *p = user;
	struct pile_slots s;

	pile_slots_of(pairs, n, INSPECTOR_N_WORDS, &s);
	if (object == NO_ID || !pile_slot(&s, INSPECTOR_KEY_HEADER))
		return PILE_PLAIN;
	if (pile_slot(&s, INSPECTOR_KEY_COLL_PERF))
		take_operation(p, &s, false);
	if (pile_slot(&s, INSPECTOR_KEY_P2P_PERF))
		take_operation(p, &s, true);
	return PILE_IS_TAKEN;
}

/* To the next line that begins an object; false at the end of the text. */
static bool next_object(struct json_window *w)
{
	for (;;) {
		const char *p = memchr(w->p, '\n', (size_t)(w->end - w->p));

		w->p = p ? p + 1 : w->end;
		if (!json_window_need(w, 1))
			return false;
		if (p && *w->p == '{')
			return true;
	}
}

int inspector_read(struct input *in, const char *path, struct testimony **ret,
		   struct read_stats *stats, struct error *reterr)
{
	struct testimony *t = testimony_new(WITNESS_INSPECTOR, "nccl-inspector");
	struct inspector p = { .last = 0 };
	struct error e = { 0 }, first = { 0 };
	int r = 0;

	pile_reader_init(&p.r, t, in, stats, inspector_words, INSPECTOR_N_WORDS, take, &p);
	t->path = testimony_name(t, path, strlen(path));
	while (json_skip_space_refilling(&p.r.window)) {
		enum pile_end end = pile_json_run(&p.r, &e);

		pile_clear(&p.r.pile);
		if (end == PILE_WHOLE)
			continue;
		stats->skipped[end == PILE_CUT ? SKIP_TRUNCATED : SKIP_MALFORMED]++;
		if (!first.text[0])
			first = e;
		if (end == PILE_CUT || !next_object(&p.r.window))
			break;
	}
	if (!t->counts.n)
		r = error_set(reterr, -EPROTO, "%s%sno completed operation in it", first.text,
			      first.text[0] ? ", " : "");
	else if (first.text[0])
		error_set(reterr, 0, "%s", first.text);
	if (r < 0)
		testimony_free(t);
	else
		*ret = t;
	pile_reader_done(&p.r);
	return r;
}

bool inspector_sniff(const char *text, size_t len, const char *path)
{
	(void)path;
	line_trim(&text, &len);
	if (!len || *text != '{')
		return false;
	return line_has(text, len, "\"header\"") &&
	       (line_has(text, len, "\"coll_perf\"") || line_has(text, len, "\"p2p_perf\"") ||
		line_has(text, len, "\"inspector_output_format_version\""));
}
