"""Native training can be killed at any moment: the model is that of an undisturbed run, bit for bit."""
import contextlib
import fcntl
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import time
import zlib

import numpy

import harness
from checkpointed import Checkpointed
from harness import wait_until
from native import largest_difference, read_safetensors, write_images


class KillTest(Checkpointed):
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

    def test_workers_that_meet_seldom_on_other_numbers_of_workers(self):
        four = {"workers": 4, "batch": 12, "more": "sync: {every: 5, momentum: 0.5, lr: 0.8}"}
        self.stop_midway(**four)
        done = self.dure("run", "job.yaml", "--workers", 2, timeout=120)
        self.assertEqual(done.code, 0, done.out + done.err)
        self.assertIn("going on from step", done.out)
        self.assertIn("48 samples a step", done.out, "the global batch stays")
        for array in read_safetensors(self.dir / "model.safetensors").values():
            self.assertTrue(numpy.isfinite(array).all())
        shutil.rmtree(self.dir / "checkpoints")
        self.stop_midway(workers=2, more="sync: end")
        done = self.dure("run", "job.yaml", "--workers", 1, timeout=60)
        self.assertNotEqual(done.code, 0)
        self.assertIn("of 2 workers with one-shot averaging, and now there are 1", done.out + done.err)

    def killed_once(self, **options):
        """The model and the output of a run that is killed after a checkpoint, and takes itself up again."""
        running = self.start("run", self.job(**options))
        self.wait_for_checkpoint()
        os.kill(self.ranks()[0], signal.SIGKILL)
        done = running.wait(90)
        self.assertEqual(done.code, 0, done.out[-3000:] + done.err[-3000:])
        self.assertIn("going on from step", done.out)
        model = (self.dir / "model.safetensors").read_bytes()
        shutil.rmtree(self.dir / "checkpoints")
        return model, done.out

    def test_early_stopping_across_a_kill(self):
        # The test loss is at its best before the kill; how long it is no better is counted on after it.
        options = {"epochs": 1000, "more": "early_stopping: {patience: 60, min_delta: 0.001}",
                   "optimizer": "{name: sgd, lr: 0.05}"}
        calm = self.undisturbed(**options)
        model, out = self.killed_once(**options)
        self.assertIn("no better for 60 epochs: training ends here", out)
        self.assertEqual(model, calm)

    def test_checkpoints_by_the_clock_across_a_kill(self):
        for more in ("sync: step", "sync: end"):
            options = {"epochs": 40, "every": "interval: 100ms", "more": more}
            calm = self.undisturbed(**options)
            model, _ = self.killed_once(**options)
            self.assertEqual(model, calm, more)

    def test_workers_that_train_apart_seldom_ask_for_the_time(self):
        given = []
        for number, every in enumerate((1_000_000, "interval: 1h"), start=1):
            self.undisturbed(epochs=20, every=every, more="sync: end")
            given.append(self.summary(f"killed.{number}")["memory_bytes"])
            shutil.rmtree(self.dir / "calm")
        # 200 steps, and 8 bytes to ask.
        self.assertLess(given[1] - given[0], 8 * 200 / 4)

    def test_the_last_checkpoint_is_the_model(self):
        for more in ("sync: step", "sync: {every: 6, momentum: 0.6, lr: 0.8}"):
            self.undisturbed(more=more, epochs=8)
            saved = read_safetensors(self.checkpoints("calm")[-1] / "model.safetensors")
            self.assertEqual(largest_difference(saved, read_safetensors(self.dir / "calm.safetensors")), 0, more)

    @contextlib.contextmanager
    def lock(self, folder="checkpoints"):
        """As another run would hold it."""
        with open(self.dir / folder / "lock", "w") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            yield

    def test_killed_before_it_began_it_does_not_go_on_with_an_ended_run(self):
        self.dure("run", self.job(epochs=5), code=0, timeout=60)
        ended = (self.dir / "model.safetensors").read_bytes()
        # The same job on other data: what the ended run left is of no use.
        write_images(self.dir / "data.npz", rows=500, size=28, seed=8)
        calm = self.undisturbed(epochs=5)
        self.assertNotEqual(calm, ended)
        with self.lock():
            running = self.start("run", self.job(epochs=5))
            os.kill(wait_until(lambda: self.ranks().get(0), 30, "the first rank"), signal.SIGKILL)
            self.wait_for_event("killed.3", "exited")
        done = running.wait(60)
        self.assertEqual(done.code, 0, done.out + done.err)
        self.assertNotIn("going on", done.out)
        self.assertEqual((self.dir / "model.safetensors").read_bytes(), calm)

    def test_a_second_run_in_the_directory_is_refused(self):
        (self.dir / "checkpoints").mkdir()
        with self.lock():
            done = self.dure("run", self.job(), timeout=60)
        self.assertNotEqual(done.code, 0)
        self.assertIn("another run writes to", done.out + done.err)
        self.assertNotIn("restart", done.out + done.err, "trying again would not help")

    def test_a_training_that_diverges_ends_and_leaves_no_such_checkpoint(self):
        done = self.dure("run", self.job(every=1, optimizer="{name: sgd, lr: 1.0e+18}"), timeout=60)
        self.assertNotEqual(done.code, 0)
        self.assertRegex(done.out + done.err, "the (loss|weights) became NaN or infinite")
        self.assertNotIn("restart", done.out + done.err, "trying again would not help")
        for folder in self.checkpoints():
            for array in read_safetensors(folder / "model.safetensors").values():
                self.assertTrue(numpy.isfinite(array).all(), folder)

    @staticmethod
    def rewrite_progress(folder, change):
        """A checkpoint with right checksums that says something else about where it was."""
        path = folder / "state.safetensors"
        data = path.read_bytes()
        length, = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + length])
        progress = json.loads(header["__metadata__"]["progress"])
        change(progress)
        header["__metadata__"]["progress"] = json.dumps(progress)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        data = struct.pack("<Q", len(text)) + text + data[8 + length:]
        path.write_bytes(data)
        manifest = json.loads((folder / "manifest.json").read_text())
        inner = manifest["manifest"]
        inner["files"]["state.safetensors"] = {"bytes": len(data), "checksum": zlib.crc32(data)}
        dumped = json.dumps(inner, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        manifest["checksum"] = zlib.crc32(dumped.encode())
        (folder / "manifest.json").write_text(json.dumps(manifest))

    def test_what_a_checkpoint_should_not_say_is_an_error(self):
        self.stop_midway()
        self.rewrite_progress(self.checkpoints()[-1], lambda progress: progress.update(loss_sum=None))
        done = self.dure("run", "job.yaml", timeout=60)
        self.assertNotEqual(done.code, 0)
        self.assertIn("does not say where the training was", done.out + done.err)
        self.assertNotIn("restart", done.out + done.err)

    def test_a_flipped_bit_in_the_note_of_which_training_it_is(self):
        calm = self.undisturbed(epochs=100)
        self.stop_midway()
        notes = [self.dir / "checkpoints" / name for name in ("current.json", "current.copy.json")]

        def flip(path):
            data = bytearray(path.read_bytes())
            data[data.index(b"training") + 14] ^= 1
            path.write_bytes(data)
        for note in notes:
            flip(note)
        before = self.checkpoints()
        done = self.dure("run", "job.yaml", timeout=60)
        self.assertNotEqual(done.code, 0)
        self.assertIn("remove it to begin anew", done.out + done.err)
        self.assertEqual(self.checkpoints(), before)
        flip(notes[1])  # which makes it right again
        done = self.dure("run", "job.yaml", timeout=120)
        self.assertEqual(done.code, 0, done.out + done.err)
        self.assertIn("going on from step", done.out)
        self.assertEqual((self.dir / "model.safetensors").read_bytes(), calm)

    def test_a_finished_training_begins_anew_and_another_one_is_refused(self):
        self.undisturbed(epochs=10)
        again = self.dure("run", "calm.yaml", code=0, timeout=60)
        self.assertNotIn("going on", again.out)
        self.stop_midway()
        other = self.dure("run", self.job(epochs=100, more="seed: 9"), timeout=60)
        self.assertNotEqual(other.code, 0)
        self.assertIn("another training that did not end (train.seed: 9 now, the default then)",
                      other.out + other.err)

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

    def test_a_place_where_no_model_can_be_written_is_said_at_once(self):
        self.mount("fixed", "ro,size=1m")
        (self.dir / "folder.h5").mkdir()
        for output, why in (("fixed/model.h5", "Read-only file system"), ("/proc/nowhere/m.h5", "No such file"),
                            ("folder.h5", "is a directory")):
            done = self.dure("run", self.job(output=output, epochs=1000), timeout=30)
            self.assertNotEqual(done.code, 0, output)
            self.assertRegex(done.out + done.err, f"output: .*{why}")
            self.assertNotIn("epoch", done.out, "it was trained")
            self.assertNotIn("restart", done.out + done.err, "trying again would not help")

    def test_a_directory_that_cannot_be_written_is_said_at_once(self):
        self.mount("fixed", "ro,size=1m")
        done = self.dure("run", self.job(checkpoints="fixed/here"), "--set", "restarts=0", timeout=60)
        self.assertNotEqual(done.code, 0)
        self.assertIn("checkpoint.path", done.out + done.err)
        self.assertIn("Read-only file system", done.out + done.err)

    def test_the_newest_are_kept_and_nothing_half_written(self):
        self.undisturbed(epochs=40, every=20)
        newest = json.loads((self.checkpoints("calm")[-1] / "manifest.json").read_text())
        self.assertEqual(newest["manifest"]["step"], 400)
        self.assertEqual(len(self.checkpoints("calm")), 2, "keep: 2")
        self.assertFalse(list(pathlib.Path(self.dir / "calm").glob("*.part")))


harness.main()
