"""Trains a small convnet on Fashion-MNIST with PyTorch's DistributedDataParallel.

Nothing here knows how it was started: the environment says who is who. It saves where it is after
every epoch and goes on from there after a restart.
"""
import argparse
import gzip
import json
import os

import numpy
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def read_idx(path, header):
    with gzip.open(path, "rb") as file:
        return numpy.frombuffer(file.read(), numpy.uint8, offset=header)


def read_data(folder, part):
    images = read_idx(f"{folder}/{part}-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28)
    labels = read_idx(f"{folder}/{part}-labels-idx1-ubyte.gz", 8)
    return torch.from_numpy(images.astype(numpy.float32) / 255), torch.from_numpy(labels.astype(numpy.int64))


def make_model():
    return nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(16, 32, 3), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(800, 64), nn.ReLU(), nn.Linear(64, 10))


class Progress:
    """Reports to dure, if that is who started us."""

    def __init__(self):
        path = os.environ.get("DURE_METRICS")
        self.pipe = open(path, "w") if path else None

    def report(self, **values):
        if self.pipe:
            self.pipe.write(json.dumps(values) + "\n")
            self.pipe.flush()


def save(path, **state):
    """All of it or nothing: a half-written file never has the name."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    torch.save(state, path + ".new")
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--samples", type=int, default=60000, help="how many of the images to use")
    parser.add_argument("--batch", type=int, default=64, help="of one worker")
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    net = make_model()
    model = DistributedDataParallel(net)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002)

    checkpoint = os.environ.get("DURE_CHECKPOINT", "out") + "/checkpoint.pt"
    first_epoch = 0
    if os.path.exists(checkpoint):
        state = torch.load(checkpoint)
        net.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first_epoch = state["epoch"]
        if rank == 0:
            print(f"going on after epoch {first_epoch}")

    images, labels = read_data(options.data, "train")
    images, labels = images[:options.samples], labels[:options.samples]
    steps = len(images) // (options.batch * world)
    progress = Progress()
    for epoch in range(first_epoch, options.epochs):
        # The same order on every rank; each takes its share of every batch.
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        for step in range(steps):
            mine = order[(step * world + rank) * options.batch:][:options.batch]
            loss = F.cross_entropy(model(images[mine]), labels[mine])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            number = epoch * steps + step + 1
            if step % 20 == 19:
                progress.report(step=number, epoch=epoch + 1, loss=loss.item())
                if rank == 0:
                    print(f"epoch {epoch + 1}  step {number}  loss {loss.item():.3f}")
        if rank == 0:
            save(checkpoint, epoch=epoch + 1, model=net.state_dict(), optimizer=optimizer.state_dict())

    if rank == 0:
        images, labels = read_data(options.data, "t10k")
        with torch.no_grad():
            right = sum((net(images[i:i + 1000]).argmax(1) == labels[i:i + 1000]).sum().item()
                        for i in range(0, len(images), 1000))
        print(f"right on {100 * right / len(images):.1f}% of {len(images)} images it had not seen")
    dist.barrier()
    dist.destroy_process_group()


main()
