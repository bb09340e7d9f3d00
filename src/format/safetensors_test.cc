#include "format/safetensors.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "format/safetensors_parse.h"
#include "format/test_files.h"

namespace dure::format {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SafetensorsFiles : public FormatTest {};

std::string withHeader(const std::string& header, std::size_t data) {
  const std::uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + header +
         std::string(data, '\0');
}

std::string why(const std::string& header, std::size_t data) {
  const auto content = parseSafetensors(asFile(withHeader(header, data)));
  if (content) return "read";
  EXPECT_EQ(content.error().code(), Code::kInvalid);
  return content.error().message();
}

TEST_F(SafetensorsFiles, OfAnotherProgramAreRead) {
  const auto content = readSafetensors(goldenPath("numbers.safetensors"));
  ASSERT_TRUE(content) << content.error().message();
  EXPECT_EQ(content->arrays.size(), 14u);
  EXPECT_EQ(content->metadata.at("format"), "pt");
  for (const auto& [name, array] : content->arrays) {
    if (name == "empty" || name == "scalar") continue;
    EXPECT_EQ(dtypeName(array.dtype), name);
    const bool truth = array.dtype == DType::kBool;
    EXPECT_THAT(numbersOf(array), ElementsAre(0, 1, truth ? 1 : 2, truth ? 1 : 3)) << name;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(array.data) % sizeOf(array.dtype), 0u);
  }
  EXPECT_THAT(content->find("empty")->shape, ElementsAre(0, 3));
  EXPECT_THAT(content->find("scalar")->shape, IsEmpty());
  EXPECT_EQ(numbersOf(*content->find("scalar"))[0], 1.5);
  EXPECT_EQ(content->find("nothing"), nullptr);
}

TEST_F(SafetensorsFiles, AreReadAsTheyWereWritten) {
  Safetensors content;
  content.metadata = {{"step", "7"}, {"snow\xe2\x98\x83", "\"quoted\""}};
  content.arrays.emplace_back("bytes", makeArray(DType::kU8, {3}));
  content.arrays.emplace_back("wide", makeArray(DType::kF64, {2, 2}));
  content.arrays.emplace_back("none", makeArray(DType::kF32, {0}));
  content.arrays.emplace_back("scalar", makeArray(DType::kBF16, {}));
  for (auto& [name, array] : content.arrays) {
    for (std::size_t i = 0; i < array.bytes(); ++i) writableData(array)[i] = std::byte(i + 1);
  }
  ASSERT_TRUE(writeSafetensors(path("model"), content));
  const auto read = readSafetensors(path("model"));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->metadata, content.metadata);
  ASSERT_EQ(read->arrays.size(), 4u);
  for (const auto& [name, array] : content.arrays) {
    const Array* const same = read->find(name);
    ASSERT_NE(same, nullptr);
    EXPECT_EQ(same->dtype, array.dtype);
    EXPECT_EQ(same->shape, array.shape);
    EXPECT_EQ(std::memcmp(same->data, array.data, array.bytes()), 0);
  }
  // Wide numbers are first, so that they are aligned.
  EXPECT_EQ(read->arrays[0].first, "wide");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read->arrays[0].second.data) % 64, 0u);
  EXPECT_THAT(listDirectory(directory()), ElementsAre("model"));
}

TEST_F(SafetensorsFiles, MayBeEmpty) {
  ASSERT_TRUE(writeSafetensors(path("empty"), {}));
  EXPECT_THAT(readSafetensors(path("empty"))->arrays, IsEmpty());
  EXPECT_EQ(readSafetensors(path("nothing")).error().code(), Code::kNotFound);
}

TEST_F(SafetensorsFiles, WithTwoOfOneNameAreNotWritten) {
  Safetensors content;
  content.arrays = {{"a", makeArray(DType::kU8, {1})}, {"a", makeArray(DType::kU8, {1})}};
  EXPECT_EQ(writeSafetensors(path("model"), content).error().code(), Code::kInvalid);
  content.arrays = {{"__metadata__", makeArray(DType::kU8, {1})}};
  EXPECT_FALSE(writeSafetensors(path("model"), content));
  content.arrays = {{"not\xff utf-8", makeArray(DType::kU8, {1})}};
  EXPECT_FALSE(writeSafetensors(path("model"), content));
  EXPECT_THAT(listDirectory(directory()), IsEmpty());
}

