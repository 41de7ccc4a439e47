/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_storage_rules.c - checkpoints can be written on every node and there is room for those
 * to come; nothing is so small that a job runs into it.
 */
#include <stdio.h>

#include "preflight/preflight_inside.h"

/* "120 GiB" */
static char *size_text(int64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double v = (double)bytes;
	size_t u = 0;

	while (v >= 1024 && u + 1 < ARRAY_SIZE(units)) {
		v /= 1024;
		u++;
	}
	return xasprintf(v < 10 && u ? "%.1f %s" : "%.0f %s", v, units[u]);
}

static void rule_of_writing(struct judging *j)
{
	struct gathered failed = { 0 }, slow = { 0 }, to_make = { 0 };
	int64_t limit = j->plan->limits[LIMIT_WRITE_MS], worst = 0;
	_cleanup_free_ char *words =
	    xasprintf("1 MiB written, synced and read back within %s ms", thousands(limit));
	size_t nodes = 0;

	for (size_t i = 0; i < j->n; i++) {
		const json_t *facts = node_facts(&j->nodes[i], "storage");
		int64_t ms = fact_number(facts, "write_ms", 0);
		const char *why = fact_text(facts, "why"), *folder = fact_text(facts, "folder");

		if (!folder)
			continue;
		nodes++;
		worst = MAX(worst, ms);
		if (!fact_true(facts, "writable"))
			gather(&failed, &j->nodes[i],
			       xasprintf("%.160s: %.100s", folder, why ? why : "not writable"));
		else if (ms > limit)
			gather(&slow, &j->nodes[i], xasprintf("%s ms", thousands(ms)));
		if (fact_true(facts, "writable") && fact_text(facts, "made_in"))
			gather(&to_make, &j->nodes[i],
			       xasprintf("%.160s does not exist yet; %.160s was tried in its place",
					 folder, fact_text(facts, "made_in")));
	}
	if (!nodes) {
		check_put(j, INVARIANT_STORAGE, "write", CHECK_WARN,
			  xstrdup("not looked at: no checkpoint folder was given"), words,
			  "give --checkpoints DIR");
		return;
	}
	gathered_put(
	    j, &failed, INVARIANT_STORAGE, "write", CHECK_REFUSE,
	    to_make.n ? NULL
		      : xasprintf("written and read back on %zu node%s, the slowest in %s ms",
				  nodes, nodes == 1 ? "" : "s", thousands(worst)),
	    words, "mount the folder there, give the job's user the right to write, make room");
	gathered_put(j, &to_make, INVARIANT_STORAGE, "write", CHECK_WARN, NULL,
		     "the folder itself is there and can be written",
		     "make it, or look whether the path is right");
	gathered_put(j, &slow, INVARIANT_STORAGE, "write-speed", CHECK_WARN, NULL, words,
		     "look at the storage's load");
}

/* What the checkpoints to come take; -1: nobody knows. */
static int64_t bytes_needed(const struct judging *j)
{
	int64_t one = j->plan->checkpoint_bytes;

	for (size_t i = 0; one < 0 && i < j->n; i++)
		one = fact_number(node_facts(&j->nodes[i], "storage"), "newest_bytes", -1);
	if (one < 0 ||
	    (j->plan->checkpoints_kept > 0 && one > INT64_MAX / j->plan->checkpoints_kept))
		return -1;
	return one * j->plan->checkpoints_kept;
}

static void rule_of_room(struct judging *j)
{
	int64_t needed = bytes_needed(j), least = INT64_MAX;
	struct gathered room = { 0 }, inodes = { 0 };
	_cleanup_free_ char *want = size_text(MAX(needed, 0)), *have = NULL;
	_cleanup_free_ char *limit =
	    xasprintf("room for %s checkpoint%s%s%s", thousands(j->plan->checkpoints_kept),
		      j->plan->checkpoints_kept == 1 ? "" : "s", needed >= 0 ? ", " : "",
		      needed >= 0 ? want : "");
	_cleanup_free_ char *few =
	    xasprintf("%s free inodes", thousands(j->plan->limits[LIMIT_INODES]));

	for (size_t i = 0; i < j->n; i++) {
		const json_t *facts = node_facts(&j->nodes[i], "storage");
		int64_t room_bytes = fact_number(facts, "free_bytes", -1);
		int64_t n = fact_number(facts, "free_inodes", -1);

		if (room_bytes >= 0)
			least = MIN(least, room_bytes);
		if (room_bytes >= 0 && needed >= 0 && room_bytes < needed) {
			_cleanup_free_ char *text = size_text(room_bytes);

			gather(&room, &j->nodes[i], xasprintf("%s free", text));
		}
		if (n >= 0 && n < j->plan->limits[LIMIT_INODES])
			gather(&inodes, &j->nodes[i], xasprintf("%s inodes free", thousands(n)));
	}
	gathered_put(j, &inodes, INVARIANT_STORAGE, "inodes", CHECK_REFUSE, NULL, few,
		     "remove small files, or save elsewhere");
	if (least == INT64_MAX)
		return;
	have = size_text(least);
	if (needed < 0)
		check_put(j, INVARIANT_STORAGE, "room", CHECK_WARN,
			  xasprintf("%s free, and the size of a checkpoint is not known", have),
			  limit, "give --checkpoint-size SIZE");
	else
		gathered_put(j, &room, INVARIANT_STORAGE, "room", CHECK_REFUSE,
			     xasprintf("%s free, %s needed", have, want), limit,
			     "make room, keep fewer checkpoints, or save elsewhere");
}

