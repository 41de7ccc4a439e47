/* SPDX-License-Identifier: Apache-2.0 */
/* test_power.c - power and utilization in CSV, dmon and tables, each in its dialects. */
#include <malloc.h>

#include "witness_helpers.h"

#include "read/gpu_metric.h"
#include "read/power_table.h"

/* --- CSV --- */

static void csv_takes_columns_by_name_in_any_order(void **state)
{
	(void)state;
	expect_gpus("gpu-h01.csv", "gpu-csv",
		    "power.draw [W], index, timestamp, utilization.gpu [%], name, power.limit [W]\n"
		    "69.75 W, 0, 2024/01/16 14:44:16.977, 100 %, NVIDIA H100 80GB HBM3, 700.00 W\n"
		    "350.10 W, 1, 2024/01/16 14:44:16.979, 97 %, NVIDIA H100 80GB HBM3, 700.00 W\n",
		    "h01 0\n  @1705416256.977 power=69.75 limit=700 util=1\n"
		    "h01 1\n  @1705416256.979 power=350.1 limit=700 util=0.97\n");
}

static void csv_without_units_is_the_same(void **state)
{
	(void)state;
	expect_gpus("x.csv", "gpu-csv",
		    "timestamp, index, power.draw [W], utilization.gpu [%], memory.used [MiB]\r\n"
		    "2024/01/16 14:44:16.977, 3, 69.75, 100, 508\r\n",
		    " 3\n  @1705416256.977 power=69.75 util=1 mib=508\n");
}

static void csv_missing_is_unknown_and_never_zero(void **state)
{
	(void)state;
	expect_gpus(
	    "x.csv", "gpu-csv",
	    "index, power.draw [W], utilization.gpu [%], temperature.gpu\n"
	    "0, [N/A], [Not Supported], 33\n0, ERR!, [Unknown Error], 34\n0, N/A, 0 %, [N/A]\n",
	    " 0\n   c=33\n   c=34\n   util=0\n");
}

static void csv_columns_that_change_midway(void **state)
{
	(void)state;
	expect_gpus("x.csv", "gpu-csv",
		    "index, uuid, power.draw [W]\n0, GPU-a, 69.00 W\n"
		    "index, utilization.gpu [%], power.draw [W]\n0, 100 %, 70.00 W\n"
		    "index, uuid, power.draw [W]\n0, GPU-a, 71.00 W\n",
		    " 0 GPU-a\n   power=69\n   power=70 util=1\n   power=71\n");
}

static void csv_change_without_a_header_goes_by_units(void **state)
{
	(void)state;
	expect_gpus("x.csv", "gpu-csv",
		    "index, power.draw [W]\n0, 69.00 W\n1, 70.00 W\n"
		    "2024/01/16 14:44:16.977, 0, 100 %, 71.00 W\n",
		    " 0\n   power=69\n  @1705416256.977 power=71 util=1\n 1\n   power=70\n");
}

static void csv_without_header_goes_by_units(void **state)
{
	(void)state;
	expect_gpus(
	    "x.csv", "gpu-csv",
	    "2024/01/16 14:44:16.977, 0, 69.75 W, 700.00 W, 100 %, 3 %, 81559 MiB, 508 MiB\n"
	    "2024/01/16 14:44:17.977, 0, 70.75 W, 700.00 W, 99 %, 3 %, 81559 MiB, 509 MiB\n",
	    " 0\n  @1705416256.977 power=69.75 limit=700 util=1 memutil=0.03 mib=508\n"
	    "  @1705416257.977 power=70.75 limit=700 util=0.99 memutil=0.03 mib=509\n");
}

static void csv_of_several_hosts(void **state)
{
	(void)state;
	expect_gpus("x.csv", "gpu-csv",
		    "h01: index, power.draw [W], utilization.gpu [%]\n"
		    "h02: index, power.draw [W], utilization.gpu [%]\n"
		    "h01: 0, 69.00 W, 100 %\nh02: 0, 300.00 W, 99 %\nh01: 1, 70.00 W, 100 %\n",
		    "h01 0\n   power=69 util=1\nh02 0\n   power=300 util=0.99\n"
		    "h01 1\n   power=70 util=1\n");
	/* srun --label numbers tasks: those are no hosts. */
	expect_gpus("x.csv", "gpu-csv", "0: index, power.draw [W]\n0: 0, 69.00 W\n1: 0, 70.00 W\n",
		    "task 0 0\n   power=69\ntask 1 0\n   power=70\n");
}

