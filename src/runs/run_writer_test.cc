#include "runs/run_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "runs/run_reader.h"

namespace dure::runs {
namespace {

using nlohmann::json;
using testing::ElementsAre;

class RunWriters : public testing::Test {
 protected:
  ~RunWriters() override { static_cast<void>(removeTree(paths_.directory)); }
  std::unique_ptr<RunWriter> open() {
    auto writer = RunWriter::open(paths_, clock_);
    EXPECT_TRUE(writer);
    return *std::move(writer);
  }
  gang::Entry make(gang::EntryKind kind) const {
    gang::Entry entry{.kind = kind};
    entry.time = clock_.now();
    return entry;
  }
  std::vector<gang::EntryKind> kinds() const {
    std::vector<gang::EntryKind> all;
    for (const gang::Entry& entry : readEntries(paths_.events())) all.push_back(entry.kind);
    return all;
  }
  std::string content(const std::string& path) const { return *readFile(path, 1u << 20u); }
  std::vector<json> metrics() const {
    std::vector<json> all;
    for (const std::string& line : split(content(paths_.metrics()), '\n')) {
      if (!line.empty()) all.push_back(json::parse(line));
    }
    return all;
  }

 private:
  static std::string makeDirectory() {
    std::string name = testing::TempDir() + "dure-writer-XXXXXX";
    return mkdtemp(name.data());
  }

