#include <caffe2/serialize/inline_container.h>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <torch/script.h>

#include <algorithm>
#include <set>
#include <span>
#include <sstream>

#include "base/files.h"
#include "base/text.h"
#include "format/keras_config.h"
#include "format/keras_parse.h"
#include "train/model_files.h"
#include "train/reason.h"

namespace dure::train {
namespace {

// Where the archive of a module holds what we say about it.
constexpr const char* kFolder = "dure/";

// What a module must not be called: the words of the language, and what a module has already.
bool isTaken(const std::string& name) {
  static const std::set<std::string> taken{
      "False",   "None",        "True",     "and",      "as",       "assert",     "async",
      "await",   "break",       "class",    "continue", "def",      "del",        "elif",
      "else",    "except",      "finally",  "for",      "from",     "global",     "if",
      "import",  "in",          "is",       "lambda",   "nonlocal", "not",        "or",
      "pass",    "raise",       "return",   "try",      "while",    "with",       "yield",
      "forward", "class_names", "training", "train",    "eval",     "parameters", "buffers",
      "modules", "children",    "apply",    "to",       "type",     "float",      "half",
      "double",  "copy",        "save",     "code",     "graph",    "zero_grad",  "state_dict",
      "print"};
  return taken.count(name) > 0 || name.starts_with("__");
}

// Layers' names as TorchScript can write them: Keras allows "dense-1", and what not. Names that are
// words already stay what they are.
std::map<std::string, std::string> scriptNames(const Architecture& architecture) {
  std::map<std::string, std::string> names;
  std::set<std::string> used;
  const auto word = [](const std::string& name) {
    const auto fits = [](char c) {
      return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    };
    std::string made = name;
    for (char& c : made) {
      if (!fits(c)) c = '_';
    }
    if (made.empty() || (made[0] >= '0' && made[0] <= '9') || isTaken(made)) made = "layer_" + made;
    return made;
  };
  // First those that need no change, so that nothing made up takes a name from them.
  for (const Layer& layer : architecture.layers) {
    if (word(layer.name) == layer.name) used.insert(names[layer.name] = layer.name);
  }
  for (const Layer& layer : architecture.layers) {
    if (names.count(layer.name) > 0) continue;
    const std::string base = word(layer.name);
    std::string name = base;
    for (int number = 1; !used.insert(name).second; ++number)
      name = fmt::format("{}_{}", base, number);
    names[layer.name] = name;
  }
  return names;
}

std::string activationCall(Activation activation) {
  switch (activation) {
    case Activation::kRelu:
      return "torch.relu(x)";
    case Activation::kTanh:
      return "torch.tanh(x)";
    case Activation::kSigmoid:
      return "torch.sigmoid(x)";
    case Activation::kSoftmax:
      return "torch.softmax(x, -1)";
    case Activation::kElu:
      return "torch.elu(x)";
    case Activation::kSelu:
      return "torch.selu(x)";
    case Activation::kSoftplus:
      return "torch.nn.functional.softplus(x)";
    case Activation::kNone:
      break;
  }
  return "";
}

std::string call(const Layer& layer, const std::string& name) {
  const std::string kernel = fmt::format("[{}]", fmt::join(layer.kernel, ", "));
  const std::string stride = fmt::format("[{}]", fmt::join(layer.stride, ", "));
  const std::string self = "self." + name;
  const std::string bias = layer.bias ? self + ".bias" : "None";
  switch (layer.type) {
    case LayerType::kConv2d:
      return fmt::format("torch.conv2d(x, {}.weight, {}, {})", self, bias, stride);
    case LayerType::kMaxPool2d:
      return fmt::format("torch.max_pool2d(x, {}, {})", kernel, stride);
    case LayerType::kAveragePool2d:
      return fmt::format("torch.avg_pool2d(x, {}, {})", kernel, stride);
    case LayerType::kGlobalAveragePool2d:
      return "torch.mean(x, [2, 3])";
    case LayerType::kGlobalMaxPool2d:
      return "torch.amax(x, [2, 3])";
    case LayerType::kFlatten:
      return layer.input.size() == 3 ? "torch.flatten(torch.permute(x, [0, 2, 3, 1]), 1)"
                                     : "torch.flatten(x, 1)";
    case LayerType::kDense:
      return layer.bias ? fmt::format("torch.addmm({0}.bias, x, torch.t({0}.weight))", self)
                        : fmt::format("torch.mm(x, torch.t({}.weight))", self);
    case LayerType::kEmbedding:
      return fmt::format("torch.embedding({}.weight, x)", self);
    case LayerType::kGlobalAveragePool1d:
      return "torch.mean(x, [1])";
    case LayerType::kGlobalMaxPool1d:
      return "torch.amax(x, [1])";
    case LayerType::kLstm:
    case LayerType::kDropout:
    case LayerType::kActivation:
      break;
  }
  return "x";
}

// One layer in lines of the body.
std::string linesOf(const Layer& layer, const std::string& name) {
  std::string lines;
  const auto line = [&](const std::string& text) { lines += "    " + text + "\n"; };
  if (layer.type == LayerType::kLstm) {
    line(fmt::format("h = torch.zeros([1, x.size(0), {}], dtype=x.dtype, device=x.device)",
                     layer.units));
    line(fmt::format(
        "r = torch.lstm(x, [h, h], [self.{0}.weight_ih, self.{0}.weight_hh, self.{0}.bias, "
        "torch.zeros_like(self.{0}.bias)], True, 1, 0.0, False, False, True)",
        name));
    line(layer.return_sequences ? "x = r[0]" : "x = r[1][0]");
    return lines;
  }
  const std::string padding =
      layer.same_padding ? fmt::format("[{}]", fmt::join(samePadding(layer), ", ")) : "";
  if (!padding.empty() && layer.type == LayerType::kConv2d) {
    line(fmt::format("x = torch.constant_pad_nd(x, {}, 0.0)", padding));
  } else if (!padding.empty()) {
    line(fmt::format("x = torch.constant_pad_nd(x, {}, float('-inf'))", padding));
  }
  const std::string made = call(layer, name);
  if (made != "x") line("x = " + made);
  const std::string activation = activationCall(layer.activation);
  if (!activation.empty()) line("x = " + activation);
  return lines;
}

// The layers with their weights, each a module of its own, in evaluation mode.
torch::jit::Module scriptModule(const Architecture& architecture, const Parameters& parameters) {
  torch::jit::Module module("Model");
  std::map<std::string, torch::jit::Module> children;
  const auto names = scriptNames(architecture);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    const std::size_t dot = parameter.name.rfind('.');
    const std::string& layer = names.at(parameter.name.substr(0, dot));
    auto child = children.find(layer);
    if (child == children.end()) {
      const torch::jit::Module made("Layer_" + layer, module._ivalue()->compilation_unit());
      child = children.emplace(layer, made).first;
    }
    // Whoever goes on training it finds what is frozen still frozen.
    at::Tensor value = parameter.value.detach().clone(at::MemoryFormat::Contiguous);
    value.requires_grad_(parameter.value.requires_grad());
    child->second.register_parameter(parameter.name.substr(dot + 1), value, false);
  }
  // Python asks every module for it, and torch.jit.freeze does.
  const auto set_mode = [](torch::jit::Module each) {
    each.register_attribute("training", c10::BoolType::get(), false);
  };
  for (const auto& [name, child] : children) {
    set_mode(child);
    module.register_module(name, child);
  }
  set_mode(module);
  return module;
}

// What saveTorchScript put beside the module; nothing if there is no such file in it.
std::optional<std::string> readExtra(const std::string& path, const std::string& name) try {
  caffe2::serialize::PyTorchStreamReader reader(path);
  const std::string record = std::string("extra/") + kFolder + name;
  if (!reader.hasRecord(record)) return std::nullopt;
  const auto [data, size] = reader.getRecord(record);
  return std::string(static_cast<const char*>(data.get()), size);
} catch (const std::exception&) {
  return std::nullopt;
}

}  // namespace

