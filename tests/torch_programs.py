"""What ranks run in the tests of the backend "dure"."""

# Every collective, by both backends, with the same inputs.
COLLECTIVES = """
import os, sys
import torch
import torch.distributed as dist
import dure_torch
torch.set_num_threads(1)

def answers(group):
    rank, size = dist.get_rank(), dist.get_world_size()
    def mine(*shape, dtype=torch.float32, seed=0):
        values = torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(seed * 100 + rank))
        return values.to(dtype)
    found = {}
    for dtype in (torch.float32, torch.float64, torch.float16, torch.int8, torch.uint8, torch.int32,
                  torch.int64):
        for op in ('SUM', 'MIN', 'MAX', 'PRODUCT'):
            for count in (1, 1001, 300000):
                tensor = mine(count, dtype=dtype, seed=count)
                dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op), group=group)
                found[f'all_reduce {op} {dtype} {count}'] = tensor
    for op in ('BAND', 'BOR'):
        tensor = mine(50, dtype=torch.int32)
        dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op), group=group)
        found[op] = tensor
    many = [mine(3), mine(40, 2)]
    dist.all_reduce_coalesced(many, group=group)
    found['coalesced 0'], found['coalesced 1'] = many
    for root in range(size):
        tensor = mine(500)
        dist.broadcast(tensor, root, group=group)
        found[f'broadcast {root}'] = tensor
        tensor = mine(500)
        dist.reduce(tensor, root, group=group)
        found[f'reduce {root}'] = tensor if rank == root else torch.zeros(1)
    parts = [torch.zeros(7, 3) for _ in range(size)]
    dist.all_gather(parts, mine(7, 3), group=group)
    found['all_gather'] = torch.stack(parts)
    parts = [torch.zeros(7) for _ in range(size)] if rank == 0 else None
    dist.gather(mine(7), parts, 0, group=group)
    found['gather'] = torch.stack(parts) if parts else torch.zeros(1)
    tensor = torch.zeros(7)
    dist.scatter(tensor, [mine(7, seed=i) for i in range(size)] if rank == 0 else None, 0, group=group)
    found['scatter'] = tensor
    names = [None] * size
    dist.all_gather_object(names, {'rank': rank}, group=group)
    assert names == [{'rank': other} for other in range(size)], names
    things = [('a', 1) if rank == 0 else None]
    dist.broadcast_object_list(things, 0, group=group)
    assert things == [('a', 1)]
    tensor = mine(9)
    if rank == 0: dist.send(tensor, size - 1, group=group)
    if rank == size - 1: dist.recv(tensor, 0, group=group)
    found['send'] = tensor
    work = dist.all_reduce(mine(5), async_op=True, group=group)
    work.wait()
    assert work.is_completed()
    dist.barrier(group=group)
    return found

def only_dure():
    rank, size = dist.get_rank(), dist.get_world_size()
    tensor = torch.full((1000,), float(rank))
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    assert torch.equal(tensor, torch.full((1000,), (size - 1) / 2))
    for dtype in (torch.bfloat16, torch.int16):
        tensor = torch.full((70000,), rank + 1).to(dtype)
        dist.all_reduce(tensor)
        assert tensor[-1] == size * (size + 1) // 2
    whole = torch.full((64, 65), float(rank))
    dist.all_reduce(whole[:, ::2].t())
    assert (whole[:, ::2] == size * (size - 1) / 2).all() and (whole[:, 1::2] == rank).all()
    out = torch.zeros(3)
    dist.reduce_scatter(out, [torch.full((3,), float(10 * rank + i)) for i in range(size)])
    assert out[0] == sum(10 * other + rank for other in range(size))
    dist._reduce_scatter_base(out, torch.arange(3. * size))
    assert torch.equal(out, torch.arange(3. * rank, 3. * rank + 3) * size)
    whole = torch.zeros(3 * size)
    dist._all_gather_base(whole, torch.full((3,), float(rank)))
    assert torch.equal(whole, torch.arange(size).repeat_interleave(3).float())
    got = [torch.zeros(2) for _ in range(size)]
    dist.all_to_all(got, [torch.full((2,), float(10 * rank + i)) for i in range(size)])
    assert [int(part[0]) for part in got] == [10 * other + rank for other in range(size)]
    half = dist.new_group([0, size - 1])
    if rank in (0, size - 1):
        tensor = torch.ones(10)
        dist.all_reduce(tensor, group=half)
        assert tensor[0] == 2
    try:
        dist.all_reduce(torch.ones(3).to_sparse())
        assert False
    except RuntimeError as error:
        assert 'only dense tensors' in str(error), error

def check():
    gloo = dist.new_group(backend='gloo')
    ours, theirs = answers(None), answers(gloo)
    for name in theirs:
        assert torch.equal(ours[name], theirs[name]), f'{name}: {ours[name]} {theirs[name]}'
    only_dure()
    dist.barrier()
    dist.destroy_process_group(gloo)
    os.write(1, f'the same answers in rank {dist.get_rank()}\\n'.encode())  # at once: processes share a pipe
"""
START = """
dist.init_process_group('dure')
check()
"""
SPAWN = """
def rank_main(rank, size, port):
    dist.init_process_group('dure', init_method=f'tcp://127.0.0.1:{port}', rank=rank, world_size=size)
    check()
    dist.destroy_process_group()

if __name__ == '__main__':
    import socket
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(rank_main, (3, port), nprocs=3)
"""

