#include "backend/kubernetes/run_creation.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "backend/kubernetes/test_cluster.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

enum class Fault { kForbidden, kConflict, kServerError, kLostReply, kHungUp };

const char* nameOf(Fault fault) {
  switch (fault) {
    case Fault::kForbidden:
      return "403";
    case Fault::kConflict:
      return "409";
    case Fault::kServerError:
      return "500";
    case Fault::kLostReply:
      return "a lost reply";
    default:
      return "a connection that breaks";
  }
}

class RunCreationTest : public ClusterTest {
 protected:
  RunCreationTest() {
    std::filesystem::create_directories(folder_);
    std::ofstream(folder_ / "train.py") << "print()";
    job_ = jobOf("name: train\nworkers: 2\nprogram: {command: [run], image: mine:1}\n");
    job_.program.workdir = folder_;
  }
  ~RunCreationTest() override { std::filesystem::remove_all(folder_); }

  Result<KubeRun> create() {
    return createRun(client_, job_, [] { return false; });
  }
  void cause(Fault fault, const kube::RequestMatch& match) {
    if (fault == Fault::kLostReply) return api_.loseReply(match);
    if (fault == Fault::kHungUp) return api_.hangUp(match);
    // What is refused is tried with less, and refused again.
    const bool forbidden = fault == Fault::kForbidden;
    api_.answer(match, forbidden ? 403 : fault == Fault::kConflict ? 409 : 500, forbidden ? 2 : 1);
  }
  // As somebody else has it.
  void putForeign(const kube::KubeKind& kind, const std::string& name) {
    api_.put({kind, kind.namespaced ? kRun.name_space : "", name, ""},
             {{"apiVersion", kind.api}, {"kind", "Foreign"}});
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("dure-creation-" + std::to_string(getpid()));
  spec::Job job_;
};

const std::vector<std::string> kAllOfARun = {"configmaps/train-1",
                                             "configmaps/train-1-folder-0",
                                             "secrets/train-1",
                                             "services/train-1",
                                             "serviceaccounts/train-1",
                                             "roles/train-1",
                                             "rolebindings/train-1",
                                             "clusterroles/dure:team:train-1",
                                             "clusterrolebindings/dure:team:train-1",
                                             "jobs/train-1"};

TEST_F(RunCreationTest, MakesAllThatAManagerNeeds) {
  const auto run = create();
  ASSERT_TRUE(run) << run.error().message();
  EXPECT_EQ(run->text(), "train.1");
  EXPECT_EQ(everything(), kAllOfARun);
}

TEST_F(RunCreationTest, EverythingGoesWithTheRecordAndTheClusterRole) {
  ASSERT_TRUE(create());
  api_.remove(mapAt("train-1"));
  api_.remove({kube::kinds::kClusterRoles, "", "dure:team:train-1", ""});
  EXPECT_THAT(everything(), IsEmpty());
}

// What a run cannot do without.
TEST_F(RunCreationTest, WhatFailsLeavesNothingBehind) {
  for (const char* object : {"configmaps/train-1", "secrets/train-1", "services/train-1",
                             "roles/train-1", "serviceaccounts/train-1", "rolebindings/train-1",
                             "configmaps/train-1-folder-0", "jobs/train-1"}) {
    for (const Fault fault :
         {Fault::kForbidden, Fault::kConflict, Fault::kServerError, Fault::kHungUp}) {
      const std::string kind = std::string(object).substr(0, std::string(object).find('/'));
      const std::string name = std::string(object).substr(kind.size() + 1);
      cause(fault, {.verb = "create", .plural = kind, .name = name});
      const auto run = create();
      EXPECT_FALSE(run) << object << " " << nameOf(fault);
      EXPECT_THAT(everything(), IsEmpty()) << object << " " << nameOf(fault);
      api_.endTrouble();
    }
  }
}

TEST_F(RunCreationTest, ALostReplyIsFoundOutAndTheRunIsMadeOnce) {
  for (const std::string& object : kAllOfARun) {
    const std::string kind = object.substr(0, object.find('/'));
    cause(Fault::kLostReply,
          {.verb = "create", .plural = kind, .name = object.substr(kind.size() + 1)});
    const auto run = create();
    ASSERT_TRUE(run) << object << ": " << run.error().message();
    EXPECT_EQ(everything(), kAllOfARun) << object;
    api_.remove(mapAt("train-1"));
    api_.remove({kube::kinds::kClusterRoles, "", "dure:team:train-1", ""});
  }
}

// Without them the scheduler places the pods.
TEST_F(RunCreationTest, WhoMayNotGrantNodesStillGetsARun) {
  for (const char* kind : {"clusterroles", "clusterrolebindings"}) {
    for (const Fault fault :
         {Fault::kForbidden, Fault::kConflict, Fault::kServerError, Fault::kHungUp}) {
      cause(fault, {.verb = "create", .plural = kind});
      const auto run = create();
      ASSERT_TRUE(run) << kind << " " << nameOf(fault);
      EXPECT_THAT(api_.names(kube::kinds::kClusterRoles), IsEmpty()) << kind << nameOf(fault);
      EXPECT_THAT(api_.names(kube::kinds::kClusterRoleBindings), IsEmpty());
      api_.remove(mapAt(run->object()));
      EXPECT_THAT(everything(), IsEmpty()) << kind << " " << nameOf(fault);
      api_.endTrouble();
    }
  }
}

TEST_F(RunCreationTest, GpusToSplitCannotDoWithoutNodes) {
  job_ = jobOf("name: train\ngpus: 4\nprogram: {command: [run], image: mine:1, ship: false}\n");
  api_.forbid({.verb = "create", .plural = "clusterroles"});
  const auto run = create();
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code(), Code::kDenied);
  EXPECT_THAT(run.error().message(), HasSubstr("gpus: "));
  EXPECT_THAT(everything(), IsEmpty());
}

