#include "plan/greedy.h"

#include <algorithm>

namespace dure::plan {
namespace {

// What a set of racks has to give, kept up to date while racks come and go.
class Pool {
 public:
  Pool(const Threshold& threshold, const std::vector<Zone>& zones)
      : threshold_(threshold), below_(static_cast<std::size_t>(threshold.spare) + 1) {
    for (const Zone& zone : zones) {
      for (const Rack& rack : zone) lost_ += rack.profile().gain;
    }
  }

  void add(const Rack& rack) { change(rack, 1); }
  void remove(const Rack& rack) { change(rack, -1); }

  bool suffices() const {
    int left = threshold_.spare - lost_;
    if (left < 0) return false;
    int nodes = full_;
    for (int d = 1; d <= left && nodes < threshold_.count; ++d) {
      const int many = std::min(below_[static_cast<std::size_t>(d)], left / d);
      nodes += many;
      left -= many * d;
    }
    return nodes >= threshold_.count;
  }

  // What is lost by the nodes above the level that are not in the pool.
  int lost() const { return lost_; }

 private:
  void change(const Rack& rack, int sign) {
    lost_ -= sign * rack.profile().gain;
    full_ += sign * rack.full();
    const std::vector<int> below = rack.below();
    for (std::size_t d = 1; d < below.size(); ++d) below_[d] += sign * below[d];
  }

  const Threshold threshold_;
  int lost_ = 0;
  int full_ = 0;
  std::vector<int> below_;
};

struct Pile {
  std::vector<const Rack*> racks;
  int gain = 0;
  int nodes = 0;
};

bool moreUseful(const Pile& a, const Pile& b) {
  return a.gain != b.gain ? a.gain > b.gain : a.nodes > b.nodes;
}

// The racks, the most useful first, those of one zone together.
std::vector<Pile> byUse(const std::vector<Zone>& zones) {
  std::vector<Pile> piles;
  for (const Zone& zone : zones) {
    std::vector<Pile> racks;
    for (const Rack& rack : zone) {
      racks.push_back({{&rack}, rack.profile().gain, rack.profile().nodes.back()});
    }
    std::stable_sort(racks.begin(), racks.end(), moreUseful);
    Pile pile;
    for (const Pile& rack : racks) {
      pile.racks.push_back(rack.racks.front());
      pile.gain += rack.gain;
      pile.nodes += rack.nodes;
    }
    piles.push_back(std::move(pile));
  }
  std::stable_sort(piles.begin(), piles.end(), moreUseful);
  return piles;
}

// Takes racks until there are enough, and gives back those that were not needed in the end.
std::vector<const Rack*> fewRacks(Pool& pool, const std::vector<Zone>& zones) {
  std::vector<const Rack*> taken;
  for (const Pile& zone : byUse(zones)) {
    for (const Rack* rack : zone.racks) {
      if (pool.suffices()) break;
      pool.add(*rack);
      taken.push_back(rack);
    }
  }
  std::vector<const Rack*> needed;
  for (const Rack* rack : taken) {
    pool.remove(*rack);
    if (pool.suffices()) continue;
    pool.add(*rack);
    needed.push_back(rack);
  }
  return needed;
}

}  // namespace

std::vector<Candidate> chooseGreedily(const Threshold& threshold, const std::vector<Zone>& zones,
                                      double max_work) {
  Pool pool(threshold, zones);
  std::vector<Candidate> candidates;
  for (const Rack* rack : fewRacks(pool, zones)) {
    const std::vector<Candidate> nodes = rack->nodes();
    candidates.insert(candidates.end(), nodes.begin(), nodes.end());
  }
  // All of them as if they were one rack: there the tightest fit is quickly found.
  const Rack all(threshold, candidates);
  const int allowed = threshold.spare - pool.lost();
  if (all.work(1) <= max_work) {
    const std::vector<Option> options = all.options(1);
    int best = -1;
    for (int loss = 0; loss <= allowed; ++loss) {
      const Option& option = options[static_cast<std::size_t>(loss)];
      const bool enough = all.profile().nodes[static_cast<std::size_t>(loss)] == threshold.count;
      if (!option.possible || !enough) continue;
      if (best < 0 || option.cost < options[static_cast<std::size_t>(best)].cost) best = loss;
    }
    if (best >= 0) return all.pick(threshold.count, best);
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.capacity != b.capacity ? a.capacity > b.capacity : takenBefore(a, b);
  });
  candidates.resize(static_cast<std::size_t>(threshold.count));
  return candidates;
}

}  // namespace dure::plan
