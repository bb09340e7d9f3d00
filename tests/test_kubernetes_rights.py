"""Namespaces as administrators make them: stock roles, the least roles, quotas, default limits, registries with a key."""
import json
import pathlib
import re

import yaml

import harness
from kubernetes import OnKubernetes, RunsOnKubernetes

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs/kubernetes.md"


def documented_roles():
    """What docs/kubernetes.md has in "Who may run jobs": for users, for an account, for users of that account."""
    section = DOCS.read_text().split("## Who may run jobs\n")[1].split("\n## ")[0]
    return [list(yaml.safe_load_all(block)) for block in re.findall(r"```yaml\n(.*?)```", section, re.S)]


class Rights(RunsOnKubernetes, OnKubernetes, harness.Case):
    def create_here(self, objects):
        self.create(*({**each, "metadata": {**each["metadata"], "namespace": self.namespace}} for each in objects))

    def become(self, name, kind, role):
        self.env["KUBECONFIG"] = self.user(name, kind, role)

    def account(self):
        """Makes the account that the documentation tells administrators to make."""
        objects = documented_roles()[1]
        for each in objects:
            for subject in each.get("subjects", []):
                subject["namespace"] = self.namespace
        self.create_here(objects)
        return {"account": "dure-manager"}

    def every_verb_works(self, **fields):
        """Runs jobs as the user that this is now."""
        self.make_claim()
        job = self.job_file("all", workers=2, command=["sh", "-c", "echo hello; echo it > out/it"], claim="models", **fields)
        done = self.on_kubernetes("run", job, code=0)
        self.assertEqual(self.lines_of(done.out, 1), ["hello"])
        self.assertNotIn("forbidden", done.err)
        self.assertEqual(self.status("all"), "succeeded")
        self.assertIn("succeeded", self.on_kubernetes("describe", "all", code=0).out)
        self.assertIn("[0] hello", self.on_kubernetes("logs", "all", code=0).out)
        self.on_kubernetes("fetch", "all", "out/it", self.dir / "it", code=0)
        self.assertEqual((self.dir / "it").read_text(), "it\n")
        self.on_kubernetes("rm", "all", code=0)
        long = self.job_file("long", workers=1, command=["sleep", "300"], **fields)
        self.on_kubernetes("run", long, "--detach", code=0)
        self.wait_until(lambda: self.status("long") == "running", "it runs")
        self.on_kubernetes("stop", "long", code=0)
        self.on_kubernetes("rm", "long", code=0)
        self.wait_until_nothing_is_left()

    def test_the_stock_admin_of_a_namespace_is_enough(self):
        self.become("owner", "ClusterRole", "admin")
        self.every_verb_works()

    def test_the_least_role_of_the_documentation_is_enough(self):
        self.create_here(documented_roles()[0])
        self.become("least", "Role", "dure-user")
        self.every_verb_works()

    def test_the_stock_edit_is_enough_with_an_account_that_was_made_before(self):
        self.become("editor", "ClusterRole", "edit")
        kubernetes = self.account()
        self.every_verb_works(kubernetes=kubernetes)
        refused = self.on_kubernetes("run", self.job_file("roleless", workers=1, command=["true"]), code=3)
        self.assertIn('cannot create resource "roles"', refused.err)
        self.wait_until_nothing_is_left()

    def test_the_least_role_of_users_of_an_account_is_enough(self):
        self.create_here(documented_roles()[2])
        self.become("least", "Role", "dure-user")
        kubernetes = self.account()
        self.on_kubernetes("run", self.job_file("first", workers=1, command=["true"], kubernetes=kubernetes), "--detach", code=0)
        self.wait_until(lambda: self.status("first") == "succeeded", "it succeeds")
        made = [item["kind"] for item in self.objects("serviceaccounts,roles,rolebindings", "app.kubernetes.io/managed-by=dure")]
        self.assertEqual(made, [], "the account is there already")
        self.on_kubernetes("rm", "first", code=0)
        self.every_verb_works(kubernetes=kubernetes)

    def test_an_account_or_a_secret_that_does_not_exist(self):
        job = self.job_file("nobody", workers=1, command=["true"], kubernetes={"account": "nobody"})
        done = self.on_kubernetes("run", job, code=2)
        self.assertIn(f"kubernetes.account: there is no service account nobody in namespace {self.namespace}", done.err)
        job = self.job_file("nokey", workers=1, command=["true"], kubernetes={"pull_secrets": ["key"]})
        done = self.on_kubernetes("run", job, code=2)
        self.assertIn(f"kubernetes.pull_secrets: there is no secret key in namespace {self.namespace}", done.err)
        # Who may not see accounts is told by the cluster.
        self.create_here(documented_roles()[2])
        self.become("least", "Role", "dure-user")
        done = self.on_kubernetes("run", self.job_file("unseen", workers=1, command=["true"], kubernetes={"account": "nobody"}), code=3)
        self.assertIn("the manager of unseen.1 cannot start", done.err)
        self.assertIn("nobody", done.err)
        self.wait_until_nothing_is_left()

    def test_gpus_cannot_be_split_by_an_account_that_does_not_see_nodes(self):
        job = self.job_file("blind", gpus=2, command=["true"], kubernetes=self.account())
        done = self.on_kubernetes("run", job, code=3)
        self.assertIn("gpus: how they are split is planned from all nodes, and the manager's account may not", done.err)

    def test_every_pod_fetches_its_image_with_the_secrets(self):
        self.make_claim()
        self.create_here([{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "registry"}, "type": "kubernetes.io/dockerconfigjson",
                           "stringData": {".dockerconfigjson": json.dumps({"auths": {}})}}])
        job = self.job_file("private", workers=1, command=["sh", "-c", "echo it > out/it"], claim="models",
                            kubernetes={"pull_secrets": ["registry"]})
        self.on_kubernetes("run", job, code=0)
        self.assertEqual({pod["metadata"]["labels"]["dure/part"]: pod["spec"].get("imagePullSecrets") for pod in self.pods()},
                         {"manager": [{"name": "registry"}], "task": [{"name": "registry"}]})
        fetching = self.start("fetch", "private", "out/it", self.dir / "it", "--on", "kubernetes", "-n", self.namespace)
        pod = self.wait_until(lambda: self.pods("dure/part=fetch"), "a pod looks into the volume")[0]
        self.assertEqual(pod["spec"].get("imagePullSecrets"), [{"name": "registry"}])
        self.assertEqual(fetching.wait(60).code, 0)

    def quota(self, **hard):
        self.create_here([{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "quota"}, "spec": {"hard": hard}}])
        self.wait_until(lambda: self.objects("resourcequotas")[0].get("status", {}).get("hard"), "the quota is in force")

    def test_a_quota_on_limits(self):
        self.quota(**{"limits.cpu": "4", "limits.memory": "2Gi", "requests.cpu": "2", "requests.memory": "2Gi"})
        fields = {"resources": {"cpus": 0.1, "memory": "128Mi", "limits": {"cpus": 0.5}}}
        self.every_verb_works(**fields)
        self.on_kubernetes("run", self.job_file("many", strategy="mpi", workers=1, command=["true"], **fields), code=0, timeout=180)
        done = self.on_kubernetes("run", self.job_file("nothing", workers=1, command=["true"]), code=3)
        self.assertIn("must specify limits.cpu", done.err)

    def test_limits_that_containers_have_by_default(self):
        self.create_here([{"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "little"},
                           "spec": {"limits": [{"type": "Container", "default": {"memory": "64Mi"}}]}}])
        job = self.job_file("large", workers=1, resources={"memory": "256Mi"}, command=["dd", "if=/dev/zero", "of=/dev/shm/x", "bs=1M", "count=128"])
        self.on_kubernetes("run", job, code=0)
        self.create_here([{"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "most"},
                           "spec": {"limits": [{"type": "Container", "max": {"memory": "640Mi"}}]}}])
        done = self.on_kubernetes("run", self.job_file("larger", workers=1, resources={"memory": "1Gi"}, command=["true"]), code=3)
        self.assertIn("maximum memory usage per Container is 640Mi", done.err)


harness.main()
