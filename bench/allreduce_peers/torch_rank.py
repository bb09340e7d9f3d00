"""One rank of bench/allreduce: torch.distributed with the backend that is named first.

  torch_rank.py BACKEND BATCHES BYTES:COUNT…
"""
import sys
import time

import torch
import torch.distributed as dist

backend, batches, sizes = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
if backend == "dure":
    import dure_torch  # noqa: F401 (makes the backend known)
torch.set_num_threads(1)
dist.init_process_group(backend)
for word in sizes:
    size, count = map(int, word.split(":"))
    data = torch.zeros(size // 4)
    for batch in range(-1, batches):
        began = time.perf_counter()
        for _ in range(count):
            dist.all_reduce(data)
        took = time.perf_counter() - began
        if batch >= 0 and dist.get_rank() == 0:
            print(size, took / count, flush=True)
dist.barrier()
