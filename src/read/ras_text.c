/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ras_text.c - `ncclras` as people read it.
 *
 * It names only the rarer ranks: "30 ranks have launched up to operation 640", and which two have
 * not. Where all other classes of ranks were named one by one, the rest is the class that was not,
 * and so every rank has its count. Which class is right is not said by its size: the few may be
 * ahead.
 */
#include <inttypes.h>
#include <stdio.h>

#include "read/ras.h"
#include "read/ras_inside.h"
#include "read/stamp.h"
#include "read/text_lines.h"

#define TABLE_MAX     1024u
#define CLASSES_MAX   64u /* different counts within a communicator */
#define TEXT_ROWS_MAX (1u << 17)
#define BLOCKS_MAX    4096u /* operations that differ, over all communicators */
#define PROCESSES_MAX 1024u /* of which no rank is said */

enum class_kind { CLASS_NONE, CLASS_COUNT, CLASS_STATUS, CLASS_MISSING, CLASS_FAILED };

struct rank_class {
	enum class_kind kind;
	int64_t ranks, named; /* how many there are, how many of them were named */
	int64_t value;	      /* a count */
	char status;	      /* its first letter */
};

struct ras_text {
	struct testimony *t;
	struct read_stats *stats;
	int64_t sizes[TABLE_MAX]; /* of the communicators of the table's groups */
	uint32_t n_sizes;
	/* the communicator that is being described */
	uint32_t group;
	int64_t size;
	enum comm_op op;
	struct rank_class classes[CLASSES_MAX];
	uint32_t n_classes;
	uint32_t n_blocks, n_processes;
	uint32_t *slots; /* row + 1 of counts, by group and rank; half full at most */
	bool dead;	 /* the list of processes that follows is of dead ones */
	bool met;
	bool totals; /* the line that follows ends with the number of GPUs */
};

/* --- the pieces of a line --- */

/* A number behind `word` in the line; -1: no such word or number. */
static int64_t number_after(const char *line, const char *word)
{
	const char *p = strstr(line, word);
	int64_t n;

	return p && sscanf(p + strlen(word), "%18" SCNd64, &n) == 1 ? n : -1;
}

static uint32_t host_after(struct testimony *t, const char *line, const char *word)
{
	const char *p = strstr(line, word);
	size_t n;

	if (!p)
		return NO_ID;
	p += strlen(word);
	n = strcspn(p, " \t,");
	return n ? testimony_name(t, p, n) : NO_ID;
}

/* GPU 3, or GPU 0 (NVML 3): its place on the host. */
static int64_t gpu_of(const char *line)
{
	int64_t nvml = number_after(line, "(NVML ");
	int64_t gpu = number_after(line, "GPU ");

	return nvml >= 0 ? nvml : gpu >= 0 ? gpu : number_after(line, "GPUs ");
}

/* --- ranks --- */

static uint32_t *slot_of(struct ras_text *r, uint32_t group, int64_t rank)
{
	uint32_t at = (uint32_t)hash_mix(hash_mix(0, group), (uint64_t)rank);

	for (;; at++) {
		uint32_t *slot = &r->slots[at % (2 * TEXT_ROWS_MAX)];
		const struct comm_count *c = *slot ? &r->t->counts.v[*slot - 1] : NULL;

		if (!c || (c->group == group && c->rank == rank))
			return slot;
	}
}

/* The row of a rank of the communicator that is being described, new if need be. */
static struct comm_count *row_of(struct ras_text *r, int64_t rank)
{
	uint32_t *slot = slot_of(r, r->group, rank);
	struct comm_count *c;

	if (*slot)
		return &r->t->counts.v[*slot - 1];
	if (rank < 0 || rank >= r->size || r->t->counts.n >= TEXT_ROWS_MAX) {
		r->t->dropped++;
		return NULL;
	}
	c = vec_push(&r->t->counts);
	*c = comm_count_unknown();
	c->group = r->group;
	c->rank = rank;
	*slot = (uint32_t)r->t->counts.n;
	return c;
}

static void apply(struct ras_text *r, const struct rank_class *k, struct comm_count *c)
{
	c->missing |= k->kind == CLASS_MISSING || (k->kind == CLASS_STATUS && k->status == 'N');
	c->failed |= k->kind == CLASS_FAILED;
	c->aborted |= k->kind == CLASS_STATUS && k->status == 'A';
	c->finalized |= k->kind == CLASS_STATUS && k->status == 'F';
	if (k->kind == CLASS_COUNT)
		c->counts[r->op] = k->value;
}

