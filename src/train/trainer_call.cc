#include "train/trainer_call.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "base/text.h"
#include "spec/load.h"

namespace dure::train {

const char* const kTrainerHelp =
    "dure-trainer JOB.yaml: one worker of a native job, alone without Dure around it.\n"
    "dure-trainer --data FILE --savemodel MODEL [OPTIONS]: trains on one data file.\n\n"
    "  --data FILE        a data file or directory that native training reads\n"
    "  --savemodel MODEL  the model to write: .h5, .pt or .safetensors. For data called by number, "
    "as\n"
    "                     dure copy does, that stands in front: 0.npz makes 0-model.h5 of "
    "model.h5\n"
    "  --epoch N          how often to go through the data (1)\n"
    "  --batch N          samples in a step (100)\n"
    "  --model NAME       convnet, mlp, text or linear, or the file of a model; else as the data "
    "is:\n"
    "                     words text, images convnet, tables mlp\n"
    "  --lr X             the learning rate (0.001)\n"
    "  --seed N           of the order of samples; else the number that the data is called by, or "
    "1.\n"
    "                     First weights are always the same, so that models can be averaged\n\n"
    "Exit codes: 0 done, 1 training failed, 2 a mistake in the call or the data.\n";

Result<TrainerCall> parseTrainerCall(const std::vector<std::string>& arguments) {
  TrainerCall call;
  const std::map<std::string, std::string*> options = {
      {"--data", &call.data},    {"--savemodel", &call.output}, {"--model", &call.model},
      {"--epoch", &call.epochs}, {"--epochs", &call.epochs},    {"--batch", &call.batch},
      {"--lr", &call.lr},        {"--seed", &call.seed}};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--help" || word == "-h") {
      call.help = true;
      return call;
    }
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string name = word.substr(0, equals);
    const auto option = options.find(name);
    if (option == options.end()) {
      std::vector<std::string> names;
      for (const auto& each : options) names.push_back(each.first);
      const auto meant = closest(name, names);
      return Error(Code::kInvalid,
                   fmt::format("{} is not understood{}; see dure-trainer --help", word,
                               meant ? ": did you mean " + *meant + "?" : ""));
    }
    if (equals == word.size() && i + 1 == arguments.size()) {
      return Error(Code::kInvalid, name + " needs a value");
    }
    *option->second = equals < word.size() ? word.substr(equals + 1) : arguments[++i];
    if (option->second->empty()) return Error(Code::kInvalid, name + " needs a value");
  }
  if (call.data.empty()) return Error(Code::kInvalid, "which data? --data FILE");
  if (call.output.empty()) return Error(Code::kInvalid, "where to? --savemodel MODEL.h5");
  return call;
}

namespace {

constexpr std::uint64_t kFirstWeights = 1;

// "0" of data/0.npz; empty where the name is no number.
std::string numberOf(const std::string& data) {
  const std::string stem = std::filesystem::path(data).stem().string();
  return stem.find_first_not_of("0123456789") == std::string::npos ? stem : "";
}

std::string seedFor(const TrainerCall& call) {
  if (!call.seed.empty()) return call.seed;
  const std::string number = numberOf(call.data);
  std::uint32_t seed = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), seed);
  return error == std::errc() ? std::to_string(seed) : "";
}

}  // namespace

std::string modelFor(const format::Split& split) {
  constexpr std::int64_t kLeastImage = 8;
  const auto& shape = split.sampleShape();
  if (shape.size() == 2 || shape.size() == 3) {
    return std::min(shape[0], shape[1]) >= kLeastImage ? "convnet" : "mlp";
  }
  // Bytes in a row are measurements; there are more words than 256.
  const bool words = shape.size() == 1 && shape[0] > 1 && !format::isFloat(split.sampleType()) &&
                     format::sizeOf(split.sampleType()) > 1;
  return words ? "text" : "mlp";
}

std::string outputFor(const TrainerCall& call) {
  namespace fs = std::filesystem;
  const std::string number = numberOf(call.data);
  const fs::path output = call.output;
  if (number.empty() || output.filename().string().starts_with(number + "-")) return call.output;
  return (output.parent_path() / (number + "-" + output.filename().string())).string();
}

Result<spec::Job> jobFor(const TrainerCall& call) {
  std::string model = call.model;
  if (model.empty()) {
    const auto data = format::openDataset({.path = call.data});
    if (!data) return data.error();
    model = modelFor(*data->train);
  }
  // Paths are put in as they are: an override is read as YAML.
  const bool file = model.ends_with(".h5") || model.ends_with(".pt") || model.ends_with(".json");
  std::vector<spec::Override> fields = {
      {"--data", "train.data.path", std::string("data")},
      {"--epoch", "train.epochs", call.epochs},
      {"--batch", "train.batch", call.batch},
      {"--model", file ? "train.model.file" : "train.model.name", file ? "model.h5" : model}};
  if (!call.lr.empty()) fields.push_back({"--lr", "train.optimizer.lr", call.lr});
  if (const std::string seed = seedFor(call); !seed.empty())
    fields.push_back({"--seed", "train.seed", seed});
  // The ending alone decides whether it can be written.
  const std::string output = outputFor(call);
  fields.push_back(
      {"--savemodel", "output", "model" + std::filesystem::path(output).extension().string()});
  spec::Loaded loaded = spec::loadJobOverrides(fields);
  if (!loaded.ok()) return Error(Code::kInvalid, loaded.problems.front().text());
  loaded.job.train.model.seed = kFirstWeights;
  loaded.job.train.data.path = call.data;
  loaded.job.output = output;
  if (file) loaded.job.train.model.file = model;
  return std::move(loaded.job);
}

}  // namespace dure::train
