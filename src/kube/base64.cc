#include "kube/base64.h"

#include <openssl/evp.h>

#include <algorithm>
#include <cctype>

namespace dure::kube {

std::string toBase64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

Result<std::string> fromBase64(std::string_view text) {
  std::string compact;
  compact.reserve(text.size());
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) == 0) compact += c;
  }
  std::string decoded(compact.size() / 4 * 3 + 3, '\0');
  const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(decoded.data()),
                                     reinterpret_cast<const unsigned char*>(compact.data()),
                                     static_cast<int>(compact.size()));
  if (length < 0) return Error(Code::kInvalid, "it is not base64");
  // The padding counts as bytes.
  const std::size_t padding = compact.size() - compact.find_last_not_of('=') - 1;
  decoded.resize(static_cast<std::size_t>(length) - std::min<std::size_t>(padding, 2));
  return decoded;
}

}  // namespace dure::kube
