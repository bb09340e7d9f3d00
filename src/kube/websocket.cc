#include "kube/websocket.h"

#include <poll.h>

#include <algorithm>
#include <random>

#include <fmt/core.h>
#include <openssl/evp.h>
#include <nlohmann/json.hpp>

#include "kube/base64.h"

namespace dure::kube {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::uint8_t kContinuation = 0, kText = 1, kBinary = 2, kClose = 8, kPing = 9, kPong = 10;
constexpr std::size_t kLargestFrame = 16u << 20u;
constexpr std::size_t kLargestHead = 64u << 10u;
// How often a wait looks whether it is to stop.
constexpr std::chrono::milliseconds kLook{100};

// What proves that the other end has understood that this is a WebSocket.
std::string acceptanceOf(const std::string& key) {
  const std::string joined = key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  EVP_Digest(joined.data(), joined.size(), digest, &length, EVP_sha1(), nullptr);
  return toBase64({reinterpret_cast<char*>(digest), length});
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The value of a header, in lower case as the whole head is not.
std::string headerIn(const std::string& head, const std::string& name) {
  const std::string small = lower(head);
  const auto at = small.find("\r\n" + name + ":");
  if (at == std::string::npos) return "";
  auto begin = at + name.size() + 3;
  while (begin < head.size() && head[begin] == ' ') ++begin;
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

std::uint32_t randomMask() {
  static thread_local std::mt19937 random{std::random_device{}()};
  return static_cast<std::uint32_t>(random());
}

// The server's sentence out of an answer that is not a WebSocket.
Error refusal(const std::string& head, const std::string& body) {
  int status = 0;
  std::sscanf(head.c_str(), "HTTP/%*s %d", &status);
  const auto said = nlohmann::json::parse(body, nullptr, false);
  const std::string message = said.is_object() ? said.value("message", "") : "";
  const Code code = status == 403 || status == 401 ? Code::kDenied
                    : status == 404                ? Code::kNotFound
                    : status == 400                ? Code::kInvalid
                                                   : Code::kUnavailable;
  return Error(code, message.empty() ? head.substr(0, head.find("\r\n")) : message);
}

}  // namespace

std::string makeFrame(std::uint8_t opcode, std::string_view payload, std::uint32_t mask) {
  std::string frame;
  frame += static_cast<char>(0x80u | opcode);
  const std::uint64_t size = payload.size();
  const int extra = size < 126 ? 0 : size < 65536 ? 2 : 8;
  frame += static_cast<char>(0x80u | (extra == 0 ? size : extra == 2 ? 126u : 127u));
  for (int i = extra - 1; i >= 0; --i) frame += static_cast<char>(size >> (8 * i) & 0xFFu);
  char key[4];
  for (int i = 0; i < 4; ++i) key[i] = static_cast<char>(mask >> (8 * i) & 0xFFu);
  frame.append(key, 4);
  const std::size_t begin = frame.size();
  frame += payload;
  for (std::size_t i = 0; i < payload.size(); ++i)
    frame[begin + i] = static_cast<char>(frame[begin + i] ^ key[i % 4]);
  return frame;
}

Result<std::optional<WebSocketFrame>> parseFrame(std::string_view bytes, std::size_t limit) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
  if (bytes.size() < 2) return std::optional<WebSocketFrame>();
  if ((byte(0) & 0x70u) != 0)
    return Error(Code::kInvalid, "a message of the server uses extensions that were not asked for");
  WebSocketFrame frame{.last = (byte(0) & 0x80u) != 0,
                       .opcode = static_cast<std::uint8_t>(byte(0) & 0x0Fu)};
  const bool masked = (byte(1) & 0x80u) != 0;
  std::uint64_t size = byte(1) & 0x7Fu;
  std::size_t at = 2;
  const std::size_t extra = size == 126 ? 2 : size == 127 ? 8 : 0;
  if (bytes.size() < at + extra + (masked ? 4 : 0)) return std::optional<WebSocketFrame>();
  if (extra > 0) {
    size = 0;
    for (std::size_t i = 0; i < extra; ++i) size = size << 8u | byte(at + i);
    at += extra;
  }
  if (size > limit) return Error(Code::kInvalid, "a message of the server is too large");
  const std::string_view key = masked ? bytes.substr(at, 4) : std::string_view();
  at += key.size();
  if (bytes.size() - at < size) return std::optional<WebSocketFrame>();
  frame.payload = bytes.substr(at, size);
  for (std::size_t i = 0; masked && i < size; ++i)
    frame.payload[i] = static_cast<char>(frame.payload[i] ^ key[i % 4]);
  frame.length = at + size;
  return std::optional(std::move(frame));
}

Result<WebSocket> WebSocket::open(const KubeAccess& access, const Credential& credential,
                                  const std::string& url, const std::string& protocol,
                                  const std::vector<std::string>& headers, Duration patience) {
  WebSocket made(access);
  made.handle_ = newHandle();
  CURL* handle = made.handle_.get();
  if (handle == nullptr) return Error(Code::kUnavailable, "there is no memory for a connection");
  made.connect_to_ = address(handle, access, credential, url);
  char reason[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, reason);
  curl_easy_setopt(handle, CURLOPT_CONNECT_ONLY, 1L);
  // Only HTTP/1.1 can be turned into a WebSocket.
  curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  const CURLcode code = curl_easy_perform(handle);
  curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, nullptr);
  if (code != CURLE_OK) return connectionError(code, reason, access);
  if (auto shaken = made.shakeHands(url, protocol, headers, patience); !shaken)
    return std::move(shaken).error();
  return made;
}