/* Gives the ranks of the one class that was not named to it. */
static void fill_rest(struct ras_text *r, const struct rank_class *rest)
{
	for (int64_t rank = 0; rank < r->size && r->t->counts.n < TEXT_ROWS_MAX; rank++) {
		struct comm_count *c = row_of(r, rank);

		if (c && !c->missing && c->counts[r->op] < 0)
			apply(r, rest, c);
	}
}

/* The end of what is said of one operation. */
static void end_classes(struct ras_text *r)
{
	const struct rank_class *rest = NULL;
	int64_t told = 0, missing = 0;
	bool sole = true;

	for (uint32_t i = 0; i < r->n_classes; i++) {
		const struct rank_class *k = &r->classes[i];

		if (k->kind != CLASS_COUNT)
			continue;
		told += k->ranks;
		if (k->named < k->ranks) {
			sole = sole && !rest && !k->named;
			rest = k;
		}
	}
	if (rest && sole && r->n_blocks++ < BLOCKS_MAX) {
		for (size_t i = 0; i < r->t->counts.n; i++)
			missing += r->t->counts.v[i].group == r->group && r->t->counts.v[i].missing;
		if (told + missing == r->size)
			fill_rest(r, rest);
	}
	r->n_classes = 0;
}

static struct rank_class *begin_class(struct ras_text *r, enum class_kind kind, int64_t ranks)
{
	if (r->n_classes == CLASSES_MAX) /* the oldest are told in full; their number is lost */
		r->n_classes = 0;
	r->classes[r->n_classes] = (struct rank_class){ .kind = kind, .ranks = MAX(ranks, 0) };
	return &r->classes[r->n_classes++];
}

/* --- the lines --- */

static bool line_table(struct ras_text *r, const char *line)
{
	int64_t group, comms, nodes, size, ranks;
	char per_node[24], status[24];

	if (sscanf(line,
		   "%9" SCNd64 " %9" SCNd64 " %9" SCNd64 " %23[0-9-] %9" SCNd64 " %9" SCNd64
		   " %23[A-Z]",
		   &group, &comms, &nodes, per_node, &size, &ranks, status) != 7)
		return false;
	if (group >= 0 && group < TABLE_MAX) {
		while (r->n_sizes <= group)
			r->sizes[r->n_sizes++] = -1;
		r->sizes[group] = size;
	}
	r->met = true;
	return true;
}

/* The job's summary: a row of numbers, the last of which counts GPUs. */
static void line_totals(struct ras_text *r, const char *line)
{
	size_t len = strspn(line, " 0123456789");
	int64_t gpus;

	while (len && line[len - 1] == ' ')
		len--;
	while (len && line[len - 1] != ' ')
		len--;
	gpus = strtoll(line + len, NULL, 10);
	if (gpus > 0 && gpus <= RAS_SIZE_MAX)
		r->t->world_size = gpus;
}

/* "#0-1 (fa93daea854b060b) MISMATCH" */
static bool line_communicator(struct ras_text *r, const char *line)
{
	int64_t group, index;
	char hash[24];

	if (sscanf(line, "#%9" SCNd64 "-%9" SCNd64 " (%16[0-9a-fA-F])", &group, &index, hash) != 3)
		return false;
	end_classes(r);
	r->size = group >= 0 && group < r->n_sizes ? r->sizes[group] : -1;
	if (r->size > RAS_SIZE_MAX)
		r->size = -1;
	if (r->t->world_size > 0) /* the summary counts who answers only */
		r->t->world_size = MAX(r->t->world_size, r->size);
	r->group = ras_group(r->t, hash, r->size);
	r->met = true;
	return true;
}

