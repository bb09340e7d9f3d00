"""What the end-to-end tests share: a place of their own, dure in it, and a look for leftovers.

Each test has its own state directory, and a marker in the environment of everything it starts, by
which whatever is left behind is found in /proc, however it tried to hide.
"""
import collections
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("DURE_BUILD_DIR", ROOT / "build"))
DURE = BUILD / "dure"
AGENT = BUILD / "dure-agent"
PYTHON = "/usr/bin/python3"
MARKER = "HARNESS_MARKER"

Done = collections.namedtuple("Done", "code out err seconds")


class Result(unittest.TextTestResult):
    """Says at once why a test failed: a suite that is cut off must not take its reasons along."""

    def printErrors(self):
        pass

    def addError(self, test, error):
        super().addError(test, error)
        self.stream.writeln(self.errors[-1][1])

    def addFailure(self, test, error):
        super().addFailure(test, error)
        self.stream.writeln(self.failures[-1][1])

    def addSubTest(self, test, subtest, error):
        super().addSubTest(test, subtest, error)
        if error is not None:
            self.stream.writeln(self._exc_info_to_string(error, subtest))


def main():
    unittest.main(testRunner=unittest.TextTestRunner(verbosity=2, resultclass=Result))


def patience(seconds):
    """A limit of a minute or more is there to end what hangs, and must not end what is slow because four suites share two
    cores. A shorter one is a promise that the test checks, and stays what it is."""
    return seconds * 3 if seconds >= 60 else seconds


def wait_until(condition, timeout, what):
    """The first true value of condition(). Fails, naming `what`, when it does not become true."""
    timeout = patience(timeout)
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what}")
        time.sleep(0.01)


def environ_of(pid):
    """The environment of a process as it was started; empty if there is no such process."""
    try:
        text = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.split(b"=", 1) for entry in text.split(b"\0") if b"=" in entry)
    return {name.decode(errors="replace"): value.decode(errors="replace") for name, value in pairs}