TEST_F(SafetensorsFiles, AreWrittenWholeOrNotAtAll) {
  write("model", "the old one");
  // In a child, since the limit cannot be lifted again. It stands for a disk that is full.
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit small{.rlim_cur = 100'000, .rlim_max = 100'000};
    setrlimit(RLIMIT_FSIZE, &small);
    Safetensors content;
    content.arrays.emplace_back("large", makeArray(DType::kU8, {1'000'000}));
    const auto wrote = writeSafetensors(path("model"), content);
    _exit(!wrote && wrote.error().message().find("File too large") != std::string::npos ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(listDirectory(directory()), ElementsAre("model"));
  EXPECT_EQ(*readFile(path("model"), 100), "the old one");
  EXPECT_EQ(writeSafetensors(path("no/such/directory"), {}).error().code(), Code::kNotFound);
}

TEST_F(SafetensorsFiles, HeadersAreBelievedOnlyIfTheyFit) {
  const std::string good = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  EXPECT_EQ(why(good, 8), "read");
  EXPECT_THAT(why(good, 7), HasSubstr("the header says 8 bytes but the file has 7"));
  EXPECT_THAT(why(good, 9), HasSubstr("the header says 8 bytes but the file has 9"));
  EXPECT_THAT(why("[]", 0), HasSubstr("not a JSON object"));
  EXPECT_THAT(why("{", 0), HasSubstr("not JSON"));
  EXPECT_THAT(why(R"({"a":1})", 0), HasSubstr("array 'a'"));
  EXPECT_THAT(why(R"({"a":{"dtype":"F32","shape":[2]}})", 8), HasSubstr("has no data_offsets"));
  EXPECT_THAT(why(R"({"a":{"dtype":"F8","shape":[2],"data_offsets":[0,2]}})", 2),
              HasSubstr("the type \"F8\""));
  EXPECT_THAT(why(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8),
              HasSubstr("whole numbers"));
  EXPECT_THAT(why(R"({"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}})", 8),
              HasSubstr("whole numbers"));
  EXPECT_THAT(
      why(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}})", 8),
      HasSubstr("too large"));
  EXPECT_THAT(why(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
              HasSubstr("needs 12 bytes"));
  EXPECT_THAT(why(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8),
              HasSubstr("not a range"));
  EXPECT_THAT(why(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                  R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
                  2),
              HasSubstr("twice"));
  EXPECT_THAT(why(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                  R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                  3),
              HasSubstr("inside"));
  EXPECT_THAT(why(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                  R"("b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
                  5),
              HasSubstr("hole"));
  EXPECT_THAT(why(R"({"__metadata__":{"a":1}})", 0), HasSubstr("texts"));
  const std::string huge("\xff\xff\xff\xff\xff\xff\xff\x7f", 8);
  EXPECT_THAT(parseSafetensors(asFile(huge)).error().message(), HasSubstr("the limit is"));
  EXPECT_THAT(why(std::string(1000, '[') + std::string(1000, ']'), 0), HasSubstr("too deep"));
}

TEST_F(SafetensorsFiles, CutFilesAreRefused) {
  eachCut(golden("numbers.safetensors"), [](const std::string& cut) {
    const auto content = parseSafetensors(asFile(cut));
    ASSERT_FALSE(content);
    EXPECT_EQ(content.error().code(), Code::kInvalid);
  });
}

TEST_F(SafetensorsFiles, FlippedBitsDoNoHarm) {
  eachFlip(golden("numbers.safetensors"), [](const std::string& damaged) {
    const auto content = parseSafetensors(asFile(damaged));
    if (!content) return;
    for (const auto& [name, array] : content->arrays) numbersOf(array);
  });
}

}  // namespace
}  // namespace dure::format
