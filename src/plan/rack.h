#pragma once

#include <vector>

#include "plan/candidate.h"

namespace dure::plan {

// How many nodes a group of them (a rack, a zone) can contribute at most.
struct Profile {
  int gain = 0;            // what is lost if the group is not used; above `spare` if it must be
  std::vector<int> nodes;  // by the loss allowed, 0 … spare
};

// One way to use a rack costs this; `possible` is false if there is no such way.
struct Option {
  Cost cost;
  bool possible = false;
};

// The nodes of one rack that may be part of a choice, sorted by how far they are from the level.
class Rack {
 public:
  // `candidates` are all of those in the rack whose capacity is level - spare or more.
  Rack(const Threshold& threshold, std::vector<Candidate> candidates);

  const Profile& profile() const { return profile_; }
  bool mustBeUsed() const { return profile_.gain > threshold_.spare; }
  // Nodes of the level or above, of which none is lost.
  int full() const { return above_ + static_cast<int>(level_.size()); }
  // How many nodes there are with the capacity level - d, for d = 1 … spare, as far as they count.
  std::vector<int> below() const;
  // All of its nodes that can be part of a choice.
  std::vector<Candidate> nodes() const;
  // About how many steps options() takes.
  double work(int width) const;

  // The cheapest ways to use nodes[loss] - i of its nodes at exactly this loss, at
  // [loss * width + i], for all losses and i < width.
  std::vector<Option> options(int width) const;
  // The nodes of the cheapest way to use `count` at exactly this loss, of which there is one.
  std::vector<Candidate> pick(int count, int loss) const;

 private:
  // Nodes of one capacity other than the level. Below it, the first few may be taken; above it the
  // last few may be left out.
  struct Step {
    int distance = 0;
    bool below = false;
    std::vector<Candidate> nodes;
    std::vector<Cost> cost;  // of taking, or leaving out, so many of them
  };
  struct Edges;  // ways to take nodes below the level and to leave out nodes above it

  void addStep(int capacity, std::vector<Candidate> nodes);
  void makeProfile();
  Edges edges(bool traced) const;

  Threshold threshold_;
  std::vector<Candidate> level_;  // as many as can be needed
  std::vector<Cost> level_cost_;  // of the first so many of them
  std::vector<Candidate> fixed_;  // so large that they are part of every choice
  std::vector<Step> steps_;       // the nearest first
  int above_ = 0;
  int most_below_ = 0;  // taken at once
  int most_above_ = 0;  // left out at once
  Cost base_;           // of all nodes above the level
  Profile profile_;
};

}  // namespace dure::plan
