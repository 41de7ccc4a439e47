/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_config.c - reading options from a file; see watch_config.h.
 *
 * Not by inih: as Debian 12 builds it, a line ends after 200 bytes, and a command through ssh has
 * more.
 */
#include "watch/watch_config.h"

#include "read/text_lines.h"

static int config_line(struct watch_config *c, const char *path, const struct option_row *rows,
		       const char *p, size_t len, uint64_t line, struct error *reterr)
{
	const char *equals = memchr(p, '=', len), *value;
	size_t n_name, n_value;
	const struct option_row *row = rows;

	if (!equals)
		return error_set(reterr, -EINVAL, "%s: line %" PRIu64 " is not name = value", path,
				 line);
	n_name = (size_t)(equals - p);
	value = equals + 1;
	n_value = len - n_name - 1;
	line_trim(&p, &n_name);
	line_trim(&value, &n_value);
	while (row->name && !line_is(p, n_name, row->name))
		row++;
	if (!row->name || !strcmp(row->name, "config"))
		return error_set(reterr, -EINVAL,
				 "%s: line %" PRIu64 ": there is no option \"%.*s\"", path, line,
				 (int)MIN(n_name, (size_t)60), p);
	if (c->words.n >= CONFIG_MOST)
		return error_set(reterr, -E2BIG, "%s: more than %u options", path, CONFIG_MOST);
	if (row->type != OPTION_FLAG)
		*vec_push(&c->words) = xasprintf("--%s=%.*s", row->name, (int)n_value, value);
	else if (line_is(value, n_value, "yes") || line_is(value, n_value, "true"))
		*vec_push(&c->words) = xasprintf("--%s", row->name);
	else if (!line_is(value, n_value, "no") && !line_is(value, n_value, "false"))
		return error_set(reterr, -EINVAL, "%s: line %" PRIu64 ": %s is yes or no", path,
				 line, row->name);
	return 0;
}

int watch_config_take(struct watch_config *c, struct input *in, const char *path,
		      const struct option_row *rows, struct error *reterr)
{
	struct text_lines lines;
	const char *p;
	size_t len;
	int r = 0;

	text_lines_init(&lines, in);
	while (r >= 0 && text_lines_next(&lines, &p, &len)) {
		if (lines.line == 1 && len >= 3 && !memcmp(p, "\xef\xbb\xbf", 3)) {
			p += 3;
			len -= 3;
		}
		line_trim(&p, &len);
		if (!len || *p == '#' || *p == ';' || *p == '[')
			continue;
		if (len > CONFIG_LINE_MOST)
			r = error_set(reterr, -E2BIG, "%s: line %" PRIu64 " is too long", path,
				      lines.line);
		else if (memchr(p, 0, len))
			r = error_set(reterr, -EINVAL,
				      "%s: line %" PRIu64 " has a zero byte: is it UTF-8 text?",
				      path, lines.line);
		else
			r = config_line(c, path, rows, p, len, lines.line, reterr);
	}
	if (r >= 0 && lines.cut)
		r = error_set(reterr, -E2BIG, "%s: it has lines that are too long", path);
	text_lines_done(&lines);
	return r;
}

int watch_config_read(struct watch_config *c, const char *path, const struct option_row *rows,
		      struct error *reterr)
{
	struct input *in = NULL;
	int r = input_open(path, &in, reterr);

	if (r >= 0)
		r = watch_config_take(c, in, path, rows, reterr);
	input_free(in);
	return r;
}

void watch_config_done(struct watch_config *c)
{
	for (size_t i = 0; i < c->words.n; i++)
		free(c->words.v[i]);
	free(c->words.v);
	*c = (struct watch_config){ 0 };
}
