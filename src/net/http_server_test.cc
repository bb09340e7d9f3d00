#include "net/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>

#include <boost/asio/executor_work_guard.hpp>
#include <map>
#include <thread>

#include "base/fd.h"

namespace dure::net {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// A client that knows nothing but bytes.
class Client {
 public:
  explicit Client(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  // Whether the other side took all of it.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  // One answer, header and body; what came so far if the connection ends or nothing comes.
  std::string answer() {
    while (true) {
      const std::size_t end = buffer_.find("\r\n\r\n");
      const std::size_t field = buffer_.find("Content-Length: ");
      if (end != std::string::npos && field < end) {
        const std::size_t size = end + 4 + std::stoul(buffer_.substr(field + 16));
        if (buffer_.size() >= size) {
          std::string whole = buffer_.substr(0, size);
          buffer_.erase(0, size);
          return whole;
        }
      }
      if (!more()) return std::exchange(buffer_, "");
    }
  }
  std::string ask(const std::string& method, const std::string& path, const std::string& body = "",
                  const std::string& fields = "") {
    send(method + " " + path + " HTTP/1.1\r\nHost: x\r\n" + fields +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body);
    return answer();
  }
  bool closed() { return buffer_.empty() && !more() && !late_; }

 private:
  bool more() {
    char block[4096];
    const ssize_t got = read(fd_.get(), block, sizeof block);
    late_ = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    if (got > 0) buffer_.append(block, static_cast<std::size_t>(got));
    return got > 0;
  }
  Fd fd_;
  std::string buffer_;
  bool late_ = false;
};

// Keeps what is put, as the rendezvous of a framework does.
class HttpServers : public testing::Test {
 protected:
  HttpServers() {
    auto server = HttpServer::listen(loop_, "127.0.0.1", 0, [this](const HttpRequest& request) {
      if (request.method == "PUT") kept_[request.path] = request.body;
      if (request.method == "DELETE") kept_.erase(request.path);
      const auto found = kept_.find(request.path);
      if (found == kept_.end()) return HttpReply{.status = 404, .body = "nothing there"};
      return HttpReply{.type = "text/plain", .body = found->second};
    });
    EXPECT_TRUE(server);
    server_ = *std::move(server);
    port_ = server_->port();
    thread_ = std::jthread([this] { loop_.run(); });
  }
  ~HttpServers() override {
    loop_.stop();
    thread_.join();
  }

