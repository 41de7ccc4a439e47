/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_save.c - what a job says of its life beside its steps: who it is, saves, epochs, its end.
 *
 * A save begins and ends in some hundred wordings, which are told by their verb, their noun and
 * their tense. Settings, arguments and names of folders that hold the same words are none.
 */
#include "read/log_internal.h"

/* --- saves --- */

static bool is_setting(const char *p, const char *end)
{
	static const char *const words[] = {
		"checkpointing",  "_checkpoint",    "checkpoint_",   "--save",	   "....",
		"will not load",  "oading",	    "Load",	     "load_",	   "resum",
		"Resum",	  "not saving",	    "save_interval", "save_every", "No checkpoint",
		"Unable to find", "could not find",
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (text_has(p, end, words[i]))
			return true;
	return false;
}

/* "iteration 5000", "step 6", "checkpoint-500", "global_step500", "@ 500 updates", "step": 177215
 */
static int64_t step_of(const char *p, const char *end)
{
	static const char *const words[] = { "iteration",   "global_step", "step",
					     "checkpoint-", "@",	   "iter" };
	int64_t v;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		struct scan s = scan_of(p, end);

		while (scan_to_any(&s, words[i])) {
			struct scan q = s;

			while (q.p < q.end && (*q.p == ' ' || *q.p == '=' || *q.p == ':' ||
					       *q.p == '"' || *q.p == '_' || *q.p == '-'))
				q.p++;
			if (scan_digits(&q, &v))
				return v;
		}
	}
	return -1;
}

/* "took 12.3 seconds", "in 12.34 s", "(took 109.51 secs)", "Save duration : 12.3s" */
static int64_t duration_of(const char *p, const char *end)
{
	static const char *const words[] = { "took ", " in ", "duration", "time:", "Time taken" };
	double v;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		struct scan s = scan_of(p, end);

		while (scan_to(&s, words[i])) {
			struct scan q = s;

			while (q.p < q.end && (*q.p == ' ' || *q.p == ':' || *q.p == '='))
				q.p++;
			if (!scan_double(&q, &v) || !(v >= 0 && v < 1e9))
				continue;
			scan_blanks(&q);
			if (scan_at(&q, "ms") || scan_at(&q, "milli"))
				return (int64_t)(v * 1e6);
			if (scan_at(&q, "s"))
				return (int64_t)(v * 1e9);
			if (scan_at(&q, "min"))
				return (int64_t)(v * 60e9);
		}
	}
	return -1;
}

static enum log_took say_save(struct log *g, struct log_line *l, enum saying_kind kind)
{
	struct saying t = saying_of(kind);

	t.value = step_of(l->text, l->end);
	if (kind == SAY_SAVE_END)
		t.duration_ns = duration_of(l->text, l->end);
	log_say(g, l, &t);
	return LOG_SAID;
}

static bool names_a_save(const char *p, const char *end)
{
	static const char *const nouns[] = { "checkpoint",	"ckpt",
					     "state dict",	"state_dict",
					     "optimizer state", "model state",
					     "snapshot",	"weights" };

	for (size_t i = 0; i < ARRAY_SIZE(nouns); i++)
		if (text_has_any(p, end, nouns[i]))
			return true;
	return text_has(p, end, ".pt") || text_has(p, end, ".safetensors") ||
	       text_has(p, end, ".distcp");
}

/* The row's kind, if the line is of a save. */
static enum log_took on_save(struct log *g, struct log_line *l, const char *at,
			     const struct log_anchor *a)
{
	enum saying_kind kind = a->kind;

	if (is_setting(l->text, l->end) || !names_a_save(l->text, l->end))
		return LOG_PLAIN;
	if (kind == SAY_SAVE_BEGIN &&
	    (text_has_any(l->text, at, "finished") || text_has_any(l->text, at, "done ") ||
	     text_has_any(at, l->end, " took ") || text_has_any(at, l->end, "completed") ||
	     text_has_any(at, l->end, " done")))
		kind = SAY_SAVE_END;
	return say_save(g, l, kind);
}

/* "checkpoint step 6 done", "[Torch] Checkpoint global_step100 is ready now!", "checkpoint: 2.3 s"
 */
