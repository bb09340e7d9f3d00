"""The model server's page, in Chromium: what a person sees and does there.

Against a server of one's own: DURE_TEST_PAGE_URL=http://HOST:PORT, with DURE_TEST_PAGE_MODELS='{"text": NAME, "image":
NAME}' for a model of reviews and one of grey pictures of 28x28 in 10 classes. Then only what any such server does is tested.
DURE_TEST_SCREENSHOTS=FOLDER keeps pictures of what was seen.
"""
import base64
import io
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from PIL import Image, ImageDraw

import harness
import native
import serve_fake
import serving

OWN_SERVER = os.environ.get("DURE_TEST_PAGE_URL", "")
fake_only = unittest.skipIf(OWN_SERVER, "needs a server whose answers the test sets")


def picture_of(encoded):
    return Image.open(io.BytesIO(base64.b64decode(encoded)))


page_folder = None


def setUpModule():
    """The page as the build makes it, in a place that no build changes meanwhile."""
    global page_folder
    made = pathlib.Path(tempfile.mkdtemp(prefix="dure-page-"))
    unittest.addModuleCleanup(shutil.rmtree, made)
    harness.run_text([harness.ROOT / "tools/embed-page", "serve", made / "serve", made / "page.cc"])
    page_folder = made / "serve"


class PageSources(unittest.TestCase):
    def npm(self, *arguments):
        return harness.run_text(["npm", "--silent", *arguments], cwd=harness.ROOT / "web")

    def test_types(self):
        self.npm("run", "check")

    def test_functions(self):
        self.assertRegex(self.npm("test"), r"(?m)^(#|ℹ) pass [1-9]")

    def test_lock_file_names_no_registry(self):
        packages = json.loads((harness.ROOT / "web/package-lock.json").read_text())["packages"]
        self.assertEqual([name for name, package in packages.items() if "resolved" in package], [])

    def test_lock_file_is_for_every_processor(self):
        """npm ci refuses a lock file that lacks a package of another processor, as registries sometimes do."""
        packages = json.loads((harness.ROOT / "web/package-lock.json").read_text())["packages"]
        wanted = {f"node_modules/{name}" for package in packages.values() for name in package.get("optionalDependencies", ())}
        self.assertIn("node_modules/@esbuild/linux-arm64", wanted)
        self.assertEqual(wanted - packages.keys(), set())


class AnyServer:
    """What the page does in front of any server with a model of texts and one of pictures. For a harness.Case; it comes
    before the case among the bases."""
    @classmethod
    def setUpClass(cls):
        cls.modules = harness.run_text([harness.ROOT / "tools/node-peers"]).strip() + "/node_modules"

    server = None  # a fake one, whose answers the test sets
    options = {}

    def browse(self, scenario, on_seen=None, **options):
        """Plays the scenario of tests/js/serve_page.mjs; its result. on_seen[WORD]() is called when it tells of WORD."""
        file = self.write("options.json", json.dumps({**self.options, **options}))
        err = self.enterContext(open(self.dir / "browser.err", "wb"))
        # node may lie elsewhere than Debian's.
        process = subprocess.Popen(["node", harness.ROOT / "tests/js/serve_page.mjs", self.modules, self.url, scenario, file],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True, bufsize=1,
                                   env={**self.env, "PATH": os.environ["PATH"]}, cwd=self.dir)
        result = {}
        with process.stdin, process.stdout:
            for line in process.stdout:
                told = json.loads(line)
                if "seen" in told and on_seen:
                    on_seen[told["seen"]]()
                    process.stdin.write("\n")
                result = told.get("result") or result
        self.assertEqual(process.wait(60), 0, (self.dir / "browser.err").read_text(errors="replace")[-4000:])
        return result

    def by_shell(self, command):
        done = subprocess.run(["sh", "-c", command.replace("curl ", "curl -sS ", 1)], capture_output=True,
                              text=True, timeout=30, env={**self.env, "TOKEN": self.options.get("token", "")})
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_review_is_predicted_and_its_words_are_marked(self):
        seen = self.browse("text")
        answer = self.by_shell(seen["predict"])["predictions"][0]
        # One output is the second class; of two, the second one is.
        self.assertAlmostEqual(seen["shown"][1], 100 * answer[-1], delta=0.11, msg="the page shows what curl gets")
        explained = self.by_shell(seen["explain"])
        self.assertTrue(all(word["text"] for word in explained["words"]))
        if self.server:
            self.assertIn("positive", seen["delighted"])
            self.assertEqual(seen["marked"], ["terrible", "terrible", "boring"])

    def test_drawing_and_pictures_are_predicted(self):
        sample = Image.new("L", (28, 28))
        sample.putdata([(x * 9 + y * 5) % 256 for y in range(28) for x in range(28)])
        sample.save(self.dir / "sample.png")
        # A dark thing on a light page, as a photograph has it.
        photo = Image.new("RGB", (600, 400), "white")
        ImageDraw.Draw(photo).rectangle([250, 100, 350, 300], fill="black")
        photo.save(self.dir / "photo.png")
        seen = self.browse("image", picture=str(self.dir / "sample.png"), photo=str(self.dir / "photo.png"))

        drawn = picture_of(seen["drawn"])
        self.assertEqual((drawn.mode, drawn.size), ("L", (28, 28)))
        self.assertGreater(max(drawn.getdata()), 200)
        self.assertEqual(drawn.getpixel((0, 0)), 0)
        answer = self.by_shell(seen["command"])["predictions"][0]
        for shown, value in zip(seen["shown"], answer, strict=True):
            self.assertAlmostEqual(shown, 100 * value, delta=0.11)
        self.assertEqual(list(picture_of(seen["chosen"]).getdata()), list(sample.getdata()))
        dropped = picture_of(seen["dropped"])
        self.assertEqual(dropped.getpixel((0, 0)), 0, "light ground became dark")
        self.assertGreater(dropped.getpixel((14, 14)), 200, "the dark thing became light")


