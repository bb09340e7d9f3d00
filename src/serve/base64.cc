#include "serve/base64.h"

#include <array>
#include <cstdint>

namespace dure::serve {
namespace {

constexpr std::uint8_t kNoDigit = 0xff;

constexpr std::array<std::uint8_t, 256> base64Digits() {
  std::array<std::uint8_t, 256> digits{};
  for (auto& digit : digits) digit = kNoDigit;
  std::uint8_t next = 0;
  for (unsigned char c = 'A'; c <= 'Z'; ++c) digits[c] = next++;
  for (unsigned char c = 'a'; c <= 'z'; ++c) digits[c] = next++;
  for (unsigned char c = '0'; c <= '9'; ++c) digits[c] = next++;
  digits['+'] = digits['-'] = 62;
  digits['/'] = digits['_'] = 63;
  return digits;
}

}  // namespace

Result<std::string> decodeBase64(std::string_view text) {
  static constexpr auto kDigits = base64Digits();
  const auto wrong = [] { return Error(Code::kInvalid, "this is not base64"); };
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  if (text.size() % 4 == 1) return wrong();
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::uint8_t digit = kDigits[static_cast<unsigned char>(c)];
    if (digit == kNoDigit) return wrong();
    bits = bits << 6 | digit;
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xff);
    }
  }
  return bytes;
}

}  // namespace dure::serve
