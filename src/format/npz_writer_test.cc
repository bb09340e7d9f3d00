#include "format/npz_writer.h"

#include <gmock/gmock.h>

#include "format/npz.h"
#include "format/test_files.h"

namespace dure::format {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class NpzWriters : public FormatTest {
 protected:
  static std::span<const std::byte> bytesOf(const std::vector<float>& numbers) {
    return std::as_bytes(std::span(numbers));
  }
  static Status noticed(std::uint64_t) { return {}; }
  std::string content(const std::string& name) const {
    return *readFile(path(name), std::size_t{1} << 24u);
  }
};

TEST_F(NpzWriters, WhatIsWrittenIsReadAndTheSameEachTime) {
  for (const char* name : {"a.npz", "b.npz"}) {
    auto writer = NpzWriter::create(path(name));
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->begin("x_train", DType::kF32, {2, 3}));
    ASSERT_TRUE(writer->write(bytesOf({0, 1})));
    ASSERT_TRUE(writer->write(bytesOf({2, 3, 4, 5})));
    ASSERT_TRUE(writer->begin("scalar", DType::kF32, {}));
    ASSERT_TRUE(writer->write(bytesOf({7})));
    ASSERT_TRUE(writer->addTexts("class_names", {"두레", "b"}));
    ASSERT_TRUE(writer->begin("empty", DType::kU8, {0, 4}));
    ASSERT_TRUE(writer->finish());
  }
  EXPECT_EQ(content("a.npz"), content("b.npz"));
  const auto file = mapFile(path("a.npz"));
  ASSERT_TRUE(file);
  EXPECT_TRUE(verifyZip(*file, noticed));
  const auto npz = Npz::open(*file);
  ASSERT_TRUE(npz) << npz.error().message();
  EXPECT_THAT(npz->names(), ElementsAre("x_train", "scalar", "class_names", "empty"));
  const auto array = npz->read("x_train");
  ASSERT_TRUE(array) << array.error().message();
  EXPECT_EQ(numbersOf(*array), counting(6));
  EXPECT_THAT(array->shape, ElementsAre(2, 3));
  EXPECT_EQ((array->data - file->bytes.data()) % 64, 0);
  EXPECT_EQ(numbersOf(*npz->read("scalar"))[0], 7);
  EXPECT_EQ(npz->read("empty")->elements(), 0);
}

TEST_F(NpzWriters, MembersOfOtherFilesAreTakenAsTheyLie) {
  const FileBytes from = asFile(golden("deflated.npz"));
  const auto members = readZipDirectory(from);
  auto writer = NpzWriter::create(path("a.npz"));
  for (const ZipMember& member : *members) {
    ASSERT_TRUE(writer->addPacked(member, packedBytes(from, member)->bytes));
  }
  ASSERT_TRUE(writer->finish());
  const auto file = mapFile(path("a.npz"));
  EXPECT_TRUE(verifyZip(*file, noticed));
  EXPECT_EQ(numbersOf(*Npz::open(*file)->read("x_train")), counting(30));
}

TEST_F(NpzWriters, MoreOrLessThanTheShapeIsRefused) {
  auto writer = NpzWriter::create(path("a.npz"));
  ASSERT_TRUE(writer->begin("x", DType::kF32, {2}));
  EXPECT_FALSE(writer->write(bytesOf({1, 2, 3})));
  ASSERT_TRUE(writer->write(bytesOf({1})));
  EXPECT_THAT(writer->finish().error().message(), HasSubstr("fewer bytes"));
  EXPECT_FALSE(NpzWriter::create(path("a.npz")));  // it is there
  EXPECT_FALSE(NpzWriter::create(path("no/such/folder.npz")));
}

TEST_F(NpzWriters, EveryFlippedBitOfAnArrayIsNoticed) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    const std::string sound = golden(name);
    EXPECT_TRUE(verifyZip(asFile(sound), noticed));
    const FileBytes file = asFile(sound);
    const auto members = readZipDirectory(file);
    for (const ZipMember& member : *members) {
      const auto packed = packedBytes(file, member);
      const auto begin = static_cast<std::size_t>(packed->bytes.data() - file.bytes.data());
      const std::string array = member.name.substr(0, member.name.size() - 4);
      const auto numbers = numbersOf(*Npz::open(file)->read(array));
      for (std::size_t i = 0; i < packed->size(); ++i) {
        std::string flipped = sound;
        flipped[begin + i] = static_cast<char>(flipped[begin + i] ^ 4);
        const FileBytes other = asFile(flipped);
        if (!verifyZip(other, noticed)) continue;
        // Packed in another way, or a bit that fills up a byte: the array is the same.
        EXPECT_TRUE(member.deflated) << name << " " << begin + i;
        EXPECT_EQ(numbersOf(*Npz::open(other)->read(array)), numbers) << name << " " << begin + i;
      }
    }
    eachCut(sound, [](const std::string& cut) { EXPECT_FALSE(verifyZip(asFile(cut), noticed)); });
  }
}

TEST_F(NpzWriters, SizesBeyondFourGigabytesNeedZip64) {
  // Sparse: written by leaving out what would be zero is not possible, so the sizes are claimed by
  // a member that is taken as it lies.
  auto writer = NpzWriter::create(path("a.npz"));
  const std::uint64_t large = std::uint64_t{5} << 30u;
  ASSERT_TRUE(writer->addPacked(
      {.name = "x.npy", .deflated = true, .crc = 1, .size = large, .packed_size = 4},
      bytesOf({1})));
  ASSERT_TRUE(writer->finish());
  const auto file = mapFile(path("a.npz"));
  const auto members = readZipDirectory(*file);
  ASSERT_TRUE(members) << members.error().message();
  EXPECT_EQ((*members)[0].size, large);
  EXPECT_EQ((*members)[0].packed_size, 4u);
}

}  // namespace
}  // namespace dure::format
