#include "agent/guardian.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <ostream>
#include <string>

#include "base/process.h"
#include "base/process_tree.h"
#include "protocol/agent_options.h"

namespace dure::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kName = "task-guard";
// An agent whose coordinator died ends everything at once.
constexpr milliseconds kAgentEnds{1500};
// For what an agent left that could not see to it; one that ended cleanly has tried already.
constexpr milliseconds kPatience{5000};
constexpr milliseconds kSecondTry{300};

constexpr int kHandedOn[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

// What `ps` shows of this process, in the memory that the kernel reads it from.
void changeAppearance(char** argv) {
  prctl(PR_SET_NAME, kName);
  for (char** word = argv; *word != nullptr; ++word) {
    const std::size_t room = std::strlen(*word);
    std::memset(*word, 0, room);
    if (word == argv) std::strncpy(*word, kName, room);
  }
  // The task is the agent's to be found by, and the secret is the agent's to know.
  for (const char* name : {protocol::kAgentTask, protocol::kAgentSecret}) {
    const std::string begin = protocol::agentVariable(name) + "=";
    for (char** entry = environ; *entry != nullptr; ++entry) {
      if (std::strncmp(*entry, begin.c_str(), begin.size()) == 0) {
        std::memset(*entry, 0, std::strlen(*entry));
      }
    }
  }
}

sigset_t blockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  sigaddset(&signals, SIGCONT);
  sigaddset(&signals, protocol::kEndNow);
  for (const int signal : kHandedOn) sigaddset(&signals, signal);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  return signals;
}

int waitForSignal(const sigset_t& signals, milliseconds limit) {
  const timespec time{.tv_sec = limit.count() / 1000, .tv_nsec = limit.count() % 1000 * 1'000'000};
  return sigtimedwait(&signals, nullptr, &time);
}

class Guardian {
 public:
  Guardian(pid_t parent, pid_t agent, sigset_t signals)
      : parent_(parent), agent_(agent), signals_(signals) {}

  int run() {
    watch();
    end(ended_in_order_ ? kSecondTry : kPatience);
    return code_;
  }

 private:
  // Until the agent has ended, or should have.
  void watch() {
    std::optional<steady_clock::time_point> deadline;
    while (reap()) {
      if (!deadline && getppid() != parent_) {
        deadline = steady_clock::now() + kAgentEnds;
        // Frozen, it would not see its connection end.
        kill(agent_, SIGCONT);
      }
      if (deadline && steady_clock::now() >= *deadline) return;
      const int signal =
          waitForSignal(signals_, deadline ? milliseconds(50) : milliseconds(60'000));
      if (signal == protocol::kEndNow) return;
      for (const int handed : kHandedOn) {
        if (signal == handed) kill(agent_, signal);
      }
    }
  }

  // False when the agent is among the dead.
  bool reap() {
    int status = 0;
    for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
      if (pid != agent_) continue;
      agent_ = 0;
      ended_in_order_ = WIFEXITED(status) && getppid() == parent_;
      code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return agent_ != 0;
  }

  // What the system lists of children may be incomplete while they die; that there are none is only
  // certain when there is none to wait for.
  void end(milliseconds patience) {
    Purge purge(patience);
    while (hasChildren() && !purge.exhausted()) {
      const milliseconds wait = purge.strike(childProcesses());
      if (waitForSignal(signals_, wait) == SIGCHLD) purge.progress();
    }
  }

  bool hasChildren() {
    reap();
    return waitpid(-1, nullptr, WNOHANG) >= 0 || errno != ECHILD;
  }

  const pid_t parent_;
  pid_t agent_;
  const sigset_t signals_;
  bool ended_in_order_ = false;
  int code_ = 3;
};

}  // namespace

int guardTask(char** argv, std::ostream& errors) {
  // Until the next line dure run takes us along when it dies; from then on it wakes us.
  const pid_t parent = getppid();
  const sigset_t signals = blockSignals();
  prctl(PR_SET_PDEATHSIG, SIGCONT);
  if (getppid() != parent) return 3;
  const std::vector<std::string> environment = currentEnvironment();
  const std::string program = argv[0];
  changeAppearance(argv);
  const auto agent = [&]() -> Result<pid_t> {
    if (auto adopted = adoptOrphans(); !adopted) return std::move(adopted).error();
    return spawn(
        {.argv = {program}, .env = environment, .death_signal = SIGKILL, .new_session = true});
  }();
  if (!agent) {
    errors << protocol::kAgentWords << agent.error().message() << "\n";
    return 3;
  }
  return Guardian(parent, *agent, signals).run();
}

}  // namespace dure::agent
