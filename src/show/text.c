/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.c - the report for people who were woken up by it.
 *
 * The first three lines are the answer: who and where, what it costs, why. All else is there for
 * those who doubt it, in this order: where the ranks of a job that stands are, evidence, what it is
 * not, what to do, what is missing, what was read.
 */
#include "show/coverage.h"
#include "show/text_inside.h"

#include <math.h>

#define LISTED_INPUTS	  8 /* more are counted */
#define PLACES_SHOWN	  3
#define PROPAGATION_SHOWN 0.02 /* of the largest: less is in the JSON only */
#define NAME_COLUMNS	  24   /* of a host, phase or set of ranks in the first line */

static void add_name(struct line *l, const char *before, const char *name)
{
	line_name(l, before, name, NAME_COLUMNS);
}

static void add_place(struct line *l, const struct text *t, const struct finding *f)
{
	const char *host = NULL;
	size_t hosts = f->hosts.n;
	int32_t gpu = -1;

	if (f->culprits.n == 1)
		gpu = job_place(t->job, f->culprits.v[0], finding_run(f)).gpu_index;
	if (hosts)
		host = f->hosts.v[0];
	else if (f->culprits.n)
		host = coverage_host(t->job, f->culprits.v[0]);
	for (size_t i = 1; host && !hosts && i < f->culprits.n; i++)
		if (t->job->ranks[f->culprits.v[i]].host != t->job->ranks[f->culprits.v[0]].host)
			host = NULL;
	if (!host && gpu < 0)
		return;
	line_add(l, " (");
	if (host)
		add_name(l, "host ", host);
	if (hosts > 1)
		line_add(l, " and %zu more", hosts - 1);
	if (gpu >= 0)
		line_add(l, "%sGPU %d", host ? ", " : "", (int)gpu);
	line_add(l, ")");
}

/* "since step 12", "in steps 5-6,9", "in every step given" */
static void add_since(struct line *l, const struct text *t, const struct finding *f)
{
	const struct window *w = f->windows.v, *end = w + f->windows.n;
	bool one = true; /* but for restarts of the job */

	if (!f->windows.n || w[0].first_step < 0)
		return;
	for (size_t i = 1; i < f->windows.n; i++)
		one &= w[i].goes_on;
	if (one && end[-1].last_step == t->job->last_step &&
	    (w->first_step < w->last_step || f->windows.n > 1)) {
		if (w->first_step == t->job->first_step)
			line_add(l, ", in every step given");
		else
			line_add(l, ", since step %" PRId64, w->first_step);
		return;
	}
	line_add(l, ", in %s ",
		 f->windows.n == 1 && w->first_step == w->last_step ? "step" : "steps");
	for (size_t i = 0; i < f->windows.n; i++) {
		if (i == 4) {
			line_add(l, " and %zu more stretches", f->windows.n - i);
			break;
		}
		line_add(l, "%s%" PRId64, i ? "," : "", w[i].first_step);
		if (w[i].last_step > w[i].first_step)
			line_add(l, "-%" PRId64, w[i].last_step);
	}
}

/* Lanes that stand for several ranks are named by their places. */
static void add_places(struct line *l, const struct finding *f)
{
	line_add(l, "the %s at ", plural(f->coords.n, "worker", "workers"));
	for (size_t i = 0; i < MIN(f->coords.n, (size_t)PLACES_SHOWN); i++)
		line_add(l, "%s%s", i ? ", " : "", f->coords.v[i]);
	if (f->coords.n > PLACES_SHOWN)
		line_add(l, " and %zu more", f->coords.n - PLACES_SHOWN);
}

static void finding_who(const struct text *t, const struct finding *f, const char *lead,
			enum page_style style)
{
	struct line l = { 0 };
	char name[32];

