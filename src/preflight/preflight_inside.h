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
#include "preflight/preflight.h"
#include "node/small_files.h"

/* --- on each node --- */

/* 0 with facts; a negative errno with detail: the probe failed. -ENOENT: nothing of the kind here.
 */
typedef int (*preflight_facts_fn)(const struct preflight_plan *p, json_t **ret,
				  struct error *reterr);
int facts_of_blocks(const struct preflight_plan *p, json_t **ret, struct error *reterr);
int facts_of_environment(const struct preflight_plan *p, json_t **ret, struct error *reterr);
int facts_of_versions(const struct preflight_plan *p, json_t **ret, struct error *reterr);
int facts_of_code(const struct preflight_plan *p, json_t **ret, struct error *reterr);
int facts_of_config(const struct preflight_plan *p, json_t **ret, struct error *reterr);
int facts_of_gpus(const struct preflight_plan *p, json_t **ret, struct error *reterr);
int facts_of_kernel_log(const struct preflight_plan *p, json_t **ret, struct error *reterr);
int facts_of_rendezvous(const struct preflight_plan *p, json_t **ret, struct error *reterr);
int facts_of_fabric(const struct preflight_plan *p, json_t **ret, struct error *reterr);
int facts_of_storage(const struct preflight_plan *p, json_t **ret, struct error *reterr);
int facts_of_recoverable(const struct preflight_plan *p, json_t **ret, struct error *reterr);
int facts_of_data(const struct preflight_plan *p, json_t **ret, struct error *reterr);

/* What must be alike on all nodes: facts {"items": {GROUP: {KEY: text}}}; the group, made if need
   be. */
json_t *facts_group(json_t *facts, const char *group);
/* The files below paths as items: by file, or by folder where they are many. times: when they were
   changed, NULL: does not matter. */
void facts_of_files(const char *const *paths, size_t n, bool whole, json_t *items, json_t *times);
/* Keys and values of a configuration's text as items "FILE: KEY"; the text is cut up. */
void facts_of_config_text(const char *file, char *text, size_t len, json_t *items);
/* How the item of a path begins that was asked for and cannot be read. */
#define FACT_UNREAD "cannot be read: "
/* "0123456789abcdef" of bytes; "?" without libcrypto. */
void short_digest(const void *p, size_t len, char ret[17]);
/* The value of a variable or key as it may be told: a digest if its name is like a secret's. */
json_t *told_value(const char *name, const char *value);
/* What a command prints, at most max bytes; NULL: it is not there or failed (reterr). It dies with
   the probe. */
char *command_text(char *const argv[], size_t max, struct error *reterr);
/* The text of a small file below preflight_root() without its last line end; NULL and errno. */
char *system_text(const char *path, size_t max);
bool check_is_known(enum invariant i, const char *name, size_t len);

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
void rules_of_agreement(struct judging *j);
void rules_of_gpus(struct judging *j);
void rules_of_fabric(struct judging *j);
void rules_of_storage(struct judging *j);
void rules_of_recoverable(struct judging *j);

/* What several nodes are at fault for in the same way becomes one check. */
struct gathered {
	struct buf words;
	size_t n; /* phrases */
	VEC(const struct preflight_node *) nodes;
};
void gather(struct gathered *g, const struct preflight_node *node, char *phrase); /* freed */
/* Puts it, or with nothing gathered an OK check of the text `well` (freed; NULL: no check). */
void gathered_put(struct judging *j, struct gathered *g, enum invariant i, const char *name,
		  enum check_state state, char *well, const char *limit, const char *remedy);

/*
 * All nodes must give the same text for each key of a group, else the odd ones out are named with
 * the key: those whose value is not the most frequent one, or all where no value is.
 */
struct same_rule {
	enum invariant invariant;
	const char *probe, *group;
	const char *name; /* of the check */
	enum check_state state;
	bool lack_is_unknown; /* a key that a node lacks is no difference */
	const char *limit, *remedy;
};
void rule_of_same(struct judging *j, const struct same_rule *rule);

/* 1234567 as "1,234,567", in one of a few static buffers. */
const char *thousands(int64_t v);
