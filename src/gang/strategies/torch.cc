#include <algorithm>
#include <filesystem>

#include <fmt/core.h>

#include "gang/strategies/strategies.h"

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

// The last local rank that torchrun's options can name.
constexpr int kLastRedirected = 9;

class Torch : public LaunchStrategy {
 public:
  bool startsProcesses(const std::vector<std::string>& command) const override {
    return callsTorchrun(command);
  }

  // Ranks that find nobody listening at the first one's port try again only after a second; this
  // way they find it.
  Duration headStart() const override { return Duration(100); }

  // What torchrun gives its workers, and in PET_* what torchrun itself reads when the program calls
  // it inside a task: one node per task, static rendezvous at the first task, no restarts of its
  // own.
  void addVariables(Environment& env, const ProcessView& process) const override {
    addThreads(env, process);
    const RankNumbers& numbers = process.numbers;
    const Endpoint& master = process.site.tasks.at(process.roster.tasks.front().name());
    env["MASTER_ADDR"] = master.address;
    env["MASTER_PORT"] = std::to_string(master.port);
    env["RANK"] = std::to_string(numbers.rank);
    env["WORLD_SIZE"] = std::to_string(numbers.world);
    env["LOCAL_RANK"] = std::to_string(numbers.local_rank);
    env["LOCAL_WORLD_SIZE"] = std::to_string(numbers.local_world);
    env["GROUP_RANK"] = std::to_string(numbers.group);
    env["GROUP_WORLD_SIZE"] = std::to_string(numbers.groups);
    env["ROLE_NAME"] = "default";
    env["ROLE_RANK"] = std::to_string(numbers.rank);
    env["ROLE_WORLD_SIZE"] = std::to_string(numbers.world);
    env["TORCHELASTIC_RESTART_COUNT"] = std::to_string(process.generation - 1);
    env["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(process.job.restarts.limit);
    env["TORCHELASTIC_RUN_ID"] = process.job.name;
    env["TORCHELASTIC_USE_AGENT_STORE"] = "False";
    env["NCCL_ASYNC_ERROR_HANDLING"] = "1";

    env["PET_NNODES"] = std::to_string(numbers.groups);
    env["PET_NPROC_PER_NODE"] = std::to_string(numbers.slots);
    env["PET_NODE_RANK"] = std::to_string(numbers.group);
    env["PET_MASTER_ADDR"] = master.address;
    env["PET_MASTER_PORT"] = std::to_string(master.port);
    env["PET_RDZV_ID"] = process.job.name;
    env["PET_RDZV_BACKEND"] = "static";
    env["PET_RDZV_ENDPOINT"] = fmt::format("{}:{}", master.address, master.port);
    // For who chooses c10d instead: torchrun would guess from host names who is to have the store.
    env["PET_RDZV_CONF"] = numbers.group == 0 ? "is_host=1" : "is_host=0";
    env["PET_MAX_RESTARTS"] = "0";
    // torchrun 1.13 fails on Python 3.11 unless it has a process whose output to redirect.
    // So it gets one that does not exist.
    if (numbers.slots <= kLastRedirected) {
      env["PET_REDIRECTS"] = fmt::format("{}:1", kLastRedirected);
      env["PET_TEE"] = env["PET_REDIRECTS"];
    }
  }
};

}  // namespace

const LaunchStrategy& torchStrategy(const spec::Job& /*job*/) {
  static const Torch torch;
  return torch;
}

}  // namespace dure::gang
