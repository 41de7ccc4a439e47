/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_judge.c - the verdict of all nodes' facts: who did not come, which probes gave nothing,
 * then the rules of each invariant; checks in the order to act on them.
 *
 * Facts are bytes from other machines: whatever they are, there is a verdict, and a node whose
 * facts make no sense is named.
 */
#include "preflight/preflight_inside.h"

#include <assert.h>
#include <stdio.h>

#define RANKS_NAMED_MOST 4096u
#define MEASURED_MOST	 4096u /* bytes of words that hold what a node said */
#define PROBES_MOST	 64u   /* of one node */

static const struct {
	enum invariant invariant;
	void (*rules)(struct judging *j);
} rule_rows[] = {
	{ INVARIANT_BLOCKS, rules_of_blocks },	 { INVARIANT_AGREEMENT, rules_of_agreement },
	{ INVARIANT_GPUS, rules_of_gpus },	 { INVARIANT_FABRIC, rules_of_fabric },
	{ INVARIANT_STORAGE, rules_of_storage }, { INVARIANT_RECOVERABLE, rules_of_recoverable },
};

const char *check_state_name(enum check_state s)
{
	static const char *const names[CHECK_STATES] = { "ok", "warn", "unknown", "refuse" };

	return names[s];
}

const char *thousands(int64_t v)
{
	static char texts[8][32];
	static unsigned next;
	char digits[24], *to = texts[next++ % ARRAY_SIZE(texts)], *start = to;
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, v < 0 ? -(uint64_t)v : (uint64_t)v);

	if (v < 0)
		*to++ = '-';
	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = 0;
	return start;
}

/* --- facts --- */

/* The first of a node's probes that says so of itself; NULL: none does. */
static const json_t *probe_where(const struct preflight_node *node, const char *key,
				 const char *value)
{
	const json_t *list = json_object_get(node->part, "probes"), *p;
	size_t i;

	json_array_foreach(list, i, p)
	{
		const char *said = fact_text(p, key);

		if (i >= PROBES_MOST)
			break;
		if (said && !strcmp(said, value))
			return p;
	}
	return NULL;
}

const json_t *node_facts(const struct preflight_node *node, const char *probe)
{
	return json_object_get(probe_where(node, "name", probe), "facts");
}

int64_t fact_number(const json_t *facts, const char *key, int64_t otherwise)
{
	const json_t *v = json_object_get(facts, key);

	return json_is_integer(v) ? json_integer_value(v) : otherwise;
}

const char *fact_text(const json_t *facts, const char *key)
{
	return json_string_value(json_object_get(facts, key));
}

bool fact_true(const json_t *facts, const char *key)
{
	return json_is_true(json_object_get(facts, key));
}

/* --- checks --- */

/* What "fabric.clock=warn" says of this check, else of its invariant. */
static enum strictness strictness_of(const struct preflight_plan *p, enum invariant i,
				     const char *name, bool *ret_own)
{
	static const char *const words[] = { "refuse", "warn", "off" };
	_cleanup_free_ char *full = xasprintf("%s.%s=", invariant_name(i), name);
	const char *at = p->strict_checks ? strstr(p->strict_checks, full) : NULL;

	*ret_own = false;
	if (at && (at == p->strict_checks || strchr(", ", at[-1])))
		for (size_t k = 0; k < ARRAY_SIZE(words); k++)
			if (!strncmp(at + strlen(full), words[k], strlen(words[k]))) {
				*ret_own = true;
				return (enum strictness)k;
			}
	return p->strict[i];
}

static json_t *put(json_t *list, enum invariant i, const char *name, enum check_state state,
		   char *measured, const char *limit, const char *remedy)
{
	json_t *c = json_object();

	if (strlen(measured) > MEASURED_MOST)
		strcpy(measured + MEASURED_MOST - 2, "..");
	json_object_set_new(c, "invariant", json_string(invariant_name(i)));
	json_object_set_new(c, "name", json_string(name));
	json_object_set_new(c, "state", json_string(check_state_name(state)));
	json_object_set_new(c, "measured", text_json(measured));
	json_object_set_new(c, "limit", limit ? text_json(limit) : json_null());
	json_object_set_new(c, "remedy", remedy && state ? text_json(remedy) : json_null());
	json_object_set_new(c, "hosts", json_array());
	json_object_set_new(c, "ranks", json_array());
	free(measured);
	json_array_append_new(list, c);
	return c;
}

