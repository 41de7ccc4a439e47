/* SPDX-License-Identifier: Apache-2.0 */
/* ring_read.c - see ring_read.h: pread, check, copy, look at the head again. */
#include "agent/ring_read.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BATCH		4096u /* records copied at a time */
#define IN_FLIGHT	2u    /* units that the writer may be writing beyond its head */
#define SEQ_TRIES	8
#define RATE_APART_NS	((uint64_t)200000000)
#define TICK_NS_LEAST	0.01 /* 100 GHz .. */
#define TICK_NS_MOST	1000.0
#define SPAN_LONGEST_NS ((double)((uint64_t)1 << 44))

static int bad(const struct ring_file *r, struct error *reterr, const char *what)
{
	return error_set(reterr, -EBADMSG, "%s: %s; its records are left alone", r->path, what);
}

/* All of it, or -EBADMSG: the file is shorter than it says. */
static int get(const struct ring_file *r, void *to, size_t len, uint64_t at, struct error *reterr)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pread(r->fd, (uint8_t *)to + done, len - done, (off_t)(at + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_set(reterr, -errno, "%s: %s", r->path, strerror(errno));
		if (!n)
			return bad(r, reterr, "it was cut short");
		done += (size_t)n;
	}
	return 0;
}

static bool inside(const struct ring_header *h, uint64_t at, uint64_t count, uint64_t size)
{
	return at >= sizeof(*h) && !(at & 7) && at <= h->file_bytes && count <= UINT32_MAX &&
	       size <= UINT32_MAX && count * size <= h->file_bytes - at;
}

static void end_words(struct ring_header *h)
{
	h->boot_id[sizeof(h->boot_id) - 1] = h->host[sizeof(h->host) - 1] = '\0';
	h->job[sizeof(h->job) - 1] = h->program[sizeof(h->program) - 1] = '\0';
	h->off_text[sizeof(h->off_text) - 1] = h->left_text[sizeof(h->left_text) - 1] = '\0';
}

/* The header, whole if its writer lets us: what a dead one left half written is taken as it is. */
static int header_get(const struct ring_file *r, struct ring_header *ret, struct error *reterr)
{
	for (int i = 0; i < SEQ_TRIES; i++) {
		struct ring_header again;
		int status = get(r, ret, sizeof(*ret), 0, reterr);

		if (status >= 0)
			status = get(r, &again, sizeof(again), 0, reterr);
		if (status < 0)
			return status;
		if (!(ret->identity_seq & 1) && !(ret->clock_seq & 1) &&
		    ret->identity_seq == again.identity_seq && ret->clock_seq == again.clock_seq)
			break;
	}
	end_words(ret);
	return 0;
}

static int header_check(struct ring_file *r, const struct ring_header *h, struct error *reterr)
{
	struct stat st;

	if (memcmp(h->magic, RING_MAGIC, sizeof(h->magic)) != 0) {
		static const char zeros[sizeof(h->magic)];

		if (!memcmp(h->magic, zeros, sizeof(zeros)))
			return error_set(reterr, -EAGAIN, "%s: not yet complete", r->path);
		return bad(r, reterr, "no ring");
	}
	if (h->major != RING_MAJOR)
		return error_set(reterr, -ENOTSUP, "%s: a ring of version %u, this agent reads %u",
				 r->path, h->major, RING_MAJOR);
	if (fstat(r->fd, &st) < 0)
		return error_set(reterr, -errno, "%s: %s", r->path, strerror(errno));
	if (!h->file_bytes || h->file_bytes > RING_READ_BYTES ||
	    h->file_bytes > (uint64_t)st.st_size)
		return bad(r, reterr, "its size is not what its head says");
	if (!h->n_slots || h->n_slots > RING_READ_SLOTS ||
	    h->slot_bytes < sizeof(struct ring_slot) ||
	    !inside(h, h->slots_at, h->n_slots, h->slot_bytes))
		return bad(r, reterr, "its slots lie outside of it");
	if (h->n_pending > RING_READ_PENDING || h->pending_bytes < sizeof(struct ring_pending) ||
	    !inside(h, h->pending_at, h->n_pending, h->pending_bytes))
		return bad(r, reterr, "what is under way lies outside of it");
	if (!inside(h, h->names_at, h->names_bytes, 1) || h->n_names > RING_READ_NAMES)
		return bad(r, reterr, "its names lie outside of it");
	if (h->clock != RING_CLOCK_MONOTONIC && h->clock != RING_CLOCK_TSC)
		return bad(r, reterr, "a clock of a kind that does not exist");
	return 0;
}

