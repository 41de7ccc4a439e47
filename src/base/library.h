/* SPDX-License-Identifier: Apache-2.0 */
/* library.h - a library for rare inputs, loaded when the first of them is met. */
#pragma once
#include "base/base.h"

struct library_symbol {
	const char *name;
	void *slot; /* of a pointer to a function */
};
/* Loads file and fills the slots of n symbols. False: *why says why not, `missing` if it is not
   installed. */
bool library_load(const char *file, const char *missing, const struct library_symbol *symbols,
		  size_t n, char why[256]);
