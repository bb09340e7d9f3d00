"""The same job file here and on a cluster: data of this machine is sent along, what the run keeps stays, the output comes
home."""
import json
import pathlib
import shutil

import harness
from kubernetes import OnKubernetes, RunsOnKubernetes

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"


class SameFile(RunsOnKubernetes, OnKubernetes, harness.Case):
    images = "all"

    def claims(self, part):
        return [claim["metadata"]["name"] for claim in self.objects("pvc", f"dure/part={part}")]

    def test_the_readmes_example_runs_as_it_stands(self):
        for place in ("here", "there"):
            shutil.copytree(EXAMPLES, self.dir / place, ignore=shutil.ignore_patterns("out"))
        few = ["--set", "train.steps=40", "--set", "checkpoint.every=10"]
        self.dure("run", "here/fashion-mnist.yaml", *few, code=0, timeout=180)
        expected = (self.dir / "here/out/model.h5").read_bytes()
        # Images are imported here, not pulled.
        few += ["--set", "program.pull=Never"]
        first = self.on_kubernetes("run", "there/fashion-mnist.yaml", *few, code=0, timeout=240)
        self.assertIn("sending /usr/share/datasets/fashion-mnist", first.err)
        self.assertIn(f"wrote {self.dir}/there/out/model.h5", first.err)
        self.assertEqual((self.dir / "there/out/model.h5").read_bytes(), expected)
        self.assertEqual(self.claims("storage"), ["fashion-mnist-1"])
        data = self.claims("data")
        self.assertEqual(len(data), 1)
        self.assertEqual(self.pods("dure/part=data") + self.pods("dure/part=fetch"), [], "no helper is left")

        (self.dir / "there/out/model.h5").unlink()
        again = self.on_kubernetes("run", "there/fashion-mnist.yaml", *few, code=0, timeout=240)
        self.assertNotIn("sending", again.err)
        self.assertEqual(self.claims("data"), data)
        self.assertEqual((self.dir / "there/out/model.h5").read_bytes(), expected)

        self.on_kubernetes("rm", "fashion-mnist.1", code=0)
        self.wait_until(lambda: self.claims("storage") == ["fashion-mnist-2"], "its storage goes with the run")
        self.assertEqual(self.claims("data"), data)

    def test_a_program_finds_its_data_and_leaves_its_output_where_it_does_here(self):
        self.write("work/data/words", "one two three\n")
        self.write("work/secret", "not this\n")
        script = ("cat data/words words.txt; test ! -w data/words && mkdir -p out && tr a-z A-Z < data/words > out/shout; "
                  "echo from checkpoint: $(cat steps/last 2>/dev/null); echo 7 > steps/last")
        self.write("work/words.txt", "four\n")
        fields = {"command": ["sh", "-c", script], "workers": 1, "output": "out/shout", "checkpoint": {"path": "steps"}}
        job = self.job_file("shout", program={"data": ["data", "words.txt"]}, **fields)
        run = self.on_kubernetes("run", job, "--detach", code=0).out.strip()
        self.wait_until(lambda: self.status("shout") == "succeeded", "it succeeds")
        self.assertEqual(self.lines_of(self.on_kubernetes("logs", run, code=0).out, 0)[:2], ["one two three", "four"])
        self.assertEqual(len(self.claims("data")), 2)
        fetched = self.on_kubernetes("fetch", run, code=0)
        self.assertEqual(fetched.out, "out/shout\n")
        self.assertEqual((self.dir / "out/shout").read_text(), "ONE TWO THREE\n")

    def test_an_output_that_was_not_written_is_said(self):
        job = self.job_file("silent", command=["true"], workers=1, output="out/model.h5")
        done = self.on_kubernetes("run", job, code=0)
        self.assertIn("the output was not written: there is no file or directory", done.err)
        self.assertFalse((self.dir / "work/out").exists())

    def test_too_much_data_is_refused_before_anything_is_created(self):
        with open(self.write("work/large", ""), "wb") as file:
            file.truncate(2 << 20)
        job = self.job_file("large", command=["true"], workers=1, program={"data": ["large"]},
                            kubernetes={"storage": {"data_limit": "1Mi"}})
        done = self.on_kubernetes("run", job, code=2)
        self.assertIn("put it on a claim that pods can mount, such as volumes: [{path: large, claim: NAME}]", done.err)
        self.assertEqual(self.left_over() + self.claims("data"), [])


harness.main()
