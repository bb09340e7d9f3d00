#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "train/model_files.h"

namespace dure::train {
namespace {

using nlohmann::json;

constexpr const char* kRescaling = "Rescaling";
// Larger than any image, and small enough to be multiplied.
constexpr std::int64_t kMostWindow = 1 << 20;

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
  json config = {{"trainable", !layer.frozen}, {"dtype", "float32"}};
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

// Options that change what a layer gives or learns, each with the only value that is there.
const std::vector<std::pair<const char*, json>>& onlyValues() {
  static const std::vector<std::pair<const char*, json>> values{{"data_format", "channels_last"},
                                                                {"dilation_rate", 1},
                                                                {"groups", 1},
                                                                {"keepdims", false},
                                                                {"noise_shape", nullptr},
                                                                {"mask_zero", false},
                                                                {"recurrent_activation", "sigmoid"},
                                                                {"dropout", 0},
                                                                {"recurrent_dropout", 0},
                                                                {"return_state", false},
                                                                {"go_backwards", false},
                                                                {"stateful", false},
                                                                {"time_major", false},
                                                                {"activity_regularizer", nullptr},
                                                                {"kernel_regularizer", nullptr},
                                                                {"bias_regularizer", nullptr},
                                                                {"recurrent_regularizer", nullptr},
                                                                {"embeddings_regularizer", nullptr},
                                                                {"kernel_constraint", nullptr},
                                                                {"bias_constraint", nullptr},
                                                                {"recurrent_constraint", nullptr},
                                                                {"embeddings_constraint", nullptr}};
  return values;
}

// Options that say how the first weights are drawn, with what is drawn here, as Keras and others
// call it. What an LSTM's recurrent weights are drawn from is not among them.
const std::vector<std::pair<const char*, std::set<std::string>>>& firstWeights() {
  static const std::vector<std::pair<const char*, std::set<std::string>>> values{
      {"kernel_initializer",
       {"glorot_uniform", "GlorotUniform", "glorot_normal", "GlorotNormal", "VarianceScaling"}},
      {"bias_initializer", {"zeros", "Zeros"}},
      {"embeddings_initializer", {"uniform", "random_uniform", "RandomUniform"}}};
  return values;
}

// What a value is called: "L2" for {"class_name": "L2", …}.
std::string nameOf(const json& value) {
  if (value.is_object() && value.contains("class_name") && value["class_name"].is_string())
    return value["class_name"].get<std::string>();
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// What the configuration of a layer says. Members throw json::exception where a field has another
// type than it should.
class LayerReader {
 public:
  explicit LayerReader(const format::KerasLayer& given) : given_(given), config_(given.config) {}

  Result<Layer> read() {
    layer_.name = given_.name;
    layer_.frozen = !config_.value("trainable", true);
    for (const auto part :
         {&LayerReader::readType, &LayerReader::readActivation, &LayerReader::checkOptions,
          &LayerReader::checkFirstWeights, &LayerReader::readSizes, &LayerReader::readWindow}) {
      if (auto done = (this->*part)(); !done) return std::move(done).error();
    }
    return layer_;
  }

 private:
  Error refuse(const std::string& why) const {
    return Error(Code::kInvalid, fmt::format("the layer {}: {}", given_.name, why));
  }

  bool has(const char* name) const { return config_.contains(name) && !config_[name].is_null(); }

  // One number stands for two.
  std::vector<std::int64_t> pair(const char* name, std::vector<std::int64_t> otherwise) const {
    if (!has(name)) return otherwise;
    if (config_[name].is_number()) {
      return std::vector<std::int64_t>(2, config_[name].get<std::int64_t>());
    }
    return config_[name].get<std::vector<std::int64_t>>();
  }

  Status readType() {
    const auto& words = layerWords();
    const auto found = std::find_if(words.begin(), words.end(),
                                    [&](const auto& each) { return each.second == given_.type; });
    if (found == words.end())
      return refuse(given_.type + " is not among the layers that can be trained here");
    layer_.type = found->first;
    return {};
  }

  Status readActivation() {
    const std::string word = has("activation")                 ? nameOf(config_["activation"])
                             : layer_.type == LayerType::kLstm ? "tanh"
                                                               : "linear";
    const auto& words = activationWords();
    const auto found = std::find_if(words.begin(), words.end(), [&](const auto& each) {
      return each.second == word && (!has("activation") || config_["activation"].is_string());
    });
    if (found == words.end())
      return refuse("the activation " + word + " is not among those that are there");
    layer_.activation = found->first;
    if (layer_.type == LayerType::kLstm && word != "tanh")
      return refuse("the activation of an LSTM must be tanh");
    return {};
  }

  Status checkOptions() {
    for (const auto& [name, only] : onlyValues()) {
      if (!has(name)) continue;
      const json& value = config_[name];
      const bool same =
          value.is_array() && !value.empty()
              ? std::all_of(value.begin(), value.end(),
                            [&, want = &only](const json& each) { return each == *want; })
              : value == only;
      if (!same)
        return refuse(fmt::format("{} must be {}, not {}", name, only.dump(), nameOf(value)));
    }
    const std::string type = has("dtype") ? nameOf(config_["dtype"]) : "float32";
    if (type.find("float16") != std::string::npos || type == "float64")
      return refuse("dtype must be float32, not " + type);
    return {};
  }

  // They do not matter where the file has the weights.
  Status checkFirstWeights() {
    if (!given_.weights.empty()) return {};
    for (const auto& [name, known] : firstWeights()) {
      if (!has(name) || known.count(nameOf(config_[name])) > 0) continue;
      return refuse(fmt::format("{} must be {}, not {}, where the file has no weights", name,
                                *known.begin(), nameOf(config_[name])));
    }
    return {};
  }

  Status readSizes() {
    layer_.units = config_.value(
        "units", config_.value("filters", config_.value("output_dim", std::int64_t{0})));
    layer_.vocabulary = config_.value("input_dim", std::int64_t{0});
    layer_.bias = config_.value("use_bias", true);
    layer_.rate = config_.value("rate", 0.0);
    layer_.return_sequences = config_.value("return_sequences", false);
    if (!weightNames(layer_).empty() && layer_.units < 1)
      return refuse("it must have 1 or more units");
    if (layer_.type == LayerType::kEmbedding && layer_.vocabulary < 1)
      return refuse("input_dim must be 1 or more");
    if (layer_.rate < 0 || layer_.rate >= 1) return refuse("its rate must be from 0 to below 1");
    if (layer_.type == LayerType::kLstm && !layer_.bias)
      return refuse("use_bias of an LSTM must be true");
    return {};
  }

  Status readWindow() {
    const std::string padding = config_.value("padding", "valid");
    if (padding != "valid" && padding != "same")
      return refuse("padding must be valid or same, not " + padding);
    layer_.same_padding = padding == "same";
    const bool average = layer_.type == LayerType::kAveragePool2d;
    const bool pool = layer_.type == LayerType::kMaxPool2d || average;
    layer_.kernel = pool ? pair("pool_size", {2, 2}) : pair("kernel_size", {1, 1});
    layer_.stride = pair("strides", pool ? layer_.kernel : std::vector<std::int64_t>{1, 1});
    if (layer_.kernel.size() != 2 || layer_.stride.size() != 2 ||
        *std::min_element(layer_.kernel.begin(), layer_.kernel.end()) < 1 ||
        *std::min_element(layer_.stride.begin(), layer_.stride.end()) < 1 ||
        *std::max_element(layer_.kernel.begin(), layer_.kernel.end()) > kMostWindow ||
        *std::max_element(layer_.stride.begin(), layer_.stride.end()) > kMostWindow) {
      return refuse(
          fmt::format("a window and its strides must be two numbers from 1 to {}", kMostWindow));
    }
    if (average && layer_.same_padding) return refuse("padding must be valid");
    return {};
  }

  const format::KerasLayer& given_;
  const json& config_;
  Layer layer_;
};

// A name that no layer has: "input", "input_1", …
std::string freeName(const Architecture& architecture, const std::string& base) {
  std::string name = base;
  const auto taken = [&] {
    return std::any_of(architecture.layers.begin(), architecture.layers.end(),
                       [&](const Layer& layer) { return layer.name == name; });
  };
  for (int number = 1; taken(); ++number) name = fmt::format("{}_{}", base, number);
  return name;
}

// What a Rescaling layer does. Throws json::exception where a field is missing or of another type.
Result<format::Scaling> readRescaling(const format::KerasLayer& given) {
  const auto refuse = [&](const char* why) {
    return Error(Code::kInvalid, fmt::format("the layer {}: {}", given.name, why));
  };
  const json& scale = given.config.at("scale");
  const json offset = given.config.value("offset", json(0));
  if (!scale.is_number() || !offset.is_number())
    return refuse("scale and offset must be one number each");
  const format::Scaling made{.factor = scale.get<float>(), .offset = offset.get<float>()};
  if (!std::isfinite(made.factor) || !std::isfinite(made.offset))
    return refuse("scale and offset must be finite");
  return made;
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

format::KerasModel toKeras(const Architecture& architecture, const Parameters& parameters,
                           const ModelAbout& about) {
  format::KerasModel model;
  json shape = json::array({nullptr});
  for (const std::int64_t size : architecture.input) shape.push_back(size);
  model.layers.push_back({.type = "InputLayer",
                          .name = freeName(architecture, "input"),
                          .config = {{"batch_input_shape", shape},
                                     {"dtype", architecture.words ? "int32" : "float32"},
                                     {"sparse", false},
                                     {"ragged", false}}});
  if (about.scaling != format::Scaling()) {
    model.layers.push_back({.type = kRescaling,
                            .name = freeName(architecture, "rescaling"),
                            .config = {{"trainable", true},
                                       {"dtype", "float32"},
                                       {"scale", about.scaling.factor},
                                       {"offset", about.scaling.offset}}});
  }
  if (!about.class_names.empty())
    model.attributes["class_names"] = classNamesText(about.class_names);
  if (!about.sample_type.empty()) model.attributes["input_type"] = about.sample_type;
  model.attributes.insert(about.trained.begin(), about.trained.end());
  model.words = about.word_lines;
  std::map<std::string, const Parameter*> by_name;
  for (std::size_t i = 0; i < parameters.size(); ++i) by_name[parameters[i].name] = &parameters[i];
  for (const Layer& layer : architecture.layers) {
    format::KerasLayer made{
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

Result<Architecture> fromKeras(const format::KerasModel& model) try {
  Architecture architecture;
  std::set<std::string> names;
  for (const format::KerasLayer& given : model.layers) {
    const auto shape = inputShape(given.config);
    if (!shape.empty() && architecture.input.empty()) architecture.input = shape;
    if (given.type == "InputLayer") continue;
    if (given.type == kRescaling) {
      if (!architecture.layers.empty() || architecture.scaling) {
        return Error(Code::kInvalid,
                     fmt::format("the layer {}: Rescaling must be the first layer", given.name));
      }
      const auto scaling = readRescaling(given);
      if (!scaling) return scaling.error();
      architecture.scaling = *scaling;
      continue;
    }
    auto layer = LayerReader(given).read();
    if (!layer) return std::move(layer).error();
    if (!names.insert(layer->name).second) {
      return Error(Code::kInvalid, fmt::format("two layers are called {}", layer->name));
    }
    architecture.layers.push_back(std::move(*layer));
  }
  if (architecture.layers.empty()) return Error(Code::kInvalid, "the model has no layers");
  architecture.words = architecture.layers.front().type == LayerType::kEmbedding;
  if (architecture.words && architecture.scaling)
    return Error(Code::kInvalid, "numbers of words cannot be rescaled");
  return architecture;
} catch (const json::exception&) {
  return Error(Code::kInvalid, "a layer's configuration has a value of the wrong kind");
}

format::NamedArrays weightsFromKeras(const format::KerasModel& model,
                                     const Architecture& architecture) {
  format::NamedArrays weights;
  for (const Layer& layer : architecture.layers) {
    const auto given =
        std::find_if(model.layers.begin(), model.layers.end(),
                     [&](const format::KerasLayer& each) { return each.name == layer.name; });
    const auto names = weightNames(layer);
    if (given == model.layers.end() || given->weights.size() != names.size()) continue;
    for (std::size_t i = 0; i < names.size(); ++i) {
      const at::Tensor value = fromKerasLayout(layer.type, toTensor(given->weights[i].second));
      weights.emplace_back(layer.name + "." + names[i], toArray(value));
    }
  }
  return weights;
}

}  // namespace dure::train
