#include "base/process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <optional>

#include <fmt/core.h>

#include "base/text.h"

namespace dure {
namespace {

constexpr unsigned kCloseOnExec = 4;  // CLOSE_RANGE_CLOEXEC, which older headers lack

// The limit of descriptors before we raised it.
std::optional<rlimit> given_limit;

// What the child could not do, written to the memory that vfork shares.
struct ChildFailure {
  const char* step = nullptr;
  int number = 0;
};

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> list;
  list.reserve(words.size() + 1);
  for (const std::string& word : words) list.push_back(const_cast<char*>(word.c_str()));
  list.push_back(nullptr);
  return list;
}

// Runs in the child of vfork: system calls only, no memory of the parent but `failure`.
[[noreturn]] void becomeProgram(const SpawnOptions& options, const char* path, char* const* argv,
                                char* const* shell_argv, char* const* env, pid_t parent,
                                volatile ChildFailure& failure) {
  const auto fail = [&](const char* step) {
    failure.step = step;
    failure.number = errno;
    _exit(127);
  };
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
  }
  if (options.death_signal != 0) {
    if (prctl(PR_SET_PDEATHSIG, options.death_signal) != 0) fail("prctl");
    if (getppid() != parent) _exit(127);
  }
  if (options.new_session ? setsid() < 0 : setpgid(0, 0) != 0) fail("setsid");
  int wanted[] = {options.in, options.out, options.err};
  // Out of the way first: they may stand in each other's places, or in their own, marked to close.
  for (int& fd : wanted) {
    if (fd >= 0 && fd < 3 && (fd = fcntl(fd, F_DUPFD_CLOEXEC, 3)) < 0) fail("dup");
  }
  for (int target = 0; target < 3; ++target) {
    if (wanted[target] >= 0 && dup2(wanted[target], target) < 0) fail("dup");
  }
  if (options.network >= 0 && setns(options.network, CLONE_NEWNET) != 0) fail("enter network");
  if (!options.workdir.empty() && chdir(options.workdir.c_str()) != 0) fail("chdir");
  if (given_limit) setrlimit(RLIMIT_NOFILE, &*given_limit);
  // Libraries open descriptors that they do not mark, and our sockets must end with us.
  syscall(SYS_close_range, 3u, ~0u, kCloseOnExec);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(path, argv, env);
  if (errno == ENOEXEC) execve(shell_argv[0], shell_argv, env);
  fail("exec");
  _exit(127);
}

}  // namespace

Result<std::string> findProgram(const std::string& program, const std::vector<std::string>& env) {
  if (program.find('/') != std::string::npos) return program;
  std::string path = "/usr/local/bin:/usr/bin:/bin";
  for (const std::string& entry : env) {
    if (entry.rfind("PATH=", 0) == 0) path = entry.substr(5);
  }
  for (const std::string& directory : split(path, ':')) {
    const std::string candidate = (directory.empty() ? "." : directory) + "/" + program;
    struct stat info {};
    if (stat(candidate.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
        access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return Error(Code::kNotFound, program + ": command not found");
}

Result<pid_t> spawn(const SpawnOptions& options) {
  if (options.argv.empty()) return Error(Code::kInvalid, "no program given");
  const auto path = findProgram(options.argv[0], options.env);
  if (!path) return path.error();
  std::vector<std::string> shell_words = options.argv;
  shell_words[0] = *path;
  shell_words.insert(shell_words.begin(), "/bin/sh");
  const std::vector<char*> argv = pointers(options.argv);
  const std::vector<char*> shell_argv = pointers(shell_words);
  const std::vector<char*> env = pointers(options.env);

  // A handler of ours must not run in the child while it still shares our memory.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  volatile ChildFailure failure;
  const pid_t parent = getpid();
  // vfork, not fork: it costs the same however much memory the caller has.
  const pid_t pid = vfork();
  if (pid == 0) {
    becomeProgram(options, path->c_str(), argv.data(), shell_argv.data(), env.data(), parent,
                  failure);
  }
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    errno = fork_error;
    return systemError("fork");
  }
  if (failure.number != 0) {
    waitpid(pid, nullptr, 0);
    errno = failure.number;
    const std::string step = failure.step;
    if (step == "exec") return systemError(options.argv[0]);
    if (step == "chdir") return systemError("working directory " + options.workdir);
    return systemError(step);
  }
  return pid;
}

void raiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  if (!given_limit) given_limit = limit;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::vector<std::string> currentEnvironment() {
  std::vector<std::string> env;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    env.emplace_back(*entry);
  }
  return env;
}

ExitStatus decodeWaitStatus(int wait_status) {
  if (WIFSIGNALED(wait_status)) return {.code = 0, .signal = WTERMSIG(wait_status)};
  return {.code = WEXITSTATUS(wait_status), .signal = 0};
}

std::string describeExit(const ExitStatus& status) {
  if (status.signal == 0) return fmt::format("exited with {}", status.code);
  const char* name = sigabbrev_np(status.signal);
  if (name == nullptr) return fmt::format("was killed by signal {}", status.signal);
  return fmt::format("was killed by SIG{}", name);
}

std::string randomToken() {
  unsigned char bytes[32];
  std::size_t have = 0;
  while (have < sizeof bytes) {
    const ssize_t got = getrandom(bytes + have, sizeof bytes - have, 0);
    if (got > 0) have += static_cast<std::size_t>(got);
  }
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

}  // namespace dure