json_t *check_put(struct judging *j, enum invariant i, const char *name, enum check_state state,
		  char *measured, const char *limit, const char *remedy)
{
	bool own;
	enum strictness strict = strictness_of(j->plan, i, name, &own);

	assert(check_is_known(i, name, strlen(name)));
	if (strict == STRICT_WARN && state > CHECK_WARN)
		state = CHECK_WARN;
	if (own && strict == STRICT_REFUSE && state == CHECK_WARN)
		state = CHECK_REFUSE;
	/* Off: the caller may still add to it, nobody sees it. */
	return put(strict == STRICT_OFF ? j->off : j->checks, i, name, state, measured, limit,
		   remedy);
}

bool check_trouble(const struct judging *j, enum invariant i)
{
	const json_t *c;
	size_t k;

	json_array_foreach(
	    j->checks, k,
	    c) if (!strcmp(fact_text(c, "invariant"), invariant_name(i)) &&
		   strcmp(fact_text(c, "state"), check_state_name(CHECK_OK))) return true;
	return false;
}

static void add_once(json_t *array, json_t *value)
{
	const json_t *v;
	size_t i;

	json_array_foreach(array, i, v) if (json_equal(v, value))
	{
		json_decref(value);
		return;
	}
	if (json_array_size(array) < RANKS_NAMED_MOST)
		json_array_append_new(array, value);
	else
		json_decref(value);
}

void check_host(json_t *check, const struct preflight_node *node)
{
	json_t *ranks = json_object_get(check, "ranks");

	add_once(json_object_get(check, "hosts"), text_json(node->host));
	for (int64_t r = 0; node->first_rank >= 0 && r < node->ranks && r < 64; r++)
		add_once(ranks, json_integer(node->first_rank + r));
}

void check_rank(struct judging *j, json_t *check, int64_t rank)
{
	const struct preflight_node *node = node_of_rank(j, rank);

	add_once(json_object_get(check, "ranks"), json_integer(rank));
	if (node)
		add_once(json_object_get(check, "hosts"), text_json(node->host));
}

const struct preflight_node *node_of_rank(const struct judging *j, int64_t rank)
{
	for (size_t i = 0; i < j->n; i++) {
		const struct preflight_node *n = &j->nodes[i];

		if (n->first_rank >= 0 && rank >= n->first_rank && rank - n->first_rank < n->ranks)
			return n;
	}
	return NULL;
}

/* --- who came --- */

static void take_node(struct judging *j, const struct meet_part *p)
{
	struct preflight_node *n = &j->nodes[j->n++];
	json_error_t wrong;
	const char *host;

	*n = (struct preflight_node){ p, p->name ? p->name : "unknown", NULL, -1, -1 };
	if (p->presence != MEET_CAME)
		return;
	n->part = json_loadb((const char *)p->part, p->part_len, JSON_REJECT_DUPLICATES, &wrong);
	if (fact_number(n->part, "lockstep_preflight", -1) != 1) {
		json_decref(n->part);
		n->part = NULL;
		return;
	}
	host = fact_text(n->part, "host");
	if (!p->name && host)
		n->host = host;
	n->first_rank = fact_number(n->part, "first_rank", -1);
	n->ranks = fact_number(n->part, "ranks_here", -1);
	if (n->first_rank > INT32_MAX || n->ranks > INT32_MAX)
		n->first_rank = n->ranks = -1;
}

/* as: the node that it came in place of; NULL. */
static void put_presence(struct judging *j, const struct meet_part *p, const struct meet_part *as,
			 const char *what, const char *remedy)
{
	const char *name = p->name ? p->name : "unknown";
	const char *other = as && as->name && strcmp(as->name, name) ? as->name : NULL;
	struct preflight_node node = { p, name, NULL, -1, -1 };
	bool at = p->address && *p->address && strcmp(p->address, name);
	/* Without all nodes nothing is ready, whatever else is off. */
	json_t *check =
	    put(j->checks, INVARIANT_AGREEMENT, "presence", CHECK_REFUSE,
		xasprintf("%s%s%s%s%s%s%s %s%s%s", name, at ? " (" : "", at ? p->address : "",
			  at ? ")" : "", other ? ", as " : "", other ? other : "", other ? "," : "",
			  what, p->why ? ": " : "", p->why ? p->why : ""),
		"every node comes, and proves that it is of this job", remedy);

	check_host(check, &node);
	if (other)
		check_host(check, &(struct preflight_node){ as, other, NULL, -1, -1 });
}

/*
 * Anybody who reaches the port can claim to be a node: that counts where the node itself is not
 * there, or, if it claims none of them, where any is not.
 */
static bool is_harmless(const struct meet_part *impostor, const struct meet_part *parts, size_t n)
{
	bool all = true;

	for (size_t i = 0; i < n; i++)
		if (parts[i].presence <= MEET_LOST && parts[i].node != UINT32_MAX) {
			if (parts[i].node == impostor->node)
				return parts[i].presence == MEET_CAME;
			all &= parts[i].presence == MEET_CAME;
		}
	return all;
}

