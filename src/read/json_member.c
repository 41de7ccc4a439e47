/* SPDX-License-Identifier: Apache-2.0 */
/* json_member.c - a walk over the members of sound JSON. */
#include "read/json_member.h"

bool json_member_next(const char **p, const char *end, bool keyed, struct json_member *ret)
{
	const char *at = json_skip_space(*p, end);
	bool plain;

	if (at < end && *at == ',')
		at = json_skip_space(at + 1, end);
	*ret = (struct json_member){ 0 };
	if (keyed) {
		if (at >= end || *at != '"')
			return false;
		ret->key = at + 1;
		at = json_string_end(ret->key, end, &plain);
		if (!at)
			return false;
		ret->key_len = (size_t)(at - ret->key);
		at = json_skip_space(at + 1, end);
		if (*at != ':')
			return false;
		at = json_skip_space(at + 1, end);
	}
	if (at >= end || *at == ']' || *at == '}')
		return false;
	ret->value = at;
	at = json_skip_value(at, end);
	if (!at)
		return false;
	*p = ret->end = at;
	return true;
}

bool json_key_is(const struct json_member *m, const char *word)
{
	return m->key_len == strlen(word) && !memcmp(m->key, word, m->key_len);
}

bool json_is_scalar(const struct json_member *m)
{
	return *m->value != '{' && *m->value != '[';
}

size_t json_scalar(const struct json_member *m, const char **ret)
{
	const char *p = m->value, *end = m->end;

	if (*p == '"' && end - p >= 2) {
		p++;
		end--;
	}
	while (p < end && (unsigned char)*p <= ' ')
		p++;
	while (end > p && (unsigned char)end[-1] <= ' ')
		end--;
	*ret = p;
	return (size_t)(end - p);
}
