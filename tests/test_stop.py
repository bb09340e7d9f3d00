"""However a run ends, it ends in time, says why, and leaves no process behind."""
import os
import pty
import signal
import subprocess
import time

import harness
from harness import wait_until

STUBBORN = """
import signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda *_: print('no', flush=True))
print('ready', flush=True)
while True: time.sleep(1)
"""
WILLING = """
import signal, sys, time
def end(*_):
    print('saved', flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print('ready', flush=True)
while True: time.sleep(1)
"""
# Children of every kind: plain, in a session of their own, orphaned, deaf to SIGTERM.
FORKING = """
import os, signal, sys, time
def sleep_on(deaf):
    if deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True: time.sleep(1)
for deaf in (False, True):
    if os.fork() == 0: sleep_on(deaf)
    if os.fork() == 0:
        os.setsid()
        sleep_on(deaf)
    middle = os.fork()
    if middle == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            sleep_on(deaf)
        os._exit(0)
    os.waitpid(middle, 0)
print('ready', flush=True)
if len(sys.argv) > 1: sleep_on(False)
"""


class Stop(harness.Case):
    def begin(self, script, job, ranks=2, *arguments):
        """A run whose ranks have all said that they are ready."""
        path = self.job(job, script)
        running = self.start("run", path, *arguments)
        wait_until(lambda: running.out.count("ready") >= ranks or running.process.poll() is not None,
                   30, "every rank is ready")
        return running

    JOB = ("name: stop\nworkers: 2\nprogram: {command: [/usr/bin/python3, program.py]}\n"
           "timeouts: {stop: 2s}\n")

    def test_a_program_that_ignores_sigterm_is_killed_after_the_grace(self):
        running = self.begin(STUBBORN, self.JOB)
        began = time.monotonic()
        running.send(signal.SIGINT)
        done = running.wait(20)
        took = time.monotonic() - began
        self.assertEqual(done.code, 130)
        self.assertGreaterEqual(took, 2)
        self.assertLess(took, 4)
        self.assertIn("no", done.out)
        self.assert_nothing_left(within=0)
        self.assertEqual(self.ps("stop")["status"], "stopped")

    def test_interrupted_once_it_ends_gently(self):
        running = self.begin(WILLING, self.JOB)
        began = time.monotonic()
        running.send(signal.SIGINT)
        done = running.wait(20)
        self.assertEqual(done.code, 130)
        self.assertLess(time.monotonic() - began, 1.5)
        self.assertEqual(done.out.count("saved"), 2)
        self.assertIn("interrupted", done.err)
        self.assert_nothing_left(within=0)

    def test_interrupted_twice_it_ends_at_once(self):
        running = self.begin(STUBBORN, self.JOB.replace("stop: 2s", "stop: 60s"))
        running.send(signal.SIGINT)
        wait_until(lambda: running.out.count("no") >= 2, 10, "the first request arrives")
        began = time.monotonic()
        running.send(signal.SIGINT)
        self.assertEqual(running.wait(20).code, 130)
        self.assertLess(time.monotonic() - began, 2)
        self.assert_nothing_left(within=0)

    def test_ctrl_c_on_a_terminal(self):
        path = self.job(self.JOB, WILLING)
        master, slave = pty.openpty()
        process = subprocess.Popen([harness.DURE, "run", path], stdin=slave, stdout=slave,
                                   stderr=slave, env={**self.env, "TERM": "xterm"}, cwd=self.dir,
                                   start_new_session=True,
                                   preexec_fn=lambda: __import__("fcntl").ioctl(0, 0x540E, 0))
        os.close(slave)
        text = b""
        while text.count(b"ready") < 2:
            text += os.read(master, 65536)
        os.write(master, b"\x03")
        try:
            while True:
                text += os.read(master, 65536)
        except OSError:
            pass  # the terminal is closed when the last of them has gone
        os.close(master)
        self.assertEqual(process.wait(20), 130)
        self.assertEqual(text.count(b"saved"), 2)
        self.assert_nothing_left(within=0)

    def test_dure_stop_returns_when_everything_is_gone(self):
        self.begin(WILLING, self.JOB)
        self.dure("stop", "stop", code=0)
        self.assert_nothing_left(within=0.5)
        self.assertEqual(self.ps("stop")["status"], "stopped")
        self.begin(STUBBORN, self.JOB.replace("stop: 2s", "stop: 60s"))
        done = self.dure("stop", "--now", "stop", code=0, timeout=5)
        self.assertLess(done.seconds, 3)
        self.assert_nothing_left(within=0.5)

    def test_children_of_an_ended_program_go_with_it(self):
        done = self.dure("run", self.job(self.JOB, FORKING), timeout=20, code=0)
        self.assertLess(done.seconds, 8)
        self.assert_nothing_left(within=0)

    def test_children_go_with_a_program_that_is_stopped(self):
        job = self.JOB.replace("program.py]", "program.py, stay]")
        running = self.begin(FORKING, job)
        self.assertGreater(len(self.processes()), 14)
        running.send(signal.SIGTERM)
        self.assertEqual(running.wait(20).code, 130)
        self.assert_nothing_left(within=0)

    def test_children_go_when_one_rank_fails(self):
        script = FORKING + "\nif os.environ['DURE_RANK'] == '1': sys.exit(7)\nsleep_on(False)\n"
        done = self.dure("run", self.job(self.JOB + "restarts: 0\n", script), timeout=20, code=1)
        self.assertIn("rank 1 (worker-1) exited with 7 in generation 1", done.err)
        self.assert_nothing_left(within=0)

    def test_deadline(self):
        done = self.dure("run", self.job(self.JOB + "deadline: 1s\n", WILLING), timeout=20, code=1)
        self.assertIn("the deadline of 1 s has passed", done.err)
        self.assertLess(done.seconds, 4)
        self.assert_nothing_left(within=0)

    def test_deadline_counts_restarts(self):
        job = self.JOB + "deadline: 2s\nrestarts: {limit: 1000000, backoff: 100ms}\n"
        done = self.dure("run", self.job(job, "raise SystemExit(1)"), timeout=20, code=1)
        self.assertIn("deadline", done.err)
        self.assertLess(done.seconds, 6)

    def test_progress_timeout_names_the_silent_rank(self):
        script = """
import os, time
print('ready', flush=True)
while True:
    time.sleep(0.1)
    if os.environ['DURE_RANK'] != '1':
        with open(os.environ['DURE_METRICS'], 'w') as pipe: pipe.write('{"step": 1}\\n')
"""
        job = self.JOB.replace("{stop: 2s}", "{stop: 2s, progress: 2s}") + "restarts: 0\n"
        done = self.dure("run", self.job(job, script), timeout=30, code=1)
        self.assertIn("rank 1 (worker-1) made no progress for 2 s in generation 1", done.err)
        self.assert_nothing_left(within=0)

    def test_a_frozen_agent_is_named_and_replaced_and_not_counted(self):
        job = self.JOB.replace("{stop: 2s}", "{stop: 2s, heartbeat: 2s}") + "restarts: 0\n"
        running = self.begin(WILLING, job)
        os.kill(self.agents()["worker-1"], signal.SIGSTOP)
        wait_until(lambda: running.out.count("ready") >= 4, 30, "the second generation is ready")
        self.assertIn("rank 1 (worker-1) was lost in generation 1: its agent has been silent",
                      running.err)
        self.assertTrue(any(e["task"] == "worker-1" for e in self.events("stop", "silent")))
        run = self.ps("stop")
        self.assertEqual((run["status"], run["generation"], run["failures"]), ("running", 2, 0))
        running.send(signal.SIGINT)
        self.assertEqual(running.wait(20).code, 130)
        self.assert_nothing_left(within=0)

    def test_a_killed_agent_is_replaced_and_not_counted(self):
        running = self.begin(WILLING, self.JOB + "restarts: 0\n")
        for generation in (2, 3):
            os.kill(self.agents()["worker-0"], signal.SIGKILL)
            wait_until(lambda: running.out.count("ready") >= 2 * generation, 30, "the next one")
        run = self.ps("stop")
        self.assertEqual((run["status"], run["generation"], run["failures"]), ("running", 3, 0))
        running.send(signal.SIGINT)
        self.assertEqual(running.wait(20).code, 130)
        self.assert_nothing_left(within=0)

    def test_a_killed_agent_takes_hidden_children_along(self):
        job = self.JOB.replace("program.py]", "program.py, stay]")
        running = self.begin(FORKING, job)
        before = set(self.processes()) - {running.pid}
        os.kill(self.agents()["worker-1"], signal.SIGKILL)
        wait_until(lambda: running.out.count("ready") >= 4, 30, "the second generation is ready")
        self.assertEqual(before & set(self.processes()), set())
        running.send(signal.SIGQUIT)
        self.assertEqual(running.wait(20).code, 130)

    def test_start_timeout_names_who_did_not_come(self):
        # An agent that says nothing stands beside dure in a folder of its own.
        for name, content in (("dure", None), ("dure-agent", "#!/bin/sh\n"
                              'case $DURE_AGENT_TASK in worker-1) sleep 100;; esac\n'
                              f"exec {harness.AGENT}\n")):
            path = self.dir / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(harness.DURE.read_bytes()) if content is None else path.write_text(content)
            path.chmod(0o755)
        job = self.JOB.replace("{stop: 2s}", "{stop: 1s, start: 1s}")
        done = self.dure("run", self.job(job, WILLING), program=self.dir / "bin/dure", timeout=40,
                         code=3)
        self.assertIn("worker-1 did not join within 1 s", done.err)
        self.assert_nothing_left(within=0)


harness.main()
