#include <algorithm>
#include <memory>
#include <ostream>

#include <CLI/CLI.hpp>

#include <fmt/core.h>

#include "base/process.h"
#include "cli/commands.h"
#include "cli/progress_bar.h"
#include "copy/copier.h"

namespace dure::cli {
namespace {

constexpr int kMostFiles = 10'000;

struct CopyArguments {
  copy::CopyOptions options;
  bool independent = false;
};

std::string namesOf(const std::vector<std::string>& names) {
  if (names.size() == 1) return names.front();
  return fmt::format("{} … {}", names.front(), names.back());
}

std::string describe(const CopyArguments& arguments, const copy::CopyReport& report) {
  const copy::CopyOptions& options = arguments.options;
  std::string text = fmt::format("{}: {}: ", options.folder, namesOf(report.names));
  if (options.split) {
    const auto [least, most] = std::minmax_element(report.rows.begin(), report.rows.end());
    text += fmt::format(
        "{} shard{} of {} rows, {} in all", report.rows.size(), report.rows.size() == 1 ? "" : "s",
        *least == *most ? std::to_string(*most) : fmt::format("{} to {}", *least, *most),
        sizeText(report.bytes));
  } else {
    const auto count = static_cast<std::int64_t>(report.names.size());
    text += fmt::format("{} cop{} of {}", count, count == 1 ? "y" : "ies",
                        sizeText(report.bytes / report.names.size()));
    if (report.sharing != copy::Sharing::kCopy) {
      text += fmt::format(", stored once ({})", copy::sharingName(report.sharing));
    }
  }
  if (report.unchanged > 0) text += fmt::format("; {} were there already", report.unchanged);
  if (!report.word_index.empty()) text += "; with " + report.word_index;
  return text;
}

void copyCommand(Context& context, const CopyArguments& arguments) {
  copy::CopyOptions options = arguments.options;
  options.share = !arguments.independent;
  if (options.stratified && !options.split) {
    return context.mistake("--stratified is for shards: add --split");
  }
  raiseDescriptorLimit();
  Result<copy::CopyReport> report = Error(Code::kInvalid, "");
  {
    ProgressBar bar(context.err, "copy");
    report = copy::copyData(
        options, [&](std::uint64_t done, std::uint64_t of) { return bar.update(done, of); });
  }
  if (!report) return failOrInterrupted(context, report.error());
  for (const std::string& warning : report->warnings) context.err << "dure: " << warning << "\n";
  context.out << describe(arguments, *report) << "\n";
}

}  // namespace

void addCopy(CLI::App& app, Context& context) {
  auto arguments = std::make_shared<CopyArguments>();
  copy::CopyOptions& options = arguments->options;
  CLI::App* command =
      app.add_subcommand("copy", "Make data files 0.npz, 1.npz, … of a data set, one a worker");
  command->footer(
      "DATA is whatever native training reads: a .npz file, a directory of idx, npy or Arrow "
      "files,\n"
      "a table. A .npz file is copied as it is. Copies share storage where the file system can: "
      "as\n"
      "reflinks, else as hard links, which are one file under several names.\n"
      "  dure copy imdb.npz --workers 5 --to data\n"
      "  dure copy imdb.npz --workers 5 --to data --split --stratified");
  command->add_option("data", options.data.path, "A data file, or a directory of them")
      ->option_text("DATA")
      ->required();
  command->add_option("--workers,--n_container", options.files, "How many files")
      ->option_text("N")
      ->check(CLI::Range(1, kMostFiles))
      ->required();
  command->add_option("--to,--savedir", options.folder, "The directory to make them in")
      ->option_text("DIR")
      ->required();
  command->add_flag("--split", options.split,
                    "Disjoint shards of the training rows, not copies; the test set stays whole");
  command->add_flag("--stratified", options.stratified,
                    "With --split: every shard has the class proportions of the whole");
  command->add_option("--seed", options.seed, "Of --split: which row goes where")
      ->option_text("N")
      ->capture_default_str();
  command->add_flag("--independent", arguments->independent,
                    "Copies that share no storage, for who changes them in place");
  command->add_flag("--force", options.force, "Overwrite files that differ");
  command->add_option("--format", options.data.format, "As train.data.format of a job")
      ->check(CLI::IsMember({"idx", "npz", "npy", "arrow", "csv"}))
      ->option_text("FORMAT");
  command->add_option("--train", options.data.train, "As train.data.train: the split to train on")
      ->option_text("NAME");
  command->add_option("--test", options.data.test, "As train.data.test: the split to test on")
      ->option_text("NAME");
  command
      ->add_option("--samples", options.data.samples,
                   "As train.data.samples: the array or column of samples")
      ->option_text("NAME");
  command
      ->add_option("--labels", options.data.labels,
                   "As train.data.labels: the array or column of labels")
      ->option_text("NAME");
  command
      ->add_option("--classes", options.data.classes,
                   "As train.data.classes: how many; 0: labels are numbers to predict")
      ->option_text("N");
  command->callback([&context, arguments] { copyCommand(context, *arguments); });
}

}  // namespace dure::cli
