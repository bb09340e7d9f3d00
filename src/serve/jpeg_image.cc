#include "serve/jpeg_image.h"

#include <cstdio>  // jpeglib.h needs it first

#include <csetjmp>

#include <jpeglib.h>

#include <fmt/core.h>

namespace dure::serve {
namespace {

// A progressive file of many empty scans costs time without bytes.
constexpr int kMostScans = 100;

struct JpegFailure {
  jpeg_error_mgr manager;
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX];
};

JpegFailure* failureOf(j_common_ptr common) { return reinterpret_cast<JpegFailure*>(common->err); }

void onJpegError(j_common_ptr common) {
  JpegFailure* const failure = failureOf(common);
  common->err->format_message(common, failure->message);
  std::longjmp(failure->back, 1);
}

// Warnings are about damage: what follows would be noise.
void onJpegMessage(j_common_ptr common, int level) {
  if (level < 0) onJpegError(common);
}

void onJpegProgress(j_common_ptr common) {
  if (common->is_decompressor == 0) return;
  if (reinterpret_cast<j_decompress_ptr>(common)->input_scan_number > kMostScans) {
    std::snprintf(failureOf(common)->message, JMSG_LENGTH_MAX, "too many scans");
    std::longjmp(failureOf(common)->back, 1);
  }
}

// No object between setjmp and longjmp that would have to be destroyed.
bool readJpegHead(jpeg_decompress_struct& jpeg, JpegFailure& failure, std::string_view bytes) {
  if (setjmp(failure.back) != 0) return false;
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  return jpeg_read_header(&jpeg, TRUE) == JPEG_HEADER_OK;
}

bool readJpegRows(jpeg_decompress_struct& jpeg, JpegFailure& failure, std::uint8_t* out,
                  std::size_t row_bytes) {
  if (setjmp(failure.back) != 0) return false;
  jpeg_start_decompress(&jpeg);
  if (std::size_t{jpeg.output_width} * static_cast<std::size_t>(jpeg.output_components) !=
      row_bytes)
    return false;
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = out + std::size_t{jpeg.output_scanline} * row_bytes;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

}  // namespace

bool isJpeg(std::string_view bytes) { return bytes.starts_with("\xff\xd8\xff"); }

Result<Picture> decodeJpeg(std::string_view bytes, std::int64_t most) {
  JpegFailure failure{};
  jpeg_decompress_struct jpeg{};
  jpeg.err = jpeg_std_error(&failure.manager);
  failure.manager.error_exit = onJpegError;
  failure.manager.emit_message = onJpegMessage;
  jpeg_create_decompress(&jpeg);
  jpeg_progress_mgr progress{};
  progress.progress_monitor = onJpegProgress;
  jpeg.progress = &progress;
  // What libjpeg itself may take, for progressive files: all coefficients, two bytes each.
  jpeg.mem->max_memory_to_use = static_cast<long>(most * 3 * 2) + (16L << 20);
  Picture picture;
  const auto decode = [&]() -> Status {
    if (!readJpegHead(jpeg, failure, bytes))
      return Error(Code::kInvalid, fmt::format("the JPEG is damaged: {}", failure.message));
    picture.height = jpeg.image_height;
    picture.width = jpeg.image_width;
    if (picture.height < 1 || picture.width < 1 || picture.width > most / picture.height) {
      return Error(Code::kInvalid, fmt::format("the JPEG has {} by {} pixels, more than {} in all",
                                               picture.width, picture.height, most));
    }
    const bool grey = jpeg.jpeg_color_space == JCS_GRAYSCALE;
    if (jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK)
      return Error(Code::kInvalid, "the JPEG is for print (CMYK); send one in RGB or grey");
    jpeg.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
    picture.channels = grey ? 1 : 3;
    const auto row_bytes = static_cast<std::size_t>(picture.width * picture.channels);
    picture.pixels.resize(row_bytes * static_cast<std::size_t>(picture.height));
    if (!readJpegRows(jpeg, failure, picture.pixels.data(), row_bytes))
      return Error(Code::kInvalid, fmt::format("the JPEG is damaged: {}", failure.message));
    return {};
  };
  auto decoded = decode();
  jpeg_destroy_decompress(&jpeg);
  if (!decoded) return std::move(decoded).error();
  return picture;
}

}  // namespace dure::serve
