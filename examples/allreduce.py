"""The smallest distributed PyTorch program: every rank brings a number, all get the sum."""
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
number = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(number)
print(f"the sum over {dist.get_world_size()} ranks is {number.item():g}")
dist.destroy_process_group()
