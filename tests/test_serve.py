"""dure serve answers as TensorFlow Serving and the Open Inference Protocol do, with the predictions of PyTorch."""
import base64
import json
import os
import random
import re
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time
import urllib.request
import zlib

import h5py
import numpy

import harness
import native
import serving
from harness import wait_until
from serving import jpeg, png, png_of_rows

MODELS = None

# A module of somebody's own, to be trained on texts.
EMBEDDING = """
import torch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(16, 4)
        self.fc = torch.nn.Linear(4, 2)
    def forward(self, x):
        return self.fc(self.embedding(x).mean(1))
torch.jit.script(Net()).save('embedding.pt')
"""


def setUpModule():
    global MODELS
    MODELS = serving.Models()


def tearDownModule():
    MODELS.remove()


def close(a, b, limit=1e-4):
    return float(numpy.abs(numpy.array(a) - numpy.array(b)).max()) < limit


class Serve(serving.ServerCase):
    def file(self, name):
        return MODELS.dir / name

    def test_every_kind_of_model_predicts_what_pytorch_predicts(self):
        self.serve(*(self.file(name) for name in ("images.h5", "images.safetensors", "images.pt", "words.h5", "own.pt", "saved")),
                   *(part for name in "h5 tensors script words own saved".split() for part in ("--name", name)))
        images, words = MODELS.images["x_test"], MODELS.words["x_test"]
        for name in ("h5", "tensors", "script"):
            with self.subTest(name):
                self.assertTrue(close(self.predict(name, images.tolist()), MODELS.expected["images"]))
        self.assertTrue(close(self.predict("words", words.tolist()), MODELS.expected["words"]))
        self.assertTrue(close(self.predict("saved", words.tolist()), MODELS.expected["words"]))
        self.assertTrue(close(self.predict("own", [[1, 2, 3], [-1, 0, 0.5]]), MODELS.expected["own"]))

        with self.subTest("rows, columns, versions, metadata"):
            one = images[:1].tolist()
            self.assertEqual(self.post("/v1/models/h5:predict", {"inputs": one})[1]["outputs"], self.predict("h5", one))
            self.assertEqual(self.post("/v1/models/h5:predict", {"inputs": {"input": one}})[1]["outputs"], self.predict("h5", one))
            self.assertEqual(self.post("/v1/models/h5/versions/1:predict", {"instances": one})[0], 200)
            self.assertEqual(self.post("/v1/models/h5/versions/2:predict", {"instances": one})[0], 404)
            status = json.loads(self.get("/v1/models/h5")[1])["model_version_status"]
            self.assertEqual(status, [{"version": "1", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}])
            signature = json.loads(self.get("/v1/models/h5/metadata")[1])["metadata"]["signature_def"]["signature_def"]
            self.assertEqual([dim["size"] for dim in signature["serving_default"]["inputs"]["input"]["tensor_shape"]["dim"]], ["-1", "8", "8", "1"])
        with self.subTest("the Open Inference Protocol"):
            self.open_inference(images)
        with self.subTest("raw text"):
            texts = ["A good, FINE film!", "the awful story; don't <br /> poor"]
            numbers = [[0] * 7 + [1, 14, 4, 5, 10], [0] * 5 + [1, 13, 9, 11, 12, 15, 8]]
            self.assertEqual(self.predict("words", texts), self.predict("words", numbers))
            self.assertGreater(self.predict("words", texts)[0][1], 0.5)
            self.explain(texts[0])
        with self.subTest("pictures"):
            grey = images[0]
            colour = numpy.stack([grey] * 3, -1).repeat(2, 0).repeat(2, 1)
            expected = self.predict("h5", [grey.tolist()])
            self.assertEqual(self.predict("h5", [png(grey)]), expected)
            self.assertTrue(close(self.predict("h5", [png(colour)]), expected, 1e-3))
            self.assertEqual(self.post("/v1/models/h5:predict", {"instances": [{"b64": "iVBORw0K"}]})[0], 400)
        with self.subTest("what the page is told"):
            self.told()
        with self.subTest("mistakes"):
            self.mistakes()

    def open_inference(self, images):
        self.assertEqual(json.loads(self.get("/v2")[1])["extensions"], ["binary_tensor_data"])
        for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/h5/ready", "/v2/models/h5/versions/1/ready"):
            self.assertEqual(self.get(path)[0], 200, path)
        about = json.loads(self.get("/v2/models/h5")[1])
        self.assertEqual(about["inputs"], [{"name": "input", "datatype": "FP32", "shape": [-1, 8, 8, 1]}])
        expected = MODELS.expected["images"][:3]
        data = images[:3].astype(numpy.float32)
        tensor = {"name": "input", "shape": [3, 8, 8], "datatype": "FP32"}
        status, reply = self.post("/v2/models/h5/infer", {"id": "7", "inputs": [{**tensor, "data": data.flatten().tolist()}]})
        self.assertEqual((status, reply["id"], reply["model_name"], reply["outputs"][0]["shape"]), (200, "7", "h5", [3, 4]))
        self.assertTrue(close(numpy.reshape(reply["outputs"][0]["data"], (3, 4)), expected))
        for kind, values in (("FP32", data), ("UINT8", images[:3])):
            head = json.dumps({"inputs": [{**tensor, "datatype": kind, "parameters": {"binary_data_size": values.nbytes}}],
                               "outputs": [{"name": "output", "parameters": {"binary_data": True}}]}).encode()
            status, headers, body = self.request("POST", "/v2/models/h5/versions/1/infer", head + values.tobytes(),
                                                 {"Inference-Header-Content-Length": str(len(head))})
            self.assertEqual(status, 200, body)
            length = int(headers["Inference-Header-Content-Length"])
            self.assertTrue(close(numpy.frombuffer(body[length:], numpy.float32).reshape(3, 4), expected))
        status, reply = self.post("/v2/models/words/infer", {"inputs": [
            {"name": "input", "shape": [1], "datatype": "BYTES", "data": ["a good film"]}]})
        self.assertTrue(close(reply["outputs"][0]["data"], self.predict("words", ["a good film"])[0]))

    def explain(self, text):
        status, reply = self.post("/api/models/words/explain", {"text": text})
        self.assertEqual(status, 200, reply)
        self.assertEqual([text[word["start"]:word["end"]] for word in reply["words"]], ["A", "good", "FINE", "film"])
        self.assertTrue(close(reply["prediction"], self.predict("words", [text])[0]))
        without = self.predict("words", ["A FINE film!"])[0][1]
        self.assertTrue(close(reply["words"][1]["weight"], reply["prediction"][1] - without))
        self.assertFalse(reply["truncated"])

    def told(self):
        models = {model["name"]: model for model in json.loads(self.get("/api/models")[1])["models"]}
        words, images = models["words"], models["h5"]
        self.assertEqual((words["kind"], words["input"], words["outputs"], words["activation"], words["vocabulary"]),
                         ("text", {"shape": [12], "dtype": "int32"}, 2, "softmax", 16))
        self.assertEqual((images["kind"], images["input"], images["state"], images["version"]),
                         ("image", {"shape": [8, 8, 1], "dtype": "uint8"}, "ready", 1))
        trained = words["trained"]
        self.assertEqual((trained["data"], trained["samples"], trained["epochs"], trained["workers"], trained["sync"]),
                         ("words.npz", 400, 2, 1, "step"))
        self.assertTrue(0 < trained["accuracy"] <= 1)
        metrics = self.get("/metrics")[1].decode()
        self.assertRegex(metrics, r'dure_requests_total\{code="200"\} \d+')
        self.assertIn('dure_model_version{model="words"} 1', metrics)

    def mistakes(self):
        for body, code in ((b"", 400), (b"{", 400), (b"[]", 400), (b'{"instances": 1}', 400), (b'{"instances": [[1, 2]]}', 400),
                           (b'{"instances": [[[1, "a"]]]}', 400), (b'{"instances": [' + b"[" * 100000, 400),
                           (b'{"instances": [[1e999]]}', 400), (b'\xff\xfe', 400), (b'{"instances": ["text"]}', 400)):
            status, reply = self.post("/v1/models/h5:predict", body)
            self.assertEqual(status, code, body[:40])
            self.assertIn("error", reply)
        self.assertEqual(self.post("/v1/models/none:predict", {"instances": []})[0], 404)
        self.assertEqual(self.request("DELETE", "/v1/models/h5")[0], 405)

    def raw(self, data, wait=20):
        """Everything that comes back for these bytes, until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=wait) as connection:
            connection.sendall(data)
            received = b""
            while part := connection.recv(65536):
                received += part
            return received

    def test_hostile_input_is_refused_and_hurts_nobody(self):
        server = self.serve(self.file("words.h5"), "--max-body", "64Ki", "--connections", "300")
        before = harness.resident_kib(server.pid)
        post = b"POST /v1/models/words:predict HTTP/1.1\r\nHost: a\r\n"
        for head in (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n",
                     b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", b"Content-Length: 0\r\n x\r\n\r\n",
                     b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", b"Content-Length : 5\r\n\r\nhello", b"Content-Length: 5\nX: y\r\n\r\nhello"):
            reply = self.raw(post + head)
            self.assertTrue(reply.startswith(b"HTTP/1.1 400 "), reply)
            self.assertEqual(reply.count(b"HTTP/1.1"), 1, reply)
        self.assertTrue(self.raw(post + b"Content-Length: 1073741824\r\n\r\n" + b"x" * 100000).startswith(b"HTTP/1.1 413 "))
        chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as stubborn:  # sends all of it, whatever the answer
            stubborn.sendall(post + b"Content-Length: 1073741824\r\n\r\n")
            for _ in range(1024):
                stubborn.sendall(bytes(1 << 20))
            self.assertTrue(stubborn.recv(1000).startswith(b"HTTP/1.1 413 "))
        self.assertTrue(self.raw(post + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 4).startswith(b"HTTP/1.1 413 "))
        self.assertTrue(self.raw(b"GET /" + b"x" * 100000).startswith(b"HTTP/1.1 431 "))

        idle = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(200)]
        slow = []
        for _ in range(20):
            connection = socket.create_connection(("127.0.0.1", self.port))
            connection.sendall(b"GET / HTTP/1.1\r\nX-a: ")
            slow.append(connection)
        reader = socket.socket()  # who never reads the replies, until the server cannot send any more, nor reads
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.connect(("127.0.0.1", self.port))
        reader.settimeout(2)
        with self.assertRaises(TimeoutError):
            for _ in range(10_000):
                reader.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 100)
        began = time.monotonic()
        for _ in range(50):
            self.predict("words", ["a good film"])
        self.assertLess(time.monotonic() - began, 20)
        more = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(100)]
        self.assertTrue(wait_until(lambda: any(b" 503 " in self.peek(each) for each in more), 20, "503 for one connection too many"))
        for each in [*idle, *more]:
            each.close()
        # Slowloris: a head that does not end within 10 s.
        slow[0].settimeout(40)
        self.assertTrue(slow[0].recv(1000).startswith(b"HTTP/1.1 408 "))
        for each in [*slow, reader]:
            each.close()
        self.assertLess(harness.resident_kib(server.pid) - before, 60000)
        self.stop(server)

    @staticmethod
    def peek(connection):
        connection.setblocking(False)
        try:
            return connection.recv(1000, socket.MSG_PEEK)
        except BlockingIOError:
            return b""
        except OSError:
            return b""

    def test_jpeg_pictures(self):
        self.serve(self.file("images.h5"))
        # Smooth, so that what JPEG leaves out does not matter: a large coloured one, a small grey one.
        slope = numpy.add.outer(numpy.arange(64), numpy.arange(64)).astype(numpy.uint8) + 60
        colour = numpy.stack([slope] * 3, -1)
        for picture in (colour, slope):
            expected = self.predict("images", [png(picture)])
            for options in ({}, {"progressive": True}):
                got = self.predict("images", [jpeg(picture, **options)])
                self.assertTrue(close(got, expected, 0.02), (got, expected))
        status, reply = self.post("/v1/models/images:predict", {"instances": [jpeg(colour, cut=300)]})
        self.assertEqual(status, 400)
        self.assertIn("JPEG", reply["error"])
        # The Open Inference Protocol, with the picture's bytes as they are.
        content = base64.b64decode(jpeg(colour)["b64"])
        tensor = struct.pack("<I", len(content)) + content
        head = json.dumps({"inputs": [{"name": "input", "datatype": "BYTES", "shape": [1],
                                       "parameters": {"binary_data_size": len(tensor)}}]}).encode()
        status, _, body = self.request("POST", "/v2/models/images/infer", head + tensor,
                                       {"Inference-Header-Content-Length": str(len(head))})
        self.assertEqual(status, 200, body)
        self.assertTrue(close(json.loads(body)["outputs"][0]["data"], self.predict("images", [jpeg(colour)]), 1e-6))

    def test_a_large_picture_takes_no_more_memory_than_its_pixels(self):
        server = self.serve(self.file("images.h5"))
        before = harness.peak_kib(server.pid)
        line = b"\0" + bytes(3 * 8000)
        for width, height in ((8000, 5000), (1_000_000, 40), (40, 1_000_000)):
            packer, rows = zlib.compressobj(1), b""
            left = height * (1 + 3 * width)
            while left > 0:
                rows += packer.compress(line[:left])
                left -= len(line)
            picture = png_of_rows(width, height, rows + packer.flush())
            self.assertLess(len(picture["b64"]), 1_000_000)
            self.assertTrue(close(self.predict("images", [picture]), self.predict("images", [[[0] * 8] * 8]), 1e-6))
        # 120 MB of them.
        self.assertLess(harness.peak_kib(server.pid) - before, 170_000)

    def test_weights_with_their_configuration_beside_them(self):
        images = MODELS.images["x_test"]
        with h5py.File(self.file("images.h5")) as model:
            config = model.attrs["model_config"]
        arrays = native.read_safetensors(self.file("images.safetensors"))
        for folder, name in (("one", "weights.json"), ("two", "config.json")):
            self.write(f"{folder}/{name}", config)
            native.write_safetensors(self.dir / folder / "weights.safetensors", arrays)
        native.write_safetensors(self.dir / "alone.safetensors", arrays)
        self.serve("one/weights.safetensors", "two/weights.safetensors", "alone.safetensors", "--name", "one",
                   "--name", "two", "--name", "alone", ready=False)
        wait_until(lambda: self.get("/v1/models/two")[0] == 200, 60, "the models")
        for name in ("one", "two"):
            self.assertTrue(close(self.predict(name, images.tolist()), MODELS.expected["images"]))
        told = {model["name"]: model for model in json.loads(self.get("/api/models")[1])["models"]}
        self.assertEqual(told["alone"]["state"], "failed")
        self.assertIn("alone.json", told["alone"]["why"])

    def test_a_torchscript_module_takes_raw_text(self):
        folder = MODELS.dir
        # In a file: TorchScript reads the source.
        (folder / "embedding.py").write_text(EMBEDDING)
        harness.run_text([harness.PYTHON, "embedding.py"], cwd=folder)
        MODELS.train("{file: embedding.pt, vocabulary: 16}", "words.npz", 2, "script.pt")
        self.serve(folder / "script.pt")
        text, numbers = "A good, FINE film! Unheard", [0] * 6 + [1, 14, 4, 5, 10, 2]
        self.assertEqual(self.predict("script", [text]), self.predict("script", [numbers]))
        model = json.loads(self.get("/api/models")[1])["models"][0]
        self.assertEqual((model["kind"], model["vocabulary"]), ("text", 16))
        status, reply = self.post("/v1/models/script:predict", {"instances": [[16] * 12]})
        self.assertEqual(status, 400)
        self.assertIn("16 words", reply["error"])

    def test_a_model_is_waited_for_and_replaced_under_load(self):
        path = self.dir / "model.h5"
        server = self.serve(path, ready=False)
        self.assertEqual(self.get("/healthz")[0], 200)
        status, body = self.get("/readyz")
        self.assertEqual(status, 503)
        self.assertIn(b"not there yet", body)
        self.assertEqual(json.loads(self.get("/api/models")[1])["models"][0]["state"], "waiting")
        self.assertEqual(self.post("/v1/models/model:predict", {"instances": []})[0], 503)

        MODELS.train("convnet", "images.npz", 4, "other.h5", seed=9)
        files = [self.file("images.h5"), self.file("other.h5")]
        sample = MODELS.images["x_test"][:4].tolist()
        self.put(files[0], path)
        wait_until(lambda: self.get("/readyz")[0] == 200, 30, "the file that was waited for")
        right = [self.predict("model", sample)]
        self.put(files[1], path)
        wait_until(lambda: self.version() == 2, 30, "a newer file")
        right.append(self.predict("model", sample))
        self.assertFalse(close(*right, 1e-3))

        stop, failures, count = threading.Event(), [], [0]

        def load():
            connection = None
            while not stop.is_set():
                try:
                    connection = connection or http_connection(self.port)
                    reply = self.predict("model", sample, connection=connection)
                    count[0] += 1
                    time.sleep(0.004)  # the suite shares the machine with others
                    if not any(close(reply, each, 1e-5) for each in right):
                        failures.append(reply)
                except Exception as error:  # noqa: BLE001: whatever it is, a request failed
                    failures.append(repr(error))
                    connection = None
        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for number in range(50):
                at = self.version()
                self.put(files[number % 2], path)
                wait_until(lambda: self.version() > at, 30, f"replacement {number}")
                if number == 25:  # one that is damaged in between
                    data = files[0].read_bytes()
                    self.write("broken", data[:len(data) // 2])
                    os.replace(self.dir / "broken", path)
                    wait_until(lambda: "not taken up" in self.model()["why"], 30, "a damaged file")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(failures, [])
        self.assertGreater(count[0], 200)
        harness.report(f"{count[0]} requests while the model was replaced 50 times")
        path.unlink()
        wait_until(lambda: "is gone" in self.model()["why"], 30, "a file that is gone")
        self.assertTrue(any(close(self.predict("model", sample), each, 1e-5) for each in right))
        self.stop(server)

    def test_files_that_are_damaged_or_overwritten_leave_the_old_model(self):
        sample = MODELS.images["x_test"][:4].tolist()
        dice = random.Random(18112026)
        for ending in (".h5", ".pt", ".safetensors"):
            MODELS.train("convnet", "images.npz", 4, f"good{ending}")
            good = self.file(f"good{ending}").read_bytes()
            path = self.write(f"model{ending}", good)
            server = self.serve(path)
            right = self.predict("model", sample)
            at = self.version()
            for number in range(30):
                data = bytearray(good)
                if number % 3 == 0:
                    del data[dice.randrange(len(data)):]
                else:
                    for _ in range(200 if number % 3 == 1 else 1):
                        data[dice.randrange(min(len(data), 4096 if number % 2 else len(data)))] = dice.randrange(256)
                # In place: the server may be reading it.
                path.write_bytes(data)
                time.sleep(dice.uniform(0, 0.1))
                os.truncate(path, dice.randrange(len(good)))
                time.sleep(dice.uniform(0, 0.05))
                self.assertIsNone(server.process.poll(), f"{ending}: the server lives")
                self.assertEqual(self.get("/healthz")[0], 200)
            self.write("new", good)
            os.replace(self.dir / "new", path)
            wait_until(lambda: self.version() > at and not self.model()["why"], 30, "a file that is whole again")
            self.assertTrue(close(self.predict("model", sample), right, 1e-5))
            self.stop(server)

    def put(self, source, path):
        shutil.copy(source, str(path) + ".new")
        os.replace(str(path) + ".new", path)

    def model(self):
        return json.loads(self.get("/api/models")[1])["models"][0]

    def version(self):
        return self.model()["version"]

    def test_token_tls_access_log_and_stop(self):
        self.write("token", "sesame\n")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem",
                        "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
                       cwd=self.dir, check=True, capture_output=True)
        server = self.serve(self.file("words.h5"), "--token-file", self.dir / "token", "--cert", self.dir / "cert.pem",
                            "--key", self.dir / "key.pem", "--access-log", self.dir / "access.log", ready=False)
        trust = ssl.create_default_context(cafile=str(self.dir / "cert.pem"))

        def ask(path, token=None, body=None):
            request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", body and json.dumps(body).encode(),
                                             {"Authorization": f"Bearer {token}"} if token else {})
            try:
                with urllib.request.urlopen(request, context=trust, timeout=30) as reply:
                    return reply.status, reply.read()
            except urllib.error.HTTPError as error:
                return error.code, error.read()
        wait_until(lambda: ask("/readyz")[0] == 200, 60, "a server that is ready")
        body = {"instances": ["a good film"]}
        self.assertEqual(ask("/v1/models/words:predict", None, body)[0], 401)
        self.assertEqual(ask("/v1/models/words:predict", "open", body)[0], 401)
        self.assertEqual(ask("/v1/models/words:predict", "sesame", body)[0], 200)
        self.assertEqual(ask("/metrics")[0], 401)
        self.assertEqual(ask("/")[0], 200)
        lines = [json.loads(line) for line in (self.dir / "access.log").read_text().splitlines()]
        predicted = [line for line in lines if line["path"].endswith(":predict")]
        self.assertEqual([line["status"] for line in predicted], [401, 401, 200])
        self.assertEqual((predicted[2]["method"], predicted[2]["client"]), ("POST", "127.0.0.1"))
        server.process.send_signal(signal.SIGINT)
        self.assertEqual(server.wait(30).code, 0)

    def test_readyz_turns_before_the_server_stops(self):
        server = self.start("serve", self.file("words.h5"), "--port", "0", "--drain", "3s")
        self.port = int(wait_until(lambda: re.search(r":(\d+)/", server.out), 60, "the address")[1])
        wait_until(lambda: self.get("/readyz")[0] == 200, 60, "a server that is ready")
        server.process.terminate()
        wait_until(lambda: self.get("/readyz")[0] == 503, 3, "503 of /readyz")
        self.predict("words", ["a good film"])
        self.assertEqual(server.wait(30).code, 0)

    def test_mistakes_of_the_call(self):
        for arguments, why in ((["a.h5", "b/a.h5"], "two models are called a"), (["a.h5", "--name", "x", "--name", "y"], "1 models and 2 names"),
                               (["a.h5", "--delay", "soon"], "is no duration"), (["a.h5", "--token-file", "none"], "No such file"),
                               (["a.h5", "--cert", "x"], "--key"), ([], "models")):
            done = self.dure("serve", "--port", "0", *arguments, code=2)
            self.assertIn(why, done.err)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            done = self.dure("serve", "a.h5", "--port", taken.getsockname()[1], code=3)
            self.assertIn("Address already in use", done.err)


def http_connection(port):
    import http.client
    return http.client.HTTPConnection("127.0.0.1", port, timeout=60)


if __name__ == "__main__":
    harness.main()
