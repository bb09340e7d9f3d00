#include "base/sha256.h"

#include <openssl/evp.h>

#include <cstdlib>
#include <span>

namespace dure {
namespace {

// Fails only if the library itself is broken: nothing that depends on a hash may go on then.
void insist(int done) {
  if (done != 1) abort();
}

std::string hexOf(std::span<const unsigned char> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4u];
    text += kDigits[byte & 15u];
  }
  return text;
}

}  // namespace

std::string sha256Hex(std::string_view bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.takeHex();
}

Sha256::Sha256() : state_(EVP_MD_CTX_new()) {
  insist(state_ != nullptr);
  insist(EVP_DigestInit_ex(state_, EVP_sha256(), nullptr));
}

Sha256::~Sha256() { EVP_MD_CTX_free(state_); }

void Sha256::add(std::string_view bytes) {
  insist(EVP_DigestUpdate(state_, bytes.data(), bytes.size()));
}

std::string Sha256::takeHex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  insist(EVP_DigestFinal_ex(state_, digest, &size));
  insist(EVP_DigestInit_ex(state_, nullptr, nullptr));
  return hexOf({digest, size});
}

}  // namespace dure
