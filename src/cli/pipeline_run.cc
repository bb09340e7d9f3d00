#include "cli/pipeline_run.h"

#include <sched.h>
#include <signal.h>
#include <time.h>

#include <map>
#include <memory>
#include <set>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/process.h"
#include "base/text.h"
#include "cli/cluster_pipeline.h"
#include "cli/detach.h"
#include "cli/kubernetes_executor.h"
#include "cli/local_executor.h"
#include "cli/outcome.h"
#include "cli/pipeline_screen.h"
#include "pipeline/volume.h"
#include "runs/run_reader.h"

namespace dure::cli {
namespace {

constexpr long kPollNanoseconds = 50'000'000;
constexpr std::size_t kLongestFolder = 18;

int processorCount() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

class DurableJournal : public pipeline::PartJournal {
 public:
  explicit DurableJournal(pipeline::StepJournal& journal) : journal_(journal) {}
  Status write(const pipeline::StepEntry& entry) override { return journal_.append(entry); }

 private:
  pipeline::StepJournal& journal_;
};

// Where the parts of a run are carried out, and where they write to.
struct Ground {
  std::unique_ptr<kube::KubeClient> client;  // of the cluster, if it is one
  std::unique_ptr<PartExecutor> executor;
  std::unique_ptr<pipeline::Outputs> outputs;
  double cpus = 0;  // that it has; 0: no matter
};

Ground localGround(runs::RunStore& store, const runs::RunId& id, bool fresh) {
  return {.client = nullptr,
          .executor = std::make_unique<LocalExecutor>(store, id),
          .outputs = std::make_unique<pipeline::Volume>(store, id, fresh),
          .cpus = static_cast<double>(processorCount())};
}

Result<Ground> clusterGround(runs::RunStore& store, const runs::RunId& id,
                             const pipeline::Pipeline& pipeline,
                             const kubernetes::ClusterPlace& place, bool fresh) {
  auto client = clientFor(place);
  if (!client) return std::move(client).error();
  Ground ground{.client = *std::move(client), .executor = nullptr, .outputs = nullptr};
  ground.executor = std::make_unique<KubernetesExecutor>(store.paths(id).directory, pipeline,
                                                         *ground.client, place);
  auto volume = std::make_unique<kubernetes::ClusterVolume>(*ground.client, place,
                                                            jobLike(pipeline), store, id, fresh);
  const bool named = !pipeline.claim.empty();
  if (auto made = volume->takeCharge(named); !made) return std::move(made).error();
  ground.outputs = std::move(volume);
  return ground;
}

// As the record says.
Result<Ground> groundOf(runs::RunStore& store, const runs::RunId& id,
                        const pipeline::Pipeline& pipeline, bool fresh) {
  const auto place = kubernetes::readPlace(store.paths(id));
  if (!place) return place.error();
  if (*place) return clusterGround(store, id, pipeline, **place, fresh);
  return localGround(store, id, fresh);
}

// The place of a new run. Its directory has a random name: another machine may have runs of the
// same name and number.
Result<kubernetes::ClusterPlace> newPlace(const pipeline::Pipeline& pipeline,
                                          const kube::KubeAccessOptions& options) {
  const auto access = kube::findAccess(options);
  if (!access) return access.error();
  std::string name = pipeline.name.substr(0, kLongestFolder);
  while (name.back() == '-') name.pop_back();
  return kubernetes::ClusterPlace{
      .context = access->context,
      .name_space = access->name_space,
      .claim = pipeline.claim.empty() ? pipeline.name + "-volume" : pipeline.claim,
      .folder = fmt::format("{}-{}", name, randomToken().substr(0, 5))};
}

// One run of a pipeline in this process, from the record to the exit code.
class PipelineRun {
 public:
  PipelineRun(Context& context, const pipeline::Pipeline& pipeline, runs::OwnedRun run,
              Ground ground, const PipelineRunOptions& options)
      : pipeline_(pipeline),
        run_(std::move(run)),
        ground_(std::move(ground)),
        executor_(*ground_.executor),
        screen_(context.out, context.err, pipeline_, executor_.parts(), clock_,
                TerminalView::detect()) {
    const int parallel = options.parallel > 0 ? options.parallel : pipeline_.parallel;
    capacity_ = {.parts = parallel, .cpus = ground_.cpus};
  }

  int execute(bool resumed) {
    blockSignals();
    signal(SIGPIPE, SIG_IGN);
    auto journal = pipeline::StepJournal::open(run_.paths);
    if (!journal) return fail(journal.error());
    journal_ = &*journal;
    gang::Entry first{.kind = resumed ? gang::EntryKind::kResumed : gang::EntryKind::kCreated,
                      .time = clock_.now(),
                      .run_id = run_.run_id};
    if (auto written = journal->append(first); !written) return fail(written.error());
    gang::Entry running{.kind = gang::EntryKind::kRunning, .time = clock_.now()};
    if (auto written = journal->append(running); !written) return fail(written.error());
    const auto before = pipeline::readStepEntries(run_.paths.events());
    DurableJournal durable(*journal);
    pipeline::Engine engine(pipeline_, capacity_, before, executor_, *ground_.outputs, durable,
                            screen_, clock_);
    if (resumed) {
      if (auto ended = executor_.endStrays(living(engine)); !ended) return fail(ended.error());
      if (auto recovered = engine.recover(); !recovered) return fail(recovered.error());
    }
    while (true) {
      auto finished = engine.advance();
      if (!finished) {
        // Without a journal nothing may go on.
        for (const pipeline::Part& part : engine.parts()) executor_.stop(part.name, true);
        return fail(finished.error());
      }
      screen_.tick(engine.parts(), engine.states());
      if (*finished) return finish(**finished);
      waitForSignal(engine);
    }
  }

