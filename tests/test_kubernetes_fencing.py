"""No generation starts while something of the one before it may still run, whatever the cluster says of its pods."""
import contextlib
import json
import os
import signal

import harness
from kubernetes import OnKubernetes, RunsOnKubernetes, component


class Fencing(RunsOnKubernetes, OnKubernetes, harness.Case):
    def moments(self, directory, generation):
        """When each rank of a generation was seen to work, in nanoseconds."""
        return [int(line) for path in directory.glob(f"{generation}-*") for line in path.read_text().split("\n")[:-1]]

    def forced(self, name, before):
        """Runs a job whose second pod is deleted by force; the claim, when the run has ended."""
        claim = self.make_claim(name)
        # It does not end when it is asked to, and writes down that it works.
        program = ("trap '' TERM; i=0; while test $DURE_GENERATION = 1 || test $i -lt 20; do "
                   "date +%s%N >> out/$DURE_GENERATION-$DURE_RANK; i=$((i+1)); sleep 0.05; done")
        job = self.write(f"work/{name}.yaml", json.dumps({
            "name": name, "workers": 2, "resources": {"cpus": 0.9}, "timeouts": {"stop": "2s", "heartbeat": "6s"},
            "program": {"command": ["sh", "-c", program], "image": "dure.test/host:1", "pull": "Never"},
            "volumes": [{"path": "out", "claim": name},
                        *({"path": path, "host": path, "read_only": True} for path in ("/usr", "/etc"))]}))
        running = self.start("run", job, "--on", "kubernetes", "-n", self.namespace)
        self.wait_until(lambda: len(list(claim.glob("1-*"))) == 2, "both work")
        # If there is a choice, one that is not beside the manager: its node has the most room for the next generation.
        manager = self.pods(f"dure/job={name},dure/part=manager")[0]["spec"]["nodeName"]
        pod = sorted(self.pods(f"dure/job={name},dure/part=task"), key=lambda pod: pod["spec"]["nodeName"] == manager)[0]
        with before(pod["spec"]["nodeName"]):
            self.kubectl("delete", "pod", pod["metadata"]["name"], "-n", self.namespace, "--grace-period=0", "--force", "--wait=false")
            done = running.wait(120)
        self.assertEqual(done.code, 0, done.err)
        self.assertLess(max(self.moments(claim, 1)), min(self.moments(claim, 2)), "one generation ends before the next begins")
        return done

    def test_a_pod_that_is_deleted_by_force_is_not_taken_for_gone(self):
        done = self.forced("forced", lambda node: contextlib.nullcontext())
        self.assertRegex(done.err, r"rank \d \(worker-\d\) was lost in generation 1: its pod (is being|was) deleted")

    def test_a_pod_that_is_deleted_by_force_while_its_kubelet_is_away(self):
        @contextlib.contextmanager
        def stopped(node):
            kubelet = component(f"kubelet-{node}")
            os.kill(kubelet, signal.SIGSTOP)
            try:
                yield
            finally:
                os.kill(kubelet, signal.SIGCONT)
                self.nodes_come_back()
        self.forced("unseen", stopped)


harness.main()
