/* SPDX-License-Identifier: Apache-2.0 */
/* exposition.c - heads of families, and labels that cannot end early. */
#include "base/exposition.h"

void exposition_head(struct buf *out, const char *name, const char *type, const char *help)
{
	buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void exposition_label(char *to, size_t size, const char *s)
{
	size_t n = 0;

	for (; *s && n + 1 < size; s++)
		to[n++] =
		    (unsigned char)*s < ' ' || *s == '"' || *s == '\\' || (unsigned char)*s >= 0x7f
			? '_'
			: *s;
	to[n] = '\0';
}