/* Numbers of a node that must not be below a limit; -1 is as much as one likes. */
static const struct least_rule {
	const char *key, *name, *what, *unit;
	enum preflight_limit limit;
	enum check_state state;
	bool with_rdma; /* only where there is RDMA */
	bool for_gpus;	/* without a GPU it is worth a warning */
	const char *remedy;
} least_rules[] = {
	{ "shm_free_mib", "shm", "free in /dev/shm", " MiB", LIMIT_SHM_MIB, CHECK_REFUSE, false,
	  true, "mount it larger (docker --shm-size, an emptyDir of medium Memory), or empty it" },
	{ "open_files", "open-files", "open files allowed", "", LIMIT_OPEN_FILES, CHECK_WARN, false,
	  false, "ulimit -n 65536, LimitNOFILE= of the unit" },
	{ "memlock_mib", "locked-memory", "locked memory allowed", " MiB", LIMIT_MEMLOCK_MIB,
	  CHECK_REFUSE, true, false, "ulimit -l unlimited, LimitMEMLOCK=infinity of the unit" },
	{ "free_memory_mib", "memory", "memory free", " MiB", LIMIT_MEMORY_MIB, CHECK_WARN, false,
	  false, "end what holds the memory" },
	{ "free_cgroup_mib", "cgroup-memory", "memory free in the cgroup", " MiB", LIMIT_MEMORY_MIB,
	  CHECK_WARN, false, false, "raise the memory limit of the container or job" },
};

static void rule_of_least(struct judging *j, const struct least_rule *rule)
{
	int64_t limit = j->plan->limits[rule->limit], least = INT64_MAX;
	_cleanup_free_ char *words = xasprintf("at least %s%s", thousands(limit), rule->unit);
	struct gathered g = { 0 };
	bool any = false, gpus = false;

	for (size_t i = 0; i < j->n; i++) {
		const json_t *facts = node_facts(&j->nodes[i], "storage");
		const json_t *rdma = json_object_get(node_facts(&j->nodes[i], "fabric"), "rdma");
		int64_t v = fact_number(facts, rule->key, INT64_MIN);

		if (v == INT64_MIN || (rule->with_rdma && !json_array_size(rdma)))
			continue;
		any = true;
		least = v < 0 ? least : MIN(least, v);
		gpus |= json_array_size(json_object_get(node_facts(&j->nodes[i], "gpus"), "gpus"));
		if (v >= 0 && v < limit)
			gather(&g, &j->nodes[i],
			       xasprintf("%s%s %s", thousands(v), rule->unit, rule->what));
	}
	gathered_put(j, &g, INVARIANT_STORAGE, rule->name,
		     rule->for_gpus && !gpus ? CHECK_WARN : rule->state,
		     !any ? NULL
		     : least == INT64_MAX
			 ? xasprintf("no limit: %s", rule->what)
			 : xasprintf("%s%s %s", thousands(least), rule->unit, rule->what),
		     words, rule->remedy);
}

void rules_of_storage(struct judging *j)
{
	static const struct same_rule same = {
		INVARIANT_STORAGE,
		"storage",
		"storage",
		"shared",
		CHECK_WARN,
		true,
		"checkpoints go to the same file system on every node",
		"mount the same storage everywhere, or make sure that each node finds its own "
		"files again"
	};

	rule_of_writing(j);
	rule_of_room(j);
	rule_of_same(j, &same);
	for (size_t i = 0; i < ARRAY_SIZE(least_rules); i++)
		rule_of_least(j, &least_rules[i]);
}
