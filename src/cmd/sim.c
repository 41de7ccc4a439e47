/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim.c - `lockstep sim`: a job of any size with known faults, as step records and the truth.
 *
 * What a fault costs is found out by running the same seed once more without it, beside the job and
 * step by step.
 */
#include "cmd/cmd.h"
#include "base/ranges.h"
#include "sim/sim.h"
#include "store/lks.h"

#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

struct sim_args {
	const char *layout, *out;
	int64_t steps, seed, micro_batches, interleave, layers, step_ms, gpus_per_node;
	struct option_texts faults, restarts;
	const char *as;
	struct option_ranks ranks;
	struct option_steps trace_steps;
	const char *dialect, *format, *without;
	int64_t ring, timeout, evaluate;
	bool all_reduce, list_faults, timing;
};

enum kind { AS_STEPS, AS_KINETO, AS_DUMPS, KINDS };
static const char *const kinds[KINDS] = { "steps", "kineto", "dumps" };

static const struct option_row sim_options[] = {
	{ "layout", 'l', OPTION_LAYOUT, offsetof(struct sim_args, layout), "SPEC",
	  "parallel layout, the fastest dimension first: \"tp=4 dp=4 pp=4 ep=2\"" },
	{ "steps", 's', OPTION_NUMBER, offsetof(struct sim_args, steps), "N",
	  "how many steps (default 20)" },
	{ "seed", 0, OPTION_NUMBER, offsetof(struct sim_args, seed), "N",
	  "the same seed gives the same bytes (default 1)" },
	{ "fault", 'f', OPTION_TEXTS, offsetof(struct sim_args, faults), "FAULT",
	  "what is wrong, once for each fault: \"compute-straggler ranks=8 factor=2 from=10\"" },
	{ "restart", 0, OPTION_TEXTS, offsetof(struct sim_args, restarts), "RESTART",
	  "the job fails and is started again: \"at=40 from=30 down=90\" (down: seconds)" },
	{ "out", 'o', OPTION_PATH, offsetof(struct sim_args, out), "DIR",
	  "write steps.lks and truth.json into this folder; - writes the records to a pipe" },
	{ "as", 0, OPTION_TEXT, offsetof(struct sim_args, as), "KIND",
	  "steps (default) for records, kineto for traces of some ranks, dumps for a hang" },
	{ "ranks", 'r', OPTION_RANKS, offsetof(struct sim_args, ranks), "LIST",
	  "which ranks to write traces (at most 256), dumps and stacks of: 0-7,9 (default all)" },
	{ "trace-steps", 0, OPTION_STEPS, offsetof(struct sim_args, trace_steps), "A-B",
	  "which steps to write traces of (default all)" },
	{ "evaluate", 0, OPTION_NUMBER, offsetof(struct sim_args, evaluate), "N",
	  "every N steps an evaluation comes first (default never)" },
	{ "dialect", 0, OPTION_TEXT, offsetof(struct sim_args, dialect), "NAME",
	  "whose dumps: nccl (default) or gloo" },
	{ "format", 0, OPTION_TEXT, offsetof(struct sim_args, format), "NAME",
	  "of dumps: pickle (default) or json" },
	{ "ring", 0, OPTION_NUMBER, offsetof(struct sim_args, ring), "N",
	  "entries that a dump holds, the latest (default 2000)" },
	{ "timing", 0, OPTION_FLAG, offsetof(struct sim_args, timing), NULL,
	  "dumps know what has started, as with TORCH_NCCL_ENABLE_TIMING" },
	{ "timeout", 0, OPTION_NUMBER, offsetof(struct sim_args, timeout), "SECONDS",
	  "after which watchdogs speak (default 600)" },
	{ "without", 0, OPTION_TEXT, offsetof(struct sim_args, without), "PARTS",
	  "leave out some of dumps,log,power,stacks,kernel" },
	{ "micro-batches", 0, OPTION_NUMBER, offsetof(struct sim_args, micro_batches), "N",
	  "micro-batches of a step (default twice the stages, at least 4)" },
	{ "interleave", 0, OPTION_NUMBER, offsetof(struct sim_args, interleave), "N",
	  "chunks of the model that each stage holds (default 1)" },
	{ "layers", 0, OPTION_NUMBER, offsetof(struct sim_args, layers), "N",
	  "layers of a chunk (default 1)" },
	{ "step-ms", 0, OPTION_NUMBER, offsetof(struct sim_args, step_ms), "MS",
	  "about how long a healthy step is (default 2000)" },
	{ "gpus-per-node", 0, OPTION_NUMBER, offsetof(struct sim_args, gpus_per_node), "N",
	  "how many GPUs a node has (default 8)" },
	{ "all-reduce", 0, OPTION_FLAG, offsetof(struct sim_args, all_reduce), NULL,
	  "gradients by all-reduce, not by reduce-scatter and all-gather" },
	{ "list-faults", 0, OPTION_FLAG, offsetof(struct sim_args, list_faults), NULL,
	  "explain each fault and its keys" },
	{ 0 },
};
const struct option_spec sim_spec = {
	.command = "sim",
	.operands = "--layout SPEC --out DIR",
	.purpose = "simulate a job of any size with known faults",
	.rows = sim_options,
	.more = "Every fault takes from=STEP and to=STEP as well.\n"
		"  lockstep sim --layout \"dp=32 pp=4\" --fault \"compute-straggler ranks=9\" "
		"--out - |\n"
		"  lockstep diagnose -\n",
};

