#include "plan/tightest.h"

#include <algorithm>
#include <map>

namespace dure::plan {
namespace {

using RackOptions = std::map<const Rack*, std::vector<Option>>;

// A rack that was used on the way to a state, and the way before it.
struct Used {
  int before = -1;  // index; -1: nothing was used
  const Rack* rack = nullptr;
  int count = 0;
  int loss = 0;
};

// The cheapest way to a state.
struct State {
  Cost cost;
  int used = -1;
  bool alive = false;
};

// Goes through all zones and racks and keeps, of all ways to the same place with the same budget
// left and the same number of nodes still needed, the cheapest. A way is given up as soon as the
// rest cannot give the nodes it needs. What is left then is little: the budget is the smallest that
// works, so that hardly any of it can be wasted. States are told apart by the budget left and by
// their slack: what the rest can give, less what is needed.
class Walk {
 public:
  Walk(const Threshold& threshold, const std::vector<ZoneView>& zones, const RackOptions& options,
       Budget budget, int width, double max_work)
      : threshold_(threshold),
        zones_(zones),
        options_(options),
        reach_(zones, budget),
        width_(width),
        work_left_(max_work) {}

  std::optional<std::vector<Candidate>> run() {
    std::vector<State> states(states_size());
    put(states, reach_.beforeZone(0), reach_.most(), threshold_.count, State{.alive = true});
    for (std::size_t z = 0; z < zones_.size(); ++z) {
      states = throughZone(z, states);
      if (work_left_ < 0) return std::nullopt;
    }
    const State* best = nullptr;
    for (const State& state : states) {
      if (state.alive && (best == nullptr || state.cost < best->cost)) best = &state;
    }
    if (best == nullptr) return std::nullopt;
    std::vector<Candidate> nodes;
    for (int i = best->used; i >= 0; i = used_[static_cast<std::size_t>(i)].before) {
      const Used& used = used_[static_cast<std::size_t>(i)];
      const std::vector<Candidate> picked = used.rack->pick(used.count, used.loss);
      nodes.insert(nodes.end(), picked.begin(), picked.end());
    }
    return nodes;
  }

 private:
  std::size_t states_size() const { return reach_.size() * static_cast<std::size_t>(width_); }

  // Where the state with this budget left and nodes needed is; nullptr if it cannot be finished.
  State* find(std::vector<State>& states, const std::vector<int>& reach, const Budget& left,
              int needed) const {
    const std::size_t index = reach_.index(left);
    const int slack = reach[index] - needed;
    if (slack < 0 || slack >= width_) return nullptr;
    return &states[index * static_cast<std::size_t>(width_) + static_cast<std::size_t>(slack)];
  }

  bool put(std::vector<State>& states, const std::vector<int>& reach, const Budget& left,
           int needed, const State& state) const {
    State* there = find(states, reach, left, needed);
    if (there == nullptr || (there->alive && there->cost <= state.cost)) return false;
    *there = state;
    return true;
  }

  // Calls `visit(budget left, nodes needed, state)` for all that are alive.
  template <typename Visit>
  void each(const std::vector<State>& states, const std::vector<int>& reach, Visit visit) {
    work_left_ -= static_cast<double>(states.size()) / 4;
    for (std::size_t i = 0; i < states.size(); ++i) {
      if (!states[i].alive) continue;
      const std::size_t index = i / static_cast<std::size_t>(width_);
      const int slack = static_cast<int>(i % static_cast<std::size_t>(width_));
      visit(reach_.budget(index), reach[index] - slack, states[i]);
    }
  }

  std::vector<State> throughZone(std::size_t z, const std::vector<State>& before) {
    const ZoneView& zone = zones_[z];
    std::vector<State> inside(states_size());
    each(before, reach_.beforeZone(z), [&](Budget left, int needed, const State& state) {
      if (!zone.must_be_used && left.zones-- == 0) return;
      put(inside, reach_.beforeRack(z, 0), left, needed, state);
    });
    const bool entered =
        std::any_of(inside.begin(), inside.end(), [](const State& state) { return state.alive; });
    for (std::size_t r = 0; entered && r < zone.racks.size() && work_left_ >= 0; ++r) {
      inside =
          throughRack(*zone.racks[r], inside, reach_.beforeRack(z, r), reach_.beforeRack(z, r + 1));
    }
    each(before, reach_.beforeZone(z), [&](Budget left, int needed, const State& state) {
      left.loss -= zone.gain;
      if (left.loss < 0 || zone.must_be_used) return;
      put(inside, reach_.beforeZone(z + 1), left, needed, state);
    });
    return inside;
  }

