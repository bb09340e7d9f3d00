#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "train/model_files.h"

namespace dure {
namespace {

using nlohmann::json;

const std::vector<std::pair<LayerType, const char*>>& layerWords() {
  static const std::vector<std::pair<LayerType, const char*>> words{
      {LayerType::kConv2d, "Conv2D"},
      {LayerType::kMaxPool2d, "MaxPooling2D"},
      {LayerType::kAveragePool2d, "AveragePooling2D"},
      {LayerType::kGlobalAveragePool2d, "GlobalAveragePooling2D"},
      {LayerType::kGlobalMaxPool2d, "GlobalMaxPooling2D"},
      {LayerType::kFlatten, "Flatten"},
      {LayerType::kDense, "Dense"},
      {LayerType::kDropout, "Dropout"},
      {LayerType::kEmbedding, "Embedding"},
      {LayerType::kGlobalAveragePool1d, "GlobalAveragePooling1D"},
      {LayerType::kGlobalMaxPool1d, "GlobalMaxPooling1D"},
      {LayerType::kLstm, "LSTM"},
      {LayerType::kActivation, "Activation"}};
  return words;
}

const std::vector<std::pair<Activation, const char*>>& activationWords() {
  static const std::vector<std::pair<Activation, const char*>> words{
      {Activation::kNone, "linear"},     {Activation::kRelu, "relu"},
      {Activation::kTanh, "tanh"},       {Activation::kSigmoid, "sigmoid"},
      {Activation::kSoftmax, "softmax"}, {Activation::kElu, "elu"},
      {Activation::kSelu, "selu"},       {Activation::kSoftplus, "softplus"}};
  return words;
}

template <typename Enum>
std::string wordFor(const std::vector<std::pair<Enum, const char*>>& words, Enum value) {
  for (const auto& [each, word] : words) {
    if (each == value) return word;
  }
  return "";
}

json initializer(const char* type, json config) {
  return {{"class_name", type}, {"config", std::move(config)}};
}

json glorot() { return initializer("GlorotUniform", {{"seed", nullptr}}); }
json zeros() { return initializer("Zeros", json::object()); }

json configOf(const Layer& layer) {
  json config = {{"trainable", true}, {"dtype", "float32"}};
  switch (layer.type) {
    case LayerType::kConv2d:
      config.update({{"filters", layer.units},
                     {"kernel_size", layer.kernel},
                     {"strides", layer.stride},
                     {"padding", layer.same_padding ? "same" : "valid"},
                     {"data_format", "channels_last"},
                     {"dilation_rate", {1, 1}},
                     {"groups", 1},
                     {"activation", wordFor(activationWords(), layer.activation)},
                     {"use_bias", layer.bias},
                     {"kernel_initializer", glorot()},
                     {"bias_initializer", zeros()}});
      break;
    case LayerType::kMaxPool2d:
    case LayerType::kAveragePool2d:
      config.update({{"pool_size", layer.kernel},
                     {"strides", layer.stride},
                     {"padding", layer.same_padding ? "same" : "valid"},
                     {"data_format", "channels_last"}});
      break;
    case LayerType::kGlobalAveragePool2d:
    case LayerType::kGlobalMaxPool2d:
    case LayerType::kFlatten:
    case LayerType::kGlobalAveragePool1d:
    case LayerType::kGlobalMaxPool1d:
      config["data_format"] = "channels_last";
      break;
    case LayerType::kDense:
      config.update({{"units", layer.units},
                     {"activation", wordFor(activationWords(), layer.activation)},
                     {"use_bias", layer.bias},
                     {"kernel_initializer", glorot()},
                     {"bias_initializer", zeros()}});
      break;
    case LayerType::kDropout:
      config.update({{"rate", layer.rate}, {"noise_shape", nullptr}, {"seed", nullptr}});
      break;
    case LayerType::kEmbedding:
      config.update({{"input_dim", layer.vocabulary},
                     {"output_dim", layer.units},
                     {"input_length", layer.input[0]},
                     {"mask_zero", false},
                     {"embeddings_initializer",
                      initializer("RandomUniform",
                                  {{"minval", -0.05}, {"maxval", 0.05}, {"seed", nullptr}})}});
      break;
    case LayerType::kLstm:
      config.update(
          {{"units", layer.units},
           {"activation", "tanh"},
           {"recurrent_activation", "sigmoid"},
           {"use_bias", true},
           {"unit_forget_bias", true},
           {"return_sequences", layer.return_sequences},
           {"return_state", false},
           {"go_backwards", false},
           {"stateful", false},
           {"unroll", false},
           {"dropout", 0.0},
           {"recurrent_dropout", 0.0},
           {"implementation", 2},
           {"kernel_initializer", glorot()},
           {"recurrent_initializer", initializer("Orthogonal", {{"gain", 1.0}, {"seed", nullptr}})},
           {"bias_initializer", zeros()}});
      break;
    case LayerType::kActivation:
      config["activation"] = wordFor(activationWords(), layer.activation);
      break;
  }
  return config;
}

// Keras keeps inputs before outputs, and channels last.
at::Tensor toKerasLayout(LayerType type, const at::Tensor& weight) {
  if (type == LayerType::kConv2d && weight.dim() == 4) return weight.permute({2, 3, 1, 0});
  if ((type == LayerType::kDense || type == LayerType::kLstm) && weight.dim() == 2)
    return weight.t();
  return weight;
}

at::Tensor fromKerasLayout(LayerType type, const at::Tensor& weight) {
  if (type == LayerType::kConv2d && weight.dim() == 4) return weight.permute({3, 2, 0, 1});
  return toKerasLayout(type, weight);
}

std::string kerasWeightName(LayerType type, const std::string& ours) {
  if (type == LayerType::kEmbedding) return "embeddings";
  if (ours == "weight_hh") return "recurrent_kernel";
  return ours == "bias" ? "bias" : "kernel";
}

// The names of a layer's weights, in the order in which Keras has them.
std::vector<std::string> weightNames(const Layer& layer) {
  switch (layer.type) {
    case LayerType::kConv2d:
    case LayerType::kDense:
      return layer.bias ? std::vector<std::string>{"weight", "bias"}
                        : std::vector<std::string>{"weight"};
    case LayerType::kEmbedding:
      return {"weight"};
    case LayerType::kLstm:
      return {"weight_ih", "weight_hh", "bias"};
    default:
      return {};
  }
}

// Throws json::exception where a field has another type than it should.
Result<Layer> layerOf(const KerasLayer& given) {
  const auto refuse = [&](const std::string& why) {
    return Error(Code::kInvalid, fmt::format("the layer {}: {}", given.name, why));
  };
  Layer layer{.name = given.name};
  const auto& words = layerWords();
  const auto found = std::find_if(words.begin(), words.end(),
                                  [&](const auto& each) { return each.second == given.type; });
  if (found == words.end())
    return refuse(given.type + " is not among the layers that can be trained here");
  layer.type = found->first;
  const json& config = given.config;
  const auto pair = [&](const char* name, std::vector<std::int64_t> otherwise) {
    if (!config.contains(name) || config[name].is_null()) return otherwise;
    if (config[name].is_number())
      return std::vector<std::int64_t>(2, config[name].get<std::int64_t>());
    return config[name].get<std::vector<std::int64_t>>();
  };
  const std::string activation = config.contains("activation") && config["activation"].is_string()
                                     ? config["activation"].get<std::string>()
                                     : "linear";
  bool known = false;
  for (const auto& [value, word] : activationWords()) {
    if (activation != word) continue;
    layer.activation = value;
    known = true;
  }
  if (!known) return refuse("the activation " + activation + " is not among those that are there");
  for (const char* name : {"data_format"}) {
    if (config.value(name, "channels_last") != "channels_last")
      return refuse("channels must come last");
  }
  for (const char* name : {"dilation_rate", "groups"}) {
    if (!config.contains(name)) continue;
    for (const std::int64_t value : pair(name, {1, 1})) {
      if (value != 1) return refuse(fmt::format("{} must be 1", name));
    }
  }
  layer.units =
      config.value("units", config.value("filters", config.value("output_dim", std::int64_t{0})));
  layer.vocabulary = config.value("input_dim", std::int64_t{0});
  layer.bias = config.value("use_bias", true);
  layer.rate = config.value("rate", 0.0);
  layer.return_sequences = config.value("return_sequences", false);
  layer.same_padding = config.value("padding", "valid") == "same";
  const bool pool = layer.type == LayerType::kMaxPool2d || layer.type == LayerType::kAveragePool2d;
  layer.kernel = pool ? pair("pool_size", {2, 2}) : pair("kernel_size", {1, 1});
  layer.stride = pair("strides", pool ? layer.kernel : std::vector<std::int64_t>{1, 1});
  if (layer.kernel.size() != 2 || layer.stride.size() != 2 ||
      *std::min_element(layer.kernel.begin(), layer.kernel.end()) < 1 ||
      *std::min_element(layer.stride.begin(), layer.stride.end()) < 1) {
    return refuse("a window and its strides must be two numbers above 0");
  }
  const bool has_units = !weightNames(layer).empty();
  if (has_units && layer.units < 1) return refuse("it must have 1 or more units");
  if (layer.type == LayerType::kEmbedding && layer.vocabulary < 1)
    return refuse("input_dim must be 1 or more");
  if (layer.rate < 0 || layer.rate >= 1) return refuse("its rate must be from 0 to below 1");
  if (layer.type == LayerType::kAveragePool2d && layer.same_padding)
    return refuse("padding must be valid");
  if (layer.type == LayerType::kLstm) {
    if (activation != "tanh" || config.value("recurrent_activation", "sigmoid") != "sigmoid" ||
        !layer.bias || config.value("go_backwards", false)) {
      return refuse("an LSTM must have tanh, sigmoid and a bias, and go forwards");
    }
  }
  if (layer.type == LayerType::kEmbedding && config.value("mask_zero", false))
    return refuse("mask_zero must be false");
  return layer;
}

// The shape of one sample, if the layer's configuration says it.
std::vector<std::int64_t> inputShape(const json& config) {
  for (const char* name : {"batch_input_shape", "batch_shape"}) {
    if (!config.contains(name) || !config[name].is_array()) continue;
    std::vector<std::int64_t> shape;
    for (std::size_t i = 1; i < config[name].size(); ++i) {
      if (!config[name][i].is_number_integer()) return {};
      shape.push_back(config[name][i].get<std::int64_t>());
    }
    return shape;
  }
  return {};
}

}  // namespace

KerasModel toKeras(const Architecture& architecture, const Parameters& parameters) {
  KerasModel model;
  json shape = json::array({nullptr});
  for (const std::int64_t size : architecture.input) shape.push_back(size);
  model.layers.push_back({.type = "InputLayer",
                          .name = "input",
                          .config = {{"batch_input_shape", shape},
                                     {"dtype", architecture.words ? "int32" : "float32"},
                                     {"sparse", false},
                                     {"ragged", false}}});
  std::map<std::string, const Parameter*> by_name;
  for (const Parameter& parameter : parameters.all()) by_name[parameter.name] = &parameter;
  for (const Layer& layer : architecture.layers) {
    KerasLayer made{
        .type = wordFor(layerWords(), layer.type), .name = layer.name, .config = configOf(layer)};
    for (const std::string& name : weightNames(layer)) {
      const at::Tensor& value = by_name.at(layer.name + "." + name)->value;
      made.weights.emplace_back(kerasWeightName(layer.type, name),
                                toArray(toKerasLayout(layer.type, value)));
    }
    model.layers.push_back(std::move(made));
  }
  return model;
}

Result<Architecture> fromKeras(const KerasModel& model) try {
  Architecture architecture;
  std::set<std::string> names;
  for (const KerasLayer& given : model.layers) {
    const auto shape = inputShape(given.config);
    if (!shape.empty() && architecture.input.empty()) architecture.input = shape;
    if (given.type == "InputLayer") continue;
    auto layer = layerOf(given);
    if (!layer) return std::move(layer).error();
    if (!names.insert(layer->name).second) {
      return Error(Code::kInvalid, fmt::format("two layers are called {}", layer->name));
    }
    architecture.layers.push_back(std::move(*layer));
  }
  if (architecture.layers.empty()) return Error(Code::kInvalid, "the model has no layers");
  architecture.words = architecture.layers.front().type == LayerType::kEmbedding;
  return architecture;
} catch (const json::exception&) {
  return Error(Code::kInvalid, "a layer's configuration has a value of the wrong kind");
}

NamedArrays weightsFromKeras(const KerasModel& model, const Architecture& architecture) {
  NamedArrays weights;
  for (const Layer& layer : architecture.layers) {
    const auto given =
        std::find_if(model.layers.begin(), model.layers.end(),
                     [&](const KerasLayer& each) { return each.name == layer.name; });
    const auto names = weightNames(layer);
    if (given == model.layers.end() || given->weights.size() != names.size()) continue;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const at::Tensor value = fromKerasLayout(layer.type, toTensor(given->weights[i].second));
      weights.emplace_back(layer.name + "." + names[i], toArray(value));
    }
  }
  return weights;
}

}  // namespace dure