static int list_faults(void)
{
	for (int k = 0; k < SIM_FAULT_KINDS; k++)
		printf("%-20s %s%s\n", sim_fault_infos[k].name, k >= SIM_UNEVEN ? "for ever: " : "",
		       sim_fault_infos[k].words);
	printf(
	    "\nAll take from= and to=, the first and the last step in which they act; of one that "
	    "is for ever\nthe job never goes on. run=N binds one to the N-th run of a job that is "
	    "started again (--restart),\nfrom 0.\n");
	return fflush(stdout) ? EXIT_CANNOT_TELL : EXIT_HEALTHY;
}

struct run_steps {
	uint32_t run;
	uint64_t first, last; /* numbers of steps */
};
/* A run beside the job's in which one of its faults is missing. */
struct twin {
	struct sim *sim;
	struct sim_faults faults; /* without the one; what they point to is the job's */
	double with, without;	  /* over the fault's window, ns */
	VEC(struct run_steps) windows;
};
/* What a restart costs. */
struct outage {
	uint64_t last, first; /* numbers of the steps before and after it */
	double down_ns, again_ns;
	uint32_t again; /* steps */
};
struct truth {
	struct twin *twins;
	VEC(struct outage) outages;
	VEC(double) walls;  /* of this run's steps */
	uint32_t run, from; /* from: its first step */
	uint64_t number;
	double end;
	uint64_t steps;
	double ns;
};

static void twin_window(struct twin *t, uint32_t run, uint64_t number)
{
	struct run_steps *w = t->windows.n ? &t->windows.v[t->windows.n - 1] : NULL;

	if (!w || w->run != run || w->last + 1 != number) {
		w = vec_push(&t->windows);
		*w = (struct run_steps){ run, number, number };
	}
	w->last = number;
}

/* Was the job started again before this step? What that cost. */
static void truth_step(const struct sim_options *options, struct truth *t, const struct sim *sim,
		       uint64_t number)
{
	double begin, end;

	sim_step_span(sim, &begin, &end);
	if (sim_run(sim) != t->run) {
		const struct sim_restart *r = &options->restarts.v[t->run];
		struct outage *o = vec_push(&t->outages);

		*o = (struct outage){ t->number, number, begin - t->end, 0, 0 };
		for (size_t i = (size_t)MAX(r->from - t->from, 0); i < t->walls.n; i++) {
			o->again_ns += t->walls.v[i];
			o->again++;
		}
		t->run = sim_run(sim);
		t->from = (uint32_t)r->from;
		t->walls.n = 0;
	}
	*vec_push(&t->walls) = sim_step_ns(sim);
	t->number = number;
	t->end = end;
	t->ns += sim_step_ns(sim);
	t->steps++;
}

static json_t *outages_json(const struct sim_options *options, const struct truth *t)
{
	json_t *list = json_array();

	for (size_t i = 0; i < t->outages.n; i++) {
		const struct outage *o = &t->outages.v[i];
		const struct sim_restart *r = &options->restarts.v[i];
		_cleanup_free_ char *late = ranges_format(r->late, r->n_late);
		json_t *one = json_pack("{s:I, s:I, s:I, s:I, s:f, s:f}", "at", (json_int_t)r->at,
					"last", (json_int_t)o->last, "first", (json_int_t)o->first,
					"steps_again", (json_int_t)o->again, "ms_again",
					o->again_ns / 1e6, "ms_down", o->down_ns / 1e6);

		if (r->n_late)
			json_object_set_new(one, "late", json_string(late));
		json_array_append_new(list, one);
	}
	return list;
}

