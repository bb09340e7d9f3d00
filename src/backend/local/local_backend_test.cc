#include "backend/local/local_backend.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <vector>

#include "base/files.h"
#include "spec/load.h"

namespace dure::local {
namespace {

using testing::HasSubstr;

class LocalBackends : public testing::Test {
 protected:
  ~LocalBackends() override { static_cast<void>(removeTree(root_)); }
  spec::Job job(const std::string& yaml = "") const {
    spec::Loaded loaded = spec::loadJobText(
        root_ + "/job.yaml", "name: train\nprogram: {command: [sh, -c, exit]}\n" + yaml, {});
    EXPECT_TRUE(loaded.ok()) << loaded.problems.at(0).text();
    return loaded.job;
  }
  Result<gang::Site> survey(const spec::Job& of, const std::string& agent = "/bin/true") {
    return LocalBackend(loop_, options(agent, of)).survey();
  }
  LocalBackend::Options options(const std::string& agent, const spec::Job& of) const {
    return {.job = of, .agent = agent, .directory = root_ + "/tasks"};
  }
  std::string script(const std::string& name, const std::string& content, mode_t mode = 0755) {
    const std::string path = root_ + "/" + name;
    std::ofstream(path) << content;
    chmod(path.c_str(), mode);
    return path;
  }
  void expectInvalid(const spec::Job& of, const std::string& part) {
    const auto site = survey(of);
    ASSERT_FALSE(site);
    EXPECT_EQ(site.error().code(), Code::kInvalid);
    EXPECT_THAT(site.error().message(), HasSubstr(part));
  }

 private:
  static std::string make() {
    std::string name = testing::TempDir() + "dure-local-XXXXXX";
    return mkdtemp(name.data());
  }

