#include <fmt/core.h>
#include <gmock/gmock.h>

#include "format/arrow_dataset.h"
#include "format/arrow_file.h"
#include "format/arrow_split.h"
#include "format/batch_rows.h"
#include "format/test_files.h"

namespace dure::format {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ArrowFiles : public FormatTest {};

Result<Source> openGolden(const std::string& name) {
  return openArrow({.path = goldenPath("arrow/" + name)});
}

// Why the file cannot be opened, or else why its rows cannot be read.
std::string whyNot(const std::string& name) {
  const auto source = openGolden(name);
  if (!source) return source.error().message();
  return readEverything(*source->train).error;
}

std::vector<double> grey() { return {0, 20, 40, 60, 80, 100, 120, 140, 160, 180, 200, 220}; }

// Reads all that there is in a file that may be damaged.
void readAllRows(const std::string& content) {
  auto file = readArrow(asFile(content));
  if (!file) return;
  // A damaged file can still describe large rows, but none larger than itself unpacked.
  std::vector<ArrowFile> files;
  files.push_back(*std::move(file));
  const auto split = makeArrowSplit("damaged", std::move(files), {});
  if (!split) return;
  for (std::int64_t row = 0; row < std::min<std::int64_t>((*split)->size(), 100); ++row) {
    static_cast<void>(readRows(**split, {&row, 1}));
  }
}

TEST_F(ArrowFiles, SavedByDatasetsAreADataSet) {
  const auto source = openGolden("saved");
  ASSERT_TRUE(source) << source.error().message();
  ASSERT_TRUE(source->train && source->test);
  EXPECT_THAT(source->class_names, ElementsAre("cat", "dog", "hen"));
  // Of two files, the first with two batches.
  EXPECT_EQ(source->train->size(), 4);
  EXPECT_THAT(source->train->sampleShape(), ElementsAre(3, 4));
  const Everything train = readEverything(*source->train);
  EXPECT_EQ(train.error, "");
  EXPECT_THAT(train.labels, ElementsAre(0, 1, 2, 1));
  const std::vector<double> first(train.samples.begin(), train.samples.begin() + 12);
  const std::vector<double> last(train.samples.end() - 12, train.samples.end());
  EXPECT_EQ(first, grey());
  EXPECT_EQ(last, grey());
  EXPECT_EQ(train.samples[12], 255);
  EXPECT_THAT(readEverything(*source->test).samples,
              ElementsAre(0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255));
}

TEST_F(ArrowFiles, RowsAreReadInAnyOrder) {
  const auto source = openGolden("saved");
  const std::vector<std::int64_t> rows = {3, 0, 2, 0};
  std::vector<double> labels(4);
  ASSERT_TRUE(source->train->readLabels(rows, labels.data()));
  EXPECT_THAT(labels, ElementsAre(1, 0, 2, 0));
  const std::int64_t beyond = 4;
  EXPECT_EQ(source->train->readLabels({&beyond, 1}, labels.data()).error().code(), Code::kInvalid);
}

TEST_F(ArrowFiles, ImagesWithColoursHaveThreeChannels) {
  const auto source = openGolden("colours.arrow");
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_THAT(source->train->sampleShape(), ElementsAre(3, 4, 3));
  // From what `datasets` adds to the schema.
  EXPECT_THAT(source->class_names, ElementsAre("cat", "dog", "hen"));
  const Everything all = readEverything(*source->train);
  EXPECT_EQ(all.error, "");
  for (std::size_t i = 0; i < all.samples.size(); ++i) {
    EXPECT_EQ(all.samples[i], static_cast<double>(i % 36 * 7)) << i;
  }
}

TEST_F(ArrowFiles, ListsAreSamples) {
  for (const char* name : {"lists.arrow", "lists_file.arrow"}) {
    const auto source = openGolden(name);
    ASSERT_TRUE(source) << source.error().message();
    EXPECT_THAT(source->train->sampleShape(), ElementsAre(3));
    EXPECT_EQ(source->train->sampleType(), DType::kF32);
    EXPECT_THAT(readEverything(*source->train).samples, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8));
    EXPECT_THAT(readEverything(*source->train).labels, ElementsAre(0, 1, 1));
  }
  const auto nested = openGolden("nested.arrow");
  EXPECT_THAT(nested->train->sampleShape(), ElementsAre(2, 3));
  EXPECT_THAT(readEverything(*nested->train).samples,
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11));
  EXPECT_THAT(readEverything(*nested->train).labels, ElementsAre(1, 0));
  const auto fixed = openGolden("fixed.arrow");
  EXPECT_EQ(fixed->train->sampleType(), DType::kI16);
  EXPECT_THAT(readEverything(*fixed->train).samples, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(readEverything(*fixed->train).labels, ElementsAre(0.5, -1.25));
  EXPECT_THAT(readEverything(*openGolden("large_list.arrow")->train).samples,
              ElementsAre(1, 2, 3, 4));
}

