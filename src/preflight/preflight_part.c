/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_part.c - this node's facts: each probe of the table asked by a child with a deadline.
 *
 * A probe that gives nothing is in the part with what happened to it: what it is about is then not
 * known of this node, and the judge says so.
 */
#include "preflight/preflight_inside.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/probe.h"

#define FACTS_MOST ((size_t)4 << 20) /* bytes of one probe's */
#define COUNTING   10u		     /* deadlines for what reads data */

struct probe_row {
	const char *name;
	enum invariant invariant;
	preflight_facts_fn facts;
	unsigned deadlines;				/* 0: it asks nobody, and needs no child */
	bool (*wanted)(const struct preflight_plan *p); /* NULL: always */
};

static bool has_config(const struct preflight_plan *p)
{
	return p->n_config > 0;
}

static bool has_data(const struct preflight_plan *p)
{
	return p->n_data > 0;
}

static const struct probe_row probe_rows[] = {
	{ "blocks", INVARIANT_BLOCKS, facts_of_blocks, COUNTING, NULL },
	{ "environment", INVARIANT_AGREEMENT, facts_of_environment, 0, NULL },
	{ "versions", INVARIANT_AGREEMENT, facts_of_versions, 1, NULL },
	{ "code", INVARIANT_AGREEMENT, facts_of_code, 1, NULL },
	{ "config", INVARIANT_AGREEMENT, facts_of_config, 1, has_config },
	{ "data", INVARIANT_AGREEMENT, facts_of_data, COUNTING, has_data },
	{ "gpus", INVARIANT_GPUS, facts_of_gpus, 1, NULL },
	{ "kernel-log", INVARIANT_GPUS, facts_of_kernel_log, 1, NULL },
	{ "rendezvous", INVARIANT_FABRIC, facts_of_rendezvous, 1, NULL },
	{ "fabric", INVARIANT_FABRIC, facts_of_fabric, 1, NULL },
	{ "storage", INVARIANT_STORAGE, facts_of_storage, 1, NULL },
	{ "recoverable", INVARIANT_RECOVERABLE, facts_of_recoverable, 1, NULL },
};

struct asked {
	const struct probe_row *row;
	const struct preflight_plan *plan;
};

/* In the child. */
static int ask(void *user, int fd, struct error *why)
{
	const struct asked *a = user;
	json_t *facts = NULL;
	int r = a->row->facts(a->plan, &facts, why);

	if (r >= 0 && (!facts || json_dumpfd(facts, fd, JSON_COMPACT)))
		r = error_set(why, -EIO, "its facts could not be kept: %s", strerror(errno));
	return r;
}

/* While probes run: their files' paths and last their folder's, for preflight_tidy. */
static struct {
	volatile sig_atomic_t n;
	const char *paths[ARRAY_SIZE(probe_rows)];
	const char *folder;
} scratch;

void preflight_tidy(void)
{
	for (int i = 0; i < scratch.n; i++)
		unlink(scratch.paths[i]);
	if (scratch.n)
		rmdir(scratch.folder);
}

/* A folder of our own for what the probes give: in memory if it can be. */
static char *scratch_folder(struct error *reterr)
{
	const char *const at[] = { getenv("TMPDIR"), "/dev/shm", "/tmp", "/var/tmp" };

	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		char *path = at[i] ? xasprintf("%s/lockstep-preflight-XXXXXX", at[i]) : NULL;

		if (path && mkdtemp(path))
			return path;
		free(path);
	}
	error_set(reterr, -errno, "no folder to write into: $TMPDIR, /dev/shm, /tmp: %s",
		  strerror(errno));
	return NULL;
}

