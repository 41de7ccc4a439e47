/* SPDX-License-Identifier: Apache-2.0 */
/* exposition.h - what a page of Prometheus is made of (its text format 0.0.4). */
#pragma once
#include "base/buf.h"

/* A family of type "gauge" or "counter". */
void exposition_head(struct buf *out, const char *name, const char *type, const char *help);
/* A text as a label holds it, cut to size - 1 bytes: what could end it or a line becomes _. */
void exposition_label(char *to, size_t size, const char *s);
