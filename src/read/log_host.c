/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log_host.c - what the machine and its keeper say: Slurm, the kernel, Kubernetes, clouds.
 *
 * These lines are of hosts and process ids, never of ranks: the number of a Slurm task is none.
 */
#include <stdio.h>

#include "read/log_internal.h"

static bool is_host(char c)
{
	return is_alpha(c) || is_digit(c) || c == '-' || c == '.' || c == '_';
}

static uint32_t host_at(struct log *g, struct scan *s)
{
	const char *p = s->p;

	while (s->p < s->end && is_host(*s->p))
		s->p++;
	return s->p > p ? testimony_name(g->t, p, (size_t)(s->p - p)) : NO_ID;
}

/* --- Slurm --- */

static const struct {
	const char *words;
	enum saying_kind kind;
	const char *what;
	int64_t value;
} task_ends[] = {
	{ "Out Of Memory", SAY_OUT_OF_MEMORY, "host memory", 1 },
	{ "OOM Killed", SAY_OUT_OF_MEMORY, "host memory", 1 },
	{ "Segmentation fault", SAY_EXIT, NULL, -11 },
	{ "Bus error", SAY_EXIT, NULL, -7 },
	{ "Aborted", SAY_EXIT, NULL, -6 },
	{ "Killed", SAY_EXIT, NULL, -9 },
	{ "Terminated", SAY_STOPPED, NULL, 15 },
};

/* "srun: error: nid005031: task 1: Exited with exit code 1"; "..: tasks 0-7: Killed" */
static enum log_took on_srun(struct log *g, struct log_line *l, const char *at,
			     const struct log_anchor *a)
{
	struct scan s = scan_of(at + strlen(a->word), l->end);
	struct saying t = saying_of(SAY_EXIT);
	const char *task;

	if (scan_eat(&s, "Node failure on ")) {
		t.kind = SAY_NODE_FAILED;
		t.host = host_at(g, &s);
		log_say(g, l, &t);
		return LOG_SAID;
	}
	t.host = host_at(g, &s);
	if (!scan_eat(&s, ": ") || !scan_at(&s, "task"))
		return LOG_PLAIN;
	task = s.p;
	if (!scan_to(&s, ": "))
		return LOG_PLAIN;
	t.what = testimony_name(g->t, task, (size_t)(s.p - 2 - task));
	if (scan_at(&s, "Exited with exit code ")) {
		scan_to(&s, "code ");
		scan_int(&s, &t.value);
		g->step_terminated = true;
		log_say(g, l, &t);
		return LOG_SAID;
	}
	for (size_t i = 0; i < ARRAY_SIZE(task_ends); i++)
		if (scan_at(&s, task_ends[i].words)) {
			t.kind = task_ends[i].kind;
			t.value = task_ends[i].value;
			if (task_ends[i].what)
				t.what = log_name(g, task_ends[i].what);
			log_say(g, l, &t);
			return LOG_SAID;
		}
	return LOG_PLAIN;
}

static enum log_took on_terminating(struct log *g, struct log_line *l, const char *at,
				    const struct log_anchor *a)
{
	(void)l;
	(void)at;
	(void)a;
	g->step_terminated = true;
	return LOG_TOOK;
}

/*
 * "*** STEP 1809655.0 ON r6i4n3 CANCELLED AT 2021-05-24T09:50:34 DUE TO TIME LIMIT ***". A step
 * that srun ends after a task failed is not cancelled by anybody.
 */
static enum log_took on_cancelled(struct log *g, struct log_line *l, const char *at,
				  const struct log_anchor *a)
{
	struct scan head = scan_of(l->text, at), s = scan_of(at + strlen(a->word), l->end);
	struct saying t = saying_of(SAY_CANCELLED);

	if (!scan_to(&head, "*** ") || (!scan_at(&head, "STEP ") && !scan_at(&head, "JOB ")))
		return LOG_GO_ON;
	if (scan_to(&head, " ON "))
		t.host = host_at(g, &head);
	scan_blanks(&s);
	log_stamp(g, &s, &t.time_ns);
	if (text_has(s.p, l->end, "TIME LIMIT")) {
		t.what = log_name(g, "time limit");
	} else if (text_has(s.p, l->end, "PREEMPT")) {
		t.what = log_name(g, "preempted");
	} else if (text_has(s.p, l->end, "NODE FAIL")) {
		t.kind = SAY_NODE_FAILED;
		t.what = log_name(g, "node failure");
		t.host = NO_ID; /* the step's first node is named, whichever failed */
	} else if (g->step_terminated) {
		t.kind = SAY_STOPPED;
		t.value = 15;
	} else {
		t.what = log_name(g, "cancelled");
	}
	log_say(g, l, &t);
	return LOG_TOOK;
}

/* "slurmstepd: error: Job 7 exceeded memory limit (105782124 > 104857600), being killed" */
static enum log_took on_memory_limit(struct log *g, struct log_line *l, const char *at,
				     const struct log_anchor *a)
{
	struct saying t = saying_of(SAY_OUT_OF_MEMORY);

	(void)a;
	if (!text_has(at, l->end, "being killed"))
		return LOG_PLAIN;
	t.value = 1;
	t.what = log_name(g, "host memory");
	log_say(g, l, &t);
	return LOG_SAID;
}

