/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doing.c - the walk from the innermost frame outwards, by the table of known frames.
 *
 * The innermost frame that tells decides; waits that anything may be behind are passed over and
 * count only if nothing further out is known.
 */
#include "model/doing_rows.h"

#include <stdarg.h>
#include <stdio.h>

static const struct {
	const char *name, *words;
	const char *inside; /* of what is called in it; NULL: as words */
} doings[DOINGS] = {
	[DOING_UNKNOWN] = { "unknown", "at a place that says nothing", NULL },
	[DOING_COLLECTIVE] = { "collective", "in a collective", NULL },
	[DOING_BACKWARD] = { "backward", "in the backward pass, maybe in a collective of it",
			     "in the backward pass" },
	[DOING_GPU_WAIT] = { "gpu-wait", "waiting for its GPU", NULL },
	[DOING_MODEL] = { "model", "in the model's own work", NULL },
	[DOING_DATA] = { "data", "in the data loader", "for the next batch" },
	[DOING_CHECKPOINT] = { "checkpoint", "writing a checkpoint", "in a checkpoint" },
	[DOING_EVALUATION] = { "evaluation", "in the evaluation", NULL },
	[DOING_GC] = { "garbage-collection", "in Python's garbage collection", NULL },
	[DOING_COMPILE] = { "compile", "compiling", NULL },
	[DOING_EXIT] = { "exit", "at its end: it leaves the job", "at its end" },
	[DOING_EXCEPTION] = { "exception", "handling an exception", NULL },
	[DOING_DEBUGGER] = { "debugger", "at a debugger's prompt", NULL },
	[DOING_RENDEZVOUS] = { "rendezvous", "waiting for the group to be set up", NULL },
	[DOING_SERVICE] = { "service", "waiting for a remote service", NULL },
	[DOING_STORAGE] = { "storage", "waiting for storage", NULL },
	[DOING_MEMORY] = { "memory", "waiting for memory of the host", NULL },
	[DOING_SUBPROCESS] = { "subprocess", "waiting for a process that it started", NULL },
	[DOING_SLEEP] = { "sleep", "asleep", NULL },
	[DOING_LOCK] = { "lock", "waiting for a lock, a queue or a socket", NULL },
	[DOING_PYTHON] = { "python", "in code of the training program's own", NULL },
	[DOING_WORKER] = { "worker", "a worker process", NULL },
	[DOING_LAUNCHER] = { "launcher", "the launcher", NULL },
};

const char *doing_name(enum doing d)
{
	return doings[d < DOINGS ? d : DOING_UNKNOWN].name;
}

/* --- does a row know a frame? --- */

static bool row_tells(const struct doing_row *r)
{
	return r->kind == ROW_TELLS || r->kind == ROW_READS;
}

