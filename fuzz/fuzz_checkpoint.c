/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A checkpoint of any bytes: the first byte says as what it is read. A zip's checksums are seldom
 * met, so its pickle is also looked into by itself.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "read/checkpoint_inside.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void see_storage(void *user, struct pickle_text key, struct pickle_text class, int64_t n)
{
	*(uint64_t *)user += key.len + class.len + (uint64_t)n;
}

static void see_text(void *user, struct pickle_text text)
{
	*(uint64_t *)user += text.len ? (uint8_t)text.p[text.len - 1] : 0;
}

static void see_pair(void *user, struct pickle_text key, const int64_t *number, bool outermost)
{
	*(uint64_t *)user += key.len + (number ? (uint64_t)*number : 0) + outermost;
}

static void see_item(void *user, struct pickle_text file, int64_t at, int64_t len, bool altered)
{
	*(uint64_t *)user += file.len + (uint64_t)at + (uint64_t)len + altered;
}

static void try_pickle(const uint8_t *data, size_t size)
{
	uint64_t sum = 0;
	struct pickle_watch watch = { &sum, see_storage, see_text, see_pair, see_item };
	struct error e;
	size_t used = 0;

	if (!pickle_look(data, size, &watch, &used, &e) && used > size)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const checkpoint_file_fn checks[] = { checkpoint_torch, checkpoint_safetensors,
						     checkpoint_json };
	struct checkpoint_look l = { .whole = true, .facts = { .step = -1 } };
	struct stretch s = { .len = size ? size - 1 : 0 };
	static int fd = -1;

	if (!size)
		return 0;
	if (data[0] % 4 == 3) {
		try_pickle(data + 1, size - 1);
		return 0;
	}
	if (fd < 0)
		fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (ftruncate(fd, 0) < 0 || pwrite(fd, data + 1, size - 1, 0) != (ssize_t)(size - 1))
		return 0;
	s.fd = fd;
	checks[data[0] % 4](&l, &s);
	return 0;
}