static int twins_new(const struct sim_options *options, struct twin *twins, struct error *reterr)
{
	for (size_t i = 0; i < options->faults.n; i++) {
		struct sim_options other = *options;
		struct twin *t = &twins[i];

		if (sim_fault_hangs(&options->faults.v[i]))
			continue; /* it costs all that would have come */
		t->faults.v = xcalloc(options->faults.n, sizeof(*t->faults.v));
		for (size_t k = 0; k < options->faults.n; k++)
			if (k != i)
				t->faults.v[t->faults.n++] = options->faults.v[k];
		other.faults = t->faults;
		if (sim_new(&other, &t->sim, reterr) < 0)
			return -EINVAL;
	}
	return 0;
}

static void twins_step(const struct sim_options *options, struct twin *twins, uint64_t number,
		       double ns)
{
	for (size_t i = 0; i < options->faults.n; i++) {
		const struct sim_fault *f = &options->faults.v[i];
		uint64_t own;

		if (!twins[i].sim)
			continue;
		sim_next(twins[i].sim, &own);
		if (!sim_reaches(twins[i].sim, f))
			continue;
		twin_window(&twins[i], sim_run(twins[i].sim), number);
		twins[i].with += ns;
		twins[i].without += sim_step_ns(twins[i].sim);
	}
}

static void twins_done(const struct sim_options *options, struct twin *twins)
{
	for (size_t i = 0; i < options->faults.n; i++) {
		sim_free(twins[i].sim);
		free(twins[i].faults.v);
		free(twins[i].windows.v);
	}
	free(twins);
}

static void put_strength(const struct sim_fault *f, json_t *o)
{
	const char *details = sim_fault_infos[f->kind].details;
	bool factor = f->kind != SIM_HOST && f->kind != SIM_DATA && f->kind != SIM_SAVE;

	for (int i = 0; details && i < f->how; i++)
		details = strchr(details, '|') + 1;
	if (details)
		json_object_set_new(o, "detail", json_stringn(details, strcspn(details, "|")));
	if (f->drift > 0)
		json_object_set_new(o, "drift", json_real(100 * f->drift));
	else if (!sim_fault_hangs(f))
		json_object_set_new(o, factor ? "factor" : "ms",
				    json_real(factor ? f->factor : f->ms));
	if (f->kind == SIM_STAGE)
		json_object_set_new(o, "stage", json_integer(f->stage));
	if (f->every > 1 && !sim_fault_hangs(f)) {
		json_object_set_new(o, "every", json_integer(f->every));
		json_object_set_new(o, "last", json_integer(f->last));
	}
}

static json_t *fault_json(const struct sim_options *options, const struct sim_fault *f,
			  const struct twin *t)
{
	_cleanup_free_ char *ranks = ranges_format(f->ranks, f->n_ranks);
	bool hangs = sim_fault_hangs(f);
	json_t *o =
	    json_pack("{s:s, s:s, s:I}", "cause", cause_info(sim_fault_cause(f))->name, "ranks",
		      ranks, "from", (json_int_t)sim_fault_step(f, options->steps));

	if (!hangs)
		json_object_set_new(o, "to", json_integer(MIN(f->to, (int64_t)options->steps - 1)));
	put_strength(f, o);
	json_object_set_new(o, "hangs", json_boolean(hangs));
	for (size_t i = 0; i < t->windows.n && options->restarts.n; i++) {
		const struct run_steps *w = &t->windows.v[i];

		if (!i)
			json_object_set_new(o, "windows", json_array());
		json_array_append_new(json_object_get(o, "windows"),
				      json_pack("{s:I, s:I, s:I}", "run", (json_int_t)w->run,
						"first", (json_int_t)w->first, "last",
						(json_int_t)w->last));
	}
	json_object_set_new(o, "slowdown",
			    t->without > 0 ? json_real(t->with / t->without) : json_null());
	json_object_set_new(o, "ms_lost",
			    hangs ? json_null() : json_real((t->with - t->without) / 1e6));
	return o;
}