static void csv_numbers_gpus_that_it_does_not_number(void **state)
{
	(void)state;
	/* by their place in the round */
	expect_gpus("x.csv", "gpu-csv",
		    "timestamp, power.draw [W]\n2024/01/16 14:44:16.977, 69.00 W\n"
		    "2024/01/16 14:44:16.981, 70.00 W\n2024/01/16 14:44:17.977, 71.00 W\n"
		    "2024/01/16 14:44:17.981, 72.00 W\n",
		    " 0\n  @1705416256.977 power=69\n  @1705416257.977 power=71\n"
		    " 1\n  @1705416256.981 power=70\n  @1705416257.981 power=72\n");
	/* by the order of their ids */
	expect_gpus("x.csv", "gpu-csv",
		    "uuid, power.draw [W]\nGPU-b, 69.00 W\nGPU-a, 70.00 W\nGPU-b, 71.00 W\n",
		    " 0 GPU-b\n   power=69\n   power=71\n 1 GPU-a\n   power=70\n");
	/* by the file's name */
	expect_gpus("gpu3.csv", "gpu-csv",
		    "timestamp, power.draw [W]\n2024/01/16 14:44:16.977, 69.00 W\n",
		    " 3\n  @1705416256.977 power=69\n");
}

static void csv_of_scripts(void **state)
{
	(void)state;
	expect_gpus("x.csv", "gpu-csv",
		    "time,host,rank,gpu_id,power_w,gpu_util\n1705416256.9,h02,11,3,69.1,100\n",
		    "h02 3 rank 11\n  @1705416256.900 power=69.1 util=1\n");
	/* wandb: a column a GPU and metric */
	expect_gpus("x.csv", "gpu-csv",
		    "_timestamp,system/gpu.0.powerWatts,system/gpu.0.gpu,system/gpu.1.powerWatts\n"
		    "1705416256.9,69.1,100,350.2\n",
		    " 0\n  @1705416256.900 power=69.1 util=1\n 1\n  @1705416256.900 power=350.2\n");
	/* day and time of day in columns of their own */
	expect_gpus("x.csv", "gpu-csv", "date;time;gpu;power\n2024-01-16;14:44:16;0;69\n",
		    " 0\n  @1705416256.000 power=69\n");
}

static void shares_and_percents_are_told_apart(void **state)
{
	(void)state;
	expect_gpus("x.csv", "gpu-csv", "gpu,power,util\n0,69,0.97\n0,70,1.0\n",
		    " 0\n   power=69 util=0.97\n   power=70 util=1\n");
	/* 1 % and 0 % are percents */
	expect_gpus("x.csv", "gpu-csv", "gpu,power,util\n0,69,1\n0,70,0\n",
		    " 0\n   power=69 util=0.01\n   power=70 util=0\n");
}

static void throttle_reasons_are_words(void **state)
{
	(void)state;
	expect_gpus(
	    "x.csv", "gpu-csv",
	    "index, power.draw [W], clocks_event_reasons.active\n"
	    "0, 69.00 W, 0x0000000000000001\n1, 69.00 W, 0x0000000000000060\n",
	    " 0\n   power=69\n 1 [sw thermal slowdown, hw thermal slowdown]\n   power=69\n");
	expect_gpus("x.csv", "gpu-csv",
		    "index, power.draw [W], clocks_throttle_reasons.hw_slowdown\n"
		    "0, 69.00 W, Not Active\n1, 69.00 W, Active\n",
		    " 0\n   power=69\n 1 [hw slowdown]\n   power=69\n");
}

static void a_table_of_something_else_is_not_taken(void **state)
{
	(void)state;
	assert_string_not_equal(witness_format_of("x.csv", "name,age,time\nbob,3,4\n"), "gpu-csv");
	assert_string_not_equal(witness_format_of("x.csv", "step,loss,lr\n1,2.5,0.1\n2,2.4,0.1\n"),
				"gpu-csv");
	/* A log with one line that looks like it is a log. */
	assert_string_not_equal(
	    witness_format_of("x.log", "iteration 1 | loss 2\niteration 2 | loss 2\n"
				       "0, 69.00 W, 100 %\niteration 3 | loss 2\niteration 4, x\n"),
	    "gpu-csv");
}

