#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bench.sh LOCKSTEP - all figures of bench/, one line each.
cd "$(dirname "$0")/.." || exit 1
exec "$(scripts/python.sh)" bench/run.py "$1"
