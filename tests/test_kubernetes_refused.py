"""What dure run --on kubernetes refuses, or a cluster does: one sentence, the right exit code, nothing left behind."""
import json

import harness
from kubernetes import OnKubernetes, RunsOnKubernetes


class BadInput(RunsOnKubernetes, OnKubernetes, harness.Case):
    def refused(self, job, code, *sentences, **options):
        self.fails(job, code, *sentences, **options)
        self.wait_until_nothing_is_left()

    def fails(self, job, code, *sentences, before=lambda: None, lines=1):
        running = self.start("run", job, "--on", "kubernetes", "-n", self.namespace)
        before()
        done = running.wait(120)
        self.assertEqual(done.code, code, done.err)
        for sentence in sentences:
            self.assertIn(sentence, done.err)
        self.assertLessEqual(len(done.err.strip().splitlines()), lines, done.err)

    def test_an_image_that_does_not_exist(self):
        job = self.job_file("noimage", workers=2, command=["true"], image="dure.test/nowhere:1")
        self.refused(job, 3, "cannot start: cannot pull image dure.test/nowhere:1")

    def test_an_image_of_dure_that_does_not_exist(self):
        self.env["DURE_IMAGE"] = "dure.test/no-dure:1"
        job = self.job_file("nodure", workers=1, command=["true"])
        self.refused(job, 3, "the manager of nodure.1 cannot start: cannot pull image dure.test/no-dure:1", "DURE_IMAGE")

    def test_a_claim_that_does_not_exist(self):
        job = self.job_file("noclaim", workers=1, command=["true"], claim="nothing")
        self.refused(job, 2, "there is no claim nothing")

    def test_a_claim_that_does_not_exist_and_may_not_be_looked_for(self):
        self.env["KUBECONFIG"] = self.limited_user([
            {"apiGroups": ["", "batch", "rbac.authorization.k8s.io"], "verbs": ["*"],
             "resources": ["configmaps", "pods", "pods/log", "secrets", "services", "serviceaccounts", "jobs", "roles", "rolebindings"]}])
        self.refused(self.job_file("unseen", workers=2, command=["true"], claim="nothing"), 3,
                     "cannot start: ", 'persistentvolumeclaim "nothing" not found', lines=1)

    def test_what_can_never_be_placed_is_in_the_journal(self):
        # Once by the plan, once by the scheduler, for a manager that may not see nodes.
        job = self.job_file("unlabelled", workers=1, command=["true"], nodes={"selector": {"dure.test/nowhere": "yes"}})
        self.on_kubernetes("run", job, "--detach", code=0)
        self.wait_until(lambda: self.status("unlabelled") == "infrastructure failed", "it fails", 30)
        self.assertIn("no node of the cluster has the labels that the job asks for", self.on_kubernetes("describe", "unlabelled", code=0).out)
        self.env["KUBECONFIG"] = self.user("owner", "ClusterRole", "admin")
        self.on_kubernetes("run", self.job_file("unscheduled", workers=1, command=["true"],
                                                nodes={"selector": {"dure.test/nowhere": "yes"}}), "--detach", code=0)
        self.wait_until(lambda: self.status("unscheduled") == "infrastructure failed", "it fails", 45)
        self.assertIn("worker-0 cannot start: 0/2 nodes are available", self.on_kubernetes("describe", "unscheduled", code=0).out)

    def test_what_is_taken_at_the_moment_is_waited_for(self):
        self.env["KUBECONFIG"] = self.user("owner", "ClusterRole", "admin")
        self.on_kubernetes("run", self.job_file("huge", workers=1, command=["true"], resources={"cpus": 1000}), "--detach", code=0)
        self.wait_until(lambda: "Insufficient cpu" in self.on_kubernetes("describe", "huge", code=0).out, "the reason is told")
        self.on_kubernetes("stop", "huge", code=0)
        self.assertEqual(self.status("huge"), "stopped")

    def test_a_name_that_is_too_long(self):
        self.refused(self.job_file("n" * 50, workers=1, command=["true"]), 2, "must be at most 40")

    def test_a_storage_class_that_does_not_exist(self):
        job = self.job_file("lost", workers=1, command=["true"], output="out/model.h5",
                            kubernetes={"storage": {"class": "nowhere"}})
        self.refused(job, 2, "kubernetes.storage.class: there is no storage class nowhere")

    def test_data_that_is_nowhere(self):
        job = self.job_file("nothing", volumes=False, train={"model": "linear", "data": "none.npz"})
        self.refused(job, 2, "train.data.path: there is no none.npz here, and no volume of the job holds it")

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

    def little_memory(self, size):
        """Lets no pod of the gang, unlike the manager, have more memory than this. What this returns is to be called when the run
        has started."""
        self.hold_placement()

        def limit():
            self.wait_until(lambda: self.objects("configmaps", "dure/part=journal"), "the manager runs")
            self.create({"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "little", "namespace": self.namespace},
                         "spec": {"limits": [{"type": "Container", "default": {"memory": size}}]}})
            self.release_placement()
        return limit

    def test_too_little_memory_for_the_init_container(self):
        job = self.job_file("little", workers=1, command=["true"])
        # Sometimes the node notices too late that it was the memory; then there is another try.
        self.refused(job, 3, "worker-0 cannot start: the agent cannot be put into its pod: exit code 137, OOMKilled",
                     before=self.little_memory("8Mi"), lines=4)

    def test_a_program_that_always_fills_its_memory(self):
        # Some kubelets let the kernel end the whole pod, some only the largest process. Here that is the agent: the
        # memory goes to files, not to the process that writes them.
        job = self.job_file("hungry", workers=2, command=["dd", "if=/dev/zero", "of=/dev/shm/full", "bs=4k"],
                            restarts={"limit": 1})
        self.fails(job, 1, "its pod ran out of memory; resources.memory gives it more (failure 2, the limit is 1 restarts)",
                   before=self.little_memory("32Mi"), lines=6)

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
