/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_lines.c - processes, threads and frames out of the lines that stack_words.c reads.
 *
 * A process begins at its own line, or where threads begin that cannot be of the one before: a
 * second main thread, a number or an id that was there already, a rule or a heading between.
 * Several headers above one stack are so many processes that stand alike. Nothing reaches the
 * testimony before its process is complete, so mixed speakers never mix stacks.
 */
#include "read/stack_lines.h"

#include "base/ranges.h"

#define SPEAKERS_MAX	     65536u
#define PROCESS_THREADS_MAX  4096u
#define THREAD_FRAMES_MAX    1024u
#define TESTIMONY_FRAMES_MAX (4u << 20)

struct open_thread {
	uint32_t name;
	int64_t tid, number;
	uint32_t frame, n_frames;
	bool active, gil, main, outward, collecting;
};

struct open_process {
	struct stack_speaker from;
	enum stack_tool tool;
	bool open, named; /* named: it has a process line of its own */
	bool child;	  /* of the process before it */
	bool alike;	  /* the headers so far stand above one stack */
	int64_t pid;
	uint32_t command;
	int64_t rank, local_rank;
	uint32_t ranks, host; /* as a heading said, for all that follows it */
	unsigned indent;      /* of the open thread's frames; UINT32_MAX: none yet */
	VEC(struct open_thread) threads;
	VEC(struct frame) frames;
};

struct stack_lines {
	struct testimony *t;
	bool loose;
	VEC(struct open_process) speakers;
	uint32_t *slots; /* by hash of the speaker: row + 1 */
	uint32_t mask;
	uint32_t last, n_open;
	uint64_t n_frames, line;
};

struct stack_speaker stack_speaker_unknown(void)
{
	return (struct stack_speaker){ -1, -1, NO_ID, NO_ID };
}

struct stack_lines *stack_lines_new(struct testimony *t, bool loose)
{
	struct stack_lines *s = xcalloc(1, sizeof(*s));

	s->t = t;
	s->loose = loose;
	return s;
}

bool stack_lines_open(const struct stack_lines *s)
{
	return s->n_open > 0;
}

uint64_t stack_lines_frames(const struct stack_lines *s)
{
	return s->n_frames;
}

/* --- speakers --- */

static bool same_speaker(const struct stack_speaker *a, const struct stack_speaker *b)
{
	return a->rank == b->rank && a->local_rank == b->local_rank && a->host == b->host &&
	       a->prefix == b->prefix;
}

static uint64_t hash_speaker(const struct stack_speaker *a)
{
	uint64_t h = hash_mix(hash_mix(3, (uint64_t)a->rank), (uint64_t)a->local_rank);

	return hash_mix(hash_mix(h, a->host), a->prefix);
}

static void grow_slots(struct stack_lines *s)
{
	uint32_t size = s->slots ? 2 * (s->mask + 1) : 64;

	free(s->slots);
	s->slots = xcalloc(size, sizeof(*s->slots));
	s->mask = size - 1;
	for (uint32_t i = 0; i < s->speakers.n; i++) {
		uint32_t at = (uint32_t)hash_speaker(&s->speakers.v[i].from) & s->mask;

		while (s->slots[at])
			at = (at + 1) & s->mask;
		s->slots[at] = i + 1;
	}
}

/* NULL: too many. */
static struct open_process *process_of(struct stack_lines *s, const struct stack_speaker *from)
{
	uint32_t at;

	if (s->speakers.n && same_speaker(&s->speakers.v[s->last].from, from))
		return &s->speakers.v[s->last];
	if (!s->slots || 4 * s->speakers.n > 3 * s->mask)
		grow_slots(s);
	for (at = (uint32_t)hash_speaker(from) & s->mask; s->slots[at]; at = (at + 1) & s->mask)
		if (same_speaker(&s->speakers.v[s->slots[at] - 1].from, from))
			break;
	if (!s->slots[at]) {
		if (s->speakers.n >= SPEAKERS_MAX)
			return NULL;
		*vec_push(&s->speakers) = (struct open_process){
			.from = *from,
			.pid = -1,
			.command = NO_ID,
			.rank = -1,
			.local_rank = -1,
			.ranks = NO_ID,
			.host = NO_ID,
		};
		s->slots[at] = (uint32_t)s->speakers.n;
	}
	s->last = s->slots[at] - 1;
	return &s->speakers.v[s->last];
}

