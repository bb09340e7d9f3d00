"""The commands as a person, an editor and a script use them: mistakes, answers, exit codes."""
import json
import os
import pty
import re
import subprocess

import jsonschema
import yaml

import harness
from harness import DURE, ROOT, wait_until

COMMANDS = ["run", "check", "env", "plan", "ps", "describe", "logs", "stop", "rm", "copy", "average", "schema",
            "completion"]
HELLO = "program: {command: [sh, -c, 'echo hello from $DURE_RANK']}\n"


class Mistakes(harness.Case):
    def refused(self, text, *expected, arguments=(), name="job.yaml"):
        """Both check and run refuse the file, with these words, and nothing is left of it."""
        path = self.write(name, text)
        for command in ("check", "run"):
            done = self.dure(command, path.name, *arguments, code=2, timeout=20)
            for words in expected:
                self.assertIn(words, done.err)
            self.assertEqual(done.out, "")
        self.assertEqual([p for p in self.state.rglob("*") if p.is_file()], [])
        return done.err

    def test_a_misspelt_field(self):
        self.refused("name: a\nstrategy: torch\n" + HELLO + "worker: 2\n",
                     'job.yaml:4:1: worker: unknown field; did you mean "workers"?')

    def test_all_mistakes_in_one_go(self):
        text = self.refused("workers: -2\nstrategi: torch\nprocesses: many\nrestarts: {limit: soon}\n",
                            "job.yaml:1:10: workers", 'did you mean "strategy"?', "job.yaml:3:12: processes",
                            "job.yaml:4:19: restarts.limit")
        self.assertTrue(all(re.match(r"job\.yaml:\d+:\d+: ", line) for line in text.splitlines()), text)

    def test_contradictions(self):
        self.refused(HELLO + "workers: {min: 4, max: 2}\n", "job.yaml:2:", "min")
        self.refused(HELLO + "strategy: tensorflow\nroles: {evaluator: 1}\n", "job.yaml:3:", "chief")
        self.refused("workers: 2\n", "job.yaml", "program")
        self.refused(HELLO + "strategy: torch\nroles: {ps: 1}\n", "job.yaml:3:", "roles")

    def test_a_missing_program(self):
        self.write("job.yaml", "program: {command: [no-such-program-anywhere]}\n")
        done = self.dure("run", "job.yaml", code=2)
        self.assertIn("no-such-program-anywhere", done.err)
        self.assertFalse(list(self.state.rglob("events.jsonl")))
        done = self.dure("run", "--workers", "2", "--", "./not-here", code=2)
        self.assertIn("not-here", done.err)

    def test_a_yaml_bomb(self):
        lines = ["a0: &a0 [" + ", ".join(["x"] * 10) + "]"]
        lines += [f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * 10) + "]" for i in range(1, 12)]
        self.refused("\n".join(lines) + "\n" + HELLO, "job.yaml:")
        self.refused("name: " + "[" * 100_000, "job.yaml:")
        self.refused("a: &a [*a]\n", "job.yaml:")

    def test_a_file_of_a_hundred_megabytes(self):
        path = self.dir / "big.yaml"
        with open(path, "wb") as file:
            file.truncate(100_000_000)
        for command in ("check", "run"):
            done = self.dure(command, path, code=2, timeout=5)
            self.assertIn("big.yaml", done.err)
            self.assertLess(done.seconds, 1)

    def test_bytes_that_are_not_utf8(self):
        self.refused(b"name: a\nenv: {WORD: \xff\xfe}\n" + HELLO.encode(), "job.yaml:2:", "UTF-8")

    def test_broken_yaml_and_no_file(self):
        self.refused("name: [a\n", "job.yaml:")
        self.refused("", "job.yaml")
        self.refused("- a\n- list\n", "job.yaml:1:1")
        self.assertIn("absent.yaml", self.dure("check", "absent.yaml", code=2).err)

    def test_mistakes_in_the_call(self):
        for arguments in (["nonsense"], ["run"], ["run", "--wrkers", "2", "--", "true"], ["logs"],
                          ["describe", "nobody"], ["logs", "nobody"], ["stop", "nobody"], ["rm", "nobody"],
                          ["run", "--workers", "x", "--", "true"], ["run", "--set", "workers", "--", "true"],
                          ["run", "--set", "nonsense=1", "--", "true"], ["completion", "tcsh"]):
            done = self.dure(*arguments, code=2)
            self.assertNotEqual(done.err, "", arguments)


