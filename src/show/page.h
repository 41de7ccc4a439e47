/* SPDX-License-Identifier: Apache-2.0 */
/* page.h - text for a terminal of 100 columns: wrapped, cleaned of controls, coloured on request.
 */
#pragma once
#include "base/base.h"
#include <stdio.h>

enum { PAGE_COLUMNS = 100 };

struct page {
	FILE *out;
	bool colour;
};
enum page_style { PAGE_PLAIN, PAGE_BAD, PAGE_GOOD, PAGE_DOUBT, PAGE_HEAD };

/*
 * Writes text in words after `lead` (printed as it is, in `style`); further lines are indented by
 * `indent`. A word that is longer than a line, such as a kernel's name, is cut in its middle.
 */
void page_text(const struct page *p, enum page_style style, const char *lead, size_t indent,
	       const char *text);
/* A command to copy: broken only at blanks, and then with a backslash; never cut. */
void page_command(const struct page *p, size_t indent, const char *command);
/* A heading on a line of its own, after an empty line. */
void page_head(const struct page *p, const char *text);

/* "1,234,567"; into buf, which it returns. */
const char *page_count(uint64_t v, char buf[32]);
/* Three significant digits, as people say numbers: "0.042", "4.21", "42.1", "4,210". */
const char *page_number(double v, char buf[32]);
/* name, at most `columns` wide, cut in the middle; malloc'd and clean. */
char *page_name(const char *name, size_t columns);
