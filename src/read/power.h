/* SPDX-License-Identifier: Apache-2.0 */
/*
 * power.h - the formats of power and utilization: rows of witness.c.
 *
 * All give series of samples by host and GPU. Where the content names no host, the file's name or
 * its folder may ("gpu-h01.csv", "node3/nvidia-smi.txt"). A number that srun --label or a launcher
 * put in front of lines is no host: such GPUs stand under "task N".
 */
#pragma once
#include "read/gpu_metric.h"
#include "read/text_lines.h"
#include "read/witness.h"

bool power_csv_sniff(const char *text, size_t len, const char *path);
int power_csv_read(struct input *in, const char *path, struct testimony **ret,
		   struct read_stats *stats, struct error *reterr);
bool power_dmon_sniff(const char *text, size_t len, const char *path);
int power_dmon_read(struct input *in, const char *path, struct testimony **ret,
		    struct read_stats *stats, struct error *reterr);
/* nvidia-smi's and rocm-smi's tables, nvidia-smi -q, rocm-smi's "GPU[0] : ..". */
bool power_table_sniff(const char *text, size_t len, const char *path);
int power_table_read(struct input *in, const char *path, struct testimony **ret,
		     struct read_stats *stats, struct error *reterr);
bool prometheus_sniff(const char *text, size_t len, const char *path);
int prometheus_read(struct input *in, const char *path, struct testimony **ret,
		    struct read_stats *stats, struct error *reterr);
/* JSON: one document (rocm-smi --json) or one object a line. */
bool metric_lines_sniff(const char *text, size_t len, const char *path);
int metric_lines_read(struct input *in, const char *path, struct testimony **ret,
		      struct read_stats *stats, struct error *reterr);

/* --- what the formats share --- */

struct power_file {
	struct testimony *t;
	struct read_stats *stats;
	struct text_lines lines;
	uint32_t host;	   /* by the file's name; NO_ID */
	int64_t gpu;	   /* by the file's name ("gpu3.csv"); -1 */
	int64_t rank;	   /* by the file's name: of the only GPU in it */
	uint64_t readings; /* stored */
};
void power_file_begin(struct power_file *f, struct input *in, const char *path, const char *format,
		      struct read_stats *stats);
/* Stores a reading, with what the file's name says where the content does not. */
void power_file_store(struct power_file *f, struct gpu_reading *r);
/* Settles and hands over, or frees it if nothing was in it. */
int power_file_end(struct power_file *f, struct testimony **ret, struct error *reterr);

/* A host in a path's last two parts, or in the name of a folder of `lockstep collect`. */
bool power_host_of_path(const char *path, const char **ret, size_t *ret_len);
/* "gpu3.csv", "gpu_3.log": 3; -1 */
int64_t power_gpu_of_path(const char *path);

/*
 * What launchers put in front of lines: "h01: ", "3: ", "[h01] ", "[1,3]<stdout>: ". Its length
 * with the space; 0: none. ret_label: the label alone.
 */
size_t power_prefix(const char *p, size_t len, const char **ret_label, size_t *ret_label_len);
/* "==> h01 <==", "### node3", "host: a": a line that says whose the lines below it are. */
bool power_heading(const char *p, size_t len, const char **ret, size_t *ret_len);
/* The host a label names: itself, or "task N" for a number. */
uint32_t power_label_host(struct testimony *t, const char *label, size_t len);
