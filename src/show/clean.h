/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clean.h - names from outside, made safe to print.
 *
 * Names in traces hold whatever a program put there: control characters, escape sequences, bytes
 * that are no UTF-8. None of it may reach a terminal, and JSON must be UTF-8.
 */
#pragma once
#include "base/base.h"

/* For JSON: each byte that is no part of UTF-8 becomes U+FFFD. malloc'd. */
char *clean_utf8(const char *s);
/* For a terminal: besides, controls (C0, DEL, C1) and marks that reorder text become '?'. */
char *clean_text(const char *s);
/* The length of the UTF-8 sequence at s, 0 if there is none; *ret_code is its code point. */
size_t clean_sequence(const char *s, uint32_t *ret_code);
size_t clean_columns(const char *s); /* code points; close enough to columns */