/* --- the kernel --- */

/* "NVRM: Xid (PCI:0000:41:00): 79, pid=1234, name=python, GPU has fallen off the bus." */
static enum log_took on_xid(struct log *g, struct log_line *l, const char *at,
			    const struct log_anchor *a)
{
	struct scan s = scan_of(at, l->end), q;
	struct saying t = saying_of(SAY_GPU_ERROR);
	char what[32];

	(void)a;
	if (!scan_to(&s, "Xid") || !scan_to(&s, "): ") || !scan_int(&s, &t.value))
		return LOG_PLAIN;
	q = s;
	if (scan_to(&q, "pid=")) {
		scan_eat(&q, "'");
		scan_int(&q, &t.pid);
	}
	snprintf(what, sizeof(what), "Xid %" PRId64, t.value);
	t.what = log_name(g, what);
	log_say(g, l, &t);
	return LOG_SAID;
}

/* "amdgpu 0000:06:00.0: amdgpu:  for process python3 pid 1325 thread python3 pid 1325", below a
   page fault */
static enum log_took on_amd_fault(struct log *g, struct log_line *l, const char *at,
				  const struct log_anchor *a)
{
	struct saying t = saying_of(SAY_GPU_ERROR);
	struct scan s = scan_of(at + strlen(a->word), l->end);

	if (!text_has(l->start, at, "amdgpu") || !scan_to(&s, " pid ") || !scan_int(&s, &t.pid))
		return LOG_PLAIN;
	t.what = log_name(g, "memory access fault");
	log_say(g, l, &t);
	return LOG_SAID;
}

/* Newer drivers say it without a number. */
static enum log_took on_off_bus(struct log *g, struct log_line *l, const char *at,
				const struct log_anchor *a)
{
	struct saying t = saying_of(SAY_GPU_ERROR);

	(void)a;
	if (!text_has(l->start, at, "NVRM") && !text_has(l->start, at, "GPU"))
		return LOG_PLAIN;
	t.value = 79;
	t.what = log_name(g, "Xid 79");
	log_say(g, l, &t);
	return LOG_SAID;
}

/* "[ERROR] 2024-07-03-19:45:13 (PID:62743, Device:11, RankID:43) ERR02005 DIST internal error" */
static enum log_took on_ascend(struct log *g, struct log_line *l, const char *at,
			       const struct log_anchor *a)
{
	struct scan s = scan_of(at + strlen(a->word), l->end), head = scan_of(l->start, at);
	struct saying t = saying_of(SAY_FATAL);

	if (!scan_int(&s, &t.rank) || !text_has(s.p, l->end, "ERR"))
		return LOG_PLAIN;
	if (scan_to(&head, "PID:"))
		scan_int(&head, &t.pid);
	if (scan_to(&head, "Device:"))
		scan_int(&head, &t.gpu);
	t.what = log_name(g, "internal error");
	log_say(g, l, &t);
	return LOG_SAID;
}

/* "EI0002: [PID: 2925] .. has not received the Notify record from remote rank: [24].": the watchdog
   of Ascend's library, whose speaker waits. */
static enum log_took on_notify(struct log *g, struct log_line *l, const char *at,
			       const struct log_anchor *a)
{
	struct saying waits = saying_of(SAY_TIMEOUT), t = saying_of(SAY_NOT_JOINED);
	struct scan s = scan_of(at + strlen(a->word), l->end), head = scan_of(l->start, at);

	if (scan_to(&head, "PID:")) {
		scan_blanks(&head);
		scan_int(&head, &waits.pid);
	}
	t.pid = waits.pid;
	log_say(g, l, &waits);
	/* in a group's own numbers it is no rank of the job, nor is what stands for none */
	if (!text_has(s.p, l->end, "group_name_") && scan_to(&s, "[") && scan_int(&s, &t.peer) &&
	    t.peer < INT32_MAX)
		log_say(g, l, &t);
	return LOG_SAID;
}

/* "Out of memory: Killed process 12345 (python3)", "Memory cgroup out of memory: Killed process .."
 */
static enum log_took on_oom(struct log *g, struct log_line *l, const char *at,
			    const struct log_anchor *a)
{
	struct scan s = scan_of(at + strlen(a->word), l->end);
	struct saying t = saying_of(SAY_OUT_OF_MEMORY);

	scan_to(&s, "rocess ");
	scan_int(&s, &t.pid);
	t.value = 1;
	t.what = log_name(g, "host memory");
	log_say(g, l, &t);
	return LOG_SAID;
}

static const char *const port_trouble[] = {
	"health compromised", "Cable error", "cable error", "Link Down", "link down",
	"Link is Down",	      "Port down",   "timeout",	    "err",	 "failed",
	"unplugged",	      "fatal",
};

