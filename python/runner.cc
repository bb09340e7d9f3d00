#include "runner.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace dure::python {

Operation::Operation(int rank, c10d::OpType type, std::vector<at::Tensor> outputs)
    : c10d::Work(rank, type), outputs_(std::move(outputs)) {}

void Operation::complete(const Status& status) {
  finish(status ? nullptr
                : std::make_exception_ptr(std::runtime_error("dure: " + status.error().message())));
  if (status) done_.store(true, std::memory_order_release);
  const std::lock_guard lock(future_mutex_);
  if (future_) fillFuture();
}

c10::intrusive_ptr<c10::ivalue::Future> Operation::getFuture() {
  const std::lock_guard lock(future_mutex_);
  if (!future_) {
    future_ =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    if (isCompleted()) fillFuture();
  }
  return future_;
}

void Operation::fillFuture() {
  // Asked for between the two steps of complete(), it may be full already.
  if (future_->completed()) return;
  if (isSuccess()) {
    future_->markCompleted(at::IValue(outputs_));
  } else {
    future_->setError(exception());
  }
}

Runner::Runner(bool in_background) {
  if (in_background) thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

Runner::~Runner() { finish(); }

void Runner::finish() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void Runner::push(c10::intrusive_ptr<Operation> operation, std::function<Status()> body) {
  std::list<Task> over;
  {
    const std::lock_guard lock(mutex_);
    while (!tasks_.empty() && tasks_.front().over) {
      over.splice(over.end(), tasks_, tasks_.begin());
    }
    tasks_.push_back({std::move(operation), std::move(body)});
  }
  changed_.notify_one();
}

void Runner::work(const std::stop_token& stop) {
  const auto next = [&] {
    return std::find_if(tasks_.begin(), tasks_.end(), [](const Task& task) { return !task.over; });
  };
  while (true) {
    Task* task = nullptr;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, stop, [&] { return next() != tasks_.end(); });
      if (next() == tasks_.end()) return;
      task = &*next();
    }
    task->operation->complete(guarded(task->body));
    const std::lock_guard lock(mutex_);
    task->over = true;
  }
}

}  // namespace dure::python
