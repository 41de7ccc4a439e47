/* SPDX-License-Identifier: Apache-2.0 */
/*
 * job.c - a training job to look at: processes as ranks, a barrier in shared memory as their
 * collective, and one of them slow. What it computes is a number that does not depend on time.
 *
 *	job [ranks=4] [steps=40] [slow=2] [from=15] [ms=30] [quick=1] [exit=0]
 *	    [kind=compute|data|save|host|die|lost|leave|hang|none]
 *
 * die: killed in the middle of a phase; lost: between two; leave: it ends by itself, as by an
 * exception. quick=10 makes all but the fault ten times as quick; exit is the status of a good end.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "lockstep/lockstep.h"

enum { RANKS_MOST = 64, LAYERS = 4 };

struct options {
	long ranks, steps, slow, from, ms, quick, exit;
	char kind[16];
};

struct meeting {
	pthread_mutex_t lock;
	pthread_cond_t all;
	long here, round;
	double value[RANKS_MOST], sum;
};

static void sleep_ms(double ms)
{
	struct timespec ts = { (time_t)(ms / 1000), (long)(ms * 1e6) % 1000000000L };

	while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
		;
}

/* The sum over all ranks, in their order, when the last one is there. Nobody can come to the next
   round before all have left this one's sum behind: each brings its own value. */
static double all_reduce(struct meeting *m, long ranks, long rank, double value)
{
	long round;
	double sum;

	pthread_mutex_lock(&m->lock);
	round = m->round;
	m->value[rank] = value;
	if (++m->here == ranks) {
		m->here = 0;
		m->round++;
		m->sum = 0;
		for (long i = 0; i < ranks; i++)
			m->sum += m->value[i];
		pthread_cond_broadcast(&m->all);
	}
	while (m->round == round)
		pthread_cond_wait(&m->all, &m->lock);
	sum = m->sum;
	pthread_mutex_unlock(&m->lock);
	return sum;
}

struct names {
	uint32_t group, data, forward, backward, optimizer, save, layer[LAYERS], tokens;
};

static void names_make(struct names *n)
{
	n->group = lockstep_name("world");
	n->data = lockstep_name("next batch");
	n->forward = lockstep_name("forward");
	n->backward = lockstep_name("backward");
	n->optimizer = lockstep_name("optimizer");
	n->save = lockstep_name("save checkpoint");
	n->tokens = lockstep_name("tokens");
	for (int i = 0; i < LAYERS; i++) {
		char text[32];

		snprintf(text, sizeof(text), "layer %d", i);
		n->layer[i] = lockstep_name(text);
	}
}

static double extra(const struct options *o, long rank, long step, const char *kind)
{
	return rank == o->slow && step >= o->from && !strcmp(o->kind, kind) ? (double)o->ms : 0;
}

static double step_run(const struct options *o, const struct names *n, struct meeting *m, long rank,
		       long step, double loss)
{
	uint64_t coll;

	lockstep_step_begin(step);
	lockstep_phase_begin(n->data, LOCKSTEP_PHASE_DATA);
	sleep_ms(1.0 / (double)o->quick + extra(o, rank, step, "data"));
	lockstep_phase_end();
	sleep_ms(extra(o, rank, step, "host"));
	lockstep_phase_begin(n->forward, LOCKSTEP_PHASE_FORWARD);
	for (int i = 0; i < LAYERS; i++) {
		lockstep_phase_begin(n->layer[i], LOCKSTEP_PHASE_USER);
		sleep_ms(2.0 / (double)o->quick + extra(o, rank, step, "compute") / LAYERS);
		lockstep_phase_end();
	}
	lockstep_phase_end();
	lockstep_phase_begin(n->backward, LOCKSTEP_PHASE_BACKWARD);
	sleep_ms(10.0 / (double)o->quick);
	if (extra(o, rank, step, "die") > 0)
		raise(SIGKILL);
	if (extra(o, rank, step, "hang") > 0)
		sleep_ms(1e9);
	coll = lockstep_collective_begin(n->group, LOCKSTEP_OP_ALL_REDUCE, step, 4u << 20);
	loss = all_reduce(m, o->ranks, rank, loss * (double)(rank + 1) / (double)(step + 1));
	lockstep_collective_end(coll);
	lockstep_phase_end();
	lockstep_phase_begin(n->optimizer, LOCKSTEP_PHASE_OPTIMIZER);
	sleep_ms(3.0 / (double)o->quick);
	lockstep_phase_end();
	if (extra(o, rank, step, "save") > 0) {
		lockstep_phase_begin(n->save, LOCKSTEP_PHASE_CHECKPOINT);
		sleep_ms(extra(o, rank, step, "save"));
		lockstep_phase_end();
	}
	lockstep_counter(n->tokens, 8192);
	lockstep_step_end();
	return loss;
}