/* "x", "x*", "*x", "*x*"; one star more may stand inside. */
static bool glob(const char *pattern, const char *s)
{
	const char *star = NULL, *retry = s;

	while (*s) {
		if (*pattern == '*') {
			star = pattern++;
			retry = s;
		} else if (*pattern == *s) {
			pattern++;
			s++;
		} else if (star) {
			pattern = star + 1;
			s = ++retry;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

/*
 * A part with a folder in it matches from the start of any name in the path; one without only in
 * the file's own name, since a program may lie in /mnt/datasets. A part that ends in .py is whole.
 */
static bool in_path(const char *path, const char *part)
{
	size_t n = strlen(part);
	bool whole = n > 3 && !strcmp(part + n - 3, ".py");
	const char *slash = strrchr(path, '/');

	if (slash && !strchr(part, '/'))
		path = slash + 1;
	for (const char *p = path; (p = strstr(p, part)); p++) {
		bool begins = p == path || p[-1] == '/';

		if (whole ? begins && !p[n] : begins || (p[-1] == '_' && !strchr(part, '/')))
			return true;
	}
	return false;
}

static bool is_python(const char *function, const char *file)
{
	size_t n = strlen(file);

	return (n > 3 && (!strcmp(file + n - 3, ".py") || !strcmp(file + n - 4, ".pyx"))) ||
	       *file == '<' || *function == '<' || !strcmp(function, "Garbage-collecting");
}

/* "get" of "Queue.get", "wrapper" of "f.<locals>.wrapper". */
static const char *last_part(const char *function)
{
	const char *dot = strrchr(function, '.');

	return dot && dot[1] ? dot + 1 : function;
}

/* The frames of a program's own start, which tell nothing wherever its files lie. */
static bool is_entry(const char *function)
{
	return *function == '<' || !strcmp(function, "main");
}

/* The operation in a call's name, "MPI_Allreduce" too. */
static enum comm_op op_named(const char *function)
{
	const char *mpi = strstr(function, "MPI_");

	function = mpi ? mpi + 4 : function;
	return comm_op_of(function, strlen(function));
}

static const struct doing_row *find_row(const struct doing_rows *rows, const char *function,
					const char *file)
{
	for (size_t i = 0; i < rows->n; i++) {
		const struct doing_row *r = &rows->v[i];

		if (r->function && !glob(r->function, function))
			continue;
		if (r->file && !in_path(file, r->file))
			continue;
		/* A whole file tells of its functions, not of a program that begins in it. */
		if ((!r->function || !strcmp(r->function, "*")) && is_entry(function) &&
		    rows != &doing_no_rank)
			continue;
		/* A file of collectives: the function's name must be one. */
		if (r->doing == DOING_COLLECTIVE && r->op == COMM_NONE &&
		    op_named(function) == COMM_NONE)
			continue;
		return r;
	}
	return NULL;
}

/* --- the walk --- */

/* A forked child shows its parent's frames behind its own. */
static size_t own_frames(const struct intern *names, const struct frame *frames, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(last_part(intern_get(names, frames[i].function)), "_bootstrap") &&
		    in_path(intern_get(names, frames[i].file), "multiprocessing/process.py"))
			return i + 1;
	return n;
}

static const struct doing_row *no_rank_row(const struct intern *names, const struct frame *frames,
					   size_t n, size_t *ret_at)
{
	for (size_t i = 0; i < n; i++) {
		const char *file = intern_get(names, frames[i].file);
		const char *function = last_part(intern_get(names, frames[i].function));
		const struct doing_row *r = find_row(&doing_no_rank, function, file);

		if (r) {
			*ret_at = i;
			return r;
		}
	}
	return NULL;
}

static bool is_library(const char *file)
{
	return in_path(file, "torch/") || strstr(file, "site-packages/") ||
	       strstr(file, "dist-packages/") || strstr(file, "/lib/python");
}

/* Is this frame torch's call of a module, so that what it calls is the model's? */
static bool calls_module(const char *function, const char *file)
{
	return !strcmp(function, "_call_impl") && in_path(file, "torch/nn/modules/module.py");
}

static bool is_model(const char *file)
{
	return in_path(file, "torch/") || in_path(file, "transformer_engine/") ||
	       in_path(file, "flash_attn/") || in_path(file, "apex/") ||
	       in_path(file, "triton/runtime/") || in_path(file, "xformers/");
}

static void found_row(struct doing_found *f, const struct doing_row *r, const struct frame *frame,
		      const char *function)
{
	f->doing = r->doing;
	f->frame = *frame;
	f->words = r->words ? r->words : doings[r->doing].words;
	if (r->doing == DOING_COLLECTIVE)
		f->op = r->op ? r->op : op_named(function);
}

/* What others are called in; a wait for the GPU or in a lock is nothing to be inside of. */
static bool encloses(enum doing d)
{
	return d == DOING_DATA || d == DOING_CHECKPOINT || d == DOING_EVALUATION ||
	       d == DOING_COMPILE || d == DOING_EXIT || d == DOING_EXCEPTION ||
	       d == DOING_RENDEZVOUS || d == DOING_DEBUGGER;
}

/* What encloses a finding: another known thing further out. */
static void found_outer(struct doing_found *f, const struct doing_row *r, const char *function)
{
	enum comm_op op;

	if (!row_tells(r) || r->doing == DOING_BACKWARD)
		return;
	if (r->doing == DOING_COLLECTIVE && f->doing == DOING_COLLECTIVE) {
		op = r->op ? r->op : op_named(function);
		if (f->op == COMM_OTHER && op != COMM_NONE)
			f->op = op;
	} else if (f->inside == DOING_UNKNOWN && r->doing != f->doing && encloses(r->doing)) {
		f->inside = r->doing;
	}
}

struct doing_found doing_of(const struct intern *names, const struct frame *frames, size_t n)
{
	static const struct frame no_frame = { NO_ID, NO_ID, -1 };
	struct doing_found f = { .words = doings[DOING_UNKNOWN].words,
				 .frame = no_frame,
				 .caller = no_frame };
	struct frame first = no_frame; /* the innermost Python frame that no row knows */
	const struct doing_row *wait = NULL, *r;
	struct frame wait_frame = no_frame;
	bool in_model = false, waits_in_python = false;
	size_t at;

	n = own_frames(names, frames, n);
	r = no_rank_row(names, frames, n, &at);
	if (r) {
		found_row(&f, r, &frames[at], "");
		return f;
	}
	for (size_t i = 0; i < n; i++) {
		const char *file = intern_get(names, frames[i].file);
		const char *whole = intern_get(names, frames[i].function);
		bool python = is_python(whole, file);
		const char *function = python ? last_part(whole) : whole;

		r = python ? find_row(&doing_python, function, file)
			   : find_row(&doing_native, function, file);
		if (r && r->kind == ROW_READS && waits_in_python)
			r = NULL;
		waits_in_python |= python && r && r->kind == ROW_WAITS;
		in_model |= python && calls_module(function, file);
		if (python && f.caller.function == NO_ID && !is_library(file) &&
		    (!r || row_tells(r)))
			f.caller = frames[i];
		if (!r) {
			if (python && first.function == NO_ID)
				first = frames[i];
			continue;
		}
		if (f.doing != DOING_UNKNOWN) {
			found_outer(&f, r, function);
		} else if (row_tells(r)) {
			found_row(&f, r, &frames[i], function);
		} else if (r->kind == ROW_WAITS && !wait) {
			wait = r;
			wait_frame = frames[i];
		}
	}
	if (f.doing != DOING_UNKNOWN)
		return f;
	if (wait) {
		found_row(&f, wait, &wait_frame, "");
	} else if (first.function != NO_ID) {
		bool model =
		    is_model(intern_get(names, first.file)) ||
		    (in_model && !strcmp(last_part(intern_get(names, first.function)), "forward"));

		f.doing = model ? DOING_MODEL : DOING_PYTHON;
		f.inside = in_model && !model ? DOING_MODEL : DOING_UNKNOWN;
		f.frame = first;
		f.words = doings[f.doing].words;
	}
	return f;
}

/* --- a process --- */

static const struct thread_stack *main_of(const struct testimony *t, const struct process_stack *p)
{
	for (uint32_t i = 0; i < p->n_threads; i++)
		if (t->threads.v[p->thread + i].main)
			return &t->threads.v[p->thread + i];
	return p->n_threads ? &t->threads.v[p->thread] : NULL;
}

/* In a backward pass the collectives are called by autograd's own threads. */
static bool in_backward(const struct testimony *t, const struct thread_stack *th)
{
	for (uint32_t i = 0; i < th->n_frames; i++) {
		const struct frame *f = &t->frames.v[th->frame + i];
		const char *function = intern_get(&t->names, f->function);

		if (!strcmp(last_part(function), "backward") ||
		    strstr(function, "autograd::Engine"))
			return true;
	}
	return strstr(intern_get(&t->names, th->name), "autograd") != NULL;
}

struct doing_found doing_of_process(const struct testimony *t, const struct process_stack *p)
{
	const struct thread_stack *main = main_of(t, p);
	struct doing_found f;

	if (!main)
		return doing_of(&t->names, NULL, 0);
	f = doing_of(&t->names, main->n_frames ? &t->frames.v[main->frame] : NULL, main->n_frames);
	f.off_cpu = f.doing == DOING_PYTHON && p->tool == STACK_PYSPY && !main->active;
	for (uint32_t i = 0; f.doing == DOING_BACKWARD && i < p->n_threads; i++) {
		const struct thread_stack *th = &t->threads.v[p->thread + i];
		struct doing_found other;

		if (th == main || !th->n_frames || !in_backward(t, th))
			continue;
		other = doing_of(&t->names, &t->frames.v[th->frame], th->n_frames);
		if (other.doing == DOING_COLLECTIVE || other.doing == DOING_GPU_WAIT) {
			other.caller = f.caller;
			other.inside = DOING_BACKWARD;
			return other;
		}
	}
	return f;
}

struct out {
	char *p;
	size_t left;
};

PRINTF_LIKE(2, 3) static void put(struct out *o, const char *format, ...)
{
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(o->p, o->left, format, ap);
	va_end(ap);
	n = MIN(MAX(n, 0), (int)o->left - 1);
	o->p += n;
	o->left -= (size_t)n;
}

const char *doing_text(const struct doing_found *f, const struct intern *names, char *buf,
		       size_t size)
{
	const struct frame *where = f->caller.function != NO_ID ? &f->caller : &f->frame;
	struct out o = { buf, size };

	if (f->doing == DOING_COLLECTIVE && (f->op == COMM_SEND || f->op == COMM_RECV)) {
		put(&o, "in %s", comm_op_name(f->op));
	} else {
		put(&o, "%s", f->words);
		if (f->op != COMM_NONE && f->op != COMM_OTHER)
			put(&o, " (%s)", comm_op_name(f->op));
	}
	if (f->inside != DOING_UNKNOWN)
		put(&o, ", %s",
		    doings[f->inside].inside ? doings[f->inside].inside : doings[f->inside].words);
	if (f->off_cpu)
		put(&o, ", not running: in a blocking call");
	if (where->function == NO_ID)
		return buf;
	put(&o, ": %s", intern_get(names, where->function));
	if (where->file != NO_ID)
		put(&o, " (%s", intern_get(names, where->file));
	if (where->file != NO_ID && where->line >= 0)
		put(&o, ":%d", where->line);
	if (where->file != NO_ID)
		put(&o, ")");
	return buf;
}
