/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_value.h - dicts, lists, strings and numbers as a pickle or as JSON.
 *
 * The pickle is written as torch::jit's Pickler does: protocol 2, strings memoised by value,
 * containers empty first and then filled between MARK and SETITEMS or APPENDS, even with nothing.
 */
#pragma once
#include "base/buf.h"
#include "base/intern.h"

struct sim_value {
	struct buf b;
	bool json;
	bool more;	    /* JSON: a comma stands before the next */
	struct intern memo; /* of the pickle's strings */
};

void sim_value_begin(struct sim_value *v, bool json);
void sim_value_end(struct sim_value *v);
void sim_value_done(struct sim_value *v);

void sim_open(struct sim_value *v, char kind); /* '{', '[' or '(': a tuple of two */
void sim_close(struct sim_value *v, char kind);
void sim_key(struct sim_value *v, const char *key);
void sim_text(struct sim_value *v, const char *text);
void sim_whole(struct sim_value *v, int64_t n);
void sim_real(struct sim_value *v, double x);
void sim_bool(struct sim_value *v, bool b);
void sim_none(struct sim_value *v); /* JSON of the recorder has 0 for it */
