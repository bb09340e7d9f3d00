"""A gang without a place asks the cluster's autoscaler for nodes; here the test plays the autoscaler."""
import json

import harness
from kubernetes import OnKubernetes, RunsOnKubernetes


class Autoscale(RunsOnKubernetes, OnKubernetes, harness.Case):
    def setUp(self):
        super().setUp()
        # As if it were not there yet: nothing is scheduled to it until the autoscaler has added it.
        self.kubectl("cordon", "node-2")
        self.addCleanup(self.kubectl, "uncordon", "node-2")

    def asking(self):
        return self.pods("dure/part=scale-up")

    def unschedulable(self):
        """What a cluster autoscaler looks for."""
        return [pod["metadata"]["name"] for pod in self.asking()
                if any(condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable"
                       for condition in pod["status"].get("conditions", []))]

    def wide(self, name, **fields):
        """Two tasks that one node cannot hold."""
        cpus = min(int(node["status"]["allocatable"]["cpu"]) for node in json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"])
        return self.job_file(name, command=["sh", "-c", "echo on $DURE_RANK; sleep 1"], workers=2, autoscale=True,
                             resources={"cpus": cpus * 0.55}, **fields)

    def test_a_node_is_added_for_pods_that_cannot_be_scheduled(self):
        running = self.start("run", self.wide("grows"), "--on", "kubernetes", "-n", self.namespace)
        self.wait_until(self.unschedulable, "pods that no node has room for", 60)
        self.assertEqual(self.tasks_of("grows"), [], "nothing of the gang is created")
        self.assertIn("asks for nodes with 2 pods", self.on_kubernetes("describe", "grows", code=0).out)
        # What the autoscaler does.
        self.kubectl("uncordon", "node-2")
        done = running.wait(120)
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(sorted(line.split("] ")[1] for line in done.out.splitlines()), ["on 0", "on 1"])
        tasks = self.objects("pods", "dure/job=grows,dure/part=task")
        self.assertEqual({pod["spec"]["nodeName"] for pod in tasks}, {"node-1", "node-2"})
        for pod in tasks:
            self.assertEqual(pod["metadata"]["annotations"]["cluster-autoscaler.kubernetes.io/safe-to-evict"], "false")
        self.assertEqual(self.asking(), [])

    def test_when_no_node_comes_the_pods_are_withdrawn(self):
        self.on_kubernetes("run", self.wide("vain", timeouts={"autoscale": "6s"}), "--detach", code=0)
        self.wait_until(lambda: len(self.asking()) == 2, "it asks")
        self.wait_until(lambda: not self.asking(), "it asks in vain", 30)
        self.wait_until(lambda: "no node came within 6 s" in self.on_kubernetes("describe", "vain", code=0).out, "it says so", 30)
        self.assertEqual(self.status("vain"), "pending")
        self.wait_until(lambda: len(self.asking()) == 2, "it asks again", 30)
        self.on_kubernetes("stop", "vain", code=0)
        self.wait_until(lambda: not self.asking(), "they go with the run", 20)
        self.on_kubernetes("rm", "vain", code=0)
        self.wait_until_nothing_is_left()


harness.main()
