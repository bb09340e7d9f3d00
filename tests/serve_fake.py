"""A model server that speaks the page's part of dure-server's API, with models whose answers a test knows.

It is strict where dure-server is: a picture must be a grey PNG of the model's size, a text a string.
"""
import base64
import gzip
import http.server
import io
import json
import math
import pathlib
import re
import threading

from PIL import Image

WEIGHTS = {"loved": 1.6, "beautifully": 1.1, "best": 1.2, "warm": .5, "funny": .6, "great": 1.3, "wonderful": 1.7, "minute": -.2,
           "terrible": -1.9, "dull": -1.6, "predictable": -1.0, "boring": -1.5, "mess": -1.2, "money": -.4, "no": -.4,
           "but": -.3, "long": -.2, "plot": -.3, "music": .2, "story": .1, "actors": .1}
KNOWN = set(WEIGHTS) | set("a and of it i the is one have ever seen far too makes sense acting wanted my back film are last "
                           "half hour complete every ending it's".split())
CLASSES = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]
WORD = re.compile(r"[\w']+")

TEXT = {"name": "imdb", "file": "imdb.h5", "state": "ready", "version": 1, "loaded": "2026-11-18T15:00:00Z", "kind": "text",
        "input": {"shape": [256], "dtype": "int32"}, "vocabulary": 10000, "outputs": 1, "activation": "sigmoid",
        "class_names": [], "parameters": 160305,
        "trained": {"data": "imdb.npz", "samples": 25000, "epochs": 3, "workers": 5, "sync": "end", "accuracy": 0.8612,
                    "loss": 0.3312, "date": "2026-11-18T14:40:00Z"}}
IMAGE = {"name": "fashion-mnist", "file": "model.h5", "state": "ready", "version": 3, "loaded": "2026-11-18T15:00:00Z",
         "kind": "image", "input": {"shape": [28, 28], "dtype": "uint8"}, "vocabulary": 0, "outputs": 10,
         "activation": "softmax", "class_names": CLASSES, "parameters": 34826,
         "trained": {"data": "fashion-mnist", "samples": 60000, "epochs": 3, "workers": 2, "sync": "step", "accuracy": 0.89}}
NUMBERS = {"name": "line", "file": "line.pt", "state": "ready", "version": 1, "kind": "numbers",
           "input": {"shape": [3], "dtype": "float32"}, "outputs": 1, "activation": "none", "class_names": [],
           "parameters": 4, "trained": None}


def probability(text, bias):
    return 1 / (1 + math.exp(-(bias + sum(WEIGHTS.get(word.lower(), 0) for word in WORD.findall(text)))))


class FakeServer:
    """Serves the static files of `folder`. A test may change `models`, `token`, `refusal` (status, sentence) and `bias`."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.models = [dict(TEXT), dict(IMAGE), dict(NUMBERS)]
        self.token, self.refusal, self.bias = "", None, 0.0
        fake = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                fake.answer(self, b"")

            def do_POST(self):
                fake.answer(self, self.rfile.read(int(self.headers.get("Content-Length", 0))))

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.05,))
        self.thread.start()

    def close(self):
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()

    def answer(self, request, body):
        path = request.path.split("?")[0]
        static = path in ("/", "/index.html") or path.startswith("/assets/")
        if static:
            file = (self.folder / ("index.html" if path == "/" else path[1:])).resolve()
            if not file.is_file() or self.folder.resolve() not in file.parents:
                return send(request, 404, {"error": f"there is nothing at {path}"})
            types = {".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
            return send_bytes(request, 200, types[file.suffix], file.read_bytes())
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return send(request, 401, {"error": "this server wants a bearer token"})
        if path == "/api/models":
            return send(request, 200, {"models": self.models})
        if self.refusal:
            return send(request, self.refusal[0], {"error": self.refusal[1]})
        match = re.fullmatch(r"/v1/models/([^/:]+):predict|/api/models/([^/]+)/explain", path)
        model = match and next((each for each in self.models if each["name"] in match.groups()), None)
        if not model:
            return send(request, 404, {"error": f"there is no model at {path}"})
        if model["state"] != "ready":
            return send(request, 503, {"error": f"{model['name']} is not loaded yet"})
        try:
            given = json.loads(body)
            if match[2]:
                return send(request, 200, self.explain(given["text"]))
            return send(request, 200, {"predictions": [self.predict(model, each) for each in given["instances"]]})
        except (ValueError, KeyError, TypeError, OSError) as error:
            return send(request, 400, {"error": f"this is no request: {error}"})

    def predict(self, model, instance):
        if model["kind"] == "text":
            if not isinstance(instance, str):
                raise ValueError("a text is a string")
            return [probability(instance, self.bias)]
        if model["kind"] == "numbers":
            if len(instance) != model["input"]["shape"][0]:
                raise ValueError(f"3 numbers are wanted, not {len(instance)}")
            return [sum(instance) + 1]
        picture = Image.open(io.BytesIO(base64.b64decode(instance["b64"], validate=True)))
        if picture.mode != "L" or picture.size != (28, 28):
            raise ValueError(f"a grey picture of 28x28 is wanted, not {picture.mode} of {picture.size}")
        pixels = list(picture.getdata())
        # Each class likes ink in a band of its own.
        ink = [sum(pixels[y * 28 + x] for y in range(28) for x in range(28) if (x + y) * 10 // 56 == band) / 4000
               for band in range(10)]
        total = sum(math.exp(each) for each in ink)
        return [math.exp(each) / total for each in ink]

    def explain(self, text):
        whole = probability(text, self.bias)
        sign = 1 if whole >= 0.5 else -1
        words = []
        for match in WORD.finditer(text):
            rest = text[:match.start()] + text[match.end():]
            words.append({"text": match[0], "start": match.start(), "end": match.end(), "known": match[0].lower() in KNOWN,
                          "weight": sign * (whole - probability(rest, self.bias))})
        return {"prediction": [whole], "words": words, "truncated": False}


def send(request, status, value):
    send_bytes(request, status, "application/json", json.dumps(value).encode())


def send_bytes(request, status, kind, content):
    headers = {"Content-Type": kind, "Content-Security-Policy": "default-src 'self'"}
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        content = gzip.compress(content)
        headers["Content-Encoding"] = "gzip"
    request.send_response(status)
    for name, value in {**headers, "Content-Length": str(len(content))}.items():
        request.send_header(name, value)
    request.end_headers()
    try:
        request.wfile.write(content)
    except (BrokenPipeError, ConnectionResetError):
        pass  # The page has asked for something newer.
