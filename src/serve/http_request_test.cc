#include "serve/http_request.h"

#include <gtest/gtest.h>

namespace dure::serve {
namespace {

using State = HttpParser::State;

// The status that a request is refused with; 0 if it is whole, -1 if more is wanted.
int statusOf(const std::string& text, HttpLimits limits = {}) {
  HttpParser parser(limits);
  parser.feed(text);
  return parser.state() == State::kFailed ? parser.status()
         : parser.state() == State::kDone ? 0
                                          : -1;
}

std::string post(const std::string& headers, const std::string& body) {
  return "POST /x HTTP/1.1\r\nHost: a\r\n" + headers + "\r\n" + body;
}

TEST(HttpParser, TakesRequestsByteByByteAndOneAfterAnother) {
  const std::string two = post("Content-Length: 3\r\n", "abc") +
                          "GET /y?z HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
  HttpParser parser({});
  std::vector<HttpRequest> seen;
  for (const char c : two) {
    EXPECT_EQ(parser.feed({&c, 1}), 1u);
    if (parser.state() != State::kDone) continue;
    seen.push_back(parser.request());
    parser.reset();
  }
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].body, "abc");
  EXPECT_TRUE(seen[0].keep_alive);
  EXPECT_EQ(seen[1].target, "/y?z");
  EXPECT_FALSE(seen[1].keep_alive);
}

TEST(HttpParser, StopsAtTheEndOfARequest) {
  HttpParser parser({});
  const std::string two = post("Content-Length: 1\r\n", "a") + "GET / HTTP/1.1\r\n";
  EXPECT_EQ(parser.feed(two), two.size() - 16);
}

TEST(HttpParser, ReadsChunks) {
  HttpParser parser({});
  parser.feed(
      post("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: 1\r\n\r\n"));
  ASSERT_EQ(parser.state(), State::kDone);
  EXPECT_EQ(parser.request().body, "abcde");
}

TEST(HttpParser, RefusesWhatCanBeReadInTwoWays) {
  for (const char* headers :
       {"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
        "Content-Length: 1\r\nContent-Length: 1\r\n", "Content-Length: 1\r\nContent-Length: 2\r\n",
        "Content-Length: +1\r\n", "Content-Length: 1, 1\r\n", "Content-Length: -1\r\n",
        "Content-Length: 0x1\r\n", "Content-Length: \r\n", "Content-Length : 1\r\n",
        "A: b\r\n c\r\n", " A: b\r\n", "A\r\n", "A: b\nC: d\r\n", "A: \x01\r\n", "Host: b\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"}) {
    EXPECT_EQ(statusOf(post(headers, "a")), 400) << headers;
  }
  EXPECT_EQ(statusOf(post("Transfer-Encoding: gzip, chunked\r\n", "")), 501);
  EXPECT_EQ(statusOf(post("Transfer-Encoding: xchunked\r\n", "")), 501);
  EXPECT_EQ(statusOf("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(statusOf("GET / HTTP/2.0\r\nHost: a\r\n\r\n"), 505);
  EXPECT_EQ(statusOf("GET  / HTTP/1.1\r\nHost: a\r\n\r\n"), 400);
  EXPECT_EQ(statusOf("\x16\x03\x01 hello\r\n\r\n"), 400);
  for (const char* chunks :
       {"g\r\n", "-1\r\n", "3\nabc\r\n", "2\r\nabc\r\n", "fffffffffffffffff\r\n", "\r\n"})
    EXPECT_EQ(statusOf(post("Transfer-Encoding: chunked\r\n", chunks)), 400) << chunks;
}

TEST(HttpParser, RefusesWhatIsTooLargeBeforeItComes) {
  const HttpLimits limits{.head = 200, .body = 10};
  EXPECT_EQ(statusOf(post("Content-Length: 11\r\n", ""), limits), 413);
  EXPECT_EQ(statusOf(post("Content-Length: 99999999999999999999\r\n", ""), limits), 400);
  EXPECT_EQ(statusOf(post("Transfer-Encoding: chunked\r\n", "8\r\nabcdefgh\r\n8\r\n"), limits),
            413);
  EXPECT_EQ(statusOf("GET /" + std::string(300, 'x'), limits), 431);
  EXPECT_EQ(statusOf(post("Content-Length: 10\r\n", "abc"), limits), -1);
}

TEST(HttpTarget, IsDecoded) {
  std::string out;
  EXPECT_TRUE(decodeTarget("/a%20b%2Fc", out));
  EXPECT_EQ(out, "/a b/c");
  for (const char* wrong : {"%", "%4", "%zz", "%00"})
    EXPECT_FALSE(decodeTarget(wrong, out)) << wrong;
}

}  // namespace
}  // namespace dure::serve
