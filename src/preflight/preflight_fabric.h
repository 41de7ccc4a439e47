/* SPDX-License-Identifier: Apache-2.0 */
/* preflight_fabric.h - the parts of the fabric's probe. */
#pragma once
#include "preflight/preflight_inside.h"

/* What in this process's environment contradicts itself or the node: [{"text", "hard"}]. */
json_t *contradictions(const json_t *fabric);
/*
 * The place where ranks will meet, "HOST:PORT", or MASTER_ADDR and MASTER_PORT where place is NULL;
 * NULL: neither is there. {"place", "address" | "why", "local", "free" | "answer"}: answer is
 * "refused" (the host is there, nobody listens as yet), "connected", or what went wrong.
 */
json_t *rendezvous_facts(const char *place, unsigned limit_ms);
