"""The models that native training writes are what others read, and the models that others write train."""
import json
import os
import signal

import numpy

import harness
from native import largest_difference, read_safetensors, write_images

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
x = torch.tensor(given['values'], dtype=getattr(torch, given['dtype'])).reshape(given['shape'])
print(json.dumps(model(x).flatten().tolist()))
"""

# What PyTorch programs ask of a module that they did not make.
INSPECT = """
import json, sys, torch
extra = {'dure/classes': ''}
model = torch.jit.load(sys.argv[1], _extra_files=extra)
before = model.training
frozen = torch.jit.freeze(model.eval())
x = torch.zeros([2] + json.loads(sys.argv[2]), dtype=torch.uint8)
print(json.dumps({'training': before, 'names': model.class_names, 'extra': json.loads(extra['dure/classes']),
                  'same': bool(torch.allclose(frozen(x), model(x)))}))
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

# What a module gives for the test images, and which share of them it gets right.
JUDGE = """
import numpy, sys, torch
arrays = numpy.load('data.npz')
model = torch.jit.load(sys.argv[1])
x = torch.from_numpy(arrays['x_test']).float().unsqueeze(1) / 255
print(float((model(x).argmax(1) == torch.from_numpy(arrays['y_test'])).float().mean()))
"""

# A module with a frozen layer and one that counts, and 50 steps on the whole set in PyTorch.
PEER = """
import json, numpy, sys, torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(4)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(400, 16), nn.Tanh(), nn.Linear(16, 4))
model[0].weight.requires_grad_(False)
torch.jit.script(model).save('net.pt')
model = torch.jit.load('net.pt')
arrays = numpy.load('data.npz')
x = torch.from_numpy(arrays['x_train']).float().unsqueeze(1) / 255
y = torch.from_numpy(arrays['y_train'])
made = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.02, momentum=0.9, weight_decay=1e-2)
for step in range(50):
    made.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    made.step()
numpy.savez('peer.npz', **{name: value.detach().numpy() for name, value in model.named_parameters()})
"""


