#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"

namespace dure::group {

// Bytes that go to another host, or come from it.
struct Message {
  enum class Way { kSend, kReceive };
  Way way;
  int peer;
  std::span<std::byte> bytes;  // a send only reads them
};

// How the leaders of the hosts reach each other. Used by one thread.
class Transport {
 public:
  class Pending {
   public:
    virtual ~Pending() = default;
    // Returns when all messages of it are sent and received; Unavailable if a peer is gone.
    virtual Status wait() = 0;
  };

  virtual ~Transport() = default;
  virtual int index() const = 0;  // of this host
  virtual int hosts() const = 0;
  // Begins to send and receive. What one end sends, the other receives in the same order of calls
  // and with the same size. The bytes stay where they are until the waiting is over or the
  // transport is destroyed.
  virtual Result<std::unique_ptr<Pending>> begin(const std::vector<Message>& messages) = 0;
};

}  // namespace dure::group
