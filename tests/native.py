"""What the tests of native training share: small data sets, jobs, and models read back."""
import json
import os
import struct
import unittest

import numpy

import harness


def needs_data(path, what):
    """For a test on data that is not part of the source: a proof that nobody sees missing is none, so it
    fails without, unless DURE_TEST_WITHOUT_DATA=1 says that this machine need not have it."""
    if path.exists():
        return lambda test: test
    if os.environ.get("DURE_TEST_WITHOUT_DATA") == "1":
        return unittest.skip(f"{what}: there is no {path}")

    def failing(test):
        def fail(self):
            self.fail(f"{what}: there is no {path} (DURE_TEST_WITHOUT_DATA=1 skips tests without their data)")
        fail.__name__ = test.__name__
        return fail
    return failing


def write_images(path, rows=256, test=64, classes=4, seed=3, size=8):
    """An .npz of small images whose classes can be told apart."""
    random = numpy.random.default_rng(seed)
    means = random.uniform(60, 200, (classes, size, size))

    def split(count):
        labels = random.integers(0, classes, count)
        images = means[labels] + random.normal(0, 40, (count, size, size))
        return numpy.clip(images, 0, 255).astype(numpy.uint8), labels.astype(numpy.int64)

    x_train, y_train = split(rows)
    arrays = {"x_train": x_train, "y_train": y_train}
    if test:
        arrays["x_test"], arrays["y_test"] = split(test)
    numpy.savez(path, **arrays)
    return arrays


def read_safetensors(path):
    """By name, read by the format's description alone."""
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    kinds = {"F32": numpy.float32, "F64": numpy.float64, "I64": numpy.int64, "U8": numpy.uint8}
    arrays = {}
    for name, about in header.items():
        if name == "__metadata__":
            continue
        begin, end = about["data_offsets"]
        arrays[name] = numpy.frombuffer(data[8 + length + begin:8 + length + end],
                                        kinds[about["dtype"]]).reshape(about["shape"])
    return arrays


def write_safetensors(path, arrays, metadata=None):
    header, offset = {"__metadata__": metadata} if metadata else {}, 0
    kinds = {"float32": "F32", "int64": "I64", "float64": "F64"}
    for name, array in arrays.items():
        header[name] = {"dtype": kinds[array.dtype.name], "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(a.tobytes() for a in arrays.values()))


def predict_with_tfjs(folder, file, samples):
    """What TensorFlow.js makes of the model, which knows nothing of Dure."""
    modules = harness.run_text([harness.ROOT / "tools/node-peers"]).strip() + "/node_modules"
    (folder / "input.json").write_text(json.dumps({"shape": list(samples.shape), "values": samples.flatten().tolist(),
                                                   "dtype": "int32"}))
    text = harness.run_text(["node", harness.ROOT / "tests/js/keras_predict.mjs", modules, file, "input.json"], cwd=folder)
    return numpy.array(json.loads(text.splitlines()[-1])).reshape(len(samples), -1)


def largest_difference(a, b):
    assert a.keys() == b.keys(), (a.keys(), b.keys())
    return max(float(numpy.abs(a[name] - b[name]).max()) for name in a)
