"""One rank of bench/allreduce: torch.distributed with the backend that is named first.

  torch_rank.py BACKEND BATCHES BYTES:COUNT…

Prints per size how long an all-reduce took, on average over each batch. The numbers are fresh for each, as
gradients are, and made without reading others that would take their room in the caches, as the programs
beside this one make them.
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
rank, ranks = dist.get_rank(), dist.get_world_size()
for word in sizes:
    size, count = map(int, word.split(":"))
    # Small whole numbers, so that sums of them are exact.
    data = torch.empty(size // 4)
    rows = data.view(-1, min(size // 4, 1024))
    places = torch.arange(rows.size(1)).float().expand_as(rows)
    for batch in range(-1, batches):
        took = 0.0
        for turn in range(count):
            torch.add(places, turn * (rank + 1), out=rows)
            dist.barrier()
            began = time.perf_counter()
            dist.all_reduce(data)
            took += time.perf_counter() - began
        turns = (count - 1) * ranks * (ranks + 1) // 2
        if not torch.equal(rows, places * ranks + turns):
            sys.exit(f"a wrong sum of {size} bytes")
        if batch >= 0 and rank == 0:
            print(size, took / count, flush=True)
dist.barrier()