static enum log_took on_checkpoint(struct log *g, struct log_line *l, const char *at,
				   const struct log_anchor *a)
{
	(void)a;
	if (is_setting(l->text, l->end))
		return LOG_PLAIN;
	if (text_has_any(at, l->end, " done") || text_has_any(at, l->end, "is ready now") ||
	    text_has_any(at, l->end, "complete") || text_has_any(at, l->end, "saved") ||
	    text_has_any(at, l->end, "written") || text_has_any(at, l->end, "finalized") ||
	    text_has_any(at, l->end, "save duration"))
		return say_save(g, l, SAY_SAVE_END);
	if (text_has_any(at, l->end, "save request for") ||
	    text_has_any(l->text, at, "scheduled") || text_has_any(l->text, at, "start sav"))
		return say_save(g, l, SAY_SAVE_BEGIN);
	return LOG_PLAIN;
}

/* "time (ms) | save-checkpoint: 12345.67", "save-checkpoint ......: (12222.44, 12222.48)" */
static enum log_took on_save_timer(struct log *g, struct log_line *l, const char *at,
				   const struct log_anchor *a)
{
	struct scan s = scan_of(at + strlen(a->word), l->end);
	struct saying t = saying_of(SAY_SAVE_END);
	double ms;

	while (s.p < s.end && (*s.p == ' ' || *s.p == '.' || *s.p == ':' || *s.p == '('))
		s.p++;
	if (!scan_double(&s, &ms) || !(ms >= 0 && ms < 1e12))
		return LOG_PLAIN;
	t.duration_ns = (int64_t)(ms * 1e6);
	log_say(g, l, &t);
	return LOG_SAID;
}

/* "Getting full model state dict took 109.51 secs": in the middle of a save */
static enum log_took on_event(struct log *g, struct log_line *l, const char *at,
			      const struct log_anchor *a)
{
	/* "[#save] [BEGIN] {"global_step": 177215}" */
	if (!text_has(at, l->end, "{") || at == l->start || at[-1] != '#')
		return LOG_PLAIN;
	(void)a;
	if (text_has(at, l->end, "[BEGIN]"))
		return say_save(g, l, SAY_SAVE_BEGIN);
	if (text_has(at, l->end, "[END]"))
		return say_save(g, l, SAY_SAVE_END);
	return LOG_PLAIN;
}

/* --- who, how many --- */

static enum log_took hello(struct log *g, struct log_line *l, int64_t rank, int64_t world)
{
	struct saying t = saying_of(SAY_HELLO);
	struct scan s = scan_of(l->text, l->end);

	if (rank < 0 || rank >= INT32_MAX)
		return LOG_PLAIN;
	t.rank = rank;
	t.value = world;
	if (scan_to(&s, "cuda:"))
		scan_int(&s, &t.gpu);
	s = scan_of(l->text, l->end);
	if (scan_to_any(&s, "local_rank="))
		scan_digits(&s, &t.local_rank);
	log_say(g, l, &t);
	return LOG_SAID;
}

/* "world size: 16", "world_size=16", "world_size 16" on the line in which a rank says its own. */
static int64_t world_beside(const char *at, const char *end)
{
	static const char *const words[] = { "world size", "world_size", "WORLD_SIZE" };
	int64_t world;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		struct scan s = scan_of(at, end);

		if (!scan_to(&s, words[i]))
			continue;
		while (s.p < s.end && (*s.p == ' ' || *s.p == ':' || *s.p == '='))
			s.p++;
		if (scan_digits(&s, &world) && world > 0)
			return world;
	}
	return -1;
}

/*
 * "Process rank: 0, device: cuda:0", "distributed init (rank 3): env://", "GLOBAL_RANK: 3, MEMBER:
 * 4/8", "on global rank 0", "[Rank 3] (after 1 iterations) memory (MB)"
 */
static enum log_took on_rank(struct log *g, struct log_line *l, const char *at,
			     const struct log_anchor *a)
{
	struct scan s = scan_of(at + strlen(a->word), l->end);
	int64_t rank, world = -1;

	scan_blanks(&s);
	if (!scan_digits(&s, &rank))
		return LOG_PLAIN;
	if (scan_to(&s, "MEMBER: ") && scan_to(&s, "/"))
		scan_int(&s, &world);
	else
		world = world_beside(at, l->end);
	return hello(g, l, rank, world);
}

/* "RANK=11 LOCAL_RANK=3 WORLD_SIZE=16": the environment of torchrun, as programs print it;
   "rank=11" only with its place beside it, since other things have ranks too. */
