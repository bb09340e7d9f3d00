#include "runs/run_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <filesystem>

#include <cstdlib>
#include <fstream>
#include <functional>

#include "runs/test_jobs.h"
#include "spec/load.h"

namespace dure::runs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Another process: it does something, says so, and lives until it is killed.
class Elsewhere {
 public:
  explicit Elsewhere(const std::function<void(const std::function<void()>& done)>& work) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      work([&] {
        if (write(ends[1], "y", 1) != 1) _exit(1);
        while (true) pause();
      });
      _exit(1);
    }
    close(ends[1]);
    const Fd in(ends[0]);
    char told = 0;
    EXPECT_EQ(read(in.get(), &told, 1), 1) << "the other process failed";
  }
  ~Elsewhere() { kill(); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
};

class RunStores : public testing::Test {
 protected:
  ~RunStores() override { static_cast<void>(removeTree(root_)); }
  std::string create(const std::string& name) {
    const auto run = store_.create(jobNamed(name));
    return run ? run->id.text() : run.error().message();
  }
  // In charge of a new run until it is killed.
  Elsewhere runElsewhere(const std::string& name) {
    return Elsewhere([&](const std::function<void()>& done) {
      if (const auto run = store_.create(jobNamed(name))) done();
    });
  }
  std::vector<std::string> names() const {
    std::vector<std::string> texts;
    for (const RunId& id : store_.list()) texts.push_back(id.text());
    return texts;
  }

 private:
  static std::string make() {
    std::string name = testing::TempDir() + "dure-runs-XXXXXX";
    return mkdtemp(name.data());
  }

 protected:
  const std::string root_ = make();
  RunStore store_{root_ + "/state"};
};

TEST_F(RunStores, ARunIsNumberedAmongThoseOfItsName) {
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_EQ(store_.next("train").text(), "train.1");
  EXPECT_EQ(create("train"), "train.1");
  EXPECT_EQ(create("train"), "train.2");
  EXPECT_EQ(create("other"), "other.1");
  EXPECT_EQ(store_.next("train").text(), "train.3");
  EXPECT_EQ(store_.next("new").text(), "new.1");
}

// Names and numbers come again; the id of a run does not.
TEST_F(RunStores, EveryRunHasAnIdOfItsOwn) {
  const auto id = [&](const std::string& text) {
    const auto run = store_.take(*store_.find(text));
    return run ? run->run_id : run.error().message();
  };
  ASSERT_EQ(create("train"), "train.1");
  const std::string first = id("train.1");
  EXPECT_EQ(first.size(), 64u);
  EXPECT_EQ(id("train.1"), first) << "it survives --resume";
  ASSERT_TRUE(store_.remove(*store_.find("train.1")));
  ASSERT_EQ(create("train"), "train.1");
  EXPECT_NE(id("train.1"), first);
  // The record of an older Dure gets one when it is taken up.
  std::filesystem::remove(store_.paths(*store_.find("train.1")).id());
  const std::string given = id("train.1");
  EXPECT_EQ(given.size(), 64u);
  EXPECT_EQ(id("train.1"), given);
}

TEST_F(RunStores, NumbersGoOnAfterNine) {
  for (int i = 1; i <= 12; ++i) EXPECT_EQ(create("t"), "t." + std::to_string(i));
  EXPECT_EQ(store_.find("t")->number, 12);
  EXPECT_EQ(store_.list().back().number, 12);
}

TEST_F(RunStores, TheRecordIsWholeAsSoonAsItIsSeen) {
  const auto run = store_.create(jobNamed("train"));
  ASSERT_TRUE(run);
  const spec::Loaded loaded = spec::loadJobFile(run->paths.job(), {});
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded.job, jobNamed("train"));
  EXPECT_EQ(*readFile(run->paths.secret(), 1000), run->secret);
  EXPECT_GE(run->secret.size(), 32u);
  struct stat info {};
  ASSERT_EQ(stat(run->paths.secret().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0077u, 0u) << "nobody else may read the secret";
  EXPECT_TRUE(fileExists(run->paths.tasks()));
  EXPECT_EQ(run->paths.log(2, 10), run->paths.directory + "/logs/2/rank-10.log");
  EXPECT_THAT(listDirectory(root_ + "/state/runs"), ElementsAre("train.1"));
}

TEST_F(RunStores, ANameIsItsNewestRunAndANumberIsExact) {
  create("train");
  create("train");
  create("trainer");
  EXPECT_EQ(store_.find("train")->text(), "train.2");
  EXPECT_EQ(store_.find("train.1")->text(), "train.1");
  EXPECT_EQ(store_.find("trainer")->text(), "trainer.1");
}

TEST_F(RunStores, AnUnknownNameComesWithASuggestion) {
  create("train");
  const auto wrong = store_.find("trian");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code(), Code::kNotFound);
  EXPECT_EQ(wrong.error().message(), "no run named \"trian\"; did you mean \"train\"?");
  EXPECT_EQ(store_.find("banana").error().message(), "no run named \"banana\"; dure ps lists them");
  EXPECT_FALSE(store_.find("train.9"));
  EXPECT_FALSE(store_.find(""));
  EXPECT_FALSE(store_.find("../train"));
}

TEST_F(RunStores, StrangeThingsInTheDirectoryAreNoRuns) {
  create("train");
  for (const char* name : {"train", "train.x", "train.0", "train.-1", ".new-abc", ".old-train.1-99",
                           "train.1.tmp", ".1", "train.99999999999999999999"}) {
    std::ofstream(root_ + "/state/runs/" + name) << "";
  }
  EXPECT_THAT(names(), ElementsAre("train.1"));
}

