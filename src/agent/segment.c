/* SPDX-License-Identifier: Apache-2.0 */
/* segment.c - see segment.h. */
#include "agent/segment.h"
#include "base/clock.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NAME_WORD 48u /* bytes of host or job in a file's name */
#define ROWS_MOST 4096u

struct member {
	int64_t rank;
	uint32_t row; /* in the open segment; NO_ID: not yet in it */
	bool here;
	uint32_t n_groups; /* of the head that was written */
	bool cpu_job;
	uint32_t *name_map; /* names of its fold -> names of the segment */
	size_t n_names;
};

struct recording {
	int folder;
	char *folder_path, *job_name, *host, *name;
	int64_t world_size;
	struct segment_limits limits;
	struct job job; /* of the open segment */
	size_t rows_cap;
	struct lks_writer *writer;
	int64_t opened;
	unsigned count;
	VEC(struct member) members;
	VEC(struct step *) steps; /* by row, for the writer */
};

struct recording *recording_new(int folder, const char *folder_path, const char *job,
				const char *host, int64_t world_size,
				const struct segment_limits *limits)
{
	struct recording *r = xcalloc(1, sizeof(*r));

	r->folder = folder;
	r->folder_path = xstrdup(folder_path);
	r->job_name = xstrdup(job);
	r->host = xstrdup(host);
	r->world_size = world_size;
	r->limits = *limits;
	return r;
}

static void member_reset(struct member *m)
{
	free(m->name_map);
	m->name_map = NULL;
	m->n_names = 0;
	m->row = NO_ID;
	m->n_groups = 0;
}

/* Sums and times of the heads are those of the steps that followed them: told once more. */
static int heads_put(struct recording *r, struct error *reterr)
{
	int status = 0;

	for (uint32_t row = 0; row < r->job.n_ranks && status >= 0; row++)
		status = lks_write_rank(r->writer, row, reterr);
	return status;
}

static int segment_close(struct recording *r, struct error *reterr)
{
	int status = 0, closed;

	if (r->writer) {
		status = heads_put(r, reterr);
		closed = lks_close(r->writer, reterr);
		status = MIN(status, closed);
	}
	r->writer = NULL;
	free(r->name);
	r->name = NULL;
	free(r->job.ranks);
	r->job.ranks = NULL;
	job_done(&r->job);
	r->job = (struct job){ .world_size = r->world_size };
	r->rows_cap = r->steps.n = 0;
	for (size_t i = 0; i < r->members.n; i++)
		member_reset(&r->members.v[i]);
	return status;
}

struct recording *recording_free(struct recording *r)
{
	if (!r)
		return NULL;
	segment_close(r, NULL);
	free(r->members.v);
	free(r->steps.v);
	free(r->folder_path);
	free(r->job_name);
	free(r->host);
	free(r);
	return NULL;
}

bool recording_is(const struct recording *r, const char *job, int64_t world_size)
{
	return !strcmp(r->job_name, job) && r->world_size == world_size;
}

size_t recording_join(struct recording *r, int64_t rank)
{
	/* The same rank as another process: its steps count anew, in a segment of their own. */
	for (size_t i = 0; i < r->members.n && rank >= 0; i++) {
		if (r->members.v[i].rank != rank || r->members.v[i].row == NO_ID)
			continue;
		segment_close(r, NULL);
		break;
	}
	*vec_push(&r->members) = (struct member){ .rank = rank, .row = NO_ID, .here = true };
	return r->members.n - 1;
}

void recording_leave(struct recording *r, size_t who)
{
	r->members.v[who].here = false;
}

/* --- files --- */

static void word_put(struct buf *b, const char *word)
{
	size_t n = 0;

	for (; *word && n < NAME_WORD; word++, n++) {
		bool plain = isalnum((unsigned char)*word) || *word == '_' || *word == '.';

		buf_put(b, plain && (*word != '.' || n) ? word : "_", 1);
	}
}

/* "HOST-JOB-20261130T164343-0.lks": the time orders them. */
static char *segment_name(struct recording *r, int64_t now)
{
	time_t s = (time_t)(now / 1000000000);
	char stamp[32], count[16];
	struct buf b = { 0 };
	struct tm tm;

	gmtime_r(&s, &tm);
	strftime(stamp, sizeof(stamp), "-%Y%m%dT%H%M%S", &tm);
	word_put(&b, *r->host ? r->host : "node");
	if (*r->job_name) {
		buf_put(&b, "-", 1);
		word_put(&b, r->job_name);
	}
	buf_put(&b, stamp, strlen(stamp));
	snprintf(count, sizeof(count), "-%u.lks", r->count++);
	buf_put(&b, count, strlen(count) + 1);
	return (char *)b.data;
}

