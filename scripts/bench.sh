#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bench.sh LOCKSTEP [NAME...] - all figures of bench/, or those named, one line each.
cd "$(dirname "$0")/.." || exit 1
exec "$(scripts/python.sh)" bench/run.py "$@"
