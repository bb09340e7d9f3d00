#include "format/mapped_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "format/test_files.h"

namespace dure::format {
namespace {

class MappedFile : public FormatTest {};

TEST_F(MappedFile, IsReadInPlace) {
  const auto file = mapFile(write("three", "abc"));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->text(), "abc");
  EXPECT_EQ(mapFile(write("empty", ""))->size(), 0u);
}

TEST_F(MappedFile, OutlivesItsName) {
  auto file = mapFile(write("gone", "abc"));
  ASSERT_TRUE(removeTree(path("gone")));
  const FileBytes copy = *file;
  file = Error(Code::kIo, "");
  EXPECT_EQ(copy.text(), "abc");
}

TEST_F(MappedFile, WhatWasLoadedStaysWhenTheFileIsCutShort) {
  const std::string name = write("model", std::string(100'000, 'x'));
  const auto file = loadFile(name);
  ASSERT_TRUE(file);
  std::filesystem::resize_file(name, 1);
  EXPECT_EQ(file->text(), std::string(100'000, 'x'));
  EXPECT_EQ(loadFile(name)->text(), "x");
  EXPECT_EQ(loadFile(write("empty", ""))->size(), 0u);
  EXPECT_EQ(loadFile(path("nothing")).error().code(), Code::kNotFound);
  EXPECT_EQ(loadFile(directory()).error().code(), Code::kInvalid);
}

TEST_F(MappedFile, OfNothingOrOfSomethingElseIsRefused) {
  EXPECT_EQ(mapFile(path("nothing")).error().code(), Code::kNotFound);
  EXPECT_EQ(mapFile(directory()).error().code(), Code::kInvalid);
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(mapFile(path("pipe")).error().code(), Code::kInvalid);
}

TEST_F(MappedFile, CursorStopsAtTheEnd) {
  const FileBytes file = asFile(std::string("\x01\x00\x02\x00\x00\x00\x03", 7), "some.file");
  Cursor cursor(file);
  EXPECT_EQ(*cursor.little<std::uint16_t>("a number"), 1);
  EXPECT_EQ(*cursor.little<std::uint32_t>("a number"), 2u);
  EXPECT_EQ(cursor.left(), 1u);
  const auto beyond = cursor.take(2, "a pair");
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code(), Code::kInvalid);
  EXPECT_EQ(beyond.error().message(),
            "some.file: at offset 6: a pair needs 2 bytes but the file has 1 left");
  EXPECT_EQ(*Cursor(file, 3).big32("a number"), 3u);
}

TEST_F(MappedFile, CursorBeyondTheEndHasNothing) {
  const FileBytes file = asFile("abc");
  EXPECT_EQ(Cursor(file, 100).left(), 0u);
  EXPECT_FALSE(Cursor(file, ~std::size_t{0}).take(1, "anything"));
  EXPECT_TRUE(Cursor(file, 3).take(0, "nothing"));
}

}  // namespace
}  // namespace dure::format
