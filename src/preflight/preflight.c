/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight.c - the plan of a gate: its defaults, what launchers' variables say, lists that people
 * write; and the gate as a whole: part, meeting, verdict.
 */
#include "preflight/preflight_inside.h"
#include "base/clock.h"

#include <ctype.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MOST ((int64_t)1 << 24)	  /* of a job */
#define LIMIT_MOST INT64_C(1000000000000) /* of any kind */

static const char *const invariant_names[INVARIANTS] = {
	[INVARIANT_BLOCKS] = "blocks",	 [INVARIANT_AGREEMENT] = "agreement",
	[INVARIANT_GPUS] = "gpus",	 [INVARIANT_FABRIC] = "fabric",
	[INVARIANT_STORAGE] = "storage", [INVARIANT_RECOVERABLE] = "recoverable",
};

const char *invariant_name(enum invariant i)
{
	return i < INVARIANTS ? invariant_names[i] : "unknown";
}

/* The checks of each, for those who write lists; check_put holds to it. */
static const char *const check_names[INVARIANTS] = {
	[INVARIANT_BLOCKS] = "balance ranks counts remark probe options",
	[INVARIANT_AGREEMENT] = "late stranger alone world-size ranks environment tuning versions "
				"packages platform code config data data-times probe options",
	[INVARIANT_GPUS] = "count alike answer mixed memory strangers busy errors throttle xid "
			   "old-xid persistence probe options",
	[INVARIANT_FABRIC] =
	    "clock rendezvous mtu speed rdma ports variables slow-variables probe options",
	[INVARIANT_STORAGE] = "write write-speed room inodes shared shm open-files locked-memory "
			      "memory cgroup-memory probe options",
	[INVARIANT_RECOVERABLE] = "saves watchdog recorder watcher probe options",
};

bool check_is_known(enum invariant i, const char *name, size_t len)
{
	const char *p = check_names[i];

	while (*p) {
		size_t n = strcspn(p, " ");

		if (n == len && !memcmp(p, name, n))
			return true;
		p += n;
		p += *p == ' ';
	}
	return false;
}

static const struct preflight_limit_row limit_rows[PREFLIGHT_LIMITS] = {
	[LIMIT_LATE_MS] = { "late-ms", 30000, "a node after the first one" },
	[LIMIT_SKEW_MS] = { "skew-ms", 500, "a node's clock beside node 0's" },
	[LIMIT_GPU_USED_MIB] = { "gpu-used-mib", 1024, "GPU memory in use before the job" },
	[LIMIT_GPU_BUSY_PCT] = { "gpu-busy-pct", 10, "GPU utilization before the job" },
	[LIMIT_XID_HOURS] = { "xid-hours", 24, "an XID of broken hardware this young refuses" },
	[LIMIT_WRITE_MS] = { "write-ms", 5000, "to write, sync and read back 1 MiB" },
	[LIMIT_INODES] = { "inodes", 10000, "free inodes in the checkpoint folder" },
	[LIMIT_SHM_MIB] = { "shm-mib", 1024, "free in /dev/shm" },
	[LIMIT_OPEN_FILES] = { "open-files", 4096, "RLIMIT_NOFILE" },
	[LIMIT_MEMLOCK_MIB] = { "memlock-mib", 1024, "RLIMIT_MEMLOCK, where there is RDMA" },
	[LIMIT_MEMORY_MIB] = { "memory-mib", 4096, "free memory, of the cgroup too" },
	[LIMIT_AT_RISK_GPU_HOURS] = { "at-risk-gpu-hours", 64, "GPU hours between two saves" },
};

const struct preflight_limit_row *preflight_limit_rows(void)
{
	return limit_rows;
}

const char *preflight_root(void)
{
	const char *root = getenv("LOCKSTEP_PREFLIGHT_ROOT");

	return root ? root : "";
}

void preflight_plan_init(struct preflight_plan *p)
{
	*p = (struct preflight_plan){
		.probe_ms = 10000,
		.world_size = -1,
		.first_rank = -1,
		.ranks_here = -1,
		.gpus_here = -1,
		.nodes_said = -1,
		.sequence_length = -1,
		.blocks_per_step = -1,
		.python = "python3",
		.checkpoint_bytes = -1,
		.checkpoints_kept = 2,
		.save_steps = -1,
		.save_every_s = -1,
		.step_ms = -1,
		.save_seconds = -1,
		.watchdog_seconds = -1,
	};
	for (size_t i = 0; i < PREFLIGHT_LIMITS; i++)
		p->limits[i] = limit_rows[i].value;
}

/* --- what launchers say --- */

