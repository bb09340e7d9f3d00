#include "plan/choose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <set>
#include <tuple>

namespace dure::plan {
namespace {

// How good a choice is, in the order of the wishes; the least is the best.
struct Worth {
  std::size_t nodes = 0;
  std::size_t zones = 0;
  std::size_t racks = 0;
  Cost cost;
  auto operator<=>(const Worth&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Worth& worth) {
  return out << worth.nodes << " nodes, " << worth.zones << " zones, " << worth.racks
             << " racks, cost " << worth.cost.sum << " and " << worth.cost.squares;
}

Worth worthOf(const std::vector<Candidate>& nodes) {
  std::set<std::string> zones;
  std::set<std::pair<std::string, std::string>> racks;
  Cost cost;
  for (const Candidate& candidate : nodes) {
    zones.insert(candidate.node->zone);
    racks.insert({candidate.node->zone, candidate.node->rack});
    cost = cost + Cost::of(candidate.weight);
  }
  return {nodes.size(), zones.size(), racks.size(), cost};
}

int unitsOf(const std::vector<Candidate>& nodes) {
  int units = 0;
  for (const Candidate& candidate : nodes) units += candidate.capacity;
  return units;
}

// Looks at every set of nodes.
std::optional<Worth> bestOfAll(const std::vector<Candidate>& candidates, int wanted) {
  std::optional<Worth> best;
  for (unsigned set = 1; set < (1u << candidates.size()); ++set) {
    std::vector<Candidate> nodes;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if ((set >> i & 1u) != 0) nodes.push_back(candidates[i]);
    }
    if (unitsOf(nodes) < wanted) continue;
    const Worth worth = worthOf(nodes);
    if (!best || worth < *best) best = worth;
  }
  return best;
}

struct Field {
  std::vector<Node> nodes;
  std::vector<Candidate> candidates;
  int wanted = 1;
};

int draw(std::mt19937& random, int from, int to) {
  return std::uniform_int_distribution<int>(from, to)(random);
}

// Small enough to be searched through, and crooked enough to be hard.
Field drawField(std::mt19937& random, int most_nodes) {
  Field field;
  const int count = draw(random, 1, most_nodes), zones = draw(random, 1, 4);
  const int racks = draw(random, 1, 5), largest = draw(random, 1, 9);
  const bool weighed_by_capacity = draw(random, 0, 1) == 0;
  field.wanted = draw(random, 1, std::max(1, count * largest / 2));
  for (int i = 0; i < count; ++i) {
    field.nodes.push_back({.name = "n" + std::to_string(i),
                           .zone = "z" + std::to_string(draw(random, 1, zones)),
                           .rack = "r" + std::to_string(draw(random, 1, racks))});
  }
  for (const Node& node : field.nodes) {
    const int units = draw(random, 1, largest);
    field.candidates.push_back({.node = &node,
                                .capacity = std::min(units, field.wanted),
                                .weight = weighed_by_capacity ? units : draw(random, 0, 9)});
  }
  return field;
}

std::vector<std::string> names(const std::vector<Candidate>& nodes) {
  std::vector<std::string> list;
  for (const Candidate& candidate : nodes) list.push_back(candidate.node->name);
  return list;
}

TEST(ChooseTest, IsAsGoodAsTheBestOfAllSets) {
  std::mt19937 random(1);
  int fitted = 0;
  for (int round = 0; round < 20'000; ++round) {
    const Field field = drawField(random, round < 19'000 ? 9 : 13);
    const auto best = bestOfAll(field.candidates, field.wanted);
    const auto choice = chooseNodes(field.candidates, field.wanted);
    ASSERT_EQ(choice.has_value(), best.has_value()) << "round " << round;
    if (!choice) continue;
    ++fitted;
    ASSERT_GE(unitsOf(choice->nodes), field.wanted) << "round " << round;
    ASSERT_EQ(worthOf(choice->nodes), *best) << "round " << round;
    ASSERT_TRUE(choice->fewest_racks && choice->tightest);
    ASSERT_EQ(static_cast<std::size_t>(choice->zones), best->zones);
    ASSERT_EQ(static_cast<std::size_t>(choice->racks), best->racks);
  }
  EXPECT_GT(fitted, 10'000);
}

TEST(ChooseTest, TheOrderOfTheCandidatesMakesNoDifference) {
  std::mt19937 random(2);
  for (int round = 0; round < 3000; ++round) {
    Field field = drawField(random, 20);
    const auto first = chooseNodes(field.candidates, field.wanted);
    std::shuffle(field.candidates.begin(), field.candidates.end(), random);
    const auto second = chooseNodes(field.candidates, field.wanted);
    ASSERT_EQ(first.has_value(), second.has_value());
    if (first) {
      ASSERT_EQ(names(first->nodes), names(second->nodes)) << "round " << round;
    }
  }
}

TEST(ChooseTest, OneMoreNodeNeverMakesItWorse) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    Field field = drawField(random, 20);
    const auto all = chooseNodes(field.candidates, field.wanted);
    field.candidates.pop_back();
    const auto fewer = chooseNodes(field.candidates, field.wanted);
    if (!fewer) continue;
    ASSERT_TRUE(all.has_value());
    ASSERT_LE(worthOf(all->nodes), worthOf(fewer->nodes)) << "round " << round;
  }
}

// What is chosen where the search gives up at once: not the best, but a choice.
TEST(ChooseTest, WithoutTimeItStillTakesTheFewestNodesAndSaysWhatItDoesNotKnow) {
  std::mt19937 random(4);
  int best_anyway = 0, rounds = 0;
  for (int round = 0; round < 3000; ++round) {
    const Field field = drawField(random, 16);
    const auto exact = chooseNodes(field.candidates, field.wanted);
    const auto hasty = chooseNodes(field.candidates, field.wanted, 0);
    ASSERT_EQ(hasty.has_value(), exact.has_value());
    if (!hasty) continue;
    ASSERT_EQ(hasty->nodes.size(), exact->nodes.size());
    ASSERT_GE(unitsOf(hasty->nodes), field.wanted);
    ASSERT_FALSE(hasty->tightest);
    const std::vector<std::string> list = names(hasty->nodes);
    ASSERT_EQ(std::set<std::string>(list.begin(), list.end()).size(), list.size());
    ++rounds;
    best_anyway += hasty->zones == exact->zones && hasty->racks == exact->racks ? 1 : 0;
  }
  EXPECT_GT(best_anyway * 10, rounds * 5);
}

TEST(ChooseTest, LeavesTheLargeHolesWhereSumsAreEqual) {
  std::vector<Node> nodes;
  for (const char* name : {"a", "b", "c", "d"}) nodes.push_back({.name = name});
  const std::vector<Candidate> candidates{
      {&nodes[0], 5, 5}, {&nodes[1], 4, 4}, {&nodes[2], 3, 3}, {&nodes[3], 2, 2}};
  EXPECT_THAT(names(chooseNodes(candidates, 7)->nodes), testing::ElementsAre("b", "c"));
}

}  // namespace
}  // namespace dure::plan
