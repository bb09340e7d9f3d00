"""Pipelines: steps in their order, what is cached, what survives a kill, and what is left afterwards."""
import hashlib
import json
import os
import pathlib
import random
import signal
import socket
import time

import jsonschema
import yaml

import harness
from harness import wait_until

# Counts its runs in a file beside the pipeline, which no run shares with its outputs.
FLOW = """name: {name}
parameters:
  parts: 3
  word: {{default: tree, type: text}}
steps:
  write:
    inputs: [words]
    command: |
      echo write >> ran; sleep {pause}; sort words > ${{{{ out }}}}/words; echo ${{{{ word }}}} >> ${{{{ out }}}}/words
  count:
    each: ${{{{ parts }}}}
    command: |
      echo count-${{{{ index }}}} >> ran; sleep {pause}
      head -n 1${{{{ index }}}} ${{{{ steps.write }}}}/words | sha256sum > ${{{{ out }}}}/sum; echo part ${{{{ index }}}}
  add:
    command: "echo add >> ran; sleep {pause}; cat ${{{{ steps.count }}}}/*/sum > ${{{{ out }}}}/all"
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Pipeline(harness.Case):
    def pipeline(self, text, name="pipeline.yaml"):
        return str(self.write(name, text))

    def flow(self, name="flow", pause=0):
        self.write("words", "".join(f"word{i * 37 % 101}\n" for i in range(101)))
        return self.pipeline(FLOW.format(name=name, pause=pause))

    def ran(self):
        path = self.dir / "ran"
        lines = path.read_text().split() if path.exists() else []
        path.unlink(missing_ok=True)
        return sorted(lines)

    def outputs(self, run):
        """Path and content of all that the steps have made visible."""
        volume = self.run_dir(run) / "volume"
        return {str(path.relative_to(volume)): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in sorted(volume.rglob("*")) if path.is_file()}

    def steps(self, run):
        return {step["name"]: step for step in self.json("describe", run)["steps"]}

    def states(self, run):
        return {name: step["state"] for name, step in self.steps(run).items()}

    # ---- running
    def test_steps_run_in_order_and_are_cached(self):
        flow = self.flow()
        done = self.dure("pipeline", "run", flow, code=0)
        self.assertIn("flow.1 succeeded", done.err)
        self.assertIn("count-2 │ part 2", done.out)
        everything = ["add", "count-0", "count-1", "count-2", "write"]
        self.assertEqual(self.ran(), everything)
        first = self.outputs("flow.1")
        self.assertEqual(sorted(first), ["add/all", "count/0/sum", "count/1/sum", "count/2/sum", "write/words"])

        self.dure("pipeline", "run", flow, code=0)
        self.assertEqual(self.ran(), [])
        self.assertEqual(set(self.states("flow").values()), {"cached"})
        self.assertEqual(self.outputs("flow.2"), first)

        self.dure("pipeline", "run", flow, "--fresh", code=0)
        self.assertEqual(self.ran(), everything)
        self.assertEqual(set(self.states("flow").values()), {"succeeded"})

        # Its earlier runs may go: what was taken over stays.
        self.dure("rm", "flow.1", code=0)
        self.assertEqual(self.outputs("flow.2"), first)

        # A parameter that only one part depends on.
        self.dure("pipeline", "run", flow, "--set", "parts=4", code=0)
        self.assertEqual(self.ran(), ["add", "count-3"])
        # An input with other content, then the old content again.
        before = (self.dir / "words").read_text()
        self.write("words", before + "more\n")
        self.dure("pipeline", "run", flow, code=0)
        self.assertIn("write", self.ran())
        self.write("words", before)
        self.dure("pipeline", "run", flow, code=0)
        self.assertEqual(self.ran(), [])
        # Other content in the output of an earlier run is not taken for the result.
        for number in range(1, 8):
            for path in (self.run_dir(f"flow.{number}") / "volume").glob("write/words"):
                path.write_text("damaged")
        self.dure("pipeline", "run", flow, code=0)
        self.assertIn("write", self.ran())
        self.assertEqual(self.outputs(f"flow.{self.ps('flow')['run']}"), first)

    def test_what_people_and_programs_see(self):
        self.dure("pipeline", "run", self.flow(), "--set", "word=two words", code=0)
        row = next(line for line in self.dure("ps", code=0).out.splitlines() if line.startswith("flow.1"))
        self.assertRegex(row, r"succeeded .* 5/5")
        run = self.ps("flow")
        self.assertEqual((run["kind"], run["status"]), ("pipeline", "succeeded"))
        self.assertEqual([step["name"] for step in run["steps"]], ["write", "count", "add"])
        self.assertEqual(run["steps"][1]["needs"], ["write"])
        self.assertEqual([part["name"] for part in run["steps"][1]["parts"]], ["count-0", "count-1", "count-2"])
        told = self.dure("describe", "flow", code=0).out
        self.assertRegex(told, r"● write +command +succeeded")
        self.assertRegex(told, r"● count ×3 +command +succeeded")
        self.assertIn("word='two words'", told)
        self.assertIn("count-1 │ part 1", self.dure("logs", "flow", code=0).out)
        self.assertEqual(self.dure("logs", "flow", "--step", "count-1", code=0).out, "part 1\n")
        self.assertEqual(self.dure("logs", "flow", "--step", "count", code=0).out.count("part"), 3)
        wrong = self.dure("logs", "flow", "--step", "conut", code=2)
        self.assertIn("did you mean 'count'?", wrong.err)
        listed = self.dure("pipeline", "ls-volume", "flow", code=0).out
        self.assertIn("count/2/sum", listed)
        self.dure("fetch", "flow", "write/words", "home", code=0)
        self.assertTrue((self.dir / "home").read_text().endswith("two words\n"))
        self.assertEqual(self.dure("schema", "--pipeline", code=0).out[0], "{")
        self.dure("rm", "flow", code=0)
        self.assertIsNone(self.ps("flow"))

    def test_two_runs_at_once_never_meet(self):
        flow = self.flow(pause=0.3)
        runs = [self.start("pipeline", "run", flow, "--fresh", "--set", f"word=w{i}") for i in range(2)]
        for running in runs:
            self.assertEqual(running.wait().code, 0, running.err)
        last = [self.run_dir(f"flow.{n}").joinpath("volume/write/words").read_text().split()[-1] for n in (1, 2)]
        self.assertEqual(sorted(last), ["w0", "w1"])

    def test_parallel_limits_what_runs_at_once(self):
        text = """name: wide
