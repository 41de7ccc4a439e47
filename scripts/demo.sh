#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# demo.sh LOCKSTEP - diagnoses each sample in examples/demo, then runs a job of four ranks, traced, of
# which one is slow, and ends with its report on the screen.
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

job=$(dirname "$lockstep")/live_job
[ -x "$job" ] || exit 0
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
printf '\n# A job runs: four ranks that meet in an all-reduce. From step 15 on, rank 2 computes for longer.\n'
printf '$ lockstep trace --out recording -- live_job ranks=4 steps=60 slow=2 from=15\n'
"$lockstep" trace --out "$out/recording" -- "$job" ranks=4 steps=60 slow=2 from=15
