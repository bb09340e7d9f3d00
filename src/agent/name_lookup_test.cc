#include "agent/name_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "net/asio.h"

namespace dure::agent {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using namespace std::chrono_literals;
using udp = asio::ip::udp;

// Answers as a server of names does: with an address, or that there is no such name.
class TestDns {
 public:
  // How often a name was asked for before, this time included.
  using Knows = std::function<bool(const std::string& name, int times)>;

  explicit TestDns(Knows knows) : knows_(std::move(knows)) {
    receive();
    thread_ = std::jthread([this] { loop_.run(); });
  }
  ~TestDns() { loop_.stop(); }

  NameServer server(std::vector<std::string> search = {}) {
    return {.address = "127.0.0.1",
            .port = socket_.local_endpoint().port(),
            .search = std::move(search)};
  }
  int asked(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return asked_[name];
  }

 private:
  void receive() {
    question_.resize(512);
    socket_.async_receive_from(asio::buffer(question_), from_,
                               [this](const boost::system::error_code& error, std::size_t size) {
                                 if (error) return;
                                 question_.resize(size);
                                 answer();
                                 receive();
                               });
  }

  void answer() {
    std::string name;
    std::size_t at = 12;
    while (question_.at(at) != 0) {
      if (!name.empty()) name += '.';
      const auto length = static_cast<std::size_t>(question_.at(at));
      name += question_.substr(at + 1, length);
      at += length + 1;
    }
    const bool wants_ipv4 = question_.at(at + 2) == 1;
    bool known = false;
    {
      const std::lock_guard lock(mutex_);
      if (wants_ipv4) ++asked_[name];
      known = knows_(name, asked_[name]);
    }
    std::string reply = question_.substr(0, at + 5);
    reply[2] = static_cast<char>(0x81);  // an answer
    reply[3] = static_cast<char>(known ? 0x80 : 0x83);
    for (std::size_t i = 6; i < 12; ++i) reply[i] = 0;
    if (known && wants_ipv4) {
      reply[7] = 1;
      reply += std::string("\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x01\x00\x04\x0a\x00\x00\x01", 16);
    }
    socket_.send_to(asio::buffer(reply), from_);
  }

  const Knows knows_;
  asio::io_context loop_;
  udp::socket socket_{loop_, {asio::ip::make_address("127.0.0.1"), 0}};
  udp::endpoint from_;
  std::string question_;
  std::mutex mutex_;
  std::map<std::string, int> asked_;
  std::jthread thread_;
};

TEST(NameLookup, WaitsUntilTheLastNameIsKnown) {
  TestDns dns([](const std::string& name, int times) { return name == "a.run" || times > 3; });
  EXPECT_THAT(awaitNames({"a.run", "b.run"}, 20s, {}, dns.server()), IsEmpty());
  EXPECT_EQ(dns.asked("a.run"), 1);
  EXPECT_EQ(dns.asked("b.run"), 4);
}

TEST(NameLookup, NamesMayBeInADomainThatIsSearched) {
  TestDns dns([](const std::string& name, int) { return name == "a.run.team.svc"; });
  EXPECT_THAT(awaitNames({"a.run"}, 20s, {}, dns.server({"elsewhere", "team.svc"})), IsEmpty());
}

TEST(NameLookup, TellsWhichNamesAreStillUnknown) {
  TestDns dns([](const std::string& name, int) { return name == "b.run"; });
  EXPECT_THAT(awaitNames({"a.run", "b.run", "c.run"}, 300ms, {}, dns.server()),
              ElementsAre("a.run", "c.run"));
}

TEST(NameLookup, EndsWhenItIsToldTo) {
  TestDns dns([](const std::string&, int) { return false; });
  std::stop_source stop;
  const auto began = std::chrono::steady_clock::now();
  std::jthread waiting(
      [&] { EXPECT_FALSE(awaitNames({"a.run"}, 60s, stop.get_token(), dns.server()).empty()); });
  while (dns.asked("a.run") < 2) std::this_thread::sleep_for(1ms);
  stop.request_stop();
  waiting.join();
  EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
}

}  // namespace
}  // namespace dure::agent