steps:
  wait:
    each: 4
    command: echo begin >> log; sleep 0.3; echo end >> log
"""
        for limit, most in (("1", 1), ("3", 3)):
            self.dure("pipeline", "run", self.pipeline(text), "--fresh", "--parallel", limit, code=0)
            now = highest = 0
            for line in (self.dir / "log").read_text().split():
                now += 1 if line == "begin" else -1
                highest = max(highest, now)
            (self.dir / "log").unlink()
            self.assertEqual(highest, most)

    # ---- failing
    def test_failures_retries_and_timeouts(self):
        flow = self.pipeline("""name: bad
steps:
  third: {retries: 2, command: "echo x >> tries; test $(wc -l < tries) -ge 3 && echo good > ${{ out }}/it"}
  never: {needs: third, command: "echo half > ${{ out }}/half; echo out of luck; exit 7"}
  after: {needs: [never], command: "echo after >> ran"}
""")
        done = self.dure("pipeline", "run", flow, code=1)
        self.assertIn("attempt 3 follows", done.err)
        self.assertRegex(done.err, r"bad\.1 failed: never failed: .*exited with 7")
        self.assertEqual(self.states("bad"), {"third": "succeeded", "never": "failed", "after": "waiting"})
        self.assertEqual(sorted(self.outputs("bad.1")), ["third/it"])
        self.assertEqual(self.ran(), [])
        # Resumed, only what failed is tried again.
        self.dure("pipeline", "run", "--resume", "bad", code=1)
        self.assertEqual((self.dir / "tries").read_text().count("x"), 3)
        slow = self.pipeline("name: slow\nsteps:\n  a: {command: sleep 60, timeout: 300ms}\n")
        self.assertIn("deadline", self.dure("pipeline", "run", slow, code=1).err)
        missing = self.pipeline("name: none\nsteps:\n  a: {command: [no-such-program]}\n")
        self.assertIn("no-such-program", self.dure("pipeline", "run", missing, code=1).err)

    def test_mistakes_are_told_all_at_once(self):
        path = self.pipeline("""name: oops
parameters: {epochs: 3}
steps:
  copy: {command: "echo ${{ epoch }}"}
  train:
    command: echo
    needs: [copie]
    retrys: 2
  a: {needs: b, command: x}
  b: {needs: a, command: x, inputs: [nofile]}
  j: {job: {workers: -2, train: {data: x, model: mlp}}}
  both: {command: x, job: y.yaml}
