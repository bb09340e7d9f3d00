#include "gang/environment.h"

#include <algorithm>
#include <filesystem>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "spec/print.h"

namespace dure::gang {
namespace {

// One rank's place in the gang, in the terms that torch and Horovod share.
struct Place {
  int rank;
  int world;
  int local_rank;
  int local_world;
  int group;   // the task's number
  int groups;  // of tasks
  int slots;   // processes in this task, whoever starts them
};

Place placeOf(const Roster& roster, const Task& task, int process) {
  const auto number = std::find_if(roster.tasks.begin(), roster.tasks.end(),
                                   [&](const Task& t) { return t.name() == task.name(); }) -
                      roster.tasks.begin();
  return {.rank = task.first_rank + process,
          .world = roster.world,
          .local_rank = process,
          .local_world = task.processes,
          .group = static_cast<int>(number),
          .groups = static_cast<int>(roster.tasks.size()),
          .slots = task.slots};
}

std::string text(int number) { return std::to_string(number); }

// The words that name a launcher of processes: given as the command, they are run once per task (or
// once in all, with MPI) and start the processes themselves.
bool isOneOf(const std::string& word, std::initializer_list<const char*> names) {
  const std::string base = std::filesystem::path(word).filename().string();
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return base == name; });
}

void addDure(Environment& env, const spec::Job& job, const Site& site, const Task& task,
             const Place& place, int generation) {
  env["DURE_JOB"] = job.name;
  if (!site.run.empty()) env["DURE_RUN"] = site.run;
  env["DURE_STRATEGY"] = spec::strategyName(job.strategy);
  env["DURE_GENERATION"] = text(generation);
  env["DURE_TASK"] = task.name();
  env["DURE_ROLE"] = roleName(task.role);
  env["DURE_INDEX"] = text(task.index);
  env["DURE_TASK_DIR"] = site.taskDirectory(task.name());
  env["PYTHONUNBUFFERED"] = "1";
  if (task.processes > 0) {
    env["DURE_RANK"] = text(place.rank);
    env["DURE_WORLD_SIZE"] = text(place.world);
    env["DURE_LOCAL_RANK"] = text(place.local_rank);
    env["DURE_LOCAL_WORLD_SIZE"] = text(place.local_world);
    env["DURE_METRICS"] = fmt::format("{}/metrics-{}", env["DURE_TASK_DIR"], place.local_rank);
  }
  // Whole, so that a program may change its directory.
  const std::filesystem::path start(site.workdir);
  if (!job.checkpoint.path.empty()) env["DURE_CHECKPOINT"] = start / job.checkpoint.path;
  if (!job.output.empty()) env["DURE_OUTPUT"] = start / job.output;
  const auto gpus = site.gpus.find(task.name());
  if (gpus != site.gpus.end()) env["CUDA_VISIBLE_DEVICES"] = gpus->second;
}

// Where the first rank waits for the others.
void addMeetingPoint(Environment& env, const Roster& roster, const Site& site) {
  const Endpoint& first = site.tasks.at(roster.tasks.front().name());
  env["DURE_MASTER_ADDR"] = first.address;
  env["DURE_MASTER_PORT"] = text(first.port);
}

// OpenBLAS and OpenMP take every core for each process unless told otherwise.
void addThreads(Environment& env, const spec::Job& job, const Site& site, const Place& place) {
  if (place.world < 2) return;
  const int threads =
      std::max(1, static_cast<int>(job.resources.cpus) / std::max(1, place.local_world));
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
    if (!site.inherited.contains(name)) env[name] = text(threads);
  }
}

// The last local rank that torchrun's options can name.
constexpr int kLastRedirected = 9;

