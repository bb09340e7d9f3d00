"""Native training computes what it should: the same on any number of workers, and as PyTorch does."""
import json

import numpy

import harness
from native import largest_difference, read_safetensors, write_images

JOB = """
name: exact
workers: {workers}
resources: {{cpus: 1}}
train:
  model: {model}
  data: data.npz
  epochs: 100
  steps: 50
  batch: {batch}
  seed: 7
  {more}
output: {output}
"""

# Adam divides by the size of the gradient: where that is next to nothing it makes a step of rounding
# errors, so its epsilon is larger here than usual, and only the MLP is trained with it: of the convnet,
# PyTorch with and without oneDNN differ from each other by 2e-3 after 50 steps of Adam.
# The same with PyTorch, from the same first weights, on the whole set in every step.
PEER = """
import sys, numpy, torch
from torch import nn
from torch.nn import functional as F
torch.set_num_threads(1)
kind, data, weights, optimizer, dtype, output = sys.argv[1:]
dtype = getattr(torch, dtype)
arrays = numpy.load(data)
x = torch.from_numpy(arrays['x_train']).to(dtype) / 255
y = torch.from_numpy(arrays['y_train'])
state = {name: torch.from_numpy(value).to(dtype) for name, value in numpy.load(weights).items()}
for value in state.values(): value.requires_grad_(True)
def mlp(x):
    x = x.flatten(1)
    x = F.relu(F.linear(x, state['dense.weight'], state['dense.bias']))
    x = F.relu(F.linear(x, state['dense_1.weight'], state['dense_1.bias']))
    return F.linear(x, state['dense_2.weight'], state['dense_2.bias'])
def convnet(x):
    x = x.unsqueeze(1)
    x = F.max_pool2d(F.relu(F.conv2d(x, state['conv2d.weight'], state['conv2d.bias'])), 2)
    x = F.relu(F.conv2d(x, state['conv2d_1.weight'], state['conv2d_1.bias']))
    if x.size(2) >= 2: x = F.max_pool2d(x, 2)
    x = x.permute(0, 2, 3, 1).flatten(1)
    return F.linear(x, state['dense.weight'], state['dense.bias'])
parameters = list(state.values())
made = {'sgd': lambda: torch.optim.SGD(parameters, lr=0.005, momentum=0.9, nesterov=True, weight_decay=1e-3),
        'adam': lambda: torch.optim.Adam(parameters, lr=0.0005, weight_decay=1e-3, eps=1e-5),
        'adamw': lambda: torch.optim.AdamW(parameters, lr=0.0005, weight_decay=0.1, eps=1e-5)}[optimizer]()
for step in range(50):
    made.zero_grad()
    loss = F.cross_entropy({'mlp': mlp, 'convnet': convnet}[kind](x), y, label_smoothing=0.1)
    loss.backward()
    nn.utils.clip_grad_norm_(parameters, 0.5)
    made.step()
numpy.savez(output, **{name: value.detach().numpy() for name, value in state.items()})
"""
OPTIMIZERS = {
    "sgd": "{name: sgd, lr: 0.005, momentum: 0.9, nesterov: true, weight_decay: 0.001}",
    "adam": "{name: adam, lr: 0.0005, weight_decay: 0.001, epsilon: 1.0e-5}",
    "adamw": "{name: adamw, lr: 0.0005, weight_decay: 0.1, epsilon: 1.0e-5}",
}


RAISES = """
import torch
class Raises(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.dense = torch.nn.Linear(144, 4)
    def forward(self, x):
        assert CONDITION, 'such images are not for me'
        return self.dense(x.flatten(1))
torch.jit.script(Raises()).save('raises.pt')
"""


