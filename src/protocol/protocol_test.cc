#include "protocol/protocol.h"

#include <gtest/gtest.h>

namespace dure::protocol {
namespace {

TEST(Protocol, EveryMessageComesOutAsItWentIn) {
  const auto hello = decode<Hello>(encode(Hello{
      .secret = "s", .run = "r.1", .generation = 2, .task = "worker-0", .host = "h", .pid = 3}));
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->version, kProtocolVersion);
  EXPECT_EQ(hello->task, "worker-0");
  const auto unable = decode<Unable>(encode(Unable{.reason = "disk full"}));
  ASSERT_TRUE(unable);
  EXPECT_EQ(unable->reason, "disk full");
  const auto names = decode<Names>(encode(Names{.names = {"a.b", "c"}, .patience_ms = 5}));
  ASSERT_TRUE(names);
  EXPECT_EQ(names->names, (std::vector<std::string>{"a.b", "c"}));
  EXPECT_EQ(names->patience_ms, 5);
  const auto start = decode<Start>(encode(Start{.workdir = "/w",
                                                .files = {{"a", "b"}},
                                                .env = {{"K", "V"}},
                                                .processes = {{.argv = {"x", ""}, .env = {}}}}));
  ASSERT_TRUE(start);
  EXPECT_EQ(start->processes[0].argv[1], "");
  EXPECT_EQ(start->files.at("a"), "b");
  const auto exited = decode<Exited>(encode(Exited{.process = 1,
                                                   .status = {2, 9},
                                                   .at_ms = 5,
                                                   .asked = true,
                                                   .tail = "t",
                                                   .errors = "e",
                                                   .reported = true}));
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->status, (ExitStatus{2, 9}));
  EXPECT_TRUE(exited->asked);
  EXPECT_TRUE(exited->reported);
  EXPECT_EQ(exited->errors, "e");
}

TEST(Protocol, BytesThatAreNoTextAreReplacedNotRefused) {
  const auto exited = decode<Exited>(encode(Exited{.tail = "caf\xe9"}));
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->tail, "caf\xEF\xBF\xBD");
}

TEST(Protocol, WhatIsNoMessageIsAnError) {
  for (const char* text : {"", "{", "[]", "{}", "7", R"({"secret": 1})", "\xff"}) {
    EXPECT_FALSE(decode<Hello>(text)) << text;
    EXPECT_FALSE(decode<Names>(text)) << text;
    EXPECT_FALSE(decode<Start>(text)) << text;
    EXPECT_FALSE(decode<Exited>(text)) << text;
  }
}

TEST(Protocol, AChunkCarriesItsNumberAndItsBytes) {
  const std::string bytes("a\0b\n", 4);
  const std::string payload = encodeChunk(-5, bytes);
  const auto chunk = decodeChunk(payload);
  ASSERT_TRUE(chunk);
  EXPECT_EQ(chunk->number, -5);
  EXPECT_EQ(chunk->bytes, bytes);
  EXPECT_FALSE(decodeChunk("1234567"));
}

}  // namespace
}  // namespace dure::protocol
