#include "pipeline/graph.h"

#include <algorithm>
#include <functional>
#include <optional>

namespace dure::pipeline {
namespace {

// As many as there are for a step that is not there.
std::size_t numberOf(const Pipeline& pipeline, const std::string& name) {
  const auto found = std::find_if(pipeline.steps.begin(), pipeline.steps.end(),
                                  [&](const Step& step) { return step.name == name; });
  return static_cast<std::size_t>(found - pipeline.steps.begin());
}

}  // namespace

std::vector<std::string> findCycle(const Pipeline& pipeline) {
  enum class Mark { kNew, kOpen, kDone };
  std::vector<Mark> marks(pipeline.steps.size(), Mark::kNew);
  std::vector<std::size_t> path;
  std::vector<std::string> cycle;
  const std::function<bool(std::size_t)> visit = [&](std::size_t step) {
    if (marks[step] == Mark::kDone) return false;
    if (marks[step] == Mark::kOpen) {
      for (auto at = std::find(path.begin(), path.end(), step); at != path.end(); ++at) {
        cycle.push_back(pipeline.steps[*at].name);
      }
      cycle.push_back(pipeline.steps[step].name);
      return true;
    }
    marks[step] = Mark::kOpen;
    path.push_back(step);
    for (const std::string& need : pipeline.steps[step].needs) {
      const std::size_t other = numberOf(pipeline, need);
      if (other < marks.size() && visit(other)) return true;
    }
    path.pop_back();
    marks[step] = Mark::kDone;
    return false;
  };
  for (std::size_t i = 0; i < pipeline.steps.size(); ++i) {
    if (visit(i)) return cycle;
  }
  return {};
}

std::vector<std::size_t> inOrder(const Pipeline& pipeline) {
  std::vector<std::size_t> order;
  std::vector<bool> placed(pipeline.steps.size(), false);
  while (order.size() < pipeline.steps.size()) {
    const std::size_t before = order.size();
    for (std::size_t i = 0; i < pipeline.steps.size(); ++i) {
      const auto& needs = pipeline.steps[i].needs;
      const bool ready = std::all_of(needs.begin(), needs.end(), [&](const std::string& need) {
        const std::size_t other = numberOf(pipeline, need);
        return other < placed.size() && placed[other];
      });
      if (placed[i] || !ready) continue;
      placed[i] = true;
      order.push_back(i);
      break;
    }
    if (order.size() == before) break;
  }
  return order;
}

// A lane is a step that others below still need. A step takes over the lane of the one it is the
// last to need, or gets a lane of its own.
std::vector<std::string> drawGraph(const Pipeline& pipeline) {
  std::vector<int> left(pipeline.steps.size(), 0);
  for (const Step& step : pipeline.steps) {
    for (const std::string& need : step.needs) ++left[numberOf(pipeline, need)];
  }
  std::vector<std::optional<std::size_t>> lanes;
  std::vector<std::string> lines;
  std::size_t widest = 0;
  for (const std::size_t number : inOrder(pipeline)) {
    const Step& step = pipeline.steps[number];
    std::vector<bool> joins(lanes.size(), false);
    std::optional<std::size_t> own;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      if (!lanes[i]) continue;
      const std::string& source = pipeline.steps[*lanes[i]].name;
      joins[i] = std::find(step.needs.begin(), step.needs.end(), source) != step.needs.end();
      if (joins[i] && --left[*lanes[i]] == 0 && !own) own = i;
    }
    if (!own) {
      const auto free = std::find(lanes.begin(), lanes.end(), std::nullopt);
      own = static_cast<std::size_t>(free - lanes.begin());
      if (*own == lanes.size()) {
        lanes.emplace_back();
        joins.push_back(false);
      }
    }
    std::size_t first = *own;
    std::size_t last = *own;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      if (!joins[i]) continue;
      first = std::min(first, i);
      last = std::max(last, i);
    }
    std::string line;
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const bool crossed = i > first && i < last;
      if (i == *own) {
        line += "●";
      } else if (joins[i]) {
        const bool goes_on = left[*lanes[i]] > 0;
        if (crossed) {
          line += goes_on ? "┼" : "┴";
        } else if (i < *own) {
          line += goes_on ? "├" : "╰";
        } else {
          line += goes_on ? "┤" : "╯";
        }
      } else {
        line += lanes[i] ? (crossed ? "┼" : "│") : (crossed ? "─" : " ");
      }
      line += i >= first && i < last ? "─" : " ";
    }
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      if (joins[i] && left[*lanes[i]] == 0) lanes[i].reset();
    }
    lanes[*own].reset();
    if (left[number] > 0) lanes[*own] = number;
    widest = std::max(widest, lanes.size());
    lines.push_back(line);
    // Lanes at the right that nobody uses need no room.
    while (!lanes.empty() && !lanes.back()) lanes.pop_back();
  }
  const auto columns = [](const std::string& text) {
    return std::count_if(text.begin(), text.end(),
                         [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
  };
  for (std::string& line : lines) {
    line.append(2 * widest - static_cast<std::size_t>(columns(line)), ' ');
  }
  return lines;
}

}  // namespace dure::pipeline
