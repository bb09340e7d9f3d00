#include <fmt/core.h>
#include <torch/script.h>

#include <filesystem>

#include "base/files.h"
#include "train/model_files.h"
#include "train/network.h"

namespace dure {
namespace {

class ScriptNetwork : public Network {
 public:
  explicit ScriptNetwork(torch::jit::Module module) : module_(std::move(module)) {
    std::vector<Parameters::Spec> specs;
    std::vector<at::Tensor> tensors;
    for (const auto& named : module_.named_parameters()) {
      specs.push_back({named.name, named.value.sizes().vec()});
      tensors.push_back(named.value);
    }
    parameters_ = std::make_unique<Parameters>(specs);
    at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      Parameter& parameter = (*parameters_)[i];
      parameter.value.copy_(tensors[i]);
      // The module's own tensor now lies in the flat buffers.
      tensors[i].set_data(parameter.value.detach());
      tensors[i].set_requires_grad(true);
      tensors[i].mutable_grad() = parameter.grad;
      parameter.value = tensors[i];
    }
    for (const at::Tensor& buffer : module_.buffers()) {
      if (buffer.is_floating_point()) buffers_.push_back(buffer);
    }
  }

  std::vector<at::Tensor> buffers() override { return buffers_; }

  void beginStep(bool add) override {
    if (!add) parameters_->grads().zero_();
  }

  at::Tensor forward(const at::Tensor& input, const StepRandom* random) override {
    if (random != nullptr) {
      at::manual_seed(random->key ^ static_cast<std::uint64_t>(random->first_sample));
      module_.train();
    } else {
      module_.eval();
    }
    const at::Tensor output = module_.forward({channelsFirst(input)}).toTensor();
    return output.dim() > 2 ? output.flatten(1) : output;
  }

  Status save(const std::string& path, const std::map<std::string, std::string>& about) override {
    const std::string parent = std::filesystem::path(path).parent_path().string();
    if (!parent.empty()) {
      if (auto made = makeDirectories(parent); !made) return made;
    }
    if (path.ends_with(".safetensors")) {
      Safetensors content{.arrays = namedWeights(*parameters_), .metadata = about};
      for (const auto& named : module_.named_buffers())
        content.arrays.emplace_back(named.name, toArray(named.value));
      content.metadata["format"] = "pt";
      return writeSafetensors(path, content);
    }
    if (!path.ends_with(".pt")) {
      return Error(Code::kInvalid, "a TorchScript module is written as .pt or .safetensors");
    }
    torch::jit::Module copy = module_.deepcopy();
    copy.eval();
    return saveTorchScript(path, copy, about);
  }

 private:
  // Images come with their channels last, and modules expect them first.
  static at::Tensor channelsFirst(const at::Tensor& input) {
    if (!input.is_floating_point()) return input;
    if (input.dim() == 3) return input.unsqueeze(1);
    if (input.dim() == 4) return input.permute({0, 3, 1, 2}).contiguous();
    return input;
  }

  torch::jit::Module module_;
  std::vector<at::Tensor> buffers_;
};

}  // namespace

Result<std::unique_ptr<Network>> loadScriptNetwork(const std::string& path) try {
  torch::jit::Module module = torch::jit::load(path, at::kCPU);
  for (const auto& named : module.named_parameters()) {
    if (named.value.scalar_type() != at::kFloat) {
      return Error(Code::kInvalid,
                   fmt::format("{}: {} is not of 32-bit numbers", path, named.name));
    }
  }
  return std::unique_ptr<Network>(std::make_unique<ScriptNetwork>(std::move(module)));
} catch (const c10::Error& error) {
  const std::string text = error.what_without_backtrace();
  return Error(Code::kInvalid, fmt::format("{}: not a TorchScript module: {}", path,
                                           text.substr(0, text.find('\n'))));
}

Result<std::unique_ptr<Network>> makeNetwork(const Train& train, const DataShape& data) {
  const Model& model = train.model;
  Result<std::unique_ptr<Network>> network(Error(Code::kInvalid, ""));
  if (!model.file.empty() && !fileExists(model.file)) {
    return Error(Code::kNotFound, "train.model.file: there is no " + model.file);
  }
  if (model.file.ends_with(".pt")) {
    network = loadScriptNetwork(model.file);
  } else {
    NamedArrays weights;
    auto architecture = [&]() -> Result<Architecture> {
      if (model.file.empty()) return builtInModel(model, data);
      auto keras = readKeras(model.file);
      if (!keras) return std::move(keras).error();
      auto made = fromKeras(*keras);
      if (!made) return std::move(made).error().during(model.file);
      made->input = data.sample;
      const bool image = made->layers.front().type == LayerType::kConv2d;
      if (image && made->input.size() == 2) made->input.push_back(1);
      if (auto connected = connect(*made); !connected)
        return std::move(connected).error().during(model.file);
      if (data.classes > 0 && outputsOf(*made) != data.classes &&
          !(data.classes == 2 && outputsOf(*made) == 1)) {
        return Error(Code::kInvalid,
                     fmt::format("{}: the model gives {} numbers, and the data has {} classes",
                                 model.file, outputsOf(*made), data.classes));
      }
      weights = weightsFromKeras(*keras, *made);
      return made;
    }();
    if (!architecture) return std::move(architecture).error();
    network = makeLayerNetwork(std::move(*architecture), train.seed);
    if (network && !weights.empty()) {
      if (auto loaded = loadWeights((*network)->parameters(), weights); !loaded) {
        return std::move(loaded).error().during(model.file);
      }
    }
  }
  if (!network || model.weights.empty()) return network;
  auto weights = readSafetensors(model.weights);
  if (!weights) return std::move(weights).error().during("train.model.weights");
  if (auto loaded = loadWeights((*network)->parameters(), weights->arrays); !loaded) {
    return std::move(loaded).error().during("train.model.weights: " + model.weights);
  }
  return network;
}

}  // namespace dure
