#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-long.sh - what takes too long for every change: analyzers, fuzzing by the minute, all tests
# under the sanitizers, the slow ones too.
set -u
cd "$(dirname "$0")/.." || exit 1

status=0
step() {
	local name=$1
	shift
	echo "== $name"
	"$@" || {
		echo "FAILED: $name"
		status=1
	}
}
analyze_cppcheck() {
	cppcheck --quiet --std=c11 --enable=warning,portability,performance --inline-suppr \
		--suppress=missingIncludeSystem --suppress=shiftTooManyBitsSigned --suppress=varFuncNullUB \
		'-Djson_array_foreach(a,i,v)=for(i=0;i<json_array_size(a)&&(v=json_array_get(a,i));i++)' \
		'-Djson_object_foreach(o,k,v)=for(k=NULL;(v=json_object_get(o,k));)' \
		'-Djson_object_foreach_safe(o,n,k,v)=for(n=k=NULL;(v=json_object_get(o,k));)' \
		--error-exitcode=1 -D_GNU_SOURCE -Isrc src
}
# That n > 0 of a VEC means memory at v is beyond both analyzers: they are not asked about NULL.
analyze_clang_tidy() {
	[ -e build-check-clang/build.ninja ] || CC=clang meson setup build-check-clang || return
	clang-tidy --quiet -p build-check-clang --warnings-as-errors='*' \
		--checks='-*,bugprone-*,-bugprone-easily-swappable-parameters,-bugprone-reserved-identifier,-bugprone-narrowing-conversions,-bugprone-sizeof-expression,-bugprone-assignment-in-if-condition,-bugprone-implicit-widening-of-multiplication-result,-bugprone-suspicious-string-compare,clang-analyzer-*,-clang-analyzer-optin.performance.Padding,-clang-analyzer-core.NullDereference,-clang-analyzer-security.insecureAPI.*,-clang-analyzer-valist.Uninitialized' \
		src/*/*.c
}
analyze_gcc() {
	[ -e build-analyze/build.ninja ] ||
		meson setup build-analyze -Dc_args='-fanalyzer -Wno-analyzer-malloc-leak -Wno-analyzer-file-leak -Wno-analyzer-null-dereference' || return
	! ninja -C build-analyze lockstep 2>&1 | grep -A 8 -- '-Wanalyzer'
}
sanitized_all() {
	[ -e build-check-asan/build.ninja ] || CC=clang meson setup build-check-asan \
		-Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 || return
	meson test -C build-check-asan --print-errorlogs --timeout-multiplier 20
}

# The program as a whole under the thread sanitizer; make check has the parts that have threads.
threads_whole() {
	[ -e build-check-tsan/build.ninja ] ||
		CC=clang meson setup build-check-tsan -Db_sanitize=thread -Db_lundef=false \
			-Doptimization=1 || return
	TSAN_OPTIONS=halt_on_error=1 meson test -C build-check-tsan --suite threads \
		--suite threads_whole --print-errorlogs --timeout-multiplier 20
}

# 10,000 steps of 12,960 ranks through the pipe, and cases that take long to make.
heavy() {
	local python
	python=$(scripts/python.sh)
	make --no-print-directory all || return
	"$python" tests/run_cases.py build/lockstep heavy- &&
		"$python" tests/gen/healthy.py --lockstep build/lockstep --steps "${HEALTHY_STEPS:-10000}" \
			--most-mb 1000
}

# Watchers killed 200 times, and 1,000 saves and evaluations of every kind.
watchers() {
	local python
	python=$(scripts/python.sh)
	make --no-print-directory all || return
	export LOCKSTEP=$PWD/build/lockstep
	WATCH_KILLS=200 "$python" tests/test_watch_alerts.py && LONG=1 "$python" tests/test_watch.py
}

# Nine days' steps of a traced job in minutes.
soak() {
	local python
	python=$(scripts/python.sh)
	make --no-print-directory all && ninja -C build --quiet live_job || return
	"$python" tests/soak.py build/lockstep build/live_job
}

step cppcheck analyze_cppcheck
step clang-tidy analyze_clang_tidy
step gcc-analyzer analyze_gcc
step sanitizers sanitized_all
step threads threads_whole
step watchers watchers
step soak soak
step torch env HURT_ROUNDS=100 make --no-print-directory check-torch
step fuzzing scripts/fuzz.sh
step heavy heavy
[ $status = 0 ] && echo "all passed"
exit $status
