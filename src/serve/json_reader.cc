#include "serve/json_reader.h"

#include <charconv>
#include <cmath>

#include <fmt/core.h>

#include "base/text.h"

namespace dure::serve {
namespace {

// Deeper than any tensor, and shallow enough for every stack.
constexpr std::size_t kMostNested = 64;

bool isDigit(char c) { return c >= '0' && c <= '9'; }

void appendUtf8(std::string& out, std::uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  }
}

// The end of the number that begins at `at` by JSON's grammar; null if there is none.
const char* endOfNumber(const char* at, const char* end) {
  const auto digits = [&] {
    const char* const first = at;
    while (at != end && isDigit(*at)) ++at;
    return at != first;
  };
  if (at != end && *at == '-') ++at;
  if (at == end) return nullptr;
  if (*at == '0') {
    ++at;
  } else if (!digits()) {
    return nullptr;
  }
  if (at != end && *at == '.') {
    ++at;
    if (!digits()) return nullptr;
  }
  if (at != end && (*at == 'e' || *at == 'E')) {
    ++at;
    if (at != end && (*at == '+' || *at == '-')) ++at;
    if (!digits()) return nullptr;
  }
  return at;
}

// Numbers of a few digits, which most are. Returns where it ends, or null for any other.
const char* readSmall(const char* at, const char* end, float& out) {
  std::uint32_t value = 0;
  const char* const first = at;
  while (at != end && isDigit(*at) && at - first < 7) {
    value = value * 10 + static_cast<std::uint32_t>(*at++ - '0');
  }
  if (at == first || at == end || (*first == '0' && at - first > 1)) return nullptr;
  if (*at != ',' && *at != ']' && *at != ' ' && *at != '\n') return nullptr;
  out = static_cast<float>(value);
  return at;
}

template <typename Number>
bool convert(const char* at, const char* end, Number& out) {
  const auto [stop, error] = std::from_chars(at, end, out);
  if (error == std::errc::result_out_of_range) {
    // Too small is nothing, too large is refused.
    double wide = 0;
    const auto [wide_stop, wide_error] = std::from_chars(at, end, wide);
    if (wide_error == std::errc() && std::abs(wide) < 1) {
      out = static_cast<Number>(0);
      return wide_stop == end;
    }
    return false;
  }
  return error == std::errc() && stop == end;
}

}  // namespace

Error JsonReader::error() const {
  return Error(Code::kInvalid, fmt::format("not valid JSON: at offset {}: {}", at_ - begin_, why_));
}

bool JsonReader::fail(const char* what) {
  if (!failed_) why_ = what;
  failed_ = true;
  return false;
}

void JsonReader::space() {
  while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
}

JsonReader::Kind JsonReader::peek() {
  space();
  if (failed_) return Kind::kWrong;
  if (at_ == end_) return Kind::kEnd;
  switch (*at_) {
    case '{':
      return Kind::kObject;
    case '[':
      return Kind::kArray;
    case '"':
      return Kind::kString;
    case 't':
      return Kind::kTrue;
    case 'f':
      return Kind::kFalse;
    case 'n':
      return Kind::kNull;
    default:
      return *at_ == '-' || isDigit(*at_) ? Kind::kNumber : Kind::kWrong;
  }
}

bool JsonReader::enter() {
  if (first_.size() >= kMostNested) return fail("this is nested too deep");
  first_.push_back(true);
  ++at_;
  return true;
}

bool JsonReader::beginObject() {
  return peek() == Kind::kObject ? enter() : fail("an object is expected");
}

bool JsonReader::beginArray() {
  return peek() == Kind::kArray ? enter() : fail("a list is expected");
}

bool JsonReader::nextKey(std::string& key) {
  if (failed_ || first_.empty()) return false;
  space();
  const bool first = first_.back();
  if (at_ != end_ && *at_ == '}') {
    ++at_;
    first_.pop_back();
    return false;
  }
  if (!first) {
    if (at_ == end_ || *at_ != ',') return fail("a comma or } is expected");
    ++at_;
    space();
  }
  first_.back() = false;
  if (at_ == end_ || *at_ != '"') return fail("a name in quotes is expected");
  if (!readString(key)) return false;
  space();
  if (at_ == end_ || *at_ != ':') return fail("a colon is expected");
  ++at_;
  return true;
}

bool JsonReader::nextElement() {
  if (failed_ || first_.empty()) return false;
  space();
  if (at_ != end_ && *at_ == ']') {
    ++at_;
    first_.pop_back();
    return false;
  }
  if (!first_.back()) {
    if (at_ == end_ || *at_ != ',') return fail("a comma or ] is expected");
    ++at_;
    space();
    if (at_ != end_ && *at_ == ']') return fail("a value is expected");
  }
  first_.back() = false;
  return true;
}

std::size_t JsonReader::readFloats(std::vector<float>& out, bool& ended) {
  std::size_t count = 0;
  ended = false;
  while (nextElement()) {
    float value = 0;
    if (const char* const stop = readSmall(at_, end_, value); stop != nullptr) {
      at_ = stop;
    } else {
      const char* const end = endOfNumber(at_, end_);
      if (end == nullptr) {
        fail("a number is expected");
        return count;
      }
      if (!convert(at_, end, value)) {
        fail("this number is beyond float32");
        return count;
      }
      at_ = end;
    }
    out.push_back(value);
    ++count;
  }
  ended = !failed_;
  return count;
}

