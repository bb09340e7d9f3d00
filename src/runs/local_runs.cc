#include "runs/local_runs.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <fmt/core.h>

#include "bundle/file_stream.h"
#include "runs/leftovers.h"
#include "runs/log_follower.h"
#include "runs/record_watch.h"

namespace dure::runs {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

// How often a follower hears of us, and how often it is looked whether a coordinator is alive
// still: no file tells.
constexpr auto kTick = 100ms;
constexpr auto kEndPoll = 20ms;
constexpr auto kStopLeftovers = 15s;

}  // namespace

Result<std::vector<RunView>> LocalRuns::list() { return readRuns(store_); }

Result<RunId> LocalRuns::find(const std::string& text) { return store_.find(text); }

Result<RunView> LocalRuns::read(const RunId& id) {
  if (!fileExists(store_.paths(id).directory))
    return Error(Code::kNotFound, "no run named " + id.text());
  RunView run = readRun(store_, id);
  readLosses(run);
  return run;
}

Result<RunView> LocalRuns::follow(const RunId& id, Follower& follower, const Wait& wait) {
  const RunPaths paths = store_.paths(id);
  RecordWatch watch(paths.directory);
  LogFollower logs(paths, {.rank = {}, .generation = {}});
  const auto output = [&](int generation, int rank, std::string_view lines) {
    follower.output(generation, rank, lines);
  };
  for (bool changed = true;; changed = watch.next(kTick)) {
    const bool over = !store_.coordinator(id);
    logs.poll(over, output);
    if (changed || over) {
      auto run = read(id);
      if (!run) return run;
      follower.seen(*run);
      if (over) return run;
    }
    follower.tick();
    if (wait.isOver()) return timedOut(id, "following");
  }
}

Status LocalRuns::logs(const RunId& id, const LogQuery& query, const Lines& lines,
                       const Wait& wait) {
  const RunPaths paths = store_.paths(id);
  auto generation = query.generation;
  if (!generation && !query.follow) generation = LogFollower::newestGeneration(paths);
  LogFollower follower(paths, {.rank = query.rank, .generation = generation});
  while (query.follow) {
    const bool over = !store_.coordinator(id);
    follower.poll(false, lines);
    if (over) break;
    if (!wait.pause(kTick)) return {};
  }
  follower.poll(true, lines);
  return {};
}

Status LocalRuns::askToStop(const RunId& id, bool at_once) {
  const auto pid = store_.coordinator(id);
  if (!pid) return {};
  const Fd process(static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)));
  // It may have ended, and another may have its number: only while the lock is held is it this one.
  if (!process || store_.coordinator(id) != pid) return {};
  if (syscall(SYS_pidfd_send_signal, process.get(), at_once ? SIGQUIT : SIGTERM, nullptr, 0) != 0) {
    return systemError(fmt::format("signal process {}", *pid));
  }
  return {};
}

Status LocalRuns::end(const RunId& id, bool at_once, const Wait& wait) {
  const auto pid = store_.coordinator(id);
  if (pid) {
    if (auto asked = askToStop(id, at_once); !asked) return asked;
    while (store_.coordinator(id) == pid) {
      if (!wait.pause(kEndPoll)) return timedOut(id, "stopping");
    }
  } else if (const auto owned = store_.take(id)) {
    // Nobody else takes it up meanwhile. If somebody was quicker, nothing was left to end.
    if (auto ended = endLeftovers(owned->paths, kStopLeftovers); !ended) return ended;
  }
  // What a pipeline has started, and services that it has left running.
  LocalRuns inner(RunStore(store_.paths(id).directory));
  for (const RunId& part : inner.store_.list()) {
    if (auto ended = inner.end(part, at_once, wait); !ended) return ended;
  }
  return {};
}

bool LocalRuns::goesOn(const RunId& id) const {
  if (store_.coordinator(id)) return true;
  const RunStore inner(store_.paths(id).directory);
  const std::vector<RunId> parts = inner.list();
  return std::any_of(parts.begin(), parts.end(),
                     [&](const RunId& part) { return inner.coordinator(part).has_value(); });
}

Result<Stopped> LocalRuns::stop(const RunId& id, bool at_once, const Wait& wait) {
  const bool was_running = goesOn(id);
  if (auto ended = end(id, at_once, wait); !ended) return std::move(ended).error();
  return Stopped{.was_running = was_running, .run = readRun(store_, id)};
}

Status LocalRuns::remove(const RunId& id, bool force, const Wait& wait) {
  if (goesOn(id) && !force) return stillRunning(id);
  if (auto ended = end(id, false, wait); !ended && (!force || goesOn(id))) return ended;
  return store_.remove(id);
}

Result<std::string> LocalRuns::bringHome(const RunId& id, const std::string&, const Wait&) {
  const RunView run = readRun(store_, id);
  if (run.kind == RunKind::kPipeline) return noOutput(id);
  if (!run.job) return Error(Code::kInvalid, "the record of " + id.text() + " is damaged");
  if (run.job->output.empty()) return noOutput(id);
  const fs::path path = fs::path(run.job->program.workdir) / run.job->output;
  std::error_code error;
  if (!fs::exists(path, error)) return Error(Code::kNotFound, "there is no " + path.string());
  return path.lexically_normal().string();
}

Status LocalRuns::fetch(const RunId& id, const std::string& path, bundle::FileReceiver& files,
                        const Wait&) {
  const RunView run = readRun(store_, id);
  const bool pipeline = run.kind == RunKind::kPipeline;
  if (!run.job && !pipeline)
    return Error(Code::kInvalid, "the record of " + id.text() + " is damaged");
  const fs::path directory = pipeline ? run.paths.volume() : run.job->program.workdir;
  const fs::path from = (directory / path).lexically_normal();
  std::error_code same;
  if (fs::equivalent(from, files.target(), same)) {
    return Error(Code::kInvalid, from.string() + " is here already");
  }
  if (auto sent =
          bundle::sendFiles(from, [&](std::string_view bytes) { return files.take(bytes); });
      !sent) {
    return sent;
  }
  return files.finish();
}

}  // namespace dure::runs
