#include "gang/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace dure::gang {
namespace {

using testing::Contains;
using testing::Key;
using testing::Not;
using testing::Pair;

spec::Job makeJob(spec::Strategy strategy, int workers, int processes = 1) {
  spec::Job job;
  job.name = "mnist";
  job.strategy = strategy;
  job.workers = {workers, workers};
  job.processes = processes;
  job.program.command = {"python3", "train.py"};
  return job;
}

// Two hosts, tasks assigned to them round-robin.
Site makeSite(const spec::Job& job) {
  Site site;
  site.run = "mnist.2";
  site.address = "10.0.0.1";
  site.store_port = 2999;
  site.interface = "eth0";
  site.agent = "/opt/dure-agent";
  site.directory = "/run/tasks";
  site.workdir = "/project";
  int i = 0;
  for (const Task& task : makeRoster(job, job.workers.max).tasks) {
    site.tasks[task.name()] = {.address = "10.0.0." + std::to_string(2 + i % 2), .port = 2222 + i};
    ++i;
  }
  return site;
}

Environment environment(const spec::Job& job, const std::string& task, int process = 0,
                        int generation = 1) {
  const Roster roster = makeRoster(job, job.workers.max);
  return environmentOf(job, roster, makeSite(job), *roster.find(task), process, generation);
}

TEST(TorchEnvironment, IsWhatTorchrunGivesToItsWorkers) {
  const spec::Job job = makeJob(spec::Strategy::kTorch, 2, 2);
  const Environment env = environment(job, "worker-1", 1, 3);
  const Environment expected = {{"RANK", "3"},
                                {"LOCAL_RANK", "1"},
                                {"GROUP_RANK", "1"},
                                {"ROLE_RANK", "3"},
                                {"ROLE_NAME", "default"},
                                {"WORLD_SIZE", "4"},
                                {"LOCAL_WORLD_SIZE", "2"},
                                {"GROUP_WORLD_SIZE", "2"},
                                {"ROLE_WORLD_SIZE", "4"},
                                {"MASTER_ADDR", "10.0.0.2"},
                                {"MASTER_PORT", "2222"},
                                {"TORCHELASTIC_RESTART_COUNT", "2"},
                                {"TORCHELASTIC_MAX_RESTARTS", "3"},
                                {"TORCHELASTIC_RUN_ID", "mnist"},
                                {"PET_NNODES", "2"},
                                {"PET_NPROC_PER_NODE", "2"},
                                {"PET_NODE_RANK", "1"},
                                {"PET_MASTER_ADDR", "10.0.0.2"},
                                {"PET_MASTER_PORT", "2222"},
                                {"PET_RDZV_BACKEND", "static"},
                                {"PET_RDZV_ENDPOINT", "10.0.0.2:2222"},
                                {"PET_RDZV_CONF", "is_host=0"},
                                {"PET_REDIRECTS", "9:1"},
                                {"PET_TEE", "9:1"},
                                {"OMP_NUM_THREADS", "1"},
                                {"DURE_RUN", "mnist.2"},
                                {"DURE_GENERATION", "3"},
                                {"DURE_RANK", "3"}};
  for (const auto& variable : expected) EXPECT_THAT(env, Contains(variable));
}

TEST(TorchEnvironment, AShellThatCallsTorchrunGetsOneProcessPerTask) {
  spec::Job job = makeJob(spec::Strategy::kTorch, 2, 4);
  const auto world = [&](const std::vector<std::string>& command) {
    job.program.command = command;
    return makeRoster(job, 2).world;
  };
  EXPECT_EQ(world({"sh", "-c", "torchrun --nnodes ${PET_NNODES} train.py"}), 2);
  EXPECT_EQ(world({"/bin/bash", "-ec", "cd x && exec /usr/bin/torchrun train.py"}), 2);
  EXPECT_EQ(world({"bash", "-e", "-c", "pip install y;python3 -m torch.distributed.run a.py"}), 2);
  EXPECT_EQ(world({"sh", "-c", "python3 train.py --with torchrun.yaml"}), 8);
  EXPECT_EQ(world({"sh", "torchrun.sh"}), 8);
  EXPECT_EQ(world({"python3", "-c", "torchrun"}), 8);
  EXPECT_EQ(world({"sh", "-c"}), 8);
}

TEST(TorchEnvironment, NoProcessThatExistsIsRedirected) {
  spec::Job job = makeJob(spec::Strategy::kTorch, 1, 10);
  EXPECT_THAT(environment(job, "worker-0"), Not(Contains(Key("PET_REDIRECTS"))));
}

TEST(TorchEnvironment, RespectsThreadsThatTheUserChose) {
  spec::Job job = makeJob(spec::Strategy::kTorch, 2);
  Site site = makeSite(job);
  site.inherited = {"OMP_NUM_THREADS"};
  const Roster roster = makeRoster(job, 2);
  EXPECT_THAT(environmentOf(job, roster, site, roster.tasks[0], 0, 1),
              Not(Contains(Key("OMP_NUM_THREADS"))));
  job.resources.cpus = 4;
  EXPECT_THAT(environment(job, "worker-0"), Contains(Pair("OMP_NUM_THREADS", "4")));
  job.env["OMP_NUM_THREADS"] = "7";
  EXPECT_THAT(environment(job, "worker-0"), Contains(Pair("OMP_NUM_THREADS", "7")));
}

TEST(TorchEnvironment, TorchrunAsTheProgramGetsOneProcessPerTask) {
  spec::Job job = makeJob(spec::Strategy::kTorch, 2, 4);
  job.program.command = {"torchrun", "train.py"};
  const Roster roster = makeRoster(job, 2);
  EXPECT_EQ(roster.world, 2);
  EXPECT_THAT(environment(job, "worker-1"), Contains(Pair("PET_NPROC_PER_NODE", "4")));
  job.program.command = {"python3", "-m", "torch.distributed.run", "train.py"};
  EXPECT_EQ(makeRoster(job, 2).world, 2);
  EXPECT_THAT(environment(job, "worker-0"), Contains(Pair("PET_RDZV_CONF", "is_host=1")));
}

TEST(TorchEnvironment, TheFirstRankHasTimeToListen) {
  EXPECT_GT(strategyOf(makeJob(spec::Strategy::kTorch, 2)).headStart().count(), 0);
  EXPECT_EQ(strategyOf(makeJob(spec::Strategy::kPlain, 2)).headStart().count(), 0);
}

TEST(TensorflowEnvironment, MultiWorkerMirrored) {
  const Environment env = environment(makeJob(spec::Strategy::kTensorflow, 2), "worker-1");
  const auto config = nlohmann::json::parse(env.at("TF_CONFIG"));
  EXPECT_EQ(config["cluster"],
            nlohmann::json::parse(R"({"worker": ["10.0.0.2:2222", "10.0.0.3:2223"]})"));
  EXPECT_EQ(config["task"], nlohmann::json::parse(R"({"type": "worker", "index": 1})"));
}

TEST(TensorflowEnvironment, ParameterServersWithAnEvaluatorOutsideTheCluster) {
  spec::Job job = makeJob(spec::Strategy::kTensorflow, 1);
  job.roles = {.chief = 1, .ps = 1, .evaluator = 1};
  const auto config = nlohmann::json::parse(environment(job, "evaluator-0").at("TF_CONFIG"));
  EXPECT_EQ(
      config["cluster"],
      nlohmann::json::parse(
          R"({"chief": ["10.0.0.2:2222"], "worker": ["10.0.0.3:2223"], "ps": ["10.0.0.2:2224"]})"));
  EXPECT_EQ(config["task"], nlohmann::json::parse(R"({"type": "evaluator", "index": 0})"));
}

TEST(MpiEnvironment, TheLauncherStartsItsDaemonsThroughTheAgent) {
  const spec::Job job = makeJob(spec::Strategy::kMpi, 2, 3);
  const Roster roster = makeRoster(job, 2);
  ASSERT_EQ(roster.tasks[0].name(), "launcher-0");
  const Environment env = environment(job, "launcher-0");
  EXPECT_THAT(env, Contains(Pair("OMPI_MCA_plm_rsh_agent", "/opt/dure-agent rsh")));
  EXPECT_THAT(env,
              Contains(Pair("OMPI_MCA_orte_default_hostfile", "/run/tasks/launcher-0/hostfile")));
  EXPECT_THAT(env, Contains(Pair("NVIDIA_VISIBLE_DEVICES", "")));
  EXPECT_EQ(strategyOf(job).files(job, roster, roster.tasks[0]).at("hostfile"),
            "worker-0 slots=3\nworker-1 slots=3\n");
  EXPECT_THAT(strategyOf(job).files(job, roster, roster.tasks[1]), testing::IsEmpty());
  EXPECT_EQ(roster.tasks[1].processes, 0);
}

TEST(MpiCommand, RunsUnderMpirunUnlessItIsOneAlready) {
  spec::Job job = makeJob(spec::Strategy::kMpi, 2);
  const auto first = [&](const std::string& word) {
    job.program.command = {word, "x"};
    return strategyOf(job).command(job, Site{})[0];
  };
  EXPECT_EQ(first("./prog"), "mpirun");
  EXPECT_EQ(first("/usr/bin/mpirun"), "/usr/bin/mpirun");
  EXPECT_EQ(first("mpiexec"), "mpiexec");
  EXPECT_EQ(first("sh"), "sh");
  job.strategy = spec::Strategy::kTorch;
  EXPECT_EQ(first("./prog"), "./prog");
}

TEST(HorovodEnvironment, OverGloo) {
  const spec::Job job = makeJob(spec::Strategy::kHorovod, 2, 2);
  const Environment env = environment(job, "worker-1", 0);
  const Environment expected = {{"HOROVOD_HOSTNAME", "worker-1"},
                                {"HOROVOD_RANK", "2"},
                                {"HOROVOD_SIZE", "4"},
                                {"HOROVOD_LOCAL_RANK", "0"},
                                {"HOROVOD_LOCAL_SIZE", "2"},
                                {"HOROVOD_CROSS_RANK", "1"},
                                {"HOROVOD_CROSS_SIZE", "2"},
                                {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "10.0.0.1"},
                                {"HOROVOD_GLOO_RENDEZVOUS_PORT", "2999"},
                                {"HOROVOD_CONTROLLER", "gloo"},
                                {"HOROVOD_CPU_OPERATIONS", "gloo"},
                                {"HOROVOD_GLOO_IFACE", "eth0"}};
  for (const auto& variable : expected) EXPECT_THAT(env, Contains(variable));
  EXPECT_THAT(env, Not(Contains(Key("HOROVOD_ELASTIC"))));
  spec::Job elastic = job;
  elastic.workers = {1, 2};
  EXPECT_THAT(environment(elastic, "worker-1"), Contains(Pair("HOROVOD_ELASTIC", "1")));
  EXPECT_EQ(strategyOf(job).store(makeRoster(job, 2)).at("rank_and_size/worker-1:1"),
            "3,4,1,2,1,2");
}

TEST(HorovodEnvironment, OverMpi) {
  spec::Job job = makeJob(spec::Strategy::kHorovod, 2);
  job.horovod.controller = spec::HorovodController::kMpi;
  const Environment env = environment(job, "launcher-0");
  EXPECT_THAT(env, Contains(Pair("HOROVOD_CONTROLLER", "mpi")));
  EXPECT_THAT(env, Contains(Key("OMPI_MCA_plm_rsh_agent")));
  EXPECT_EQ(strategyOf(job).command(job, Site{})[0], "mpirun");
}

TEST(Environment, WhatTheJobSaysWins) {
  spec::Job job = makeJob(spec::Strategy::kTorch, 1);
  job.env = {{"MASTER_PORT", "1"}, {"COLOUR", "blue"}};
  const Environment env = environment(job, "worker-0");
  EXPECT_THAT(env, Contains(Pair("MASTER_PORT", "1")));
  EXPECT_THAT(env, Contains(Pair("COLOUR", "blue")));
}

TEST(Environment, PathsAreWholeSoThatAProgramMayChangeItsDirectory) {
  spec::Job job = makeJob(spec::Strategy::kPlain, 1);
  job.checkpoint.path = "out/checkpoints";
  job.output = "/models/m.h5";
  const Environment env = environment(job, "worker-0");
  EXPECT_THAT(env, Contains(Pair("DURE_CHECKPOINT", "/project/out/checkpoints")));
  EXPECT_THAT(env, Contains(Pair("DURE_OUTPUT", "/models/m.h5")));
}

TEST(Roster, RanksGoThroughChiefWorkersServersAndEvaluator) {
  spec::Job job = makeJob(spec::Strategy::kPlain, 2, 2);
  job.roles = {.chief = 1, .ps = 1, .evaluator = 1};
  const Roster roster = makeRoster(job, 2);
  std::vector<std::pair<std::string, int>> seen;
  for (const Task& task : roster.tasks) seen.emplace_back(task.name(), task.first_rank);
  EXPECT_THAT(seen,
              testing::ElementsAre(Pair("chief-0", 0), Pair("worker-0", 2), Pair("worker-1", 4),
                                   Pair("ps-0", 6), Pair("evaluator-0", 7)));
  EXPECT_EQ(roster.world, 8);
  EXPECT_EQ(roster.holder(5)->name(), "worker-1");
  EXPECT_EQ(roster.holder(8), nullptr);
}

}  // namespace
}  // namespace dure::gang