def stat_of(pid):
    """(name, state, parent) of a process, or nothing."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    name = text[text.index("(") + 1:text.rindex(")")]
    rest = text[text.rindex(")") + 2:].split()
    return name, rest[0], int(rest[1])


def resident_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0


def peak_kib(pid):
    """The most that was resident so far."""
    return int(re.search(r"VmHWM:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


class Running:
    """A dure that was started and is waited for later. What it prints goes to files."""

    def __init__(self, process, out, err):
        self.process, self.pid, self._out, self._err = process, process.pid, out, err
        self.began = time.monotonic()

    @property
    def out(self):
        return self._out.read_text(errors="replace")

    @property
    def err(self):
        return self._err.read_text(errors="replace")

    def send(self, number):
        os.kill(self.pid, number)

    def wait(self, timeout=60):
        timeout = patience(timeout)
        try:
            code = self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"dure still runs after {timeout} s\n--- out\n{self.out[-3000:]}\n--- err\n"
                f"{self.err[-3000:]}") from None
        return Done(code, self.out, self.err, time.monotonic() - self.began)


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="dure-test-"))
        self.state = self.dir / "state"
        self.marker = uuid.uuid4().hex
        self.env = {"PATH": f"{BUILD}:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin",
                    "HOME": str(self.dir), "LANG": "C.UTF-8", "DURE_STATE_DIR": str(self.state),
                    MARKER: self.marker}
        self._count = 0
        self.started = []

    def tearDown(self):
        # Whatever a test is about, nothing may be left when its dure has ended.
        for running in self.started:
            if running.process.poll() is None:
                running.process.kill()
                running.process.wait()
        try:
            self.assert_nothing_left()
        finally:
            for pid in self.processes():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            shutil.rmtree(self.dir, ignore_errors=True)

    # ---- files and programs
    def write(self, name, text):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text) if isinstance(text, str) else path.write_bytes(text)
        return path

    def job(self, text, script=None, name="job.yaml"):
        """A job file, and beside it program.py."""
        if script is not None:
            self.write("program.py", script)
        return str(self.write(name, text))

    # ---- dure
    def start(self, *arguments, env=None, cwd=None, program=DURE):
        self._count += 1
        out, err = self.dir / f"out.{self._count}", self.dir / f"err.{self._count}"
        with open(out, "wb") as o, open(err, "wb") as e:
            process = subprocess.Popen([str(program), *map(str, arguments)], stdout=o, stderr=e,
                                       stdin=subprocess.DEVNULL, env={**self.env, **(env or {})},
                                       cwd=cwd or self.dir)
        running = Running(process, out, err)
        self.started.append(running)
        return running

    def dure(self, *arguments, timeout=60, code=None, **options):
        """Runs dure to its end; `code` is what it must exit with."""
        done = self.start(*arguments, **options).wait(timeout)
        if code is not None:
            self.assertEqual(done.code, code, f"dure {' '.join(map(str, arguments))}\n--- out\n"
                             f"{done.out[-3000:]}\n--- err\n{done.err[-3000:]}")
        return done

    def json(self, *arguments):
        return json.loads(self.dure(*arguments, "--json", code=0).out)

    def ps(self, name):
        """What `dure ps` says of the newest run of this name, or nothing."""
        found = [run for run in self.json("ps") if run["name"] == name]
        return max(found, key=lambda run: run["run"]) if found else None

    def run_dir(self, run):
        return self.state / "runs" / (run if "." in run else run + ".1")

    def events(self, run, kind=None):
        path = self.run_dir(run) / "events.jsonl"
        entries = []
        for line in path.read_bytes().split(b"\n") if path.exists() else []:
            try:
                entries.append(json.loads(line))
            except ValueError:
                continue  # it is being written
        return [entry for entry in entries if kind in (None, entry["event"])]

    def log(self, run, rank, generation=1):
        return (self.run_dir(run) / "logs" / str(generation) / f"rank-{rank}.log").read_bytes()

    def wait_for_event(self, run, kind, count=1, timeout=30):
        return wait_until(lambda: len(self.events(run, kind)) >= count and self.events(run, kind),
                          timeout, f"{count} times '{kind}' in the journal of {run}")

    # ---- processes
    def processes(self):
        """Pids of all that this test started and that still lives."""
        mark = f"{MARKER}={self.marker}".encode()
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit() or int(entry) == os.getpid():
                continue
            try:
                environ = pathlib.Path(f"/proc/{entry}/environ").read_bytes()
            except OSError:
                continue
            if mark in environ.split(b"\0"):
                found.append(int(entry))
        return found

    def agents(self):
        """Per task: the pid of its agent."""
        found = {}
        for pid in self.processes():
            task, stat = environ_of(pid).get("DURE_AGENT_TASK"), stat_of(pid)
            # A child that has not become its program yet still looks like the agent.
            if task and stat and stat[1] != "Z" and "DURE_AGENT_TASK" not in environ_of(stat[2]):
                found[task] = pid
        return found

    def ranks(self):
        """Per rank: the pid of the process that its agent started."""
        agents = set(self.agents().values())
        found = {}
        for pid in self.processes():
            stat, environ = stat_of(pid), environ_of(pid)
            if stat and stat[1] != "Z" and stat[2] in agents and "DURE_RANK" in environ:
                found[int(environ["DURE_RANK"])] = pid
        return found

    def assert_nothing_left(self, within=5):
        def left():
            return [(pid, *(stat_of(pid) or ())) for pid in self.processes()]
        deadline = time.monotonic() + within
        while left() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(left(), [], "processes were left behind")


def run_text(command, **options):
    """The output of a helper program, which must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command}: exit {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def report(text):
    """A figure worth reading in the test's output."""
    print(f"measured: {text}", file=sys.stderr, flush=True)
