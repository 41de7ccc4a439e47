/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hang.h - from where ranks stand to who broke the lockstep: hangs and crashes.
 *
 * It adds to a report whose job may hold ranks of traces already, or nothing: afterwards its rows
 * are the ranks of both. Findings of slowness that are there stay, behind those of hangs.
 */
#pragma once
#include "model/finding.h"
#include "model/scene.h"

/* min_impact: the smallest slowdown that is a finding, of a job that stands still now and then. */
void judge_hang(const struct scene *scene, double min_impact, struct report *report);
