/* SPDX-License-Identifier: Apache-2.0 */
/* clean.c - a strict UTF-8 decoder, and what is put in place of what it refuses. */
#include "show/clean.h"
#include "base/buf.h"

size_t clean_sequence(const char *s, uint32_t *ret_code)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *p = (const unsigned char *)s;
	uint32_t code;
	size_t len;

	if (p[0] < 0x80) {
		*ret_code = p[0];
		return p[0] ? 1 : 0;
	}
	len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	code = p[0] & (0x7fu >> len);
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80) /* also where the string ends */
			return 0;
		code = code << 6 | (p[i] & 0x3f);
	}
	if (code < least[len] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
		return 0;
	*ret_code = code;
	return len;
}

static bool unsafe_on_terminal(uint32_t code)
{
	return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x200e || code == 0x200f ||
	       (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) ||
	       code == 0xfeff;
}

static char *clean(const char *s, bool terminal)
{
	struct buf out = { 0 };

	while (*s) {
		uint32_t code = 0;
		size_t len = clean_sequence(s, &code);

		if (!len)
			buf_put(&out, terminal ? "?" : "\xef\xbf\xbd", terminal ? 1 : 3);
		else if (terminal && unsafe_on_terminal(code))
			buf_put(&out, "?", 1);
		else
			buf_put(&out, s, len);
		s += len ? len : 1;
	}
	buf_put(&out, "", 1);
	return (char *)out.data;
}

char *clean_utf8(const char *s)
{
	return clean(s, false);
}

char *clean_text(const char *s)
{
	return clean(s, true);
}

size_t clean_columns(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}
