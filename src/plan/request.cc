#include "plan/request.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/text.h"
#include "spec/catalog.h"
#include "spec/scalar.h"

namespace dure::plan {
namespace {

bool holds(const spec::NodeRule& rule, const std::string* label) {
  switch (rule.op) {
    case spec::LabelTest::kIn:
    case spec::LabelTest::kNotIn: {
      const bool among = label != nullptr && std::find(rule.values.begin(), rule.values.end(),
                                                       *label) != rule.values.end();
      return among == (rule.op == spec::LabelTest::kIn);
    }
    case spec::LabelTest::kExists:
      return label != nullptr;
    case spec::LabelTest::kDoesNotExist:
      return label == nullptr;
    case spec::LabelTest::kGt:
    case spec::LabelTest::kLt:
      break;
  }
  const auto value = label == nullptr ? std::nullopt : spec::readInteger(*label);
  const auto limit = rule.values.empty() ? std::nullopt : spec::readInteger(rule.values.front());
  if (!value || !limit) return false;
  return rule.op == spec::LabelTest::kGt ? *value > *limit : *value < *limit;
}

bool tolerates(const spec::Toleration& toleration, const Taint& taint) {
  if (!toleration.effect.empty() && toleration.effect != taint.effect) return false;
  if (toleration.key.empty()) return toleration.op == spec::TolerationTest::kExists;
  if (toleration.key != taint.key) return false;
  return toleration.op == spec::TolerationTest::kExists || toleration.value == taint.value;
}

bool isTolerated(const spec::NodeChoice& nodes, const Taint& taint) {
  // This one asks to be avoided, and forbids nothing.
  if (taint.effect == "PreferNoSchedule") return true;
  return std::any_of(nodes.tolerations.begin(), nodes.tolerations.end(),
                     [&](const spec::Toleration& t) { return tolerates(t, taint); });
}

std::string taintText(const Taint& taint) {
  const std::string value = taint.value.empty() ? "" : "=" + taint.value;
  return fmt::format("{}{}:{}", taint.key, value, taint.effect);
}

}  // namespace

Request makeRequest(const spec::Job& job) {
  Request request;
  request.millicores = std::llround(std::ceil(std::min(job.resources.cpus, 1e9) * 1000));
  request.memory = job.resources.memory;
  request.gpus = job.resources.gpus;
  const int others = job.roles.chief + job.roles.ps + job.roles.evaluator;
  request.fewest = job.workers.min + others;
  request.most = job.workers.max + others;
  request.split = job.gpus;
  request.even = job.even;
  request.nodes = job.nodes;
  return request;
}

std::string labelRefusal(const spec::NodeChoice& nodes, const Node& node) {
  for (const auto& [key, value] : nodes.selector) {
    const auto label = node.labels.find(key);
    if (label == node.labels.end()) return fmt::format("no label {}", key);
    if (label->second != value) return fmt::format("label {} is not {}", key, value);
  }
  for (const spec::NodeRule& rule : nodes.affinity) {
    const auto label = node.labels.find(rule.key);
    if (!holds(rule, label == node.labels.end() ? nullptr : &label->second)) {
      return fmt::format("label {} is not as nodes.affinity wants it", rule.key);
    }
  }
  return "";
}

std::string refusal(const spec::NodeChoice& nodes, const Node& node) {
  if (!node.ready) return "not ready";
  if (!node.schedulable) return "closed to new tasks";
  if (std::string why = labelRefusal(nodes, node); !why.empty()) return why;
  for (const Taint& taint : node.taints) {
    if (!isTolerated(nodes, taint)) return fmt::format("taint {}", taintText(taint));
  }
  return "";
}

std::int64_t tasksThatFit(const Request& request, const Node& node) {
  std::int64_t tasks = node.free.pods;
  const auto limit = [&](std::int64_t wanted, std::int64_t free) {
    if (wanted > 0) tasks = std::min(tasks, free / wanted);
  };
  limit(request.millicores, node.free.millicores);
  limit(request.memory, node.free.memory);
  if (request.gpus > 0) limit(request.gpus, node.free.count(request.nodes.gpu));
  return std::max<std::int64_t>(tasks, 0);
}

std::string describeTask(const Request& request) {
  std::vector<std::string> parts;
  if (request.millicores > 0) {
    const double cpus = static_cast<double>(request.millicores) / 1000;
    parts.push_back(fmt::format("{} CPU{}", cpus, cpus == 1 ? "" : "s"));
  }
  if (request.memory > 0) parts.push_back(formatBytes(request.memory));
  if (request.gpus > 0) {
    parts.push_back(fmt::format("{} GPU{}", request.gpus, request.gpus == 1 ? "" : "s"));
  }
  if (parts.size() < 2) return join(parts, "");
  const std::string last = parts.back();
  parts.pop_back();
  return join(parts, ", ") + " and " + last;
}

}  // namespace dure::plan
