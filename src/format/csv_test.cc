#include <gmock/gmock.h>
#include <zlib.h>

#include "format/csv_dataset.h"
#include "format/csv_table.h"
#include "format/test_files.h"

namespace dure::format {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class CsvFiles : public FormatTest {};

Result<Source> openText(const std::string& text, const DatasetOptions& options = {}) {
  return openCsvFiles(asFile(text, "a.csv"), nullptr, options);
}

// Why the text cannot be opened, or else why its rows cannot be read.
std::string whyNotText(const std::string& text, const DatasetOptions& options = {}) {
  const auto source = openText(text, options);
  if (!source) return source.error().message();
  return readEverything(*source->train).error;
}

TEST_F(CsvFiles, OfAnotherProgramAreADataSet) {
  const auto source = openCsv({.path = goldenPath("csv")});
  ASSERT_TRUE(source) << source.error().message();
  ASSERT_TRUE(source->train && source->test);
  EXPECT_THAT(source->class_names, ElementsAre("a, b\nc", "setosa", "virgi\"nica"));
  EXPECT_THAT(source->train->sampleShape(), ElementsAre(2));
  EXPECT_EQ(source->train->sampleType(), DType::kF32);
  const Everything train = readEverything(*source->train);
  EXPECT_THAT(train.samples, ElementsAre(5.1f, -3.5, 7, 1e-3f, 6.3f, 0, 1, 2));
  EXPECT_THAT(train.labels, ElementsAre(1, 2, 0, 1));
  EXPECT_THAT(readEverything(*source->test).labels, ElementsAre(1));
}

TEST_F(CsvFiles, LabelsAreTheLastColumnUnlessOneIsNamedSo) {
  EXPECT_THAT(readEverything(*openText("1,2,0\n3,4,1\n")->train).labels, ElementsAre(0, 1));
  const auto first = openText("label,a\n0,5\n1,6\n");
  EXPECT_THAT(readEverything(*first->train).labels, ElementsAre(0, 1));
  EXPECT_THAT(readEverything(*first->train).samples, ElementsAre(5, 6));
  const auto chosen = openText("label,a,b\n0,5,7\n1,6,8\n", {.samples = "b,label", .labels = "a"});
  EXPECT_THAT(readEverything(*chosen->train).labels, ElementsAre(5, 6));
  EXPECT_THAT(readEverything(*chosen->train).samples, ElementsAre(0, 7, 1, 8));
  EXPECT_THAT(readEverything(*openText("1,2,0\n3,4,1\n", {.labels = "1"})->train).labels,
              ElementsAre(1, 3));
}

TEST_F(CsvFiles, LineEndsMarksAndSpacesDoNotMatter) {
  for (const char* text : {"a,b\n1,2\n3,4\n", "a,b\r\n1,2\r\n3,4\r\n", "a,b\n1,2\n3,4",
                           "\xef\xbb\xbf"
                           "a,b\n1,2\n3,4\n",
                           "\n\na,b\n\n1,2\n\r\n3,4\n\n", "a,b\n 1 ,+2\n\"3\",\"4\"\r\n",
                           "a,b\n1e0,2.0\n.3e1,400E-2\n"}) {
    const auto source = openText(text);
    ASSERT_TRUE(source) << text << source.error().message();
    EXPECT_THAT(readEverything(*source->train).samples, ElementsAre(1, 3)) << text;
    EXPECT_THAT(readEverything(*source->train).labels, ElementsAre(2, 4)) << text;
  }
}

TEST_F(CsvFiles, ErrorsNameFileLineAndColumn) {
  EXPECT_EQ(whyNotText("age,y\n1,0\nold,1\n"), "a.csv:3: column 1 ('age'): 'old' is not a number");
  EXPECT_EQ(whyNotText("1,0\n,1\n"), "a.csv:2: column 1: '' is not a number");
  EXPECT_EQ(whyNotText("a,y\n1,0\n1,2,3\n"),
            "a.csv:3: there are 3 columns but the first row has 2");
  EXPECT_EQ(whyNotText("a,y\n1,0\n1\n"), "a.csv:3: there are 1 columns but the first row has 2");
  EXPECT_EQ(whyNotText("a,y\n\"line\nbreak\",0\n1,\"x\n"), "a.csv:4: a quote is never closed");
  EXPECT_EQ(whyNotText("a,y\n\"1\"2,0\n"), "a.csv:2: there is more behind a closing quote");
  EXPECT_EQ(whyNotText(""), "a.csv: there are no rows");
  EXPECT_EQ(whyNotText("1\n2\n"), "a.csv: there is no column beside the labels");
  EXPECT_THAT(whyNotText("a,y\n1,0\n", {.labels = "z"}), HasSubstr("no column 'z'; there is a, y"));
}

TEST_F(CsvFiles, ClassesOfTheTestMustBeKnown) {
  const FileBytes train = asFile("a,y\n1,cat\n2,dog\n", "train.csv");
  const FileBytes same = asFile("a,y\n1,dog\n", "test.csv");
  const FileBytes other = asFile("a,y\n1,dog\n1,hen\n", "test.csv");
  const FileBytes columns = asFile("b,y\n1,dog\n", "test.csv");
  EXPECT_THAT(readEverything(*openCsvFiles(train, &same, {})->test).labels, ElementsAre(1));
  EXPECT_EQ(readEverything(*openCsvFiles(train, &other, {})->test).error,
            "test.csv:3: column 2 ('y'): 'hen' is no class of the training data");
  EXPECT_THAT(openCsvFiles(train, &columns, {}).error().message(), HasSubstr("not those of"));
}

// Why the text cannot be opened.
std::string whyOpening(const std::string& text, const DatasetOptions& options = {}) {
  const auto source = openText(text, options);
  return source ? "opened" : source.error().message();
}

TEST_F(CsvFiles, CellsThatCannotBeLearnedAreFoundWhenTheFileIsOpened) {
  const std::string many = [] {
    std::string rows = "a,b,y\n";
    for (int i = 0; i < 9'998; ++i) rows += "1,2,0\n";
    return rows;
  }();
  EXPECT_EQ(whyOpening(many), "opened");
  EXPECT_EQ(whyOpening(many + "1,old,0\n"), "a.csv:10000: column 2 ('b'): 'old' is not a number");
  EXPECT_EQ(whyOpening(many + "nan,1,0\n"),
            "a.csv:10000: column 1 ('a'): 'nan' is not a finite number");
  EXPECT_EQ(whyOpening(many + "1,-inf,0\n"),
            "a.csv:10000: column 2 ('b'): '-inf' is not a finite number");
  EXPECT_EQ(whyOpening(many + "1e300,1,0\n"),
            "a.csv:10000: column 1 ('a'): '1e300' is beyond what float32 holds");
  EXPECT_EQ(whyOpening(many + "1,2\n"), "a.csv:10000: there are 2 columns but the first row has 3");
  EXPECT_EQ(whyOpening(many + "1,2,\n"), "a.csv:10000: column 3 ('y'): the label is missing");
  // Columns that are no samples may hold anything, and what is too small for a double is zero.
  EXPECT_EQ(whyOpening("name,a,y\nx,1,0\n", {.samples = "a"}), "opened");
  EXPECT_THAT(readEverything(*openText("1e-999,0\n2,1\n")->train).samples, ElementsAre(0, 2));
  const FileBytes train = asFile("a,y\n1,0\n", "train.csv");
  const FileBytes test = asFile("a,y\n1,0\nx,1\n", "test.csv");
  EXPECT_EQ(openCsvFiles(train, &test, {}).error().message(),
            "test.csv:3: column 1 ('a'): 'x' is not a number");
}

TEST_F(CsvFiles, SemicolonsOrTabsMaySeparate) {
  for (const char* text : {"a;b;y\n1;2;0\n3;4;1\n", "a\tb\ty\n1\t2\t0\n3\t4\t1\n", "1;2;0\n3;4;1\n",
                           "\"a, c\";\"b\";y\r\n1;2;0\r\n3;4;1\r\n"}) {
    const auto source = openText(text);
    ASSERT_TRUE(source) << text << source.error().message();
    EXPECT_THAT(readEverything(*source->train).samples, ElementsAre(1, 2, 3, 4)) << text;
    EXPECT_THAT(readEverything(*source->train).labels, ElementsAre(0, 1)) << text;
  }
  EXPECT_EQ(whyOpening("a;y\n1,5;0\n"), "a.csv:2: column 1 ('a'): '1,5' is not a number");
}

TEST_F(CsvFiles, CutOrFlippedDoesNoHarm) {
  const auto check = [](const std::string& text) {
    if (const auto source = openText(text); source) readEverything(*source->train);
  };
  eachCut(golden("csv/train.csv"), check);
  eachFlip(golden("csv/train.csv"), check);
}

TEST_F(CsvFiles, DirectoriesNeedATrainingFile) {
  write("other.csv", "1,2\n");
  EXPECT_EQ(openCsv({.path = directory()}).error().code(), Code::kNotFound);
  EXPECT_TRUE(openCsv({.path = directory(), .train = "other"}));
  EXPECT_TRUE(openCsv({.path = directory(), .train = "other.csv"}));
  EXPECT_TRUE(openCsv({.path = path("other.csv")}));
}

TEST_F(CsvFiles, MayBePacked) {
  std::string rows;
  for (int i = 0; i < 50'000; ++i) rows += "1,2,0\n";
  write("train.csv.gz", gzipped("a,b,y\n") + gzipped(rows));
  write("test.csv.gz", gzipped("a,b,y\n3,4,1\n"));
  const auto source = openCsv({.path = directory()});
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_EQ(source->train->size(), 50'000);
  EXPECT_THAT(readEverything(*source->test).samples, ElementsAre(3, 4));
  EXPECT_TRUE(looksLikeCsv(directory()));
  EXPECT_TRUE(openDataset({.path = path("train.csv.gz")}));
  const std::string whole = gzipped(rows);
  write("cut.csv.gz", whole.substr(0, whole.size() / 2));
  EXPECT_THAT(openCsv({.path = path("cut.csv.gz")}).error().message(),
              HasSubstr("compressed data ends too early"));
}

}  // namespace
}  // namespace dure::format
