# SPDX-License-Identifier: Apache-2.0
"""Kernel, operator, collective and group names as PyTorch's profiler writes them, by GPU and by age of NCCL."""

GPUS = {
    'a100': {'device': 'NVIDIA A100-SXM4-80GB', 'memory': 85097971712, 'major': 8, 'sms': 108, 'intra': 220e3, 'inter': 23e3},
    'h100': {'device': 'NVIDIA H100 80GB HBM3', 'memory': 85049999360, 'major': 9, 'sms': 132, 'intra': 350e3, 'inter': 45e3},
    'b200': {'device': 'NVIDIA B200', 'memory': 191514935296, 'major': 10, 'sms': 148, 'intra': 650e3, 'inter': 48e3},
    'mi300': {'device': 'AMD Instinct MI300X', 'memory': 206141652992, 'major': 9, 'sms': 304, 'intra': 300e3, 'inter': 45e3},
}  # intra, inter: bytes a microsecond of a GPU's links in the node and out of it

_FLASH = 'Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>'
_COMMON = {
    'embed': 'void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long, unsigned int, 2, 2, -2, true>(int)',
    'norm': 'void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float, c10::BFloat16 const*)',
    'norm_bwd': 'void at::native::(anonymous namespace)::layer_norm_grad_input_kernel<c10::BFloat16, float>(c10::BFloat16 const*)',
    'gelu': 'void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl(at::TensorIteratorBase&)::{lambda()#1}>(int)',
    'gelu_bwd': 'void at::native::vectorized_elementwise_kernel<4, at::native::GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&)>(int)',
    'softmax': 'void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(float*, float const*, int, int, int)',
    'softmax_bwd': 'void (anonymous namespace)::softmax_warp_backward<float, float, float, 10, true, false>(float*, float const*, int)',
    'l2': 'void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::LpNormFunctor<float>>(int)',
    'adam': 'void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::FusedAdamMathFunctor<float, 4, true>>(int)',
    'add': 'void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>(int)',
    'route': 'void at::native::radixSortKVInPlace<-2, -1, 32, 4, c10::BFloat16, long, unsigned int>(int)',
}
KERNELS = {
    'a100': dict(_COMMON, qkv='ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_tn',
                 out='ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn',
                 up='ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_32x3_tn',
                 down='ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn',
                 dgrad='ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_nn',
                 wgrad='ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_nt',
                 attn=f'void flash_fwd_kernel<{_FLASH}, false, true, false, true, true>(Flash_fwd_params)',
                 attn_bwd=f'void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<{_FLASH}, false, true>(Flash_bwd_params)'),
    'h100': dict(_COMMON, qkv='nvjet_hsh_256x128_64x4_2x1_v_bz_coopA_TNT', out='nvjet_hsh_128x128_64x6_1x2_h_bz_TNT',
                 up='nvjet_hsh_192x192_64x4_2x1_v_bz_coopB_TNT', down='nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_TNT',
                 dgrad='nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT', wgrad='nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NTT',
                 attn='void cutlass::device_kernel<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2>>>(Params)',
                 attn_bwd='void cutlass::device_kernel<flash::FlashAttnBwdSm90<flash::CollectiveMainloopBwdSm90<2>>>(Params)'),
    'b200': dict(_COMMON, qkv='nvjet_tst_256x256_64x4_2x1_2cta_v_bz_TNT', out='nvjet_tst_128x192_64x6_2x1_v_bz_TNT',
                 up='nvjet_tst_256x192_64x4_2x1_2cta_v_bz_TNT', down='nvjet_tst_192x256_64x4_2x1_2cta_v_bz_TNT',
                 dgrad='nvjet_tst_256x256_64x4_2x1_2cta_v_bz_NNT', wgrad='nvjet_tst_256x256_64x4_2x1_2cta_v_bz_NTT',
                 attn='cudnn_generated_fort_native_sdpa_sm100_flash_fprop_f16_knob_7_128x128x128_4x1x1',
                 attn_bwd='cudnn_generated_fort_native_sdpa_sm100_flash_bprop_f16_knob_3_128x128x128_4x1x1'),
    'mi300': dict(_COMMON, qkv='Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1',
                  out='Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x128x64_MI16x16x1',
                  up='Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x208x64_MI16x16x1',
                  down='Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x160x64_MI16x16x1',
                  dgrad='Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1',
                  wgrad='Cijk_Ailk_Bjlk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x32_MI16x16x1',
                  attn='attn_fwd', attn_bwd='bwd_kernel_dk_dv_dq'),
}
OPERATORS = {
    'embed': 'aten::embedding', 'norm': 'aten::native_layer_norm', 'norm_bwd': 'aten::native_layer_norm_backward',
    'gelu': 'aten::gelu', 'gelu_bwd': 'aten::gelu_backward', 'softmax': 'aten::_log_softmax',
    'softmax_bwd': 'aten::_log_softmax_backward_data', 'l2': 'aten::_foreach_norm', 'adam': 'aten::_fused_adamw_',
    'add': 'aten::add_', 'route': 'aten::topk', 'attn': 'aten::_flash_attention_forward',
    'attn_bwd': 'aten::_flash_attention_backward',
}  # every other kind is a matrix product: aten::mm

