/* SPDX-License-Identifier: Apache-2.0 */
/*
 * counters.h - counters of network ports: copies of /sys, listings of it, perfquery, ibstat,
 * ethtool.
 *
 * A counter is known by host, port ("mlx5_0/1", "eth0") and name; read twice, it shows what grows.
 */
#pragma once
#include "read/witness.h"

bool counters_sniff(const char *text, size_t len, const char *path);
int counters_read(struct input *in, const char *path, struct testimony **ret,
		  struct read_stats *stats, struct error *reterr);

/* Is a counter's name one of trouble (errors, discards, waits), not of plain traffic? */
bool counter_means_trouble(const char *name, size_t len);
