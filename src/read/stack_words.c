/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stack_words.c - one line of a stack dump, by a table of what each tool writes.
 *
 * The rows are asked in order; the first that takes the line says what it is. They key on words and
 * punctuation that the tools have kept over their versions, never on columns, and read nothing
 * outside the line.
 */
#include "read/stack_words.h"

#include <strings.h>

#define PLACE_LEN_MAX 160u

/* --- texts --- */

static struct text skip_blanks(struct text t)
{
	while (t.p < t.end && (*t.p == ' ' || *t.p == '\t'))
		t.p++;
	return t;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_one_of(char c, const char *set)
{
	return c && strchr(set, c);
}

static bool is_word(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool starts(struct text t, const char *prefix)
{
	size_t n = strlen(prefix);

	return text_len(t) >= n && !memcmp(t.p, prefix, n);
}

/* Moves behind the prefix if it is there, whatever its case. */
static bool take(struct text *t, const char *prefix)
{
	size_t n = strlen(prefix);

	if (text_len(*t) < n || strncasecmp(t->p, prefix, n))
		return false;
	t->p += n;
	return true;
}

static bool ends(struct text t, const char *suffix)
{
	size_t n = strlen(suffix);

	return text_len(t) >= n && !memcmp(t.end - n, suffix, n);
}

static const char *find(struct text t, const char *part)
{
	return t.p < t.end ? memmem(t.p, text_len(t), part, strlen(part)) : NULL;
}

static const char *find_last(struct text t, const char *part)
{
	const char *at = NULL, *next;

	while ((next = find(t, part))) {
		at = next;
		t.p = next + 1;
	}
	return at;
}

/* Digits at the front, moved over; -1 if there are none or too many. */
static int64_t take_number(struct text *t)
{
	const char *p = t->p;
	int64_t v = 0;

	while (p < t->end && is_digit(*p) && v <= INT32_MAX)
		v = v * 10 + (*p++ - '0');
	if (p == t->p || v > INT32_MAX || (p < t->end && is_digit(*p)))
		return -1;
	t->p = p;
	return v;
}

/* "0x7f.." at the front, moved over. */
static bool take_address(struct text *t)
{
	const char *p = t->p + 2;

	if (text_len(*t) < 3 || t->p[0] != '0' || (t->p[1] | 0x20) != 'x')
		return false;
	while (p < t->end && (is_digit(*p) || ((*p | 0x20) >= 'a' && (*p | 0x20) <= 'f')))
		p++;
	if (p == t->p + 2)
		return false;
	t->p = p;
	return true;
}

/* The number behind `part`, wherever it stands; -1. */
static int64_t number_behind(struct text t, const char *part)
{
	const char *at = find(t, part);
	struct text rest;

	if (!at)
		return -1;
	rest = skip_blanks((struct text){ at + strlen(part), t.end });
	return take_number(&rest);
}

/* What stands between quotes, from the first one on; empty if there are none. */
static struct text quoted(struct text t)
{
	const char *from = memchr(t.p, '"', text_len(t));
	const char *to = from ? memchr(from + 1, '"', (size_t)(t.end - from - 1)) : NULL;

	return to ? (struct text){ from + 1, to } : (struct text){ t.p, t.p };
}

/* --- processes and threads --- */

static bool process_line(struct text t, struct stack_word *w)
{
	w->parent = take(&t, "Parent ");
	if (!take(&t, "Process "))
		return false;
	w->pid = take_number(&t);
	if (w->pid < 0 || !take(&t, ":"))
		return false;
	w->kind = WORD_PROCESS;
	w->tool = STACK_PYSPY;
	w->name = skip_blanks(t);
	return true;
}

/* "PID 123 - process", "PID 123 - core" of eu-stack; "TID 123:" of its threads. */
static bool elfutils_line(struct text t, struct stack_word *w)
{
	bool thread = starts(t, "TID ");

	if (!thread && !starts(t, "PID "))
		return false;
	t.p += 4;
	w->pid = take_number(&t);
	if (w->pid < 0 || !(thread ? take(&t, ":") && t.p == t.end
				   : take(&t, " - process") || take(&t, " - core")))
		return false;
	w->tool = STACK_OTHER;
	w->kind = thread ? WORD_THREAD : WORD_PROCESS;
	if (thread) {
		w->tid = w->pid;
		w->pid = -1;
	}
	return true;
}

/* Thread 123 (active+gil): "MainThread"; the id in hexadecimal is pthread's. */
static bool pyspy_thread(struct text t, struct stack_word *w)
{
	const char *close;
	struct text state;

	if (!take(&t, "Thread "))
		return false;
	if (!take_address(&t)) {
		w->tid = take_number(&t);
		if (w->tid < 0)
			return false;
	}
	if (!take(&t, " ("))
		return false;
	close = memchr(t.p, ')', text_len(t));
	if (!close)
		return false;
	state = (struct text){ t.p, close };
	if (!starts(state, "idle") && !starts(state, "active"))
		return false;
	w->kind = WORD_THREAD;
	w->tool = STACK_PYSPY;
	w->active = starts(state, "active");
	w->gil = find(state, "gil") != NULL;
	w->name = quoted((struct text){ close, t.end });
	w->main = text_len(w->name) == 10 && starts(w->name, "MainThread");
	return true;
}

/* Thread 0x00007f.. [name] (most recent call first): and "Current thread .."; or "Stack (..):" */
static bool faulthandler_thread(struct text t, struct stack_word *w)
{
	const char *order = find(t, "(most recent call ");
	const char *open;

	if (!order || !ends(t, ":"))
		return false;
	w->active = take(&t, "Current thread ");
	w->alone = !w->active && starts(t, "Stack (");
	if (!w->alone && !w->active && !take(&t, "Thread "))
		return false;
	if (!w->alone && !take_address(&t) && take_number(&t) < 0)
		return false;
	open = memchr(t.p, '[', (size_t)(order - t.p > 0 ? order - t.p : 0));
	if (open) {
		const char *close = memchr(open, ']', (size_t)(order - open));

		if (close)
			w->name = (struct text){ open + 1, close };
	}
	w->kind = WORD_THREAD;
	w->tool = STACK_FAULTHANDLER;
	w->gil = w->active;
	w->outward = !starts((struct text){ order, t.end }, "(most recent call first");
	return true;
}

/* Thread 2 (Thread 0x7f.. (LWP 123) "name"): with gdb, pstack and rocgdb */
static bool gdb_thread(struct text t, struct stack_word *w)
{
	if (!take(&t, "Thread "))
		return false;
	w->number = take_number(&t);
	if (w->number < 0)
		return false;
	t = skip_blanks(t);
	if (!ends(t, ":") || (!starts(t, "(") && !starts(t, "\"")))
		return false;
	w->kind = WORD_THREAD;
	w->tool = STACK_GDB;
	w->tid = number_behind(t, "LWP");
	if (w->tid < 0)
		w->tid = number_behind(t, "process");
	w->name = quoted(t);
	return true;
}

/* Traceback for thread 123 (python) [Has the GIL] (most recent call last): */
static bool pystack_thread(struct text t, struct stack_word *w)
{
	const char *from, *to;

	if (!take(&t, "Traceback for thread "))
		return false;
	w->tid = take_number(&t);
	if (w->tid < 0)
		return false;
	w->kind = WORD_THREAD;
	w->tool = STACK_OTHER;
	w->gil = find(t, "Has the GIL") != NULL;
	w->active = w->gil;
	w->collecting = find(t, "arbage collecting") != NULL;
	w->outward = !find(t, "most recent call first");
	from = memchr(t.p, '(', text_len(t));
	to = from ? memchr(from, ')', (size_t)(t.end - from)) : NULL;
	if (to)
		w->name = (struct text){ from + 1, to };
	return true;
}

/* What people print of sys._current_frames(): "# ThreadID: 123", "# Thread: MainThread(140..)". */
static bool homemade_thread(struct text t, struct stack_word *w)
{
	bool marked = false;

	while (t.p < t.end && is_one_of(*t.p, "#*-= ")) {
		marked |= *t.p != ' ';
		t.p++;
	}
	if (!take(&t, "Thread"))
		return false;
	if (!take(&t, "ID") && !take(&t, " ID") && !take(&t, "-ID") && !marked)
		return false;
	if (!take(&t, ":") && !take(&t, "="))
		return false;
	t = skip_blanks(t);
	w->kind = WORD_THREAD;
	w->tool = STACK_OTHER;
	w->main = find(t, "MainThread") != NULL;
	w->outward = true;
	while (t.p < t.end && is_one_of(t.end[-1], " #*-=:"))
		t.end--;
	if (!is_digit(t.p < t.end ? *t.p : ' '))
		w->name = t;
	return t.p < t.end;
}

/* /proc/123/task/456/stack as a heading, of whatever prints it: "==> .. <==", "..:". */
static bool proc_heading(struct text t, struct stack_word *w)
{
	const char *at = find(t, "proc/");
	struct text rest;

	if (!at || !find(t, "/stack"))
		return false;
	rest = (struct text){ at + 5, t.end };
	w->pid = take_number(&rest);
	if (w->pid < 0)
		return false;
	w->tid = w->pid;
	if (take(&rest, "/task/")) {
		w->tid = take_number(&rest);
		if (w->tid < 0)
			return false;
	}
	if (!take(&rest, "/stack"))
		return false;
	w->kind = WORD_THREAD;
	w->tool = STACK_KERNEL;
	w->main = w->tid == w->pid;
	return true;
}

/* task:python3  state:D stack:0  pid:1234 ppid:1: of the kernel's list of blocked tasks */
static bool task_heading(struct text t, struct stack_word *w)
{
	const char *state;

	if (!take(&t, "task:"))
		return false;
	state = find(t, "state:");
	if (!state)
		return false;
	w->pid = number_behind(t, " pid:");
	if (w->pid < 0)
		return false;
	w->kind = WORD_THREAD;
	w->tool = STACK_KERNEL;
	w->tid = w->pid;
	w->main = true;
	w->active = starts((struct text){ state, t.end }, "state:R");
	w->name = (struct text){ t.p, t.p };
	while (w->name.end < state && *w->name.end != ' ')
		w->name.end++;
	return true;
}

static bool fatal_line(struct text t, struct stack_word *w)
{
	if (take(&t, "Fatal Python error: "))
		w->kind = WORD_FATAL;
	else if (starts(t, "Timeout (") && ends(t, ")!"))
		w->kind = WORD_TIMEOUT;
	else
		return false;
	w->tool = STACK_FAULTHANDLER;
	w->name = t;
	return true;
}

/* --- frames --- */

/* File "x.py", line 3, in f; without the comma by faulthandler; "(C) File .." by pystack. */
static bool python_frame(struct text t, struct stack_word *w)
{
	const char *line, *in;
	struct text rest;
	bool native = take(&t, "(C) ");

	if (!native)
		(void)(take(&t, "(Python) ") || take(&t, "(Cython) ") || take(&t, "(Rust) ") ||
		       take(&t, "(C++) "));
	if (!take(&t, "File \"") && !take(&t, "File: \""))
		return false;
	line = find(t, "\", line ");
	if (!line)
		return false;
	w->file = (struct text){ t.p, line };
	rest = (struct text){ line + 8, t.end };
	w->line = (int32_t)take_number(&rest);
	in = find(rest, " in ");
	if (in)
		w->function = (struct text){ in + 4, rest.end };
	if (in && native) {
		const char *lib = find_last(w->function, " (");

		/* f (inlined) (libc.so.6) */
		if (lib && ends(w->function, ")")) {
			w->file = (struct text){ lib + 2, w->function.end - 1 };
			w->line = -1;
			w->function.end = lib;
		}
		lib = find_last(w->function, " (inlined)");
		if (lib)
			w->function.end = lib;
	}
	w->kind =
	    text_len(w->function) && !starts(w->function, "???") ? WORD_FRAME : WORD_LOST_FRAME;
	return true;
}

/* Frame 0x.., for file x.py, line 3, in f (args): Python's, by gdb's older helper */
static bool helper_frame(struct text t, struct stack_word *w)
{
	const char *file = find(t, ", for file "), *line, *args;
	struct text rest;

	if (!starts(t, "Frame 0x") || !file)
		return false;
	line = find((struct text){ file, t.end }, ", line ");
	if (!line)
		return true;
	w->file = (struct text){ file + 11, line };
	rest = (struct text){ line + 7, t.end };
	w->line = (int32_t)take_number(&rest);
	if (!take(&rest, ", in "))
		return true;
	args = find(rest, " (");
	w->function = (struct text){ rest.p, args ? args : rest.end };
	w->kind = WORD_FRAME;
	return true;
}

/* Where the arguments begin, outside of angle brackets; NULL. */
static const char *find_args(struct text t)
{
	int depth = 0;

	for (const char *p = t.p; p + 1 < t.end; p++) {
		depth += *p == '<' ? 1 : *p == '>' && depth ? -1 : 0;
		if (!depth && p[0] == ' ' && p[1] == '(')
			return p;
	}
	return NULL;
}

/* A line's number behind the file. */
static void split_line(struct stack_word *w)
{
	const char *colon = find_last(w->file, ":");
	struct text rest;
	int64_t line;

	if (!colon)
		return;
	rest = (struct text){ colon + 1, w->file.end };
	line = take_number(&rest);
	if (line < 0)
		return;
	w->line = (int32_t)line;
	w->file.end = colon;
}

/* #1  0x00007f.. in f (args) at file.c:12; .. f () from lib.so; eu-stack: 0x00007f.. f - lib */
static bool numbered_frame(struct text t, struct stack_word *w)
{
	const char *args, *at;
	struct text tail;
	bool address;

	if (!take(&t, "#") || take_number(&t) < 0 || (t.p < t.end && *t.p != ' '))
		return false;
	t = skip_blanks(t);
	w->kind = WORD_LOST_FRAME;
	address = take_address(&t);
	t = skip_blanks(t);
	if (take(&t, "in "))
		address = false; /* gdb's form */
	if (starts(t, "<signal") || starts(t, "(frame info") || starts(t, "?? ") || t.p == t.end ||
	    helper_frame(t, w))
		return true;
	args = find_args(t);
	tail = (struct text){ args ? args : t.p, t.end };
	if (args) {
		at = find_last(tail, ") at ");
		w->file = at ? (struct text){ at + 5, t.end } : w->file;
		if (!at && (at = find_last(tail, ") from ")))
			w->file = (struct text){ at + 7, t.end };
		at = args;
	} else if (address) {
		at = find(t, " - ");
		w->file = at ? (struct text){ at + 3, t.end } : w->file;
	} else {
		/* "#0 f from x.py:12" is where torch called an operation, not where it stands. */
		at = find(t, " from ");
		if (at && find((struct text){ at, t.end }, ":"))
			return false;
		/* "#182 finished ranks:" is a sentence, of PyTorch's desync report. */
		if (!at && find(t, " "))
			return false;
		w->file = at ? (struct text){ at + 6, t.end } : w->file;
	}
	w->function = (struct text){ t.p, at ? at : t.end };
	split_line(w);
	w->kind = WORD_FRAME;
	return true;
}

static bool gdb_frame(struct text t, struct stack_word *w)
{
	w->tool = STACK_GDB;
	return numbered_frame(t, w);
}

/* [<0>] futex_wait_queue+0x60/0x90 [module]; in dmesg without the address */
static bool kernel_frame(struct text t, struct stack_word *w)
{
	const char *plus;
	struct text offset;

	if (take(&t, "[<")) {
		const char *close = find(t, ">]");

		if (!close)
			return false;
		t.p = close + 2;
	}
	t = skip_blanks(t);
	w->kind = WORD_LOST_FRAME;
	w->tool = STACK_KERNEL;
	if (take(&t, "? "))
		return true; /* what the kernel itself is not sure of */
	plus = memchr(t.p, '+', text_len(t));
	if (!plus)
		return false;
	offset = (struct text){ plus + 1, t.end };
	if (!take_address(&offset) || !take(&offset, "/") || !take_address(&offset))
		return false;
	w->function = (struct text){ t.p, plus };
	offset = skip_blanks(offset);
	if (starts(offset, "[") && ends(offset, "]"))
		w->file = (struct text){ offset.p + 1, offset.end - 1 };
	for (const char *p = t.p; p < plus; p++)
		if (!is_word(*p) && *p != '.')
			return false;
	w->kind = WORD_FRAME;
	return plus > t.p;
}

/* Binary file "libc.so.6", at f+0x48 [0x7f..] */
static bool binary_frame(struct text t, struct stack_word *w)
{
	const char *at, *plus;

	if (!take(&t, "Binary file \""))
		return false;
	at = find(t, "\", at ");
	w->kind = WORD_LOST_FRAME;
	if (!at)
		return true;
	w->file = (struct text){ t.p, at };
	plus = memchr(at + 6, '+', (size_t)(t.end - at - 6));
	if (plus && plus > at + 6) {
		w->function = (struct text){ at + 6, plus };
		w->kind = WORD_FRAME;
	}
	return true;
}

/* Garbage-collecting, as faulthandler says it where a frame would stand */
static bool collecting_line(struct text t, struct stack_word *w)
{
	if (!starts(t, "Garbage-collecting"))
		return false;
	w->kind = WORD_FRAME;
	w->collecting = true;
	w->function = t;
	return true;
}

/* f (torch/x.py:12), f (libc.so.6), 0x7f.. (libc.so.6) */
static bool pyspy_frame(struct text t, struct stack_word *w)
{
	const char *open = find_last(t, " ("), *colon;

	if (!open || open == t.p || !ends(t, ")"))
		return false;
	w->file = (struct text){ open + 2, t.end - 1 };
	if (!text_len(w->file))
		return false;
	w->function = (struct text){ t.p, open };
	colon = find_last(w->file, ":");
	if (colon) {
		struct text rest = { colon + 1, w->file.end };
		int64_t line = take_number(&rest);

		if (line >= 0 && rest.p == rest.end) {
			w->line = (int32_t)line;
			w->file.end = colon;
		}
	}
	w->kind = WORD_FRAME;
	if (starts(w->function, "0x") && w->line < 0)
		w->kind = WORD_LOST_FRAME;
	return true;
}

/* --- the rest --- */

/* Lines that belong to a dump and tell nothing of where a thread stands. */
static bool note_line(struct text t, struct stack_word *w)
{
	static const char *const notes[] = {
		"Python v",
		"[New LWP ",
		"[New Thread ",
		"[Thread debugging using ",
		"Using host libthread_db",
		"[Inferior ",
		"Extension modules: ",
		"<no Python frame>",
		"Attaching to process ",
		"Attaching to program",
		"warning: ",
		"Call Trace:",
		"<TASK>",
		"</TASK>",
		"Reading symbols from ",
		"Python runtime state: ",
		"<truncated rest of calls>",
	};

	for (size_t i = 0; i < ARRAY_SIZE(notes); i++) {
		if (!starts(t, notes[i]))
			continue;
		w->kind = WORD_NOTE;
		return true;
	}
	return false;
}

static bool order_line(struct text t, struct stack_word *w)
{
	if (!take(&t, "Traceback (most recent call ") && !take(&t, "Stack (most recent call "))
		return false;
	w->kind = WORD_ORDER;
	w->outward = !starts(t, "first");
	return true;
}

static bool is_rule(struct text t)
{
	if (text_len(t) < 3)
		return false;
	for (const char *p = t.p; p < t.end; p++)
		if (*p != t.p[0] || !is_one_of(*p, "-=*#_~"))
			return false;
	return true;
}

/* A set of ranks at the front: "3", "0-3,5", "0, 1, 2". */
static struct text take_set(struct text t)
{
	struct text set = { t.p, t.p };

	while (t.p < t.end && is_digit(*t.p)) {
		while (t.p < t.end && is_digit(*t.p))
			t.p++;
		set.end = t.p;
		if (t.p < t.end && (*t.p == '-' || *t.p == ','))
			t.p++;
		t = skip_blanks(t);
	}
	return set;
}

/* The set behind "rank" or "ranks". False: undecorated, the line says more than that. */
static bool place_ranks(struct text t, bool decorated, struct text *ret)
{
	for (const char *p = t.p; p + 4 < t.end; p++) {
		struct text rest = { p, t.end };

		if ((p > t.p && is_word(p[-1])) || !take(&rest, "rank"))
			continue;
		(void)take(&rest, "s");
		while (rest.p < rest.end && is_one_of(*rest.p, " :=#_-["))
			rest.p++;
		*ret = take_set(rest);
		if (!text_len(*ret))
			continue;
		if (decorated)
			return true;
		for (const char *q = ret->end; q < rest.end; q++)
			if (!is_one_of(*q, " :].)"))
				return false;
		return p == t.p;
	}
	return true;
}

/* What stands behind "host" or "node": a word of its own, or the word that begins with it. */
static struct text place_host(struct text t)
{
	for (const char *p = t.p; p + 5 < t.end; p++) {
		struct text rest = { p, t.end };

		if ((p > t.p && is_word(p[-1])) || (!take(&rest, "host") && !take(&rest, "node")))
			continue;
		if (rest.p < rest.end && is_one_of(*rest.p, " :=")) {
			(void)take(&rest, "name");
			while (rest.p < rest.end && is_one_of(*rest.p, " :="))
				rest.p++;
			p = rest.p;
		}
		rest = (struct text){ p, p };
		while (rest.end < t.end && (is_word(*rest.end) || is_one_of(*rest.end, ".-")))
			rest.end++;
		return rest;
	}
	return (struct text){ t.p, t.p };
}

/* "rank 3", "ranks 0-3,5:", "=== node7 rank12 (pid 99) ===", "==> stacks/rank3.txt <==" */
static bool place_line(struct text t, struct stack_word *w)
{
	static const char *const pids[] = { "pid ", "pid=", "pid:" };
	bool decorated = t.p < t.end && is_one_of(*t.p, "=-#*<>~+");

	if (text_len(t) > PLACE_LEN_MAX)
		return false;
	if (starts(t, "["))
		t.p++;
	if (!place_ranks(t, decorated, &w->ranks))
		return false;
	for (size_t i = 0; decorated && w->pid < 0 && i < ARRAY_SIZE(pids); i++)
		w->pid = number_behind(t, pids[i]);
	if (!text_len(w->ranks) && w->pid < 0 && !(starts(t, "==> ") && ends(t, " <==")))
		return false;
	w->kind = WORD_PLACE;
	if (decorated)
		w->host = place_host(t);
	return true;
}

typedef bool (*line_reader)(struct text t, struct stack_word *w);

static const struct {
	line_reader read;
	bool indented; /* asked only of lines that begin with white space, or in an open thread */
	bool flush;    /* asked only of lines that do not */
} readers[] = {
	{ process_line, false, false },	       { pyspy_thread, false, false },
	{ faulthandler_thread, false, false }, { gdb_thread, false, false },
	{ pystack_thread, false, false },      { elfutils_line, false, false },
	{ task_heading, false, false },	       { proc_heading, false, false },
	{ fatal_line, false, false },	       { gdb_frame, false, false },
	{ kernel_frame, false, false },	       { note_line, false, false },
	{ order_line, false, false },	       { homemade_thread, false, true },
	{ python_frame, true, false },	       { binary_frame, true, false },
	{ collecting_line, true, false },      { pyspy_frame, true, false },
	{ place_line, false, true },
};

static struct stack_word word_new(void)
{
	return (struct stack_word){
		.tool = STACK_OTHER, .pid = -1, .tid = -1, .number = -1, .line = -1
	};
}

struct stack_word stack_word_of(const char *line, size_t len, bool open)
{
	struct stack_word w = word_new();
	struct text t = { line, line + len };

	while (t.p < t.end && is_one_of(t.end[-1], " \t\r"))
		t.end--;
	t = skip_blanks(t);
	w.indent = (unsigned)(t.p - line);
	if (t.p == t.end) {
		w.kind = WORD_BLANK;
		return w;
	}
	if (is_rule(t)) {
		w.kind = WORD_RULE;
		return w;
	}
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
		struct stack_word next = word_new();

		if (readers[i].indented && !w.indent && !open)
			continue;
		if (readers[i].flush && w.indent)
			continue;
		next.indent = w.indent;
		if (readers[i].read(t, &next))
			return next;
	}
	return w;
}

bool stack_word_begins(const char *line, size_t len)
{
	struct text t = { line, line + len };
	struct stack_word w = word_new();

	while (t.p < t.end && is_one_of(t.end[-1], " \t\r"))
		t.end--;
	if (t.p == t.end || !is_one_of(*t.p, "TCFSP"))
		return false;
	return process_line(t, &w) || pyspy_thread(t, &w) || faulthandler_thread(t, &w) ||
	       pystack_thread(t, &w) || gdb_thread(t, &w) || fatal_line(t, &w);
}