 private:
  // The runs that go on although the process before this one died.
  std::set<std::string> living(const pipeline::Engine& engine) const {
    std::set<std::string> runs;
    for (std::size_t i = 0; i < engine.parts().size(); ++i) {
      const pipeline::PartState& state = engine.states()[i];
      const bool stays = executor_.outlives(pipeline_.steps[engine.parts()[i].step].kind);
      const bool lived = state.status == pipeline::PartStatus::kRunning ||
                         state.status == pipeline::PartStatus::kReady;
      if (stays && lived) runs.insert(state.run);
    }
    return runs;
  }

  void blockSignals() {
    sigemptyset(&signals_);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD}) {
      sigaddset(&signals_, number);
    }
    sigprocmask(SIG_BLOCK, &signals_, nullptr);
  }

  void waitForSignal(pipeline::Engine& engine) {
    timespec patience{.tv_sec = 0, .tv_nsec = kPollNanoseconds};
    const int number = sigtimedwait(&signals_, nullptr, &patience);
    if (number <= 0 || number == SIGCHLD) return;
    if (!asked_ && number != SIGQUIT) screen_.say("stopping; once more to stop at once");
    asked_ = true;
    engine.askToStop(number == SIGQUIT);
  }

  int finish(const pipeline::Finished& finished) {
    gang::Entry entry{.kind = gang::EntryKind::kFinished, .time = clock_.now()};
    entry.outcome = finished.outcome;
    entry.reason = finished.reason;
    if (auto written = journal_->append(entry); !written) return fail(written.error());
    const auto took = std::chrono::duration_cast<Duration>(clock_.now() - began_);
    screen_.say(describeEnd(run_.id.text(), finished.outcome, finished.reason, 0, took));
    return exitCode(finished.outcome);
  }

  int fail(const Error& error) {
    screen_.say(error.message());
    if (journal_ != nullptr) {
      gang::Entry entry{.kind = gang::EntryKind::kFinished, .time = clock_.now()};
      entry.outcome = gang::Outcome::kInfrastructureFailed;
      entry.reason = error.message();
      static_cast<void>(journal_->append(entry));
    }
    return kInfrastructureFailed;
  }

  const pipeline::Pipeline& pipeline_;
  const runs::OwnedRun run_;
  SystemClock clock_;
  const TimePoint began_ = clock_.now();
  const Ground ground_;
  PartExecutor& executor_;
  PipelineScreen screen_;
  pipeline::Capacity capacity_;
  pipeline::StepJournal* journal_ = nullptr;
  sigset_t signals_{};
  bool asked_ = false;
};

}  // namespace

int runPipeline(Context& context, runs::RunStore& store, const pipeline::LoadedPipeline& loaded,
                const PipelineRunOptions& options) {
  const auto go = [&](Context& inner, const Begun& begun) {
    const auto failed = [&](const Error& error) {
      inner.fail(error);
      return inner.code;
    };
    std::map<std::string, std::string> files{{"pipeline.yaml", loaded.text}};
    if (options.where.onKubernetes()) {
      const auto place = newPlace(loaded.pipeline, options.where.access);
      if (!place) return failed(place.error());
      files["cluster.json"] = kubernetes::toJson(*place).dump(2) + "\n";
    }
    auto run = store.create(loaded.pipeline.name, files);
    if (!run) return failed(run.error());
    auto ground = groundOf(store, run->id, loaded.pipeline, options.fresh);
    if (!ground) {
      // Nothing of it has begun.
      static_cast<void>(store.remove(run->id));
      return failed(ground.error());
    }
    begun(run->id.text());
    return PipelineRun(inner, loaded.pipeline, *std::move(run), *std::move(ground), options)
        .execute(false);
  };
  if (!options.detach) return go(context, [](const std::string&) {});
  return detach(context, store, go);
}

int resumePipeline(Context& context, runs::RunStore& store, const std::string& name,
                   const PipelineRunOptions& options) {
  const auto id = store.find(name);
  if (!id) {
    context.fail(id.error());
    return context.code;
  }
  const auto go = [&](Context& inner, const Begun& begun) {
    const runs::RunPaths paths = store.paths(*id);
    if (!fileExists(paths.pipeline())) {
      inner.mistake(id->text() + " is no pipeline; go on with: dure run --resume " + id->text());
      return inner.code;
    }
    auto run = store.take(*id);
    if (!run) {
      inner.fail(run.error());
      return inner.code;
    }
    const gang::RunState before = gang::replay(runs::readEntries(paths.events()));
    if (before.outcome == gang::Outcome::kSucceeded) {
      inner.mistake(id->text() + " has succeeded; start it anew with `dure pipeline run`");
      return inner.code;
    }
    const pipeline::LoadedPipeline loaded = pipeline::loadPipelineFile(paths.pipeline(), {});
    for (const spec::Problem& problem : loaded.problems) inner.err << problem.text() << "\n";
    if (!loaded.ok()) return inner.code = kMistake;
    auto ground = groundOf(store, *id, loaded.pipeline, options.fresh);
    if (!ground) {
      inner.fail(ground.error());
      return inner.code;
    }
    begun(id->text());
    const bool begun_before = before.created != TimePoint{};
    return PipelineRun(inner, loaded.pipeline, *std::move(run), *std::move(ground), options)
        .execute(begun_before);
  };
  if (!options.detach) return go(context, [](const std::string&) {});
  return detach(context, store, go);
}

}  // namespace dure::cli
