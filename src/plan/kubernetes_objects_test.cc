#include "plan/kubernetes_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan/place.h"

namespace dure::plan {
namespace {

const TimePoint kNow = parseTime("2026-11-17T12:00:00.000Z");

constexpr std::string_view kCluster = R"({"kind": "List", "items": [
  {"kind": "Node", "metadata": {"name": "a", "labels": {"topology.kubernetes.io/zone": "z1",
      "topology.kubernetes.io/rack": "r7", "disk": "ssd"}},
   "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
   "status": {"allocatable": {"cpu": "7910m", "memory": "32Gi", "pods": "110",
                              "nvidia.com/gpu": "8", "ephemeral-storage": "10Gi"},
              "conditions": [{"type": "Ready", "status": "True"}]}},
  {"kind": "Node", "metadata": {"name": "b"}, "spec": {"unschedulable": true},
   "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "Unknown"}]}},
  {"kind": "Pod", "metadata": {"name": "p1", "labels": {"dure/job": "earlier"}},
   "spec": {"nodeName": "a",
     "initContainers": [{"resources": {"requests": {"cpu": "3"}}}],
     "containers": [{"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
                    {"resources": {"requests": {"cpu": "1", "nvidia.com/gpu": "3"}}}]},
   "status": {"phase": "Running"}},
  {"kind": "Pod", "metadata": {"name": "p2"}, "spec": {"nodeName": "a",
     "containers": [{"resources": {"requests": {"nvidia.com/gpu": "5"}}}]},
   "status": {"phase": "Succeeded"}},
  {"kind": "Pod", "metadata": {"name": "p3"},
   "spec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]},
   "status": {"phase": "Pending"}}
]})";

TEST(KubernetesObjectsTest, NodesAreWhatTheyHaveLessWhatUnfinishedPodsAskFor) {
  const auto inventory = parseInventory(kCluster, spec::NodeChoice{}, kNow);
  ASSERT_TRUE(inventory) << inventory.error().message();
  ASSERT_EQ(inventory->nodes.size(), 2u);
  const Node& a = inventory->nodes[0];
  EXPECT_EQ(a.zone, "z1");
  EXPECT_EQ(a.rack, "r7");
  EXPECT_TRUE(a.ready && a.schedulable);
  EXPECT_EQ(a.free.millicores, 4910);
  EXPECT_EQ(a.free.memory, std::int64_t{31} << 30);
  EXPECT_EQ(a.free.pods, 109);
  EXPECT_EQ(a.free.count("nvidia.com/gpu"), 5);
  EXPECT_EQ(a.capacity.count("nvidia.com/gpu"), 8);
  ASSERT_EQ(a.held.size(), 1u);
  EXPECT_EQ(a.held[0].job, "earlier");
  EXPECT_FALSE(inventory->nodes[1].ready);
  EXPECT_FALSE(inventory->nodes[1].schedulable);
}

TEST(KubernetesObjectsTest, SaysWhoHasTheGpus) {
  const auto inventory = parseInventory(kCluster, spec::NodeChoice{}, kNow);
  Request request{.split = 6};
  request.nodes.tolerations = {{.key = "gpu", .op = spec::TolerationTest::kExists}};
  const auto outcome = place(request, *inventory);
  ASSERT_TRUE(std::holds_alternative<Shortage>(outcome));
  EXPECT_EQ(std::get<Shortage>(outcome).waiting(),
            "waiting for 6 GPUs: a has 5 free; held by job earlier (3)");
}

TEST(KubernetesObjectsTest, RefusesWhatIsNoList) {
  for (const std::string_view text : {"", "[]", "{}", "{\"items\": 3}", "kind: List"}) {
    EXPECT_FALSE(parseInventory(text, spec::NodeChoice{}, kNow)) << text;
  }
  const auto broken = parseInventory(
      R"({"items": [{"kind": "Node", "metadata": {"name": "a"},
          "status": {"allocatable": {"cpu": "many"}}}]})",
      spec::NodeChoice{}, kNow);
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().message(), "node a: no quantity of cpu: \"many\"");
}

