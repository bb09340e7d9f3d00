"""The backend "dure" as Python calls it: every form of a call, and the memory of its tensors."""
import harness

# torch.distributed uses one form of allreduce, which goes straight to the group; programs may use others.
FORMS = """
import datetime
import torch
import torch.distributed as dist
import dure_torch
dist.init_process_group('dure')
group = dist.distributed_c10d._get_default_group()
rank, size = dist.get_rank(), dist.get_world_size()
options = dist.AllreduceOptions()
options.reduceOp = dist.ReduceOp.MAX
forms = {
    'as torch does': lambda tensor: group.allreduce([tensor], options),
    'by name': lambda tensor: group.allreduce(tensors=[tensor], opts=options),
    'with an operation': lambda tensor: group.allreduce([tensor], dist.ReduceOp.MAX),
    'of a tensor': lambda tensor: group.allreduce(tensor, op=dist.ReduceOp.MAX),
}
for name, form in forms.items():
    tensor = torch.full((100,), float(rank))
    work = form(tensor)
    assert isinstance(work, torch._C._distributed_c10d.Work), type(work)
    assert work.wait() is True and work.wait(timeout=datetime.timedelta(seconds=5)) is True, name
    assert work.is_completed() and torch.equal(tensor, torch.full((100,), size - 1.)), name
tensor = torch.ones(100)
work = group.allreduce([tensor])
assert work.wait() and (tensor == size).all() and work.result()[0].data_ptr() == tensor.data_ptr()
for wrong in ([1], [], 'tensor', [tensor, 1]):
    try:
        group.allreduce(wrong, options)
    except (TypeError, RuntimeError):
        continue
    assert False, wrong

class Named(torch.Tensor):
    pass
tensor = torch.ones(100).as_subclass(Named)
dist.all_reduce(tensor)
assert (tensor == size).all()
parameter = torch.nn.Parameter(torch.ones(100))
with torch.no_grad(): dist.all_reduce(parameter)
assert (parameter == size).all()
print('all forms in rank', rank, flush=True)
dist.barrier()
"""

MEMORY = """
import gc, os
import torch
before = torch.ones(100000)
packed = torch.nn.Conv2d(64, 64, 3).to(memory_format=torch.channels_last)
packed(torch.ones(1, 64, 32, 32))                      # has memory of the allocator before
import dure_torch
page = os.sysconf('SC_PAGE_SIZE')
for make in (torch.empty, torch.zeros, torch.randn, lambda count: torch.arange(count) + 1.):
    assert make(16384).data_ptr() % page == 0, make
small = torch.empty(16383)
assert small.data_ptr() % 64 == 0
before.resize_(200000)
assert (before[:100000] == 1).all()
packed(torch.ones(1, 64, 32, 32))
del packed, small, before
gc.collect()

def resident():
    return int(open('/proc/self/statm').read().split()[1]) * page >> 20
kept = []
for turn in range(3000):                               # freed memory is used again
    several = [torch.ones(16384 + 977 * ((turn * step) % 50)) for step in (1, 7, 13)]
    if turn % 100 == 0: kept.append(several[0])
    if turn == 300: at_first = resident()
assert resident() < at_first + 32, (at_first, resident())

with torch.autograd.profiler.profile(profile_memory=True) as profile:
    seen = torch.ones(1 << 20)
    del seen
reported = [event.cpu_memory_usage for event in profile.function_events]
assert max(reported) == 4 << 20, reported
try:
    torch.empty(1 << 60, dtype=torch.uint8)
    assert False
except RuntimeError as error:
    assert 'allocate' in str(error), error
print('all is well', flush=True)
"""


class Calls(harness.Case):
    def setUp(self):
        super().setUp()
        self.env["OMP_NUM_THREADS"] = "1"
        self.env["PYTHONPATH"] = str(harness.BUILD / "python")

    def test_every_form_of_allreduce(self):
        self.write("forms.py", FORMS)
        done = self.dure("run", "--strategy", "torch", "--workers", "2", "--set", "restarts=0", "--",
                         harness.PYTHON, "forms.py", code=0, timeout=120)
        for rank in range(2):
            self.assertIn(f"all forms in rank {rank}", done.out)

    def test_large_tensors_begin_at_pages(self):
        self.write("memory.py", MEMORY)
        done = self.dure("memory.py", program=harness.PYTHON, code=0, timeout=120)
        self.assertIn("all is well", done.out)


harness.main()
