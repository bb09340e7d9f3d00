"""dure run --on kubernetes on a real cluster: from the same job files as locally, and the same verbs afterwards."""
import json
import os
import signal

import harness
from kubernetes import OnKubernetes, RunsOnKubernetes


class KubernetesRun(RunsOnKubernetes, OnKubernetes, harness.Case):
    def test_ranks_see_their_folder_their_names_and_the_printed_environment(self):
        self.write("work/data.txt", "shipped\n")
        self.write("work/big.bin", "x" * 100_000)
        self.write("work/.dureignore", "big.bin\n")
        job = self.job_file("hello", workers=2, command=[
            "sh", "-c", "cat data.txt; ls; id -u; env | sort | sed 's/^/env /'; cat /proc/1/cmdline | tr '\\0' ' '"])
        expected = {entry["rank"]: entry["env"]
                    for entry in json.loads(self.on_kubernetes("env", job, "--json").out)}
        done = self.on_kubernetes("run", job, code=0)
        self.assertIn("hello.1 succeeded after", done.err)
        for rank in (0, 1):
            lines = self.lines_of(done.out, rank)
            self.assertIn("shipped", lines)
            self.assertIn("1000", lines)
            self.assertNotIn("big.bin", lines)
            seen = dict(line[4:].split("=", 1) for line in lines if line.startswith("env ") and "=" in line)
            self.assertEqual({name: seen.get(name) for name in expected[rank]}, expected[rank])
            self.assertFalse([name for name in seen if name.startswith("DURE_AGENT_")], "the secret is not for programs")

    def test_the_chief_is_kept_and_workers_are_deleted_unless_told_otherwise(self):
        for clean, kept in (("workers", ["worker-0"]), ("none", ["worker-0", "worker-1"]), ("all", [])):
            job = self.job_file(f"clean-{clean}", workers=2, command=["echo", "done"], clean=clean)
            self.on_kubernetes("run", job, code=0)
            self.wait_until(lambda: self.manager_done(f"clean-{clean}-1"), "the manager ends")
            self.wait_until(lambda: self.tasks_of(f"clean-{clean}") == kept, f"clean: {clean} leaves {kept}")
        logs = self.on_kubernetes("logs", "clean-none", code=0).out
        self.assertEqual(sorted(logs.split("\n")[:-1]), ["[0] done", "[1] done"])
        self.assertEqual(self.kubectl("logs", "-n", self.namespace, "clean-workers-1-worker-0-g1"), "done\n")

    def test_pods_are_as_the_restricted_profile_wants_them(self):
        job = self.job_file("profile", workers=1, command=["echo", "done"], clean="none", volumes=False)
        self.on_kubernetes("run", job, "--detach", code=0)
        self.wait_until(lambda: len(self.pods("dure/job=profile")) >= 2, "manager and worker have pods")
        for pod in self.pods("dure/job=profile"):
            spec = pod["spec"]
            security = spec["securityContext"]
            self.assertTrue(security["runAsNonRoot"])
            self.assertEqual(security["seccompProfile"], {"type": "RuntimeDefault"})
            self.assertLessEqual({key for volume in spec["volumes"] for key in volume if key != "name"},
                                 {"configMap", "emptyDir", "projected", "secret", "persistentVolumeClaim"})
            for container in spec["containers"] + spec.get("initContainers", []):
                own = container["securityContext"]
                self.assertIs(own["allowPrivilegeEscalation"], False)
                self.assertEqual(own["capabilities"]["drop"], ["ALL"])
                self.assertNotIn("add", own["capabilities"])
            for name in ("hostNetwork", "hostPID", "hostIPC"):
                self.assertFalse(spec.get(name))

    def test_a_failing_program_is_told_in_one_sentence_with_the_right_code(self):
        job = self.job_file("bad", workers=2, restarts={"limit": 0}, command=[
            "sh", "-c", 'if [ "$DURE_RANK" = 1 ]; then echo "Error: no data" >&2; exit 7; fi; sleep 100'])
        done = self.on_kubernetes("run", job, code=1)
        self.assertIn("bad.1 failed: rank 1 (worker-1) exited with 7 in generation 1", done.err)
        self.assertIn("Error: no data", done.err)
        described = self.on_kubernetes("describe", "bad", code=0).out
        self.assertIn("rank 1 (worker-1) exited with 7", described)
        events = self.kubectl("describe", "job", "bad-1", "-n", self.namespace)
        self.assertIn("exited with 7", events)
        listed = json.loads(self.on_kubernetes("ps", "--json", code=0).out)
        self.assertEqual([(run["id"], run["status"]) for run in listed], [("bad.1", "failed")])

    def test_verbs_detach_logs_stop_rm(self):
        job = self.job_file("long", workers=2, command=["sh", "-c", "echo begun; sleep 300"])
        started = self.on_kubernetes("run", job, "--detach", code=0)
        self.assertEqual(started.out, "long.1\n")
        self.wait_until(lambda: self.status("long") == "running", "it runs")
        again = self.on_kubernetes("run", job, code=2)
        self.assertIn("long.1 is running already", again.err)
        self.wait_until(lambda: "[1] begun" in self.on_kubernetes("logs", "long", code=0).out, "its words are read")
        self.assertEqual(self.on_kubernetes("rm", "long").code, 2)
        stopped = self.on_kubernetes("stop", "long", code=0)
        self.assertEqual(stopped.out, "long.1 stopped\n")
        self.on_kubernetes("rm", "long", code=0)
        self.assertEqual(self.left_over(), [])
        self.assertEqual(self.on_kubernetes("ps", "--json", code=0).out.strip(), "[]")

    def test_deleting_the_job_deletes_everything(self):
        job = self.job_file("owned", workers=2, command=["sleep", "300"])
        self.on_kubernetes("run", job, "--detach", code=0)
        self.wait_until(lambda: self.status("owned") == "running", "it runs")
        self.kubectl("delete", "job", "owned-1", "-n", self.namespace)
        self.wait_until_nothing_is_left()

    def test_rights_in_the_cluster_go_when_the_journal_goes_before_the_manager(self):
        # Parts of a deleted run go in no order: the manager may find its journal gone before it is told to end.
        self.on_kubernetes("run", self.job_file("parts", workers=2, command=["sleep", "300"]), "--detach", code=0)
        self.wait_until(lambda: self.status("parts") == "running", "it runs")
        rights = [name for name in self.left_over() if name.startswith("dure:")]
        self.assertEqual(rights, [f"dure:{self.namespace}:parts-1"] * 2)
        self.kubectl("delete", "job", "parts-1", "-n", self.namespace, "--cascade=orphan")
        self.kubectl("delete", "configmaps", "-n", self.namespace, "-l", "dure/job=parts")
        self.wait_until(lambda: not [name for name in self.left_over() if name.startswith("dure:")], "its rights are gone")

    def test_after_its_time_to_live_nothing_is_left(self):
        job = self.job_file("brief", workers=1, command=["true"], ttl="1s")
        self.on_kubernetes("run", job, "--detach", code=0)
        self.wait_until(lambda: self.status("brief") == "succeeded" or not self.left_over(), "it succeeds")
        self.wait_until_nothing_is_left()

    def test_what_others_have_made_is_left_alone(self):
        self.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "shared-1", "namespace": self.namespace},
                     "spec": {"parallelism": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [
                         {"name": "theirs", "image": "dure.test/host:1", "command": ["true"]}]}}}})
        self.on_kubernetes("run", self.job_file("shared", workers=1, command=["true"]), code=0)
        self.assertEqual(self.status("shared.2"), "succeeded")
        self.on_kubernetes("rm", "shared", code=0)
        self.assertEqual([job["metadata"]["name"] for job in self.objects("jobs")], ["shared-1"])

    def test_a_fetch_that_was_killed_does_not_keep_its_run_from_being_removed(self):
        self.make_claim()
        job = self.job_file("looked", workers=1, command=["sh", "-c", "echo done > out/it"], claim="models")
        self.on_kubernetes("run", job, code=0)
        fetching = self.start("fetch", "looked", "out/it", "--on", "kubernetes", "-n", self.namespace)
        self.wait_until(lambda: self.pods("dure/part=fetch"), "a pod looks into the volume")
        fetching.send(signal.SIGKILL)
        self.on_kubernetes("rm", "looked", code=0)
        self.wait_until_nothing_is_left()

    def test_an_interrupt_while_a_run_is_created_leaves_nothing(self):
        (self.dir / "work").mkdir(exist_ok=True)
        (self.dir / "work/large").write_bytes(os.urandom(20 << 20))
        with self.watching("configmaps", "dure/part=folder") as pieces:
            running = self.start("run", self.job_file("halted", workers=1, command=["sleep", "300"]), "--on", "kubernetes",
                                 "-n", self.namespace)
            self.assertIn("halted-1-folder-", pieces.readline())
            running.send(signal.SIGINT)
        done = running.wait(60)
        self.assertEqual(done.code, 130, done.err)
        self.wait_until_nothing_is_left()

    def test_the_deadline_ends_it(self):
        job = self.job_file("late", workers=1, command=["sleep", "300"], deadline="3s")
        done = self.on_kubernetes("run", job, code=1)
        self.assertIn("the deadline of 3 s has passed", done.err)


harness.main()
