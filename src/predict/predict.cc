#include <iostream>

#include <fmt/core.h>

#include "base/text.h"
#include "predict/exit_code.h"
#include "predict/file_samples.h"
#include "predict/serve.h"
#include "predict/torch_model.h"
#include "serve/json_reader.h"

namespace dure::predict {
namespace {

constexpr std::size_t kPredictBatch = 128;

std::string csvField(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"') made += '"';
    made += c;
  }
  return made + "\"";
}

// Writes what a model gives, a line for each sample.
class PredictionLines {
 public:
  PredictionLines(const serve::ModelInfo& info, bool csv) : info_(info), csv_(csv) {}

  void print(const std::string& name, std::span<const float> row) {
    if (csv_ && row_ == 0) printHead(row.size());
    std::string line;
    // Several probabilities, or one of two classes; other numbers are what they are.
    const bool classes = row.size() > 1 || info_.activation == "sigmoid";
    const std::size_t chosen = classes ? serve::classOf(row) : 0;
    const float probability = row.size() > 1 ? row[chosen] : chosen == 1 ? row[0] : 1 - row[0];
    const bool named = classes && chosen < info_.class_names.size();
    if (csv_) {
      line =
          fmt::format("{},{},{},{},{}", row_, csvField(name), classes ? std::to_string(chosen) : "",
                      named ? csvField(toValidUtf8(info_.class_names[chosen])) : "",
                      classes ? fmt::format("{}", probability) : "");
      for (const float value : row) line += fmt::format(",{}", value);
    } else {
      line = fmt::format("{{\"row\": {}", row_);
      if (!name.empty()) {
        line += ", \"file\": ";
        serve::appendJsonString(line, name);
      }
      line += ", \"prediction\": [";
      for (std::size_t i = 0; i < row.size(); ++i) {
        if (i > 0) line += ", ";
        serve::appendJsonNumber(line, row[i]);
      }
      line += "]";
      if (classes) {
        line += fmt::format(", \"class\": {}", chosen);
        if (named) {
          line += ", \"class_name\": ";
          serve::appendJsonString(line, info_.class_names[chosen]);
        }
        line += ", \"probability\": ";
        serve::appendJsonNumber(line, probability);
      }
      line += "}";
    }
    std::cout << line << "\n";
    ++row_;
  }

  std::int64_t rows() const { return row_; }

 private:
  static void printHead(std::size_t outputs) {
    std::cout << "row,file,class,class_name,probability";
    for (std::size_t i = 0; i < outputs; ++i) std::cout << ",output_" << i;
    std::cout << "\n";
  }

  const serve::ModelInfo& info_;
  const bool csv_;
  std::int64_t row_ = 0;
};

}  // namespace

int predictFile(const serve::PredictArguments& arguments) {
  const auto model = loadTorchModel(arguments.model);
  if (!model) return failWith(model.error());
  const serve::ModelInfo& info = (*model)->info();
  PredictionLines lines(info, arguments.format == "csv");
  std::vector<NamedSample> waiting;
  const auto run = [&]() -> Status {
    if (waiting.empty()) return {};
    std::vector<const serve::Samples*> parts;
    for (const NamedSample& each : waiting) parts.push_back(&each.sample);
    const auto made = (*model)->run(parts);
    if (!made) return made.error();
    const std::size_t width = made->values.size() / waiting.size();
    for (std::size_t i = 0; i < waiting.size(); ++i)
      lines.print(waiting[i].name, std::span(made->values).subspan(i * width, width));
    waiting.clear();
    return {};
  };
  const auto read = readFileSamples(arguments.file, info, [&](NamedSample sample) -> Status {
    // A batch is of one shape.
    if (!waiting.empty() && waiting.front().sample.shape != sample.sample.shape) {
      if (auto done = run(); !done) return done;
    }
    waiting.push_back(std::move(sample));
    return waiting.size() < kPredictBatch ? Status() : run();
  });
  const Status last = read ? run() : Status();
  std::cout.flush();
  if (!read) return failWith(read.error());
  if (!last) return failWith(last.error());
  if (lines.rows() == 0)
    return failWith(Error(Code::kInvalid, arguments.file + ": there is no sample in it"));
  if (!std::cout) return failWith(Error(Code::kIo, "standard output cannot be written"));
  return kDone;
}

}  // namespace dure::predict
