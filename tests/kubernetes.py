"""For tests on a Kubernetes: the one of tools/cluster, or the one that DURE_TEST_KUBECONFIG names."""
import json
import os
import pathlib
import subprocess
import uuid

import harness

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLUSTER = ROOT / "tools/cluster"


def find_kubeconfig():
    named = os.environ.get("DURE_TEST_KUBECONFIG")
    if named:
        return named
    if subprocess.run([CLUSTER, "status"], capture_output=True).returncode != 0:
        raise AssertionError("there is no cluster to test on: tools/cluster up, or set DURE_TEST_KUBECONFIG")
    return harness.run_text([CLUSTER, "env"]).strip().removeprefix("export KUBECONFIG=").strip("'\"")


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

    def kubectl(self, *words, stdin=None):
        """As the administrator."""
        done = subprocess.run([CLUSTER, "kubectl", *words], input=stdin, capture_output=True, text=True, timeout=120,
                              env={**os.environ, "KUBECONFIG": self.kubeconfig})
        self.assertEqual(done.returncode, 0, f"kubectl {' '.join(words)}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def create(self, *objects):
        self.kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List",
                                                            "items": list(objects)}))

    def limited_user(self, rules):
        """A kubeconfig of an account that may do only this, in the test's namespace."""
        name = "limited"
        here = {"name": name, "namespace": self.namespace}
        group = "rbac.authorization.k8s.io"
        self.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": here},
                    {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": here, "rules": rules},
                    {"apiVersion": f"{group}/v1", "kind": "RoleBinding", "metadata": here,
                     "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
                     "subjects": [{"kind": "ServiceAccount", **here}]})
        secret = harness.wait_until(self.token_secret, 20, "the account has a token")
        config = json.loads(self.kubectl("config", "view", "--raw", "-o", "json"))
        config["users"] = [{"name": name, "user": {"token": secret}}]
        cluster = config["clusters"][0]["name"]
        config["contexts"] = [{"name": name, "context": {"cluster": cluster, "user": name,
                                                         "namespace": self.namespace}}]
        config["current-context"] = name
        return str(self.write("limited.kubeconfig", json.dumps(config)))

    def token_secret(self):
        secrets = json.loads(self.kubectl("get", "secrets", "-n", self.namespace, "-o", "json"))["items"]
        for secret in secrets:
            if secret["metadata"].get("annotations", {}).get("kubernetes.io/service-account.name") == "limited":
                return harness.run_text(["base64", "-d"], input=secret["data"]["token"])
        return None
