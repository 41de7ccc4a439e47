/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_launch.c - how launchers other than torchelastic, shells and libc tell that a process ended.
 *
 * Who ended is told by rank, by process id or not at all; why is told elsewhere, if it is.
 */
#include <signal.h>

#include "read/log_internal.h"

#define ACTOR_LINES 10u /* of what tells of one */

/*
 * "rank 5 (pid 27279) exited with signal 9", "process rank 3 with PID 12345 on node x exited on
 * signal 9", "exits with return code = -9", "Process 12 exited with code 1"
 */
static enum log_took on_exited(struct log *g, struct log_line *l, const char *at,
			       const struct log_anchor *a)
{
	struct scan s = scan_of(at, l->end), head = scan_of(l->text, at), q;
	struct saying t = saying_of(SAY_EXIT);
	int64_t v;

	(void)a;

	if (scan_to_any(&s, "signal")) {
		scan_eat(&s, ":");
		scan_blanks(&s);
		if (!scan_int(&s, &v))
			return LOG_PLAIN;
		t.value = -v;
	} else if (scan_to_any(&s, "code") || scan_to_any(&s, "status")) {
		scan_eat(&s, ":");
		scan_blanks(&s);
		scan_eat(&s, "=");
		scan_blanks(&s);
		if (!scan_int(&s, &t.value))
			return LOG_PLAIN;
	} else {
		return LOG_PLAIN;
	}
	q = head;
	if (scan_to_any(&q, "rank ") && !text_has(head.p, q.p, "local"))
		scan_int(&q, &t.rank);
	q = head; /* in the command line that DeepSpeed repeats */
	if (scan_to(&q, "--local_rank="))
		scan_int(&q, &t.local_rank);
	q = head;
	if (scan_to_any(&q, "pid")) {
		scan_eat(&q, ":");
		scan_blanks(&q);
		scan_int(&q, &t.pid);
	}
	log_say(g, l, &t);
	return LOG_SAID;
}

/* "Received Signals.SIGTERM death signal, shutting down workers", "Received 15 death signal": the
   launcher itself was ended */
static enum log_took on_death_signal(struct log *g, struct log_line *l, const char *at,
				     const struct log_anchor *a)
{
	struct saying t = saying_of(SAY_STOPPED);
	struct scan s = scan_of(at + strlen(a->word), l->end);

	if (!text_has(l->text, at, "eceived"))
		return LOG_PLAIN;
	scan_blanks(&s);
	t.value = SIGTERM;
	if (!scan_int(&s, &t.value) && text_has(l->text, at, "SIGHUP"))
		t.value = SIGHUP;
	else if (text_has(l->text, at, "SIGINT"))
		t.value = SIGINT;
	t.what = log_name(g, "agent");
	log_say(g, l, &t);
	return LOG_SAID;
}

/* accelerate's: "Command '[..]' died with <Signals.SIGKILL: 9>." */
static enum log_took on_died_with(struct log *g, struct log_line *l, const char *at,
				  const struct log_anchor *a)
{
	struct saying t = saying_of(SAY_EXIT);
	struct scan s = scan_of(at, l->end);

	(void)a;
	if (!scan_to(&s, ": ") || !scan_int(&s, &t.value))
		return LOG_PLAIN;
	t.value = -t.value;
	log_say(g, l, &t);
	return LOG_SAID;
}

/* "Command '[..]' returned non-zero exit status 1." */
static enum log_took on_non_zero(struct log *g, struct log_line *l, const char *at,
				 const struct log_anchor *a)
{
	struct saying t = saying_of(SAY_EXIT);
	struct scan s = scan_of(at + strlen(a->word), l->end);

	scan_blanks(&s);
	if (!text_has(l->text, at, "CalledProcessError") || !scan_int(&s, &t.value))
		return LOG_PLAIN;
	log_say(g, l, &t);
	return LOG_SAID;
}