TRAIN = """
import gc, sys
import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
import dure_torch
torch.set_num_threads(1)
dist.init_process_group(sys.argv[1])
torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.BatchNorm1d(300), torch.nn.Tanh(),
                            torch.nn.Linear(300, 300), torch.nn.Tanh(), torch.nn.Linear(300, 1))
model = DistributedDataParallel(model, bucket_cap_mb=0.1)
if sys.argv[2] == 'zero':
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.002)
else:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
data = torch.Generator().manual_seed(11 + dist.get_rank())
for step in range(30):
    x = torch.randn(16, 20, generator=data)
    y = x.sum(1, keepdim=True).sin()
    loss = torch.nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    if dist.get_rank() == 0: print('loss', total.item(), flush=True)
# The threads of PyTorch's Gloo group end with its last owner; one that frees a tensor after Python's end aborts.
del loss, total, optimizer, model
gc.collect()
dist.destroy_process_group()
"""

# Buckets that are registered after some steps. Two ranks, so that the order of addition is no matter: the same bits
# whoever adds up.
BITS = """
import hashlib, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
import dure_torch
torch.set_num_threads(1)
dist.init_process_group(sys.argv[1])
torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(50, 700), torch.nn.Tanh(), torch.nn.Linear(700, 500), torch.nn.Tanh(),
                            torch.nn.Linear(500, 1))
model = DistributedDataParallel(model, bucket_cap_mb=0.5, gradient_as_bucket_view=sys.argv[2] == 'views')
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
data = torch.Generator().manual_seed(11 + dist.get_rank())
for step in range(20):
    x = torch.randn(16, 50, generator=data)
    loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True).sin())
    optimizer.zero_grad(set_to_none=step % 2 == 0)
    loss.backward()
    optimizer.step()
weights = b''.join(value.detach().numpy().tobytes() for value in model.parameters())
if sys.argv[1] == 'dure':
    traffic = dure_torch.traffic(dist.distributed_c10d._get_default_group())
    assert traffic['in_place'] >= 15, traffic
print('weights', hashlib.sha256(weights).hexdigest(), flush=True)
dist.destroy_process_group()
"""