/* --- dmon --- */

static void dmon_header_comes_again_and_changes(void **state)
{
	(void)state;
	expect_gpus("h07/dmon.txt", "nvidia-smi-dmon",
		    "# gpu   pwr gtemp mtemp    sm   mem   enc   dec  mclk  pclk\n"
		    "# Idx     W     C     C     %     %     %     %   MHz   MHz\n"
		    "    0   337    70     -    99    63     0     0  9501  1702\n"
		    "    1     -    73     -     0    59     0     0  9501  1641\n"
		    "# gpu    sm   mem   pwr\n# Idx     %     %     W\n"
		    "    0    98    62   338\n",
		    "h07 0\n   power=337 util=0.99 memutil=0.63 mhz=1702 c=70\n"
		    "   power=338 util=0.98 memutil=0.62\n"
		    "h07 1\n   util=0 memutil=0.59 mhz=1641 c=73\n");
}

static void dmon_with_date_and_time(void **state)
{
	(void)state;
	expect_gpus("x", "nvidia-smi-dmon",
		    "#Date       Time        gpu     fb   bar1     sm    mem\n"
		    "#YYYYMMDD   HH:MM:SS    Idx     MB     MB      %      %\n"
		    " 20240104   13:54:35      0    239      3      6      1\n\n"
		    " 20240104   13:54:36      0     74     10      0      0\n",
		    " 0\n  @1704376475.000 util=0.06 memutil=0.01 mib=239\n"
		    "  @1704376476.000 util=0 memutil=0 mib=74\n");
}

static void dmon_of_dcgmi(void **state)
{
	(void)state;
	expect_gpus(
	    "x", "nvidia-smi-dmon",
	    "#Entity   GPUTL    POWER   TMPTR    TENSO\nID                 W       C\n"
	    "GPU 0     100      69.123  33       0.000\nGPU 1     97       N/A     55       "
	    "0.410\n",
	    " 0\n   power=69.123 util=1 c=33 tensor=0\n 1\n   util=0.97 c=55 tensor=0.41\n");
}

/* --- tables --- */

#define TABLE_NEW                                                                                  \
	"+-----------------------------------------------------------------------------------+\n"  \
	"| NVIDIA-SMI 550.54.15        Driver Version: 550.54.15      CUDA Version: 12.4     |\n"  \
	"|-----------------------------------+------------------------+----------------------+\n"  \
	"| GPU  Name           Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"  \
	"| Fan  Temp   Perf    Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"  \
	"|                                   |                        |               MIG M. |\n"  \
	"|===================================+========================+======================|\n"  \
	"|   0  NVIDIA H100 80GB HBM3    On  |   00000000:19:00.0 Off |                    0 |\n"  \
	"| N/A   30C    P0       69W /  700W |     508MiB / 81559MiB  |    100%      Default |\n"  \
	"|                                   |                        |             Disabled |\n"  \
	"+-----------------------------------+------------------------+----------------------+\n"  \
	"|   1  NVIDIA H100 80GB HBM3    On  |   00000000:3B:00.0 Off |                    0 |\n"  \
	"| N/A   31C    P0      ERR! /  700W |     508MiB / 81559MiB  |      0%      Default |\n"  \
	"|                                   |                        |             Disabled |\n"  \
	"+-----------------------------------+------------------------+----------------------+\n"  \
	"\n"                                                                                       \
	"+-----------------------------------------------------------------------------------+\n"  \
	"| Processes:                                                                        |\n"  \
	"|  GPU   GI   CI        PID   Type   Process name                        GPU Memory |\n"  \
	"|        ID   ID                                                         Usage      |\n"  \
	"|===================================================================================|\n"  \
	"|    0   N/A  N/A     12345      C   /usr/bin/python3                       500MiB  |\n"  \
	"+-----------------------------------------------------------------------------------+\n"
#define TABLE_OLD                                                                                  \
	"+-----------------------------------------------------------------------------+\n"        \
	"| NVIDIA-SMI 418.87.01    Driver Version: 418.87.01    CUDA Version: 10.1     |\n"        \
	"|-------------------------------+----------------------+----------------------+\n"        \
	"| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |\n"        \
	"| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |\n"        \
	"|===============================+======================+======================|\n"        \
	"|   0  Tesla V100-SXM2...  On   | 00000000:00:1E.0 Off |                    0 |\n"        \
	"| N/A   42C    P0    66W / 300W |   1000MiB / 16160MiB |     37%      Default |\n"        \
	"+-------------------------------+----------------------+----------------------+\n"

