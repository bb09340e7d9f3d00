"""mpirun reaches every worker task through the agents, on one machine and over two hosts."""
import os

import harness
from hosts import TwoHosts

ALLREDUCE = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  enum { kCount = 100000 };
  double* values = malloc(kCount * sizeof *values);
  double* sums = malloc(kCount * sizeof *sums);
  for (int i = 0; i < kCount; ++i) values[i] = rank + 1 + i;
  for (int turn = 0; turn < 20; ++turn)
    MPI_Allreduce(values, sums, kCount, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  int right = 1;
  for (int i = 0; i < kCount; ++i)
    if (sums[i] != size * (size + 1) / 2.0 + (double)size * i) right = 0;
  char network[64] = {0};
  if (readlink("/proc/self/ns/net", network, sizeof network - 1) < 0) return 9;
  printf("mpi rank %d of %d in %s on %s: %s\n", rank, size, getenv("DURE_TASK"), network,
         right ? "right" : "WRONG");
  fflush(stdout);
  MPI_Barrier(MPI_COMM_WORLD);
  if (argc > 1 && rank == 1) exit(atoi(argv[1]));
  MPI_Finalize();
  return 0;
}
"""
# Four ranks on two cores must not spin while they wait.
JOB = """name: mpi
strategy: mpi
workers: {workers}
processes: {processes}
restarts: 0
env: {{OMPI_MCA_mpi_yield_when_idle: 1}}
program: {{command: [{command}]}}
"""


class Mpi(harness.Case):
    def setUp(self):
        super().setUp()
        self.write("allreduce.c", ALLREDUCE)
        harness.run_text(["mpicc", "-O1", "-o", self.dir / "allreduce", self.dir / "allreduce.c"])

    def mpi_lines(self, done):
        """Per MPI rank: (size, task, network), all of which computed the right sums."""
        found = {}
        for line in done.out.splitlines():
            words = line.split()
            if words[1:3] == ["mpi", "rank"]:
                self.assertEqual(words[-1], "right", line)
                found[int(words[3])] = (int(words[5]), words[7], words[9].rstrip(":"))
        return found

    def test_every_rank_gets_the_sum(self):
        job = self.job(JOB.format(workers=2, processes=2, command="./allreduce"))
        ranks = self.mpi_lines(self.dure("run", job, code=0, timeout=60))
        self.assertEqual({rank: value[:2] for rank, value in ranks.items()},
                         {0: (4, "worker-0"), 1: (4, "worker-0"), 2: (4, "worker-1"),
                          3: (4, "worker-1")})
        self.assert_nothing_left(within=1)

    def test_mpirun_with_options_of_its_own(self):
        job = self.job(JOB.format(workers=3, processes=1,
                                  command="mpirun, --map-by, node, -x, WORD=one two, ./allreduce"))
        ranks = self.mpi_lines(self.dure("run", job, code=0, timeout=60))
        self.assertEqual(sorted(task for _, task, _ in ranks.values()),
                         ["worker-0", "worker-1", "worker-2"])

    def test_from_the_command_line(self):
        done = self.dure("run", "--strategy", "mpi", "--workers", "2", "-e",
                         "OMPI_MCA_mpi_yield_when_idle=1", "--", "./allreduce", code=0, timeout=60)
        self.assertEqual(sorted(self.mpi_lines(done)), [0, 1])

    def test_a_failing_rank_fails_the_job(self):
        job = self.job(JOB.format(workers=2, processes=1, command="./allreduce, '5'"))
        done = self.dure("run", job, code=1, timeout=60)
        self.assertIn("rank 0 (launcher-0) exited with 5", done.err)
        self.assert_nothing_left(within=1)

    def test_without_a_secure_shell(self):
        # A remote shell of any other kind would be seen: it cannot be found.
        for name in ("ssh", "rsh"):
            path = self.write(f"trap/{name}", f"#!/bin/sh\necho {name} > {self.dir}/trapped\nexit 1\n")
            path.chmod(0o755)
        env = {"PATH": f"{self.dir}/trap:{self.env['PATH']}"}
        job = self.job(JOB.format(workers=2, processes=1, command="./allreduce"))
        self.assertEqual(len(self.mpi_lines(self.dure("run", job, code=0, timeout=60, env=env))), 2)
        self.assertFalse((self.dir / "trapped").exists())


class OverTwoHosts(TwoHosts, Mpi):
    def job(self, text, *rest, **options):
        if text.startswith("name: mpi"):
            text += self.on_two_hosts()
        return super().job(text, *rest, **options)

    def networks(self):
        return {harness.run_text(["ip", "netns", "exec", name, "readlink", "/proc/self/ns/net"]).strip()
                for name in self.names}

    def test_every_rank_gets_the_sum(self):
        job = self.job(JOB.format(workers=2, processes=2, command="./allreduce"))
        ranks = self.mpi_lines(self.dure("run", job, code=0, timeout=60))
        self.assertEqual([ranks[rank][:2] for rank in range(4)],
                         [(4, "worker-0"), (4, "worker-0"), (4, "worker-1"), (4, "worker-1")])
        # The two workers ran on the two hosts, and not on this one.
        self.assertEqual({network for _, _, network in ranks.values()}, self.networks())
        self.assertEqual(ranks[0][2], ranks[1][2])
        self.assertNotEqual(ranks[0][2], ranks[2][2])
        self.assertNotIn(os.readlink("/proc/self/ns/net"), self.networks())
        self.assert_nothing_left(within=1)

    test_from_the_command_line = None
    test_mpirun_with_options_of_its_own = None


harness.main()