	if (f->culprits.n && job_is_folded(t->job, f->culprits.v[0])) {
		add_places(&l, f);
	} else if (f->culprits.n) {
		line_ranks(&l, t->job, f->culprits.v, f->culprits.n);
		add_place(&l, t, f);
	} else if (f->stages.n) {
		line_add(&l, "%s ", plural(f->stages.n, "pipeline stage", "pipeline stages"));
		for (size_t i = 0; i < f->stages.n; i++)
			line_add(&l, "%s%" PRId64, i ? "," : "", f->stages.v[i]);
	} else if (f->hosts.n) {
		line_add(&l, "%s ", plural(f->hosts.n, "host", "hosts"));
		for (size_t i = 0; i < f->hosts.n && i < 8; i++)
			line_add(&l, "%s%s", i ? ", " : "", f->hosts.v[i]);
	} else if (f->groups.n) {
		line_add(&l, "%s ", plural(f->groups.n, "group", "groups"));
		for (size_t i = 0; i < f->groups.n && i < 8; i++)
			line_add(&l, "%s%s", i ? ", " : "", f->groups.v[i]);
	} else if (t->job->n_ranks == 1) {
		line_add(&l, "%s", job_rank_name(t->job, 0, name));
	} else {
		line_add(&l, f->cause == CAUSE_WORKLOAD_IMBALANCE ? "no single rank" : "all ranks");
	}
	if (f->victims && *f->victims && f->culprits.n) {
		line_add(&l, f->culprits.n == 1 ? " makes" : " make");
		if (job_is_folded(t->job, f->culprits.v[0]))
			line_add(&l, " the others");
		else
			add_name(&l, strpbrk(f->victims, ",-") ? " ranks " : " rank ", f->victims);
		line_add(&l, " wait");
		add_name(&l, " in ", f->where_collective);
	} else {
		add_name(&l, ", in ", f->where_collective);
	}
	add_name(&l, ", phase ", f->where_phase);
	add_since(&l, t, f);
	page_text(&t->page, style, lead, 6, line_end(&l));
	line_done(&l);
}

static bool one_step(const struct finding *f)
{
	return f->windows.n == 1 && f->windows.v[0].first_step == f->windows.v[0].last_step;
}

/* Only traces and step records have kernels and steps. */
static bool is_steps(const struct report_input *in)
{
	return !in->format || !strcmp(in->format, "kineto") || !strcmp(in->format, "lks");
}

static bool has_steps(const struct report *r)
{
	for (size_t i = 0; i < r->inputs.n; i++)
		if (is_steps(&r->inputs.v[i]))
			return true;
	return !r->inputs.n;
}

static void finding_cost(const struct text *t, const struct finding *f)
{
	const char *whose = t->job->cpu_job ? "rank" : "GPU";
	bool seconds = f->lost_gpu_hours < 0.1;
	struct line l = { 0 };
	char n[32];

	if (isfinite(f->step_ms_lost))
		line_add(&l, "%s ms of %s", page_number(f->step_ms_lost, n),
			 one_step(f) ? "that step" : "each step");
	if (isfinite(f->slowdown))
		line_add(&l, l.b.len ? " (%.2fx)" : "steps take %.2fx as long", f->slowdown);
	if (isfinite(f->lost_gpu_hours) && f->lost_gpu_hours > 0)
		line_add(&l, "%s%s %s %s in %s", l.b.len ? "; " : "",
			 page_number(f->lost_gpu_hours * (seconds ? 3600 : 1), n), whose,
			 seconds ? "seconds" : "hours",
			 has_steps(t->r) ? "these traces" : "what was given");
	if (isfinite(f->gpu_hours_per_day) && f->gpu_hours_per_day > 0)
		line_add(&l, "%s%s %s hours a day", l.b.len ? ", " : "",
			 page_number(f->gpu_hours_per_day, n), whose);
	if (!l.b.len)
		line_add(&l, "not known from what was given");
	page_text(&t->page, PAGE_HEAD, "Cost: ", 6, line_end(&l));
	line_done(&l);
}

static void finding_cause(const struct text *t, const struct finding *f)
{
	struct line l = { 0 };

	line_add(&l, "%s", cause_info(f->cause)->name);
	if (f->cause_detail)
		line_add(&l, " (%s)", f->cause_detail);
	if (isfinite(f->confidence))
		line_add(&l, ", %.0f %% sure", f->confidence * 100);
	if (f->summary && *f->summary)
		line_add(&l, ": %s", f->summary);
	page_text(&t->page, PAGE_HEAD, "Cause: ", 7, line_end(&l));
	line_done(&l);
}

