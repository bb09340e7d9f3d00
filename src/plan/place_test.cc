#include "plan/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace dure::plan {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr const char* kGpu = "nvidia.com/gpu";

Node gpuNode(const std::string& name, std::int64_t gpus) {
  Amounts free{.millicores = kUnlimited, .memory = kUnlimited, .pods = kUnlimited};
  free.add(kGpu, gpus);
  return {.name = name, .capacity = free, .free = free};
}

Inventory withFree(const std::vector<std::int64_t>& gpus) {
  Inventory inventory;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    inventory.nodes.push_back(gpuNode("node-" + std::to_string(i + 1), gpus[i]));
  }
  return inventory;
}

Placement placed(const Request& request, const Inventory& inventory) {
  const auto outcome = place(request, inventory);
  if (const auto* shortage = std::get_if<Shortage>(&outcome)) {
    ADD_FAILURE() << shortage->message();
    return {};
  }
  return std::get<Placement>(outcome);
}

Shortage refused(const Request& request, const Inventory& inventory) {
  const auto outcome = place(request, inventory);
  EXPECT_TRUE(std::holds_alternative<Shortage>(outcome));
  const auto* shortage = std::get_if<Shortage>(&outcome);
  return shortage == nullptr ? Shortage{} : *shortage;
}

std::vector<std::pair<std::string, std::int64_t>> gpusOf(const Placement& placement) {
  std::vector<std::pair<std::string, std::int64_t>> list;
  for (const NodeShare& share : placement.shares) list.emplace_back(share.node, share.gpus);
  return list;
}

TEST(PlaceTest, SplitsGpusLargestFirstAndTheChiefTakesTheSmallest) {
  const Placement placement = placed({.split = 6}, withFree({5, 3, 2}));
  EXPECT_THAT(gpusOf(placement), ElementsAre(Pair("node-1", 5), Pair("node-3", 1)));
  EXPECT_THAT(placement.share_of_task, ElementsAre(1, 0));
}

TEST(PlaceTest, AvoidsNodesThatAreInDoubtAsLongAsOthersDo) {
  const auto nodes = [](int split, const std::set<std::string>& avoided) {
    const auto outcome = placeElsewhere({.split = split}, withFree({5, 3, 2}), avoided);
    const auto* placement = std::get_if<Placement>(&outcome);
    return placement ? gpusOf(*placement) : std::vector<std::pair<std::string, std::int64_t>>{};
  };
  EXPECT_THAT(nodes(2, {}), ElementsAre(Pair("node-3", 2)));
  EXPECT_THAT(nodes(2, {"node-3"}), ElementsAre(Pair("node-2", 2)));
  EXPECT_THAT(nodes(5, {"node-1"}), ElementsAre(Pair("node-2", 3), Pair("node-3", 2)));
  // Better there than nowhere.
  EXPECT_THAT(nodes(8, {"node-1"}), ElementsAre(Pair("node-1", 5), Pair("node-2", 3)));
  EXPECT_THAT(nodes(11, {"node-1"}), ElementsAre());
}

TEST(PlaceTest, EqualSharesOnTheFewestNodes) {
  const Inventory inventory = withFree({5, 3, 2});
  EXPECT_THAT(gpusOf(placed({.split = 6, .even = true}, inventory)),
              ElementsAre(Pair("node-2", 3), Pair("node-1", 3)));
  EXPECT_THAT(gpusOf(placed({.split = 5, .even = true}, inventory)),
              ElementsAre(Pair("node-1", 5)));
  const Shortage shortage = refused({.split = 7, .even = true}, inventory);
  EXPECT_EQ(shortage.largest, 6);
  EXPECT_EQ(shortage.message(),
            "7 GPUs in equal shares wanted, 10 free: node-1 5, node-2 3, node-3 2; enough in sum, "
            "but in pieces that do not fit; the largest that fits: 6");
}

TEST(PlaceTest, TakesTheTightestNode) {
  EXPECT_THAT(gpusOf(placed({.split = 3}, withFree({8, 4, 3, 5}))), ElementsAre(Pair("node-3", 3)));
}

TEST(PlaceTest, EqualNodesAreTakenByName) {
  std::vector<std::int64_t> twelve(12, 4);
  EXPECT_THAT(gpusOf(placed({.split = 8}, withFree(twelve))),
              ElementsAre(Pair("node-1", 4), Pair("node-2", 4)));
}

TEST(PlaceTest, PrefersOneRack) {
  Inventory inventory = withFree({4, 4, 4, 4});
  inventory.nodes[0].rack = "a";
  inventory.nodes[1].rack = "b";
  inventory.nodes[2].rack = "c";
  inventory.nodes[3].rack = "b";
  EXPECT_THAT(gpusOf(placed({.split = 8}, inventory)),
              ElementsAre(Pair("node-2", 4), Pair("node-4", 4)));
}

