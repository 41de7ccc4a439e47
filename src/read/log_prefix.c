/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_prefix.c - what launchers, collectors and logging libraries put in front of a line.
 *
 * A line may have passed through several hands, each of which set its own mark: a container's name,
 * the launcher's task, a rank, a stamp, a level. They are taken off one by one until the words of
 * the program itself are left. Only marks that are known to be global ranks set one: the number in
 * "3: " of srun --label is a task, that in "[default3]:" a place in the node.
 */
#include "read/log_internal.h"

/* --- marks --- */

static const struct {
	const char *word;
	char level;
} levels[] = {
	{ "INFO", 'I' },     { "WARNING", 'W' }, { "WARN", 'W' },  { "ERROR", 'E' },
	{ "CRITICAL", 'F' }, { "FATAL", 'F' },	 { "DEBUG", 'I' }, { "SUCCESS", 'I' },
	{ "info", 'I' },     { "warning", 'W' }, { "error", 'E' }, { "debug", 'I' },
};

static bool level_word(struct scan *s, char *ret)
{
	if (s->p == s->end || !*s->p || !strchr("IWECFDSiwed", *s->p))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
		struct scan q = *s;

		if (scan_eat(&q, levels[i].word) && (q.p == q.end || !is_alpha(*q.p))) {
			*ret = levels[i].level;
			*s = q;
			return true;
		}
	}
	return false;
}

/* What was read as a stamp, in the order in which it was: of equal places the last. */
static void note_stamp(struct log *g, const char *p, const char *end, bool level)
{
	unsigned n = 0;

	for (unsigned i = 0; i < MIN(g->n_stamps, LOG_STAMPS_MAX); i++)
		if (g->stamps[i].p != p)
			g->stamps[n++] = g->stamps[i];
	if (g->n_stamps > LOG_STAMPS_MAX || n == LOG_STAMPS_MAX)
		g->n_stamps = LOG_STAMPS_MAX + 1;
	else
		g->stamps[g->n_stamps = n + 1, n] = (struct log_stamp_at){ p, end, level };
}

static bool plain_stamp(struct log *g, struct scan *s, int64_t *ret)
{
	const char *p = s->p;

	if (!log_stamp(g, s, ret))
		return false;
	note_stamp(g, p, s->p, false);
	return true;
}

static bool glog_stamp(struct log *g, struct scan *s, char *level, int64_t *ret)
{
	const char *p = s->p;

	if (!log_level_stamp(s, level, ret))
		return false;
	note_stamp(g, p, s->p, true);
	return true;
}

/* Up to the next `]`, which is stepped over, if it comes within max bytes. */
static bool to_bracket(struct scan *s, size_t max)
{
	const char *at = memchr(s->p, ']', MIN(scan_left(s), max));

	if (!at)
		return false;
	s->p = at + 1;
	return true;
}

static bool is_name(char c)
{
	return is_alpha(c) || is_digit(c) || c == '-' || c == '.' || c == '_';
}

/* [rank3]: [rank3] [rank: 3] */
static bool bracket_rank(struct log *g, struct log_line *l, struct scan *s)
{
	struct scan q = *s;
	const char *at;
	int64_t v;

	if (!scan_eat(&q, "[rank"))
		return false;
	scan_eat(&q, ":");
	scan_blanks(&q);
	at = q.p;
	if (!scan_digits(&q, &v) || !scan_eat(&q, "]"))
		return false;
	l->rank_at = scan_of(at, q.p - 1);
	scan_eat(&q, ":");
	l->rank = v;
	l->ranked = g->saw_ranked = true;
	g->labels[v != g->labels[0] && g->labels[0] >= 0] = v;
	*s = q;
	return true;
}

/* [E1206 18:44:12.71 file.cpp:12], [E ProcessGroupNCCL.cpp:523], [NeMo W 2024-03-01 10:11:12 ..] */
static bool bracket_level(struct log *g, struct log_line *l, struct scan *s)
{
	struct scan q = *s;

	q.p++;
	scan_eat(&q, "NeMo ");
	if (glog_stamp(g, &q, &l->level, &l->time_ns)) {
		;
	} else if (scan_left(&q) > 3 && log_is_level(*q.p) && q.p[1] == ' ') {
		l->level = *q.p;
		q.p += 2;
		plain_stamp(g, &q, &l->time_ns);
	} else if (!level_word(&q, &l->level)) {
		return false;
	}
	if (!to_bracket(&q, 200))
		return false;
	*s = q;
	return true;
}

