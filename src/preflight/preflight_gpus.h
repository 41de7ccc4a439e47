/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_gpus.h - the ways to ask for a node's GPUs, and the text of those that print.
 *
 * Of a GPU: {"index", "uuid", "model", "memory_mib", "used_mib", "busy_pct", "persistence",
 * "ecc_uncorrected", "retire_pending", "remap_pending", "remap_failed", "throttle" (NVML's bits),
 * "trouble", "processes": [{"pid", "name", "used_mib"}]}; what is not known is not there.
 */
#pragma once
#include "preflight/preflight_inside.h"

/* False: there is no NVML here. */
bool gpus_by_nvml(json_t *facts, json_t *gpus);
/* False: there is no such command here. */
bool gpus_by_nvidia_smi(json_t *facts, json_t *gpus);
bool gpus_by_rocm_smi(json_t *facts, json_t *gpus);

/* Text of nvidia-smi --query-gpu=.. --format=csv: adds to the GPUs by index, in order. */
void nvidia_smi_gpus(char *text, json_t *gpus);
/* Text of nvidia-smi --query-compute-apps=.. --format=csv. */
void nvidia_smi_processes(char *text, json_t *gpus);
void rocm_smi_gpus(const char *text, size_t len, json_t *gpus);
/* Lines of the kernel's log with "NVRM: Xid": {"xid", "bus", "age_s"}. now_s: since boot. */
void kernel_xids(char *text, int64_t now_s, json_t *xids);

json_t *gpu_process(int64_t pid, const char *name, int64_t used_mib); /* -1: unknown */
