/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_watch.c - what a watcher reads besides logs and GPUs: options in a file, its own state, the
 * scheduler's words, metrics, losses. The first byte says which.
 */
#include <math.h>

#include "fuzz_source.h"

#include "watch/watch_config.h"
#include "watch/watch_keep.h"
#include "watch/watch_read.h"

static const struct option_row rows[] = {
	{ "log", 'l', OPTION_TEXTS, 0, "PATH", "" },
	{ "json", 0, OPTION_FLAG, 0, NULL, "" },
	{ 0 },
};

static void of_config(const uint8_t *data, size_t size)
{
	struct span span = span_of(data, size);
	struct input *in = input_of_source(fuzz_read, &span);
	struct watch_config c = { 0 };
	struct error e = { "" };
	int r = watch_config_take(&c, in, "fuzz.ini", rows, &e);

	fuzz_check((r < 0) == (e.text[0] != '\0'));
	for (size_t i = 0; i < c.words.n; i++)
		fuzz_check(!strncmp(c.words.v[i], "--log=", 6) || !strcmp(c.words.v[i], "--json"));
	watch_config_done(&c);
	input_free(in);
}

static void begin(struct watch *w)
{
	struct watch_limits limits = watch_limits_usual();

	watch_init(w, &limits, 1000);
	watch_add_source(w, "a");
	watch_add_source(w, "b");
}

/* What is judged is sound whatever was believed. */
static void judge(struct watch *w)
{
	struct watch_judgement now;

	for (int64_t at = 1000; at < 10000000; at += 1111111) {
		watch_judge(w, at, &now);
		fuzz_check(now.state < WATCH_STATES && now.summary[0]);
		for (unsigned m = 0; m < MATTERS; m++)
			fuzz_check(now.matters[m].raised == (now.matters[m].summary[0] != '\0') ||
				   !now.matters[m].raised);
	}
	fuzz_check(w->gpus.n <= WATCH_GPUS_MOST && w->ranks.n <= WATCH_RANKS);
}

/* A state that was believed comes out as it went in. */
static void of_state(const uint8_t *data, size_t size)
{
	struct watch_clock clock = { .mono_ms = 1000, .wall_ms = 2000, .boot = "b" };
	json_t *j = json_loadb((const char *)data, size, 0, NULL), *out;
	struct error e = { "" };
	struct watch w, again;

	if (!j)
		return;
	begin(&w);
	if (watch_from_json(&w, j, &clock, &e) >= 0) {
		out = watch_to_json(&w, &clock);
		begin(&again);
		fuzz_check(out && watch_from_json(&again, out, &clock, &e) >= 0);
		fuzz_check(again.step == w.step && again.gpus.n == w.gpus.n);
		fuzz_check(again.ranks.n == w.ranks.n);
		json_decref(out);
		watch_done(&again);
		judge(&w);
	}
	watch_done(&w);
	json_decref(j);
}

static void of_text(const uint8_t *data, size_t size, uint8_t kind)
{
	struct watch_piece p = {
		.text = (const char *)data,
		.len = size,
		.path = "fuzz.txt",
		.before_ms = 500,
		.at_ms = 1000,
		.history = kind & 8,
	};
	bool good, any;
	char word[64];
	int64_t bad;
	struct watch w;

	begin(&w);
	fuzz_check(watch_job_of(p.text, p.len, word, sizeof(word)) <= JOB_GONE);
	any = watch_loss_of(p.text, p.len, &bad, &good);
	fuzz_check(bad >= 0 && (any || (!bad && !good)));
	if (kind & 1)
		watch_read_metrics(&w, 0, &p);
	else if (kind & 2)
		watch_read_log(&w, 1, &p);
	else if (kind & 4)
		watch_read_gpus(&w, 1, &p);
	else
		watch_read_job(&w, 0, &p);
	judge(&w);
	watch_done(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (data[0] == 'c')
		of_config(data + 1, size - 1);
	else if (data[0] == 's')
		of_state(data + 1, size - 1);
	else
		of_text(data + 1, size - 1, data[0]);
	return 0;
}
