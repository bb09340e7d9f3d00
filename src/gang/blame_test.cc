#include "gang/blame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dure::gang {
namespace {

// Standard error as the programs wrote it.
const std::string kPython = R"(Traceback (most recent call last):
  File "/tmp/e.py", line 2, in f
    try: {}["a"]
         ~~^^^^^
KeyError: 'a'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/tmp/e.py", line 4, in <module>
    f()
  File "/tmp/e.py", line 3, in f
    except KeyError as e: raise ValueError("bad thing\nsecond line") from e
                          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
ValueError: bad thing
second line
)";
const std::string kSyntax = R"(  File "/tmp/s.py", line 1
    x = = 1
        ^
SyntaxError: invalid syntax
)";
const std::string kOddException = R"(Traceback (most recent call last):
  File "/tmp/o.py", line 1, in <module>
    raise StopIteration(3)
StopIteration: 3
)";
const std::string kTorchrun = R"(Traceback (most recent call last):
  File "train.py", line 3, in <module>
    raise ValueError("no data")
ValueError: no data
ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 41) of binary: /usr/bin/python3
Traceback (most recent call last):
  File "/usr/bin/torchrun", line 33, in <module>
    sys.exit(load_entry_point('torch==1.13.0a0', 'console_scripts', 'torchrun')())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
)";
const std::string kMpiAbort = R"(recv(17) failed: Connection reset by peer (104)
--------------------------------------------------------------------------
MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
with errorcode 7.

NOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.
You may or may not see output from other processes, depending on
exactly when Open MPI kills them.
--------------------------------------------------------------------------
)";
const std::string kMpiExit =
    R"(--------------------------------------------------------------------------
Primary job  terminated normally, but 1 process returned
a non-zero exit code. Per user-direction, the job has been aborted.
--------------------------------------------------------------------------
--------------------------------------------------------------------------
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[12331,1],2]
  Exit code:    3
--------------------------------------------------------------------------
)";
const std::string kMpiCrash = R"([vm:23804] *** Process received signal ***
[vm:23804] Signal: Segmentation fault (11)
[vm:23804] Failing at address: (nil)
[vm:23804] [ 1] ./ab(+0x1287)[0x5597d545b287]
[vm:23804] *** End of error message ***
--------------------------------------------------------------------------
mpirun noticed that process rank 1 with PID 0 on node worker-0 exited on signal 11 (Segmentation fault).
--------------------------------------------------------------------------
)";
const std::string kMpiNoFile =
    R"(--------------------------------------------------------------------------
mpirun was unable to launch the specified application as it could not access
or execute an executable:

Executable: ./nope
Node: worker-0

while attempting to start process rank 0.
--------------------------------------------------------------------------
)";
const std::string kMpiNoCommand =
    R"(--------------------------------------------------------------------------
mpirun was unable to find the specified executable file, and therefore
did not launch the job.  This error was first reported for process
rank 0; it may have occurred for other processes as well.

Node:       worker-0
Executable: nopecmd
--------------------------------------------------------------------------
)";
const std::string kThrown =
    "terminate called after throwing an instance of 'std::runtime_error'\n  what():  boom\n";
const std::string kAssertion = "t: t.cc:3: int main(int, char**): Assertion `c==1' failed.\n";
const std::string kUsage =
    "usage: train.py [-h] [--lr LR]\ntrain.py: error: unrecognized arguments: --lx 3\n";
const std::string kTable = "epoch  loss\n    1  0.3121\n    2  0.2900\n";

std::string lineOf(const std::string& errors, const std::string& output = "", int code = 1,
                   int signal = 0) {
  return explainingLine({.status = {code, signal}, .tail = output, .errors = errors});
}

TEST(ExplainingLine, IsTheOneThatAPersonWouldLookFor) {
  const std::pair<std::string, std::string> table[] = {
      {kPython, "ValueError: bad thing"},
      {kPython + "clean-up done\n", "ValueError: bad thing"},
      {kSyntax, "SyntaxError: invalid syntax"},
      {kOddException, "StopIteration: 3"},
      {kTorchrun, "ValueError: no data"},
      {"[rank1]: Traceback (most recent call last):\n[rank1]:   File \"a\"\n[rank1]: OSError: "
       "full\n",
       "OSError: full"},
      {kMpiAbort,
       "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD with errorcode 7."},
      {kMpiExit, "MPI rank 2 exited with 3"},
      {"solver: cannot read mesh.dat\n" + kMpiExit,
       "MPI rank 2 exited with 3: solver: cannot read mesh.dat"},
      {kPython + kMpiExit, "MPI rank 2: ValueError: bad thing"},
      {kMpiCrash,
       "mpirun noticed that process rank 1 with PID 0 on node worker-0 exited on signal 11 "
       "(Segmentation fault)."},
      {kMpiNoFile, "mpirun could not access or find the executable ./nope"},
      {kMpiNoCommand, "mpirun could not access or find the executable nopecmd"},
      {kThrown, "terminate called after throwing an instance of 'std::runtime_error': boom"},
      {kAssertion, "t: t.cc:3: int main(int, char**): Assertion `c==1' failed."},
      {"bash: line 1: nosuch: command not found\n", "bash: line 1: nosuch: command not found"},
      {"sh: 1: nosuch: not found\n", "sh: 1: nosuch: not found"},
      {"ls: cannot access '/nonexist': No such file or directory\n",
       "ls: cannot access '/nonexist': No such file or directory"},
      {kUsage, "train.py: error: unrecognized arguments: --lx 3"},
      {"Warning: error bars are off\nfoo: failed to start\nconnection reset\n",
       "foo: failed to start"},
      {"dure-trainer: the checkpoint of step 5 is lost: No space left on device\n"
       "dure-trainer: the loss is NaN in epoch 1\n",
       "dure-trainer: the loss is NaN in epoch 1"},
      {"one\ntwo\n\n-----\n", "two"},
      {"", ""}};
  for (const auto& [errors, line] : table) {
    EXPECT_EQ(lineOf(errors), line);
    EXPECT_EQ(lineOf(errors, kTable), line) << "whatever it printed besides";
  }
}

