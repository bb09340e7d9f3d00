#include "cli/local_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>

#include <fmt/core.h>

#include "backend/local/local_backend.h"
#include "base/process.h"
#include "base/text.h"
#include "cli/detach.h"
#include "cli/job_arguments.h"
#include "cli/outcome.h"
#include "cli/terminal_view.h"
#include "coordinator/coordinator.h"
#include "protocol/agent_options.h"
#include "runs/leftovers.h"
#include "runs/run_reader.h"
#include "runs/run_writer.h"

namespace dure::cli {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(200);
constexpr auto kLeftovers = std::chrono::seconds(30);

local::LocalBackend::Options backendOptions(const runs::RunStore& store, const spec::Job& job,
                                            const runs::RunId& id) {
  return {
      .job = job, .run = id.text(), .agent = agentProgram(), .directory = store.paths(id).tasks()};
}

// One run in this process, from the record to the exit code.
class LocalRun {
 public:
  LocalRun(Context& context, runs::RunStore& store, spec::Job job, runs::OwnedRun run,
           gang::RunState before)
      : job_(std::move(job)),
        run_(std::move(run)),
        before_(std::move(before)),
        view_(context.out, context.err, clock_, TerminalView::detect()),
        backend_(loop_, backendOptions(store, job_, run_.id)) {
    signals_.add(SIGQUIT);
  }

  int execute() {
    const auto begun = begin();
    if (!begun) {
      view_.say(begun.error().message());
      // Nobody is to wait for a run that never began.
      if (writer_) {
        gang::Entry entry{.kind = gang::EntryKind::kFinished, .time = clock_.now()};
        entry.outcome = gang::Outcome::kInfrastructureFailed;
        entry.reason = begun.error().message();
        static_cast<void>(writer_->append(entry));
      }
      return kInfrastructureFailed;
    }
    waitForSignals();
    redraw();
    loop_.run();
    return code_;
  }

 private:
  Status begin() {
    auto writer = runs::RunWriter::open(run_.paths, clock_);
    if (!writer) return std::move(writer).error();
    writer_ = *std::move(writer);
    gang::Entry first{.kind = before_.created == TimePoint{} ? gang::EntryKind::kCreated
                                                             : gang::EntryKind::kResumed,
                      .time = clock_.now(),
                      .generation = before_.generation,
                      .run_id = run_.run_id};
    if (auto written = writer_->append(first); !written) return written;
    if (auto begun = backend_.begin(); !begun) return begun;
    auto site = backend_.survey();
    if (!site) return std::move(site).error();
    site->run_id = run_.run_id;
    signal(SIGPIPE, SIG_IGN);
    coordinator_ = std::make_unique<coordinator::Coordinator>(
        loop_, clock_, backend_, *writer_,
        std::vector<coordinator::Observer*>{writer_.get(), &view_},
        coordinator::Coordinator::Options{.run = run_.id.text(),
                                          .secret = run_.secret,
                                          .job = job_,
                                          .site = *std::move(site),
                                          .before = before_});
    return coordinator_->start(
        [this](gang::Outcome outcome, const std::string& reason) { finished(outcome, reason); });
  }

  void finished(gang::Outcome outcome, const std::string& reason) {
    code_ = exitCode(outcome);
    const auto took = std::chrono::duration_cast<Duration>(clock_.now() - began_);
    view_.say(
        describeEnd(run_.id.text(), outcome, reason, coordinator_->gang().generation() - 1, took));
    loop_.stop();
  }

  // The first request is gentle, the second is not. SIGQUIT is not gentle at once.
  void waitForSignals() {
    signals_.async_wait([this](const boost::system::error_code& error, int number) {
      if (error) return;
      const bool at_once = number == SIGQUIT || asked_;
      const std::string why = number == SIGTERM ? "it was asked to stop" : "interrupted";
      if (!asked_ && !at_once) view_.say("stopping; once more to stop at once");
      asked_ = true;
      coordinator_->stop(why, at_once);
      waitForSignals();
    });
  }

