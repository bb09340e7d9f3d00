#include "agent/output_writer.h"

#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace dure::agent {
namespace {

using std::chrono::milliseconds;

// As much as the programs' own pipes hold.
constexpr std::size_t kRoom = 1u << 20u;
constexpr milliseconds kMoment{100};
// For whoever reads to take something, when the agent is about to end.
constexpr milliseconds kStuck{2000};

}  // namespace

OutputWriter::OutputWriter(int fd, std::function<void()> drained)
    : fd_(fd), drained_(std::move(drained)) {
  // Signals are for the thread that waits for them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

OutputWriter::~OutputWriter() = default;

void OutputWriter::write(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (broken_ || bytes.empty()) return;
  waiting_ += bytes;
  unwritten_ += bytes.size();
  wake_.notify_one();
}

bool OutputWriter::hasRoom() {
  const std::lock_guard lock(mutex_);
  return unwritten_ < kRoom;
}

bool OutputWriter::idle() {
  const std::lock_guard lock(mutex_);
  return unwritten_ == 0;
}

std::size_t OutputWriter::writeSome(std::string_view bytes) const {
  pollfd ready{.fd = fd_, .events = POLLOUT, .revents = 0};
  if (poll(&ready, 1, static_cast<int>(kMoment.count())) <= 0) return 0;
  // A pipe that is ready takes this much without blocking, but perhaps not more.
  const ssize_t done = ::write(fd_, bytes.data(), std::min<std::size_t>(bytes.size(), PIPE_BUF));
  if (done >= 0) return static_cast<std::size_t>(done);
  return errno == EINTR || errno == EAGAIN ? 0 : bytes.size() + 1;
}

void OutputWriter::work(const std::stop_token& stop) {
  while (true) {
    std::string bytes;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, stop, [this] { return !waiting_.empty(); });
      if (waiting_.empty()) return;
      bytes = std::exchange(waiting_, {});
    }
    std::string_view left = bytes;
    auto moved = std::chrono::steady_clock::now();
    while (!left.empty()) {
      const std::size_t done = writeSome(left);
      const auto now = std::chrono::steady_clock::now();
      if (done > 0) moved = now;
      if (stop.stop_requested() && now - moved > kStuck) return;
      if (done == 0) continue;
      const bool broken = done > left.size();
      const std::size_t gone = std::min(done, left.size());
      left.remove_prefix(gone);
      std::unique_lock lock(mutex_);
      const bool had_room = unwritten_ < kRoom;
      broken_ = broken_ || broken;
      unwritten_ = broken ? 0 : unwritten_ - gone;
      if (broken) waiting_.clear();
      const bool news = unwritten_ == 0 || (!had_room && unwritten_ < kRoom);
      lock.unlock();
      if (news) drained_();
    }
  }
}

}  // namespace dure::agent
