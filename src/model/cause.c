/* SPDX-License-Identifier: Apache-2.0 */
/* cause.c - the table of causes: what diagnose names, and what `lockstep explain` says of it. */
#include "model/cause.h"

static const struct cause_info causes[CAUSES] = {
	[CAUSE_UNKNOWN] = { "unknown", "None of the other causes can be told from what was given.",
			    "anything",
			    "more evidence: traces of the missing ranks, the log, stacks", "none",
			    "gather what is missing before the job is restarted, and give it all "
			    "together" },
	[CAUSE_COMPUTE_STRAGGLER] = { "compute-straggler",
				      "The rank's own compute takes longer than that of the ranks "
				      "that do the same work, over one "
				      "stretch of steps. Throttling is not excluded unless "
				      "telemetry says so.",
				      "comm-link: the others' collectives get long because they "
				      "wait for it; workload-imbalance: "
				      "then another rank is slow in every step, or its "
				      "kernels are launched larger or more often",
				      "clocks and throttle reasons of its GPU; the same kernels "
				      "timed on it alone; tokens and sequence lengths a rank",
				      "replace-node",
				      "take its node out of the job and have the GPU checked" },
	[CAUSE_THROTTLING] = { "throttling",
			       "The rank's own compute is slower than its peers' with clock or "
			       "throttle reasons, or in two or "
			       "more separate windows with normal speed between them.",
			       "compute-straggler, which stays; workload-imbalance, which moves "
			       "from rank to rank",
			       "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER on its host while "
			       "it is slow",
			       "replace-node",
			       "take its node out of the job and have its cooling and power "
			       "checked" },
	[CAUSE_COMM_LINK] = { "comm-link",
			      "Transfers that include the rank, node or pair are slow when all "
			      "members have arrived, and "
			      "its compute is not.",
			      "a late rank: it makes all the others' collectives long, but its own "
			      "the shortest",
			      "a bandwidth test between the named hosts; link and port error "
			      "counters",
			      "check-link", "have the link and its ports checked" },
	[CAUSE_HOST_STALL] = { "host-stall",
			       "The rank's GPU is idle because its host had not launched the next "
			       "work: a compile, garbage "
			       "collection, Python, input or output.",
			       "a victim, whose GPU looks just as idle but has a collective "
			       "running over the gap",
			       "a stack dump of the rank's process while it happens", "fix-code",
			       "change what the program does there, or let it be done elsewhere" },
	[CAUSE_DATA_STARVED] = { "data-starved",
				 "The rank waits for its data loader before it can go on.",
				 "host-stall; a victim that fetches early and waits later",
				 "the loader's workers: CPU, memory, storage latency on the host",
				 "fix-data",
				 "mend the data or how it is loaded: more workers, nearer storage, "
				 "even shards" },
	[CAUSE_PIPELINE_IMBALANCE] = { "pipeline-imbalance",
				       "One pipeline stage has more work than the others, on all "
				       "its ranks and from the first step.",
				       "compute-straggler of a whole node that holds just that "
				       "stage",
				       "the layers, head and loss that each stage holds",
				       "fix-config",
				       "divide the layers anew; the machines are sound" },
	[CAUSE_WORKLOAD_IMBALANCE] = { "workload-imbalance",
				       "Ranks have different amounts of work: sequence lengths, "
				       "routing. Which of them has most changes from step to step, "
				       "or the launches of a rank's kernels are larger or more "
				       "than its peers'. No machine is at fault.",
				       "compute-straggler, which stays with one rank whose kernels "
				       "are launched as large as its peers'",
				       "tokens or samples a rank and step; the sampler's packing",
				       "fix-data",
				       "even out the work of a step: pack or sort what is sampled; "
				       "the machines are sound" },
	[CAUSE_KERNEL_REGRESSION] = { "kernel-regression",
				      "One kernel is slower on all ranks since a step.",
				      "compute-straggler, which is on few ranks; longer sequences, "
				      "which slow all kernels",
				      "what changed at that step: shapes, a fallback algorithm, a "
				      "library, clocks of all GPUs",
				      "fix-code",
				      "undo what changed at that step; the machines are sound" },
	[CAUSE_CHECKPOINT] = { "checkpoint",
			       "A save is what the others wait for: the writer is busy or silent, "
			       "the others stand in the "
			       "barrier or collective after it.",
			       "host-stall of the writing rank",
			       "the log line of the save; its usual duration", "wait",
			       "wait while it writes; if it does not end, ask whoever owns the "
			       "storage" },
	[CAUSE_UNEVEN_STEPS] = { "uneven-steps",
				 "Ranks have different numbers of steps: one left the loop while "
				 "the others went on.",
				 "collective-desync, missing-rank", "batches a rank and epoch",
				 "fix-data",
				 "give every rank the same number of batches, or stop all at the "
				 "smallest" },
	[CAUSE_COLLECTIVE_DESYNC] = { "collective-desync",
				      "Ranks called different operations, sizes or orders in one "
				      "group.",
				      "collective-stuck, where all called the same",
				      "the stacks of the ranks that differ", "fix-code",
				      "mend the program: the ranks that differ took another "
				      "branch" },
	[CAUSE_MISSING_RANK] = { "missing-rank",
				 "The rank lives or may live, but never came to the operation that "
				 "the others wait in, "
				 "and nothing says why.",
				 "dead-rank", "a stack dump of the rank's process", "none",
				 "find out what that rank does before the job is restarted" },
	[CAUSE_DEAD_RANK] = { "dead-rank", "The rank's process is gone while the others go on.",
			      "missing-rank",
			      "the exit status of the process; the kernel's log of its host",
			      "replace-node",
			      "see what ended it and whether its node is sound before that is used "
			      "again" },
	[CAUSE_COLLECTIVE_STUCK] = { "collective-stuck",
				     "All members arrived and nothing moves, over two recordings "
				     "or a time-out.",
				     "a kernel before the collective that does not end on one rank",
				     "link counters; a second recording", "check-link",
				     "have the links and ports between its members checked" },
	[CAUSE_OUT_OF_MEMORY] = { "out-of-memory",
				  "The first rank that failed ran out of memory, by its own words.",
				  "echoes on other ranks", "its log", "fix-config",
				  "use less memory: smaller batches or sequences, or another split "
				  "of the model" },
	[CAUSE_EXCEPTION] = { "exception", "The first rank that failed raised an exception.",
			      "echoes on other ranks", "its traceback", "fix-code",
			      "mend the program where the traceback of that rank ends" },
	[CAUSE_GPU_ERROR] = { "gpu-error",
			      "The GPU of the first rank that failed reported an error (XID, ECC).",
			      "exception", "the kernel's log of its host", "replace-node",
			      "take its node out of the job and have the GPU checked; an error "
			      "that the program makes (XID 13, 31) is the program's" },
	[CAUSE_NETWORK_ERROR] = { "network-error",
				  "The first rank that failed lost its network, by its own words.",
				  "connections closed by peers that had already failed",
				  "port and link state of its host", "check-link",
				  "have the port, cable and switch of its host checked" },
	[CAUSE_RENDEZVOUS] = { "rendezvous", "The ranks never came together at the start.",
			       "missing-rank", "address, port and interfaces of the launcher",
			       "fix-config",
			       "mend the addresses, ports or interfaces that the launcher was "
			       "given" },
	[CAUSE_PREEMPTED] = { "preempted", "The scheduler ended the job.", "a crash",
			      "the scheduler's log", "wait",
			      "nothing is broken: start the job again when its turn comes, from "
			      "its last save" },
	[CAUSE_CONFIGURATION] = { "configuration",
				  "The job was started with settings that cannot work.",
				  "exception", "the settings named", "fix-config",
				  "change the settings that are named" },
};

const struct cause_info *cause_info(enum cause cause)
{
	return &causes[cause < CAUSES ? cause : CAUSE_UNKNOWN];
}

enum cause cause_find(const char *name)
{
	for (enum cause c = 0; c < CAUSES; c++)
		if (!strcmp(causes[c].name, name))
			return c;
	return CAUSE_UNKNOWN;
}