// What torchrun gives its workers, and in PET_* what torchrun itself reads when the program calls
// it inside a task: one node per task, static rendezvous at the first task, no restarts of its own.
void addTorch(Environment& env, const spec::Job& job, const Roster& roster, const Site& site,
              const Place& place, int generation) {
  const Endpoint& master = site.tasks.at(roster.tasks.front().name());
  env["MASTER_ADDR"] = master.address;
  env["MASTER_PORT"] = text(master.port);
  env["RANK"] = text(place.rank);
  env["WORLD_SIZE"] = text(place.world);
  env["LOCAL_RANK"] = text(place.local_rank);
  env["LOCAL_WORLD_SIZE"] = text(place.local_world);
  env["GROUP_RANK"] = text(place.group);
  env["GROUP_WORLD_SIZE"] = text(place.groups);
  env["ROLE_NAME"] = "default";
  env["ROLE_RANK"] = text(place.rank);
  env["ROLE_WORLD_SIZE"] = text(place.world);
  env["TORCHELASTIC_RESTART_COUNT"] = text(generation - 1);
  env["TORCHELASTIC_MAX_RESTARTS"] = text(job.restarts.limit);
  env["TORCHELASTIC_RUN_ID"] = job.name;
  env["TORCHELASTIC_USE_AGENT_STORE"] = "False";
  env["NCCL_ASYNC_ERROR_HANDLING"] = "1";

  env["PET_NNODES"] = text(place.groups);
  env["PET_NPROC_PER_NODE"] = text(place.slots);
  env["PET_NODE_RANK"] = text(place.group);
  env["PET_MASTER_ADDR"] = master.address;
  env["PET_MASTER_PORT"] = text(master.port);
  env["PET_RDZV_ID"] = job.name;
  env["PET_RDZV_BACKEND"] = "static";
  env["PET_RDZV_ENDPOINT"] = fmt::format("{}:{}", master.address, master.port);
  // For who chooses c10d instead: torchrun would guess from host names who is to have the store.
  env["PET_RDZV_CONF"] = place.group == 0 ? "is_host=1" : "is_host=0";
  env["PET_MAX_RESTARTS"] = "0";
  // torchrun 1.13 fails on Python 3.11 unless it is told of a process whose output to redirect. So
  // it is told of one that does not exist.
  if (place.slots <= kLastRedirected) {
    env["PET_REDIRECTS"] = fmt::format("{}:1", kLastRedirected);
    env["PET_TEE"] = env["PET_REDIRECTS"];
  }
}

void addTensorflow(Environment& env, const Roster& roster, const Site& site, const Task& task) {
  nlohmann::json cluster = nlohmann::json::object();
  for (const Task& member : roster.tasks) {
    // The evaluator is told of the cluster but is not part of it.
    if (member.role == Role::kEvaluator) continue;
    const Endpoint& endpoint = site.tasks.at(member.name());
    cluster[roleName(member.role)].push_back(fmt::format("{}:{}", endpoint.address, endpoint.port));
  }
  const nlohmann::json config = {{"cluster", cluster},
                                 {"task", {{"type", roleName(task.role)}, {"index", task.index}}},
                                 {"environment", "cloud"}};
  env["TF_CONFIG"] = config.dump();
}

void addHorovodGloo(Environment& env, const spec::Job& job, const Site& site, const Task& task,
                    const Place& place) {
  env["HOROVOD_HOSTNAME"] = task.name();
  env["HOROVOD_RANK"] = text(place.rank);
  env["HOROVOD_SIZE"] = text(place.world);
  env["HOROVOD_LOCAL_RANK"] = text(place.local_rank);
  env["HOROVOD_LOCAL_SIZE"] = text(place.local_world);
  env["HOROVOD_CROSS_RANK"] = text(place.group);
  env["HOROVOD_CROSS_SIZE"] = text(place.groups);
  env["HOROVOD_GLOO_RENDEZVOUS_ADDR"] = site.address;
  env["HOROVOD_GLOO_RENDEZVOUS_PORT"] = text(site.store_port);
  env["HOROVOD_GLOO_IFACE"] = site.interface;
  env["HOROVOD_CONTROLLER"] = "gloo";
  env["HOROVOD_CPU_OPERATIONS"] = "gloo";
  if (job.workers.min < job.workers.max) env["HOROVOD_ELASTIC"] = "1";
}