 protected:
  const std::string root_ = make();
  asio::io_context loop_{1};
};

TEST_F(LocalBackends, EveryTaskHasAnAddressAndAPortOfItsOwn) {
  const auto site = survey(job("workers: 3\nstrategy: torch\n"));
  ASSERT_TRUE(site);
  ASSERT_EQ(site->tasks.size(), 3u);
  const int first = site->tasks.at("worker-0").port;
  for (int i = 0; i < 3; ++i) {
    const gang::Endpoint& endpoint = site->tasks.at("worker-" + std::to_string(i));
    EXPECT_EQ(endpoint.address, "127.0.0.1");
    EXPECT_EQ(endpoint.port, first + i);
  }
  EXPECT_EQ(site->address, "127.0.0.1");
  EXPECT_EQ(site->interface, "lo");
  EXPECT_EQ(site->agent, "/bin/true");
  EXPECT_EQ(site->taskDirectory("worker-1"), root_ + "/tasks/worker-1");
  EXPECT_EQ(site->workdir, root_);
  EXPECT_TRUE(site->one_machine);
  EXPECT_TRUE(site->gpus.empty());
  EXPECT_EQ(site->store_port, 0);
  EXPECT_EQ(listDirectory(root_).size(), 0u) << "a survey leaves nothing behind";
}

TEST_F(LocalBackends, AnElasticJobHasPlaceForItsMost) {
  EXPECT_EQ(survey(job("workers: {min: 1, max: 4}\nstrategy: torch\n"))->tasks.size(), 4u);
}

TEST_F(LocalBackends, AskedTwiceTheSiteIsTheSame) {
  spec::Job asked = job("workers: 2\nstrategy: torch\n");
  asked.name += "-" + std::to_string(getpid());
  EXPECT_EQ(survey(asked)->tasks.at("worker-0").port, survey(asked)->tasks.at("worker-0").port);
}

TEST_F(LocalBackends, APortOfTheJobIsTheFirst) {
  const auto site = survey(job("workers: 2\nstrategy: torch\nport: 29500\n"));
  ASSERT_TRUE(site);
  EXPECT_EQ(site->tasks.at("worker-0").port, 29500);
  EXPECT_EQ(site->tasks.at("worker-1").port, 29501);
}

TEST_F(LocalBackends, GpusAreSplitAmongTheTasks) {
  const auto site = survey(job("workers: 3\nstrategy: torch\nresources: {gpus: 2}\n"));
  ASSERT_TRUE(site);
  EXPECT_EQ(site->gpus.at("worker-0"), "0,1");
  EXPECT_EQ(site->gpus.at("worker-1"), "2,3");
  EXPECT_EQ(site->gpus.at("worker-2"), "4,5");
}

TEST_F(LocalBackends, HorovodsStoreHasAPortBesideTheTasks) {
  const auto site = survey(job("workers: 2\nstrategy: horovod\nport: 29500\n"));
  ASSERT_TRUE(site);
  EXPECT_EQ(site->store_port, 29502);
  // Through mpirun it needs none.
  const auto mpi = survey(job("workers: 2\nstrategy: horovod\nhorovod: {controller: mpi}\n"));
  ASSERT_TRUE(mpi) << mpi.error().message();
  EXPECT_EQ(mpi->store_port, 0);
}

TEST_F(LocalBackends, ThreadVariablesFromTheOutsideAreKept) {
  unsetenv("OPENBLAS_NUM_THREADS");
  setenv("OMP_NUM_THREADS", "3", 1);
  EXPECT_THAT(survey(job())->inherited, testing::ElementsAre("OMP_NUM_THREADS"));
  unsetenv("OMP_NUM_THREADS");
  EXPECT_TRUE(survey(job())->inherited.empty());
}

TEST_F(LocalBackends, AMissingProgramIsAMistakeOfTheJob) {
  spec::Job of = job();
  of.program.command = {"no-such-program"};
  expectInvalid(of, "program.command: no-such-program: command not found");
  of.program.command = {"./missing.sh"};
  expectInvalid(of, "program.command: ./missing.sh: No such file or directory");
  of.program.command = {root_ + "/missing"};
  expectInvalid(of, root_ + "/missing: No such file or directory");
  script("data", "", 0644);
  of.program.command = {"./data"};
  expectInvalid(of, "program.command: ./data: Permission denied");
}

TEST_F(LocalBackends, AProgramIsLookedForWhereItWillBe) {
  script("mine", "");
  spec::Job of = job();
  of.program.command = {"./mine"};
  EXPECT_TRUE(survey(of)) << "from the working directory";
  of.program.command = {"mine"};
  EXPECT_FALSE(survey(of));
  of.env["PATH"] = "/nowhere:" + root_;
  EXPECT_TRUE(survey(of)) << "along the job's own PATH";
}

TEST_F(LocalBackends, AMissingWorkingDirectoryIsAMistakeOfTheJob) {
  spec::Job of = job();
  of.program.workdir = root_ + "/missing";
  expectInvalid(of, "program.workdir: no directory " + root_ + "/missing");
}

TEST_F(LocalBackends, AnUnknownNetworkIsNamed) {
  spec::Job of = job();
  of.local.networks = {"dure-no-such-network"};
  of.local.address = "10.0.0.1";
  const auto site = survey(of);
  ASSERT_FALSE(site);
  EXPECT_THAT(site.error().message(), HasSubstr("local.networks: network dure-no-such-network"));
}

TEST_F(LocalBackends, AMissingAgentIsNamed) {
  const auto site = survey(job(), root_ + "/dure-agent");
  ASSERT_FALSE(site);
  EXPECT_THAT(site.error().message(), HasSubstr("the agent " + root_ + "/dure-agent"));
}

// In a process of its own: a backend waits for every child there is.
int inAProcessOfItsOwn(const std::function<int()>& check) {
  const pid_t pid = fork();
  if (pid == 0) _exit(check());
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool runUntil(asio::io_context& loop, const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition() && std::chrono::steady_clock::now() < deadline) {
    loop.restart();
    loop.run_one_for(std::chrono::milliseconds(10));
  }
  return condition();
}

TEST_F(LocalBackends, AKilledTaskIsGoneOnlyWhenNothingOfItIsLeft) {
  // An agent whose programs went into the background; each holds the pipe open as long as it lives.
  ASSERT_EQ(mkfifo((root_ + "/alive").c_str(), 0600), 0);
  const std::string agent = script("agent", "#!/bin/sh\nexec 3>" + root_ +
                                                "/alive\n(setsid sleep 1000 &)\n(setsid sh -c "
                                                "'sleep 1000 & sleep 1000' &)\nexec sleep 1000\n");
  const int code = inAProcessOfItsOwn([&] {
    asio::io_context loop(1);
    LocalBackend backend(loop, options(agent, job()));
    if (!backend.begin()) return 1;
    std::vector<std::string> gone;
    backend.listen({.gone = [&](const std::string& task) { gone.push_back(task); }});
    const Fd alive(open((root_ + "/alive").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    // Nobody has the other end: 0. Somebody has, and is silent: -1.
    const auto someoneLives = [&] {
      char byte = 0;
      return read(alive.get(), &byte, 1) != 0;
    };
    const gang::Roster roster = gang::makeRoster(job(), 1);
    for (int again = 0; again < 2; ++again)
      backend.start(roster, {.run = "train.1", .generation = 1});
    if (!runUntil(loop, someoneLives)) return 3;
    if (!gone.empty()) return 4;
    backend.kill("worker-1");
    backend.kill("worker-0");
    if (!runUntil(loop, [&] { return !gone.empty(); })) return 5;
    if (someoneLives()) return 6;
    return gone == std::vector<std::string>{"worker-0"} ? 0 : 7;
  });
  EXPECT_EQ(code, 0);
}

// What CUDA_VISIBLE_DEVICES is while this lives.
class VisibleGpus {
 public:
  explicit VisibleGpus(const char* list) { setenv("CUDA_VISIBLE_DEVICES", list, 1); }
  ~VisibleGpus() { unsetenv("CUDA_VISIBLE_DEVICES"); }
  VisibleGpus(const VisibleGpus&) = delete;
  VisibleGpus& operator=(const VisibleGpus&) = delete;
};

TEST_F(LocalBackends, TheVisibleGpusAreTheOnesThatAreAssigned) {
  const VisibleGpus visible("3, GPU-5c,7,-1,8");
  const auto site = survey(job("workers: 3\nstrategy: torch\nresources: {gpus: 1}\n"));
  ASSERT_TRUE(site) << site.error().message();
  EXPECT_EQ(site->gpus.at("worker-0"), "3");
  EXPECT_EQ(site->gpus.at("worker-1"), "GPU-5c");
  EXPECT_EQ(site->gpus.at("worker-2"), "7");
  expectInvalid(job("gpus: 4\n"), "does not fit on this machine: 4 GPUs wanted, 3 free");
}

TEST_F(LocalBackends, NoVisibleGpuIsNoGpu) {
  const VisibleGpus visible("");
  expectInvalid(job("resources: {gpus: 1}\n"), "GPU");
}

TEST_F(LocalBackends, AnElasticJobGetsAsManyWorkersAsFit) {
  const auto layout = [&](const std::string& yaml) {
    return LocalBackend(loop_, options("/bin/true", job(yaml))).layout()->workers;
  };
  const VisibleGpus visible("0,1,2");
  EXPECT_EQ(layout("workers: {min: 1, max: 8}\nresources: {gpus: 1}\n"), 3);
  EXPECT_EQ(layout("workers: {min: 1, max: 8}\n"), 8) << "they ask for nothing";
  EXPECT_EQ(layout("workers: {min: 2, max: 8}\nresources: {memory: 1000Ti}\n"), 2);
  EXPECT_EQ(layout("workers: 4\nresources: {cpus: 500}\n"), 4) << "CPUs are shared";
  EXPECT_EQ(layout("gpus: 2\n"), 1) << "what stays on one node is one worker's";
  EXPECT_EQ(layout("workers: 2\nnodes: {selector: {disk: ssd}}\n"), 2)
      << "labels are those of a cluster's nodes";
}

TEST_F(LocalBackends, AnAgentIsToldWhatItMustKnowToJoin) {
  const std::string agent =
      script("agent", "#!/bin/sh\nenv | grep ^DURE_AGENT_ | sort > " + root_ + "/told\n");
  const int code = inAProcessOfItsOwn([&] {
    asio::io_context loop(1);
    LocalBackend backend(loop, options(agent, job()));
    if (!backend.begin()) return 1;
    bool gone = false;
    backend.listen({.gone = [&](const std::string&) { gone = true; }});
    backend.start(
        gang::makeRoster(job(), 1),
        {.run = "train.1", .generation = 3, .coordinator = "127.0.0.1:5", .secret = "s3cret"});
    return runUntil(loop, [&] { return gone; }) ? 0 : 3;
  });
  EXPECT_EQ(code, 0);
  const std::string told = *readFile(root_ + "/told", 10'000);
  for (const char* value : {"train.1", "worker-0", "=3\n", "127.0.0.1:5", "s3cret"}) {
    EXPECT_THAT(told, HasSubstr(value));
  }
}

TEST_F(LocalBackends, AWorkingDirectoryThatIsAFileIsAMistakeOfTheJob) {
  spec::Job of = job();
  of.program.workdir = script("file", "");
  EXPECT_FALSE(survey(of));
}

TEST_F(LocalBackends, ACommandThatIsADirectoryIsAMistakeOfTheJob) {
  spec::Job of = job();
  of.program.command = {"/tmp"};
  EXPECT_FALSE(survey(of));
}

TEST_F(LocalBackends, PortsBeyondTheLastAreAMistakeOfTheJob) {
  EXPECT_FALSE(survey(job("workers: 4\nstrategy: torch\nport: 65535\n")));
}

TEST_F(LocalBackends, MpisWorkersBeginWithTheFirstGpu) {
  const auto site = survey(job("workers: 2\nstrategy: mpi\nresources: {gpus: 1}\n"));
  ASSERT_TRUE(site);
  EXPECT_EQ(site->gpus.at("worker-0"), "0");
}

}  // namespace
}  // namespace dure::local
