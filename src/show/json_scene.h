/* SPDX-License-Identifier: Apache-2.0 */
/* json_scene.h - the parts of the JSON that say where ranks stand. */
#pragma once
#include "model/finding.h"
#include <jansson.h>

#define RANKS_SHOWN 64 /* beyond, only suspects and a few others, unless all are asked for */
#define PEERS_SHOWN 4

/* NULL as null, bytes that are no UTF-8 replaced. */
json_t *json_text(const char *s);
json_t *json_rank_of(const struct job *job, uint32_t row);
json_t *json_texts(const char *const *v, size_t n);
json_t *json_number(double v, int decimals);
json_t *json_count_or_null(int64_t v); /* negative: unknown */

json_t *json_groups(const struct report *r, bool all);
json_t *json_stacks(const struct report *r, bool all);
json_t *json_gpus(const struct report *r, bool all);
