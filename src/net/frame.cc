#include "net/frame.h"

#include <fmt/core.h>

namespace dure::net {

void appendFrame(std::string& out, std::uint8_t type, std::string_view payload) {
  const auto length = static_cast<std::uint32_t>(payload.size() + 1);
  for (unsigned shift = 0; shift < 32; shift += 8) {
    out += static_cast<char>((length >> shift) & 0xFFu);
  }
  out += static_cast<char>(type);
  out += payload;
}

void FrameReader::feed(std::string_view bytes) {
  if (at_ > 0) {
    buffer_.erase(0, at_);
    at_ = 0;
  }
  buffer_ += bytes;
}

Result<std::optional<Frame>> FrameReader::next() {
  const std::string_view rest = std::string_view(buffer_).substr(at_);
  if (rest.size() < 4) return std::optional<Frame>();
  std::uint32_t length = 0;
  for (unsigned i = 0; i < 4; ++i) {
    length |= static_cast<std::uint32_t>(static_cast<unsigned char>(rest[i])) << (8 * i);
  }
  if (length == 0 || length > limit_) {
    return Error(Code::kInvalid, fmt::format("a message of {} bytes, where at most {} are allowed",
                                             length, limit_));
  }
  if (rest.size() < 4 + std::size_t{length}) return std::optional<Frame>();
  at_ += 4 + std::size_t{length};
  return std::optional<Frame>(
      Frame{static_cast<std::uint8_t>(rest[4]), rest.substr(kFrameHeader, length - 1)});
}

}  // namespace dure::net