TEST(KubernetesObjectsTest, ReadsQuantities) {
  EXPECT_EQ(parseMilli("500m"), 500);
  EXPECT_EQ(parseMilli("2"), 2000);
  EXPECT_EQ(parseMilli("0.5"), 500);
  EXPECT_EQ(parseMilli("2Ki"), 2'048'000);
  EXPECT_EQ(parseMilli("3k"), 3'000'000);
  EXPECT_EQ(parseMilli("1e3"), 1'000'000);
  for (const std::string_view text : {"10P", "9E", "1e30", "1e999", "8Ei"}) {
    EXPECT_EQ(parseMilli(text), kUnlimited) << text << " is more than there is anywhere";
  }
  EXPECT_EQ(parseMilli("1e-999"), 0);
  EXPECT_EQ(parseMilli("0E"), 0);
  for (const std::string_view text : {"", "x", "-1", "1x", "1mi", "1Kii", "nan"}) {
    EXPECT_FALSE(parseMilli(text)) << text;
  }
}

// Two nodes with 8 GPUs each, and a pod of somebody's.
Inventory withPod(const std::string& metadata, const std::string& spec,
                  const std::string& phase = "Pending") {
  const auto node = [](const std::string& name) {
    return R"({"kind": "Node", "metadata": {"name": ")" + name + R"("}, "status": {
        "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "8"},
        "conditions": [{"type": "Ready", "status": "True"}]}},)";
  };
  const auto inventory = parseInventory(
      R"({"items": [)" + node("a") + node("b") + R"({"kind": "Pod", "metadata": {"name": "p", )" +
          metadata + R"(}, "spec": {)" + spec + R"(}, "status": {"phase": ")" + phase + R"("}}]})",
      spec::NodeChoice{}, kNow);
  EXPECT_TRUE(inventory) << inventory.error().message();
  return inventory ? *inventory : Inventory{};
}

constexpr const char* kOurs = R"("app.kubernetes.io/managed-by": "dure", "dure/job": "j")";
const std::string kPlannedForA = R"("annotations": {"dure/node": "a"})";
const std::string kAllGpus =
    R"("containers": [{"resources": {"requests": {"nvidia.com/gpu": "8"}}}])";

TEST(KubernetesObjectsTest, APlanIsBelievedOfOurOwnPodsForAWhile) {
  const auto freeOnA = [](const std::string& labels, const std::string& rest,
                          const std::string& phase = "Pending") {
    return withPod(R"("labels": {)" + labels + "}, " + kPlannedForA + rest, kAllGpus, phase)
        .nodes[0]
        .free.count("nvidia.com/gpu");
  };
  const std::string young = R"(, "creationTimestamp": "2026-11-17T11:59:00Z")";
  EXPECT_EQ(freeOnA(kOurs, young), 0);
  EXPECT_EQ(freeOnA(kOurs, young, ""), 0) << "it has no phase before anybody has seen it";
  EXPECT_EQ(freeOnA("", young), 8) << "anybody can write an annotation";
  EXPECT_EQ(freeOnA(R"("dure/job": "j")", young), 8);
  EXPECT_EQ(freeOnA(kOurs, R"(, "creationTimestamp": "2026-11-17T11:50:00Z")"), 8)
      << "nobody waits for so long";
  EXPECT_EQ(freeOnA(kOurs, young + R"(, "deletionTimestamp": "2026-11-17T12:00:00Z")"), 8);
  EXPECT_EQ(freeOnA(kOurs, young, "Running"), 8) << "it would have a node";
}

TEST(KubernetesObjectsTest, AStrangePodCostsItsNodeAndNoOther) {
  for (const std::string memory :
       {R"("10P")", R"("1e400")", R"("lots")", "-1", "{}", "null", "[]"}) {
    const Inventory inventory =
        withPod("\"labels\": {}", R"("nodeName": "a", "containers": [{"resources": {"requests": {
            "memory": )" + memory + R"(, "cpu": "1"}}}])",
                "Running");
    ASSERT_EQ(inventory.nodes.size(), 2u) << memory;
    EXPECT_LE(inventory.nodes[0].free.memory, 0) << memory;
    EXPECT_EQ(inventory.nodes[1].free.memory, std::int64_t{32} << 30) << memory;
    EXPECT_TRUE(std::holds_alternative<Placement>(
        place({.memory = std::int64_t{1} << 30, .split = 8}, inventory)))
        << memory;
  }
}

}  // namespace
}  // namespace dure::plan
