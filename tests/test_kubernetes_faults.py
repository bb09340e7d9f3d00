"""The API server or a kubelet is away while a job runs: it goes on, and its model is that of an undisturbed run."""
import json
import os
import signal
import time

import harness
from kubernetes import component
from trained_on_kubernetes import TrainsOnKubernetes

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


class Faults(TrainsOnKubernetes, harness.Case):
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
