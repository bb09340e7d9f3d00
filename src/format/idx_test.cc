#include "format/idx.h"

#include <gmock/gmock.h>
#include <zlib.h>

#include "format/test_files.h"

namespace dure::format {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Idx : public FormatTest {};

TEST_F(Idx, FilesOfAnotherProgramAreADataSet) {
  const auto source = openIdx({.path = goldenPath("idx")});
  ASSERT_TRUE(source) << source.error().message();
  ASSERT_TRUE(source->train && source->test);
  EXPECT_THAT(source->train->sampleShape(), ElementsAre(4, 3));
  EXPECT_EQ(source->train->sampleType(), DType::kU8);
  const Everything train = readEverything(*source->train);
  ASSERT_EQ(train.samples.size(), 72u);
  for (std::size_t i = 0; i < 72; ++i) EXPECT_EQ(train.samples[i], static_cast<double>(i));
  EXPECT_THAT(train.labels, ElementsAre(0, 1, 2, 3, 2, 1));
  EXPECT_THAT(readEverything(*source->test).labels, ElementsAre(0, 1));
}

TEST_F(Idx, EveryTypeIsReadIntoOurByteOrder) {
  for (const char* type : {"u1", "i1", "i2", "i4", "f4", "f8"}) {
    const auto array = readIdx(asFile(golden(std::string("idx/type-") + type)));
    ASSERT_TRUE(array) << type << array.error().message();
    EXPECT_THAT(array->shape, ElementsAre(2, 2));
    EXPECT_THAT(numbersOf(*array), ElementsAre(0, 1, 2, 3)) << type;
  }
}

TEST_F(Idx, WideNumbersStayInTheFileAndAreTurnedAroundRowByRow) {
  const FileBytes file = asFile(golden("idx/type-i4"));
  const auto array = readIdx(file);
  ASSERT_TRUE(array);
  EXPECT_GE(array->data, file.bytes.data());
  EXPECT_LT(array->data, file.bytes.data() + file.size());
  // Rows of 300 and 70000, labels of 1 and 0, all of them in two or four bytes.
  write("train-data-idx2-int", std::string("\0\0\x0c\x02\0\0\0\x02\0\0\0\x01"
                                           "\x00\x00\x01\x2c\x00\x01\x11\x70",
                                           20));
  write("train-labels-idx1-short", std::string("\0\0\x0b\x01\0\0\0\x02\0\x01\0\0", 12));
  const auto source = openIdx({.path = directory()});
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_THAT(readEverything(*source->train).samples, ElementsAre(300, 70000));
  EXPECT_THAT(readEverything(*source->train).labels, ElementsAre(1, 0));
}

TEST_F(Idx, CutFilesAreRefused) {
  for (const char* name : {"idx/train-images-idx3-ubyte", "idx/t10k-images-idx3-ubyte.gz"}) {
    eachCut(golden(name), [](const std::string& cut) {
      const auto array = readIdx(asFile(cut));
      ASSERT_FALSE(array);
      EXPECT_EQ(array.error().code(), Code::kInvalid);
    });
  }
}

TEST_F(Idx, FlippedBitsDoNoHarm) {
  for (const char* name : {"idx/train-images-idx3-ubyte", "idx/t10k-images-idx3-ubyte.gz"}) {
    eachFlip(golden(name), [](const std::string& damaged) {
      if (const auto array = readIdx(asFile(damaged)); array) numbersOf(*array);
    });
  }
}

TEST_F(Idx, MoreOrLessThanTheHeaderSaysIsRefused) {
  const std::string whole = golden("idx/train-images-idx3-ubyte");
  const auto longer = readIdx(asFile(whole + "x", "train"));
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().message(),
            "train: at offset 16: the header says 72 bytes but the file has 73");
  EXPECT_TRUE(readIdx(asFile(gzipped(whole))));
  EXPECT_FALSE(readIdx(asFile(gzipped(whole + "x"))));
  EXPECT_FALSE(readIdx(asFile(gzipped(whole.substr(0, 80)))));
  EXPECT_FALSE(readIdx(asFile(gzipped(whole) + "behind")));
}

TEST_F(Idx, PackedFilesMayHaveSeveralMembers) {
  const std::string whole = golden("idx/train-images-idx3-ubyte");
  const auto array = readIdx(asFile(gzipped(whole.substr(0, 30)) + gzipped(whole.substr(30))));
  ASSERT_TRUE(array) << array.error().message();
  EXPECT_EQ(array->elements(), 72);
}

TEST_F(Idx, BombsAreNotUnpacked) {
  // 16 GB of zeros, says the header, and the file is as small as deflate could make them: but they
  // are not there.
  std::string header("\0\0\x08\x02\x00\x01\x00\x00\x00\x04\x00\x00", 12);
  const auto claimed = readIdx(asFile(gzipped(header)));
  ASSERT_FALSE(claimed);
  EXPECT_THAT(claimed.error().message(), HasSubstr("more than"));
  // A megabyte behind a header that says four bytes.
  header = std::string("\0\0\x08\x01\x00\x00\x00\x04", 8) + std::string(1u << 20u, '\0');
  const auto hidden = readIdx(asFile(gzipped(header)));
  ASSERT_FALSE(hidden);
  EXPECT_THAT(hidden.error().message(), HasSubstr("holds more"));
}

TEST_F(Idx, PlainFilesComeBeforePackedOnes) {
  write("train-images-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x01\x07", 9));
  write("train-images-idx1-ubyte.gz", "damaged");
  write("train-labels-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x01\x00", 9));
  const auto source = openIdx({.path = directory()});
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_THAT(readEverything(*source->train).samples, ElementsAre(7));
  EXPECT_FALSE(source->test);
}

TEST_F(Idx, MissingLabelsAreNamed) {
  write("train-images-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x01\x07", 9));
  const auto source = openIdx({.path = directory()});
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().code(), Code::kNotFound);
  EXPECT_THAT(source.error().message(), HasSubstr("no file of labels"));
}

}  // namespace
}  // namespace dure::format