static void tables_of_two_drivers_in_one_file(void **state)
{
	(void)state;
	expect_gpus(
	    "node3/nvidia-smi.txt", "gpu-table",
	    "Tue Jan 16 14:44:16 2024       \n" TABLE_NEW
	    "Tue Jan 16 14:45:16 2024       \n" TABLE_OLD,
	    "node3 0 processes 1\n  @1705416256.000 power=69 limit=700 util=1 mib=508 c=30\n"
	    "  @1705416316.000 power=66 limit=300 util=0.37 mib=1000 c=42\n"
	    "node3 1 processes 0\n  @1705416256.000 limit=700 util=0 mib=508 c=31\n");
}

static void a_table_whose_lines_are_mixed_with_another_host(void **state)
{
	(void)state;
	expect_gpus(
	    "x", "gpu-table",
	    "h01: | NVIDIA-SMI 550.54.15   Driver Version: 550.54.15    CUDA Version: 12.4     |\n"
	    "h02: | NVIDIA-SMI 550.54.15   Driver Version: 550.54.15    CUDA Version: 12.4     |\n"
	    "h01: |   0  NVIDIA H100      On  |   00000000:19:00.0 Off |                    0 |\n"
	    "h02: |   0  NVIDIA H100      On  |   00000000:19:00.0 Off |                    0 |\n"
	    "h02: | N/A   30C    P0       70W /  700W |     5MiB / 81559MiB |    1%   Default |\n"
	    "h01: | N/A   30C    P0       69W /  700W |     5MiB / 81559MiB |  100%   Default |\n",
	    "h01 0\n   power=69 limit=700 util=1 mib=5 c=30\n"
	    "h02 0\n   power=70 limit=700 util=0.01 mib=5 c=30\n");
}

static void gpustat_lines_and_their_heading(void **state)
{
	(void)state;
	expect_gpus("x", "gpu-table",
		    "h01                 Tue Jan 16 14:44:16 2024  550.54.15\n"
		    "[0] NVIDIA H100 80GB HBM3 | 30'C, 100 %,   69 / 700 W |   508 / 81559 MB | "
		    "alice(500M)\n"
		    "[1] NVIDIA H100 80GB HBM3 | 31'C,   0 % |   4 / 81559 MB |\n",
		    "h01 0\n  @1705416256.000 power=69 limit=700 util=1 mib=508 c=30\n"
		    "h01 1\n  @1705416256.000 util=0 mib=4 c=31\n");
}

static void headings_name_the_host_below_them(void **state)
{
	(void)state;
	expect_gpus("x", "gpu-table", "==> node-a1 <==\n" TABLE_OLD "### node-b2 ###\n" TABLE_OLD,
		    "node-a1 0\n   power=66 limit=300 util=0.37 mib=1000 c=42\n"
		    "node-b2 0\n   power=66 limit=300 util=0.37 mib=1000 c=42\n");
	expect_gpus("x", "gpu-csv",
		    "h01\nindex, power.draw [W]\n0, 69.00 W\n1, 70.00 W\n"
		    "host: alpha\nindex, power.draw [W]\n0, 71.00 W\n1, 72.00 W\n",
		    "h01 0\n   power=69\nh01 1\n   power=70\nalpha 0\n   power=71\n"
		    "alpha 1\n   power=72\n");
}

