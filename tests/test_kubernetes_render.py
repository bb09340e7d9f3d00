"""dure render: what it prints is what Kubernetes runs, without anything of Dure in the cluster."""
import hashlib
import json
import subprocess

import harness
from kubernetes import OnKubernetes

IMAGE = "dure.test/host:1"
EXAMPLES = harness.ROOT / "examples"
# The image is empty: what a program needs comes from the host.
HOST = [{"path": "/usr", "host": "/usr", "read_only": True}, {"path": "/etc", "host": "/etc", "read_only": True}]

# Each worker tells the first its number, by the addresses of TF_CONFIG; the first saves what it heard.
PROGRAM = """
import json, os, socket, sys, time
config = json.loads(os.environ["TF_CONFIG"])
index, hosts = config["task"]["index"], config["cluster"]["worker"]
assert config["task"]["type"] == "worker" and len(hosts) == 3, config
address, port = hosts[0].split(":")
assert os.getuid() == 1000, os.getuid()
assert not os.path.exists("/var/run/secrets/kubernetes.io"), "it has a token of the cluster"
if index > 0:
    assert not os.path.exists("/ckpt"), "only the first has the claim"
    deadline = time.time() + 60
    while True:
        try:
            peer = socket.create_connection((address, int(port)), 5)
            break
        except OSError:
            if time.time() > deadline: raise
            time.sleep(0.2)
    peer.sendall(str(index).encode())
    sys.exit(0)
server = socket.create_server(("", int(port)))
# Its own name leads to itself.
assert socket.gethostbyname(address) == socket.gethostbyname(socket.gethostname())
heard = sorted(server.accept()[0].recv(9).decode() for _ in hosts[1:])
with open(os.environ["DURE_CHECKPOINT"] + "/model", "w") as file:
    file.write("trained with " + " ".join(heard))
"""


