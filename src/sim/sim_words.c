/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/sim_words.h"

const char *const sim_group_descs[SIM_GROUPS + 1] = {
	[SIM_TP] = "TENSOR_MODEL_PARALLEL_GROUP",
	[SIM_CP] = "CONTEXT_PARALLEL_GROUP",
	[SIM_DP] = "DATA_PARALLEL_GROUP_WITH_CP",
	[SIM_EP] = "EXPERT_MODEL_PARALLEL_GROUP",
	[SIM_MP] = "MODEL_PARALLEL_GROUP",
	[SIM_PP] = "PIPELINE_MODEL_PARALLEL_GROUP",
	[SIM_GROUPS] = "default_pg",
};

const char *const sim_detail_words[HOST_DETAILS] = {
	"other work", "torch.compile: inductor_compile", "gc.collect", "log_metrics",
	"read",	      "cudaStreamSynchronize",
};

const struct sim_comm_words sim_comm_words[COMM_OPS] = {
	[COMM_ALL_REDUCE] = { "allreduce", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "all_reduce",
			      "all_reduce", "ALLREDUCE", "all_reduce", 2806 },
	[COMM_ALL_GATHER] = { "_allgather_base", "ncclDevKernel_AllGather_RING_LL",
			      "_all_gather_base", "all_gather", "_ALLGATHER_BASE",
			      "all_gather_into_tensor", 3740 },
	[COMM_REDUCE_SCATTER] = { "_reduce_scatter_base",
				  "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL",
				  "_reduce_scatter_base", "all_reduce", "_REDUCE_SCATTER_BASE",
				  "reduce_scatter_tensor", 4200 },
	[COMM_ALL_TO_ALL] = { "all_to_allv", "ncclDevKernel_SendRecv", "all_to_all", "all_to_all",
			      "ALLTOALL_BASE", "all_to_all_single", 4380 },
	[COMM_SEND] = { "send", "ncclDevKernel_SendRecv", "send", NULL, "SEND", "isend", 2380 },
	[COMM_RECV] = { "recv", "ncclDevKernel_SendRecv", "recv", NULL, "RECV", "irecv", 2430 },
};