static int write_truth(const char *folder, const struct sim_args *args,
		       const struct sim_options *options, const struct truth *t,
		       const struct sim *sim)
{
	_cleanup_free_ char *path = xasprintf("%s/truth.json", folder);
	bool dumps = args->as && !strcmp(args->as, kinds[AS_DUMPS]);
	json_t *list = json_array(), *o;
	int r;

	for (size_t i = 0; i < options->faults.n; i++) {
		json_array_append_new(list,
				      fault_json(options, &options->faults.v[i], &t->twins[i]));
		if (dumps)
			json_object_set_new(json_array_get(list, i), "struck",
					    json_boolean(sim_struck(sim, i)));
	}
	o = json_pack("{s:s, s:I, s:I, s:I, s:o, s:o}", "layout", args->layout, "world_size",
		      (json_int_t)layout_world(&options->layout), "seed", (json_int_t)options->seed,
		      "steps", (json_int_t)options->steps, "step_ms",
		      t->steps ? json_real(t->ns / (double)t->steps / 1e6) : json_null(), "faults",
		      list);
	if (options->restarts.n)
		json_object_set_new(o, "restarts", outages_json(options, t));
	if (dumps)
		json_object_set_new(o, "verdict",
				    json_string(sim_crashed(sim) ? "crashed" : "hung"));
	r = json_dump_file(o, path, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
	json_decref(o);
	if (r < 0)
		complain("%s: %s", path, strerror(errno));
	return r;
}

/* What people have of a hang instead of records. */
static int evidence(const struct sim_args *args, struct sim *sim, struct error *reterr)
{
	struct sim_evidence_options o = {
		.folder = args->out,
		.ranks = args->ranks.v,
		.n_ranks = args->ranks.n,
		.gloo = args->dialect && !strcmp(args->dialect, "gloo"),
		.json = args->format && !strcmp(args->format, "json"),
		.timing = args->timing,
		.ring = (uint32_t)args->ring,
		.timeout_s = (double)args->timeout,
	};
	_cleanup_free_ char *copy = xstrdup(args->without ? args->without : "");
	char *at = copy, *word;

	if ((args->dialect && !o.gloo && strcmp(args->dialect, "nccl")) ||
	    (args->format && !o.json && strcmp(args->format, "pickle")))
		return error_set(reterr, -EINVAL,
				 "--dialect is nccl or gloo, --format pickle or json");
	while ((word = strsep(&at, ", "))) {
		int part = 0;

		while (part < SIM_PARTS && strcmp(word, sim_part_names[part]))
			part++;
		if (*word && part == SIM_PARTS)
			return error_set(reterr, -EINVAL,
					 "--without is some of dumps, log, power, stacks, kernel, "
					 "not \"%s\"",
					 word);
		o.without |= *word ? 1u << part : 0;
	}
	return sim_evidence(sim, &o, reterr);
}

/* Traces instead of records. */
static int trace(const struct sim_args *args, struct sim *sim, struct error *reterr)
{
	struct option_ranks all = args->ranks;
	int r;

	if (!all.n) {
		all.n = (size_t)sim_job(sim)->world_size;
		all.v = xmalloc(all.n * sizeof(*all.v));
		for (size_t i = 0; i < all.n; i++)
			all.v[i] = (int64_t)i;
	}
	r = sim_trace(sim, all.v, all.n, args->out, args->trace_steps.first, args->trace_steps.last,
		      reterr);
	if (all.v != args->ranks.v)
		free(all.v);
	return r;
}

static int simulate(const struct sim_args *args, const struct sim_options *options,
		    struct error *reterr)
{
	bool pipe = !strcmp(args->out, "-"),
	     traces = args->as && !strcmp(args->as, kinds[AS_KINETO]),
	     dumps = args->as && !strcmp(args->as, kinds[AS_DUMPS]);
	_cleanup_free_ char *path =
	    pipe ? xstrdup("/dev/stdout") : xasprintf("%s/steps.lks", args->out);
	struct truth truth = { .twins = xcalloc(options->faults.n + 1, sizeof(struct twin)) };
	struct lks_writer *writer = NULL;
	struct step *const *steps;
	struct sim *sim = NULL;
	uint64_t number;
	int r = sim_new(options, &sim, reterr), closed;

	if (r >= 0 && !pipe && mkdir(args->out, 0777) < 0 && errno != EEXIST)
		r = error_set(reterr, -errno, "%s: %s", args->out, strerror(errno));
	if (r >= 0 && !pipe)
		r = twins_new(options, truth.twins, reterr);
	if (r >= 0)
		r = traces  ? trace(args, sim, reterr)
		    : dumps ? evidence(args, sim, reterr)
			    : lks_create(path, sim_job(sim), &writer, reterr);
	while (r >= 0 && (steps = sim_next(sim, &number))) {
		r = writer ? lks_write_step(writer, number, steps, reterr) : 0;
		if (pipe)
			continue;
		truth_step(options, &truth, sim, number);
		twins_step(options, truth.twins, number, sim_step_ns(sim));
	}
	if (writer) {
		closed = lks_close(writer, r < 0 ? NULL : reterr);
		r = MIN(r, closed);
	}
	if (r >= 0 && traces)
		r = sim_trace_end(sim, reterr);
	if (r >= 0 && dumps)
		r = sim_evidence_write(sim, reterr);
	if (r >= 0 && !pipe)
		r = write_truth(args->out, args, options, &truth, sim);
	twins_done(options, truth.twins);
	free(truth.outages.v);
	free(truth.walls.v);
	sim_free(sim);
	return r;
}

static int options_of(const struct sim_args *args, struct sim_options *o, struct error *reterr)
{
	int r = layout_parse(args->layout, &o->layout, reterr);

	for (size_t i = 0; i < args->faults.n && r >= 0; i++)
		r = sim_fault_parse(&o->faults, args->faults.v[i], reterr);
	for (size_t i = 0; i < args->restarts.n && r >= 0; i++)
		r = sim_restart_parse(&o->restarts, args->restarts.v[i], reterr);
	if (r >= 0 && (args->steps < 1 || args->steps > 10000000 || args->micro_batches > 4096 ||
		       args->interleave > 64 || args->layers > 1024 || args->step_ms < 1 ||
		       args->step_ms > 10000000 || args->gpus_per_node < 1 ||
		       args->gpus_per_node > 1024 || args->evaluate > 1000000 || args->ring < 1 ||
		       args->ring > 1000000 || args->timeout < 1 || args->timeout > 1000000))
		r = error_set(reterr, -EINVAL,
			      "--steps is 1 to 10000000, --micro-batches up to 4096, --interleave "
			      "up to 64, --layers up to 1024, --step-ms 1 to 10000000, "
			      "--gpus-per-node 1 to 1024, --ring and --timeout 1 to 1000000");
	o->layout_text = args->layout;
	o->seed = (uint64_t)args->seed;
	o->steps = (uint32_t)args->steps;
	o->micro_batches = (uint32_t)args->micro_batches;
	o->chunks = (uint32_t)args->interleave;
	o->layers = (uint32_t)args->layers;
	o->evaluate = (uint32_t)args->evaluate;
	o->step_ms = (double)args->step_ms;
	o->gpus_per_node = (uint32_t)args->gpus_per_node;
	o->all_reduce = args->all_reduce;
	o->noise = 0.01;
	o->lengths = 0.03;
	o->routing = 0.04;
	return r;
}

static enum kind kind_of(const char *word)
{
	int k = 0;

	while (k < KINDS && strcmp(word, kinds[k]))
		k++;
	return (enum kind)k;
}

int sim_main(int argc, char **argv)
{
	struct sim_args args = { .steps = 20,
				 .seed = 1,
				 .interleave = 1,
				 .layers = 1,
				 .step_ms = 2000,
				 .gpus_per_node = 8,
				 .ring = 2000,
				 .timeout = 600,
				 .trace_steps = { -1, -1 } };
	struct sim_options options = { 0 };
	struct error error = { "" };
	int operands, status = command_line(&sim_spec, argc, argv, &args, &operands);

	if (status >= 0)
		goto out;
	status = EXIT_USAGE;
	if (args.list_faults) {
		status = list_faults();
	} else if (operands < argc) {
		complain("sim: \"%s\" is no option; see lockstep sim --help", argv[operands]);
	} else if (!args.layout || !args.out) {
		complain("sim: give --layout and --out; see lockstep sim --help");
	} else if (args.as && kind_of(args.as) == KINDS) {
		complain("sim: --as is steps, kineto or dumps, not \"%s\"", args.as);
	} else if (args.as && kind_of(args.as) != AS_STEPS && !strcmp(args.out, "-")) {
		complain("sim: traces and dumps are files: give a folder as --out");
	} else if (options_of(&args, &options, &error) < 0) {
		complain("sim: %s", error.text);
	} else {
		int r = simulate(&args, &options, &error);

		status = r == -EINVAL ? EXIT_USAGE : r < 0 ? EXIT_CANNOT_TELL : EXIT_HEALTHY;
		if (*error.text)
			complain("sim: %s", error.text);
	}
out:
	free(args.faults.v);
	free(args.ranks.v);
	free(args.restarts.v);
	sim_faults_done(&options.faults);
	sim_restarts_done(&options.restarts);
	return status;
}