/* "mlx5_core 0000:5e:00.0: .. Port module event[error]: module 0, Cable error" */
static enum log_took on_mlx(struct log *g, struct log_line *l, const char *at,
			    const struct log_anchor *a)
{
	struct saying t = saying_of(SAY_NETWORK_ERROR);
	struct scan s = scan_of(at, l->end);
	const char *name;

	for (size_t i = 0; i < ARRAY_SIZE(port_trouble); i++) {
		if (!text_has(at, l->end, port_trouble[i]))
			continue;
		s.p += strlen(a->word); /* "0000:5e:00.0: mlx5_5: ..", or without the second */
		for (name = s.p; scan_to(&s, "mlx5_");)
			name = s.p - strlen("mlx5_");
		for (s.p = name; s.p < s.end && *s.p != ' '; s.p++)
			;
		while (s.p > name && s.p[-1] == ':')
			s.p--;
		t.what = s.p > name ? testimony_name(g->t, name, (size_t)(s.p - name))
				    : log_name(g, "network");
		log_say(g, l, &t);
		return LOG_SAID;
	}
	return LOG_PLAIN;
}

/* "python3[1234]: segfault at 0 ip .." */
static enum log_took on_segfault(struct log *g, struct log_line *l, const char *at,
				 const struct log_anchor *a)
{
	struct saying t = saying_of(SAY_FATAL);
	const char *p = at;
	struct scan s;

	(void)a;
	while (p > l->start && p[-1] != '[')
		p--;
	s = scan_of(p, at);
	if (p > l->start)
		scan_int(&s, &t.pid);
	t.value = 11;
	t.what = log_name(g, "segmentation fault");
	log_say(g, l, &t);
	return LOG_SAID;
}

enum log_took log_on_words(struct log *g, struct log_line *l, const char *at,
			   const struct log_anchor *a)
{
	struct saying t = saying_of(a->kind);

	(void)at;
	t.value = a->value;
	if (a->what)
		t.what = log_name(g, a->what);
	log_say(g, l, &t);
	return LOG_SAID;
}

/* "INFO: task python3:1234 blocked for more than 120 seconds." */
static enum log_took on_blocked(struct log *g, struct log_line *l, const char *at,
				const struct log_anchor *a)
{
	struct saying t = saying_of(SAY_WARNING);
	struct scan s = scan_of(l->start, at);

	(void)a;
	if (scan_to(&s, "task ") && scan_to(&s, ":"))
		scan_int(&s, &t.pid);
	t.what = log_name(g, "task blocked in the kernel");
	log_say(g, l, &t);
	return LOG_SAID;
}

const struct log_anchor log_host_anchors[] = {
	{ "srun: error: ", on_srun, 0, NULL, 0 },
	{ "srun: terminating", on_terminating, 0, NULL, 0 },
	{ "cancelled at", on_cancelled, 0, NULL, 0 },
	{ "cancelled due to ", on_cancelled, 0, NULL, 0 },
	{ "exceeded memory limit (", on_memory_limit, 0, NULL, 0 },
	{ "oom_kill event", log_on_words, SAY_OUT_OF_MEMORY, "host memory", 1 },
	{ "oom-kill event", log_on_words, SAY_OUT_OF_MEMORY, "host memory", 1 },
	{ "nvrm: xid", on_xid, 0, NULL, 0 },
	{ "for process ", on_amd_fault, 0, NULL, 0 },
	{ "fallen off the bus", on_off_bus, 0, NULL, 0 },
	{ "reason=[task timeout]", log_on_words, SAY_TIMEOUT, NULL, -1 },
	{ "reason=[stream sync timeout]", log_on_words, SAY_TIMEOUT, NULL, -1 },
	{ "rankid:", on_ascend, 0, NULL, 0 },
	{ "not received the notify record from remote rank", on_notify, 0, NULL, 0 },
	{ "getting socket times out", log_on_words, SAY_RENDEZVOUS, NULL, -1 },
	{ "gpu reset begin", log_on_words, SAY_GPU_ERROR, "GPU reset", -1 },
	{ "out of memory: kill", on_oom, 0, NULL, 0 },
	{ "mlx5_core ", on_mlx, 0, NULL, 0 },
	{ "segfault at ", on_segfault, 0, NULL, 0 },
	{ "blocked for more than ", on_blocked, 0, NULL, 0 },
	{ "oomkilled", log_on_words, SAY_OUT_OF_MEMORY, "host memory", 1 },
	{ "the node was low on resource", log_on_words, SAY_CANCELLED, "evicted", -1 },
	{ "preempted by ", log_on_words, SAY_CANCELLED, "preempted", -1 },
	{ "term_runlimit: ", log_on_words, SAY_CANCELLED, "time limit", -1 },
	{ "term_memlimit: ", log_on_words, SAY_OUT_OF_MEMORY, "host memory", 1 },
	{ "pbs: job killed: walltime", log_on_words, SAY_CANCELLED, "time limit", -1 },
	{ "orte has lost communication with a remote daemon", log_on_words, SAY_NODE_FAILED, NULL,
	  -1 },
	{ "node is not ready", log_on_words, SAY_NODE_FAILED, NULL, -1 },
	{ "nodenotready", log_on_words, SAY_NODE_FAILED, NULL, -1 },
	{ NULL, NULL, 0, NULL, 0 },
};
