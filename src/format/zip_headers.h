#pragma once

#include <cstdint>
#include <string>

#include "format/zip_directory.h"
#include "format/zip_records.h"

// The headers of a zip file that is written. They hold no times: the same content, the same bytes.
namespace dure::format {

// The bytes of a member begin at a multiple of it.
inline constexpr std::size_t kZipAlign = 64;

// Fields one after the other, little-endian.
class ZipFields {
 public:
  template <typename T>
  ZipFields& add(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  ZipFields& add(const std::string& text) {
    text_ += text;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// In front of the member's bytes; its length follows from the name and the place, and whether the
// sizes fit 32 bits.
std::string localHeader(ZipMember member);
// The member's entry in the directory.
std::string centralHeader(const ZipMember& member);
// What follows a directory of `size` bytes at `offset`.
std::string endOfDirectory(std::uint64_t offset, std::uint64_t size, std::uint64_t count);

}  // namespace dure::format
