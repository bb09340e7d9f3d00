"""Real frameworks on a real cluster, from job files that also run here: native training, PyTorch, MPI, TensorFlow's
environment."""
import json
import pathlib
import shutil

import harness
from kubernetes import OnKubernetes, RunsOnKubernetes

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
HOST = [{"path": path, "host": path, "read_only": True} for path in ("/usr", "/etc")]


class Frameworks(RunsOnKubernetes, OnKubernetes, harness.Case):
    images = "all"

    def setUp(self):
        super().setUp()
        shutil.copytree(EXAMPLES, self.dir / "work", ignore=shutil.ignore_patterns("out"))
        self.claim = self.make_claim()

    def nodes_of(self, job):
        return {pod["metadata"]["labels"]["dure/task"]: pod["spec"]["nodeName"]
                for pod in self.pods(f"dure/job={job},dure/part=task")}

    def sets(self, **fields):
        return [word for name, value in fields.items() for word in ("--set", f"{name.replace('__', '.')}={json.dumps(value)}")]

    def test_native_training_over_two_nodes_gives_the_model_of_this_machine(self):
        job = self.dir / "work/fashion-mnist.yaml"
        same = self.sets(train__steps=40, resources__cpus=1.1)
        self.dure("run", job, *same, code=0, timeout=120)
        here = (self.dir / "work/out/model.h5").read_bytes()
        there = self.sets(clean="none", program__pull="Never", volumes=[
            {"path": "out", "claim": "models"},
            {"path": "/usr/share/datasets", "host": "/usr/share/datasets", "read_only": True}])
        done = self.on_kubernetes("run", job, *same, *there, code=0, timeout=180)
        self.assertIn("accuracy", done.out)
        self.assertEqual(self.nodes_of("fashion-mnist").keys(), {"worker-0", "worker-1"})
        self.assertEqual(set(self.nodes_of("fashion-mnist").values()), {"node-1", "node-2"})
        self.assertEqual((self.claim / "model.h5").read_bytes(), here)
        fetched = self.on_kubernetes("fetch", "fashion-mnist", "out/model.h5", "home/model.h5", code=0)
        self.assertIn("1 file", fetched.out)
        self.assertEqual((self.dir / "home/model.h5").read_bytes(), here)
        self.on_kubernetes("fetch", "fashion-mnist", "out", "all", code=0)
        self.assertEqual((self.dir / "all/model.h5").read_bytes(), here)
        missing = self.on_kubernetes("fetch", "fashion-mnist", "out/nothing", code=2)
        self.assertIn("there is no file or directory", missing.err)
        self.assertFalse((self.dir / "nothing").exists())
        self.assertIn("loss", self.on_kubernetes("describe", "fashion-mnist", code=0).out)

    def test_a_pytorch_program_over_two_nodes(self):
        done = self.on_kubernetes(
            "run", self.dir / "work/ddp.yaml", *self.sets(
                clean="none", resources__cpus=1.1, program__image="dure.test/host:1", program__pull="Never",
                program__command=["python3", "ddp.py", "--epochs", "1", "--samples", "2000"],
                volumes=[*HOST, {"path": "out", "claim": "models"}]), code=0, timeout=180)
        self.assertIn("fashion-mnist.1 succeeded", done.err)
        self.assertEqual(set(self.nodes_of("fashion-mnist").values()), {"node-1", "node-2"})
        self.assertTrue(any(path.is_file() for path in self.claim.rglob("*")), "the checkpoint is on the claim")

    def test_mpirun_without_ssh(self):
        harness.run_text(["mpicc", "-o", str(self.dir / "work/allreduce"), str(EXAMPLES / "allreduce.c")])
        done = self.on_kubernetes(
            "run", self.dir / "work/mpi.yaml", *self.sets(
                clean="none", resources__cpus=1.1, program__image="dure.test/host:1", program__pull="Never", volumes=HOST),
            code=0, timeout=120)
        local = self.dure("run", self.dir / "work/mpi.yaml", code=0)
        sums = lambda output: sorted(line for line in self.lines_of(output, 0) if "takes" not in line)
        self.assertEqual(sums(done.out), sums(local.out))
        nodes = self.nodes_of("allreduce")
        self.assertEqual({nodes["worker-0"], nodes["worker-1"]}, {"node-1", "node-2"})

    def test_tensorflow_sees_its_cluster(self):
        done = self.on_kubernetes(
            "run", self.dir / "work/tensorflow.yaml", *self.sets(
                program__image="dure.test/host:1", program__pull="Never", volumes=HOST,
                program__command=["sh", "-c", "echo $TF_CONFIG; for role in chief-0 worker-1 ps-0; do "
                                  "getent hosts $role.tensorflow-1 >/dev/null && echo found $role; "
                                  "done; sleep 6"]),  # names go with their pods
            code=0, timeout=120)
        configs = {rank: self.lines_of(done.out, rank) for rank in range(3)}
        config = json.loads(configs[0][0])
        self.assertEqual(config["task"], {"type": "chief", "index": 0})
        self.assertEqual(config["cluster"], {"chief": ["chief-0.tensorflow-1:29500"], "ps": ["ps-0.tensorflow-1:29500"],
                                             "worker": ["worker-0.tensorflow-1:29500", "worker-1.tensorflow-1:29500"]})
        for rank in range(3):
            self.assertEqual(configs[rank][1:], ["found chief-0", "found worker-1", "found ps-0"])


