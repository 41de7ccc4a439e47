/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_cmd.c - `lockstep watch`: the options, and the file in which they may stand.
 *
 * A line of the file is an option: name = value, a flag name = yes. So there is one table for both,
 * and what a file says goes the way of the command line, on which later ones win.
 */
#include "cmd/cmd.h"
#include "watch/watch.h"
#include "watch/watch_config.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

struct watch_args {
	struct option_texts logs, gpu_logs, log_commands, gpu_commands, state_commands, endpoints;
	struct option_texts checkpoints, dumps, webhooks, alert_commands;
	const char *config, *job, *state, *evidence, *collect, *metrics, *listen, *replay;
	const char *template, *heartbeat, *least, *suspect, *hung, *start, *blind, *slow,
	    *save_every;
	const char *ca_file, *token_file, *heartbeat_template;
	const char *interval, *deadline, *escalate, *evidence_limit, *heartbeat_every;
	double floor, band;
	int64_t steps;
	bool json, once, until_end;
};

#define FIELD(name) offsetof(struct watch_args, name)
static const struct option_row watch_rows[] = {
	{ "config", 'c', OPTION_PATH, FIELD(config), "FILE",
	  "read options from this file, name = value a line" },
	{ "job", 0, OPTION_TEXT, FIELD(job), "NAME", "what the job is called in alerts" },
	{ "log", 'l', OPTION_TEXTS, FIELD(logs), "PATH",
	  "follow this log, pattern or folder of logs, once for each" },
	{ "log-command", 0, OPTION_TEXTS, FIELD(log_commands), "CMD",
	  "the output of this command is a log; begun again when it ends" },
	{ "gpu-command", 0, OPTION_TEXTS, FIELD(gpu_commands), "CMD",
	  "a command that prints readings of GPUs, once or for ever" },
	{ "gpu-log", 0, OPTION_TEXTS, FIELD(gpu_logs), "PATH",
	  "follow this file, pattern or folder of readings of GPUs" },
	{ "endpoint", 'e', OPTION_TEXTS, FIELD(endpoints), "URL",
	  "an agent or exporter: http://, https:// or unix:/socket:/path" },
	{ "state-command", 0, OPTION_TEXTS, FIELD(state_commands), "CMD",
	  "a command that prints the job's state, as squeue, sacct or kubectl do" },
	{ "checkpoints", 0, OPTION_TEXTS, FIELD(checkpoints), "DIR",
	  "the folder in which checkpoints appear" },
	{ "dumps", 0, OPTION_TEXTS, FIELD(dumps), "DIR",
	  "the folder in which Flight Recorder dumps appear" },
	{ "interval", 'i', OPTION_TEXT, FIELD(interval), "TIME",
	  "look and judge so often (default 30s)" },
	{ "deadline", 0, OPTION_TEXT, FIELD(deadline), "TIME",
	  "commands, endpoints and file systems have so long (default 10s)" },
	{ "suspect", 0, OPTION_TEXT, FIELD(suspect), "TIME",
	  "no progress for so long is suspect, at least (default 2m)" },
	{ "suspect-steps", 0, OPTION_NUMBER, FIELD(steps), "N",
	  "and for so many median steps (default 10)" },
	{ "hung", 0, OPTION_TEXT, FIELD(hung), "TIME",
	  "no progress for so long is a hang without other signs (default 10m)" },
	{ "start", 0, OPTION_TEXT, FIELD(start), "TIME",
	  "the first step may take so long (default 1h)" },
	{ "blind", 0, OPTION_TEXT, FIELD(blind), "TIME",
	  "a source may be silent for so long (default 90s, or 3 intervals)" },
	{ "slow", 0, OPTION_TEXT, FIELD(slow), "TIME",
	  "slowness and starvation that last so long are told (default 5m)" },
	{ "floor", 0, OPTION_PCT, FIELD(floor), "PCT",
	  "slow below so much of its median throughput (default 70)" },
	{ "band", 0, OPTION_PCT, FIELD(band), "PCT",
	  "of a board's power limit, below which no GPU computes (default 30)" },
	{ "save-every", 0, OPTION_TEXT, FIELD(save_every), "TIME",
	  "a checkpoint is due so often (default: as the job did)" },
	{ "state", 's', OPTION_PATH, FIELD(state), "DIR",
	  "what survives a restart lies here (default lockstep-watch)" },
	{ "evidence", 0, OPTION_PATH, FIELD(evidence), "DIR",
	  "collect evidence of hangs and crashes here, and diagnose it" },
	{ "collect-command", 0, OPTION_TEXT, FIELD(collect), "CMD",
	  "collects more into the folder $LOCKSTEP_EVIDENCE" },
	{ "evidence-limit", 0, OPTION_TEXT, FIELD(evidence_limit), "TIME",
	  "collecting and diagnosing may take so long (default 1m)" },
	{ "webhook", 'w', OPTION_TEXTS, FIELD(webhooks), "URL", "alerts go here, once for each" },
	{ "alert-command", 0, OPTION_TEXTS, FIELD(alert_commands), "CMD",
	  "alerts go to this command's standard input" },
	{ "template", 0, OPTION_PATH, FIELD(template), "FILE",
	  "what is sent, with {{fields}} (default: plain JSON)" },
	{ "least", 0, OPTION_TEXT, FIELD(least), "SEVERITY",
	  "of alerts that are sent: info, warning or critical (default warning)" },
	{ "token-file", 0, OPTION_PATH, FIELD(token_file), "FILE",
	  "its first line goes with webhooks and heartbeat as bearer token" },
	{ "ca-file", 0, OPTION_PATH, FIELD(ca_file), "FILE",
	  "certificates that are trusted for webhooks and heartbeat" },
	{ "heartbeat", 0, OPTION_TEXT, FIELD(heartbeat), "URL",
	  "is asked while the watcher lives and sees" },
	{ "heartbeat-every", 0, OPTION_TEXT, FIELD(heartbeat_every), "TIME",
	  "so often (default 1m)" },
	{ "heartbeat-template", 0, OPTION_PATH, FIELD(heartbeat_template), "FILE",
	  "what the heartbeat posts (default: nothing, it asks)" },
	{ "escalate", 0, OPTION_TEXT, FIELD(escalate), "TIME",
	  "what holds so long is sent again, more severe (default: never)" },
	{ "metrics", 'm', OPTION_PATH, FIELD(metrics), "FILE",
	  "write Prometheus text here, for a textfile collector" },
	{ "listen", 0, OPTION_TEXT, FIELD(listen), "WHERE",
	  "answer Prometheus on this loopback HOST:PORT, or this socket" },
	{ "replay", 0, OPTION_PATH, FIELD(replay), "FILE",
	  "judge this recording instead of looking" },
	{ "json", 0, OPTION_FLAG, FIELD(json), NULL, "print changes as JSON, one a line" },
	{ "once", 0, OPTION_FLAG, FIELD(once), NULL, "look once and end: 0 well, 1 not, 2 blind" },
	{ "until-end", 0, OPTION_FLAG, FIELD(until_end), NULL,
	  "end when the job has completed or crashed" },
	{ 0 },
};
const struct option_spec watch_spec = {
	.command = "watch",
	.operands = "",
	.purpose = "watch a job from outside: hung, crashed, slow, or nothing to see",
	.rows = watch_rows,
	.more = "Sources are options: logs, commands, endpoints and folders in any mix. TIME is\n"
		"seconds, or has a unit: 30s, 10m, 2h, 1d.\n",
};