static void query_takes_values_by_section(void **state)
{
	(void)state;
	expect_gpus("x", "gpu-table",
		    "\n==============NVSMI LOG==============\n\n"
		    "Timestamp                                 : Tue Jan 16 14:44:16 2024\n"
		    "Driver Version                            : 550.54.15\n"
		    "Attached GPUs                             : 2\n"
		    "GPU 00000000:19:00.0\n"
		    "    Product Name                          : NVIDIA H100 80GB HBM3\n"
		    "    GPU UUID                              : GPU-aa\n"
		    "    FB Memory Usage\n"
		    "        Total                             : 81559 MiB\n"
		    "        Used                              : 508 MiB\n"
		    "    BAR1 Memory Usage\n"
		    "        Used                              : 1 MiB\n"
		    "    Utilization\n"
		    "        Gpu                               : 100 %\n"
		    "        Memory                            : 3 %\n"
		    "    Clocks Event Reasons\n"
		    "        HW Slowdown                       : Not Active\n"
		    "            HW Thermal Slowdown           : Active\n"
		    "    GPU Power Readings\n"
		    "        Power Draw                        : 69.75 W\n"
		    "        Current Power Limit               : 700.00 W\n"
		    "    Module Power Readings\n"
		    "        Power Draw                        : 900.00 W\n"
		    "    Clocks\n"
		    "        SM                                : 1980 MHz\n"
		    "    Max Clocks\n"
		    "        SM                                : 2980 MHz\n"
		    "    Processes\n"
		    "        Process ID                        : 12345\n"
		    "            Type                          : C\n"
		    "        Process ID                        : 12346\n"
		    "GPU 00000000:3B:00.0\n"
		    "    Utilization\n"
		    "        Gpu                               : 0 %\n"
		    "    GPU Power Readings\n"
		    "        Average Power Draw                : 70.75 W\n"
		    "        Instantaneous Power Draw          : 71.75 W\n"
		    "    Processes                             : None\n",
		    " 0 GPU-aa [hw thermal slowdown] processes 2\n"
		    "  @1705416256.000 power=69.75 limit=700 util=1 memutil=0.03 mib=508 mhz=1980\n"
		    " 1 00000000:3B:00.0 processes 0\n  @1705416256.000 power=71.75 util=0\n");
}

static void query_as_xml(void **state)
{
	(void)state;
	expect_gpus(
	    "x.xml", "gpu-table",
	    "<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n"
	    "<nvidia_smi_log>\n\t<timestamp>Tue Jan 16 14:44:16 2024</timestamp>\n"
	    "\t<gpu id=\"00000000:19:00.0\">\n\t\t<product_name>NVIDIA H100</product_name>\n"
	    "\t\t<uuid>GPU-aa</uuid>\n\t\t<fb_memory_usage>\n\t\t\t<used>508 MiB</used>\n"
	    "\t\t</fb_memory_usage>\n\t\t<bar1_memory_usage>\n\t\t\t<used>1 MiB</used>\n"
	    "\t\t</bar1_memory_usage>\n\t\t<utilization>\n\t\t\t<gpu_util>100 %</gpu_util>\n"
	    "\t\t</utilization>\n\t\t<gpu_power_readings>\n\t\t\t<power_draw>69.75 W</power_draw>\n"
	    "\t\t\t<current_power_limit>700.00 W</current_power_limit>\n"
	    "\t\t</gpu_power_readings>\n\t</gpu>\n</nvidia_smi_log>\n",
	    " 0 GPU-aa\n  @1705416256.000 power=69.75 limit=700 util=1 mib=508\n");
}

static void rocm_table_old_and_new(void **state)
{
	(void)state;
	expect_gpus(
	    "x", "gpu-table",
	    "========================= ROCm System Management Interface =========================\n"
	    "=================================== Concise Info ===================================\n"
	    "GPU  Temp (DieEdge)  AvgPwr  SCLK    MCLK     Fan  Perf  PwrCap  VRAM%  GPU%  \n"
	    "0    36.0c           93.0W   800Mhz  1600Mhz  0%   auto  500.0W    0%   7%    \n"
	    "1    37.0c           N/A     800Mhz  1600Mhz  0%   auto  0.0W      0%   0%    \n"
	    "=============================== End of ROCm SMI Log "
	    "================================\n",
	    " 0\n   power=93 limit=500 util=0.07 mhz=800 c=36\n 1\n   util=0 mhz=800 c=37\n");
	expect_gpus(
	    "x", "gpu-table",
	    "============================ ROCm System Management Interface ======================\n"
	    "====================================== Concise Info ================================\n"
	    "Device  Node  IDs              Temp        Power     Partitions          SCLK    MCLK "
	    "   "
	    "Fan  Perf  PwrCap  VRAM%  GPU%  \n"
	    "              (DID,     GUID)  (Junction)  (Socket)  (Mem, Compute, ID)      \n"
	    "====================================================================================\n"
	    "0       2     0x74a1,   55354  39.0\xc2\xb0"
	    "C      140.0W    NPS1, SPX, 0        132Mhz  900Mhz  0%   auto  750.0W  0%     3%    "
	    "\n"
	    "================================== End of ROCm SMI Log "
	    "=============================\n",
	    " 0\n   power=140 limit=750 util=0.03 mhz=132 c=39\n");
}

