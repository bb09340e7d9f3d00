"""Why a run failed is said by the line that explains it, and what would fail again is not tried again."""
import harness

ABORT = """
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
int main(int count, char** words) {
  int rank;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 1 && strcmp(words[1], "abort") == 0) MPI_Abort(MPI_COMM_WORLD, 7);
  if (rank == 1) exit(3);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Finalize();
}
"""


class Reasons(harness.Case):
    def reason(self, *command, name="why", options=("--set", "restarts.limit=0")):
        self.dure("run", "--name", name, *options, "--", *command, code=1, timeout=120)
        return self.ps(name)["reason"]

    def shell(self, script, **options):
        return self.reason("sh", "-c", script, **options)

    def test_the_line_that_explains_it(self):
        self.assertRegex(self.shell("ls -l /; ls /nonexist"),
                         r"exited with 2 .*: ls: cannot access '/nonexist': No such file or directory$")
        self.assertRegex(self.shell("echo 'epoch 1 loss 0.3'; exit 1"),
                         r"exited with 1 in generation 1, after [\d.]+ m?s$")
        self.assertRegex(self.shell("echo working; echo also >&2; kill -9 $$"), r"SIGKILL in [^:]*$")
        self.assertRegex(self.shell("echo 'noise'; echo 'bad input' >&2; exit 4"), r": bad input$")
        self.write("program.py", "import sys\nprint('table row')\ntry: {}['a']\n"
                   "except KeyError as e: raise ValueError('bad thing') from e\n")
        self.assertRegex(self.reason("/usr/bin/python3", "program.py"), r": ValueError: bad thing$")
        self.assertRegex(self.shell("/usr/bin/python3 program.py 2>&1"), r": ValueError: bad thing$")

    def test_what_mpirun_says(self):
        self.write("abort.c", ABORT)
        harness.run_text(["mpicc", "-o", str(self.dir / "abort"), str(self.dir / "abort.c")])
        options = ("--workers", "2", "--strategy", "mpi", "--set", "restarts.limit=0")
        self.assertIn("MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD with errorcode 7",
                      self.reason("./abort", "abort", name="abort", options=options))
        self.assertIn("MPI rank 1 exited with 3",
                      self.reason("./abort", "exit", name="exit", options=options))

    def generations(self, name):
        return len(self.events(name, "starting"))

    def test_a_mistake_that_cannot_heal_is_not_tried_again(self):
        self.write("module.py", "import no_such_module\n")
        self.write("syntax.py", "x = = 1\n")
        self.write("usage.py", "import argparse\nargparse.ArgumentParser().parse_args()\n")
        self.write("plain.sh", "#!/bin/sh\n")
        python = "/usr/bin/python3"
        for name, command, line in (
                ("module", [python, "module.py"], "ModuleNotFoundError: No module named 'no_such_module'"),
                ("syntax", [python, "syntax.py"], "SyntaxError: invalid syntax"),
                ("nofile", [python, "nofile.py"], "can't open file"),
                ("usage", [python, "usage.py", "--bad"], "error: unrecognized arguments: --bad"),
                ("command", ["sh", "-c", "no_such_command"], "not found"),
                ("mode", ["sh", "-c", "./plain.sh"], "Permission denied")):
            with self.subTest(name):
                reason = self.reason(*command, name=name, options=())
                self.assertIn(line, reason)
                self.assertRegex(reason, "not restarted: it would fail again")
                self.assertEqual(self.generations(name), 1)

    def test_mpirun_without_its_program(self):
        reason = self.reason("mpirun", "./nope", name="nope",
                             options=("--workers", "2", "--strategy", "mpi"))
        self.assertRegex(reason, "executable ./nope; not restarted: it would fail again")
        self.assertEqual(self.generations("nope"), 1)

    def test_the_same_failure_twice_is_enough(self):
        self.write("program.py", "None + 1\n")
        reason = self.reason("/usr/bin/python3", "program.py",
                             options=("--set", "restarts.backoff=10ms"))
        self.assertRegex(reason, "TypeError.*not restarted: it failed so twice")
        self.assertEqual(self.generations("why"), 2)

    def test_who_makes_progress_is_tried_as_often_as_the_limit_says(self):
        self.write("program.py", "import os\nwith open(os.environ['DURE_METRICS'], 'w') as pipe:\n"
                   "    print('{\"step\": 1}', file=pipe)\nNone + 1\n")
        reason = self.reason("/usr/bin/python3", "program.py",
                             options=("--set", "restarts={limit: 3, backoff: 10ms}"))
        self.assertIn("the limit is 3 restarts", reason)
        self.assertEqual(self.generations("why"), 4)


harness.main()
