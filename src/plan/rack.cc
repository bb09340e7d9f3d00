#include "plan/rack.h"

#include <algorithm>
#include <cstdlib>

namespace dure::plan {
namespace {

// Sorts, and drops all but the first `limit`.
void keepFirst(std::vector<Candidate>& nodes, std::size_t limit) {
  if (nodes.size() > limit) {
    const auto middle = nodes.begin() + static_cast<std::ptrdiff_t>(limit);
    std::nth_element(nodes.begin(), middle, nodes.end(), takenBefore);
    nodes.resize(limit);
  }
  std::sort(nodes.begin(), nodes.end(), takenBefore);
}

std::vector<Cost> sums(const std::vector<Candidate>& nodes) {
  std::vector<Cost> costs{Cost{}};
  costs.reserve(nodes.size() + 1);
  for (const Candidate& node : nodes) costs.push_back(costs.back() + Cost::of(node.weight));
  return costs;
}

}  // namespace

// By [change][loss]: `change` is how many more nodes are used than those above the level.
struct Rack::Edges {
  int least = 0;  // the change of the first row
  int most = 0;
  int losses = 0;
  std::vector<Option> best;
  std::vector<std::vector<int>> taken;  // per step, of each entry; only if traced

  std::size_t at(int change, int loss) const {
    return static_cast<std::size_t>(change - least) * static_cast<std::size_t>(losses) +
           static_cast<std::size_t>(loss);
  }
};

Rack::Rack(const Threshold& threshold, std::vector<Candidate> candidates) : threshold_(threshold) {
  std::sort(candidates.begin(), candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.capacity > b.capacity; });
  for (auto first = candidates.begin(); first != candidates.end();) {
    const int capacity = first->capacity;
    const auto last = std::find_if(first, candidates.end(),
                                   [&](const Candidate& c) { return c.capacity != capacity; });
    addStep(capacity, std::vector<Candidate>(first, last));
    first = last;
  }
  std::stable_sort(steps_.begin(), steps_.end(),
                   [](const Step& a, const Step& b) { return a.distance < b.distance; });
  level_cost_ = sums(level_);
  makeProfile();
}

void Rack::addStep(int capacity, std::vector<Candidate> nodes) {
  const auto count = static_cast<std::size_t>(threshold_.count);
  const int distance = std::abs(capacity - threshold_.level);
  if (distance == 0) {
    keepFirst(nodes, count);
    level_ = std::move(nodes);
    return;
  }
  const bool below = capacity < threshold_.level;
  if (!below) {
    above_ += static_cast<int>(nodes.size());
    for (const Candidate& node : nodes) base_ = base_ + Cost::of(node.weight);
    profile_.gain += static_cast<int>(nodes.size()) * distance;
  }
  if (distance > threshold_.spare) {
    fixed_.insert(fixed_.end(), nodes.begin(), nodes.end());
    return;
  }
  const auto limit = static_cast<std::size_t>(threshold_.spare / distance);
  Step step{.distance = distance, .below = below};
  if (below) {
    keepFirst(nodes, std::min(count, limit));
    step.cost = sums(nodes);
  } else {
    // What weighs most is left out first.
    keepFirst(nodes, nodes.size());
    step.cost.emplace_back();
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      step.cost.push_back(step.cost.back() - Cost::of(node->weight));
    }
    step.cost.resize(std::min(step.cost.size(), limit + 1));
  }
  step.nodes = std::move(nodes);
  steps_.push_back(std::move(step));
}

std::vector<int> Rack::below() const {
  std::vector<int> counts(static_cast<std::size_t>(threshold_.spare) + 1);
  for (const Step& step : steps_) {
    if (step.below) {
      counts[static_cast<std::size_t>(step.distance)] = static_cast<int>(step.nodes.size());
    }
  }
  return counts;
}

std::vector<Candidate> Rack::nodes() const {
  std::vector<Candidate> all = fixed_;
  all.insert(all.end(), level_.begin(), level_.end());
  for (const Step& step : steps_) all.insert(all.end(), step.nodes.begin(), step.nodes.end());
  return all;
}

