#include "agent/output_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <optional>

namespace dure::agent {
namespace {

using namespace std::chrono_literals;

class OutputWriterTest : public testing::Test {
 protected:
  OutputWriterTest() {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    read_.reset(ends[0]);
    write_.reset(ends[1]);
    signal(SIGPIPE, SIG_IGN);
  }

  template <typename Condition>
  static bool comes(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (!condition() && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    return condition();
  }

  std::string take(std::size_t size) const {
    std::string text(size, '\0');
    for (std::size_t at = 0; at < size;) {
      const ssize_t got = ::read(read_.get(), text.data() + at, size - at);
      if (got <= 0) return text.substr(0, at);
      at += static_cast<std::size_t>(got);
    }
    return text;
  }

  Fd read_;
  Fd write_;
  std::atomic<int> drained_{0};
};

TEST_F(OutputWriterTest, AReaderThatDoesNotReadHoldsNobodyUp) {
  OutputWriter writer(write_.get(), [this] { ++drained_; });
  std::string all;
  for (int i = 0; writer.hasRoom(); ++i) {
    const std::string part(1000, static_cast<char>('a' + i % 26));
    all += part;
    writer.write(part);
  }
  EXPECT_FALSE(writer.idle());
  EXPECT_EQ(take(all.size()), all) << "in order, and all of it";
  EXPECT_TRUE(comes([&] { return writer.idle(); }));
  EXPECT_TRUE(comes([&] { return drained_ >= 2; })) << "when there was room, and at the end";
}

TEST_F(OutputWriterTest, WhatNobodyCanReadIsDropped) {
  OutputWriter writer(write_.get(), [this] { ++drained_; });
  read_.reset();
  writer.write(std::string(100'000, 'x'));
  EXPECT_TRUE(comes([&] { return writer.idle(); }));
  writer.write("more");
  EXPECT_TRUE(writer.idle());
}

TEST_F(OutputWriterTest, FinalOutputIsWrittenIfSomebodyReads) {
  const std::string words(200'000, 'w');
  std::optional<OutputWriter> writer;
  writer.emplace(write_.get(), [] {});
  writer->write(words);
  std::string got;
  std::jthread reader([&] { got = take(words.size()); });
  writer.reset();
  write_.reset();
  reader.join();
  EXPECT_EQ(got, words);
}

TEST_F(OutputWriterTest, AndAreGivenUpIfNobodyDoes) {
  const auto began = std::chrono::steady_clock::now();
  {
    OutputWriter writer(write_.get(), [] {});
    writer.write(std::string(200'000, 'w'));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - began, 20s);
}

}  // namespace
}  // namespace dure::agent
