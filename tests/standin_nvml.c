/* SPDX-License-Identifier: Apache-2.0 */
/*
 * standin_nvml.c - a library that answers as libnvidia-ml.so.1 does, of two GPUs that do not exist;
 * $STANDIN_NVML chooses what is wrong with the second: "used", "busy", "ecc", "remap", "throttle",
 * "process", "lost"; "driver": nothing works; "hang": nothing comes back.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

static int is(const char *what)
{
	const char *v = getenv("STANDIN_NVML");

	return v && !strcmp(v, what);
}

static int second(void *d)
{
	return (intptr_t)d == 2;
}

API int nvmlInit_v2(void);
API int nvmlInit_v2(void)
{
	while (is("hang"))
		pause();
	return is("driver") ? 9 : 0;
}
API const char *nvmlErrorString(int code);
API const char *nvmlErrorString(int code)
{
	return code == 9 ? "Driver Not Loaded" : "GPU is lost";
}
API int nvmlDeviceGetCount_v2(unsigned *n);
API int nvmlDeviceGetCount_v2(unsigned *n)
{
	*n = 2;
	return 0;
}
API int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d);
API int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d)
{
	*d = (void *)(intptr_t)(i + 1);
	return i && is("lost") ? 15 : 0;
}
API int nvmlDeviceGetName(void *d, char *to, unsigned len);
API int nvmlDeviceGetName(void *d, char *to, unsigned len)
{
	(void)d;
	snprintf(to, len, "Stand-in");
	return 0;
}
API int nvmlDeviceGetUUID(void *d, char *to, unsigned len);
API int nvmlDeviceGetUUID(void *d, char *to, unsigned len)
{
	snprintf(to, len, "GPU-%d", second(d));
	return 0;
}
API int nvmlDeviceGetMemoryInfo(void *d, unsigned long long m[3]);
API int nvmlDeviceGetMemoryInfo(void *d, unsigned long long m[3])
{
	m[0] = 80ull << 30;
	m[2] = second(d) && is("used") ? 40ull << 30 : 4ull << 20;
	m[1] = m[0] - m[2];
	return 0;
}
API int nvmlDeviceGetUtilizationRates(void *d, unsigned u[2]);
API int nvmlDeviceGetUtilizationRates(void *d, unsigned u[2])
{
	u[0] = second(d) && is("busy") ? 100 : 0;
	u[1] = 0;
	return 0;
}
API int nvmlDeviceGetPersistenceMode(void *d, int *mode);
API int nvmlDeviceGetPersistenceMode(void *d, int *mode)
{
	(void)d;
	*mode = 1;
	return 0;
}
struct process {
	unsigned pid;
	unsigned long long used;
	unsigned gpu_instance, compute_instance;
};
API int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, struct process *p);
API int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, struct process *p)
{
	*n = second(d) && is("process");
	if (*n)
		*p = (struct process){ 1, 300ull << 20, 0, 0 };
	return 0;
}
API int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *reasons);
API int nvmlDeviceGetCurrentClocksThrottleReasons(void *d, unsigned long long *reasons)
{
	*reasons = second(d) && is("throttle") ? 0x41 : 0x1;
	return 0;
}
API int nvmlDeviceGetTotalEccErrors(void *d, int type, int counter, unsigned long long *n);
API int nvmlDeviceGetTotalEccErrors(void *d, int type, int counter, unsigned long long *n)
{
	*n = second(d) && is("ecc") && type == 1 && counter == 0 ? 3 : 0;
	return 0;
}
/* nvmlDeviceGetRetiredPagesPendingStatus is not there, as on newer GPUs it has no use. */
API int nvmlDeviceGetRemappedRows(void *d, unsigned *corrected, unsigned *uncorrected,
				  unsigned *pending, unsigned *failed);
API int nvmlDeviceGetRemappedRows(void *d, unsigned *corrected, unsigned *uncorrected,
				  unsigned *pending, unsigned *failed)
{
	*corrected = *uncorrected = *pending = 0;
	*failed = second(d) && is("remap");
	return 0;
}
