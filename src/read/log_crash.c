/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_crash.c - how processes end: Python tracebacks, aborts, torchelastic's summary, exit codes.
 *
 * Ranks that fail together print together, so tracebacks are followed by who prints them, as many
 * at a time as need be. What a message means stands in log_meaning.c; who was first and who is an
 * echo is not told here.
 */

#include "read/log_internal.h"

/* --- exceptions --- */

/* The type at the beginning of an exception's line: "torch.OutOfMemoryError"; empty if none. */
static struct scan type_of(const char *p, const char *end)
{
	struct scan s = scan_of(p, end);

	while (s.p < s.end && (is_alpha(*s.p) || is_digit(*s.p) || *s.p == '_' || *s.p == '.'))
		s.p++;
	if (s.p == p || is_digit(*p) || *p == '.' || s.p - p > 120 ||
	    (s.p < s.end && *s.p != ':' && *s.p != '('))
		return scan_of(p, p);
	return scan_of(p, s.p);
}

static bool type_is(struct scan type, const char *name)
{
	size_t n = strlen(name), len = scan_left(&type);

	return len >= n && !memcmp(type.end - n, name, n) &&
	       (len == n || type.end[-(ptrdiff_t)n - 1] == '.');
}

/* Types that say more than that something went wrong in the program. */
static const struct {
	const char *type;
	enum saying_kind kind;
	const char *what;
	int64_t value;
} types[] = {
	{ "OutOfMemoryError", SAY_OUT_OF_MEMORY, NULL, 0 },
	{ "MemoryError", SAY_OUT_OF_MEMORY, NULL, 1 },
	{ "KeyboardInterrupt", SAY_CANCELLED, "cancelled", -1 },
	{ "SystemExit", SAY_LEFT, NULL, -1 },
	{ "SignalException", SAY_STOPPED, "agent", -1 },
	{ "RendezvousTimeoutError", SAY_RENDEZVOUS, NULL, -1 },
	{ "RendezvousConnectionError", SAY_RENDEZVOUS, NULL, -1 },
	{ "RendezvousClosedError", SAY_RENDEZVOUS, NULL, -1 },
	{ "ConnectionResetError", SAY_PEER_LOST, NULL, -1 },
	{ "SIGTERMException", SAY_STOPPED, NULL, 15 },
	{ "ActorDiedError", SAY_PEER_LOST, NULL, -1 }, /* the driver's view of an actor's end */
	{ "RayActorError", SAY_PEER_LOST, NULL, -1 },
	{ "BrokenPipeError", SAY_PEER_LOST, NULL, -1 },
};

/* The launcher's own exception, of which its summary tells more; or only the end of one. */
static bool is_launchers(struct scan type)
{
	return type_is(type, "ChildFailedError") || type_is(type, "CalledProcessError") ||
	       type_is(type, "ProcessRaisedException") || type_is(type, "ProcessExitedException") ||
	       type_is(type, "Failures");
}

/* "UserWarning", "Warning": what only warns ends nothing. */
static bool is_warning(struct scan type)
{
	static const char word[] = "Warning";
	size_t n = sizeof(word) - 1;

	return scan_left(&type) >= n && !memcmp(type.end - n, word, n);
}

/* "Process 123 got signal: 15" */
static void signal_of(struct scan s, struct saying *say)
{
	scan_to(&s, "Process ");
	scan_int(&s, &say->pid);
	if (scan_to(&s, "signal: ") || scan_to(&s, "signal "))
		scan_int(&s, &say->value);
}

