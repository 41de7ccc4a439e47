# SPDX-License-Identifier: Apache-2.0
"""Collectives, from the dispatcher: whoever calls one (torch.distributed, DDP, FSDP, DTensor, compiled code), it goes by.

Each operator of c10d gets a kernel at BackendSelect that tells and passes on. The end is known on CPUs only, from
looking at the work; on a GPU it is the NCCL plugin's and CUPTI's to tell, and here the end is that of the host's call.
"""
from lockstep import _tell
from lockstep.auto import steps, waits
from lockstep.auto.hook import Hook

# Numbers of enum lockstep_op.
(UNKNOWN, ALL_REDUCE, BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER, BARRIER, SEND,
 RECV) = range(12)
# Operator: what it is, the place of its input, the place of its group.
OPERATORS = {
    'allreduce_': (ALL_REDUCE, 0, 1),
    'allreduce_coalesced_': (ALL_REDUCE, 0, 1),
    'broadcast_': (BROADCAST, 0, 1),
    'reduce_': (REDUCE, 0, 1),
    'allgather_': (ALL_GATHER, 1, 2),
    '_allgather_base_': (ALL_GATHER, 1, 2),
    'allgather_coalesced_': (ALL_GATHER, 1, 2),
    'allgather_into_tensor_coalesced_': (ALL_GATHER, 1, 2),
    'reduce_scatter_': (REDUCE_SCATTER, 1, 2),
    '_reduce_scatter_base_': (REDUCE_SCATTER, 1, 2),
    'reduce_scatter_tensor_coalesced_': (REDUCE_SCATTER, 1, 2),
    'alltoall_': (ALL_TO_ALL, 1, 2),
    'alltoall_base_': (ALL_TO_ALL, 1, 2),
    'gather_': (GATHER, 1, 2),
    'scatter_': (SCATTER, 1, 2),
    'barrier': (BARRIER, None, 1),
    'monitored_barrier_': (BARRIER, None, 1),
    'send': (SEND, 0, 1),
    'recv_': (RECV, 0, 1),
    'recv_any_source_': (RECV, 0, 1),
}
hook = Hook('collectives')
library = None      # as long as it lives our kernels are there
groups = {}         # name: [its id, collectives on CPUs so far]
under_way = steps.under_way     # (work, what was begun)
UNDER_WAY_MOST = 48


def bytes_of(tensors):
    if isinstance(tensors, (list, tuple)):
        return sum(bytes_of(t) for t in tensors)
    return tensors.nbytes


def on_cpu(tensors):
    while isinstance(tensors, (list, tuple)):
        if not tensors:
            return False
        tensors = tensors[0]
    return tensors.is_cpu


def sequence_of(group, entry, what, cpu):
    """The number that the operation will have, as the Flight Recorder counts: without sends and receives, which Gloo's own
    numbers count; -1: not known."""
    if what in (SEND, RECV):
        return -1
    if not cpu:
        try:
            return group._get_sequence_number_for_group() + 1
        except RuntimeError:    # a backend without numbers
            return -1
    entry[1] += 1
    return entry[1]


def begin(args, what, place, group_place, unbox):
    group = unbox(args[group_place])
    name = group.group_name
    entry = groups.get(name)
    if entry is None:
        entry = groups[name] = [_tell.name(name), 0]
    return _tell.collective_begin(entry[0], what, sequence_of(group, entry, what, on_cpu(args[0])),
                                  0 if place is None else bytes_of(args[place]))


def end_later(result, began, args, unbox):
    """When the work is seen to be done, on CPUs; else, and if there is none, now."""
    work = result[-1] if isinstance(result, (list, tuple)) else result
    if work is None or not on_cpu(args[0]):
        _tell.collective_end(began)
        return
    if len(under_way) >= UNDER_WAY_MOST:
        _tell.collective_end(under_way.pop(0)[1])
    under_way.append((unbox(work), began))


def look():
    """Ends what is done. At each hook, by the thread that trains: a future's callback would run on a thread of Gloo's,
    and one that comes while Python ends aborts the process."""
    for item in list(under_way):
        try:
            done = item[0].is_completed()
        except RuntimeError:    # receives of Gloo know only when they are waited for
            done = False
        if done:
            ended(item)


def waited(work):
    """The host has waited for it: it is done, or failed."""
    for item in list(under_way):
        if item[0] is work:
            ended(item)
    look()


def ended(item):
    try:
        under_way.remove(item)
    except ValueError:  # by another thread
        return
    _tell.collective_end(item[1])


def kernel(op, below, is_compiling, unbox_group, unbox_work, what, place, group_place):
    def call(keys, *args, **kwargs):
        began = 0
        if hook.on and not is_compiling():
            try:
                if under_way:
                    look()
                began = begin(args, what, place, group_place, unbox_group)
            except Exception:
                hook.fail()
        if not began:
            return op.redispatch(keys & below, *args, **kwargs)
        result = None
        try:
            result = op.redispatch(keys & below, *args, **kwargs)
            return result
        finally:
            try:
                end_later(result, began, args, unbox_work)
            except Exception:
                hook.fail()
    return call


def put():
    """Once torch.distributed is up."""
    global library
    if library is not None:
        return
    try:
        import torch
        import torch.distributed as dist
        library = torch.library.Library('c10d', 'IMPL')
        below = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.BackendSelect)
        unbox = dist.ProcessGroup.unbox, dist.Work.unbox
        known = set(torch._C._dispatch_get_all_op_names())
        for name, how in OPERATORS.items():
            if f'c10d::{name}' in known:
                op = getattr(torch.ops.c10d, name).default
                library.impl(name, kernel(op, below, torch.compiler.is_compiling, *unbox, *how), 'BackendSelect',
                             with_keyset=True)
        steps.look = look
        hook.on = True
        waits.put_wait(dist.Work, waited)
    except Exception:
        hook.fail()
