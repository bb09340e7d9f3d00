#include "serve/http_request.h"

#include <algorithm>
#include <charconv>

#include <fmt/core.h>

namespace dure::serve {
namespace {

constexpr std::size_t kMostHeaders = 100;
constexpr std::size_t kMostChunkLine = 256;
// Reserved at once for a body; a length alone must not take memory that no bytes follow for.
constexpr std::size_t kFirstReserve = 1u << 20u;

// What a name of a header or a method is made of (RFC 9110's token).
bool isTokenLetter(char c) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) return true;
  return c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool isToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), isTokenLetter);
}

std::string inSmallLetters(std::string_view text) {
  std::string made(text);
  for (char& c : made) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return made;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool listHas(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (inSmallLetters(trimmed(list.substr(0, comma))) == word) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

// All of the text, and nothing but digits.
bool parseCount(std::string_view text, int base, std::size_t& out) {
  if (text.empty() || text.front() == '-' || text.front() == '+') return false;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
  return error == std::errc() && stop == text.data() + text.size();
}

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [each, value] : headers) {
    if (each == name) return value;
  }
  return {};
}

void HttpParser::fail(int status, std::string why) {
  state_ = State::kFailed;
  status_ = status;
  why_ = std::move(why);
}

void HttpParser::reset() {
  state_ = State::kHead;
  framing_ = Framing::kNone;
  head_.clear();
  line_.clear();
  left_ = trailer_ = 0;
  old_ = false;
  request_ = {};
}

std::size_t HttpParser::feed(std::string_view bytes) {
  std::size_t used = 0;
  while (used < bytes.size() && state_ != State::kDone && state_ != State::kFailed) {
    const std::string_view rest = bytes.substr(used);
    used += state_ == State::kHead ? feedHead(rest) : feedBody(rest);
  }
  return used;
}

std::size_t HttpParser::feedHead(std::string_view bytes) {
  // Empty lines before a request are passed over, as RFC 9112 asks for.
  if (head_.empty()) {
    std::size_t blank = 0;
    while (blank < bytes.size() && (bytes[blank] == '\r' || bytes[blank] == '\n')) ++blank;
    if (blank > 0) return blank;
  }
  const std::size_t before = head_.size();
  const std::size_t look = before < 3 ? 0 : before - 3;
  head_.append(
      bytes.substr(0, std::min(bytes.size(), limits_.head + 4 - std::min(before, limits_.head))));
  const std::size_t end = head_.find("\r\n\r\n", look);
  if (end == std::string::npos) {
    if (head_.size() > limits_.head)
      fail(431, fmt::format("the head of the request is longer than {} bytes", limits_.head));
    return head_.size() - before;
  }
  const std::size_t used = end + 4 - before;
  head_.resize(end + 2);
  readHead();
  return used;
}

void HttpParser::readHead() {
  std::string_view rest = head_;
  bool first = true;
  while (!rest.empty()) {
    const std::size_t end = rest.find("\r\n");
    const std::string_view line = rest.substr(0, end);
    if (line.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos)
      return fail(400, "a line of the head does not end in CR LF");
    if (!(first ? readRequestLine(line) : readHeader(line))) return;
    first = false;
    rest.remove_prefix(end + 2);
  }
  chooseFraming();
}

bool HttpParser::readRequestLine(std::string_view line) {
  const std::size_t method_end = line.find(' ');
  const std::size_t target_end = line.rfind(' ');
  if (method_end == std::string_view::npos || target_end <= method_end + 1) {
    fail(400, "this is not a request of HTTP");
    return false;
  }
  const std::string_view method = line.substr(0, method_end);
  const std::string_view target = line.substr(method_end + 1, target_end - method_end - 1);
  const std::string_view version = line.substr(target_end + 1);
  const auto printable = [](char c) { return c > ' ' && c < 0x7f; };
  if (!isToken(method) || !std::all_of(target.begin(), target.end(), printable)) {
    fail(400, "this is not a request of HTTP");
    return false;
  }
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    const bool http = version.starts_with("HTTP/");
    fail(http ? 505 : 400, http ? "HTTP/1.1 is spoken here" : "this is not a request of HTTP");
    return false;
  }
  old_ = version == "HTTP/1.0";
  request_.method = method;
  request_.target = target;
  request_.keep_alive = !old_;
  // As proxies are asked.
  if (target.starts_with("http://") || target.starts_with("https://")) {
    const std::size_t path = target.find('/', target.find("//") + 2);
    request_.target = path == std::string_view::npos ? "/" : std::string(target.substr(path));
  } else if (target.front() != '/' && target != "*") {
    fail(400, "the target of the request is not a path");
    return false;
  }
  return true;
}

