/* SPDX-License-Identifier: Apache-2.0 */
/* join.c - survey -> read on the pool -> fold -> merge, and the lines about what went wrong. */
#include "cmd/join.h"
#include "cmd/cmd.h"
#include "cmd/live.h"
#include "cmd/records.h"
#include "cmd/remarks.h"
#include "base/pool.h"
#include "base/progress.h"
#include "base/ranges.h"
#include "read/fr.h"
#include "read/log.h"
#include "read/read.h"
#include "show/clean.h"

#include <math.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* A trace as one worker left it, or the ranks of one file of step records. */
struct part {
	char *path;
	enum input_kind kind;
	struct rank_stream *streams;
	size_t n_streams;
	uint64_t first_key;
	uint64_t steps, kernels, collectives; /* of all streams, before merge takes them over */
	struct read_stats stats;
	struct testimony *testimony; /* of a dump, a log, stacks or power: no streams then */
	struct dump_view *view;	     /* of a dump */
};
/* All that came of one input. Only the worker that has the input writes here. */
struct slot {
	VEC(struct part) parts;
	struct remarks remarks; /* for stderr */
	uint64_t unrelated;	/* members and files that are not ours */
	char *first_unrelated;	/* "path: why" */
	uint64_t failed;	/* traces that nothing could be taken from */
	struct fold *fold;	/* of the trace that is being read */
	char *path;
	enum input_kind kind;
	struct records *records;
	struct join_run *run;
};
struct join_run {
	const struct join_options *options;
	struct standings *standings; /* one of all dumps, under the lock */
	struct pool_lock *lock;
	struct survey survey;
	struct slot *slots; /* one an input, and a last one for stdin */
	size_t n_slots;
	size_t live; /* the slot that is read live; SIZE_MAX: none */
	struct error live_error;
	struct progress progress;
};

static void slot_unrelated(struct slot *slot, const char *path, const char *why, bool said)
{
	if (said) {
		remarks_add(&slot->remarks, path, why);
		return;
	}
	if (!slot->unrelated++)
		slot->first_unrelated = xasprintf("%s: %s", path, why);
}

static void slot_say_cut(struct slot *slot, const struct read_stats *stats)
{
	_cleanup_free_ char *text =
	    xasprintf("cut off at its end, as if the job was killed while writing: %" PRIu64
		      " events are whole, %" PRIu64 " bytes behind them are lost",
		      stats->events, stats->lost_bytes);

	remarks_add(&slot->remarks, slot->path, text);
}

static void slot_take_testimony(struct slot *slot, const char *path, struct testimony *t,
				const struct read_stats *stats);

static int records_bytes(void *user, const void *bytes, size_t len)
{
	struct slot *slot = user;

	return records_feed(slot->records, bytes, len);
}

/* After the last byte of a file of step records: its ranks become streams like those of traces.
   why: what was wrong with the file, NULL if nothing was. */
static void slot_take_records(struct slot *slot, const char *path, const char *why)
{
	struct part part = { .kind = INPUT_LKS };
	struct read_stats none = { 0 };
	struct error error = { "" };
	_cleanup_free_ char *cut = NULL;
	struct testimony *t;

	part.path = xstrdup(path);
	records_end(slot->records, &part.streams, &part.n_streams, &part.stats, &error);
	if ((why && *why) || *error.text)
		remarks_add(&slot->remarks, path, why && *why ? why : error.text);
	*vec_push(&slot->parts) = part;
	while ((t = records_testimony(slot->records)))
		slot_take_testimony(slot, path, t, &none);
	cut = records_cut(slot->records);
	if (cut)
		remarks_add(&slot->remarks, path, cut);
	slot->records = records_free(slot->records);
}

static int trace_begin(void *user, const char *path, enum input_kind kind, struct trace_sink **ret)
{
	struct slot *slot = user;
	struct fold_options options = {
		.first_step = slot->run->options->steps.first,
		.last_step = slot->run->options->steps.last,
	};

	slot->path = xstrdup(path);
	slot->kind = kind;
	if (kind == INPUT_LKS) {
		slot->records = records_new(&slot->run->options->steps);
		*ret = NULL;
		return 0;
	}
	slot->fold = fold_new(&options);
	*ret = fold_sink(slot->fold);
	return 0;
}

