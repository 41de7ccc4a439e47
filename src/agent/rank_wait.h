/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rank_wait.h - when the threads of a CPU job waited for a collective.
 *
 * A ring has no operators, so what a phase covers counts as computed. Two things in it are not: a
 * collective that the thread itself ended was waited for, but for the phases inside of it; and a
 * backward pass whose collectives end elsewhere waits at its end, from when the last of them was
 * begun. A process that tells its waits itself, as phases of the name below, waited for no other
 * collective than in those, and at the end of such passes.
 */
#pragma once
#include "agent/ring_rank.h"

#define RANK_WAIT_NAME "c10d::wait"

void rank_wait_note(struct rank_live *r, const struct rank_span *span);
/* Gives the fold the waits of what was noted before the last reading; all: of everything. */
void rank_wait_settle(struct rank_live *r, int64_t now, bool all);
/* The begin of the first span whose waits are not yet given; INT64_MAX: none. */
int64_t rank_wait_until(const struct rank_live *r);
