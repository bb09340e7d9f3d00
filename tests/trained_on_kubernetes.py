"""For tests that disturb a training on the cluster: its model must be that of a run that nobody disturbed."""
import json

from kubernetes import OnKubernetes, RunsOnKubernetes


class TrainsOnKubernetes(RunsOnKubernetes, OnKubernetes):
    """For a harness.Case; it comes before the case among the bases."""

    images = "all"
    TRAIN = {"model": "convnet", "data": "/usr/share/datasets/fashion-mnist", "steps": 1000, "batch": 50}

    def training(self, name, **fields):
        self.make_claim(name)
        return self.job_file(name, volumes=False, claim=None, workers=2, resources={"cpus": 0.9}, train=self.TRAIN,
                             checkpoint={"path": "out/checkpoints", "every": 50}, output="out/model.safetensors",
                             program={"pull": "Never"}, timeouts={"stop": "2s", "heartbeat": "15s"}, **fields)

    def job_file(self, name, program=None, **fields):
        path = super().job_file(name, **fields)
        job = json.loads(path.read_text())
        job["program"] = program
        job["volumes"] = [{"path": "out", "claim": name},
                          {"path": "/usr/share/datasets", "host": "/usr/share/datasets", "read_only": True}]
        path.write_text(json.dumps(job))
        return path

    def model(self, name):
        return (self.dir / f"claim-{name}" / "model.safetensors").read_bytes()

    def begin(self, name, **fields):
        running = self.start("run", self.training(name, **fields), "--on", "kubernetes", "-n", self.namespace)
        self.wait_until(lambda: any((self.dir / f"claim-{name}/checkpoints").glob("*")), "a checkpoint is written", 120)
        return running

    def ended_well(self, running, name, expected, generations=2, timeout=240):
        done = running.wait(timeout)
        self.assertEqual(done.code, 0, done.err)
        starts = [event["generation"] for event in self.events_of(name, "starting")]
        self.assertEqual(starts, list(range(1, len(starts) + 1)))
        self.assertGreaterEqual(len(starts), generations, done.err)
        self.assertEqual(self.model(name), expected, f"{name}: the weights are others")
        return done

    def undisturbed(self):
        """The same job on this machine, whose bits are the same (see test_kubernetes_jobs)."""
        job = {"name": "reference", "workers": 2, "resources": {"cpus": 0.9}, "train": self.TRAIN,
               "output": "model.safetensors"}
        self.dure("run", self.write("reference/job.yaml", json.dumps(job)), code=0, timeout=180)
        return (self.dir / "reference/model.safetensors").read_bytes()
