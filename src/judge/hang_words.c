/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang_words.c - breaches as findings: who broke it, what it was doing, what the others wait in,
 * why that is so, and what to do next.
 */
#include "judge/hang_internal.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>

const char *hang_ranks(struct hang *h, const uint32_t *rows, size_t n)
{
	_cleanup_free_ uint32_t *own = xmalloc((n + 1) * sizeof(*own));

	for (size_t i = 0; i < n; i++)
		own[i] = h->row[rows[i]];
	return report_rank_set(h->r, own, n);
}

const char *hang_who(struct hang *h, const uint32_t *rows, size_t n)
{
	const char *set = hang_ranks(h, rows, n);

	if (n == 1)
		return strncmp(set, "unknown", 7) ? report_printf(h->r, "rank %s", set) : set;
	return report_printf(h->r, "ranks %s", set);
}

const char *hang_name(const struct hang *h, uint32_t id)
{
	return id == NO_ID ? "" : intern_get(&h->s->names, id);
}

const char *hang_op(struct hang *h, uint32_t signature)
{
	char buf[160];

	if (signature == NO_ID)
		return "an operation that is not named";
	return report_printf(
	    h->r, "%s",
	    signature_words(&h->s->names, &h->s->signatures.v[signature], buf, sizeof(buf)));
}

const char *hang_group(struct hang *h, uint32_t group)
{
	const struct scene_group *g = group == NO_ID ? NULL : &h->s->groups.v[group];

	if (!g || (!*hang_name(h, g->name) && !*hang_name(h, g->desc)))
		return "the group of all ranks";
	if (!*hang_name(h, g->desc) || !strcmp(hang_name(h, g->desc), "undefined"))
		return report_printf(h->r, "group %s", hang_name(h, g->name));
	return report_printf(h->r, "group %s (%s)", hang_name(h, g->desc), hang_name(h, g->name));
}

const char *hang_doing(struct hang *h, uint32_t row)
{
	const struct scene_stack *k = &h->s->stacks.v[h->s->ranks.v[row].stack];
	char buf[240];

	return report_printf(h->r, "%s",
			     doing_text(&h->look[row].doing, &k->of->names, buf, sizeof(buf)));
}

/* --- the sentence --- */

static const char *place_of(struct hang *h, const struct breach *b)
{
	if (b->signature == NO_ID)
		return b->group == NO_ID ? "a collective" : hang_group(h, b->group);
	return report_printf(h->r, "%s of %s", hang_op(h, b->signature), hang_group(h, b->group));
}

/* What a rank waits in, by its dump, else by its log. */
static const struct scene_member *wait_of(const struct hang *h, uint32_t row, uint32_t *ret_group)
{
	uint32_t first = h->s->ranks.v[row].wait_group;

	for (uint32_t i = 0; i < h->s->groups.n; i++) {
		const struct scene_member *m = scene_member(&h->s->groups.v[i], row);

		if (m && m->waits && (first == NO_ID || first == i)) {
			*ret_group = i;
			return m;
		}
	}
	*ret_group = NO_ID;
	return NULL;
}

static const char *wait_words(struct hang *h, uint32_t row)
{
	uint32_t group;
	const struct scene_member *m = wait_of(h, row, &group);

	return m ? report_printf(h->r, "%s of %s", hang_op(h, m->wait.signature),
				 hang_group(h, group))
		 : "a collective";
}

static const char *others(struct hang *h, const struct breach *b)
{
	return b->victims.n == 1 ? hang_who(h, b->victims.v, 1) : "the others";
}

