/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_restart.h - a job that fails and is started again: "at=40 from=30 down=90".
 *
 * The k-th restart ends the k-th run when it comes to step `at`; the next run takes up at step
 * `from`, which a save has kept. Steps in between are done twice, on the same data.
 */
#pragma once
#include "base/base.h"

struct sim_restart {
	int64_t at;    /* the step that is never ended; those before it are done */
	int64_t from;  /* the step with which the job goes on */
	double down_s; /* from the last step's end until it does */
	bool anew;     /* steps count from 0 again */
	int64_t *late; /* ranks whose recording begins later than the others', ascending .. */
	size_t n_late;
	int64_t after; /* .. by so many steps */
};
struct sim_restarts {
	struct sim_restart *v; /* malloc'd, in the order in which they come */
	size_t n;
};

/* Adds one. -EINVAL with a detail that names the word that is wrong. */
int sim_restart_parse(struct sim_restarts *restarts, const char *text, struct error *reterr);
/* Do they fit a job of so many steps and ranks? */
int sim_restarts_check(const struct sim_restarts *restarts, uint32_t steps, int64_t world,
		       struct error *reterr);
void sim_restarts_done(struct sim_restarts *restarts);
