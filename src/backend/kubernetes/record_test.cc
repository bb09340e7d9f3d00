#include "backend/kubernetes/record.h"

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "backend/kubernetes/test_jobs.h"
#include "kube/test_server.h"

namespace dure::kubernetes {
namespace {

using nlohmann::json;

// Keeps the journals that are created. Of the second it does not say that it has.
class ForgetfulServer {
 public:
  kube::KubeAccess access() const {
    return {.context = "test", .server = server_.url(), .token = "t"};
  }
  void keep(const std::string& name, const json& journal) {
    const std::lock_guard lock(mutex_);
    kept_[name] = journal;
  }

 private:
  bool answer(const kube::TestServer::Asked& asked, const kube::TestServer::Send& send) {
    const std::lock_guard lock(mutex_);
    if (asked.method == "POST") {
      const json journal = json::parse(asked.body);
      const std::string name = journal["metadata"]["name"];
      if (!kept_.try_emplace(name, journal).second) {
        send(kube::TestServer::answer(409, R"({"kind": "Status", "reason": "AlreadyExists"})"));
        return true;
      }
      if (name == kRun.journal(2)) return false;
      send(kube::TestServer::answer(201, journal.dump()));
      return true;
    }
    const auto found = kept_.find(asked.target.substr(asked.target.rfind('/') + 1));
    send(kube::TestServer::answer(
        200, found != kept_.end() ? found->second.dump() : R"({"metadata": {}, "items": []})"));
    return true;
  }

  std::mutex mutex_;
  std::map<std::string, json> kept_;
  kube::TestServer server_{
      [this](const auto& asked, const auto& send) { return answer(asked, send); }};
};

class JournalTest : public testing::Test {
 protected:
  // More than one object is to hold.
  Status writeMany() {
    auto journal = KubeJournal::open(loop_, client_, kRun, nullptr);
    EXPECT_TRUE(journal);
    auto written = (*journal)->write(
        std::vector<gang::Entry>(2'001, gang::Entry{.kind = gang::EntryKind::kRunning}));
    EXPECT_EQ((*journal)->lost(), !written);
    return written;
  }

  ForgetfulServer server_;
  asio::io_context loop_;
  kube::KubeClient client_{server_.access()};
};

TEST_F(JournalTest, ANextPartWhoseMakingWasNotConfirmedIsStillOurs) {
  const auto written = writeMany();
  EXPECT_TRUE(written) << written.error().message();
}

TEST_F(JournalTest, ANextPartOfAnotherManagerIsNot) {
  server_.keep(
      kRun.journal(2),
      {{"metadata", {{"name", kRun.journal(2)}, {"annotations", {{"dure/writer", "another"}}}}}});
  const auto written = writeMany();
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code(), Code::kExists);
}

}  // namespace
}  // namespace dure::kubernetes
