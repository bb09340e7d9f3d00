#include <charconv>
#include <cmath>
#include <map>
#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "average/averager.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/progress_bar.h"

namespace dure::cli {
namespace {

struct AverageArguments {
  std::vector<std::string> models;
  std::string folder;
  std::string output;
  std::string weights;
  std::string method = "mean";
  int trim = 1;
};

// "1,2,3"
Result<std::vector<double>> parseWeights(const std::string& text) {
  std::vector<double> weights;
  for (const std::string& word : split(text, ',')) {
    double weight = 0;
    const char* const end = word.data() + word.size();
    const auto [parsed, error] = std::from_chars(word.data(), end, weight);
    if (error != std::errc() || parsed != end || !std::isfinite(weight) || weight < 0) {
      return Error(Code::kInvalid,
                   fmt::format("--weights: '{}' is no number from 0 on; write --weights 1,2,3, or "
                               "--weights samples",
                               word));
    }
    weights.push_back(weight);
  }
  return weights;
}

Result<average::AverageOptions> readArguments(const AverageArguments& arguments) {
  static const std::map<std::string, average::Method> kMethods = {
      {"mean", average::Method::kMean},
      {"median", average::Method::kMedian},
      {"trimmed", average::Method::kTrimmed}};
  average::AverageOptions options{.models = arguments.models, .output = arguments.output};
  options.rule.method = kMethods.at(arguments.method);
  options.rule.trim = arguments.trim;
  if (!arguments.weights.empty() && options.rule.method != average::Method::kMean) {
    return Error(Code::kInvalid, "--weights are for the mean: leave out --method");
  }
  if (arguments.weights == "samples") {
    options.by_samples = true;
  } else if (!arguments.weights.empty()) {
    auto weights = parseWeights(arguments.weights);
    if (!weights) return std::move(weights).error();
    options.rule.weights = *std::move(weights);
  }
  if (arguments.folder.empty() == arguments.models.empty()) {
    return Error(Code::kInvalid,
                 "which models? dure average --dir DIR, or dure average MODEL MODEL …, not both");
  }
  if (!arguments.folder.empty()) {
    auto found = average::findModels(arguments.folder, arguments.output);
    if (!found) return std::move(found).error();
    options.models = *std::move(found);
  }
  return options;
}

void averageCommand(Context& context, const AverageArguments& arguments) {
  const auto options = readArguments(arguments);
  if (!options) return context.fail(options.error());
  Result<average::AverageReport> report = Error(Code::kInvalid, "");
  {
    ProgressBar bar(context.err, "average");
    report = average::averageModels(
        *options, [&](std::uint64_t done, std::uint64_t of) { return bar.update(done, of); });
  }
  if (!report) return failOrInterrupted(context, report.error());
  for (const std::string& note : report->notes) context.err << "dure: " << note << "\n";
  std::string weights;
  if (!report->weights.empty()) {
    weights = fmt::format(", by weights {}", fmt::join(report->weights, ", "));
  }
  const std::size_t count = options->models.size();
  context.out << fmt::format("{}: the {} of {} model{}{}, {} tensors, {}\n", arguments.output,
                             arguments.method == "trimmed" ? "trimmed mean" : arguments.method,
                             count, count == 1 ? "" : "s", weights, report->tensors,
                             sizeText(report->bytes));
  for (const std::string& model : options->models) context.out << "  " << model << "\n";
}

}  // namespace

void addAverage(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<AverageArguments>();
  CLI::App* command =
      app.add_subcommand("average", "Make one model of several: the mean of their weights");
  command->footer(
      "The result is the first model in everything but its weights. Models must be of one kind\n"
      "(.h5, .safetensors, .pt) and have the same layers.\n"
      "  dure average --dir models --savefile final.h5\n"
      "  dure average a.h5 b.h5 --savefile final.h5 --weights 1,3");
  command->add_option("models", arguments->models, "Model files, in the order of their weights")
      ->option_text("MODEL…");
  command
      ->add_option("--dir", arguments->folder,
                   "Every .h5 file of this directory but the result (else .safetensors, else .pt)")
      ->option_text("DIR");
  command->add_option("--savefile", arguments->output, "The file to write")
      ->option_text("FILE")
      ->required();
  command
      ->add_option("--weights", arguments->weights,
                   "One number a model, or `samples`: as many as it was trained on")
      ->option_text("N,N,…");
  command->add_option("--method", arguments->method, "mean, median, or trimmed, of every number")
      ->check(CLI::IsMember({"mean", "median", "trimmed"}))
      ->option_text("METHOD");
  command
      ->add_option("--trim", arguments->trim,
                   "With --method trimmed: so many of the largest and of the smallest are left out")
      ->check(CLI::Range(1, 1'000'000))
      ->option_text("N");
  command->callback([&context, arguments] { averageCommand(context, *arguments); });
}

}  // namespace dure::cli
