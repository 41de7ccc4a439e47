/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ras.h - what NCCL's RAS says of a job's communicators: `ncclras` as JSON or text, and its
 * monitor.
 *
 * The counts are of launches. A rank that RAS could not hear is named with all that is known of it.
 */
#pragma once
#include "read/witness.h"

bool ras_json_sniff(const char *text, size_t len, const char *path);
int ras_json_read(struct input *in, const char *path, struct testimony **ret,
		  struct read_stats *stats, struct error *reterr);
bool ras_text_sniff(const char *text, size_t len, const char *path);
int ras_text_read(struct input *in, const char *path, struct testimony **ret,
		  struct read_stats *stats, struct error *reterr);
