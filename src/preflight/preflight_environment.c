/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preflight_environment.c - the variables that change what a job does, to be compared between
 * nodes.
 *
 * The tables say which are compared, which may differ with a warning, and which belong to a node or
 * a process by their nature. Of those that are named like secrets a digest is told.
 */
#include "preflight/preflight_inside.h"

#include <fnmatch.h>

#define VARIABLES_MOST 1024u

extern char **environ;

/* A node's own: never compared. */
static const char *const local_variables[] = {
	"*VISIBLE_DEVICES",
	"CUDA_CACHE_PATH",
	"CUDA_MPS_*",
	"NCCL_HOSTID",
	"NCCL_TOPO_DUMP_FILE",
	"NCCL_GRAPH_DUMP_FILE",
	"NCCL_DEBUG_FILE",
	"NCCL_PROFILER_*",
	"NCCL_TUNER_*",
	"TORCHELASTIC_RESTART_COUNT",
	"TORCHELASTIC_ERROR_FILE",
	"TORCHELASTIC_SIGNALS_*",
	"TORCH_NCCL_DEBUG_INFO_*",
	"TORCH_FR_DUMP_TEMP_FILE",
	"TORCHINDUCTOR_CACHE_DIR",
	"TORCH_EXTENSIONS_DIR",
	"TORCH_HOME",
	"TORCH_COMPILE_DEBUG_DIR",
	"PYTHONSTARTUP",
	"PYTHON_HISTORY",
	"PYTHONPYCACHEPREFIX",
	"CUDA_INJECTION64_PATH",
	"UCX_NET_DEVICES",
	"TRITON_CACHE_DIR",
	"HF_HOME",
	"HF_HUB_CACHE",
	"HF_DATASETS_CACHE",
	"OMP_PLACES",
};
/* A difference is odd, and seldom fatal. */
static const char *const soft_variables[] = {
	"NCCL_SOCKET_IFNAME",
	"GLOO_SOCKET_IFNAME",
	"NCCL_IB_HCA",
	"NCCL_DEBUG*",
	"NCCL_TOPO_FILE",
	"LD_LIBRARY_PATH",
	"OMP_*",
	"MKL_*",
	"CUDA_HOME",
	"CUDA_PATH",
	"CUDA_ROOT",
	"CUDA_BIN_PATH",
	"CUDA_VERSION",
	"CUDA_LAUNCH_BLOCKING",
	"TORCH_LOGS*",
	"TORCH_CPP_LOG_LEVEL",
	"PYTHONUNBUFFERED",
	"PYTHONFAULTHANDLER",
	"PYTHONWARNINGS",
	"PYTHONDONTWRITEBYTECODE",
	"TORCH_SHOW_CPP_STACKTRACES",
	"UCX_TLS",
	"HF_*",
};
static const char *const hard_variables[] = {
	"NCCL_*",
	"RCCL_*",
	"TORCH_*",
	"TORCHELASTIC_*",
	"TORCHINDUCTOR_*",
	"TORCHDYNAMO_*",
	"PYTORCH_*",
	"GLOO_*",
	"CUDA_*",
	"CUBLAS_*",
	"NVTE_*",
	"HIP_*",
	"HSA_*",
	"RCCL_*",
	"ROCR_*",
	"UCX_*",
	"FI_*",
	"XLA_*",
	"PYTHON*",
	"LD_PRELOAD",
	"MASTER_ADDR",
	"MASTER_PORT",
	"TOKENIZERS_PARALLELISM",
	"TRITON_*",
};

static bool is_among(const char *name, const char *const *patterns, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fnmatch(patterns[i], name, 0) == 0)
			return true;
	return false;
}

int facts_of_environment(const struct preflight_plan *p, json_t **ret, struct error *reterr)
{
	json_t *facts = json_object();
	json_t *hard = facts_group(facts, "environment"), *soft = facts_group(facts, "tuning");
	unsigned n = 0;

	(void)p;
	(void)reterr;
	for (char **e = environ; *e && n < VARIABLES_MOST; e++) {
		const char *equals = strchr(*e, '=');
		char name[128];
		bool is_soft;

		if (!equals || (size_t)(equals - *e) >= sizeof(name))
			continue;
		memcpy(name, *e, (size_t)(equals - *e));
		name[equals - *e] = 0;
		if (is_among(name, local_variables, ARRAY_SIZE(local_variables)))
			continue;
		is_soft = is_among(name, soft_variables, ARRAY_SIZE(soft_variables));
		if (!is_soft && !is_among(name, hard_variables, ARRAY_SIZE(hard_variables)))
			continue;
		json_object_set_new(is_soft ? soft : hard, name, told_value(name, equals + 1));
		n++;
	}
	*ret = facts;
	return 0;
}
