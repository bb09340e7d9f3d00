#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/script.h>

#include "base/files.h"
#include "predict/torch_model.h"
#include "train/checkpoint_store.h"
#include "train/model_files.h"
#include "train/network.h"
#include "train/reason.h"

namespace dure::predict {
namespace {

bool looksLikeImage(const std::vector<std::int64_t>& shape) {
  if (shape.size() == 2) return shape[0] >= 4 && shape[1] >= 4;
  return shape.size() == 3 && (shape[2] == 1 || shape[2] == 3);
}

// What the page and the clients are told of the type of samples.
std::string typeOfSamples(const train::ModelAbout& about, bool words) {
  if (words) return "int32";
  const bool bytes =
      about.sample_type == "uint8" ||
      (about.sample_type.empty() && std::abs(about.scaling.factor * 255 - 1) < 1e-3F);
  return bytes ? "uint8" : "float32";
}

const char* activationName(train::Activation activation) {
  return activation == train::Activation::kSoftmax   ? "softmax"
         : activation == train::Activation::kSigmoid ? "sigmoid"
                                                     : "none";
}

void describeAbout(const train::ModelAbout& about, serve::ModelInfo& info) {
  info.class_names = about.class_names;
  info.trained = about.trained;
  info.dtype = typeOfSamples(about, info.words);
  if (info.words) {
    info.kind = serve::InputKind::kText;
    const std::int64_t known =
        info.vocabulary > 0 ? info.vocabulary : std::numeric_limits<std::int64_t>::max();
    info.index = serve::WordIndex(about.word_lines, known);
  } else if (looksLikeImage(info.shape)) {
    info.kind = serve::InputKind::kImage;
  }
}

class LayerModel : public TorchModel {
 public:
  LayerModel(std::unique_ptr<train::Network> network, serve::ModelInfo info,
             const format::Scaling& scaling)
      : network_(std::move(network)) {
    info_ = std::move(info);
    scaling_ = scaling;
  }

  // Evaluation changes nothing in a network of layers.
  at::Tensor scores(const at::Tensor& samples) const override {
    return network_->forward(samples, nullptr);
  }

 private:
  std::unique_ptr<train::Network> network_;
};

class ScriptModel : public TorchModel {
 public:
  ScriptModel(torch::jit::Module module, serve::ModelInfo info, const format::Scaling& scaling)
      : module_(std::move(module)) {
    info_ = std::move(info);
    scaling_ = scaling;
  }

  at::Tensor scores(const at::Tensor& samples) const override {
    at::Tensor input = samples;
    // As training gave it images: channels first. A stranger's module gets what the caller sent.
    if (!info_.any_shape && !info_.words && input.dim() == 3) input = input.unsqueeze(1);
    if (!info_.any_shape && !info_.words && samples.dim() == 4)
      input = input.permute({0, 3, 1, 2}).contiguous();
    torch::jit::Module module = module_;  // shares everything
    const c10::IValue output = module.forward({input});
    if (output.isTensor()) return output.toTensor();
    if (output.isTuple() && !output.toTupleRef().elements().empty() &&
        output.toTupleRef().elements()[0].isTensor())
      return output.toTupleRef().elements()[0].toTensor();
    TORCH_CHECK(false, "it gives no tensor");
  }