 protected:
  FakeClock clock_;
  const RunPaths paths_{makeDirectory()};
};

TEST_F(RunWriters, AnEventIsReadableAsSoonAsItIsAppended) {
  const auto writer = open();
  ASSERT_TRUE(writer->append(make(gang::EntryKind::kCreated)));
  EXPECT_THAT(kinds(), ElementsAre(gang::EntryKind::kCreated));
  gang::Entry exited = make(gang::EntryKind::kExited);
  exited.rank = 3;
  exited.signal = 9;
  ASSERT_TRUE(writer->append(exited));
  const auto entries = readEntries(paths_.events());
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[1].rank, 3);
  EXPECT_EQ(entries[1].signal, 9);
  EXPECT_EQ(entries[1].time, clock_.now());
}

TEST_F(RunWriters, ACrashCostsAtMostTheLineBeingWritten) {
  ASSERT_TRUE(open()->append(make(gang::EntryKind::kCreated)));
  ASSERT_TRUE(open()->append(make(gang::EntryKind::kStarting)));
  const std::string whole = content(paths_.events());
  const std::size_t first = whole.find('\n') + 1;
  for (std::size_t size = first; size < whole.size(); ++size) {
    std::ofstream(paths_.events()) << whole.substr(0, size);
    EXPECT_THAT(kinds(), testing::Contains(gang::EntryKind::kCreated)) << "whoever reads it now";
    ASSERT_TRUE(open()->append(make(gang::EntryKind::kResumed)));
    EXPECT_THAT(kinds(), ElementsAre(gang::EntryKind::kCreated, gang::EntryKind::kResumed)) << size;
  }
}

TEST_F(RunWriters, LinesThatAreNoEventsArePassedOver) {
  ASSERT_TRUE(open()->append(make(gang::EntryKind::kCreated)));
  {
    std::ofstream file(paths_.events(), std::ios::app);
    file << "{\"event\":\"invented later\",\"time\":\"2030-01-01T00:00:00.000Z\"}\n"
         << "not json\n\n3\n[]\nnull\n\"text\"\n{}\n{\"event\":\"running\"}\n"
         << "{\"event\":\"running\",\"time\":5}\n{\"event\":\"running\",\"time\":\"x\",\"rank\":"
            "\"y\"}\n"
         << "\xff\xfe\n"
         << std::string(100'000, '[') << "\n";
  }
  ASSERT_TRUE(open()->append(make(gang::EntryKind::kRunning)));
  EXPECT_THAT(kinds(), ElementsAre(gang::EntryKind::kCreated, gang::EntryKind::kRunning));
}

TEST_F(RunWriters, FieldsOfALaterVersionDoNotHideAnEvent) {
  std::ofstream(paths_.events())
      << "{\"event\":\"running\",\"time\":\"2030-01-01T00:00:00.000Z\",\"new\":{\"deep\":[1]}}\n";
  EXPECT_THAT(kinds(), ElementsAre(gang::EntryKind::kRunning));
}

TEST_F(RunWriters, TheOutputOfEachRankAndGenerationHasItsFile) {
  const auto writer = open();
  ASSERT_TRUE(writer->output(1, 0, "a\nb\n"));
  ASSERT_TRUE(writer->output(1, 1, "c\n"));
  ASSERT_TRUE(writer->output(1, 0, std::string("\xff\0\n", 3)));
  ASSERT_TRUE(writer->output(2, 0, "d\n"));
  EXPECT_EQ(content(paths_.log(1, 0)), std::string("a\nb\n\xff\0\n", 7));
  EXPECT_EQ(content(paths_.log(1, 1)), "c\n");
  EXPECT_EQ(content(paths_.log(2, 0)), "d\n");
}

TEST_F(RunWriters, OutputThatCannotBeKeptIsAnError) {
  const auto writer = open();
  std::ofstream(paths_.directory + "/logs") << "in the way";
  EXPECT_FALSE(writer->output(1, 0, "a\n"));
  EXPECT_FALSE(writer->output(1, 0, "a\n")) << "and stays one";
}

TEST_F(RunWriters, AMetricIsKeptWithWhoSaidItAndWhen) {
  ASSERT_TRUE(open()->metric(2, 1, R"({"step": 5, "loss": 0.25})"));
  EXPECT_THAT(metrics(), ElementsAre(json{{"step", 5},
                                          {"loss", 0.25},
                                          {"time", formatTime(clock_.now())},
                                          {"generation", 2},
                                          {"rank", 1}}));
}

TEST_F(RunWriters, AMetricCannotPretendToBeOfAnotherRank) {
  ASSERT_TRUE(open()->metric(2, 1, R"({"rank": 0, "generation": "x", "time": null})"));
  EXPECT_EQ(metrics().at(0).at("rank"), 1);
  EXPECT_EQ(metrics().at(0).at("generation"), 2);
}

TEST_F(RunWriters, AMetricThatIsNoObjectIsKeptAsText) {
  const auto writer = open();
  for (const char* line : {"loss 3", "[1,2]", "3", "null", "", "{\"cut", "{\"loss\": NaN}"}) {
    ASSERT_TRUE(writer->metric(1, 0, line));
    EXPECT_EQ(metrics().back().at("text"), line);
    EXPECT_EQ(metrics().back().at("rank"), 0);
  }
  ASSERT_TRUE(writer->metric(1, 0, "\xff{"));
  EXPECT_EQ(metrics().back().at("text"), "\xEF\xBF\xBD{");
}

TEST_F(RunWriters, ARecordThatCannotBeOpenedIsAnError) {
  const auto writer = RunWriter::open({paths_.directory + "/missing"}, clock_);
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code(), Code::kNotFound);
}

TEST_F(RunWriters, LogsAreWrittenThoughThereAreNoDescriptorsLeft) {
  const auto writer = open();
  ASSERT_TRUE(writer->output(1, 0, "before\n"));
  // All that there are. They are closed again before anything else needs one.
  std::vector<Fd> taken;
  rlimit given{};
  getrlimit(RLIMIT_NOFILE, &given);
  rlimit few = given;
  few.rlim_cur = 256;
  setrlimit(RLIMIT_NOFILE, &few);
  for (Fd fd(dup(0)); fd; fd = Fd(dup(0))) taken.push_back(std::move(fd));
  std::vector<bool> kept;
  for (int rank = 1; rank < 20; ++rank) kept.push_back(bool(writer->output(1, rank, "line\n")));
  kept.push_back(bool(writer->output(1, 0, "after\n")));
  taken.clear();
  setrlimit(RLIMIT_NOFILE, &given);
  EXPECT_THAT(kept, testing::Each(true));
  EXPECT_EQ(*readFile(paths_.log(1, 0), 100), "before\nafter\n");
  EXPECT_EQ(*readFile(paths_.log(1, 19), 100), "line\n");
}

}  // namespace
}  // namespace dure::runs