static enum log_took on_env_rank(struct log *g, struct log_line *l, const char *at,
				 const struct log_anchor *a)
{
	struct scan s = scan_of(at, l->end);
	int64_t rank, world = -1;

	(void)a;
	if ((at > l->start && at[-1] == '_') ||
	    (!scan_eat(&s, "RANK=") &&
	     !(scan_eat_any(&s, "rank=") && text_has_any(s.p, l->end, "local_rank="))) ||
	    !scan_digits(&s, &rank))
		return LOG_PLAIN;
	if (scan_to_any(&s, "world_size="))
		scan_int(&s, &world);
	return hello(g, l, rank, world);
}

/* "[Rank 3] (after 1 iterations) memory (MB)" */
static enum log_took on_memory(struct log *g, struct log_line *l, const char *at,
			       const struct log_anchor *a)
{
	struct scan s = scan_of(l->text, at);
	int64_t rank;

	(void)a;
	if (!scan_to(&s, "[Rank ") || !scan_digits(&s, &rank))
		return LOG_PLAIN;
	return hello(g, l, rank, -1);
}

/* "using world size: 64, ..", "dist_world_size=16" */
static enum log_took on_world(struct log *g, struct log_line *l, const char *at,
			      const struct log_anchor *a)
{
	struct scan s = scan_of(at + strlen(a->word), l->end);
	int64_t v;

	scan_blanks(&s);
	if (s.p < s.end && (*s.p == ':' || *s.p == '='))
		s.p++;
	scan_blanks(&s);
	if (scan_digits(&s, &v) && v > 0 && v < INT32_MAX)
		g->t->world_size = MAX(g->t->world_size, v);
	return LOG_PLAIN;
}

/* --- life --- */

static enum log_took on_words(struct log *g, struct log_line *l, const char *at,
			      const struct log_anchor *a)
{
	struct saying t = saying_of(a->kind);

	(void)at;
	if (a->what)
		t.what = log_name(g, a->what);
	log_say(g, l, &t);
	return LOG_SAID;
}

/* Only at the beginning of the program's own words. */
static enum log_took on_first_words(struct log *g, struct log_line *l, const char *at,
				    const struct log_anchor *a)
{
	return at == l->text ? on_words(g, l, at, a) : LOG_PLAIN;
}

/* Nothing else stands in the line; the word may hold the line's end. */
static enum log_took on_only_words(struct log *g, struct log_line *l, const char *at,
				   const struct log_anchor *a)
{
	return at == l->text && at + strlen(a->word) + 1 >= l->end ? on_words(g, l, at, a)
								   : LOG_PLAIN;
}

/* "training stopped: ValueError('token id 263 out of range')" */
static enum log_took on_stopped(struct log *g, struct log_line *l, const char *at,
				const struct log_anchor *a)
{
	struct saying t = saying_of(SAY_LEFT);
	struct scan s = scan_of(at + strlen(a->word), l->end);
	const char *name;

	while (s.p < s.end && (*s.p == ' ' || *s.p == ':' || *s.p == '-'))
		s.p++;
	for (name = s.p; s.p < s.end && (is_alpha(*s.p) || *s.p == '.' || *s.p == '_'); s.p++)
		;
	if (s.p > name && s.p < s.end && (*s.p == '(' || *s.p == ':'))
		t.what = testimony_name(g->t, name, (size_t)(s.p - name));
	log_say(g, l, &t);
	return LOG_SAID;
}

/* "epoch 0 done", "Epoch 3 finished", "end of epoch 2" */
static enum log_took on_epoch(struct log *g, struct log_line *l, const char *at,
			      const struct log_anchor *a)
{
	static const char *const ends[] = { " done",  " finished", " completed", " complete",
					    " ended", " is over",  " took" };
	struct scan s = scan_of(at + strlen(a->word), l->end);
	struct saying t = saying_of(SAY_EPOCH_END);
	bool over = text_has_any(l->text, at, "end of") || text_has_any(l->text, at, "finished") ||
		    text_has_any(l->text, at, "completed");

	while (s.p < s.end && (*s.p == ' ' || *s.p == ':' || *s.p == '=' || *s.p == '['))
		s.p++;
	if (!scan_digits(&s, &t.value) && !over)
		return LOG_PLAIN;
	scan_eat(&s, "]");
	if (scan_eat(&s, "/")) {
		int64_t total;

		scan_digits(&s, &total);
	}
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		over = over || scan_at(&s, ends[i]);
	if (!over)
		return LOG_PLAIN;
	log_say(g, l, &t);
	return LOG_SAID;
}