static bool line_class(struct ras_text *r, const char *line)
{
	int64_t ranks, value;
	char word[24];
	const char *p;

	if ((p = strstr(line, "anks have different ")) && strstr(p, " operation counts")) {
		end_classes(r);
		p += strlen("anks have different ");
		r->op = comm_op_of(p, strcspn(p, " "));
		r->op = r->op ? r->op : COMM_OTHER; /* before 2.26: all of them together */
		return true;
	}
	if (strstr(line, "anks have different status")) {
		end_classes(r);
		return true;
	}
	if (sscanf(line, "%9" SCNd64 " ranks have launched up to operation %18" SCNd64, &ranks,
		   &value) == 2) {
		begin_class(r, CLASS_COUNT, ranks)->value = value;
		return true;
	}
	if (sscanf(line, "%9" SCNd64 " ranks have status %23[A-Z]", &ranks, word) == 2) {
		begin_class(r, CLASS_STATUS, ranks)->status =
		    strcmp(word, "UNKNOWN") ? word[0] : 'N';
		return true;
	}
	if (strstr(line, "ranks have not launched any")) {
		begin_class(r, CLASS_COUNT, strtoll(line, NULL, 10));
		return true;
	}
	if (number_after(line, "Missing communicator data from ") >= 0 && strstr(line, " rank")) {
		begin_class(r, CLASS_MISSING, 0);
		return true;
	}
	if (strstr(line, "error") && strstr(line, " on ") && strstr(line, " rank")) {
		begin_class(r, CLASS_FAILED, 0);
		return true;
	}
	return strstr(line, " ranks reported ") != NULL;
}

/* "Rank 12 has launched up to operation 641 -- GPU 4 managed by process 3230 on node 10.1.2.3" */
static bool line_rank(struct ras_text *r, const char *line)
{
	int64_t rank, value = number_after(line, " launched up to operation ");
	const char *status = strstr(line, " has status ");
	struct rank_class *k = r->n_classes ? &r->classes[r->n_classes - 1] : NULL;
	struct comm_count *c;

	if (sscanf(line, "Rank %18" SCNd64, &rank) != 1)
		return false;
	if (r->group == NO_ID)
		return true;
	if (value >= 0 || strstr(line, " has not launched")) {
		k = begin_class(r, CLASS_COUNT, 1);
		k->value = MAX(value, 0);
	} else if (status) {
		k = begin_class(r, CLASS_STATUS, 1);
		k->status = status[strlen(" has status ")];
	} else if (strstr(line, " reported ")) {
		k = begin_class(r, CLASS_FAILED, 1);
	}
	c = row_of(r, rank);
	if (!c)
		return true;
	if (k) {
		k->named++;
		apply(r, k, c);
		r->stats->events++;
	}
	if (number_after(line, " by process ") >= 0) {
		c->pid = number_after(line, " by process ");
		c->gpu = gpu_of(line);
		c->host = host_after(r->t, line, " on node ");
	}
	return true;
}

/* "The missing rank: 21", or ranks with commas between them. */
static bool line_missing(struct ras_text *r, const char *line)
{
	const char *p = strchr(line, ':');
	int64_t rank;
	int len;

	if (strncmp(line, "The missing rank", 16) || !p)
		return false;
	while (r->group != NO_ID && sscanf(p + 1, "%18" SCNd64 "%n", &rank, &len) == 1) {
		struct comm_count *c = row_of(r, rank);

		if (c) {
			c->missing = true;
			r->stats->events++;
		}
		p += 1 + len;
		if (*p != ',')
			break;
	}
	return true;
}

/* "Process 60004 on node 10.4.109.13 managing GPU 0", of which no rank is said. */
static bool line_process(struct ras_text *r, const char *line)
{
	struct comm_count c = comm_count_unknown();

	if (sscanf(line, "Process %18" SCNd64 " on node", &c.pid) != 1 ||
	    r->t->counts.n >= TEXT_ROWS_MAX || r->n_processes++ >= PROCESSES_MAX)
		return false;
	c.host = host_after(r->t, line, " on node ");
	c.gpu = gpu_of(line);
	c.missing = true;
	c.dead = r->dead;
	c.unresponsive = !r->dead;
	c.group = testimony_group(r->t, NO_ID, NO_ID);
	*vec_push(&r->t->counts) = c;
	r->stats->events++;
	return true;
}

/* "[2026-07-30 10:15:31] PEER_DEAD: Process 40113 on node 10.8.4.21 managing GPU 1" */
static bool line_monitor(struct ras_text *r, const char *line)
{
	const char *end = strchr(line, ']'), *p;
	char event[32];
	int64_t time_ns;
	uint32_t host;

	if (*line != '[' || !end || sscanf(end + 1, " %31[A-Z_]:", event) != 1)
		return false;
	time_ns = stamp_of_text(line + 1, (size_t)(end - line - 1));
	p = strchr(end, ':');
	if (time_ns < 0 || !p)
		return false;
	host = host_after(r->t, line, " on node ");
	ras_event(r->t, event, p + 1 + strspn(p + 1, " "), intern_get(&r->t->names, host),
		  number_after(line, "Process "), gpu_of(line), time_ns);
	r->met = true;
	return true;
}