static void put_stranger(struct judging *j, const struct meet_part *p, const char *what)
{
	const char *who = p->address && *p->address ? p->address : "somebody";
	bool named = p->presence == MEET_IMPOSTOR && p->name && *p->name;

	check_put(j, INVARIANT_AGREEMENT, "stranger", CHECK_WARN,
		  xasprintf("%s%s%.100s%s %s%s%s", who, named ? " (\"" : "", named ? p->name : "",
			    named ? "\")" : "", what, p->why ? ": " : "", p->why ? p->why : ""),
		  "only the job's nodes come", "find out who it is, or choose another port");
}

/* The row of the same number in that state; NULL. */
static const struct meet_part *of_number(const struct meet_part *parts, size_t n, uint32_t node,
					 enum meet_presence presence)
{
	for (size_t i = 0; i < n && node != UINT32_MAX; i++)
		if (parts[i].presence == presence && parts[i].node == node)
			return &parts[i];
	return NULL;
}

static void rules_of_presence(struct judging *j, const struct meet_part *parts, size_t n)
{
	static const struct {
		const char *what, *remedy;
	} said[MEET_PRESENCES] = {
		[MEET_ABSENT] = { "did not come",
				  "start lockstep preflight there too, or leave the node out" },
		[MEET_LOST] = { "came and went before it had said its part",
				"look why it ended there, or leave the node out" },
		[MEET_IMPOSTOR] = { "does not know the secret, or is of another job",
				    "give it this job's secret file, or find out who it is" },
		[MEET_MISFIT] = { "takes another node's number, or counts other nodes",
				  "give each node its own --node, and all the same --nodes" },
	};
	size_t came = 0;

	for (size_t i = 0; i < n; i++) {
		enum meet_presence p = parts[i].presence;

		came += p == MEET_CAME;
		if (p == MEET_ABSENT && of_number(parts, n, parts[i].node, MEET_IMPOSTOR))
			continue; /* who came in its name without the secret has the row */
		if (p == MEET_STRANGER)
			put_stranger(j, &parts[i], "spoke to the meeting, but nothing of ours");
		else if (p == MEET_IMPOSTOR && is_harmless(&parts[i], parts, n))
			put_stranger(j, &parts[i],
				     "claims to be one of the nodes, which came themselves");
		else if (p > MEET_CAME && p < MEET_PRESENCES && said[p].what)
			put_presence(j, &parts[i],
				     p == MEET_IMPOSTOR
					 ? of_number(parts, n, parts[i].node, MEET_ABSENT)
					 : NULL,
				     said[p].what, said[p].remedy);
	}
	for (size_t i = 0; i < j->n; i++)
		if (j->nodes[i].came->presence == MEET_CAME && !j->nodes[i].part)
			put_presence(j, j->nodes[i].came, NULL, "gave facts that cannot be read",
				     "install the same lockstep on every node");
	if (came == j->n && came > 1)
		put(j->checks, INVARIANT_AGREEMENT, "presence", CHECK_OK,
		    xasprintf("all %zu nodes came", came), "every node comes", NULL);
}

/* Who kept the others waiting. */
static void rule_of_lateness(struct judging *j)
{
	int64_t limit = j->plan->limits[LIMIT_LATE_MS];
	_cleanup_free_ char *words =
	    xasprintf("every node within %s ms of the first", thousands(limit));
	struct gathered g = { 0 };

	for (size_t i = 0; i < j->n; i++)
		if (j->nodes[i].part && j->nodes[i].came->late_ms > limit)
			gather(&g, &j->nodes[i],
			       xasprintf("%.1f s late", (double)j->nodes[i].came->late_ms / 1000));
	gathered_put(j, &g, INVARIANT_AGREEMENT, "late", CHECK_WARN, NULL, words,
		     "look why the node starts so slowly: it may do so again");
}

static bool has_probe_of(const struct preflight_node *node, enum invariant i)
{
	return probe_where(node, "invariant", invariant_name(i));
}

/* A node that was started with other options did not look at what the judge asks about. */
static void rules_of_options(struct judging *j)
{
	for (int i = 0; i < INVARIANTS; i++) {
		struct gathered g = { 0 };

		if (j->plan->strict[i] == STRICT_OFF)
			continue;
		for (size_t n = 0; n < j->n; n++)
			if (j->nodes[n].part && !fact_text(j->nodes[n].part, "error") &&
			    !has_probe_of(&j->nodes[n], (enum invariant)i))
				gather(&g, &j->nodes[n], xstrdup("did not look at this"));
		gathered_put(j, &g, (enum invariant)i, "options", CHECK_REFUSE, NULL,
			     "every node looks at what node 0 looks at",
			     "start lockstep preflight with the same --only and --skip everywhere");
	}
}

