#include "group/gradient_compression.h"

#include <cmath>
#include <cstring>

#include "collective/half.h"

namespace dure::group {
namespace {

constexpr std::string_view kMagic = "dure feedback 1\n";
constexpr float kLargestFloat16 = 65504.0F;
// Finite numbers from here on would round to infinity.
constexpr float kLargestBFloat16 = 3.3895314e38F;

struct Float16 {
  static constexpr float kLargest = kLargestFloat16;
  static std::uint16_t compress(float value) { return collective::toFloat16(value); }
  static float decompress(std::uint16_t bits) { return collective::fromFloat16(bits); }
};
struct BFloat16 {
  static constexpr float kLargest = kLargestBFloat16;
  static std::uint16_t compress(float value) { return collective::toBFloat16(value); }
  static float decompress(std::uint16_t bits) { return collective::fromBFloat16(bits); }
};

template <typename Format>
void compressAll(std::span<const float> values, std::span<float> residual,
                 std::span<std::uint16_t> compressed) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float exact = values[i] + residual[i];
    const float magnitude = std::fabs(exact);
    const bool large = magnitude > Format::kLargest && magnitude < kInfinity;
    const std::uint16_t rounded =
        Format::compress(large ? std::copysign(Format::kLargest, exact) : exact);
    compressed[i] = rounded;
    const float error = exact - Format::decompress(rounded);
    // Also none for infinities and NaN, whose difference is no number.
    residual[i] = magnitude <= Format::kLargest ? error : 0.0F;
  }
}

template <typename Format>
void decompressAll(std::span<const std::uint16_t> compressed, std::span<float> values) {
  for (std::size_t i = 0; i < compressed.size(); ++i) values[i] = Format::decompress(compressed[i]);
}

template <typename Format>
void addAll(std::span<const std::uint16_t> compressed, std::span<float> sums) {
  for (std::size_t i = 0; i < compressed.size(); ++i) sums[i] += Format::decompress(compressed[i]);
}

template <typename T>
void append(std::string& out, const T* values, std::size_t count) {
  out.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

template <typename T>
bool take(std::string_view& bytes, T* values, std::size_t count) {
  if (bytes.size() / sizeof(T) < count) return false;
  if (count > 0) std::memcpy(values, bytes.data(), count * sizeof(T));
  bytes.remove_prefix(count * sizeof(T));
  return true;
}

bool takeFloats(std::string_view& bytes, std::vector<float>& floats) {
  std::uint64_t count = 0;
  if (!take(bytes, &count, 1) || bytes.size() / sizeof(float) < count) return false;
  floats.resize(count);
  return take(bytes, floats.data(), count);
}

}  // namespace

void compress(Compression compression, std::span<const float> values, std::span<float> residual,
              std::span<std::uint16_t> compressed) {
  compression == Compression::kFloat16 ? compressAll<Float16>(values, residual, compressed)
                                       : compressAll<BFloat16>(values, residual, compressed);
}

void decompress(Compression compression, std::span<const std::uint16_t> compressed,
                std::span<float> values) {
  compression == Compression::kFloat16 ? decompressAll<Float16>(compressed, values)
                                       : decompressAll<BFloat16>(compressed, values);
}

void addCompressed(Compression compression, std::span<const std::uint16_t> compressed,
                   std::span<float> sums) {
  compression == Compression::kFloat16 ? addAll<Float16>(compressed, sums)
                                       : addAll<BFloat16>(compressed, sums);
}

std::string writeResiduals(const Residuals& residuals) {
  if (residuals.empty()) return "";
  std::string out(kMagic);
  for (const auto& [stream, residual] : residuals) {
    const std::int64_t number = stream;
    append(out, &number, 1);
    for (const auto* floats : {&residual.own, &residual.reduced}) {
      const std::uint64_t count = floats->size();
      append(out, &count, 1);
      append(out, floats->data(), floats->size());
    }
  }
  return out;
}

Result<Residuals> readResiduals(std::string_view bytes) {
  Residuals residuals;
  if (bytes.empty()) return residuals;
  if (!bytes.starts_with(kMagic)) return Error(Code::kInvalid, "these are no residuals");
  bytes.remove_prefix(kMagic.size());
  while (!bytes.empty()) {
    std::int64_t stream = 0;
    Residual residual;
    if (!take(bytes, &stream, 1) || !takeFloats(bytes, residual.own) ||
        !takeFloats(bytes, residual.reduced)) {
      return Error(Code::kInvalid, "the residuals are cut short");
    }
    residuals[static_cast<int>(stream)] = std::move(residual);
  }
  return residuals;
}

}  // namespace dure::group
