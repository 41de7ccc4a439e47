/* SPDX-License-Identifier: Apache-2.0 */
/* power_inside.h - the state of one printer's tables, shared by power_table.c and power_query.c. */
#pragma once
#include "read/gpu_pending.h"

enum table_kind { TABLE_NONE, TABLE_GPUS, TABLE_PROCESSES, TABLE_QUERY, TABLE_XML };

struct table_state {
	uint32_t host;
	enum table_kind kind;
	int64_t time_ns; /* of the table */
	bool open;	 /* reading holds a GPU that is not stored yet */
	struct gpu_reading reading;
	int64_t next_index; /* nvidia-smi -q does not number its GPUs: their order does */
	int64_t processes;  /* of the GPU in reading; -1 */
	uint32_t section;   /* nvidia-smi -q: a row of its table of sections + 1 */
	int indent;	    /* of the section's line */
};

struct power_table {
	struct testimony *t;
	struct gpu_pending pending;
	VEC(struct table_state) states;
	size_t last; /* the state used last */
	uint64_t readings, bad;
};

void table_close(struct power_table *p, struct table_state *s); /* stores s->reading */
/* A line of nvidia-smi -q; false: none. */
bool query_line(struct power_table *p, struct table_state *s, const char *line, size_t len);
