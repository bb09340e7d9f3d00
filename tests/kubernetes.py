"""For tests on a Kubernetes: the one of tools/cluster, or the one that DURE_TEST_KUBECONFIG names."""
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
import unittest
import uuid

import harness

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tools"))

from cluster_parts import settings  # noqa: E402

CLUSTER = ROOT / "tools/cluster"
BUILD_IMAGES = ROOT / "deploy/images/build"
DURE_IMAGE = "dure.test/dure:1"
TRAINER_IMAGE = "dure.test/trainer:1"
RBAC = "rbac.authorization.k8s.io"


def find_kubeconfig():
    named = os.environ.get("DURE_TEST_KUBECONFIG")
    if named:
        return named
    if subprocess.run([CLUSTER, "status"], capture_output=True).returncode != 0:
        raise AssertionError("there is no cluster to test on: tools/cluster up, or set DURE_TEST_KUBECONFIG")
    return harness.run_text([CLUSTER, "env"]).strip().removeprefix("export KUBECONFIG=").strip("'\"")


def import_images(which="all"):
    """Makes the images, with the programs as they are now, known to the nodes; quick if they are."""
    if os.environ.get("DURE_TEST_KUBECONFIG"):
        raise unittest.SkipTest("images can be brought to the nodes of tools/cluster only")
    return harness.run_text([BUILD_IMAGES, which, "--import", "--programs", harness.BUILD])


def component(name, inside=True):
    """The process of a part of the cluster, as the test's machine numbers it."""
    # What is written down is the process that entered the machine's namespaces; the program is its child.
    pid = int((settings.PROCESSES / name).read_text().split()[0])
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split() if inside else []
    return int(children[0]) if children else pid


class OnKubernetes:
    """For a harness.Case; it comes before the case among the bases. Each test has a namespace of its own."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kubeconfig = find_kubeconfig()

    def setUp(self):
        super().setUp()
        self.env["KUBECONFIG"] = self.kubeconfig
        self.namespace = f"dure-test-{uuid.uuid4().hex[:10]}"
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        self.addCleanup(self.kubectl, "delete", "namespace", self.namespace, "--wait=false")

    def nodes_come_back(self):
        """Whoever comes next finds the cluster as it was."""
        ready = 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}'
        self.wait_until(lambda: set(self.kubectl("get", "nodes", "-o", ready).split()) == {"True"}, "the nodes are back", 90)

    def kubectl(self, *words, stdin=None):
        """As the administrator."""
        done = subprocess.run([CLUSTER, "kubectl", *words], input=stdin, capture_output=True, text=True, timeout=120,
                              env={**os.environ, "KUBECONFIG": self.kubeconfig})
        self.assertEqual(done.returncode, 0, f"kubectl {' '.join(words)}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    @contextlib.contextmanager
    def watching(self, kind, labels):
        """The names of objects of the test's namespace, line by line, each within moments of its creation."""
        watch = subprocess.Popen([CLUSTER, "kubectl", "get", kind, "-n", self.namespace, "-l", labels, "--watch", "-o", "name"],
                                 stdout=subprocess.PIPE, text=True, env={**os.environ, "KUBECONFIG": self.kubeconfig})
        try:
            yield watch.stdout
        finally:
            watch.kill()
            watch.wait()
            watch.stdout.close()

    def create(self, *objects):
        self.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List",
                                                            "items": list(objects)}))

    def limited_user(self, rules):
        """A kubeconfig of an account that may do only this, in the test's namespace."""
        self.create({"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": {"name": "limited", "namespace": self.namespace},
                     "rules": rules})
        return self.user("limited", "Role", "limited")

    def user(self, name, kind, role):
        """A kubeconfig of a new account that has this Role or ClusterRole in the test's namespace."""
        here = {"name": name, "namespace": self.namespace}
        self.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": here},
                    {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", "metadata": here,
                     "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
                     "subjects": [{"kind": "ServiceAccount", **here}]})
        secret = harness.wait_until(lambda: self.token_of(name), 20, "the account has a token")
        config = json.loads(self.kubectl("config", "view", "--raw", "-o", "json"))
        config["users"] = [{"name": name, "user": {"token": secret}}]
        cluster = config["clusters"][0]["name"]
        config["contexts"] = [{"name": name, "context": {"cluster": cluster, "user": name,
                                                         "namespace": self.namespace}}]
        config["current-context"] = name
        return str(self.write(f"{name}.kubeconfig", json.dumps(config)))

    def token_of(self, account):
        secrets = json.loads(self.kubectl("get", "secrets", "-n", self.namespace, "-o", "json"))["items"]
        for secret in secrets:
            if secret["metadata"].get("annotations", {}).get("kubernetes.io/service-account.name") == account:
                return harness.run_text(["base64", "-d"], input=secret["data"]["token"])
        return None


