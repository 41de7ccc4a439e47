/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_cmd.c - `lockstep preflight`: the gate before a job, on one machine or as one of its
 * nodes. Status 0 ready, 1 refused, 2 cannot tell, the same on every node.
 */
#include "cmd/cmd.h"
#include "preflight/preflight.h"

#include <ctype.h>
#include <signal.h>

#define RANKS_MOST (1 << 24)

struct preflight_args {
	struct option_texts strict, limit, blocks, config, data;
	const char *only, *skip, *code, *python, *rendezvous, *checkpoints, *checkpoint_size;
	const char *report, *folder, *address, *secret, *job, *name, *names, *length_field;
	int64_t blocks_per_step, sequence_length, world_size, first_rank, ranks, gpus, kept;
	int64_t save_steps, save_minutes, save_seconds, step_ms, watchdog, node, nodes, wait, probe;
	bool json, brief, strided, evened, keep_last, hash_data, watched;
};
#define AT(field) offsetof(struct preflight_args, field)

static const struct option_row preflight_rows[] = {
	{ "only", 0, OPTION_TEXT, AT(only), "LIST", "look at these only, blocks,gpus" },
	{ "skip", 0, OPTION_TEXT, AT(skip), "LIST", "leave these invariants out" },
	{ "strict", 0, OPTION_TEXTS, AT(strict), "LIST",
	  "what a breach does: gpus=warn,fabric.clock=off" },
	{ "limit", 0, OPTION_TEXTS, AT(limit), "LIST", "other limits, skew-ms=100,shm-mib=64" },
	{ "json", 0, OPTION_FLAG, AT(json), NULL, "print the verdict as JSON" },
	{ "brief", 0, OPTION_FLAG, AT(brief), NULL, "leave out the checks that are well" },
	{ "report", 0, OPTION_PATH, AT(report), "FILE",
	  "write the whole report there, and print a brief one" },
	{ "blocks", 'b', OPTION_TEXTS, AT(blocks), "PATH",
	  "counts by rank, or the shards to count" },
	{ "blocks-per-step", 0, OPTION_NUMBER, AT(blocks_per_step), "N",
	  "blocks that one rank uses up in a step, accumulation included" },
	{ "sequence-length", 0, OPTION_NUMBER, AT(sequence_length), "N",
	  "tokens of a block that records are packed into" },
	{ "length-field", 0, OPTION_TEXT, AT(length_field), "NAME",
	  "field of a record that tells its tokens" },
	{ "strided", 0, OPTION_FLAG, AT(strided), NULL, "shards go to the ranks in turn" },
	{ "keep-last", 0, OPTION_FLAG, AT(keep_last), NULL, "a partial last step is run" },
	{ "evened", 0, OPTION_FLAG, AT(evened), NULL, "the job evens its steps itself" },
	{ "world-size", 'w', OPTION_NUMBER, AT(world_size), "N", "ranks of the job" },
	{ "first-rank", 0, OPTION_NUMBER, AT(first_rank), "N", "the first rank of this node" },
	{ "ranks", 'r', OPTION_NUMBER, AT(ranks), "N", "ranks of this node" },
	{ "gpus", 'g', OPTION_NUMBER, AT(gpus), "N", "number of GPUs that this node must have" },
	{ "code", 0, OPTION_PATH, AT(code), "DIR",
	  "the job's code, a git work tree or any folder" },
	{ "config", 'c', OPTION_TEXTS, AT(config), "FILE", "a configuration file of the job" },
	{ "data", 'd', OPTION_TEXTS, AT(data), "PATH", "data that all nodes must see alike" },
	{ "hash-data", 0, OPTION_FLAG, AT(hash_data), NULL,
	  "compare whole data files, not their first and last MiB" },
	{ "python", 0, OPTION_TEXT, AT(python), "PROGRAM",
	  "the Python whose packages are compared, or none" },
	{ "rendezvous", 0, OPTION_TEXT, AT(rendezvous), "HOST:PORT",
	  "where the job's ranks will meet" },
	{ "checkpoints", 0, OPTION_PATH, AT(checkpoints), "DIR", "where the job saves" },
	{ "checkpoint-size", 0, OPTION_TEXT, AT(checkpoint_size), "SIZE",
	  "of the next checkpoint, 120G; else it is the newest one's" },
	{ "checkpoints-kept", 0, OPTION_NUMBER, AT(kept), "N", "make sure of room for so many" },
	{ "save-steps", 0, OPTION_NUMBER, AT(save_steps), "N",
	  "steps between saves; 0: only at the end" },
	{ "save-minutes", 0, OPTION_NUMBER, AT(save_minutes), "N", "minutes between saves" },
	{ "save-seconds", 0, OPTION_NUMBER, AT(save_seconds), "N", "seconds that a save takes" },
	{ "step-ms", 0, OPTION_NUMBER, AT(step_ms), "N", "milliseconds that a step takes" },
	{ "watchdog-seconds", 0, OPTION_NUMBER, AT(watchdog), "N",
	  "time-out of the job's collectives" },
	{ "watched", 0, OPTION_FLAG, AT(watched), NULL, "a watcher is armed" },
	{ "node", 0, OPTION_NUMBER, AT(node), "N", "number of this node, from 0" },
	{ "nodes", 'n', OPTION_NUMBER, AT(nodes), "N", "nodes of the job" },
	{ "meet-folder", 0, OPTION_PATH, AT(folder), "DIR", "meet in a folder that all see" },
	{ "meet", 'm', OPTION_TEXT, AT(address), "HOST:PORT",
	  "meet there: node 0 listens, the others come" },
	{ "secret-file", 0, OPTION_PATH, AT(secret), "FILE",
	  "the secret that all nodes of the job share" },
	{ "job", 'j', OPTION_TEXT, AT(job), "NAME", "of this job and attempt" },
	{ "name", 0, OPTION_TEXT, AT(name), "NAME", "of this node; else its host name" },
	{ "names", 0, OPTION_TEXT, AT(names), "LIST", "of all nodes, to name who does not come" },
	{ "wait", 0, OPTION_NUMBER, AT(wait), "SECONDS", "for the other nodes, 120 if not given" },
	{ "probe-seconds", 0, OPTION_NUMBER, AT(probe), "N", "deadline of each probe, 10" },
	{ 0 },
};
#undef AT
const struct option_spec preflight_spec = {
	.command = "preflight",
	.operands = "",
	.purpose = "the gate before a job: refuse what would hang or be lost",
	.rows = preflight_rows,
	.more = "Invariants: blocks, agreement, gpus, fabric, storage, recoverable; a breach may "
		"refuse, warn\n"
		"or be off.\n"
		"Limits: late-ms, skew-ms, gpu-used-mib, gpu-busy-pct, xid-hours, write-ms, "
		"inodes,\n"
		"shm-mib, open-files, memlock-mib, memory-mib, at-risk-gpu-hours.\n"
		"Exit status: 0 ready, 1 refused, 2 cannot tell, 64 usage.\n\n"
		"Block balance alone, on one machine, of a file with columns rank,blocks:\n"
		"  lockstep preflight --only blocks --blocks counts.csv --blocks-per-step 8\n",
};