/* The part of a trace that ended: a new one, or that of the file which just gave another rank. */
static void slot_take_stream(struct slot *slot, const struct rank_stream *stream,
			     const struct read_stats *stats)
{
	struct part *part = slot->parts.n ? &slot->parts.v[slot->parts.n - 1] : NULL;

	if (!part || part->kind != slot->kind || slot->kind == INPUT_KINETO ||
	    strcmp(part->path, slot->path)) {
		part = vec_push(&slot->parts);
		*part = (struct part){ .path = slot->path, .kind = slot->kind, .stats = *stats };
		slot->path = NULL;
	}
	part->streams = xrealloc(part->streams, (part->n_streams + 1) * sizeof(*part->streams));
	part->streams[part->n_streams++] = *stream;
}

static void trace_end(void *user, const struct read_stats *stats, int status, const char *why)
{
	struct slot *slot = user;
	struct rank_stream stream;
	/* The name of a file of several ranks tells of none of them. */
	struct fold_hint hint = { .rank = slot->kind == INPUT_KINETO
					      ? survey_rank_of_name(slot->path)
					      : -1 };
	struct error error;

	if (slot->kind == INPUT_LKS) {
		slot_take_records(slot, slot->path, why);
		goto out;
	}
	if (!survey_host_of_name(slot->path, &hint.host, &hint.host_len))
		hint.host = NULL;
	if (status < 0) {
		slot->failed++;
		remarks_add(&slot->remarks, slot->path, why && *why ? why : strerror(-status));
		goto out;
	}
	if (why && *why)
		remarks_add(&slot->remarks, slot->path, why);
	else if (stats->skipped[SKIP_TRUNCATED])
		slot_say_cut(slot, stats);
	if (fold_finish(slot->fold, &hint, &stream, &error) < 0) {
		slot->failed++;
		remarks_add(&slot->remarks, slot->path, error.text);
		goto out;
	}
	slot_take_stream(slot, &stream, stats);
out:
	slot->fold = fold_free(slot->fold);
	free(slot->path);
	slot->path = NULL;
}

static void member_other(void *user, const char *path, const char *why, bool said)
{
	slot_unrelated(user, path, why, said);
}

static void slot_take_testimony(struct slot *slot, const char *path, struct testimony *t,
				const struct read_stats *stats)
{
	struct part *part = vec_push(&slot->parts);

	*part = (struct part){
		.path = xstrdup(path),
		.kind = INPUT_WITNESS,
		.stats = *stats,
		.testimony = t,
	};
	if (t->witness != WITNESS_DUMP)
		return;
	pool_lock(slot->run->lock);
	part->view = standings_take(slot->run->standings, t, stats->skipped[SKIP_TRUNCATED] > 0);
	pool_unlock(slot->run->lock);
}

static void witness_taken(void *user, const char *path, struct testimony *t,
			  const struct read_stats *stats, const char *why)
{
	struct slot *slot = user;

	if (why)
		remarks_add(&slot->remarks, path, why);
	if (testimony_empty(t)) {
		if (!why)
			slot_unrelated(slot, path, "nothing in it that is of use here", false);
		testimony_free(t);
		return;
	}
	slot_take_testimony(slot, path, t, stats);
}

/* A file that is called like a rank's dump and gives nothing: the rank left one, so that its
   absence proves nothing. */
static void slot_unreadable_dump(struct slot *slot, const char *path)
{
	int64_t rank = survey_rank_of_name(path) < 0 ? -1 : fr_rank_of_path(path);
	struct read_stats stats = { .skipped = { [SKIP_TRUNCATED] = 1 } };
	struct testimony *t;

	if (rank < 0)
		return;
	t = testimony_new(WITNESS_DUMP, "flight-recorder");
	t->rank = rank;
	t->present = true;
	t->path = testimony_name(t, path, strlen(path));
	slot_take_testimony(slot, path, t, &stats);
}

static void witness_mute(void *user, const char *path, const char *why)
{
	struct slot *slot = user;

	slot->failed++;
	remarks_add(&slot->remarks, path, why);
	slot_unreadable_dump(slot, path);
}

