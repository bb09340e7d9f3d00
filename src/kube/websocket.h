#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "kube/handle.h"

namespace dure::kube {

// One conversation in messages of bytes, as the API server holds it for exec and attach.
class WebSocket {
 public:
  // Asks the server to speak `protocol` about `url`. What it refuses comes with its own words.
  static Result<WebSocket> open(const KubeAccess& access, const Credential& credential,
                                const std::string& url, const std::string& protocol,
                                const std::vector<std::string>& headers, Duration patience);

  Status send(std::string_view message, const std::stop_token& stop = {});
  // The next message; nothing when the server has closed, or on `stop`. Unavailable if none comes
  // within `patience`.
  Result<std::optional<std::string>> receive(const std::stop_token& stop = {},
                                             std::optional<Duration> patience = std::nullopt);

 private:
  explicit WebSocket(const KubeAccess& access) : access_(access) {}
  Status shakeHands(const std::string& url, const std::string& protocol,
                    const std::vector<std::string>& headers, Duration patience);
  Status sendFrame(std::uint8_t opcode, std::string_view payload, const std::stop_token& stop);
  Status sendBytes(std::string_view bytes, const std::stop_token& stop);
  // Some more bytes into received_; false at the end, or on `stop`.
  Result<bool> receiveBytes(const std::stop_token& stop, std::optional<Duration> patience);
  Status waitFor(short events, const std::stop_token& stop, std::optional<Duration> patience);

  KubeAccess access_;
  CurlList connect_to_;
  CurlHandle handle_;
  std::string received_;
};

// The frame at the beginning of `bytes`, with its payload unmasked. Nothing if it is not whole yet;
// Invalid if it can never be one, or is larger than `limit`.
struct WebSocketFrame {
  bool last = true;
  std::uint8_t opcode = 0;
  std::string payload;
  std::size_t length = 0;  // of the whole frame
};
Result<std::optional<WebSocketFrame>> parseFrame(std::string_view bytes, std::size_t limit);

// A client's frame: masked, as the protocol demands.
std::string makeFrame(std::uint8_t opcode, std::string_view payload, std::uint32_t mask);

}  // namespace dure::kube
