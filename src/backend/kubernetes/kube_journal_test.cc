#include <boost/asio/executor_work_guard.hpp>
#include <future>

#include "backend/kubernetes/record.h"
#include "backend/kubernetes/test_cluster.h"

namespace dure::kubernetes {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

const kube::RequestMatch kWriting{.verb = "patch", .plural = "configmaps", .name = "*-journal-*"};

class KubeJournalTest : public ClusterTest {
 protected:
  std::unique_ptr<KubeJournal> open() {
    auto journal = KubeJournal::open(loop_, client_, kRun, nullptr);
    EXPECT_TRUE(journal) << (journal ? "" : journal.error().message());
    return journal ? *std::move(journal) : nullptr;
  }
  static gang::Entry entry(const std::string& reason) {
    return {.kind = gang::EntryKind::kWarned, .reason = reason};
  }
  // As whoever reads the record sees it.
  std::vector<std::string> written() {
    std::vector<json> parts;
    for (json& object : api_.all(kube::kinds::kConfigMaps, kRun.name_space)) {
      if (object["metadata"]["labels"].value(labels::kPart, "") == "journal") {
        parts.push_back(std::move(object));
      }
    }
    return reasonsOf(entriesOf(parts));
  }
  static std::vector<std::string> reasonsOf(const std::vector<gang::Entry>& entries) {
    std::vector<std::string> reasons;
    for (const gang::Entry& each : entries) reasons.push_back(each.reason);
    return reasons;
  }

  asio::io_context loop_;
};

TEST_F(KubeJournalTest, ANewManagerReadsWhatTheOthersWroteAndGoesOn) {
  ASSERT_TRUE(open()->write({entry("a"), entry("b")}));
  ASSERT_TRUE(open()->write({entry("c")}));
  const auto journal = open();
  EXPECT_THAT(reasonsOf(journal->before()), ElementsAre("a", "b", "c"));
  ASSERT_TRUE(journal->write({entry("d")}));
  EXPECT_THAT(written(), ElementsAre("a", "b", "c", "d"));
  EXPECT_TRUE(*journal->isOurs());
}

TEST_F(KubeJournalTest, AManagerThatWasReplacedCanWriteNoMore) {
  const auto old = open();
  ASSERT_TRUE(old->write({entry("a")}));
  const auto successor = open();
  EXPECT_FALSE(*old->isOurs());
  EXPECT_FALSE(old->lost()) << "it has not tried yet";
  const auto refused = old->write({entry("of the old one")});
  ASSERT_FALSE(refused);
  EXPECT_TRUE(old->lost());
  EXPECT_TRUE(*successor->isOurs());
  EXPECT_THAT(written(), ElementsAre("a"));
}

TEST_F(KubeJournalTest, WhatIsToBeDoneBeforeTheEndOfTheRunIsDoneBeforeAnybodyReadsOfIt) {
  const auto journal = open();
  std::vector<std::vector<std::string>> seen;
  journal->beforeEnd([&] { seen.push_back(written()); });
  const auto append = [&](gang::Entry what) {
    const auto work = asio::make_work_guard(loop_);
    journal->append({std::move(what)}, [&](const Status& status) {
      EXPECT_TRUE(status);
      loop_.stop();
    });
    loop_.restart();
    loop_.run();
  };
  append(entry("a"));
  EXPECT_THAT(seen, IsEmpty()) << "the run goes on";
  gang::Entry last = entry("the end");
  last.outcome = gang::Outcome::kSucceeded;
  append(last);
  EXPECT_THAT(seen, ElementsAre(ElementsAre("a")));
  EXPECT_THAT(written(), ElementsAre("a", "the end"));
}

TEST_F(KubeJournalTest, WhatGotLostOnTheWayIsWrittenOnce) {
  struct Case {
    const char* name;
    std::function<void()> trouble;
  };
  for (const Case& c :
       std::vector<Case>{{"a lost reply", [&] { api_.loseReply(kWriting); }},
                         {"a broken connection", [&] { api_.hangUp(kWriting); }},
                         {"500", [&] { api_.answer(kWriting, 500); }},
                         {"429", [&] { api_.answer(kWriting, 429); }},
                         {"a conflict", [&] { api_.answer(kWriting, 409); }},
                         {"403 of a server that starts", [&] { api_.answer(kWriting, 403); }}}) {
    const auto journal = open();
    c.trouble();
    ASSERT_TRUE(journal->write({entry("a"), entry("b")})) << c.name;
    ASSERT_TRUE(journal->write({entry("c")})) << c.name;
    EXPECT_FALSE(journal->lost()) << c.name;
    EXPECT_THAT(written(), ElementsAre("a", "b", "c")) << c.name;
    for (const std::string& name : api_.names(kube::kinds::kConfigMaps)) api_.erase(mapAt(name));
  }
}

TEST_F(KubeJournalTest, TheCoordinatorIsToldFromItsLoopWhenAnEntryIsSafe) {
  const auto journal = open();
  api_.hold(kWriting);
  bool told = false;
  const auto guard = asio::make_work_guard(loop_);
  journal->append({entry("a")}, [&](const Status& status) {
    told = true;
    EXPECT_TRUE(status);
    EXPECT_THAT(written(), ElementsAre("a"));
  });
  ASSERT_TRUE(api_.eventually([&] { return api_.held() == 1; }));
  loop_.poll();
  EXPECT_FALSE(told);
  api_.letGo();
  loop_.run_one_for(20s);
  EXPECT_TRUE(told);
}

TEST_F(KubeJournalTest, ARunThatWasDeletedIsLost) {
  const auto journal = open();
  api_.erase(mapAt(kRun.journal(1)));
  EXPECT_FALSE(*journal->isOurs());
  const auto refused = journal->write({entry("a")});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kNotFound);
  EXPECT_TRUE(journal->lost());
  EXPECT_THAT(written(), IsEmpty()) << "it does not come back";
}

