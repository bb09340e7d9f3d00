#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace dure::serve {

struct HttpReply {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
};

// {"error": "sentence"}, as TensorFlow Serving and the Open Inference Protocol have it.
HttpReply errorReply(int status, std::string_view sentence);
// By the kind of failure: what the caller sent, or what happened here.
HttpReply errorReply(const Error& error);

// The reply as it goes over the wire; of a HEAD request without the body.
std::string replyText(const HttpReply& reply, bool keep_alive, bool without_body);

}  // namespace dure::serve
