/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alert_template.h - text with {{fields}}, for the bodies that receivers want.
 *
 *   {{name}} {{detail.culprit.rank}}  the value, escaped to stand inside a JSON string
 *   {{raw:name}}     the value as it is; objects as JSON
 *   {{json:name}}    the value as JSON: a string with its quotes, null where it is missing
 *   {{markup:name}}  & < > as entities, then escaped: for Slack's text
 *   {{#name}}..{{/name}}  only if there is such a value, not false, 0 or empty; {{^name}} if not
 *
 * A missing field is empty. A first word that no alert has is refused when the file is read.
 */
#pragma once
#include <jansson.h>

#include "base/buf.h"

#define TEMPLATE_BYTES_MOST (64u << 10)
#define TEMPLATE_PARTS_MOST 4096u
#define TEMPLATE_DEPTH_MOST 16u
#define TEMPLATE_BODY_MOST  (1u << 20)

struct template;

/* path: for messages, FILE:LINE. names: first words that exist. */
int template_parse(const char *path, const char *text, size_t len, const char *const *names,
		   size_t n_names, struct template **ret, struct error *reterr);
int template_open(const char *path, const char *const *names, size_t n_names, struct template **ret,
		  struct error *reterr);
/* Appends to out; -E2BIG if that would be longer than TEMPLATE_BODY_MOST. */
int template_render(const struct template *t, const json_t *fields, struct buf *out);
struct template *template_free(struct template *t); /* NULL is fine; returns NULL */