static int rank_run(const struct options *o, struct meeting *m, long rank)
{
	struct names n;
	double loss = 1;

	lockstep_identity((int)rank, (int)rank, (int)o->ranks);
	lockstep_start();
	names_make(&n);
	for (long step = 0; step < o->steps; step++) {
		if (step == o->from && extra(o, rank, step, "lost") > 0)
			raise(SIGKILL);
		if (step == o->from && extra(o, rank, step, "leave") > 0) {
			lockstep_stop();
			return 3;
		}
		loss = step_run(o, &n, m, rank, step, loss);
	}
	if (rank == 0)
		printf("loss %.17g after %ld steps of %ld ranks\n", loss, o->steps, o->ranks);
	lockstep_stop();
	return fflush(stdout) ? 1 : 0;
}

static void options_take(struct options *o, int argc, char **argv)
{
	const struct {
		const char *name;
		long *at;
	} numbers[] = { { "ranks=", &o->ranks }, { "steps=", &o->steps }, { "slow=", &o->slow },
			{ "from=", &o->from },	 { "ms=", &o->ms },	  { "quick=", &o->quick },
			{ "exit=", &o->exit } };

	for (int i = 1; i < argc; i++) {
		for (size_t k = 0; k < sizeof(numbers) / sizeof(*numbers); k++)
			if (!strncmp(argv[i], numbers[k].name, strlen(numbers[k].name)))
				*numbers[k].at =
				    strtol(argv[i] + strlen(numbers[k].name), NULL, 10);
		if (!strncmp(argv[i], "kind=", 5))
			snprintf(o->kind, sizeof(o->kind), "%s", argv[i] + 5);
	}
	if (o->quick < 1)
		o->quick = 1;
	if (o->ranks < 1 || o->ranks > RANKS_MOST)
		o->ranks = 4;
}

static struct meeting *meeting_make(void)
{
	struct meeting *m =
	    mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t lock;
	pthread_condattr_t all;

	if (m == MAP_FAILED)
		return NULL;
	pthread_mutexattr_init(&lock);
	pthread_mutexattr_setpshared(&lock, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&m->lock, &lock);
	pthread_condattr_init(&all);
	pthread_condattr_setpshared(&all, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&m->all, &all);
	return m;
}

/* As a launcher does: when a rank is gone the others are ended, after a while. */
static int ranks_wait(const struct options *o, const pid_t *pids)
{
	int worst = 0, status;

	for (long left = o->ranks; left > 0; left--) {
		if (wait(&status) < 0)
			return 1;
		if (!status || worst)
			continue;
		worst = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		sleep_ms(1500);
		for (long i = 0; i < o->ranks; i++)
			kill(pids[i], SIGTERM);
	}
	return worst;
}

int main(int argc, char **argv)
{
	struct options o = { 4, 40, 2, 15, 30, 1, 0, "compute" };
	struct meeting *m = meeting_make();
	pid_t pids[RANKS_MOST];
	int status;

	options_take(&o, argc, argv);
	if (!m)
		return 1;
	for (long rank = 0; rank < o.ranks; rank++) {
		pids[rank] = fork();
		if (pids[rank] < 0)
			return 1;
		if (!pids[rank])
			_exit(rank_run(&o, m, rank));
	}
	status = ranks_wait(&o, pids);
	return status ? status : (int)o.exit;
}
