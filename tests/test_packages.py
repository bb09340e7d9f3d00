"""What `make install` and `make deb` make of build/: files where people look for them, and a package that works in a
Debian that has nothing else of ours."""
import os
import pathlib
import re
import subprocess

import harness

TOOLS = harness.ROOT / "tools"


class Installed(harness.Case):
    def install(self, prefix):
        root = self.dir / "root"
        harness.run_text([TOOLS / "install", prefix, root])
        return root

    def test_python_finds_the_module_and_shells_their_completions(self):
        for prefix, zsh in (("/usr", "vendor-completions"), ("/usr/local", "site-functions")):
            with self.subTest(prefix=prefix):
                root = self.install(prefix)
                found = list(root.glob(f"{prefix[1:]}/lib/python3*/dist-packages/dure_torch*.so"))
                self.assertEqual(len(found), 1, found)
                folder = "/" + str(found[0].parent.relative_to(root))
                self.assertIn(folder, harness.run_text([harness.PYTHON, "-c", "import sys; print('\\n'.join(sys.path))"],
                                                       env={}).splitlines())
                harness.run_text([harness.PYTHON, "-c", "import torch, dure_torch"],
                                 env={"PYTHONPATH": str(found[0].parent)})
                for path in ("bin/dure", "bin/dure-agent", "bin/dure-trainer", "bin/dure-server", f"share/zsh/{zsh}/_dure",
                             "share/bash-completion/completions/dure", "share/fish/vendor_completions.d/dure.fish",
                             "share/man/man1/dure.1.gz", "share/man/man1/dure-serve.1.gz", "share/doc/dure/LICENSE",
                             "share/doc/dure/docs/job-file.md", "share/doc/dure/examples/fashion-mnist.yaml"):
                    self.assertTrue((root / prefix[1:] / path).is_file(), path)
                done = self.start("run", "--", "true", program=root / prefix[1:] / "bin/dure").wait()
                self.assertEqual(done.code, 0, done.err)

    def test_a_man_page_for_every_command_that_is_listed(self):
        folder = self.dir / "man"
        harness.run_text([TOOLS / "man-pages", harness.DURE, folder])
        listed = re.findall(r"^  ([a-z]+) {2,}\S", self.dure("--help", code=0).out.split("Subcommands:")[1], re.MULTILINE)
        self.assertIn("run", listed)
        self.assertEqual(sorted(path.name for path in folder.iterdir()),
                         sorted(["dure.1", *(f"dure-{command}.1" for command in listed)]))
        for path in folder.iterdir():
            warnings = subprocess.run(["groff", "-man", "-ww", "-z", "-Kutf8", path], capture_output=True, text=True, check=True)
            self.assertEqual(warnings.stderr, "", path.name)
        page = harness.run_text(["groff", "-man", "-Tutf8", "-P-cbou", "-Kutf8", folder / "dure-run.1"])
        for words in ("dure run [OPTIONS] [JOB.yaml]", "-w, --workers N", "How many workers", "dure(1)"):
            self.assertIn(words, page)


class Package(harness.Case):
    def test_lintian_finds_no_error(self):
        package = harness.run_text([TOOLS / "package"]).strip()
        self.assertRegex(package, rf"^build/dure_{re.escape(self.dure('--version').out.split()[1])}_\w+\.deb$")
        found = subprocess.run(["lintian", "--allow-root", "--fail-on", "error", harness.ROOT / package],
                               capture_output=True, text=True)
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)

    def test_it_installs_in_a_fresh_debian_and_runs_the_first_example(self):
        self.assertEqual(os.getuid(), 0, "making a fresh Debian needs root")
        # Where the packages that it downloads are kept.
        cache = {"DURE_CACHE": os.environ.get("DURE_CACHE", str(pathlib.Path.home() / ".cache/dure"))}
        done = self.start(program=TOOLS / "check-packages", env=cache).wait(1100)
        self.assertEqual(done.code, 0, done.out[-3000:] + done.err[-3000:])
        self.assertIn("dure: fashion-mnist.1 succeeded", done.err)
        harness.report(done.out.splitlines()[-1])


harness.main()
