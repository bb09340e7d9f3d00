#include "backend/kubernetes/manifest_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/kubernetes/test_jobs.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;

TEST(ManifestPartsTest, WordsComeOutAsTheyWent) {
  // What Kubernetes makes of a text: $$ is $, $(NAME) a variable, any other $ itself.
  const auto read = [](const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      EXPECT_FALSE(text[i] == '$' && text.substr(i + 1, 1) == "(") << text;
      if (text[i] == '$' && text.substr(i + 1, 1) == "$") ++i;
      out += text[i];
    }
    return out;
  };
  for (const std::string text : {"a", "$A", "$(A)", "$$", "$$(A)", "$$$", "${A}", "$", "a$", "$ (",
                                 "kill $$; echo $(date) $?"}) {
    EXPECT_EQ(read(literalText(text)), text);
  }
  EXPECT_EQ(literalText("echo $A"), "echo $A");
  EXPECT_EQ(wordsOf({"sh", "-c", "$(A)"}), json({"sh", "-c", "$$(A)"}));
  const json variables = {{{"name", "A"}, {"value", "1"}}, {{"name", "B"}, {"value", "$$(A)"}}};
  EXPECT_EQ(variablesOf({{"A", "1"}, {"B", "$(A)"}}), variables);
}

TEST(ManifestPartsTest, ProgramsAreRestrictedUnlessTheyAreRoot) {
  spec::Job job;
  EXPECT_EQ(podSecurity(job), json::parse(R"({"runAsNonRoot": true, "runAsUser": 1000,
      "runAsGroup": 1000, "fsGroup": 1000, "seccompProfile": {"type": "RuntimeDefault"}})"));
  EXPECT_EQ(containerSecurity(job), json::parse(R"({"allowPrivilegeEscalation": false,
      "capabilities": {"drop": ["ALL"]}})"));
  job.program.user = 0;
  EXPECT_EQ(podSecurity(job), json::parse(R"({"runAsUser": 0})"));
  EXPECT_TRUE(containerSecurity(job).empty());
}

TEST(ManifestPartsTest, VolumesOfTheChiefAreNotTheOthers) {
  spec::Job job;
  job.volumes = {{.path = "/data", .host = "/srv", .read_only = true},
                 {.path = "out", .claim = "models", .tasks = spec::VolumeTasks::kChief}};
  job.checkpoint = {.path = "/ckpt", .claim = "ckpt"};
  EXPECT_EQ(volumesOf(job, false),
            json::parse(R"([{"name": "volume-0", "hostPath": {"path": "/srv"}}])"));
  EXPECT_EQ(mountsOf(job, "/pod", false), json::parse(R"([{"name": "volume-0",
      "mountPath": "/data", "readOnly": true}])"));
  EXPECT_EQ(volumesOf(job, true), json::parse(R"([
      {"name": "volume-0", "hostPath": {"path": "/srv"}},
      {"name": "volume-1", "persistentVolumeClaim": {"claimName": "models"}},
      {"name": "volume-2", "persistentVolumeClaim": {"claimName": "ckpt"}}])"));
  EXPECT_EQ(mountsOf(job, "/pod", true)[1]["mountPath"], "/pod/out");
  EXPECT_EQ(mountsOf(job, "/pod", true)[2]["mountPath"], "/ckpt");
}

TEST(ManifestPartsTest, ResourcesAreQuantities) {
  spec::Job job;
  EXPECT_TRUE(resourcesOf(job, 0).empty());
  job.resources = {.cpus = 0.5, .memory = std::int64_t{2} << 30};
  job.nodes.gpu = "amd.com/gpu";
  EXPECT_EQ(resourcesOf(job, 3), json::parse(R"({"requests": {"cpu": "500m", "memory": "2Gi"},
      "limits": {"memory": "2Gi", "amd.com/gpu": "3"}})"));
  job.resources.limits = {.cpus = 1.5, .memory = std::int64_t{4} << 30};
  EXPECT_EQ(resourcesOf(job, 0), json::parse(R"({"requests": {"cpu": "500m", "memory": "2Gi"},
      "limits": {"cpu": "1500m", "memory": "4Gi"}})"));
  job.resources = {.cpus = 2};
  EXPECT_EQ(resourcesOf(job, 0), json::parse(R"({"requests": {"cpu": "2"}})"));
}

TEST(ManifestPartsTest, PlacesPodsAsTheJobSays) {
  spec::Job job;
  EXPECT_TRUE(schedulingOf(job).empty());
  job.nodes.selector = {{"disk", "ssd"}};
  job.nodes.affinity = {{.key = "a", .op = spec::LabelTest::kGt, .values = {"5"}},
                        {.key = "b", .op = spec::LabelTest::kExists}};
  job.nodes.tolerations = {{.op = spec::TolerationTest::kExists},
                           {.key = "k", .value = "v", .effect = "NoExecute"}};
  EXPECT_EQ(schedulingOf(job), json::parse(R"({
      "nodeSelector": {"disk": "ssd"},
      "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [
          {"key": "a", "operator": "Gt", "values": ["5"]}, {"key": "b", "operator": "Exists"}]}]}}},
      "tolerations": [{"operator": "Exists"},
        {"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute"}]})"));
}

TEST(ManifestPartsTest, ClaimsHaveASizeAndAWayOfAccess) {
  EXPECT_EQ(claimOf("c", "ReadWriteOnce", std::int64_t{1} << 30, "fast"), json::parse(R"({
      "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
      "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
               "resources": {"requests": {"storage": "1Gi"}}}})"));
}

TEST(ManifestPartsTest, AClaimIsOneVolumeHoweverOftenItIsMounted) {
  const spec::Job job = jobOf(
      "program: {command: [a]}\nvolumes: [{path: /a, claim: c, sub_path: x, tasks: chief}, "
      "{path: /b, claim: c, sub_path: y}, {path: /d, host: /h}, {path: /e, host: /h}]\n");
  for (const bool chief : {true, false}) {
    const auto volumes = volumesOf(job, chief);
    ASSERT_EQ(volumes.size(), 3u) << chief;
    EXPECT_EQ(volumes[0]["persistentVolumeClaim"]["claimName"], "c");
    const auto mounts = mountsOf(job, "/work", chief);
    ASSERT_EQ(mounts.size(), chief ? 4u : 3u);
    for (std::size_t i = 0; i + 2 < mounts.size(); ++i) {
      EXPECT_EQ(mounts[i]["name"], volumes[0]["name"]);
    }
    EXPECT_NE(mounts.back()["name"], mounts[mounts.size() - 2]["name"]);
  }
}

}  // namespace
}  // namespace dure::kubernetes
