"""dure average: one model of several, judged by numpy, h5py and PyTorch."""
import json
import os
import resource
import shutil
import signal
import struct
import subprocess

import h5py
import numpy

import harness
import native
from harness import DURE


def write_keras(path, seed, units=3, dtype=numpy.float32, facts=None, extra=(), chunked=False, activation="relu"):
    """A model in Keras' layout, with a batch normalisation, as h5py writes it."""
    random = numpy.random.default_rng(seed)
    layers = {
        "dense": {"dense/kernel:0": random.normal(size=(5, units)), "dense/bias:0": random.normal(size=units)},
        "bn": {"bn/gamma:0": random.normal(size=units), "bn/beta:0": random.normal(size=units),
               "bn/moving_mean:0": random.normal(size=units),
               "bn/moving_variance:0": random.uniform(0.5, 2, size=units)},
    }
    config = {"class_name": "Sequential", "config": {"name": "sequential", "layers": [
        {"class_name": "Dense", "config": {"name": "dense", "units": units, "activation": activation}},
        {"class_name": "BatchNormalization", "config": {"name": "bn"}}]}}
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(config)
        file.attrs["keras_version"] = "2.11.0"
        file.attrs["class_names"] = json.dumps(["cat", "dog"])
        file.attrs["word_index"] = json.dumps({"good": 1})
        file.attrs.update(facts or {})
        weights = file.create_group("model_weights")
        weights.attrs["layer_names"] = numpy.array(list(layers), "S")
        for layer, arrays in layers.items():
            group = weights.create_group(layer)
            group.attrs["weight_names"] = numpy.array(list(arrays), "S")
            for name, array in arrays.items():
                options = {"chunks": True, "compression": "gzip"} if chunked else {}
                group.create_dataset(name, data=array.astype(dtype), **options)
        for name, array in extra:
            file[name] = array
    return read_keras(path)


def read_keras(path):
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: item[()]})
                        if isinstance(item, h5py.Dataset) else None)
    return found


def expected_mean(models, weights=None):
    """As numpy has it, in double; variances by the law of total variance."""
    weights = numpy.ones(len(models)) if weights is None else numpy.array(weights, float)
    out = {}
    for name in models[0]:
        stack = numpy.stack([model[name].astype(numpy.float64) for model in models])
        shape = (-1,) + (1,) * (stack.ndim - 1)
        mean = (stack * weights.reshape(shape)).sum(0) / weights.sum()
        if name.endswith("moving_variance:0"):
            means = numpy.stack([model[name.replace("variance", "mean")].astype(numpy.float64) for model in models])
            middle = (means * weights.reshape(shape)).sum(0) / weights.sum()
            mean = mean + (weights.reshape(shape) * (means - middle) ** 2).sum(0) / weights.sum()
        out[name] = mean.astype(models[0][name].dtype)
    return out


# What a model says of its training, and the average of three models of 100 samples each.
FACTS = ("data", "samples", "epochs", "workers", "sync", "accuracy", "loss")
AVERAGED = {"models": "3", "samples": "300", "epochs": "3", "workers": "3", "sync": "step"}


class Case(harness.Case):
    def average(self, *arguments, code=0, **options):
        return self.dure("average", *arguments, code=code, **options)

    def write_models(self, count=3, folder="models", **options):
        (self.dir / folder).mkdir(exist_ok=True)
        return [write_keras(self.dir / folder / f"{i}-model.h5", i, **options) for i in range(count)]

    def refused(self, *words, arguments=("--dir", "models", "--savefile", "final.h5"), code=2):
        done = self.average(*arguments, code=code)
        self.assertEqual(len(done.err.splitlines()), 1, done.err)
        for word in words:
            self.assertIn(word, done.err)
        self.assertFalse((self.dir / "final.h5").exists())
        self.assertEqual([name for name in os.listdir(self.dir) if name.startswith(".dure")], [])
        return done.err

    def assert_close(self, got, expected, limit=0.0):
        self.assertEqual(sorted(got), sorted(expected))
        for name in expected:
            self.assertEqual(got[name].dtype, expected[name].dtype)
            numpy.testing.assert_allclose(got[name], expected[name], rtol=limit, atol=limit, err_msg=name)


