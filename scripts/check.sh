#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check.sh - all suites that need no PyTorch; prints each one's result and a last line of counts.
#
# A suite's output goes to build-check-logs/NAME.log and is shown only if it fails. With
# CHECK_RESULTS a line "NAME PASSED FAILED" a suite is appended to that file.
set -u
cd "$(dirname "$0")/.." || exit 1

logs=build-check-logs
# some tests mostly wait
export MESON_TESTTHREADS=${MESON_TESTTHREADS:-$(($(nproc) + 1))}
results=${CHECK_RESULTS:-$logs/results}
python=$(scripts/python.sh)
passed=0 failed=0
mkdir -p $logs
[ -n "${CHECK_RESULTS:-}" ] || : >"$results"

# meson's own count if the log holds one, else the suite counts as one test
count_of() { # LOG STATUS
	local ok bad
	ok=$(sed -n 's/^Ok: *\([0-9]*\)/\1/p' "$1" | tail -n 1)
	bad=$(sed -n 's/^\(Fail\|Timeout\|Unexpected Pass\): *\([0-9]*\).*/\2/p' "$1" | paste -sd+ | sed 's/^$/0/')
	if [ -n "$ok" ]; then
		bad=$((bad))
		[ "$2" = 0 ] || [ $bad -gt 0 ] || bad=1
		echo "$ok $bad"
	elif [ "$2" = 0 ]; then
		echo "1 0"
	else
		echo "0 1"
	fi
}

suite() { # suite NAME COMMAND...
	local name=$1 begin=$SECONDS status ok bad
	shift
	"$@" >$logs/"$name".log 2>&1
	status=$?
	read -r ok bad < <(count_of $logs/"$name".log $status)
	passed=$((passed + ok)) failed=$((failed + bad))
	echo "$name $ok $bad" >>"$results"
	printf '%-24s %s (%d passed, %d failed, %d s)\n' "$name" \
		"$([ $status = 0 ] && echo ok || echo FAILED)" "$ok" "$bad" $((SECONDS - begin))
	[ $status = 0 ] || tail -n 60 $logs/"$name".log
}

configure() { # configure FOLDER CC OPTIONS...
	local folder=$1 compiler=$2
	shift 2
	[ -e "$folder/build.ninja" ] || CC=$compiler meson setup "$folder" -Dwerror=true "$@"
}

build_gcc() {
	configure build-check-gcc gcc --buildtype=release -Ddebug=true && ninja -C build-check-gcc
}
# With clang's warnings.
build_address() {
	configure build-check-asan clang -Db_sanitize=address,undefined -Db_lundef=false \
		-Doptimization=1 && ninja -C build-check-asan
}
build_threads() {
	configure build-check-tsan clang -Db_sanitize=thread -Db_lundef=false -Doptimization=1 &&
		ninja -C build-check-tsan liblockstep.so tests/test_pool tests/test_tracer \
			tests/tracer_victim tests/tracer_loads tests/test_nvtx tests/test_nccl \
			tests/test_cupti tests/standin_cupti.so
}

gcc_release() {
	meson test -C build-check-gcc --no-rebuild --no-suite hostile --print-errorlogs
}
# The corpora of the fuzz targets are among the tests.
sanitized() {
	build_address &&
		ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 \
			UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
			meson test -C build-check-asan --no-rebuild --no-suite slow --print-errorlogs \
			--timeout-multiplier 4
}
threads() {
	build_threads && TSAN_OPTIONS=halt_on_error=1 meson test -C build-check-tsan --no-rebuild \
		--suite threads --print-errorlogs --timeout-multiplier 4
}

suite gcc-build build_gcc
# Many tests mostly wait, so the other builds go on beside them, at the lowest priority. What they
# have to say is said by the suites, which build again what is not there.
(
	renice -n 19 -p $BASHPID
	build_address
	build_threads
) >$logs/builds.log 2>&1 &
suite gcc-release gcc_release
wait
suite address-undefined sanitized
suite threads threads
for check in scripts/lint/[a-z]*; do
	name=$(basename "$check")
	case $name in
	all.sh | common.py | __pycache__) continue ;;
	*.py) suite "lint-${name%.py}" "$python" "$check" build-check-gcc/lockstep ;;
	*.sh) suite "lint-${name%.sh}" "$check" build-check-gcc/lockstep ;;
	esac
done

echo "$passed passed, $failed failed"
[ $failed = 0 ]
