"""dure plan on a real cluster: what is free there, and what a user without the right to know is told."""
import json

import harness
from kubernetes import OnKubernetes

GPU = "nvidia.com/gpu"


class KubernetesPlan(OnKubernetes, harness.Case):
    def plan(self, *arguments, code=0, **options):
        done = self.dure("plan", "--on", "kubernetes", *arguments, "--json", code=code, **options)
        return json.loads(done.out) if done.out else done

    def free_gpus(self):
        nodes = json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]
        return {node["metadata"]["name"]: int(node["status"]["allocatable"].get(GPU, 0)) for node in nodes}

    def hold(self, node, gpus, name="holder"):
        """A pod that asks for GPUs of a node and does not end."""
        self.create({"apiVersion": "v1", "kind": "Pod",
                     "metadata": {"name": name, "namespace": self.namespace, "labels": {"dure/job": name}},
                     "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [{
                         "name": "main", "image": "dure.test/host:1", "imagePullPolicy": "Never",
                         "resources": {"limits": {GPU: str(gpus)}}}]}})

    def test_the_split_follows_what_is_free(self):
        self.assertEqual(self.free_gpus(), {"node-1": 5, "node-2": 3})
        shares = lambda plan: [(node["node"], node["gpus"]) for node in plan["nodes"]]
        self.assertEqual(shares(self.plan("--gpus", 6)), [("node-1", 5), ("node-2", 1)])
        self.assertEqual(shares(self.plan("--gpus", 3)), [("node-2", 3)])
        self.hold("node-1", 3)
        self.assertEqual(shares(self.plan("--gpus", 4)), [("node-2", 3), ("node-1", 1)])
        lacking = self.dure("plan", "--on", "kubernetes", "--gpus", 6, code=1)
        self.assertIn("held by job holder (3)", lacking.err)
        self.assertIn("node-1", lacking.err)
        self.kubectl("delete", "pod", "holder", "-n", self.namespace)
        self.assertEqual(shares(self.plan("--gpus", 6)), [("node-1", 5), ("node-2", 1)])

    def test_who_may_not_list_nodes_is_told_so(self):
        config = self.limited_user([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])
        done = self.dure("plan", "--on", "kubernetes", "--gpus", 2, env={"KUBECONFIG": config})
        self.assertEqual(done.code, 3, done.err)
        self.assertIn('cannot list resource "nodes"', done.err)
        self.assertEqual(len(done.err.strip().splitlines()), 1, done.err)

    def test_a_cluster_that_cannot_be_had_is_said_in_one_sentence(self):
        config = json.loads(self.kubectl("config", "view", "--raw", "-o", "json"))
        good = config["clusters"][0]["cluster"]["server"]
        gone = json.loads(json.dumps(config))
        gone["clusters"][0]["cluster"]["server"] = good.rsplit(":", 1)[0] + ":1"
        stranger = json.loads(json.dumps(config))
        stranger["users"][0]["user"] = {"token": "nobody"}
        distrusted = json.loads(json.dumps(config))
        distrusted["clusters"][0]["cluster"].pop("certificate-authority-data", None)
        distrusted["clusters"][0]["cluster"].pop("certificate-authority", None)
        for content, sentence in ((gone, "cannot reach the cluster at"), (stranger, "does not know this user"),
                                  (distrusted, "is not trusted")):
            path = self.write("other.kubeconfig", json.dumps(content))
            done = self.dure("plan", "--on", "kubernetes", "--gpus", 2, env={"KUBECONFIG": str(path)}, timeout=90)
            self.assertNotEqual(done.code, 0)
            self.assertIn(sentence, done.err)
            self.assertEqual(len(done.err.strip().splitlines()), 1, done.err)
        done = self.dure("plan", "--on", "kubernetes", "--gpus", 2, "--context", "nowhere", code=2)
        self.assertIn("there is no context nowhere", done.err)
        done = self.dure("plan", "--on", "kubernetes", "--gpus", 2, env={"KUBECONFIG": "/nowhere"}, code=2)
        self.assertIn("no cluster is known", done.err)


harness.main()