class RunsOnKubernetes:
    """For runs of dure on the cluster; it comes before OnKubernetes among the bases."""
    images = "dure"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        import_images(cls.images)

    def setUp(self):
        super().setUp()
        self.env.update(DURE_IMAGE=DURE_IMAGE, DURE_TRAINER_IMAGE=TRAINER_IMAGE)

    def on_kubernetes(self, verb, *words, code=None, timeout=120, **options):
        return self.dure(verb, *words, "--on", "kubernetes", "-n", self.namespace, code=code, timeout=timeout, **options)

    def job_file(self, name, command=None, image="dure.test/host:1", volumes=True, claim=None, program=None, more=(), **fields):
        """A job whose programs find what this machine has in /usr. Its folder is `work`."""
        job = {"name": name, **fields}
        if command is not None:
            job["program"] = {"command": command, "pull": "Never", **({"image": image} if image else {}), **(program or {})}
        mounts = [{"path": path, "host": path, "read_only": True} for path in ("/usr", "/etc") if volumes]
        mounts += [{"path": "out", "claim": claim}] if claim else []
        mounts += more
        if mounts:
            job["volumes"] = job.get("volumes", []) + mounts
        return self.write(f"work/{name}.yaml", json.dumps(job))

    def make_claim(self, name="models"):
        """A claim on a directory of this machine that every node sees; its path."""
        directory = self.dir / f"claim-{name}"
        directory.mkdir()
        directory.chmod(0o777)
        volume = f"{self.namespace}-{name}"
        size = {"storage": "1Gi"}
        self.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
                     "spec": {"capacity": size, "accessModes": ["ReadWriteMany"], "storageClassName": volume,
                              "hostPath": {"path": str(directory)}}},
                    {"apiVersion": "v1", "kind": "PersistentVolumeClaim",
                     "metadata": {"name": name, "namespace": self.namespace},
                     "spec": {"accessModes": ["ReadWriteMany"], "storageClassName": volume,
                              "resources": {"requests": size}}})
        self.addCleanup(self.kubectl, "delete", "persistentvolume", volume, "--wait=false")
        return directory

    def hold_placement(self):
        """As if another manager were about to place its gang: nothing is placed meanwhile."""
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                 "metadata": {"name": "dure-placement", "namespace": "default"}, "spec": {"holderIdentity": "somebody"}}

        def taken():
            return subprocess.run([CLUSTER, "kubectl", "create", "-f", "-"], input=json.dumps(lease), text=True,
                                  capture_output=True, timeout=60).returncode == 0
        harness.wait_until(taken, 60, "the placement is ours")
        self.addCleanup(self.release_placement)

    def release_placement(self):
        if self.placement_holder() == "somebody":
            self.kubectl("delete", "lease", "dure-placement", "-n", "default", "--ignore-not-found")

    def placement_holder(self):
        return self.kubectl("get", "lease", "dure-placement", "-n", "default", "--ignore-not-found",
                            "-o", "jsonpath={.spec.holderIdentity}")

    def wait_until(self, condition, what, timeout=60):
        return harness.wait_until(condition, timeout, what)

    def objects(self, kinds, selector=None):
        words = ["-l", selector] if selector else []
        return json.loads(self.kubectl("get", kinds, "-n", self.namespace, "-o", "json", *words))["items"]

    def pods(self, selector=None):
        return [pod for pod in self.objects("pods", selector) if "deletionTimestamp" not in pod["metadata"]]

    def tasks_of(self, job, generation=None):
        selector = f"dure/job={job},dure/part=task" + (f",dure/generation={generation}" if generation else "")
        return sorted(pod["metadata"]["labels"]["dure/task"] for pod in self.pods(selector))

    def status(self, run):
        runs = json.loads(self.on_kubernetes("ps", "--json", code=0).out)
        return next((entry["status"] for entry in runs if run in (entry["name"], entry["id"])), None)

    def events_of(self, run, kind=None):
        events = json.loads(self.on_kubernetes("describe", run, "--json", code=0).out)["events"]
        return [event for event in events if kind in (None, event["event"])]

    def manager_done(self, job, how="Complete"):
        """Whether its Job has ended so: Complete or Failed."""
        job = json.loads(self.kubectl("get", "job", job, "-n", self.namespace, "-o", "json"))
        return how in [condition["type"] for condition in job["status"].get("conditions", []) if condition["status"] == "True"]

    def left_over(self):
        """What dure has made in this namespace, and for it, and is still there."""
        own = "app.kubernetes.io/managed-by=dure"
        names = [f"{item['kind']}/{item['metadata']['name']}" for item in self.objects(
            "pods,services,secrets,configmaps,serviceaccounts,roles,rolebindings,jobs", own)]
        everywhere = json.loads(self.kubectl("get", "clusterroles,clusterrolebindings", "-l", own, "-o", "json"))["items"]
        return names + [item["metadata"]["name"] for item in everywhere if f":{self.namespace}:" in item["metadata"]["name"]]

    def wait_until_nothing_is_left(self, timeout=180):
        """The cluster's garbage collector goes from owner to owner, and pods have their time to end."""
        deadline = time.monotonic() + timeout
        while left := self.left_over():
            self.assertLess(time.monotonic(), deadline, f"still there after {timeout} s: {left}")
            time.sleep(0.5)

    @staticmethod
    def lines_of(output, rank):
        return [line.split("] ", 1)[1] for line in output.splitlines() if line.startswith(f"[{rank}] ")]
