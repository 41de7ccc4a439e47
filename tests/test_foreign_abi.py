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