static void read_one(void *user, size_t i)
{
	struct join_run *run = user;
	const struct survey_input *input = &run->survey.inputs[i];
	struct slot *slot = &run->slots[i];
	const struct read_client client = {
		.user = slot,
		.begin = trace_begin,
		.end = trace_end,
		.other = member_other,
		.records = records_bytes,
		.witness = witness_taken,
		.mute = witness_mute,
		.step_range = run->options->step_range,
		.progress = &run->progress.done,
	};
	struct error error = { "" };

	if (i == run->live)
		return;
	if (input->kind == INPUT_OTHER && !input->size_bytes)
		slot_unreadable_dump(slot, input->path);
	if (input->kind == INPUT_OTHER) {
		slot_unrelated(slot, input->path, input->why ? input->why : "not a trace",
			       input->said);
		return;
	}
	if (read_input(input, &client, &error) < 0)
		remarks_add(&slot->remarks, input->path,
			    *error.text ? error.text : "cannot be read");
}

static void read_stdin(struct slot *slot)
{
	_cleanup_free_ char *bytes = xmalloc(1 << 16);
	struct input *in = input_of_source(live_stdin, NULL);
	ssize_t n;

	slot->records = records_new(&slot->run->options->steps);
	while ((n = input_read(in, bytes, 1 << 16)) > 0)
		if (records_bytes(slot, bytes, (size_t)n) < 0)
			break;
	slot_take_records(slot, "-", n < 0 ? strerror((int)-n) : input_problem(in));
	input_free(in);
}

static void survey_all(struct join_run *run, char *const *paths, size_t n_paths, bool *ret_stdin)
{
	_cleanup_free_ char **found = xmalloc(n_paths * sizeof(*found));
	struct error error;
	struct stat st;
	size_t n = 0;

	for (size_t i = 0; i < n_paths; i++) {
		if (!strcmp(paths[i], "-")) {
			*ret_stdin = true;
		} else if (stat(paths[i], &st) >= 0) {
			found[n++] = paths[i];
		} else if (!run->options->again) {
			_cleanup_free_ char *clean = clean_text(paths[i]);

			complain("%s: %s", clean, strerror(errno));
		}
	}
	if (n && survey_paths(&run->survey, found, n, &error) < 0)
		complain("%s", error.text);
}

/* Records of one writer and nothing else that has steps: they can be judged as they come. */
static size_t find_live(const struct join_run *run, bool from_stdin)
{
	size_t found = from_stdin ? run->survey.n : SIZE_MAX;

	if (!run->options->live)
		return SIZE_MAX;
	for (size_t i = 0; i < run->survey.n; i++) {
		enum input_kind kind = run->survey.inputs[i].kind;

		if (kind == INPUT_OTHER || kind == INPUT_WITNESS)
			continue;
		if (found != SIZE_MAX || kind != INPUT_LKS)
			return SIZE_MAX;
		found = i;
	}
	return found;
}

static void read_all(struct join_run *run, bool from_stdin)
{
	struct pool_watch watch = { progress_draw, &run->progress, 100 };
	uint64_t total = 0;

	run->n_slots = run->survey.n + 1;
	run->slots = xcalloc(run->n_slots, sizeof(*run->slots));
	for (size_t i = 0; i < run->n_slots; i++)
		run->slots[i].run = run;
	for (size_t i = 0; i < run->survey.n; i++)
		if (run->survey.inputs[i].kind != INPUT_OTHER)
			total += run->survey.inputs[i].size_bytes;
	run->live = find_live(run, from_stdin);
	progress_begin(&run->progress, "reading", total);
	pool_run_watched(run->options->threads, run->survey.n, read_one, run,
			 progress_wanted(&run->progress) ? &watch : NULL);
	progress_end(&run->progress);
	if (from_stdin && run->live != run->survey.n)
		read_stdin(&run->slots[run->survey.n]);
}

static void say_lines(struct join_run *run)
{
	struct remarks all = { 0 };
	const char *first = NULL;
	uint64_t unrelated = 0;

	for (size_t i = 0; i < run->n_slots; i++) {
		/* the second time only the records are new */
		if (run->options->again &&
		    (i == run->survey.n || run->survey.inputs[i].kind != INPUT_LKS))
			continue;
		remarks_join(&all, &run->slots[i].remarks);
		unrelated += run->slots[i].unrelated;
		if (!first)
			first = run->slots[i].first_unrelated;
	}
	remarks_say(&all);
	remarks_done(&all);
	if (unrelated) {
		_cleanup_free_ char *clean = clean_text(first);

		complain("left out %" PRIu64 " %s (%s%s)", unrelated,
			 unrelated == 1 ? "file of no known kind" : "files of no known kind", clean,
			 unrelated == 1 ? "" : ", ..");
	}
}

