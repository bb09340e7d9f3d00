#include "gang/strategies/mpi.h"

#include <algorithm>
#include <filesystem>

#include <fmt/core.h>

#include "gang/strategies/strategies.h"

namespace dure::gang {
namespace {

constexpr const char* kHostFile = "hostfile";

// Given as the command, these start the processes themselves.
constexpr const char* kLaunchers[] = {"mpirun",     "mpiexec", "orterun", "prterun",
                                      "horovodrun", "sh",      "bash",    "dash"};

bool isLauncher(const std::string& word) {
  const std::string base = std::filesystem::path(word).filename().string();
  return std::any_of(std::begin(kLaunchers), std::end(kLaunchers),
                     [&](const char* name) { return base == name; });
}

}  // namespace

std::vector<std::string> Mpi::command(const spec::Job& job, const Site& /*site*/) const {
  std::vector<std::string> command = job.program.command;
  if (!isLauncher(command.front())) command.insert(command.begin(), "mpirun");
  return command;
}

// Open MPI 4 reads OMPI_MCA_orte_*, Open MPI 5 the PRTE_MCA_* of its new launcher.
void Mpi::addVariables(Environment& env, const ProcessView& process) const {
  const Site& site = process.site;
  const Task& task = process.task;
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
  const std::string hosts = site.taskDirectory(task.name()) + "/" + kHostFile;
  env["OMPI_MCA_orte_default_hostfile"] = hosts;
  env["PRTE_MCA_prte_default_hostfile"] = hosts;
  env["OMPI_MCA_orte_keep_fqdn_hostnames"] = "true";
  // The launcher computes nothing: the GPUs are for the workers.
  env["NVIDIA_VISIBLE_DEVICES"] = "";
}

TaskFiles Mpi::files(const spec::Job& /*job*/, const Roster& roster, const Task& task) const {
  if (task.role != Role::kLauncher) return {};
  std::string hosts;
  for (const Task& member : roster.tasks) {
    if (member.role != Role::kWorker) continue;
    hosts += fmt::format("{} slots={}\n", member.name(), member.slots);
  }
  return {{kHostFile, hosts}};
}

const LaunchStrategy& mpiStrategy(const spec::Job& /*job*/) {
  static const Mpi mpi;
  return mpi;
}

}  // namespace dure::gang