// Open MPI 4 reads OMPI_MCA_orte_*, Open MPI 5 the PRTE_MCA_* of its new launcher.
void addMpi(Environment& env, const Site& site, const Task& task) {
  if (site.root) {
    env["OMPI_ALLOW_RUN_AS_ROOT"] = "1";
    env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
    env["PRTE_ALLOW_RUN_AS_ROOT"] = "1";
    env["PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
  }
  const std::string remote_shell = site.agent + " rsh";
  env["OMPI_MCA_plm_rsh_agent"] = remote_shell;
  env["PRTE_MCA_plm_ssh_agent"] = remote_shell;
  // In containers a process may not read another's memory; Open MPI would try, and complain.
  if (!site.one_machine) env["OMPI_MCA_btl_vader_single_copy_mechanism"] = "none";
  if (task.role != Role::kLauncher) {
    // Each task is a host to Open MPI. Where they all have one host name, what it keeps per host
    // must not meet. (mpirun hands its own such variables on to all, so the launcher has none.)
    if (site.one_machine) {
      const std::string own = site.taskDirectory(task.name());
      env["OMPI_MCA_btl_vader_backing_directory"] = own;
      env["OMPI_MCA_orte_tmpdir_base"] = own;
    }
    return;
  }
  const std::string hosts = site.taskDirectory(task.name()) + "/hostfile";
  env["OMPI_MCA_orte_default_hostfile"] = hosts;
  env["PRTE_MCA_prte_default_hostfile"] = hosts;
  env["OMPI_MCA_orte_keep_fqdn_hostnames"] = "true";
  // The launcher computes nothing: the GPUs are for the workers.
  env["NVIDIA_VISIBLE_DEVICES"] = "";
}

}  // namespace

Environment environmentOf(const spec::Job& job, const Roster& roster, const Site& site,
                          const Task& task, int process, int generation) {
  const Place place = placeOf(roster, task, process);
  Environment env;
  addDure(env, job, site, task, place, generation);
  if (!usesMpi(job)) addMeetingPoint(env, roster, site);
  switch (job.strategy) {
    case spec::Strategy::kTorch:
      addThreads(env, job, site, place);
      addTorch(env, job, roster, site, place, generation);
      break;
    case spec::Strategy::kTensorflow:
      addTensorflow(env, roster, site, task);
      break;
    case spec::Strategy::kMpi:
      addMpi(env, site, task);
      break;
    case spec::Strategy::kHorovod:
      if (usesMpi(job)) {
        addMpi(env, site, task);
        env["HOROVOD_CONTROLLER"] = "mpi";
        env["HOROVOD_CPU_OPERATIONS"] = "mpi";
      } else {
        addHorovodGloo(env, job, site, task, place);
      }
      break;
    case spec::Strategy::kNative:
      addThreads(env, job, site, place);
      break;
    case spec::Strategy::kPlain:
      break;
  }
  // What the job says itself comes last and wins.
  for (const auto& [name, value] : job.env) env[name] = value;
  return env;
}

std::vector<std::string> commandOf(const spec::Job& job, const Site& site) {
  if (job.strategy == spec::Strategy::kNative) {
    return {site.trainer};
  }
  std::vector<std::string> command = job.program.command;
  if (usesMpi(job) && !isOneOf(command.front(), {"mpirun", "mpiexec", "orterun", "prterun",
                                                 "horovodrun", "sh", "bash", "dash"})) {
    command.insert(command.begin(), "mpirun");
  }
  return command;
}

Duration headStart(const spec::Job& job) {
  return Duration(job.strategy == spec::Strategy::kTorch ? 100 : 0);
}

std::map<std::string, std::string> filesOf(const spec::Job& job, const Roster& roster,
                                           const Task& task) {
  // What the trainer learns about the job beside its environment.
  if (job.strategy == spec::Strategy::kNative) return {{"job.yaml", spec::printJob(job)}};
  if (!usesMpi(job) || task.role != Role::kLauncher) return {};
  std::string hosts;
  for (const Task& member : roster.tasks) {
    if (member.role != Role::kWorker) continue;
    hosts += fmt::format("{} slots={}\n", member.name(), member.slots);
  }
  return {{"hostfile", hosts}};
}

int portsNeeded(const spec::Job& job) {
  return static_cast<int>(makeRoster(job, job.workers.max).tasks.size()) + 1;
}

std::map<std::string, std::string> initialStore(const spec::Job& job, const Roster& roster) {
  std::map<std::string, std::string> store;
  if (job.strategy != spec::Strategy::kHorovod) return store;
  for (const Task& task : roster.tasks) {
    for (int process = 0; process < task.processes; ++process) {
      const Place place = placeOf(roster, task, process);
      store[fmt::format("rank_and_size/{}:{}", task.name(), process)] =
          fmt::format("{},{},{},{},{},{}", place.rank, place.world, place.local_rank,
                      place.local_world, place.group, place.groups);
    }
  }
  return store;
}

}  // namespace dure::gang
