#include "format/crc32.h"

#include <zlib.h>

#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace dure::format {
namespace {

std::uint32_t sumByTable(std::span<const std::byte> bytes, std::uint32_t sum) {
  return static_cast<std::uint32_t>(
      crc32_z(sum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

#if defined(__x86_64__)

constexpr std::size_t kCrcLane = sizeof(__m128i);
constexpr std::size_t kCrcLanes = 4;
constexpr std::size_t kCrcBlock = kCrcLane * kCrcLanes;

__attribute__((target("pclmul"))) inline __m128i loadLane(const std::byte* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}

// What `lane` is worth some bits further on, where the factors say how many, and what lies there.
__attribute__((target("pclmul"))) inline __m128i foldLane(__m128i lane, __m128i factors,
                                                          __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(lane, factors, 0x00);
  const __m128i high = _mm_clmulepi64_si128(lane, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// A remainder stays the same if a part of the message is replaced by that part's remainder: each 64
// bytes are folded into the next ones, until 16 are left, and those go the usual way.
__attribute__((target("pclmul"))) std::uint32_t sumByFolding(std::span<const std::byte> bytes,
                                                             std::uint32_t sum) {
  // x^(512+64-1), x^(512-1) and x^(128+64-1), x^(128-1) modulo the polynomial, bits reflected.
  const __m128i by_block = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
  const __m128i by_lane = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  __m128i a = loadLane(at);
  __m128i b = loadLane(at + kCrcLane);
  __m128i c = loadLane(at + 2 * kCrcLane);
  __m128i d = loadLane(at + 3 * kCrcLane);
  // What was summed so far stands before the message.
  a = _mm_xor_si128(a, _mm_cvtsi32_si128(static_cast<int>(~sum)));
  for (at += kCrcBlock, left -= kCrcBlock; left >= kCrcBlock; at += kCrcBlock, left -= kCrcBlock) {
    a = foldLane(a, by_block, loadLane(at));
    b = foldLane(b, by_block, loadLane(at + kCrcLane));
    c = foldLane(c, by_block, loadLane(at + 2 * kCrcLane));
    d = foldLane(d, by_block, loadLane(at + 3 * kCrcLane));
  }
  b = foldLane(a, by_lane, b);
  c = foldLane(b, by_lane, c);
  d = foldLane(c, by_lane, d);
  std::array<std::byte, kCrcLane> rest{};
  _mm_storeu_si128(reinterpret_cast<__m128i*>(rest.data()), d);
  // ~0 is zlib's way to say that nothing stands before.
  return sumByTable({at, left}, sumByTable(rest, 0xffffffff));
}

#endif

}  // namespace

std::uint32_t crc32Of(std::span<const std::byte> bytes, std::uint32_t sum) {
#if defined(__x86_64__)
  static const bool folds = __builtin_cpu_supports("pclmul") != 0;
  if (folds && bytes.size() >= kCrcBlock) return sumByFolding(bytes, sum);
#endif
  return sumByTable(bytes, sum);
}

std::uint32_t joinCrc32(std::uint32_t first, std::uint32_t second, std::uint64_t second_size) {
  return static_cast<std::uint32_t>(
      crc32_combine(first, second, static_cast<z_off_t>(second_size)));
}

}  // namespace dure::format
