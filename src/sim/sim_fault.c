/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sim_fault.h"

#include "base/options.h"
#include "base/ranges.h"
#include "sim/sim_plan.h"

#include <math.h>

const struct sim_fault_info sim_fault_infos[SIM_FAULT_KINDS] = {
	[SIM_COMPUTE] = { "compute-straggler", CAUSE_COMPUTE_STRAGGLER,
			  "ranks compute slower: ranks=, factor=1.5 (or drift=, percent more each "
			  "step), phase=",
			  NULL },
	[SIM_THROTTLING] = { "throttling", CAUSE_THROTTLING,
			     "the same in waves: ranks=, factor=1.5, every=20, last=6 (steps)",
			     NULL },
	[SIM_LINK] = { "comm-link", CAUSE_COMM_LINK,
		       "transfers that leave a node are slower: ranks= (whole nodes, or a rank's "
		       "own "
		       "port) or rail=, factor=4; pair=1: only those between the ranks' nodes",
		       NULL },
	[SIM_HOST] = { "host-stall", CAUSE_HOST_STALL,
		       "the host launches nothing for a while: ranks=, ms=400 (or forever), "
		       "every=1, "
		       "detail=python|compile|gc|io",
		       NULL },
	[SIM_DATA] = { "data-starved", CAUSE_DATA_STARVED,
		       "the data loader is late: ranks=, ms=400 (or forever), every=1", NULL },
	[SIM_SAVE] = { "checkpoint", CAUSE_CHECKPOINT,
		       "a save holds the ranks up: ranks= (none: all; for ever: rank 0), ms=4000 "
		       "(or "
		       "forever), every=20",
		       NULL },
	[SIM_STAGE] = { "pipeline-imbalance", CAUSE_PIPELINE_IMBALANCE,
			"a stage has more work: stage=, factor=1.4", NULL },
	[SIM_WORKLOAD] = { "workload-imbalance", CAUSE_WORKLOAD_IMBALANCE,
			   "in each step some replicas have longer sequences: factor=1.5", NULL },
	[SIM_KERNEL] = { "kernel-regression", CAUSE_KERNEL_REGRESSION,
			 "one kernel is slower on all ranks: phase=mlp, factor=1.3", NULL },
	[SIM_UNEVEN] = { "uneven-steps", CAUSE_UNEVEN_STEPS,
			 "ranks leave their loop early, for a barrier, an evaluation or at all: "
			 "ranks=, fewer=1 (steps), detail=barrier|evaluation|exit",
			 "barrier|evaluation|exit" },
	[SIM_DESYNC] = { "collective-desync", CAUSE_COLLECTIVE_DESYNC,
			 "ranks call another size or operation, or leave one out: ranks=, from=, "
			 "group=dp|tp|cp|ep|mp|pp, detail=size|operation|skip",
			 "size|operation|skip" },
	[SIM_INVERSION] = { "order-inversion", CAUSE_COLLECTIVE_DESYNC,
			    "ranks call the operations of two groups in the other order: ranks=, "
			    "from=",
			    NULL },
	[SIM_DEAD] = { "dead-rank", CAUSE_DEAD_RANK,
		       "the process is gone: ranks=, from=, "
		       "detail=killed|exception|out-of-memory, "
		       "launcher=1 (it ends the others of the node)",
		       "killed|exception|out-of-memory" },
	[SIM_MISSING] = { "missing-rank", CAUSE_MISSING_RANK,
			  "the process lives and never comes: ranks=, from=, detail=alive|silent "
			  "(alive: it dumps when it is told to)",
			  "alive|silent" },
	[SIM_STUCK] = { "collective-stuck", CAUSE_COLLECTIVE_STUCK,
			"all have come to a collective and nothing moves: ranks= (of whose group; "
			"none: rank 0), from=, group=dp|tp|cp|ep|mp",
			NULL },
	[SIM_GPU_ERROR] = { "gpu-error", CAUSE_GPU_ERROR,
			    "the GPU fails, the driver and the process say so: ranks=, from=, "
			    "launcher=1",
			    NULL },
	[SIM_NETWORK_ERROR] = { "network-error", CAUSE_NETWORK_ERROR,
				"a port fails in a transfer, NCCL says so: ranks=, from=, "
				"group=dp|tp|cp|ep|mp",
				NULL },
	[SIM_PREEMPTED] = { "preempted", CAUSE_PREEMPTED,
			    "the scheduler ends the job: from=", NULL },
	[SIM_RENDEZVOUS] = { "rendezvous", CAUSE_RENDEZVOUS,
			     "ranks do not come together at the start: ranks=, "
			     "detail=never|socket|waits (never: they do not come, and the store "
			     "times out; socket: they cannot reach it; waits: it has not yet timed "
			     "out)",
			     "never|socket|waits" },
	[SIM_CONFIGURATION] = { "configuration", CAUSE_CONFIGURATION,
				"ranks are started with settings that cannot work: ranks=, "
				"detail=device|port|world-size (a GPU that is not there; rank 0's "
				"port is in use; they count another number of ranks)",
				"device|port|world-size" },
};

