"""dure itself may be killed at any moment: nothing is left, and the record tells the truth."""
import os
import random
import signal
import time

import harness
from harness import wait_until

# Counts to a number, remembering how far it came; has a child that hides.
COUNTING = """
import os, sys, time
rank = os.environ['DURE_RANK']
if os.fork() == 0:
    os.setsid()
    while True: time.sleep(1)
folder = os.environ['DURE_CHECKPOINT']
os.makedirs(folder, exist_ok=True)
saved = os.path.join(folder, rank)
count = int(open(saved).read()) if os.path.exists(saved) else 0
if rank == '1' and os.environ['DURE_GENERATION'] == '1': sys.exit(3)
while count < 60:
    count += 1
    with open(saved + '.new', 'w') as file: file.write(str(count))
    os.replace(saved + '.new', saved)
    print('count', count, flush=True)
    time.sleep(0.01)
"""
JOB = """name: {0}
workers: 2
program: {{command: [/usr/bin/python3, program.py]}}
checkpoint: saved/{0}
restarts: {{limit: 3, backoff: 20ms}}
timeouts: {{stop: 1s}}
"""


class KillDure(harness.Case):
    def test_killed_at_a_hundred_random_moments(self):
        dice = random.Random(15112026)
        lost = resumed = ended = unborn = 0
        for number in range(100):
            name = f"victim-{number}"
            job = self.job(JOB.format(name), COUNTING)
            running = self.start("run", job)
            time.sleep(dice.uniform(0, 0.9))
            running.process.kill()
            running.process.wait()
            self.assert_nothing_left(within=3)
            run = self.ps(name)
            if run is None:  # it had not come to make a record
                unborn += 1
                self.assertEqual(self.events(name), [])
                continue
            finished = self.events(name, "finished")
            if finished:
                ended += 1
                self.assertEqual(run["status"], finished[-1]["outcome"])
                continue
            lost += 1
            self.assertEqual(run["status"], "lost")
            self.assertNotIn("pid", run)
            if lost % 4 == 0:
                resumed += 1
                self.resume(name, run)
        harness.report(f"100 kills: {lost} lost ({resumed} of them resumed to the end), {ended} had "
                       f"ended, {unborn} had not begun")
        self.assertGreater(lost, 70)
        self.assertGreater(resumed, 10)

    def counts(self, name):
        """How far the ranks have come; a rank that never counted is at 0."""
        saved = [self.dir / "saved" / name / rank for rank in "01"]
        return [int(path.read_text()) if path.exists() else 0 for path in saved]

    def resume(self, name, before):
        # A rank that was done already, before dure was killed, has nothing left to say.
        unfinished = min(self.counts(name)) < 60
        # Killed before its first entry, the run begins with --resume.
        begun = len(self.events(name, "created"))
        done = self.dure("run", "--resume", name, timeout=30, code=0)
        after = self.ps(name)
        self.assertEqual((after["status"], after["id"]), ("succeeded", f"{name}.1"), done.err)
        # Generations go on counting, and what was counted before still is.
        self.assertGreater(after["generation"], before["generation"])
        # Generation 1 fails on purpose, and may be yet to come.
        self.assertEqual(after["failures"], before["failures"] + (before["generation"] == 0))
        self.assertEqual(self.counts(name), [60, 60])
        self.assertEqual("count 60" in done.out, unfinished)
        self.assertEqual([len(self.events(name, kind)) for kind in ("created", "resumed")], [1, begun])

    def lost_run(self, name, job=None, script=None):
        """A run whose dure was killed while its ranks ran."""
        script = script or "import time\nprint('ready', flush=True)\nwhile True: time.sleep(1)\n"
        running = self.start("run", self.job(job or JOB.format(name), script))
        wait_until(lambda: running.out.count("ready") >= 2, 30, "both ranks are ready")
        running.process.kill()
        running.process.wait()
        self.assert_nothing_left(within=2)
        return running

    def test_restart_counts_are_kept(self):
        # Every generation fails at once but the second, in which dure is killed.
        script = """
import os, sys, time
if os.environ['DURE_GENERATION'] != '2': sys.exit(1)
print('ready', flush=True)
while True: time.sleep(1)
"""
        self.lost_run("counted", script=script)
        self.assertEqual(self.ps("counted")["failures"], 1)
        done = self.dure("run", "--resume", "counted", code=1, timeout=30)
        run = self.ps("counted")
        # Failures 2, 3 and 4 exceed the limit of 3.
        self.assertEqual((run["failures"], run["generation"]), (4, 5), done.err)

    def test_a_cut_journal_is_still_read(self):
        self.lost_run("cut")
        events = self.run_dir("cut") / "events.jsonl"
        whole = events.read_bytes()
        lines = whole.splitlines(keepends=True)
        for keep in range(1, len(lines[-1]), 7):
            events.write_bytes(whole[:-keep])
            self.assertEqual(self.ps("cut")["status"], "lost")
        for name, tail in (("junk", b'{"event": "runn'), ("zeros", b"\0" * 4096)):
            events.write_bytes(whole + tail)
            self.assertEqual(self.ps("cut")["status"], "lost", name)
        self.write("program.py", "print('done')")
        self.dure("run", "--resume", "cut", code=0, timeout=30)
        self.assertEqual(self.ps("cut")["status"], "succeeded")
        described = self.json("describe", "cut")
        self.assertEqual([e["event"] for e in described["events"]][-1], "finished")

    def test_a_lost_run_says_what_to_do_and_can_be_removed(self):
        self.lost_run("lost")
        self.assertIn("dure run --resume lost.1", self.dure("ps", code=0).out)
        self.assertIn("dure run --resume lost.1", self.dure("describe", "lost", code=0).out)
        self.dure("stop", "lost", code=0)
        self.dure("rm", "lost", code=0)
        self.assertEqual(self.json("ps"), [])

    def test_only_a_run_that_nobody_has_can_be_resumed(self):
        running = self.start("run", self.job(JOB.format("held"), COUNTING.replace("60", "100000")))
        self.wait_for_event("held", "running")
        second = self.dure("run", "--resume", "held", code=2)
        self.assertIn("still running", second.err)
        self.assertIn("running already", self.dure("run", self.dir / "job.yaml", code=2).err)
        running.send(signal.SIGQUIT)
        running.wait(20)
        self.assertIn("no run named", self.dure("run", "--resume", "nobody", code=2).err)

    def test_agents_that_are_killed_together_with_dure(self):
        script = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(1)\n"
        for name, dure_first in (("both", True), ("agents-first", False)):
            running = self.start("run", self.job(JOB.format(name), script))
            wait_until(lambda: running.out.count("ready") >= 2, 30, "both ranks are ready")
            agents = list(self.agents().values())
            self.assertEqual(len(agents), 2)
            for pid in [running.pid, *agents] if dure_first else [*agents, running.pid]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # an agent ends when its dure does, and dure ends the others when one agent does: at once
            running.process.wait()
            self.assert_nothing_left(within=2)
            self.assertEqual(self.ps(name)["status"], "lost")


harness.main()
