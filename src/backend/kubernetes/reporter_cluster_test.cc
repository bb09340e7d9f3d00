#include "backend/kubernetes/reporter.h"
#include "backend/kubernetes/test_cluster.h"
#include "base/text.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

const kube::RequestMatch kTelling{.verb = "create", .plural = "events"};
const kube::RequestMatch kMetricsMade{.verb = "create", .plural = "configmaps"};

class ReporterClusterTest : public ClusterTest {
 protected:
  ReporterClusterTest()
      : job_(api_.put(at(kube::kinds::kJobs, kRun.object()),
                      {{"apiVersion", "batch/v1"}, {"kind", "Job"}})) {}

  std::vector<std::string> told() const {
    std::vector<std::string> reasons;
    for (const json& event : api_.all(kube::kinds::kEvents)) reasons.push_back(event["reason"]);
    return reasons;
  }
  std::vector<std::string> metrics() const {
    const json object = api_.get(mapAt(kRun.metrics()));
    if (object.is_null()) return {};
    return split(object["data"]["metrics.jsonl"].get<std::string>(), '\n');
  }

  const json job_;
};

TEST_F(ReporterClusterTest, DescribingTheJobShowsWhatWasDecided) {
  KubeReporter reporter(client_, kRun, job_);
  reporter.entry({.kind = gang::EntryKind::kCreated});
  reporter.entry({.kind = gang::EntryKind::kJoined, .task = "worker-0"});
  reporter.entry({.kind = gang::EntryKind::kEnded, .reason = "rank 0 failed"});
  reporter.finish();
  ASSERT_THAT(told(), ElementsAre("Created", "Ended"));
  const json event = api_.all(kube::kinds::kEvents)[1];
  EXPECT_EQ(event["type"], "Warning");
  EXPECT_EQ(event["involvedObject"]["uid"], job_["metadata"]["uid"]);
}

TEST_F(ReporterClusterTest, ABusyServerHearsOfEverythingLater) {
  KubeReporter reporter(client_, kRun, job_);
  api_.answer(kTelling, 500, 2);
  reporter.entry({.kind = gang::EntryKind::kCreated});
  reporter.entry({.kind = gang::EntryKind::kRunning});
  ASSERT_TRUE(api_.eventually([&] { return told().size() == 2; }));
  EXPECT_THAT(told(), ElementsAre("Created", "Running"));
}

TEST_F(ReporterClusterTest, AnEventIsNotToldAgainBecauseMetricsFail) {
  api_.hold(kTelling);
  KubeReporter reporter(client_, kRun, job_);
  reporter.entry({.kind = gang::EntryKind::kCreated});
  ASSERT_TRUE(api_.eventually([&] { return api_.held() == 1; }));
  // When it goes on it ends, and tells of metrics and events in one go.
  ASSERT_TRUE(reporter.metric(1, 0, R"({"step":1})"));
  reporter.entry({.kind = gang::EntryKind::kRunning});
  reporter.entry({.kind = gang::EntryKind::kFinished});
  api_.answer(kMetricsMade, 500);
  std::jthread letting_go([&] { api_.letGo(); });
  reporter.finish();
  EXPECT_THAT(told(), ElementsAre("Created", "Running", "Finished"));
}

TEST_F(ReporterClusterTest, AServerThatIsAwayAtTheEndDoesNotKeepTheManager) {
  kube::KubeClient hasty(api_.access(kRun.name_space), Duration{50});
  api_.answer({.verb = "create"}, 500, 1'000'000);
  KubeReporter reporter(hasty, kRun, job_);
  reporter.entry({.kind = gang::EntryKind::kCreated});
  ASSERT_TRUE(reporter.metric(1, 0, R"({"step":1})"));
  reporter.finish();
  EXPECT_THAT(told(), IsEmpty());
}

TEST_F(ReporterClusterTest, MetricsWhoseReplyGotLostAreThereOnce) {
  api_.loseReply(kMetricsMade);
  KubeReporter reporter(client_, kRun, job_);
  ASSERT_TRUE(reporter.metric(1, 0, R"({"step":1})"));
  ASSERT_TRUE(api_.eventually([&] { return api_.count(kMetricsMade) == 1; }));
  ASSERT_TRUE(reporter.metric(1, 0, R"({"step":2})"));
  reporter.finish();
  EXPECT_THAT(metrics(), ElementsAre(R"({"step":1})", R"({"step":2})"));
}

TEST_F(ReporterClusterTest, OfManyReportsTheFirstAndTheLastAreKeptAndNotTooMany) {
  KubeReporter reporter(client_, kRun, job_);
  for (int step = 0; step < 5'000; ++step) {
    ASSERT_TRUE(reporter.metric(1, 0, "{\"step\":" + std::to_string(step) + "}"));
  }
  ASSERT_TRUE(reporter.metric(1, 1, R"({"step":9999})"));       // of another rank
  ASSERT_TRUE(reporter.metric(1, 0, std::string(3'000, 'x')));  // too long to be kept
  reporter.finish();
  const auto kept = metrics();
  EXPECT_LE(kept.size(), 402u);
  EXPECT_GE(kept.size(), 200u);
  EXPECT_EQ(kept.front(), R"({"step":0})");
  EXPECT_EQ(kept.back(), R"({"step":4999})");
}

}  // namespace
}  // namespace dure::kubernetes
