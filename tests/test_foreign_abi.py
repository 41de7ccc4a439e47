#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our declarations of other people's interfaces against their own headers, where these are.

NVTX's and CUPTI's are looked for in $CUDA_HOME (else /usr/local/cuda), those of NCCL's profiler in $NCCL_SOURCE, a
checkout of its public repository. What is not there is skipped, with a word.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
CUDA = pathlib.Path(os.environ.get('CUDA_HOME', '/usr/local/cuda')) / 'include'
NCCL = os.environ.get('NCCL_SOURCE', '')

NVTX = '#include "nvtx3/nvToolsExt.h"\n#include "nvtx3/nvToolsExtPayload.h"\n#include "tracer/nvtx_abi.h"\n'
NVTX_SAME = {
    'NVTX_CB_MODULE_CORE': 'NVTX_CORE', 'NVTX_CB_MODULE_CORE2': 'NVTX_CORE2', 'NVTX_ETID_CALLBACKS': 'NVTX_TABLE_CALLBACKS',
    'NVTX_CBID_CORE_MarkEx': 'NVTX_MARK_EX', 'NVTX_CBID_CORE_MarkW': 'NVTX_MARK_W',
    'NVTX_CBID_CORE_RangeStartEx': 'NVTX_START_EX', 'NVTX_CBID_CORE_RangeStartA': 'NVTX_START_A',
    'NVTX_CBID_CORE_RangeEnd': 'NVTX_END', 'NVTX_CBID_CORE_RangePushEx': 'NVTX_PUSH_EX',
    'NVTX_CBID_CORE_RangePushA': 'NVTX_PUSH_A', 'NVTX_CBID_CORE_RangePushW': 'NVTX_PUSH_W', 'NVTX_CBID_CORE_RangePop': 'NVTX_POP',
    'NVTX_CBID_CORE2_DomainMarkEx': 'NVTX_DOMAIN_MARK_EX', 'NVTX_CBID_CORE2_DomainRangeStartEx': 'NVTX_DOMAIN_START_EX',
    'NVTX_CBID_CORE2_DomainRangeEnd': 'NVTX_DOMAIN_END', 'NVTX_CBID_CORE2_DomainRangePushEx': 'NVTX_DOMAIN_PUSH_EX',
    'NVTX_CBID_CORE2_DomainRangePop': 'NVTX_DOMAIN_POP', 'NVTX_CBID_CORE2_DomainRegisterStringA': 'NVTX_STRING_A',
    'NVTX_CBID_CORE2_DomainRegisterStringW': 'NVTX_STRING_W', 'NVTX_CBID_CORE2_DomainCreateA': 'NVTX_DOMAIN_CREATE_A',
    'NVTX_CBID_CORE2_DomainCreateW': 'NVTX_DOMAIN_CREATE_W', 'NVTX_MESSAGE_TYPE_ASCII': 'NVTX_MESSAGE_A',
    'NVTX_MESSAGE_TYPE_UNICODE': 'NVTX_MESSAGE_W', 'NVTX_MESSAGE_TYPE_REGISTERED': 'NVTX_MESSAGE_STRING',
    'NVTX_PAYLOAD_TYPE_DOUBLE': 'NVTX_PAYLOAD_DOUBLE', 'NVTX_PAYLOAD_TYPE_INT32': 'NVTX_PAYLOAD_I32',
    'NVTX_PAYLOAD_TYPE_FLOAT': 'NVTX_PAYLOAD_FLOAT', 'NVTX_PAYLOAD_TYPE_EXT': 'NVTX_PAYLOAD_EXTENDED',
    'sizeof(nvtxEventAttributes_t)': 'sizeof(struct nvtx_attributes)', 'sizeof(nvtxPayloadData_t)': 'sizeof(struct nvtx_data)',
    'sizeof(NvtxExportTableCallbacks)': 'sizeof(struct nvtx_callbacks)',
    'offsetof(nvtxEventAttributes_t, payload)': 'offsetof(struct nvtx_attributes, payload)',
    'offsetof(nvtxEventAttributes_t, reserved0)': 'offsetof(struct nvtx_attributes, reserved)',
    'offsetof(nvtxEventAttributes_t, messageType)': 'offsetof(struct nvtx_attributes, message_type)',
    'offsetof(nvtxEventAttributes_t, message)': 'offsetof(struct nvtx_attributes, message)',
    'offsetof(nvtxPayloadData_t, payload)': 'offsetof(struct nvtx_data, payload)',
}