_COLLECTIVE = {  # operation: (args' name, annotation, new kernel, old kernel)
    'all_reduce': ('allreduce', 'nccl:all_reduce', 'AllReduce_Sum_{t}', 'AllReduce_RING_LL_Sum_{t}'),
    'all_gather': ('_allgather_base', 'nccl:_all_gather_base', 'AllGather', 'AllGather_RING_LL_Sum_int8_t'),
    'reduce_scatter': ('_reduce_scatter_base', 'nccl:_reduce_scatter_base', 'ReduceScatter_Sum_{t}',
                       'ReduceScatter_RING_LL_Sum_{t}'),
    'broadcast': ('broadcast', 'nccl:broadcast', 'Broadcast', 'Broadcast_RING_LL_Sum_int8_t'),
    'all_to_all': ('all_to_allv', 'nccl:all_to_all', 'SendRecv', 'SendRecv_RING_SIMPLE_Sum_int8_t'),
    'send': ('send', 'nccl:send', 'SendRecv', 'SendRecv_RING_SIMPLE_Sum_int8_t'),
    'recv': ('recv', 'nccl:recv', 'SendRecv', 'SendRecv_RING_SIMPLE_Sum_int8_t'),
    'coalesced': ('coalesced', 'nccl:coalesced', 'SendRecv', 'SendRecv_RING_SIMPLE_Sum_int8_t'),
    'barrier': ('barrier', 'nccl:all_reduce_barrier', 'AllReduce_Sum_{t}', 'AllReduce_RING_LL_Sum_{t}'),
}
_TYPES = {'BFloat16': ('bf16', '__nv_bfloat16', 2), 'Float': ('f32', 'float', 4), 'Long': ('u8', 'int8_t', 8)}


def type_bytes(dtype):
    return _TYPES[dtype][2]


def collective(operation, dtype, gpu, old):
    """(args' name, annotation, kernel name) of one collective."""
    name, annotation, new_name, old_name = _COLLECTIVE[operation]
    new_type, old_type, _ = _TYPES[dtype]
    if gpu == 'mi300':
        return name, annotation, 'ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)'
    if old:
        return name, annotation, f'ncclKernel_{old_name.format(t=old_type)}(ncclDevComm*, unsigned long, ncclWork*)'
    body = new_name.format(t=new_type)
    tail = '' if 'SendRecv' in body else '_RING_LL'
    return name, annotation, f'ncclDevKernel_{body}{tail}(ncclDevKernelArgsStorage<4096ul>)'


GROUP_STYLES = {
    'megatron': {'world': 'default_pg', 'dp': 'DATA_PARALLEL_GROUP', 'tp': 'TENSOR_MODEL_PARALLEL_GROUP',
                 'pp': 'PIPELINE_MODEL_PARALLEL_GROUP', 'mp': 'MODEL_PARALLEL_GROUP', 'ep': 'EXPERT_MODEL_PARALLEL_GROUP'},
    'mesh': {'world': 'default_pg', 'dp': 'mesh_dp', 'tp': 'mesh_tp', 'pp': 'mesh_pp', 'mp': 'mesh_mp', 'ep': 'mesh_ep'},
    'undefined': {'world': 'default_pg', 'dp': 'undefined', 'tp': 'undefined', 'pp': 'undefined', 'mp': 'undefined',
                  'ep': 'undefined'},
}
PHASE_STYLES = {  # forward, backward, optimizer; None: that phase is not marked
    'plain': ('forward', 'backward', 'optimizer'),
    'megatron': ('forward-compute', 'backward-compute', 'optimizer'),
    'ddp': ('DistributedDataParallel.forward', None, 'Optimizer.step#AdamW.step'),
    'none': (None, None, None),
}
LOADER = 'enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__'
