"""What a program reports is its own affair: nothing that it writes hurts dure."""
import json

import harness

REPORT = """
import os
with open(os.environ['DURE_METRICS'], 'w') as pipe:
    for line in {lines}: pipe.write(line + '\\n')
print('reported', flush=True)
"""


class Reports(harness.Case):
    def run_with(self, name, lines):
        self.write("program.py", REPORT.format(lines=lines))
        return self.dure("run", "--name", name, "--", "/usr/bin/python3", "program.py", code=0)

    def metrics(self, name):
        text = (self.run_dir(name) / "metrics.jsonl").read_text()
        return [json.loads(line) for line in text.splitlines()]

    def test_a_report_that_is_nested_deep_is_dropped_with_one_warning(self):
        deep = "['{\"a\":' + '[' * 100000 + ']' * 100000 + '}', " \
               "'{\"step\":1,\"steps\":2,\"a\":' + '[' * 30000 + ']' * 30000 + '}', " \
               "'{\"step\": 5}', '{\"a\":' + '[' * 100000]"
        done = self.run_with("deep", deep)
        self.assertEqual(done.err.count("a report was dropped"), 1, done.err)
        self.assertIn("rank 0 (worker-0): a report was dropped", done.err)
        self.assertEqual([line.get("step") for line in self.metrics("deep")], [5])
        self.assertEqual(self.ps("deep")["step"], 5)
        self.assertEqual(len(self.events("deep", "warned")), 1)
        self.dure("describe", "deep", code=0)

    def test_a_report_that_is_too_long_is_dropped(self):
        done = self.run_with("long", "['{\"a\": \"' + 'x' * 70000 + '\"}', '{\"step\": 3}']")
        self.assertIn("a report was dropped, being longer than 64 KB", done.err)
        self.assertEqual(self.ps("long")["step"], 3)

    def test_text_where_a_number_belongs(self):
        lines = [{"rank": "0", "step": 1, "loss": 2}, {"step": "x", "loss": 1},
                 {"rank": None, "step": 2, "loss": "low"}, {"step": 3, "steps": "many", "loss": 1e308},
                 {"step": 4, "steps": 9, "loss": -1e308, "epochs": "x", "seconds_left": 1e300},
                 {"step": [], "steps": {}}, {"time": 3, "generation": "x", "step": 18446744073709551615}]
        self.run_with("text", repr([json.dumps(line) for line in lines]))
        # A record of an earlier version, or of other hands, may have anything in it.
        with open(self.run_dir("text") / "metrics.jsonl", "a") as file:
            file.write('{"rank":"0","step":1,"loss":2}\n{"rank":[],"step":"x","loss":"y"}\n')
        for command in (["ps"], ["ps", "--json"], ["describe", "text"], ["describe", "text", "--json"]):
            self.assertEqual(self.dure(*command, code=0).err, "")


harness.main()
