"""The images of deploy/images: what is in them, on a real cluster, and how they are made."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import harness
import kubernetes
from kubernetes import BUILD_IMAGES, DURE_IMAGE, TRAINER_IMAGE

# As strict as a cluster may be with its pods.
LIMITED = {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}

# Prints what the loader does not find, and fails if there is anything.
LIBRARIES = "for program in /usr/bin/dure*; do ldd $program || true; done > /tmp/all 2>&1; ! grep 'not found' /tmp/all"

JOB = """
name: inside
workers: 2
train: {model: linear, data: data.csv, epochs: 2, batch: 8}
output: model.safetensors
"""


class ImagesOnNodes(kubernetes.OnKubernetes, harness.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        began = time.monotonic()
        for line in kubernetes.import_images().splitlines():
            name, _, *size = line.split()
            harness.report(f"{name} is {' '.join(size)}")
        harness.report(f"both images on both nodes after {time.monotonic() - began:.1f} s")

    def run_in(self, image, node="node-1", **container):
        """What a pod of this image prints. It must succeed."""
        name = f"try-{node}"
        self.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": self.namespace},
                     "spec": {"nodeName": node, "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                              "securityContext": {"runAsNonRoot": True},
                              "volumes": [{"name": "tmp", "emptyDir": {}}],
                              "containers": [{"name": "main", "image": image, "imagePullPolicy": "Never",
                                              "securityContext": LIMITED,
                                              "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
                                              **container}]}})

        def ended():
            pod = json.loads(self.kubectl("get", "pod", name, "-n", self.namespace, "-o", "json"))
            return pod["status"]["phase"] if pod["status"]["phase"] in ("Succeeded", "Failed") else None
        phase = harness.wait_until(ended, 90, f"the pod of {image} has ended")
        words = self.kubectl("logs", name, "-n", self.namespace)
        self.assertEqual(phase, "Succeeded", words)
        return words

    def shell(self, image, script):
        return self.run_in(image, command=["sh", "-eu", "-c", script])

    def test_dure_is_what_the_image_runs(self):
        version = harness.run_text([harness.DURE, "--version"])
        for node in ["node-1", "node-2"]:
            self.assertEqual(self.run_in(DURE_IMAGE, node, args=["--version"]), version)

    def test_the_image_dure_is_whole_and_nobodys_root(self):
        words = self.shell(DURE_IMAGE, f"id -u; id -un; test -x /usr/bin/dure-agent; {LIBRARIES};"
                                       "grep -c BEGIN.CERT /etc/ssl/certs/ca-certificates.crt; cd; pwd").split()
        self.assertEqual((words[0], words[1], words[3]), ("1000", "dure", "/home/dure"))
        self.assertGreater(int(words[2]), 50)

    def test_the_image_trainer_is_whole(self):
        words = self.shell(TRAINER_IMAGE, f"id -u; {LIBRARIES}; readlink -f /usr/lib/*/libblas.so.3")
        self.assertRegex(words, "^1000\n/.*/openblas-pthread/libblas.so.3\n$")

    def test_a_job_is_trained_inside_the_image_trainer(self):
        rows = "".join(f"{i % 7},{i % 3},{i % 2}\n" for i in range(64))
        words = self.shell(TRAINER_IMAGE, "cd /tmp; export DURE_STATE_DIR=/tmp/state;"
                                          f"printf '%s' '{JOB}' > job.yaml; printf 'a,b,label\n{rows}' > data.csv;"
                                          "dure run job.yaml > out 2>&1 || { cat out; false; };"
                                          "test -s model.safetensors; dure ps --json")
        self.assertEqual([run["status"] for run in json.loads(words)], ["succeeded"])

    def test_a_second_import_has_nothing_to_do(self):
        began = time.monotonic()
        kubernetes.import_images()
        seconds = time.monotonic() - began
        harness.report(f"images that are there already: {seconds:.1f} s")
        self.assertLess(seconds, 10)


class ImagesMade(harness.Case):
    """With a cache of its own."""

    def setUp(self):
        super().setUp()
        self.cache = self.dir / "cache"
        self.mine = {**os.environ, **self.env, "DURE_CACHE": str(self.cache)}

    def build(self, *words):
        """Runs it to its end: name, digest and the rest of what it prints."""
        text = harness.run_text([BUILD_IMAGES, *words, "--programs", harness.BUILD], env=self.mine)
        return text.split()

    def layers(self):
        return sorted(self.cache.glob("images/*/layer.tar"))

    def test_killed_in_the_middle_nothing_of_the_base_is_left_and_the_next_one_is_whole(self):
        out = self.dir / "out"
        killed = self.start("dure", "--out", out, "--programs", harness.BUILD, program=BUILD_IMAGES, env=self.mine)
        harness.wait_until(lambda: any(stat and stat[0] == "mmdebstrap" for stat in map(harness.stat_of, self.processes())),
                           20, "packages are being installed")
        killed.send(signal.SIGKILL)
        killed.wait()
        self.assert_nothing_left()
        self.assertEqual(self.layers(), [])
        self.assertFalse(out.exists())
        self.assertNotIn("dure-image", pathlib.Path("/proc/mounts").read_text())

        first = self.build("dure", "--out", str(out))
        self.assertEqual([path.parent.name for path in self.layers()],
                         [path.name for path in self.cache.glob("images/*") if path.is_dir()])
        archive = (out / "dure.tar").read_bytes()
        began = time.monotonic()
        self.assertEqual(self.build("dure", "--out", str(out)), first)
        harness.report(f"programs put on a base from the cache: {time.monotonic() - began:.1f} s")
        self.assertEqual((out / "dure.tar").read_bytes(), archive)

        # And from nothing, with the same packages, the same to the last byte.
        shutil.rmtree(self.cache)
        self.assertEqual(self.build("dure", "--out", str(out)), first)
        self.assertEqual((out / "dure.tar").read_bytes(), archive)

    def test_the_archive_is_what_others_read(self):
        """By GNU tar and the formats' descriptions."""
        self.mine["DURE_CACHE"] = os.environ.get("DURE_CACHE", os.path.expanduser("~/.cache/dure"))
        name, digest, *_ = self.build("dure", "--out", str(self.dir / "out"), "--tag", "example.test/mine:2")
        self.assertEqual(name, "example.test/mine:2")
        image = self.dir / "image"
        image.mkdir()
        harness.run_text(["tar", "xf", self.dir / "out/dure.tar", "-C", image])
        read = lambda entry: json.loads((image / "blobs" / entry["digest"].replace(":", "/")).read_bytes())
        index = json.loads((image / "index.json").read_bytes())
        self.assertEqual(index["manifests"][0]["digest"], digest)
        manifest = read(index["manifests"][0])
        config = read(manifest["config"])
        self.assertEqual(config["config"]["User"], "1000:1000")
        self.assertEqual(config["config"]["Entrypoint"], ["/usr/bin/dure"])
        docker = json.loads((image / "manifest.json").read_bytes())[0]
        self.assertEqual(docker["RepoTags"], [name])
        for path in docker["Layers"]:
            self.assertEqual(harness.run_text(["sha256sum", image / path]).split()[0], path.split("/")[-1])
        top = harness.run_text(["tar", "tvf", image / docker["Layers"][-1]])
        self.assertIn("-rwxr-xr-x 0/0", top)
        self.assertIn("usr/bin/dure-agent", top)

    def test_what_cannot_be_done_is_said_in_a_sentence(self):
        def refused(*words):
            done = subprocess.run([BUILD_IMAGES, *words], env=self.mine, capture_output=True, text=True)
            self.assertNotEqual(done.returncode, 0)
            return done.stderr.strip().splitlines()[-1]
        empty = self.dir / "empty"
        empty.mkdir()
        self.assertIn(f"{empty}/dure is not there", refused("dure", "--out", str(self.dir), "--programs", str(empty)))
        self.assertIn("one of --out and --import is needed", refused("dure"))
        self.assertIn("--tag is for one image", refused("all", "--tag", "x.test/y:1", "--out", str(self.dir)))


if __name__ == "__main__":
    harness.main()