""")
        done = self.dure("pipeline", "check", path, code=2)
        for wanted in (r":4:19: steps\.copy\.command: no parameter 'epoch'; did you mean 'epochs'\?",
                       r":7:13: steps\.train\.needs: no step 'copie'; did you mean 'copy'\?",
                       r":8:5: steps\.train\.retrys: unknown field; did you mean \"steps\.train\.retries\"\?",
                       r"steps\.a\.needs: the steps wait for each other: a → b → a",
                       r"steps\.b\.inputs: no file or directory .*nofile",
                       r":11:22: steps\.j\.job\.workers: must be 1 or more, got -2",
                       r"steps\.both: must have only one of command and job"):
            self.assertRegex(done.err, wanted)
        self.assertEqual(self.dure("pipeline", "run", path, code=2).out, "")
        self.assertIsNone(self.ps("oops"))
        self.assertFalse(json.loads(self.dure("pipeline", "check", path, "--json", code=2).out)["ok"])
        good = self.flow()
        done = self.dure("pipeline", "run", good, "--set", "parts=many", "--set", "wrod=x", code=2)
        self.assertIn("--set parts: must be a whole number, got \"many\"", done.err)
        self.assertIn("--set wrod: no parameter 'wrod'; did you mean 'word'?", done.err)

    def test_editors_know_what_a_pipeline_may_say(self):
        schema = json.loads(self.dure("schema", "--pipeline", code=0).out)
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema)
        example = yaml.safe_load((harness.ROOT / "examples/imdb/pipeline.yaml").read_text())
        self.assertEqual([error.message for error in validator.iter_errors(example)], [])
        self.dure("pipeline", "check", harness.ROOT / "examples/imdb/pipeline.yaml", code=0)
        for wrong in ({"nmae": "x"}, {"steps": {"a": {"comand": "x"}}}, {"steps": {"a": {"command": "x", "retries": -1}}},
                      {"steps": {"a": {"service": {"command": "x", "type": "Loadbalancer"}}}}):
            mistaken = {"name": "x", "steps": {"a": {"command": "x"}}, **wrong}
            self.assertTrue(list(validator.iter_errors(mistaken)), wrong)
            self.dure("pipeline", "check", self.pipeline(yaml.safe_dump(mistaken)), code=2)

    # ---- stopping and killing
    def test_stop(self):
        flow = self.pipeline("name: long\nsteps:\n  a: {each: 2, command: sleep 300}\n  b: {needs: a, command: 'true'}\n")
        name = self.dure("pipeline", "run", flow, "--detach", "--parallel", "2", code=0).out.strip()
        self.assertEqual(name, "long.1")
        wait_until(lambda: len(self.ranks()) >= 1, 30, "a step that runs")
        self.assertIn("is running", self.dure("rm", "long", code=2).err)
        self.dure("stop", "long", code=0)
        self.assert_nothing_left()
        self.assertEqual(self.ps("long")["status"], "stopped")
        self.assertEqual(self.states("long"), {"a": "stopped", "b": "waiting"})
        running = self.start("pipeline", "run", "--resume", "long")
        wait_until(lambda: len(self.ranks()) >= 1, 30, "a step that runs again")
        running.send(signal.SIGINT)
        self.assertEqual(running.wait().code, 130)

    def kill_everything(self):
        for _ in range(50):
            left = self.processes()
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if not left:
                return
            time.sleep(0.01)

    def test_killed_at_random_moments(self):
        flow = self.flow(pause=0.15)
        self.dure("pipeline", "run", flow, code=0)
        wanted = self.outputs("flow.1")
        dice = random.Random(18112026)
        kills = 0
        for number in range(2, 5):
            running = self.start("pipeline", "run", flow, "--fresh")
            while True:
                time.sleep(dice.uniform(0.05, 1.5))
                if running.process.poll() is not None:
                    break
                kills += 1
                if dice.random() < 0.5:
                    running.process.kill()  # only the process in charge: what it has started ends by itself
                    running.process.wait()
                    self.assert_nothing_left(within=5)
                else:
                    self.kill_everything()
                    running.process.wait()
                if not self.run_dir(f"flow.{number}").exists():
                    running = self.start("pipeline", "run", flow, "--fresh")
                    continue
                self.assertIn(self.ps("flow")["status"], ("lost", "succeeded"))
                if self.ps("flow")["status"] == "succeeded":
                    break
                running = self.start("pipeline", "run", "--resume", "flow", "--fresh")
            self.assertEqual(self.ps("flow")["status"], "succeeded", running.err)
            self.assertEqual(self.outputs(f"flow.{number}"), wanted)
            self.assertFalse(list((self.run_dir(f"flow.{number}") / "work").glob("*")))
            self.assert_nothing_left()
        harness.report(f"{kills} kills in 3 runs: the same bytes at the end")
        self.assertGreater(kills, 3)

    # ---- services and jobs
    def service(self, port, name="web"):
        return self.pipeline(f"""name: {name}