static void rocm_items_of_a_gpu_are_one_sample(void **state)
{
	(void)state;
	expect_gpus(
	    "x", "gpu-table",
	    "============================ ROCm System Management Interface ======================\n"
	    "================================ Power Consumption =================================\n"
	    "GPU[0]\t\t: Average Graphics Package Power (W): 93.0\n"
	    "GPU[1]\t\t: Average Graphics Package Power (W): N/A\n"
	    "================================ % time GPU is busy ================================\n"
	    "GPU[0]\t\t: GPU use (%): 0\nGPU[1]\t\t: GPU use (%): 100\n"
	    "GPU[0]\t\t: sclk clock level: 1: (800Mhz)\n"
	    "=============================== End of ROCm SMI Log "
	    "================================\n",
	    " 0\n   power=93 util=0 mhz=800\n 1\n   util=1\n");
}

static void tables_inside_a_log_are_found_by_their_lines(void **state)
{
	static const char *const ours[] = {
		"| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15     CUDA Version: 12.4     |",
		"|   0  NVIDIA H100       On  |   00000000:19:00.0 Off |                    0 |",
		"| N/A   30C    P0       69W /  700W |     5MiB / 81559MiB |  100%   Default |",
		"0    36.0c           93.0W   800Mhz  1600Mhz  0%   auto  500.0W    0%   7%",
	};
	static const char *const not_ours[] = {
		"iteration 5/10 | loss 3.5 | lr 0.1",
		"| step 5 | loss 3.5 |",
		"0: step 7 at 100%",
		"100%",
		"Epoch 1: 50%|#####     | 5/10 [00:01<00:01, 4.9it/s]",
		"",
	};
	struct testimony *t = testimony_new(WITNESS_LOG, "log");
	struct power_table *p = power_table_new(t);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(not_ours); i++)
		assert_false(power_table_line(p, not_ours[i], strlen(not_ours[i]), NO_ID, -1));
	for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
		assert_true(
		    power_table_line(p, ours[i], strlen(ours[i]), NO_ID, 1700000000000000000));
	p = power_table_free(p);
	assert_null(p);
	assert_string_equal(told_gpus(t), " 0\n  @1700000000.000 power=93 limit=500 util=0.07 "
					  "mhz=800 c=36\n  @1700000000.000 power=69 limit=700 "
					  "util=1 mib=5 c=30\n");
	testimony_free(t);
}

/* --- bounds --- */

static void series_stay_bounded_and_keep_the_last(void **state)
{
	struct witnessed w;
	struct buf text = { 0 };
	const struct gpu_series *g;

	(void)state;
	buf_put(&text, "index, power.draw [W]\n", 22);
	for (unsigned i = 0; i < 100001; i++) {
		char line[32];

		buf_put(&text, line, (size_t)snprintf(line, sizeof(line), "0, %u.00 W\n", i % 500));
	}
	witness_text_step(&w, "x.csv", (const char *)text.data, text.len, 0);
	assert_int_equal(w.status, 0);
	g = &w.t->gpus.v[0];
	assert_int_equal(g->seen, 100001);
	assert_true(g->n_samples <= GPU_SAMPLES && g->n_samples >= GPU_SAMPLES / 2);
	assert_float_equal(g->samples[g->n_samples - 1].power_w, 0, 0.01); /* 100000 % 500 */
	witness_done(&w);
	buf_done(&text);
}

static void series_take_no_memory_once_they_are_thinned(void **state)
{
	struct testimony *t = testimony_new(WITNESS_POWER, "x");
	struct gpu_sample s = gpu_sample_unknown();
	struct gpu_series *g = testimony_gpu(t, NO_ID, 0, NO_ID);
	size_t before = 0;

	(void)state;
	for (unsigned i = 0; i < 300000; i++) {
		if (i == 1000)
			before = mallinfo2().uordblks;
		s.power_w = (float)i;
		gpu_series_add(t, g, &s);
	}
	assert_true(mallinfo2().uordblks <= before + 65536);
	assert_float_equal(g->samples[g->n_samples - 1].power_w, 299999, 0.1);
	testimony_free(t);
}