static bool same_place(const struct ring_header *a, const struct ring_header *b)
{
	return a->file_bytes == b->file_bytes && a->n_slots == b->n_slots &&
	       a->slot_bytes == b->slot_bytes && a->slots_at == b->slots_at &&
	       a->pending_at == b->pending_at && a->n_pending == b->n_pending &&
	       a->pending_bytes == b->pending_bytes && a->names_at == b->names_at &&
	       a->names_bytes == b->names_bytes && a->clock == b->clock && a->pid == b->pid &&
	       a->start_time == b->start_time;
}

/* A table of the file, of rows that may be longer than ours. */
static int table_get(const struct ring_file *r, void *to, size_t size, uint64_t at, uint32_t n,
		     uint32_t stride, struct error *reterr)
{
	if (stride == size)
		return get(r, to, size * n, at, reterr);
	for (uint32_t i = 0; i < n; i++) {
		int status =
		    get(r, (uint8_t *)to + i * size, size, at + (uint64_t)i * stride, reterr);

		if (status < 0)
			return status;
	}
	return 0;
}

static int slots_check(const struct ring_file *r, struct error *reterr)
{
	for (uint32_t i = 0; i < r->h.n_slots; i++) {
		const struct ring_slot *s = &r->slots[i];

		if (!s->capacity && !s->head)
			continue;
		if (!s->capacity || (s->capacity & (s->capacity - 1)) ||
		    !inside(&r->h, s->at, s->capacity, sizeof(struct ring_record)))
			return bad(r, reterr, "the ring of a slot lies outside of it");
		if (s->head < r->cursor[i])
			return bad(r, reterr, "a head ran backwards");
	}
	return 0;
}

/* --- names --- */

static int names_get(struct ring_file *r, struct error *reterr)
{
	uint32_t n = r->h.n_names, used = MIN(r->h.names_used, r->h.names_bytes);
	size_t at = r->names.len;
	struct buf *b = &r->names;

	if (n == r->n_names)
		return 0;
	if (n < r->n_names || used < at)
		return bad(r, reterr, "names were taken back");
	if (used > at) {
		int status;

		buf_widen(b, used - at);
		status = get(r, b->data + at, used - at, r->h.names_at + at, reterr);
		if (status < 0)
			return status;
	}
	r->name_at = vec_reserve(r->name_at, &r->name_cap, n, sizeof(*r->name_at));
	while (r->n_names < n) {
		size_t len;

		if (used - at < 2)
			return bad(r, reterr, "there are more names than their bytes hold");
		len = b->data[at] | (size_t)b->data[at + 1] << 8;
		if (len > used - at - 2)
			return bad(r, reterr, "a name reaches beyond the names");
		r->name_at[r->n_names++] = (uint32_t)at;
		at += 2 + len;
	}
	b->len = at;
	return 0;
}

const char *ring_name(const struct ring_file *r, uint32_t id, size_t *ret_len)
{
	const uint8_t *p;
	const char *zero;

	*ret_len = 0;
	if (!id || id > r->n_names)
		return "";
	p = r->names.data + r->name_at[id - 1];
	*ret_len = MIN(p[0] | (size_t)p[1] << 8, (size_t)RING_NAME_MAX);
	zero = memchr(p + 2, '\0', *ret_len);
	if (zero)
		*ret_len = (size_t)(zero - (const char *)(p + 2));
	return (const char *)(p + 2);
}

/* --- time --- */

#if defined(__x86_64__)
static uint64_t tsc(void)
{
	return __builtin_ia32_rdtsc();
}
#else
static uint64_t tsc(void)
{
	return 0;
}
#endif

