#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpora of the readers of dumps: Flight Recorder, RAS, Inspector."""
import json
import os
import pickle
import sys

from seeds import put

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
import make_dumps  # noqa: E402


def entry(i, name="nccl:all_reduce", **more):
    e = {"frames": [{"name": "f", "filename": "a.py", "line": 3}], "record_id": i, "pg_id": 0, "process_group": ("0", "default_pg"), "thread_id": "1", "collective_seq_id": i,
         "p2p_seq_id": 0, "op_id": i, "profiling_name": name, "time_created_ns": 1_700_000_000_000_000_000 + i, "input_sizes": [[4, 8]], "input_dtypes": ["Float"],
         "output_sizes": [[4, 8]], "output_dtypes": ["Float"], "state": "scheduled", "time_discovered_started_ns": None, "time_discovered_completed_ns": None, "retired": False,
         "timeout_ms": 600000, "is_p2p": False}
    e.update(more)
    return e


def dump(*entries, **more):
    return {"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}, "comm_lib_version": "2.27",
            "pg_status": {"0": {"last_enqueued_collective": 2, "last_started_collective": -1, "last_completed_collective": 1}}, "entries": list(entries), **more}


SMALL = dump(entry(1), entry(2), entry(3, "nccl:send 0->1", is_p2p=True, p2p_seq_id=1), entry(4, "nccl:coalesced", input_sizes=[], output_sizes=[]))


def native(entries):
    p, names = make_dumps.header(0, 16, {"tp": 3, "dp": 1})
    return bytes(p.out) + make_dumps.entries(0, p.memo, names, entries, 0)[0]


RAS = {"nccl_version": "2.28.9", "timestamp": "2026-07-30 10:14:02", "communicators_count": 1, "communicators": [
    {"hash": "0x5e37", "size": 2, "ranks": [{"rank": 0, "host": "10.0.0.1", "pid": 1, "cuda_dev": 0, "nvml_dev": 0, "status": {"init_state": 0, "async_error": 0, "abort_flag": False},
                                             "collective_counts": {"AllReduce": 9}}],
     "missing_ranks": [{"rank": 1, "host": "unknown", "pid": -1, "cuda_dev": 1, "nvml_dev": 1, "status": {"unresponsive": True, "considered_dead": False}}]}], "ras": {"timeouts_count": 0}}
RAS_TEXT = """Job summary
===========
(total)   per node  per process    (total)  (total)
      2          2            1          4        4

    0         1         2         2         4         4   RUNNING  MISMATCH

DEAD
  Process 7 on node n2 managing GPU 1

#0-0 (fa93) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 3 -- GPU 1 (NVML 5) managed by process 7 on node n2

#0-0 (fa93) MISMATCH
  Communicator ranks have different AllGather operation counts
  2 ranks have launched up to operation 640
  Rank 2 has launched up to operation 641 -- GPU 0 managed by process 17 on node n2

  Communicator ranks have different status
  2 ranks have status NOCOMM
  Rank 1 -- [process information not found]
"""
EVENT = {"timestamp": "2026-07-30 10:15:31", "group": "LIFECYCLE", "event": "PEER_DEAD", "peer": {"host": "h", "pid": 4, "cuda_devs": [1], "nvml_devs": [1]}, "details": ""}
OPERATION = {"header": {"id": "0xe6", "rank": 4, "n_ranks": 8}, "metadata": {"dump_timestamp_us": 1752867229276385, "hostname": "h", "pid": 4},
             "coll_perf": {"coll": "AllReduce", "coll_sn": 7, "event_trace_sn": {"kernel_events": [{"channel_id": 0}]}}}
P2P = {"header": {"id": "0xe7", "rank": 4, "n_ranks": 8}, "p2p_perf": {"p2p": "Send", "p2p_sn": 3}}


def main():
    whole = native(12)
    own = b"\x80\x02}(X\x07\0\0\0entries]q\0(h\0h\0eX\x01\0\0\0k}q\x01(h\0h\x01uu."
    for name, data in {
        "native": whole, "cut": whole[:900], "eighty_seven": whole[:87], "empty": native(1)[:0] + pickle.dumps(dump(), protocol=2), **{f"python{i}": pickle.dumps(SMALL, protocol=i) for i in range(2, 6)},
        "loose": pickle.dumps(json.loads(json.dumps(SMALL)), protocol=4), "global": pickle.dumps(SMALL, protocol=2)[:-1] + b"cos\nsystem\n.", "own": own,
        "future": pickle.dumps(dump(entry(1, new=[1.5, {"x": (1, 2, 3, 4)}, 2**70, b"x", {3}], version="3.1")), protocol=4).replace(b"builtins", b"nowhere."),
        "lengths": b"\x80\x02}(X\xff\xff\xff\xff", "laughs": b"\x80\x02]q\0(" + b"".join(b"](" + b"h%c" % i * 9 + b"eq%c" % (i + 1) for i in range(20)) + b"e.",
    }.items():
        put("fr_pickle", name, data)
    text = json.dumps(SMALL, indent=1)
    for name, data in {"sound": json.dumps(SMALL), "indented": text, "cut": text[:700], "empty": '{"version": "2.10", "pg_status": {}}', "deep": '{"entries": ' + "[" * 90,
                       "commas": text.replace(",", ""), "bare": json.dumps(SMALL["entries"]), "words": '{"entries": [{"profiling_name": NaN, "state": nul, "retired": 1e400, "op_id": -}]}',
                       "long": '{"pg_status": {}, "x": "' + "y" * 70000 + '", "entries": [{"profiling_name": "a"}]}'}.items():
        put("fr_json", name, data)
    for name, data in {"json": json.dumps(RAS, indent=2), "no_comma": json.dumps(RAS, indent=2).replace('"nvml_dev": 1,', '"nvml_dev": 1'), "cut": json.dumps(RAS)[:300],
                       "twice": json.dumps(RAS) + "\n" + json.dumps(RAS), "text": RAS_TEXT, "event": json.dumps(EVENT, indent=2), "event_text":
                       "[2026-07-30 10:15:31] PEER_DEAD: Process 4 on node n managing GPU 1\n"}.items():
        put("ras", name, data)
    lines = "\n".join(json.dumps(x) for x in (OPERATION, P2P, OPERATION)) + "\n"
    for name, data in {"lines": lines, "pretty": json.dumps(OPERATION, indent=2), "cut": lines[:-30], "damaged": lines.replace('"rank": 4', '"rank": ??', 1)}.items():
        put("inspector", name, data)


if __name__ == "__main__":
    main()
