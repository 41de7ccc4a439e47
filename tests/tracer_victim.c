/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tracer_victim.c - a program that tells Lockstep what it does, in ways that have hurt other
 * tracers. VICTIM names the way; what it prints and how it ends must not depend on the tracer.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "lockstep/lockstep.h"

static uint32_t forward, layer, tokens, group;

static unsigned number(const char *name, unsigned otherwise)
{
	const char *s = getenv(name);

	return s ? (unsigned)strtoul(s, NULL, 10) : otherwise;
}

static void nap(unsigned us)
{
	nanosleep(&(struct timespec){ .tv_nsec = (long)us * 1000 }, NULL);
}

/* A little work whose result is printed, told in full. */
static unsigned step(unsigned x)
{
	uint64_t c;

	lockstep_step_begin(-1);
	lockstep_phase_begin(forward, LOCKSTEP_PHASE_FORWARD);
	for (unsigned i = 0; i < 4; i++) {
		lockstep_phase_begin(layer, LOCKSTEP_PHASE_USER);
		x = x * 1664525u + 1013904223u;
		lockstep_phase_end();
	}
	lockstep_phase_end();
	c = lockstep_collective_begin(group, LOCKSTEP_OP_ALL_REDUCE, (int64_t)(x % 7), 4096);
	x ^= x >> 13;
	lockstep_collective_end(c);
	lockstep_counter(tokens, 0.5 * (x % 1000));
	lockstep_step_end();
	return x;
}

static int steps(void)
{
	unsigned x = 1, n = number("STEPS", 50);

	for (unsigned i = 0; i < n; i++)
		x = step(x);
	printf("%u\n", x);
	return 7;
}

static int whom(void)
{
	printf("%d\n", lockstep_on());
	return 0;
}

static int fixed(void)
{
	uint64_t c;

	lockstep_step_begin(41);
	lockstep_step_begin(-1); /* 42; ends 41 */
	lockstep_phase_begin(forward, LOCKSTEP_PHASE_FORWARD);
	lockstep_phase_begin(layer, LOCKSTEP_PHASE_USER);
	lockstep_counter(tokens, 2.5);
	nap(2000);
	lockstep_phase_end();
	lockstep_phase_end();
	c = lockstep_collective_begin(group, LOCKSTEP_OP_ALL_TO_ALL, 9, 12345);
	nap(1000);
	lockstep_collective_end(c);
	lockstep_collective_end(c); /* a second time: counted only */
	lockstep_mark(layer);
	lockstep_step_end();
	lockstep_step_end(); /* none is open */
	lockstep_phase_end();
	return 0;
}

static int killed(void)
{
	lockstep_step_begin(3);
	for (unsigned i = 0; i < number("DEEP", 3); i++)
		lockstep_phase_begin(i ? layer : forward, LOCKSTEP_PHASE_BACKWARD);
	lockstep_collective_begin(group, LOCKSTEP_OP_BROADCAST, 77, 1 << 20);
	printf("so far\n");
	fflush(stdout);
	raise(SIGKILL);
	return 0;
}

static int deep(void)
{
	for (unsigned i = 0; i < 10000; i++)
		lockstep_phase_begin(layer, LOCKSTEP_PHASE_USER);
	for (unsigned i = 0; i < 10000; i++)
		lockstep_phase_end();
	lockstep_phase_begin(forward, LOCKSTEP_PHASE_FORWARD);
	lockstep_phase_end();
	return 0;
}

static int forks(void)
{
	for (unsigned i = 0; i < number("FORKS", 5); i++) {
		pid_t child = fork();
		int status;

		if (!child) {
			bool on = lockstep_on() || lockstep_start();

			for (unsigned j = 0; j < 1000; j++)
				step(j);
			lockstep_name("a child's");
			_exit(on ? 1 : 5);
		}
		lockstep_mark(forward);
		waitpid(child, &status, 0);
		printf("child %d\n", WEXITSTATUS(status));
	}
	return steps();
}

