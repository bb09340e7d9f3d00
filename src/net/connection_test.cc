#include "net/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <functional>
#include <vector>

namespace dure::net {
namespace {

using testing::ElementsAre;
using tcp = asio::ip::tcp;
using Ends = std::pair<Connection::Socket, Connection::Socket>;

Ends unixEnds(asio::io_context& loop) {
  asio::local::stream_protocol::socket a(loop);
  asio::local::stream_protocol::socket b(loop);
  asio::local::connect_pair(a, b);
  return {std::move(a), std::move(b)};
}

Ends tcpEnds(asio::io_context& loop) {
  tcp::acceptor acceptor(loop, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0));
  tcp::socket a(loop);
  a.connect(acceptor.local_endpoint());
  tcp::socket b = acceptor.accept();
  return {std::move(a), std::move(b)};
}

// One end and what has come to it.
struct End {
  explicit End(Connection::Socket socket)
      : connection(std::make_shared<Connection>(std::move(socket))) {}
  void start() {
    connection->start({.frame =
                           [this](const Frame& frame) {
                             bytes += frame.payload.size();
                             frames.emplace_back(frame.payload.substr(0, 20));
                           },
                       .closed = [this](const std::string& why) { whys.push_back(why); },
                       .drained = [this] { ++drained; }});
  }
  // A handler must not be called when what it tells is gone.
  ~End() { connection->close(); }

  std::shared_ptr<Connection> connection;
  std::vector<std::string> frames;
  std::size_t bytes = 0;
  std::vector<std::string> whys;
  int drained = 0;
};

class Connections : public testing::TestWithParam<Ends (*)(asio::io_context&)> {
 protected:
  // Runs the loop until `condition` holds; false if it does not in good time.
  bool until(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition() && std::chrono::steady_clock::now() < deadline) {
      loop_.restart();
      loop_.run_one_for(std::chrono::milliseconds(20));
    }
    return condition();
  }
  // Lets everything happen that is ready to.
  void settle() {
    loop_.restart();
    while (loop_.poll() > 0) {
    }
  }

  asio::io_context loop_{1};
  Ends ends_ = GetParam()(loop_);
  End a_{std::move(ends_.first)};
  End b_{std::move(ends_.second)};
};
INSTANTIATE_TEST_SUITE_P(Unix, Connections, testing::Values(unixEnds));
INSTANTIATE_TEST_SUITE_P(Tcp, Connections, testing::Values(tcpEnds));

TEST_P(Connections, WhatIsSentArrivesInOrderBothWays) {
  a_.start();
  b_.start();
  std::vector<std::string> sent;
  for (int i = 0; i < 1000; ++i) sent.push_back(std::to_string(i));
  for (const std::string& text : sent) {
    a_.connection->send(1, text);
    b_.connection->send(2, text);
  }
  EXPECT_TRUE(until([&] { return a_.frames.size() == 1000 && b_.frames.size() == 1000; }));
  EXPECT_EQ(a_.frames, sent);
  EXPECT_EQ(b_.frames, sent);
  EXPECT_TRUE(a_.whys.empty());
  EXPECT_TRUE(until([&] { return a_.connection->queued() == 0; }));
}

TEST_P(Connections, ASenderFeelsBackPressureUntilTheOtherReads) {
  a_.start();
  const std::string block(64u << 10u, 'x');
  // Until the system takes no more.
  std::size_t sent = 0;
  while (a_.connection->queued() <= Connection::kHighWater) {
    a_.connection->send(1, block);
    sent += block.size();
    settle();
    ASSERT_LT(sent, 256u << 20u);
  }
  EXPECT_EQ(a_.drained, 0);
  EXPECT_LE(a_.connection->queued(), Connection::kHighWater + block.size() + kFrameHeader);
  b_.start();
  EXPECT_TRUE(until([&] { return b_.bytes == sent; }));
  EXPECT_EQ(a_.drained, 1);
  EXPECT_TRUE(until([&] { return a_.connection->queued() == 0; }));
}

