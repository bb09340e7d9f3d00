#include "format/keras_config.h"

#include <set>

#include <fmt/core.h>

#include "format/json_text.h"

namespace dure::format {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

bool isModel(const std::string& type) {
  return type == "Sequential" || type == "Functional" || type == "Model";
}

const json& member(const json& object, const char* key) {
  static const json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(key);
  return found != object.end() ? *found : kNothing;
}

Result<KerasLayer> readLayer(const json& entry, std::size_t number) {
  KerasLayer layer{.type = textAt(entry, "class_name"), .config = member(entry, "config")};
  const std::string what = fmt::format("layer {}", number);
  if (layer.type.empty()) return Error(Code::kInvalid, what + " has no class_name");
  if (!layer.config.is_object()) return Error(Code::kInvalid, what + " has no config");
  layer.name = textAt(layer.config, "name");
  if (layer.name.empty()) layer.name = textAt(entry, "name");
  if (layer.name.empty()) return Error(Code::kInvalid, what + " has no name");
  if (isModel(layer.type)) {
    return Error(Code::kInvalid, fmt::format("layer '{}' is itself a model ({}); nested models are "
                                             "not read",
                                             layer.name, layer.type));
  }
  if (textAt(layer.config, "data_format") == "channels_first") {
    return Error(
        Code::kInvalid,
        fmt::format("layer '{}' has data_format channels_first; only channels_last is read",
                    layer.name));
  }
  layer.config.erase("name");
  return layer;
}

// inbound_nodes is [[["previous", 0, 0, {}]]] where one layer follows another.
bool follows(const json& entry, const std::string& previous) {
  const json& nodes = member(entry, "inbound_nodes");
  if (previous.empty()) return nodes.is_array() && nodes.empty();
  if (!nodes.is_array() || nodes.size() != 1) return false;
  if (!nodes[0].is_array() || nodes[0].size() != 1) return false;
  const json& source = nodes[0][0];
  return source.is_array() && !source.empty() && source[0].is_string() &&
         source[0].get_ref<const std::string&>() == previous;
}

Status readLayers(const json& layers, bool functional, KerasModel& model) {
  if (!layers.is_array() || layers.empty()) return Error(Code::kInvalid, "there are no layers");
  std::set<std::string> names;
  for (const json& entry : layers) {
    auto layer = readLayer(entry, model.layers.size());
    if (!layer) return std::move(layer).error();
    if (!names.insert(layer->name).second) {
      return Error(Code::kInvalid, fmt::format("two layers are named '{}'", layer->name));
    }
    const std::string previous = model.layers.empty() ? "" : model.layers.back().name;
    if (functional && !follows(entry, previous)) {
      return Error(Code::kInvalid,
                   fmt::format("layer '{}' does not follow the one before it; only models that are "
                               "one chain of layers are read",
                               layer->name));
    }
    model.layers.push_back(*std::move(layer));
  }
  return {};
}

}  // namespace

Result<KerasModel> parseKerasConfig(const std::string& name, const json& config) {
  const std::string type = textAt(config, "class_name");
  if (!isModel(type)) {
    return Error(
        Code::kInvalid,
        fmt::format("{}: this is not a Keras model: its class_name is '{}', not Sequential", name,
                    type));
  }
  const bool functional = type != "Sequential";
  const json& inner = member(config, "config");
  KerasModel model;
  if (const std::string given = textAt(inner, "name"); !given.empty()) model.name = given;
  // Before Keras 2.2.3 a Sequential model's config was the list of layers itself.
  const json& layers = inner.is_array() && !functional ? inner : member(inner, "layers");
  if (auto read = readLayers(layers, functional, model); !read) {
    return std::move(read).error().during(name);
  }
  return model;
}

ordered_json kerasConfig(const KerasModel& model) {
  ordered_json layers = ordered_json::array();
  for (const KerasLayer& layer : model.layers) {
    ordered_json config = {{"name", layer.name}};
    for (const auto& [key, value] : layer.config.items()) config[key] = value;
    layers.push_back({{"class_name", layer.type}, {"config", std::move(config)}});
  }
  return {{"class_name", "Sequential"},
          {"config", {{"name", model.name}, {"layers", std::move(layers)}}}};
}

}  // namespace dure::format