static int run_true(void)
{
	int status;
	pid_t child = vfork();

	if (!child) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	waitpid(child, &status, 0);
	return WEXITSTATUS(status);
}

static int vforks(void)
{
	for (unsigned i = 0; i < 5; i++)
		printf("child %d\n", run_true());
	return steps();
}

static int execs(void)
{
	unsigned left = number("LEFT", 2);
	char next[16];

	step(1);
	if (!left)
		return steps();
	snprintf(next, sizeof(next), "%u", left - 1);
	setenv("LEFT", next, 1);
	execl("/proc/self/exe", "again", (char *)NULL);
	return 1;
}

static void *one_mark(void *arg)
{
	lockstep_phase_begin(layer, LOCKSTEP_PHASE_USER); /* never ends */
	lockstep_mark(forward);
	return arg;
}

static int threads(void)
{
	unsigned n = number("THREADS", 10000);

	for (unsigned i = 0; i < n; i += 4) {
		pthread_t t[4];

		for (unsigned j = 0; j < 4; j++)
			pthread_create(&t[j], NULL, one_mark, NULL);
		for (unsigned j = 0; j < 4; j++)
			pthread_join(t[j], NULL);
	}
	printf("%u threads\n", n);
	return 0;
}

static pthread_barrier_t all_here;

static void *stays(void *arg)
{
	pthread_barrier_wait(&all_here);
	lockstep_mark(forward);
	pthread_barrier_wait(&all_here);
	return arg;
}

static void *starts(void *arg)
{
	pthread_barrier_wait(&all_here);
	if (!lockstep_start())
		*(int *)arg = 1;
	lockstep_mark(lockstep_name("here"));
	return NULL;
}