class Keras(Case):
    def test_the_mean_of_a_directory(self):
        models = self.write_models(12)
        # In the directory itself, so that a second run must leave the first result out.
        for _ in range(2):
            done = self.average("--dir", "models", "--savefile", "models/final.h5")
            self.assertIn("mean of 12 models", done.out)
            self.assert_close(read_keras(self.dir / "models/final.h5"), expected_mean(models), 1e-6)
        # Names by their numbers.
        self.assertLess(done.out.index("2-model"), done.out.index("10-model"))
        with h5py.File(self.dir / "models/final.h5") as final, h5py.File(self.dir / "models/0-model.h5") as first:
            self.assertEqual(dict(final.attrs), {**first.attrs, "models": "12"})
            self.assertEqual(list(final["model_weights"].attrs["layer_names"]), [b"dense", b"bn"])
            self.assertEqual(list(final["model_weights/bn"].attrs["weight_names"]),
                             list(first["model_weights/bn"].attrs["weight_names"]))

    def test_sums_are_in_double_and_one_model_stays_as_it_is(self):
        models = self.write_models(5)
        self.average(*(f"models/{i}-model.h5" for i in range(5)), "--savefile", "final.h5")
        kernel = "model_weights/dense/dense/kernel:0"
        expected = numpy.mean([m[kernel] for m in models], axis=0, dtype=numpy.float64).astype(numpy.float32)
        numpy.testing.assert_array_equal(read_keras(self.dir / "final.h5")[kernel], expected)
        first = (self.dir / "final.h5").read_bytes()
        self.average(*(f"models/{i}-model.h5" for i in range(5)), "--savefile", "again.h5")
        self.assertEqual((self.dir / "again.h5").read_bytes(), first)
        self.average("models/3-model.h5", "--savefile", "one.h5")
        self.assertEqual((self.dir / "one.h5").read_bytes(), (self.dir / "models/3-model.h5").read_bytes())

    def test_weights(self):
        models = self.write_models(3)
        self.average("--dir", "models", "--savefile", "final.h5", "--weights", "1,2,3.5")
        self.assert_close(read_keras(self.dir / "final.h5"), expected_mean(models, [1, 2, 3.5]), 1e-6)
        os.unlink(self.dir / "final.h5")
        self.refused("2 weights", "3 models", arguments=("--dir", "models", "--savefile", "final.h5",
                                                         "--weights", "1,2"))
        self.refused("'x'", arguments=("--dir", "models", "--savefile", "final.h5", "--weights", "1,x,2"))
        self.refused("-1", arguments=("--dir", "models", "--savefile", "final.h5", "--weights", "1,-1,2"))
        self.refused("samples", arguments=("--dir", "models", "--savefile", "final.h5", "--weights", "samples"))

    def test_weights_by_samples(self):
        (self.dir / "models").mkdir()
        models = [write_keras(self.dir / f"models/{i}.h5", i, facts={"samples": str(count)})
                  for i, count in enumerate((100, 300))]
        self.average("--dir", "models", "--savefile", "models/final.h5", "--weights", "samples")
        self.assert_close(read_keras(self.dir / "models/final.h5"), expected_mean(models, [100, 300]), 1e-6)
        # The average is of all 400.
        models.append(write_keras(self.dir / "other.h5", 2, facts={"samples": "200"}))
        self.average("models/final.h5", "other.h5", "--savefile", "all.h5", "--weights", "samples")
        expected = expected_mean([read_keras(self.dir / "models/final.h5"), models[2]], [400, 200])
        self.assert_close(read_keras(self.dir / "all.h5"), expected, 1e-6)

    def test_the_average_says_how_it_was_trained(self):
        (self.dir / "models").mkdir()
        for i in range(3):
            write_keras(self.dir / f"models/{i}.h5", i, facts={
                "data": f"{i}.npz", "samples": "100", "epochs": "3", "workers": "1", "sync": "step",
                "accuracy": "0.75", "loss": "0.5"})
        self.average("--dir", "models", "--savefile", "final.h5")
        with h5py.File(self.dir / "final.h5") as final:
            self.assertEqual({name: value for name, value in final.attrs.items()
                              if name in ("models", *FACTS)}, AVERAGED)

    def test_median_and_trimmed_mean(self):
        models = self.write_models(5)
        names = list(models[0])
        self.average("--dir", "models", "--savefile", "median.h5", "--method", "median")
        self.assert_close(read_keras(self.dir / "median.h5"),
                          {name: numpy.median([m[name] for m in models], axis=0) for name in names}, 1e-6)
        self.average("--dir", "models", "--savefile", "trimmed.h5", "--method", "trimmed")
        self.assert_close(read_keras(self.dir / "trimmed.h5"), {
            name: numpy.sort([m[name].astype(float) for m in models], axis=0)[1:-1].mean(0).astype(numpy.float32)
            for name in names}, 1e-6)
        self.refused("too few", arguments=("--dir", "models", "--savefile", "final.h5", "--method", "trimmed",
                                           "--trim", "3"))

    def test_types_layouts_and_byte_orders(self):
        for options in ({"dtype": numpy.float64}, {"dtype": numpy.float16}, {"dtype": ">f4"}, {"chunked": True}):
            with self.subTest(**options):
                shutil.rmtree(self.dir / "models", ignore_errors=True)
                models = self.write_models(3, **options)
                self.average("--dir", "models", "--savefile", "final.h5")
                limit = 1e-3 if options.get("dtype") == numpy.float16 else 1e-6
                self.assert_close(read_keras(self.dir / "final.h5"), expected_mean(models), limit)

    def test_whole_numbers_are_not_averaged(self):
        (self.dir / "models").mkdir()
        for i in range(2):
            write_keras(self.dir / f"models/{i}.h5", i, extra=[
                ("model_weights/norm/norm/count:0", numpy.int64(7 + i)),
                ("model_weights/norm/norm/table:0", numpy.arange(3))])
        done = self.average("--dir", "models", "--savefile", "final.h5")
        self.assertIn("norm/count", done.err)
        final = read_keras(self.dir / "final.h5")
        self.assertEqual(final["model_weights/norm/norm/count:0"], 8)
        numpy.testing.assert_array_equal(final["model_weights/norm/norm/table:0"], [0, 1, 2])
        os.unlink(self.dir / "final.h5")
        with h5py.File(self.dir / "models/1.h5", "r+") as file:
            file["model_weights/norm/norm/table:0"][0] = 9
        self.refused("norm/table", "1.h5")

    def test_models_that_do_not_match(self):
        self.write_models(2)
        write_keras(self.dir / "models/1-model.h5", 1, units=4)
        self.refused("1-model.h5: dense/kernel", "(5, 4)", "(5, 3)")
        write_keras(self.dir / "models/1-model.h5", 1, activation="tanh")
        self.refused("1-model.h5: layer dense", "tanh", "relu")
        write_keras(self.dir / "models/1-model.h5", 1, dtype=numpy.float64)
        self.refused("float64", "float32")
        write_keras(self.dir / "models/1-model.h5", 1, extra=[("model_weights/more/kernel:0", numpy.ones(3))])
        self.refused("more/kernel", "(3,)")

    def test_nan_and_infinite(self):
        for number, word in ((numpy.nan, "NaN"), (numpy.inf, "infinite"), (-numpy.inf, "infinite")):
            for method in ("mean", "median"):
                self.write_models(3)
                with h5py.File(self.dir / "models/2-model.h5", "r+") as file:
                    file["model_weights/dense/dense/kernel:0"][1, 1] = number
                self.refused("2-model.h5: dense/kernel", word, "index 4",
                             arguments=("--dir", "models", "--savefile", "final.h5", "--method", method))

    def test_damaged_files(self):
        self.write_models(2)
        sound = (self.dir / "models/1-model.h5").read_bytes()
        for damage in (b"", b"HDF", sound[:300], sound[:-2000]):
            self.write("models/1-model.h5", damage)
            self.refused("1-model.h5")
        for i in range(0, len(sound), 113):
            flipped = bytearray(sound)
            flipped[i] ^= 1 << (i % 8)
            self.write("models/1-model.h5", bytes(flipped))
            done = self.average("--dir", "models", "--savefile", "final.h5", code=None)
            self.assertIn(done.code, (0, 2, 3), done.err)
            if done.code:
                self.assertEqual(len(done.err.splitlines()), 1, done.err)

    def test_mistakes(self):
        self.refused("which models", arguments=("--savefile", "final.h5"))
        self.refused("no such directory", arguments=("--dir", "absent", "--savefile", "final.h5"))
        (self.dir / "empty").mkdir()
        self.refused("no model", arguments=("--dir", "empty", "--savefile", "final.h5"))
        self.write_models(2)
        self.refused("'.h5'", arguments=("--dir", "models", "--savefile", "final.pt"))
        self.refused("another name", arguments=("models/0-model.h5", "models/1-model.h5", "--savefile",
                                                "models/1-model.h5"))
        self.average("--dir", "models", "--savefile", "new/folder/final.h5")

    def test_a_full_disk_and_a_kill(self):
        self.write_models(3)
        for i in range(3):
            with h5py.File(self.dir / f"models/{i}-model.h5", "r+") as file:
                file["model_weights/large/kernel:0"] = numpy.full((2000, 1000), float(i), numpy.float32)
        command = [DURE, "average", "--dir", "models", "--savefile", "final.h5"]
        done = subprocess.run(command, cwd=self.dir, capture_output=True, text=True, env=self.env,
                              preexec_fn=lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
                                                  resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("final.h5", done.stderr)
        self.assertEqual([name for name in os.listdir(self.dir) if "final" in name or "dure-average" in name], [])
        for delay in (0.01, 0.03, 0.06):
            process = subprocess.Popen(command, cwd=self.dir, stdout=subprocess.DEVNULL, env=self.env)
            try:
                process.wait(delay)
            except subprocess.TimeoutExpired:
                process.kill()
            process.wait()
            if (self.dir / "final.h5").exists():
                self.assertEqual(read_keras(self.dir / "final.h5")["model_weights/large/kernel:0"][0, 0], 1)
        self.average("--dir", "models", "--savefile", "final.h5")
        self.assertEqual([name for name in os.listdir(self.dir) if "dure-average" in name], [])


class Safetensors(Case):
    def test_means_variances_and_counters(self):
        models = []
        for i in range(3):
            random = numpy.random.default_rng(i)
            models.append({"fc.weight": random.normal(size=(4, 3)).astype(numpy.float32),
                           "bn.running_mean": random.normal(size=4).astype(numpy.float32),
                           "bn.running_var": random.uniform(1, 2, size=4).astype(numpy.float32),
                           "bn.num_batches_tracked": numpy.array(10 * i)})
            native.write_safetensors(self.dir / f"m/{i}.safetensors", models[-1], {"classes": "[]", "samples": str(i + 1)})
        done = self.average("--dir", "m", "--savefile", "final.safetensors", "--weights", "samples")
        self.assertIn("num_batches_tracked", done.err)
        final = native.read_safetensors(self.dir / "final.safetensors")
        weights = numpy.array([1, 2, 3.0])
        for name in ("fc.weight", "bn.running_mean"):
            numpy.testing.assert_allclose(final[name], numpy.average([m[name] for m in models], axis=0,
                                                                     weights=weights), rtol=1e-5, atol=1e-6)
        means = numpy.array([m["bn.running_mean"] for m in models], float)
        total = numpy.average([m["bn.running_var"] + (mean - numpy.average(means, axis=0, weights=weights)) ** 2
                               for m, mean in zip(models, means)], axis=0, weights=weights)
        numpy.testing.assert_allclose(final["bn.running_var"], total, rtol=1e-5)
        self.assertEqual(final["bn.num_batches_tracked"], 20)

    def test_the_average_says_how_it_was_trained(self):
        facts = {"samples": "100", "epochs": "3", "workers": "1", "sync": "step"}
        # With and without room in the header for what is said now.
        for i, more in enumerate(({**facts, "accuracy": "0.75", "loss": "0.5"}, facts, {})):
            for j in range(3):
                native.write_safetensors(self.dir / f"{i}/{j}.safetensors", {"fc.weight": numpy.full(5, j, numpy.float32)},
                                   {"classes": "[]", **more})
            self.average("--dir", str(i), "--savefile", f"{i}/final.safetensors")
            final = self.dir / f"{i}/final.safetensors"
            numpy.testing.assert_array_equal(native.read_safetensors(final)["fc.weight"], numpy.ones(5))
            data = final.read_bytes()
            header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
            self.assertEqual(header["__metadata__"], {"classes": "[]", **(AVERAGED if more else {"models": "3"})})


class TorchScript(Case):
    PROGRAM = """
import sys, torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 3, 3)
        self.bn = torch.nn.BatchNorm2d(3)
        self.fc = torch.nn.Linear(3, 2)
    def forward(self, x):
        return self.fc(self.bn(self.conv(x)).mean([2, 3]))
models = []
for i in range(3):
    torch.manual_seed(i)
    net = Net()
    for _ in range(i + 1):
        net(torch.randn(8, 1, 5, 5))
    net.eval()
    torch.jit.save(torch.jit.script(net), f"m/{i}.pt", _extra_files={
        "dure/samples": str(i + 1), "dure/data": f"{i}.npz", "dure/epochs": "3", "dure/accuracy": "0.75", "mine": "x"})
    models.append(net)
"""
    CHECK = """
final = torch.jit.load("final.pt")
states = [model.state_dict() for model in models]
means = torch.stack([s["bn.running_mean"].double() for s in states])
for name, value in final.state_dict().items():
    stack = torch.stack([s[name].double() for s in states])
    if name.endswith("num_batches_tracked"):
        assert value == 3, value
        continue
    expected = stack.mean(0)
    if name.endswith("running_var"):
        expected = expected + ((means - means.mean(0)) ** 2).mean(0)
    assert torch.allclose(value.double(), expected, atol=1e-6), name
import zipfile
with zipfile.ZipFile("final.pt") as archive:
    assert archive.testzip() is None
    said = {name.split("/extra/")[1]: archive.read(name) for name in archive.namelist() if "/extra/" in name}
assert said == {"dure/samples": b"6", "dure/epochs": b"3", "dure/models": b"3", "mine": b"x"}, said
print("same", final(torch.ones(1, 1, 5, 5)).shape)
"""

    def python(self, text):
        self.write("program.py", text)
        return harness.run_text([harness.PYTHON, "program.py"], cwd=self.dir, env=self.env)

    def test_torch_reads_the_mean(self):
        (self.dir / "m").mkdir()
        self.python(self.PROGRAM)
        done = self.average("--dir", "m", "--savefile", "final.pt")
        self.assertIn("bn.num_batches_tracked", done.err)
        self.assertIn("same", self.python(self.PROGRAM + self.CHECK))
        sound = (self.dir / "m/1.pt").read_bytes()
        os.unlink(self.dir / "final.pt")
        for damage in (sound[:-100], sound[:1000], sound[:2000] + bytes([sound[2000] ^ 1]) + sound[2001:]):
            self.write("m/1.pt", damage)
            done = self.average("--dir", "m", "--savefile", "final.pt", code=2)
            self.assertIn("1.pt", done.err)
            self.assertFalse((self.dir / "final.pt").exists())


if __name__ == "__main__":
    harness.main()
