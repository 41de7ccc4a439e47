/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_recover.c - what a hang or crash would cost, and whether anybody would know: saves,
 * the watchdog's time, the Flight Recorder, a watcher.
 *
 * From options first, then from the job's configuration where its keys are known, then from the
 * environment and PyTorch's defaults; what was taken from where is told.
 */
#include <ctype.h>
#include <stdio.h>
#include <strings.h>

#include "preflight/preflight_inside.h"

#define CONFIG_MOST	  ((size_t)1 << 20)
#define PYTORCH_TIMEOUT_S 600 /* of NCCL's collectives, if nobody says another */

/* --- on each node: settings from configuration --- */

enum setting { SAVE_STEPS, SAVE_EVERY_S, SAVE_HOW, SAVES_ON, WATCHDOG_S, RECORDER_ENTRIES };
static const char *const setting_keys[] = {
	[SAVE_STEPS] = "save_steps", [SAVE_EVERY_S] = "save_every_s",
	[SAVE_HOW] = "save_how",     [SAVES_ON] = "saves_on",
	[WATCHDOG_S] = "watchdog_s", [RECORDER_ENTRIES] = "recorder_entries",
};
/* Keys by their last parts, with "_" for "-"; the first that is found counts. */
static const struct {
	const char *key;
	enum setting setting;
	int64_t times;
} known_keys[] = {
	/* Hugging Face TrainingArguments, Accelerate */
	{ "save_strategy", SAVE_HOW, 1 },
	{ "save_steps", SAVE_STEPS, 1 },
	{ "ddp_timeout", WATCHDOG_S, 1 },
	/* Megatron-LM */
	{ "save_interval", SAVE_STEPS, 1 },
	{ "distributed_timeout_minutes", WATCHDOG_S, 60 },
	/* torchtitan */
	{ "checkpoint.interval", SAVE_STEPS, 1 },
	{ "checkpoint.enable", SAVES_ON, 1 },
	{ "checkpoint.enable_checkpoint", SAVES_ON, 1 },
	{ "comm.train_timeout_seconds", WATCHDOG_S, 1 },
	{ "comm.trace_buf_size", RECORDER_ENTRIES, 1 },
	/* Lightning, NeMo */
	{ "every_n_train_steps", SAVE_STEPS, 1 },
	/* others' words */
	{ "checkpoint_interval", SAVE_STEPS, 1 },
	{ "checkpoint_every", SAVE_STEPS, 1 },
	{ "save_every", SAVE_STEPS, 1 },
	{ "save_freq", SAVE_STEPS, 1 },
	{ "steps_per_checkpoint", SAVE_STEPS, 1 },
	{ "save_interval_minutes", SAVE_EVERY_S, 60 },
	{ "timeout_seconds", WATCHDOG_S, 1 },
	{ "nccl_timeout", WATCHDOG_S, 1 },
};

static bool ends_with(const char *key, const char *end)
{
	size_t k = strlen(key), e = strlen(end);

	return k >= e && !strcmp(key + k - e, end) && (k == e || key[k - e - 1] == '.');
}

static void put_setting(json_t *facts, enum setting s, const char *value, int64_t times,
			const char *from)
{
	const char *key = setting_keys[s];
	_cleanup_free_ char *from_key = xasprintf("%s_from", key), *plain = NULL;
	char *end;
	double v;

	if (json_object_get(facts, key))
		return;
	plain = xstrdup(value + strspn(value, "\"'"));
	plain[strcspn(plain, "\"' #,")] = 0;
	if (s == SAVE_HOW || s == SAVES_ON) {
		json_object_set_new(facts, key, text_json(plain));
	} else {
		v = strtod(plain, &end);
		if (end == plain || !(v >= 0 && v < 1e12))
			return;
		/* Hugging Face: below 1 it is a share of all steps, however many these are. */
		if (v > 0 && v < 1)
			json_object_set_new(facts, "save_share_pct",
					    json_integer(MAX((json_int_t)(100 * v), 1)));
		else
			json_object_set_new(facts, key, json_integer((json_int_t)v * times));
	}
	json_object_set_new(facts, from_key, text_json(from));
}

static void take_items(json_t *facts, json_t *items)
{
	const char *item;
	json_t *v;

	for (size_t i = 0; i < ARRAY_SIZE(known_keys); i++)
		json_object_foreach(items, item, v)
		{
			const char *at = strstr(item, ": "), *text = json_string_value(v);
			char key[256];

			if (!at || !text)
				continue;
			snprintf(key, sizeof(key), "%s", at + 2);
			for (char *c = key; *c; c++)
				*c = *c == '-' ? '_' : (char)tolower((unsigned char)*c);
			if (ends_with(key, known_keys[i].key))
				put_setting(facts, known_keys[i].setting, text, known_keys[i].times,
					    item);
		}
}

static void put_number(json_t *facts, const char *key, int64_t v)
{
	if (v >= 0)
		json_object_set_new(facts, key, json_integer(v));
}