def nccl_same():
    """Their event of a version against ours; 6 is as 5 where we read it."""
    fields = {'coll': {'seqNumber': 'seq', 'func': 'func', 'count': 'count', 'datatype': 'datatype', 'algo': 'algo', 'proto': 'proto'},
              'p2p': {'func': 'func', 'count': 'count', 'datatype': 'datatype', 'peer': 'peer'}}
    same = {'ncclProfileColl': 'NCCL_EVENT_COLL', 'ncclProfileP2p': 'NCCL_EVENT_P2P'}
    for theirs in (2, 3, 4, 5, 6):
        event, ours = f'ncclProfilerEventDescr_v{theirs}_t', min(theirs, 5)
        same[f'sizeof({event})'] = f'sizeof(struct nccl_event_{ours})'
        same[f'sizeof((({event} *)0)->type)'] = f'sizeof(((struct nccl_event_{ours} *)0)->type)'
        same[f'sizeof(ncclProfiler_v{theirs}_t)'] = 'sizeof(struct nccl_plugin_5)'
        for kind, rows in fields.items():
            extra = {'name': 'name', 'commHash': 'hash'} if theirs < 4 else {}
            for a, b in (rows | extra).items():
                same[f'offsetof({event}, {kind}.{a})'] = f'offsetof(struct nccl_event_{ours}, {kind}.{b})'
        for a, b in (('init', 'init'), ('startEvent', 'start'), ('stopEvent', 'stop'), ('recordEventState', 'state'), ('finalize', 'finalize')):
            same[f'offsetof(ncclProfiler_v{theirs}_t, {a})'] = f'offsetof(struct nccl_plugin_5, {b})'
    return same


CUPTI = '#include <cupti.h>\n#include "tracer/cupti_abi.h"\n'


