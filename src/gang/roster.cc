#include "gang/roster.h"

#include <algorithm>
#include <filesystem>

#include <fmt/core.h>

namespace dure::gang {
namespace {

std::string nameOf(const std::string& word) {
  return std::filesystem::path(word).filename().string();
}

bool callsModule(const std::vector<std::string>& command) {
  const auto module = std::find(command.begin(), command.end(), "-m");
  return module != command.end() && module + 1 != command.end() &&
         (*(module + 1) == "torch.distributed.run" || *(module + 1) == "torch.distributed.launch");
}

// The words of a shell's script, as far as they can be told without being one.
std::vector<std::string> wordsOf(const std::string& script) {
  std::vector<std::string> words(1);
  for (const char c : script) {
    if (std::string_view(" \t\n;&|()\"'`").find(c) == std::string_view::npos) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

// torchrun, by any of its names, starts the processes of its task itself; also where a shell is
// asked to start it.
bool callsTorchrun(const std::vector<std::string>& command) {
  if (command.empty()) return false;
  const std::string program = nameOf(command[0]);
  if (program == "torchrun" || callsModule(command)) return true;
  if (program != "sh" && program != "bash" && program != "dash") return false;
  for (std::size_t i = 1; i < command.size(); ++i) {
    const std::string& option = command[i];
    if (option.empty() || option[0] != '-') return false;
    if (option.back() != 'c' || option.rfind("--", 0) == 0 || i + 1 == command.size()) continue;
    const std::vector<std::string> words = wordsOf(command[i + 1]);
    return callsModule(words) || std::any_of(words.begin(), words.end(), [](const std::string& w) {
             return nameOf(w) == "torchrun";
           });
  }
  return false;
}

}  // namespace

std::string roleName(Role role) {
  switch (role) {
    case Role::kChief:
      return "chief";
    case Role::kWorker:
      return "worker";
    case Role::kPs:
      return "ps";
    case Role::kEvaluator:
      return "evaluator";
    case Role::kLauncher:
      return "launcher";
  }
  return "";
}

std::string Task::name() const { return fmt::format("{}-{}", roleName(role), index); }

const Task* Roster::find(const std::string& name) const {
  for (const Task& task : tasks) {
    if (task.name() == name) return &task;
  }
  return nullptr;
}

const Task* Roster::holder(int rank) const {
  for (const Task& task : tasks) {
    if (rank >= task.first_rank && rank < task.first_rank + task.processes) return &task;
  }
  return nullptr;
}

bool usesMpi(const spec::Job& job) {
  return job.strategy == spec::Strategy::kMpi ||
         (job.strategy == spec::Strategy::kHorovod &&
          job.horovod.controller == spec::HorovodController::kMpi);
}

bool decidesEnd(const spec::Job& job, const Task& task) {
  // The workers of TensorFlow's ParameterServerStrategy serve the chief, as parameter servers do.
  const bool served = job.strategy == spec::Strategy::kTensorflow && job.roles.ps > 0;
  const bool chief =
      job.success == spec::Success::kChief || (job.success == spec::Success::kAuto && served);
  if (chief && task.first_rank != 0) return false;
  return task.processes > 0 && task.role != Role::kPs && task.role != Role::kEvaluator;
}

Roster makeRoster(const spec::Job& job, const Layout& layout) {
  Roster roster;
  roster.workers = layout.workers;
  const bool mpi = usesMpi(job);
  const bool alone = job.strategy == spec::Strategy::kTorch && callsTorchrun(job.program.command);
  const auto add = [&](Role role, int count) {
    for (int index = 0; index < count; ++index) {
      Task task{.role = role, .index = index, .first_rank = roster.world};
      const bool computes = role == Role::kChief || role == Role::kWorker;
      const bool split = role == Role::kWorker && !layout.gpus.empty();
      task.gpus = split ? layout.gpus.at(static_cast<std::size_t>(index)) : job.resources.gpus;
      if (role == Role::kLauncher) task.gpus = 0;
      if (computes) {
        task.slots = split && job.processes == 0 ? task.gpus : spec::processesPerTask(job);
        task.processes = mpi ? 0 : alone ? 1 : task.slots;
      }
      roster.tasks.push_back(task);
      roster.world += task.processes;
    }
  };
  if (mpi) add(Role::kLauncher, 1);
  if (!mpi) add(Role::kChief, job.roles.chief);
  add(Role::kWorker, layout.workers);
  if (!mpi) add(Role::kPs, job.roles.ps);
  if (!mpi) add(Role::kEvaluator, job.roles.evaluator);
  return roster;
}

}  // namespace dure::gang