static void evidence_line(const struct text *t, const struct evidence *e)
{
	struct line l = { 0 };
	char n[32];
	const char *unit = e->unit && strcmp(e->unit, "count") ? e->unit : "";
	const char *space = *unit && strcmp(unit, "x") && strcmp(unit, "%") ? " " : "";

	line_add(&l, "%s", e->text);
	if (isfinite(e->value))
		line_add(&l, ": %s%s%s", page_number(e->value, n), space, unit);
	if (isfinite(e->expected))
		line_add(&l, ", expected %s%s%s", page_number(e->expected, n), space, unit);
	page_text(&t->page, PAGE_PLAIN, "  - ", 4, line_end(&l));
	line_done(&l);
}

static bool is_command(const char *next)
{
	static const char *const programs[] = {
		"lockstep",  "ssh",	   "nvidia-smi", "rocm-smi", "dcgmi", "ibstat",
		"ibdiagnet", "perfquery",  "py-spy",	 "perf",     "dmesg", "top",
		"iostat",    "journalctl", "numactl",	 "sudo",     "cat",   "grep",
		"srun",	     "scontrol",   "sacct",	 "kubectl",  "curl",  "ncclras",
		"gdb",	     "kill",	   "ls",	 "for",	     "pdsh",  "echo",
	};
	size_t len = strcspn(next, " ;");

	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		if (len == strlen(programs[i]) && !strncmp(next, programs[i], len))
			return true;
	return false;
}

/* Commands are printed to be copied, with the user's own paths where judge could only say PATH;
   advice is wrapped like all else. */
void text_next(const struct text *t, const char *next)
{
	const char *path = strstr(next, " PATH");
	struct line l = { 0 };

	if (!is_command(next)) {
		page_text(&t->page, PAGE_PLAIN, "  ", 2, next);
		return;
	}
	if (path && t->options->given)
		line_add(&l, "%.*s %s%s", (int)(path - next), next, t->options->given, path + 5);
	else
		line_add(&l, "%s", next);
	page_command(&t->page, 2, line_end(&l));
	line_done(&l);
}

static void finding_reasons(const struct text *t, const struct finding *f)
{
	double most = 0;

	if (f->where_kernel)
		page_text(&t->page, PAGE_HEAD, "Kernel: ", 8, f->where_kernel);
	if (f->evidence.n)
		page_head(&t->page, "Evidence");
	for (size_t i = 0; i < f->evidence.n; i++)
		evidence_line(t, &f->evidence.v[i]);
	for (size_t i = 0; i < f->propagation.n; i++)
		most = f->propagation.v[i].origin ? most : fmax(most, f->propagation.v[i].ms);
	for (size_t i = 0; i < f->propagation.n; i++) {
		const struct propagation *p = &f->propagation.v[i];
		const char *who = p->victims ? p->victims : "";
		bool many = strpbrk(who, ",-") && strncmp(who, "unknown", 7);
		struct line l = { 0 };
		char n[32];

		if (p->origin || p->ms < PROPAGATION_SHOWN * most)
			continue;
		line_add(&l, "%s %s %s %s ms a step", many ? "ranks" : "rank", who,
			 many ? "wait" : "waits", page_number(p->ms, n));
		line_add(&l, " in %s (calls summed, mean of the steps concerned)", p->at);
		page_text(&t->page, PAGE_PLAIN, "  - ", 4, line_end(&l));
		line_done(&l);
	}
	if (f->excluded.n)
		page_head(&t->page, "What it is not");
	for (size_t i = 0; i < f->excluded.n; i++) {
		struct line l = { 0 };

		line_add(&l, "%s: %s", cause_info(f->excluded.v[i].cause)->name,
			 f->excluded.v[i].why);
		page_text(&t->page, PAGE_PLAIN, "  - ", 4, line_end(&l));
		line_done(&l);
	}
	if (f->next.n)
		page_head(&t->page, "Next");
	for (size_t i = 0; i < f->next.n; i++)
		text_next(t, f->next.v[i]);
}

