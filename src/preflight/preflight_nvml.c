/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_nvml.c - the GPUs as NVML tells them, loaded if it is there.
 *
 * NVML may hang on a broken GPU: it is asked in a probe's child only. What a driver is too old to
 * tell stays unknown. The few declarations follow NVML's published ABI.
 */
#include "preflight/preflight_gpus.h"

#include <stdio.h>

#include "base/library.h"

#define GPUS_MOST      64u
#define PROCESSES_MOST 64u
#define MIB	       (UINT64_C(1) << 20)

typedef void *device;
struct memory {
	unsigned long long total, free, used;
};
struct utilization {
	unsigned gpu, memory;
};
struct process {
	unsigned pid;
	unsigned long long used;
	unsigned gpu_instance, compute_instance;
};

static int (*init)(void);
static int (*count_get)(unsigned *n);
static int (*by_index)(unsigned i, device *d);
static int (*name_get)(device d, char *to, unsigned len);
static int (*uuid_get)(device d, char *to, unsigned len);
static int (*memory_get)(device d, struct memory *m);
static int (*utilization_get)(device d, struct utilization *u);
static int (*persistence_get)(device d, int *mode);
static int (*processes_get)(device d, unsigned *n, struct process *p);
static int (*reasons_get)(device d, unsigned long long *reasons);
static int (*ecc_get)(device d, int type, int counter, unsigned long long *n);
static int (*retired_get)(device d, int *pending);
static int (*remapped_get)(device d, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
			   unsigned *failed);
static const char *(*error_string)(int code);

static const struct library_symbol needed[] = {
	{ "nvmlInit_v2", &init },
	{ "nvmlDeviceGetCount_v2", &count_get },
	{ "nvmlDeviceGetHandleByIndex_v2", &by_index },
	{ "nvmlDeviceGetName", &name_get },
	{ "nvmlDeviceGetUUID", &uuid_get },
	{ "nvmlDeviceGetMemoryInfo", &memory_get },
	{ "nvmlErrorString", &error_string },
};
/* Each may be missing by itself. */
static const struct library_symbol wanted[] = {
	{ "nvmlDeviceGetUtilizationRates", &utilization_get },
	{ "nvmlDeviceGetPersistenceMode", &persistence_get },
	{ "nvmlDeviceGetComputeRunningProcesses_v3", &processes_get },
	{ "nvmlDeviceGetCurrentClocksThrottleReasons", &reasons_get },
	{ "nvmlDeviceGetTotalEccErrors", &ecc_get },
	{ "nvmlDeviceGetRetiredPagesPendingStatus", &retired_get },
	{ "nvmlDeviceGetRemappedRows", &remapped_get },
};

static void put_health(device d, json_t *g)
{
	unsigned corrected, uncorrected, pending, failed;
	unsigned long long v;
	int state;

	if (persistence_get && persistence_get(d, &state) == 0)
		json_object_set_new(g, "persistence", json_boolean(state));
	if (reasons_get && reasons_get(d, &v) == 0)
		json_object_set_new(g, "throttle", json_integer((json_int_t)v));
	if (ecc_get && ecc_get(d, 1, 0, &v) == 0) /* uncorrected, since the driver was loaded */
		json_object_set_new(g, "ecc_uncorrected", json_integer((json_int_t)v));
	if (retired_get && retired_get(d, &state) == 0 && state)
		json_object_set_new(g, "retire_pending", json_true());
	if (remapped_get && remapped_get(d, &corrected, &uncorrected, &pending, &failed) == 0) {
		if (pending)
			json_object_set_new(g, "remap_pending", json_true());
		if (failed)
			json_object_set_new(g, "remap_failed", json_true());
	}
}

static void put_processes(device d, json_t *g)
{
	struct process p[PROCESSES_MOST] = { 0 };
	unsigned n = PROCESSES_MOST;
	json_t *list = json_array();

	if (processes_get && processes_get(d, &n, p) == 0)
		for (unsigned i = 0; i < n && i < PROCESSES_MOST; i++)
			json_array_append_new(list, gpu_process((int64_t)p[i].pid, NULL,
								p[i].used / MIB > INT32_MAX
								    ? -1
								    : (int64_t)(p[i].used / MIB)));
	json_object_set_new(g, "processes", list);
}

static json_t *gpu_json(unsigned i)
{
	json_t *g = json_object();
	struct utilization u;
	char text[128] = "";
	struct memory m;
	device d;
	int r = by_index(i, &d);

	json_object_set_new(g, "index", json_integer(i));
	if (r) {
		json_object_set_new(g, "trouble", text_json(error_string(r)));
		return g;
	}
	if (name_get(d, text, sizeof(text)) == 0)
		json_object_set_new(g, "model", text_json(text));
	if (uuid_get(d, text, sizeof(text)) == 0)
		json_object_set_new(g, "uuid", text_json(text));
	r = memory_get(d, &m);
	if (r) {
		json_object_set_new(g, "trouble", text_json(error_string(r)));
	} else {
		json_object_set_new(g, "memory_mib", json_integer((json_int_t)(m.total / MIB)));
		json_object_set_new(g, "used_mib", json_integer((json_int_t)(m.used / MIB)));
	}
	if (utilization_get && utilization_get(d, &u) == 0)
		json_object_set_new(g, "busy_pct", json_integer(u.gpu));
	put_health(d, g);
	put_processes(d, g);
	return g;
}

bool gpus_by_nvml(json_t *facts, json_t *gpus)
{
	unsigned n = 0;
	char why[256];
	int r;

	if (!library_load("libnvidia-ml.so.1", "not there", needed, ARRAY_SIZE(needed), why))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
		library_load("libnvidia-ml.so.1", "not there", &wanted[i], 1, why);
	json_object_set_new(facts, "source", json_string("nvml"));
	r = init();
	if (!r)
		r = count_get(&n);
	if (r)
		json_object_set_new(facts, "trouble",
				    json_sprintf("NVML says: %s", error_string(r)));
	for (unsigned i = 0; !r && i < n && i < GPUS_MOST; i++)
		json_array_append_new(gpus, gpu_json(i));
	return true;
}
