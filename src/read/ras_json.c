/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ras_json.c - `ncclras -f json`, its monitor's events, and files in which several were gathered.
 *
 * NCCL 2.28.7 and 2.28.9 leave a comma out among the missing ranks; commas are passed over here, so
 * that makes no difference. Of several snapshots in one file the last one counts.
 */
#include <inttypes.h>
#include <stdio.h>

#include "read/pile.h"
#include "read/ras.h"
#include "read/ras_inside.h"
#include "read/stamp.h"
#include "read/text_lines.h"

#define RAS_WORDS(X)                                                                               \
	X(HASH, "hash")                                                                            \
	X(SIZE, "size")                                                                            \
	X(RANK, "rank")                                                                            \
	X(HOST, "host")                                                                            \
	X(PID, "pid")                                                                              \
	X(CUDA_DEV, "cuda_dev")                                                                    \
	X(NVML_DEV, "nvml_dev")                                                                    \
	X(CUDA_DEVS, "cuda_devs")                                                                  \
	X(NVML_DEVS, "nvml_devs")                                                                  \
	X(ADDR, "addr")                                                                            \
	X(STATUS, "status")                                                                        \
	X(COUNTS, "collective_counts")                                                             \
	X(INIT_STATE, "init_state")                                                                \
	X(ASYNC_ERROR, "async_error")                                                              \
	X(FINALIZE, "finalize_called")                                                             \
	X(DESTROY, "destroy_flag")                                                                 \
	X(ABORT, "abort_flag")                                                                     \
	X(UNRESPONSIVE, "unresponsive")                                                            \
	X(DEAD, "considered_dead")                                                                 \
	X(VERSION, "nccl_version")                                                                 \
	X(TIMESTAMP, "timestamp")                                                                  \
	X(COMMUNICATORS, "communicators")                                                          \
	X(N_COMMUNICATORS, "communicators_count")                                                  \
	X(EVENT, "event")                                                                          \
	X(PEER, "peer")                                                                            \
	X(DETAILS, "details")

#define RAS_WORD_ID(id, text) RAS_KEY_##id,
enum ras_word { RAS_WORDS(RAS_WORD_ID) RAS_N_WORDS };
#define RAS_WORD_TEXT(id, text) text,
static const char *const ras_words[RAS_N_WORDS] = { RAS_WORDS(RAS_WORD_TEXT) };

#define NCCL_IN_PROGRESS 7

struct ras {
	struct pile_reader r;
	size_t settled; /* rows of counts whose communicator is known */
	bool met;
	bool communicators; /* some were in the snapshot that is being read */
};

struct comm_count comm_count_unknown(void)
{
	struct comm_count c = { .group = NO_ID, .rank = -1, .host = NO_ID, .pid = -1, .gpu = -1 };

	for (size_t i = 0; i < COMM_OPS; i++)
		c.counts[i] = -1;
	return c;
}

uint32_t ras_group(struct testimony *t, const char *hash, int64_t size)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "0x%" PRIx64, (uint64_t)strtoull(hash, NULL, 16));
	uint32_t row = testimony_group(t, testimony_name(t, text, (size_t)len), NO_ID);

	if (size > 0 && size <= RAS_SIZE_MAX)
		t->groups.v[row].size = size;
	return row;
}

void ras_event(struct testimony *t, const char *event, const char *details, const char *host,
	       int64_t pid, int64_t gpu, int64_t time_ns)
{
	struct saying s = saying_of(SAY_EVENT);
	char text[SAYING_TEXT_MAX];
	int len =
	    snprintf(text, sizeof(text), "NCCL RAS: %s%s%s", event, *details ? " " : "", details);

	s.what = testimony_name(t, event, strlen(event));
	s.host = *host ? testimony_name(t, host, strlen(host)) : NO_ID;
	s.pid = pid;
	s.gpu = gpu;
	s.time_ns = time_ns;
	s.text = testimony_name(t, text, MIN((size_t)len, sizeof(text) - 1));
	testimony_say(t, &s);
	if (!strcmp(event, "PEER_DEAD") && t->counts.n < RAS_ROWS_MAX) {
		struct comm_count c = comm_count_unknown();

		c.group = testimony_group(t, NO_ID, NO_ID);
		c.host = s.host;
		c.pid = pid;
		c.gpu = gpu;
		c.dead = c.missing = true;
		*vec_push(&t->counts) = c;
	}
	t->time_ns = MAX(t->time_ns, time_ns);
}

