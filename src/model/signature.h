/* SPDX-License-Identifier: Apache-2.0 */
/* signature.h - did two ranks call the same operation? What each kind allows to differ. */
#pragma once
#include "model/testimony.h"

/* Did a rank's operation follow what it used to follow? */
enum habit { HABIT_UNKNOWN, HABIT_KEPT, HABIT_BROKEN };

enum mismatch {
	MISMATCH_NONE,	    /* the same, or what differs may differ */
	MISMATCH_OPERATION, /* all_reduce against reduce_scatter */
	MISMATCH_SIZE,
	MISMATCH_DTYPE,
};
const char *mismatch_name(enum mismatch m); /* "operation", "size", "dtype" */

/*
 * Names of both are in `names`. Sizes count where the kind demands equal ones: what goes into an
 * all_reduce, reduce, all_gather or gather; what comes out of a reduce_scatter, scatter or
 * broadcast. An all_gather (reduce_scatter) of uneven parts is one if all know the same parts: its
 * outputs (inputs) are the same. In an all_to_all any sizes may differ; its pairs are compared by
 * whoever has all members. Sizes that are not known differ from nothing.
 */
enum mismatch signature_compare(const struct intern *names, const struct signature *a,
				const struct signature *b);
/* "all_reduce of 11,120 Float", "barrier", "send to 2"; into buf. */
const char *signature_words(const struct intern *names, const struct signature *s, char *buf,
			    size_t size);
