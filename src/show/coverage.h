/* SPDX-License-Identifier: Apache-2.0 */
/* coverage.h - what of the job was given, as both text and JSON state it. */
#pragma once
#include "model/finding.h"

struct coverage {
	char *seen;    /* "0-7,unknown-1"; malloc'd */
	char *missing; /* NULL: the world's size is unknown; "": none */
	size_t n_seen, n_missing;
	double part; /* NAN: unknown */
};

struct coverage coverage_of(const struct job *job);
void coverage_done(struct coverage *c);
/* The name that people use for a host of the job's rank; NULL: unknown. */
const char *coverage_host(const struct job *job, uint32_t row);
