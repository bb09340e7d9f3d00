#include "cli/plan_view.h"

#include <algorithm>
#include <vector>

#include <nlohmann/json.hpp>

#include <fmt/core.h>

#include "base/text.h"
#include "cli/chart.h"
#include "cli/table.h"
#include "gang/roster.h"

namespace dure::cli {
namespace {

constexpr std::size_t kMaxRows = 60;
constexpr int kMaxSquares = 16;

std::string counted(std::int64_t count, const std::string& what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

int workersOf(const spec::Job& job, const plan::Placement& placement) {
  return static_cast<int>(placement.share_of_task.size()) - job.roles.chief - job.roles.ps -
         job.roles.evaluator;
}

// The names of the tasks on each share, in the order of ranks.
std::vector<std::vector<std::string>> tasksByShare(const spec::Job& job,
                                                   const plan::Placement& placement) {
  std::vector<std::vector<std::string>> names(placement.shares.size());
  std::size_t next = 0;
  for (const gang::Task& task : gang::makeRoster(job, workersOf(job, placement)).tasks) {
    // MPI's launcher needs no node of its own.
    if (task.role == gang::Role::kLauncher) continue;
    names[static_cast<std::size_t>(placement.share_of_task.at(next++))].push_back(task.name());
  }
  return names;
}

std::string shortList(const std::vector<std::string>& names) {
  if (names.size() <= 3) return join(names, ", ");
  return fmt::format("{} … {} ({})", names.front(), names.back(), names.size());
}

// One square for each free GPU, the taken ones full.
std::string picture(const plan::NodeShare& share) {
  if (share.free_gpus > kMaxSquares) {
    return drawBar(static_cast<double>(share.gpus) / static_cast<double>(share.free_gpus),
                   kMaxSquares);
  }
  std::string squares;
  for (std::int64_t i = 0; i < share.free_gpus; ++i) squares += i < share.gpus ? "■" : "□";
  return squares;
}

std::int64_t sumGpus(const plan::Placement& placement) {
  std::int64_t gpus = 0;
  for (const plan::NodeShare& share : placement.shares) gpus += share.gpus;
  return gpus;
}

std::int64_t leftOver(const plan::Placement& placement) {
  std::int64_t left = 0;
  for (const plan::NodeShare& share : placement.shares) left += share.free_gpus - share.gpus;
  return left;
}

template <typename Member>
bool anyHas(const plan::Placement& placement, Member member) {
  return std::any_of(placement.shares.begin(), placement.shares.end(),
                     [&](const plan::NodeShare& share) { return !(share.*member).empty(); });
}

std::string summary(const spec::Job& job, const plan::Placement& placement, bool zones,
                    bool racks) {
  const std::int64_t gpus = sumGpus(placement);
  const auto tasks = static_cast<std::int64_t>(placement.share_of_task.size());
  std::string text =
      fmt::format("{}: {}{} on {}", job.name, counted(tasks, "task"),
                  gpus > 0 ? " with " + counted(gpus, "GPU") : "",
                  counted(static_cast<std::int64_t>(placement.shares.size()), "node"));
  if (racks) text += " of " + counted(placement.racks, "rack");
  if (zones) text += " in " + counted(placement.zones, "zone");
  if (gpus > 0) {
    const std::int64_t left = leftOver(placement);
    text += left == 0 ? "; no GPU left over there"
                      : fmt::format("; {} left over there", counted(left, "GPU"));
  }
  return text + "\n";
}

}  // namespace

std::string showPlacement(const spec::Job& job, const plan::Placement& placement) {
  const bool gpus = sumGpus(placement) > 0;
  const bool zones = anyHas(placement, &plan::NodeShare::zone),
             racks = anyHas(placement, &plan::NodeShare::rack);
  const auto tasks = tasksByShare(job, placement);
  std::vector<std::vector<std::string>> rows(1);
  const auto cell = [&](const std::string& text, bool shown = true) {
    if (shown) rows.back().push_back(text);
  };
  cell("NODE");
  cell("ZONE", zones);
  cell("RACK", racks);
  cell("GPUS", gpus);
  cell("■ TAKEN □ LEFT", gpus);
  cell("TASKS");
  for (std::size_t i = 0; i < placement.shares.size() && i < kMaxRows; ++i) {
    const plan::NodeShare& share = placement.shares[i];
    rows.emplace_back();
    cell(share.node);
    cell(share.zone, zones);
    cell(share.rack, racks);
    cell(fmt::format("{} of {}", share.gpus, share.free_gpus), gpus);
    cell(picture(share), gpus);
    cell(shortList(tasks[i]));
  }
  std::string text = summary(job, placement, zones, racks) + formatTable(rows);
  if (placement.shares.size() > kMaxRows) {
    text += fmt::format("… and {} more nodes; --json has them all\n",
                        placement.shares.size() - kMaxRows);
  }
  if (!placement.fewest_racks)
    text += "perhaps fewer racks would do: there are too many to try all\n";
  if (!placement.tightest)
    text += "perhaps there is a tighter fit: there are too many to try all\n";
  return text;
}

nlohmann::json toJson(const spec::Job& job, const plan::Placement& placement) {
  const auto tasks = tasksByShare(job, placement);
  nlohmann::json nodes = nlohmann::json::array();
  for (std::size_t i = 0; i < placement.shares.size(); ++i) {
    const plan::NodeShare& share = placement.shares[i];
    nlohmann::json node{{"node", share.node}, {"gpus", share.gpus}, {"tasks", tasks[i]}};
    if (!share.zone.empty()) node["zone"] = share.zone;
    if (!share.rack.empty()) node["rack"] = share.rack;
    nodes.push_back(std::move(node));
  }
  return {{"fits", true},
          {"nodes", std::move(nodes)},
          {"workers", workersOf(job, placement)},
          {"gpus", sumGpus(placement)},
          {"gpus_left", leftOver(placement)},
          {"zones", placement.zones},
          {"racks", placement.racks},
          {"fewest_racks", placement.fewest_racks},
          {"tightest", placement.tightest}};
}

nlohmann::json toJson(const plan::Shortage& shortage) {
  nlohmann::json room = nlohmann::json::array();
  for (const auto& [node, units] : shortage.room) room.push_back({{"node", node}, {"room", units}});
  return {{"fits", false},
          {"nodes", nlohmann::json::array()},
          {"wanted", shortage.wanted},
          {"of", shortage.request.split > 0 ? "gpus" : "tasks"},
          {"largest", shortage.largest},
          {"missing", shortage.missing},
          {"room", std::move(room)},
          {"message", shortage.message()}};
}

}  // namespace dure::cli
