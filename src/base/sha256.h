#pragma once

#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's, whose headers nobody else needs

namespace dure {

// The SHA-256 of the bytes, in 64 hexadecimal digits.
std::string sha256Hex(std::string_view bytes);

// The same of bytes that come piece by piece.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(std::string_view bytes);
  // Of all that was added; then it begins anew.
  std::string takeHex();

 private:
  evp_md_ctx_st* const state_;  // owned
};

}  // namespace dure
