/* SPDX-License-Identifier: Apache-2.0 */
/* nvtx.h - what the library gives to NVTX. */
#pragma once
#include "tracer/nvtx_abi.h"

/* 1: the calls of this shared object come here; 0: NVTX makes them do nothing. May be called often.
 */
int InitializeInjectionNvtx2(nvtx_get_table get);
