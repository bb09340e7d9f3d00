"""Whose checkpoints a run goes on from, and what becomes of them, and of the model, when files cannot be read or
written."""
import fcntl
import json
import os
import pathlib
import signal
import subprocess

import numpy

import harness
from harness import BUILD, wait_until
from native import write_images

JOB = """
name: ck
workers: {workers}
resources: {{cpus: 1}}
train:
  model: {{name: mlp, hidden: [64]}}
  data: {data}
  epochs: {epochs}
  batch: 25
  optimizer: {optimizer}
{checkpoint}
output: {output}
restarts: {{limit: 3, backoff: 10ms}}
"""
NOBODY = 65534


class CheckpointsTest(harness.Case):
    def setUp(self):
        super().setUp()
        write_images(self.dir / "data.npz", rows=400, size=12)

    def job(self, workers=1, epochs=5, data="data.npz", checkpoints="saved", output="model.safetensors",
            optimizer="{name: adam, lr: 0.001}", every="every: 4"):
        checkpoint = f"checkpoint: {{path: {checkpoints}, {every}, keep: 3}}" if checkpoints else ""
        self.write("ck.yaml", JOB.format(workers=workers, epochs=epochs, data=data, output=output,
                                         optimizer=optimizer, checkpoint=checkpoint))
        return "ck.yaml"

    def model(self):
        return (self.dir / "model.safetensors").read_bytes()

    def steps(self):
        """All there is, half-written ones included."""
        return sorted(path.name for path in (self.dir / "saved").glob("step-*"))

    def whole(self):
        return [name for name in self.steps() if not name.endswith(".part")]

    def calm(self, **options):
        """The model of an undisturbed run in a state directory of its own."""
        self.job(checkpoints=None, output="calm.safetensors", **options)
        done = self.dure("run", "ck.yaml", env={"DURE_STATE_DIR": str(self.dir / "elsewhere")}, timeout=60)
        self.assertEqual(done.code, 0, done.out + done.err)
        return (self.dir / "calm.safetensors").read_bytes()

    def run_and_kill_at_once(self, **options):
        """A run whose first trainer gets SIGKILL before it can have taken the directory."""
        lock = open(self.dir / "saved" / "lock", "w")
        fcntl.lockf(lock, fcntl.LOCK_EX)
        running = self.start("run", "ck.yaml", **options)
        os.kill(wait_until(lambda: self.ranks().get(0), 30, "the first rank"), signal.SIGKILL)
        state = pathlib.Path((options.get("env") or self.env).get("DURE_STATE_DIR", self.state))
        wait_until(lambda: b'"exited"' in (state / "runs/ck.1/events.jsonl").read_bytes(), 30, "its end")
        lock.close()
        return running.wait(60)

    def ids(self):
        return [json.loads((self.dir / "saved" / name).read_text())["current"]["run_id"]
                for name in ("current.json", "current.copy.json")]

    def test_a_name_and_number_that_come_again_are_another_run(self):
        self.dure("run", self.job(), code=0, timeout=60)
        first_id, model = self.ids(), self.model()
        self.assertEqual(self.events("ck.1")[0]["run_id"], first_id[0])
        self.dure("rm", "ck", code=0)
        write_images(self.dir / "data.npz", rows=400, size=12, seed=8)
        calm = self.calm()
        self.job()
        done = self.run_and_kill_at_once()
        self.assertEqual(done.code, 0, done.out + done.err)
        self.assertIn("ck.1 succeeded", done.out + done.err)
        self.assertNotIn("going on", done.out)
        self.assertEqual(self.events("ck.1")[-1]["generation"], 2)
        self.assertNotEqual(self.model(), model)
        self.assertEqual(self.model(), calm)
        self.assertNotEqual(self.ids(), first_id)
        self.assertEqual(len(set(self.ids())), 1)

    def test_the_same_name_in_another_state_directory_is_another_run(self):
        self.dure("run", self.job(), code=0, timeout=60)
        model = self.model()
        os.remove(self.dir / "model.safetensors")
        done = self.run_and_kill_at_once(env={"DURE_STATE_DIR": str(self.dir / "second")})
        self.assertEqual(done.code, 0, done.out + done.err)
        self.assertNotIn("going on", done.out)
        self.assertIn("epoch ", done.out, "it was trained")
        self.assertEqual(self.model(), model, "the same data")

    def stop_midway(self, **options):
        running = self.start("run", self.job(epochs=100000, **options))
        wait_until(lambda: len(self.whole()) > 2, 60, "checkpoints")
        running.send(signal.SIGKILL)
        running.wait()
        self.assert_nothing_left()

    def test_other_data_is_another_training(self):
        self.stop_midway()
        before = self.whole()
        write_images(self.dir / "data.npz", rows=400, size=12, seed=8)
        done = self.dure("run", "ck.yaml", timeout=60)
        self.assertNotEqual(done.code, 0)
        self.assertIn("another training that did not end (the data is not the same)", done.out + done.err)
        self.assertNotIn("restart", done.out + done.err)
        write_images(self.dir / "data.npz", rows=300, size=12)
        done = self.dure("run", "ck.yaml", timeout=60)
        self.assertIn("the data has 300 samples now, 400 then", done.out + done.err)
        self.assertEqual(self.whole(), before)
        # The same data elsewhere is the same.
        write_images(self.dir / "data.npz", rows=400, size=12)
        os.rename(self.dir / "data.npz", self.dir / "moved.npz")
        running = self.start("run", self.job(epochs=100000, data="moved.npz"))
        wait_until(lambda: "going on from step" in running.out, 60, "it goes on")
        running.send(signal.SIGTERM)
        running.wait()

    def test_what_cannot_be_read_now_is_tried_again_and_nothing_is_lost(self):
        self.stop_midway()
        before = self.whole()
        newest = before[-1]
        for name in (f"{newest}/model.safetensors", f"{newest}/manifest.json", "current.json"):
            path = self.dir / "saved" / name
            os.rename(path, self.dir / "good")
            path.symlink_to("/proc/self/mem")  # every read of it fails with EIO
            done = self.dure("run", "ck.yaml", timeout=60)
            self.assertNotEqual(done.code, 0, name)
            self.assertIn("Input/output error", done.out + done.err)
            self.assertIn("exited with 1", done.out + done.err, "it is worth another try")
            self.assertEqual(self.whole(), before, "nothing is lost")
            os.rename(self.dir / "good", path)
        done = self.dure("run", "--set", f"train.steps={int(newest.split('-')[1]) + 10}", "ck.yaml", timeout=60)
        self.assertIn(f"going on from step {int(newest.split('-')[1])} ", done.out)

    def as_nobody(self, *arguments, timeout=60):
        """dure-trainer alone, as an ordinary user."""
        for path in [self.dir, *self.dir.rglob("*")]:
            os.chown(path, NOBODY, NOBODY)
        return subprocess.run([BUILD / "dure-trainer", *arguments], cwd=self.dir, user=NOBODY, group=NOBODY,
                              env=self.env, capture_output=True, text=True, timeout=timeout)

    def test_an_ordinary_user_who_may_not_read_them_loses_nothing(self):
        self.stop_midway()
        before = self.whole()
        for name in before:
            os.chmod(self.dir / "saved" / name / "manifest.json", 0)
        done = self.as_nobody("ck.yaml")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("Permission denied", done.stderr)
        self.assertEqual(self.whole(), before)

    def test_a_read_only_directory_is_a_mistake(self):
        (self.dir / "saved").mkdir()
        job = self.job()
        os.chmod(self.dir / "saved", 0o555)
        done = self.as_nobody(job)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, "checkpoint.path: .*saved: Permission denied")

    def test_a_worker_of_an_older_generation_does_not_publish(self):
        gone = {"DURE_RUN": "ck.1", "DURE_RUN_ID": "f00d", "DURE_OUTPUT": str(self.dir / "model.safetensors")}
        older = self.start(self.job(epochs=100000, every="every: 50"), program=BUILD / "dure-trainer",
                           env={**gone, "DURE_GENERATION": "1"})
        wait_until(self.whole, 60, "a checkpoint")
        older.send(signal.SIGSTOP)
        # It still holds its lock, as a node that is cut off does on a network file system.
        newest = self.whole()[-1]
        self.job(epochs=100000, every="every: 50")
        until = int(newest.split("-")[1]) + 200
        text = (self.dir / "ck.yaml").read_text()
        self.write("newer.yaml", text.replace("  batch: 25", f"  batch: 25\n  steps: {until}"))
        newer = self.dure("newer.yaml", program=BUILD / "dure-trainer", env={**gone, "DURE_GENERATION": "2"})
        self.assertEqual(newer.code, 0, newer.err)
        self.assertIn("going on from step", newer.out)
        after, model, note = self.steps(), self.model(), (self.dir / "saved/current.json").read_bytes()
        older.send(signal.SIGCONT)
        done = older.wait(60)
        self.assertEqual(done.code, 1, done.err)
        self.assertIn("generation 2 of this run writes to", done.err)
        self.assertEqual(self.steps(), after)
        self.assertEqual(self.model(), model)
        self.assertEqual((self.dir / "saved/current.json").read_bytes(), note)

    def mount(self, name, size):
        path = self.dir / name
        path.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(path)], check=True)
        self.addCleanup(subprocess.run, ["umount", str(path)], check=True)
        return path

    def test_a_model_without_room_is_kept_elsewhere_and_not_trained_again(self):
        tiny = self.mount("tiny", "16k")
        kept = []
        for run, checkpoints, place in (("ck.1", "saved", self.dir / "saved"),
                                        ("ck.2", None, self.state / "runs/ck.2/tasks/worker-0")):
            done = self.dure("run", self.job(workers=2, checkpoints=checkpoints, output="tiny/model.safetensors"),
                             timeout=60)
            self.assertEqual(done.code, 1, done.out + done.err)
            self.assertEqual(len(self.events(run, "starting")), 1, done.out + done.err)
            reason = self.events(run, "finished")[0]["reason"]
            for words in ("rank 0", f"{tiny}/model.safetensors: ", "No space left on device",
                          f"the model is kept in {place}/model.safetensors"):
                self.assertIn(words, reason)
            self.assertEqual(list(tiny.iterdir()), [])
            kept.append((place / "model.safetensors").read_bytes())
        self.assertEqual(*kept)

    def test_a_place_that_becomes_read_only(self):
        (self.dir / "out").mkdir()
        (self.dir / "temporary").mkdir()
        job = self.job(checkpoints=None, epochs=40, output="out/model.h5")
        for path in [self.dir, *self.dir.rglob("*")]:
            os.chown(path, NOBODY, NOBODY)
        running = subprocess.Popen([BUILD / "dure-trainer", job], cwd=self.dir, user=NOBODY, group=NOBODY,
                                   env={**self.env, "TMPDIR": str(self.dir / "temporary")}, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        running.stdout.readline()  # that it begins
        os.chmod(self.dir / "out", 0o555)
        _, err = running.communicate(timeout=60)
        self.assertEqual(running.returncode, 2, err)
        self.assertRegex(err, "output: write .*/out/model.h5: Permission denied; the model is kept in .*/temporary/")
        self.assertTrue(pathlib.Path(err.strip().rsplit(" ", 1)[1]).stat().st_size > 0)
        self.assertEqual(list((self.dir / "out").iterdir()), [])

    def test_too_little_memory_is_worth_another_try(self):
        self.job(checkpoints=None)
        text = (self.dir / "ck.yaml").read_text().replace("hidden: [64]", "hidden: [200000, 200000]")
        self.write("ck.yaml", text)
        # Where memory is given to whoever asks, the limit still says no.
        done = subprocess.run(["prlimit", f"--as={16 << 30}", BUILD / "dure-trainer", "ck.yaml"], cwd=self.dir,
                              env=self.env, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("memory", done.stderr)

    def test_nan_in_the_data_is_named(self):
        arrays = dict(numpy.load(self.dir / "data.npz"))
        arrays["x_test"] = arrays["x_test"].astype(numpy.float32) / 255
        images = arrays["x_train"].astype(numpy.float32) / 255
        images[123, 2, 5] = numpy.nan
        numpy.savez(self.dir / "nan.npz", **{**arrays, "x_train": images})
        images[123, 2, 5] = numpy.inf
        numpy.savez(self.dir / "inf.npz", **{**arrays, "x_train": images})
        rows = ["a,b,label"] + [f"{i % 7},{i % 5},{i % 2}" for i in range(60)]
        rows[42] = "1,nan,0"
        self.write("nan.csv", "\n".join(rows) + "\n")
        for data, expected in (("nan.npz", r"nan\.npz.*row 123.*30.*NaN"), ("inf.npz", r"inf\.npz.*row 123.*30.*infinite"),
                               ("nan.csv", r"nan\.csv:43: column 2 .*not a finite number")):
            for workers in (1, 2):
                done = self.dure("run", self.job(workers=workers, checkpoints=None, data=data), timeout=60)
                said = done.out + done.err
                self.assertNotEqual(done.code, 0, data)
                self.assertRegex(said, expected)
                self.assertNotIn("optimizer.lr", said)
                self.assertNotIn("restart", said)

    def test_a_training_that_diverges_is_told_apart(self):
        done = self.dure("run", self.job(workers=2, checkpoints=None, optimizer="{name: sgd, lr: 1.0e+18}"), timeout=60)
        self.assertNotEqual(done.code, 0)
        self.assertRegex(done.out + done.err, r"the (loss became NaN or infinite in epoch \d|weights became NaN or "
                         r"infinite after step \d+): try a smaller train.optimizer.lr, or train.clip")
        self.assertNotIn("restart", done.out + done.err)

    def test_leftovers_of_a_killed_writer_go(self):
        leftover = self.dir / "model.safetensors.4711.0.tmp"
        leftover.write_bytes(b"half a model")
        self.dure("run", self.job(), code=0, timeout=60)
        self.assertEqual(list(self.dir.glob("model.safetensors.*")), [])


harness.main()