TEST_F(KubeJournalTest, NobodyCanTellWhoseItIsWhileTheServerIsAway) {
  kube::KubeClient hasty(api_.access(), Duration{50});
  const auto journal = KubeJournal::open(loop_, hasty, kRun, nullptr);
  ASSERT_TRUE(journal);
  api_.answer({.verb = "get"}, 500, 100);
  const auto ours = (*journal)->isOurs();
  ASSERT_FALSE(ours);
  EXPECT_EQ(ours.error().code(), Code::kUnavailable);
}

TEST_F(KubeJournalTest, TooMuchForOneObjectGoesOnInTheNext) {
  const auto journal = open();
  const std::string large(150u << 10u, 'x');
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(journal->write({entry(large)}));
  EXPECT_THAT(api_.names(kube::kinds::kConfigMaps), ElementsAre(kRun.journal(1), kRun.journal(2)));
  EXPECT_EQ(written().size(), 4u);
  EXPECT_TRUE(*journal->isOurs());
  EXPECT_EQ(open()->before().size(), 4u);
  EXPECT_FALSE(*journal->isOurs());
}

TEST_F(KubeJournalTest, OfTwoManagersThatBeginAtOnceOneHasTheRun) {
  api_.hold({.verb = "create", .plural = "configmaps"});
  auto first = std::async(std::launch::async,
                          [&] { return KubeJournal::open(loop_, client_, kRun, nullptr); });
  ASSERT_TRUE(api_.eventually([&] { return api_.held() == 1; }));
  const auto second = open();
  api_.letGo();
  const auto refused = first.get();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::kExists);
  EXPECT_TRUE(second->write({entry("a")}));
}

TEST_F(KubeJournalTest, AManagerThatEndsDoesNotWaitForAServerThatIsAway) {
  auto journal = open();
  api_.answer(kWriting, 409, 1'000'000);
  journal->append({entry("a")}, [](const Status&) { ADD_FAILURE() << "nobody waits for it"; });
  ASSERT_TRUE(api_.eventually([&] { return api_.count(kWriting) > 0; }));
  auto ended = std::async(std::launch::async, [&] { journal.reset(); });
  EXPECT_EQ(ended.wait_for(20s), std::future_status::ready);
  api_.endTrouble();
  loop_.poll();
}

// ---- the record beside it

TEST_F(KubeJournalTest, AFolderIsPutTogetherAgainAndADamagedOneIsRefused) {
  std::string archive(1u << 20u, '\0');
  for (std::size_t i = 0; i < archive.size(); ++i) archive[i] = static_cast<char>(i * 7 % 251);
  const auto pieces = folderObjects(kRun, archive);
  ASSERT_EQ(pieces.size(), 2u);
  for (const json& piece : pieces) api_.put(mapAt(piece["metadata"]["name"]), piece);
  const auto read = readFolder(client_, kRun);
  ASSERT_TRUE(read);
  EXPECT_TRUE(*read == archive);
  api_.change(mapAt(kRun.folder(1)),
              [](json& piece) { piece["binaryData"]["folder.tar.gz"] = "%"; });
  EXPECT_EQ(readFolder(client_, kRun).error().code(), Code::kInvalid);
  api_.answer({.verb = "get", .name = kRun.folder(0)}, 403);
  EXPECT_EQ(readFolder(client_, kRun).error().code(), Code::kDenied);
}

TEST_F(KubeJournalTest, ARunWithoutMetricsHasNone) {
  const auto none = readMetrics(client_, kRun);
  ASSERT_TRUE(none);
  EXPECT_THAT(*none, IsEmpty());
  api_.put(mapAt(kRun.metrics()), {{"data", {{"metrics.jsonl", "{\"step\":1}\n{\"step\":2}"}}}});
  EXPECT_THAT(*readMetrics(client_, kRun), ElementsAre("{\"step\":1}", "{\"step\":2}"));
}

}  // namespace
}  // namespace dure::kubernetes