  std::vector<State> throughRack(const Rack& rack, const std::vector<State>& states,
                                 const std::vector<int>& reach, const std::vector<int>& rest) {
    std::vector<State> after(states_size());
    const std::vector<Option>& options = options_.at(&rack);
    each(states, reach, [&](const Budget& left, int needed, const State& state) {
      if (rack.mustBeUsed() || left.racks > 0) use(rack, options, left, needed, state, after, rest);
      Budget skipped = left;
      skipped.loss -= rack.profile().gain;
      if (skipped.loss >= 0) put(after, rest, skipped, needed, state);
    });
    return after;
  }

  void use(const Rack& rack, const std::vector<Option>& options, Budget left, int needed,
           const State& state, std::vector<State>& after, const std::vector<int>& rest) {
    left.racks -= rack.mustBeUsed() ? 0 : 1;
    const int allowed = left.loss;
    for (int loss = 0; loss <= allowed; ++loss) {
      left.loss = allowed - loss;
      const int most = rack.profile().nodes[static_cast<std::size_t>(loss)];
      work_left_ -= width_;
      for (int i = std::max(0, most - needed); i < width_ && i < most; ++i) {
        const int place = loss * width_ + i;
        const Option& option = options[static_cast<std::size_t>(place)];
        if (!option.possible) continue;
        const int still = needed - (most - i);
        if (still > rest[reach_.index(left)]) break;
        State next{.cost = state.cost + option.cost,
                   .used = static_cast<int>(used_.size()),
                   .alive = true};
        if (put(after, rest, left, still, next)) {
          used_.push_back({state.used, &rack, most - i, loss});
        }
      }
    }
  }

  const Threshold threshold_;
  const std::vector<ZoneView>& zones_;
  const RackOptions& options_;
  const Reach reach_;
  const int width_;  // slacks are below it
  double work_left_;
  std::vector<Used> used_;
};

// As keepUseful of search.cc, by cost instead of number: what is not among the cheapest `limit` for
// any number of nodes at any loss is not needed.
void keepCheap(ZoneView& zone, const RackOptions& options, int limit) {
  if (zone.racks.size() <= static_cast<std::size_t>(limit)) return;
  std::vector<bool> keep(zone.racks.size());
  struct Offer {
    int loss;
    int count;
    Cost cost;
    std::size_t rack;
    auto operator<=>(const Offer&) const = default;
  };
  std::vector<Offer> offers;
  for (std::size_t r = 0; r < zone.racks.size(); ++r) {
    const Profile& profile = zone.racks[r]->profile();
    keep[r] = profile.gain > 0;
    if (keep[r]) continue;
    const std::vector<Option>& mine = options.at(zone.racks[r]);
    const std::size_t width = mine.size() / profile.nodes.size();
    for (std::size_t i = 0; i < mine.size(); ++i) {
      if (!mine[i].possible) continue;
      const int count = profile.nodes[i / width] - static_cast<int>(i % width);
      offers.push_back({static_cast<int>(i / width), count, mine[i].cost, r});
    }
  }
  std::sort(offers.begin(), offers.end());
  int rank = 0;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    const bool same =
        i > 0 && offers[i].loss == offers[i - 1].loss && offers[i].count == offers[i - 1].count;
    rank = same ? rank + 1 : 0;
    if (rank < limit) keep[offers[i].rack] = true;
  }
  dropRacks(zone, keep);
}

}  // namespace

void dropRacks(ZoneView& zone, const std::vector<bool>& keep) {
  std::vector<const Rack*> racks;
  for (std::size_t i = 0; i < zone.racks.size(); ++i) {
    if (keep[i]) racks.push_back(zone.racks[i]);
  }
  zone.racks = std::move(racks);
}

std::optional<std::vector<Candidate>> tightestFit(const Threshold& threshold,
                                                  std::vector<ZoneView> zones, Budget budget,
                                                  int reach, double max_work) {
  // With the largest use of its racks, the budget gives `reach`. So no rack gives fewer nodes than
  // it could by more than what is too much.
  const int width = reach - threshold.count + 1;
  RackOptions options;
  double work = 0;
  for (ZoneView& zone : zones) {
    for (const Rack* rack : zone.racks) {
      work += rack->work(width);
      if (work > max_work) return std::nullopt;
      options[rack] = rack->options(width);
    }
    keepCheap(zone, options, budget.racks);
  }
  const double states = Reach::work(zones, budget);
  if (states * width > max_work) return std::nullopt;
  return Walk(threshold, zones, options, budget, width, max_work).run();
}

}  // namespace dure::plan
