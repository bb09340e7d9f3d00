#pragma once

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace dure::group {

// How a store is opened whose server is rank 0. The libtorch of Debian 13 asks for libuv by
// default, without which it was built; older ones have no such choice, which only a template can
// find out.
template <typename Options = c10d::TCPStoreOptions>
Options storeOptions(std::uint16_t port, int rank) {
  Options options;
  options.port = port;
  options.isServer = rank == 0;
  options.waitWorkers = false;
  if constexpr (requires { options.useLibUV; }) options.useLibUV = false;
  return options;
}

}  // namespace dure::group
