#include <torch/torch.h>

#include "train/synchronizer.h"

namespace dure::train {
namespace {

constexpr std::int64_t kBucketNumbers = 1 << 20;  // 4 MB

// Tells when autograd is done with a parameter, whether it added to the gradient or a layer of ours
// wrote it.
class ReadyHook : public torch::autograd::FunctionPostHook {
 public:
  explicit ReadyHook(std::function<void()> ready) : ready_(std::move(ready)) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    ready_();
    return outputs;
  }

 private:
  std::function<void()> ready_;
};

}  // namespace

GradientBuckets::GradientBuckets(group::Group& group, Parameters& parameters, std::int64_t count)
    : group_(group),
      parameters_(parameters),
      thread_([this](const std::stop_token& stop) { run(stop); }) {
  const auto& all = parameters_.all();
  bucket_of_.resize(all.size());
  std::int64_t end = count;
  for (std::size_t i = all.size(); i-- > 0;) {
    if (buckets_.empty() || buckets_.back().end - buckets_.back().begin >= kBucketNumbers) {
      buckets_.push_back({.begin = end, .end = end});
    }
    Bucket& bucket = buckets_.back();
    bucket.begin = end = all[i].offset;
    ++bucket.parameters;
    bucket_of_[i] = buckets_.size() - 1;
    accumulators_.push_back(torch::autograd::impl::grad_accumulator(all[i].value));
    accumulators_.back()->add_post_hook(std::make_unique<ReadyHook>([this, i] { ready(i); }));
  }
}

GradientBuckets::~GradientBuckets() {
  thread_.request_stop();
  changed_.notify_all();
}

void GradientBuckets::arm() {
  armed_ = true;
  next_ = 0;
  is_ready_.assign(bucket_of_.size(), false);
  for (Bucket& bucket : buckets_) bucket.missing = bucket.parameters;
  const std::lock_guard lock(mutex_);
  reduced_ = 0;
}

void GradientBuckets::ready(std::size_t parameter) {
  if (!armed_ || is_ready_[parameter]) return;
  is_ready_[parameter] = true;
  --buckets_[bucket_of_[parameter]].missing;
  // In a fixed order, since every worker must all-reduce the same bucket at the same time.
  while (next_ < buckets_.size() && buckets_[next_].missing == 0) hand(next_++);
}

void GradientBuckets::hand(std::size_t bucket) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(bucket);
  changed_.notify_all();
}

Status GradientBuckets::finish() {
  armed_ = false;
  // Parameters that had no part in the loss have a gradient as well: zero.
  while (next_ < buckets_.size()) hand(next_++);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return reduced_ == buckets_.size() || failed_; });
  if (failed_) return *failed_;
  return {};
}

void GradientBuckets::run(const std::stop_token& stop) {
  while (true) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait(lock, stop, [&] { return !waiting_.empty(); })) return;
    const std::size_t number = waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    const Bucket& bucket = buckets_[number];
    const Status reduced = group_.allReduce({parameters_.shared().data_ptr<float>() + bucket.begin,
                                             static_cast<std::size_t>(bucket.end - bucket.begin)},
                                            static_cast<int>(number));
    lock.lock();
    if (reduced) {
      ++reduced_;
    } else {
      failed_ = reduced.error();
    }
    changed_.notify_all();
  }
}

}  // namespace dure::train
