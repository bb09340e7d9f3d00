#include "net/tls.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <cstring>

namespace dure::net {
namespace {

constexpr const char* kIdentity = "dure";

// The secret lies with the context and goes with it.
int secretIndex() {
  static const int index = SSL_CTX_get_ex_new_index(
      0, nullptr, nullptr, nullptr, [](void*, void* secret, CRYPTO_EX_DATA*, int, long, void*) {
        delete static_cast<std::string*>(secret);
      });
  return index;
}

unsigned int giveSecret(SSL* connection, unsigned char* key, unsigned int size) {
  const auto* secret =
      static_cast<std::string*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(connection), secretIndex()));
  if (secret == nullptr || secret->empty() || secret->size() > size) return 0;
  std::copy(secret->begin(), secret->end(), key);
  return static_cast<unsigned int>(secret->size());
}

unsigned int asClient(SSL* connection, const char*, char* identity, unsigned int identity_size,
                      unsigned char* key, unsigned int size) {
  if (std::strlen(kIdentity) >= identity_size) return 0;
  std::memcpy(identity, kIdentity, std::strlen(kIdentity) + 1);
  return giveSecret(connection, key, size);
}

unsigned int asServer(SSL* connection, const char* identity, unsigned char* key,
                      unsigned int size) {
  if (identity == nullptr || std::strcmp(identity, kIdentity) != 0) return 0;
  return giveSecret(connection, key, size);
}

}  // namespace

std::shared_ptr<asio::ssl::context> tlsWithSecret(const std::string& secret) {
  auto tls = std::make_shared<asio::ssl::context>(asio::ssl::context::tlsv13);
  SSL_CTX* raw = tls->native_handle();
  SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION);
  // A secret of this kind goes with the ciphers that hash with SHA-256.
  SSL_CTX_set_ciphersuites(raw, "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256");
  SSL_CTX_set_ex_data(raw, secretIndex(), new std::string(secret));
  SSL_CTX_set_psk_client_callback(raw, asClient);
  SSL_CTX_set_psk_server_callback(raw, asServer);
  // Nothing is resumed: every connection proves it anew.
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(raw, 0);
  return tls;
}

}  // namespace dure::net
