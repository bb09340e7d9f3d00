"""The backend "dure" of torch.distributed: the same answers as Gloo, on one host and over two."""
import json
import re
import signal
import socket

import harness
from hosts import TwoHosts
from torch_programs import BITS, COLLECTIVES, ENDLESS, REGISTERED, REPEATED, SPAWN, START, TRAIN, WIRE


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class OneHost(harness.Case):
    def setUp(self):
        super().setUp()
        self.env["OMP_NUM_THREADS"] = "1"
        self.env["PYTHONPATH"] = str(harness.BUILD / "python")

    def run_ranks(self, workers, *command, code=0, **options):
        return self.dure("run", "--strategy", "torch", "--workers", str(workers), "--set", "restarts=0",
                         "--", harness.PYTHON, *command, code=code, timeout=120, **options)

    def assert_all_said(self, done, ranks):
        found = sorted(int(rank) for rank in re.findall(r"the same answers in rank (\d+)", done.out))
        self.assertEqual(found, list(range(ranks)), done.out + done.err)

    def test_the_same_answers_as_gloo_under_dure(self):
        self.write("program.py", COLLECTIVES + START)
        for workers in (2, 4):
            self.assert_all_said(self.run_ranks(workers, "program.py"), workers)

    def test_under_torchrun(self):
        self.write("program.py", COLLECTIVES + START)
        # Without -r and -t the torchrun of Debian 12 fails on its Python.
        done = self.dure("--standalone", "--nproc_per_node=2", "-r", "1", "-t", "1", "program.py",
                         program="/usr/bin/torchrun", code=0, timeout=120)
        self.assert_all_said(done, 2)

    def test_with_spawned_processes(self):
        self.write("program.py", COLLECTIVES + SPAWN)
        self.assert_all_said(self.dure("program.py", program=harness.PYTHON, code=0, timeout=120), 3)

    def losses(self, backend, optimizer, workers):
        done = self.run_ranks(workers, "train.py", backend, optimizer)
        found = [float(loss) for loss in re.findall(r"loss (\S+)", done.out)]
        self.assertEqual(len(found), 30, done.out + done.err)
        return found

    def test_training_is_the_same_as_with_gloo(self):
        self.write("train.py", TRAIN)
        for workers, optimizer in ((2, "sgd"), (4, "sgd"), (2, "zero")):
            ours, theirs = (self.losses(backend, optimizer, workers) for backend in ("dure", "gloo"))
            self.assertLess(theirs[-1], theirs[0])
            for mine, peer in zip(ours, theirs):
                self.assertAlmostEqual(mine, peer, delta=2e-3 * abs(peer))

    def test_training_in_registered_memory_has_the_same_bits(self):
        self.write("bits.py", BITS)
        for views in ("views", "copies"):
            found = set()
            for backend in ("dure", "gloo"):
                done = self.run_ranks(2, "bits.py", backend, views)
                hashes = re.findall(r"weights (\S+)", done.out)
                self.assertEqual(len(hashes), 2, done.out + done.err)
                found.update(hashes)
            self.assertEqual(len(found), 1, views)

    def test_what_becomes_of_registered_memory(self):
        self.write("registered.py", REGISTERED)
        for workers in (2, 4):
            self.assert_all_said(self.run_ranks(workers, "registered.py"), workers)

    def test_zero_copy_can_be_switched_off(self):
        self.write("repeated.py", REPEATED)
        sums = set()
        for switch, some in (("0", False), ("1", True)):
            done = self.run_ranks(2, "repeated.py", env={"DURE_ZERO_COPY": switch})
            found = re.findall(r"in place (\d+) at page (\w+) sums (\w+)", done.out)
            self.assertEqual(len(found), 2, done.out + done.err)
            for in_place, at_page, digest in found:
                self.assertEqual(int(in_place) > 0, some, done.out)
                if some:
                    self.assertEqual(at_page, "True", done.out)
                sums.add(digest)
        self.assertEqual(len(sums), 1, "the sums differ")

    def test_a_killed_rank_ends_the_others(self):
        self.write("program.py", ENDLESS)
        env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "3"}
        ranks = [self.start("program.py", program=harness.PYTHON, env={**env, "RANK": str(rank)})
                 for rank in range(3)]
        for running in ranks:
            harness.wait_until(lambda: "pid" in running.out, 60, "a rank that sums")
        ranks[2].send(signal.SIGKILL)
        for running in ranks[:2]:
            done = running.wait(10)
            self.assertEqual(done.code, 7, done.out + done.err)
            said = re.search(r"after (\S+) s in rank \d: dure: rank 2 is gone", done.out)
            self.assertIsNotNone(said, done.out)
            self.assertLess(float(said.group(1)), 2)
        self.assertEqual(ranks[2].wait(10).code, -signal.SIGKILL)

    def test_a_wire_that_does_not_exist(self):
        self.write("program.py", COLLECTIVES + START)
        done = self.run_ranks(2, "program.py", code=1, env={"DURE_WIRE": "int4"})
        self.assertIn("DURE_WIRE must be fp32, bf16 or fp16, not 'int4'", done.out + done.err)


