/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lks.c - the .lks segment: written once front to back, read as it comes.
 *
 * A reader never trusts a length: blocks are at most 1 MiB, what a block holds ends with it, and a
 * block whose checksum is wrong is left out alone. docs/lks.md has the byte layout.
 */
#include "store/lks.h"

#include <fcntl.h>
#include <isa-l.h>
#include <unistd.h>

#define BLOCK_LIMIT  ((size_t)1 << 20)
#define BLOCK_AIM    ((size_t)256 << 10)
#define BLOCK_HEAD   12
#define FILE_HEAD    12
#define RECORD_LIMIT ((size_t)64 << 20) /* of a record that goes on over blocks */
#define ROWS_LIMIT   ((uint64_t)1 << 24)
#define NAME_LIMIT   ((size_t)1 << 20)
#define IDS_LIMIT    ((uint64_t)1 << 28)
#define GAP_LIMIT    65536 /* of ids or rows, that a lost block may leave */

static const char magic[8] = { 'L', 'K', 'S', 'T', 'E', 'P', '1', '\n' };
/* 1 is read as well: its records leave no field out that follows from others. 2.1: standings. */
enum { VERSION_MAJOR = 2, VERSION_MINOR = 1, VERSION_OLDEST = 1 };

enum block_type { BLOCK_STRINGS = 1, BLOCK_RANK = 2, BLOCK_STEP = 3, BLOCK_STANDING = 4 };
enum block_flag { BLOCK_GOES_ON = 1 }; /* the next block of this type continues it */

static uint32_t crc32c(const uint8_t *p, size_t len)
{
	uint8_t *bytes;

	memcpy(&bytes, &p, sizeof(bytes)); /* isal reads only, but does not say so */
	return ~crc32_iscsi(bytes, (int)len, ~0u);
}

