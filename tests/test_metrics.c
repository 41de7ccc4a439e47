/* SPDX-License-Identifier: Apache-2.0 */
/* test_metrics.c - power and utilization in Prometheus text and JSON; names, hosts and times. */
#include "witness_helpers.h"

#include "read/gpu_metric.h"
#include "read/power.h"
#include "read/stamp.h"

/* --- Prometheus --- */

static void prometheus_joins_the_metrics_of_a_gpu(void **state)
{
	(void)state;
	expect_gpus("x.prom", "prometheus",
		    "# TYPE DCGM_FI_DEV_POWER_USAGE gauge\n"
		    "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"GPU-1\",Hostname=\"h01\"} 680.5\n"
		    "DCGM_FI_DEV_POWER_USAGE{gpu=\"1\",UUID=\"GPU-2\",Hostname=\"h01\"} 70.5\n"
		    "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-1\",Hostname=\"h01\"} 100\n"
		    "DCGM_FI_DEV_GPU_UTIL{gpu=\"1\",UUID=\"GPU-2\",Hostname=\"h01\"} 100\n"
		    "DCGM_FI_DEV_XID_ERRORS{gpu=\"1\",UUID=\"GPU-2\",Hostname=\"h01\"} 79\n"
		    "DCGM_FI_DEV_XID_ERRORS{gpu=\"0\",UUID=\"GPU-1\",Hostname=\"h01\"} 0\n"
		    "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\",UUID=\"GPU-1\",Hostname=\"h01\"} 670.5\n",
		    "h01 0 GPU-1\n   power=680.5 util=1\n   power=670.5\n"
		    "h01 1 GPU-2 xid 79\n   power=70.5 util=1\n");
}

static void prometheus_blanks_are_no_values(void **state)
{
	(void)state;
	expect_gpus("x.prom", "prometheus",
		    "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 100\n"
		    "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\"} 9223372036854775794\n"
		    "DCGM_FI_DEV_SM_CLOCK{gpu=\"0\"} 2147483632\n"
		    "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\"} 140737488355330\n"
		    "DCGM_FI_DEV_FB_USED{gpu=\"0\"} NaN\n",
		    " 0\n   util=1\n");
}

static void profiling_ratios_of_zero_beside_work_are_no_evidence(void **state)
{
	(void)state;
	expect_gpus("x.prom", "prometheus",
		    "DCGM_FI_DEV_POWER_USAGE{gpu=\"0\"} 650\n"
		    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu=\"0\"} 0.000000\n"
		    "DCGM_FI_DEV_POWER_USAGE{gpu=\"1\"} 70\n"
		    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu=\"1\"} 0.000000\n",
		    " 0\n   power=650\n 1\n   power=70 tensor=0\n");
}

static void prometheus_of_other_exporters(void **state)
{
	(void)state;
	expect_gpus(
	    "x.prom", "prometheus",
	    "nvidia_smi_power_draw_watts{uuid=\"GPU-1\",instance=\"h03:9835\"} 69.5\n"
	    "nvidia_smi_utilization_gpu_ratio{uuid=\"GPU-1\",instance=\"h03:9835\"} 0.97\n"
	    "nvidia_gpu_power_usage_milliwatts{minor_number=\"2\",instance=\"h04:9400\"} 69500 "
	    "1705416256977\n",
	    "h03 -1 GPU-1\n   power=69.5 util=0.97\nh04 2\n  @1705416256.977 power=69.5\n");
}

static void prometheus_that_knows_the_rank(void **state)
{
	(void)state;
	expect_gpus("x.prom", "prometheus",
		    "gpu_power{rank=\"11\",local_rank=\"3\",host=\"h02\"} 69.5\n"
		    "gpu_util{rank=\"11\",local_rank=\"3\",host=\"h02\"} 100\n",
		    "h02 3 rank 11\n   power=69.5 util=1\n");
}

/* --- JSON --- */

static void json_of_rocm_smi(void **state)
{
	(void)state;
	expect_gpus(
	    "x.json", "gpu-json",
	    "{\"card0\": {\"Temperature (Sensor edge) (C)\": \"36.0\", "
	    "\"Temperature (Sensor junction) (C)\": \"40.0\", "
	    "\"Average Graphics Package Power (W)\": \"93.0\", \"GPU use (%)\": \"7\", "
	    "\"Max Graphics Package Power (W)\": \"500.0\", \"sclk clock speed:\": \"(800Mhz)\"},\n"
	    " \"card1\": {\"Current Socket Graphics Package Power (W)\": \"N/A\", "
	    "\"GPU use (%)\": \"100\"}, \"system\": {\"Driver version\": \"6.1\"}}\n",
	    " 0\n   power=93 limit=500 util=0.07 mhz=800 c=40\n 1\n   util=1\n");
}

