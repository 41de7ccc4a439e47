# SPDX-License-Identifier: Apache-2.0
"""Stacks of simulated ranks as py-spy (text, JSON), faulthandler or gdb print them, fitting what the CPU of each does."""
import json
import os

PKG = '/opt/venv/lib/python3.11/site-packages/'
STD = '/usr/lib/python3.11/'
C10D = [('wrapper', PKG + 'torch/distributed/c10d_logger.py', 81)]
TAIL = [('main', '/workspace/train.py', 260), ('<module>', '/workspace/train.py', 291)]

# What a rank's own host does: frames, innermost first; whether the thread is on the CPU.
HOLDS = {
    'data-queue': ([('wait', STD + 'threading.py', 324), ('get', STD + 'queue.py', 180), ('_try_get_data',
        PKG + 'torch/utils/data/dataloader.py', 1133),
                    ('_get_data', PKG + 'torch/utils/data/dataloader.py', 1285), ('_next_data', PKG + 'torch/utils/data/dataloader.py', 1318),
                    ('__next__', PKG + 'torch/utils/data/dataloader.py', 631), ('next_batch', '/workspace/data.py', 74)], False),
    'data-read': ([('read', '/workspace/data.py', 31), ('__getitem__', '/workspace/data.py', 55), ('fetch',
        PKG + 'torch/utils/data/_utils/fetch.py', 51),
                   ('_next_data', PKG + 'torch/utils/data/dataloader.py', 675), ('__next__', PKG + 'torch/utils/data/dataloader.py', 631)], False),
    'compile': ([('_run_pass', PKG + 'torch/_inductor/fx_passes/post_grad.py', 121), ('compile_fx_inner', PKG + 'torch/_inductor/compile_fx.py', 608),
                 ('call_user_compiler', PKG + 'torch/_dynamo/output_graph.py', 1446), ('_compile', PKG + 'torch/_dynamo/convert_frame.py', 715),
                 ('__call__', PKG + 'torch/_dynamo/convert_frame.py', 1064), ('forward', '/workspace/model.py', 118)], True),
    'triton': ([('communicate', STD + 'subprocess.py', 1209), ('run', STD + 'subprocess.py', 550), ('make_cubin',
        PKG + 'triton/backends/nvidia/compiler.py', 374),
                ('compile', PKG + 'triton/compiler/compiler.py', 279), ('run', PKG + 'triton/runtime/jit.py', 607), ('forward',
                    '/workspace/kernels.py', 212)], False),
    'gc': ([('collect_garbage', '/workspace/train.py', 143), ('train', '/workspace/train.py', 203)], True),
    'save': ([('_save', PKG + 'torch/serialization.py', 900), ('save', PKG + 'torch/serialization.py', 654), ('save_checkpoint',
    '/workspace/checkpoint.py', 66)], False),
    'save-nfs': ([('fsync', '/workspace/storage.py', 18), ('write_file', PKG + 'torch/distributed/checkpoint/filesystem.py', 322),
                  ('save', PKG + 'torch/distributed/checkpoint/state_dict_saver.py', 176), ('save_checkpoint', '/workspace/checkpoint.py',
                      71)], False),
    'loop': ([('match_spans', '/workspace/metrics.py', 88), ('score', '/workspace/metrics.py', 121), ('log_samples',
        '/workspace/train.py', 155)], True),
    'pdb': ([('readline', STD + 'codecs.py', 322), ('cmdloop', STD + 'cmd.py', 126), ('interaction', STD + 'pdb.py', 365), ('user_line',
        STD + 'pdb.py', 295),
             ('trace_dispatch', STD + 'bdb.py', 90), ('train_step', '/workspace/train.py', 117)], False),
    'handler': ([('sleep', '/workspace/notify.py', 20), ('report_failure', '/workspace/notify.py', 44), ('except_hook',
        '/workspace/train.py', 241)], False),
    'nfs-stat': ([('stat', STD + 'pathlib.py', 1013), ('exists', STD + 'pathlib.py', 1235), ('newest_checkpoint',
        '/workspace/checkpoint.py', 22)], False),
    'lock': ([('acquire', PKG + 'filelock/_api.py', 296), ('__enter__', PKG + 'filelock/_api.py', 344), ('load_vocab',
        '/workspace/data.py', 19)], False),
    'eval': ([('generate', '/workspace/evaluate.py', 66), ('evaluate', '/workspace/evaluate.py', 38)], True),
    'http': ([('readinto', STD + 'socket.py', 706), ('_read_status', STD + 'http/client.py', 279), ('getresponse', STD + 'http/client.py', 1378),
              ('urlopen', PKG + 'urllib3/connectionpool.py', 793), ('send', PKG + 'requests/adapters.py', 667), ('upload',
                  '/workspace/tracker.py', 52)], False),
    'driver': ([('synchronize', PKG + 'torch/cuda/__init__.py', 985), ('train_step', '/workspace/train.py', 108)], True),
    'teardown': ([('destroy_process_group', PKG + 'torch/distributed/distributed_c10d.py', 2145), ('cleanup', '/workspace/train.py', 275)], False),
}
COLLECTIVES = {'barrier': ('barrier', 4635), 'all_reduce': ('all_reduce', 2806), 'broadcast': ('broadcast', 2730),
    'all_gather_base': ('all_gather_into_tensor', 3740),
               'reduce_scatter_base': ('reduce_scatter_tensor', 4200), 'all_gather': ('all_gather', 3610), 'all_to_all': ('all_to_all_single', 4380),
               'all_to_all_list': ('all_to_all', 4470), 'send': ('send', 2380), 'recv': ('recv', 2430), 'gather': ('gather', 3900),
               'all_gather_coalesced': ('_coalescing_manager', 2650)}
