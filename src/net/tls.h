#pragma once

#include <memory>
#include <string>

#include <boost/asio/ssl/context.hpp>

#include "net/asio.h"
#include "net/tls_side.h"

namespace dure::net {

// TLS 1.3 between two ends that know the same secret: each proves to the other that it does, and
// nobody else can listen or speak. There are no certificates, so nothing has to be issued, trusted
// or renewed.
std::shared_ptr<asio::ssl::context> tlsWithSecret(const std::string& secret);

}  // namespace dure::net
