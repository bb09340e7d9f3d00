#include "base/sha256.h"

#include <openssl/evp.h>

#include <cstdlib>

namespace dure {

std::string sha256Hex(std::string_view bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  // Fails only if the library itself is broken: nothing that depends on a hash may go on then.
  if (EVP_Digest(bytes.data(), bytes.size(), digest, &size, EVP_sha256(), nullptr) != 1) abort();
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * size);
  for (unsigned int i = 0; i < size; ++i) {
    text += kDigits[digest[i] >> 4u];
    text += kDigits[digest[i] & 15u];
  }
  return text;
}

}  // namespace dure