/* Hydra's: "=   RANK 3 PID 22110 RUNNING AT gpu-1", then "=   KILLED BY SIGNAL: 9 (Killed)" */
static enum log_took on_mpich_rank(struct log *g, struct log_line *l, const char *at,
				   const struct log_anchor *a)
{
	struct scan head = scan_of(l->start, at), s = scan_of(at + strlen(a->word), l->end);

	if (!scan_to(&head, "RANK ") || !scan_int(&head, &g->mpich.rank) ||
	    !scan_to(&head, "PID ") || !scan_int(&head, &g->mpich.pid))
		return LOG_GO_ON;
	g->mpich.host = log_text(g, s.p, s.end);
	g->mpich.inside = true;
	return LOG_TOOK;
}

static enum log_took on_mpich_end(struct log *g, struct log_line *l, const char *at,
				  const struct log_anchor *a)
{
	struct saying t = saying_of(SAY_EXIT);
	struct scan s = scan_of(at + strlen(a->word), l->end);

	scan_blanks(&s);
	if (!g->mpich.inside || !scan_int(&s, &t.value))
		return LOG_GO_ON;
	g->mpich.inside = false;
	t.value *= a->value;
	t.rank = g->mpich.rank;
	t.pid = g->mpich.pid;
	t.host = g->mpich.host;
	log_say(g, l, &t);
	return LOG_TOOK;
}

/* "MPI_ABORT was invoked on rank 3 in communicator MPI_COMM_WORLD" */
static enum log_took on_mpi_abort(struct log *g, struct log_line *l, const char *at,
				  const struct log_anchor *a)
{
	struct saying t = saying_of(SAY_EXIT);
	struct scan s = scan_of(at + strlen(a->word), l->end);

	if (!scan_int(&s, &t.rank) || !text_has(s.p, l->end, "MPI_COMM_WORLD"))
		return LOG_PLAIN;
	t.value = 1;
	log_say(g, l, &t);
	return LOG_SAID;
}

/* glibc's last words: they stand alone in their line */
static enum log_took on_heap(struct log *g, struct log_line *l, const char *at,
			     const struct log_anchor *a)
{
	return at == l->text ? log_on_words(g, l, at, a) : LOG_PLAIN;
}

/* "Killing subprocess 48040" */
static enum log_took on_killing(struct log *g, struct log_line *l, const char *at,
				const struct log_anchor *a)
{
	struct scan s = scan_of(at + strlen(a->word), l->end);
	struct saying t = saying_of(SAY_STOPPED);

	if (!scan_int(&s, &t.pid))
		return LOG_PLAIN;
	t.value = 15;
	log_say(g, l, &t);
	return LOG_SAID;
}

/* "Worker IP address: 10.1.2.3 Worker port: 10258 Worker PID: 1008813 Worker exit type: .." */
static enum log_took on_worker(struct log *g, struct log_line *l, const char *at,
			       const struct log_anchor *a)
{
	struct scan s = scan_of(at + strlen(a->word), l->end), head = scan_of(l->text, at), ip;
	struct saying t = saying_of(SAY_EXIT);

	t.value = EXIT_UNSEEN;
	if (!scan_int(&s, &t.pid))
		return LOG_PLAIN;
	if (scan_to(&head, "IP address: ")) {
		for (ip = head; head.p < head.end && *head.p != ' '; head.p++)
			;
		t.host = testimony_name(g->t, ip.p, (size_t)(head.p - ip.p));
	}
	log_say(g, l, &t);
	return LOG_SAID;
}