ModelAbout readScriptAbout(const std::string& path) {
  std::map<std::string, std::string> texts;
  for (const char* name : ModelAbout::kMetadataNames) {
    if (auto text = readExtra(path, name)) texts[name] = *std::move(text);
  }
  ModelAbout about;
  about.readMetadata(texts);
  return about;
}

std::string toTorchScript(const Architecture& architecture, const ModelAbout& about) {
  std::string source = "def forward(self, x):\n";
  const auto line = [&](const std::string& text) { source += "    " + text + "\n"; };
  line(architecture.words ? "x = x.long()" : "x = x.float()");
  if (about.scaling != format::Scaling()) {
    line(fmt::format("x = x * {} + ({})", double{about.scaling.factor},
                     double{about.scaling.offset}));
  }
  const auto& shape = architecture.input;
  line(fmt::format("x = torch.reshape(x, [-1, {}])", fmt::join(shape, ", ")));
  if (shape.size() == 3) line("x = torch.permute(x, [0, 3, 1, 2])");
  const auto names = scriptNames(architecture);
  for (const Layer& layer : architecture.layers) source += linesOf(layer, names.at(layer.name));
  return source + "    return x\n";
}

void addClassNames(torch::jit::Module& module, const std::vector<std::string>& names) {
  c10::List<std::string> list;
  for (const std::string& name : names) list.push_back(toValidUtf8(name));
  const auto type = c10::ListType::create(c10::StringType::get());
  if (!module.hasattr("class_names")) module.register_attribute("class_names", type, list);
}

