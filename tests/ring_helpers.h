/* SPDX-License-Identifier: Apache-2.0 */
/* ring_helpers.h - a ring's file as a test wants it: all of it, copied by pread. */
#pragma once
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "model/ring_layout.h"

struct ring {
	uint8_t *bytes;
	const struct ring_header *h;
	const struct ring_pending *pending;
};

static inline unsigned rings_in(const char *folder, char *ret_first, size_t size)
{
	DIR *d = opendir(folder);
	struct dirent *e;
	unsigned n = 0;

	while (d && (e = readdir(d)) != NULL) {
		if (!strstr(e->d_name, RING_SUFFIX))
			continue;
		/* the oldest has no number behind its start time */
		if (!n++ || strlen(e->d_name) < strlen(ret_first + strlen(folder) + 1))
			snprintf(ret_first, size, "%s/%s", folder, e->d_name);
	}
	if (d)
		closedir(d);
	return n;
}

static inline struct ring ring_load(const char *path)
{
	struct ring r = { 0 };
	struct stat st;
	int fd = open(path, O_RDONLY);

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	r.bytes = malloc((size_t)st.st_size);
	assert_int_equal(pread(fd, r.bytes, (size_t)st.st_size, 0), st.st_size);
	close(fd);
	r.h = (const struct ring_header *)r.bytes;
	assert_memory_equal(r.h->magic, RING_MAGIC, 8);
	assert_int_equal(r.h->major, RING_MAJOR);
	assert_int_equal(r.h->file_bytes, st.st_size);
	assert_int_equal(r.h->header_bytes, sizeof(struct ring_header));
	r.pending = (const struct ring_pending *)(r.bytes + r.h->pending_at);
	return r;
}

static inline const struct ring_slot *ring_slot(const struct ring *r, unsigned i)
{
	return (const struct ring_slot *)(r->bytes + r->h->slots_at) + i;
}

static inline const struct ring_record *ring_record(const struct ring *r, unsigned slot, uint64_t n)
{
	const struct ring_slot *s = ring_slot(r, slot);

	assert_true(n < s->head);
	return (const struct ring_record *)(r->bytes + s->at) + (n & (s->capacity - 1));
}

/* Units that all threads have written. */
static inline uint64_t ring_units(const struct ring *r)
{
	uint64_t n = 0;

	for (unsigned i = 1; i < r->h->n_slots; i++)
		n += ring_slot(r, i)->head;
	return n;
}

static inline void ring_name(const struct ring *r, uint32_t id, char *out, size_t size)
{
	const uint8_t *p = r->bytes + r->h->names_at;
	size_t len;

	assert_true(id >= 1 && id <= r->h->n_names);
	while (--id)
		p += 2 + (p[0] | p[1] << 8);
	len = (size_t)(p[0] | p[1] << 8);
	assert_true(len < size);
	memcpy(out, p + 2, len);
	out[len] = 0;
}
