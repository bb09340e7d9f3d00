#include <algorithm>

#include "serve/json_reader.h"
#include "serve/request_task.h"
#include "serve/sample_reader.h"

namespace dure::serve {
namespace {

// The numbers below `level` of a shape, from `at` on.
void appendNested(std::string& out, std::span<const std::int64_t> shape, const float*& at) {
  if (shape.empty()) {
    appendJsonNumber(out, *at++);
    return;
  }
  out += '[';
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    if (i > 0) out += ", ";
    appendNested(out, shape.subspan(1), at);
  }
  out += ']';
}

class V1Task : public RequestTask {
 public:
  explicit V1Task(HttpRequest request) : body_(std::move(request.body)) {}

  Status decode(const ModelInfo& info, Samples& samples) override {
    JsonReader json(body_);
    SampleReader reader(info, samples);
    if (json.peek() != JsonReader::Kind::kObject) {
      json.fail("an object with instances or inputs is expected");
      return json.error();
    }
    std::string key;
    bool seen = false;
    for (json.beginObject(); json.nextKey(key);) {
      if (key == "instances" || key == "inputs") {
        if (seen) return Error(Code::kInvalid, "give instances or inputs, and once");
        seen = true;
        columns_ = key == "inputs";
        auto read = columns_ ? readColumns(json, reader) : reader.readBatch(json);
        if (!read) return std::move(read).error().during(columns_ ? "inputs" : "instances");
      } else if (key == "signature_name") {
        std::string name;
        if (!json.readString(name)) return json.error();
        if (!name.empty() && name != "serving_default")
          return Error(Code::kInvalid, "the only signature is serving_default");
      } else if (!json.skip()) {
        return json.error();
      }
    }
    if (!json.atEnd()) return json.error();
    if (!seen) return Error(Code::kInvalid, "the request has neither instances nor inputs");
    if (samples.rows == 0) return Error(Code::kInvalid, "the request has no samples");
    // Not needed any more, and it may be large.
    std::string().swap(body_);
    return {};
  }

  HttpReply encode(const ModelInfo&, const Predictions& predictions) override {
    HttpReply reply;
    reply.body = columns_ ? "{\"outputs\": " : "{\"predictions\": ";
    appendRows(reply.body, predictions);
    reply.body += "}\n";
    return reply;
  }

 private:
  // A list of samples, or one under the name of the input.
  static Status readColumns(JsonReader& json, SampleReader& reader) {
    if (json.peek() != JsonReader::Kind::kObject) return reader.readBatch(json);
    std::string name;
    int inputs = 0;
    for (json.beginObject(); json.nextKey(name);) {
      if (++inputs > 1) return Error(Code::kInvalid, "the model has one input");
      if (auto read = reader.readBatch(json); !read) return read;
    }
    if (json.failed()) return json.error();
    return {};
  }

  std::string body_;
  bool columns_ = false;
};

}  // namespace

void appendRows(std::string& out, const Predictions& predictions) {
  const float* at = predictions.values.data();
  out.reserve(out.size() + predictions.values.size() * 14);
  out += '[';
  for (std::int64_t row = 0; row < predictions.rows; ++row) {
    if (row > 0) out += ", ";
    appendNested(out, predictions.shape, at);
  }
  out += ']';
}

std::unique_ptr<RequestTask> makeV1Task(HttpRequest request) {
  return std::make_unique<V1Task>(std::move(request));
}

}  // namespace dure::serve