static const char *sentence_of_sides(struct hang *h, const struct breach *b)
{
	const struct scene_conflict *c = b->conflict;
	uint32_t odd = NO_ID;

	if (b->left_out)
		return report_printf(
		    h->r,
		    "%s came to %s by other calls than in the steps before: one is "
		    "missing there, or one more",
		    hang_who(h, b->culprits.v, b->culprits.n), place_of(h, b));

	for (size_t i = 0; c && i < c->sides.n; i++)
		for (size_t k = 0; k < c->sides.v[i].rows.n; k++)
			if (b->culprits.n && c->sides.v[i].rows.v[k] == b->culprits.v[0])
				odd = c->sides.v[i].signature;
	if (b->tie)
		return report_printf(
		    h->r,
		    "%s wait for each other, each in another operation, and nothing "
		    "tells which of them left the order",
		    hang_who(h, b->culprits.v, b->culprits.n));
	if (!c)
		return report_printf(
		    h->r, "%s went into %s while %s in %s",
		    hang_who(h, b->culprits.v, b->culprits.n), wait_words(h, b->culprits.v[0]),
		    b->victims.n == 1 ? report_printf(h->r, "%s is", others(h, b))
				      : "the others are",
		    b->victims.n ? wait_words(h, b->victims.v[0]) : "a collective");
	return report_printf(
	    h->r, "%s called %s where %s called %s (%s differs), number %" PRId64 " of %s",
	    hang_who(h, b->culprits.v, b->culprits.n), hang_op(h, odd),
	    c->sides.n == 2 && c->sides.v[0].rows.n + c->sides.v[1].rows.n == b->culprits.n + 1
		? hang_who(h, b->victims.v, 1)
		: "the others",
	    hang_op(h, b->signature), mismatch_name(c->kind), c->seq, hang_group(h, b->group));
}

/* Of bars the last that moved: one that stands at 0 tells of a process that has just begun. */
const char *hang_last_words(const struct hang *h, enum saying_kind kind)
{
	const char *text = "";
	bool moved = false;

	for (size_t i = 0; i < h->s->sayings.n; i++) {
		const struct saying *s = &h->s->sayings.v[i].s;

		if (s->kind != kind || s->text == NO_ID || (moved && s->seq <= 0))
			continue;
		text = hang_name(h, s->text);
		moved = kind == SAY_DATA_WORK && s->seq > 0;
	}
	return text;
}

static const char *sentence_of_behind(struct hang *h, const struct breach *b)
{
	const char *culprits = hang_who(h, b->culprits.v, b->culprits.n);
	const struct rank_look *l = &h->look[b->culprits.v[0]];
	bool many = b->culprits.n > 1;

	if (b->on_gpu)
		return report_printf(h->r,
				     "%s called %s, but %s GPU%s not begun it while those of the "
				     "others wait in it: what came before keeps %s",
				     culprits, place_of(h, b), many ? "their" : "its",
				     many ? "s have" : " has", many ? "them" : "it");
	if (l->has_stack)
		return report_printf(h->r, "%s %s %s and never came to %s", culprits,
				     many ? "are" : "is", hang_doing(h, b->culprits.v[0]),
				     place_of(h, b));
	if (b->ground == GROUND_REPORTED && b->group == NO_ID && !b->seq)
		return report_printf(h->r,
				     "%s never came to set up the group; the others wait for its "
				     "half of the handshake",
				     culprits);
	if (b->ground == GROUND_REPORTED && b->group == NO_ID && b->seq > 0)
		return report_printf(h->r,
				     "%s finished collective %" PRId64
				     " and never came to the next, by PyTorch's own report",
				     culprits, b->seq - 1);
	if (b->cause == CAUSE_DATA_STARVED && *hang_last_words(h, SAY_DATA_WORK))
		return report_printf(h->r,
				     "%s had not come to %s; the last that the log shows is: %s",
				     culprits, place_of(h, b), hang_last_words(h, SAY_DATA_WORK));
	if (b->cause == CAUSE_CHECKPOINT)
		return report_printf(h->r,
				     "%s had not come to %s; the last that the log shows is a "
				     "checkpoint being saved",
				     culprits, place_of(h, b));
	if (b->cause == CAUSE_DEAD_RANK)
		return report_printf(h->r, "%s %s gone; the others wait for %s in %s", culprits,
				     many ? "are" : "is", many ? "them" : "it", place_of(h, b));
	if (l->failed)
		return report_printf(h->r, "%s failed by %s own words, the others wait in %s",
				     culprits, many ? "their" : "its", place_of(h, b));
	return report_printf(
	    h->r, "%s never came to %s%s", culprits, place_of(h, b),
	    b->cause == CAUSE_UNEVEN_STEPS
		? many ? ", near the end of the data: they had fewer steps than the "
			 "others"
		       : ", near the end of the data: it had fewer steps than the "
			 "others"
		: "");
}