/* "validation loss at iteration 1000 | ..", "step 500: train loss 2.1, val loss 2.2" */
static enum log_took on_evaluation(struct log *g, struct log_line *l, const char *at,
				   const struct log_anchor *a)
{
	struct saying t = saying_of(SAY_EVALUATION);

	(void)at;
	(void)a;
	t.value = step_of(l->text, l->end);
	log_say(g, l, &t);
	return LOG_SAID;
}

const struct log_anchor log_save_anchors[] = {
	{ "saving", on_save, SAY_SAVE_BEGIN, NULL, 0 },
	{ "writing", on_save, SAY_SAVE_BEGIN, NULL, 0 },
	{ "saved", on_save, SAY_SAVE_END, NULL, 0 },
	{ "wrote", on_save, SAY_SAVE_END, NULL, 0 },
	{ "checkpoint", on_checkpoint, 0, NULL, 0 },
	{ "save-checkpoint", on_save_timer, 0, NULL, 0 },
	{ "save]", on_event, 0, NULL, 0 },
	{ "process rank:", on_rank, 0, NULL, 0 },
	{ "distributed init (rank", on_rank, 0, NULL, 0 },
	{ "global_rank:", on_rank, 0, NULL, 0 },
	{ "on global rank", on_rank, 0, NULL, 0 },
	{ "rank=", on_env_rank, 0, NULL, 0 },
	{ "iterations) memory", on_memory, 0, NULL, 0 },
	{ "using world size", on_world, 0, NULL, 0 },
	{ "world size", on_world, 0, NULL, 0 },
	{ "dist_world_size", on_world, 0, NULL, 0 },
	{ "world_size", on_world, 0, NULL, 0 },
	{ "training stopped", on_stopped, 0, NULL, 0 },
	{ "destroy_process_group", on_words, SAY_LEFT, "destroy_process_group", 0 },
	{ "destroying process group", on_words, SAY_LEFT, "destroy_process_group", 0 },
	{ "process group has not been destroyed", on_words, SAY_LEFT, "exit", 0 },
	{ "leaving the loop", on_words, SAY_LEFT, NULL, 0 },
	{ "left the loop", on_words, SAY_LEFT, NULL, 0 },
	{ "early stopping", on_words, SAY_LEFT, "early stopping", 0 },
	{ "exiting program", on_words, SAY_LEFT, "exiting program", 0 },
	{ "goodbye", on_only_words, SAY_LEFT, "bye", 0 },
	{ "bye\n", on_only_words, SAY_LEFT, "bye", 0 },
	{ "bye\r", on_only_words, SAY_LEFT, "bye", 0 },
	{ "after training is done", on_words, SAY_DONE, NULL, 0 },
	{ "training completed", on_words, SAY_DONE, NULL, 0 },
	{ "training complete", on_words, SAY_DONE, NULL, 0 },
	{ "training finished", on_words, SAY_DONE, NULL, 0 },
	{ "training is done", on_words, SAY_DONE, NULL, 0 },
	{ "training ended", on_words, SAY_DONE, NULL, 0 },
	{ "training has ended", on_words, SAY_DONE, NULL, 0 },
	{ "training has finished", on_words, SAY_DONE, NULL, 0 },
	{ "training has completed", on_words, SAY_DONE, NULL, 0 },
	{ "training done", on_words, SAY_DONE, NULL, 0 },
	{ "finished training", on_words, SAY_DONE, NULL, 0 },
	{ "done training", on_words, SAY_DONE, NULL, 0 },
	{ "train_runtime", on_words, SAY_DONE, NULL, 0 },
	{ "fit` stopped", on_words, SAY_DONE, NULL, 0 },
	{ "end of data", on_words, SAY_EPOCH_END, "end of data", 0 },
	{ "ran out of data", on_words, SAY_EPOCH_END, "end of data", 0 },
	{ "no more data", on_words, SAY_EPOCH_END, "end of data", 0 },
	{ "dataset exhausted", on_words, SAY_EPOCH_END, "end of data", 0 },
	{ "epoch", on_epoch, 0, NULL, 0 },
	{ "running evaluation", on_evaluation, 0, NULL, 0 },
	{ "validation loss", on_evaluation, 0, NULL, 0 },
	{ "evaluating", on_evaluation, 0, NULL, 0 },
	{ "running validation", on_evaluation, 0, NULL, 0 },
	{ "compiling", on_first_words, SAY_COMPILE, NULL, 0 },
	{ "autotune", on_first_words, SAY_COMPILE, NULL, 0 },
	{ NULL, NULL, 0, NULL, 0 },
};
