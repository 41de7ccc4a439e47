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
#include "read/stamp.h"

/* --- stamps --- */

#define NS_PER_S 1000000000ll

/* n digits, exactly. */
static bool fixed(struct scan *s, unsigned n, int64_t *ret)
{
	int64_t v = 0;

	if (scan_left(s) < n)
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (!is_digit(s->p[i]))
			return false;
		v = 10 * v + (s->p[i] - '0');
	}
	s->p += n;
	*ret = v;
	return true;
}

/* HH:MM[:SS[.fraction]], as nanoseconds of the day. */
static bool clock_of(struct scan *s, int64_t *ret)
{
	struct scan q = *s;
	int64_t h, m, sec = 0, ns = 0, scale = NS_PER_S / 10;

	if (!fixed(&q, 2, &h) || !scan_eat(&q, ":") || !fixed(&q, 2, &m) || h > 24 || m > 59)
		return false;
	if (scan_at(&q, ":")) {
		q.p++;
		if (!fixed(&q, 2, &sec) || sec > 60)
			return false;
		if (scan_left(&q) > 1 && (*q.p == '.' || *q.p == ',') && is_digit(q.p[1]))
			for (q.p++; q.p < q.end && is_digit(*q.p); q.p++, scale /= 10)
				ns += (*q.p - '0') * scale;
	}
	*s = q;
	*ret = ((h * 60 + m) * 60 + sec) * NS_PER_S + ns;
	return true;
}

/* Z, +01:00, -0500: what to take off. */
static int64_t zone_of(struct scan *s)
{
	struct scan q = *s;
	int64_t h, m = 0, sign;

	if (scan_eat(&q, "Z")) {
		*s = q;
		return 0;
	}
	if (scan_left(&q) < 5 || (*q.p != '+' && *q.p != '-'))
		return 0;
	sign = *q.p++ == '-' ? -1 : 1;
	if (!fixed(&q, 2, &h) || h > 14)
		return 0;
	scan_eat(&q, ":");
	if (!fixed(&q, 2, &m) || m > 59 || (q.p < q.end && is_digit(*q.p)))
		return 0;
	*s = q;
	return sign * (h * 60 + m) * 60 * NS_PER_S;
}

static int64_t epoch_ns(struct log *g, int64_t y, int64_t m, int64_t d, int64_t clock)
{
	int64_t key = (y * 16 + m) * 32 + d;

	if (key != g->day_key) {
		g->day_key = key;
		g->day_ns = stamp_days(y, (unsigned)m, (unsigned)d) * LOG_NS_PER_DAY;
	}
	return g->day_ns + clock;
}

static bool is_date(int64_t m, int64_t d)
{
	return m >= 1 && m <= 12 && d >= 1 && d <= 31;
}

/* 2026-11-29 or 2026/11/29; 11/29/2026 or 11/29/26. */
static bool date_of(struct scan *s, int64_t *y, int64_t *m, int64_t *d)
{
	struct scan q = *s;
	int64_t swap;

	if (fixed(&q, 4, y) && q.p < q.end && (*q.p == '-' || *q.p == '/')) {
		char sep[2] = { *q.p, 0 };

		q.p++;
		if (!fixed(&q, 2, m) || !scan_eat(&q, sep) || !fixed(&q, 2, d))
			return false;
	} else {
		q = *s;
		if (!fixed(&q, 2, m) || !scan_eat(&q, "/") || !fixed(&q, 2, d) ||
		    !scan_eat(&q, "/"))
			return false;
		if (!fixed(&q, 4, y)) {
			if (!fixed(&q, 2, y))
				return false;
			*y += 2000;
		}
		if (*m > 12) {
			swap = *m;
			*m = *d;
			*d = swap;
		}
	}
	if (!is_date(*m, *d) || *y < 2000 || *y > 2200)
		return false;
	*s = q;
	return true;
}

static int64_t month_of(const struct scan *s)
{
	static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

	for (int64_t m = 0; scan_left(s) >= 3 && m < 12; m++)
		if (!memcmp(s->p, names + 3 * m, 3))
			return m + 1;
	return 0;
}