class ModelsTest(harness.Case):
    def train(self, model, output, data="data.npz", epochs=3, more="", code=0):
        self.write("job.yaml", JOB.format(model=model, data=data, epochs=epochs, more=more, output=output))
        return self.dure("run", "job.yaml", timeout=90, code=code)

    def accuracy(self, done):
        return float(done.out.split("accuracy ")[-1].split()[0])

    def write_input(self, samples, dtype):
        self.write("input.json", json.dumps({"shape": samples.shape, "values": samples.flatten().tolist(), "dtype": dtype}))

    def predict_with_tensorflow(self, file, samples):
        # It has no whole numbers but these.
        self.write_input(samples, "int32" if samples.dtype.kind in "iu" else "float32")
        modules = harness.run_text([harness.ROOT / "tools/node-peers"]).strip() + "/node_modules"
        return numpy.array(json.loads(harness.run_text(
            ["node", harness.ROOT / "tests/js/keras_predict.mjs", modules, file, "input.json"],
            cwd=self.dir).splitlines()[-1]))

    def predict_with_pytorch(self, file, samples):
        self.write("predict.py", PREDICT)
        self.write_input(samples, str(samples.dtype))
        return numpy.array(json.loads(harness.run_text(
            [harness.PYTHON, "predict.py", file, "input.json"], cwd=self.dir)))

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
        images = arrays["x_test"]
        words = self.write_words()
        cases = [("convnet", "data.npz", images[..., None]),
                 ("{name: convnet, hidden: [20], filters: [8]}", "data.npz", images[..., None]),
                 ("mlp", "data.npz", images), ("linear", "data.npz", images),
                 ("text", "words.npz", words), ("{name: text, lstm: 12}", "words.npz", words)]
        for model, data, samples in cases:
            self.train(model, "model.h5", data=data)
            self.train(model, "model.pt", data=data)
            tensorflow = self.predict_with_tensorflow("model.h5", samples)
            pytorch = self.predict_with_pytorch("model.pt", samples)
            self.assertEqual(tensorflow.shape, pytorch.shape)
            difference = float(numpy.abs(tensorflow - pytorch).max())
            harness.report(f"{model}: tfjs and PyTorch predict within {difference:.1e} of each other")
            self.assertLess(difference, 1e-5, model)
            self.assertGreater(float(numpy.abs(pytorch - pytorch[0]).max()), 0.1, "it learned to tell apart")

    def test_exports_take_samples_as_the_data_has_them(self):
        arrays = write_images(self.dir / "data.npz", size=12, classes=10, rows=512, test=256, seed=9)
        labels, images = arrays["y_test"], arrays["x_test"]
        self.assertEqual(images.dtype, numpy.uint8)
        for model, data, channels in (("convnet", "{path: data.npz, mean: 0.47, std: 0.25}", images[..., None]),
                                      ("mlp", "data.npz", images)):
            told = self.accuracy(self.train(model, "exp.pt", data=data, epochs=2))
            self.assertEqual(self.accuracy(self.train(model, "exp.h5", data=data, epochs=2)), told)
            for samples in (images, images.astype(numpy.float32)):
                guessed = self.predict_with_pytorch("exp.pt", samples).reshape(-1, 10).argmax(1)
                self.assertAlmostEqual(float((guessed == labels).mean()), told, places=4)
            guessed = self.predict_with_tensorflow("exp.h5", channels).reshape(-1, 10).argmax(1)
            self.assertAlmostEqual(float((guessed == labels).mean()), told, places=4)
            harness.report(f"{model}: {told} here, in PyTorch and in tfjs, of bytes as they are")

    def test_exports_name_their_classes(self):
        random = numpy.random.default_rng(2)
        rows = random.normal(0, 1, (300, 3))
        names = numpy.array(["cat", "dög", "hen"])[rows.argmax(1)]
        self.write("train.csv", "\n".join(["a,b,c,label"] + [f"{a},{b},{c},{n}" for (a, b, c), n in zip(rows, names)]))
        for output in ("exp.pt", "exp.h5", "exp.safetensors"):
            self.train("mlp", output, data="train.csv")
        self.write("inspect_model.py", INSPECT)
        seen = json.loads(harness.run_text([harness.PYTHON, "inspect_model.py", "exp.pt", "[3]"], cwd=self.dir))
        wanted = ["cat", "dög", "hen"]
        self.assertEqual(seen, {"training": False, "names": wanted, "extra": wanted, "same": True})
        in_keras = harness.run_text([harness.PYTHON, "-c", "import h5py\nprint(h5py.File('exp.h5').attrs['class_names'])"],
                                    cwd=self.dir)
        self.assertEqual(json.loads(in_keras), wanted)
        data = (self.dir / "exp.safetensors").read_bytes()
        header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
        self.assertEqual(json.loads(header["__metadata__"]["classes"]), wanted)
        self.assertEqual(header["__metadata__"]["input_scale"], "1")

    def test_exports_go_on_training(self):
        write_images(self.dir / "data.npz", size=12, classes=10, rows=512, test=256, seed=9)
        scaled = "{path: data.npz, mean: 0.47, std: 0.25}"
        first = self.accuracy(self.train("convnet", "exp.h5", data=scaled, epochs=2))
        self.train("convnet", "exp.pt", data=scaled, epochs=2)
        for data in (scaled, "data.npz"):
            from_keras = self.accuracy(self.train("{file: exp.h5}", "again.h5", data=data, epochs=1, more="steps: 5"))
            from_script = self.accuracy(self.train("{file: exp.pt}", "again.pt", data=data, epochs=1, more="steps: 5"))
            harness.report(f"{first} in the first training, after 5 more steps {from_keras} from .h5, {from_script} from .pt")
            self.assertEqual(from_script, from_keras)
            self.assertGreater(from_script, first - 0.1)
        # And what was trained from them is as good as they are.
        images = numpy.load(self.dir / "data.npz")
        guessed = self.predict_with_pytorch("again.pt", images["x_test"]).reshape(-1, 10).argmax(1)
        self.assertAlmostEqual(float((guessed == images["y_test"]).mean()), from_script, places=4)
        done = self.train("{file: exp.pt}", "again.pt", data="{path: data.npz, mean: 0.1}", code=1)
        self.assertIn("scale, mean and std make it", done.out + done.err)

    def test_a_torchscript_module_of_ones_own(self):
        write_images(self.dir / "data.npz", size=12)
        self.write("own.py", OWN)
        harness.run_text([harness.PYTHON, "own.py", "net.pt"], cwd=self.dir)
        done = self.train("{file: net.pt}", "model.pt", epochs=8)
        self.assertGreater(float(done.out.split("accuracy ")[-1].split()[0]), 0.9, done.out)
        # What was written is what was trained, and not only in its shapes.
        self.write("judge.py", JUDGE)
        judged = float(harness.run_text([harness.PYTHON, "judge.py", "model.pt"], cwd=self.dir))
        self.assertAlmostEqual(judged, float(done.out.split("accuracy ")[-1].split()[0]), places=4)
        # Its running statistics have moved too.
        moved = harness.run_text([harness.PYTHON, "-c", "import torch\n"
                                  "a, b = (dict(torch.jit.load(n).named_buffers()) for n in ('net.pt', 'model.pt'))\n"
                                  "print(float((a['1.running_mean'] - b['1.running_mean']).abs().max()))"],
                                 cwd=self.dir)
        self.assertGreater(float(moved), 1e-3)

    def test_a_module_learns_what_it_learns_in_pytorch(self):
        write_images(self.dir / "data.npz", rows=128, test=0, size=12)
        self.write("peer.py", PEER)
        harness.run_text([harness.PYTHON, "peer.py"], cwd=self.dir)
        theirs = dict(numpy.load(self.dir / "peer.npz"))
        self.write("job.yaml", """
name: peer
workers: 2
train: {model: {file: net.pt}, data: data.npz, epochs: 50, batch: 64,
        optimizer: {name: sgd, lr: 0.02, momentum: 0.9, weight_decay: 0.01}}
output: model.safetensors
""")
        self.dure("run", "job.yaml", code=0, timeout=90)
        ours = read_safetensors(self.dir / "model.safetensors")
        difference = largest_difference(ours, theirs)
        harness.report(f"a TorchScript module: {difference:.1e} from PyTorch after 50 steps")
        self.assertLess(difference, 1e-4)
        # The frozen layer is the same to the bit, whatever the weight decay.
        self.assertTrue(numpy.array_equal(ours["0.weight"], theirs["0.weight"]))

    def test_a_module_that_counts_is_killed(self):
        write_images(self.dir / "data.npz", rows=256, size=12)
        self.write("own.py", OWN)
        harness.run_text([harness.PYTHON, "own.py", "net.pt"], cwd=self.dir)
        job = """
name: {name}
workers: 2
train: {{model: {{file: net.pt}}, data: data.npz, epochs: 60, batch: 16}}
checkpoint: {{path: {name}, every: 20}}
output: {name}.safetensors
restarts: {{limit: 3, backoff: 10ms}}
"""
        self.write("calm.yaml", job.format(name="calm"))
        self.dure("run", "calm.yaml", code=0, timeout=90)
        self.write("killed.yaml", job.format(name="killed"))
        running = self.start("run", "killed.yaml")
        harness.wait_until(lambda: list((self.dir / "killed").glob("step-*0")), 60, "a checkpoint")
        os.kill(self.ranks()[0], signal.SIGKILL)
        done = running.wait(90)
        self.assertEqual(done.code, 0, done.out + done.err)
        self.assertIn("going on from step", done.out)
        calm = read_safetensors(self.dir / "calm.safetensors")
        self.assertEqual(calm["1.num_batches_tracked"], 60 * 8)
        self.assertEqual((self.dir / "killed.safetensors").read_bytes(),
                         (self.dir / "calm.safetensors").read_bytes())

    def test_a_keras_model_of_ones_own(self):
        arrays = write_images(self.dir / "data.npz", size=12)
        # Architecture and weights as we wrote them ourselves go on training; an architecture alone too.
        self.train("mlp", "first.h5", epochs=6)
        first = self.dure("run", "job.yaml", code=0)
        again = self.train("{file: first.h5}", "second.h5", epochs=1)
        loss_of = lambda done: float(done.out.split("epoch ")[-1].split("\n")[1].split()[2])
        self.assertLess(loss_of(again), 0.5, "it began where the first ended")
        self.assertEqual(first.code, 0)
        config = {"class_name": "Sequential", "config": {"name": "own", "layers": [
            {"class_name": "Flatten", "config": {"name": "f", "batch_input_shape": [None, 12, 12]}},
            {"class_name": "Dense", "config": {"name": "d-1", "units": 16, "activation": "tanh"}},
            {"class_name": "Dense", "config": {"name": "e", "units": 4, "activation": "softmax"}}]}}
        self.write("net.json", json.dumps(config))
        self.train("{file: net.json}", "third.safetensors")
        self.assertEqual(sorted(read_safetensors(self.dir / "third.safetensors")),
                         ["d-1.bias", "d-1.weight", "e.bias", "e.weight"])
        # TorchScript has its own rules for names.
        done = self.train("{file: net.json}", "third.pt")
        guessed = self.predict_with_pytorch("third.pt", arrays["x_test"]).reshape(-1, 4).argmax(1)
        self.assertAlmostEqual(float((guessed == arrays["y_test"]).mean()), self.accuracy(done), places=4)

    def test_a_keras_model_of_words(self):
        self.write_words()
        self.write("net.json", json.dumps({"class_name": "Sequential", "config": {"layers": [
            {"class_name": "Embedding", "config": {"name": "e", "input_dim": 51, "output_dim": 8}},
            {"class_name": "GlobalAveragePooling1D", "config": {"name": "g"}},
            {"class_name": "Dense", "config": {"name": "d", "units": 2, "activation": "softmax"}}]}}))
        done = self.train("{file: net.json}", "model.h5", data="words.npz", code=1)
        self.assertRegex(done.out + done.err, r"words.npz: x_train: row \d+: the word 51 is beyond the 51 that .*net.json knows")
        # One of the two words that tell the classes apart is enough.
        done = self.train("{file: net.json, vocabulary: 51}", "model.h5", data="words.npz", epochs=24)
        self.assertGreater(float(done.out.split("accuracy ")[-1].split()[0]), 0.9, done.out)

    def test_mistakes_are_told_and_nothing_is_left(self):
        write_images(self.dir / "data.npz", size=12)
        self.write("net.pt", "this is no module")
        self.write("words.json", json.dumps({"class_name": "Sequential", "config": {"layers": [
            {"class_name": "Transformer", "config": {"name": "t"}}]}}))
        self.write("three.json", json.dumps({"class_name": "Sequential", "config": {"layers": [
            {"class_name": "Flatten", "config": {"name": "f"}},
            {"class_name": "Dense", "config": {"name": "d", "units": 3}}]}}))
        self.write("net.h5", "")
        (self.dir / "net.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(range(256)) * 8)
        for model, sentence in [("{file: net.pt}", "not a TorchScript module"),
                                ("{file: words.json}", "Transformer"),
                                ("{file: three.json}", "three.json gives 3 numbers for a sample, and this data needs 4"),
                                ("{file: net.h5}", "net.h5"),
                                ("text", "takes a row of words")]:
            done = self.train(model, "model.pt", code=1)
            self.assertIn(sentence, done.out + done.err)
            self.assertNotIn("generation 2", done.err, "there is no point in another try")
            self.assertFalse((self.dir / "model.pt").exists())
        self.assertIn("train.data.path", self.train("mlp", "m.h5", data="nowhere.npz", code=2).err)


harness.main()
