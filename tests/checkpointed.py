"""For tests of native training that writes checkpoints."""
import json
import subprocess

import harness
from harness import wait_until
from native import write_images

JOB = """
name: killed
workers: {workers}
resources: {{cpus: 1}}
train:
  model: {{name: mlp, hidden: [256, 128], dropout: 0.2}}
  data: data.npz
  epochs: {epochs}
  batch: {batch}
  optimizer: {optimizer}
  schedule: {{shape: cosine, warmup: 20}}
  {more}
checkpoint: {{path: {checkpoints}, {every}, keep: 2}}
output: {output}
restarts: {{limit: 100, backoff: 10ms}}
"""


class Checkpointed(harness.Case):
    """A training that writes checkpoints, and where they are."""

    def setUp(self):
        super().setUp()
        write_images(self.dir / "data.npz", rows=500, size=28)
        self.mounts = []

    def tearDown(self):
        for path in self.mounts:
            subprocess.run(["umount", str(path)], check=True)
        super().tearDown()

    def job(self, name="job.yaml", workers=2, epochs=60, batch=25, every=20, more="sync: step",
            checkpoints="checkpoints", output="model.safetensors", optimizer="{name: adam, lr: 0.001}"):
        every = f"every: {every}" if isinstance(every, int) else every
        self.write(name, JOB.format(workers=workers, epochs=epochs, batch=batch, every=every, more=more,
                                    checkpoints=checkpoints, output=output, optimizer=optimizer))
        return name

    def undisturbed(self, **options):
        done = self.dure("run", self.job("calm.yaml", checkpoints="calm", output="calm.safetensors",
                                         **options), timeout=120)
        self.assertEqual(done.code, 0, done.out + done.err)
        return (self.dir / "calm.safetensors").read_bytes()

    def checkpoints(self, folder="checkpoints"):
        return sorted(path for path in (self.dir / folder).glob("step-*") if path.suffix != ".part")

    def wait_for_checkpoint(self, after=0, folder="checkpoints"):
        def newest():
            found = self.checkpoints(folder)
            return found and int(found[-1].name.split("-")[1]) > after and found[-1]
        return wait_until(newest, 60, f"a checkpoint after step {after}")

    def summary(self, run):
        lines = (self.run_dir(run) / "metrics.jsonl").read_text().splitlines()
        return next(line["summary"] for line in map(json.loads, lines) if "summary" in line)

    @staticmethod
    def size_of(directory):
        return sum(path.stat().st_size for path in directory.iterdir())
