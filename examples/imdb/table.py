"""Prints what each way to train has brought: accuracy on the test set, time, and bytes between workers.

  table.py REPORTS EVALUATION.json      what the trainers reported last, and what `dure evaluate` said of the average
"""
import json
import pathlib
import sys


def main():
    reports = pathlib.Path(sys.argv[1])
    evaluation = json.loads(pathlib.Path(sys.argv[2]).read_text())

    def summary(part):
        return json.loads((reports / f"{part}.json").read_text())["summary"]

    rows = []
    parts = sorted((path.stem for path in reports.glob("train-*.json")), key=lambda part: int(part.rpartition("-")[2]))
    for part in parts:
        one = summary(part)
        rows.append((f"model {part.rpartition('-')[2]} alone", one["accuracy"], one["seconds"], 0))
    # All of them had to be trained for it.
    rows.append((f"average of {len(parts)}", evaluation["accuracy"], sum(row[2] for row in rows), 0))
    for part, name in (("every-step", "sync: step"), ("every-50", "sync: {every: 50}")):
        one = summary(part)
        rows.append((name, one["accuracy"], one["seconds"], one["network_bytes"] + one["memory_bytes"]))
    print(f"{'':18} {'accuracy':>8} {'seconds':>8} {'megabytes':>10}")
    for name, accuracy, seconds, moved in rows:
        print(f"{name:18} {accuracy:8.4f} {seconds:8.1f} {moved / 1e6:10.1f}")


main()
