"""Every job file of examples/ runs here and on a cluster, as it stands."""
import json
import shutil

import harness
from kubernetes import TRAINER_IMAGE, OnKubernetes, RunsOnKubernetes

EXAMPLES = harness.ROOT / "examples"
# What its output has when it has done what it is there for: an example that is not named here fails.
SAYS = {
    "ddp": "images it had not seen",
    "fashion-mnist": "accuracy",
    "horovod": "rank 1 of 2 met rank 0",
    "mnist-template": "worker 1 in a cluster of 2 worker",
    "mpi": "rank 3 of 4 in worker-1: the sum of all is 6",
    "plain": "I am 3 of 4, in worker-3",
    "tensorflow": "chief 0 in a cluster of 1 chief, 1 ps, 2 worker",
}
# No registry: images are imported, and this one is empty, so that programs find what this machine has.
HOST = [{"path": path, "host": path, "read_only": True} for path in ("/usr", "/etc")]
IMPORTED = ["--set", "program.pull=Never"]
EMPTY_IMAGE = ["--set", "program.image=dure.test/host:1", "--set", f"volumes={json.dumps(HOST)}"]


class Examples:
    def setUp(self):
        super().setUp()
        shutil.copytree(EXAMPLES, self.dir / "examples", ignore=shutil.ignore_patterns("out"))
        harness.run_text(["mpicc", "-o", str(self.dir / "examples/allreduce"), str(EXAMPLES / "allreduce.c")])

    def each(self):
        """Every job file, in its subtest."""
        for file in sorted((self.dir / "examples").glob("*.yaml")):
            with self.subTest(example=file.name):
                yield file

    def assert_done(self, file, done):
        self.assertIn(SAYS[file.stem], done.out)
        harness.report(f"{file.name}: {done.seconds:.1f} s")


class Here(Examples, harness.Case):
    def test_every_example(self):
        for file in self.each():
            self.assert_done(file, self.dure("run", file, code=0, timeout=180))

    def test_no_example_lies_elsewhere(self):
        names = {str(path.relative_to(EXAMPLES)) for path in EXAMPLES.rglob("*.yaml") if "out" not in path.parts}
        # The pipeline has suites of its own: imdb, kubernetes_pipeline.
        self.assertEqual(names, {f"{name}.yaml" for name in SAYS} | {"imdb/pipeline.yaml"})


class OnACluster(Examples, RunsOnKubernetes, OnKubernetes, harness.Case):
    images = "all"

    def make_the_templates_claim(self, file):
        """By the first command at the top of the file."""
        manifests = self.dure("render", file, "--set", "deploy=false", "--set", "create_pvc_checkpoint=true", code=0).out
        self.kubectl("create", "-n", self.namespace, "-f", "-", stdin=manifests)

    def test_every_example(self):
        for file in self.each():
            if file.stem == "mnist-template":
                self.make_the_templates_claim(file)
            # Dure's own image has all that the trainer needs.
            native = "\ntrain:" in file.read_text()
            words = IMPORTED if native else IMPORTED + EMPTY_IMAGE
            self.assert_done(file, self.on_kubernetes("run", file, *words, code=0, timeout=240))

    def test_an_image_without_the_data_is_brought_it(self):
        """As PyTorch's image is, which cannot be had here."""
        words = [*IMPORTED, "--set", f"program.image={TRAINER_IMAGE}",
                 "--set", "program.command=[ls, /usr/share/datasets/fashion-mnist]"]
        done = self.on_kubernetes("run", self.dir / "examples/ddp.yaml", *words, code=0, timeout=120)
        self.assertIn("sending /usr/share/datasets/fashion-mnist", done.err)
        self.assertIn("train-images-idx3-ubyte.gz", self.lines_of(done.out, 1))


harness.main()
