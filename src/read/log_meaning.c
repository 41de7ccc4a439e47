/* SPDX-License-Identifier: Apache-2.0 */
/* log_meaning.c - what the message of an error means, whoever raised it: a table of words. */
#include "read/log_internal.h"

struct meaning {
	const char *words; /* as they stand in the message */
	enum saying_kind kind;
	const char *what;
	int64_t value;
};

/* The first that stands in it counts: causes before the echoes that quote them. */
static const struct meaning meanings[] = {
	{ "CUDA out of memory", SAY_OUT_OF_MEMORY, "GPU memory", 0 },
	{ "HIP out of memory", SAY_OUT_OF_MEMORY, "GPU memory", 0 },
	{ "NPU out of memory", SAY_OUT_OF_MEMORY, "GPU memory", 0 },
	{ "XPU out of memory", SAY_OUT_OF_MEMORY, "GPU memory", 0 },
	{ "CUDA error: out of memory", SAY_OUT_OF_MEMORY, "GPU memory", 0 },
	{ "Cuda failure 'out of memory'", SAY_OUT_OF_MEMORY, "GPU memory", 0 },
	{ "Cuda failure 2 'out of memory'", SAY_OUT_OF_MEMORY, "GPU memory", 0 },
	{ "CUBLAS_STATUS_ALLOC_FAILED", SAY_OUT_OF_MEMORY, "GPU memory", 0 },
	{ "DefaultCPUAllocator", SAY_OUT_OF_MEMORY, "host memory", 1 },
	{ "Cannot allocate memory", SAY_OUT_OF_MEMORY, "host memory", 1 },
	{ "std::bad_alloc", SAY_OUT_OF_MEMORY, "host memory", 1 },
	{ "insufficient shared memory", SAY_OUT_OF_MEMORY, "shared memory", 1 },
	{ "workers are out of shared memory", SAY_OUT_OF_MEMORY, "shared memory", 1 },
	/* a loader's worker; who kills it without a word is the kernel, short of memory */
	{ "is killed by signal: Terminated", SAY_STOPPED, NULL, 15 },
	{ "is killed by signal: Killed", SAY_OUT_OF_MEMORY, "a loader's worker killed", 1 },
	{ "is killed by signal: Bus error", SAY_OUT_OF_MEMORY, "shared memory", 1 },
	{ "creating shared memory segment", SAY_CONFIGURATION, "/dev/shm", -1 },
	{ "No space left on device", SAY_EXCEPTION, "disk full", -1 },
	{ "Disk quota exceeded", SAY_EXCEPTION, "disk full", -1 },
	{ "uncorrectable ECC", SAY_GPU_ERROR, "ECC", -1 },
	{ "illegal memory access", SAY_GPU_ERROR, "illegal memory access", -1 },
	{ "unspecified launch failure", SAY_GPU_ERROR, "launch failure", -1 },
	{ "misaligned address", SAY_GPU_ERROR, "misaligned address", -1 },
	{ "illegal instruction was encountered", SAY_GPU_ERROR, "illegal instruction", -1 },
	{ "the launch timed out", SAY_GPU_ERROR, "launch timed out", -1 },
	{ "over nvlink or a hardware error", SAY_GPU_ERROR, "NVLink", -1 },
	{ "NVLink error", SAY_GPU_ERROR, "NVLink", -1 },
	{ "devices are busy or unavailable", SAY_GPU_ERROR, "GPU unavailable", -1 },
	{ "CUDA error: unknown error", SAY_GPU_ERROR, "CUDA error", -1 },
	{ "CUBLAS_STATUS_EXECUTION_FAILED", SAY_GPU_ERROR, "cuBLAS", -1 },
	{ "CUDNN_STATUS_EXECUTION_FAILED", SAY_GPU_ERROR, "cuDNN", -1 },
	{ "Memory access fault by GPU", SAY_GPU_ERROR, "memory access fault", -1 },
	{ "HSA_STATUS_ERROR", SAY_GPU_ERROR, "HSA error", -1 },
	{ "CUDA error: device-side assert", SAY_EXCEPTION, "device-side assert", -1 },
	{ "device-side assert triggered", SAY_EXCEPTION, "device-side assert", -1 },
	{ "CUDA error: invalid device ordinal", SAY_CONFIGURATION, "invalid device ordinal", -1 },
	{ "no kernel image is available", SAY_CONFIGURATION, "no kernel image", -1 },
	{ "CUDA driver version is insufficient", SAY_CONFIGURATION, "CUDA driver", -1 },
	{ "Duplicate GPU detected", SAY_CONFIGURATION, "duplicate GPU", -1 },
	{ "ncclInvalidUsage", SAY_CONFIGURATION, "invalid usage of NCCL", -1 },
	{ "ncclInvalidArgument", SAY_CONFIGURATION, "invalid argument to NCCL", -1 },
	{ "Mismatched NCCL version", SAY_CONFIGURATION, "NCCL versions", -1 },
	{ "mismatch in rank count from procs", SAY_CONFIGURATION, "world size", -1 },
	{ "Address already in use", SAY_CONFIGURATION, "port in use", -1 },
	{ "EADDRINUSE", SAY_CONFIGURATION, "port in use", -1 },
	{ "is not divisible by", SAY_CONFIGURATION, "sizes", -1 },
	{ "op.preamble.length <= op.nbytes", SAY_FATAL, "gloo size mismatch", -1 },
	{ "host not found: ", SAY_RENDEZVOUS, NULL, -1 },
	{ "cannot be retrieved (gai error", SAY_RENDEZVOUS, NULL, -1 },
	{ "RendezvousTimeoutError", SAY_RENDEZVOUS, NULL, -1 },
	{ "RendezvousConnectionError", SAY_RENDEZVOUS, NULL, -1 },
	{ "store based barrier", SAY_RENDEZVOUS, NULL, -1 },
	{ "waiting for clients", SAY_RENDEZVOUS, NULL, -1 },
	{ "while trying to connect to", SAY_RENDEZVOUS, NULL, -1 },
	{ "client socket has failed to connect", SAY_RENDEZVOUS, NULL, -1 },
	{ "failed to connect to any network", SAY_RENDEZVOUS, NULL, -1 },
	{ "wait timeout after", SAY_RENDEZVOUS, NULL, -1 },
	{ "successfully reached monitoredBarrier, but received errors", SAY_PEER_LOST, NULL, -1 },
	{ "NCCL communicator was aborted", SAY_ABORTED, NULL, -1 },
	{ "recvValue failed", SAY_STORE_LOST, NULL, -1 },
	{ "sendBytes failed", SAY_STORE_LOST, NULL, -1 },
	{ "recvVector failed", SAY_STORE_LOST, NULL, -1 },
	{ "Failed to recv, got 0 bytes", SAY_STORE_LOST, NULL, -1 },
	{ "failed to recv, got 0 bytes", SAY_STORE_LOST, NULL, -1 },
	{ "Connection closed by peer", SAY_PEER_LOST, NULL, -1 },
	{ "Connection reset by peer", SAY_PEER_LOST, NULL, -1 },
	{ "Connection closed by remote peer", SAY_PEER_LOST, NULL, -1 },
	{ "Broken pipe", SAY_PEER_LOST, NULL, -1 },
	{ "remote process exited", SAY_PEER_LOST, NULL, -1 },
	{ "ncclRemoteError", SAY_PEER_LOST, NULL, -1 },
	{ "unhandled system error", SAY_NETWORK_ERROR, "system error in NCCL", -1 },
	{ "Application timeout caused pair closure", SAY_TIMEOUT, NULL, -1 },
	{ "Timed out waiting", SAY_TIMEOUT, NULL, -1 },
};

bool log_classify(struct log *g, const char *p, const char *end, struct saying *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(meanings); i++) {
		const struct meaning *m = &meanings[i];
		struct scan q = scan_of(p, end);

		if (!scan_to(&q, m->words))
			continue;
		s->kind = m->kind;
		s->value = m->value;
		if (m->what)
			s->what = log_name(g, m->what);
		if (m->kind == SAY_TIMEOUT) {
			scan_blanks(&q);
			if (scan_int(&q, &s->timeout_ms) && !scan_at(&q, "ms"))
				s->timeout_ms = -1;
		}
		return true;
	}
	return false;
}
