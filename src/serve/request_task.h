#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "serve/http_reply.h"
#include "serve/http_request.h"
#include "serve/model.h"

namespace dure::serve {

// Which loaded model answers, for the reply.
struct ModelName {
  std::string name;
  std::int64_t version = 0;
};

// A request for predictions on its way: what it asks is decoded, a model runs on it (with others,
// in one batch), and the reply is made of what the model gives. Used by one thread at a time.
class RequestTask {
 public:
  virtual ~RequestTask() = default;
  // Invalid, for the caller, if the request is wrong.
  virtual Status decode(const ModelInfo& info, Samples& samples) = 0;
  virtual HttpReply encode(const ModelInfo& info, const Predictions& predictions) = 0;
};

// TensorFlow Serving's predict API: {"instances": […]} or {"inputs": …}.
std::unique_ptr<RequestTask> makeV1Task(HttpRequest request);
// The Open Inference Protocol's infer, in JSON or with binary tensors.
std::unique_ptr<RequestTask> makeV2Task(HttpRequest request, ModelName name);
// {"text": "…"}: the prediction, and how much each word counts for it.
std::unique_ptr<RequestTask> makeExplainTask(HttpRequest request);

// What the one input and the one output of a model are called.
inline constexpr const char* kInputName = "input";
inline constexpr const char* kOutputName = "output";

// The predictions of rows `begin` to `end` as nested lists in JSON, one per row.
void appendRows(std::string& out, const Predictions& predictions);

}  // namespace dure::serve
