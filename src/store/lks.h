/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lks.h - step records on disk: the .lks segment.
 *
 * "LKSTEP1\n", u16 major, u16 minor; blocks {u32 length <= 1 MiB, u8 type, u8 flags, u16 0, u32
 * crc32c of the payload}; little-endian, varints; strings before their use; a step block holds many
 * ranks of one step, in step order. Unknown block types and trailing fields are skipped; a torn
 * tail is cut and said.
 */
#pragma once
#include "model/job.h"
#include "model/rank_standing.h"

struct lks_writer;
int lks_create(const char *path, const struct job *job, struct lks_writer **ret,
	       struct error *reterr);
int lks_write_step(struct lks_writer *w, uint64_t number, struct step *const *steps,
		   struct error *reterr);
int lks_close(struct lks_writer *w, struct error *reterr); /* also frees */
/*
 * A segment that is written while its job runs: rows of the job may be added (each told by
 * lks_write_rank before its first step, and again when its head has changed), and what was written
 * is in the file after lks_flush, in whole blocks.
 */
int lks_write_rank(struct lks_writer *w, uint32_t row, struct error *reterr);
int lks_write_standing(struct lks_writer *w, const struct rank_standing *s, struct error *reterr);
int lks_flush(struct lks_writer *w, struct error *reterr);
uint64_t lks_written(const struct lks_writer *w); /* bytes, with what is not yet flushed */

/* Incremental reader: feed it bytes as they come. It gives rank heads, then steps, with names in
 * *names. */
struct lks_client {
	void *user;
	struct intern *names;
	/* row: of the file */
	int (*rank)(void *user, uint64_t row, const struct rank_info *info);
	int (*step)(void *user, const struct rank_info *info, const struct step *step);
	/* May be NULL. Of a rank whose head came before; a later one replaces an earlier one. */
	int (*standing)(void *user, const struct rank_info *info, const struct rank_standing *s);
	/* If set, records come as their bytes, in place of steps: see lks_decode. */
	int (*record)(void *user, uint64_t number, const uint8_t *bytes, size_t len);
};
struct lks_reader;
struct lks_reader *lks_reader_new(const struct lks_client *client);
int lks_reader_feed(struct lks_reader *r, const void *bytes, size_t len, struct error *reterr);
/* A record that came as its bytes. -EBADMSG: it is none, or of a rank that has no head. */
int lks_decode(const struct lks_reader *r, uint64_t number, struct span record, struct arena *arena,
	       struct step *ret);
/* The end of the file: how many bytes of a torn tail were cut, and blocks with a bad checksum. */
int lks_reader_end(struct lks_reader *r, uint64_t *ret_torn, uint64_t *ret_bad,
		   struct error *reterr);
struct lks_reader *lks_reader_free(struct lks_reader *r);
