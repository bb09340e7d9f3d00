#include <fmt/core.h>
#include <torch/script.h>

#include <filesystem>

#include "base/files.h"
#include "train/model_files.h"
#include "train/network.h"
#include "train/reason.h"

namespace dure::train {
namespace {

// Gives every tensor memory of its own for as long as it lives. In a file, views of one buffer
// would each be the whole of it, or one and the same.
class MemoryOfTheirOwn {
 public:
  explicit MemoryOfTheirOwn(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {
    for (at::Tensor& tensor : tensors_) {
      views_.push_back(tensor.detach());
      tensor.set_data(tensor.detach().clone(at::MemoryFormat::Contiguous));
    }
  }
  MemoryOfTheirOwn(const MemoryOfTheirOwn&) = delete;
  MemoryOfTheirOwn& operator=(const MemoryOfTheirOwn&) = delete;
  // The last first: a tensor that is there twice gets back what it had before the first.
  ~MemoryOfTheirOwn() {
    for (std::size_t i = tensors_.size(); i-- > 0;) tensors_[i].set_data(views_[i]);
  }

 private:
  std::vector<at::Tensor> tensors_;
  std::vector<at::Tensor> views_;
};

class ScriptNetwork : public Network {
 public:
  explicit ScriptNetwork(torch::jit::Module module) : module_(std::move(module)) {
    std::vector<Parameters::Spec> specs;
    std::vector<at::Tensor> tensors;
    for (const auto& named : module_.named_parameters()) {
      specs.push_back({.name = named.name,
                       .shape = named.value.sizes().vec(),
                       .frozen = !named.value.requires_grad()});
      tensors.push_back(named.value);
    }
    parameters_ = std::make_unique<Parameters>(specs);
    at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      Parameter& parameter = (*parameters_)[i];
      parameter.value.copy_(tensors[i]);
      // The module's own tensor now lies in the flat buffers.
      tensors[i].set_data(parameter.value.detach());
      if (!specs[i].frozen) tensors[i].mutable_grad() = parameter.grad;
      parameter.value = tensors[i];
    }
    for (at::Tensor buffer : module_.buffers()) {
      buffer.set_data(buffer.contiguous());
      buffers_.push_back(buffer);
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

  Status save(const std::string& path, const ModelAbout& about) override {
    const std::string parent = std::filesystem::path(path).parent_path().string();
    if (!parent.empty()) {
      if (auto made = makeDirectories(parent); !made) return made;
    }
    if (path.ends_with(".safetensors")) {
      format::Safetensors content{.arrays = namedWeights(*parameters_),
                                  .metadata = about.metadata()};
      for (const auto& named : module_.named_buffers())
        content.arrays.emplace_back(named.name, toArray(named.value));
      content.metadata["format"] = "pt";
      return format::writeSafetensors(path, content);
    }
    if (!path.ends_with(".pt")) {
      return Error(Code::kInvalid, "a TorchScript module is written as .pt or .safetensors");
    }
    std::vector<at::Tensor> tensors;
    for (std::size_t i = 0; i < parameters_->size(); ++i)
      tensors.push_back((*parameters_)[i].value);
    const MemoryOfTheirOwn apart(std::move(tensors));
    module_.eval();
    addClassNames(module_, about.class_names);
    return saveTorchScript(path, module_, about.metadata());
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

// Whether saveLayers wrote it: its layers are modules of their own, named so.
bool isOfLayers(const torch::jit::Module& module) {
  const auto named = [](const torch::jit::Module& each) {
    return each.type()->name() ? each.type()->name()->name() : std::string();
  };
  if (named(module) != "Model" || module.children().size() == 0) return false;
  for (const torch::jit::Module child : module.children()) {
    if (!named(child).starts_with("Layer_")) return false;
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<Network>> loadScriptNetwork(const std::string& path) try {
  torch::jit::Module module = torch::jit::load(path, at::kCPU);
  // Its outputs are probabilities, and its images have their channels last.
  if (isOfLayers(module)) {
    return Error(Code::kInvalid,
                 path +
                     ": a model of Dure's own layers without their description, as older versions "
                     "wrote it; train from its .h5, or from its .safetensors as model.weights");
  }
  for (const auto& named : module.named_parameters()) {
    if (named.value.scalar_type() != at::kFloat) {
      return Error(Code::kInvalid,
                   fmt::format("{}: {} is not of 32-bit numbers", path, named.name));
    }
  }
  for (const auto& named : module.named_buffers()) {
    if (!isArrayType(named.value)) {
      return Error(Code::kInvalid, fmt::format("{}: {} is of numbers that no checkpoint can hold",
                                               path, named.name));
    }
  }
  return std::unique_ptr<Network>(std::make_unique<ScriptNetwork>(std::move(module)));
} catch (const std::exception& error) {
  // Not torch's own errors alone: its reader of archives and its parser have others.
  return Error(Code::kInvalid,
               fmt::format("{}: not a TorchScript module: {}", path, reasonOf(error)));
}

}  // namespace dure::train
