"""The manager of a run on the cluster: its Job ends as the run did, whenever the manager is killed."""
import os
import pathlib
import signal

import harness
from kubernetes import OnKubernetes, RunsOnKubernetes


class ManagersJob(RunsOnKubernetes, OnKubernetes, harness.Case):
    def managers(self, job):
        """Exit codes of its manager's containers, or nothing while they run; the oldest first."""
        pods = sorted(self.objects("pods", f"dure/job={job},dure/part=manager"),
                      key=lambda pod: pod["metadata"]["creationTimestamp"])
        return [pod["status"].get("containerStatuses", [{}])[0].get("state", {}).get("terminated", {}).get("exitCode")
                for pod in pods]

    def kill_manager(self):
        """With SIGKILL, as the kernel does when memory is short."""
        for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
            except OSError:
                continue
            if words[:2] == [b"dure", b"coordinate"] and self.namespace.encode() in words:
                return os.kill(int(entry.parent.name), signal.SIGKILL)
        self.fail("there is no manager to kill")

    def ends(self, job, how):
        other = {"Complete": "Failed", "Failed": "Complete"}[how]
        self.wait_until(lambda: self.manager_done(f"{job}-1", how) or self.manager_done(f"{job}-1", other), "its Job ends")
        self.assertTrue(self.manager_done(f"{job}-1", how), self.kubectl("get", "jobs", "-n", self.namespace))
        # It stays so, and nothing was run again.
        self.assertEqual([event["generation"] for event in self.events_of(job, "starting")], [1])
        self.assertEqual(len(self.events_of(job, "finished")), 1)

    def test_a_run_that_failed_is_a_job_that_failed(self):
        job = self.job_file("bad", workers=2, restarts={"limit": 0}, command=["sh", "-c", "exit $DURE_RANK"])
        done = self.on_kubernetes("run", job, code=1)
        self.assertIn("bad.1 failed: rank 1 (worker-1) exited with 1", done.err)
        self.ends("bad", "Failed")
        self.assertEqual(self.managers("bad"), [1])
        self.assertIn("exited with 1", self.kubectl("logs", "job/bad-1", "-n", self.namespace))
        self.assertEqual(self.status("bad"), "failed")
        self.assertIn("exited with 1", self.on_kubernetes("describe", "bad", code=0).out)
        self.assertEqual(self.on_kubernetes("stop", "bad", code=0).out, "bad.1 is not running: failed\n")
        # The next run of that name is one of its own.
        self.on_kubernetes("run", job, code=1)
        self.on_kubernetes("rm", "bad.1", "bad.2", code=0)
        self.assertEqual(self.left_over(), [])

    def test_a_run_that_was_stopped_is_not_complete(self):
        self.on_kubernetes("run", self.job_file("long", workers=1, command=["sleep", "300"]), "--detach", code=0)
        self.wait_until(lambda: self.status("long") == "running", "it runs")
        self.on_kubernetes("stop", "long", code=0)
        self.ends("long", "Failed")
        self.assertEqual(self.status("long"), "stopped")

    def test_a_manager_that_is_killed_after_the_end_of_its_run_changes_nothing(self):
        for name, code, status, how, exits in (("good", 0, "succeeded", "Complete", [137, 0]), ("bad", 7, "failed", "Failed", [137, 1])):
            job = self.job_file(name, workers=2, restarts={"limit": 0}, command=["sh", "-c", f"echo words; exit {code}"])
            self.on_kubernetes("run", job, "--detach", code=0)
            self.wait_until(lambda: self.status(name) == status, f"it has {status}")
            self.kill_manager()
            self.ends(name, how)
            self.assertEqual(self.managers(name), exits)
            self.assertEqual(self.status(name), status)
            self.assertEqual(self.kubectl("logs", "-n", self.namespace, f"{name}-1-worker-0-g1"), "words\n")
        self.assertEqual([name for name in self.left_over() if name.startswith("dure:")], [], "rights that are left")

    def test_a_manager_that_was_killed_before_fails_with_its_run(self):
        job = self.job_file("twice", workers=1, restarts={"limit": 0}, command=["sh", "-c", "sleep 8; exit 3"])
        self.on_kubernetes("run", job, "--detach", code=0)
        self.wait_until(lambda: self.status("twice") == "running", "it runs")
        self.kill_manager()
        self.wait_until(lambda: self.manager_done("twice-1", "Failed"), "its Job fails")
        self.assertEqual(self.managers("twice"), [137, 1])
        self.assertEqual(self.status("twice"), "failed")


harness.main()
