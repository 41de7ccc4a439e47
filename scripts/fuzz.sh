#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# fuzz.sh - each libFuzzer target for FUZZ_SECONDS, beginning from its corpus; a crash is kept in
# build-fuzz/ and fails.
set -u
cd "$(dirname "$0")/.." || exit 1

[ -e build-fuzz/build.ninja ] || CC=clang meson setup build-fuzz -Dfuzzers=true \
	-Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 >/dev/null || exit 1
ninja -C build-fuzz --quiet || exit 1
status=0
for target in build-fuzz/fuzz/fuzz_*; do
	[ -x "$target" ] && [ -f "$target" ] || continue
	name=$(basename "$target")
	mkdir -p build-fuzz/corpus/"$name" fuzz/corpus/"${name#fuzz_}"
	if "$target" -max_total_time="${FUZZ_SECONDS:-60}" -rss_limit_mb=2048 -timeout=20 \
		-artifact_prefix=build-fuzz/ build-fuzz/corpus/"$name" fuzz/corpus/"${name#fuzz_}" \
		>build-fuzz/"$name".log 2>&1; then
		tail -n 1 build-fuzz/"$name".log | sed "s/^/$name: /"
	else
		tail -n 40 build-fuzz/"$name".log
		status=1
	fi
done
exit $status
