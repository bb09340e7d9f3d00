#include "cli/part_executor.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <limits>

#include "base/process.h"
#include "base/text.h"
#include "base/wait.h"
#include "pipeline/ready_probe.h"
#include "protocol/report.h"
#include "runs/local_runs.h"
#include "runs/run_reader.h"

namespace dure::cli {
namespace {

using namespace std::chrono_literals;
using pipeline::Progress;

constexpr auto kChargeEnds = 30s;
constexpr auto kChargePoll = 20ms;
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

Result<PartExecutor::Child> PartExecutor::launch(const pipeline::Attempt& attempt,
                                                 const runs::RunId& run, bool again) {
  const bool service = attempt.kind == pipeline::StepKind::kService;
  Child child{.pid = {},
              .run = run,
              .words = Fd(memfd_create("words", MFD_CLOEXEC)),
              .kind = attempt.kind,
              .port = attempt.port,
              .path = attempt.path};
  if (!child.words) return systemError("memfd_create");
  const pid_t parent = getpid();
  std::cout.flush();
  const pid_t pid = fork();
  if (pid < 0) return systemError("fork");
  if (pid == 0) {
    becomePart(parent, service, child.words.get(),
               [&](Context& context) { return carryOut(context, attempt, run, again); });
  }
  child.pid = pid;
  return child;
}

Result<std::string> PartExecutor::start(const pipeline::Attempt& attempt) {
  // Nobody else makes runs there.
  const runs::RunId run = parts_.next(attempt.part);
  auto child = launch(attempt, run, false);
  if (!child) return std::move(child).error();
  children_.insert_or_assign(attempt.part, *std::move(child));
  return run.text();
}

Status PartExecutor::resume(const pipeline::Attempt& attempt, const std::string& run) {
  const auto id = parts_.find(run);
  if (!id) return id.error();
  auto child = launch(attempt, *id, true);
  if (!child) return std::move(child).error();
  children_.insert_or_assign(attempt.part, *std::move(child));
  return {};
}

std::string PartExecutor::reportOf(const std::string& run) const {
  const auto id = parts_.find(run);
  const auto text =
      id ? readFile(parts_.paths(*id).metrics(), std::numeric_limits<std::size_t>::max())
         : Result<std::string>(id.error());
  if (!text) return "";
  std::string last;
  for (const std::string& line : split(*text, '\n')) {
    const auto report = protocol::parseReport(line);
    if (report && protocol::numberIn(*report, "rank").value_or(0) == 0) last = line;
  }
  return last;
}

Progress PartExecutor::ended(const Child& child, int wait_status) const {
  const ExitStatus status = decodeWaitStatus(wait_status);
  std::string reason;
  if (fileExists(parts_.paths(child.run).directory)) {
    reason = runs::readRun(parts_, child.run).state.reason;
  }
  if (reason.empty()) reason = lastWords(child.words);
  if (status.signal != 0) {
    return {.state = Progress::State::kInfrastructureFailed,
            .reason = "the process in charge of it " + describeExit(status)};
  }
  switch (status.code) {
    case kDone:
      return {.state = Progress::State::kSucceeded, .report = reportOf(child.run.text())};
    case kInterrupted:
      return {.state = Progress::State::kStopped, .reason = reason};
    case kInfrastructureFailed:
      return {.state = Progress::State::kInfrastructureFailed, .reason = reason};
    default:
      return {.state = Progress::State::kFailed, .reason = reason};
  }
}

bool PartExecutor::answers(Child& child) const {
  if (child.ready) return true;
  if (!runs::readRun(parts_, child.run).state.running) return false;
  child.ready = child.port == 0 || pipeline::isReady(child.port, child.path);
  return child.ready;
}

Progress PartExecutor::look(const std::string& part) {
  const auto found = children_.find(part);
  if (found == children_.end()) {
    return {.state = Progress::State::kInfrastructureFailed, .reason = "nobody is in charge of it"};
  }
  Child& child = found->second;
  if (child.pid) {
    int status = 0;
    const pid_t gone = waitpid(*child.pid, &status, WNOHANG);
    if (gone == *child.pid) {
      Progress progress = ended(child, status);
      children_.erase(found);
      return progress;
    }
  } else if (!parts_.coordinator(child.run)) {
    const runs::RunView run = runs::readRun(parts_, child.run);
    children_.erase(found);
    const bool stopped = run.status == runs::RunStatus::kStopped;
    return {.state = stopped ? Progress::State::kStopped : Progress::State::kFailed,
            .reason = run.state.reason.empty() ? runs::statusName(run.status) : run.state.reason};
  }
  if (child.kind == pipeline::StepKind::kService && answers(child)) {
    return {.state = Progress::State::kReady};
  }
  return {};
}

void PartExecutor::stop(const std::string& part, bool at_once) {
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

void PartExecutor::waitUntilNobodyIsInCharge(const runs::RunId& run) const {
  const Wait wait(kChargeEnds);
  while (parts_.coordinator(run) && wait.pause(kChargePoll)) {
    runs::LocalRuns runs(parts_);
    static_cast<void>(runs.askToStop(run, true));
  }
}

}  // namespace dure::cli
