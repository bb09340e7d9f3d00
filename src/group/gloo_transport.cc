#include "group/gloo_transport.h"

#include <exception>
#include <utility>

namespace dure::group {
namespace {

using c10d::ProcessGroupGloo;

// Gloo throws if a peer is gone or does not come, in words for its makers.
Error unreachable(const std::exception& exception) {
  const std::string text = exception.what();
  return Error(Code::kUnavailable,
               "another host is gone or does not answer (" + text.substr(0, text.find('\n')) + ")");
}

class GlooPending : public Transport::Pending {
 public:
  GlooPending(std::vector<c10::intrusive_ptr<c10d::Work>> works, Duration timeout)
      : works_(std::move(works)), timeout_(timeout) {}

  Status wait() override {
    try {
      for (const auto& work : works_) work->wait(timeout_);
    } catch (const std::exception& exception) {
      return unreachable(exception);
    }
    return {};
  }

 private:
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
  const Duration timeout_;
};

class GlooTransport : public Transport {
 public:
  GlooTransport(c10::intrusive_ptr<ProcessGroupGloo> group, Duration timeout)
      : group_(std::move(group)),
        timeout_(timeout),
        sent_(static_cast<std::size_t>(group_->getSize())),
        received_(static_cast<std::size_t>(group_->getSize())) {}

  int index() const override { return group_->getRank(); }
  int hosts() const override { return group_->getSize(); }

  Result<std::unique_ptr<Pending>> begin(const std::vector<Message>& messages) override {
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    try {
      for (const Message& message : messages) {
        if (message.bytes.empty()) continue;
        std::vector<at::Tensor> tensor{
            at::from_blob(message.bytes.data(), {static_cast<std::int64_t>(message.bytes.size())},
                          at::TensorOptions(at::kByte))};
        const auto peer = static_cast<std::size_t>(message.peer);
        works.push_back(message.way == Message::Way::kSend
                            ? group_->send(tensor, message.peer, nextTag(sent_[peer]))
                            : group_->recv(tensor, message.peer, nextTag(received_[peer])));
      }
    } catch (const std::exception& exception) {
      return unreachable(exception);
    }
    return std::unique_ptr<Pending>(new GlooPending(std::move(works), timeout_));
  }

 private:
  // Both ends number their messages, so that none is taken for another.
  static int nextTag(int& last) { return last = last == kLastTag ? 0 : last + 1; }

  static constexpr int kLastTag = 1 << 30;

  const c10::intrusive_ptr<ProcessGroupGloo> group_;
  const Duration timeout_;
  std::vector<int> sent_;  // per peer: the number of the last message
  std::vector<int> received_;
};

}  // namespace

Result<std::unique_ptr<Transport>> connectGloo(const c10::intrusive_ptr<c10d::Store>& store,
                                               int index, int hosts, const std::string& address,
                                               const GlooTimeouts& timeouts) {
  try {
    auto options = ProcessGroupGloo::Options::create(timeouts.connect);
    options->devices.push_back(address.empty()
                                   ? ProcessGroupGloo::createDefaultDevice()
                                   : ProcessGroupGloo::createDeviceForHostname(address));
    return std::unique_ptr<Transport>(new GlooTransport(
        c10::make_intrusive<ProcessGroupGloo>(store, index, hosts, std::move(options)),
        timeouts.message));
  } catch (const std::exception& exception) {
    return unreachable(exception);
  }
}

}  // namespace dure::group
