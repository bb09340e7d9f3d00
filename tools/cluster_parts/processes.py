"""Processes that outlive the command that started them, known by pid and start time.

A pid alone may belong to a stranger after a while, or after a reboot.
"""
import os
import pathlib
import signal
import subprocess
import time

from . import settings
from .settings import Trouble


def boot():
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_time(pid):
    """When a process started, in ticks since boot; nothing if there is none, or a zombie."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2:].split()
    return None if fields[0] in "ZX" else fields[19]


def start(name, command, environment=None):
    """Starts a program for good, with its output in logs/NAME.log."""
    settings.PROCESSES.mkdir(parents=True, exist_ok=True)
    settings.LOGS.mkdir(parents=True, exist_ok=True)
    note = settings.PROCESSES / name

    def remember():
        # By the child itself and before it becomes the program: whenever `up` is killed, nothing runs
        # that `down` would not know of.
        pid = os.getpid()
        note.write_text(f"{pid} {start_time(pid)} {boot()}\n")

    with open(settings.LOGS / f"{name}.log", "ab") as log:
        return subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                start_new_session=True, preexec_fn=remember,
                                env={**os.environ, **(environment or {})})


def pid_of(name):
    """The pid of what was started under this name, if it still runs."""
    try:
        pid, started, when = (settings.PROCESSES / name).read_text().split()
    except (OSError, ValueError):
        return None
    return int(pid) if when == boot() and start_time(pid) == started else None


def names():
    return sorted(os.listdir(settings.PROCESSES)) if settings.PROCESSES.is_dir() else []


def dead():
    """Names of what was started and runs no more."""
    return [name for name in names() if pid_of(name) is None]


def children(pid):
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def end_all(first, within=10):
    """Kills all that was started, those named in `first` first, and returns when they and their children are gone."""
    family = []
    for name in sorted(names(), key=lambda each: each not in first):
        pid = pid_of(name)
        if pid is not None:
            family += [(name, each, start_time(each)) for each in [pid, *children(pid)]]
            # One that somebody stopped would never see that its child ended; this it cannot ignore.
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + within
    while alive := [(name, pid) for name, pid, started in family if started and start_time(pid) == started]:
        reap()
        if time.monotonic() > deadline:
            raise Trouble(f"{alive[0][0]} (process {alive[0][1]}) does not die")
        time.sleep(0.02)


def reap():
    """Collects children of this very process that have ended: as zombies they would look alive."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def log_tail(name, lines=15):
    try:
        text = (settings.LOGS / f"{name}.log").read_text(errors="replace")
    except OSError:
        return ""
    return "\n".join("    " + line[:400] for line in text.splitlines()[-lines:])
