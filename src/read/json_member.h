/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_member.h - the members of a JSON object or array, one after the other, on text that
 * json_copy_value made sound. Damage ends the walk; it is never an error.
 */
#pragma once
#include "model/event.h"
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

/*
 * The values of a text of JSON lines, or of documents one after the other. In lines each value ends
 * with its line, so that damage costs one line; text around values (commas, brackets) is passed.
 */
struct json_values {
	struct json_window w;
	struct buf copy;
	size_t max_bytes; /* of one value */
	bool lines;	  /* the text was seen to be lines */
	uint64_t n;	  /* values given */
	uint64_t skipped[SKIP_REASONS];
};
void json_values_init(struct json_values *v, struct input *in, size_t max_bytes);
void json_values_done(struct json_values *v);
/* The next object or array; JSON_PAD zeros lie behind *ret_end. False at the end. */
bool json_values_next(struct json_values *v, const char **ret, const char **ret_end);