class Commands(harness.Case):
    def test_help_and_version(self):
        for arguments in ([], *([command] for command in COMMANDS)):
            text = self.dure(*arguments, "--help", code=0).out
            self.assertGreater(len(text.splitlines()), 4, arguments)
        top = self.dure("--help", code=0).out
        for command in COMMANDS:
            self.assertIn(command, top)
        self.assertIn("130 interrupted", top)
        self.assertRegex(self.dure("--version", code=0).out, r"^dure \d+\.\d+\.\d+\n$")

    def test_the_life_of_a_run(self):
        self.assertEqual(self.json("ps"), [])
        job = self.job("name: life\nworkers: 2\n" + HELLO)
        done = self.dure("run", job, code=0)
        self.assertEqual(sorted(done.out.splitlines()), ["[0] hello from 0", "[1] hello from 1"])
        self.dure("run", job, "--set", "workers=1", "--set", "env.WORD=x", code=0)
        runs = self.json("ps")
        self.assertEqual([(r["id"], r["status"], r["workers"]) for r in runs],
                         [("life.1", "succeeded", 2), ("life.2", "succeeded", 1)])
        self.assertIn("life.2", self.dure("ps", code=0).out)
        described = self.json("describe", "life.1")
        self.assertEqual([e["event"] for e in described["events"]][0], "created")
        self.assertEqual({r["rank"] for r in described["ranks"]}, {0, 1})
        self.assertIn("succeeded", self.dure("describe", "life", code=0).out)
        self.assertEqual(self.dure("logs", "life.1", "--rank", "1", code=0).out, "hello from 1\n")
        lines = [json.loads(line) for line in self.dure("logs", "life.1", "--json", code=0).out.splitlines()]
        self.assertEqual({(l["rank"], l["line"]) for l in lines}, {(0, "hello from 0"), (1, "hello from 1")})
        as_run = yaml.safe_load((self.run_dir("life.2") / "job.yaml").read_text())
        self.assertEqual(as_run["env"], {"WORD": "x"})
        self.json("rm", "life.1")
        self.assertEqual([r["id"] for r in self.json("ps")], ["life.2"])
        self.assertFalse(self.run_dir("life.1").exists())

    def test_detached(self):
        script = "import time\nprint('ready', flush=True)\ntime.sleep(60)\n"
        job = self.job("name: away\nworkers: 2\nprogram: {command: [/usr/bin/python3, program.py]}\n", script)
        done = self.dure("run", "--detach", job, code=0, timeout=10)
        self.assertEqual(done.out, "away.1\n")
        follower = self.start("logs", "-f", "away")
        wait_until(lambda: follower.out.count("ready") == 2, 20, "the log is followed")
        run = self.ps("away")
        self.assertEqual(run["status"], "running")
        self.assertIn("running", self.dure("rm", "away", code=2).err)
        report = self.json("stop", "away")
        self.assertEqual((report[0]["id"], report[0]["status"]), ("away.1", "stopped"))
        self.assertEqual(follower.wait(10).code, 0)
        self.assert_nothing_left(within=1)
        # A mistake is told before anything is detached.
        self.dure("run", "--detach", self.job("nonsense: 1\n", name="bad.yaml"), code=2)

    def test_check_says_that_all_is_well(self):
        self.dure("check", self.job("workers: 2\n" + HELLO), code=0)
        self.assertIsInstance(self.json("check", self.job("workers: 2\n" + HELLO)), (dict, list))
        done = self.dure("check", self.job("wokers: 2\n" + HELLO), "--json", code=2)
        json.loads(done.out or done.err)
        self.assertEqual(self.json("ps"), [])

    def test_exit_codes(self):
        self.dure("run", "--", "true", code=0)
        self.dure("run", "--set", "restarts=0", "--", "false", code=1)
        self.dure("run", "--", code=2)
        self.write("locked", "")
        self.dure("run", "--", "true", env={"DURE_STATE_DIR": str(self.dir / "locked")}, code=3)

    def test_a_file_from_standard_input(self):
        text = "name: piped\n" + HELLO
        done = subprocess.run([DURE, "run", "-"], input=text, env=self.env, cwd=self.dir,
                              capture_output=True, text=True, timeout=20)
        self.assertEqual((done.returncode, done.stdout), (0, "[0] hello from 0\n"), done.stderr)

    def test_metrics_show_the_step(self):
        script = ("import os\nwith open(os.environ['DURE_METRICS'], 'w') as pipe:\n"
                  "    for step in range(1, 31): pipe.write('{\"step\": %d, \"loss\": 0.5}\\n' % step)\n")
        self.dure("run", self.job("name: steps\nprogram: {command: [/usr/bin/python3, program.py]}\n", script),
                  code=0)
        self.assertEqual(self.ps("steps")["step"], 30)
        metrics = [json.loads(line) for line in (self.run_dir("steps") / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([m["step"] for m in metrics], list(range(1, 31)))
        self.assertEqual({(m["rank"], m["generation"], m["loss"]) for m in metrics}, {(0, 1, 0.5)})


class Editors(harness.Case):
    def schema(self):
        return json.loads(self.dure("schema", code=0).out)

    def test_the_schema_is_one_and_takes_the_examples(self):
        schema = self.schema()
        validator = jsonschema.validators.validator_for(schema)
        validator.check_schema(schema)
        examples = sorted((ROOT / "examples").glob("*.yaml"))
        self.assertGreater(len(examples), 3)
        for example in examples:
            validator(schema).validate(yaml.safe_load(example.read_text()))
            self.dure("check", example, code=0)
        with self.assertRaises(jsonschema.ValidationError):
            validator(schema).validate({"wokers": 2})

    def test_the_documentation_page_has_every_field(self):
        page = self.dure("schema", "--markdown", code=0).out
        for field in self.schema()["properties"]:
            self.assertIn(field, page)

    def test_bash_completion(self):
        script = self.dure("completion", "bash", code=0).out
        self.write("completion.bash", script)

        def complete(*words):
            quoted = " ".join(f"'{word}'" for word in words)
            return harness.run_text(
                ["bash", "-c", f"source completion.bash; complete -p dure >&2; COMP_WORDS=({quoted}); "
                 f"COMP_CWORD={len(words) - 1}; _dure 2>/dev/null; printf '%s\\n' \"${{COMPREPLY[@]}}\""],
                env=self.env, cwd=self.dir).split()
        self.assertEqual(complete("dure", "des"), ["describe"])
        self.assertIn("--workers", complete("dure", "run", "--w"))
        self.assertEqual(complete("dure", "run", "--strategy", "to"), ["torch"])
        self.dure("run", "--name", "known", "--", "true", code=0)
        self.assertEqual(complete("dure", "logs", "kn"), ["known.1"])
        self.assertEqual(complete("dure", "fetch", "kn"), ["known.1"])
        self.assertEqual(complete("dure", "comp"), ["completion"])
        self.assertTrue(complete("dure", "run", "--set", "restarts.l"))

    def test_other_shells(self):
        self.assertIn("#compdef dure", self.dure("completion", "zsh", code=0).out)
        self.assertIn("complete -c dure", self.dure("completion", "fish", code=0).out)


class Terminal(harness.Case):
    def on_a_terminal(self, *arguments, **env):
        master, slave = pty.openpty()
        process = subprocess.Popen([DURE, *arguments], stdin=slave, stdout=slave, stderr=slave,
                                   env={**self.env, "TERM": "xterm", **env}, cwd=self.dir)
        os.close(slave)
        text = b""
        try:
            while block := os.read(master, 65536):
                text += block
        except OSError:
            pass  # the other side is closed
        os.close(master)
        self.assertEqual(process.wait(20), 0)
        return text.decode(errors="replace")

    SCRIPT = ("import os, time\nprint('hello', flush=True)\n"
              "with open(os.environ['DURE_METRICS'], 'w') as pipe: pipe.write('{\"step\": 17}\\n')\n"
              "time.sleep(1)\nprint('bye')\n")
    JOB = "name: tty\nworkers: 2\nprogram: {command: [/usr/bin/python3, program.py]}\n"

    def test_a_status_line_and_colours(self):
        text = self.on_a_terminal("run", self.job(self.JOB, self.SCRIPT))
        self.assertRegex(text, r"\x1b\[\d+m\[0\]\x1b\[0m hello")
        self.assertRegex(text, r"running · 2 of 2")
        self.assertIn("step 17", text)
        # What is left on the screen has no status line in it: it was wiped before each line.
        screen = [re.sub(r"\x1b\[[\d;]*[mK]", "", line.split("\x1b[K")[-1]).strip()
                  for line in text.split("\n")]
        self.assertEqual(sorted(line for line in screen if "hello" in line or "bye" in line),
                         ["[0] bye", "[0] hello", "[1] bye", "[1] hello"])
        self.assertTrue(screen[-2].startswith("dure: tty.1 succeeded"), screen[-3:])

    def test_no_colours_where_they_are_not_wanted(self):
        text = self.on_a_terminal("run", self.job(self.JOB, self.SCRIPT), NO_COLOR="1")
        self.assertNotRegex(text, r"\x1b\[\d+m")
        text = self.on_a_terminal("run", self.job(self.JOB, self.SCRIPT), TERM="dumb")
        self.assertNotIn("\x1b", text)

    def test_plain_lines_elsewhere(self):
        done = self.dure("run", self.job(self.JOB, self.SCRIPT), code=0)
        self.assertNotIn("\x1b", done.out + done.err)
        self.assertNotIn("\r", done.out + done.err)
        self.assertRegex(done.err, r"^dure: tty\.1 succeeded after [\d.]+ s\n$")


harness.main()
