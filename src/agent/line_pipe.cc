#include "agent/line_pipe.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

namespace dure::agent {
namespace {

constexpr std::size_t kReadSize = 256u << 10u;
constexpr std::size_t kLongestLine = 1u << 20u;

// The size of the part of `text` that consists of whole lines.
std::size_t wholeLines(std::string_view text) {
  const std::size_t newline = text.rfind('\n');
  std::size_t end = newline == std::string_view::npos ? 0 : newline + 1;
  // The last byte may be the first half of "\r\n".
  const std::size_t redraw = text.substr(0, text.empty() ? 0 : text.size() - 1).rfind('\r');
  if (redraw != std::string_view::npos && redraw + 1 > end) end = redraw + 1;
  return end;
}

}  // namespace

LinePipe::LinePipe(asio::io_context& loop, Fd fd, Lines lines)
    : descriptor_(loop, fd.release()), lines_(std::move(lines)) {
  descriptor_.non_blocking(true);
}

void LinePipe::start(std::function<bool()> more, std::function<void()> after) {
  more_ = std::move(more);
  after_ = std::move(after);
  resume();
}

void LinePipe::resume() {
  if (open_ && !waiting_ && more_()) wait();
}

void LinePipe::wait() {
  waiting_ = true;
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [self = shared_from_this()](const boost::system::error_code& error) {
                           self->waiting_ = false;
                           if (error || !self->open_) return;
                           self->readOnce();
                           self->resume();
                           if (const auto after = self->after_) after();
                         });
}

bool LinePipe::readOnce() {
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kReadSize);
  ssize_t got = 0;
  do {
    got = read(descriptor_.native_handle(), buffer_.data() + before, kReadSize);
  } while (got < 0 && errno == EINTR);
  buffer_.resize(before + static_cast<std::size_t>(got > 0 ? got : 0));
  if (got > 0) {
    handOn(false);
    return true;
  }
  if (got == 0 || errno != EAGAIN) close();
  return false;
}

void LinePipe::handOn(bool all) {
  std::size_t end = wholeLines(buffer_);
  if (end == 0 && buffer_.size() >= kLongestLine) end = buffer_.size();
  if (all && end < buffer_.size()) {
    buffer_ += '\n';
    end = buffer_.size();
  }
  if (end == 0 || !lines_) return;
  lines_(std::string_view(buffer_).substr(0, end));
  buffer_.erase(0, end);
}

void LinePipe::drain() {
  while (open_ && readOnce()) {
  }
}

void LinePipe::readNow() {
  int bytes = 0;
  if (open_ && ioctl(descriptor_.native_handle(), FIONREAD, &bytes) == 0 && bytes > 0) readOnce();
}

bool LinePipe::empty() {
  int bytes = 0;
  return !open_ || ioctl(descriptor_.native_handle(), FIONREAD, &bytes) != 0 || bytes == 0;
}

void LinePipe::close() {
  if (!open_) return;
  handOn(true);
  abandon();
}

void LinePipe::abandon() {
  if (!open_) return;
  open_ = false;
  // They may hold what this pipe belongs to.
  lines_ = nullptr;
  more_ = nullptr;
  if (!waiting_) after_ = nullptr;
  boost::system::error_code ignored;
  descriptor_.close(ignored);
}

}  // namespace dure::agent