/* "30", "30s", "1.5m", "2h", "500ms": milliseconds; false: it is no such time. */
static bool time_of(const char *text, int64_t *ret)
{
	static const struct {
		const char *unit;
		double ms;
	} units[] = { { "", 1000 },	{ "ms", 1 },	  { "s", 1000 },    { "m", 60000 },
		      { "min", 60000 }, { "h", 3600000 }, { "d", 86400000 } };
	char *end;
	double v;

	if (!text)
		return true;
	v = strtod(text, &end);
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (end != text && !strcmp(end, units[i].unit) && v >= 0 &&
		    v * units[i].ms < 1e12) {
			*ret = (int64_t)llround(v * units[i].ms);
			return true;
		}
	return false;
}

/* --config FILE, -c FILE or -cFILE on the command line; NULL */
static const char *config_of(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
		if (!strncmp(argv[i], "--config=", 9))
			return argv[i] + 9;
		if ((!strcmp(argv[i], "--config") || !strcmp(argv[i], "-c")) && i + 1 < argc)
			return argv[i + 1];
		if (!strncmp(argv[i], "-c", 2) && argv[i][2])
			return argv[i] + 2;
	}
	return NULL;
}

/* --- */

static void add_sources(struct watch_what *to, size_t *n, enum source_kind kind,
			const struct option_texts *t)
{
	for (size_t i = 0; i < t->n; i++)
		to[(*n)++] = (struct watch_what){ kind, t->v[i] };
}

