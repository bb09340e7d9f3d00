"""What the tests of serving share: small models of every kind, trained once, and a server in front of them."""
import base64
import http.client
import io
import json
import pathlib
import re
import shutil
import struct
import subprocess
import tempfile
import zlib

import numpy
from PIL import Image

import harness
from native import write_images

TRAINER = harness.BUILD / "dure-trainer"

JOB = """
name: models
workers: 1
resources: {{cpus: 1}}
train:
  model: {model}
  data: {{path: {data}, classes: {classes}}}
  epochs: 2
  batch: 32
  seed: {seed}
  optimizer: {{name: adam, lr: 0.01}}
{more}output: {output}
"""

# PyTorch's own predictions, and a module of somebody's own.
REFERENCE = """
import json, numpy, torch
torch.manual_seed(5)
x = torch.tensor(numpy.load('images.npz')['x_test'])
words = torch.tensor(numpy.load('words.npz')['x_test'])
own = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Softmax(-1)))
own.save('own.pt')
given = torch.tensor([[1., 2., 3.], [-1., 0., .5]])
print(json.dumps({'images': torch.jit.load('images.pt')(x).tolist(),
                  'words': torch.jit.load('words.pt')(words).tolist(), 'own': own(given).tolist()}))
"""

WORDS = ["good", "fine", "great", "bad", "poor", "awful", "film", "story", "don't", "the", "a", "br"]


def write_words(folder, rows=400, test=100, length=12, seed=6):
    """Texts whose class is told by their good and bad words, as Keras counts words; and the index beside them."""
    random = numpy.random.default_rng(seed)

    def split(count):
        labels = random.integers(0, 2, count)
        x = numpy.zeros((count, length), numpy.int32)
        for row, label in enumerate(labels):
            size = random.integers(3, length)
            own = random.integers(4, 7, size) if label else random.integers(7, 10, size)
            other = random.integers(10, 16, size)
            words = numpy.where(random.random(size) < 0.5, own, other)
            x[row, length - size - 1:] = [1, *words]
        return x, labels.astype(numpy.uint8)

    x_train, y_train = split(rows)
    x_test, y_test = split(test)
    numpy.savez(folder / "words.npz", x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    index = {word: number + 1 for number, word in enumerate(WORDS)}
    (folder / "word_index.json").write_text(json.dumps(index))


class Models:
    """Trained once for all tests of a suite."""

    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="dure-serve-"))
        write_images(self.dir / "images.npz", rows=256, test=40)
        write_words(self.dir)
        for output in ("images.h5", "images.safetensors", "images.pt"):
            self.train("convnet", "images.npz", 4, output)
        self.train("text", "words.npz", 2, "words.h5", more="checkpoint: {path: saved, every: 5}\n")
        self.train("text", "words.npz", 2, "words.pt")
        self.expected = json.loads(harness.run_text([harness.PYTHON, "-c", REFERENCE], cwd=self.dir))
        self.images = numpy.load(self.dir / "images.npz")
        self.words = numpy.load(self.dir / "words.npz")

    def train(self, model, data, classes, output, seed=1, more=""):
        job = self.dir / (output + ".yaml")
        job.write_text(JOB.format(model=model, data=data, classes=classes, output=output, seed=seed, more=more))
        harness.run_text([str(TRAINER), job.name], cwd=self.dir)

    def remove(self):
        shutil.rmtree(self.dir, ignore_errors=True)


def png(image):
    out = io.BytesIO()
    Image.fromarray(image).save(out, "PNG")
    return {"b64": base64.b64encode(out.getvalue()).decode()}


def png_of_rows(width, height, packed):
    """A coloured one whose rows are packed already."""
    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    content += chunk(b"IDAT", packed) + chunk(b"IEND", b"")
    return {"b64": base64.b64encode(content).decode()}


def jpeg(image, cut=None, **options):
    out = io.BytesIO()
    Image.fromarray(image).save(out, "JPEG", quality=95, **options)
    return {"b64": base64.b64encode(out.getvalue()[:cut]).decode()}


class ServerCase(harness.Case):
    """With a server in front of some models, which is ended by SIGTERM."""

    def serve(self, *arguments, ready=True):
        server = self.start("serve", "--port", "0", "--drain", "0s", *arguments)
        address = harness.wait_until(lambda: re.search(r"https?://[^\s]+:(\d+)/", server.out)
                                     or server.process.poll() is not None, 60, "the server's address")
        if address is True:
            self.fail(server.err)
        self.port = int(address[1])
        if ready:
            harness.wait_until(lambda: self.get("/readyz")[0] == 200, 60, "a server that is ready")
        return server

    def request(self, method, path, body=None, headers=None, connection=None):
        """(status, headers, body) of one request."""
        own = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        own.request(method, path, body, headers or {})
        reply = own.getresponse()
        content = reply.read()
        if connection is None:
            own.close()
        return reply.status, dict(reply.getheaders()), content

    def get(self, path, **options):
        status, _, body = self.request("GET", path, **options)
        return status, body

    def post(self, path, body, **options):
        status, _, content = self.request("POST", path, body, **options)
        return status, json.loads(content)

    def predict(self, name, instances, **options):
        status, reply = self.post(f"/v1/models/{name}:predict", {"instances": instances}, **options)
        self.assertEqual(status, 200, reply)
        return reply["predictions"]

    def stop(self, server):
        server.process.terminate()
        done = server.wait(60)
        self.assertEqual(done.code, 0, done.err)
        return done