  void redraw() {
    const gang::Gang& gang = coordinator_->gang();
    const gang::Gang::Strength strength = gang.strength();
    view_.tick(fmt::format("{} · {} of {} {} up", phaseName(gang.phase()), strength.up, strength.of,
                           strength.what));
    timer_.expires_after(kRedraw);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) redraw();
    });
  }

  const spec::Job job_;
  const runs::OwnedRun run_;
  const gang::RunState before_;
  SystemClock clock_;
  const TimePoint began_ = clock_.now();
  asio::io_context loop_{1};
  asio::signal_set signals_{loop_, SIGINT, SIGTERM, SIGHUP};
  asio::steady_timer timer_{loop_};
  TerminalView view_;
  local::LocalBackend backend_;
  std::unique_ptr<runs::RunWriter> writer_;
  std::unique_ptr<coordinator::Coordinator> coordinator_;
  bool asked_ = false;
  int code_ = kInfrastructureFailed;
};

// The run of that name that somebody is in charge of now.
std::optional<runs::RunView> activeRun(const runs::RunStore& store, const std::string& name) {
  for (const runs::RunId& id : store.list()) {
    if (id.name == name && store.coordinator(id)) return runs::readRun(store, id);
  }
  return std::nullopt;
}

}  // namespace

std::string agentProgram() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / "dure-agent").string();
}

Result<Outlook> surveyLocal(const runs::RunStore& store, const spec::Job& job,
                            const runs::RunId& id) {
  asio::io_context loop(1);
  local::LocalBackend backend(loop, backendOptions(store, job, id));
  auto site = backend.survey();
  if (!site) return std::move(site).error();
  auto layout = backend.layout();
  if (!layout) return std::move(layout).error();
  return Outlook{*std::move(site), *std::move(layout)};
}

int runLocal(Context& context, runs::RunStore& store, spec::Job job,
             const LocalRunOptions& options) {
  const std::string wanted = job.name;
  for (int suffix = 2; auto active = activeRun(store, job.name); ++suffix) {
    if (!options.ad_hoc) {
      context.mistake(
          fmt::format("{} is running already (process {}); stop it with `dure stop {}`, or choose "
                      "another --name",
                      active->id.text(), *active->coordinator, active->id.text()));
      return context.code;
    }
    job.name = fmt::format("{}-{}", wanted, suffix);
  }
  // Before there is a record: what cannot run leaves nothing behind.
  if (auto site = surveyLocal(store, job, store.next(job.name)); !site) {
    context.fail(site.error());
    return context.code;
  }
  const auto go = [&](Context& inner, const std::function<void(const std::string&)>& begun) {
    auto run = store.create(job);
    if (!run) {
      inner.fail(run.error());
      return inner.code;
    }
    begun(run->id.text());
    return LocalRun(inner, store, job, *std::move(run), {}).execute();
  };
  if (!options.detach) return go(context, [](const std::string&) {});
  return detach(context, store, go);
}

int resumeLocal(Context& context, runs::RunStore& store, const std::string& name, bool detached) {
  const auto id = store.find(name);
  if (!id) {
    context.fail(id.error());
    return context.code;
  }
  const auto go = [&](Context& inner, const std::function<void(const std::string&)>& begun) {
    auto run = store.take(*id);
    if (!run) {
      inner.fail(run.error());
      return inner.code;
    }
    // The lock is ours, so nobody else changes the record from here on.
    const runs::RunPaths paths = store.paths(*id);
    const gang::RunState before = gang::replay(runs::readEntries(paths.events()));
    const spec::Loaded loaded = spec::loadJobFile(paths.job(), {});
    if (!reportProblems(inner, loaded)) return inner.code;
    if (before.outcome == gang::Outcome::kSucceeded || before.outcome == gang::Outcome::kFailed) {
      inner.mistake(fmt::format("{} has {}; start it anew with `dure run`", id->text(),
                                gang::outcomeName(*before.outcome)));
      return inner.code;
    }
    // The next generation must not meet what the former coordinator has left.
    if (const auto left = runs::endLeftovers(paths, kLeftovers); !left) {
      inner.fail(left.error());
      return inner.code;
    }
    begun(id->text());
    return LocalRun(inner, store, loaded.job, *std::move(run), before).execute();
  };
  if (!detached) return go(context, [](const std::string&) {});
  return detach(context, store, go);
}

}  // namespace dure::cli
