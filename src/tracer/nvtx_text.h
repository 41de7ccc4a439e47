/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvtx_text.h - the names in NVTX's calls: bytes, wide characters, or what was registered.
 *
 * A registered string or domain has its id in its handle, so there is no table that could be full.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#include "model/ring_layout.h"
#include "tracer/nvtx_abi.h"

struct nvtx_text {
	const char *s; /* NULL: registered, the id is all that there is */
	size_t len;
	uint32_t id;
	char room[RING_NAME_MAX + 8]; /* of what was wide */
};

void nvtx_text_of(struct nvtx_text *t, const char *s);
void nvtx_text_of_wide(struct nvtx_text *t, const wchar_t *w);
/* false: no name that could be read; then it is empty. */
bool nvtx_text_of_attributes(struct nvtx_text *t, const struct nvtx_attributes *a);
/* What a name means here. */
struct nvtx_meaning {
	uint8_t kind;  /* enum ring_phase */
	uint8_t op;    /* enum lockstep_op, of NCCL's own ranges */
	uint8_t named; /* bits of nvtx_step_named_by() */
	bool step;
	uint32_t stem; /* hash of the name without its digits */
	int64_t number;
};

/* Its id; the name joins the table of names by it. */
uint32_t nvtx_text_id(struct nvtx_text *t);
/* A name with a number in it gets no id by this: it may be one of a million. */
struct nvtx_meaning nvtx_text_meaning(struct nvtx_text *t);
/* That of an id which nvtx_text_id() gave. */
struct nvtx_meaning nvtx_meaning_of(uint32_t id);

const void *nvtx_string_handle(uint32_t id);
bool nvtx_string_of(const void *handle, uint32_t *ret_id);
const void *nvtx_domain_handle(struct nvtx_text *name);
/* Id of its name; 0: the default one, or none of ours. */
uint32_t nvtx_domain_name(const void *handle);
bool nvtx_domain_is_nccl(const void *handle);