static bool slots_in(struct ras *ras, const struct pile_value *v, struct pile_slots *slots)
{
	size_t n;
	const struct pile_value *pairs = pile_cells(&ras->r.pile, v, PILE_DICT, &n);

	pile_slots_of(pairs, pairs ? n : 0, RAS_N_WORDS, slots);
	return pairs;
}

static int64_t number_in(const struct ras *ras, const struct pile_slots *slots, enum ras_word key)
{
	return pile_number(&ras->r, pile_slot(slots, key), -1);
}

static bool bad_result(int64_t nccl_result)
{
	return nccl_result > 0 && nccl_result != NCCL_IN_PROGRESS;
}

static void take_status(struct ras *ras, const struct pile_value *v, struct comm_count *c)
{
	struct pile_slots s;

	if (!slots_in(ras, v, &s))
		return;
	c->failed = bad_result(number_in(ras, &s, RAS_KEY_INIT_STATE)) ||
		    bad_result(number_in(ras, &s, RAS_KEY_ASYNC_ERROR));
	c->finalized =
	    number_in(ras, &s, RAS_KEY_FINALIZE) > 0 || number_in(ras, &s, RAS_KEY_DESTROY) > 0;
	c->aborted = number_in(ras, &s, RAS_KEY_ABORT) > 0;
	c->unresponsive = number_in(ras, &s, RAS_KEY_UNRESPONSIVE) > 0;
	c->dead = number_in(ras, &s, RAS_KEY_DEAD) > 0;
}

static void take_counts(struct ras *ras, const struct pile_value *v, struct comm_count *c)
{
	const struct intern *names = &ras->r.t->names;
	size_t n;
	const struct pile_value *pairs = pile_cells(&ras->r.pile, v, PILE_DICT, &n);

	for (size_t i = 0; i + 1 < n; i += 2) {
		const char *name = intern_get(names, pile_id(&pairs[i]));
		enum comm_op op = comm_op_of(name, strlen(name));

		if (op != COMM_NONE)
			c->counts[op] = pile_number(&ras->r, &pairs[i + 1], -1);
	}
}

static void take_rank(struct ras *ras, const struct pile_slots *s)
{
	struct testimony *t = ras->r.t;
	struct comm_count c = comm_count_unknown();
	int64_t cuda = number_in(ras, s, RAS_KEY_CUDA_DEV);

	if (t->counts.n >= RAS_ROWS_MAX) {
		t->dropped++;
		return;
	}
	c.rank = number_in(ras, s, RAS_KEY_RANK);
	c.host = pile_id(pile_slot(s, RAS_KEY_HOST));
	c.pid = number_in(ras, s, RAS_KEY_PID);
	c.gpu = number_in(ras, s, RAS_KEY_NVML_DEV);
	c.gpu = c.gpu < 0 ? cuda : c.gpu;
	c.missing = !pile_slot(s, RAS_KEY_COUNTS);
	take_status(ras, pile_slot(s, RAS_KEY_STATUS), &c);
	take_counts(ras, pile_slot(s, RAS_KEY_COUNTS), &c);
	if (c.host != NO_ID && !strcmp(intern_get(&t->names, c.host), "unknown"))
		c.host = NO_ID;
	*vec_push(&t->counts) = c;
	ras->r.stats->events++;
}

/* The communicator whose ranks have just come: ranks beyond its size are garbage (2.27.3). */
static void take_communicator(struct ras *ras, const struct pile_slots *s)
{
	struct testimony *t = ras->r.t;
	int64_t size = number_in(ras, s, RAS_KEY_SIZE);
	uint32_t group =
	    ras_group(t, intern_get(&t->names, pile_id(pile_slot(s, RAS_KEY_HASH))), size);
	size_t kept = ras->settled;

	ras->communicators = true;
	for (size_t i = ras->settled; i < t->counts.n; i++) {
		struct comm_count *c = &t->counts.v[i];

		c->group = group;
		if (c->rank >= 0 && (c->rank < size || size < 0))
			t->counts.v[kept++] = *c;
		else
			t->dropped++;
	}
	t->counts.n = ras->settled = kept;
}

static void take_header(struct ras *ras, const struct pile_slots *s)
{
	struct testimony *t = ras->r.t;
	const char *stamp = intern_get(&t->names, pile_id(pile_slot(s, RAS_KEY_TIMESTAMP)));

	t->time_ns = MAX(t->time_ns, stamp_of_text(stamp, strlen(stamp)));
	ras->met = true;
}

