/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_inside.h - what the files of the gate share: probes that give facts, and the judge's
 * view of all nodes' facts.
 *
 * A probe runs in a child and gives one JSON object; it decides nothing. A rule sees the facts of
 * all nodes and puts checks; it measures nothing. Facts of another node are bytes from outside:
 * rules read them through the fact_* functions only, which bear any type and size.
 */
#pragma once
#include "job/preflight.h"

/* --- on each node --- */

/* 0 with facts; a negative errno with detail: the probe failed. -ENOENT: nothing of the kind here.
 */
typedef int (*preflight_facts_fn)(const struct preflight_plan *p, json_t **ret,
				  struct error *reterr);
int facts_of_blocks(const struct preflight_plan *p, json_t **ret, struct error *reterr);

/* The text of a small file below preflight_root() without its last line end; NULL and errno. */
char *system_text(const char *path, size_t max);
/* Bytes that are no UTF-8 become question marks. */
json_t *fact_string(const char *s);

/* --- at the judge --- */

enum check_state { CHECK_OK, CHECK_WARN, CHECK_UNKNOWN, CHECK_REFUSE, CHECK_STATES };
const char *check_state_name(enum check_state s);

struct preflight_node {
	const struct meet_part *came;
	const char *host;	   /* for people */
	json_t *part;		   /* NULL: none that can be read */
	int64_t first_rank, ranks; /* -1 */
};
struct judging {
	const struct preflight_plan *plan;
	struct preflight_node *nodes; /* impostors are not among them */
	size_t n;
	json_t *checks, *off; /* off: those that nobody wants to see */
};

/*
 * Puts a check; state and strictness decide together what it comes to. The measured text is freed.
 * Borrowed, to add hosts and ranks to; never NULL.
 */
json_t *check_put(struct judging *j, enum invariant i, const char *name, enum check_state state,
		  char *measured, const char *limit, const char *remedy);
void check_host(json_t *check, const struct preflight_node *node); /* its ranks too, if known */
void check_rank(struct judging *j, json_t *check, int64_t rank);   /* its host too, if known */
bool check_trouble(const struct judging *j, enum invariant i); /* one that is not well is there */
const struct preflight_node *node_of_rank(const struct judging *j, int64_t rank); /* NULL */

/* What a node's probe gave: NULL if it gave nothing. */
const json_t *node_facts(const struct preflight_node *node, const char *probe);
int64_t fact_number(const json_t *facts, const char *key, int64_t otherwise);
const char *fact_text(const json_t *facts, const char *key); /* NULL */
bool fact_true(const json_t *facts, const char *key);

void rules_of_blocks(struct judging *j);

/* 1234567 as "1,234,567", in one of a few static buffers. */
const char *thousands(int64_t v);
