"""dure plan: what a person and a script see of a placement, and of one that is not possible."""
import datetime
import json

import harness

PROGRAM = "program: {command: [a]}\n"


def node(name, gpus, labels=None, ready=True, taints=()):
    return {"kind": "Node", "metadata": {"name": name, "labels": labels or {}},
            "spec": {"taints": list(taints)},
            "status": {"allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(gpus)},
                       "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]}}


def pod(name, on, gpus, job=None, phase="Running"):
    return {"kind": "Pod", "metadata": {"name": name, "labels": {"dure/job": job} if job else {}},
            "spec": {"nodeName": on, "containers": [{"resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}]},
            "status": {"phase": phase}}


class Plan(harness.Case):
    def shares(self, *arguments):
        plan = self.json("plan", *arguments)
        self.assertTrue(plan["fits"])
        return [(entry["node"], entry["gpus"]) for entry in plan["nodes"]]

    def inventory(self, *objects):
        return str(self.write("nodes.json", json.dumps({"kind": "List", "items": objects})))

    def test_gpus_are_split(self):
        self.assertEqual(self.shares("--free", "5,3,2", "--gpus", "6"), [("node-1", 5), ("node-3", 1)])
        self.assertEqual(self.shares("--free", "5,3,2", "--gpus", "6", "--even"), [("node-2", 3), ("node-1", 3)])
        self.assertEqual(self.shares("--free", "5,3,2", "--gpus", "3"), [("node-2", 3)])
        plan = self.json("plan", "--free", "5,3,2", "--gpus", "6", "--strategy", "torch")
        self.assertEqual([entry["tasks"] for entry in plan["nodes"]], [["worker-1"], ["worker-0"]])
        self.assertEqual((plan["workers"], plan["gpus_left"]), (2, 1))

    def test_a_table_for_people(self):
        text = self.dure("plan", "--free", "5,3,2", "--gpus", "6", code=0).out
        self.assertIn("2 tasks with 6 GPUs on 2 nodes; 1 GPU left over there", text)
        self.assertRegex(text, r"node-1 +5 of 5 +■■■■■ +worker-1\n")
        self.assertRegex(text, r"node-3 +1 of 2 +■□ +worker-0\n")

    def test_what_does_not_fit(self):
        done = self.dure("plan", "--free", "3,1", "--gpus", "6", code=1)
        self.assertEqual(done.err, "does not fit: 6 GPUs wanted, 4 free: node-1 3, node-2 1; missing: 2 GPUs; "
                                   "the largest that fits: 4\n")
        answer = json.loads(self.dure("plan", "--free", "3,1", "--gpus", "6", "--json", code=1).out)
        self.assertEqual((answer["fits"], answer["nodes"], answer["largest"]), (False, [], 4))

    def test_a_strange_pod_costs_its_node_and_not_the_plan(self):
        for memory in ("10P", "1e400", "9E", "lots", -1, {}, None):
            strange = pod("strange", "node-1", 0)
            strange["spec"]["containers"][0]["resources"]["requests"] = {"memory": memory}
            job = self.job("gpus: 2\nresources: {memory: 1Gi}\n" + PROGRAM)
            nodes = self.inventory(node("node-1", 2), node("node-2", 4), strange)
            self.assertEqual(self.shares(job, "--inventory", nodes), [("node-2", 2)], memory)

    def test_an_annotation_is_believed_of_young_pods_of_dure(self):
        now = datetime.datetime.now(datetime.timezone.utc)

        def planned(labels, age=10, **metadata):
            pending = pod("planned", "", 2, phase="Pending")
            created = (now - datetime.timedelta(seconds=age)).strftime("%Y-%m-%dT%H:%M:%SZ")
            pending["metadata"].update(labels=labels, annotations={"dure/node": "node-1"}, creationTimestamp=created, **metadata)
            return self.shares("--inventory", self.inventory(node("node-1", 2), node("node-2", 4), pending), "--gpus", "2")
        ours = {"app.kubernetes.io/managed-by": "dure", "dure/job": "a"}
        self.assertEqual(planned(ours), [("node-2", 2)])
        self.assertEqual(planned(ours, age=3600), [("node-1", 2)])
        self.assertEqual(planned({}), [("node-1", 2)])
        self.assertEqual(planned({"dure/job": "a"}), [("node-1", 2)])
        self.assertEqual(planned(ours, deletionTimestamp="2026-01-01T00:00:00Z"), [("node-1", 2)])

    def test_a_job_file(self):
        job = self.job("name: a\nstrategy: tensorflow\nworkers: {min: 1, max: 9}\nroles: {chief: 1, ps: 1}\n"
                       "resources: {gpus: 2}\n" + PROGRAM)
        plan = self.json("plan", job, "--free", "5,4")
        self.assertEqual([(n["node"], n["gpus"], n["tasks"]) for n in plan["nodes"]],
                         [("node-2", 4, ["worker-1", "ps-0"]), ("node-1", 4, ["chief-0", "worker-0"])])
        done = self.dure("plan", job, "--free", "4,1", code=1)
        self.assertIn("3 tasks of 2 GPUs wanted, 2 fit", done.err)
        job = self.job("gpus: 6\neven: true\n" + PROGRAM)
        self.assertEqual(self.shares(job, "--free", "4,4,2,2"), [("node-1", 3), ("node-2", 3)])

    def test_this_machine(self):
        job = self.job("workers: 2\nresources: {cpus: 0.25, memory: 1Mi}\n" + PROGRAM)
        plan = self.json("plan", job)
        self.assertEqual([entry["tasks"] for entry in plan["nodes"]], [["worker-0", "worker-1"]])
        self.assertIn("CPUs", self.dure("plan", job, "--set", "resources.cpus=100000", code=1).err)

    def test_the_nodes_of_a_cluster(self):
        rack = lambda name: {"topology.kubernetes.io/rack": name}
        path = self.inventory(
            node("a", 8, rack("r1")), node("b", 8, rack("r2")), node("c", 8, rack("r2")), node("d", 8, ready=False),
            node("e", 8, taints=[{"key": "infra", "value": "x", "effect": "NoSchedule"}]),
            pod("p", "a", 4, job="earlier"), pod("q", "b", 8, phase="Succeeded"))
        self.assertEqual(self.shares("--inventory", path, "--gpus", "16"), [("b", 8), ("c", 8)])
        self.assertEqual(self.shares("--inventory", path, "--gpus", "4"), [("a", 4)])
        job = self.job("gpus: 24\nnodes: {tolerations: [{key: infra, operator: Exists}]}\n" + PROGRAM)
        self.assertEqual(self.shares(job, "--inventory", path), [("b", 8), ("c", 8), ("e", 8)])
        self.assertIn("nodes not used: not ready 1, taint infra=x:NoSchedule 1",
                      self.dure("plan", "--inventory", path, "--gpus", "99", code=1).err)
        self.assertIn("r2", self.dure("plan", "--inventory", path, "--gpus", "16", code=0).out)
        job = self.job("gpus: 8\n" + PROGRAM)
        self.assertEqual(self.shares(job, "--inventory", path, "--set",
                                     "nodes.selector.topology.kubernetes.io/rack=r2"), [("b", 8)])

    def test_mistakes(self):
        broken = str(self.write("broken.json", "{}"))
        for arguments, words in (
                ([], "nothing to plan"),
                (["--gpus", "6", "--free", "5,x"], '--free: must be the free GPUs of each node, such as 5,3,2'),
                (["--gpus", "6", "--free", "5,-1"], "--free"),
                (["--gpus", "many", "--free", "5"], "--gpus"),
                (["--gpus", "6", "--workers", "2", "--free", "5"], "give either gpus or workers"),
                (["--even", "--workers", "2", "--free", "5"], "give gpus"),
                (["--gpus", "6", "--inventory", "absent.json"], "absent.json"),
                (["--gpus", "6", "--inventory", broken], "is no list of nodes"),
                (["--gpus", "6", "--inventory", broken, "--free", "5"], "--free"),
                (["absent.yaml"], "absent.yaml")):
            self.assertIn(words, self.dure("plan", *arguments, code=2).err, arguments)
        for text, words in (
                ("even: true\n", "job.yaml:1:1: even: says how gpus are split"),
                ("gpus: 2\nroles: {ps: 1}\n", "roles.ps: has no share of gpus"),
                ("nodes: {affinity: [{key: a}]}\n", "needs values"),
                ("nodes: {affinity: [{key: a, operator: Gt, values: [x]}]}\n", "a whole number"),
                ("nodes: {affinity: [{key: a, operator: Is}]}\n", 'must be In, NotIn, Exists'),
                ("nodes: {tolerations: [{value: a}]}\n", "needs a key, or the operator Exists"),
                ("nodes: {selector: {-a: b}}\n", "must be the key of a label"),
                ("nodes: {selektor: {a: b}}\n", 'did you mean "nodes.selector"?')):
            job = self.job(text + PROGRAM)
            self.assertIn(words, self.dure("check", job, code=2).err, text)


harness.main()
