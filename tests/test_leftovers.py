"""Whoever is killed, no process of a run is left; what cannot be killed is named."""
import os
import pathlib
import pwd
import random
import shlex
import signal
import unittest

import harness
from harness import DURE, stat_of, wait_until

# Ways to leave a process behind. {0} is the number by which it is found.
SHAPES = {
    "background": "sleep {0} & echo ready; wait",
    "session": "setsid sleep {0} & echo ready; wait",
    "nohup": "nohup sleep {0} >/dev/null 2>&1 & echo ready; wait",
    "no environment": "env -i setsid /bin/sleep {0} & echo ready; wait",
    "twice forked": "(setsid sh -c 'sleep {0} & sleep {0} & exit' &) ; echo ready; sleep {0}",
    "below ranks": "sh -c 'sh -c \"sleep {0} & sleep {0} & wait\" & wait' & echo ready; wait",
    "multiprocessing": "exec /usr/bin/python3 -c 'import multiprocessing, os, time\n"
                       "def work(): os.execvp(\"sleep\", [\"sleep\", \"{0}\"])\n"
                       "if __name__ == \"__main__\":\n"
                       "    for n in range(2): multiprocessing.Process(target=work).start()\n"
                       "    print(\"ready\", flush=True)\n"
                       "    time.sleep({0})'",
}
# What sudo does: another user's process, which the one who started it may not kill.
STUBBORN = """
#include <unistd.h>
int main(void) {
  if (setgid(0) != 0 || setuid(0) != 0) return 1;
  if (fork() != 0) return 0;
  setsid();
  close(0); close(1); close(2);
  sleep(600);
}
"""


def arguments_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