static int times_of(const struct watch_args *a, struct watch_options *o)
{
	const struct {
		const char *name, *text;
		int64_t *to, least;
	} times[] = {
		{ "interval", a->interval, &o->interval_ms, 100 },
		{ "deadline", a->deadline, &o->deadline_ms, 100 },
		{ "suspect", a->suspect, &o->limits.suspect_ms, 100 },
		{ "hung", a->hung, &o->limits.hung_ms, 100 },
		{ "start", a->start, &o->limits.start_ms, 1000 },
		{ "blind", a->blind, &o->limits.blind_ms, 100 },
		{ "slow", a->slow, &o->limits.slow_ms, 0 },
		{ "save-every", a->save_every, &o->limits.save_every_ms, 0 },
		{ "evidence-limit", a->evidence_limit, &o->evidence_ms, 1000 },
		{ "heartbeat-every", a->heartbeat_every, &o->heartbeat_ms, 1000 },
		{ "escalate", a->escalate, &o->escalate_ms, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		if (!time_of(times[i].text, times[i].to)) {
			complain("watch: --%s is a time such as 30s, 10m or 2h, not \"%.60s\"",
				 times[i].name, times[i].text);
			return EXIT_USAGE;
		}
		if (*times[i].to < times[i].least) {
			complain("watch: --%s is at least %g s", times[i].name,
				 (double)times[i].least / 1000);
			return EXIT_USAGE;
		}
	}
	if (!a->blind)
		o->limits.blind_ms = MAX(o->limits.blind_ms, 3 * o->interval_ms);
	return -1;
}

static int targets_of(const struct watch_args *a, struct alert_target *to, size_t *n)
{
	static const char *const names[ALERT_SEVERITIES] = { "info", "warning", "critical" };
	enum alert_severity least = ALERT_SEVERITIES;

	for (unsigned i = 0; i < ALERT_SEVERITIES; i++)
		if (!strcmp(a->least ? a->least : "warning", names[i]))
			least = i;
	if (least == ALERT_SEVERITIES) {
		complain("watch: --least is info, warning or critical, not \"%.60s\"", a->least);
		return EXIT_USAGE;
	}
	for (size_t i = 0; i < a->webhooks.n; i++)
		to[(*n)++] = (struct alert_target){ .webhook = a->webhooks.v[i],
						    .template = a->template,
						    .ca_file = a->ca_file,
						    .token_file = a->token_file,
						    .least = least };
	for (size_t i = 0; i < a->alert_commands.n; i++)
		to[(*n)++] = (struct alert_target){ .command = a->alert_commands.v[i],
						    .template = a->template,
						    .least = least };
	return -1;
}

/* Also where nothing would be sent by it. */
static int templates_can_be_read(const struct watch_args *a)
{
	const char *const paths[] = { a->template, a->heartbeat_template };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		if (paths[i] && access(paths[i], R_OK) < 0) {
			complain("watch: --%s %.300s: %s", i ? "heartbeat-template" : "template",
				 paths[i], strerror(errno));
			return EXIT_USAGE;
		}
	return -1;
}

static int run(const struct watch_args *a)
{
	size_t most = a->logs.n + a->gpu_logs.n + a->log_commands.n + a->gpu_commands.n +
		      a->endpoints.n + a->state_commands.n + a->checkpoints.n + a->dumps.n;
	_cleanup_free_ struct watch_what *sources = xcalloc(most + 1, sizeof(*sources));
	_cleanup_free_ struct alert_target *targets =
	    xcalloc(a->webhooks.n + a->alert_commands.n + 1, sizeof(*targets));
	bool alerts = a->webhooks.n || a->alert_commands.n || a->heartbeat;
	struct watch_options o = {
		.job = a->job,
		.sources = sources,
		.interval_ms = 30000,
		.deadline_ms = 10000,
		.limits = watch_limits_usual(),
		.state = a->state			     ? a->state
			 : a->replay || (a->once && !alerts) ? NULL
							     : "lockstep-watch",
		.evidence = a->replay ? NULL : a->evidence,
		.collect = a->collect,
		.evidence_ms = 60000,
		.metrics = a->metrics,
		.listen = a->listen,
		.replay = a->replay,
		.targets = targets,
		.heartbeat = a->heartbeat,
		.heartbeat_template = a->heartbeat_template,
		.ca_file = a->ca_file,
		.token_file = a->token_file,
		.heartbeat_ms = 60000,
		.json = a->json,
		.once = a->once,
		.until_end = a->until_end,
		.say = complain,
	};
	struct error error = { "" };
	int r = times_of(a, &o);

	if (r < 0)
		r = templates_can_be_read(a);
	if (r < 0)
		r = targets_of(a, targets, &o.n_targets);
	if (r >= 0)
		return r;
	if (!most) {
		complain("watch: nothing to look at; give --log, --endpoint or another source");
		return EXIT_USAGE;
	}
	add_sources(sources, &o.n_sources, SOURCE_LOG, &a->logs);
	add_sources(sources, &o.n_sources, SOURCE_GPU_LOG, &a->gpu_logs);
	add_sources(sources, &o.n_sources, SOURCE_LOG_COMMAND, &a->log_commands);
	add_sources(sources, &o.n_sources, SOURCE_GPU_COMMAND, &a->gpu_commands);
	add_sources(sources, &o.n_sources, SOURCE_JOB_COMMAND, &a->state_commands);
	add_sources(sources, &o.n_sources, SOURCE_ENDPOINT, &a->endpoints);
	add_sources(sources, &o.n_sources, SOURCE_CHECKPOINTS, &a->checkpoints);
	add_sources(sources, &o.n_sources, SOURCE_DUMPS, &a->dumps);
	if (a->once || a->replay)
		o.limits.settle_ms = 0;
	o.limits.once = a->once && !a->replay;
	o.limits.suspect_given = a->suspect;
	o.limits.hung_given = a->hung;
	o.limits.floor = a->floor;
	o.limits.band = a->band;
	o.limits.steps = (double)a->steps;
	r = watch_run(&o, &error);
	if (r < 0)
		complain("watch: %s", *error.text ? error.text : strerror(-r));
	return r == -EINVAL || r == -EBADMSG ? EXIT_USAGE : r < 0 ? EXIT_CANNOT_TELL : r;
}

int watch_main(int argc, char **argv)
{
	struct watch_args args = { .floor = 0.7, .band = 0.3, .steps = 10 };
	const char *path = config_of(argc, argv);
	struct watch_config config = { 0 };
	struct option_texts *const lists[] = {
		&args.logs,	      &args.gpu_logs,	    &args.log_commands, &args.gpu_commands,
		&args.state_commands, &args.endpoints,	    &args.checkpoints,	&args.dumps,
		&args.webhooks,	      &args.alert_commands,
	};
	_cleanup_free_ char **words = NULL;
	struct error error = { "" };
	int operands, status = -1;

	if (path && watch_config_read(&config, path, watch_rows, &error) < 0) {
		complain("watch: %s", error.text);
		status = EXIT_USAGE;
		goto out;
	}
	words = xcalloc(config.words.n + (size_t)argc + 1, sizeof(*words));
	words[0] = argv[0];
	if (config.words.n)
		memcpy(words + 1, config.words.v, config.words.n * sizeof(*words));
	memcpy(words + 1 + config.words.n, argv + 1, ((size_t)argc - 1) * sizeof(*words));
	argc += (int)config.words.n;
	status = command_line(&watch_spec, argc, words, &args, &operands);
	if (status < 0 && operands < argc) {
		complain("watch: what is \"%.60s\"? Sources are options; see lockstep watch --help",
			 words[operands]);
		status = EXIT_USAGE;
	}
	if (status < 0 && args.config && !path) {
		complain("watch: --config has to be written out");
		status = EXIT_USAGE;
	}
	if (status < 0)
		status = run(&args);
out:
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		free(lists[i]->v);
	watch_config_done(&config);
	return status;
}