/* "120G", "64MiB", "1e9" is none. Powers of 1024; -1. */
static int64_t parse_size(const char *text)
{
	static const char units[] = "kmgtp";
	char *end;
	double v;
	int64_t unit = 1;
	const char *u;

	if (!isdigit((unsigned char)*text))
		return -1;
	v = strtod(text, &end);
	u = *end ? strchr(units, tolower((unsigned char)*end)) : NULL;
	if (u)
		unit = INT64_C(1) << 10 * (u - units + 1);
	end += u != NULL;
	if (*end && strcmp(end, "B") && strcmp(end, "iB"))
		return -1;
	return v * (double)unit < 9e18 ? (int64_t)(v * (double)unit) : -1;
}

/* Lists of an option that may come again, each checked by itself and then joined. */
static int take_lists(const struct option_texts *lists, struct preflight_plan *plan, char **ret,
		      int (*take)(struct preflight_plan *, const char *, struct error *),
		      struct error *reterr)
{
	for (size_t i = 0; i < lists->n; i++) {
		char *joined;
		int r = take(plan, lists->v[i], reterr);

		if (r < 0)
			return r;
		/* Of two that name the same the later one counts: it stands first. */
		joined = xasprintf("%s%s%s", lists->v[i], *ret ? "," : "", *ret ? *ret : "");
		free(*ret);
		*ret = joined;
	}
	return 0;
}

static void number_or(int64_t *to, int64_t given)
{
	if (given >= 0)
		*to = given;
}

static int fill_plan(const struct preflight_args *a, struct preflight_plan *p, char **ret_strict,
		     struct error *reterr)
{
	char *limits = NULL;
	int r;

