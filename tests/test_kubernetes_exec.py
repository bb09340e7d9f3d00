"""The client's exec and attach, over WebSockets, on a real cluster."""
import subprocess

import harness
from kubernetes import OnKubernetes

PROBE = harness.BUILD / "tests/kube_probe"


class Exec(OnKubernetes, harness.Case):
    def pod(self, name, script, **fields):
        """A pod of one container, when it runs."""
        container = {"name": "main", "image": "dure.test/host:1", "imagePullPolicy": "Never", "command": ["sh", "-c", script],
                     "volumeMounts": [{"name": name, "mountPath": f"/{name}", "readOnly": True} for name in ("usr", "etc")], **fields}
        self.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": self.namespace},
                     "spec": {"restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 0,
                              "volumes": [{"name": name, "hostPath": {"path": f"/{name}"}} for name in ("usr", "etc")]}})
        harness.wait_until(lambda: self.phase(name) == "Running", 60, f"{name} runs")
        return name

    def phase(self, name):
        return self.kubectl("get", "pod", name, "-n", self.namespace, "-o", "jsonpath={.status.phase}")

    def probe(self, verb, pod, *words, container="main"):
        done = subprocess.run([PROBE, verb, self.namespace, pod, container, *words], env=self.env, capture_output=True,
                              text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def test_attach_gives_input_and_both_outputs_until_the_program_ends(self):
        # Where its input may be attached to again, containerd closes both outputs with the first that ends, and drops what is
        # left of the other; with one client it waits for both.
        self.pod("talk", 'read line; echo "heard $line"; echo "no more" >&2; exit 3', stdin=True, stdinOnce=True)
        self.assertEqual(self.probe("attach", "talk", "hello\n"), (0, "heard hello\n", "no more\n"))
        harness.wait_until(lambda: self.phase("talk") == "Failed", 30, "the program has ended")

    def test_attach_without_input_sees_what_is_printed_from_then_on(self):
        self.pod("speak", "for i in $(seq 40); do echo line $i; sleep 0.1; done")
        code, out, err = self.probe("attach", "speak")
        self.assertEqual((code, err), (0, ""))
        lines = out.splitlines()
        self.assertEqual(lines[-1], "line 40")
        self.assertEqual(lines, [f"line {number}" for number in range(41 - len(lines), 41)], "nothing is missing in between")

    def test_exec_tells_how_the_command_ended(self):
        self.pod("wait", "sleep 100")
        self.assertEqual(self.probe("exec", "wait", "sh", "-c", "echo out; echo err >&2; exit 7"), (7, "out\n", "err\n"))

    def test_what_cannot_be_attached_to_is_told_in_one_sentence(self):
        code, out, err = self.probe("attach", "nobody")
        self.assertEqual((code, out), (125, ""))
        self.assertIn('pods "nobody" not found', err)
        self.assertEqual(len(err.splitlines()), 1, err)
        self.pod("wait", "sleep 100")
        code, out, err = self.probe("attach", "wait", container="other")
        self.assertEqual((code, out), (125, ""))
        self.assertIn("container other is not valid for pod wait", err)


harness.main()
