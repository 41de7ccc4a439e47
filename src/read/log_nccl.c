/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_nccl.c - what NCCL (and RCCL) itself says: warnings, completions with errors, ports, ranks.
 *
 * Most of its lines are of no interest. Warnings that name another process's end are echoes; those
 * of a port or a completion are of the host that prints them, not of the rank: an event of an HCA
 * is given to one of its threads, whichever.
 */
#include "read/log_internal.h"

static const char *const peer_lost[] = {
	"Connection closed by remote peer",
	"Connection reset by peer",
	"Connection refused",
	"Broken pipe",
	"socketPollConnect",
	"Could not receive type from",
	"Accept failed",
	"socketProgress",
	"Call to recv",
	"Call to send",
	"Call to connect",
	"remote process exited",
};

static const char *const network[] = {
	"Got completion", "Got async",	       "ibv_", "NET/IB : No device found", "status=",
	"ncclIbDeregMr",  "ncclSocketGetInfo",
};

static const char *const settings[] = {
	"Duplicate GPU detected",
	"shared memory segment",
	"Mismatched NCCL version",
	"no socket interface found",
	"Unsupported NCCL",
	"invalid device ordinal",
	"Invalid config",
	"NCCL_PROTO",
	"not supported between these two devices",
	"insufficient driver version",
	"NCCL_SOCKET_IFNAME",
	"NVLS/multicast is not supported",
	"Invalid rank requested",
};

/* What CUDA says of itself while a process ends, or of what NCCL only asked for. */
static const char *const harmless[] = {
	"driver shutting down", "context is destroyed",	   "already enabled",
	"not supported",	"operation not permitted", "peer mapping",
};

static bool any_of(const char *p, const char *end, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (text_has(p, end, words[i]))
			return true;
	return false;
}

/*
 * "Got completion from peer 10.0.0.1<4791> with error 12, opcode ..", "with status=12 ..",
 * "status=IBV_WC_RETRY_EXC_ERR(12) ..": the number.
 */
static int64_t completion_error(const char *p, const char *end)
{
	struct scan s = scan_of(p, end);
	int64_t v = -1;

	if (scan_to(&s, "with error ") && scan_int(&s, &v))
		return v;
	s = scan_of(p, end);
	if (!scan_to(&s, "status="))
		return -1;
	if (!scan_int(&s, &v) && scan_to(&s, "("))
		scan_int(&s, &v);
	return v;
}

/* "mlx5_0:1" */
static uint32_t device_in(struct log *g, const char *p, const char *end)
{
	struct scan s = scan_of(p, end);
	const char *name;

	if (!scan_to(&s, "mlx5_"))
		return log_name(g, "network");
	name = s.p - 5;
	while (s.p < s.end && (is_digit(*s.p) || *s.p == ':' || *s.p == '_'))
		s.p++;
	while (s.p > name && (s.p[-1] == ':' || s.p[-1] == '_'))
		s.p--;
	return testimony_name(g->t, name, (size_t)(s.p - name));
}

/* ibv_wc_status */
enum { IBV_WC_WR_FLUSH = 5, IBV_WC_RETRY = 12, IBV_WC_RNR_RETRY = 13 };

static void say_network(struct log *g, struct log_line *l, const char *p)
{
	struct saying t = saying_of(SAY_NETWORK_ERROR);
	struct log_line of_host = *l;

	t.value = completion_error(p, l->end);
	t.what = device_in(g, p, l->end);
	/* whoever finds the other side unreachable tells of the link, not of himself */
	if (text_has(p, l->end, "sync event") || text_has(p, l->end, "sync fatal event") ||
	    t.value == IBV_WC_WR_FLUSH || t.value == IBV_WC_RETRY || t.value == IBV_WC_RNR_RETRY)
		of_host.rank = of_host.local_rank = -1;
	log_say(g, &of_host, &t);
}

static void two_ranks(const char *p, const char *end, struct saying *t)
{
	struct scan s = scan_of(p, end);

	if (scan_to(&s, "rank ") && scan_int(&s, &t->local_rank) && scan_to(&s, "rank "))
		scan_int(&s, &t->peer);
}

/* "Cuda failure 'invalid argument'", "Cuda failure 1 'invalid argument'" */
static bool is_cuda_failure(const char *p, const char *end)
{
	return text_has(p, end, "Cuda failure ") && !any_of(p, end, harmless, ARRAY_SIZE(harmless));
}