void Rack::makeProfile() {
  const int most = threshold_.count;
  profile_.nodes.assign(static_cast<std::size_t>(threshold_.spare) + 1, std::min(full(), most));
  // The nearest below the level first: they are the most nodes for a loss.
  int used = full(), loss = 0;
  for (const Step& step : steps_) {
    const int many = static_cast<int>(step.cost.size()) - 1;
    if (!step.below) {
      most_above_ = std::min(most_above_ + many, threshold_.spare);
      continue;
    }
    most_below_ = std::min({most_below_ + many, threshold_.spare, most});
    for (int i = 0; i < many && loss + step.distance <= threshold_.spare; ++i) {
      loss += step.distance;
      ++used;
      std::fill(profile_.nodes.begin() + loss, profile_.nodes.end(), std::min(used, most));
    }
  }
}

double Rack::work(int width) const {
  const double changes = most_below_ + most_above_ + 1, losses = threshold_.spare + 1;
  double many = width;
  for (const Step& step : steps_) many += static_cast<double>(step.cost.size());
  return changes * losses * many;
}

Rack::Edges Rack::edges(bool traced) const {
  Edges edges{.least = -most_above_, .most = most_below_, .losses = threshold_.spare + 1};
  edges.best.resize(edges.at(edges.most + 1, 0));
  edges.best[edges.at(0, 0)].possible = true;
  for (const Step& step : steps_) {
    std::vector<Option> next(edges.best.size());
    std::vector<int> taken(traced ? next.size() : 0);
    for (int change = edges.least; change <= edges.most; ++change) {
      for (int loss = 0; loss < edges.losses; ++loss) {
        const Option& from = edges.best[edges.at(change, loss)];
        if (!from.possible) continue;
        for (int i = 0; i < static_cast<int>(step.cost.size()); ++i) {
          const int changed = step.below ? change + i : change - i;
          const int lost = loss + i * step.distance;
          if (lost >= edges.losses || changed < edges.least || changed > edges.most) break;
          const Cost cost = from.cost + step.cost[static_cast<std::size_t>(i)];
          Option& to = next[edges.at(changed, lost)];
          if (to.possible && to.cost <= cost) continue;
          to = {cost, true};
          if (traced) taken[edges.at(changed, lost)] = i;
        }
      }
    }
    edges.best = std::move(next);
    if (traced) edges.taken.push_back(std::move(taken));
  }
  return edges;
}

std::vector<Option> Rack::options(int width) const {
  const Edges found = edges(false);
  std::vector<Option> options(static_cast<std::size_t>(found.losses * width));
  const int levels = static_cast<int>(level_.size());
  for (int loss = 0; loss < found.losses; ++loss) {
    const int most = profile_.nodes[static_cast<std::size_t>(loss)];
    for (int change = found.least; change <= found.most; ++change) {
      const Option& edge = found.best[found.at(change, loss)];
      if (!edge.possible) continue;
      const int others = above_ + change;
      for (int i = std::max(0, most - others - levels); i < width && most - i >= 1; ++i) {
        const int of_level = most - i - others;
        if (of_level < 0) break;
        const Cost cost = base_ + edge.cost + level_cost_[static_cast<std::size_t>(of_level)];
        const int place = loss * width + i;
        Option& option = options[static_cast<std::size_t>(place)];
        if (!option.possible || cost < option.cost) option = {cost, true};
      }
    }
  }
  return options;
}

std::vector<Candidate> Rack::pick(int count, int loss) const {
  const Edges found = edges(true);
  int change = 0;
  Option best;
  for (int tried = found.least; tried <= found.most; ++tried) {
    const Option& edge = found.best[found.at(tried, loss)];
    const int of_level = count - above_ - tried;
    if (!edge.possible || of_level < 0 || of_level > static_cast<int>(level_.size())) continue;
    const Cost cost = edge.cost + level_cost_[static_cast<std::size_t>(of_level)];
    if (best.possible && best.cost <= cost) continue;
    best = {cost, true};
    change = tried;
  }
  std::vector<Candidate> picked = fixed_;
  picked.insert(picked.end(), level_.begin(), level_.begin() + (count - above_ - change));
  for (std::size_t i = steps_.size(); i-- > 0;) {
    const Step& step = steps_[i];
    const int many = found.taken[i][found.at(change, loss)];
    const int used = step.below ? many : static_cast<int>(step.nodes.size()) - many;
    picked.insert(picked.end(), step.nodes.begin(), step.nodes.begin() + used);
    change += step.below ? -many : many;
    loss -= many * step.distance;
  }
  return picked;
}

}  // namespace dure::plan
