#include "runs/local_runs.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

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
  if (!pid) {
    // Nobody else takes it up meanwhile. If somebody was quicker, nothing was left to end.
    const auto owned = store_.take(id);
    return owned ? endLeftovers(owned->paths, kStopLeftovers) : Status{};
  }
  if (auto asked = askToStop(id, at_once); !asked) return asked;
  while (store_.coordinator(id) == pid) {
    if (!wait.pause(kEndPoll)) return timedOut(id, "stopping");
  }
  return {};
}

Result<Stopped> LocalRuns::stop(const RunId& id, bool at_once, const Wait& wait) {
  const bool was_running = store_.coordinator(id).has_value();
  if (auto ended = end(id, at_once, wait); !ended) return std::move(ended).error();
  return Stopped{.was_running = was_running, .run = readRun(store_, id)};
}

Status LocalRuns::remove(const RunId& id, bool force, const Wait& wait) {
  if (store_.coordinator(id) && !force) return stillRunning(id);
  if (auto ended = end(id, false, wait); !ended && (!force || store_.coordinator(id))) return ended;
  return store_.remove(id);
}

Status LocalRuns::fetch(const RunId& id, const std::string& path, bundle::FileReceiver& files,
                        const Wait&) {
  const RunView run = readRun(store_, id);
  if (!run.job) return Error(Code::kInvalid, "the record of " + id.text() + " is damaged");
  const fs::path from = (fs::path(run.job->program.workdir) / path).lexically_normal();
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
