"""DURE_LOG: what was decided and done can be followed afterwards, and nothing is told that nobody asked for."""
import re

import harness

LINE = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (debug|info|warn|error) ([\w-]+): (.+)$")
VALUE = "value-that-nobody-is-to-read"


def log_lines(text):
    """(level, part, words) of each line of the log in this text."""
    return [match.groups() for match in map(LINE.match, text.splitlines()) if match]


class Logging(harness.Case):
    def run_job(self, *flags, level=None, before=()):
        env = {"DURE_LOG": level} if level else {}
        return self.dure(*before, "run", *flags, "--name", "followed", "--workers", "2", "--env", f"PASSWORD={VALUE}",
                         "--", "sh", "-c", f"echo hello # {VALUE}", env=env, code=0)

    def agents_log(self):
        return (self.run_dir("followed") / "tasks/agents.log").read_text()

    def test_the_story_of_a_run(self):
        done = self.run_job(level="debug")
        words = [f"{part}: {words}" for _, part, words in log_lines(done.err)]
        for task in ("worker-0", "worker-1"):
            last = -1
            for step in (r"coordinator: does place generation 1", r"coordinator: sees placed: 2 workers",
                         r"coordinator: does start every task", rf"local: started {task} .*pid \d+",
                         rf"coordinator: sees joined: {task} on ", r"coordinator: does release",
                         rf"coordinator: releases {task}",
                         rf"coordinator: sees exited: process 0 of {task}, after \d+ ms: ",
                         rf"coordinator: sees finished: {task}", rf"coordinator: sees gone: {task}",
                         r"coordinator: does finish: succeeded"):
                found = [i for i, line in enumerate(words) if re.match(step, line)]
                self.assertTrue(found, f"{step} is not in\n{done.err}")
                self.assertGreater(found[0], last, f"{step} comes too early in\n{done.err}")
                last = found[0]
        self.assertIn("debug", {level for level, _, _ in log_lines(done.err)})
        # What the ranks print is theirs alone; the agents' story is beside it.
        self.assertEqual(sorted(done.out.splitlines()), ["[0] hello", "[1] hello"])
        self.assertEqual(self.log("followed", 0), b"hello\n")
        agents = "\n".join(f"{part}: {words}" for _, part, words in log_lines(self.agents_log()))
        for step in (r"agent: worker-1 sends hello", r"agent: worker-1 receives start",
                     r"agent: worker-1 starts process 0: pid \d+", r"agent: worker-1: process 0 exited: "):
            self.assertRegex(agents, step)

    def test_no_secret_is_logged(self):
        done = self.run_job(level="debug")
        secret = (self.run_dir("followed") / "secret").read_text().strip()
        self.assertGreater(len(secret), 10)
        for text in (done.err, self.agents_log()):
            self.assertTrue(log_lines(text))
            self.assertNotIn(secret, text)
            self.assertNotIn(VALUE, text)

    def test_nothing_without_it(self):
        for level in (None, "warn", "off"):
            done = self.run_job(level=level)
            self.assertEqual(log_lines(done.err), [])
            self.assertEqual(self.agents_log(), "")
            self.dure("rm", "followed", code=0)

    def test_levels(self):
        done = self.run_job(level="info")
        self.assertEqual({level for level, _, _ in log_lines(done.err)}, {"info"})

    def test_verbose_is_debug_before_and_behind_the_command(self):
        for before, flags in ((["--verbose"], []), ([], ["--verbose"])):
            done = self.run_job(*flags, before=before)
            self.assertIn("debug", {level for level, _, _ in log_lines(done.err)})
            self.assertIn("worker-0 starts process 0", self.agents_log())
            self.dure("rm", "followed", code=0)

    def test_another_word_is_a_mistake(self):
        done = self.dure("ps", env={"DURE_LOG": "loud"}, code=2)
        self.assertEqual(done.err, 'dure: DURE_LOG: must be debug, info, warn, error or off, got "loud"\n')


harness.main()
