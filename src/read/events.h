/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.h - what the monitoring said: JSON lines of time, host and text (--events FILE), and logs
 * that are JSON lines (journalctl -o json, structured loggers).
 *
 * Each object becomes a line of text with its time, host and rank in front, and the log reader
 * reads those lines: so a kernel's or a scheduler's words mean the same wherever they stand.
 */
#pragma once
#include "read/witness.h"

bool events_sniff(const char *text, size_t len, const char *path);
int events_read(struct input *in, const char *path, struct testimony **ret,
		struct read_stats *stats, struct error *reterr);
