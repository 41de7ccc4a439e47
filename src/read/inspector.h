/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inspector.h - NCCL Inspector's JSON, an object for each operation that was completed.
 *
 * A hung operation never appears in it: the last sequence number of each kind is what can be
 * compared between ranks.
 */
#pragma once
#include "read/witness.h"

bool inspector_sniff(const char *text, size_t len, const char *path);
int inspector_read(struct input *in, const char *path, struct testimony **ret,
		   struct read_stats *stats, struct error *reterr);
