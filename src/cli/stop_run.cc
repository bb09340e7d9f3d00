#include "cli/stop_run.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include <fmt/core.h>

#include "runs/leftovers.h"

namespace dure::cli {

namespace {

constexpr auto kStopLeftovers = std::chrono::seconds(15);

}  // namespace

Status stopRun(runs::RunStore& store, const runs::RunId& id, bool at_once) {
  const auto pid = store.coordinator(id);
  if (!pid) {
    // Nobody else takes it up meanwhile. If somebody was quicker, nothing was left to end.
    const auto owned = store.take(id);
    return owned ? runs::endLeftovers(owned->paths, kStopLeftovers) : Status{};
  }
  const Fd process(static_cast<int>(syscall(SYS_pidfd_open, *pid, 0)));
  // It may have ended, and another may have its number: only while the lock is held is it this one.
  if (!process || store.coordinator(id) != pid) return {};
  if (syscall(SYS_pidfd_send_signal, process.get(), at_once ? SIGQUIT : SIGTERM, nullptr, 0) != 0) {
    return systemError(fmt::format("signal process {}", *pid));
  }
  while (store.coordinator(id) == pid) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  return {};
}

}  // namespace dure::cli
