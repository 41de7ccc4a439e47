#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The python3 to use: one that has jsonschema, which checks need, else any.
for python in python3 /usr/bin/python3; do
	if "$python" -c 'import jsonschema' 2>/dev/null; then
		echo "$python"
		exit 0
	fi
done
echo python3
