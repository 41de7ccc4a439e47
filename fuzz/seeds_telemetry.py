#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpora of the readers of power, counters and events."""
from seeds import put

CSV = ("timestamp, index, uuid, power.draw [W], utilization.gpu [%], clocks_event_reasons.active\n"
       "2024/01/16 14:44:16.977, 0, GPU-a, 69.75 W, 100 %, 0x0000000000000060\n"
       "2024/01/16 14:44:16.979, 1, GPU-b, [N/A], [Not Supported], 0x0000000000000001\n")
TABLE = ("Tue Jan 16 14:44:16 2024\n| NVIDIA-SMI 550.54.15   Driver Version: 550.54.15   CUDA Version: 12.4 |\n"
         "|   0  NVIDIA H100    On  |   00000000:19:00.0 Off |                    0 |\n"
         "| N/A   30C    P0       69W /  700W |     508MiB / 81559MiB  |    100%      Default |\n"
         "| Processes:  |\n|    0   N/A  N/A     12345      C   /usr/bin/python3      500MiB  |\n")
QUERY = ("==============NVSMI LOG==============\nTimestamp : Tue Jan 16 14:44:16 2024\nGPU 00000000:19:00.0\n"
         "    GPU UUID                              : GPU-aa\n    FB Memory Usage\n        Used        : 508 MiB\n"
         "    Utilization\n        Gpu                               : 100 %\n    GPU Power Readings\n"
         "        Power Draw                        : 69.75 W\n    Processes\n        Process ID      : 12345\n")
