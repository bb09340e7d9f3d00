#include "serve/json_reader.h"

#include <gtest/gtest.h>

namespace dure::serve {
namespace {

std::vector<float> floatsOf(const std::string& text) {
  JsonReader json(text);
  std::vector<float> out;
  bool ended = false;
  if (json.beginArray()) json.readFloats(out, ended);
  EXPECT_TRUE(ended && json.atEnd()) << text;
  return out;
}

bool isValid(const std::string& text) {
  JsonReader json(text);
  return json.skip() && json.atEnd();
}

TEST(JsonReader, ReadsNumbersOfEveryForm) {
  EXPECT_EQ(floatsOf("[0, 1,255 ,-3, 1.5, 1e2, -2.5E-1, 123456789]"),
            (std::vector<float>{0, 1, 255, -3, 1.5F, 100, -0.25F, 123456789.0F}));
  EXPECT_EQ(floatsOf("[]"), std::vector<float>{});
  // Too small is nothing.
  EXPECT_EQ(floatsOf("[1e-60]"), std::vector<float>{0});
}

TEST(JsonReader, RefusesWhatIsNoNumber) {
  for (const char* text : {"[01]", "[1.]", "[.5]", "[+1]", "[1e]", "[NaN]", "[Infinity]", "[1e60]",
                           "[0x10]", "[1,]", "[,1]", "[1 2]", "[1", "[-]", "[--1]"}) {
    JsonReader json(text);
    std::vector<float> out;
    bool ended = false;
    json.beginArray();
    json.readFloats(out, ended);
    EXPECT_FALSE(ended) << text;
  }
}

TEST(JsonReader, ReadsTexts) {
  JsonReader json(R"("a\"b\\\/\n\u00e9\ud83d\ude00 é")");
  std::string text;
  ASSERT_TRUE(json.readString(text));
  EXPECT_EQ(text, "a\"b\\/\né😀 é");
}

TEST(JsonReader, SkipsAnyValueAndRefusesAnyOtherText) {
  for (const char* text : {"{}", "[]", "null", "true", "[1, {\"a\": [false, \"x\"]}, {}]", " 1 "})
    EXPECT_TRUE(isValid(text)) << text;
  for (const char* text : {"", "{", "[}", "{\"a\"}", "{\"a\":}", "{a:1}", "nul", "[1]]", "\"\\x\"",
                           "\"\\ud800\"", "\"\xff\"", "\"a\nb\"", "{\"a\":1,}", "1 2"})
    EXPECT_FALSE(isValid(text)) << text;
}

TEST(JsonReader, RefusesDeepNestingWithoutUsingTheStack) {
  EXPECT_FALSE(isValid(std::string(1'000'000, '[')));
  EXPECT_TRUE(isValid(std::string(60, '[') + std::string(60, ']')));
}

TEST(JsonReader, SaysWhere) {
  JsonReader json("{\"a\": x}");
  EXPECT_FALSE(json.skip());
  EXPECT_EQ(json.error().message(), "not valid JSON: at offset 6: a value is expected");
}

TEST(JsonText, WritesWhatCanBeReadAgain) {
  std::string out;
  appendJsonString(out, "a\"\\\n\xff");
  EXPECT_TRUE(isValid(out)) << out;
  out.clear();
  appendJsonNumber(out, 0.1F);
  appendJsonNumber(out, 3);
  EXPECT_EQ(out, "0.13.0");
}

}  // namespace
}  // namespace dure::serve