  asio::io_context loop_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{loop_.get_executor()};
  std::map<std::string, std::string> kept_;  // of the loop's thread
  std::unique_ptr<HttpServer> server_;
  int port_ = 0;
  std::jthread thread_;
};

TEST_F(HttpServers, WhatIsPutCanBeGotUntilItIsDeleted) {
  Client client(port_);
  EXPECT_THAT(client.ask("GET", "/a/b"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(client.ask("PUT", "/a/b", std::string("by\0tes", 6)), StartsWith("HTTP/1.1 200 "));
  const std::string got = client.ask("GET", "/a/b");
  EXPECT_THAT(got, HasSubstr("Content-Type: text/plain\r\n"));
  EXPECT_THAT(got, testing::EndsWith(std::string("\r\n\r\nby\0tes", 10)));
  EXPECT_THAT(client.ask("DELETE", "/a/b"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(client.ask("GET", "/a/b"), testing::EndsWith("nothing there"));
}

TEST_F(HttpServers, AConnectionIsKeptForManyRequestsUnlessTheClientSaysClose) {
  Client client(port_);
  for (int i = 0; i < 100; ++i) {
    const std::string path = "/" + std::to_string(i);
    EXPECT_THAT(client.ask("PUT", path, path), testing::EndsWith(path));
  }
  EXPECT_THAT(client.ask("GET", "/7", "", "Connection: close\r\n"), testing::EndsWith("/7"));
  EXPECT_TRUE(client.closed());
}

TEST_F(HttpServers, RequestsSentTogetherAreAnsweredInOrder) {
  Client client(port_);
  client.send(
      "PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n1GET /x HTTP/1.1\r\nHost: x\r\n\r\n"
      "GET /y HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(client.answer(), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(client.answer(), testing::EndsWith("\r\n\r\n1"));
  EXPECT_THAT(client.answer(), StartsWith("HTTP/1.1 404 "));
}

TEST_F(HttpServers, SeveralClientsAreServedAtOnce) {
  Client slow(port_);
  slow.send("PUT /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nha");
  Client fast(port_);
  EXPECT_THAT(fast.ask("PUT", "/fast", "f"), StartsWith("HTTP/1.1 200 "));
  slow.send("lf");
  EXPECT_THAT(slow.answer(), testing::EndsWith("half"));
}

TEST_F(HttpServers, AMegabyteIsTakenAndMoreEndsTheConnection) {
  const std::string megabyte(1u << 20u, 'x');
  Client client(port_);
  EXPECT_THAT(client.ask("PUT", "/big", megabyte), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(client.ask("PUT", "/big", megabyte + "x"), testing::Not(HasSubstr(" 200 ")));
  EXPECT_TRUE(client.closed());
  EXPECT_THAT(Client(port_).ask("GET", "/big"), StartsWith("HTTP/1.1 200 ")) << "others go on";
}

TEST_F(HttpServers, AHeaderWithoutEndEndsTheConnection) {
  Client client(port_);
  client.send("GET / HTTP/1.1\r\nX: ");
  const std::string more(1000, 'x');
  for (int i = 0; i < 2000 && client.send(more); ++i) {
  }
  EXPECT_EQ(client.answer(), "");
  EXPECT_TRUE(client.closed());
}

TEST_F(HttpServers, WhatIsNoRequestEndsTheConnection) {
  for (const std::string& garbage :
       {std::string("hello\r\n\r\n"), std::string("\x04\0\0\0\x01", 5) + "xyz\r\n\r\n",
        std::string("GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
        std::string("GET / HTTP/9.9\r\n\r\n"), std::string("\r\n\r\n\0\0", 6)}) {
    Client client(port_);
    client.send(garbage);
    EXPECT_EQ(client.answer(), "") << garbage;
    EXPECT_TRUE(client.closed()) << garbage;
  }
  EXPECT_THAT(Client(port_).ask("GET", "/x"), StartsWith("HTTP/1.1 404 ")) << "others go on";
}

TEST_F(HttpServers, APortInUseIsAnErrorThatNamesIt) {
  const auto second =
      HttpServer::listen(loop_, "127.0.0.1", port_, [](const HttpRequest&) { return HttpReply{}; });
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::kUnavailable);
  EXPECT_EQ(second.error().message(),
            "listen on 127.0.0.1:" + std::to_string(port_) + ": Address already in use");
}

TEST_F(HttpServers, AnAddressThatIsNoneIsAnError) {
  EXPECT_FALSE(
      HttpServer::listen(loop_, "nowhere", 0, [](const HttpRequest&) { return HttpReply{}; }));
}

using tcp = asio::ip::tcp;

TEST(HttpServerEnd, AConnectionThatIsKeptAliveIsNotServedAfterIt) {
  asio::io_context loop(1);
  int calls = 0;
  auto server = *HttpServer::listen(loop, "127.0.0.1", 0, [&](const HttpRequest&) {
    ++calls;
    return HttpReply{};
  });
  tcp::socket client(loop);
  client.connect(tcp::endpoint(asio::ip::make_address("127.0.0.1"),
                               static_cast<unsigned short>(server->port())));
  const std::string ask = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  const auto turn = [&](std::chrono::milliseconds time) {
    loop.restart();
    loop.run_for(time);
  };
  asio::write(client, asio::buffer(ask));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (calls == 0 && std::chrono::steady_clock::now() < deadline)
    turn(std::chrono::milliseconds(5));
  EXPECT_EQ(calls, 1);
  server.reset();
  boost::system::error_code ignored;
  asio::write(client, asio::buffer(ask), ignored);
  turn(std::chrono::milliseconds(100));
  EXPECT_EQ(calls, 1) << "the handler may call what is gone";
}

TEST(HttpServerEnd, APortThatIsNoneIsAnError) {
  asio::io_context loop(1);
  EXPECT_FALSE(HttpServer::listen(loop, "127.0.0.1", 65536 + 28765,
                                  [](const HttpRequest&) { return HttpReply{}; }));
}

}  // namespace
}  // namespace dure::net
