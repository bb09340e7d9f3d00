#include "agent/lease.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace dure::agent {

BootClock::time_point BootClock::now() {
  timespec time{};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return time_point(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

Lease::Lease(std::chrono::milliseconds length, std::function<void()> expired)
    : length_(length),
      expired_(std::move(expired)),
      end_(BootClock::now() + length),
      timer_(timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC)),
      ended_(eventfd(0, EFD_CLOEXEC)) {
  arm();
  // Signals are for the thread that waits for them.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::jthread([this] { work(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Lease::~Lease() {
  const std::uint64_t one = 1;
  static_cast<void>(!write(ended_.get(), &one, sizeof one));
}

void Lease::renew(BootClock::time_point then) {
  if (then + length_ <= end_ || BootClock::now() >= end_) return;
  end_ = then + length_;
  arm();
}

void Lease::arm() const {
  const auto whole = end_.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(whole);
  itimerspec when{};
  when.it_value = {.tv_sec = seconds.count(), .tv_nsec = (whole - seconds).count()};
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void Lease::work() const {
  pollfd fds[] = {{.fd = ended_.get(), .events = POLLIN, .revents = 0},
                  {.fd = timer_.get(), .events = POLLIN, .revents = 0}};
  // Without them there is no lease that could be kept.
  while (timer_ && ended_ && poll(fds, 2, -1) < 0 && errno == EINTR) {
  }
  if (fds[0].revents == 0) expired_();
}

}  // namespace dure::agent