class RealServer(AnyServer, serving.ServerCase):
    """dure serve, with the page that is built into it."""

    def setUp(self):
        super().setUp()
        serving.write_words(self.dir)
        native.write_images(self.dir / "images.npz", classes=10, size=28)
        for model, data, classes in (("text", "words", 2), ("convnet", "images", 10)):
            job = self.write(f"{data}.yaml", serving.JOB.format(model=model, data=f"{data}.npz", classes=classes, seed=1,
                                                                output=f"{data}.h5", more=""))
            harness.run_text([serving.TRAINER, job], cwd=self.dir)
        self.running = self.serve("words.h5", "images.h5")
        self.url = f"http://127.0.0.1:{self.port}"
        self.options = {"text": "words", "image": "images", "screenshots": os.environ.get("DURE_TEST_SCREENSHOTS", "")}

    def tearDown(self):
        self.stop(self.running)
        super().tearDown()


class ServePage(AnyServer, harness.Case):
    def setUp(self):
        super().setUp()
        self.url, self.server = OWN_SERVER.rstrip("/"), None
        if not OWN_SERVER:
            self.server = serve_fake.FakeServer(page_folder)
            self.addCleanup(self.server.close)
            self.url = self.server.url
        names = {"text": "imdb", "image": "fashion-mnist", "numbers": "line"}
        self.options = {**names, **json.loads(os.environ.get("DURE_TEST_PAGE_MODELS", "{}")),
                        "screenshots": os.environ.get("DURE_TEST_SCREENSHOTS", "")}

    @fake_only
    def test_numbers_have_a_form(self):
        seen = self.browse("numbers")
        self.assertEqual(seen["sent"], {"instances": [[2.5, 0, 0]]})
        self.assertEqual(seen["shown"].strip(), "3.5")

    @fake_only
    def test_model_that_comes_later_is_taken_up(self):
        whole = dict(self.server.models[0])
        self.server.models[0] = {"name": "imdb", "file": "final.h5", "state": "waiting", "why": "final.h5 does not exist yet"}
        self.browse("waiting", {"waiting": lambda: self.server.models.__setitem__(0, whole)})

    @fake_only
    def test_newer_version_predicts_again(self):
        def replace():
            self.server.bias = -3.0
            self.server.models[0] = {**self.server.models[0], "version": 2}
        self.browse("replaced", {"predicted": replace})

    @fake_only
    def test_errors_are_a_sentence(self):
        def refuse():
            self.server.refusal = (503, "the queue is full: try again in a second")

        def heal():
            self.server.refusal = None
        self.browse("errors", {"page": refuse, "error": heal}, sentence="the queue is full: try again in a second")

    @fake_only
    def test_token_is_asked_for(self):
        self.server.token = self.options["token"] = "secret-7"
        seen = self.browse("token")
        self.assertIn("predictions", self.by_shell(seen["command"]))

    def test_several_models_can_be_chosen(self):
        about = self.browse("chooser")["about"]
        if self.server:
            for words in ("imdb.h5", "86.1%", "25,000 samples", "averaged once at the end", "160,305"):
                self.assertIn(words, about)

    def test_looks(self):
        self.browse("looks")

    def test_keyboard_reaches_everything(self):
        self.browse("keyboard")


if __name__ == "__main__":
    harness.main()
