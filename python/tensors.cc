#include "tensors.h"

#include <algorithm>

namespace dure::python {
namespace {

constexpr std::int64_t kSmall = 16'384;
constexpr std::size_t kMostStreams = 256;

collective::Number numberOf(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return collective::Number::kFloat32;
    case at::kDouble:
      return collective::Number::kFloat64;
    case at::kHalf:
      return collective::Number::kFloat16;
    case at::kBFloat16:
      return collective::Number::kBFloat16;
    case at::kChar:
      return collective::Number::kInt8;
    case at::kByte:
    case at::kBool:
      return collective::Number::kUInt8;
    case at::kShort:
      return collective::Number::kInt16;
    case at::kInt:
      return collective::Number::kInt32;
    case at::kLong:
      return collective::Number::kInt64;
    default:
      TORCH_CHECK(false, "dure: no reduction of tensors of ", type);
  }
}

}  // namespace

Flat::Flat(const at::Tensor& tensor) : tensor_(tensor), flat_(tensor) {
  TORCH_CHECK(tensor.layout() == at::kStrided, "dure: only dense tensors");
  if (!flat_.is_cpu()) flat_ = flat_.cpu();
  if (!flat_.is_contiguous()) flat_ = flat_.contiguous();
}

std::span<std::byte> Flat::bytes() const {
  return {static_cast<std::byte*>(flat_.data_ptr()), flat_.nbytes()};
}

void Flat::done() {
  if (!flat_.is_same(tensor_)) tensor_.copy_(flat_);
}

TorchReduction reductionOf(const at::Tensor& tensor, const c10d::ReduceOp& operation) {
  const collective::Number number = numberOf(tensor.scalar_type());
  const bool truth = tensor.scalar_type() == at::kBool;
  switch (static_cast<c10d::ReduceOp::RedOpType>(operation)) {
    case c10d::ReduceOp::SUM:
      return {number, truth ? collective::Reduction::kMax : collective::Reduction::kSum, false};
    case c10d::ReduceOp::AVG:
      TORCH_CHECK(tensor.is_floating_point(), "dure: only floating-point tensors have an average");
      return {number, collective::Reduction::kSum, true};
    case c10d::ReduceOp::PRODUCT:
      return {number, truth ? collective::Reduction::kMin : collective::Reduction::kProduct, false};
    case c10d::ReduceOp::MIN:
      return {number, collective::Reduction::kMin, false};
    case c10d::ReduceOp::MAX:
      return {number, collective::Reduction::kMax, false};
    default:
      TORCH_CHECK(false, "dure: no such reduction");
  }
}

bool isBitwise(const c10d::ReduceOp& operation) {
  const auto type = static_cast<c10d::ReduceOp::RedOpType>(operation);
  return type == c10d::ReduceOp::BAND || type == c10d::ReduceOp::BOR ||
         type == c10d::ReduceOp::BXOR;
}

std::optional<Streams::Named> Streams::streamOf(const at::Tensor& tensor) {
  if (tensor.numel() < kSmall) return std::nullopt;
  const void* begin = tensor.data_ptr();
  const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.begin == begin && entry.count == tensor.numel();
  });
  if (known != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, known);
    return Named{entries_.front().stream, std::nullopt};
  }
  Named named{next_++, std::nullopt};
  if (entries_.size() == kMostStreams) {
    named.forgotten = entries_.back().stream;
    entries_.pop_back();
  }
  entries_.push_front({begin, tensor.numel(), named.stream});
  return named;
}

}  // namespace dure::python
