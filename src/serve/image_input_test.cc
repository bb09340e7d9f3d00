#include "serve/image_input.h"

#include <cstdio>

#include <jpeglib.h>
#include <png.h>

#include <gtest/gtest.h>

namespace dure::serve {
namespace {

std::string pngOf(std::uint32_t width, std::uint32_t height, bool colour,
                  const std::vector<std::uint8_t>& pixels) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = colour ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&image, nullptr, &size, 0, pixels.data(), 0, nullptr);
  std::string bytes(size, '\0');
  png_image_write_to_memory(&image, bytes.data(), &size, 0, pixels.data(), 0, nullptr);
  bytes.resize(size);
  return bytes;
}

std::string jpegOf(unsigned width, unsigned height, std::uint8_t grey) {
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &bytes, &size);
  jpeg.image_width = width;
  jpeg.image_height = height;
  jpeg.input_components = 1;
  jpeg.in_color_space = JCS_GRAYSCALE;
  jpeg_set_defaults(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  std::vector<std::uint8_t> line(width, grey);
  JSAMPROW row = line.data();
  while (jpeg.next_scanline < height) jpeg_write_scanlines(&jpeg, &row, 1);
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  std::string made(reinterpret_cast<char*>(bytes), size);
  std::free(bytes);
  return made;
}

std::vector<float> sampleOf(const std::string& bytes, const std::vector<std::int64_t>& shape) {
  const auto picture = decodePicture(bytes);
  EXPECT_TRUE(picture) << (picture ? "" : picture.error().message());
  std::vector<float> out;
  EXPECT_TRUE(appendPicture(*picture, shape, out));
  return out;
}

TEST(Picture, KeepsPixelsThatFit) {
  EXPECT_EQ(sampleOf(pngOf(2, 2, false, {0, 10, 20, 255}), {2, 2}),
            (std::vector<float>{0, 10, 20, 255}));
  EXPECT_EQ(sampleOf(pngOf(1, 1, true, {1, 2, 3}), {1, 1, 3}), (std::vector<float>{1, 2, 3}));
}

TEST(Picture, BecomesGreyOrColouredAsWanted) {
  EXPECT_EQ(sampleOf(pngOf(1, 1, false, {7}), {1, 1, 3}), (std::vector<float>{7, 7, 7}));
  const auto grey = sampleOf(pngOf(1, 1, true, {255, 255, 255}), {1, 1, 1});
  ASSERT_EQ(grey.size(), 1u);
  EXPECT_NEAR(grey[0], 255, 1e-3);
}

TEST(Picture, IsStretchedToTheModelsSize) {
  EXPECT_EQ(sampleOf(pngOf(4, 2, false, {0, 100, 200, 200, 100, 0, 200, 200}), {1, 2}),
            (std::vector<float>{50, 200}));
  EXPECT_EQ(sampleOf(pngOf(1, 1, false, {9}), {3, 3}), std::vector<float>(9, 9));
  EXPECT_EQ(sampleOf(pngOf(3, 3, false, std::vector<std::uint8_t>(9, 90)), {2, 2}).size(), 4u);
}

TEST(Picture, MayBeJpeg) {
  const auto sample = sampleOf(jpegOf(16, 8, 120), {8, 16});
  ASSERT_EQ(sample.size(), 128u);
  for (const float pixel : sample) EXPECT_NEAR(pixel, 120, 2);
}

TEST(Picture, DamagedOnesAreRefused) {
  EXPECT_EQ(decodePicture("hello").error().message(), "this is neither a PNG nor a JPEG");
  for (const std::string& whole :
       {jpegOf(64, 64, 120), pngOf(8, 8, false, std::vector<std::uint8_t>(64, 1))}) {
    EXPECT_FALSE(decodePicture(whole.substr(0, whole.size() / 2)));
    EXPECT_FALSE(decodePicture(whole.substr(0, 10)));
  }
}

TEST(Picture, HugeOnesAreRefusedBeforeMemoryIsTaken) {
  std::string jpeg = jpegOf(16, 16, 1);
  const std::size_t head = jpeg.find("\xff\xc0");
  ASSERT_NE(head, std::string::npos);
  for (std::size_t i = 0; i < 4; ++i) jpeg[head + 5 + i] = '\x70';
  const auto refused = decodePicture(jpeg);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("more than"), std::string::npos);
}

}  // namespace
}  // namespace dure::serve