TEST_F(RunCreationTest, WhoMayNotGrantEventsGetsARunWithoutThem) {
  api_.answer({.verb = "create", .plural = "roles"}, 403);
  ASSERT_TRUE(create());
  const json role = api_.get(at(kube::kinds::kRoles, "train-1"));
  EXPECT_THAT(role["rules"].dump(), Not(HasSubstr("events")));
}

TEST_F(RunCreationTest, WhatBelongsToOthersStaysAndTheRunGetsTheNextNumber) {
  using namespace kube::kinds;
  for (const kube::KubeKind& kind :
       {kConfigMaps, kSecrets, kServices, kRoles, kServiceAccounts, kRoleBindings, kJobs}) {
    putForeign(kind, "train-1");
    const auto run = create();
    ASSERT_TRUE(run) << kind.plural << ": " << run.error().message();
    EXPECT_EQ(run->number, 2) << kind.plural;
    EXPECT_EQ(api_.get(at(kind, "train-1"))["kind"], "Foreign") << kind.plural;
    api_.remove(mapAt("train-2"));
    api_.remove({kClusterRoles, "", run->clusterObject(), ""});
    EXPECT_THAT(everything(), ElementsAre(std::string(kind.plural) + "/train-1"));
    api_.remove(at(kind, "train-1"));
  }
}

// The first attempt fails after it has made a ClusterRole, the second before.
TEST_F(RunCreationTest, AClusterRoleOfOthersIsNotRemovedWithWhatFailed) {
  putForeign(kube::kinds::kJobs, "train-1");
  putForeign(kube::kinds::kClusterRoles, "dure:team:train-2");
  api_.answer({.verb = "create", .plural = "roles", .name = "train-2"}, 500);
  EXPECT_FALSE(create());
  EXPECT_THAT(everything(), ElementsAre("clusterroles/dure:team:train-2", "jobs/train-1"));
}

// Its Job was deleted while no manager was there to remove it.
TEST_F(RunCreationTest, AClusterRoleThatARunBeforeHasLeftDoesNotCostTheNextItsPlanning) {
  for (const char* leftover : {"train-1", "other-3"}) {
    const KubeRun before{.name_space = kRun.name_space,
                         .job = std::string(leftover).substr(0, 5),
                         .number = leftover[6] - '0'};
    const json name_space = api_.get({kube::kinds::kNamespaces, "", kRun.name_space, ""});
    const json old = api_.put({kube::kinds::kClusterRoles, "", before.clusterObject(), ""},
                              clusterRole(before, ownerReference(name_space)).object);
    ASSERT_TRUE(create());
    EXPECT_THAT(api_.names(kube::kinds::kClusterRoles), ElementsAre("dure:team:train-1"));
    EXPECT_THAT(api_.names(kube::kinds::kClusterRoleBindings), ElementsAre("dure:team:train-1"));
    const json role = api_.get({kube::kinds::kClusterRoles, "", "dure:team:train-1", ""});
    EXPECT_NE(role["metadata"]["uid"], old["metadata"]["uid"]) << leftover;
    api_.remove(mapAt("train-1"));
    api_.remove({kube::kinds::kClusterRoles, "", "dure:team:train-1", ""});
  }
}