WHERE = {
    'forward': [('forward', '/workspace/model.py', 118), ('_call_impl', PKG + 'torch/nn/modules/module.py', 1750), ('train_step',
        '/workspace/train.py', 110)],
    'backward': [('_engine_run_backward', PKG + 'torch/autograd/graph.py', 825), ('backward', PKG + 'torch/autograd/__init__.py', 347),
                 ('backward', PKG + 'torch/_tensor.py', 581), ('train_step', '/workspace/train.py', 114)],
    'barrier': [('save_checkpoint', '/workspace/checkpoint.py', 41)],
    'eval': [('evaluate', '/workspace/evaluate.py', 57)],
    'clip': [('clip_grad_norm_', '/workspace/train.py', 127), ('train_step', '/workspace/train.py', 119)],
    'item': [('train_step', '/workspace/train.py', 121)],
    'data': [('get_batch', '/workspace/data.py', 83)],
    'optimizer': [('step', PKG + 'torch/optim/optimizer.py', 487), ('train_step', '/workspace/train.py', 120)],
}


def stack_of(stands, backend):
    """(frames, active) of the main thread; None if there is no process."""
    what = stands[0]
    if what == 'gone':
        return None
    if what == 'hold':
        frames, active = HOLDS[stands[1]]
        return frames + TAIL, active
    if what == 'done':
        return [('sleep', '/workspace/train.py', 280)] + TAIL, False
    if what == 'sync':
        return [('log_metrics', '/workspace/train.py', 136)] + WHERE.get(stands[1], []) + TAIL, True
    if what == 'launch':
        return WHERE.get(stands[1], WHERE['forward']) + TAIL, True
    call = stands[1]
    where = WHERE.get(stands[2] if what == 'join' else call.where, WHERE['forward'])
    if what == 'join' or call.where == 'backward' and call.op != 'barrier' and backend == 'nccl':
        return where + TAIL, False
    name, line = COLLECTIVES.get(call.op, (call.op, 3000))
    return [(name, PKG + 'torch/distributed/distributed_c10d.py', line)] + C10D + where + TAIL, backend == 'nccl'


def short(path):
    for p in (PKG, STD, '/workspace/'):
        path = path.replace(p, '')
    return path


def pyspy_text(pid, frames, active):
    out = [f'Process {pid}: /opt/venv/bin/python -u train.py --config run.yaml', 'Python v3.11.9 (/usr/bin/python3.11)', '',
           f'Thread {pid} ({"active" if active else "idle"}): "MainThread"']
    out += [f'    {n} ({short(f)}:{i})' for n, f, i in frames]
    out += [f'Thread {pid + 31} (idle): "Thread-1 (_pin_memory_loop)"', '    wait (threading.py:324)', '    get (queue.py:180)',
            '    do_one_step (torch/utils/data/_utils/pin_memory.py:35)', '    _bootstrap (threading.py:1002)']
    return '\n'.join(out) + '\n'


def pyspy_json(pid, frames, active):
    rows = [{'name': n, 'filename': f, 'module': None, 'short_filename': short(f), 'line': i, 'locals': None, 'is_entry': False} for n, f,
        i in frames]
    return json.dumps([{'pid': pid, 'thread_id': 140000000000000 + pid, 'thread_name': 'MainThread', 'os_thread_id': pid,
        'active': active, 'owns_gil': active,
                        'frames': rows, 'process_info': None}], indent=2)


def faulthandler(pid, frames, active):
    out = ['Timeout (0:10:00)!', f'Thread 0x{0x7f0000000000 + pid:016x} (most recent call first):', f'  File "{STD}threading.py", line 324 in wait',
           f'  File "{STD}threading.py", line 1002 in _bootstrap', '', f'Current thread 0x{0x7f1000000000 + pid:016x} (most recent call first):']
    return '\n'.join(out + [f'  File "{f}", line {i} in {n}' for n, f, i in frames]) + '\n'


WRITERS = {'pyspy-text': (pyspy_text, '.txt'), 'pyspy-json': (pyspy_json, '.json'), 'faulthandler': (faulthandler, '.txt')}


def write_stacks(folder, job, sim, ranks, rng, pids):
    tool = rng.choice(['pyspy-text', 'pyspy-text', 'pyspy-json', 'faulthandler'])
    write, suffix = WRITERS[tool]
    pattern = rng.choice(['pyspy_rank{rank}', 'stacks/rank{rank}', 'stack_{host}_rank{rank}', 'py-spy/{host}/rank_{rank}'])
    for r in ranks:
        s = stack_of(sim.ranks[r].stands, job.backend)
        if s is None:
            continue
        path = os.path.join(folder, pattern.format(rank=r, host=job.host(r).split('.')[0]) + suffix)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w') as f:
            f.write(write(pids[r], *s))
    return tool
