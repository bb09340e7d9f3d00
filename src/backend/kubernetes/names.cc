#include "backend/kubernetes/names.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace dure::kubernetes {
std::string KubeRun::text() const { return fmt::format("{}.{}", job, number); }
std::string KubeRun::object() const { return fmt::format("{}-{}", job, number); }
std::string KubeRun::pod(const std::string& task, int generation) const {
  return fmt::format("{}-{}-g{}", object(), task, generation);
}
std::string KubeRun::journal(int part) const {
  return fmt::format("{}-journal-{}", object(), part);
}
std::string KubeRun::folder(int part) const { return fmt::format("{}-folder-{}", object(), part); }
std::string KubeRun::metrics() const { return object() + "-metrics"; }
std::string KubeRun::host(const std::string& task) const {
  return fmt::format("{}.{}", task, object());
}
std::string KubeRun::clusterObject() const {
  return fmt::format("dure:{}:{}", name_space, object());
}

nlohmann::json labelsOf(const KubeRun& run, const char* part) {
  return {{labels::kManagedBy, plan::kManagedByDure},
          {labels::kJob, run.job},
          {labels::kRun, std::to_string(run.number)},
          {labels::kPart, part}};
}

std::string selectorOf(const KubeRun& run, const char* part) {
  std::string selector =
      fmt::format("{}={},{}={}", labels::kJob, run.job, labels::kRun, run.number);
  if (part != nullptr) selector += fmt::format(",{}={}", labels::kPart, part);
  return selector;
}

}  // namespace dure::kubernetes
