/* SPDX-License-Identifier: Apache-2.0 */
/* remarks.c - what was wrong with what was given, gathered by kind and said at the end. */
#include "cmd/remarks.h"
#include "cmd/cmd.h"
#include "base/buf.h"
#include "show/clean.h"

#define KINDS_LIMIT 64 /* beyond, whatever is said is of the last kind */
#define ALIKE_SAID  3  /* paths of which the same is said in a line each */

static char *kind_of(const char *text)
{
	char *kind = xmalloc(strlen(text) + 1), *out = kind;

	for (const char *p = text; *p; p++) {
		bool digit = *p >= '0' && *p <= '9';

		if (!digit)
			*out++ = *p;
		else if (out == kind || out[-1] != '#')
			*out++ = '#';
	}
	*out = '\0';
	return kind;
}

/* Takes kind over. */
static struct remark_kind *kind_find(struct remarks *r, char *kind)
{
	struct remark_kind *found = NULL;

	for (size_t i = 0; i < r->kinds.n && !found; i++)
		if (!strcmp(r->kinds.v[i].kind, kind))
			found = &r->kinds.v[i];
	if (!found && r->kinds.n == KINDS_LIMIT)
		found = &r->kinds.v[KINDS_LIMIT - 1];
	if (found) {
		free(kind);
		return found;
	}
	found = vec_push(&r->kinds);
	*found = (struct remark_kind){ .kind = kind };
	return found;
}

void remarks_add(struct remarks *r, const char *path, const char *text)
{
	size_t len = strlen(path);
	struct remark_kind *k;
	const struct remark *last;

	if (!strncmp(text, path, len) && !strncmp(text + len, ": ", 2))
		text += len + 2;
	k = kind_find(r, kind_of(text));
	last = k->n && k->n <= REMARKS_KEPT ? &k->kept[k->n - 1] : NULL;
	if (last && !strcmp(last->path, path) && !strcmp(last->text, text))
		return;
	if (k->n < REMARKS_KEPT)
		k->kept[k->n] = (struct remark){ xstrdup(path), xstrdup(text) };
	k->n++;
}

void remarks_join(struct remarks *r, struct remarks *more)
{
	for (size_t i = 0; i < more->kinds.n; i++) {
		struct remark_kind *from = &more->kinds.v[i];
		struct remark_kind *to = kind_find(r, xstrdup(from->kind));

		for (uint64_t k = 0; k < MIN(from->n, (uint64_t)REMARKS_KEPT); k++) {
			if (to->n + k < REMARKS_KEPT) {
				to->kept[to->n + k] = from->kept[k];
				from->kept[k] = (struct remark){ 0 };
			}
		}
		to->n += from->n;
	}
	remarks_done(more);
}

static void say_one(const struct remark *remark)
{
	_cleanup_free_ char *line = xasprintf("%s: %s", remark->path, remark->text);
	_cleanup_free_ char *clean = clean_text(line);

	complain("%s", clean);
}

static void say_together(const struct remark_kind *k)
{
	struct buf out = { 0 };
	_cleanup_free_ char *clean = NULL;

	for (size_t i = 0; i < ALIKE_SAID; i++) {
		buf_put(&out, i ? ", " : "", i ? 2 : 0);
		buf_put(&out, k->kept[i].path, strlen(k->kept[i].path));
	}
	buf_put(&out, "", 1);
	clean = clean_text((const char *)out.data);
	complain("%" PRIu64 " files: %s (%s, ..)", k->n, k->kept[0].text, clean);
	buf_done(&out);
}

void remarks_say(const struct remarks *r)
{
	for (size_t i = 0; i < r->kinds.n; i++) {
		const struct remark_kind *k = &r->kinds.v[i];

		if (k->n > ALIKE_SAID && !strcmp(k->kind, k->kept[0].text)) {
			say_together(k);
			continue;
		}
		for (uint64_t n = 0; n < MIN(k->n, (uint64_t)REMARKS_KEPT); n++)
			say_one(&k->kept[n]);
		if (k->n > REMARKS_KEPT)
			complain("%" PRIu64 " more files like these", k->n - REMARKS_KEPT);
	}
}

void remarks_done(struct remarks *r)
{
	for (size_t i = 0; i < r->kinds.n; i++) {
		for (size_t n = 0; n < REMARKS_KEPT; n++) {
			free(r->kinds.v[i].kept[n].path);
			free(r->kinds.v[i].kept[n].text);
		}
		free(r->kinds.v[i].kind);
	}
	free(r->kinds.v);
	*r = (struct remarks){ 0 };
}
