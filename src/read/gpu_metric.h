/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_metric.h - what tools call power, utilization and the rest, and the values they write.
 *
 * One table of names serves all formats (CSV headers, dmon columns, Prometheus metrics, JSON keys).
 * Names are compared by their letters and digits alone, so that "power.draw", "power_draw" and
 * "Power Draw" are one. A value that is no value ("[N/A]", DCGM's blank sentinels, what no board
 * can do) leaves its field unknown, never 0.
 */
#pragma once
#include "model/testimony.h"

enum gpu_metric {
	GPU_NONE,
	/* of a sample */
	GPU_POWER,
	GPU_LIMIT,
	GPU_UTILIZATION,
	GPU_MEMORY_UTIL,
	GPU_MEMORY_USED,
	GPU_SM_CLOCK,
	GPU_TEMPERATURE,
	GPU_TENSOR_ACTIVE,
	GPU_SM_ACTIVE,
	GPU_SAMPLE_METRICS, /* those before it are numbers of struct gpu_sample */
	/* of the GPU */
	GPU_INDEX = GPU_SAMPLE_METRICS,
	GPU_UUID,
	GPU_BUS_ID,
	GPU_MODEL,
	GPU_HOST,
	GPU_RANK,
	GPU_TIME,
	GPU_DATE, /* a day apart from its time of day */
	GPU_XID,
	GPU_THROTTLE,	     /* a bit mask, or words */
	GPU_THROTTLE_REASON, /* one reason by its own column: active or not */
	GPU_PROCESSES,
	GPU_METRICS
};

enum gpu_unit {
	UNIT_NONE,
	UNIT_W,
	UNIT_MILLIWATT,
	UNIT_PERCENT,
	UNIT_RATIO,
	UNIT_MIB,
	UNIT_BYTES,
	UNIT_MHZ,
	UNIT_CELSIUS,
};

struct gpu_metric_name {
	const char *name; /* letters and digits, lower case */
	enum gpu_metric metric;
	enum gpu_unit unit; /* if the value has none */
	uint8_t weight;	    /* of two names for the same metric the heavier one counts */
};

/* The row of a name as a tool writes it, "power.draw [W]" with its unit; NULL: none of ours.
   ret_unit (may be NULL): the row's unit, or the one that the name states. */
const struct gpu_metric_name *gpu_metric_find(const char *name, size_t len,
					      enum gpu_unit *ret_unit);
/* The same for a name with the GPU's number in it: "system.gpu.3.powerWatts", "gpu_usage:3". */
const struct gpu_metric_name *gpu_metric_find_indexed(const char *name, size_t len,
						      int64_t *ret_gpu, enum gpu_unit *ret_unit);
enum gpu_unit gpu_unit_of(const char *text, size_t len); /* UNIT_NONE if it is none */
/* A number and what stands behind it; false: no value is there. */
bool gpu_number(const char *p, size_t len, double *ret, enum gpu_unit *ret_unit);

/* What one row or scrape says of one GPU, until it is stored. */
struct gpu_reading {
	struct gpu_sample sample;
	uint8_t weight[GPU_SAMPLE_METRICS];
	uint32_t host, uuid, bus_id, model, throttle;
	int64_t index, rank, xid, processes;
	bool any; /* something is known */
};
struct gpu_reading gpu_reading_unknown(void);
/* Takes a value; false if it is none. */
bool gpu_reading_number(struct gpu_reading *r, const struct gpu_metric_name *name, double v,
			enum gpu_unit unit);
/* Takes a cell's text, whatever the metric. Bad numbers are counted in *bad. */
void gpu_reading_text(struct gpu_reading *r, struct testimony *t,
		      const struct gpu_metric_name *name, enum gpu_unit unit, const char *p,
		      size_t len, uint64_t *bad);
/* Adds it to its GPU's series: false if it says nothing. */
bool gpu_reading_store(const struct gpu_reading *r, struct testimony *t);

/*
 * Once all is read: ratios of the profiling counters that stand at 0 for good on a board that draws
 * power are taken out, and utilizations written as shares where percents are usual are scaled.
 */
void gpu_series_settle(struct testimony *t);

/* A model's name, a uuid, .. without quotes and bounded; NO_ID and counted if it would be one name
   too many. */
#define GPU_NAMES_MAX (8u * TESTIMONY_GPUS_MAX)
uint32_t gpu_text(struct testimony *t, const char *p, size_t len);
