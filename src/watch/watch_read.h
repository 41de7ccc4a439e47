/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_read.h - what the sources of a watcher say, made into sights.
 *
 * Text in pieces goes through the same readers that `lockstep diagnose` uses; here is only what
 * those do not need: a scheduler's word, counters of steps in Prometheus text, losses that are no
 * numbers. Nothing is kept between pieces.
 */
#pragma once
#include "base/buf.h"
#include "watch/watch_core.h"

struct watch_piece {
	const char *text;
	size_t len;
	const char *path;  /* as the readers want it: it may tell host and rank */
	int64_t before_ms; /* when the source was read the last time: nothing in it is older .. */
	int64_t at_ms;	   /* .. nor younger than this */
	bool history;	   /* it may be of any age */
	uint64_t *skipped; /* counts lines too long, and the like; NULL */
};

/* Lines of a job, its launcher, the scheduler. How many steps, saves, .. it told. */
size_t watch_read_log(struct watch *w, uint32_t source, const struct watch_piece *p);
/* Power and utilization in any format that is known. How many samples; -1: no format of ours. */
int64_t watch_read_gpus(struct watch *w, uint32_t source, const struct watch_piece *p);
/* Prometheus text of an agent or exporter: GPUs and steps. How many numbers were taken. */
size_t watch_read_metrics(struct watch *w, uint32_t source, const struct watch_piece *p);
/* The scheduler's word for a job, of squeue, sacct, scontrol, kubectl: the first one known. */
enum watch_job_state watch_job_of(const char *text, size_t len, char *ret_word, size_t size);
bool watch_read_job(struct watch *w, uint32_t source, const struct watch_piece *p);
/* Losses: *ret_bad of them in a row were no numbers at the end; false: the text has none. */
bool watch_loss_of(const char *text, size_t len, int64_t *ret_bad, bool *ret_good_before);
