/* SPDX-License-Identifier: Apache-2.0 */
/*
 * power_table.h - tables for people, a line at a time: as files, and as they stand inside logs.
 *
 * Known are nvidia-smi's table, nvidia-smi -q (text and XML), rocm-smi's concise table and its
 * lines "GPU[0] : name: value". Lines of several hosts may be mixed: state is kept by host.
 */
#pragma once
#include "model/testimony.h"

struct power_table;
struct power_table *power_table_new(struct testimony *t);
/*
 * Takes a line without its prefix and colours; false: it is of no table. host: who printed it, or
 * what tells the lines of different printers apart; NO_ID. time_ns: of the line; -1: the table's
 * own date, if it has one.
 */
bool power_table_line(struct power_table *p, const char *line, size_t len, uint32_t host,
		      int64_t time_ns);
uint64_t power_table_readings(const struct power_table *p);
/* Stores what was begun; gpu_series_settle is the caller's. NULL is fine; returns NULL. */
struct power_table *power_table_free(struct power_table *p);
