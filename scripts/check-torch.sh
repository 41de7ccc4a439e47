#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-torch.sh - tests that run a real training job, in a venv kept by PyTorch's version.
#
# BUILD is the folder of the build (default build).
# --prepare makes the venv and does no more.
# TORCH_TESTS=quick leaves out tests that take minutes, as CI does.
# TORCH is the version; TORCH_INDEX an index URL for pip, to choose the build (the CPU one is enough).
set -u
cd "$(dirname "$0")/.." || exit 1

version=${TORCH:-2.13.0}
venv=.venv-torch-$version
logs=build-check-logs
mkdir -p $logs

# The tests of a file that are run; all where none is said.
quick_of() { # FILE
	[ "${TORCH_TESTS:-all}" = quick ] || return
	case $1 in
	test_even.py) echo fsdp1_of_few_steps_hangs_and_even_ends_it ;;
	test_hurt.py) echo it_is_killed ;;
	test_hooks.py) echo ddp_of_four_ranks_has_the_same_losses_and_tells_all ;;
	test_run_jobs.py) echo torch_save_cut_anywhere ;;
	test_live_jobs.py) echo compute_straggler_is_named ;;
	esac
}

prepare() {
	[ -e "$venv/ready" ] && return 0
	local source=python3
	# a distribution's python3 may come without venv
	"$source" -c 'import ensurepip' 2>/dev/null || source=$(command -v /usr/bin/python3)
	rm -rf "$venv"
	"$source" -m venv "$venv" &&
		"$venv/bin/pip" install --quiet --disable-pip-version-check \
			${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "torch==$version" numpy &&
		touch "$venv/ready"
}

if [ "${1:-}" = --prepare ]; then
	prepare >$logs/torch-venv.log 2>&1
	exit
fi

begin=$SECONDS passed=0 failed=0
if prepare >$logs/torch-venv.log 2>&1; then
	for test in tests/torch/*.py; do
		case $(basename "$test") in
		run.py | test_*.py) ;;
		*) continue ;;
		esac
		LOCKSTEP=$PWD/${BUILD:-build}/lockstep "$venv/bin/python" "$test" $(quick_of "$(basename "$test")") \
			>$logs/torch.log 2>&1
		status=$?
		ok=$(grep -c '^ok ' $logs/torch.log)
		bad=$(grep -c '^FAILED ' $logs/torch.log)
		[ $status = 0 ] || [ "$bad" -gt 0 ] || bad=1
		passed=$((passed + ok)) failed=$((failed + bad))
		[ $status = 0 ] || tail -n 60 $logs/torch.log
	done
else
	failed=1
	tail -n 20 $logs/torch-venv.log
	echo "No venv with torch $version; TORCH_INDEX=URL chooses another index, see make help."
fi
[ $((passed + failed)) -gt 0 ] || { echo "check-torch.sh: no test in tests/torch"; failed=1; }
[ -z "${CHECK_RESULTS:-}" ] || echo "torch $passed $failed" >>"$CHECK_RESULTS"
printf '%-24s %s (%d passed, %d failed, %d s)\n' torch \
	"$([ $failed = 0 ] && echo ok || echo FAILED)" $passed $failed $((SECONDS - begin))
[ $failed = 0 ]
