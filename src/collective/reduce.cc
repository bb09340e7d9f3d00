#include "collective/reduce.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "collective/half.h"

namespace dure::collective {
namespace {

// Bytes that stay in the first cache while source after source is added to them. No more than what
// memcpy copies with ordinary stores: the instruction that it takes for more is slow at lines which
// another processor has.
constexpr std::size_t kBlock = 2048;

template <Reduction kReduction, typename T>
[[gnu::always_inline]] inline T combine(T a, T b) {
  if constexpr (kReduction == Reduction::kMin) {
    return b < a ? b : a;
  } else if constexpr (kReduction == Reduction::kMax) {
    return a < b ? b : a;
  } else if constexpr (std::is_integral_v<T>) {
    // Of 64 bits without a sign, where overflow is defined and small types are not promoted.
    const std::uint64_t x = static_cast<std::make_unsigned_t<T>>(a);
    const std::uint64_t y = static_cast<std::make_unsigned_t<T>>(b);
    return static_cast<T>(kReduction == Reduction::kSum ? x + y : x * y);
  } else {
    return kReduction == Reduction::kSum ? a + b : a * b;
  }
}

// Loops are told that iterations do not depend on each other: `out` may be the same as an input,
// which a check of overlaps would take for a dependence.
#ifdef __clang__
#define DURE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define DURE_INDEPENDENT _Pragma("GCC ivdep")
#endif

struct Same {
  template <typename T>
  static T widen(T value) {
    return value;
  }
  template <typename T>
  static T narrow(T value) {
    return value;
  }
};
struct Float16 {
  [[gnu::always_inline]] static float widen(std::uint16_t bits) { return fromFloat16(bits); }
  [[gnu::always_inline]] static std::uint16_t narrow(float value) { return toFloat16(value); }
};
struct BFloat16 {
  [[gnu::always_inline]] static float widen(std::uint16_t bits) { return fromBFloat16(bits); }
  [[gnu::always_inline]] static std::uint16_t narrow(float value) { return toBFloat16(value); }
};

template <Reduction kReduction, typename T>
[[gnu::always_inline]] inline void reduceBlock(T* out, std::span<const std::byte* const> sources,
                                               std::size_t offset, std::size_t count) {
  const T* first = reinterpret_cast<const T*>(sources[0] + offset);
  for (std::size_t s = 1; s < sources.size(); ++s) {
    const T* next = reinterpret_cast<const T*>(sources[s] + offset);
    DURE_INDEPENDENT
    for (std::size_t i = 0; i < count; ++i) out[i] = combine<kReduction>(first[i], next[i]);
    first = out;
  }
}

// Tells the processor of lines that will be read soon. By itself it does not look beyond the end
// of a page.
[[gnu::always_inline]] inline void fetch(const std::byte* begin, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  for (std::size_t at = 0; at < bytes; at += kLine) __builtin_prefetch(begin + at);
}

// As many results as sources, few of either: in one pass, which is a third quicker than by blocks
// where the lines come from other processors and go back to them. Lines are fetched two strides
// ahead: at 64 KB a quarter of the time.
template <Reduction kReduction, std::size_t kCount, typename T>
[[gnu::always_inline]] inline void reduceAtOnce(std::span<std::byte* const> outs,
                                                std::span<const std::byte* const> sources,
                                                std::size_t count) {
  const T* from[kCount];
  T* to[kCount];
  for (std::size_t s = 0; s < kCount; ++s) {
    from[s] = reinterpret_cast<const T*>(sources[s]);
    to[s] = reinterpret_cast<T*>(outs[s]);
  }
  constexpr std::size_t kStride = 512;
  constexpr std::size_t kEach = kStride / sizeof(T);
  for (std::size_t begin = 0; begin < count; begin += kEach) {
    const std::size_t end = std::min(begin + kEach, count);
    const std::size_t ahead = begin * sizeof(T) + 2 * kStride;
    for (const std::byte* source : sources) fetch(source + ahead, kStride);
    DURE_INDEPENDENT
    for (std::size_t i = begin; i < end; ++i) {
      T sum = from[0][i];
      for (std::size_t s = 1; s < kCount; ++s) sum = combine<kReduction>(sum, from[s][i]);
      for (std::size_t s = 0; s < kCount; ++s) to[s][i] = sum;
    }
  }
}

template <Reduction kReduction, typename Convert>
[[gnu::always_inline]] inline void reduceHalves(std::uint16_t* out,
                                                std::span<const std::byte* const> sources,
                                                std::size_t offset, std::size_t count) {
  alignas(64) float sum[kBlock / sizeof(std::uint16_t)];
  const auto* first = reinterpret_cast<const std::uint16_t*>(sources[0] + offset);
  for (std::size_t i = 0; i < count; ++i) sum[i] = Convert::widen(first[i]);
  for (std::size_t s = 1; s < sources.size(); ++s) {
    const auto* next = reinterpret_cast<const std::uint16_t*>(sources[s] + offset);
    for (std::size_t i = 0; i < count; ++i) {
      sum[i] = combine<kReduction>(sum[i], Convert::widen(next[i]));
    }
  }
  for (std::size_t i = 0; i < count; ++i) out[i] = Convert::narrow(sum[i]);
}

template <Reduction kReduction, typename T, typename Convert>
[[gnu::always_inline]] inline void reduceAll(std::span<std::byte* const> outs,
                                             std::span<const std::byte* const> sources,
                                             std::size_t bytes) {
  if constexpr (std::is_same_v<Convert, Same>) {
    if (outs.size() == sources.size()) {
      if (outs.size() == 2) return reduceAtOnce<kReduction, 2, T>(outs, sources, bytes / sizeof(T));
      if (outs.size() == 3) return reduceAtOnce<kReduction, 3, T>(outs, sources, bytes / sizeof(T));
      if (outs.size() == 4) return reduceAtOnce<kReduction, 4, T>(outs, sources, bytes / sizeof(T));
    }
  }
  alignas(64) T block[kBlock / sizeof(T)];
  // The first two are read as the result is written, later ones after it.
  const bool direct =
      outs.size() == 1 && std::find(sources.begin() + 2, sources.end(), outs[0]) == sources.end();
  for (std::size_t offset = 0; offset < bytes; offset += kBlock) {
    const std::size_t count = std::min(kBlock, bytes - offset) / sizeof(T);
    T* to = direct ? reinterpret_cast<T*>(outs[0] + offset) : block;
    if constexpr (std::is_same_v<Convert, Same>) {
      reduceBlock<kReduction>(to, sources, offset, count);
    } else {
      reduceHalves<kReduction, Convert>(to, sources, offset, count);
    }
    if (direct) continue;
    for (std::byte* out : outs) std::memcpy(out + offset, block, count * sizeof(T));
  }
}

using Function = void (*)(std::span<std::byte* const>, std::span<const std::byte* const>,
                          std::size_t);

template <Reduction kReduction, typename T, typename Convert>
void reducePlain(std::span<std::byte* const> outs, std::span<const std::byte* const> sources,
                 std::size_t bytes) {
  reduceAll<kReduction, T, Convert>(outs, sources, bytes);
}

#ifdef __x86_64__
// The same loops for newer processors, chosen when the program runs. Wider registers change no
// result: every element is computed by itself.
template <Reduction kReduction, typename T, typename Convert>
[[gnu::target("avx2")]] void reduceAvx2(std::span<std::byte* const> outs,
                                        std::span<const std::byte* const> sources,
                                        std::size_t bytes) {
  reduceAll<kReduction, T, Convert>(outs, sources, bytes);
}
const bool kAvx2 = __builtin_cpu_supports("avx2") != 0;
#endif

template <Reduction kReduction, typename T, typename Convert = Same>
Function chosen() {
#ifdef __x86_64__
  if (kAvx2) return reduceAvx2<kReduction, T, Convert>;
#endif
  return reducePlain<kReduction, T, Convert>;
}

template <Reduction kReduction>
Function functionFor(Number number) {
  switch (number) {
    case Number::kFloat32:
      return chosen<kReduction, float>();
    case Number::kFloat64:
      return chosen<kReduction, double>();
    case Number::kFloat16:
      return chosen<kReduction, std::uint16_t, Float16>();
    case Number::kBFloat16:
      return chosen<kReduction, std::uint16_t, BFloat16>();
    case Number::kInt8:
      return chosen<kReduction, std::int8_t>();
    case Number::kUInt8:
      return chosen<kReduction, std::uint8_t>();
    case Number::kInt16:
      return chosen<kReduction, std::int16_t>();
    case Number::kInt32:
      return chosen<kReduction, std::int32_t>();
    case Number::kInt64:
      return chosen<kReduction, std::int64_t>();
  }
  return nullptr;
}

Function functionFor(Number number, Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return functionFor<Reduction::kSum>(number);
    case Reduction::kProduct:
      return functionFor<Reduction::kProduct>(number);
    case Reduction::kMin:
      return functionFor<Reduction::kMin>(number);
    case Reduction::kMax:
      return functionFor<Reduction::kMax>(number);
  }
  return nullptr;
}

}  // namespace

void reduce(Number number, Reduction reduction, std::span<std::byte* const> outs,
            std::span<const std::byte* const> sources, std::size_t bytes) {
  if (sources.size() > 1) {
    functionFor(number, reduction)(outs, sources, bytes);
    return;
  }
  for (std::byte* out : outs) {
    if (out != sources[0] && bytes > 0) std::memcpy(out, sources[0], bytes);
  }
}

}  // namespace dure::collective
