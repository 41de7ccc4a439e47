#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the readers' seed corpora: small inputs of every kind and every known damage."""
import gzip
import io
import os
import tarfile
import zipfile

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def put(target, name, data):
    folder = os.path.join(HERE, target)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def event(ph="X", cat="cpu_op", name="aten::add", ts="1000.5", dur="2.25", args='"Ev Idx": 0'):
    return ('{"ph": "%s", "cat": "%s", "name": "%s", "pid": 1, "tid": 2, "ts": %s, "dur": %s, "args": {%s}}'
            % (ph, cat, name, ts, dur, args))


def trace(*events, tail='"baseTimeNanoseconds": 1700000000000000000'):
    return '{"schemaVersion": 1, "traceEvents": [\n%s\n], %s}' % (",\n".join(events), tail)


NCCL = ('"stream": 20, "device": 0, "correlation": 7, "Collective name": "allreduce", "In msg nelems": 4, '
        '"Out msg nelems": 4, "Group size": 2, "dtype": "Float", "Process Group Name": "0", '
        '"Process Group Ranks": "[0, 1]", "Seq": 3')
DISTRIBUTED = ('"distributedInfo": {"backend": "nccl", "rank": 1, "world_size": 2, "pg_config": [{"pg_name": "0", '
               '"pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}, {"pg_name": "1", "ranks": "[0]"}]}, '
               '"deviceProperties": [{"id": 0, "name": "GPU"}], "host_name": "node"')
SOUND = trace(event(), event(cat="kernel", name="ncclDevKernel_AllReduce(x)", args=NCCL),
              event(cat="user_annotation", name="gloo:all_reduce", args='"Input Dims": [[4, 5], [3]]'),
              event(cat="cuda_runtime", name="cudaLaunchKernel", args='"correlation": 7'),
              event(ph="s", cat="ac2g"), event(cat="gpu_memcpy", args='"bytes": 10, "memory bandwidth (GB/s)": inf'),
              tail=DISTRIBUTED)
TRACES = {
    "sound": SOUND,
    "array": "[" + event() + "]",
    "empty": "",
    "cut": SOUND[:900],
    "backslash": trace(event(name="C:\\Users\\x\\"), event()),
    "quotes": trace(event(name='f("a", "b")'), event()),
    "control": trace(event(name="a\nb\x01"), event()),
    "latin1": trace(event(), event()).encode().replace(b"aten", b"\xe4\xff"),
    "numbers": trace(event(ts="1e15", dur="-1"), event(ts="NaN"), event(ts='"12.5"'), event(ts="9" * 30)),
    "died": trace('{"ph": "X", "cat": "cpu_op", "name": "a", ' + event()),
    "commas": '{"traceEvents": [' + event() + ",,],,}",
    "deep": '{"traceEvents": [{"args": ' + "[" * 100 + "]" * 100 + "}]}",
    "long": trace(event(name="x" * 70000), event()),
    "mtia": trace(event(cat="mtia_ccp_events", args='"correlation": 1, "stream": 1'),
                  event(cat="mtia_ccp_events", args='"size": 16')),
    "comms": trace(event(name="record_param_comms", args='"Rank": 1, ' + NCCL),
                   event(name="c10d::_allgather_base_", args='"Input Dims": [[8, 2], [1, 2], []]')),
}
VALUES = {
    "object": '{"a": [1, -2.5e3, "x\\"y", {"b": null}], "c": "\\u00e4\\ud83d\\ude00"}',
    "stray": '{"a": "x"y", "b": ["p"q", "r"], "c": "list["x"]"}',
    "path": '{"a": "C:\\dir\\", "b": 1}',
    "missing": '{"a": , "b": 1 "c": [1 2,], }',
    "escaped": '{"a": "say \\"x\\", \\"y\\": 1}", "b": 1}',
    "words": '[inf, -inf, NaN, Infinity, true, nul]',
    "number": "1753550898687486.7836,",
    "deep": "[{" * 80,
    "string": '"' + "x" * 1100 + '\\"' + '"',
}


def archives():
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w", format=tarfile.PAX_FORMAT) as t:
        for name, data in (("rank0.json", SOUND.encode()), ("n" * 150 + ".json", b"[]"), ("empty", b"")):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            t.addfile(info, io.BytesIO(data))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        z.writestr(zipfile.ZipInfo("stored.json"), "[]")
        info = zipfile.ZipInfo("packed.json")
        info.compress_type = zipfile.ZIP_DEFLATED
        z.writestr(info, SOUND)
    return tar.getvalue(), out.getvalue()


# A zstd frame by hand: one raw block "[]", and one of 128 KB that says one byte only.
ZSTD_RAW = bytes.fromhex("28b52ffd 0038 110000 5b5d".replace(" ", ""))
ZSTD_RLE = bytes.fromhex("28b52ffd 0038 030010 20".replace(" ", ""))


def main():
    for name, text in TRACES.items():
        put("kineto", name, text)
    for name, text in VALUES.items():
        put("json_scan", name, text)
    packed = gzip.compress(SOUND.encode(), mtime=0)
    tar, zipped = archives()
    for name, data in {
        "plain": SOUND[:200], "gzip": packed, "gzip_cut": packed[:-20], "gzip_two": packed + packed + b"\0\0\0",
        "gzip_damaged": packed[:60] + b"\xff\xff\xff" + packed[63:], "zstd_raw": ZSTD_RAW, "zstd_rle": ZSTD_RLE,
        "zstd_cut": ZSTD_RAW[:-1], "lks": "LKSTEP1\n\1\0\0\0", "tar": tar[:1024], "zip": "PK\3\4",
    }.items():
        put("input", name, data)
    for name, data in {"tar": tar, "tar_cut": tar[:1300], "zip": zipped, "zip_cut": zipped[:-30], "none": "hello"}.items():
        put("archive", name, data)


if __name__ == "__main__":
    main()
