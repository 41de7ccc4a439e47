/* SPDX-License-Identifier: Apache-2.0 */
/* run_inside.h - what the parts of `lockstep run` share. */
#pragma once
#include <jansson.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/child.h"
#include "run/run.h"
#include "model/cause.h"
#include "read/checkpoint.h"
#include "base/clock.h"

/* --- children that work for us, each with a deadline --- */

struct helper {
	const char *what;
	struct child child; /* its pid is 0: none */
	bool late;	    /* it was killed at its deadline, or because it printed without end */
	int status;
	int out; /* what it prints to: looked at as long as it runs; 0: none */
};
/* Its standard output (and error, if both) goes to the file out; NULL: nowhere. -1: not started. */
int helper_start(struct helper *h, const char *what, char *const *argv, const char *out, bool both,
		 unsigned limit_ms);
int helper_call(struct helper *h, const char *what, int (*fn)(void *user), void *user,
		unsigned limit_ms);
bool helper_look(struct helper *h); /* true: it has ended, or there is none */
void helper_stop(struct helper *h);

/* --- the processes of the job: all that descend from us but helpers --- */

struct tree {
	VEC(pid_t) v;
	uint64_t ticks; /* of CPU, all together */
	uint64_t bytes; /* read and written, likewise */
	bool waiting;	/* one sleeps in the kernel, on a disk mostly */
	bool runnable;	/* one runs, or would if it got a CPU */
};
void tree_look(struct tree *t, const struct helper *helpers, size_t n);
void tree_signal(const struct tree *t, int number);
void tree_done(struct tree *t);

/* --- progress, from the words of the output --- */

#define GAPS_KEPT 64u
struct progress {
	int64_t step, first_step, epoch, bar; /* -1 */
	int64_t at_ms;			      /* of the last new one; 0 */
	int64_t gaps[GAPS_KEPT], longest_ms;
	uint64_t n; /* new ones */
};
void progress_init(struct progress *p);
void progress_line(struct progress *p, const char *text, size_t len, int64_t now_ms);
int64_t progress_median_ms(const struct progress *p); /* 0: not known */

/* --- CMD's output --- */

struct stream {
	int from, to;
	uint8_t *held; /* read, not yet passed on */
	size_t held_at, held_n;
	bool ended, deaf; /* deaf: nobody reads what we pass on */
	struct buf line;  /* begun, for the log */
	char words[1024]; /* the line again, for its steps */
	size_t n_words;
};
struct tee {
	struct stream streams[2];
	unsigned n;
	int log;
	int slaves[3];	/* CMD's ends: -1, stdout, stderr */
	int masters[2]; /* of terminals, for their size */
	uint64_t bytes;
	int trouble; /* errno: the log is not whole */
};
int tee_open(struct tee *t, const char *log, struct error *reterr);
void tee_child(struct tee *t);	/* in the child: takes the ends */
void tee_parent(struct tee *t); /* in the parent: lets go of them */
void tee_resize(const struct tee *t);
#define TEE_HELD ((size_t)256 << 10)
bool tee_read(struct tee *t, struct stream *s, struct progress *p); /* true: something came */
void tee_write(struct stream *s); /* what is held, as far as nobody waits */
void tee_flush(struct tee *t);	  /* begun lines to the log: nothing came for a while */
void tee_close(struct tee *t);
void tee_words(struct stream *s, struct progress *p, const uint8_t *text, size_t len,
	       int64_t now_ms);

/* --- attempts --- */

struct passed_over {
	char *path, *why;
};
struct chosen {
	char *path; /* NULL: begin anew */
	char *name; /* from the folder of checkpoints on */
	enum checkpoint_kind kind;
	int64_t step, mtime_ns;
	bool weights_only;
	VEC(struct passed_over) torn;
	char *trouble; /* why none could be looked for */
	bool missing;  /* there is no such folder */
};
void chosen_done(struct chosen *c);