def cupti_same():
    """Records of CUPTI 11.8 to 13, whichever of them these headers know, against one declaration of ours."""
    fields = {
        ('CUpti_ActivityKernel9', 'CUpti_ActivityKernel10'): ('cupti_kernel', {
            'kind': 'kind', 'start': 'start', 'end': 'end', 'completed': 'completed', 'deviceId': 'device', 'contextId': 'context',
            'streamId': 'stream', 'correlationId': 'correlation', 'gridId': 'grid', 'name': 'name', 'graphNodeId': 'graph_node',
            'graphId': 'graph'}),
        ('CUpti_ActivityMemcpy5', 'CUpti_ActivityMemcpy6'): ('cupti_memcpy', {
            'copyKind': 'copy_kind', 'bytes': 'bytes', 'start': 'start', 'end': 'end', 'streamId': 'stream', 'correlationId': 'correlation',
            'graphNodeId': 'graph_node', 'graphId': 'graph'}),
        ('CUpti_ActivityMemset3', 'CUpti_ActivityMemset4'): ('cupti_memset', {
            'bytes': 'bytes', 'start': 'start', 'end': 'end', 'streamId': 'stream', 'correlationId': 'correlation'}),
        ('CUpti_ActivityMemcpyPtoP3', 'CUpti_ActivityMemcpyPtoP4'): ('cupti_peer', {
            'bytes': 'bytes', 'start': 'start', 'end': 'end', 'streamId': 'stream', 'correlationId': 'correlation'}),
        ('CUpti_ActivitySynchronization', 'CUpti_ActivitySynchronization2'): ('cupti_sync', {
            'type': 'type', 'start': 'start', 'end': 'end', 'streamId': 'stream', 'correlationId': 'correlation', 'contextId': 'context'}),
        ('CUpti_ActivityExternalCorrelation',): ('cupti_correlation', {
            'externalKind': 'external_kind', 'externalId': 'id', 'correlationId': 'correlation'}),
    }
    same = {
        'CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL': 'CUPTI_KERNEL', 'CUPTI_ACTIVITY_KIND_MEMCPY': 'CUPTI_MEMCPY',
        'CUPTI_ACTIVITY_KIND_MEMSET': 'CUPTI_MEMSET', 'CUPTI_ACTIVITY_KIND_MEMCPY2': 'CUPTI_MEMCPY_PEER',
        'CUPTI_ACTIVITY_KIND_SYNCHRONIZATION': 'CUPTI_SYNC', 'CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION': 'CUPTI_CORRELATION',
        'CUPTI_ACTIVITY_KIND_RUNTIME': 'CUPTI_RUNTIME', 'CUPTI_ACTIVITY_KIND_DRIVER': 'CUPTI_DRIVER',
        'CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2': 'CUPTI_CUSTOM_2', 'CUPTI_ERROR_MAX_LIMIT_REACHED': 'CUPTI_END',
        'CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT': 'CUPTI_DEVICE_BUFFERS', 'CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER': 'CUPTI_ZEROED',
        'CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER': 'CUPTI_PER_THREAD',
        'CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000': '211', 'CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060': '430',
        'CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000': '311', 'CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020': '41',
        'CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020': '51', 'CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020': '131',
        'CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020': '165', 'CUPTI_RUNTIME_TRACE_CBID_cudaEventSynchronize_v3020': '137',
        'CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyPeerAsync_v4000': '161',
        'CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DAsync_v3020': '145', 'CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_v3020': '147',
        'CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel': '307', 'CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx': '652',
        'CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch': '514', 'CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync': '306',
        'CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2': '277', 'CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2': '279',
        'CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2': '281', 'CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async': '216',
        'CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async': '220',
    }
    for types, (ours, rows) in fields.items():
        for theirs in types:
            for a, b in rows.items():
                same[f'offsetof({theirs}, {a})'] = f'offsetof(struct {ours}, {b})'
                same[f'sizeof((({theirs} *)0)->{a})'] = f'sizeof(((struct {ours} *)0)->{b})'
    return same


def check(name, headers, same, includes):
    lines = [headers]
    for theirs, ours in same.items():
        lines.append(f'_Static_assert((long)({theirs}) == (long)({ours}), "{theirs} against {ours}");')
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / 'same.c'
        source.write_text('#include <stdint.h>\n#include <stddef.h>\n#include <stdbool.h>\n#include <sys/types.h>\n' + '\n'.join(lines) + '\n')
        cc = os.environ.get('CC', 'cc').split()
        done = subprocess.run([*cc, '-std=gnu17', '-D_GNU_SOURCE', '-fsyntax-only', f'-I{ROOT}/src', f'-I{ROOT}/include',
                               *[f'-I{i}' for i in includes], str(source)], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f'FAILED {name}\n{done.stderr[:3000]}')
        return 1
    print(f'ok {name}: {len(same)} numbers')
    return 0


def main():
    failed = 0
    if (CUDA / 'nvtx3' / 'nvToolsExt.h').exists():
        failed += check('nvtx', NVTX, NVTX_SAME, [CUDA])
    else:
        print('skipped: no NVTX headers')
    if (CUDA / 'cupti.h').exists():
        failed += check('cupti', CUPTI, cupti_same(), [CUDA])
    else:
        print('skipped: no CUPTI headers')
    example = pathlib.Path(NCCL) / 'plugins' / 'profiler' / 'example' / 'nccl'
    if not NCCL or not example.exists():
        example = pathlib.Path(NCCL) / 'ext-profiler' / 'example' / 'nccl'  # to 2.28
    if NCCL and (example / 'profiler_v6.h').exists():
        headers = '#include "err.h"\n#include "profiler.h"\n#include "tracer/nccl_abi.h"\n'
        failed += check('nccl', headers, nccl_same(), [example])
    else:
        print('skipped: no NCCL source ($NCCL_SOURCE)')
    return failed


if __name__ == '__main__':
    sys.exit(main())