/* [2026-11-29 21:11:25], [ 1234.567890] and [Tue Nov 29 21:31:49 2026] of the kernel. */
static bool bracket_stamp(struct log *g, struct log_line *l, struct scan *s)
{
	struct scan q = *s;
	int64_t v, ns;
	const char *at;

	q.p++;
	scan_blanks(&q);
	at = q.p;
	if (plain_stamp(g, &q, &ns)) {
		struct scan stamp = scan_of(at, q.p);

		if (!to_bracket(&q, 40))
			return false;
		l->time_ns = ns;
		l->stamp_at = stamp;
	} else if (!scan_digits(&q, &v)) {
		return false;
	} else if (scan_eat(&q, ".")) {
		if (!scan_digits(&q, &v) || !scan_eat(&q, "]"))
			return false;
	} else if (!scan_eat(&q, "]")) { /* [76/904$ of a terminal */
		if (!scan_eat(&q, "/") || !scan_digits(&q, &v) ||
		    (!scan_eat(&q, "$") && !scan_eat(&q, "]")))
			return false;
	}
	*s = q;
	return true;
}

/* [1,3]<stderr>: of mpirun --tag-output, [1,mpirank:5,algo-1]<stderr>: job and rank. */
static bool bracket_mpi(struct log_line *l, struct scan *s)
{
	struct scan q = *s;
	int64_t job, rank;

	q.p++;
	if (!scan_digits(&q, &job) || !scan_eat(&q, ","))
		return false;
	scan_eat(&q, "mpirank:");
	if (!scan_digits(&q, &rank))
		return false;
	if (scan_eat(&q, ","))
		while (q.p < q.end && is_name(*q.p))
			q.p++;
	if (!scan_eat(&q, "]<std") || !scan_to(&q, ">"))
		return false;
	scan_eat(&q, ":");
	l->rank = rank;
	*s = q;
	return true;
}

/* [default3]:, [host:3]:, [pod/NAME/CONTAINER] */
static bool bracket_role(struct log_line *l, struct scan *s)
{
	struct scan q = *s, host;
	int64_t v;

	q.p++;
	host = q;
	if (scan_eat(&q, "pod/")) {
		host.p = q.p;
		while (q.p < q.end && is_name(*q.p))
			q.p++;
		host.end = q.p;
		if (!scan_at(&q, "/") || !to_bracket(&q, 200))
			return false;
		l->host = host;
		*s = q;
		return true;
	}
	while (q.p < q.end && (is_alpha(*q.p) || *q.p == '_'))
		q.p++;
	if (q.p > host.p && scan_digits(&q, &v) && scan_eat(&q, "]:")) {
		l->local_rank = v;
		*s = q;
		return true;
	}
	while (q.p < q.end && is_name(*q.p))
		q.p++;
	host.end = q.p;
	if (host.end == host.p || !scan_eat(&q, ":") || !scan_digits(&q, &v) || !scan_eat(&q, "]:"))
		return false;
	l->local_rank = v;
	l->host = host;
	*s = q;
	return true;
}

/* [file.py:158:function], [titan] */
static bool bracket_place(struct scan *s)
{
	struct scan q = *s;

	if (scan_eat(&q, "[titan]")) {
		*s = q;
		return true;
	}
	if (!to_bracket(&q, 120) || !text_has(s->p, q.p, ".py:"))
		return false;
	*s = q;
	return true;
}

static bool eat_bracket(struct log *g, struct log_line *l, struct scan *s)
{
	return bracket_rank(g, l, s) || bracket_stamp(g, l, s) || bracket_level(g, l, s) ||
	       bracket_mpi(l, s) || bracket_role(l, s) || bracket_place(s);
}

/* (Actor pid=835, ip=10.20.143.83), (pid=12) */
static bool eat_ray(struct log_line *l, struct scan *s)
{
	struct scan q = *s, ip;
	const char *close = memchr(q.p, ')', MIN(scan_left(&q), 200)), *fold;

	if (!close)
		return false;
	q.end = close;
	if (!scan_to(&q, "pid=") || !scan_digits(&q, &l->pid))
		return false;
	if (scan_eat(&q, ", ip=")) {
		ip = q;
		l->host = ip;
	}
	s->p = close + 1;
	/* "[repeated 46x across cluster]" stands at the end. */
	fold = memmem(s->p, scan_left(s), "[repeated ", 10);
	if (fold && text_has(fold, s->end, "x across cluster]")) {
		l->folded = true;
		while (fold > s->p && fold[-1] == ' ')
			fold--;
		l->end = s->end = fold;
	}
	return true;
}