/* --- ranks of command lines and headings --- */

/* The number behind `word`, "=" or a blank, as a whole option or variable; -1. */
static int64_t option_number(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = text; (p = strstr(p, word)); p += n) {
		const char *v = p + n;
		int64_t number = 0;

		if ((p > text && p[-1] != ' ' && p[-1] != '\'' && p[-1] != '"') ||
		    (*v != '=' && *v != ' ') || v[1] < '0' || v[1] > '9')
			continue;
		for (v++; *v >= '0' && *v <= '9' && number < INT32_MAX; v++)
			number = number * 10 + (*v - '0');
		return number < INT32_MAX ? number : -1;
	}
	return -1;
}

static void ranks_of_command(const char *command, int64_t *rank, int64_t *local_rank)
{
	static const struct {
		const char *word;
		bool local;
	} words[] = {
		{ "RANK", false },	    { "--rank", false },    { "--global_rank", false },
		{ "--global-rank", false }, { "LOCAL_RANK", true }, { "--local_rank", true },
		{ "--local-rank", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		int64_t *to = words[i].local ? local_rank : rank;

		if (*to < 0)
			*to = option_number(command, words[i].word);
	}
}

/* --- a process ends --- */

/* The main thread, where no tool said which: of the process's id, gdb's first, the one that runs a
   module, the one that faulthandler and pystack print last, or the only one. */
static void find_main(struct stack_lines *s, struct open_process *p)
{
	struct open_thread *found = NULL;

	for (size_t i = 0; i < p->threads.n; i++)
		if (p->threads.v[i].main)
			return;
	for (size_t i = 0; i < p->threads.n && !found; i++)
		if (p->pid >= 0 && p->threads.v[i].tid == p->pid)
			found = &p->threads.v[i];
	for (size_t i = 0; i < p->threads.n && !found; i++)
		if (p->tool == STACK_GDB && p->threads.v[i].number == 1)
			found = &p->threads.v[i];
	for (size_t i = 0; i < p->threads.n && !found; i++) {
		const struct open_thread *th = &p->threads.v[i];
		uint32_t outer =
		    th->n_frames ? p->frames.v[th->frame + th->n_frames - 1].function : NO_ID;
		const char *name = intern_get(&s->t->names, outer);

		if (!strcmp(name, "<module>") || !strcmp(name, "_start") ||
		    !strcmp(name, "__libc_start_main") || !strcmp(name, "_run_module_as_main"))
			found = &p->threads.v[i];
	}
	if (!found && (p->tool == STACK_FAULTHANDLER || p->threads.n == 1))
		found = &p->threads.v[p->threads.n - 1];
	if (found)
		found->main = true;
}

/* Innermost first, whatever the tool's order. */
static void turn_around(struct open_process *p, const struct open_thread *th)
{
	for (uint32_t a = th->frame, b = th->frame + th->n_frames; a + 1 < b; a++) {
		struct frame f = p->frames.v[a];

		p->frames.v[a] = p->frames.v[--b];
		p->frames.v[b] = f;
	}
}

static void give_thread(struct stack_lines *s, const struct open_process *p,
			const struct open_thread *th)
{
	struct thread_stack *to = testimony_thread(s->t);

	to->name = th->name;
	to->main = th->main;
	to->active = th->active;
	to->gil = th->gil;
	if (th->collecting)
		testimony_frame(s->t, testimony_name(s->t, "Garbage-collecting", 18), NO_ID, -1);
	for (uint32_t i = 0; i < th->n_frames; i++) {
		const struct frame *f = &p->frames.v[th->frame + i];

		testimony_frame(s->t, f->function, f->file, f->line);
	}
	s->n_frames += th->n_frames;
}

static struct process_stack *give_head(struct stack_lines *s, const struct open_process *p)
{
	struct process_stack *to = testimony_stack(s->t);
	int64_t *ranks;
	size_t n;

	if (!to)
		return NULL;
	to->tool = p->tool;
	to->pid = p->pid;
	to->command = p->command;
	to->host = p->from.host != NO_ID ? p->from.host : p->host;
	to->rank = p->from.rank >= 0 ? p->from.rank : p->rank;
	to->local_rank = p->from.local_rank >= 0 ? p->from.local_rank : p->local_rank;
	/* A data loader's worker has its parent's command line. */
	if (p->child)
		to->rank = to->local_rank = -1;
	else if (p->command != NO_ID)
		ranks_of_command(intern_get(&s->t->names, p->command), &to->rank, &to->local_rank);
	if (p->ranks != NO_ID && to->rank < 0 && !p->child &&
	    ranges_parse(intern_get(&s->t->names, p->ranks), &ranks, &n, NULL) >= 0) {
		if (n == 1) {
			to->rank = ranks[0];
		} else if (n) {
			to->ranks = p->ranks;
			to->processes = (uint32_t)n;
		}
		free(ranks);
	}
	return to;
}

/* Headers above one stack: a process each, all with the last one's frames. */
static void give_alike(struct stack_lines *s, struct open_process *p)
{
	struct open_thread last = p->threads.v[p->threads.n - 1];
	uint32_t frame = (uint32_t)s->t->frames.n;
	size_t n = p->ranks != NO_ID ? 1 : p->threads.n;

	for (size_t i = 0; i < n; i++) {
		struct open_thread *th = &p->threads.v[p->threads.n - n + i];
		struct process_stack *to;
		struct thread_stack *given;

		p->pid = p->tool == STACK_PYSPY || p->tool == STACK_KERNEL ? th->tid : -1;
		to = give_head(s, p);
		if (!to)
			return;
		last.name = th->name;
		last.main = true;
		last.active = th->active;
		last.gil = th->gil;
		if (!i) {
			give_thread(s, p, &last);
			continue;
		}
		given = testimony_thread(s->t);
		given->name = th->name;
		given->main = true;
		given->active = th->active;
		given->gil = th->gil;
		given->frame = frame;
		given->n_frames = last.n_frames;
	}
}

static void end_process(struct stack_lines *s, struct open_process *p)
{
	bool any = false;

	for (size_t i = 0; i < p->threads.n; i++) {
		any |= p->threads.v[i].n_frames > 0;
		if (p->threads.v[i].outward)
			turn_around(p, &p->threads.v[i]);
	}
	if (any && s->t->frames.n + p->frames.n > TESTIMONY_FRAMES_MAX) {
		s->t->dropped++;
	} else if (any && p->alike && p->threads.n > 1) {
		give_alike(s, p);
	} else if (any) {
		find_main(s, p);
		for (size_t i = 0; i < p->threads.n && p->pid < 0; i++)
			if (p->threads.v[i].main && p->tool != STACK_FAULTHANDLER)
				p->pid = p->threads.v[i].tid;
		if (give_head(s, p))
			for (size_t i = 0; i < p->threads.n; i++)
				if (p->threads.v[i].n_frames)
					give_thread(s, p, &p->threads.v[i]);
	}
	s->n_open -= p->open;
	p->open = p->named = p->child = p->alike = false;
	p->pid = -1;
	p->command = NO_ID;
	p->threads.n = 0;
	p->frames.n = 0;
}

void stack_lines_end(struct stack_lines *s)
{
	for (size_t i = 0; i < s->speakers.n; i++)
		if (s->speakers.v[i].threads.n)
			end_process(s, &s->speakers.v[i]);
}

struct stack_lines *stack_lines_free(struct stack_lines *s)
{
	if (!s)
		return NULL;
	stack_lines_end(s);
	for (size_t i = 0; i < s->speakers.n; i++) {
		free(s->speakers.v[i].threads.v);
		free(s->speakers.v[i].frames.v);
	}
	free(s->speakers.v);
	free(s->slots);
	free(s);
	return NULL;
}

/* --- lines --- */

static uint32_t name_of(struct stack_lines *s, struct text t)
{
	return text_len(t) ? testimony_name(s->t, t.p, text_len(t)) : NO_ID;
}

/* As py-spy shortens it: without the folder that installed packages or Python itself lie in, so
   that stacks of several tools and machines are alike. */
static struct text short_file(struct text t)
{
	static const char *const folders[] = { "/site-packages/", "/dist-packages/" };
	const char *at;

	for (size_t i = 0; i < ARRAY_SIZE(folders) && text_len(t); i++) {
		size_t n = strlen(folders[i]);

		while ((at = memmem(t.p, text_len(t), folders[i], n)))
			t.p = at + n;
	}
	at = text_len(t) ? memmem(t.p, text_len(t), "/lib/python3", 12) : NULL;
	at = at ? memchr(at + 5, '/', (size_t)(t.end - at - 5)) : NULL;
	if (at && at + 1 < t.end)
		t.p = at + 1;
	return t;
}

static bool take_process(struct stack_lines *s, struct open_process *p, const struct stack_word *w)
{
	if (w->parent) {
		p->child = p->named;
		return p->named;
	}
	end_process(s, p);
	p->named = true;
	p->tool = w->tool;
	p->pid = w->pid;
	p->command = name_of(s, w->name);
	return s->loose;
}

static bool is_new_process(const struct open_process *p, const struct stack_word *w)
{
	if (!p->threads.n)
		return false;
	if (p->tool != w->tool || (w->tool == STACK_KERNEL && w->pid != p->pid))
		return true;
	if (w->alone)
		return true;
	for (size_t i = 0; i < p->threads.n; i++) {
		const struct open_thread *th = &p->threads.v[i];

		if (w->main && th->main)
			return true;
		if (w->number >= 0 && w->number == th->number)
			return true;
		if (w->tid >= 0 && w->tid == th->tid)
			return true;
		if (w->active && th->active && w->tool == STACK_FAULTHANDLER)
			return true;
	}
	return false;
}

static bool take_thread(struct stack_lines *s, struct open_process *p, const struct stack_word *w)
{
	struct open_thread *last = p->threads.n ? &p->threads.v[p->threads.n - 1] : NULL;

	/* Main threads in a row, no frame between them: so many processes stand in what follows. */
	if (!p->named && last && !last->n_frames && last->main && w->main && w->tool == p->tool &&
	    w->tool == STACK_PYSPY)
		p->alike = true;
	else if (p->alike || is_new_process(p, w))
		end_process(s, p);
	if (p->threads.n >= PROCESS_THREADS_MAX) {
		s->t->dropped++;
		return true;
	}
	s->n_open += !p->open;
	p->open = true;
	p->indent = UINT32_MAX;
	if (!p->threads.n && !p->named)
		p->tool = w->tool;
	if (w->pid >= 0)
		p->pid = w->pid;
	*vec_push(&p->threads) = (struct open_thread){
		.name = name_of(s, w->name),
		.tid = w->tid,
		.number = w->number,
		.frame = (uint32_t)p->frames.n,
		.active = w->active,
		.gil = w->gil,
		.main = w->main || w->alone,
		.outward = w->outward,
		.collecting = w->collecting,
	};
	return true;
}

static bool take_frame(struct stack_lines *s, struct open_process *p, const struct stack_word *w)
{
	struct open_thread *th;

	/* gdb's bt and a copied /proc/PID/stack have no header. */
	if (!p->threads.n || !p->open) {
		struct stack_word head = { .kind = WORD_THREAD,
					   .tool = w->tool,
					   .pid = -1,
					   .tid = -1,
					   .number = -1,
					   .line = -1,
					   .alone = true };

		if (!s->loose || (w->tool != STACK_GDB && w->tool != STACK_KERNEL))
			return false;
		take_thread(s, p, &head);
	}
	th = &p->threads.v[p->threads.n - 1];
	/* What is indented deeper than a frame is a variable or a line of code. */
	if (p->indent == UINT32_MAX)
		p->indent = w->indent;
	else if (w->indent > p->indent + 2 && w->tool != STACK_KERNEL)
		return true;
	if (w->kind != WORD_FRAME)
		return true;
	if (th->n_frames >= THREAD_FRAMES_MAX) {
		s->t->dropped++;
		return true;
	}
	*vec_push(&p->frames) =
	    (struct frame){ name_of(s, w->function), name_of(s, short_file(w->file)), w->line };
	th->n_frames++;
	return true;
}

static bool take_place(struct stack_lines *s, struct open_process *p, const struct stack_word *w)
{
	if (!s->loose)
		return false;
	end_process(s, p);
	p->rank = p->local_rank = -1;
	p->ranks = NO_ID;
	if (text_len(w->ranks)) {
		char set[256], *to = set;

		for (const char *c = w->ranks.p; c < w->ranks.end && to < set + sizeof(set) - 1;
		     c++)
			if (*c != ' ')
				*to++ = *c;
		p->ranks = testimony_name(s->t, set, (size_t)(to - set));
	}
	if (text_len(w->host))
		p->host = name_of(s, w->host);
	p->pid = w->pid;
	return true;
}

static bool take_other(struct stack_lines *s, struct open_process *p, const struct stack_word *w)
{
	struct saying fatal;

	switch (w->kind) {
	case WORD_BLANK:
		return p->open;
	case WORD_RULE:
		if (s->loose)
			end_process(s, p);
		return s->loose;
	case WORD_NOTE:
		return p->open || s->loose;
	case WORD_ORDER:
		if (p->open && p->threads.n && !p->threads.v[p->threads.n - 1].n_frames)
			p->threads.v[p->threads.n - 1].outward = w->outward;
		return p->open;
	case WORD_TIMEOUT:
		end_process(s, p);
		return s->loose;
	case WORD_FATAL:
		end_process(s, p);
		if (!s->loose)
			return false; /* the log says it itself */
		fatal = saying_of(SAY_FATAL);
		fatal.rank = p->from.rank;
		fatal.host = p->from.host;
		fatal.what = fatal.text = name_of(s, w->name);
		fatal.line = s->line;
		testimony_say(s->t, &fatal);
		return true;
	default: /* indented below a frame: a variable, a line of code, gdb's wrapped arguments */
		return p->open && p->threads.n && w->indent >= 4;
	}
}

bool stack_lines_take(struct stack_lines *s, const struct stack_speaker *from, const char *line,
		      size_t len)
{
	struct open_process *p = process_of(s, from);
	struct stack_word w;
	bool taken;

	s->line++;
	if (!p) {
		s->t->dropped++;
		return false;
	}
	w = stack_word_of(line, len, p->open);
	switch (w.kind) {
	case WORD_PROCESS:
		taken = take_process(s, p, &w);
		break;
	case WORD_THREAD:
		taken = take_thread(s, p, &w);
		break;
	case WORD_FRAME:
	case WORD_LOST_FRAME:
		taken = take_frame(s, p, &w);
		break;
	case WORD_PLACE:
		taken = take_place(s, p, &w);
		break;
	default:
		taken = take_other(s, p, &w);
	}
	/* In a log any other line of the same speaker ends its stack. */
	if (!taken && !s->loose && p->open)
		end_process(s, p);
	return taken;
}
