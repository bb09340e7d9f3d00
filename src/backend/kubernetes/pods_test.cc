#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "backend/kubernetes/objects.h"
#include "backend/kubernetes/pod_view.h"
#include "backend/kubernetes/record.h"
#include "backend/kubernetes/test_jobs.h"
#include "gang/layout.h"
#include "spec/load.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

const KubeImages kImages{.dure = "dure:1", .trainer = "trainer:1"};

json podFor(const spec::Job& job, const gang::Layout& layout, const std::string& task,
            const std::string& node = "") {
  const gang::Roster roster = gang::makeRoster(job, layout);
  const gang::JoinOptions join{.run = "train.2",
                               .generation = 3,
                               .coordinator = "10.0.0.1:999",
                               .secret = "do not tell",
                               .encrypted = true};
  return podOf({.run = kRun,
                .job = job,
                .images = kImages,
                .task = *roster.find(task),
                .join = join,
                .node = node,
                .owner = {{"uid", "1"}}});
}

TEST(Pods, APodIsBoundToItsNodeAndTheJobsOwnWishesStay) {
  const spec::Job job = jobOf(
      "name: train\nworkers: 2\nprogram: {command: [run], image: mine:1}\n"
      "nodes: {affinity: [{key: disk, values: [ssd]}], selector: {a: b}}\n");
  const json pod = podFor(job, {2}, "worker-1", "node-7");
  EXPECT_EQ(pod["metadata"]["name"], "train-2-worker-1-g3");
  EXPECT_EQ(pod["metadata"]["annotations"][annotations::kNode], "node-7");
  const json terms = pod["spec"]["affinity"]["nodeAffinity"]
                        ["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
  ASSERT_EQ(terms.size(), 1U);
  EXPECT_EQ(terms[0]["matchFields"][0]["values"], json::array({"node-7"}));
  EXPECT_EQ(terms[0]["matchExpressions"][0]["key"], "disk");
  EXPECT_EQ(pod["spec"]["nodeSelector"], (json{{"a", "b"}}));
}

TEST(Pods, TheSecretIsNowhereInThePod) {
  const spec::Job job = jobOf("name: train\nprogram: {command: [run], image: mine:1}\n");
  const json pod = podFor(job, {1}, "worker-0");
  EXPECT_THAT(pod.dump(), testing::Not(HasSubstr("do not tell")));
  EXPECT_THAT(pod.dump(), HasSubstr("secretKeyRef"));
}

// The level of the log in a container's variables, or nothing.
std::string logLevelIn(const json& pod_spec) {
  for (const json& variable : pod_spec["containers"][0]["env"]) {
    if (variable["name"] == "DURE_LOG") return variable["value"];
  }
  return "";
}

TEST(Pods, ManagerAndTasksLogAsTheirMakerDoes) {
  const spec::Job job = jobOf("name: train\nprogram: {command: [run], image: mine:1}\n");
  const auto levels = [&] {
    return logLevelIn(podFor(job, {1}, "worker-0")["spec"]) + "," +
           logLevelIn(managerObject(kRun, job, kImages, 0, {}).object["spec"]["template"]["spec"]);
  };
  unsetenv("DURE_LOG");
  EXPECT_EQ(levels(), ",");
  setenv("DURE_LOG", "debug", 1);
  EXPECT_EQ(levels(), "debug,debug");
  unsetenv("DURE_LOG");
}

TEST(Pods, NativeJobsHaveTheTrainersImageUnlessTheyNameOne) {
  const std::string text = "name: train\ntrain: {model: mlp, data: /data}\n";
  EXPECT_EQ(podFor(jobOf(text), {1}, "worker-0")["spec"]["containers"][0]["image"], "trainer:1");
  EXPECT_EQ(podFor(jobOf(text + "program: {image: own:1}\n"), {1},
                   "worker-0")["spec"]["containers"][0]["image"],
            "own:1");
}

TEST(Pods, ASplitGivesEachWorkerItsGpusAndAsManyRanks) {
  const spec::Job job = jobOf("name: train\ngpus: 6\nprogram: {command: [run], image: mine:1}\n");
  plan::Placement placement;
  placement.shares = {{.node = "big", .tasks = 1, .gpus = 5},
                      {.node = "small", .tasks = 1, .gpus = 1}};
  placement.share_of_task = {1, 0};
  const gang::Layout layout = gang::layoutOf(job, placement);
  EXPECT_THAT(layout.gpus, ElementsAre(1, 5));
  const json chief = podFor(job, layout, "worker-0"), other = podFor(job, layout, "worker-1");
  EXPECT_EQ(chief["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], "1");
  EXPECT_EQ(other["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], "5");
  EXPECT_EQ(chief["metadata"]["annotations"][annotations::kRanks], "0");
  EXPECT_EQ(other["metadata"]["annotations"][annotations::kRanks], "1,2,3,4,5");
  EXPECT_EQ(gang::nodesOf(gang::makeRoster(job, layout), placement).at("worker-0"), "small");
}

json podWaiting(const char* reason, const char* message) {
  return {{"metadata",
           {{"name", "p"}, {"labels", {{"dure/task", "worker-0"}, {"dure/generation", "4"}}}}},
          {"status",
           {{"phase", "Pending"},
            {"containerStatuses",
             {{{"image", "mine:1"},
               {"state", {{"waiting", {{"reason", reason}, {"message", message}}}}}}}}}}};
}

TEST(Pods, WhyAPodDoesNotStartIsToldAndWhetherWaitingHelps) {
  const PodView starting = viewPod(podWaiting("ContainerCreating", ""));
  EXPECT_EQ(starting.task, "worker-0");
  EXPECT_EQ(starting.generation, 4);
  EXPECT_EQ(starting.problem, "");
  const PodView pulling = viewPod(podWaiting("ErrImagePull", "not found"));
  EXPECT_EQ(pulling.problem, "cannot pull image mine:1 (ErrImagePull: not found)");
  EXPECT_TRUE(pulling.doubtful);
  EXPECT_FALSE(pulling.hopeless) << "the registry may be away for a moment";
  EXPECT_TRUE(viewPod(podWaiting("InvalidImageName", "")).hopeless);
  const PodView evicted =
      viewPod({{"status", {{"phase", "Failed"}, {"reason", "Evicted"}, {"message", "no memory"}}}});
  EXPECT_EQ(evicted.problem, "Evicted: no memory");
  EXPECT_TRUE(evicted.ended());
  EXPECT_EQ(viewPod(json::object()).phase, "") << "whatever comes is taken";
}

TEST(Pods, WhatCannotBePlacedForGoodIsToldFromWhatHasToWait) {
  const auto view = [](const std::string& message) {
    return viewPod({{"status",
                     {{"phase", "Pending"},
                      {"conditions",
                       {{{"type", "PodScheduled"},
                         {"status", "False"},
                         {"reason", "Unschedulable"},
                         {"message", message}}}}}}});
  };
  for (const char* message :
       {"persistentvolumeclaim \"x\" not found",
        "0/2 nodes are available: 2 persistentvolumeclaim \"x\" not found.",
        "0/2 nodes are available: 2 node(s) didn't match node selector.",
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity.",
        "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. preemption: "
        "0/3 nodes are available: 3 Preemption is not helpful for scheduling."}) {
    EXPECT_TRUE(view(message).unplaceable) << message;
    EXPECT_EQ(view(message).problem, message);
  }
  for (const char* message :
       {"0/2 nodes are available: 2 Insufficient cpu.",
        "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) didn't match Pod's node "
        "affinity.",
        "0/2 nodes are available: 1 node(s) had taint {a: b}, that the pod didn't tolerate, 1 "
        "node(s) didn't match node selector.",
        "pod has unbound immediate PersistentVolumeClaims",
        "0/2 nodes are available: 2 node(s) had volume node affinity conflict.",
        "no nodes available to schedule pods", ""}) {
    EXPECT_FALSE(view(message).unplaceable) << message;
  }
}

TEST(Pods, EveryContainerSaysWhatItNeedsAndHowItsImageIsFetched) {
  const spec::Job job = jobOf(
      "name: train\nstrategy: mpi\nworkers: 2\nprogram: {command: [run], image: mine:1}\n"
      "resources: {cpus: 2, memory: 1Gi, limits: {cpus: 4}}\n"
      "kubernetes: {account: made, pull_secrets: [a, b]}\n");
  const json task = json::parse(R"({"requests": {"cpu": "2", "memory": "1Gi"},
      "limits": {"cpu": "4", "memory": "1Gi"}})");
  const json worker = podFor(job, {2}, "worker-0")["spec"];
  EXPECT_EQ(worker["initContainers"][0]["resources"], task);
  EXPECT_EQ(worker["containers"][0]["resources"], task);
  const json secrets = json::parse(R"([{"name": "a"}, {"name": "b"}])");
  EXPECT_EQ(worker["imagePullSecrets"], secrets);
  const json launcher = podFor(job, {2}, "launcher-0")["spec"]["containers"][0]["resources"];
  EXPECT_EQ(launcher, json::parse(R"({"requests": {"cpu": "50m", "memory": "64Mi"},
      "limits": {"cpu": "4", "memory": "1Gi"}})"));
  const json manager = managerObject(kRun, job, kImages, 0, {}).object["spec"]["template"]["spec"];
  EXPECT_EQ(manager["imagePullSecrets"], secrets);
  EXPECT_EQ(manager["serviceAccountName"], "made");
  EXPECT_EQ(manager["containers"][0]["resources"],
            json::parse(R"({"requests": {"cpu": "50m", "memory": "64Mi"},
                            "limits": {"cpu": "1", "memory": "512Mi"}})"));
}

json podEnded(const char* group, const json& terminated) {
  return {{"status",
           {{"phase", "Failed"},
            {group, {{{"name", "agent"}, {"state", {{"terminated", terminated}}}}}}}}};
}

TEST(Pods, WhyAnAgentNeverCameToBeIsToldAndWhetherAnotherTryHelps) {
  constexpr const char* kInit = "initContainerStatuses";
  const PodView full = viewPod(podEnded(
      kInit, {{"exitCode", 3},
              {"reason", "Error"},
              {"message", "dure-agent: /dure/bin/dure-agent: No space left on device\n"}}));
  EXPECT_EQ(full.problem,
            "the agent cannot be put into its pod: /dure/bin/dure-agent: No space left on device");
  EXPECT_TRUE(full.hopeless);
  const PodView memory = viewPod(podEnded(kInit, {{"exitCode", 137}, {"reason", "OOMKilled"}}));
  EXPECT_EQ(memory.problem, "the agent cannot be put into its pod: exit code 137, OOMKilled");
  EXPECT_TRUE(memory.hopeless);
  EXPECT_FALSE(viewPod(podEnded(kInit, {{"exitCode", 137}, {"reason", "Error"}})).hopeless)
      << "somebody killed it; the next one may live";
  const PodView start = viewPod(
      podEnded("containerStatuses",
               {{"exitCode", 128}, {"reason", "StartError"}, {"message", "exec format error"}}));
  EXPECT_EQ(start.problem,
            "its container agent could not be started (StartError: exec format error)");
  EXPECT_TRUE(start.hopeless);
  const PodView hungry =
      viewPod(podEnded("containerStatuses", {{"exitCode", 137}, {"reason", "OOMKilled"}}));
  EXPECT_EQ(hungry.problem, "its pod ran out of memory; resources.memory gives it more");
  EXPECT_TRUE(hungry.by_program);
  EXPECT_FALSE(hungry.hopeless);
  const PodView lost = viewPod(podEnded(
      "containerStatuses",
      {{"exitCode", 3}, {"message", "words\ndure-agent: worker-0: connect: timed out\n"}}));
  EXPECT_EQ(lost.problem, "its agent ended: worker-0: connect: timed out");
  EXPECT_FALSE(lost.hopeless);
  EXPECT_EQ(
      viewPod(podEnded("containerStatuses", {{"exitCode", 1}, {"message", "Error: x"}})).problem,
      "")
      << "a program's own failure is told by its agent";
}

TEST(Pods, OnlyAKubeletKnowsThatNothingRuns) {
  const json running = {{"state", {{"running", json::object()}}}};
  const json waiting = {{"state", {{"waiting", json::object()}}}};
  const json ended = {{"state", {{"terminated", {{"exitCode", 0}}}}}};
  const json failed = {{"state", {{"terminated", {{"exitCode", 1}}}}}};
  const auto nothingRuns = [](const std::string& phase, const json& init, const json& main) {
    json status = {{"phase", phase}};
    if (!init.is_null()) status["initContainerStatuses"] = json::array({init});
    if (!main.is_null()) status["containerStatuses"] = json::array({main});
    return viewPod({{"spec", {{"nodeName", "a"}}}, {"status", status}}).nothing_runs;
  };
  EXPECT_TRUE(nothingRuns("Succeeded", ended, ended));
  EXPECT_TRUE(nothingRuns("Failed", ended, failed));
  EXPECT_TRUE(nothingRuns("Failed", failed, waiting)) << "it never came to that";
  EXPECT_FALSE(nothingRuns("Failed", ended, running)) << "evicted, but not yet ended";
  EXPECT_FALSE(nothingRuns("Failed", nullptr, nullptr)) << "somebody else says so";
  EXPECT_FALSE(nothingRuns("Running", ended, running));
  EXPECT_FALSE(nothingRuns("Pending", ended, waiting)) << "it may run by now";
  EXPECT_TRUE(viewPod({{"status", {{"phase", "Pending"}}}}).nothing_runs) << "it has no node";
}

TEST(Pods, AFolderIsStoredInPiecesThatFitIntoObjects) {
  const std::string archive(1'500'000, 'x');
  const auto objects = folderObjects(kRun, archive);
  ASSERT_EQ(objects.size(), 3U);
  for (const json& object : objects) EXPECT_LT(object.dump().size(), 1'000'000U);
  EXPECT_EQ(objects[2]["metadata"]["name"], "train-2-folder-2");
}

TEST(Pods, RanksAreToldNamesThatOnlyDependOnTheRun) {
  const spec::Job job =
      jobOf("name: train\nworkers: 2\nstrategy: torch\nprogram: {command: [run]}\n");
  const gang::Site site = siteOf(kRun, job);
  EXPECT_EQ(site.tasks.at("worker-1").address, "worker-1.train-2");
  EXPECT_EQ(site.tasks.at("worker-1").port, 29500);
  EXPECT_EQ(site.workdir, "/dure/work");
}

}  // namespace
}  // namespace dure::kubernetes
