/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_member.h - the members of a JSON object or array, one after the other, on text that
 * json_copy_value made sound. Damage ends the walk; it is never an error.
 */
#pragma once
#include "read/json_fast.h"

struct json_member {
	const char *key; /* NULL in an array */
	size_t key_len;
	const char *value, *end; /* end: behind it */
};

/* *p stands behind the bracket, or where the call before left it. False at the end. */
bool json_member_next(const char **p, const char *end, bool keyed, struct json_member *ret);
bool json_key_is(const struct json_member *m, const char *word);
bool json_is_scalar(const struct json_member *m);
/* The bare text of a string or a number, escapes left as they are; its length. */
size_t json_scalar(const struct json_member *m, const char **ret);