TEST_F(ArrowFiles, NumbersAndLargeBytesAreSamples) {
  const auto numbers = openGolden("numbers.arrow");
  EXPECT_THAT(numbers->train->sampleShape(), ElementsAre(1));
  EXPECT_THAT(readEverything(*numbers->train).samples, ElementsAre(0.5, 1.5, 2.5));
  EXPECT_THAT(readEverything(*openGolden("large.arrow")->train).labels, ElementsAre(1, 0));
}

TEST_F(ArrowFiles, RowsThatCannotBeReadAreNamed) {
  EXPECT_THAT(whyNot("ragged.arrow"), HasSubstr("row 1: 'features': has 2 values where"));
  EXPECT_THAT(whyNot("null_sample.arrow"), HasSubstr("row 1: 'features': is null"));
  EXPECT_THAT(whyNot("null_inside.arrow"), HasSubstr("row 1: 'features': holds a null"));
  EXPECT_THAT(whyNot("null_label.arrow"), HasSubstr("row 1: 'label': is null"));
  EXPECT_THAT(whyNot("sizes.arrow"), HasSubstr("row 1: 'image': is an image of shape (2, 4)"));
  EXPECT_THAT(whyNot("jpeg.arrow"), HasSubstr("row 0: 'image': this is not a PNG image"));
}

TEST_F(ArrowFiles, OfManyFilesTheOneWithTheDamageIsNamed) {
  for (const char* file : {"state.json", "data-00000-of-00002.arrow", "data-00001-of-00002.arrow"})
    write(file, golden(std::string("arrow/saved/train/") + file));
  // The PNG image of the only row of the second file.
  std::string damaged = golden("arrow/saved/train/data-00001-of-00002.arrow");
  const std::size_t at = damaged.find("PNG");
  ASSERT_NE(at, std::string::npos);
  damaged[at] = 'X';
  write("data-00001-of-00002.arrow", damaged);
  const auto source = openArrow({.path = directory()});
  ASSERT_TRUE(source) << source.error().message();
  const std::string error = readEverything(*source->train).error;
  EXPECT_THAT(error, testing::MatchesRegex(".*/data-00001-of-00002.arrow: in the batch at offset "
                                           "[1-9][0-9]*: row 0: 'image': this is not a PNG.*"));
}

TEST_F(ArrowFiles, WhatIsNotReadIsRefusedInOneSentence) {
  EXPECT_THAT(whyNot("compressed.arrow"), HasSubstr("compressed, which is not read"));
  EXPECT_THAT(whyNot("dictionary.arrow"), HasSubstr("dictionary-encoded, which is not read"));
}

