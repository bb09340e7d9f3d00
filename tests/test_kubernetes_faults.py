"""Whatever is killed on the cluster, training goes on, and its model is that of a run that was never disturbed."""
import json
import os
import pathlib
import signal
import time

import harness
from kubernetes import OnKubernetes, RunsOnKubernetes

CACHE = pathlib.Path(os.environ.get("DURE_CACHE", pathlib.Path.home() / ".cache/dure"))


def component(name):
    """The process of a part of the cluster."""
    # What is written down is the process that entered the machine's namespaces; the program is its child.
    pid = int((CACHE / "cluster/processes" / name).read_text().split()[0])
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(children[0]) if children else pid


# Trains a little at each step and then waits, so that it lasts without keeping the machine busy.
PATIENT = """
import os, sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

pause, steps, out = float(sys.argv[1]), 600, sys.argv[2]
dist.init_process_group("gloo")
torch.manual_seed(1)
model = DistributedDataParallel(torch.nn.Linear(20, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
saved, first = f"{out}/state.pt", 0
if os.path.exists(saved):
    state = torch.load(saved)
    first = state["step"]
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
for step in range(first, steps):
    data = torch.randn(8, 20, generator=torch.Generator().manual_seed(step * 2 + dist.get_rank()))
    optimizer.zero_grad()
    model(data).square().mean().backward()
    optimizer.step()
    if step % 10 == 9 and dist.get_rank() == 0:
        torch.save({"step": step + 1, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, saved + ".new")
        os.replace(saved + ".new", saved)
    time.sleep(pause)
if dist.get_rank() == 0:
    with open(f"{out}/weights", "wb") as file:
        for value in model.state_dict().values():
            file.write(value.numpy().tobytes())
"""


class Faults(RunsOnKubernetes, OnKubernetes, harness.Case):
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

    def nodes_come_back(self):
        """Whoever comes next finds the cluster as it was."""
        ready = 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}'
        self.wait_until(lambda: set(self.kubectl("get", "nodes", "-o", ready).split()) == {"True"}, "the nodes are back", 90)

    def model(self, name):
        return (self.dir / f"claim-{name}" / "model.safetensors").read_bytes()

    def begin(self, name):
        running = self.start("run", self.training(name), "--on", "kubernetes", "-n", self.namespace)
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

    def test_pods_programs_and_managers_that_are_killed(self):
        expected = self.undisturbed()

        running = self.begin("pod")
        self.kubectl("delete", "pod", "pod-1-worker-1-g1", "-n", self.namespace, "--wait=false")
        done = self.ended_well(running, "pod", expected)
        self.assertIn("worker-1", done.err)

        running = self.begin("inside")
        self.kubectl("exec", "-n", self.namespace, "inside-1-worker-0-g1", "-c", "worker-0", "--", "sh", "-c",
                     "kill -9 $(pidof dure-trainer)")
        done = self.ended_well(running, "inside", expected)
        self.assertIn("rank 0 (worker-0) was killed by SIGKILL", done.err)
        ended = self.objects("pods", "dure/job=inside,dure/generation=1,dure/task=worker-0")
        self.assertEqual([pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] for pod in ended], [137])

        running = self.begin("manager")
        manager = self.pods("dure/job=manager,dure/part=manager")[0]["metadata"]["name"]
        self.kubectl("delete", "pod", manager, "-n", self.namespace, "--grace-period=0", "--force")
        self.ended_well(running, "manager", expected)
        self.assertTrue(self.events_of("manager", "resumed"))

    def test_the_api_server_is_away_for_half_a_minute(self):
        expected = self.undisturbed()
        running = self.begin("away")
        server = component("kube-apiserver")
        os.kill(server, signal.SIGSTOP)
        try:
            time.sleep(30)
        finally:
            os.kill(server, signal.SIGCONT)
        self.ended_well(running, "away", expected, generations=1)
        # It has not heard of them for half a minute.
        self.nodes_come_back()

    def test_a_manager_that_does_not_reach_the_api_server_for_too_long_ends_and_another_goes_on(self):
        job = self.write("work/alone.yaml", json.dumps({
            "name": "alone", "workers": 1, "timeouts": {"stop": "1s", "heartbeat": "5s"},
            "program": {"command": ["sh", "-c", "test $DURE_GENERATION -gt 1 || sleep 300"], "image": "dure.test/host:1", "pull": "Never"},
            "volumes": [{"path": path, "host": path, "read_only": True} for path in ("/usr", "/etc")]}))
        running = self.start("run", job, "--on", "kubernetes", "-n", self.namespace)
        self.wait_until(lambda: self.status("alone") == "running", "it runs")
        server = component("kube-apiserver")
        os.kill(server, signal.SIGSTOP)
        try:
            time.sleep(45)  # more than four heartbeats, and a while to notice
        finally:
            os.kill(server, signal.SIGCONT)
        done = running.wait(120)
        self.assertEqual(done.code, 0, done.err)
        self.assertTrue(self.events_of("alone", "resumed"), "another manager has taken it up")
        self.nodes_come_back()

    def test_a_node_whose_kubelet_is_stopped(self):
        self.write("work/patient.py", PATIENT)
        (self.dir / "here").mkdir()
        self.dure("run", "--workers", 2, "--strategy", "torch", "--", "python3", self.dir / "work/patient.py", 0,
                  self.dir / "here", code=0, timeout=120)
        there = self.make_claim("node")
        job = self.write("work/node.yaml", json.dumps({
            "name": "node", "strategy": "torch", "workers": 2, "resources": {"cpus": 0.9}, "timeouts": {"stop": "2s", "heartbeat": "15s"},
            "program": {"command": ["python3", "patient.py", "0.15", "out"], "image": "dure.test/host:1", "pull": "Never"},
            "volumes": [{"path": "out", "claim": "node"},
                        *({"path": path, "host": path, "read_only": True} for path in ("/usr", "/etc"))]}))
        running = self.start("run", job, "--on", "kubernetes", "-n", self.namespace)
        self.wait_until(lambda: (there / "state.pt").exists(), "a checkpoint is written", 120)
        node = self.pods("dure/job=node,dure/part=task")[0]["spec"]["nodeName"]
        kubelet = component(f"kubelet-{node}")
        os.kill(kubelet, signal.SIGSTOP)
        try:
            done = running.wait(300)
        finally:
            os.kill(kubelet, signal.SIGCONT)
            self.nodes_come_back()
        self.assertEqual(done.code, 0, done.err)
        self.assertGreaterEqual(len(self.events_of("node", "starting")), 2, done.err)
        self.assertEqual((there / "weights").read_bytes(), (self.dir / "here/weights").read_bytes())


harness.main()
