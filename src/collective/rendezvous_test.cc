#include "collective/rendezvous.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>

#include "collective/greeting.h"
#include "collective/test_members.h"

namespace dure::collective {
namespace {

constexpr uid_t kNobody = 65534;

RendezvousOptions rendezvousFor(const std::string& key, int member, int members,
                                Duration timeout = Duration(10'000)) {
  return {.key = key,
          .member = member,
          .ranks = optionsFor(key, member, members).ranks,
          .slot_bytes = 4096,
          .timeout = timeout};
}

sockaddr_un addressOf(const std::string& name, socklen_t& size) {
  sockaddr_un address{.sun_family = AF_UNIX};
  std::memcpy(address.sun_path, name.data(), name.size());
  size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  return address;
}

// A socket that is connected to that name, as soon as someone waits there.
Fd connectTo(const std::string& name) {
  socklen_t size = 0;
  const sockaddr_un address = addressOf(name, size);
  while (true) {
    Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0) return fd;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(Rendezvous, EveryoneGetsTheSameMemory) {
  const std::string key = freshKey();
  ino_t inodes[3] = {};
  std::vector<Rendezvous> all(3);  // they outlive those of the others
  std::vector<std::jthread> threads;
  for (int member = 0; member < 3; ++member) {
    threads.emplace_back([&, member] {
      auto rendezvous = joinRendezvous(rendezvousFor(key, member, 3));
      ASSERT_TRUE(rendezvous) << rendezvous.error().message();
      EXPECT_EQ(rendezvous->others.size(), member == 0 ? 2u : 1u);
      struct stat info {};
      fstat(rendezvous->memory.get(), &info);
      inodes[member] = info.st_ino;
      all[static_cast<std::size_t>(member)] = std::move(*rendezvous);
    });
  }
  threads.clear();
  EXPECT_EQ(inodes[0], inodes[1]);
  EXPECT_EQ(inodes[0], inodes[2]);
}

TEST(Rendezvous, WhoDoesNotComeIsNamed) {
  const std::string key = freshKey();
  auto waits = joinRendezvous(rendezvousFor(key, 0, 3, Duration(100)));
  ASSERT_FALSE(waits);
  EXPECT_EQ(waits.error().code(), Code::kUnavailable);
  EXPECT_EQ(waits.error().message(), "timed out after 0.1 s waiting for rank 1, 2");
  auto comes = joinRendezvous(rendezvousFor(key, 1, 3, Duration(100)));
  ASSERT_FALSE(comes);
  EXPECT_EQ(comes.error().message(), "timed out after 0.1 s waiting for rank 0");
}

// What both get when member 1 comes with this.
void expectRefused(const JoinRequest& request, const std::string& sentence) {
  const std::string key = freshKey();
  const std::jthread host([&] {
    auto rendezvous = joinRendezvous(rendezvousFor(key, 0, 2));
    ASSERT_FALSE(rendezvous);
    EXPECT_EQ(rendezvous.error().message(), sentence);
  });
  const Fd fd = connectTo(rendezvousName(key, geteuid()));
  ASSERT_GT(send(fd.get(), &request, sizeof request, 0), 0);
  auto answer = receiveAnswer(fd.get());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Code::kInvalid);
  EXPECT_EQ(answer.error().message(), sentence);
}

TEST(Rendezvous, MembersThatDoNotFitAreRefused) {
  const JoinRequest good{.member = 1, .members = 2, .slot_bytes = 4096};
  JoinRequest request = good;
  request.members = 3;
  expectRefused(request, "one member says that this host has 2 of them, another 3");
  request = good;
  request.member = 0;
  expectRefused(request, "member 0 of this host joined twice");
  request = good;
  request.layout = kLayout + 1;
  expectRefused(request, "a member of this host is of another version");
  request = good;
  request.slot_bytes = 8192;
  expectRefused(request, "a member of this host is of another version");
}

TEST(Rendezvous, AnotherUserGetsNothingAndDisturbsNobody) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may become another user";
  const std::string key = freshKey();
  const pid_t stranger = forkProcess([&] {
    if (setuid(kNobody) != 0) return 9;
    const Fd fd = connectTo(rendezvousName(key, 0));
    const JoinRequest request{.member = 1, .members = 2, .slot_bytes = 4096};
    (void)send(fd.get(), &request, sizeof request, MSG_NOSIGNAL);
    return receiveAnswer(fd.get()) ? 1 : 0;
  });
  const pid_t host = forkProcess([&] {
    auto group = HostGroup::join(optionsFor(key, 0, 2));
    return group && (*group)->barrier() ? 0 : 1;
  });
  EXPECT_EQ(describeExit(waitForProcess(stranger)), "exited with 0");
  const pid_t member = forkProcess([&] {
    auto group = HostGroup::join(optionsFor(key, 1, 2));
    return group && (*group)->barrier() ? 0 : 1;
  });
  EXPECT_EQ(describeExit(waitForProcess(host)), "exited with 0");
  EXPECT_EQ(describeExit(waitForProcess(member)), "exited with 0");
}

TEST(Rendezvous, AnotherUserUnderTheNameIsNotTrusted) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may become another user";
  const std::string key = freshKey();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t stranger = forkProcess([&] {
    if (setuid(kNobody) != 0) return 9;
    const Fd fd(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    socklen_t size = 0;
    const sockaddr_un address = addressOf(rendezvousName(key, 0), size);
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) return 8;
    if (listen(fd.get(), 5) != 0 || write(ready[1], "x", 1) != 1) return 7;
    pause();
    return 0;
  });
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  auto rendezvous = joinRendezvous(rendezvousFor(key, 1, 2));
  ASSERT_FALSE(rendezvous);
  EXPECT_EQ(rendezvous.error().code(), Code::kDenied);
  EXPECT_EQ(rendezvous.error().message(),
            "join rank 0 of this host: user 65534 listens at its address");
  kill(stranger, SIGKILL);
  waitForProcess(stranger);
  close(ready[0]);
  close(ready[1]);
}

TEST(Rendezvous, OneThatDiesWhileOthersAreAwaitedIsNoticed) {
  const std::string key = freshKey();
  const pid_t victim =
      forkProcess([&] { return joinRendezvous(rendezvousFor(key, 1, 3)) ? 0 : 1; });
  auto rendezvous = joinRendezvous(rendezvousFor(key, 0, 3));
  ASSERT_FALSE(rendezvous);
  EXPECT_EQ(rendezvous.error().message(), "rank 1 is gone");
  EXPECT_EQ(describeExit(waitForProcess(victim)), "exited with 0");
}

TEST(Rendezvous, MemoryThatCouldShrinkIsNotMapped) {
  const Fd memory(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(memory.get(), 1 << 20), 0);
  EXPECT_FALSE(SharedMemory::map(memory, 2, 4096));
  auto good = SharedMemory::create(2, 4096);
  ASSERT_TRUE(good);
  EXPECT_FALSE(SharedMemory::map(*good, 3, 4096));
  EXPECT_NE(ftruncate(good->get(), 4096), 0);
}

TEST(Rendezvous, NothingIsLeftInTheFileSystem) {
  const auto entries = [] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      if (entry.path().filename().string().find("dure") != std::string::npos) {
        names.push_back(entry.path());
      }
    }
    return names;
  };
  runAsThreads(2, [&](HostGroup& group) {
    EXPECT_TRUE(group.barrier());
    EXPECT_TRUE(entries().empty());
  });
}

}  // namespace
}  // namespace dure::collective
