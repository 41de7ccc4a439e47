/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_shards.c - any bytes as a shard and as a counts file: counted within bounds, or refused with
 * a line. The first byte says whether lengths are looked for and what the file is called.
 */
#include "fuzz_source.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "read/shard_inside.h"

static void counts(const char *text, size_t len)
{
	struct count_cells c = { .world = -1 };
	struct error e = { 0 };
	char *copy = xmalloc(len + 1);

	memcpy(copy, text, len);
	copy[len] = 0;
	if (counts_parse("counts", copy, len, &c, &e) < 0)
		fuzz_check(e.text[0] != 0);
	else
		fuzz_check(c.v.n > 0);
	for (size_t i = 0; i < c.v.n; i++) {
		fuzz_check(c.v.v[i].value >= 0 && c.v.v[i].field < COUNT_FIELDS);
		fuzz_check(c.v.v[i].rank >= 0 && c.v.v[i].rank < COUNT_RANKS_MOST);
	}
	free(c.v.v);
	free(copy);
}

static void blocks(const char *path, const struct block_options *o)
{
	struct block_counts c;
	struct error e = { 0 };
	int64_t last = -1;

	if (block_counts_read(&path, 1, o, &c, &e) < 0) {
		fuzz_check(e.text[0] != 0);
		return;
	}
	for (size_t i = 0; i < c.ranks.n; i++) {
		fuzz_check(c.ranks.v[i].rank > last && c.ranks.v[i].blocks >= 0);
		last = c.ranks.v[i].rank;
	}
	fuzz_check(c.unit[0] != 0 || !c.ranks.n);
	block_counts_done(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	char path[64];
	struct block_options o = { 0 };
	struct shard s;
	struct error e = { 0 };
	uint8_t how;

	if (!size)
		return 0;
	how = *data++;
	size--;
	if (fd < 0)
		fd = memfd_create("shard", 0);
	fuzz_check(fd >= 0 && !ftruncate(fd, 0) && pwrite(fd, data, size, 0) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (shard_count_by(path, how & 1 ? "input_ids" : NULL, &s, &e) < 0)
		fuzz_check(e.text[0] != 0);
	else
		fuzz_check(s.kind < SHARD_KINDS && s.records >= -1 && s.tokens >= -1);
	counts((const char *)data, size);
	o.length_field = how & 1 ? "input_ids" : NULL;
	o.sequence_length = how & 2 ? 16 : 0;
	o.world_size = how & 4 ? 3 : 0;
	o.partial = how & 8;
	o.ranks_here = how & 16 ? 1 : 0;
	blocks(path, &o);
	return 0;
}
