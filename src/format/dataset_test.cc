#include "format/dataset.h"

#include <fmt/core.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "format/test_files.h"

namespace dure::format {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Datasets : public FormatTest {
 protected:
  Result<Dataset> openText(const std::string& train, const std::string& test = "") {
    write("train.csv", train);
    static_cast<void>(removeTree(path("test.csv")));
    if (!test.empty()) write("test.csv", test);
    return openDataset({.path = directory()});
  }

  std::string why(const std::string& train, const std::string& test = "") {
    const auto dataset = openText(train, test);
    return dataset ? "opened" : dataset.error().message();
  }
};

TEST_F(Datasets, AreFoundByContentAndName) {
  const std::pair<const char*, const char*> cases[] = {{"idx", "idx"},
                                                       {"stored.npz", "npz"},
                                                       {"csv", "csv"},
                                                       {"csv/train.csv", "csv"},
                                                       {"arrow/saved", "arrow"},
                                                       {"arrow/saved/train", "arrow"},
                                                       {"arrow", ""},
                                                       {"arrow/lists_file.arrow", "arrow"},
                                                       {"deflated.npz", "npz"}};
  for (const auto& [name, format] : cases) {
    const auto dataset = openDataset({.path = goldenPath(name)});
    EXPECT_EQ(dataset ? dataset->format : "", format) << name;
  }
}

TEST_F(Datasets, ThatAreNotThereOrUnknownAreRefused) {
  EXPECT_EQ(openDataset({.path = path("nothing")}).error().code(), Code::kNotFound);
  EXPECT_EQ(openDataset({.path = directory()}).error().code(), Code::kInvalid);
  EXPECT_EQ(openDataset({.path = write("file", "what is this?")}).error().code(), Code::kInvalid);
  EXPECT_EQ(openDataset({.path = write("empty", "")}).error().code(), Code::kInvalid);
  EXPECT_EQ(openDataset({.path = path("file"), .format = "mp3"}).error().code(), Code::kInvalid);
  EXPECT_FALSE(openDataset({.path = goldenPath("fortran.npy")}));
  EXPECT_FALSE(openDataset({.path = goldenPath("idx/type-u1")}));
  for (const char* format : {"idx", "npz", "npy", "arrow", "csv"}) {
    EXPECT_FALSE(openDataset({.path = directory(), .format = format})) << format;
    EXPECT_FALSE(openDataset({.path = path("empty"), .format = format})) << format;
  }
}

TEST_F(Datasets, WithWholeLabelsHaveClasses) {
  const auto dataset = openText("1,0\n2,4\n", "3,1\n");
  ASSERT_TRUE(dataset) << dataset.error().message();
  EXPECT_EQ(dataset->classes, 5);
  EXPECT_TRUE(dataset->train->labelsAreClasses() && dataset->test->labelsAreClasses());
  EXPECT_THAT(dataset->class_names, IsEmpty());
}

TEST_F(Datasets, WithOtherLabelsAreRegressions) {
  for (const char* train : {"1,0\n2,0.5\n", "1,0\n2,-1\n"}) {
    const auto dataset = openText(train);
    ASSERT_TRUE(dataset) << dataset.error().message();
    EXPECT_EQ(dataset->classes, 0);
    EXPECT_FALSE(dataset->train->labelsAreClasses());
  }
  // One split decides for both.
  const auto both = openText("1,0\n2,1\n", "3,0.5\n");
  ASSERT_TRUE(both);
  EXPECT_FALSE(both->train->labelsAreClasses());
}

TEST_F(Datasets, NamesOfClassesCount) {
  const auto dataset = openDataset({.path = goldenPath("arrow/saved")});
  ASSERT_TRUE(dataset) << dataset.error().message();
  EXPECT_EQ(dataset->classes, 3);
  EXPECT_THAT(dataset->class_names, ElementsAre("cat", "dog", "hen"));
}

TEST_F(Datasets, ThatContradictThemselvesAreRefused) {
  EXPECT_THAT(why("1,0\n2,1\n", "3,2\n"), HasSubstr("line 1: label 2 but there are 2 classes"));
  EXPECT_THAT(why("1,0\n", "3,4,0\n"), HasSubstr("of shape (1) in float32 but"));
  EXPECT_THAT(why("a,y\n"), HasSubstr("there are no rows to learn from"));
  EXPECT_THAT(why("1,nan\n"), HasSubstr("label nan is not a number to learn"));
}

TEST_F(Datasets, CountClassesAsTheyAreTold) {
  const auto open = [&](const std::string& train, std::int64_t classes) {
    write("train.csv", train);
    return openDataset({.path = directory(), .classes = classes});
  };
  // Prices, which happen to be whole.
  const auto prices = open("1,898000\n2,120000\n", 0);
  ASSERT_TRUE(prices) << prices.error().message();
  EXPECT_EQ(prices->classes, 0);
  EXPECT_FALSE(prices->train->labelsAreClasses());
  // More classes than occur.
  EXPECT_EQ(open("1,0\n2,4\n", 10)->classes, 10);
  EXPECT_THAT(open("1,0\n2,4\n", 4).error().message(),
              HasSubstr("line 2: label 4 but there are 4 classes, counted from 0; data.classes"));
  EXPECT_THAT(open("1,0.5\n", 2).error().message(),
              HasSubstr("label 0.5 is no class, since it is not whole; data.classes: 0"));
  EXPECT_THAT(open("1,yes\n2,no\n", 0).error().message(), HasSubstr("names of classes"));
}

// Rows with these labels, `times` each.
std::string labelled(int first, int last, int step, int times, const char* decimals = "") {
  std::string text;
  for (int i = 0; i < times; ++i) {
    for (int label = first; label <= last; label += step)
      text += fmt::format("1,{}{}\n", label, decimals);
  }
  return text;
}

TEST_F(Datasets, WithDecimalLabelsAreRegressionsUnlessTold) {
  const auto open = [&](const std::string& train, std::int64_t classes) {
    write("train.csv", train);
    return openDataset({.path = directory(), .classes = classes});
  };
  EXPECT_EQ(open("1,68.0\n2,70\n", -1)->classes, 0);
  EXPECT_EQ(open("1,1e0\n2,0\n", -1)->classes, 0);
  EXPECT_EQ(open("1,0.0\n2,1.0\n", 2)->classes, 2);
  EXPECT_EQ(openText("1,0\n2,1\n", "3,1.0\n")->classes, 0);
  EXPECT_EQ(openText(labelled(0, 345, 1, 1, ".0"))->classes, 0);
}

TEST_F(Datasets, WithMoreClassesThanSamplesCanTellAreRefused) {
  const std::string quantities = why(labelled(25, 345, 2, 1));
  EXPECT_THAT(quantities, HasSubstr("train.csv: labels up to 345 make 346 classes, for 161 "
                                    "samples; say train.data.classes: 0 if"));
  EXPECT_THAT(quantities, HasSubstr("train.data.classes: 346 if they are classes"));
  const std::string numbers = why(labelled(7, 907, 100, 200));
  EXPECT_THAT(numbers,
              HasSubstr("labels up to 907 make 908 classes, of which only 10 have samples"));
  EXPECT_THAT(numbers, HasSubstr("train.data.classes: 908, or train.data.classes: 0"));
  write("train.csv", labelled(7, 907, 100, 200));
  EXPECT_EQ(openDataset({.path = directory(), .classes = 908})->classes, 908);
  EXPECT_EQ(openDataset({.path = directory(), .classes = 0})->classes, 0);
  // What people have: few samples of few classes, many classes of which some are missing.
  EXPECT_EQ(openText("1,9\n")->classes, 10);
  EXPECT_EQ(openText(labelled(0, 19, 1, 1))->classes, 20);
  EXPECT_EQ(openText(labelled(0, 99, 1, 2))->classes, 100);
  EXPECT_EQ(openText(labelled(0, 999, 5, 10))->classes, 996);
}

TEST_F(Datasets, WithIntegersBelowZeroMayBeRegressions) {
  write("train-images-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x02\x07\x08", 10));
  write("train-labels-idx1-ubyte", std::string("\0\0\x09\x01\0\0\0\x02\x00\xff", 10));
  EXPECT_FALSE(openDataset({.path = directory()}));
  EXPECT_TRUE(openDataset({.path = directory(), .classes = 0}));
}

