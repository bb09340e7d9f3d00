"""What breaks off on the cluster and is taken up again: logs, journals that are full, places that were being given."""
import re
import subprocess

import harness
from kubernetes import OnKubernetes, RunsOnKubernetes, component

KUBELET, API_SERVER = 10250, 6443


def break_connections(port, inside=None, pid=None):
    """Those to this port, seen from where process `inside` is, or only those that process `pid` has; how many."""
    enter = ["nsenter", "-t", str(inside), "-n"] if inside else []
    of_port = ["-tnp", "state", "established", f"( dport = :{port} )"]
    listed = harness.run_text([*enter, "ss", "-H", *of_port])
    ports = [re.search(r":(\d+)\s", line)[1] for line in listed.splitlines() if pid is None or f"pid={pid}," in line]
    for own in ports:
        subprocess.run([*enter, "ss", "-K", "-tn", f"( dport = :{port} and sport = :{own} )"], check=True, capture_output=True)
    return len(ports)


class Breaks(RunsOnKubernetes, OnKubernetes, harness.Case):
    LINES = 120

    def counting(self, name):
        job = self.job_file(name, workers=1, command=["sh", "-c", f"for i in $(seq {self.LINES}); do echo line $i; sleep 0.1; done"])
        running = self.start("run", job, "--on", "kubernetes", "-n", self.namespace)
        self.wait_until(lambda: "line 20\n" in running.out, "its words are seen")
        return running

    def all_is_told(self, running):
        done = running.wait(90)
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(done.out.splitlines(), [f"[0] line {number}" for number in range(1, self.LINES + 1)])

    def test_no_line_is_lost_or_told_twice_when_the_api_server_loses_the_node(self):
        running = self.counting("node")
        server = component("kube-apiserver", inside=False)
        for line in (20, 60):
            self.wait_until(lambda: f"line {line}\n" in running.out, f"line {line} is seen")
            self.assertGreater(break_connections(KUBELET, inside=server), 0)
        self.all_is_told(running)

    def test_no_line_is_lost_or_told_twice_when_we_lose_the_api_server(self):
        running = self.counting("client")
        for line in (20, 60):
            self.wait_until(lambda: f"line {line}\n" in running.out, f"line {line} is seen")
            self.assertGreater(break_connections(API_SERVER, pid=running.pid), 0)
        self.all_is_told(running)

    def test_a_journal_that_is_full_goes_on_in_the_next(self):
        ranks = 600
        job = self.job_file("full", workers=1, processes=ranks, command=["false"], restarts={"limit": 1, "backoff": "100ms"})
        done = self.on_kubernetes("run", job, code=1, timeout=170)
        self.assertIn("full.1 failed: rank ", done.err)
        journals = self.objects("configmaps", "dure/job=full,dure/part=journal")
        self.assertGreater(len(journals), 1)
        self.assertLessEqual(max(len(journal.get("data", {})) for journal in journals), 2000)
        events = self.events_of("full")
        self.assertEqual(len([event for event in events if event["event"] == "joined"]), 2 * ranks)
        self.assertEqual([event["generation"] for event in events if event["event"] == "starting"], [1, 2])
        self.assertEqual(events[-1]["event"], "finished")

    def test_a_place_that_a_dead_manager_was_about_to_take_is_given_to_the_next(self):
        self.hold_placement()
        running = self.start("run", self.job_file("after", workers=2, command=["echo", "here"]), "--on", "kubernetes", "-n", self.namespace)
        self.wait_until(lambda: "waiting until somebody has been placed" in self.on_kubernetes("describe", "after").out, "why it waits")
        done = running.wait(90)
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(sorted(done.out.splitlines()), ["[0] here", "[1] here"])
        self.assertNotIn(self.placement_holder(), ("somebody", f"{self.namespace}/after-1"))


harness.main()
