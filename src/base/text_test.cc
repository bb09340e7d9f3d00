#include "base/text.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>

namespace dure {
namespace {

TEST(Durations, AreReadInEveryUnit) {
  const std::pair<const char*, std::int64_t> table[] = {
      {"250ms", 250},
      {"30s", 30'000},
      {"5m", 300'000},
      {"1h30m", 5'400'000},
      {"2d", 172'800'000},
      {"0", 0},
      {"0s", 0},
      {"90", 90'000},
      {"1.5", 1'500},
      {"0.25s", 250},
      {"1m30s", 90'000},
      {"1h0m0s250ms", 3'600'250},
      {"0.0004s", 0},
      {"0.0006s", 1},
      {"36500d", 3'153'600'000'000},
  };
  for (const auto& [text, millis] : table) {
    const auto duration = parseDuration(text);
    ASSERT_TRUE(duration) << text;
    EXPECT_EQ(duration->count(), millis) << text;
  }
}

TEST(Durations, AnythingElseIsNone) {
  for (const char* text :
       {"",     " ",    "-1",     "-5s",  "+5s",  "s",      "ms",
        "5x",   "5 s",  "1h 30m", "1h30", "30s5", "1.2.3s", ".",
        "1e3",  "0x10", "nan",    "inf",  "5S",   "36501d", "99999999999999999999d",
        "5s\n", "5ms5"}) {
    EXPECT_FALSE(parseDuration(text)) << text;
  }
  EXPECT_FALSE(parseDuration(std::string(1000, '9')));
}

TEST(Durations, ComeBackFromTheirText) {
  EXPECT_EQ(formatDuration(Duration(0)), "0s");
  EXPECT_EQ(formatDuration(Duration(250)), "250ms");
  EXPECT_EQ(formatDuration(Duration(5'400'000)), "1h30m");
  EXPECT_EQ(formatDuration(Duration(86'400'000)), "1d");
  std::mt19937_64 random(1);
  std::uniform_int_distribution<int> digits(0, 40);
  for (int i = 0; i < 1000; ++i) {
    const auto millis = static_cast<std::int64_t>(random() >> (64 - digits(random) - 1));
    EXPECT_EQ(parseDuration(formatDuration(Duration(millis))), Duration(millis)) << millis;
  }
}

TEST(Durations, ArePeoplesWordsInAtMostTwoUnits) {
  const std::pair<std::int64_t, const char*> table[] = {
      {0, "0 s"},
      {5, "0.005 s"},
      {350, "0.35 s"},
      {1'500, "1.5 s"},
      {41'000, "41 s"},
      {59'999, "59 s"},
      {200'000, "3 m 20 s"},
      {3'600'000, "1 h 0 m"},
      {7'500'000, "2 h 5 m"},
      {90'000'000, "1 d 1 h"},
  };
  for (const auto& [millis, text] : table) EXPECT_EQ(describeDuration(Duration(millis)), text);
}

TEST(Bytes, AreReadAsKubernetesWritesThem) {
  const std::pair<const char*, std::int64_t> table[] = {
      {"0", 0},
      {"17", 17},
      {"64k", 64'000},
      {"64K", 64'000},
      {"1500M", 1'500'000'000},
      {"2Gi", 2'147'483'648},
      {"512Mi", 536'870'912},
      {"1.5Ki", 1'536},
      {"1Ti", 1'099'511'627'776},
      {"3G", 3'000'000'000},
      {"1P", 1'000'000'000'000'000},
      {"1Pi", 1'125'899'906'842'624},
  };
  for (const auto& [text, bytes] : table) EXPECT_EQ(parseBytes(text), bytes) << text;
  for (const char* text : {"", "Gi", "-1", "2gi", "2GiB", "2 Gi", "1.2.3", "9999999P", "1e6"}) {
    EXPECT_FALSE(parseBytes(text)) << text;
  }
}

TEST(Bytes, ComeBackFromTheirText) {
  EXPECT_EQ(formatBytes(0), "0");
  EXPECT_EQ(formatBytes(1000), "1000");
  EXPECT_EQ(formatBytes(1024), "1Ki");
  EXPECT_EQ(formatBytes(std::int64_t{1536} << 20), "1536Mi");
  for (int shift = 0; shift < 60; ++shift) {
    const std::int64_t bytes = std::int64_t{3} << shift;
    EXPECT_EQ(parseBytes(formatBytes(bytes)), bytes);
  }
}

TEST(Utf8, TheFirstByteThatIsWrongIsFound) {
  const std::pair<std::string, std::optional<std::size_t>> table[] = {
      {"", std::nullopt},
      {"plain", std::nullopt},
      {std::string("a\0b", 3), std::nullopt},
      {"\xC2\x80 \xDF\xBF", std::nullopt},                  // the ends of two bytes
      {"\xE0\xA0\x80 \xEF\xBF\xBF", std::nullopt},          // of three
      {"\xF0\x90\x80\x80 \xF4\x8F\xBF\xBF", std::nullopt},  // of four
      {"\xED\x9F\xBF \xEE\x80\x80", std::nullopt},          // around the surrogates
      {"ab\xFF", 2},
      {"\x80", 0},              // goes on from nothing
      {"a\xC0\x80", 1},         // overlong
      {"a\xC1\xBF", 1},         // overlong
      {"\xE0\x9F\xBF", 0},      // overlong
      {"\xF0\x8F\xBF\xBF", 0},  // overlong
      {"\xED\xA0\x80", 0},      // the first surrogate
      {"\xED\xBF\xBF", 0},      // the last
      {"\xF4\x90\x80\x80", 0},  // above the last character
      {"\xF5\x80\x80\x80", 0},
      {"ab\xE2\x82", 2},  // ends too soon
      {"\xE2\x82z", 0},
      {"\xC3\xC3\xA9", 0},
  };
  for (const auto& [text, at] : table) EXPECT_EQ(findInvalidUtf8(text), at) << text;
}

TEST(Utf8, EveryWrongByteIsReplacedAndTheRestKept) {
  EXPECT_EQ(toValidUtf8("caf\xC3\xA9"), "caf\xC3\xA9");
  EXPECT_EQ(toValidUtf8("a\xFF\xFE z"), "a\xEF\xBF\xBD\xEF\xBF\xBD z");
  EXPECT_EQ(toValidUtf8("\xE2\x82z"), "\xEF\xBF\xBD\xEF\xBF\xBDz");
  std::mt19937 random(1);
  std::uniform_int_distribution<int> byte(0, 255);
  for (int i = 0; i < 1000; ++i) {
    std::string noise;
    for (int k = 0; k < 20; ++k) noise += static_cast<char>(byte(random));
    EXPECT_FALSE(findInvalidUtf8(toValidUtf8(noise)));
  }
}

TEST(Closest, IsWhatAPersonMeant) {
  const std::vector<std::string> fields{"workers", "strategy", "program", "env"};
  EXPECT_EQ(closest("worker", fields), "workers");
  EXPECT_EQ(closest("wrokers", fields), "workers");
  EXPECT_EQ(closest("stratgey", fields), "strategy");
  EXPECT_EQ(closest("evn", fields), "env");
  EXPECT_EQ(closest("workers", fields), "workers");
}

TEST(Closest, IsNothingIfNoneIsNear) {
  EXPECT_FALSE(closest("banana", {"workers", "strategy"}));
  EXPECT_FALSE(closest("xyz", {"env"}));
  EXPECT_FALSE(closest("workers", {}));
  EXPECT_FALSE(closest(std::string(10'000, 'w'), {"workers"}));
}

TEST(Words, AreJoinedAndSplit) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(join({"a"}, ", "), "a");
  EXPECT_EQ(join({"a", "", "c"}, ", "), "a, , c");
  EXPECT_EQ(split("", ','), Words{""});
  EXPECT_EQ(split("a", ','), Words{"a"});
  EXPECT_EQ(split(",a,,b,", ','), (Words{"", "a", "", "b", ""}));
}

// What a shell makes of the words.
std::vector<std::string> throughShell(const std::vector<std::string>& words) {
  std::string command = "printf '%s\\0'";
  for (const std::string& word : words) command += " " + shellQuote(word);
  std::FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  char block[4096];
  for (std::size_t got = 0; (got = std::fread(block, 1, sizeof block, pipe)) > 0;) {
    output.append(block, got);
  }
  EXPECT_EQ(pclose(pipe), 0);
  std::vector<std::string> seen = split(output, '\0');
  seen.pop_back();
  return seen;
}

TEST(ShellQuote, AShellSeesExactlyTheWords) {
  std::vector<std::string> words{
      "",      "plain", "two words",  "it's", "''",      "'",   "\"$HOME\"", "`ls`", "$(ls)",
      "a\nb",  "\t",    "~",          "*",    "a;b|c&d", "\\",  "\\'",       "#no",  "!1",
      "{a,b}", "-n",    "--flag=x=1", "[x]?", "é",       "a\r", "<in>out"};
  std::mt19937 random(1);
  std::uniform_int_distribution<int> byte(1, 255);
  for (int i = 0; i < 100; ++i) {
    std::string noise;
    for (int k = 0; k < 20; ++k) noise += static_cast<char>(byte(random));
    words.push_back(noise);
  }
  EXPECT_EQ(throughShell(words), words);
}

TEST(ShellQuote, LeavesPlainWordsReadable) {
  EXPECT_EQ(shellQuote("python3"), "python3");
  EXPECT_EQ(shellQuote("/a/b-c_d.py"), "/a/b-c_d.py");
  EXPECT_EQ(shellQuote("--epochs=3"), "--epochs=3");
  EXPECT_EQ(shellQuote("two words"), "'two words'");
}

TEST(EqualInConstantTime, SaysWhetherTheyAreEqual) {
  EXPECT_TRUE(equalInConstantTime("", ""));
  EXPECT_TRUE(equalInConstantTime("secret", "secret"));
  EXPECT_FALSE(equalInConstantTime("secret", "secreT"));
  EXPECT_FALSE(equalInConstantTime("Secret", "secret"));
  EXPECT_FALSE(equalInConstantTime("secret", "secret1"));
  EXPECT_FALSE(equalInConstantTime("", "s"));
  EXPECT_FALSE(equalInConstantTime("\x80", std::string_view("\0", 1)));
}

}  // namespace
}  // namespace dure
