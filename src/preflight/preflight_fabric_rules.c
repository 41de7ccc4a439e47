/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_fabric_rules.c - the fabric of all nodes beside one another: links alike, ports active,
 * the meeting place reachable, clocks together.
 */
#include <stdio.h>

#include "preflight/preflight_inside.h"

/* --- RDMA ports --- */

/*
 * A port that is down for want of a cable is so on all nodes, which rule_of_same sees; one that the
 * subnet manager has not brought up is at fault by itself.
 */
static void rule_of_ports(struct judging *j)
{
	struct gathered g = { 0 };
	size_t ports = 0, active = 0, i;

	for (size_t n = 0; n < j->n; n++) {
		const json_t *facts = node_facts(&j->nodes[n], "fabric"), *v;

		json_array_foreach(json_object_get(facts, "rdma"), i, v)
		{
			const char *state = fact_text(v, "state"), *port = fact_text(v, "port");

			ports++;
			active += state && !strcmp(state, "ACTIVE");
			if (state && port && (!strcmp(state, "INIT") || !strcmp(state, "ARMED")))
				gather(&g, &j->nodes[n], xasprintf("%.40s is %.20s", port, state));
		}
	}
	gathered_put(j, &g, INVARIANT_FABRIC, "ports", CHECK_REFUSE,
		     ports ? xasprintf("%zu of %zu RDMA ports are active", active, ports) : NULL,
		     "no RDMA port between down and active",
		     "look whether the subnet manager runs (sminfo), and at the cable");
}

/* --- variables --- */

static void rule_of_variables(struct judging *j)
{
	struct gathered hard = { 0 }, soft = { 0 };
	size_t nodes = 0, i;

	for (size_t n = 0; n < j->n; n++) {
		const json_t *facts = node_facts(&j->nodes[n], "fabric"), *v;

		nodes += facts != NULL;
		json_array_foreach(json_object_get(facts, "contradictions"), i, v)
		{
			const char *text = fact_text(v, "text");

			if (text && i < 64)
				gather(fact_true(v, "hard") ? &hard : &soft, &j->nodes[n],
				       xasprintf("%.300s", text));
		}
	}
	gathered_put(j, &hard, INVARIANT_FABRIC, "variables", CHECK_REFUSE,
		     nodes ? xstrdup("NCCL's variables do not contradict one another") : NULL,
		     "no variable contradicts another, or names what is not there",
		     "unset one of the two, or correct the name");
	gathered_put(j, &soft, INVARIANT_FABRIC, "slow-variables", CHECK_WARN, NULL,
		     "no variable that makes the job slow by accident",
		     "unset it, unless it is meant");
}

/* --- the meeting place of the job --- */

struct place {
	struct gathered lost, taken, unreachable, connected;
	size_t given, local, refused;
	const char *name;
};

static void look_at_place(struct place *p, const struct preflight_node *node)
{
	const json_t *r = node_facts(node, "rendezvous");
	const char *answer = fact_text(r, "answer"), *why = fact_text(r, "why");
	const char *place = fact_text(r, "place"), *address = fact_text(r, "address");

	if (!place)
		return;
	p->given++;
	p->name = place;
	if (!address) {
		gather(&p->lost, node, xasprintf("%.100s: %.100s", place, why ? why : "?"));
	} else if (fact_true(r, "local")) {
		p->local++;
		if (!fact_true(r, "free"))
			gather(&p->taken, node,
			       xasprintf("%.100s: %.100s", place, why ? why : "not free"));
	} else if (answer && !strcmp(answer, "refused")) {
		p->refused++;
	} else if (answer && !strcmp(answer, "connected")) {
		gather(&p->connected, node, xasprintf("something answers at %.100s", place));
	} else {
		gather(&p->unreachable, node,
		       xasprintf("%.100s (%.60s): %.100s", place, address, answer ? answer : "?"));
	}
}

static void gathered_drop(struct gathered *g)
{
	buf_done(&g->words);
	free(g->nodes.v);
	*g = (struct gathered){ 0 };
}

