#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# headers_alone.sh - each header compiles by itself: it includes what it needs.
cd "$(dirname "$0")/../.." || exit 1
status=0
for header in $(find src include -name '*.h' 2>/dev/null | sort); do
	printf '#include "%s"\n' "${header#src/}" |
		gcc -std=gnu17 -D_GNU_SOURCE -Wall -Wextra -Wshadow -Werror -Isrc -Iinclude -fsyntax-only -x c - ||
		{
			echo "$header does not stand alone"
			status=1
		}
done
exit $status
