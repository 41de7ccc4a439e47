/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_power.c - tables, CSV, dmon and JSON of any shape give bounded series of sane samples. */
#include "fuzz_gpus.h"

#include "read/power.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct {
		bool (*sniff)(const char *text, size_t len, const char *path);
		int (*read)(struct input *in, const char *path, struct testimony **ret,
			    struct read_stats *stats, struct error *reterr);
	} formats[] = {
		{ power_csv_sniff, power_csv_read },
		{ power_dmon_sniff, power_dmon_read },
		{ power_table_sniff, power_table_read },
		{ metric_lines_sniff, metric_lines_read },
	};

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		fuzz_sniff(formats[i].sniff, data, size);
		fuzz_gpus(formats[i].read, "rank3/gpu-h01.csv", data, size);
	}
	return 0;
}
