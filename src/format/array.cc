#include "format/array.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace dure::format {
namespace {

// Files hold little-endian numbers, and views of them are read as they lie.
static_assert(std::endian::native == std::endian::little);

struct Kind {
  std::size_t size;
  const char* name;
};

// In the order of DType.
constexpr std::array<Kind, 13> kKinds = {{{1, "bool"},
                                          {1, "uint8"},
                                          {1, "int8"},
                                          {2, "uint16"},
                                          {2, "int16"},
                                          {4, "uint32"},
                                          {4, "int32"},
                                          {8, "uint64"},
                                          {8, "int64"},
                                          {2, "float16"},
                                          {2, "bfloat16"},
                                          {4, "float32"},
                                          {8, "float64"}}};

const Kind& kindOf(DType type) { return kKinds.at(static_cast<std::size_t>(type)); }

template <typename T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

double halfToDouble(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1f;
  const int fraction = bits & 0x3ff;
  double value = 0;
  if (exponent == 0x1f) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(fraction + 0x400, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

}  // namespace

std::size_t sizeOf(DType type) { return kindOf(type).size; }

std::string dtypeName(DType type) { return kindOf(type).name; }

bool isFloat(DType type) {
  return type == DType::kF16 || type == DType::kBF16 || type == DType::kF32 || type == DType::kF64;
}

std::int64_t Array::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

std::size_t Array::bytes() const { return static_cast<std::size_t>(elements()) * sizeOf(dtype); }

std::optional<std::int64_t> checkedElements(std::span<const std::int64_t> shape) {
  // So that numbers of any type can be had of it.
  const auto bytes = checkedBytes(DType::kF64, shape);
  if (!bytes) return std::nullopt;
  return static_cast<std::int64_t>(*bytes / sizeOf(DType::kF64));
}

std::optional<std::size_t> checkedBytes(DType type, std::span<const std::int64_t> shape) {
  // Sizes stay below 2^62, so that sums with offsets do not overflow either. A zero among the sizes
  // does not excuse the others: whoever multiplies a part of the shape must be safe, too.
  constexpr std::size_t kMost = std::size_t{1} << 62u;
  std::size_t bytes = sizeOf(type);
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size == 0) {
      empty = true;
      continue;
    }
    if (bytes > kMost / static_cast<std::size_t>(size)) return std::nullopt;
    bytes *= static_cast<std::size_t>(size);
  }
  return empty ? 0 : bytes;
}

Array makeArray(DType type, std::vector<std::int64_t> shape) {
  Array made{.dtype = type, .shape = std::move(shape)};
  // calloc leaves large arrays to the system's zero pages until they are written.
  const std::size_t bytes = std::max<std::size_t>(made.bytes(), 1);
  void* const memory = std::calloc(bytes, 1);
  if (memory == nullptr) throw std::bad_alloc();
  made.owner = std::shared_ptr<void>(memory, [](void* allocated) { std::free(allocated); });
  made.data = static_cast<const std::byte*>(memory);
  return made;
}

std::byte* writableData(Array& made) { return const_cast<std::byte*>(made.data); }

double numberAt(DType type, const std::byte* at) {
  switch (type) {
    case DType::kBool:
      return load<std::uint8_t>(at) != 0 ? 1 : 0;
    case DType::kU8:
      return load<std::uint8_t>(at);
    case DType::kI8:
      return load<std::int8_t>(at);
    case DType::kU16:
      return load<std::uint16_t>(at);
    case DType::kI16:
      return load<std::int16_t>(at);
    case DType::kU32:
      return load<std::uint32_t>(at);
    case DType::kI32:
      return load<std::int32_t>(at);
    case DType::kU64:
      return static_cast<double>(load<std::uint64_t>(at));
    case DType::kI64:
      return static_cast<double>(load<std::int64_t>(at));
    case DType::kF16:
      return halfToDouble(load<std::uint16_t>(at));
    case DType::kBF16:
      return std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(at)} << 16u);
    case DType::kF32:
      return load<float>(at);
    case DType::kF64:
      return load<double>(at);
  }
  return 0;
}

double numberAt(const Array& array, std::int64_t index) {
  const std::size_t width = sizeOf(array.dtype);
  const std::byte* const at = array.data + static_cast<std::size_t>(index) * width;
  if (!array.swapped) return numberAt(array.dtype, at);
  std::array<std::byte, sizeof(std::uint64_t)> number{};
  std::reverse_copy(at, at + width, number.begin());
  return numberAt(array.dtype, number.data());
}

void swapBytes(std::byte* data, std::size_t count, std::size_t width) {
  for (std::size_t i = 0; i < count; ++i) {
    std::reverse(data + i * width, data + (i + 1) * width);
  }
}

}  // namespace dure::format
