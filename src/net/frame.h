#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace dure::net {

// A message on a stream of bytes: a little-endian length of 4 bytes (of what follows), one byte
// that says what it is, and the payload.
struct Frame {
  std::uint8_t type = 0;
  std::string_view payload;
};

inline constexpr std::size_t kFrameHeader = 5;
// Nothing that is sent is larger; whoever announces more is not one of ours.
inline constexpr std::size_t kMaxFrame = 4u << 20u;

// Appends the frame to `out`.
void appendFrame(std::string& out, std::uint8_t type, std::string_view payload);

// Cuts a stream of bytes into frames, however the bytes come in.
class FrameReader {
 public:
  // A peer that has not proved who it is gets a small limit, so that it cannot make us hold much.
  void setLimit(std::size_t limit) { limit_ = limit; }

  void feed(std::string_view bytes);
  // The next whole frame, if there is one; its payload is valid until the next call of feed.
  // Invalid if the peer announced a frame that is empty or above the limit; the stream is then of
  // no more use.
  Result<std::optional<Frame>> next();

 private:
  std::string buffer_;
  std::size_t at_ = 0;
  std::size_t limit_ = kMaxFrame;
};

}  // namespace dure::net