/* [Tue ]Nov 29 21:31:49[ 2026] */
static bool written_stamp(struct log *g, struct scan *s, int64_t *ret)
{
	struct scan q = *s;
	int64_t m, d, clock, y;

	if (scan_left(&q) > 4 && q.p[3] == ' ' && !month_of(&q) && is_alpha(q.p[0]) &&
	    is_alpha(q.p[1]) && is_alpha(q.p[2]))
		q.p += 4;
	m = month_of(&q);
	if (!m || scan_left(&q) < 15)
		return false;
	q.p += 3;
	if (!scan_eat(&q, " "))
		return false;
	scan_blanks(&q);
	if (!scan_digits(&q, &d) || !scan_eat(&q, " ") || !is_date(m, d) || !clock_of(&q, &clock))
		return false;
	*s = q;
	*ret = log_yearless(m, d, clock);
	if (scan_eat(&q, " ") && fixed(&q, 4, &y) && y >= 2000 && y <= 2200 &&
	    (q.p == q.end || !is_digit(*q.p))) {
		*s = q;
		g->year = y;
		*ret = epoch_ns(g, y, m, d, clock);
	}
	return true;
}

bool log_stamp(struct log *g, struct scan *s, int64_t *ret)
{
	struct scan q = *s;
	int64_t y, m, d, clock;

	if (q.p < q.end && is_alpha(*q.p))
		return written_stamp(g, s, ret);
	if (!date_of(&q, &y, &m, &d))
		return false;
	if (q.p == q.end || (*q.p != ' ' && *q.p != 'T' && *q.p != '_' && *q.p != '-'))
		return false;
	q.p++;
	if (!clock_of(&q, &clock))
		return false;
	g->year = y;
	*ret = epoch_ns(g, y, m, d, clock) - zone_of(&q);
	*s = q;
	return true;
}

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

static bool is_level_letter(char c)
{
	return c == 'I' || c == 'W' || c == 'E' || c == 'F';
}

/* E1206 18:44:12.715298746, E514 07:12:09.34: the month has no leading zero in torch's. */
static bool level_stamp(struct scan *s, char *level, int64_t *ret)
{
	struct scan q = *s;
	int64_t v, clock;
	const char *digits;

	if (scan_left(&q) < 12 || !is_level_letter(*q.p) || !is_digit(q.p[1]))
		return false;
	*level = *q.p++;
	digits = q.p;
	if (!scan_digits(&q, &v) || q.p - digits < 3 || q.p - digits > 4 || !scan_eat(&q, " ") ||
	    !is_date(v / 100, v % 100))
		return false;
	scan_blanks(&q);
	if (!clock_of(&q, &clock))
		return false;
	*ret = log_yearless(v / 100, v % 100, clock);
	*s = q;
	return true;
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

	if (!level_stamp(s, level, ret))
		return false;
	note_stamp(g, p, s->p, true);
	return true;
}

bool log_stamp_again(struct log *g, const char *p, const char *end, bool level, int64_t *ret)
{
	struct scan s = scan_of(p, end);
	char letter;

	return (level ? level_stamp(&s, &letter, ret) : log_stamp(g, &s, ret)) && s.p == end;
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
	int64_t v;

	if (!scan_eat(&q, "[rank"))
		return false;
	scan_eat(&q, ":");
	scan_blanks(&q);
	l->rank_at = q;
	if (!scan_digits(&q, &v) || !scan_eat(&q, "]"))
		return false;
	l->rank_at.end = q.p - 1;
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
	} else if (scan_left(&q) > 3 && is_level_letter(*q.p) && q.p[1] == ' ') {
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

	q.p++;
	scan_blanks(&q);
	l->stamp_at = q;
	if (plain_stamp(g, &q, &ns)) {
		l->stamp_at.end = q.p;
		if (!to_bracket(&q, 40))
			return false;
		l->time_ns = ns;
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

static bool eat_number(struct log *g, struct log_line *l, struct scan *s)
{
	struct scan q = *s, task;
	int64_t v, ns;

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
	int64_t m, d, clock;

	scan_blanks(&q);
	if (!fixed(&q, 2, &m) || !scan_eat(&q, "-") || !fixed(&q, 2, &d) || !is_date(m, d) ||
	    !scan_eat(&q, " ") || !clock_of(&q, &clock))
		return;
	l->time_ns = log_yearless(m, d, clock);
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

static bool eat_word(struct log *g, struct log_line *l, struct scan *s)
{
	return eat_glog(g, l, s) || eat_rank(g, l, s) || eat_level(l, s) || eat_syslog(g, l, s) ||
	       eat_nccl(l, s) || eat_host(l, s) || eat_module(l, s);
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
