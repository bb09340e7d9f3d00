#include "cli/local_executor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>

#include <fmt/core.h>

#include "base/process.h"
#include "base/text.h"
#include "cli/local_run.h"
#include "pipeline/ready_probe.h"
#include "runs/leftovers.h"
#include "runs/local_runs.h"
#include "runs/run_reader.h"

namespace dure::cli {
namespace {

using namespace std::chrono_literals;
using pipeline::Progress;

constexpr auto kPartEnds = 30s;
constexpr auto kPartEndsPoll = 20ms;
constexpr std::size_t kMostWords = 4096;

// The words of a process that had no record to write them to; the last line of them.
std::string lastWords(const Fd& words) {
  std::string text(kMostWords, '\0');
  const off_t size = lseek(words.get(), 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(kMostWords));
  const ssize_t got = pread(words.get(), text.data(), text.size(), from);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  text = text.substr(text.rfind('\n') + 1);
  return text.starts_with("dure: ") ? text.substr(6) : text;
}

// Steps find the programs that lie beside this one, whatever PATH says.
std::string pathForSteps(const spec::Job& job) {
  const auto given = job.env.find("PATH");
  const char* inherited = std::getenv("PATH");
  const std::string path = given != job.env.end() ? given->second
                           : inherited != nullptr ? inherited
                                                  : "/usr/local/bin:/usr/bin:/bin";
  const std::string own = std::filesystem::path(agentProgram()).parent_path().string();
  for (const std::string& directory : split(path, ':')) {
    if (directory == own) return path;
  }
  return own + ":" + path;
}

[[noreturn]] void becomePart(pid_t parent, bool service, int words,
                             const std::function<int(Context&)>& go) {
  setsid();
  // A program that nobody is in charge of any more ends; a service stays.
  if (!service) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kInfrastructureFailed);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD}) signal(number, SIG_DFL);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(nothing, STDOUT_FILENO);
  dup2(words, STDERR_FILENO);
  std::ostream nowhere(nullptr);
  Context context{.out = nowhere, .err = std::cerr};
  const int code = go(context);
  std::cerr.flush();
  _exit(code);
}

}  // namespace

LocalExecutor::LocalExecutor(runs::RunStore& store, runs::RunId id)
    : store_(store), id_(std::move(id)), parts_(store.paths(id_).directory) {}

Result<LocalExecutor::Child> LocalExecutor::launch(const pipeline::Attempt& attempt,
                                                   const runs::RunId& run, bool again) {
  const bool service = attempt.kind == pipeline::StepKind::kService;
  Child child{.pid = {},
              .run = run,
              .words = Fd(memfd_create("words", MFD_CLOEXEC)),
              .kind = attempt.kind,
              .port = attempt.port,
              .path = attempt.path};
  if (!child.words) return systemError("memfd_create");
  spec::Job job = attempt.job;
  job.env["PATH"] = pathForSteps(job);
  const pid_t parent = getpid();
  std::cout.flush();
  const pid_t pid = fork();
  if (pid < 0) return systemError("fork");
  if (pid == 0) {
    becomePart(parent, service, child.words.get(), [&](Context& context) {
      return again ? resumeLocal(context, parts_, run.text(), false)
                   : runLocal(context, parts_, job, {});
    });
  }
  child.pid = pid;
  return child;
}

Result<std::string> LocalExecutor::start(const pipeline::Attempt& attempt) {
  if (attempt.kind == pipeline::StepKind::kService) {
    if (auto ended = endFormer(attempt.part); !ended) return std::move(ended).error();
  }
  // Nobody else makes runs there.
  const runs::RunId run = parts_.next(attempt.part);
  auto child = launch(attempt, run, false);
  if (!child) return std::move(child).error();
  children_.insert_or_assign(attempt.part, *std::move(child));
  return run.text();
}

Status LocalExecutor::resume(const pipeline::Attempt& attempt, const std::string& run) {
  const auto id = parts_.find(run);
  if (!id) return id.error();
  auto child = launch(attempt, *id, true);
  if (!child) return std::move(child).error();
  children_.insert_or_assign(attempt.part, *std::move(child));
  return {};
}

