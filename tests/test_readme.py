"""Every command that the README tells people to type works as it is written there."""
import re

import harness


class Readme(harness.Case):
    def test_every_command(self):
        text = (harness.ROOT / "README.md").read_text()
        blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        self.assertTrue(blocks, "the README has no commands")
        for number, block in enumerate(blocks, 1):
            # make test is what runs this.
            lines = [line for line in block.splitlines() if not line.startswith("make test")]
            script = self.write(f"block-{number}.sh", "set -eu\n" + "\n".join(lines) + "\n")
            done = self.start(script, program="/bin/bash", cwd=harness.ROOT).wait(170)
            self.assertEqual(done.code, 0, f"block {number}:\n{block}\n--- out\n{done.out}\n--- err\n{done.err}")
            if "make demo" in block:
                accuracies = re.findall(r"\baccuracy (0\.\d+)", done.out + done.err)
                self.assertTrue(accuracies, done.out)
                self.assertGreaterEqual(float(accuracies[-1]), 0.88)


harness.main()