POWER = {
    "csv": CSV,
    "csv_hosts": "h01: index, power.draw [W]\nh02: index, power.draw [W]\nh01: 0, 69.00 W\nh02: 0, 70.00 W\n",
    "csv_noheader": "2024/01/16 14:44:16.977, 0, 69.75 W, 700.00 W, 100 %, 81559 MiB, 508 MiB\n",
    "csv_wide": "_timestamp,system/gpu.0.powerWatts,system/gpu.0.gpu,system/gpu.1.powerWatts\n1705416256.9,69.1,100,350\n",
    "dmon": "# gpu   pwr gtemp mtemp    sm   mem\n# Idx     W     C     C     %     %\n    0   337    70     -    99    63\n",
    "dmon_time": "#Date       Time        gpu    fb    sm\n 20240104   13:54:35      0    239     6\n",
    "dcgmi": "#Entity   GPUTL    POWER\nID                 W\nGPU 0     100      69.123\n",
    "table": TABLE,
    "table_blank_end": TABLE + "   ",
    "rule_end": "ROCm SMI\n====",
    "query": QUERY,
    "xml": "<nvidia_smi_log>\n<timestamp>Tue Jan 16 14:44:16 2024</timestamp>\n<gpu id=\"0:1:0.0\">\n<utilization>\n"
           "<gpu_util>100 %</gpu_util>\n</utilization>\n</gpu>\n</nvidia_smi_log>\n",
    "rocm": "0: === ROCm System Management Interface ===\n0: GPU  Temp  AvgPwr  SCLK  MCLK  Fan  Perf  PwrCap  VRAM%  GPU%\n"
            "0: 0    36.0c   93.0W   800Mhz  1600Mhz  0%   auto  500.0W    0%   0%\n",
    "rocm_items": "=== ROCm System Management Interface ===\nGPU[0]\t\t: Average Graphics Package Power (W): 93.0\n",
    "rocm_json": '{"card0": {"Average Graphics Package Power (W)": "93.0", "GPU use (%)": "7"}, "system": {}}',
    "amd_json": '[{"gpu": 0, "power": {"socket_power": {"value": 140, "unit": "W"}}}]',
    "json_lines": '{"time": "2024-01-16T14:44:16Z", "host": "h01", "gpu": 3, "power_w": 69.5}\n{"gpu_usage:1": 56}\n',
    "api_json": '{"data":{"result":[{"metric":{"__name__":"DCGM_FI_DEV_POWER_USAGE","gpu":"0"},"values":[[1705416258.25,"69.7"]]}]}}',
}
PROMETHEUS = {
    "dcgm": '# TYPE DCGM_FI_DEV_POWER_USAGE gauge\nDCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-1",Hostname="h01"} 680.5\n'
            'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1"} 9223372036854775794\n',
    "xid": 'DCGM_EXP_XID_ERRORS_COUNT{gpu="1",xid="79"} 1\nDCGM_FI_DEV_XID_ERRORS{gpu="1"} 79\n',
    "time": 'nvidia_gpu_power_usage_milliwatts{minor_number="2",instance="h04:9400"} 69500 1705416256977\n',
    "escapes": 'gpu_power{a="x\\"y\\\\",rank="3"} 1e2 # {trace_id="a"} 1\n',
    "ports": 'node_infiniband_link_downed_total{device="mlx5_0",port="1",instance="h07:9100"} 2\n',
}
COUNTERS = {
    "one": "42\n",
    "state": "1: DOWN\n",
    "listing": "# lockstep counters of n7 at 2026-11-30T02:10:00Z\nmlx5_0/1/counters/symbol_error 0\nmlx5_0/1/state 4: ACTIVE\n",
    "grep": "h01: /sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error:9\n",
    "perfquery": "# Port counters: Lid 12 port 1 (CapMask: 0x5A00)\nSymbolErrorCounter:..............7\n",
    "ibstat": "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Polling\n\t\tRate: 400\n",
    "ethtool": "NIC statistics:\n     rx_packets: 123\n     rx_discards_phy: 12\n",
}
# What the watcher reads besides: by their first byte (fuzz_watch.c).
WATCH = {
    "config": "c[watch]\n# a job\nlog = /a/*.log\njson = yes\n",
    "state": 's{"version":1,"mono_ms":5000,"wall_ms":9000,"boot":"b","step":17,"progress_ms":4000,"line":[1000,1010],'
             '"sources":[{"name":"a","heard_ms":4000,"tells":1}],"ranks":[[3,0,17,4000]],"gpus":[{"host":"h","source":0,'
             '"index":1,"rank":-1,"at_ms":4000,"rested":2}]}',
    "job": "\0JobId=1 JobState=NODE_FAIL Reason=None\n",
    "metrics": '\1lockstep_step{job="a",rank="3"} 17\nDCGM_FI_DEV_POWER_USAGE{gpu="0",Hostname="h01"} 190\n'
               'DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="h01"} 100\n',
    "log": "\2step 1/10 loss 1.5\nstep 2/10 loss nan\nsaving checkpoint to /c/2\n[rank3]: Traceback (most recent call last):\n"
           "[rank3]: ValueError: x\n",
    "gpus": "\4" + CSV,
}
EVENTS = {
    "event": '{"time": "2024-01-16T14:44:16Z", "host": "h01", "text": "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."}\n',
    "array": '[\n{"time": 1705416258.5, "node": "h04", "event": "drained", "rank": 7},\n{"time": 1, "text": "b"}]\n',
    "journal": '{"__REALTIME_TIMESTAMP":"1705416259123456","_HOSTNAME":"h01","SYSLOG_IDENTIFIER":"kernel","MESSAGE":"oom-killer"}\n',
    "inside": '{"events": [{"time": 1705416258, "text": "a\\n[rank5]: b"}]}',
    "cut": '{"time": 1705416258, "text": "a"}\n{"time": 1705416258, "te\n',
    "collect": '{"lockstep_collect": 1, "host": "h01", "time_ns": "1705416256000000000", "ranks": [{"rank": 3, "pid": 7}]}',
}

if __name__ == "__main__":
    for target, files in (("power", POWER), ("prometheus", PROMETHEUS), ("counters", COUNTERS), ("events", EVENTS),
                          ("watch", WATCH)):
        for name, text in files.items():
            put(target, name, text)