	r = take_lists(&a->strict, p, ret_strict, preflight_strict, reterr);
	if (r >= 0 && a->only)
		r = preflight_choose(p, a->only, true, reterr);
	if (r >= 0 && a->skip)
		r = preflight_choose(p, a->skip, false, reterr);
	if (r >= 0)
		r = take_lists(&a->limit, p, &limits, preflight_limits, reterr);
	free(limits);
	if (r < 0)
		return r;
	p->strict_checks = *ret_strict;
	p->blocks = a->blocks.v;
	p->n_blocks = a->blocks.n;
	p->config = a->config.v;
	p->n_config = a->config.n;
	p->data = a->data.v;
	p->n_data = a->data.n;
	p->blocks_per_step = a->blocks_per_step;
	p->sequence_length = a->sequence_length;
	p->world_size = a->world_size;
	p->first_rank = a->first_rank;
	p->ranks_here = a->ranks;
	p->gpus_here = a->gpus;
	p->length_field = a->length_field;
	p->strided = a->strided;
	p->evened = a->evened;
	p->keep_last = a->keep_last;
	p->hash_data = a->hash_data;
	p->watched = a->watched;
	p->code = a->code;
	p->rendezvous = a->rendezvous;
	p->checkpoints = a->checkpoints;
	p->save_steps = a->save_steps;
	p->save_every_s = a->save_minutes < 0 ? -1 : a->save_minutes * 60;
	p->save_seconds = a->save_seconds;
	p->step_ms = a->step_ms;
	p->watchdog_seconds = a->watchdog;
	number_or(&p->checkpoints_kept, a->kept);
	if (a->python)
		p->python = strcmp(a->python, "none") ? a->python : NULL;
	if (a->probe > 0)
		p->probe_ms = (uint32_t)MIN(a->probe, 3600) * 1000;
	if (a->checkpoint_size && (p->checkpoint_bytes = parse_size(a->checkpoint_size)) < 0)
		return error_set(reterr, -EINVAL, "\"%.60s\" is no size such as 120G",
				 a->checkpoint_size);
	if (a->world_size > RANKS_MOST || a->first_rank > RANKS_MOST || a->ranks > RANKS_MOST ||
	    a->gpus > RANKS_MOST || a->save_minutes > RANKS_MOST)
		return error_set(reterr, -EINVAL, "a number of more than %d is no job's",
				 RANKS_MOST);
	if (a->blocks_per_step == 0)
		return error_set(reterr, -EINVAL, "--blocks-per-step is 1 or more");
	return 0;
}

/* The names of all nodes, one each; NULL and detail if they are not as many as there are nodes. */
static int split_names(const char *list, char *copy, const char **names, uint32_t nodes,
		       struct error *reterr)
{
	uint32_t n = 0;
	char *save = NULL;

	strcpy(copy, list);
	for (char *w = strtok_r(copy, ", ", &save); w; w = strtok_r(NULL, ", ", &save)) {
		if (n < nodes)
			names[n] = w;
		n++;
	}
	if (n != nodes)
		return error_set(reterr, -EINVAL, "--names has %u names, and there are %u nodes", n,
				 nodes);
	return 0;
}

static int fill_meeting(const struct preflight_args *a, struct meet_plan *m, struct error *reterr)
{
	if (a->nodes > MEET_NODES_MOST || a->nodes == 0)
		return error_set(reterr, -EINVAL, "--nodes is from 1 to %u", MEET_NODES_MOST);
	if (a->nodes > 0 && a->node >= a->nodes)
		return error_set(reterr, -EINVAL, "--node %" PRId64 " of %" PRId64 " nodes",
				 a->node, a->nodes);
	if (a->job && (!*a->job || strlen(a->job) > MEET_NAME_MOST))
		return error_set(reterr, -EINVAL, "--job is a name of 1 to %u bytes",
				 MEET_NAME_MOST);
	m->nodes = a->nodes > 0 ? (uint32_t)a->nodes : 0;
	m->node = a->node > 0 ? (uint32_t)a->node : 0;
	m->folder = a->folder;
	m->address = a->address;
	m->secret_file = a->secret;
	m->job = a->job;
	m->name = a->name;
	m->limit_ms = a->wait > 0 ? (unsigned)MIN(a->wait, 86400) * 1000 : 120000;
	return 0;
}

/* Without a place to meet this machine is judged alone, whatever the launcher set. */
static int settle_meeting(const struct preflight_args *a, struct preflight_plan *p,
			  struct meet_plan *m, struct error *reterr)
{
	bool alone = !m->folder && !m->address;

	preflight_plan_environment(p, m);
	if (!m->nodes)
		m->nodes = 1;
	if (a->nodes > 1 && !m->folder && !m->address)
		return error_set(reterr, -EINVAL,
				 "%u nodes need a place to meet: --meet-folder DIR, or --meet "
				 "HOST:PORT with --secret-file FILE",
				 m->nodes);
	if (m->nodes > 1 && m->address && !m->folder && !m->secret_file)
		return error_set(reterr, -EINVAL,
				 "--meet needs --secret-file FILE: the secret that all nodes of "
				 "the job share");
	if (m->nodes > 1 && !alone && !m->job)
		return error_set(reterr, -EINVAL,
				 "nodes that meet need --job NAME, of this job and attempt");
	if (alone) {
		m->node = 0;
		m->nodes = 1;
		p->first_rank = a->first_rank;
	}
	return 0;
}