static bool rank_wanted(const struct join_options *options, int64_t rank)
{
	return !options->ranks.n || ranges_has(options->ranks.v, options->ranks.n, rank);
}

static const char *const format_names[] = {
	[INPUT_KINETO] = "kineto",
	[INPUT_TIMELINE] = "timeline",
	[INPUT_NSYS] = "nsys",
	[INPUT_LKS] = "lks",
};

/* merge: NULL if nothing was usable. Streams not wanted, or that merge left out, have no row. */
static void report_part(struct report *report, const struct merge *merge, const struct part *part,
			const bool *wanted)
{
	struct report_input *in = vec_push(&report->inputs);

	*in = (struct report_input){
		.path = arena_strndup(&report->arena, part->path, strlen(part->path)),
		.format = part->testimony ? part->testimony->format : format_names[part->kind],
		.rank = part->testimony ? part->testimony->rank : -1,
		.steps = part->steps,
		.events = part->stats.events,
		.kernels = part->kernels,
		.collectives = part->collectives,
		.bytes = part->stats.bytes,
	};
	memcpy(in->skipped, part->stats.skipped, sizeof(in->skipped));
	for (size_t i = 0; merge && i < part->n_streams; i++) {
		uint32_t row = wanted[i] ? merge_row_of(merge, part->first_key + i) : NO_ID;

		if (row != NO_ID)
			*vec_push(&in->rows) = row;
	}
}

static void part_count(struct part *part, const struct rank_stream *stream)
{
	part->steps += stream->n_steps;
	part->kernels += stream->gpu_kernels;
	part->collectives += stream->collectives;
	for (int i = 0; i < SKIP_REASONS; i++)
		part->stats.skipped[i] += stream->skipped[i];
}

/* Recordings of Nsight Systems seldom say which rank a GPU was: where nothing that was given names
   ranks, they are numbered in order of file and GPU. */
static void number_gpus(struct join *j, struct join_run *run)
{
	VEC(struct rank_info *) gpus = { 0 };
	bool named = false;

	for (size_t i = 0; i < run->n_slots; i++)
		for (size_t k = 0; k < run->slots[i].parts.n; k++) {
			const struct part *part = &run->slots[i].parts.v[k];

			for (size_t s = 0; s < part->n_streams; s++) {
				*vec_push(&gpus) = &part->streams[s].info;
				named |=
				    part->kind != INPUT_NSYS || part->streams[s].info.rank >= 0;
			}
		}
	for (size_t i = 0; i < gpus.n && gpus.n > 1 && !named; i++)
		gpus.v[i]->rank = (int64_t)i;
	if (gpus.n > 1 && !named)
		*vec_push(&j->report.assumed) =
		    "nothing names the ranks of these recordings: they are numbered in order of "
		    "file and GPU";
	free(gpus.v);
}

static const char *live_path(const struct join_run *run)
{
	return run->live == run->survey.n ? "-" : run->survey.inputs[run->live].path;
}

static void report_parts(struct join *j, const struct join_run *run, const bool *wanted)
{
	for (size_t i = 0; i < run->n_slots; i++) {
		if (i == run->live) {
			j->live_input = j->report.inputs.n;
			*vec_push(&j->report.inputs) = (struct report_input){
				.path = arena_strndup(&j->report.arena, live_path(run),
						      strlen(live_path(run))),
				.format = "lks",
				.rank = -1,
			};
		}
		for (size_t k = 0; k < run->slots[i].parts.n; k++) {
			const struct part *part = &run->slots[i].parts.v[k];

			report_part(&j->report, j->usable ? j->merge : NULL, part,
				    wanted ? wanted + part->first_key : NULL);
		}
	}
}