static void rule_of_place(struct judging *j)
{
	static const char limit[] = "one node has the address with the port free, all reach it";
	struct place p = { 0 };

	for (size_t i = 0; i < j->n; i++)
		look_at_place(&p, &j->nodes[i]);
	if (!p.given) {
		if (j->n > 1)
			check_put(
			    j, INVARIANT_FABRIC, "rendezvous", CHECK_WARN,
			    xstrdup("not looked at: no address was given"), limit,
			    "give --rendezvous HOST:PORT, or set MASTER_ADDR and MASTER_PORT");
		return;
	}
	/* Nobody's, and everybody is answered: a store that runs already. */
	if (!p.local && !p.refused && p.connected.n)
		gathered_drop(&p.connected);
	if (!p.lost.n && !p.taken.n && !p.unreachable.n && !p.connected.n) {
		check_put(j, INVARIANT_FABRIC, "rendezvous",
			  p.local || !p.refused ? CHECK_OK : CHECK_REFUSE,
			  p.local || !p.refused
			      ? xasprintf("%.100s can be reached", p.name)
			      : xasprintf("no node has the address of %.100s", p.name),
			  limit, "name an address of node 0");
		return;
	}
	gathered_put(j, &p.lost, INVARIANT_FABRIC, "rendezvous", CHECK_REFUSE, NULL, limit,
		     "mend the name, or give the address itself");
	gathered_put(j, &p.taken, INVARIANT_FABRIC, "rendezvous", CHECK_REFUSE, NULL, limit,
		     "end what listens there, or choose another port");
	gathered_put(j, &p.connected, INVARIANT_FABRIC, "rendezvous", CHECK_REFUSE, NULL, limit,
		     "end what listens there, or choose another port");
	gathered_put(j, &p.unreachable, INVARIANT_FABRIC, "rendezvous", CHECK_REFUSE, NULL, limit,
		     "look at routes and firewalls between the nodes");
}

/* --- clocks --- */

struct clock {
	int64_t ns, doubt_ns;
	const struct preflight_node *node;
};

static int by_time(const void *a, const void *b)
{
	const struct clock *x = a, *y = b;

	return (x->ns > y->ns) - (x->ns < y->ns);
}

static void put_clocks(struct judging *j, struct clock *clocks, size_t n)
{
	int64_t limit_ns = j->plan->limits[LIMIT_SKEW_MS] * 1000000, middle, worst = 0, vague = 0;
	_cleanup_free_ char *limit =
	    xasprintf("at most %s ms from the middle of all clocks, or of two from the other",
		      thousands(j->plan->limits[LIMIT_SKEW_MS]));
	struct gathered g = { 0 };

	qsort(clocks, n, sizeof(*clocks), by_time);
	/* Of two nobody knows which is right: each is measured by the other. */
	middle = clocks[n / 2].ns;
	for (size_t i = 0; i < n; i++) {
		int64_t off = clocks[i].ns - (n == 2 ? clocks[1 - i].ns : middle);
		int64_t size = off < 0 ? -off : off;
		int64_t doubt = clocks[i].doubt_ns;
		const json_t *facts = node_facts(clocks[i].node, "fabric");

		vague = MAX(vague, doubt);
		worst = MAX(worst, size);
		if (size - doubt > limit_ns)
			gather(&g, clocks[i].node,
			       xasprintf("%.3f s %s (+- %.3f s)%s", (double)size / 1e9,
					 off < 0 ? "behind" : "ahead", (double)doubt / 1e9,
					 json_is_false(json_object_get(facts, "clock_synchronized"))
					     ? ", and its kernel says that nothing synchronizes it"
					     : ""));
	}
	gathered_put(j, &g, INVARIANT_FABRIC, "clock", CHECK_REFUSE,
		     xasprintf("%zu clocks within %.0f ms (+- %.0f ms)", n, (double)worst / 1e6,
			       (double)vague / 1e6),
		     limit, "start chrony or ntpd there: chronyc tracking, chronyc makestep");
}

static void rule_of_clocks(struct judging *j)
{
	struct clock *clocks = xcalloc(j->n + 1, sizeof(*clocks));
	size_t n = 0;

	for (size_t i = 0; i < j->n; i++) {
		const struct meet_part *p = j->nodes[i].came;

		/* No clock is a century away by more than a mistake. */
		if (p->presence == MEET_CAME && p->clock_ns != INT64_MIN &&
		    p->clock_ns < INT64_C(4000000000000000000) &&
		    p->clock_ns > -INT64_C(4000000000000000000))
			clocks[n++] =
			    (struct clock){ p->clock_ns, MAX(p->clock_doubt_ns, 0), &j->nodes[i] };
	}
	if (n > 1)
		put_clocks(j, clocks, n);
	free(clocks);
}

void rules_of_fabric(struct judging *j)
{
	static const struct same_rule same[] = {
		{ INVARIANT_FABRIC, "fabric", "mtu", "mtu", CHECK_REFUSE, true,
		  "the same MTU of an interface on every node",
		  "set it alike: ip link set dev NAME mtu N" },
		{ INVARIANT_FABRIC, "fabric", "speed", "speed", CHECK_WARN, true,
		  "the same speed of an interface on every node",
		  "look at cable, transceiver and switch port" },
		{ INVARIANT_FABRIC, "fabric", "rdma", "rdma", CHECK_REFUSE, true,
		  "the same state and rate of an RDMA port on every node",
		  "look at cable, transceiver and switch port of the odd one (ibstat)" },
	};

	rule_of_clocks(j);
	rule_of_place(j);
	for (size_t i = 0; i < ARRAY_SIZE(same); i++)
		rule_of_same(j, &same[i]);
	rule_of_ports(j);
	rule_of_variables(j);
}
