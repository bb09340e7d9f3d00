#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "net/asio.h"

namespace dure::agent {

// Reads a pipe and hands on whole lines, many at a time. A line ends at a newline or, for the bars
// that programs redraw in place, at a carriage return. A line that grows beyond a megabyte is
// handed on in parts, so that memory stays bounded. Shared with the wait that is under way.
class LinePipe : public std::enable_shared_from_this<LinePipe> {
 public:
  using Lines = std::function<void(std::string_view)>;

  LinePipe(asio::io_context& loop, Fd fd, Lines lines);

  // Asks `more` before each read: while it says no, the pipe fills up and its writer waits
  // (back-pressure), until somebody calls resume(). Calls `after` after each read.
  void start(std::function<bool()> more, std::function<void()> after);
  void resume();

  // Reads once, if something is there, whatever `more` says.
  void readNow();
  // Reads all that is there. Only when nobody writes any more, or it may never end.
  void drain();
  // Nothing is in the pipe now.
  bool empty();
  // Hands on an unfinished last line as a line of its own.
  void flush() { handOn(true); }
  // flush(), and reads no more.
  void close();
  // Reads no more, and hands on no more.
  void abandon();

 private:
  void wait();
  // One read; false if there was nothing.
  bool readOnce();
  void handOn(bool all);

  asio::posix::stream_descriptor descriptor_;
  Lines lines_;
  std::function<bool()> more_;
  std::function<void()> after_;
  std::string buffer_;
  bool waiting_ = false;
  bool open_ = true;
};

}  // namespace dure::agent