static void take_event(struct ras *ras, const struct pile_slots *s)
{
	struct testimony *t = ras->r.t;
	const char *stamp = intern_get(&t->names, pile_id(pile_slot(s, RAS_KEY_TIMESTAMP)));
	const char *host;
	const struct pile_value *gpus;
	struct pile_slots peer;
	size_t n;

	t->counts.n = ras->settled; /* ranks in front of it that no communicator holds */
	slots_in(ras, pile_slot(s, RAS_KEY_PEER), &peer);
	gpus = pile_items(&ras->r.pile, pile_slot(&peer, RAS_KEY_NVML_DEVS), &n);
	host = intern_get(&t->names, pile_id(pile_slot(&peer, RAS_KEY_HOST)));
	if (!*host)
		host = intern_get(&t->names, pile_id(pile_slot(&peer, RAS_KEY_ADDR)));
	ras_event(t, intern_get(&t->names, pile_id(pile_slot(s, RAS_KEY_EVENT))),
		  intern_get(&t->names, pile_id(pile_slot(s, RAS_KEY_DETAILS))), host,
		  number_in(ras, &peer, RAS_KEY_PID), n ? pile_number(&ras->r, gpus, -1) : -1,
		  stamp_of_text(stamp, strlen(stamp)));
	ras->settled = t->counts.n;
	ras->met = true;
	ras->r.stats->events++;
}

static enum pile_take take(void *user, uint32_t object, const struct pile_value *pairs, size_t n)
{
	struct ras *ras = user;
	struct pile_slots s;

	pile_slots_of(pairs, n, RAS_N_WORDS, &s);
	if (pile_slot(&s, RAS_KEY_HASH))
		take_communicator(ras, &s);
	else if (pile_slot(&s, RAS_KEY_RANK) &&
		 (pile_slot(&s, RAS_KEY_STATUS) || pile_slot(&s, RAS_KEY_COUNTS)) &&
		 object != NO_ID)
		take_rank(ras, &s);
	else if (pile_slot(&s, RAS_KEY_VERSION) || pile_slot(&s, RAS_KEY_COMMUNICATORS))
		take_header(ras, &s);
	else if (pile_slot(&s, RAS_KEY_EVENT) && object != NO_ID)
		take_event(ras, &s);
	else
		return PILE_PLAIN;
	return PILE_IS_TAKEN;
}

/* Of several snapshots in one file the last one counts: the ranks of those before, rows below n, go
   once it has ranks of its own. What the monitor saw stays. */
static void forget_ranks(struct ras *ras, size_t n)
{
	struct testimony *t = ras->r.t;
	size_t kept = 0;

	if (t->counts.n == n)
		return;
	for (size_t i = 0; i < t->counts.n; i++)
		if (i >= n || t->groups.v[t->counts.v[i].group].name == NO_ID)
			t->counts.v[kept++] = t->counts.v[i];
	t->counts.n = ras->settled = kept;
}

int ras_json_read(struct input *in, const char *path, struct testimony **ret,
		  struct read_stats *stats, struct error *reterr)
{
	struct testimony *t = testimony_new(WITNESS_RAS, "ncclras");
	struct ras ras = { .met = false };
	struct error e = { 0 };
	enum pile_end end = PILE_WHOLE;
	int r = 0;

	pile_reader_init(&ras.r, t, in, stats, ras_words, RAS_N_WORDS, take, &ras);
	t->path = testimony_name(t, path, strlen(path));
	while (end == PILE_WHOLE && json_skip_space_refilling(&ras.r.window)) {
		size_t before = t->counts.n;

		ras.communicators = false;
		end = pile_json_run(&ras.r, &e);
		if (end != PILE_WHOLE)
			pile_close(&ras.r.pile);
		pile_clear(&ras.r.pile);
		t->counts.n = ras.settled; /* of a communicator that was never named */
		if (ras.communicators)
			forget_ranks(&ras, before);
	}
	stats->skipped[end == PILE_CUT ? SKIP_TRUNCATED : SKIP_MALFORMED] += end != PILE_WHOLE;
	t->present = ras.met;
	if (!ras.met && !t->counts.n)
		r = error_set(reterr, -EPROTO, "%s%sno communicators in it", e.text,
			      e.text[0] ? ", " : "");
	else if (end != PILE_WHOLE)
		error_set(reterr, 0, "%s", e.text);
	if (r < 0)
		testimony_free(t);
	else
		*ret = t;
	pile_reader_done(&ras.r);
	return r;
}

bool ras_json_sniff(const char *text, size_t len, const char *path)
{
	(void)path;
	line_trim(&text, &len);
	if (!len || *text != '{')
		return false;
	return (line_has(text, len, "\"communicators") &&
		line_has(text, len, "\"nccl_version\"")) ||
	       (line_has(text, len, "\"event\"") && line_has(text, len, "\"PEER_")) ||
	       line_has(text, len, "\"collective_counts\"");
}
