#!/usr/bin/python3
"""Makes the files in src/format/testdata that numpy, h5py, Pillow and Python's own modules can make.

  tests/format/make_golden.py [directory]
The unit tests read the files as they are committed; run this only to change them. What they hold is
simple enough to be said again in the tests: counting numbers.
"""
import csv
import gzip
import json
import pathlib
import struct
import sys

import h5py
import numpy
import torch
from PIL import Image

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import arrow_bytes  # noqa: E402

OUT = pathlib.Path(sys.argv[1]) if sys.argv[1:] else HERE.parent.parent / "src/format/testdata"


def counting(shape, dtype):
    return numpy.arange(numpy.prod(shape)).reshape(shape).astype(dtype)


def make_numpy():
    arrays = {"x_train": counting((5, 2, 3), "<f4"), "y_train": numpy.array([0, 1, 2, 1, 0], "u1"),
              "x_test": counting((2, 2, 3), "<f4"), "y_test": numpy.array([2, 0], "u1")}
    numpy.savez(OUT / "stored.npz", **arrays)
    numpy.savez_compressed(OUT / "deflated.npz", **arrays)
    codes = ["b1", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"]
    # Through astype(order) so that both byte orders are there whatever this machine has.
    numpy.savez_compressed(OUT / "types.npz", **{
        name + code: counting((4,), order + code)
        for name, order in (("little_", "<"), ("big_", ">")) for code in codes})
    numpy.save(OUT / "fortran.npy", numpy.asfortranarray(counting((3, 4), "<f8")))
    numpy.save(OUT / "objects.npy", numpy.array([{}, []], dtype=object), allow_pickle=True)
    numpy.save(OUT / "texts.npy", numpy.array(["a", "b"]))
    numpy.save(OUT / "records.npy", numpy.zeros(2, dtype=[("a", "<f4"), ("b", "<i4")]))
    numpy.save(OUT / "complex.npy", numpy.zeros(2, dtype="<c8"))


def idx_bytes(array):
    codes = {"u1": 0x08, "i1": 0x09, "i2": 0x0b, "i4": 0x0c, "f4": 0x0d, "f8": 0x0e}
    code = codes[array.dtype.str[1:]]
    head = struct.pack(">BBBB", 0, 0, code, array.ndim) + struct.pack(">%dI" % array.ndim, *array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


def make_idx():
    directory = OUT / "idx"
    directory.mkdir(exist_ok=True)
    images = counting((6, 4, 3), "u1")
    labels = numpy.array([0, 1, 2, 3, 2, 1], "u1")
    (directory / "train-images-idx3-ubyte").write_bytes(idx_bytes(images))
    (directory / "train-labels.idx1-ubyte").write_bytes(idx_bytes(labels))
    for name, array in (("t10k-images-idx3-ubyte.gz", images[:2]), ("t10k-labels-idx1-ubyte.gz", labels[:2])):
        with open(directory / name, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as packed:
            packed.write(idx_bytes(array))
    for code in ("u1", "i1", "i2", "i4", "f4", "f8"):
        (directory / f"type-{code}").write_bytes(idx_bytes(counting((2, 2), code)))


def make_csv():
    directory = OUT / "csv"
    directory.mkdir(exist_ok=True)
    for name, rows in (("train", [[5.1, -3.5, "setosa"], [7.0, 1e-3, "virgi\"nica"], [6.3, 0, "a, b\nc"],
                                  [1, 2, "setosa"]]),
                       ("test", [[0.5, 0.25, "setosa"]])):
        with open(directory / f"{name}.csv", "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["length", "width, cm", "class"])
            writer.writerows(rows)


def make_png():
    directory = OUT / "png"
    directory.mkdir(exist_ok=True)
    grey = numpy.arange(12, dtype="u1").reshape(3, 4) * 20
    colour = numpy.arange(36, dtype="u1").reshape(3, 4, 3) * 7
    Image.fromarray(grey).save(directory / "grey.png")
    Image.fromarray(255 - grey).save(directory / "inverse.png")
    Image.fromarray(grey[:2]).save(directory / "smaller.png")
    Image.fromarray(grey).convert("LA").save(directory / "grey_alpha.png")
    Image.fromarray(grey.astype("u2") * 257).save(directory / "grey16.png")
    Image.fromarray(grey > 100).save(directory / "bits.png")
    Image.fromarray(colour).save(directory / "colour.png")
    Image.fromarray(colour).convert("RGBA").save(directory / "colour_alpha.png")
    Image.fromarray(colour).quantize(12).save(directory / "palette.png")


def make_safetensors():
    header, data = {"__metadata__": {"format": "pt"}}, b""
    names = {"bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "uint16": "U16", "int32": "I32",
             "uint32": "U32", "int64": "I64", "uint64": "U64", "float16": "F16", "float32": "F32",
             "float64": "F64"}
    for name, code in reversed(names.items()):
        content = counting((2, 2), name).tobytes()
        header[name] = {"dtype": code, "shape": [2, 2], "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    header["empty"] = {"dtype": "F32", "shape": [0, 3], "data_offsets": [len(data), len(data)]}
    header["scalar"] = {"dtype": "BF16", "shape": [], "data_offsets": [len(data), len(data) + 2]}
    data += struct.pack("<H", 0x3fc0)
    text = json.dumps(header).encode()
    # Not padded: the numbers lie at odd addresses.
    (OUT / "numbers.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


# The layout that Keras 2's save_model gives an .h5 file, with the same h5py calls.
def make_keras():
    layers = [
        {"class_name": "InputLayer", "config": {"batch_input_shape": [None, 4], "dtype": "float32",
                                                "sparse": False, "ragged": False, "name": "dense_input"}},
        {"class_name": "Dense", "config": {"name": "dense", "trainable": True, "units": 3,
                                           "activation": "relu", "use_bias": True}},
        {"class_name": "Dropout", "config": {"name": "dropout", "rate": 0.5}},
        {"class_name": "LSTM", "config": {"name": "lstm", "units": 1}},
    ]
    config = {"class_name": "Sequential", "config": {"name": "sequential", "layers": layers}}
    weights = {
        "dense": {"dense/kernel:0": counting((4, 3), "<f4"), "dense/bias:0": counting((3,), "<f4")},
        "dropout": {},
        "lstm": {"lstm/lstm_cell/kernel:0": counting((3, 4), ">f4"),
                 "lstm/lstm_cell/recurrent_kernel:0": counting((1, 4), "<f2"),
                 "lstm/lstm_cell/bias:0": counting((4,), "<f8")},
    }
    for fixed in (False, True):
        with h5py.File(OUT / ("keras_fixed.h5" if fixed else "keras.h5"), "w", track_order=False) as file:
            text = numpy.bytes_ if fixed else (lambda words: words)
            file.attrs["keras_version"] = text(b"2.11.0")
            file.attrs["backend"] = text(b"tensorflow")
            file.attrs["model_config"] = text(json.dumps(config).encode())
            file.attrs["training_config"] = text(json.dumps({"loss": "mse"}).encode())
            group = file.create_group("model_weights")
            group.attrs["layer_names"] = [name.encode() for name in weights]
            group.attrs["backend"] = text(b"tensorflow")
            group.attrs["keras_version"] = text(b"2.11.0")
            for name, arrays in weights.items():
                layer = group.create_group(name)
                layer.attrs["weight_names"] = [weight.encode() for weight in arrays]
                for weight, array in arrays.items():
                    layer.create_dataset(weight, data=array)
    (OUT / "keras.json").write_text(json.dumps({**config, "keras_version": "2.11.0", "backend": "tensorflow"}))


def make_torch():
    """A module with every kind of tensor that a file may hold: buffers, whole numbers, other strides, views, twins."""
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(3, 2)
            self.fc.weight.data = torch.arange(6.0).reshape(2, 3)
            self.fc.bias.data = torch.arange(2.0)
            self.bn = torch.nn.BatchNorm1d(2)
            self.twin = self.fc.bias
            self.register_buffer("last", torch.arange(24.0).reshape(1, 2, 3, 4).contiguous(
                memory_format=torch.channels_last))
            self.register_buffer("part", torch.arange(10)[4:8])
            self.names = ["a", "b"]

        def forward(self, x):
            return self.bn(self.fc(x)) + self.last.sum() + self.part.sum() + self.twin

    torch.jit.save(torch.jit.script(Net().eval()), str(OUT / "torch.pt"), _extra_files={"dure/samples": "7"})


def make_hostile_arrow():
    folder = OUT / "arrow"
    folder.mkdir(exist_ok=True)
    # The product of the sizes is 2^64 + 230.
    (folder / "claiming.arrow").write_bytes(arrow_bytes.claiming([2, 3, 19, 41, 97, 7103, 69341, 82609]))
    # Less than 2^63, and still more than any machine has.
    (folder / "claiming_much.arrow").write_bytes(arrow_bytes.claiming([400] * 5))
    (folder / "repeating.arrow").write_bytes(arrow_bytes.repeating(3))
    (folder / "once.arrow").write_bytes(arrow_bytes.repeating(1))


OUT.mkdir(exist_ok=True)
for make in (make_numpy, make_idx, make_csv, make_png, make_safetensors, make_keras, make_torch, make_hostile_arrow):
    make()
