#include "backend/kubernetes/volume_pod.h"

#include <filesystem>
#include <future>

#include "backend/kubernetes/test_runs.h"
#include "base/files.h"
#include "protocol/agent_options.h"

namespace dure::kubernetes {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class VolumePodTest : public RunsTest {
 protected:
  void SetUp() override {
    run_ = makeRun();
    job_ = jobOf("name: train\nworkers: 2\nprogram: {command: [run], image: mine:1}\n");
    folder_ =
        std::filesystem::path(testing::TempDir()) /
        (std::string("volume-") + testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static Wait soon() { return Wait(20s); }
  // As dure-agent send prints a file.
  static std::string sent(const std::string& text) {
    const std::string path = testing::TempDir() + "/volume-pod-sent";
    EXPECT_TRUE(replaceFile(path, text, 0600));
    std::string bytes;
    EXPECT_TRUE(bundle::sendFiles(path, [&](std::string_view more) -> Status {
      bytes += more;
      return {};
    }));
    std::filesystem::remove(path);
    return bytes;
  }
  std::vector<std::string> fetchPods() const {
    std::vector<std::string> names = api_.names(kube::kinds::kPods);
    std::erase_if(
        names, [](const std::string& name) { return name.find("-fetch-") == std::string::npos; });
    return names;
  }
  // Finds a pod while the test plays its kubelet.
  Status findWith(VolumePod& pod, const std::function<void(const std::string& name)>& kubelet) {
    auto found = std::async(std::launch::async, [&] { return pod.find(soon()); });
    EXPECT_TRUE(api_.eventually([&] { return !fetchPods().empty(); }));
    for (const std::string& name : fetchPods()) kubelet(name);
    return found.get();
  }

  KubeRun run_;
  spec::Job job_;
  std::filesystem::path folder_;
};

TEST_F(VolumePodTest, LooksIntoTheFirstRanksPodWhileItRuns) {
  const std::string first = runTask(run_, 0);
  runTask(run_, 1);
  VolumePod pod(client_, run_, job_);
  ASSERT_TRUE(pod.find(soon()));
  EXPECT_THAT(fetchPods(), IsEmpty());
  api_.setCommand({.out = sent("weights")});
  bundle::FileReceiver files(folder_ / "model.h5");
  const auto got = pod.send("out/model.h5", files);
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_EQ(*readFile(folder_ / "model.h5", 100), "weights");
  EXPECT_EQ(api_.count({.name = first, .part = "exec"}), 1);
}

TEST_F(VolumePodTest, MakesAPodForARunThatIsOverAndDeletesItAgain) {
  {
    VolumePod pod(client_, run_, job_);
    const auto found = findWith(pod, [&](const std::string& name) {
      const json made = api_.get(podAt(name));
      EXPECT_EQ(made["metadata"]["ownerReferences"][0]["kind"], "ConfigMap")
          << "it goes with the run, should we be killed";
      EXPECT_GT(made["spec"]["activeDeadlineSeconds"], 0)
          << "and holds its volumes for a while only";
      kubelet_.run(name);
    });
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_EQ(fetchPods().size(), 1u);
  }
  EXPECT_THAT(fetchPods(), IsEmpty());
}

TEST_F(VolumePodTest, SaysWhyThePodDoesNotStart) {
  VolumePod pod(client_, run_, job_);
  const auto found = findWith(pod, [&](const std::string& name) { kubelet_.end(name, 1); });
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), Code::kUnavailable);
  EXPECT_THAT(found.error().message(),
              HasSubstr("the pod that looks into the volume does not start"));
}

TEST_F(VolumePodTest, LeavesNoPodBehindIfItMayNotBeWatched) {
  {
    api_.forbid({.verb = "get", .plural = "pods"});
    VolumePod pod(client_, run_, job_);
    EXPECT_EQ(pod.find(soon()).error().code(), Code::kDenied);
  }
  EXPECT_THAT(fetchPods(), IsEmpty());
}

TEST_F(VolumePodTest, WhatTheAgentComplainsOfIsTheError) {
  runTask(run_, 0);
  VolumePod pod(client_, run_, job_);
  ASSERT_TRUE(pod.find(soon()));
  for (const auto& [exit, code] : {std::pair{protocol::kAgentNotFound, Code::kNotFound},
                                   std::pair{protocol::kAgentFailed, Code::kUnavailable}}) {
    api_.setCommand({.err = "dure-agent: out: it is so\n", .code = exit});
    bundle::FileReceiver files(folder_ / "out");
    const auto got = pod.send("out", files);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code(), code);
    EXPECT_EQ(got.error().message(), "out: it is so");
  }
}

TEST_F(VolumePodTest, AConnectionThatBreaksLeavesNoHalfFile) {
  runTask(run_, 0);
  VolumePod pod(client_, run_, job_);
  ASSERT_TRUE(pod.find(soon()));
  const std::string whole = sent("weights");
  for (const std::size_t bytes : {std::size_t{0}, whole.size() / 2, whole.size() - 1}) {
    api_.setCommand({.out = whole.substr(0, bytes), .code = std::nullopt});
    bundle::FileReceiver files(folder_ / "model.h5");
    EXPECT_EQ(pod.send("out/model.h5", files).error().code(), Code::kUnavailable) << bytes;
  }
  // All of the file, but not the line that says that there are no more.
  api_.setCommand({.out = whole.substr(0, whole.find("weights") + 7)});
  bundle::FileReceiver files(folder_ / "model.h5");
  EXPECT_EQ(pod.send("out/model.h5", files).error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace dure::kubernetes