TEST_P(Connections, AGreatVolumeGoesThroughWithAShortQueue) {
  constexpr std::size_t kTotal = 64u << 20u;
  const std::string block(100'000, 'x');
  std::size_t sent = 0;
  std::size_t longest = 0;
  const auto fill = [&] {
    while (sent < kTotal && a_.connection->queued() <= Connection::kHighWater) {
      a_.connection->send(1, block);
      sent += block.size();
      longest = std::max(longest, a_.connection->queued());
    }
  };
  a_.connection->start({.frame = {}, .closed = {}, .drained = fill});
  b_.start();
  fill();
  EXPECT_TRUE(until([&] { return sent >= kTotal && b_.bytes == sent; }));
  EXPECT_LE(longest, Connection::kHighWater + block.size() + kFrameHeader);
}

TEST_P(Connections, ThePeerThatClosesIsToldOnce) {
  a_.start();
  b_.start();
  b_.connection->send(1, "last words");
  settle();
  b_.connection->close();
  EXPECT_TRUE(until([&] { return !a_.whys.empty(); }));
  EXPECT_THAT(a_.frames, ElementsAre("last words"));
  EXPECT_THAT(a_.whys, ElementsAre("the connection was closed"));
  a_.connection->send(1, "to nobody");
  a_.connection->finish();
  a_.connection->close();
  settle();
  EXPECT_EQ(a_.whys.size(), 1u);
  EXPECT_TRUE(b_.whys.empty()) << "whoever closes knows it";
}

TEST_P(Connections, WhatIsNoFrameClosesWithTheReason) {
  a_.connection->setLimit(100);
  a_.start();
  b_.start();
  b_.connection->send(1, "fits");
  b_.connection->send(1, std::string(100, 'x'));
  b_.connection->send(1, "never seen");
  EXPECT_TRUE(until([&] { return !a_.whys.empty() && !b_.whys.empty(); }));
  EXPECT_THAT(a_.frames, ElementsAre("fits"));
  EXPECT_THAT(a_.whys, ElementsAre(testing::HasSubstr("101 bytes")));
}

TEST_P(Connections, FinishSendsEverythingFirst) {
  a_.start();
  const std::string block(100'000, 'x');
  for (int i = 0; i < 100; ++i) a_.connection->send(1, block);
  a_.connection->finish();
  a_.connection->send(1, "too late");
  b_.start();
  EXPECT_TRUE(until([&] { return !b_.whys.empty(); }));
  EXPECT_EQ(b_.bytes, 100 * block.size());
  EXPECT_TRUE(a_.whys.empty());
  EXPECT_EQ(a_.drained, 0) << "no handler is called after finish()";
}

TEST_P(Connections, FinishWithNothingToSendClosesAtOnce) {
  a_.start();
  b_.start();
  a_.connection->finish();
  EXPECT_TRUE(until([&] { return !b_.whys.empty(); }));
  EXPECT_TRUE(a_.whys.empty());
}

TEST_P(Connections, AfterFinishWhatComesIsNotHandedOn) {
  const std::string block(8u << 20u, 'x');
  a_.start();
  // More than the system takes while nobody reads, so that a is still busy.
  for (int i = 0; i < 4; ++i) a_.connection->send(1, block.substr(0, kMaxFrame - 1));
  settle();
  a_.connection->finish();
  b_.connection->send(1, "not wanted");
  settle();
  EXPECT_TRUE(a_.frames.empty());
}

TEST_P(Connections, AFrameHandlerMayClose) {
  int seen = 0;
  a_.connection->start({.frame =
                            [&](const Frame&) {
                              ++seen;
                              a_.connection->close();
                            },
                        .closed = [&](const std::string&) { ADD_FAILURE() << "closed it itself"; },
                        .drained = {}});
  b_.start();
  for (int i = 0; i < 10; ++i) b_.connection->send(1, "x");
  EXPECT_TRUE(until([&] { return !b_.whys.empty(); }));
  EXPECT_EQ(seen, 1);
}

TEST_P(Connections, AFrameHandlerMayFinishAfterItsAnswer) {
  int seen = 0;
  a_.connection->start({.frame =
                            [&](const Frame&) {
                              ++seen;
                              a_.connection->send(2, "no");
                              a_.connection->finish();
                            },
                        .closed = {},
                        .drained = {}});
  b_.start();
  b_.connection->send(1, "may I?");
  EXPECT_TRUE(until([&] { return !b_.whys.empty(); }));
  EXPECT_THAT(b_.frames, ElementsAre("no"));
  EXPECT_EQ(seen, 1);
}

TEST_P(Connections, ADrainedHandlerMayClose) {
  bool drained = false;
  a_.connection->start({.frame = {}, .closed = {}, .drained = [&] {
                          drained = true;
                          a_.connection->close();
                        }});
  while (a_.connection->queued() <= Connection::kHighWater) {
    a_.connection->send(1, std::string(100'000, 'x'));
  }
  b_.start();
  EXPECT_TRUE(until([&] { return !b_.whys.empty(); }));
  EXPECT_TRUE(drained);
}

TEST_P(Connections, AClosedHandlerMayLetGoOfTheConnection) {
  // The last reference is in the handler's hands, and it holds something that holds it.
  auto connection = std::move(a_.connection);
  a_.connection = std::make_shared<Connection>(Connection::Socket(loop_));
  const std::weak_ptr<Connection> seen = connection;
  bool told = false;
  connection->start({.frame = {},
                     .closed =
                         [&, itself = connection](const std::string&) {
                           itself->close();
                           connection.reset();
                           told = true;
                         },
                     .drained = {}});
  b_.start();
  b_.connection->close();
  EXPECT_TRUE(until([&] { return told; }));
  settle();
  EXPECT_TRUE(seen.expired());
}

TEST_P(Connections, AfterCloseNoHandlerIsCalledAndAllIsLetGo) {
  const auto held = std::make_shared<int>(1);
  a_.connection->start({.frame = [held](const Frame&) { ADD_FAILURE() << "a frame"; },
                        .closed = [held](const std::string&) { ADD_FAILURE() << "an end"; },
                        .drained = [held] { ADD_FAILURE() << "drained"; }});
  b_.start();
  for (int i = 0; i < 50; ++i) a_.connection->send(1, std::string(100'000, 'x'));
  b_.connection->send(1, "x");
  a_.connection->close();
  settle();
  EXPECT_EQ(held.use_count(), 1);
}

TEST(ConnectionAddress, IsTheOneOfThisConnection) {
  asio::io_context loop(1);
  auto [a, b] = tcpEnds(loop);
  const auto near = std::make_shared<Connection>(std::move(a));
  EXPECT_EQ(near->localAddress(), "127.0.0.1");
  EXPECT_EQ(near->peerAddress(), "127.0.0.1");
  near->close();
  EXPECT_EQ(near->peerAddress(), "");
  auto [c, d] = unixEnds(loop);
  EXPECT_EQ(std::make_shared<Connection>(std::move(c))->localAddress(), "");
}

TEST(ConnectionEnd, FinishSendsEverythingAlsoToAPeerThatIsTalking) {
  asio::io_context loop(1);
  tcp::acceptor acceptor(loop, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0));
  tcp::socket near(loop);
  near.open(tcp::v4());
  near.set_option(asio::socket_base::send_buffer_size(1 << 20));
  near.connect(acceptor.local_endpoint());
  tcp::socket peer = acceptor.accept();
  constexpr std::size_t kSize = 400'000;
  const auto connection = std::make_shared<Connection>(Connection::Socket(std::move(near)));
  connection->start({});
  connection->send(1, std::string(kSize, 'x'));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (connection->queued() > 0 && std::chrono::steady_clock::now() < deadline) {
    loop.restart();
    loop.run_one_for(std::chrono::milliseconds(10));
  }
  ASSERT_EQ(connection->queued(), 0u) << "the system has taken it; the peer has not read it";
  asio::write(peer, asio::buffer("a heartbeat", 11));
  connection->finish();
  std::string got(kSize + kFrameHeader, '\0');
  boost::system::error_code error;
  EXPECT_EQ(asio::read(peer, asio::buffer(got), error), got.size()) << error.message();
}

}  // namespace
}  // namespace dure::net
