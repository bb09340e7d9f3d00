#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace dure::format {

class FlatTable;

// Bytes in the FlatBuffers layout, which may be hostile. Whatever is asked for and lies outside
// them is zero or empty, and from then on the buffer is damaged(): ask once, after reading
// everything.
class FlatBuffer {
 public:
  explicit FlatBuffer(std::span<const std::byte> bytes) : bytes_(bytes) {}
  FlatBuffer(const FlatBuffer&) = delete;
  FlatBuffer& operator=(const FlatBuffer&) = delete;

  FlatTable root();
  bool damaged() const { return damaged_; }
  void setDamaged() { damaged_ = true; }

  template <typename T>
  T number(std::size_t at) {
    T value{};
    if (at > bytes_.size() || bytes_.size() - at < sizeof value) {
      damaged_ = true;
    } else {
      std::memcpy(&value, bytes_.data() + at, sizeof value);
    }
    return value;
  }
  // Where an offset that stands at `at` leads to.
  std::size_t follow(std::size_t at) { return at + number<std::uint32_t>(at); }
  std::string_view text(std::size_t at, std::size_t size);

 private:
  const std::span<const std::byte> bytes_;
  bool damaged_ = false;
};

// Elements of one size after another: numbers, structs, or offsets of tables.
class FlatVector {
 public:
  FlatVector() = default;
  FlatVector(FlatBuffer* buffer, std::size_t first, std::uint32_t size, std::size_t step)
      : buffer_(buffer), first_(first), size_(size), step_(step) {}

  std::uint32_t size() const { return size_; }
  // The number `offset` bytes into element `index`, which is below size().
  template <typename T>
  T number(std::uint32_t index, std::size_t offset = 0) const {
    return buffer_->number<T>(first_ + index * step_ + offset);
  }
  FlatTable table(std::uint32_t index) const;

 private:
  FlatBuffer* buffer_ = nullptr;
  std::size_t first_ = 0;
  std::uint32_t size_ = 0;
  std::size_t step_ = 0;
};

// A table, or none; fields of no table are absent. Fields are known by number, as the schema that
// both sides share lists them.
class FlatTable {
 public:
  FlatTable() = default;
  FlatTable(FlatBuffer* buffer, std::size_t at) : buffer_(buffer), at_(at) {}

  explicit operator bool() const { return buffer_ != nullptr; }
  template <typename T>
  T number(unsigned field, T otherwise) const {
    const std::size_t at = find(field);
    return at == 0 ? otherwise : buffer_->number<T>(at);
  }
  FlatTable table(unsigned field) const;
  std::string_view text(unsigned field) const;
  FlatVector vector(unsigned field, std::size_t step) const;

 private:
  // 0: absent. No field lies there, since the buffer begins with the root's offset.
  std::size_t find(unsigned field) const;

  FlatBuffer* buffer_ = nullptr;
  std::size_t at_ = 0;
};

}  // namespace dure::format