bool HttpParser::readHeader(std::string_view line) {
  const std::size_t colon = line.find(':');
  // A line that begins with a space continues the one before, for some readers.
  if (colon == std::string_view::npos || !isToken(line.substr(0, colon))) {
    fail(400, "a header is not NAME: VALUE");
    return false;
  }
  const std::string_view value = trimmed(line.substr(colon + 1));
  const auto plain = [](char c) {
    return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  };
  if (!std::all_of(value.begin(), value.end(), plain)) {
    fail(400, "a header has a control character");
    return false;
  }
  if (request_.headers.size() >= kMostHeaders) {
    fail(431, fmt::format("the request has more than {} headers", kMostHeaders));
    return false;
  }
  request_.headers.emplace_back(inSmallLetters(line.substr(0, colon)), value);
  return true;
}

void HttpParser::chooseFraming() {
  std::size_t lengths = 0;
  std::size_t encodings = 0;
  std::size_t hosts = 0;
  for (const auto& [name, value] : request_.headers) {
    lengths += name == "content-length";
    encodings += name == "transfer-encoding";
    hosts += name == "host";
    if (name == "connection") {
      if (listHas(value, "close")) request_.keep_alive = false;
      if (old_ && listHas(value, "keep-alive")) request_.keep_alive = true;
    }
  }
  if (hosts > 1 || (hosts == 0 && !old_)) return fail(400, "the request must have one Host header");
  if (lengths > 1 || encodings > 1 || (lengths > 0 && encodings > 0))
    return fail(400, "the length of the body is given more than once");
  const std::string_view expected = request_.header("expect");
  if (!expected.empty()) {
    if (inSmallLetters(expected) != "100-continue")
      return fail(417, "only 100-continue may be expected");
    request_.expects_continue = !old_;
  }
  state_ = State::kBody;
  if (encodings > 0) {
    if (old_ || inSmallLetters(request_.header("transfer-encoding")) != "chunked")
      return fail(old_ ? 400 : 501, "the only transfer coding here is chunked");
    framing_ = Framing::kChunkSize;
    return;
  }
  std::size_t length = 0;
  if (lengths > 0 && !parseCount(request_.header("content-length"), 10, length))
    return fail(400, "Content-Length is no number");
  if (length > limits_.body) {
    return fail(413, fmt::format("the body has {} bytes, more than the {} that are taken", length,
                                 limits_.body));
  }
  framing_ = Framing::kLength;
  left_ = length;
  request_.body.reserve(std::min(length, kFirstReserve));
  if (length == 0) state_ = State::kDone;
}

std::size_t HttpParser::feedBody(std::string_view bytes) {
  if (framing_ == Framing::kLength || framing_ == Framing::kChunkData) {
    const std::size_t part = std::min(left_, bytes.size());
    request_.body.append(bytes.substr(0, part));
    left_ -= part;
    if (left_ == 0) {
      if (framing_ == Framing::kLength) {
        state_ = State::kDone;
      } else {
        framing_ = Framing::kChunkEnd;
      }
    }
    return part;
  }
  return feedLine(bytes);
}

std::size_t HttpParser::feedLine(std::string_view bytes) {
  const std::size_t end = std::min(bytes.find('\n'), bytes.size());
  const std::size_t used = std::min(end + 1, bytes.size());
  line_.append(bytes.substr(0, used));
  if (line_.size() > (framing_ == Framing::kTrailer ? limits_.head : kMostChunkLine)) {
    fail(400, "a line between chunks is too long");
    return used;
  }
  if (!line_.ends_with('\n')) return used;
  if (!line_.ends_with("\r\n") || line_.find('\r') != line_.size() - 2) {
    fail(400, "a line between chunks does not end in CR LF");
    return used;
  }
  line_.resize(line_.size() - 2);
  readChunkLine();
  line_.clear();
  return used;
}

void HttpParser::readChunkLine() {
  switch (framing_) {
    case Framing::kChunkEnd:
      if (!line_.empty()) return fail(400, "a chunk is longer than it says");
      framing_ = Framing::kChunkSize;
      return;
    case Framing::kTrailer:
      // What comes behind the body is passed over.
      trailer_ += line_.size();
      if (trailer_ > limits_.head) return fail(431, "there is too much behind the body");
      if (line_.empty()) state_ = State::kDone;
      return;
    default:
      break;
  }
  const std::string_view size = trimmed(std::string_view(line_).substr(0, line_.find(';')));
  if (size.size() > 16 || !parseCount(size, 16, left_))
    return fail(400, "the size of a chunk is no number");
  if (left_ > limits_.body - std::min(limits_.body, request_.body.size()))
    return fail(413,
                fmt::format("the body has more than the {} bytes that are taken", limits_.body));
  framing_ = left_ == 0 ? Framing::kTrailer : Framing::kChunkData;
}

bool decodeTarget(std::string_view target, std::string& out) {
  out.clear();
  for (std::size_t i = 0; i < target.size(); ++i) {
    if (target[i] != '%') {
      out += target[i];
      continue;
    }
    unsigned code = 0;
    if (i + 2 >= target.size()) return false;
    const char* const digits = target.data() + i + 1;
    const auto [stop, error] = std::from_chars(digits, digits + 2, code, 16);
    if (error != std::errc() || stop != digits + 2 || code == 0) return false;
    out += static_cast<char>(code);
    i += 2;
  }
  return true;
}

}  // namespace dure::serve
