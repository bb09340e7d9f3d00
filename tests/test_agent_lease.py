"""An agent keeps its lease whatever its output is stuck in: one that is cut off ends its programs in time."""
import json
import os
import socket
import struct
import subprocess
import time

import harness
from harness import AGENT, wait_until

HELLO, EXITED, BEAT, FINISHED = 1, 5, 6, 7
WELCOME, START, STOP, ALIVE = 20, 22, 23, 24


class Coordinator:
    """As much of one as an agent needs."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.bytes = b""

    def accept(self):
        self.listener.settimeout(20)
        self.connection = self.listener.accept()[0]
        return json.loads(self.receive(HELLO))

    def frame(self, timeout=20):
        """The next message: its type and its payload."""
        self.connection.settimeout(timeout)
        while len(self.bytes) < 4 or len(self.bytes) < 4 + struct.unpack("<I", self.bytes[:4])[0]:
            got = self.connection.recv(65536)
            if not got:
                raise EOFError
            self.bytes += got
        length = struct.unpack("<I", self.bytes[:4])[0]
        frame, self.bytes = self.bytes[4:4 + length], self.bytes[4 + length:]
        return frame[0], frame[1:]

    def receive(self, kind, alive=True):
        """The next message of this kind. Beats are answered meanwhile."""
        while True:
            got, payload = self.frame()
            if got == BEAT and alive:
                self.send(ALIVE, b"")
            if got == kind:
                return payload

    def send(self, kind, payload):
        payload = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        self.connection.sendall(struct.pack("<IB", len(payload) + 1, kind) + payload)

    def close(self):
        self.listener.close()
        self.connection.close()


class Lease(harness.Case):
    def begin(self, script, lease_ms, stdout):
        """An agent, as the first process of a container is one, that runs this script of a shell."""
        coordinator = Coordinator()
        env = {**self.env, "DURE_AGENT_COORDINATOR": f"127.0.0.1:{coordinator.port}", "DURE_AGENT_SECRET": "s",
               "DURE_AGENT_RUN": "run.1", "DURE_AGENT_TASK": "worker-0", "DURE_AGENT_GENERATION": "1",
               "DURE_AGENT_DIRECTORY": str(self.dir / "task"), "DURE_AGENT_CONTAINED": "1"}
        agent = subprocess.Popen([AGENT], env=env, stdout=stdout, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
        self.addCleanup(agent.stderr.close)
        self.addCleanup(agent.wait)
        self.addCleanup(agent.kill)
        self.addCleanup(coordinator.close)
        coordinator.accept()
        coordinator.send(WELCOME, {"heartbeat_ms": 100, "stop_ms": 1000, "lease_ms": lease_ms, "folder_bytes": 0, "folder_hash": ""})
        coordinator.send(START, {"workdir": str(self.dir), "files": {}, "env": {}, "tell_loaded": False, "processes": [
            {"argv": ["/bin/sh", "-c", script], "env": {"PATH": "/usr/bin:/bin"}, "delay_ms": 0, "label": ""}]})
        return agent, coordinator

    def stuck(self):
        """The two ends of a pipe that nobody reads."""
        read, write = os.pipe()
        self.addCleanup(os.close, read)
        return read, write

    # Prints far more than pipes hold, and tells in a file that it lives.
    CHATTY = "(while :; do date +%s%N > alive.new; mv alive.new alive; sleep 0.02; done) & exec yes 0123456789"

    def alive(self):
        """Whether the program is at work now."""
        def stamp():
            try:
                return (self.dir / "alive").read_text()
            except FileNotFoundError:
                return ""
        before = stamp()
        deadline = time.monotonic() + 1
        while time.monotonic() < deadline:
            if stamp() != before:
                return True
            time.sleep(0.01)
        return False

    def test_it_beats_though_nobody_reads_its_output(self):
        read, write = self.stuck()
        agent, coordinator = self.begin(self.CHATTY, 2000, write)
        os.close(write)
        wait_until(lambda: (self.dir / "alive").exists(), 20, "the program works")
        for _ in range(50):  # five seconds: more than twice the lease
            coordinator.receive(BEAT)
        self.assertIsNone(agent.poll())
        self.assertTrue(self.alive())
        self.assertLess(harness.resident_kib(agent.pid), 20_000, "what waits to be written is bounded")
        coordinator.send(STOP, {"grace_ms": 0})
        coordinator.receive(EXITED)
        self.assertFalse(self.alive())
        # Its last words are given up in the end.
        coordinator.receive(FINISHED)
        coordinator.connection.close()
        agent.wait(20)

    def test_cut_off_it_ends_its_programs_when_its_lease_has_run_out(self):
        for stuck in (False, True):
            with self.subTest(stuck=stuck):
                read, write = self.stuck()
                if not stuck:
                    os.close(write)
                    write = os.open(os.devnull, os.O_WRONLY)
                agent, coordinator = self.begin(self.CHATTY, 2000, write)
                os.close(write)
                for _ in range(30):
                    coordinator.receive(BEAT)
                self.assertTrue(self.alive())
                # From now on nothing is answered, and the connection stays.
                began = time.monotonic()
                agent.wait(20)
                took = time.monotonic() - began
                self.assertEqual(agent.returncode, 3)
                self.assertGreater(took, 1.0)
                self.assertLess(took, 12)
                self.assertFalse(self.alive())
                self.assertIn("nothing was heard of the coordinator for 2 s", agent.stderr.read().decode())
                (self.dir / "alive").unlink()

    def test_answers_that_were_long_on_the_way_do_not_prolong_it(self):
        agent, coordinator = self.begin("sleep 1000", 3000, subprocess.DEVNULL)
        beats = 0
        while beats < 10:
            beats += coordinator.frame()[0] == BEAT
        for _ in range(10):  # all that it has sent is answered, once
            coordinator.send(ALIVE, b"")
        began = time.monotonic()
        agent.wait(20)
        self.assertEqual(agent.returncode, 3)
        self.assertLess(time.monotonic() - began, 8)

    def test_a_slow_reader_gets_every_line(self):
        read, write = self.stuck()
        agent, coordinator = self.begin("seq 400000; echo end", 5000, write)
        os.close(write)
        coordinator.receive(BEAT)
        coordinator.receive(BEAT)
        lines = b""
        os.set_blocking(read, False)
        deadline = time.monotonic() + 60
        while not lines.endswith(b"end\n"):
            self.assertLess(time.monotonic(), deadline)
            try:
                lines += os.read(read, 50_000)
            except BlockingIOError:
                pass
            try:
                if coordinator.frame(0.001)[0] == BEAT:
                    coordinator.send(ALIVE, b"")
            except (TimeoutError, EOFError):
                pass
        self.assertEqual(lines, b"".join(b"%d\n" % number for number in range(1, 400_001)) + b"end\n")
        coordinator.connection.close()
        agent.wait(20)
        self.assertEqual(agent.returncode, 0)


harness.main()