/* Everything behind "NCCL WARN". */
static enum log_took on_warn(struct log *g, struct log_line *l, const char *at,
			     const struct log_anchor *a)
{
	const char *p = at + strlen(a->word);
	struct saying t = saying_of(SAY_WARNING);

	if (any_of(p, l->end, settings, ARRAY_SIZE(settings))) {
		t.kind = SAY_CONFIGURATION;
		two_ranks(p, l->end, &t);
	} else if (any_of(p, l->end, peer_lost, ARRAY_SIZE(peer_lost))) {
		t.kind = SAY_PEER_LOST;
	} else if (any_of(p, l->end, network, ARRAY_SIZE(network))) {
		say_network(g, l, p);
		return LOG_TOOK;
	} else {
		log_classify(g, p, l->end, &t);
	}
	if (t.kind == SAY_WARNING && is_cuda_failure(p, l->end)) {
		t.kind = SAY_FATAL;
		t.what = log_name(g, "CUDA failure in NCCL");
	} else if (t.kind == SAY_WARNING) {
		t.what = log_name(g, "NCCL");
	}
	t.text = log_text(g, p, l->end);
	t.gpu = l->gpu;
	log_say(g, l, &t);
	return LOG_TOOK;
}

/* NET/IB lines of trouble that are printed as information or without any mark. */
static enum log_took on_ib(struct log *g, struct log_line *l, const char *at,
			   const struct log_anchor *a)
{
	(void)a;
	if (!text_has(at, l->end, "error") && !text_has(at, l->end, "status=") &&
	    !text_has(at, l->end, "fatal"))
		return LOG_GO_ON;
	say_network(g, l, at);
	return LOG_TOOK;
}

/* "comm 0x55 rank 3 nranks 8 cudaDev 3 nvmlDev 3 busId 1b000 commId 0xab - Init COMPLETE" */
static enum log_took on_init(struct log *g, struct log_line *l, const char *at,
			     const struct log_anchor *a)
{
	struct saying t = saying_of(SAY_HELLO);
	struct scan s = scan_of(l->text, at), id = s;
	int64_t nranks = -1;
	uint32_t group;

	(void)a;
	if (!scan_to(&s, " rank ") || !scan_int(&s, &t.local_rank) || !scan_to(&s, "ranks ") ||
	    !scan_int(&s, &nranks))
		return LOG_GO_ON;
	if (scan_to(&s, "Dev "))
		scan_int(&s, &t.gpu);
	if (!scan_to(&id, "commId "))
		return LOG_GO_ON;
	s = id;
	while (s.p < s.end && *s.p != ' ')
		s.p++;
	group = testimony_group(g->t, testimony_name(g->t, id.p, (size_t)(s.p - id.p)), NO_ID);
	g->t->groups.v[group].size = nranks;
	t.group = group;
	log_say(g, l, &t);
	return LOG_TOOK;
}

const struct log_anchor log_nccl_anchors[] = {
	{ "nccl warn", on_warn, 0, NULL, 0 },	  { "got completion ", on_ib, 0, NULL, 0 },
	{ "got async event", on_ib, 0, NULL, 0 }, { "got async fatal event", on_ib, 0, NULL, 0 },
	{ "init complete", on_init, 0, NULL, 0 }, { NULL, NULL, 0, NULL, 0 },
};

/*
 * A rank of a communicator is the job's if the communicator is the only one of its size and none
 * is larger: then it holds all ranks, as far as the log shows.
 */
void log_nccl_done(struct log *g)
{
	int64_t size = 1;
	uint32_t world = NO_ID;

	for (uint32_t i = 0; i < g->t->groups.n; i++)
		if (g->t->groups.v[i].size > size) {
			size = g->t->groups.v[i].size;
			world = i;
		} else if (g->t->groups.v[i].size == size) {
			world = NO_ID;
		}
	if (world == NO_ID || size < g->t->world_size)
		return;
	for (size_t i = 0; i < g->t->sayings.n; i++) {
		struct saying *s = &g->t->sayings.v[i];

		if (s->kind == SAY_HELLO && s->group == world && s->rank < 0) {
			s->rank = s->local_rank;
			s->value = size;
		}
	}
}
