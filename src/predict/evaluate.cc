#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "format/batch_rows.h"
#include "format/dataset.h"
#include "predict/exit_code.h"
#include "predict/serve.h"
#include "predict/split_samples.h"
#include "predict/torch_model.h"
#include "train/loss.h"
#include "train/reason.h"

namespace dure::predict {
namespace {

constexpr std::int64_t kEvaluateBatch = 250;
// Larger matrices are for programs alone.
constexpr std::size_t kMostPrinted = 30;

struct EvaluationResult {
  std::int64_t samples = 0;
  double loss = 0;
  std::int64_t correct = 0;
  bool classes = true;
  std::vector<std::vector<std::int64_t>> confusion;  // by class: what it was put into
  std::vector<std::string> names;
};

Result<const format::Split*> splitOf(const format::Dataset& data, const std::string& wanted) {
  if (wanted == "train") return data.train.get();
  if (wanted == "test" && data.test == nullptr)
    return Error(Code::kInvalid, "--split: the data has no test split");
  if (!wanted.empty() && wanted != "test")
    return Error(Code::kInvalid, fmt::format("--split: must be train or test, not {}", wanted));
  return data.test != nullptr ? data.test.get() : data.train.get();
}

// Adds a batch to the sums.
Status addBatch(const TorchModel& model, train::LossType type, const at::Tensor& scores,
                const std::vector<double>& labels, EvaluationResult& result) {
  const auto count = static_cast<std::int64_t>(labels.size());
  at::Tensor targets;
  if (type == train::LossType::kRegression) {
    targets = at::empty({count});
    std::copy(labels.begin(), labels.end(), targets.data_ptr<float>());
    result.loss += train::lossSum(type, scores, targets, 0).item<double>();
    return {};
  }
  targets = at::empty({count}, at::kLong);
  std::copy(labels.begin(), labels.end(), targets.data_ptr<std::int64_t>());
  result.loss += train::lossSum(type, scores, targets, 0).item<double>();
  const at::Tensor outputs = model.outputsOf(scores).contiguous();
  const auto width = static_cast<std::size_t>(outputs.numel() / count);
  const auto* values = outputs.data_ptr<float>();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    // A single score without sigmoid is above one half where it is above 0.
    const bool logit = width == 1 && model.info().activation == "none";
    const std::size_t chosen =
        logit ? (values[i] > 0 ? 1 : 0) : serve::classOf(std::span(values + i * width, width));
    const auto actual = static_cast<std::size_t>(labels[i]);
    result.correct += chosen == actual;
    if (actual < result.confusion.size() && chosen < result.confusion.size())
      ++result.confusion[actual][chosen];
  }
  return {};
}

Result<EvaluationResult> evaluateOn(const TorchModel& model, const format::Dataset& data,
                                    const format::Split& split) try {
  at::NoGradGuard no_grad;
  EvaluationResult result{.samples = split.size()};
  const SplitSamples samples(model, split);
  if (auto fits = samples.check(); !fits) return std::move(fits).error();
  train::LossType type = train::LossType::kClasses;
  for (std::int64_t first = 0; first < split.size(); first += kEvaluateBatch) {
    std::vector<std::int64_t> rows(
        static_cast<std::size_t>(std::min(kEvaluateBatch, split.size() - first)));
    std::iota(rows.begin(), rows.end(), first);
    auto batch = samples.read(rows);
    if (!batch) return std::move(batch).error();
    at::Tensor scores = model.scores(batch->samples);
    scores = scores.reshape({static_cast<std::int64_t>(rows.size()), -1});
    const std::int64_t outputs = scores.size(1);
    if (first == 0) {
      const std::int64_t classes = data.classes;
      if (classes > std::max<std::int64_t>(outputs, 2) || (classes == 0 && outputs != 1)) {
        return Error(
            Code::kInvalid,
            fmt::format("the model gives {} number{} for a sample, and the data has {}", outputs,
                        outputs == 1 ? "" : "s",
                        classes == 0 ? "numbers as labels" : fmt::format("{} classes", classes)));
      }
      // A model may know more classes than this data has samples of.
      type = classes == 0   ? train::LossType::kRegression
             : outputs == 1 ? train::LossType::kBinary
                            : train::LossType::kClasses;
      result.classes = classes > 0;
      const auto size = static_cast<std::size_t>(std::max<std::int64_t>(outputs, 2));
      if (result.classes) result.confusion.assign(size, std::vector<std::int64_t>(size));
      result.names =
          !model.info().class_names.empty() ? model.info().class_names : data.class_names;
    }
    if (auto added = addBatch(model, type, scores, batch->labels, result); !added)
      return std::move(added).error();
  }
  if (split.size() > 0) result.loss /= static_cast<double>(split.size());
  return result;
} catch (const std::bad_alloc&) {
  return Error(Code::kUnavailable, "there is not enough memory");
} catch (const std::exception& error) {
  return Error(Code::kInvalid, "the model rejects the data: " + train::reasonOf(error));
}

std::string nameOfClass(const std::vector<std::string>& names, std::size_t number) {
  return number < names.size() ? toValidUtf8(names[number]) : std::to_string(number);
}

void printResult(const serve::EvaluateArguments& arguments, const EvaluationResult& result) {
  const auto accuracy = static_cast<double>(result.correct) /
                        static_cast<double>(std::max<std::int64_t>(1, result.samples));
  if (arguments.json) {
    nlohmann::ordered_json line = {{"model", arguments.model},
                                   {"data", arguments.data},
                                   {"samples", result.samples},
                                   {"loss", result.loss}};
    if (result.classes) {
      line["accuracy"] = accuracy;
      line["confusion"] = result.confusion;
      line["class_names"] = result.names;
    }
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return;
  }
  fmt::print("{}: {} samples", arguments.model, result.samples);
  if (result.classes) fmt::print(", accuracy {:.2f}%", 100 * accuracy);
  fmt::print(", loss {:.4f}\n", result.loss);
  const std::size_t size = result.confusion.size();
  if (size == 0 || size > kMostPrinted) return;
  std::size_t width = 6;
  std::size_t name_width = 0;
  for (std::size_t i = 0; i < size; ++i) {
    name_width = std::max(name_width, nameOfClass(result.names, i).size());
    for (const std::int64_t count : result.confusion[i])
      width = std::max(width, std::to_string(count).size() + 2);
  }
  fmt::print("\nrows: the class it is; columns: the class it was put into\n{:{}}", "", name_width);
  for (std::size_t i = 0; i < size; ++i)
    fmt::print("{:>{}}", nameOfClass(result.names, i).substr(0, width - 1), width);
  fmt::print("\n");
  for (std::size_t i = 0; i < size; ++i) {
    fmt::print("{:{}}", nameOfClass(result.names, i), name_width);
    for (const std::int64_t count : result.confusion[i]) fmt::print("{:>{}}", count, width);
    fmt::print("\n");
  }
}

}  // namespace

int evaluateModel(const serve::EvaluateArguments& arguments) {
  const auto model = loadTorchModel(arguments.model);
  if (!model) return failWith(model.error());
  const auto data = format::openDataset({.path = arguments.data,
                                         .format = arguments.format,
                                         .train = "",
                                         .test = "",
                                         .samples = arguments.samples,
                                         .labels = arguments.labels});
  if (!data) return failWith(data.error());
  const auto split = splitOf(*data, arguments.split);
  if (!split) return failWith(split.error());
  const auto result = evaluateOn(**model, *data, **split);
  if (!result) return failWith(result.error());
  printResult(arguments, *result);
  return kDone;
}

}  // namespace dure::predict
