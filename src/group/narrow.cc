#include "group/narrow.h"

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
  static std::uint16_t narrow(float value) { return collective::toFloat16(value); }
  static float widen(std::uint16_t bits) { return collective::fromFloat16(bits); }
};
struct BFloat16 {
  static constexpr float kLargest = kLargestBFloat16;
  static std::uint16_t narrow(float value) { return collective::toBFloat16(value); }
  static float widen(std::uint16_t bits) { return collective::fromBFloat16(bits); }
};

template <typename Format>
void narrowAll(std::span<const float> values, std::span<float> held,
               std::span<std::uint16_t> narrow) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float exact = values[i] + held[i];
    const float size = std::fabs(exact);
    const bool large = size > Format::kLargest && size < kInfinity;
    const std::uint16_t rounded =
        Format::narrow(large ? std::copysign(Format::kLargest, exact) : exact);
    narrow[i] = rounded;
    const float lost = exact - Format::widen(rounded);
    // Also none for infinities and NaN, whose difference is no number.
    held[i] = size <= Format::kLargest ? lost : 0.0F;
  }
}

template <typename Format>
void widenAll(std::span<const std::uint16_t> narrow, std::span<float> values) {
  for (std::size_t i = 0; i < narrow.size(); ++i) values[i] = Format::widen(narrow[i]);
}

template <typename Format>
void addAll(std::span<const std::uint16_t> narrow, std::span<float> sums) {
  for (std::size_t i = 0; i < narrow.size(); ++i) sums[i] += Format::widen(narrow[i]);
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

void narrowNumbers(Wire wire, std::span<const float> values, std::span<float> held,
                   std::span<std::uint16_t> narrow) {
  wire == Wire::kFloat16 ? narrowAll<Float16>(values, held, narrow)
                         : narrowAll<BFloat16>(values, held, narrow);
}

void widenNumbers(Wire wire, std::span<const std::uint16_t> narrow, std::span<float> values) {
  wire == Wire::kFloat16 ? widenAll<Float16>(narrow, values) : widenAll<BFloat16>(narrow, values);
}

void addNarrow(Wire wire, std::span<const std::uint16_t> narrow, std::span<float> sums) {
  wire == Wire::kFloat16 ? addAll<Float16>(narrow, sums) : addAll<BFloat16>(narrow, sums);
}

std::string writeFeedback(const Feedback& feedback) {
  if (feedback.empty()) return "";
  std::string out(kMagic);
  for (const auto& [stream, held] : feedback) {
    const std::int64_t number = stream;
    append(out, &number, 1);
    for (const auto* floats : {&held.mine, &held.summed}) {
      const std::uint64_t count = floats->size();
      append(out, &count, 1);
      append(out, floats->data(), floats->size());
    }
  }
  return out;
}

Result<Feedback> readFeedback(std::string_view bytes) {
  Feedback feedback;
  if (bytes.empty()) return feedback;
  if (!bytes.starts_with(kMagic)) return Error(Code::kInvalid, "this is no error feedback");
  bytes.remove_prefix(kMagic.size());
  while (!bytes.empty()) {
    std::int64_t stream = 0;
    HeldBack held;
    if (!take(bytes, &stream, 1) || !takeFloats(bytes, held.mine) ||
        !takeFloats(bytes, held.summed)) {
      return Error(Code::kInvalid, "the error feedback is cut short");
    }
    feedback[static_cast<int>(stream)] = std::move(held);
  }
  return feedback;
}

}  // namespace dure::group
