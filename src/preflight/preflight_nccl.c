/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_nccl.c - variables of NCCL and PyTorch that contradict one another, or the node they
 * are set on: a table of pairs, and a few rules that need the node's interfaces.
 */
#include "preflight/preflight_fabric.h"

#include <ctype.h>
#include <stdio.h>

static bool is_on(const char *value)
{
	return value && *value && strcmp(value, "0");
}

/* --- pairs --- */

enum pair_kind {
	BOTH_SET, /* the first is on, and the second is set */
	BOTH_ON,  /* both are on */
	DIFFER,	  /* an old and a new name with different values */
	GREATER,  /* the first is more than the second */
	FIRST_ON, /* the first alone is worth a word */
};
static const struct pair {
	enum pair_kind kind;
	const char *first, *second;
	bool hard;
	const char *why;
} pairs[] = {
	{ BOTH_SET, "NCCL_IB_DISABLE", "NCCL_IB_HCA", true,
	  "RDMA is off, and its devices are named" },
	{ BOTH_SET, "NCCL_IB_DISABLE", "NCCL_IB_GID_INDEX", true,
	  "RDMA is off, and its GID is chosen" },
	{ BOTH_SET, "NCCL_IB_DISABLE", "NCCL_IB_TC", false, "RDMA is off: this has no effect" },
	{ BOTH_SET, "NCCL_IB_DISABLE", "NCCL_IB_SL", false, "RDMA is off: this has no effect" },
	{ BOTH_SET, "NCCL_IB_DISABLE", "NCCL_NET_GDR_LEVEL", false,
	  "RDMA is off: GPUDirect has nothing to use" },
	{ BOTH_SET, "NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", true,
	  "peer access is off, and its level is chosen" },
	{ BOTH_ON, "NCCL_P2P_DISABLE", "NCCL_NVLS_ENABLE", true,
	  "NVLink SHARP needs the peer access that is off" },
	{ BOTH_ON, "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", true,
	  "ranks of a node can then talk over the network only" },
	{ FIRST_ON, "NCCL_P2P_DISABLE", NULL, false,
	  "GPUs of a node go through host memory: slow" },
	{ FIRST_ON, "NCCL_SHM_DISABLE", NULL, false, "slow where peer access is not possible" },
	{ FIRST_ON, "CUDA_LAUNCH_BLOCKING", NULL, false, "every kernel is waited for: slow" },
	{ BOTH_ON, "TORCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_ASYNC_ERROR_HANDLING", true,
	  "the watchdog does not act while a wait blocks" },
	{ DIFFER, "NCCL_BLOCKING_WAIT", "TORCH_NCCL_BLOCKING_WAIT", true,
	  "the old and the new name of one setting" },
	{ DIFFER, "NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ASYNC_ERROR_HANDLING", true,
	  "the old and the new name of one setting" },
	{ DIFFER, "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE", false,
	  "the old and the new name of one setting" },
	{ DIFFER, "NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS", false, "two names of one setting" },
	{ DIFFER, "NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS", false, "two names of one setting" },
	{ GREATER, "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", true,
	  "the least is above the most" },
	{ GREATER, "NCCL_MIN_CTAS", "NCCL_MAX_CTAS", true, "the least is above the most" },
};

static void put(json_t *list, bool hard, char *text)
{
	json_t *j = json_object();

	json_object_set_new(j, "text", text_json(text));
	json_object_set_new(j, "hard", json_boolean(hard));
	json_array_append_new(list, j);
	free(text);
}

static bool holds(const struct pair *p, const char *a, const char *b)
{
	switch (p->kind) {
	case BOTH_SET:
		return is_on(a) && b;
	case BOTH_ON:
		return is_on(a) && is_on(b);
	case DIFFER:
		return a && b && strcmp(a, b);
	case GREATER:
		return a && b && strtol(a, NULL, 10) > strtol(b, NULL, 10);
	case FIRST_ON:
		return is_on(a);
	}
	return false;
}

static void look_at_pairs(json_t *list)
{
	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		const struct pair *p = &pairs[i];
		const char *a = getenv(p->first), *b = p->second ? getenv(p->second) : NULL;

		if (!holds(p, a, b))
			continue;
		if (b)
			put(list, p->hard,
			    xasprintf("%s=%.40s with %s=%.40s: %s", p->first, a, p->second, b,
				      p->why));
		else
			put(list, p->hard, xasprintf("%s=%.40s: %s", p->first, a, p->why));
	}
}

/* --- names of the node's devices --- */

/* Is a name of the list's key among those that begin (or, exact, are) so? */
static bool any_named(const json_t *list, const char *key, const char *name, size_t len, bool exact)
{
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v)
	{
		const char *have = fact_text(v, key);
		size_t own = have ? strcspn(have, "/") : 0;

		if (have && own >= len && !strncmp(have, name, len) && (!exact || own == len))
			return true;
	}
	return false;
}

/* NCCL's lists: "eth0,ib" are beginnings, "=eth0" whole names, "^docker" all but those. */
static void look_at_names(json_t *list, const json_t *have, const char *key, const char *variable,
			  const char *what, bool always_exact)
{
	const char *value = getenv(variable), *p;
	bool exact = always_exact;

	if (!value || !*value || *value == '^')
		return;
	p = value;
	if (*p == '=') {
		exact = true;
		p++;
	}
	while (*p) {
		size_t len = strcspn(p, ","), name = MIN(len, strcspn(p, ":"));

		/* One of several is enough: nodes differ. */
		if (name && any_named(have, key, p, name, exact))
			return;
		p += len;
		p += *p == ',';
	}
	put(list, true, xasprintf("%s=%.60s: %s here", variable, value, what));
}

static bool any_active(const json_t *rdma)
{
	const json_t *v;
	size_t i;

	json_array_foreach(rdma, i, v)
	{
		const char *state = fact_text(v, "state");

		if (state && !strcmp(state, "ACTIVE"))
			return true;
	}
	return false;
}

json_t *contradictions(const json_t *fabric)
{
	const json_t *interfaces = json_object_get(fabric, "interfaces");
	const json_t *rdma = json_object_get(fabric, "rdma");
	const char *net = getenv("NCCL_NET"), *off = getenv("NCCL_IB_DISABLE");
	json_t *list = json_array();

	look_at_pairs(list);
	look_at_names(list, interfaces, "name", "NCCL_SOCKET_IFNAME", "no such interface", false);
	look_at_names(list, interfaces, "name", "GLOO_SOCKET_IFNAME", "no such interface", true);
	if (!is_on(off))
		look_at_names(list, rdma, "port", "NCCL_IB_HCA", "no such RDMA device", false);
	if (net && !strcmp(net, "IB") && is_on(off))
		put(list, true,
		    xstrdup("NCCL_NET=IB with NCCL_IB_DISABLE: RDMA is asked for, and off"));
	if (net && !strcmp(net, "IB") && !json_array_size(rdma))
		put(list, true, xstrdup("NCCL_NET=IB: no RDMA device here"));
	if (is_on(off) && any_active(rdma))
		put(list, false,
		    xstrdup("NCCL_IB_DISABLE is on, and this node has active RDMA ports"));
	return list;
}
