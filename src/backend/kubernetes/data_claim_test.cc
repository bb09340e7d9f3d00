#include "backend/kubernetes/data_claim.h"

#include <stdlib.h>

#include <filesystem>
#include <future>

#include "backend/kubernetes/test_cluster.h"
#include "base/files.h"

namespace dure::kubernetes {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class DataClaimTest : public ClusterTest {
 protected:
  DataClaimTest() {
    std::string name = testing::TempDir() + "claim-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    EXPECT_TRUE(replaceFile(root_ / "reviews", "many words"));
    job_ = jobOf("name: train\nworkers: 2\nprogram: {command: [run], image: mine:1}\n");
  }
  ~DataClaimTest() override { std::filesystem::remove_all(root_); }

  Result<std::string> bring() {
    kube::KubeClient client(api_.access(kRun.name_space), Duration{2'000});
    return bringData(
        client, job_, {"program.data", "reviews", root_ / "reviews"},
        [this](std::int64_t sent, std::int64_t of) {
          told_ = {sent, of};
        },
        Wait(20s));
  }
  // Plays the kubelet of the pod that takes the data in.
  Result<std::string> bringThroughPod() {
    auto brought = std::async(std::launch::async, [this] { return bring(); });
    EXPECT_TRUE(api_.eventually([&] { return !pods().empty(); }));
    for (const std::string& pod : pods()) kubelet_.run(pod);
    return brought.get();
  }
  std::vector<std::string> pods() const { return api_.names(kube::kinds::kPods); }
  std::vector<std::string> claims() const { return api_.names(kube::kinds::kClaims); }

  std::filesystem::path root_;
  spec::Job job_;
  std::pair<std::int64_t, std::int64_t> told_;
};

TEST_F(DataClaimTest, IsFilledOnceAndFoundByLaterRuns) {
  const auto first = bringThroughPod();
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_THAT(*first, StartsWith("dure-data-"));
  EXPECT_THAT(claims(), ElementsAre(*first));
  EXPECT_THAT(pods(), IsEmpty());
  EXPECT_EQ(told_, std::pair(std::int64_t{10}, std::int64_t{10}));
  const json claim = api_.get(at(kube::kinds::kClaims, *first));
  EXPECT_EQ(claim["spec"]["accessModes"], json::array({"ReadWriteMany"}));
  EXPECT_FALSE(claim["metadata"].contains("ownerReferences")) << "it outlives the run";
  const int execs = api_.count({.part = "exec"});
  EXPECT_EQ(*bring(), *first);
  EXPECT_EQ(api_.count({.part = "exec"}), execs) << "nothing is sent again";

  ASSERT_TRUE(replaceFile(root_ / "reviews", "other words"));
  const auto other = bringThroughPod();
  ASSERT_TRUE(other);
  EXPECT_NE(*other, *first);
}

TEST_F(DataClaimTest, OneThatIsHalfFullIsFilled) {
  api_.setCommand({.err = "dure-agent: No space left on device\n", .code = 3});
  const auto failed = bringThroughPod();
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message(), HasSubstr("No space left on device"));
  EXPECT_THAT(pods(), IsEmpty());
  EXPECT_THAT(claims(), IsEmpty()) << "nobody else has it";

  api_.setCommand({.code = std::nullopt});
  EXPECT_EQ(bringThroughPod().error().code(), Code::kUnavailable) << "the connection broke";
  api_.setCommand({});
  EXPECT_TRUE(bringThroughPod());
}

TEST_F(DataClaimTest, SomebodyElsesHalfFullClaimStays) {
  api_.setCommand({});
  const std::string name = *bringThroughPod();
  api_.change(at(kube::kinds::kClaims, name),
              [](json& claim) { claim["metadata"].erase("annotations"); });
  api_.setCommand({.code = std::nullopt});
  EXPECT_FALSE(bringThroughPod());
  EXPECT_THAT(claims(), ElementsAre(name));
  api_.setCommand({});
  EXPECT_EQ(*bringThroughPod(), name);
}

TEST_F(DataClaimTest, MoreThanTheLimitIsRefusedWithARemedy) {
  job_.kubernetes.storage.data_limit = 5;
  const auto refused = bring();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kInvalid);
  EXPECT_THAT(refused.error().message(), HasSubstr("volumes: [{path: reviews, claim: NAME}]"));
  EXPECT_THAT(claims(), IsEmpty());
}

TEST_F(DataClaimTest, WhoMayNotMakeClaimsIsTold) {
  api_.forbid({.verb = "create", .plural = "persistentvolumeclaims"});
  EXPECT_EQ(bring().error().code(), Code::kDenied);
}

}  // namespace
}  // namespace dure::kubernetes