static void names_of_more_gpus_than_are_kept_are_not_kept(void **state)
{
	struct testimony *t = testimony_new(WITNESS_POWER, "x");
	char uuid[24];

	(void)state;
	for (unsigned i = 0; i < GPU_NAMES_MAX + 10; i++)
		gpu_text(t, uuid, (size_t)snprintf(uuid, sizeof(uuid), "GPU-%u", i));
	assert_int_equal(t->names.n, GPU_NAMES_MAX);
	assert_int_equal(t->dropped, 10);
	assert_int_equal(gpu_text(t, "GPU-5", 5), 5); /* those that are known stay known */
	testimony_free(t);
}

static void a_line_without_end_is_cut_and_counted(void **state)
{
	struct witnessed w;
	struct buf text = { 0 };

	(void)state;
	buf_put(&text, "index, power.draw [W]\n0, 69.00 W\n0, ", 37);
	for (unsigned i = 0; i < 200000; i++)
		buf_put(&text, "7", 1);
	buf_put(&text, "\n0, 70.00 W\n", 12);
	witness_text_step(&w, "x.csv", (const char *)text.data, text.len, 0);
	assert_string_equal(told_gpus(w.t), " 0\n   power=69\n   power=70\n");
	assert_int_equal(w.stats.skipped[SKIP_TOO_LONG], 1);
	witness_done(&w);
	buf_done(&text);
}

/* --- the shared samples --- */

static void some_gpus_at_zero_at_epoch_end(void **state)
{
	struct witnessed w;
	size_t len;
	char *text = shared_file("reports/14-some-gpus-zero-at-epoch-end/dmon.txt", &len);

	(void)state;
	witness_text_step(&w, "dmon.txt", text, len, 0);
	assert_string_equal(w.format, "nvidia-smi-dmon");
	assert_int_equal(w.t->gpus.n, 8);
	for (size_t i = 0; i < 8; i++) {
		const struct gpu_series *g = &w.t->gpus.v[i];
		bool idle = i == 1 || i == 4 || i == 6;

		assert_int_equal(g->index, i);
		assert_float_equal(g->samples[g->n_samples - 1].utilization, (idle ? 0.0f : 1.0f),
				   0.001);
		assert_true(g->samples[0].power_w > 300);
		assert_true(g->samples[g->n_samples - 1].power_w < 130);
	}
	witness_done(&w);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(csv_takes_columns_by_name_in_any_order),
		cmocka_unit_test(csv_without_units_is_the_same),
		cmocka_unit_test(csv_missing_is_unknown_and_never_zero),
		cmocka_unit_test(csv_columns_that_change_midway),
		cmocka_unit_test(csv_change_without_a_header_goes_by_units),
		cmocka_unit_test(csv_without_header_goes_by_units),
		cmocka_unit_test(csv_of_several_hosts),
		cmocka_unit_test(csv_numbers_gpus_that_it_does_not_number),
		cmocka_unit_test(csv_of_scripts),
		cmocka_unit_test(shares_and_percents_are_told_apart),
		cmocka_unit_test(throttle_reasons_are_words),
		cmocka_unit_test(a_table_of_something_else_is_not_taken),
		cmocka_unit_test(dmon_header_comes_again_and_changes),
		cmocka_unit_test(dmon_with_date_and_time),
		cmocka_unit_test(dmon_of_dcgmi),
		cmocka_unit_test(tables_of_two_drivers_in_one_file),
		cmocka_unit_test(a_table_whose_lines_are_mixed_with_another_host),
		cmocka_unit_test(gpustat_lines_and_their_heading),
		cmocka_unit_test(headings_name_the_host_below_them),
		cmocka_unit_test(query_takes_values_by_section),
		cmocka_unit_test(query_as_xml),
		cmocka_unit_test(rocm_table_old_and_new),
		cmocka_unit_test(rocm_items_of_a_gpu_are_one_sample),
		cmocka_unit_test(tables_inside_a_log_are_found_by_their_lines),
		cmocka_unit_test(series_stay_bounded_and_keep_the_last),
		cmocka_unit_test(series_take_no_memory_once_they_are_thinned),
		cmocka_unit_test(names_of_more_gpus_than_are_kept_are_not_kept),
		cmocka_unit_test(a_line_without_end_is_cut_and_counted),
		cmocka_unit_test(some_gpus_at_zero_at_epoch_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
