#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed corpus of what `lockstep run` reads of a job's output."""
from seeds import put

LINES = {
    "steps": "step 1/30 loss 1.0\nstep 2/30 loss 0.9\nstill at step 2\n",
    "words": "Epoch 1\nglobal_step: 10\n[iteration 12/ 500] x\niter=3\n{'step': 40}\nepoch 2 step 1\n",
    "bars": "  3%|#   | 12/400 [00:01<00:30]\r  4%|#   | 13/400 [00:01<00:30]\r",
    "long": "x" * 2000 + "step 9\nstep " + "9" * 40 + "\n",
}
for name, text in LINES.items():
    put("run_words", name, "\x05" + text)
