/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scene_lines.c - what logs say, tied to ranks and groups.
 *
 * Process ids tie a line that names only a process to the rank that another line gives it. Numbers
 * of ranks inside groups are never taken for global ones.
 */
#include "fold/scene_inside.h"
#include "model/attempt.h"

#include <stdio.h>

#define CUT_LINES 3 /* a watchdog says what it has to say in as many */

struct pid_rank {
	int64_t pid, rank;
	uint32_t file, host;
};
struct pids {
	VEC(struct pid_rank) v;
};

static int by_pid(const void *a, const void *b)
{
	const struct pid_rank *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static void collect_pids(const struct scene *s, struct pids *pids)
{
	for (size_t i = 0; i < s->sayings.n; i++) {
		const struct scene_saying *y = &s->sayings.v[i];

		if (y->s.pid > 0 && y->s.rank >= 0 && y->s.kind != SAY_OUT_OF_MEMORY &&
		    y->s.kind != SAY_GPU_ERROR)
			*vec_push(&pids->v) =
			    (struct pid_rank){ y->s.pid, y->s.rank, y->file, y->s.host };
	}
	for (size_t i = 0; i < s->stacks.n; i++) {
		const struct scene_stack *k = &s->stacks.v[i];

		if (k->pid > 0 && k->row != NO_ID && s->ranks.v[k->row].rank >= 0)
			*vec_push(&pids->v) =
			    (struct pid_rank){ k->pid, s->ranks.v[k->row].rank, NO_ID, k->host };
	}
	if (pids->v.n)
		qsort(pids->v.v, pids->v.n, sizeof(*pids->v.v), by_pid);
}

/* -1 if no line ties it to one rank. The same file's word counts before another's; a number on one
   machine is of another process on the next. */
static int64_t rank_of_pid(const struct pids *pids, int64_t pid, uint32_t file, uint32_t host)
{
	size_t low = 0, high = pids->v.n;
	int64_t rank = -1;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (pids->v.v[middle].pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < pids->v.n && pids->v.v[low].pid == pid; low++) {
		if (pids->v.v[low].file == file)
			return pids->v.v[low].rank;
		if (host != NO_ID && pids->v.v[low].host != NO_ID && host != pids->v.v[low].host)
			continue;
		if (rank >= 0 && rank != pids->v.v[low].rank)
			return -1;
		rank = pids->v.v[low].rank;
	}
	return rank;
}

/* A node of its own: no line names a rank beyond those that fit on one. */
static bool one_node(const struct scene *s)
{
	return s->world_size > 0 && s->world_size <= 8;
}

static void add_line_group(struct building *b, const struct testimony *t, uint32_t own,
			   uint32_t *ret)
{
	const struct op_group *g = &t->groups.v[own];
	struct scene *s = b->s;
	uint32_t name = scene_name(s, &t->names, g->name), desc = scene_name(s, &t->names, g->desc);

	for (uint32_t i = 0; i < s->groups.n; i++) /* a dump's group states members as well */
		if (s->groups.v[i].name == name && (s->groups.v[i].desc == desc || desc == NO_ID ||
						    s->groups.v[i].desc == NO_ID)) {
			*ret = i;
			return;
		}
	for (uint32_t i = 0; i < s->groups.n && desc != NO_ID; i++)
		if (!strcmp(intern_get(&s->names, desc), "default_pg") &&
		    s->groups.v[i].desc == desc) {
			*ret = i;
			return;
		}
	*ret = scene_group_row(b, name, desc, NO_ID);
}

static void take_file(struct building *b, const struct testimony *t)
{
	struct scene *s = b->s;
	uint32_t file = (uint32_t)s->files.n;
	_cleanup_free_ uint32_t *group = xmalloc((t->groups.n + 1) * sizeof(*group));
	_cleanup_free_ uint32_t *signature = xmalloc((t->signatures.n + 1) * sizeof(*signature));

	*vec_push(&s->files) = t;
	for (uint32_t i = 0; i < t->groups.n; i++)
		add_line_group(b, t, i, &group[i]);
	for (size_t i = 0; i < t->signatures.n; i++)
		signature[i] = scene_signature(b, &t->names, &t->signatures.v[i]);
	for (size_t i = 0; i < t->sayings.n; i++) {
		struct scene_saying y = { .s = t->sayings.v[i], .row = NO_ID, .peer_row = NO_ID };

		y.file = file;
		y.s.host = scene_name(s, &t->names, y.s.host != NO_ID ? y.s.host : t->host);
		y.s.what = scene_name(s, &t->names, y.s.what);
		y.s.text = scene_name(s, &t->names, y.s.text);
		y.s.group = y.s.group < t->groups.n ? group[y.s.group] : NO_ID;
		y.s.signature = y.s.signature < t->signatures.n ? signature[y.s.signature] : NO_ID;
		s->folded |= y.s.kind == SAY_FOLDED;
		*vec_push(&s->sayings) = y;
	}
	for (size_t i = 0; i < t->progress.n; i++)
		*vec_push(&s->progress) = (struct scene_progress){
			.p = t->progress.v[i],
			.row = scene_row(s, t->progress.v[i].rank),
			.file = file,
		};
	for (size_t i = 0; i < t->status.n && t->witness == WITNESS_LOG; i++) {
		struct scene_saying y = { .s = saying_of(SAY_STATUS),
					  .row = NO_ID,
					  .peer_row = NO_ID };

		y.file = file;
		y.s.rank = t->status.v[i].rank;
		y.s.group =
		    t->status.v[i].group < t->groups.n ? group[t->status.v[i].group] : NO_ID;
		y.s.seq = t->status.v[i].enqueued;
		y.s.value = t->status.v[i].completed;
		*vec_push(&s->sayings) = y;
	}
}

/* By rank: nodes that have a file each whose name says so; the number then counts in the node. */
struct claims {
	struct claim {
		const char *host; /* the first that does: its name, or torchrun's folder there */
		size_t len;
	} * of;
	bool *several;
};

/* Does the file's name say of which rank it is, and on which node? */
static bool claims_rank(const struct scene *s, const struct testimony *t, struct claim *ret)
{
	struct attempt a;

	if (t->witness != WITNESS_LOG || t->rank < 0 || t->rank >= s->world_size)
		return false;
	ret->host = t->path == NO_ID ? "" : intern_get(&t->names, t->path);
	if (t->host != NO_ID) {
		ret->host = intern_get(&t->names, t->host);
		ret->len = strlen(ret->host);
		return true;
	}
	if (!attempt_of_path(ret->host, &a) || a.local_rank != t->rank)
		return false;
	ret->len = a.run_len;
	return true;
}

static struct claims claims_of(const struct building *b)
{
	size_t n = (size_t)MAX(b->s->world_size, 0) + 1;
	struct claims c = { xcalloc(n, sizeof(*c.of)), xcalloc(n, sizeof(bool)) };

	for (size_t i = 0; i < b->n; i++) {
		const struct testimony *t = b->parts[i].t;
		struct claim claim, *first;

		if (!claims_rank(b->s, t, &claim))
			continue;
		first = &c.of[t->rank];
		if (!first->host)
			*first = claim;
		c.several[t->rank] |=
		    first->len != claim.len || memcmp(first->host, claim.host, claim.len);
	}
	return c;
}

/* What the file's name says of the rank is taken back; what a line says itself is lost with it. */
static void forget_rank(struct scene *s, const struct testimony *t, size_t first_saying,
			size_t first_progress)
{
	for (size_t i = first_saying; i < s->sayings.n; i++)
		if (s->sayings.v[i].s.rank == t->rank) {
			s->sayings.v[i].s.rank = -1;
			s->sayings.v[i].s.local_rank = t->rank;
		}
	for (size_t i = first_progress; i < s->progress.n; i++)
		if (s->progress.v[i].p.rank == t->rank) {
			s->progress.v[i].p.rank = -1;
			s->progress.v[i].row = NO_ID;
		}
}

void build_lines(struct building *b)
{
	struct claims claims = claims_of(b);

	for (size_t i = 0; i < b->n; i++) {
		const struct testimony *t = b->parts[i].t;
		size_t said = b->s->sayings.n, progress = b->s->progress.n;
		struct claim claim;

		if (b->parts[i].view || !(t->sayings.n || t->progress.n || t->status.n))
			continue;
		take_file(b, t);
		if (rank_of_file(b, t) < 0 && t->rank >= 0)
			forget_worker(b->s, t, said, progress);
		else if (claims_rank(b->s, t, &claim) && claims.several[t->rank])
			forget_rank(b->s, t, said, progress);
	}
	free(claims.of);
	free(claims.several);
}

/* --- ranks of lines, once stacks have given their process ids too --- */

static bool of_its_node(enum saying_kind k)
{
	return k == SAY_EXIT || k == SAY_FIRST_FAILURE || k == SAY_STOPPED;
}

/* Said by the kernel of a node about one of its processes. */
static bool of_a_node(enum saying_kind k)
{
	return k == SAY_OUT_OF_MEMORY || k == SAY_GPU_ERROR;
}

/* By file: the rank of a process that greeted with both numbers; -1. Places in a node are few. */
#define PLACES_MOST 64
struct places {
	int64_t (*rank)[PLACES_MOST];
	bool several; /* nodes: a place is not the rank, or two launchers tell of a process each */
};

static struct places places_of(const struct scene *s)
{
	struct places p = { xmalloc((s->files.n + 1) * sizeof(*p.rank)), false };
	uint32_t launcher = NO_ID;

	memset(p.rank, 0xff, (s->files.n + 1) * sizeof(*p.rank));
	for (size_t i = 0; i < s->sayings.n; i++) {
		const struct scene_saying *y = &s->sayings.v[i];
		int64_t at = y->s.local_rank;

		if (at < 0 || at >= PLACES_MOST)
			continue;
		if (y->s.kind == SAY_HELLO && y->s.rank >= 0 && y->s.group == NO_ID) {
			p.rank[y->file][at] = y->s.rank;
			p.several |= y->s.rank != at;
		} else if (y->s.kind == SAY_EXIT && y->s.rank < 0) {
			p.several |= launcher != NO_ID && launcher != y->file;
			launcher = y->file;
		}
	}
	return p;
}

/* Of a line that names only the place in its node. */
static int64_t rank_of_place(const struct scene *s, const struct places *p,
			     const struct scene_saying *y)
{
	int64_t at = y->s.local_rank;

	if (at < 0 || (y->s.group != NO_ID && !of_its_node(y->s.kind)))
		return -1;
	if (at < PLACES_MOST && p->rank[y->file][at] >= 0)
		return p->rank[y->file][at];
	return one_node(s) && !p->several ? at : -1;
}

static void tie_to_ranks(struct scene *s)
{
	struct places places = places_of(s);
	struct pids pids = { 0 };

	collect_pids(s, &pids);
	for (size_t i = 0; i < s->sayings.n; i++) {
		struct scene_saying *y = &s->sayings.v[i];

		if (y->s.pid > 0 && (y->s.rank < 0 || of_a_node(y->s.kind))) {
			int64_t rank = rank_of_pid(&pids, y->s.pid, y->file, y->s.host);

			/* a node's log is of no rank, whatever number is in its name */
			if (rank >= 0 || y->s.rank == s->files.v[y->file]->rank)
				y->s.rank = rank;
		}
		if (y->s.rank < 0)
			y->s.rank = rank_of_place(s, &places, y);
		y->row = scene_row(s, y->s.rank);
		y->peer_row = scene_row(s, y->s.peer);
	}
	for (size_t i = 0; i < s->stacks.n; i++)
		if (s->stacks.v[i].row == NO_ID && s->stacks.v[i].pid > 0)
			s->stacks.v[i].row = scene_row(
			    s, rank_of_pid(&pids, s->stacks.v[i].pid, NO_ID, s->stacks.v[i].host));
	free(pids.v.v);
	free(places.rank);
}

static bool speaks_alive(enum saying_kind k)
{
	return k < SAY_EXIT || k == SAY_PEER_LOST || k == SAY_STORE_LOST || k == SAY_ABORTED ||
	       k == SAY_HELLO || (k >= SAY_SAVE_BEGIN && k <= SAY_LEFT);
}

static void note_alive(struct scene *s)
{
	for (size_t i = 0; i < s->sayings.n; i++) {
		const struct scene_saying *y = &s->sayings.v[i];
		struct scene_rank *r;

		if (y->row == NO_ID)
			continue;
		r = &s->ranks.v[y->row];
		r->witnesses |= 1u << WITNESS_LOG;
		r->lived |= speaks_alive(y->s.kind);
		if (y->s.kind == SAY_HELLO || y->s.kind == SAY_EXIT) {
			r->pid = y->s.pid > 0 ? y->s.pid : r->pid;
			r->gpu = y->s.gpu >= 0 ? y->s.gpu : r->gpu;
		}
		if (r->host == NO_ID)
			r->host = y->s.host;
	}
	for (size_t i = 0; i < s->progress.n; i++)
		if (s->progress.v[i].row != NO_ID) {
			struct scene_rank *r = &s->ranks.v[s->progress.v[i].row];

			r->witnesses |= 1u << WITNESS_LOG;
			r->lived = true;
			r->progress = (uint32_t)i;
		}
}

/* --- standings from watchdogs --- */

/* The group of lines that name none: the default group, if there is any, else one without name. */
static uint32_t group_of_line(struct building *b, uint32_t group)
{
	struct scene *s = b->s;

	if (group != NO_ID)
		return group;
	for (uint32_t i = 0; i < s->groups.n; i++)
		if (scene_group_is_world(s, &s->groups.v[i]))
			return i;
	return scene_group_row(b, NO_ID, NO_ID, NO_ID);
}

static void note_in_dump(struct building *b, const struct scene_saying *y)
{
	for (size_t i = 0; i < b->s->groups.n; i++) {
		struct scene_group *g = &b->s->groups.v[i];
		const struct scene_member *m = scene_member(g, y->row);

		if (!m || m->source != MEMBER_DUMP || (m->waits && m->wait.seq != y->s.seq))
			continue;
		g->members.v[m - g->members.v].signalled |= y->s.kind == SAY_DUMP_SIGNAL;
	}
}

/* A send or receive is numbered with its peer: the same number on others is of other transfers. */
static bool is_pair(const struct scene *s, uint32_t signature)
{
	return signature != NO_ID && (s->signatures.v[signature].op == COMM_SEND ||
				      s->signatures.v[signature].op == COMM_RECV);
}

static void apply_saying(struct building *b, const struct scene_saying *y)
{
	struct scene_member *m;
	uint32_t group;

	if (y->row == NO_ID ||
	    (y->s.kind != SAY_TIMEOUT && y->s.kind != SAY_STATUS && y->s.kind != SAY_DUMP_SIGNAL))
		return;
	if (b->view[y->row]) { /* its dump knows all groups, and their names over all ranks */
		note_in_dump(b, y);
		return;
	}
	group = group_of_line(b, y->s.group); /* may add it: the table may move */
	m = scene_member_add(&b->s->groups.v[group], y->row);
	m->signalled |= y->s.kind == SAY_DUMP_SIGNAL;
	m->source = MEMBER_LOG;
	if (y->s.kind == SAY_TIMEOUT) {
		m->enqueued = MAX(m->enqueued, y->s.seq);
		if (!m->waits || y->s.seq < m->wait.seq || m->wait.signature == NO_ID) {
			m->waits = true;
			m->wait.seq = y->s.seq;
			m->wait.signature = y->s.signature;
			m->wait.timeout_ms = y->s.timeout_ms;
			m->wait.p2p = is_pair(b->s, y->s.signature);
		}
		return;
	}
	m->enqueued = MAX(m->enqueued, y->s.seq);
	m->completed = MAX(m->completed, y->s.value);
	if (!m->waits && y->s.seq > y->s.value && y->s.value >= 0) {
		m->waits = true;
		m->wait.seq = y->s.value + 1;
	}
}

static bool is_of_watchdog(const struct scene_saying *y)
{
	return y->s.kind == SAY_TIMEOUT || y->s.kind == SAY_STATUS;
}

struct log_end {
	int64_t rank; /* whose watchdog spoke last */
	bool any, several;
	bool amid;	 /* in one of the last lines, of which the very last is not whole */
	bool unfinished; /* in the last line, and what else it says is not there .. */
	size_t finished; /* .. as it is of others */
};

static void log_end_add(struct log_end *e, const struct testimony *t, const struct scene_saying *y)
{
	e->several |= e->any && y->s.rank != e->rank;
	e->any = true;
	e->rank = y->s.rank;
	e->amid |= t->broken_off && y->s.last_line + CUT_LINES > t->lines;
	e->unfinished = y->s.kind == SAY_TIMEOUT && y->s.line == t->lines;
	e->finished += y->s.kind == SAY_STATUS;
}

/* A log of several ranks that ends amid what its watchdogs say: there was more of it. */
static bool breaks_off(const struct scene *s)
{
	_cleanup_free_ struct log_end *ends = xcalloc(s->files.n + 1, sizeof(*ends));
	bool cut = false;

	for (size_t i = 0; i < s->sayings.n; i++)
		if (is_of_watchdog(&s->sayings.v[i]))
			log_end_add(&ends[s->sayings.v[i].file], s->files.v[s->sayings.v[i].file],
				    &s->sayings.v[i]);
	for (size_t i = 0; i < s->files.n; i++)
		cut |= ends[i].several &&
		       (ends[i].amid || (ends[i].unfinished && ends[i].finished > 1));
	return cut;
}

/* One that is silent while all others spoke up to the end is still odd; of several nothing is
   known, nor of anybody where it is not known how many there are. */
static void find_cut(struct scene *s)
{
	_cleanup_free_ bool *spoke = xcalloc(s->ranks.n + 1, sizeof(bool));
	size_t silent = 0;

	s->cut_off = !s->n_dumps && !s->folded && breaks_off(s);
	for (size_t i = 0; i < s->sayings.n; i++)
		if (s->sayings.v[i].row != NO_ID && is_of_watchdog(&s->sayings.v[i]))
			spoke[s->sayings.v[i].row] = true;
	for (uint32_t row = 0; row < s->ranks.n; row++)
		silent += s->ranks.v[row].rank >= 0 && !spoke[row];
	s->unheard = s->folded || (s->cut_off && (silent > 1 || s->world_assumed));
}

/* One unnamed group, or the default one, holds the world: who is not in it is absent from it. */
static void complete_line_groups(struct scene *s)
{
	for (size_t i = 0; i < s->groups.n; i++) {
		struct scene_group *g = &s->groups.v[i];
		bool unnamed = g->name == NO_ID && g->desc == NO_ID;
		bool world = unnamed || scene_group_is_world(s, g);

		if (!world || g->members_known || s->unheard ||
		    2 * (int64_t)g->members.n < s->world_size)
			continue;
		for (uint32_t row = 0; row < s->ranks.n && s->ranks.v[row].rank >= 0; row++)
			scene_member_add(g, row);
		g->members_known = true;
	}
}

void settle_lines(struct building *b)
{
	tie_to_ranks(b->s);
	note_alive(b->s);
	find_cut(b->s);
	for (size_t i = 0; i < b->s->sayings.n; i++)
		apply_saying(b, &b->s->sayings.v[i]);
	complete_line_groups(b->s);
}