static void put_recorder(json_t *facts)
{
	static const char *const sizes[] = { "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE",
					     "TORCH_TRACE_BUFFER_SIZE" };
	static const char *const needed[] = { "TORCH_NCCL_DUMP_ON_TIMEOUT",
					      "TORCH_FR_DUMP_ON_TIMEOUT",
					      "TORCH_NCCL_ENABLE_MONITORING",
					      "TORCH_NCCL_ASYNC_ERROR_HANDLING" };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
		if (getenv(sizes[i]))
			put_setting(facts, RECORDER_ENTRIES, getenv(sizes[i]), 1, sizes[i]);
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		const char *v = getenv(needed[i]);

		if (v && (!strcmp(v, "0") || !strcasecmp(v, "false") || !strcasecmp(v, "no") ||
			  !strcasecmp(v, "off")))
			json_object_set_new(facts, "recorder_off_by", json_string(needed[i]));
	}
}

int facts_of_recoverable(const struct preflight_plan *p, json_t **ret, struct error *reterr)
{
	json_t *facts = json_object(), *items = json_object();
	const char *minutes = getenv("DEEPSPEED_TIMEOUT");

	(void)reterr;
	put_number(facts, "save_steps", p->save_steps);
	put_number(facts, "save_every_s", p->save_every_s);
	put_number(facts, "watchdog_s", p->watchdog_seconds);
	for (size_t i = 0; i < p->n_config; i++) {
		size_t len = 0;
		char *text = file_whole(p->config[i], CONFIG_MOST, &len);

		if (text)
			facts_of_config_text(p->config[i], text, len, items);
		free(text);
	}
	take_items(facts, items);
	json_decref(items);
	if (minutes)
		put_setting(facts, WATCHDOG_S, minutes, 60, "DEEPSPEED_TIMEOUT");
	put_recorder(facts);
	*ret = facts;
	return 0;
}

/* --- at the judge --- */

static char *from_words(const json_t *facts, const char *key)
{
	_cleanup_free_ char *from_key = xasprintf("%s_from", key);
	const char *from = fact_text(facts, from_key);

	return from ? xasprintf(" (%.160s)", from) : xstrdup("");
}

static bool saves_are_off(const json_t *facts)
{
	const char *how = fact_text(facts, "save_how"), *on = fact_text(facts, "saves_on");

	return (how && !strcasecmp(how, "no")) || (on && !strcasecmp(on, "false")) ||
	       fact_number(facts, "save_steps", -1) == 0;
}

/* Hours of all GPUs between two saves; below 0: not known. */
static double hours_at_risk(const struct judging *j, const json_t *facts)
{
	int64_t every = fact_number(facts, "save_every_s", -1);
	int64_t steps = fact_number(facts, "save_steps", -1), ranks = j->plan->world_size;
	double seconds = (double)every;

	if (every <= 0 && steps > 0 && j->plan->step_ms > 0)
		seconds = (double)steps * (double)j->plan->step_ms / 1000;
	return seconds > 0 && ranks > 0 ? seconds * (double)ranks / 3600 : -1;
}

static char *every_text(int64_t s)
{
	if (s >= 7200 && s % 3600 == 0)
		return xasprintf("a save every %s hours", thousands(s / 3600));
	if (s >= 120 && s % 60 == 0)
		return xasprintf("a save every %s minutes", thousands(s / 60));
	return xasprintf("a save every %s s", thousands(s));
}

static void rule_of_saves(struct judging *j, const json_t *facts)
{
	int64_t steps = fact_number(facts, "save_steps", -1), limit;
	int64_t every = fact_number(facts, "save_every_s", -1);
	double risk = hours_at_risk(j, facts);
	_cleanup_free_ char *from = from_words(facts, steps >= 0 ? "save_steps" : "save_how");
	_cleanup_free_ char *words = NULL;
	char *measured;

	limit = j->plan->limits[LIMIT_AT_RISK_GPU_HOURS];
	words = xasprintf("periodic saves, at most %s GPU hours apart", thousands(limit));
	if (saves_are_off(facts) && every <= 0) {
		check_put(j, INVARIANT_RECOVERABLE, "saves", CHECK_REFUSE,
			  xasprintf("saves only at the end, if at all%s: all of the run is at risk",
				    from),
			  words, "save every few hundred steps: lockstep.every(steps=500)");
		return;
	}
	if (steps < 0 && every < 0 && fact_number(facts, "save_share_pct", 0) > 0) {
		check_put(j, INVARIANT_RECOVERABLE, "saves", CHECK_OK,
			  xasprintf("a save every %s %% of the steps",
				    thousands(fact_number(facts, "save_share_pct", 0))),
			  words, NULL);
		return;
	}
	if (steps < 0 && every < 0) {
		const char *how = fact_text(facts, "save_how");

		if (how && !strcasecmp(how, "epoch"))
			measured = xasprintf("saves at the end of each epoch%s", from);
		else
			measured = xstrdup("not looked at: nobody said how often the job saves");
		check_put(j, INVARIANT_RECOVERABLE, "saves", CHECK_WARN, measured, words,
			  "give --save-steps or --save-minutes, or save by "
			  "lockstep.every(steps=500)");
		return;
	}
	measured = steps > 1	? xasprintf("a save every %s steps%s", thousands(steps), from)
		   : steps == 1 ? xasprintf("a save every step%s", from)
				: every_text(every);
	if (risk >= 0) {
		char *more = risk < 10 ? xasprintf("%s: %.1f GPU hours at risk", measured, risk)
				       : xasprintf("%s: %s GPU hours at risk", measured,
						   thousands((int64_t)(risk + 0.5)));

		free(measured);
		measured = more;
	}
	check_put(j, INVARIANT_RECOVERABLE, "saves", risk > (double)limit ? CHECK_WARN : CHECK_OK,
		  measured, words, "save more often");
}