static void json_of_amd_smi(void **state)
{
	(void)state;
	expect_gpus(
	    "x.json", "gpu-json",
	    "[\n {\"gpu\": 0, \"usage\": {\"gfx_activity\": {\"value\": 97, \"unit\": \"%\"}},\n"
	    "  \"power\": {\"socket_power\": {\"value\": 140, \"unit\": \"W\"}}},\n"
	    " {\"gpu\": 1, \"power\": {\"socket_power\": {\"value\": 540, \"unit\": \"W\"}}}\n]\n",
	    " 0\n   power=140 util=0.97\n 1\n   power=540\n");
}

static void json_lines_of_monitors(void **state)
{
	(void)state;
	expect_gpus(
	    "x.jsonl", "gpu-json",
	    "{\"time\": \"2024-01-16T14:44:16Z\", \"host\": \"h01\", \"gpu\": 3, \"power_w\": "
	    "69.5}\n"
	    "{\"time\": 1705416258.25, \"host\": \"h01\", \"rank\": 7, \"power_w\": 70.5}\n"
	    "{\"time\": 1705416258.25, \"host\": \"h02\", \"gpus\": [{\"power\": 70}, "
	    "{\"power\": 71}]}\n"
	    "{\"time\": 1705416258.25, \"host\": \"h03\", \"power\": [10, 20]}\n"
	    "{\"time\": \"2021-12-06 04:19:35\", \"cpu_usage\": 3, \"gpu_usage:1\": 56, "
	    "\"gpu_power_limit:1\": 250}\n"
	    "{\"_timestamp\": 1705416258.25, \"system.gpu.5.powerWatts\": 69, "
	    "\"system.gpu.5.gpu\": 100}\n",
	    "h01 3\n  @1705416256.000 power=69.5\nh01 -1 rank 7 rank 7\n  @1705416258.250 "
	    "power=70.5\n"
	    "h02 0\n  @1705416258.250 power=70\nh02 1\n  @1705416258.250 power=71\n"
	    "h03 0\n  @1705416258.250 power=10\nh03 1\n  @1705416258.250 power=20\n"
	    " 1\n  @1638764375.000 limit=250 util=0.56\n"
	    " 5\n  @1705416258.250 power=69 util=1\n");
}

static void json_of_gpustat(void **state)
{
	(void)state;
	expect_gpus(
	    "x.json", "gpu-json",
	    "{\"hostname\": \"h01\", \"query_time\": \"2024-01-16T14:44:16.5\", \"gpus\": "
	    "[\n {\"index\": 2, \"name\": \"NVIDIA H100\", \"temperature.gpu\": 30, "
	    "\"utilization.gpu\": 100, \"power.draw\": 69, \"enforced.power.limit\": 700}\n]}\n",
	    "h01 2\n  @1705416256.500 power=69 limit=700 util=1 c=30\n");
}

static void json_of_prometheus_api(void **state)
{
	(void)state;
	expect_gpus(
	    "x.json", "gpu-json",
	    "{\"status\":\"success\",\"data\":{\"resultType\":\"matrix\",\"result\":[{\"metric\":"
	    "{\"__name__\":\"DCGM_FI_DEV_POWER_USAGE\",\"gpu\":\"0\",\"Hostname\":\"h01\"},"
	    "\"values\":[[1705416258.25,\"69.7\"],[1705416268.25,\"70.7\"]]}]}}",
	    "h01 0\n  @1705416258.250 power=69.7\n  @1705416268.250 power=70.7\n");
}

static void a_damaged_line_costs_itself_only(void **state)
{
	struct witnessed w;

	(void)state;
	witness_text(&w, "x.jsonl",
		     "{\"gpu\": 3, \"power_w\": 69.5, \"note\": \"ends in a quote\"}\n"
		     "{\"gpu\": 3, \"power_w\": 70.5, \"note\": \"cut in th\n"
		     "{\"gpu\": 3, \"power_w\": 71.5}\n");
	assert_int_equal(w.status, 0);
	assert_string_equal(told_gpus(w.t), " 3\n   power=69.5\n   power=71.5\n");
	assert_int_equal(w.stats.skipped[SKIP_MALFORMED], 1);
	witness_done(&w);
}

/* --- names and times --- */