struct attempt {
	unsigned number;
	char *folder;
	int64_t started_s, started_ms, ended_ms; /* epoch; monotonic */
	int status, error; /* of CMD as a shell has it; errno if it could not be run */
	int asked;	   /* the signal by which we were asked to end */
	bool hung, killed;
	int by_signal;	 /* that ended CMD; 0 */
	char quiet[160]; /* what was seen of its hang */
	unsigned left;	 /* processes that did not die */
	struct progress progress;
	enum cause cause;
	char cause_name[48], verdict[16], summary[400];
	struct chosen from;
	int64_t saved_before, saved_after; /* steps of the newest good checkpoint; -1 */
	int64_t saved_mtime_ns;
	bool gained; /* it got further than all before */
	bool again;
	char why[200]; /* .. or not */
	int64_t delay_ms;
	unsigned evidence; /* folders */
	double lost_hours;
};
struct run {
	const struct run_plan *p;
	VEC(struct attempt) attempts;
	int signals; /* signalfd */
	sigset_t mask, before;
	bool pipe_kills; /* SIGPIPE was not ignored when we came */
	int asked;
	int64_t started_s;
	int64_t best_step;
	FILE *log;
	bool unwritten; /* run.json is not up to date */
};
void run_say(struct run *r, const char *format, ...) PRINTF_LIKE(2, 3);
char *run_path(const struct attempt *a, const char *name);   /* in its folder, as evidence */
char *run_beside(const struct attempt *a, const char *name); /* beside: "attempt-1.hang.json" */

void run_notify(struct run *r, const struct attempt *a, const char *event, struct helper *h);
/* One attempt from launch to the last process's end. */
void run_launch(struct run *r, struct attempt *a, char **argv);
/* Signals that wait: passes them to pid (0: nobody), notes what asks us to end. */
void run_signals(struct run *r, pid_t pid, bool group, const struct tee *t);
void run_wait(struct run *r, struct helper *h); /* until it ends */
bool run_sleep(struct run *r, int64_t ms);	/* false: asked to end */

void run_environment(struct run *r, const struct attempt *a);
/* Chooses the checkpoint; NULL name: newest good. found: as JSON, for a meeting. */
void run_choose(struct run *r, const char *name, struct chosen *ret, json_t **ret_found);
void run_resume(struct run *r, struct attempt *a, char ***ret_argv);
void argv_done(char **argv);
/* Why it failed: diagnose on the attempt's folder. */
void run_classify(struct run *r, struct attempt *a);
/* Reads a report of diagnose: 0 and verdict, and cause and summary of what stopped the job. */
int run_report_read(const char *path, struct attempt *a);
enum run_words {
	RUN_EVIDENCE, /* collections and the recorder's dumps: nothing that was printed */
	RUN_WITH_LOG,
	RUN_ALL /* the tracer's records too */
};
char **run_diagnose_argv(const struct run *r, const struct attempt *a, enum run_words of);
void run_decide(struct run *r, struct attempt *a);
/* Nodes agree: on launching (again), and from where. No agreement: RUN_STOP. */
enum run_go { RUN_GO_ON, RUN_STOP, RUN_DONE };
enum run_go run_meet(struct run *r, unsigned round, enum run_go own, json_t *found,
		     char **ret_name);
void run_write(struct run *r, int status, bool ended);
void run_summary(struct run *r);

/* --- hangs --- */

enum hang_state {
	HANG_WATCHING,
	HANG_FIRST,   /* evidence is collected */
	HANG_BETWEEN, /* the two looks */
	HANG_SECOND,
	HANG_JUDGING, /* what the evidence says without the log */
	HANG_NAMING,  /* .. and with it */
	HANG_TOLD,    /* people know */
	HANG_STATES
};
struct hang {
	enum hang_state state;
	uint64_t steps; /* progress at the first look */
	int64_t since_ms, look_ms;
	struct tree before;
	bool still, shown; /* second signals: no CPU time spent, a diagnosis from evidence */
	struct helper helper, notify;
};
/* Looks; true: it is to be killed. */
bool hang_look(struct run *r, struct attempt *a, struct hang *h, int64_t now_ms);
void hang_done(struct hang *h);