static uint64_t monotonic(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static bool rate_of(uint64_t ticks, uint64_t ns, double *ret)
{
	double rate = ticks ? (double)ns / (double)ticks : 0;

	if (ns > (uint64_t)1 << 56 || rate < TICK_NS_LEAST || rate > TICK_NS_MOST)
		return false;
	*ret = rate;
	return true;
}

/* How long a tick is: by the process's two pairs; before they lie apart, by our own clocks, which
   are the same ones on the same machine. */
static void rate_settle(struct ring_file *r)
{
	const struct ring_clock_pair *a = &r->h.first, *b = &r->h.last;
	uint64_t now = monotonic();

	if (r->h.clock == RING_CLOCK_MONOTONIC) {
		r->ns_a_tick = 1;
		r->rate_settled = true;
	} else if (b->ticks > a->ticks && b->monotonic_ns > a->monotonic_ns + RATE_APART_NS &&
		   rate_of(b->ticks - a->ticks, b->monotonic_ns - a->monotonic_ns, &r->ns_a_tick)) {
		r->rate_settled = true;
	} else if (!r->rate_settled && now > a->monotonic_ns + RATE_APART_NS / 10 &&
		   tsc() > a->ticks) {
		rate_of(tsc() - a->ticks, now - a->monotonic_ns, &r->ns_a_tick);
	}
}

int64_t ring_span(const struct ring_file *r, uint64_t ticks)
{
	double ns = (double)ticks * r->ns_a_tick;

	return ns < SPAN_LONGEST_NS ? (int64_t)ns : (int64_t)SPAN_LONGEST_NS;
}

/* Wraps as it may: an absurd time is left out by who takes it. */
static int64_t base_of(const struct ring_file *r)
{
	return (int64_t)(r->h.first.realtime_ns - r->h.first.monotonic_ns);
}

int64_t ring_time(const struct ring_file *r, uint64_t ticks)
{
	const struct ring_clock_pair *at = r->h.last.ticks ? &r->h.last : &r->h.first;
	int64_t away = (int64_t)(ticks - at->ticks);
	double ns = (double)away * r->ns_a_tick;

	if (ns > 9e18 || ns < -9e18)
		return INT64_MAX;
	return (int64_t)((uint64_t)base_of(r) + at->monotonic_ns + (uint64_t)(int64_t)ns);
}

int64_t ring_time_gpu(const struct ring_file *r, uint64_t realtime_ns)
{
	const struct ring_clock_pair *at = r->h.last.ticks ? &r->h.last : &r->h.first;
	uint64_t monotonic_ns = realtime_ns - (at->realtime_ns - at->monotonic_ns);

	return (int64_t)((uint64_t)base_of(r) + monotonic_ns);
}

/* --- the life of a reader --- */

struct ring_file *ring_free(struct ring_file *r)
{
	if (!r)
		return NULL;
	cleanup_close(&r->fd);
	free(r->path);
	free(r->slots);
	free(r->pending);
	free(r->name_at);
	buf_done(&r->names);
	free(r);
	return NULL;
}

int ring_refresh(struct ring_file *r, struct error *reterr)
{
	struct ring_header h;
	int status = header_get(r, &h, reterr);

	if (status >= 0)
		status = header_check(r, &h, reterr);
	if (status >= 0 && r->slots && !same_place(&h, &r->h))
		status = bad(r, reterr, "its head changed");
	if (status < 0)
		return status == -EAGAIN && r->slots ? bad(r, reterr, "its head was wiped")
						     : status;
	r->h = h;
	if (!r->slots) {
		r->slots = xcalloc(h.n_slots, sizeof(*r->slots));
		r->pending = xcalloc(h.n_pending + 1u, sizeof(*r->pending));
	}
	status =
	    table_get(r, r->slots, sizeof(*r->slots), h.slots_at, h.n_slots, h.slot_bytes, reterr);
	if (status >= 0)
		status = slots_check(r, reterr);
	if (status >= 0)
		status = table_get(r, r->pending, sizeof(*r->pending), h.pending_at, h.n_pending,
				   h.pending_bytes, reterr);
	if (status >= 0)
		status = names_get(r, reterr);
	rate_settle(r);
	return status;
}

int ring_open(int dir, const char *name, struct ring_file **ret, struct error *reterr)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return error_set(reterr, -errno, "%s: %s", name, strerror(errno));
	return ring_open_fd(fd, name, ret, reterr);
}

