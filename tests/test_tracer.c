/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracer in a program of its own (tracer_victim.c): what its ring holds when all is over, read
 * as any reader does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include "base/base.h"
#include "ring_helpers.h"
#include "lockstep/lockstep.h"

static char folder[64], ring_path[512];

static void remove_rings(void)
{
	char path[1024];
	DIR *d = opendir(folder);
	struct dirent *e;

	while (d && (e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", folder, e->d_name);
		unlink(path);
	}
	if (d)
		closedir(d);
	rmdir(folder);
}

/* A folder of its own for each test; the environment of a rank. */
static int setup(void **state)
{
	static const char *const gone[] = { "LOCKSTEP",	     "LOCAL_RANK",	   "WORLD_SIZE",
					    "SLURM_PROCID",  "PMI_RANK",	   "PMIX_RANK",
					    "SLURM_LOCALID", "SLURM_JOB_ID",	   "LOCKSTEP_JOB",
					    "TELL_RANK",     "TORCHELASTIC_RUN_ID" };

	(void)state;
	for (size_t i = 0; i < sizeof(gone) / sizeof(gone[0]); i++)
		unsetenv(gone[i]);
	snprintf(folder, sizeof(folder), "/dev/shm/lockstep-test-%d", getpid());
	setenv("LOCKSTEP_DIR", folder, 1);
	setenv("RANK", "3", 1);
	remove_rings();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	remove_rings();
	return 0;
}

static char out[1024], err[1024];

static void drain(int fd, char *to, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while (len < size - 1 && (n = read(fd, to + len, size - 1 - len)) > 0)
		len += (size_t)n;
	to[len] = 0;
	close(fd);
}

/* Its wait status; what it printed is in out and err. With program, argv is the whole command. */
static int run_as(const char *program, const char *way, char *const *argv)
{
	int o[2], e[2], status;
	pid_t pid;

	assert_int_equal(pipe(o), 0);
	assert_int_equal(pipe(e), 0);
	pid = fork();
	if (!pid) {
		dup2(o[1], 1);
		dup2(e[1], 2);
		close(o[0]), close(o[1]), close(e[0]), close(e[1]);
		setenv("VICTIM", way, 1);
		execv(program, argv);
		_exit(127);
	}
	close(o[1]);
	close(e[1]);
	drain(o[0], out, sizeof(out));
	drain(e[0], err, sizeof(err));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static int run(const char *way)
{
	char *argv[] = { (char *)"victim", NULL };

	return run_as(getenv("TRACER_VICTIM"), way, argv);
}

static unsigned rings(void)
{
	ring_path[0] = 0;
	return rings_in(folder, ring_path, sizeof(ring_path));
}

static struct ring the_ring(void)
{
	assert_int_equal(rings(), 1);
	return ring_load(ring_path);
}

static void assert_name(const struct ring *r, uint32_t id, const char *name)
{
	char got[RING_NAME_MAX + 1];

	ring_name(r, id, got, sizeof(got));
	assert_string_equal(got, name);
}

static double value_of(uint64_t bits)
{
	double v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static void ring_tells_what_the_program_told(void **state)
{
	const struct ring_record *r;
	struct ring ring;
	double ns;

	(void)state;
	setenv("WORLD_SIZE", "8", 1);
	assert_int_equal(run("fixed"), 0);
	ring = the_ring();
	assert_int_equal(ring_slot(&ring, 1)->head, 8);
	r = ring_record(&ring, 1, 0);
	assert_int_equal(r[0].kind, RING_STEP);
	assert_int_equal(r[0].value, 41);
	assert_int_equal(r[1].kind, RING_COUNTER);
	assert_name(&ring, r[1].name, "tokens");
	assert_true(value_of(r[1].value) == 2.5);
	assert_int_equal(r[1].depth, 2);
	assert_int_equal(r[2].kind, RING_PHASE);
	assert_name(&ring, r[2].name, "layer");
	assert_int_equal(r[2].depth, 1);
	assert_name(&ring, r[3].name, "forward");
	assert_int_equal(r[3].arg, RING_PHASE_FORWARD);
	assert_int_equal(r[3].depth, 0);
	assert_true(r[3].t <= r[2].t && r[3].duration >= r[2].duration);
	assert_int_equal(r[4].kind, RING_COLL);
	assert_int_equal(r[4].arg, LOCKSTEP_OP_ALL_TO_ALL);
	assert_int_equal(r[4].value, 9);
	assert_name(&ring, r[4].name, "default_pg");
	assert_int_equal(r[5].kind, RING_MORE);
	assert_int_equal(r[5].value, 12345);
	assert_int_equal(r[6].kind, RING_MARK);
	assert_int_equal(r[7].kind, RING_STEP);
	assert_int_equal(r[7].value, 42);
	assert_int_equal(ring.h->steps_done, 2);
	assert_int_equal(ring.h->step, 42);
	assert_int_equal(ring.h->counters[RING_END_WITHOUT_BEGIN], 3);
	/* the pairs make times of ticks: the phase slept 2 ms, and the step is not shorter */
	ns = (double)(ring.h->last.monotonic_ns - ring.h->first.monotonic_ns) /
	     (double)(ring.h->last.ticks - ring.h->first.ticks);
	assert_true(ns * (double)r[2].duration > 1.9e6 && ns * (double)r[2].duration < 5e9);
	assert_true(r[7].duration >= r[3].duration + r[4].duration);
	free(ring.bytes);
}

static void other_clock_tells_ns(void **state)
{
	const struct ring_record *r;
	struct ring ring;

	(void)state;
	setenv("LOCKSTEP_CLOCK", "monotonic", 1);
	assert_int_equal(run("fixed"), 0);
	unsetenv("LOCKSTEP_CLOCK");
	ring = the_ring();
	assert_int_equal(ring.h->clock, RING_CLOCK_MONOTONIC);
	assert_true(ring.h->first.ticks <= ring.h->first.monotonic_ns + 1000000);
	assert_int_equal(ring_slot(&ring, 1)->head, 8);
	r = ring_record(&ring, 1, 2);
	assert_name(&ring, r->name, "layer");
	assert_in_range(r->duration, 2000000, 5000000000);
	free(ring.bytes);
}

static void header_says_whose_it_is(void **state)
{
	const char *base;
	struct ring ring;
	char want[256];

	(void)state;
	setenv("WORLD_SIZE", "8", 1);
	setenv("LOCAL_RANK", "1", 1);
	setenv("SLURM_JOB_ID", "4711", 1);
	assert_int_equal(run("fixed"), 0);
	ring = the_ring();
	assert_int_equal(ring.h->rank, 3);
	assert_int_equal(ring.h->local_rank, 1);
	assert_int_equal(ring.h->world_size, 8);
	assert_int_equal(ring.h->uid, geteuid());
	assert_string_equal(ring.h->job, "4711");
	assert_string_equal(ring.h->program, "victim");
	assert_int_equal(ring.h->state, RING_ON);
	assert_int_equal(ring.h->doors, 1);
	assert_true(ring.h->clock == RING_CLOCK_TSC || ring.h->clock == RING_CLOCK_MONOTONIC);
	assert_true(ring.h->beat >= ring.h->first.ticks);
	assert_true(ring.h->file_bytes <= 4u << 20);
	snprintf(want, sizeof(want), "%s-%llu-%u-%llu.ring", ring.h->boot_id,
		 (unsigned long long)ring.h->pid_namespace, ring.h->pid,
		 (unsigned long long)ring.h->start_time);
	base = strrchr(ring_path, '/') + 1;
	assert_string_equal(base, want);
	free(ring.bytes);
}

static void identity_is_what_was_told_last(void **state)
{
	struct ring ring;

	(void)state;
	unsetenv("RANK");
	setenv("TELL_RANK", "11", 1);
	assert_int_equal(run("fixed"), 0);
	ring = the_ring();
	assert_int_equal(ring.h->rank, 11);
	assert_int_equal(ring.h->world_size, 12);
	free(ring.bytes);
}

static void file_and_folder_are_for_their_owner_alone(void **state)
{
	struct stat st;

	(void)state;
	umask(0);
	assert_int_equal(run("fixed"), 0);
	umask(022);
	assert_int_equal(rings(), 1);
	assert_int_equal(stat(folder, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(stat(ring_path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0400);
	assert_true((uint64_t)st.st_blocks * 512 >= (uint64_t)st.st_size);
}

static void newest_records_stay_when_a_ring_is_overwritten(void **state)
{
	const struct ring_slot *s;
	struct ring ring;
	uint64_t ended = 0;

	(void)state;
	setenv("STEPS", "1000", 1);
	assert_int_equal(run("steps"), 7 << 8);
	unsetenv("STEPS");
	ring = the_ring();
	s = ring_slot(&ring, 1);
	assert_int_equal(s->head, 9 * 1000);
	for (uint64_t n = s->head - s->capacity; n < s->head; n++) {
		const struct ring_record *r = ring_record(&ring, 1, n);

		assert_true(r->kind > RING_NONE && r->kind < RING_KINDS);
		if (r->kind == RING_MORE)
			continue;
		assert_true(r->t + r->duration >= ended);
		ended = r->t + r->duration;
	}
	assert_int_equal(ring_record(&ring, 1, s->head - 1)->value, 999);
	free(ring.bytes);
}

static uint64_t head_of(int fd, const struct ring_header *h)
{
	uint64_t head;

	assert_int_equal(pread(fd, &head, sizeof(head), (off_t)(h->slots_at + h->slot_bytes)),
			 sizeof(head));
	return head;
}

/* All of a ring while it is written: what the rule calls whole is whole. Gives the last head. */
static uint64_t read_once(int fd, const struct ring_header *h, const struct ring_slot *s)
{
	static struct ring_record copy[RING_RECORDS];
	uint64_t before = head_of(fd, h), after;

	assert_int_equal(pread(fd, copy, sizeof(copy), (off_t)s->at), sizeof(copy));
	after = head_of(fd, h);
	for (uint64_t n = after < s->capacity ? 0 : after - s->capacity + 1; n < before; n++) {
		const struct ring_record *r = &copy[n & (s->capacity - 1)];

		assert_int_equal(r->kind, RING_COUNTER);
		assert_true(value_of(r->value) == (double)n);
	}
	return after;
}

static void whole_records_are_whole_while_others_are_written(void **state)
{
	char *argv[] = { (char *)"victim", NULL };
	struct ring_header h;
	struct ring_slot s;
	uint64_t head = 0, passes = 0;
	int fd = -1, status;
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		setenv("VICTIM", "numbers", 1);
		execv(getenv("TRACER_VICTIM"), argv);
		_exit(127);
	}
	while (!rings())
		usleep(1000);
	fd = open(ring_path, O_RDONLY);
	while (pread(fd, &h, sizeof(h), 0) != sizeof(h) || h.state != RING_ON)
		usleep(100);
	assert_int_equal(pread(fd, &s, sizeof(s), (off_t)(h.slots_at + h.slot_bytes)), sizeof(s));
	while (!waitpid(pid, &status, WNOHANG)) {
		head = read_once(fd, &h, &s);
		passes++;
	}
	assert_int_equal(status, 0);
	head = read_once(fd, &h, &s);
	close(fd);
	assert_int_equal(head, 5000000);
	assert_true(passes > 1);
}

static void what_a_killed_process_had_open_stays(void **state)
{
	const struct ring_slot *s;
	struct ring ring;
	unsigned pending = 0;

	(void)state;
	assert_int_equal(run("killed"), SIGKILL);
	ring = the_ring();
	s = ring_slot(&ring, 1);
	assert_int_equal(s->depth, 3);
	assert_name(&ring, s->open[0].name, "forward");
	assert_name(&ring, s->open[2].name, "layer");
	assert_int_equal(s->open[2].arg, RING_PHASE_BACKWARD);
	assert_int_equal(s->open[2].depth, 2);
	assert_int_equal(ring.h->step, 3);
	assert_int_equal(ring.h->steps_done, 0);
	for (unsigned i = 0; i < ring.h->n_pending; i++) {
		if (!ring.pending[i].id)
			continue;
		pending++;
		assert_int_equal(ring.pending[i].r.value, 77);
		assert_int_equal(ring.pending[i].r.arg, LOCKSTEP_OP_BROADCAST);
		assert_int_equal(ring.pending[i].bytes, 1 << 20);
	}
	assert_int_equal(pending, 1);
	free(ring.bytes);
}

static void phases_too_deep_are_counted(void **state)
{
	const struct ring_slot *s;
	struct ring ring;

	(void)state;
	assert_int_equal(run("deep"), 0);
	ring = the_ring();
	s = ring_slot(&ring, 1);
	assert_int_equal(s->head, RING_OPEN_MAX + 1);
	assert_int_equal(s->depth, 0);
	assert_int_equal(ring.h->counters[RING_LOST_DEPTH], 10000 - RING_OPEN_MAX);
	assert_int_equal(ring.h->counters[RING_END_WITHOUT_BEGIN], 0);
	assert_name(&ring, ring_record(&ring, 1, s->head - 1)->name, "forward");
	free(ring.bytes);
}

static void forked_child_is_silent(void **state)
{
	struct ring ring;

	(void)state;
	assert_int_equal(run("forks"), 7 << 8);
	ring = the_ring();
	assert_int_equal(ring_units(&ring), 5 + 9 * 50);
	assert_int_equal(ring.h->n_names, 4);
	assert_int_equal(ring.h->steps_done, 50);
	assert_null(strstr(out, "child 1"));
	free(ring.bytes);
}

static void exec_begins_another_ring(void **state)
{
	(void)state;
	assert_int_equal(run("execs"), 7 << 8);
	assert_int_equal(rings(), 3);
	free(ring_load(ring_path).bytes);
}

static void slots_of_dead_threads_are_taken_over(void **state)
{
	struct ring ring;
	unsigned claims = 0;

	(void)state;
	assert_int_equal(run("threads"), 0);
	ring = the_ring();
	for (unsigned i = 1; i < ring.h->n_slots; i++) {
		claims += ring_slot(&ring, i)->claims;
		assert_true(ring_slot(&ring, i)->depth <= 1);
	}
	assert_int_equal(claims, 10000);
	assert_int_equal(ring_units(&ring), 10000);
	assert_int_equal(ring.h->counters[RING_LOST_NO_SLOT], 0);
	free(ring.bytes);
}

static void threads_without_a_slot_are_counted(void **state)
{
	struct ring ring;

	(void)state;
	assert_int_equal(run("crowd"), 0);
	ring = the_ring();
	assert_int_equal(ring_units(&ring) + ring.h->counters[RING_LOST_NO_SLOT], 40);
	assert_int_equal(ring_units(&ring), RING_SLOTS - 1);
	free(ring.bytes);
}

static void same_name_from_many_threads_is_found_again(void **state)
{
	unsigned seen[2000] = { 0 };
	struct ring ring;
	char name[RING_NAME_MAX + 1];

	(void)state;
	assert_int_equal(run("race"), 0);
	ring = the_ring();
	assert_in_range(ring.h->n_names, 4 + 2000, 4 + 2000 * 8);
	for (uint32_t id = 1; id <= ring.h->n_names; id++) {
		unsigned n;

		ring_name(&ring, id, name, sizeof(name));
		if (sscanf(name, "n%u", &n) == 1)
			seen[n]++;
	}
	for (unsigned i = 0; i < 2000; i++)
		assert_in_range(seen[i], 1, 8);
	assert_in_range(ring.h->steps_done, 1, 16000);
	free(ring.bytes);
}

static void signal_handlers_are_told_or_counted(void **state)
{
	unsigned told, alarms;
	struct ring ring;

	(void)state;
	assert_int_equal(run("storm"), 0);
	assert_int_equal(sscanf(err, "%u %u", &told, &alarms), 2);
	ring = the_ring();
	assert_true(alarms >= 3000);
	/* of an alarm that came inside a call: a begin, a mark and an end, of which two are records
	 */
	assert_int_equal(told + 2ull * alarms - ring_slot(&ring, 1)->head,
			 ring.h->counters[RING_LOST_REENTRANT] / 3 * 2);
	assert_int_equal(ring_slot(&ring, 1)->depth, 0);
	assert_int_equal(ring.h->counters[RING_END_WITHOUT_BEGIN], 0);
	free(ring.bytes);
}

static void names_beyond_the_room_are_counted(void **state)
{
	struct ring ring;
	unsigned got;
	int same;

	(void)state;
	assert_int_equal(run("names"), 0);
	assert_int_equal(sscanf(err, "%u %d", &got, &same), 2);
	assert_true(same);
	ring = the_ring();
	assert_int_equal(got, RING_NAMES - 4);
	assert_int_equal(ring.h->n_names, RING_NAMES);
	assert_int_equal(ring.h->counters[RING_LOST_NAMES], 1000000 - got + 1);
	assert_true(ring.h->names_used <= RING_NAME_BYTES);
	free(ring.bytes);
}

static void long_names_are_cut_and_counted(void **state)
{
	char name[RING_NAME_MAX + 1];
	struct ring ring;

	(void)state;
	assert_int_equal(run("long_name"), 0);
	ring = the_ring();
	assert_int_equal(ring.h->n_names, 5);
	ring_name(&ring, 5, name, sizeof(name));
	assert_int_equal(strlen(name), RING_NAME_MAX);
	assert_int_equal(ring.h->counters[RING_CUT_NAMES], 1);
	free(ring.bytes);
}

static void collectives_beyond_the_room_are_counted(void **state)
{
	struct ring ring;

	(void)state;
	assert_int_equal(run("many"), 0);
	ring = the_ring();
	assert_int_equal(ring.h->counters[RING_LOST_PENDING], 100 - RING_PENDING);
	free(ring.bytes);
}

static void stop_is_for_good(void **state)
{
	struct ring ring;

	(void)state;
	assert_int_equal(run("stops"), 0);
	assert_string_equal(out, "00\n");
	ring = the_ring();
	assert_int_equal(ring.h->state, RING_ENDED);
	assert_int_equal(ring_units(&ring), 9);
	free(ring.bytes);
}

static void library_may_be_loaded_again_and_again(void **state)
{
	char *argv[] = { (char *)"loads", getenv("LIBLOCKSTEP"), NULL };

	(void)state;
	assert_int_equal(run_as(getenv("TRACER_LOADS"), "", argv), 0);
	assert_int_equal(rings(), 1);
}

static void second_copy_in_a_process_stays_off(void **state)
{
	char copy[128], command[1024];
	char *argv[] = { (char *)"loads", getenv("LIBLOCKSTEP"), copy, NULL };

	(void)state;
	snprintf(copy, sizeof(copy), "%s-copy.so", folder);
	snprintf(command, sizeof(command), "cp '%s' '%s'", argv[1], copy);
	assert_int_equal(system(command), 0);
	assert_int_equal(run_as(getenv("TRACER_LOADS"), "", argv), 0);
	unlink(copy);
	assert_int_equal(rings(), 1);
}

static void threads_that_start_at_once_are_all_told(void **state)
{
	struct ring ring;

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(run("together"), 0);
		ring = the_ring();
		assert_int_equal(ring_units(&ring), 8);
		free(ring.bytes);
		remove_rings();
	}
}

static void calls_leave_errno_alone(void **state)
{
	(void)state;
	assert_int_equal(run("errno"), 0);
	assert_int_equal(rings(), 1);
}

/* --- who is traced --- */

static bool traced(const char *const *command)
{
	char *argv[8] = { NULL };

	for (unsigned i = 0; i < 7 && command[i]; i++)
		argv[i] = (char *)(uintptr_t)command[i];
	assert_int_equal(run_as(getenv("TRACER_VICTIM"), "whom", argv), 0);
	assert_int_equal(rings(), out[0] == '1');
	remove_rings();
	return out[0] == '1';
}

static void only_processes_with_a_rank_are_traced(void **state)
{
	static const char *const plain[] = { "train", NULL };
	static const char *const ranks[] = { "RANK",	 "LOCAL_RANK", "SLURM_PROCID",
					     "PMI_RANK", "PMIX_RANK",  "OMPI_COMM_WORLD_RANK" };

	(void)state;
	unsetenv("RANK");
	assert_false(traced(plain));
	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++) {
		setenv(ranks[i], "0", 1);
		assert_true(traced(plain));
		setenv(ranks[i], "no number", 1);
		assert_false(traced(plain));
		unsetenv(ranks[i]);
	}
	setenv("LOCKSTEP", "1", 1);
	assert_true(traced(plain));
	setenv("RANK", "0", 1);
	setenv("LOCKSTEP", "0", 1);
	assert_false(traced(plain));
}

static void launchers_and_workers_are_not_traced(void **state)
{
	static const char *const helpers[][6] = {
		{ "python3", "/opt/venv/bin/torchrun", "--nproc-per-node=8", "train.py" },
		{ "/usr/bin/python3.11", "-u", "-m", "torch.distributed.run", "train.py" },
		{ "/usr/bin/python3.11", "-um", "torch.distributed.launch", "train.py" },
		{ "python", "/usr/local/bin/accelerate", "launch", "train.py" },
		{ "torchrun", "train.py" },
		{ "python3", "-c", "from multiprocessing.spawn import spawn_main; spawn_main(1)",
		  "--multiprocessing-fork" },
		{ "python3", "-c", "from multiprocessing.forkserver import main; main(4, 5)" },
		{ "python3", "-c", "from multiprocessing.resource_tracker import main;main(4)" },
		{ "python3", "/x/torch/_inductor/compile_worker/__main__.py", "--workers=8" },
	};
	static const char *const ranks[][6] = {
		{ "python3", "-u", "train.py", "--launcher", "torchrun" },
		{ "python3", "-X", "faulthandler", "-m", "train.main" },
		{ "python3", "-c", "import train" },
		{ "/opt/app/accelerated", "x" },
		{ "python3", "accelerate_train.py" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(helpers) / sizeof(helpers[0]); i++)
		assert_false(traced(helpers[i]));
	for (size_t i = 0; i < sizeof(ranks) / sizeof(ranks[0]); i++)
		assert_true(traced(ranks[i]));
	setenv("TELL_RANK", "2", 1); /* who tells its rank trains, whatever its command line */
	assert_true(traced(helpers[5]));
}

/* --- where no ring can be --- */

static void assert_off(void)
{
	assert_int_equal(run("steps"), 7 << 8);
	assert_int_equal(rings(), 0);
}

static void strange_folder_is_not_used(void **state)
{
	char other[128];

	(void)state;
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(chmod(folder, 0770), 0);
	assert_off();
	rmdir(folder);
	snprintf(other, sizeof(other), "%s-other", folder);
	assert_int_equal(mkdir(other, 0700), 0);
	assert_int_equal(symlink(other, folder), 0);
	assert_off();
	snprintf(other, sizeof(other), "%s/", folder);
	setenv("LOCKSTEP_DIR", other, 1);
	assert_off();
	unlink(folder);
	snprintf(other, sizeof(other), "%s-other", folder);
	assert_int_equal(rmdir(other), 0);
	setenv("LOCKSTEP_DIR", "/proc/nothing/here", 1);
	assert_off();
	if (geteuid()) {
		print_message("skipped: a folder of another user needs root\n");
		return;
	}
	setenv("LOCKSTEP_DIR", folder, 1);
	assert_int_equal(mkdir(folder, 0700), 0);
	assert_int_equal(chown(folder, 65534, 65534), 0);
	assert_off();
}

static void small_or_full_file_system_is_left_alone(void **state)
{
	static const char *const sizes[] = { "size=1m", "size=3500k", "size=3m" };

	(void)state;
	mkdir(folder, 0700);
	for (size_t i = 0; i < 3; i++) {
		if (mount("tmpfs", folder, "tmpfs", 0, sizes[i])) {
			print_message("skipped: no right to mount a small tmpfs\n");
			return;
		}
		chmod(folder, 0700);
		assert_off();
		umount(folder);
	}
	assert_int_equal(mount("tmpfs", folder, "tmpfs", 0, "size=4m,mode=700"), 0);
	assert_int_equal(run("steps"), 7 << 8);
	assert_int_equal(rings(), 1);
	umount(folder);
}

static void limits_of_the_process_are_kept(void **state)
{
	struct rlimit old, small;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = (struct rlimit){ 1 << 20, old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_off(); /* and no SIGXFSZ */
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	setenv("FILES", "3", 1);
	setenv("LSAN_OPTIONS", "detect_leaks=0", 1); /* it wants files at the end */
	assert_off();
	unsetenv("LSAN_OPTIONS");
	unsetenv("FILES");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define CLAIM(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
		CLAIM(ring_tells_what_the_program_told),
		CLAIM(other_clock_tells_ns),
		CLAIM(header_says_whose_it_is),
		CLAIM(identity_is_what_was_told_last),
		CLAIM(file_and_folder_are_for_their_owner_alone),
		CLAIM(newest_records_stay_when_a_ring_is_overwritten),
		CLAIM(whole_records_are_whole_while_others_are_written),
		CLAIM(what_a_killed_process_had_open_stays),
		CLAIM(phases_too_deep_are_counted),
		CLAIM(forked_child_is_silent),
		CLAIM(exec_begins_another_ring),
		CLAIM(slots_of_dead_threads_are_taken_over),
		CLAIM(threads_without_a_slot_are_counted),
		CLAIM(same_name_from_many_threads_is_found_again),
		CLAIM(signal_handlers_are_told_or_counted),
		CLAIM(names_beyond_the_room_are_counted),
		CLAIM(long_names_are_cut_and_counted),
		CLAIM(collectives_beyond_the_room_are_counted),
		CLAIM(stop_is_for_good),
		CLAIM(library_may_be_loaded_again_and_again),
		CLAIM(second_copy_in_a_process_stays_off),
		CLAIM(threads_that_start_at_once_are_all_told),
		CLAIM(calls_leave_errno_alone),
		CLAIM(only_processes_with_a_rank_are_traced),
		CLAIM(launchers_and_workers_are_not_traced),
		CLAIM(strange_folder_is_not_used),
		CLAIM(small_or_full_file_system_is_left_alone),
		CLAIM(limits_of_the_process_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
