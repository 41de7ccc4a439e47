#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpora of the readers of whole recordings: timelines, Nsight Systems."""
import json
import os
import sqlite3
import sys
import tempfile

from seeds import put

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "gen"))
import make_nsys  # noqa: E402
import make_timeline  # noqa: E402


def timeline(*words):
    with tempfile.TemporaryDirectory() as out:
        make_timeline.main(["--out", out, "--steps", "2", "--micro", "2", "--pp", "2", *words])
        with open(os.path.join(out, "timeline.json"), encoding="utf-8") as f:
            return f.read()


def recording(change=None, *words):
    with tempfile.TemporaryDirectory() as out:
        make_nsys.main(["--out", out, "--steps", "1", "--gpus", "2", *words])
        path = os.path.join(out, "node0.sqlite")
        db = sqlite3.connect(path)
        db.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE correlationId % 4")
        db.execute("DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId % 4")
        for line in change or ():
            db.execute(line)
        db.commit()
        db.execute("PRAGMA page_size = 512")
        db.execute("VACUUM")
        db.close()
        with open(path, "rb") as f:
            return f.read()


def event(**more):
    return json.dumps({"name": "forward-compute", "ph": "X", "pid": 0, "tid": 0, "ts": 1.5, "dur": 2, "args": {"step": 1}, **more})


LABELS = ('{"name": "thread_name", "ph": "M", "pid": 0, "tid": 0, "args": {"name": "PP rank 0, TP rank 0, compute"}},'
          '{"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "DP rank [0]"}}')


def main():
    sound = timeline("--dp", "2", "--tp", "2")
    odd = [event(dur=-1), event(args={}), event(args={"step": -1}), event(args={"step": 1e30}), event(name="gc"), event(pid="a", tid="b"),
           event(name="forward-send"), event(name="tp-all-gather"), '{"ph": "X", "name": "x", "ts": NaN, "dur": inf, "args": {"step": 1}}', "17", "null"]
    for name, text in {
        "sound": sound, "raw": timeline("--style", "raw"), "object": timeline("--shape", "object", "--dp", "1"), "cut": sound[:len(sound) // 2],
        "one": f"[{event()},{LABELS}]", "odd": "[" + ",".join(odd + [LABELS]) + "]", "no_labels": f"[{event()}]", "empty": "[]",
        "far": "[" + event() + "," + LABELS.replace("PP rank 0", "PP rank 60000") + "]", "stray": f"[{event()}}} x {{{event()},{LABELS}]",
    }.items():
        put("timeline", name, text)
    whole = recording()
    for name, data in {
        "sound": whole, "loop": recording(None, "--ranges", "loop"), "old": recording(None, "--schema", "old"), "cut": whole[:len(whole) * 2 // 3],
        "types": recording(["UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'x' WHERE correlationId % 8 = 0",
                            "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = -9e999 WHERE correlationId % 12 = 0", "UPDATE StringIds SET id = -id"]),
        "view": recording(["DROP TABLE NVTX_EVENTS", "CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
                           "SELECT x AS start FROM c"]),
        "header": whole[:100], "other": b"SQLite format 3\0",
    }.items():
        put("nsys", name, data)


if __name__ == "__main__":
    main()
