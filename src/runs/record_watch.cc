#include "runs/record_watch.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <thread>

namespace dure::runs {

RecordWatch::RecordWatch(const std::string& directory)
    : events_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  constexpr auto kChanges = IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF;
  if (events_ && inotify_add_watch(events_.get(), directory.c_str(), kChanges) < 0) events_.reset();
}

bool RecordWatch::next(std::chrono::milliseconds patience) {
  if (!events_) {
    std::this_thread::sleep_for(patience);
    return true;
  }
  pollfd waiting{.fd = events_.get(), .events = POLLIN, .revents = 0};
  poll(&waiting, 1, static_cast<int>(patience.count()));
  alignas(inotify_event) char block[4096];
  bool changed = false;
  while (read(events_.get(), block, sizeof block) > 0) changed = true;
  return changed;
}

}  // namespace dure::runs
