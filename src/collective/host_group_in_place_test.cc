#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/sanitizers.h"
#include "collective/registered_memory.h"
#include "collective/test_members.h"
#include "collective/test_reference.h"

namespace dure::collective {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kPage = 4096;

// Numbers in registered memory, which in every member begin at another offset in a page.
class Numbers {
 public:
  Numbers(int member, std::size_t bytes, bool registers = true)
      : room_(bytes + 2 * kPage), bytes_(bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(room_.data());
    begin_ = room_.data() + (kPage - address % kPage) + static_cast<std::size_t>(member) * 1048;
    if (!registers) return;
    auto registered = RegisteredMemory::registerRange(data());
    if (registered) registered_ = std::move(*registered);
  }
  std::span<std::byte> data() const { return {begin_, bytes_}; }
  bool isRegistered() const { return registered_ != nullptr; }
  void operator=(const Bytes& bytes) { std::memcpy(begin_, bytes.data(), bytes_); }
  bool operator==(const Bytes& bytes) const {
    return bytes.size() == bytes_ && std::memcmp(begin_, bytes.data(), bytes_) == 0;
  }

 private:
  Bytes room_;  // before registered_, which ends first
  const std::size_t bytes_;
  std::byte* begin_;
  std::unique_ptr<RegisteredMemory> registered_;
};

// Every operation that can be done in place, against the reference; returns the name of the one
// that is wrong.
std::string wrongInPlace(HostGroup& group, Number number, Reduction reduction, std::size_t count,
                         bool all_alike = false) {
  const auto me = static_cast<std::size_t>(group.member());
  const auto inputs = reference::inputsFor(number, count, group.size());
  const Bytes expected = reference::reduce(number, reduction, inputs);
  Numbers numbers(all_alike ? 1 : group.member(), expected.size());
  if (!numbers.isRegistered()) return "registerRange";
  const std::int64_t before = group.doneInPlace();

  numbers = inputs[me];
  if (!group.allReduce(numbers.data(), number, reduction)) return "allReduce";
  if (!(numbers == expected)) return "allReduce's result";

  const int root = group.size() - 1;
  numbers = inputs[me];
  if (!group.reduce(numbers.data(), number, reduction, root)) return "reduce";
  if (group.member() == root && !(numbers == expected)) return "reduce's result";

  numbers = inputs[me];
  if (!group.broadcast(numbers.data(), root)) return "broadcast";
  if (!(numbers == inputs[static_cast<std::size_t>(root)])) return "broadcast's result";
  return group.doneInPlace() == before + 3 ? "" : "not in place";
}

TEST(HostGroupInPlace, EveryNumberAndReduction) {
  for (const int members : {2, 3}) {
    runAsThreads(members, [](HostGroup& group) {
      for (const Number number : reference::kNumbers) {
        for (const Reduction reduction : reference::kReductions) {
          EXPECT_EQ(wrongInPlace(group, number, reduction, 140'001), "")
              << "number " << static_cast<int>(number);
        }
      }
    });
  }
}

TEST(HostGroupInPlace, AsProcesses) {
  for (int members = 2; members <= 5; ++members) {
    runAsProcesses(members, [](HostGroup& group) {
      for (const std::size_t count : {16'384u, 32'768u, 32'769u, 65'537u, 600'001u}) {
        for (const bool all_alike : {true, false}) {
          const auto wrong =
              wrongInPlace(group, Number::kFloat32, Reduction::kSum, count, all_alike);
          if (!wrong.empty()) return 1;
        }
      }
      return 0;
    });
  }
}

TEST(HostGroupInPlace, OverOneMapping) {
  runOverOneMapping(3, [](HostGroup& group) {
    for (int turn = 0; turn < 20; ++turn) {
      EXPECT_EQ(wrongInPlace(group, Number::kInt64, Reduction::kSum, 30'000), "");
    }
  });
}

TEST(HostGroupInPlace, PartsOfARegisteredBuffer) {
  constexpr std::size_t kMany = 500'000;
  runAsProcesses(3, [](HostGroup& group) {
    const auto me = static_cast<std::size_t>(group.member());
    const auto inputs = reference::inputsFor(Number::kFloat32, kMany, 3);
    const Bytes expected = reference::reduce(Number::kFloat32, Reduction::kSum, inputs);
    Numbers numbers(group.member(), expected.size());
    numbers = inputs[me];
    const std::size_t ends[] = {0, 400'000, 460'000, 1'300'004, expected.size()};
    for (std::size_t part = 4; part-- > 0;) {
      const auto data = numbers.data().subspan(ends[part], ends[part + 1] - ends[part]);
      if (!group.allReduce(data, Number::kFloat32, Reduction::kSum)) return 1;
    }
    if (!(numbers == expected)) return 2;
    return group.doneInPlace() == 3 ? 0 : 3;  // one part is too small
  });
}

TEST(HostGroupInPlace, AllCopyIfOneBufferIsNotRegistered) {
  runAsProcesses(3, [](HostGroup& group) {
    const auto me = static_cast<std::size_t>(group.member());
    const auto inputs = reference::inputsFor(Number::kFloat32, 100'000, 3);
    const Bytes expected = reference::reduce(Number::kFloat32, Reduction::kSum, inputs);
    Numbers with(group.member(), expected.size());
    Numbers without(group.member(), expected.size(), false);
    for (int turn = 0; turn < 50; ++turn) {
      Numbers& numbers = turn % 4 == group.member() ? without : with;
      numbers = inputs[me];
      if (!group.allReduce(numbers.data(), Number::kFloat32, Reduction::kSum)) return 1;
      if (!(numbers == expected)) return 2;
    }
    return group.doneInPlace() == 12 ? 0 : 3;  // in the turns that are nobody's
  });
}

// One member that says so is enough, so that nobody waits for another who does it otherwise.
TEST(HostGroupInPlace, AllCopyIfZeroCopyIsOff) {
  for (const bool everywhere : {true, false}) {
    runAsProcesses(3, [everywhere](HostGroup& group) {
      if (everywhere || group.member() == 1) setenv("DURE_ZERO_COPY", "0", 1);
      const auto me = static_cast<std::size_t>(group.member());
      const auto inputs = reference::inputsFor(Number::kFloat32, 100'000, 3);
      const Bytes expected = reference::reduce(Number::kFloat32, Reduction::kSum, inputs);
      Numbers numbers(group.member(), expected.size());
      if (numbers.isRegistered() == (everywhere || group.member() == 1)) return 1;
      for (int turn = 0; turn < 5; ++turn) {
        numbers = inputs[me];
        if (!group.allReduce(numbers.data(), Number::kFloat32, Reduction::kSum)) return 2;
        if (!(numbers == expected)) return 3;
      }
      return group.doneInPlace() == 0 ? 0 : 4;
    });
  }
}

TEST(HostGroupInPlace, AllCopyIfOneCannotBeOpened) {
  runAsProcesses(3, [](HostGroup& group) {
    const auto me = static_cast<std::size_t>(group.member());
    const auto inputs = reference::inputsFor(Number::kFloat32, 100'000, 3);
    const Bytes expected = reference::reduce(Number::kFloat32, Reduction::kSum, inputs);
    Numbers numbers(group.member(), expected.size());
    // Where the others look for the file of this member there is something else.
    const int null = open("/dev/null", O_RDWR);
    if (group.member() == 1) dup2(null, registeredFile().descriptor);
    for (int turn = 0; turn < 5; ++turn) {
      numbers = inputs[me];
      if (!group.allReduce(numbers.data(), Number::kFloat32, Reduction::kSum)) return 1;
      if (!(numbers == expected)) return 2;
    }
    return group.doneInPlace() == 0 ? 0 : 3;
  });
}

TEST(HostGroupInPlace, MemoryThatIsFreedAndUsedAgainIsNotMistaken) {
  runAsProcesses(2, [](HostGroup& group) {
    const auto mappings = [] {
      std::ifstream maps("/proc/self/maps");
      return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
    };
    std::int64_t first = 0;
    for (std::int64_t turn = 0; turn < 500; ++turn) {
      // Freed while the other may still be on its way out of the all-reduce before.
      Numbers numbers(group.member(), (40'000 + static_cast<std::size_t>(turn % 7) * 1000) * 8);
      const std::span<std::int64_t> values(reinterpret_cast<std::int64_t*>(numbers.data().data()),
                                           numbers.data().size() / 8);
      for (int again = 0; again < 2; ++again) {
        std::fill(values.begin(), values.end(), turn * (group.member() + 1) + again);
        if (!group.allReduce(numbers.data(), Number::kInt64, Reduction::kSum)) return 1;
        const auto right = [&](std::int64_t value) { return value == turn * 3 + again * 2; };
        if (!std::all_of(values.begin(), values.end(), right)) return 2;
      }
      if (turn == 50) first = mappings();
    }
    if (group.doneInPlace() != 1000) return 3;
#if DURE_ADDRESS_SANITIZER
    return 0;  // its allocator uses no memory again for long, and what a fork has left in pieces
               // stays so
#endif
    return mappings() < first + 100 ? 0 : 4;
  });
}

TEST(HostGroupInPlace, AKilledMemberFailsTheOthersAndTheirMemoryIsTheirsAgain) {
  for (const int members : {2, 4}) {
    const std::string key = freshKey();
    std::vector<pid_t> processes;
    for (int member = 0; member < members; ++member) {
      processes.push_back(forkProcess([&] {
        auto group = HostGroup::join(optionsFor(key, member, members));
        if (!group) return 98;
        Numbers numbers(member, 4'000'000);
        for (int turn = 0;; ++turn) {
          if (member == 1 && turn == 30) {
            // Somewhere in an all-reduce, if another thread says when.
            std::thread([] {
              std::this_thread::sleep_for(std::chrono::microseconds(700));
              raise(SIGKILL);
            }).detach();
          }
          const Status status =
              (*group)->allReduce(numbers.data(), Number::kFloat32, Reduction::kSum);
          if (status) continue;
          if (status.error().message() != "rank 1 is gone") return 1;
          if (findRegistered(numbers.data().subspan(kPage, kPage))) return 2;
          return (*group)->doneInPlace() >= 30 ? 0 : 3;
        }
      }));
    }
    for (int member = 0; member < members; ++member) {
      const auto status = waitForProcess(processes[static_cast<std::size_t>(member)]);
      EXPECT_EQ(describeExit(status), member == 1 ? "was killed by SIGKILL" : "exited with 0");
    }
  }
}

}  // namespace
}  // namespace dure::collective
