/* SPDX-License-Identifier: Apache-2.0 */
/* witness.c - the table of formats of dumps, logs, stacks and power, in the order of asking. */
#include "read/witness.h"

#include "read/collected.h"
#include "read/counters.h"
#include "read/error_file.h"
#include "read/events.h"
#include "read/fr.h"
#include "read/inspector.h"
#include "read/log.h"
#include "read/power.h"
#include "read/ras.h"
#include "read/stack.h"

const struct witness_format witness_formats[] = {
	{ "flight-recorder", fr_pickle_sniff, fr_read },
	{ "flight-recorder", fr_json_sniff, fr_read },
	{ "ncclras", ras_json_sniff, ras_json_read },
	{ "nccl-inspector", inspector_sniff, inspector_read },
	{ "ncclras", ras_text_sniff, ras_text_read },
	{ "py-spy", stack_json_sniff, stack_json_read },
	{ "stacks", stack_sniff, stack_read },
	{ "collected", collected_sniff, collected_read },
	{ "torchelastic-error", error_file_sniff, error_file_read },
	{ "events", events_sniff, events_read },
	{ "gpu-json", metric_lines_sniff, metric_lines_read },
	{ "counters", counters_sniff, counters_read },
	{ "prometheus", prometheus_sniff, prometheus_read },
	{ "nvidia-smi-dmon", power_dmon_sniff, power_dmon_read },
	{ "gpu-table", power_table_sniff, power_table_read },
	{ "gpu-csv", power_csv_sniff, power_csv_read },
	{ "log", log_sniff, log_read },
	{ 0 },
};
const size_t n_witness_formats = ARRAY_SIZE(witness_formats) - 1;

int witness_find(const char *text, size_t len, const char *path)
{
	for (size_t i = 0; i < n_witness_formats; i++)
		if (witness_formats[i].sniff(text, len, path))
			return (int)i;
	return -1;
}
