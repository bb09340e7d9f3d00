#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"

namespace dure::python {

// An operation as torch sees it: to be waited for, with the tensors it fills.
class Operation : public c10d::Work {
 public:
  Operation(int rank, c10d::OpType type, std::vector<at::Tensor> outputs);

  // Once: the operation is over. An error is thrown to whoever waits, as torch's own backends do.
  void complete(const Status& status);

  std::vector<at::Tensor> result() override { return outputs_; }
  const std::vector<at::Tensor>& outputs() const { return outputs_; }
  // Over, and well. In a word of its own, for those who ask often.
  bool isDone() const { return done_.load(std::memory_order_acquire); }
  // Holds the same tensors as result().
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  void fillFuture();

  const std::vector<at::Tensor> outputs_;
  std::atomic<bool> done_ = false;
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // made when someone asks; guarded by the mutex
};

// Does operations one after another: in the calling thread, or in one of its own while the caller
// goes on.
class Runner {
 public:
  explicit Runner(bool in_background);
  ~Runner();
  // Waits for what is still to do; nothing is run afterwards.
  void finish();

  // What is done is `body(outputs)`, with those of the operation.
  template <typename Body>
  void run(const c10::intrusive_ptr<Operation>& operation, Body body) {
    auto bound = [&outputs = operation->outputs(), body = std::move(body)] {
      return body(outputs);
    };
    if (thread_.joinable()) return push(operation, std::move(bound));
    operation->complete(guarded(bound));
  }

 private:
  struct Task {
    c10::intrusive_ptr<Operation> operation;
    std::function<Status()> body;
    bool over = false;
  };
  // It reports errors of torch's own functions in the same way.
  template <typename Body>
  static Status guarded(const Body& body) {
    try {
      return body();
    } catch (const std::exception& exception) {
      return Error(Code::kInvalid, exception.what());
    }
  }
  void push(c10::intrusive_ptr<Operation> operation, std::function<Status()> body);
  void work(const std::stop_token& stop);

  std::mutex mutex_;
  std::condition_variable_any changed_;
  // Guarded by the mutex. Those that are over are dropped by who brings the next one: dropping a
  // tensor that Python knows takes Python's lock, and a thread that asks for that while Python ends
  // is ended by it, and the process with it.
  std::list<Task> tasks_;
  std::jthread thread_;  // none if operations run in the calling thread
};

}  // namespace dure::python
