#include "base/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <functional>

#include <array>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "base/fd.h"
#include "base/files.h"
#include "base/test_process.h"

namespace dure {
namespace {

using testing::HasSubstr;

struct Pipe {
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    in.reset(ends[0]);
    out.reset(ends[1]);
  }
  // Everything until the last holder of the other end is gone.
  std::string rest() {
    out.reset();
    std::string text;
    char block[4096];
    for (ssize_t got = 0; (got = read(in.get(), block, sizeof block)) > 0;) {
      text.append(block, static_cast<std::size_t>(got));
    }
    return text;
  }
  Fd in;
  Fd out;
};

ExitStatus waitFor(pid_t pid) {
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return decodeWaitStatus(status);
}

// What the program wrote to its standard output.
std::string outputOf(SpawnOptions options) {
  Pipe pipe;
  options.out = pipe.out.get();
  const auto pid = spawn(options);
  if (!pid) return "not started: " + pid.error().message();
  std::string text = pipe.rest();
  waitFor(*pid);
  return text;
}

SpawnOptions shell(const std::string& script) {
  return {.argv = {"sh", "-c", script}, .env = {"PATH=/usr/bin:/bin"}};
}

class Spawn : public testing::Test {
 protected:
  ~Spawn() override { static_cast<void>(removeTree(directory_)); }
  std::string file(const std::string& name, const std::string& content, mode_t mode) const {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path) << content;
    chmod(path.c_str(), mode);
    return path;
  }

 private:
  static std::string make() {
    std::string name = testing::TempDir() + "dure-spawn-XXXXXX";
    return mkdtemp(name.data());
  }

 protected:
  const std::string directory_ = make();
};

TEST_F(Spawn, TheExitCodeIsThePrograms) {
  for (const int code : {0, 1, 42, 255}) {
    const auto pid = spawn(shell("exit " + std::to_string(code)));
    ASSERT_TRUE(pid);
    EXPECT_EQ(waitFor(*pid), (ExitStatus{.code = code, .signal = 0}));
  }
}

TEST_F(Spawn, ASignalThatKilledItIsTold) {
  const auto pid = spawn(shell("kill -SEGV $$"));
  ASSERT_TRUE(pid);
  const ExitStatus status = waitFor(*pid);
  EXPECT_EQ(status.signal, SIGSEGV);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(describeExit(status), "was killed by SIGSEGV");
}

TEST_F(Spawn, NothingOfTheEnvironmentIsInherited) {
  setenv("DURE_TEST_INHERITED", "1", 1);
  EXPECT_EQ(outputOf({.argv = {"env"}, .env = {"A=1", "B=x y", "PATH=/usr/bin:/bin"}}),
            "A=1\nB=x y\nPATH=/usr/bin:/bin\n");
  EXPECT_EQ(outputOf({.argv = {"/usr/bin/env"}, .env = {}}), "");
  EXPECT_THAT(currentEnvironment(), testing::Contains("DURE_TEST_INHERITED=1"));
  unsetenv("DURE_TEST_INHERITED");
}

TEST_F(Spawn, TheArgumentsArriveAsTheyAre) {
  SpawnOptions options = shell("printf '%s|' \"$@\"");
  for (const char* word : {"name", "", "two words", "$HOME", "*"}) options.argv.push_back(word);
  EXPECT_EQ(outputOf(options), "|two words|$HOME|*|");
}

TEST_F(Spawn, StartsInTheWorkingDirectory) {
  SpawnOptions options = shell("pwd -P");
  options.workdir = directory_;
  char real[4096];
  ASSERT_NE(realpath(directory_.c_str(), real), nullptr);
  EXPECT_EQ(outputOf(options), std::string(real) + "\n");
  file("here", "#!/bin/sh\necho found\n", 0755);
  EXPECT_EQ(outputOf({.argv = {"./here"}, .env = {}, .workdir = directory_}), "found\n");
}

TEST_F(Spawn, AMissingWorkingDirectoryIsNamed) {
  SpawnOptions options = shell("true");
  options.workdir = directory_ + "/missing";
  const auto pid = spawn(options);
  ASSERT_FALSE(pid);
  EXPECT_EQ(pid.error().code(), Code::kNotFound);
  EXPECT_EQ(pid.error().message(),
            "working directory " + options.workdir + ": No such file or directory");
}

