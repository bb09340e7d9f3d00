#include "serve/image_input.h"

#include <algorithm>
#include <cmath>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "format/png_image.h"
#include "serve/jpeg_image.h"

namespace dure::serve {
namespace {

constexpr std::int64_t kMostPixels = 40'000'000;

Result<Picture> decodePngPicture(std::string_view bytes) {
  const auto raw = std::as_bytes(std::span(bytes.data(), bytes.size()));
  const auto shape = format::pngShape(raw);
  if (!shape) return shape.error();
  Picture picture{.height = (*shape)[0],
                  .width = (*shape)[1],
                  .channels = shape->size() == 3 ? (*shape)[2] : 1,
                  .pixels = {}};
  if (picture.width > kMostPixels / picture.height) {
    return Error(Code::kInvalid, fmt::format("the PNG has {} by {} pixels, more than {} in all",
                                             picture.width, picture.height, kMostPixels));
  }
  picture.pixels.resize(
      static_cast<std::size_t>(picture.height * picture.width * picture.channels));
  auto decoded =
      format::decodePng(raw, *shape, reinterpret_cast<std::byte*>(picture.pixels.data()));
  if (!decoded) return std::move(decoded).error();
  return picture;
}

// How much each pixel of one axis counts for a pixel of the result: the part of it that is covered,
// or, where the picture is smaller than the result, between the two nearest.
struct AxisWeights {
  std::size_t first = 0;
  std::vector<float> weights;
};

std::vector<AxisWeights> axisWeights(std::int64_t from, std::int64_t to) {
  std::vector<AxisWeights> all(static_cast<std::size_t>(to));
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  for (std::int64_t i = 0; i < to; ++i) {
    AxisWeights& made = all[static_cast<std::size_t>(i)];
    if (scale <= 1) {
      const double center = std::clamp((static_cast<double>(i) + 0.5) * scale - 0.5, 0.0,
                                       static_cast<double>(from - 1));
      made.first = static_cast<std::size_t>(center);
      const auto part = static_cast<float>(center - std::floor(center));
      made.weights = {1 - part};
      if (part > 0) made.weights.push_back(part);
      continue;
    }
    const double begin = static_cast<double>(i) * scale;
    const double end = std::min(begin + scale, static_cast<double>(from));
    made.first = static_cast<std::size_t>(begin);
    for (auto at = static_cast<std::int64_t>(begin); at < from; ++at) {
      const double covered =
          std::min(end, static_cast<double>(at + 1)) - std::max(begin, static_cast<double>(at));
      if (covered <= 1e-9) break;
      made.weights.push_back(static_cast<float>(covered / (end - begin)));
    }
  }
  return all;
}

// Grey as television has it.
std::vector<float> inChannels(const Picture& picture, std::int64_t channels) {
  std::vector<float> made;
  const auto count = static_cast<std::size_t>(picture.height * picture.width);
  made.reserve(count * static_cast<std::size_t>(channels));
  for (std::size_t i = 0; i < count; ++i) {
    if (picture.channels == 1) {
      made.insert(made.end(), static_cast<std::size_t>(channels), picture.pixels[i]);
      continue;
    }
    const std::uint8_t* pixel = picture.pixels.data() + 3 * i;
    if (channels == 3) {
      made.insert(made.end(), pixel, pixel + 3);
    } else {
      made.push_back(0.299F * pixel[0] + 0.587F * pixel[1] + 0.114F * pixel[2]);
    }
  }
  return made;
}

}  // namespace

Result<Picture> decodePicture(std::string_view bytes) {
  if (isJpeg(bytes)) return decodeJpeg(bytes, kMostPixels);
  if (bytes.starts_with("\x89PNG")) return decodePngPicture(bytes);
  return Error(Code::kInvalid, "this is neither a PNG nor a JPEG");
}

Status appendPicture(const Picture& picture, std::span<const std::int64_t> shape,
                     std::vector<float>& out) {
  const std::int64_t channels = shape.size() == 3 ? shape[2] : 1;
  if (shape.size() < 2 || shape.size() > 3 || (channels != 1 && channels != 3)) {
    return Error(Code::kInvalid, fmt::format("the model takes samples of shape [{}], which no "
                                             "picture can be made to fit",
                                             fmt::join(shape, ", ")));
  }
  const std::int64_t height = shape[0];
  const std::int64_t width = shape[1];
  const std::vector<float> pixels = inChannels(picture, channels);
  if (picture.height == height && picture.width == width) {
    out.insert(out.end(), pixels.begin(), pixels.end());
    return {};
  }
  const auto rows = axisWeights(picture.height, height);
  const auto columns = axisWeights(picture.width, width);
  const auto depth = static_cast<std::size_t>(channels);
  const auto row_size = static_cast<std::size_t>(picture.width) * depth;
  std::vector<float> line(row_size);
  for (const AxisWeights& row : rows) {
    std::fill(line.begin(), line.end(), 0.0F);
    for (std::size_t i = 0; i < row.weights.size(); ++i) {
      const float* from = pixels.data() + (row.first + i) * row_size;
      for (std::size_t x = 0; x < row_size; ++x) line[x] += row.weights[i] * from[x];
    }
    for (const AxisWeights& column : columns) {
      for (std::size_t channel = 0; channel < depth; ++channel) {
        float sum = 0;
        for (std::size_t i = 0; i < column.weights.size(); ++i)
          sum += column.weights[i] * line[(column.first + i) * depth + channel];
        out.push_back(sum);
      }
    }
  }
  return {};
}

}  // namespace dure::serve