/* What stands between a stamp and the words: " - INFO - name - ", " | INFO | place - ", ": ". */
static void eat_separators(struct log_line *l, struct scan *s)
{
	struct scan q = *s;

	scan_blanks(&q);
	scan_eat(&q, ",");
	scan_eat(&q, ":");
	scan_blanks(&q);
	for (unsigned i = 0; i < 3; i++) {
		struct scan name = q;

		if (scan_left(&q) > 2 && (*q.p == '-' || *q.p == '|') && q.p[1] == ' ')
			q.p += 2;
		name = q;
		if (level_word(&name, &l->level)) {
			scan_blanks(&name);
			scan_eat(&name, ":");
			q = name;
			scan_blanks(&q);
			s->p = q.p;
			continue;
		}
		/* a module's name in front of " - " */
		while (name.p < name.end && (is_name(*name.p) || *name.p == ':'))
			name.p++;
		if (name.p > q.p && (scan_at(&name, " - ") || scan_at(&name, " | "))) {
			name.p += 1;
			q = name;
			continue;
		}
		break;
	}
	if (q.p > s->p)
		s->p = q.p;
	scan_eat(s, ">> ");
}

/* "10.0.0.6: ", of pdsh */
static bool eat_address(struct log_line *l, struct scan *s)
{
	struct scan q = *s;
	int64_t v;

	for (unsigned i = 0; i < 4; i++)
		if (!scan_digits(&q, &v) || v > 255 || (i < 3 && !scan_eat(&q, ".")))
			return false;
	if (!scan_at(&q, ": "))
		return false;
	l->host = (struct scan){ s->p, q.p };
	q.p++;
	*s = q;
	return true;
}

static bool eat_number(struct log *g, struct log_line *l, struct scan *s)
{
	struct scan q = *s, task;
	int64_t v, ns;

	if (eat_address(l, s))
		return true;

	if (plain_stamp(g, &q, &ns)) {
		l->time_ns = ns;
		l->stamp_at = scan_of(s->p, q.p);
		*s = q;
		eat_separators(l, s);
		return true;
	}
	task = q;
	/* "3: " of srun --label: a task; "1234:" of grep -n */
	if (scan_digits(&q, &v) && v < 1000000 && scan_eat(&q, ":") && q.p < q.end &&
	    !is_digit(*q.p)) {
		l->task = (struct scan){ task.p, q.p - 1 };
		*s = q;
		return true;
	}
	return false;
}

/* E1129 21:31:50.251000 27740 torch/distributed/elastic/api.py:1002] */
static bool eat_glog(struct log *g, struct log_line *l, struct scan *s)
{
	struct scan q = *s;
	int64_t pid;

	if (!glog_stamp(g, &q, &l->level, &l->time_ns))
		return false;
	scan_blanks(&q);
	if (scan_digits(&q, &pid))
		l->pid = pid;
	if (to_bracket(&q, 200))
		*s = q;
	return true;
}

/* rank3: rank0[41021][MainThread]: Rank 3: */
static bool eat_rank(struct log *g, struct log_line *l, struct scan *s)
{
	struct scan q = *s;
	int64_t v, pid;

	if (!scan_eat(&q, "rank") && !scan_eat(&q, "Rank"))
		return false;
	scan_eat(&q, " ");
	if (!scan_digits(&q, &v))
		return false;
	if (scan_eat(&q, "[")) {
		if (scan_digits(&q, &pid) && scan_at(&q, "]"))
			l->pid = pid;
		if (!to_bracket(&q, 64))
			return false;
		if (scan_at(&q, "[") && !to_bracket(&q, 64))
			return false;
	}
	if (!scan_eat(&q, ":") || (q.p < q.end && *q.p != ' '))
		return false;
	l->rank = v;
	(void)g;
	*s = q;
	return true;
}

/* host:pid:thread [gpu], in front of NCCL's words */
static bool eat_nccl(struct log_line *l, struct scan *s)
{
	struct scan q = *s, host = *s;
	int64_t pid, tid, gpu;

	while (q.p < q.end && is_name(*q.p))
		q.p++;
	host.end = q.p;
	if (!scan_eat(&q, ":") || !scan_digits(&q, &pid) || !scan_eat(&q, ":") ||
	    !scan_digits(&q, &tid) || !scan_eat(&q, " ["))
		return false;
	if (!scan_digits(&q, &gpu) || !scan_eat(&q, "]"))
		return false;
	l->host = host;
	l->pid = pid;
	l->gpu = gpu;
	*s = q;
	return true;
}

/* A host in front of "name[pid]: " or "kernel: ", behind syslog's stamp. */
static bool eat_syslog(struct log *g, struct log_line *l, struct scan *s)
{
	struct scan q = *s, host;
	int64_t ns, pid;

	if (!plain_stamp(g, &q, &ns) || !scan_eat(&q, " "))
		return false;
	host = q;
	while (q.p < q.end && is_name(*q.p))
		q.p++;
	host.end = q.p;
	if (host.end == host.p || !scan_eat(&q, " "))
		return false;
	l->time_ns = ns;
	l->host = host;
	*s = q;
	while (q.p < q.end && (is_name(*q.p) || *q.p == '/'))
		q.p++;
	if (scan_eat(&q, "[") && scan_digits(&q, &pid))
		scan_eat(&q, "]");
	if (scan_eat(&q, ":"))
		*s = q;
	return true;
}