TEST_F(Spawn, AProgramThatIsNotThereIsNamed) {
  const auto pid = spawn({.argv = {"no-such-program"}, .env = {"PATH=/usr/bin:/bin"}});
  ASSERT_FALSE(pid);
  EXPECT_EQ(pid.error().code(), Code::kNotFound);
  EXPECT_EQ(pid.error().message(), "no-such-program: command not found");
  const std::string path = directory_ + "/missing";
  const auto by_path = spawn({.argv = {path}, .env = {}});
  ASSERT_FALSE(by_path);
  EXPECT_EQ(by_path.error().message(), path + ": No such file or directory");
  EXPECT_EQ(spawn({}).error().code(), Code::kInvalid);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "what failed leaves no child behind";
}

TEST_F(Spawn, AFileThatMayNotBeRunIsDenied) {
  const std::string path = file("data", "#!/bin/sh\n", 0644);
  const auto pid = spawn({.argv = {path}, .env = {}});
  ASSERT_FALSE(pid);
  EXPECT_EQ(pid.error().code(), Code::kDenied);
  EXPECT_EQ(pid.error().message(), path + ": Permission denied");
}

TEST_F(Spawn, AScriptWithoutAnInterpreterLineRunsInAShell) {
  const std::string path = file("script", "echo \"$0 $1\"\n", 0755);
  EXPECT_EQ(outputOf({.argv = {path, "a b"}, .env = {}}), path + " a b\n");
}

TEST_F(Spawn, TheProgramIsFoundAlongThePathItIsGiven) {
  file("tool", "#!/bin/sh\necho mine\n", 0755);
  const std::string path = "PATH=/nowhere:" + directory_;
  EXPECT_EQ(outputOf({.argv = {"tool"}, .env = {path}}), "mine\n");
  EXPECT_EQ(*findProgram("tool", {path}), directory_ + "/tool");
  EXPECT_EQ(*findProgram("./tool", {path}), "./tool");
  EXPECT_FALSE(findProgram("tool", {"PATH=/nowhere"}));
  // The last word on PATH counts, and what cannot be run is passed over.
  EXPECT_TRUE(findProgram("tool", {"PATH=/nowhere", path}));
  chmod((directory_ + "/tool").c_str(), 0644);
  EXPECT_FALSE(findProgram("tool", {path}));
  EXPECT_FALSE(findProgram("tmp", {"PATH=/"})) << "a directory is no program";
}

TEST_F(Spawn, TheThreeDescriptorsAreTheOnesGiven) {
  Pipe in;
  Pipe out;
  Pipe err;
  SpawnOptions options = shell("cat; echo oh >&2");
  options.in = in.in.get();
  options.out = out.out.get();
  options.err = err.out.get();
  const auto pid = spawn(options);
  ASSERT_TRUE(pid);
  ASSERT_TRUE(writeAll(in.out.get(), "through"));
  in.out.reset();
  EXPECT_EQ(out.rest(), "through");
  EXPECT_EQ(err.rest(), "oh\n");
  EXPECT_TRUE(waitFor(*pid).ok());
}

TEST_F(Spawn, OneDescriptorMayBecomeSeveral) {
  Pipe both;
  SpawnOptions options = shell("echo out; echo err >&2");
  options.out = both.out.get();
  options.err = both.out.get();
  const auto pid = spawn(options);
  ASSERT_TRUE(pid);
  EXPECT_EQ(both.rest(), "out\nerr\n");
  waitFor(*pid);
}

TEST_F(Spawn, AProgramStartsWithNoSignalBlockedOrIgnored) {
  sigset_t set;
  sigset_t before;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, &before);
  signal(SIGPIPE, SIG_IGN);
  // Signals 32 and 33 are the C library's own, and out of reach: whoever started the test may have
  // them ignored.
  const std::string status = outputOf(
      {.argv = {"sed", "-nE", "s/^(Sig(Blk|Ign)):.*(.{8})$/\\1 \\3/p", "/proc/self/status"},
       .env = {}});
  EXPECT_THAT(status, testing::MatchesRegex("SigBlk 00000000\nSigIgn [08]0000000\n"));
  signal(SIGPIPE, SIG_DFL);
  sigset_t now;
  pthread_sigmask(SIG_SETMASK, &before, &now);
  EXPECT_EQ(sigismember(&now, SIGTERM), 1) << "ours stay as they were";
}

