#include "train/synchronizer.h"

#include <chrono>

namespace dure::train {
namespace {

std::span<float> numbersOf(at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() {
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
  }

 private:
  double& seconds_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace

Synchronizer::Synchronizer(const spec::Train& train, group::Group& group, Network& network)
    : sync_(train.sync),
      policy_(makeSyncPolicy(train.sync)),
      compresses_(train.wire != spec::WireType::kFloat32 && group.hosts() > 1),
      group_(group),
      network_(network) {
  if (!policy_->averagesOnce()) {
    Parameters& parameters = network_.parameters();
    registered_ = group_.registerBuffer(
        numbersOf(sharesGradients() ? parameters.shared() : parameters.values()));
  }
  // On one host an all-reduce is work for this very core, and one is less work than several.
  if (sharesGradients() && group_.hosts() > 1) {
    Parameters& parameters = network_.parameters();
    buckets_.emplace(group_, parameters,
                     (compresses_ ? parameters.grads() : parameters.shared()).numel());
  }
  if (policy_->makesOuterSteps()) {
    momentum_ = at::zeros_like(network_.parameters().values());
  }
  // The change since the last average is small beside the weights: compression loses less of it.
  if (momentum_.defined() || (!policy_->sharesGradients() && group_.hosts() > 1)) {
    anchor_ = network_.parameters().values().clone();
  }
}

void Synchronizer::weightsLoaded() {
  // With one-shot averaging each worker has weights of its own; the change is from those that all
  // began with.
  if (anchor_.defined() && !policy_->averagesOnce()) {
    anchor_.copy_(network_.parameters().values());
  }
}

void Synchronizer::beforeBackward() {
  if (buckets_) buckets_->arm();
}

Status Synchronizer::afterBackward() {
  if (!sharesGradients()) return {};
  const Stopwatch watch(waited_);
  auto reduced =
      buckets_ ? buckets_->finish() : group_.allReduce(numbersOf(network_.parameters().shared()));
  if (!reduced) return reduced;
  return averageBuffers();
}

Status Synchronizer::afterStep(std::int64_t done, bool epoch_over) {
  if (group_.size() == 1 || !policy_->averagesAfter(done, epoch_over)) return {};
  return averageWeights();
}

Status Synchronizer::atEnd() {
  // Others have averaged after the last step; once more would be a step of momentum alone.
  if (group_.size() == 1 || !policy_->averagesOnce()) return {};
  return averageWeights();
}

Status Synchronizer::averageBuffers() {
  for (at::Tensor& buffer : network_.buffers()) {
    if (!buffer.is_floating_point()) continue;
    // As double, which is never compressed.
    at::Tensor numbers = buffer.detach().to(at::kDouble).contiguous();
    const std::span<double> span(numbers.data_ptr<double>(),
                                 static_cast<std::size_t>(numbers.numel()));
    if (auto reduced = group_.allReduce(span); !reduced) return reduced;
    at::NoGradGuard no_grad;
    buffer.copy_(numbers.div_(group_.size()));
  }
  return {};
}

Status Synchronizer::averageWeights() {
  const Stopwatch watch(waited_);
  at::NoGradGuard no_grad;
  at::Tensor& values = network_.parameters().values();
  if (auto averaged = averageBuffers(); !averaged) return averaged;
  if (anchor_.defined()) values.sub_(anchor_);
  if (auto reduced = group_.allReduce(numbersOf(values)); !reduced) return reduced;
  values.div_(group_.size());
  if (anchor_.defined()) values.add_(anchor_);
  if (!momentum_.defined()) {
    if (anchor_.defined()) anchor_.copy_(values);
    return {};
  }
  // The way that the workers went together, as a gradient for an outer step of Nesterov's.
  const at::Tensor way = anchor_ - values;
  momentum_.mul_(sync_.momentum).add_(way);
  values.copy_(anchor_).sub_(way.add_(momentum_, sync_.momentum), sync_.lr);
  anchor_.copy_(values);
  return {};
}

}  // namespace dure::train
