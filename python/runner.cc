#include "runner.h"

#include <stdexcept>
#include <utility>

namespace dure {
namespace {

// What goes wrong in torch's own functions is told in the same way.
Status doNow(const std::function<Status()>& body) {
  try {
    return body();
  } catch (const std::exception& exception) {
    return Error(Code::kInvalid, exception.what());
  }
}

}  // namespace

Operation::Operation(int rank, c10d::OpType type, std::vector<at::Tensor> outputs)
    : c10d::Work(rank, type), outputs_(std::move(outputs)) {}

void Operation::complete(const Status& status) {
  finish(status ? nullptr
                : std::make_exception_ptr(std::runtime_error("dure: " + status.error().message())));
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

void Runner::run(c10::intrusive_ptr<Operation> operation, std::function<Status()> body) {
  if (!thread_.joinable()) {
    operation->complete(doNow(body));
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({std::move(operation), std::move(body)});
  }
  changed_.notify_one();
}

void Runner::work(const std::stop_token& stop) {
  while (true) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, stop, [&] { return !tasks_.empty(); });
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task.operation->complete(doNow(task.body));
  }
}

}  // namespace dure
