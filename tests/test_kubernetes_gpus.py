"""Jobs on GPUs of the cluster: how they are split, waited for, and never half given."""
import json
import time

import harness
from kubernetes import OnKubernetes, ROOT, RunsOnKubernetes

GPU = "nvidia.com/gpu"


class Gpus(RunsOnKubernetes, OnKubernetes, harness.Case):
    def free(self, gpus):
        return self.dure("plan", "--on", "kubernetes", "--gpus", gpus).code == 0

    def held(self, selector):
        """GPUs of unfinished pods, by node."""
        held = {}
        for pod in self.objects("pods", selector):
            if pod["status"].get("phase") in ("Succeeded", "Failed"):
                continue
            node = pod["spec"].get("nodeName", "")
            count = int(pod["spec"]["containers"][0]["resources"].get("limits", {}).get(GPU, 0))
            held[node] = held.get(node, 0) + count
        return held

    def test_six_gpus_on_five_and_three(self):
        job = self.job_file("six", gpus=6, command=["sh", "-c", "echo $DURE_RANK of $DURE_WORLD_SIZE; sleep 4"])
        printed = json.loads(self.on_kubernetes("env", job, "--json", code=0).out)
        self.assertEqual([entry["task"] for entry in printed], ["worker-0"] + ["worker-1"] * 5)
        running = self.start("run", job, "--on", "kubernetes", "-n", self.namespace)
        self.wait_until(lambda: self.held("dure/job=six,dure/part=task") == {"node-1": 5, "node-2": 1},
                        "five on one node and one on the other")
        chief = self.objects("pods", "dure/job=six,dure/task=worker-0")[0]
        self.assertEqual(chief["spec"]["nodeName"], "node-2", "the chief takes the smallest share")
        self.wait_until(lambda: self.status("six") == "running", "it runs")
        described = self.on_kubernetes("describe", "six", code=0).out
        self.assertIn("plain, 2 workers, 5 and 1 processes", described)
        self.assertRegex(described, r"RANK +TASK +STATE +NODE +AGENT\n")
        self.assertRegex(described, r"0 +worker-0 +running +node-2 ")
        self.assertRegex(described, r"5 +worker-1 +running +node-1 ")
        done = running.wait(90)
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(sorted(line.split("] ")[1] for line in done.out.splitlines()),
                         [f"{rank} of 6" for rank in range(6)])
        self.wait_until(lambda: self.free(8), "all GPUs are free again")

    def test_nine_gpus_wait_until_there_is_a_node_for_them(self):
        job = self.job_file("nine", gpus=9, command=["sleep", "60"])
        self.on_kubernetes("run", job, "--detach", code=0)
        self.wait_until(lambda: self.status("nine") == "pending", "it waits")
        described = self.on_kubernetes("describe", "nine", code=0).out
        self.assertIn("waiting for 9 GPUs: node-1 has 5 free, node-2 3", described)
        self.assertEqual(self.tasks_of("nine"), [], "nothing of the gang is created")
        node = f"more-{self.namespace[-6:]}"
        harness.run_text([ROOT / "tools/cluster", "node", "add", node, "--gpus", "2", "--untainted"])
        self.addCleanup(self.kubectl, "delete", "node", node, "--ignore-not-found")
        # Looked at once: a pod on a node that is only an object ends a second after it began.
        held = {}

        def starts():
            held.clear()
            held.update(self.held("dure/job=nine,dure/part=task"))
            return sum(held.values()) == 9
        self.wait_until(starts, "it starts by itself")
        self.assertIn(held, ({"node-1": 5, "node-2": 3, node: 1}, {"node-1": 5, "node-2": 2, node: 2}))
        self.on_kubernetes("rm", "--force", "nine", code=0)

    def test_two_gangs_of_five_on_eight_are_never_half_of_each(self):
        jobs = [self.job_file(name, workers=5, resources={"gpus": 1}, command=["sleep", "3"]) for name in ("left", "right")]
        runs = [self.start("run", job, "--on", "kubernetes", "-n", self.namespace) for job in jobs]
        seen = set()
        while any(run.process.poll() is None for run in runs):
            counts = {"left": 0, "right": 0}
            for pod in self.objects("pods", "dure/part=task"):
                if pod["status"].get("phase") not in ("Succeeded", "Failed"):
                    counts[pod["metadata"]["labels"]["dure/job"]] += 1
            seen |= {name for name, count in counts.items() if count == 5}
            self.assertLessEqual(sum(counts.values()), 8, counts)
            begun = {name for name, count in counts.items() if count > 0}
            self.assertLessEqual(len(begun - seen), 1, f"half of each: {counts}")
            time.sleep(0.1)
        for run in runs:
            done = run.wait(1)
            self.assertEqual(done.code, 0, done.err)
        self.assertEqual(seen, {"left", "right"})
        self.assertIn("waiting for 5 tasks", "".join(run.err for run in runs))

    def test_without_the_right_to_see_nodes(self):
        mine = ["get", "list", "watch", "create", "delete", "patch"]
        config = self.limited_user([
            {"apiGroups": [""], "resources": ["pods", "configmaps", "secrets", "services", "serviceaccounts", "events",
                                              "pods/log", "persistentvolumeclaims"], "verbs": mine},
            {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": mine},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": mine},
            {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": mine}])
        limited = {"KUBECONFIG": config}
        job = self.job_file("alone", workers=2, command=["echo", "here"])
        done = self.on_kubernetes("run", job, env=limited, code=0)
        self.assertEqual(sorted(done.out.splitlines()), ["[0] here", "[1] here"])
        refused = self.on_kubernetes("run", self.job_file("split", gpus=6, command=["true"]), env=limited, code=3)
        self.assertIn("you may not list nodes of the whole cluster", refused.err)
        self.assertEqual(len(refused.err.strip().splitlines()), 1, refused.err)


harness.main()
