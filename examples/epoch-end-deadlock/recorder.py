# SPDX-License-Identifier: Apache-2.0
"""PyTorch's Flight Recorder on request, for jobs on CPUs. On GPUs NCCL's process group does this by itself: with
TORCH_NCCL_DEBUG_INFO_PIPE_FILE set each rank has a FIFO, and any byte in it makes the rank write its record to the file
that TORCH_FR_DUMP_TEMP_FILE (TORCH_NCCL_DEBUG_INFO_TEMP_FILE) begins."""
import os
import select
import threading


def begin(rank):
    """A thread that waits for requests, if the environment asks for it."""
    pipe, to = os.environ.get('TORCH_NCCL_DEBUG_INFO_PIPE_FILE'), None
    for name in ('TORCH_FR_DUMP_TEMP_FILE', 'TORCH_NCCL_DEBUG_INFO_TEMP_FILE'):
        to = to or os.environ.get(name)
    if pipe and to:
        path = f'{pipe}{rank}.pipe'
        if os.path.exists(path):
            os.remove(path)
        os.mkfifo(path)
        threading.Thread(target=wait, args=(path, f'{to}{rank}'), name='recorder', daemon=True).start()


def wait(path, to):
    from torch._C._distributed_c10d import _dump_fr_trace
    fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK)     # open for writing too: without it a reader is told of an end for ever
    while True:
        select.select([fifo], [], [])
        os.read(fifo, 4096)
        with open(to, 'wb') as f:
            f.write(_dump_fr_trace())
