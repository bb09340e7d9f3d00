"""A PyTorch DDP program learns the same, however many ranks it is put on and whoever starts them."""
import json
import re

import harness

# The same global batch of 32 in every step, split over the ranks; the weights are compared.
TRAIN = """
import os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
torch.set_num_threads(1)
dist.init_process_group('gloo')
rank, world = dist.get_rank(), dist.get_world_size()
assert world == int(os.environ['WORLD_SIZE']) and rank == int(os.environ['RANK'])
torch.manual_seed(7)
model = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)).double()
if world > 1: model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
data = torch.Generator().manual_seed(11)
for step in range(20):
    x = torch.randn(32, 20, generator=data, dtype=torch.double)
    y = x.sum(1, keepdim=True).sin()
    share = 32 // world
    mine = slice(rank * share, (rank + 1) * share)
    loss = torch.nn.functional.mse_loss(model(x[mine]), y[mine])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
weights = torch.cat([p.detach().flatten() for p in model.parameters()])
# At once: processes of one torchrun print to one place.
os.write(1, (f"weights {weights.norm().item():.12f} {weights.sum().item():.12f} rank {rank} "
             f"local {os.environ['LOCAL_RANK']} of {os.environ['LOCAL_WORLD_SIZE']} "
             f"task {os.environ['DURE_TASK']}\\n").encode())
dist.destroy_process_group()
"""


class Torch(harness.Case):
    _alone = None

    def setUp(self):
        super().setUp()
        self.env["OMP_NUM_THREADS"] = "1"

    def train(self, workers, processes, command):
        """Per rank: (local rank, local size, task). All of them have the weights of one process."""
        job = self.job(f"name: train\nstrategy: torch\nworkers: {workers}\nprocesses: {processes}\n"
                       f"restarts: 0\nprogram: {{command: {json.dumps(command)}}}\n", TRAIN)
        done = self.dure("run", job, code=0, timeout=120)
        ranks = {}
        for line in done.out.splitlines():
            match = re.search(r"weights (\S+) (\S+) rank (\d+) local (\d+) of (\d+) task (\S+)", line)
            if match:
                norm, total, rank, local, size, task = match.groups()
                for value, alone in zip((norm, total), self.alone()):
                    self.assertAlmostEqual(float(value), alone, places=8)
                self.assertNotIn(int(rank), ranks)
                ranks[int(rank)] = (int(local), int(size), task)
        return ranks

    def alone(self):
        """Norm and sum of the weights that one process without dure arrives at."""
        if Torch._alone is None:
            env = {**self.env, "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "DURE_TASK": "",
                   "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29561"}
            text = harness.run_text([harness.PYTHON, "program.py"], env=env, cwd=self.dir)
            Torch._alone = tuple(map(float, text.split()[1:3]))
        return Torch._alone

    PYTHON = ["/usr/bin/python3", "program.py"]
    # The torchrun of Debian 12 fails on Python 3.11 without -r and -t.
    TORCHRUN = ["torchrun", "-r", "1", "-t", "1", "program.py"]

    def test_two_ranks(self):
        self.assertEqual(self.train(2, 1, self.PYTHON), {0: (0, 1, "worker-0"), 1: (0, 1, "worker-1")})

    def test_four_ranks(self):
        self.assertEqual(self.train(4, 1, self.PYTHON),
                         {rank: (0, 1, f"worker-{rank}") for rank in range(4)})

    TWO_BY_TWO = {0: (0, 2, "worker-0"), 1: (1, 2, "worker-0"),
                  2: (0, 2, "worker-1"), 3: (1, 2, "worker-1")}

    def test_two_tasks_of_two_processes(self):
        self.assertEqual(self.train(2, 2, self.PYTHON), self.TWO_BY_TWO)

    def test_under_torchrun_inside_two_tasks(self):
        self.assertEqual(self.train(2, 1, self.TORCHRUN),
                         {0: (0, 1, "worker-0"), 1: (0, 1, "worker-1")})

    def test_under_torchrun_with_two_processes_each(self):
        self.assertEqual(self.train(2, 2, self.TORCHRUN), self.TWO_BY_TWO)

    def test_under_torchrun_as_a_module(self):
        self.assertEqual(self.train(2, 2, ["/usr/bin/python3", "-m", "torch.distributed.run", "-r", "1",
                                           "-t", "1", "program.py"]), self.TWO_BY_TWO)

    # As people write it for PyTorchJob, and as the documentation of torchrun does.
    PLAIN_LINE = ["sh", "-c", "torchrun --nnodes ${PET_NNODES} --nproc_per_node ${PET_NPROC_PER_NODE} "
                  "--rdzv_id ${PET_RDZV_ID} --rdzv_backend ${PET_RDZV_BACKEND} "
                  "--rdzv_endpoint ${PET_RDZV_ENDPOINT} program.py"]
    C10D_LINE = ["sh", "-c", "torchrun --nnodes $PET_NNODES --nproc_per_node $PET_NPROC_PER_NODE "
                 "--rdzv_id $PET_RDZV_ID --rdzv_backend c10d --rdzv_endpoint $MASTER_ADDR:$MASTER_PORT "
                 "program.py"]

    def test_the_usual_line_of_torchrun(self):
        self.assertEqual(self.train(2, 1, self.PLAIN_LINE), {0: (0, 1, "worker-0"), 1: (0, 1, "worker-1")})

    def test_the_usual_line_of_torchrun_with_two_processes_each(self):
        self.assertEqual(self.train(2, 2, self.PLAIN_LINE), self.TWO_BY_TWO)

    def test_the_usual_line_of_torchrun_alone(self):
        self.assertEqual(self.train(1, 2, self.PLAIN_LINE), {0: (0, 2, "worker-0"), 1: (1, 2, "worker-0")})

    def test_torchrun_with_a_store_of_its_own(self):
        # Here torchrun gives out the ranks in the order in which its nodes came.
        self.assertEqual(sorted(self.train(2, 2, self.C10D_LINE).values()),
                         sorted(self.TWO_BY_TWO.values()))


harness.main()