TEST(ExplainingLine, StandardOutputCountsOnlyWhereErrorsGoThere) {
  EXPECT_EQ(lineOf("", kTable), "");
  EXPECT_EQ(lineOf("", kTable + kPython), "ValueError: bad thing");
  EXPECT_EQ(lineOf("", "an error occurred in batch 3, going on\n"), "");
  EXPECT_EQ(lineOf("ls: cannot open it\n", kPython), "ls: cannot open it");
}

TEST(ExplainingLine, WhoIsKilledHasNotSaidWhy) {
  EXPECT_EQ(lineOf("", "step 3\n", 0, 9), "");
  EXPECT_EQ(lineOf("step 3 done\n", "", 0, 9), "");
  EXPECT_EQ(lineOf(kThrown, "", 0, 6),
            "terminate called after throwing an instance of 'std::runtime_error': boom");
}

TEST(ExplainingLine, IsBounded) {
  EXPECT_LT(lineOf("ValueError: " + std::string(100'000, 'x')).size(), 400u);
}

TEST(LikelyCause, ALostConnectionRanksBehindAndACrashBefore) {
  const auto cause = [](const std::string& errors, int signal = 0) {
    return likelyCause({.status = {signal == 0 ? 1 : 0, signal}, .errors = errors});
  };
  EXPECT_LT(cause(kPython), cause("ConnectionResetError: [Errno 104] Connection reset by peer\n"));
  EXPECT_LT(cause(kMpiAbort), cause("recv(17) failed: Connection reset by peer\n"));
  EXPECT_LT(cause("", 9), cause(kPython));
  EXPECT_EQ(cause("TypeError: unsupported operand\n"), cause(kPython)) << "no peer in its name";
}

TEST(CannotHeal, OnlyMistakesThatAnotherStartDoesNotMend) {
  const auto hopeless = [](const std::string& errors, int code) {
    return wouldFailAgain({.status = {code, 0}, .errors = errors});
  };
  EXPECT_TRUE(
      hopeless("Traceback (most recent call last):\n  File \"a.py\", line 1\n"
               "ModuleNotFoundError: No module named 'x'\n",
               1));
  EXPECT_TRUE(hopeless("ImportError: cannot import name 'x' from 'y'\n", 1));
  EXPECT_TRUE(hopeless(kSyntax, 1));
  EXPECT_TRUE(hopeless("sh: 1: nosuch: not found\n", 127));
  EXPECT_TRUE(hopeless("sh: 1: ./train.py: Permission denied\n", 126));
  EXPECT_TRUE(hopeless(kMpiNoFile, 132));
  EXPECT_TRUE(hopeless(kMpiNoCommand, 134));
  EXPECT_TRUE(hopeless(
      "/usr/bin/python3: can't open file '/tmp/nofile.py': [Errno 2] No such file or directory\n",
      2));
  EXPECT_TRUE(hopeless(kUsage, 2));
  EXPECT_FALSE(hopeless(kUsage, 1));
  EXPECT_FALSE(hopeless(kPython, 1));
  EXPECT_FALSE(hopeless("", 127));
  EXPECT_FALSE(hopeless("", 2));
  EXPECT_FALSE(hopeless(kMpiAbort, 7));
  EXPECT_FALSE(hopeless("OSError: [Errno 98] Address already in use\n", 1));
}

TEST(FailureSentence, SaysWhoHowWhenAndWhy) {
  const auto sentence = [](const std::string& errors) {
    return failureSentence("rank 0 (worker-0)",
                           protocol::Exited{.status = {1, 0}, .ran_ms = 1500, .errors = errors}, 2);
  };
  const std::string start = "rank 0 (worker-0) exited with 1 in generation 2, after 1.5 s";
  EXPECT_EQ(sentence(""), start);
  EXPECT_EQ(sentence("ValueError: bad\nclean-up done\n"), start + ": ValueError: bad");
}

}  // namespace
}  // namespace dure::gang
