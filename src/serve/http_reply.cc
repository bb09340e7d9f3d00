#include "serve/http_reply.h"

#include <fmt/core.h>

#include "serve/json_reader.h"

namespace dure::serve {
namespace {

std::string_view reasonPhrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 417:
      return "Expectation Failed";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "";
  }
}

}  // namespace

HttpReply errorReply(int status, std::string_view sentence) {
  HttpReply reply{.status = status};
  reply.body = "{\"error\": ";
  appendJsonString(reply.body, sentence);
  reply.body += "}\n";
  return reply;
}

HttpReply errorReply(const Error& error) {
  switch (error.code()) {
    case Code::kInvalid:
      return errorReply(400, error.message());
    case Code::kNotFound:
      return errorReply(404, error.message());
    case Code::kUnavailable: {
      HttpReply reply = errorReply(503, error.message());
      reply.headers.emplace_back("Retry-After", "1");
      return reply;
    }
    default:
      return errorReply(500, error.message());
  }
}

std::string replyText(const HttpReply& reply, bool keep_alive, bool without_body) {
  std::string text;
  text.reserve(256 + reply.body.size());
  fmt::format_to(std::back_inserter(text),
                 "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n", reply.status,
                 reasonPhrase(reply.status), reply.type, reply.body.size());
  for (const auto& [name, value] : reply.headers) {
    text += name;
    text += ": ";
    text += value;
    text += "\r\n";
  }
  if (!keep_alive) text += "Connection: close\r\n";
  text += "\r\n";
  if (!without_body) text += reply.body;
  return text;
}

}  // namespace dure::serve