class Torchrun(RunsOnKubernetes, OnKubernetes, harness.Case):
    def torchrun(self, name, line):
        """Sums over all processes that this line of a shell starts in two tasks."""
        self.write("work/program.py", """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
value = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(value)
os.write(1, f"sum {int(value)} of {dist.get_world_size()}\\n".encode())  # at once: processes share a pipe
dist.destroy_process_group()
""")
        # What torchrun 1.13 needs on Python 3.11, and whatever the environment does not say of the rendezvous.
        line = ("export PET_REDIRECTS=${PET_REDIRECTS:-9:1} PET_TEE=${PET_TEE:-9:1} PET_RDZV_BACKEND=${PET_RDZV_BACKEND:-static}; "
                "export PET_RDZV_ENDPOINT=${PET_RDZV_ENDPOINT:-$MASTER_ADDR:$MASTER_PORT}; "
                "test $PET_NODE_RANK = 0 && host=1 || host=0; export PET_RDZV_CONF=${PET_RDZV_CONF:-is_host=$host}; " + line)
        job = self.job_file(name, strategy="torch", workers=2, resources={"cpus": 0.9}, command=["sh", "-c", line])
        return self.on_kubernetes("run", job, code=0, timeout=180).out

    def sums(self, name, line, world):
        """That every process printed the same sum."""
        out = self.torchrun(name, line)
        self.assertEqual(out.count(f"sum {world * (world + 1) // 2} of {world}"), world, out)

    def test_torchrun_with_a_rendezvous_by_variables(self):
        line = ("torchrun --nnodes ${PET_NNODES} --nproc_per_node ${PET_NPROC_PER_NODE} --rdzv_id ${PET_RDZV_ID} "
                "--rdzv_backend ${PET_RDZV_BACKEND} --rdzv_endpoint ${PET_RDZV_ENDPOINT} program.py")
        self.sums("variables", line, 2)
        self.sums("several", line.replace("${PET_NPROC_PER_NODE}", "2"), 4)

    def test_torchrun_with_c10d_at_the_first_task(self):
        line = "torchrun --nnodes 2 --nproc_per_node {} --rdzv_backend c10d --rdzv_endpoint $MASTER_ADDR:$MASTER_PORT program.py"
        self.sums("one", line.format(1), 2)
        self.sums("two", line.format(2), 4)


harness.main()
