/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alert_template.c - a template as a list of parts, checked once, rendered often.
 *
 * Invariant: sections nest, and each knows the part behind its end, so that rendering is one walk.
 */
#include "alert/alert_template.h"
#include "base/options.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_MOST 128u

enum part_kind { PART_TEXT, PART_FIELD, PART_SECTION, PART_END };
enum filter { FILTER_ESCAPE, FILTER_RAW, FILTER_JSON, FILTER_MARKUP };

struct part {
	enum part_kind kind;
	enum filter filter;
	bool inverted;
	unsigned line;
	size_t from, len; /* of the text; names are in it too */
	size_t behind;	  /* of a section: the part after its end */
};
struct template
{
	char *text;
	VEC(struct part) parts;
};

struct parser {
	struct template *t;
	const char *path;
	const char *const *names;
	size_t n_names, at, len;
	unsigned line;
	size_t open[TEMPLATE_DEPTH_MOST];
	unsigned depth;
	struct error *reterr;
};

static int wrong(struct parser *p, const char *format, ...) PRINTF_LIKE(2, 3);
static int wrong(struct parser *p, const char *format, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	return error_set(p->reterr, -EINVAL, "%s:%u: %s", p->path, p->line, text);
}

static bool name_fine(const char *s, size_t len)
{
	bool fine = len > 0 && len < NAME_MOST && s[0] != '.' && s[len - 1] != '.';

	for (size_t i = 0; i < len && fine; i++)
		fine = (s[i] >= 'a' && s[i] <= 'z') || (s[i] >= 'A' && s[i] <= 'Z') ||
		       (s[i] >= '0' && s[i] <= '9') || s[i] == '_' || s[i] == '-' ||
		       (s[i] == '.' && s[i - 1] != '.');
	return fine;
}

static int known(struct parser *p, const char *s, size_t len)
{
	const char *dot = memchr(s, '.', len), *near;
	char first[NAME_MOST];

	snprintf(first, sizeof(first), "%.*s", (int)(dot ? dot - s : (ptrdiff_t)len), s);
	for (size_t i = 0; i < p->n_names; i++)
		if (!strcmp(p->names[i], first))
			return 0;
	near = options_nearest(first, p->names, p->n_names);
	return near ? wrong(p, "an alert has no \"%s\"; \"%s\" perhaps?", first, near)
		    : wrong(p, "an alert has no \"%s\"", first);
}

static int section_end(struct parser *p, const struct part *end)
{
	struct part *begin;

	if (!p->depth)
		return wrong(p, "{{/%.*s}} ends what did not begin", (int)MIN(end->len, 40),
			     p->t->text + end->from);
	begin = &p->t->parts.v[p->open[--p->depth]];
	if (begin->len != end->len ||
	    memcmp(p->t->text + begin->from, p->t->text + end->from, end->len) != 0)
		return wrong(p, "{{/%.*s}} where {{/%.*s}} of line %u is due",
			     (int)MIN(end->len, 40), p->t->text + end->from,
			     (int)MIN(begin->len, 40), p->t->text + begin->from, begin->line);
	begin->behind = p->t->parts.n;
	return 0;
}

static void trim(const char *text, size_t *from, size_t *len)
{
	for (; *len && strchr(" \t", text[*from]); (*len)--)
		(*from)++;
	while (*len && strchr(" \t", text[*from + *len - 1]))
		(*len)--;
}

/* "#name", "^name", "/name", "filter:name" or "name", between from and from + len. */
static int tag(struct parser *p, size_t from, size_t len)
{
	static const struct {
		const char *word;
		enum filter filter;
	} filters[] = { { "raw:", FILTER_RAW },
			{ "json:", FILTER_JSON },
			{ "markup:", FILTER_MARKUP } };
	const char *text = p->t->text;
	struct part part = { .kind = PART_FIELD, .line = p->line };
	int r;

	trim(text, &from, &len);
	if (len && strchr("#^/", text[from])) {
		part.kind = text[from] == '/' ? PART_END : PART_SECTION;
		part.inverted = text[from] == '^';
		from++;
		len--;
	}
	for (size_t i = 0; i < ARRAY_SIZE(filters) && part.kind == PART_FIELD; i++) {
		size_t n = strlen(filters[i].word);

		if (len > n && !memcmp(text + from, filters[i].word, n)) {
			part.filter = filters[i].filter;
			from += n;
			len -= n;
			break;
		}
	}
	trim(text, &from, &len);
	if (!name_fine(text + from, len))
		return wrong(p, "\"{{%.*s}}\" names no field", (int)MIN(len, 40), text + from);
	r = known(p, text + from, len);
	if (r < 0)
		return r;
	if (p->t->parts.n >= TEMPLATE_PARTS_MOST)
		return wrong(p, "more than %u parts", TEMPLATE_PARTS_MOST);
	part.from = from;
	part.len = len;
	if (part.kind == PART_SECTION) {
		if (p->depth == TEMPLATE_DEPTH_MOST)
			return wrong(p, "sections deeper than %u", TEMPLATE_DEPTH_MOST);
		p->open[p->depth++] = p->t->parts.n;
	}
	*vec_push(&p->t->parts) = part;
	return part.kind == PART_END ? section_end(p, &part) : 0;
}

static void text_until(struct parser *p, size_t end)
{
	if (end > p->at)
		*vec_push(&p->t->parts) = (struct part){
			.kind = PART_TEXT, .line = p->line, .from = p->at, .len = end - p->at
		};
	for (; p->at < end; p->at++)
		p->line += p->t->text[p->at] == '\n';
}