static const struct sim_fault defaults[SIM_FAULT_KINDS] = {
	[SIM_COMPUTE] = { .factor = 1.5 },
	[SIM_THROTTLING] = { .factor = 1.5, .every = 20, .last = 6 },
	[SIM_LINK] = { .factor = 4 },
	[SIM_HOST] = { .ms = 400, .detail = HOST_PYTHON },
	[SIM_DATA] = { .ms = 400 },
	[SIM_SAVE] = { .ms = 4000, .every = 20 },
	[SIM_STAGE] = { .factor = 1.4 },
	[SIM_WORKLOAD] = { .factor = 1.5 },
	[SIM_KERNEL] = { .factor = 1.3, .phase = SIM_MLP },
	[SIM_UNEVEN] = { .fewer = 1 },
};

static int kind_of(const char *word, struct error *reterr)
{
	const char *names[SIM_FAULT_KINDS], *near;

	for (int k = 0; k < SIM_FAULT_KINDS; k++) {
		names[k] = sim_fault_infos[k].name;
		if (!strcmp(word, names[k]))
			return k;
	}
	near = options_nearest(word, names, SIM_FAULT_KINDS);
	return error_set(reterr, -EINVAL,
			 "\"%s\" is no fault that can be simulated%s%s; see --list-faults", word,
			 near ? ", did you mean " : "", near ? near : "");
}

static int word_of(const char *value, const char *const *words, int n)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(value, words[i]))
			return i;
	return -1;
}

static int detail_of(const char *value)
{
	for (int d = 0; d < HOST_DETAILS; d++)
		if (!strcmp(value, host_detail_name((enum host_detail)d)))
			return d;
	return -1;
}

bool sim_number_in(const char *value, double low, double high, double *ret)
{
	char *end;

	*ret = strtod(value, &end);
	return *value && !*end && *ret >= low && *ret <= high;
}

bool sim_whole_in(const char *value, int64_t low, int64_t high, int64_t *ret)
{
	double v;

	if (!sim_number_in(value, (double)low, (double)high, &v) || v != (double)(int64_t)v)
		return false;
	*ret = (int64_t)v;
	return true;
}

/* Which of "a|b|c" it is; -1. */
static int choice_of(const char *value, const char *choices)
{
	size_t n = strlen(value);

	for (int i = 0; choices && n; i++) {
		const char *end = strchrnul(choices, '|');

		if ((size_t)(end - choices) == n && !strncmp(choices, value, n))
			return i;
		choices = *end ? end + 1 : NULL;
	}
	return -1;
}

static bool take_detail(struct sim_fault *f, const char *value)
{
	const char *choices = sim_fault_infos[f->kind].details;
	int d = choices ? choice_of(value, choices) : detail_of(value);

	if (choices)
		f->how = d;
	else
		f->detail = (enum host_detail)MAX(d, 0);
	return d >= 0;
}