/* A program that ends with a code of its own has met an error of its own, whatever it was. */
static bool is_own_code(const struct breach *b)
{
	const struct failure *f = b->failure;

	return b->cause == CAUSE_DEAD_RANK && f &&
	       (f->said->s.kind == SAY_EXIT || f->said->s.kind == SAY_FIRST_FAILURE) &&
	       f->said->s.value > 0 && f->said->s.value < 128;
}

/* What is told of a process whose rank is not. */
static const char *nameless(struct hang *h, const struct failure *f)
{
	const char *task = f ? hang_name(h, f->said->s.what) : "";
	const char *of = "a process whose rank no line tells", *in = "";

	if (!f)
		return of;
	if (f->said->s.local_rank >= 0)
		of = report_printf(h->r, "the process of local rank %" PRId64 " of a node",
				   f->said->s.local_rank);
	else if (!strncmp(task, "task", 4))
		of = report_printf(h->r, "Slurm's %s", task);
	if (f->said->s.gpu >= 0)
		in = report_printf(h->r, "GPU %" PRId64 "%s", f->said->s.gpu,
				   f->said->s.pid > 0 ? ", " : "");
	if (f->said->s.pid > 0)
		in = report_printf(h->r, "%spid %" PRId64, in, f->said->s.pid);
	if (*in)
		of = report_printf(h->r, "%s (%s)", of, in);
	return of;
}

static const char *sentence_of_failure(struct hang *h, const struct breach *b)
{
	const char *text = b->failure ? hang_name(h, b->failure->said->s.text) : "";
	const char *culprits =
	    b->culprits.n ? hang_who(h, b->culprits.v, b->culprits.n) : nameless(h, b->failure);

	if (b->cause == CAUSE_PREEMPTED)
		return report_printf(h->r, "the job was ended from outside (%s)",
				     b->detail ? b->detail : "cancelled");
	if (b->failure && b->failure->by_signal && b->alike && !b->culprits.n)
		culprits = "most ranks";
	if (b->failure && b->failure->by_signal)
		return report_printf(
		    h->r, "%s %s ended by signal %" PRId64 " and nobody says why", culprits,
		    b->culprits.n > 1 || (b->alike && !b->culprits.n) ? "were" : "was",
		    -b->failure->said->s.value);
	if (!b->failure && !b->culprits.n)
		return "ranks lost their connection to a peer, and nothing tells which peer went "
		       "first";
	if (!b->failure)
		return report_printf(h->r, "%s is gone: all others lost their connection to a peer",
				     culprits);
	if (b->culprits.n && b->cause == CAUSE_COLLECTIVE_DESYNC && b->failure &&
	    b->failure->said->s.kind == SAY_FATAL)
		return report_printf(h->r, "%s %s: %s", culprits,
				     b->tie ? "called different collectives in one place, and "
					      "nothing tells which of them is right"
					    : "called another collective than most",
				     text);
	if (!b->culprits.n && !b->alike && is_own_code(b))
		return report_printf(h->r, "%s ended with exit code %" PRId64, culprits,
				     b->failure->said->s.value);
	if (!h->s->ranks.n) /* one process, or none that is numbered */
		return report_printf(h->r, "it failed%s%s", *text ? ": " : "", text);
	if (!b->culprits.n && b->alike)
		return report_printf(h->r, "most ranks failed by the same words%s%s",
				     *text ? ": " : "", text);
	return report_printf(h->r, "%s failed first%s%s", culprits, *text ? ": " : "", text);
}

static const char sentence_of_timeouts[] = "watchdogs ran into their time-out, and nothing tells "
					   "whose operation it was, nor who did not come";
static const char sentence_of_monitors[] =
    "heartbeat monitors ended their processes because the watchdog thread was stuck: it hung in "
    "the driver or behind the interpreter's lock, and only stacks or dumps can tell where";