# What happens to tensors whose memory is registered.
REGISTERED = """
import gc, os
import torch
import torch.distributed as dist
import dure_torch
torch.set_num_threads(1)
dist.init_process_group('dure')
rank, size = dist.get_rank(), dist.get_world_size()
total = size * (size + 1) // 2
def in_place():
    return dure_torch.traffic(dist.distributed_c10d._get_default_group())['in_place']
def registered(count):
    tensor = torch.empty(count)
    for _ in range(5):
        tensor.fill_(rank + 1.)
        before = in_place()
        dist.all_reduce(tensor)
        assert (tensor == total).all()
    assert in_place() == before + 1
    return tensor
def resident():
    return int(open('/proc/self/statm').read().split()[1]) * 4096 >> 20

# Others that know the memory see the result.
tensor = registered(300001)
alias, part = tensor.numpy(), tensor[1000:200000]
assert (alias == total).all()
alias[:] = rank
dist.all_reduce(part)
assert alias[999] == rank and alias[1000] == alias[199999] == total - size and alias[200000] == rank

# Children have memory of their own, as of the time when they were made.
tensor.fill_(7.)
class Dataset(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, at):
        seen = tensor[150000].item()
        tensor.fill_(-1.)
        return seen, tensor[150000].item()
loader = iter(torch.utils.data.DataLoader(Dataset(), num_workers=2, batch_size=4))
tensor.fill_(8.)
for seen, written in loader:
    assert seen[0] == 7 and (seen[1:] == -1).all() and (written == -1).all(), (seen, written)
assert (tensor == 8).all()
before = in_place()
dist.all_reduce(tensor)
assert in_place() == before + 1 and (tensor == 8 * size).all()

# Resized, shared with other processes, given another storage.
tensor = registered(300001)
tensor.resize_(400000)
assert (tensor[:300001] == total).all()
tensor.fill_(1.)
dist.all_reduce(tensor)
assert (tensor == size).all()
tensor = registered(200000)
tensor.share_memory_()
assert tensor.is_shared() and (tensor == total).all()
dist.all_reduce(tensor)
assert (tensor == total * size).all()
tensor = registered(200000)
tensor.set_(torch.ones(100000))
dist.all_reduce(tensor)
assert (tensor == size).all()

# Freed, and others in their place; memory goes back.
for turn in range(150):
    tensor = registered(1000000 + turn)
    if turn == 10: before = resident()
del tensor
gc.collect()
assert resident() < before + 16, (before, resident())

# A tensor of other memory stays what it is.
import numpy
array = numpy.ones(500000, dtype=numpy.float32)
tensor, before = torch.from_numpy(array), in_place()
for turn in range(6): dist.all_reduce(tensor)
assert in_place() == before and (array == size ** 6).all()
print('the same answers in rank', rank, flush=True)
dist.barrier()
"""

# All-reduces for ever, and says what ended that.
ENDLESS = """
import os, time
import torch
import torch.distributed as dist
import dure_torch
torch.set_num_threads(1)
dist.init_process_group('dure')
tensor = torch.ones(100000)
print('pid', os.getpid(), 'of', dist.get_rank(), flush=True)
began = time.monotonic()
try:
    while True:
        began = time.monotonic()
        dist.all_reduce(tensor)
except RuntimeError as error:
    print(f'after {time.monotonic() - began:.3f} s in rank {dist.get_rank()}: {error}', flush=True)
    raise SystemExit(7)
"""


# All-reduces of the same numbers again and again: how many were zero-copy, and what came out.
REPEATED = """
import hashlib
import torch
import torch.distributed as dist
import dure_torch
torch.set_num_threads(1)
dist.init_process_group('dure')
numbers = torch.empty(100000)
digest = hashlib.sha256()
for turn in range(10):
    numbers.copy_(torch.randn(100000, generator=torch.Generator().manual_seed(turn * 10 + dist.get_rank())))
    dist.all_reduce(numbers)
    digest.update(numbers.numpy().tobytes())
in_place = dure_torch.traffic(dist.distributed_c10d._get_default_group())['in_place']
at_page = torch.empty(100000).data_ptr() % 4096 == 0
print(f'in place {in_place} at page {at_page} sums {digest.hexdigest()}', flush=True)
dist.barrier()
"""

# All-reduces of the same numbers again and again; what went over the network is asked of the system.
WIRE = """
import os, json
import torch
import torch.distributed as dist
import dure_torch
torch.set_num_threads(1)
dist.init_process_group('dure')
rank, size = dist.get_rank(), dist.get_world_size()
def sent():
    line = [line for line in open('/proc/net/dev') if line.strip().startswith('eth0:')][0]
    return int(line.split(':')[1].split()[8])
def numbers(of):
    return torch.randn(1000000, generator=torch.Generator().manual_seed(of))
exact = sum(numbers(of).double() for of in range(size))
scale = sum(numbers(of).abs().double() for of in range(size))
buffer = torch.empty(1000000)
dist.barrier()
before, turns, worst, mean = sent(), 16, 0.0, torch.zeros(1000000, dtype=torch.double)
for turn in range(turns):
    buffer.copy_(numbers(rank))
    dist.all_reduce(buffer)
    worst = max(worst, ((buffer - exact).abs() / scale).max().item())
    mean += buffer.double() / turns
copy = buffer.clone()
dist.broadcast(copy, 0)
dist.barrier()
print('wire', json.dumps({
    'rank': rank, 'bytes': sent() - before, 'worst': worst,
    'mean': ((mean - exact).abs() / scale).max().item(), 'same': torch.equal(copy, buffer),
    **dure_torch.traffic(dist.distributed_c10d._get_default_group())}), flush=True)
dist.barrier()
"""
