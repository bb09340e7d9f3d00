// Horovod: its ranks agree through Gloo, and rendezvous at the coordinator's key-value store, or
// through MPI, and are started as MPI's are.
#include <fmt/core.h>

#include "gang/strategies/mpi.h"
#include "gang/strategies/strategies.h"

namespace dure::gang {
namespace {

class HorovodOverGloo : public LaunchStrategy {
 public:
  bool needsAgent() const override { return true; }
  bool needsStore() const override { return true; }

  void addVariables(Environment& env, const ProcessView& process) const override {
    const RankNumbers& numbers = process.numbers;
    const Site& site = process.site;
    const spec::WorkerCount& workers = process.job.workers;
    env["HOROVOD_HOSTNAME"] = process.task.name();
    env["HOROVOD_RANK"] = std::to_string(numbers.rank);
    env["HOROVOD_SIZE"] = std::to_string(numbers.world);
    env["HOROVOD_LOCAL_RANK"] = std::to_string(numbers.local_rank);
    env["HOROVOD_LOCAL_SIZE"] = std::to_string(numbers.local_world);
    env["HOROVOD_CROSS_RANK"] = std::to_string(numbers.group);
    env["HOROVOD_CROSS_SIZE"] = std::to_string(numbers.groups);
    env["HOROVOD_GLOO_RENDEZVOUS_ADDR"] = site.address;
    env["HOROVOD_GLOO_RENDEZVOUS_PORT"] = std::to_string(site.store_port);
    env["HOROVOD_GLOO_IFACE"] = site.interface;
    env["HOROVOD_CONTROLLER"] = "gloo";
    env["HOROVOD_CPU_OPERATIONS"] = "gloo";
    if (workers.min < workers.max) env["HOROVOD_ELASTIC"] = "1";
  }

  std::map<std::string, std::string> store(const Roster& roster) const override {
    std::map<std::string, std::string> store;
    for (const Task& task : roster.tasks) {
      for (int process = 0; process < task.processes; ++process) {
        const RankNumbers numbers = numbersOf(roster, task, process);
        store[fmt::format("rank_and_size/{}:{}", task.name(), process)] =
            fmt::format("{},{},{},{},{},{}", numbers.rank, numbers.world, numbers.local_rank,
                        numbers.local_world, numbers.group, numbers.groups);
      }
    }
    return store;
  }
};

class HorovodOverMpi : public Mpi {
 public:
  void addVariables(Environment& env, const ProcessView& process) const override {
    Mpi::addVariables(env, process);
    env["HOROVOD_CONTROLLER"] = "mpi";
    env["HOROVOD_CPU_OPERATIONS"] = "mpi";
  }
};

}  // namespace

const LaunchStrategy& horovodStrategy(const spec::Job& job) {
  static const HorovodOverGloo over_gloo;
  static const HorovodOverMpi over_mpi;
  if (job.horovod.controller == spec::HorovodController::kMpi) return over_mpi;
  return over_gloo;
}

}  // namespace dure::gang