class KubernetesRender(OnKubernetes, harness.Case):
    def setUp(self):
        super().setUp()
        self.dir.chmod(0o755)

    def render(self, *arguments, **options):
        return self.dure("render", *arguments, code=0, **options).out

    def create_from(self, manifests, *words):
        self.kubectl("create", "--validate=true", "-n", self.namespace, *words, "-f", "-", stdin=manifests)

    def get(self, kind, *words):
        return json.loads(self.kubectl("get", kind, "-n", self.namespace, *words, "-o", "json"))

    def writable(self, name):
        """A directory of the host that any user in a pod may write to."""
        path = self.dir / name
        path.mkdir()
        path.chmod(0o777)
        return path

    def add_disk(self, claim, path):
        """A volume on the host for a claim of this namespace."""
        name = f"{self.namespace}-{claim}"
        self.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                     "spec": {"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"],
                              "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": str(path)},
                              "claimRef": {"namespace": self.namespace, "name": claim}}})
        self.addCleanup(self.kubectl, "delete", "persistentvolume", name, "--wait=false")

    def wait_for_jobs(self, count, timeout=120):
        def ended():
            jobs = self.get("jobs")["items"]
            self.assertEqual(len(jobs), count)
            failed = [job["metadata"]["name"] for job in jobs if job["status"].get("failed")]
            if failed:
                logs = self.kubectl("logs", "-n", self.namespace, f"job/{failed[0]}")
                raise AssertionError(f"{failed} failed: {logs}")
            return all(job["status"].get("succeeded") for job in jobs)
        harness.wait_until(ended, timeout, "all jobs have succeeded")

    def template(self, **changes):
        """A job by the ten parameters."""
        self.write("program/train.py", PROGRAM)
        job = {"script": "/program/train.py", "name": "mnist", "worker_replicas": 3, "port": 5000,
               "model_checkpoint_dir": "/ckpt", "checkpoint_pvc_name": "models", "image": IMAGE, "deploy": True,
               "create_pvc_checkpoint": False, "create_volume_inspector": False,
               "volumes": HOST + [{"path": "/program", "host": str(self.dir / "program")}],
               "program": {"pull": "Never"}, **changes}
        return self.job(json.dumps(job))

    def test_every_example_is_accepted(self):
        for example in sorted(EXAMPLES.glob("*.yaml")):
            words = [example, "--set", f"program.image={IMAGE}"]
            if example.stem in ("mpi", "horovod"):
                done = self.dure("render", *words, code=2)
                self.assertEqual(done.out, "")
                self.assertIn("use dure run --on kubernetes", done.err)
                continue
            self.create_from(self.render(*words), "--dry-run=server")
            as_json = self.render(*words, "-o", "json", "--namespace", self.namespace)
            for item in json.loads(as_json)["items"]:
                self.assertEqual(item["metadata"]["namespace"], self.namespace)
            self.create_from(as_json, "--dry-run=server")

    def test_what_looks_like_something_else_stays_text(self):
        texts = {"A": "1", "B": "true", "C": "null", "D": "1e3", "E": "0x10", "F": "- a: b", "G": "1_000", "H": "",
                 "I": " x ", "J": "a\nb\n", "K": "2001-01-01", "L": "012", "M": "~", "N": "두레 ☃", "O": ".inf",
                 "P": "$(A) $$ $A", "Q": "1:30", "R": "yes", "S": "2Gi", "T": "#x", "U": "a\\b\"c'"}
        job = self.job(json.dumps({"name": "texts", "env": texts, "program": {
            "image": IMAGE, "pull": "Never", "command": ["/usr/bin/python3", "-c", "import os, sys, json;"
                                                         "print(json.dumps([dict(os.environ), sys.argv[1:]]))",
                                                         "$(A)", "$$", "007"]}, "volumes": HOST}))
        self.create_from(self.render(job))
        self.wait_for_jobs(1)
        environ, words = json.loads(self.kubectl("logs", "-n", self.namespace, "job/texts-worker-0"))
        self.assertEqual({name: environ[name] for name in texts}, texts)
        self.assertEqual(words, ["$(A)", "$$", "007"])

    def test_the_ten_parameters_train_and_the_model_can_be_looked_at(self):
        job = self.template()
        self.dure("check", job, code=0)
        disk = self.writable("disk")
        self.add_disk("models", disk)
        self.create_from(self.render(job, "--set", "deploy=false", "--set", "create_pvc_checkpoint=true"))
        claim = self.get("pvc", "models")
        self.assertEqual(claim["spec"]["accessModes"], ["ReadWriteOnce"])
        harness.wait_until(lambda: self.get("pvc", "models")["status"]["phase"] == "Bound", 30, "the claim is bound")
        looking = ["--set", "create_volume_inspector=true"]
        refused = self.dure("render", job, *looking, code=2)
        self.assertEqual(refused.out, "")
        self.assertIn("read-write on one node only", refused.err)

        self.create_from(self.render(job))
        self.assertEqual(len(self.get("services")["items"]), 3)
        self.wait_for_jobs(3)
        self.assertEqual((disk / "model").read_text(), "trained with 1 2")

        self.create_from(self.render(job, "--set", "deploy=false", *looking))
        harness.wait_until(lambda: self.get("pod", "mnist-inspector")["status"]["phase"] == "Running", 60,
                           "the inspector runs")
        seen = self.kubectl("exec", "-n", self.namespace, "mnist-inspector", "--", "cat", "/ckpt/model")
        self.assertEqual(seen, "trained with 1 2")

    def test_pytorch_ddp_over_pods(self):
        out = self.writable("out")
        self.create_from(self.render(
            EXAMPLES / "ddp.yaml", "--set", f"program.image={IMAGE}", "--set", "program.pull=Never",
            "--set", "program.command=[python3, /program/ddp.py, --epochs, 1, --samples, 6000]",
            "--set", "checkpoint.path=/out", "--set", "resources.cpus=0.2", "--set", "volumes=" + json.dumps(
                HOST + [{"path": "/program", "host": str(EXAMPLES), "read_only": True},
                        {"path": "/out", "host": str(out), "tasks": "chief"}])))
        self.wait_for_jobs(2, timeout=240)
        self.assertIn("images it had not seen", self.kubectl("logs", "-n", self.namespace, "job/fashion-mnist-worker-0"))
        self.assertTrue((out / "checkpoint.pt").exists())
        nodes = {pod["spec"]["nodeName"] for pod in self.get("pods")["items"]}
        harness.report(f"DDP over the nodes {', '.join(sorted(nodes))}")

    def test_a_native_training_gives_the_model_of_a_local_one(self):
        out = self.writable("out")
        job = {"name": "native", "workers": 2, "resources": {"cpus": 0.2},
               "train": {"model": "linear", "data": "/usr/share/datasets/fashion-mnist", "steps": 20},
               "output": "/out/model.safetensors"}
        pods = {**job, "program": {"image": IMAGE, "pull": "Never"},
                "env": {"PATH": "/build:/usr/bin"}, "volumes": HOST + [
                    {"path": "/build", "host": str(harness.BUILD), "read_only": True},
                    {"path": "/out", "host": str(out), "tasks": "chief"}]}
        self.create_from(self.render(self.job(json.dumps(pods))))
        self.wait_for_jobs(2, timeout=240)
        local = self.dir / "local.safetensors"
        self.dure("run", self.job(json.dumps({**job, "output": str(local)})), code=0, timeout=120)
        digest = lambda path: hashlib.sha256(path.read_bytes()).hexdigest()
        self.assertEqual(digest(out / "model.safetensors"), digest(local))

    def test_shared_storage_is_accepted(self):
        storage = self.render("--nfs", "shared", "--nfs-size", "2Gi", "--namespace", self.namespace)
        self.create_from(storage, "--dry-run=server")
        fixed = self.render("--nfs", "shared", "--nfs-address", "10.0.0.9", "-n", self.namespace, "-o", "json")
        server, = (item["spec"]["nfs"]["server"] for item in json.loads(fixed)["items"]
                   if item["kind"] == "PersistentVolume")
        self.assertEqual(server, "10.0.0.9")

    def test_what_cannot_be_rendered_is_one_sentence(self):
        long = "a" * 41
        refusals = [
            (["--set", "deploy=false"], "nothing to print"),
            (["--set", "processes=2"], "a rendered pod starts one"),
            (["--set", "image=''"], "program.image: is missing"),
            (["--set", f"name={long}"], "at most 40"),
            (["--set", "volumes=[{path: out, claim: c}]"], "give an absolute path"),
            (["--set", "create_pvc_checkpoint=true", "--set", "checkpoint={}"], "needs checkpoint.claim"),
            (["--set", "checkpoint_pvc_name=No_Name"], "must be a name in Kubernetes"),
            (["--", "other"], None),
            (["-o", "xml"], "xml"),
            (["--nfs", "shared"], "give --namespace"),
            (["--nfs", "Shared", "-n", "x"], "is no name"),
            (["--nfs", "shared", "-n", "x", "--nfs-size", "much"], "--nfs-size: must be a size"),
        ]
        job = self.template()
        for words, sentence in refusals:
            done = self.dure("render", job, *words, code=0 if sentence is None else 2)
            if sentence is None:
                continue
            self.assertEqual(done.out, "", words)
            self.assertIn(sentence, done.err, words)
            self.assertEqual(len([line for line in done.err.splitlines() if not line.startswith("Try: ")]), 1, done.err)
        both = self.template(program={"command": ["other"]})
        done = self.dure("render", both, code=2)
        self.assertIn("script: says something else than program.command", done.err)
        self.assertEqual(self.dure("render", code=2).out, "")

    def test_what_would_be_lost_with_its_pod_is_noted(self):
        job = self.write("native.yaml", json.dumps({
            "name": "native", "train": {"model": "mlp", "data": "/data"}, "output": "/out/model.h5",
            "checkpoint": {"path": "/out/checkpoints", "every": 10}}))
        noted = self.dure("render", job, code=0).err
        self.assertEqual([line.split(" is on no volume, ")[0] for line in noted.splitlines()],
                         ["note: output: /out/model.h5", "note: checkpoint.path: /out/checkpoints"])
        self.assertEqual(self.dure("render", job, "--set", "volumes=[{path: /out, claim: models}]", code=0).err, "")

    def test_it_reads_from_a_pipe_and_writes_into_one(self):
        with open(self.template(), "rb") as job:
            done = subprocess.run([harness.DURE, "render", "-"], stdin=job, capture_output=True, env=self.env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.create_from(done.stdout.decode(), "--dry-run=client")


harness.main()
