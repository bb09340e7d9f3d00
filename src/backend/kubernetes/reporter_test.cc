#include "backend/kubernetes/reporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backend/kubernetes/test_jobs.h"
#include "kube/test_server.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;

const json kJob = {
    {"apiVersion", "batch/v1"}, {"kind", "Job"}, {"metadata", {{"name", "train-2"}, {"uid", "1"}}}};

class ReporterTest : public testing::Test {
 protected:
  bool answer(const kube::TestServer::Asked& asked, const kube::TestServer::Send& send) {
    const bool metrics = asked.target.find("configmaps") != std::string::npos;
    if (!metrics) {
      send(kube::TestServer::answer(403, R"({"kind": "Status", "reason": "Forbidden"})"));
    } else if (asked.method == "POST") {
      send(kube::TestServer::answer(409, R"({"kind": "Status", "reason": "AlreadyExists"})"));
    } else {
      send(kube::TestServer::answer(200, json{{"data", {{"metrics.jsonl", before_}}}}.dump()));
    }
    return true;
  }

  std::vector<kube::TestServer::Asked> asked(const std::string& method,
                                             const std::string& kind) const {
    std::vector<kube::TestServer::Asked> found;
    for (const kube::TestServer::Asked& each : server_.asked()) {
      if (each.method == method && each.target.find(kind) != std::string::npos) {
        found.push_back(each);
      }
    }
    return found;
  }

  const std::string before_ = R"({"step":1436})";
  kube::TestServer server_{
      [this](const auto& asked, const auto& send) { return answer(asked, send); }};
  kube::KubeClient client_{{.context = "test", .server = server_.url(), .token = "t"}};
};

TEST_F(ReporterTest, AManagerThatEndsSoonStillTellsTheLastStep) {
  KubeReporter reporter(client_, kRun, kJob);
  ASSERT_TRUE(reporter.metric(2, 0, R"({"step":1500})"));
  reporter.finish();
  const auto patches = asked("PATCH", "configmaps");
  ASSERT_FALSE(patches.empty());
  const std::string told = json::parse(patches.back().body)["data"]["metrics.jsonl"];
  EXPECT_EQ(told, "{\"step\":1436}\n{\"step\":1500}");
}

TEST_F(ReporterTest, MetricsAreToldWhenTheyAreWanted) {
  KubeReporter reporter(client_, kRun, kJob);
  reporter.tellMetrics();
  EXPECT_TRUE(asked("PATCH", "configmaps").empty()) << "there are none";
  ASSERT_TRUE(reporter.metric(2, 0, R"({"step":1500})"));
  reporter.tellMetrics();
  const auto patches = asked("PATCH", "configmaps");
  ASSERT_EQ(patches.size(), 1u);
  reporter.tellMetrics();
  reporter.finish();
  EXPECT_EQ(asked("PATCH", "configmaps").size(), 1u) << "they are told once";
}

TEST_F(ReporterTest, WhoMayNotWriteEventsTriesOnce) {
  KubeReporter reporter(client_, kRun, kJob);
  reporter.entry({.kind = gang::EntryKind::kCreated});
  while (asked("POST", "events").empty()) std::this_thread::yield();
  reporter.finish();
  reporter.entry({.kind = gang::EntryKind::kRunning});
  EXPECT_EQ(asked("POST", "events").size(), 1u);
}

}  // namespace
}  // namespace dure::kubernetes
