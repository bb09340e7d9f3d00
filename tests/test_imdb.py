"""The flow of examples/imdb as a person runs it: copy, train a model on each, average, evaluate, serve, in one command."""
import contextlib
import hashlib
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import time
import urllib.request

import h5py
import numpy

import harness
from native import needs_data, predict_with_tfjs

EXAMPLE = harness.ROOT / "examples/imdb"
REVIEWS = harness.ROOT.parent / "shared/data/imdb/imdb.npz"


class Imdb(harness.Case):
    def setUp(self):
        super().setUp()
        shutil.copytree(EXAMPLE, self.dir / "imdb")
        self.env["PATH"] = f"{harness.BUILD}:/usr/bin:/bin"
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]

    def flow(self, *words, timeout=400):
        return self.dure("pipeline", "run", "imdb/pipeline.yaml", "--set", f"port={self.port}", *words, code=0, timeout=timeout)

    def ask(self, text):
        body = json.dumps({"instances": [text]}).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/v1/models/final:predict", body, timeout=20) as answer:
            return json.load(answer)["predictions"][0]

    def accuracies(self, out):
        return {name.strip(): float(value) for name, value in
                re.findall(r"(model \d alone|average of \d|sync: step|sync: \{every: 50\}) +(0\.\d+)", out)}

    def test_reviews_that_are_made_up(self):
        done = self.flow("--set", "workers=2", "--set", "epochs=2")
        found = self.accuracies(done.out)
        self.assertEqual(found.keys(), {"model 0 alone", "model 1 alone", "average of 2", "sync: step", "sync: {every: 50}"})
        self.assertGreater(found["average of 2"], 0.75, done.out)
        page = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=20).read().decode()
        self.assertIn("<title>", page)
        index = json.loads(next((self.run_dir("imdb.1") / "volume").glob("data/word_index.json")).read_text())
        words = sorted(index, key=index.get)[:20]
        self.assertEqual(len(self.ask(" ".join(words))), 2)
        listed = self.dure("pipeline", "ls-volume", "imdb", code=0).out
        for path in ("copy/0.npz", "copy/1.npz", "train/0/0-model.h5", "average/final.h5"):
            self.assertIn(path, listed)
        # Once more: nothing to delete, and nothing is trained again.
        self.flow("--set", "workers=2", "--set", "epochs=2")
        table = (self.run_dir("imdb.2") / "volume/table/table.txt").read_text()
        self.assertEqual(self.accuracies(table), found)
        states = {step["name"]: step["state"] for step in self.json("describe", "imdb")["steps"]}
        self.assertEqual(states["train"], "cached")
        self.dure("stop", "imdb", code=0)
        with self.assertRaises(OSError):
            self.ask("anything")

    def models(self, run):
        volume = self.run_dir(run) / "volume"
        return {str(path.relative_to(volume)): hashlib.sha256(path.read_bytes()).hexdigest()
                for step in ("copy", "start", "train", "average", "every-step", "every-50")
                for path in sorted((volume / step).rglob("*")) if path.is_file()}

    def kill(self, name):
        """The processes whose command names this program, or all of the run; how many."""
        found = []
        for pid in self.processes():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it may end meanwhile
                if name in pathlib.Path(f"/proc/{pid}/cmdline").read_text():
                    os.kill(pid, signal.SIGKILL)
                    found.append(pid)
        return len(found)

    def test_whoever_is_killed_the_models_are_the_same(self):
        few = ["--set", "workers=2", "--set", "epochs=4"]
        self.flow(*few)
        wanted = self.models("imdb.1")
        self.assertIn("average/final.h5", wanted)
        command = ["pipeline", "run", "imdb/pipeline.yaml", "--set", f"port={self.port}", *few, "--fresh"]
        dice = random.Random(20261118)
        running = self.start(*command)
        kills = {"dure-trainer": 0, "average": 0, "": 0}
        while True:
            victim = min(kills, key=kills.get)
            # The average is there for a moment only.
            deadline = time.monotonic() + dice.uniform(0.2, 1.5)
            hit = 0
            while not hit and running.process.poll() is None and (victim == "average" or time.monotonic() < deadline):
                hit = self.kill(victim) if victim and time.monotonic() > deadline - 0.2 else 0
                time.sleep(0.002)
            if not victim and running.process.poll() is None:
                hit = self.kill("")
            kills[victim] += 1 if hit else 0
            if running.process.poll() is not None or not victim:
                running.process.wait()
                if self.ps("imdb")["run"] == 2 and self.ps("imdb")["status"] == "succeeded":
                    break
                again = ["pipeline", "run", "--resume", "imdb", "--fresh"] if self.ps("imdb")["run"] == 2 else command
                running = self.start(*again)
        self.assertEqual(self.models("imdb.2"), wanted)
        self.dure("stop", "imdb", code=0)
        harness.report(f"kills of trainers {kills['dure-trainer']}, of the average {kills['average']}, of everything {kills['']}")
        self.assertGreater(min(kills["dure-trainer"], kills["average"], kills[""]), 0)

    @needs_data(REVIEWS, "the reviews of IMDB")
    def test_the_average_of_five_models_of_real_reviews(self):
        self.dure("copy", REVIEWS, "--n_container", "5", "--savedir", "copies", code=0)
        for i in range(5):
            self.dure("--data", f"copies/{i}.npz", "--epoch", "3", "--batch", "100", "--savemodel",
                      f"models/{i}-model.h5", program=harness.BUILD / "dure-trainer", code=0, timeout=200)
        names = [f"models/{i}-model.h5" for i in range(5)]
        for one, other in itertools.combinations([read_weights(self.dir / name) for name in names], 2):
            self.assertTrue(all(not numpy.array_equal(one[name], other[name]) for name in one))
        alone = [self.accuracy(name) for name in names]
        self.assertEqual(len(set(alone)), 5, alone)
        self.dure("average", "--dir", "models", "--savefile", "final.h5", code=0)
        average = self.accuracy("final.h5")
        self.assertGreaterEqual(average, 0.84)
        with numpy.load(REVIEWS) as data:
            reviews = data["x_test"][:200]
        numpy.save(self.dir / "reviews.npy", reviews)
        lines = self.dure("predict", "final.h5", "reviews.npy", code=0, timeout=120).out.splitlines()
        ours = numpy.array([json.loads(line)["prediction"] for line in lines])
        difference = numpy.abs(ours - predict_with_tfjs(self.dir, "final.h5", reviews)).max()
        self.assertLess(difference, 1e-4)
        harness.report(f"five trainers, three epochs each: {min(alone):.2%} to {max(alone):.2%} of the test set, their "
                       f"average {average:.2%}; tfjs differs by {difference:.1e}")

    def accuracy(self, model):
        return json.loads(self.dure("evaluate", model, REVIEWS, "--json", code=0, timeout=120).out)["accuracy"]


def read_weights(path):
    found = {}
    with h5py.File(path) as file:
        file["model_weights"].visititems(lambda name, item: found.update({name: item[()]})
                                         if isinstance(item, h5py.Dataset) else None)
    return found


harness.main()