Progress LocalExecutor::ended(const Child& child, int wait_status) const {
  const ExitStatus status = decodeWaitStatus(wait_status);
  std::string reason;
  if (fileExists(parts_.paths(child.run).directory)) {
    reason = runs::readRun(parts_, child.run).state.reason;
  }
  if (reason.empty()) reason = lastWords(child.words);
  if (status.signal != 0) {
    return {Progress::State::kInfrastructureFailed,
            "the process in charge of it " + describeExit(status)};
  }
  switch (status.code) {
    case kDone:
      return {Progress::State::kSucceeded, ""};
    case kInterrupted:
      return {Progress::State::kStopped, reason};
    case kInfrastructureFailed:
      return {Progress::State::kInfrastructureFailed, reason};
    default:
      return {Progress::State::kFailed, reason};
  }
}

bool LocalExecutor::answers(Child& child) const {
  if (child.ready) return true;
  if (!runs::readRun(parts_, child.run).state.running) return false;
  child.ready = child.port == 0 || pipeline::isReady(child.port, child.path);
  return child.ready;
}

Progress LocalExecutor::look(const std::string& part) {
  const auto found = children_.find(part);
  if (found == children_.end()) {
    return {Progress::State::kInfrastructureFailed, "nobody is in charge of it"};
  }
  Child& child = found->second;
  if (child.pid) {
    int status = 0;
    const pid_t gone = waitpid(*child.pid, &status, WNOHANG);
    if (gone == *child.pid) {
      const Progress progress = ended(child, status);
      children_.erase(found);
      return progress;
    }
  } else if (!parts_.coordinator(child.run)) {
    const runs::RunView run = runs::readRun(parts_, child.run);
    children_.erase(found);
    const bool stopped = run.status == runs::RunStatus::kStopped;
    return {stopped ? Progress::State::kStopped : Progress::State::kFailed,
            run.state.reason.empty() ? runs::statusName(run.status) : run.state.reason};
  }
  if (child.kind == pipeline::StepKind::kService && answers(child)) {
    return {Progress::State::kReady, ""};
  }
  return {};
}

void LocalExecutor::stop(const std::string& part, bool at_once) {
  const auto found = children_.find(part);
  if (found == children_.end()) return;
  if (found->second.pid) {
    // It is not waited for until look() sees it, so the number is its own.
    kill(*found->second.pid, at_once ? SIGQUIT : SIGTERM);
    return;
  }
  runs::LocalRuns runs(parts_);
  static_cast<void>(runs.askToStop(found->second.run, at_once));
}

Result<pipeline::Left> LocalExecutor::recover(const pipeline::Attempt& attempt,
                                              const std::string& run) {
  const auto id = parts_.find(run);
  if (!id) return pipeline::Left::kNothing;
  if (attempt.kind == pipeline::StepKind::kService) {
    if (!parts_.coordinator(*id)) return pipeline::Left::kNothing;
    children_.insert_or_assign(attempt.part, Child{.pid = {},
                                                   .run = *id,
                                                   .words = {},
                                                   .kind = attempt.kind,
                                                   .port = attempt.port,
                                                   .path = attempt.path});
    return pipeline::Left::kRuns;
  }
  const runs::RunView view = runs::readRun(parts_, *id);
  if (view.state.outcome == gang::Outcome::kSucceeded) return pipeline::Left::kSucceeded;
  return view.state.outcome ? pipeline::Left::kNothing : pipeline::Left::kResumable;
}

Status LocalExecutor::endStrays(const std::set<std::string>& keep) {
  for (const runs::RunId& run : parts_.list()) {
    if (keep.contains(run.text())) continue;
    // The process in charge of it dies with the one that has started it, or soon after.
    const Wait wait(kPartEnds);
    while (parts_.coordinator(run) && wait.pause(kPartEndsPoll)) {
      runs::LocalRuns runs(parts_);
      static_cast<void>(runs.askToStop(run, true));
    }
    auto owned = parts_.take(run);
    if (!owned) return std::move(owned).error();
    if (auto ended = runs::endLeftovers(owned->paths, kPartEnds); !ended) return ended;
  }
  return {};
}

Status LocalExecutor::endFormer(const std::string& part) {
  for (const runs::RunId& id : store_.list()) {
    // One that is going on has its services for itself.
    if (id.name != id_.name || id.number == id_.number || store_.coordinator(id)) continue;
    runs::LocalRuns former{runs::RunStore(store_.paths(id).directory)};
    for (const runs::RunId& run : former.store().list()) {
      if (run.name != part || !former.store().coordinator(run)) continue;
      auto stopped = former.stop(run, false, Wait(kPartEnds));
      if (!stopped) return std::move(stopped).error();
    }
  }
  return {};
}

}  // namespace dure::cli
