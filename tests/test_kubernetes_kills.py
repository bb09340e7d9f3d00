"""Pods, programs and managers are killed while they train: the model is that of a run that was never disturbed."""
import harness
from trained_on_kubernetes import TrainsOnKubernetes


class Kills(TrainsOnKubernetes, harness.Case):
    def test_pods_programs_and_managers_that_are_killed(self):
        expected = self.undisturbed()

        running = self.begin("pod")
        self.kubectl("delete", "pod", "pod-1-worker-1-g1", "-n", self.namespace, "--wait=false")
        done = self.ended_well(running, "pod", expected)
        self.assertIn("worker-1", done.err)

        # Otherwise the manager deletes the pods of earlier generations after the run has ended well.
        running = self.begin("inside", clean="none")
        self.kubectl("exec", "-n", self.namespace, "inside-1-worker-0-g1", "-c", "worker-0", "--", "sh", "-c",
                     "kill -9 $(pidof dure-trainer)")
        done = self.ended_well(running, "inside", expected)
        self.assertIn("rank 0 (worker-0) was killed by SIGKILL", done.err)
        ended = self.objects("pods", "dure/job=inside,dure/generation=1,dure/task=worker-0")
        self.assertEqual([pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] for pod in ended], [137],
                         done.err)

        running = self.begin("manager")
        manager = self.pods("dure/job=manager,dure/part=manager")[0]["metadata"]["name"]
        self.kubectl("delete", "pod", manager, "-n", self.namespace, "--grace-period=0", "--force")
        self.ended_well(running, "manager", expected)
        self.assertTrue(self.events_of("manager", "resumed"))


harness.main()