static void show_finding(const struct text *t, const struct finding *f, bool first)
{
	static const enum page_style styles[] = {
		[SEVERITY_FAULT] = PAGE_BAD,
		[SEVERITY_RISK] = PAGE_DOUBT,
		[SEVERITY_NOTE] = PAGE_HEAD,
	};
	const char *lead = f->severity == SEVERITY_RISK		   ? "RISK: "
			   : t->r->verdict == VERDICT_INSUFFICIENT ? "CANNOT TELL: "
								   : "SLOW: ";

	if (!first)
		fputc('\n', t->page.out);
	if (text_is_stopped(f)) {
		text_stopped(t, f, styles[f->severity]);
		if (first)
			text_scene(t);
	} else {
		finding_who(t, f, lead, styles[f->severity]);
		finding_cost(t, f);
		finding_cause(t, f);
	}
	finding_reasons(t, f);
}

static void show_notes(const struct text *t)
{
	bool head = false;

	for (size_t i = 0; i < t->r->findings.n; i++) {
		const struct finding *f = &t->r->findings.v[i];
		struct line l = { 0 };

		if (f->severity != SEVERITY_NOTE)
			continue;
		if (!head)
			page_head(&t->page, "Worth knowing, not worth waking up for");
		head = true;
		line_add(&l, "%s: %s", cause_info(f->cause)->name, f->summary ? f->summary : "");
		if (f->slowdown > 1.001 && f->culprits.n)
			line_add(&l, "; costs %.1f %% there", 100 * (f->slowdown - 1));
		page_text(&t->page, PAGE_PLAIN, "  - ", 4, line_end(&l));
		line_done(&l);
	}
}

static void add_totals(struct line *l, const struct text *t, size_t n_seen)
{
	const struct report *r = t->r;
	uint64_t kernels = 0, collectives = 0;
	char n[32];

	for (uint32_t row = 0; row < t->job->n_ranks; row++) {
		kernels += t->job->ranks[row].kernels;
		collectives += t->job->ranks[row].collectives;
	}
	line_add(l, "%s", page_count(n_seen, n));
	if (t->job->world_size > 0)
		line_add(l, " of %s %s", page_count((uint64_t)t->job->world_size, n),
			 plural((uint64_t)t->job->world_size, "rank", "ranks"));
	else
		line_add(l, " %s", plural(n_seen, "rank", "ranks"));
	if (t->job->first_step >= 0 && t->job->first_step == t->job->last_step)
		line_add(l, ", step %" PRId64, t->job->first_step);
	else if (t->job->first_step >= 0)
		line_add(l, ", steps %" PRId64 "-%" PRId64, t->job->first_step, t->job->last_step);
	if (!t->job->cpu_job && has_steps(r))
		line_add(l, ", %s %s", page_count(kernels, n),
			 plural(kernels, "kernel", "kernels"));
	if (has_steps(r))
		line_add(l, ", %s %s", page_count(collectives, n),
			 plural(collectives, "collective", "collectives"));
	if (isfinite(r->step_ms_median))
		line_add(l, "; a step: %s ms", page_number(r->step_ms_median, n));
	if (isfinite(r->step_ms_p99))
		line_add(l, " (p99 %s)", page_number(r->step_ms_p99, n));
}

/* The answer where no fault and no risk was found. */
static void show_nothing(const struct text *t, const struct coverage *c)
{
	const struct report *r = t->r;
	struct line l = { 0 };

	if (r->verdict == VERDICT_INSUFFICIENT) {
		page_text(&t->page, PAGE_DOUBT, "CANNOT TELL: ", 6,
			  r->headline ? r->headline : "what was given does not suffice");
	} else {
		page_text(&t->page, PAGE_GOOD, "HEALTHY: ", 6,
			  r->headline ? r->headline : "nothing wrong in what was given");
	}
	if (t->job->n_ranks) {
		add_totals(&l, t, c->n_seen);
		page_text(&t->page, PAGE_HEAD, "Looked at: ", 6, line_end(&l));
	}
	if (c->n_missing)
		page_text(&t->page, PAGE_HEAD,
			  c->n_missing == 1 ? "Not given: rank " : "Not given: ranks ", 6,
			  c->missing);
	line_done(&l);
}

