#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# gpu.sh [LIBLOCKSTEP] - the kernels' channel on a real GPU, in at most 8 minutes: records, graphs, phases in
# the backward, a flood, torch.profiler and nsys beside us, and what it costs. One GPU is enough.
#
# Needs a driver and nvcc ($CUDA_HOME); $PYTHON is one with torch, else that part is skipped.
set -u
cd "$(dirname "$0")/.." || exit 1
library=${1:-build/liblockstep.so}
cuda=${CUDA_HOME:-/usr/local/cuda}
python=${PYTHON:-python3}

command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q GPU || { echo "skipped: no GPU"; exit 0; }
[ -x "$cuda/bin/nvcc" ] || { echo "skipped: no nvcc in $cuda"; exit 0; }
[ -e "$library" ] || { echo "gpu.sh: no $library; make builds it"; exit 1; }
folder=$(mktemp -d -p /dev/shm lockstep-gpu-XXXXXX) || exit 1
trap 'rm -rf "$folder"' EXIT
"$cuda/bin/nvcc" -O2 -std=c++17 -I"$cuda/include" tests/gpu_program.cu -o "$folder/program" -lpthread -ldl || exit 1
timeout 470 python3 tests/gpu_check.py "$library" "$folder/program" "$folder" "$python"
