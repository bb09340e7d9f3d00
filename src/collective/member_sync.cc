#include "collective/member_sync.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "base/text.h"

namespace dure::collective {
namespace {

using SteadyClock = std::chrono::steady_clock;

// How long a member stays awake that has a processor of its own: longer than a part of a large
// all-reduce takes the others, since waking up costs more than that.
constexpr std::chrono::microseconds kAwake{100};
// How often one without lets the others run before it sleeps. Yielding is cheaper than sleeping and
// being woken, but gives the processor to any other program that wants it, too.
constexpr int kYields = 4;
// Members that only yield to each other stay on one processor, even if another is idle. Every so
// many times one sleeps instead: who is woken is put where there is room.
constexpr unsigned kTogether = 16;
// After so long it is worth asking whether the others still live.
constexpr std::chrono::milliseconds kSleep{50};

// MemberSync wrap around: what is less than half the numbers ahead is later.
bool reached(std::uint32_t step, std::uint32_t wanted) {
  return static_cast<std::int32_t>(step - wanted) >= 0;
}

void pauseProcessor() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* timeout) {
  static_assert(sizeof word == sizeof(std::uint32_t));
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout,
                 nullptr, 0);
}

void wakeAll(std::atomic<std::uint32_t>& word) { futex(word, FUTEX_WAKE, INT_MAX, nullptr); }

void addProcessors(MemoryHeader& header) {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  if (sched_getaffinity(0, sizeof mine, &mine) != 0) return;
  for (std::size_t i = 0; i < MemoryHeader::kProcessors; ++i) {
    if (CPU_ISSET(i, &mine)) header.processors[i / 64].fetch_or(1ULL << (i % 64));
  }
}

int countProcessors(const MemoryHeader& header) {
  int count = 0;
  for (const auto& word : header.processors) count += std::popcount(word.load());
  return count;
}

}  // namespace

MemberSync::MemberSync(std::shared_ptr<SharedMemory> memory, int member, std::vector<int> ranks,
                       Duration timeout)
    : memory_(std::move(memory)),
      member_(member),
      ranks_(std::move(ranks)),
      timeout_(timeout),
      pid_(getpid()) {
  addProcessors(memory_->header());
  memory_->line(member_).pid.store(pid_);
}

MemberSync::~MemberSync() {
  if (getpid() != pid_) return;
  memory_->line(member_).left.store(1);
  wakeAll(memory_->line(member_).step);
}

void MemberSync::watch(int member, Fd fd) { watched_.push_back({member, std::move(fd)}); }

void MemberSync::start() {
  for (int member = 0; member < memory_->members(); ++member) {
    if (member == member_) continue;
    // Where the system has no such descriptors, what was given to watch() must do. They are better,
    // since a child of the member may hold the other end of a socket after the member's death.
    Fd fd(static_cast<int>(syscall(SYS_pidfd_open, memory_->line(member).pid.load(), 0)));
    if (fd) watch(member, std::move(fd));
  }
  crowded_ = memory_->members() > countProcessors(memory_->header());
}

void MemberSync::post(std::uint32_t step) {
  MemberLine& line = memory_->line(member_);
  line.processor.store(sched_getcpu(), std::memory_order_relaxed);
  // In one order with the sleepers' counting and second look, so that none sleeps through it.
  line.step.store(step, std::memory_order_seq_cst);
  if (memory_->sleepers(member_).count.load(std::memory_order_seq_cst) > 0) wakeAll(line.step);
}

Status MemberSync::wait(std::uint32_t step) {
  for (int member = 0; member < memory_->members(); ++member) {
    if (member == member_) continue;
    if (reached(memory_->line(member).step.load(std::memory_order_acquire), step)) continue;
    if (auto status = waitFor(member, step); !status) return status;
  }
  return {};
}

Status MemberSync::waitFor(int member, std::uint32_t step) {
  const auto began = SteadyClock::now();
  MemberLine& line = memory_->line(member);
  if (stayAwake(line, step)) return {};
  auto checked = began;
  while (true) {
    const std::uint32_t seen = line.step.load(std::memory_order_acquire);
    if (reached(seen, step)) return {};
    if (memory_->header().failure.load(std::memory_order_acquire) == 2) {
      return Error(Code::kUnavailable, std::string(memory_->header().text));
    }
    if (line.left.load() != 0) {
      // It may have done its last step between the two looks.
      if (reached(line.step.load(std::memory_order_acquire), step)) return {};
      return fail(ended(member));
    }
    const auto now = SteadyClock::now();
    if (now - checked >= kSleep) {
      if (auto status = checkMembers(member); !status) return status;
      checked = now;
    }
    if (now - began >= timeout_) {
      return fail(Error(Code::kUnavailable, fmt::format("timed out after {} waiting for rank {}",
                                                        describeDuration(timeout_),
                                                        ranks_[static_cast<std::size_t>(member)])));
    }
    sleep(member, seen);
  }
}

bool MemberSync::stayAwake(const MemberLine& line, std::uint32_t step) {
  const auto here = [&] { return reached(line.step.load(std::memory_order_acquire), step); };
  const auto until = SteadyClock::now() + kAwake;
  int yields = 0;
  do {
    // One that waits for this very processor cannot go on while this member spins, nor can others
    // if there are more members than processors.
    const bool together = line.processor.load(std::memory_order_relaxed) == sched_getcpu();
    if (together || crowded_) {
      if (together && ++times_together_ % kTogether == 0) return false;
      if (yields++ == kYields) return false;
      sched_yield();
      if (here()) return true;
      continue;
    }
    for (int i = 0; i < 64; ++i) {
      if (here()) return true;
      pauseProcessor();
    }
  } while (SteadyClock::now() < until);
  return false;
}

void MemberSync::sleep(int member, std::uint32_t seen) const {
  SleeperLine& sleepers = memory_->sleepers(member);
  const timespec limit{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(kSleep).count()};
  sleepers.count.fetch_add(1, std::memory_order_seq_cst);
  // The system looks at the number once more before it lets us sleep.
  futex(memory_->line(member).step, FUTEX_WAIT, seen, &limit);
  sleepers.count.fetch_sub(1, std::memory_order_seq_cst);
}

Status MemberSync::checkMembers(int waited_for) {
  std::vector<pollfd> polled;
  for (const Watched& one : watched_) polled.push_back({.fd = one.fd.get(), .events = POLLIN});
  if (poll(polled.data(), polled.size(), 0) <= 0) return {};
  for (std::size_t i = 0; i < polled.size(); ++i) {
    const int member = watched_[i].member;
    if (polled[i].revents == 0) continue;
    // One that ended well may have left before, with nothing more to do.
    if (member != waited_for && memory_->line(member).left.load() != 0) continue;
    return fail(ended(member));
  }
  return {};
}

Error MemberSync::ended(int member) {
  return Error(Code::kUnavailable,
               fmt::format("rank {} is gone", ranks_[static_cast<std::size_t>(member)]));
}

Error MemberSync::fail(const Error& error) {
  MemoryHeader& header = memory_->header();
  std::uint32_t none = 0;
  if (header.failure.compare_exchange_strong(none, 1)) {
    const std::size_t length = std::min(error.message().size(), MemoryHeader::kText - 1);
    std::memcpy(header.text, error.message().data(), length);
    header.text[length] = '\0';
    header.failure.store(2, std::memory_order_release);
    for (int member = 0; member < memory_->members(); ++member) wakeAll(memory_->line(member).step);
  } else if (none == 2) {
    return Error(Code::kUnavailable, std::string(header.text));
  }
  return error;
}

}  // namespace dure::collective