static const char *sentence(struct hang *h, const struct breach *b)
{
	if (b->start)
		return sentence_of_start(h, b);
	switch (b->ground) {
	case GROUND_DIFFERS:
	case GROUND_ORDER:
		return sentence_of_sides(h, b);
	case GROUND_FAILED:
		return sentence_of_failure(h, b);
	case GROUND_STUCK:
		return report_printf(
		    h->r, "%s have come to %s%s, and it does not end%s",
		    b->cause == CAUSE_UNKNOWN ? "those that are known" : "all", place_of(h, b),
		    b->seq < 0 ? "" : report_printf(h->r, ", number %" PRId64, b->seq),
		    b->cause == CAUSE_UNKNOWN ? "; of the others nothing was given" : "");
	case GROUND_STACK:
		if (h->look[b->culprits.v[0]].waiting_stack)
			return report_printf(
			    h->r,
			    "%s %s %s; by their stacks the others are elsewhere in the "
			    "same program, and wait too",
			    hang_who(h, b->culprits.v, b->culprits.n),
			    b->culprits.n == 1 ? "is" : "are", hang_doing(h, b->culprits.v[0]));
		return report_printf(h->r, "%s %s %s, the others wait in a collective",
				     hang_who(h, b->culprits.v, b->culprits.n),
				     b->culprits.n == 1 ? "is" : "are",
				     hang_doing(h, b->culprits.v[0]));
	case GROUND_POWER:
		return report_printf(h->r,
				     "the GPU%s of %s do%s nothing while the others run at full "
				     "utilization and little power, as a kernel does that waits",
				     b->culprits.n == 1 ? "" : "s",
				     hang_who(h, b->culprits.v, b->culprits.n),
				     b->culprits.n == 1 ? "es" : "");
	case GROUND_BEHIND:
	case GROUND_ABSENT:
	case GROUND_REPORTED:
		return b->culprits.n ? sentence_of_behind(h, b)
		       : h->monitors ? sentence_of_monitors
				     : sentence_of_timeouts;
	}
	return "";
}

/* --- what to do --- */

static const char *host_of(struct hang *h, uint32_t row)
{
	return h->s->ranks.v[row].host == NO_ID ? NULL : hang_name(h, h->s->ranks.v[row].host);
}

/* Errors and XIDs that a program's own access causes, by NVIDIA's list; the others are the
   machine's. */
static bool is_programs_error(const struct hang *h, const struct breach *b)
{
	static const int64_t programs[] = { 13, 31, 43, 45, 68, 69 };
	static const char *const words[] = { "illegal memory access", "misaligned address",
					     "illegal instruction", "memory access fault" };
	int64_t xid = -1;

	if (b->cause != CAUSE_GPU_ERROR)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(words) && b->failure; i++)
		if (!strcmp(hang_name(h, b->failure->said->s.what), words[i]))
			return b->culprits.n != 1 || h->look[b->culprits.v[0]].xid <= 0;
	if (b->failure && b->failure->said->s.kind == SAY_GPU_ERROR)
		xid = b->failure->said->s.value;
	else if (b->culprits.n)
		xid = h->look[b->culprits.v[0]].xid;
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
		if (programs[i] == xid)
			return true;
	return false;
}

struct advice {
	struct hang *h;
	struct finding *f;
	const struct breach *b;
	const char *on; /* "ssh node7 ", or "" */
};

static void advise_line(const struct advice *a, const char *line)
{
	*vec_push(&a->f->next) = line;
}

static void advise_there(const struct advice *a, const char *command)
{
	advise_line(a, report_printf(a->h->r, "%s%s", a->on, command));
}

/* A command on its process: `before` and `behind` the number. */
static void advise_process(const struct advice *a, const char *before, const char *behind)
{
	struct hang *h = a->h;
	const struct breach *b = a->b;
	uint32_t row = b->culprits.n ? b->culprits.v[0] : NO_ID;
	int64_t pid = row == NO_ID ? -1 : h->s->ranks.v[row].pid;
	const char *process = pid > 0 ? report_printf(h->r, "%" PRId64, pid) : "PID";
	const char *whose =
	    pid > 0 ? ""
	    : row != NO_ID
		? report_printf(h->r, "   # %s's process, on its node", hang_who(h, &row, 1))
	    : b->ground == GROUND_REPORTED ? "   # of every rank"
					   : "   # of the ranks that were not given";

	advise_there(a, report_printf(h->r, "%s%s%s%s", before, process, behind, whose));
}

