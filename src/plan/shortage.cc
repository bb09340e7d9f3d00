#include "plan/shortage.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "base/text.h"

namespace dure::plan {
namespace {

using Counts = std::vector<std::pair<std::string, std::int64_t>>;

constexpr std::size_t kShown = 8;

std::string counted(std::int64_t count, const std::string& what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

// "node-1 3, node-2 1", and how many more there are; the first with `verb` behind its name.
std::string list(const Counts& counts, const std::string& verb, const std::string& unit) {
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) {
    if (parts.size() == kShown) {
      parts.push_back(fmt::format("{} more", counts.size() - kShown));
      break;
    }
    const bool first = parts.empty();
    parts.push_back(fmt::format("{} {}{}{}", name, first ? verb : "", count, first ? unit : ""));
  }
  return join(parts, ", ");
}

Counts sorted(const std::map<std::string, std::int64_t>& counts) {
  Counts list(counts.begin(), counts.end());
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : nameBefore(a.first, b.first);
  });
  return list;
}

// What `tasks` of them need, and is not free.
std::int64_t lack(std::int64_t tasks, std::int64_t of_each, std::int64_t free) {
  std::int64_t needed = 0;
  if (__builtin_mul_overflow(tasks, of_each, &needed)) needed = kUnlimited;
  return needed - free;
}

// What all usable nodes have together.
struct Sum {
  std::int64_t millicores = 0;
  std::int64_t memory = 0;
  std::int64_t gpus = 0;
};

std::vector<std::string> missingFrom(const Request& request, const Sum& free) {
  std::vector<std::string> missing;
  if (request.split > 0) {
    if (free.gpus < request.split) missing.push_back(counted(request.split - free.gpus, "GPU"));
    return missing;
  }
  const std::int64_t tasks = request.fewest;
  if (const auto cpus = lack(tasks, request.millicores, free.millicores); cpus > 0) {
    missing.push_back(fmt::format("{} CPUs", static_cast<double>(cpus) / 1000));
  }
  if (const auto memory = lack(tasks, request.memory, free.memory); memory > 0) {
    // Odd bytes would be hard to read.
    missing.push_back(formatBytes(memory > kMebibyte ? memory / kMebibyte * kMebibyte : memory) +
                      " of memory");
  }
  if (const auto gpus = lack(tasks, request.gpus, free.gpus); gpus > 0) {
    missing.push_back(counted(gpus, "GPU"));
  }
  return missing;
}

// "; held by job a (3), job b (2)"
std::string heldBy(const std::vector<std::pair<std::string, std::int64_t>>& held) {
  std::vector<std::string> jobs;
  for (const auto& [job, gpus] : held) {
    if (jobs.size() == kShown) break;
    jobs.push_back(fmt::format("job {} ({})", job, gpus));
  }
  return jobs.empty() ? "" : "; held by " + join(jobs, ", ");
}

}  // namespace

Shortage explainShortage(const Request& request, const Inventory& inventory, std::int64_t largest) {
  Shortage shortage{.request = request,
                    .wanted = request.split > 0 ? request.split : request.fewest,
                    .largest = largest};
  Sum sum;
  std::map<std::string, std::int64_t> room, refused, held, unlike;
  for (const Node& node : inventory.nodes) {
    if (const std::string why = labelRefusal(request.nodes, node); !why.empty()) ++unlike[why];
    if (const std::string why = refusal(request.nodes, node); !why.empty()) {
      ++refused[why];
      continue;
    }
    const std::int64_t gpus = std::max<std::int64_t>(node.free.count(request.nodes.gpu), 0);
    const std::int64_t tasks = tasksThatFit(request, node);
    const std::int64_t units = request.split == 0 ? tasks : tasks > 0 ? gpus : 0;
    if (units > 0) room[node.name] = units;
    sum.millicores = addUp(sum.millicores, std::max<std::int64_t>(node.free.millicores, 0));
    sum.memory = addUp(sum.memory, std::max<std::int64_t>(node.free.memory, 0));
    sum.gpus = addUp(sum.gpus, gpus);
    for (const Holding& holding : node.held) {
      if (holding.resource == request.nodes.gpu)
        held[holding.job] = addUp(held[holding.job], holding.count);
    }
  }
  shortage.missing = missingFrom(request, sum);
  shortage.room = sorted(room);
  shortage.refused = sorted(refused);
  shortage.held = sorted(held);
  std::int64_t unfit = 0;
  for (const auto& [why, nodes] : unlike) unfit += nodes;
  if (unfit > 0 && unfit == std::ssize(inventory.nodes)) {
    shortage.never = "nodes: no node of the cluster has the labels that the job asks for (" +
                     list(sorted(unlike), "on ", unfit == 1 ? " node" : " nodes") + ")";
  }
  return shortage;
}

std::string Shortage::message() const {
  const bool split = request.split > 0;
  std::int64_t free = 0;
  for (const auto& [node, units] : room) free = addUp(free, units);
  std::string text = split ? counted(wanted, "GPU") : counted(wanted, "task");
  if (split && request.even) text += " in equal shares";
  if (const std::string each = describeTask(request); !each.empty()) {
    text += split ? fmt::format(" on nodes with {}", each) : fmt::format(" of {}", each);
  }
  text += fmt::format(" wanted, {} {}", free == 0 ? "none" : std::to_string(free),
                      split ? "free" : "fit");
  if (free == 1 && !split) text += "s";
  if (!room.empty()) text += ": " + list(room, "", "");
  if (!missing.empty()) text += "; missing: " + join(missing, ", ");
  if (missing.empty() && !room.empty()) text += "; enough in sum, but in pieces that do not fit";
  if (!refused.empty()) text += "; nodes not used: " + list(refused, "", "");
  return text + heldBy(held) + fmt::format("; the largest that fits: {}", largest);
}

std::string Shortage::waiting() const {
  const bool split = request.split > 0;
  std::string text = fmt::format("waiting for {}", counted(wanted, split ? "GPU" : "task"));
  const std::string each = describeTask(request);
  if (!split && !each.empty()) text += " of " + each;
  text += room.empty() ? std::string(": no node has room")
                       : ": " + list(room, "has ", split ? " free" : " places");
  return text + heldBy(held);
}

}  // namespace dure::plan