/* vm-07-14: of pdsh, name-1  | of docker compose; a name that is a word is none. */
static bool eat_host(struct log_line *l, struct scan *s)
{
	struct scan q = *s, host = *s;
	bool digit = false, upper = false;

	for (; q.p < q.end && is_name(*q.p); q.p++) {
		digit = digit || is_digit(*q.p);
		upper = upper || (*q.p >= 'A' && *q.p <= 'Z') || *q.p == '_';
	}
	host.end = q.p;
	if (!digit || upper || q.p - host.p < 3 || q.p - host.p > 64)
		return false;
	if (!scan_eat(&q, ": ")) {
		scan_blanks(&q);
		if (!scan_eat(&q, "| "))
			return false;
	}
	q.p--; /* the blank is the loop's */
	l->host = host;
	*s = q;
	return true;
}

/* "06-03 14:00:11 [engine.py:160] ", "06-03 14:00:11 engine.py:160] ", as vLLM's levels have behind
 * them. */
static void eat_yearless(struct log_line *l, struct scan *s)
{
	struct scan q = *s;

	scan_blanks(&q);
	if (!log_day_stamp(&q, &l->time_ns))
		return;
	*s = q;
	scan_blanks(&q);
	if (to_bracket(&q, 120) && text_has(s->p, q.p, ".py:"))
		*s = q;
}

/* INFO:module:, WARNING: */
static bool eat_level(struct log_line *l, struct scan *s)
{
	struct scan q = *s, name;
	char level;

	if (!level_word(&q, &level))
		return false;
	if (scan_eat(&q, ":")) {
		name = q;
		while (name.p < name.end && is_name(*name.p))
			name.p++;
		if (name.p > q.p && scan_eat(&name, ":"))
			q = name;
	} else if (!scan_at(&q, " ")) {
		return false;
	}
	l->level = level;
	eat_yearless(l, &q);
	*s = q;
	return true;
}

/* torch.distributed.elastic.multiprocessing.api: [WARNING] */
static bool eat_module(struct log_line *l, struct scan *s)
{
	struct scan q = *s;
	bool dot = false;

	for (; q.p < q.end && is_name(*q.p); q.p++)
		dot = dot || *q.p == '.';
	if (!dot || !scan_eat(&q, ": [") || !level_word(&q, &l->level) || !scan_eat(&q, "]"))
		return false;
	*s = q;
	return true;
}

/* "Fri Nov 20 12:31:45 2026[1,0]<stdout>:", of mpirun --timestamp-output */
static bool eat_mpi_stamp(struct log *g, struct log_line *l, struct scan *s)
{
	struct scan q = *s;
	int64_t ns;

	if (!plain_stamp(g, &q, &ns) || !scan_at(&q, "[") || !bracket_mpi(l, &q))
		return false;
	l->time_ns = ns;
	*s = q;
	return true;
}

static bool eat_word(struct log *g, struct log_line *l, struct scan *s)
{
	return eat_glog(g, l, s) || eat_rank(g, l, s) || eat_level(l, s) || eat_syslog(g, l, s) ||
	       eat_mpi_stamp(g, l, s) || eat_nccl(l, s) || eat_host(l, s) || eat_module(l, s);
}

static void prefixes(struct log *g, struct log_line *l, const char *from)
{
	struct scan s = scan_of(from, l->end);

	for (unsigned i = 0; i < LOG_PREFIXES_MAX && s.p < s.end; i++) {
		struct scan q = s;
		bool ate;

		scan_blanks(&q);
		if (q.p == q.end)
			break;
		if (*q.p == '[')
			ate = eat_bracket(g, l, &q);
		else if (*q.p == '(')
			ate = eat_ray(l, &q);
		else if (is_digit(*q.p))
			ate = eat_number(g, l, &q);
		else
			ate = is_alpha(*q.p) && eat_word(g, l, &q);
		if (!ate)
			break;
		s = q;
		s.end = l->end;
		if (s.p < s.end && *s.p == ' ')
			s.p++;
	}
	l->text = s.p;
}

void log_prefix(struct log *g, struct log_line *l)
{
	g->n_stamps = 0;
	prefixes(g, l, l->start);
}

void log_prefix_before(struct log *g, struct log_line *l, const char *at)
{
	const char *p = l->text;

	while (p < at && (p = memchr(p, '[', (size_t)(at - p)))) {
		struct scan s = scan_of(p, l->end);

		if (bracket_rank(g, l, &s) || bracket_level(g, l, &s)) {
			prefixes(g, l, p);
			p = MAX(l->text, s.p);
		} else {
			p++;
		}
	}
}