parameters: {{text: one}}
steps:
  page: {{command: "echo ${{{{ text }}}} > ${{{{ out }}}}/index.html"}}
  serve:
    service:
      command: "exec {harness.PYTHON} -m http.server {port} --bind 127.0.0.1 --directory ${{{{ steps.page }}}}"
      port: {port}
      ready: /index.html
  ask:
    needs: serve
    command: "{harness.PYTHON} -c 'import urllib.request as u; print(u.urlopen(\\"http://127.0.0.1:{port}/\\").read().decode())'"
""")

    def test_a_service_stays_until_it_is_stopped(self):
        flow = self.service(free_port())
        done = self.dure("pipeline", "run", flow, code=0)
        self.assertIn("ask   │ one", done.out)
        self.assertEqual(self.ps("web")["status"], "succeeded")
        self.assertEqual(self.states("web")["serve"], "ready")
        self.assertTrue(self.processes())
        # The same pipeline again takes its place.
        again = self.dure("pipeline", "run", flow, "--set", "text=two", code=0)
        self.assertIn("ask   │ two", again.out)
        self.assertEqual(self.states("web.1")["serve"], "ended")
        self.assertIn("is running", self.dure("rm", "web", code=2).err)
        self.dure("stop", "web", code=0)
        self.assert_nothing_left()
        self.assertEqual(self.states("web")["serve"], "ended")
        self.dure("rm", "web.1", "web.2", code=0)

    def test_a_service_that_fails_or_outlives_a_kill(self):
        broken = self.pipeline("name: no\nsteps:\n  s: {service: {command: exit 3, port: %d}}\n" % free_port())
        self.assertRegex(self.dure("pipeline", "run", broken, code=1).err, r"s failed: .*exited with 3")
        late = self.pipeline("name: late\nsteps:\n  s: {timeout: 500ms, service: {command: sleep 60, port: %d}}\n" % free_port())
        self.assertIn("it was not ready", self.dure("pipeline", "run", late, code=1).err)
        self.assert_nothing_left()
        port = free_port()
        text = pathlib.Path(self.service(port, "kept")).read_text() + "  wait: {needs: ask, command: sleep 1}\n"
        running = self.start("pipeline", "run", self.pipeline(text))
        wait_until(lambda: "ask succeeded" in running.err, 30, "the service answers")
        running.process.kill()
        running.process.wait()
        before = len(self.processes())
        self.assertGreater(before, 0)
        self.dure("pipeline", "run", "--resume", "kept", code=0)
        self.assertEqual(self.states("kept")["serve"], "ready")
        self.assertEqual(self.steps("kept")["serve"]["parts"][0]["run"], "serve.1")
        self.dure("stop", "kept", code=0)
        self.assert_nothing_left()

    def test_jobs(self):
        self.write("sum.yaml", "workers: 2\nprogram: {command: 'echo $DURE_RANK of $WORLD > ${OUT}/$DURE_RANK'}\n"
                               "env: {WORLD: 2, OUT: nowhere}\n")
        flow = self.pipeline("""name: jobs
parameters: {workers: 2}
steps:
  inline:
    job:
      workers: ${{ workers }}
      env: {OUT: "${{ out }}"}
      program: {command: 'test -d $OUT && echo rank $DURE_RANK > $OUT/$DURE_RANK'}
  file:
    needs: inline
    job: sum.yaml
    set: {env.OUT: "${{ out }}", env.WORLD: "2"}
""")
        self.dure("pipeline", "run", flow, code=0)
        self.assertEqual(sorted(self.outputs("jobs.1")), ["file/0", "file/1", "inline/0", "inline/1"])
        self.dure("pipeline", "run", flow, "--set", "workers=1", code=0)
        self.assertEqual(self.states("jobs"), {"inline": "succeeded", "file": "succeeded"})

    def test_values_are_words_of_the_shell(self):
        flow = self.pipeline("""name: quoted
parameters: {text: ''}
steps:
  a: {command: "printf %s ${{ text }} > ${{ out }}/a; echo $${{ text }}"}
  b: {each: [x y, "$(touch pwned)"], command: "printf %s ${{ item }} > ${{ out }}/b"}
""")
        nasty = "a b; touch pwned '$HOME' ${{ out }}"
        done = self.dure("pipeline", "run", flow, "--set", f"text={nasty}", code=1)
        self.assertIn("bad substitution", (done.out + done.err).lower())
        volume = self.run_dir("quoted.1") / "volume"
        flow = self.pipeline(pathlib.Path(flow).read_text().replace("; echo $${{ text }}", ""))
        self.dure("pipeline", "run", flow, "--set", f"text={nasty}", code=0)
        volume = self.run_dir("quoted.2") / "volume"
        self.assertEqual((volume / "a/a").read_text(), nasty)
        self.assertEqual([(volume / f"b/{i}/b").read_text() for i in (0, 1)], ["x y", "$(touch pwned)"])
        self.assertFalse((self.dir / "pwned").exists())


harness.main()
