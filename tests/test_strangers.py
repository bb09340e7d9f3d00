"""Others may connect to a run as often as they like: it goes on, and stays small."""
import os
import pathlib
import signal
import subprocess

import harness
from harness import resident_kib, wait_until

# Opens connections and keeps them, as another user if it may; opens a new one for each that closes.
FLOOD = """
import os, resource, select, socket, sys
if os.geteuid() == 0: os.setgid(65534), os.setuid(65534)
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
port, count = int(sys.argv[1]), int(sys.argv[2])
poll = select.poll()
held = {}
def more():
    peer = socket.socket()
    peer.setblocking(False)
    peer.connect_ex(('127.0.0.1', port))
    held[peer.fileno()] = peer
    poll.register(peer, select.POLLIN)
for _ in range(count): more()
print('flooding', flush=True)
while True:
    for fd, _ in poll.poll():
        poll.unregister(fd)
        held.pop(fd).close()
        more()
"""
# Prints for a while, so that logs are opened in the middle of it.
PROGRAM = """
import os, time
print('hello from', os.environ['DURE_RANK'], flush=True)
while not os.path.exists('go'): time.sleep(0.02)
for n in range(50):
    print('line', n, flush=True)
    time.sleep(0.01)
"""


def listening_port(pid):
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes:
            return int(fields[1].split(":")[1], 16)
    return None


class Strangers(harness.Case):
    def flood(self, port):
        process = subprocess.Popen([harness.PYTHON, "-c", FLOOD, str(port), "1500"],
                                   stdout=subprocess.PIPE, env={})
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), b"flooding\n")
        return process

    def few_descriptors(self, *arguments):
        """dure as most people have it: 1024 descriptors, and here no more to be had."""
        return self.start("--nofile=1024:1024", "--", harness.DURE, *arguments,
                          program="/usr/bin/prlimit")

    def test_a_flood_while_ranks_join_and_print(self):
        self.write("program.py", PROGRAM)
        # The second generation joins in the middle of the flood.
        self.write("first.py", "import os, sys\nif os.environ['DURE_GENERATION'] == '1':\n"
                   "    while not os.path.exists('fail'): pass\n    sys.exit(1)\n" + PROGRAM)
        running = self.few_descriptors("run", "--name", "flooded", "--workers", "8", "--set",
                                       "restarts.backoff=100ms", "--", "/usr/bin/python3", "first.py")
        port = wait_until(lambda: listening_port(running.pid), 20, "dure listens")
        self.wait_for_event("flooded", "running")
        before = resident_kib(running.pid)
        self.flood(port)
        self.write("fail", "")
        self.wait_for_event("flooded", "running", 2, timeout=60)
        self.write("go", "")
        done = running.wait(90)
        self.assertEqual(done.code, 0, done.err)
        for rank in range(8):
            self.assertIn(b"line 49", self.log("flooded", rank, 2))
        self.assertLess(before, 64 * 1024)

    def test_memory_stays_small(self):
        self.write("program.py", PROGRAM)
        running = self.few_descriptors("run", "--name", "small", "--workers", "2", "--",
                                       "/usr/bin/python3", "program.py")
        port = wait_until(lambda: listening_port(running.pid), 20, "dure listens")
        self.wait_for_event("small", "running")
        before = resident_kib(running.pid)
        process = self.flood(port)
        held = wait_until(lambda: len(os.listdir(f"/proc/{running.pid}/fd")) > 100
                          and len(os.listdir(f"/proc/{running.pid}/fd")), 20, "strangers are let in")
        grown = (resident_kib(running.pid) - before) / 1024
        harness.report(f"{held} descriptors, {grown:.1f} MB more under a flood of 1500 connections")
        self.assertLess(held, 300)
        self.assertLess(grown, 16)
        process.send_signal(signal.SIGSTOP)
        self.write("go", "")
        self.assertEqual(running.wait(60).code, 0)

    def test_programs_keep_the_limit_they_were_given(self):
        done = self.start("--nofile=1000:5000", "--", harness.DURE, "run", "--", "sh", "-c",
                          "ulimit -Sn; ulimit -Hn", program="/usr/bin/prlimit").wait(30)
        self.assertEqual(done.out, "[0] 1000\n[0] 5000\n", done.err)

    def test_more_ranks_than_descriptors(self):
        done = self.start("--nofile=60:60", "--", harness.DURE, "run", "--name", "many", "--workers",
                          "30", "--", "sh", "-c", "echo $DURE_RANK", program="/usr/bin/prlimit").wait(60)
        self.assertEqual(done.code, 0, done.err)
        for rank in range(30):
            self.assertEqual(self.log("many", rank), f"{rank}\n".encode())


harness.main()
