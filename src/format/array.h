#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dure::format {

// Numbers as files hold them.
enum class DType { kBool, kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64, kF16, kBF16, kF32, kF64 };

std::size_t sizeOf(DType type);
// "uint8", "float32", …, as numpy says it.
std::string dtypeName(DType type);
bool isFloat(DType type);

// A view of numbers in C order. It keeps alive what it lies in (a mapped file, a buffer): shared,
// since every array of one file lies in the same mapping. Arrays of .npz files may begin at any
// address; those of models at a multiple of their numbers' size, in the byte order of this machine.
struct Array {
  DType dtype = DType::kU8;
  std::vector<std::int64_t> shape;
  const std::byte* data = nullptr;
  std::shared_ptr<const void> owner;
  bool swapped = false;  // the numbers are in the other byte order

  std::int64_t elements() const;
  std::size_t bytes() const;
};

// How many numbers something of this shape has, and the bytes that they take; nothing if a size is
// negative or if it is too much: 2^62 bytes or more, whatever a size of 0 makes of the rest. Every
// shape that comes from a file or a job is measured here.
std::optional<std::int64_t> checkedElements(std::span<const std::int64_t> shape);
std::optional<std::size_t> checkedBytes(DType type, std::span<const std::int64_t> shape);

// An array in memory of its own, all zero, and where to write it.
Array makeArray(DType type, std::vector<std::int64_t> shape);
std::byte* writableData(Array& made);

// The number at `at`, which need not be aligned. Integers beyond 2^53 are rounded.
double numberAt(DType type, const std::byte* at);
// The same for the array's number `index`, which must be there, in either byte order.
double numberAt(const Array& array, std::int64_t index);

// Turns each of `count` numbers of `width` bytes around: from the other byte order to ours.
void swapBytes(std::byte* data, std::size_t count, std::size_t width);

}  // namespace dure::format