static void advise_stack(const struct advice *a)
{
	advise_process(a, "py-spy dump --nonblocking --pid ", "");
}

/* Of a rank that does not come, and nothing tells why. */
static void advise_missing(const struct advice *a)
{
	if (a->b->on_gpu) {
		advise_there(a, "nvidia-smi -q -d UTILIZATION,PERFORMANCE,ECC   # a kernel that "
				"does not end, or a GPU that has stopped?");
		advise_there(a, "dmesg -T | grep -i xid");
	}
	advise_stack(a);
	advise_process(a, "cat /proc/", "/stack");
}

static void advise_dead(const struct advice *a)
{
	const struct breach *b = a->b;

	if (is_own_code(b)) {
		advise_line(a, "read what that process itself wrote last, on its standard error: "
			       "it ended with an error of its own");
		return;
	}
	if (b->cause == CAUSE_DEAD_RANK && b->failure && b->failure->by_signal &&
	    b->failure->said->s.value == -SIGBUS)
		advise_there(a, "df -h /dev/shm   # full, it ends who writes to it by this");
	if (is_programs_error(a->h, b))
		advise_line(a, "run it under compute-sanitizer, or with CUDA_LAUNCH_BLOCKING=1: "
			       "the traceback then ends at the kernel");
	advise_there(a, "dmesg -T | grep -iE 'oom|killed process|xid|mce'");
}

static void advise_starved(const struct advice *a)
{
	if (!a->h->look[a->b->culprits.v[0]].has_stack) {
		advise_line(a, "see how far the preparation of the data is; do it before the ranks "
			       "wait for each other, or raise the time-out");
		return;
	}
	advise_line(a, "look at what the loader's workers of that rank wait for: storage, a dead "
		       "worker, an empty shard");
	advise_stack(a);
}

static void advise(struct hang *h, struct finding *f, const struct breach *b)
{
	const char *host = b->culprits.n ? host_of(h, b->culprits.v[0]) : NULL;
	const struct advice a = { h, f, b, host ? report_printf(h->r, "ssh %s ", host) : "" };

	switch (b->cause) {
	case CAUSE_MISSING_RANK:
	case CAUSE_HOST_STALL:
	case CAUSE_UNKNOWN:
		advise_missing(&a);
		break;
	case CAUSE_OUT_OF_MEMORY:
		if (b->failure && b->failure->said->s.value == 0)
			advise_line(&a, "lower the batch or the sequence length, or see what else "
					"is in that GPU's memory: nvidia-smi");
		else
			advise_there(&a, "dmesg -T | grep -iE 'oom|killed process'");
		break;
	case CAUSE_DEAD_RANK:
	case CAUSE_GPU_ERROR:
		advise_dead(&a);
		break;
	case CAUSE_DATA_STARVED:
		advise_starved(&a);
		break;
	case CAUSE_CHECKPOINT:
		advise_line(&a, "compare with how long earlier saves took; if it still writes, "
				"wait, and set the collective time-out above a save's time");
		break;
	case CAUSE_UNEVEN_STEPS:
		advise_line(&a, "count the batches of each rank; all-reduce the minimum before the "
				"loop and stop every rank there");
		break;
	case CAUSE_COLLECTIVE_DESYNC:
		advise_line(&a, "read the stacks of the odd ranks: which branch called another "
				"collective, or the same with other sizes?");
		break;
	case CAUSE_COLLECTIVE_STUCK:
	case CAUSE_NETWORK_ERROR:
		advise_line(&a, "take a second recording: if nothing moved, look at the links and "
				"at kernels before the collective");
		advise_there(&a, "grep . /sys/class/infiniband/*/ports/*/counters/"
				 "{symbol_error,link_downed}");
		break;
	default:
		break;
	}
}