static const char *const skip_words[SKIP_REASONS] = {
	[SKIP_TRUNCATED] = "cut off at its end",
	[SKIP_MALFORMED] = "events that could not be parsed",
	[SKIP_BAD_TIME] = "events without a usable time",
	[SKIP_BAD_DURATION] = "impossible durations, clipped",
	[SKIP_BAD_NUMBER] = "numbers out of range",
	[SKIP_BAD_TEXT] = "names with stray bytes, kept",
	[SKIP_TOO_DEEP] = "values nested too deep",
	[SKIP_TOO_LONG] = "names too long, cut",
	[SKIP_UNPAIRED] = "collectives that contradict each other",
	[SKIP_NO_STEP] = "events outside every step",
	[SKIP_LATE] = "steps that came too late",
};

static void add_skips(struct line *l, const struct report_input *in)
{
	const char *before = "; ";
	char n[32];

	for (enum skip_reason i = 0; i < SKIP_REASONS; i++) {
		if (!in->skipped[i])
			continue;
		if (i == SKIP_TRUNCATED)
			line_add(l, "; %s", skip_words[i]);
		else
			line_add(l, "%s%s: %s", before, skip_words[i],
				 page_count(in->skipped[i], n));
		before = i == SKIP_TRUNCATED ? before : ", ";
	}
}

static bool has_skips(const struct report_input *in)
{
	for (int i = 0; i < SKIP_REASONS; i++)
		if (in->skipped[i])
			return true;
	return false;
}

/* How much of all inputs' paths is one folder or archive; 0 if there is but one input. */
static size_t common_folder(const struct report *r)
{
	const char *first = r->inputs.n > 1 ? r->inputs.v[0].path : "";
	size_t same = strlen(first);

	for (size_t i = 1; i < r->inputs.n; i++) {
		size_t k = 0;

		while (k < same && first[k] == r->inputs.v[i].path[k])
			k++;
		same = k;
	}
	while (same && first[same - 1] != '/' && first[same - 1] != ':')
		same--;
	return same;
}

static void show_input(const struct text *t, const struct report_input *in, size_t folder)
{
	_cleanup_free_ char *path = page_name(in->path + folder, 60);
	struct line l = { 0 };
	char n[32];

	line_add(&l, "%s: ", path);
	if (!is_steps(in))
		line_add(&l, "%s, ", in->format);
	if (in->rows.n)
		line_ranks(&l, t->job, in->rows.v, in->rows.n);
	else if (in->rank >= 0)
		line_add(&l, "rank %" PRId64, in->rank);
	else if (is_steps(in))
		line_add(&l, "no rank");
	if (in->rows.n || in->rank >= 0 || is_steps(in))
		line_add(&l, ", ");
	if (is_steps(in))
		line_add(&l, "%s %s, ", page_count(in->steps, n),
			 plural(in->steps, "step", "steps"));
	line_add(&l, "%s %s", page_count(in->events, n), show_unit(in->format, in->events == 1));
	add_skips(&l, in);
	page_text(&t->page, PAGE_PLAIN, "  ", 6, line_end(&l));
	line_done(&l);
}

static void show_folder(const struct text *t, const char *path, size_t len)
{
	_cleanup_free_ char *folder = xasprintf("%.*s", (int)len, path);
	_cleanup_free_ char *shown = page_name(folder, PAGE_COLUMNS - 8);

	page_text(&t->page, PAGE_PLAIN, "  in ", 5, shown);
}

