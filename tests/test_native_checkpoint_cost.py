"""How long training stands still for its checkpoints."""
import shutil

import harness
from checkpointed import Checkpointed


class Cost(Checkpointed):
    def test_training_does_not_wait_for_the_disk(self):
        # A step takes less than a checkpoint takes to be written: most are left out.
        for number, more in enumerate(("sync: step", "sync: end")):
            self.undisturbed(every=1, more=more, epochs=50)
            summary = self.summary(f"killed.{number + 1}")
            stood = summary["checkpoint_seconds"] / summary["seconds"]
            harness.report(f"{more}: {summary['checkpoints']} checkpoints in {summary['seconds']:.2f} s of 500 steps, "
                           f"for which training stood still for {stood:.1%} of the time")
            self.assertTrue(0 < summary["checkpoints"] < 500)
            self.assertLess(stood, 0.1)
            shutil.rmtree(self.dir / "calm")

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
        summary = self.summary("large")
        count, delay = summary["checkpoints"], summary["checkpoint_seconds"]
        self.assertGreater(count, 1, done.out)
        self.assertIn(f"checkpoints {count} written; training stood still", done.out)
        harness.report(f"{count} checkpoints of {self.size_of(self.checkpoints()[-1]) / 1e6:.0f} MB, one every "
                       f"{interval} s: each held up training for {delay / count * 1000:.0f} ms")
        self.assertLess(delay / count, 0.05 * interval)


harness.main()
