# SPDX-License-Identifier: Apache-2.0
"""Saves as frameworks make them, file after file in their order: what a crash in the middle of one leaves. Each gives
[(path, bytes)], from the first write to the last; a rename is ((from, to), None)."""
import json
import os

import checkpoint_made as made
from checkpoint_made import Tensor, noise


def write(folder, item, cut=None):
    name, data = item
    if data is not None:
        made.write(f'{folder}/{name}', data[:cut])
    elif name[1]:
        os.rename(f'{folder}/{name[0]}', f'{folder}/{name[1]}')
    else:
        os.unlink(f'{folder}/{name[0]}')


def torch(*names, step=0, **more):
    return made.torch_zip(dict({n: {'w': Tensor(str(i), noise(120, step + i))} for i, n in enumerate(names)}, **more))


def weights(n, **more):
    names = [f'model-{i + 1:05d}-of-{n:05d}.safetensors' for i in range(n)]
    shards = [(name, made.safetensors({f'w{i}': noise(200, i)})) for i, name in enumerate(names)]
    index = {'metadata': {}, 'weight_map': {f'w{i}': name for i, name in enumerate(names)}}
    return shards + [('model.safetensors.index.json', json.dumps(index).encode())]


def below(folder, files):
    return [(f'{folder}/{name}', data) for name, data in files]


def dcp_files(ranks=2, optimizer=True, common=()):
    """The shards, then the table of what is in them."""
    import pickle
    info, files = {}, list(common)
    for rank in range(ranks):
        blob = b''
        for name in ['model.w'] + (['optimizer.state.w'] if optimizer else []):
            item = made.torch_zip({'t': Tensor('0', noise(64 + 4 * rank, rank + 7))})
            i, s = made.MetadataIndex(), made.StorageInfo()
            i.__dict__.update(fqn=name, index=rank)
            s.__dict__.update(relative_path=f'__{rank}_0.distcp', offset=len(blob), length=len(item))
            info[i] = s
            blob += item
        files.append((f'__{rank}_0.distcp', blob))
    m = made.Metadata()
    m.__dict__.update(state_dict_metadata={i.fqn: None for i in info}, storage_data=info)
    return files + [('.metadata', pickle.dumps(m, protocol=4))]


def trainer_end(step, old=False):
    state = [('trainer_state.json', json.dumps({'global_step': step, 'log_history': []}).encode())]
    rng = [(f'rng_state_{r}.pth', torch('cpu', step=r)) for r in range(2)]
    return state + rng if old else rng + state


def hf(step, old=False):
    files = [('config.json', b'{"hidden": 1}'), ('generation_config.json', b'{}'), *weights(2), ('tokenizer.json', b'{"a": 1}'),
             ('training_args.bin', torch('args')), ('optimizer.pt', torch('state', step=step)), ('scheduler.pt', torch('s'))]
    return below(f'checkpoint-{step}', files + trainer_end(step, old))


def hf_older(step):
    return hf(step, old=True)


def hf_adapter(step):
    files = [('adapter_model.safetensors', made.safetensors({'lora': noise(80)})), ('adapter_config.json', b'{"r": 8}'),
             ('training_args.bin', torch('args')), ('optimizer.pt', torch('state', step=step)), ('scheduler.pt', torch('s'))]
    return below(f'checkpoint-{step}', files + trainer_end(step))


def hf_staged(step):
    return [(f'tmp-{name}', data) for name, data in hf(step)] + [((f'tmp-checkpoint-{step}', f'checkpoint-{step}'), None)]


def hf_fsdp(step):
    files = [*below('pytorch_model_fsdp_0', dcp_files(optimizer=False)), *below('optimizer_0', dcp_files()), ('scheduler.pt', torch('s'))]
    return below(f'checkpoint-{step}', files + trainer_end(step))


def hf_deepspeed(step):
    return below(f'checkpoint-{step}', [('config.json', b'{}'), *weights(2), *deepspeed(step), *trainer_end(step)])


def deepspeed(step, dp=2, three=False):
    states = [('zero_pp_rank_%d_mp_rank_00_model_states.pt' % r if three else 'mp_rank_00_model_states.pt') for r in range(dp if three else 1)]
    files = [(n, torch('module', step=i, dp_world_size=dp, mp_world_size=1, global_steps=step)) for i, n in enumerate(states)]
    files += [(f'zero_pp_rank_{r}_mp_rank_00_optim_states.pt', torch('optimizer_state_dict', step=r)) for r in range(dp)]
    return below(f'global_step{step}', files) + [('latest', f'global_step{step}'.encode())]


def deepspeed_three(step):
    return deepspeed(step, three=True)


def megatron(step):
    files = [(f'iter_{step:07d}/mp_rank_{t:02d}_{p:03d}/{n}.pt', torch('model', 'optim', step=t + p, iteration=step))
             for t in range(2) for p in range(2) for n in ('model_optim_rng', 'distrib_optim')]
    return files + [('latest_checkpointed_iteration.txt', str(step).encode())]


def megatron_dist(step):
    common = [('common.pt', torch('args', iteration=step))]
    files = dcp_files(common=common) + [('metadata.json', b'{"sharded_backend": "torch_dist"}')]
    return below(f'iter_{step:07d}', files) + [('latest_checkpointed_iteration.txt', str(step).encode())]


def lightning(step):
    data = torch('state_dict', 'optimizer_states', step=step, global_step=step, epoch=1)
    return [(f'epoch=1-step={step}.ckpt', data), ('last.ckpt', data)]


def lightning_fsdp(step):
    return below(f'epoch=1-step={step}.ckpt', dcp_files() + [('meta.pt', torch('hyper', global_step=step))])


def nemo(step):
    name = f'model--step={step}'
    return [(f'{name}-unfinished', b''), *below(f'{name}.ckpt', [*dcp_files(), ('common.pt', torch('hyper'))]), ((f'{name}-unfinished', None), None)]


def dcp(step):
    files = below(f'step-{step}', dcp_files())
    return files[:-1] + [(f'step-{step}/.metadata.tmp', files[-1][1]), ((f'step-{step}/.metadata.tmp', f'step-{step}/.metadata'), None)]


def accelerate(step):
    files = [('model.safetensors', made.safetensors({'w': noise(100)})), ('optimizer.bin', torch('state', step=step)),
             ('scheduler.bin', torch('s')), ('sampler.bin', torch('s')), ('random_states_0.pkl', torch('r'))]
    return below(f'checkpoint_{step}', files)


LAYOUTS = (hf, hf_older, hf_adapter, hf_staged, hf_fsdp, hf_deepspeed, deepspeed, deepspeed_three, megatron, megatron_dist, lightning,
           lightning_fsdp, nemo, dcp, accelerate)

SPARE = {hf_older: 2, lightning: 1}    # of the last writes, without which a job resumes all the same
