"""A gang that loses a member starts again as a whole, from its checkpoint, as often as it may."""
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import time

import harness
from harness import environ_of, wait_until

# Ranks that cannot go on without each other: in every step all of them add up what they have, and
# the first saves the sum. What comes out depends on every step having happened once.
SUMMING = """
import os, socket, struct, sys, time
rank, world = int(os.environ['DURE_RANK']), int(os.environ['DURE_WORLD_SIZE'])
folder = os.environ['DURE_CHECKPOINT']
os.makedirs(folder, exist_ok=True)
saved = os.path.join(folder, 'state')
step, state = map(int, open(saved).read().split()) if os.path.exists(saved) else (0, 1)

place = (os.environ['DURE_MASTER_ADDR'], int(os.environ['DURE_MASTER_PORT']))
def receive(peer):
    data = b''
    while len(data) < 8:
        more = peer.recv(8 - len(data))
        if not more: raise ConnectionError('a rank is missing')
        data += more
    return struct.unpack('<Q', data)[0]
if rank == 0:
    server = socket.create_server(place)
    peers = [server.accept()[0] for _ in range(world - 1)]
else:
    deadline = time.monotonic() + 20
    while True:
        try:
            peers = [socket.create_connection(place)]
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline: raise
            time.sleep(0.005)

while step < int(sys.argv[1]):
    mine = (state * 6364136223846793005 + rank * 1442695040888963407 + step) % 2**64
    if rank == 0:
        state = (mine + sum(receive(peer) for peer in peers)) % 2**64
        for peer in peers: peer.sendall(struct.pack('<Q', state))
    else:
        peers[0].sendall(struct.pack('<Q', mine))
        state = receive(peers[0])
    step += 1
    if rank == 0:
        with open(saved + '.new', 'w') as file: file.write(f'{step} {state}')
        os.replace(saved + '.new', saved)
    time.sleep(0.004)
if rank == 0: print('result', state, flush=True)
"""
WAITING = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(1)\n"


