#include "gang/journal.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace dure::gang {
namespace {

Entry make(EntryKind kind, int generation) {
  Entry entry{.kind = kind};
  entry.time = FakeClock().now();
  entry.generation = generation;
  return entry;
}

TEST(Journal, AnEntryComesBackFromItsRecordAsItWas) {
  Entry entry = make(EntryKind::kExited, 3);
  entry.run_id = "6d1c";
  entry.task = "worker-1";
  entry.rank = 1;
  entry.host = "h";
  entry.pid = 12;
  entry.code = 0;
  entry.signal = 9;
  entry.workers = 4;
  entry.counted = true;
  entry.delay = Duration(250);
  entry.outcome = Outcome::kInfrastructureFailed;
  entry.reason = "because \xff";
  const auto back = entryFromJson(toJson(entry));
  ASSERT_TRUE(back);
  EXPECT_EQ(toJson(*back), toJson(entry));
  EXPECT_EQ(back->time, entry.time);
  EXPECT_EQ(back->run_id, "6d1c");
  EXPECT_EQ(back->rank, 1);
  EXPECT_EQ(back->outcome, Outcome::kInfrastructureFailed);
}

// Runs outlive the version that ran them.
TEST(Journal, TheOldWordForAFailedInfrastructureIsUnderstood) {
  const auto entry = entryFromJson(
      {{"event", "finished"}, {"time", "2026-01-02T03:04:05Z"}, {"outcome", "place failed"}});
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->outcome, Outcome::kInfrastructureFailed);
  EXPECT_EQ(toJson(*entry)["outcome"], "infrastructure failed");
}

TEST(Journal, WhatIsNoEntryIsAnError) {
  EXPECT_FALSE(entryFromJson(nlohmann::json::array()));
  EXPECT_FALSE(entryFromJson({{"event", "flying"}, {"time", ""}}));
  EXPECT_FALSE(entryFromJson({{"event", 3}}));
  EXPECT_FALSE(entryFromJson({{"event", "joined"}, {"time", "x"}, {"rank", "one"}}));
}

TEST(Replay, AddsUpGenerationsAndCountedFailures) {
  Entry starting = make(EntryKind::kStarting, 1);
  starting.workers = 2;
  Entry failed = make(EntryKind::kEnded, 1);
  failed.counted = true;
  Entry lost = make(EntryKind::kEnded, 2);
  Entry again = make(EntryKind::kStarting, 2);
  again.workers = 1;
  const RunState state = replay({make(EntryKind::kCreated, 0), starting, failed, again, lost});
  EXPECT_EQ(state.generation, 2);
  EXPECT_EQ(state.workers, 1);
  EXPECT_EQ(state.failures, 1);
  EXPECT_FALSE(state.outcome);
}

TEST(Replay, CountsAFailureWhoseEndTheCoordinatorDidNotLiveToSee) {
  Entry stopping = make(EntryKind::kStopping, 1);
  stopping.counted = true;
  Entry starting = make(EntryKind::kStarting, 1);
  EXPECT_EQ(replay({starting, stopping}).failures, 1);
  EXPECT_EQ(replay({starting, stopping, make(EntryKind::kResumed, 1)}).failures, 1);
  Entry ended = make(EntryKind::kEnded, 1);
  ended.counted = true;
  EXPECT_EQ(replay({starting, stopping, ended}).failures, 1);
}

TEST(Replay, KeepsWhereARankWasWhenItExits) {
  Entry starting = make(EntryKind::kStarting, 1);
  Entry joined = make(EntryKind::kJoined, 1);
  joined.task = "worker-0";
  joined.rank = 0;
  joined.host = "h";
  joined.pid = 5;
  Entry exited = make(EntryKind::kExited, 1);
  exited.task = "worker-0";
  exited.rank = 0;
  exited.code = 1;
  const RunState state = replay({starting, joined, exited});
  ASSERT_EQ(state.tasks.size(), 1u);
  EXPECT_EQ(state.joined, 1);
  EXPECT_EQ(state.tasks[0].kind, EntryKind::kExited);
  EXPECT_EQ(state.tasks[0].host, "h");
}

TEST(Replay, AResumedRunIsNotOverAnyMore) {
  Entry finished = make(EntryKind::kFinished, 1);
  finished.outcome = Outcome::kStopped;
  EXPECT_EQ(replay({finished}).outcome, Outcome::kStopped);
  EXPECT_FALSE(replay({finished, make(EntryKind::kResumed, 1)}).outcome);
}

}  // namespace
}  // namespace dure::gang
