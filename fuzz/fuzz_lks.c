/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A segment of any bytes: first as it comes, then with its checksums made right, since otherwise
 * hardly an input would get past them.
 */
#include <isa-l.h>

#include "store/lks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int take_rank(void *user, uint64_t row, const struct rank_info *info)
{
	struct intern *names = user;

	(void)row;
	return intern_len(names, info->host) > SIZE_MAX / 2;
}

static int take_step(void *user, const struct rank_info *info, const struct step *step)
{
	struct intern *names = user;
	size_t sum = 0;

	for (uint32_t i = 0; i < step->n_kernels; i++)
		sum += intern_len(names, step->kernels[i].name);
	for (uint32_t i = 0; i < step->n_comms; i++)
		if (step->comms[i].group >= info->n_groups)
			abort();
	return sum > SIZE_MAX / 2;
}

static int take_standing(void *user, const struct rank_info *info, const struct rank_standing *s)
{
	struct intern *names = user;
	size_t sum = intern_len(names, info->host);

	for (uint32_t i = 0; i < s->n_open; i++)
		sum += intern_len(names, s->open[i].name);
	for (uint32_t i = 0; i < s->n_pending; i++)
		sum += intern_len(names, s->pending[i].group);
	return sum > SIZE_MAX / 2;
}

static void try_bytes(const uint8_t *data, size_t size, size_t chunk)
{
	struct intern names = { 0 };
	struct lks_client client = { &names, &names, take_rank, take_step, take_standing, NULL };
	struct lks_reader *r = lks_reader_new(&client);
	uint64_t torn, bad;
	int status = 0;

	for (size_t at = 0; at < size && status >= 0; at += chunk)
		status = lks_reader_feed(r, data + at, MIN(chunk, size - at), NULL);
	if (status >= 0)
		lks_reader_end(r, &torn, &bad, NULL);
	lks_reader_free(r);
	intern_done(&names);
}

static void make_right(uint8_t *bytes, size_t size)
{
	memcpy(bytes, "LKSTEP1\n\1\0\0\0", 12);
	for (size_t at = 12; at + 12 <= size;) {
		uint32_t len, crc;

		memcpy(&len, bytes + at, 4);
		len %= 4096;
		len = (uint32_t)MIN((size_t)len, size - at - 12);
		memcpy(bytes + at, &len, 4);
		bytes[at + 4] %= 5;
		bytes[at + 6] = bytes[at + 7] = 0;
		crc = ~crc32_iscsi(bytes + at + 12, (int)len, ~0u);
		memcpy(bytes + at + 8, &crc, 4);
		at += 12 + len;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	try_bytes(data, size, 17);
	if (size < 24)
		return 0;
	copy = xmalloc(size);
	memcpy(copy, data, size);
	make_right(copy, size);
	try_bytes(copy, size, 4096);
	free(copy);
	return 0;
}