static void hosts_in_file_names(void **state)
{
	static const struct {
		const char *path, *host;
	} cases[] = {
		{ "gpu-h01.csv", "h01" },
		{ "a/nvidia-smi_ip-10-0-1-2.csv", "ip-10-0-1-2" },
		{ "node3/nvidia-smi.txt", "node3" },
		{ "host_a/nvidia-smi.txt", "a" },
		{ "lockstep-evidence-nid005030-20261130T021000Z/host_x/nvidia-smi.csv",
		  "nid005030" },
		{ "lockstep-evidence-h01-20261130T021000Z/rank3/pyspy.txt", "h01" },
		{ "reports/14-some-gpus-zero-at-epoch-end/dmon.txt", NULL },
		{ "run2/gpu0.csv", NULL },
		{ "rank3/nvidia-smi.csv", NULL },
		{ "power_2024_01_16.csv", NULL },
		{ "xpu_timer_2rank_metrics.prom", NULL },
		{ "h100-power.csv", NULL },
		{ "t1/gpu.csv", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *host = "";
		size_t len = 0;
		char found[64];

		if (!power_host_of_path(cases[i].path, &host, &len))
			len = 0;
		snprintf(found, sizeof(found), "%.*s", (int)len, host);
		if (strcmp(found, cases[i].host ? cases[i].host : ""))
			print_message("%s\n", cases[i].path);
		assert_string_equal(found, cases[i].host ? cases[i].host : "");
	}
}

static void stamps(void **state)
{
	static const struct {
		const char *text;
		int64_t ms; /* -1: no time */
	} cases[] = {
		{ "2024/01/16 14:44:16.977", 1705416256977 },
		{ "2024-01-16T14:44:16,977Z", 1705416256977 },
		{ "2024-01-16T14:44:16+02:00", 1705409056000 },
		{ "2024-01-16 14:44:16.5 -0800", 1705445056500 },
		{ "20240116 14:44:16", 1705416256000 },
		{ "Tue Jan 16 14:44:16 2024", 1705416256000 },
		{ "Tue Jan 16 02:44:16 PM UTC 2024", 1705416256000 },
		{ "Tue, 16 Jan 2024 14:44:16 GMT", 1705416256000 },
		{ "1705416256", 1705416256000 },
		{ "1705416256.977", 1705416256977 },
		{ "1705416256977", 1705416256977 },
		{ "1705416256977000", 1705416256977 },
		{ "1705416256977000000", 1705416256977 },
		{ "2024/13/16 14:44:16", -1 },
		{ "2024/01/16 25:44:16", -1 },
		{ "69.75", -1 },
		{ "100", -1 },
		{ "9999999999999999999", -1 },
		{ "", -1 },
		{ "2024/01/16 14:44:16.977 and more", -1 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int64_t ns = stamp_of_text(cases[i].text, strlen(cases[i].text));

		assert_int_equal(ns < 0 ? -1 : ns / 1000000, cases[i].ms);
	}
}

static void names_lead_to_one_row_each(void **state)
{
	enum gpu_unit unit;

	(void)state;
	assert_int_equal(gpu_metric_find("power.draw [W]", 14, &unit)->metric, GPU_POWER);
	assert_int_equal(unit, UNIT_W);
	assert_int_equal(gpu_metric_find("GPU use (%)", 11, &unit)->metric, GPU_UTILIZATION);
	assert_int_equal(unit, UNIT_PERCENT);
	assert_int_equal(gpu_metric_find("power [mW]", 10, &unit)->metric, GPU_POWER);
	assert_int_equal(unit, UNIT_MILLIWATT);
	assert_null(gpu_metric_find("loss", 4, NULL));
	assert_null(gpu_metric_find("", 0, NULL));
}

/* --- the shared samples --- */

static void monitor_of_eight_gpus(void **state)
{
	struct witnessed w;
	size_t len;
	char *text = shared_file("telemetry/superbench_monitor.jsonl", &len);

	(void)state;
	witness_text_step(&w, "monitor.jsonl", text, len, 0);
	assert_string_equal(w.format, "gpu-json");
	assert_int_equal(w.t->gpus.n, 8);
	for (size_t i = 0; i < 8; i++) {
		assert_int_equal(w.t->gpus.v[i].seen, 5);
		assert_float_equal(w.t->gpus.v[i].samples[0].limit_w, 250, 0.1);
	}
	witness_done(&w);
	free(text);
}

static void sentinel_of_dcgm(void **state)
{
	struct witnessed w;
	size_t len;
	char *text = shared_file("telemetry/dcgm_exporter_readme_sentinel.prom", &len);

	(void)state;
	witness_text_step(&w, "x.prom", text, len, 0);
	assert_string_equal(told_gpus(w.t),
			    " 0 GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52\n   mhz=139\n");
	witness_done(&w);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prometheus_joins_the_metrics_of_a_gpu),
		cmocka_unit_test(prometheus_blanks_are_no_values),
		cmocka_unit_test(profiling_ratios_of_zero_beside_work_are_no_evidence),
		cmocka_unit_test(prometheus_of_other_exporters),
		cmocka_unit_test(prometheus_that_knows_the_rank),
		cmocka_unit_test(json_of_rocm_smi),
		cmocka_unit_test(json_of_amd_smi),
		cmocka_unit_test(json_lines_of_monitors),
		cmocka_unit_test(json_of_gpustat),
		cmocka_unit_test(json_of_prometheus_api),
		cmocka_unit_test(a_damaged_line_costs_itself_only),
		cmocka_unit_test(hosts_in_file_names),
		cmocka_unit_test(stamps),
		cmocka_unit_test(names_lead_to_one_row_each),
		cmocka_unit_test(monitor_of_eight_gpus),
		cmocka_unit_test(sentinel_of_dcgm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