static void set_times(struct hang *h, struct finding *f, const struct breach *b)
{
	int64_t began = -1;
	double hours;

	for (size_t i = 0; b->group != NO_ID && i < h->s->groups.v[b->group].members.n; i++) {
		const struct scene_member *m = &h->s->groups.v[b->group].members.v[i];

		if (m->waits && m->wait.seq == b->seq && m->wait.created_ns > 0)
			began = began < 0 ? m->wait.created_ns : MIN(began, m->wait.created_ns);
	}
	if (began > 0 || h->last_step > 0)
		*vec_push(&f->windows) = (struct window){
			.first_step = h->last_step > 0 ? h->last_step : -1,
			.last_step = h->last_step > 0 ? h->last_step : -1,
			.first_time_ns = began,
			.last_time_ns = -1,
		};
	if (h->waited_ms > 0 && h->s->world_size > 0) {
		hours = (double)h->waited_ms / 3.6e6 * (double)h->s->world_size;
		f->lost_gpu_hours = hours;
	}
	f->gpu_hours_per_day = h->s->world_size > 0 ? 24.0 * (double)h->s->world_size : NAN;
}

/* The signal that ended whoever is dead, and of which nobody says why; 0. */
static int64_t signal_of(const struct breach *b)
{
	return b->cause == CAUSE_DEAD_RANK && b->failure && b->failure->by_signal
		   ? -b->failure->said->s.value
		   : 0;
}

static const char *action_of(const struct hang *h, const struct breach *b)
{
	if (is_programs_error(h, b) || is_own_code(b))
		return "fix-code";
	if (signal_of(b) == SIGSEGV || signal_of(b) == SIGABRT || signal_of(b) == SIGILL ||
	    signal_of(b) == SIGFPE)
		return "fix-code"; /* a process brings these upon itself */
	if (signal_of(b) == SIGBUS)
		return "fix-config"; /* /dev/shm is full, or a mapped file is gone */
	if (b->failure && !strcmp(hang_name(h, b->failure->said->s.what), "disk full"))
		return "fix-config"; /* as is a quota */
	if (b->cause == CAUSE_PREEMPTED && b->detail && !strcmp(b->detail, "evicted"))
		return "fix-config"; /* the node ran out of what the job did not ask for */
	return cause_info(b->cause)->action;
}

/* Another host says the same. */
static bool said_elsewhere(const struct hang *h, const struct scene_saying *y)
{
	bool ends = y->s.kind == SAY_EXIT || y->s.kind == SAY_FIRST_FAILURE;

	for (size_t i = 0; i < h->s->sayings.n; i++) {
		const struct scene_saying *o = &h->s->sayings.v[i];

		if (o->s.kind == y->s.kind && o->s.host != NO_ID &&
		    (ends ? o->s.value == y->s.value : o->s.what == y->s.what) &&
		    o->s.host != y->s.host)
			return true;
	}
	return false;
}

/* No rank is told, but the host: that of a broken link is only one of two. */
static bool is_of_host(const struct hang *h, const struct breach *b)
{
	return !b->culprits.n && !b->alike && b->failure && b->failure == h->untied &&
	       !said_elsewhere(h, b->failure->said) && b->failure->said->s.host != NO_ID &&
	       b->cause != CAUSE_NETWORK_ERROR && b->cause != CAUSE_RENDEZVOUS;
}

static void write_finding(struct hang *h, const struct breach *b)
{
	struct finding *f = vec_push(&h->r->findings);
	bool crash = b->ground == GROUND_FAILED || h->r->verdict == VERDICT_CRASHED;

	*f = (struct finding){
		.severity = SEVERITY_FAULT,
		.kind = crash ? KIND_CRASH : KIND_HANG,
		.cause = b->cause,
		.cause_detail = b->detail,
		.action = action_of(h, b),
		.slowdown = NAN,
		.step_ms_lost = NAN,
		.lost_gpu_hours = NAN,
		.gpu_hours_per_day = NAN,
		.confidence = b->confidence,
	};
	for (size_t i = 0; i < b->culprits.n; i++) {
		const char *host = host_of(h, b->culprits.v[i]);
		bool known = !host;

		*vec_push(&f->culprits) = h->row[b->culprits.v[i]];
		for (size_t k = 0; host && k < f->hosts.n; k++)
			known |= !strcmp(f->hosts.v[k], host);
		if (!known)
			*vec_push(&f->hosts) = report_printf(h->r, "%s", host);
	}
	if (is_of_host(h, b))
		*vec_push(&f->hosts) =
		    report_printf(h->r, "%s", hang_name(h, b->failure->said->s.host));
	for (size_t i = 0; i < b->groups.n; i++)
		*vec_push(&f->groups) = hang_group(h, b->groups.v[i]);
	if (b->victims.n)
		f->victims = hang_ranks(h, b->victims.v, b->victims.n);
	if (b->signature != NO_ID)
		f->where_collective = hang_op(h, b->signature);
	if (b->culprits.n && h->look[b->culprits.v[0]].has_stack)
		f->where_phase = doing_name(h->look[b->culprits.v[0]].doing.doing);
	f->summary = sentence(h, b);
	prove_breach(h, f, b);
	advise(h, f, b);
	set_times(h, f, b);
	finding_set_id(f, h->r->job);
}