static int parse_all(struct parser *p)
{
	const char *text = p->t->text;

	while (p->at < p->len) {
		const char *open = memmem(text + p->at, p->len - p->at, "{{", 2), *close;
		size_t from;
		int r;

		text_until(p, open ? (size_t)(open - text) : p->len);
		if (!open)
			break;
		from = p->at + 2;
		close = memmem(text + from, p->len - from, "}}", 2);
		if (!close)
			return wrong(p, "\"{{\" without \"}}\"");
		r = tag(p, from, (size_t)(close - text) - from);
		if (r < 0)
			return r;
		p->at = (size_t)(close - text) + 2;
	}
	if (p->depth) {
		const struct part *begin = &p->t->parts.v[p->open[p->depth - 1]];

		p->line = begin->line;
		return wrong(p, "{{#%.*s}} has no end", (int)MIN(begin->len, 40),
			     text + begin->from);
	}
	return 0;
}

int template_parse(const char *path, const char *text, size_t len, const char *const *names,
		   size_t n_names, struct template **ret, struct error *reterr)
{
	struct parser p = { .path = path,
			    .names = names,
			    .n_names = n_names,
			    .len = len,
			    .line = 1,
			    .reterr = reterr };
	int r;

	if (len > TEMPLATE_BYTES_MOST)
		return wrong(&p, "a template of more than %u bytes", TEMPLATE_BYTES_MOST);
	if (len && memchr(text, 0, len))
		return wrong(&p, "a template is text, and this has a NUL in it");
	p.t = xcalloc(1, sizeof(*p.t));
	p.t->text = xcalloc(1, len + 1);
	if (len)
		memcpy(p.t->text, text, len);
	r = parse_all(&p);
	if (r < 0) {
		template_free(p.t);
		return r;
	}
	*ret = p.t;
	return 0;
}

int template_open(const char *path, const char *const *names, size_t n_names, struct template **ret,
		  struct error *reterr)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	_cleanup_free_ char *text = xmalloc(TEMPLATE_BYTES_MOST + 1);
	size_t len = 0;
	ssize_t n = -1;

	while (fd >= 0 && len <= TEMPLATE_BYTES_MOST) {
		n = read(fd, text + len, TEMPLATE_BYTES_MOST + 1 - len);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	if (n < 0)
		return error_set(reterr, -errno, "template %s: %s", path, strerror(errno));
	return template_parse(path, text, len, names, n_names, ret, reterr);
}

struct template *template_free(struct template *t)
{
	if (!t)
		return NULL;
	free(t->text);
	free(t->parts.v);
	free(t);
	return NULL;
}

/* --- rendering --- */

static const json_t *value_of(const struct template *t, const struct part *part,
			      const json_t *fields)
{
	char name[NAME_MOST], *next = name, *word;

	memcpy(name, t->text + part->from, part->len);
	name[part->len] = '\0';
	while (fields && (word = strsep(&next, ".")))
		fields = json_object_get(fields, word);
	return fields;
}

static bool holds(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return json_object_size(v) > 0;
	case JSON_ARRAY:
		return json_array_size(v) > 0;
	case JSON_STRING:
		return json_string_length(v) > 0;
	case JSON_INTEGER:
	case JSON_REAL:
		return json_number_value(v) != 0;
	default:
		return json_is_true(v);
	}
}

static void put(struct buf *out, const char *s)
{
	buf_put(out, s, strlen(s));
}

static void put_escaped(struct buf *out, const char *s, size_t len, bool markup)
{
	static const struct {
		const char *as;
		char c;
		bool markup;
	} names[] = { { "\\\"", '"', false }, { "\\\\", '\\', false }, { "\\n", '\n', false },
		      { "\\r", '\r', false }, { "\\t", '\t', false },  { "&amp;", '&', true },
		      { "&lt;", '<', true },  { "&gt;", '>', true } };

	for (size_t i = 0; i < len; i++) {
		const char *as = NULL;
		char code[8];

		for (size_t k = 0; k < ARRAY_SIZE(names) && !as; k++)
			if (names[k].c == s[i] && (markup || !names[k].markup))
				as = names[k].as;
		if (!as && (unsigned char)s[i] < ' ') {
			snprintf(code, sizeof(code), "\\u%04x", (unsigned)s[i]);
			as = code;
		}
		if (as)
			put(out, as);
		else
			buf_put(out, &s[i], 1);
	}
}

static void put_value(struct buf *out, const json_t *v, enum filter filter)
{
	_cleanup_free_ char *dump = NULL;
	const char *s = NULL;
	size_t len = 0;

	if (!v || json_is_null(v)) {
		if (filter == FILTER_JSON)
			put(out, "null");
		return;
	}
	if (filter != FILTER_JSON && json_is_string(v)) {
		s = json_string_value(v);
		len = json_string_length(v);
	} else {
		dump = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY);
		s = dump;
		len = s ? strlen(s) : 0;
	}
	if (filter == FILTER_JSON || filter == FILTER_RAW)
		buf_put(out, s, len);
	else
		put_escaped(out, s, len, filter == FILTER_MARKUP);
}

int template_render(const struct template *t, const json_t *fields, struct buf *out)
{
	size_t begin = out->len;

	for (size_t i = 0; i < t->parts.n; i++) {
		const struct part *part = &t->parts.v[i];
		const json_t *v = part->kind == PART_TEXT || part->kind == PART_END
				      ? NULL
				      : value_of(t, part, fields);

		if (part->kind == PART_TEXT)
			buf_put(out, t->text + part->from, part->len);
		else if (part->kind == PART_FIELD)
			put_value(out, v, part->filter);
		else if (part->kind == PART_SECTION && (v && holds(v)) == part->inverted)
			i = part->behind - 1;
		if (out->len - begin > TEMPLATE_BODY_MOST) {
			out->len = begin;
			return -E2BIG;
		}
	}
	return 0;
}
