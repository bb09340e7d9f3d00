#include <charconv>
#include <cmath>
#include <optional>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "format/array.h"
#include "serve/json_reader.h"
#include "serve/request_task.h"
#include "serve/sample_reader.h"
#include "serve/v2_tensor.h"

namespace dure::serve {
namespace {

constexpr const char* kJsonLength = "inference-header-content-length";

// A tensor of the request.
struct V2Input {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string datatype;
  std::int64_t binary = -1;    // bytes behind the JSON; -1: none
  std::vector<float> numbers;  // "data" in JSON
  std::vector<std::string> texts;
  bool has_data = false;
};

class V2Task : public RequestTask {
 public:
  V2Task(HttpRequest request, ModelName name)
      : json_length_(request.header(kJsonLength)),
        body_(std::move(request.body)),
        name_(std::move(name)) {}

  Status decode(const ModelInfo& info, Samples& samples) override {
    std::size_t length = body_.size();
    if (!json_length_.empty()) {
      const char* const end = json_length_.data() + json_length_.size();
      const auto [stop, error] = std::from_chars(json_length_.data(), end, length);
      if (error != std::errc() || stop != end || length > body_.size())
        return Error(Code::kInvalid, "Inference-Header-Content-Length is not within the body");
    }
    JsonReader json(std::string_view(body_).substr(0, length));
    if (auto read = readRequest(json); !read) return read;
    if (!seen_) return Error(Code::kInvalid, "the request has no inputs");
    if (auto made = makeSamples(info, std::string_view(body_).substr(length), samples); !made)
      return std::move(made).error().during(fmt::format("the input {}", input_.name));
    std::string().swap(body_);
    return {};
  }

  HttpReply encode(const ModelInfo&, const Predictions& predictions) override {
    HttpReply reply;
    std::string& out = reply.body;
    out = "{\"model_name\": ";
    appendJsonString(out, name_.name);
    fmt::format_to(std::back_inserter(out), ", \"model_version\": \"{}\"", name_.version);
    if (!id_.empty()) {
      out += ", \"id\": ";
      appendJsonString(out, id_);
    }
    fmt::format_to(
        std::back_inserter(out),
        ", \"outputs\": [{{\"name\": \"{}\", \"datatype\": \"FP32\", \"shape\": [{}{}{}]",
        kOutputName, predictions.rows, predictions.shape.empty() ? "" : ", ",
        fmt::join(predictions.shape, ", "));
    const std::size_t bytes = predictions.values.size() * sizeof(float);
    if (binary_output_) {
      fmt::format_to(std::back_inserter(out), ", \"parameters\": {{\"binary_data_size\": {}}}}}]}}",
                     bytes);
      reply.headers.emplace_back("Inference-Header-Content-Length", std::to_string(out.size()));
      reply.type = "application/octet-stream";
      out.append(reinterpret_cast<const char*>(predictions.values.data()), bytes);
      return reply;
    }
    out += ", \"data\": [";
    for (std::size_t i = 0; i < predictions.values.size(); ++i) {
      if (i > 0) out += ", ";
      appendJsonNumber(out, predictions.values[i]);
    }
    out += "]}]}\n";
    return reply;
  }

 private:
  Status readRequest(JsonReader& json) {
    std::string key;
    if (!json.beginObject()) return json.error();
    while (json.nextKey(key)) {
      Status read;
      if (key == "id") {
        if (!json.readString(id_)) return json.error();
      } else if (key == "inputs") {
        read = readInputs(json);
      } else if (key == "outputs") {
        read = readOutputs(json);
      } else if (key == "parameters") {
        read = readParameters(json, nullptr, "binary_data_output", &binary_output_);
      } else if (!json.skip()) {
        return json.error();
      }
      if (!read) return read;
    }
    if (!json.atEnd()) return json.error();
    return {};
  }

  // The two parameters that mean something here; others are passed over.
  static Status readParameters(JsonReader& json, std::int64_t* size, const char* flag_name,
                               bool* flag) {
    std::string key;
    if (!json.beginObject()) return json.error();
    while (json.nextKey(key)) {
      if (size != nullptr && key == "binary_data_size") {
        if (!json.readInteger(*size)) return json.error();
        if (*size < 0) return Error(Code::kInvalid, "binary_data_size is negative");
      } else if (flag != nullptr && key == flag_name) {
        if (!json.readBool(*flag)) return json.error();
      } else if (!json.skip()) {
        return json.error();
      }
    }
    if (json.failed()) return json.error();
    return {};
  }

  Status readInputs(JsonReader& json) {
    if (!json.beginArray()) return json.error();
    while (json.nextElement()) {
      if (seen_) return Error(Code::kInvalid, "the model has one input");
      seen_ = true;
      if (auto read = readInput(json); !read) return read;
    }
    if (json.failed()) return json.error();
    return {};
  }

