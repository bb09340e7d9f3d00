"""Native training can be killed at any moment: the model is that of an undisturbed run, bit for bit."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import harness
from harness import wait_until
from native import largest_difference, read_safetensors, write_images

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
checkpoint: {{path: {checkpoints}, every: {every}, keep: 2}}
output: {output}
restarts: {{limit: 100, backoff: 10ms}}
"""


class KillTest(harness.Case):
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

    def kill_until_done(self, running, chance, limit=6):
        """Kills ranks at random moments; returns how often."""
        kills = 0
        deadline = time.monotonic() + 150
        while running.process.poll() is None and time.monotonic() < deadline:
            time.sleep(chance.uniform(0.05, 1.2))
            ranks = self.ranks()
            if not ranks or kills >= limit:
                continue
            for pid in ranks.values() if chance.random() < 0.3 else [chance.choice(list(ranks.values()))]:
                try:
                    os.kill(pid, signal.SIGKILL)
                    kills += 1
                except ProcessLookupError:
                    pass
        return kills

    def test_ranks_killed_at_random(self):
        seed = int.from_bytes(os.urandom(4), "little")
        harness.report(f"kills are drawn by seed {seed}")
        chance = random.Random(seed)
        for more in ("sync: step", "sync: {every: 6, momentum: 0.6, lr: 0.8}", "sync: end"):
            calm = self.undisturbed(more=more, epochs=80)
            running = self.start("run", self.job(more=more, epochs=80))
            kills = self.kill_until_done(running, chance)
            done = running.wait(60)
            self.assertEqual(done.code, 0, done.out[-3000:] + done.err[-3000:])
            self.assertGreater(kills, 0, "nothing was killed")
            harness.report(f"{more}: {kills} kills")
            self.assertEqual((self.dir / "model.safetensors").read_bytes(), calm,
                             f"{more}: another model than without {kills} kills (seed {seed})")
            shutil.rmtree(self.dir / "checkpoints")
            os.remove(self.dir / "model.safetensors")

    def test_everything_killed_and_resumed(self):
        calm = self.undisturbed(epochs=100)
        running = self.start("run", self.job(epochs=100))
        self.wait_for_checkpoint()
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        running.wait()
        done = self.dure("run", "--resume", "killed", timeout=120)
        self.assertEqual(done.code, 0, done.out + done.err)
        self.assertIn("going on from step", done.out)
        self.assertEqual((self.dir / "model.safetensors").read_bytes(), calm)

    def stop_midway(self, **options):
        running = self.start("run", self.job(epochs=100, **options))
        self.wait_for_checkpoint(after=20)
        running.send(signal.SIGKILL)
        running.wait()
        self.assert_nothing_left()

    def test_a_damaged_checkpoint_is_passed_over(self):
        calm = self.undisturbed(epochs=100)
        for damage in ("flip", "cut", "manifest", "missing"):
            self.stop_midway()
            newest = self.checkpoints()[-1]
            model, manifest = newest / "model.safetensors", newest / "manifest.json"
            if damage == "flip":
                data = bytearray(model.read_bytes())
                data[len(data) // 2] ^= 4
                model.write_bytes(data)
            elif damage == "cut":
                model.write_bytes(model.read_bytes()[:1000])
            elif damage == "manifest":
                manifest.write_text(manifest.read_text().replace('"world": 2', '"world": 3'))
            else:
                os.remove(newest / "state.safetensors")
            done = self.dure("run", "job.yaml", timeout=120)
            self.assertEqual(done.code, 0, done.out + done.err)
            self.assertIn("passed over a checkpoint", done.out + done.err, damage)
            self.assertIn("going on from step", done.out, damage)
            self.assertEqual((self.dir / "model.safetensors").read_bytes(), calm, damage)
            shutil.rmtree(self.dir / "checkpoints")

    def test_resuming_on_other_numbers_of_workers(self):
        # Adam divides by the size of the gradient: where that is next to nothing it makes steps of rounding errors, in
        # which other numbers of workers differ. So its epsilon is larger here than usual.
        for optimizer in ("{name: sgd, lr: 0.02, momentum: 0.9}", "{name: adam, lr: 0.001, epsilon: 1.0e-5}"):
            four = {"optimizer": optimizer, "workers": 4, "batch": 12}
            self.undisturbed(epochs=100, **four)
            calm = read_safetensors(self.dir / "calm.safetensors")
            for workers in (1, 3):
                self.stop_midway(**four)
                done = self.dure("run", "job.yaml", "--workers", workers, timeout=120)
                self.assertEqual(done.code, 0, done.out + done.err)
                self.assertIn("going on from step", done.out)
                self.assertIn("48 samples a step", done.out, "the global batch stays")
                resumed = read_safetensors(self.dir / "model.safetensors")
                difference = largest_difference(calm, resumed)
                harness.report(f"{optimizer}, 4 workers, then {workers}: {difference:.1e} from 4 all the time")
                self.assertLess(difference, 1e-4, optimizer)
                shutil.rmtree(self.dir / "checkpoints")

    def test_a_finished_training_begins_anew_and_another_one_is_refused(self):
        self.undisturbed(epochs=10)
        again = self.dure("run", "calm.yaml", code=0, timeout=60)
        self.assertNotIn("going on", again.out)
        self.stop_midway()
        other = self.dure("run", self.job(epochs=100, more="seed: 9"), timeout=60)
        self.assertNotEqual(other.code, 0)
        self.assertIn("another training that did not end", other.out + other.err)

    def mount(self, name, options):
        path = self.dir / name
        path.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", str(path)], check=True)
        self.mounts.append(path)
        return path

    def test_a_full_disk_costs_checkpoints_and_not_the_model(self):
        calm = self.undisturbed(epochs=60)
        # Room for one checkpoint and a half.
        size = self.size_of(self.checkpoints("calm")[-1])
        self.mount("small", f"size={size * 3 // 2}")
        done = self.dure("run", self.job(epochs=60, checkpoints="small/here"), timeout=120)
        self.assertEqual(done.code, 0, done.out + done.err)
        self.assertIn("No space left on device", done.out + done.err)
        self.assertEqual((self.dir / "model.safetensors").read_bytes(), calm)

    def test_a_model_that_finds_no_room_is_said_and_not_left_by_half(self):
        tiny = self.mount("tiny", "size=64k")
        for ending in ("safetensors", "h5", "pt"):
            done = self.dure("run", self.job(epochs=5, output=f"tiny/model.{ending}", checkpoints=ending),
                             "--set", "restarts=0", timeout=60)
            self.assertNotEqual(done.code, 0, ending)
            self.assertIn("No space left on device", done.out + done.err, ending)
            self.assertEqual(list(tiny.iterdir()), [], f"half a model was left: {ending}")

    def test_a_directory_that_cannot_be_written_is_said_at_once(self):
        self.mount("fixed", "ro,size=1m")
        done = self.dure("run", self.job(checkpoints="fixed/here"), "--set", "restarts=0", timeout=60)
        self.assertNotEqual(done.code, 0)
        self.assertIn("checkpoint.path", done.out + done.err)
        self.assertIn("Read-only file system", done.out + done.err)

    def test_training_hardly_stands_still_for_a_checkpoint(self):
        # 70 MB each: the weights and Adam's two memories of them.
        interval = 2
        self.write("job.yaml", f"""
name: large
workers: 2
resources: {{cpus: 1}}
train:
  model: {{name: mlp, hidden: [2048, 2048]}}
  data: data.npz
  epochs: 1000
  steps: 240
  batch: 100
  optimizer: adam
checkpoint: {{path: checkpoints, interval: {interval}s}}
""")
        done = self.dure("run", "job.yaml", code=0, timeout=120)
        lines = (self.run_dir("large") / "metrics.jsonl").read_text().splitlines()
        summary = next(line["summary"] for line in map(json.loads, lines) if "summary" in line)
        count, delay = summary["checkpoints"], summary["checkpoint_seconds"]
        self.assertGreater(count, 1, done.out)
        self.assertIn(f"checkpoints {count} written; training stood still", done.out)
        harness.report(f"{count} checkpoints of {self.size_of(self.checkpoints()[-1]) / 1e6:.0f} MB, one every "
                       f"{interval} s: each held up training for {delay / count * 1000:.0f} ms")
        self.assertLess(delay / count, 0.05 * interval)

    @staticmethod
    def size_of(directory):
        return sum(path.stat().st_size for path in directory.iterdir())

    def test_the_newest_are_kept_and_nothing_half_written(self):
        self.undisturbed(epochs=40, every=20)
        newest = json.loads((self.checkpoints("calm")[-1] / "manifest.json").read_text())
        self.assertEqual(newest["manifest"]["step"], 400)
        self.assertEqual(len(self.checkpoints("calm")), 2, "keep: 2")
        self.assertFalse(list(pathlib.Path(self.dir / "calm").glob("*.part")))


harness.main()