/* Why there is nothing to judge, where merge does not say. */
static void say_nothing_usable(const struct join_options *options, bool any, bool streams,
			       bool failed, struct error *error)
{
	if (any && (options->steps.first >= 0 || options->steps.last >= 0))
		error_set(error, 0, "none of the steps asked for is in what was given");
	else if (!any && streams)
		error_set(error, 0, "none of the ranks asked for is in what was given");
	else if (!streams)
		error_set(error, 0, "%s",
			  failed ? "nothing that was given could be read"
				 : "nothing in what was given tells of a job: no trace, dump, log, "
				   "stack or power sample");
}

/* Opens what can be judged as it comes. A file that cannot is read as any other. */
static void live_begin(struct join *j, struct join_run *run)
{
	const struct live_options options = { run->options->steps, run->options->ranks };
	size_t i = run->live;
	struct input *in = NULL;

	if (i < run->survey.n)
		input_open(live_path(run), &in, NULL);
	if (in || i == run->survey.n)
		j->live =
		    live_open(in, live_path(run), &options, j->merge, &j->job, &run->live_error);
	if (i == SIZE_MAX || j->job)
		return;
	if (i == run->survey.n) {
		remarks_add(&run->slots[i].remarks, "-", run->live_error.text);
		return;
	}
	j->live = live_free(j->live);
	merge_free(j->merge);
	j->merge = merge_new();
	run->live = SIZE_MAX;
	read_one(run, i);
}

/* Hands the streams to merge, in the order of the survey; then the rows of each are known. */
static void merge_all(struct join *j, struct join_run *run)
{
	uint64_t key = 0, failed = 0;
	VEC(bool) wanted = { 0 };
	struct error error = { "" };
	bool any = false;

	number_gpus(j, run);
	for (size_t i = 0; i < run->n_slots; i++) {
		failed += run->slots[i].failed;
		for (size_t k = 0; k < run->slots[i].parts.n; k++) {
			struct part *part = &run->slots[i].parts.v[k];

			part->first_key = key;
			for (size_t s = 0; s < part->n_streams; s++, key++) {
				struct rank_stream *stream = &part->streams[s];
				bool is = rank_wanted(run->options, stream->info.rank);

				*vec_push(&wanted) = is;
				any |= is;
				part_count(part, stream);
				if (is)
					merge_add(j->merge, key, part->path, stream);
				else
					rank_stream_done(stream);
			}
		}
	}
	if (j->live)
		error = run->live_error;
	else
		j->job = any ? merge_job(j->merge, &error) : NULL;
	j->usable = j->job != NULL;
	if (!j->usable && !j->live)
		say_nothing_usable(run->options, any, key > 0, failed > 0, &error);
	if (!j->job) {
		j->job = &j->nothing;
		j->report.headline = report_printf(&j->report, "%s", error.text);
	}
	j->report.job = j->job;
	if (j->usable)
		j->job->layout_spec = run->options->layout;
	report_parts(j, run, wanted.v);
	free(wanted.v);
}

/* What was read is not listed as of a rank that it turned out not to be of. */
static void forget_workers(struct join *j, const struct join_run *run)
{
	for (size_t i = 0; i < run->n_slots; i++)
		for (size_t k = 0; k < run->slots[i].parts.n; k++) {
			const struct part *part = &run->slots[i].parts.v[k];

			for (size_t n = 0;
			     part->testimony && part->testimony->worker && n < j->report.inputs.n;
			     n++)
				if (!strcmp(j->report.inputs.v[n].path, part->path))
					j->report.inputs.v[n].rank = -1;
		}
}

/* The scene's parts in the order of the survey; from here on they are the join's. */
static void scene_all(struct join *j, struct join_run *run)
{
	VEC(struct testimony *) all = { 0 };

	for (size_t i = 0; i < run->n_slots; i++)
		for (size_t k = 0; k < run->slots[i].parts.n; k++) {
			struct part *part = &run->slots[i].parts.v[k];

			if (!part->testimony)
				continue;
			*vec_push(&j->parts) = (struct scene_part){ part->testimony, part->view };
			*vec_push(&all) = part->testimony;
		}
	log_settle_years(all.v, all.n);
	free(all.v);
	scene_build(&j->scene, j->standings, j->parts.v, j->parts.n);
	if (j->scene.workers_are_nodes)
		forget_workers(j, run);
}

