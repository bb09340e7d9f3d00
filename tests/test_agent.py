"""The agent needs nothing of the image it is put into, and costs next to nothing."""
import os
import signal
import statistics
import subprocess
import time

import harness
from harness import AGENT, resident_kib, wait_until

WAITING = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void) {
  printf("rank %s of %s\n", getenv("DURE_RANK"), getenv("DURE_WORLD_SIZE"));
  fflush(stdout);
  while (access("/finish", F_OK) != 0) usleep(10000);
  return 0;
}
"""


class Agent(harness.Case):
    def test_it_is_static_and_small(self):
        self.assertIn("statically linked", harness.run_text(["file", "-L", str(AGENT)]))
        listed = subprocess.run(["ldd", AGENT], capture_output=True, text=True)
        self.assertIn("not a dynamic executable", listed.stdout + listed.stderr)
        size = AGENT.stat().st_size
        harness.report(f"the agent has {size / 1e6:.1f} MB (goal: under 8)")
        self.assertLess(size, 8_000_000)

    def test_it_starts_quickly(self):
        times = []
        for _ in range(21):
            began = time.monotonic()
            harness.run_text([str(AGENT), "--version"])
            times.append(time.monotonic() - began)
        median = statistics.median(times) * 1000
        harness.report(f"the agent starts in {median:.1f} ms (goal: under 20)")
        self.assertLess(median, 20)

    def test_by_hand_it_says_what_it_is_for(self):
        done = subprocess.run([AGENT], capture_output=True, text=True, env=self.env)
        self.assertEqual(done.returncode, 2)
        self.assertIn("started by dure, not by hand", done.stderr)
        self.assertIn("dure-agent 0", harness.run_text([str(AGENT), "--version"]))

    def test_it_runs_in_an_empty_root(self):
        if os.geteuid() != 0:
            self.skipTest("only root may change the root directory")
        root = self.dir / "root"
        (root / "bin").mkdir(parents=True)
        self.write("waiting.c", WAITING)
        harness.run_text(["gcc", "-static", "-O1", "-o", root / "waiting", self.dir / "waiting.c"])
        (root / "bin/agent").write_bytes(AGENT.read_bytes())
        (root / "bin/agent").chmod(0o755)
        # dure starts what stands beside it; that one goes into the empty root first.
        folder = self.dir / "bin"
        folder.mkdir()
        (folder / "dure").write_bytes(harness.DURE.read_bytes())
        (folder / "dure").chmod(0o755)
        wrapper = folder / "dure-agent"
        wrapper.write_text("#!/usr/bin/python3\nimport os\n"
                           f"os.chroot({str(root)!r})\nos.chdir('/')\n"
                           "os.environ['DURE_AGENT_DIRECTORY'] = '/task-' + os.environ['DURE_AGENT_TASK']\n"
                           "os.execv('/bin/agent', ['/bin/agent'])\n")
        wrapper.chmod(0o755)
        # What is to be run exists in the empty root only, but dure looks for it before it starts.
        (self.dir / "waiting").symlink_to(root / "waiting")
        job = self.job("name: empty\nworkers: 2\nrestarts: 0\nprogram: {command: [/waiting], workdir: /}\n")
        (root / "proc").mkdir()
        placed = "/waiting"
        if os.path.exists(placed):
            self.skipTest(f"{placed} exists on this machine")
        os.symlink(root / "waiting", placed)
        try:
            running = self.start("run", job, program=folder / "dure")
            wait_until(lambda: running.out.count(" of 2") == 2, 20, "both ranks print")
        finally:
            os.unlink(placed)
        self.assertEqual(sorted(os.listdir(root)), ["bin", "proc", "task-worker-0", "task-worker-1",
                                                    "waiting"])
        (root / "finish").write_text("")
        self.assertEqual(running.wait(20).code, 0, running.err)
        self.assertEqual(sorted(running.out.splitlines()), ["[0] rank 0 of 2", "[1] rank 1 of 2"])
        self.assert_nothing_left(within=0)

    def test_it_is_light_while_it_runs(self):
        script = ("import sys, time\nfor _ in range(2000): print('z' * 10000)\n"
                  "print('ready', flush=True)\ntime.sleep(60)\n")
        running = self.start("run", self.job(
            "name: light\nworkers: 2\nprogram: {command: [/usr/bin/python3, program.py]}\n", script))
        wait_until(lambda: running.out.count("ready") == 2, 30, "both ranks printed 20 MB")
        heaviest = max(resident_kib(pid) for pid in self.agents().values()) / 1024
        coordinator = resident_kib(running.pid) / 1024
        harness.report(f"resident: agent {heaviest:.1f} MiB (goal: under 10), dure {coordinator:.1f} MiB")
        self.assertLess(heaviest, 10)
        self.assertLess(coordinator, 40)
        running.send(signal.SIGQUIT)
        self.assertEqual(running.wait(20).code, 130)


harness.main()
