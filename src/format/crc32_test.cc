#include "format/crc32.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>
#include <vector>

namespace dure::format {
namespace {

TEST(Crc32, IsThatOfZlibForEveryLengthAndBeginning) {
  std::mt19937 random(5);
  std::vector<std::byte> bytes(5000);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  for (std::size_t length = 0; length < 700; ++length) {
    const std::size_t begin = random() % 64;
    const std::uint32_t before = static_cast<std::uint32_t>(random());
    const auto expected = crc32_z(before, reinterpret_cast<const Bytef*>(&bytes[begin]), length);
    ASSERT_EQ(crc32Of({&bytes[begin], length}, before), expected) << length << " from " << begin;
  }
  EXPECT_EQ(crc32Of(bytes), crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
  const std::span<const std::byte> all = bytes;
  EXPECT_EQ(joinCrc32(crc32Of(all.first(1234)), crc32Of(all.subspan(1234)), all.size() - 1234),
            crc32Of(all));
  EXPECT_EQ(crc32Of(all.subspan(1234), crc32Of(all.first(1234))), crc32Of(all));
}

}  // namespace
}  // namespace dure::format
