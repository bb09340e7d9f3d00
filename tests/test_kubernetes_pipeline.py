"""Pipelines on a cluster: steps share a claim, nothing that is done is done again, services stay, nothing is left behind."""
import contextlib
import json
import os
import random
import re
import shutil
import signal
import time

import yaml

import harness
from kubernetes import TRAINER_IMAGE, OnKubernetes, RunsOnKubernetes

# What a part leaves is what everybody who needs it finds. The folder comes along: it is one of its own, in which the
# test's own output does not grow meanwhile.
FLOW = """name: {name}
parameters:
  parts: 2
  word: {{default: tree, type: text}}
kubernetes: {{storage: {{size: 100Mi}}}}
steps:
  write:
    inputs: [words]
    command: sort words > ${{{{ out }}}}/words; echo ${{{{ word }}}} >> ${{{{ out }}}}/words
  count:
    each: ${{{{ parts }}}}
    command: sleep {pause}; head -n 1${{{{ index }}}} ${{{{ steps.write }}}}/words | sha256sum > ${{{{ out }}}}/sum; echo part ${{{{ index }}}}
  add:
    command: cat ${{{{ steps.count }}}}/*/sum > ${{{{ out }}}}/all
"""


class ClusterPipeline(RunsOnKubernetes, OnKubernetes, harness.Case):
    images = "all"

    def flow(self, name="flow", pause=0, more=""):
        self.write("work/words", "".join(f"word{i * 37 % 101}\n" for i in range(101)))
        return str(self.write("work/pipeline.yaml", FLOW.format(name=name, pause=pause) + more))

    def run_flow(self, *words, code=0, timeout=300):
        return self.dure("pipeline", "run", *words, "--on", "kubernetes", "-n", self.namespace, code=code, timeout=timeout)

    def states(self, run):
        return {step["name"]: step["state"] for step in self.json("describe", run)["steps"]}

    def claims(self):
        return [claim["metadata"]["name"] for claim in self.objects("pvc", "dure/part=pipeline-volume")]

    def nothing_runs(self):
        """Managers end a moment after their runs."""
        def running():
            return [pod["metadata"]["name"] for pod in self.pods() if pod["status"]["phase"] in ("Pending", "Running")]
        try:
            self.wait_until(lambda: not running(), "nothing runs that nobody needs", 20)
        except AssertionError as failure:
            raise AssertionError(f"{failure}: {running()}") from None

    def test_steps_share_a_claim_and_are_cached(self):
        flow = self.flow()
        done = self.run_flow(flow)
        self.assertIn("flow.1 succeeded", done.err)
        self.assertIn("count-1 │ part 1", done.out)
        self.assertEqual(set(self.states("flow").values()), {"succeeded"})
        listed = self.dure("pipeline", "ls-volume", "flow", code=0, timeout=120).out
        for path in ("write/words", "count/0/sum", "count/1/sum", "add/all"):
            self.assertIn(path, listed)
        self.dure("fetch", "flow", "add/all", "first", code=0, timeout=120)
        self.assertEqual((self.dir / "first").read_text().count("\n"), 2)
        # The same on this machine: the same bytes.
        self.dure("pipeline", "run", flow, code=0)
        self.assertEqual((self.run_dir("flow.2") / "volume/add/all").read_bytes(), (self.dir / "first").read_bytes())

        again = self.run_flow(flow)
        self.assertEqual(set(self.states("flow.3").values()), {"cached"})
        self.assertNotIn("part 1", again.out)
        other = self.run_flow(flow, "--set", "parts=3")
        self.assertIn("part 2", other.out)
        self.assertNotIn("part 1", other.out)
        self.assertEqual(self.claims(), ["flow-volume"])
        self.nothing_runs()
        self.assertIn("count-1 │ part 1", self.dure("logs", "flow.1", code=0).out)
        # An earlier run may go, and the claim goes with the last.
        self.dure("rm", "flow.1", "flow.2", "flow.3", code=0, timeout=200)
        self.dure("fetch", "flow", "add/all", "last", code=0, timeout=120)
        self.assertTrue((self.dir / "last").read_text().startswith((self.dir / "first").read_text()))
        self.dure("rm", "flow", code=0, timeout=200)
        self.wait_until(lambda: not self.claims(), "the claim goes with the last run")
        self.wait_until_nothing_is_left()

    def test_killed_at_random_moments(self):
        flow = self.flow(pause=3)
        self.dure("pipeline", "run", flow, code=0)
        wanted = (self.run_dir("flow.1") / "volume/add/all").read_bytes()
        dice = random.Random(18112026)
        running = self.start("pipeline", "run", flow, "--on", "kubernetes", "-n", self.namespace)
        kills = 0
        while True:
            time.sleep(dice.uniform(1, 8))
            if running.process.poll() is not None and self.run_dir("flow.2").exists():
                break
            kills += 1
            for pid in self.processes() if dice.random() < 0.5 else [running.process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            running.process.wait()
            if kills % 2:  # a manager or a task, whatever is there
                pods = [pod["metadata"]["name"] for pod in self.pods("dure/job") if pod["status"]["phase"] == "Running"]
                if pods:
                    self.kubectl("delete", "pod", dice.choice(pods), "-n", self.namespace, "--force", "--grace-period=0")
            again = ["--resume", "flow.2"] if self.run_dir("flow.2").exists() else [flow, "--on", "kubernetes", "-n", self.namespace]
            running = self.start("pipeline", "run", *again)
        self.assertEqual(running.wait(10).code, 0, running.err)
        self.dure("fetch", "flow.2", "add/all", "home", code=0, timeout=120)
        self.assertEqual((self.dir / "home").read_bytes(), wanted)
        listed = self.dure("pipeline", "ls-volume", "flow.2", "--json", code=0, timeout=120).out
        self.assertEqual(sorted(file["path"] for file in json.loads(listed)["files"]),
                         ["add/all", "count/0/sum", "count/1/sum", "write/words"])
        self.assert_nothing_left()
        self.nothing_runs()
        harness.report(f"{kills} kills: the same bytes at the end")
        self.assertGreater(kills, 2)

    def test_a_server_that_is_there_before_its_model(self):
        flow = self.write("work/pipeline.yaml", """name: early
parameters: {value: 1}
steps:
  serve:
    service:
      command: mkdir -p ${{ out }} && exec python3 -m http.server 8080 --directory ${{ volume }}
      port: 8080
      type: ClusterIP
  make:
    needs: serve
    command: "echo made ${{ value }} > ${{ out }}/model"
""")
        self.run_flow(flow)
        ask = self.probe()
        self.assertEqual(ask("http://early-serve/make/model").strip(), "made 1")
        self.run_flow(flow, "--set", "value=2")
        self.assertEqual(ask("http://early-serve/make/model").strip(), "made 2")
        # Only the service of the run that has it is stopped.
        self.dure("stop", "early.1", code=0, timeout=120)
        self.assertEqual(ask("http://early-serve/make/model").strip(), "made 2")
        self.dure("rm", "early.1", code=0, timeout=200)
        self.dure("stop", "early", code=0, timeout=120)
        self.assertEqual(self.objects("deployments,services", "dure/service"), [])

    def test_stop_and_resume(self):
        flow = self.write("work/long.yaml", """name: long
steps:
  first: {command: "echo done > ${{ out }}/it"}
  wait: {needs: first, command: "test -e go.txt || sleep 300", inputs: [go.txt], retries: 0}
""")
        self.write("work/go.txt", "")
        (self.dir / "work/go.txt").unlink()
        self.assertIn("no file or directory", self.dure("pipeline", "check", flow, code=2).err)
        flow.write_text(flow.read_text().replace(", inputs: [go.txt]", ""))
        name = self.run_flow(flow, "--detach").out.strip()
        self.assertEqual(name, "long.1")
        self.wait_until(lambda: self.states("long")["wait"] == "running" and self.tasks_of_part("wait"), "it waits", 90)
        self.assertIn("is running", self.dure("rm", "long", code=2).err)
        self.dure("stop", "long", code=0, timeout=120)
        self.assertEqual(self.ps("long")["status"], "stopped")
        self.assertEqual(self.states("long"), {"first": "succeeded", "wait": "stopped"})
        self.nothing_runs()
        self.write("work/go.txt", "")  # the folder is sent again
        done = self.dure("pipeline", "run", "--resume", "long", code=0, timeout=200)
        self.assertIn("long.1 succeeded", done.err)
        self.assertNotIn("first running", done.err)

    def tasks_of_part(self, part):
        return [pod for pod in self.pods("dure/part=task") if f"-{part}-" in pod["metadata"]["name"]
                and pod["status"]["phase"] == "Running"]

    def test_the_page_waits_for_a_model_that_is_trained_meanwhile(self):
        shutil.copytree(harness.ROOT / "examples/imdb", self.dir / "imdb")
        flow = self.write("imdb/first.yaml", """name: first
steps:
  serve:
    service: {command: "exec dure serve ${{ volume }}/train/final.h5 --port 8080", port: 8080, ready: /healthz, type: NodePort}
  data: {needs: serve, inputs: [make_reviews.py], command: "python3 make_reviews.py --from make_reviews.py --to ${{ out }}"}
  train:
    job: {workers: 1, train: {model: text, data: "${{ steps.data }}/reviews.npz", epochs: 1}, output: "${{ out }}/final.h5"}
""")
        running = self.start("pipeline", "run", flow, "--on", "kubernetes", "-n", self.namespace)
        self.wait_until(lambda: self.objects("deployments") and self.objects("deployments")[0]["status"].get("availableReplicas"),
                        "the server runs", 120)
        ask = self.probe()
        self.assertIn("<title>", ask("http://first-serve/"))
        waiting = json.loads(ask("http://first-serve/api/models"))["models"][0]
        self.assertEqual((waiting["name"], waiting["state"]), ("final", "waiting"))
        self.assertEqual(running.wait(240).code, 0, running.err)
        self.wait_until(lambda: json.loads(ask("http://first-serve/api/models"))["models"][0]["state"] == "ready", "the model is taken up")
        prediction = ask("http://first-serve/v1/models/final:predict", json.dumps({"instances": ["good1 bad2"]}))
        self.assertEqual(len(json.loads(prediction)["predictions"][0]), 2)

    def test_the_documented_rights_are_enough(self):
        rules = []
        for page, name in (("kubernetes.md", "dure-user"), ("pipelines.md", "dure-services")):
            blocks = re.findall(r"```yaml\n(.*?)```", (harness.ROOT / "docs" / page).read_text(), re.S)
            roles = [role for block in blocks for role in yaml.safe_load_all(block) if role.get("kind") == "Role"]
            rules += next(role["rules"] for role in roles if role["metadata"]["name"] == name)
        # Whoever makes a Role may grant only what he has himself.
        rules += next(role["rules"] for block in re.findall(r"```yaml\n(.*?)```", (harness.ROOT / "docs/kubernetes.md").read_text(), re.S)
                      for role in yaml.safe_load_all(block) if role.get("kind") == "Role" and role["metadata"]["name"] == "dure-manager")
        self.env["KUBECONFIG"] = self.limited_user(rules)
        flow = self.write("work/pipeline.yaml", """name: least
steps:
  make: {command: "echo it > ${{ out }}/file"}
  serve: {service: {command: "exec python3 -m http.server 8080 --directory ${{ steps.make }}", port: 8080}}
""")
        done = self.run_flow(flow)
        self.assertIn("least.1 succeeded", done.err)
        self.dure("pipeline", "ls-volume", "least", code=0, timeout=120)
        self.dure("logs", "least", "--step", "serve", code=0)
        self.dure("stop", "least", code=0, timeout=120)
        self.dure("rm", "least", code=0, timeout=200)
        self.env["KUBECONFIG"] = self.kubeconfig
        self.wait_until_nothing_is_left()

    def test_mistakes_and_what_cannot_be_had(self):
        flow = self.flow()
        wrong = self.dure("pipeline", "run", flow, "--on", "kubernetes", "--context", "nowhere", code=2)
        self.assertIn("nowhere", wrong.err)
        self.assertIsNone(self.ps("flow"))
        bad = self.write("work/bad.yaml", "name: bad\nsteps:\n  a: {command: \"echo out of luck >&2; exit 7\"}\n")
        done = self.run_flow(bad, code=1)
        self.assertRegex(done.err, r"bad\.1 failed: a failed: .*exited with 7.*out of luck")
        odd = self.write("work/odd.yaml", "name: odd\nclaim: missing.one\nsteps: {a: {command: 'true'}}\n")
        self.assertIn("there is no claim missing.one", self.run_flow(odd, code=2).err)
        odd = self.write("work/odd.yaml", "name: odd\nkubernetes: {storage: {class: no-such}}\nsteps: {a: {command: 'true'}}\n")
        self.assertIn("there is no storage class no-such", self.run_flow(odd, code=2).err)
        self.assertIsNone(self.ps("odd"))
        self.nothing_runs()

    # ---- the flow of examples/imdb
    def probe(self):
        """A pod of the namespace that asks Services as a person's browser would; returns what asks."""
        self.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "namespace": self.namespace},
                     "spec": {"containers": [{"name": "probe", "image": TRAINER_IMAGE, "command": ["sleep", "3600"]}]}})
        self.kubectl("wait", "pod/probe", "-n", self.namespace, "--for=condition=Ready", "--timeout=60s")

        def ask(url, body=None):
            script = ("import sys, urllib.request as u; "
                      "print(u.urlopen(sys.argv[1], sys.argv[2].encode() if sys.argv[2] else None, timeout=20).read().decode())")
            return self.kubectl("exec", "-n", self.namespace, "probe", "--", "python3", "-c", script, url, body or "")
        return ask

    def test_imdb_in_one_command(self):
        shutil.copytree(harness.ROOT / "examples/imdb", self.dir / "imdb")
        few = ["--set", "workers=2", "--set", "epochs=2"]
        done = self.run_flow("imdb/pipeline.yaml", *few, timeout=600)
        table = re.findall(r"(model \d alone|average of 2|sync: step|sync: \{every: 50\}) +(0\.\d+) +\S+ +(\S+)", done.out)
        self.assertEqual([name for name, _, _ in table],
                         ["model 0 alone", "model 1 alone", "average of 2", "sync: step", "sync: {every: 50}"])
        self.assertGreater(float(table[2][1]), 0.75, done.out)
        ask = self.probe()
        self.assertIn("<title>", ask("http://imdb-serve/"))
        body = json.dumps({"instances": ["good1 good2 good3 word5"]})
        first = ask("http://imdb-serve/v1/models/final:predict", body)
        self.assertEqual(len(json.loads(first)["predictions"][0]), 2)
        self.assertIn("dure-server", self.dure("logs", "imdb", "--step", "serve", code=0).out)
        # Once more, without deleting anything: nothing is trained again, and the server stays.
        self.run_flow("imdb/pipeline.yaml", *few, timeout=300)
        states = self.states("imdb")
        self.assertEqual((states["train"], states["every-50"], states["serve"]), ("cached", "cached", "ready"))
        self.assertEqual(self.states("imdb.1")["serve"], "ended")
        self.assertEqual(ask("http://imdb-serve/v1/models/final:predict", body), first)
        self.assertIn("is running", self.dure("rm", "imdb", code=2).err)
        self.dure("stop", "imdb", code=0)
        self.assertEqual(self.states("imdb")["serve"], "stopped")
        self.dure("rm", "imdb.1", "imdb.2", code=0, timeout=300)
        self.kubectl("delete", "pod", "probe", "-n", self.namespace, "--now")
        self.wait_until_nothing_is_left()


harness.main()
