#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpus of the checkpoint reader: every form, its pickle alone, and cut ones."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests"))
import checkpoint_made as made  # noqa: E402
from seeds import put  # noqa: E402

ZIP, PLAIN = made.torch_zip(made.state(7, size=40)), made.torch_zip(made.state(7, size=40), trailers=False)
ROW, SAFE = made.torch_row(made.state(7, size=40)), made.safetensors({"a": made.noise(16), "b": made.noise(8)})
with tempfile.TemporaryDirectory() as d:
    made.dcp(d)
    with open(os.path.join(d, ".metadata"), "rb") as f:
        METADATA = f.read()
SEEDS = {
    "zip": b"\0" + ZIP, "zip_cut": b"\0" + ZIP[:-30], "zip_plain": b"\0" + PLAIN, "row": b"\0" + ROW,
    "row_cut": b"\0" + ROW[:-9], "bare": b"\0" + made.pickled({"step": 3})[0], "safetensors": b"\1" + SAFE,
    "safetensors_cut": b"\1" + SAFE[:-3], "json": b'\2{"global_step": 5}', "metadata": b"\3" + METADATA,
    "pickle": b"\3" + made.pickled(made.state(7))[0], "pickle4": b"\3" + made.pickled(made.state(7), 4)[0],
}
for name, data in SEEDS.items():
    put("checkpoint", name, data)
