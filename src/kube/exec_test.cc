#include "kube/exec.h"

#include <gtest/gtest.h>

#include <openssl/sha.h>

#include "kube/base64.h"
#include "kube/test_server.h"
#include "kube/websocket.h"

namespace dure::kube {
namespace {

// What a server says to be spoken to in messages.
std::string handshake(const std::string& headers) {
  constexpr std::string_view kKey = "Sec-WebSocket-Key: ";
  const std::size_t begin = headers.find(kKey) + kKey.size();
  const std::string text = headers.substr(begin, headers.find("\r\n", begin) - begin) +
                           "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  std::string hash(SHA_DIGEST_LENGTH, '\0');
  SHA1(reinterpret_cast<const unsigned char*>(text.data()), text.size(),
       reinterpret_cast<unsigned char*>(hash.data()));
  return "HTTP/1.1 101 X\r\nSec-WebSocket-Accept: " + toBase64(hash) +
         "\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n";
}

std::string message(char channel, const std::string& text) {
  const std::string payload = channel + text;
  return std::string("\x82") + static_cast<char>(payload.size()) + payload;
}

TEST(ExecTest, WhatComesAfterTheEndWasToldIsNotLost) {
  TestServer server([](const auto& asked, const auto& send) {
    send(handshake(asked.headers));
    send(message(1, "out"));
    send(message(3, R"({"status": "Success"})"));
    send(message(2, "err"));
    return false;
  });
  KubeClient client({.context = "test", .server = server.url(), .token = "t"});
  std::string out, err;
  const auto code = exec(client, {.name_space = "a", .pod = "b", .container = "c"},
                         [&](ExecStream stream, std::string_view bytes) {
                           (stream == ExecStream::kOut ? out : err) += bytes;
                         });
  ASSERT_TRUE(code) << code.error().message();
  EXPECT_EQ(*code, 0);
  EXPECT_EQ(out, "out");
  EXPECT_EQ(err, "err");
}

TEST(ExecTest, AConnectionThatEndsBeforeTheCommandIsAnError) {
  TestServer server([](const auto& asked, const auto& send) {
    send(handshake(asked.headers));
    send(message(1, "out"));
    return false;
  });
  KubeClient client({.context = "test", .server = server.url(), .token = "t"});
  const auto code = exec(client, {.name_space = "a", .pod = "b", .container = "c"},
                         [](ExecStream, std::string_view) {});
  ASSERT_FALSE(code);
  EXPECT_EQ(code.error().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace dure::kube
