#include "backend/local/ports.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace dure::local {
namespace {

// Somebody who listens on a port of this machine.
Fd listenOn(int port) {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(listen(fd.get(), 1), 0);
  return fd;
}

class Ports : public testing::Test {
 protected:
  ~Ports() override { freeElsewhere(); }
  int find(const std::string& name, int count) const {
    const auto range = findPorts(name, count, false);
    return range ? range->first : -1;
  }
  // Another process reserves them and keeps them; returns the first.
  int reserveElsewhere(const std::string& name, int count) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    other_ = fork();
    if (other_ == 0) {
      const auto range = findPorts(name, count, true);
      const int first = range ? range->first : -1;
      if (write(ends[1], &first, sizeof first) != sizeof first) _exit(1);
      while (true) pause();
    }
    close(ends[1]);
    const Fd in(ends[0]);
    int first = -1;
    EXPECT_EQ(read(in.get(), &first, sizeof first), static_cast<ssize_t>(sizeof first));
    return first;
  }
  void freeElsewhere() {
    if (other_ <= 0) return;
    kill(other_, SIGKILL);
    waitpid(other_, nullptr, 0);
    other_ = 0;
  }

 private:
  pid_t other_ = 0;

 protected:
  // Its own, so that two of these tests at once do not get in each other's way.
  const std::string name_ = "train-" + std::to_string(getpid());
};

TEST_F(Ports, TheSameQuestionHasTheSameAnswer) {
  const int first = find(name_, 3);
  EXPECT_GT(first, 1024);
  EXPECT_EQ(find(name_, 3), first);
}

TEST_F(Ports, WhatIsAnnouncedIsWhatIsReserved) {
  const int announced = find(name_, 3);
  EXPECT_EQ(reserveElsewhere(name_, 3), announced);
}

TEST_F(Ports, AnyPortOfTheRangeThatIsInUseMovesIt) {
  const int first = find(name_, 3);
  for (int offset = 0; offset < 3; ++offset) {
    const Fd busy = listenOn(first + offset);
    const int other = find(name_, 3);
    EXPECT_NE(other, first);
    EXPECT_TRUE(other + 3 <= first + offset || other > first + offset);
  }
  EXPECT_EQ(find(name_, 3), first);
  const Fd beyond = listenOn(first + 3);
  EXPECT_EQ(find(name_, 3), first) << "the next port is not asked for";
}

TEST_F(Ports, WhatAnotherRunHasReservedIsLeftToIt) {
  const int theirs = reserveElsewhere(name_, 3);
  const int ours = find(name_, 3);
  EXPECT_NE(ours, theirs);
  const auto reserved = findPorts(name_, 3, true);
  ASSERT_TRUE(reserved);
  EXPECT_EQ(reserved->first, ours);
}

TEST_F(Ports, AWideReservationIsKeptInAllItsLength) {
  const int theirs = reserveElsewhere(name_, 100);
  const int ours = find(name_, 5);
  EXPECT_TRUE(ours + 5 <= theirs || ours >= theirs + 100) << ours << " in " << theirs;
  const int wide = find(name_, 100);
  EXPECT_TRUE(wide + 100 <= theirs || wide >= theirs + 100) << wide << " in " << theirs;
}

TEST_F(Ports, AReservationEndsWithItsProcess) {
  const int theirs = reserveElsewhere(name_, 3);
  EXPECT_NE(find(name_, 3), theirs);
  freeElsewhere();
  EXPECT_EQ(find(name_, 3), theirs);
}

TEST_F(Ports, AReservationEndsWithItsObject) {
  int first = 0;
  {
    const auto range = findPorts(name_, 3, true);
    ASSERT_TRUE(range);
    first = range->first;
    EXPECT_NE(reserveElsewhere(name_, 3), first);
    freeElsewhere();
  }
  EXPECT_EQ(reserveElsewhere(name_, 3), first);
}

TEST_F(Ports, MoreThanThereAreIsUnavailable) {
  const auto range = findPorts(name_, 60'000, false);
  ASSERT_FALSE(range);
  EXPECT_EQ(range.error().code(), Code::kUnavailable);
  EXPECT_THAT(range.error().message(), testing::HasSubstr("60000"));
}

TEST_F(Ports, RangesStayBelowThoseThatTheSystemGivesOut) {
  for (int i = 0; i < 200; ++i) {
    const int first = find("job-" + std::to_string(i), 40);
    EXPECT_GE(first, 20'000);
    EXPECT_LE(first + 40, 32'000);
  }
}

}  // namespace
}  // namespace dure::local