TEST_F(RunCreationTest, ControlCLeavesNothingBehind) {
  for (int until = 0; until < 7; ++until) {
    int asked = 0;
    const auto run = createRun(client_, job_, [&] { return asked++ >= until; });
    ASSERT_FALSE(run) << until;
    EXPECT_EQ(run.error().message(), "interrupted");
    EXPECT_THAT(everything(), IsEmpty()) << until;
  }
}

TEST_F(RunCreationTest, WhatTheJobNamesHasToBeThere) {
  struct Case {
    const char* job;
    kube::KubeKind kind;
    const char* name;
  };
  for (const Case& c :
       {Case{"volumes: [{path: /data, claim: disk}]", kube::kinds::kClaims, "disk"},
        Case{"kubernetes: {pull_secrets: [login]}", kube::kinds::kSecrets, "login"},
        Case{"kubernetes: {account: robot}", kube::kinds::kServiceAccounts, "robot"}}) {
    const spec::Job job =
        jobOf(std::string("name: train\nprogram: {command: [run], image: mine:1}\n") + c.job);
    const auto missing = checkRun(client_, job);
    ASSERT_FALSE(missing) << c.job;
    EXPECT_EQ(missing.error().code(), Code::kInvalid);
    EXPECT_THAT(missing.error().message(), HasSubstr(c.name));
    // Who may not look hopes for the best.
    api_.forbid({.verb = "get", .plural = c.kind.plural});
    EXPECT_TRUE(checkRun(client_, job)) << c.job;
    api_.permitAll();
    putForeign(c.kind, c.name);
    EXPECT_TRUE(checkRun(client_, job)) << c.job;
  }
}

TEST_F(RunCreationTest, GpusToSplitNeedAUserWhoSeesTheCluster) {
  const spec::Job job = jobOf("name: train\ngpus: 4\nprogram: {command: [run], image: mine:1}\n");
  EXPECT_TRUE(checkRun(client_, job));
  api_.forbid({.verb = "list", .plural = "pods"});
  const auto checked = checkRun(client_, job);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message(), HasSubstr("may not list pods of the whole cluster"));
}

// ---- what the run keeps

TEST_F(RunCreationTest, WhatNoVolumeHoldsGetsAClaimThatGoesWithTheRun) {
  job_.output = "out/model.h5";
  const auto run = create();
  ASSERT_TRUE(run) << run.error().message();
  const json claim = api_.get(at(kube::kinds::kClaims, "train-1"));
  EXPECT_EQ(claim["metadata"]["ownerReferences"][0]["kind"], "ConfigMap");
  EXPECT_EQ(claim["spec"]["resources"]["requests"]["storage"], "10Gi");
  EXPECT_EQ(api_.get(mapAt("train-1"))["metadata"]["annotations"][annotations::kOutput],
            "out/model.h5");
  job_.kubernetes.storage = {.storage_class = "ssd", .size = 1 << 20, .keep = true};
  ASSERT_TRUE(create());
  const json kept = api_.get(at(kube::kinds::kClaims, "train-2"));
  EXPECT_FALSE(kept["metadata"].contains("ownerReferences"));
  EXPECT_EQ(kept["spec"]["storageClassName"], "ssd");
}

TEST_F(RunCreationTest, WithoutAStorageClassOneSentenceSaysWhatToName) {
  job_.output = "out/model.h5";
  const auto refused = checkRun(client_, job_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalid);
  EXPECT_THAT(refused.error().message(), HasSubstr("output: no volume of the job holds"));
  EXPECT_THAT(refused.error().message(), HasSubstr("kubernetes.storage.class"));
  const kube::KubeAddress standard{kube::kinds::kStorageClasses, "", "standard", ""};
  api_.put(standard, {{"apiVersion", "storage.k8s.io/v1"}, {"kind", "StorageClass"}});
  EXPECT_FALSE(checkRun(client_, job_)) << "it is not the default";
  api_.change(standard, [](json& each) {
    each["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] = "true";
  });
  EXPECT_TRUE(checkRun(client_, job_));
  // Who may not look finds out later.
  api_.remove(standard);
  api_.forbid({.verb = "list", .plural = "storageclasses"});
  EXPECT_TRUE(checkRun(client_, job_));
}

TEST_F(RunCreationTest, ATrainerWithoutDataIsRefused) {
  job_ = jobOf("name: train\ntrain: {model: linear, data: {path: none.npz}}\n");
  job_.program.workdir = folder_;
  const auto refused = checkRun(client_, job_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "train.data.path: there is no none.npz here, and no volume of the job holds it");
}

}  // namespace
}  // namespace dure::kubernetes
