#include "group/leaders.h"

#include <algorithm>
#include <utility>

#include "collective/part.h"
#include "collective/reduce.h"

namespace dure::group {
namespace {

using Pending = Transport::Pending;
using Way = Message::Way;

// Up to here latency counts more than bytes: everyone sends all to everyone.
constexpr std::size_t kDirect = 16u << 10u;
// A broadcast goes from host to host in such pieces; smaller ones from the root to each.
constexpr std::size_t kBroadcastPiece = 1u << 20u;
constexpr std::size_t kBroadcastDirect = 64u << 10u;

// Two hosts send each other everything: that is no more than sending half and half of the result,
// takes one round instead of two, and compressed numbers are rounded once.
bool goesDirect(std::size_t bytes, int hosts) { return hosts == 2 || bytes <= kDirect; }

// The messages of a reduction: `data` of this host is exchanged for the others'.
class Exchange {
 public:
  Exchange(Leaders& leaders, std::span<std::byte> data)
      : leaders_(leaders),
        data_(data),
        direct_(goesDirect(data.size(), leaders.hosts())),
        mine_(direct_ ? collective::Range{0, data.size()}
                      : collective::partOf(data.size(), leaders.index(), leaders.hosts())),
        theirs_(std::make_unique_for_overwrite<std::byte[]>(
            mine_.bytes * static_cast<std::size_t>(leaders.hosts()))) {}

  bool isDirect() const { return direct_; }
  // What this host reduces: all of it, or its part.
  collective::Range mine() const { return mine_; }

  Status begin() {
    std::vector<Message> messages;
    for (int host = 0; host < leaders_.hosts(); ++host) {
      if (host == leaders_.index()) continue;
      const collective::Range part =
          direct_ ? mine_ : collective::partOf(data_.size(), host, leaders_.hosts());
      messages.push_back({Way::kReceive, host, received(host)});
      messages.push_back({Way::kSend, host, data_.subspan(part.offset, part.bytes)});
    }
    return start(messages);
  }
  // Where that part of `host` arrives.
  std::span<std::byte> received(int host) const {
    return {theirs_.get() + static_cast<std::size_t>(host) * mine_.bytes, mine_.bytes};
  }
  std::span<std::byte> own() const { return data_.subspan(mine_.offset, mine_.bytes); }
  // All-gathers the reduced parts.
  Status beginAllGather() {
    std::vector<Message> messages;
    for (int host = 0; host < leaders_.hosts(); ++host) {
      if (host == leaders_.index()) continue;
      const collective::Range part = collective::partOf(data_.size(), host, leaders_.hosts());
      messages.push_back({Way::kReceive, host, data_.subspan(part.offset, part.bytes)});
      messages.push_back({Way::kSend, host, own()});
    }
    return start(messages);
  }
  Status waitForIt() { return pending_ ? std::exchange(pending_, nullptr)->wait() : Status(); }

 private:
  Status start(const std::vector<Message>& messages) {
    auto pending = leaders_.begin(messages);
    if (!pending) return std::move(pending).error();
    pending_ = std::move(*pending);
    return {};
  }

  Leaders& leaders_;
  const std::span<std::byte> data_;
  const bool direct_;
  const collective::Range mine_;
  const std::unique_ptr<std::byte[]> theirs_;
  std::unique_ptr<Pending> pending_;
};

class PlainReducing : public Leaders::Reducing {
 public:
  PlainReducing(Leaders& leaders, std::span<std::byte> data, collective::Number number,
                collective::Reduction reduction)
      : hosts_(leaders.hosts()),
        index_(leaders.index()),
        number_(number),
        reduction_(reduction),
        exchange_(leaders, data) {}

  Status begin() override { return exchange_.begin(); }
  Status proceed() override {
    if (auto status = exchange_.waitForIt(); !status) return status;
    const auto own = exchange_.own();
    std::vector<const std::byte*> sources;
    for (int host = 0; host < hosts_; ++host) {
      sources.push_back((host == index_ ? own : exchange_.received(host)).data());
    }
    dure::collective::reduce(number_, reduction_, own.data(), sources, own.size());
    return exchange_.isDirect() ? Status() : exchange_.beginAllGather();
  }
  Status finish() override { return exchange_.waitForIt(); }

 private:
  const int hosts_;
  const int index_;
  const collective::Number number_;
  const collective::Reduction reduction_;
  Exchange exchange_;
};

class CompressedReducing : public Leaders::Reducing {
 public:
  CompressedReducing(Leaders& leaders, std::span<float> data, std::span<float> own,
                     std::span<float> reduced)
      : hosts_(leaders.hosts()),
        index_(leaders.index()),
        compression_(leaders.compression()),
        data_(data),
        own_residual_(own),
        reduced_residual_(reduced),
        compressed_(data.size()),
        exchange_(leaders, std::as_writable_bytes(std::span(compressed_))) {}

