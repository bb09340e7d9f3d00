#include "web/page_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <regex>
#include <set>
#include <string>

namespace dure::web {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string unpacked(const PageFile& file) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) return "";
  std::string out(1 << 20, '\0');
  stream.next_in = const_cast<unsigned char*>(file.gzip.data());
  stream.avail_in = static_cast<unsigned>(file.gzip.size());
  stream.next_out = reinterpret_cast<unsigned char*>(out.data());
  stream.avail_out = static_cast<unsigned>(out.size());
  const int result = inflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return result == Z_STREAM_END ? out : "";
}

const PageFile* find(std::string_view path) {
  for (const PageFile& file : pageFiles()) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

TEST(PageFiles, BeginWithTheIndex) {
  ASSERT_FALSE(pageFiles().empty());
  EXPECT_EQ(pageFiles().front().path, "/");
  EXPECT_EQ(pageFiles().front().type, "text/html; charset=utf-8");
  EXPECT_THAT(unpacked(pageFiles().front()), HasSubstr("<title>Dure"));
}

TEST(PageFiles, HoldEverythingThatTheIndexAsksFor) {
  const std::string index = unpacked(pageFiles().front());
  const std::regex reference("(?:src|href)=\"\\.(/assets/[^\"]+)\"");
  int count = 0;
  for (std::sregex_iterator it(index.begin(), index.end(), reference), end; it != end;
       ++it, ++count) {
    EXPECT_TRUE(find((*it)[1].str())) << (*it)[1];
  }
  EXPECT_GE(count, 3) << "script, style and icon";
}

// The server's content security policy allows neither, and there may be no internet.
TEST(PageFiles, HaveNoInlineScriptsAndNoForeignAddresses) {
  const std::string index = unpacked(pageFiles().front());
  EXPECT_FALSE(std::regex_search(index, std::regex("<script>|<style|\\son\\w+=")));
  for (const PageFile& file : pageFiles()) {
    const std::string text = unpacked(file);
    EXPECT_THAT(text, Not(HasSubstr("url(data:"))) << file.path;
    EXPECT_FALSE(
        std::regex_search(text, std::regex("(src|href)=\"https?:|@import|url\\(\"?https?:")))
        << file.path;
  }
}

TEST(PageFiles, AreSmallAndTellTheirContentApart) {
  std::set<std::string_view> etags;
  std::size_t size = 0;
  for (const PageFile& file : pageFiles()) {
    const std::string text = unpacked(file);
    ASSERT_FALSE(text.empty()) << file.path;
    EXPECT_EQ(text, std::string(file.content.begin(), file.content.end())) << file.path;
    if (file.path != "/") size += text.size();
    etags.insert(file.etag);
    EXPECT_TRUE(file.etag.starts_with('"') && file.etag.ends_with('"')) << file.etag;
  }
  EXPECT_LT(size, 100u * 1024);
  // The index is there twice, as "/" and under its name.
  EXPECT_EQ(etags.size(), pageFiles().size() - 1);
  EXPECT_EQ(find("/")->etag, find("/index.html")->etag);
}

}  // namespace
}  // namespace dure::web