static void rule_of_watchdog(struct judging *j, const json_t *facts)
{
	int64_t said = fact_number(facts, "watchdog_s", -1), save = j->plan->save_seconds;
	int64_t watchdog = said >= 0 ? said : PYTORCH_TIMEOUT_S;
	_cleanup_free_ char *from =
	    said >= 0 ? from_words(facts, "watchdog_s") : xstrdup(" (PyTorch's default)");
	static const char limit[] = "collectives time out later than a save takes";

	if (save < 0)
		check_put(j, INVARIANT_RECOVERABLE, "watchdog", CHECK_WARN,
			  xasprintf("time-out %s s%s, and nobody said how long a save takes",
				    thousands(watchdog), from),
			  limit, "give --save-seconds, of the longest save or evaluation");
	else
		check_put(j, INVARIANT_RECOVERABLE, "watchdog",
			  watchdog <= save ? CHECK_REFUSE : CHECK_OK,
			  xasprintf("time-out %s s%s, a save takes %s s", thousands(watchdog), from,
				    thousands(save)),
			  limit,
			  "init_process_group(timeout=timedelta(minutes=30)), or save "
			  "asynchronously");
}

/* "2.13.0+cpu" as 213; -1. */
static int torch_version(const struct judging *j)
{
	for (size_t i = 0; i < j->n; i++) {
		const json_t *items =
		    json_object_get(node_facts(&j->nodes[i], "versions"), "items");
		const char *v = fact_text(json_object_get(items, "versions"), "torch");
		int major, minor;

		if (v && sscanf(v, "%4d.%4d", &major, &minor) == 2)
			return major * 100 + minor;
	}
	return -1;
}

/* On by itself from here on; between 2.5 and it that depends on the build. */
#define RECORDER_BY_DEFAULT 213

static void rule_of_recorder(struct judging *j, const json_t *facts)
{
	static const char limit[] = "the Flight Recorder keeps operations, and dumps on a time-out";
	static const char remedy[] = "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_TRACE_BUFFER_SIZE=2000 "
				     "TORCH_NCCL_DUMP_ON_TIMEOUT=1; lockstep run sets them";
	int64_t entries = fact_number(facts, "recorder_entries", -1);
	_cleanup_free_ char *from = from_words(facts, "recorder_entries");
	const char *off = fact_text(facts, "recorder_off_by");
	int version = torch_version(j);
	enum check_state state = CHECK_WARN;
	char *measured;

	if (off)
		measured = xasprintf("no dump on a time-out: %s is off", off);
	else if (entries == 0)
		measured = xasprintf("it is off%s", from);
	else if (entries > 0)
		measured = xasprintf("%s entries%s", thousands(entries), from);
	else if (version >= RECORDER_BY_DEFAULT)
		measured =
		    xasprintf("on by default in PyTorch %d.%d", version / 100, version % 100);
	else if (version >= 0)
		measured = xasprintf("not set, and off by default in some builds of PyTorch %d.%d",
				     version / 100, version % 100);
	else
		measured = xstrdup("not set, and off by default in older versions of PyTorch");
	if (!off && (entries > 0 || (entries < 0 && version >= RECORDER_BY_DEFAULT)))
		state = CHECK_OK;
	check_put(j, INVARIANT_RECOVERABLE, "recorder", state, measured, limit, remedy);
}

void rules_of_recoverable(struct judging *j)
{
	const json_t *facts = NULL;

	for (size_t i = 0; !facts && i < j->n; i++)
		facts = node_facts(&j->nodes[i], "recoverable");
	if (!facts)
		return;
	rule_of_saves(j, facts);
	rule_of_watchdog(j, facts);
	rule_of_recorder(j, facts);
	check_put(j, INVARIANT_RECOVERABLE, "watcher", j->plan->watched ? CHECK_OK : CHECK_WARN,
		  xstrdup(j->plan->watched ? "a watcher is armed"
					   : "nobody said that a watcher is armed"),
		  "somebody outside the job notices when it hangs",
		  "lockstep watch on another host, then --watched");
}
