#include "format/png_image.h"

#include <gmock/gmock.h>

#include "format/test_files.h"

namespace dure::format {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<double> decode(const std::string& name) {
  const FileBytes file = asFile(golden("png/" + name + ".png"));
  const auto shape = pngShape(file.bytes);
  EXPECT_TRUE(shape) << name;
  Array pixels = makeArray(DType::kU8, *shape);
  const auto decoded = decodePng(file.bytes, *shape, writableData(pixels));
  EXPECT_TRUE(decoded) << decoded.error().message();
  return numbersOf(pixels);
}

TEST(PngImage, OfEveryKindBecomesBytes) {
  const std::vector<double> grey = {0, 20, 40, 60, 80, 100, 120, 140, 160, 180, 200, 220};
  EXPECT_EQ(decode("grey"), grey);
  EXPECT_EQ(decode("grey_alpha"), grey);
  EXPECT_EQ(decode("grey16"), grey);
  EXPECT_THAT(decode("bits"), ElementsAre(0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255));
  EXPECT_EQ(decode("colour")[35], 245);
  EXPECT_EQ(decode("colour"), decode("colour_alpha"));
  EXPECT_EQ(decode("colour"), decode("palette"));
}

TEST(PngImage, OfAnotherSizeThanAskedForIsRefused) {
  const FileBytes file = asFile(golden("png/grey.png"));
  std::vector<std::byte> pixels(100);
  const std::vector<std::int64_t> wrong = {4, 3};
  EXPECT_FALSE(decodePng(file.bytes, wrong, pixels.data()));
}

TEST(PngImage, ThatIsTooLargeToBeTrueIsRefused) {
  std::string content = golden("png/grey.png");
  content[16] = '\x7f';
  const auto shape = pngShape(asFile(content).bytes);
  ASSERT_FALSE(shape);
  EXPECT_THAT(shape.error().message(), HasSubstr("cannot hold an image"));
}

TEST(PngImage, CutOrFlippedDoesNoHarm) {
  const auto check = [](const std::string& content) {
    const FileBytes file = asFile(content);
    const auto shape = pngShape(file.bytes);
    if (!shape) return false;
    Array pixels = makeArray(DType::kU8, *shape);
    return static_cast<bool>(decodePng(file.bytes, *shape, writableData(pixels)));
  };
  for (const char* name : {"grey", "palette", "colour_alpha"}) {
    const std::string content = golden(std::string("png/") + name + ".png");
    EXPECT_TRUE(check(content));
    eachCut(content, [&](const std::string& cut) { EXPECT_FALSE(check(cut)); });
    eachFlip(content, [&](const std::string& damaged) { check(damaged); });
  }
}

}  // namespace
}  // namespace dure::format
