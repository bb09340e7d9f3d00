#include "agent/line_pipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/files.h"

namespace dure::agent {
namespace {

using testing::ElementsAre;

class LinePipeTest : public testing::Test {
 protected:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    writer.reset(ends[1]);
    reader = std::make_shared<LinePipe>(
        loop, Fd(ends[0]), [this](std::string_view lines) { got.emplace_back(lines); });
    reader->start([this] { return wanted; }, [this] { ++reads; });
  }
  void write(std::string_view text) { ASSERT_TRUE(writeAll(writer.get(), text)); }
  void run() {
    loop.restart();
    loop.poll();
  }

  asio::io_context loop;
  Fd writer;
  std::shared_ptr<LinePipe> reader;
  std::vector<std::string> got;
  bool wanted = true;
  int reads = 0;
};

TEST_F(LinePipeTest, OnlyWholeLinesAreHandedOn) {
  write("one\ntwo\nthr");
  run();
  EXPECT_THAT(got, ElementsAre("one\ntwo\n"));
  write("ee\n");
  run();
  EXPECT_THAT(got, ElementsAre("one\ntwo\n", "three\n"));
}

TEST_F(LinePipeTest, AnUnfinishedLineIsHandedOnAtTheEnd) {
  write("no newline");
  run();
  EXPECT_THAT(got, ElementsAre());
  writer.reset();
  run();
  EXPECT_THAT(got, ElementsAre("no newline\n"));
  EXPECT_TRUE(reader->empty());
}

TEST_F(LinePipeTest, ABarThatIsRedrawnIsSeenWhileItGrows) {
  write("10%\r20%\r30%");
  run();
  EXPECT_THAT(got, ElementsAre("10%\r20%\r"));
}

TEST_F(LinePipeTest, AWindowsLineEndIsNotCutInTwo) {
  write("line\r");
  run();
  EXPECT_THAT(got, ElementsAre());
  write("\n");
  run();
  EXPECT_THAT(got, ElementsAre("line\r\n"));
}

TEST_F(LinePipeTest, NothingIsReadWhileNobodyWantsIt) {
  run();
  wanted = false;
  write("first\n");
  run();  // the wait that was under way still delivers
  write("second\n");
  run();
  EXPECT_THAT(got, ElementsAre("first\n"));
  EXPECT_FALSE(reader->empty());
  wanted = true;
  reader->resume();
  run();
  EXPECT_THAT(got, ElementsAre("first\n", "second\n"));
  EXPECT_EQ(reads, 2);
}

TEST_F(LinePipeTest, AfterAbandonNothingIsHandedOn) {
  write("late\n");
  reader->abandon();
  run();
  EXPECT_THAT(got, ElementsAre());
}

}  // namespace
}  // namespace dure::agent
