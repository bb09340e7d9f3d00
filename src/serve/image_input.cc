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

// Which pixels of one axis count for a pixel of the result, and how much: those that it covers, or,
// where the picture is smaller than the result, the two nearest. They are many in all, so their
// weights are not kept one by one.
struct Covered {
  std::size_t first = 0;
  std::size_t count = 1;
  float first_weight = 1;
  float inner_weight = 0;
  float last_weight = 0;  // if they are more than one
};

Covered between(double center) {
  const auto part = static_cast<float>(center - std::floor(center));
  Covered made{.first = static_cast<std::size_t>(center), .first_weight = 1 - part};
  if (part > 0) {
    made.count = 2;
    made.last_weight = part;
  }
  return made;
}

Covered covering(double begin, double end) {
  const double size = end - begin;
  Covered made{.first = static_cast<std::size_t>(begin),
               .inner_weight = static_cast<float>(1 / size)};
  // What is less than this of a pixel comes of rounding.
  const auto last = static_cast<std::size_t>(std::ceil(end - 1e-9)) - 1;
  const double first_end = static_cast<double>(made.first + 1);
  made.count = last - made.first + 1;
  made.first_weight = static_cast<float>((std::min(end, first_end) - begin) / size);
  made.last_weight = static_cast<float>((end - static_cast<double>(last)) / size);
  return made;
}

std::vector<Covered> coverAxis(std::int64_t from, std::int64_t to) {
  std::vector<Covered> all;
  all.reserve(static_cast<std::size_t>(to));
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const auto most = static_cast<double>(from - 1);
  for (std::int64_t i = 0; i < to; ++i) {
    const auto at = static_cast<double>(i);
    all.push_back(scale <= 1 ? between(std::clamp((at + 0.5) * scale - 0.5, 0.0, most))
                             : covering(at * scale, std::min((at + 1) * scale, most + 1)));
  }
  return all;
}

// Of one channel, from its first byte on that counts.
float meanOf(const Covered& covered, const std::uint8_t* from, std::size_t channels) {
  float mean = covered.first_weight * static_cast<float>(*from);
  if (covered.count == 1) return mean;
  std::uint64_t inner = 0;
  for (std::size_t i = 1; i + 1 < covered.count; ++i) inner += from[i * channels];
  mean += covered.inner_weight * static_cast<float>(inner);
  return mean + covered.last_weight * static_cast<float>(from[(covered.count - 1) * channels]);
}

// The picture in its own channels. From bytes to the size of the result at once: a picture in
// floats takes four times its memory.
std::vector<float> stretch(const Picture& picture, std::int64_t height, std::int64_t width) {
  const auto rows = coverAxis(picture.height, height);
  const auto columns = coverAxis(picture.width, width);
  const auto channels = static_cast<std::size_t>(picture.channels);
  const std::size_t row_bytes = static_cast<std::size_t>(picture.width) * channels;
  const std::size_t row_size = columns.size() * channels;
  std::vector<float> made(rows.size() * row_size);
  for (std::size_t y = 0; y < rows.size(); ++y) {
    const Covered& row = rows[y];
    for (std::size_t i = 0; i < row.count; ++i) {
      const float weight = i == 0               ? row.first_weight
                           : i + 1 == row.count ? row.last_weight
                                                : row.inner_weight;
      const std::uint8_t* const line = picture.pixels.data() + (row.first + i) * row_bytes;
      float* out = made.data() + y * row_size;
      for (const Covered& column : columns) {
        for (std::size_t channel = 0; channel < channels; ++channel) {
          *out++ += weight * meanOf(column, line + column.first * channels + channel, channels);
        }
      }
    }
  }
  return made;
}

// Grey as television has it.
void appendChannels(std::span<const float> pixels, std::int64_t from, std::int64_t to,
                    std::vector<float>& out) {
  if (from == to) {
    out.insert(out.end(), pixels.begin(), pixels.end());
  } else if (from == 1) {
    for (const float pixel : pixels) out.insert(out.end(), static_cast<std::size_t>(to), pixel);
  } else {
    for (; !pixels.empty(); pixels = pixels.subspan(3))
      out.push_back(0.299F * pixels[0] + 0.587F * pixels[1] + 0.114F * pixels[2]);
  }
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
  appendChannels(stretch(picture, shape[0], shape[1]), picture.channels, channels, out);
  return {};
}

}  // namespace dure::serve
