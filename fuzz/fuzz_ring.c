/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring file of any bytes, read by the agent twice: as it is, and after its first bytes have
 * become those at its end, as if it had been written meanwhile. Then the steps that were made of
 * it.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "agent/ring_rank.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW ((int64_t)1800000000 * 1000000000)

static void steps_take(struct rank_live *r)
{
	const struct intern *names;
	struct rank_info info;
	struct step step;
	size_t sum = 0;

	while (rank_next(r, &step, &names)) {
		for (uint32_t i = 0; i < step.n_kernels; i++)
			sum += intern_len(names, step.kernels[i].name);
		for (uint32_t i = 0; i < step.n_phases; i++)
			sum += intern_len(names, step.phases[i].name);
		fold_stream_head(r->fold, &info);
		for (uint32_t i = 0; i < step.n_comms; i++)
			if (step.comms[i].group >= info.n_groups)
				abort();
	}
	if (sum > SIZE_MAX / 2)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("ring", MFD_CLOEXEC);
	struct fold_scratch *scratch;
	struct ring_file *ring;
	struct rank_live *r;
	size_t tail = MIN(size / 3, sizeof(struct ring_header));

	if (fd < 0 || pwrite(fd, data, size, 0) != (ssize_t)size ||
	    ring_open_fd(dup(fd), "ring", &ring, NULL) < 0) {
		cleanup_close(&fd);
		return 0;
	}
	scratch = fold_scratch_new();
	r = rank_new(ring, scratch);
	if (rank_poll(r, NOW, false, NULL) >= 0)
		steps_take(r);
	/* Heads of slots move, or the file contradicts itself by now. */
	if (pwrite(fd, data + size - tail, tail, (off_t)ring->h.slots_at) == (ssize_t)tail &&
	    rank_poll(r, NOW + 1000000000, true, NULL) >= 0)
		steps_take(r);
	rank_free(r);
	fold_scratch_free(scratch);
	close(fd);
	return 0;
}
