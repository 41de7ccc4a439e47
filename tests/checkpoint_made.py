# SPDX-License-Identifier: Apache-2.0
"""Checkpoints in the forms of torch.save, safetensors, DCP, DeepSpeed, Megatron and Trainer, made without torch."""
import io
import json
import os
import pickle
import struct
import sys
import types
import zipfile


def fake(module, *names):
    """Classes that pickle under a foreign name."""
    m = sys.modules.get(module) or types.ModuleType(module)
    sys.modules[module] = m
    made = []
    for name in names:
        c = type(name, (), {'__module__': module})
        setattr(m, name, c)
        made.append(c)
    return made


FloatStorage, = fake('torch', 'FloatStorage')
Metadata, MetadataIndex = fake('torch.distributed.checkpoint.metadata', 'Metadata', 'MetadataIndex')
StorageInfo, = fake('torch.distributed.checkpoint.filesystem', '_StorageInfo')


class Tensor:
    def __init__(self, key, data):
        self.key, self.data = key, data


class Pickler(pickle.Pickler):
    def __init__(self, *a, **k):
        super().__init__(*a, **k)
        self.tensors = {}

    def persistent_id(self, obj):
        if not isinstance(obj, Tensor):
            return None
        self.tensors[obj.key] = obj
        return 'storage', FloatStorage, obj.key, 'cpu', len(obj.data) // 4


class Unseekable(io.RawIOBase):
    """zipfile then writes sizes behind the data, as torch does."""
    def __init__(self):
        self.b = bytearray()

    def writable(self):
        return True

    def write(self, data):
        self.b += data
        return len(data)


def noise(n, seed=1):
    out = bytearray()
    while len(out) < n:
        seed = (seed * 1103515245 + 12345) % (1 << 31)
        out.append(seed >> 16 & 0xff or 1)
    return bytes(out)


def pickled(obj, protocol=2):
    f = io.BytesIO()
    p = Pickler(f, protocol=protocol)
    p.dump(obj)
    return f.getvalue(), p.tensors


def torch_zip(obj, trailers=True):
    text, tensors = pickled(obj)
    out = Unseekable() if trailers else io.BytesIO()
    with zipfile.ZipFile(out, 'w', zipfile.ZIP_STORED) as z:
        z.writestr('archive/data.pkl', text)
        z.writestr('archive/byteorder', 'little')
        for key, t in tensors.items():
            z.writestr(f'archive/data/{key}', t.data)
        z.writestr('archive/version', '3\n')
    return bytes(out.b) if trailers else out.getvalue()


def torch_row(obj):
    out = io.BytesIO()
    for head in (0x1950a86a20f9469cfc6c, 1001, {'protocol_version': 1001, 'little_endian': True}):
        pickle.dump(head, out, protocol=2)
    text, tensors = pickled(obj)
    out.write(text)
    pickle.dump(sorted(tensors), out, protocol=2)
    for key in sorted(tensors):
        out.write(struct.pack('<q', len(tensors[key].data) // 4) + tensors[key].data)
    return out.getvalue()


def state(step, optimizer=True, size=400, **more):
    s = {'model': {'weight': Tensor('0', noise(size, step + 1)), 'bias': Tensor('1', noise(40, step + 2))}, 'step': step}
    if optimizer:
        s['optimizer'] = {'state': {0: {'exp_avg': Tensor('2', noise(size, step + 3))}}}
    return dict(s, **more)


def safetensors(tensors):
    header, at = {'__metadata__': {'format': 'pt'}}, 0
    for name, data in tensors.items():
        header[name] = {'dtype': 'F32', 'shape': [len(data) // 4], 'data_offsets': [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b' ' * (-len(text) % 8)
    return struct.pack('<Q', len(text)) + text + b''.join(tensors.values())


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as f:
        f.write(data if isinstance(data, bytes) else data.encode())


def dcp(folder, ranks=2, optimizer=True):
    info = {}
    for rank in range(ranks):
        blob = b''
        for name in ['model.w'] + (['optimizer.state.w'] if optimizer else []):
            item = torch_zip({'t': Tensor('0', noise(64 + 4 * rank, rank + 7))})
            i, s = MetadataIndex(), StorageInfo()
            i.__dict__.update(fqn=name, index=rank)
            s.__dict__.update(relative_path=f'__{rank}_0.distcp', offset=len(blob), length=len(item))
            info[i] = s
            blob += item
        write(f'{folder}/__{rank}_0.distcp', blob)
    m = Metadata()
    m.__dict__.update(state_dict_metadata={i.fqn: None for i in info}, storage_data=info)
    write(f'{folder}/.metadata', pickle.dumps(m, protocol=4))


def trainer(folder, step, optimizer=True, shards=0):
    if shards:
        names = [f'model-{i + 1:05d}-of-{shards:05d}.safetensors' for i in range(shards)]
        for i, name in enumerate(names):
            write(f'{folder}/{name}', safetensors({f'w{i}': noise(200, i)}))
        write(f'{folder}/model.safetensors.index.json',
              json.dumps({'metadata': {}, 'weight_map': {f'w{i}': n for i, n in enumerate(names)}}))
    else:
        write(f'{folder}/model.safetensors', safetensors({'w': noise(400), 'b': noise(40)}))
    write(f'{folder}/config.json', '{"hidden": 1}')
    write(f'{folder}/training_args.bin', torch_zip({'lr': 1}))
    if optimizer:
        write(f'{folder}/optimizer.pt', torch_zip(state(step)))
        write(f'{folder}/scheduler.pt', torch_zip({'last_epoch': 1}))
        write(f'{folder}/rng_state.pth', torch_zip({'cpu': Tensor('0', noise(16))}))
    write(f'{folder}/trainer_state.json', json.dumps({'global_step': step, 'log_history': []}))


def deepspeed(folder, step, dp=4, latest=True, optimizer=True):
    d = f'{folder}/global_step{step}'
    write(f'{d}/mp_rank_00_model_states.pt',
          torch_zip({'module': {'w': Tensor('0', noise(64))}, 'dp_world_size': dp, 'mp_world_size': 1,
                     'global_steps': step}))
    for r in range(dp if optimizer else 0):
        write(f'{d}/zero_pp_rank_{r}_mp_rank_00_optim_states.pt',
              torch_zip({'optimizer_state_dict': {'exp_avg': Tensor('0', noise(64, r))}}))
    if latest:
        write(f'{folder}/latest', f'global_step{step}')


def megatron(folder, step, tp=2, pp=2, marker=True):
    for t in range(tp):
        for p in range(pp):
            d = f'{folder}/iter_{step:07d}/mp_rank_{t:02d}_{p:03d}'
            write(f'{d}/model_optim_rng.pt', torch_zip(state(step)))
            write(f'{d}/distrib_optim.pt', torch_zip({'optim': Tensor('0', noise(32))}))
    if marker:
        write(f'{folder}/latest_checkpointed_iteration.txt', str(step))
