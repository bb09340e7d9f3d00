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
        self.wait_until(lambda: self.left_over() == [], "nothing is left")

    def test_after_its_time_to_live_nothing_is_left(self):
        job = self.job_file("brief", workers=1, command=["true"], ttl="1s")
        self.on_kubernetes("run", job, "--detach", code=0)
        self.wait_until(lambda: self.status("brief") == "succeeded" or not self.left_over(), "it succeeds")
        self.wait_until(lambda: self.left_over() == [], "nothing is left")

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
        self.wait_until(lambda: self.left_over() == [], "nothing is left")

    def test_an_interrupt_while_a_run_is_created_leaves_nothing(self):
        (self.dir / "work").mkdir(exist_ok=True)
        (self.dir / "work/large").write_bytes(os.urandom(20 << 20))
        running = self.start("run", self.job_file("halted", workers=1, command=["sleep", "300"]), "--on", "kubernetes",
                             "-n", self.namespace)
        self.wait_until(lambda: self.objects("configmaps", "dure/part=folder"), "its folder is on the way")
        running.send(signal.SIGINT)
        done = running.wait(60)
        self.assertEqual(done.code, 130, done.err)
        self.wait_until(lambda: self.left_over() == [], "nothing is left")

    def test_the_deadline_ends_it(self):
        job = self.job_file("late", workers=1, command=["sleep", "300"], deadline="3s")
        done = self.on_kubernetes("run", job, code=1)
        self.assertIn("the deadline of 3 s has passed", done.err)


class BadInput(RunsOnKubernetes, OnKubernetes, harness.Case):
    def refused(self, job, code, *sentences, before=lambda: None, lines=1):
        running = self.start("run", job, "--on", "kubernetes", "-n", self.namespace)
        before()
        done = running.wait(120)
        self.assertEqual(done.code, code, done.err)
        for sentence in sentences:
            self.assertIn(sentence, done.err)
        self.assertLessEqual(len(done.err.strip().splitlines()), lines, done.err)
        self.wait_until(lambda: self.left_over() == [], "nothing is left behind")

    def test_an_image_that_does_not_exist(self):
        job = self.job_file("noimage", workers=2, command=["true"], image="dure.test/nowhere:1")
        self.refused(job, 3, "cannot start: image dure.test/nowhere:1 cannot be had")

    def test_an_image_of_dure_that_does_not_exist(self):
        self.env["DURE_IMAGE"] = "dure.test/no-dure:1"
        job = self.job_file("nodure", workers=1, command=["true"])
        self.refused(job, 3, "the manager of nodure.1 cannot start: image dure.test/no-dure:1 cannot be had", "DURE_IMAGE")

    def test_a_claim_that_does_not_exist(self):
        job = self.job_file("noclaim", workers=1, command=["true"], claim="nothing")
        self.refused(job, 2, "there is no claim nothing")

    def test_a_name_that_is_too_long(self):
        self.refused(self.job_file("n" * 50, workers=1, command=["true"]), 2, "must be at most 40")

    def test_what_would_be_lost_with_the_pod(self):
        job = self.job_file("lost", workers=1, command=["true"], output="out/model.h5")
        self.refused(job, 2, "output: out/model.h5 is inside the pod and would be lost")

    def test_no_image_at_all(self):
        job = self.job_file("imageless", workers=1, command=["true"], image="")
        self.refused(job, 2, "program.image")

    def test_a_folder_that_is_too_large(self):
        job = self.job_file("large", workers=1, command=["true"])
        with open(self.dir / "work/large.bin", "wb") as file:
            file.truncate(65 << 20)
        self.refused(job, 2, "large.bin", ".dureignore")

    def test_a_folder_that_cannot_be_unpacked(self):
        # What is a file here is a directory there, since a volume is in it.
        self.write("work/out", "a file\n")
        job = self.job_file("unpacked", workers=2, command=["true"],
                            more=[{"path": "out/models", "host": "/usr", "read_only": True}])
        self.refused(job, 3, "cannot start: unpack the folder of the programs: ", "out", "irectory")

    def test_a_volume_over_the_agent(self):
        job = self.job_file("hidden", workers=1, command=["true"],
                            more=[{"path": "/dure/bin", "host": "/usr/share", "read_only": True}])
        self.refused(job, 3, "worker-0 cannot start: its container worker-0 could not be started", "/dure/bin/dure-agent")

    def test_too_little_memory_for_the_init_container(self):
        def limit():
            self.wait_until(lambda: self.objects("configmaps", "dure/part=journal"), "the manager runs")
            self.create({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "little", "namespace": self.namespace},
                         "spec": {"limits": [{"type": "Container", "default": {"memory": "8Mi"}}]}})
            self.release_placement()
        self.hold_placement()
        job = self.job_file("little", workers=1, command=["true"])
        # Sometimes the node notices too late that it was the memory; then there is another try.
        self.refused(job, 3, "worker-0 cannot start: the agent cannot be put into its pod: exit code 137, OOMKilled",
                     before=limit, lines=4)

    def test_a_quota_that_is_exceeded(self):
        self.create({"apiVersion": "v1", "kind": "ResourceQuota",
                     "metadata": {"name": "few", "namespace": self.namespace}, "spec": {"hard": {"pods": "2"}}})
        self.wait_until(lambda: json.loads(self.kubectl("get", "resourcequota", "few", "-n", self.namespace, "-o", "json"))
                        .get("status", {}).get("hard"), "the quota is in force")
        self.refused(self.job_file("quota", workers=3, command=["sleep", "100"]), 3, "exceeded quota")

    def test_a_quota_that_has_no_room_for_the_manager(self):
        self.create({"apiVersion": "v1", "kind": "ResourceQuota",
                     "metadata": {"name": "none", "namespace": self.namespace}, "spec": {"hard": {"pods": "0"}}})
        self.wait_until(lambda: json.loads(self.kubectl("get", "resourcequota", "none", "-n", self.namespace, "-o", "json"))
                        .get("status", {}).get("hard"), "the quota is in force")
        self.refused(self.job_file("full", workers=1, command=["true"]), 3, "the manager of full.1 cannot start", "exceeded quota")

    def test_pods_that_are_never_given_up(self):
        job = self.job_file("patient", workers=1, command=["true"], timeouts={"heartbeat": "never"})
        self.refused(job, 2, "timeouts.heartbeat: on Kubernetes")

    def test_rights_that_are_missing(self):
        config = self.limited_user([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "get", "create", "delete"]},
                                    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
                                    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["delete"]}])
        self.env["KUBECONFIG"] = config
        self.refused(self.job_file("forbidden", workers=1, command=["true"]), 3, 'cannot create resource "secrets"')


harness.main()