TEST_F(ArrowFiles, ColumnsAreChosenByName) {
  const std::string path = goldenPath("arrow/lists.arrow");
  EXPECT_TRUE(openArrow({.path = path, .samples = "label", .labels = "label"}));
  const auto missing = openArrow({.path = path, .samples = "pixels"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code(), Code::kNotFound);
  EXPECT_THAT(missing.error().message(), HasSubstr("there is features, name, label"));
  const auto text = openArrow({.path = path, .labels = "name"});
  ASSERT_FALSE(text);
  EXPECT_THAT(text.error().message(), HasSubstr("'name' is text; labels must be numbers"));
}

TEST_F(ArrowFiles, DirectoriesThatLackSomethingAreRefused) {
  write("state.json", R"({"_data_files": [{"filename": "../elsewhere.arrow"}]})");
  EXPECT_THAT(openArrow({.path = directory()}).error().message(),
              HasSubstr("not in this directory"));
  write("state.json", R"({"_data_files": [{"filename": "gone.arrow"}]})");
  EXPECT_EQ(openArrow({.path = directory()}).error().code(), Code::kNotFound);
  write("state.json", R"({"_data_files": [], "_indices_data_files": [{"filename": "i.arrow"}]})");
  EXPECT_THAT(openArrow({.path = directory()}).error().message(), HasSubstr("flatten_indices"));
  write("state.json", "{}");
  EXPECT_FALSE(openArrow({.path = directory()}));
  write("state.json", "not json");
  EXPECT_FALSE(openArrow({.path = directory()}));
  ASSERT_TRUE(removeTree(path("state.json")));
  write("dataset_dict.json", R"({"splits": ["train"]})");
  EXPECT_EQ(openArrow({.path = directory()}).error().code(), Code::kNotFound);
}

TEST_F(ArrowFiles, ShapesThatCannotBeTrueAreRefused) {
  // Their product is 2^64 + 230: a buffer of 230 bytes would be written far beyond its end.
  EXPECT_THAT(whyNot("claiming.arrow"),
              HasSubstr("1 samples of shape (2, 3, 19, 41, 97, 7103, 69341, 82609) are too many"));
  // 400^5 bytes can be counted, and a few kilobytes cannot hold them.
  EXPECT_THAT(whyNot("claiming_much.arrow"), HasSubstr("1 rows of 10240000000000 bytes"));
}

TEST_F(ArrowFiles, OneBatchIsNotManyRows) {
  ASSERT_EQ(whyNot("once.arrow"), "");
  EXPECT_EQ(openGolden("once.arrow")->train->size(), 10);
  EXPECT_THAT(whyNot("repeating.arrow"), HasSubstr("the footer names the same data twice"));
  const std::string file = "data-00000-of-00002.arrow";
  write(file, golden("arrow/saved/train/" + file));
  write("state.json",
        fmt::format(R"({{"_data_files": [{{"filename": "{0}"}}, {{"filename": "{0}"}}]}})", file));
  EXPECT_THAT(openArrow({.path = directory()}).error().message(), HasSubstr("twice"));
}

// The file with an image of that size in its first row's head, whose pixels are not there.
std::string withImageSize(std::string content, char high, char low) {
  for (std::size_t at = content.find("IHDR"); at != std::string::npos;
       at = content.find("IHDR", at + 1)) {
    for (const std::size_t size : {at + 4, at + 8}) {
      content[size + 2] = high;
      content[size + 3] = low;
    }
  }
  return content;
}

TEST_F(ArrowFiles, ImagesAreNoLargerThanTheFileCanBe) {
  const auto open = [&](char high, char low) {
    return openArrow(
        {.path = write("a.arrow", withImageSize(golden("arrow/large.arrow"), high, low))});
  };
  // 2 images of 512 by 512 are within what any data set may have; of 6,400 by 6,400 they are not,
  // though the bytes of one could be all of one colour.
  EXPECT_TRUE(open(2, 0));
  const auto larger = open(25, 0);
  ASSERT_FALSE(larger);
  EXPECT_THAT(larger.error().message(), testing::AnyOf(HasSubstr("cannot hold an image"),
                                                       HasSubstr("2 rows of 40960000 bytes")));
}

TEST_F(ArrowFiles, CutFilesAreRefused) {
  // Also where a message ends, which leaves nothing unread but the mark of the stream's end.
  eachCut(golden("arrow/lists.arrow"), [](const std::string& cut) {
    const auto file = readArrow(asFile(cut));
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code(), Code::kInvalid);
  });
  eachCut(golden("arrow/lists_file.arrow"),
          [](const std::string& cut) { ASSERT_FALSE(readArrow(asFile(cut))); });
}

TEST_F(ArrowFiles, FlippedBitsDoNoHarm) {
  for (const char* name :
       {"lists.arrow", "lists_file.arrow", "nested.arrow", "fixed.arrow", "large.arrow",
        "colours.arrow", "null_inside.arrow", "saved/train/data-00000-of-00002.arrow"}) {
    eachFlip(golden(std::string("arrow/") + name), readAllRows);
  }
}

}  // namespace
}  // namespace dure::format