struct kept {
	char *name;
	int64_t time;
};

static int kept_order(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	return x->time < y->time ? -1 : x->time > y->time;
}

/* Removes the oldest segments beyond what is to be kept, before one is added. */
static void segments_trim(const struct recording *r)
{
	int fd = dup(r->folder);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	VEC(struct kept) all = { 0 };
	struct dirent *e;

	if (!d)
		return;
	rewinddir(d);
	while ((e = readdir(d))) {
		size_t len = strlen(e->d_name);
		struct stat st;

		if (len < 5 || strcmp(e->d_name + len - 4, ".lks") || e->d_name[0] == '.' ||
		    fstatat(r->folder, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		*vec_push(&all) = (struct kept){ xstrdup(e->d_name), timespec_ns(st.st_mtim) };
	}
	closedir(d);
	if (all.n)
		qsort(all.v, all.n, sizeof(*all.v), kept_order);
	for (size_t i = 0; i < all.n; i++) {
		if (all.n - i >= r->limits.keep)
			unlinkat(r->folder, all.v[i].name, 0);
		free(all.v[i].name);
	}
	free(all.v);
}

static int segment_open(struct recording *r, int64_t now, struct error *reterr)
{
	_cleanup_free_ char *path = NULL;
	int status;

	if (r->limits.keep)
		segments_trim(r);
	for (;;) { /* never over a former one */
		free(r->name);
		r->name = segment_name(r, now);
		if (faccessat(r->folder, r->name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			break;
	}
	path = xasprintf("%s/%s", r->folder_path, r->name);
	r->job.world_size = r->world_size;
	status = lks_create(path, &r->job, &r->writer, reterr);
	if (status < 0) {
		r->writer = NULL;
		free(r->name);
		r->name = NULL;
		return status;
	}
	r->opened = now;
	return lks_flush(r->writer, reterr);
}

static bool segment_is_full(const struct recording *r, int64_t now)
{
	return lks_written(r->writer) >= r->limits.bytes || now - r->opened >= r->limits.age_ns;
}

/* --- names and heads --- */

static uint32_t name_in(struct recording *r, struct member *m, const struct intern *names,
			uint32_t id)
{
	if (id == NO_ID)
		return NO_ID;
	if (id >= m->n_names) {
		size_t n = MAX((size_t)names->n, (size_t)id + 1);

		m->name_map = xrealloc(m->name_map, n * sizeof(*m->name_map));
		while (m->n_names < n)
			m->name_map[m->n_names++] = NO_ID;
	}
	if (m->name_map[id] == NO_ID)
		m->name_map[id] =
		    intern(&r->job.names, intern_get(names, id), intern_len(names, id));
	return m->name_map[id];
}

static int head_put(struct recording *r, struct member *m, const struct rank_info *info,
		    const struct intern *names, struct error *reterr)
{
	struct rank_info *own, sums = { 0 };
	bool is_new = m->row == NO_ID;

	if (is_new) {
		if (r->job.n_ranks == ROWS_MOST)
			return error_set(reterr, -EMFILE, "more than %u ranks of a job on a node",
					 ROWS_MOST);
		r->job.ranks = vec_reserve(r->job.ranks, &r->rows_cap, r->job.n_ranks + 1,
					   sizeof(*r->job.ranks));
		*vec_push(&r->steps) = NULL;
		m->row = r->job.n_ranks++;
	} else if (m->n_groups == info->n_groups && m->cpu_job == info->cpu_job) {
		return 0;
	}
	own = &r->job.ranks[m->row];
	if (!is_new)
		sums = *own;
	*own = *info;
	own->rank = m->rank;
	own->unknown = m->rank < 0 ? m->row + 1 : 0;
	own->world_size = r->world_size;
	own->host = intern_str(&r->job.names, r->host);
	own->gpu_name = own->backend = NO_ID;
	own->gpu_index = -1;
	own->kernels = sums.kernels;
	own->kernel_ns = sums.kernel_ns;
	own->collectives = sums.collectives;
	own->collective_ns = sums.collective_ns;
	own->first_ns = sums.first_ns;
	own->last_ns = sums.last_ns;
	own->groups = arena_alloc(&r->job.arena, (info->n_groups + 1) * sizeof(*own->groups));
	for (uint32_t i = 0; i < info->n_groups; i++) {
		own->groups[i] = info->groups[i];
		own->groups[i].name = name_in(r, m, names, info->groups[i].name);
		own->groups[i].desc = name_in(r, m, names, info->groups[i].desc);
		own->groups[i].ranks = NULL;
		own->groups[i].n_ranks = 0;
	}
	m->n_groups = info->n_groups;
	m->cpu_job = info->cpu_job;
	return lks_write_rank(r->writer, m->row, reterr);
}

static void head_count(struct rank_info *head, const struct step *s)
{
	for (uint32_t i = 0; i < s->n_kernels; i++) {
		head->kernels += s->kernels[i].count;
		head->kernel_ns += s->kernels[i].sum_ns;
	}
	for (uint32_t i = 0; i < s->n_comms; i++) {
		head->collectives += s->comms[i].count;
		head->collective_ns += s->comms[i].sum_ns;
	}
	head->first_ns = head->first_ns ? MIN(head->first_ns, s->start_ns) : s->start_ns;
	head->last_ns = MAX(head->last_ns, s->start_ns + s->wall_ns);
}

int recording_step(struct recording *r, size_t who, const struct rank_info *info,
		   const struct intern *names, const struct step *step, int64_t now,
		   struct error *reterr)
{
	struct member *m = &r->members.v[who];
	struct step own = *step;
	int status = 0;

	if (r->writer && segment_is_full(r, now))
		status = segment_close(r, reterr);
	if (status >= 0 && !r->writer)
		status = segment_open(r, now, reterr);
	if (status >= 0)
		status = head_put(r, m, info, names, reterr);
	if (status < 0)
		return status;
	head_count(&r->job.ranks[m->row], step);
	own.rank_row = m->row;
	own.host_what = name_in(r, m, names, step->host_what);
	for (uint32_t i = 0; i < own.n_phases; i++)
		own.phases[i].name = name_in(r, m, names, own.phases[i].name);
	for (uint32_t i = 0; i < own.n_kernels; i++)
		own.kernels[i].name = name_in(r, m, names, own.kernels[i].name);
	r->steps.v[m->row] = &own;
	status = lks_write_step(r->writer, own.number, r->steps.v, reterr);
	r->steps.v[m->row] = NULL;
	return status;
}

int recording_standing(struct recording *r, size_t who, struct rank_standing *s,
		       const struct intern *names, const struct rank_info *info, int64_t now,
		       struct error *reterr)
{
	struct member *m = &r->members.v[who];
	int status = r->writer ? 0 : segment_open(r, now, reterr);

	if (status >= 0)
		status = head_put(r, m, info, names, reterr);
	if (status < 0)
		return status;
	s->row = m->row;
	for (uint32_t i = 0; i < s->n_open; i++)
		s->open[i].name = name_in(r, m, names, s->open[i].name);
	for (uint32_t i = 0; i < s->n_pending; i++)
		s->pending[i].group = name_in(r, m, names, s->pending[i].group);
	for (uint32_t i = 0; i < s->n_done; i++)
		s->done[i].group = name_in(r, m, names, s->done[i].group);
	return lks_write_standing(r->writer, s, reterr);
}

int recording_flush(struct recording *r, struct error *reterr)
{
	return r->writer ? lks_flush(r->writer, reterr) : 0;
}

const char *recording_file(const struct recording *r, size_t who, uint32_t *ret_row)
{
	*ret_row = r->members.v[who].row;
	return *ret_row == NO_ID ? NULL : r->name;
}

/* --- after a kill --- */

struct recovery {
	segment_step_fn fn;
	void *user;
};

static int recovered_step(void *user, const struct rank_info *info, const struct step *step)
{
	const struct recovery *r = user;

	(void)info;
	r->fn(r->user, step->rank_row, step->number, step->start_ns + step->wall_ns);
	return 0;
}

int segment_recover(int folder, const char *name, segment_step_fn fn, void *user,
		    struct error *reterr)
{
	_cleanup_close_ int fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct recovery recovery = { fn, user };
	struct intern names = { 0 };
	struct lks_client client = { .user = &recovery, .names = &names, .step = recovered_step };
	struct lks_reader *reader;
	uint64_t torn = 0, bad = 0, all = 0;
	static uint8_t bytes[1 << 16];
	int status = 0;
	ssize_t n;

	if (fd < 0)
		return error_set(reterr, -errno, "%s: %s", name, strerror(errno));
	reader = lks_reader_new(&client);
	while (status >= 0 && (n = read(fd, bytes, sizeof(bytes))) > 0) {
		all += (uint64_t)n;
		status = lks_reader_feed(reader, bytes, (size_t)n, reterr);
	}
	if (status >= 0)
		status = lks_reader_end(reader, &torn, &bad, reterr);
	if (status >= 0 && torn && ftruncate(fd, (off_t)(all - torn)) < 0)
		status = error_set(reterr, -errno, "%s: %s", name, strerror(errno));
	lks_reader_free(reader);
	intern_done(&names);
	return status;
}
