/* SPDX-License-Identifier: Apache-2.0 */
/*
 * input.h - the bytes of one file, decompressed as they are read.
 *
 * Plain, gzip (several members too) and zstd are told from the first bytes. Memory is constant
 * whatever the file's size or ratio. A stream that breaks off or turns out damaged gives all that
 * could be decoded before it ends, and input_problem() says what happened.
 */
#pragma once
#include <sys/types.h>

#include "base/base.h"

struct input;

enum input_state {
	INPUT_GOOD,
	INPUT_TRUNCATED, /* the compressed stream ends in the middle */
	INPUT_DAMAGED,	 /* it cannot be decoded further, or its checksum is wrong */
	INPUT_BOMB,	 /* more text than any trace has */
};

/* Up to len bytes into buf: their number, 0 at the end, or a negative errno. */
typedef ssize_t (*input_source_fn)(void *user, void *buf, size_t len);

/* A regular file. Never blocks: what is no regular file is refused with -ENOTSUP. */
int input_open(const char *path, struct input **ret, struct error *reterr);
/* Bytes from elsewhere, a member of an archive for instance; user must outlive it. */
struct input *input_of_source(input_source_fn source, void *user);
struct input *input_free(struct input *in); /* NULL is fine; returns NULL */

/* The next bytes, decompressed: as many as fit unless the end is near; 0 at the end. */
ssize_t input_read(struct input *in, void *buf, size_t len);

/* The first raw bytes, before anything was read: up to len of them, their number or an error. */
ssize_t input_peek(struct input *in, void *buf, size_t len);

enum input_state input_state(const struct input *in);
const char *input_problem(const struct input *in); /* "" while the state is INPUT_GOOD */
bool input_compressed(const struct input *in);
uint64_t input_bytes_raw(const struct input *in);  /* as they lie in the file */
uint64_t input_bytes_text(const struct input *in); /* decompressed */
/* Raw bytes are added to *progress as they are read. */
void input_set_progress(struct input *in, _Atomic uint64_t *progress);