static bool take(struct sim_fault *f, const char *key, const char *value)
{
	int64_t v;

	if (!strcmp(key, "ranks")) {
		free(f->ranks); /* the last one given counts */
		f->ranks = NULL;
		f->n_ranks = 0;
		return ranges_parse(value, &f->ranks, &f->n_ranks, NULL) >= 0;
	}
	if (!strcmp(key, "phase"))
		return (f->phase = word_of(value, sim_phase_names, SIM_PHASE_WORDS)) >= 0;
	if (!strcmp(key, "detail"))
		return take_detail(f, value);
	if (!strcmp(key, "group"))
		return (f->group = word_of(value, sim_group_names, SIM_GROUPS)) >= 0;
	if (!strcmp(key, "factor"))
		return sim_number_in(value, 0.01, 10000, &f->factor);
	if (!strcmp(key, "drift")) {
		bool good = sim_number_in(value, 0.001, 100, &f->drift);

		f->drift /= 100;
		return good;
	}
	if (!strcmp(key, "ms") && !strcmp(value, "forever") &&
	    (f->kind == SIM_HOST || f->kind == SIM_DATA || f->kind == SIM_SAVE)) {
		f->ms = INFINITY;
		return true;
	}
	if (!strcmp(key, "ms"))
		return sim_number_in(value, 0, 1e9, &f->ms);
	if (!sim_whole_in(value, 0, INT32_MAX, &v))
		return false;
	if (!strcmp(key, "from"))
		f->from = v;
	else if (!strcmp(key, "to"))
		f->to = v;
	else if (!strcmp(key, "every") && v > 0)
		f->every = v;
	else if (!strcmp(key, "last") && v > 0)
		f->last = v;
	else if (!strcmp(key, "stage"))
		f->stage = (int)v;
	else if (!strcmp(key, "rail"))
		f->rail = (int)v;
	else if (!strcmp(key, "fewer") && v > 0)
		f->fewer = v;
	else if (!strcmp(key, "pair"))
		f->pair = v != 0;
	else if (!strcmp(key, "launcher"))
		f->launcher = v != 0;
	else if (!strcmp(key, "run"))
		f->run = v;
	else
		return false;
	return true;
}

int sim_fault_parse(struct sim_faults *faults, const char *text, struct error *reterr)
{
	_cleanup_free_ char *copy = xstrdup(text);
	char *at = copy, *word = strsep(&at, " ");
	int kind = kind_of(word, reterr);
	struct sim_fault f;

	if (kind < 0)
		return kind;
	f = defaults[kind];
	f.kind = (enum sim_fault_kind)kind;
	f.phase = kind == SIM_KERNEL ? SIM_MLP : -1;
	f.stage = f.rail = f.group = -1;
	f.run = -1;
	f.to = INT64_MAX;
	f.every = MAX(f.every, 1);
	f.last = MAX(f.last, 1);
	while ((word = strsep(&at, " "))) {
		char *value = strchr(word, '=');

		if (!*word)
			continue;
		if (value)
			*value++ = 0;
		if (!value || !take(&f, word, value)) {
			free(f.ranks);
			return error_set(
			    reterr, -EINVAL, "%s: \"%s%s%s\" is not understood; see --list-faults",
			    sim_fault_infos[kind].name, word, value ? "=" : "", value ? value : "");
		}
	}
	faults->v = xrealloc(faults->v, (faults->n + 1) * sizeof(*faults->v));
	faults->v[faults->n++] = f;
	return 0;
}

void sim_faults_done(struct sim_faults *faults)
{
	for (size_t i = 0; i < faults->n; i++) {
		free(faults->v[i].ranks);
		free(faults->v[i].has);
	}
	free(faults->v);
	*faults = (struct sim_faults){ 0 };
}

double sim_fault_factor(const struct sim_fault *f, int64_t step)
{
	return f->drift > 0 ? 1 + f->drift * (double)(step - MAX(f->from, 0) + 1) : f->factor;
}

bool sim_fault_reaches(const struct sim_fault *f, int64_t latest, uint32_t run)
{
	return latest >= f->from && latest <= f->to && (f->run < 0 || f->run == run);
}

bool sim_fault_on(const struct sim_fault *f, int64_t step, int64_t latest, uint32_t run)
{
	int64_t since = (step - f->from) % f->every;

	return sim_fault_reaches(f, latest, run) &&
	       (since < 0 ? since + f->every : since) < f->last;
}

bool sim_fault_hangs(const struct sim_fault *f)
{
	return f->kind >= SIM_UNEVEN || isinf(f->ms);
}

bool sim_fault_starts(const struct sim_fault *f)
{
	return f->kind == SIM_RENDEZVOUS || f->kind == SIM_CONFIGURATION;
}

enum cause sim_fault_cause(const struct sim_fault *f)
{
	static const enum cause deaths[] = {
		[SIM_KILLED] = CAUSE_DEAD_RANK,
		[SIM_EXCEPTION] = CAUSE_EXCEPTION,
		[SIM_OUT_OF_MEMORY] = CAUSE_OUT_OF_MEMORY,
	};

	return f->kind == SIM_DEAD ? deaths[f->how] : sim_fault_infos[f->kind].cause;
}

int64_t sim_fault_step(const struct sim_fault *f, uint32_t steps)
{
	return f->kind == SIM_UNEVEN ? (int64_t)steps - f->fewer : f->from;
}
