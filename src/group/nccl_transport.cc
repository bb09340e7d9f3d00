#include "group/nccl_transport.h"

#if defined(USE_C10D_NCCL) && __has_include(<torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>)
#include <torch/cuda.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <exception>
#include <utility>

namespace dure::group {
namespace {

using c10d::ProcessGroupNCCL;

Error unreachable(const std::exception& exception) {
  const std::string text = exception.what();
  return Error(Code::kUnavailable,
               "another host is gone or does not answer (" + text.substr(0, text.find('\n')) + ")");
}

at::Tensor inThisMemory(const Message& message) {
  return at::from_blob(message.bytes.data(), {static_cast<std::int64_t>(message.bytes.size())},
                       at::TensorOptions(at::kByte));
}

class NcclPending : public Transport::Pending {
 public:
  struct One {
    Message message;
    at::Tensor on_device;
    c10::intrusive_ptr<c10d::Work> work;
  };
  explicit NcclPending(std::vector<One> all) : all_(std::move(all)) {}

  Status wait() override {
    try {
      for (const One& one : all_) {
        one.work->wait();
        if (one.message.way == Message::Way::kReceive) {
          inThisMemory(one.message).copy_(one.on_device);
        }
      }
    } catch (const std::exception& exception) {
      return unreachable(exception);
    }
    return {};
  }

 private:
  std::vector<One> all_;
};

class NcclTransport : public Transport {
 public:
  explicit NcclTransport(c10::intrusive_ptr<ProcessGroupNCCL> group) : group_(std::move(group)) {}

  int index() const override { return group_->getRank(); }
  int hosts() const override { return group_->getSize(); }

  Result<std::unique_ptr<Pending>> begin(const std::vector<Message>& messages) override {
    std::vector<NcclPending::One> all;
    try {
      // As one, since the two ends would else wait for each other's first.
      ProcessGroupNCCL::groupStart();
      for (const Message& message : messages) {
        if (message.bytes.empty()) continue;
        const bool sends = message.way == Message::Way::kSend;
        std::vector<at::Tensor> tensor{
            sends ? inThisMemory(message).to(at::kCUDA)
                  : at::empty_like(inThisMemory(message), at::TensorOptions(at::kCUDA))};
        auto work =
            sends ? group_->send(tensor, message.peer, 0) : group_->recv(tensor, message.peer, 0);
        all.push_back({message, tensor[0], std::move(work)});
      }
      ProcessGroupNCCL::groupEnd();
    } catch (const std::exception& exception) {
      return unreachable(exception);
    }
    return std::unique_ptr<Pending>(new NcclPending(std::move(all)));
  }

 private:
  const c10::intrusive_ptr<ProcessGroupNCCL> group_;
};

}  // namespace

Result<std::unique_ptr<Transport>> connectNccl(const c10::intrusive_ptr<c10d::Store>& store,
                                               int index, int hosts, Duration timeout) {
  if (!torch::cuda::is_available()) return Error(Code::kInvalid, "this host has no GPU for NCCL");
  try {
    auto options = ProcessGroupNCCL::Options::create();
    options->timeout = timeout;
    return std::unique_ptr<Transport>(new NcclTransport(
        c10::make_intrusive<ProcessGroupNCCL>(store, index, hosts, std::move(options))));
  } catch (const std::exception& exception) {
    return unreachable(exception);
  }
}

}  // namespace dure::group

#else

namespace dure::group {

Result<std::unique_ptr<Transport>> connectNccl(const c10::intrusive_ptr<c10d::Store>&, int, int,
                                               Duration) {
  return Error(Code::kInvalid, "torch was built without NCCL");
}

}  // namespace dure::group

#endif