class Leftovers(harness.Case):
    def setUp(self):
        super().setUp()
        self.number = str(random.randrange(10**8, 10**9))

    def tearDown(self):
        for pid in self.sleepers():
            self.kill(pid)
        super().tearDown()

    def sleepers(self):
        """The processes that sleep for our number of seconds."""
        return [int(pid) for pid in os.listdir("/proc") if pid.isdigit()
                and self.number.encode() in arguments_of(pid)[:2]
                and (stat_of(pid) or "ZZ")[1] != "Z"]

    def guards(self):
        return [pid for pid in self.processes() if (stat_of(pid) or [""])[0] == "task-guard"]

    def start_as(self, user, *arguments):
        if user is None:
            return self.start(*arguments)
        account = pwd.getpwnam(user)
        for path in [self.dir, *self.dir.rglob("*")]:
            os.chown(path, account.pw_uid, account.pw_gid)
        return self.start(f"--reuid={user}", f"--regid={account.pw_gid}", "--clear-groups", DURE,
                          *arguments, program="/usr/bin/setpriv")

    def begin(self, shape, user=None, workers=1):
        running = self.start_as(user, "run", "--name", "left", "--workers", str(workers), "--",
                                "sh", "-c", SHAPES[shape].format(self.number))
        wait_until(lambda: running.out.count("ready") >= workers and self.sleepers(), 30,
                   f"{shape}: ready: {running.err}")
        wait_until(lambda: len(self.agents()) == workers, 10, "agents")
        return running

    def assert_all_gone(self, what):
        try:
            wait_until(lambda: not self.sleepers() and not self.processes(), 3, what)
        except AssertionError as error:
            left = [(pid, stat_of(pid), arguments_of(pid))
                    for pid in {*self.sleepers(), *self.processes()}]
            raise AssertionError(f"{error}: {left}") from None

    @staticmethod
    def kill(pid):
        """Success also if it is gone: when one dies, dure ends the others at once."""
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def kill_both(self, running, order):
        agents = list(self.agents().values())
        if order == "group":
            os.killpg(os.getpgid(running.pid), signal.SIGKILL)
        for pid in [running.pid, *agents] if order == "dure first" else [*agents, running.pid]:
            self.kill(pid)
        running.process.wait()

    def users(self):
        return [None, "nobody"] if os.geteuid() == 0 else [None]

    def test_dure_and_its_agents_are_killed(self):
        for user in self.users():
            for shape in SHAPES:
                for order in ("dure first", "agents first"):
                    with self.subTest(user=user, shape=shape, order=order):
                        self.kill_both(self.begin(shape, user), order)
                        self.assert_all_gone(f"{shape}, {order}, {user}")

    def test_one_of_the_three_is_killed(self):
        for victim in (self.agents, self.guards):
            running = self.begin("session", workers=2)
            victims = victim()
            for pid in victims.values() if isinstance(victims, dict) else victims:
                self.kill(pid)
            # dure lives, and starts the next generation when the first is gone.
            self.wait_for_event(self.ps("left")["id"], "running", 2)
            self.assertEqual(len(self.guards()), 2)
            running.send(signal.SIGQUIT)
            running.wait(20)
            self.assert_all_gone(victim.__name__)

    def test_a_frozen_agent_ends_with_dure(self):
        running = self.begin("session")
        for pid in [*self.agents().values(), *self.guards()]:
            os.kill(pid, signal.SIGSTOP)
        running.process.kill()
        running.process.wait()
        self.assert_all_gone("frozen")

    def orphans(self):
        """A run whose dure, guardian and agent were all killed at once."""
        running = self.begin("session")
        victims = [*self.guards(), *self.agents().values(), running.pid]
        # Frozen first, so that none of them sees another die.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in victims:
                os.kill(pid, number)
        running.process.wait()
        self.assertTrue(self.sleepers())

    def test_stop_ends_what_a_lost_run_has_left(self):
        self.orphans()
        self.dure("stop", "left", code=0)
        self.assert_all_gone("stop")

    def test_rm_ends_what_a_lost_run_has_left(self):
        self.orphans()
        self.dure("rm", "left", code=0)
        self.assert_all_gone("rm")

    def test_resume_does_not_start_beside_what_is_left(self):
        self.orphans()
        old = self.sleepers()
        running = self.start("run", "--resume", "left")
        self.wait_for_event("left", "running", 2)
        self.assertFalse(set(old) & set(self.sleepers()))
        running.send(signal.SIGQUIT)
        running.wait(20)
        self.assert_all_gone("resume")

    @unittest.skipIf(os.geteuid() != 0, "only root can make a program that becomes root")
    def test_what_cannot_be_killed_is_named(self):
        source = self.write("stubborn.c", STUBBORN)
        helper = self.dir / "stubborn"
        harness.run_text(["cc", "-o", str(helper), str(source)])
        for code, outcome, exit_code in ((0, "succeeded", 0), (1, "infrastructure failed", 3)):
            arguments = ["run", "--name", f"stubborn-{code}", "--", "sh", "-c",
                         f"{shlex.quote(str(helper))}; exit {code}"]
            running = self.start_setuid(helper, arguments)
            done = running.wait(40)
            left = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
                    if arguments_of(pid)[:1] == [str(helper).encode()]]
            self.assertEqual(len(left), 1)
            os.kill(left[0], signal.SIGKILL)
            self.assertEqual(done.code, exit_code, done.err)
            self.assertIn(f"process {left[0]} (stubborn)", done.err)
            self.assertEqual(self.ps(f"stubborn-{code}")["status"], outcome)
            self.assertEqual(self.ps(f"stubborn-{code}")["generation"], 1)
            self.assertLess(done.seconds, 20)

    def start_setuid(self, helper, arguments):
        for path in [self.dir, *self.dir.rglob("*")]:
            os.chown(path, 65534, 65534)
        os.chown(helper, 0, 0)
        os.chmod(helper, 0o4755)
        return self.start("--reuid=65534", "--regid=65534", "--clear-groups", DURE, *arguments,
                          program="/usr/bin/setpriv")


harness.main()
