"""The models that native training writes are what others read, and the models that others write train."""
import json
import subprocess
import unittest

import numpy

import harness
from native import read_safetensors, write_images

JOB = """
name: models
workers: 1
resources: {{cpus: 1}}
train:
  model: {model}
  data: {data}
  epochs: {epochs}
  batch: 32
  optimizer: {{name: adam, lr: 0.01}}
  {more}
output: {output}
"""

# A PyTorch program that reads the .pt and predicts.
PREDICT = """
import json, sys, torch
model = torch.jit.load(sys.argv[1])
given = json.load(open(sys.argv[2]))
x = torch.tensor(given['values']).reshape(given['shape'])
if sys.argv[3] == 'words': x = x.long()
print(json.dumps(model(x).flatten().tolist()))
"""

# A module of somebody's own, with batch normalisation and dropout.
OWN = """
import sys, torch
from torch import nn
torch.manual_seed(4)
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1),
                      nn.Linear(8 * 10 * 10, 4), nn.LogSoftmax(-1))
torch.jit.script(model).save(sys.argv[1])
"""


class ModelsTest(harness.Case):
    def train(self, model, output, data="data.npz", epochs=3, more="", code=0):
        self.write("job.yaml", JOB.format(model=model, data=data, epochs=epochs, more=more, output=output))
        return self.dure("run", "job.yaml", timeout=90, code=code)

    def predict_with_tensorflow(self, file, samples):
        self.write("input.json", json.dumps({"shape": samples.shape, "values": samples.flatten().tolist()}))
        modules = harness.run_text([harness.ROOT / "tools/node-peers"]).strip() + "/node_modules"
        return numpy.array(json.loads(harness.run_text(
            ["node", harness.ROOT / "tests/js/keras_predict.mjs", modules, file, "input.json"],
            cwd=self.dir).splitlines()[-1]))

    def predict_with_pytorch(self, file, samples, kind="numbers"):
        self.write("predict.py", PREDICT)
        self.write("input.json", json.dumps({"shape": samples.shape, "values": samples.flatten().tolist()}))
        return numpy.array(json.loads(harness.run_text(
            [harness.PYTHON, "predict.py", file, "input.json", kind], cwd=self.dir)))

    def write_words(self):
        random = numpy.random.default_rng(5)
        labels = random.integers(0, 2, 320).astype(numpy.uint8)
        words = random.integers(3, 50, (320, 20)).astype(numpy.int32)
        words[numpy.arange(320), random.integers(0, 20, 320)] = 50 + labels
        numpy.savez(self.dir / "words.npz", x_train=words[:256], y_train=labels[:256],
                    x_test=words[256:], y_test=labels[256:])
        return words[256:]

    def test_keras_files_predict_the_same_in_tensorflow_and_pytorch(self):
        arrays = write_images(self.dir / "data.npz", size=12)
        images = arrays["x_test"].astype(numpy.float32) / 255
        words = self.write_words()
        cases = [("convnet", "data.npz", images[..., None]),
                 ("{name: convnet, hidden: [20], filters: [8]}", "data.npz", images[..., None]),
                 ("mlp", "data.npz", images), ("linear", "data.npz", images),
                 ("text", "words.npz", words), ("{name: text, lstm: 12}", "words.npz", words)]
        for model, data, samples in cases:
            self.train(model, "model.h5", data=data)
            self.train(model, "model.pt", data=data)
            tensorflow = self.predict_with_tensorflow("model.h5", samples)
            pytorch = self.predict_with_pytorch("model.pt", samples, "words" if data == "words.npz" else "numbers")
            self.assertEqual(tensorflow.shape, pytorch.shape)
            difference = float(numpy.abs(tensorflow - pytorch).max())
            harness.report(f"{model}: tfjs and PyTorch predict within {difference:.1e} of each other")
            self.assertLess(difference, 1e-5, model)
            self.assertGreater(float(numpy.abs(pytorch - pytorch[0]).max()), 0.1, "it learned to tell apart")

    def test_a_torchscript_module_of_ones_own(self):
        write_images(self.dir / "data.npz", size=12)
        self.write("own.py", OWN)
        harness.run_text([harness.PYTHON, "own.py", "net.pt"], cwd=self.dir)
        done = self.train("{file: net.pt}", "model.pt", epochs=8)
        self.assertGreater(float(done.out.split("accuracy ")[-1].split()[0]), 0.9, done.out)
        # Its running statistics have moved too.
        moved = harness.run_text([harness.PYTHON, "-c", "import torch\n"
                                  "a, b = (dict(torch.jit.load(n).named_buffers()) for n in ('net.pt', 'model.pt'))\n"
                                  "print(float((a['1.running_mean'] - b['1.running_mean']).abs().max()))"],
                                 cwd=self.dir)
        self.assertGreater(float(moved), 1e-3)

    def test_a_keras_model_of_ones_own(self):
        write_images(self.dir / "data.npz", size=12)
        # Architecture and weights as we wrote them ourselves go on training; an architecture alone too.
        self.train("mlp", "first.h5", epochs=6)
        first = self.dure("run", "job.yaml", code=0)
        again = self.train("{file: first.h5}", "second.h5", epochs=1)
        loss_of = lambda done: float(done.out.split("epoch ")[-1].split("\n")[1].split()[2])
        self.assertLess(loss_of(again), 0.5, "it began where the first ended")
        self.assertEqual(first.code, 0)
        config = {"class_name": "Sequential", "config": {"name": "own", "layers": [
            {"class_name": "Flatten", "config": {"name": "f", "batch_input_shape": [None, 12, 12]}},
            {"class_name": "Dense", "config": {"name": "d", "units": 16, "activation": "tanh"}},
            {"class_name": "Dense", "config": {"name": "e", "units": 4, "activation": "softmax"}}]}}
        self.write("net.json", json.dumps(config))
        self.train("{file: net.json}", "third.safetensors")
        self.assertEqual(sorted(read_safetensors(self.dir / "third.safetensors")),
                         ["d.bias", "d.weight", "e.bias", "e.weight"])

    def test_mistakes_are_told_and_nothing_is_left(self):
        write_images(self.dir / "data.npz", size=12)
        self.write("net.pt", "this is no module")
        self.write("words.json", json.dumps({"class_name": "Sequential", "config": {"layers": [
            {"class_name": "Transformer", "config": {"name": "t"}}]}}))
        for model, sentence in [("{file: net.pt}", "not a TorchScript module"),
                                ("{file: words.json}", "Transformer"),
                                ("text", "takes a row of words")]:
            done = self.train(model, "model.pt", code=1)
            self.assertIn(sentence, done.out + done.err)
            self.assertNotIn("generation 2", done.err, "there is no point in another try")
            self.assertFalse((self.dir / "model.pt").exists())
        self.assertIn("train.data.path", self.train("mlp", "m.h5", data="nowhere.npz", code=2).err)


harness.main()