static json_t *settled(struct probe *p, const struct probe_row *row)
{
	json_t *j = json_object(), *facts = NULL;
	json_error_t wrong;

	if (p->state == PROBE_DONE && p->bytes <= FACTS_MOST)
		facts = json_load_file(p->file, 0, &wrong);
	if (p->state == PROBE_DONE && !facts) {
		p->state = PROBE_FAILED;
		snprintf(p->why, sizeof(p->why), "%s",
			 p->bytes > FACTS_MOST ? "more than 4 MiB of facts" : "no JSON");
	}
	json_object_set_new(j, "name", json_string(row->name));
	json_object_set_new(j, "invariant", json_string(invariant_name(row->invariant)));
	json_object_set_new(j, "state", json_string(probe_state_name(p->state)));
	json_object_set_new(j, "took_ms", json_integer(p->took_ms));
	if (p->state == PROBE_LATE || p->state == PROBE_ABANDONED)
		json_object_set_new(j, "hangs", json_true());
	if (p->why[0])
		json_object_set_new(j, "why", text_json(p->why));
	if (facts)
		json_object_set_new(j, "facts", facts);
	return j;
}

/* What asks nobody is done here. */
static json_t *inside(const struct preflight_plan *p, const struct probe_row *row)
{
	json_t *j = json_object(), *facts = NULL;

	json_object_set_new(j, "name", json_string(row->name));
	json_object_set_new(j, "invariant", json_string(invariant_name(row->invariant)));
	json_object_set_new(j, "state", json_string(probe_state_name(PROBE_DONE)));
	if (row->facts(p, &facts, NULL) >= 0)
		json_object_set_new(j, "facts", facts);
	return j;
}

static void run_probes(const struct preflight_plan *p, const char *folder, json_t *list)
{
	struct probe probes[ARRAY_SIZE(probe_rows)] = { 0 };
	struct asked asked[ARRAY_SIZE(probe_rows)];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(probe_rows); i++) {
		const struct probe_row *row = &probe_rows[i];

		if (p->strict[row->invariant] == STRICT_OFF || (row->wanted && !row->wanted(p)))
			continue;
		/* Without Python versions are a few lines of the kernel's. */
		if (!row->deadlines || (row->facts == facts_of_versions && !p->python)) {
			json_array_append_new(list, inside(p, row));
			continue;
		}
		asked[n] = (struct asked){ row, p };
		probes[n] = (struct probe){
			.what = row->name,
			.file = xasprintf("%s/%s", folder, row->name),
			.run = ask,
			.user = &asked[n],
			.rank = -1,
			.limit_ms = p->probe_ms * row->deadlines,
		};
		n++;
	}
	scratch.folder = folder;
	for (size_t i = 0; i < n; i++)
		scratch.paths[i] = probes[i].file;
	scratch.n = (sig_atomic_t)n;
	probes_run(probes, n);
	scratch.n = 0;
	for (size_t i = 0; i < n; i++) {
		json_array_append_new(list, settled(&probes[i], asked[i].row));
		unlink(probes[i].file);
		probe_done(&probes[i]);
	}
}

json_t *preflight_part(const struct preflight_plan *p)
{
	json_t *part = json_object(), *list = json_array();
	char host[256] = "unknown";
	struct error error = { "" };
	char *folder = scratch_folder(&error);

	gethostname(host, sizeof(host) - 1);
	json_object_set_new(part, "lockstep_preflight", json_integer(1));
	json_object_set_new(part, "host", text_json(host));
	json_object_set_new(part, "lockstep", json_string(LOCKSTEP_VERSION));
	if (p->world_size >= 0)
		json_object_set_new(part, "world_size", json_integer(p->world_size));
	if (p->first_rank >= 0)
		json_object_set_new(part, "first_rank", json_integer(p->first_rank));
	if (p->ranks_here >= 0)
		json_object_set_new(part, "ranks_here", json_integer(p->ranks_here));
	json_object_set_new(part, "probes", list);
	if (folder)
		run_probes(p, folder, list);
	else
		json_object_set_new(part, "error", text_json(error.text));
	if (folder)
		rmdir(folder);
	free(folder);
	return part;
}
