#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# all.sh LOCKSTEP - every check of this folder, one line each and the reasons of those that fail.
set -u
cd "$(dirname "$0")/../.." || exit 1

python=$(scripts/python.sh)
status=0
for check in scripts/lint/[a-z]*; do
	case $check in
	*/all.sh | */__pycache__) continue ;;
	*.py) run=("$python" "$check" "$1") ;;
	*) run=("$check" "$1") ;;
	esac
	if output=$("${run[@]}" 2>&1); then
		echo "ok      $(basename "$check")"
	else
		echo "FAILED  $(basename "$check")"
		echo "$output"
		status=1
	fi
done
exit $status