/* Before anybody else has: main leaves the start to the threads. */
static int together(void)
{
	pthread_t t[8];
	int wrong = 0;

	pthread_barrier_init(&all_here, NULL, 8);
	for (unsigned i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, starts, &wrong);
	for (unsigned i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	return wrong;
}

static int crowd(void)
{
	enum { N = 40 };
	pthread_t t[N];

	pthread_barrier_init(&all_here, NULL, N);
	for (unsigned i = 0; i < N; i++)
		pthread_create(&t[i], NULL, stays, NULL);
	for (unsigned i = 0; i < N; i++)
		pthread_join(t[i], NULL);
	return 0;
}

static void *works(void *arg)
{
	char name[32];

	for (unsigned i = 0; i < number("ROUNDS", 2000); i++) {
		snprintf(name, sizeof(name), "n%u", i);
		lockstep_phase_begin(lockstep_name(name), LOCKSTEP_PHASE_USER);
		step(i);
		lockstep_phase_end();
	}
	return arg;
}

/* All threads bring the same new names at about the same time. */
static int race(void)
{
	pthread_t t[8];

	for (unsigned i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, works, NULL);
	for (unsigned i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
	return 0;
}

static void *leaves(void *arg)
{
	step(2);
	exit((int)(long)arg);
}

static int exits_from_thread(void)
{
	pthread_t t;

	lockstep_phase_begin(forward, LOCKSTEP_PHASE_USER);
	pthread_create(&t, NULL, leaves, (void *)3L);
	while (t)
		step(1);
	return 1;
}

static void *goes_on(void *arg)
{
	(void)arg;
	nap(1000);
	printf("still here\n");
	step(1);
	return NULL;
}

/* The first thread ends, the process does not. */
static int leader_leaves(void)
{
	pthread_t t;

	pthread_create(&t, NULL, goes_on, NULL);
	step(1);
	pthread_exit(NULL);
}

static volatile unsigned alarms;

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
	lockstep_phase_begin(layer, LOCKSTEP_PHASE_USER);
	lockstep_name(alarms % 2 ? "odd" : "even");
	lockstep_mark(tokens);
	lockstep_phase_end();
}

/* The timer at 10 kHz; all that is told is told or counted. */
static int storm(void)
{
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct itimerval every = { { 0, 100 }, { 0, 100 } }, none = { 0 };
	unsigned told = 0, most = number("ALARMS", 3000);

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	while (alarms < most) {
		lockstep_phase_begin(forward, LOCKSTEP_PHASE_FORWARD);
		lockstep_phase_end();
		told++;
	}
	setitimer(ITIMER_REAL, &none, NULL);
	fprintf(stderr, "%u %u\n", told, alarms);
	return 0;
}

/* Record n has the value n. */
static int numbers(void)
{
	for (unsigned i = 0; i < number("NUMBERS", 5000000); i++)
		lockstep_counter(tokens, i);
	return 0;
}

static int names(void)
{
	static char large[1 << 20];
	unsigned got = 0;
	char name[32];

	for (unsigned i = 0; i < 1000000; i++) {
		snprintf(name, sizeof(name), "name %u", i);
		got += lockstep_name(name) != 0;
	}
	memset(large, 'x', sizeof(large) - 1);
	fprintf(stderr, "%u %d\n", got, lockstep_name("name 5") == lockstep_name("name 5"));
	lockstep_name(large);
	return 0;
}

static int long_name(void)
{
	static char large[1 << 20];

	memset(large, 'x', sizeof(large) - 1);
	lockstep_mark(lockstep_name(large));
	return lockstep_name(large) == 0;
}

static int many(void)
{
	for (unsigned i = 0; i < 100; i++)
		lockstep_collective_begin(group, LOCKSTEP_OP_SEND, i, i);
	return 0;
}

/* Files until there are no more: their number must be the same. */
static int files(void)
{
	unsigned n = 0;
	int fd;

	while ((fd = open("/dev/null", O_RDONLY)) >= 0)
		n++;
	printf("%u files, then %d; ", n, errno);
	return steps();
}

/* A thread's first call claims a slot, and asks after dead threads. */
static void *asks_errno(void *arg)
{
	errno = 77;
	step(1);
	lockstep_start();
	*(int *)arg |= errno != 77;
	return NULL;
}

static int errnos(void)
{
	int wrong = 0;

	for (unsigned i = 0; i < 100; i++) {
		pthread_t t;

		pthread_create(&t, NULL, asks_errno, &wrong);
		pthread_join(t, NULL);
	}
	return wrong;
}

static int stops(void)
{
	step(1);
	lockstep_stop();
	step(2);
	printf("%d%d\n", lockstep_start(), lockstep_on());
	return 0;
}

/* Somebody does something to the ring meanwhile: ends when told by a byte. */
static int waits(void)
{
	unsigned x = 1;
	char byte;

	x = step(x);
	printf("ready\n");
	fflush(stdout);
	if (read(0, &byte, 1) != 1)
		return 9;
	for (unsigned i = 0; i < 3000; i++)
		x = step(x);
	printf("%u\n", x);
	return 7;
}

static const struct way {
	const char *name;
	int (*run)(void);
} ways[] = {
	{ "steps", steps },	  { "whom", whom },   { "fixed", fixed },
	{ "killed", killed },	  { "deep", deep },   { "forks", forks },
	{ "vforks", vforks },	  { "execs", execs }, { "threads", threads },
	{ "crowd", crowd },	  { "race", race },   { "exits", exits_from_thread },
	{ "storm", storm },	  { "names", names }, { "leader", leader_leaves },
	{ "many", many },	  { "files", files }, { "long_name", long_name },
	{ "errno", errnos },	  { "stops", stops }, { "numbers", numbers },
	{ "together", together }, { "waits", waits },
};

int main(void)
{
	const char *way = getenv("VICTIM");
	unsigned most = number("FILES", 0);
	int rank = (int)number("TELL_RANK", 0);

	if (most)
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){ most, most });
	if (getenv("TELL_RANK"))
		lockstep_identity(rank, rank, rank + 1);
	if (way && strcmp(way, "together") != 0)
		lockstep_start();
	forward = lockstep_name("forward"), layer = lockstep_name("layer");
	tokens = lockstep_name("tokens"), group = lockstep_name("default_pg");
	for (size_t i = 0; way && i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (!strcmp(way, ways[i].name))
			return ways[i].run();
	}
	return 99;
}