 private:
  torch::jit::Module module_;
};

using Loaded = Result<std::shared_ptr<const TorchModel>>;

// Every weight must come from the file: those that are frozen, too, which training may do without.
Status checkAllWeights(const train::Network& network, const format::NamedArrays& weights) {
  std::set<std::string> there;
  for (const auto& [name, array] : weights) there.insert(name);
  const train::Parameters& parameters = const_cast<train::Network&>(network).parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (there.count(parameters[i].name) == 0)
      return Error(Code::kInvalid, fmt::format("there is no weight {}", parameters[i].name));
  }
  return {};
}

Loaded makeLayerModel(const std::string& path, train::LayerFile file) {
  train::Architecture& architecture = file.architecture;
  if (architecture.input.empty()) architecture.input = file.about.sample;
  if (architecture.input.empty())
    return Error(Code::kInvalid, path + ": the file does not say the shape of a sample");
  const bool image = architecture.layers.front().type == train::LayerType::kConv2d;
  if (image && architecture.input.size() == 2) architecture.input.push_back(1);
  if (auto connected = connect(architecture); !connected)
    return std::move(connected).error().during(path);
  serve::ModelInfo info;
  info.words = architecture.words;
  info.vocabulary = info.words ? architecture.layers.front().vocabulary : 0;
  info.outputs = outputsOf(architecture);
  info.activation = activationName(architecture.layers.back().activation);
  info.shape = architecture.input;
  // The layer that scales says it best.
  const format::Scaling scaling = architecture.scaling.value_or(file.about.scaling);
  file.about.scaling = scaling;
  describeAbout(file.about, info);
  auto network = train::makeLayerNetwork(std::move(architecture), 0);
  if (!network) return std::move(network).error().during(path);
  if (file.weights.empty()) return Error(Code::kInvalid, path + ": the file has no weights");
  if (auto complete = checkAllWeights(**network, file.weights); !complete)
    return std::move(complete).error().during(path);
  if (auto loaded = loadWeights((*network)->parameters(), file.weights); !loaded)
    return std::move(loaded).error().during(path);
  train::Parameters& parameters = (*network)->parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) info.parameters += parameters[i].count;
  return std::shared_ptr<const TorchModel>(
      std::make_shared<LayerModel>(*std::move(network), std::move(info), scaling));
}

// Whether what a module gets first goes into an embedding: then it takes words.
bool takesWords(const torch::jit::Module& module) {
  auto graph = module.get_method("forward").graph()->copy();
  torch::jit::Inline(*graph);
  if (graph->inputs().size() < 2) return false;
  for (const auto& use : graph->inputs()[1]->uses()) {
    const std::string kind = use.user->kind().toQualString();
    if (kind.find("embedding") != std::string::npos) return true;
  }
  return false;
}

Loaded loadScript(const std::string& path) try {
  torch::jit::Module module = torch::jit::load(path, at::kCPU);
  module.eval();
  const train::ModelAbout about = train::readScriptAbout(path);
  serve::ModelInfo info;
  info.shape = about.sample;
  info.any_shape = about.sample.empty();
  info.words = info.any_shape ? takesWords(module) : about.words;
  info.vocabulary = about.words ? about.vocabulary : 0;
  for (const at::Tensor& parameter : module.parameters()) info.parameters += parameter.numel();
  describeAbout(about, info);
  if (module.hasattr("class_names") && info.class_names.empty()) {
    const c10::IValue names = module.attr("class_names");
    if (names.isList()) {
      for (const c10::IValue& name : names.toListRef()) {
        if (name.isString()) info.class_names.push_back(name.toStringRef());
      }
    }
  }
  return std::shared_ptr<const TorchModel>(std::make_shared<ScriptModel>(
      std::move(module), std::move(info), about.words ? format::Scaling() : about.scaling));
} catch (const std::exception& error) {
  return Error(Code::kInvalid,
               fmt::format("{}: not a TorchScript module: {}", path, train::reasonOf(error)));
}

// The newest checkpoint that is whole.
Loaded loadCheckpoint(const std::string& path) {
  const auto search = train::CheckpointStore::view(path).findNewest();
  if (!search) return search.error();
  if (!search->found)
    return Error(Code::kNotFound, fmt::format("there is no whole checkpoint in {}", path));
  const std::string file = search->found->directory + "/model.safetensors";
  auto layers = train::readLayerTensors(file);
  if (!layers) return std::move(layers).error();
  return makeLayerModel(file, *std::move(layers));
}

}  // namespace

Loaded loadTorchModel(const std::string& path) try {
  struct stat about {};
  if (stat(path.c_str(), &about) != 0)
    return Error(Code::kNotFound, fmt::format("there is no model {}", path));
  if (S_ISDIR(about.st_mode)) return loadCheckpoint(path);
  auto layers = train::readLayerFile(path);
  if (!layers) return std::move(layers).error();
  if (*layers) return makeLayerModel(path, **std::move(layers));
  return loadScript(path);
} catch (const std::bad_alloc&) {
  return Error(Code::kUnavailable, path + ": there is not enough memory to load it");
} catch (const std::exception& error) {
  return Error(Code::kInvalid, path + ": " + train::reasonOf(error));
}

}  // namespace dure::predict
