#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# demo.sh LOCKSTEP - diagnoses each sample in examples/demo and ends with a report on the screen.
set -u

lockstep=$1
last=
for sample in examples/demo/*/; do
	[ -d "$sample" ] || continue
	last=${sample%/}
done
if [ -z "$last" ]; then
	echo "demo.sh: no sample in examples/demo" >&2
	exit 1
fi
for sample in examples/demo/*/; do
	sample=${sample%/}
	printf '\n$ lockstep diagnose %s\n\n' "$sample"
	"$lockstep" diagnose "$sample"
	status=$?
	# 0 to 2 are answers; anything else is a fault of ours
	[ $status -le 2 ] || exit $status
done
