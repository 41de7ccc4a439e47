/* SPDX-License-Identifier: Apache-2.0 */
/* sim_evidence.h - between the files that write what people have of a hang. */
#pragma once
#include "base/buf.h"
#include "sim/sim_hang.h"

/* The latest calls of a rank before the steps that hang: call n is at n % cap. */
struct sim_past {
	struct sim_call *v;
	uint64_t n;
};

/* When a step was, on rank 0. */
struct sim_ended {
	double begin, end;
	uint32_t number, run;
};

struct sim_evidence {
	struct sim_evidence_options o;
	uint32_t *ranks; /* dumped */
	size_t n_ranks;
	struct sim_past *past;	    /* [n_ranks] */
	uint32_t past_from;	    /* the first step whose calls are kept */
	VEC(struct sim_ended) ends; /* the steps of rank 0 */
	struct sim_hang *hang;
	bool crashed;
	const struct sim_fault *starts; /* with which the job never began; NULL */
	double spoke;			/* when the first watchdog does, ns; INFINITY: none */
	double last;			/* the latest moment that is written of */
};

#define SIM_PID(rank) (20000 + (rank))

/* sim_evidence.c */
bool sim_has_part(const struct sim_evidence *e, enum sim_part part);
bool sim_lives(const struct sim_evidence *e, uint32_t rank);
/* Its oldest pending call runs into the time-out at; INFINITY: never, or it is told before. */
double sim_times_out(const struct sim *s, uint32_t rank);
/* When it sees that another's watchdog spoke; INFINITY: it cannot. */
double sim_told(const struct sim *s, uint32_t rank);
bool sim_dumped(const struct sim *s, uint32_t rank);
/* The group's number as the job counts them, and the rank's own. */
uint32_t sim_group_name(const struct sim *s, uint32_t group, uint32_t rank);
uint32_t sim_group_id(const struct sim *s, uint32_t group, uint32_t rank);
uint32_t sim_group_size(const struct sim *s, uint32_t group);
uint32_t sim_local(const struct sim_evidence *e, uint32_t group, uint32_t rank);
uint32_t sim_member(const struct sim *s, uint32_t group, uint32_t rank, uint32_t i);
uint64_t sim_numel(const struct sim *s, const struct sim_call *c, bool out);
struct sim_status {
	int64_t enqueued, started, completed; /* -1: none */
};
struct sim_status sim_status_of(const struct sim *s, uint32_t rank, uint32_t group);
int sim_save(const struct sim *s, const char *name, const struct buf *b, struct error *reterr);
void sim_put(struct buf *b, const char *format, ...) PRINTF_LIKE(2, 3);
enum sim_stamp { STAMP_LOG, STAMP_SMI, STAMP_GLOG, STAMP_KERNEL, STAMP_SLURM, STAMP_ELASTIC };
/* "2026-01-01 00:00:12"; digits: of the fraction */
const char *sim_stamp(double t, enum sim_stamp style, int digits, char out[48]);

/* Of a job that never began: did the rank come to where they meet? */
bool sim_came(const struct sim_evidence *e, uint32_t rank);

/* sim_past.c */
void sim_past_begin(struct sim *s);

int sim_write_dumps(struct sim *s, struct error *reterr);
int sim_write_log(struct sim *s, struct error *reterr);
int sim_write_power(struct sim *s, struct error *reterr);
int sim_write_stacks(struct sim *s, struct error *reterr);
int sim_write_kernel_log(struct sim *s, struct error *reterr);
