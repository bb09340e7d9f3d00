#include "cli/chart.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/core.h>

namespace dure::cli {
namespace {

// A character holds 2 × 4 dots, each a bit of its number above U+2800.
constexpr int kAcross = 2;
constexpr int kDown = 4;
constexpr std::array<std::array<unsigned, kDown>, kAcross> kDots{
    {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}};

std::string braille(unsigned dots) {
  const unsigned number = 0x2800 + dots;
  return {static_cast<char>(0xE0 | (number >> 12)),
          static_cast<char>(0x80 | ((number >> 6) & 0x3F)),
          static_cast<char>(0x80 | (number & 0x3F))};
}

}  // namespace

std::string drawCurve(const Curve& curve, int width, int height) {
  if (curve.size() < 2) return "";
  const auto [least, most] = std::minmax_element(
      curve.begin(), curve.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const double low = least->second, high = most->second;
  const auto from = static_cast<double>(curve.front().first);
  const double across = std::max(1.0, static_cast<double>(curve.back().first) - from);
  const int dots_across = width * kAcross, dots_down = height * kDown;
  std::vector<std::vector<unsigned>> cells(static_cast<std::size_t>(height),
                                           std::vector<unsigned>(static_cast<std::size_t>(width)));
  for (const auto& [step, value] : curve) {
    const int x = static_cast<int>(
        std::lround((static_cast<double>(step) - from) / across * (dots_across - 1)));
    // By halves: the difference of two numbers may be too large for one.
    const double part = high > low ? (value / 2 - low / 2) / (high / 2 - low / 2) : 0;
    const int y = static_cast<int>(std::lround((1 - part) * (dots_down - 1)));
    cells[static_cast<std::size_t>(y / kDown)][static_cast<std::size_t>(x / kAcross)] |=
        kDots[static_cast<std::size_t>(x % kAcross)][static_cast<std::size_t>(y % kDown)];
  }
  std::string text;
  for (int row = 0; row < height; ++row) {
    const std::string label = row == 0            ? fmt::format("{:.4g}", high)
                              : row == height - 1 ? fmt::format("{:.4g}", low)
                                                  : "";
    text += fmt::format("{:>9} │", label);
    for (const unsigned dots : cells[static_cast<std::size_t>(row)])
      text += dots == 0 ? " " : braille(dots);
    text += "\n";
  }
  const std::string first = fmt::format("step {}", curve.front().first);
  text += fmt::format("{:>9} └{}{:>{}}\n", "", first, curve.back().first,
                      std::max(1, width - static_cast<int>(first.size())));
  return text;
}

std::string drawBar(double part, int width) {
  constexpr std::array<const char*, 8> kEighths{" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const auto eighths = static_cast<int>(std::clamp(part, 0.0, 1.0) * width * 8);
  std::string text = "▕";
  for (int i = 0; i < eighths / 8; ++i) text += "█";
  if (eighths / 8 < width) {
    text += kEighths[static_cast<std::size_t>(eighths % 8)];
    text.append(static_cast<std::size_t>(width - eighths / 8 - 1), ' ');
  }
  return text + "▏";
}

}  // namespace dure::cli