/* A whole number from 0 on in the first of the variables that has one; -1. */
static int64_t variable_number(const char *const *names)
{
	for (; *names; names++) {
		const char *text = getenv(*names);
		char *end;
		long long v;

		if (!text || !isdigit((unsigned char)*text))
			continue;
		errno = 0;
		v = strtoll(text, &end, 10);
		/* Slurm writes "8(x4)" of nodes that are alike. */
		if (!errno && v <= RANKS_MOST && (!*end || (*end == '(' && !strchr(end, ','))))
			return v;
	}
	return -1;
}

/* Of this job and attempt, as far as a launcher says it. */
static const char *job_name(void)
{
	static char name[MEET_NAME_MOST + 1];
	const char *job = getenv("SLURM_JOB_ID"), *again = getenv("SLURM_RESTART_COUNT");

	if (!job)
		job = getenv("TORCHELASTIC_RUN_ID");
	if (!job || strlen(job) > 200)
		return NULL;
	snprintf(name, sizeof(name), "%s.%.20s", job, again ? again : "0");
	return name;
}

void preflight_plan_environment(struct preflight_plan *p, struct meet_plan *m)
{
	static const char *const nodes[] = { "PET_NNODES", "NNODES", "SLURM_NNODES",
					     "SLURM_JOB_NUM_NODES", NULL };
	static const char *const node[] = { "PET_NODE_RANK", "GROUP_RANK", "NODE_RANK",
					    "SLURM_NODEID", NULL };
	static const char *const here[] = { "LOCAL_WORLD_SIZE", "PET_NPROC_PER_NODE",
					    "NPROC_PER_NODE", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL };
	static const char *const world[] = { "WORLD_SIZE", NULL };
	int64_t v;

	p->nodes_said = variable_number(nodes);
	if (!m->nodes && (v = p->nodes_said) > 0 && v <= MEET_NODES_MOST) {
		m->nodes = (uint32_t)v;
		v = variable_number(node);
		m->node = v >= 0 && v < m->nodes ? (uint32_t)v : 0;
	}
	if (!m->job)
		m->job = job_name();
	if (p->world_size < 0)
		p->world_size = variable_number(world);
	if (p->ranks_here < 0)
		p->ranks_here = variable_number(here);
	if (p->ranks_here < 0 && p->gpus_here > 0)
		p->ranks_here = p->gpus_here;
	if (p->ranks_here < 0 && p->world_size > 0 && m->nodes && p->world_size % m->nodes == 0)
		p->ranks_here = p->world_size / m->nodes;
	if (p->world_size < 0 && p->ranks_here > 0 && m->nodes)
		p->world_size = p->ranks_here * m->nodes;
	if (p->first_rank < 0 && p->ranks_here > 0 && m->nodes)
		p->first_rank = p->ranks_here * m->node;
}

/* --- lists --- */

static int invariant_find(const char *name, size_t len)
{
	for (int i = 0; i < INVARIANTS; i++)
		if (strlen(invariant_names[i]) == len && !memcmp(name, invariant_names[i], len))
			return i;
	return -EINVAL;
}

/* The next word of a list with commas; false at its end. */
static bool next_word(const char **p, const char **ret, size_t *ret_len)
{
	*p += strspn(*p, ", ");
	*ret = *p;
	*ret_len = strcspn(*p, ", ");
	*p += *ret_len;
	return *ret_len > 0;
}

static int no_invariant(const char *word, size_t len, struct error *reterr)
{
	return error_set(
	    reterr, -EINVAL,
	    "\"%.*s\" is none of blocks, agreement, gpus, fabric, storage, recoverable",
	    (int)MIN(len, 60u), word);
}

int preflight_choose(struct preflight_plan *p, const char *list, bool only, struct error *reterr)
{
	bool named[INVARIANTS] = { 0 };
	const char *word;
	size_t len, n = 0;

	for (; next_word(&list, &word, &len); n++) {
		int i = invariant_find(word, len);

		if (i < 0)
			return no_invariant(word, len, reterr);
		named[i] = true;
	}
	if (!n)
		return error_set(reterr, -EINVAL, "an empty list of invariants");
	for (int i = 0; i < INVARIANTS; i++) {
		if (named[i] != only)
			p->strict[i] = STRICT_OFF;
		if (named[i] && only)
			p->asked[i] = true;
	}
	return 0;
}

static int strictness_find(const char *name, size_t len)
{
	static const char *const names[] = { "refuse", "warn", "off" };

	for (int i = 0; i < (int)ARRAY_SIZE(names); i++)
		if (strlen(names[i]) == len && !memcmp(name, names[i], len))
			return i;
	return -EINVAL;
}