TEST_F(RunStores, OnlyOneProcessIsInChargeOfARun) {
  Elsewhere other = runElsewhere("train");
  const RunId id{.name = "train", .number = 1};
  EXPECT_EQ(store_.coordinator(id), other.pid());
  const auto taken = store_.take(id);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code(), Code::kExists);
  EXPECT_THAT(taken.error().message(), HasSubstr("train.1 is still running"));
  EXPECT_THAT(taken.error().message(), HasSubstr(std::to_string(other.pid())));
}

TEST_F(RunStores, ARunWhoseProcessWasKilledCanBeTaken) {
  Elsewhere other = runElsewhere("train");
  const RunId id{.name = "train", .number = 1};
  other.kill();
  EXPECT_FALSE(store_.coordinator(id));
  const auto taken = store_.take(id);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->secret, *readFile(store_.paths(id).secret(), 1000)) << "agents know the old one";
  EXPECT_EQ(taken->id.text(), "train.1");
}

TEST_F(RunStores, TheOneThatCreatedARunIsInChargeAtOnce) {
  const auto run = store_.create(jobNamed("train"));
  ASSERT_TRUE(run);
  const Elsewhere other([&](const std::function<void()>& done) {
    const auto taken = store_.take(run->id);
    if (!taken && taken.error().code() == Code::kExists) done();
  });
}

TEST_F(RunStores, ARunThatIsNotThereCannotBeTaken) {
  EXPECT_FALSE(store_.take({.name = "train", .number = 1}));
  EXPECT_FALSE(store_.coordinator({.name = "train", .number = 1}));
}

TEST_F(RunStores, ARemovedRunLeavesNothing) {
  create("train");
  create("train");
  EXPECT_TRUE(store_.remove({.name = "train", .number = 1}));
  EXPECT_THAT(names(), ElementsAre("train.2"));
  EXPECT_THAT(listDirectory(root_ + "/state/runs"), ElementsAre("train.2"));
  const Status again = store_.remove({.name = "train", .number = 1});
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), Code::kNotFound);
}

TEST_F(RunStores, ProcessesThatCreateAtOnceGetDifferentNumbers) {
  constexpr int kProcesses = 4;
  constexpr int kRuns = 8;
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const spec::Job job = jobNamed("train");
      for (int k = 0; k < kRuns; ++k) {
        if (!store_.create(job)) _exit(1);
      }
      _exit(0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  // All of them, so no two got the same, and no number was left out.
  const auto list = store_.list();
  ASSERT_EQ(list.size(), static_cast<std::size_t>(kProcesses * kRuns));
  for (std::size_t i = 0; i < list.size(); ++i) EXPECT_EQ(list[i].number, static_cast<int>(i) + 1);
}

TEST_F(RunStores, APlaceThatCannotBeWrittenIsAnError) {
  std::ofstream(root_ + "/file") << "";
  RunStore store(root_ + "/file/state");
  const auto run = store.create(jobNamed("train"));
  ASSERT_FALSE(run);
  EXPECT_THAT(run.error().message(), HasSubstr(root_ + "/file/state"));
  EXPECT_THAT(store.list(), IsEmpty());
}

class DefaultRoot : public testing::Test {
 protected:
  DefaultRoot() {
    for (const char* name : kNames) {
      const char* value = std::getenv(name);
      before_.emplace_back(value == nullptr ? "" : value);
      unsetenv(name);
    }
  }
  ~DefaultRoot() override {
    for (std::size_t i = 0; i < before_.size(); ++i) setenv(kNames[i], before_[i].c_str(), 1);
  }

 private:
  static constexpr const char* kNames[] = {"DURE_STATE_DIR", "XDG_STATE_HOME", "HOME"};
  std::vector<std::string> before_;
};

TEST_F(DefaultRoot, IsTheMostSpecialOneThatIsSet) {
  EXPECT_EQ(RunStore::defaultRoot().error().code(), Code::kUnavailable);
  setenv("HOME", "/home/me", 1);
  EXPECT_EQ(*RunStore::defaultRoot(), "/home/me/.local/state/dure");
  setenv("XDG_STATE_HOME", "relative", 1);
  EXPECT_EQ(*RunStore::defaultRoot(), "/home/me/.local/state/dure");
  setenv("XDG_STATE_HOME", "/xdg", 1);
  EXPECT_EQ(*RunStore::defaultRoot(), "/xdg/dure");
  setenv("DURE_STATE_DIR", "/own/", 1);
  EXPECT_EQ(*RunStore::defaultRoot(), "/own");
}

TEST_F(RunStores, WhatAKilledProcessLeftHalfMadeIsRemovedLater) {
  const auto runs = std::filesystem::path(store_.paths({"x", 1}).directory).parent_path();
  for (const char* name : {".new-old", ".old-x.1-7", ".new-fresh"}) {
    ASSERT_TRUE(makeDirectories((runs / name / "tasks").string()));
  }
  const auto hours_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(2);
  std::filesystem::last_write_time(runs / ".new-old", hours_ago);
  std::filesystem::last_write_time(runs / ".old-x.1-7", hours_ago);
  spec::Job job;
  job.name = "x";
  ASSERT_TRUE(store_.create(job));
  EXPECT_FALSE(std::filesystem::exists(runs / ".new-old"));
  EXPECT_FALSE(std::filesystem::exists(runs / ".old-x.1-7"));
  EXPECT_TRUE(std::filesystem::exists(runs / ".new-fresh")) << "somebody may be at it";
}

TEST_F(RunStores, ARunThatIsNotThereIsNotSaidToBeRunning) {
  EXPECT_THAT(store_.take({.name = "train", .number = 1}).error().message(),
              testing::Not(testing::HasSubstr("still running")));
}

}  // namespace
}  // namespace dure::runs