/* Messages whose words are found by themselves, wherever they stand (log_c10d.c). */
static bool is_told_elsewhere(const char *p, const char *end)
{
	static const char *const words[] = {
		"OpType=",
		"is setting up NCCL communicator",
		"recvValue failed",
		"NCCL communicator was aborted",
		"recvVector failed",
		"failed to pass monitoredBarrier",
		"sendBytes failed",
		"Failed to recv, got 0 bytes",
		"last enqueued work",
		"Detected mismatch between collectives",
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (text_has(p, end, words[i]))
			return true;
	return false;
}

/* Fills what an exception's line says; false: it is to be left out. */
static bool exception_of(struct log *g, const char *p, const char *end, struct saying *s)
{
	struct scan type = type_of(p, end);

	if (type.p == type.end || is_launchers(type) || is_told_elsewhere(type.end, end) ||
	    is_warning(type))
		return false;
	*s = saying_of(SAY_EXCEPTION);
	s->what = testimony_name(g->t, type.p, scan_left(&type));
	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		if (type_is(type, types[i].type)) {
			s->kind = types[i].kind;
			s->value = types[i].value;
			if (types[i].what)
				s->what = log_name(g, types[i].what);
			if (g->worker_failed && type_is(type, "RendezvousClosedError"))
				s->kind =
				    SAY_STORE_LOST; /* by who failed, or by the others' launchers */
			if (s->kind == SAY_STOPPED)
				signal_of(scan_of(type.end, end), s);
			return true;
		}
	log_classify(g, type.end, end, s);
	return true;
}

/* --- tracebacks --- */

static uint64_t host_hash(const struct log_line *l)
{
	return l->host.p ? hash_bytes(l->host.p, scan_left(&l->host), 1) : 0;
}

static struct log_traceback *traceback_of(struct log *g, const struct log_line *l)
{
	uint64_t host = host_hash(l);

	for (unsigned i = 0; i < LOG_TRACEBACKS_MAX; i++) {
		struct log_traceback *tb = &g->tracebacks[i];

		if (tb->state != TB_FREE && tb->rank == l->rank && tb->pid == l->pid &&
		    tb->local_rank == l->local_rank && tb->host_hash == host)
			return tb;
	}
	return NULL;
}

static void traceback_close(struct log *g, struct log_traceback *tb)
{
	if (tb->state == TB_AFTER) {
		const char *p = tb->text, *end = tb->text + tb->n_text;
		enum saying_kind kind = tb->say.kind;
		struct saying again = tb->say;

		/* NCCL's last error says more than that there was one. */
		if ((kind == SAY_EXCEPTION || kind == SAY_NETWORK_ERROR) &&
		    log_classify(g, p, end, &again) && again.kind != SAY_EXCEPTION)
			tb->say = again;
		tb->say.text = log_text(g, p, end);
		g->stats->events++;
		testimony_say(g->t, &tb->say);
	}
	tb->state = TB_FREE;
	g->open--;
}

static void traceback_text(struct log_traceback *tb, const char *p, const char *end)
{
	size_t n = MIN((size_t)(end - p), sizeof(tb->text) - tb->n_text);

	memcpy(tb->text + tb->n_text, p, n);
	tb->n_text += n;
}

static unsigned indent_of(const struct log_line *l, const char **ret)
{
	const char *p = l->text;

	while (p < l->end && (*p == ' ' || *p == '\t'))
		p++;
	*ret = p;
	return (unsigned)(p - l->text);
}

static enum log_took on_traceback(struct log *g, struct log_line *l, const char *at,
				  const struct log_anchor *a)
{
	struct log_traceback *tb = traceback_of(g, l);
	struct scan head = scan_of(l->text, at);

	(void)a;
	scan_blanks(&head);
	if (tb && tb->state == TB_FRAMES) {
		tb->more++;
		tb->lines = 0;
		return LOG_TOOK;
	}
	if (tb)
		traceback_close(g, tb);
	for (unsigned i = 0; i < LOG_TRACEBACKS_MAX; i++) {
		tb = &g->tracebacks[i];
		if (tb->state != TB_FREE)
			continue;
		*tb = (struct log_traceback){
			.rank = l->rank,
			.local_rank = l->local_rank,
			.pid = l->pid,
			.host_hash = host_hash(l),
			.state = TB_FRAMES,
		};
		tb->say = saying_of(SAY_EXCEPTION);
		if (g->spawned_line && l->number == g->spawned_line + 1)
			tb->say.rank = g->spawned; /* it is a launcher for one node */
		if (scan_at(&head, "traceback :") && g->elastic.inside) { /* in the summary */
			tb->say.rank = g->elastic.rank;
			tb->indent = 2;
		}
		g->open++;
		return LOG_TOOK;
	}
	g->t->dropped++;
	return LOG_TOOK;
}

/* "-- Process 1 terminated with the following error:" */
static enum log_took on_spawned(struct log *g, struct log_line *l, const char *at,
				const struct log_anchor *a)
{
	struct scan s = scan_of(l->text, at);
	int64_t v;

	(void)a;
	if (!scan_eat(&s, "-- Process ") || !scan_digits(&s, &v))
		return LOG_GO_ON;
	g->spawned = v;
	g->spawned_line = l->number;
	return LOG_TOOK;
}

/* A tool that looks at jobs and failed itself: what it raises is not the job's. */
static bool is_tools(const char *p, const char *end)
{
	static const char *const words[] = { "torchfrtrace", "/flight_recorder/", "fr_trace.py" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (text_has(p, end, words[i]))
			return true;
	return false;
}

/* A line of a traceback whose frames are being read. */
static bool frame_line(struct log *g, struct log_traceback *tb, struct log_line *l)
{
	const char *p;
	unsigned indent = indent_of(l, &p);
	int64_t rank = tb->say.rank;
	struct saying s;

	if (++tb->lines > LOG_TRACEBACK_LINES) {
		traceback_close(g, tb);
		return false;
	}
	tb->foreign = tb->foreign || is_tools(p, l->end);
	/* Frames are indented, or in the box that rich draws. */
	if (p == l->end || indent > tb->indent || (unsigned char)*p == 0xe2 ||
	    scan_at(&(struct scan){ p, l->end }, "During handling of") ||
	    scan_at(&(struct scan){ p, l->end }, "The above exception was"))
		return true;
	if (type_of(p, l->end).p == type_of(p, l->end).end)
		return false; /* somebody else's line */
	g->exception_line = l->number;
	if (tb->foreign || !exception_of(g, p, l->end, &s)) {
		if (tb->more)
			tb->more--;
		else
			traceback_close(g, tb);
		return false;
	}
	s.rank = rank;
	log_fill(g, l, &s);
	if (tb->more) {
		tb->more--;
		s.text = log_text(g, p, l->end);
		testimony_say(g->t, &s);
		return false;
	}
	tb->say = s;
	tb->state = TB_AFTER;
	tb->lines = 0;
	traceback_text(tb, p, l->end);
	return false; /* its words may say more */
}

/* What libraries print below an exception's line. */
static bool after_line(struct log *g, struct log_traceback *tb, struct log_line *l)
{
	static const char *const below[] = { "nccl",
					     "frame #",
					     "CUDA kernel errors",
					     "For debugging",
					     "Compile with",
					     "Device-side asserts",
					     "Exception raised from" };
	static const char dash[] = " - ";
	const char *p;

	indent_of(l, &p);
	if (tb->last_error) {
		tb->last_error = false;
		traceback_text(tb, dash, dash + 3);
		traceback_text(tb, p, l->end);
		return true;
	}
	tb->lines++;
	if (text_has(p, MIN(p + 16, l->end), "Last error:")) {
		tb->last_error = true;
		return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(below) && tb->lines < 64; i++)
		if (scan_at(&(struct scan){ p, l->end }, below[i]))
			return true;
	traceback_close(g, tb);
	return false;
}

bool log_crash_continues(struct log *g, struct log_line *l)
{
	struct log_traceback *tb = traceback_of(g, l);

	if (!tb)
		return false;
	return tb->state == TB_FRAMES ? frame_line(g, tb, l) : after_line(g, tb, l);
}

void log_crash_done(struct log *g)
{
	for (unsigned i = 0; i < LOG_TRACEBACKS_MAX; i++)
		if (g->tracebacks[i].state != TB_FREE)
			traceback_close(g, &g->tracebacks[i]);
}

/* As behind a traceback, of which this is all that is there. */
static bool wait_below(struct log *g, const struct log_line *l, struct saying *s, const char *text)
{
	for (unsigned i = 0; i < LOG_TRACEBACKS_MAX; i++) {
		struct log_traceback *tb = &g->tracebacks[i];

		if (tb->state != TB_FREE)
			continue;
		log_fill(g, l, s);
		*tb = (struct log_traceback){
			.rank = l->rank,
			.local_rank = l->local_rank,
			.pid = l->pid,
			.host_hash = host_hash(l),
			.state = TB_AFTER,
			.say = *s,
		};
		traceback_text(tb, text, l->end);
		g->open++;
		return true;
	}
	return false;
}

/* An exception's line whose traceback is not there, or not followed. */
static enum log_took on_exception(struct log *g, struct log_line *l, const char *at,
				  const struct log_anchor *a)
{
	struct saying s;
	const char *p;

	(void)a;
	if (g->exception_line == l->number)
		return LOG_GO_ON;
	indent_of(l, &p);
	if (p > at || type_of(p, l->end).end < at || !exception_of(g, p, l->end, &s))
		return LOG_PLAIN;
	g->exception_line = l->number;
	if (text_has(p, l->end, "NCCL error in") && wait_below(g, l, &s, p))
		return LOG_TOOK; /* the lines below tell which */
	s.text = log_text(g, p, l->end);
	log_say(g, l, &s);
	return LOG_PLAIN;
}

/* --- aborts --- */

/* terminate called after throwing an instance of 'gloo::EnforceNotMet' */
static enum log_took on_terminate(struct log *g, struct log_line *l, const char *at,
				  const struct log_anchor *a)
{
	struct scan s = scan_of(at, l->end), type;

	(void)a;
	g->thrown = NO_ID;
	if (!scan_to(&s, "instance of '"))
		return LOG_GO_ON;
	type = s;
	if (!scan_to(&s, "'"))
		return LOG_GO_ON;
	g->thrown = testimony_name(g->t, type.p, (size_t)(s.p - 1 - type.p));
	return LOG_TOOK;
}

/* "  what():  .." */
static enum log_took on_what(struct log *g, struct log_line *l, const char *at,
			     const struct log_anchor *a)
{
	struct saying s = saying_of(SAY_FATAL);
	const char *p = at + strlen(a->word);

	/* A watchdog's words were said before and are found again behind. */
	if (text_has(p, l->end, "OpType=") || text_has(p, l->end, "last enqueued"))
		return LOG_GO_ON;
	s.what = g->thrown;
	log_classify(g, p, l->end, &s);
	s.text = log_text(g, p, l->end);
	if (s.kind == SAY_FATAL && text_has(p, l->end, "enforce fail") &&
	    !text_has(p, l->end, "op.preamble.length"))
		s.what = log_name(g, "gloo enforce");
	if (l->rank < 0)
		log_c10d_speaker(g, p, l->end, &s);
	log_say(g, l, &s);
	return LOG_TOOK;
}

/* "watchdog thread terminated with exception: CUDA error: an illegal memory access .." */
static enum log_took on_watchdog_end(struct log *g, struct log_line *l, const char *at,
				     const struct log_anchor *a)
{
	const char *p = at + strlen(a->word);
	struct saying s = saying_of(SAY_FATAL);

	if (text_has(p, l->end, "OpType=") || p >= l->end)
		return LOG_GO_ON;
	if (!log_classify(g, p, l->end, &s))
		s.what = log_name(g, "watchdog");
	log_prefix_before(g, l, at);
	log_c10d_speaker(g, l->text, at, &s);
	log_say(g, l, &s);
	return LOG_TOOK;
}

/* Words that say it all: the row's kind, what and value. */
static enum log_took on_words(struct log *g, struct log_line *l, const char *at,
			      const struct log_anchor *a)
{
	if (g->exception_line == l->number) /* the exception has said it */
		return LOG_GO_ON;
	return log_on_words(g, l, at, a);
}

/* Errors of the GPU, a peer or memory that stand in a line of their own kind. */
static enum log_took on_meaning(struct log *g, struct log_line *l, const char *at,
				const struct log_anchor *a)
{
	struct saying s = saying_of(SAY_WARNING);

	(void)a;
	if (g->exception_line == l->number)
		return LOG_GO_ON;
	if (!log_classify(g, at, l->end, &s))
		return LOG_PLAIN;
	if (text_has(l->text, at, "%|")) /* behind a bar that did not end its line */
		s.text = log_text(g, at, l->end);
	log_say(g, l, &s);
	return LOG_SAID;
}

/* ".. block: [134,0,0], thread: [0,0,0] Assertion `srcIndex < srcSelectDimSize` failed." */
static enum log_took on_device_assert(struct log *g, struct log_line *l, const char *at,
				      const struct log_anchor *a)
{
	struct saying s = saying_of(SAY_EXCEPTION);

	(void)a;
	if (!text_has(at, l->end, "thread: [") || !text_has(at, l->end, "Assertion "))
		return LOG_PLAIN;
	s.what = log_name(g, "device-side assert");
	s.text = log_text(g, at, l->end);
	log_say(g, l, &s);
	return LOG_TOOK;
}

/* --- torchelastic --- */

static const struct {
	const char *name;
	int64_t number;
} signals[] = {
	{ "SIGHUP", 1 },   { "SIGINT", 2 },   { "SIGQUIT", 3 },	 { "SIGABRT", 6 },
	{ "SIGBUS", 7 },   { "SIGKILL", 9 },  { "SIGSEGV", 11 }, { "SIGTERM", 15 },
	{ "SIGUSR1", 10 }, { "SIGUSR2", 12 },
};

static int64_t signal_named(const char *p, const char *end)
{
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (text_has(p, end, signals[i].name))
			return signals[i].number;
	return -1;
}

/* "Sending process 14689 closing signal SIGTERM" */
static enum log_took on_sending(struct log *g, struct log_line *l, const char *at,
				const struct log_anchor *a)
{
	struct scan s = scan_of(at + strlen(a->word), l->end);
	struct saying t = saying_of(SAY_STOPPED);

	if (!scan_int(&s, &t.pid))
		return LOG_PLAIN;
	t.value = signal_named(s.p, l->end);
	log_say(g, l, &t);
	return log_joins_lines(s.p, l->end) ? LOG_GO_ON : LOG_SAID;
}

/* "Unable to shutdown process 14689 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL" */
static enum log_took on_forced(struct log *g, struct log_line *l, const char *at,
			       const struct log_anchor *a)
{
	struct scan s = scan_of(at + strlen(a->word), l->end);
	struct saying t = saying_of(SAY_STOPPED);

	if (!scan_int(&s, &t.pid))
		return LOG_PLAIN;
	t.value = 9;
	if (scan_to(&s, "exiting via "))
		t.value = signal_named(s.p, l->end);
	log_say(g, l, &t);
	return LOG_SAID;
}

/* "failed (exitcode: -6) local_rank: 1 (pid: 71124) of binary: .." */
static enum log_took on_failed(struct log *g, struct log_line *l, const char *at,
			       const struct log_anchor *a)
{
	struct scan s = scan_of(at + strlen(a->word), l->end);
	struct saying t = saying_of(SAY_EXIT);

	scan_blanks(&s);
	if (!scan_int(&s, &t.value))
		return LOG_PLAIN;
	if (scan_to(&s, "local_rank: "))
		scan_int(&s, &t.local_rank);
	if (scan_to(&s, "pid: "))
		scan_int(&s, &t.pid);
	t.text = log_text(g, at, l->end);
	g->worker_failed |= t.value != 0;
	log_say(g, l, &t);
	return LOG_SAID;
}

static enum log_took on_summary(struct log *g, struct log_line *l, const char *at,
				const struct log_anchor *a)
{
	(void)l;
	(void)at;
	g->elastic.root = a->value;
	g->elastic.inside = true;
	g->elastic.rank = g->elastic.local_rank = g->elastic.time_ns = -1;
	g->elastic.host = NO_ID;
	return LOG_TOOK;
}

/* The same lines, joined into one by what gathered the log: "rank      : 2 (local_rank: 2)
   exitcode  : -6 (pid: 1133)". */
static enum log_took on_joined_summary(struct log *g, struct log_line *l, const char *at,
				       const struct log_anchor *a)
{
	struct scan s = scan_of(l->text, at);
	struct saying t = saying_of(SAY_EXIT);
	struct scan code = scan_of(at + strlen(a->word), l->end);

	if (!scan_to(&s, "rank      :"))
		return LOG_GO_ON;
	scan_blanks(&s);
	scan_blanks(&code);
	if (!scan_int(&s, &t.rank) || !scan_int(&code, &t.value))
		return LOG_GO_ON;
	if (scan_to(&s, "local_rank: "))
		scan_int(&s, &t.local_rank);
	if (scan_to(&code, "pid: "))
		scan_int(&code, &t.pid);
	t.text = log_text(g, at, l->end);
	log_say(g, l, &t);
	return LOG_SAID;
}

/* "  time      : 2026-09-07_13:02:58" and the lines below it. */
static enum log_took on_summary_line(struct log *g, struct log_line *l, const char *at,
				     const struct log_anchor *a)
{
	struct scan s = scan_of(at + strlen(a->word), l->end);
	struct saying t;

	if (!g->elastic.inside)
		return a->value == 'e' ? on_joined_summary(g, l, at, a) : LOG_GO_ON;
	scan_blanks(&s);
	switch (a->value) {
	case 't':
		g->elastic.time_ns = -1;
		log_stamp(g, &s, &g->elastic.time_ns);
		break;
	case 'h':
		g->elastic.host = log_text(g, s.p, s.end);
		break;
	case 'r':
		scan_int(&s, &g->elastic.rank);
		if (scan_to(&s, "local_rank: "))
			scan_int(&s, &g->elastic.local_rank);
		break;
	default:
		t = saying_of(g->elastic.root ? SAY_FIRST_FAILURE : SAY_EXIT);
		if (!scan_int(&s, &t.value))
			return LOG_GO_ON;
		if (scan_to(&s, "pid: "))
			scan_int(&s, &t.pid);
		t.rank = g->elastic.rank;
		t.local_rank = g->elastic.local_rank;
		t.host = g->elastic.host;
		t.time_ns = g->elastic.time_ns;
		log_say(g, l, &t);
	}
	return LOG_TOOK;
}

const struct log_anchor log_crash_anchors[] = {
	{ "traceback (most recent call last)", on_traceback, 0, NULL, 0 },
	{ "runtimeerror", on_exception, 0, NULL, 0 },
	{ "valueerror", on_exception, 0, NULL, 0 },
	{ "keyerror", on_exception, 0, NULL, 0 },
	{ "typeerror", on_exception, 0, NULL, 0 },
	{ "indexerror", on_exception, 0, NULL, 0 },
	{ "attributeerror", on_exception, 0, NULL, 0 },
	{ "assertionerror", on_exception, 0, NULL, 0 },
	{ "importerror", on_exception, 0, NULL, 0 },
	{ "modulenotfounderror", on_exception, 0, NULL, 0 },
	{ "filenotfounderror", on_exception, 0, NULL, 0 },
	{ "permissionerror", on_exception, 0, NULL, 0 },
	{ "oserror", on_exception, 0, NULL, 0 },
	{ "connectionreseterror", on_exception, 0, NULL, 0 },
	{ "connectionrefusederror", on_exception, 0, NULL, 0 },
	{ "brokenpipeerror", on_exception, 0, NULL, 0 },
	{ "eoferror", on_exception, 0, NULL, 0 },
	{ "timeouterror", on_exception, 0, NULL, 0 },
	{ "memoryerror", on_exception, 0, NULL, 0 },
	{ "zerodivisionerror", on_exception, 0, NULL, 0 },
	{ "notimplementederror", on_exception, 0, NULL, 0 },
	{ "unicodedecodeerror", on_exception, 0, NULL, 0 },
	{ "nameerror", on_exception, 0, NULL, 0 },
	{ "outofmemoryerror", on_exception, 0, NULL, 0 },
	{ "distbackenderror", on_exception, 0, NULL, 0 },
	{ "diststoreerror", on_exception, 0, NULL, 0 },
	{ "distnetworkerror", on_exception, 0, NULL, 0 },
	{ "acceleratorerror", on_exception, 0, NULL, 0 },
	{ "stopiteration", on_exception, 0, NULL, 0 },
	{ "keyboardinterrupt", on_exception, 0, NULL, 0 },
	{ "rendezvoustimeouterror", on_exception, 0, NULL, 0 },
	{ "rendezvousconnectionerror", on_exception, 0, NULL, 0 },
	{ "rendezvousclosederror", on_exception, 0, NULL, 0 },
	{ "signalexception", on_exception, 0, NULL, 0 },
	{ "terminate called", on_terminate, 0, NULL, 0 },
	{ "what():", on_what, 0, NULL, 0 },
	{ "watchdog thread terminated with exception:", on_watchdog_end, 0, NULL, 0 },
	{ "fatal python error:", on_words, SAY_FATAL, "fatal Python error", -1 },
	{ "caught signal 11", on_words, SAY_FATAL, "segmentation fault", 11 },
	{ "caught signal 7", on_words, SAY_FATAL, "bus error", 7 },
	{ "actordiederror", on_exception, 0, NULL, 0 },
	{ "rayactorerror", on_exception, 0, NULL, 0 },
	{ "segmentation fault", on_words, SAY_FATAL, "segmentation fault", 11 },
	{ "bus error", on_words, SAY_FATAL, "bus error", 7 },
	{ "block: [", on_device_assert, 0, NULL, 0 },
	{ "cuda error:", on_meaning, 0, NULL, 0 },
	{ "hip error:", on_meaning, 0, NULL, 0 },
	{ "memory access fault by gpu", on_meaning, 0, NULL, 0 },
	{ "hsa_status_error", on_meaning, 0, NULL, 0 },
	{ "cuda failure", on_meaning, 0, NULL, 0 },
	{ "out of memory. tried to allocate", on_words, SAY_OUT_OF_MEMORY, "GPU memory", 0 },
	{ "timed out waiting for clients", on_meaning, 0, NULL, 0 },
	{ "client socket has ", on_meaning, 0, NULL, 0 },
	{ "duplicate gpu detected", on_meaning, 0, NULL, 0 },
	{ "address already in use", on_meaning, 0, NULL, 0 },
	{ "sending process ", on_sending, 0, NULL, 0 },
	{ "unable to shutdown process ", on_forced, 0, NULL, 0 },
	{ "failed (exitcode:", on_failed, 0, NULL, 0 },
	{ "failures:", on_summary, 0, NULL, 0 },
	{ "root cause (first observed failure):", on_summary, 0, NULL, 1 },
	{ "time      :", on_summary_line, 0, NULL, 't' },
	{ "host      :", on_summary_line, 0, NULL, 'h' },
	{ "rank      :", on_summary_line, 0, NULL, 'r' },
	{ "exitcode  :", on_summary_line, 0, NULL, 'e' },
	{ "will restart worker group", on_words, SAY_RESTART, NULL, -1 },
	{ "restarting worker group", on_words, SAY_RESTART, NULL, -1 },
	{ "setting omp_num_threads environment variable for each process", on_words, SAY_RESTART,
	  NULL, RESTART_OF_ALL }, /* what torchrun begins with */
	{ "received sigterm", on_words, SAY_STOPPED, NULL, 15 },
	/* argparse */
	{ "error: unrecognized arguments", on_words, SAY_CONFIGURATION, "arguments", -1 },
	{ "error: the following arguments are required", on_words, SAY_CONFIGURATION, "arguments",
	  -1 },
	{ "error: argument -", on_words, SAY_CONFIGURATION, "arguments", -1 },
	/* torch.multiprocessing.spawn: of which of its processes the traceback that follows is */
	{ "terminated with the following error", on_spawned, 0, NULL, 0 },
	{ "symbol lookup error: ", on_words, SAY_CONFIGURATION, "libraries", -1 },
	{ NULL, NULL, 0, NULL, 0 },
};
