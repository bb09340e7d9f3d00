#include "kube/websocket.h"

#include <gmock/gmock.h>

#include <thread>

#include "kube/test_server.h"

namespace dure::kube {
namespace {

using testing::HasSubstr;

TEST(WebSocketFrameTest, IsReadAsItWasMade) {
  for (const std::size_t size : {0u, 1u, 125u, 126u, 65535u, 65536u, 100000u}) {
    std::string payload(size, 'x');
    for (std::size_t i = 0; i < size; ++i) payload[i] = static_cast<char>(i * 7);
    const std::string frame = makeFrame(2, payload, 0xDEADBEEF);
    const auto read = parseFrame(frame + "rest", 1u << 20u);
    ASSERT_TRUE(read && *read) << size;
    EXPECT_EQ((*read)->payload, payload);
    EXPECT_EQ((*read)->length, frame.size());
    EXPECT_EQ((*read)->opcode, 2);
    EXPECT_TRUE((*read)->last);
  }
}

TEST(WebSocketFrameTest, WaitsUntilItIsWhole) {
  const std::string frame = makeFrame(2, std::string(300, 'x'), 1);
  for (std::size_t length = 0; length < frame.size(); ++length) {
    const auto read = parseFrame(std::string_view(frame).substr(0, length), 1u << 20u);
    ASSERT_TRUE(read);
    EXPECT_FALSE(*read) << length;
  }
}

TEST(WebSocketFrameTest, RefusesWhatCannotBe) {
  EXPECT_FALSE(parseFrame(std::string("\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff", 10), 1000));
  EXPECT_FALSE(parseFrame(std::string("\xC2\x01x", 3), 1000));
}

TEST(WebSocketTest, SaysWhatTheServerRefuses) {
  TestServer server([](const auto&, const auto& send) {
    send(TestServer::answer(403, R"({"message": "pods \"b\" is forbidden"})"));
    return true;
  });
  const auto open = WebSocket::open({.server = server.url()}, {}, server.url() + "/exec", "v4",
                                    {"Authorization: Bearer t"}, Duration{2000});
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().code(), Code::kDenied);
  EXPECT_THAT(open.error().message(), HasSubstr("is forbidden"));
  EXPECT_THAT(server.asked()[0].headers, HasSubstr("Authorization: Bearer t"));
  EXPECT_EQ(server.asked()[0].target, "/exec");
}

TEST(WebSocketTest, AServerThatSpeaksSomethingElseIsLeft) {
  TestServer server([](const auto&, const auto& send) {
    send("HTTP/1.1 101 X\r\nSec-WebSocket-Accept: nonsense\r\n\r\n");
    return true;
  });
  const auto open = WebSocket::open({.server = server.url()}, {}, server.url() + "/exec", "v4", {},
                                    Duration{2000});
  ASSERT_FALSE(open);
  EXPECT_THAT(open.error().message(), HasSubstr("does not speak v4"));
}

TEST(WebSocketTest, AServerThatSaysNothingIsNotWaitedForForever) {
  TestServer server([](const auto&, const auto&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    return false;
  });
  const auto open = WebSocket::open({.server = server.url()}, {}, server.url() + "/exec", "v4", {},
                                    Duration{200});
  ASSERT_FALSE(open);
  EXPECT_THAT(open.error().message(), HasSubstr("does not answer"));
}

}  // namespace
}  // namespace dure::kube