static void put(FILE *out, const json_t *verdict, bool json, bool brief)
{
	json_t *shown = json && brief ? preflight_brief(verdict) : NULL;

	if (json) {
		json_dumpf(shown ? shown : verdict, out, JSON_INDENT(1));
		fputc('\n', out);
	} else {
		preflight_print(out, verdict, brief);
	}
	json_decref(shown);
}

static bool put_report(const char *path, const json_t *verdict, bool json)
{
	FILE *f = fopen(path, "we");
	bool good = f != NULL;

	if (f) {
		put(f, verdict, json, false);
		good = !ferror(f);
		good &= fclose(f) == 0;
	}
	if (!good)
		complain("preflight: --report %s: %s", path, strerror(errno));
	return good;
}

/* A report that cannot be kept changes no verdict. */
static int answer(const struct preflight_args *a, json_t *verdict)
{
	int status = preflight_status(verdict);

	if (!a->report) {
		put(stdout, verdict, a->json, a->brief);
	} else {
		bool kept = put_report(a->report, verdict, a->json);

		put(stdout, verdict, false, true);
		if (kept)
			printf("the whole report: %s\n", a->report);
	}
	json_decref(verdict);
	if (fflush(stdout)) {
		complain("standard output: %s", strerror(errno));
		return EXIT_CANNOT_TELL;
	}
	return status;
}

static int gate(const struct preflight_args *a, char **strict)
{
	_cleanup_free_ char *copy = a->names ? xmalloc(strlen(a->names) + 1) : NULL;
	_cleanup_free_ const char **names = NULL;
	struct preflight_plan plan;
	struct meet_plan meet = { 0 };
	struct error error = { "" };
	json_t *verdict;
	int r;

	preflight_plan_init(&plan);
	r = fill_plan(a, &plan, strict, &error);
	if (r >= 0)
		r = fill_meeting(a, &meet, &error);
	if (r >= 0)
		r = settle_meeting(a, &plan, &meet, &error);
	if (r >= 0 && copy) {
		names = xcalloc(meet.nodes, sizeof(*names));
		r = split_names(a->names, copy, names, meet.nodes, &error);
		meet.names = names;
	}
	if (r < 0) {
		complain("preflight: %s", error.text);
		return EXIT_USAGE;
	}
	verdict = preflight_run(&plan, &meet, &error);
	if (!verdict) {
		complain("preflight: %s", error.text);
		return EXIT_CANNOT_TELL;
	}
	return answer(a, verdict);
}

/* Nothing of ours stays behind, and the signal ends us as it would have. */
static void ended(int number)
{
	preflight_tidy(); /* NOLINT(bugprone-signal-handler): it unlinks, which is allowed here */
	signal(number, SIG_DFL);
	raise(number);
}

/* What stands behind --blocks PATH, as a shell makes it of a pattern. */
static bool take_operands(struct option_texts *blocks, int argc, char **argv, int first)
{
	if (first < argc && !blocks->n)
		return false;
	for (int i = first; i < argc; i++) {
		blocks->v = xrealloc(blocks->v, (blocks->n + 1) * sizeof(*blocks->v));
		blocks->v[blocks->n++] = argv[i];
	}
	return true;
}

int preflight_main(int argc, char **argv)
{
	struct preflight_args args = { .blocks_per_step = -1,
				       .sequence_length = -1,
				       .world_size = -1,
				       .first_rank = -1,
				       .ranks = -1,
				       .gpus = -1,
				       .kept = -1,
				       .save_steps = -1,
				       .save_minutes = -1,
				       .save_seconds = -1,
				       .step_ms = -1,
				       .watchdog = -1,
				       .node = -1,
				       .nodes = -1,
				       .wait = -1,
				       .probe = -1 };
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
	char *strict = NULL;
	int operands, status = command_line(&preflight_spec, argc, argv, &args, &operands);

	if (status < 0 && !take_operands(&args.blocks, argc, argv, operands)) {
		complain("preflight: what is \"%.60s\"? Counts and shards are given by --blocks "
			 "PATH; see lockstep preflight --help",
			 argv[operands]);
		status = EXIT_USAGE;
	}
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (signal(ends[i], ended) == SIG_IGN) /* nohup */
			signal(ends[i], SIG_IGN);
	if (status < 0)
		status = gate(&args, &strict);
	free(strict);
	free(args.strict.v);
	free(args.limit.v);
	free(args.blocks.v);
	free(args.config.v);
	free(args.data.v);
	return status;
}
