#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dure::cli {

using Curve = std::vector<std::pair<std::int64_t, double>>;  // from left to right

// The curve in dots, `width` × `height` characters, with its limits at the edges; empty for a curve
// of fewer than two points.
std::string drawCurve(const Curve& curve, int width, int height);

// "▕█████▌    ▏" of `width` characters between the edges; `part` is from 0 to 1.
std::string drawBar(double part, int width);

}  // namespace dure::cli
