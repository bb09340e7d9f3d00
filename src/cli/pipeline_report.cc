#include "cli/pipeline_report.h"

#include <algorithm>
#include <map>
#include <memory>
#include <ostream>

#include <fmt/core.h>

#include "backend/kubernetes/cluster_volume.h"
#include "base/text.h"
#include "cli/table.h"
#include "pipeline/graph.h"
#include "pipeline/record_view.h"
#include "runs/log_follower.h"

namespace dure::cli {
namespace {

constexpr std::chrono::milliseconds kLogPoll{100};

std::string timeOfDay(TimePoint time) { return formatTime(time).substr(11, 8); }

// The reason of the first part that has one to tell.
std::string reasonOf(const pipeline::RecordView& view, std::size_t step) {
  for (std::size_t i = 0; i < view.parts.size(); ++i) {
    const pipeline::PartState& state = view.states[i];
    if (view.parts[i].step != step || state.reason.empty()) continue;
    return view.pipeline.steps[step].fans_out
               ? fmt::format("{}: {}", view.parts[i].name, state.reason)
               : state.reason;
  }
  return "";
}

std::vector<std::size_t> partsNamed(const pipeline::RecordView& view, const std::string& wanted) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < view.parts.size(); ++i) {
    const std::string& step = view.pipeline.steps[view.parts[i].step].name;
    if (wanted.empty() || step == wanted || view.parts[i].name == wanted) found.push_back(i);
  }
  return found;
}

}  // namespace

std::string outputsOf(const runs::RunPaths& record) {
  const auto place = kubernetes::readPlace(record);
  return place && *place ? (*place)->description() : record.volume();
}

void printPipeline(std::ostream& out, const runs::RunStore& store, const runs::RunView& run) {
  const pipeline::RecordView view = pipeline::readRecord(store, run.id, run.in_charge);
  std::vector<std::vector<std::string>> facts{{"pipeline", run.id.text()},
                                              {"status", runs::statusName(run.status)}};
  if (!run.state.reason.empty()) facts.push_back({"why", run.state.reason});
  if (!run.advice.empty()) facts.push_back({"why", run.advice});
  std::vector<std::string> parameters;
  for (const pipeline::Parameter& parameter : view.pipeline.parameters) {
    std::string value = parameter.value.text;
    if (parameter.value.kind == spec::TreeNode::Kind::kList) {
      std::vector<std::string> items;
      for (const spec::TreeNode& item : parameter.value.children) items.push_back(item.text);
      value = fmt::format("[{}]", join(items, ", "));
    }
    parameters.push_back(fmt::format("{}={}", parameter.name, shellQuote(value)));
  }
  if (!parameters.empty()) facts.push_back({"parameters", join(parameters, " ")});
  facts.push_back({"created", formatTime(run.state.created)});
  if (run.coordinator) facts.push_back({"process", std::to_string(*run.coordinator)});
  facts.push_back({"outputs", outputsOf(run.paths)});
  facts.push_back({"record", run.record});
  out << formatTable(facts) << "\n";

  const std::vector<std::size_t> order = pipeline::inOrder(view.pipeline);
  const std::vector<std::string> graph = pipeline::drawGraph(view.pipeline);
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const pipeline::Step& step = view.pipeline.steps[order[i]];
    const Duration took = pipeline::stepTime(view, order[i], SystemClock().now());
    const std::string each = step.fans_out ? fmt::format(" ×{}", step.items.size()) : "";
    rows.push_back({graph[i] + step.name + each, kindName(step.kind),
                    pipeline::stepWord(view, order[i]),
                    took.count() == 0 ? "" : describeDuration(took), reasonOf(view, order[i])});
  }
  out << formatTable(rows) << "\n";

  // Entries of both kinds, as they happened.
  std::vector<std::pair<TimePoint, std::string>> events;
  for (const gang::Entry& entry : run.entries) {
    if (entry.kind == gang::EntryKind::kRunning) continue;
    events.emplace_back(entry.time, gang::describeEntry(entry));
  }
  for (const pipeline::StepEntry& entry : view.entries) {
    events.emplace_back(entry.time, pipeline::describeEntry(entry));
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [time, sentence] : events) out << timeOfDay(time) << "  " << sentence << "\n";
}

Status pipelineLogs(
    const runs::RunStore& store, const runs::RunId& id, const PipelineLogQuery& query,
    const std::function<void(const std::string& part, int rank, std::string_view lines)>& lines) {
  const runs::RunStore inner(store.paths(id).directory);
  std::map<std::string, std::unique_ptr<runs::LogFollower>> logs;  // by run
  while (true) {
    const bool over = !store.coordinator(id);
    const pipeline::RecordView view = pipeline::readRecord(store, id, !over);
    const std::vector<std::size_t> wanted = partsNamed(view, query.step);
    if (wanted.empty()) {
      std::vector<std::string> names;
      for (const pipeline::Step& step : view.pipeline.steps) names.push_back(step.name);
      const auto near = closest(query.step, names);
      return Error(Code::kNotFound, fmt::format("{} has no step '{}'{}", id.text(), query.step,
                                                near ? fmt::format("; did you mean '{}'?", *near)
                                                     : "; it has " + join(names, ", ")));
    }
    bool alive = false;
    for (const std::size_t i : wanted) {
      const std::string& text = view.states[i].run;
      const auto run =
          text.empty() ? Result<runs::RunId>(Error(Code::kNotFound, "")) : inner.find(text);
      if (!run) continue;
      auto& log = logs[text];
      if (!log) {
        std::optional<int> generation;
        if (!query.follow) generation = runs::LogFollower::newestGeneration(inner.paths(*run));
        log = std::make_unique<runs::LogFollower>(
            inner.paths(*run), runs::LogFollower::Options{.rank = {}, .generation = generation});
      }
      const bool running = inner.coordinator(*run).has_value();
      // A service has the last word only if it is asked for.
      alive = alive || (running && !query.step.empty());
      log->poll(!query.follow || !running,
                [&](int /*generation*/, int rank, std::string_view text_lines) {
                  lines(view.parts[i].name, rank, text_lines);
                });
    }
    if (!query.follow || (over && !alive)) return {};
    if (!Wait().pause(kLogPoll)) return {};
  }
}

}  // namespace dure::cli
