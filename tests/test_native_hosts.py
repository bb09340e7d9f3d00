"""Native training over two hosts: the same model as on one, fewer bytes where asked, and safe from kills."""
import json
import os
import signal

import harness
from harness import wait_until
from hosts import TwoHosts
from native import largest_difference, read_safetensors, write_images

JOB = """
name: hosts
workers: {workers}
processes: {processes}
resources: {{cpus: 1}}
train:
  model: {model}
  data: data.npz
  epochs: 1000
  steps: {steps}
  batch: {batch}
  optimizer: {{name: sgd, lr: 0.005, momentum: 0.9}}
  seed: 3
  {more}
{rest}
output: {output}
"""
MLP = "{name: mlp, hidden: [512, 256], dropout: 0.2}"
# Large enough for several buckets, and smooth: of ReLU, a number that is rounded otherwise may be on the other side.
SMOOTH = {"class_name": "Sequential", "config": {"name": "smooth", "layers": [
    {"class_name": "Flatten", "config": {"name": "flat", "batch_input_shape": [None, 16, 16]}},
    {"class_name": "Dense", "config": {"name": "first", "units": 1200, "activation": "tanh"}},
    {"class_name": "Dropout", "config": {"name": "drop", "rate": 0.2}},
    {"class_name": "Dense", "config": {"name": "second", "units": 1000, "activation": "tanh"}},
    {"class_name": "Dense", "config": {"name": "third", "units": 4, "activation": "softmax"}}]}}


class HostsTest(TwoHosts, harness.Case):
    def setUp(self):
        super().setUp()
        write_images(self.dir / "data.npz", rows=250, size=16)

    def job(self, output, workers=2, processes=1, batch=20, steps=50, more="", rest="", apart=True,
            model=MLP):
        rest += self.on_two_hosts() if apart else ""
        self.write("job.yaml", JOB.format(workers=workers, processes=processes, batch=batch, steps=steps,
                                          more=more, rest=rest, output=output, model=model))
        return "job.yaml"

    def train(self, output="model.safetensors", **options):
        """The model and what the run's summary says."""
        done = self.dure("run", self.job(output, **options), timeout=120)
        self.assertEqual(done.code, 0, done.out + done.err)
        # The newest run of the name.
        described = self.json("describe", "hosts")
        lines = (self.run_dir(described["id"]) / "metrics.jsonl").read_text().splitlines()
        summary = next(line["summary"] for line in map(json.loads, lines) if "summary" in line)
        return read_safetensors(self.dir / output), summary

    def test_hosts_give_the_model_of_one_worker(self):
        self.write("smooth.json", json.dumps(SMOOTH))
        model = "{file: smooth.json}"
        alone, _ = self.train(workers=1, batch=40, apart=False, model=model)
        weights = sum(array.size for array in alone.values())
        for processes, more in ((1, ""), (2, ""), (1, "accumulate: 2")):
            pieces = 2 if more else 1
            together, summary = self.train(processes=processes, batch=20 // processes // pieces, more=more,
                                           model=model)
            difference = largest_difference(alone, together)
            harness.report(f"2 hosts of {processes} {more}: {difference:.1e} from one worker")
            self.assertLess(difference, 1e-5, f"{processes} a host, {more}")
            # Gradients cross once each way in every step, and little else does.
            sent = summary["network_bytes"] / (50 * 2 * 4 * weights)
            self.assertTrue(1 <= sent < 1.1, f"{sent} of what must be sent")
            self.assertGreater(summary["memory_bytes"], 0 if processes == 2 else -1)

    def test_compression_halves_the_bytes(self):
        # Without ReLU, of which a rounded number may be on the other side.
        write_images(self.dir / "data.npz", rows=250, size=64)
        wide, usual = self.train(model="linear")
        for wire, close in (("bf16", 1e-3), ("fp16", 1e-4)):
            compressed, summary = self.train(more=f"wire: {wire}", model="linear")
            ratio = summary["network_bytes"] / usual["network_bytes"]
            self.assertTrue(0.48 < ratio < 0.56, f"{wire}: {ratio} of the bytes")
            difference = largest_difference(wide, compressed)
            harness.report(f"{wire}: {ratio:.2f} of the bytes, {difference:.1e} from 32 bits after 50 steps")
            self.assertTrue(0 < difference < close, f"{wire}: {difference}")
            again, _ = self.train(more=f"wire: {wire}", model="linear")
            self.assertEqual(largest_difference(compressed, again), 0, f"{wire}: not the same bits again")

    def test_compression_does_not_round_what_is_reported(self):
        # The weights stay what they were drawn as, so that every wire has the same loss to report.
        reported = []
        for wire in ("float32", "bf16"):
            self.train(more=f"wire: {wire}\n  schedule: {{warmup: 1000000000}}", steps=7)
            described = self.json("describe", "hosts")
            lines = (self.run_dir(described["id"]) / "metrics.jsonl").read_text().splitlines()
            reported.append(next((line["train_loss"], line["train_accuracy"]) for line in map(json.loads, lines)
                                 if "train_loss" in line))
        self.assertEqual(reported[0][1], reported[1][1])
        self.assertAlmostEqual(reported[0][0], reported[1][0], 5)

    def test_workers_that_meet_seldom_send_little(self):
        _, usual = self.train()
        models = {}
        for sync in ("{every: 10}", "{every: 10, momentum: 0.5, lr: 0.7}", "end"):
            models[sync], summary = self.train(more=f"sync: {sync}")
            # 50 steps of 7 an epoch: every tenth, and at the end of each epoch.
            share = summary["network_bytes"] / usual["network_bytes"]
            self.assertLess(share, 0.04 if sync == "end" else 0.3, sync)
        self.assertGreater(largest_difference(models["{every: 10}"], models["end"]), 1e-4)

    def test_killed_and_resumed_with_what_rounding_owes(self):
        for number, more in enumerate(("wire: bf16", "wire: fp16\n  sync: {every: 3}")):
            saved = f"saved-{number}"
            self.train("calm.safetensors", steps=2000, more=more)
            running = self.start("run", self.job("model.safetensors", steps=2000, more=more,
                                                 rest=f"checkpoint: {{path: {saved}, every: 200}}\n"
                                                      "restarts: {limit: 10, backoff: 10ms}\n"))
            for step in (200, 800):
                wait_until(lambda: [path for path in (self.dir / saved).glob("step-*")
                                    if path.suffix != ".part" and int(path.name.split("-")[1]) >= step],
                           60, f"a checkpoint after step {step}")
                ranks = wait_until(self.ranks, 30, "ranks to kill")
                os.kill(sorted(ranks.items())[-1][1], signal.SIGKILL)
            done = running.wait(90)
            self.assertEqual(done.code, 0, done.out + done.err)
            self.assertIn("going on from step", done.out)
            self.assertEqual((self.dir / "model.safetensors").read_bytes(),
                             (self.dir / "calm.safetensors").read_bytes(), more)


harness.main()