Status saveTorchScript(const std::string& path, const torch::jit::Module& module,
                       const std::map<std::string, std::string>& about) {
  // In memory first: torch's own way into a file ends the process if the disk is full.
  std::ostringstream bytes;
  try {
    torch::jit::ExtraFilesMap extra;
    for (const auto& [name, text] : about) extra[kFolder + name] = text;
    module.save(bytes, extra);
  } catch (const std::exception& error) {
    return Error(Code::kInvalid, path + ": " + std::string(error.what()).substr(0, 200));
  }
  return replaceFile(path, bytes.view());
}

Status saveLayers(const std::string& path, const Architecture& architecture,
                  const Parameters& parameters, const ModelAbout& about) try {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  if (!parent.empty()) {
    if (auto made = makeDirectories(parent); !made) return made;
  }
  if (path.ends_with(".h5"))
    return format::writeKeras(path, toKeras(architecture, parameters, about));
  if (path.ends_with(".safetensors")) {
    format::Safetensors content{.arrays = namedWeights(parameters), .metadata = about.metadata()};
    content.metadata["format"] = "pt";
    content.metadata[kArchitecture] = describeLayers(architecture, parameters, about);
    return format::writeSafetensors(path, content);
  }
  torch::jit::Module module = scriptModule(architecture, parameters);
  addClassNames(module, about.class_names);
  module.define(toTorchScript(architecture, about));
  auto extra = about.metadata();
  extra[kArchitecture] = describeLayers(architecture, parameters, about);
  return saveTorchScript(path, module, extra);
} catch (const std::exception& error) {
  return Error(Code::kInvalid, path + ": " + std::string(error.what()).substr(0, 200));
}

Result<std::optional<LayerFile>> readLayerScript(const std::string& path) {
  const auto text = readExtra(path, kArchitecture);
  if (!text) return std::optional<LayerFile>();
  const format::FileBytes bytes{.name = path,
                                .bytes = std::as_bytes(std::span(text->data(), text->size())),
                                .owner = nullptr};
  auto described = format::parseKeras(bytes);
  if (!described) return std::move(described).error();
  auto architecture = fromKeras(*described);
  if (!architecture) return std::move(architecture).error().during(path);
  LayerFile read{
      .architecture = std::move(*architecture), .weights = {}, .about = readScriptAbout(path)};
  try {
    const torch::jit::Module module = torch::jit::load(path, at::kCPU);
    std::map<std::string, std::string> layers;  // by their names in the module
    for (const auto& [layer, name] : scriptNames(read.architecture)) layers[name] = layer;
    for (const auto& named : module.named_parameters()) {
      const std::size_t dot = std::min(named.name.rfind('.'), named.name.size());
      const auto layer = layers.find(named.name.substr(0, dot));
      if (layer == layers.end() || !isArrayType(named.value))
        return Error(Code::kInvalid,
                     fmt::format("{}: {} is no weight of a layer", path, named.name));
      read.weights.emplace_back(layer->second + named.name.substr(dot), toArray(named.value));
    }
  } catch (const std::exception& error) {
    return Error(Code::kInvalid,
                 fmt::format("{}: not a TorchScript module: {}", path, reasonOf(error)));
  }
  return std::optional<LayerFile>(std::move(read));
}

}  // namespace dure::train
