#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "collective/number.h"
#include "group/gradient_compression.h"
#include "group/transport.h"

namespace dure::group {

// What the leaders of the hosts compute together. Every leader calls the same in the same order.
// Reductions are in the order of the hosts and the same bits everywhere.
class Leaders {
 public:
  Leaders(std::unique_ptr<Transport> transport, Compression compression);

  int index() const { return transport_->index(); }
  int hosts() const { return transport_->hosts(); }
  Compression compression() const { return compression_; }

  // A reduction of some bytes that is under way: begun, then continued, then finished, each by all
  // leaders in turn. Several may be between these at a time, so that the network is never idle.
  class Reducing {
   public:
    virtual ~Reducing() = default;
    virtual Status begin() = 0;
    virtual Status proceed() = 0;
    virtual Status finish() = 0;
  };

  // `data` becomes the reduction of all leaders'. It stays where it is until that is finished.
  std::unique_ptr<Reducing> reduce(std::span<std::byte> data, collective::Number number,
                                   collective::Reduction reduction);
  // The sum, compressed on the network. Keeps the residuals in `own`, as long as the data, and in
  // `reduced`, as long as reducedSize() of it.
  std::unique_ptr<Reducing> reduceCompressed(std::span<float> data, std::span<float> own,
                                             std::span<float> reduced);
  std::size_t reducedSize(std::size_t count) const;

  Status broadcast(std::span<std::byte> data, int root);
  // Fills `all`, which has `part_bytes` for each leader; this leader's part is there already.
  Status allGather(std::span<std::byte> all, std::size_t part_bytes);
  Status barrier();

  // Begins, and counts what is sent.
  Result<std::unique_ptr<Transport::Pending>> begin(const std::vector<Message>& messages);
  Status exchange(const std::vector<Message>& messages);
  std::int64_t bytesSent() const { return sent_; }

 private:
  std::unique_ptr<Transport> transport_;
  Compression compression_;
  std::int64_t sent_ = 0;
};

}  // namespace dure::group