TEST(PlaceTest, TasksNeedAllTheirResources) {
  Inventory inventory = withFree({8, 8});
  inventory.nodes[0].free.millicores = 3999;
  inventory.nodes[1].free.memory = 5 << 20;
  const Request request{.millicores = 1000, .memory = 1 << 20, .gpus = 1, .fewest = 8, .most = 8};
  const Placement placement = placed(request, inventory);
  EXPECT_THAT(gpusOf(placement), ElementsAre(Pair("node-2", 5), Pair("node-1", 3)));
  EXPECT_THAT(placement.share_of_task, ElementsAre(1, 1, 1, 0, 0, 0, 0, 0));
}

TEST(PlaceTest, ElasticGangsTakeAsManyAsFit) {
  const Inventory inventory = withFree({2, 1});
  EXPECT_EQ(placed({.gpus = 1, .fewest = 2, .most = 8}, inventory).share_of_task.size(), 3u);
  const Shortage shortage = refused({.gpus = 1, .fewest = 4, .most = 8}, inventory);
  EXPECT_EQ(shortage.message(),
            "4 tasks of 1 GPU wanted, 3 fit: node-1 2, node-2 1; missing: 1 GPU; the largest that "
            "fits: 3");
}

TEST(PlaceTest, SaysWhatIsMissing) {
  EXPECT_EQ(refused({.split = 6}, withFree({3, 1})).message(),
            "6 GPUs wanted, 4 free: node-1 3, node-2 1; missing: 2 GPUs; the largest that fits: 4");
  EXPECT_EQ(refused({.split = 6}, Inventory{}).message(),
            "6 GPUs wanted, none free; missing: 6 GPUs; the largest that fits: 0");
  Inventory inventory = withFree({3, 8, 8});
  inventory.nodes[1].ready = false;
  inventory.nodes[2].taints = {{"infra", "", "NoSchedule"}};
  EXPECT_EQ(refused({.split = 6}, inventory).message(),
            "6 GPUs wanted, 3 free: node-1 3; missing: 3 GPUs; nodes not used: not ready 1, taint "
            "infra:NoSchedule 1; the largest that fits: 3");
}

TEST(PlaceTest, SaysWhoIsWaitedFor) {
  Inventory inventory = withFree({2, 1});
  inventory.nodes[0].held = {{"a", kGpu, 2}, {"b", kGpu, 2}};
  inventory.nodes[1].held = {{"a", kGpu, 1}, {"c", "other.com/thing", 9}};
  EXPECT_EQ(refused({.split = 4}, inventory).waiting(),
            "waiting for 4 GPUs: node-1 has 2 free, node-2 1; held by job a (3), job b (2)");
}

TEST(PlaceTest, SaysWhenNoNodeWillEverDo) {
  Inventory inventory = withFree({2, 1});
  inventory.nodes[1].ready = false;
  Request request{.split = 2};
  request.nodes.selector = {{"disk", "ssd"}};
  EXPECT_EQ(
      refused(request, inventory).never,
      "nodes: no node of the cluster has the labels that the job asks for (no label disk on 2 "
      "nodes)");
  inventory.nodes[1].labels["disk"] = "ssd";
  EXPECT_EQ(refused(request, inventory).never, "") << "it may be ready again";
  EXPECT_EQ(refused(request, Inventory{}).never, "") << "there may be nodes one day";
}

TEST(PlaceTest, AJobAsksForItsWholeGang) {
  spec::Job job;
  job.workers = {2, 4};
  job.roles = {.chief = 1, .ps = 2, .evaluator = 1};
  job.resources = {.cpus = 0.5, .memory = 1 << 20, .gpus = 2};
  const Request request = makeRequest(job);
  EXPECT_EQ(request.fewest, 6);
  EXPECT_EQ(request.most, 8);
  EXPECT_EQ(request.millicores, 500);
}

struct RefusalCase {
  spec::NodeChoice nodes;
  std::string why;
};