  Status begin() override {
    compress(compression_, data_, own_residual_, compressed_);
    return exchange_.begin();
  }
  Status proceed() override {
    if (auto status = exchange_.waitForIt(); !status) return status;
    const collective::Range mine = exchange_.mine();
    const std::size_t first = mine.offset / sizeof(std::uint16_t);
    const auto sums = data_.subspan(first, mine.bytes / sizeof(std::uint16_t));
    decompress(compression_, numbersOf(0), sums);
    for (int host = 1; host < hosts_; ++host) addCompressed(compression_, numbersOf(host), sums);
    if (exchange_.isDirect()) return {};
    compress(compression_, sums, reduced_residual_,
             std::span(compressed_).subspan(first, sums.size()));
    return exchange_.beginAllGather();
  }
  Status finish() override {
    if (auto status = exchange_.waitForIt(); !status) return status;
    if (!exchange_.isDirect()) decompress(compression_, compressed_, data_);
    return {};
  }

 private:
  std::span<const std::uint16_t> numbersOf(int host) const {
    const auto bytes = host == index_ ? exchange_.own() : exchange_.received(host);
    return {reinterpret_cast<const std::uint16_t*>(bytes.data()),
            bytes.size() / sizeof(std::uint16_t)};
  }

  const int hosts_;
  const int index_;
  const Compression compression_;
  const std::span<float> data_;
  const std::span<float> own_residual_;
  const std::span<float> reduced_residual_;
  std::vector<std::uint16_t> compressed_;
  Exchange exchange_;
};

}  // namespace

Leaders::Leaders(std::unique_ptr<Transport> transport, Compression compression)
    : transport_(std::move(transport)), compression_(compression) {}

Result<std::unique_ptr<Pending>> Leaders::begin(const std::vector<Message>& messages) {
  for (const Message& message : messages) {
    if (message.way == Way::kSend) sent_ += static_cast<std::int64_t>(message.bytes.size());
  }
  return transport_->begin(messages);
}

Status Leaders::exchange(const std::vector<Message>& messages) {
  auto pending = begin(messages);
  if (!pending) return std::move(pending).error();
  return (*pending)->wait();
}

std::unique_ptr<Leaders::Reducing> Leaders::reduce(std::span<std::byte> data,
                                                   collective::Number number,
                                                   collective::Reduction reduction) {
  return std::make_unique<PlainReducing>(*this, data, number, reduction);
}

std::unique_ptr<Leaders::Reducing> Leaders::reduceCompressed(std::span<float> data,
                                                             std::span<float> own,
                                                             std::span<float> reduced) {
  return std::make_unique<CompressedReducing>(*this, data, own, reduced);
}

std::size_t Leaders::reducedSize(std::size_t count) const {
  const std::size_t bytes = count * sizeof(std::uint16_t);
  if (goesDirect(bytes, hosts())) return 0;
  return collective::partOf(bytes, index(), hosts()).bytes / sizeof(std::uint16_t);
}

Status Leaders::broadcast(std::span<std::byte> data, int root) {
  const int after = (index() + 1) % hosts();
  const int before = (index() + hosts() - 1) % hosts();
  if (data.size() <= kBroadcastDirect) {
    std::vector<Message> messages;
    for (int host = 0; host < hosts(); ++host) {
      if (index() == root && host != root) messages.push_back({Way::kSend, host, data});
    }
    if (index() != root) messages.push_back({Way::kReceive, root, data});
    return exchange(messages);
  }
  std::vector<std::unique_ptr<Pending>> sending;
  for (std::size_t offset = 0; offset < data.size(); offset += kBroadcastPiece) {
    const auto piece = data.subspan(offset, std::min(kBroadcastPiece, data.size() - offset));
    if (index() != root) {
      if (auto status = exchange({{Way::kReceive, before, piece}}); !status) return status;
    }
    if (after == root) continue;
    auto pending = begin({{Way::kSend, after, piece}});
    if (!pending) return std::move(pending).error();
    sending.push_back(std::move(*pending));
  }
  for (const auto& pending : sending) {
    if (auto status = pending->wait(); !status) return status;
  }
  return {};
}

Status Leaders::allGather(std::span<std::byte> all, std::size_t part_bytes) {
  const auto part = [&](int host) {
    return all.subspan(static_cast<std::size_t>(host) * part_bytes, part_bytes);
  };
  std::vector<Message> messages;
  for (int host = 0; host < hosts(); ++host) {
    if (host == index()) continue;
    messages.push_back({Way::kReceive, host, part(host)});
    messages.push_back({Way::kSend, host, part(index())});
  }
  return exchange(messages);
}

Status Leaders::barrier() {
  std::vector<std::byte> bytes(static_cast<std::size_t>(hosts()));
  return allGather(bytes, 1);
}

}  // namespace dure::group
