#include "cli/progress_bar.h"

#include <unistd.h>

#include <cstdlib>
#include <ostream>

#include <fmt/core.h>

#include "cli/follow_view.h"

namespace dure::cli {
namespace {

constexpr std::chrono::milliseconds kDrawEvery{100};
constexpr int kProgressWidth = 30;

bool hasTerminal() {
  const char* const term = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 && term != nullptr && std::string_view(term) != "dumb";
}

}  // namespace

std::string progressLine(const std::string& what, std::uint64_t done, std::uint64_t of,
                         std::chrono::duration<double> taken) {
  const double part = of == 0 ? 1 : static_cast<double>(done) / static_cast<double>(of);
  const int full = static_cast<int>(part * kProgressWidth);
  std::string line =
      fmt::format("  {}  [{}{}] {:3.0f}%", what, std::string(static_cast<std::size_t>(full), '#'),
                  std::string(static_cast<std::size_t>(kProgressWidth - full), '-'), part * 100);
  if (taken.count() >= 0.5) {
    line += fmt::format("  {:.0f} MB/s", static_cast<double>(done) / taken.count() / 1e6);
  }
  return line;
}

ProgressBar::ProgressBar(std::ostream& err, std::string what)
    : err_(err), what_(std::move(what)), shown_(hasTerminal()) {
  countInterruptions();
}

ProgressBar::~ProgressBar() {
  if (shown_) err_ << "\r\x1b[K" << std::flush;
}

Status ProgressBar::update(std::uint64_t done, std::uint64_t of) {
  if (interruptions() > 0) return Error(Code::kUnavailable, "interrupted");
  const auto now = std::chrono::steady_clock::now();
  if (!shown_ || (now - drawn_ < kDrawEvery && done < of)) return {};
  drawn_ = now;
  err_ << "\r\x1b[K" << progressLine(what_, done, of, now - began_) << std::flush;
  return {};
}

std::string sizeText(std::uint64_t bytes) {
  const auto size = static_cast<double>(bytes);
  if (size >= 1e9) return fmt::format("{:.2f} GB", size / 1e9);
  if (size >= 1e6) return fmt::format("{:.1f} MB", size / 1e6);
  if (size >= 1e3) return fmt::format("{:.0f} kB", size / 1e3);
  return fmt::format("{} bytes", bytes);
}

void failOrInterrupted(Context& context, const Error& error) {
  context.fail(error);
  if (interruptions() > 0) context.code = kInterrupted;
}

}  // namespace dure::cli
