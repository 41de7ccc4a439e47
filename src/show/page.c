/* SPDX-License-Identifier: Apache-2.0 */
/* page.c - lines for people. Whatever passes here is clean: see clean.h. */
#include "show/page.h"
#include "show/clean.h"
#include "base/buf.h"

#include <math.h>

static const char *page_on(const struct page *p, enum page_style style)
{
	static const char *const codes[] = {
		[PAGE_PLAIN] = "",	     [PAGE_BAD] = "\033[1;31m", [PAGE_GOOD] = "\033[1;32m",
		[PAGE_DOUBT] = "\033[1;33m", [PAGE_HEAD] = "\033[1m",
	};

	return p->colour ? codes[style] : "";
}

static const char *page_off(const struct page *p, enum page_style style)
{
	return p->colour && style != PAGE_PLAIN ? "\033[0m" : "";
}

/* The first `columns` code points of s end here. */
static const char *skip_columns(const char *s, size_t columns)
{
	while (*s && columns) {
		s++;
		while (((unsigned char)*s & 0xc0) == 0x80)
			s++;
		columns--;
	}
	return s;
}

char *page_name(const char *name, size_t columns)
{
	char *clean = clean_text(name), *cut;
	size_t wide = clean_columns(clean), head, tail;
	const char *head_end, *tail_begin;

	if (wide <= columns)
		return clean;
	head = (columns - 2) * 2 / 3;
	tail = columns - 2 - head;
	head_end = skip_columns(clean, head);
	tail_begin = skip_columns(clean, wide - tail);
	cut = xasprintf("%.*s..%s", (int)(head_end - clean), clean, tail_begin);
	free(clean);
	return cut;
}

void page_text(const struct page *p, enum page_style style, const char *lead, size_t indent,
	       const char *text)
{
	_cleanup_free_ char *clean = clean_text(text);
	size_t at = clean_columns(lead);
	bool fresh = true;

	fprintf(p->out, "%s%s%s", page_on(p, style), lead, page_off(p, style));
	for (char *word = clean; *word;) {
		size_t len = strcspn(word, " ");
		char *next = word + len + (word[len] ? 1 : 0);
		_cleanup_free_ char *shown = NULL;
		size_t wide;

		word[len] = 0;
		if (len) {
			shown = page_name(word, PAGE_COLUMNS - indent);
			wide = clean_columns(shown);
			if (!fresh && at + 1 + wide > PAGE_COLUMNS) {
				fprintf(p->out, "\n%*s", (int)indent, "");
				at = indent;
				fresh = true;
			} else if (fresh && at > indent && at + wide > PAGE_COLUMNS) {
				fprintf(p->out, "\n%*s", (int)indent, "");
				at = indent;
			}
			fprintf(p->out, "%s%s", fresh ? "" : " ", shown);
			at += wide + !fresh;
			fresh = false;
		}
		word = next;
	}
	fputc('\n', p->out);
}

void page_command(const struct page *p, size_t indent, const char *command)
{
	_cleanup_free_ char *clean = clean_text(command);
	size_t at = indent;

	fprintf(p->out, "%*s", (int)indent, "");
	for (char *word = clean; *word;) {
		size_t len = strcspn(word, " "), wide;
		char *next = word + len + (word[len] ? 1 : 0);

		word[len] = 0;
		wide = clean_columns(word);
		if (at > indent && at + 1 + wide > PAGE_COLUMNS - 2) {
			fprintf(p->out, " \\\n%*s", (int)indent + 4, "");
			at = indent + 4;
		} else if (at > indent) {
			fputc(' ', p->out);
			at++;
		}
		fputs(word, p->out);
		at += wide;
		word = next;
	}
	fputc('\n', p->out);
}

void page_head(const struct page *p, const char *text)
{
	fprintf(p->out, "\n%s%s%s\n", page_on(p, PAGE_HEAD), text, page_off(p, PAGE_HEAD));
}

const char *page_count(uint64_t v, char buf[32])
{
	char digits[24];
	int n = snprintf(digits, sizeof(digits), "%" PRIu64, v), to = 0;

	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			buf[to++] = ',';
		buf[to++] = digits[i];
	}
	buf[to] = 0;
	return buf;
}

const char *page_number(double v, char buf[32])
{
	double size = fabs(v);
	char whole[32];

	if (!isfinite(v) || size >= 1e15)
		snprintf(buf, 32, "%.3g", v);
	else if (size >= 999.5)
		snprintf(buf, 32, "%s%.30s", v < 0 ? "-" : "",
			 page_count((uint64_t)llround(size), whole));
	else if (size >= 99.95 || v == (double)(int)v)
		snprintf(buf, 32, "%.0f", v);
	else if (size >= 9.995)
		snprintf(buf, 32, "%.1f", v);
	else if (size >= 0.9995)
		snprintf(buf, 32, "%.2f", v);
	else
		snprintf(buf, 32, "%.2g", v);
	return buf;
}