/* "8 flight-recorder, 1 log" of those that were not listed. */
static void add_formats(struct line *l, const struct report *r)
{
	struct {
		const char *format;
		size_t n;
	} v[16];
	size_t n = 0;
	char text[32];

	for (size_t i = 0; i < r->inputs.n; i++) {
		const char *format = r->inputs.v[i].format ? r->inputs.v[i].format : "other";
		size_t at = 0;

		while (at < n && strcmp(v[at].format, format))
			at++;
		if (at == ARRAY_SIZE(v))
			continue;
		if (at == n) {
			v[n].format = format;
			v[n++].n = 0;
		}
		v[at].n++;
	}
	for (size_t i = 0; n > 1 && i < n; i++)
		line_add(l, "%s%s %s", i ? ", " : " (", page_count(v[i].n, text), v[i].format);
	if (n > 1)
		line_add(l, ")");
}

/* Few inputs are listed; of many, those with a loss. totals: they were not said above. */
static void show_read(const struct text *t, const struct coverage *c, bool totals)
{
	const struct report *r = t->r;
	struct line l = { 0 };
	uint64_t bytes = 0;
	size_t shown = 0, folder = common_folder(r);
	char n[32];

	for (size_t i = 0; i < r->inputs.n; i++)
		bytes += r->inputs.v[i].bytes;
	page_head(&t->page, "Read");
	if (totals && t->job->n_ranks) {
		add_totals(&l, t, c->n_seen);
		page_text(&t->page, PAGE_PLAIN, "  ", 4, line_end(&l));
		line_done(&l);
	}
	if (totals && c->n_missing) {
		line_add(&l, "%s %s", plural(c->n_missing, "rank", "ranks"), c->missing);
		page_text(&t->page, PAGE_PLAIN, "  Not given: ", 4, line_end(&l));
		line_done(&l);
	} else if (!c->missing && t->job->n_ranks) {
		page_text(&t->page, PAGE_PLAIN, "  ", 4,
			  "How many ranks the job has is not stated in these files.");
	}
	for (size_t i = 0; i < r->inputs.n; i++) {
		bool listed = r->inputs.n <= LISTED_INPUTS || has_skips(&r->inputs.v[i]);

		if (!listed || shown == LISTED_INPUTS)
			continue;
		if (!shown && folder)
			show_folder(t, r->inputs.v[i].path, folder);
		show_input(t, &r->inputs.v[i], folder);
		shown++;
	}
	if (shown < r->inputs.n) {
		line_add(&l, "%s%s %s", shown ? "and " : "", page_count(r->inputs.n - shown, n),
			 plural(r->inputs.n - shown, "file", "files"));
		if (shown)
			line_add(&l, " more");
		else
			add_formats(&l, r);
		line_add(&l, "; %s MB in all", page_number((double)bytes / 1e6, n));
		page_text(&t->page, PAGE_PLAIN, "  ", 4, line_end(&l));
		line_done(&l);
	}
	if (r->unpaired) {
		line_add(&l, "%s %s left out of the comparison: members contradict each other.",
			 page_count(r->unpaired, n),
			 plural(r->unpaired, "collective was", "collectives were"));
		page_text(&t->page, PAGE_PLAIN, "  ", 4, line_end(&l));
		line_done(&l);
	}
}

void show_text(FILE *out, const struct report *r, const struct show_options *options)
{
	struct text t = { .page = { .out = out, .colour = options->colour },
			  .r = r,
			  .job = r->job,
			  .options = options };
	struct coverage c = coverage_of(r->job);
	bool stopped_first = false; /* then the scene stands below its three lines */
	size_t shown = 0;

	for (size_t i = 0; i < r->findings.n; i++) {
		const struct finding *f = &r->findings.v[i];

		if (f->severity == SEVERITY_NOTE)
			continue;
		stopped_first |= !shown && text_is_stopped(f);
		show_finding(&t, f, shown++ == 0);
	}
	if (!shown)
		show_nothing(&t, &c);
	if (!stopped_first)
		text_scene(&t);
	text_gaps(&t);
	show_notes(&t);
	if (r->inputs.n)
		show_read(&t, &c, shown > 0);
	if (r->assumed.n)
		page_head(&t.page, "Assumed");
	for (size_t i = 0; i < r->assumed.n; i++)
		page_text(&t.page, PAGE_PLAIN, "  - ", 4, r->assumed.v[i]);
	coverage_done(&c);
}