int ring_open_fd(int fd, const char *name, struct ring_file **ret, struct error *reterr)
{
	struct ring_file *r = xcalloc(1, sizeof(*r));
	struct stat st;
	int status = 0;

	r->path = xstrdup(name);
	r->ns_a_tick = 1.0 / 3; /* until it is known */
	r->fd = fd;
	if (fstat(r->fd, &st) < 0)
		status = error_set(reterr, -errno, "%s: %s", name, strerror(errno));
	else if (!S_ISREG(st.st_mode))
		status = bad(r, reterr, "no file");
	else if ((uint64_t)st.st_size < sizeof(struct ring_header))
		status = error_set(reterr, -EAGAIN, "%s: shorter than a head", name);
	if (status >= 0) {
		r->device = st.st_dev;
		r->inode = st.st_ino;
		status = ring_refresh(r, reterr);
	}
	if (status < 0) {
		ring_free(r);
		return status;
	}
	*ret = r;
	return 0;
}

/* --- records --- */

/* n units from `from` on, which may lie around the end of the ring. */
static int units_get(const struct ring_file *r, const struct ring_slot *s, uint64_t from, size_t n,
		     struct ring_record *to, struct error *reterr)
{
	uint64_t at = from & (s->capacity - 1);
	size_t first = MIN(n, (size_t)(s->capacity - at));
	int status = get(r, to, first * sizeof(*to), s->at + at * sizeof(*to), reterr);

	if (status >= 0 && first < n)
		status = get(r, to + first, (n - first) * sizeof(*to), s->at, reterr);
	return status;
}

/* The first unit that is certainly whole, of those copied before the head was `head`. */
static uint64_t whole_from(const struct ring_slot *s, uint64_t head)
{
	uint64_t spare = MIN((uint64_t)IN_FLIGHT, s->capacity / 2u);
	uint64_t kept = s->capacity - spare;

	return head > kept ? head - kept : 0;
}

/* What belongs to a collective comes right behind it, unless its process died in between. */
static int slot_read(struct ring_file *r, uint32_t i, struct ring_record *buffer, ring_take_fn take,
		     void *user, struct error *reterr)
{
	const struct ring_slot *s = &r->slots[i];
	const uint64_t head_at = r->h.slots_at + (uint64_t)i * r->h.slot_bytes;

	while (r->cursor[i] < s->head) {
		uint64_t from = MAX(r->cursor[i], whole_from(s, s->head)), head, whole;
		size_t n = (size_t)MIN((uint64_t)BATCH, s->head - from), skip;
		int status = units_get(r, s, from, n, buffer, reterr);

		if (status >= 0)
			status = get(r, &head, sizeof(head), head_at, reterr);
		if (status < 0)
			return status;
		if (head < s->head)
			return bad(r, reterr, "a head ran backwards");
		whole = whole_from(s, head);
		skip = whole > from ? (size_t)MIN(whole - from, (uint64_t)n) : 0;
		if (buffer[n - 1].kind == RING_COLL && !(r->dead && from + n == s->head)) {
			if (n == 1)
				return 0;
			n--;
		}
		skip = MIN(skip, n);
		r->overtaken += from - r->cursor[i] + skip;
		r->records += n - skip;
		r->cursor[i] = from + n;
		if (n > skip)
			take(user, i, buffer + skip, n - skip);
	}
	return 0;
}

int ring_read(struct ring_file *r, ring_take_fn take, void *user, struct error *reterr)
{
	static struct ring_record buffer[BATCH]; /* of the one thread that reads */
	int status = 0;

	for (uint32_t i = 0; i < r->h.n_slots && status >= 0; i++)
		if (r->slots[i].capacity)
			status = slot_read(r, i, buffer, take, user, reterr);
	return status;
}