class Restart(harness.Case):
    def job_of(self, name, extra, script, *arguments):
        command = json.dumps(["/usr/bin/python3", "program.py", *arguments])
        return self.job(f"name: {name}\nprogram: {{command: {command}}}\n{extra}", script,
                        name=f"{name}.yaml")

    def test_killed_fifty_times_it_ends_as_if_it_had_not_been(self):
        kills, steps = 50, "1500"
        rest = "workers: 3\ncheckpoint: {}\nrestarts: {{limit: 60, backoff: 10ms, max_backoff: 40ms}}\n"
        calm = self.dure("run", self.job_of("calm", rest.format("calm"), SUMMING, steps), code=0,
                         timeout=60)
        expected = re.search(r"result (\d+)", calm.out)[1]

        dice = random.Random(20261115)
        running = self.start("run", self.job_of("shot", rest.format("shot"), SUMMING, steps))
        for number in range(1, kills + 1):
            self.wait_for_event("shot", "running", number)
            victim = wait_until(lambda: self.ranks().get(dice.randrange(3)), 20, "a rank to kill")
            time.sleep(dice.uniform(0, 0.2))
            os.kill(victim, signal.SIGKILL)
        done = running.wait(120)
        self.assertEqual(done.code, 0, done.err[-2000:])
        self.assertEqual(re.search(r"result (\d+)", done.out)[1], expected)
        run = self.ps("shot")
        self.assertEqual((run["status"], run["failures"], run["generation"]),
                         ("succeeded", kills, kills + 1))
        ended = self.events("shot", "ended")
        reasons = [e["reason"] for e in ended[:-1] if "was killed by SIGKILL" not in e["reason"]]
        self.assertEqual(reasons, [], "the rank that was killed is the cause")
        # No two generations at once: each is gone before the next is asked for.
        order = [e["event"] for e in self.events("shot") if e["event"] in ("starting", "ended")]
        self.assertEqual(order, ["starting", "ended"] * (kills + 1))
        harness.report(f"{kills} kills, {done.seconds:.1f} s in all")

    def test_the_limit_is_kept_and_the_reason_is_one_sentence(self):
        script = """
import os, sys, time
if os.environ['DURE_RANK'] != '3': time.sleep(30)
time.sleep(1.2)
print('before')
raise RuntimeError('no room for rank ' + os.environ['DURE_RANK'])
"""
        job = self.job_of("limit", "workers: 4\nrestarts: {limit: 1, backoff: 50ms}\n", script)
        done = self.dure("run", job, code=1, timeout=40)
        self.assertRegex(done.err, r"limit\.1 failed: rank 3 \(worker-3\) exited with 1 in generation 2, "
                         r"after 1\.\d+ s: RuntimeError: no room for rank 3\b")
        run = self.ps("limit")
        self.assertEqual((run["status"], run["failures"], run["generation"]), ("failed", 2, 2))
        self.assertIn("RuntimeError: no room for rank 3", run["reason"])

    def test_the_pause_grows(self):
        job = self.job_of("pause", "workers: 1\nrestarts: {limit: 4, backoff: 100ms, max_backoff: 400ms}\n",
                          "raise SystemExit(1)")
        self.dure("run", job, code=1)
        self.assertEqual([e["delay_ms"] for e in self.events("pause", "waiting")],
                         [100, 200, 400, 400])

    def test_with_no_restarts_the_first_failure_is_the_last(self):
        done = self.dure("run", self.job_of("once", "workers: 2\nrestarts: 0\n", "raise SystemExit(5)"),
                         code=1)
        self.assertRegex(done.err, r"rank [01] \(worker-[01]\) exited with 5 in generation 1")
        self.assertEqual(self.ps("once")["generation"], 1)

    def test_the_first_to_fail_is_blamed_not_those_that_miss_it(self):
        script = SUMMING.replace("while step", "if rank == 2:\n    time.sleep(0.3)\n"
                                 "    raise ValueError('the cause')\nwhile step")
        job = self.job_of("blame", "workers: 4\nrestarts: 0\ncheckpoint: c\n", script, "100000")
        done = self.dure("run", job, code=1)
        self.assertIn("rank 2 (worker-2) exited with 1", done.err)
        self.assertIn("ValueError: the cause", done.err)

    def test_who_was_killed_is_blamed_although_the_others_were_heard_of_first(self):
        # As when the kernel has closed a killed process's sockets, and has not told of its end yet.
        script = """
import os, signal, time
if os.environ['DURE_RANK'] == '1':
    time.sleep(0.5)
    raise ConnectionResetError(104, 'Connection reset by peer')
signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
time.sleep(30)
"""
        done = self.dure("run", self.job_of("late", "workers: 2\nrestarts: 0\n", script), code=1)
        self.assertIn("rank 0 (worker-0) was killed by SIGKILL in generation 1", done.err)

    def test_it_goes_on_with_fewer_but_not_with_too_few(self):
        script = WAITING.replace("while True: time.sleep(1)",
                                 "import os\nwhile not os.path.exists('finish'): time.sleep(0.05)")
        job = self.job_of("shrink", "workers: {min: 2, max: 4}\nrestarts: {limit: 0, backoff: 10ms, "
                          "max_backoff: 50ms}\n", script)
        running = self.start("run", job)

        def lose(task, times):
            for _ in range(times):
                count = len(self.events("shrink", "running"))
                pid = wait_until(lambda: self.agents().get(task), 20, f"{task} is there")
                os.kill(pid, signal.SIGKILL)
                self.wait_for_event("shrink", "running", count + 1)

        self.wait_for_event("shrink", "running")
        lose("worker-3", 3)
        self.assertEqual(self.events("shrink", "running")[-1]["workers"], 3)
        lose("worker-1", 3)
        self.assertEqual(self.events("shrink", "running")[-1]["workers"], 2)
        self.assertEqual(sorted(self.agents()), ["worker-0", "worker-1"])
        lose("worker-0", 4)
        self.assertEqual(self.events("shrink", "running")[-1]["workers"], 2)
        self.assertEqual({environ_of(pid)["DURE_WORLD_SIZE"] for pid in
                          wait_until(lambda: len(self.ranks()) == 2 and self.ranks(), 10, "2 ranks")
                          .values()}, {"2"})
        self.write("finish", "")
        self.assertEqual(running.wait(20).code, 0)
        self.assertEqual(self.ps("shrink")["failures"], 0)
        self.assertIn("goes on with 3 workers", running.err)

    def test_nothing_of_another_generation_or_run_can_join(self):
        running = self.start("run", self.job_of("guard", "workers: 2\n", WAITING))
        self.wait_for_event("guard", "running")
        old = {k: v for k, v in environ_of(self.agents()["worker-1"]).items()}
        os.kill(self.agents()["worker-0"], signal.SIGKILL)
        self.wait_for_event("guard", "running", 2)
        wait_until(lambda: len(self.ranks()) == 2, 10, "both ranks of the second generation")
        ranks = self.ranks()

        def knock(own_directory=False, **changes):
            env = {**old, **{"DURE_AGENT_" + k.upper(): v for k, v in changes.items()}}
            if not own_directory:
                env["DURE_AGENT_DIRECTORY"] = str(self.dir / "elsewhere")
            done = subprocess.run([harness.AGENT], env=env, capture_output=True, text=True, timeout=20)
            self.assertEqual(done.returncode, 3, f"{changes}: {done.stderr}")
            return done.stderr

        self.assertIn("worker-1 of generation 1 is not expected", knock())
        self.assertIn("not expected", knock(generation="2"))
        self.assertIn("not expected", knock(generation="3"))
        self.assertIn("not expected", knock(task="worker-7", generation="2"))
        self.assertIn("wrong secret", knock(secret="0" * 64, generation="2"))
        self.assertIn("wrong secret", knock(secret=old["DURE_AGENT_SECRET"][:-1], generation="2"))
        self.assertIn("another run", knock(run="guard.2", generation="2"))
        # In the very directory of the living one it also does no harm.
        knock(own_directory=True)
        agent_socket = self.run_dir("guard") / "tasks/worker-1/agent.sock"
        self.assertTrue(agent_socket.is_socket())

        self.assertIn(b"wrong secret", self.say(old, {
            "version": 1, "secret": "", "run": "guard.1", "generation": 2, "task": "worker-1",
            "host": "x", "pid": 1}))
        self.assertIn(b"not an agent", self.say(old, {"hello": 1}))
        self.assertEqual(self.say(old, None), b"")
        self.assertEqual(self.ranks(), ranks)
        self.assertEqual(self.ps("guard")["generation"], 2)
        running.send(signal.SIGQUIT)
        self.assertEqual(running.wait(20).code, 130)
        # No secret at all is a mistake of whoever starts it.
        del old["DURE_AGENT_SECRET"]
        done = subprocess.run([harness.AGENT], env=old, capture_output=True, text=True, timeout=20)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("DURE_AGENT_SECRET is not set", done.stderr)

    def say(self, agent_environment, hello):
        """What the coordinator answers to this greeting, until it hangs up. None: to no message."""
        host, port = agent_environment["DURE_AGENT_COORDINATOR"].split(":")
        payload = json.dumps(hello).encode()
        message = struct.pack("<IB", len(payload) + 1, 1) + payload if hello else b"\xff" * 64
        with socket.create_connection((host, int(port)), timeout=20) as peer:
            peer.sendall(message)
            answer = b""
            while more := peer.recv(4096):
                answer += more
        return answer

    # As in TensorFlow 2: the chief works, workers and parameter servers serve it for ever.
    SERVING = """
import json, os, time
role = json.loads(os.environ['TF_CONFIG'])['task']['type']
if role != os.environ['FIRST'] or os.environ['DURE_INDEX'] != '0':
    while True: time.sleep(1)
time.sleep(0.5)
print('coordinator done', flush=True)
"""

    def test_the_end_of_the_chief_is_the_end_of_parameter_servers_and_workers(self):
        self.write("program.py", self.SERVING)
        for first, roles in (("chief", "{chief: 1, ps: 1}"), ("worker", "{ps: 2}")):
            done = self.dure("run", "--name", first, "--workers", "2", "--strategy", "tensorflow",
                             "--set", f"roles={roles}", "--set", f"env.FIRST={first}", "--",
                             "/usr/bin/python3", "program.py", code=0, timeout=30)
            self.assertEqual(done.out, "[0] coordinator done\n")
            self.assertEqual(self.ps(first)["status"], "succeeded")

    def test_whose_end_is_the_end_of_the_job(self):
        # Rank 0 ends first; the other saves for a while.
        self.write("program.py", "import os, time\nif os.environ['DURE_RANK'] == '1':\n"
                   "    time.sleep(1)\n    open('saved-' + os.environ['NAME'], 'w')\n")
        for name, options, saved in (
                ("mirrored", ["--strategy", "tensorflow"], True),
                ("chief", ["--strategy", "torch", "--set", "success=chief"], False),
                ("all", ["--strategy", "tensorflow", "--set", "success=all"], True)):
            self.dure("run", "--name", name, "--workers", "2", *options, "--set", f"env.NAME={name}",
                      "--", "/usr/bin/python3", "program.py", code=0, timeout=30)
            self.assertEqual((self.dir / f"saved-{name}").exists(), saved, name)

    def test_a_worker_that_fails_while_the_chief_works_counts(self):
        self.write("program.py", "import os, sys, time\nif os.environ['DURE_RANK'] == '1': sys.exit(3)\n"
                   "time.sleep(30)\n")
        done = self.dure("run", "--workers", "2", "--set", "success=chief", "--set", "restarts.limit=0",
                         "--", "/usr/bin/python3", "program.py", code=1, timeout=30)
        self.assertIn("rank 1 (worker-1) exited with 3", done.err)


harness.main()
