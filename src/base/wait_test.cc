#include "base/wait.h"

#include <gtest/gtest.h>

#include <thread>

namespace dure {
namespace {

using namespace std::chrono_literals;

TEST(Wait, LastsAsLongAsItTakesByDefault) {
  const Wait wait;
  EXPECT_FALSE(wait.isOver());
  EXPECT_TRUE(wait.pause(1ms));
}

TEST(Wait, EndsAtItsDeadlineWhateverPauseIsAskedFor) {
  const auto began = std::chrono::steady_clock::now();
  const Wait wait(20ms);
  EXPECT_FALSE(wait.isOver());
  EXPECT_FALSE(wait.pause(1h));
  EXPECT_TRUE(wait.isOver());
  EXPECT_GE(std::chrono::steady_clock::now() - began, 20ms);
}

TEST(Wait, EndsWhenItIsAskedTo) {
  std::stop_source source;
  const Wait wait(source.get_token());
  std::jthread later([&] {
    std::this_thread::sleep_for(5ms);
    source.request_stop();
  });
  EXPECT_FALSE(wait.pause(1h));
  EXPECT_TRUE(wait.isOver());
  EXPECT_FALSE(sleepFor(1h, source.get_token()));
}

}  // namespace
}  // namespace dure