static void take_warnings(struct join *j)
{
	const char *const *warnings;
	size_t n = merge_warnings(j->merge, &warnings);

	for (size_t i = 0; i < n; i++) {
		_cleanup_free_ char *clean = clean_text(warnings[i]);

		complain("%s", clean);
		*vec_push(&j->report.assumed) =
		    arena_strndup(&j->report.arena, warnings[i], strlen(warnings[i]));
	}
}

static void run_done(struct join_run *run)
{
	for (size_t i = 0; i < run->n_slots; i++) {
		struct slot *slot = &run->slots[i];

		for (size_t k = 0; k < slot->parts.n; k++) {
			free(slot->parts.v[k].path);
			free(slot->parts.v[k].streams);
		}
		free(slot->parts.v);
		remarks_done(&slot->remarks);
		free(slot->first_unrelated);
	}
	free(run->slots);
	pool_lock_free(run->lock);
	survey_done(&run->survey);
}

/* Spools of many ranks may need a descriptor each: take what the system allows us. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

void join_paths(struct join *j, char *const *paths, size_t n_paths,
		const struct join_options *options)
{
	struct join_run run = { .options = options, .lock = pool_lock_new() };
	bool from_stdin = false;

	*j = (struct join){
		.merge = merge_new(),
		.nothing = { .world_size = -1, .first_step = -1, .last_step = -1 },
		.report = { .step_ms_median = NAN, .step_ms_p99 = NAN },
	};
	run.standings = j->standings = standings_new();
	raise_descriptor_limit();
	survey_all(&run, paths, n_paths, &from_stdin);
	read_all(&run, from_stdin);
	live_begin(j, &run);
	say_lines(&run);
	merge_all(j, &run);
	scene_all(j, &run);
	take_warnings(j);
	run_done(&run);
}

/* What there is to say of the live input, now that it was read to its end. */
static void live_report(struct join *j)
{
	struct report_input *in = &j->report.inputs.v[j->live_input];
	struct live_stats stats = live_stats(j->live);
	_cleanup_free_ char *clean = clean_text(in->path);

	in->steps = stats.steps;
	in->events = stats.read.events;
	in->bytes = stats.read.bytes;
	memcpy(in->skipped, stats.read.skipped, sizeof(in->skipped));
	for (size_t i = 0; i < live_ranks(j->live); i++) {
		uint32_t row = live_row(j->live, i);

		if (row == NO_ID)
			continue;
		*vec_push(&in->rows) = row;
		in->kernels += j->job->ranks[row].kernels;
		in->collectives += j->job->ranks[row].collectives;
	}
	if (*stats.problem)
		complain("%s: %s", clean, stats.problem);
	if (j->usable && !stats.steps)
		j->report.headline =
		    report_printf(&j->report, "none of the steps asked for is in what was given");
	if (stats.late)
		complain("%s: left out %" PRIu64 " records that came more than two steps late",
			 clean, stats.late);
	if (stats.unknown)
		complain("%s: left out %" PRIu64
			 " records of ranks that joined after the first step",
			 clean, stats.unknown);
	if (stats.doubled)
		complain("%s: left out %" PRIu64 " %s that a rank has twice", clean, stats.doubled,
			 stats.doubled == 1 ? "step" : "steps");
	if (stats.alone)
		complain("%s: left out %" PRIu64
			 " steps of ranks that count steps anew while the others go on",
			 clean, stats.alone);
}

int join_steps(struct join *j, merge_step_fn fn, void *user, struct error *reterr)
{
	bool again;
	int status;

	if (!j->live)
		return merge_run(j->merge, fn, user, reterr);
	status = live_run(j->live, fn, user, reterr);
	if (status < 0)
		return status;
	again =
	    !live_stats(j->live).in_order && strcmp(j->report.inputs.v[j->live_input].path, "-");
	if (!again)
		live_report(j);
	return again;
}

void join_done(struct join *j)
{
	report_done(&j->report);
	scene_done(&j->scene);
	for (size_t i = 0; i < j->parts.n; i++) {
		/* the scene points into testimonies, never changes them */
		testimony_free((struct testimony *)(uintptr_t)j->parts.v[i].t);
		dump_view_free(j->parts.v[i].view);
	}
	free(j->parts.v);
	j->standings = standings_free(j->standings);
	live_free(j->live);
	job_done(&j->nothing);
	j->merge = merge_free(j->merge);
}