Status WebSocket::shakeHands(const std::string& url, const std::string& protocol,
                             const std::vector<std::string>& headers, Duration patience) {
  std::string random(16, '\0');
  for (char& c : random) c = static_cast<char>(randomMask() & 0xFFu);
  const std::string key = toBase64(random);
  const auto path = url.find('/', url.find("://") + 3);
  std::string head = fmt::format(
      "GET {} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Key: {}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: {}\r\n",
      url.substr(path), authorityOf(url), key, protocol);
  for (const std::string& header : headers) head += header + "\r\n";
  if (auto sent = sendBytes(head + "\r\n", {}); !sent) return sent;

  std::size_t end = 0;
  while ((end = received_.find("\r\n\r\n")) == std::string::npos) {
    if (received_.size() > kLargestHead) return Error(Code::kInvalid, "the answer never ends");
    auto more = receiveBytes({}, patience);
    if (!more) return std::move(more).error();
    if (!*more) return Error(Code::kUnavailable, authorityOf(access_.server) + " hung up");
  }
  const std::string answer = received_.substr(0, end + 2);
  received_.erase(0, end + 4);
  if (answer.starts_with("HTTP/1.1 101")) {
    if (headerIn(answer, "sec-websocket-accept") != acceptanceOf(key) ||
        headerIn(answer, "sec-websocket-protocol") != protocol) {
      return Error(Code::kInvalid, authorityOf(access_.server) + " does not speak " + protocol);
    }
    return {};
  }
  const std::size_t length =
      static_cast<std::size_t>(std::atoi(headerIn(answer, "content-length").c_str()));
  while (received_.size() < std::min(length, kLargestHead)) {
    auto more = receiveBytes({}, patience);
    if (!more || !*more) break;
  }
  return refusal(answer, received_);
}

Status WebSocket::waitFor(short events, const std::stop_token& stop,
                          std::optional<Duration> patience) {
  curl_socket_t socket = CURL_SOCKET_BAD;
  curl_easy_getinfo(handle_.get(), CURLINFO_ACTIVESOCKET, &socket);
  const auto began = SteadyClock::now();
  while (!stop.stop_requested()) {
    pollfd wait{.fd = socket, .events = events};
    const int ready = poll(&wait, 1, static_cast<int>(kLook.count()));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return systemError("poll");
    if (patience && SteadyClock::now() - began > *patience)
      return Error(Code::kUnavailable, authorityOf(access_.server) + " does not answer");
  }
  return {};
}

Status WebSocket::sendBytes(std::string_view bytes, const std::stop_token& stop) {
  while (!bytes.empty() && !stop.stop_requested()) {
    std::size_t sent = 0;
    const CURLcode code = curl_easy_send(handle_.get(), bytes.data(), bytes.size(), &sent);
    if (code == CURLE_AGAIN) {
      if (auto waited = waitFor(POLLOUT, stop, std::nullopt); !waited) return waited;
      continue;
    }
    if (code != CURLE_OK) return connectionError(code, "", access_);
    bytes.remove_prefix(sent);
  }
  return {};
}

Result<bool> WebSocket::receiveBytes(const std::stop_token& stop,
                                     std::optional<Duration> patience) {
  char buffer[32u << 10u];
  while (!stop.stop_requested()) {
    std::size_t got = 0;
    const CURLcode code = curl_easy_recv(handle_.get(), buffer, sizeof(buffer), &got);
    if (code == CURLE_OK) {
      received_.append(buffer, got);
      return got > 0;
    }
    if (code != CURLE_AGAIN) return connectionError(code, "", access_);
    if (auto waited = waitFor(POLLIN, stop, patience); !waited) return std::move(waited).error();
  }
  return false;
}

Status WebSocket::sendFrame(std::uint8_t opcode, std::string_view payload,
                            const std::stop_token& stop) {
  return sendBytes(makeFrame(opcode, payload, randomMask()), stop);
}

Status WebSocket::send(std::string_view message, const std::stop_token& stop) {
  return sendFrame(kBinary, message, stop);
}

Result<std::optional<std::string>> WebSocket::receive(const std::stop_token& stop,
                                                      std::optional<Duration> patience) {
  std::string message;
  while (true) {
    auto frame = parseFrame(received_, kLargestFrame);
    if (!frame) return std::move(frame).error();
    if (!*frame) {
      auto more = receiveBytes(stop, patience);
      if (!more) return std::move(more).error();
      if (!*more) return std::optional<std::string>();
      continue;
    }
    WebSocketFrame whole = **std::move(frame);
    received_.erase(0, whole.length);
    if (whole.opcode == kPing) {
      if (auto sent = sendFrame(kPong, whole.payload, stop); !sent) return std::move(sent).error();
    } else if (whole.opcode == kClose) {
      // It is polite to say the same; whether it arrives does not matter.
      (void)sendFrame(kClose, whole.payload, stop);
      return std::optional<std::string>();
    } else if (whole.opcode == kBinary || whole.opcode == kText || whole.opcode == kContinuation) {
      message += whole.payload;
      if (message.size() > kLargestFrame)
        return Error(Code::kInvalid, "a message of the server is too large");
      if (whole.last) return std::optional(std::move(message));
    }
  }
}

}  // namespace dure::kube