TEST_F(Datasets, WithAnEmptyTestSplitAreRefusedInASentence) {
  EXPECT_THAT(why("a,y\n1,0\n", "a,y\n"), HasSubstr("test.csv: there are no rows to evaluate on"));
  // Arrow files without rows have no shape either.
  write("train.arrow", golden("arrow/lists.arrow"));
  write("test.arrow", golden("arrow/empty.arrow"));
  const auto dataset = openDataset({.path = directory(), .format = "arrow"});
  ASSERT_FALSE(dataset);
  EXPECT_THAT(dataset.error().message(), HasSubstr("test.arrow: there are no rows to evaluate on"));
}

TEST_F(Datasets, NegativeClassesAreNamed) {
  const std::string labels("\0\0\x09\x01\0\0\0\x03\x00\xff\x01", 11);
  write("train-images-idx1-ubyte", std::string("\0\0\x08\x01\0\0\0\x03\x07\x08\x09", 11));
  write("train-labels-idx1-ubyte", labels);
  const auto dataset = openDataset({.path = directory()});
  ASSERT_FALSE(dataset);
  EXPECT_THAT(dataset.error().message(), HasSubstr("row 1: label -1 is negative"));
}

TEST_F(Datasets, SplitsThatWereAskedForMustBeThere) {
  const auto dataset = openDataset({.path = goldenPath("csv"), .test = "validation"});
  ASSERT_FALSE(dataset);
  EXPECT_EQ(dataset.error().code(), Code::kNotFound);
  EXPECT_THAT(dataset.error().message(), HasSubstr("no split 'validation'"));
}

TEST_F(Datasets, OfManyRowsAreScannedToTheEnd) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "1,0\n";
  EXPECT_EQ(openText(text + "1,7\n")->classes, 8);
}

}  // namespace
}  // namespace dure::format
