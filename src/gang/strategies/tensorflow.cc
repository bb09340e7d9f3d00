#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "gang/strategies/strategies.h"

namespace dure::gang {
namespace {

class Tensorflow : public LaunchStrategy {
 public:
  // The workers of ParameterServerStrategy serve the chief, as parameter servers do.
  bool endsWithChief(const spec::Job& job) const override { return job.roles.ps > 0; }

  void addVariables(Environment& env, const ProcessView& process) const override {
    nlohmann::json cluster = nlohmann::json::object();
    for (const Task& member : process.roster.tasks) {
      // The evaluator knows the cluster but is not part of it.
      if (member.role == Role::kEvaluator) continue;
      const Endpoint& endpoint = process.site.tasks.at(member.name());
      cluster[roleName(member.role)].push_back(
          fmt::format("{}:{}", endpoint.address, endpoint.port));
    }
    const nlohmann::json config = {
        {"cluster", cluster},
        {"task", {{"type", roleName(process.task.role)}, {"index", process.task.index}}},
        {"environment", "cloud"}};
    env["TF_CONFIG"] = config.dump();
  }
};

}  // namespace

const LaunchStrategy& tensorflowStrategy(const spec::Job& /*job*/) {
  static const Tensorflow tensorflow;
  return tensorflow;
}

}  // namespace dure::gang
