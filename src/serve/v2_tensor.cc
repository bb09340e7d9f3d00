#include "serve/v2_tensor.h"

#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/core.h>

#include "format/numbers.h"

namespace dure::serve {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::array<std::pair<std::string_view, V2Type>, 13> kV2Types{{{"BOOL", V2Type::kBool},
                                                                        {"UINT8", V2Type::kU8},
                                                                        {"UINT16", V2Type::kU16},
                                                                        {"UINT32", V2Type::kU32},
                                                                        {"UINT64", V2Type::kU64},
                                                                        {"INT8", V2Type::kI8},
                                                                        {"INT16", V2Type::kI16},
                                                                        {"INT32", V2Type::kI32},
                                                                        {"INT64", V2Type::kI64},
                                                                        {"FP16", V2Type::kF16},
                                                                        {"FP32", V2Type::kF32},
                                                                        {"FP64", V2Type::kF64},
                                                                        {"BYTES", V2Type::kBytes}}};

template <typename Number>
void convertAll(std::string_view bytes, std::vector<float>& out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    Number number;
    std::memcpy(&number, bytes.data() + i * sizeof number, sizeof number);
    out[i] = static_cast<float>(number);
  }
}

}  // namespace

Result<V2Type> v2TypeNamed(std::string_view name) {
  for (const auto& [each, type] : kV2Types) {
    if (each == name) return type;
  }
  return Error(Code::kInvalid, fmt::format("there is no datatype {}", name));
}

std::size_t v2Size(V2Type type) {
  switch (type) {
    case V2Type::kBool:
    case V2Type::kU8:
    case V2Type::kI8:
      return 1;
    case V2Type::kU16:
    case V2Type::kI16:
    case V2Type::kF16:
      return 2;
    case V2Type::kU32:
    case V2Type::kI32:
    case V2Type::kF32:
      return 4;
    case V2Type::kU64:
    case V2Type::kI64:
    case V2Type::kF64:
      return 8;
    case V2Type::kBytes:
      break;
  }
  return 0;
}

Result<std::vector<float>> decodeNumbers(V2Type type, std::string_view bytes, std::int64_t count) {
  const std::size_t size = v2Size(type);
  if (size == 0) return Error(Code::kInvalid, "BYTES are no numbers");
  if (count < 0 || static_cast<std::uint64_t>(count) != bytes.size() / size ||
      bytes.size() % size != 0) {
    return Error(Code::kInvalid, fmt::format("{} numbers of {} bytes each are not {} bytes", count,
                                             size, bytes.size()));
  }
  std::vector<float> out(static_cast<std::size_t>(count));
  switch (type) {
    case V2Type::kBool:
    case V2Type::kU8:
      convertAll<std::uint8_t>(bytes, out);
      break;
    case V2Type::kU16:
      convertAll<std::uint16_t>(bytes, out);
      break;
    case V2Type::kU32:
      convertAll<std::uint32_t>(bytes, out);
      break;
    case V2Type::kU64:
      convertAll<std::uint64_t>(bytes, out);
      break;
    case V2Type::kI8:
      convertAll<std::int8_t>(bytes, out);
      break;
    case V2Type::kI16:
      convertAll<std::int16_t>(bytes, out);
      break;
    case V2Type::kI32:
      convertAll<std::int32_t>(bytes, out);
      break;
    case V2Type::kI64:
      convertAll<std::int64_t>(bytes, out);
      break;
    case V2Type::kF16:
      convertAll<format::Half>(bytes, out);
      break;
    case V2Type::kF32:
      convertAll<float>(bytes, out);
      break;
    case V2Type::kF64:
      convertAll<double>(bytes, out);
      break;
    case V2Type::kBytes:
      break;
  }
  return out;
}

Result<std::vector<std::string>> decodeBytes(std::string_view bytes, std::int64_t count) {
  std::vector<std::string> out;
  while (!bytes.empty()) {
    std::uint32_t length = 0;
    if (bytes.size() < sizeof length) return Error(Code::kInvalid, "the tensor ends too early");
    std::memcpy(&length, bytes.data(), sizeof length);
    bytes.remove_prefix(sizeof length);
    if (length > bytes.size()) return Error(Code::kInvalid, "the tensor ends too early");
    out.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  if (static_cast<std::int64_t>(out.size()) != count) {
    return Error(Code::kInvalid, fmt::format("the tensor has {} elements, and its shape says {}",
                                             out.size(), count));
  }
  return out;
}

}  // namespace dure::serve
