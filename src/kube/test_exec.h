#pragma once

#include <openssl/sha.h>

#include <string>

#include "kube/base64.h"

// For tests: what an API server says to a client that runs a command in a pod.
namespace dure::kube {

// That it may speak in messages from now on.
inline std::string execHandshake(const std::string& headers) {
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

// One message of a channel: 1 standard output, 2 standard error, 3 how it ended.
inline std::string execMessage(char channel, const std::string& text) {
  const std::string payload = channel + text;
  const std::size_t size = payload.size();
  std::string head = "\x82";
  if (size < 126) {
    head += static_cast<char>(size);
  } else {
    head += '\x7e';
    head += static_cast<char>(size >> 8);
    head += static_cast<char>(size & 0xff);
  }
  return head + payload;
}

}  // namespace dure::kube
