#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# deps.sh SET... - installs what is missing for these sets: build, python, test, check, long.
#
# What is there is found out by looking for it, not by asking a package manager, so that any
# distribution will do; only what is missing is asked of apt. Without root and sudo, or without apt,
# the exact line to type is printed and the status is 1.
set -u

missing=

need() { # need PACKAGE COMMAND...: the command succeeds if the package is there
	package=$1
	shift
	"$@" >/dev/null 2>&1 || missing="$missing $package"
}

has_library() {
	for folder in /usr/lib /usr/lib64 /usr/lib/*-linux-gnu /usr/local/lib; do
		[ -e "$folder/$1" ] && return 0
	done
	return 1
}

has_fuzzer_runtime() {
	[ -e "$(clang -print-file-name=libclang_rt.fuzzer-"$(uname -m)".a)" ] ||
		[ -e "$(clang -print-file-name=libclang_rt.fuzzer.a)" ]
}

has_python_headers() {
	include=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])') && [ -e "$include/Python.h" ]
}

has_jsonschema() {
	python=$("$(dirname "$0")"/python.sh) && "$python" -c 'import jsonschema'
}

# Debian names the runtime after clang's version.
clang_runtime() {
	version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p')
	echo "libclang-rt-${version:-14}-dev"
}

for set in "$@"; do
	case $set in
	build)
		need gcc command -v gcc
		need libc6-dev test -e /usr/include/stdio.h
		need meson command -v meson
		need ninja-build command -v ninja
		need pkg-config command -v pkg-config
		need libisal-dev pkg-config --exists libisal
		need libzstd-dev pkg-config --exists libzstd
		need libjansson-dev pkg-config --exists jansson
		need libarchive13 has_library libarchive.so.13
		need libsqlite3-0 has_library libsqlite3.so.0
		need libcurl4 has_library libcurl.so.4
		need scdoc command -v scdoc
		;;
	python)
		need python3-dev has_python_headers
		;;
	test)
		need libcmocka-dev pkg-config --exists cmocka
		need python3 command -v python3
		need python3-jsonschema has_jsonschema
		need zstd command -v zstd
		need zip command -v zip
		;;
	check)
		need clang command -v clang
		need clang-format command -v clang-format
		command -v apt-cache >/dev/null && need "$(clang_runtime)" has_fuzzer_runtime
		;;
	long)
		need clang-tidy command -v clang-tidy
		need cppcheck command -v cppcheck
		;;
	*)
		echo "deps.sh: no set \"$set\"" >&2
		exit 64
		;;
	esac
done
[ -z "$missing" ] && exit 0

as_root=
[ "$(id -u)" = 0 ] || as_root="sudo -n"
line="apt-get install -y --no-install-recommends$missing"
if ! command -v apt-get >/dev/null; then
	echo "Missing (by their Debian names):$missing" >&2
	echo "Install them with this system's package manager, then run make again." >&2
	exit 1
fi
if [ -n "$as_root" ] && ! $as_root true 2>/dev/null; then
	echo "Missing:$missing. As root, type:" >&2
	echo "  apt-get update && $line" >&2
	exit 1
fi
echo "Installing:$missing"
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
# shellcheck disable=SC2086
if ! { $as_root apt-get update && $as_root $line; } >"$log" 2>&1; then
	tail -n 20 "$log" >&2
	rm -f "$log"
	echo "That failed; the line was: apt-get update && $line" >&2
	exit 1
fi
rm -f "$log"
