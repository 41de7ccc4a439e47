/* SPDX-License-Identifier: Apache-2.0 */
/*
 * door_words.h - what names mean that others gave to their ranges and operations.
 *
 * A name is compared by its letters alone, small: `Iteration 17`, `iteration_17` and `iteration`
 * are one word.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct word {
	uint8_t kind;	/* enum ring_phase */
	bool step;	/* a range of this name is a step */
	uint32_t stem;	/* hash of all but its digits */
	int64_t number; /* the only one that stands in it; -1: none, or several */
};

struct word word_of(const char *s, size_t len);
/* The operation that a function of NCCL's does (ncclAllReduce, AllReduce): enum lockstep_op. */
uint8_t word_of_collective(const char *s, size_t len);