TEST(PlaceTest, NodesAreChosenByLabelsAndTaints) {
  Node node = gpuNode("a", 1);
  node.labels = {{"disk", "ssd"}, {"generation", "7"}};
  node.taints = {{"gpu", "yes", "NoSchedule"}, {"soft", "", "PreferNoSchedule"}};
  const spec::Toleration gpu{.key = "gpu", .value = "yes"};
  const auto with = [&](spec::NodeRule rule) {
    return spec::NodeChoice{.affinity = {std::move(rule)}, .tolerations = {gpu}};
  };
  const std::string disk = "label disk is not as nodes.affinity wants it";
  const std::string generation = "label generation is not as nodes.affinity wants it";
  const std::string taint = "taint gpu=yes:NoSchedule";
  const std::vector<RefusalCase> cases{
      {{}, taint},
      {{.tolerations = {gpu}}, ""},
      {{.tolerations = {{.op = spec::TolerationTest::kExists}}}, ""},
      {{.tolerations = {{.key = "gpu", .value = "no"}}}, taint},
      {{.tolerations = {{.key = "gpu", .value = "yes", .effect = "NoExecute"}}}, taint},
      {{.selector = {{"disk", "ssd"}}, .tolerations = {gpu}}, ""},
      {{.selector = {{"disk", "hdd"}}, .tolerations = {gpu}}, "label disk is not hdd"},
      {{.selector = {{"pool", "x"}}, .tolerations = {gpu}}, "no label pool"},
      {with({"disk", spec::LabelTest::kIn, {"nvme", "ssd"}}), ""},
      {with({"disk", spec::LabelTest::kNotIn, {"nvme", "ssd"}}), disk},
      {with({"pool", spec::LabelTest::kNotIn, {"x"}}), ""},
      {with({"disk", spec::LabelTest::kExists, {}}), ""},
      {with({"disk", spec::LabelTest::kDoesNotExist, {}}), disk},
      {with({"generation", spec::LabelTest::kGt, {"6"}}), ""},
      {with({"generation", spec::LabelTest::kLt, {"7"}}), generation},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(refusal(cases[i].nodes, node), cases[i].why) << "case " << i;
  }
}

// Whatever was placed is there to be had, and is what was asked for.
TEST(PlaceTest, WhatIsPlacedFits) {
  std::mt19937 random(5);
  const auto draw = [&](int from, int to) {
    return std::uniform_int_distribution<int>(from, to)(random);
  };
  int fitted = 0;
  for (int round = 0; round < 5000; ++round) {
    Inventory inventory;
    std::map<std::string, const Node*> by_name;
    for (int i = draw(0, 12); i > 0; --i) {
      Node node = gpuNode("n" + std::to_string(i), draw(-1, 8));
      node.free.millicores = draw(0, 8000);
      node.free.pods = draw(0, 6);
      node.ready = draw(0, 9) > 0;
      node.zone = std::to_string(draw(0, 1));
      node.rack = std::to_string(draw(0, 2));
      inventory.nodes.push_back(node);
    }
    for (const Node& node : inventory.nodes) by_name[node.name] = &node;
    Request request{.millicores = draw(0, 2) * 500};
    if (draw(0, 1) == 0) {
      request.split = draw(1, 24);
      request.even = draw(0, 1) == 0;
    } else {
      request.gpus = draw(0, 3);
      request.fewest = draw(1, 6);
      request.most = request.fewest + draw(0, 5);
    }
    const auto outcome = place(request, inventory);
    if (const auto* shortage = std::get_if<Shortage>(&outcome)) {
      ASSERT_LT(shortage->largest, shortage->wanted) << shortage->message();
      // What is said to fit does.
      Request less = request;
      (request.split > 0 ? less.split : less.fewest) = static_cast<int>(shortage->largest);
      if (shortage->largest > 0) placed(less, inventory);
      continue;
    }
    ++fitted;
    const auto& placement = std::get<Placement>(outcome);
    std::int64_t gpus = 0;
    int tasks = 0, before = 1 << 30;
    for (const NodeShare& share : placement.shares) {
      const Node& node = *by_name.at(share.node);
      ASSERT_TRUE(node.ready);
      ASSERT_GE(share.tasks, 1);
      ASSERT_LE(share.gpus, std::max<std::int64_t>(0, node.free.count(kGpu)));
      ASSERT_LE(share.tasks * request.millicores, node.free.millicores);
      ASSERT_LE(share.tasks, node.free.pods);
      const int units = request.split > 0 ? static_cast<int>(share.gpus) : share.tasks;
      ASSERT_LE(units, before);
      if (request.even && before < 1 << 30) {
        ASSERT_EQ(units, before);
      }
      before = units;
      gpus += share.gpus;
      tasks += share.tasks;
    }
    ASSERT_EQ(static_cast<std::size_t>(tasks), placement.share_of_task.size());
    if (request.split > 0) {
      ASSERT_EQ(gpus, request.split);
    } else {
      ASSERT_EQ(gpus, tasks * request.gpus);
      ASSERT_GE(tasks, request.fewest);
      ASSERT_LE(tasks, request.most);
    }
  }
  EXPECT_GT(fitted, 1000);
}

TEST(PlaceTest, NamesWithNumbersAreInTheirOrder) {
  const std::vector<std::string> order{"",     "a",     "a1", "a2",     "a02",     "a10",
                                       "a10b", "a10b3", "b",  "node-9", "node-10", "node-10a"};
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::size_t j = 0; j < order.size(); ++j) {
      if (order[i] == "a2" || order[j] == "a2") continue;  // equal but for a zero: by letters
      EXPECT_EQ(nameBefore(order[i], order[j]), i < j) << order[i] << " " << order[j];
    }
  }
  EXPECT_NE(nameBefore("a2", "a02"), nameBefore("a02", "a2"));
}

}  // namespace
}  // namespace dure::plan