int preflight_strict(struct preflight_plan *p, const char *list, struct error *reterr)
{
	const char *word, *rest = list;
	size_t len;

	while (next_word(&rest, &word, &len)) {
		const char *equals = memchr(word, '=', len);
		size_t name = equals ? (size_t)(equals - word) : len;
		const char *dot = memchr(word, '.', name);
		int i = invariant_find(word, dot ? (size_t)(dot - word) : name);
		int how = equals ? strictness_find(equals + 1, len - name - 1) : -EINVAL;

		if (i < 0)
			return no_invariant(word, name, reterr);
		if (how < 0)
			return error_set(reterr, -EINVAL,
					 "\"%.*s\" should be INVARIANT=refuse, =warn or =off",
					 (int)MIN(len, 60u), word);
		if (dot &&
		    !check_is_known((enum invariant)i, dot + 1, name - (size_t)(dot + 1 - word)))
			return error_set(reterr, -EINVAL, "\"%.*s\" is no check; %s has: %s",
					 (int)MIN(name, 60u), word,
					 invariant_name((enum invariant)i), check_names[i]);
		if (!dot)
			p->strict[i] = (enum strictness)how;
	}
	p->strict_checks = list;
	return 0;
}

static int no_limit(const char *word, size_t len, struct error *reterr)
{
	struct buf names = { 0 };

	for (size_t i = 0; i < PREFLIGHT_LIMITS; i++) {
		buf_put(&names, ", ", i ? 2 : 0);
		buf_put(&names, limit_rows[i].name, strlen(limit_rows[i].name));
	}
	error_set(reterr, -EINVAL, "\"%.*s\" is none of the limits: %.*s", (int)MIN(len, 40u), word,
		  (int)names.len, (char *)names.data);
	buf_done(&names);
	return -EINVAL;
}

int preflight_limits(struct preflight_plan *p, const char *list, struct error *reterr)
{
	const char *word;
	size_t len;

	while (next_word(&list, &word, &len)) {
		const char *equals = memchr(word, '=', len);
		size_t name = equals ? (size_t)(equals - word) : len, i = 0;
		char *end;
		long long v;

		while (i < PREFLIGHT_LIMITS && (strlen(limit_rows[i].name) != name ||
						memcmp(limit_rows[i].name, word, name)))
			i++;
		if (i == PREFLIGHT_LIMITS)
			return no_limit(word, name, reterr);
		errno = 0;
		v = equals && isdigit((unsigned char)equals[1]) ? strtoll(equals + 1, &end, 10)
								: -1;
		if (v < 0 || v > LIMIT_MOST || errno || end != word + len)
			return error_set(reterr, -EINVAL, "\"%.*s\" should be NAME=NUMBER",
					 (int)MIN(len, 60u), word);
		p->limits[i] = v;
	}
	return 0;
}

/* --- the whole gate --- */

static int judge_parts(void *user, const struct meet_part *parts, size_t n, struct buf *ret_verdict,
		       struct error *reterr)
{
	json_t *verdict = preflight_judge(user, parts, n);
	char *text = json_dumps(verdict, JSON_COMPACT);

	json_decref(verdict);
	if (!text)
		return error_set(reterr, -EPROTO, "the verdict cannot be written");
	buf_put(ret_verdict, text, strlen(text));
	free(text);
	return 0;
}

/* For tests: a clock that is wrong by so many milliseconds. */
static int64_t shifted_clock(void)
{
	const char *by = getenv("LOCKSTEP_PREFLIGHT_CLOCK_MS");
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return timespec_ns(t) + (by ? strtoll(by, NULL, 10) * 1000000 : 0);
}

json_t *preflight_run(const struct preflight_plan *p, const struct meet_plan *plan,
		      struct error *reterr)
{
	struct preflight_plan mine = *p;
	struct meet_plan meeting = *plan;
	json_t *part = preflight_part(p), *verdict;
	char *text = json_dumps(part, JSON_COMPACT);
	struct buf got = { 0 };
	json_error_t wrong;
	int r;

	json_decref(part);
	if (getenv("LOCKSTEP_PREFLIGHT_CLOCK_MS"))
		meeting.clock_ns = shifted_clock;
	if (text && strlen(text) > MEET_PART_MOST)
		r = error_set(reterr, -E2BIG, "this node's facts are %zu bytes, %zu are allowed",
			      strlen(text), MEET_PART_MOST);
	else
		r = text ? meet(&meeting, text, strlen(text), judge_parts, &mine, &got, reterr)
			 : error_set(reterr, -ENOMEM, "this node's facts cannot be written");
	free(text);
	if (r < 0) {
		buf_done(&got);
		return NULL;
	}
	verdict = json_loadb((const char *)got.data, got.len, 0, &wrong);
	buf_done(&got);
	if (!verdict)
		error_set(reterr, -EPROTO, "the verdict that came is none: %s", wrong.text);
	return verdict;
}

int preflight_status(const json_t *verdict)
{
	const char *v = fact_text(verdict, "verdict");

	return v && !strcmp(v, "ready") ? 0 : v && !strcmp(v, "refused") ? 1 : 2;
}
