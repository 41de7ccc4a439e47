#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# format.sh - every C file is as clang-format leaves it, and says its licence first.
cd "$(dirname "$0")/../.." || exit 1
status=0
files=$(find src tests fuzz bench include -name '*.[ch]' 2>/dev/null | sort)
# shellcheck disable=SC2086
clang-format --dry-run -Werror $files || status=1
for file in $files; do
	head -n 1 "$file" | grep -q 'SPDX-License-Identifier: Apache-2.0' || {
		echo "$file: the first line states no licence"
		status=1
	}
	[ "$(wc -l <"$file")" -le 800 ] || {
		echo "$file: longer than 800 lines"
		status=1
	}
done
exit $status