bool JsonReader::readNumber(double& out) {
  if (peek() != Kind::kNumber) return fail("a number is expected");
  const char* const end = endOfNumber(at_, end_);
  if (end == nullptr) return fail("a number is expected");
  if (!convert(at_, end, out)) return fail("this number is too large");
  at_ = end;
  return true;
}

bool JsonReader::readInteger(std::int64_t& out) {
  if (peek() != Kind::kNumber) return fail("a whole number is expected");
  const char* const end = endOfNumber(at_, end_);
  if (end == nullptr) return fail("a whole number is expected");
  const auto [stop, error] = std::from_chars(at_, end, out);
  if (error != std::errc() || stop != end) return fail("a whole number is expected");
  at_ = end;
  return true;
}

bool JsonReader::readBool(bool& out) {
  const Kind kind = peek();
  if (kind != Kind::kTrue && kind != Kind::kFalse) return fail("true or false is expected");
  out = kind == Kind::kTrue;
  return literal(out ? "true" : "false");
}

bool JsonReader::literal(std::string_view word) {
  if (!std::string_view(at_, static_cast<std::size_t>(end_ - at_)).starts_with(word))
    return fail("this is no value");
  at_ += word.size();
  return true;
}

bool JsonReader::hex4(std::uint32_t& code) {
  if (end_ - at_ < 4) return fail("\\u wants four digits");
  const auto [stop, error] = std::from_chars(at_, at_ + 4, code, 16);
  if (error != std::errc() || stop != at_ + 4) return fail("\\u wants four digits");
  at_ += 4;
  return true;
}

bool JsonReader::escape(std::string& out) {
  if (at_ == end_) return fail("the text has no end");
  switch (*at_++) {
    case '"':
      out += '"';
      return true;
    case '\\':
      out += '\\';
      return true;
    case '/':
      out += '/';
      return true;
    case 'b':
      out += '\b';
      return true;
    case 'f':
      out += '\f';
      return true;
    case 'n':
      out += '\n';
      return true;
    case 'r':
      out += '\r';
      return true;
    case 't':
      out += '\t';
      return true;
    case 'u':
      break;
    default:
      return fail("there is no such escape");
  }
  std::uint32_t code = 0;
  if (!hex4(code)) return false;
  if (code >= 0xdc00 && code < 0xe000) return fail("half of a surrogate pair");
  if (code >= 0xd800 && code < 0xdc00) {
    std::uint32_t low = 0;
    if (end_ - at_ < 2 || at_[0] != '\\' || at_[1] != 'u') return fail("half of a surrogate pair");
    at_ += 2;
    if (!hex4(low)) return false;
    if (low < 0xdc00 || low >= 0xe000) return fail("half of a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  appendUtf8(out, code);
  return true;
}

bool JsonReader::readString(std::string& out) {
  if (peek() != Kind::kString) return fail("a text is expected");
  ++at_;
  out.clear();
  while (true) {
    const char* const run = at_;
    while (at_ != end_ && *at_ != '"' && *at_ != '\\' && static_cast<unsigned char>(*at_) >= 0x20)
      ++at_;
    out.append(run, at_);
    if (at_ == end_) return fail("the text has no end");
    const char c = *at_;
    if (static_cast<unsigned char>(c) < 0x20) return fail("a control character in a text");
    ++at_;
    if (c == '"') break;
    if (!escape(out)) return false;
  }
  return findInvalidUtf8(out) ? fail("a text that is not UTF-8") : true;
}

bool JsonReader::skip(std::string_view* raw) {
  const std::size_t depth = first_.size();
  peek();
  const char* const begin = at_;
  std::string text;
  double number = 0;
  // What is open is closed again in a loop: hostile nesting costs no stack.
  do {
    if (first_.size() > depth) {
      const bool object = skipped_objects_.back();
      const bool more = object ? nextKey(text) : nextElement();
      if (failed_) return false;
      if (!more) {
        skipped_objects_.pop_back();
        continue;
      }
    }
    switch (peek()) {
      case Kind::kObject:
        if (!beginObject()) return false;
        skipped_objects_.push_back(true);
        break;
      case Kind::kArray:
        if (!beginArray()) return false;
        skipped_objects_.push_back(false);
        break;
      case Kind::kString:
        if (!readString(text)) return false;
        break;
      case Kind::kNumber:
        if (!readNumber(number)) return false;
        break;
      case Kind::kTrue:
        if (!literal("true")) return false;
        break;
      case Kind::kFalse:
        if (!literal("false")) return false;
        break;
      case Kind::kNull:
        if (!literal("null")) return false;
        break;
      default:
        return fail("a value is expected");
    }
  } while (first_.size() > depth);
  if (raw != nullptr) *raw = {begin, static_cast<std::size_t>(at_ - begin)};
  return true;
}

bool JsonReader::atEnd() {
  if (failed_) return false;
  space();
  return at_ == end_ ? true : fail("there is something behind the value");
}

void appendJsonString(std::string& out, std::string_view text) {
  std::string valid;
  if (findInvalidUtf8(text)) {
    valid = toValidUtf8(text);
    text = valid;
  }
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

void appendJsonNumber(std::string& out, float number) {
  if (!std::isfinite(number)) {
    out += "null";
    return;
  }
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, number);
  out.append(digits, end);
  // A whole number stays a floating-point one for whoever reads it.
  if (std::string_view(digits, static_cast<std::size_t>(end - digits)).find_first_of(".e") ==
      std::string_view::npos)
    out += ".0";
}

}  // namespace dure::serve
