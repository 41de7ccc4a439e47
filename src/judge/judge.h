/* SPDX-License-Identifier: Apache-2.0 */
/*
 * judge.h - from steps, one number at a time with all ranks that have it, to findings.
 *
 * Streaming: memory is O(ranks x phases) plus a short history of a few numbers a rank and step; a
 * raw span is never seen. The same steps give the same findings whether they come from traces, .lks
 * or live.
 */
#pragma once
#include "model/finding.h"

struct judge_options {
	double min_impact; /* 0.05: the smallest slowdown that is a finding */
};
struct judge;
/* Numbers rise from call to call; one that does not is the first step of another run: the job was
   started again. */
struct judge *judge_new(struct job *job, const struct judge_options *options);
int judge_step(struct judge *j, uint64_t number, struct step *const *steps);
/* Fills verdict, assumed, ranks, findings, step times. */
int judge_finish(struct judge *j, struct report *report);
struct judge *judge_free(struct judge *j);