/* A probe that hangs is a finding; one that failed leaves its invariant untold. */
static void rules_of_probes(struct judging *j)
{
	for (size_t i = 0; i < j->n; i++) {
		const json_t *list = json_object_get(j->nodes[i].part, "probes"), *p;
		const char *error = fact_text(j->nodes[i].part, "error");
		size_t k;

		if (error)
			check_host(check_put(j, INVARIANT_STORAGE, "probe", CHECK_REFUSE,
					     xasprintf("%s: %s", j->nodes[i].host, error),
					     "probes can be run", "make room on the node"),
				   &j->nodes[i]);
		json_array_foreach(list, k, p)
		{
			if (k >= PROBES_MOST)
				break;
			const char *name = fact_text(p, "name"), *state = fact_text(p, "state");
			const char *of = fact_text(p, "invariant"), *why = fact_text(p, "why");
			int inv = 0;

			while (of && inv < INVARIANTS &&
			       strcmp(of, invariant_name((enum invariant)inv)))
				inv++;
			if (!name || !state || !of || inv == INVARIANTS || !strcmp(state, "done") ||
			    !strcmp(state, "absent"))
				continue;
			check_host(check_put(j, (enum invariant)inv, "probe",
					     fact_true(p, "hangs") ? CHECK_REFUSE : CHECK_UNKNOWN,
					     xasprintf("%s: %.40s: %s", j->nodes[i].host, name,
						       why ? why : state),
					     "every probe answers in time",
					     fact_true(p, "hangs")
						 ? "look why it hangs there, give it longer "
						   "(--probe-seconds), or leave the node out"
						 : "mend what it says"),
				   &j->nodes[i]);
		}
	}
}

/* --- the verdict --- */

static int state_of(const json_t *check)
{
	const char *state = fact_text(check, "state");

	for (int s = 0; state && s < CHECK_STATES; s++)
		if (!strcmp(state, check_state_name((enum check_state)s)))
			return s;
	return CHECK_OK;
}

/* Worst first, else as they were put. */
static json_t *in_order(const json_t *checks, size_t counts[CHECK_STATES])
{
	json_t *sorted = json_array(), *c;
	size_t i;

	for (int s = CHECK_STATES - 1; s >= 0; s--)
		json_array_foreach(checks, i, c) if (state_of(c) == s)
		{
			counts[s]++;
			json_array_append(sorted, c);
		}
	return sorted;
}

static json_t *verdict_of(struct judging *j)
{
	size_t counts[CHECK_STATES] = { 0 };
	json_t *v = json_object(), *sorted = in_order(j->checks, counts), *limits = json_object();
	int64_t ranks = 0;

	for (size_t i = 0; i < j->n; i++)
		ranks += MAX(j->nodes[i].ranks, 0);
	for (size_t i = 0; i < PREFLIGHT_LIMITS; i++)
		json_object_set_new(limits, preflight_limit_rows()[i].name,
				    json_integer(j->plan->limits[i]));
	json_object_set_new(v, "lockstep", json_string(LOCKSTEP_VERSION));
	json_object_set_new(v, "schema", json_integer(1));
	json_object_set_new(v, "verdict",
			    json_string(counts[CHECK_REFUSE] ? "refused"
					: counts[CHECK_UNKNOWN] || !json_array_size(sorted)
					    ? "cannot-tell"
					    : "ready"));
	json_object_set_new(v, "nodes", json_integer((json_int_t)j->n));
	json_object_set_new(v, "ranks",
			    j->plan->world_size >= 0 ? json_integer(j->plan->world_size)
			    : ranks		     ? json_integer(ranks)
						     : json_null());
	json_object_set_new(v, "checks", sorted);
	json_object_set_new(v, "limits", limits);
	return v;
}

json_t *preflight_judge(const struct preflight_plan *p, const struct meet_part *parts, size_t n)
{
	struct judging j = { .plan = p, .nodes = xcalloc(n, sizeof(*j.nodes)) };
	json_t *verdict;

	j.checks = json_array();
	j.off = json_array();
	for (size_t i = 0; i < n; i++)
		if (parts[i].presence <= MEET_LOST && parts[i].node != UINT32_MAX)
			take_node(&j, &parts[i]);
	rules_of_presence(&j, parts, n);
	rule_of_lateness(&j);
	rules_of_options(&j);
	rules_of_probes(&j);
	for (size_t i = 0; i < ARRAY_SIZE(rule_rows); i++)
		if (p->strict[rule_rows[i].invariant] != STRICT_OFF)
			rule_rows[i].rules(&j);
	verdict = verdict_of(&j);
	for (size_t i = 0; i < j.n; i++)
		json_decref(j.nodes[i].part);
	free(j.nodes);
	json_decref(j.checks);
	json_decref(j.off);
	return verdict;
}
