"""Prints what each way to train has brought: accuracy on the test set, time, and bytes between workers.

  table.py RUN EVALUATION.json      reads the record of the pipeline run, and what `dure evaluate` said of the average
"""
import json
import pathlib
import subprocess
import sys


def describe(run):
    return json.loads(subprocess.run(["dure", "describe", run, "--json"], check=True, capture_output=True, text=True).stdout)


def summary(run, part):
    """What the trainer reported last: of this run, or of the one that had done it before."""
    for step in run["steps"]:
        for found in step["parts"]:
            if found["name"] != part:
                continue
            if found["state"] == "cached":
                return summary(describe(found["reason"].removeprefix("as in ")), part)
            lines = pathlib.Path(run["directory"], "runs", found["run"], "metrics.jsonl").read_text().splitlines()
            return [json.loads(line)["summary"] for line in lines if "summary" in json.loads(line)][-1]
    return {}


def main():
    run = describe(sys.argv[1])
    evaluation = json.loads(pathlib.Path(sys.argv[2]).read_text())
    rows = []
    parts = [part["name"] for step in run["steps"] if step["name"] == "train" for part in step["parts"]]
    for part in parts:
        one = summary(run, part)
        rows.append((f"model {part.rpartition('-')[2]} alone", one["accuracy"], one["seconds"], 0))
    # All of them had to be trained for it.
    rows.append((f"average of {len(parts)}", evaluation["accuracy"], sum(row[2] for row in rows), 0))
    for part, name in (("every-step", "sync: step"), ("every-50", "sync: {every: 50}")):
        one = summary(run, part)
        rows.append((name, one["accuracy"], one["seconds"], one["network_bytes"] + one["memory_bytes"]))
    print(f"{'':18} {'accuracy':>8} {'seconds':>8} {'megabytes':>10}")
    for name, accuracy, seconds, moved in rows:
        print(f"{name:18} {accuracy:8.4f} {seconds:8.1f} {moved / 1e6:10.1f}")


main()