  Status readInput(JsonReader& json) {
    std::string key;
    if (!json.beginObject()) return json.error();
    while (json.nextKey(key)) {
      Status read;
      if (key == "name") {
        if (!json.readString(input_.name)) return json.error();
      } else if (key == "datatype") {
        if (!json.readString(input_.datatype)) return json.error();
      } else if (key == "shape") {
        input_.shape.clear();
        if (!json.beginArray()) return json.error();
        while (json.nextElement()) {
          std::int64_t size = 0;
          if (!json.readInteger(size)) return json.error();
          input_.shape.push_back(size);
        }
        if (json.failed()) return json.error();
      } else if (key == "data") {
        input_.has_data = true;
        read = readData(json);
      } else if (key == "parameters") {
        read = readParameters(json, &input_.binary, nullptr, nullptr);
      } else if (!json.skip()) {
        return json.error();
      }
      if (!read) return read;
    }
    if (json.failed()) return json.error();
    return {};
  }

  // Flat or nested: the shape says which is which.
  Status readData(JsonReader& json) {
    if (!json.beginArray()) return json.error();
    int depth = 1;
    while (depth > 0) {
      const JsonReader::Kind kind = json.peek();
      if (kind == JsonReader::Kind::kNumber) {
        bool ended = false;
        json.readFloats(input_.numbers, ended);
        if (!ended) return json.error();
        --depth;
        continue;
      }
      if (!json.nextElement()) {
        if (json.failed()) return json.error();
        --depth;
        continue;
      }
      if (auto read = readElement(json, depth); !read) return read;
    }
    return {};
  }

  Status readElement(JsonReader& json, int& depth) {
    switch (json.peek()) {
      case JsonReader::Kind::kArray:
        if (!json.beginArray()) return json.error();
        ++depth;
        return {};
      case JsonReader::Kind::kString: {
        std::string text;
        if (!json.readString(text)) return json.error();
        input_.texts.push_back(std::move(text));
        return {};
      }
      case JsonReader::Kind::kTrue:
      case JsonReader::Kind::kFalse: {
        bool value = false;
        if (!json.readBool(value)) return json.error();
        input_.numbers.push_back(value ? 1 : 0);
        return {};
      }
      default: {
        double number = 0;
        if (!json.readNumber(number)) return json.error();
        input_.numbers.push_back(static_cast<float>(number));
        return {};
      }
    }
  }

  Status readOutputs(JsonReader& json) {
    if (!json.beginArray()) return json.error();
    while (json.nextElement()) {
      std::string key;
      if (!json.beginObject()) return json.error();
      while (json.nextKey(key)) {
        if (key == "name") {
          std::string name;
          if (!json.readString(name)) return json.error();
          if (name != kOutputName)
            return Error(Code::kInvalid,
                         fmt::format("there is no output {}; it is called {}", name, kOutputName));
        } else if (key == "parameters") {
          if (auto read = readParameters(json, nullptr, "binary_data", &binary_output_); !read)
            return read;
        } else if (!json.skip()) {
          return json.error();
        }
      }
    }
    if (json.failed()) return json.error();
    return {};
  }

  Status makeSamples(const ModelInfo& info, std::string_view binary, Samples& samples) {
    const auto type = v2TypeNamed(input_.datatype);
    if (!type) return type.error();
    const auto count = format::checkedElements(input_.shape);
    if (!count || input_.shape.empty() || *count < 1)
      return Error(Code::kInvalid,
                   fmt::format("[{}] is no shape of samples, which are counted first",
                               fmt::join(input_.shape, ", ")));
    if ((input_.binary >= 0) == input_.has_data)
      return Error(Code::kInvalid, "give data, or binary_data_size and the bytes behind the JSON");
    if (input_.binary >= 0 && static_cast<std::size_t>(input_.binary) != binary.size()) {
      return Error(Code::kInvalid, fmt::format("binary_data_size is {}, and {} bytes came behind "
                                               "the JSON",
                                               input_.binary, binary.size()));
    }
    SampleReader reader(info, samples);
    if (*type == V2Type::kBytes) {
      std::vector<std::string> elements = std::move(input_.texts);
      if (input_.binary >= 0) {
        auto decoded = decodeBytes(binary, *count);
        if (!decoded) return std::move(decoded).error();
        elements = *std::move(decoded);
      }
      if (static_cast<std::int64_t>(elements.size()) != *count || !input_.numbers.empty())
        return wrongCount(elements.size(), *count);
      for (const std::string& element : elements) {
        if (auto added = reader.addBytes(element); !added) return added;
      }
      return {};
    }
    std::vector<float> numbers = std::move(input_.numbers);
    if (input_.binary >= 0) {
      auto decoded = decodeNumbers(*type, binary, *count);
      if (!decoded) return std::move(decoded).error();
      numbers = *std::move(decoded);
    }
    if (static_cast<std::int64_t>(numbers.size()) != *count || !input_.texts.empty())
      return wrongCount(numbers.size(), *count);
    return reader.addNumbers(input_.shape[0], std::span(input_.shape).subspan(1),
                             std::move(numbers));
  }

  static Error wrongCount(std::size_t there, std::int64_t wanted) {
    return Error(
        Code::kInvalid,
        fmt::format("data has {} elements of that type, and the shape says {}", there, wanted));
  }

  std::string json_length_;
  std::string body_;
  ModelName name_;
  std::string id_;
  V2Input input_;
  bool seen_ = false;
  bool binary_output_ = false;
};

}  // namespace

std::unique_ptr<RequestTask> makeV2Task(HttpRequest request, ModelName name) {
  return std::make_unique<V2Task>(std::move(request), std::move(name));
}

}  // namespace dure::serve
