#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpus of the counters of shards: a small file of each kind, whole and cut."""
import gzip
import json
import os
import sys
import tarfile

from seeds import HERE, put

sys.path.insert(0, os.path.join(HERE, "../../tests/gen"))
import shard_files as made  # noqa: E402

KINDS = {
    "idx": made.idx([10, 20, 30]),
    "idx_old": made.idx_old([10, 20]),
    "npy": made.npy((3, 4)),
    "npy_flat": made.npy((9,), version=2),
    "parquet": made.parquet([(10, 100), (20, 250)]),
    "arrow_stream": made.arrow([(10, 100), (20, 250)]),
    "arrow_file": made.arrow([(10, 100)], as_file=True),
    "tar_pax": made.tar(["a.jpg", "a.json", "d" * 150 + "/b.c"], form=tarfile.PAX_FORMAT)[:6144],
    "tar_gnu": made.tar(["a.jpg", "x/", "n" * 150 + ".c"], form=tarfile.GNU_FORMAT)[:5120],
    "tar_gz": gzip.compress(made.tar(["a.jpg", "b.jpg"])[:2560]),
    "info": json.dumps({"splits": {"train": {"num_examples": 7}, "test": {"num_examples": 2}}}).encode(),
    "mds": json.dumps({"shards": [{"samples": 3}, {"samples": 4}]}).encode(),
    "jsonl": b'{"input_ids": [1, 2, 3]}\n\n{"input_ids": 5}\n \r\n{"x": "y"}',
    "array": b'[{"input_ids": [1, 2]}, {"input_ids": 3}]',
    "text_gz": gzip.compress(b"a\nb\n\nc"),
    "csv": b"rank,blocks,tokens\n0,5,100\n1,6,120\n",
    "tsv": b"# x\nblocks\trank\n5\t0\n7\t1\n",
    "numbers": b"5\n6\n7\n",
    "pairs": b"0 5\n1 6\n",
    "object": b'{"0": 5, "rank1": 6, "rank_2": "7"}',
    "rows": b'[{"rank": 1, "blocks": 5}, {"rank": 0, "blocks": 5.0, "tokens": 9}]',
    "columns": b'{"rank": [1, 0], "blocks": {"0": 5, "1": 6}, "world_size": 2}',
    "lines": b'{"rank": 0, "blocks": 5}\n{"rank": 1, "blocks": 5}\n',
    "bad": b"rank,blocks\n0,-5\n0,x\n,\n99999999999999999999,1e9\n",
}

if __name__ == "__main__":
    for name, data in KINDS.items():
        put("shards", name, b"\x01" + data)
        if len(data) > 40:
            put("shards", name + "_cut", b"\x02" + data[:len(data) * 2 // 3])
