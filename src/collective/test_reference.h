#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "collective/half.h"
#include "collective/number.h"

// For tests: reductions one number at a time, as the contract says them.
namespace dure::collective::reference {

inline constexpr Number kNumbers[] = {Number::kFloat32,  Number::kFloat64, Number::kFloat16,
                                      Number::kBFloat16, Number::kInt8,    Number::kUInt8,
                                      Number::kInt16,    Number::kInt32,   Number::kInt64};
inline constexpr Reduction kReductions[] = {Reduction::kSum, Reduction::kProduct, Reduction::kMin,
                                            Reduction::kMax};

template <typename T>
T combine(Reduction reduction, T a, T b) {
  switch (reduction) {
    case Reduction::kSum:
      return static_cast<T>(a + b);
    case Reduction::kProduct:
      return static_cast<T>(a * b);
    case Reduction::kMin:
      return b < a ? b : a;
    case Reduction::kMax:
      return a < b ? b : a;
  }
  return a;
}

template <typename T>
void reduceAs(Reduction reduction, const std::vector<std::vector<std::byte>>& inputs,
              std::vector<std::byte>& result) {
  for (std::size_t at = 0; at + sizeof(T) <= result.size(); at += sizeof(T)) {
    T sum{};
    std::memcpy(&sum, inputs[0].data() + at, sizeof sum);
    for (std::size_t i = 1; i < inputs.size(); ++i) {
      T next{};
      std::memcpy(&next, inputs[i].data() + at, sizeof next);
      sum = combine(reduction, sum, next);
    }
    std::memcpy(result.data() + at, &sum, sizeof sum);
  }
}

template <float (*kFrom)(std::uint16_t), std::uint16_t (*kTo)(float)>
void reduceHalves(Reduction reduction, const std::vector<std::vector<std::byte>>& inputs,
                  std::vector<std::byte>& result) {
  for (std::size_t at = 0; at + 2 <= result.size(); at += 2) {
    float sum = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, inputs[i].data() + at, 2);
      sum = i == 0 ? kFrom(bits) : combine(reduction, sum, kFrom(bits));
    }
    const std::uint16_t rounded = kTo(sum);
    std::memcpy(result.data() + at, &rounded, 2);
  }
}

inline std::vector<std::byte> reduce(Number number, Reduction reduction,
                                     const std::vector<std::vector<std::byte>>& inputs) {
  std::vector<std::byte> result(inputs[0].size());
  switch (number) {
    case Number::kFloat32:
      reduceAs<float>(reduction, inputs, result);
      break;
    case Number::kFloat64:
      reduceAs<double>(reduction, inputs, result);
      break;
    case Number::kFloat16:
      reduceHalves<fromFloat16, toFloat16>(reduction, inputs, result);
      break;
    case Number::kBFloat16:
      reduceHalves<fromBFloat16, toBFloat16>(reduction, inputs, result);
      break;
    case Number::kInt8:
      reduceAs<std::int8_t>(reduction, inputs, result);
      break;
    case Number::kUInt8:
      reduceAs<std::uint8_t>(reduction, inputs, result);
      break;
    case Number::kInt16:
      reduceAs<std::int16_t>(reduction, inputs, result);
      break;
    case Number::kInt32:
      reduceAs<std::int32_t>(reduction, inputs, result);
      break;
    case Number::kInt64:
      reduceAs<std::int64_t>(reduction, inputs, result);
      break;
  }
  return result;
}

// Numbers between -3 and 3 or so, with fractions that rounding shows in; the same for the same
// seed.
inline std::vector<std::byte> someNumbers(Number number, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> fraction(-3.0F, 3.0F);
  std::vector<std::byte> bytes(count * sizeOf(number));
  const auto put = [&](std::size_t i, auto value) {
    std::memcpy(bytes.data() + i * sizeof value, &value, sizeof value);
  };
  for (std::size_t i = 0; i < count; ++i) {
    const float value = fraction(random);
    switch (number) {
      case Number::kFloat32:
        put(i, value);
        break;
      case Number::kFloat64:
        put(i, static_cast<double>(value) / 3);
        break;
      case Number::kFloat16:
        put(i, toFloat16(value));
        break;
      case Number::kBFloat16:
        put(i, toBFloat16(value));
        break;
      case Number::kInt8:
        put(i, static_cast<std::int8_t>(value));
        break;
      case Number::kUInt8:
        put(i, static_cast<std::uint8_t>(value + 3));
        break;
      case Number::kInt16:
        put(i, static_cast<std::int16_t>(value));
        break;
      case Number::kInt32:
        put(i, static_cast<std::int32_t>(value));
        break;
      case Number::kInt64:
        put(i, static_cast<std::int64_t>(value * 1e3F));
        break;
    }
  }
  return bytes;
}

// What each of some members has.
inline std::vector<std::vector<std::byte>> inputsFor(Number number, std::size_t count,
                                                     int members) {
  std::vector<std::vector<std::byte>> inputs;
  for (int m = 0; m < members; ++m) {
    inputs.push_back(someNumbers(number, count, static_cast<unsigned>(m)));
  }
  return inputs;
}

}  // namespace dure::collective::reference
