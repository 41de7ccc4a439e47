#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training loop on a GPU with NVTX ranges, and torch.profiler in its middle; for gpu.sh.

    gpu_torch.py STEPS FIRST LAST TRACE   profiles steps FIRST to LAST into TRACE; prints how many kernels that holds
"""
import json
import sys
import time

import torch

steps, first, last, trace = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)]).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(64, 512, device='cuda')
nvtx = torch.cuda.nvtx
# on autograd's own thread, where the backward's kernels are launched
model.register_full_backward_pre_hook(lambda *_: nvtx.range_push('backward'))
x.requires_grad_(True)
x.register_hook(lambda g: nvtx.range_pop())
profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA, torch.profiler.ProfilerActivity.CPU])
for i in range(steps):
    if i == first:
        profiler.start()
    nvtx.range_push(f'iteration {i}')
    nvtx.range_push('forward')
    loss = model(x).square().mean()
    nvtx.range_pop()
    loss.backward()
    nvtx.range_push('optimizer')
    optimizer.step()
    optimizer.zero_grad()
    nvtx.range_pop()
    nvtx.range_pop()
    torch.cuda.synchronize()
    if i == last:
        profiler.stop()
        profiler.export_chrome_trace(trace)
    time.sleep(0.1)
time.sleep(2.5)
with open(trace, encoding='utf-8') as f:
    print(sum(e.get('cat') == 'kernel' for e in json.load(f)['traceEvents']))