TEST_F(Spawn, AProgramHasAGroupOrASessionOfItsOwn) {
  // pid, process group and session, as field 1, 5 and 6 say.
  SpawnOptions options{.argv = {"sed", "-E",
                                "s/^([0-9]+) \\(.*\\) . [0-9]+ ([0-9]+) ([0-9]+) .*/"
                                "\\1 \\2 \\3/",
                                "/proc/self/stat"},
                       .env = {}};
  const auto numbers = [&] {
    std::istringstream text(outputOf(options));
    int pid = 0;
    int group = 0;
    int session = 0;
    text >> pid >> group >> session;
    return std::array<int, 3>{pid, group, session};
  };
  const auto grouped = numbers();
  EXPECT_EQ(grouped[1], grouped[0]);
  EXPECT_EQ(grouped[2], getsid(0));
  options.new_session = true;
  const auto alone = numbers();
  EXPECT_EQ(alone[1], alone[0]);
  EXPECT_EQ(alone[2], alone[0]);
}

TEST(DescriptorLimit, IsRaisedForThisProcessAndNotForPrograms) {
  const pid_t child = fork();
  if (child == 0) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 100;
    setrlimit(RLIMIT_NOFILE, &limit);
    raiseDescriptorLimit();
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur != limit.rlim_max) _exit(1);
    _exit(outputOf({.argv = {"sh", "-c", "ulimit -Sn"}, .env = {}}) == "100\n" ? 0 : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(ExitStatus, IsDescribedInWords) {
  EXPECT_EQ(describeExit({.code = 0, .signal = 0}), "exited with 0");
  EXPECT_EQ(describeExit({.code = 3, .signal = 0}), "exited with 3");
  EXPECT_EQ(describeExit({.code = 0, .signal = SIGKILL}), "was killed by SIGKILL");
  EXPECT_THAT(describeExit({.code = 0, .signal = 50}), HasSubstr("50"));
  EXPECT_TRUE(ExitStatus{}.ok());
  EXPECT_FALSE((ExitStatus{.code = 1, .signal = 0}).ok());
}

TEST(RandomToken, Has256BitsAndIsNeverTheSame) {
  std::set<std::string> tokens;
  for (int i = 0; i < 1000; ++i) {
    const std::string token = randomToken();
    EXPECT_EQ(token.size(), 64u);
    EXPECT_EQ(token.find_first_not_of("0123456789abcdef"), std::string::npos);
    tokens.insert(token);
  }
  EXPECT_EQ(tokens.size(), 1000u);
}

TEST_F(Spawn, ADescriptorThatAlreadyHasItsNumberIsKeptOpen) {
  const int code = inAProcessOfItsOwn([] {
    close(0);
    const Fd nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (nothing.get() != 0) return 2;
    const auto pid =
        spawn({.argv = {"/bin/sh", "-c", "test -e /proc/$$/fd/0"}, .env = {}, .in = 0});
    int status = 0;
    if (!pid || waitpid(*pid, &status, 0) != *pid) return 3;
    return decodeWaitStatus(status).ok() ? 0 : 1;
  });
  EXPECT_EQ(code, 0);
}

TEST_F(Spawn, TheDescriptorsMayBeExchanged) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const int code = inAProcessOfItsOwn([&] {
    dup2(ends[1], 1);
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(nowhere, 2);
    const auto pid =
        spawn({.argv = {"/bin/sh", "-c", "echo out; echo err >&2"}, .env = {}, .out = 2, .err = 1});
    if (!pid) return 1;
    waitpid(*pid, nullptr, 0);
    return 0;
  });
  EXPECT_EQ(code, 0);
  close(ends[1]);
  char block[100];
  const ssize_t got = read(ends[0], block, sizeof block);
  EXPECT_EQ(std::string(block, static_cast<std::size_t>(std::max<ssize_t>(0, got))), "err\n");
  close(ends[0]);
}

}  // namespace
}  // namespace dure