static const char *what_is_assumed(struct hang *h)
{
	if (h->s->n_dumps)
		return "that it hangs: one recording cannot tell a hang from a slow step, but "
		       "dumps are "
		       "written on a time-out, somebody is behind, and nothing shows progress";
	if (!h->counts_ns)
		return "that it hangs: ncclras was asked once, and counts may still move";
	if (h->counts_ns > 0)
		return report_printf(h->r,
				     "that it hangs: ncclras was asked twice within %.0f s, and "
				     "counts may still move",
				     (double)h->counts_ns / 1e9);
	return "that it hangs: what was given is of one moment, and cannot tell a hang from a slow "
	       "step";
}

static int by_confidence(const void *a, const void *b)
{
	const struct breach *x = a, *y = b;

	if (!x->culprits.n != !y->culprits.n)
		return x->culprits.n ? -1 : 1;
	if (x->confidence > y->confidence || x->confidence < y->confidence)
		return x->confidence > y->confidence ? -1 : 1;
	if (x->culprits.n && y->culprits.n && x->culprits.v[0] != y->culprits.v[0])
		return x->culprits.v[0] < y->culprits.v[0] ? -1 : 1;
	return (x->group > y->group) - (x->group < y->group);
}

void write_findings(struct hang *h)
{
	VEC(struct finding) before = { 0 };

	if (h->breaches.n)
		qsort(h->breaches.v, h->breaches.n, sizeof(*h->breaches.v), by_confidence);
	for (size_t i = 0; i < h->r->findings.n; i++)
		*vec_push(&before) = h->r->findings.v[i];
	h->r->findings.n = 0;
	for (size_t i = 0; i < h->breaches.n; i++)
		write_finding(h, &h->breaches.v[i]);
	for (size_t i = 0; i < before.n; i++)
		*vec_push(&h->r->findings) = before.v[i];
	free(before.v);
	if (h->assumed_hang && h->breaches.n)
		*vec_push(&h->r->assumed) = what_is_assumed(h);
	if (h->s->world_assumed && h->s->world_size > 0)
		*vec_push(&h->r->assumed) = report_printf(
		    h->r, "a world of %" PRId64 " ranks, as many as were seen or counted",
		    h->s->world_size);
	for (size_t i = 0; i < h->s->gpus.n; i++)
		if (h->s->gpus.v[i].assumed) {
			*vec_push(&h->r->assumed) =
			    "which GPU is which rank's: by the order of hosts and "
			    "of GPUs on them";
			break;
		}
	for (size_t i = 0; i < h->s->groups.n; i++)
		if (h->s->groups.v[i].guessed) {
			*vec_push(&h->r->assumed) = "which groups the ranks without a dump belong "
						    "to, from the pattern of the "
						    "others: these dumps do not list members";
			break;
		}
	for (size_t i = 0; i < h->s->said.n; i++)
		*vec_push(&h->r->assumed) = report_printf(h->r, "%s", h->s->said.v[i]);
	if (h->s->cut_off)
		*vec_push(&h->r->missing) =
		    "the end of the log: it breaks off amid the lines of its watchdogs, and who is "
		    "silent in it may have timed out later";
	if (h->s->folded)
		*vec_push(&h->r->missing) =
		    "the log folds equal lines of different ranks (Ray): that a "
		    "rank is not in it means nothing; the workers' own logs "
		    "would tell";
}