static void put_le(uint8_t *p, uint32_t v, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t get_le(const uint8_t *p, unsigned bytes)
{
	uint32_t v = 0;

	for (unsigned i = 0; i < bytes; i++)
		v |= (uint32_t)p[i] << (8 * i);
	return v;
}

/* --- writing --- */

struct lks_writer {
	int fd;
	char *path;
	const struct job *job;
	uint32_t n_names; /* written */
	struct buf payload, record;
	struct buf out; /* blocks not yet on disk */
	uint64_t flushed;
};

static int writer_flush(struct lks_writer *w, struct error *reterr)
{
	for (size_t at = 0; at < w->out.len;) {
		ssize_t n = write(w->fd, w->out.data + at, w->out.len - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_set(reterr, -errno, "%s: %s", w->path, strerror(errno));
		at += (size_t)n;
	}
	w->flushed += w->out.len;
	w->out.len = 0;
	return 0;
}

/* The payload as blocks of a type, as many as its length needs. */
static int writer_block(struct lks_writer *w, enum block_type type, struct error *reterr)
{
	size_t at = 0;

	do {
		size_t n = MIN(w->payload.len - at, BLOCK_LIMIT);
		uint8_t head[BLOCK_HEAD] = { 0 };

		put_le(head, (uint32_t)n, 4);
		head[4] = (uint8_t)type;
		head[5] = at + n < w->payload.len ? BLOCK_GOES_ON : 0;
		put_le(head + 8, crc32c(w->payload.data + at, n), 4);
		buf_put(&w->out, head, sizeof(head));
		buf_put(&w->out, w->payload.data + at, n);
		at += n;
	} while (at < w->payload.len);
	w->payload.len = 0;
	return w->out.len >= BLOCK_AIM ? writer_flush(w, reterr) : 0;
}

/* Strings that the job has and the file has not. */
static int writer_names(struct lks_writer *w, struct error *reterr)
{
	const struct intern *names = &w->job->names;
	int status = 0;

	while (w->n_names < names->n && status >= 0) {
		uint32_t last = w->n_names;
		size_t bytes = 0;

		while (last < names->n && bytes < BLOCK_AIM)
			bytes += intern_len(names, last++) + 2;
		buf_put_varint(&w->payload, w->n_names);
		buf_put_varint(&w->payload, last - w->n_names);
		for (; w->n_names < last; w->n_names++)
			buf_put_string(&w->payload, intern_get(names, w->n_names),
				       intern_len(names, w->n_names));
		status = writer_block(w, BLOCK_STRINGS, reterr);
	}
	return status;
}

static struct lks_writer *writer_free(struct lks_writer *w)
{
	cleanup_close(&w->fd);
	free(w->path);
	buf_done(&w->payload);
	buf_done(&w->record);
	buf_done(&w->out);
	free(w);
	return NULL;
}

int lks_write_rank(struct lks_writer *w, uint32_t row, struct error *reterr)
{
	int status = writer_names(w, reterr);

	if (status < 0)
		return status;
	buf_put_varint(&w->payload, row);
	rank_info_encode(&w->payload, &w->job->ranks[row]);
	return writer_block(w, BLOCK_RANK, reterr);
}

int lks_write_standing(struct lks_writer *w, const struct rank_standing *s, struct error *reterr)
{
	int status = writer_names(w, reterr);

	if (status < 0)
		return status;
	rank_standing_encode(&w->payload, s);
	return writer_block(w, BLOCK_STANDING, reterr);
}

int lks_flush(struct lks_writer *w, struct error *reterr)
{
	return writer_flush(w, reterr);
}

uint64_t lks_written(const struct lks_writer *w)
{
	return w->flushed + w->out.len;
}

int lks_create(const char *path, const struct job *job, struct lks_writer **ret,
	       struct error *reterr)
{
	struct lks_writer *w = xcalloc(1, sizeof(*w));
	uint8_t head[FILE_HEAD];
	int status;

	w->job = job;
	w->path = xstrdup(path);
	w->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (w->fd < 0) {
		status = error_set(reterr, -errno, "%s: %s", path, strerror(errno));
		writer_free(w);
		return status;
	}
	memcpy(head, magic, sizeof(magic));
	put_le(head + 8, VERSION_MAJOR, 2);
	put_le(head + 10, VERSION_MINOR, 2);
	buf_put(&w->out, head, sizeof(head));
	status = writer_names(w, reterr);
	for (uint32_t row = 0; row < job->n_ranks && status >= 0; row++)
		status = lks_write_rank(w, row, reterr);
	if (status < 0) {
		writer_free(w);
		return status;
	}
	*ret = w;
	return 0;
}

/* Records are {varint length, record} behind the step's number; a block is closed when it is large
   enough. */
int lks_write_step(struct lks_writer *w, uint64_t number, struct step *const *steps,
		   struct error *reterr)
{
	int status = writer_names(w, reterr);

	for (uint32_t row = 0; row < w->job->n_ranks && status >= 0; row++) {
		if (!steps[row])
			continue;
		if (!w->payload.len)
			buf_put_varint(&w->payload, number);
		w->record.len = 0;
		step_encode(&w->record, steps[row]);
		buf_put_string(&w->payload, (const char *)w->record.data, w->record.len);
		if (w->payload.len >= BLOCK_AIM)
			status = writer_block(w, BLOCK_STEP, reterr);
	}
	if (status >= 0 && w->payload.len)
		status = writer_block(w, BLOCK_STEP, reterr);
	return status;
}

int lks_close(struct lks_writer *w, struct error *reterr)
{
	int status = writer_flush(w, reterr);
	int fd = take_fd(&w->fd);

	if (close(fd) < 0 && status >= 0)
		status = error_set(reterr, -errno, "%s: %s", w->path, strerror(errno));
	writer_free(w);
	return status;
}

/* --- reading --- */

struct lks_reader {
	struct lks_client client;
	struct buf in;	      /* bytes not yet taken */
	bool head_seen, lost; /* lost: no block can be told from here on */
	uint64_t bad, torn;
	struct buf record; /* of blocks that go on */
	int record_type;   /* 0: none */
	struct arena arena, step_arena;
	struct rank_info **rows;
	uint64_t n_rows;
	size_t rows_cap;
	uint32_t *names; /* of the file -> of the client, NO_ID */
	size_t n_names, names_cap;
};

struct lks_reader *lks_reader_new(const struct lks_client *client)
{
	struct lks_reader *r = xcalloc(1, sizeof(*r));

	r->client = *client;
	return r;
}

static uint32_t reader_name(const struct lks_reader *r, uint32_t id)
{
	return id < r->n_names ? r->names[id] : NO_ID;
}

static int take_strings(struct lks_reader *r, struct span in)
{
	uint64_t first = span_varint(&in), n = span_varint(&in);

	/* Ids are dense: a gap is a lost block, a large one is damage. */
	if (in.bad || n > span_left(&in) || first > r->n_names + GAP_LIMIT || first + n > IDS_LIMIT)
		return -EBADMSG;
	r->names = vec_reserve(r->names, &r->names_cap, (size_t)(first + n), sizeof(*r->names));
	while (r->n_names < first + n)
		r->names[r->n_names++] = NO_ID;
	for (uint64_t i = 0; i < n; i++) {
		size_t len;
		const char *s = span_string(&in, &len, NAME_LIMIT);

		if (in.bad || memchr(s, '\0', len))
			return -EBADMSG;
		r->names[first + i] = intern(r->client.names, s, len);
	}
	return 0;
}

static int take_rank(struct lks_reader *r, struct span in)
{
	uint64_t row = span_varint(&in);
	struct rank_info *info = arena_alloc(&r->arena, sizeof(*info));
	int status;

	/* Rows are dense too: one that lies far ahead is damage. */
	if (in.bad || row > ROWS_LIMIT || row > r->n_rows + GAP_LIMIT)
		return -EBADMSG;
	status = rank_info_decode(&in, &r->arena, info, NULL);
	if (status < 0)
		return status;
	info->host = reader_name(r, info->host);
	info->gpu_name = reader_name(r, info->gpu_name);
	info->backend = reader_name(r, info->backend);
	for (uint32_t g = 0; g < info->n_groups; g++) {
		info->groups[g].name = reader_name(r, info->groups[g].name);
		info->groups[g].desc = reader_name(r, info->groups[g].desc);
	}
	r->rows = vec_reserve(r->rows, &r->rows_cap, (size_t)row + 1, sizeof(*r->rows));
	while (r->n_rows <= row)
		r->rows[r->n_rows++] = NULL;
	r->rows[row] = info;
	return r->client.rank ? r->client.rank(r->client.user, row, info) : 0;
}

int lks_decode(const struct lks_reader *r, uint64_t number, struct span record, struct arena *arena,
	       struct step *ret)
{
	const struct rank_info *info;
	int status = step_decode(&record, arena, ret, NULL);

	if (status < 0)
		return status;
	info = ret->rank_row < r->n_rows ? r->rows[ret->rank_row] : NULL;
	if (!info || ret->number != number)
		return -EBADMSG;
	ret->host_what = reader_name(r, ret->host_what);
	for (uint32_t i = 0; i < ret->n_phases; i++)
		ret->phases[i].name = reader_name(r, ret->phases[i].name);
	for (uint32_t i = 0; i < ret->n_kernels; i++)
		ret->kernels[i].name = reader_name(r, ret->kernels[i].name);
	for (uint32_t i = 0; i < ret->n_comms; i++)
		if (ret->comms[i].group >= info->n_groups)
			return -EBADMSG;
	return 0;
}

static int take_step(struct lks_reader *r, struct span *in, uint64_t number)
{
	struct step step;
	size_t len;
	const char *p = span_string(in, &len, RECORD_LIMIT);
	int status;

	if (in->bad)
		return -EBADMSG;
	if (r->client.record)
		return r->client.record(r->client.user, number, (const uint8_t *)p, len);
	status = lks_decode(r, number, span_of(p, len), &r->step_arena, &step);
	if (status < 0)
		return status;
	return r->client.step ? r->client.step(r->client.user, r->rows[step.rank_row], &step) : 0;
}

static int take_steps(struct lks_reader *r, struct span in)
{
	uint64_t number = span_varint(&in);
	int status = in.bad ? -EBADMSG : 0;

	while (status >= 0 && span_left(&in)) {
		arena_reset(&r->step_arena);
		status = take_step(r, &in, number);
	}
	return status;
}

static int take_standing(struct lks_reader *r, struct span in)
{
	struct rank_standing s;

	arena_reset(&r->step_arena);
	if (rank_standing_decode(&in, &r->step_arena, &s) < 0 || s.row >= r->n_rows ||
	    !r->rows[s.row])
		return -EBADMSG;
	for (uint32_t i = 0; i < s.n_open; i++)
		s.open[i].name = reader_name(r, s.open[i].name);
	for (uint32_t i = 0; i < s.n_pending; i++)
		s.pending[i].group = reader_name(r, s.pending[i].group);
	for (uint32_t i = 0; i < s.n_done; i++)
		s.done[i].group = reader_name(r, s.done[i].group);
	return r->client.standing ? r->client.standing(r->client.user, r->rows[s.row], &s) : 0;
}

/* A whole payload. What does not decode is counted; only the client's own errors stop the reading.
 */
static int take_payload(struct lks_reader *r, int type, struct span in)
{
	int status = 0;

	switch (type) {
	case BLOCK_STRINGS:
		status = take_strings(r, in);
		break;
	case BLOCK_RANK:
		status = take_rank(r, in);
		break;
	case BLOCK_STEP:
		status = take_steps(r, in);
		break;
	case BLOCK_STANDING:
		status = take_standing(r, in);
		break;
	default:
		break; /* of a later version */
	}
	if (status == -EBADMSG) {
		r->bad++;
		return 0;
	}
	return status;
}

static int take_block(struct lks_reader *r, const uint8_t *head, const uint8_t *p, size_t len)
{
	bool goes_on = head[5] & BLOCK_GOES_ON;
	int type = head[4], status;

	if (crc32c(p, len) != get_le(head + 8, 4)) {
		r->bad++;
		r->record_type = 0;
		r->record.len = 0;
		return 0;
	}
	if (!goes_on && !r->record_type)
		return take_payload(r, type, span_of(p, len));
	if (r->record_type && r->record_type != type) {
		r->bad++; /* its end is missing */
		r->record.len = 0;
	}
	r->record_type = type;
	if (r->record.len + len > RECORD_LIMIT) {
		r->bad++;
		r->record_type = 0;
		r->record.len = 0;
		return 0;
	}
	buf_put(&r->record, p, len);
	if (goes_on)
		return 0;
	status = take_payload(r, type, span_of(r->record.data, r->record.len));
	r->record_type = 0;
	r->record.len = 0;
	return status;
}

static int take_head(struct lks_reader *r, struct error *reterr)
{
	if (memcmp(r->in.data, magic, sizeof(magic)) != 0)
		return error_set(reterr, -EBADMSG, "no step records: they begin with LKSTEP1");
	if (get_le(r->in.data + 8, 2) < VERSION_OLDEST || get_le(r->in.data + 8, 2) > VERSION_MAJOR)
		return error_set(reterr, -ENOTSUP,
				 "step records of version %u, this lockstep reads version %d",
				 get_le(r->in.data + 8, 2), VERSION_MAJOR);
	r->head_seen = true;
	return 0;
}

/* Takes what is whole from the front of r->in; *ret: how many bytes that was. */
static int take_blocks(struct lks_reader *r, size_t *ret, struct error *reterr)
{
	size_t at = 0;
	int status;

	if (!r->head_seen) {
		if (r->in.len < FILE_HEAD)
			return 0;
		status = take_head(r, reterr);
		if (status < 0)
			return status;
		*ret = at = FILE_HEAD;
	}
	while (r->in.len - at >= BLOCK_HEAD) {
		const uint8_t *head = r->in.data + at;
		size_t len = get_le(head, 4);

		if (len > BLOCK_LIMIT || get_le(head + 6, 2)) {
			r->lost = true;
			return 0;
		}
		if (r->in.len - at - BLOCK_HEAD < len)
			return 0;
		status = take_block(r, head, head + BLOCK_HEAD, len);
		if (status < 0)
			return error_set(reterr, status, "step records could not be taken: %s",
					 strerror(-status));
		*ret = at += BLOCK_HEAD + len;
	}
	return 0;
}

int lks_reader_feed(struct lks_reader *r, const void *bytes, size_t len, struct error *reterr)
{
	size_t taken = 0;
	int status;

	if (r->lost) {
		r->torn += len;
		return 0;
	}
	buf_put(&r->in, bytes, len);
	status = take_blocks(r, &taken, reterr);
	if (taken) {
		memmove(r->in.data, r->in.data + taken, r->in.len - taken);
		r->in.len -= taken;
	}
	if (r->lost) {
		r->torn += r->in.len;
		r->in.len = 0;
	}
	return status;
}

int lks_reader_end(struct lks_reader *r, uint64_t *ret_torn, uint64_t *ret_bad,
		   struct error *reterr)
{
	if (!r->head_seen)
		return error_set(reterr, -EBADMSG, "no step records: shorter than their head");
	*ret_torn = r->torn + r->in.len + r->record.len;
	*ret_bad = r->bad;
	return 0;
}

struct lks_reader *lks_reader_free(struct lks_reader *r)
{
	if (!r)
		return NULL;
	buf_done(&r->in);
	buf_done(&r->record);
	arena_done(&r->arena);
	arena_done(&r->step_arena);
	free(r->rows);
	free(r->names);
	free(r);
	return NULL;
}
