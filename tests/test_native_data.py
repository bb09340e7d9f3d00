"""Native training on real data sets: what it reaches, what it needs, what a person sees of it."""
import gzip
import json
import os
import pathlib
import pty
import re
import select
import subprocess
import time

import numpy

import arrow_bytes
import harness
from native import needs_data, write_images

SHARED = harness.ROOT.parent / "shared/data"
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")


def accuracy_in(text):
    return float(re.search(r"accuracy (0\.\d{4}|1\.0000)$", text, re.MULTILINE).group(1))


class DataTest(harness.Case):
    def train(self, text, timeout=280, code=0):
        self.write("job.yaml", text)
        return self.dure("run", "job.yaml", timeout=timeout, code=code)

    @needs_data(SHARED / "imdb/imdb.npz", "the IMDB reviews")
    def test_reviews_are_told_apart(self):
        job = f"""
name: imdb
workers: %d
resources: {{cpus: 1}}
train: {{model: text, data: {SHARED}/imdb/imdb.npz, epochs: %d, batch: %d, optimizer: {{name: adam, lr: %s}}, sync: %s}}
output: model.h5
"""
        together = self.train(job % (2, 2, 50, "0.003", "step"))
        harness.report(f"IMDB, 2 workers, sync step: {accuracy_in(together.out)}")
        self.assertGreaterEqual(accuracy_in(together.out), 0.85, together.out)
        apart = self.train(job % (5, 4, 10, "0.005", "end"))
        harness.report(f"IMDB, 5 workers, sync end: {accuracy_in(apart.out)}")
        self.assertGreaterEqual(accuracy_in(apart.out), 0.85, apart.out)

    @needs_data(SHARED / "fashion_mnist_arrow_small", "the Arrow sample")
    def test_a_data_set_as_hugging_face_saves_it(self):
        done = self.train(f"""
name: arrow
workers: 2
train: {{model: convnet, data: {SHARED}/fashion_mnist_arrow_small, epochs: 6, batch: 20, optimizer: {{name: adam, lr: 0.003}}}}
output: model.safetensors
""")
        self.assertIn("2,000 samples of 28×28, 10 classes", done.out)
        self.assertGreater(accuracy_in(done.out), 0.75, done.out)
        metadata = (self.dir / "model.safetensors").read_bytes()[:4000]
        self.assertIn(b"Ankle boot", metadata, "the names of the classes go along")

    def test_numbers_from_a_csv_file(self):
        random = numpy.random.default_rng(1)
        rows = random.normal(0, 1, (600, 3))
        names = numpy.where(rows @ [1, -2, 0.5] > 0, "yes", "no")
        lines = ["a,b,c,label"] + [f"{a},{b},{c},{name}" for (a, b, c), name in zip(rows, names)]
        self.write("set/train.csv", "\n".join(lines[:501]) + "\n")
        self.write("set/test.csv", "\n".join(lines[:1] + lines[501:]) + "\n")
        done = self.train("name: csv\ntrain: {model: linear, data: set, epochs: 20, batch: 20, "
                          "optimizer: {name: adam, lr: 0.05}}\n")
        self.assertGreater(accuracy_in(done.out), 0.95, done.out)
        # And a regression, with early stopping.
        target = rows @ [1, -2, 0.5] + 3
        numpy.savez(self.dir / "numbers.npz", x=rows.astype("f4"), y=target.astype("f4"))
        done = self.train("name: regress\ntrain: {model: linear, data: numbers.npz, epochs: 300, batch: 20, "
                          "optimizer: {name: adam, lr: 0.05}, early_stopping: 3}\n")
        self.assertIn("training ends here", done.out)
        losses = [float(line.split()[2]) for line in done.out.splitlines() if re.match(r"\[0\] +\d+ +\d+\.\d+ ", line)]
        self.assertLess(losses[-1], 0.01, done.out)
        # Whole numbers are classes unless the job says that they are not.
        numpy.savez(self.dir / "prices.npz", x=rows.astype("f4"), y=(target * 10 + 100).astype("i4"))
        done = self.train("name: prices\ntrain: {model: linear, data: {path: prices.npz, classes: 0}, epochs: 1}\n")
        self.assertNotIn("classes", done.out)

    def refused(self, data, sentence, model="linear"):
        """One sentence, at once, and no second try."""
        self.write("job.yaml", f"name: refused\ntrain: {{model: {model}, data: {data}, epochs: 1}}\noutput: m.pt\n")
        done = self.dure("run", "job.yaml", timeout=60, code=1)
        self.assertIn(sentence, done.out + done.err)
        self.assertNotIn("generation 2", done.err)
        self.assertFalse((self.dir / "m.pt").exists())

    def test_hostile_arrow_files_do_no_harm(self):
        # The product of the sizes is 2^64 + 230.
        sizes = [2, 3, 19, 41, 97, 7103, 69341, 82609]
        (self.dir / "claiming.arrow").write_bytes(arrow_bytes.claiming(sizes))
        for model in ("linear", "text"):
            self.refused("claiming.arrow", "1 samples of shape (2, 3, 19, 41, 97, 7103, 69341, 82609) are too many", model)
        (self.dir / "repeating.arrow").write_bytes(arrow_bytes.repeating(14000))
        self.refused("repeating.arrow", "the footer names the same data twice")
        (self.dir / "once.arrow").write_bytes(arrow_bytes.repeating(1))
        self.assertIn("10 samples of 1, 2 classes", self.train("name: once\ntrain: {model: linear, data: once.arrow, epochs: 1}\n").out)

    def test_quantities_are_no_classes(self):
        random = numpy.random.default_rng(1)
        rows = random.normal(0, 1, (300, 3))
        target = (rows @ [20, -30, 10] + 150).round()
        lines = [f"{a},{b},{c},%s" for a, b, c in rows]
        self.write("whole.csv", "".join(line % int(y) + "\n" for line, y in zip(lines, target)))
        self.refused("whole.csv", "train.data.classes: 0 if they are numbers to predict")
        self.write("decimals.csv", "".join(line % y + "\n" for line, y in zip(lines, target)))
        for data in ("decimals.csv", "{path: whole.csv, classes: 0}"):
            done = self.train(f"name: q\ntrain: {{model: linear, data: {data}, epochs: 1}}\n")
            self.assertIn("300 samples of 3; linear with 4 weights", done.out)
        numpy.savez(self.dir / "numbers.npz", x=rows.astype("f4"), y=7 + 100 * random.integers(0, 10, 300))
        self.refused("numbers.npz", "make 908 classes")

    def test_what_is_not_finite_is_named(self):
        rows = numpy.random.default_rng(1).normal(0, 1, (64, 3)).astype("f4")
        labels = numpy.arange(64) % 2
        rows[41, 1] = numpy.nan
        numpy.savez(self.dir / "nan.npz", x=rows, y=labels)
        self.refused("nan.npz", "nan.npz: x: row 41: value 2 of the sample is NaN")
        self.write("nan.csv", "".join(f"{a},{b},{c},{y}\n" for (a, b, c), y in zip(rows, labels)))
        self.refused("nan.csv", "nan.csv:42: column 2: 'nan' is not a finite number")

    def test_packed_tables_of_any_separator(self):
        random = numpy.random.default_rng(1)
        rows = random.normal(0, 1, (300, 3))
        labels = (rows.sum(1) > 0).astype(int)
        for separator, ending in ((",", "csv"), (";", "csv"), ("\t", "tsv")):
            text = "".join(separator.join([*map(str, row), str(label)]) + "\n" for row, label in zip(rows, labels))
            (self.dir / "set").mkdir(exist_ok=True)
            for name in ("train", "test"):
                with gzip.open(self.dir / f"set/{name}.{ending}.gz", "wt") as file:
                    file.write(text)
            done = self.train("name: packed\ntrain: {model: linear, data: set, epochs: 10, batch: 20, "
                              "optimizer: {name: adam, lr: 0.05}}\n")
            self.assertGreater(accuracy_in(done.out), 0.95, done.out)
            one = self.train(f"name: one\ntrain: {{model: linear, data: set/train.{ending}.gz, epochs: 1}}\n")
            self.assertIn("300 samples of 3, 2 classes", one.out)
            for file in (self.dir / "set").iterdir():
                file.unlink()

    def test_small_images(self):
        write_images(self.dir / "data.npz", rows=512, test=128, size=8)
        done = self.train("name: small\ntrain: {model: convnet, data: data.npz, epochs: 6, batch: 16, "
                          "optimizer: {name: adam, lr: 0.003}}\n")
        self.assertGreater(accuracy_in(done.out), 0.8, done.out)

    def test_memory_does_not_grow(self):
        write_images(self.dir / "data.npz", rows=512, test=0, size=12)
        running = self.start("run", str(self.write("job.yaml", """
name: long
workers: 2
train: {model: {name: convnet, filters: [4, 4]}, data: data.npz, epochs: 10000, steps: 10000, batch: 8}
checkpoint: {path: checkpoints, every: 1000}
""")))
        early, last = {}, {}
        while running.process.poll() is None:
            step = (self.ps("long") or {}).get("step") or 0
            for rank, pid in self.ranks().items():
                try:
                    memory = harness.resident_kib(pid)
                except OSError:
                    continue
                if memory and step >= 1000:
                    early.setdefault(rank, memory)
                    last[rank] = memory
            time.sleep(0.3)
        self.assertEqual(running.wait().code, 0, running.out + running.err)
        self.assertEqual(sorted(early), [0, 1])
        for rank in early:
            harness.report(f"rank {rank}: {early[rank]} KiB after 1,000 steps, {last[rank]} KiB near 10,000")
            self.assertLess(last[rank], early[rank] * 1.05 + 2048)

    def test_what_a_person_sees(self):
        job = self.write("job.yaml", f"""
name: seen
workers: 2
train: {{model: mlp, data: {FASHION}, epochs: 2, batch: 100}}
output: model.h5
""")
        main, other = pty.openpty()
        env = {**self.env, "TERM": "xterm", "COLUMNS": "120"}
        process = subprocess.Popen([harness.DURE, "run", str(job)], stdin=other, stdout=other, stderr=other,
                                   env=env, cwd=self.dir)
        os.close(other)
        shown = b""
        while True:
            ready, _, _ = select.select([main], [], [], 120)
            try:
                data = os.read(main, 65536) if ready else b""
            except OSError:
                break
            if not data:
                break
            shown += data
        os.close(main)
        self.assertEqual(process.wait(60), 0)
        text = shown.decode(errors="replace")
        self.assertRegex(text, r"▕█*.? *▏ +\d+% · (epoch \d of 2 · )?\d+ samples/s · loss \d\.\d{4}"
                               r" · accuracy 0\.\d{4} · \d+ s left")
        self.assertRegex(text, r"speed [\d,]+ samples/s")
        plain = self.dure("run", job, code=0, timeout=120).out
        self.assertRegex(plain, r"(?m)^.*epoch +loss +accuracy +test loss")
        for pattern in (r"accuracy 0\.\d{4}$", r"time \d", r"speed [\d,]+ samples/s$", r"communicated .* within",
                        r"memory .* MB", r"model .*model\.h5$"):
            self.assertRegex(plain, "(?m)" + pattern)
        described = self.dure("describe", "seen", code=0).out
        self.assertIn("loss\n", described)
        self.assertRegex(described, "[\u2801-\u28ff]")
        metrics = [json.loads(line) for line in (self.run_dir("seen.2") / "metrics.jsonl").read_text().splitlines()]
        self.assertTrue(any("summary" in report for report in metrics))
        self.assertTrue(any(report.get("accuracy") and report.get("test_loss") for report in metrics))


harness.main()