static void take_line(struct ras_text *r, const char *line)
{
	if (!*line) {
		end_classes(r);
		return;
	}
	if (!strncmp(line, "DEAD", 4) || !strncmp(line, "INCOMPLETE", 10)) {
		r->dead = *line == 'D';
		return;
	}
	if (r->totals)
		line_totals(r, line);
	r->totals = !strncmp(line, "(total)", 7);
	if (strstr(line, "Job summary") || !strncmp(line, "Communicators...", 16))
		r->met = true;
	if (line_communicator(r, line) || line_rank(r, line) || line_process(r, line) ||
	    line_missing(r, line) || line_class(r, line) || line_monitor(r, line))
		return;
	line_table(r, line);
}

/* The one rank that lacks all data, if one process alone is without a rank. */
static struct comm_count *only_missing(struct testimony *t)
{
	struct comm_count *found = NULL;
	size_t processes = 0;

	for (size_t i = 0; i < t->counts.n; i++) {
		struct comm_count *c = &t->counts.v[i];

		processes += c->rank < 0;
		if (c->rank < 0 || !c->missing || c->pid >= 0)
			continue;
		if (found && found->rank != c->rank)
			return NULL;
		found = c;
	}
	return processes == 1 ? found : NULL;
}

/* A process of which no rank was said may be the one of a rank that was: then it is that rank. */
static void join_processes(struct testimony *t)
{
	struct comm_count *sole = only_missing(t);
	size_t kept = 0;

	for (size_t i = 0; i < t->counts.n; i++) {
		struct comm_count *p = &t->counts.v[i];
		bool found = false;

		for (size_t k = 0; p->rank < 0 && k < t->counts.n; k++) {
			struct comm_count *c = &t->counts.v[k];

			if (c->rank < 0 || (c != sole && (c->pid != p->pid || c->host != p->host)))
				continue;
			if (c == sole) {
				c->pid = p->pid;
				c->host = p->host;
				c->gpu = p->gpu;
			}
			c->dead |= p->dead;
			c->unresponsive |= p->unresponsive;
			found = true;
		}
		p->pid = found ? -2 : p->pid;
	}
	for (size_t i = 0; i < t->counts.n; i++)
		if (t->counts.v[i].pid != -2)
			t->counts.v[kept++] = t->counts.v[i];
	t->counts.n = kept;
}

int ras_text_read(struct input *in, const char *path, struct testimony **ret,
		  struct read_stats *stats, struct error *reterr)
{
	struct testimony *t = testimony_new(WITNESS_RAS, "ncclras");
	struct ras_text *r = xcalloc(1, sizeof(*r));
	struct text_lines lines;
	const char *line;
	size_t len;
	int status = 0;

	*r = (struct ras_text){ .t = t, .stats = stats, .group = NO_ID, .size = -1 };
	r->slots = xcalloc(2 * TEXT_ROWS_MAX, sizeof(*r->slots));
	t->path = testimony_name(t, path, strlen(path));
	text_lines_init(&lines, in);
	while (text_lines_next(&lines, &line, &len))
		take_line(r, line + strspn(line, " \t"));
	end_classes(r);
	t->lines = lines.line;
	stats->skipped[SKIP_TOO_LONG] += lines.cut;
	text_lines_done(&lines);
	join_processes(t);
	t->present = r->met;
	if (r->met || t->counts.n)
		*ret = t;
	else
		status = error_set(reterr, -EPROTO, "no communicators in it");
	if (status < 0)
		testimony_free(t);
	free(r->slots);
	free(r);
	return status;
}

bool ras_text_sniff(const char *text, size_t len, const char *path)
{
	size_t head = MIN(len, (size_t)1024);

	(void)path;
	/* A log into which somebody put the report is a log. */
	if (memmem(text, len, "[rank", 5) || memmem(text, len, "Watchdog", 8))
		return false;
	if (memmem(text, head, "Job summary", 11) && memmem(text, len, "Processes", 9))
		return true;
	if (memmem(text, head, "ranks have launched up to operation", 35) ||
	    memmem(text, head, "in group  per comm", 18))
		return true;
	return head && *text == '[' && memmem(text, MIN(head, (size_t)64), "] PEER_", 7);
}
