"""Every command that the README tells people to type works as it is written there."""
import re
import shutil

import harness


class Readme(harness.Case):
    def test_every_command(self):
        text = (harness.ROOT / "README.md").read_text()
        blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        self.assertTrue(blocks, "the README has no commands")
        # Typed in a copy of the project, where the programs have been built already.
        place = self.dir / "dure"
        place.mkdir()
        for name in ("examples", "README.md", "Makefile", "tools"):
            source = harness.ROOT / name
            (shutil.copytree if source.is_dir() else shutil.copy)(source, place / name)
        (place / "build").symlink_to(harness.BUILD)
        for number, block in enumerate(blocks, 1):
            # What builds and trains is tested by being what builds and trains here.
            lines = [line for line in block.splitlines() if not line.startswith("make ")]
            script = self.write(f"block-{number}.sh", "set -eu\n" + "\n".join(lines) + "\n")
            done = self.start(script, program="/bin/bash", cwd=place).wait(120)
            self.assertEqual(done.code, 0, f"block {number}:\n{block}\n--- out\n{done.out}\n--- err\n{done.err}")


harness.main()