class OverTwoHosts(TwoHosts, OneHost):
    def setUp(self):
        super().setUp()
        self.env["GLOO_SOCKET_IFNAME"] = "eth0"  # Gloo beside us would take the loopback

    def run_ranks(self, workers, *command, code=0, **options):
        job = self.job(f"name: hosts\nstrategy: torch\nworkers: 2\nprocesses: {workers // 2}\n"
                       f"restarts: 0\nprogram: {{command: {json.dumps([harness.PYTHON, *command])}}}\n"
                       + self.on_two_hosts())
        return self.dure("run", job, code=code, timeout=120, **options)

    def wire(self, wire, workers):
        done = self.run_ranks(workers, "wire.py", env={"DURE_WIRE": wire})
        found = [json.loads(text) for text in re.findall(r"wire (\{.*\})", done.out)]
        self.assertEqual(len(found), workers, done.out + done.err)
        self.assertEqual({entry["hosts"] for entry in found}, {2})
        self.assertTrue(all(entry["same"] for entry in found), "not the same bits in all ranks")
        # What it counts is what the network carries, but for the headers.
        leaders = [entry for entry in found if entry["network_bytes"] > 0]
        self.assertEqual(len(leaders), 2)
        for entry in leaders:
            self.assertLess(abs(entry["bytes"] / entry["network_bytes"] - 1), 0.1)
        return found

    def test_compression_halves_the_bytes_and_their_errors_cancel(self):
        self.write("wire.py", WIRE)
        for workers in (2, 4):
            wide = self.wire("fp32", workers)
            self.assertLess(max(entry["worst"] for entry in wide), 1e-6)
            for wire, unit in (("bf16", 2 ** -8), ("fp16", 2 ** -11)):
                compressed = self.wire(wire, workers)
                ratio = max(e["bytes"] for e in compressed) / max(e["bytes"] for e in wide)
                harness.report(f"{workers} ranks on 2 hosts: {wire} sends {ratio:.2f} of the bytes")
                # The check that all have the same bits travels in full, once.
                self.assertLess(ratio, 0.56)
                for entry in compressed:
                    self.assertLess(entry["worst"], 2 * unit)
                    self.assertLess(entry["mean"], entry["worst"] / 4)

    # One rank of two on each host has nobody to share memory with.
    test_training_in_registered_memory_has_the_same_bits = None
    test_what_becomes_of_registered_memory = None
    test_zero_copy_can_be_switched_off = None
    test_under_torchrun = None
    test_with_spawned_processes = None
    test_a_killed_rank_ends_the_others = None
    test_a_wire_that_does_not_exist = None


harness.main()
