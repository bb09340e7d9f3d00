#include "format/png_image.h"

#include <png.h>

#include <csetjmp>
#include <cstring>
#include <string>

#include <fmt/core.h>

namespace dure::format {
namespace {

constexpr std::size_t kSignature = 8;
constexpr std::size_t kHead = kSignature + 8 + 13;  // with the whole IHDR chunk
constexpr int kGrey = 0;
constexpr int kGreyAlpha = 4;
// What a chunk of text or the like may unpack to.
constexpr png_alloc_size_t kMaxChunk = 1u << 20u;

// What libpng's callbacks share.
struct State {
  std::span<const std::byte> left;
  char message[128] = "";
};

void fail(png_structp png, png_const_charp message) {
  auto* const state = static_cast<State*>(png_get_error_ptr(png));
  std::strncpy(state->message, message, sizeof state->message - 1);
  png_longjmp(png, 1);
}

void ignore(png_structp, png_const_charp) {}

void read(png_structp png, png_bytep out, std::size_t size) {
  auto* const state = static_cast<State*>(png_get_io_ptr(png));
  if (size > state->left.size()) png_error(png, "the image ends too early");
  std::memcpy(out, state->left.data(), size);
  state->left = state->left.subspan(size);
}

// Everything between setjmp and a longjmp to it is in here: no object that would have to be
// destroyed.
bool decodeRows(png_structp png, png_infop info, std::size_t row_bytes, std::size_t height,
                std::byte* out) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_chunk_malloc_max(png, kMaxChunk);
  png_read_info(png, info);
  png_set_expand(png);
  png_set_scale_16(png);
  png_set_strip_alpha(png);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, info);
  if (png_get_rowbytes(png, info) != row_bytes || png_get_image_height(png, info) != height) {
    png_error(png, "the image is not of the size that its head says");
  }
  for (int pass = 0; pass < passes; ++pass) {
    for (std::size_t row = 0; row < height; ++row) {
      png_read_row(png, reinterpret_cast<png_bytep>(out) + row * row_bytes, nullptr);
    }
  }
  // The checksums at the end, too.
  png_read_end(png, nullptr);
  return true;
}

std::uint32_t big32(const std::byte* at) {
  std::uint32_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return __builtin_bswap32(value);
}

}  // namespace

Result<std::vector<std::int64_t>> pngShape(std::span<const std::byte> bytes) {
  const auto* const start = reinterpret_cast<png_const_bytep>(bytes.data());
  if (bytes.size() < kHead || png_sig_cmp(start, 0, kSignature) != 0 ||
      std::memcmp(bytes.data() + kSignature + 4, "IHDR", 4) != 0) {
    return Error(Code::kInvalid, "this is not a PNG image");
  }
  const std::uint32_t width = big32(bytes.data() + 16);
  const std::uint32_t height = big32(bytes.data() + 20);
  const int colours = std::to_integer<int>(bytes[25]);
  const std::size_t channels = colours == kGrey || colours == kGreyAlpha ? 1 : 3;
  // deflate's best ratio, and up to 8 pixels in a byte, each 3 bytes with a palette.
  const std::size_t most = bytes.size() * 1032 * 8 * 3;
  if (width == 0 || height == 0 || std::size_t{width} * channels > most / height) {
    return Error(Code::kInvalid, fmt::format("{} bytes cannot hold an image of {} by {} pixels",
                                             bytes.size(), width, height));
  }
  if (channels == 1) return std::vector<std::int64_t>{height, width};
  return std::vector<std::int64_t>{height, width, 3};
}

Status decodePng(std::span<const std::byte> bytes, std::span<const std::int64_t> shape,
                 std::byte* out) {
  State state{.left = bytes};
  png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state, fail, ignore);
  if (png == nullptr) return Error(Code::kIo, "libpng cannot start");
  png_infop info = png_create_info_struct(png);
  png_set_read_fn(png, &state, read);
  const std::size_t channels = shape.size() == 3 ? 3 : 1;
  const bool decoded =
      info != nullptr && decodeRows(png, info, static_cast<std::size_t>(shape[1]) * channels,
                                    static_cast<std::size_t>(shape[0]), out);
  png_destroy_read_struct(&png, &info, nullptr);
  if (!decoded) return Error(Code::kInvalid, fmt::format("the PNG is damaged: {}", state.message));
  return {};
}

}  // namespace dure::format
