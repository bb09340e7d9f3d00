#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/files.h"
#include "train/model_files.h"
#include "train/network.h"
#include "train/reason.h"

namespace dure::train {
namespace {

Status checkThere(const std::string& file) {
  if (fileExists(file)) return {};
  return Error(Code::kNotFound, "train.model.file: there is no " + file);
}

// The layers as they take samples of this shape, with the file's weights where it has them.
Result<std::unique_ptr<Network>> makeFromLayers(LayerFile file, const DataShape& data,
                                                std::uint64_t seed) {
  Architecture& architecture = file.architecture;
  architecture.input = data.sample;
  const bool image = architecture.layers.front().type == LayerType::kConv2d;
  if (image && architecture.input.size() == 2) architecture.input.push_back(1);
  if (auto connected = connect(architecture); !connected) return std::move(connected).error();
  auto network = makeLayerNetwork(std::move(architecture), seed);
  if (network && !file.weights.empty()) {
    if (auto loaded = loadWeights((*network)->parameters(), file.weights); !loaded)
      return std::move(loaded).error();
  }
  return network;
}

Result<std::unique_ptr<Network>> loadNetwork(const std::string& path, const DataShape& data,
                                             std::uint64_t seed) {
  auto layers = readLayerFile(path);
  if (!layers) return std::move(layers).error();
  if (!*layers) return loadScriptNetwork(path);
  auto network = makeFromLayers(**std::move(layers), data, seed);
  if (!network) return std::move(network).error().during(path);
  return network;
}

// How many numbers a model must give for a sample, for people.
std::string outputsWanted(std::int64_t classes) {
  if (classes == 0) return "1, since the labels are numbers and not classes";
  if (classes == 2) return "2, one for each class, or 1";
  return fmt::format("{}, one for each class", classes);
}

// A model of somebody's own need not fit the data: tries it on two samples of nothing.
Status checkFits(Network& network, const std::string& file, const DataShape& data) {
  constexpr std::int64_t kRows = 2;
  std::vector<std::int64_t> shape{kRows};
  shape.insert(shape.end(), data.sample.begin(), data.sample.end());
  at::NoGradGuard no_grad;
  at::Tensor output;
  try {
    output = network.forward(at::zeros(shape, data.words ? at::kLong : at::kFloat), nullptr);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return Error(
        Code::kInvalid,
        fmt::format("{} does not take samples of {} of shape [{}]: {}{}", file,
                    data.words ? "words" : "numbers", fmt::join(data.sample, ", "), reasonOf(error),
                    data.words ? "" : " (if they are words, train.model.vocabulary says so)"));
  }
  const std::int64_t rows = output.dim() > 0 ? output.size(0) : 0;
  if (rows != kRows) {
    return Error(Code::kInvalid,
                 fmt::format("{} gives a result of shape [{}] for {} samples, not one for each",
                             file, fmt::join(output.sizes(), ", "), kRows));
  }
  const std::int64_t outputs = output.numel() / kRows;
  const std::int64_t wanted = std::max<std::int64_t>(data.classes, 1);
  if (outputs == wanted || (data.classes == 2 && outputs == 1)) return {};
  return Error(Code::kInvalid,
               fmt::format("{} gives {} number{} for a sample, and this data needs {} "
                           "(train.data.classes says how many classes there are)",
                           file, outputs, outputs == 1 ? "" : "s", outputsWanted(data.classes)));
}

}  // namespace

Result<ModelInput> inputOf(const spec::Model& model) {
  ModelInput input{.words = model.name == "text", .vocabulary = model.vocabulary};
  if (model.file.empty()) return input;
  if (auto there = checkThere(model.file); !there) return std::move(there).error();
  const auto layers = readLayerFile(model.file);
  if (!layers) return layers.error();
  if (!*layers) {
    input.words = model.vocabulary > 0;
    return input;
  }
  const Architecture& architecture = (*layers)->architecture;
  input.words = architecture.words;
  input.scaling = architecture.scaling;
  const std::int64_t known = architecture.layers.front().vocabulary;
  if (model.vocabulary > 0 && !input.words) {
    return Error(
        Code::kInvalid,
        fmt::format("train.model.vocabulary: the first layer of {} takes numbers, not words",
                    model.file));
  }
  if (model.vocabulary > known && input.words) {
    return Error(Code::kInvalid, fmt::format("train.model.vocabulary: {} knows {} words, not {}",
                                             model.file, known, model.vocabulary));
  }
  if (input.words && model.vocabulary == 0) input.vocabulary = known;
  return input;
}

Result<std::unique_ptr<Network>> makeNetwork(const spec::Train& train, const DataShape& data) {
  const spec::Model& model = train.model;
  const std::uint64_t seed = model.seed != 0 ? model.seed : train.seed;
  auto network = [&]() -> Result<std::unique_ptr<Network>> {
    if (model.file.empty()) {
      auto architecture = builtInModel(model, data);
      if (!architecture) return std::move(architecture).error();
      return makeLayerNetwork(std::move(*architecture), seed);
    }
    if (auto there = checkThere(model.file); !there) return std::move(there).error();
    return loadNetwork(model.file, data, seed);
  }();
  if (!network) return network;
  if (!model.file.empty()) {
    if ((*network)->parameters().all().empty()) {
      return Error(
          Code::kInvalid,
          model.file + ": there is nothing to learn: it has no weights, or all are frozen");
    }
    if (auto fits = checkFits(**network, model.file, data); !fits) return std::move(fits).error();
  }
  if (model.weights.empty()) return network;
  auto weights = format::readSafetensors(model.weights);
  if (!weights) return std::move(weights).error().during("train.model.weights");
  if (auto loaded = loadWeights((*network)->parameters(), weights->arrays); !loaded) {
    return std::move(loaded).error().during("train.model.weights: " + model.weights);
  }
  return network;
}

}  // namespace dure::train