/* Of Ray's actor that died, line by line: "	pid: 6944", "	ip: 10.1.2.3" */
static enum log_took on_actor(struct log *g, struct log_line *l, const char *at,
			      const struct log_anchor *a)
{
	struct scan s = scan_of(at + strlen(a->word), l->end);

	if (a->value == 'a') {
		g->actor = (struct log_actor){ .line = l->number, .pid = -1, .host = NO_ID };
		return LOG_TOOK;
	}
	if (!g->actor.line || l->number > g->actor.line + ACTOR_LINES)
		return LOG_PLAIN;
	scan_blanks(&s);
	if (a->value == 'p')
		scan_int(&s, &g->actor.pid);
	else
		g->actor.host = log_text(g, s.p, s.end);
	return LOG_GO_ON;
}

/* "The actor is dead because its worker process has died. Worker exit type: .." */
static enum log_took on_actor_died(struct log *g, struct log_line *l, const char *at,
				   const struct log_anchor *a)
{
	struct saying t = saying_of(SAY_EXIT);

	(void)a;
	t.value = EXIT_UNSEEN;
	t.text = log_text(g, at, l->end);
	if (g->actor.line && l->number <= g->actor.line + ACTOR_LINES) {
		t.pid = g->actor.pid;
		t.host = g->actor.host;
	}
	g->actor.line = 0;
	log_say(g, l, &t);
	return LOG_TOOK;
}

/* "slurm_script: line 28:  8156 Killed    python3 main.py", as a shell says it; or only "Killed" */
static enum log_took on_shell(struct log *g, struct log_line *l, const char *at,
			      const struct log_anchor *a)
{
	struct saying t = saying_of(SAY_EXIT);
	const char *p = at;
	struct scan s;

	while (p > l->start && p[-1] == ' ')
		p--;
	while (p > l->start && is_digit(p[-1]))
		p--;
	s = scan_of(p, at);
	if (!text_has(l->start, p, ": line ") || !scan_int(&s, &t.pid))
		if (at != l->text ||
		    (at + strlen(a->word) < l->end && !text_has(at, l->end, "(core dumped)")))
			return LOG_PLAIN;
	t.value = a->value;
	log_say(g, l, &t);
	return LOG_SAID;
}

const struct log_anchor log_launch_anchors[] = {
	{ "killed", on_shell, 0, NULL, -9 },
	{ "terminated", on_shell, 0, NULL, -15 },
	{ "aborted", on_shell, 0, NULL, -6 },
	{ "worker pid: ", on_worker, 0, NULL, 0 },
	{ "actor_id: ", on_actor, 0, NULL, 'a' },
	{ "pid: ", on_actor, 0, NULL, 'p' },
	{ "ip: ", on_actor, 0, NULL, 'i' },
	{ "actor is dead because its worker process has died", on_actor_died, 0, NULL, 0 },
	{ "death signal", on_death_signal, SAY_STOPPED, NULL, 0 },
	{ "exited with ", on_exited, 0, NULL, 0 },
	{ "exited on signal", on_exited, 0, NULL, 0 },
	{ "command terminated with ", on_exited, 0, NULL, 0 },
	{ "crashed with exit code", on_exited, 0, NULL, 0 },
	{ "died with <signals.", on_died_with, 0, NULL, 0 },
	{ "returned non-zero exit status", on_non_zero, 0, NULL, 0 },
	{ "running at ", on_mpich_rank, 0, NULL, 0 },
	{ "killed by signal:", on_mpich_end, 0, NULL, -1 },
	{ "exit code:", on_mpich_end, 0, NULL, 1 },
	{ "mpi_abort was invoked on rank ", on_mpi_abort, 0, NULL, 0 },
	{ "free(): ", on_heap, SAY_FATAL, "heap corruption", 6 },
	{ "malloc(): ", on_heap, SAY_FATAL, "heap corruption", 6 },
	{ "double free or corruption", on_heap, SAY_FATAL, "heap corruption", 6 },
	{ "corrupted size vs. prev_size", on_heap, SAY_FATAL, "heap corruption", 6 },
	{ "exits with return code", on_exited, 0, NULL, 0 },
	{ "killing subprocess ", on_killing, 0, NULL, 0 },
	{ NULL, NULL, 0, NULL, 0 },
};