class ExactTest(harness.Case):
    def train(self, workers, model, batch, output, more=""):
        self.write("job.yaml", JOB.format(workers=workers, model=model, batch=batch, more=more,
                                          output=output))
        done = self.dure("run", "job.yaml", timeout=120)
        self.assertEqual(done.code, 0, done.err + done.out)
        return read_safetensors(self.dir / output)

    def test_any_number_of_workers_gives_the_same_model(self):
        # 250 is no multiple of the batch: the last one is split unevenly. Dropout is part of it.
        write_images(self.dir / "data.npz", rows=250, size=12)
        for model in ("convnet", "{name: mlp, hidden: [64, 32], dropout: 0.3}"):
            alone = self.train(1, model, 32, "one.safetensors")
            first = self.train(1, model, 32, "again.safetensors")
            self.assertEqual(largest_difference(alone, first), 0, "a second time")
            for workers in (2, 4):
                together = self.train(workers, model, 32 // workers, "many.safetensors")
                difference = largest_difference(alone, together)
                harness.report(f"{model}, {workers} workers: {difference:.1e} from one")
                self.assertLess(difference, 1e-5, f"{model}, {workers} workers")

    def test_accuracy_is_exact_however_many_workers_test(self):
        # 61 is no multiple of anything; the weights stay what they were drawn as.
        data = write_images(self.dir / "data.npz", rows=40, test=61, size=12)
        images = data["x_test"].reshape(61, -1).astype(numpy.float64) / 255
        for number, workers in enumerate((1, 2, 4), start=1):
            weights = self.train(workers, "{name: mlp, hidden: [16]}", 8 // workers, "drawn.safetensors",
                                 "optimizer: {name: sgd, lr: 1.0e-30}")
            hidden = numpy.maximum(images @ weights["dense.weight"].T + weights["dense.bias"], 0)
            scores = hidden @ weights["dense_1.weight"].T + weights["dense_1.bias"]
            right = int((scores.argmax(axis=1) == data["y_test"]).sum())
            shares = numpy.exp(scores) / numpy.exp(scores).sum(axis=1, keepdims=True)
            loss = -numpy.log(shares[numpy.arange(61), data["y_test"]]).mean()
            lines = (self.run_dir(f"exact.{number}") / "metrics.jsonl").read_text().splitlines()
            summary = next(line["summary"] for line in map(json.loads, lines) if "summary" in line)
            self.assertEqual(summary["accuracy"], right / 61, f"{workers} workers")
            self.assertAlmostEqual(summary["loss"], loss, 5, f"{workers} workers")

    def test_a_module_that_raises_is_one_sentence(self):
        write_images(self.dir / "data.npz", rows=64, size=12)
        self.write("job.yaml", JOB.format(workers=2, model="{file: raises.pt}", batch=8, more="",
                                          output="none.pt"))
        for condition, sentence in (("x.size(0) < 2", "raises.pt does not take [^:]*"),
                                    ("not self.training", "raises.pt")):
            self.write("module.py", RAISES.replace("CONDITION", condition))
            harness.run_text([harness.PYTHON, "module.py"], cwd=self.dir)
            done = self.dure("run", "job.yaml", timeout=60)
            self.assertNotEqual(done.code, 0)
            self.assertRegex(done.out + done.err, rf"dure-trainer: \S*{sentence}: .*such images are not for me")
            self.assertNotIn("SIGABRT", done.out + done.err)
            self.assertNotIn("restart", done.out + done.err, "trying again would not help")

    def test_the_same_seed_and_workers_give_the_same_bits(self):
        write_images(self.dir / "data.npz", rows=250, size=12)
        for sync in ("step", "{every: 7, momentum: 0.5, lr: 0.7}", "end"):
            models = [self.train(2, "convnet", 16, "same.safetensors", f"sync: {sync}")
                      for _ in range(2)]
            self.assertEqual(largest_difference(*models), 0, sync)

    def test_a_batch_in_pieces_is_the_same_batch(self):
        write_images(self.dir / "data.npz", rows=250, size=12)
        whole = self.train(2, "convnet", 16, "whole.safetensors")
        pieces = self.train(2, "convnet", 4, "pieces.safetensors", "accumulate: 4")
        self.assertLess(largest_difference(whole, pieces), 1e-5)

    def test_it_computes_what_pytorch_computes(self):
        arrays = write_images(self.dir / "data.npz", rows=256, test=0, size=12)
        self.assertEqual(len(arrays["y_train"]), 256)
        self.write("peer.py", PEER)
        for kind, model in (("mlp", "{name: mlp, hidden: [64, 32], weights: first.safetensors}"),
                            ("convnet", "{name: convnet, dropout: 0, weights: first.safetensors}")):
            # First weights, drawn by us, handed over as safetensors: 0 steps are not to be had, so
            # one step without a learning rate to speak of.
            begin = self.train(1, model.replace(", weights: first.safetensors", ""), 256,
                               "first.safetensors",
                               "optimizer: {name: sgd, lr: 1.0e-30}")
            numpy.savez(self.dir / "first.npz", **begin)
            for optimizer, text in OPTIMIZERS.items():
                if kind == "convnet" and optimizer != "sgd":
                    continue
                ours = self.train(2, model, 128, "ours.safetensors",
                                  f"optimizer: {text}\n  clip: 0.5\n  label_smoothing: 0.1")
                peers = {}
                for dtype in ("float32", "float64"):
                    harness.run_text([harness.PYTHON, "peer.py", kind, "data.npz", "first.npz", optimizer, dtype,
                                      "peer.npz"], cwd=self.dir)
                    peers[dtype] = dict(numpy.load(self.dir / "peer.npz"))
                exact = peers["float64"]
                ours_off, peers_off = (largest_difference(weights, exact) for weights in (ours, peers["float32"]))
                harness.report(f"{kind} {optimizer}: after 50 steps {ours_off:.1e} from PyTorch in double precision, "
                               f"PyTorch in single precision {peers_off:.1e}, from each other "
                               f"{largest_difference(ours, peers['float32']):.1e}")
                # Rounding errors are the processor's; one that changes which of four numbers is the largest, or on which
                # side of 0 one is, makes itself felt.
                least = {"mlp": 1e-6, "convnet": 1e-4}[kind]
                self.assertLess(ours_off, max(least, 5 * peers_off), f"{kind} {optimizer}")
                moved = largest_difference(ours, begin)
                self.assertGreater(moved, 1e-2, "it learned something")


harness.main()
