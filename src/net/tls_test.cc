#include "net/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "net/connection.h"

namespace dure::net {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Local = asio::local::stream_protocol;

class Tls : public testing::Test {
 protected:
  struct End {
    std::shared_ptr<Connection> connection;
    std::vector<std::string> heard;
    std::vector<std::string> whys;
  };

  Tls() { asio::local::connect_pair(client_socket_, server_socket_); }
  ~Tls() override {
    for (End* end : {&client_, &server_}) {
      if (end->connection) end->connection->close();
    }
  }

  void start(End& end, Local::socket socket, const std::string& secret, TlsSide side) {
    end.connection = std::make_shared<Connection>(Connection::Socket(std::move(socket)));
    end.connection->encrypt(secret, side);
    end.connection->start(
        {.frame = [&end](const Frame& frame) { end.heard.emplace_back(frame.payload); },
         .closed = [&end](const std::string& why) { end.whys.push_back(why); },
         .drained = {}});
  }

  bool until(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition() && std::chrono::steady_clock::now() < deadline) {
      loop_.restart();
      loop_.run_one_for(std::chrono::milliseconds(20));
    }
    return condition();
  }

  asio::io_context loop_{1};
  Local::socket client_socket_{loop_};
  Local::socket server_socket_{loop_};
  End client_;
  End server_;
};

TEST_F(Tls, WhoKnowsTheSecretIsUnderstood) {
  start(client_, std::move(client_socket_), "the secret", TlsSide::kClient);
  start(server_, std::move(server_socket_), "the secret", TlsSide::kServer);
  client_.connection->send(1, "hello");
  server_.connection->send(1, "welcome");
  EXPECT_TRUE(until([&] { return !client_.heard.empty() && !server_.heard.empty(); }));
  EXPECT_THAT(server_.heard, ElementsAre("hello"));
  EXPECT_THAT(client_.heard, ElementsAre("welcome"));
}

TEST_F(Tls, AnotherSecretIsRefusedByBoth) {
  start(client_, std::move(client_socket_), "the secret", TlsSide::kClient);
  start(server_, std::move(server_socket_), "another", TlsSide::kServer);
  client_.connection->send(1, "hello");
  server_.connection->send(1, "welcome");
  EXPECT_TRUE(until([&] { return !client_.whys.empty() && !server_.whys.empty(); }));
  EXPECT_THAT(client_.heard, IsEmpty());
  EXPECT_THAT(server_.heard, IsEmpty());
}

// A context with a certificate that its owner has signed himself.
asio::ssl::context stranger() {
  asio::ssl::context context(asio::ssl::context::tlsv13);
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), 0);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), 3600);
  X509_set_pubkey(certificate.get(), key.get());
  X509_sign(certificate.get(), key.get(), EVP_sha256());
  SSL_CTX_use_certificate(context.native_handle(), certificate.get());
  SSL_CTX_use_PrivateKey(context.native_handle(), key.get());
  return context;
}

TEST_F(Tls, ACertificateInsteadOfTheSecretIsNotSpokenTo) {
  asio::ssl::context context = stranger();
  asio::ssl::stream<Local::socket> server(std::move(server_socket_), context);
  std::string read(1000, '\0');
  std::size_t got = 0;
  server.async_handshake(
      asio::ssl::stream_base::server, [&](const boost::system::error_code& error) {
        if (error) return;
        server.async_read_some(asio::buffer(read), [&](const boost::system::error_code&,
                                                       std::size_t size) { got = size; });
      });
  start(client_, std::move(client_socket_), "the secret", TlsSide::kClient);
  client_.connection->send(1, "hello");
  EXPECT_TRUE(until([&] { return !client_.whys.empty(); }));
  EXPECT_THAT(client_.whys, ElementsAre(HasSubstr("does not know the secret")));
  EXPECT_TRUE(until([&] { return loop_.stopped(); }));
  EXPECT_EQ(got, 0U);
}

}  // namespace
}  // namespace dure::net
