#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# wheel.sh [FOLDER] - builds the wheel into FOLDER (dist), from a build of its own whose program finds
# the libraries beside it.
set -eu
cd "$(dirname "$0")/.."
build=${BUILD_WHEEL:-build-wheel}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! {
	[ -e "$build/build.ninja" ] ||
		meson setup "$build" --buildtype=release -Dc_link_args='-Wl,-rpath,$ORIGIN/lib'
	ninja -C "$build" lockstep liblockstep.so python/_lockstep.abi3.so
} >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	exit 1
fi
exec python3 scripts/wheel.py wheel "$build" "${1:-dist}"
